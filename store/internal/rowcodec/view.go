// Package rowcodec turns rows into cells and postings, and back. It does no input or output; what it knows of a table is
// a [View], which never changes. Only a scheme that draws its ciphertexts asks its index.
package rowcodec

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	metadata "github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	values "github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A View is a table as of one version of the catalogue, for one tenant if the table has some: what is needed to
// turn rows into cells and back. It is never changed, and does no input or output. Only the schemes of its
// columns may: a stateful one asks its index.
type View struct {
	Version uint32 // of the catalogue, at which meta is what it says of the table
	Since   uint32 // the version at which it became how the table stores rows
	Meta    *metadata.Table
	Tenant  *catalogue.TenantRef // that the rows are of, or nil
	Parts   []*Column
	Columns []*Column // of the schema
	Stored  []*Column // the columns, and after them the former ones, under whose ids rows may have values
	ByName  map[string]*Column

	byID  []int      // positions in stored, in ascending order of their ids
	clear bool       // nothing is encrypted
	place seal.Place // of the table's cells, without row and column

	Prefix []byte // of row keys: the token of the tenant

	Clock  Clock
	Mends  bool          // takes no notice of a cell in a column that is null: an earlier write has left it
	TTL    time.Duration // of rows that are put; 0 is for ever
	OwnTTL bool          // which the caller has given, not the table

	Spec, PostingSpec driver.FamilySpec
	hasSearched       bool             // columns are searched, or were
	KeySealer         *keyring.Sealers // of the sealed row key
	Tokens            *seal.Sealer     // of page tokens
}

// Column is a key part or a column, ready for use.
type Column struct {
	metadata.Spec
	*cipher
	Scheme    ope.Scheme // of an ordered part or column
	copied    []bool     // of what is stored, what copies in postings of the column have; nil is all
	Lead      []byte     // of a searched column: what all its postings begin with, or values in its server index
	Number    uint32     // in pages
	Part      int        // position in the row key, or -1
	Position  int        // among the stored columns, or -1
	Since     uint32     // who knew an earlier version may not have known that there are cells of it
	Packed    bool
	Varies    bool      // the row that is replaced may have it in a cell of its own, or packed: policies change
	Of        *Column   // of a former column, the one that has its values now
	Former    []*Column // of a column, those that had its values
	Unit      uint32    // number of the index of a stateful scheme
	Filling   bool      // which lacks values of rows
	Converted bool      // of a former column: no row has a value there, but what a client leaves that dies asleep
}

// cipher is what a column is encrypted with. It remembers what it was used for, and is shared by
// all views that have the column with the same keys.
type cipher struct {
	Id              metadata.ColumnID
	keys            []byte           // fingerprint of what it was made from
	Sealer          *keyring.Sealers // nil where it never was sealed
	*keyring.Tokens                  // nil where it is not searched

	Size int // length of what a posting carries: a ciphertext or a token

	// NewScheme returns another client of the scheme, which remembers a number of values; FormerScheme one that
	// keeps its state in another unit.
	NewScheme    func(remembers int) (ope.Scheme, error)
	FormerScheme func(unit string) (ope.Scheme, error)

	// Of an ordered part or column:
	preserving ope.Scheme // the scheme, nil where Text is one
	Text       *boldyreva.TextScheme
	Stateful   bool
	Filled     atomic.Bool        // its index has the pairs of all rows, whatever a view says
	Batches    ope.BatchEncrypter // the scheme, if it is a stateful one
	RankSize   int                // of ciphertexts that begin with ranks, how much of them has the order of the values; or 0
	Order      ope.Mutable        // the scheme, if it is a mutable one; postings then carry tokens of codes
}

// A ViewSource is what a view is made of.
type ViewSource struct {
	Version uint32
	Meta    *metadata.Table
	Tenant  *metadata.Tenant // nil in a table without tenants, and for what is common to all of them
	Keys    keyring.Keys
	Earlier *View // whose ciphers are taken over where they are the same, or nil
	Clock   Clock

	Remembers int                                    // values of each stateful scheme; 0 is its default
	Index     func(family string) (ope.Index, error) // opens the index of stateful schemes
}

// View returns the view.
func (src *ViewSource) View() (*View, error) {
	meta := src.Meta
	if _, err := meta.Schema(); err != nil {
		return nil, err
	}
	k := src.Keys.Table(meta.ID)
	t := &View{
		Version:     src.Version,
		Since:       metadata.Changed(meta, src.Tenant),
		Meta:        meta,
		ByName:      make(map[string]*Column),
		clear:       meta.Clear,
		place:       keyring.Place("cell", meta.ID[:]),
		PostingSpec: meta.PostingSpec(),
		hasSearched: meta.HasPostings() || meta.HasSearched(),
		Clock:       src.Clock,
		TTL:         time.Duration(meta.TTL) * time.Second,
	}
	var err error
	if src.Tenant != nil {
		t.Tenant, t.Prefix = &catalogue.TenantRef{ID: src.Tenant.ID, Name: src.Tenant.Name}, k.Token(src.Tenant.ID)
		if k, err = src.Keys.OfTenant(k, src.Tenant); err != nil {
			return nil, err
		}
	}
	t.Tokens = keyring.Sealer(k.Page)
	if t.KeySealer, err = k.Rows(meta); err != nil {
		return nil, err
	}
	if t.Spec, err = meta.DataSpec(); err != nil {
		return nil, err
	}
	if err := src.addColumns(t, k); err != nil {
		return nil, err
	}
	t.byID = make([]int, len(t.Stored))
	for i := range t.byID {
		t.byID[i] = i
	}
	slices.SortFunc(t.byID, func(a, b int) int { return bytes.Compare(t.Stored[a].Id[:], t.Stored[b].Id[:]) })
	return t, nil
}

// addColumns adds the key parts, the columns, and what these were before.
func (src *ViewSource) addColumns(t *View, k keyring.Table) error {
	meta, known := src.Meta, make(map[metadata.ColumnID]*cipher)
	if src.Earlier != nil {
		for _, c := range slices.Concat(src.Earlier.Parts, src.Earlier.Stored) {
			known[c.Id] = c.cipher
		}
	}
	add := func(name string, f *metadata.Field, part int) (*Column, error) {
		c, err := src.column(t, k, f, part, known[f.ID])
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		c.Name = name
		return c, nil
	}
	for i := range meta.Key {
		c, err := add(meta.Key[i].Name, &meta.Key[i], i)
		if err != nil {
			return err
		}
		t.ByName[c.Name] = c
		t.Parts = append(t.Parts, c)
	}
	for i := range meta.Columns {
		c, err := add(meta.Columns[i].Name, &meta.Columns[i], -1)
		if err != nil {
			return err
		}
		c.Position = len(t.Columns)
		t.ByName[c.Name] = c
		t.Columns = append(t.Columns, c)
	}
	t.Stored = slices.Clone(t.Columns)
	for i, c := range t.Columns {
		for j := range meta.Columns[i].Former {
			former, err := add(c.Name, &meta.Columns[i].Former[j], -1)
			if err != nil {
				return err
			}
			former.Of, former.Position = c, len(t.Stored)
			c.Former = append(c.Former, former)
			t.Stored = append(t.Stored, former)
		}
	}
	for _, c := range t.Stored {
		if c.Copied == nil {
			continue
		}
		c.copied = make([]bool, len(t.Stored))
		for i, other := range t.Stored {
			c.copied[i] = other.Name == c.Name || slices.Contains(c.Copied, other.Name)
		}
	}
	return nil
}

// column returns a part or column of the view, with a cipher that is known if it still is the same.
func (src *ViewSource) column(t *View, k keyring.Table, meta *metadata.Field, part int, known *cipher) (*Column, error) {
	f, err := t.Meta.SpecOf(meta)
	if err != nil {
		return nil, err
	}
	if src.Tenant != nil && part < 0 {
		f = src.Tenant.Stored(t.Meta.ID, f, meta)
	}
	c := &Column{
		Spec: f, cipher: known, Number: meta.Number, Part: part, Position: -1, Since: meta.Since, Unit: meta.Unit, Filling: meta.Filling,
		Converted: meta.Converted, Lead: slices.Concat(meta.ID[:], t.Prefix),
	}
	if c.ServerIndex {
		c.Lead = bytes.Clone(t.Prefix[:min(len(t.Prefix), indexedTenant)])
	}
	if known == nil || !bytes.Equal(known.keys, k.Fingerprint(meta)) {
		if c.cipher, err = src.cipher(k, f, meta); err != nil {
			return nil, err
		}
	}
	c.Scheme = c.preserving
	if src.Tenant != nil && !c.Searched() {
		var policy metadata.Policy
		policy, c.Varies = src.Tenant.Policies[t.Meta.ID]
		c.Since = max(c.Since, policy.Since)
	}
	if part >= 0 && (c.Order != nil || c.RankSize > 0) {
		return nil, fmt.Errorf("%w: as a part of the row key: scheme %q is for columns", fault.ErrFormat, f.Scheme)
	}
	// What is not sealed is packed only where the key cell is not sealed either, so that reading
	// it takes no key.
	c.Packed = part < 0 && t.Meta.Packed() && !c.Posted() && (!c.Clear() || t.clear)
	return c, nil
}

// cipher opens the keys of a part or column, and its scheme.
func (src *ViewSource) cipher(k keyring.Table, f metadata.Spec, meta *metadata.Field) (*cipher, error) {
	key, err := k.Search(meta)
	if err != nil {
		return nil, err
	}
	c := &cipher{Id: meta.ID, keys: k.Fingerprint(meta), Size: metadata.TokenSize}
	if meta.Searchable() {
		c.Tokens = keyring.NewTokens(key)
	}
	if c.Sealer, err = k.Cells(meta); err != nil {
		return nil, err
	}
	if f.Encryption != metadata.Ordered {
		return c, nil
	}
	family, unit := k.State(meta)
	var state ope.Index
	if scheme.Stateful(f.Scheme) {
		if state, err = src.Index(family); err != nil {
			return nil, err
		}
	}
	order, most := key.Derive(keyring.PurposeOrder), src.Remembers // not src, which would keep each earlier view, and what it remembers
	if n := f.Type.TextOrder(); n > 0 {
		if c.Text, err = scheme.NewText(f.Scheme, order, n); err != nil {
			return nil, err
		}
		c.Size = len(c.Text.Encrypt(nil))
		return c, nil
	}
	c.NewScheme = func(remembers int) (ope.Scheme, error) {
		return scheme.New(f.Scheme, order, f.Type.Domain(), state, unit, remembers)
	}
	c.FormerScheme = func(unit string) (ope.Scheme, error) {
		return scheme.New(f.Scheme, order, f.Type.Domain(), state, unit, most)
	}
	if c.preserving, err = c.NewScheme(most); err != nil {
		return nil, err
	}
	c.Order, _ = c.preserving.(ope.Mutable)
	if _, ranked := c.preserving.(*kerschbaum.Ranked); ranked {
		c.RankSize = kerschbaum.RankSize
	}
	if c.Stateful = scheme.Stateful(f.Scheme); c.Stateful {
		var ok bool
		if c.Batches, ok = c.preserving.(ope.BatchEncrypter); !ok {
			return nil, fmt.Errorf("%w: scheme %q does not take batches", fault.ErrFormat, f.Scheme)
		}
	}
	if c.Order == nil {
		// It has all ciphertexts: no index is asked.
		whole, err := c.preserving.Intervals(context.Background(), c.preserving.Domain().Min, c.preserving.Domain().Max)
		if err != nil {
			return nil, err
		}
		c.Size = len(whole[0].Start)
	}
	return c, nil
}

// Covers reports whether the postings of the column have copies of the rows.
func (c *Column) Covers() bool { return c.Covering && c.Searched() }

// copies reports whether the copies in postings of the column have what is stored at a position.
func (c *Column) copies(position int) bool { return c.copied == nil || c.copied[position] }

// CopiesHave reports whether postings of the column have copies of rows with the columns in want; nil is all.
func (c *Column) CopiesHave(want []bool) bool {
	switch {
	case !c.Covers() || c.copied == nil:
		return c.Covers()
	case want == nil:
		return !slices.Contains(c.copied, false)
	}
	for i, wanted := range want {
		if wanted && !c.copied[i] {
			return false
		}
	}
	return true
}

// DescribeCopies says whether copies in postings of the column answer a query that reads the columns in want, where nil is
// all, or which of them the copies lack. It says nothing of a column that does not cover, or of none.
func (c *Column) DescribeCopies(t *View, want []bool, e *inspect.Explanation) {
	if c == nil || !c.Covers() {
		return
	}
	if c.CopiesHave(want) {
		e.Copied = append(e.Copied, c.Name)
	}
	for i, other := range t.Columns {
		if (want == nil || want[i]) && !c.copies(i) && !slices.Contains(e.Uncopied, other.Name) {
			e.Uncopied = append(e.Uncopied, other.Name)
		}
	}
}

// Trim takes from a record what copies in postings of the column do not have.
func (c *Column) Trim(t *View, r *Record) {
	for i := range t.Stored {
		if !c.copies(i) {
			r.Values[len(t.Parts)+i] = nil
		}
	}
}

// Posted reports whether the values of the column have postings.
func (c *Column) Posted() bool { return c.Searched() && !c.ServerIndex }

// Searched reports whether the values of the column have postings, or are in an index of the database.
func (c *Column) Searched() bool {
	return c.Part < 0 && (c.Encryption == metadata.Ordered || c.Encryption == metadata.Deterministic)
}

// TenantName returns the name of the tenant that the rows are of, or "".
func (t *View) TenantName() string {
	if t.Tenant == nil {
		return ""
	}
	return t.Tenant.Name
}

// AppendSearch appends what stands for a value in row keys and postings: a ciphertext or a token,
// and both for a lossy order.
func (c *Column) AppendSearch(ctx context.Context, dst []byte, value any) ([]byte, error) {
	if c.Type.Unordered(value) {
		return nil, values.ErrNaN // from before the column was searched
	}
	switch c.Encryption {
	case metadata.Ordered:
		dst, err := c.appendOrdered(ctx, dst, value)
		if err != nil {
			return nil, err
		}
		return c.appendKnown(dst, nil, value), nil
	case metadata.Hashed, metadata.Deterministic:
		return c.AppendToken(dst, c.Type.Append(nil, value)), nil
	case metadata.Plain:
		return values.AppendSortable(dst, c.Type, value), nil
	case metadata.TieBreaker:
		return c.Type.Append(dst, value), nil
	}
	panic("store: column " + c.Name + " is not searched")
}

// appendKnown appends a ciphertext of a value, and what follows it in row keys.
func (c *Column) appendKnown(dst, ct []byte, value any) []byte {
	dst = append(dst, ct...)
	if c.Part >= 0 && !c.Type.Exact() {
		dst = c.AppendToken(dst, c.Type.Append(nil, value))
	}
	return dst
}

// appendOrdered appends the ciphertext of a value or, where these move, its tag.
func (c *Column) appendOrdered(ctx context.Context, dst []byte, value any) ([]byte, error) {
	if c.Text != nil {
		return c.Text.AppendEncrypt(dst, c.Type.Append(nil, value)), nil
	}
	code, err := c.Type.Code(value)
	if err != nil {
		return nil, err
	}
	if c.Order != nil {
		return c.AppendTag(dst, code), nil
	}
	if a, ok := c.Scheme.(ope.Appender); ok {
		return a.AppendEncrypt(dst, code)
	}
	ct, err := c.Scheme.Encrypt(ctx, code)
	return append(dst, ct...), err
}

func (t *View) ValueOf(c *Column, r *Record) any { return r.Values[t.ValueIndex(c)] }

// CodeOf returns the order code of the column's value in a record that was read.
func (t *View) CodeOf(c *Column, r *Record) int64 {
	code, err := c.Type.Code(r.Values[t.ValueIndex(c)])
	if err != nil {
		panic("store: a value without a code") // it was parsed, which checks that
	}
	return code
}

// ValueIndex returns where a record has the value of the column, whichever of its ids that was read under.
func (t *View) ValueIndex(c *Column) int {
	if c.Of != nil {
		c = c.Of
	}
	if c.Part >= 0 {
		return c.Part
	}
	return len(t.Parts) + c.Position
}

// Family returns the name under which the table appears in spans and logs.
func (t *View) Family() string { return t.Meta.DataFamily() }

// IndexOf returns the index of a part or column of this view.
func (t *View) IndexOf(c *Column) metadata.IndexRef {
	for _, f := range t.Meta.All() {
		if f.ID == c.Id {
			ref, _ := f.Index(t.Meta)
			return ref
		}
	}
	panic("store: column " + c.Name + " is of no view")
}

// AppendTag appends the token of a code.
func (c *Column) AppendTag(dst []byte, code int64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(code))
	if c.Clear() {
		// Spread as the tokens of an encrypted column are, so that the two can be compared.
		spread := uint64(code) * 0x9E3779B97F4A7C15
		return append(binary.BigEndian.AppendUint64(dst, spread^spread>>32), b...)
	}
	return c.AppendToken(dst, b)
}

// RowValues are the values of a row by the names of key parts and columns.
type RowValues = map[string]any
