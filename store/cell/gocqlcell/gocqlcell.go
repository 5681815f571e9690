// Package gocqlcell has the values of package cell as gocql binds and scans them. Each is made with the key of its row, and
// none without:
//
//	v := gocqlcell.For(amount, &id)    // amount is a *cell.Field[int64]
//	v.Set(1250)                        // for the row that id names now
//	session.Query(`UPDATE orders SET amount_ct = ?, amount_cell = ? WHERE id = ?`, v.Search(), v.Sealed(), id)
//
//	rows := session.Query(`SELECT id, amount_ct, amount_cell FROM orders WHERE amount_ct >= ? AND amount_ct < ?`,
//		gocqlcell.Bound(iv.Start), gocqlcell.Bound(iv.End)).Iter()
//	for rows.Scan(&id, v.Search(), v.Sealed()) {
//		n, err := v.Get()          // of the row that was scanned: wanted if r.Has(n), r being the range
//	}
//
// One Value does for a batch, too: Search and Sealed return what was set before them. Call both for each statement.
//
// The sealed column is a blob. The other one, by which rows are found, is a varint or a blob. Take a varint for a
// storage-attached index of Cassandra 5, which takes no blobs. A statement that has the two in the wrong order is refused with a
// varint, and with two blobs writes what nobody reads. The varint holds the byte 1 and the bytes of
// [cell.Cell].Search as a number then.
package gocqlcell

import (
	"bytes"
	"errors"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/cell"
)

// A Value is the value of a field in one row, to be written or read. It is not safe for concurrent use.
type Value[T any] struct {
	field *cell.Field[T]
	key   []any
	content
}

// content is what a Value has of one row.
type content struct {
	state state
	cell  cell.Cell
	row   cell.RowKey // for which it was set
	err   error       // why it cannot be written
}

type state int

const (
	unset state = iota // nothing was set or scanned
	set
	scanned
)

// For returns the value of a field in the row with a primary key, whose values are given as [cell.Row] takes them. Those that
// are given by pointers are looked at whenever a value is set or got. So one Value does for all rows of an iterator
// that scans the primary key there. Take another Value for a statement that reads other columns of the two.
func For[T any](field *cell.Field[T], first any, more ...any) *Value[T] {
	return &Value[T]{field: field, key: append([]any{first}, more...)}
}

// Set seals a value for the row. Then bind the two columns. If the value or the row cannot be sealed, the statement that
// they are bound to fails with the reason, and writes nothing. That is as of [cell.Field.Seal].
func (v *Value[T]) Set(value T) {
	row := cell.Row(v.key...)
	c, err := v.field.Seal(row, value)
	v.content = content{set, c, row, err}
}

// SetNull lets both columns be null in the row. Then bind them.
func (v *Value[T]) SetNull() { v.content = content{state: set, row: cell.Row(v.key...)} }

// Get opens the value that was scanned, or set, for the row. Its errors are those of [cell.Field.Open]: null is [store.ErrNull].
func (v *Value[T]) Get() (value T, err error) {
	if err := v.failed(); err != nil {
		return value, err
	}
	return v.field.Open(cell.Row(v.key...), v.cell)
}

func (c content) failed() error {
	if c.state == unset {
		return errUnset
	}
	return c.err
}

var (
	errUnset   = errors.New("gocqlcell: a Value without a value: call Set or SetNull before Search and Sealed, or scan both columns")
	errScanned = errors.New("gocqlcell: a Value that was scanned is not written as it is: Set the value for this row, and then call Search and Sealed")
	errMoved   = errors.New("gocqlcell: the row key has changed since the value was set: Set the value for this row, and then call Search and Sealed")
)

// Search returns the column by which rows are found, to be bound or scanned. Bound, it is what was set before this call, and
// stays so, as in a batch. The statement that it is bound to fails if nothing was set for the row that the key names at this call.
// So call it for each statement. Scanned, it fills the Value.
func (v *Value[T]) Search() Column { return searchColumn[T]{v, v.bound()} }

// Sealed returns the sealed column, to be bound or scanned. What is said of [Value.Search] holds for it, too.
func (v *Value[T]) Sealed() Column { return sealedColumn[T]{v, v.bound()} }

// bound returns what is bound of the Value as it is now. A value of another row would be written without an error, and would
// never open again; a null would remove what the row has.
func (v *Value[T]) bound() content {
	c := v.content
	switch {
	case c.failed() != nil:
	case c.state == scanned:
		c.err = errScanned
	case !c.row.Equal(cell.Row(v.key...)):
		c.err = errMoved
	}
	return c
}

// A Column is one of the two of a [Value].
type Column interface {
	gocql.Marshaler
	gocql.Unmarshaler
}

type searchColumn[T any] struct {
	of    *Value[T] // filled when it is scanned
	bound content
}

func (c searchColumn[T]) MarshalCQL(info gocql.TypeInfo) ([]byte, error) {
	if err := c.bound.failed(); err != nil {
		return nil, err
	}
	return Bound(c.bound.cell.Search).MarshalCQL(info)
}

func (c searchColumn[T]) UnmarshalCQL(info gocql.TypeInfo, data []byte) error {
	c.of.state, c.of.err = scanned, nil
	// What was scanned is held to the sealed value, also if it is null.
	c.of.cell.Search = append([]byte{}, data...)
	switch {
	case info.Type() == gocql.TypeBlob || len(data) == 0:
	case info.Type() == gocql.TypeVarint && data[0] == marker:
		c.of.cell.Search = c.of.cell.Search[1:]
	case info.Type() == gocql.TypeVarint: // of no value: it is torn, whatever the sealed one is
	default:
		return wrongType(info, "varint or blob")
	}
	return nil
}

// marker is the first byte of numbers, so that zeros after it stay.
const marker = 1

type sealedColumn[T any] struct {
	of    *Value[T] // filled when it is scanned
	bound content
}

func (c sealedColumn[T]) MarshalCQL(info gocql.TypeInfo) ([]byte, error) {
	if info.Type() != gocql.TypeBlob {
		return nil, wrongType(info, "blob")
	}
	if err := c.bound.failed(); err != nil {
		return nil, err
	}
	return c.bound.cell.Sealed, nil
}

func (c sealedColumn[T]) UnmarshalCQL(info gocql.TypeInfo, data []byte) error {
	if info.Type() != gocql.TypeBlob {
		return wrongType(info, "blob")
	}
	if c.of.state != scanned {
		c.of.cell.Search = nil // which this statement does not read
	}
	c.of.state, c.of.err, c.of.cell.Sealed = scanned, nil, bytes.Clone(data) // nil is null, and what is empty is not
	return nil
}

func wrongType(info gocql.TypeInfo, need string) error {
	name := fmt.Sprintf("number %d of the protocol", info.Type())
	for candidate, t := range typeNames {
		if t == info.Type() {
			name = candidate
		}
	}
	return fmt.Errorf("gocqlcell: a column of type %s, need %s: alter the table, or the order of the statement's columns", name, need)
}

// typeNames are the types that somebody may have given a column, by their names in CQL.
var typeNames = map[string]gocql.Type{
	"ascii": gocql.TypeAscii, "bigint": gocql.TypeBigInt, "blob": gocql.TypeBlob, "boolean": gocql.TypeBoolean, "date": gocql.TypeDate,
	"decimal": gocql.TypeDecimal, "double": gocql.TypeDouble, "float": gocql.TypeFloat, "inet": gocql.TypeInet, "int": gocql.TypeInt,
	"smallint": gocql.TypeSmallInt, "text": gocql.TypeVarchar, "time": gocql.TypeTime, "timestamp": gocql.TypeTimestamp,
	"timeuuid": gocql.TypeTimeUUID, "tinyint": gocql.TypeTinyInt, "uuid": gocql.TypeUUID, "varint": gocql.TypeVarint,
}

// A Bound is one of the two ends of a [cell.Interval], to be bound.
type Bound []byte

// MarshalCQL implements [gocql.Marshaler].
func (b Bound) MarshalCQL(info gocql.TypeInfo) ([]byte, error) {
	switch {
	case info.Type() != gocql.TypeBlob && info.Type() != gocql.TypeVarint:
		return nil, wrongType(info, "varint or blob")
	case b == nil:
		return nil, nil
	case info.Type() == gocql.TypeBlob:
		return b, nil
	}
	return append([]byte{marker}, b...), nil
}
