package paged_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// loaded returns a table with 100 rows in pages of 4, and the family that has them.
func loaded(t *testing.T, spread int) (*paged.Table, driver.Family) {
	t.Helper()
	db := drivertest.NewMemory()
	st := opened(t, db)
	schema := keyings[0].schema(store.RandomisedColumn("secret", store.Int64), store.PlainColumn("open", store.Int64))
	schema.SpreadBits = spread
	tbl, err := paged.Create(t.Context(), st, schema, 4)
	require.NoError(t, err)
	load(t, tbl, 1)
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	at := slices.IndexFunc(d.Tables, func(table inspect.Table) bool { return table.Name == "t" })
	require.Equal(t, "paged", d.Tables[at].Layout)
	require.Equal(t, 4, d.Tables[at].PageRows)
	require.Len(t, d.Tables[at].Families, 1)
	f, err := db.Family(t.Context(), driver.FamilySpec{Name: d.Tables[at].Families[0], Layout: driver.LayoutOrdered, SpreadBits: max(0, spread), Existing: true})
	require.NoError(t, err)
	return tbl, f
}

func load(t *testing.T, tbl *paged.Table, factor int64) {
	t.Helper()
	var rows []store.Row
	for i := range int64(100) {
		rows = append(rows, store.Row{"at": i, "secret": factor * i, "open": -factor * i})
	}
	require.NoError(t, tbl.Put(t.Context(), rows...))
}

func stored(t *testing.T, f driver.Family) []driver.Row { return storedIn(t, f, driver.Range{}) }

func storedIn(t *testing.T, f driver.Family, r driver.Range) (rows []driver.Row) {
	t.Helper()
	for row, err := range f.Scan(t.Context(), r) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// put makes a row of the database have the given cells, and no other.
func put(t *testing.T, f driver.Family, key []byte, cells []driver.Cell) {
	t.Helper()
	require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: key, DeleteRow: true}))
	if len(cells) > 0 {
		require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: key, Puts: cells}))
	}
}

// sum asks for all rows.
func sum(t *testing.T, tbl *paged.Table) (n int64, err error) {
	for row, err := range tbl.Query(t.Context(), store.Query{}) {
		if err != nil {
			return 0, err
		}
		n += row["secret"].(int64) - row["open"].(int64)
	}
	return n, nil
}

// Whatever is changed in the database, a query of a new client says so, and so does Verify.
func TestDamageIsNoticed(t *testing.T) {
	synctest.Test(t, damageIsNoticed) // which has the time for attempts
}

func damageIsNoticed(t *testing.T) {
	tbl, f := loaded(t, -1)
	pages := stored(t, f)
	require.Greater(t, len(pages), 20)
	want, err := sum(t, tbl)
	require.NoError(t, err)
	noticed := func(t *testing.T, what string) {
		t.Helper()
		got, err := sum(t, tbl)
		require.ErrorIs(t, err, store.ErrTampered, "%s: %d", what, got)
		_, err = tbl.Verify(t.Context())
		require.ErrorIs(t, err, store.ErrTampered, what)
	}
	victim := pages[7]
	for i, cell := range victim.Cells {
		for at := range cell.Value {
			if i == 1 && at > 90 && at%16 > 0 {
				continue // of the ciphertext, some
			}
			cells := slices.Clone(victim.Cells)
			cells[i].Value = bytes.Clone(cell.Value)
			cells[i].Value[at] ^= 1 << (at % 8)
			put(t, f, victim.Key, cells)
			// The id of a key is in bytes 1 to 16.
			if _, err := sum(t, tbl); i == 1 && at >= 1 && at <= 16 {
				require.ErrorIs(t, err, store.ErrWrongKey)
				c, err := tbl.Verify(t.Context())
				require.ErrorIs(t, err, store.ErrWrongKey)
				require.Equal(t, len(pages), c.Pages+c.Damaged, "the others are verified as well")
				continue
			}
			noticed(t, string(cell.Qualifier))
		}
		for _, n := range []int{0, 1, len(cell.Value) - 1} {
			cells := slices.Clone(victim.Cells)
			cells[i].Value = cell.Value[:n]
			put(t, f, victim.Key, cells)
			noticed(t, "a cell that is cut short")
		}
		put(t, f, victim.Key, slices.Delete(slices.Clone(victim.Cells), i, i+1))
		noticed(t, "a missing cell")
	}
	put(t, f, victim.Key, nil)
	noticed(t, "a missing page")
	put(t, f, victim.Key, pages[8].Cells)
	noticed(t, "another page in its place")
	put(t, f, victim.Key, victim.Cells)
	put(t, f, append(bytes.Clone(victim.Key), 1), victim.Cells)
	noticed(t, "a page twice")
	put(t, f, append(bytes.Clone(victim.Key), 1), nil)
	for _, at := range []int{0, len(pages) - 1} {
		put(t, f, pages[at].Key, nil)
		noticed(t, "the first or last page is missing")
		put(t, f, pages[at].Key, pages[at].Cells)
	}
	got, err := sum(t, tbl)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// Cells of two writes do not fit together, and a write into a damaged page is refused.
	load(t, tbl, 2)
	written := stored(t, f)[7]
	for i := range victim.Cells {
		cells := slices.Clone(written.Cells)
		cells[i] = victim.Cells[i]
		put(t, f, victim.Key, cells)
		noticed(t, "cells of two writes")
		refused := 0
		for i := range int64(100) {
			err := tbl.Update(t.Context(), store.Row{"at": i, "open": -2 * i})
			if refused++; err == nil {
				refused--
				continue
			}
			require.ErrorIs(t, err, store.ErrTampered)
		}
		require.Equal(t, 4, refused)
	}
	// An old page that fits is not noticed: nobody but its writer knows that there was another one.
	put(t, f, victim.Key, victim.Cells)
	got, err = sum(t, tbl)
	require.NoError(t, err)
	require.NotEqual(t, 2*want, got)
}

// What a plain query says of forged cells is what they say: it takes them so. One that cannot be read is an error all the same.
func TestUnauthenticated(t *testing.T) {
	tbl, f := loaded(t, 4)
	for _, page := range stored(t, f) {
		cells := slices.Clone(page.Cells)
		at := slices.IndexFunc(cells, func(c driver.Cell) bool { return string(c.Qualifier) == "s" })
		put(t, f, page.Key, slices.Delete(cells, at, at+1))
	}
	n, opened := 0, tbl.Stats().Opened
	for row, err := range tbl.Query(t.Context(), store.Query{Unauthenticated: true}) {
		require.NoError(t, err)
		require.Len(t, row, 1, "the key is encrypted, and the other column is sealed")
		require.Contains(t, row, "open")
		n++
	}
	require.Equal(t, 100, n)
	require.Equal(t, opened, tbl.Stats().Opened)
	for _, q := range []store.Query{
		{Unauthenticated: true, Columns: []string{"secret"}},
		{Unauthenticated: true, Where: store.Field[int64]("secret").Equal(1)},
		{Unauthenticated: true, Where: store.Field[int64]("at").Equal(1)},
		{OrderBy: "open"}, {By: "open"}, {Reverse: true}, {PageToken: "x"}, {Columns: []string{"none"}},
	} {
		for _, err := range tbl.Query(t.Context(), q) {
			require.ErrorIs(t, err, store.ErrColumn)
		}
	}
	for _, err := range tbl.Query(t.Context(), store.Query{RequireIndex: true}) {
		require.ErrorIs(t, err, store.ErrScan)
	}
	page := stored(t, f)[3]
	cells := slices.Clone(page.Cells)
	for n := range cells[0].Value {
		cells[0].Value = page.Cells[0].Value[:n]
		put(t, f, page.Key, cells)
		var err error
		for _, err = range tbl.Query(t.Context(), store.Query{Unauthenticated: true}) {
		}
		require.True(t, errors.Is(err, store.ErrTampered) || err == nil && n >= 4, "%d bytes: %v", n, err) // a column may be missing
	}
}

// A page that Verify misses is missed by all who ask for rows of it, or write them: also the first one of a part, below which
// there is no other that says where the next one begins.
func TestMissingPageIsNoticed(t *testing.T) {
	at, at32, who := store.Field[int64]("at"), store.Field[int32]("at"), store.Field[string]("who")
	for _, c := range []struct {
		name   string
		keying int
		spread int
		prefix int
		upTo   func(n int) store.Predicate // rows of one part, up to one
	}{
		{"one part", 0, -1, 0, func(n int) store.Predicate { return at.AtMost(int64(5 * n)) }},
		{"spread", 0, 2, 0, func(n int) store.Predicate { return at.AtMost(int64(5 * n)) }},
		{"prefix", 2, 0, 16, func(n int) store.Predicate {
			return store.And(who.Equal(fmt.Sprint("user ", n%7)), at32.AtMost(int32(n)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which has the time for attempts
				db, k := drivertest.NewMemory(), keyings[c.keying]
				st := opened(t, db)
				schema := k.schema(store.PlainColumn("n", store.Int64), store.RandomisedColumn("secret", store.Int64))
				schema.SpreadBits = c.spread
				tbl, err := paged.Create(t.Context(), st, schema, 4)
				require.NoError(t, err)
				const rows = 120
				row := func(n int) store.Row {
					row := k.row(n)
					row["n"], row["secret"] = int64(n), int64(-n)
					return row
				}
				for n := range rows {
					require.NoError(t, tbl.Put(t.Context(), row(n)))
				}
				all := func(where store.Predicate) (found map[int64]store.Row, err error) {
					found = make(map[int64]store.Row)
					for row, err := range tbl.Query(t.Context(), store.Query{Where: where}) {
						if err != nil {
							return nil, err
						}
						found[row["n"].(int64)] = row
					}
					return found, nil
				}
				d, err := st.Describe(t.Context())
				require.NoError(t, err)
				f, err := db.Family(t.Context(), driver.FamilySpec{Name: d.Tables[0].Families[0], Layout: driver.LayoutOrdered, SpreadBits: max(0, c.spread), PrefixBytes: c.prefix, Existing: true})
				require.NoError(t, err)
				every := driver.Range{AnyOrder: true}
				pages := storedIn(t, f, every)
				wants := make([]map[int64]store.Row, rows)
				for n := range rows {
					wants[n], err = all(c.upTo(n))
					require.NoError(t, err)
					require.Contains(t, wants[n], int64(n))
				}
				lost, noticed := 0, 0
				for _, page := range pages {
					put(t, f, page.Key, nil)
					_, err = tbl.Verify(t.Context())
					alone := err == nil // in its part, which may be gone as a whole
					if !alone {
						require.ErrorIs(t, err, store.ErrTampered)
						noticed++
					}
					before := storedIn(t, f, every)
					for n := range rows {
						key := k.row(n)
						got, err := tbl.Get(t.Context(), key)
						missed := err != nil
						switch {
						case alone && got == nil:
							require.NoError(t, err)
							lost++
							continue
						case missed:
							require.ErrorIs(t, err, store.ErrTampered)
							lost++
						default:
							require.Equal(t, row(n), got, "a row of a page that is there")
						}
						up, err := all(c.upTo(n))
						if err == nil {
							require.False(t, missed)
							require.True(t, alone || maps.EqualFunc(wants[n], up, maps.Equal))
						} else {
							require.ErrorIs(t, err, store.ErrTampered)
						}
						if !missed {
							continue
						}
						for _, write := range []func(context.Context, ...store.Row) error{tbl.Put, tbl.Update, tbl.Delete} {
							require.ErrorIs(t, write(t.Context(), key), store.ErrTampered)
						}
						require.Equal(t, before, storedIn(t, f, every))
					}
					put(t, f, page.Key, page.Cells)
				}
				require.Equal(t, rows, lost, "each row was in one page")
				require.Greater(t, noticed, len(pages)/2)
				_, err = tbl.Verify(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// A caller that has seen enough before a page that is missing is no reason to panic.
func TestNoPanics(t *testing.T) {
	synctest.Test(t, noPanics) // which has the time for attempts
}

func noPanics(t *testing.T) {
	db := drivertest.NewMemory()
	st := opened(t, db)
	k := keyings[2]
	tbl, err := paged.Create(t.Context(), st, k.schema(), 2)
	require.NoError(t, err)
	var rows []store.Row
	for n := range 60 {
		rows = append(rows, k.row(n))
	}
	require.NoError(t, tbl.Put(t.Context(), rows...))
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	f, err := db.Family(t.Context(), driver.FamilySpec{Name: d.Tables[0].Families[0], Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
	require.NoError(t, err)
	parts, inFirst := 0, 0
	for page, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		if len(page.Key) == 16 {
			if parts++; parts == 2 {
				put(t, f, page.Key, nil) // the first one of its part
			}
		}
		if parts == 1 {
			inFirst++
		}
	}
	require.Greater(t, inFirst, 2)
	seen := 0
	for _, err := range tbl.Query(t.Context(), store.Query{}) {
		if err == nil {
			seen++
		}
	}
	require.Positive(t, seen, "the rows of the first part")
	for n := 1; n <= seen; n++ {
		left := n
		for _, err := range tbl.Query(t.Context(), store.Query{Unauthenticated: n%2 == 0}) {
			require.NoError(t, err)
			if left--; left == 0 {
				break
			}
		}
	}
	for _, unauthenticated := range []bool{false, true} {
		var err error
		for _, err = range tbl.Query(t.Context(), store.Query{Unauthenticated: unauthenticated}) {
		}
		require.ErrorIs(t, err, store.ErrTampered)
	}
}

// Verify goes on behind pages that are missing, and names the places where each gap begins. A damaged page behind one is named, too.
func TestVerifyNamesMissingPages(t *testing.T) {
	for _, spread := range []int{-1, 4} {
		synctest.Test(t, func(t *testing.T) { // which has the time for attempts
			tbl, f := loaded(t, spread)
			all := storedIn(t, f, driver.Range{AnyOrder: true})
			whole, err := tbl.Verify(t.Context())
			require.NoError(t, err)
			require.Equal(t, len(all), whole.Pages)
			part := func(at int) byte { return all[at].Key[0] >> (8 - max(0, spread)) }
			next := max(1, slices.IndexFunc(all, func(r driver.Row) bool { return r.Key[0]>>(8-max(0, spread)) != part(0) })) // the first one of the second part
			for _, missing := range [][]int{{0}, {2}, {2, 3}, {0, 1, 2}, {0, 2, 4}, {next - 1}, {next}, {next - 1, next}, {next, next + 2}, {len(all) - 1}} {
				last := missing[len(missing)-1]
				if last >= len(all) {
					continue
				}
				damaged := (last + 1) % len(all)
				var places [][]byte
				left := make(map[byte]int) // pages of a part
				for at := range all {
					if !slices.Contains(missing, at) {
						left[part(at)]++
					}
				}
				for _, at := range missing {
					put(t, f, all[at].Key, nil)
					begins := at == 0 || part(at-1) != part(at) || !slices.Contains(missing, at-1)
					if begins && left[part(at)] > 0 { // a part that is missing as a whole is not noticed
						places = append(places, all[at].Key)
					}
				}
				cells := slices.Clone(all[damaged].Cells)
				cells[0].Value = append(bytes.Clone(cells[0].Value), 0)
				put(t, f, all[damaged].Key, cells)
				places = append(places, all[damaged].Key)
				c, err := tbl.Verify(t.Context())
				require.ErrorIs(t, err, store.ErrTampered)
				require.Equal(t, len(places), c.Damaged, "%v: %v", missing, err)
				require.Equal(t, len(all)-len(missing)-1, c.Pages)
				var found [][]byte
				for _, fault := range c.Faults {
					require.Equal(t, inspect.FaultPage, fault.Kind)
					found = append(found, fault.Place)
				}
				require.ElementsMatch(t, places, found, "%v", missing)
				for _, at := range append(missing, damaged) {
					put(t, f, all[at].Key, all[at].Cells)
				}
			}
			again, err := tbl.Verify(t.Context())
			require.NoError(t, err)
			require.Equal(t, whole, again)
		})
	}
}

// Verify goes on behind damaged pages and names each of them, wherever in its part it is.
func TestVerifyNamesDamagedPages(t *testing.T) {
	for _, spread := range []int{-1, 2} {
		tbl, f := loaded(t, spread)
		all := stored(t, f)
		whole, err := tbl.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, whole.Faults)
		for _, victims := range [][]int{{0}, {len(all) - 1}, {3}, {3, 4}, {0, 1, 7, 9, len(all) - 1}} {
			var places [][]byte
			for n, at := range victims {
				cells := slices.Clone(all[at].Cells)
				c := &cells[n%len(cells)]
				c.Value = bytes.Clone(c.Value)
				c.Value[len(c.Value)-1] ^= 1
				put(t, f, all[at].Key, cells)
				places = append(places, all[at].Key)
			}
			c, err := tbl.Verify(t.Context())
			require.ErrorIs(t, err, store.ErrTampered)
			require.ErrorContains(t, err, fmt.Sprintf("damaged are %d of %d pages", len(victims), len(all)))
			require.Equal(t, len(victims), c.Damaged)
			require.Equal(t, len(all)-len(victims), c.Pages)
			require.Less(t, c.Rows, whole.Rows)
			require.GreaterOrEqual(t, c.Rows, whole.Rows-4*len(victims))
			var found [][]byte
			for _, fault := range c.Faults {
				require.Equal(t, inspect.FaultPage, fault.Kind)
				require.ErrorIs(t, fault.Err, store.ErrTampered)
				found = append(found, fault.Place)
			}
			require.ElementsMatch(t, places, found)
			for _, at := range victims {
				put(t, f, all[at].Key, all[at].Cells)
			}
		}
	}
}
