// Package keyring has the keys below the key of a database: it derives and unwraps them, and seals values under them.
// It reads and writes nothing.
package keyring

import (
	"encoding/hex"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// Keys is the hierarchy of keys below the master key. Those of the database, of key cells and of
// columns are random, and each is stored wrapped by the one above, so that any of them is replaced
// without the others. What has one purpose only is derived, by labels. Ids in labels and places
// are random and never used again, names are not in them, so that renaming changes no key.
//
//	master key
//	  database key (in the root of the catalogue)
//	    catalogue: sealing, names, digest     derived
//	    search keys of secure types           derived: of columns that are database-wide
//	    table: wrapping, page tokens          derived
//	      keys of key cells                   in the table's entry; the last seals, all open
//	      of each part or column, search key  in the entry: order, tokens; never replaced
//	      of each column, keys of cells       in the entry; the last seals, all open
//	      of tables elsewhere, the same two   in the entry, as other purposes
//	    keys of a tenant                      in the tenant's entry; the first finds, the last seals
//	      table: key cells, page tokens       derived, of each table with tenants
//	        part or column: search, cells     derived, by the ids of the table and the column
type Keys struct {
	Database ope.Key
	id       meta.DatabaseID
}

// New returns the keys below that of a database.
func New(database ope.Key, id meta.DatabaseID) Keys { return Keys{database, id} }

// Table returns the keys of a table.
func (k Keys) Table(id meta.TableID) Table {
	t := k.Database.Derive("table", hex.EncodeToString(id[:]))
	return Table{
		id:      id,
		wrap:    Sealer(t.Derive("wrap")),
		Page:    t.Derive("page token"),
		Secrets: k.Database.Derive("secure type"),
		shared:  meta.IndexFamily(meta.TableID(k.id)),
		Tenants: t.Derive("tenants"),
	}
}

// Of returns the keys of a table as it is described.
func (k Keys) Of(m *meta.Table) Table {
	t := k.Table(m.ID)
	t.elsewhere = m.Elsewhere()
	return t
}

// A Table opens the keys of one table.
type Table struct {
	id      meta.TableID
	wrap    *seal.Sealer
	Page    ope.Key
	Secrets ope.Key // of what all columns of a secure type share
	shared  string  // the family of their indexes
	Tenants ope.Key // of tokens of tenants

	Tenant *tenantKeys // in the place of the table's own, where the table is open for a tenant

	elsewhere bool // the application keeps the rows, so that keys of columns have purposes of their own
}

// The purposes of wrapped keys, which they are bound to, and of keys derived from a search key.
const (
	PurposeRow    = "row"    // sealing key cells
	PurposeCell   = "cell"   // sealing values
	PurposeSearch = "search" // what values are found by:
	PurposeOrder  = "order"  // the order-preserving scheme
	PurposeToken  = "token"  // pseudo-random tokens of values, for equality

	ofElsewhere = " elsewhere" // follows cell and search where the application keeps the rows
)

// purpose returns the purpose of wrapped keys of columns.
func (k Table) purpose(of string) string {
	if k.elsewhere {
		return of + ofElsewhere
	}
	return of
}

// Seal wraps a key for a column, or for the table with the zero id.
func (k Table) Seal(purpose string, id meta.ColumnID, key ope.Key) meta.WrappedKey {
	return k.wrap.Seal(nil, NewHeader(), key.Secret(), k.place(purpose, id))
}

// Fresh returns a new key as Seal wraps it.
func (k Table) Fresh(purpose string, id meta.ColumnID) meta.WrappedKey {
	return k.Seal(purpose, id, ope.GenerateKey())
}

// Open undoes Seal.
func (k Table) Open(purpose string, id meta.ColumnID, w meta.WrappedKey) (ope.Key, error) {
	return openKey(w, k.wrap, k.place(purpose, id), "wrapped key")
}

// openKey unwraps a key. The error says what it was to be.
func openKey(w meta.WrappedKey, wrap *seal.Sealer, place seal.Place, what string) (ope.Key, error) {
	secret, _, err := wrap.Open(nil, w, place)
	if err != nil {
		return ope.Key{}, fmt.Errorf("%s: %w", what, fault.OfSeal(err))
	}
	return Unwrapped(secret)
}

// place returns where a wrapped key of the table stands.
func (k Table) place(purpose string, id meta.ColumnID) seal.Place {
	return Place("key", k.id[:], id[:], []byte(purpose))
}

// Equip gives keys to whatever of the table needs some and has none.
func (k Table) Equip(m *meta.Table) {
	if len(m.RowKeys) == 0 && !k.elsewhere {
		m.RowKeys = []meta.WrappedKey{k.Fresh(PurposeRow, meta.ColumnID{})}
	}
	for i := range m.Key {
		k.equipField(&m.Key[i], true)
	}
	for i := range m.Columns {
		k.equipField(&m.Columns[i], false)
	}
}

func (k Table) equipField(m *meta.Field, part bool) {
	if m.Searchable() && m.Confidentiality == meta.OfColumn && m.SearchKey == nil {
		m.SearchKey = k.Fresh(k.purpose(PurposeSearch), m.ID)
	}
	if !part && !m.Clear() && len(m.CellKeys) == 0 {
		m.CellKeys = []meta.WrappedKey{k.Fresh(k.purpose(PurposeCell), m.ID)}
	}
}

// Rows returns the sealers of key cells.
func (k Table) Rows(m *meta.Table) (*Sealers, error) {
	if k.Tenant != nil {
		return k.Tenant.sealers(PurposeRow, meta.ColumnRef{Table: k.id}), nil
	}
	return k.sealers(PurposeRow, meta.ColumnID{}, m.RowKeys)
}

// Cells returns the sealers of a column's cells, or nil where they are not sealed.
func (k Table) Cells(m *meta.Field) (*Sealers, error) {
	if k.Tenant != nil {
		return k.Tenant.sealers(PurposeCell, meta.ColumnRef{Table: k.id, Column: m.ID}), nil
	}
	if len(m.CellKeys) == 0 {
		return nil, nil
	}
	return k.sealers(k.purpose(PurposeCell), m.ID, m.CellKeys)
}

// Search returns the search key of a part or column, or the zero Key where it has none.
func (k Table) Search(m *meta.Field) (ope.Key, error) {
	switch {
	case !m.Searchable():
		return ope.Key{}, nil
	case m.Confidentiality == meta.OfDatabase:
		return k.Secrets.Derive(append([]string{PurposeSearch}, m.SecureType()...)...), nil
	case k.Tenant != nil:
		return k.Tenant.Derive(k.Tenant.First, PurposeSearch, m.Owner(k.id)), nil
	}
	return k.Open(k.purpose(PurposeSearch), m.ID, m.SearchKey)
}

// State returns where a field with a stateful scheme has its index: the family, and the name that
// those of its units begin with.
func (k Table) State(m *meta.Field) (family, unit string) {
	family, all, unit := k.Units(m)
	if m.Unit > 0 {
		unit = fmt.Sprintf("%s-%08x", all, m.Unit)
	}
	return family, unit
}

// KeptUnit is how much of a name is kept where a number follows: with it, names have the 40 bytes that there
// is room for.
const KeptUnit = 31

// Units returns the family of a field's index, the name that the units of the first index begin with,
// and the part of it that those of all its indexes begin with: the others have a number after it.
func (k Table) Units(m *meta.Field) (family, all, first string) {
	if m.Confidentiality == meta.OfDatabase {
		family, first = k.shared, hex.EncodeToString(k.Secrets.Expand(8, append([]string{"unit"}, m.SecureType()...)...))
	} else {
		owner := m.Owner(k.id)
		family, first = meta.IndexFamily(owner.Table), hex.EncodeToString(owner.Column[:])
		if k.Tenant != nil {
			first += k.UnitToken(owner.Table)
		}
	}
	return family, first[:min(len(first), KeptUnit)], first
}

func (k Table) sealers(purpose string, id meta.ColumnID, wrapped []meta.WrappedKey) (*Sealers, error) {
	if len(wrapped) == 0 {
		return nil, fmt.Errorf("%w: a list of keys is empty", fault.ErrFormat)
	}
	newest, err := k.Open(purpose, id, wrapped[len(wrapped)-1])
	if err != nil {
		return nil, err
	}
	return newSealers(newest, len(wrapped)-1, func(i int) (ope.Key, error) { return k.Open(purpose, id, wrapped[i]) }), nil
}
