package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Query selects rows of a table.
type Query struct {
	// Where restricts the rows. The zero Predicate selects all.
	Where Predicate

	// Columns are the names of the columns that are returned; nil means all. Key parts are always
	// returned.
	Columns []string

	// Limit is how many rows are returned at most; 0 is no limit.
	Limit int

	// Reverse returns the rows in the opposite order.
	Reverse bool

	// PageToken goes on behind the page that returned it, with the same Where and Reverse.
	PageToken string

	paged   bool // by Page
	keyOnly bool // no columns are returned
}

// Query yields the rows that the query selects. They come in the order of the predicate that
// drives the query ([Table.Explain] tells which): of the first ordered part of the row key behind
// fixed parts, or of an ordered column. All rows of a table whose key begins with a hashed part
// come in no order.
//
// It reads lazily; its memory does not depend on the number of rows, but for 16 bytes a row where
// a column drives the query on a database without snapshots. An error, or the end of ctx, is the
// last thing yielded. The package comment says what is promised when rows change meanwhile.
func (tbl *Table) Query(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		t, err := tbl.use()
		if err != nil {
			yield(nil, err)
			return
		}
		n := 0
		ctx, end := t.st.observer.operation(ctx, "query", t.family())
		defer func() { end(n, err) }()
		var f *found
		for f, err = range t.find(ctx, q, new(Explanation)) {
			if err != nil {
				err = fmt.Errorf("store: query %q: %w", t.schema.Name, t.gone(err))
				yield(nil, err)
				return
			}
			n++
			if !yield(f.row(), nil) {
				return
			}
		}
	}
}

// Page returns the rows of one page, at most q.Limit, which must be positive, and the token for
// the next page, which is empty when there is none. Pages follow an order: a query for all rows
// of a table whose key begins with a hashed or plain part has none and is [driver.ErrRange].
func (tbl *Table) Page(ctx context.Context, q Query) (rows []Row, next string, err error) {
	t, err := tbl.use()
	if err != nil {
		return nil, "", err
	}
	ctx, end := t.st.observer.operation(ctx, "page", t.family())
	defer func() { end(len(rows), err) }()
	if q.Limit <= 0 {
		return nil, "", fmt.Errorf("store: query %q: %w: a page needs a positive Limit", t.schema.Name, driver.ErrRange)
	}
	limit := q.Limit
	q.paged = true
	q.Limit++ // one more tells whether there is a next page
	var last *found
	for f, err := range t.find(ctx, q, new(Explanation)) {
		if err != nil {
			return nil, "", fmt.Errorf("store: query %q: %w", t.schema.Name, t.gone(err))
		}
		if len(rows) == limit {
			return rows, last.by.table.token(last, q.Reverse), nil
		}
		rows, last = append(rows, f.row()), f
	}
	return rows, "", nil
}

// An Explanation tells how a query was answered. It holds no values.
type Explanation struct {
	// Driver is what was scanned: "row key", "all rows" or the name of a column.
	Driver string
	// Intervals is the number of ranges of keys or, where the driver has a [MutableScheme], of
	// values.
	Intervals int
	// Tokens is the number of values that the index of a driver with a MutableScheme has in the
	// ranges; the postings of each are looked up. A range of few values that there can be is looked
	// up without the index.
	Tokens int
	// Buckets is the number of partitions that the ranges meet on a database without ordered
	// partitions, or 0 for all there are.
	Buckets int
	// Requests is the number of scans and reads that were sent; a scan pages by itself.
	Requests int
	// Hits is the number of rows and postings that were found in the ranges.
	Hits int
	// Discarded is how many of them did not count: the row is not there, has another value by
	// now, or does not satisfy the rest of the predicate.
	Discarded int
	// Rows is the number of rows that the query returns.
	Rows int
	// Unconverted are the columns of the predicate whose encryption was changed and of which not all
	// rows were converted, see [Table.Convert]: they cannot drive the query, so that they are checked
	// in each row.
	Unconverted []string
}

// Explain runs a query without returning its rows and tells how it was answered.
func (tbl *Table) Explain(ctx context.Context, q Query) (Explanation, error) {
	var e Explanation
	t, err := tbl.use()
	if err != nil {
		return e, err
	}
	for _, err := range t.find(ctx, q, &e) {
		if err != nil {
			return e, fmt.Errorf("store: explain %q: %w", t.schema.Name, t.gone(err))
		}
		e.Rows++
	}
	return e, nil
}

// found is a row of an answer, with its position for page tokens.
type found struct {
	record *record
	by     *finder
	index  int    // of the range
	key    []byte // that was scanned: of the row or the posting
}

func (f *found) row() Row { return f.by.table.row(f.record, f.by.want) }

// Sizes of a query's batches, in rows. They double: small at first, for queries that are stopped
// early, and smaller for postings, each of which takes a request to open.
const (
	firstRows, firstPostings = 32, 16
	fullBatch                = 256
	inline                   = 192
)

// find yields what a query selects. It begins again where the column that drives it was changed
// meanwhile and nothing was yielded yet.
func (t *view) find(ctx context.Context, q Query, e *Explanation) iter.Seq2[*found, error] {
	return func(yield func(*found, error) bool) {
		for again := true; again; t = t.tbl.now() {
			*e = Explanation{}
			again = t.findOnce(ctx, q, e, yield)
		}
	}
}

// findOnce does so in this view, and reports whether to do it again in a newer one.
func (t *view) findOnce(ctx context.Context, q Query, e *Explanation, yield func(*found, error) bool) (again bool) {
	var f *finder
	_, err := t.tbl.checked(ctx, t, func(t *view) (err error) {
		f, err = t.finder(ctx, q, e)
		return err
	})
	if err != nil {
		yield(nil, err)
		return false
	}
	if err := f.openFamilies(ctx); err != nil {
		yield(nil, err)
		return false
	}
	defer f.close()
	f.describe()
	defer f.count()
	n := 0
	// checked makes sure that the rows so far are all that there were.
	checked := func() (goOn bool) {
		ok, err := f.stillDrives(ctx)
		switch {
		case err != nil:
			yield(nil, err)
		case !ok && n > 0:
			yield(nil, fmt.Errorf("%w: column %q", ErrSchemaChanged, f.plan.driving.name))
		case !ok:
			again = true
		default:
			return true
		}
		return false
	}
	for hit, err := range f.run(ctx) {
		if err != nil {
			yield(nil, err)
			return false
		}
		if last := n+1 == q.Limit; (n == 0 || last) && !checked() {
			return again
		}
		n++
		if !yield(hit, nil) || n == q.Limit {
			return false
		}
	}
	checked()
	return again
}

// finder makes ready to execute a query.
func (t *view) finder(ctx context.Context, q Query, e *Explanation) (*finder, error) {
	if q.Limit < 0 {
		return nil, fmt.Errorf("%w: Limit is %d", driver.ErrRange, q.Limit)
	}
	want := make([]bool, len(t.stored))
	if !q.keyOnly {
		var err error
		if want, err = t.want(q.Columns); err != nil {
			return nil, err
		}
	}
	pl, err := t.plan(ctx, q.Where)
	if err != nil {
		return nil, err
	}
	if pl.anyOrder && (q.paged || q.PageToken != "") {
		return nil, fmt.Errorf("%w: all rows of a table whose key begins with a hashed or plain part have no order that pages could follow; use Query, which reads lazily, or fix that part", driver.ErrRange)
	}
	if pl.anyOrder && q.Reverse {
		return nil, fmt.Errorf("%w: all rows of a table whose key begins with a hashed part have no order to reverse", driver.ErrRange)
	}
	f := &finder{table: t, plan: pl, query: q, want: want, explain: e}
	f.need = f.needed()
	if q.PageToken != "" {
		if f.from, err = t.parseToken(q.PageToken, pl, q.Reverse); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// finder is one execution of a query.
type finder struct {
	table   *view
	plan    *plan
	query   Query
	want    []bool    // columns to return
	need    []bool    // columns to read: also those of conditions
	from    *position // to go on behind, or nil
	explain *Explanation

	data, postings driver.Family
	catalogue      driver.Family // where a column drives the query
	snapshot       driver.Snapshot
	seen           map[[16]byte]struct{} // rows that were found, where there is no snapshot
	last           []byte                // the row that was found last
	tokens         atomic.Int64          // that were looked up
	unchecked      atomic.Bool           // more was read since the driving column was known to drive
}

// needed returns the columns that have to be read.
func (f *finder) needed() []bool {
	if f.want == nil {
		return nil
	}
	need := slices.Clone(f.want)
	for _, c := range f.plan.conditions {
		c.column.add(need)
	}
	if d := f.plan.driving; d != nil {
		d.add(need)
	}
	return need
}

// openFamilies takes a snapshot where the database has them: otherwise a row that a writer moves
// forward in the order of the driving column could be seen twice.
func (f *finder) openFamilies(ctx context.Context) (err error) {
	t := f.table
	f.data, f.postings, f.catalogue = t.data, t.postings, t.st.catalogue.family
	f.unchecked.Store(f.plan.driving != nil)
	db, ok := t.st.db.(driver.Snapshotter)
	if !ok {
		if f.plan.driving != nil {
			f.seen = make(map[[16]byte]struct{})
		}
		return nil
	}
	if f.snapshot, err = db.Snapshot(); err != nil {
		return err
	}
	f.data, err = f.snapshot.Family(ctx, t.spec)
	if err == nil && f.plan.driving != nil {
		f.postings, err = f.snapshot.Family(ctx, t.postingSpec)
	}
	if err == nil && f.plan.driving != nil {
		f.catalogue, err = f.snapshot.Family(ctx, catalogueSpec)
	}
	if err != nil {
		f.close()
	}
	return err
}

// stillDrives reports whether the postings that were read so far lead to all rows, because no
// client has written rows yet which they do not lead to. The catalogue says so: it is changed
// before rows are.
func (f *finder) stillDrives(ctx context.Context) (bool, error) {
	if !f.unchecked.Load() {
		return true, nil
	}
	f.unchecked.Store(false)
	version, err := f.table.st.catalogue.version(ctx, f.catalogue)
	if err != nil || version <= f.table.version {
		return err == nil, err
	}
	now, err := f.table.tbl.atLeast(ctx, version)
	if err != nil || now.same(f.table) {
		return err == nil, err
	}
	return slices.ContainsFunc(now.columns, func(c *column) bool { return c.id == f.plan.driving.id }), nil
}

func (f *finder) close() {
	if f.snapshot != nil {
		_ = f.snapshot.Close() // read-only: nothing can be lost
	}
}

func (f *finder) describe() {
	spec := f.table.spec
	switch {
	case f.plan.driving != nil:
		f.explain.Driver = f.plan.driving.name
		spec = f.table.postingSpec
	case f.plan.anyOrder:
		f.explain.Driver = "all rows"
	default:
		f.explain.Driver = "row key"
	}
	f.explain.Intervals = len(f.plan.ranges)
	f.explain.Unconverted = f.plan.unconverted
	if !f.plan.anyOrder && !f.tokenwise() {
		for _, r := range f.plan.ranges {
			f.explain.Buckets += spec.Buckets(r.start, r.end)
		}
	}
}

// tokenwise reports whether postings are looked up value by value.
func (f *finder) tokenwise() bool { return f.plan.driving != nil && f.plan.driving.order != nil }

// count completes the explanation of a query whose postings were looked up value by value: each by
// one scan, which meets one partition.
func (f *finder) count() {
	n := int(f.tokens.Load())
	f.explain.Tokens = n
	f.explain.Buckets += n
	f.explain.Requests += n
}

// run yields the rows of all ranges.
func (f *finder) run(ctx context.Context) iter.Seq2[*found, error] {
	return func(yield func(*found, error) bool) {
		for i := range f.plan.ranges {
			index := i
			if f.query.Reverse {
				index = len(f.plan.ranges) - 1 - i
			}
			r := f.plan.ranges[index]
			if f.from != nil {
				if index != f.from.Range && index < f.from.Range != f.query.Reverse {
					continue // on an earlier page
				}
				if index == f.from.Range {
					r = f.from.rest(r, f.query.Reverse, f.plan.driving != nil)
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

// A batch is rows or postings as they were scanned, and what becomes of them.
type batch struct {
	rows []driver.Row
	end  bool  // nothing comes after the rows but err
	err  error // of the scan

	hits    []*found // by row; nil where one does not count
	openErr error
	opened  chan struct{} // where the batch is opened by another goroutine, closed when it is done
}

// scan yields what satisfies the conditions in one range, in the order of keys.
//
// A short range is read here, and opened here too by the time that another goroutine is awake to do
// it, which takes as long as opening some 50 rows. Beyond [inline] rows, one goroutine reads ahead,
// and others open batches while it does, which takes processors or, for postings, round trips.
func (f *finder) scan(ctx context.Context, r keyRange) iter.Seq2[*found, error] {
	return func(yield func(*found, error) bool) {
		family, slice, open, size, ahead := f.data, f.table.slice(f.need), f.openRows, firstRows, runtime.GOMAXPROCS(0)
		if f.plan.driving != nil {
			// Many goroutines open one batch of postings.
			family, slice, open, size, ahead = f.postings, driver.Slice{}, f.openPostings, firstPostings, 1
		}
		if f.query.Limit > 0 {
			size = min(size, f.query.Limit)
		}
		var rows iter.Seq2[driver.Row, error]
		if f.tokenwise() {
			rows = f.tokenPostings(ctx, r)
		} else {
			f.explain.Requests++
			rows = scanned(ctx, family, driver.Range{
				Start: r.start, End: r.end, Reverse: f.query.Reverse, Cells: slice, AnyOrder: f.plan.anyOrder,
			})
		}
		next, stop := iter.Pull2(rows)
		defer stop()
		read := func() *batch {
			b := &batch{rows: make([]driver.Row, 0, size)}
			if f.snapshot == nil && f.plan.driving != nil {
				defer f.unchecked.Store(true)
			}
			for len(b.rows) < size {
				row, err, ok := next()
				if !ok || err != nil {
					b.end, b.err = true, err
					break
				}
				b.rows = append(b.rows, row)
			}
			size = min(2*size, fullBatch)
			return b
		}
		emit := func(b *batch) (more bool) {
			f.explain.Hits += len(b.rows)
			if f.plan.driving != nil {
				f.explain.Requests += len(b.rows)
			}
			if b.openErr != nil {
				return yield(nil, b.openErr) && false
			}
			for _, hit := range b.hits {
				if hit == nil || f.plan.driving != nil && !f.first(hit) {
					f.explain.Discarded++
				} else if !yield(hit, nil) {
					return false
				}
			}
			if b.err != nil {
				yield(nil, b.err)
			}
			return !b.end
		}
		for n, b := 0, read(); b != nil; {
			n += len(b.rows)
			finish := open(ctx, r, b.rows, runtime.GOMAXPROCS(0))
			var next *batch
			if f.plan.driving == nil && !b.end && n < inline && n != f.query.Limit {
				next = read()
			}
			b.hits, b.openErr = finish()
			if !emit(b) {
				return
			}
			if next == nil && n < inline {
				next = read()
			}
			b = next
		}

		var workers sync.WaitGroup
		defer workers.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		batches := make(chan *batch, ahead)
		workers.Go(func() {
			defer close(batches)
			for more := true; more; {
				b := read()
				b.opened, more = make(chan struct{}), !b.end
				select {
				case batches <- b:
				case <-ctx.Done():
					return
				}
				workers.Go(func() {
					defer close(b.opened)
					b.hits, b.openErr = open(ctx, r, b.rows, 1)()
				})
			}
		})
		for b := range batches {
			<-b.opened
			if !emit(b) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(nil, ended(ctx))
		}
	}
}

// scanned yields the rows of a range, and makes sure that they are: what is sealed in a row or
// posting says where it stands, but not that it was asked for, or was not returned before.
func scanned(ctx context.Context, family driver.Family, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		var last []byte
		for row, err := range family.Scan(ctx, r) {
			if err == nil && !r.AnyOrder {
				order := bytes.Compare(row.Key, last)
				if r.Reverse {
					order = -order
				}
				if bytes.Compare(row.Key, r.Start) < 0 || r.End != nil && bytes.Compare(row.Key, r.End) >= 0 || last != nil && order <= 0 {
					yield(driver.Row{}, fmt.Errorf("%w: the database returned a row that was not asked for, or not in order", ErrTampered))
					return
				}
				last = row.Key
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// openRows turns scanned rows into rows of the answer. Other goroutines, up to a number of
// processors less one, begin at once; finish takes part and returns when all rows are opened.
func (f *finder) openRows(ctx context.Context, r keyRange, rows []driver.Row, processors int) (finish func() ([]*found, error)) {
	hits := make([]*found, len(rows))
	open := func(rows []driver.Row, hits []*found, s *scratch) error {
		for i, row := range rows {
			record, err := f.table.opened(ctx, f.data, row, f.need, s)
			if err != nil {
				return err
			}
			if record != nil && f.satisfies(record, r) {
				hits[i] = f.hit(ctx, record, row.Key)
			}
		}
		return nil
	}
	const share = 16
	var taken atomic.Int64
	work := func() error {
		s := new(scratch)
		for {
			to := int(taken.Add(share))
			if to-share >= len(rows) {
				return nil
			}
			if err := open(rows[to-share:min(to, len(rows))], hits[to-share:], s); err != nil {
				return err
			}
		}
	}
	var group errgroup.Group
	for range min(processors-1, len(rows)/(2*share)) {
		group.Go(work)
	}
	return func() ([]*found, error) {
		err := work()
		if err := cmp.Or(group.Wait(), err); err != nil {
			return nil, err
		}
		return hits, nil
	}
}

// openPostings turns scanned postings into rows of the answer, when finish is called.
func (f *finder) openPostings(ctx context.Context, r keyRange, postings []driver.Row, _ int) (finish func() ([]*found, error)) {
	return func() ([]*found, error) { return f.resolve(ctx, r, postings) }
}

// resolve reads the rows of postings.
func (f *finder) resolve(ctx context.Context, r keyRange, postings []driver.Row) ([]*found, error) {
	hits := make([]*found, len(postings))
	err := f.table.st.each(ctx, len(postings), func(ctx context.Context, i int) error {
		search, row, _, err := f.plan.driving.cutPosting(postings[i].Key)
		if err != nil {
			return err
		}
		record, err := f.table.readFrom(ctx, f.data, row, f.need)
		// The value decides, not the write: a row that was written again with the same value
		// has not changed, and must not be missed because its old posting was read.
		if err == nil && record != nil && bytes.Equal(record.search[f.plan.driving.position], search) && f.satisfies(record, r) {
			hits[i] = f.hit(ctx, record, postings[i].Key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return hits, nil
}

// hit returns a row of the answer, by the key that was scanned.
func (f *finder) hit(ctx context.Context, r *record, key []byte) *found {
	if !f.query.keyOnly { // then it is about to be written
		f.table.st.lazy.found(ctx, f.table.tbl, r)
	}
	return &found{record: r, key: key}
}

// satisfies reports whether a row that was found in a range belongs there and satisfies all
// conditions.
func (f *finder) satisfies(r *record, in keyRange) bool {
	for _, c := range f.plan.conditions {
		if !c.holds(r.values[f.table.valueIndex(c.column)]) {
			return false
		}
	}
	if in.by != nil && in.by.stateful {
		// Two ranges may have keys in common, which were not given out when they were asked for.
		code := f.table.codeOf(in.by, r)
		return in.within.lo <= code && code <= in.within.hi
	}
	return true
}

// first reports whether the row is found for the first time. A row has one posting for each time
// it was given a value; of those for one value all but one are left-overs, and they are neighbours.
func (f *finder) first(hit *found) bool {
	again := bytes.Equal(f.last, hit.record.key)
	f.last = hit.record.key
	if f.seen == nil || again {
		return !again
	}
	sum := sha256.Sum256(hit.record.key)
	id := [16]byte(sum[:])
	_, again = f.seen[id]
	f.seen[id] = struct{}{}
	return !again
}

// inOrder puts the rows of each group, whose ciphertexts are equal because they share a prefix, in
// the order of their values. Its memory is that of the largest group.
func (f *finder) inOrder(r keyRange, index int, rows iter.Seq2[*found, error]) iter.Seq2[*found, error] {
	compare := func(a, b *found) int {
		order := cmp.Or(r.by.typ.compare(f.table.valueOf(r.by, a), f.table.valueOf(r.by, b)), bytes.Compare(a.record.key, b.record.key))
		if f.query.Reverse {
			return -order
		}
		return order
	}
	passed := f.passed(r, index)
	return func(yield func(*found, error) bool) {
		var group []*found
		emit := func() (more bool) {
			slices.SortFunc(group, compare)
			for _, hit := range group {
				if !passed(hit) && !yield(hit, nil) {
					return false
				}
			}
			group = group[:0]
			return true
		}
		for hit, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(group) > 0 && !bytes.Equal(group[0].key[:r.group], hit.key[:r.group]) && !emit() {
				return
			}
			group = append(group, hit)
		}
		emit()
	}
}

func (t *view) valueOf(c *column, hit *found) any { return hit.record.values[t.valueIndex(c)] }

// codeOf returns the order code of the column's value in a record that was read.
func (t *view) codeOf(c *column, r *record) int64 {
	code, err := c.typ.code(r.values[t.valueIndex(c)])
	if err != nil {
		panic("store: a value without a code") // it was parsed, which checks that
	}
	return code
}

// valueIndex returns where a record has the value of the column.
func (t *view) valueIndex(c *column) int {
	if c.part >= 0 {
		return c.part
	}
	return len(t.parts) + c.position
}
