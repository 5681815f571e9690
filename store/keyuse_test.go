package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// The cells of each key are counted; of a key that was replaced none is left when all rows are
// rewritten, by Put or by Convert.
func TestKeyUse(t *testing.T) {
	ctx := t.Context()
	for _, layout := range []bool{packed, cellPerColumn} {
		for name, rewrite := range map[string]func(*Table, ...Row) error{
			"put":     func(tbl *Table, rows ...Row) error { return tbl.Put(ctx, rows...) },
			"convert": func(tbl *Table, _ ...Row) error { _, err := tbl.Convert(ctx, nil); return err },
		} {
			t.Run(fmt.Sprint(layout, ", ", name), func(t *testing.T) {
				db := drivertest.NewMemory()
				st := stores(t, db, 1)[0]
				tbl, err := st.Create(ctx, tamperSchema("t", layout))
				require.NoError(t, err)
				var rows []Row
				for i := range int64(300) {
					rows = append(rows, Row{"id": i, "at": i, "ordered": i, "also": i, "token": "t", "secret": "s", "other": "o", "plain": "p"})
				}
				// counts returns the cells of the keys of a column, the newest first.
				counts := func(use inspect.KeyUse, column string) (cells []int) {
					for _, k := range use.Keys {
						if k.Column == column {
							require.Equal(t, len(cells) == 0, k.Newest)
							require.Len(t, k.ID, 32)
							cells = append(cells, k.Cells)
						}
					}
					return cells
				}
				own := 300 // of a column that is not searched
				if layout == packed {
					own = 0
				}
				require.NoError(t, tbl.Put(ctx, rows...))
				reported := 0
				use, err := tbl.KeyUse(ctx, func(rows int) { reported = rows })
				require.NoError(t, err)
				require.Equal(t, 256, reported)
				require.Equal(t, []int{300}, counts(use, ""))
				require.Equal(t, []int{300}, counts(use, "token"))
				require.Equal(t, []int{own}, counts(use, "secret"))
				require.Empty(t, counts(use, "plain"))
				require.Equal(t, 300, use.Plain)

				// By another client, of which this one need not know.
				require.NoError(t, stores(t, db, 1)[0].RotateKeys(ctx, "t", "token", "secret"))
				require.NoError(t, tableOfAnother(t, db, "t").Put(ctx, rows[:50]...))
				use, err = tbl.KeyUse(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, []int{50, 250}, counts(use, ""))
				require.Equal(t, []int{50, 250}, counts(use, "token"))
				require.Equal(t, []int{min(50, own), max(0, own-50)}, counts(use, "secret"))
				require.Equal(t, []int{300}, counts(use, "ordered"))
				require.Zero(t, use.Unknown)

				require.NoError(t, rewrite(tbl, rows...))
				use, err = tbl.KeyUse(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, []int{300, 0}, counts(use, ""))
				require.Equal(t, []int{300, 0}, counts(use, "token"))
				require.Equal(t, []int{own, 0}, counts(use, "secret"))
				require.Equal(t, inspect.KeyUse{Keys: use.Keys, Plain: 300}, use)

				require.NoError(t, st.Alter(ctx, "t", DropColumn("also")))
				// Cells that are none of the table's, whatever they claim.
				for row, err := range tbl.now().Data.Scan(ctx, driver.Range{AnyOrder: true, Limit: 1}) {
					require.NoError(t, err)
					cell := row.Cells[0]
					cell.Value = append([]byte(nil), cell.Value...)
					cell.Value[1] ^= 1
					require.NoError(t, tbl.now().Data.Apply(ctx, driver.Mutation{Row: row.Key, Puts: []driver.Cell{cell, {Qualifier: tbl.now().Columns[0].Id[:], Value: []byte("?")}}}))
				}
				use, err = tbl.KeyUse(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, 300, use.Dropped)
				require.Equal(t, 2, use.Unknown)
				require.Equal(t, []int{299, 0}, counts(use, ""))
			})
		}
	}
}
