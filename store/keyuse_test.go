package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
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
				require.Equal(t, inspect.KeyUse{Keys: use.Keys, Search: use.Search, Plain: 300, Catalogue: use.Catalogue}, use)

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

// Beside cells it is counted what is found by each search key: under the old one nothing is left when all rows are converted.
func TestKeyUseOfSearchKeys(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := stores(t, db, 1)[0]
		tbl, err := st.Create(ctx, Schema{
			Name: "readings",
			Key:  []KeyPart{HashedPart("device", Int64), PlainPart("place", Int64), OrderedPart("at", Int64, MOPE)},
			Columns: []Column{
				OrderedColumn("celsius", Int64, Boldyreva), OrderedColumn("level", Int64, Kerschbaum), DeterministicColumn("user", String).DatabaseWide(),
				OrderedColumn("open", Int64, Plaintext), RandomisedColumn("note", String),
			},
		})
		require.NoError(t, err)
		var rows []Row
		for i := range int64(30) {
			rows = append(rows, Row{"device": i % 3, "place": i, "at": i, "celsius": i, "level": i % 10, "user": "u", "open": i})
		}
		rows[0]["celsius"] = nil
		require.NoError(t, tbl.Put(ctx, rows...))
		require.NoError(t, st.Close(ctx))
		counts := func(column string) (entries, records []int) {
			use, err := tbl.KeyUse(ctx, nil)
			require.NoError(t, err)
			require.Zero(t, use.Left+use.Unknown)
			for _, k := range use.Search {
				if k.Column == column {
					require.Equal(t, len(entries) == 0, k.Newest)
					entries, records = append(entries, k.Entries), append(records, k.Records)
				}
			}
			return entries, records
		}
		for column, n := range map[string]int{"device": 30, "at": 30, "celsius": 29, "level": 30, "user": 30} {
			entries, records := counts(column)
			require.Equal(t, []int{n}, entries, column)
			require.Equal(t, column == "level", records[0] > 0, column)
		}
		for _, none := range []string{"place", "open", "note"} {
			entries, _ := counts(none)
			require.Empty(t, entries, none)
		}

		require.NoError(t, st.RotateSearchKeys(ctx, "readings", "celsius", "level"))
		require.NoError(t, tbl.Put(ctx, rows[:7]...))
		entries, _ := counts("celsius")
		require.Equal(t, []int{6, 23}, entries)
		entries, records := counts("level")
		require.Equal(t, []int{7, 23}, entries)
		require.GreaterOrEqual(t, records[0], 7, "of each value there is one, and some are of the index itself")
		require.GreaterOrEqual(t, records[1], 10)
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		entries, _ = counts("celsius")
		require.Equal(t, []int{29, 0}, entries)
		entries, records = counts("level")
		require.Equal(t, []int{30, 0}, entries)
		require.GreaterOrEqual(t, records[0], 10)
		require.Zero(t, records[1])

		// What is there of no column, and of one that was dropped, is counted apart.
		use, err := tbl.KeyUse(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 2, use.Catalogue, "its entry, and how far the conversion is")
		require.NoError(t, st.Alter(ctx, "readings", DropColumn("celsius")))
		foreign := driver.Mutation{Row: slices.Concat([]byte("none"), make([]byte, 40)), Puts: []driver.Cell{rowcodec.PostingCell}}
		require.NoError(t, tbl.now().Postings.Apply(ctx, foreign))
		use, err = tbl.KeyUse(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 29+1, use.Left)
	})
}

// What the database keeps of a column in an index of its own counts as index entries.
func TestKeyUseOfServerIndexes(t *testing.T) {
	ctx, st := t.Context(), stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(ctx, Schema{
		Name: "readings", Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("celsius", Int64, Boldyreva).ServerIndex(), RandomisedColumn("note", String)},
	})
	require.NoError(t, err)
	for i := range int64(9) {
		require.NoError(t, tbl.Put(ctx, Row{"id": i, "celsius": i}))
	}
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(9), "note": "n"}))
	entries := func() (n []int) {
		use, err := tbl.KeyUse(ctx, nil)
		require.NoError(t, err)
		require.Zero(t, use.Left+use.Unknown)
		for _, k := range use.Search {
			if k.Column == "celsius" {
				n = append(n, k.Entries)
			}
		}
		return n
	}
	require.Equal(t, []int{9}, entries())
	require.NoError(t, st.RotateSearchKeys(ctx, "readings", "celsius"))
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(0), "celsius": int64(5)}))
	require.Equal(t, []int{1, 8}, entries())
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []int{9, 0}, entries())
}

// A row under the first of many keys is read by a client that has the last one only made ready.
func TestRowUnderTheFirstOfManyKeys(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, CellPerColumn: true, Columns: []Column{RandomisedColumn("c", String)}})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "c": "first"}))
	for range 50 {
		require.NoError(t, st.RotateKeys(ctx, "t"))
	}
	row, err := tableOfAnother(t, db, "t").Get(ctx, Row{"id": int64(1)})
	require.NoError(t, err)
	require.Equal(t, "first", row["c"])
}

// What a rotation costs after many others: each adds a key to each column, which the catalogue keeps.
func BenchmarkRotateKeys(b *testing.B) {
	for _, earlier := range []int{0, 1000} {
		b.Run(fmt.Sprint("earlier=", earlier), func(b *testing.B) {
			ctx := b.Context()
			db, err := pebble.Open(b.TempDir(), nil)
			require.NoError(b, err)
			defer db.Close()
			st, err := Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
			require.NoError(b, err)
			schema := Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}}
			for i := range 10 {
				schema.Columns = append(schema.Columns, RandomisedColumn(fmt.Sprint("c", i), String))
			}
			_, err = st.Create(ctx, schema)
			require.NoError(b, err)
			for range earlier {
				require.NoError(b, st.RotateKeys(ctx, "t"))
			}
			for b.Loop() {
				require.NoError(b, st.RotateKeys(ctx, "t"))
			}
		})
	}
}
