package waage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figures 3 and 4 of Waage, Homann and Wiese (SECRYPT 2016), section 4: the time to encrypt and
// insert up to 20,000 uniform 32-bit integers, in Cassandra and in HBase; means of ten runs.

var insertFigures = []experiment.Figure{
	{
		Name: "waage-fig3", About: "time to encrypt and insert, by values (Cassandra)",
		Source: "Waage, Homann and Wiese, SECRYPT 2016, figure 3",
		Stored: true, Loads: experiment.Written, Beside: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return insertFigure(ctx, cfg, "Cassandra")
		},
	},
	{
		Name: "waage-fig4", About: "time to encrypt and insert, by values (HBase)",
		Source: "Waage, Homann and Wiese, SECRYPT 2016, figure 4",
		Stored: true, Loads: experiment.Written, Beside: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return insertFigure(ctx, cfg, "HBase")
		},
	},
}

// An insertion is a curve: values that are inserted in an order under a scheme.
type insertion struct {
	name   string
	kin    string
	scheme string
	order  string
	beside string // the curve without encryption that it is compared with
}

// The curves. The names are those that the code below asks for.
const (
	bare             = "unencrypted"
	bareIndexed      = "unencrypted, with index"
	bareIndexedBest  = "unencrypted, with index, best"
	bareIndexedWorst = "unencrypted, with index, worst"
	mope             = "mOPE"
	wozniakKeyed     = "Wozniak keyed"
	wozniakIndexed   = "Wozniak indexed"
	publishedBest    = "Kerschbaum published, best"
	publishedMean    = "Kerschbaum published, average"
	publishedWorst   = "Kerschbaum published, worst"
	relabelledBest   = "Kerschbaum local, best"
	relabelledMean   = "Kerschbaum local, average"
	relabelledWorst  = "Kerschbaum local, worst"
)

// paperScheme is Kerschbaum's scheme as published.
const paperScheme = "kerschbaum-paper"

// insertions lists the curves. The orders are those of section 3.2.2: best the pre-order of a
// balanced tree, average random, worst ascending. For the others the order is of no matter.
var insertions = []insertion{
	{bare, "none", benchtable.Plain, "random", ""},
	{mope, "mope", "mope", "random", bare},
	{wozniakKeyed, "wozniak", "wozniak", "random", bare},
	{wozniakIndexed, "wozniak", "wozniak-indexed", "random", bare},
	{bareIndexed, "none", "plain-indexed", "random", bare},
	{bareIndexedBest, "none", "plain-indexed", "preorder", bare},
	{bareIndexedWorst, "none", "plain-indexed", "sorted", bare},
	{publishedBest, "published", paperScheme, "preorder", bareIndexedBest},
	{publishedMean, "published", paperScheme, "random", bareIndexed},
	{publishedWorst, "published", paperScheme, "sorted", bareIndexedWorst},
	{relabelledBest, "relabelled", "kerschbaum", "preorder", bareIndexedBest},
	{relabelledMean, "relabelled", "kerschbaum", "random", bareIndexed},
	{relabelledWorst, "relabelled", "kerschbaum", "sorted", bareIndexedWorst},
}

const (
	insertSteps     = 10
	insertStep      = 2000
	insertQuickStep = 100

	insertRounds      = 20
	insertQuickRounds = 3

	// A curve that is this many times above the one it is compared with takes part in the first
	// rounds only: its factor needs no more of them, and the others should not wait for it.
	slowFactor = 10
	slowRounds = 6 // the fewest that have an interval

	makeAgain = 5 // attempts to make a table, besides the first
)

// A timing is what was measured of an insertion.
type timing struct {
	insertion
	db      int         // of [Config.databases]
	prefix  string      // of the name, where there are two
	seconds [][]float64 // by round and step: since the first value
	passes  int         // in which the whole index was written again, in all rounds
	moved   int         // values that got another ciphertext, in all rounds
}

func (t *timing) fullName() string { return t.prefix + t.name }

// total returns the time of all steps of a round.
func (t *timing) total(round int) float64 { return t.seconds[round][insertSteps-1] }

// over returns how many times longer t took than u, by round.
func (t *timing) over(u *timing) (all []float64) {
	for round := range min(len(t.seconds), len(u.seconds)) {
		all = append(all, t.total(round)/u.total(round))
	}
	return all
}

// at returns the point of a curve after a step.
func (t *timing) at(i int, x float64) experiment.Point {
	var seconds []float64
	for _, steps := range t.seconds {
		seconds = append(seconds, steps[i])
	}
	return experiment.MedianOf(seconds).At(x)
}

type timings []*timing

// in returns those of a database.
func (ts timings) in(db int) (some timings) {
	for _, t := range ts {
		if t.db == db {
			some = append(some, t)
		}
	}
	return some
}

func (ts timings) named(name string) *timing {
	i := slices.IndexFunc(ts, func(t *timing) bool { return t.name == name })
	return ts[i]
}

// ratio returns how many times longer a took than b. They are of the same order: others do not take
// turns, and meet other weather.
func (ts timings) ratio(a, b string) experiment.Ratio {
	return experiment.MedianOf(ts.factors(a, b))
}

// overOrders returns how many times longer a took than b, which is of another order, each beside the
// curve without encryption of its own order.
func (ts timings) overOrders(a, b string) experiment.Ratio {
	return experiment.RatioOf(ts.factors(a, ts.named(a).beside), ts.factors(b, ts.named(b).beside))
}

// factors returns how many times longer a took than b, by round.
func (ts timings) factors(a, b string) []float64 { return ts.named(a).over(ts.named(b)) }

// insertFigure measures in the configured database what the paper measured in its own. When it fails,
// or ctx ends, it returns what the rounds before were, if there was one, together with the error.
func insertFigure(ctx context.Context, cfg experiment.Config, paperStore string) (*experiment.Result, error) {
	step, planned := cfg.Size(insertStep, insertQuickStep), cfg.RoundsOr(insertRounds, insertQuickRounds)
	all, rounds, err := timeInsertions(ctx, cfg, step, planned)
	if rounds == 0 {
		return nil, err
	}
	last := step * insertSteps
	dbs := databases(cfg)
	names, shown := dbs[0].Name, []int{0, insertSteps/2 - 1, insertSteps - 1}
	if len(dbs) > 1 {
		names += " and " + dbs[1].Name + " in turns"
		shown = nil // the times are in the table that compares them
	}
	r := &experiment.Result{
		Title: fmt.Sprintf("Time to encrypt and insert: up to %s uniform int32 values, %s, batches of %d by %d %s, median of %d %s",
			experiment.Commas(float64(last)), names, cfg.Batch, cfg.Writers, show.Plural(cfg.Writers, "writer"), rounds, show.Plural(rounds, "round")),
		X: "number of inserted values", Y: "time in s (log scale)", LogY: true, Runs: rounds,
		Table: &experiment.Table{Names: 1, Columns: []string{""}},
		Notes: []string{"x unencrypted: the time of all values beside that of no encryption in the same round, with its 95 % interval. " +
			"The Kerschbaum curves are compared with the unencrypted one of the same order that has the same index and postings, the others with the plain one. " +
			"passes: how often the whole index was written again, and moved: values that got another ciphertext, both in a round."},
		Findings: insertFindings(all.in(0), cfg, paperStore),
	}
	r.Early(planned)
	if !slices.ContainsFunc(dbs, func(d experiment.Database) bool { return isProduct(d, paperStore) }) {
		r.Notes = append(r.Notes, "The paper measured this in "+paperStore+".")
	}
	for _, i := range shown {
		r.Table.Columns = append(r.Table.Columns, experiment.Commas(float64((i+1)*step))+" s")
	}
	r.Table.Columns = append(r.Table.Columns, "x unencrypted", "passes", "moved")
	r.Table.Words = make([]bool, len(r.Table.Columns))
	r.Table.Words[0] = true
	for db := range dbs {
		addInsertions(r, all.in(db), step, shown)
	}
	if len(dbs) > 1 {
		compareDatabases(r, all, dbs)
	}
	if cfg.Quick {
		r.Below(experiment.Commas(insertStep*insertSteps) + " values")
	}
	return r, err
}

// addInsertions adds a row for each curve of a database, with its times after some steps, and the curves.
func addInsertions(r *experiment.Result, all timings, step int, shown []int) {
	for _, t := range all {
		if n := len(t.seconds); n < r.Runs {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: of %d rounds only, since it is more than %d times slower than unencrypted.", t.fullName(), n, slowFactor))
		}
		c := experiment.Curve{Name: t.fullName(), Kin: t.kin}
		for i := range insertSteps {
			c.Points = append(c.Points, t.at(i, float64((i+1)*step)))
		}
		r.Curves = append(r.Curves, c)
		factor := experiment.Words("1")
		if t.beside != "" {
			factor = all.ratio(t.name, t.beside).Cell()
		}
		row := []experiment.Cell{experiment.Words("%s", t.fullName())}
		for _, i := range shown {
			row = append(row, experiment.Numeral(c.Points[i].Y, 3))
		}
		r.Table.Rows = append(r.Table.Rows, append(row, factor,
			experiment.Numeral(float64(t.passes)/float64(len(t.seconds)), 0), experiment.Numeral(float64(t.moved)/float64(len(t.seconds)), 0)))
	}
}

// timeInsertions measures the curves round by round. In a round, those of one order fill new tables
// with the same values and take turns after every step, so that a curve and the one that it is
// compared with meet the same weather; each step begins with another one. It returns how many rounds
// are whole, and the curves of these, also together with an error.
func timeInsertions(ctx context.Context, cfg experiment.Config, step, rounds int) (all timings, whole int, err error) {
	kind, err := values.KindByName("int32")
	if err != nil {
		return nil, 0, err
	}
	targets, err := insertionTargets()
	if err != nil {
		return nil, 0, err
	}
	dbs := databases(cfg)
	for _, d := range dbs {
		// Nothing is written before it is known that no table of a user is in the way.
		if err := vacant(ctx, d, targets); err != nil {
			return nil, 0, err
		}
	}
	defer func() { err = errors.Join(err, dropInsertions(ctx, dbs, targets)) }()
	for _, c := range insertions {
		for db, prefix := range prefixes(dbs) { // beside each other, as they take turns
			all = append(all, &timing{insertion: c, db: db, prefix: prefix})
		}
	}
	cfg.Bar().Start("insert", rounds*len(all)*step*insertSteps)
	defer cfg.Bar().Done()
	var orders []string
	for _, c := range insertions {
		if !slices.Contains(orders, c.order) {
			orders = append(orders, c.order)
		}
	}
	for round := range rounds {
		before := all.clone()
		for _, order := range orders {
			var turns timings
			for _, t := range all {
				switch {
				case t.order != order:
				case all.skips(t, round):
					cfg.Bar().Add(step * insertSteps)
				default:
					turns = append(turns, t)
				}
			}
			if err := turns.fill(ctx, cfg, kind, order, step, round); err != nil {
				return before, round, err
			}
		}
	}
	return all, rounds, nil
}

// insertionTargets are the tables that the curves need, each once.
func insertionTargets() (all []benchtable.Target, err error) {
	for _, c := range insertions {
		target, err := benchtable.TargetOf(c.scheme, "")
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, target) {
			all = append(all, target)
		}
	}
	return all, nil
}

// vacant returns an error that wraps bench.ErrExists if the store has one of some tables and it is not to be dropped.
func vacant(ctx context.Context, d experiment.Database, targets []benchtable.Target) error {
	if d.Replace {
		return nil
	}
	exist, err := d.Store.Tables(ctx)
	if err != nil {
		return err
	}
	for _, target := range targets {
		if slices.Contains(exist, target.Name()) {
			return fmt.Errorf("%w: %s holds values under %s already; name another store, or give --replace to drop them", bench.ErrExists, d.Name, target.Name())
		}
	}
	return nil
}

// dropInsertions removes the tables, so that they are in nobody's way later. Those of a user are not among them: they were
// in the way, or were to be dropped.
func dropInsertions(ctx context.Context, dbs []experiment.Database, targets []benchtable.Target) (err error) {
	ctx = context.WithoutCancel(ctx)
	for _, d := range dbs {
		for _, target := range targets {
			err = errors.Join(err, d.Store.Drop(ctx, target))
		}
	}
	return err
}

// clone returns timings that stay as they are while others of these rounds come.
func (ts timings) clone() timings {
	var copies timings
	for _, t := range ts {
		c := *t
		c.seconds = slices.Clone(t.seconds)
		copies = append(copies, &c)
	}
	return copies
}

// skips reports whether a curve has been measured often enough for being so slow.
func (ts timings) skips(t *timing, round int) bool {
	return round >= slowRounds && t.beside != "" && ts.in(t.db).ratio(t.name, t.beside).Mid > slowFactor
}

// fill inserts the values of a round into a new table of each curve.
func (ts timings) fill(ctx context.Context, cfg experiment.Config, kind values.Kind, order string, step, round int) error {
	source, values, err := uniform(step*insertSteps, cfg.Seed+uint64(round), kind.Name, order)
	if err != nil {
		return err
	}
	dbs := databases(cfg)
	var tables []bench.Table
	for _, t := range ts {
		target, err := benchtable.TargetOf(t.scheme, "")
		if err != nil {
			return err
		}
		// The table of the round before, or of another order, is dropped; that of a user was asked about.
		// No time is taken here, so that a server which was too busy to make it may be asked again.
		var table bench.Table
		for range 1 + makeAgain {
			table, _, err = dbs[t.db].Store.Create(ctx, target, kind, source.Column(), true)
			if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknownOutcome) {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.fullName(), err)
		}
		tables = append(tables, table)
		t.seconds = append(t.seconds, make([]float64, insertSteps))
	}
	for i := range insertSteps {
		part := slice{kind, values[i*step : (i+1)*step]}
		for j := range ts {
			at := (i + j + round) % len(ts)
			ids := dbs[ts[at].db].Store.Load(loads.NewName())
			start := time.Now()
			if _, err := bench.Insert(ctx, tables[at], ids, part, 0, cfg.Batch, cfg.Writers, nil); err != nil {
				return fmt.Errorf("%s: %w", ts[at].fullName(), err)
			}
			seconds := ts[at].seconds[len(ts[at].seconds)-1]
			seconds[i] = time.Since(start).Seconds()
			if i > 0 {
				seconds[i] += seconds[i-1]
			}
			cfg.Bar().Add(step)
		}
	}
	for at, t := range ts {
		if n, ok := tables[at].IndexStats(); ok {
			t.passes += passesOf(t.scheme, n)
			t.moved += n.Moved
		}
		if round == 0 {
			if err := holds(ctx, tables[at], kind, values); err != nil {
				return fmt.Errorf("%s: %w", t.fullName(), err)
			}
		}
	}
	return nil
}

// passesOf returns how often the whole index was written again. As published, one commit does it while the index is
// small; with local relabelling, a commit moves the values around a gap only.
func passesOf(scheme string, n bench.IndexStats) int {
	if scheme == paperScheme {
		return n.Rebalances + n.Relabels
	}
	return n.Rebalances
}

// uniform returns a source of so many uniform values in an order, and the values.
func uniform(n int, seed uint64, kind, order string) (source values.Source, all []int64, err error) {
	if source, err = values.Generate("uniform", n, seed, kind, order); err != nil {
		return nil, nil, err
	}
	for x, err := range source.Values() {
		if err != nil {
			return nil, nil, err
		}
		all = append(all, x)
	}
	return source, all, nil
}

// holds returns an error that wraps exit.ErrWrongAnswer unless the table has exactly the values.
func holds(ctx context.Context, table bench.Table, kind values.Kind, values []int64) error {
	var stored []int64
	for row, err := range table.Range(ctx, kind.Domain.Min, kind.Domain.Max, 0) {
		if err != nil {
			return err
		}
		stored = append(stored, row.Value)
	}
	if !slices.Equal(stored, slices.Sorted(slices.Values(values))) {
		return fmt.Errorf("%w: the table does not hold the values that were inserted", exit.ErrWrongAnswer)
	}
	return nil
}

// slice is a source of given values.
type slice struct {
	kind   values.Kind
	values []int64
}

func (s slice) Kind() values.Kind { return s.kind }
func (s slice) Column() string    { return "value" }
func (s slice) Describe() string  { return "values" }
func (s slice) Len() int          { return len(s.values) }

func (s slice) Values() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for _, x := range s.values {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// insertFindings compares with what section 4 and 5 of the paper say of a store.
func insertFindings(all timings, cfg experiment.Config, paperStore string) []experiment.Finding {
	mopeWozniak, mopeKerschbaum := all.ratio(mope, wozniakIndexed), all.ratio(mope, publishedMean)
	mopeCost, keyedCost := all.ratio(mope, bare), all.ratio(wozniakKeyed, bare)
	wozniakKerschbaum := all.ratio(wozniakIndexed, publishedMean)
	paperWorst, ourWorst := all.overOrders(publishedWorst, publishedMean), all.overOrders(relabelledWorst, relabelledMean)
	worst, ours := all.named(publishedWorst), all.named(relabelledWorst)
	each := func(n int, t *timing) string { return experiment.Commas(float64(n) / float64(len(t.seconds))) }

	found := []experiment.Finding{
		experiment.Both(mopeWozniak.Above(1), mopeKerschbaum.Above(1)).Finding(
			"The paper: although they have an index to maintain, Wozniak's and Kerschbaum's schemes are faster than mOPE. Here mOPE takes %v times as long as Wozniak indexed and %v times as long as Kerschbaum as published in random order; that is %v times as long as without encryption. What an index costs is a commit before the rows are written; mOPE costs some microseconds of arithmetic.",
			mopeWozniak, mopeKerschbaum, mopeCost),
		wozniakKerschbaum.Below(1.25).Finding(
			"The paper: Wozniak's scheme is almost as fast as Kerschbaum's, but needs an index. Here the indexed form takes %v times as long as Kerschbaum as published in random order, whose value is a column with postings, not a row key. The keyed form needs no index and takes %v times as long as no encryption.",
			wozniakKerschbaum, keyedCost),
		paperWorst.Above(2).Finding(
			"The paper: with pre-sorted input Kerschbaum's scheme is prohibitively slow. As published it takes %v times as long here as with random input, each beside no encryption of the same order: the whole index is written again %s times, which moves %s values.%s",
			paperWorst, each(worst.passes, worst), each(worst.moved, worst), batched(cfg)),
		ourWorst.Above(2).Finding(
			"The paper: pre-sorted input should be avoided at all. With local relabelling it takes %v times as long as random input, each beside no encryption of the same order, and moves %s values.",
			ourWorst, each(ours.moved, ours)),
	}
	if paperStore == "Cassandra" {
		best, mean := all.ratio(publishedBest, bareIndexedBest), all.ratio(publishedMean, bareIndexed)
		ourBest, ourMean := all.ratio(relabelledBest, bareIndexedBest), all.ratio(relabelledMean, bareIndexed)
		found = append(found, experiment.Both(best.About(1.03, 1.1), mean.About(1.03, 1.1)).Finding(
			"The paper: in its best and average case Kerschbaum's scheme costs 3 %%. Here, beside unencrypted values with the same index and postings, it takes %v and %v times as long as published, and %v and %v with local relabelling. That index itself makes the unencrypted rows take %v times as long as rows that have the value in their key.",
			best, mean, ourBest, ourMean, all.ratio(bareIndexed, bare)))
	}
	return found
}

// batched says what batches do to an order.
func batched(cfg experiment.Config) string {
	if cfg.Batch*cfg.Writers == 1 {
		return ""
	}
	return fmt.Sprintf(" The values come in batches of %d, %d at a time, and within a commit they are placed middle first, which spares most of it; --batch 1 --writers 1 sends one value after the other.", cfg.Batch, cfg.Writers)
}
