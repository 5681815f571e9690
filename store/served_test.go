package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// served returns a table of blind puts, of whose columns some have indexes of the database.
func served(name string) store.Schema {
	return store.Schema{
		Name: name,
		Key:  []store.KeyPart{store.HashedPart("device", store.Int32)},
		Columns: []store.Column{
			store.OrderedColumn("celsius", store.Int32, store.MOPE).ServerIndex(),
			store.OrderedColumn("watt", store.Int64, store.Wozniak).ServerIndex(),
			store.OrderedColumn("name", store.String, store.Boldyreva).ServerIndex(),
			store.DeterministicColumn("room", store.String).ServerIndex(),
			store.OrderedColumn("rank", store.Int32, store.Boldyreva), // with index entries
			store.RandomisedColumn("note", store.String),
		},
	}
}

// unserved returns the same with index entries.
func unserved(s store.Schema) store.Schema {
	s.Columns = []store.Column{
		store.OrderedColumn("celsius", store.Int32, store.MOPE), store.OrderedColumn("watt", store.Int64, store.Wozniak),
		store.OrderedColumn("name", store.String, store.Boldyreva), store.DeterministicColumn("room", store.String), s.Columns[4], s.Columns[5],
	}
	return s
}

func place(i int) store.Row {
	row := store.Row{"device": int32(i), "celsius": int32(i % 50), "watt": int64(-i), "rank": int32(i % 13), "name": fmt.Sprint("a common prefix ", i%6)}
	if i%4 > 0 {
		row["room"] = fmt.Sprint("r", i%4)
	}
	if i%5 > 0 {
		row["note"] = fmt.Sprint("n", i)
	}
	if i%11 == 0 {
		row["celsius"], row["name"] = nil, nil
	}
	return row
}

// eachIndexer runs a test on all databases that keep indexes.
func eachIndexer(t *testing.T, test func(t *testing.T, kind testdb.Database)) {
	for _, kind := range testdb.All {
		if kind.Name == "memory" || kind.Name == "cassandra" {
			t.Run(kind.Name, func(t *testing.T) {
				kind.Need(t)
				if kind.Server {
					t.Parallel()
				}
				test(t, kind)
			})
		}
	}
}

var (
	celsiusField, wattField, rankField = store.Int32.Field("celsius"), store.Int64.Field("watt"), store.Int32.Field("rank")
	roomField, nameField               = store.String.Field("room"), store.String.Field("name")
)

func TestRowsComeWithServerIndexes(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		schema := served("places")
		schema.Columns = slices.Delete(schema.Columns, 4, 5)
		tbl := create(t, st, schema)
		var rows []store.Row
		for i := range 300 {
			row := place(i)
			delete(row, "rank")
			rows = append(rows, row)
		}
		require.NoError(t, tbl.Put(background, rows...))
		q := store.Query{Where: celsiusField.Between(10, 19)}
		require.Len(t, collect(t, tbl, q), 55)
		e, err := tbl.Analyze(background, q)
		require.NoError(t, err)
		require.Equal(t, "celsius", e.Driver)
		require.Equal(t, e.Intervals, e.Requests, "the rows come with the index")
		require.Zero(t, e.Discarded)
		d, err := tbl.Describe(background)
		require.NoError(t, err)
		require.Len(t, d.Families, 1, "no index entries")
		require.True(t, d.Columns[0].ServerIndex)
		// Two in one And: one leads, and the other is checked.
		e, err = tbl.Analyze(background, store.Query{Where: store.And(celsiusField.Between(10, 11), wattField.AtMost(0))})
		require.NoError(t, err)
		require.Equal(t, "celsius", e.Driver)
		require.Equal(t, e.Intervals, e.Requests)
	})
}

// A table with server indexes answers as one of the same rows with index entries, whatever is asked and by which client.
func TestServerIndexesAnswerAsEntries(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		for _, cells := range []bool{false, true} {
			if !kind.Runs(!cells) {
				continue
			}
			db := kind.Open(t, nil)
			st := open(t, db)
			schema := served("with")
			schema.CellPerColumn = cells
			other := unserved(schema)
			other.Name = "without"
			tables := []*store.Table{create(t, st, other), create(t, st, schema)}
			for i := range 160 {
				for _, tbl := range tables {
					require.NoError(t, tbl.Put(background, place(i+1), place(i))) // rows are replaced
				}
			}
			another := open(t, db)
			wheres := map[string]store.Predicate{
				"range": celsiusField.Between(5, 20), "equal": roomField.Equal("r2"), "in": celsiusField.In(1, 7, 33, 900), "texts": roomField.In("r1", "r3", "x"),
				"text": nameField.AtLeast("a common prefix 2"), "all": wattField.AtMost(0), "half open": wattField.Greater(-9),
				"and": store.And(celsiusField.AtLeast(3), wattField.Between(-90, -20), rankField.Between(2, 9)),
				"or":  store.Or(roomField.Equal("r1"), celsiusField.Between(30, 33)), "none": celsiusField.Greater(1000),
				"not": store.And(celsiusField.AtMost(20), store.Not(roomField.Equal("r1"))), "null": store.Or(store.IsNull("celsius"), celsiusField.Less(3)),
				"key": store.And(store.Int32.Field("device").Equal(7), celsiusField.AtLeast(0)), "entries": rankField.Between(3, 5),
			}
			compare := func(what string, ask func(tbl *store.Table) []string) {
				t.Helper()
				require.Equal(t, ask(tables[0]), ask(tables[1]), what)
			}
			sorted := func(rows []store.Row) []string {
				texts := show2(rows)
				slices.Sort(texts)
				return texts
			}
			for what, where := range wheres {
				for _, q := range []store.Query{
					{Where: where}, {Where: where, Limit: 7}, {Where: where, Columns: []string{"note"}}, {Where: where, Columns: []string{}},
					{Where: where, OrderBy: "name", Limit: 9}, {Where: where, OrderBy: "celsius", Reverse: true}, {Where: where, OrderBy: "watt", Limit: 5},
				} {
					compare(fmt.Sprintf("%s: %+v", what, q), func(tbl *store.Table) []string {
						rows := collect(t, tbl, q)
						if q.Limit > 0 && q.OrderBy != "watt" {
							return []string{fmt.Sprint(len(rows))} // which of equal ones is not said
						}
						return sorted(rows)
					})
				}
				compare("count "+what, func(tbl *store.Table) (texts []string) {
					n, err := tbl.Count(background, where)
					require.NoError(t, err)
					for _, column := range []string{"celsius", "rank", "watt"} {
						least, err := tbl.Min(background, column, where)
						require.NoError(t, err)
						most, err := tbl.Max(background, column, where)
						require.NoError(t, err)
						texts = append(texts, fmt.Sprint(n, column, least, most))
					}
					e, err := tbl.Explain(background, store.Query{Where: where})
					require.NoError(t, err)
					require.True(t, e.Estimate.Exact)
					return texts
				})
				for _, reverse := range []bool{false, true} { // the client sorts, and each page is asked for by another one
					compare("pages of "+what, func(tbl *store.Table) (texts []string) {
						theirs, err := another.Table(background, tbl.Schema().Name)
						require.NoError(t, err)
						q := store.Query{Where: where, Limit: 25, Reverse: reverse, OrderBy: "watt"}
						for i := 0; ; i++ {
							page, next, err := []*store.Table{tbl, theirs}[i%2].Page(background, q)
							require.NoError(t, err)
							texts = append(texts, show2(page)...)
							if q.PageToken = next; next == "" {
								return texts
							}
						}
					})
				}
			}
			for _, tbl := range tables {
				require.NoError(t, tbl.Delete(background, place(17), place(18), place(19)))
				require.NoError(t, tbl.Insert(background, place(18)))
			}
			for what, where := range wheres {
				compare("deleted, "+what, func(tbl *store.Table) []string { return sorted(collect(t, tbl, store.Query{Where: where})) })
			}
			v, err := tables[1].Verify(background, nil)
			require.NoError(t, err)
			require.True(t, v.Sound(), "%v", v.Faults)
			use, err := tables[1].KeyUse(background, nil)
			require.NoError(t, err)
			require.Zero(t, use.Unknown+use.Dropped+use.Orphans)
		}
	})
}

// An estimate of many rows reads some shares of the index.
func TestServerIndexEstimates(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		tbl := create(t, st, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("n", store.Int64, store.MOPE).ServerIndex()}})
		var rows []store.Row
		for i := range 9000 {
			rows = append(rows, store.Row{"id": int64(i), "n": int64(i)})
		}
		require.NoError(t, tbl.Put(background, rows...))
		e, err := tbl.Explain(background, store.Query{Where: store.Int64.Field("n").Between(1000, 7999)})
		require.NoError(t, err)
		require.False(t, e.Estimate.Exact)
		require.InDelta(t, 7000, e.Estimate.Rows, 1500)
	})
}

// What a server index cannot serve is refused, with words that say what to do.
func TestServerIndexRefuses(t *testing.T) {
	refused := func(err, is error, words ...string) {
		t.Helper()
		require.ErrorIs(t, err, is)
		for _, w := range words {
			require.ErrorContains(t, err, w)
		}
	}
	st := open(t, drivertest.NewMemory())
	device, tie := store.HashedPart("device", store.Int32), store.TiePart("id")
	celsius := store.OrderedColumn("celsius", store.Int32, store.MOPE)
	for _, c := range []struct {
		schema store.Schema
		words  []string
	}{
		{store.Schema{Conditional: true, Columns: []store.Column{celsius.ServerIndex()}}, []string{`column "celsius"`, "conditional", "leave it out"}},
		{store.Schema{AppendOnly: true, Columns: []store.Column{celsius.ServerIndex()}}, []string{`column "celsius"`, "let it cover instead"}},
		{store.Schema{Columns: []store.Column{celsius.ServerIndex().Covering()}}, []string{"leave out one of the two"}},
		{store.Schema{Columns: []store.Column{store.RandomisedColumn("note", store.String).ServerIndex()}}, []string{`column "note" is randomised`, "only ordered and deterministic"}},
		{store.Schema{Columns: []store.Column{store.PlainColumn("note", store.String).ServerIndex()}}, []string{`column "note" is plain`}},
		{store.Schema{Columns: []store.Column{store.OrderedColumn("n", store.Int32, store.Kerschbaum).ServerIndex()}}, []string{`scheme "kerschbaum"`, `take "mope"`}},
		{store.Schema{Columns: []store.Column{store.OrderedColumn("n", store.Int32, store.WozniakIndexed).ServerIndex()}}, []string{`scheme "wozniak-indexed"`}},
	} {
		c.schema.Name, c.schema.Key = "refused", []store.KeyPart{device, tie}
		refused(c.schema.Check(), store.ErrSchema, c.words...)
		_, err := st.Create(background, c.schema)
		refused(err, store.ErrSchema, c.words...)
	}
	tbl := create(t, st, served("places"))
	require.NoError(t, tbl.Put(background, place(1), place(2)))
	for _, q := range []store.Query{{Where: celsiusField.AtLeast(0), Reverse: true}, {Where: store.Or(rankField.Equal(1), celsiusField.Equal(2)), Reverse: true}} {
		_, err := tbl.Explain(background, q)
		refused(err, driver.ErrRange, `column "celsius" has a server index`, "no order to reverse", "order by a column")
	}
	_, _, err := tbl.Page(background, store.Query{Where: celsiusField.AtLeast(0), Limit: 1})
	refused(err, driver.ErrRange, "no order for pages to go on in", "leave out the server index")
	for _, err := range store.Join(background, tbl, "celsius", tbl, "celsius", nil) {
		refused(err, store.ErrColumn, "has a server index", "index entries instead")
	}
	refused(tbl.Update(background, place(1)), store.ErrSchema, "use Put")

	// A database without indexes, and one that is not allowed to make them.
	type bare struct{ driver.DB }
	without := drivertest.NewMemory()
	for _, c := range []struct {
		db    driver.DB
		words []string
	}{
		{bare{without}, []string{"this database keeps none"}},
		{forbidding{without}, []string{"not today"}},
	} {
		st := open(t, c.db)
		words := append(c.words, `column "celsius" cannot have a server index`, "leave it out", "index entries")
		_, err = st.Create(background, served("places"))
		refused(err, store.ErrSchema, words...)
		require.ErrorIs(t, err, driver.ErrNoIndex)
		create(t, st, unserved(served("places")))
		refused(st.Alter(background, "places", store.ChangeColumn(celsius.ServerIndex())), store.ErrSchema, words...)
		refused(st.Alter(background, "places", store.AddColumn(store.OrderedColumn("more", store.Int32, store.MOPE).ServerIndex())), store.ErrSchema, c.words...)
		tbl, err := st.Table(background, "places")
		require.NoError(t, err)
		require.NoError(t, tbl.Put(background, place(1)), "the table is as it was")
		require.NoError(t, st.Drop(background, "places"))
		families, err := without.Families(background)
		require.NoError(t, err)
		require.Len(t, families, 1, "nothing is left but the catalogue: %v", families)
	}
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		if kind.Name == "hbase" || kind.Name == "pebble" {
			_, err := open(t, kind.Open(t, nil)).Create(background, served("places"))
			refused(err, store.ErrSchema, kind.Name+" keeps none", "leave it out")
		}
	})
}

// forbidding is a database that is configured to make no index.
type forbidding struct{ driver.DB }

func (forbidding) AddIndex(context.Context, driver.FamilySpec, string) error {
	return fmt.Errorf("%w: not today", driver.ErrNoIndex)
}
func (forbidding) DropIndex(context.Context, driver.FamilySpec, string) error { return nil }

// Tenants have rows of the same keys and values, and each finds its own.
func TestServerIndexesOfTenants(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		schema := served("of tenants")
		schema.Tenants = true
		unbound := create(t, st, schema)
		var tables []*store.Table
		for i, name := range []string{"alpha", "beta", "gamma"} {
			require.NoError(t, st.CreateTenant(background, name))
			tbl, err := unbound.Tenant(background, name)
			require.NoError(t, err)
			for j := range 30 * (i + 1) {
				require.NoError(t, tbl.Put(background, place(j)))
			}
			tables = append(tables, tbl)
		}
		count := func(tbl *store.Table, where store.Predicate) int {
			e, err := tbl.Analyze(background, store.Query{Where: where})
			require.NoError(t, err)
			require.Contains(t, []string{"watt", "room"}, e.Driver)
			require.Zero(t, e.Discarded, "rows of others are not met")
			return e.Rows
		}
		for i, tbl := range tables {
			require.Equal(t, 30*(i+1), count(tbl, wattField.AtMost(0)))
			require.Equal(t, 10, count(tbl, wattField.Between(-9, 0)))
			require.Equal(t, []int{8, 15, 23}[i], count(tbl, roomField.Equal("r1")))
			v, err := tbl.Verify(background, nil)
			require.NoError(t, err)
			require.True(t, v.Sound(), "%v", v.Faults)
		}
		require.NoError(t, st.RotateTenantKey(background, "beta"))
		require.NoError(t, tables[1].Put(background, place(100)))
		_, err := unbound.Convert(background, nil)
		require.NoError(t, err)
		require.Equal(t, 61, count(tables[1], wattField.AtMost(0)))
		require.NoError(t, st.DropTenant(background, "alpha"))
		require.Equal(t, 61, count(tables[1], wattField.AtMost(0)))
	})
}

// A row that has expired is not found, and its values go with its key cell.
func TestServerIndexesOfRowsThatExpire(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	memory := drivertest.NewMemoryAt(clock)
	st := open(t, memory)
	store.SetClock(st, clock)
	schema := served("expiring")
	schema.TTL = time.Hour
	tbl := create(t, st, schema)
	require.NoError(t, tbl.Put(background, place(1), place(2)))
	require.NoError(t, tbl.Expiring(0).Put(background, place(3)))
	rows := func() int { return len(collect(t, tbl, store.Query{Where: wattField.AtMost(0)})) }
	met := func() int {
		e, err := tbl.Analyze(background, store.Query{Where: wattField.AtMost(0)})
		require.NoError(t, err)
		return e.Hits
	}
	require.Equal(t, 3, rows())
	now = now.Add(61 * time.Minute)
	require.Equal(t, 1, rows())
	require.Equal(t, 3, met(), "the database still has them")
	require.NoError(t, tbl.Put(background, place(2)), "which lives longer")
	now = now.Add(4 * time.Hour)
	require.Equal(t, 1, met(), "only the one that lives for ever")
	require.Equal(t, 1, rows())
	v, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, v.Sound(), "%v", v.Faults)
}

// Verify finds rows that an index has no value of, or another one, and Repair mends them. A query misses them meanwhile: that
// is what a client leaves that dies after a write with the timestamp of another one.
func TestVerifyFindsValuesOfOtherWrites(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		st := open(t, db)
		tbl := create(t, st, served("places"))
		require.NoError(t, tbl.Put(background, place(1), place(2), place(3)))
		d, err := tbl.Describe(background)
		require.NoError(t, err)
		data, err := db.Family(background, driver.FamilySpec{Name: d.Families[0], Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
		require.NoError(t, err)
		index := "s" + d.Columns[1].ID // of watt
		n := 0
		for row, err := range data.Scan(background, driver.Range{AnyOrder: true, Cells: driver.Slice{Only: [][]byte{{}}, Indexes: []string{index}}}) {
			require.NoError(t, err)
			v := driver.IndexValue{Index: index}
			if n++; n == 2 {
				v.Value = slices.Clone(row.Cells[0].Index[0].Value)
				v.Value[0] ^= 0x80
			}
			if n < 3 {
				require.NoError(t, data.Apply(background, driver.Mutation{Row: row.Key, Puts: []driver.Cell{{Qualifier: []byte{}, Value: row.Cells[0].Value, Index: []driver.IndexValue{v}}}}))
			}
		}
		require.Len(t, collect(t, tbl, store.Query{Where: wattField.Between(-3, -1)}), 1)
		for _, repair := range []bool{false, true} {
			var places []string
			v, err := tbl.Verify(background, &store.VerifyOptions{Repair: repair, Grace: 1, Fault: func(f inspect.Fault) {
				require.Equal(t, inspect.FaultHidden, f.Kind)
				require.Equal(t, "watt", f.Column)
				require.True(t, strings.Contains(f.Err.Error(), "queries by the column do not find the row"))
				places = append(places, string(f.Place))
			}})
			require.NoError(t, err)
			require.Len(t, places, 2)
			require.Equal(t, map[bool]int{true: 2}[repair], v.Repaired)
		}
		v, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		require.Len(t, collect(t, tbl, store.Query{Where: wattField.Between(-3, -1)}), 3)
	})
}

// Wherever a client dies that puts or deletes rows, or has a call that comes late, queries by the index answer as one of all
// rows does.
func TestServerIndexesOfDeadClients(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		for _, fate := range []drivertest.Fault{drivertest.CrashBefore, drivertest.CrashAfter, drivertest.FailLate, drivertest.FailPartly, drivertest.FailAfter} {
			for doomed := (doomedCall{fate: fate, reached: true}); doomed.reached; {
				doomed.next(1)
				memory := drivertest.NewMemory()
				st := open(t, memory)
				tbl := create(t, st, served("places"))
				require.NoError(t, tbl.Put(background, place(1), place(2), place(3)))
				theirs, err := open(t, drivertest.NewFaulty(memory, doomed.fault)).Table(background, "places")
				require.NoError(t, err)
				doomed.armed = true
				if deletes {
					_ = theirs.Delete(background, place(1), place(2))
				} else {
					next := place(40)
					next["device"] = int32(1)
					_ = theirs.Put(background, next, place(5))
				}
				all := show2(collect(t, tbl, store.Query{OrderBy: "watt"}))
				require.Equal(t, all, show2(collect(t, tbl, store.Query{Where: wattField.AtMost(0), OrderBy: "watt"})), "%v at call %d", fate, doomed.n)
				v, err := tbl.Verify(background, nil)
				require.NoError(t, err)
				require.Zero(t, v.Faults[inspect.FaultHidden], "%v at call %d", fate, doomed.n)
			}
		}
	}
}

// A tag gives a column a server index, and a struct goes on when the column has none any more.
func TestServerIndexesOfStructs(t *testing.T) {
	type reading struct {
		ID      int64  `rangecrypt:"id,key=1,hashed"`
		Celsius *int32 `rangecrypt:"celsius,ordered=mope,server-index"`
		Room    string `rangecrypt:"room,deterministic,server-index"`
	}
	st := open(t, drivertest.NewMemory())
	schema, err := store.SchemaOf[reading]("readings")
	require.NoError(t, err)
	create(t, st, schema)
	tbl, err := store.For[reading](background, st, "readings")
	require.NoError(t, err)
	require.NoError(t, tbl.Put(background, &reading{ID: 1, Celsius: new(int32), Room: "attic"}))
	require.True(t, tbl.Table().Schema().Columns[0].Describe().ServerIndex)
	require.Len(t, collect(t, tbl.Table(), store.Query{Where: celsiusField.Equal(0), RequireIndex: true}), 1)
	require.NoError(t, st.Alter(background, "readings", store.ChangeColumn(store.DeterministicColumn("room", store.String))))
	require.NoError(t, tbl.Put(background, &reading{ID: 2, Room: "attic"}))
	tbl, err = store.For[reading](background, st, "readings")
	require.NoError(t, err)
	require.Len(t, collect(t, tbl.Table(), store.Query{Where: store.Field[string]("room").Equal("attic")}), 2)
	for _, refused := range []struct {
		schema func() (store.Schema, error)
		words  string
	}{
		{func() (store.Schema, error) {
			return store.SchemaOf[struct {
				ID int64 `rangecrypt:"id,key=1,hashed,server-index"`
			}]("t")
		}, "only ordered and deterministic columns have a server index"},
		{func() (store.Schema, error) {
			return store.SchemaOf[struct {
				ID   int64  `rangecrypt:"id,key=1,hashed"`
				Note string `rangecrypt:"note,server-index"`
			}]("t")
		}, "write ordered=SCHEME or deterministic"},
		{func() (store.Schema, error) {
			return store.SchemaOf[struct {
				ID   int64  `rangecrypt:"id,key=1,hashed"`
				Note string `rangecrypt:"note,deterministic,server-index,covering"`
			}]("t")
		}, "covering and server-index exclude each other"},
		{func() (store.Schema, error) {
			return store.SchemaOf[struct {
				ID   int64  `rangecrypt:"id,key=1,hashed"`
				Note string `rangecrypt:"note,deterministic,server-index=yes"`
			}]("t")
		}, "option server-index takes no value"},
	} {
		_, err := refused.schema()
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, refused.words)
	}
}

// A verification names an index of the database that somebody has dropped, and a repair makes it again.
func TestVerifyMakesDroppedServerIndexes(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		tbl := create(t, open(t, db), served("places"))
		require.NoError(t, tbl.Put(background, place(1), place(2), place(3)))
		d, err := tbl.Describe(background)
		require.NoError(t, err)
		spec := driver.FamilySpec{Name: d.Families[0], Layout: driver.LayoutOrdered, PrefixBytes: 16}
		for _, column := range []int{1, 3} {
			require.NoError(t, driver.DropIndex(background, db, spec, "s"+d.Columns[column].ID))
		}
		err = tbl.RebuildIndex(background, "watt", nil)
		require.ErrorIs(t, err, store.ErrColumn)
		require.ErrorContains(t, err, "the database keeps its index; where that is gone, Verify with Repair")
		for _, repair := range []bool{false, true} {
			var of []string
			v, err := tbl.Verify(background, &store.VerifyOptions{Repair: repair, Grace: 1, Fault: func(f inspect.Fault) {
				if f.Kind == inspect.FaultIndex {
					require.Equal(t, repair, f.Repaired)
					of = append(of, f.Column)
				}
			}})
			require.NoError(t, err)
			require.Equal(t, repair, v.Sound())
			require.Equal(t, []string{"watt", "room"}, of)
		}
		v, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		require.Len(t, collect(t, tbl, store.Query{Where: wattField.Between(-3, -1)}), 3)
		require.Len(t, collect(t, tbl, store.Query{Where: roomField.Equal("r2")}), 1)
	})
}
