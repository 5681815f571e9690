package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// NewMemory returns an empty database in memory. It promises what every driver promises, but for
// durability, and is [driver.Snapshotter] and [driver.Indexer], and its families [driver.Committer] and [driver.Guarder]. It is the null
// database: what a benchmark measures on it is the cost of everything else.
func NewMemory() driver.DB { return NewMemoryAt(time.Now) }

// NewMemoryAt returns a database in memory with a clock of its own, by which cells with a TTL end.
func NewMemoryAt(clock func() time.Time) driver.DB {
	return &memory{families: make(map[string]*memoryFamily), clock: clock}
}

type memory struct {
	clock    func() time.Time
	mu       sync.RWMutex // guards everything, families included
	families map[string]*memoryFamily
	closed   bool
}

type memoryFamily struct {
	db      *memory
	spec    driver.FamilySpec
	dropped bool

	// at is the instant of a snapshot, or zero. Rows are never changed in place, so a snapshot
	// is a copy of the map.
	at     time.Time
	closed *bool // of the snapshot

	rows    map[string]*memoryRow
	indexes map[string]bool
	keys    []string // of rows, sorted; may name rows that are gone
	late    []string // keys that are not in keys yet, in no order
}

// A memoryRow is not changed once it is in the map.
type memoryRow struct{ cells []memoryCell } // in order

type memoryCell struct {
	qualifier, value string
	end              time.Time         // zero: lives for ever
	index            map[string]string // values by the name of the index; not changed once it is in a row
}

var errMemoryClosed = fmt.Errorf("drivertest: %w", driver.ErrClosed)

func (db *memory) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if err := errors.Join(spec.Check(), pause.Ended(ctx)); err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, errMemoryClosed
	}
	f := db.families[spec.Name]
	if f == nil && spec.Existing {
		return nil, fmt.Errorf("%w: %s", driver.ErrNoFamily, spec.Name)
	}
	if f == nil {
		f = &memoryFamily{db: db, spec: spec, rows: make(map[string]*memoryRow), indexes: make(map[string]bool)}
		db.families[spec.Name] = f
	}
	return f, f.match(spec)
}

func (f *memoryFamily) match(spec driver.FamilySpec) error {
	spec.Existing = false // which is no part of the layout
	if f.spec != spec {
		return fmt.Errorf("%w: family %s", driver.ErrLayout, spec.Name)
	}
	return nil
}

func (db *memory) Families(ctx context.Context) ([]string, error) {
	if err := pause.Ended(ctx); err != nil {
		return nil, err
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	if db.closed {
		return nil, errMemoryClosed
	}
	return slices.Sorted(maps.Keys(db.families)), nil
}

func (db *memory) Drop(ctx context.Context, name string) error {
	if err := pause.Ended(ctx); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return errMemoryClosed
	}
	if f := db.families[name]; f != nil {
		f.dropped = true
		delete(db.families, name)
	}
	return nil
}

func (db *memory) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return errMemoryClosed
	}
	db.closed = true
	return nil
}

func (db *memory) Snapshot() (driver.Snapshot, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, errMemoryClosed
	}
	s := &memorySnapshot{families: make(map[string]*memoryFamily)}
	for name, f := range db.families {
		f.sortKeys()
		s.families[name] = &memoryFamily{
			db: db, spec: f.spec, at: db.clock(), closed: &s.closed,
			rows: maps.Clone(f.rows), indexes: maps.Clone(f.indexes), keys: f.keys[:len(f.keys):len(f.keys)],
		}
	}
	return s, nil
}

type memorySnapshot struct {
	families map[string]*memoryFamily
	closed   bool // under memory.mu
}

func (s *memorySnapshot) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if err := errors.Join(spec.Check(), pause.Ended(ctx)); err != nil {
		return nil, err
	}
	f := s.families[spec.Name]
	if f == nil {
		return nil, fmt.Errorf("%w: %s", driver.ErrNoFamily, spec.Name)
	}
	return f, f.match(spec)
}

func (s *memorySnapshot) Close() error {
	for _, f := range s.families {
		f.db.mu.Lock()
		defer f.db.mu.Unlock()
		break
	}
	s.closed = true
	return nil
}

// usable is called with the lock held.
func (f *memoryFamily) usable(write bool) error {
	switch {
	case f.db.closed:
		return errMemoryClosed
	case f.closed != nil && *f.closed:
		return errors.New("drivertest: the snapshot is closed")
	case f.closed != nil && write:
		return driver.ErrReadOnly
	case f.dropped:
		return fmt.Errorf("%w: %s was dropped", driver.ErrNoFamily, f.spec.Name)
	}
	return nil
}

func (f *memoryFamily) now() time.Time {
	if f.closed != nil {
		return f.at
	}
	return f.db.clock()
}

func (f *memoryFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if err := errors.Join(f.spec.CheckRow(row), f.spec.CheckSlice(s), pause.Ended(ctx)); err != nil {
		return nil, err
	}
	f.db.mu.RLock()
	defer f.db.mu.RUnlock()
	if err := f.usable(false); err != nil {
		return nil, err
	}
	return f.rows[string(row)].slice(s, f.now()), nil
}

func (f *memoryFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	if err := errors.Join(f.spec.CheckBatch(rows, s), pause.Ended(ctx)); err != nil {
		return nil, err
	}
	f.db.mu.RLock()
	defer f.db.mu.RUnlock()
	if err := f.usable(false); err != nil {
		return nil, err
	}
	found := make([][]driver.Cell, len(rows))
	for i, row := range rows {
		found[i] = f.rows[string(row)].slice(s, f.now())
	}
	return found, nil
}

// slice returns copies of the cells in s that are alive. The row may be nil.
func (r *memoryRow) slice(s driver.Slice, now time.Time) []driver.Cell {
	if r == nil {
		return nil
	}
	var cells []driver.Cell
	limit := 0
	take := func(from, to int) {
		for i := range max(0, to-from) {
			c := r.cells[from+i]
			if limit > 0 && len(cells) == limit {
				break
			}
			if c.alive(now) {
				cell := driver.Cell{Qualifier: []byte(c.qualifier), Value: []byte(c.value)}
				if s.Stamps {
					cell.Stamp = 1 // the value says enough
				}
				for _, name := range s.Indexes {
					if v, ok := c.index[name]; ok && c.qualifier == "" {
						cell.Index = append(cell.Index, driver.IndexValue{Index: name, Value: []byte(v)})
					} else if c.qualifier == "" {
						cell.Index = append(cell.Index, driver.IndexValue{Index: name})
					}
				}
				cells = append(cells, cell)
			}
		}
	}
	if len(s.Only) > 0 {
		limit = s.Limit
		only := slices.SortedFunc(slices.Values(s.Only), bytes.Compare)
		for _, q := range slices.CompactFunc(only, bytes.Equal) {
			if i, found := r.find(q); found {
				take(i, i+1)
			}
		}
		return cells
	}
	from, to := 0, len(r.cells)
	if s.Head {
		for n := range r.cells[:min(2, to)] {
			if driver.InHead([]byte(r.cells[n].qualifier)) {
				take(n, n+1)
				from = n + 1
			}
		}
	}
	if s.Limit > 0 {
		limit = len(cells) + s.Limit
	}
	start, _ := r.find(s.Start)
	if s.End != nil {
		to, _ = r.find(s.End)
	}
	take(max(from, start), to)
	return cells
}

// find returns where the cell with the qualifier is, or would be.
func (r *memoryRow) find(qualifier []byte) (int, bool) {
	return slices.BinarySearchFunc(r.cells, string(qualifier), func(c memoryCell, q string) int { return strings.Compare(c.qualifier, q) })
}

func (c memoryCell) alive(now time.Time) bool { return c.end.IsZero() || now.Before(c.end) }

// sortKeys is called with the lock held for writing.
func (f *memoryFamily) sortKeys() {
	if len(f.late) == 0 {
		return
	}
	slices.Sort(f.late)
	merged := make([]string, 0, len(f.keys)+len(f.late))
	a, b := f.keys, f.late
	for len(a)+len(b) > 0 {
		var key string
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			key, a = a[0], a[1:]
		} else {
			key, b = b[0], b[1:]
		}
		if f.rows[key] != nil && (len(merged) == 0 || merged[len(merged)-1] != key) {
			merged = append(merged, key)
		}
	}
	f.keys, f.late = merged, nil
}

// has reports whether the row has a value in a range of an index. The row may be nil.
func (r *memoryRow) has(in *driver.IndexRange) bool {
	if r == nil || len(r.cells) == 0 || r.cells[0].qualifier != "" {
		return false
	}
	v, ok := r.cells[0].index[in.Index]
	return ok && in.Contains([]byte(v))
}

func (db *memory) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return db.setIndex(ctx, spec, name, func(indexes map[string]bool) { indexes[name] = true })
}

func (db *memory) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	err := db.setIndex(ctx, spec, name, func(indexes map[string]bool) { delete(indexes, name) })
	if errors.Is(err, driver.ErrNoFamily) {
		return nil
	}
	return err
}

func (db *memory) setIndex(ctx context.Context, spec driver.FamilySpec, name string, set func(map[string]bool)) error {
	if err := errors.Join(spec.CheckIndex(name), pause.Ended(ctx)); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	f := db.families[spec.Name]
	switch {
	case db.closed:
		return errMemoryClosed
	case f == nil:
		return fmt.Errorf("%w: %s", driver.ErrNoFamily, spec.Name)
	}
	set(f.indexes)
	return f.match(spec)
}

const memoryPage = 256

func (f *memoryFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		if err := f.spec.CheckIndexedRange(r); err != nil {
			yield(driver.Row{}, err)
			return
		}
		r.InTurn(func(r driver.Range) iter.Seq2[driver.Row, error] { return f.scan(ctx, r.Share()) })(yield)
	}
}

func (f *memoryFamily) scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		start, end := bytes.Clone(r.Start), bytes.Clone(r.End)
		for left := r.Limit; ; {
			rows, more, err := f.page(ctx, r, start, end)
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for _, row := range rows {
				if r.Reverse {
					end = bytes.Clone(row.Key)
				} else {
					start = append(bytes.Clone(row.Key), 0)
				}
				if !yield(row, nil) {
					return
				}
				if left--; r.Limit > 0 && left == 0 {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

func (f *memoryFamily) page(ctx context.Context, r driver.Range, start, end []byte) (rows []driver.Row, more bool, err error) {
	if err := pause.Ended(ctx); err != nil {
		return nil, false, err
	}
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	if err := f.usable(false); err != nil {
		return nil, false, err
	}
	if r.Index != nil && !f.indexes[r.Index.Index] {
		return nil, false, fmt.Errorf("%w: %s of family %s", driver.ErrNoIndex, r.Index.Index, f.spec.Name)
	}
	f.sortKeys()
	from, _ := slices.BinarySearch(f.keys, string(start))
	to := len(f.keys)
	if end != nil {
		to, _ = slices.BinarySearch(f.keys, string(end))
	}
	now := f.now()
	for n := range to - from {
		if len(rows) == memoryPage {
			return rows, true, nil
		}
		key := f.keys[from+n]
		if r.Reverse {
			key = f.keys[to-1-n]
		}
		if r.Index != nil && !f.rows[key].has(r.Index) {
			continue
		}
		if cells := f.rows[key].slice(r.Cells, now); len(cells) > 0 {
			rows = append(rows, driver.Row{Key: []byte(key), Cells: cells})
		}
	}
	return rows, false, nil
}

func (f *memoryFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if err := errors.Join(f.spec.CheckMutations(mutations), pause.Ended(ctx)); err != nil {
		return err
	}
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	if err := f.usable(true); err != nil {
		return err
	}
	for _, m := range mutations {
		if m.DeleteRow {
			delete(f.rows, string(m.Row))
			continue
		}
		f.change(m.Row, m.Puts, m.Deletes)
	}
	return nil
}

// Replace needs no stamps: a row whose cell Seen has its value was not written since.
func (f *memoryFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	if err := errors.Join(f.spec.CheckReplacements(replacements), pause.Ended(ctx)); err != nil {
		return nil, err
	}
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	if err := f.usable(true); err != nil {
		return nil, err
	}
	for i, r := range replacements {
		if f.holds(r.Row, r.Seen) {
			f.change(r.Row, r.Puts, r.Deletes)
		} else {
			late = append(late, i)
		}
	}
	return late, nil
}

// holds reports whether a cell is as expected. It is called with the lock held.
func (f *memoryFamily) holds(row []byte, e driver.Cell) bool {
	found := f.rows[string(row)].slice(driver.Slice{Only: [][]byte{e.Qualifier}}, f.now())
	return (e.Value == nil) == (len(found) == 0) && (len(found) == 0 || bytes.Equal(found[0].Value, e.Value))
}

func (f *memoryFamily) change(key []byte, puts []driver.Cell, deletes [][]byte) {
	old := f.rows[string(key)]
	row := &memoryRow{}
	if old != nil {
		row.cells = slices.Clone(old.cells)
	}
	for _, c := range puts {
		cell := memoryCell{qualifier: string(c.Qualifier), value: string(c.Value)}
		if c.TTL > 0 {
			cell.end = f.db.clock().Add((c.TTL-1)/time.Second*time.Second + time.Second)
		}
		i, found := row.find(c.Qualifier)
		if found {
			cell.index = row.cells[i].index
		}
		if len(c.Index) > 0 {
			if cell.index = maps.Clone(cell.index); cell.index == nil {
				cell.index = make(map[string]string)
			}
			for _, v := range c.Index {
				if delete(cell.index, v.Index); v.Value != nil {
					cell.index[v.Index] = string(v.Value)
				}
			}
		}
		if found {
			row.cells[i] = cell
		} else {
			row.cells = slices.Insert(row.cells, i, cell)
		}
	}
	for _, q := range deletes {
		if i, found := row.find(q); found {
			row.cells = slices.Delete(row.cells, i, i+1)
		}
	}
	switch {
	case len(row.cells) == 0:
		delete(f.rows, string(key))
	default:
		f.rows[string(key)] = row
		if old == nil {
			f.late = append(f.late, string(key))
		}
	}
}

func (f *memoryFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	return f.Commit(ctx, row, []driver.Cell{expect}, puts, nil)
}

func (f *memoryFamily) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	if err := errors.Join(f.spec.CheckGuarded(row, guard, puts), pause.Ended(ctx)); err != nil {
		return false, err
	}
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	if err := f.usable(true); err != nil {
		return false, err
	}
	first := f.rows[string(row)].slice(driver.Slice{Only: [][]byte{{}}}, f.now())
	if len(first) == 0 || !bytes.HasPrefix(first[0].Value, guard.Prefix) {
		return false, nil
	}
	for _, q := range guard.Free {
		if !f.holds(row, driver.Cell{Qualifier: q}) && !f.holds(row, driver.Cell{Qualifier: q, Value: guard.Gone}) {
			return false, nil
		}
	}
	f.change(row, puts, nil)
	return true, nil
}

func (f *memoryFamily) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	if err := errors.Join(f.spec.CheckConditional(row, expect, puts, deletes), pause.Ended(ctx)); err != nil {
		return false, err
	}
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	if err := f.usable(true); err != nil {
		return false, err
	}
	for _, e := range expect {
		if !f.holds(row, e) {
			return false, nil
		}
	}
	f.change(row, puts, deletes)
	return true, nil
}
