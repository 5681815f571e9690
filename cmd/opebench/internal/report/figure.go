package report

import (
	"encoding/json"
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/repro"
)

// A Figure is a figure of a paper with what its experiment found here.
type Figure struct {
	Env    Environment
	Figure repro.Figure
	Seed   uint64
	Quick  bool
	*repro.Result
}

// FigureTable writes the curves at some places, and what they say of the paper.
func FigureTable(w io.Writer, f Figure, style Style) error {
	if style.Width == 0 {
		style.Width = prose
	}
	var b strings.Builder
	b.WriteString(wrap(fmt.Sprintf("%s (seed %d)", f.Title, f.Seed), style.Width))
	b.WriteString(wrap("After "+f.Figure.Source+".", style.Width))
	b.WriteByte('\n')
	headers := []string{strings.ToUpper(f.X)}
	for _, c := range f.Curves {
		headers = append(headers, strings.ToUpper(c.Name))
	}
	var rows [][]string
	for _, x := range f.Marks {
		row := []string{count(int(math.Round(x)))}
		for _, c := range f.Curves {
			cell := none
			if y, ok := c.At(x); ok {
				cell = number(y)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	b.WriteString(grid(headers, rows, func(int) bool { return true }, style))
	for _, finding := range f.Findings {
		verdict := "HOLDS      "
		if !finding.Holds {
			verdict = "DIFFERS    "
		}
		b.WriteByte('\n')
		for i, line := range strings.Split(strings.TrimSuffix(wrap(finding.Text, max(style.Width-len(verdict), 20)), "\n"), "\n") {
			if i > 0 {
				verdict = strings.Repeat(" ", len(verdict))
			}
			b.WriteString(verdict + line + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number writes large numbers without and small ones with a decimal.
func number(y float64) string {
	if math.Abs(y) >= 1000 {
		return count(int(math.Round(y)))
	}
	return fmt.Sprintf("%.1f", y)
}

type jsonFigure struct {
	Record string `json:"record"` // "figure"
	Name   string `json:"name"`
	Source string `json:"source"`
	Title  string `json:"title"`
	X      string `json:"x"`
	Y      string `json:"y"`
	Runs   int    `json:"runs"`
	Seed   uint64 `json:"seed"`
	Quick  bool   `json:"quick"`
}

type jsonPoint struct {
	Record string `json:"record"` // "point"
	Name   string `json:"name"`
	Curve  string `json:"curve"`
	Paper  bool   `json:"paper,omitempty"` // the paper's, not measured
	repro.Point
}

type jsonFinding struct {
	Record string `json:"record"` // "finding"
	Name   string `json:"name"`
	Holds  bool   `json:"holds"`
	Text   string `json:"text"`
}

// FigureJSON writes JSON lines: the environment, the figure, its points, and the findings.
func FigureJSON(w io.Writer, f Figure) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	name := f.Figure.Name
	lines := []any{
		jsonEnvironment{"environment", f.Env},
		jsonFigure{"figure", name, f.Figure.Source, f.Title, f.X, f.Y, f.Runs, f.Seed, f.Quick},
	}
	for _, c := range f.Curves {
		for _, p := range c.Points {
			lines = append(lines, jsonPoint{"point", name, c.Name, c.Paper, p})
		}
	}
	for _, finding := range f.Findings {
		lines = append(lines, jsonFinding{"finding", name, finding.Holds, finding.Text})
	}
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// FigurePlot draws the curves. The name says the format.
func FigurePlot(name string, f Figure) ([]byte, error) {
	if err := CheckPlotName(name); err != nil {
		return nil, err
	}
	p := newPlot("", f.Y)
	p.X.Label.Text = f.X
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{}, roundTicks{}
	top, right, rising := 0.0, 0.0, false
	for i, c := range f.Curves {
		var xys plotter.XYs
		for _, pt := range c.Points {
			xys = append(xys, plotter.XY(pt))
			top, right = max(top, pt.Y), max(right, pt.X)
		}
		if !c.Paper {
			line, err := plotter.NewLine(xys)
			if err != nil {
				return nil, err
			}
			line.Color = palette[(i+1)%len(palette)]
			line.Width = vg.Points(1.8)
			p.Add(line)
			p.Legend.Add(c.Name, line)
			rising = len(xys) > 0 && xys[len(xys)-1].Y > xys[0].Y
			continue
		}
		points, err := plotter.NewScatter(xys)
		if err != nil {
			return nil, err
		}
		points.GlyphStyle = draw.GlyphStyle{Color: color.Black, Radius: vg.Points(4), Shape: draw.BoxGlyph{}}
		p.Add(points)
		p.Legend.Add(c.Name, points)
	}
	p.X.Min, p.X.Max = 0, right*1.02
	p.Y.Min, p.Y.Max = 0, top*1.06
	p.Legend.Top, p.Legend.Left = true, rising
	p.Legend.Padding, p.Legend.YOffs = vg.Points(3), -vg.Points(4)
	p.Legend.XOffs = map[bool]vg.Length{true: vg.Points(10), false: -vg.Points(10)}[rising]
	return picture(name, f.Title, 20*vg.Centimeter, p)
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
			label = count(int(math.Round(i * step)))
		}
		all = append(all, plot.Tick{Value: i * step, Label: label})
	}
	return all
}
