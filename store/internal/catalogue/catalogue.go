// Package catalogue keeps what a database says of its tables and tenants, in one row that every client reads and changes
// by compare-and-set.
package catalogue

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/lease"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// The Catalogue is one wide row of its own family (Ferretti, Colajanni, Marchetti, SecureDBaaS,
// 2014, section 3.2, keep encrypted metadata in the database in the same way). Its cells:
//
//	qualifier                           value
//	0x00                                the root: format || length of the next, 2 bytes || database
//	                                    key, wrapped by the kms.KMS || sealed {database id, version, digest}
//	0x00 || level || prefix             nodes of the tree by which the root proves the entries: see tree
//	0x01 || HMAC(table name), 32 bytes  sealed entry of a table, or of one that is gone
//	0x02 || HMAC(tenant), 32 bytes      sealed entry of a tenant, or of one that is gone
//
// Every change is one compare-and-set on the root, whose version rises by one, so that changes of
// independent clients are in one order. A client reads the entries that it needs.
//
// The digest in the root is that of a tree over all entries, so that a client is sure of those that it reads: of
// what they are, and of which there are none. What is left to an operator is to put back the whole row. A client
// notices that which has seen a later one, or meets rows which were written at a later version.
//
// In format 2 there is no tree, and the digest is the exclusive or of those of all entries: an entry
// that was put back alone is noticed by whoever reads all of them. The first change makes such a
// catalogue one of format 3.
//
// Format 4 is format 3 with a lease, see lease.go: programs that would not wait for it refuse the catalogue. In format 5
// entries may have fields that programs of before would leave out when they write the entry again: they refuse the
// catalogue, too. It may have a lease.
type Catalogue struct {
	Family   driver.Family
	Key      ope.Key // of the database
	Sealer   *seal.Sealer
	Names    ope.Key // of tables
	Tenants  ope.Key // names of tenants
	copies   ope.Key // write ids of rows that are copied
	Digests  []byte
	Database meta.DatabaseID
	Clock    lease.Clock
	seen     atomic.Uint32 // the latest version
	leases   leases

	rotating sync.Mutex // of the following
	master   kms.KMS    // that wraps the database key, as far as this client knows
	wrapped  []byte     // the database key, as it did
}

const (
	FamilyName   = "catalogue"
	Format       = 3
	FormatNoTree = 2
	FormatLease  = 4
	FormatFields = 5
)

var (
	Spec          = driver.FamilySpec{Name: FamilyName, Layout: driver.LayoutWide}
	Row           = []byte("catalogue")
	RootQualifier = []byte{0}

	OnlyRoot = driver.Slice{Only: [][]byte{RootQualifier}}
	allOfIt  = driver.Slice{Start: RootQualifier, End: []byte{TenantEntry + 1}}
)

// What an entry is of: the first byte of its qualifier.
const (
	TableEntry  = 1
	TenantEntry = 2
)

// A Root is what the first cell of the catalogue says.
type Root struct {
	Database meta.DatabaseID `json:"database"`
	Version  uint32          `json:"version"`
	Digest   Digest          `json:"digest"` // of all entries
	Lease    *lease.Terms    `json:"lease,omitempty"`

	Format  byte
	wrapped []byte // the database key
}

type Digest [16]byte

// An Entry is what an entry says: the table or tenant of a name, or neither if it is gone, and
// which changes made the entry what it is.
type Entry struct {
	Changes []changeID   `json:"changes"` // the last ones
	Table   *meta.Table  `json:"table,omitempty"`
	Tenant  *meta.Tenant `json:"tenant,omitempty"`
}

// A changeID is random. A client that does not know whether a change of its own was made finds it
// in the entry.
type changeID [8]byte

const KeptChanges = 16

// Open reads the root, and makes it in a database that has no tables either.
func Open(ctx context.Context, db driver.DB, service kms.KMS) (*Catalogue, error) {
	family, err := openFamily(ctx, db)
	// What was made is read, too: another client may have been faster.
	var c *Catalogue
	attempts := 0
	for err == nil && c == nil {
		err = swap(ctx, family, func(lost *error) (none driver.Cell, puts []driver.Cell, err error) {
			if attempts++; attempts > 10 {
				return none, nil, fmt.Errorf("%w: the catalogue could not be made", driver.ErrUnavailable)
			}
			first := func() ([]driver.Cell, error) { return family.Get(ctx, Row, driver.Slice{Limit: 1}) }
			cells, err := first()
			if err == nil && len(cells) == 0 {
				if gone := hasNoTables(ctx, db); gone != nil {
					if cells, err = first(); err == nil && len(cells) == 0 { // nobody has made it, and then tables, in between
						err = gone
					}
				}
			}
			if err != nil {
				return none, nil, err
			}
			*lost = nil
			if len(cells) > 0 {
				c, err = openExisting(ctx, family, cells[0], service)
				return none, nil, err
			}
			made := New(family, ope.GenerateKey())
			fresh := Root{Version: 1, Format: Format}
			rand.Read(fresh.Database[:])
			if fresh.wrapped, err = wrapKey(ctx, service, made.Key); err != nil {
				return none, nil, err
			}
			none.Qualifier = RootQualifier
			return none, []driver.Cell{{Qualifier: RootQualifier, Value: made.SealRoot(fresh)}}, nil
		})
	}
	return c, err
}

// openFamily opens the family of the catalogue, and makes it in a database that has no tables either. Elsewhere it would be in the way
// of whoever restores the catalogue.
func openFamily(ctx context.Context, db driver.DB) (driver.Family, error) {
	existing := Spec
	existing.Existing = true
	family, err := db.Family(ctx, existing)
	if errors.Is(err, driver.ErrNoFamily) {
		if gone := hasNoTables(ctx, db); gone == nil {
			return db.Family(ctx, Spec)
		} else if family, err = db.Family(ctx, existing); errors.Is(err, driver.ErrNoFamily) {
			err = gone
		}
	}
	return family, err
}

// hasNoTables returns an error if a database has data of tables, which are made after the catalogue.
func hasNoTables(ctx context.Context, db driver.DB) error {
	families, err := db.Families(ctx)
	if err == nil && slices.ContainsFunc(families, meta.IsFamily) {
		err = errGone
	}
	return err
}

// openExisting opens the catalogue whose first cell is given.
func openExisting(ctx context.Context, family driver.Family, first driver.Cell, service kms.KMS) (*Catalogue, error) {
	if string(first.Qualifier) != string(RootQualifier) {
		// A new one would have another key, and no table of the old could be read with it.
		return nil, errNoRoot
	}
	wrapped, _, err := CutRoot(first.Value)
	if err != nil {
		return nil, err
	}
	key, err := unwrapKey(ctx, service, wrapped, nil)
	if err != nil {
		return nil, err
	}
	c := New(family, key)
	c.master, c.wrapped = service, wrapped
	r, err := c.OpenRoot(first.Value)
	c.Database = r.Database
	c.seen.Store(r.Version)
	return c, err
}

// staleReads is how often a root that is older than one which was seen is read again, before it counts as put back.
const staleReads = 6

var errGone = fmt.Errorf("%w: the catalogue is gone, and nobody can read the tables without it: restore it from the backup that they are from", fault.ErrTampered)

// restored is what mends a catalogue that somebody has changed. A verification tells no more of it.
const restored = "; end all clients, and restore the newest copy of the catalogue"

var errNoRoot = fmt.Errorf("%w: the root of the catalogue is gone%s", fault.ErrTampered, restored)

// changed is the error of a cell of the catalogue that does not open.
func changed(err error) error {
	if !errors.Is(err, fault.ErrTampered) {
		return fmt.Errorf("catalogue: %w", err)
	}
	return fmt.Errorf("catalogue: %w%s", err, restored)
}

// New returns the catalogue under the key of a database.
func New(family driver.Family, database ope.Key) *Catalogue {
	return &Catalogue{
		Clock:   lease.Now,
		Family:  family,
		Key:     database,
		Sealer:  keyring.Sealer(database.Derive("catalogue", "seal")),
		Names:   database.Derive("catalogue", "names"),
		Tenants: database.Derive("catalogue", "tenants"),
		copies:  database.Derive("catalogue", "copied rows"),
		Digests: database.Derive("catalogue", "digest").Secret(),
	}
}

func (c *Catalogue) SealRoot(r Root) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("catalogue: " + err.Error()) // ids and integers always marshal
	}
	head := binary.BigEndian.AppendUint16([]byte{r.Format}, uint16(len(r.wrapped)))
	head = append(head, r.wrapped...)
	return c.Sealer.Seal(head, keyring.NewHeader(), b, RootPlace(r.Format, r.wrapped))
}

// RootPlace binds the root to the wrapped key that stands before it and, so that entries are not taken
// for those of a catalogue that has no tree, to its format.
func RootPlace(format byte, wrapped []byte) seal.Place {
	p := keyring.Place("catalogue", RootQualifier, wrapped)
	if format == FormatNoTree {
		return p
	}
	return p.Append([]byte{format})
}

// CutRoot returns the two parts of a root.
func CutRoot(value []byte) (wrapped, sealed []byte, err error) {
	if len(value) == 0 || value[0] < FormatNoTree || value[0] > FormatFields {
		return nil, nil, fmt.Errorf("%w: the catalogue has format %d, this version reads %d to %d; use the version that wrote it or a later one",
			fault.ErrFormat, append(value, 0)[0], FormatNoTree, FormatFields)
	}
	if len(value) < 3 || len(value)-3 < int(binary.BigEndian.Uint16(value[1:])) {
		return nil, nil, fmt.Errorf("%w: the root of the catalogue is cut short%s", fault.ErrTampered, restored)
	}
	n := 3 + int(binary.BigEndian.Uint16(value[1:]))
	return value[3:n:n], value[n:], nil
}

func (c *Catalogue) OpenRoot(value []byte) (Root, error) {
	wrapped, sealed, err := CutRoot(value)
	if err != nil {
		return Root{}, err
	}
	b, _, err := c.Sealer.Open(nil, sealed, RootPlace(value[0], wrapped))
	if errors.Is(err, seal.ErrWrongKey) {
		return Root{}, fmt.Errorf("%w: the root of the catalogue is sealed under another key than the one that is wrapped in it: either was changed, "+
			"or the key management service has unwrapped another key than it wrapped", fault.ErrTampered)
	}
	if err != nil {
		return Root{}, changed(fault.OfSeal(err))
	}
	r := Root{Format: value[0], wrapped: wrapped}
	if err := json.Unmarshal(b, &r); err != nil {
		return Root{}, fmt.Errorf("%w: catalogue: %w", fault.ErrFormat, err)
	}
	if (r.Lease != nil) != (r.Format == FormatLease) && (r.Lease == nil || r.Format != FormatFields) {
		return Root{}, fmt.Errorf("%w: the root of the catalogue has a lease in format %d", fault.ErrFormat, r.Format)
	}
	if c.Database != (meta.DatabaseID{}) && r.Database != c.Database {
		return Root{}, fmt.Errorf("%w: the catalogue is of another database", fault.ErrTampered)
	}
	return r, nil
}

// Version returns the version of the catalogue: as a snapshot has it, which may be of before what this
// client has seen since, or else as it is now.
func (c *Catalogue) Version(ctx context.Context, snapshot driver.Family) (uint32, error) {
	if snapshot != nil {
		r, _, err := c.readFrom(ctx, snapshot, OnlyRoot)
		return r.Version, err
	}
	r, _, err := c.read(ctx, OnlyRoot)
	return r.Version, err
}

// read returns the root and the cells of a slice of the catalogue, as of one instant, which is not before
// what this client has seen.
//
// On Cassandra a read may have seen a change that is not yet decided for all replicas, and the next one
// miss it, for as long as nobody changes the catalogue if the writer died. So an older root is read
// again, and what is undecided is decided, before it counts as put back.
func (c *Catalogue) read(ctx context.Context, s driver.Slice) (Root, []driver.Cell, error) {
	for attempt := 0; ; attempt++ {
		seen := c.seen.Load() // before the read: others may see more while it is under way
		began := c.Clock()
		r, cells, err := c.readFrom(ctx, c.Family, s)
		if err != nil {
			return Root{}, nil, err
		}
		if r.Version >= seen {
			c.see(r.Version)
			c.leases.note(r, began)
			return r, cells, nil
		}
		sign := PutBack(fmt.Sprintf("it has version %d, and this client has seen version %d", r.Version, seen))
		if attempt >= staleReads {
			latest, err := c.decide(ctx, cells[0])
			switch {
			case err != nil:
				return Root{}, nil, fmt.Errorf("%w; whether a change of it is still undecided cannot be found out: %w", sign, err)
			case latest || attempt == 2*staleReads:
				return Root{}, nil, sign
			}
		}
		if err := waitForTurn(ctx, "stale_catalogue", attempt); err != nil {
			return Root{}, nil, err
		}
	}
}

// decide reports whether a cell is the root, and lets the database decide a change of it that is not
// decided yet: it puts the root in its own place, if it is the root.
func (c *Catalogue) decide(ctx context.Context, cell driver.Cell) (bool, error) {
	return c.Family.CheckAndPut(ctx, Row, cell, cell)
}

// see notes that the catalogue has a version.
func (c *Catalogue) see(version uint32) {
	for seen := c.seen.Load(); seen < version && !c.seen.CompareAndSwap(seen, version); seen = c.seen.Load() {
	}
}

// ErrPutBack is wrapped by the error of a catalogue that is older than something which was made after it.
var ErrPutBack = fmt.Errorf("%w: the catalogue was put back", fault.ErrTampered)

// PutBack returns an error of its kind, with the sign of it.
func PutBack(sign string) error {
	return fmt.Errorf("%w: %s; restore the newest copy of the catalogue or, where the whole store was restored from a backup, open it again",
		ErrPutBack, sign)
}

func (c *Catalogue) readFrom(ctx context.Context, family driver.Family, s driver.Slice) (Root, []driver.Cell, error) {
	cells, err := family.Get(ctx, Row, s)
	if err != nil {
		return Root{}, nil, err
	}
	if len(cells) == 0 || string(cells[0].Qualifier) != string(RootQualifier) {
		return Root{}, nil, errNoRoot
	}
	r, err := c.OpenRoot(cells[0].Value)
	return r, cells, err
}

// Qualifier returns the place of a table's entry. It shows nothing of the name but whether two
// are equal.
func (c *Catalogue) Qualifier(name string) []byte { return qualified(TableEntry, c.Names, name) }

// TenantQualifier returns the place of a tenant's entry.
func (c *Catalogue) TenantQualifier(name string) []byte {
	return qualified(TenantEntry, c.Tenants, name)
}

func qualified(kind byte, key ope.Key, name string) []byte {
	mac := hmac.New(sha256.New, key.Secret())
	mac.Write([]byte(name))
	return mac.Sum([]byte{kind})
}

// Table returns the meta of the table that has a name, and the version of the catalogue.
func (c *Catalogue) Table(ctx context.Context, name string) (*meta.Table, uint32, error) {
	meta, _, version, err := c.LookUp(ctx, name, "")
	return meta, version, err
}

// LookUp returns the meta of the table that has a name and, unless it is "", that of the tenant that
// has another, and the version of the catalogue, as of one instant.
func (c *Catalogue) LookUp(ctx context.Context, table, tenant string) (*meta.Table, *meta.Tenant, uint32, error) {
	e := Edit{c: c, only: [][]byte{c.Qualifier(table)}}
	if tenant != "" {
		e.only = append(e.only, c.TenantQualifier(tenant))
	}
	if _, err := e.read(ctx); err != nil {
		return nil, nil, 0, err
	}
	var err error
	meta, of := e.Table(table), (*meta.Tenant)(nil)
	if tenant != "" {
		of = e.Tenant(tenant)
	}
	switch {
	case meta == nil:
		err = fault.ErrNoTable
	case tenant != "" && of == nil:
		err = fault.ErrNoTenant
	}
	return meta, of, e.root.Version, err
}

// ours returns an error if the catalogue has entries of another database: then the root was
// replaced, and names are not found because they are hashed under another key.
func (c *Catalogue) ours(ctx context.Context) error {
	cells, err := c.Family.Get(ctx, Row, driver.Slice{Start: []byte{TableEntry}, End: allOfIt.End, Limit: 1})
	if err != nil || len(cells) == 0 {
		return err
	}
	_, err = c.OpenEntry(cells[0])
	return err
}

// Entry returns the meta of the table with an id, which had a name when it was last looked at, that
// of the tenant that it is open for, if any, and the version of the catalogue. It is one read, unless
// the table was renamed or dropped.
func (c *Catalogue) Entry(ctx context.Context, name string, id meta.TableID, of *TenantRef) (*meta.Table, *meta.Tenant, uint32, error) {
	tenant := ""
	if of != nil {
		tenant = of.Name
	}
	meta, t, version, err := c.LookUp(ctx, name, tenant)
	if err == nil && meta.ID == id || err != nil && !errors.Is(err, fault.ErrNoTable) {
		return meta, t, version, of.check(t, err)
	}
	e := Edit{c: c, whole: true}
	if _, err := e.read(ctx); err != nil {
		return nil, nil, 0, err
	}
	if of != nil {
		t = e.Tenant(tenant)
	}
	meta, err = e.Find(name, id)
	return meta, t, e.root.Version, of.check(t, err)
}

// All reads the whole catalogue.
func (c *Catalogue) All(ctx context.Context) (*Edit, error) {
	e := &Edit{c: c, whole: true}
	_, err := e.read(ctx)
	return e, err
}

// Version returns the version that was read.
func (e *Edit) Version() uint32 { return e.root.Version }

// Tables returns the metas of all tables whose rows are here, by name, and the version of the catalogue.
func (c *Catalogue) Tables(ctx context.Context) ([]*meta.Table, uint32, error) {
	e := Edit{c: c, whole: true}
	if _, err := e.read(ctx); err != nil {
		return nil, 0, err
	}
	metas, err := e.Tables()
	return slices.DeleteFunc(metas, func(m *meta.Table) bool { return m.Apart() != "" }), e.root.Version, err
}

// OpenEntry returns the content of an entry.
func (c *Catalogue) OpenEntry(cell driver.Cell) (Entry, error) {
	var e Entry
	b, _, err := c.Sealer.Open(nil, cell.Value, keyring.Place("catalogue", cell.Qualifier))
	if err != nil {
		return e, changed(fault.OfSeal(err))
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("%w: catalogue entry: %w", fault.ErrFormat, err)
	}
	if e.Table != nil && string(c.Qualifier(e.Table.Name)) != string(cell.Qualifier) ||
		e.Tenant != nil && string(c.TenantQualifier(e.Tenant.Name)) != string(cell.Qualifier) {
		return e, changed(fault.ErrTampered)
	}
	return e, nil
}

func (c *Catalogue) sealEntry(q []byte, e Entry) []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic("catalogue: " + err.Error()) // strings, integers and ids always marshal
	}
	return c.Sealer.Seal(nil, keyring.NewHeader(), b, keyring.Place("catalogue", q))
}

// newest returns the latest version of the catalogue that the entry names.
func (m Entry) newest() (version uint32) {
	if m.Table != nil {
		version = m.Table.Version
	}
	if m.Tenant != nil {
		version = m.Tenant.Since
		for _, p := range m.Tenant.Policies {
			version = max(version, p.Since)
		}
	}
	return version
}

func (d Digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

func (d *Digest) UnmarshalText(text []byte) error { return meta.Unhex(d[:], text) }

func (id changeID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(id[:])), nil }

func (id *changeID) UnmarshalText(text []byte) error { return meta.Unhex(id[:], text) }

// TenantRef names the tenant that a table is open for. Without an id it is whoever has the name.
type TenantRef struct {
	ID   meta.TenantID
	Name string
}

// check returns err or, if what the catalogue says is of no tenant, or of another one, which has got the name since,
// [ErrNoTenant].
func (r *TenantRef) check(found *meta.Tenant, err error) error {
	if r == nil || err != nil && !errors.Is(err, fault.ErrNoTenant) {
		return err
	}
	switch opened := r.ID != (meta.TenantID{}); {
	case found != nil && (!opened || found.ID == r.ID):
		return nil
	case !opened:
		return fault.ErrNoTenant
	case found == nil:
		return fmt.Errorf("%w: it was dropped since the table was opened for it", fault.ErrNoTenant)
	}
	return fmt.Errorf("%w: it was dropped since the table was opened for it, and another one has its name by now: open the table for that one", fault.ErrNoTenant)
}

// Same reports whether two tables are open for one tenant, or both for none.
func (r *TenantRef) Same(other *TenantRef) bool {
	return r == nil && other == nil || r != nil && other != nil && r.ID == other.ID
}

// AllTenants returns the metas of all tenants, by name.
func (c *Catalogue) AllTenants(ctx context.Context) ([]*meta.Tenant, error) {
	e, err := c.All(ctx)
	if err != nil {
		return nil, err
	}
	return e.Tenants()
}

// openOwn opens the value of a cell that the catalogue has beside its tree.
func openOwn[T any](c *Catalogue, what string, q, value []byte) (says T, err error) {
	b, _, err := c.Sealer.Open(nil, value, keyring.Place("catalogue", q))
	if err != nil {
		return says, fmt.Errorf("%s: %w", what, fault.OfSeal(err))
	}
	if err := json.Unmarshal(b, &says); err != nil {
		return says, fmt.Errorf("%w: %s: %w", fault.ErrFormat, what, err)
	}
	return says, nil
}

// sealOwn returns a cell that the catalogue has beside its tree.
func (c *Catalogue) sealOwn(q []byte, says any) driver.Cell {
	b, err := json.Marshal(says)
	if err != nil {
		panic("catalogue: " + err.Error()) // numbers and texts always marshal
	}
	return driver.Cell{Qualifier: q, Value: c.Sealer.Seal(nil, keyring.NewHeader(), b, keyring.Place("catalogue", q))}
}
