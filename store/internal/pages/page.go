// Package pages keeps rows in sealed pages: the layout of tables that are loaded and then mostly read (Iyer et al., EDBT 2004,
// section 4.2). A page is a row of the database with the columns of many rows of the table.
//
// Row keys are cut into parts, as partitions of the database are. In a part pages form a chain: each begins at the key of its
// row, and says at which key the next one begins. The first one begins at the least key of the part. A page is changed by a
// compare-and-set of its version. One that becomes too long is split in two steps: first it says at which keys it is to be cut,
// and still has all rows. Then the new pages are made, from the last to the first, and at last it loses their rows. Whoever
// dies in between leaves a page that is right to read, and that the next writer cuts. Pages are never removed. So a
// new page can only be made once.
package pages

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// The cells of a page. None is empty, so that no scan takes a page for a row of another layout.
var (
	plainCell   = []byte("p") // the plain mini-page, see appendHead
	sealedCell  = []byte("s") // the sealed one: a sealed value, bound to the plain one
	versionCell = []byte("v") // the first 8 bytes of the write id, by which a change is a compare-and-set
)

const (
	plainFormat = 1
	versionSize = 8

	maxBytes = 1 << 20 // of a page, from which on it is cut although it has few rows
)

// A cut is where a new page is to begin.
type cut struct {
	row int    // its first one
	key []byte // of the page
}

// A page is rows with neighbouring keys.
type page struct {
	key     []byte // of its row in the database: where it begins
	version []byte // as it was read; nil of a page that is not there yet
	high    []byte // where the next page begins; nil: the part ends before
	cuts    []cut  // where pages are to begin that are not all made yet, in ascending order
	rows    int

	plain []byte     // the cell, which the sealed one is bound to
	cells [2][]block // by side
	size  int        // bytes of its cells
	stamp int64      // the latest of its cells, where they were read with stamps
	old   bool       // it was not sealed with the newest key
	since uint32     // of the table that it was written as
}

// appendHead appends what the plain mini-page begins with:
//
//	bytes   what
//	1       format, 1
//	uvarint number of rows
//	uvarint number of cuts; for each the uvarint of its first row, and its key with the length before it
//	sized   where the next page begins; empty: the part ends before
func (p *page) appendHead(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, plainFormat), uint64(p.rows))
	dst = binary.AppendUvarint(dst, uint64(len(p.cuts)))
	for _, c := range p.cuts {
		dst = value.AppendSized(binary.AppendUvarint(dst, uint64(c.row)), c.key)
	}
	return value.AppendSized(dst, p.high)
}

// readPlain reads the plain mini-page, which anybody may have written, if it has at most so many rows.
func (p *page) readPlain(cell []byte, most int) error {
	p.plain = cell
	if len(cell) == 0 || cell[0] != plainFormat {
		return fmt.Errorf("%w: a page begins with a byte that no version writes", fault.ErrTampered)
	}
	rest := cell[1:]
	number := func() int {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(most) {
			rest = nil // which has nothing that is read next
			return -1
		}
		rest = rest[size:]
		return int(n)
	}
	p.rows = number()
	least, row := p.key, 0
	for range number() {
		c := cut{row: number()}
		var err error
		if c.key, rest, err = value.CutSized(rest); err != nil || c.row <= row || c.row >= p.rows || bytes.Compare(c.key, least) <= 0 {
			return errCut
		}
		least, row = c.key, c.row
		p.cuts = append(p.cuts, c)
	}
	high, rest, err := value.CutSized(rest)
	switch {
	case err != nil:
		return errCut
	case len(high) == 0:
	case bytes.Compare(high, least) <= 0:
		return errCut
	default:
		p.high = high
	}
	p.cells[0], err = cutBlocks(rest, p.rows)
	return err
}

// reaches reports whether a key is before the end of the page.
func (p *page) reaches(key []byte) bool { return p.high == nil || bytes.Compare(key, p.high) < 0 }

// till returns the key from which on rows may be in other pages, nil where the part ends before, if it was read for a key. A page
// that a cut makes may have been there if it begins above that key.
func (p *page) till(key []byte) []byte {
	for _, c := range p.cuts {
		if bytes.Compare(c.key, key) > 0 {
			return c.key
		}
	}
	return p.high
}

// next returns the row at which the page with a key takes over from this one: all its rows, or from a cut on. It is -1
// where neither is so.
func (p *page) next(key []byte) int {
	if bytes.Equal(key, p.high) {
		return p.rows
	}
	for _, c := range p.cuts {
		if bytes.Equal(c.key, key) {
			return c.row
		}
	}
	return -1
}

// place returns what the sealed mini-page is bound to: the table, the page, and the plain mini-page beside it.
func (p *page) place(t *rowcodec.View) seal.Place {
	sum := sha256.Sum256(p.plain)
	return t.Places(p.key).At(sealedCell).Append(sum[:])
}

// encode returns the cells of a page with the given rows. Key parts come before columns.
func encode(t *rowcodec.View, p *page, rows []*rowcodec.Record, h seal.Header) []driver.Cell {
	p.rows = len(rows)
	var minis [2][]byte // by side
	minis[0] = p.appendHead(nil)
	for at, c := range columns(t) {
		i := side(c)
		minis[i] = appendColumn(minis[i], c.Number, c.Type, at, rows)
	}
	p.plain, p.version = minis[0], h.Write[:versionSize]
	return []driver.Cell{
		{Qualifier: plainCell, Value: p.plain},
		{Qualifier: sealedCell, Value: t.SealAt(h, minis[1], p.place(t))},
		{Qualifier: versionCell, Value: p.version},
	}
}

// columns returns the key parts and columns of a table, in the order of a record's values.
func columns(t *rowcodec.View) []*rowcodec.Column { return slices.Concat(t.Parts, t.Columns) }

// open reads the plain mini-page of a row of the database and, where sealed, opens the other one. A page that a newer schema
// wrote is a [rowcodec.NewerRow].
func (t *Table) open(v *rowcodec.View, row driver.Row, sealed bool) (*page, error) {
	p := &page{key: row.Key, stamp: driver.LatestStamp(row.Cells)}
	if !hasPart(v.Spec, row.Key) {
		return nil, fmt.Errorf("%w: the key of a page is cut short", fault.ErrTampered)
	}
	for _, c := range row.Cells {
		p.size += len(c.Value)
	}
	cell := func(qualifier []byte) []byte {
		for _, c := range row.Cells {
			if bytes.Equal(c.Qualifier, qualifier) {
				return c.Value
			}
		}
		return nil
	}
	if err := p.readPlain(cell(plainCell), v.Meta.PageRows+mostChanges); err != nil || !sealed {
		return p, err
	}
	p.version = cell(versionCell)
	sealedPage := cell(sealedCell)
	body, h, err := t.body(v, p, sealedPage)
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(p.version, h.Write[:versionSize]):
		return nil, fmt.Errorf("%w: the cells of a page are of different writes", fault.ErrTampered)
	case h.Policy > v.Since:
		return nil, rowcodec.NewerRow(h.Policy)
	}
	p.since = h.Policy
	p.old = !v.Meta.Clear && !v.KeySealer.Newest(sealedPage)
	p.cells[1], err = cutBlocks(body, p.rows)
	return p, err
}

// body returns what a sealed mini-page has, from memory where it was opened before.
func (t *Table) body(v *rowcodec.View, p *page, cell []byte) ([]byte, seal.Header, error) {
	if known := t.cache.get(p, cell); known != nil {
		t.cached.Add(1)
		return known.body, known.header, nil
	}
	body, h, err := v.OpenAt(nil, cell, p.place(v))
	if err != nil {
		return nil, h, err
	}
	t.opened.Add(1)
	t.cache.put(p, cell, body, h)
	return body, h, nil
}

// read returns the rows of a page with the values of wanted columns; nil wants all.
func (p *page) read(t *rowcodec.View, want []bool) ([]*rowcodec.Record, error) {
	rows := make([]*rowcodec.Record, p.rows)
	for i := range rows {
		rows[i] = t.NewRecord()
	}
	for at, c := range columns(t) {
		if want != nil && !want[at] {
			continue
		}
		for _, one := range p.cells[side(c)] {
			if one.number != uint64(c.Number) {
				continue
			}
			if err := one.read(c.Type, at, rows); err != nil {
				return nil, fmt.Errorf("%w: column %q of a page has a value that its type has not", fault.ErrTampered, c.Name)
			}
			break
		}
	}
	return rows, nil
}

// side returns which mini-page has a column: 0 is the plain one, 1 the sealed one.
func side(c *rowcodec.Column) int {
	if c.Clear() {
		return 0
	}
	return 1
}

// newer reports whether a page was written with a schema that this client does not know, and since when there is one.
func newer(err error) (uint32, bool) {
	var row rowcodec.NewerRow
	ok := errors.As(err, &row)
	return uint32(row), ok
}
