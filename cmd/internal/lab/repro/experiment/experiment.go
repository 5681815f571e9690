// Package experiment says what an experiment of a paper is, how it is configured, and what it finds: curves, tables, and a verdict on
// each statement of the paper. It knows no flags and prints nothing.
package experiment

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store/kms"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Figure is a figure or table of a paper.
type Figure struct {
	Name   string // as it is asked for
	About  string // what it shows, in a line
	Source string // where it is published
	Stored bool   // it is measured in a database, which Config.Database must name
	Once   bool   // it has no rounds
	Loads  Loads  // how it puts rows
	Beside bool   // Config.Beside may name another one, which it is compared with
	Drawn  bool   // its result has curves, boxes or bars
	Run    func(ctx context.Context, cfg Config) (*Result, error)
}

// Loads says what of a configuration a figure goes by where it puts rows: 0 is nothing.
type Loads int

const (
	Batched Loads = iota + 1 // Config.Batch rows together
	Written                  // by Config.Writers as well
)

// Config says how to run an experiment.
type Config struct {
	Seed     uint64
	Quick    bool // with fewer repetitions
	Progress progress.Reporter

	// Of figures that are measured in a database.
	Database Database
	Beside   *Database // is measured in turns with it, of figures that take one; nil is none
	Rounds   int       // 0 is the figure's own number
	Batch    int       // rows that are sent together
	Writers  int       // batches that are under way together
}

// Size returns how large something is in the whole experiment or the quick one.
func (c Config) Size(whole, quick int) int {
	if c.Quick {
		return quick
	}
	return whole
}

// RoundsOr returns how many repetitions there are, where the configuration names no number.
func (c Config) RoundsOr(whole, quick int) int { return cmp.Or(c.Rounds, c.Size(whole, quick)) }

// A Database is where figures are measured.
type Database struct {
	Name    string // for a title
	DB      driver.DB
	Key     kms.KMS      // of the stores in DB
	Store   *bench.Store // in DB
	Replace bool         // drop tables that exist

	// Far opens it once more, for a client whose connections dial makes. It is nil where there are
	// none, as of an embedded database.
	Far func(ctx context.Context, dial stores.Dial) (driver.DB, error)

	// Disk has fill work on an empty database of the same kind, and returns how many bytes of the disk
	// each family takes then. It is nil where a database does not know.
	Disk func(ctx context.Context, fill func(ctx context.Context, db driver.DB) error) (map[string]uint64, error)
}

// A Result is what an experiment found: curves over a common axis, a table, or both, and what they
// say of the paper.
type Result struct {
	Title    string
	X, Y     string // titles of the axes, with units
	LogY     bool   // the curves are drawn on a logarithmic axis
	Runs     int    // repetitions that the curves are of
	Curves   []Curve
	Boxes    []Box     // in place of curves
	Bars     []Bar     // in place of curves
	Marks    []float64 // places on the X axis that a table shows, if there is no other table
	Table    *Table
	More     *Table   // is shown below the other one
	Notes    []string // what has to be known to read the table
	Findings []Finding
}

// A Curve is a line, or points that are not connected.
type Curve struct {
	Name   string
	Kin    string // curves of the same kin have one colour and differ in their dashes; "" has none
	Panel  string // curves of the same panel are drawn together, named by their kins; "" is the only one
	Paper  bool   // what the paper says, not what was measured
	Points []Point
}

// A Box is drawn for the quartiles of values, with lines to the least and greatest that are not far from them.
type Box struct {
	Group, Name string
	Values      []float64
}

// A Bar is drawn for a number, beside the others of its group. Bars of the same kin have one colour. Low and High are as in Point.
type Bar struct {
	Group, Name, Kin string
	Y, Low, High     float64
}

// A Point is a place on a curve. Low and High are the bounds of a 95 % confidence interval of Y,
// or 0 where there is none.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// A Table has a row for each thing that was measured, which the first columns name.
type Table struct {
	Columns []string
	Names   int    // how many columns name a row
	Words   []bool // of the columns: which of them hold words, not numbers
	Rows    [][]Cell
}

// A Cell is a place in a table. Number is what the text says in the unit of the column, where that
// is a number; Low and High are as in Point.
type Cell struct {
	Text      string
	Number    *float64
	Low, High float64
}

// Words returns a cell with a text.
func Words(format string, args ...any) Cell { return Cell{Text: fmt.Sprintf(format, args...)} }

// Numeral returns a cell with a number, written in the given number of decimals.
func Numeral(x float64, decimals int) Cell {
	text := fmt.Sprintf("%.*f", decimals, x)
	if decimals == 0 {
		text = Commas(x)
	}
	return Cell{Text: text, Number: &x}
}

// At returns the value of the curve at x, if it has a point there.
func (c Curve) At(x float64) (float64, bool) {
	for _, p := range c.Points {
		if p.X == x {
			return p.Y, true
		}
	}
	return 0, false
}

// A Finding says of one statement of the paper whether it holds here.
type Finding struct {
	Holds   bool
	Unclear bool // the measurements leave open whether it holds
	Text    string
}

// Verdict is a finding in a word.
func (f Finding) Verdict() string {
	switch {
	case f.Unclear:
		return "UNCLEAR"
	case f.Holds:
		return "HOLDS"
	}
	return "DIFFERS"
}

// Below marks all findings as made with less than the paper has.
func (r *Result) Below(paper string) {
	r.Notes = append(r.Notes, fmt.Sprintf("The paper's size is %s.", paper))
	for i := range r.Findings {
		r.Findings[i].Text += " (Not at the paper's size.)"
	}
}

// Bar returns what shows how far the experiment is.
func (c Config) Bar() progress.Reporter {
	if c.Progress == nil {
		return progress.None{}
	}
	return c.Progress
}

// Commas writes 20000 as 20,000.
func Commas(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// MeanOf says of how many runs something is the mean.
func MeanOf(runs int) string {
	if runs == 1 {
		return "one run"
	}
	return fmt.Sprintf("mean of %d runs", runs)
}

// Early notes that fewer rounds were done than planned.
func (r *Result) Early(planned int) {
	if r.Runs < planned {
		r.Notes = append(r.Notes, fmt.Sprintf("It ended early: %d of %d rounds.", r.Runs, planned))
	}
}
