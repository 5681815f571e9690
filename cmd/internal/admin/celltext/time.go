package celltext

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// A timeFormat says how times are written.
type timeFormat struct {
	unit   time.Duration // of a number since 1970; 0 where there is a layout
	layout string        // of Go, without the fraction of a second; "" is RFC 3339
	shown  string        // the same with the fraction
	day    string        // the layout of a date: without what says the time of day; "" is ISO 8601
	offset bool          // the layout has one
	name   string
}

// directives are those of a pattern, as layouts of Go have them.
var directives = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'I': "03", 'p': "PM", 'z': "-0700",
	'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday", 'j': "002", 'e': "_2", 'F': "2006-01-02", 'T': "15:04:05",
}

// unpadded are those with a hyphen, as %-d, whose numbers are written without a zero before them.
var unpadded = map[byte]string{'m': "1", 'd': "2", 'I': "3"}

// directive returns the layout of the one that a text begins with, after its %, its letter, and how long it is.
func directive(text string) (layout string, letter byte, size int) {
	if text[0] == '-' && len(text) > 1 {
		return unpadded[text[1]], text[1], 2
	}
	return directives[text[0]], text[0], 1
}

// parseTimeFormat returns the format of a name or pattern.
func parseTimeFormat(text string) (timeFormat, error) {
	f := timeFormat{name: text}
	switch text {
	case "rfc3339":
		return f, nil
	case "unix":
		f.unit = time.Second
		return f, nil
	}
	if unit, ok := strings.CutPrefix(text, "unix-"); ok && unit != "s" && units[unit] != 0 {
		f.unit = units[unit]
		return f, nil
	}
	wrong := func(why string) (timeFormat, error) {
		return f, exit.Usagef("--time-format %q: %s; there is rfc3339, unix, unix-ms, unix-us and unix-ns, and patterns of %%Y %%m %%d %%H %%M %%S %%f %%z, "+
			"%%y %%I %%p %%b %%B %%a %%A %%j %%e %%F %%T %%-d %%-m %%-I and %%%%, with the signs between them", text, why)
	}
	if !strings.Contains(text, "%") {
		return wrong("it is neither a name nor a pattern")
	}
	has := map[byte]bool{}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '%' && i+1 == len(text):
			return wrong("it ends with %")
		case c == '%':
			i++
			layout, letter, size := directive(text[i:])
			switch {
			case text[i] == '%':
				layout = "%"
			case text[i] == 'f' && i >= 4 && strings.ContainsRune(".,", rune(text[i-2])) && (text[i-3] == 'S' || text[i-3] == 'T') && text[i-4] == '%':
				// Go reads a fraction after the seconds in any case.
				f.layout = f.layout[:len(f.layout)-1]
				f.shown += "999999999"
				continue
			case text[i] == 'f':
				return wrong("%f stands after %S and a point or comma only")
			case layout == "":
				return wrong(fmt.Sprintf("%%%s is not known", text[i:i+size]))
			}
			has[letter] = true
			i += size - 1
			f.layout += layout
			f.shown += layout
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' && c != 'T' && c != 'Z' || c == '_':
			return wrong(fmt.Sprintf("%q is no sign between the parts of a time", c))
		default:
			f.layout += text[i : i+1]
			f.shown += text[i : i+1]
		}
	}
	day := has['F'] || (has['Y'] || has['y']) && (has['j'] || (has['m'] || has['b'] || has['B']) && (has['d'] || has['e']))
	switch {
	case !day:
		return wrong("it does not say the year, the month and the day")
	case has['I'] != has['p']:
		return wrong("%I and %p belong together")
	}
	f.offset = has['z']
	f.day = dayLayout(text)
	return f, nil
}

// dayLayout returns the layout of the dates in a pattern. What says the time of day falls out, with the signs before it.
// Where there is such, so do the signs at both ends, but for letters right after a part of the date, as in %d日.
func dayLayout(pattern string) string {
	var before, day, signs string
	times := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c != '%' || pattern[i+1] == '%' {
			signs += pattern[i : i+1]
			if c == '%' {
				i++
			}
			continue
		}
		layout, letter, size := directive(pattern[i+1:])
		switch {
		case strings.IndexByte("HMSfIpzT", letter) >= 0:
			if !times && day != "" {
				day += signs[:len(signs)-len(strings.TrimLeftFunc(signs, func(r rune) bool { return r > 'Z' && unicode.IsLetter(r) }))]
			}
			times = true
		case day == "":
			before, day = signs, layout
		default:
			day += signs + layout
		}
		signs = ""
		i += size
	}
	if times {
		return day
	}
	return before + day + signs
}

const unixNumbers = "--time-format unix, unix-ms, unix-us or unix-ns reads numbers"

func (f *Format) timestamp(name string, unit time.Duration) codec {
	exact := encode.Time(unit)
	plain := func(text string) (time.Time, error) {
		if len(text) == len(time.DateOnly) {
			text += "T00:00:00Z"
		}
		t, _, err := parseRFC3339(text)
		return t, err
	}
	t := &typed[time.Time]{
		name: name, exact: &exact, plain: plain, from: func(text string) (time.Time, error) { return f.parseTime(text) },
		into: func(v any) (t time.Time, err error) {
			switch v := v.(type) {
			case Local:
				return f.inZone(v.Time)
			case encode.CivilDate:
				return f.inZone(time.Date(v.Year, v.Month, v.Day, 0, 0, 0, 0, time.UTC))
			}
			if n, ok := v.(int64); ok && f.times.unit != 0 {
				return f.parseTime(strconv.FormatInt(n, 10))
			} else if ok {
				return t, fmt.Errorf("%w; %s", wrongKind(v, name), unixNumbers)
			}
			return t, wrongKind(v, name)
		},
		to: f.timeText,
	}
	if f.times.unit != 0 {
		t.number = t.from
	} else {
		t.numbers = "; " + unixNumbers
	}
	return t
}

// inZone returns the time at which clocks in the zone show what t shows in UTC. A time that they show twice or skip is
// an error: nobody can say which is meant.
func (f *Format) inZone(t time.Time) (time.Time, error) {
	if f.zone == nil {
		f.assumed.Store(true)
		return t, nil
	}
	there := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), f.zone)
	if there.Second() != t.Second() || there.Minute() != t.Minute() || there.Hour() != t.Hour() || there.Day() != t.Day() {
		return t, errors.New("a time that clocks of --zone skip")
	}
	for _, other := range []time.Duration{-26 * time.Hour, -3 * time.Hour, 3 * time.Hour, 26 * time.Hour} { // some zones changed their side of the date line
		_, here := there.Zone()
		if _, offset := there.Add(other).Zone(); offset != here {
			twin := there.Add(time.Duration(here-offset) * time.Second)
			if _, o := twin.Zone(); o == offset && !twin.Equal(there) {
				return t, errors.New("a time that clocks of --zone show twice, so that it needs an offset")
			}
		}
	}
	return there.UTC(), nil
}

// parseTime returns the time of a text, in UTC.
func (f *Format) parseTime(text string) (time.Time, error) {
	if f.times.unit != 0 {
		return parseUnix(text, f.times)
	}
	if f.times.layout == "" {
		t, offset, err := parseRFC3339(text)
		switch {
		case errors.Is(err, errTime):
			return t, errForms
		case err != nil || offset:
			return t, err
		}
		return f.inZone(t)
	}
	t, err := f.times.parse(f.times.layout, text)
	switch {
	case errors.Is(err, encode.ErrInexact):
		return t, valueError{"a time with more than nine digits of a second", err}
	case errors.Is(err, errWeekday):
		return t, err
	case err != nil:
		return t, fmt.Errorf("not a time like %s, as --time-format %s has it%s", exampleTime.Format(f.times.layout), f.times.name,
			f.times.oneDigit(text, func(other timeFormat) string { return other.layout }))
	case f.times.offset:
		return t.UTC(), nil
	}
	return f.inZone(t)
}

var exampleTime = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// oneDigit says of a text that the format does not read whether one digit is the reason, where the format has two. The
// layout is the one that the text is read by.
func (f timeFormat) oneDigit(text string, layout func(timeFormat) string) string {
	pattern, padded := "", []string{}
	for i := 0; i < len(f.name); i++ {
		if f.name[i] != '%' {
			pattern += f.name[i : i+1]
			continue
		}
		i++
		letter := f.name[i]
		switch {
		case letter == 'F':
			pattern, padded = pattern+"%Y-%-m-%-d", append(padded, "%F")
		case unpadded[letter] != "" && i+1 < len(f.name) && f.name[i+1] == '%' && !strings.HasPrefix(f.name[i+1:], "%%"):
			return "" // nobody can say where such a number ends
		case unpadded[letter] != "":
			pattern, padded = pattern+"%-"+string(letter), append(padded, "%"+string(letter))
		default:
			pattern += "%" + string(letter)
		}
	}
	other, err := parseTimeFormat(pattern)
	if err != nil || len(padded) == 0 {
		return ""
	}
	if _, err := other.parse(layout(other), text); err != nil {
		return ""
	}
	return fmt.Sprintf("; a number of one digit is none for %s: --time-format '%s' takes it, too", strings.Join(padded, ", "), pattern)
}

var errWeekday = errors.New("a date whose day of the week is another")

// parse reads a text by a layout. Letters may be large or small.
func (f timeFormat) parse(layout, text string) (time.Time, error) {
	text = strings.Map(func(r rune) rune { // AM and PM have to be so, and no layout has such a letter as it is
		if r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, text)
	t, err := encode.ParseTime(layout, text)
	if err == nil && strings.Contains(layout, "Mon") && !strings.Contains(text, strings.ToUpper(t.Format("Mon"))) {
		return t, errWeekday
	}
	return t, err
}

// parseUnix reads a number of units since 1970, which may have a fraction.
func parseUnix(text string, f timeFormat) (t time.Time, err error) {
	d, err := encode.ParseDecimal(text)
	if err != nil || len(text) > 40 {
		return t, fmt.Errorf("not a number of --time-format %s", f.name)
	}
	places := int32(0) // of the nanoseconds
	for u := f.unit; u > 1; u /= 10 {
		places++
	}
	nanos, ok := rescaled(d, places)
	if !ok {
		return t, valueError{"a time that is finer than a nanosecond", encode.ErrInexact}
	}
	const perSecond = 1_000_000_000
	if nanos.IsInt64() {
		return time.Unix(0, nanos.Int64()).UTC(), nil
	}
	seconds, rest := nanos.DivMod(nanos, bigSecond, new(big.Int))
	if !seconds.IsInt64() {
		return t, beyond("timestamp")
	}
	return time.Unix(seconds.Int64(), rest.Int64()%perSecond).UTC(), nil
}

// A year of more than four digits, or before the year 0, has a sign, as ISO 8601 has it. The calendar is the same after
// 400 years.
const (
	calendarYears = 400
	calendarDays  = 146_097
)

// cutYear returns a text with a year that Go reads, and the number of times 400 years were taken away.
func cutYear(text string) (string, int64, bool) {
	if text == "" || text[0] != '-' && text[0] != '+' {
		return text, 0, true
	}
	end := strings.IndexByte(text[1:], '-') + 1
	if end < 5 || end > 13 {
		return text, 0, false
	}
	year, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil || year >= 0 && year <= 9999 {
		return text, 0, false
	}
	times := year / calendarYears
	if year %= calendarYears; year < 0 {
		year, times = year+calendarYears, times-1
	}
	return fmt.Sprintf("%04d", year+2000) + text[end:], times - 5, true
}

// yearText returns a year as cutYear reads it.
func yearText(year int) string {
	if year >= 0 && year <= 9999 {
		return fmt.Sprintf("%04d", year)
	}
	return fmt.Sprintf("%+05d", year)
}

// The errors of a text that is no time, also in a file.
var (
	errTime  = errors.New("not a time like 2024-02-29T12:00:00.5Z")
	errLeap  = errors.New("a leap second, which no column keeps: write the second before it, or the one after it")
	errForms = fmt.Errorf("%w or 2024-02-29 12:00:00, where --zone says the offset; --time-format reads other forms", errTime)
)

// parseRFC3339 reads a time with or without an offset, and with T or a blank between the date and the time. One without
// is returned as if it were in UTC.
func parseRFC3339(text string) (t time.Time, offset bool, err error) {
	short, times, ok := cutYear(text)
	if !ok || len(short) < len("2006-01-02T15:04") || short[10] != 'T' && short[10] != ' ' && short[10] != 't' {
		return t, false, errTime
	}
	short = short[:10] + "T" + short[11:]
	layout := "2006-01-02T15:04:05"
	if end := len(short); short[end-1] == 'Z' || short[end-1] == 'z' {
		short, offset, layout = short[:end-1]+"Z", true, layout+"Z07:00"
	} else if at := strings.LastIndexAny(short, "+-"); at > 10 {
		offset = true
		switch len(short) - at {
		case len("+01"):
			layout += "Z07"
		case len("+0100"):
			layout += "Z0700"
		default:
			layout += "Z07:00"
		}
		if hours := short[at+1:]; len(hours) < 2 || hours[:2] > "23" || len(hours) > 3 && hours[len(hours)-2:] > "59" {
			return t, false, errTime
		}
	}
	t, err = encode.ParseTime(layout, short)
	finer := errors.Is(err, encode.ErrInexact)
	switch {
	case finer:
	case err != nil && strings.HasPrefix(short[16:], ":60"):
		if _, err := time.Parse(layout, short[:16]+":59"+short[19:]); err == nil {
			return t, offset, errLeap
		}
		return t, offset, errTime
	case err != nil:
		return t, offset, errTime
	}
	if times != 0 {
		at := time.Unix(t.Unix()+times*calendarDays*24*60*60, int64(t.Nanosecond())).In(t.Location())
		if int64(at.Year()) != int64(t.Year())+times*calendarYears { // the seconds have wrapped around
			return t, offset, beyond("timestamp")
		}
		t = at
	}
	if finer {
		return t.UTC(), offset, valueError{"a time with more than nine digits of a second", err}
	}
	return t.UTC(), offset, nil
}

// timeText returns the text of a time.
func (f *Format) timeText(t time.Time) (string, error) {
	if f.times.unit != 0 {
		return unixText(t, f.times.unit), nil
	}
	zone := time.UTC
	if f.zone != nil {
		zone = f.zone
	}
	if f.times.layout == "" {
		t = t.In(zone)
		if _, offset := t.Zone(); offset%60 != 0 {
			t = t.UTC() // no text has the seconds of a local mean time
		}
		return yearText(t.Year()) + t.Format("-01-02T15:04:05.999999999Z07:00"), nil
	}
	if zone == time.UTC && f.times.offset {
		t = t.UTC()
	}
	if f.zone == nil && !f.times.offset {
		f.unsaid.Store(true)
	}
	text := t.In(zone).Format(f.times.shown)
	if back, err := f.readBack(text); err != nil || !back.Equal(t) {
		return "", fmt.Errorf("a time that --time-format %s cannot write so that it can be read again: take another format, or none", f.times.name)
	}
	return text, nil
}

// readBack reads a text that was written, which assumes nothing.
func (f *Format) readBack(text string) (time.Time, error) {
	was := f.assumed.Load()
	t, err := f.parseTime(text)
	if !was {
		f.assumed.Store(false)
	}
	return t, err
}

// unixText returns the number of units since 1970, with a fraction where it needs one.
func unixText(t time.Time, unit time.Duration) string {
	per := int64(time.Second / unit)
	n := big.NewInt(t.Unix())
	n.Mul(n, big.NewInt(per))
	nanos := int64(t.Nanosecond())
	n.Add(n, big.NewInt(nanos/int64(unit)))
	places := len(strconv.FormatInt(int64(unit), 10)) - 1
	rest := nanos % int64(unit)
	if rest == 0 {
		return n.String()
	}
	n.Mul(n, big.NewInt(int64(unit)))
	n.Add(n, big.NewInt(rest))
	text := encode.Decimal{Unscaled: n, Scale: int32(places)}.String()
	return strings.TrimRight(text, "0")
}

func (f *Format) date() codec {
	exact := encode.Date()
	return &typed[encode.CivilDate]{
		name: "date", exact: &exact, from: f.parseDate, plain: parseISODate,
		into: func(v any) (d encode.CivilDate, err error) {
			t, ok := v.(time.Time)
			if local, is := v.(Local); is {
				t, ok = local.Time, true
			}
			if !ok {
				return d, wrongKind(v, "date")
			}
			if t.Hour()|t.Minute()|t.Second()|t.Nanosecond() != 0 {
				return d, valueError{"a time that is not the beginning of a day", encode.ErrInexact}
			}
			return encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}, nil
		},
		to: f.dateText,
	}
}

var errDate = errors.New("not a date like 2024-02-29")

func parseISODate(text string) (d encode.CivilDate, err error) {
	short, times, ok := cutYear(text)
	if !ok {
		return d, errDate
	}
	t, err := time.Parse(time.DateOnly, short)
	if err != nil {
		return d, errDate
	}
	year := int64(t.Year()) + times*calendarYears
	return encode.CivilDate{Year: int(year), Month: t.Month(), Day: t.Day()}, nil
}

// parseDate reads a date as the date of the pattern, or as ISO 8601 has it where no such text could be one of the pattern.
func (f *Format) parseDate(text string) (encode.CivilDate, error) {
	if f.times.day == "" {
		d, err := parseISODate(text)
		switch {
		case err != nil && f.times.unit != 0:
			err = fmt.Errorf("%w: --time-format %s is about times, and leaves dates as they are", err, f.times.name)
		case err != nil:
			err = fmt.Errorf("%w; --time-format reads other forms", err)
		}
		return d, err
	}
	t, err := f.times.parse(f.times.day, text)
	switch {
	case errors.Is(err, errWeekday):
		return encode.CivilDate{}, err
	case err != nil:
		if _, err := time.Parse(f.times.day, "2024-02-03"); err != nil {
			if d, err := parseISODate(text); err == nil {
				return d, nil
			}
		}
		return encode.CivilDate{}, fmt.Errorf("not a date like %s, as --time-format %s has it%s", exampleTime.Format(f.times.day), f.times.name,
			f.times.oneDigit(text, func(other timeFormat) string { return other.day }))
	}
	return encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}, nil
}

func (f *Format) dateText(d encode.CivilDate) (string, error) {
	if f.times.day == "" {
		return fmt.Sprintf("%s-%02d-%02d", yearText(d.Year), d.Month, d.Day), nil
	}
	text := time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Format(f.times.day)
	if back, err := f.parseDate(text); err != nil || back != d {
		return "", fmt.Errorf("a date that --time-format %s cannot write so that it can be read again: take another format, or none", f.times.name)
	}
	return text, nil
}
