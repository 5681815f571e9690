package store

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A table that is dropped while an index is made again which it shares keeps nobody from that, and writers of other tables least of all:
// they finish the index themselves.
func TestRebuildOfSharedIndexBesideDropAtEveryCall(t *testing.T) {
	for name, scheme := range map[string]ColumnScheme{"drawn": WozniakIndexed, "mutable": Kerschbaum} {
		t.Run(name, func(t *testing.T) {
			for at, over := 1, false; !over; at++ {
				ctx, memory := t.Context(), drivertest.NewMemory()
				var calls atomic.Int64 // to come before the table is dropped
				other := stores(t, memory, 1)[0]
				st := stores(t, intercept.New(memory, func(_ context.Context, _ intercept.Op, call intercept.Call) error {
					if calls.Add(-1) == 0 {
						require.NoError(t, other.Drop(ctx, "dropped"))
					}
					return call.Make(nil)
				}, nil), 1)[0]
				var kept *Table
				for _, table := range []string{"dropped", "kept"} {
					var err error
					kept, err = st.Create(ctx, Schema{
						Name: table, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("wide", Int32, scheme).DatabaseWide(), OrderedColumn("own", Int32, scheme)},
					})
					require.NoError(t, err)
					for i := range int64(3) {
						require.NoError(t, kept.Put(ctx, Row{"id": i, "wide": int32(i), "own": int32(i)}))
					}
				}
				calls.Store(int64(at))
				err := kept.RebuildIndex(ctx, "wide", nil)
				over = calls.Swap(0) > 0
				require.NoError(t, err, "dropped before call %d", at)
				require.NoError(t, kept.Put(ctx, Row{"id": int64(3), "wide": int32(3), "own": int32(3)}))
				n, err := kept.Count(ctx, Field[int32]("wide").AtLeast(1))
				require.NoError(t, err)
				require.Equal(t, 3, n)
				var faults []inspect.Fault
				_, err = kept.Verify(ctx, &VerifyOptions{Fault: func(f inspect.Fault) { faults = append(faults, f) }})
				require.NoError(t, err)
				require.Empty(t, faults)
			}
		})
	}
}
