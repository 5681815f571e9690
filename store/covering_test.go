package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A table whose rows are only added, with copies of the rows in the index entries of two columns.
func covering() store.Schema {
	return store.Schema{
		Name: "events", AppendOnly: true,
		Key: []store.KeyPart{store.HashedPart("device", store.String), store.TiePart("id")},
		Columns: []store.Column{
			store.OrderedColumn("celsius", store.Int32, store.MOPE).Covering(),
			store.DeterministicColumn("room", store.String).Covering(),
			store.OrderedColumn("watt", store.Int32, store.Wozniak),
			store.RandomisedColumn("note", store.String),
			store.PlainColumn("model", store.String),
		},
	}
}

func event(i int) store.Row {
	row := store.Row{"device": string(rune('a' + i%3)), "celsius": int32(i % 50), "watt": int32(-i), "model": "m"}
	if i%2 == 0 {
		row["room"] = "attic"
	}
	if i%5 > 0 {
		row["note"] = "n"
	}
	return row
}

func TestRowsAreFoundInCopies(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	tbl := create(t, st, covering())
	var rows []store.Row
	for i := range 200 {
		rows = append(rows, event(i))
	}
	require.NoError(t, tbl.Put(background, rows...))
	require.NoError(t, st.Close(background))
	st = open(t, memory)
	tbl, err := st.Table(background, "events")
	require.NoError(t, err)
	q := store.Query{Where: store.Int32.Field("celsius").Between(10, 19)}
	found := 0
	for row, err := range tbl.Query(background, q) {
		require.NoError(t, err)
		require.GreaterOrEqual(t, row["celsius"], int32(10))
		found++
	}
	require.Equal(t, 40, found)
	e, err := tbl.Analyze(background, q)
	require.NoError(t, err)
	require.Equal(t, "celsius", e.Driver)
	require.Equal(t, e.Intervals, e.Requests, "a scan for each range of ciphertexts, and no row is read")
}

// inAllWays returns the rows of a table by a scan of all, and requires that each column that covers leads to the same.
func inAllWays(t *testing.T, tbl *store.Table) map[[16]byte]store.Row {
	t.Helper()
	by := func(q store.Query, counts func(store.Row) bool) map[[16]byte]store.Row {
		rows := make(map[[16]byte]store.Row)
		for row, err := range tbl.Query(background, q) {
			require.NoError(t, err)
			if id := row["id"].([16]byte); counts(row) {
				require.NotContains(t, rows, id)
				rows[id] = row
			}
		}
		return rows
	}
	all := by(store.Query{}, func(store.Row) bool { return true })
	require.Equal(t, all, by(store.Query{Where: store.Int32.Field("celsius").Between(-1000, 1000)}, func(store.Row) bool { return true }))
	attic := func(row store.Row) bool { return row["room"] == "attic" }
	require.Equal(t, by(store.Query{}, attic), by(store.Query{Where: store.String.Field("room").Equal("attic")}, attic))
	return all
}

// copied reports whether a query by the column that covers reads no row.
func copied(t *testing.T, tbl *store.Table) bool {
	t.Helper()
	e, err := tbl.Analyze(background, store.Query{Where: store.Int32.Field("celsius").Between(-1000, 1000)})
	require.NoError(t, err)
	require.Equal(t, "celsius", e.Driver)
	return e.Requests == e.Intervals
}

// Wherever a client dies that puts or deletes rows, or has a call that comes late, queries by copies answer as one of all rows
// does, and a repair leaves neither a row without a copy nor a copy without a row.
func TestCopiesOfDeadClients(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		for _, fate := range []drivertest.Fault{drivertest.CrashBefore, drivertest.CrashAfter, drivertest.FailLate, drivertest.FailPartly, drivertest.FailAfter} {
			for doomed := (doomedCall{fate: fate, reached: true}); doomed.reached; {
				doomed.next(1)
				memory := drivertest.NewMemory()
				st := open(t, memory)
				tbl := create(t, st, covering())
				load := store.Row{"device": "z", "celsius": int32(7), "room": "attic", "id": store.LoadTie{1}}
				require.NoError(t, tbl.Put(background, event(0), event(1), load))
				before := inAllWays(t, tbl)
				require.True(t, copied(t, tbl))
				theirs, err := open(t, drivertest.NewFaulty(memory, doomed.fault)).Table(background, "events")
				require.NoError(t, err)
				doomed.armed = true
				if deletes {
					for _, row := range before {
						err = theirs.Delete(background, store.Row{"device": row["device"], "id": row["id"]})
						break
					}
				} else {
					load["id"], load["celsius"] = store.LoadTie{2}, int32(8)
					err = theirs.Put(background, event(2), load)
				}
				after := inAllWays(t, tbl)
				if err == nil {
					require.NotEqual(t, before, after)
				}
				if !deletes {
					require.GreaterOrEqual(t, len(after), len(before))
				}
				_, failed := tbl.Verify(background, &store.VerifyOptions{Repair: true, Grace: 1})
				require.NoError(t, failed)
				require.Equal(t, after, inAllWays(t, tbl))
				v, failed := tbl.Verify(background, nil)
				require.NoError(t, failed)
				require.True(t, v.Sound(), "%v at call %d", fate, doomed.n)
				require.Zero(t, v.Uncopied, "%v at call %d", fate, doomed.n)
				require.Zero(t, v.Dangling, "%v at call %d", fate, doomed.n)
				// An index entry that was made doubtful stays so: the delete may still come.
				require.True(t, copied(t, tbl) || deletes && len(after) == len(before), "%v at call %d", fate, doomed.n)
			}
		}
	}
}

// A conversion puts the copies that are missing, and seals those again that an old key has sealed.
func TestConvertPutsCopies(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	tbl := create(t, st, covering())
	require.NoError(t, tbl.Put(background, event(0), event(1), event(2)))
	require.NoError(t, st.Alter(background, "events", store.DropColumn("note"), store.ChangeColumn(store.OrderedColumn("watt", store.Int32, store.Wozniak).Covering())))
	tbl, err := st.Table(background, "events")
	require.NoError(t, err)
	require.Len(t, inAllWays(t, tbl), 3)
	stats, err := tbl.Convert(background, nil)
	require.NoError(t, err)
	require.Equal(t, 3, stats.Converted)
	require.Len(t, inAllWays(t, tbl), 3)
	require.True(t, copied(t, tbl))
	e, err := tbl.Analyze(background, store.Query{Where: store.Int32.Field("watt").Between(-10, 10)})
	require.NoError(t, err)
	require.Equal(t, e.Intervals, e.Requests)
	require.Equal(t, 3, e.Rows)
}

// A row can be deleted where no column is searched: somebody else may be making one cover.
func TestDeleteWhereNothingIsSearched(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "events", AppendOnly: true, Key: []store.KeyPart{store.HashedPart("of", store.Bool), store.TiePart("id")}, Columns: []store.Column{store.RandomisedColumn("note", store.String)},
	})
	require.NoError(t, tbl.Put(background, store.Row{"of": true, "note": "a"}, store.Row{"of": true, "note": "b"}))
	for row, err := range tbl.Query(background, store.Query{Limit: 1}) {
		require.NoError(t, err)
		require.NoError(t, tbl.Delete(background, store.Row{"of": true, "id": row["id"]}))
	}
	n, err := tbl.Count(background, store.Predicate{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// Of two columns with equal shares of their domains, the one that has copies leads to the rows.
func TestCopiesArePreferred(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), covering())
	require.NoError(t, tbl.Put(background, event(1)))
	in := func(column string) store.Predicate { return store.Int32.Field(column).Between(0, 1000) }
	for _, where := range []store.Predicate{store.And(in("watt"), in("celsius")), store.And(in("celsius"), in("watt"))} {
		e, err := tbl.Analyze(background, store.Query{Where: where})
		require.NoError(t, err)
		require.Equal(t, "celsius", e.Driver)
	}
}
