package report

import (
	"fmt"
	"image/color"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// A Figure is a figure of a paper with what its experiment found here.
type Figure struct {
	Env    show.Environment
	Figure experiment.Figure
	Seed   uint64
	Quick  bool
	*experiment.Result
}

// FigureTable writes the curves at some places, and what they say of the paper.
func FigureTable(w io.Writer, f Figure, style show.Style) error {
	if style.Width == 0 {
		style.Width = show.Prose
	}
	var b strings.Builder
	b.WriteString(show.Wrap(fmt.Sprintf("%s (seed %d)", f.Title, f.Seed), style.Width))
	b.WriteString(show.Wrap("After "+f.Figure.Source+".", style.Width))
	b.WriteByte('\n')
	b.WriteString(gridOf(f).text(style))
	if f.More != nil {
		b.WriteString("\n" + gridFor(f.More).text(style))
	}
	for _, note := range f.Notes {
		b.WriteString(show.Wrap(note, style.Width))
	}
	if f.Quick && slices.ContainsFunc(f.Findings, func(found experiment.Finding) bool { return found.Unclear }) {
		b.WriteString(show.Wrap("A quick run has few repetitions, so that most statements about time stay unclear, whatever the figures seem to say.", style.Width))
	}
	for _, finding := range f.Findings {
		verdict := fmt.Sprintf("%-11s", finding.Verdict())
		b.WriteByte('\n')
		for i, line := range strings.Split(strings.TrimSuffix(show.Wrap(finding.Text, max(style.Width-len(verdict), 20)), "\n"), "\n") {
			if i > 0 {
				verdict = strings.Repeat(" ", len(verdict))
			}
			b.WriteString(verdict + line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A grid is what a figure shows in numbers.
type grid struct {
	headers []string
	rows    [][]string
	words   []bool // of the columns: which of them hold words, not numbers
	names   int    // how many columns name a row
}

// gridOf returns the figure's table or, where it has none, its curves at its marks.
func gridOf(f Figure) grid {
	if f.Table == nil {
		return marksOf(f)
	}
	return gridFor(f.Table)
}

func gridFor(t *experiment.Table) grid {
	g := grid{headers: t.Columns, words: t.Words, names: t.Names}
	for _, cells := range t.Rows {
		var row []string
		for _, c := range cells {
			row = append(row, c.Text)
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// text returns the grid for a terminal. A table that does not fit has its rows as paragraphs.
func (g grid) text(style show.Style) string {
	var headers []string
	for _, h := range g.headers {
		headers = append(headers, strings.ToUpper(h))
	}
	numeric := func(i int) bool { return !g.words[i] }
	return fitting(headers, g.rows, numeric, style, func(row []string) string {
		paragraph := show.Wrap(strings.Join(row[:g.names], " "), style.Width)
		for j := g.names; j < len(row); j++ {
			paragraph += show.Wrap(fmt.Sprintf("  %s: %s", g.headers[j], row[j]), style.Width)
		}
		return paragraph
	})
}

// nameOf returns the name of a row.
func nameOf(t *experiment.Table, cells []experiment.Cell) string {
	var names []string
	for _, c := range cells[:t.Names] {
		names = append(names, c.Text)
	}
	return strings.Join(names, " ")
}

func marksOf(f Figure) grid {
	g := grid{headers: []string{f.X}, words: make([]bool, 1+len(f.Curves)), names: 1}
	for _, c := range f.Curves {
		g.headers = append(g.headers, c.Name)
	}
	for _, x := range f.Marks {
		row := []string{show.Count(int(math.Round(x)))}
		for _, c := range f.Curves {
			cell := show.None
			if y, ok := c.At(x); ok {
				cell = number(y)
			}
			row = append(row, cell)
		}
		g.rows = append(g.rows, row)
	}
	return g
}

// number writes large numbers without and small ones with a decimal.
func number(y float64) string {
	if math.Abs(y) >= 1000 {
		return show.Count(int(math.Round(y)))
	}
	return fmt.Sprintf("%.1f", y)
}

type jsonFigure struct {
	Record string `json:"record"` // "figure"
	Name   string `json:"name"`
	Source string `json:"source"`
	Title  string `json:"title"`
	X      string `json:"x,omitempty"`
	Y      string `json:"y,omitempty"`
	Runs   int    `json:"runs"`
	Seed   uint64 `json:"seed"`
	Quick  bool   `json:"quick"`
}

type jsonPoint struct {
	Record string `json:"record"` // "point"
	Name   string `json:"name"`
	Curve  string `json:"curve"`
	Paper  bool   `json:"paper,omitempty"` // the paper's, not measured
	experiment.Point
}

type jsonBox struct {
	Record string    `json:"record"` // "box"
	Name   string    `json:"name"`
	Group  string    `json:"group"`
	Box    string    `json:"box"`
	Values []float64 `json:"values"` // of which it has the quartiles
}

type jsonBar struct {
	Record string  `json:"record"` // "bar"
	Name   string  `json:"name"`
	Group  string  `json:"group"`
	Bar    string  `json:"bar"`
	Kin    string  `json:"kin,omitempty"`
	Y      float64 `json:"y"`
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
}

type jsonCell struct {
	Record string   `json:"record"` // "cell"
	Name   string   `json:"name"`
	Row    string   `json:"row"`
	Column string   `json:"column"`
	Text   string   `json:"text"`
	Value  *float64 `json:"value,omitempty"`
	Low    float64  `json:"low,omitempty"`
	High   float64  `json:"high,omitempty"`
}

type jsonFinding struct {
	Record string `json:"record"` // "finding"
	Name   string `json:"name"`
	Holds  *bool  `json:"holds"` // null where it is unclear
	Text   string `json:"text"`
}

// FigureJSON writes JSON lines: the environment, the figure, its points, boxes, bars and cells, and the findings.
func FigureJSON(w io.Writer, f Figure) error {
	name := f.Figure.Name
	lines := []any{
		show.JSONEnvironment{Record: "environment", Environment: f.Env},
		jsonFigure{"figure", name, f.Figure.Source, f.Title, f.X, f.Y, f.Runs, f.Seed, f.Quick},
	}
	for _, c := range f.Curves {
		for _, p := range c.Points {
			lines = append(lines, jsonPoint{"point", name, c.Name, c.Paper, p})
		}
	}
	for _, b := range f.Boxes {
		lines = append(lines, jsonBox{"box", name, b.Group, b.Name, b.Values})
	}
	for _, b := range f.Bars {
		lines = append(lines, jsonBar{"bar", name, b.Group, b.Name, b.Kin, b.Y, b.Low, b.High})
	}
	for _, t := range []*experiment.Table{f.Table, f.More} {
		if t == nil {
			continue
		}
		for _, cells := range t.Rows {
			row := nameOf(t, cells)
			for i := t.Names; i < len(cells); i++ {
				c := cells[i]
				lines = append(lines, jsonCell{"cell", name, row, t.Columns[i], c.Text, c.Number, c.Low, c.High})
			}
		}
	}
	for _, finding := range f.Findings {
		holds := &finding.Holds
		if finding.Unclear {
			holds = nil
		}
		lines = append(lines, jsonFinding{"finding", name, holds, finding.Text})
	}
	return show.Lines(w, lines)
}

// FigurePlot draws the curves. The name says the format.
func FigurePlot(name string, f Figure) ([]byte, error) {
	if err := draw.CheckName(name); err != nil {
		return nil, err
	}
	if len(f.Boxes) > 0 {
		groups, plots, err := boxPlots(f)
		if err != nil {
			return nil, err
		}
		for i, p := range plots {
			p.Title.Text = groups[i]
		}
		return draw.Picture(name, f.Title, 20*vg.Centimeter, plots...)
	}
	if len(f.Bars) > 0 {
		p, err := barPlot(f)
		if err != nil {
			return nil, err
		}
		return draw.Picture(name, f.Title, barsWidth, p)
	}
	if panels := panelsOf(f.Curves); len(panels) > 1 {
		var plots []*plot.Plot
		for i, curves := range panels {
			p, err := figurePanel(f, curves[0].Panel, curves, i == 0)
			if err != nil {
				return nil, err
			}
			plots = append(plots, p)
		}
		return draw.Picture(name, f.Title, vg.Length(draw.Columns(len(plots)))*panelWidth, plots...)
	}
	p, err := figurePanel(f, "", f.Curves, true)
	if err != nil {
		return nil, err
	}
	width := 20 * vg.Centimeter
	if len(f.Curves) > manyCurves {
		width = 26 * vg.Centimeter
	}
	return draw.Picture(name, f.Title, width, p)
}

// boxPlots draws a box for each of f, with its name below: a plot for each group, as the paper's have scales of their own. What lies
// far from the others is beyond the picture: some commands of many meet a pause of the machine.
func boxPlots(f Figure) (groups []string, plots []*plot.Plot, err error) {
	for boxes := range byGroup(f.Boxes) {
		p := draw.New("", f.Y)
		p.Y.Tick.Marker = roundTicks{}
		var names []string
		top := 0.0
		for i, b := range boxes {
			box, err := plotter.NewBoxPlot(vg.Centimeter, float64(i), plotter.Values(b.Values))
			if err != nil {
				return nil, nil, err
			}
			box.FillColor = draw.Palette[i%len(draw.Palette)]
			box.Outside = nil
			p.Add(box)
			names = append(names, strings.ReplaceAll(b.Name, ", ", ",\n"))
			top = max(top, box.AdjHigh)
		}
		p.NominalX(names...)
		p.Y.Min, p.Y.Max = 0, top*1.06
		groups, plots = append(groups, boxes[0].Group), append(plots, p)
	}
	return groups, plots, nil
}

// byGroup returns neighbours of one group together.
func byGroup(boxes []experiment.Box) iter.Seq[[]experiment.Box] {
	return func(yield func([]experiment.Box) bool) {
		for from, i := 0, 1; i <= len(boxes); i++ {
			if i < len(boxes) && boxes[i].Group == boxes[from].Group {
				continue
			}
			if !yield(boxes[from:i]) {
				return
			}
			from = i
		}
	}
}

const panelWidth = 9 * vg.Centimeter

// panelsOf returns the curves by the panels that they are in. Where there are several, each curve is named by its kin.
func panelsOf(curves []experiment.Curve) (panels [][]experiment.Curve) {
	of := make(map[string]int)
	for _, c := range curves {
		i, known := of[c.Panel]
		if !known {
			i = len(panels)
			of[c.Panel] = i
			panels = append(panels, nil)
		}
		panels[i] = append(panels[i], c)
	}
	if len(panels) > 1 {
		for _, curves := range panels {
			for i := range curves {
				curves[i].Name = curves[i].Kin
			}
		}
	}
	return panels
}

// figurePanel draws curves over one pair of axes.
func figurePanel(f Figure, title string, curves []experiment.Curve, legend bool) (*plot.Plot, error) {
	p := draw.New(title, f.Y)
	p.X.Label.Text = f.X
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{}, roundTicks{}
	low, top, left, right, rising := math.Inf(1), 0.0, math.Inf(1), 0.0, false
	lastOnly := len(curves) > manyCurves
	looks, spread := looksOf(curves), spreadOf(curves)
	for i, c := range curves {
		var xys plotter.XYs
		for j, pt := range c.Points {
			xys = append(xys, plotter.XY{X: pt.X, Y: pt.Y})
			low, top, left, right = min(low, pt.Y), max(top, pt.Y), min(left, pt.X), max(right, pt.X)
			if hasInterval(c, j, lastOnly) {
				low, top = min(low, pt.Low), max(top, pt.High)
			}
		}
		var thumbnail plot.Thumbnailer
		if !c.Paper {
			line, err := plotter.NewLine(xys)
			if err != nil {
				return nil, err
			}
			line.LineStyle = looks[i]
			p.Add(line)
			if err := addIntervals(p, c, lastOnly, spread*((float64(i)+0.5)/float64(len(curves))-0.5), looks[i].Color); err != nil {
				return nil, err
			}
			thumbnail = line
			rising = len(xys) > 0 && xys[len(xys)-1].Y > xys[0].Y
		} else {
			points, err := plotter.NewScatter(xys)
			if err != nil {
				return nil, err
			}
			points.GlyphStyle = vgdraw.GlyphStyle{Color: color.Black, Radius: vg.Points(4), Shape: vgdraw.BoxGlyph{}}
			p.Add(points)
			thumbnail = points
		}
		if legend {
			p.Legend.Add(c.Name, thumbnail)
		}
	}
	if top == 0 {
		top = 1 // counts of nothing lie on the axis
	}
	p.X.Min, p.X.Max = min(0, left-spread/2), right*1.02 // with the intervals of the first points
	p.Y.Min, p.Y.Max = 0, top*1.06
	names := 0.06 * float64(len(curves)) // share of the height that the names in a panel have
	if title != "" {
		rising = true
		p.X.Max = right * 1.04 // with the intervals of the last points
		p.X.Tick.Marker = upTo{roundTicks{}, right}
		if legend {
			p.Y.Max = top / (1 - names) // they have most of the width
		}
	} else if legend {
		// A name takes about a twentieth of the height; no curve goes through the names.
		p.Y.Max = max(p.Y.Max, highest(curves, rising, right, lastOnly)/(1-0.055*float64(len(curves))))
	}
	p.Legend.Top, p.Legend.Left = true, rising
	p.Legend.Padding, p.Legend.YOffs = vg.Points(3), -vg.Points(4)
	p.Legend.XOffs = map[bool]vg.Length{true: vg.Points(10), false: -vg.Points(10)}[rising]
	if f.LogY && low > 0 && low < top {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decadeTicks{}
		p.Y.Min, p.Y.Max = low/1.2, top*1.2
		if title != "" && legend {
			p.Y.Max = top * math.Pow(top/low, names/(1-names))
		}
	}
	if lastOnly && title == "" && legend {
		// Beside the curves, where it hides none of them.
		p.X.Max = right * 1.5
		p.X.Tick.Marker = upTo{p.X.Tick.Marker, right}
		p.Legend.Left, p.Legend.XOffs = false, 0
	}
	return p, nil
}

// highest returns the greatest value that curves have in the left or right third of the width, with
// their intervals.
func highest(curves []experiment.Curve, left bool, right float64, lastOnly bool) (y float64) {
	for _, c := range curves {
		for i, pt := range c.Points {
			if left == (pt.X < right/2) && math.Abs(pt.X-right/2) >= right/6 {
				if y = max(y, pt.Y); hasInterval(c, i, lastOnly) {
					y = max(y, pt.High)
				}
			}
		}
	}
	return y
}

// hasInterval reports whether a point is drawn with its confidence interval. lastOnly is for many
// curves, which would be hidden by those of all their points.
func hasInterval(c experiment.Curve, i int, lastOnly bool) bool {
	return c.Points[i].High > 0 && (!lastOnly || i == len(c.Points)-1)
}

// spreadOf returns over how much of the x axis the confidence intervals of curves with the same points
// are spread, so that they stand beside each other: each by a hundredth of the axis, unless the points
// are nearer.
func spreadOf(curves []experiment.Curve) float64 {
	gap, right := math.Inf(1), 0.0
	for _, c := range curves {
		for i, pt := range c.Points {
			right = max(right, pt.X)
			if i > 0 {
				gap = min(gap, math.Abs(pt.X-c.Points[i-1].X))
			}
		}
	}
	return min(0.4*gap, 0.01*right*float64(len(curves)))
}

// addIntervals draws the confidence intervals of a curve, where it has some, beside its points.
func addIntervals(p *plot.Plot, c experiment.Curve, lastOnly bool, beside float64, colour color.Color) error {
	var xys plotter.XYs
	var errs plotter.YErrors
	for i, pt := range c.Points {
		if hasInterval(c, i, lastOnly) {
			xys = append(xys, plotter.XY{X: pt.X + beside, Y: pt.Y})
			errs = append(errs, struct{ Low, High float64 }{pt.Y - pt.Low, pt.High - pt.Y})
		}
	}
	if len(xys) == 0 {
		return nil
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{xys, errs})
	if err != nil {
		return err
	}
	bars.LineStyle.Color, bars.LineStyle.Width, bars.CapWidth = colour, vg.Points(0.8), vg.Points(3)
	p.Add(bars)
	return nil
}

// manyCurves is how many names fit in among the curves.
const manyCurves = 5

// looksOf returns how curves are drawn: those of a kin in one colour and with different dashes.
func looksOf(curves []experiment.Curve) []vgdraw.LineStyle {
	dashes := [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(1.5), vg.Points(2.5)}, {vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)}}
	colours, kins := make(map[string]int), make(map[string]int)
	used := 1 // grey is for what has no encryption, which begins where there are kins
	if len(curves) > 0 && curves[0].Kin != "" {
		used = 0
	}
	var looks []vgdraw.LineStyle
	for _, c := range curves {
		colour, known := colours[c.Kin]
		if c.Kin == "" || !known {
			colour = used % len(draw.Palette)
			colours[c.Kin] = colour
			used++
		}
		look := vgdraw.LineStyle{Color: draw.Palette[colour], Width: vg.Points(1.8)}
		if c.Kin != "" {
			look.Dashes = dashes[kins[c.Kin]%len(dashes)]
			kins[c.Kin]++
		}
		looks = append(looks, look)
	}
	return looks
}

// upTo leaves out the ticks beyond a value.
type upTo struct {
	plot.Ticker
	last float64
}

func (t upTo) Ticks(low, high float64) []plot.Tick {
	return t.Ticker.Ticks(low, min(high, t.last))
}

// decadeTicks marks 1, 2 and 5 times the powers of ten.
type decadeTicks struct{}

func (decadeTicks) Ticks(low, high float64) []plot.Tick {
	if !(low > 0 && high > low) {
		return nil
	}
	var all []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
		for _, part := range []float64{1, 2, 5} {
			if v := part * math.Pow(10, e); v >= low && v <= high {
				all = append(all, plot.Tick{Value: v, Label: fmt.Sprintf("%.*f", max(0, -int(e)), v)})
			}
		}
	}
	return all
}

// roundTicks marks four to ten round numbers.
type roundTicks struct{}

func (roundTicks) Ticks(low, high float64) []plot.Tick {
	if !(high > low) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(high-low)))
	for _, part := range []float64{1, 0.5, 0.2, 0.1} {
		if (high-low)/(step*part) >= 4 {
			step *= part
			break
		}
	}
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	var all []plot.Tick
	for i := math.Ceil(low/step-1e-9) + 0; i*step <= high; i++ {
		label := fmt.Sprintf("%.*f", digits, i*step)
		if digits == 0 {
			label = show.Count(int(math.Round(i * step)))
		}
		all = append(all, plot.Tick{Value: i * step, Label: label})
	}
	return all
}
