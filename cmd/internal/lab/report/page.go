package report

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// A Page shows figures together, with what they were measured with.
type Page struct {
	Env     show.Environment
	Command string // that measured all of them
	Store   string // where, for a reader; "" if nothing was measured in a database
	Seed    uint64
	Quick   bool
	Took    time.Duration
	Figures []PageFigure
	Of      int // how many were to be measured
}

// A PageFigure is a figure of a page. Its result is nil where nothing was measured.
type PageFigure struct {
	Figure
	Command string // that measures it alone
	Took    time.Duration
	Failed  string // why it has no result, or not all of it
}

// Verdicts counts findings by what they say.
type Verdicts struct{ Holds, Differs, Unclear int }

func (v *Verdicts) add(findings []experiment.Finding) {
	for _, f := range findings {
		switch {
		case f.Unclear:
			v.Unclear++
		case f.Holds:
			v.Holds++
		default:
			v.Differs++
		}
	}
}

// Verdicts returns those of all figures.
func (p Page) Verdicts() (v Verdicts) {
	for _, f := range p.Figures {
		v.add(f.findings())
	}
	return v
}

func (f PageFigure) findings() []experiment.Finding {
	if f.Result == nil {
		return nil
	}
	return f.Result.Findings
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A shownFigure is a figure as the page has it.
type shownFigure struct {
	Name, About, Source, Command, Took string
	Verdicts
	Error    string
	Title    string
	Panels   []panel
	Legend   []legendEntry
	Tables   []shownTable
	Notes    []string
	Findings []experiment.Finding
}

// Drawn reports whether the figure has a picture.
func (f shownFigure) Drawn() bool { return len(f.Panels) > 0 }

type panel struct {
	Title string
	SVG   template.HTML
	Wide  bool // a narrow screen shows a part of it
}

type shownTable struct {
	Headers []string
	Words   []bool // of the columns: which of them hold words
	Rows    [][]shownCell
}

type shownCell struct {
	Text string
	Word bool
}

// A legendEntry names the curves that look so.
type legendEntry struct {
	Name   string
	Colour template.CSS
	Dashes string
	Point  bool // it is no line
}

// HTML writes the page: one file that needs no other one.
func HTML(w io.Writer, p Page) error {
	data := struct {
		Page
		Light, Dark   template.CSS // the colours
		Machine, Time string
		Took          string
		Shown         []shownFigure
		All           Verdicts
	}{
		Page: p, All: p.Verdicts(), Took: p.Took.Round(time.Second).String(), Time: p.Env.Time.Format("2006-01-02 15:04 MST"),
		Machine: fmt.Sprintf("%s/%s, %d %s", p.Env.OS, p.Env.Arch, p.Env.Cores, show.Plural(p.Env.Cores, "core")),
	}
	if p.Env.CPU != "" {
		data.Machine += ", " + p.Env.CPU
	}
	for _, c := range draw.Colours() {
		data.Light += template.CSS(c.Name + ": " + c.Light + "; ")
		data.Dark += template.CSS(c.Name + ": " + c.Dark + "; ")
	}
	for _, f := range p.Figures {
		shown, err := shownOf(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Figure.Figure.Name, err)
		}
		data.Shown = append(data.Shown, shown)
	}
	return pageTemplate.Execute(w, data)
}

func shownOf(f PageFigure) (shownFigure, error) {
	of := f.Figure.Figure
	s := shownFigure{Error: f.Failed, Name: of.Name, About: of.About, Source: of.Source, Command: f.Command, Took: f.Took.Round(100 * time.Millisecond).String(), Findings: f.findings()}
	s.add(s.Findings)
	if f.Result == nil {
		return s, nil
	}
	s.Title, s.Notes = f.Title, f.Notes
	s.Tables = append(s.Tables, gridOf(f.Figure).shown())
	if f.More != nil {
		s.Tables = append(s.Tables, gridFor(f.More).shown())
	}
	var err error
	s.Panels, s.Legend, err = panelsFor(f.Figure)
	return s, err
}

func (g grid) shown() shownTable {
	t := shownTable{Headers: g.headers, Words: g.words}
	for _, row := range g.rows {
		var cells []shownCell
		for i, text := range row {
			cells = append(cells, shownCell{text, g.words[i]})
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// Of a picture on a page, which scales it down on a narrow screen.
const (
	pagePanelWidth  = 12.5 * vg.Centimeter
	pagePanelHeight = 8 * vg.Centimeter
	pageBarsHeight  = 11 * vg.Centimeter
)

// panelsFor draws the panels of a figure. Their curves are named by the legend, which they share.
func panelsFor(f Figure) (panels []panel, legend []legendEntry, err error) {
	add := func(title string, p *plot.Plot, width, height vg.Length) error {
		svg, err := draw.Inline(p, cmp.Or(title, f.Title), width, height)
		panels = append(panels, panel{title, template.HTML(svg), width > pagePanelWidth}) // texts of plots are escaped by the writer of SVG
		return err
	}
	if len(f.Boxes) > 0 {
		groups, plots, err := boxPlots(f)
		for i, p := range plots {
			err = errors.Join(err, add(groups[i], p, pagePanelWidth, pagePanelHeight))
		}
		return panels, nil, err
	}
	if len(f.Bars) > 0 {
		p, err := barPlot(f)
		if err == nil {
			err = add("", p, barsWidth, pageBarsHeight)
		}
		return panels, nil, err
	}
	if len(f.Curves) == 0 {
		return nil, nil, nil
	}
	all := panelsOf(f.Curves)
	for _, curves := range all {
		p, err := figurePanel(f, "", curves, false)
		if err == nil {
			err = add(curves[0].Panel, p, pagePanelWidth, pagePanelHeight)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return panels, legendOf(all[0]), nil
}

func legendOf(curves []experiment.Curve) (legend []legendEntry) {
	for i, look := range looksOf(curves) {
		entry := legendEntry{Name: curves[i].Name, Colour: template.CSS(draw.Property(look.Color)), Point: curves[i].Paper}
		if entry.Point {
			entry.Colour = "var(--ink)"
		}
		entry.Dashes = dashes(look)
		legend = append(legend, entry)
	}
	return legend
}

func dashes(look vgdraw.LineStyle) string {
	var all []string
	for _, d := range look.Dashes {
		all = append(all, fmt.Sprintf("%g", d.Points()))
	}
	return strings.Join(all, " ")
}
