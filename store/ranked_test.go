package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
)

// rankedTables are tables with a column whose ciphertexts begin with ranks, in each way to write rows.
func rankedTables() map[string]store.Schema {
	id := store.HashedPart("id", store.Int64)
	column := store.OrderedColumn("level", store.Int64, store.KerschbaumRanked)
	note := store.RandomisedColumn("note", store.String)
	return map[string]store.Schema{
		"blind":       {Name: "blind", Key: []store.KeyPart{id}, Columns: []store.Column{column, note}},
		"conditional": {Name: "conditional", Key: []store.KeyPart{id}, Columns: []store.Column{column.Covering(), note}, Conditional: true},
		"append-only": {Name: "added", Key: []store.KeyPart{id, store.TiePart("tie")}, Columns: []store.Column{column.Covering(), note}, AppendOnly: true},
		"tenants":     {Name: "tenants", Key: []store.KeyPart{id}, Columns: []store.Column{column, note}, Tenants: true},
	}
}

// A query by a column with ranks is as one by any other: also where values came in such an order that many share a rank, in pages
// and backwards.
func TestRankedColumn(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		for name, schema := range rankedTables() {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				tbl := create(t, st, schema)
				if schema.Tenants {
					require.NoError(t, st.CreateTenant(ctx, "a"))
					var err error
					tbl, err = tbl.Tenant(ctx, "a")
					require.NoError(t, err)
				}
				r := seeded(t)
				var levels []int64 // from both ends inwards, as coins fall: a path that nothing predicts
				low, high := int64(0), int64(400)
				if kind.Server && !sim.Long() {
					high = 120
				}
				end := high
				for low < high {
					if r.IntN(2) == 0 {
						levels = append(levels, low)
						low++
					} else {
						high--
						levels = append(levels, high)
					}
				}
				var rows []store.Row
				for i, level := range append(levels, levels[end*3/8:end*5/8]...) {
					row := store.Row{"id": int64(i), "level": level, "note": fmt.Sprint("note ", level)}
					require.NoError(t, tbl.Put(ctx, row))
					rows = append(rows, row)
				}
				byLevel := func(a, b store.Row) int { return cmp.Compare(a["level"].(int64), b["level"].(int64)) }
				slices.SortStableFunc(rows, byLevel)
				for range 40 {
					lo, n := r.Int64N(end+20)-10, r.Int64N(end/2)
					where := store.Int64.Field("level").Between(lo, lo+n)
					var want []int64
					for _, row := range rows {
						if x := row["level"].(int64); lo <= x && x <= lo+n {
							want = append(want, x)
						}
					}
					q := store.Query{Where: where, Reverse: r.IntN(2) == 0, Limit: []int{0, 3, 50}[r.IntN(3)]}
					if q.Reverse {
						slices.Reverse(want)
					}
					var got []int64
					seen := map[int64]bool{}
					for paged := r.IntN(2) == 0 && q.Limit > 0; ; {
						var page []store.Row
						if paged {
							var err error
							page, q.PageToken, err = tbl.Page(ctx, q)
							require.NoError(t, err)
						} else {
							for row, err := range tbl.Query(ctx, q) {
								require.NoError(t, err)
								page = append(page, row)
							}
							if q.Limit > 0 {
								want = want[:min(q.Limit, len(want))]
							}
						}
						for _, row := range page {
							require.False(t, seen[row["id"].(int64)], "a row comes twice")
							seen[row["id"].(int64)] = true
							got = append(got, row["level"].(int64))
							require.Equal(t, fmt.Sprint("note ", row["level"]), row["note"])
						}
						if q.PageToken == "" {
							break
						}
					}
					require.Equal(t, want, got, "%+v", q)
				}
				found, err := tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.True(t, found.Sound(), "%+v", found)
				require.Equal(t, len(rows), found.Rows)
			})
		}
	})
}
