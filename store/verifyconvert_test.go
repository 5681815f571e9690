package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
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
