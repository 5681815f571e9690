package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
)

// CheckPlotName returns an error unless the name of a file ends as one of the formats of plots.
func CheckPlotName(name string) error {
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".svg", ".png":
		return nil
	case "":
		return fmt.Errorf("the name of the plot's file has no ending: there is .svg and .png")
	default:
		return fmt.Errorf("the name of the plot's file ends with %q: there is .svg and .png", ext)
	}
}

// palette holds colours that are told apart in print and by the colour-blind (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{R: 0x56, G: 0x56, B: 0x56, A: 0xff},
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	color.RGBA{R: 0xf0, G: 0xe4, B: 0x42, A: 0xff},
}

// A series is what has one colour: a scheme on a store.
type series struct {
	name   string
	result bench.Result
}

// Plot draws the runs: on the left the rows inserted a second, on the right the latencies of
// queries by selectivity. The name says the format.
func Plot(name string, runs []Run) ([]byte, error) {
	if err := CheckPlotName(name); err != nil {
		return nil, err
	}
	var all []series
	for _, r := range runs {
		for _, res := range r.Results {
			s := series{res.Scheme, res}
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
	right, err := queryPlot(runs[0].Selectivities, all)
	if err != nil {
		return nil, err
	}

	width := vg.Length(16+1.2*float64(max(len(all)-4, 0))) * vg.Centimeter * 1.5
	return picture(name, Headline(runs[0]), width, left, right)
}

// picture draws plots beside each other under a title, in the format that the name says.
func picture(name, headline string, width vg.Length, plots ...*plot.Plot) ([]byte, error) {
	height := 11 * vg.Centimeter
	paint := func(c vg.CanvasSizer) {
		dc := draw.New(c)
		dc.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
		title := plot.New()
		title.HideAxes()
		title.Title.Text = headline
		title.Title.TextStyle.Font.Size = vg.Points(11)
		title.Title.TextStyle.Font.Variant = "Sans"
		body := draw.Crop(dc, 0, 0, 0, -vg.Points(30))
		title.Draw(draw.Crop(dc, 0, 0, height-vg.Points(30), -vg.Points(6)))
		tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: vg.Points(24), PadLeft: vg.Points(10), PadRight: vg.Points(14), PadBottom: vg.Points(8)}
		for i, c := range plot.Align([][]*plot.Plot{plots}, tiles, body)[0] {
			plots[i].Draw(c)
		}
	}
	var out bytes.Buffer
	var err error
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg":
		c := vgsvg.New(width, height)
		paint(c)
		_, err = c.WriteTo(&out)
	default:
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))}
		paint(c)
		_, err = c.WriteTo(&out)
	}
	return out.Bytes(), err
}

func newPlot(title, y string) *plot.Plot {
	p := plot.New()
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = vg.Points(12)
	p.Title.Padding = vg.Points(6)
	p.Y.Label.Text = y
	p.Y.Label.TextStyle.Font.Size = vg.Points(10)
	p.X.Label.TextStyle.Font.Size = vg.Points(10)
	p.X.Tick.Label.Font.Size = vg.Points(10)
	p.Y.Tick.Label.Font.Size = vg.Points(9)
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{Y: 0xdd}
	p.Add(grid)
	return p
}

func insertPlot(all []series) (*plot.Plot, error) {
	p := newPlot("Insert", "rows per second")
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
		bar.Color = palette[i%len(palette)]
		bar.LineStyle.Width = 0
		p.Add(bar)
		label := count(int(math.Round(rate)))
		if r := s.result.Insert.Ratio; r.Pairs > 0 && s.result.Scheme != bench.Baseline(s.result.Scheme) {
			label += fmt.Sprintf("\n%.2f x the time", r.Value)
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
	l.TextStyle[0].XAlign = draw.XCenter
	l.TextStyle[0].Font.Size = vg.Points(9)
	l.TextStyle[0].Font.Variant = "Sans"
	l.Offset = vg.Point{Y: vg.Points(3)}
	p.Add(l)
	return nil
}

// spread is how much of the place of one selectivity the series take.
const spread = 0.5

func queryPlot(selectivities []float64, all []series) (*plot.Plot, error) {
	p := newPlot("Range query: median and 99th percentile", "latency (log scale)")
	p.X.Label.Text = "share of the rows that the query selects"
	low, high := math.Inf(1), math.Inf(-1)
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
		points.GlyphStyle = draw.GlyphStyle{Color: palette[i%len(palette)], Radius: vg.Points(4), Shape: draw.CircleGlyph{}}
		whiskers, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{medians, bars})
		if err != nil {
			return nil, err
		}
		whiskers.LineStyle.Color = palette[i%len(palette)]
		whiskers.LineStyle.Width = vg.Points(1.5)
		p.Add(whiskers, points)
		p.Legend.Add(strings.ReplaceAll(s.name, "\n", ", "), points)
	}
	var names []string
	for _, s := range selectivities {
		names = append(names, percent(s))
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	if low > high { // nothing was queried
		low, high = 1, 1000
	}
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	if p.Y.Min == p.Y.Max {
		p.Y.Max *= 10
	}
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = durationTicks{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs = vg.Points(8)
	return p, nil
}

func micro(d time.Duration) float64 { return max(float64(d)/float64(time.Microsecond), 0.001) }

// ticks writes 20000 as 20,000.
type ticks struct{ plot.Ticker }

func (t ticks) Ticks(low, high float64) []plot.Tick {
	all := t.Ticker.Ticks(low, high)
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = count(int(math.Round(all[i].Value)))
		}
	}
	return all
}

// durationTicks marks powers of ten of microseconds with their units.
type durationTicks struct{}

func (durationTicks) Ticks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		v := math.Pow(10, e)
		all = append(all, plot.Tick{Value: v, Label: time.Duration(math.Round(v * 1000)).String()})
		for m := 2.0; m < 10; m++ {
			all = append(all, plot.Tick{Value: m * v})
		}
	}
	return all
}
