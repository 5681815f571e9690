package command

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/rangecrypt/rangecrypt/internal/cli/audit"
)

// An auditReport is what was found about a column.
type auditReport struct {
	Env        show.Environment
	Values     string // what was attacked, without the number of rows
	Knows      string // what the adversary knows of the distribution
	Seed       uint64
	Skipped    int      // rows of the input that were left out
	AuxSkipped int      // of the values that the adversary knows
	Limit      *float64 // of what may be read exactly, or nil
	Failed     []string // schemes that give away more
	Advice     audit.Advice
	*audit.Report
}

// auditHeadline returns what was audited in a line.
func auditHeadline(a auditReport) string {
	line := fmt.Sprintf("%s rows of %s: %s distinct %s, entropy %.1f bits, density %s of the domain", show.Count(a.Rows), a.Values, show.Count(a.Distinct), show.Plural(a.Distinct, "value"), a.Entropy, audit.Percent(a.Density))
	if a.Skipped > 0 {
		line += fmt.Sprintf(", %s bad %s left out", show.Count(a.Skipped), show.Plural(a.Skipped, "row"))
	}
	return line
}

// auditTable writes the figures as a table, then what they mean.
func auditTable(w io.Writer, a auditReport, style show.Style) error {
	terminal := style.Width
	if style.Width == 0 {
		style.Width = show.Prose
	}
	var b strings.Builder
	b.WriteString(show.Wrap(auditHeadline(a), style.Width))
	b.WriteString(show.Wrap(fmt.Sprintf("The adversary who knows the distribution knows %s. Shares of rows: the median of %d trials and, where they differ, the least and the greatest. WITHIN %s is of the column's spread; BITS are how many a guess gains from the ciphertexts. (none) is the best guess without any.",
		a.Knows, a.Trials, audit.Percent(audit.Nearness)), style.Width))
	b.WriteByte('\n')
	headers := []string{"SCHEME", "ADVERSARY KNOWS", "EXACT", "WITHIN " + audit.Percent(audit.Nearness), "BITS", "BEST ATTACK"}
	rows := [][]string{{"(none)", knows(audit.KnowsDistribution, a), exact(a.Without), near(a.Without), "0.0", "no ciphertext"}}
	for _, r := range a.Results {
		name := r.Scheme
		for _, v := range r.Views {
			rows = append(rows, []string{name, knows(v.Adversary, a), exact(v.Figures), near(v.Figures), fmt.Sprintf("%.1f", v.Bits), v.Best().Name})
			name = ""
		}
	}
	table := show.Grid(headers, rows, func(column int) bool { return column >= 2 && column <= 4 }, style)
	if terminal > 0 && show.Longest(table) > terminal {
		table = findings(rows)
	}
	b.WriteString(table)
	b.WriteByte('\n')
	b.WriteString(show.Wrap("Whoever sees the table at rest, a snapshot, or watches it, a server, learns the order of all values and which are equal. Besides:", style.Width))
	for _, r := range a.Results {
		b.WriteString(show.Wrap(fmt.Sprintf("* %s: %s", r.Scheme, learns(r)), style.Width))
	}
	b.WriteByte('\n')
	for _, text := range a.Advice.Text {
		b.WriteString(show.Wrap(text, style.Width))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func exact(f audit.Figures) string { return ranged(f.Exact, f.Least.Exact, f.Most.Exact) }
func near(f audit.Figures) string  { return ranged(f.Near, f.Least.Near, f.Most.Near) }

// ranged writes a share of all trials, and the least and the greatest where they differ by more than a
// hundredth of the rows.
func ranged(median, least, most float64) string {
	text := audit.Percent(median)
	if most-least < 0.01 {
		return text
	}
	return fmt.Sprintf("%s (%.0f-%.0f)", text, 100*least, 100*most)
}

// findings is the table as a list, for narrow terminals.
func findings(rows [][]string) string {
	var b strings.Builder
	for _, row := range rows {
		if row[0] != "" {
			fmt.Fprintf(&b, "%s\n", row[0])
		}
		fmt.Fprintf(&b, "  %s: %s exact\n    %s near, %s bits, by %s\n", row[1], row[2], row[3], row[4], row[5])
	}
	return b.String()
}

func knows(v audit.Adversary, a auditReport) string {
	switch v {
	case audit.KnowsRows:
		return fmt.Sprintf("%d rows", a.Known)
	case audit.Server:
		return "distribution, queries"
	}
	return string(v)
}

// learns says what is learned of a scheme beside order and equality.
func learns(r audit.Result) string {
	snapshot, server := audit.Learns(r.Scheme)
	if r.Mutable {
		snapshot = fmt.Sprintf("%s, here of %s of the pairs", snapshot, audit.Percent(r.Traced))
	}
	return fmt.Sprintf("a snapshot shows %s; a server learns %s.", snapshot, server)
}

// The lines of JSON.
type jsonAudit struct {
	Record     string   `json:"record"` // "audit"
	Values     string   `json:"values"`
	Knows      string   `json:"knows"`
	Seed       uint64   `json:"seed"`
	Rows       int      `json:"rows"`
	Skipped    int      `json:"skipped"`
	AuxSkipped int      `json:"aux_skipped,omitempty"`
	Halved     bool     `json:"halved"`
	Distinct   int      `json:"distinct"`
	Min        int64    `json:"domain_min"`
	Max        int64    `json:"domain_max"`
	Density    float64  `json:"density"`
	Entropy    float64  `json:"entropy_bits"`
	Trials     int      `json:"trials"`
	Known      int      `json:"known_rows"`
	Nearness   float64  `json:"near"`
	Without    jsonFind `json:"without_ciphertexts"`
}

// jsonFind has the medians of all trials, the least and the greatest.
type jsonFind struct {
	Exact      float64 `json:"exact_share"`
	ExactLeast float64 `json:"exact_share_least"`
	ExactMost  float64 `json:"exact_share_most"`
	Near       float64 `json:"near_share"`
	NearLeast  float64 `json:"near_share_least"`
	NearMost   float64 `json:"near_share_most"`
	Bits       float64 `json:"bits"`
}

type jsonView struct {
	Record    string `json:"record"` // "finding", the best of the attacks, or "attack"
	Scheme    string `json:"scheme"`
	SchemeID  string `json:"scheme_id"`
	Adversary string `json:"adversary"`
	Attack    string `json:"attack,omitempty"`
	jsonFind
}

type jsonLearned struct {
	Record   string   `json:"record"` // "learned"
	Scheme   string   `json:"scheme"`
	Snapshot string   `json:"snapshot"`
	Server   string   `json:"server"`
	Traced   *float64 `json:"traced_pairs_share,omitempty"`
}

type jsonAdvice struct {
	Record string   `json:"record"` // "advice"
	Level  string   `json:"level"`
	Text   []string `json:"text"`
	Limit  *float64 `json:"limit,omitempty"`
	Failed []string `json:"failed,omitempty"`
}

// auditJSON writes an audit as JSON lines.
func auditJSON(w io.Writer, a auditReport) error {
	find := func(f audit.Figures) jsonFind {
		return jsonFind{f.Exact, f.Least.Exact, f.Most.Exact, f.Near, f.Least.Near, f.Most.Near, f.Bits}
	}
	lines := []any{
		show.JSONEnvironment{Record: "environment", Environment: a.Env},
		jsonAudit{
			Record: "audit", Values: a.Values, Knows: a.Knows, Seed: a.Seed, Rows: a.Rows, Skipped: a.Skipped, AuxSkipped: a.AuxSkipped, Halved: a.Halved, Distinct: a.Distinct,
			Min: a.Domain.Min, Max: a.Domain.Max, Density: a.Density, Entropy: a.Entropy, Trials: a.Trials, Known: a.Known, Nearness: audit.Nearness, Without: find(a.Without),
		},
	}
	for _, r := range a.Results {
		for _, v := range r.Views {
			view := jsonView{"finding", r.Scheme, r.SchemeID, string(v.Adversary), "", find(v.Figures)}
			lines = append(lines, view)
			for _, at := range v.Attacks {
				view.Record, view.Attack, view.jsonFind = "attack", at.Name, find(at.Figures)
				lines = append(lines, view)
			}
		}
		snapshot, server := audit.Learns(r.Scheme)
		l := jsonLearned{Record: "learned", Scheme: r.Scheme, Snapshot: snapshot, Server: server}
		if r.Mutable {
			l.Traced = &r.Traced
		}
		lines = append(lines, l)
	}
	lines = append(lines, jsonAdvice{"advice", string(a.Advice.Level), a.Advice.Text, a.Limit, a.Failed})
	return show.Lines(w, lines)
}

// auditPlot draws an audit: the share of rows that are read exactly, that are read to within a
// hundredth of the spread, and the errors of who knows the distribution. The name says the format.
func auditPlot(name string, a auditReport) ([]byte, error) {
	if err := draw.CheckName(name); err != nil {
		return nil, err
	}
	exact, err := sharePlot("Read exactly", a, func(f audit.Figures) float64 { return f.Exact })
	if err != nil {
		return nil, err
	}
	near, err := sharePlot("Read to within "+audit.Percent(audit.Nearness)+" of the spread", a, func(f audit.Figures) float64 { return f.Near })
	if err != nil {
		return nil, err
	}
	errors, err := errorPlot(a)
	if err != nil {
		return nil, err
	}
	width := vg.Length(30+5*max(len(a.Results)-3, 0)) * vg.Centimeter
	return draw.Picture(name, auditHeadline(a), width, exact, near, errors)
}

func sharePlot(title string, a auditReport, share func(audit.Figures) float64) (*plot.Plot, error) {
	p := draw.New(title, "share of the rows")
	adversaries := audit.Adversaries()
	width := vg.Points(min(18, 150/float64(len(a.Results)*len(adversaries))))
	var names []string
	for i, adversary := range adversaries {
		values := plotter.Values{}
		for _, r := range a.Results {
			values = append(values, 100*share(r.View(adversary).Figures))
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		bars.Offset = width * vg.Length(float64(i)-float64(len(adversaries)-1)/2)
		bars.Color = draw.Palette[(i+1)%len(draw.Palette)]
		bars.LineStyle.Width = 0
		p.Add(bars)
		p.Legend.Add(knows(adversary, a), bars)
	}
	without, err := plotter.NewLine(plotter.XYs{{X: -0.6, Y: 100 * share(a.Without)}, {X: float64(len(a.Results)) - 0.4, Y: 100 * share(a.Without)}})
	if err != nil {
		return nil, err
	}
	without.Color = draw.Palette[0]
	without.Width = vg.Points(1.2)
	without.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(without)
	p.Legend.Add("no ciphertext", without)
	for _, r := range a.Results {
		names = append(names, strings.ReplaceAll(r.Scheme, "-", "-\n"))
	}
	p.NominalX(names...)
	p.X.Tick.Label.Font.Size = vg.Points(8)
	p.X.Min, p.X.Max = -0.6, float64(len(a.Results))-0.4
	sharesUpwards(p)
	return p, nil
}

// sharesUpwards gives a plot an axis of shares, with room above all of them for the legend.
func sharesUpwards(p *plot.Plot) {
	p.Y.Min, p.Y.Max = 0, 145
	p.Y.Tick.Marker = percentTicks{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs = vg.Points(6)
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Legend.Padding = vg.Points(2)
}

// percentTicks marks shares up to all.
type percentTicks struct{}

func (percentTicks) Ticks(_, _ float64) []plot.Tick {
	var all []plot.Tick
	for v := 0.0; v <= 100; v += 20 {
		all = append(all, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f %%", v)})
	}
	return all
}

// leastError is where the plot of errors begins: smaller ones are drawn there.
const leastError = 1e-6

func errorPlot(a auditReport) (*plot.Plot, error) {
	p := draw.New("Error of who knows the distribution, in all trials", "share of the rows with at most this error")
	p.X.Label.Text = "error, as a share of the spread (log scale)"
	for i, r := range a.Results {
		line := plotter.XYs{{X: leastError, Y: 0}}
		for j, e := range r.Errors {
			if x := max(e, leastError); x <= 1 {
				line = append(line, plotter.XY{X: x, Y: 100 * float64(j+1) / float64(len(r.Errors))})
			}
		}
		last := line[len(line)-1]
		line = append(line, plotter.XY{X: 1, Y: last.Y})
		l, err := plotter.NewLine(line)
		if err != nil {
			return nil, err
		}
		l.Color = draw.Palette[(i+1)%len(draw.Palette)]
		// The first are thicker, so that they are seen where curves fall together.
		l.Width = vg.Points(1.3 + 1.4*float64(len(a.Results)-1-i))
		p.Add(l)
		p.Legend.Add(r.Scheme, l)
	}
	at, err := plotter.NewLine(plotter.XYs{{X: audit.Nearness, Y: 0}, {X: audit.Nearness, Y: 100}})
	if err != nil {
		return nil, err
	}
	at.Color = color.Gray{Y: 0x99}
	at.Dashes = []vg.Length{vg.Points(2), vg.Points(2)}
	p.Add(at)
	p.X.Min, p.X.Max = leastError, 1
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = shareTicks{}
	sharesUpwards(p)
	return p, nil
}

// shareTicks marks powers of ten in per cent.
type shareTicks struct{}

func (shareTicks) Ticks(low, high float64) []plot.Tick {
	var all []plot.Tick
	for e := math.Round(math.Log10(low)); e <= math.Round(math.Log10(high)); e++ {
		tick := plot.Tick{Value: math.Pow(10, e)}
		if int(e)%2 == 0 { // every second has room for its label
			tick.Label = fmt.Sprintf("%g %%", math.Pow(10, e+2))
		}
		all = append(all, tick)
	}
	return all
}
