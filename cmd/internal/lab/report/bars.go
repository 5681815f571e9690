package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

const (
	barsWidth = 26 * vg.Centimeter
	barHalf   = 0.4 // of the distance between two bars

	// barDecades are drawn on a logarithmic axis: what is less than the greatest bar by more has none.
	barDecades = 3
)

// barPlot draws a bar for each of f, by group, with its name below and its confidence interval.
func barPlot(f Figure) (*plot.Plot, error) {
	p := draw.New("", f.Y)
	p.Y.Tick.Marker = roundTicks{}
	highest, top := 0.0, 0.0
	for _, b := range f.Bars {
		highest, top = max(highest, b.Y), max(top, b.Y, b.High)
	}
	floor, ceiling := 0.0, 1.25*top
	if f.LogY && highest > 0 {
		floor = math.Pow(10, math.Ceil(math.Log10(highest))-barDecades)
		ceiling = 5 * top // above the bars are the names of groups, and of kins
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decadeTicks{}
	}
	var ticks []plot.Tick
	var titles plotter.XYLabels
	var kins []string
	x, first := 0.0, 0.0
	for i, b := range f.Bars {
		if i > 0 && b.Group != f.Bars[i-1].Group {
			x++
			first = x
		}
		kin := slices.Index(kins, b.Kin)
		named := kin < 0
		if named {
			kin = len(kins)
			kins = append(kins, b.Kin)
		}
		bar, err := addBar(p, b, x, floor, draw.Palette[kin%len(draw.Palette)])
		if err != nil {
			return nil, err
		}
		if named && b.Kin != "" {
			p.Legend.Add(b.Kin, bar)
		}
		ticks = append(ticks, plot.Tick{Value: x, Label: b.Name})
		if i == len(f.Bars)-1 || f.Bars[i+1].Group != b.Group {
			titles.XYs = append(titles.XYs, plotter.XY{X: (first + x) / 2, Y: 1.15 * top})
			titles.Labels = append(titles.Labels, b.Group)
		}
		x++
	}
	names, err := plotter.NewLabels(titles)
	if err != nil {
		return nil, err
	}
	for i := range names.TextStyle {
		names.TextStyle[i].Font.Variant, names.TextStyle[i].Font.Size = "Sans", vg.Points(9)
		names.TextStyle[i].XAlign = vgdraw.XCenter
	}
	p.Add(names)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -1, x, floor, ceiling
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Length = 0
	label := &p.X.Tick.Label
	label.Rotation, label.XAlign, label.YAlign, label.Font.Size = math.Pi/2, vgdraw.XRight, vgdraw.YCenter, vg.Points(7)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(10), -vg.Points(2)
	return p, nil
}

// addBar draws a bar from the floor up, at x, and its interval.
func addBar(p *plot.Plot, b experiment.Bar, x, floor float64, colour color.Color) (*plotter.Polygon, error) {
	y := max(b.Y, floor)
	bar, err := plotter.NewPolygon(plotter.XYs{{X: x - barHalf, Y: floor}, {X: x - barHalf, Y: y}, {X: x + barHalf, Y: y}, {X: x + barHalf, Y: floor}})
	if err != nil {
		return nil, err
	}
	bar.Color, bar.LineStyle.Width = colour, 0
	p.Add(bar)
	if b.High <= floor {
		return bar, nil
	}
	interval, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{plotter.XYs{{X: x, Y: y}}, plotter.YErrors{{Low: y - max(b.Low, floor), High: b.High - y}}})
	if err != nil {
		return nil, err
	}
	interval.LineStyle.Width, interval.CapWidth = vg.Points(0.8), vg.Points(3)
	p.Add(interval)
	return bar, nil
}
