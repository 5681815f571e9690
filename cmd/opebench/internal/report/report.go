// Package report shows what package bench measured: as a table, as JSON lines, and as a plot.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
)

// An Environment is where and with what something was measured.
type Environment struct {
	Version string    `json:"version"` // of the module
	Go      string    `json:"go"`
	OS      string    `json:"os"`
	Arch    string    `json:"arch"`
	CPU     string    `json:"cpu,omitempty"`
	Cores   int       `json:"cores"`
	Time    time.Time `json:"time"`
}

// ThisEnvironment returns that of this process.
func ThisEnvironment(now time.Time) Environment {
	return Environment{
		Version: Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: cpu(), Cores: runtime.GOMAXPROCS(0), Time: now.UTC().Truncate(time.Second),
	}
}

// Version returns the version of the module that this program was built from, with the commit
// where the build recorded it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, commit, changed := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if version == "" || version == "(devel)" {
		version = "(devel)"
		if commit != "" {
			version += " " + commit + changed
		}
	}
	return version
}

// cpu returns the name of the processor where Linux tells it.
func cpu() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// A Run is a measurement on one store.
type Run struct {
	Env           Environment
	Store         string // as given, or "embedded store"
	Values        string // what was inserted, without the number
	Seed          uint64
	Selectivities []float64
	Skipped       int // rows of the input that were left out
	*bench.Report
}

// Style is how a table is to look.
type Style struct {
	Width int  // of the terminal in columns; 0 where there is none
	Bold  bool // headers
}

// Headline returns what was done in a line.
func Headline(r Run) string {
	var shares []string
	for _, s := range r.Selectivities {
		shares = append(shares, percent(s))
	}
	line := fmt.Sprintf("%s %s, %s, layout %s, %s range queries (%s)", count(r.Rows), r.Values, r.Store, strings.Join(layouts(r), " and "), count(r.Queries), strings.Join(shares, ", "))
	if r.Skipped > 0 {
		line += fmt.Sprintf(", %s bad rows left out", count(r.Skipped))
	}
	return line
}

// layouts returns the layouts of the tables.
func layouts(r Run) []string {
	var names []string
	for _, res := range r.Results {
		if name := string(res.Layout); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Table writes the runs as tables, or as a list where the terminal is too narrow.
func Table(w io.Writer, runs []Run, style Style) error {
	var b strings.Builder
	for _, r := range runs {
		b.WriteString(wrap(Headline(r), style.Width))
		if !r.Complete {
			b.WriteString(wrap(fmt.Sprintf("Not complete: %s rows were inserted under every scheme.", count(r.Inserted)), style.Width))
		}
		if len(r.Results) > 0 {
			whole := render(r, style)
			if style.Width > 0 && longest(whole) > style.Width {
				whole = list(r)
			}
			b.WriteString(whole)
			b.WriteString(wrap(legend(r), style.Width))
			b.WriteString(indexes(r, style))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func legend(r Run) string {
	line := fmt.Sprintf("Latencies: a batch of %s rows; a query, decrypted.", count(r.Batch))
	beside := ""
	for _, res := range r.Results {
		base := bench.Baseline(res.Scheme)
		if base == res.Scheme || res.Insert.Ratio.Pairs == 0 {
			continue
		}
		if beside == "" {
			line += fmt.Sprintf(" x PLAIN: the time beside plain's on the same layout, with its 95 %% interval, from %s and %s pairs.",
				count(res.Insert.Ratio.Pairs), count(res.Query.Ratio.Pairs))
			beside = bench.Plain
		}
		if base != beside {
			line += fmt.Sprintf(" For %s, plain is %s, whose tables have the same index.", res.Scheme, base)
			beside = base
		}
	}
	line += " CPU us: of this process, for a row."
	if bytesName(r) == "B/ROW" {
		return line + " B/ROW: on the disk."
	}
	return line + " B/ROW: keys and cells."
}

// bytesName tells whether the store knew the size on the disk.
func bytesName(r Run) string {
	for _, res := range r.Results {
		if res.DiskBytes == 0 {
			return "B/ROW (keys, cells)"
		}
	}
	return "B/ROW"
}

// headers are those of cells; that of the layouts is left out where there is one.
var headers = []string{"SCHEME", "LAYOUT", "INSERT rows/s", "p50 us", "p99 us", "x PLAIN", "CPU us", "QUERY rows/s", "p50 us", "p99 us", "x PLAIN", "B/ROW", "VERIFIED"}

func cells(r Run, res bench.Result) []string {
	bytes := res.DiskBytes
	if bytesName(r) != "B/ROW" {
		bytes = res.StoredBytes
	}
	return []string{
		res.Scheme, string(res.Layout),
		rate(res.Insert), micros(res.Insert, 0.5), micros(res.Insert, 0.99), ratio(res.Scheme, res.Insert.Ratio), cpuTime(res.Insert),
		rate(res.Query), micros(res.Query, 0.5), micros(res.Query, 0.99), ratio(res.Scheme, res.Query.Ratio),
		fmt.Sprintf("%.1f", bytes),
		fmt.Sprintf("%s/%s", count(res.Verified), count(r.Queries)),
	}
}

func render(r Run, style Style) string {
	var rows [][]string
	for _, res := range r.Results {
		rows = append(rows, cells(r, res))
	}
	shown := slices.Clone(headers)
	if len(layouts(r)) == 1 {
		shown = slices.Delete(shown, 1, 2)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	return grid(shown, rows, func(column int) bool { return column >= len(shown)-len(headers)+2 }, style)
}

// indexes returns what was done to the indexes of stateful schemes, or nothing where there are none.
func indexes(r Run, style Style) string {
	headers := []string{"INDEX", "PHASE", "ROUND TRIPS", "READS", "COMMITS", "REFUSED", "REBALANCES", "RELABELS", "MOVED VALUES"}
	var rows [][]string
	for _, res := range r.Results {
		for _, phase := range []struct {
			name string
			*bench.Phase
		}{{"insert", &res.Insert}, {"query", &res.Query}} {
			n := phase.Index
			if n == nil || phase.name == "query" && phase.Rows == 0 {
				continue
			}
			row := []string{res.Scheme, phase.name, count(n.RoundTrips), count(n.Reads), count(n.Commits), count(n.Refused)}
			if n.Moves {
				row = append(row, count(n.Rebalances), count(n.Relabels), count(n.Moved))
			} else {
				row = append(row, none, none, none)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return ""
	}
	whole := grid(headers, rows, func(column int) bool { return column > 1 }, style)
	if style.Width > 0 && longest(whole) > style.Width {
		var b strings.Builder
		for _, row := range rows {
			fmt.Fprintf(&b, "index of %s, %s\n", row[0], row[1])
			for i, cell := range row[2:] {
				if cell != none {
					fmt.Fprintf(&b, "  %-15s %s\n", strings.ToLower(headers[i+2]), cell)
				}
			}
		}
		return b.String()
	}
	return whole
}

// Index returns what was done to an index in a line.
func Index(n bench.IndexStats) string {
	line := fmt.Sprintf("%s round trips, %s commits (%s refused)", count(n.RoundTrips), count(n.Commits), count(n.Refused))
	if n.Moves {
		line += fmt.Sprintf(", %s rebalances, %s relabels, %s values moved", count(n.Rebalances), count(n.Relabels), count(n.Moved))
	}
	return line
}

// grid returns a table without lines, whose columns of numbers stand at the right.
func grid(headers []string, rows [][]string, number func(column int) bool, style Style) string {
	t := table.NewWriter()
	plain := table.StyleDefault
	plain.Options = table.OptionsNoBordersAndSeparators
	plain.Box.PaddingLeft, plain.Box.PaddingRight = "", "  "
	plain.Format.Header = text.FormatDefault
	plain.Color = table.ColorOptions{}
	if style.Bold {
		plain.Color.Header = text.Colors{text.Bold}
	}
	t.SetStyle(plain)
	line := func(cells []string) table.Row {
		row := table.Row{}
		for _, c := range cells {
			row = append(row, c)
		}
		return row
	}
	var configs []table.ColumnConfig
	for i := range headers {
		if number(i) {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(line(headers))
	t.SetColumnConfigs(configs)
	for _, cells := range rows {
		t.AppendRow(line(cells))
	}
	var b strings.Builder
	for line := range strings.Lines(t.Render()) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// list is the table turned, for narrow terminals.
func list(r Run) string {
	names := []string{"", "layout", "insert rows/s", "insert p50 us", "insert p99 us", "insert x plain", "insert CPU us",
		"query rows/s", "query p50 us", "query p99 us", "query x plain", "B/row", "verified"}
	var b strings.Builder
	for _, res := range r.Results {
		c := cells(r, res)
		fmt.Fprintf(&b, "%s\n", c[0])
		for i := 1; i < len(names); i++ {
			if i == 1 && len(layouts(r)) == 1 {
				continue
			}
			fmt.Fprintf(&b, "  %-15s %s\n", names[i], c[i])
		}
	}
	return b.String()
}

func longest(s string) int {
	n := 0
	for line := range strings.Lines(s) {
		n = max(n, text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")))
	}
	return n
}

func wrap(s string, width int) string {
	if width > 0 {
		s = text.WrapSoft(s, width)
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

const none = "-"

func rate(p bench.Phase) string {
	if p.Rows == 0 {
		return none
	}
	return count(int(math.Round(p.Rate())))
}

func micros(p bench.Phase, q float64) string {
	if p.Latency.Count() == 0 {
		return none
	}
	return count(int(p.Latency.Quantile(q).Round(time.Microsecond) / time.Microsecond))
}

func cpuTime(p bench.Phase) string {
	if p.CPU == 0 {
		return none
	}
	return fmt.Sprintf("%.1f", float64(p.CPUPerRow())/float64(time.Microsecond))
}

func ratio(scheme string, r bench.Ratio) string {
	switch {
	case r.Pairs == 0:
		return none
	case scheme == bench.Baseline(scheme):
		return fmt.Sprintf("%.2f", r.Value)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Value, r.Low, r.High)
}

func percent(share float64) string {
	return fmt.Sprintf("%v %%", math.Round(share*1e8)/1e6)
}

// count writes 20000 as 20,000.
func count(n int) string {
	s := fmt.Sprint(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// The lines of JSON. Durations are in nanoseconds, shares and ratios plain numbers.
type jsonEnvironment struct {
	Record string `json:"record"` // "environment"
	Environment
}

type jsonRun struct {
	Record        string    `json:"record"` // "run"
	Store         string    `json:"store"`
	Layout        string    `json:"layout"` // or several, with commas
	Values        string    `json:"values"`
	Seed          uint64    `json:"seed"`
	Rows          int       `json:"rows"`
	Inserted      int       `json:"inserted"`
	Skipped       int       `json:"skipped"`
	Queries       int       `json:"queries"`
	Selectivities []float64 `json:"selectivities"`
	Batch         int       `json:"batch"`
	Complete      bool      `json:"complete"`
}

type jsonResult struct {
	Record   string  `json:"record"` // "result"
	Store    string  `json:"store"`
	Layout   string  `json:"layout"`
	Scheme   string  `json:"scheme"`
	SchemeID string  `json:"scheme_id"`
	Seed     uint64  `json:"seed"`
	Phase    string  `json:"phase"`                 // "insert" or "query"
	Share    float64 `json:"selectivity,omitempty"` // of the queries, where it is one
	N        int     `json:"n"`                     // batches or queries
	Rows     int     `json:"rows"`
	Elapsed  int64   `json:"elapsed_ns"`
	PerRow   float64 `json:"ns_per_row"`
	Rate     float64 `json:"rows_per_s"`
	CPU      int64   `json:"cpu_ns_per_row,omitempty"`
	P50      int64   `json:"p50_ns"`
	P90      int64   `json:"p90_ns"`
	P99      int64   `json:"p99_ns"`
	Max      int64   `json:"max_ns"`

	Ratio *jsonRatio `json:"x_plain,omitempty"`
	Index *IndexJSON `json:"index,omitempty"` // of stateful schemes

	StoredBytes float64 `json:"stored_bytes_per_row,omitempty"`
	DiskBytes   float64 `json:"disk_bytes_per_row,omitempty"`
	Verified    *int    `json:"verified,omitempty"`
	Whole       *bool   `json:"whole_column_verified,omitempty"`

	// A line that benchstat reads.
	Benchmark string `json:"benchmark"`
}

// IndexJSON is what was done to an index. Refused and unknown are of the commits; the last three
// are there for schemes that move ciphertexts.
type IndexJSON struct {
	RoundTrips int  `json:"round_trips"`
	Reads      int  `json:"reads"`
	Commits    int  `json:"commits"`
	Refused    int  `json:"refused"`
	Unknown    int  `json:"unknown"`
	Rebalances *int `json:"rebalances,omitempty"`
	Relabels   *int `json:"relabels,omitempty"`
	Moved      *int `json:"moved,omitempty"`
}

// NewIndexJSON returns nil for nil.
func NewIndexJSON(n *bench.IndexStats) *IndexJSON {
	if n == nil {
		return nil
	}
	j := &IndexJSON{RoundTrips: n.RoundTrips, Reads: n.Reads, Commits: n.Commits, Refused: n.Refused, Unknown: n.Unknown}
	if n.Moves {
		j.Rebalances, j.Relabels, j.Moved = &n.Rebalances, &n.Relabels, &n.Moved
	}
	return j
}

type jsonRatio struct {
	Beside string  `json:"beside"` // the scheme without encryption
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Pairs  int     `json:"pairs"`
}

// JSON writes the runs as JSON lines: one record of the environment, then for each run one record
// of itself and one of each scheme and phase.
func JSON(w io.Writer, runs []Run) error {
	var lines []any
	for i, r := range runs {
		if i == 0 {
			lines = append(lines, jsonEnvironment{"environment", r.Env})
		}
		lines = append(lines, jsonRun{
			Record: "run", Store: r.Store, Layout: strings.Join(layouts(r), ","), Values: r.Values, Seed: r.Seed, Rows: r.Rows, Inserted: r.Inserted,
			Skipped: r.Skipped, Queries: r.Queries, Selectivities: r.Selectivities, Batch: r.Batch, Complete: r.Complete,
		})
		for _, res := range r.Results {
			insert := line(r, res, "insert", res.Insert)
			insert.StoredBytes, insert.DiskBytes = res.StoredBytes, res.DiskBytes
			query := line(r, res, "query", res.Query)
			query.Verified, query.Whole = &res.Verified, &res.Whole
			lines = append(lines, insert, query)
			for _, p := range res.BySelectivity {
				lines = append(lines, line(r, res, "query", p))
			}
		}
	}
	return writeLines(w, lines)
}

// writeLines writes JSON lines.
func writeLines(w io.Writer, lines []any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// benchmarkPart keeps the names of stores within a part of the name of a benchmark.
var benchmarkPart = strings.NewReplacer(" ", "_", "\t", "_", "/", "_")

func line(r Run, res bench.Result, phase string, p bench.Phase) jsonResult {
	l := jsonResult{
		Record: "result", Store: r.Store, Layout: string(res.Layout), Scheme: res.Scheme, SchemeID: res.SchemeID, Seed: r.Seed, Phase: phase, Share: p.Selectivity,
		Index: NewIndexJSON(p.Index),
		N:     int(p.Latency.Count()), Rows: p.Rows, Elapsed: p.Elapsed.Nanoseconds(), Rate: p.Rate(), CPU: p.CPUPerRow().Nanoseconds(),
		P50: int64(p.Latency.Quantile(0.5)), P90: int64(p.Latency.Quantile(0.9)),
		P99: int64(p.Latency.Quantile(0.99)), Max: int64(p.Latency.Quantile(1)),
	}
	if p.Rows > 0 {
		l.PerRow = float64(p.Elapsed.Nanoseconds()) / float64(p.Rows)
	}
	if p.Ratio.Pairs > 0 {
		l.Ratio = &jsonRatio{bench.Baseline(res.Scheme), p.Ratio.Value, p.Ratio.Low, p.Ratio.High, p.Ratio.Pairs}
	}
	name := fmt.Sprintf("BenchmarkOpebench/phase=%s/store=%s/layout=%s/scheme=%s", phase, benchmarkPart.Replace(r.Store), res.Layout, res.Scheme)
	if p.Selectivity > 0 {
		name += fmt.Sprintf("/selectivity=%v", p.Selectivity)
	}
	l.Benchmark = fmt.Sprintf("%s-%d \t%d\t%.1f ns/op\t%.0f rows/s\t%d p50-ns\t%d p99-ns", name, r.Env.Cores, p.Rows, l.PerRow, l.Rate, l.P50, l.P99)
	return l
}
