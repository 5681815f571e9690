package zerodb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/walk"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figure 7 and tables 2 and 3 of Mitterer et al., section 4.3: a mix of operations on orders by latency and by bandwidth, and
// what a database takes of the disk. The paper runs transactions of TPC-C by pytpcc; here are the operations on single rows of
// the other figures with orders, in the same shares, since wide-column stores have no transactions of several rows.

var mixFigures = []experiment.Figure{
	{
		Name: "zerodb-fig7", About: "a mix of operations on encrypted trees by latency", Source: source + "figure 7", Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			var points []testbed.Condition
			for _, ms := range []time.Duration{0, 10, 20, 40, 80} {
				if !cfg.Quick || ms <= 20 {
					points = append(points, testbed.Condition{Latency: ms * time.Millisecond})
				}
			}
			return byMix(ctx, cfg, points, mixByLatency)
		},
	},
	{
		Name: "zerodb-table2", About: "a mix of operations on encrypted trees by bandwidth", Source: source + "table 2", Stored: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			var points []testbed.Condition
			for _, mbps := range []int{1, 10, 1000} {
				points = append(points, testbed.Condition{Latency: defaultCondition.Latency, Mbps: mbps})
			}
			return byMix(ctx, cfg, points, mixByBandwidth)
		},
	},
	{
		Name: "zerodb-table3", About: "disk space of encrypted trees", Source: source + "table 3", Stored: true, Once: true,
		Run: mixTable,
	},
}

// mixSeries are the series of the mix. The first is what others are compared with.
var mixSeries = []string{readPlain, readKey, readColumn, readKerschbaum, readCold, readCached}

const (
	mixRounds      = 12
	mixQuickRounds = 2
	mixReady       = 20_000 // orders of other clients, which make the trees as high as they are
	mixReadyQuick  = 2_000
)

// columnOrders are orders whose number is searched as a column.
type columnOrders struct{ workload.StoreTable }

func (c columnOrders) Query(ctx context.Context, k workload.Key, n int) (found int, err error) {
	return c.Count(ctx, store.Field[int64]("ordered").Between(k.Number, k.Number+int64(n)-1))
}

func (c columnOrders) Put(ctx context.Context, o workload.Order) error {
	row := c.Row(o)
	row["ordered"] = o.Number
	return c.T.Put(ctx, row)
}

// treeOrders are orders in the leaves of a tree.
type treeOrders struct{ tree *walk.Tree }

func (t treeOrders) Get(ctx context.Context, k workload.Key) (o workload.Order, found bool, err error) {
	values, err := t.tree.Get(ctx, k.Bytes())
	if err == nil && values[0] != nil {
		found = true
		o, err = workload.ReadOrder(k, values[0])
	}
	return o, found, err
}

func (t treeOrders) Put(ctx context.Context, o workload.Order) error {
	return t.tree.Insert(ctx, walk.Entry{Key: o.Key.Bytes(), Value: o.Bytes()})
}

func (t treeOrders) Query(ctx context.Context, k workload.Key, n int) (found int, err error) {
	for e, err := range t.tree.Range(ctx, k.Bytes(), workload.Key{Warehouse: k.Warehouse, Number: k.Number + int64(n)}.Bytes(), 0) {
		if err == nil {
			_, err = workload.ReadOrder(workload.Key{Warehouse: k.Warehouse, Number: int64(binary.BigEndian.Uint64(e.Key[workload.PrefixBytes:]))}, e.Value)
		}
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (t treeOrders) Remove(ctx context.Context, k workload.Key) error {
	return t.tree.Delete(ctx, k.Bytes())
}

// mixSpec describes the family of orders in the clear.
func mixSpec(w *testbed.Workspace) driver.FamilySpec { return w.Spec("plain", workload.PrefixBytes) }

// A mix is the tables of all series, and a client of them behind a network.
type mix struct {
	testbed.Distant
	client *workload.Client
	height int
	trips  [][workload.Kinds]int // of each operation, by series
}

// mixSchema returns the schema of a table of orders of a series.
func mixSchema(series string) store.Schema {
	s := workload.Schema(workload.Encrypted)
	s.Name = series
	switch series {
	case readColumn:
		s.Key[1] = store.HashedPart("number", store.Int64)
		s.Columns = append(s.Columns, store.OrderedColumn("ordered", store.Int64, store.MOPE))
	case readKerschbaum:
		s.Key[1] = store.HashedPart("number", store.Int64)
		s.Columns = append(s.Columns, store.OrderedColumn("ordered", store.Int64, store.Kerschbaum))
	}
	return s
}

func newMix(ctx context.Context, cfg experiment.Config) (m *mix, err error) {
	far, err := testbed.NewDistant(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m = &mix{Distant: far, client: new(workload.Client)}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close(ctx))
		}
	}()
	for _, spec := range []driver.FamilySpec{mixSpec(m.Space), nodeSpec(m.Space)} {
		if _, err := m.Space.Family(ctx, spec); err != nil {
			return nil, err
		}
	}
	for _, series := range []string{readKey, readColumn, readKerschbaum} {
		if _, err := m.Space.Create(ctx, mixSchema(series)); err != nil {
			return nil, err
		}
	}
	if err := m.open(ctx, cfg, m.Count.Over(m.DB)); err != nil {
		return nil, err
	}
	return m, m.ready(ctx, cfg)
}

// open opens the tables of all series as the client.
func (m *mix) open(ctx context.Context, cfg experiment.Config, db driver.DB) error {
	plain, err := db.Family(ctx, mixSpec(m.Space))
	if err != nil {
		return err
	}
	nodes, err := db.Family(ctx, nodeSpec(m.Space))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, db, m.Space.Master, nil)
	if err != nil {
		return err
	}
	keys := newTreeKeys()
	for i, series := range mixSeries {
		var table workload.Table
		switch series {
		case readPlain:
			table = &workload.BareTable{F: plain}
		case readCold, readCached:
			cached := 0
			if series == readCached {
				cached = walk.Plenty
			}
			tree, err := walk.Open(ctx, nodes, keys.nodes, byte(i), walk.Options{Cached: cached})
			if err != nil {
				return err
			}
			table = treeOrders{tree}
		default:
			t, err := st.Table(ctx, m.Space.Name(series))
			if err != nil {
				return err
			}
			if table = (workload.StoreTable{T: t}); series != readKey {
				table = columnOrders{workload.StoreTable{T: t}}
			}
		}
		m.client.Tables = append(m.client.Tables, table)
		m.client.Random = append(m.client.Random, rand.New(rand.NewPCG(cfg.Seed, 0)))
		m.client.First, m.client.Next = append(m.client.First, 0), append(m.client.Next, workload.FirstOrders)
	}
	return nil
}

// ready puts orders: those of the client, and those of others, which it never reads. The trees get all of them, since how
// long their operations take depends on how many there are.
func (m *mix) ready(ctx context.Context, cfg experiment.Config) error {
	others := int64(cfg.Size(mixReady, mixReadyQuick))
	cfg.Bar().Start("insert", len(mixSeries))
	defer cfg.Bar().Done()
	for i, table := range m.client.Tables {
		if t, ok := table.(treeOrders); ok {
			var entries []walk.Entry
			other := workload.Client{Number: 1}
			for n := range others {
				o := workload.OrderOf(other.Key(n), 1)
				entries = append(entries, walk.Entry{Key: o.Key.Bytes(), Value: o.Bytes()})
			}
			if err := t.tree.Insert(ctx, entries...); err != nil {
				return err
			}
			var err error
			if m.height, err = t.tree.Height(ctx); err != nil {
				return err
			}
		}
		for n := range int64(workload.FirstOrders) {
			if err := table.Put(ctx, workload.OrderOf(m.client.Key(n), 1)); err != nil {
				return fmt.Errorf("%s: %w", mixSeries[i], err)
			}
		}
		cfg.Bar().Add(1)
	}
	return nil
}

// A mixRun is what was measured: the seconds of a block, by point, series and round.
type mixRun struct {
	*mix
	points  []testbed.Condition
	seconds [][][]float64
	rounds  int // that are whole
}

func (r *mixRun) at(point int, series string) []float64 {
	return r.seconds[point][slices.Index(mixSeries, series)]
}

func (r *mixRun) ratio(point int, series, beside string) experiment.Ratio {
	return experiment.RatioOf(r.at(point, series), r.at(point, beside))
}

// byMix measures the mix at points, in turns, and makes a result of that.
func byMix(ctx context.Context, cfg experiment.Config, points []testbed.Condition, result func(*mixRun) *experiment.Result) (r *experiment.Result, err error) {
	planned := cfg.RoundsOr(mixRounds, mixQuickRounds)
	run, err := measureMix(ctx, cfg, points, planned)
	if run == nil || run.rounds == 0 {
		return nil, err
	}
	r = result(run)
	r.Runs = run.rounds
	r.Title = fmt.Sprintf("%s: %s, median of %d %s", r.Title, cfg.Database.Name, run.rounds, show.Plural(run.rounds, "round"))
	var counts []string
	for i, series := range mixSeries {
		counts = append(counts, workload.PerOperation(series, run.trips[i]))
	}
	r.Notes = append(r.Notes,
		fmt.Sprintf("A mix is %d operations of one client, one after the other: %s. A query reads %d orders.", workload.BlockSize, workload.Shares(), workload.RangeRows),
		"plaintext: orders in the clear, in the fewest requests. mOPE and Kerschbaum: a table of this module, with the number of the order in the row key or as a column. tree: orders in the leaves of an encrypted B+tree whose nodes the client asks for; nodes cached: it remembers inner nodes.",
		fmt.Sprintf("The trees have %d levels. Round trips of an operation, counted. %s.", run.height, strings.Join(counts, "; ")),
		fmt.Sprintf("The paper runs transactions of TPC-C, which span several rows; wide-column stores have none. Besides the orders of the client the trees have %s of others, without which they would have fewer levels.", experiment.Commas(float64(cfg.Size(mixReady, mixReadyQuick)))),
	)
	r.Notes = append(r.Notes, testbed.Notes(cfg)...)
	r.Early(planned)
	r.Below("transactions of TPC-C on a database of 372 MB and more")
	return r, err
}

func measureMix(ctx context.Context, cfg experiment.Config, points []testbed.Condition, rounds int) (run *mixRun, err error) {
	m, err := newMix(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	run = &mixRun{mix: m, points: points, seconds: make([][][]float64, len(points))}
	for p := range points {
		run.seconds[p] = make([][]float64, len(mixSeries))
	}
	cfg.Bar().Start("measure", (rounds*len(points)+1)*len(mixSeries))
	defer cfg.Bar().Done()
	if err := m.countTrips(ctx, cfg); err != nil {
		return nil, err
	}
	for round := range rounds {
		for p := range points {
			m.Net.Set(points[p])
			for i := range mixSeries {
				series := (i + round) % len(mixSeries)
				start := time.Now()
				if err := m.client.Block(ctx, series); err != nil {
					return run, run.cut(fmt.Errorf("%s: %w", mixSeries[series], err))
				}
				run.seconds[p][series] = append(run.seconds[p][series], time.Since(start).Seconds())
				// What goes on after the last answer is no part of the next series' time.
				if err := m.Count.Quiet(ctx, settled); err != nil {
					return run, run.cut(err)
				}
				cfg.Bar().Add(1)
			}
		}
		run.rounds = round + 1
	}
	return run, nil
}

// cut forgets rounds that are not whole, and returns the error that ended them.
func (r *mixRun) cut(err error) error {
	for _, all := range r.seconds {
		for i := range all {
			all[i] = all[i][:min(len(all[i]), r.rounds)]
		}
	}
	return err
}

// mostCounted is how many operations of a kind are counted.
const mostCounted = 3

// countTrips fills in the round trips of each operation: the median of some.
func (m *mix) countTrips(ctx context.Context, cfg experiment.Config) error {
	for i := range mixSeries { // what a client asks for only once is not counted
		if err := m.client.Block(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", mixSeries[i], err)
		}
	}
	m.Net.Latency(testbed.CountLatency)
	defer m.Net.Latency(0)
	for i := range mixSeries {
		var trips [workload.Kinds]int
		for kind := range workload.Kinds {
			var all []int
			for range mostCounted {
				before := m.Count.Now()
				if err := m.client.Operate(ctx, i, kind); err != nil {
					return fmt.Errorf("%s: %s: %w", mixSeries[i], workload.KindNames[kind], err)
				}
				all = append(all, m.Count.Now().Since(before).Trips)
				if err := m.Count.Quiet(ctx, settled); err != nil {
					return err
				}
			}
			slices.Sort(all)
			trips[kind] = all[mostCounted/2]
		}
		m.trips = append(m.trips, trips)
		cfg.Bar().Add(1)
	}
	return nil
}

// table lists all that was measured, by points that are named by a number.
func (r *mixRun) table(axis string, x func(testbed.Condition) float64) *experiment.Table {
	t := &experiment.Table{Names: 2, Columns: []string{axis, "", "ms", "of plaintext's"}, Words: []bool{false, true, false, false}}
	for p := range r.points {
		for _, series := range mixSeries {
			beside := experiment.Words("1")
			if series != readPlain {
				beside = r.ratio(p, series, readPlain).Cell()
			}
			t.Rows = append(t.Rows, []experiment.Cell{experiment.Numeral(x(r.points[p]), 0), experiment.Words("%s", series), experiment.Numeral(1e3*experiment.MedianOf(r.at(p, series)).Mid, 1), beside})
		}
	}
	return t
}

func mixByLatency(run *mixRun) *experiment.Result {
	ms := func(c testbed.Condition) float64 { return float64(c.Latency) / 1e6 }
	r := &experiment.Result{Title: "Time of a mix of operations by network latency", X: "latency in ms", Y: "seconds (logarithmic)", LogY: true, Table: run.table("latency in ms", ms)}
	for _, series := range mixSeries {
		c := experiment.Curve{Name: series}
		for p := range run.points {
			c.Points = append(c.Points, experiment.MedianOf(run.at(p, series)).At(ms(run.points[p])))
		}
		r.Curves = append(r.Curves, c)
	}
	last := len(run.points) - 1
	beside := func(series string) experiment.Ratio { return run.ratio(last, series, readPlain) }
	growth := func(series string) experiment.Ratio {
		var more []float64
		for i, s := range run.at(last, series) {
			more = append(more, (s-run.at(0, series)[i])/(run.at(last, readPlain)[i]-run.at(0, readPlain)[i]))
		}
		return experiment.MedianOf(more)
	}
	trips := func(series string, kind workload.Kind) int { return run.trips[slices.Index(mixSeries, series)][kind] }
	latency := run.points[last].Latency.Milliseconds()
	r.Findings = []experiment.Finding{
		{Holds: trips(readCold, workload.Get) == run.height && trips(readCold, workload.Range) == run.height, Text: fmt.Sprintf(
			"A client that remembers nothing takes as many round trips as the tree has levels, %d: it takes %d for one order and %d for %d. With inner nodes cached it takes %d and %d, mOPE by row key %d and %d, by column %d and %d.",
			run.height, trips(readCold, workload.Get), trips(readCold, workload.Range), workload.RangeRows, trips(readCached, workload.Get), trips(readCached, workload.Range),
			trips(readKey, workload.Get), trips(readKey, workload.Range), trips(readColumn, workload.Get), trips(readColumn, workload.Range))},
		beside(readCached).Above(10).Finding("The paper: the database that walks trees is orders of magnitude slower than the others. At %d ms the mix takes %v times as long as plaintext with inner nodes cached, and %v times without; mOPE takes %v times by row key and %v by column, Kerschbaum %v. Plaintext here, too, takes a round trip for each operation, and one tree is walked, not one for each attribute.",
			latency, beside(readCached), beside(readCold), beside(readKey), beside(readColumn), beside(readKerschbaum)),
		growth(readCached).Above(2).Finding("The paper: it is also heavily influenced by the latency, and the others are not. What each ms of latency adds is %v times what it adds to plaintext, and %v without a cache: that is how many times the round trips are as many. To mOPE by row key it adds %v times as much, by column %v, to Kerschbaum %v.",
			growth(readCached), growth(readCold), growth(readKey), growth(readColumn), growth(readKerschbaum)),
		run.ratio(last, readCached, readKey).Above(1).Finding("Order-preserving encryption by row key is faster than the tree. At %d ms the mix takes, with inner nodes cached, %v times as long as mOPE by row key. Beside mOPE by column it takes %v times as long.",
			latency, run.ratio(last, readCached, readKey), run.ratio(last, readCached, readColumn)),
	}
	return r
}

func mixByBandwidth(run *mixRun) *experiment.Result {
	mbps := func(c testbed.Condition) float64 { return float64(c.Mbps) }
	r := &experiment.Result{Title: "Time of a mix of operations by bandwidth", Table: run.table("Mbit/s", mbps)}
	// The points are 1, 10 and 1000 Mbit/s.
	slower := func(series string, a, b int) experiment.Ratio {
		return experiment.RatioOf(run.at(a, series), run.at(b, series))
	}
	r.Notes = append(r.Notes, "The network has a latency of 10 ms there and back.")
	cached := slower(readCached, 0, 1)
	r.Findings = []experiment.Finding{
		experiment.Every(cached.Above(1.3), cached.Below(1.4)).Finding("The paper: at 1 Mbit/s the database that walks trees takes 30 to 40 %% longer than at 10 (38.9 and 29.4 s). With inner nodes cached the mix takes %v times as long, and without a cache %v times: a node of %d entries has some kilobytes.",
			cached, slower(readCold, 0, 1), walk.DefaultEntries),
		slower(readCached, 1, 2).Below(1.1).Finding("The paper: from 10 to 1000 Mbit/s it hardly gains (28.7 s). At 10 the mix takes %v times as long with inner nodes cached, and %v times without.", slower(readCached, 1, 2), slower(readCold, 1, 2)),
		experiment.Every(slower(readPlain, 0, 2).Below(1.1), slower(readKey, 0, 2).Below(1.1)).Finding("The paper: the bandwidth hardly matters to databases that find rows themselves. At 1 Mbit/s, beside 1000, plaintext takes %v times as long, mOPE by row key %v, by column %v: the orders that come have the same bytes however they are found.",
			slower(readPlain, 0, 2), slower(readKey, 0, 2), slower(readColumn, 0, 2)),
	}
	return r
}

// mixTable puts the records of the building, of which ZeroDB keeps an index of each attribute.
func mixTable(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	records := int64(cfg.Size(readings, readingsQuick))
	series := readingsFilled()
	put := make([]float64, len(series))
	cfg.Bar().Start("insert", 2*len(series)*int(records))
	defer cfg.Bar().Done()
	fill := func(ctx context.Context, w *testbed.Workspace, db driver.DB, i int) error {
		count := new(testbed.Counter)
		counted := count.Over(db)
		st, err := store.Open(ctx, counted, w.Master, nil)
		if err != nil {
			return err
		}
		if err := makeReadings(ctx, w, series[i]); err != nil {
			return err
		}
		t, err := openReadings(ctx, w, counted, st, newTreeKeys(), series[i])
		if err != nil {
			return err
		}
		before := count.Now()
		err = fillReadings(ctx, cfg, t, records)
		put[i] = float64(count.Now().Since(before).Bytes) / float64(records)
		return err
	}
	var disk []uint64
	var err error
	if cfg.Database.Disk != nil {
		disk, err = testbed.DiskOf(ctx, cfg, len(series), fill)
	} else {
		err = filledOnce(ctx, cfg, len(series), fill)
	}
	if err != nil {
		return nil, err
	}
	return spaceResult(cfg, records, series, put, disk), nil
}

// filledOnce has fill work in the configured database, and removes what it makes.
func filledOnce(ctx context.Context, cfg experiment.Config, n int, fill func(ctx context.Context, w *testbed.Workspace, db driver.DB, i int) error) (err error) {
	w, err := testbed.NewWorkspace(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Drop(ctx)) }()
	for i := range n {
		if err := fill(ctx, w, cfg.Database.DB, i); err != nil {
			return err
		}
	}
	return nil
}

func spaceResult(cfg experiment.Config, records int64, series []string, put []float64, disk []uint64) *experiment.Result {
	r := &experiment.Result{
		Title: fmt.Sprintf("Space of %s records: %s", experiment.Commas(float64(records)), cfg.Database.Name), Runs: 1,
		Table: &experiment.Table{Names: 1, Columns: []string{"", "put, bytes", "x put", "disk, bytes", "x disk"}, Words: []bool{true, false, false, false, false}},
	}
	bytesOf := func(i int) float64 { return put[i] }
	if disk != nil {
		bytesOf = func(i int) float64 { return float64(disk[i]) / float64(records) }
	}
	for i, name := range series {
		if name == readCached {
			name = readCold
		}
		row := []experiment.Cell{experiment.Words("%s", name), experiment.Numeral(put[i], 0), experiment.Numeral(put[i]/put[0], 2), experiment.Words(""), experiment.Words("")}
		if disk != nil {
			row[3], row[4] = experiment.Numeral(bytesOf(i), 0), experiment.Numeral(bytesOf(i)/bytesOf(0), 2)
		}
		r.Table.Rows = append(r.Table.Rows, row)
	}
	tree, worst := slices.Index(series, readCached), 0
	var others []string
	for i, name := range series {
		if i == tree {
			continue
		}
		others = append(others, fmt.Sprintf("%s %.0f", name, bytesOf(i)))
		if bytesOf(i) > bytesOf(worst) {
			worst = i
		}
	}
	r.Notes = []string{
		fmt.Sprintf("Bytes are of a record. put: the keys, qualifiers and values of all that was put, nodes of trees each time that they were. disk: what that takes of it. x: of plaintext's. tree: sealed objects, and a tree for each of %d attributes. Records were put %s at a time.", attributed, experiment.Commas(float64(min(records, readingsAtOnce)))),
		"The records are those of the building of the other figures. The paper fills the tables of TPC-C, in which each attribute has an index.",
	}
	if disk == nil {
		r.Notes = append(r.Notes, "The disk is not measured: this database does not say what a table takes of it. The embedded store does.")
	}
	r.Findings = []experiment.Finding{{Holds: disk != nil && bytesOf(tree) >= 3*bytesOf(worst), Unclear: disk == nil, Text: fmt.Sprintf(
		"The paper: the database that walks trees takes four times the space of the worst of the others (2.4 GB beside 372 to 645 MB). The tree takes %.0f bytes of a record; %s. Those keep no index of attributes, or one; each index entry of a table of this module is a row by itself, where a node seals %d entries at once.",
		bytesOf(tree), strings.Join(others, ", "), walk.DefaultEntries)}}
	if records < readings {
		r.Below(experiment.Commas(readings) + " records and more")
	}
	return r
}
