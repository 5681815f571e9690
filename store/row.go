package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A record is a row on its way to or from the database.
type record struct {
	key    []byte
	values []any // by position: key parts, then stored columns
	write  writeID
	fresh  bool     // the key was drawn at random: there is no earlier row
	search [][]byte // by stored column: what its posting carries; nil where it has none, and in tables without

	version  uint32 // of the catalogue, of a row that was read; 0 of a new one
	outdated bool   // the row was seen to be stored in another way than its view stores rows; only with ConvertOnRead
}

type writeID [16]byte

// checkNames returns an error if a row names a column that there is not.
func (t *view) checkNames(row Row) error {
	for name := range row {
		if t.byName[name] == nil {
			return fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.schema.Name, name)
		}
	}
	return nil
}

// check turns a row into a record with its values, without touching the database.
func (t *view) check(row Row) (*record, error) {
	if err := t.checkNames(row); err != nil {
		return nil, err
	}
	r := t.newRecord()
	rand.Read(r.write[:])
	if err := t.checkKey(r, row); err != nil {
		return nil, err
	}
	for i, c := range t.columns {
		v, err := c.value(row)
		if err != nil {
			return nil, err
		}
		r.values[len(t.parts)+i] = v
	}
	return r, nil
}

// checkKey sets the values of the record's key parts.
func (t *view) checkKey(r *record, row Row) error {
	for i, c := range t.parts {
		v, err := c.value(row)
		if err != nil {
			return err
		}
		if v == nil {
			if c.encryption != tieBreaker {
				return fmt.Errorf("%w: key part %q is null", ErrColumn, c.name)
			}
			var tie [16]byte
			rand.Read(tie[:])
			v, r.fresh = tie, true
		}
		r.values[i] = v
	}
	return nil
}

// encode sets what a checked record is found by: its key, and what its postings carry.
func (t *view) encode(ctx context.Context, r *record) error {
	if err := t.encodeKey(ctx, r); err != nil {
		return err
	}
	return t.encodeColumns(ctx, r)
}

// encodeColumns sets what the postings of a record carry, where it is not set yet.
func (t *view) encodeColumns(ctx context.Context, r *record) error {
	for i, c := range t.columns {
		if v := r.values[len(t.parts)+i]; c.searched() && v != nil && r.search[i] == nil {
			var err error
			if r.search[i], err = c.appendSearch(ctx, nil, v); err != nil {
				return fmt.Errorf("column %q: %w", c.name, err)
			}
		}
	}
	return nil
}

// encodeKey sets the key of a record.
func (t *view) encodeKey(ctx context.Context, r *record) (err error) {
	r.key = append(r.key, t.prefix...)
	for i, c := range t.parts {
		if r.key, err = c.appendSearch(ctx, r.key, r.values[i]); err != nil {
			return fmt.Errorf("key part %q: %w", c.name, err)
		}
	}
	if len(r.key) > driver.MaxRowKey {
		return fmt.Errorf("%w: the row key has %d bytes, at most %d", driver.ErrTooLarge, len(r.key), driver.MaxRowKey)
	}
	return nil
}

// value returns the checked value of the column in a row, or nil for null.
func (c *column) value(row Row) (any, error) {
	v, ok := row[c.name]
	if !ok || v == nil {
		return nil, nil
	}
	v, err := c.typ.normalize(v)
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", c.name, err)
	}
	return v, nil
}

// Cells of a row, by qualifier:
//
//	(empty)           the key cell: sealed {values of the key parts, and of the columns that are
//	                  not null the id and how it is stored, with the value where it is packed}. Every
//	                  row has it; it is the row's authenticated existence.
//	column id         the value of a column that is not packed: sealed, or behind the header of a
//	                  plain cell
//
// All cells of a row carry the write id of the Put that wrote it, so that a mixture of two Puts
// is noticed, and the version of the catalogue at which the writer knew the table.
//
// A row is read by what its key cell says, whatever the schema says by now. A cell that the key cell
// does not list is left over by a writer that did not know of it if the column, or the policy by which
// a tenant has a cell of it, came later than the row's version; otherwise it is of another Put.
var keyQualifier = []byte{}

// How a key cell says that a value is stored: in a cell of its own, or packed, in so many bytes and
// packedCell more.
const (
	sealedCell = 0
	clearCell  = 1
	packedCell = 2
)

const (
	plainFormat   = 1 // first byte of a plain cell; sealed cells have seal's
	plainOverhead = 1 + 4 + 16
)

// places builds the associated data of one row's cells, in one buffer.
type places struct {
	buf seal.Place
	n   int // length of the part that all cells of the row share
}

// of makes the places those of another row.
func (p *places) of(t *view, row []byte) *places {
	// Room for the lengths of the row key and the qualifier, the longest qualifier, and the header
	// that sealing appends: the buffer is not moved for a row.
	p.buf = append(slices.Grow(p.buf[:0], len(t.place)+4+len(row)+4+len(columnID{})+seal.HeaderSize), t.place...)
	p.buf = p.buf.Append(row)
	p.n = len(p.buf)
	return p
}

func (t *view) places(row []byte) *places { return new(places).of(t, row) }

// at returns the place of a cell. It is valid until the next call.
func (p *places) at(qualifier []byte) seal.Place { return p.buf[:p.n].Append(qualifier) }

// scratch is memory that is used again from row to row.
type scratch struct {
	where     places
	key, cell []byte // what was opened last
}

// mutation returns what a Put of the record does to its row.
func (t *view) mutation(r *record) driver.Mutation {
	m := driver.Mutation{Row: r.key}
	where := t.places(r.key)
	header := seal.Header{Policy: max(t.version, r.version), Write: r.write}

	var key, packed []byte
	for i, c := range t.parts {
		key = appendSized(key, c.typ.append(nil, r.values[i]))
	}
	m.Puts = make([]driver.Cell, 1, 1+len(t.columns))
	for _, i := range t.byID {
		c, v := t.stored[i], r.values[len(t.parts)+i]
		switch {
		case c.of != nil:
			if !c.packed && !c.converted {
				m.Deletes = append(m.Deletes, c.id[:])
			}
		case v != nil && c.packed:
			packed = c.typ.append(packed[:0], v)
			key = binary.AppendUvarint(append(key, c.id[:]...), uint64(len(packed))+packedCell)
			key = append(key, packed...)
			if c.varies {
				m.Deletes = append(m.Deletes, c.id[:])
			}
		case v != nil:
			stored := byte(sealedCell)
			if c.clear() {
				stored = clearCell
			}
			key = append(append(key, c.id[:]...), stored)
			m.Puts = append(m.Puts, driver.Cell{Qualifier: c.id[:], Value: c.cell(header, r.posted(i), v, where)})
		case !c.packed || c.varies:
			m.Deletes = append(m.Deletes, c.id[:])
		}
	}
	m.Puts[0] = driver.Cell{Qualifier: keyQualifier, Value: t.keyCell(header, key, where)}
	return m
}

// cell returns the cell of a value. The sealed cell of a searched column begins with what its
// posting carries: so a posting is checked against the truth without computing it again, and the
// posting of an old row can be named.
func (c *column) cell(h seal.Header, search []byte, v any, where *places) []byte {
	if c.clear() {
		return c.typ.append(plainCell(h, 16), v)
	}
	plaintext := make([]byte, 0, 64)
	if c.searched() {
		plaintext = append(plaintext, search...)
	}
	return c.sealer.Seal(nil, h, c.typ.append(plaintext, v), where.at(c.id[:]))
}

// plainCell returns the beginning of a plain cell, with room for n bytes more.
func plainCell(h seal.Header, n int) []byte {
	b := append(make([]byte, 0, plainOverhead+n), plainFormat)
	b = binary.BigEndian.AppendUint32(b, h.Policy)
	return append(b, h.Write[:]...)
}

// sealed reports whether a cell is not a plain one.
func sealed(cell []byte) bool { return len(cell) > 0 && cell[0] != plainFormat }

// openPlain returns what is in a plain cell.
func openPlain(cell []byte) ([]byte, seal.Header, error) {
	var h seal.Header
	if len(cell) < plainOverhead || cell[0] != plainFormat {
		return nil, h, errors.New("not a plain cell")
	}
	h.Policy = binary.BigEndian.Uint32(cell[1:])
	copy(h.Write[:], cell[5:])
	return cell[plainOverhead:], h, nil
}

// keyCell returns the key cell with the given content. It is sealed unless nothing of the table
// is encrypted.
func (t *view) keyCell(h seal.Header, content []byte, where *places) []byte {
	if t.clear {
		return append(plainCell(h, len(content)), content...)
	}
	return t.keySealer.Seal(nil, h, content, where.at(keyQualifier))
}

// openKeyCell returns the content of a key cell. One that was sealed with a key that was added later
// is a newerRow: what its header says of that is not authenticated, but the next view opens it, or
// there is none.
func (t *view) openKeyCell(cell []byte, s *scratch) ([]byte, seal.Header, error) {
	if t.clear {
		b, h, err := openPlain(cell)
		if err != nil {
			err = fmt.Errorf("key cell: %w: %w", ErrFormat, err)
		}
		return b, h, err
	}
	b, h, err := t.keySealer.Open(s.key[:0], cell, s.where.at(keyQualifier))
	if errors.Is(err, seal.ErrWrongKey) && h.Policy > t.version {
		return nil, h, newerRow(h.Policy)
	}
	if err != nil {
		return nil, h, fmt.Errorf("key cell: %w", sealError(err))
	}
	s.key = b
	return b, h, nil
}

// open returns the value in a cell, which is in the clear or not, the write it belongs to and, for
// a searched column, what its posting carries.
func (c *column) open(cell []byte, clear bool, s *scratch) (value any, write writeID, search []byte, err error) {
	// One that is sealed counts where it may be plain: a conversion that makes it plain and one that
	// seals it leave such a row if they are made at the same time. In the other direction that cannot
	// be: of two values with one timestamp the greater one is left, and sealed cells begin with a
	// greater byte. Nor could it count, since anybody can write a plain cell.
	clear = clear && !(c.sealer != nil && sealed(cell))
	if len(cell) > 0 && (cell[0] == plainFormat) != clear || !clear && c.sealer == nil {
		return nil, write, nil, fmt.Errorf("column %q: %w: the cell is not stored as the key cell says", c.name, ErrTampered)
	}
	if clear {
		b, h, err := openPlain(cell)
		if err == nil {
			value, err = c.typ.parse(b)
		}
		if err == nil && c.searched() {
			search, err = c.appendSearch(context.Background(), nil, value) // computes nothing that could block
		}
		if err != nil {
			return nil, write, nil, fmt.Errorf("column %q: %w: %w", c.name, ErrFormat, err)
		}
		return value, h.Write, search, nil
	}
	b, h, err := c.sealer.Open(s.cell[:0], cell, s.where.at(c.id[:]))
	if err != nil {
		return nil, write, nil, fmt.Errorf("column %q: %w", c.name, sealError(err))
	}
	s.cell = b
	if c.searched() {
		n := c.size
		if len(b) < n {
			return nil, write, nil, fmt.Errorf("column %q: %w: the cell is too short", c.name, ErrFormat)
		}
		search, b = bytes.Clone(b[:n]), b[n:]
	}
	if value, err = c.typ.parse(b); err != nil {
		return nil, write, nil, fmt.Errorf("column %q: %w: %w", c.name, ErrFormat, err)
	}
	return value, h.Write, search, nil
}

// errTornRow says that the cells of a row are not all of one write. The reader reads again.
var errTornRow = errors.New("cells of two writes")

// decode opens a row as the database returned it: its key cell, and of the columns those in want,
// by position, where nil means all. It returns nil for a row without cells, and for one that was
// deleted.
//
// Nothing of the record is in the scratch memory.
func (t *view) decode(row driver.Row, want []bool, s *scratch) (*record, error) {
	if len(row.Cells) == 0 {
		return nil, nil
	}
	if len(row.Cells[0].Qualifier) != 0 {
		return nil, fmt.Errorf("%w: the key cell is missing", errTornRow)
	}
	s.where.of(t, row.Key)
	b, h, err := t.openKeyCell(row.Cells[0].Value, s)
	if err != nil {
		return nil, err
	}
	if h.Policy > t.version {
		return nil, newerRow(h.Policy)
	}
	if len(b) == 0 {
		return nil, nil // deleted under a condition
	}
	r := t.newRecord()
	r.key, r.write, r.version = row.Key, h.Write, h.Policy
	for i, c := range t.parts {
		var part []byte
		if part, b, err = cutSized(b); err == nil {
			r.values[i], err = c.typ.parse(part)
		}
		if err != nil {
			return nil, fmt.Errorf("key cell: part %q: %w: %w", c.name, ErrFormat, err)
		}
	}
	// Cells, entries of the key cell and t.byID are all in ascending order of ids. Entries that are
	// not in t.byID are of columns that this client does not know.
	content := entries{rest: b}
	entries, cells := content, row.Cells[1:]
	for _, i := range t.byID {
		c := t.stored[i]
		if want != nil && !want[i] {
			continue
		}
		e, err := entries.find(c.id)
		if err != nil {
			return nil, fmt.Errorf("key cell: %w: %w", ErrFormat, err)
		}
		for len(cells) > 0 && bytes.Compare(cells[0].Qualifier, c.id[:]) < 0 {
			cells = cells[1:]
		}
		// An empty cell is one that was deleted under a condition.
		found := len(cells) > 0 && bytes.Equal(cells[0].Qualifier, c.id[:]) && len(cells[0].Value) > 0
		switch {
		case e.present && !e.packed && !found, found && !e.present && c.of == nil && (c.since <= r.version || t.st.guards.noSince):
			return nil, fmt.Errorf("%w: column %q", errTornRow, c.name)
		case e.packed:
			if r.values[len(t.parts)+i], err = c.typ.parse(e.value); err != nil {
				return nil, fmt.Errorf("key cell: column %q: %w: %w", c.name, ErrFormat, err)
			}
			fallthrough
		case !e.present:
			continue // whatever cell there is belongs to an earlier write
		}
		value, write, search, err := c.open(cells[0].Value, e.clear, s)
		if err != nil {
			return nil, t.newer(cells[0].Value, err)
		}
		if write != r.write {
			return nil, fmt.Errorf("%w: column %q", errTornRow, c.name)
		}
		r.values[len(t.parts)+i] = value
		if search != nil {
			r.search[i] = search
		}
	}
	for i, c := range t.stored[len(t.columns):] {
		if v := r.values[len(t.parts)+len(t.columns)+i]; v != nil {
			r.values[t.valueIndex(c.of)] = v
		}
	}
	if t.st.lazy != nil && r.version < t.changed { // otherwise its writer knew how this view stores rows
		r.outdated, _, _ = t.older(row.Cells, content)
	}
	return r, nil
}

// A newerRow is the error of a row that was written at a later version of the catalogue, which it
// is.
type newerRow uint32

func (newerRow) Error() string { return "the row is newer than what is known of the table" }

// newer returns the error of a column's cell that could not be opened: if that is because its key came later, it
// is a newerRow. Where the header was forged, the catalogue says so.
func (t *view) newer(cell []byte, err error) error {
	if errors.Is(err, ErrWrongKey) {
		if h, malformed := seal.PeekHeader(cell); malformed == nil && h.Policy > t.version {
			return newerRow(h.Policy)
		}
	}
	return err
}

// An entry is what a key cell says of a column.
type entry struct {
	present, clear, packed bool
	value                  []byte // where it is packed
}

// entries reads the entries of a key cell in ascending order of ids.
type entries struct {
	rest   []byte
	passed int // entries of other columns than were asked for
}

// find returns the entry of a column, and passes over those before it.
func (es *entries) find(id columnID) (entry, error) {
	for len(es.rest) >= len(id) {
		order := bytes.Compare(es.rest[:len(id)], id[:])
		if order > 0 {
			break
		}
		rest := es.rest[len(id):]
		length, n := binary.Uvarint(rest)
		e := entry{present: true, clear: length == clearCell, packed: length >= packedCell}
		if length -= packedCell; !e.packed {
			length = 0
		}
		if n <= 0 || length > uint64(len(rest)-n) {
			return entry{}, errCutShort
		}
		e.value, es.rest = rest[n:n+int(length)], rest[n+int(length):]
		if order == 0 {
			return e, nil
		}
		es.passed++
	}
	if 0 < len(es.rest) && len(es.rest) < len(id) {
		return entry{}, errCutShort
	}
	return entry{}, nil
}

// posted returns what the posting of the column at a position carries, or nil.
func (r *record) posted(column int) []byte {
	if r.search == nil {
		return nil
	}
	return r.search[column]
}

func (t *view) newRecord() *record {
	r := &record{values: make([]any, len(t.parts)+len(t.stored))}
	if t.postings != nil {
		r.search = make([][]byte, len(t.stored))
	}
	return r
}

// row returns the values of the record as a Row: the key parts, and of the columns those in want.
func (t *view) row(r *record, want []bool) Row {
	row := make(Row, len(r.values))
	for i, c := range t.parts {
		row[c.name] = r.values[i]
	}
	for i, c := range t.columns {
		if v := r.values[len(t.parts)+i]; v != nil && (want == nil || want[i]) {
			row[c.name] = v
		}
	}
	return row
}

var errCutShort = errors.New("cut short")

// appendSized appends b with its length before it.
func appendSized(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// cutSized undoes appendSized and returns what follows.
func cutSized(b []byte) (sized, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, errCutShort
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}
