package repro

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

func TestSaasEntries(t *testing.T) {
	ctx := context.Background()
	for _, nodes := range []int{1, 3} {
		cfg := Config{Seed: 1, Quick: true, Rounds: 1, Database: memory()}
		r, err := saasEntries(ctx, cfg, nodes)
		require.NoError(t, err)
		require.Len(t, r.Curves, len(logKinds)*len(logOperations))
		require.Len(t, r.Table.Rows, len(r.Curves))
		for i, c := range r.Curves {
			require.Len(t, c.Points, entrySteps)
			last := 0.0
			for _, p := range c.Points {
				require.Greater(t, p.Y, last, "times are since the first entry")
				last = p.Y
			}
			require.Len(t, r.Table.Rows[i], len(r.Table.Columns))
		}
		require.Equal(t, nodes == 3, strings.Contains(strings.Join(r.Notes, ""), "3 nodes"))
		for _, f := range r.Findings {
			require.True(t, f.Unclear, f.Text)
			require.NotContains(t, f.Text, "%!")
		}
		require.NotZero(t, families(t, cfg.Database))
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := saasEntries(cancelled, Config{Quick: true, Database: memory()}, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// Prototype A asks for a row for each encrypted attribute, in turns or at a time, and a table of
// this module for as much whatever their number.
func TestSaasAttributes(t *testing.T) {
	r, err := saasAttributes(context.Background(), Config{Seed: 1, Quick: true, Rounds: 1, Database: memory()})
	require.NoError(t, err)
	require.Len(t, r.Curves, len(logKinds)*len(logOperations))
	asked := make(map[string][2]string)
	for _, row := range r.Table.Rows {
		require.Len(t, row, len(r.Table.Columns))
		asked[row[0].Text+" "+row[1].Text+" "+row[2].Text] = [2]string{row[5].Text, row[6].Text}
	}
	for _, what := range logOperations {
		for _, n := range []int{1, 3, 10} {
			rows := fmt.Sprint(n + 1)
			require.Equal(t, [2]string{rows, rows}, asked[fmt.Sprint(prototypeA, " ", what, " ", n)])
			require.Equal(t, [2]string{rows, "1"}, asked[fmt.Sprint(prototypeAParallel, " ", what, " ", n)])
			require.Equal(t, asked[fmt.Sprint(oneRow, " ", what, " ", 1)], asked[fmt.Sprint(oneRow, " ", what, " ", n)])
		}
	}
	require.Equal(t, [2]string{"1", "1"}, asked[oneRow+" read 10"])
	require.Equal(t, "???", marks(r.Findings))
}

// logs opens an empty table of each kind.
func logs(t *testing.T, sensitive int) (w *workspace, all map[string]logTable) {
	ctx := context.Background()
	w, err := newWorkspace(ctx, Config{Database: memory()})
	require.NoError(t, err)
	all = make(map[string]logTable)
	for i, k := range logKinds {
		name := fmt.Sprint("log", i)
		require.NoError(t, k.make(ctx, w, name, sensitive))
		all[k.name], err = k.open(ctx, w, w.store, w.db, name, sensitive)
		require.NoError(t, err)
	}
	return w, all
}

func TestLogTables(t *testing.T) {
	ctx := context.Background()
	for _, sensitive := range []int{1, 3, mostSensitive} {
		_, all := logs(t, sensitive)
		for name, table := range all {
			e, other := entryOf(1, 5, false), entryOf(1, 8, false)
			_, err := table.get(ctx, e.id, e.tenant)
			require.ErrorIs(t, err, errNoEntry, name)
			require.NoError(t, table.put(ctx, e))
			require.NoError(t, table.put(ctx, other))
			got, err := table.get(ctx, e.id, e.tenant)
			require.NoError(t, err, name)
			require.Equal(t, e, got, name)
			_, err = table.get(ctx, e.id, "another tenant")
			require.ErrorIs(t, err, errNoEntry, name)
			updated := entryOf(1, 5, true)
			require.NotEqual(t, e, updated)
			require.NoError(t, table.put(ctx, updated))
			got, err = table.get(ctx, e.id, e.tenant)
			require.NoError(t, err)
			require.Equal(t, updated, got, name)
			require.ErrorIs(t, logOperate(ctx, table, 1, 5, 1), bench.ErrWrongAnswer, "not what was inserted")
			require.NoError(t, table.remove(ctx, e.id, e.tenant))
			_, err = table.get(ctx, e.id, e.tenant)
			require.ErrorIs(t, err, errNoEntry, name)
			got, err = table.get(ctx, other.id, other.tenant)
			require.NoError(t, err)
			require.Equal(t, other, got, name)
		}
	}
}

// The state of the practice encrypts, and binds each attribute to its place.
func TestPrototypeAEncrypts(t *testing.T) {
	ctx := context.Background()
	_, all := logs(t, 3)
	p := all[prototypeA].(*prototypeATable)
	e := entryOf(1, 5, false)
	require.NoError(t, p.put(ctx, e))
	rows := 0
	for row, err := range p.encrypted.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		rows++
		for i, a := range e.attributes {
			require.NotContains(t, string(row.Cells[0].Value), a, entryNames[i])
		}
	}
	require.Equal(t, 3, rows)
	cells, err := p.encrypted.Get(ctx, p.row(e.id, e.tenant, 0), driver.Slice{})
	require.NoError(t, err)
	require.NoError(t, p.encrypted.Apply(ctx, driver.Mutation{Row: p.row(e.id, e.tenant, 1), Puts: cells}))
	_, err = p.get(ctx, e.id, e.tenant)
	require.ErrorIs(t, err, seal.ErrTampered)
}

// madeLogs makes up timings of nine rounds of ten steps: by kind and operation, the time of the
// first step, and of the last beside it.
func madeLogs(seconds map[string][len(logOperations)]float64, growth float64) []*logTiming {
	var all []*logTiming
	for _, k := range logKinds {
		t := &logTiming{name: k.name}
		for operation := range logOperations {
			for round := range 9 {
				first := seconds[k.name][operation] * (1 + 0.001*float64(round%3))
				steps, sum := make([]float64, entrySteps), 0.0
				for s := range steps {
					sum += first * (1 + (growth-1)*float64(s)/(entrySteps-1))
					steps[s] = sum
				}
				t.seconds[operation] = append(t.seconds[operation], steps)
			}
		}
		all = append(all, t)
	}
	return all
}

func TestSaasFindings(t *testing.T) {
	// As the paper has it.
	paper := map[string][4]float64{prototypeA: {1, 3, 3, 3}, prototypeAParallel: {1, 2, 2, 2}, oneRow: {1, 1, 1, 1}}
	require.Equal(t, "++++", marks(saasFindings(madeLogs(paper, 2), 1)))
	require.Equal(t, "-++-", marks(saasFindings(madeLogs(paper, 1), 3)))
	paper[prototypeA] = [4]float64{0.9, 3, 3, 3}
	require.Equal(t, "+++-", marks(saasFindings(madeLogs(paper, 1), 3)))
	require.Equal(t, "---+", marks(saasFindings(madeLogs(map[string][4]float64{prototypeA: {4, 1, 0.5, 1}, prototypeAParallel: {1, 0.9, 1, 1}, oneRow: {1, 1, 1, 1}}, 2), 1)))

	few := madeLogs(map[string][4]float64{prototypeA: {1, 1, 1, 1}, prototypeAParallel: {1, 1, 1, 1}, oneRow: {1, 1, 1, 1}}, 1)
	most := madeLogs(map[string][4]float64{prototypeA: {1, 5, 5, 5}, prototypeAParallel: {1, 2, 2, 2}, oneRow: {1, 1, 1, 1}}, 1)
	require.Equal(t, "+++", marks(attributeFindings([]int{1, 10}, [][]*logTiming{few, most})))
	most = madeLogs(map[string][4]float64{prototypeA: {5, 1, 5, 5}, prototypeAParallel: {1, 2, 2, 2}, oneRow: {1, 2, 1, 1}}, 1)
	require.Equal(t, "---", marks(attributeFindings([]int{1, 10}, [][]*logTiming{few, most})))
}
