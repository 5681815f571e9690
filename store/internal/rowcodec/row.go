package rowcodec

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Record is a row on its way to or from the database.
type Record struct {
	Key     []byte
	Values  []any // by position: key parts, then stored columns
	Write   WriteID
	Fresh   bool      // the key was drawn at random: there is no earlier row
	Insert  bool      // the caller says that there is no earlier row
	OfLoad  bool      // which may have put it before
	AsOf    time.Time // when the write is to count as made, where it is not now: see driver.Mutation
	Search  [][]byte  // by stored column: what its posting carries, or its server index; nil where it has none, or what was read does not say
	Expires int64     // seconds since 1970; 0 is never

	// TableTTL says that this client puts the row, which is to live as long as the table says when the call returns.
	TableTTL bool

	Version uint32 // of the catalogue, of a row that was read; 0 of a new one

	attempt [8]byte // that its postings are of until they have copies
}

type WriteID [16]byte

// CheckNames returns an error if a row names a column that there is not.
func (t *View) CheckNames(row RowValues) error {
	for name := range row {
		if t.ByName[name] == nil {
			return fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, name)
		}
	}
	return nil
}

// Check turns a row into a record with its values, without touching the database.
func (t *View) Check(row RowValues) (*Record, error) {
	if err := t.CheckNames(row); err != nil {
		return nil, err
	}
	tie, ofLoad := row[t.Parts[len(t.Parts)-1].Name].(LoadTie)
	r, err := t.checkValues(valueIn(row), ofLoad)
	if ofLoad && err == nil && t.Meta.AppendOnly() {
		r.OfLoad, r.Write = true, t.writeOf(tie)
	}
	return r, err
}

// CheckValues does so with what a function returns as the normalized values of parts and columns: nil for null.
func (t *View) CheckValues(given func(*Column) (any, error)) (*Record, error) {
	return t.checkValues(given, false)
}

func (t *View) checkValues(given func(*Column) (any, error), ofLoad bool) (*Record, error) {
	r := t.NewRecord()
	rand.Read(r.Write[:])
	less := 0 // bytes of a key than elsewhere
	if t.Meta.AppendOnly() {
		less = len(t.DeletionLead()) // or nobody could delete the row
	}
	if err := t.checkKey(r, given, less); err != nil {
		return nil, err
	}
	if t.Meta.AppendOnly() && !r.Fresh && !ofLoad {
		return nil, fmt.Errorf("%w: key part %q is named: rows of a table with AppendOnly are never replaced, so that the store draws it; "+
			"leave it out, or give a LoadTie", fault.ErrColumn, t.Parts[len(t.Parts)-1].Name)
	}
	var err error
	if r.Expires, err = t.expires(); err != nil {
		return nil, err
	}
	r.TableTTL = !t.OwnTTL
	for i, c := range t.Columns {
		v, err := c.checked(given)
		if err != nil {
			return nil, err
		}
		r.Values[len(t.Parts)+i] = v
	}
	return r, t.CheckSize(r)
}

// CheckKey sets the values of the record's key parts.
func (t *View) CheckKey(r *Record, row RowValues) error { return t.checkKey(r, valueIn(row), 0) }

func (t *View) checkKey(r *Record, given func(*Column) (any, error), less int) error {
	for i, c := range t.Parts {
		v, err := c.checked(given)
		if err != nil {
			return err
		}
		if v == nil {
			if c.Encryption != meta.TieBreaker {
				return fmt.Errorf("%w: key part %q is null", fault.ErrColumn, c.Name)
			}
			var tie [16]byte
			rand.Read(tie[:])
			v, r.Fresh = tie, true
		}
		r.Values[i] = v
	}
	return t.checkKeySize(r, driver.MaxRowKey-less)
}

// valueIn returns a function for the values of a row, which may have them as a struct does.
func valueIn(row RowValues) func(*Column) (any, error) {
	return func(c *Column) (any, error) {
		v := value.Given(row[c.Name])
		if v == nil || v == (value.Tie{}) && c.Encryption == meta.TieBreaker {
			return nil, nil
		}
		return c.Type.Normalize(v)
	}
}

// checked returns the value that is given for the column, or nil for null, if the column takes it.
func (c *Column) checked(given func(*Column) (any, error)) (any, error) {
	v, err := given(c)
	if err == nil && v != nil && c.Type.Unordered(v) && (c.Part >= 0 || c.Searched()) {
		err = value.ErrNaN
	}
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", c.Name, err)
	}
	return v, nil
}

// Cells of a row, by qualifier:
//
//	(empty)           the key cell: sealed {values of the key parts, and of the columns that are
//	                  not null the id and how it is stored, with the value where it is packed; of a
//	                  row that expires first when, as a column of the id 0}. Every
//	                  row has it; it is the row's authenticated existence.
//	column id         the value of a column that is not packed: sealed, or after the header of a
//	                  plain cell
//
// All cells of a row carry the write id of the Put that wrote it, so that a mixture of two Puts
// is noticed, and the version of the catalogue at which the writer knew the table.
//
// A row is read by what its key cell says, whatever the schema says by now. A cell that the key cell
// does not list is left over by a writer that did not know of it if the column, or the policy by which
// a tenant has a cell of it, came later than the row's version; otherwise it is of another Put.
var KeyQualifier = []byte{}

// How a key cell says that a value is stored: in a cell of its own, or packed, in so many bytes and
// packedCell more.
const (
	SealedCell = 0
	clearCell  = 1
	PackedCell = 2
)

const (
	PlainFormat   = 1 // first byte of a plain cell; sealed cells have seal's
	PlainOverhead = 1 + 4 + 16
)

// places builds the associated data of one row's cells, in one buffer.
type places struct {
	buf seal.Place
	n   int // length of the part that all cells of the row share
}

// Of makes the places those of another row.
func (p *places) Of(t *View, row []byte) *places {
	// Room for the lengths of the row key and the qualifier, the longest qualifier, and the header
	// that sealing appends: the buffer is not moved for a row.
	p.buf = append(slices.Grow(p.buf[:0], len(t.place)+4+len(row)+4+len(meta.ColumnID{})+seal.HeaderSize), t.place...)
	p.buf = p.buf.Append(row)
	p.n = len(p.buf)
	return p
}

func (t *View) Places(row []byte) *places { return new(places).Of(t, row) }

// At returns the place of a cell. It is valid until the next call.
func (p *places) At(qualifier []byte) seal.Place { return p.buf[:p.n].Append(qualifier) }

// Scratch is memory that is used again from row to row.
type Scratch struct {
	Where     places
	key, cell []byte // what was opened last
}

// Mutation returns what a Put of the record does to its row.
func (t *View) Mutation(r *Record) driver.Mutation {
	m := driver.Mutation{Row: r.Key, AsOf: r.AsOf}
	where := t.Places(r.Key)
	header := seal.Header{Policy: max(t.Version, r.Version), Write: r.Write}

	var packed []byte
	key := t.appendKey(nil, r)
	m.Puts = make([]driver.Cell, 1, 1+len(t.Columns))
	for _, i := range t.byID {
		c, v := t.Stored[i], r.Values[len(t.Parts)+i]
		switch {
		case c.Of != nil:
			if !c.Packed && !c.Converted {
				m.Deletes = append(m.Deletes, c.Id[:])
			}
		case v != nil && c.Packed:
			packed = c.Type.AppendStored(packed[:0], v)
			key = c.appendPacked(key, packed)
			if c.Varies {
				m.Deletes = append(m.Deletes, c.Id[:])
			}
		case v != nil:
			stored := byte(SealedCell)
			if c.Clear() {
				stored = clearCell
			}
			key = append(append(key, c.Id[:]...), stored)
			m.Puts = append(m.Puts, driver.Cell{Qualifier: c.Id[:], Value: c.Cell(header, r.posted(i), v, where)})
		case !c.Packed || c.Varies:
			m.Deletes = append(m.Deletes, c.Id[:])
		}
	}
	m.Puts[0] = driver.Cell{Qualifier: KeyQualifier, Value: t.KeyCell(header, key, where), Index: t.indexed(r)}
	t.keep(m.Puts, r.Expires)
	return m
}

// Backdates reports whether rows may be put that count as made earlier, if nobody has written them before. Those of a table with
// Schema.Conditional must be one cell: what replaces a row there, or marks it as deleted, touches no cell that it has not seen. Nor
// may postings lead to it, since these have copies of rows.
func (t *View) Backdates() bool {
	return !t.Meta.Conditional || !slices.ContainsFunc(t.Stored, func(c *Column) bool { return c.Of != nil || !c.Packed || c.Varies || c.Searched() })
}

// indexed returns what the key cell of a record has in all server indexes. In those of former columns it has nothing.
func (t *View) indexed(r *Record) (all []driver.IndexValue) {
	for i, c := range t.Stored {
		if !c.ServerIndex || c.Converted {
			continue
		}
		v := driver.IndexValue{Index: c.IndexName()}
		if search := r.posted(i); search != nil && c.Of == nil {
			v.Value = slices.Concat(c.Lead, search)
		}
		all = append(all, v)
	}
	return all
}

// IndexName returns the name of the server index of the column.
func (c *Column) IndexName() string { return meta.IndexName(c.Id) }

// appendKey appends what a key cell begins with.
func (t *View) appendKey(b []byte, r *Record) []byte {
	for i, c := range t.Parts {
		b = value.AppendSized(b, c.Type.AppendStored(nil, r.Values[i]))
	}
	return appendExpiry(b, r.Expires)
}

// appendPacked appends the entry of a column with its value.
func (c *Column) appendPacked(b, value []byte) []byte {
	b = binary.AppendUvarint(append(b, c.Id[:]...), uint64(len(value))+PackedCell)
	return append(b, value...)
}

// Cell returns the cell of a value. The sealed cell of a searched column begins with what its
// posting carries: so a posting is checked against the truth without computing it again, and the
// posting of an old row can be named.
func (c *Column) Cell(h seal.Header, search []byte, v any, where *places) []byte {
	if c.Clear() {
		return c.Type.AppendStored(plainCell(h, 16), v)
	}
	plaintext := make([]byte, 0, 64)
	if c.Searched() {
		plaintext = append(plaintext, search...)
	}
	return c.Sealer.Seal(nil, h, c.Type.AppendStored(plaintext, v), where.At(c.Id[:]))
}

// plainCell returns the beginning of a plain cell, with room for n bytes more.
func plainCell(h seal.Header, n int) []byte {
	b := append(make([]byte, 0, PlainOverhead+n), PlainFormat)
	b = binary.BigEndian.AppendUint32(b, h.Policy)
	return append(b, h.Write[:]...)
}

// Sealed reports whether a cell is not a plain one.
func Sealed(cell []byte) bool { return len(cell) > 0 && cell[0] != PlainFormat }

// OpenPlain returns what is in a plain cell, and its header.
func OpenPlain(cell []byte) ([]byte, seal.Header, error) {
	var h seal.Header
	switch {
	case len(cell) < PlainOverhead:
		return nil, h, fmt.Errorf("%w: a plain cell has %d bytes, at least %d are needed", fault.ErrTampered, len(cell), PlainOverhead)
	case cell[0] != PlainFormat:
		return nil, h, fmt.Errorf("%w: not a plain cell: its first byte is %d", fault.ErrTampered, cell[0])
	}
	h.Policy = binary.BigEndian.Uint32(cell[1:])
	copy(h.Write[:], cell[5:])
	return cell[PlainOverhead:], h, nil
}

// unread returns the error of a key cell, or copy, whose content cannot be read: what is sealed is as a client has written it,
// and anybody can change what is plain.
func (t *View) unread() error {
	if t.clear {
		return fault.ErrTampered
	}
	return fault.ErrFormat
}

// KeyCell returns the key cell with the given content. It is sealed unless nothing of the table
// is encrypted.
func (t *View) KeyCell(h seal.Header, content []byte, where *places) []byte {
	return t.SealAt(h, content, where.At(KeyQualifier))
}

// SealAt seals something as a key cell is, for a place of the table.
func (t *View) SealAt(h seal.Header, content []byte, place seal.Place) []byte {
	if t.clear {
		return append(plainCell(h, len(content)), content...)
	}
	return t.KeySealer.Seal(nil, h, content, place)
}

// OpenKeyCell returns the content of a key cell. One that was sealed with a key that was added later
// is a newerRow: what its header says of that is not authenticated, but the next view opens it, or
// there is none.
func (t *View) OpenKeyCell(cell []byte, s *Scratch) ([]byte, seal.Header, error) {
	b, h, err := t.openAt(cell, KeyQualifier, s)
	if err != nil && !errors.As(err, new(NewerRow)) {
		err = fmt.Errorf("key cell: %w", err)
	}
	return b, h, err
}

// openAt opens what is sealed as the key cell is, at a place of the row.
func (t *View) openAt(cell, qualifier []byte, s *Scratch) ([]byte, seal.Header, error) {
	b, h, err := t.OpenAt(s.key[:0], cell, s.Where.At(qualifier))
	if err == nil && !t.clear {
		s.key = b
	}
	return b, h, err
}

// OpenAt undoes SealAt. It appends to dst what was sealed; what is plain stays where it is.
func (t *View) OpenAt(dst, cell []byte, place seal.Place) ([]byte, seal.Header, error) {
	if t.clear {
		return OpenPlain(cell)
	}
	b, h, err := t.KeySealer.Open(dst, cell, place)
	if errors.Is(err, seal.ErrWrongKey) && h.Policy > t.Version {
		return nil, h, NewerRow(h.Policy)
	}
	if err != nil {
		return nil, h, fault.OfSeal(err)
	}
	return b, h, nil
}

// open returns the value in a cell, which is in the clear or not, the write it belongs to and, for
// a searched column, what its posting carries.
func (c *Column) open(cell []byte, clear bool, s *Scratch) (value any, write WriteID, search []byte, err error) {
	// One that is sealed counts where it may be plain: a conversion that makes it plain and one that
	// seals it leave such a row if they are made at the same time. In the other direction that cannot
	// be: of two values with one timestamp the greater one is left, and sealed cells begin with a
	// greater byte. Nor could it count, since anybody can write a plain cell.
	clear = clear && !(c.Sealer != nil && Sealed(cell))
	if len(cell) > 0 && (cell[0] == PlainFormat) != clear || !clear && c.Sealer == nil {
		return nil, write, nil, fmt.Errorf("column %q: %w: the cell is not stored as the key cell says", c.Name, fault.ErrTampered)
	}
	if clear {
		b, h, err := OpenPlain(cell)
		if err != nil {
			return nil, write, nil, fmt.Errorf("column %q: %w", c.Name, err)
		}
		if value, err = c.Type.Parse(b); err == nil && c.Searched() {
			search, err = c.AppendSearch(context.Background(), nil, value) // computes nothing that could block
		}
		if err != nil {
			return nil, write, nil, fmt.Errorf("column %q: %w: %w", c.Name, fault.ErrTampered, err)
		}
		return value, h.Write, search, nil
	}
	b, h, err := c.Sealer.Open(s.cell[:0], cell, s.Where.At(c.Id[:]))
	if err != nil {
		return nil, write, nil, fmt.Errorf("column %q: %w", c.Name, fault.OfSeal(err))
	}
	s.cell = b
	if c.Searched() {
		n := c.Size
		if len(b) < n {
			return nil, write, nil, fmt.Errorf("column %q: %w: the cell is too short", c.Name, fault.ErrFormat)
		}
		search, b = bytes.Clone(b[:n]), b[n:]
	}
	if value, err = c.Type.Parse(b); err != nil {
		return nil, write, nil, fmt.Errorf("column %q: %w: %w", c.Name, fault.ErrFormat, err)
	}
	return value, h.Write, search, nil
}

// ErrTornRow is what the error is of a row whose cells are not all of one write. The reader reads again.
var ErrTornRow = errors.New("torn row")

// A tornRow is such an error, and says what of the row shows it.
type tornRow string

func (e tornRow) Error() string      { return string(e) }
func (tornRow) Is(target error) bool { return target == ErrTornRow }

// Decode opens a row as the database returned it: its key cell, and of the columns those in want,
// by position, where nil means all. It returns nil for a row without cells, and for one that was
// deleted or has expired, whatever is left of it.
//
// Nothing of the record is in the scratch memory.
func (t *View) Decode(row driver.Row, want []bool, s *Scratch) (*Record, error) {
	if len(row.Cells) == 0 {
		return nil, nil
	}
	if len(row.Cells[0].Qualifier) != 0 {
		if t.Meta.Expires() {
			return nil, nil // the database was slow to remove the others
		}
		return nil, tornRow("the key cell is missing")
	}
	s.Where.Of(t, row.Key)
	b, h, err := t.OpenKeyCell(row.Cells[0].Value, s)
	if err != nil {
		return nil, err
	}
	return t.decode(row.Key, b, h, row.Cells[1:], want, s)
}

// decode turns the content of a key cell, or of a copy, and the cells of columns into a record.
func (t *View) decode(key, b []byte, h seal.Header, cells []driver.Cell, want []bool, s *Scratch) (*Record, error) {
	if h.Policy > t.Version {
		return nil, NewerRow(h.Policy)
	}
	if len(b) == 0 {
		return nil, nil // deleted under a condition
	}
	var err error
	r := t.NewRecord()
	r.Key, r.Write, r.Version = key, h.Write, h.Policy
	for i, c := range t.Parts {
		var part []byte
		if part, b, err = value.CutSized(b); err == nil {
			r.Values[i], err = c.Type.Parse(part)
		}
		if err != nil {
			return nil, fmt.Errorf("key cell: part %q: %w: %w", c.Name, t.unread(), err)
		}
	}
	if r.Expires, b, err = t.cutExpiry(b); err != nil {
		return nil, err
	}
	if t.Clock.over(r.Expires) {
		return nil, nil
	}
	if err := t.decodeColumns(r, cells, want, Entries{Rest: b}, s); err != nil {
		return nil, err
	}
	return r, nil
}

// DecodeClear is decode without any key, for columns of which each is in a plain cell: that the cells are of one write
// is seen by their headers. The record has no values of the key parts. It returns nil if it takes the key cell
// to know what the columns have. It is not for tables whose rows expire, which the key cell says.
func (t *View) DecodeClear(row driver.Row, want []bool) *Record {
	if len(row.Cells) == 0 || len(row.Cells[0].Qualifier) != 0 {
		return nil
	}
	h, err := seal.PeekHeader(row.Cells[0].Value)
	if t.clear {
		_, h, err = OpenPlain(row.Cells[0].Value)
	}
	if err != nil || h.Policy > t.Version {
		return nil
	}
	r := t.NewRecord()
	r.Key, r.Write, r.Version = row.Key, h.Write, h.Policy
	if t.decodeColumns(r, row.Cells[1:], want, Entries{allPlain: true}, nil) != nil {
		return nil
	}
	return r
}

// decodeColumns sets the values of the columns in want, as the entries of the key cell say.
func (t *View) decodeColumns(r *Record, cells []driver.Cell, want []bool, entries Entries, s *Scratch) error {
	// Cells, entries of the key cell and t.byID are all in ascending order of ids. Entries that are
	// not in t.byID are of columns that this client does not know.
	for _, i := range t.byID {
		c := t.Stored[i]
		if want != nil && !want[i] {
			continue
		}
		e, err := entries.Of(c.Id)
		if err != nil {
			return fmt.Errorf("key cell: %w: %w", t.unread(), err)
		}
		for len(cells) > 0 && bytes.Compare(cells[0].Qualifier, c.Id[:]) < 0 {
			cells = cells[1:]
		}
		// An empty cell is one that was deleted under a condition.
		found := len(cells) > 0 && bytes.Equal(cells[0].Qualifier, c.Id[:]) && len(cells[0].Value) > 0
		switch {
		case e.Present && !e.Packed && !found, found && !e.Present && c.Of == nil && c.Since <= r.Version && !t.Mends,
			found && entries.allPlain && Sealed(cells[0].Value):
			return tornRow(fmt.Sprintf("column %q", c.Name))
		case e.Packed:
			if r.Values[len(t.Parts)+i], err = c.Type.Parse(e.Value); err != nil {
				return fmt.Errorf("key cell: column %q: %w: %w", c.Name, t.unread(), err)
			}
			fallthrough
		case !e.Present:
			continue // whatever cell there is belongs to an earlier write
		}
		value, write, search, err := c.open(cells[0].Value, e.clear, s)
		if err != nil {
			return t.newer(cells[0].Value, err)
		}
		if write != r.Write {
			return tornRow(fmt.Sprintf("column %q", c.Name))
		}
		r.Values[len(t.Parts)+i] = value
		if search != nil {
			r.Search[i] = search
		}
	}
	for i, c := range t.Stored[len(t.Columns):] {
		if v := r.Values[len(t.Parts)+len(t.Columns)+i]; v != nil {
			r.Values[t.ValueIndex(c.Of)] = v
		}
	}
	return nil
}

// A NewerRow is the error of a row that was written at a later version of the catalogue, which it
// is.
type NewerRow uint32

func (NewerRow) Error() string { return "the row is newer than what is known of the table" }

// newer returns the error of a column's cell that could not be opened: if that is because its key came later, it
// is a newerRow. Where the header was forged, the catalogue says so.
func (t *View) newer(cell []byte, err error) error {
	if errors.Is(err, fault.ErrWrongKey) {
		if h, malformed := seal.PeekHeader(cell); malformed == nil && h.Policy > t.Version {
			return NewerRow(h.Policy)
		}
	}
	return err
}

// An entry is what a key cell says of a column.
type entry struct {
	Present, clear, Packed bool
	Value                  []byte // where it is packed
}

// Entries reads the entries of a key cell in ascending order of ids.
type Entries struct {
	Rest     []byte
	passed   int  // entries of other columns than were asked for
	allPlain bool // there is no key cell to read: each column is taken to be in a plain cell
}

// Of returns the entry of a column, and passes over those before it.
func (es *Entries) Of(id meta.ColumnID) (entry, error) {
	if es.allPlain {
		return entry{Present: true, clear: true}, nil
	}
	for len(es.Rest) >= len(id) {
		order := bytes.Compare(es.Rest[:len(id)], id[:])
		if order > 0 {
			break
		}
		rest := es.Rest[len(id):]
		length, n := binary.Uvarint(rest)
		e := entry{Present: true, clear: length == clearCell, Packed: length >= PackedCell}
		if length -= PackedCell; !e.Packed {
			length = 0
		}
		if n <= 0 || length > uint64(len(rest)-n) {
			return entry{}, value.ErrCutShort
		}
		e.Value, es.Rest = rest[n:n+int(length)], rest[n+int(length):]
		if order == 0 {
			return e, nil
		}
		es.passed++
	}
	if 0 < len(es.Rest) && len(es.Rest) < len(id) {
		return entry{}, value.ErrCutShort
	}
	return entry{}, nil
}

// posted returns what the posting of the column at a position carries, or nil.
func (r *Record) posted(column int) []byte {
	if r.Search == nil {
		return nil
	}
	return r.Search[column]
}

func (t *View) NewRecord() *Record {
	r := &Record{Values: make([]any, len(t.Parts)+len(t.Stored))}
	if t.hasSearched {
		r.Search = make([][]byte, len(t.Stored))
	}
	return r
}

// Row returns the values of the record as a Row: the key parts that it has, and of the columns those in want.
func (t *View) Row(r *Record, want []bool) RowValues {
	row := make(RowValues, len(r.Values))
	for i, c := range t.Parts {
		if v := r.Values[i]; v != nil {
			row[c.Name] = v
		}
	}
	for i, c := range t.Columns {
		if v := r.Values[len(t.Parts)+i]; v != nil && (want == nil || want[i]) {
			row[c.Name] = v
		}
	}
	return row
}

// Again returns the record as one of another write: each attempt has postings of its own.
func (r *Record) Again() *Record {
	next := *r
	rand.Read(next.Write[:])
	return &next
}

// Anew is Again, and the record is of that write from then on, too.
func (r *Record) Anew() *Record {
	next := r.Again()
	r.Write = next.Write
	return next
}

// Outdated reports whether a row is stored in another way than this view stores rows. The row has
// all its cells. One that was deleted or has expired is not.
func (t *View) Outdated(row driver.Row, s *Scratch) (bool, error) {
	s.Where.Of(t, row.Key)
	b, _, err := t.OpenKeyCell(row.Cells[0].Value, s)
	if err != nil || len(b) == 0 { // it was deleted
		return false, err
	}
	expires, b, err := t.cutKey(b)
	if err != nil || t.Clock.over(expires) {
		return false, err
	}
	older, own, err := t.older(row.Cells, Entries{Rest: b})
	if older || err != nil {
		return older, err
	}
	cells := 0
	for _, cell := range row.Cells {
		if len(cell.Value) > 0 {
			cells++
		}
	}
	return cells != 1+own, nil
}

// cutKey passes over what a key cell begins with, and returns when the row expires and the entries.
func (t *View) cutKey(b []byte) (expires int64, entries []byte, err error) {
	for range t.Parts {
		if _, b, err = value.CutSized(b); err != nil {
			return 0, nil, fmt.Errorf("key cell: %w: %w", t.unread(), err)
		}
	}
	return t.cutExpiry(b)
}

// older reports whether the entries of a row's key cell, or those of its cells that were read, are
// stored in another way than this view stores them, and of how many columns there are cells.
func (t *View) older(cells []driver.Cell, entries Entries) (older bool, own int, err error) {
	if !t.clear && !t.KeySealer.Newest(cells[0].Value) {
		return true, 0, nil
	}
	for _, i := range t.byID {
		c := t.Stored[i]
		e, err := entries.Of(c.Id)
		switch {
		case err != nil:
			return false, 0, fmt.Errorf("key cell: %w: %w", t.unread(), err)
		case !e.Present:
			continue
		case c.Of != nil || e.Packed != c.Packed || !e.Packed && e.clear != c.Clear():
			return true, 0, nil
		case e.Packed:
			continue
		}
		own++
		at := slices.IndexFunc(cells, func(cell driver.Cell) bool { return string(cell.Qualifier) == string(c.Id[:]) })
		if at > 0 && (e.clear && Sealed(cells[at].Value) || !e.clear && !c.Sealer.Newest(cells[at].Value)) {
			return true, 0, nil
		}
	}
	// Other entries are of no column of this view.
	return entries.passed > 0 || len(entries.Rest) > 0, own, nil
}

// CheckUnordered returns an error if a record holds NaN in a column that has been searched only since.
func (t *View) CheckUnordered(r *Record) error {
	for i, c := range t.Columns {
		if v := r.Values[len(t.Parts)+i]; v != nil && c.Searched() && c.Type.Unordered(v) {
			return fmt.Errorf("column %q: %w; the row has it from before the column was changed: put null or a number there", c.Name, value.ErrNaN)
		}
	}
	return nil
}

// PairOf returns the code of a row's value and what stands for it there, nil where it has none.
func (t *View) PairOf(c *Column, r *Record) (code int64, ct []byte, err error) {
	if c.Part < 0 {
		value := r.Values[len(t.Parts)+c.Position]
		if value == nil || r.Search[c.Position] == nil {
			return 0, nil, nil
		}
		code, err = c.Type.Code(value)
		return code, bytes.Clone(r.Search[c.Position]), err
	}
	rest := r.Key[min(len(t.Prefix), len(r.Key)):]
	for i, part := range t.Parts {
		n := part.SearchSize(r.Values[i])
		if n > len(rest) {
			return 0, nil, nil
		}
		if part == c {
			code, err = c.Type.Code(r.Values[i])
			return code, bytes.Clone(rest[:c.Size]), err
		}
		rest = rest[n:]
	}
	return 0, nil, nil
}
