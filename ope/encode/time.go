package encode

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Time returns the codec of instants at a resolution of a nanosecond, microsecond, millisecond or
// second; it panics for another unit. The code is the number of units since 1970-01-01 00:00 UTC,
// which spans the years 1678 to 2261 at a nanosecond and is more than enough at the others.
//
// A time that is not a multiple of the unit is [ErrInexact]: use t.Truncate(unit) if that is
// meant. The location and the monotonic clock are no part of the instant; times decode in UTC.
func Time(unit time.Duration) Exact[time.Time] {
	var name, written string
	switch unit {
	case time.Nanosecond:
		name, written = "ns", "Nanosecond"
	case time.Microsecond:
		name, written = "us", "Microsecond"
	case time.Millisecond:
		name, written = "ms", "Millisecond"
	case time.Second:
		name, written = "s", "Second"
	default:
		panic("encode: the unit of Time must be a nanosecond, microsecond, millisecond or second")
	}
	domain := ope.Int64
	if unit == time.Second {
		// time.Time counts seconds from the year 1 in an int64, and wraps around above this.
		domain.Max = math.MaxInt64 - secondsBefore1970
	}
	perSecond := int64(time.Second / unit)
	return Exact[time.Time]{
		codec[time.Time]{"time/1 unit=" + name, domain, func(t time.Time) (place, error) {
			// The code is seconds * perSecond + units, with units in [0, perSecond).
			seconds, nanoseconds := t.Unix(), int64(t.Nanosecond())
			if seconds > math.MaxInt64-secondsBefore1970 {
				// Unix has wrapped around: the time is before the earliest one.
				return place{beyond: -1}, nil
			}
			hi, lo := bits.Mul64(magnitude(seconds), uint64(perSecond))
			units := uint64(nanoseconds / int64(unit))
			between := nanoseconds%int64(unit) != 0
			if seconds >= 0 {
				lo, carry := bits.Add64(lo, units, 0)
				if hi+carry != 0 || lo > math.MaxInt64 {
					return place{beyond: 1}, nil
				}
				return place{code: int64(lo), between: between}, nil
			}
			lo, borrow := bits.Sub64(lo, units, 0) // of the magnitude: units point upwards
			if hi-borrow != 0 || lo > 1<<63 {
				return place{beyond: -1}, nil
			}
			return place{code: int64(-lo), between: between}, nil
		}},
		func(code int64) (time.Time, error) {
			return time.Unix(code/perSecond, code%perSecond*int64(unit)).UTC(), nil
		},
		fmt.Sprintf("a time in %[1]ss: truncate it with Truncate(time.%[2]s)", strings.ToLower(written), written),
	}
}

// secondsBefore1970 is the time from the year 1, the origin of time.Time, to 1970.
const secondsBefore1970 = 62_135_596_800

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// CivilDate is a day of the proleptic Gregorian calendar, without a time or a place. The year 0
// is the one before the year 1. Its fields are those of the Date type of
// cloud.google.com/go/civil, so that each converts to the other.
type CivilDate struct {
	Year  int
	Month time.Month
	Day   int
}

// Date returns the codec of calendar days. The code is the number of days since 1970-01-01, in 32
// bits as in CQL, which spans 5.8 million years in both directions. A day that the calendar does
// not have is [ErrInvalid].
func Date() Exact[CivilDate] {
	return Exact[CivilDate]{
		codec[CivilDate]{"date/1", ope.Int32, func(d CivilDate) (place, error) {
			if d.Month < 1 || d.Month > 12 || d.Day < 1 || d.Day > daysIn(d.Year, d.Month) {
				return place{}, fmt.Errorf("%w: the calendar has no such day", ErrInvalid)
			}
			switch {
			case d.Year > 6_000_000:
				return place{beyond: 1}, nil
			case d.Year < -6_000_000:
				return place{beyond: -1}, nil
			}
			return place{code: daysSince1970(d)}, nil
		}},
		func(code int64) (CivilDate, error) { return dateOf(code), nil },
		"",
	}
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

const (
	daysPerEra  = 146_097 // 400 years, after which the calendar repeats
	daysTo1970  = 719_468 // from 0000-03-01
	yearsPerEra = 400
)

// daysSince1970 counts in years that begin in March, so that the leap day is the last one.
func daysSince1970(d CivilDate) int64 {
	year, month := int64(d.Year), int64(d.Month)-3
	if month < 0 {
		year, month = year-1, month+12
	}
	era := floorDiv(year, yearsPerEra)
	year -= era * yearsPerEra
	// From March on, the lengths of the months repeat 31, 30, 31, 30, 31: 153 days in 5 months.
	day := year*365 + year/4 - year/100 + (153*month+2)/5 + int64(d.Day) - 1
	return era*daysPerEra + day - daysTo1970
}

func dateOf(days int64) CivilDate {
	days += daysTo1970
	era := floorDiv(days, daysPerEra)
	days -= era * daysPerEra
	// Take out the leap days before dividing by 365: one in 4 years, but not in 100, but in 400.
	year := (days - days/1460 + days/36524 - days/146096) / 365
	days -= year*365 + year/4 - year/100
	month := (5*days + 2) / 153
	day := days - (153*month+2)/5 + 1
	year += era * yearsPerEra
	if month += 3; month > 12 {
		year, month = year+1, month-12
	}
	return CivilDate{int(year), time.Month(month), int(day)}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
