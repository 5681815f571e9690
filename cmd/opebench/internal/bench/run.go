// Package bench measures what an encrypted column costs beside one that is not encrypted, and
// checks every answer against the plaintext. It has no flags and prints nothing; opebench does.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/store"
)

// Config says what Run measures. All fields but Progress must be set.
type Config struct {
	Source        Source
	Limit         int      // at most so many values of the source; 0 is all
	Schemes       []string // each once; where plain is among them, what Targets adds is measured too
	Layout        Layout   // of the tables; "" is for each scheme what TargetOf says
	Queries       int
	Selectivities []float64 // in (0, 1]; the queries take turns
	Batch         int       // rows that are sent together
	Writers       int       // batches that are under way together
	Seed          uint64    // of the choice of the queries
	Replace       bool      // drop tables that exist
	Progress      Progress  // may be nil
}

// Progress is told how far things are. Its methods may be called from several goroutines.
type Progress interface {
	// Start begins a phase; total is -1 where the end is not known.
	Start(phase string, total int)
	Add(n int)
	Done()
}

type noProgress struct{}

func (noProgress) Start(string, int) {}
func (noProgress) Add(int)           {}
func (noProgress) Done()             {}

// A Result is what Run measured for one scheme.
type Result struct {
	Target
	SchemeID string

	// Insert counts rows; its latencies are those of batches, encryption included.
	Insert Phase
	// Query counts the rows that were read, decrypted and checked; its latencies are those of
	// whole queries.
	Query Phase
	// BySelectivity is Query for each of the selectivities.
	BySelectivity []Phase

	Families    []string // of the database, that hold the table
	StoredBytes float64  // length of the keys, qualifiers and cells put for a row, postings and indexes included
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
	Index       *IndexStats   // of a stateful scheme; nil otherwise, and by selectivity
	times       []time.Duration
}

// IndexStats counts what was done to the index of a stateful scheme.
type IndexStats struct {
	store.IndexStats
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
// answer that is not right ends it with an error that wraps ErrWrongAnswer.
func Run(ctx context.Context, st *Store, cfg Config) (*Report, error) {
	if cfg.Progress == nil {
		cfg.Progress = noProgress{}
	}
	report := &Report{Queries: cfg.Queries, Batch: cfg.Batch}
	targets, err := Targets(cfg.Schemes, cfg.Layout)
	if err != nil {
		return report, err
	}
	indexed := "" // a scheme that has an index
	for _, t := range targets {
		spec, err := schemeByName(t.Scheme)
		if err == nil {
			_, err = SchemeID(t.Scheme, cfg.Source.Kind())
		}
		if err != nil {
			return report, err
		}
		if spec.stateful {
			indexed = spec.name
		}
	}

	// A run that is refused leaves the store as it was: one table of several would be in the way
	// of later commands.
	if !cfg.Replace {
		if err := st.checkFree(ctx, targets); err != nil {
			return report, err
		}
	}

	// All of the input is read before anything is written, so that bad input loses nothing.
	cfg.Progress.Start("reading", cfg.Source.Len())
	values := cfg.Source.Values()
	if indexed != "" {
		values = atMostDistinct(values, maxIndexed, indexed)
	}
	rows, sorted, err := sample(values, cfg.Limit, cfg.Seed, func(int) error {
		cfg.Progress.Add(4096)
		return ctx.Err()
	})
	cfg.Progress.Done()
	if err != nil {
		return report, err
	}
	if rows == 0 {
		return report, errors.New("the input holds no values")
	}
	report.Rows = rows
	model := newModel(rows, sorted, cfg.Queries, cfg.Selectivities, cfg.Seed)

	var candidates []*candidate
	for _, target := range targets {
		table, info, err := st.Create(ctx, target, cfg.Source.Kind(), cfg.Source.Column(), cfg.Replace)
		if err != nil {
			return report, err
		}
		c := &candidate{table: table}
		c.Target, c.SchemeID, c.Families = info.Target, info.SchemeID, info.Families
		c.Insert.Latency, c.Query.Latency = newLatency(), newLatency()
		for _, s := range cfg.Selectivities {
			c.BySelectivity = append(c.BySelectivity, Phase{Selectivity: s, Latency: newLatency()})
		}
		candidates = append(candidates, c)
	}

	countIndexes(candidates, func(r *Result) *Phase { return &r.Insert }, func() {
		err = insertRounds(ctx, st, cfg, model, candidates, report)
	})
	if err == nil {
		countIndexes(candidates, func(r *Result) *Phase { return &r.Query }, func() {
			err = queryRounds(ctx, cfg, model, candidates)
		})
	}
	for _, c := range candidates {
		c.StoredBytes = float64(st.meter.put(c.Families)) / float64(max(c.Insert.Rows, 1))
		compare(c, candidates, cfg.Seed)
		report.Results = append(report.Results, c.Result)
	}
	report.Complete = err == nil
	return report, err
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
				yield(0, usagef("there are more than %d different values, and the index of %s takes no more: take fewer with --n, or name schemes without an index with --scheme", most, scheme))
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

// compare fills the ratios to the baseline on the same layout, where it was measured too.
func compare(c *candidate, candidates []*candidate, seed uint64) {
	i := slices.IndexFunc(candidates, func(other *candidate) bool { return other.Target == Target{Baseline(c.Scheme), c.Layout} })
	if i < 0 {
		return
	}
	base := candidates[i]
	c.Insert.Ratio = pairedRatio(c.Insert.times, base.Insert.times, seed)
	c.Query.Ratio = pairedRatio(c.Query.times, base.Query.times, seed)
	for i := range c.BySelectivity {
		c.BySelectivity[i].Ratio = pairedRatio(c.BySelectivity[i].times, base.BySelectivity[i].times, seed)
	}
}

func insertRounds(ctx context.Context, st *Store, cfg Config, model *model, candidates []*candidate, report *Report) error {
	cfg.Progress.Start("inserting", report.Rows*len(candidates))
	defer cfg.Progress.Done()
	ties := st.Load(NewLoad())
	full := cfg.Batch * cfg.Writers // rows that keep all writers busy
	size := max(min(max(report.Rows/(minPairs*full), 1)*full, roundRows), cfg.Batch)

	round := make([]Row, 0, size)
	turn := 0
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

// NewLoad returns a random name for a load.
func NewLoad() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// insertBatches inserts rows batch by batch, several at a time, and returns the batches'
// latencies.
func insertBatches(ctx context.Context, table Table, rows []Row, batch, writers int, progress Progress) (Latency, error) {
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
				progress.Add(len(part))
			}
			return nil
		})
	}
	err := g.Wait()
	return all, err
}

// Count reads the values of the source, at most limit of them, where 0 is all, and returns how many
// there are. It meets every error that inserting them would meet.
func Count(ctx context.Context, source Source, limit int, progress Progress) (int, error) {
	if progress == nil {
		progress = noProgress{}
	}
	progress.Start("reading", source.Len())
	defer progress.Done()
	n := 0
	for _, err := range source.Values() {
		if err != nil {
			return n, err
		}
		if n++; n%4096 == 0 {
			progress.Add(4096)
			if err := ctx.Err(); err != nil {
				return n, err
			}
		}
		if n == limit {
			break
		}
	}
	return n, nil
}

// Insert inserts the values of the source into a table, at most limit of them, where 0 is all. It
// returns how many were acknowledged, also together with an error.
func Insert(ctx context.Context, table Table, ties *Ties, source Source, limit, batch, writers int, progress Progress) (int, error) {
	if progress == nil {
		progress = noProgress{}
	}
	total := source.Len()
	if limit > 0 && (total < 0 || limit < total) {
		total = limit
	}
	progress.Start("inserting", total)
	defer progress.Done()

	var mu sync.Mutex
	done := 0
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	send := func(part []Row) {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			if err := table.Insert(gctx, part); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done += len(part)
			progress.Add(len(part))
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
	return done, errors.Join(err, bad)
}

// queryRounds asks every candidate every query, and at last for everything.
func queryRounds(ctx context.Context, cfg Config, model *model, candidates []*candidate) error {
	cfg.Progress.Start("querying", len(model.windows)*len(candidates))
	defer cfg.Progress.Done()
	buf := make([]Row, 0, queryBuffer)
	for q, w := range model.windows {
		for i := range candidates {
			c := candidates[(q+i)%len(candidates)]
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
