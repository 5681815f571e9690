package store

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The catalogue is one wide row of its own family (Ferretti, Colajanni, Marchetti, SecureDBaaS,
// 2014, section 3.2, keep encrypted metadata in the database in the same way). Its cells:
//
//	qualifier                           value
//	0x00                                the root: format || length of the next, 2 bytes || database
//	                                    key, wrapped by the KMS || sealed {database id, version, digest}
//	0x01 || HMAC(table name), 32 bytes  sealed entry of a table, or of one that is gone
//	0x02 || HMAC(tenant), 32 bytes      sealed entry of a tenant, or of one that is gone
//
// Every change is one compare-and-set on the root, whose version rises by one, so that changes of
// independent clients are in one order. A client reads the entries that it needs.
//
// The digest in the root is of all entries. An entry that was put back alone is noticed by whoever
// reads the whole row.
type catalogue struct {
	family   driver.Family
	key      ope.Key // of the database
	sealer   *seal.Sealer
	names    ope.Key // of tables
	tenants  ope.Key // names of tenants
	digests  []byte
	database databaseID
}

const (
	catalogueFamily = "catalogue"
	catalogueFormat = 2
)

var (
	catalogueSpec = driver.FamilySpec{Name: catalogueFamily, Layout: driver.LayoutWide}
	catalogueRow  = []byte("catalogue")
	rootQualifier = []byte{0}

	onlyRoot = driver.Slice{Only: [][]byte{rootQualifier}}
	allOfIt  = driver.Slice{Start: rootQualifier, End: []byte{tenantEntry + 1}}
)

// What an entry is of: the first byte of its qualifier.
const (
	tableEntry  = 1
	tenantEntry = 2
)

// A root is what the first cell of the catalogue says.
type root struct {
	Database databaseID `json:"database"`
	Version  uint32     `json:"version"`
	Digest   digest     `json:"digest"` // exclusive or of those of all entries

	wrapped []byte // the database key
}

type digest [16]byte

// A metaEntry is what an entry says: the table or tenant of a name, or neither if it is gone, and
// which changes made the entry what it is.
type metaEntry struct {
	Changes []changeID  `json:"changes"` // the last ones
	Table   *tableMeta  `json:"table,omitempty"`
	Tenant  *tenantMeta `json:"tenant,omitempty"`
}

// A changeID is random. A client that does not know whether a change of its own was made finds it
// in the entry.
type changeID [8]byte

const keptChanges = 16

// openCatalogue reads the root and makes it when there is none.
func openCatalogue(ctx context.Context, db driver.DB, kms KMS) (*catalogue, error) {
	family, err := db.Family(ctx, catalogueSpec)
	if err != nil {
		return nil, err
	}
	// An unknown outcome or a lost race are both resolved by reading again.
	for range 10 {
		cells, err := family.Get(ctx, catalogueRow, driver.Slice{Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(cells) > 0 {
			if string(cells[0].Qualifier) != string(rootQualifier) {
				// A new one would have another key, and no table of the old could be read with it.
				return nil, errNoRoot
			}
			wrapped, _, err := cutRoot(cells[0].Value)
			if err != nil {
				return nil, err
			}
			key, err := unwrapKey(ctx, kms, wrapped)
			if err != nil {
				return nil, err
			}
			c := newCatalogue(family, key)
			r, err := c.openRoot(cells[0].Value)
			c.database = r.Database
			return c, err
		}
		c := newCatalogue(family, ope.GenerateKey())
		fresh := root{Version: 1}
		rand.Read(fresh.Database[:])
		if fresh.wrapped, err = wrapKey(ctx, kms, c.key); err != nil {
			return nil, err
		}
		_, err = family.CheckAndPut(ctx, catalogueRow, driver.Cell{Qualifier: rootQualifier},
			driver.Cell{Qualifier: rootQualifier, Value: c.sealRoot(fresh)})
		if err != nil && !errors.Is(err, driver.ErrUnknownOutcome) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: the catalogue could not be made", driver.ErrUnavailable)
}

var errNoRoot = fmt.Errorf("%w: the root of the catalogue is gone", ErrTampered)

func newCatalogue(family driver.Family, database ope.Key) *catalogue {
	return &catalogue{
		family:  family,
		key:     database,
		sealer:  sealer(database.Derive("catalogue", "seal")),
		names:   database.Derive("catalogue", "names"),
		tenants: database.Derive("catalogue", "tenants"),
		digests: database.Derive("catalogue", "digest").Secret(),
	}
}

func (c *catalogue) sealRoot(r root) []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("store: " + err.Error()) // ids and integers always marshal
	}
	head := binary.BigEndian.AppendUint16([]byte{catalogueFormat}, uint16(len(r.wrapped)))
	head = append(head, r.wrapped...)
	return c.sealer.Seal(head, newHeader(), b, rootPlace(r.wrapped))
}

// rootPlace binds the root to the wrapped key that stands before it.
func rootPlace(wrapped []byte) seal.Place { return place("catalogue", rootQualifier, wrapped) }

// cutRoot returns the two parts of a root.
func cutRoot(value []byte) (wrapped, sealed []byte, err error) {
	if len(value) == 0 || value[0] != catalogueFormat {
		return nil, nil, fmt.Errorf("%w: the catalogue has format %d, this version reads %d; use the version that wrote it or a later one",
			ErrFormat, append(value, 0)[0], catalogueFormat)
	}
	if len(value) < 3 || len(value)-3 < int(binary.BigEndian.Uint16(value[1:])) {
		return nil, nil, fmt.Errorf("%w: the root of the catalogue is cut short", ErrFormat)
	}
	n := 3 + int(binary.BigEndian.Uint16(value[1:]))
	return value[3:n:n], value[n:], nil
}

func (c *catalogue) openRoot(value []byte) (root, error) {
	wrapped, sealed, err := cutRoot(value)
	if err != nil {
		return root{}, err
	}
	b, _, err := c.sealer.Open(nil, sealed, rootPlace(wrapped))
	if err != nil {
		return root{}, fmt.Errorf("catalogue: %w", sealError(err))
	}
	r := root{wrapped: wrapped}
	if err := json.Unmarshal(b, &r); err != nil {
		return root{}, fmt.Errorf("%w: catalogue: %w", ErrFormat, err)
	}
	if c.database != (databaseID{}) && r.Database != c.database {
		return root{}, fmt.Errorf("%w: the catalogue is of another database", ErrTampered)
	}
	return r, nil
}

// version returns the version of the catalogue as family sees it: c.family, or that of a snapshot.
func (c *catalogue) version(ctx context.Context, family driver.Family) (uint32, error) {
	r, _, err := c.read(ctx, family, onlyRoot)
	return r.Version, err
}

// read returns the root and the entries of a slice of the catalogue, as of one instant.
func (c *catalogue) read(ctx context.Context, family driver.Family, s driver.Slice) (root, []driver.Cell, error) {
	cells, err := family.Get(ctx, catalogueRow, s)
	if err != nil {
		return root{}, nil, err
	}
	if len(cells) == 0 || string(cells[0].Qualifier) != string(rootQualifier) {
		return root{}, nil, errNoRoot
	}
	r, err := c.openRoot(cells[0].Value)
	return r, cells, err
}

// qualifier returns the place of a table's entry. It shows nothing of the name but whether two
// are equal.
func (c *catalogue) qualifier(name string) []byte { return qualified(tableEntry, c.names, name) }

// tenantQualifier returns the place of a tenant's entry.
func (c *catalogue) tenantQualifier(name string) []byte {
	return qualified(tenantEntry, c.tenants, name)
}

func qualified(kind byte, key ope.Key, name string) []byte {
	mac := hmac.New(sha256.New, key.Secret())
	mac.Write([]byte(name))
	return mac.Sum([]byte{kind})
}

// table returns the meta of the table that has a name, and the version of the catalogue.
func (c *catalogue) table(ctx context.Context, name string) (*tableMeta, uint32, error) {
	meta, _, version, err := c.lookUp(ctx, name, "")
	return meta, version, err
}

// lookUp returns the meta of the table that has a name and, unless it is "", that of the tenant that
// has another, and the version of the catalogue, as of one instant.
func (c *catalogue) lookUp(ctx context.Context, table, tenant string) (*tableMeta, *tenantMeta, uint32, error) {
	only := [][]byte{rootQualifier, c.qualifier(table)}
	if tenant != "" {
		only = append(only, c.tenantQualifier(tenant))
	}
	r, cells, err := c.read(ctx, c.family, driver.Slice{Only: only})
	if err != nil {
		return nil, nil, 0, err
	}
	if len(cells) == 1 {
		if err := c.ours(ctx); err != nil {
			return nil, nil, 0, err
		}
	}
	var found metaEntry
	for _, cell := range cells[1:] {
		e, err := c.openEntry(cell)
		if err != nil {
			return nil, nil, 0, err
		}
		if cell.Qualifier[0] == tenantEntry {
			found.Tenant = e.Tenant
		} else {
			found.Table = e.Table
		}
	}
	switch {
	case found.Table == nil:
		err = ErrNoTable
	case tenant != "" && found.Tenant == nil:
		err = ErrNoTenant
	}
	return found.Table, found.Tenant, r.Version, err
}

// ours returns an error if the catalogue has entries of another database: then the root was
// replaced, and names are not found because they are hashed under another key.
func (c *catalogue) ours(ctx context.Context) error {
	cells, err := c.family.Get(ctx, catalogueRow, driver.Slice{Start: []byte{tableEntry}, End: allOfIt.End, Limit: 1})
	if err != nil || len(cells) == 0 {
		return err
	}
	_, err = c.openEntry(cells[0])
	return err
}

// entry returns the meta of the table with an id, which had a name when it was last looked at, that
// of the tenant that it is open for, if any, and the version of the catalogue. It is one read, unless
// the table was renamed or dropped.
func (c *catalogue) entry(ctx context.Context, name string, id tableID, of *tenantRef) (*tableMeta, *tenantMeta, uint32, error) {
	tenant := ""
	if of != nil {
		tenant = of.name
	}
	meta, t, version, err := c.lookUp(ctx, name, tenant)
	if err == nil && meta.ID == id || err != nil && !errors.Is(err, ErrNoTable) {
		return meta, t, version, of.check(t, err)
	}
	e := edit{c: c, whole: true}
	if _, err := e.read(ctx); err != nil {
		return nil, nil, 0, err
	}
	if of != nil {
		t = e.tenant(tenant)
	}
	meta, err = e.find(name, id)
	return meta, t, e.root.Version, of.check(t, err)
}

// tables returns the metas of all tables, by name, and the version of the catalogue.
func (c *catalogue) tables(ctx context.Context) ([]*tableMeta, uint32, error) {
	e := edit{c: c, whole: true}
	if _, err := e.read(ctx); err != nil {
		return nil, 0, err
	}
	metas, err := e.tables()
	return metas, e.root.Version, err
}

// openEntry returns the content of an entry.
func (c *catalogue) openEntry(cell driver.Cell) (metaEntry, error) {
	var e metaEntry
	b, _, err := c.sealer.Open(nil, cell.Value, place("catalogue", cell.Qualifier))
	if err != nil {
		return e, fmt.Errorf("catalogue: %w", sealError(err))
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("%w: catalogue entry: %w", ErrFormat, err)
	}
	if e.Table != nil && string(c.qualifier(e.Table.Name)) != string(cell.Qualifier) ||
		e.Tenant != nil && string(c.tenantQualifier(e.Tenant.Name)) != string(cell.Qualifier) {
		return e, fmt.Errorf("catalogue: %w", ErrTampered)
	}
	return e, nil
}

func (c *catalogue) sealEntry(q []byte, e metaEntry) []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic("store: " + err.Error()) // strings, integers and ids always marshal
	}
	return c.sealer.Seal(nil, newHeader(), b, place("catalogue", q))
}

// digest adds a cell to, or takes it from, a digest.
func (c *catalogue) digest(d digest, cell driver.Cell) digest {
	mac := hmac.New(sha256.New, c.digests)
	mac.Write(place("entry", cell.Qualifier, cell.Value))
	subtle.XORBytes(d[:], d[:], mac.Sum(nil))
	return d
}

// An edit is a change of the catalogue in the making.
type edit struct {
	c       *catalogue
	id      changeID
	only    [][]byte // the entries that are read
	whole   bool     // all are
	root    root
	cells   map[string]driver.Cell // entries, by qualifier
	entries map[string]metaEntry
	puts    map[string]metaEntry // without changes; empty where the table or tenant goes
}

// errNarrow is returned to change by an edit that needs entries which were not read.
var errNarrow = errors.New("more of the catalogue is needed")

// change makes one change of the catalogue: see changeEntries. It reads the entries of some tables.
func (c *catalogue) change(ctx context.Context, names []string, next func(*edit) error) error {
	only := make([][]byte, len(names))
	for i, name := range names {
		only[i] = c.qualifier(name)
	}
	return c.changeEntries(ctx, only, next)
}

// changeEntries makes one change of the catalogue, under one compare-and-set of the root: what next
// puts, knowing the given entries. If next puts nothing, nothing is left to do. It is
// called again when another client was faster, and then all it says counts anew.
//
// Where the answer of the database is lost, the very same is put again as long as the root is as it
// was: the first may yet come, and what next says another time has other keys and ids. Then the
// change is looked for in what it would have put.
func (c *catalogue) changeEntries(ctx context.Context, only [][]byte, next func(*edit) error) error {
	e := &edit{c: c, only: only}
	rand.Read(e.id[:])
	var unsure map[string]metaEntry // what an attempt of unknown outcome replaced
	var tried []byte                // the root that it expected
	var puts []driver.Cell
	var lost error
	for attempt := 0; ; attempt++ {
		expect, err := e.read(ctx)
		if err != nil {
			return errors.Join(err, lost)
		}
		if unsure == nil || !bytes.Equal(expect.Value, tried) {
			if unsure != nil {
				switch made, certain := e.made(unsure); {
				case made:
					return nil
				case !certain:
					return lost
				}
				unsure, lost = nil, nil // it cannot come any more
			}
			if err := next(e); errors.Is(err, errNarrow) {
				e.whole = true
				continue
			} else if err != nil || len(e.puts) == 0 {
				return err
			}
			if puts, err = e.cellsToPut(); err != nil {
				return err
			}
		}
		done, err := c.family.CheckAndPut(ctx, catalogueRow, expect, puts...)
		switch {
		case errors.Is(err, driver.ErrUnknownOutcome):
			if lost = err; unsure != nil {
				break
			}
			tried, unsure = expect.Value, make(map[string]metaEntry)
			for q := range e.puts {
				unsure[q] = e.entries[q]
			}
		case err != nil:
			return errors.Join(err, lost)
		case done:
			return nil
		}
		if err := pause(ctx, attempt); err != nil {
			return errors.Join(err, lost)
		}
	}
}

// read reads what the edit is about and returns the cell of the root.
func (e *edit) read(ctx context.Context) (driver.Cell, error) {
	s := allOfIt
	if !e.whole {
		s = driver.Slice{Only: append([][]byte{rootQualifier}, e.only...)}
	}
	r, cells, err := e.c.read(ctx, e.c.family, s)
	if err != nil {
		return driver.Cell{}, err
	}
	e.root = r
	e.cells, e.entries, e.puts = make(map[string]driver.Cell), make(map[string]metaEntry), make(map[string]metaEntry)
	var all digest
	for _, cell := range cells[1:] {
		e.cells[string(cell.Qualifier)] = cell
		if e.entries[string(cell.Qualifier)], err = e.c.openEntry(cell); err != nil {
			return driver.Cell{}, err
		}
		all = e.c.digest(all, cell)
	}
	if e.whole && subtle.ConstantTimeCompare(all[:], r.Digest[:]) != 1 {
		return driver.Cell{}, fmt.Errorf("%w: the catalogue has entries of different times", ErrTampered)
	}
	return cells[0], nil
}

// made reports whether an earlier attempt, which would have replaced the given entries, was made
// after all, and whether that can be told.
func (e *edit) made(replaced map[string]metaEntry) (made, certain bool) {
	for q, before := range replaced {
		now := e.entries[q].Changes
		if slices.Contains(now, e.id) {
			return true, true
		}
		// The list reaches back to the attempt if it was never cut, or still has what was the last.
		reaches := len(now) < keptChanges
		if n := len(before.Changes); n > 0 {
			reaches = reaches || slices.Contains(now, before.Changes[n-1])
		}
		certain = certain || reaches
	}
	return false, certain
}

// version returns the version that the change makes.
func (e *edit) version() uint32 { return e.root.Version + 1 }

// table returns the meta of one of the named tables, or nil.
func (e *edit) table(name string) *tableMeta { return e.entries[string(e.c.qualifier(name))].Table }

// find returns the meta of the table with an id, which had a name when it was last looked at.
func (e *edit) find(name string, id tableID) (*tableMeta, error) {
	if meta := e.table(name); meta != nil && meta.ID == id {
		return meta, nil
	}
	metas, err := e.tables()
	if err != nil {
		return nil, err
	}
	for _, meta := range metas {
		if meta.ID == id {
			return meta, nil
		}
	}
	return nil, ErrNoTable
}

// tables returns the metas of all tables, by name.
func (e *edit) tables() ([]*tableMeta, error) {
	return byName(e, func(m metaEntry) *tableMeta { return m.Table }, func(m *tableMeta) string { return m.Name })
}

// tenants returns the metas of all tenants, by name.
func (e *edit) tenants() ([]*tenantMeta, error) {
	return byName(e, func(m metaEntry) *tenantMeta { return m.Tenant }, func(m *tenantMeta) string { return m.Name })
}

// byName returns the metas of one kind, which an entry has or not, in the order of names.
func byName[M any](e *edit, of func(metaEntry) *M, name func(*M) string) ([]*M, error) {
	if !e.whole {
		return nil, errNarrow
	}
	var metas []*M
	for _, entry := range e.entries {
		if meta := of(entry); meta != nil {
			metas = append(metas, meta)
		}
	}
	slices.SortFunc(metas, func(a, b *M) int { return strings.Compare(name(a), name(b)) })
	return metas, nil
}

// put replaces or makes the entry of a table.
func (e *edit) put(meta *tableMeta) {
	meta.Version = e.version()
	e.puts[string(e.c.qualifier(meta.Name))] = metaEntry{Table: meta}
}

// remove makes that no table has the name.
func (e *edit) remove(name string) { e.puts[string(e.c.qualifier(name))] = metaEntry{} }

// cellsToPut returns the cells of the change.
func (e *edit) cellsToPut() ([]driver.Cell, error) {
	if e.root.Version == math.MaxUint32 {
		return nil, fmt.Errorf("%w: the catalogue was changed %d times, which is all it can be", ErrFormat, e.root.Version)
	}
	next := e.root
	next.Version++
	puts := make([]driver.Cell, 1, 1+len(e.puts))
	for q, entry := range e.puts {
		changes := append(slices.Clone(e.entries[q].Changes), e.id)
		entry.Changes = changes[max(0, len(changes)-keptChanges):]
		cell := driver.Cell{Qualifier: []byte(q), Value: e.c.sealEntry([]byte(q), entry)}
		if len(cell.Value) > driver.MaxValue {
			return nil, fmt.Errorf("%w: what the catalogue says of the table or tenant has %d bytes, at most %d", driver.ErrTooLarge, len(cell.Value), driver.MaxValue)
		}
		if old, ok := e.cells[q]; ok {
			next.Digest = e.c.digest(next.Digest, old)
		}
		next.Digest = e.c.digest(next.Digest, cell)
		puts = append(puts, cell)
	}
	puts[0] = driver.Cell{Qualifier: rootQualifier, Value: e.c.sealRoot(next)}
	return puts, nil
}

// rotateMaster lets another service wrap the database key. Nothing else changes.
func (c *catalogue) rotateMaster(ctx context.Context, to KMS) error {
	wrapped, err := wrapKey(ctx, to, c.key)
	if err != nil {
		return err
	}
	var lost error
	for attempt := 0; ; attempt++ {
		r, cells, err := c.read(ctx, c.family, onlyRoot)
		if err != nil {
			return errors.Join(err, lost)
		}
		if string(r.wrapped) == string(wrapped) {
			return nil // an attempt whose answer was lost
		}
		r.wrapped = wrapped
		done, err := c.family.CheckAndPut(ctx, catalogueRow, cells[0], driver.Cell{Qualifier: rootQualifier, Value: c.sealRoot(r)})
		switch {
		case errors.Is(err, driver.ErrUnknownOutcome):
			lost = err
		case err != nil:
			return err
		case done:
			return nil
		}
		if err := pause(ctx, attempt); err != nil {
			return errors.Join(err, lost)
		}
	}
}

// place returns what a sealed value is bound to: a kind of thing and what names one of them.
func place(kind string, parts ...[]byte) seal.Place {
	return seal.Place(nil).Append([]byte(kind)).Append(parts...)
}

// newHeader returns the header of a value of a new write.
func newHeader() seal.Header {
	var h seal.Header
	rand.Read(h.Write[:])
	return h
}

func (d digest) MarshalText() ([]byte, error)        { return []byte(hex.EncodeToString(d[:])), nil }
func (d *digest) UnmarshalText(text []byte) error    { return unhex(d[:], text) }
func (id changeID) MarshalText() ([]byte, error)     { return []byte(hex.EncodeToString(id[:])), nil }
func (id *changeID) UnmarshalText(text []byte) error { return unhex(id[:], text) }
