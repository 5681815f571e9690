// Package repro repeats the experiments behind figures and tables of papers, on the schemes of this
// module, and compares. It knows no flags and prints nothing.
//
// Each file beside this one holds a family of figures, which are listed in [Figures].
package repro

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
)

// A Figure is a figure or table of a paper.
type Figure struct {
	Name   string // as it is asked for
	About  string // what it shows, in a line
	Source string // where it is published
	Run    func(ctx context.Context, cfg Config) (*Result, error)
}

// Figures returns all figures that can be reproduced.
func Figures() []Figure {
	return slices.Concat(waageSamplings)
}

// Find returns the figure with a name.
func Find(name string) (Figure, error) {
	var names []string
	for _, f := range Figures() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Figure{}, fmt.Errorf("unknown figure %q: there is %s", name, strings.Join(names, ", "))
}

// Config says how to run an experiment.
type Config struct {
	Seed     uint64
	Quick    bool // with fewer repetitions
	Progress bench.Progress
}

// A Result is what an experiment found: curves over a common axis, and what they say of the paper.
type Result struct {
	Title    string
	X, Y     string // titles of the axes, with units
	Runs     int    // repetitions that the curves are means of
	Curves   []Curve
	Marks    []float64 // places on the X axis that a table shows
	Findings []Finding
}

// A Curve is a line, or points that are not connected.
type Curve struct {
	Name   string
	Paper  bool // what the paper says, not what was measured
	Points []Point
}

// A Point is a place on a curve.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
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
	Holds bool
	Text  string
}

type noProgress struct{}

func (noProgress) Start(string, int) {}
func (noProgress) Add(int)           {}
func (noProgress) Done()             {}

func progress(cfg Config) bench.Progress {
	if cfg.Progress == nil {
		return noProgress{}
	}
	return cfg.Progress
}

// commas writes 20000 as 20,000.
func commas(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func meanOf(runs int) string {
	if runs == 1 {
		return "one run"
	}
	return fmt.Sprintf("mean of %d runs", runs)
}
