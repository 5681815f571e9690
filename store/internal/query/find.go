// Package query answers queries: it turns a predicate into ranges of keys, scans them, and checks each row that is found.
package query

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/unproven"
)

// Found is a row of an answer, with its position for page tokens.
type Found struct {
	record *rowcodec.Record
	by     *finder
	index  int    // of the range
	key    []byte // that was scanned: of the row or the posting
}

func (f *Found) Row() rowcodec.RowValues { return f.by.table.Row(f.record, f.by.want) }

// Sizes of a query's batches, in rows. They grow: small at first, for queries that are stopped early, and smaller for
// postings, whose rows have yet to be read. Those grow faster, as the rows of larger batches are found in fewer requests.
const (
	firstRows, firstPostings = 32, 16
	moreRows, morePostings   = 2, 4 // times as many
	inline                   = 192
)

// A Selection is what a query asks for.
type Selection struct {
	Where     *predicate.Where
	Columns   []string // nil is all
	Among     []string // those that nil stands for; nil is all of the table
	Limit     int      // 0 is none
	Reverse   bool
	OrderBy   string
	By        string // the column that drives; "" lets the planner choose
	PageToken string

	RequireIndex bool
	MostSorted   int // rows that the client keeps to sort them; 0 is 100,000

	Paged bool // the rows are to have an order

	Unauthenticated bool // the caller takes plain columns without a proof

	without []meta.ColumnID // columns that drive nothing, by their first ids
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
			err := rowsUndamaged(ctx, t, q, e, yield)
			t = t.Env.Now()
			return err
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// rowsUndamaged is one attempt at it. Where the index of an earlier form of a column turns out to be damaged before the first row,
// the column drives the query no more, as if its rows had had no index entries before.
func rowsUndamaged(ctx context.Context, t *engine.Engine, q Selection, e *inspect.Explanation, yield func(*Found, error) bool) error {
	again := true
	return withoutDamaged(ctx, t, &q, func(t *engine.Engine) (bool, error) {
		*e = inspect.Explanation{}
		err := rowsAsOf(ctx, t, q, e, func(hit *Found, err error) bool {
			again = false
			return yield(hit, err)
		})
		return again, err
	})
}

// indexError returns an error of what a column has in an index.
func indexError(c *rowcodec.Column, err error) error {
	if c.Of != nil && fault.Refused(err) {
		return &forms.DamagedError{Of: c.Of, Err: err}
	}
	return fmt.Errorf("column %q: %w", c.Name, err)
}

// withoutDamaged calls do, and again without the columns of which the index of an earlier form is damaged, if do says that this can
// be done. A query that asks for an index, or goes on after a page that came by the index, has that error instead.
func withoutDamaged(ctx context.Context, t *engine.Engine, q *Selection, do func(*engine.Engine) (again bool, err error)) error {
	var before error
	for {
		again, err := do(t)
		token, d := errors.Is(err, fault.ErrToken), new(forms.DamagedError)
		switch {
		case before != nil && (token || errors.Is(before, fault.ErrToken) && errors.Is(err, driver.ErrRange)): // without them there is no order
			return before
		case token && !q.RequireIndex && len(forms.Changing(t.View)) > 0: // of a page that may have come without such a column
			q.without = forms.Changing(t.View)
		case again && !q.RequireIndex && errors.As(err, &d):
			t.Env.Warn(ctx, "queries by a column read all rows until the table is converted", t.PostingSpec.Name, err)
			q.without = append(q.without, forms.Origin(d.Of))
		default:
			return err
		}
		before, t = err, t.Env.Now()
	}
}

// rowsAsOf is one attempt with the columns that may drive.
func rowsAsOf(ctx context.Context, t *engine.Engine, q Selection, e *inspect.Explanation, yield func(*Found, error) bool) error {
	var f *execution
	_, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		f, err = newExecution(ctx, t, q, e)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.openFamilies(ctx); err != nil {
		return err
	}
	defer f.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.describe()
	defer f.count()
	n := 0
	early := f.checkEarly(ctx)
	for hit, err := range f.run(ctx) {
		if (errors.Is(err, ope.ErrIndex) || errors.Is(err, driver.ErrNoIndex)) && len(f.relies) > 0 {
			// It may be because the index was made again, or dropped.
			f.unconfirmed.Store(true)
			if overtaken := f.confirm(ctx, n > 0); overtaken != nil {
				return overtaken
			}
		}
		if err = cmp.Or(err, ctx.Err()); err != nil { // what was read ahead is not wanted any more
			return err
		}
		switch last := n+1 == q.Limit; {
		case n == 0 && early != nil && !last && f.atEnd.Load() == nil:
			if ok, err := early(); err != nil || !ok {
				return cmp.Or(err, errOvertaken)
			}
		case n == 0 || last:
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

// newExecution makes ready to execute a query.
func newExecution(ctx context.Context, t *engine.Engine, q Selection, e *inspect.Explanation) (*execution, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Limit is %d", driver.ErrRange, q.Limit)
	}
	pl, err := NewPlan(ctx, t.View, q)
	if err != nil {
		return nil, err
	}
	f := &execution{table: t, plan: pl, ways: pl.Ways, of: q, want: pl.want, tally: e, mostSorted: cmp.Or(q.MostSorted, maxSorted)}
	if f.few = q.Limit; pl.sort != nil {
		f.few = 0
	}
	f.need = f.needed()
	if q.Unauthenticated {
		f.eachWay(func(w *way) { unproven.Reduce(t.View, &w.tree, w.not) })
	}
	if q.PageToken != "" {
		if f.from, err = ParseToken(t.View, q.PageToken, pl); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// execution is one execution of a query.
type execution struct {
	table *engine.Engine
	plan  *plan
	ways  []way // of the plan, that are gone
	of    Selection
	few   int       // how many rows are asked for, if that is few; or 0
	want  []bool    // columns to return
	need  []bool    // columns to read: also those of conditions
	from  *Position // to go on after, or nil
	tally *inspect.Explanation

	mostSorted int // rows

	data, postings driver.Family
	version        func(context.Context) (uint32, error) // of the catalogue; where a column drives the query, in the snapshot
	snapshot       driver.Snapshot
	seen           map[[16]byte]struct{} // rows that were found, where there is no snapshot
	last           []byte                // the row that was found last
	looked         atomic.Int64          // tokens that were
	lookups        atomic.Int64          // scans for them
	reads          atomic.Int64          // of the rows of postings
	sizes          driver.Sizes          // of these rows
	relies         []*rowcodec.Column    // what the ranges are right by: the driving columns, and stateful parts
	moving         bool                  // one of these has ciphertexts that move, or an index that may go
	unconfirmed    atomic.Bool           // more was read since these were known to be as they were
	checks         sync.WaitGroup        // in the background
	atEnd          atomic.Pointer[check] // begun when all was read
}

// finder goes one of the ways of a query.
type finder struct {
	*execution
	way
	index int            // of the way
	chunk *predicate.Set // where forms are merged, the values that are read now; or nil
}

// eachWay calls do for the ways of the plan, also for those that are only gone if there is too much to sort.
func (f *execution) eachWay(do func(*way)) {
	for i := range f.plan.Ways {
		do(&f.plan.Ways[i])
	}
	for i := range f.plan.instead {
		do(&f.plan.instead[i])
	}
}

// needed returns the columns that have to be read.
func (f *execution) needed() []bool {
	if f.want == nil {
		return nil
	}
	need := slices.Clone(f.want)
	f.plan.tree.Columns(func(c *rowcodec.Column) { c.Add(need) })
	f.eachWay(func(w *way) {
		if w.driving != nil {
			w.driving.Add(need)
		}
	})
	if f.plan.sort != nil {
		f.plan.sort.Add(need)
	}
	return need
}

// openFamilies takes a snapshot where the database has them: otherwise a row that a writer moves
// forward in the order of the driving column, or to another way, could be seen twice.
func (f *execution) openFamilies(ctx context.Context) (err error) {
	t := f.table
	f.data, f.postings, f.version = t.Data, t.Postings, t.Env.Version
	f.rely()
	f.unconfirmed.Store(len(f.relies) > 0)
	byPostings, again := false, t.Env.Snapshot == nil && len(f.plan.Ways) > 1
	f.eachWay(func(w *way) {
		byPostings = byPostings || w.driving != nil
		again = again || w.forms != nil || t.Env.Snapshot == nil && byPostings // postings of several forms may lead to one row
	})
	if again {
		f.seen = make(map[[16]byte]struct{})
	}
	if t.Env.Snapshot == nil {
		return nil
	}
	if f.snapshot, err = t.Env.Snapshot(); err != nil {
		return err
	}
	f.data, err = f.snapshot.Family(ctx, t.Spec)
	if err == nil && byPostings && t.Postings != nil {
		f.postings, err = f.snapshot.Family(ctx, t.PostingSpec)
	}
	// An index whose contents move is read as it is, not from the snapshot, and so is what the catalogue says of it.
	// Where they do not move, the ranges are known by now.
	if err == nil && len(f.relies) > 0 && !f.moving {
		f.version, err = t.Env.VersionIn(ctx, f.snapshot)
	}
	if err != nil {
		f.close()
	}
	return err
}

// rely sets what the query relies on.
func (f *execution) rely() {
	add := func(c *rowcodec.Column) {
		if !slices.Contains(f.relies, c) {
			f.relies = append(f.relies, c)
			f.moving = f.moving || c.Order != nil || c.Of != nil && c.Stateful
		}
	}
	f.eachWay(func(w *way) {
		if w.driving != nil {
			add(w.driving)
		}
		for _, form := range w.forms {
			add(form)
		}
		for _, r := range w.Ranges {
			if r.By != nil && r.By.Stateful {
				add(r.By)
			}
		}
	})
	f.plan.tree.Columns(func(c *rowcodec.Column) {
		if c.Part >= 0 && c.Stateful {
			add(c) // whose ranges may have been empty
		}
	})
}

// stillDrives reports whether the ranges that were read so far lead to all rows, because no
// client has written rows yet which they do not lead to. The catalogue says so: it is changed
// before rows are.
func (f *execution) stillDrives(ctx context.Context) (bool, error) {
	if !f.unconfirmed.Load() {
		return true, nil
	}
	f.unconfirmed.Store(false)
	if atEnd := f.atEnd.Load(); atEnd != nil && f.reads.Load() == 0 {
		return (*atEnd)() // no row was read after it
	}
	return f.drives(ctx)
}

// A check is of a moment after it was begun. It returns what stillDrives does.
type check func() (bool, error)

func (f *execution) beginCheck(ctx context.Context) check {
	var ok bool
	var err error
	done := make(chan struct{})
	f.checks.Go(func() {
		defer close(done)
		relay.Into(&err, func() (err error) {
			ok, err = f.drives(ctx)
			return err
		})
	})
	return func() (bool, error) {
		<-done
		relay.Throw(err)
		return ok, err
	}
}

// checkEarly begins a check at the same time as the query, where it reads copies of rows: then most queries wait for one
// round trip less. Nothing is returned before it has ended. So a client that has not learned of an old change begins again.
func (f *execution) checkEarly(ctx context.Context) check {
	hints := f.snapshot != nil || len(f.relies) == 0
	f.eachWay(func(w *way) { hints = hints || w.driving == nil || f.hinted(w) })
	if hints {
		return nil
	}
	return f.beginCheck(ctx)
}

// drives asks the catalogue.
func (f *execution) drives(ctx context.Context) (bool, error) {
	version, err := f.version(ctx)
	if err != nil || version <= f.table.Version {
		return err == nil, err
	}
	now, err := f.table.Env.AtLeast(ctx, version)
	if err != nil || now.Same(f.table.View) {
		return err == nil, err
	}
	for _, was := range f.relies {
		same := func(c *rowcodec.Column) bool {
			gone := c.Converted && c.Stateful && f.snapshot != nil // with its index, but the snapshot has rows of that form
			return c.Id == was.Id && c.Unit == was.Unit && (c.Of == nil) == (was.Of == nil) && !gone
		}
		if !slices.ContainsFunc(now.Stored, same) && !slices.ContainsFunc(now.Parts, same) {
			return false, nil
		}
	}
	return true, nil
}

// confirm makes sure that what was read so far leads to all rows that there were. If it does not, the query is
// overtaken, or cannot go on where something was yielded.
func (f *execution) confirm(ctx context.Context, yielded bool) error {
	ok, err := f.stillDrives(ctx)
	switch {
	case err != nil || ok:
		return err
	case yielded:
		return fmt.Errorf("%w: column %q", fault.ErrSchemaChanged, f.relies[0].Name)
	}
	return errOvertaken
}

func (f *execution) close() {
	f.checks.Wait()
	if f.snapshot != nil {
		_ = f.snapshot.Close() // read-only: nothing can be lost
	}
}

// describe says what is going to be done.
func (f *execution) describe() {
	var drivers []string
	anyOrder := false
	for i := range f.plan.Ways {
		w, spec := &f.plan.Ways[i], f.table.Spec
		if name := w.name(); !slices.Contains(drivers, name) {
			drivers = append(drivers, name)
			if w.forms == nil {
				w.driving.DescribeCopies(f.table.View, f.need, f.tally)
			} else {
				f.tally.Changing = append(f.tally.Changing, name)
			}
		}
		if w.driving != nil {
			spec = f.table.PostingSpec
		}
		anyOrder = anyOrder || w.anyOrder
		f.tally.Intervals += len(w.Ranges)
		if !w.anyOrder && !w.tokenwise() {
			for _, r := range w.Ranges {
				f.tally.Buckets += spec.Buckets(r.Start, r.End)
			}
		}
	}
	if anyOrder {
		f.tally.Buckets = 0
	}
	f.tally.Driver = strings.Join(drivers, " or ")
	f.tally.Unconverted, f.tally.Unauthenticated = f.plan.unconverted, f.plan.unproven
	f.tally.Sorted = f.plan.sort != nil
	for i, c := range f.table.Columns {
		if f.need == nil || f.need[i] {
			f.tally.Opened = append(f.tally.Opened, c.Name)
		}
	}
}

// name returns what is scanned.
func (w *way) name() string {
	switch {
	case w.driving != nil:
		return w.driving.Name
	case w.whole:
		return "all rows"
	}
	return "row key"
}

// hinted reports whether postings or a server index are scanned, and all rows read that they lead to.
func (f *execution) hinted(w *way) bool {
	switch {
	case w.forms != nil:
		return true // whoever stores rows in another form may not know of these copies
	case w.driving == nil || w.driving.CopiesHave(f.need):
		return false
	case !w.served():
		return true
	}
	for i, c := range f.table.Stored {
		if (f.need == nil || f.need[i]) && !c.Packed && !c.Converted {
			return true // it is in a cell of its own
		}
	}
	return false
}

// served reports whether an index of the database is scanned.
func (w way) served() bool { return w.driving != nil && w.driving.ServerIndex }

// indexed returns the scan of a range of a server index, which yields the key cells of rows.
func (f *execution) indexed(w *way, r keyRange) driver.Range {
	c := w.driving
	return driver.Range{
		Start: f.table.Prefix, End: ope.PrefixEnd(f.table.Prefix), AnyOrder: true, Cells: driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}},
		Index: &driver.IndexRange{Index: c.IndexName(), Start: c.IndexBound(r.Start), End: c.IndexBound(r.End)},
	}
}

// tokenwise reports whether postings are looked up value by value.
func (w *way) tokenwise() bool {
	return w.driving != nil && w.driving.Order != nil || slices.ContainsFunc(w.forms, func(c *rowcodec.Column) bool { return c.Order != nil })
}

// count completes the explanation of a query whose postings were looked up value by value: those of
// each are in one partition.
func (f *execution) count() {
	n := int(f.looked.Load())
	f.tally.Tokens = n
	f.tally.Buckets += n
	f.tally.Requests += int(f.lookups.Load() + f.reads.Load())
}

// run yields the rows of the answer.
func (f *execution) run(ctx context.Context) iter.Seq2[*Found, error] {
	if f.plan.sort != nil {
		return f.sorted(ctx)
	}
	return f.allWays(ctx)
}

// allWays yields the rows of all ways.
func (f *execution) allWays(ctx context.Context) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		for i, w := range f.ways {
			if f.plan.sort == nil && f.from != nil && i < f.from.Way {
				continue // on an earlier page
			}
			one := &finder{execution: f, way: w, index: i}
			if !one.run(ctx, yield) {
				return
			}
		}
	}
}

// run yields the rows of all ranges, and reports whether to go on.
func (f *finder) run(ctx context.Context, yield func(*Found, error) bool) bool {
	from, all := f.position(), f.Ranges
	switch {
	case f.merged && f.forms != nil, from != nil && len(from.Key) == 0:
		return f.merge(ctx, yield)
	case f.forms != nil:
		all = []keyRange{{allForms: true}}
	}
	for i := range all {
		index := i
		if f.reverse {
			index = len(all) - 1 - i
		}
		r := all[index]
		if from != nil {
			if index != from.Range && index < from.Range != f.reverse {
				continue // on an earlier page
			}
			if index == from.Range {
				r = from.rest(r, &f.way)
			}
		}
		rows := f.scan(ctx, r, i == len(all)-1 && f.index == len(f.ways)-1)
		if r.Grouped() {
			rows = f.inOrder(r, index, rows)
		}
		for hit, err := range rows {
			if hit != nil {
				hit.by, hit.index = f, index
			}
			if !yield(hit, err) || err != nil {
				return false
			}
		}
	}
	return true
}

// position returns where the way goes on, or nil.
func (f *finder) position() *Position {
	if f.from == nil || f.plan.sort != nil || f.from.Way != f.index {
		return nil
	}
	return f.from
}

// satisfies reports whether a row that was found in a range belongs there, satisfies the predicate, and is found on no
// earlier way.
func (f *finder) satisfies(r *rowcodec.Record, in keyRange) bool {
	if !f.tree.Holds(r.Values) || f.chunk != nil && !f.chunk.Has(f.driving, f.table.ValueOf(f.driving, r)) {
		return false
	}
	for _, earlier := range f.not {
		if earlier.Holds(r.Values) {
			return false
		}
	}
	if in.By != nil && in.By.Stateful {
		// Two ranges may have keys in common, which were not given out when they were asked for.
		code := f.table.CodeOf(in.By, r)
		return in.Within.Lo <= code && code <= in.Within.Hi
	}
	return true
}

// first reports whether the row is found for the first time. A row has one posting for each time
// it was given a value; of those for one value all but one are left-overs, and they are neighbours.
func (f *execution) first(hit *Found) bool {
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

// Record returns the row as a record of a view, and which columns it was asked for, by position; nil is all.
func (f *Found) Record() (t *rowcodec.View, r *rowcodec.Record, want []bool) {
	return f.by.table.View, f.record, f.by.want
}
