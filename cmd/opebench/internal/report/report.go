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
	line := fmt.Sprintf("%s %s, %s, layout %s, %s range queries (%s)", count(r.Rows), r.Values, r.Store, r.Layout, count(r.Queries), strings.Join(shares, ", "))
	if r.Skipped > 0 {
		line += fmt.Sprintf(", %s bad rows left out", count(r.Skipped))
	}
	return line
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
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func legend(r Run) string {
	line := fmt.Sprintf("Latencies: a batch of %s rows; a query, decrypted.", count(r.Batch))
	for _, res := range r.Results {
		if res.Scheme != bench.Plain && res.Insert.Ratio.Pairs > 0 {
			line += fmt.Sprintf(" x PLAIN: the time beside plain's, with its 95 %% interval, from %s and %s pairs.",
				count(res.Insert.Ratio.Pairs), count(res.Query.Ratio.Pairs))
			break
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

var headers = []string{"SCHEME", "INSERT rows/s", "p50 us", "p99 us", "x PLAIN", "CPU us", "QUERY rows/s", "p50 us", "p99 us", "x PLAIN", "B/ROW", "VERIFIED"}

func cells(r Run, res bench.Result) []string {
	bytes := res.DiskBytes
	if bytesName(r) != "B/ROW" {
		bytes = res.StoredBytes
	}
	return []string{
		res.Scheme,
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
	return grid(headers, rows, func(column int) bool { return column > 0 }, style)
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
	names := []string{"", "insert rows/s", "insert p50 us", "insert p99 us", "insert x plain", "insert CPU us",
		"query rows/s", "query p50 us", "query p99 us", "query x plain", "B/row", "verified"}
	var b strings.Builder
	for _, res := range r.Results {
		c := cells(r, res)
		fmt.Fprintf(&b, "%s\n", c[0])
		for i := 1; i < len(names); i++ {
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
	case scheme == bench.Plain:
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
	Layout        string    `json:"layout"`
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

	StoredBytes float64 `json:"stored_bytes_per_row,omitempty"`
	DiskBytes   float64 `json:"disk_bytes_per_row,omitempty"`
	Verified    *int    `json:"verified,omitempty"`
	Whole       *bool   `json:"whole_column_verified,omitempty"`

	// A line that benchstat reads.
	Benchmark string `json:"benchmark"`
}

type jsonRatio struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Pairs int     `json:"pairs"`
}

// JSON writes the runs as JSON lines: one record of the environment, then for each run one record
// of itself and one of each scheme and phase.
func JSON(w io.Writer, runs []Run) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for i, r := range runs {
		if i == 0 {
			if err := e.Encode(jsonEnvironment{"environment", r.Env}); err != nil {
				return err
			}
		}
		if err := e.Encode(jsonRun{
			Record: "run", Store: r.Store, Layout: string(r.Layout), Values: r.Values, Seed: r.Seed, Rows: r.Rows, Inserted: r.Inserted,
			Skipped: r.Skipped, Queries: r.Queries, Selectivities: r.Selectivities, Batch: r.Batch, Complete: r.Complete,
		}); err != nil {
			return err
		}
		for _, res := range r.Results {
			insert := line(r, res, "insert", res.Insert)
			insert.StoredBytes, insert.DiskBytes = res.StoredBytes, res.DiskBytes
			query := line(r, res, "query", res.Query)
			query.Verified, query.Whole = &res.Verified, &res.Whole
			lines := []jsonResult{insert, query}
			for _, p := range res.BySelectivity {
				l := line(r, res, "query", p)
				lines = append(lines, l)
			}
			for _, l := range lines {
				if err := e.Encode(l); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// benchmarkPart keeps the names of stores within a part of the name of a benchmark.
var benchmarkPart = strings.NewReplacer(" ", "_", "\t", "_", "/", "_")

func line(r Run, res bench.Result, phase string, p bench.Phase) jsonResult {
	l := jsonResult{
		Record: "result", Store: r.Store, Layout: string(r.Layout), Scheme: res.Scheme, SchemeID: res.SchemeID, Seed: r.Seed, Phase: phase, Share: p.Selectivity,
		N: int(p.Latency.Count()), Rows: p.Rows, Elapsed: p.Elapsed.Nanoseconds(), Rate: p.Rate(), CPU: p.CPUPerRow().Nanoseconds(),
		P50: int64(p.Latency.Quantile(0.5)), P90: int64(p.Latency.Quantile(0.9)),
		P99: int64(p.Latency.Quantile(0.99)), Max: int64(p.Latency.Quantile(1)),
	}
	if p.Rows > 0 {
		l.PerRow = float64(p.Elapsed.Nanoseconds()) / float64(p.Rows)
	}
	if p.Ratio.Pairs > 0 {
		l.Ratio = &jsonRatio{p.Ratio.Value, p.Ratio.Low, p.Ratio.High, p.Ratio.Pairs}
	}
	name := fmt.Sprintf("BenchmarkOpebench/phase=%s/store=%s/layout=%s/scheme=%s", phase, benchmarkPart.Replace(r.Store), r.Layout, res.Scheme)
	if p.Selectivity > 0 {
		name += fmt.Sprintf("/selectivity=%v", p.Selectivity)
	}
	l.Benchmark = fmt.Sprintf("%s-%d \t%d\t%.1f ns/op\t%.0f rows/s\t%d p50-ns\t%d p99-ns", name, r.Env.Cores, p.Rows, l.PerRow, l.Rate, l.P50, l.P99)
	return l
}
