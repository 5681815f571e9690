package store

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Row maps the names of key parts and columns to values of the Go type of their [Type]. A
// column that is missing or nil is null; a key part cannot be null, except that a missing
// [TiePart] is drawn at random.
type Row map[string]any

// A Table is an encrypted table. It is safe for concurrent use.
type Table struct {
	st      *Store
	id      tableID
	tenant  *tenantRef // that it is open for, or nil
	mu      sync.Mutex // held while current is replaced
	current atomic.Pointer[view]
}

func newTable(ctx context.Context, st *Store, meta *tableMeta, version uint32) (*Table, error) {
	tbl := &Table{st: st, id: meta.ID}
	v, err := newView(ctx, tbl, meta, nil, version, nil)
	if err != nil {
		return nil, err
	}
	tbl.current.Store(v)
	return tbl, nil
}

// now returns the view of the table as this client knows it. A call loads it once, so that all of
// it is of one schema.
func (tbl *Table) now() *view { return tbl.current.Load() }

// adopt makes a view of what the catalogue says of the table, and of the tenant that it is open for, at
// a version, if that is news.
func (tbl *Table) adopt(ctx context.Context, meta *tableMeta, tenant *tenantMeta, version uint32) (*view, error) {
	tbl.mu.Lock()
	defer tbl.mu.Unlock()
	now := tbl.now()
	if version <= now.version {
		return now, nil
	}
	if changed(meta, tenant) < now.changed {
		// Rows would be written as they were before, in the clear where that was so.
		return nil, fmt.Errorf("%w: what the catalogue says of the table was put back", ErrTampered)
	}
	var next *view
	if changed(meta, tenant) == now.changed {
		copied := *now
		next, copied.version = &copied, version
	} else {
		var err error
		if next, err = newView(ctx, tbl, meta, tenant, version, now); err != nil {
			return nil, err
		}
	}
	tbl.current.Store(next)
	return next, nil
}

// refresh reads what the catalogue says of the table.
func (tbl *Table) refresh(ctx context.Context) (*view, error) {
	meta, tenant, version, err := tbl.st.catalogue.entry(ctx, tbl.now().schema.Name, tbl.id, tbl.tenant)
	if err != nil {
		return nil, err
	}
	return tbl.adopt(ctx, meta, tenant, version)
}

// atLeast returns a view as of some version or a later one, at which a row was written. The writer
// had it from the catalogue.
func (tbl *Table) atLeast(ctx context.Context, version uint32) (*view, error) {
	for attempt := 0; ; attempt++ {
		if now := tbl.now(); now.version >= version {
			return now, nil
		}
		now, err := tbl.refresh(ctx)
		if err != nil || now.version >= version {
			return now, err
		}
		if attempt == tornReads {
			return nil, fmt.Errorf("%w: a row was written at a later version than the catalogue has, which was put back", ErrTampered)
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// checked checks what a caller says of rows against a view. What this client knows may be old: before
// a name or a value is refused, the catalogue is read, once, and where the schema is another by now that
// one counts. It returns the view that counts.
func (tbl *Table) checked(ctx context.Context, t *view, check func(*view) error) (*view, error) {
	err := check(t)
	if !errors.Is(err, ErrColumn) || t.st.guards.noSecondLook {
		return t, err
	}
	now, failed := tbl.refresh(ctx)
	switch {
	case failed != nil:
		return t, fmt.Errorf("%w; whether the schema was changed could not be read: %w", err, failed)
	case now.same(t):
		return t, err
	}
	return now, check(now)
}

// A view is a table as of one version of the catalogue. It is never changed.
type view struct {
	tbl     *Table
	st      *Store
	version uint32 // of the catalogue, at which meta is what it says of the table
	changed uint32 // the version at which it became how the table stores rows
	meta    *tableMeta
	schema  Schema
	parts   []*column
	columns []*column // of the schema
	stored  []*column // the columns, and behind them the former ones, under whose ids rows may have values
	byName  map[string]*column

	byID  []int      // positions in stored, in ascending order of their ids
	clear bool       // nothing is encrypted
	place seal.Place // of the table's cells, without row and column

	prefix []byte // of row keys: the token of the tenant, where the table is open for one

	spec, postingSpec driver.FamilySpec
	data, postings    driver.Family // postings is nil when no column is searched
	keySealer         *sealers      // of the sealed row key
	tokens            *seal.Sealer  // of page tokens
}

// column is a key part or a column, ready for use.
type column struct {
	field
	*cipher
	scheme    ope.Scheme // of an ordered part or column
	lead      []byte     // of a searched column: what all its postings begin with
	part      int        // position in the row key, or -1
	position  int        // position among the stored columns, or -1
	since     uint32     // who knew an earlier version may not have known that there are cells of it
	packed    bool
	varies    bool      // the row that is replaced may have it in a cell of its own, or packed: policies change
	of        *column   // of a former column, the one that has its values now
	former    []*column // of a column, those that had its values
	converted bool      // of a former column: no row has a value there, but what a client leaves that dies asleep
}

// cipher is what a column is encrypted with. It remembers what it was used for, and is shared by
// all views that have the column with the same keys.
type cipher struct {
	id     columnID
	keys   []byte    // fingerprint of what it was made from
	sealer *sealers  // nil where it never was sealed
	token  []byte    // key of the pseudo-random function that gives tokens of values
	macs   sync.Pool // of that function, each a hash.Hash

	size int // length of what a posting carries: a ciphertext or a token

	// newScheme returns another client of the scheme, which remembers a number of values.
	newScheme func(remembers int) (ope.Scheme, error)

	// Of an ordered part or column:
	preserving ope.Scheme // the scheme
	stateful   bool
	order      ope.Mutable // the scheme, if it is a mutable one; postings then carry tokens of codes
}

// newView opens a table as meta describes it, for a tenant if it is for one. It takes over from an earlier view what is the same.
func newView(ctx context.Context, tbl *Table, meta *tableMeta, tenant *tenantMeta, version uint32, earlier *view) (*view, error) {
	st := tbl.st
	schema, err := meta.schema()
	if err != nil {
		return nil, err
	}
	k := st.keys.table(meta.ID)
	var prefix []byte
	if tenant != nil {
		prefix = k.token(tenant.ID)
		if k, err = st.keys.ofTenant(k, tenant); err != nil {
			return nil, err
		}
	}
	t := &view{
		tbl:     tbl,
		st:      st,
		version: version,
		changed: changed(meta, tenant),
		meta:    meta,
		schema:  schema,
		byName:  make(map[string]*column),
		clear:   meta.Clear,
		place:   place("cell", meta.ID[:]),
		tokens:  sealer(k.page),
		prefix:  prefix,
	}
	if t.keySealer, err = k.rows(meta); err != nil {
		return nil, err
	}
	known := make(map[columnID]*cipher)
	if earlier != nil {
		for _, c := range slices.Concat(earlier.parts, earlier.stored) {
			known[c.id] = c.cipher
		}
	}
	indexes := make(map[string]ope.Index)
	add := func(f field, meta *fieldMeta, part int) (*column, error) {
		if tenant != nil && part < 0 {
			f = tenant.stored(t.meta.ID, f, meta)
		}
		c := &column{field: f, part: part, position: -1, since: meta.Since, converted: meta.Converted, lead: slices.Concat(meta.ID[:], prefix)}
		if c.cipher = known[meta.ID]; c.cipher == nil || !bytes.Equal(c.keys, k.fingerprint(meta)) {
			if c.cipher, err = newCipher(ctx, st, k, f, meta, indexes); err != nil {
				return nil, fmt.Errorf("column %q: %w", f.name, err)
			}
		}
		c.scheme = c.preserving
		if tenant != nil && !c.searched() {
			var policy policyMeta
			policy, c.varies = tenant.Policies[t.meta.ID]
			c.since = max(c.since, policy.Since)
		}
		if c.order != nil && part >= 0 {
			return nil, fmt.Errorf("%w: key part %q: scheme %q moves ciphertexts", ErrFormat, f.name, f.scheme)
		}
		// What is not sealed is packed only where the key cell is not sealed either, so that reading
		// it takes no key.
		c.packed = part < 0 && schema.Layout == Packed && !c.searched() && (!c.clear() || t.clear)
		return c, nil
	}
	for i, part := range schema.Key {
		c, err := add(part.field, &meta.Key[i], i)
		if err != nil {
			return nil, err
		}
		t.byName[c.name] = c
		t.parts = append(t.parts, c)
	}
	for i, col := range schema.Columns {
		c, err := add(col.field, &meta.Columns[i], -1)
		if err != nil {
			return nil, err
		}
		t.schema.Columns[i].field = c.field // as the tenant's policy has it
		c.position = len(t.columns)
		t.byName[c.name] = c
		t.columns = append(t.columns, c)
	}
	t.stored = slices.Clone(t.columns)
	for i, c := range t.columns {
		for j := range meta.Columns[i].Former {
			was := &meta.Columns[i].Former[j]
			f, err := was.field()
			if err != nil {
				return nil, err
			}
			f.name = c.name
			former, err := add(f, was, -1)
			if err != nil {
				return nil, err
			}
			former.of, former.position = c, len(t.stored)
			c.former = append(c.former, former)
			t.stored = append(t.stored, former)
		}
	}
	t.byID = make([]int, len(t.stored))
	for i := range t.byID {
		t.byID[i] = i
	}
	slices.SortFunc(t.byID, func(a, b int) int { return bytes.Compare(t.stored[a].id[:], t.stored[b].id[:]) })
	// The families were made before the table was in the catalogue: one that is not there was dropped.
	open := func(spec driver.FamilySpec) (driver.Family, error) {
		spec.Existing = true
		return st.db.Family(ctx, spec)
	}
	if t.spec, err = meta.dataSpec(); err != nil {
		return nil, err
	}
	if earlier != nil {
		t.data = earlier.data
	} else if t.data, err = open(t.spec); err != nil {
		return nil, err
	}
	if meta.hasPostings() {
		t.postingSpec = meta.postingSpec()
		if earlier != nil && earlier.postings != nil {
			t.postings = earlier.postings
		} else if t.postings, err = open(t.postingSpec); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// newCipher opens the keys of a part or column, and its scheme.
func newCipher(ctx context.Context, st *Store, k tableKeys, f field, meta *fieldMeta, indexes map[string]ope.Index) (*cipher, error) {
	key, err := k.search(meta)
	if err != nil {
		return nil, err
	}
	c := &cipher{id: meta.ID, keys: k.fingerprint(meta), size: tokenSize}
	if meta.searchable() {
		c.token = key.Derive(purposeToken).Secret()
	}
	if c.sealer, err = k.cells(meta); err != nil {
		return nil, err
	}
	if f.encryption != ordered {
		return c, nil
	}
	family, unit := k.state(meta)
	if stateful(f.scheme) && indexes[family] == nil {
		if indexes[family], err = openIndex(ctx, st.db, family, true); err != nil {
			return nil, err
		}
	}
	order, state := key.Derive(purposeOrder), indexes[family]
	c.newScheme = func(remembers int) (ope.Scheme, error) {
		return newScheme(f.scheme, order, f.typ.domain(), state, unit, remembers)
	}
	if c.preserving, err = c.newScheme(st.remembers); err != nil {
		return nil, err
	}
	c.order, _ = c.preserving.(ope.Mutable)
	c.stateful = stateful(f.scheme)
	if c.order == nil {
		whole, err := c.preserving.Intervals(ctx, c.preserving.Domain().Min, c.preserving.Domain().Max)
		if err != nil {
			return nil, err
		}
		c.size = len(whole[0].Start)
	}
	return c, nil
}

// fingerprint returns bytes that are equal for fields that have equal ciphers.
func (m *fieldMeta) fingerprint() []byte {
	b := appendSized(nil, []byte(m.Type))
	b = appendSized(appendSized(b, []byte(m.Encryption)), []byte(m.Scheme))
	b = appendSized(appendSized(b, []byte(m.Confidentiality)), m.SearchKey)
	if m.Share != nil {
		b = append(append(b, m.Share.Table[:]...), m.Share.Column[:]...)
	}
	for _, key := range m.CellKeys {
		b = appendSized(b, key)
	}
	return b
}

// Schema returns the schema of the table, as this client knows it: it learns of a change by another
// client when it writes, reads what was written since, or is asked for a column that it does not know. Of
// a table that is open for a tenant, columns are encrypted as the tenant's policy says.
func (tbl *Table) Schema() Schema { return tbl.now().schema }

// searched reports whether the values of the column have postings.
func (c *column) searched() bool {
	return c.part < 0 && (c.encryption == ordered || c.encryption == deterministic)
}

// drives reports whether postings of the column lead to all rows that have a value there.
func (c *column) drives() bool {
	return c.searched() && !slices.ContainsFunc(c.former, func(f *column) bool { return !f.converted })
}

// tokenSize is the length of the pseudo-random token of a value. Two values of a column share a
// token with probability 2^-128.
const tokenSize = 16

func (c *column) appendToken(dst, canonical []byte) []byte {
	mac, _ := c.macs.Get().(hash.Hash)
	if mac == nil {
		mac = hmac.New(sha256.New, c.token)
	}
	mac.Reset()
	mac.Write(canonical)
	n := len(dst)
	dst = mac.Sum(dst)[:n+tokenSize]
	c.macs.Put(mac)
	return dst
}

// appendSearch appends what stands for a value in row keys and postings: a ciphertext or a token,
// and both for a lossy order.
func (c *column) appendSearch(ctx context.Context, dst []byte, value any) ([]byte, error) {
	switch c.encryption {
	case ordered:
		code, err := c.typ.code(value)
		if err != nil {
			return nil, err
		}
		if c.order != nil {
			return c.appendTag(dst, code), nil
		}
		if a, ok := c.scheme.(ope.Appender); ok {
			dst, err = a.AppendEncrypt(dst, code)
		} else {
			var ct ope.Ciphertext
			ct, err = c.scheme.Encrypt(ctx, code)
			dst = append(dst, ct...)
		}
		if err != nil {
			return nil, err
		}
		if c.part >= 0 && !c.typ.exact() {
			dst = c.appendToken(dst, c.typ.append(nil, value))
		}
		return dst, nil
	case hashed, deterministic:
		return c.appendToken(dst, c.typ.append(nil, value)), nil
	case plain:
		return appendSortable(dst, c.typ, value), nil
	case tieBreaker:
		return c.typ.append(dst, value), nil
	}
	panic("store: column " + c.name + " is not searched")
}
