package bench

import (
	"context"
	"crypto/aes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Errors that say why a store or a table in it cannot be used.
var (
	// ErrNoTable is returned when the store holds no table of the scheme and layout.
	ErrNoTable = errors.New("no such table")

	// ErrExists is returned when a table is to be created that the store holds already.
	ErrExists = errors.New("the table exists")

	// ErrParams is returned when a table was made with other parameters.
	ErrParams = errors.New("made with other parameters")
)

// A Store is an encrypted database with one table for each scheme and layout. The name of a table
// is "scheme/layout".
type Store struct {
	store  *store.Store
	meter  *meter
	tenant string // whose tables these are, or ""
}

// OpenStore opens a store as OpenTables does, and measures what is done with it.
func OpenStore(ctx context.Context, db driver.DB, key store.KMS, create bool) (*Store, error) {
	m := newMeter(db)
	st, err := OpenTables(ctx, m.db(), key, create)
	if err != nil {
		return nil, err
	}
	return &Store{store: st, meter: m}, nil
}

// For makes that tables are opened for a tenant, and that those which are made have tenants. One that
// does not exist is store.ErrNoTenant. Without a name nothing changes.
func (s *Store) For(ctx context.Context, tenant string) error {
	if tenant == "" {
		return nil
	}
	names, err := s.store.Tenants(ctx)
	if err == nil && !slices.Contains(names, tenant) {
		err = fmt.Errorf("tenant %q: %w; 'opebench tenant create' makes one", tenant, store.ErrNoTenant)
	}
	s.tenant = tenant
	return err
}

// OpenTables opens the tables of a store. With create it makes a store where the database holds
// none; otherwise that is ErrNoTable. A key that is not the store's is store.ErrWrongKey.
func OpenTables(ctx context.Context, db driver.DB, key store.KMS, create bool) (*store.Store, error) {
	if !create {
		families, err := db.Families(ctx)
		if err != nil {
			return nil, err
		}
		if len(families) == 0 {
			return nil, errNothing
		}
	}
	st, err := store.OpenKMS(ctx, db, key, nil)
	if errors.Is(err, store.ErrWrongKey) {
		err = fmt.Errorf("the key or passphrase is not this store's: %w", err)
	}
	return st, err
}

var errNothing = fmt.Errorf("%w: nothing was inserted into this store yet", ErrNoTable)

// A Layout is where a table has the value.
type Layout string

// The layouts.
const (
	LayoutKey    Layout = "key"
	LayoutColumn Layout = "column"
)

// Layouts returns the names of the layouts and a line about each.
func Layouts() (names, abouts []string) {
	return []string{string(LayoutKey), string(LayoutColumn)}, []string{
		"the value leads the row key: a range is one scan",
		"the value is a column: a range is a scan of its index, and one read for each row",
	}
}

// CheckLayout returns an error that lists the layouts unless there is one of that name.
func CheckLayout(name Layout) error {
	names, _ := Layouts()
	if !slices.Contains(names, string(name)) {
		return usagef("unknown layout %q: there is %s", name, strings.Join(names, ", "))
	}
	return nil
}

func tableName(scheme string, layout Layout) string { return scheme + "/" + string(layout) }

// SplitTable undoes what makes the name of a table; ok is false for one that opebench did not
// make.
func SplitTable(name string) (t Target, ok bool) {
	scheme, layout, _ := strings.Cut(name, "/")
	if CheckLayout(Layout(layout)) != nil {
		return Target{}, false
	}
	t, err := TargetOf(scheme, Layout(layout))
	return t, err == nil
}

// schema returns the schema of a table and the names of its parts.
//
//	layout  row key                          column
//	key     value (ordered), id (tie)
//	column  id (hashed; in the plain: as is) value (ordered)
func schema(spec schemeSpec, layout Layout, kind Kind, column string) (s store.Schema, value, id string) {
	// A file's column may have a name that no table's can have.
	if value = column; value == "" || len(value) > 100 || !utf8.ValidString(value) {
		value = "value"
	}
	if id = "id"; id == value {
		id = "row id"
	}
	s.Name = tableName(spec.name, layout)
	switch {
	case layout == LayoutKey:
		s.Key = []store.KeyPart{store.OrderedPart(value, kind.column.typ, spec.order.(store.KeyScheme)), store.TiePart(id)}
	case spec.plain:
		s.Key = []store.KeyPart{store.PlainPart(id, store.UUID)}
	default:
		s.Key = []store.KeyPart{store.HashedPart(id, store.UUID)}
	}
	if layout == LayoutColumn {
		s.Columns = []store.Column{store.OrderedColumn(value, kind.column.typ, spec.order)}
	}
	return s, value, id
}

// same reports whether two schemas store the same in the same way.
func same(a, b store.Schema) bool {
	return slices.EqualFunc(a.Key, b.Key, func(a, b store.KeyPart) bool { return a.Describe() == b.Describe() }) &&
		slices.EqualFunc(a.Columns, b.Columns, func(a, b store.Column) bool { return a.Describe() == b.Describe() })
}

// Tables returns the names of the tables, in ascending order.
func (s *Store) Tables(ctx context.Context) ([]string, error) {
	schemas, err := s.store.Tables(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, schema := range schemas {
		if _, ok := SplitTable(schema.Name); ok {
			names = append(names, schema.Name)
		}
	}
	return names, nil
}

// Info describes a table.
type Info struct {
	Target
	SchemeID string
	Kind     Kind
	Column   string
	Families []string // of the database, that hold the table; set by Create
}

// Open opens a table. A store that does not hold it is ErrNoTable.
func (s *Store) Open(ctx context.Context, target Target) (Table, Info, error) {
	spec, target, err := resolve(target)
	if err != nil {
		return nil, Info{}, err
	}
	name := target.Name()
	t, err := s.store.Table(ctx, name)
	if errors.Is(err, store.ErrNoTable) {
		names, err := s.Tables(ctx)
		switch {
		case err != nil:
			return nil, Info{}, err
		case len(names) == 0:
			return nil, Info{}, errNothing
		}
		return nil, Info{}, fmt.Errorf("%w: the store holds no values under %s; it holds %s", ErrNoTable, name, strings.Join(names, ", "))
	}
	if err != nil {
		return nil, Info{}, err
	}
	return s.table(ctx, spec, target, t)
}

// resolve returns the scheme of a target that can be, and its layout where it is "".
func resolve(t Target) (schemeSpec, Target, error) {
	t, err := TargetOf(t.Scheme, t.Layout)
	if err != nil {
		return schemeSpec{}, Target{}, err
	}
	spec, err := schemeByName(t.Scheme)
	return spec, t, err
}

// table recognises what a table holds. One that this program would make in no such way is
// ErrParams.
func (s *Store) table(ctx context.Context, spec schemeSpec, target Target, t *store.Table) (Table, Info, error) {
	made, layout := t.Schema(), target.Layout
	switch {
	case made.Tenants && s.tenant == "":
		return nil, Info{}, usagef("table %s has tenants: name one with --tenant", made.Name)
	case made.Tenants:
		var err error
		if t, err = t.Tenant(ctx, s.tenant); err != nil {
			return nil, Info{}, err
		}
	case s.tenant != "":
		return nil, Info{}, usagef("table %s has no tenants: leave --tenant out, or name another store", made.Name)
	}
	column := ""
	switch {
	case layout == LayoutKey && len(made.Key) > 0:
		column = made.Key[0].Name()
	case layout == LayoutColumn && len(made.Columns) > 0:
		column = made.Columns[0].Name()
	}
	for _, kind := range kinds {
		want, value, id := schema(spec, layout, kind, column)
		if !same(made, want) {
			continue
		}
		schemeID, err := SchemeID(spec.name, kind)
		if err != nil {
			return nil, Info{}, err
		}
		return &table{table: t, kind: kind, value: value, id: id, moves: spec.moves()},
			Info{Target: target, SchemeID: schemeID, Kind: kind, Column: column}, nil
	}
	return nil, Info{}, fmt.Errorf("table %s: %w: it is no table that this version of opebench makes", made.Name, ErrParams)
}

// checkFree returns ErrExists if the store holds one of the tables.
func (s *Store) checkFree(ctx context.Context, targets []Target) error {
	names, err := s.Tables(ctx)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if slices.Contains(names, t.Name()) {
			return errTableExists(t.Name())
		}
	}
	return nil
}

func errTableExists(name string) error {
	return fmt.Errorf("%w: the store holds values under %s already; name another store, or give --replace to drop them", ErrExists, name)
}

// Create makes an empty table. One that exists is ErrExists or, with replace, dropped.
func (s *Store) Create(ctx context.Context, target Target, kind Kind, column string, replace bool) (Table, Info, error) {
	spec, target, err := resolve(target)
	if err == nil {
		_, err = SchemeID(spec.name, kind) // a type that it cannot encrypt makes no table
	}
	if err != nil {
		return nil, Info{}, err
	}
	schema, _, _ := schema(spec, target.Layout, kind, column)
	if replace {
		if err := s.store.Drop(ctx, schema.Name); err != nil && !errors.Is(err, store.ErrNoTable) {
			return nil, Info{}, err
		}
	}
	schema.Tenants = s.tenant != ""
	s.meter.reset()
	t, err := s.store.Create(ctx, schema)
	if errors.Is(err, store.ErrExists) {
		return nil, Info{}, errTableExists(schema.Name)
	}
	if err != nil {
		return nil, Info{}, err
	}
	families := s.meter.opened()
	table, info, err := s.table(ctx, spec, target, t)
	info.Families = families
	return table, info, err
}

// OpenOrCreate opens the table or, where the store does not hold it, makes it. One that was made
// for other values is ErrParams.
func (s *Store) OpenOrCreate(ctx context.Context, target Target, kind Kind, column string) (Table, Info, error) {
	t, info, err := s.Open(ctx, target)
	if errors.Is(err, ErrNoTable) {
		t, info, err = s.Create(ctx, target, kind, column, false)
		if errors.Is(err, ErrExists) {
			t, info, err = s.Open(ctx, target) // another client was faster
		}
	}
	if err != nil {
		return nil, Info{}, err
	}
	if info.Kind.Name != kind.Name {
		want, err := SchemeID(info.Scheme, kind)
		if err != nil {
			return nil, Info{}, err
		}
		return nil, Info{}, fmt.Errorf("table %s: %w: it holds %s values under scheme ID %q, these are %s values under %q",
			info.Name(), ErrParams, info.Kind.Name, info.SchemeID, kind.Name, want)
	}
	return t, info, nil
}

// Load returns the row ids of the load of that name. Loads of one store have different names,
// unless one repeats the other.
func (s *Store) Load(name uint64) *Ties {
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("opebench/2 ties"), name))
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic("bench: " + err.Error()) // 16 bytes are a key
	}
	return &Ties{block, name}
}
