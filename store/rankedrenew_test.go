package store_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// damageIndex changes a record of each unit of the only indexes of a database.
func damageIndex(t *testing.T, db driver.DB) {
	t.Helper()
	f, rows := units(t, db)
	damaged := false
	for _, row := range rows {
		i := slices.IndexFunc(row.Cells, func(c driver.Cell) bool { return len(c.Qualifier) == 17 && len(c.Value) > 40 })
		if i < 0 {
			continue
		}
		c := row.Cells[i]
		c.Value = bytes.Clone(c.Value)
		c.Value[len(c.Value)-1] ^= 1
		require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: []driver.Cell{c}}))
		damaged = true
	}
	require.True(t, damaged)
}

// Rows that the schema does not take keep a conversion from ending. The index is made again all the same, and the caller is
// told that queries by the column go on to open rows.
func TestRebuildOfRanksWithRowsThatDoNotFit(t *testing.T) {
	ctx := t.Context()
	db := testdb.All[1].Open(t, nil)
	st := open(t, db)
	key := []store.KeyPart{store.HashedPart("id", store.Int64)}
	tbl := create(t, st, store.Schema{Name: "t", Key: key, Columns: []store.Column{store.RandomisedColumn("v", store.Float64)}})
	for i := range 20 {
		require.NoError(t, tbl.Put(ctx, store.Row{"id": i, "v": float64(i)}))
	}
	require.NoError(t, tbl.Put(ctx, store.Row{"id": 20, "v": math.NaN()}))
	require.NoError(t, st.Alter(ctx, "t", store.ChangeColumn(store.OrderedColumn("v", store.Float64, store.KerschbaumRanked))))
	stats, err := tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 1, stats.Unfit)
	damageIndex(t, db)
	found, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.False(t, found.Sound())

	err = tbl.RebuildIndex(ctx, "v", nil)
	require.ErrorIs(t, err, ope.ErrIndex)
	require.ErrorContains(t, err, "the schema does not take 1 rows")
	found, err = tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.True(t, found.Sound(), "%+v", found)
	require.Len(t, collect(t, tbl, store.Query{Where: store.Float64.Field("v").AtLeast(10)}), 10)

	damageIndex(t, db)
	found, err = tbl.Verify(ctx, &store.VerifyOptions{Repair: true})
	require.NoError(t, err)
	require.NotZero(t, found.Repaired)
	found, err = tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.True(t, found.Sound(), "%+v", found)

	require.NoError(t, tbl.Put(ctx, store.Row{"id": 20, "v": 20.0}))
	require.NoError(t, tbl.RebuildIndex(ctx, "v", nil))
	require.Len(t, collect(t, tbl, store.Query{Where: store.Float64.Field("v").AtLeast(10), RequireIndex: true}), 11)
}

// Where all values that rows have are such as the schema does not take, there is nothing to repair, however often that is tried.
func TestRepairOfRanksWithNothingThatFits(t *testing.T) {
	ctx := t.Context()
	st := open(t, testdb.All[1].Open(t, nil))
	tbl := create(t, st, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("v", store.Float64)}})
	for i := range 3 {
		require.NoError(t, tbl.Put(ctx, store.Row{"id": i, "v": math.NaN()}))
	}
	require.NoError(t, st.Alter(ctx, "t", store.ChangeColumn(store.OrderedColumn("v", store.Float64, store.KerschbaumRanked))))
	for _, repair := range []bool{false, true, true, false} {
		found, err := tbl.Verify(ctx, &store.VerifyOptions{Repair: repair})
		require.NoError(t, err)
		require.True(t, found.Sound(), "%+v", found)
	}
}

// Several clients make an index of ranks again at a time, and some die, while others write: nothing is lost, nothing comes twice.
func TestRebuildOfRanksByManyAtOnce(t *testing.T) {
	for name, schema := range rankedTables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			r := seeded(t)
			db := testdb.All[1].Open(t, nil)
			whole := create(t, open(t, db), schema)
			bound := func(st *store.Store) *store.Table {
				tbl, err := st.Table(ctx, schema.Name)
				require.NoError(t, err)
				if schema.Tenants {
					tbl, err = tbl.Tenant(ctx, "a")
					require.NoError(t, err)
				}
				return tbl
			}
			if schema.Tenants {
				require.NoError(t, open(t, db).CreateTenant(ctx, "a"))
			}
			var mu sync.Mutex
			acknowledged := map[int64]int64{}
			next := int64(0)
			put := func(tbl *store.Table, id int64) error {
				level := id * 7919 % 300
				err := tbl.Put(ctx, store.Row{"id": id, "level": level, "note": "n"})
				if err == nil {
					mu.Lock()
					acknowledged[id] = level
					mu.Unlock()
				}
				return err
			}
			first := bound(open(t, db))
			for ; next < 60; next++ {
				require.NoError(t, put(first, next))
			}
			for round := range 6 {
				if round%2 == 0 {
					damageIndex(t, db)
				}
				var group errgroup.Group
				for w := range 2 {
					tbl, from := bound(open(t, db)), next+int64(10*w)
					group.Go(func() error {
						for i := range int64(10) {
							_ = put(tbl, from+i) // may be refused, as long as the index is damaged
						}
						return nil
					})
				}
				next += 20
				for i := range 3 {
					tbl := bound(open(t, db))
					wait := time.Duration(r.IntN(40)) * time.Millisecond
					group.Go(func() error {
						if i == 0 {
							ctx, cancel := context.WithTimeout(ctx, wait)
							defer cancel()
							_ = tbl.RebuildIndex(ctx, "level", nil)
							return nil
						}
						return tbl.RebuildIndex(ctx, "level", nil)
					})
				}
				require.NoError(t, group.Wait())
				for _, tbl := range []*store.Table{first, bound(open(t, db))} {
					seen := map[int64]bool{}
					last := int64(-1)
					for _, row := range collect(t, tbl, store.Query{Where: store.Int64.Field("level").AtLeast(0), By: "level", RequireIndex: true}) {
						id := row["id"].(int64)
						require.False(t, seen[id] && name != "append-only")
						seen[id] = true
						require.LessOrEqual(t, last, row["level"].(int64))
						last = row["level"].(int64)
					}
					for id := range acknowledged {
						require.True(t, seen[id], "row %d", id)
					}
				}
			}
			_, err := whole.Verify(ctx, &store.VerifyOptions{Repair: true, Grace: time.Millisecond})
			require.NoError(t, err)
			found, err := whole.Verify(ctx, nil)
			require.NoError(t, err)
			require.True(t, found.Sound(), "%+v", found)
			_, left := units(t, db)
			require.Len(t, left, 1, "what is left of former indexes")
		})
	}
}

// Copies of chosen columns go on to have them when the column, or one that they are copied with, gets another index.
func TestRebuildOfRanksKeepsCopies(t *testing.T) {
	ctx := t.Context()
	db := testdb.All[1].Open(t, nil)
	st := open(t, db)
	tbl := create(t, st, store.Schema{Name: "t", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{
		store.OrderedColumn("level", store.Int64, store.KerschbaumRanked).Covering("note"), store.RandomisedColumn("note", store.String),
		store.DeterministicColumn("city", store.String).Covering("level"), store.RandomisedColumn("other", store.String),
	}})
	for i := range 30 {
		require.NoError(t, tbl.Put(ctx, store.Row{"id": i, "level": int64(i % 7), "note": "n", "city": "c", "other": "o"}))
	}
	for range 2 {
		damageIndex(t, db)
		require.NoError(t, tbl.RebuildIndex(ctx, "level", nil))
		found, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, found.Sound(), "%+v", found)
		require.Zero(t, found.Uncopied)
		for _, q := range []store.Query{
			{Where: store.Int64.Field("level").Between(2, 4), Columns: []string{"level", "note"}},
			{Where: store.String.Field("city").Equal("c"), Columns: []string{"city", "level"}},
		} {
			e, err := tbl.Explain(ctx, q)
			require.NoError(t, err)
			require.Empty(t, e.Uncopied)
			require.NotEmpty(t, e.Copied)
			require.NotEmpty(t, collect(t, tbl, q))
		}
	}
	rows := 0
	require.NoError(t, tbl.RebuildIndex(ctx, "level", func(n int) { rows = n }))
	require.Equal(t, 30, rows)
}
