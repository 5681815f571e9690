package rekey

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// Copy begins to copy a table, of pages or not, into a new one of the same schema under keys of its own, in the same store under another name or in
// another store, or finds what an earlier call has begun. The rest is as with any migration: all writers of the table write through its
// Mirror, or there are none.
//
// Tenants that the other store has not are made there, with keys of their own; [migrate.Migration] gives them their policies. Columns
// that share the key of another table's column share it again: in the same store that key stays, and in another one that table
// must be there before.
func Copy(ctx context.Context, from *store.Store, table string, to *store.Store, as string) (*migrate.Migration, error) {
	m, err := begin(ctx, from, table, to, as)
	if err != nil {
		return nil, fmt.Errorf("rekey: copy table %q into table %q: %w", table, as, err)
	}
	return m, nil
}

func begin(ctx context.Context, from *store.Store, table string, to *store.Store, as string) (*migrate.Migration, error) {
	source, err := migrate.FromTable(ctx, from, table)
	if err != nil {
		return nil, err
	}
	m, err := migrate.Open(ctx, to, as, source)
	if errors.Is(err, store.ErrNoTable) {
		if err := comesElsewhere(ctx, from, table, to, as); err != nil {
			return nil, err
		}
		if err := create(ctx, from, table, to, as); err != nil {
			return nil, err
		}
		m, err = migrate.Open(ctx, to, as, source)
	}
	if err != nil {
		return nil, err
	}
	status, err := m.Status(ctx)
	if err != nil {
		return m, err
	}
	if status.CutOver.IsZero() && status.Phase != "aborted" {
		if err := sameSchema(ctx, from, table, to, as, status.Phase != ""); err != nil {
			return m, err
		}
		if err := samePolicies(ctx, from, table, to, as); err != nil {
			return m, err
		}
	}
	if status.Phase != "" {
		return m, nil
	}
	if err := comesElsewhere(ctx, from, table, to, as); err != nil {
		return m, err
	}
	plan, err := m.Prepare(ctx, false)
	if errors.Is(err, migrate.ErrPhase) {
		return m, nil // another one was faster
	}
	switch why := slices.Concat(plan.Unfit, plan.Unmapped); {
	case len(why) > 1: // the error has the first
		err = fmt.Errorf("%w: %s", err, strings.Join(why[1:], " "))
	case errors.Is(err, migrate.ErrUnfit) && len(why) == 0 && plan.Source != "": // the source can be read, and the table is not empty
		err = fmt.Errorf("%w: %s is there, and has rows, or marks of deleted ones: drop or rename that one",
			migrate.ErrUnfit, nameThere(from, to, as))
	}
	return m, err
}

// comesElsewhere returns an error if the rows of a table are coming into another one of its store than this. At the end nothing would drop the
// table, and the copy would be cut over and stay beside it.
func comesElsewhere(ctx context.Context, from *store.Store, table string, to *store.Store, as string) error {
	err := migrate.Followed(ctx, from, table)
	if !errors.Is(err, migrate.ErrPhase) {
		return err
	}
	err = fmt.Errorf("%w; as long as both are there, no second copy begins", err)
	m, gone := migrate.Open(ctx, to, as, nil)
	if gone != nil {
		return err
	}
	if status, unknown := m.Status(ctx); unknown != nil || status.Phase == "" {
		return err
	}
	return nil // another one was faster
}

// schemaOf returns the schema of a table, as one that has another name.
func schemaOf(ctx context.Context, from *store.Store, table, as string) (meta.Schema, error) {
	old, err := session.Of(from).Kept(ctx, table)
	if err != nil {
		return meta.Schema{}, err
	}
	schema, err := old.Now().Meta.Schema()
	if err != nil {
		return meta.Schema{}, err
	}
	schema.Name = as
	for i := range schema.Columns {
		if c := &schema.Columns[i]; c.Confidentiality == meta.OfColumns && c.Table == table {
			c.Table = as
		}
	}
	return schema, nil
}

// sameSchema returns an error if a table that is there is not what create would make: it would take the place of the other one, and
// might store in the clear what that seals. Rows may have begun to come into it.
func sameSchema(ctx context.Context, from *store.Store, table string, to *store.Store, as string, begun bool) error {
	into, err := session.Of(to).Kept(ctx, as)
	if err != nil {
		return err
	}
	is, err := into.Now().Meta.Schema()
	if err != nil {
		return err
	}
	wanted, err := schemaOf(ctx, from, table, is.Name)
	if err != nil {
		return err
	}
	what := differsAt(is.Key, wanted.Key)
	if what == "" {
		what = differsAt(is.Columns, wanted.Columns)
	}
	is.Key, is.Columns, wanted.Key, wanted.Columns = nil, nil, nil, nil
	switch {
	case what == "" && reflect.DeepEqual(is, wanted):
		return nil
	case what == "":
		what = "time to live, tenants, layout, rows of a page or how rows are written"
	}
	way := "drop or rename that one, or bring the rows into it by a migration"
	if begun {
		way = "change the schema back or, to begin again, abort the migration into that one, by 'rangecrypt migrate abort', and drop it"
	}
	return fmt.Errorf("%w: %s is there, and its schema is another one than that of table %q: %s; %s", migrate.ErrUnfit, nameThere(from, to, as), table, what, way)
}

// nameThere names the table that rows come into, which mostly has the name of its source where that is in another store.
func nameThere(from, to *store.Store, as string) string {
	if from == to {
		return fmt.Sprintf("table %q", as)
	}
	return fmt.Sprintf("table %q of the other store", as)
}

// samePolicies returns an error if a policy of the table that is there has a column in the clear which that of the other one seals: it was
// set after a migration had taken over the one of before. A tenant without any policy there gets the other one.
func samePolicies(ctx context.Context, from *store.Store, table string, to *store.Store, as string) error {
	old, err := session.Of(from).Kept(ctx, table)
	if err != nil || !old.Now().Meta.Tenants {
		return err
	}
	into, err := session.Of(to).Kept(ctx, as)
	if err != nil {
		return err
	}
	return old.EachTenant(ctx, func(was *session.Table) error {
		tenant := was.Now().TenantName()
		_, has, err := administer.PolicyOf(ctx, session.Of(to), tenant, as)
		if err != nil || !has {
			return err
		}
		is, err := into.ForTenant(ctx, tenant)
		if err != nil {
			return err
		}
		columns := is.Schema().Columns
		for i, c := range was.Schema().Columns {
			if c.Encryption != meta.Plain && columns[i].Encryption == meta.Plain {
				return fmt.Errorf("%w: by the policy of table %q, column %q is sealed, and by that of table %q it would be in the clear: set the tenant's policy for table %[4]q, too, and convert its rows",
					migrate.ErrUnfit, table, c.Name, as)
			}
		}
		return nil
	})
}

// differsAt says where columns, or parts of row keys, are stored in another way, or returns "".
func differsAt(is, wanted []meta.Spec) string {
	for i := range max(len(is), len(wanted)) {
		if i >= len(is) || i >= len(wanted) {
			return fmt.Sprintf("it has %d columns or parts of the key, and not %d", len(is), len(wanted))
		}
		a, b := is[i], wanted[i]
		alike := a.Type.ID() == b.Type.ID()
		a.Type, b.Type = nil, nil // which have functions
		if !alike || !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("%q", b.Name)
		}
	}
	return ""
}

// create makes the new table and, in another store, the tenants.
func create(ctx context.Context, from *store.Store, table string, to *store.Store, as string) error {
	schema, err := schemaOf(ctx, from, table, as)
	if err != nil {
		return err
	}
	if schema.Tenants && session.Of(from) != session.Of(to) {
		if err := createTenants(ctx, from, to); err != nil {
			return err
		}
	}
	_, err = administer.Create(ctx, session.Of(to), schema)
	if errors.Is(err, fault.ErrExists) {
		return nil // another one was faster
	}
	return err
}

func createTenants(ctx context.Context, from, to *store.Store) error {
	names, err := from.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := to.CreateTenant(ctx, name); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return nil
}
