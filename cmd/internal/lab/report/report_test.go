package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/kms"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

var update = flag.Bool("update", false, "write the golden files again")

// measured is a real run on a database in memory, with its times replaced.
func measured(t *testing.T) Run { return measuredWith(t, "plain", "mope") }

func measuredWith(t *testing.T, schemes ...string) Run {
	t.Helper()
	source, err := values.Generate("uniform", 1000, 1, "", "")
	require.NoError(t, err)
	st, err := bench.OpenStore(context.Background(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), true)
	require.NoError(t, err)
	report, err := bench.Run(context.Background(), st, bench.Config{
		Source: source, Schemes: schemes, Queries: 12, Selectivities: []float64{0.001, 0.1}, Batch: 10, Writers: 1, Seed: 1,
	})
	require.NoError(t, err)
	for i := range report.Results {
		r := &report.Results[i]
		slow := time.Duration(i + 1)
		phases := []*bench.Phase{&r.Insert, &r.Query}
		for j := range r.BySelectivity {
			phases = append(phases, &r.BySelectivity[j])
		}
		for j, p := range phases {
			p.Elapsed = slow * time.Duration(j+1) * 10 * time.Millisecond
			p.Latency = bench.LatencyOf(slow*time.Millisecond, 2*slow*time.Millisecond, 20*slow*time.Millisecond)
			p.CPU = 0
			p.Ratio = bench.Ratio{Value: float64(slow), Low: float64(slow) * 0.9, High: float64(slow) * 1.1, Pairs: 100}
		}
		r.Insert.CPU = slow * 12_300 * time.Microsecond
	}
	return Run{
		Env:   show.Environment{Version: "v0.0.0", Go: "go1.26", OS: "linux", Arch: "amd64", Cores: 2, Time: time.Unix(1_700_000_000, 0).UTC()},
		Store: "embedded store", Values: source.Describe(), Seed: 1, Selectivities: []float64{0.001, 0.1}, Report: report,
	}
}

// tableOf and jsonOf return what is printed of runs.
func tableOf(t *testing.T, r Run, style show.Style) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, Table(&b, []Run{r}, style))
	require.True(t, style.Width == 0 || show.Longest(b.String()) <= style.Width)
	return b.String()
}

func jsonOf(t *testing.T, runs ...Run) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, JSON(&b, runs))
	return b.String()
}

// wellFormed checks that a picture is XML.
func wellFormed(t *testing.T, picture []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "if this is meant, run the test with -update")
}

func TestTable(t *testing.T) {
	r := measured(t)
	golden(t, "table.txt", tableOf(t, r, show.Style{}))
	golden(t, "narrow.txt", tableOf(t, r, show.Style{Width: 60}))
	require.Contains(t, tableOf(t, r, show.Style{Width: 200, Bold: true}), "\x1b[1m")

	// Half-way: what is not known is no number.
	r.Complete, r.Skipped, r.Inserted = false, 1234, 400
	r.Results[1].Query = bench.Phase{}
	r.Results[1].Verified = 0
	r.Results[0].DiskBytes, r.Results[1].DiskBytes = 31.4, 100
	golden(t, "partial.txt", tableOf(t, r, show.Style{}))
}

// Schemes that keep an index are beside a table without encryption that has one, and what they did
// to theirs is told; nothing is told of those that have none.
func TestIndexes(t *testing.T) {
	r := measuredWith(t, "plain", "wozniak-indexed", "kerschbaum")
	with := 0
	for i := range r.Results {
		insert, query := r.Results[i].Insert.Index, r.Results[i].Query.Index
		require.Equal(t, insert == nil, query == nil)
		if insert == nil {
			continue
		}
		require.Positive(t, insert.Commits)
		require.Greater(t, r.Results[i].StoredBytes, 100.0)
		r.Results[i].StoredBytes = 250 // it depends on what commits met
		insert.IndexStats = compare.IndexStats{RoundTrips: 1234, Reads: 1100, Commits: 234, Refused: 3, Unknown: 1}
		if insert.Moves {
			insert.Rebalances, insert.Relabels, insert.Moved = 2, 15, 4321
		}
		query.IndexStats = compare.IndexStats{RoundTrips: 12, Reads: 12}
		with++
	}
	require.Equal(t, 2, with)
	golden(t, "indexes.txt", tableOf(t, r, show.Style{}))
	golden(t, "indexes-narrow.txt", tableOf(t, r, show.Style{Width: 60}))

	lines := 0
	for line := range strings.Lines(jsonOf(t, r)) {
		var m struct {
			Record, Layout, Scheme, Phase string
			Selectivity                   float64
			Index                         map[string]int
			Beside                        struct{ Beside string } `json:"x_plain"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if m.Record == "run" {
			require.Equal(t, "key,column", m.Layout)
		}
		if m.Record != "result" {
			continue
		}
		lines++
		var want map[string]int
		switch {
		case m.Selectivity > 0:
		case m.Scheme == "wozniak-indexed" && m.Phase == "insert":
			want = map[string]int{"round_trips": 1234, "reads": 1100, "commits": 234, "refused": 3, "unknown": 1}
		case m.Scheme == "kerschbaum" && m.Phase == "insert":
			want = map[string]int{"round_trips": 1234, "reads": 1100, "commits": 234, "refused": 3, "unknown": 1, "rebalances": 2, "relabels": 15, "moved": 4321}
		case m.Scheme == "wozniak-indexed":
			want = map[string]int{"round_trips": 12, "reads": 12, "commits": 0, "refused": 0, "unknown": 0}
		case m.Scheme == "kerschbaum":
			want = map[string]int{"round_trips": 12, "reads": 12, "commits": 0, "refused": 0, "unknown": 0, "rebalances": 0, "relabels": 0, "moved": 0}
		}
		require.Equal(t, want, m.Index, line)
		require.Equal(t, map[string]string{"plain": "key", "wozniak-indexed": "key", "plain-indexed": "column", "kerschbaum": "column"}[m.Scheme], m.Layout)
		require.Equal(t, map[string]string{"key": "plain", "column": "plain-indexed"}[m.Layout], m.Beside.Beside)
	}
	require.Equal(t, 4*4, lines)

	picture, err := Plot("x.svg", []Run{r})
	require.NoError(t, err)
	require.Contains(t, string(picture), "kerschbaum")
	require.Contains(t, string(picture), "column")

	index := r.Results[3].Insert.Index
	require.Equal(t, "1,234 round trips, 234 commits (3 refused), 2 rebalances, 15 relabels, 4,321 values moved", Index(*index))
	index.Moves = false
	require.Equal(t, "1,234 round trips, 234 commits (3 refused)", Index(*index))
}

func TestJSON(t *testing.T) {
	r := measured(t)
	other := r
	other.Store = "pebble:x"
	written := jsonOf(t, r, other)
	golden(t, "lines.json", written)
	benchmark := regexp.MustCompile(`^BenchmarkOpebench/\S+-2 \t\d+\t[0-9.]+ ns/op(\t\d+ \S+)*$`)
	lines := 0
	for line := range strings.Lines(written) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if m["record"] == "result" {
			require.Regexp(t, benchmark, m["benchmark"])
		}
		lines++
	}
	require.Equal(t, 1+2*(1+2*(2+2)), lines)
}

// broken fails after some bytes.
type broken struct{ left int }

var errBroken = errors.New("broken")

func (w *broken) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestWriteErrorsAreReturned(t *testing.T) {
	r := measured(t)
	require.ErrorIs(t, Table(&broken{0}, []Run{r}, show.Style{}), errBroken)
	for _, left := range []int{0, 300, 800} {
		require.ErrorIs(t, JSON(&broken{left}, []Run{r}), errBroken)
	}
}

func TestPlot(t *testing.T) {
	r := measured(t)
	b, err := Plot("x.png", []Run{r})
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(b))
	require.NoError(t, err)
	require.Greater(t, picture.Bounds().Dx(), 1000)

	other := r
	other.Store = "pebble:x"
	b, err = Plot("x.SVG", []Run{r, other})
	require.NoError(t, err)
	wellFormed(t, b)
	for _, text := range []string{"mope", "plain", "pebble:x", "rows per second", "latency", "0.1 %", "10 %", "1,000 uniform int32 values"} {
		require.Contains(t, string(b), text)
	}

	for _, name := range []string{"x.pdf", "x", "x.png.txt", ""} {
		require.Error(t, draw.CheckName(name), name)
		_, err := Plot(name, []Run{r})
		require.Error(t, err, name)
	}
	_, err = Plot("x.png", nil)
	require.Error(t, err)

	// Nothing was queried.
	for i := range r.Results {
		r.Results[i].BySelectivity = nil
	}
	_, err = Plot("x.png", []Run{r})
	require.NoError(t, err)
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		require.Equal(t, want, show.Count(n))
	}
}

// A single pair has no interval, and few pairs tell nothing.
func TestFewPairs(t *testing.T) {
	r := measured(t)
	few := &r.Results[1].Insert.Ratio
	few.Pairs, few.Value, few.Low, few.High = 4, 0.4, 0.4, 0.4
	table := tableOf(t, r, show.Style{})
	require.Regexp(t, `(?m)^mope .* 0\.40 \(-\) `, table)
	require.Contains(t, table, "Fewer than 5 pairs are too few to compare")
	require.Contains(t, jsonOf(t, r), `"x_plain":{"beside":"plain","value":0.4,"pairs":4}`)
	few.Pairs = 5
	table = tableOf(t, r, show.Style{})
	require.Contains(t, table, "0.40 (0.40-0.40)")
	require.NotContains(t, table, "too few")
}

// The names of series hide none of their points, however slow the first queries are.
func TestLegendHidesNoPoint(t *testing.T) {
	r := measured(t)
	all := []series{{"kerschbaum-\npaper\ncolumn", r.Results[0]}, {"wozniak-\nindexed\ncolumn", r.Results[1]}}
	const width = 400
	p, err := queryPlot(r.Selectivities, all, width)
	require.NoError(t, err)
	area := vgdraw.New(vgimg.New(width, 300))
	x, _ := p.Transforms(&area)
	names := p.Legend.TextStyle.Width("kerschbaum-paper, column") + p.Legend.ThumbnailWidth
	require.Less(t, x(float64(len(r.Selectivities)-1)+spread/2)+vg.Points(4), area.Max.X-names)
	require.False(t, p.Legend.Left)
}

// A plot of all schemes has no colour twice.
func TestEverySchemeHasAColour(t *testing.T) {
	names, _ := benchtable.Schemes()
	require.GreaterOrEqual(t, len(draw.Palette), len(names)+1, "and bare has one")
	colours := map[color.Color]bool{}
	for _, c := range draw.Palette {
		colours[c] = true
	}
	require.Len(t, colours, len(draw.Palette))
}

// Texts of a plot keep to their places: names below bars, one unit on an axis.
func TestTextsOfPlotsFit(t *testing.T) {
	for us, want := range map[float64]string{0.1: "100 ns", 1: "1 us", 100: "100 us", 1e5: "100 ms", 1e6: "1 s", 1e8: "100 s", 1e10: "10,000 s"} {
		require.Equal(t, want, duration(us))
	}
	tick := draw.New("", "").X.Tick.Label
	require.Greater(t, place([]series{{name: "plain-\nindexed\ncolumn"}, {name: "kerschbaum\ncolumn"}}), tick.Width("kerschbaum"))
}
