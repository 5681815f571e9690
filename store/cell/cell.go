// Package cell encrypts columns of tables that the application keeps itself, as with CQL and a driver of its own.
//
// Most programs do not need it: package store keeps encrypted tables, and does more. This package gives one value at a time
// what two columns of a row are to hold: a ciphertext in the order of the values, by which the database finds ranges, and the
// value itself, sealed for its table, column and row. The application writes both, and opens what it reads:
//
//	err = cell.Register(ctx, st, "shop.orders", store.OrderedColumn("amount", store.Int64, store.Boldyreva))
//	amount, err := cell.Open(ctx, st, "shop.orders", store.Int64.Field("amount"))
//	c, err := amount.Seal(cell.Row(id), 1250)       // write c.Search and c.Sealed
//	r, err := amount.Between(1000, 2000)            // find rows by each of r.Intervals
//	v, err := amount.Open(cell.Row(id), c)          // what was read of the row: wanted if r.Has(v)
//
// [Register] stores random ids and keys in the catalogue of a [store.Store]. No key of its tables is among them. Package
// gocqlcell has the values for gocql.
//
// All programs that use a table must open the same store, which is one catalogue. Another one, as of a mistyped keyspace, makes
// other keys: its ranges find nothing, and nothing says so, while what is opened by other ways is [store.ErrWrongKey].
//
// # What is given
//
// A sealed value that was changed, or moved to another row, is [store.ErrTampered]. So is one that is opened with another row key
// than it was sealed with. One of another column, table or store is [store.ErrWrongKey], and so is one whose key id was changed,
// which is a part of it: bytes 1 to 16. A value whose two columns are of different writes is [store.ErrTorn], where
// both are read. What the database learns of a column is what docs/security.md says of columns of its encryption.
//
// # What is not given
//
// The application's writes are its own, so this package promises less than package store:
//
//   - Torn rows: a database that keeps each column's last write may keep the two columns of two writes. Ranges miss such a row,
//     or meet it in the wrong place, until it is written again. Write both columns with one statement, and check [Range.Has].
//   - Rollback: an older value of the same row and column opens. So nobody notices a row that was put back or left out.
//   - Rotation: the keys of a column are never replaced, nor its encryption. Register another column, and write the values there.
//     Each sealed value carries the id of its key.
//   - Rows that exist are not encrypted, nor is their plaintext removed: the application writes them again.
package cell

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Register gives keys to columns of a table that the application keeps. Columns are randomised, deterministic, or ordered
// by [store.Boldyreva], [store.MOPE] or [store.Wozniak]. The name of the table is the application's choice, such as "shop.orders".
// No table of the store has it.
//
// It is one small write. What is registered already stays as it is, so that each start of a program may call it. A column
// that makes no sense is [store.ErrSchema]: it is not encrypted, shares keys, covers, has a server index, or has a scheme with an
// index of its own. One that is registered with another type or encryption is [store.ErrExists].
//
// The names of the table and its columns never change, as programs register them by these. They are labels, and need not be
// those of the application's own table: rename that as you like.
//
// [store.Store.Describe] has what is registered. [store.Store.Alter] drops columns, and [store.Store.Drop] drops the table
// with all keys: nothing opens its values afterwards. Drop only what no program uses any more: one that is still running goes
// on with the old keys, and one that registers the column again makes new ones. Neither opens what the other one sealed.
func Register(ctx context.Context, st *store.Store, table string, columns ...store.Column) error {
	specs := make([]meta.Spec, len(columns))
	for i, c := range columns {
		var err error
		if specs[i], err = specOf(c); err != nil {
			return fmt.Errorf("cell: register table %q: %w", table, err)
		}
	}
	if err := administer.Register(ctx, session.Of(st), table, specs); err != nil {
		return fmt.Errorf("cell: register table %q: %w", table, err)
	}
	return nil
}

// specOf returns what a column says.
func specOf(c store.Column) (meta.Spec, error) {
	d := c.Describe()
	if d.Encryption == "" {
		return meta.Spec{}, fmt.Errorf("%w: a column was not made by a function of package store", fault.ErrSchema)
	}
	typ, err := value.Parse(d.Type)
	if err != nil {
		return meta.Spec{}, fmt.Errorf("column %q: %w", d.Name, err)
	}
	s := meta.Spec{Name: d.Name, Type: typ, Encryption: meta.Encryption(d.Encryption), Scheme: d.Scheme, Covering: d.Covering, ServerIndex: d.ServerIndex}
	switch {
	case d.KeyOf != nil:
		s.Confidentiality = meta.OfColumns
	case d.Confidentiality == string(meta.OfDatabase):
		s.Confidentiality = meta.OfDatabase
	}
	return s, nil
}

// A Field is a column that was registered, with its keys. It is safe for concurrent use, and never asks the database. It goes
// on as it is if the column is dropped, also if that is registered again with other keys: then what it seals opens nowhere else.
// So drop a column only when no program uses it. Make it with [Open]: the zero Field has no keys, and its methods return [ope.ErrKey].
type Field[T any] struct{ column *column }

// A Cell is a value as the two columns of a row hold it.
type Cell struct {
	// Search stands for the value where rows are found: its ciphertext or, in a deterministic column, its token. It is nil
	// in a randomised column.
	Search []byte

	// Sealed is the value itself. It is longer than that by 77 bytes, and by Search.
	Sealed []byte
}

// Open returns a column that was registered. A table or column that was not is [store.ErrNoTable] or [store.ErrColumn]. So is
// a Go type that is not that of the column's values.
func Open[T any](ctx context.Context, st *store.Store, table string, field store.Field[T]) (*Field[T], error) {
	c, err := open(ctx, session.Of(st), table, string(field), reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("cell: open field %q of table %q: %w", string(field), table, err)
	}
	return &Field[T]{c}, nil
}

func open(ctx context.Context, db *session.Database, table, name string, goType reflect.Type) (*column, error) {
	m, _, err := db.Catalogue.Table(ctx, table)
	switch {
	case errors.Is(err, fault.ErrNoTable):
		return nil, fmt.Errorf("%w: register it with cell.Register", err)
	case err != nil:
		return nil, err
	case !m.Elsewhere():
		return nil, fmt.Errorf("%w: the rows of the table are kept here: open it with Store.Table", fault.ErrNoTable)
	}
	if _, err := m.Schema(); err != nil {
		return nil, err
	}
	for i := range m.Columns {
		if m.Columns[i].Name != name {
			continue
		}
		c, err := newColumn(db.Keys.Of(m), m, &m.Columns[i])
		if err == nil && c.typ.GoType() != goType {
			err = fmt.Errorf("%w: its values have Go type %v, the Field has %v: use %[2]v", fault.ErrColumn, c.typ.GoType(), goType)
		}
		return c, err
	}
	return nil, fmt.Errorf("%w: it was not registered: register it with cell.Register", fault.ErrColumn)
}

// Seal returns what the columns of a row hold for a value. A value that the column does not take is [ope.ErrDomain]. A null
// has neither column: write null to both.
func (f *Field[T]) Seal(row RowKey, v T) (Cell, error) {
	if err := f.made(); err != nil {
		return Cell{}, err
	}
	c, err := f.column.seal(row, v)
	if err != nil {
		return Cell{}, f.column.failed("seal", err)
	}
	return c, nil
}

// Open returns the value of a row from what its columns hold. Where both columns are null it is [store.ErrNull].
//
// If c.Search is nil, that column was not read, and only the sealed value is looked at. Otherwise a Search that is not of this
// value is [store.ErrTorn]: the columns are of different writes, or somebody changed one. Writing the value again mends it. If
// only c.Sealed is nil, that is [store.ErrTorn], too. A value of another row, or one that was changed, is [store.ErrTampered]. One of
// another column, table or store, or whose key id was changed, is [store.ErrWrongKey].
func (f *Field[T]) Open(row RowKey, c Cell) (v T, err error) {
	if err := f.made(); err != nil {
		return v, err
	}
	opened, err := f.column.open(row, c)
	if err != nil {
		return v, f.column.failed("open", err)
	}
	return opened.(T), nil
}

// made returns an error for the zero field, which Open has not made, and for a nil one.
func (f *Field[T]) made() error {
	if f == nil || f.column == nil {
		return fmt.Errorf("cell: %w: this field is a zero value; make it with cell.Open", ope.ErrKey)
	}
	return nil
}
