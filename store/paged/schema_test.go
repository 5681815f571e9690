package paged_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// What pages cannot hold is refused by name, and nothing is made.
func TestSchemaThatPagesCannotHold(t *testing.T) {
	db := drivertest.NewMemory()
	st := opened(t, db)
	at := store.OrderedPart("at", store.Int64, store.MOPE)
	for name, s := range map[string]store.Schema{
		"TTL":           {TTL: time.Hour},
		"TTL by row":    {TTL: store.TTLByRow},
		"Tenants":       {Tenants: true},
		"Conditional":   {Conditional: true},
		"AppendOnly":    {AppendOnly: true, Key: []store.KeyPart{at, store.TiePart("tie")}},
		"CellPerColumn": {CellPerColumn: true},
		"spread":        {SpreadBits: 9},
		"index":         {Key: []store.KeyPart{store.OrderedPart("at", store.Int64, store.WozniakIndexed)}},
		"searched":      {Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.MOPE)}},
		"deterministic": {Columns: []store.Column{store.DeterministicColumn("c", store.Int64)}},
		"covering":      {Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.Kerschbaum).Covering()}},
		"server index":  {Columns: []store.Column{store.DeterministicColumn("c", store.Int64).ServerIndex()}},
		"no key":        {Key: []store.KeyPart{}},
	} {
		s.Name = "t"
		if s.Key == nil {
			s.Key = []store.KeyPart{at}
		}
		_, err := paged.Create(t.Context(), st, s, 0)
		require.ErrorIs(t, err, store.ErrSchema, name)
	}
	for _, rows := range []int{-1, 1, 4097} {
		_, err := paged.Create(t.Context(), st, store.Schema{Name: "t", Key: []store.KeyPart{at}}, rows)
		require.ErrorIs(t, err, store.ErrSchema)
	}
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	require.Empty(t, d.Tables)
	families, err := db.Families(t.Context())
	require.NoError(t, err)
	require.Len(t, families, 1, "the catalogue")
}

// Each package opens its own tables only, and says which one opens the others.
func TestWhoOpensWhat(t *testing.T) {
	st := opened(t, drivertest.NewMemory())
	key := []store.KeyPart{store.OrderedPart("at", store.Int64, store.MOPE)}
	_, err := paged.Create(t.Context(), st, store.Schema{Name: "pages", Key: key}, 0)
	require.NoError(t, err)
	_, err = paged.Create(t.Context(), st, store.Schema{Name: "pages", Key: key}, 0)
	require.ErrorIs(t, err, store.ErrExists)
	_, err = st.Create(t.Context(), store.Schema{Name: "pages", Key: key})
	require.ErrorIs(t, err, store.ErrExists)
	_, err = st.Create(t.Context(), store.Schema{Name: "rows", Key: key})
	require.NoError(t, err)
	_, err = st.Table(t.Context(), "pages")
	require.ErrorIs(t, err, store.ErrNoTable)
	require.ErrorContains(t, err, "store/paged")
	_, err = paged.Open(t.Context(), st, "rows")
	require.ErrorIs(t, err, store.ErrNoTable)
	require.ErrorContains(t, err, "Store.Table")
	_, err = paged.Open(t.Context(), st, "none")
	require.ErrorIs(t, err, store.ErrNoTable)
	schemas, err := st.Tables(t.Context())
	require.NoError(t, err)
	require.Len(t, schemas, 1)
	tbl, err := paged.Open(t.Context(), st, "pages")
	require.NoError(t, err)
	require.NoError(t, st.Drop(t.Context(), "pages"))
	require.ErrorIs(t, tbl.Put(t.Context(), store.Row{"at": 1}), store.ErrNoTable)
	_, err = tbl.Get(t.Context(), store.Row{"at": 1})
	require.ErrorIs(t, err, store.ErrNoTable)
}

// Bad rows are refused before anything is written.
func TestBadRows(t *testing.T) {
	st := opened(t, drivertest.NewMemory())
	tbl, err := paged.Create(t.Context(), st, store.Schema{
		Name: "t", Key: []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 99), store.MOPE), store.TiePart("tie")},
		Columns: []store.Column{store.RandomisedColumn("text", store.String)},
	}, 0)
	require.NoError(t, err)
	good := store.Row{"at": int64(1)}
	for _, bad := range []store.Row{
		{"at": int64(100)}, {"at": "x"}, {}, {"at": 1, "none": 1}, {"at": 1, "text": 7}, {"at": 1, "text": "\xff"}, {"at": 1, "text": string(make([]byte, 2<<20))},
	} {
		err := tbl.Put(t.Context(), good, bad)
		var row *store.RowError
		require.ErrorAs(t, err, &row)
		require.Equal(t, 1, row.Index)
	}
	same := store.Row{"at": 1, "tie": store.Tie{1}}
	require.ErrorIs(t, tbl.Put(t.Context(), same, same), driver.ErrOverlap)
	require.Error(t, tbl.Delete(t.Context(), good), "the tie-breaker is not named")
	require.Error(t, tbl.Update(t.Context(), good))
	n, err := tbl.Count(t.Context(), store.Predicate{})
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, tbl.Put(t.Context()))
	// Rows that are equal in all but what is drawn are different ones, and large rows get pages of their own.
	require.NoError(t, tbl.Put(t.Context(), good, good, good))
	big := store.Row{"at": 50, "text": string(make([]byte, 2<<20-100))}
	require.NoError(t, tbl.Put(t.Context(), big, big, big, store.Row{"at": 51}))
	c, err := tbl.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, c.Rows)
	require.GreaterOrEqual(t, c.Pages, 3)
}

// A row that becomes too large for a page by an update is refused, and stays as it was.
func TestRowsThatGrowTooLarge(t *testing.T) {
	tbl, err := paged.Create(t.Context(), opened(t, drivertest.NewMemory()), store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)},
		Columns: []store.Column{store.RandomisedColumn("a", store.String), store.RandomisedColumn("b", store.String)},
	}, 0)
	require.NoError(t, err)
	row := store.Row{"k": int64(1), "a": strings.Repeat("a", 3<<19)}
	require.NoError(t, tbl.Put(t.Context(), row))
	err = tbl.Update(t.Context(), store.Row{"k": int64(1), "b": strings.Repeat("b", 3<<19)})
	require.ErrorIs(t, err, driver.ErrTooLarge)
	got, err := tbl.Get(t.Context(), row)
	require.NoError(t, err)
	require.NotContains(t, got, "b")
	require.Len(t, got["a"], 3<<19)
}

// A client that goes on to write notices a changed schema and new keys by itself, also with a lease, in pages that nobody else writes.
func TestWritersNoticeChanges(t *testing.T) {
	db := drivertest.NewMemory()
	st := opened(t, db)
	schema := store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)}, Columns: []store.Column{store.PlainColumn("note", store.String)}}
	schema.Columns = append(schema.Columns, store.RandomisedColumn("other", store.Int64))
	tbl, err := paged.Create(t.Context(), st, schema, 0)
	require.NoError(t, err)
	writer, err := paged.Open(t.Context(), opened(t, db), "t")
	require.NoError(t, err)
	require.NoError(t, writer.Put(t.Context(), store.Row{"k": 1, "note": "harmless"}))
	require.NoError(t, st.Alter(t.Context(), "t", store.DropColumn("note"), store.AddColumn(store.RandomisedColumn("note", store.String))))
	// The name is another column's by now: the value is left out, which is said, and is not in the clear.
	require.ErrorIs(t, writer.Put(t.Context(), store.Row{"k": 2, "note": "TOPSECRET"}), store.ErrWritten)
	require.NoError(t, writer.Put(t.Context(), store.Row{"k": 3, "note": "TOPSECRET"}))
	row, err := tbl.Get(t.Context(), store.Row{"k": 3})
	require.NoError(t, err)
	require.Equal(t, store.Row{"k": int64(3), "note": "TOPSECRET"}, row)
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	f, err := db.Family(t.Context(), driver.FamilySpec{Name: d.Tables[0].Families[0], Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
	require.NoError(t, err)
	for page, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		for _, c := range page.Cells {
			require.NotContains(t, string(c.Value), "TOPSECRET")
		}
	}
	require.NoError(t, st.RotateKeys(t.Context(), "t"))
	require.NoError(t, writer.Put(t.Context(), store.Row{"k": 4}))
	c, err := tbl.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, c.Old, "not the one that was put last")
	require.Equal(t, 4, c.Pages)
	require.NoError(t, st.RenameTable(t.Context(), "t", "u"))
	require.NoError(t, st.Drop(t.Context(), "u"))
	require.ErrorIs(t, writer.Put(t.Context(), store.Row{"k": 5}), store.ErrNoTable)
}

// Who has given new keys, and died before writers with a lease knew, leaves that wait to whoever seals the pages again: else one of
// them would put a page under the old key when all are said to be under the new one.
func TestResealWaitsForWritersWithLease(t *testing.T) {
	db := drivertest.NewMemory()
	st := opened(t, db)
	schema := store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("note", store.String)}}
	tbl, err := paged.Create(t.Context(), st, schema, 0)
	require.NoError(t, err)
	require.NoError(t, st.SetLease(t.Context(), 2*time.Second))
	writer, err := paged.Open(t.Context(), opened(t, db), "t")
	require.NoError(t, err)
	require.NoError(t, writer.Put(t.Context(), store.Row{"k": 1}))

	dying, die := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, die)
	require.ErrorIs(t, st.RotateKeys(dying, "t"), context.Canceled)
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	require.Len(t, d.Tables[0].RowKeys, 2, "the key is there")
	c, err := tbl.Reseal(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, c.Resealed)
	require.NoError(t, writer.Put(t.Context(), store.Row{"k": 2})) // a page of its own
	c, err = tbl.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, c.Pages)
	require.Zero(t, c.Old)
}

// Clients that do not know yet that the schema was changed, or a key added, learn it from the pages that others write.
func TestSchemaAndKeysChange(t *testing.T) {
	db := drivertest.NewMemory()
	st, other := opened(t, db), opened(t, db)
	schema := keyings[0].schema(store.RandomisedColumn("a", store.Int64), store.PlainColumn("b", store.Int64))
	tbl, err := paged.Create(t.Context(), st, schema, 4)
	require.NoError(t, err)
	old, err := paged.Open(t.Context(), other, "t")
	require.NoError(t, err)
	var rows []store.Row
	for i := range int64(40) {
		rows = append(rows, store.Row{"at": i, "a": i, "b": i})
	}
	require.NoError(t, old.Put(t.Context(), rows...))
	require.NoError(t, st.Alter(t.Context(), "t", store.AddColumn(store.RandomisedColumn("c", store.String)), store.DropColumn("b"), store.RenameColumn("a", "d")))
	require.NoError(t, tbl.Update(t.Context(), store.Row{"at": 7, "c": "new"}))
	row, err := old.Get(t.Context(), store.Row{"at": 7})
	require.NoError(t, err)
	require.Equal(t, store.Row{"at": int64(7), "d": int64(7), "c": "new"}, row)

	// A client that does not know of a column does not take it from the rows beside the one that it puts.
	third := opened(t, db)
	late, err := paged.Open(t.Context(), third, "t")
	require.NoError(t, err)
	require.NoError(t, st.Alter(t.Context(), "t", store.AddColumn(store.PlainColumn("e", store.Int64))))
	require.NoError(t, tbl.Update(t.Context(), store.Row{"at": 8, "e": 8}))
	require.NoError(t, late.Put(t.Context(), store.Row{"at": 9, "d": 90}))
	row, err = tbl.Get(t.Context(), store.Row{"at": 8})
	require.NoError(t, err)
	require.Equal(t, store.Row{"at": int64(8), "d": int64(8), "e": int64(8)}, row)

	// Keys rotate, and pages are sealed again.
	require.NoError(t, st.RotateKeys(t.Context(), "t"))
	require.NoError(t, tbl.Put(t.Context(), store.Row{"at": 20, "d": 1}))
	c, err := late.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, 40, c.Rows)
	c, err = tbl.Reseal(t.Context())
	require.NoError(t, err)
	require.Greater(t, c.Resealed, 5)
	require.Equal(t, c.Old, c.Resealed)
	c, err = late.Verify(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Old)
	require.Equal(t, 40, c.Rows)

	for _, change := range []store.Change{
		store.ChangeColumn(store.PlainColumn("d", store.Int64)), store.ChangeColumn(store.OrderedColumn("d", store.Int64, store.MOPE)), store.SetTTL(time.Hour),
		store.AddColumn(store.DeterministicColumn("f", store.Int64)),
	} {
		require.ErrorIs(t, st.Alter(t.Context(), "t", change), store.ErrSchema)
	}
	require.NoError(t, st.RenameTable(t.Context(), "t", "u"))
	n, err := late.Count(t.Context(), store.Predicate{})
	require.NoError(t, err)
	require.Equal(t, 40, n)
}

// A query that meets a page of a newer schema behind others ends. The next one of that client does not, since it knows the schema.
func TestQueryThatIsAskedAgainKnowsTheSchema(t *testing.T) {
	db := drivertest.NewMemory()
	st := opened(t, db)
	tbl, err := paged.Create(t.Context(), st, store.Schema{Name: "t", Key: []store.KeyPart{store.OrderedPart("at", store.Int64, store.Plaintext)}}, 4)
	require.NoError(t, err)
	var rows []store.Row
	for i := range 40 {
		rows = append(rows, store.Row{"at": i})
	}
	require.NoError(t, tbl.Put(t.Context(), rows...))
	var readers [2]*paged.Table
	for i := range readers {
		readers[i], err = paged.Open(t.Context(), opened(t, db), "t")
		require.NoError(t, err)
	}
	require.NoError(t, st.Alter(t.Context(), "t", store.AddColumn(store.PlainColumn("a", store.Int64))))
	require.NoError(t, tbl.Update(t.Context(), store.Row{"at": 39, "a": 1}))

	ask := func() (n int, err error) {
		for _, err = range readers[0].Query(t.Context(), store.Query{}) {
			n++
		}
		return n, err
	}
	_, err = ask()
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	n, err := ask()
	require.NoError(t, err)
	require.Equal(t, len(rows), n)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err = readers[1].Count(ctx, store.Predicate{})
	require.NoError(t, err)
	require.Equal(t, len(rows), n)
}
