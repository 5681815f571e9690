// Package keyuse counts what of a table is under which key: cells by the keys that sealed them, and index entries, rows and
// records of indexes by the search keys that they are found by.
package keyuse

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pseudonym"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// mostKeyIDs bounds the memory of Count, whatever ids the database makes up. A table has at most
// 1,000 columns, and a key more for each rotation. With tenants each has keys of its own for each
// column: then mostTenantKeys counts, which is some 30 MB.
const mostKeyIDs, mostTenantKeys = 1 << 16, 1 << 18

// Count reads a table and counts what of it is under which key: cells as their headers say, index entries as their keys do.
// progress may be nil. It returns the number of rows also with an error.
func Count(ctx context.Context, tbl *session.Table, progress func(rows int)) (use inspect.KeyUse, rows int, err error) {
	c := &counter{
		tbl: tbl, tenants: tbl.Now().Meta.Tenants && !tbl.Bound(), most: mostKeyIDs,
		cells: make(map[sealedBy]int), deleted: make(map[sealedBy]int), entries: make(map[foundBy]int), rows: make(map[pseudonym.Token]int),
		known: make(map[pseudonym.Token]bool), columns: map[string]bool{string(rowcodec.KeyQualifier): true},
		indexes: indexes{db: tbl.Database(), units: make(map[string]map[string]int)},
	}
	if c.tenants {
		c.most = mostTenantKeys
	}
	if rows, err = c.readRows(ctx, progress); err == nil {
		err = c.readPostings(ctx)
	}
	// What keys there are is asked for after the scans: then it has those of all rows.
	switch {
	case err != nil:
	case c.tenants:
		err = tbl.EachTenant(ctx, func(of *session.Table) error { return c.attribute(ctx, of) })
	default:
		err = c.attribute(ctx, tbl)
	}
	if err == nil {
		err = c.rest(ctx)
	}
	if err != nil {
		return inspect.KeyUse{}, rows, fault.Gone(err)
	}
	return c.use, rows, nil
}

// A counter is one execution of Count.
type counter struct {
	tbl     *session.Table
	tenants bool // the rows of all are counted
	most    int  // keys that are told apart
	use     inspect.KeyUse

	// What was met, and is not attributed to a key yet.
	cells   map[sealedBy]int
	deleted map[sealedBy]int // of the cells, key cells without content
	entries map[foundBy]int
	rows    map[pseudonym.Token]int

	known   map[pseudonym.Token]bool // the tenants that there are
	columns map[string]bool          // qualifiers of cells that the table has, or had
	indexes indexes
}

// sealedBy is what the cells that a KeyUse counts have in common. Of those that are not sealed it
// is no more than whose they are.
type sealedBy struct {
	of        pseudonym.Token
	sealed    bool
	qualifier string
	key       seal.KeyID
}

// foundBy is what index entries have in common that one search key leads to: each id of a column has a key of its own.
type foundBy struct {
	of     pseudonym.Token
	column meta.ColumnID
}

// whose returns the tenant whose token is at a position of a key, or the zero one where all that is counted is of one.
func (c *counter) whose(key []byte, at int) (of pseudonym.Token) {
	if c.tenants {
		of = pseudonym.At(key, at)
	}
	return of
}

// cell counts a cell.
func (c *counter) cell(of pseudonym.Token, qualifier, value []byte) {
	at := sealedBy{of: of}
	if value[0] != rowcodec.PlainFormat {
		id, err := seal.PeekKeyID(value)
		if err != nil {
			c.use.Unknown++
			return
		}
		at.sealed, at.qualifier, at.key = true, string(qualifier), id
	}
	if _, known := c.cells[at]; !known && len(c.cells) == c.most {
		c.use.Unknown++
		return
	}
	c.cells[at]++
	if at.sealed && bytes.Equal(qualifier, rowcodec.KeyQualifier) && len(value) == seal.Overhead {
		c.deleted[at]++
	}
}

// entry counts an index entry of a column.
func (c *counter) entry(of pseudonym.Token, column meta.ColumnID) {
	at := foundBy{of, column}
	if _, known := c.entries[at]; !known && len(c.entries) == c.most {
		c.use.Left++
		return
	}
	c.entries[at]++
}

// readRows counts the cells of all rows, and what the database's own indexes have of them.
func (c *counter) readRows(ctx context.Context, progress func(rows int)) (rows int, err error) {
	t := c.tbl.Now()
	all, served := chunks.Under(t.Prefix), make(map[string]meta.ColumnID)
	for _, s := range t.Stored {
		if s.ServerIndex && !s.Converted {
			all.Cells.Indexes = append(all.Cells.Indexes, s.IndexName())
			served[s.IndexName()] = s.Id
		}
	}
	for row, err := range t.Data.Scan(ctx, all) {
		if err != nil {
			return rows, err
		}
		of, there := c.whose(row.Key, 0), false
		for _, cell := range row.Cells {
			if len(cell.Value) > 0 { // or it was deleted under a condition
				there = true
				c.cell(of, cell.Qualifier, cell.Value)
			}
			for _, v := range cell.Index {
				if v.Value != nil {
					c.entry(of, served[v.Index])
				}
			}
		}
		if _, known := c.rows[of]; there && (known || len(c.rows) < c.most) {
			c.rows[of]++
		}
		if rows++; progress != nil && rows%chunks.FullBatch == 0 {
			progress(rows)
		}
	}
	return rows, nil
}

// readPostings counts index entries, also those of columns that were dropped, and the copies of rows that they have.
func (c *counter) readPostings(ctx context.Context) error {
	t, err := c.tbl.Refresh(ctx)
	if err != nil || t.Postings == nil {
		return err
	}
	leads := [][]byte{nil}
	if c.tbl.Bound() {
		leads = nil
		for _, s := range t.Stored {
			if s.Posted() {
				leads = append(leads, s.Lead)
			}
		}
		for _, id := range t.Meta.Dropped {
			leads = append(leads, slices.Concat(id[:], t.Prefix))
		}
	}
	copies := t.Meta.Copies()
	for _, lead := range leads {
		for posting, err := range t.Postings.Scan(ctx, chunks.Under(lead)) {
			if err != nil {
				return err
			}
			var column meta.ColumnID
			copy(column[:], posting.Key)
			of := c.whose(posting.Key, len(column))
			if column != (meta.ColumnID{}) { // or it says that a row is being deleted
				c.entry(of, column)
			}
			if copies && len(posting.Cells) > 0 && rowcodec.HasCopy(posting.Cells[0].Value) {
				c.cell(of, rowcodec.KeyQualifier, posting.Cells[0].Value) // which has the key
			}
		}
	}
	return nil
}

// attribute says which of what was met is under the keys of the table, for the tenant that it is open for if it is.
func (c *counter) attribute(ctx context.Context, tbl *session.Table) error {
	t, err := tbl.Refresh(ctx)
	if err != nil {
		return err
	}
	of := c.whose(t.Prefix, 0)
	c.known[of] = true
	for _, s := range t.Stored {
		c.columns[string(s.Id[:])] = true
	}
	if err := c.sealers(t.View, of); err != nil {
		return err
	}
	return c.searches(ctx, tbl, of)
}

// rest counts what no key that is known is of.
func (c *counter) rest(ctx context.Context) error {
	for at, n := range c.cells {
		switch {
		case !c.known[at.of]:
			c.use.Orphans += n
		case !at.sealed:
			c.use.Plain += n
		case c.columns[at.qualifier]:
			c.use.Unknown += n
		default:
			c.use.Dropped += n
		}
	}
	for _, n := range c.entries {
		c.use.Left += n
	}
	sealed, unknown, err := c.tbl.Database().Catalogue.About(ctx, c.tbl.ID())
	c.use.Catalogue = sealed
	c.use.Unknown += unknown
	return err
}

// sealers takes over the cells of the keys that seal cells.
func (c *counter) sealers(t *rowcodec.View, of pseudonym.Token) error {
	count := func(column string, qualifier []byte, sealers *keyring.Sealers, current bool) error {
		keys, err := sealers.All()
		for i, key := range keys {
			id := key.KeyID()
			at := sealedBy{of, true, string(qualifier), id}
			c.use.Keys = append(c.use.Keys, inspect.KeyCount{
				Tenant: t.TenantName(), Column: column, ID: hex.EncodeToString(id[:]), Newest: current && i == 0, Cells: c.cells[at], Deleted: c.deleted[at],
			})
			delete(c.cells, at)
		}
		return err
	}
	err := count("", rowcodec.KeyQualifier, t.KeySealer, true)
	for _, col := range t.Columns {
		for _, id := range append([]*rowcodec.Column{col}, col.Former...) {
			if err == nil {
				err = count(col.Name, id.Id[:], id.Sealer, id == col && !col.Clear())
			}
		}
	}
	return err
}
