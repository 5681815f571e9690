package hbasesource

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// kind returns a kind of database.
func kind(name string) testdb.Database {
	return testdb.All[slices.IndexFunc(testdb.All, func(d testdb.Database) bool { return d.Name == name })]
}

// A foreign is a table of an application in HBase: its key is a name and a number, its columns are an amount and a note.
type foreign struct {
	t       *testing.T
	name    string
	db      *hbase.DB
	client  gohbase.Client
	mapping Mapping
}

// newTable makes a table, whose cells live for some seconds or, with 0, for ever. Its column family has other attributes besides.
func newTable(t *testing.T, ttl int, others ...string) *foreign {
	kind("hbase").Need(t)
	quorum := os.Getenv("RANGECRYPT_HBASE")
	of := &foreign{t: t, name: fmt.Sprintf("orders_%x", rand.Uint64()), client: gohbase.NewClient(quorum)}
	var err error
	of.db, err = hbase.Open(t.Context(), quorum, nil)
	require.NoError(t, err)
	t.Cleanup(func() { of.client.Close(); of.db.Close() })
	of.mapping = Mapping{
		Key:     []KeyPart{{"customer", "utf8", "|"}, {"number", "int32", ""}},
		Columns: []Column{{"amount", "d:amount", "int64"}, {"note", "d:note", "utf8"}},
		Ignore:  []string{"d:cache", "x:*"},
	}
	attributes := map[string]string{}
	if ttl > 0 {
		attributes["TTL"] = strconv.Itoa(ttl)
	}
	for i := 0; i < len(others); i += 2 {
		attributes[others[i]] = others[i+1]
	}
	families := map[string]map[string]string{"d": attributes, "x": nil}
	require.NoError(t, gohbase.NewAdminClient(quorum).CreateTable(hrpc.NewCreateTable(t.Context(), []byte(of.name), families)))
	t.Cleanup(func() {
		src, err := New(of.db, of.name, of.mapping)
		require.NoError(t, err)
		require.NoError(t, src.Drop(context.Background()))
	})
	return of
}

func (of *foreign) key(customer string, number int32) []byte {
	return binary.BigEndian.AppendUint32([]byte(customer+"|"), uint32(number))
}

func (of *foreign) put(key []byte, cells map[string][]byte) *hrpc.Mutate {
	m, err := hrpc.NewPut(of.t.Context(), []byte(of.name), key, map[string]map[string][]byte{"d": cells})
	require.NoError(of.t, err)
	return m
}

func (of *foreign) del(key []byte) *hrpc.Mutate {
	m, err := hrpc.NewDel(of.t.Context(), []byte(of.name), key, nil)
	require.NoError(of.t, err)
	return m
}

func amount(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func (of *foreign) source() *Source {
	src, err := New(of.db, of.name, of.mapping)
	require.NoError(of.t, err)
	return src
}

// A table that is cut into any number of parts has the rows that the bare client wrote, each once.
func TestScansAndReads(t *testing.T) {
	of := newTable(t, 0)
	ctx := t.Context()
	want := make(map[string]store.Row)
	var keys []store.Row
	for i := range int32(700) {
		customer := string([]byte{byte('A' + i%50), byte(i)%0x7f + 1}) // no two parts are alike
		if customer[1] == '|' {
			continue
		}
		key := of.key(customer, i)
		cells := map[string][]byte{"amount": amount(int64(i)), "cache": {1}}
		row := store.Row{"customer": customer, "number": i, "amount": int64(i)}
		if i%3 == 0 {
			cells["note"] = []byte("n")
			row["note"] = "n"
		}
		_, err := of.client.Put(of.put(key, cells))
		require.NoError(t, err)
		want[string(key)] = row
		keys = append(keys, store.Row{"customer": customer, "number": i})
	}
	src := of.source()
	for _, parts := range []int{1, 7, 64} {
		found := make(map[string]store.Row)
		for i := range parts {
			for f, err := range src.Scan(ctx, inspect.Part{Index: i, Of: parts}) {
				require.NoError(t, err)
				key, err := of.mapping.rowKey(f.Row)
				require.NoError(t, err)
				require.NotContains(t, found, string(key))
				require.True(t, f.Exists && f.Refused == "" && f.Expires.IsZero() && !f.Mixed)
				require.WithinDuration(t, time.Now(), f.Written, 10*time.Minute)
				found[string(key)] = f.Row
			}
		}
		require.Equal(t, want, found, "%d parts", parts)
	}
	keys = append(keys, store.Row{"customer": "nobody", "number": int32(1)})
	all, err := src.Read(ctx, keys)
	require.NoError(t, err)
	for i, f := range all[:len(want)] {
		key, _ := of.mapping.rowKey(keys[i])
		require.Equal(t, want[string(key)], f.Row)
	}
	require.False(t, all[len(want)].Exists)
	require.Equal(t, keys[len(want)], all[len(want)].Row)

	d, err := src.Describe(ctx)
	require.NoError(t, err)
	require.Empty(t, d.Unmapped)
	require.Zero(t, d.TTL)
	schema, hints, err := src.Propose(ctx, "orders")
	require.NoError(t, err)
	require.NoError(t, schema.Check())
	require.Len(t, schema.Key, 2)
	require.Equal(t, "customer hashed, number ordered", schema.Key[0].Describe().Name+" "+schema.Key[0].Describe().Encryption+", "+
		schema.Key[1].Describe().Name+" "+schema.Key[1].Describe().Encryption)
	require.Len(t, schema.Columns, len(of.mapping.Columns))
	require.Len(t, hints, len(of.mapping.Columns))
	of.mapping.Columns = append(of.mapping.Columns, Column{"more", "y:more", "bytes"})
	d2, err := of.source().Describe(ctx)
	require.NoError(t, err)
	require.Len(t, d2.Unmapped, 1)
	_, _, err = of.source().Propose(ctx, "orders")
	require.ErrorContains(t, err, d2.Unmapped[0])
	at, err := src.Now(ctx)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, 10*time.Second)
	before, err := src.Fingerprint(ctx)
	require.NoError(t, err)
	after, err := of.source().Fingerprint(ctx)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	_, err = (&Source{db: of.db, name: "nothing_" + of.name, mapping: of.mapping}).Describe(ctx)
	require.ErrorIs(t, err, driver.ErrNoFamily)
	require.ErrorContains(t, err, "there is no table nothing_")
}

// Rows whose bytes are no values are refused, each with a reason that has none of them; rows whose cells expire say when.
func TestRowsThatAreRefusedOrExpire(t *testing.T) {
	of := newTable(t, 3600)
	for key, cells := range map[string]map[string][]byte{
		string(of.key("short", 1)): {"amount": []byte("abc")},
		string(of.key("other", 1)): {"amount": amount(1), "secret-name": {1}},
		"nokey":                    {"amount": amount(1)},
		string(of.key("good", 1)):  {"amount": amount(1)},
		string(of.key("cache", 1)): {"cache": {1}}, // has nothing but what is left out
	} {
		_, err := of.client.Put(of.put([]byte(key), cells))
		require.NoError(t, err)
	}
	refused, good := 0, 0
	var places []string
	for f, err := range of.source().Scan(t.Context(), inspect.Part{Of: 1}) {
		require.NoError(t, err)
		require.NotContains(t, f.Refused, "secret")
		switch {
		case f.Refused != "":
			refused++
			places = append(places, f.Place)
		case f.Exists:
			good++
			require.WithinDuration(t, time.Now().Add(time.Hour), f.Expires, 10*time.Minute)
		}
	}
	require.Equal(t, 3, refused)
	require.Equal(t, 1, good)
	require.ElementsMatch(t, []string{"", "", `row key "nokey"`}, places)
	d, err := of.source().Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Hour, d.TTL)
}

// HBase keeps the newest version of a cell with MIN_VERSIONS, however old it is. So it expires in no table here.
func TestVersionsThatAreKeptDoNotExpire(t *testing.T) {
	of := newTable(t, 1, "MIN_VERSIONS", "1")
	put, err := hrpc.NewPut(t.Context(), []byte(of.name), of.key("old", 1), map[string]map[string][]byte{"d": {"amount": amount(1)}}, hrpc.TimestampUint64(1_000_000))
	require.NoError(t, err)
	_, err = of.client.Put(put)
	require.NoError(t, err)
	d, err := of.source().Describe(t.Context())
	require.NoError(t, err)
	require.Zero(t, d.TTL)
	require.Contains(t, d.Notes[0], "MIN_VERSIONS")
	n := 0
	for f, err := range of.source().Scan(t.Context(), inspect.Part{Of: 1}) {
		require.NoError(t, err)
		require.True(t, f.Exists && f.Refused == "" && f.Expires.IsZero() && !f.Mixed)
		require.Equal(t, int64(1), f.Row["amount"])
		n++
	}
	require.Equal(t, 1, n)
}

// A table of the library itself is no table of an application.
func TestOwnTablesAreNoSources(t *testing.T) {
	kind("hbase").Need(t)
	namespace := kind("hbase").Reserve(t)
	db, err := kind("hbase").Join(t.Context(), namespace)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Family(t.Context(), driver.FamilySpec{Name: "rows", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	_, err = db.(*hbase.DB).Foreign(t.Context(), namespace+":rows")
	require.ErrorIs(t, err, driver.ErrLayout)
}

// Eight writers put, change single cells, increment, append, delete and put again, while the table is copied. In the end it has
// what the source has, by a reading of both that knows nothing of migrations; then the source is dropped.
func TestMigration(t *testing.T) {
	for _, c := range []struct {
		into        string
		conditional bool
	}{{"pebble", true}, {"pebble", false}, {"hbase", true}, {"hbase", false}} {
		t.Run(fmt.Sprintf("into %s, conditional %v", c.into, c.conditional), func(t *testing.T) {
			migrates(t, newTable(t, 0), kind(c.into), c.conditional)
		})
	}
}

func migrates(t *testing.T, of *foreign, into testdb.Database, conditional bool) {
	ctx := t.Context()
	st, err := store.Open(ctx, into.Open(t, nil), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, store.Schema{
		Name: "orders", Conditional: conditional, Key: []store.KeyPart{store.HashedPart("customer", store.String), store.OrderedPart("number", store.Int32, store.MOPE)},
		Columns: []store.Column{store.OrderedColumn("amount", store.Int64, store.Boldyreva), store.RandomisedColumn("note", store.String)},
	})
	require.NoError(t, err)
	src := of.source()
	m, err := migrate.New(tbl, src)
	require.NoError(t, err)
	for i := range int32(400) { // rows from before
		_, err := of.client.Put(of.put(of.key("old", i), map[string][]byte{"amount": amount(int64(i))}))
		require.NoError(t, err)
	}
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)

	writing, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			c := NewClient(of.client, src, m.Mirror())
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for n := int64(0); writing.Err() == nil; n++ {
				k := of.key([]string{"old", "new"}[r.IntN(2)], int32(r.IntN(60)))
				var err error
				switch r.IntN(5) {
				case 0:
					_, err = c.Put(ctx, of.put(k, map[string][]byte{"amount": amount(n), "note": fmt.Append(nil, w)}))
				case 1:
					_, err = c.Put(ctx, of.put(k, map[string][]byte{"note": fmt.Append(nil, w, n)}))
				case 2:
					_, err = c.Delete(ctx, of.del(k))
				case 3:
					inc, _ := hrpc.NewIncSingle(ctx, []byte(of.name), k, "d", "amount", 1)
					_, err = c.Increment(ctx, inc)
				case 4:
					add, _ := hrpc.NewApp(ctx, []byte(of.name), k, map[string]map[string][]byte{"d": {"note": []byte("+")}})
					_, err = c.Append(ctx, add)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 5 {
		_, err := m.Copy(ctx, inspect.Part{Index: i, Of: 5}, nil)
		require.NoError(t, err)
	}
	stop()
	writers.Wait()
	done, err := m.Verify(ctx, inspect.Part{Of: 1}, nil)
	require.NoError(t, err)
	require.True(t, done.Over)

	want := make(map[string]store.Row)
	s, err := hrpc.NewScan(ctx, []byte(of.name))
	require.NoError(t, err)
	scanner := of.client.Scan(s)
	for r, err := scanner.Next(); err == nil; r, err = scanner.Next() {
		k := string(r.Cells[0].Row)
		row := store.Row{"customer": k[:3], "number": int32(binary.BigEndian.Uint32([]byte(k[4:])))}
		for _, c := range r.Cells {
			if string(c.Qualifier) == "amount" {
				row["amount"] = int64(binary.BigEndian.Uint64(c.Value))
			} else {
				row["note"] = string(c.Value)
			}
		}
		want[k] = row
	}
	found := make(map[string]store.Row)
	for row, err := range tbl.Query(ctx, store.Query{}) {
		require.NoError(t, err)
		found[string(of.key(row["customer"].(string), row["number"].(int32)))] = row
	}
	require.Greater(t, len(want), 340)
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(found)))
	require.Equal(t, want, found)

	require.NoError(t, m.Cutover(ctx))
	_, err = NewClient(of.client, src, m.Mirror()).Put(ctx, of.put(of.key("late", 1), map[string][]byte{"amount": amount(1)}))
	require.ErrorIs(t, err, migrate.ErrCutOver)
	_, err = m.Verify(ctx, inspect.Part{Of: 1}, nil)
	require.NoError(t, err)
	remains, err := m.Drop(ctx, false, nil)
	require.NoError(t, err)
	require.NotEmpty(t, remains)
	_, err = src.Describe(ctx)
	require.ErrorIs(t, err, driver.ErrNoFamily)
}

// intoMemory makes the table that the source proposes, and a migration into it.
func (of *foreign) intoMemory(t *testing.T) (*store.Table, *migrate.Migration) {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	schema, _, err := of.source().Propose(ctx, "orders")
	require.NoError(t, err)
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	m, err := migrate.New(tbl, of.source())
	require.NoError(t, err)
	return tbl, m
}

// Where no migration goes on, the client writes also what the mapping has no key for. While one does, that is ErrUnfit.
func TestClientWritesTheOldTableAlone(t *testing.T) {
	of := newTable(t, 0)
	ctx := t.Context()
	_, m := of.intoMemory(t)
	c := NewClient(of.client, of.source(), m.Mirror())
	stored := func() int64 {
		get, err := hrpc.NewGet(ctx, []byte(of.name), []byte("nokey"))
		require.NoError(t, err)
		r, err := of.client.Get(get)
		require.NoError(t, err)
		if len(r.Cells) == 0 {
			return 0
		}
		return int64(binary.BigEndian.Uint64(r.Cells[0].Value))
	}
	put := func(n int64) error {
		_, err := c.Put(ctx, of.put([]byte("nokey"), map[string][]byte{"amount": amount(n)}))
		return err
	}
	require.NoError(t, put(1))
	require.Equal(t, int64(1), stored())
	_, err := m.Prepare(ctx, false)
	require.NoError(t, err)
	err = put(2)
	require.ErrorIs(t, err, migrate.ErrUnfit)
	require.ErrorContains(t, err, "nothing was written")
	require.NotContains(t, err.Error(), "nokey")
	require.Equal(t, int64(1), stored())
	_, err = c.Put(ctx, of.put([]byte("others"), map[string][]byte{"cache": {1}})) // which is left out
	require.NoError(t, err)
	_, err = c.Put(ctx, of.put([]byte("others"), map[string][]byte{"cache": {1}, "amount": amount(1)}))
	require.ErrorIs(t, err, migrate.ErrUnfit)
	_, err = c.Delete(ctx, of.del([]byte("nokey"))) // which the encrypted table has not
	require.NoError(t, err)
	require.Zero(t, stored())
	require.NoError(t, m.Abort(ctx))
	require.NoError(t, put(3))
	require.Equal(t, int64(3), stored())
}

// A program with another mapping than the one that was prepared writes nothing: it would bring other values into the encrypted table.
func TestAllTakeOneMapping(t *testing.T) {
	of := newTable(t, 0)
	ctx := t.Context()
	tbl, m := of.intoMemory(t)
	_, err := m.Prepare(ctx, false)
	require.NoError(t, err)
	other := *of
	other.mapping.Columns = of.mapping.Columns[:1]
	other.mapping.Ignore = append(slices.Clone(of.mapping.Ignore), "d:note")
	wrong, err := migrate.New(tbl, other.source())
	require.NoError(t, err)
	write := func(source *Source, m *migrate.Migration) error {
		_, err := NewClient(of.client, source, m.Mirror()).Put(ctx, of.put(of.key("ada", 1), map[string][]byte{"note": []byte("kept")}))
		return err
	}
	_, copied := wrong.Copy(ctx, inspect.Part{Of: 1}, nil)
	for _, err := range []error{write(other.source(), wrong), copied} {
		require.ErrorIs(t, err, migrate.ErrSource)
		require.ErrorContains(t, err, "it was prepared with another mapping than this one")
	}
	found, err := of.source().Read(ctx, []store.Row{{"customer": "ada", "number": int32(1)}})
	require.NoError(t, err)
	require.False(t, found[0].Exists)
	require.NoError(t, write(of.source(), m))
	require.NoError(t, m.Abort(ctx))
	require.NoError(t, write(other.source(), wrong), "where no migration goes on, the source alone is written")
}

// What the mapping could lose is in the encrypted table when the source is dropped, or keeps it from being dropped.
func TestNothingIsLostByTheMapping(t *testing.T) {
	of := newTable(t, 0)
	of.mapping = Mapping{
		Key:     []KeyPart{{"k", "utf8", "|"}, {"flag", "boolean", ""}},
		Columns: []Column{{"amount", "d:amount", "int64"}}, Ignore: []string{"d:*", "x:*"},
	}
	ctx := t.Context()
	for _, key := range []string{"b|\x01", "c|\x00", "d|\x02", "e|\xff"} {
		_, err := of.client.Put(of.put([]byte(key), map[string][]byte{"amount": amount(1)}))
		require.NoError(t, err)
	}
	_, err := of.client.Put(of.put([]byte("f|\x00"), map[string][]byte{"other": {1}}))
	require.NoError(t, err)
	tbl, m := of.intoMemory(t)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	var places []string
	opts := &migrate.PassOptions{Finding: func(f migrate.Finding) {
		require.ErrorIs(t, f.Err, migrate.ErrUnfit)
		require.NotEmpty(t, f.Row)
		places = append(places, f.Place)
	}}
	done, err := m.Copy(ctx, inspect.Part{Of: 1}, opts)
	require.NoError(t, err)
	require.Equal(t, 2, done.Rows.Copied)
	require.Equal(t, 2, done.Rows.Refused)
	require.Equal(t, []string{`row key "b|\x01"`, `row key "d|\x02"`}, places)
	_, err = m.Verify(ctx, inspect.Part{Of: 1}, &migrate.PassOptions{Repair: true})
	require.NoError(t, err)
	require.ErrorIs(t, m.Cutover(ctx), migrate.ErrDiffers)
	for _, key := range []string{"b|\x01", "d|\x02"} { // their owner writes them as they are to be
		_, err := of.client.Delete(of.del([]byte(key)))
		require.NoError(t, err)
		_, err = of.client.Put(of.put([]byte(key[:2]+"\xff"), map[string][]byte{"amount": amount(1)}))
		require.NoError(t, err)
	}
	for range 2 {
		_, err = m.Verify(ctx, inspect.Part{Of: 1}, &migrate.PassOptions{Repair: true})
		require.NoError(t, err)
	}
	require.NoError(t, m.Cutover(ctx))
	for row, err := range tbl.Query(ctx, store.Query{}) {
		require.NoError(t, err)
		require.Equal(t, int64(1), row["amount"])
		require.Equal(t, row["k"] != "c", row["flag"])
	}
	n, err := tbl.Count(ctx, store.Predicate{})
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
}

// A program that has seen a column family without its TTL writes rows with the TTL that it had when the migration was prepared.
func TestLivesOfAnAlteredTable(t *testing.T) {
	of := newTable(t, 3600)
	ctx := t.Context()
	running := of.source() // since before the family had a TTL
	seen, err := running.look(ctx)
	require.NoError(t, err)
	for i := range seen.lives {
		seen.lives[i].ttl = 0
	}
	tbl, m := of.intoMemory(t)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	theirs, err := migrate.New(tbl, running)
	require.NoError(t, err)

	_, err = NewClient(of.client, running, theirs.Mirror()).Put(ctx, of.put(of.key("c", 1), map[string][]byte{"amount": amount(1)}))
	require.NoError(t, err)

	done, err := m.Verify(ctx, inspect.Part{Of: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, done.Rows.Equal)
	require.Zero(t, done.Rows.Differs)
}

// A row that has nothing but what is left out is no row of the encrypted table, whatever its key is.
func TestIgnoredCellsOfAnotherKey(t *testing.T) {
	of := newTable(t, 0)
	ctx := t.Context()
	_, err := of.client.Put(of.put([]byte("nokey"), map[string][]byte{"cache": {1}}))
	require.NoError(t, err)
	_, m := of.intoMemory(t)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)

	done, err := m.Copy(ctx, inspect.Part{Of: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, migrate.Counts{Ignored: 1}, done.Rows)
	done, err = m.Verify(ctx, inspect.Part{Of: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, migrate.Counts{Ignored: 1}, done.Rows)
	require.NoError(t, m.Cutover(ctx))
}
