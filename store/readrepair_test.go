package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// readerOf is a database whose role may only read.
type readerOf struct {
	driver.DB
	refused *atomic.Int64
}

func (db readerOf) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return readerOfFamily{f, db.refused}, err
}

type readerOfFamily struct {
	driver.Family
	refused *atomic.Int64
}

func (f readerOfFamily) Replace(context.Context, ...driver.Replacement) ([]int, error) {
	f.refused.Add(1)
	return nil, driver.ErrUnauthorised
}

func (f readerOfFamily) Apply(context.Context, ...driver.Mutation) error {
	f.refused.Add(1)
	return driver.ErrUnauthorised
}

// Queries of a client with ReadRepair put the copies that writers did not come to put. Where it may only read, they are as others.
func TestReadRepair(t *testing.T) {
	added, replaced := covering(), covering()
	replaced.AppendOnly, replaced.Conditional, replaced.Key = false, true, []store.KeyPart{store.HashedPart("device", store.String), store.PlainPart("id", store.UUID)}
	for name, schema := range map[string]store.Schema{"added": added, "replaced": replaced} {
		t.Run(name, func(t *testing.T) {
			memory, key := drivertest.NewMemory(), ope.GenerateKey()
			as := func(db driver.DB, opts *store.Options) (*store.Store, *store.Table) {
				st, err := store.Open(background, db, kms.NewLocal(key), opts)
				require.NoError(t, err)
				tbl, err := st.Table(background, schema.Name)
				if err != nil {
					require.ErrorIs(t, err, store.ErrNoTable)
					tbl = create(t, st, schema)
				}
				return st, tbl
			}
			dying, tbl := as(drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				if op.Method == "Replace" {
					return drivertest.Lose
				}
				return drivertest.NoFault
			}), nil)
			for i := range 40 {
				row := event(i)
				if schema.Conditional {
					row["id"] = [16]byte{byte(i)}
				}
				require.NoError(t, tbl.Put(background, row))
			}
			require.NoError(t, dying.Close(background))

			_, reader := as(memory, nil)
			before := inAllWays(t, reader)
			require.Len(t, before, 40)
			require.False(t, copied(t, reader))

			var refused atomic.Int64
			st, only := as(readerOf{memory, &refused}, &store.Options{ReadRepair: true})
			require.Equal(t, before, inAllWays(t, only))
			require.Eventually(t, func() bool { return refused.Load() > 0 }, 10*time.Second, time.Millisecond)
			for range 20 {
				require.Equal(t, before, inAllWays(t, only))
			}
			require.NoError(t, st.Close(background))
			require.Less(t, refused.Load(), int64(10), "it tries no more when it was refused")
			require.False(t, copied(t, only))

			st, repairing := as(memory, &store.Options{ReadRepair: true})
			require.Equal(t, before, inAllWays(t, repairing))
			require.NoError(t, st.Close(background))
			require.True(t, copied(t, reader))
			require.Equal(t, before, inAllWays(t, reader))
			v, err := reader.Verify(background, nil)
			require.NoError(t, err)
			require.True(t, v.Sound())
			require.Zero(t, v.Uncopied)
		})
	}
}
