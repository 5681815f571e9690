package experiment

import (
	"fmt"
	"math"

	"github.com/rangecrypt/rangecrypt/internal/median"
)

// A Ratio is the median of a ratio of times in the same round, with its 95 % confidence interval,
// whose ends are NaN where there were too few rounds.
type Ratio struct{ Low, Mid, High float64 }

func (r Ratio) String() string {
	if math.IsNaN(r.Low) {
		return fmt.Sprintf("%.2f", r.Mid)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Mid, r.Low, r.High)
}

// Text writes what may be below 0, with the ends of its interval apart.
func (r Ratio) Text(decimals int) string {
	if math.IsNaN(r.Low) {
		return fmt.Sprintf("%.*f", decimals, r.Mid)
	}
	return fmt.Sprintf("%.*f (%.*f to %.*f)", decimals, r.Mid, decimals, r.Low, decimals, r.High)
}

// Cell returns a cell with the ratio and its interval.
func (r Ratio) Cell() Cell {
	c := Cell{Text: r.String(), Number: &r.Mid}
	if !math.IsNaN(r.Low) {
		c.Low, c.High = r.Low, r.High
	}
	return c
}

// A Verdict is what a ratio says of a statement.
type Verdict int

const (
	Unclear Verdict = iota // the interval has both, or there is none
	IsSo
	IsNot
)

// Above says whether the ratio is above x.
func (r Ratio) Above(x float64) Verdict {
	switch {
	case r.Low > x:
		return IsSo
	case r.High <= x:
		return IsNot
	}
	return Unclear
}

// Below says whether the ratio is below x.
func (r Ratio) Below(x float64) Verdict {
	switch {
	case r.High < x:
		return IsSo
	case r.Low >= x:
		return IsNot
	}
	return Unclear
}

// About says whether the ratio may be x or less. An interval that reaches beyond limit leaves it open.
func (r Ratio) About(x, limit float64) Verdict {
	switch {
	case r.Low > x:
		return IsNot
	case r.High < limit:
		return IsSo
	}
	return Unclear
}

// Near says whether the ratio is about x: from three quarters of it to one and a half times.
func (r Ratio) Near(x float64) Verdict { return Both(r.Above(0.75*x), r.Below(1.5*x)) }

// Both says whether both are so.
func Both(a, b Verdict) Verdict {
	switch {
	case a == IsNot || b == IsNot:
		return IsNot
	case a == Unclear || b == Unclear:
		return Unclear
	}
	return IsSo
}

// Finding returns what is found of a statement.
func (v Verdict) Finding(format string, args ...any) Finding {
	return Finding{Holds: v == IsSo, Unclear: v == Unclear, Text: fmt.Sprintf(format, args...)}
}

// Percent writes a share in per cent.
func (r Ratio) Percent() Ratio { return Ratio{100 * r.Low, 100 * r.Mid, 100 * r.High} }

// Every says whether all are so.
func Every(all ...Verdict) Verdict {
	v := IsSo
	for _, x := range all {
		v = Both(v, x)
	}
	return v
}

// MedianOf returns the median of values with its 95 % confidence interval.
func MedianOf(values []float64) Ratio {
	low, mid, high := median.Of(values)
	return Ratio{low, mid, high}
}

// RatioOf returns the median of the ratios of xs to ys, whose elements are pairs.
func RatioOf(xs, ys []float64) Ratio {
	var all []float64
	for i := range min(len(xs), len(ys)) {
		all = append(all, xs[i]/ys[i])
	}
	return MedianOf(all)
}

// MeanRatio returns the median, over the rounds, of the mean of the ratios of several xs to ys, each by round.
func MeanRatio(xs, ys [][]float64) Ratio {
	var all []float64
	for round := range xs[0] {
		sum := 0.0
		for i := range xs {
			sum += xs[i][round] / ys[i][round]
		}
		all = append(all, sum/float64(len(xs)))
	}
	return MedianOf(all)
}

// At returns the point of a curve at x.
func (r Ratio) At(x float64) Point {
	p := Point{X: x, Y: r.Mid}
	if !math.IsNaN(r.Low) {
		p.Low, p.High = r.Low, r.High
	}
	return p
}
