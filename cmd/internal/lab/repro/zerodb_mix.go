package repro

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/walk"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figure 7 and tables 2 and 3 of Mitterer et al., section 4.3: a mix of operations on orders by latency and by bandwidth, and
// what a database takes of the disk. The paper runs transactions of TPC-C by pytpcc; here are the operations on single rows of
// the other figures with orders, in the same shares, since wide-column stores have no transactions of several rows.

var zerodbMix = []Figure{
	{
		Name: "zerodb-fig7", About: "a mix of operations on encrypted trees by latency", Source: zerodbSource + "figure 7", Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg Config) (*Result, error) {
			var points []condition
			for _, ms := range []time.Duration{0, 10, 20, 40, 80} {
				if !cfg.Quick || ms <= 20 {
					points = append(points, condition{latency: ms * time.Millisecond})
				}
			}
			return byMix(ctx, cfg, points, mixByLatency)
		},
	},
	{
		Name: "zerodb-table2", About: "the same by bandwidth", Source: zerodbSource + "table 2", Stored: true,
		Run: func(ctx context.Context, cfg Config) (*Result, error) {
			var points []condition
			for _, mbps := range []int{1, 10, 1000} {
				points = append(points, condition{latency: defaultCondition.latency, mbps: mbps})
			}
			return byMix(ctx, cfg, points, mixByBandwidth)
		},
	},
	{
		Name: "zerodb-table3", About: "disk space of encrypted trees", Source: zerodbSource + "table 3", Stored: true,
		Run: zerodbTable3,
	},
}

// The series of the mix. The first is what others are compared with.
const (
	mixPlain      = readPlain
	mixKey        = readKey
	mixColumn     = readColumn
	mixKerschbaum = readKerschbaum
	mixCold       = readCold
	mixCached     = readCached
)

var mixSeries = []string{mixPlain, mixKey, mixColumn, mixKerschbaum, mixCold, mixCached}

const (
	mixRounds      = 12
	mixQuickRounds = 2
	mixReady       = 20_000 // orders of other clients, which make the trees as high as they are
	mixReadyQuick  = 2_000
)

// columnOrders are orders whose number is searched as a column.
type columnOrders struct{ storeOrders }

func (c columnOrders) query(ctx context.Context, k orderKey, n int) (found int, err error) {
	for _, err := range c.t.Query(ctx, store.Query{Where: store.Field[int64]("ordered").Between(k.number, k.number+int64(n)-1)}) {
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (c columnOrders) put(ctx context.Context, o order) error {
	row := c.row(o)
	row["ordered"] = o.number
	return c.t.Put(ctx, row)
}

// treeOrders are orders in the leaves of a tree.
type treeOrders struct{ tree *walk.Tree }

func (t treeOrders) get(ctx context.Context, k orderKey) (o order, found bool, err error) {
	values, err := t.tree.Get(ctx, k.bytes())
	if err == nil && values[0] != nil {
		found = true
		o, err = readOrder(k, values[0])
	}
	return o, found, err
}

func (t treeOrders) put(ctx context.Context, o order) error {
	return t.tree.Insert(ctx, walk.Entry{Key: o.orderKey.bytes(), Value: o.bytes()})
}

func (t treeOrders) query(ctx context.Context, k orderKey, n int) (found int, err error) {
	for e, err := range t.tree.Range(ctx, k.bytes(), orderKey{k.warehouse, k.number + int64(n)}.bytes(), 0) {
		if err == nil {
			_, err = readOrder(orderKey{k.warehouse, int64(binary.BigEndian.Uint64(e.Key[orderPrefix:]))}, e.Value)
		}
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (t treeOrders) remove(ctx context.Context, k orderKey) error {
	return t.tree.Delete(ctx, k.bytes())
}

// mixSpec describes the family of orders in the clear.
func mixSpec(w *workspace) driver.FamilySpec { return w.spec("plain", orderPrefix) }

// A mix is the tables of all series, and a client of them behind a network.
type mix struct {
	net    *network
	space  *workspace
	db     driver.DB
	client *orderClient
	count  *counter
	height int
	asked  [][orderKinds]int // requests of each operation, by series
}

func (m *mix) close(ctx context.Context) (err error) {
	m.net.latency(0)
	if m.db != nil {
		err = m.net.disconnect(m.db)
	}
	m.net.close()
	return errors.Join(err, m.space.drop(ctx))
}

// mixSchema returns the schema of a table of orders of a series.
func mixSchema(series string) store.Schema {
	s := orderSchema(orderEncrypted)
	s.Name = series
	switch series {
	case mixColumn:
		s.Key[1] = store.HashedPart("number", store.Int64)
		s.Columns = append(s.Columns, store.OrderedColumn("ordered", store.Int64, store.MOPE))
	case mixKerschbaum:
		s.Key[1] = store.HashedPart("number", store.Int64)
		s.Columns = append(s.Columns, store.OrderedColumn("ordered", store.Int64, store.Kerschbaum))
	}
	return s
}

func newMix(ctx context.Context, cfg Config) (m *mix, err error) {
	space, err := newWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m = &mix{net: newNetwork(cfg), space: space, count: new(counter), client: new(orderClient)}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close(ctx))
		}
	}()
	for _, spec := range []driver.FamilySpec{mixSpec(space), nodeSpec(space)} {
		if _, err := space.family(ctx, spec); err != nil {
			return nil, err
		}
	}
	for _, series := range []string{mixKey, mixColumn, mixKerschbaum} {
		if _, err := space.create(ctx, mixSchema(series)); err != nil {
			return nil, err
		}
	}
	if m.db, err = m.net.connect(ctx); err != nil {
		return nil, err
	}
	if err := m.open(ctx, cfg, m.count.over(m.db)); err != nil {
		return nil, err
	}
	return m, m.ready(ctx, cfg)
}

// open opens the tables of all series as the client.
func (m *mix) open(ctx context.Context, cfg Config, db driver.DB) error {
	plain, err := db.Family(ctx, mixSpec(m.space))
	if err != nil {
		return err
	}
	nodes, err := db.Family(ctx, nodeSpec(m.space))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, db, m.space.master, nil)
	if err != nil {
		return err
	}
	keys := newTreeKeys()
	for i, series := range mixSeries {
		var table orderTable
		switch series {
		case mixPlain:
			table = &bareOrders{f: plain}
		case mixCold, mixCached:
			cached := 0
			if series == mixCached {
				cached = cachedNodes
			}
			tree, err := walk.Open(ctx, nodes, keys.nodes, byte(i), walk.Options{Cached: cached})
			if err != nil {
				return err
			}
			table = treeOrders{tree}
		default:
			t, err := st.Table(ctx, m.space.name(series))
			if err != nil {
				return err
			}
			if table = (storeOrders{t}); series != mixKey {
				table = columnOrders{storeOrders{t}}
			}
		}
		m.client.tables = append(m.client.tables, table)
		m.client.random = append(m.client.random, rand.New(rand.NewPCG(cfg.Seed, 0)))
		m.client.first, m.client.next = append(m.client.first, 0), append(m.client.next, ordersReady)
	}
	return nil
}

// ready puts orders: those of the client, and those of others, which it never reads. The trees get all of them, since how
// long their operations take depends on how many there are.
func (m *mix) ready(ctx context.Context, cfg Config) error {
	others := int64(cfg.size(mixReady, mixReadyQuick))
	cfg.bar().Start("insert", len(mixSeries))
	defer cfg.bar().Done()
	for i, table := range m.client.tables {
		if t, ok := table.(treeOrders); ok {
			var entries []walk.Entry
			other := orderClient{number: 1}
			for n := range others {
				o := orderOf(other.key(n), 1)
				entries = append(entries, walk.Entry{Key: o.orderKey.bytes(), Value: o.bytes()})
			}
			if err := t.tree.Insert(ctx, entries...); err != nil {
				return err
			}
			var err error
			if m.height, err = t.tree.Height(ctx); err != nil {
				return err
			}
		}
		for n := range int64(ordersReady) {
			if err := table.put(ctx, orderOf(m.client.key(n), 1)); err != nil {
				return fmt.Errorf("%s: %w", mixSeries[i], err)
			}
		}
		cfg.bar().Add(1)
	}
	return nil
}

// A mixRun is what was measured: the seconds of a block, by point, series and round.
type mixRun struct {
	*mix
	points  []condition
	seconds [][][]float64
	rounds  int // that are whole
}

func (r *mixRun) at(point int, series string) []float64 {
	return r.seconds[point][slices.Index(mixSeries, series)]
}

func (r *mixRun) ratio(point int, series, beside string) ratio {
	return ratioOf(r.at(point, series), r.at(point, beside))
}

// byMix measures the mix at points, in turns, and makes a result of that.
func byMix(ctx context.Context, cfg Config, points []condition, result func(*mixRun) *Result) (r *Result, err error) {
	planned := cfg.rounds(mixRounds, mixQuickRounds)
	run, err := measureMix(ctx, cfg, points, planned)
	if run == nil || run.rounds == 0 {
		return nil, err
	}
	r = result(run)
	r.Runs = run.rounds
	r.Title = fmt.Sprintf("%s: %s, median of %d %s", r.Title, cfg.Database.Name, run.rounds, plural(run.rounds, "round"))
	var counts []string
	for i, series := range mixSeries {
		counts = append(counts, perOperation(series, run.asked[i]))
	}
	r.Notes = append(r.Notes,
		fmt.Sprintf("A mix is %d operations of one client, one after the other: %s. A query reads %d orders.", orderBlock, shares(), ordersRange),
		"plaintext: orders in the clear, in the fewest requests. mOPE and Kerschbaum: a table of this module, with the number of the order in the row key or as a column. tree: orders in the leaves of an encrypted B+tree whose nodes the client asks for; nodes cached: it remembers inner nodes.",
		fmt.Sprintf("The trees have %d levels. Requests of an operation, counted. %s.", run.height, strings.Join(counts, "; ")),
	)
	if cfg.Quick {
		r.Notes = append(r.Notes, "Not at the paper's size, which is a whole warehouse of TPC-C.")
	}
	if cfg.Database.Far == nil {
		r.Notes = append(r.Notes, "The store is embedded: what a network does is a pause before and after each call.")
	}
	r.early(planned)
	return r, err
}

func measureMix(ctx context.Context, cfg Config, points []condition, rounds int) (run *mixRun, err error) {
	m, err := newMix(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	run = &mixRun{mix: m, points: points, seconds: make([][][]float64, len(points))}
	for p := range points {
		run.seconds[p] = make([][]float64, len(mixSeries))
	}
	cfg.bar().Start("measure", (rounds*len(points)+1)*len(mixSeries))
	defer cfg.bar().Done()
	for i := range mixSeries { // not timed: what a client asks for only once
		if err := m.client.block(ctx, i); err != nil {
			return nil, fmt.Errorf("%s: %w", mixSeries[i], err)
		}
		var asked [orderKinds]int
		for kind := range orderKinds {
			before := m.count.now()
			if err := m.client.operate(ctx, i, kind); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", mixSeries[i], orderNames[kind], err)
			}
			asked[kind] = m.count.now().since(before).requests
		}
		m.asked = append(m.asked, asked)
		cfg.bar().Add(1)
	}
	for round := range rounds {
		for p := range points {
			m.net.set(points[p])
			for i := range mixSeries {
				series := (i + round) % len(mixSeries)
				start := time.Now()
				if err := m.client.block(ctx, series); err != nil {
					for _, all := range run.seconds {
						for i := range all {
							all[i] = all[i][:min(len(all[i]), run.rounds)]
						}
					}
					return run, fmt.Errorf("%s: %w", mixSeries[series], err)
				}
				run.seconds[p][series] = append(run.seconds[p][series], time.Since(start).Seconds())
				cfg.bar().Add(1)
			}
		}
		run.rounds = round + 1
	}
	return run, nil
}

// table lists all that was measured, by points that are named by a number.
func (r *mixRun) table(axis string, x func(condition) float64) *Table {
	t := &Table{Names: 2, Columns: []string{axis, "", "ms", "of plaintext's"}, Words: []bool{false, true, false, false}}
	for p := range r.points {
		for _, series := range mixSeries {
			beside := words("1")
			if series != mixPlain {
				beside = r.ratio(p, series, mixPlain).cell()
			}
			t.Rows = append(t.Rows, []Cell{numeral(x(r.points[p]), 0), words("%s", series), numeral(1e3*medianOf(r.at(p, series)).mid, 1), beside})
		}
	}
	return t
}

func mixByLatency(run *mixRun) *Result {
	ms := func(c condition) float64 { return float64(c.latency) / 1e6 }
	r := &Result{Title: "Time of a mix of operations by network latency", X: "latency in ms", Y: "seconds", LogY: true, Table: run.table("latency in ms", ms)}
	for _, series := range mixSeries {
		c := Curve{Name: series}
		for p := range run.points {
			c.Points = append(c.Points, medianOf(run.at(p, series)).at(ms(run.points[p])))
		}
		r.Curves = append(r.Curves, c)
	}
	last := len(run.points) - 1
	slower, cold, key := run.ratio(last, mixCached, mixPlain), run.ratio(last, mixCold, mixPlain), run.ratio(last, mixKey, mixPlain)
	growth := func(series string) ratio {
		var more []float64
		for i, s := range run.at(last, series) {
			more = append(more, (s-run.at(0, series)[i])/(run.at(last, mixPlain)[i]-run.at(0, mixPlain)[i]))
		}
		return medianOf(more)
	}
	asked := run.asked[slices.Index(mixSeries, mixCold)]
	r.Findings = []Finding{
		{Holds: asked[orderGet] == run.height && asked[orderRange] == run.height, Text: fmt.Sprintf(
			"A client that remembers nothing takes as many round trips as the tree has levels, %d, for one order and for %d: it takes %d and %d. With inner nodes cached it takes %d and %d, mOPE by row key %d and %d.",
			run.height, ordersRange, asked[orderGet], asked[orderRange], run.asked[slices.Index(mixSeries, mixCached)][orderGet], run.asked[slices.Index(mixSeries, mixCached)][orderRange],
			run.asked[slices.Index(mixSeries, mixKey)][orderGet], run.asked[slices.Index(mixSeries, mixKey)][orderRange])},
		slower.above(10).finding("The paper: the database that walks trees is orders of magnitude slower than the others. At %d ms the mix takes %v times as long as plaintext with inner nodes cached, and %v times without; mOPE takes %v times by row key and %v by column.",
			run.points[last].latency.Milliseconds(), slower, cold, key, run.ratio(last, mixColumn, mixPlain)),
		growth(mixCached).above(growth(mixKey).mid).finding("The paper: it is also heavily influenced by the latency. What each ms of latency adds is %v times what it adds to plaintext, and %v without a cache; to mOPE by row key it adds %v times as much, by column %v, to Kerschbaum %v.",
			growth(mixCached), growth(mixCold), growth(mixKey), growth(mixColumn), growth(mixKerschbaum)),
	}
	return r
}

func mixByBandwidth(run *mixRun) *Result {
	mbps := func(c condition) float64 { return float64(c.mbps) }
	r := &Result{Title: "Time of a mix of operations by bandwidth", Table: run.table("Mbit/s", mbps)}
	last := len(run.points) - 1
	slower := func(p int, series string) ratio { return ratioOf(run.at(p, series), run.at(last, series)) }
	r.Notes = append(r.Notes, "The network has a latency of 10 ms there and back.")
	r.Findings = []Finding{
		every(slower(0, mixCold).above(1.2), slower(1, mixCold).below(1.1)).finding("The paper: from 10 to 1 Mbit/s the database that walks trees takes 30 to 40 %% longer (29.4 and 38.9 s), and from 1000 to 10 hardly (28.7). Without a cache the mix takes, of its time at %d Mbit/s, %v at %d and %v at %d; with one %v and %v.",
			run.points[last].mbps, slower(1, mixCold), run.points[1].mbps, slower(0, mixCold), run.points[0].mbps, slower(1, mixCached), slower(0, mixCached)),
		every(slower(0, mixPlain).below(1.1), slower(0, mixKey).below(1.1)).finding("The paper: the bandwidth hardly matters to databases that find rows themselves. Of its time at %d Mbit/s plaintext takes %v at %d, mOPE by row key %v, by column %v.",
			run.points[last].mbps, slower(0, mixPlain), run.points[0].mbps, slower(0, mixKey), slower(0, mixColumn)),
	}
	return r
}

// zerodbTable3 puts the records of the building, of which ZeroDB keeps an index of each attribute.
func zerodbTable3(ctx context.Context, cfg Config) (*Result, error) {
	records := int64(cfg.size(readings, readingsQuick))
	series := readingsFilled()
	put := make([]float64, len(series))
	cfg.bar().Start("insert", 2*len(series)*int(records))
	defer cfg.bar().Done()
	fill := func(ctx context.Context, w *workspace, db driver.DB, i int) error {
		count := new(counter)
		counted := count.over(db)
		st, err := store.Open(ctx, counted, w.master, nil)
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
		before := count.now()
		err = fillReadings(ctx, cfg, t, records)
		put[i] = float64(count.now().since(before).bytes) / float64(records)
		return err
	}
	var disk []uint64
	var err error
	if cfg.Database.Disk != nil {
		disk, err = diskOf(ctx, cfg, len(series), fill)
	} else {
		err = filledOnce(ctx, cfg, len(series), fill)
	}
	if err != nil {
		return nil, err
	}
	return spaceResult(cfg, records, series, put, disk), nil
}

// filledOnce has fill work in the configured database, and removes what it makes.
func filledOnce(ctx context.Context, cfg Config, n int, fill func(ctx context.Context, w *workspace, db driver.DB, i int) error) (err error) {
	w, err := newWorkspace(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.drop(ctx)) }()
	for i := range n {
		if err := fill(ctx, w, cfg.Database.DB, i); err != nil {
			return err
		}
	}
	return nil
}

func spaceResult(cfg Config, records int64, series []string, put []float64, disk []uint64) *Result {
	r := &Result{
		Title: fmt.Sprintf("Space of %s records: %s", commas(float64(records)), cfg.Database.Name), Runs: 1,
		Table: &Table{Names: 1, Columns: []string{"", "put, bytes", "x put", "disk, bytes", "x disk"}, Words: []bool{true, false, false, false, false}},
	}
	bytesOf := func(i int) float64 { return put[i] }
	if disk != nil {
		bytesOf = func(i int) float64 { return float64(disk[i]) / float64(records) }
	}
	for i, name := range series {
		if name == readCached {
			name = readCold
		}
		row := []Cell{words("%s", name), numeral(put[i], 0), numeral(put[i]/put[0], 2), words(""), words("")}
		if disk != nil {
			row[3], row[4] = numeral(bytesOf(i), 0), numeral(bytesOf(i)/bytesOf(0), 2)
		}
		r.Table.Rows = append(r.Table.Rows, row)
	}
	tree, key := slices.Index(series, readCached), slices.Index(series, readKey)
	r.Notes = []string{fmt.Sprintf("Bytes are of a record. put: the keys, qualifiers and values of all that was put, nodes of trees each time that they were. disk: what that takes of it. x: of plaintext's. tree: sealed objects, and a tree for each of %d attributes. Records were put %s at a time.", attributed, commas(readingsAtOnce))}
	if disk == nil {
		r.Notes = append(r.Notes, "The disk is not measured: this database does not say what a table takes of it. The embedded store does.")
	}
	r.Findings = []Finding{{Holds: bytesOf(tree) >= 4*bytesOf(0), Text: fmt.Sprintf(
		"The paper: the database that walks trees takes four times the space of the worst of the others (2.4 GB beside 372 to 645 MB), since it indexes each attribute. It takes %.1f times that of plaintext; mOPE by row key, without other indexes, %.1f times.",
		bytesOf(tree)/bytesOf(0), bytesOf(key)/bytesOf(0))}}
	return r
}
