package driver

import (
	"bytes"
	"context"
	"fmt"
)

// An Indexer is a [DB] that keeps indexes for families with LayoutOrdered. Not every database can.
//
// An index has a value for some rows. It belongs to the cell with the empty qualifier: a put of that says in Cell.Index
// which values it has from then on, and what removes the cell, as the end of its TTL, removes them. The cell and its values
// appear at once. The values of one index have the same length, and are in unsigned bytewise order. Where two clients'
// mutations have one timestamp, the cell may be of the one and a value of the other.
type Indexer interface {
	DB

	// AddIndex makes an index of a family, unless there is one of the name. It must return when all nodes answer by it.
	// The rows that are there have no values in it. Where the database has no such indexes, or is not configured to make
	// them, it must return [ErrNoIndex] and leave nothing; the error must say why, and may say what to do.
	AddIndex(ctx context.Context, spec FamilySpec, name string) error

	// DropIndex removes an index. One that does not exist is no error. Puts may name it afterwards, scans may not.
	DropIndex(ctx context.Context, spec FamilySpec, name string) error
}

// Limits of indexes.
const (
	MaxIndexName  = 24  // bytes, of the same characters as the name of a family
	MaxIndexValue = 128 // bytes
)

// An IndexValue is what a cell has in an index of its family; a nil Value is none.
type IndexValue struct {
	Index string
	Value []byte
}

// An IndexRange is the rows of a [Range] that have a value from Start on, and below End, in an index. A nil bound is none;
// other bounds have the length of the values. If there is no such index, a scan ends with [ErrNoIndex].
type IndexRange struct {
	Index      string
	Start, End []byte
}

// Contains reports whether a value is in the range.
func (r *IndexRange) Contains(value []byte) bool {
	return value != nil && bytes.Compare(r.Start, value) <= 0 && (r.End == nil || bytes.Compare(value, r.End) < 0)
}

// AddIndex makes an index if the database is an [Indexer].
func AddIndex(ctx context.Context, db DB, spec FamilySpec, name string) error {
	if i, ok := db.(Indexer); ok {
		return i.AddIndex(ctx, spec, name)
	}
	return fmt.Errorf("%w: %s keeps none", ErrNoIndex, databaseName(db))
}

// DropIndex removes an index if the database is an [Indexer].
func DropIndex(ctx context.Context, db DB, spec FamilySpec, name string) error {
	if i, ok := db.(Indexer); ok {
		return i.DropIndex(ctx, spec, name)
	}
	return nil
}

func databaseName(db DB) string {
	if name := Describe(db).System; name != "" {
		return name
	}
	return "this database"
}

// CheckIndex returns an error unless the family can have an index of the name.
func (s FamilySpec) CheckIndex(name string) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s.Layout != LayoutOrdered {
		return fmt.Errorf("%w: family %s: indexes are for LayoutOrdered", ErrRange, s.Name)
	}
	return checkIndexName(name)
}

func checkIndexName(name string) error {
	if len(name) > MaxIndexName || (FamilySpec{Name: name, Layout: LayoutOrdered}).Check() != nil || len(name) < 2 {
		return fmt.Errorf("%w: index name %q: need 2 to %d characters of a-z, 0-9 and '_', beginning with a letter", ErrRange, name, MaxIndexName)
	}
	return nil
}

// CheckIndexedRange is CheckRange for databases with indexes.
func (s FamilySpec) CheckIndexedRange(r Range) error {
	if i := r.Index; i != nil {
		r.Index = nil
		switch {
		case s.Layout != LayoutOrdered || !r.AnyOrder || r.After != nil:
			return fmt.Errorf("%w: a scan by an index must be in any order, from its beginning, and of a family with ordered rows", ErrRange)
		case len(r.Cells.Only) != 1 || len(r.Cells.Only[0]) != 0:
			return fmt.Errorf("%w: a scan by an index reads the cell with the empty qualifier", ErrRange)
		case len(i.Start) > MaxIndexValue || len(i.End) > MaxIndexValue:
			return fmt.Errorf("%w: the bound of an index has more than %d bytes", ErrTooLarge, MaxIndexValue)
		}
		if err := checkIndexName(i.Index); err != nil {
			return err
		}
	}
	return s.CheckRange(r)
}

// checkIndexed returns an error unless the family can have what cells are to have in indexes.
func (s FamilySpec) checkIndexed(puts []Cell) error {
	for _, c := range puts {
		if len(c.Index) > 0 && (s.Layout != LayoutOrdered || len(c.Qualifier) > 0) {
			return fmt.Errorf("%w: only the cell with the empty qualifier of an ordered row has values in indexes", ErrRange)
		}
		for _, v := range c.Index {
			if err := checkIndexName(v.Index); err != nil {
				return err
			}
			if v.Value != nil && len(v.Value) == 0 || len(v.Value) > MaxIndexValue {
				return fmt.Errorf("%w: a value in an index has %d bytes, need 1 to %d", ErrTooLarge, len(v.Value), MaxIndexValue)
			}
		}
	}
	return nil
}
