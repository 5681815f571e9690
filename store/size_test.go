package store_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A row that is too large is refused before anything of its call is written, and named with the column
// and the limit, whatever the table.
func TestSizesAreCheckedFirst(t *testing.T) {
	const mib = 1 << 20
	text := func(n int) string { return strings.Repeat("x", n) }
	for _, conditional := range []bool{false, true} {
		for _, layout := range []bool{packed, cellPerColumn} {
			for _, tenants := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, conditional %v, tenants %v", layout, conditional, tenants), func(t *testing.T) {
					var writes []string
					st := open(t, drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
						if !op.Reads() {
							writes = append(writes, op.Method)
						}
						return drivertest.NoFault
					}))
					tbl := create(t, st, store.Schema{
						Name:          "t",
						Key:           []store.KeyPart{store.HashedPart("id", store.Int64), store.PlainPart("path", store.String)},
						CellPerColumn: layout, Conditional: conditional, Tenants: tenants,
						Columns: []store.Column{
							store.OrderedColumn("i", store.Int64, store.MOPE),
							store.OrderedColumn("w", store.Int64, store.WozniakIndexed),
							store.OrderedColumn("k", store.Int64, store.Kerschbaum),
							store.DeterministicColumn("d", store.Bytes),
							store.RandomisedColumn("a", store.String), store.RandomisedColumn("b", store.Bytes),
							store.PlainColumn("p", store.String),
						},
					})
					if tenants {
						require.NoError(t, st.CreateTenant(background, "acme"))
						var err error
						tbl, err = tbl.Tenant(background, "acme")
						require.NoError(t, err)
					}
					row := func(id int) store.Row {
						return store.Row{"id": id, "path": "x", "i": id, "w": id, "k": id, "a": "small"}
					}
					require.NoError(t, tbl.Put(background, row(1000)))
					good := make([]store.Row, 20)
					for i := range good {
						good[i] = row(i)
					}
					shared := driver.MaxValue
					if conditional {
						shared = driver.MaxChange / 3
					}
					if layout == cellPerColumn {
						shared = driver.MaxValue
					}
					for _, bad := range []struct {
						name   string
						row    store.Row
						column string
						limit  int
					}{
						{"value", store.Row{"a": text(9 * mib)}, "a", shared},
						{"packed", store.Row{"b": []byte(text(shared)), "i": nil}, "b", shared},
						{"searched", store.Row{"d": []byte(text(driver.MaxValue))}, "d", driver.MaxValue},
						{"plain", store.Row{"p": text(driver.MaxValue)}, "p", driver.MaxValue},
						{"row", store.Row{"d": []byte(text(7 * mib)), "p": text(8*mib - 100)}, "p", 0},
						{"key", store.Row{"path": text(driver.MaxRowKey)}, "path", driver.MaxRowKey},
						{"key of a posting", store.Row{"path": text(driver.MaxRowKey - 50)}, "i", 0},
					} {
						rows := append([]store.Row{}, good...)
						rows[13] = row(13)
						for name, v := range bad.row {
							rows[13][name] = v
						}
						calls := map[string]func() error{"put": func() error { return tbl.Put(background, rows...) }}
						if conditional {
							calls["update"] = func() error { return tbl.Update(background, rows...) }
						}
						for call, do := range calls {
							writes = nil
							err := do()
							require.ErrorIs(t, err, driver.ErrTooLarge, "%s: %s", bad.name, call)
							var at *store.RowError
							require.ErrorAs(t, err, &at)
							require.Equal(t, 13, at.Index)
							require.ErrorContains(t, err, fmt.Sprintf("%q", bad.column), bad.name)
							if bad.limit > 0 {
								require.ErrorContains(t, err, fmt.Sprintf("at most %d", bad.limit), bad.name)
							}
							require.Less(t, len(err.Error()), 500)
							require.Empty(t, writes, "%s: %s", bad.name, call)
							require.False(t, store.Retryable(err))
						}
					}
					// What is just within the limits is written, and may become any other such row.
					large := row(1000)
					large["a"] = text(shared - 300)
					require.NoError(t, tbl.Put(background, large))
					large["a"] = text(shared - 301)
					require.NoError(t, tbl.Put(background, large))
					require.Len(t, collect(t, tbl, store.Query{Where: store.Field[int64]("i").Equal(1000)}), 1)
					require.NoError(t, tbl.Put(background, row(1000)))
					if conditional {
						// Two columns that are too large together, of which the row has one already.
						half := text(shared/2 + 1000)
						require.NoError(t, tbl.Put(background, store.Row{"id": 5, "path": "x", "a": half}, row(6)))
						err := tbl.Update(background, store.Row{"id": 6, "path": "x", "i": 66}, store.Row{"id": 5, "path": "x", "b": []byte(half)})
						if layout == cellPerColumn {
							require.NoError(t, err)
							return
						}
						require.ErrorIs(t, err, driver.ErrTooLarge)
						var at *store.RowError
						require.ErrorAs(t, err, &at)
						require.Equal(t, 1, at.Index)
						require.Empty(t, collect(t, tbl, store.Query{Where: store.Field[int64]("i").Equal(66)}), "the other row was changed")
					}
				})
			}
		}
	}
}

// A deletion of a row that is never replaced is noted under a key that has the row key within. No row has a key too long for that.
func TestLongestKeyCanBeDeleted(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		st := open(t, drivertest.NewMemory())
		tbl := create(t, st, store.Schema{
			Name: "t", AppendOnly: true, Tenants: tenants,
			Key:     []store.KeyPart{store.HashedPart("id", store.Int64), store.PlainPart("path", store.String), store.TiePart("tie")},
			Columns: []store.Column{store.OrderedColumn("v", store.Int64, store.Boldyreva).Covering()},
		})
		others := 16 + 2 + 16 // what ends the path, and the other parts
		most := driver.MaxRowKey - 4
		if tenants {
			require.NoError(t, st.CreateTenant(background, "one"))
			var err error
			tbl, err = tbl.Tenant(background, "one")
			require.NoError(t, err)
			others, most = others+16, most-16
		}
		row := store.Row{"id": int64(1), "path": strings.Repeat("x", most-others+1)}
		err := tbl.Put(background, row)
		require.ErrorIs(t, err, driver.ErrTooLarge)
		require.ErrorContains(t, err, fmt.Sprintf("at most %d", most))
		row["path"] = row["path"].(string)[1:]
		require.NoError(t, tbl.Put(background, row))
		require.NoError(t, tbl.Delete(background, collect(t, tbl, store.Query{})...))
		require.Empty(t, collect(t, tbl, store.Query{}))
	}
}

// A conversion leaves a row as it is whose cell it would make too large, and says so. It is pending then.
func TestConvertChecksSizes(t *testing.T) {
	var writes []string
	var logged bytes.Buffer
	db := drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
		if !op.Reads() && op.Family[0] != 'c' {
			writes = append(writes, op.Method+" "+op.Family)
		}
		return drivertest.NoFault
	})
	st, err := store.Open(background, db, kms.NewLocal(testKey), &store.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	tbl := create(t, st, store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.RandomisedColumn("a", store.String), store.PlainColumn("b", store.String), store.RandomisedColumn("i", store.Int64)},
	})
	half := strings.Repeat("x", driver.MaxValue/2+1)
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "a": half, "b": half, "i": 7}))
	require.NoError(t, st.Alter(background, "t", store.ChangeColumn(store.RandomisedColumn("b", store.String)),
		store.ChangeColumn(store.OrderedColumn("i", store.Int64, store.MOPE))))
	tbl, err = st.Table(background, "t")
	require.NoError(t, err)
	writes = nil
	stats, err := tbl.Convert(background, nil)
	require.NoError(t, err)
	require.Equal(t, inspect.ConvertStats{Rows: 1, Unfit: 1}, stats)
	require.Contains(t, logged.String(), "is not converted")
	require.Contains(t, logged.String(), "at most 8388608")
	status, err := tbl.Status(background)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "i"}, slices.Sorted(slices.Values(status.Pending)))
	for _, w := range writes {
		require.NotContains(t, w, " x", "postings were written")
		require.NotContains(t, w, " t", "rows were written")
	}
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[int64]("i").Equal(7)}), 1, "it is found as before")
}

// A key part whose exact value is in a cell of the row may be what is too large: it is named then.
func TestSizesOfKeyParts(t *testing.T) {
	large := strings.Repeat("x", driver.MaxValue+1)
	for _, conditional := range []bool{false, true} {
		for name, part := range map[string]store.KeyPart{
			"hashed": store.HashedPart("name", store.String), "ordered": store.OrderedPart("name", store.String, store.MOPE),
		} {
			for _, columns := range [][]store.Column{nil, {store.RandomisedColumn("a", store.String)}} {
				t.Run(fmt.Sprintf("%s, conditional %v, %d columns", name, conditional, len(columns)), func(t *testing.T) {
					tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
						Name: "t", Key: []store.KeyPart{part}, Columns: columns, Conditional: conditional,
					})
					bad := store.Row{"name": large}
					if columns != nil {
						bad["a"] = "small"
					}
					err := tbl.Put(background, store.Row{"name": "good"}, bad)
					require.ErrorIs(t, err, driver.ErrTooLarge)
					require.ErrorContains(t, err, `key part "name"`)
					require.Empty(t, collect(t, tbl, store.Query{}))
				})
			}
		}
	}
}
