package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// Errors that say why a store or a table in it cannot be used.
var (
	// ErrExists is returned when a table is to be created that the store holds already.
	ErrExists = errors.New("the table exists")

	// ErrParams is returned when a table was made with other parameters.
	ErrParams = errors.New("made with other parameters")
)

// A Store is an encrypted database with one table for each scheme and layout. The name of a table
// is "scheme/layout".
type Store struct {
	db     driver.DB
	store  *store.Store
	meter  *meter
	tenant string // whose tables these are, or ""
}

// OpenStore opens a store as [stores.Tables] does, and measures what is done with it.
func OpenStore(ctx context.Context, db driver.DB, key kms.KMS, create bool) (*Store, error) {
	db, m := metered(db)
	st, err := stores.Tables(ctx, db, key, create)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, store: st, meter: m}, nil
}

// For names the tenant that tables are opened for; those that are made then have tenants. A tenant that
// does not exist is store.ErrNoTenant. Without a name nothing changes.
func (s *Store) For(ctx context.Context, tenant string) error {
	if tenant == "" {
		return nil
	}
	names, err := s.store.Tenants(ctx)
	if err == nil && !slices.Contains(names, tenant) {
		err = fmt.Errorf("tenant %q: %w; 'rangecrypt tenant create' makes one", tenant, store.ErrNoTenant)
	}
	s.tenant = tenant
	return err
}

// Tables returns the names of the tables, in ascending order.
func (s *Store) Tables(ctx context.Context) ([]string, error) {
	schemas, err := s.store.Tables(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, schema := range schemas {
		if _, ok := benchtable.Split(schema.Name); ok {
			names = append(names, schema.Name)
		}
	}
	return names, nil
}

// Info describes a table.
type Info struct {
	benchtable.Target
	SchemeID string
	Kind     values.Kind
	Column   string   // as it is shown
	stored   string   // its name in the table
	Families []string // of the database, that hold the table; set by Create
}

// Open opens a table. A store that does not hold it is stores.ErrNoTable.
func (s *Store) Open(ctx context.Context, target benchtable.Target) (StoredTable, Info, error) {
	target, err := benchtable.TargetOf(target.Scheme, target.Layout)
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
			return nil, Info{}, stores.ErrNoneInserted
		}
		return nil, Info{}, fmt.Errorf("%w: the store holds no values under %s; it holds %s", stores.ErrNoTable, name, strings.Join(names, ", "))
	}
	if err != nil {
		return nil, Info{}, err
	}
	return s.table(ctx, target, t)
}

// table recognises what a table holds. One that this program would make in no such way is
// ErrParams.
func (s *Store) table(ctx context.Context, target benchtable.Target, t *store.Table) (StoredTable, Info, error) {
	made := t.Schema()
	switch {
	case made.Tenants && s.tenant == "":
		return nil, Info{}, exit.Usagef("table %s has tenants: name one with --tenant", made.Name)
	case made.Tenants:
		var err error
		if t, err = t.Tenant(ctx, s.tenant); err != nil {
			return nil, Info{}, err
		}
	case s.tenant != "":
		return nil, Info{}, exit.Usagef("table %s has no tenants: leave --tenant out, or name another store", made.Name)
	}
	h, ok := target.Recognise(made)
	if !ok {
		return nil, Info{}, fmt.Errorf("table %s: %w: it is no table that this version of opebench makes", made.Name, ErrParams)
	}
	schemeID, err := benchtable.SchemeID(target.Scheme, h.Kind)
	if err != nil {
		return nil, Info{}, err
	}
	return &table{table: t, kind: h.Kind, value: h.Value, id: h.ID, moves: target.Moves()},
		Info{Target: target, SchemeID: schemeID, Kind: h.Kind, Column: values.ShownColumn(h.Column), stored: h.Column}, nil
}

// checkFree returns ErrExists if the store holds one of the tables.
func (s *Store) checkFree(ctx context.Context, targets []benchtable.Target) error {
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
func (s *Store) Create(ctx context.Context, target benchtable.Target, kind values.Kind, column string, replace bool) (StoredTable, Info, error) {
	target, err := benchtable.TargetOf(target.Scheme, target.Layout)
	if err == nil {
		_, err = benchtable.SchemeID(target.Scheme, kind) // a type that it cannot encrypt makes no table
	}
	if err != nil {
		return nil, Info{}, err
	}
	schema := target.Schema(kind, column)
	if replace {
		if err := s.Drop(ctx, target); err != nil {
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
	table, info, err := s.table(ctx, target, t)
	info.Families = families
	return table, info, err
}

// Drop removes a table, if the store holds it.
func (s *Store) Drop(ctx context.Context, target benchtable.Target) error {
	if err := s.store.Drop(ctx, target.Name()); !errors.Is(err, store.ErrNoTable) {
		return err
	}
	return nil
}

// OpenOrCreate opens the table or, where the store does not hold it, makes it. One that was made for
// values of another column is exit.ErrUsage, and one for those of another type ErrParams. One whose rows are coming into another
// table is [migrate.ErrPhase]: that would not get what is put here.
func (s *Store) OpenOrCreate(ctx context.Context, target benchtable.Target, kind values.Kind, column string) (StoredTable, Info, error) {
	t, info, err := s.Open(ctx, target)
	if errors.Is(err, stores.ErrNoTable) {
		t, info, err = s.Create(ctx, target, kind, column, false)
		if errors.Is(err, ErrExists) {
			t, info, err = s.Open(ctx, target) // another client was faster
		}
	}
	if err != nil {
		return nil, Info{}, err
	}
	if name := values.StoredName(column); !values.SameColumn(info.stored, name) {
		return nil, Info{}, exit.Usagef("table %s was filled from %s, and this is %s: two columns do not share a table, name another store",
			info.Name(), values.DescribeColumn(info.stored), values.DescribeColumn(name))
	}
	if info.Kind.Name != kind.Name {
		want, err := benchtable.SchemeID(info.Scheme, kind)
		if err != nil {
			return nil, Info{}, err
		}
		return nil, Info{}, fmt.Errorf("table %s: %w: it holds %s values under scheme ID %q, these are %s values under %q: take --type %[3]s, or name another store",
			info.Name(), ErrParams, info.Kind.Name, info.SchemeID, kind.Name, want)
	}
	if err := migrate.Followed(ctx, s.store, info.Name()); err != nil {
		return nil, Info{}, err
	}
	return t, info, nil
}

// Load returns the row ids of the load of that name.
func (s *Store) Load(name uint64) *loads.Ties { return loads.TiesOf("opebench/2 ties", name) }
