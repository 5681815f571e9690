package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// orphanTable makes a table with rows of three tenants, of which two are dropped, and returns it with
// the table of the third one and its rows.
func orphanTable(t *testing.T, st *Store, kind Column, conditional bool) (tbl, left *Table, rows []Row) {
	t.Helper()
	ctx := t.Context()
	schema := tenantSchema("log", packed, HashedPart("id", Int64), kind)
	schema.Conditional = conditional
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	tables := openTenants(t, st, "log", "alpha", "beta", "gamma")
	for i := range 40 {
		rows = append(rows, tenantRow(i))
	}
	for _, bound := range tables {
		require.NoError(t, bound.Put(ctx, rows...))
		require.NoError(t, bound.Delete(ctx, rows[0]))
		require.NoError(t, setPolicy(ctx, st, bound.now().TenantName(), "log", Policy{}))
	}
	require.NoError(t, st.DropTenant(ctx, "alpha"))
	require.NoError(t, st.DropTenant(ctx, "gamma"))
	return tbl, tables[1], rows[1:]
}

func stateless() Column { return OrderedColumn("level", Int16, MOPE) }

// held returns how many keys the families of a table hold.
func held(t *testing.T, tbl *Table) (n int) {
	t.Helper()
	v := tbl.now()
	families := []driver.Family{v.Data}
	if v.Postings != nil {
		families = append(families, v.Postings)
	}
	if f, err := tbl.store().db.Driver.Family(t.Context(), driver.FamilySpec{Name: v.Meta.IndexFamily(), Layout: driver.LayoutWide, Existing: true}); err == nil {
		families = append(families, f)
	}
	for _, f := range families {
		for _, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			n++
		}
	}
	return n
}

// What dropped tenants left goes, and what the others have stays.
func TestDeleteOrphans(t *testing.T) {
	for _, kind := range []Column{stateless(), OrderedColumn("level", Int16, Kerschbaum), OrderedColumn("level", Int16, WozniakIndexed)} {
		for _, conditional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, conditional=%t", kind.Describe().Scheme, conditional), func(t *testing.T) {
				testdb.EachOf(t, kind.Describe().Scheme == "kerschbaum" && !conditional, func(t *testing.T, database testdb.Database) {
					ctx := t.Context()
					st := stores(t, database.Open(t, nil), 1)[0]
					tbl, left, rows := orphanTable(t, st, kind, conditional)
					stateful := kind.Describe().Scheme != "mope"
					if stateful && conditional { // the units of an index that was made again have other names
						err := tbl.RebuildIndex(ctx, "level", nil)
						require.NoError(t, err)
					}
					before, err := tbl.Verify(ctx, nil)
					require.NoError(t, err)
					require.Positive(t, before.Orphans)
					require.Positive(t, before.OrphanPostings)

					deleted, err := tbl.DeleteOrphans(ctx, nil)
					require.NoError(t, err)
					want := inspect.Orphans{Rows: before.Orphans, Postings: before.OrphanPostings}
					if stateful && !conditional {
						require.Positive(t, deleted.Indexes)
						want.Indexes = deleted.Indexes
					}
					require.Equal(t, want, deleted)
					deleted, err = tbl.DeleteOrphans(ctx, nil)
					require.NoError(t, err)
					require.Zero(t, deleted)

					after, err := tbl.Verify(ctx, nil)
					require.NoError(t, err)
					require.Zero(t, after.Orphans)
					require.Zero(t, after.OrphanPostings)
					require.Empty(t, after.Faults)
					require.Equal(t, before.Rows, after.Rows)
					require.Equal(t, before.Indexes, after.Indexes)
					require.Equal(t, rows, sorted(t, left, Query{}))
					require.Len(t, sorted(t, left, Query{Where: Field[int16]("level").Between(0, 100)}), len(rows))
					require.NoError(t, left.Put(ctx, rows...))
					// Nothing but orphans was there when all are gone.
					require.NoError(t, st.DropTenant(ctx, "beta"))
					_, err = tbl.DeleteOrphans(ctx, nil)
					require.NoError(t, err)
					require.Zero(t, held(t, tbl))
				})
			})
		}
	}
}

// What the database keeps of a row that has expired, of a column that was dropped, goes with the rest of a tenant, and is counted before.
func TestDeleteOrphansOfExpiredRows(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	st := clocked(t, drivertest.NewMemoryAt(clock.now), clock, 0)[0]
	tbl, err := st.Create(ctx, Schema{Name: "t", Tenants: true, TTL: TTLByRow, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{PlainColumn("secret", String)}})
	require.NoError(t, err)
	acme := openTenants(t, st, "t", "acme")[0]
	require.NoError(t, acme.Put(ctx, Row{"id": 1, "secret": "in the clear"}))
	require.NoError(t, st.Alter(ctx, "t", DropColumn("secret")))
	require.NoError(t, acme.Expiring(time.Hour).Put(ctx, Row{"id": 1}))
	clock.advance(4 * time.Hour)
	require.NoError(t, st.DropTenant(ctx, "acme"))
	require.Equal(t, 1, held(t, tbl))
	report, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Orphans)
	deleted, err := tbl.DeleteOrphans(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 1, deleted.Rows)
	require.Zero(t, held(t, tbl))
}

// It may die at any of its writes, and is called again.
func TestDeleteOrphansDies(t *testing.T) {
	for after := 0; ; after++ {
		ctx, memory := t.Context(), drivertest.NewMemory()
		st := stores(t, memory, 1)[0]
		tbl, left, rows := orphanTable(t, st, OrderedColumn("level", Int16, Kerschbaum), false)
		writes := 0
		dying := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if op.Method != "Apply" {
				return drivertest.NoFault
			}
			if writes++; writes > after {
				return drivertest.CrashAfter
			}
			return drivertest.NoFault
		})
		other := stores(t, dying, 1)[0]
		unbound, err := other.Table(ctx, "log")
		require.NoError(t, err)
		_, failed := unbound.DeleteOrphans(ctx, nil)
		if failed != nil {
			require.ErrorIs(t, failed, drivertest.ErrInjected)
		}
		_, err = tbl.DeleteOrphans(ctx, nil)
		require.NoError(t, err)
		report, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.Zero(t, report.Orphans+report.OrphanPostings)
		require.Empty(t, report.Faults)
		require.Equal(t, rows, sorted(t, left, Query{}))
		if failed == nil {
			require.Greater(t, after, 2)
			return
		}
	}
}

// Tenants that are made, and write, while it reads lose nothing: also where its list of them is older
// than they are.
func TestDeleteOrphansBesideNewTenants(t *testing.T) {
	ctx, memory := t.Context(), drivertest.NewMemory()
	st := stores(t, memory, 1)[0]
	_, left, rows := orphanTable(t, st, OrderedColumn("level", Int16, Kerschbaum), false)
	made := 0
	var tables []*Table
	other := stores(t, memory, 1)[0]
	unbound, err := other.Table(ctx, "log")
	require.NoError(t, err)
	// A tenant is made and has rows before each page that the sweep reads.
	deleted, err := unbound.DeleteOrphans(ctx, func(int) {
		bound := openTenants(t, st, "log", fmt.Sprint("new ", made))[0]
		made++
		require.NoError(t, bound.Put(ctx, rows...))
		tables = append(tables, bound)
	})
	require.NoError(t, err)
	require.NotZero(t, deleted.Rows)
	require.NotEmpty(t, tables)
	for _, bound := range append(tables, left) {
		require.Equal(t, rows, sorted(t, bound, Query{}))
		require.Len(t, sorted(t, bound, Query{Where: Field[int16]("level").Between(0, 100)}), len(rows))
	}
	report, err := unbound.Verify(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, report.Orphans+report.OrphanPostings)
	require.Empty(t, report.Faults)
}

func TestDeleteOrphansIsRefused(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, left, _ := orphanTable(t, st, stateless(), false)
	_, err := left.DeleteOrphans(ctx, nil)
	require.ErrorIs(t, err, ErrTenant)
	ordinary, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	_, err = ordinary.DeleteOrphans(ctx, nil)
	require.ErrorIs(t, err, ErrTenant)
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err = tbl.DeleteOrphans(done, nil)
	require.True(t, errors.Is(err, context.Canceled), err)
	require.NoError(t, st.Drop(ctx, "log"))
	_, err = tbl.DeleteOrphans(ctx, nil)
	require.ErrorIs(t, err, ErrNoTable)
}
