package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// measured is a real run on a database in memory, with its times replaced.
func measured(t *testing.T) Run { return measuredWith(t, "plain", "mope") }

func measuredWith(t *testing.T, schemes ...string) Run {
	t.Helper()
	source, err := bench.Generate("uniform", 1000, 1, "", "")
	require.NoError(t, err)
	st, err := bench.OpenStore(context.Background(), drivertest.NewMemory(), store.LocalKMS(ope.GenerateKey()), true)
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
		Env:   Environment{Version: "v0.0.0", Go: "go1.26", OS: "linux", Arch: "amd64", Cores: 2, Time: time.Unix(1_700_000_000, 0).UTC()},
		Store: "embedded store", Values: source.Describe(), Seed: 1, Selectivities: []float64{0.001, 0.1}, Report: report,
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
	var b strings.Builder
	require.NoError(t, Table(&b, []Run{r}, Style{}))
	golden(t, "table.txt", b.String())

	b.Reset()
	require.NoError(t, Table(&b, []Run{r}, Style{Width: 60}))
	golden(t, "narrow.txt", b.String())
	require.LessOrEqual(t, longest(b.String()), 60)

	b.Reset()
	require.NoError(t, Table(&b, []Run{r}, Style{Width: 200, Bold: true}))
	require.Contains(t, b.String(), "\x1b[1m")
	require.LessOrEqual(t, longest(b.String()), 200)

	// Half-way: what is not known is no number.
	r.Complete, r.Skipped, r.Inserted = false, 1234, 400
	r.Results[1].Query = bench.Phase{}
	r.Results[1].Verified = 0
	r.Results[0].DiskBytes, r.Results[1].DiskBytes = 31.4, 100
	b.Reset()
	require.NoError(t, Table(&b, []Run{r}, Style{}))
	golden(t, "partial.txt", b.String())
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
		insert.IndexStats = store.IndexStats{RoundTrips: 1234, Reads: 1100, Commits: 234, Refused: 3, Unknown: 1}
		if insert.Moves {
			insert.Rebalances, insert.Relabels, insert.Moved = 2, 15, 4321
		}
		query.IndexStats = store.IndexStats{RoundTrips: 12, Reads: 12}
		with++
	}
	require.Equal(t, 2, with)
	var b strings.Builder
	require.NoError(t, Table(&b, []Run{r}, Style{}))
	golden(t, "indexes.txt", b.String())
	b.Reset()
	require.NoError(t, Table(&b, []Run{r}, Style{Width: 60}))
	golden(t, "indexes-narrow.txt", b.String())
	require.LessOrEqual(t, longest(b.String()), 60)

	b.Reset()
	require.NoError(t, JSON(&b, []Run{r}))
	lines := 0
	for line := range strings.Lines(b.String()) {
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
	var b bytes.Buffer
	r := measured(t)
	other := r
	other.Store = "pebble:x"
	require.NoError(t, JSON(&b, []Run{r, other}))
	golden(t, "lines.json", b.String())
	benchmark := regexp.MustCompile(`^BenchmarkOpebench/\S+-2 \t\d+\t[0-9.]+ ns/op(\t\d+ \S+)*$`)
	lines := 0
	for line := range strings.Lines(b.String()) {
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
	require.ErrorIs(t, Table(&broken{0}, []Run{r}, Style{}), errBroken)
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
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	for _, text := range []string{"mope", "plain", "pebble:x", "rows per second", "latency", "0.1 %", "10 %", "1,000 uniform int32 values"} {
		require.Contains(t, string(b), text)
	}

	for _, name := range []string{"x.pdf", "x", "x.png.txt", ""} {
		require.Error(t, CheckPlotName(name), name)
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
		require.Equal(t, want, count(n))
	}
}
