package paged_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

var master, _ = ope.NewKey([]byte("the master key of tests of pages"))

func opened(t *testing.T, db driver.DB) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), db, kms.NewLocal(master), nil)
	require.NoError(t, err)
	return st
}

// A keying is a kind of row keys.
type keying struct {
	name string
	key  []store.KeyPart
	row  func(n int) store.Row // key parts of the n-th row of 200
}

var keyings = []keying{
	{"ordered", []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 1000), store.MOPE)},
		func(n int) store.Row { return store.Row{"at": int64(5 * n)} }},
	{"clear", []store.KeyPart{store.OrderedPart("at", store.Int64, store.Plaintext), store.PlainPart("line", store.Int32)},
		func(n int) store.Row { return store.Row{"at": int64(n/3 - 30), "line": int32(n % 3)} }},
	{"hashed", []store.KeyPart{store.HashedPart("who", store.String), store.OrderedPart("at", store.Int32, store.Wozniak)},
		func(n int) store.Row { return store.Row{"who": fmt.Sprint("user ", n%7), "at": int32(n)} }},
	{"plain", []store.KeyPart{store.PlainPart("who", store.Uint8), store.OrderedPart("at", store.Float64, store.Boldyreva)},
		func(n int) store.Row { return store.Row{"who": uint8(255 - n%3), "at": float64(n) / 7} }},
	{"text", []store.KeyPart{store.OrderedPart("at", store.Uint8, store.Plaintext), store.PlainPart("text", store.String)},
		func(n int) store.Row {
			return store.Row{"at": uint8(n % 4 * 85), "text": strings.Repeat("z\u00e9", n%5) + fmt.Sprint(n)}
		}},
}

func (k keying) schema(columns ...store.Column) store.Schema {
	if columns == nil {
		columns = []store.Column{
			store.RandomisedColumn("secret", store.Int64), store.PlainColumn("open", store.String),
			store.RandomisedColumn("note", store.String), store.PlainColumn("size", store.Float32), store.RandomisedColumn("flag", store.Bool),
		}
	}
	return store.Schema{Name: "t", Key: k.key, Columns: columns}
}

func values(r *rand.Rand, row store.Row) store.Row {
	row = maps.Clone(row)
	if r.IntN(5) > 0 {
		row["secret"] = r.Int64N(100)
	}
	if r.IntN(5) > 0 {
		row["open"] = strings.Repeat("o", r.IntN(4))
	}
	if r.IntN(9) == 0 {
		row["note"] = strings.Repeat("n", r.IntN(300))
	}
	row["size"] = float32(r.IntN(10))
	if r.IntN(2) == 0 {
		row["flag"] = r.IntN(2) == 0
	}
	return row
}

// text names the row of a key, and what it has.
func text(row store.Row, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s=%#v ", name, row[name])
	}
	return b.String()
}

func (k keying) names() (names []string) {
	for _, part := range k.key {
		names = append(names, part.Describe().Name)
	}
	return names
}

var columns = []string{"secret", "open", "note", "size", "flag"}

// A model is what a table is to have.
type model struct {
	k    keying
	rows map[string]store.Row
}

func (m *model) put(row store.Row) { m.rows[text(row, m.k.names()...)] = row }

func (m *model) texts(keep func(store.Row) bool) (all []string) {
	for _, row := range m.rows {
		if keep(row) {
			all = append(all, text(row, append(m.k.names(), columns...)...))
		}
	}
	slices.Sort(all)
	return all
}

func got(t *testing.T, k keying, tbl *paged.Table, q store.Query) (all []string) {
	t.Helper()
	for row, err := range tbl.Query(t.Context(), q) {
		require.NoError(t, err)
		all = append(all, text(row, append(k.names(), columns...)...))
	}
	slices.Sort(all)
	return all
}

// Whatever is put, changed and deleted, a table of pages has it, for the client that did and for others.
func TestModel(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		for i, k := range keyings {
			rounds := 120
			if kind.Server {
				rounds = sim.Share(25, 12)
			}
			t.Run(k.name, func(t *testing.T) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				schema := k.schema()
				schema.Name = k.name
				testModel(t, opened(t, db), opened(t, db), schema, k, rand.New(rand.NewPCG(seed, uint64(i))), rounds)
			})
		}
	})
}

func testModel(t *testing.T, one, two *store.Store, schema store.Schema, k keying, r *rand.Rand, rounds int) {
	first, err := paged.Create(t.Context(), one, schema, 2+r.IntN(7))
	require.NoError(t, err)
	second, err := paged.Open(t.Context(), two, schema.Name)
	require.NoError(t, err)
	m := &model{k, make(map[string]store.Row)}
	for range rounds {
		tbl := []*paged.Table{first, second}[r.IntN(2)]
		ns := r.Perm(200)[:1+r.IntN(8)*r.IntN(8)]
		if r.IntN(2) == 0 {
			slices.Sort(ns)
		}
		var rows []store.Row
		for _, n := range ns {
			rows = append(rows, values(r, k.row(n)))
		}
		switch r.IntN(5) {
		case 0:
			require.NoError(t, tbl.Delete(t.Context(), rows...))
			for _, row := range rows {
				delete(m.rows, text(row, k.names()...))
			}
		case 1:
			row := rows[0]
			err := tbl.Update(t.Context(), row)
			was := m.rows[text(row, k.names()...)]
			if was == nil {
				require.ErrorIs(t, err, store.ErrNoRow)
				break
			}
			require.NoError(t, err)
			next := maps.Clone(was)
			maps.Copy(next, row)
			m.put(next)
		default:
			require.NoError(t, tbl.Put(t.Context(), rows...))
			for _, row := range rows {
				m.put(row)
			}
		}
		m.check(t, []*paged.Table{first, second}[r.IntN(2)], r)
	}
	c, err := first.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(m.rows), c.Rows)
	require.Zero(t, c.Uncut)
	require.Greater(t, c.Pages, 3)
	require.NoError(t, one.Drop(t.Context(), schema.Name))
}

// check asks for all rows, for some, and for one.
func (m *model) check(t *testing.T, tbl *paged.Table, r *rand.Rand) {
	t.Helper()
	k := m.k
	require.Equal(t, m.texts(func(store.Row) bool { return true }), got(t, k, tbl, store.Query{}))
	lo, hi := k.row(r.IntN(200)), k.row(r.IntN(200))
	where := store.And(store.Field[float32]("size").Between(2, 8))
	in := func(row store.Row) bool { return row["size"].(float32) >= 2 && row["size"].(float32) <= 8 }
	switch k.name {
	case "ordered":
		a, b := lo["at"].(int64), hi["at"].(int64)
		where = store.And(where, store.Field[int64]("at").Between(a, b))
		of := in
		in = func(row store.Row) bool { return of(row) && row["at"].(int64) >= a && row["at"].(int64) <= b }
	case "clear":
		a, b := lo["at"].(int64), hi["at"].(int64)
		where = store.And(where, store.Field[int64]("at").In(a, b, a+1, 9999))
		of := in
		in = func(row store.Row) bool { v := row["at"].(int64); return of(row) && (v == a || v == b || v == a+1) }
	case "hashed":
		a, b := lo["at"].(int32), hi["at"].(int32)
		users := []string{lo["who"].(string), "nobody", hi["who"].(string)}
		where = store.And(where, store.Field[string]("who").In(users...), store.Field[int32]("at").Between(a, b))
		of := in
		in = func(row store.Row) bool {
			v := row["at"].(int32)
			return of(row) && slices.Contains(users, row["who"].(string)) && v >= a && v <= b
		}
	}
	require.Equal(t, m.texts(in), got(t, k, tbl, store.Query{Where: where}))
	n, err := tbl.Count(t.Context(), where)
	require.NoError(t, err)
	require.Len(t, m.texts(in), n)
	row, err := tbl.Get(t.Context(), lo)
	require.NoError(t, err)
	want := m.rows[text(lo, k.names()...)]
	require.Equal(t, text(want, columns...), text(row, columns...))
	require.Equal(t, want == nil, row == nil)
}

// A query has each row once that it asks for, also where several of its ranges are in one page, or begin in the last page of another.
func TestRangesThatSharePages(t *testing.T) {
	at := store.Field[int64]("at")
	for _, scheme := range []store.KeyScheme{store.Boldyreva, store.MOPE, store.Plaintext} {
		for _, pageRows := range []int{4, 64} {
			schema := store.Schema{Name: "t", Key: []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 1000), scheme)}, Columns: []store.Column{store.PlainColumn("open", store.Int64)}}
			tbl, err := paged.Create(t.Context(), opened(t, drivertest.NewMemory()), schema, pageRows)
			require.NoError(t, err)
			var rows []store.Row
			for i := range int64(100) {
				rows = append(rows, store.Row{"at": i})
			}
			require.NoError(t, tbl.Put(t.Context(), rows...))
			for _, c := range []struct {
				where  store.Predicate
				lo, hi int64 // rows of these and of those between are left out
			}{
				{store.Or(at.Less(50), at.Greater(50)), 50, 50},
				{store.Or(at.Equal(0), at.AtLeast(2)), 1, 1},
				{store.Or(at.Less(2), at.Between(30, 1000)), 2, 29},
			} {
				var found, want []int64
				for row, err := range tbl.Query(t.Context(), store.Query{Where: c.where, RequireIndex: true}) {
					require.NoError(t, err)
					found = append(found, row["at"].(int64))
				}
				for i := range int64(100) {
					if i < c.lo || i > c.hi {
						want = append(want, i)
					}
				}
				require.ElementsMatch(t, want, found, "%v, pages of %d rows, not %d to %d", scheme, pageRows, c.lo, c.hi)
			}
		}
	}
}

// A scan of a table that was loaded in the order of its keys opens a page for as many rows as it has, and a plain
// query none.
func TestWhatPagesCost(t *testing.T) {
	const rows = 6400
	st := opened(t, drivertest.NewMemory())
	k := keyings[1]
	tbl, err := paged.Create(t.Context(), st, k.schema(store.RandomisedColumn("a", store.Int64), store.PlainColumn("b", store.Int32),
		store.RandomisedColumn("c", store.Float64), store.PlainColumn("d", store.Int64)), 0)
	require.NoError(t, err)
	for i := 0; i < rows; i += 500 {
		var batch []store.Row
		for j := i; j < min(rows, i+500); j++ {
			batch = append(batch, store.Row{"at": int64(j), "line": int32(j), "a": int64(j), "b": int32(2 * j), "c": float64(j), "d": int64(-j)})
		}
		require.NoError(t, tbl.Put(t.Context(), batch...))
	}
	again, err := paged.Open(t.Context(), st, "t")
	require.NoError(t, err)
	n := 0
	for row, err := range again.Query(t.Context(), store.Query{}) {
		require.NoError(t, err)
		require.Equal(t, row["a"].(int64), -row["d"].(int64))
		n++
	}
	require.Equal(t, rows, n)
	// The last page of each of the 16 partitions may have fewer rows.
	require.LessOrEqual(t, again.Stats().Opened, uint64(rows/64+16))
	before := again.Stats()
	n = 0
	for row, err := range again.Query(t.Context(), store.Query{Columns: []string{"b"}, Unauthenticated: true, Where: store.Field[int64]("d").AtMost(-100)}) {
		require.NoError(t, err)
		require.Equal(t, 2*int32(row["at"].(int64)), row["b"])
		n++
	}
	require.Equal(t, rows-100, n)
	require.Equal(t, before, again.Stats())
	// What was opened is not opened again.
	_, err = again.Count(t.Context(), store.Predicate{})
	require.NoError(t, err)
	require.Equal(t, before.Opened, again.Stats().Opened)
	require.Equal(t, before.Cached+before.Opened, again.Stats().Cached)
}

// With everything counted, a row of two key parts and 16 columns takes three bytes more than its values.
func TestBytesThatPagesAdd(t *testing.T) {
	db := drivertest.NewMemory()
	var columns []store.Column
	for i := range 16 {
		name := fmt.Sprintf("c%02d", i)
		if i%2 == 0 {
			columns = append(columns, store.RandomisedColumn(name, store.Int64))
		} else {
			columns = append(columns, store.PlainColumn(name, store.Int32))
		}
	}
	schema := keyings[1].schema(columns...)
	schema.SpreadBits = -1
	st := opened(t, db)
	tbl, err := paged.Create(t.Context(), st, schema, 64)
	require.NoError(t, err)
	const rows = 6400
	for from := 0; from < rows; from += 800 {
		var batch []store.Row
		for i := from; i < from+800; i++ {
			row := store.Row{"at": int64(i / 4), "line": int32(i % 4)}
			for j, c := range columns {
				row[c.Describe().Name] = i * j
			}
			batch = append(batch, row)
		}
		require.NoError(t, tbl.Put(t.Context(), batch...))
	}
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	f, err := db.Family(t.Context(), driver.FamilySpec{Name: d.Tables[0].Families[0], Layout: driver.LayoutOrdered, Existing: true})
	require.NoError(t, err)
	bytes := 0
	for _, page := range stored(t, f) {
		bytes += len(page.Key)
		for _, c := range page.Cells {
			bytes += len(c.Qualifier) + len(c.Value)
		}
	}
	const values = 8 + 4 + 8*8 + 8*4
	added := float64(bytes)/rows - values
	t.Logf("%.2f bytes a row", added)
	require.LessOrEqual(t, added, 3.0)
}
