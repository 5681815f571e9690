// Package query answers queries: it turns a predicate into ranges of keys, scans them, and checks each row that is found.
package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Found is a row of an answer, with its position for page tokens.
type Found struct {
	record *rowcodec.Record
	by     *finder
	index  int    // of the range
	key    []byte // that was scanned: of the row or the posting
}

func (f *Found) Row() rowcodec.RowValues { return f.by.table.Row(f.record, f.by.want) }

// Sizes of a query's batches, in rows. They double: small at first, for queries that are stopped
// early, and smaller for postings, each of which takes a request to open.
const (
	firstRows, firstPostings = 32, 16
	inline                   = 192
)

// A Selection is what a query asks for.
type Selection struct {
	Where     *Where
	Columns   []string // nil is all
	Limit     int      // 0 is none
	Reverse   bool
	OrderBy   string
	PageToken string

	RequireIndex bool

	Paged   bool // the rows are to have an order
	keyOnly bool // no columns are returned
}

// errOvertaken is returned by an attempt at a query that is to be made again, as the table is known now.
var errOvertaken = errors.New("the schema was changed before the first row")

// UntilNotOvertaken makes attempts until one counts. An attempt is overtaken where another client changed what it
// relies on, and it has yielded nothing yet.
func UntilNotOvertaken(ctx context.Context, attempt func() error) error {
	for {
		if err := attempt(); !errors.Is(err, errOvertaken) {
			return err
		}
		pause.Repeats(ctx, "schema_changed")
	}
}

// RowsOf yields what a query selects.
func RowsOf(ctx context.Context, t *engine.Engine, q Selection, e *inspect.Explanation) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		err := UntilNotOvertaken(ctx, func() error {
			*e = inspect.Explanation{}
			err := rowsAsOf(ctx, t, q, e, yield)
			t = t.Env.Now()
			return err
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// rowsAsOf is one attempt at it.
func rowsAsOf(ctx context.Context, t *engine.Engine, q Selection, e *inspect.Explanation, yield func(*Found, error) bool) error {
	var f *finder
	_, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		f, err = newFinder(ctx, t, q, e)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.openFamilies(ctx); err != nil {
		return err
	}
	defer f.close()
	f.describe()
	defer f.count()
	n := 0
	for hit, err := range f.run(ctx) {
		if err != nil && errors.Is(err, ope.ErrIndex) && len(f.relies) > 0 {
			// It may be because the index was made again.
			f.unconfirmed.Store(true)
			if overtaken := f.confirm(ctx, n > 0); overtaken != nil {
				return overtaken
			}
		}
		if err != nil {
			return err
		}
		if last := n+1 == q.Limit; n == 0 || last {
			if err := f.confirm(ctx, n > 0); err != nil {
				return err
			}
		}
		n++
		if !yield(hit, nil) || n == q.Limit {
			return nil
		}
	}
	return f.confirm(ctx, n > 0)
}

// newFinder makes ready to execute a query.
func newFinder(ctx context.Context, t *engine.Engine, q Selection, e *inspect.Explanation) (*finder, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Limit is %d", driver.ErrRange, q.Limit)
	}
	want := make([]bool, len(t.Stored))
	if !q.keyOnly {
		var err error
		if want, err = t.Want(q.Columns); err != nil {
			return nil, err
		}
	}
	pl, err := NewPlan(ctx, t.View, q.Where)
	if err != nil {
		return nil, err
	}
	if pages := q.Paged || q.PageToken != ""; pl.anyOrder && (pages || q.Reverse) {
		return nil, pl.noOrder(pages)
	}
	f := &finder{table: t, plan: pl, of: q, want: want, tally: e}
	f.need = f.needed()
	if q.PageToken != "" {
		if f.from, err = ParseToken(t.View, q.PageToken, pl, q.Reverse); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// finder is one execution of a query.
type finder struct {
	table *engine.Engine
	plan  *plan
	of    Selection
	want  []bool    // columns to return
	need  []bool    // columns to read: also those of conditions
	from  *Position // to go on after, or nil
	tally *inspect.Explanation

	data, postings driver.Family
	version        func(context.Context) (uint32, error) // of the catalogue; where a column drives the query, in the snapshot
	snapshot       driver.Snapshot
	seen           map[[16]byte]struct{} // rows that were found, where there is no snapshot
	last           []byte                // the row that was found last
	tokens         atomic.Int64          // that were looked up
	relies         []*rowcodec.Column    // what the ranges are right by: the driving column, and stateful parts
	unconfirmed    atomic.Bool           // more was read since these were known to be as they were
}

// needed returns the columns that have to be read.
func (f *finder) needed() []bool {
	if f.want == nil {
		return nil
	}
	need := slices.Clone(f.want)
	for _, c := range f.plan.conditions {
		c.Column.Add(need)
	}
	if d := f.plan.driving; d != nil {
		d.Add(need)
	}
	return need
}

// openFamilies takes a snapshot where the database has them: otherwise a row that a writer moves
// forward in the order of the driving column could be seen twice.
func (f *finder) openFamilies(ctx context.Context) (err error) {
	t := f.table
	f.data, f.postings, f.version = t.Data, t.Postings, t.Env.Version
	f.rely()
	f.unconfirmed.Store(len(f.relies) > 0)
	if t.Env.Snapshot == nil {
		if f.plan.driving != nil {
			f.seen = make(map[[16]byte]struct{})
		}
		return nil
	}
	if f.snapshot, err = t.Env.Snapshot(); err != nil {
		return err
	}
	f.data, err = f.snapshot.Family(ctx, t.Spec)
	if err == nil && f.plan.driving != nil {
		f.postings, err = f.snapshot.Family(ctx, t.PostingSpec)
	}
	// An index whose contents move is read as it is, not from the snapshot, and so is what the catalogue says of it.
	// Where they do not move, the ranges are known by now.
	if err == nil && len(f.relies) > 0 && f.relies[0].Order == nil {
		f.version, err = t.Env.VersionIn(ctx, f.snapshot)
	}
	if err != nil {
		f.close()
	}
	return err
}

// rely sets what the query relies on.
func (f *finder) rely() {
	if f.plan.driving != nil {
		f.relies = append(f.relies, f.plan.driving)
	}
	for _, r := range f.plan.Ranges {
		if r.by != nil && r.by.Stateful && !slices.Contains(f.relies, r.by) {
			f.relies = append(f.relies, r.by)
		}
	}
	for _, c := range f.plan.conditions {
		if c.Column.Part >= 0 && c.Column.Stateful && !slices.Contains(f.relies, c.Column) {
			f.relies = append(f.relies, c.Column) // whose ranges may have been empty
		}
	}
}

// stillDrives reports whether the ranges that were read so far lead to all rows, because no
// client has written rows yet which they do not lead to. The catalogue says so: it is changed
// before rows are.
func (f *finder) stillDrives(ctx context.Context) (bool, error) {
	if !f.unconfirmed.Load() {
		return true, nil
	}
	f.unconfirmed.Store(false)
	version, err := f.version(ctx)
	if err != nil || version <= f.table.Version {
		return err == nil, err
	}
	now, err := f.table.Env.AtLeast(ctx, version)
	if err != nil || now.Same(f.table.View) {
		return err == nil, err
	}
	for _, was := range f.relies {
		same := func(c *rowcodec.Column) bool { return c.Id == was.Id && c.Unit == was.Unit }
		if !slices.ContainsFunc(now.Columns, same) && !slices.ContainsFunc(now.Parts, same) {
			return false, nil
		}
	}
	return true, nil
}

// confirm makes sure that what was read so far leads to all rows that there were. If it does not, the query is
// overtaken, or cannot go on where something was yielded.
func (f *finder) confirm(ctx context.Context, yielded bool) error {
	ok, err := f.stillDrives(ctx)
	switch {
	case err != nil || ok:
		return err
	case yielded:
		return fmt.Errorf("%w: column %q", fault.ErrSchemaChanged, f.relies[0].Name)
	}
	return errOvertaken
}

func (f *finder) close() {
	if f.snapshot != nil {
		_ = f.snapshot.Close() // read-only: nothing can be lost
	}
}

func (f *finder) describe() {
	spec := f.table.Spec
	switch {
	case f.plan.driving != nil:
		f.tally.Driver = f.plan.driving.Name
		spec = f.table.PostingSpec
	case f.plan.anyOrder:
		f.tally.Driver = "all rows"
	default:
		f.tally.Driver = "row key"
	}
	f.tally.Intervals = len(f.plan.Ranges)
	f.tally.Unconverted = f.plan.unconverted
	if !f.plan.anyOrder && !f.tokenwise() {
		for _, r := range f.plan.Ranges {
			f.tally.Buckets += spec.Buckets(r.Start, r.end)
		}
	}
}

// tokenwise reports whether postings are looked up value by value.
func (f *finder) tokenwise() bool { return f.plan.driving != nil && f.plan.driving.Order != nil }

// count completes the explanation of a query whose postings were looked up value by value: each by
// one scan, which meets one partition.
func (f *finder) count() {
	n := int(f.tokens.Load())
	f.tally.Tokens = n
	f.tally.Buckets += n
	f.tally.Requests += n
}

// run yields the rows of all ranges.
func (f *finder) run(ctx context.Context) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		for i := range f.plan.Ranges {
			index := i
			if f.of.Reverse {
				index = len(f.plan.Ranges) - 1 - i
			}
			r := f.plan.Ranges[index]
			if f.from != nil {
				if index != f.from.Range && index < f.from.Range != f.of.Reverse {
					continue // on an earlier page
				}
				if index == f.from.Range {
					r = f.from.rest(r, f.of.Reverse, f.plan.driving != nil)
				}
			}
			rows := f.scan(ctx, r)
			if r.group > 0 {
				rows = f.inOrder(r, index, rows)
			}
			for hit, err := range rows {
				if hit != nil {
					hit.by, hit.index = f, index
				}
				if !yield(hit, err) || err != nil {
					return
				}
			}
		}
	}
}

// rising checks that values rise with their ciphertexts where these were drawn at random: if the index
// that they are kept in is put back, others are drawn that are out of order.
type rising struct {
	some bool
	last int64
}

func (o *rising) check(f *finder, r keyRange, hit *Found) error {
	if hit == nil || r.by == nil || !r.by.Stateful || r.by.Order != nil {
		return nil
	}
	code := f.table.CodeOf(r.by, hit.record)
	if o.some && code != o.last && (code < o.last) != f.of.Reverse {
		return fmt.Errorf("%w: column %q: rows are not in the order of their ciphertexts, as if its index had been put back; "+
			"'rangecrypt verify --repair' stores them again", fault.ErrTampered, r.by.Name)
	}
	o.some, o.last = true, code
	return nil
}

// satisfies reports whether a row that was found in a range belongs there and satisfies all
// conditions.
func (f *finder) satisfies(r *rowcodec.Record, in keyRange) bool {
	for _, c := range f.plan.conditions {
		if !c.Holds(r.Values[f.table.ValueIndex(c.Column)]) {
			return false
		}
	}
	if in.by != nil && in.by.Stateful {
		// Two ranges may have keys in common, which were not given out when they were asked for.
		code := f.table.CodeOf(in.by, r)
		return in.within.lo <= code && code <= in.within.hi
	}
	return true
}

// first reports whether the row is found for the first time. A row has one posting for each time
// it was given a value; of those for one value all but one are left-overs, and they are neighbours.
func (f *finder) first(hit *Found) bool {
	again := bytes.Equal(f.last, hit.record.Key)
	f.last = hit.record.Key
	if f.seen == nil || again {
		return !again
	}
	sum := sha256.Sum256(hit.record.Key)
	id := [16]byte(sum[:])
	_, again = f.seen[id]
	f.seen[id] = struct{}{}
	return !again
}
