// Package index keeps the state of stateful order-preserving schemes in a database: an [ope.Index] over a driver.
package index

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// MaxName is the length of the longest name of an index, in bytes.
const MaxName = 40 - len(family)

const family = "index_"

// Open opens the index of a name in a database, and makes it where it does not exist. The name has
// 1 to [MaxName] characters out of a-z, 0-9 and '_'. One index can serve many columns, each with units of its own.
//
// What it costs, package store/index says.
func Open(ctx context.Context, db driver.DB, name string) (ope.Index, error) {
	if db == nil {
		return nil, errors.New("index: no database given")
	}
	spec := driver.FamilySpec{Name: family + name, Layout: driver.LayoutWide}
	if len(name) == 0 || len(name) > MaxName || spec.Check() != nil {
		return nil, fmt.Errorf("index: %w: its name is %q, need 1 to %d characters of a-z, 0-9 and '_'", driver.ErrRange, name, MaxName)
	}
	return OpenFamily(ctx, db, spec.Name, false)
}

// An index is a family of wide rows, one for each unit. Its key is 'u' || unit, and its cells are
//
//	qualifier    value
//	(empty)      format || state || generation (8 bytes, big-endian)
//	00           nonce (16 bytes)
//	01 || key    01 || value of the record, or 00 if it was deleted
//
// A state and generation of zero, a nonce of zero, and a deleted record have no cell where
// several cells can be checked at once. This is format 1.
//
// Where only one cell can be checked that is the first one, and it changes with every commit. In
// format 2 it goes on with nonce (16 bytes) || attempt (16 bytes, random), and there is no cell
// 00. No attempt comes twice, so that a request which expects one fails once another was
// acknowledged. A deleted record keeps its cell, since such databases cannot delete under a
// condition.
type index struct {
	family    driver.Family
	committer driver.Committer // the family, or nil where it can check one cell only
	guarder   driver.Guarder   // the family, or nil where it cannot check others with a part of that
}

const (
	indexFormatCells   = 1
	indexFormatVersion = 2

	maxUnit = 64

	recordCell   = 1
	recordLive   = 1
	recordAbsent = 0
)

// The cells of a unit that are no records.
var (
	MetaQualifier  = []byte{}
	NonceQualifier = []byte{0}
	endOfRecords   = []byte{recordCell + 1}
)

// gone is the value of a record that was deleted.
var gone = []byte{recordAbsent}

// OpenFamily opens the index that is in a family, which must exist already if existing says so.
func OpenFamily(ctx context.Context, db driver.DB, family string, existing bool) (ope.Index, error) {
	f, err := db.Family(ctx, driver.FamilySpec{Name: family, Layout: driver.LayoutWide, Existing: existing})
	if err != nil {
		return nil, fmt.Errorf("index: open: %w", err)
	}
	if driver.Describe(db).Undecided {
		return undecided{over(f)}, nil
	}
	return over(f), nil
}

// undecided is an index on a database whose reads may show what is not decided.
type undecided struct{ *index }

// Decide implements [ope.Decider].
func (x undecided) Decide(ctx context.Context, unit ope.Unit) error {
	row, err := unitRow(unit)
	if err == nil {
		_, err = x.family.Get(ctx, row, driver.Slice{Only: [][]byte{MetaQualifier}, Decided: true})
	}
	if err != nil {
		return fmt.Errorf("index: decide: %w", err)
	}
	return nil
}

func over(f driver.Family) *index {
	x := &index{family: f}
	x.committer, _ = f.(driver.Committer)
	x.guarder, _ = f.(driver.Guarder)
	return x
}

// Read implements [ope.Index].
func (x *index) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	row, err := unitRow(unit)
	if err == nil && limit < 0 {
		err = fmt.Errorf("limit is %d", limit)
	}
	if err != nil {
		return ope.View{}, fmt.Errorf("index: %w", err)
	}
	s := driver.Slice{Start: recordQualifier(from), End: endOfRecords, Head: true, Skip: gone}
	if to != nil {
		s.End = recordQualifier(to)
	}
	if limit > 0 && limit < 1<<30 {
		s.Limit = limit + 1 // to see whether there are more
	}
	for {
		cells, err := x.family.Get(ctx, row, s)
		if err != nil {
			return ope.View{}, fmt.Errorf("index: read: %w", err)
		}
		head, cells := cutHead(cells)
		h, err := x.openHead(head)
		if err != nil {
			return ope.View{}, err
		}
		view := ope.View{Meta: h.meta}
		if view.Records, err = openRecords(cells); err != nil {
			return ope.View{}, err
		}
		if limit > 0 && len(view.Records) > limit {
			view.Records, view.More = view.Records[:limit:limit], true
		} else if s.Limit > 0 && len(cells) == s.Limit {
			// Deleted records have used the limit up. What follows them, read on its own, would
			// be of another instant.
			s.Limit *= 8
			continue
		}
		return view, nil
	}
}

// Commit implements [ope.Index]. What is not made, or of unknown outcome, schemes make again in some way.
func (x *index) Commit(ctx context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	row, err := unitRow(unit)
	if err == nil {
		err = checkChange(change)
	}
	if err != nil {
		return false, fmt.Errorf("index: %w", err)
	}
	var applied bool
	if x.committer != nil {
		applied, err = x.commitCells(ctx, row, cond, change)
	} else {
		applied, err = x.commitVersion(ctx, row, cond, change)
	}
	if errors.Is(err, driver.ErrUnknownOutcome) {
		pause.Repeats(ctx, "unknown_outcome")
		return false, fmt.Errorf("index: %w: %w", ope.ErrUnknownOutcome, err)
	}
	if err != nil {
		return false, fmt.Errorf("index: commit: %w", err)
	}
	if !applied {
		pause.Repeats(ctx, "index_changed")
	}
	return applied, nil
}

// commitCells lets the database check each part of the condition on a cell of its own.
func (x *index) commitCells(ctx context.Context, row []byte, cond ope.Condition, change ope.Change) (bool, error) {
	before := headCells(ope.Meta{State: cond.State, Generation: cond.Generation})
	expect := make([]driver.Cell, 0, 2+len(cond.Absent))
	expect = append(expect, before[0])
	if cond.Nonce != nil {
		expect = append(expect, headCells(ope.Meta{Nonce: *cond.Nonce})[1])
	}
	for _, key := range cond.Absent {
		expect = append(expect, driver.Cell{Qualifier: recordQualifier(key)})
	}
	puts := make([]driver.Cell, 0, 2+len(change.Puts))
	var deletes [][]byte
	for i, cell := range headCells(change.Meta) {
		switch {
		case i == 0 && bytes.Equal(cell.Value, before[0].Value):
			// It stays as it is, so that commits that do not change it leave one version of it.
		case cell.Value == nil:
			deletes = append(deletes, cell.Qualifier)
		default:
			puts = append(puts, cell)
		}
	}
	for _, r := range change.Puts {
		puts = append(puts, liveCell(r))
	}
	for _, key := range distinct(change.Deletes) {
		deletes = append(deletes, recordQualifier(key))
	}
	return x.committer.Commit(ctx, row, expect, puts, deletes)
}

// commitVersion has the database check the condition, where that can, and the unit is there. Otherwise it checks
// the condition itself, and lets the database check that nothing has changed since.
func (x *index) commitVersion(ctx context.Context, row []byte, cond ope.Condition, change ope.Change) (bool, error) {
	wanted := driver.Slice{Only: [][]byte{MetaQualifier}}
	for _, key := range distinct(cond.Absent) {
		wanted.Only = append(wanted.Only, recordQualifier(key))
	}
	guard := driver.Guard{
		Prefix: appendMeta(indexFormatVersion, ope.Meta{State: cond.State, Generation: cond.Generation}),
		Free:   wanted.Only[1:], Gone: gone,
	}
	if cond.Nonce != nil {
		guard.Prefix = append(guard.Prefix, cond.Nonce[:]...)
	}
	puts := make([]driver.Cell, 1, 1+len(change.Puts)+len(change.Deletes))
	for _, r := range change.Puts {
		puts = append(puts, liveCell(r))
	}
	for _, key := range distinct(change.Deletes) {
		puts = append(puts, driver.Cell{Qualifier: recordQualifier(key), Value: gone})
	}
	for attempt := 0; ; attempt++ {
		if x.guarder != nil && cond.State != ope.StateAbsent {
			puts[0] = versionCell(change.Meta)
			applied, err := x.guarder.PutGuarded(ctx, row, guard, puts...)
			if err != nil || applied {
				return applied, err
			}
		}
		cells, err := x.family.Get(ctx, row, wanted)
		if err != nil {
			return false, err
		}
		head, cells := cutHead(cells)
		h, err := x.openHead(head)
		if err != nil {
			return false, err
		}
		present, err := openRecords(cells)
		if err != nil {
			return false, err
		}
		if h.meta.State != cond.State || h.meta.Generation != cond.Generation ||
			cond.Nonce != nil && h.meta.Nonce != *cond.Nonce || len(present) > 0 {
			return false, nil
		}
		puts[0] = versionCell(change.Meta)
		applied, err := x.family.CheckAndPut(ctx, row, driver.Cell{Qualifier: MetaQualifier, Value: h.version}, puts...)
		if err != nil || applied {
			return applied, err
		}
		// Another commit came between. The condition may hold all the same.
		if err := pause.Again(ctx, "index_changed", 2*time.Millisecond, 200*time.Millisecond, attempt); err != nil {
			return false, err
		}
	}
}

// Retire ends a unit for good and removes its records. What is left says that it is over: a client that knows no better
// must not open it again.
func Retire(ctx context.Context, f driver.Family, unit ope.Unit) error {
	x := over(f)
	if err := x.raise(ctx, unit, ope.StateSealed); err != nil {
		return err
	}
	row, err := unitRow(unit)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	// Nobody writes records any more, so they need no condition.
	rest := driver.Slice{Start: []byte{recordCell}, End: endOfRecords, Limit: 4096}
	for {
		cells, err := f.Get(ctx, row, rest)
		if err != nil {
			return fmt.Errorf("index: read: %w", err)
		}
		if len(cells) == 0 {
			return x.raise(ctx, unit, ope.StateRetired)
		}
		m := driver.Mutation{Row: row}
		for _, c := range cells {
			m.Deletes = append(m.Deletes, c.Qualifier)
		}
		if err := f.Apply(ctx, m); err != nil {
			return fmt.Errorf("index: remove records: %w", err)
		}
		rest.Start = append(bytes.Clone(m.Deletes[len(m.Deletes)-1]), 0)
	}
}

// Heads returns the heads of all units in a family, by their names.
func Heads(ctx context.Context, f driver.Family) (map[string][]driver.Cell, error) {
	heads := make(map[string][]driver.Cell)
	only := driver.Slice{Only: [][]byte{MetaQualifier, NonceQualifier}}
	for row, err := range f.Scan(ctx, driver.Range{Cells: only, AnyOrder: true}) {
		if err != nil {
			return nil, err
		}
		if len(row.Key) > 0 && row.Key[0] == 'u' {
			heads[string(row.Key[1:])] = row.Cells
		}
	}
	return heads, nil
}

// Records returns how many records a unit has.
func Records(ctx context.Context, f driver.Family, unit string) (n int, err error) {
	rest := driver.Slice{Start: []byte{recordCell}, End: endOfRecords, Limit: 4096, Skip: gone}
	for {
		cells, err := f.Get(ctx, append([]byte{'u'}, unit...), rest)
		if err != nil {
			return n, fmt.Errorf("index: read: %w", err)
		}
		for _, c := range cells {
			if len(c.Value) > 0 && c.Value[0] == recordLive {
				n++
			}
		}
		if len(cells) < rest.Limit {
			return n, nil
		}
		rest.Start = append(bytes.Clone(cells[len(cells)-1].Qualifier), 0)
	}
}

// Retired reports whether the head of a unit's row says that it is over, and has no records.
func Retired(head []driver.Cell) bool {
	return len(head) > 0 && len(head[0].Qualifier) == 0 && len(head[0].Value) > 1 && ope.State(head[0].Value[1]) == ope.StateRetired
}

// raise brings a unit into a state, unless it is there or beyond.
func (x *index) raise(ctx context.Context, unit ope.Unit, to ope.State) error {
	for attempt := 0; ; attempt++ {
		view, err := x.Read(ctx, unit, []byte{0}, []byte{0, 0}, 1)
		if err != nil {
			return err
		}
		if is := view.Meta.State; is >= to && is <= ope.StateRetired {
			return nil
		}
		next := ope.Meta{State: to}
		rand.Read(next.Nonce[:])
		applied, err := x.Commit(ctx, unit, ope.Condition{State: view.Meta.State, Generation: view.Meta.Generation}, ope.Change{Meta: next})
		if applied || err != nil && !errors.Is(err, ope.ErrUnknownOutcome) {
			return err
		}
		if err := pause.For(ctx, pause.Grown(2*time.Millisecond, 200*time.Millisecond, attempt)); err != nil {
			return err
		}
	}
}

// A head is what a unit has besides its records.
type head struct {
	meta    ope.Meta
	version []byte // value of the first cell; nil if there is none
}

// headCells returns the cells of format 1, with a nil value for one that shall not exist.
func headCells(m ope.Meta) [2]driver.Cell {
	cells := [2]driver.Cell{{Qualifier: MetaQualifier}, {Qualifier: NonceQualifier}}
	if m.State != 0 || m.Generation != 0 {
		cells[0].Value = appendMeta(indexFormatCells, m)
	}
	if m.Nonce != (ope.Nonce{}) {
		cells[1].Value = bytes.Clone(m.Nonce[:])
	}
	return cells
}

// versionCell returns the cell of format 2, with a new attempt.
func versionCell(m ope.Meta) driver.Cell {
	var attempt [16]byte
	rand.Read(attempt[:])
	value := append(appendMeta(indexFormatVersion, m), m.Nonce[:]...)
	return driver.Cell{Qualifier: MetaQualifier, Value: append(value, attempt[:]...)}
}

func appendMeta(format byte, m ope.Meta) []byte {
	return binary.BigEndian.AppendUint64([]byte{format, byte(m.State)}, m.Generation)
}

func (x *index) openHead(cells []driver.Cell) (h head, err error) {
	format, length := byte(indexFormatCells), 10
	if x.committer == nil {
		format, length = indexFormatVersion, 42
	}
	for _, c := range cells {
		switch {
		case len(c.Qualifier) == 0 && len(c.Value) > 0 && c.Value[0] != format:
			return h, fmt.Errorf("%w: a unit of the index has format %d, this version expects %d on this database; use the version that wrote it",
				fault.ErrFormat, c.Value[0], format)
		case len(c.Qualifier) == 0 && len(c.Value) == length:
			h.version = c.Value
			h.meta.State = ope.State(c.Value[1])
			h.meta.Generation = binary.BigEndian.Uint64(c.Value[2:])
			if format == indexFormatVersion {
				h.meta.Nonce = ope.Nonce(c.Value[10:26])
			}
		case len(c.Qualifier) == 1 && len(c.Value) == len(h.meta.Nonce) && format == indexFormatCells:
			h.meta.Nonce = ope.Nonce(c.Value)
		default:
			return h, fmt.Errorf("%w: the head of a unit of the index", fault.ErrTampered)
		}
	}
	return h, nil
}

// openRecords returns the records that were not deleted. It takes the cells over.
func openRecords(cells []driver.Cell) ([]ope.Record, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	records := make([]ope.Record, 0, len(cells))
	for _, c := range cells {
		switch {
		case len(c.Value) > 0 && c.Value[0] == recordLive:
			records = append(records, ope.Record{Key: c.Qualifier[1:], Value: c.Value[1:]})
		case len(c.Value) == 1 && c.Value[0] == recordAbsent:
		default:
			return nil, fmt.Errorf("%w: a record of the index", fault.ErrTampered)
		}
	}
	return records, nil
}

// cutHead parts the head of a row, which comes first, from its other cells.
func cutHead(cells []driver.Cell) (head, rest []driver.Cell) {
	n := 0
	for n < len(cells) && driver.InHead(cells[n].Qualifier) {
		n++
	}
	return cells[:n], cells[n:]
}

func liveCell(r ope.Record) driver.Cell {
	value := append(make([]byte, 0, 1+len(r.Value)), recordLive)
	return driver.Cell{Qualifier: recordQualifier(r.Key), Value: append(value, r.Value...)}
}

func recordQualifier(key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), recordCell), key...)
}

func unitRow(u ope.Unit) ([]byte, error) {
	if len(u) > maxUnit {
		return nil, fmt.Errorf("the name of a unit has %d bytes, at most %d", len(u), maxUnit)
	}
	return append([]byte{'u'}, u...), nil
}

// checkChange returns an error unless each key has one final state. Schemes put nearly in the order of keys, so that to sort
// them takes less than to hash them.
func checkChange(c ope.Change) error {
	puts := slices.Clone(c.Puts)
	slices.SortFunc(puts, func(a, b ope.Record) int { return bytes.Compare(a.Key, b.Key) })
	if len(slices.CompactFunc(puts, func(a, b ope.Record) bool { return bytes.Equal(a.Key, b.Key) })) < len(c.Puts) {
		return errors.New("a change puts a key twice")
	}
	for _, key := range c.Deletes {
		if _, both := slices.BinarySearchFunc(puts, key, func(r ope.Record, key []byte) int { return bytes.Compare(r.Key, key) }); both {
			return errors.New("a change puts and deletes the same key")
		}
	}
	return nil
}

func distinct(keys [][]byte) [][]byte {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}
