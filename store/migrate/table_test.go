package migrate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// An encrypted table comes under other keys, into another database and under other encryptions, while it is written.
func TestFromTable(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for _, ttl := range []time.Duration{0, store.TTLByRow} {
			t.Run(fmt.Sprintf("ttl %v", ttl), func(t *testing.T) { fromTable(t, kind, ttl, false) })
		}
		t.Run("append-only", func(t *testing.T) { fromTable(t, kind, store.TTLByRow, true) })
	})
}

func fromTable(t *testing.T, kind testdb.Database, ttl time.Duration, appends bool) {
	ctx := t.Context()
	open := func(db driver.DB) *store.Store {
		st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
		return st
	}
	target := drivertest.NewMemory()
	if appends { // in which rows come in another way
		target = kind.Open(t, nil)
	}
	old, young := open(kind.Open(t, nil)), open(target)
	celsius := func(scheme store.ColumnScheme) store.Column {
		c := store.OrderedColumn("celsius", store.Float64, scheme)
		if appends {
			c = c.Covering()
		}
		return c
	}
	from, err := old.Create(ctx, store.Schema{
		Name: "readings", TTL: ttl, Conditional: ttl == 0, AppendOnly: appends,
		Key:     []store.KeyPart{store.HashedPart("device", store.String), store.OrderedPart("at", store.Time(time.Second), store.MOPE), store.TiePart("id")},
		Columns: []store.Column{celsius(store.Kerschbaum), store.PlainColumn("model", store.String), store.RandomisedColumn("raw", store.Bytes)},
	})
	require.NoError(t, err)
	into, err := young.Create(ctx, store.Schema{
		Name: "readings", TTL: ttl, Conditional: ttl == 0, AppendOnly: appends,
		Key:     []store.KeyPart{store.HashedPart("device", store.String), store.OrderedPart("at", store.Time(time.Second), store.Boldyreva), store.TiePart("id")},
		Columns: []store.Column{celsius(store.Boldyreva), store.RandomisedColumn("model", store.String), store.RandomisedColumn("raw", store.Bytes)},
	})
	require.NoError(t, err)
	row := func(i int) store.Row {
		r := store.Row{"device": fmt.Sprint(i % 7), "at": time.Unix(int64(1000+i), 0).UTC(), "id": [16]byte{byte(i), byte(i >> 8), 1}, "celsius": float64(i) / 3, "model": "m"}
		if i%2 == 0 {
			r["raw"] = []byte{byte(i), 0}
		}
		if appends {
			r["id"] = store.LoadTie(r["id"].([16]byte))
		}
		return r
	}
	put := func(i int) error {
		if ttl != 0 && i%3 == 0 {
			return from.Expiring(time.Hour).Put(ctx, row(i))
		}
		return from.Put(ctx, row(i))
	}
	for i := range 120 {
		require.NoError(t, put(i))
	}
	source, err := FromTable(ctx, old, from.Schema().Name)
	require.NoError(t, err)
	m, err := New(into, source)
	require.NoError(t, err)
	plan, err := m.Prepare(ctx, false)
	require.NoError(t, err, plan)
	for i := range 3 {
		_, err = m.Copy(ctx, inspect.Part{Index: i, Of: 3}, nil)
		require.NoError(t, err)
		k := 10 * i
		require.NoError(t, m.Mirror().Write(ctx, []store.Row{row(k)}, func(ctx context.Context) error { return from.Delete(ctx, row(k)) }))
		k = 130 + i
		require.NoError(t, m.Mirror().Write(ctx, []store.Row{row(k)}, func(context.Context) error { return put(k) }))
		k = 60 + i // deleted, and put again with other values, so that even an append-only table takes it
		require.NoError(t, m.Mirror().Write(ctx, []store.Row{row(k)}, func(ctx context.Context) error {
			other := row(k)
			other["celsius"] = -1.0
			return errors.Join(from.Delete(ctx, other), from.Put(ctx, other))
		}))
	}
	nameless := row(1)
	delete(nameless, "id")
	require.ErrorContains(t, m.Mirror().Write(ctx, []store.Row{nameless}, nil), "name the tie-breaker of the row")
	nameless["id"] = store.Tie{} // as a struct has it before its Put
	require.ErrorContains(t, m.Mirror().Write(ctx, []store.Row{nameless}, nil), "a Tie of zeros is none")
	done, err := m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.True(t, done.Over)
	require.Zero(t, done.Rows.Differs+done.Rows.Refused)
	require.Equal(t, 120, done.Rows.Equal)

	rows := func(tbl *store.Table) map[string]store.Row {
		all := make(map[string]store.Row)
		for r, err := range tbl.Query(ctx, store.Query{}) {
			require.NoError(t, err)
			all[fmt.Sprint(r["device"], r["at"], r["id"])] = r
		}
		found := make(map[string]store.Row)
		for r, err := range tbl.Query(ctx, store.Query{Where: store.Float64.Field("celsius").AtLeast(-2)}) {
			require.NoError(t, err)
			found[fmt.Sprint(r["device"], r["at"], r["id"])] = r
		}
		require.Equal(t, all, found)
		return all
	}
	require.Len(t, rows(into), 120)
	require.Equal(t, rows(from), rows(into))

	require.NoError(t, m.Cutover(ctx))
	_, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	_, err = m.Drop(ctx, false, nil)
	require.NoError(t, err)
	_, err = old.Table(ctx, "readings")
	require.ErrorIs(t, err, store.ErrNoTable)
	require.Len(t, rows(into), 120)
	source, err = FromTable(ctx, old, "readings")
	require.NoError(t, err)
	m, err = New(into, source)
	require.NoError(t, err)
	remains, err := m.Drop(ctx, false, nil)
	require.NoError(t, err, "it is gone, and that is said again")
	require.NotEmpty(t, remains)
	_, err = source.Read(ctx, []store.Row{row(1)})
	require.ErrorIs(t, err, driver.ErrNoFamily)
	for _, err := range source.Scan(ctx, whole) {
		require.ErrorIs(t, err, driver.ErrNoFamily)
	}
}

// What was changed or moved in the source stays where it is, and keeps the cut-over from being made.
func TestFromDamagedTable(t *testing.T) {
	ctx := t.Context()
	db := drivertest.NewMemory()
	st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	from, err := st.Create(ctx, schemaOf(nil))
	require.NoError(t, err)
	into, err := st.Create(ctx, schemaOf(func(s *store.Schema) { s.Name = "orders again" }))
	require.NoError(t, err)
	for i := range int64(5) {
		require.NoError(t, from.Put(ctx, store.Row{"id": i, "a": i, "b": i}))
	}
	names, err := db.Families(ctx)
	require.NoError(t, err)
	spoilt := 0
	for _, name := range names {
		f, err := db.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
		if err != nil {
			continue // another layout
		}
		for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			if c := row.Cells[0]; spoilt == 0 && len(c.Value) > 60 {
				c.Value[len(c.Value)-1] ^= 1
				require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row.Key, Puts: []driver.Cell{c}}))
				spoilt++
			}
		}
	}
	require.Equal(t, 1, spoilt)
	m := copiedFrom(t, st, from.Schema().Name, into)
	var found []Finding
	done, err := m.Verify(ctx, whole, &PassOptions{Finding: func(f Finding) { found = append(found, f) }})
	require.NoError(t, err)
	require.Equal(t, 4, done.Rows.Equal)
	require.Len(t, found, 1)
	require.ErrorIs(t, found[0].Err, ErrUnfit)
	require.ErrorIs(t, m.Cutover(ctx), ErrDiffers)

	_, err = New(from, m.source)
	require.ErrorIs(t, err, ErrUnfit)
}

// A table is not dropped while its rows come into another one, or those of another one into it. It may be encrypted anew meanwhile.
func TestTablesOfMigrationsStay(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	from, err := st.Create(ctx, store.Schema{Name: "from", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("a", store.Int64, store.MOPE)}})
	require.NoError(t, err)
	into, err := st.Create(ctx, store.Schema{Name: "into", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("a", store.Int64)}})
	require.NoError(t, err)
	require.NoError(t, from.Put(ctx, store.Row{"id": int64(1), "a": int64(2)}))
	source, err := FromTable(ctx, st, "from")
	require.NoError(t, err)
	m, err := New(into, source)
	require.NoError(t, err)
	prepare := func() {
		_, err := m.Prepare(ctx, false)
		require.NoError(t, err)
	}
	stay := func() {
		t.Helper()
		require.ErrorIs(t, st.RenameTable(ctx, "from", "moved"), ErrPhase)
		require.ErrorIs(t, st.Drop(ctx, "from"), ErrPhase)
		require.ErrorContains(t, st.Drop(ctx, "from"), `its rows are coming into table "into"`)
		require.ErrorIs(t, st.Drop(ctx, "into"), ErrPhase)
	}
	prepare()
	stay()
	require.NoError(t, m.Abort(ctx))
	prepare()
	require.NoError(t, st.RotateSearchKeys(ctx, "from", "a"))
	_, err = m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	stay()
	_, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	stay()
	require.NoError(t, m.Cutover(ctx))
	_, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	_, err = m.Drop(ctx, false, nil)
	require.NoError(t, err)
	row, err := into.Get(ctx, store.Row{"id": int64(1)})
	require.NoError(t, err)
	require.Equal(t, int64(2), row["a"])
	require.NoError(t, st.Drop(ctx, "into"))
}

// A schema that a description proposes takes its rows: hashed parts, ordered ones where the type has an order, and randomised columns.
func TestPropose(t *testing.T) {
	d := Description{
		Key:     []Column{{"a", store.String, "text"}, {"b", store.UUID, "timeuuid"}, {"c", store.Decimal(6), "decimal"}},
		Columns: []Column{{"d", store.UUID, "uuid"}, {"e", store.Time(time.Millisecond), "timestamp"}},
		TTL:     time.Hour,
	}
	schema, hints := d.Propose("orders", 1)
	require.NoError(t, schema.Check())
	require.Equal(t, time.Hour, schema.TTL)
	var is []string
	for _, p := range schema.Key {
		is = append(is, p.Describe().Name+" "+p.Describe().Encryption)
	}
	for _, c := range schema.Columns {
		is = append(is, c.Describe().Name+" "+c.Describe().Encryption)
	}
	require.Equal(t, []string{"a hashed", "b hashed", "c ordered", "d randomised", "e randomised"}, is)
	require.Equal(t, []string{
		"b (timeuuid): values of this type have no order in an encrypted table, so rows are found by one value, and not by ranges",
		"d (uuid): to search by it, take {encryption: deterministic} for values",
		"e (timestamp): to search by it, take {encryption: ordered, scheme: boldyreva} for ranges and values, {encryption: deterministic} for values",
		"c (decimal): take as many digits after the point as its values have; a row with more is refused",
		"A row lives for 1h0m0s where its write says nothing else, so the table has this ttl.",
	}, hints)

	d.TTL = 20 * 365 * 24 * time.Hour
	schema, hints = d.Propose("orders", 1)
	require.NoError(t, schema.Check(), "no encrypted table has rows that live for longer than ten years")
	require.Contains(t, hints[len(hints)-1], "lower that of the source")
}

// Another table that has the source's name by now is not written, nor followed.
func TestMirrorOfAnotherTableOfTheName(t *testing.T) {
	ctx, schema := t.Context(), store.Schema{Name: "from", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("a", store.Int64)}}
	here, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	there, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	into, err := here.Create(ctx, schema)
	require.NoError(t, err)
	mirror := func() *Mirror {
		source, err := FromTable(ctx, there, "from")
		require.NoError(t, err)
		m, err := New(into, source)
		require.NoError(t, err)
		_, err = m.Prepare(ctx, true)
		require.True(t, err == nil || errors.Is(err, ErrPhase), err)
		return m.Mirror()
	}
	put := func(a int64) func(context.Context) error {
		return func(ctx context.Context) error {
			tbl, err := there.Table(ctx, "from")
			require.NoError(t, err)
			return tbl.Put(ctx, store.Row{"id": int64(1), "a": a})
		}
	}
	_, err = there.Create(ctx, schema)
	require.NoError(t, err)
	key := []store.Row{{"id": int64(1)}}
	require.NoError(t, mirror().Write(ctx, key, put(1)))
	require.NoError(t, there.Drop(ctx, "from")) // of another store, which knows of no migration
	_, err = there.Create(ctx, schema)
	require.NoError(t, err)
	err = mirror().Write(ctx, key, put(2))
	require.ErrorIs(t, err, ErrSource)
	require.ErrorContains(t, err, "nothing was written")
	row, err := into.Get(ctx, key[0])
	require.NoError(t, err)
	require.Equal(t, int64(1), row["a"])
}

// A renamed source is one under another name.
type renamedSource struct{ *memorySource }

func (renamedSource) Name() string { return "memory:others" }

// Who sleeps until the rows of another source come brings none of his any more, be it by a copy or by a Mirror.
func TestSourceOfAnEarlierMigration(t *testing.T) {
	copies := func(s *stage) error {
		_, err := s.m.Copy(s.ctx, whole, nil)
		return err
	}
	writes := func(s *stage) error {
		return s.m.Mirror().Write(s.ctx, []store.Row{{"id": int64(1)}}, func(context.Context) error {
			s.source.scanned(1)
			return nil
		})
	}
	for _, change := range []func(*store.Schema){nil, conditional} {
		for _, sleeps := range []func(*stage) error{copies, writes} {
			s := newStage(t, 3, change)
			s.prepare()
			s.source.scanned = func(rows int) {
				if rows != 1 {
					return
				}
				require.NoError(t, s.m.Abort(s.ctx))
				other, err := New(s.table, renamedSource{newMemorySource()})
				require.NoError(t, err)
				_, err = other.Prepare(s.ctx, true)
				require.NoError(t, err)
			}
			require.ErrorIs(t, sleeps(s), ErrSource)
			n, err := s.table.Count(s.ctx, store.Predicate{})
			require.NoError(t, err)
			require.Zero(t, n)
		}
	}
}

// No rows come into a table whose own rows come into another one, or have come: that one would miss them, and its Drop would remove them.
func TestNoRowsComeIntoASource(t *testing.T) {
	for _, apart := range []bool{false, true} {
		ctx := t.Context()
		var stores [2]*store.Store
		db, key := drivertest.NewMemory(), ope.GenerateKey()
		for i := range stores {
			if i == 1 && apart {
				db, key = drivertest.NewMemory(), ope.GenerateKey()
			}
			st, err := store.Open(ctx, db, kms.NewLocal(key), nil)
			require.NoError(t, err)
			stores[i] = st
		}
		tables := make(map[string]*store.Table)
		for i, name := range []string{"a", "b", "c"} {
			tbl, err := stores[min(i, 1)].Create(ctx, store.Schema{Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})
			require.NoError(t, err)
			tables[name] = tbl
		}
		prepare := func(from, into string) (*Migration, error) {
			source, err := FromTable(ctx, stores[map[string]int{"b": 1, "c": 1}[from]], from)
			require.NoError(t, err)
			m, err := New(tables[into], source)
			require.NoError(t, err)
			_, err = m.Prepare(ctx, true)
			return m, err
		}
		m := copiedFrom(t, stores[0], "a", tables["b"])
		if !apart {
			_, err := prepare("c", "a")
			require.ErrorIs(t, err, ErrPhase)
			require.ErrorContains(t, err, `"a" are coming into table "b"`)
		}
		_, err := m.Verify(ctx, whole, nil)
		require.NoError(t, err)
		require.NoError(t, m.Cutover(ctx))
		back, err := prepare("b", "a")
		require.ErrorIs(t, err, ErrPhase)
		require.ErrorContains(t, err, `"a" are coming into table "b"`)
		_, err = back.Plan(ctx)
		require.ErrorIs(t, err, ErrPhase)
		_, err = prepare("b", "c") // the way back
		require.NoError(t, err)
		m = copiedFrom(t, stores[0], "a", store.Must(stores[0].Create(ctx, store.Schema{Name: "d", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})))
		require.NoError(t, m.Abort(ctx))
		_, err = prepare("b", "a")
		require.ErrorIs(t, err, ErrPhase, "the one that was aborted does not matter")
	}
}

// copiedFrom returns a migration from one of our own tables, after its first copy.
func copiedFrom(t *testing.T, from *store.Store, name string, into *store.Table) *Migration {
	t.Helper()
	source, err := FromTable(t.Context(), from, name)
	require.NoError(t, err)
	m, err := New(into, source)
	require.NoError(t, err)
	_, err = m.Prepare(t.Context(), false)
	require.NoError(t, err)
	_, err = m.Copy(t.Context(), whole, nil)
	require.NoError(t, err)
	return m
}
