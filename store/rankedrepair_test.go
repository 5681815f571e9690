package store_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// units returns the rows of the only index of a database, and its family.
func units(t *testing.T, db driver.DB) (driver.Family, []driver.Row) {
	t.Helper()
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	for _, name := range names {
		if name[0] != 'i' {
			continue
		}
		f, err := db.Family(t.Context(), driver.FamilySpec{Name: name, Layout: driver.LayoutWide, Existing: true})
		require.NoError(t, err)
		var rows []driver.Row
		for row, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			rows = append(rows, row)
		}
		return f, rows
	}
	require.Fail(t, "there is no index")
	return nil, nil
}

// An index of ranks that is damaged, gone or put back is noticed, and made again with all rows: by Verify and by RebuildIndex, while
// another client has the table open. Nothing is lost.
func TestRankedIndexIsMadeAgain(t *testing.T) {
	harms := map[string]func(t *testing.T, db driver.DB, earlier []driver.Row){
		"damaged": func(t *testing.T, db driver.DB, _ []driver.Row) {
			f, rows := units(t, db)
			for _, row := range rows {
				for _, c := range row.Cells {
					if len(c.Qualifier) == 17 && len(c.Value) > 40 {
						value := bytes.Clone(c.Value)
						value[len(value)-1] ^= 1
						require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: []driver.Cell{{Qualifier: c.Qualifier, Value: value}}}))
						return
					}
				}
			}
			require.Fail(t, "no record to damage")
		},
		"gone": func(t *testing.T, db driver.DB, _ []driver.Row) {
			f, rows := units(t, db)
			for _, row := range rows {
				require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, DeleteRow: true}))
			}
		},
		"put back": func(t *testing.T, db driver.DB, earlier []driver.Row) {
			f, rows := units(t, db)
			for _, row := range rows {
				require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, DeleteRow: true}))
			}
			for _, row := range earlier {
				require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: row.Cells}))
			}
		},
	}
	for name, schema := range rankedTables() {
		for harm, do := range harms {
			for _, by := range []string{"Verify", "RebuildIndex"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, harm, by), func(t *testing.T) {
					t.Parallel()
					ctx := t.Context()
					db := testdb.All[1].Open(t, nil)
					whole := create(t, open(t, db), schema)
					st := open(t, db)
					tenants := []string{""}
					if schema.Tenants {
						tenants = []string{"a", "b"}
						for _, tenant := range tenants {
							require.NoError(t, st.CreateTenant(ctx, tenant))
						}
					}
					tables := func(st *store.Store) (all []*store.Table) {
						tbl, err := st.Table(ctx, schema.Name)
						require.NoError(t, err)
						for _, tenant := range tenants {
							bound := tbl
							if tenant != "" {
								bound, err = tbl.Tenant(ctx, tenant)
								require.NoError(t, err)
							}
							all = append(all, bound)
						}
						return all
					}
					put := func(tbl *store.Table, from, to int) error {
						for i := from; i < to; i++ {
							if err := tbl.Put(ctx, store.Row{"id": int64(i), "level": int64(i * 7919 % 1000), "note": "n"}); err != nil {
								return err
							}
						}
						return nil
					}
					opened := tables(st) // a client that goes on
					for _, tbl := range opened {
						require.NoError(t, put(tbl, 0, 40))
					}
					_, earlier := units(t, db)
					for _, tbl := range opened {
						require.NoError(t, put(tbl, 40, 80))
					}
					do(t, db, earlier)
					if harm == "put back" { // another client gives ranks again that were given
						for _, tbl := range tables(open(t, db)) {
							require.NoError(t, put(tbl, 80, 100))
						}
					}
					found, err := whole.Verify(ctx, nil)
					require.NoError(t, err)
					require.False(t, found.Sound(), "%+v", found)

					if by == "Verify" {
						found, err = whole.Verify(ctx, &store.VerifyOptions{Repair: true})
						require.NoError(t, err)
						require.NotZero(t, found.Repaired)
					} else {
						require.NoError(t, whole.RebuildIndex(ctx, "level", nil))
					}
					found, err = whole.Verify(ctx, nil)
					require.NoError(t, err)
					require.True(t, found.Sound(), "%+v", found)

					for _, tbl := range append(opened, tables(open(t, db))...) {
						if err := put(tbl, 200, 203); err != nil {
							require.ErrorIs(t, err, ope.ErrIndex)
						}
						want := 80
						if harm == "put back" {
							want = 100
						}
						rows := collect(t, tbl, store.Query{Where: store.Int64.Field("level").Between(0, 1000), By: "level", RequireIndex: true})
						last := int64(-1)
						seen := map[int64]bool{}
						for _, row := range rows {
							require.LessOrEqual(t, last, row["level"].(int64))
							last = row["level"].(int64)
							seen[row["id"].(int64)] = true
						}
						for i := range want {
							require.True(t, seen[int64(i)], "row %d", i)
						}
						explained, err := tbl.Explain(ctx, store.Query{Where: store.Int64.Field("level").Between(0, 10)})
						require.NoError(t, err)
						require.Equal(t, "level", explained.Driver)
					}
					d, err := whole.Describe(ctx)
					require.NoError(t, err)
					for _, former := range d.Columns[0].Former {
						require.True(t, former.Converted)
					}
					_, rows := units(t, db)
					require.Len(t, rows, len(earlier), "what is left of the former index")
				})
			}
		}
	}
}
