package migrate

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func tenantLog(name string, conditional bool) store.Schema {
	return store.Schema{
		Name: name, Tenants: true, Conditional: conditional, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("level", store.Int64, store.Kerschbaum), store.PlainColumn("note", store.String), store.RandomisedColumn("zone", store.String)},
	}
}

// The rows of each tenant come into its own rows of another table, under its own keys and policy, of the same store or of another one.
func TestTenantsCome(t *testing.T) {
	t.Parallel() // it waits most of the time
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for _, conditional := range []bool{false, true} {
			for _, another := range []bool{false, true} {
				t.Run(fmt.Sprint("conditional ", conditional, ", another store ", another), func(t *testing.T) {
					t.Parallel() // it waits most of the time
					tenantsCome(t, kind.Open(t, nil), conditional, another)
				})
			}
		}
	})
}

func tenantsCome(t *testing.T, db driver.DB, conditional, another bool) {
	ctx := t.Context()
	open := func(db driver.DB) *store.Store {
		st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
		return st
	}
	old := open(db)
	young := old
	if another {
		young = open(drivertest.NewMemory())
	}
	from, err := old.Create(ctx, tenantLog("log", conditional))
	require.NoError(t, err)
	into, err := young.Create(ctx, tenantLog("log again", conditional))
	require.NoError(t, err)
	tenants := []string{"acme", "beta", "gamma"}
	for i, name := range tenants {
		require.NoError(t, old.CreateTenant(ctx, name))
		if i == 0 {
			require.NoError(t, old.SetPolicy(ctx, name, "log", store.Policy{Whole: true}))
		}
		if i == 1 {
			require.NoError(t, old.SetPolicy(ctx, name, "log", store.Policy{}, "zone"))
		}
	}
	row := func(id int64) store.Row { return store.Row{"id": id, "level": id % 5, "note": "same", "zone": "z"} }
	bound := func(tbl *store.Table, name string) *store.Table {
		of, err := tbl.Tenant(ctx, name)
		require.NoError(t, err)
		return of
	}
	rows := func(tbl *store.Table, name string) map[int64]store.Row {
		all := make(map[int64]store.Row)
		for r, err := range bound(tbl, name).Query(ctx, store.Query{Where: store.Int64.Field("level").AtLeast(0)}) {
			require.NoError(t, err)
			all[r["id"].(int64)] = r
		}
		return all
	}
	for _, name := range tenants[:2] {
		for id := range int64(20) {
			require.NoError(t, bound(from, name).Put(ctx, row(id)))
		}
	}
	source, err := FromTable(ctx, old, "log")
	require.NoError(t, err)
	m, err := New(into, source)
	require.NoError(t, err)
	if another {
		_, err := m.Prepare(ctx, false)
		require.ErrorIs(t, err, ErrUnfit)
		require.ErrorContains(t, err, `has no tenant "acme": create it there`)
		for _, name := range tenants {
			require.NoError(t, young.CreateTenant(ctx, name))
		}
	}
	plan, err := m.Prepare(ctx, false)
	require.NoError(t, err, plan)
	require.Equal(t, 40, plan.Sampled)
	for i := range 3 {
		_, err = m.Copy(ctx, inspect.Part{Index: i, Of: 3}, nil)
		require.NoError(t, err)
	}
	// Writers go on, each for its tenant.
	err = m.Mirror().Write(ctx, []store.Row{row(1)}, func(context.Context) error { panic("written") })
	require.ErrorIs(t, err, store.ErrTenant)
	for _, name := range tenants {
		w, err := m.MirrorOf(ctx, name)
		require.NoError(t, err)
		require.NoError(t, w.Write(ctx, []store.Row{row(3)}, func(ctx context.Context) error { return bound(from, name).Delete(ctx, row(3)) }))
		require.NoError(t, w.Write(ctx, []store.Row{row(30)}, func(ctx context.Context) error { return bound(from, name).Put(ctx, row(30)) }))
	}
	// What went past them is found, in the right tenant's rows, and mended.
	require.NoError(t, bound(from, "beta").Put(ctx, store.Row{"id": int64(4), "level": int64(4), "note": "other"}))
	done, err := m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 40, Differs: 1}, done.Rows)
	done, err = m.Verify(ctx, whole, &PassOptions{Repair: true})
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 40, Mended: 1}, done.Rows)
	for _, name := range tenants {
		require.Equal(t, rows(from, name), rows(into, name), name)
	}
	require.Len(t, rows(into, "acme"), 20)
	require.Len(t, rows(into, "gamma"), 1)

	// The policies came with them.
	for i, want := range []store.Policy{{Whole: true}, {}} {
		p, set, err := young.Policy(ctx, tenants[i], "log again")
		require.NoError(t, err)
		require.True(t, set)
		require.Equal(t, want.Whole, p.Whole)
	}
	use, err := bound(into, "acme").KeyUse(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, use.Plain)
	require.NoError(t, m.Cutover(ctx))
	_, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	_, err = m.Drop(ctx, false, nil)
	require.NoError(t, err)
	require.Len(t, rows(into, "acme"), 20)
	_, err = old.Table(ctx, "log")
	require.ErrorIs(t, err, store.ErrNoTable)
}

// Rows of tenants come into a table with tenants only, which is not open for one; a policy that would show more than both schemas say is refused.
func TestTenantsThatDoNotFit(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	from, err := st.Create(ctx, tenantLog("log", false))
	require.NoError(t, err)
	schema := tenantLog("sealed", false)
	schema.Columns[1] = store.RandomisedColumn("note", store.String)
	into, err := st.Create(ctx, schema)
	require.NoError(t, err)
	schema.Name, schema.Tenants = "without", false
	without, err := st.Create(ctx, schema)
	require.NoError(t, err)
	require.NoError(t, st.CreateTenant(ctx, "acme"))
	acme, err := from.Tenant(ctx, "acme")
	require.NoError(t, err)
	require.NoError(t, acme.Put(ctx, store.Row{"id": int64(1), "note": "n"}))
	require.NoError(t, st.SetPolicy(ctx, "acme", "log", store.Policy{Sensitive: []string{"zone"}}))

	source, err := FromTable(ctx, st, "log")
	require.NoError(t, err)
	_, err = New(without, source)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, "make it with tenants")
	plain, err := FromTable(ctx, st, "without")
	require.NoError(t, err)
	_, err = New(into, plain)
	require.ErrorIs(t, err, ErrUnfit)
	bound, err := into.Tenant(ctx, "acme")
	require.NoError(t, err)
	_, err = New(bound, source)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, "open it without")

	m, err := New(into, source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, "set the tenant's policy for the table")
	require.NoError(t, st.SetPolicy(ctx, "acme", "sealed", store.Policy{Whole: true}))
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	_, err = m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	use, err := bound.KeyUse(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, use.Plain)
}

// A policy that somebody sets for the table, just before that of the source would come, stays: it may seal more.
func TestPolicyThatIsSetMeanwhile(t *testing.T) {
	ctx, db, master := t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
	st, err := store.Open(ctx, db, master, nil)
	require.NoError(t, err)
	from, err := st.Create(ctx, tenantLog("log", false))
	require.NoError(t, err)
	_, err = st.Create(ctx, tenantLog("log again", false))
	require.NoError(t, err)
	require.NoError(t, st.CreateTenant(ctx, "acme"))
	require.NoError(t, st.SetPolicy(ctx, "acme", "log", store.Policy{}, "zone"))
	acme, err := from.Tenant(ctx, "acme")
	require.NoError(t, err)
	require.NoError(t, acme.Put(ctx, store.Row{"id": int64(1), "zone": "z"}))

	set := false
	other, err := store.Open(ctx, intercept.New(db, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
		if op.Method == "CheckAndPut" && !set {
			set = true
			require.NoError(t, st.SetPolicy(ctx, "acme", "log again", store.Policy{Sensitive: []string{"zone"}}))
		}
		return c.Make(nil)
	}, nil), master, nil)
	require.NoError(t, err)
	source, err := FromTable(ctx, other, "log")
	require.NoError(t, err)
	m, err := Open(ctx, other, "log again", source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	require.True(t, set)
	p, _, err := st.Policy(ctx, "acme", "log again")
	require.NoError(t, err)
	require.Equal(t, store.Policy{Sensitive: []string{"zone"}}, p)
}

// A column that came after a tenant's policy is sealed, as the schema says. The policy comes along, and the column stays sealed.
func TestColumnsThatAreNewerThanAPolicyStaySealed(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	from, err := st.Create(ctx, tenantLog("log", false))
	require.NoError(t, err)
	require.NoError(t, st.CreateTenant(ctx, "acme"))
	require.NoError(t, st.SetPolicy(ctx, "acme", "log", store.Policy{}, "zone"))
	secret := store.RandomisedColumn("secret", store.String)
	require.NoError(t, st.Alter(ctx, "log", store.AddColumn(secret)))
	acme, err := from.Tenant(ctx, "acme")
	require.NoError(t, err)
	require.NoError(t, acme.Put(ctx, store.Row{"id": int64(1), "zone": "z", "secret": "s"}))

	schema := tenantLog("log again", false)
	schema.Columns = append(schema.Columns, secret)
	into, err := st.Create(ctx, schema)
	require.NoError(t, err)
	copiedFrom(t, st, "log", into)
	again, err := into.Tenant(ctx, "acme")
	require.NoError(t, err)
	for i, want := range []string{"ordered", "plain", "plain", "randomised"} {
		require.Equal(t, want, acme.Schema().Columns[i].Describe().Encryption)
		require.Equal(t, want, again.Schema().Columns[i].Describe().Encryption)
	}
	p, _, err := st.Policy(ctx, "acme", "log again")
	require.NoError(t, err)
	require.Equal(t, store.Policy{Sensitive: []string{"secret"}}, p)
	got, err := again.Get(ctx, store.Row{"id": int64(1)})
	require.NoError(t, err)
	require.Equal(t, "s", got["secret"])
}

// A tenant that is dropped in one of two stores, while the rows of all come from the other: where it is in the new one alone its rows
// are not kept without a word, and where it was made again there its rows are verified again.
func TestTenantsDroppedMeanwhile(t *testing.T) {
	ctx := t.Context()
	var stores [2]*store.Store
	var tables [2]*store.Table
	for i := range stores {
		var err error
		stores[i], err = store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
		require.NoError(t, err)
		tables[i], err = stores[i].Create(ctx, tenantLog("log", true))
		require.NoError(t, err)
		for _, name := range []string{"acme", "beta"} {
			require.NoError(t, stores[i].CreateTenant(ctx, name))
		}
	}
	old, young := stores[0], stores[1]
	for _, name := range []string{"acme", "beta"} {
		of, err := tables[0].Tenant(ctx, name)
		require.NoError(t, err)
		require.NoError(t, of.Put(ctx, store.Row{"id": int64(1), "level": int64(1)}))
	}
	m := copiedFrom(t, old, "log", tables[1])
	verified := func() string {
		_, err := m.Verify(ctx, whole, &PassOptions{Repair: true})
		require.NoError(t, err)
		status, err := m.Status(ctx)
		require.NoError(t, err)
		return status.Phase
	}
	require.Equal(t, "verified", verified())

	require.NoError(t, young.DropTenant(ctx, "beta"))
	require.NoError(t, young.CreateTenant(ctx, "beta"))
	status, err := m.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "copying", status.Phase)
	verified()
	of, err := tables[1].Tenant(ctx, "beta")
	require.NoError(t, err)
	n, err := of.Count(ctx, store.Predicate{})
	require.NoError(t, err)
	require.Equal(t, 1, n)

	require.NoError(t, old.DropTenant(ctx, "beta"))
	err = m.Cutover(ctx)
	require.ErrorIs(t, err, ErrUnfit, "it was there when it was verified")
	require.ErrorContains(t, err, "drop it here, too")
	_, err = m.Verify(ctx, whole, nil)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, "drop it here, too")
	require.NoError(t, young.DropTenant(ctx, "beta"))
	require.Equal(t, "verified", verified())
	require.NoError(t, m.Cutover(ctx))
}

// A tenant is dropped in the new store while another client verifies, and is made again there: the verification does not count.
func TestTenantDroppedDuringAVerification(t *testing.T) {
	ctx, during := t.Context(), func() {}
	db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if op.Method == "CheckAndPut" {
			now := during
			during = func() {}
			now()
		}
		return c.Make(nil)
	}, nil)
	open := func(db driver.DB) (*store.Store, *store.Table) {
		st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
		require.NoError(t, err)
		tbl, err := st.Create(ctx, tenantLog("log", true))
		require.NoError(t, err)
		require.NoError(t, st.CreateTenant(ctx, "acme"))
		return st, tbl
	}
	old, from := open(drivertest.NewMemory())
	young, into := open(db)
	of, err := from.Tenant(ctx, "acme")
	require.NoError(t, err)
	require.NoError(t, of.Put(ctx, store.Row{"id": int64(1), "level": int64(1)}))
	m := copiedFrom(t, old, "log", into)
	during = func() { // where nothing is verified yet, nothing is doubted before
		_, err := m.Verify(ctx, whole, nil)
		require.NoError(t, err)
	}
	require.NoError(t, young.DropTenant(ctx, "acme"))
	require.NoError(t, young.CreateTenant(ctx, "acme"))
	status, err := m.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "copying", status.Phase)
	require.ErrorIs(t, m.Cutover(ctx), ErrDiffers)
}
