package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
)

// keys is the hierarchy of keys below the master key. Those of the database, of key cells and of
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
//	    keys of a tenant                      in the tenant's entry; the first finds, the last seals
//	      table: key cells, page tokens       derived, of each table with tenants
//	        part or column: search, cells     derived, by the ids of the table and the column
type keys struct {
	database ope.Key
	id       databaseID
}

func (k keys) table(id tableID) tableKeys {
	t := k.database.Derive("table", hex.EncodeToString(id[:]))
	return tableKeys{
		id:      id,
		wrap:    sealer(t.Derive("wrap")),
		page:    t.Derive("page token"),
		secrets: k.database.Derive("secure type"),
		shared:  indexOf(tableID(k.id)),
		tenants: t.Derive("tenants"),
	}
}

// tableKeys opens the keys of one table.
type tableKeys struct {
	id      tableID
	wrap    *seal.Sealer
	page    ope.Key
	secrets ope.Key // of what all columns of a secure type share
	shared  string  // the family of their indexes
	tenants ope.Key // of tokens of tenants

	tenant *tenantKeys // in the place of the table's own, where the table is open for a tenant
}

// The purposes of wrapped keys, which they are bound to, and of keys derived from a search key.
const (
	purposeRow    = "row"    // sealing key cells
	purposeCell   = "cell"   // sealing values
	purposeSearch = "search" // what values are found by:
	purposeOrder  = "order"  // the order-preserving scheme
	purposeToken  = "token"  // pseudo-random tokens of values, for equality
)

// A wrappedKey is a sealed key. A list of them has the newest at its end.
type wrappedKey []byte

// seal wraps a key for a column, or for the table with the zero id.
func (k tableKeys) seal(purpose string, id columnID, key ope.Key) wrappedKey {
	return k.wrap.Seal(nil, newHeader(), key.Secret(), k.place(purpose, id))
}

func (k tableKeys) fresh(purpose string, id columnID) wrappedKey {
	return k.seal(purpose, id, ope.GenerateKey())
}

func (k tableKeys) open(purpose string, id columnID, w wrappedKey) (ope.Key, error) {
	return w.open(k.wrap, k.place(purpose, id), "wrapped key")
}

// open unwraps a key. The error says what it was to be.
func (w wrappedKey) open(wrap *seal.Sealer, place seal.Place, what string) (ope.Key, error) {
	secret, _, err := wrap.Open(nil, w, place)
	if err != nil {
		return ope.Key{}, fmt.Errorf("%s: %w", what, sealError(err))
	}
	return unwrapped(secret)
}

func (k tableKeys) place(purpose string, id columnID) seal.Place {
	return place("key", k.id[:], id[:], []byte(purpose))
}

// equip gives keys to whatever of the table needs some and has none.
func (k tableKeys) equip(m *tableMeta) {
	if len(m.RowKeys) == 0 {
		m.RowKeys = []wrappedKey{k.fresh(purposeRow, columnID{})}
	}
	for i := range m.Key {
		k.equipField(&m.Key[i], true)
	}
	for i := range m.Columns {
		k.equipField(&m.Columns[i], false)
	}
}

func (k tableKeys) equipField(m *fieldMeta, part bool) {
	if m.searchable() && m.Confidentiality == ofColumn && m.SearchKey == nil {
		m.SearchKey = k.fresh(purposeSearch, m.ID)
	}
	if !part && !m.clear() && len(m.CellKeys) == 0 {
		m.CellKeys = []wrappedKey{k.fresh(purposeCell, m.ID)}
	}
}

// rows returns the sealers of key cells.
func (k tableKeys) rows(m *tableMeta) (*sealers, error) {
	if k.tenant != nil {
		return k.tenant.sealers(purposeRow, columnRef{Table: k.id}), nil
	}
	return k.sealers(purposeRow, columnID{}, m.RowKeys)
}

// cells returns the sealers of a column's cells, or nil where they are not sealed.
func (k tableKeys) cells(m *fieldMeta) (*sealers, error) {
	if k.tenant != nil {
		return k.tenant.sealers(purposeCell, columnRef{k.id, m.ID}), nil
	}
	if len(m.CellKeys) == 0 {
		return nil, nil
	}
	return k.sealers(purposeCell, m.ID, m.CellKeys)
}

// search returns the search key of a part or column, or the zero Key where it has none.
func (k tableKeys) search(m *fieldMeta) (ope.Key, error) {
	switch {
	case !m.searchable():
		return ope.Key{}, nil
	case m.Confidentiality == ofDatabase:
		return k.secrets.Derive(append([]string{purposeSearch}, m.secureType()...)...), nil
	case k.tenant != nil:
		return k.tenant.derive(0, purposeSearch, m.owner(k.id)), nil
	}
	return k.open(purposeSearch, m.ID, m.SearchKey)
}

// state returns where a field with a stateful scheme has its index: the family, and the name that
// those of its units begin with.
func (k tableKeys) state(m *fieldMeta) (family, unit string) {
	if m.Confidentiality == ofDatabase {
		return k.shared, hex.EncodeToString(k.secrets.Expand(8, append([]string{"unit"}, m.secureType()...)...))
	}
	owner := m.owner(k.id)
	unit = hex.EncodeToString(owner.Column[:])
	if k.tenant != nil {
		unit += hex.EncodeToString(k.tenant.keys[0].Expand(tokenSize, "unit", hex.EncodeToString(owner.Table[:])))
	}
	return indexOf(owner.Table), unit
}

func (k tableKeys) sealers(purpose string, id columnID, wrapped []wrappedKey) (*sealers, error) {
	if len(wrapped) == 0 {
		return nil, fmt.Errorf("%w: a list of keys is empty", ErrFormat)
	}
	var s sealers
	for _, w := range slices.Backward(wrapped) {
		key, err := k.open(purpose, id, w)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, sealer(key))
	}
	return &s, nil
}

// sealers are the keys of one purpose, the newest first. New values are sealed with the newest;
// a value is opened with the one whose id it carries. They are safe for concurrent use.
type sealers struct{ keys []*seal.Sealer }

// Seal is [seal.Sealer.Seal] with the newest key.
func (s *sealers) Seal(dst []byte, h seal.Header, plaintext []byte, place seal.Place) []byte {
	return s.keys[0].Seal(dst, h, plaintext, place)
}

// Open is [seal.Sealer.Open] with the key that sealed the value.
func (s *sealers) Open(dst, sealed []byte, place seal.Place) (plaintext []byte, h seal.Header, err error) {
	for _, key := range s.keys {
		// A sealer looks at the id of the key before anything else.
		if plaintext, h, err = key.Open(dst, sealed, place); !errors.Is(err, seal.ErrWrongKey) {
			break
		}
	}
	return plaintext, h, err
}

// newest reports whether a value was sealed with the newest key.
func (s *sealers) newest(sealed []byte) bool {
	id, err := seal.PeekKeyID(sealed)
	return err == nil && id == s.keys[0].KeyID()
}

// ids returns the ids of the keys in hex, the newest first.
func (s *sealers) ids() []string {
	if s == nil {
		return nil
	}
	ids := make([]string, len(s.keys))
	for i, key := range s.keys {
		id := key.KeyID()
		ids[i] = hex.EncodeToString(id[:])
	}
	return ids
}

func sealer(key ope.Key) *seal.Sealer {
	s, err := seal.New(key.Secret())
	if err != nil {
		panic("store: " + err.Error()) // derived keys have the right length
	}
	return s
}
