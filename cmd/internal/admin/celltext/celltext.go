// Package celltext turns the texts of files and command lines into the values of columns, and back: what is written is
// read as the very same value, down to the bits of a number and the nanoseconds of a time.
//
// Null has no text. A cell of CSV is null if it is empty and not quoted, or has a text of --null and is not quoted;
// "" in quotes is the empty text. Columns other than string and bytes have no empty text, so that there "" is null, too.
package celltext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// Flags say how values are written.
type Flags struct {
	timeFormat, zone, thousands, bytes string
	decimalComma                       bool
	nulls                              []string
}

// Bind binds the flags of values that are written, and of those that are read.
func (o *Flags) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.timeFormat, "time-format", "rfc3339", timeFormatHelp)
	o.bindZone(f)
	f.BoolVar(&o.decimalComma, "decimal-comma", false, "numbers have a comma before their fraction, as 12,50")
	f.StringVar(&o.bytes, "bytes", "hex", "how byte strings are written: `hex or base64`")
	f.StringArrayVar(&o.nulls, "null", nil, "a `text` that stands for null in CSV where it is not quoted, beside the empty cell;\ngive the flag again for more of them")
	cli.Offer(f, "time-format", timeFormats...)
	cli.Offer(f, "bytes", "hex", "base64")
}

const timeFormatHelp = "how times are written, as a `format`: rfc3339, unix, unix-ms, unix-us, unix-ns,\nor a pattern such as '%d.%m.%Y %H:%M:%S.%f %z', whose %d.%m.%Y is for dates"

// timeFormats are offered to shells, with patterns that are often meant.
var timeFormats = []string{"rfc3339", "unix", "unix-ms", "unix-us", "unix-ns", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S"}

func (o *Flags) bindZone(f *pflag.FlagSet) {
	f.StringVar(&o.zone, "zone", "", "the time `zone` of times without an offset, such as Europe/Berlin (default UTC)")
}

// BindRead binds also what only values have that are read: numbers are written without marks between thousands.
func (o *Flags) BindRead(f *pflag.FlagSet) {
	o.Bind(f)
	f.StringVar(&o.thousands, "thousands", "", "the `character` between thousands of numbers, such as '.'; they may also be without it,\nand never have a 0 before the first")
}

// Said returns what the flags say, as a text that differs where values may be read otherwise.
func (o *Flags) Said() string { return fmt.Sprintf("%+v", *o) }

// Format checks the flags.
func (o *Flags) Format() (*Format, error) {
	f := &Format{base64: o.bytes == "base64", comma: o.decimalComma, thousands: o.thousands, Nulls: o.nulls}
	if !f.base64 && o.bytes != "hex" {
		return nil, exit.Usagef("--bytes %q: there is hex and base64", o.bytes)
	}
	if o.thousands != "" && !slices.Contains([]string{",", ".", " ", "'", "_", "\u00a0", "\u202f", "’"}, o.thousands) {
		return nil, exit.Usagef("--thousands %q: there is , . ' _ and the spaces", o.thousands)
	}
	if point := f.point(); o.thousands == point {
		return nil, exit.Usagef("--thousands %s: that stands before the fraction; without --decimal-comma it is a point, with it a comma", point)
	}
	var err error
	if f.times, err = parseTimeFormat(o.timeFormat); err != nil {
		return nil, err
	}
	if o.zone != "" {
		if f.zone, err = time.LoadLocation(o.zone); err != nil || o.zone == "Local" {
			return nil, exit.Usagef("--zone %q is no time zone that this computer knows; name one such as Europe/Berlin or UTC", o.zone)
		}
	}
	for _, null := range o.nulls {
		if strings.ContainsAny(null, "\"\r\n") {
			return nil, exit.Usagef("--null: the text has a quotation mark or the end of a line, which a cell without quotes cannot have")
		}
	}
	return f, nil
}

// A Format says how values are written. Columns of one Format may be used from several goroutines.
type Format struct {
	base64    bool
	comma     bool
	thousands string
	times     timeFormat
	zone      *time.Location // of times without offset; nil is UTC, which is assumed then
	assumed   atomic.Bool    // a time was read so
	unsaid    atomic.Bool    // a time was written so
	blank     atomic.Bool    // null was written as a blank line

	// Nulls are the texts that stand for null beside the empty cell.
	Nulls []string
}

func (f *Format) point() string {
	if f.comma {
		return ","
	}
	return "."
}

// Assumed says what was assumed of the times that were read or written since the last call, or of null, and how to change it.
func (f *Format) Assumed() (said []string) {
	if f.assumed.Swap(false) {
		said = append(said, "times without an offset are taken as UTC; --zone names another time zone")
	}
	if f.unsaid.Swap(false) {
		said = append(said, "times are written in UTC, which --time-format does not show; --zone names another time zone, and %z shows it")
	}
	if f.blank.Swap(false) {
		said = append(said, "null is a blank line, which many programs skip: --null NULL, say, writes a word for it, and is needed where the file is read")
	}
	return said
}

// DecimalComma reports whether numbers have a comma before their fraction.
func (f *Format) DecimalComma() bool { return f.comma }

// A Kind says how a row has a cell.
type Kind int

// The kinds.
const (
	Null    Kind = iota
	Bare         // a text of CSV without quotes
	Quoted       // a text of CSV in quotes
	String       // a text of JSON
	Literal      // true, false or a number of JSON
	Typed        // a Value
)

// A Cell is what a row of a file has in a field.
type Cell struct {
	Kind Kind
	Text string // unless it is Typed

	// Value of a Typed one is an int64, uint64, float32, float64, bool, string, []byte, [16]byte, encode.Decimal,
	// encode.CivilDate, time.Time or Local.
	Value any
}

// A Local is a time without an offset.
type Local struct{ Time time.Time } // in UTC, as if it were there

// A Column reads and writes the values of a column or key part.
type Column struct {
	Name   string
	Type   string // without bounds
	Key    bool   // a part of the row key
	Tie    bool   // the tie-breaker
	Scale  int32  // of a decimal
	Unit   time.Duration
	format *Format
	codec  codec
	text   bool // an empty text is a value
	nan    bool // NaN is taken
}

// Columns returns what reads and writes the values of the key parts of a table and its columns, in this order.
func (f *Format) Columns(s store.Schema) ([]*Column, error) {
	var columns []*Column
	add := func(d inspect.Field, key bool) error {
		c, err := f.column(d, key)
		columns = append(columns, c)
		return err
	}
	for _, p := range s.Key {
		if err := add(p.Describe(), true); err != nil {
			return nil, err
		}
	}
	for _, c := range s.Columns {
		if err := add(c.Describe(), false); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// Base returns the type of which a type has the values, without what it is ordered by and after, and its bounds.
func Base(typ string) (base, bounds string) {
	if strings.HasPrefix(typ, "string after ") {
		return "string", ""
	}
	base, bounds, _ = strings.Cut(typ, " from ")
	for _, text := range []string{"string", "bytes"} {
		if strings.HasPrefix(base, text+"(") {
			base = text
		}
	}
	return base, bounds
}

// column returns that of a part or column. A tie-breaker is written as a UUID.
func (f *Format) column(d inspect.Field, key bool) (*Column, error) {
	typ, bounds := Base(d.Type)
	if d.Encryption == "tie" {
		typ = "uuid"
	}
	c := &Column{Name: d.Name, Type: typ, Key: key, Tie: d.Encryption == "tie", format: f, text: typ == "string" || typ == "bytes"}
	c.nan = !key && (d.Encryption == "randomised" || d.Encryption == "plain")
	var err error
	if c.codec, err = f.codecOf(c); err == nil && bounds != "" {
		least, greatest, _ := strings.Cut(bounds, " to ")
		err = c.codec.restrict(least, greatest)
	}
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", d.Name, err)
	}
	return c, nil
}

// oftenNull are texts that stand for null in many files.
var oftenNull = []string{"na", "n/a", "null", "nil", "none", `\n`, "-", "#n/a", "nan"}

// errNull is returned for null where a value is needed.
var errNull = errors.New("no value")

// Parse returns the value of a text. A value of the type that is beyond the bounds of the column is returned with an
// error, which is ope.ErrDomain. Errors do not have the text.
func (c *Column) Parse(text string) (any, error) {
	if text == "" && !c.text {
		return nil, errNull
	}
	v, err := c.parse(text)
	return v, c.checkNaN(v, err)
}

// parse reads a text as the codec does. Where only blanks around it keep it from being a value, the error says so.
func (c *Column) parse(text string) (any, error) {
	v, err := c.codec.parse(text)
	if trimmed := strings.TrimSpace(text); err != nil && trimmed != text {
		if _, bad := c.codec.parse(trimmed); bad == nil || slices.Contains(c.format.Nulls, trimmed) {
			err = fmt.Errorf("%w; blanks around it are not allowed", err)
		}
	}
	return v, err
}

// Text returns the text of a value that is not null, which Parse reads as that value. An error is of a time that
// --time-format cannot write, for example.
func (c *Column) Text(v any) (string, error) { return c.codec.text(v) }

// HasEmpty reports whether the empty text is a value of the column.
func (c *Column) HasEmpty() bool { return c.text }

// SayBlank lets [Format.Assumed] say that null was written as a blank line.
func (c *Column) SayBlank() { c.format.blank.Store(true) }

// Value returns the value of a cell, nil for null. Errors do not have it.
func (c *Column) Value(cell Cell) (any, error) {
	var v any
	var err error
	switch cell.Kind {
	case Null:
		return nil, nil
	case Bare:
		if cell.Text == "" || slices.Contains(c.format.Nulls, cell.Text) {
			return nil, nil
		}
		if v, err = c.parse(cell.Text); err != nil && slices.Contains(oftenNull, strings.ToLower(cell.Text)) {
			err = fmt.Errorf("%w; if the text stands for null, name it with --null", err)
		}
	case Quoted:
		if cell.Text == "" && !c.text {
			return nil, nil
		}
		v, err = c.parse(cell.Text)
	case String:
		if cell.Text == "" && !c.text {
			return nil, errors.New("an empty text, which is no value of type " + c.Type + "; null is written as null")
		}
		v, err = c.parse(cell.Text)
	case Literal:
		v, err = c.codec.literal(cell.Text)
	default:
		if text, ok := cell.Value.(string); ok {
			v, err = c.parse(text)
		} else {
			v, err = c.codec.convert(cell.Value)
		}
	}
	return v, c.checkNaN(v, err)
}

func (c *Column) checkNaN(v any, err error) error {
	if err == nil && !c.nan && isNaN(v) {
		return errors.New("NaN, which only randomised and plain columns take: it is equal to nothing and found by nothing")
	}
	return err
}
