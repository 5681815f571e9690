package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// droppedSchemas are tables with two searched columns, of which one is dropped.
func droppedSchemas() map[string]Schema {
	schema := func(change func(*Schema)) Schema {
		s := Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("v", Int64, Plaintext), DeterministicColumn("w", Int64)}}
		change(&s)
		return s
	}
	return map[string]Schema{
		"plain":       schema(func(*Schema) {}),
		"conditional": schema(func(s *Schema) { s.Conditional = true }),
		"copies":      schema(func(s *Schema) { s.Conditional, s.Columns[0] = true, s.Columns[0].Covering() }),
		"append-only": schema(func(s *Schema) {
			s.AppendOnly, s.Key, s.Columns[0] = true, append(s.Key, TiePart("tie")), s.Columns[0].Covering()
		}),
		"tenants": schema(func(s *Schema) { s.Tenants = true }),
	}
}

// A Put that sleeps through the drop of a column and a whole conversion leaves nothing of the column. If its client dies before
// it learns of them, Verify counts what is left, and drops it with Repair.
func TestPutSleepsThroughDropAndConversion(t *testing.T) {
	puts := map[string]func(*Table, context.Context, ...Row) error{"put": (*Table).Put, "insert": (*Table).Insert, "update": (*Table).Update, "upsert": (*Table).Upsert}
	left := make(map[bool]int) // by whether there are tenants
	for name, schema := range droppedSchemas() {
		for how, put := range puts {
			if !schema.Conditional && how != "put" {
				continue
			}
			calls := 0
			for at := 0; at <= calls; at++ { // the call of the Put before which its client dies; at first it lives
				t.Run(fmt.Sprint(name, ", ", how, ", ", at), func(t *testing.T) {
					ctx, db := context.Background(), drivertest.NewMemory()
					other := stores(t, db, 1)[0]
					tbl, err := other.Create(ctx, schema)
					require.NoError(t, err)
					writes := tbl
					if schema.Tenants {
						require.NoError(t, other.CreateTenant(ctx, "alpha"))
						writes, err = tbl.Tenant(ctx, "alpha")
						require.NoError(t, err)
					}
					begun, n := false, 0
					sleeper, err := Open(ctx, drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
						if begun {
							n++
						}
						if at > 0 && n == at {
							return drivertest.CrashBefore
						}
						return drivertest.NoFault
					}), kms.NewLocal(testMaster), nil)
					require.NoError(t, err)
					sleeps, err := sleeper.Table(ctx, "t")
					require.NoError(t, err)
					if schema.Tenants {
						sleeps, err = sleeps.Tenant(ctx, "alpha")
						require.NoError(t, err)
					}
					if how == "update" || how == "upsert" {
						require.NoError(t, writes.Put(ctx, Row{"id": int64(1), "v": int64(3), "w": int64(4)}))
					}
					require.NoError(t, other.Alter(ctx, "t", DropColumn("v")))
					_, err = tbl.Convert(ctx, nil)
					require.NoError(t, err)
					begun = true
					err = put(sleeps, ctx, Row{"id": int64(1), "v": int64(5), "w": int64(6)})
					_ = sleeper.Close(ctx)
					if at == 0 {
						require.ErrorIs(t, err, ErrWritten)
						calls = n
					}
					report, faults := verified(t, tbl, VerifyOptions{})
					require.Empty(t, faults)
					require.LessOrEqual(t, report.Unknown, min(at, 1))
					require.LessOrEqual(t, report.Unknown, report.Dangling)
					left[schema.Tenants] += report.Unknown
					report, faults = verified(t, tbl, VerifyOptions{Repair: true, Grace: time.Nanosecond})
					require.Empty(t, faults)
					require.Equal(t, report.Dangling, report.Dropped)
					report, _ = verified(t, tbl, VerifyOptions{})
					require.Zero(t, report.Dangling+report.Unknown)
				})
			}
		}
	}
	require.NotZero(t, left[false])
	require.NotZero(t, left[true])
}
