package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// unauthenticated returns what a query yields that takes no proof.
func unauthenticated(t *testing.T, tbl *Table, q Query) (rows []Row, err error) {
	t.Helper()
	q.Unauthenticated = true
	for row, err := range tbl.Query(t.Context(), q) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Where all that is sealed is damaged, plain columns are returned all the same: nothing sealed is opened.
func TestUnauthenticatedOpensNothing(t *testing.T) {
	for _, layout := range []bool{false, true} {
		testdb.Each(t, func(t *testing.T, kind testdb.Database) {
			ctx := t.Context()
			st := stores(t, kind.Open(t, nil), 1)[0]
			schema := tamperSchema("t", layout)
			schema.Key = append(schema.Key, PlainPart("where", String), OrderedPart("day", Int16, Plaintext), TiePart("tie"))
			tbl, err := st.Create(ctx, schema)
			require.NoError(t, err)
			var want []Row
			for i := range 40 {
				row := Row{"id": int64(i % 3), "at": int64(i), "ordered": 5, "token": "x", "secret": "y", "where": fmt.Sprint("a\x00b", i), "day": int16(i - 20), "tie": [16]byte{byte(i)}}
				shown := Row{"where": row["where"], "day": row["day"], "tie": row["tie"]}
				if i%4 > 0 {
					row["plain"], shown["plain"] = fmt.Sprint(i), fmt.Sprint(i)
				}
				require.NoError(t, tbl.Put(ctx, row))
				want = append(want, shown)
			}
			damaged := 0
			require.NoError(t, rewriteCell(ctx, tbl.now().Data, func(r *driver.Row) {
				for _, cell := range r.Cells {
					if rowcodec.Sealed(cell.Value) {
						cell.Value[len(cell.Value)-1] ^= 1
						damaged++
					}
				}
			}))
			require.GreaterOrEqual(t, damaged, 3*40)
			for _, err = range tbl.Query(ctx, Query{Columns: []string{"plain"}}) {
			}
			require.ErrorIs(t, err, ErrTampered)

			got, err := unauthenticated(t, tbl, Query{})
			require.NoError(t, err)
			require.ElementsMatch(t, want, got)
			got, err = unauthenticated(t, tbl, Query{Columns: []string{"plain"}, Where: Field[string]("plain").In("1", "2", "39")})
			require.NoError(t, err)
			require.ElementsMatch(t, []Row{want[1], want[2], want[39]}, got)
			got, err = unauthenticated(t, tbl, Query{Columns: []string{}, Where: Field[int16]("day").AtLeast(18)})
			require.NoError(t, err)
			for _, row := range want {
				delete(row, "plain")
			}
			require.ElementsMatch(t, want[38:], got)
			got, err = unauthenticated(t, tbl, Query{Columns: []string{}, Where: Field[int64]("id").Equal(2), RequireIndex: true})
			require.NoError(t, err)
			require.Len(t, got, 13)
			got, err = unauthenticated(t, tbl, Query{Columns: []string{}, OrderBy: "day", Reverse: true, Limit: 3})
			require.NoError(t, err)
			require.Equal(t, []Row{want[39], want[38], want[37]}, got)

			var paged []Row
			for q := (Query{Unauthenticated: true, Limit: 7, Columns: []string{}}); ; {
				rows, next, err := tbl.Page(ctx, q)
				require.NoError(t, err)
				paged = append(paged, rows...)
				if q.PageToken = next; next == "" {
					break
				}
				_, _, err = tbl.Page(ctx, Query{Limit: 7, PageToken: next})
				require.ErrorIs(t, err, ErrToken, "it is of another query")
			}
			require.ElementsMatch(t, want, paged)

			for _, explain := range []func(context.Context, Query) (inspect.Explanation, error){tbl.Explain, tbl.Analyze} {
				e, err := explain(ctx, Query{Unauthenticated: true})
				require.NoError(t, err)
				require.True(t, e.Unauthenticated)
				require.Equal(t, []string{"plain"}, e.Opened)
				require.Equal(t, "all rows", e.Driver)
			}
		})
	}
}

// What takes a proof is refused by name, and nothing is passed over.
func TestUnauthenticatedRefuses(t *testing.T) {
	st := stores(t, drivertest.NewMemory(), 1)[0]
	schema := tamperSchema("t", false)
	schema.Key = append(schema.Key, HashedPart("last", Int64))
	schema.Columns = append(schema.Columns, OrderedColumn("shown", Int64, Plaintext))
	tbl, err := st.Create(t.Context(), schema)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), Row{"id": 1, "at": 2, "last": 3, "plain": "x"}))
	for says, q := range map[string]Query{
		`column "secret" is sealed: leave Unauthenticated out, or leave the column out`:                                   {Columns: []string{"plain", "secret"}},
		`column "ordered" is sealed: leave Unauthenticated out, or leave the condition out`:                               {Where: Field[int64]("ordered").AtLeast(0)},
		`column "token" is sealed: leave Unauthenticated out, or leave the order out`:                                     {OrderBy: "token"},
		`column "shown" is searched by index entries: leave Unauthenticated out, or leave the column out`:                 {Columns: []string{"shown"}},
		`key part "id" is hashed, and not in the clear in row keys: leave Unauthenticated out, or leave the column out`:   {Columns: []string{"id"}},
		`key part "at" is ordered, and not in the clear in row keys: leave Unauthenticated out, or leave the order out`:   {OrderBy: "at"},
		`key part "at" is ordered, and not in the clear in row keys: leave Unauthenticated out, or leave the condition`:   {Where: And(Field[int64]("id").Equal(1), Field[int64]("at").Equal(2))},
		`key part "last" is hashed, and not in the clear in row keys: leave Unauthenticated out`:                          {Where: Field[int64]("last").Equal(3)},
		`key part "id" is hashed, and not in the clear in row keys`:                                                       {Where: Not(Field[int64]("id").Equal(1))},
		`key part "id" is hashed, and not in the clear in row keys: leave Unauthenticated out, or leave the condition ou`: {Where: Or(Field[int64]("id").Equal(1), Field[string]("plain").Equal("x"))},
		`By is "ordered", and an Unauthenticated query reads rows, and no index entries`:                                  {By: "ordered"},
		`table "t" has no column "nothing"`: {Columns: []string{"nothing"}},
		`table "t" has no column "none"`:    {OrderBy: "none"},
	} {
		_, err := unauthenticated(t, tbl, q)
		require.ErrorIs(t, err, ErrColumn, says)
		require.ErrorContains(t, err, says)
		q.Unauthenticated = true
		_, err = tbl.Explain(t.Context(), q)
		require.ErrorContains(t, err, says)
	}
	_, err = unauthenticated(t, tbl, Query{Reverse: true})
	require.ErrorIs(t, err, driver.ErrRange)
	_, err = unauthenticated(t, tbl, Query{RequireIndex: true})
	require.ErrorIs(t, err, ErrScan)
	for _, none := range []Predicate{Field[int64]("id").In(), Field[int64]("id").Equal(9), And(Field[int64]("id").Equal(1), Field[string]("plain").Equal("y"))} {
		got, err := unauthenticated(t, tbl, Query{Where: none})
		require.NoError(t, err)
		require.Empty(t, got)
	}
	got, err := unauthenticated(t, tbl, Query{Where: Field[int64]("id").In(1, 5)})
	require.NoError(t, err)
	require.Equal(t, []Row{{"plain": "x"}}, got)
}

// Who operates the database forges plain cells, and that is what the caller accepts; cells of two writes are noticed.
func TestUnauthenticatedForged(t *testing.T) {
	for _, layout := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := newTampering(t, layout)
			tbl, row := x.tables[0], x.rows[0]
			q := Query{Where: Field[int64]("id").Equal(0)}
			_, cells := x.cells(tbl, row)
			plain := slices.IndexFunc(cells, func(c driver.Cell) bool { return len(c.Value) > 0 && c.Value[0] == rowcodec.PlainFormat })
			require.Positive(t, plain)
			changed := func(change func(cell []byte) []byte) []driver.Cell {
				forged := slices.Clone(cells)
				forged[plain].Value = change(slices.Clone(cells[plain].Value))
				return forged
			}
			with := func(forged []driver.Cell, want []Row, is error) {
				t.Helper()
				x.with(tbl, row, forged, func() {
					got, err := unauthenticated(t, tbl, q)
					require.ErrorIs(t, err, is)
					require.Equal(t, want, got)
				})
			}
			with(cells, []Row{{"plain": "same"}}, nil)
			with(changed(func(cell []byte) []byte { return append(cell[:rowcodec.PlainOverhead], "forged"...) }), []Row{{"plain": "forged"}}, nil)
			with(changed(func(cell []byte) []byte { cell[rowcodec.PlainOverhead-1] ^= 1; return cell }), nil, ErrTorn)
			with(changed(func(cell []byte) []byte { return cell[:rowcodec.PlainOverhead-1] }), nil, ErrTampered)
			with(changed(func([]byte) []byte { return cells[0].Value }), nil, ErrColumn)
			with(cells[1:], nil, ErrTorn)
			with(slices.Delete(slices.Clone(cells), plain, plain+1), []Row{{}}, nil)
			with(nil, nil, nil)

			// A row that was put together from nothing, under a key of another one.
			other, _ := x.cells(tbl, x.rows[1])
			x.set(tbl, other, cells)
			got, err := unauthenticated(t, tbl, Query{Where: Field[int64]("id").Equal(1)})
			require.NoError(t, err)
			require.Equal(t, []Row{{"plain": "same"}}, got)

			// A row that says that it is newer than the catalogue.
			newer := slices.Clone(cells)
			newer[0].Value = slices.Clone(newer[0].Value)
			newer[0].Value[1+16] = 0x40
			with(newer, nil, ErrTampered)
		})
	}
}

// A torn row is read again: it is only torn for as long as a write takes.
func TestUnauthenticatedReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTampering(t, false)
		tbl := x.tables[0]
		key, cells := x.cells(tbl, x.rows[0])
		torn := slices.Clone(cells)
		for i := range torn {
			if torn[i].Value = slices.Clone(cells[i].Value); torn[i].Value[0] == rowcodec.PlainFormat {
				torn[i].Value[rowcodec.PlainOverhead-1] ^= 1
			}
		}
		x.set(tbl, key, torn)
		go func() {
			time.Sleep(time.Millisecond)
			x.set(tbl, key, cells)
		}()
		st, err := Open(t.Context(), struct{ driver.DB }{x.db}, kms.NewLocal(x.key), nil) // without snapshots
		require.NoError(t, err)
		asked, err := st.Table(t.Context(), "table0")
		require.NoError(t, err)
		got, err := unauthenticated(t, asked, Query{})
		require.NoError(t, err)
		require.Equal(t, []Row{{"plain": "same"}, {"plain": "same"}}, got)
	})
}

// Rows expire by what their sealed key cells say, and where nothing is sealed anybody reads it.
func TestUnauthenticatedExpiry(t *testing.T) {
	st := stores(t, drivertest.NewMemory(), 1)[0]
	sealed := Schema{Name: "t", TTL: time.Hour, Key: []KeyPart{PlainPart("id", Int64)}, Columns: []Column{PlainColumn("plain", String), RandomisedColumn("r", String)}}
	tbl, err := st.Create(t.Context(), sealed)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), Row{"id": 1, "plain": "x"}))
	_, err = unauthenticated(t, tbl, Query{})
	require.ErrorIs(t, err, ErrColumn)
	require.ErrorContains(t, err, `rows of table "t" expire, and their sealed key cells say when: leave Unauthenticated out`)

	clear := Schema{Name: "clear", TTL: time.Hour, Key: []KeyPart{PlainPart("id", Int64)}, Columns: []Column{PlainColumn("plain", String)}}
	tbl, err = st.Create(t.Context(), clear)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), Row{"id": 1, "plain": "x"}))
	got, err := unauthenticated(t, tbl, Query{})
	require.NoError(t, err)
	require.Equal(t, []Row{{"id": int64(1), "plain": "x"}}, got)
}

// A row that was deleted under a condition has a key cell without content.
func TestUnauthenticatedDeleted(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		st := stores(t, kind.Open(t, nil), 1)[0]
		tbl, err := st.Create(t.Context(), Schema{Name: "t", Conditional: true, Key: []KeyPart{PlainPart("id", Int64)},
			Columns: []Column{PlainColumn("plain", String), RandomisedColumn("r", String)}})
		require.NoError(t, err)
		require.NoError(t, tbl.Put(t.Context(), Row{"id": 1, "plain": "x", "r": "y"}, Row{"id": 2, "plain": "z"}))
		require.NoError(t, tbl.Update(t.Context(), Row{"id": 2, "r": "only this"}))
		require.NoError(t, tbl.Delete(t.Context(), Row{"id": 1}))
		got, err := unauthenticated(t, tbl, Query{})
		require.NoError(t, err)
		require.Equal(t, []Row{{"id": int64(2), "plain": "z"}}, got)
	})
}

// A column that was made plain is read so when all rows are converted, and one that was sealed is refused at once, also by a client
// that has not learned of it.
func TestUnauthenticatedChanges(t *testing.T) {
	for _, layout := range []bool{false, true} {
		ctx := t.Context()
		two := stores(t, drivertest.NewMemory(), 2)
		tbl, err := two[0].Create(ctx, Schema{Name: "t", CellPerColumn: layout, Key: []KeyPart{PlainPart("id", Int64)},
			Columns: []Column{PlainColumn("plain", String), RandomisedColumn("r", String)}})
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, Row{"id": 1, "plain": "x", "r": "y"}, Row{"id": 2, "plain": "z"}))
		require.NoError(t, two[1].Alter(ctx, "t", ChangeColumn(PlainColumn("r", String)), AddColumn(PlainColumn("new", String))))
		other, err := two[1].Table(ctx, "t")
		require.NoError(t, err)
		require.NoError(t, other.Put(ctx, Row{"id": 3, "plain": "new", "r": "shown", "new": "too"}))
		for _, q := range []Query{{}, {Columns: []string{"r"}}, {Columns: []string{"plain"}, Where: Field[string]("r").Equal("y")}} {
			_, err = unauthenticated(t, other, q)
			require.ErrorIs(t, err, ErrColumn)
			require.ErrorContains(t, err, `column "r" was made plain, and not all rows are converted`)
		}
		one, three := Row{"id": int64(1), "plain": "x"}, Row{"id": int64(3), "plain": "new"}
		for _, of := range []*Table{tbl, other} {
			got, err := unauthenticated(t, of, Query{Columns: []string{"plain"}})
			require.NoError(t, err)
			require.Equal(t, []Row{one, {"id": int64(2), "plain": "z"}, three}, sortedByID(got))
		}
		_, err = other.Convert(ctx, nil)
		require.NoError(t, err)
		got, err := unauthenticated(t, other, Query{})
		require.NoError(t, err)
		one["r"], three["r"], three["new"] = "y", "shown", "too"
		require.Equal(t, []Row{one, {"id": int64(2), "plain": "z"}, three}, sortedByID(got))

		require.NoError(t, two[0].Alter(ctx, "t", ChangeColumn(RandomisedColumn("plain", String))))
		require.NoError(t, tbl.Put(ctx, Row{"id": 4, "plain": "hidden"}))
		_, err = unauthenticated(t, other, Query{Columns: []string{"plain"}})
		require.ErrorIs(t, err, ErrColumn)
		require.ErrorContains(t, err, `column "plain" is sealed`)
	}
}

func sortedByID(rows []Row) []Row {
	return slices.SortedFunc(slices.Values(rows), func(a, b Row) int { return int(a["id"].(int64) - b["id"].(int64)) })
}

// The policy of a tenant seals columns, or makes them plain: a row that is stored otherwise is an error, and never null.
func TestUnauthenticatedTenants(t *testing.T) {
	for _, layout := range []bool{false, true} {
		ctx := t.Context()
		st := stores(t, drivertest.NewMemory(), 1)[0]
		_, err := st.Create(ctx, plainTenants(layout))
		require.NoError(t, err)
		tables := openTenants(t, st, "log", "alpha", "beta")
		for _, tbl := range tables {
			require.NoError(t, tbl.Put(ctx, tenantRow(1)))
		}
		read := func(columns ...string) ([]Row, error) { return unauthenticated(t, tables[0], Query{Columns: columns}) }
		got, err := read()
		require.NoError(t, err)
		require.Equal(t, []Row{{"zone": tenantRow(1)["zone"]}}, got)

		require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Sensitive: []string{"zone", "size"}}))
		_, err = read("zone")
		require.ErrorContains(t, err, `column "zone" is sealed`)
		_, err = read("note")
		require.ErrorIs(t, err, ErrColumn, "it is sealed in the row, in its key cell or one of its own")
		_, err = tables[0].Convert(ctx, nil)
		require.NoError(t, err)
		got, err = read("note")
		require.NoError(t, err)
		require.Equal(t, []Row{{"note": tenantRow(1)["note"]}}, got)

		require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Sensitive: []string{"size"}}))
		require.NoError(t, tables[0].Put(ctx, tenantRow(2)))
		_, err = read("zone")
		require.ErrorIs(t, err, ErrColumn, "it is sealed in one row")
		_, err = tables[0].Convert(ctx, nil)
		require.NoError(t, err)
		got, err = read("zone", "note")
		require.NoError(t, err)
		require.Len(t, got, 2)
		got, err = unauthenticated(t, tables[1], Query{})
		require.NoError(t, err)
		require.Equal(t, []Row{{"zone": tenantRow(1)["zone"]}}, got)
	}
}

// Structs have what is read, and zero for key parts that are encrypted.
func TestUnauthenticatedStructs(t *testing.T) {
	type line struct {
		ID    int64   `rangecrypt:"id,key=1,hashed"`
		Where string  `rangecrypt:"where,key=2,plain"`
		Plain *string `rangecrypt:"plain,plain"`
		R     *string `rangecrypt:"r"`
	}
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(t.Context(), Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64), PlainPart("where", String)},
		Columns: []Column{PlainColumn("plain", String), RandomisedColumn("r", String), PlainColumn("more", String)}})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), Row{"id": 7, "where": "w", "plain": "p", "r": "r", "more": "m"}))
	of, err := For[line](t.Context(), st, "t", AllowUnmapped)
	require.NoError(t, err)
	p := "p"
	for row, err := range of.Query(t.Context(), Query{Unauthenticated: true}) {
		require.NoError(t, err)
		require.Equal(t, &line{Where: "w", Plain: &p}, row)
	}
	rows, _, err := of.Page(t.Context(), Query{Unauthenticated: true, Limit: 5})
	require.NoError(t, err)
	require.Equal(t, []*line{{Where: "w", Plain: &p}}, rows)
	_, _, err = of.Page(t.Context(), Query{Unauthenticated: true, Limit: 5, Columns: []string{"r"}})
	require.True(t, errors.Is(err, ErrColumn))
}
