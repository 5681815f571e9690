package pebble

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/errkind"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// family implements [driver.Committer], and the read-only view of a snapshot.
type family struct {
	db       *DB
	reader   pebble.Reader
	entry    *entry
	snapshot *snapshot // nil but in a snapshot
}

const (
	// A page ends when it has grown beyond this many bytes, or has passed over this many cells.
	pageBytes = 256 << 10
	pageCells = 64 << 10

	// After so many cells in a row that are not wanted it seeks, which costs about as much as eight steps.
	stepsBeforeSeek = 8

	// Apply commits about this many bytes at a time.
	applyBytes = 1 << 20
)

// enter admits a read.
func (f *family) enter() (now time.Time, err error) {
	if err := f.db.enter(); err != nil {
		return now, err
	}
	if f.snapshot != nil {
		if f.snapshot.closed {
			f.db.leave()
			return now, errSnapshotClosed
		}
		return f.snapshot.at, nil
	}
	if f.entry.dropped.Load() {
		f.db.leave()
		return now, errDropped(f.entry)
	}
	return f.db.now(), nil
}

// Get implements [driver.Family].
func (f *family) Get(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	if err := f.entry.spec.CheckRow(row); err != nil {
		return nil, err
	}
	if err := f.entry.spec.CheckSlice(cells); err != nil {
		return nil, err
	}
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	now, err := f.enter()
	if err != nil {
		return nil, err
	}
	defer f.db.leave()
	if cells.NeedsFirst && cells.Limit == 0 {
		found, err := f.batch(ctx, now, [][]byte{row}, cells)
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	w := newWindow(cells)
	prefix := layout.AppendRow(make([]byte, 0, len(row)+16), f.entry.id, row)
	if cells.Empty() && !cells.Head {
		return nil, nil
	}
	p := &pager{db: f.db, ctx: ctx, now: now, window: w, cellLimit: cells.Limit, stamps: cells.Stamps}
	if w.only != nil && (cells.Limit == 0 || cells.Limit > len(w.only)) {
		p.cellLimit = len(w.only)
	}
	lower, upper := w.bounds(prefix)
	err = p.iterate(f.reader, &pebble.IterOptions{LowerBound: lower, UpperBound: upper}, func(it *pebble.Iterator) error {
		_, err := p.page(it, 1)
		return err
	})
	if err != nil || len(p.rows) == 0 {
		return nil, err
	}
	return p.rows[0].Cells, nil
}

// GetBatch implements [driver.Family] with one iterator, which goes from row to row in the order of keys.
func (f *family) GetBatch(ctx context.Context, rows [][]byte, cells driver.Slice) ([][]driver.Cell, error) {
	if err := f.entry.spec.CheckBatch(rows, cells); err != nil {
		return nil, err
	}
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	now, err := f.enter()
	if err != nil {
		return nil, err
	}
	defer f.db.leave()
	return f.batch(ctx, now, rows, cells)
}

func (f *family) batch(ctx context.Context, now time.Time, rows [][]byte, cells driver.Slice) (found [][]driver.Cell, err error) {
	found = make([][]driver.Cell, len(rows))
	if cells.Empty() {
		return found, nil
	}
	order := inOrder(len(rows), func(i int) []byte { return rows[i] })
	p := &pager{db: f.db, ctx: ctx, now: now, window: newWindow(cells), stamps: cells.Stamps, needsFirst: cells.NeedsFirst}
	p.cellLimit = len(p.window.only)
	p.oneByOne = p.cellLimit > 0 && p.cellLimit <= fewCells
	// Many rows are looked for that do not exist. Filters say so of few cells, also those of the lowest level.
	filtered := p.oneByOne || p.needsFirst
	var flushed []int
	if filtered && f.snapshot == nil {
		flushed, order = f.flushed(rows, order) // before there is an iterator
	}
	err = p.eachRow(f, &pebble.IterOptions{UseL6Filters: filtered, OnlyReadGuaranteedDurable: true}, rows, flushed, found)
	if err == nil {
		err = p.eachRow(f, &pebble.IterOptions{UseL6Filters: filtered}, rows, order, found)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// inOrder returns the indexes of n keys, in the order of the keys.
func inOrder(n int, key func(i int) []byte) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(key(a), key(b)) })
	return order
}

// fewCells is up to how many cells of a row are looked for one by one, as filters have whole keys only.
const fewCells = 4

// flushed divides rows into those that memtables have no changes of, and others.
func (f *family) flushed(rows [][]byte, order []int) (flushed, others []int) {
	var prefix []byte
	for _, i := range order {
		prefix = layout.AppendRow(prefix[:0], f.entry.id, rows[i])
		if f.db.unflushed.Has(f.db.unflushed.Hash(prefix)) {
			others = append(others, i)
		} else {
			flushed = append(flushed, i)
		}
	}
	return flushed, others
}

// Apply implements [driver.Family].
func (f *family) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if f.snapshot != nil {
		return fmt.Errorf("pebble: %w: a snapshot", driver.ErrReadOnly)
	}
	if err := f.entry.spec.CheckMutations(mutations); err != nil {
		return err
	}
	if err := contextError(ctx); err != nil {
		return err
	}
	for len(mutations) > 0 {
		w, n, err := f.encode(mutations)
		if err != nil {
			return err
		}
		if _, err := f.db.queue.do(ctx, w); err != nil {
			return err
		}
		mutations = mutations[n:]
	}
	return nil
}

func mutationSize(row []byte, puts []driver.Cell, deletes [][]byte) int {
	perCell := len(row) + 32
	size := perCell
	for _, c := range puts {
		size += perCell + len(c.Qualifier) + len(c.Value)
	}
	for _, q := range deletes {
		size += perCell + len(q)
	}
	return size
}

// encode makes a write of a number of mutations from the beginning of the list.
func (f *family) encode(mutations []driver.Mutation) (*write, int, error) {
	if err := f.db.enter(); err != nil {
		return nil, 0, err
	}
	defer f.db.leave()
	size, n := 0, 0
	for _, m := range mutations {
		size += mutationSize(m.Row, m.Puts, m.Deletes)
		if n++; size >= applyBytes {
			break
		}
	}
	w := &write{entry: f.entry, batch: f.db.eng.NewBatchWithSize(min(size, 2*applyBytes)), rows: make([]uint64, 0, n)}
	now := f.db.now()
	var prefix []byte
	for _, m := range mutations[:n] {
		prefix = layout.AppendRow(prefix[:0], f.entry.id, m.Row)
		w.changes(f.db, prefix)
		if m.DeleteRow {
			w.deleteRows = append(w.deleteRows, bytes.Clone(prefix))
			continue
		}
		if err := encodeChange(w.batch, prefix, m.Puts, m.Deletes, now); err != nil {
			return nil, 0, err
		}
	}
	return w, n, nil
}

func encodeChange(b *pebble.Batch, prefix []byte, puts []driver.Cell, deletes [][]byte, now time.Time) error {
	for _, c := range puts {
		op := b.SetDeferred(len(prefix)+len(c.Qualifier), layout.EnvelopeSize(c))
		copy(op.Key[copy(op.Key, prefix):], c.Qualifier)
		layout.PutEnvelope(op.Value, c, now)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	for _, q := range deletes {
		op := b.DeleteDeferred(len(prefix) + len(q))
		copy(op.Key[copy(op.Key, prefix):], q)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// Replace implements [driver.Family]. It compares the value of the cell that was seen.
func (f *family) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	if f.snapshot != nil {
		return nil, fmt.Errorf("pebble: %w: a snapshot", driver.ErrReadOnly)
	}
	if err := f.entry.spec.CheckReplacements(replacements); err != nil {
		return nil, err
	}
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	for from := 0; from < len(replacements); {
		w, n, err := f.encodeReplacements(replacements[from:])
		if err != nil {
			return nil, err
		}
		if _, err := f.db.queue.do(ctx, w); err != nil {
			return nil, err
		}
		for _, i := range w.late {
			late = append(late, from+i)
		}
		from += n
	}
	return late, nil
}

// encodeReplacements makes a write of a number of replacements from the beginning of the list.
func (f *family) encodeReplacements(replacements []driver.Replacement) (*write, int, error) {
	if err := f.db.enter(); err != nil {
		return nil, 0, err
	}
	defer f.db.leave()
	w := &write{entry: f.entry, batch: f.db.eng.NewBatch()}
	size, n := 0, 0
	for _, r := range replacements {
		row := layout.AppendRow(nil, f.entry.id, r.Row)
		w.changes(f.db, row)
		change := f.db.eng.NewBatch()
		if err := encodeChange(change, row, r.Puts, r.Deletes, f.db.now()); err != nil {
			return nil, 0, err
		}
		seen := expectation{append(slices.Clip(row), r.Seen.Qualifier...), bytes.Clone(r.Seen.Value)}
		w.replaces = append(w.replaces, replace{row, seen, change})
		size += mutationSize(r.Row, r.Puts, r.Deletes)
		if n++; size >= applyBytes {
			break
		}
	}
	return w, n, nil
}

// CheckAndPut implements [driver.Family].
func (f *family) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	return f.Commit(ctx, row, []driver.Cell{expect}, puts, nil)
}

// Commit implements [driver.Committer].
func (f *family) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	if f.snapshot != nil {
		return false, fmt.Errorf("pebble: %w: a snapshot", driver.ErrReadOnly)
	}
	if err := f.entry.spec.CheckConditional(row, expect, puts, deletes); err != nil {
		return false, err
	}
	if err := contextError(ctx); err != nil {
		return false, err
	}
	if err := f.db.enter(); err != nil {
		return false, err
	}
	w := &write{
		entry: f.entry,
		batch: f.db.eng.NewBatch(),
		row:   layout.AppendRow(nil, f.entry.id, row),
	}
	f.db.leave()
	w.changes(f.db, w.row)
	for _, c := range expect {
		key := append(slices.Clip(w.row), c.Qualifier...)
		w.expect = append(w.expect, expectation{key, bytes.Clone(c.Value)})
	}
	if err := encodeChange(w.batch, w.row, puts, deletes, time.Time{}); err != nil {
		return false, err
	}
	return f.db.queue.do(ctx, w)
}

// A window is the cells of a row that are wanted, without a limit.
type window struct {
	only       [][]byte // sorted, each once; nil for the range
	start, end []byte
	head       bool // besides the range
}

func newWindow(s driver.Slice) window {
	w := window{head: s.Head}
	if s.Head {
		s, _ = s.JoinHead()
	}
	w.start, w.end = s.Start, s.End
	if len(s.Only) > 0 {
		w.only = slices.Clone(s.Only)
		slices.SortFunc(w.only, bytes.Compare)
		w.only = slices.CompactFunc(w.only, bytes.Equal)
	}
	return w
}

// bounds returns the range of keys that the window has in a row.
func (w window) bounds(rowPrefix []byte) (lower, upper []byte) {
	p := slices.Clip(rowPrefix)
	if w.only != nil {
		return append(p, w.only[0]...), append(append(p, w.only[len(w.only)-1]...), 0)
	}
	lower, upper = p, layout.Above(rowPrefix)
	if !w.head {
		lower = append(p, w.start...)
	}
	if w.end != nil {
		upper = append(p, w.end...)
	}
	return lower, upper
}

func (w window) contains(q []byte) bool {
	if w.only != nil {
		_, found := slices.BinarySearchFunc(w.only, q, bytes.Compare)
		return found
	}
	if w.head && driver.InHead(q) {
		return true
	}
	return bytes.Compare(w.start, q) <= 0 && (w.end == nil || bytes.Compare(q, w.end) < 0)
}

// after returns the least qualifier above q that may be wanted.
func (w window) after(q []byte) (next []byte, ok bool) {
	if w.only != nil {
		i := sort.Search(len(w.only), func(i int) bool { return bytes.Compare(w.only[i], q) > 0 })
		if i == len(w.only) {
			return nil, false
		}
		return w.only[i], true
	}
	return w.start, bytes.Compare(q, w.start) < 0
}

// before returns an exclusive upper bound of the qualifiers below q that may be wanted.
func (w window) before(q []byte) (bound []byte, ok bool) {
	if w.only != nil {
		i := sort.Search(len(w.only), func(i int) bool { return bytes.Compare(w.only[i], q) >= 0 })
		if i == 0 {
			return nil, false
		}
		return append(slices.Clip(w.only[i-1]), 0), true
	}
	return w.end, w.end != nil && bytes.Compare(q, w.end) >= 0
}

// A pager reads the rows of one page.
type pager struct {
	db              *DB
	ctx             context.Context
	now             time.Time
	window          window
	reverse, stamps bool
	needsFirst      bool // a row without the first cell of the window is none
	oneByOne        bool // are cells looked for
	cellLimit       int  // of the one row that is read, its head aside; 0 is none
	head            int  // cells of that row's head that were read besides its slice

	key    []byte        // of a cell that is looked for
	cur    []byte        // prefix of the row that is being read
	cells  []driver.Cell // of that row, in the order of reading
	rows   []driver.Row
	bytes  int // of rows
	passed int // cells, wanted or not

	arena []byte
	slab  []driver.Cell
}

// iterate lets read have an iterator.
func (p *pager) iterate(r pebble.Reader, o *pebble.IterOptions, read func(*pebble.Iterator) error) error {
	it, err := r.NewIter(o)
	if err == nil {
		err = read(it)
		p.noteVersions(it.Stats())
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return fmt.Errorf("pebble: read: %w", errkind.Of(err))
	}
	return nil
}

// eachRow reads some of the rows of a batch, in the order of keys, with one iterator.
func (p *pager) eachRow(f *family, o *pebble.IterOptions, rows [][]byte, order []int, found [][]driver.Cell) error {
	if len(order) == 0 {
		return nil
	}
	return p.iterate(f.reader, o, func(it *pebble.Iterator) error {
		var prefix []byte
		for n, i := range order {
			if n%64 == 63 && p.ctx.Err() != nil {
				return pause.Ended(p.ctx)
			}
			prefix = layout.AppendRow(prefix[:0], f.entry.id, rows[i])
			p.rows = nil
			if err := p.row(it, prefix); err != nil {
				return err
			}
			if len(p.rows) > 0 {
				found[i] = p.rows[0].Cells
			}
		}
		return nil
	})
}

// full reports whether a page of n rows ends here.
func (p *pager) full(n int) bool {
	return len(p.rows) >= n || p.bytes >= pageBytes || p.passed >= pageCells
}

// page reads within the bounds of an iterator, until there are n rows. If there may be more, next is the lower bound of the
// rest or, in reverse, the upper.
func (p *pager) page(it *pebble.Iterator, n int) (next []byte, err error) {
	first, step := it.First, it.Next
	if p.reverse {
		first, step = it.Last, it.Prev
	}
	unwanted := 0
	for valid := first(); valid; p.passed++ {
		if p.passed%256 == 255 && p.ctx.Err() != nil {
			return nil, pause.Ended(p.ctx)
		}
		key := it.Key()
		if p.cur == nil || !bytes.HasPrefix(key, p.cur) {
			p.finishRow()
			if p.full(n) {
				if p.cur != nil && p.reverse {
					return bytes.Clone(p.cur), nil
				} else if p.cur != nil {
					return layout.Above(p.cur), nil
				}
			}
			end, err := layout.RowPrefixLen(key)
			if err != nil {
				return nil, err
			}
			p.cur = append(p.cur[:0], key[:end]...)
			unwanted = 0
		}
		q := key[len(p.cur):]
		if !p.window.contains(q) {
			// What follows the head, up to where the slice begins, may be much that was deleted.
			if unwanted++; unwanted > stepsBeforeSeek || p.window.head && bytes.Compare(q, p.window.start) < 0 {
				unwanted = 0
				valid = p.skip(it, q)
			} else {
				valid = step()
			}
			continue
		}
		unwanted = 0
		if err := p.take(it, q); err != nil {
			return nil, err
		}
		if p.cellLimit > 0 && len(p.cells)-p.head == p.cellLimit {
			break
		}
		valid = step()
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	p.finishRow()
	return nil, nil
}

// row reads the cells of one row, with an iterator that has read others.
func (p *pager) row(it *pebble.Iterator, rowPrefix []byte) error {
	if p.oneByOne {
		return p.cellsOf(it, rowPrefix)
	}
	if p.needsFirst {
		p.seek(it, rowPrefix, p.window.only[0])
		if !it.Valid() {
			return it.Error()
		}
	}
	it.SetBounds(p.window.bounds(rowPrefix))
	p.cur = nil
	_, err := p.page(it, 1)
	it.SetBounds(nil, nil)
	return err
}

// cellsOf reads the cells of a row that the window names, one by one. The engine has filters for whole keys only, so that
// this is faster than a range where the row does not exist, and not much slower where it does.
func (p *pager) cellsOf(it *pebble.Iterator, rowPrefix []byte) error {
	p.cur = append(p.cur[:0], rowPrefix...)
	for _, q := range p.window.only {
		p.seek(it, rowPrefix, q)
		if err := p.take(it, q); err != nil {
			return err
		}
		if p.needsFirst && len(p.cells) == 0 {
			break
		}
	}
	p.finishRow()
	return nil
}

func (p *pager) seek(it *pebble.Iterator, rowPrefix, q []byte) {
	p.key = append(append(p.key[:0], rowPrefix...), q...)
	it.SeekPrefixGE(p.key)
}

// take appends the cell that an iterator is at, if it is at one that has not expired.
func (p *pager) take(it *pebble.Iterator, q []byte) error {
	if !it.Valid() {
		return it.Error()
	}
	env, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	value, alive, err := layout.OpenEnvelope(env, p.now)
	if err != nil || !alive {
		return err
	}
	if n := len(p.cells); n >= 256 && n == cap(p.cells) && n < p.cellLimit { // a large row
		p.cells = slices.Grow(p.cells, min(3*n, p.cellLimit+4-n)) // with some of the head
	}
	p.cells = append(p.cells, driver.Cell{Qualifier: p.copy(q), Value: p.copy(value), Stamp: p.stamp()})
	p.bytes += len(q) + len(value)
	if p.window.head && driver.InHead(q) {
		p.head++
	}
	return nil
}

// manyVersions is how many overwritten values, beyond a few for each cell, a page may step over
// before it asks for a flush. It is at most one flush in as many writes.
const manyVersions = 4096

// noteVersions watches what a read cost. A memtable keeps each value that a cell ever had, and an
// iterator passes over all of them. So a cell that is often written, such as a counter, would make
// reads of its row slower and slower. A flush keeps the last value only.
func (p *pager) noteVersions(s pebble.IteratorStats) {
	steps := s.ForwardStepCount[pebble.InternalIterCall] + s.ReverseStepCount[pebble.InternalIterCall]
	asked := s.ForwardStepCount[pebble.InterfaceCall] + s.ReverseStepCount[pebble.InterfaceCall]
	if steps > manyVersions+8*asked {
		p.db.queue.flushSoon()
	}
}

// skip moves the iterator from an unwanted qualifier towards the next that may be wanted.
func (p *pager) skip(it *pebble.Iterator, q []byte) bool {
	cur := slices.Clip(p.cur)
	if p.reverse {
		if bound, ok := p.window.before(q); ok {
			return it.SeekLT(append(cur, bound...))
		}
		return it.SeekLT(cur)
	}
	if next, ok := p.window.after(q); ok {
		return it.SeekGE(append(cur, next...))
	}
	return it.SeekGE(layout.Above(cur))
}

// finishRow ends the current row; without a wanted cell it is none.
func (p *pager) finishRow() {
	if len(p.cells) == 0 {
		return
	}
	if p.reverse {
		slices.Reverse(p.cells)
	}
	if p.slab == nil { // the first row takes its cells over
		p.slab = slices.Clip(p.cells)
		p.rows, p.cells = append(p.rows, driver.Row{Key: p.copyRow(), Cells: p.slab}), nil
	} else {
		// Rows share slabs, which are small: a row that is kept keeps little else alive.
		if cap(p.slab)-len(p.slab) < len(p.cells) {
			p.slab = make([]driver.Cell, 0, max(len(p.cells), min(64, 8*len(p.rows))))
		}
		at := len(p.slab)
		p.slab = append(p.slab, p.cells...)
		p.cells = p.cells[:0]
		p.rows = append(p.rows, driver.Row{Key: p.copyRow(), Cells: p.slab[at:len(p.slab):len(p.slab)]})
	}
	p.bytes += len(p.cur)
}

// stamp returns the stamp of a cell: the same for all, since the value says enough.
func (p *pager) stamp() int64 {
	if p.stamps {
		return 1
	}
	return 0
}

const arenaBytes = 8 << 10

func (p *pager) reserve(n int) {
	if cap(p.arena)-len(p.arena) < n || p.arena == nil { // an empty value is not nil
		p.arena = make([]byte, 0, max(n, min(arenaBytes, 2*cap(p.arena)+64)))
	}
}

func (p *pager) copy(b []byte) []byte {
	p.reserve(len(b))
	at := len(p.arena)
	p.arena = append(p.arena, b...)
	return p.arena[at:len(p.arena):len(p.arena)]
}

func (p *pager) copyRow() []byte {
	p.reserve(len(p.cur))
	at := len(p.arena)
	p.arena = layout.AppendUnescaped(p.arena, p.cur)
	return p.arena[at:len(p.arena):len(p.arena)]
}
