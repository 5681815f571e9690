package store

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Of two calls that open a table at the same time, the later one knows of a change that came before it, also where the earlier one,
// which does not know of it, ends first. Else what it puts would be in the clear for a moment.
func TestTableThatIsOpenedTwiceAtTheSameTime(t *testing.T) {
	named := func(ctx context.Context, st *Store) (*Table, error) { return st.Table(ctx, "log") }
	for name, c := range map[string]struct {
		open   func(ctx context.Context, st *Store) (*Table, error)
		change func(ctx context.Context, st *Store) error
	}{
		"a column is sealed": {named, func(ctx context.Context, st *Store) error {
			return st.Alter(ctx, "log", ChangeColumn(RandomisedColumn("zone", String)))
		}},
		"a policy seals a column": {
			func(ctx context.Context, st *Store) (*Table, error) {
				tbl, err := named(ctx, st)
				if err != nil {
					return nil, err
				}
				return tbl.Tenant(ctx, "alpha")
			},
			func(ctx context.Context, st *Store) error {
				return st.SetPolicy(ctx, "alpha", "log", Policy{Whole: true})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, memory := t.Context(), drivertest.NewMemory()
				other := stores(t, memory, 1)[0]
				_, err := other.Create(ctx, plainTenants(packed))
				require.NoError(t, err)
				require.NoError(t, other.CreateTenant(ctx, "alpha"))

				var waiting chan chan struct{} // of who opens the rows of the table
				st := stores(t, intercept.New(memory, func(_ context.Context, op intercept.Op, call intercept.Call) error {
					if waiting != nil && op.Method == "Family" && strings.HasPrefix(op.Family, "t") {
						goOn := make(chan struct{})
						waiting <- goOn
						<-goOn
					}
					return call.Make(nil)
				}, nil), 1)[0]
				if name != "a column is sealed" {
					_, err := named(ctx, st) // which the calls have in common
					require.NoError(t, err)
				}
				waiting = make(chan chan struct{}, 2)
				var tables [2]*Table
				for i := range tables {
					go func() {
						var err error
						tables[i], err = c.open(ctx, st)
						require.NoError(t, err)
					}()
					synctest.Wait() // it has read the catalogue
					if i == 0 {
						require.NoError(t, c.change(ctx, other))
					}
				}
				require.Len(t, waiting, 2)
				for range tables {
					close(<-waiting)
					synctest.Wait()
				}
				columns := tables[1].Schema().Columns
				zone := columns[slices.Index(columnNames(tables[1].Schema()), "zone")]
				require.Equal(t, "randomised", zone.Describe().Encryption)
			})
		})
	}
}
