package store_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// Cells keep every bit of a floating point number, and the two zeros are found as one.
func TestFloatsAreExact(t *testing.T) {
	zero, quiet, payload := math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff0000000000123)
	zero32, quiet32 := float32(zero), math.Float32frombits(0xffc00001)
	bits := func(v any) uint64 {
		switch v := v.(type) {
		case float64:
			return math.Float64bits(v)
		case float32:
			return uint64(math.Float32bits(v))
		}
		return 0
	}
	for _, layout := range []bool{packed, cellPerColumn} {
		for _, conditional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, conditional %v", layout, conditional), func(t *testing.T) {
				st := open(t, drivertest.NewMemory())
				tbl := create(t, st, store.Schema{
					Name: "t", CellPerColumn: layout, Conditional: conditional,
					Key: []store.KeyPart{store.HashedPart("id", store.Int64), store.OrderedPart("at", store.Float64, store.MOPE),
						store.HashedPart("h", store.Float32), store.PlainPart("k", store.Float64)},
					Columns: []store.Column{
						store.RandomisedColumn("r", store.Float64), store.RandomisedColumn("r32", store.Float32),
						store.PlainColumn("p", store.Float64), store.DeterministicColumn("d", store.Float64),
						store.OrderedColumn("o", store.Float64, store.MOPE), store.OrderedColumn("o32", store.Float32, store.Kerschbaum),
						store.OrderedColumn("clear", store.Float64, store.Plaintext),
					},
				})
				row := store.Row{"id": 1, "at": zero, "h": zero32, "k": zero, "r": zero, "r32": zero32, "p": zero, "d": zero,
					"o": zero, "o32": zero32, "clear": zero}
				require.NoError(t, tbl.Put(background, row))
				same := func(got store.Row) {
					t.Helper()
					for name, v := range row {
						if name != "id" {
							require.Equal(t, bits(v), bits(got[name]), name)
						}
					}
				}
				key := store.Row{"id": 1, "at": 0.0, "h": float32(0), "k": 0.0}
				for _, key := range []store.Row{key, row} {
					got, err := tbl.Get(background, key)
					require.NoError(t, err)
					require.NotNil(t, got)
					same(got)
				}
				for _, v := range []float64{0, zero} {
					for _, name := range []string{"d", "o", "clear", "at", "k", "r", "p"} {
						for _, where := range []store.Predicate{store.Field[float64](name).Equal(v), store.Field[float64](name).In(0, v)} {
							rows := collect(t, tbl, store.Query{Where: where})
							require.Len(t, rows, 1, name)
							same(rows[0])
						}
					}
					for _, name := range []string{"o", "clear"} {
						require.Len(t, collect(t, tbl, store.Query{Where: store.Field[float64](name).Between(v, 1)}), 1)
						require.Empty(t, collect(t, tbl, store.Query{Where: store.Field[float64](name).Less(v)}))
					}
					require.Len(t, collect(t, tbl, store.Query{Where: store.Field[float32]("o32").Equal(float32(v))}), 1)
				}
				// The other zero is the same row, and its postings are replaced.
				other := store.Row{"id": 1, "at": 0.0, "h": float32(0), "k": 0.0, "d": 0.0, "o": 0.0}
				require.NoError(t, tbl.Put(background, other))
				require.Len(t, collect(t, tbl, store.Query{}), 1)
				require.NoError(t, tbl.Put(background, row))
				if conditional {
					require.NoError(t, tbl.Update(background, store.Row{"id": 1, "at": 0.0, "h": float32(0), "k": 0.0, "r": 1.0}))
					got, err := tbl.Get(background, key)
					require.NoError(t, err)
					row["r"] = 1.0
					same(got)
				}
				checked, err := tbl.Verify(background, nil)
				require.NoError(t, err)
				require.True(t, checked.Sound())

				// NaN is stored where nothing is searched, and found by nothing.
				row["r"], row["r32"], row["p"] = quiet, quiet32, payload
				require.NoError(t, tbl.Put(background, row))
				got, err := tbl.Get(background, key)
				require.NoError(t, err)
				require.NotNil(t, got)
				same(got)
				for _, name := range []string{"r", "p"} {
					for _, where := range []store.Predicate{store.Field[float64](name).AtMost(math.Inf(1)), store.Field[float64](name).AtLeast(math.Inf(-1))} {
						require.Empty(t, collect(t, tbl, store.Query{Where: where}), name)
					}
					_, err := tbl.Analyze(background, store.Query{Where: store.Field[float64](name).Equal(quiet)})
					require.ErrorIs(t, err, ope.ErrDomain)
				}
				for name, v := range map[string]any{"at": quiet, "h": quiet32, "k": quiet, "d": quiet, "o": quiet, "o32": quiet32, "clear": quiet} {
					bad := store.Row{"id": 2, "at": 1.0, "h": float32(1), "k": 1.0}
					bad[name] = v
					err := tbl.Put(background, bad)
					require.ErrorIs(t, err, ope.ErrDomain, name)
					require.ErrorIs(t, err, encode.ErrInvalid, name)
					require.ErrorContains(t, err, "NaN is equal to nothing")
				}

				// A row with NaN in a column that becomes one that is searched stays as it is; all others are converted.
				fine := store.Row{"id": 7, "at": 1.0, "h": float32(1), "k": 1.0, "r": 7.0}
				require.NoError(t, tbl.Put(background, fine))
				for _, changed := range []store.Column{store.DeterministicColumn("r", store.Float64), store.OrderedColumn("r", store.Float64, store.WozniakIndexed)} {
					require.NoError(t, st.Alter(background, "t", store.ChangeColumn(changed)))
					tbl, err = st.Table(background, "t")
					require.NoError(t, err)
					for converted := range 2 {
						stats, err := tbl.Convert(background, nil)
						require.NoError(t, err)
						require.Equal(t, inspect.ConvertStats{Rows: stats.Rows, Converted: 1 - converted, Unfit: 1}, stats)
					}
					status, err := tbl.Status(background)
					require.NoError(t, err)
					require.Equal(t, []string{"r"}, status.Pending)
					require.Less(t, status.Done, status.Total)
					require.Empty(t, collect(t, tbl, store.Query{Where: store.Field[float64]("r").AtMost(0)}))
					require.Len(t, collect(t, tbl, store.Query{Where: store.Field[float64]("r").Equal(7)}), 1)
					if conditional {
						of := store.Row{"id": 1, "at": 0.0, "h": float32(0), "k": 0.0, "d": 0.0}
						err := tbl.Update(background, of)
						require.ErrorIs(t, err, ope.ErrDomain)
						require.ErrorContains(t, err, "row 0")
						require.ErrorContains(t, err, `"r"`)
						require.ErrorContains(t, err, "put null or a number there")
					}
				}
				require.NoError(t, tbl.Delete(background, fine))
				got, err = tbl.Get(background, key)
				require.NoError(t, err)
				same(got)
				row["r"] = zero
				if conditional {
					require.NoError(t, tbl.Update(background, store.Row{"id": 1, "at": 0.0, "h": float32(0), "k": 0.0, "r": zero}))
				} else {
					require.NoError(t, tbl.Put(background, row))
				}
				stats, err := tbl.Convert(background, nil)
				require.NoError(t, err)
				require.Zero(t, stats.Unfit)
				status, err := tbl.Status(background)
				require.NoError(t, err)
				require.Empty(t, status.Pending)
				rows := collect(t, tbl, store.Query{Where: store.Field[float64]("r").Equal(0)})
				require.Len(t, rows, 1)
				same(rows[0])
			})
		}
	}
}
