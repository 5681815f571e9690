package store_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A damaged index that a column had before its change keeps nobody from asking: all rows are read, until they are converted.
func TestDamagedIndexOfEarlierForm(t *testing.T) {
	for _, name := range []string{"kerschbaum", "indexed", "ranked"} {
		for _, kind := range testdb.All[:2] {
			t.Run(name+" in "+kind.Name, func(t *testing.T) {
				db := kind.Open(t, nil)
				w := newChanging(t, open(t, db), numbers(name, "mope"))
				where := store.Int32.Field("v").Between(-20, 25)
				wanted := func(v int32) bool { return -20 <= v && v <= 25 }
				first := store.Query{Where: where, Limit: 5, OrderBy: "v"}
				page, token, err := w.tbl.Page(background, first)
				require.NoError(t, err)
				require.Len(t, page, 5)

				f, rows := units(t, db)
				for _, row := range rows {
					for i, c := range row.Cells {
						if c.Value = bytes.Clone(c.Value); len(c.Value) > 20 {
							c.Value[len(c.Value)-1] ^= 1
						}
						row.Cells[i] = c
					}
					require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: row.Cells}))
				}
				w.tbl, err = open(t, db).Table(background, "t") // of a client that remembers nothing
				require.NoError(t, err)
				for _, q := range []store.Query{{Where: where}, {Where: where, By: "v"}, {Where: where, OrderBy: "v"}} {
					e, err := w.tbl.Analyze(background, q)
					require.NoError(t, err)
					require.Equal(t, []any{"all rows", len(w.want(wanted, false)), []string{"v"}}, []any{e.Driver, e.Rows, e.Unconverted})
					e, err = w.tbl.Explain(background, q)
					require.NoError(t, err)
					require.Equal(t, []any{"all rows", []string{"v"}}, []any{e.Driver, e.Unconverted})
				}
				var got []int32
				for q := first; ; {
					page, next, err := w.tbl.Page(background, q)
					require.NoError(t, err)
					for _, row := range page {
						got = append(got, row["v"].(int32))
					}
					if q.PageToken = next; next == "" {
						break
					}
				}
				require.Equal(t, w.want(wanted, false), got)

				// Who asks for an index, or goes on after a page that came by it, is told what to do.
				_, err = all(w.tbl, store.Query{Where: where, RequireIndex: true})
				require.ErrorContains(t, err, "convert the table")
				first.PageToken = token
				_, _, err = w.tbl.Page(background, first)
				require.ErrorContains(t, err, "convert the table")

				_, err = w.tbl.Convert(background, nil)
				require.NoError(t, err)
				w.check(t, true)
			})
		}
	}
}
