package zerodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/walk"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figures 3 to 6 of Mitterer, von Maltitz, Niedermayer and Carle, "An Experimental Performance Analysis of the Cryptographic
// Database ZeroDB" (W-P2DS 2018), section 4.2: what statements cost whose client walks encrypted trees, by their kind, the
// latency of the network and its losses. Their MySQL is here rows in the clear, in the fewest round trips. Beside them are
// tables of this module, of which the paper speaks in its conclusions.

const source = "Mitterer, von Maltitz, Niedermayer and Carle, W-P2DS 2018, "

var walkFigures = []experiment.Figure{
	{
		Name: "zerodb-fig3", About: "round trips of statements that walk encrypted trees", Source: source + "figure 3", Stored: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			// Round trips are counted by what more latency costs, also those that a client library makes.
			more := 60 * time.Millisecond
			if cfg.Quick {
				more = 30 * time.Millisecond
			}
			return byStatement(ctx, cfg, []testbed.Condition{defaultCondition, {Latency: more, Mbps: defaultCondition.Mbps}}, tripResult)
		},
	},
	{
		Name: "zerodb-fig4", About: "time of statements that walk encrypted trees", Source: source + "figure 4", Stored: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return byStatement(ctx, cfg, []testbed.Condition{defaultCondition}, timeResult)
		},
	},
	{
		Name: "zerodb-fig5", About: "time of statements on encrypted trees by latency", Source: source + "figure 5", Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			var points []testbed.Condition
			for _, ms := range []time.Duration{0, 10, 20, 40, 80} {
				if c := (testbed.Condition{Latency: ms * time.Millisecond, Mbps: defaultCondition.Mbps}); !cfg.Quick || ms <= 20 {
					points = append(points, c)
				}
			}
			return byStatement(ctx, cfg, points, latencyResult)
		},
	},
	{
		Name: "zerodb-fig6", About: "time of statements on encrypted trees by lost packets", Source: source + "figure 6", Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			var points []testbed.Condition
			for _, loss := range []float64{0, 0.01, 0.05, 0.1, 0.25} {
				if c := defaultCondition; !cfg.Quick || loss == 0 || loss == 0.05 || loss == 0.1 {
					c.Loss = loss
					points = append(points, c)
				}
			}
			return byStatement(ctx, cfg, points, lossResult)
		},
	},
}

// defaultCondition is that of table 1 of the paper.
var defaultCondition = testbed.Condition{Latency: 10 * time.Millisecond, Mbps: 1000}

// Sizes. Where the client takes one record after the other it takes some of them, and the time is multiplied.
const (
	readings      = 50_000
	readingsQuick = 2_000
	asked         = 1_000
	askedQuick    = 100
	singly        = 50 // one of so many records
	singlyQuick   = 25

	enoughRounds = 5 // for a verdict on counts; those on times have intervals

	readingRounds      = 8
	readingQuickRounds = 2

	readingsAtOnce = 5_000 // of the load

	// settled is for how long nothing is asked once all that goes on after an answer has ended.
	settled = 10 * time.Millisecond
)

// The statements, as the paper names them.
type statement int

const (
	selects statement = iota
	percent           // of all records
	finds
	inserts
	updates
	deletes
	statements
)

var statementNames = [statements]string{"select", "select 1 %", "select one", "insert", "update", "delete"}

// The series. The first is what others are compared with.
const (
	readPlain      = "plaintext"
	readKey        = "mOPE, row key"
	readColumn     = "mOPE, column"
	readKerschbaum = "Kerschbaum, column"
	readCold       = "tree"
	readCached     = "tree, nodes cached"
	readSingle     = "tree, record by record"
)

var readingSeries = []string{readPlain, readKey, readColumn, readKerschbaum, readCold, readCached, readSingle}

// A building is the tables of all series, and a client of them behind a network.
type building struct {
	testbed.Distant
	cfg     experiment.Config
	keys    treeKeys
	tables  []readingTable
	random  *rand.Rand
	records int64
	asked   int64
	singly  int64
	height  int
}

// newBuilding makes the tables and fills them, without a network between.
func newBuilding(ctx context.Context, cfg experiment.Config) (b *building, err error) {
	far, err := testbed.NewDistant(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b = &building{
		Distant: far, cfg: cfg, keys: newTreeKeys(), random: rand.New(rand.NewPCG(cfg.Seed, 0)),
		records: int64(cfg.Size(readings, readingsQuick)), asked: int64(cfg.Size(asked, askedQuick)), singly: int64(cfg.Size(singly, singlyQuick)),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close(ctx))
		}
	}()
	filled := readingsFilled()
	cfg.Bar().Start("insert", len(filled)*int(b.records))
	defer cfg.Bar().Done()
	counted := b.Count.Over(b.DB)
	st, err := store.Open(ctx, counted, b.Space.Master, nil)
	if err != nil {
		return nil, err
	}
	for _, series := range readingSeries {
		if slices.Contains(filled, series) {
			if err := makeReadings(ctx, b.Space, series); err != nil {
				return nil, fmt.Errorf("%s: %w", series, err)
			}
		}
	}
	for _, series := range readingSeries {
		t, err := openReadings(ctx, b.Space, counted, st, b.keys, series)
		if err == nil && slices.Contains(filled, series) {
			err = fillReadings(ctx, cfg, t, b.records)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", series, err)
		}
		b.tables = append(b.tables, t)
	}
	b.height, err = b.tables[slices.Index(readingSeries, readCold)].(*treeReadings).trees[byDate].Height(ctx)
	return b, err
}

// readingsFilled returns the series that have records of their own. The trees are the same in all of theirs.
func readingsFilled() []string {
	return slices.DeleteFunc(slices.Clone(readingSeries), func(series string) bool { return series == readCold || series == readSingle })
}

// Families of rows in the clear, of objects, and of nodes.
func clearSpec(w *testbed.Workspace) driver.FamilySpec { return w.Spec("plain", 0) }
func objectSpec(w *testbed.Workspace) driver.FamilySpec {
	s := w.Spec("objects", 0)
	s.SpreadBits = 4 // many objects of few partitions are one round trip
	return s
}
func nodeSpec(w *testbed.Workspace) driver.FamilySpec { return walk.Spec(w.Spec("nodes", 0).Name) }

// makeReadings makes the tables of a series that is filled.
func makeReadings(ctx context.Context, w *testbed.Workspace, series string) (err error) {
	switch number := store.HashedPart("number", store.Int64); series {
	case readPlain:
		_, err = w.Family(ctx, clearSpec(w))
	case readCached:
		if _, err = w.Family(ctx, objectSpec(w)); err == nil {
			_, err = w.Family(ctx, nodeSpec(w))
		}
	case readKey:
		_, err = w.Create(ctx, readingSchema(series, store.OrderedPart("number", store.Int64, store.MOPE), nil))
	case readColumn:
		_, err = w.Create(ctx, readingSchema(series, number, store.MOPE))
	default:
		_, err = w.Create(ctx, readingSchema(series, number, store.Kerschbaum))
	}
	return err
}

// openReadings opens the table of a series as a client.
func openReadings(ctx context.Context, w *testbed.Workspace, db driver.DB, st *store.Store, keys treeKeys, series string) (readingTable, error) {
	switch series {
	case readPlain:
		f, err := db.Family(ctx, clearSpec(w))
		return bareReadings{f}, err
	case readKey, readColumn, readKerschbaum:
		t, err := st.Table(ctx, w.Name(series))
		return storeReadings{t, series != readKey}, err
	}
	objects, err := db.Family(ctx, objectSpec(w))
	if err != nil {
		return nil, err
	}
	nodes, err := db.Family(ctx, nodeSpec(w))
	if err != nil {
		return nil, err
	}
	cached := walk.Plenty
	if series == readCold {
		cached = 0
	}
	return readingTrees(ctx, objects, nodes, keys, cached, series == readSingle)
}

// fillReadings puts the records.
func fillReadings(ctx context.Context, cfg experiment.Config, t readingTable, records int64) error {
	for from := int64(0); from < records; from += readingsAtOnce {
		var part []reading
		for n := from; n < min(records, from+readingsAtOnce); n++ {
			part = append(part, readingOf(cfg.Seed, n, false))
		}
		if err := t.insert(ctx, part); err != nil {
			return err
		}
		cfg.Bar().Add(len(part))
	}
	return nil
}

// A statementTiming is what was measured of a series at a point: for each statement and round the time and the requests, as if
// it had named all records that it is to name.
type statementTiming struct {
	testbed.Condition
	seconds, requests [statements][]float64
}

// A call is a statement about records, every step-th from one on to another.
type call struct {
	statement
	from, to, step int64
}

// calls returns the statements of a series, in their order. New records are inserted, updated and deleted, so that nothing is
// left. What is only read is not taken record by record.
func (b *building) calls(series string) []call {
	from, step := b.records, int64(1) // no record has these numbers
	if series == readSingle {
		step = b.singly
	}
	to := from + b.asked
	some := func(s statement, n int64) call {
		at := b.random.Int64N(b.records - n + 1)
		return call{s, at, at + n, 1}
	}
	return []call{{inserts, from, to, step}, {updates, from, to, step}, some(selects, b.asked), some(percent, b.records/100), some(finds, 1), {deletes, from, to, step}}
}

// statements measures all statements of a series once.
func (b *building) statements(ctx context.Context, series int, t *statementTiming, counted bool) error {
	for _, c := range b.calls(readingSeries[series]) {
		seconds, requests, err := b.execute(ctx, b.tables[series], c)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", readingSeries[series], statementNames[c.statement], err)
		}
		if counted {
			t.seconds[c.statement] = append(t.seconds[c.statement], seconds)
			t.requests[c.statement] = append(t.requests[c.statement], requests)
		}
	}
	left, err := b.tables[series].between(ctx, b.records, b.records+b.asked)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%w: deleted records are there", exit.ErrWrongAnswer)
	}
	return err
}

// execute runs a statement. It returns how long that took and what it asked for, as if it had changed all records from one to
// the other. Those that are to be changed are found by their date first, as a statement of SQL finds them. What records there
// are, and whether they are those that came, is not timed; nor is what goes on after the answer.
func (b *building) execute(ctx context.Context, table readingTable, c call) (seconds, requests float64, err error) {
	there := b.readings(c, c.statement == deletes)
	var found []reading
	measure := func(times int64, do func() error) error {
		before, start := b.Count.Now(), time.Now()
		if err := do(); err != nil {
			return err
		}
		seconds += float64(times) * time.Since(start).Seconds()
		err := b.Count.Quiet(ctx, settled)
		requests += float64(times) * float64(b.Count.Now().Since(before).Requests)
		return err
	}
	if c.statement != inserts {
		err = measure(1, func() (err error) {
			found, err = table.between(ctx, c.from, c.to)
			return err
		})
	}
	if err == nil {
		switch c.statement {
		case inserts:
			err = measure(c.step, func() error { return table.insert(ctx, there) })
		case updates:
			changed := b.readings(c, true)
			err = measure(c.step, func() error { return table.replace(ctx, found, changed) })
		case deletes:
			err = measure(c.step, func() error { return table.remove(ctx, found) })
		}
	}
	if err != nil || c.statement == inserts {
		return seconds, requests, err
	}
	slices.SortFunc(found, func(a, b reading) int { return cmp.Compare(a.number, b.number) })
	if !slices.Equal(found, there) {
		return 0, 0, fmt.Errorf("%w: %d records came, which are not the %d that were written", exit.ErrWrongAnswer, len(found), len(there))
	}
	return seconds, requests, nil
}

// readings returns the records of a call.
func (b *building) readings(c call, updated bool) (all []reading) {
	for n := c.from; n < c.to; n += c.step {
		all = append(all, readingOf(b.cfg.Seed, n, updated))
	}
	return all
}

// A statementRun is what was measured: by point and series.
type statementRun struct {
	*building
	points []testbed.Condition
	all    [][]*statementTiming
	rounds int // that are whole
}

func (r *statementRun) at(point int, series string) *statementTiming {
	return r.all[point][slices.Index(readingSeries, series)]
}

// ratio returns how many times as long a statement of a series takes as that of another.
func (r *statementRun) ratio(point int, s statement, series, beside string) experiment.Ratio {
	return experiment.RatioOf(r.at(point, series).seconds[s], r.at(point, beside).seconds[s])
}

// byStatement measures statements at points, in turns, and makes a result of that.
func byStatement(ctx context.Context, cfg experiment.Config, points []testbed.Condition, result func(*statementRun) *experiment.Result) (r *experiment.Result, err error) {
	planned := cfg.RoundsOr(readingRounds, readingQuickRounds)
	run, err := measureStatements(ctx, cfg, points, planned)
	if run == nil || run.rounds == 0 {
		return nil, err
	}
	r = result(run)
	r.Runs = run.rounds
	r.Title = fmt.Sprintf("Statements of %s records out of %s, %s: %s, median of %d %s", experiment.Commas(float64(run.asked)), experiment.Commas(float64(run.records)), r.Title, cfg.Database.Name, run.rounds, show.Plural(run.rounds, "round"))
	r.Notes = append(r.Notes,
		"Statements find records by their date. plaintext: rows in the clear, by date, in the fewest requests. mOPE and Kerschbaum: a table of this module with the date in the row key, or as a column; other columns are sealed. tree: objects are sealed, and an encrypted B+tree for each of 6 attributes leads to them, whose nodes the client asks for; nodes cached: it remembers inner nodes.",
		fmt.Sprintf("record by record: the client, which remembers inner nodes, changes one tree of one record after the other. So we take ZeroDB to work; the paper does not say. The others do with all records what can be done at once. It changes every %dth of the records, and the time is multiplied.", run.singly),
		"Numbers are medians over rounds, and ratios medians of the ratio in one round.",
		fmt.Sprintf("The tree of dates has %d levels. The three series of trees share them: a client with a cache has to learn what another series has changed.", run.height),
	)
	r.Notes = append(r.Notes, testbed.Notes(cfg)...)
	r.Early(planned)
	if cfg.Quick {
		r.Below(fmt.Sprintf("%s records out of %s", experiment.Commas(asked), experiment.Commas(readings)))
	}
	return r, err
}

func measureStatements(ctx context.Context, cfg experiment.Config, points []testbed.Condition, rounds int) (run *statementRun, err error) {
	b, err := newBuilding(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	run = &statementRun{building: b, points: points}
	for _, p := range points {
		var all []*statementTiming
		for range readingSeries {
			all = append(all, &statementTiming{Condition: p})
		}
		run.all = append(run.all, all)
	}
	cfg.Bar().Start("measure", (rounds+1)*len(points)*len(readingSeries))
	defer cfg.Bar().Done()
	for round := -1; round < rounds; round++ { // the first is not counted
		for p := range points {
			if round < 0 {
				b.Net.Set(testbed.Condition{})
			} else {
				b.Net.Set(points[p])
			}
			for i := range readingSeries {
				series := (i + max(round, 0)) % len(readingSeries)
				if err := b.statements(ctx, series, run.all[p][series], round >= 0); err != nil {
					run.keep(run.rounds)
					return run, err
				}
				cfg.Bar().Add(1)
			}
			if round < 0 {
				cfg.Bar().Add((len(points) - 1) * len(readingSeries))
				break // once is enough
			}
		}
		run.rounds = max(0, round+1)
	}
	return run, nil
}

// keep forgets rounds that are not whole.
func (r *statementRun) keep(rounds int) {
	for _, all := range r.all {
		for _, t := range all {
			for s := range statements {
				t.seconds[s] = t.seconds[s][:min(len(t.seconds[s]), rounds)]
				t.requests[s] = t.requests[s][:min(len(t.requests[s]), rounds)]
			}
		}
	}
}

// trips returns how many round trips a statement makes one after the other, in each round: what it takes longer at the second
// point, of the latency that there is more.
func (r *statementRun) trips(series string, s statement) (all []float64) {
	few, many := r.at(0, series), r.at(1, series)
	more := (r.points[1].Latency - r.points[0].Latency).Seconds()
	for i := range r.rounds {
		all = append(all, max(0, (many.seconds[s][i]-few.seconds[s][i])/more))
	}
	return all
}

func tripResult(run *statementRun) *experiment.Result {
	r := &experiment.Result{
		Title: "round trips",
		Table: &experiment.Table{Names: 2, Columns: []string{"statement", "", "round trips", "requests"}, Words: []bool{true, true, false, false}},
	}
	trips := func(series string, s statement) experiment.Ratio { return experiment.MedianOf(run.trips(series, s)) }
	for s := range statements {
		for _, series := range readingSeries {
			n := trips(series, s)
			c := n.Cell()
			c.Text = fmt.Sprintf("%.1f", n.Mid)
			r.Table.Rows = append(r.Table.Rows, []experiment.Cell{experiment.Words("%s", statementNames[s]), experiment.Words("%s", series), c, experiment.Numeral(experiment.MedianOf(run.at(0, series).requests[s]).Mid, 0)})
		}
	}
	r.Notes = append(r.Notes, fmt.Sprintf("round trips: those that follow one another, measured by how much longer a statement takes with a latency of %d ms than with %d. requests: all that is asked of the database, at once or not, also after the answer.",
		run.points[1].Latency.Milliseconds(), run.points[0].Latency.Milliseconds()))
	n := func(series string, s statement) float64 { return trips(series, s).Mid }
	walked, known := float64(run.height+1), true // the levels of the tree of dates, and the objects
	for _, s := range []statement{selects, percent, finds} {
		known = known && math.Abs(n(readCold, s)-walked) < 0.5
	}
	is := func(so bool) experiment.Verdict {
		switch {
		case run.rounds < enoughRounds:
			return experiment.Unclear
		case so:
			return experiment.IsSo
		}
		return experiment.IsNot
	}
	few := n(readSingle, selects)
	r.Findings = []experiment.Finding{
		is(min(n(readSingle, inserts), n(readSingle, updates), n(readSingle, deletes)) > 10*few).Finding(
			"The paper: a client that walks trees communicates a lot to insert, update and delete, and moderately to select. Record by record it takes %s, %s and %s round trips, and %.1f to select.",
			experiment.Commas(n(readSingle, inserts)), experiment.Commas(n(readSingle, updates)), experiment.Commas(n(readSingle, deletes)), few),
		is(n(readSingle, updates) > n(readSingle, inserts)).Finding(
			"The paper: an update is extremely expensive, more than an insert. Here it takes %s round trips, and an insert %s: the attribute that changes is in one tree of %d. To delete the record and insert it again would take %s.",
			experiment.Commas(n(readSingle, updates)), experiment.Commas(n(readSingle, inserts)), attributed, experiment.Commas(n(readSingle, deletes)+n(readSingle, inserts))),
		is(known).Finding(
			"A select walks the tree, and then asks for the objects: with %d levels that is %.0f round trips, for one record, for 1 %% of all and for %s. Without a cache it takes %.1f, %.1f and %.1f; with one %.1f, %.1f and %.1f. mOPE takes %.1f, %.1f and %.1f by row key, and %.1f, %.1f and %.1f by column.",
			run.height, walked, experiment.Commas(float64(run.asked)), n(readCold, finds), n(readCold, percent), n(readCold, selects), n(readCached, finds), n(readCached, percent), n(readCached, selects),
			n(readKey, finds), n(readKey, percent), n(readKey, selects), n(readColumn, finds), n(readColumn, percent), n(readColumn, selects)),
		is(n(readCached, inserts) < n(readSingle, inserts)/100).Finding(
			"Most round trips of a change record by record are not due to the tree. A client that walks all trees at once, and sends together what can be, takes %.1f round trips to insert, %.1f to update and %.1f to delete; mOPE by row key takes %.1f, %.1f and %.1f, by column %.1f, %.1f and %.1f.",
			n(readCached, inserts), n(readCached, updates), n(readCached, deletes), n(readKey, inserts), n(readKey, updates), n(readKey, deletes),
			n(readColumn, inserts), n(readColumn, updates), n(readColumn, deletes)),
	}
	r.Notes = append(r.Notes,
		"What the round trips buy: a copy of the database shows no order of the trees, unless it has the times at which nodes were made. Rows by mOPE lie in the order of their dates. Who watches the requests to a tree sees which nodes are read together.")
	return r
}

// rows adds a row for each statement and series at a point, which the given cells name.
func (r *statementRun) rows(table *experiment.Table, point int, named ...experiment.Cell) {
	for s := range statements {
		for _, series := range readingSeries {
			beside := experiment.Words("1")
			if series != readPlain {
				beside = r.ratio(point, s, series, readPlain).Cell()
			}
			took := experiment.MedianOf(r.at(point, series).seconds[s])
			table.Rows = append(table.Rows, append(slices.Clone(named), experiment.Words("%s", statementNames[s]), experiment.Words("%s", series), experiment.Numeral(1e3*took.Mid, 1), beside))
		}
	}
}

func timeResult(run *statementRun) *experiment.Result {
	r := &experiment.Result{
		Title: "time",
		Table: &experiment.Table{Names: 2, Columns: []string{"statement", "", "ms", "of plaintext's"}, Words: []bool{true, true, false, false}},
	}
	run.rows(r.Table, 0)
	of := func(s statement, series string) experiment.Ratio { return run.ratio(0, s, series, readPlain) }
	r.Notes = append(r.Notes, "The network has a latency of 10 ms there and back, and 1000 Mbit/s, as table 1 of the paper says.")
	r.Findings = []experiment.Finding{
		experiment.Every(of(inserts, readSingle).Above(100), of(updates, readSingle).Above(100), of(deletes, readSingle).Above(100)).Finding(
			"The paper: an update takes 209 s where MySQL takes 0.1 s, three orders of magnitude; an insert 158 s, a delete 78 s. Record by record they take, of plaintext's time, %v (update), %v and %v times.",
			of(updates, readSingle), of(inserts, readSingle), of(deletes, readSingle)),
		of(selects, readSingle).About(10, 10).Finding(
			"The paper: a select is almost in the same order of magnitude as MySQL's. Record by record, it takes %v times as long as plaintext; mOPE takes %v times by row key, and %v by column.",
			of(selects, readSingle), of(selects, readKey), of(selects, readColumn)),
		experiment.Every(of(inserts, readCached).Below(100), of(updates, readCached).Below(100), of(deletes, readCached).Below(100)).Finding(
			"A client that sends together what can be is within two orders of magnitude: it takes %v, %v and %v times as long as plaintext to insert, update and delete; mOPE by row key takes %v, %v and %v times, by column %v, %v and %v.",
			of(inserts, readCached), of(updates, readCached), of(deletes, readCached), of(inserts, readKey), of(updates, readKey), of(deletes, readKey),
			of(inserts, readColumn), of(updates, readColumn), of(deletes, readColumn)),
	}
	return r
}

// curves draws the time of each statement and series over points.
func (r *statementRun) curves(x func(testbed.Condition) float64) (all []experiment.Curve) {
	for s := range statements {
		for _, series := range readingSeries {
			c := experiment.Curve{Name: statementNames[s] + ", " + series, Kin: series, Panel: statementNames[s]}
			for p := range r.points {
				took := experiment.MedianOf(r.at(p, series).seconds[s])
				c.Points = append(c.Points, took.At(x(r.points[p])))
			}
			all = append(all, c)
		}
	}
	return all
}

func latencyResult(run *statementRun) *experiment.Result {
	ms := func(c testbed.Condition) float64 { return float64(c.Latency) / 1e6 }
	r := &experiment.Result{
		Title: "time by network latency", X: "latency in ms", Y: "seconds (logarithmic)", LogY: true, Curves: run.curves(ms),
		Table: &experiment.Table{Names: 3, Columns: []string{"latency in ms", "statement", "", "ms", "of plaintext's"}, Words: []bool{false, true, true, false, false}},
	}
	for p := range run.points {
		run.rows(r.Table, p, experiment.Numeral(ms(run.points[p]), 0))
	}
	// Of a line, each ms of latency adds as much.
	last := len(run.points) - 1
	slope := func(a, b, round int) float64 {
		t := func(p int) float64 { return run.at(p, readSingle).seconds[inserts][round] }
		return (t(b) - t(a)) / (run.points[b].Latency - run.points[a].Latency).Seconds()
	}
	var bends []float64
	for round := range run.rounds {
		bends = append(bends, slope(last-1, last, round)/slope(last-2, last-1, round))
	}
	bend := experiment.MedianOf(bends)
	took := func(s statement) experiment.Ratio { return experiment.MedianOf(run.at(last, readSingle).seconds[s]) }
	ms80 := run.points[last].Latency.Milliseconds()
	r.Findings = []experiment.Finding{
		experiment.Every(bend.Above(0.8), bend.Below(1.25)).Finding(
			"The paper: the time seems to grow linearly with the latency. Record by record, what a ms adds to an insert above %d ms is %v times what it adds below.", run.points[last-1].Latency.Milliseconds(), bend),
		experiment.Every(took(selects).Below(1), took(inserts).Above(10), took(updates).Above(10), took(deletes).Above(10)).Finding(
			"The paper: with more latency only the select stays within a reasonable time, which is here a second, and ten seconds are not. At %d ms it takes %v s; insert, update and delete record by record take %v, %v and %v s.",
			ms80, took(selects), took(inserts), took(updates), took(deletes)),
		run.wins("find a record", finds), run.wins("find 1 % of them", percent), run.wins("insert records (into six trees)", inserts),
	}
	return r
}

// wins says from which latency on mOPE by row key is faster than a client that walks the tree with inner nodes cached.
func (r *statementRun) wins(what string, s statement) experiment.Finding {
	faster := func(key string) (from int, text string) {
		var all []string
		from = len(r.points)
		for p := range r.points {
			beside := r.ratio(p, s, readCached, key)
			all = append(all, fmt.Sprintf("%v", beside))
			if beside.Above(1) == experiment.IsSo {
				from = min(from, p)
			} else {
				from = len(r.points)
			}
		}
		return from, strings.Join(all, ", ")
	}
	where := func(from int) string {
		if r.rounds < enoughRounds {
			return "(too few rounds to say)"
		}
		if from == len(r.points) {
			return "at none"
		}
		return fmt.Sprintf("from %d ms on", r.points[from].Latency.Milliseconds())
	}
	key, byKey := faster(readKey)
	column, byColumn := faster(readColumn)
	v := experiment.IsNot
	switch last := r.ratio(len(r.points)-1, s, readCached, readKey); {
	case key < len(r.points):
		v = experiment.IsSo
	case last.Above(1) == experiment.Unclear:
		v = experiment.Unclear
	}
	var latencies []string
	for _, p := range r.points {
		latencies = append(latencies, fmt.Sprint(p.Latency.Milliseconds()))
	}
	return v.Finding("Where order-preserving encryption wins. To %s, mOPE by row key is surely faster than the tree with nodes cached %s of these latencies, and by column %s: at %s ms the tree takes, of their time, %s and %s.",
		what, where(key), where(column), strings.Join(latencies, ", "), byKey, byColumn)
}

func lossResult(run *statementRun) *experiment.Result {
	percent := func(c testbed.Condition) float64 { return 100 * c.Loss }
	r := &experiment.Result{
		Title: "time by lost packets", X: "lost packets in %", Y: "seconds (logarithmic)", LogY: true, Curves: run.curves(percent),
		Table: &experiment.Table{Names: 3, Columns: []string{"lost in %", "statement", "", "ms", "of plaintext's"}, Words: []bool{false, true, true, false, false}},
	}
	for p := range run.points {
		run.rows(r.Table, p, experiment.Numeral(percent(run.points[p]), 0))
	}
	r.Notes = append(r.Notes,
		"The network has a latency of 10 ms there and back. Each packet is lost with that probability, in either direction, and sent again after 210 ms, which doubles when it is lost again: the rule of a TCP whose timer alone notices losses.",
		"The paper also loses half of all packets. By this rule, a round trip then takes seconds, and record by record hours. Few statements of one or two round trips meet a loss at all: their times differ much from round to round.")
	var growths []experiment.Ratio
	var text []string
	for p := 1; p < len(run.points); p++ {
		g := experiment.RatioOf(run.at(p, readSingle).seconds[inserts], run.at(0, readSingle).seconds[inserts])
		growths, text = append(growths, g), append(text, fmt.Sprintf("%v times with %.0f %%", g, percent(run.points[p])))
	}
	beyond := experiment.IsSo
	for i, g := range growths {
		beyond = experiment.Both(beyond, g.Above(1/(1-run.points[i+1].Loss)))
	}
	r.Findings = []experiment.Finding{
		beyond.Finding("The paper: even lower rates of loss increase the time out of proportion. An insert record by record takes, of its time without losses, %s. By the rule a round trip takes longer by 210 ms for each packet lost, which is much beside 10 ms.", strings.Join(text, ", ")),
	}
	return r
}
