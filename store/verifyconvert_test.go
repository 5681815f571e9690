package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// hooked opens the table as a client before whose calls something is done, which may also be that a call fails.
func hooked(t *testing.T, db driver.DB, before func(op drivertest.Op) drivertest.Fault) *Table {
	t.Helper()
	st, err := Open(t.Context(), drivertest.NewFaulty(db, before), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl, err := st.Table(t.Context(), "t")
	require.NoError(t, err)
	return tbl
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
			t.Run(fmt.Sprint(name, ", conditional ", conditional), func(t *testing.T) {
				ctx, db := t.Context(), drivertest.NewMemory()
				st := stores(t, db, 1)[0]
				tbl, err := st.Create(ctx, Schema{Name: "t", Conditional: conditional, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{
					OrderedColumn("v", Int32, KerschbaumRanked),
				}})
				require.NoError(t, err)
				require.NoError(t, tbl.Put(ctx, Row{"id": 1, "v": 7}))
				require.NoError(t, alter(tbl))
				convert := func(tbl *Table) error {
					if name == "another index" {
						return tbl.RebuildIndex(ctx, "v", nil)
					}
					_, err := tbl.Convert(ctx, nil)
					return err
				}
				stores := func(op drivertest.Op) bool {
					return op.Family == tbl.now().Spec.Name && (op.Conditional() || op.Method == "Replace")
				}

				dead := false
				first := hooked(t, db, func(op drivertest.Op) drivertest.Fault {
					if dead = dead || stores(op); dead {
						return drivertest.FailBefore
					}
					return drivertest.NoFault
				})
				require.Error(t, convert(first))
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
				drops := 0
				repairer := hooked(t, db, func(op drivertest.Op) drivertest.Fault {
					if op.Family == tbl.now().PostingSpec.Name && op.Method == "Apply" {
						if drops++; drops == 1 {
							go func() { ended <- convert(second) }()
							<-reached
						}
					}
					return drivertest.NoFault
				})
				_, faults := verified(t, repairer, repairing)
				require.Empty(t, faults)
				if drops == 0 {
					go func() { ended <- convert(second) }()
					<-reached
				}
				close(goOn)
				require.NoError(t, <-ended)

				fresh := hooked(t, db, func(drivertest.Op) drivertest.Fault { return drivertest.NoFault })
				require.True(t, fresh.now().ByName["v"].Drives())
				found := 0
				for _, err := range fresh.Query(ctx, Query{Where: Int32.Field("v").AtLeast(0)}) {
					require.NoError(t, err)
					found++
				}
				require.Equal(t, 1, found)
				_, faults = verified(t, fresh, VerifyOptions{})
				require.Empty(t, faults)
			})
		}
	}
}
