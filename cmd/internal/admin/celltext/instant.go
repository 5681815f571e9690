package celltext

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// BindConstants binds the flags that values in conditions need.
func (o *Flags) BindConstants(f *pflag.FlagSet) {
	o.bytes = "hex"
	f.StringVar(&o.timeFormat, "time-format", "rfc3339", timeFormatHelp)
	cli.Offer(f, "time-format", timeFormats...)
	o.bindZone(f)
	f.BoolVar(&o.decimalComma, "decimal-comma", false, "numbers may have a comma before their fraction, as 12,50; in a list of in, such a\nnumber is in quotation marks")
}

// Column returns what reads and writes values of the type that a field has.
func (f *Format) Column(d inspect.Field) (*Column, error) { return f.column(d, false) }

// exchanged reports whether the pattern has the day and the month of what looks like ISO 8601 the other way round.
func (f *Format) exchanged() bool {
	t, err := time.Parse(f.times.day, "2024-02-03")
	return f.times.day != "" && err == nil && t.Day() != 3
}

var withoutSeconds = regexp.MustCompile(`^(.{10,20}[T ][0-9]{2}:[0-9]{2})(Z|[-+].*)?$`)

// Instant reads a time as people write it in a condition: as --time-format says, as RFC 3339 has it, or without the
// offset, the seconds or the time. A date, also one of a pattern, is its first instant in the zone. With more than nine
// digits of a second the error is encode.ErrInexact, and the time is the one without the rest.
func (f *Format) Instant(text string) (time.Time, error) {
	d, notDay := f.parseDate(text)
	if f.times.unit != 0 || f.times.layout != "" {
		if t, err := f.parseTime(text); err == nil || notDay != nil && f.exchanged() {
			return t, err
		}
	}
	if notDay == nil {
		text = fmt.Sprintf("%s-%02d-%02dT00:00:00", yearText(d.Year), d.Month, d.Day)
	}
	t, offset, err := parseRFC3339(withoutSeconds.ReplaceAllString(text, "$1:00$2"))
	finer := errors.Is(err, encode.ErrInexact)
	if err != nil && !finer {
		return t, err
	}
	if !offset {
		if t, err = f.inZone(t); err != nil {
			return t, err
		}
	}
	if finer {
		return t, encode.ErrInexact
	}
	return t, nil
}
