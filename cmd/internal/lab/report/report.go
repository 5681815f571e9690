// Package report shows what package bench measured: as a table, as JSON lines, and as a plot.
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
)

// A Run is a measurement on one store.
type Run struct {
	Env           show.Environment
	Store         string // as given, or "embedded store"
	Values        string // what was inserted, without the number
	Seed          uint64
	Selectivities []float64
	Skipped       int // rows of the input that were left out
	*bench.Report
}

// Headline returns what was done in a line.
func Headline(r Run) string {
	var shares []string
	for _, s := range r.Selectivities {
		shares = append(shares, show.Percent(s))
	}
	line := fmt.Sprintf("%s %s, %s, layout %s, %s range queries (%s)", show.Count(r.Rows), r.Values, r.Store, strings.Join(layouts(r), " and "), show.Count(r.Queries), strings.Join(shares, ", "))
	if r.Skipped > 0 {
		line += fmt.Sprintf(", %s bad %s left out", show.Count(r.Skipped), show.Plural(r.Skipped, "row"))
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
func Table(w io.Writer, runs []Run, style show.Style) error {
	var b strings.Builder
	for _, r := range runs {
		b.WriteString(show.Wrap(Headline(r), style.Width))
		if !r.Complete {
			b.WriteString(show.Wrap(fmt.Sprintf("Not complete: %s rows were inserted under every scheme.", show.Count(r.Inserted)), style.Width))
		}
		if len(r.Results) > 0 {
			b.WriteString(render(r, style))
			b.WriteString(show.Wrap(legend(r), style.Width))
			b.WriteString(indexes(r, style))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func legend(r Run) string {
	line := fmt.Sprintf("Latencies: a batch of %s rows; a query, decrypted.", show.Count(r.Batch))
	if slices.ContainsFunc(r.Results, func(res bench.Result) bool { return bench.IsTree(res.Scheme) }) {
		line += " A tree has its rows in the leaves, and asks for a node after the other: what that costs over a network, 'opebench repro zerodb-fig7' shows."
	}
	beside := ""
	for _, res := range r.Results {
		base := bench.Baseline(res.Scheme)
		if base == res.Scheme || res.Insert.Ratio.Pairs == 0 {
			continue
		}
		if beside == "" {
			line += fmt.Sprintf(" x PLAIN: the time beside plain's on the same layout, with its 95 %% interval, from %s and %s pairs.",
				show.Count(res.Insert.Ratio.Pairs), show.Count(res.Query.Ratio.Pairs))
			beside = benchtable.Plain
		}
		if base != beside && base != benchtable.Plain {
			line += fmt.Sprintf(" For %s, plain is %s, whose tables have the same index.", res.Scheme, base)
			beside = base
		}
	}
	if besideBare(r) {
		line += " x BARE: the time beside that of the database's client library alone, by row key."
	}
	few := func(p bench.Phase) bool {
		return 0 < p.Ratio.Pairs+p.Bare.Pairs && max(p.Ratio.Pairs, p.Bare.Pairs) < bench.MinPairs
	}
	if len(r.Results) > 1 && slices.ContainsFunc(r.Results, func(res bench.Result) bool { return few(res.Insert) || few(res.Query) }) {
		line += fmt.Sprintf(" Fewer than %d pairs are too few to compare: give a larger --n, a smaller --batch or --writers, or more --queries.", bench.MinPairs)
	}
	line += " CPU us: of this process, for a row."
	if bytesName(r) == "B/ROW" {
		return line + " B/ROW: on the disk."
	}
	return line + " B/ROW: keys and cells."
}

// bytesName says whether the store knew the size on the disk.
func bytesName(r Run) string {
	for _, res := range r.Results {
		if res.DiskBytes == 0 {
			return "B/ROW (keys, cells)"
		}
	}
	return "B/ROW"
}

// headers are those of cells; that of the layouts is left out where there is one.
var headers = []string{"SCHEME", "LAYOUT", "INSERT rows/s", "p50 us", "p99 us", "x PLAIN", "x BARE", "CPU us", "QUERY rows/s", "p50 us", "p99 us", "x PLAIN", "x BARE", "B/ROW", "VERIFIED"}

// turnedNames name the same cells where each has a line.
var turnedNames = []string{"", "layout", "insert rows/s", "insert p50 us", "insert p99 us", "insert x plain", "insert x bare", "insert CPU us",
	"query rows/s", "query p50 us", "query p99 us", "query x plain", "query x bare", "B/row", "verified"}

func cells(r Run, res bench.Result) []string {
	bytes := res.DiskBytes
	if bytesName(r) != "B/ROW" {
		bytes = res.StoredBytes
	}
	return []string{
		res.Scheme, string(res.Layout),
		rate(res.Insert), micros(res.Insert, 0.5), micros(res.Insert, 0.99), ratio(res.Scheme, res.Insert.Ratio), bareRatio(res.Insert), cpuTime(res.Insert),
		rate(res.Query), micros(res.Query, 0.5), micros(res.Query, 0.99), ratio(res.Scheme, res.Query.Ratio), bareRatio(res.Query),
		fmt.Sprintf("%.1f", bytes),
		fmt.Sprintf("%s/%s", show.Count(res.Verified), show.Count(r.Queries)),
	}
}

// shown returns the columns that say something about a run.
func shown(r Run) (columns []int) {
	for i, h := range headers {
		if h == "LAYOUT" && len(layouts(r)) == 1 || h == "x BARE" && !besideBare(r) {
			continue
		}
		columns = append(columns, i)
	}
	return columns
}

// besideBare reports whether the bare client was measured, and something else.
func besideBare(r Run) bool {
	return len(r.Results) > 1 && slices.ContainsFunc(r.Results, func(res bench.Result) bool { return res.Scheme == bench.Bare })
}

func render(r Run, style show.Style) string {
	columns := shown(r)
	pick := func(cells []string) (picked []string) {
		for _, i := range columns {
			picked = append(picked, cells[i])
		}
		return picked
	}
	var rows [][]string
	for _, res := range r.Results {
		rows = append(rows, pick(cells(r, res)))
	}
	names := pick(turnedNames)
	return fitting(pick(headers), rows, func(i int) bool { return columns[i] >= 2 }, style, func(row []string) string {
		return row[0] + "\n" + turned(names[1:], row[1:])
	})
}

// fitting returns rows as a grid or, where the terminal is too narrow for it, each row turned.
func fitting(headers []string, rows [][]string, numeric func(int) bool, style show.Style, turned func(row []string) string) string {
	grid := show.Grid(headers, rows, numeric, style)
	if style.Width == 0 || show.Longest(grid) <= style.Width {
		return grid
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(turned(row))
	}
	return b.String()
}

// turned returns cells in lines of their own, each after its name.
func turned(names, cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "  %-15s %s\n", names[i], cell)
	}
	return b.String()
}

// indexNames are the counts of an index. Those that a scheme does not have come last.
var indexNames = []string{"round trips", "reads", "commits", "refused", "rebalances", "relabels", "moved values"}

// indexes returns what was done to the indexes of stateful schemes, or nothing where there are none.
func indexes(r Run, style show.Style) string {
	headers := []string{"INDEX", "PHASE"}
	for _, name := range indexNames {
		headers = append(headers, strings.ToUpper(name))
	}
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
			row := []string{res.Scheme, phase.name, show.Count(n.RoundTrips), show.Count(n.Reads), show.Count(n.Commits), show.Count(n.Refused)}
			if n.Moves {
				row = append(row, show.Count(n.Rebalances), show.Count(n.Relabels), show.Count(n.Moved))
			} else {
				row = append(row, show.None, show.None, show.None)
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return fitting(headers, rows, func(column int) bool { return column > 1 }, style, func(row []string) string {
		cells := row[2:]
		if none := slices.Index(cells, show.None); none >= 0 {
			cells = cells[:none]
		}
		return fmt.Sprintf("index of %s, %s\n", row[0], row[1]) + turned(indexNames, cells)
	})
}

// Index returns what was done to an index in a line.
func Index(n bench.IndexStats) string {
	line := fmt.Sprintf("%s round trips, %s commits (%s refused)", show.Count(n.RoundTrips), show.Count(n.Commits), show.Count(n.Refused))
	if n.Moves {
		line += fmt.Sprintf(", %s rebalances, %s relabels, %s values moved", show.Count(n.Rebalances), show.Count(n.Relabels), show.Count(n.Moved))
	}
	return line
}

func rate(p bench.Phase) string {
	if p.Rows == 0 {
		return show.None
	}
	return show.Count(int(math.Round(p.Rate())))
}

func micros(p bench.Phase, q float64) string {
	if p.Latency.Count() == 0 {
		return show.None
	}
	return show.Count(int(p.Latency.Quantile(q).Round(time.Microsecond) / time.Microsecond))
}

func cpuTime(p bench.Phase) string {
	if p.CPU == 0 {
		return show.None
	}
	return fmt.Sprintf("%.1f", float64(p.CPUPerRow())/float64(time.Microsecond))
}

func ratio(scheme string, r bench.Ratio) string {
	switch {
	case r.Pairs == 0:
		return show.None
	case scheme == bench.Baseline(scheme):
		return fmt.Sprintf("%.2f", r.Value)
	case !r.HasInterval():
		return fmt.Sprintf("%.2f (%s)", r.Value, show.None)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Value, r.Low, r.High)
}

func bareRatio(p bench.Phase) string {
	if p.Bare.Pairs == 0 {
		return show.None
	}
	return fmt.Sprintf("%.2f", p.Bare.Value)
}

// The lines of JSON. Durations are in nanoseconds, shares and ratios plain numbers.
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
	Bare  *jsonRatio `json:"x_bare,omitempty"`
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
	Beside string   `json:"beside"` // the scheme without encryption
	Value  float64  `json:"value"`
	Low    *float64 `json:"low,omitempty"` // of the interval, where there are pairs enough for one
	High   *float64 `json:"high,omitempty"`
	Pairs  int      `json:"pairs"`
}

func newJSONRatio(beside string, r bench.Ratio) *jsonRatio {
	j := &jsonRatio{Beside: beside, Value: r.Value, Pairs: r.Pairs}
	if r.HasInterval() {
		j.Low, j.High = &r.Low, &r.High
	}
	return j
}

// JSON writes the runs as JSON lines: one record of the environment, then for each run one record
// of itself and one of each scheme and phase.
func JSON(w io.Writer, runs []Run) error {
	var lines []any
	for i, r := range runs {
		if i == 0 {
			lines = append(lines, show.JSONEnvironment{Record: "environment", Environment: r.Env})
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
	return show.Lines(w, lines)
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
		l.Ratio = newJSONRatio(bench.Baseline(res.Scheme), p.Ratio)
	}
	if p.Bare.Pairs > 0 {
		l.Bare = newJSONRatio(bench.Bare, p.Bare)
	}
	name := fmt.Sprintf("BenchmarkOpebench/phase=%s/store=%s/layout=%s/scheme=%s", phase, benchmarkPart.Replace(r.Store), res.Layout, res.Scheme)
	if p.Selectivity > 0 {
		name += fmt.Sprintf("/selectivity=%v", p.Selectivity)
	}
	l.Benchmark = fmt.Sprintf("%s-%d \t%d\t%.1f ns/op\t%.0f rows/s\t%d p50-ns\t%d p99-ns", name, r.Env.Cores, p.Rows, l.PerRow, l.Rate, l.P50, l.P99)
	return l
}
