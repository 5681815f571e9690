package store

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"sync"

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
	meta    *tableMeta
	schema  Schema
	parts   []*column
	columns []*column
	byName  map[string]*column

	byID  []int      // positions in columns, in ascending order of their ids
	clear bool       // nothing is encrypted
	place seal.Place // of the table's cells, without row and column

	spec, postingSpec driver.FamilySpec
	data, postings    driver.Family // postings is nil when no column is searched
	keySealer         *seal.Sealer  // of the sealed row key
	tokens            *seal.Sealer  // of page tokens
}

// column is a key part or a column, ready for use.
type column struct {
	field
	id       columnID
	part     int // position in the row key, or -1
	position int // position among the columns, or -1
	sealer   *seal.Sealer
	token    []byte    // key of the pseudo-random function that gives tokens of values
	macs     sync.Pool // of that function, each a hash.Hash
	packed   bool

	size int // length of what a posting carries: a ciphertext or a token

	// Of an ordered part or column:
	scheme   ope.Scheme
	stateful bool
	order    ope.Mutable // the scheme, if it is a mutable one; postings then carry tokens of codes
}

func newTable(ctx context.Context, st *Store, meta *tableMeta) (*Table, error) {
	schema, err := meta.schema()
	if err != nil {
		return nil, err
	}
	k := st.keys.table(meta.ID)
	t := &Table{
		st:        st,
		meta:      meta,
		schema:    schema,
		byName:    make(map[string]*column),
		place:     place("cell", meta.ID[:]),
		keySealer: sealer(k.table.Derive("key cell")),
		tokens:    sealer(k.table.Derive("page token")),
	}
	var state ope.Index
	if meta.hasIndex() {
		if state, err = openIndex(ctx, st.db, meta.indexFamily()); err != nil {
			return nil, err
		}
	}
	add := func(f field, id columnID, part int) (*column, error) {
		key := k.column(id)
		c := &column{
			field:    f,
			id:       id,
			part:     part,
			position: len(t.columns),
			sealer:   sealer(key.Derive(purposeCell)),
			token:    key.Derive(purposeToken).Secret(),
			size:     tokenSize,
		}
		if f.encryption == ordered {
			c.scheme, err = newScheme(f.scheme, key.Derive(purposeOrder), f.typ.domain(), state, hex.EncodeToString(id[:]), st.remembers)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", f.name, err)
			}
			c.order, _ = c.scheme.(ope.Mutable)
			c.stateful = stateful(f.scheme)
			if c.order != nil && part >= 0 {
				return nil, fmt.Errorf("%w: key part %q: scheme %q moves ciphertexts", ErrFormat, f.name, f.scheme)
			}
			if c.order == nil {
				whole, err := c.scheme.Intervals(ctx, c.scheme.Domain().Min, c.scheme.Domain().Max)
				if err != nil {
					return nil, fmt.Errorf("column %q: %w", f.name, err)
				}
				c.size = len(whole[0].Start)
			}
		}
		t.byName[f.name] = c
		return c, nil
	}
	for i, part := range schema.Key {
		c, err := add(part.field, meta.Key[i].ID, i)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, c)
	}
	for i, col := range schema.Columns {
		c, err := add(col.field, meta.Columns[i].ID, -1)
		if err != nil {
			return nil, err
		}
		t.columns = append(t.columns, c)
	}
	t.clear = true
	for _, c := range t.byName {
		t.clear = t.clear && c.clear()
	}
	for _, c := range t.columns {
		// What is not sealed is packed only where the key cell is not sealed either, so that reading
		// it takes no key.
		c.packed = schema.Layout == Packed && !c.searched() && (!c.clear() || t.clear)
	}
	t.byID = make([]int, len(t.columns))
	for i := range t.byID {
		t.byID[i] = i
	}
	slices.SortFunc(t.byID, func(a, b int) int { return bytes.Compare(t.columns[a].id[:], t.columns[b].id[:]) })
	t.spec = driver.FamilySpec{Name: meta.dataFamily(), Layout: driver.LayoutOrdered}
	switch leading := t.parts[0]; leading.encryption {
	case hashed:
		t.spec.PrefixBytes = tokenSize
	case plain:
		t.spec.PrefixBytes = leading.typ.width()
	case ordered:
		t.spec.SpreadBits = meta.SpreadBits
	}
	if t.data, err = st.db.Family(ctx, t.spec); err != nil {
		return nil, err
	}
	if meta.hasPostings() {
		t.postingSpec = driver.FamilySpec{
			Name: meta.postingFamily(), Layout: driver.LayoutOrdered,
			PrefixBytes: len(columnID{}), SpreadBits: meta.SpreadBits,
		}
		if t.postings, err = st.db.Family(ctx, t.postingSpec); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Schema returns the schema of the table.
func (t *Table) Schema() Schema { return t.schema }

// searched reports whether the column has postings.
func (c *column) searched() bool {
	return c.part < 0 && (c.encryption == ordered || c.encryption == deterministic)
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
