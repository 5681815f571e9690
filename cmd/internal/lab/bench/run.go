// Package bench measures what an encrypted column costs beside one that is not encrypted, and
// checks every answer against the plaintext. It has no flags and prints nothing; opebench does.
package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bare"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/internal/process"
	storecompare "github.com/rangecrypt/rangecrypt/store/compare"
)

// Config says what Run measures. All fields but Progress must be set.
type Config struct {
	Source        values.Source
	Limit         int               // at most so many values of the source; 0 is all
	Schemes       []string          // each once; where plain is among them, what Targets adds is measured too
	Layout        benchtable.Layout // of the tables; "" is for each scheme what TargetOf says
	Queries       int               // 0 is as many as ChooseQueries says
	Selectivities []float64         // in (0, 1]; the queries take turns
	Batch         int               // rows that are sent together
	Writers       int               // batches that are under way together
	Seed          uint64            // of the choice of the queries
	Replace       bool              // drop tables that exist
	Progress      progress.Reporter // may be nil

	// Tell says how much is to be done and how long that takes, where it is long; may be nil.
	Tell func(string)

	// Trees are the families in which encrypted trees are made and measured, in the database of the store, by the names of the
	// trees. They stay.
	Trees map[string]string

	// Bare opens what is measured beside the schemes without any of package store; nil measures none.
	Bare func(context.Context) (bare.Store, error)
}

// A Result is what Run measured for one scheme.
type Result struct {
	benchtable.Target
	SchemeID string

	// Insert counts rows; its latencies are those of batches, encryption included.
	Insert Phase
	// Query counts the rows that were read, decrypted and checked; its latencies are those of
	// whole queries.
	Query Phase
	// BySelectivity is Query for each of the selectivities.
	BySelectivity []Phase

	Families    []string // of the database, that hold the table
	StoredBytes float64  // length of the keys, qualifiers and cells put for a row, postings and indexes included; of a tree, that it has in the end
	DiskBytes   float64  // per row, as it is on the disk; 0 where that is not known
	Verified    int      // queries whose answer was right
	Whole       bool     // so was that to the query for everything, asked last and not timed
}

// A Phase is a part of the measurement.
type Phase struct {
	Selectivity float64 // of the queries, where they have one in common
	Rows        int
	Elapsed     time.Duration
	Latency     Latency
	CPU         time.Duration // of this process; 0 where it is not known, as of queries
	Ratio       Ratio         // of the time to that of Baseline(Scheme) on the same layout
	Bare        Ratio         // of the time to that of the bare client
	Index       *IndexStats   // of a stateful scheme; nil otherwise, and by selectivity
	times       []time.Duration
}

// IndexStats counts what was done to the index of a stateful scheme.
type IndexStats struct {
	storecompare.IndexStats
	Moves bool // whether its ciphertexts move: otherwise there are no such counts
}

// since returns what was done since the counts were n.
func (s IndexStats) since(n IndexStats) *IndexStats {
	s.RoundTrips -= n.RoundTrips
	s.Reads -= n.Reads
	s.Commits -= n.Commits
	s.Refused -= n.Refused
	s.Unknown -= n.Unknown
	s.Rebalances -= n.Rebalances
	s.Relabels -= n.Relabels
	s.Moved -= n.Moved
	return &s
}

// Rate returns the rows per second.
func (p *Phase) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Rows) / p.Elapsed.Seconds()
}

// CPUPerRow returns the time that the processors took for a row.
func (p *Phase) CPUPerRow() time.Duration {
	if p.Rows == 0 {
		return 0
	}
	return p.CPU / time.Duration(p.Rows)
}

func (p *Phase) record(rows int, d time.Duration) {
	p.Rows += rows
	p.Elapsed += d
	p.times = append(p.times, d)
}

// A Report is all that Run measured.
type Report struct {
	Rows     int // of the source
	Inserted int // of these, how many every scheme has
	Queries  int // of each scheme, when complete
	Batch    int
	Complete bool
	Results  []Result
}

// manyRows is from how many rows on Tell is called.
const manyRows = 100_000

const (
	// mostQueries is how many queries are asked where nothing else is said, and mostRead how many rows of
	// a table they may read together: a column that is read row by row gives some 10,000 a second.
	mostQueries = 200
	mostRead    = 500_000
)

// ChooseQueries returns how many queries are asked of so many rows: of many fewer, but enough of each
// selectivity for an interval.
func ChooseQueries(rows int, selectivities []float64) int {
	kinds := len(selectivities)
	n := min(mostQueries, int(mostRead/max(mean(selectivities)*float64(rows), 1)))
	if n < mostQueries {
		n = n / kinds * kinds // as many of each
	}
	return max(n, MinPairs*kinds)
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// tellTime says how long a phase takes, once a part of it is done, where that is long.
func (cfg Config) tellTime(phase string, begin time.Time, done, all int) {
	if all := time.Duration(float64(time.Since(begin)) * float64(all) / float64(done)); all >= time.Minute {
		cfg.Tell(fmt.Sprintf("%s takes about %d minutes", phase, int(all.Round(time.Minute)/time.Minute)))
	}
}

// minPairs is into how many rounds the insertion is divided at least, if there are rows enough to
// keep all writers busy in each: the schemes take turns, so that a round of one and of plain are a
// pair.
const minPairs = 20

// roundRows bounds the rows of a round, which are held in memory.
const roundRows = 40_000

// candidate is a scheme that is being measured.
type candidate struct {
	table Table
	Result
}

// Run inserts the values under each scheme and then queries them. The schemes take turns round by
// round and query by query, in rotating order, so that all of them meet the same weather.
//
// When it fails, or ctx ends, it returns what was measured so far together with the error. An
// answer that is not right ends it with an error that wraps [exit.ErrWrongAnswer].
func Run(ctx context.Context, st *Store, cfg Config) (*Report, error) {
	if cfg.Progress == nil {
		cfg.Progress = progress.None{}
	}
	if cfg.Tell == nil {
		cfg.Tell = func(string) {}
	}
	report := &Report{Queries: cfg.Queries, Batch: cfg.Batch}
	targets, err := benchtable.Targets(cfg.Schemes, cfg.Layout)
	if err != nil {
		return report, err
	}
	sorted, err := cfg.read(ctx, st, targets, report)
	if err != nil {
		return report, err
	}
	cfg.Queries = report.Queries
	cfg.tellSize(report.Rows, len(targets))
	model := newModel(report.Rows, sorted, cfg.Queries, cfg.Selectivities, cfg.Seed)

	candidates, closeBare, err := bareCandidate(ctx, cfg)
	if err != nil {
		return report, err
	}
	for _, target := range targets {
		table, info, err := st.Create(ctx, target, cfg.Source.Kind(), cfg.Source.Column(), cfg.Replace)
		if err != nil {
			return report, errors.Join(err, closeBare())
		}
		c := newCandidate(table, cfg.Selectivities)
		c.Target, c.SchemeID, c.Families = info.Target, info.SchemeID, info.Families
		candidates = append(candidates, c)
	}

	trees, err := st.treeCandidates(ctx, cfg)
	if err != nil {
		return report, errors.Join(err, closeBare())
	}
	candidates = append(candidates, trees...)

	countIndexes(candidates, func(r *Result) *Phase { return &r.Insert }, func() {
		err = insertRounds(ctx, st, cfg, model, candidates, report)
	})
	if err == nil {
		countIndexes(candidates, func(r *Result) *Phase { return &r.Query }, func() {
			err = queryRounds(ctx, cfg, model, candidates)
		})
	}
	for _, c := range candidates {
		err = errors.Join(err, c.measureBytes(ctx, st, err == nil))
		compare(c, candidates, cfg.Seed)
		report.Results = append(report.Results, c.Result)
	}
	report.Complete = err == nil
	return report, errors.Join(err, closeBare())
}

// read checks what is asked for and reads all of the input before anything is written. A run that is refused
// leaves the store as it was: one table of several would be in the way of later commands. It fills in the
// report how many rows there are and how many queries are asked, and returns a sorted sample of the values.
func (cfg Config) read(ctx context.Context, st *Store, targets []benchtable.Target, report *Report) (sorted []int64, err error) {
	indexed := "" // a scheme that has an index
	for _, t := range targets {
		if _, err := benchtable.SchemeID(t.Scheme, cfg.Source.Kind()); err != nil {
			return nil, err
		}
		if t.HasIndex() {
			indexed = t.Scheme
		}
	}
	if !cfg.Replace {
		if err := st.checkFree(ctx, targets); err != nil {
			return nil, err
		}
	}
	cfg.Progress.Start("reading", cfg.Source.Len())
	defer cfg.Progress.Done()
	input := cfg.Source.Values()
	if indexed != "" {
		input = atMostDistinct(input, maxIndexed, indexed)
	}
	rows, sorted, err := sample(input, cfg.Limit, cfg.Seed, func(int) error {
		cfg.Progress.Add(4096)
		return ctx.Err()
	})
	if err == nil && rows == 0 {
		err = values.NoValues(cfg.Source)
	}
	if err != nil {
		return nil, err
	}
	report.Rows = rows
	if report.Queries == 0 {
		report.Queries = ChooseQueries(rows, cfg.Selectivities)
	}
	return sorted, nil
}

// tellSize says how much is to be done, where it is much.
func (cfg Config) tellSize(rows, tables int) {
	tables += len(cfg.Trees)
	if cfg.Bare != nil {
		tables++
	}
	if rows >= manyRows {
		cfg.Tell(fmt.Sprintf("%d rows for each of %d tables, then %d queries of each, of %.0f rows on average; --n and --queries take fewer",
			rows, tables, cfg.Queries, mean(cfg.Selectivities)*float64(rows)))
	}
}

// measureBytes fills in how many bytes a row takes; onDisk says whether to ask the bare client for those of the disk.
func (c *candidate) measureBytes(ctx context.Context, st *Store, onDisk bool) (err error) {
	rows := float64(max(c.Insert.Rows, 1))
	if t, ok := c.table.(*treeTable); ok { // each node was put many times
		n, err := t.bytes(ctx)
		c.StoredBytes = float64(n) / rows
		return err
	}
	t, ok := c.table.(*bareTable)
	if !ok {
		c.StoredBytes = float64(st.meter.put(c.Families)) / rows
		return nil
	}
	c.StoredBytes = float64(t.bytes.Load()) / rows
	if disk, ok := t.store.(bare.DiskUser); ok && onDisk {
		var n uint64
		n, err = disk.DiskUsage()
		c.DiskBytes = float64(n) / rows
	}
	return err
}

func newCandidate(table Table, selectivities []float64) *candidate {
	c := &candidate{table: table}
	c.Insert.Latency, c.Query.Latency = newLatency(), newLatency()
	for _, s := range selectivities {
		c.BySelectivity = append(c.BySelectivity, Phase{Selectivity: s, Latency: newLatency()})
	}
	return c
}

// bareCandidate returns the bare client where it is to be measured, and what drops its rows.
func bareCandidate(ctx context.Context, cfg Config) ([]*candidate, func() error, error) {
	if cfg.Bare == nil {
		return nil, func() error { return nil }, nil
	}
	st, err := cfg.Bare(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := newCandidate(newBareTable(st, cfg.Source.Kind().Domain), cfg.Selectivities)
	c.Target, c.SchemeID = benchtable.Target{Scheme: Bare, Layout: benchtable.LayoutKey}, Bare
	// Rows in the clear must not stay, also where the run was interrupted.
	return []*candidate{c}, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return st.Close(ctx)
	}, nil
}

// maxIndexed is how many distinct values a column with a stateful scheme can have.
const maxIndexed = 1_000_000

// atMostDistinct passes values on until there are more different ones than an index takes: it is
// better to hear of it before anything is written than after half of it.
func atMostDistinct(values iter.Seq2[int64, error], most int, scheme string) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		seen := make(map[int64]struct{})
		for x, err := range values {
			if err == nil {
				seen[x] = struct{}{}
			}
			if len(seen) > most {
				yield(0, exit.Usagef("there are more than %d different values, and the index of %s takes no more: take fewer with --n, or name schemes without an index with --scheme", most, scheme))
				return
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

// countIndexes measures a phase, and fills in what it did to indexes.
func countIndexes(candidates []*candidate, phase func(*Result) *Phase, measure func()) {
	before := make([]IndexStats, len(candidates))
	for i, c := range candidates {
		before[i], _ = c.table.IndexStats()
	}
	measure()
	for i, c := range candidates {
		if now, ok := c.table.IndexStats(); ok {
			phase(&c.Result).Index = now.since(before[i])
		}
	}
}

// compare fills the ratios to the baseline on the same layout and to the bare client, where they were
// measured too.
func compare(c *candidate, candidates []*candidate, seed uint64) {
	for _, base := range candidates {
		for _, beside := range []struct {
			target benchtable.Target
			ratio  func(*Phase) *Ratio
		}{
			{benchtable.Target{Scheme: Baseline(c.Scheme), Layout: c.Layout}, func(p *Phase) *Ratio { return &p.Ratio }},
			{benchtable.Target{Scheme: Bare, Layout: benchtable.LayoutKey}, func(p *Phase) *Ratio { return &p.Bare }},
		} {
			if base.Target != beside.target {
				continue
			}
			*beside.ratio(&c.Insert) = pairedRatio(c.Insert.times, base.Insert.times, seed)
			*beside.ratio(&c.Query) = pairedRatio(c.Query.times, base.Query.times, seed)
			for i := range c.BySelectivity {
				p := &c.BySelectivity[i]
				*beside.ratio(p) = pairedRatio(p.times, base.BySelectivity[i].times, seed)
			}
		}
	}
}

func insertRounds(ctx context.Context, st *Store, cfg Config, model *model, candidates []*candidate, report *Report) error {
	cfg.Progress.Start("inserting", report.Rows*len(candidates))
	defer cfg.Progress.Done()
	ties := st.Load(loads.NewName())
	full := cfg.Batch * cfg.Writers // rows that keep all writers busy
	size := max(min(max(report.Rows/(minPairs*full), 1)*full, roundRows), cfg.Batch)

	round := make([]Row, 0, size)
	turn, begin := 0, time.Now()
	flush := func() error {
		if len(round) == 0 {
			return nil
		}
		model.add(round)
		for i := range candidates {
			c := candidates[(turn+i)%len(candidates)]
			start, cpu := time.Now(), process.CPU()
			latency, err := insertBatches(ctx, c.table, round, cfg.Batch, cfg.Writers, cfg.Progress)
			elapsed := time.Since(start)
			c.Insert.CPU += process.CPU() - cpu
			c.Insert.Latency.merge(latency)
			if err != nil {
				return fmt.Errorf("insert under %s: %w", c.Name(), err)
			}
			c.Insert.record(len(round), elapsed)
		}
		turn++
		report.Inserted += len(round)
		if turn == 1 {
			cfg.tellTime("inserting", begin, report.Inserted, report.Rows)
		}
		round = round[:0]
		return nil
	}
	n := 0
	for x, err := range cfg.Source.Values() {
		if err != nil {
			return err
		}
		if n == report.Rows {
			if cfg.Limit > 0 {
				break
			}
			return errors.New("the input has grown while it was read")
		}
		round = append(round, Row{x, ties.Tie(uint64(n))})
		n++
		if len(round) == size {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if n < report.Rows {
		return errors.New("the input has shrunk while it was read")
	}
	model.close()
	return nil
}

// insertBatches inserts rows batch by batch, several at a time, and returns the batches'
// latencies.
func insertBatches(ctx context.Context, table Table, rows []Row, batch, writers int, bar progress.Reporter) (Latency, error) {
	all := newLatency()
	var mu sync.Mutex
	next := 0
	take := func() []Row {
		mu.Lock()
		defer mu.Unlock()
		start := next
		next = min(next+batch, len(rows))
		return rows[start:next]
	}
	g, ctx := errgroup.WithContext(ctx)
	for range min(writers, (len(rows)+batch-1)/batch) {
		g.Go(func() error {
			latency := newLatency()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				all.merge(latency)
			}()
			for part := take(); len(part) > 0; part = take() {
				if err := ctx.Err(); err != nil {
					return err
				}
				start := time.Now()
				if err := table.Insert(ctx, part); err != nil {
					return err
				}
				latency.record(time.Since(start))
				bar.Add(len(part))
			}
			return nil
		})
	}
	err := g.Wait()
	return all, err
}

// Insert inserts the values of the source into a table, at most limit of them, where 0 is all. It
// returns how many were acknowledged, also together with an error. If ctx ends, no further batch begins,
// and those under way have some seconds to be acknowledged; see [Unsure].
func Insert(ctx context.Context, table Table, ties *loads.Ties, source values.Source, limit, batch, writers int, bar progress.Reporter) (int, error) {
	if bar == nil {
		bar = progress.None{}
	}
	total := source.Len()
	if limit > 0 && (total < 0 || limit < total) {
		total = limit
	}
	bar.Start("inserting", total)
	defer bar.Done()

	var mu sync.Mutex
	done, unsure := 0, false
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	under, stop := loads.Lingering(gctx)
	defer stop()
	send := func(part []Row) {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			if err := table.Insert(under, part); err != nil {
				mu.Lock()
				defer mu.Unlock()
				unsure = true
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done += len(part)
			bar.Add(len(part))
			return nil
		})
	}
	n := 0
	var part []Row
	var bad error
	for x, err := range source.Values() {
		if err != nil {
			bad = err
			break
		}
		part = append(part, Row{x, ties.Tie(uint64(n))})
		n++
		if len(part) == batch {
			send(part)
			part = nil
		}
		if n == limit || gctx.Err() != nil {
			break
		}
	}
	if len(part) > 0 {
		send(part)
	}
	err := g.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if err = errors.Join(err, bad); unsure {
		err = unsureError{err}
	}
	return done, err
}

// unsureError is the error of an insertion of which a batch failed, whose rows may be there or not.
type unsureError struct{ error }

func (e unsureError) Unwrap() error { return e.error }

// Unsure reports whether more rows than were acknowledged may be there after an error of Insert.
func Unsure(err error) bool { return errors.As(err, new(unsureError)) }

// turnOf returns which candidate a query is asked first, modulo their number. Of the queries of each
// selectivity every candidate is first in turn, also where there are as many selectivities as candidates.
func turnOf(query, selectivities int) int { return query/selectivities + query%selectivities }

// queryRounds asks every candidate every query, and at last for everything.
func queryRounds(ctx context.Context, cfg Config, model *model, candidates []*candidate) error {
	cfg.Progress.Start("querying", len(model.windows)*len(candidates))
	defer cfg.Progress.Done()
	buf := make([]Row, 0, queryBuffer)
	begin := time.Now()
	for q, w := range model.windows {
		for i := range candidates {
			c := candidates[(turnOf(q, len(cfg.Selectivities))+i)%len(candidates)]
			check := model.check()
			elapsed, err := query(ctx, c.table, w.lo, w.hi, buf, check)
			if err == nil {
				err = check.result(w.want)
			}
			if err != nil {
				return fmt.Errorf("%s, query %d of %d (%v %% of the rows, seed %d): %w",
					c.Name(), q+1, len(model.windows), w.selectivity*100, cfg.Seed, err)
			}
			c.Query.record(check.got.rows, elapsed)
			c.Query.Latency.record(elapsed)
			p := &c.BySelectivity[q%len(c.BySelectivity)]
			p.record(check.got.rows, elapsed)
			p.Latency.record(elapsed)
			c.Verified++
			cfg.Progress.Add(1)
		}
		if turn := len(cfg.Selectivities); q+1 == turn {
			cfg.tellTime("querying", begin, turn, len(model.windows))
		}
	}
	for _, c := range candidates {
		d := cfg.Source.Kind().Domain
		check := model.check()
		_, err := query(ctx, c.table, d.Min, d.Max, buf, check)
		if err == nil {
			err = check.result(model.whole)
		}
		if err != nil {
			return fmt.Errorf("%s, query for everything: %w", c.Name(), err)
		}
		c.Whole = true
	}
	return nil
}

// queryBuffer is how many rows are read between two looks at the clock.
const queryBuffer = 4096

// query returns the time that the rows took to be read and decrypted. The time of the check,
// which is the same for all schemes and would make them more alike, is not in it.
func query(ctx context.Context, table Table, lo, hi int64, buf []Row, check *check) (time.Duration, error) {
	var elapsed time.Duration
	start := time.Now()
	buf = buf[:0]
	for row, err := range table.Range(ctx, lo, hi, 0) {
		if err != nil {
			return 0, err
		}
		buf = append(buf, row)
		if len(buf) == cap(buf) {
			elapsed += time.Since(start)
			check.add(buf)
			buf = buf[:0]
			start = time.Now()
		}
	}
	elapsed += time.Since(start)
	check.add(buf)
	return elapsed, nil
}
