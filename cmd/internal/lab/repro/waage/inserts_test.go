package waage

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func TestWaageInserts(t *testing.T) {
	ctx := context.Background()
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Database(t), Rounds: 2, Batch: 50, Writers: 2}
	for _, figure := range insertFigures {
		r, err := figure.Run(ctx, cfg)
		require.NoError(t, err)
		require.Len(t, r.Curves, len(insertions))
		require.Len(t, r.Table.Rows, len(insertions))
		for i, c := range r.Curves {
			require.Equal(t, insertions[i].name, c.Name)
			require.Len(t, c.Points, insertSteps)
			last := 0.0
			for j, p := range c.Points {
				require.Equal(t, float64((j+1)*insertQuickStep), p.X)
				require.Greater(t, p.Y, last, "times are since the first value")
				last = p.Y
			}
			require.InDelta(t, last, *r.Table.Rows[i][3].Number, 1e-12)
		}
		reprotest.WellFormed(t, r)
		reprotest.Smaller(t, r)
		// So few rounds have no interval.
		require.NotEmpty(t, r.Findings)
		for _, f := range r.Findings {
			require.True(t, f.Unclear, f.Text)
		}
		// The next figure finds nothing of this one.
		require.Empty(t, tablesOf(t, cfg.Database))
		cfg.Rounds = 1
	}
	cfg.Database.Replace = true
	r, err := insertFigure(reprotest.Ended(), cfg, "HBase")
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, r)
}

// A small index is written again by one commit. That is a pass as well, so that the same values have as many as in memory.
func TestPassesOfASmallIndexAreCounted(t *testing.T) {
	ctx := context.Background()
	const step = 20
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Database(t), Batch: 1, Writers: 1}
	all, rounds, err := timeInsertions(ctx, cfg, step, 1)
	require.NoError(t, err)
	require.Equal(t, 1, rounds)
	_, values, err := uniform(step*insertSteps, 1, "int32", "sorted")
	require.NoError(t, err)
	p := &passing{room: rooms[0], passes: make([]int, lambdaSteps)}
	require.NoError(t, p.count(ctx, values))
	require.Positive(t, p.total())
	worst := all.named(publishedWorst)
	require.Equal(t, []int{p.total(), p.moved}, []int{worst.passes, worst.moved})
	require.Zero(t, all.named(relabelledWorst).passes)
}

// tablesOf returns the names of the tables in a store.
func tablesOf(t *testing.T, d experiment.Database) []string {
	t.Helper()
	names, err := d.Store.Tables(context.Background())
	require.NoError(t, err)
	return names
}

// occupy makes a table as a user would.
func occupy(t *testing.T, d experiment.Database) string {
	t.Helper()
	target, err := benchtable.TargetOf("mope", "")
	require.NoError(t, err)
	kind, err := values.KindByName("int32")
	require.NoError(t, err)
	_, _, err = d.Store.Create(context.Background(), target, kind, "value", false)
	require.NoError(t, err)
	return target.Name()
}

// A table of a user stays unless it is to be replaced.
func TestInsertsLeaveTablesOfUsers(t *testing.T) {
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Database(t), Rounds: 1, Batch: 100, Writers: 1}
	name := occupy(t, cfg.Database)
	_, err := insertFigure(context.Background(), cfg, cassandra)
	require.ErrorIs(t, err, bench.ErrExists)
	require.Equal(t, []string{name}, tablesOf(t, cfg.Database))
	cfg.Database.Replace = true
	_, err = insertFigure(context.Background(), cfg, cassandra)
	require.NoError(t, err)
	require.Empty(t, tablesOf(t, cfg.Database))
}

// endingAt ends an experiment when so many values were inserted.
type endingAt struct {
	left int
	end  context.CancelFunc
}

func (endingAt) Start(string, int) {}
func (endingAt) Done()             {}

func (p *endingAt) Add(n int) {
	if p.left -= n; p.left <= 0 {
		p.end()
	}
}

func TestInsertsThatEndEarlyAreTold(t *testing.T) {
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Database(t), Batch: 50, Writers: 2}
	// until returns a context that ends in the second half of the third round.
	until := func(step int) context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		cfg.Progress = &endingAt{left: step * insertSteps * len(insertions) * 5 / 2, end: cancel}
		return ctx
	}
	all, whole, err := timeInsertions(until(10), cfg, 10, 9)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, whole)
	for _, c := range all {
		require.Len(t, c.seconds, 2, "the third round is not whole")
		for _, steps := range c.seconds {
			require.NotContains(t, steps, 0.0)
		}
	}

	require.Empty(t, tablesOf(t, cfg.Database), "what was made goes also then")

	cfg.Rounds = 9
	r, err := insertFigure(until(insertQuickStep), cfg, "HBase")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, r.Runs)
	require.Contains(t, r.Notes, "It ended early: 2 of 9 rounds.")
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	ctx := context.Background()
	var busy atomic.Int64 // for how many of the next families that are opened
	db := intercept.New(reprotest.Memory().DB, func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if op.Method == "Family" && busy.Add(-1) >= 0 {
			return driver.ErrUnavailable
		}
		return c.Make(nil)
	}, nil)
	st, err := bench.OpenStore(ctx, db, kms.NewLocal(ope.GenerateKey()), true)
	require.NoError(t, err)
	kind, err := values.KindByName("int32")
	require.NoError(t, err)
	fill := func(left int64) error {
		busy.Store(left)
		ts := timings{{insertion: insertions[0]}}
		return ts.fill(ctx, experiment.Config{Seed: 1, Batch: 10, Writers: 1, Database: experiment.Database{Store: st}}, kind, "random", 10, 0)
	}
	require.NoError(t, fill(makeAgain))
	require.ErrorIs(t, fill(makeAgain+1), driver.ErrUnavailable, "not for ever")
}

// lossy is a table that lost or changed a row.
type lossy struct {
	bench.Table
	rows []int64
}

func (l lossy) Range(context.Context, int64, int64, int) iter.Seq2[bench.Row, error] {
	return func(yield func(bench.Row, error) bool) {
		for _, x := range l.rows {
			if !yield(bench.Row{Value: x}, nil) {
				return
			}
		}
	}
}

func TestInsertedValuesAreRead(t *testing.T) {
	kind, err := values.KindByName("int32")
	require.NoError(t, err)
	values := []int64{5, -3, 9, 5}
	for _, c := range []struct {
		rows []int64
		ok   bool
	}{{[]int64{-3, 5, 5, 9}, true}, {[]int64{-3, 5, 9}, false}, {[]int64{-3, 5, 5, 8}, false}, {[]int64{-3, 5, 5, 9, 9}, false}, {nil, false}} {
		err := holds(context.Background(), lossy{rows: c.rows}, kind, values)
		if c.ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, exit.ErrWrongAnswer)
		}
	}
}

// measured makes up timings of some rounds, with the time of each curve; 1 where none is given.
func measured(rounds int, seconds map[string]float64) timings {
	var all timings
	for _, c := range insertions {
		t := &timing{insertion: c}
		for round := range rounds {
			total := 1 + 0.001*float64(round%3) // as noise
			if s, ok := seconds[c.name]; ok {
				total *= s
			}
			steps := make([]float64, insertSteps)
			steps[insertSteps-1] = total
			t.seconds = append(t.seconds, steps)
		}
		all = append(all, t)
	}
	return all
}

func TestInsertFindings(t *testing.T) {
	verdicts := func(all timings) string {
		return reprotest.Marks(insertFindings(all, experiment.Config{Batch: 1, Writers: 1}, "Cassandra"))
	}
	// As the paper has it: mOPE slow, Kerschbaum at 3 per cent, but for the worst case.
	paper := map[string]float64{mope: 2, publishedBest: 1.02, publishedMean: 1.02, publishedWorst: 20, relabelledWorst: 20}
	require.Equal(t, "+++++", verdicts(measured(20, paper)))
	require.Equal(t, "?????", verdicts(measured(5, paper)), "too few rounds for an interval")
	require.Equal(t, "-----", verdicts(measured(20, map[string]float64{mope: 0.5, wozniakIndexed: 3, publishedMean: 1.2})))
	require.Len(t, insertFindings(measured(6, nil), experiment.Config{Batch: 1, Writers: 1}, "HBase"), 4, "the paper says 3 per cent of Cassandra only")

	for _, c := range []struct {
		batch, writers int
		told           bool
	}{{1, 1, false}, {100, 1, true}, {1, 2, true}} {
		f := insertFindings(measured(6, nil), experiment.Config{Batch: c.batch, Writers: c.writers}, "HBase")
		require.Equal(t, c.told, strings.Contains(f[2].Text, "batches"))
	}
}

func TestSlowCurvesAreLeftOut(t *testing.T) {
	all := measured(slowRounds, map[string]float64{publishedWorst: 11, relabelledWorst: 9})
	require.True(t, all.skips(all.named(publishedWorst), slowRounds))
	require.False(t, all.skips(all.named(publishedWorst), slowRounds-1))
	require.False(t, all.skips(all.named(relabelledWorst), slowRounds))
	require.False(t, all.skips(all.named(bare), slowRounds))

	all = measured(slowRounds, nil)
	require.False(t, math.IsNaN(all.ratio(mope, bare).Low), "so many rounds have an interval")
}

func TestRatio(t *testing.T) {
	require.Equal(t, "1.05 (0.99-1.10)", experiment.Ratio{Low: 0.99, Mid: 1.05, High: 1.1}.String())
	require.Equal(t, "1.05", experiment.Ratio{Low: math.NaN(), Mid: 1.05, High: math.NaN()}.String())
	all := measured(9, map[string]float64{mope: 3})
	r := all.ratio(mope, bare)
	require.InDelta(t, 3, r.Mid, 1e-9)
	require.InDelta(t, 3, r.Low, 1e-9)
	require.InDelta(t, 3, r.High, 1e-9)

	// All of one order took five times as long: a machine that was busy then.
	all = measured(9, map[string]float64{publishedWorst: 30, bareIndexedWorst: 5, publishedMean: 2})
	require.InDelta(t, 3, all.overOrders(publishedWorst, publishedMean).Mid, 1e-9)

	wide, none := experiment.Ratio{Low: 0.9, Mid: 1, High: 1.2}, experiment.Ratio{Low: math.NaN(), Mid: 1, High: math.NaN()}
	for i, c := range []struct{ got, want experiment.Verdict }{
		{wide.Above(0.8), experiment.IsSo}, {wide.Above(1), experiment.Unclear}, {wide.Above(1.2), experiment.IsNot}, {none.Above(0.1), experiment.Unclear},
		{wide.Below(1.3), experiment.IsSo}, {wide.Below(1), experiment.Unclear}, {wide.Below(0.9), experiment.IsNot}, {none.Below(5), experiment.Unclear},
		{wide.About(1, 1.3), experiment.IsSo}, {wide.About(1, 1.1), experiment.Unclear}, {wide.About(0.8, 1.3), experiment.IsNot}, {none.About(1, 2), experiment.Unclear},
		{experiment.Both(experiment.IsSo, experiment.IsSo), experiment.IsSo}, {experiment.Both(experiment.IsSo, experiment.Unclear), experiment.Unclear}, {experiment.Both(experiment.Unclear, experiment.IsNot), experiment.IsNot}, {experiment.Both(experiment.IsNot, experiment.IsSo), experiment.IsNot},
	} {
		require.Equal(t, c.want, c.got, fmt.Sprint("case ", i))
	}
}
