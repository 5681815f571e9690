package zerodb

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
		points := []testbed.Condition{{Latency: time.Millisecond}, {Latency: 2 * time.Millisecond}, {Latency: 3 * time.Millisecond}}
		run, err := measureStatements(ctx, cfg, points, 2)
		require.NoError(t, err)
		require.Equal(t, 2, run.rounds)
		require.Equal(t, 2, run.height)
		reprotest.Families(t, cfg.Database) // nothing else is left
		for p := range points {
			for _, series := range readingSeries {
				for s := range statements {
					require.Len(t, run.at(p, series).seconds[s], 2, "%s %s", series, statementNames[s])
				}
			}
			// What goes on after the answer of a statement before can be counted here where the machine is slow.
			require.Equal(t, 1.0, slices.Min(run.at(p, readPlain).requests[selects]))
			require.Equal(t, 1.0, slices.Min(run.at(p, readPlain).requests[finds]))
			// What a walk of a tree asks for is known: its nodes, one of each level, and then the object.
			require.Equal(t, 3.0, slices.Min(run.at(p, readCold).requests[finds]))
			require.Equal(t, 2.0, slices.Min(run.at(p, readCached).requests[finds]))
			for _, s := range []statement{inserts, updates, deletes} {
				require.Greater(t, experiment.MedianOf(run.at(p, readSingle).requests[s]).Mid, 2*experiment.MedianOf(run.at(p, readCached).requests[s]).Mid)
			}
		}
		for _, result := range []func(*statementRun) *experiment.Result{tripResult, timeResult, latencyResult, lossResult} {
			reprotest.WellFormed(t, result(run))
		}
		r, err := byStatement(ctx, cfg, points[:1], timeResult)
		require.NoError(t, err)
		require.Len(t, r.Table.Rows, len(readingSeries)*int(statements))
		_, err = byStatement(reprotest.Ended(), cfg, points, timeResult)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// calls counts those of a database, and has its scans fail after some.
type calls struct{ n, most int }

func (c *calls) over(db driver.DB) driver.DB {
	c.most = math.MaxInt
	return drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
		if c.n++; c.n > c.most && op.Method == "Scan" {
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	})
}

// fail has scans fail after as many calls as there were, and some more.
func (c *calls) fail(more int) { c.n, c.most = 0, c.n+more }

// Whole rounds are kept where the database fails, and all that was made is dropped.
func TestStatementsKeepWholeRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		d := reprotest.Memory()
		var calls calls
		d.DB = calls.over(d.DB)
		cfg := experiment.Config{Seed: 1, Quick: true, Database: d}
		_, err := measureStatements(context.Background(), cfg, []testbed.Condition{{}}, 1)
		require.NoError(t, err)
		calls.fail(calls.n / 10)
		run, err := measureStatements(context.Background(), cfg, []testbed.Condition{{}}, 100)
		require.ErrorIs(t, err, drivertest.ErrInjected)
		require.NotZero(t, run.rounds)
		for _, timing := range run.all[0] {
			for s := range statements {
				require.Len(t, timing.seconds[s], run.rounds)
			}
		}
	})
}

// A forgetfulTable loses a record of each range.
type forgetfulTable struct{ readingTable }

func (f forgetfulTable) between(ctx context.Context, from, to int64) ([]reading, error) {
	all, err := f.readingTable.between(ctx, from, to)
	return all[:max(0, len(all)-1)], err
}

func TestStatementsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		b, err := newBuilding(ctx, experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()})
		require.NoError(t, err)
		for i := range readingSeries {
			require.NoError(t, b.statements(ctx, i, new(statementTiming), true))
			whole := b.tables[i]
			b.tables[i] = forgetfulTable{whole}
			require.ErrorIs(t, b.statements(ctx, i, new(statementTiming), true), exit.ErrWrongAnswer, readingSeries[i])
			left, err := whole.between(ctx, b.records, b.records+b.asked)
			require.NoError(t, err)
			require.NoError(t, whole.remove(ctx, left))
		}
		require.NoError(t, b.Close(ctx))
	})
}

// A nullTable is records in memory, one after the other by their numbers.
type nullTable struct{ records []reading }

func (n *nullTable) insert(_ context.Context, all []reading) error {
	n.records = append(n.records[:all[0].number], all...)
	return nil
}

func (n *nullTable) between(_ context.Context, from, to int64) ([]reading, error) {
	end := int64(len(n.records))
	return slices.Clone(n.records[min(from, end):min(to, end)]), nil
}

func (n *nullTable) replace(_ context.Context, _, new []reading) error {
	copy(n.records[new[0].number:], new)
	return nil
}

func (n *nullTable) remove(_ context.Context, all []reading) error {
	n.records = n.records[:all[0].number]
	return nil
}

// BenchmarkHarness measures statements of records in memory: what the figures have that is not of a database. Beside it are those of
// rows in the clear in the database in memory, which is faster than all that is measured.
func BenchmarkHarness(b *testing.B) {
	ctx := context.Background()
	building, err := newBuilding(ctx, experiment.Config{Seed: 1, Database: reprotest.Memory()})
	require.NoError(b, err)
	tables := []readingTable{&nullTable{building.readings(call{to: building.records, step: 1}, false)}, building.tables[0]}
	var timings [2]statementTiming
	for b.Loop() {
		for i, table := range tables {
			building.tables[0] = table
			require.NoError(b, building.statements(ctx, 0, &timings[i], true))
		}
	}
	for s := range statements {
		b.ReportMetric(1e6*experiment.MedianOf(timings[0].seconds[s]).Mid, strings.ReplaceAll(statementNames[s], " ", "-")+"-us")
		b.ReportMetric(100*experiment.MedianOf(timings[0].seconds[s]).Mid/experiment.MedianOf(timings[1].seconds[s]).Mid, strings.ReplaceAll(statementNames[s], " ", "-")+"-%")
	}
	require.NoError(b, building.Close(ctx))
}

// A series with an ordered column finds orders by it, and by nothing else.
func TestMixFindsOrdersByColumn(t *testing.T) {
	ctx := context.Background()
	m, err := newMix(ctx, experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close(ctx)) }()
	for _, series := range []string{readColumn, readKerschbaum} {
		table := m.client.Tables[slices.Index(mixSeries, series)]
		from := m.client.Key(workload.FirstOrders)
		require.NoError(t, table.Put(ctx, workload.OrderOf(from, 1)))
		n, err := table.Query(ctx, from, 2)
		require.NoError(t, err)
		require.Equal(t, 1, n, series)
		without := table.(columnOrders).StoreTable // which leaves the column empty
		require.NoError(t, without.Put(ctx, workload.OrderOf(m.client.Key(workload.FirstOrders+1), 1)))
		n, err = table.Query(ctx, from, 2)
		require.NoError(t, err)
		require.Equal(t, 1, n, series)
	}
}

// nullOrders are orders in memory.
type nullOrders map[workload.Key]workload.Order

func (n nullOrders) Get(_ context.Context, k workload.Key) (workload.Order, bool, error) {
	o, ok := n[k]
	return o, ok, nil
}

func (n nullOrders) Put(_ context.Context, o workload.Order) error { n[o.Key] = o; return nil }
func (n nullOrders) Query(context.Context, workload.Key, int) (int, error) {
	return workload.RangeRows, nil
}
func (n nullOrders) Remove(_ context.Context, k workload.Key) error { delete(n, k); return nil }

// BenchmarkMixHarness is BenchmarkHarness for the mix.
func BenchmarkMixHarness(b *testing.B) {
	ctx := context.Background()
	m, err := newMix(ctx, experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()})
	require.NoError(b, err)
	tables := []workload.Table{make(nullOrders), m.client.Tables[0]}
	for n := range m.client.Next[0] {
		require.NoError(b, tables[0].Put(ctx, workload.OrderOf(m.client.Key(n), 1)))
	}
	var seconds [2][]float64
	m.client.Tables, m.client.First, m.client.Next = tables, m.client.First[:2], m.client.Next[:2]
	for b.Loop() {
		for i := range tables {
			start := time.Now()
			require.NoError(b, m.client.Block(ctx, i))
			seconds[i] = append(seconds[i], time.Since(start).Seconds())
		}
	}
	b.ReportMetric(1e6*experiment.MedianOf(seconds[0]).Mid, "mix-us")
	b.ReportMetric(100*experiment.MedianOf(seconds[0]).Mid/experiment.MedianOf(seconds[1]).Mid, "mix-%")
	require.NoError(b, m.Close(ctx))
}

// All tables of records do the same, whatever is asked of them.
func TestReadingTablesAgree(t *testing.T) {
	ctx := context.Background()
	b, err := newBuilding(ctx, experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(ctx)) }()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	there := make(map[int64]reading)
	for n := range b.records {
		there[n] = readingOf(1, n, false)
	}
	// The trees are the same in three of the series, of which one makes the changes.
	changing := slices.DeleteFunc(slices.Clone(readingSeries), func(s string) bool { return s == readCold || s == readCached })
	for range 25 {
		from := r.Int64N(b.records + 50)
		to := from + r.Int64N(30)
		var gone, news, old, replaced []reading
		for n := from; n < to; n++ {
			switch m, ok := there[n]; {
			case !ok:
				news = append(news, readingOf(1, n, r.IntN(2) > 0))
			case r.IntN(2) > 0:
				gone = append(gone, m)
			default:
				old = append(old, m)
				replaced = append(replaced, readingOf(1, n, r.IntN(2) > 0))
			}
		}
		for i, series := range readingSeries {
			if slices.Contains(changing, series) {
				require.NoError(t, b.tables[i].insert(ctx, news))
				require.NoError(t, b.tables[i].remove(ctx, gone))
				require.NoError(t, b.tables[i].replace(ctx, old, replaced))
			}
		}
		for _, m := range gone {
			delete(there, m.number)
		}
		for _, m := range append(news, replaced...) {
			there[m.number] = m
		}
		at := r.Int64N(b.records)
		var want []reading
		for n := at; n < at+200; n++ {
			if m, ok := there[n]; ok {
				want = append(want, m)
			}
		}
		for i, series := range readingSeries {
			got, err := b.tables[i].between(ctx, at, at+200)
			require.NoError(t, err)
			slices.SortFunc(got, func(a, b reading) int { return int(a.number - b.number) })
			require.Equal(t, want, got, series)
		}
	}
	// Each attribute of a record is in its tree, once.
	trees := b.tables[slices.Index(readingSeries, readCold)].(*treeReadings)
	for i, tree := range trees.trees {
		var entries []string
		for e, err := range tree.Range(ctx, nil, nil, 0) {
			require.NoError(t, err)
			entries = append(entries, string(e.Key))
		}
		var want []string
		for _, m := range there {
			want = append(want, string(indexEntry(m, i).Key))
		}
		slices.Sort(want)
		require.Equal(t, want, entries)
	}
	objects := 0
	for _, err := range trees.objects.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		objects++
	}
	require.Equal(t, len(there), objects)
}

func TestReadingsAreThoseOfThePaper(t *testing.T) {
	nodes := make(map[int32]bool)
	for n := range int64(5000) {
		m := readingOf(7, n, false)
		require.True(t, m.room >= 1111 && m.room <= 9999 && m.value >= 1 && m.value <= 9999 && m.state >= 0 && m.state <= 3 && m.node >= 11111 && m.node <= 99999)
		require.Regexp(t, "^door[a-z]{10}$", m.desc)
		nodes[m.node] = true
		again, err := readReading(m.bytes())
		require.NoError(t, err)
		require.Equal(t, m, again)
		updated := readingOf(7, n, true)
		require.NotEqual(t, m.value, updated.value)
		require.True(t, updated.value >= 1 && updated.value <= 9999)
		updated.value = m.value
		require.Equal(t, m, updated)
	}
	require.InDelta(t, 900, len(nodes), 10)
	_, err := readReading(make([]byte, 23))
	require.Error(t, err)
}

// statementFixture returns a run in which all statements of all series take a second, but for those that change says.
func statementFixture(points []testbed.Condition, change func(p int, series string, s statement) float64) *statementRun {
	run := &statementRun{building: &building{records: 50_000, asked: 1000, singly: 50, height: 3}, points: points, rounds: 9}
	for p := range points {
		var all []*statementTiming
		for _, series := range readingSeries {
			timing := new(statementTiming)
			for s := range statements {
				timing.seconds[s], timing.requests[s] = reprotest.Steady(9, change(p, series, s)), reprotest.Steady(9, 1)
			}
			all = append(all, timing)
		}
		run.all = append(run.all, all)
	}
	return run
}

func TestStatementFindings(t *testing.T) {
	ms := func(n int) testbed.Condition { return testbed.Condition{Latency: time.Duration(n) * time.Millisecond} }
	// Round trips of statements: select, select 1 %, select one, insert, update, delete.
	paper := map[string][statements]float64{
		readSingle: {4, 4, 4, 15_000, 20_000, 8_000}, readCold: {4, 4, 4, 8, 9, 8}, readCached: {2, 2, 2, 5, 6, 5},
	}
	trips := func(of map[string][statements]float64) *statementRun {
		return statementFixture([]testbed.Condition{ms(10), ms(60)}, func(p int, series string, s statement) float64 {
			n := 1.0
			if all, ok := of[series]; ok {
				n = all[s]
			}
			return n * []float64{0.01, 0.06}[p]
		})
	}
	r := tripResult(trips(paper))
	reprotest.WellFormed(t, r)
	require.Equal(t, "++++", reprotest.Marks(r.Findings))
	require.Equal(t, "----", reprotest.Marks(tripResult(trips(map[string][statements]float64{
		readSingle: {4, 4, 4, 30, 20, 30}, readCold: {4, 8, 4, 8, 9, 8}, readCached: {2, 2, 2, 5, 6, 5},
	})).Findings))
	little := trips(paper)
	little.rounds = 2
	require.Equal(t, "????", reprotest.Marks(tripResult(little).Findings), "of too few rounds")

	seconds := func(of map[string][statements]float64) *statementRun {
		return statementFixture([]testbed.Condition{ms(10)}, func(_ int, series string, s statement) float64 {
			if all, ok := of[series]; ok {
				return all[s]
			}
			return 0.1
		})
	}
	require.Equal(t, "+++", reprotest.Marks(timeResult(seconds(map[string][statements]float64{readSingle: {0.5, 0.5, 0.5, 158, 209, 78}})).Findings))
	require.Equal(t, "---", reprotest.Marks(timeResult(seconds(map[string][statements]float64{readSingle: {5, 5, 5, 158, 209, 8}, readCached: {1, 1, 1, 1, 20, 1}})).Findings))

	byLatency := func(growth float64) string {
		run := statementFixture([]testbed.Condition{ms(0), ms(50), ms(100)}, func(p int, series string, s statement) float64 {
			switch {
			case series == readSingle && s >= inserts:
				return []float64{20, 80, 80 + 60*growth}[p] // a line that does not begin at 0
			case series == readCached && s == percent:
				return 0.01
			case series == readCached:
				return []float64{0.01, 0.3, 0.6}[p]
			}
			return 0.1
		})
		r := latencyResult(run)
		reprotest.WellFormed(t, r)
		require.Contains(t, r.Findings[2].Text, "row key is surely faster than the tree with nodes cached from 50 ms on of these latencies, and by column from 50 ms on")
		require.Contains(t, r.Findings[3].Text, "cached at none of these latencies, and by column at none")
		return reprotest.Marks(r.Findings)
	}
	require.Equal(t, "+++-+", byLatency(1))
	require.Equal(t, "-++-+", byLatency(2))

	byLoss := func(growth float64) string {
		run := statementFixture([]testbed.Condition{{}, {Loss: 0.05}, {Loss: 0.1}}, func(p int, _ string, _ statement) float64 { return []float64{1, growth, 3}[p] })
		return reprotest.Marks(lossResult(run).Findings)
	}
	require.Equal(t, "+", byLoss(1.5))
	require.Equal(t, "-", byLoss(1.02))
}

func TestMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
		points := []testbed.Condition{{}, {Latency: 2 * time.Millisecond, Mbps: 10}, {Latency: 4 * time.Millisecond}}
		run, err := measureMix(ctx, cfg, points, 2)
		require.NoError(t, err)
		require.Equal(t, 2, run.rounds)
		reprotest.Families(t, cfg.Database)
		require.Equal(t, [workload.Kinds]int{1, 1, 1, 1, 1}, run.trips[0], "of rows in the clear")
		cold, cached := run.trips[slices.Index(mixSeries, readCold)], run.trips[slices.Index(mixSeries, readCached)]
		require.Equal(t, 2, run.height)
		require.Equal(t, run.height, cold[workload.Get])
		require.Equal(t, run.height, cold[workload.Range])
		require.Equal(t, 1, cached[workload.Get])
		for _, result := range []func(*mixRun) *experiment.Result{mixByLatency, mixByBandwidth} {
			r := result(run)
			require.Len(t, r.Table.Rows, len(points)*len(mixSeries))
			reprotest.WellFormed(t, r)
		}
		_, err = byMix(reprotest.Ended(), cfg, points, mixByLatency)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestMixKeepsWholeRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		d := reprotest.Memory()
		var calls calls
		d.DB = calls.over(d.DB)
		cfg := experiment.Config{Seed: 1, Quick: true, Database: d}
		_, err := measureMix(ctx, cfg, []testbed.Condition{{}}, 1)
		require.NoError(t, err)
		calls.fail(100)
		run, err := measureMix(ctx, cfg, []testbed.Condition{{}}, 1000)
		require.ErrorIs(t, err, drivertest.ErrInjected)
		require.NotZero(t, run.rounds)
		for _, all := range run.seconds[0] {
			require.Len(t, all, run.rounds)
		}
	})
}

func TestMixFindings(t *testing.T) {
	made := func(points []testbed.Condition, of func(p int, series string) float64) *mixRun {
		run := &mixRun{mix: &mix{height: 3}, points: points, rounds: 9}
		for _, series := range mixSeries {
			trips := [workload.Kinds]int{1, 1, 1, 1, 1}
			if series == readCold {
				trips = [workload.Kinds]int{3, 4, 4, 3, 4}
			}
			run.trips = append(run.trips, trips)
		}
		for p := range points {
			var all [][]float64
			for _, series := range mixSeries {
				all = append(all, reprotest.Steady(9, of(p, series)))
			}
			run.seconds = append(run.seconds, all)
		}
		return run
	}
	latencies := []testbed.Condition{{}, {Latency: 40 * time.Millisecond}}
	paper := made(latencies, func(p int, series string) float64 {
		if series == readCold || series == readCached {
			return []float64{0.1, 20}[p]
		}
		return []float64{0.01, 1}[p]
	})
	require.Equal(t, "++++", reprotest.Marks(mixByLatency(paper).Findings))
	paper.trips[slices.Index(mixSeries, readCold)][workload.Range] = 4
	paper.seconds[1][slices.Index(mixSeries, readCached)] = reprotest.Steady(9, 1)
	require.Equal(t, "----", reprotest.Marks(mixByLatency(paper).Findings))

	bandwidths := []testbed.Condition{{Mbps: 1}, {Mbps: 10}, {Mbps: 1000}}
	require.Equal(t, "+++", reprotest.Marks(mixByBandwidth(made(bandwidths, func(p int, series string) float64 {
		if series == readCached {
			return []float64{39.6, 29.4, 28.7}[p]
		}
		return 1
	})).Findings))
	require.Equal(t, "---", reprotest.Marks(mixByBandwidth(made(bandwidths, func(p int, series string) float64 {
		if series == readCached {
			return []float64{39.6, 39.6, 28.7}[p]
		}
		return []float64{2, 1, 1}[p]
	})).Findings))
}

func TestTreeSpace(t *testing.T) {
	ctx := context.Background()
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
	r, err := mixTable(ctx, cfg)
	require.NoError(t, err)
	reprotest.WellFormed(t, r)
	require.Len(t, r.Table.Rows, len(readingsFilled()))
	require.Equal(t, "?", reprotest.Marks(r.Findings), "what was put is not what is kept")
	reprotest.Families(t, cfg.Database)
	put := func(i int) float64 { return *r.Table.Rows[i][1].Number }
	require.InDelta(t, 8+24+14, put(0), 1, "a row in the clear is its key and its cell")

	cfg.Database.Disk = reprotest.DiskInMemory(func(string) uint64 { return readingsQuick })
	r, err = mixTable(ctx, cfg)
	require.NoError(t, err)
	var disk []float64
	for _, row := range r.Table.Rows {
		disk = append(disk, *row[3].Number)
	}
	// Of rows by key it is one family, of a column its postings as well, and of a tree objects and nodes.
	require.Equal(t, []float64{1, 1, 2, 3, 2}, disk)
	require.Equal(t, "-", reprotest.Marks(r.Findings))
	r = spaceResult(cfg, 100, []string{readPlain, readColumn, readCached}, []float64{50, 100, 900}, []uint64{5_000, 10_000, 40_000})
	require.Equal(t, "+", reprotest.Marks(r.Findings))
}

func TestNearNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		n := testbed.NewNetwork(experiment.Config{Database: reprotest.Memory()})
		defer n.Close()
		db, err := n.Connect(ctx)
		require.NoError(t, err)
		f, err := db.Family(ctx, driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered})
		require.NoError(t, err)
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("row"), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: make([]byte, 125_000)}}}))
		took := func(c testbed.Condition, do func()) time.Duration {
			n.Set(c)
			start := time.Now()
			do()
			return time.Since(start)
		}
		read := func() {
			cells, err := f.Get(ctx, []byte("row"), driver.Slice{})
			require.NoError(t, err)
			require.Len(t, cells[0].Value, 125_000)
		}
		scan := func() {
			for row, err := range f.Scan(ctx, driver.Range{}) {
				require.NoError(t, err)
				require.Len(t, row.Cells[0].Value, 125_000)
			}
		}
		write := func() {
			require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("other"), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: make([]byte, 125_000)}}}))
			require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("other"), DeleteRow: true}))
		}
		require.GreaterOrEqual(t, took(testbed.Condition{Latency: 40 * time.Millisecond}, read), 40*time.Millisecond)
		for _, do := range []func(){read, scan, write} {
			require.GreaterOrEqual(t, took(testbed.Condition{Mbps: 10}, do), 100*time.Millisecond, "a million bits")
		}
		require.GreaterOrEqual(t, took(testbed.Condition{Loss: 0.2}, read), 200*time.Millisecond, "some of 86 packets are lost")
		gone, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		n.Set(testbed.Condition{Latency: time.Hour})
		_, err = f.Get(gone, []byte("row"), driver.Slice{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
