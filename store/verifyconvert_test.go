package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// hooked opens the table as a client before whose calls something is done, which may also be that a call fails.
func hooked(t *testing.T, db driver.DB, before func(op drivertest.Op) drivertest.Fault) *Table {
	t.Helper()
	st, err := Open(t.Context(), drivertest.NewFaulty(db, before), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(t.Context())) // writes leave nothing to do
	tbl, err := st.Table(t.Context(), "t")
	require.NoError(t, err)
	return tbl
}

// eachDatabase runs a variant of a test on an empty database of each kind.
func eachDatabase(t *testing.T, name string, main bool, test func(t *testing.T, db driver.DB)) {
	t.Run(name, func(t *testing.T) {
		testdb.EachOf(t, main, func(t *testing.T, kind testdb.Database) { test(t, kind.Open(t, nil)) })
	})
}

// repairInBetween lets a client die right before it stores rows. Another client does the same, and sleeps at that place. While it
// does, a third one repairs the table, and drops what it has found before. It returns how often that dropped entries.
func repairInBetween(t *testing.T, db driver.DB, do func(*Table) error) (drops int) {
	t.Helper()
	families := hooked(t, db, func(drivertest.Op) drivertest.Fault { return drivertest.NoFault }).now()
	stores := func(op drivertest.Op) bool {
		return op.Family == families.Spec.Name && (op.Conditional() || op.Method == "Replace" || op.Method == "Apply")
	}
	dead := false
	first := hooked(t, db, func(op drivertest.Op) drivertest.Fault {
		if dead = dead || stores(op); dead {
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	})
	require.Error(t, do(first))
	require.True(t, dead)

	reached, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	waits := true
	second := hooked(t, db, func(op drivertest.Op) drivertest.Fault {
		if waits && stores(op) {
			waits = false
			close(reached)
			<-goOn
		}
		return drivertest.NoFault
	})
	begin := func() {
		go func() { ended <- do(second) }()
		<-reached
	}
	repairer := hooked(t, db, func(op drivertest.Op) drivertest.Fault {
		if op.Family == families.PostingSpec.Name && (op.Method == "Apply" || op.Method == "Replace") {
			if drops++; drops == 1 {
				begin()
			}
		}
		return drivertest.NoFault
	})
	_, faults := verified(t, repairer, repairing)
	require.Empty(t, faults)
	if drops == 0 {
		begin()
	}
	close(goOn)
	require.NoError(t, <-ended)
	return drops
}

// foundBy requires that a query by column v returns one row, and that nothing is wrong.
func foundBy(t *testing.T, db driver.DB) {
	t.Helper()
	fresh := hooked(t, db, func(drivertest.Op) drivertest.Fault { return drivertest.NoFault })
	require.True(t, forms.Settled(fresh.now().ByName["v"]))
	found := 0
	for _, err := range fresh.Query(t.Context(), Query{Where: Int32.Field("v").AtLeast(0)}) {
		require.NoError(t, err)
		found++
	}
	require.Equal(t, 1, found)
	_, faults := verified(t, fresh, VerifyOptions{})
	require.Empty(t, faults)
}

// A conversion that died has left the entries of rows that it was about to store again. Another one puts the same entries, at
// any time: also right before a repair drops them that has waited for its grace period.
func TestRepairBesideConversionThatGoesOn(t *testing.T) {
	changes := map[string]func(tbl *Table) error{
		"another scheme": func(tbl *Table) error {
			return tbl.store().Alter(context.Background(), "t", ChangeColumn(OrderedColumn("v", Int32, Boldyreva)))
		},
		"covering": func(tbl *Table) error {
			return tbl.store().Alter(context.Background(), "t", ChangeColumn(OrderedColumn("v", Int32, KerschbaumRanked).Covering()))
		},
		"another index": func(*Table) error { return nil },
	}
	for name, alter := range changes {
		for _, conditional := range []bool{false, true} {
			if name == "covering" && !conditional {
				continue
			}
			eachDatabase(t, fmt.Sprint(name, ", conditional ", conditional), name == "covering", func(t *testing.T, db driver.DB) {
				ctx := t.Context()
				tbl, err := stores(t, db, 1)[0].Create(ctx, Schema{
					Name: "t", Conditional: conditional, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("v", Int32, KerschbaumRanked)},
				})
				require.NoError(t, err)
				require.NoError(t, tbl.Put(ctx, Row{"id": 1, "v": 7}))
				require.NoError(t, alter(tbl))
				drops := repairInBetween(t, db, func(tbl *Table) error {
					if name == "another index" {
						return tbl.RebuildIndex(ctx, "v", nil)
					}
					_, err := tbl.Convert(ctx, nil)
					return err
				})
				require.Zero(t, drops)
				foundBy(t, db)
			})
		}
	}
}

// So does a load that goes on, which puts rows of the same writes.
func TestRepairBesideLoadThatGoesOn(t *testing.T) {
	for _, covers := range []bool{false, true} {
		eachDatabase(t, fmt.Sprint("covers ", covers), covers, func(t *testing.T, db driver.DB) {
			ctx := t.Context()
			v := OrderedColumn("v", Int32, MOPE)
			if covers {
				v = v.Covering()
			}
			_, err := stores(t, db, 1)[0].Create(ctx, Schema{Name: "t", AppendOnly: true, Key: []KeyPart{HashedPart("k", Int64), TiePart("id")}, Columns: []Column{v}})
			require.NoError(t, err)
			drops := repairInBetween(t, db, func(tbl *Table) error { return tbl.Put(ctx, Row{"k": 1, "id": LoadTie{1}, "v": 7}) })
			require.NotZero(t, drops)
			foundBy(t, db)
		})
	}
}

// A row may be stored as an earlier schema has it although all was converted: a write under that schema has won over the conversion.
// The entry of that time is gone, and the one of now leads to the row. So nothing is wrong, until that is gone as well.
func TestRowsAsEarlierSchemasHadThem(t *testing.T) {
	for _, c := range []struct{ before, after Column }{
		{OrderedColumn("v", Int32, MOPE), OrderedColumn("v", Int32, Wozniak)},
		{OrderedColumn("v", Int32, Boldyreva), OrderedColumn("v", Int32, Kerschbaum)},
		{OrderedColumn("v", Int32, WozniakIndexed), OrderedColumn("v", Int32, KerschbaumRanked)},
		{OrderedColumn("v", Int32, Wozniak), OrderedColumn("v", Int32, WozniakIndexed)},
		{RandomisedColumn("v", Int32), OrderedColumn("v", Int32, MOPE)},
		{OrderedColumn("v", Int32, Kerschbaum), OrderedColumn("v", Int32, MOPE)},
		{DeterministicColumn("v", Int32), OrderedColumn("v", Int32, MOPE)},
		{OrderedColumn("v", Int32, Plaintext), DeterministicColumn("v", Int32)},
		{OrderedColumn("v", Int32, MOPE), RandomisedColumn("v", Int32)},
	} {
		t.Run(fmt.Sprint(c.before.Describe(), " to ", c.after.Describe()), func(t *testing.T) {
			ctx, db := t.Context(), drivertest.NewMemory()
			tbl, err := stores(t, db, 1)[0].Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{c.before}})
			require.NoError(t, err)
			for i := range int64(3) {
				require.NoError(t, tbl.Put(ctx, Row{"id": i, "v": int32(10 * i)}))
			}
			all := func(f driver.Family) (rows []driver.Row) {
				for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
					require.NoError(t, err)
					rows = append(rows, row)
				}
				return rows
			}
			before := all(tbl.now().Data)
			require.NoError(t, tbl.store().Alter(ctx, "t", ChangeColumn(c.after)))
			_, err = tbl.Convert(ctx, nil)
			require.NoError(t, err)
			for _, row := range before {
				require.NoError(t, tbl.now().Data.Apply(ctx, driver.Mutation{Row: row.Key, DeleteRow: true}))
				require.NoError(t, tbl.now().Data.Apply(ctx, driver.Mutation{Row: row.Key, Puts: row.Cells}))
			}
			find := func(want int) {
				t.Helper()
				for _, order := range []string{"", "v"} {
					found := 0
					for row, err := range tbl.Query(ctx, Query{Where: Int32.Field("v").In(0, 10, 20), OrderBy: order}) {
						require.NoError(t, err)
						require.Zero(t, row["v"].(int32)%10)
						found++
					}
					require.Equal(t, want, found, order)
				}
			}
			find(3)
			_, faults := verified(t, tbl, VerifyOptions{})
			require.Empty(t, faults)
			if !tbl.now().ByName["v"].Posted() {
				return
			}
			require.NoError(t, tbl.now().Postings.Apply(ctx, driver.Mutation{Row: all(tbl.now().Postings)[1].Key, DeleteRow: true}))
			find(2)
			_, faults = verified(t, tbl, VerifyOptions{})
			require.Len(t, faults, 1)
			require.Equal(t, inspect.FaultHidden, faults[0].Kind)
			_, faults = verified(t, tbl, repairing)
			require.Len(t, faults, 1)
			require.True(t, faults[0].Repaired)
			find(3)
			_, faults = verified(t, tbl, repairing)
			require.Empty(t, faults)
		})
	}
}
