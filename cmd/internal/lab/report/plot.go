package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
)

// A series is what has one colour: a scheme on a store.
type series struct {
	name   string
	result bench.Result
}

// Plot draws the runs: on the left the rows inserted a second, on the right the latencies of
// queries by selectivity. The name says the format.
func Plot(name string, runs []Run) ([]byte, error) {
	if err := draw.CheckName(name); err != nil {
		return nil, err
	}
	var all []series
	for _, r := range runs {
		for _, res := range r.Results {
			s := series{strings.ReplaceAll(res.Scheme, "-", "-\n"), res}
			if len(layouts(r)) > 1 {
				s.name += "\n" + string(res.Layout)
			}
			if len(runs) > 1 {
				s.name += "\n" + r.Store
			}
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is nothing to plot")
	}
	left, err := insertPlot(all)
	if err != nil {
		return nil, err
	}
	width := max(24*vg.Centimeter, 2*(vg.Length(len(all))*place(all)+vg.Points(80)))
	right, err := queryPlot(runs[0].Selectivities, all, width/2-vg.Points(80))
	if err != nil {
		return nil, err
	}
	return draw.Picture(name, Headline(runs[0]), width, left, right)
}

// place returns the width that the longest line of a name below a bar needs.
func place(all []series) (width vg.Length) {
	style := draw.New("", "").X.Tick.Label
	for _, s := range all {
		for line := range strings.Lines(s.name) {
			width = max(width, style.Width(strings.TrimSpace(line)))
		}
	}
	return width + vg.Points(8)
}

func insertPlot(all []series) (*plot.Plot, error) {
	p := draw.New("Insert; x: the time beside plain", "rows per second")
	top := 0.0
	var names []string
	for i, s := range all {
		rate := s.result.Insert.Rate()
		top = max(top, rate)
		bar, err := plotter.NewBarChart(plotter.Values{rate}, vg.Points(min(60, 200/float64(len(all)))))
		if err != nil {
			return nil, err
		}
		bar.XMin = float64(i)
		bar.Color = draw.Palette[i%len(draw.Palette)]
		bar.LineStyle.Width = 0
		p.Add(bar)
		label := show.Count(int(math.Round(rate)))
		if r := s.result.Insert.Ratio; r.Pairs > 0 && s.result.Scheme != bench.Baseline(s.result.Scheme) {
			label += fmt.Sprintf("\n%.2f x", r.Value)
		}
		if err := addLabel(p, float64(i), rate, label); err != nil {
			return nil, err
		}
		names = append(names, s.name)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(all))-0.4
	p.Y.Min, p.Y.Max = 0, max(top*1.18, 1)
	p.Y.Tick.Marker = ticks{plot.DefaultTicks{}}
	return p, nil
}

func addLabel(p *plot.Plot, x, y float64, label string) error {
	l, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{label}})
	if err != nil {
		return err
	}
	l.TextStyle[0].XAlign = vgdraw.XCenter
	l.TextStyle[0].Font.Size = vg.Points(9)
	l.TextStyle[0].Font.Variant = "Sans"
	l.Offset = vg.Point{Y: vg.Points(3)}
	p.Add(l)
	return nil
}

// spread is how much of the place of one selectivity the series take.
const spread = 0.5

// queryPlot draws the queries on an area of at least the given width.
func queryPlot(selectivities []float64, all []series, width vg.Length) (*plot.Plot, error) {
	p := draw.New("Range query: median and 99th percentile", "latency (log scale)")
	p.X.Label.Text = "share of the rows that the query selects"
	low, high := math.Inf(1), math.Inf(-1)
	var legend vg.Length
	for i, s := range all {
		offset := 0.0
		if len(all) > 1 {
			offset = spread * (float64(i)/float64(len(all)-1) - 0.5)
		}
		var medians plotter.XYs
		var bars plotter.YErrors
		for j, phase := range s.result.BySelectivity {
			if phase.Latency.Count() == 0 {
				continue
			}
			p50, p99 := micro(phase.Latency.Quantile(0.5)), micro(phase.Latency.Quantile(0.99))
			low, high = min(low, p50), max(high, p99)
			medians = append(medians, plotter.XY{X: float64(j) + offset, Y: p50})
			bars = append(bars, struct{ Low, High float64 }{0, p99 - p50})
		}
		if len(medians) == 0 {
			continue
		}
		points, err := plotter.NewScatter(medians)
		if err != nil {
			return nil, err
		}
		points.GlyphStyle = vgdraw.GlyphStyle{Color: draw.Palette[i%len(draw.Palette)], Radius: vg.Points(4), Shape: vgdraw.CircleGlyph{}}
		whiskers, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{medians, bars})
		if err != nil {
			return nil, err
		}
		whiskers.LineStyle.Color = draw.Palette[i%len(draw.Palette)]
		whiskers.LineStyle.Width = vg.Points(1.5)
		p.Add(whiskers, points)
		name := strings.ReplaceAll(strings.ReplaceAll(s.name, "-\n", "-"), "\n", ", ")
		p.Legend.Add(name, points)
		legend = max(legend, p.Legend.TextStyle.Width(name)+p.Legend.ThumbnailWidth+vg.Points(12))
	}
	var names []string
	for _, s := range selectivities {
		names = append(names, show.Percent(s))
	}
	p.NominalX(names...)
	// The legend stands beside the points, where it hides none of them.
	legend = min(legend, width/2)
	p.X.Min, p.X.Max = -0.5, float64(len(names))*float64(width/(width-legend))-0.5
	if low > high { // nothing was queried
		low, high = 1, 1000
	}
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	if p.Y.Min == p.Y.Max {
		p.Y.Max *= 10
	}
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = durationTicks{}
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(3)
	return p, nil
}

func micro(d time.Duration) float64 { return max(float64(d)/float64(time.Microsecond), 0.001) }

// ticks writes 20000 as 20,000.
type ticks struct{ plot.Ticker }

func (t ticks) Ticks(low, high float64) []plot.Tick {
	all := t.Ticker.Ticks(low, high)
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = show.Count(int(math.Round(all[i].Value)))
		}
	}
	return all
}

// duration writes a power of ten of microseconds in one unit.
func duration(us float64) string {
	for _, unit := range []struct {
		us   float64
		name string
	}{{1e6, "s"}, {1e3, "ms"}, {1, "us"}} {
		if us >= unit.us {
			return fmt.Sprintf("%s %s", show.Count(int(math.Round(us/unit.us))), unit.name)
		}
	}
	return fmt.Sprintf("%g ns", us*1e3)
}

// durationTicks marks powers of ten of microseconds with their units.
type durationTicks struct{}

func (durationTicks) Ticks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		all = append(all, plot.Tick{Value: v, Label: duration(v)})
		for m := 2.0; m < 10; m++ {
			all = append(all, plot.Tick{Value: m * v})
		}
	}
	return all
}
