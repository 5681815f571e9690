package meta

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Schema is what a caller says of a table.
type Schema struct {
	Name          string
	Key, Columns  []Spec
	SpreadBits    int // -1 is one partition, 0 the default
	CellPerColumn bool
	Conditional   bool
	AppendOnly    bool
	Tenants       bool
	TTL           time.Duration // 0: rows do not expire
	PageRows      int           // of a page; 0: there are none
}

const (
	defaultSpreadBits = 4
	MaxColumns        = 1000

	maxPageRows       = 4096
	maxPageSpreadBits = 8 // the first key of a partition is a byte longer than its prefix
)

// New checks a schema and gives it ids.
func New(s Schema) (*Table, error) {
	m := &Table{Name: s.Name, Columns: []Field{}, SpreadBits: s.SpreadBits, Layout: inspect.Layout(s.CellPerColumn), Conditional: s.Conditional, Tenants: s.Tenants}
	rand.Read(m.ID[:])
	if err := CheckTableName(s.Name); err != nil {
		return nil, err
	}
	switch {
	case len(s.Key) == 0:
		return nil, fmt.Errorf("%w: table %q has no row key", fault.ErrSchema, s.Name)
	case len(s.Columns) > MaxColumns:
		return nil, tooManyColumns(s.Name, len(s.Columns))
	case s.SpreadBits < -1 || s.SpreadBits > 12:
		return nil, fmt.Errorf("%w: table %q: a spread of %d bits, need -1 to 12", fault.ErrSchema, s.Name, s.SpreadBits)
	case s.SpreadBits == -1:
		m.SpreadBits = 0
	case s.SpreadBits == 0:
		m.SpreadBits = defaultSpreadBits
	}
	if err := m.page(s); err != nil {
		return nil, err
	}
	if s.AppendOnly {
		if err := m.setAppendOnly(s.Key); err != nil {
			return nil, err
		}
	}
	if err := m.setTTL(s.TTL); err != nil {
		return nil, err
	}
	taken := newTaken(m)
	m.Clear = !m.Tenants // key cells of tenants are sealed, and any column may be
	for i, part := range s.Key {
		switch {
		case part.Encryption == TieBreaker && len(s.Key) == 1:
			return nil, fmt.Errorf("%w: a row key cannot consist of tie-breaker %q alone; use a hashed or plain part of type uuid", fault.ErrSchema, part.Name)
		case part.Encryption == TieBreaker && i != len(s.Key)-1:
			return nil, misplacedTie(s.Key, i)
		case part.Encryption == Plain && i == 0 && part.Type != nil && part.Type.Width() == 0:
			return nil, fmt.Errorf("%w: part %q of varying length cannot lead a row key in the plain; hash it", fault.ErrSchema, part.Name)
		}
		meta, err := taken.named(part)
		if err != nil {
			return nil, err
		}
		m.number(&meta)
		m.Key = append(m.Key, meta)
		m.Clear = m.Clear && part.Clear()
	}
	for _, column := range s.Columns {
		meta, err := taken.named(column)
		if err == nil {
			err = cmp.Or(m.pageable(column), m.cover(&meta), m.indexable(&meta))
		}
		if err != nil {
			return nil, err
		}
		m.number(&meta)
		m.Columns = append(m.Columns, meta)
		m.Clear = m.Clear && column.Clear()
	}
	for i, column := range s.Columns {
		if err := m.choose(&m.Columns[i], column.Copied); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// choose has copies of rows in the postings of a column have the columns of these names, and itself; nil is all. Parts of
// the row key they have in any case. If some are chosen, older programs refuse the table from now on.
func (m *Table) choose(f *Field, names []string) error {
	f.Copied = nil
	if names == nil {
		return nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(slices.Concat(m.Key, m.Columns), func(c Field) bool { return c.Name == name }) {
			return fmt.Errorf("%w: column %q covers %q, and table %q has no such column: correct the name, or leave it out", fault.ErrSchema, f.Name, name, m.Name)
		}
	}
	for _, c := range m.Columns {
		if c.Name == f.Name || slices.Contains(names, c.Name) {
			f.Copied = append(f.Copied, c.ID)
		}
	}
	if !strings.Contains(m.Layout, chosen) {
		m.Layout += chosen
	}
	return nil
}

// SpecOf returns what a schema says of a part or column of the table.
func (m *Table) SpecOf(f *Field) (Spec, error) {
	s, err := f.Spec()
	if err != nil || f.Copied == nil {
		return s, err
	}
	s.Copied = []string{}
	for _, c := range m.Columns {
		if c.ID != f.ID && slices.Contains(f.Copied, c.ID) {
			s.Copied = append(s.Copied, c.Name)
		}
	}
	return s, nil
}

// page makes a table one of pages, unless the schema has what they cannot hold.
func (m *Table) page(s Schema) error {
	what := ""
	switch {
	case s.PageRows == 0:
		return nil
	case s.PageRows < 2 || s.PageRows > maxPageRows:
		return fmt.Errorf("%w: table %q: %d rows a page, need 2 to %d", fault.ErrSchema, m.Name, s.PageRows, maxPageRows)
	case s.CellPerColumn:
		what = "a cell for each column: sealed columns share a cell with those of other rows"
	case s.Conditional:
		what = "writes under conditions: every write of a page is a compare-and-set already"
	case s.AppendOnly:
		what = "rows that are only added: rows of a page can be replaced"
	case s.Tenants:
		what = "tenants: make a table for each, since the rows of a page share one key"
	case s.TTL != 0:
		what = "a time to live: make a table for each period, and drop it, since pages of deleted rows stay"
	case m.SpreadBits > maxPageSpreadBits:
		what = fmt.Sprintf("a spread of %d bits: at most %d", m.SpreadBits, maxPageSpreadBits)
	}
	if what != "" {
		return fmt.Errorf("%w: table %q: a table of pages cannot have %s", fault.ErrSchema, m.Name, what)
	}
	m.Layout, m.PageRows = inspect.Paged, s.PageRows
	for _, part := range s.Key {
		if scheme.Stateful(part.Scheme) {
			return fmt.Errorf("%w: table %q: key part %q of a table of pages cannot have the scheme %q, which keeps an index: take %q, %q or %q",
				fault.ErrSchema, m.Name, part.Name, part.Scheme, scheme.MOPE, scheme.Boldyreva, scheme.Wozniak)
		}
	}
	return nil
}

// number gives a new field the number that it has in pages. It is shorter than the id there, and never another one's.
func (m *Table) number(f *Field) {
	if m.Paged() {
		m.Numbers++
		f.Number = m.Numbers
	}
}

// pageable returns an error if pages have no room for what a column is to have.
func (m *Table) pageable(c Spec) error {
	if !m.Paged() || c.Encryption == Plain || c.Encryption == Randomised {
		return nil
	}
	return fmt.Errorf("%w: column %q of table %q, which has pages, cannot be searched, since pages have no index entries: make it randomised or plain, "+
		"or a part of the row key", fault.ErrSchema, c.Name, m.Name)
}

// setAppendOnly makes rows of the table ones that are never replaced.
func (m *Table) setAppendOnly(key []Spec) error {
	switch {
	case m.Conditional:
		return fmt.Errorf("%w: table %q: rows of a table with AppendOnly are never replaced, so that Conditional means nothing: leave out one of the two",
			fault.ErrSchema, m.Name)
	case len(key) == 0 || key[len(key)-1].Encryption != TieBreaker:
		return fmt.Errorf("%w: table %q: AppendOnly needs a tie-breaker as the last part of the row key, which makes each row another one: add it",
			fault.ErrSchema, m.Name)
	}
	m.Layout += appended
	return nil
}

// cover makes the table one that may have copies of rows, if a column is to have them. It is an error where a row can be
// replaced by who does not know it.
func (m *Table) cover(f *Field) error {
	switch {
	case !f.Covering || m.Copies():
		return nil
	case !m.Conditional:
		return fmt.Errorf("%w: column %q cannot cover in table %q, whose rows may be replaced unseen, so that a copy could be an old one: "+
			"make the table with AppendOnly or Conditional", fault.ErrSchema, f.Name, m.Name)
	}
	m.Layout += copied
	return nil
}

// indexable returns an error if a column is to have an index of the database in a table that is not written blindly. If it
// is to have one, older programs refuse the table from now on.
func (m *Table) indexable(f *Field) error {
	switch {
	case !f.ServerIndex:
		return nil
	case m.Conditional:
		return fmt.Errorf("%w: column %q cannot have a server index in table %q, which is conditional: leave it out, so that the column has index entries", fault.ErrSchema, f.Name, m.Name)
	case m.AppendOnly():
		return fmt.Errorf("%w: column %q cannot have a server index in table %q, whose rows are only added: let it cover instead, which is faster", fault.ErrSchema, f.Name, m.Name)
	}
	if !strings.Contains(m.Layout, served) {
		m.Layout += served
	}
	return nil
}

// misplacedTie says what to do with a tie-breaker that has other parts of the row key after it.
func misplacedTie(key []Spec, at int) error {
	for _, other := range key[at+1:] {
		if other.Encryption == TieBreaker {
			return fmt.Errorf("%w: %q and %q are both tie-breakers: a row key has one, as its last part; leave the other out", fault.ErrSchema, key[at].Name, other.Name)
		}
	}
	return fmt.Errorf("%w: tie-breaker %q must be the last part of the row key: move it to the end, after part %q",
		fault.ErrSchema, key[at].Name, key[len(key)-1].Name)
}

func tooManyColumns(table string, n int) error {
	return fmt.Errorf("%w: table %q has %d columns, at most %d", fault.ErrSchema, table, n, MaxColumns)
}

// taken are the names and ids that a table has used up.
type taken struct {
	names map[string]bool
	ids   map[ColumnID]bool
}

func newTaken(m *Table) taken {
	t := taken{make(map[string]bool), make(map[ColumnID]bool)}
	for _, f := range m.All() {
		t.names[f.Name], t.ids[f.ID] = true, true
	}
	for _, id := range slices.Concat(m.Dropped, m.DroppedIndexes) {
		t.ids[id] = true
	}
	return t
}

// named checks a part or column that gets its name now, and gives it an id.
func (t taken) named(f Spec) (Field, error) {
	if err := checkColumnName(f.Name); err != nil {
		return Field{}, err
	}
	return t.newField(f)
}

// newField checks a part or column, but for how it is named, and gives it an id.
func (t taken) newField(f Spec) (Field, error) {
	if err := f.check(); err != nil {
		return Field{}, err
	}
	if t.names[f.Name] {
		return Field{}, fmt.Errorf("%w: two columns are named %q", fault.ErrSchema, f.Name)
	}
	t.names[f.Name] = true
	meta := f.field()
	if f.Confidentiality == OfColumns {
		meta.Share = &Share{TableName: f.Table, ColumnName: f.Column}
	}
	for meta.ID == (ColumnID{}) || t.ids[meta.ID] {
		rand.Read(meta.ID[:])
	}
	t.ids[meta.ID] = true
	return meta, nil
}

// Schema returns the schema again, with the types and schemes of this version.
func (m *Table) Schema() (Schema, error) {
	s := Schema{Name: m.Name, SpreadBits: m.SpreadBits, Conditional: m.Conditional, AppendOnly: m.AppendOnly(), Tenants: m.Tenants, TTL: m.Lifetime(), PageRows: m.PageRows}
	if len(m.Key) == 0 && !m.Elsewhere() {
		return Schema{}, fmt.Errorf("%w: table %q has no row key", fault.ErrFormat, m.Name)
	}
	if s.SpreadBits == 0 {
		s.SpreadBits = -1
	}
	switch m.PlainLayout() {
	case inspect.Packed, inspect.Elsewhere, inspect.Paged:
	case inspect.CellPerColumn:
		s.CellPerColumn = true
	default:
		return Schema{}, fmt.Errorf("%w: table %q: layout %q is not known to this version", fault.ErrFormat, m.Name, m.Layout)
	}
	for _, meta := range m.Key {
		f, err := meta.Spec()
		if err != nil {
			return Schema{}, err
		}
		s.Key = append(s.Key, f)
	}
	for _, meta := range m.Columns {
		f, err := m.SpecOf(&meta)
		if err != nil {
			return Schema{}, err
		}
		s.Columns = append(s.Columns, f)
	}
	return s, nil
}

// Spec returns what a schema says of the field by itself: it knows no other columns.
func (m Field) Spec() (Spec, error) {
	typ, err := value.ParseID(m.Type)
	if err != nil {
		return Spec{}, fmt.Errorf("column %q: %w", m.Name, err)
	}
	switch m.Encryption {
	case Plain, Hashed, Ordered, TieBreaker, Randomised, Deterministic:
	default:
		return Spec{}, fmt.Errorf("%w: column %q: encryption %q is not known to this version", fault.ErrFormat, m.Name, m.Encryption)
	}
	if m.Encryption == Ordered && !typ.Orderable() {
		return Spec{}, fmt.Errorf("%w: column %q: values of type %s have no order", fault.ErrFormat, m.Name, m.Type)
	}
	if m.Encryption == Ordered {
		if err := scheme.Check(m.Scheme, typ); err != nil {
			return Spec{}, fmt.Errorf("column %q: %w", m.Name, err)
		}
	}
	f := Spec{Name: m.Name, Type: typ, Encryption: m.Encryption, Scheme: m.Scheme, Confidentiality: m.Confidentiality, Covering: m.Covering, ServerIndex: m.ServerIndex}
	switch m.Confidentiality {
	case OfColumn, OfDatabase:
	case OfColumns:
		if m.Share == nil {
			return Spec{}, fmt.Errorf("%w: column %q shares a key with none", fault.ErrFormat, m.Name)
		}
		f.Table, f.Column = m.Share.TableName, m.Share.ColumnName
	default:
		return Spec{}, fmt.Errorf("%w: column %q: confidentiality %q is not known to this version", fault.ErrFormat, m.Name, m.Confidentiality)
	}
	return f, nil
}
