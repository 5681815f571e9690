package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// Values that occur nowhere by chance, in an encrypted column of every kind, and one in a plain
// column: were that one not found, the search would be blind.
const (
	canaryTable   = "CanaryTableName"
	canaryCells   = "CanaryTableOfCells"
	canaryTenants = "CanaryTableOfTenants"
	canaryTenant  = "CanaryTenantName"
	canaryGone    = "CanaryTenantThatIsGone"
	canaryPlain   = "canary-in-the-plain"
	canaryNumber  = int64(0x1a2b3c4d5e6f7081)
)

var (
	canaryTime   = time.UnixMilli(1723456789012).UTC()
	canaryFloat  = 12345.678901234567
	canarySchema = Schema{
		Name: canaryTable,
		Key:  []KeyPart{HashedPart("CanaryPartHashed", String), OrderedPart("CanaryPartOrdered", Time(time.Millisecond), MOPE)},
		Columns: []Column{
			OrderedColumn("CanaryOrderedNumber", Int64, Boldyreva),
			OrderedColumn("CanaryOrderedFloat", Float64, MOPE),
			OrderedColumn("CanaryOrderedString", String, Boldyreva),
			OrderedColumn("CanaryMutableNumber", Int64, Kerschbaum),
			OrderedColumn("CanaryMutableString", String, Kerschbaum),
			OrderedColumn("CanaryRankedNumber", Int64, KerschbaumRanked),
			OrderedColumn("CanaryStatefulTime", Time(time.Millisecond), WozniakIndexed),
			OrderedColumn("CanaryKeyedFloat", Float64, Wozniak),
			DeterministicColumn("CanaryToken", String),
			RandomisedColumn("CanaryNote", String),
			RandomisedColumn("CanaryBytes", Bytes),
			PlainColumn("CanaryPlain", String),
		},
	}
)

func canaryRow(i int) Row {
	return Row{
		"CanaryPartHashed": "canary-hashed-part", "CanaryPartOrdered": canaryTime.Add(time.Duration(i) * time.Millisecond),
		"CanaryOrderedNumber": canaryNumber, "CanaryOrderedFloat": canaryFloat,
		"CanaryOrderedString": "canary-ordered-string", "CanaryMutableNumber": canaryNumber + int64(i),
		"CanaryMutableString": "canary-mutable-string", "CanaryRankedNumber": canaryNumber + int64(i), "CanaryStatefulTime": canaryTime, "CanaryKeyedFloat": canaryFloat, "CanaryToken": "canary-token",
		"CanaryNote": "canary-note", "CanaryBytes": []byte("canary-bytes"), "CanaryPlain": canaryPlain,
	}
}

// secrets returns, with their names, the byte strings that must not get out.
func secrets(t *testing.T, master ope.Key, tbl *Table) map[string][]byte {
	t.Helper()
	s := make(map[string][]byte)
	add := func(name string, b []byte) {
		s[name] = b
		s[name+", hex"] = []byte(hex.EncodeToString(b))
		s[name+", base64"] = []byte(base64.StdEncoding.EncodeToString(b)[:len(b)*4/3-2])
	}
	number := func(name string, n uint64) {
		add(name+", big-endian", binary.BigEndian.AppendUint64(nil, n))
		add(name+", little-endian", binary.LittleEndian.AppendUint64(nil, n))
		s[name+", decimal"] = []byte(strconv.FormatUint(n, 10))
	}
	for name, v := range canaryRow(0) {
		switch v := v.(type) {
		case string:
			if v != canaryPlain {
				add("value of "+name, []byte(v))
			}
		case []byte:
			add("value of "+name, v)
		}
		add("name "+name, []byte(name))
	}
	add("name of the table", []byte(canaryTable))
	// How a column is stored: types, bounds and schemes.
	for _, part := range []string{"domain=", "keep=", Boldyreva.name, MOPE.name + "/", Wozniak.name, Kerschbaum.name, Int64.of.ID(), Float64.of.ID(), Time(time.Millisecond).of.ID(), string(randomised), string(deterministic)} {
		s["text "+part] = []byte(part)
	}
	for _, name := range []string{"CanaryAdded", "CanaryRenamed", "CanaryShared", "CanaryOtherTable", canaryCells, canaryTenants, canaryTenant, canaryGone} {
		add("name "+name, []byte(name))
	}
	number("number", uint64(canaryNumber))
	number("sortable number", uint64(canaryNumber)^1<<63)
	number("time", uint64(canaryTime.UnixMilli()))
	number("sortable time", uint64(canaryTime.UnixMilli())^1<<63)
	number("float", math.Float64bits(canaryFloat))
	number("sortable float", math.Float64bits(canaryFloat)^1<<63)
	s["float, decimal"] = []byte(strconv.FormatFloat(canaryFloat, 'g', -1, 64))
	key := func(name string, k ope.Key) {
		add(name, k.Secret())
		add("first half of "+name, k.Secret()[:16])
	}
	key("master key", master)
	tables := []*Table{tbl}
	for _, name := range []string{canaryCells, canaryTenants} {
		other, err := tbl.store().Table(context.Background(), name)
		if errors.Is(err, ErrNoTable) {
			continue // it is not made yet
		}
		require.NoError(t, err)
		tables = append(tables, other)
	}
	for _, tbl := range tables {
		for name, k := range allKeys(t, tbl) {
			key(fmt.Sprintf("%s of table %s", name, tbl.now().Meta.Name), k)
		}
	}
	metas, err := tbl.store().db.Catalogue.AllTenants(context.Background())
	require.NoError(t, err)
	for _, meta := range metas {
		add("id of a tenant", meta.ID[:])
		for _, tbl := range tables {
			for name, k := range tenantKeysOf(t, tbl, meta) {
				key(fmt.Sprintf("%s of a tenant in table %s", name, tbl.now().Meta.Name), k)
			}
		}
	}
	return s
}

// tenantKeysOf returns, with their names, the keys of a tenant and those that it has in a table.
func tenantKeysOf(t *testing.T, tbl *Table, meta *tenantMeta) map[string]ope.Key {
	t.Helper()
	k, err := tbl.store().db.Keys.OfTenant(tbl.store().db.Keys.Table(tbl.open().ID()), meta)
	require.NoError(t, err)
	all := map[string]ope.Key{
		"page token key": k.Page, "key of secure types": k.Secrets, "key of tokens": k.Tenants,
		"wrapping key of keys": tbl.store().db.Keys.Database.Derive("tenants", "wrap"), "key of names": tbl.store().db.Catalogue.Tenants,
	}
	for i := range k.Tenant.Count {
		tenant, err := k.Tenant.Open(i)
		require.NoError(t, err)
		all[fmt.Sprintf("key %d", i)] = tenant
		all[fmt.Sprintf("key %d of key cells", i)] = k.Tenant.Derive(tenant, purposeRow, columnRef{Table: tbl.open().ID()})
		for _, f := range tbl.now().Meta.All() {
			all[fmt.Sprintf("key %d of cells of %s", i, f.Name)] = k.Tenant.Derive(tenant, purposeCell, columnRef{Table: tbl.open().ID(), Column: f.ID})
			search, err := k.Search(f)
			require.NoError(t, err)
			if f.Searchable() {
				all["search key of "+f.Name] = search
				all["order key of "+f.Name], all["token key of "+f.Name] = search.Derive(purposeOrder), search.Derive(purposeToken)
			}
		}
	}
	return all
}

// allKeys returns, with their names, the keys of a database and of one of its tables.
func allKeys(t *testing.T, tbl *Table) map[string]ope.Key {
	t.Helper()
	database := tbl.store().db.Keys.Database
	all := map[string]ope.Key{
		"database key":  database,
		"catalogue key": database.Derive("catalogue", "seal"),
		"names key":     tbl.store().db.Catalogue.Names,
	}
	digests, err := ope.NewKey(tbl.store().db.Catalogue.Digests)
	require.NoError(t, err)
	all["digest key"] = digests
	meta := tbl.now().Meta
	table := tbl.store().db.Keys.Table(meta.ID)
	all["page token key"], all["key of secure types"] = table.Page, table.Secrets
	all["wrapping key"] = database.Derive("table", hex.EncodeToString(meta.ID[:])).Derive("wrap")
	opened := func(name, purpose string, id columnID, list ...wrappedKey) {
		for i, w := range list {
			if w != nil {
				all[fmt.Sprintf("%s key %d of %s", purpose, i, name)], err = table.Open(purpose, id, w)
				require.NoError(t, err)
			}
		}
	}
	opened("the table", purposeRow, columnID{}, meta.RowKeys...)
	for _, f := range meta.All() {
		opened(f.Name, purposeCell, f.ID, f.CellKeys...)
		opened(f.Name, purposeSearch, f.ID, f.SearchKey)
		key, err := table.Search(f)
		require.NoError(t, err)
		if f.Searchable() {
			all["search key of "+f.Name] = key
			all["order key of "+f.Name], all["token key of "+f.Name] = key.Derive(purposeOrder), key.Derive(purposeToken)
		}
	}
	require.Greater(t, len(all), 10)
	return all
}

func search(t *testing.T, where string, in []byte, secrets map[string][]byte) {
	t.Helper()
	// There are thousands of secrets, and megabytes to look at.
	const least = 5
	by := make(map[[least]byte][]string)
	for name, secret := range secrets {
		require.GreaterOrEqual(t, len(secret), least, name)
		begin := [least]byte(secret)
		by[begin] = append(by[begin], name)
	}
	found := make(map[string]bool)
	for at := 0; at+least <= len(in); at++ {
		for _, name := range by[[least]byte(in[at:])] {
			if bytes.HasPrefix(in[at:], secrets[name]) && !found[name] {
				found[name] = true
				t.Errorf("%s: found %s at %d: %q", where, name, at, in[max(0, at-20):min(len(in), at+40)])
			}
		}
	}
}

// useEverything calls whatever an application calls.
func useEverything(t *testing.T, st *Store) *Table {
	t.Helper()
	ctx := context.Background()
	tbl, err := st.Create(ctx, canarySchema)
	require.NoError(t, err)
	_, err = st.Create(ctx, canarySchema)
	require.ErrorIs(t, err, ErrExists)
	_, err = st.Tables(ctx)
	require.NoError(t, err)
	require.NoError(t, st.Alter(ctx, canaryTable, AddColumn(OrderedColumn("CanaryAdded", Int64, Kerschbaum).DatabaseWide()),
		AddColumn(DeterministicColumn("CanaryShared", String).SharedWith(canaryTable, "CanaryToken")), RenameColumn("CanaryAdded", "CanaryRenamed")))
	require.NoError(t, st.RenameTable(ctx, canaryTable, "CanaryOtherTable"))
	require.NoError(t, st.RenameTable(ctx, "CanaryOtherTable", canaryTable))
	require.ErrorIs(t, st.Alter(ctx, canaryTable, DropColumn("CanaryToken")), ErrShared)
	require.NoError(t, st.RotateKeys(ctx, canaryTable))
	require.NoError(t, st.RotateMaster(ctx, kms.NewLocal(testMaster)))
	_, err = tbl.Describe(ctx)
	require.NoError(t, err)
	var rows []Row
	for i := range 50 {
		rows = append(rows, canaryRow(i))
	}
	for range 2 {
		require.NoError(t, tbl.Put(ctx, rows...))
	}
	require.NoError(t, tbl.Delete(ctx, rows[0]))
	_, err = tbl.Rebalance(ctx, "CanaryMutableNumber", nil)
	require.NoError(t, err)
	_, err = tbl.Get(ctx, rows[1])
	require.NoError(t, err)
	for _, p := range []Predicate{
		{}, Field[string]("CanaryPartHashed").Equal("canary-hashed-part"),
		Field[int64]("CanaryOrderedNumber").Equal(canaryNumber),
		Field[float64]("CanaryOrderedFloat").Between(canaryFloat, canaryFloat),
		Field[string]("CanaryOrderedString").AtLeast("canary-ordered-string"),
		Field[int64]("CanaryMutableNumber").AtLeast(canaryNumber), Field[int64]("CanaryRankedNumber").AtLeast(canaryNumber), Field[string]("CanaryMutableString").Equal("canary-mutable-string"),
		Field[time.Time]("CanaryStatefulTime").AtLeast(canaryTime), Field[float64]("CanaryKeyedFloat").AtMost(canaryFloat),
		Field[string]("CanaryToken").In("canary-token", "canary-note"),
		Field[string]("CanaryNote").Equal("canary-note"),
		And(Field[string]("CanaryPartHashed").Equal("canary-hashed-part"), Field[time.Time]("CanaryPartOrdered").AtMost(canaryTime)),
	} {
		q := Query{Where: p, Limit: 3}
		_, next, err := tbl.Page(ctx, q)
		if err == nil && next != "" {
			raw, err := base64.RawURLEncoding.DecodeString(next)
			require.NoError(t, err)
			search(t, "page token", raw, secrets(t, testMaster, tbl))
			q.PageToken = next
			_, _, err = tbl.Page(ctx, q)
			require.NoError(t, err)
		}
		for _, err := range tbl.Query(ctx, Query{Where: p}) {
			require.NoError(t, err)
		}
	}
	useCells(t, st, rows[:10])
	useTenants(t, st, rows[:10])
	// What goes wrong.
	noteTwice := Row{"CanaryNote": "canary-note", "CanaryPartHashed": "canary-hashed-part"}
	for _, err := range []error{
		tbl.Put(ctx, noteTwice),
		tbl.Put(ctx, Row{"CanaryPartHashed": "canary-hashed-part", "CanaryPartOrdered": canaryTime.Add(1)}),
		tbl.Put(ctx, Row{"CanaryPartHashed": canaryNumber, "CanaryPartOrdered": canaryTime}),
		tbl.Put(ctx, Row{"CanaryPartHashed": "canary-hashed-part", "CanaryPartOrdered": canaryTime, "CanaryOrderedFloat": math.NaN()}),
		tbl.Put(ctx, rows[0], rows[0]),
		tbl.Put(ctx, Row{"CanaryPartHashed": "canary-hashed-part\xff", "CanaryPartOrdered": canaryTime}),
	} {
		require.Error(t, err)
		for name, v := range canaryRow(0) {
			if s, ok := v.(string); ok {
				require.NotContains(t, err.Error(), s, name)
			}
		}
		require.NotContains(t, err.Error(), strconv.FormatInt(canaryNumber, 10))
	}
	return tbl
}

// useCells does the same to a table with a cell for each column, whose encryption changes.
func useCells(t *testing.T, st *Store, rows []Row) {
	t.Helper()
	ctx, schema := context.Background(), canarySchema
	schema.Name, schema.CellPerColumn, schema.Conditional = canaryCells, cellPerColumn, true
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, rows...))
	update := Row{"CanaryNote": "canary-note", "CanaryToken": nil}
	for _, part := range schema.Key {
		update[part.spec.Name] = rows[1][part.spec.Name]
	}
	require.NoError(t, tbl.Update(ctx, update))
	require.ErrorIs(t, tbl.Insert(ctx, rows[1]), ErrRowExists)
	require.NoError(t, tbl.Upsert(ctx, update))
	require.NoError(t, tbl.UpdateIf(ctx, update, Row{"CanaryNote": "canary-note"}))
	require.ErrorIs(t, tbl.UpdateIf(ctx, update, Row{"CanaryNote": "canary-other"}), ErrConflict)
	key := maps.Clone(update)
	delete(key, "CanaryNote")
	delete(key, "CanaryToken")
	_, err = tbl.Increment(ctx, key, "CanaryOrderedNumber", 0)
	require.NoError(t, err)
	require.NoError(t, tbl.Delete(ctx, rows[0]))
	require.NoError(t, st.Alter(ctx, canaryCells, ChangeColumn(OrderedColumn("CanaryNote", String, MOPE)),
		ChangeColumn(RandomisedColumn("CanaryOrderedString", String)), DropColumn("CanaryBytes")))
	require.NoError(t, st.RotateKeys(ctx, canaryCells))
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	for row, err := range tbl.Query(ctx, Query{Where: Field[string]("CanaryNote").Equal("canary-note")}) {
		require.NoError(t, err)
		require.Equal(t, "canary-ordered-string", row["CanaryOrderedString"])
	}
}

// useTenants does the same to a table with tenants. Their policies change, and name no column whose
// values are looked for as one that is in the clear.
func useTenants(t *testing.T, st *Store, rows []Row) {
	t.Helper()
	ctx, schema := context.Background(), canarySchema
	schema.Name, schema.Tenants = canaryTenants, true
	unbound, err := st.Create(ctx, schema)
	require.NoError(t, err)
	sealed := Policy{Sensitive: []string{"CanaryNote", "CanaryBytes"}}
	for _, name := range []string{canaryTenant, canaryGone} {
		require.NoError(t, st.CreateTenant(ctx, name))
		require.ErrorIs(t, st.CreateTenant(ctx, name), ErrExists)
		tbl, err := unbound.Tenant(ctx, name)
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, rows...))
		require.NoError(t, setPolicy(ctx, st, name, canaryTenants, sealed))
		require.NoError(t, st.RotateTenantKey(ctx, name))
		require.NoError(t, tbl.Put(ctx, rows[:5]...))
		require.NoError(t, setPolicy(ctx, st, name, canaryTenants, Policy{Whole: true}))
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		for _, err := range tbl.Query(ctx, Query{Where: Field[string]("CanaryToken").Equal("canary-token")}) {
			require.NoError(t, err)
		}
		_, next, err := tbl.Page(ctx, Query{Where: Field[float64]("CanaryOrderedFloat").Equal(canaryFloat), Limit: 2})
		require.NoError(t, err)
		raw, err := base64.RawURLEncoding.DecodeString(next)
		require.NoError(t, err)
		search(t, "page token", raw, secrets(t, testMaster, tbl))
		_, err = tbl.Rebalance(ctx, "CanaryMutableNumber", nil)
		require.NoError(t, err)
	}
	require.NoError(t, st.DropTenant(ctx, canaryGone))
	_, err = unbound.Verify(ctx, nil)
	require.NoError(t, err)
	_, err = unbound.KeyUse(ctx, nil)
	require.NoError(t, err)
}

var testMaster = func() ope.Key {
	key, err := ope.NewKey([]byte("0123456789abcdef-the-master-key!"))
	if err != nil {
		panic(err)
	}
	return key
}()

// recorder notes all bytes that are passed to a driver.
type recorder struct {
	driver.DB
	mu  sync.Mutex
	all bytes.Buffer
}

func (r *recorder) note(what ...[]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range what {
		r.all.Write(b)
		r.all.WriteByte('\n')
	}
}

func (r *recorder) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	r.note([]byte(spec.Name))
	f, err := r.DB.Family(ctx, spec)
	return &recorderFamily{f, r}, err
}

type recorderFamily struct {
	driver.Family
	r *recorder
}

func (f *recorderFamily) noteSlice(s driver.Slice) { f.r.note(append(s.Only, s.Start, s.End)...) }

func (f *recorderFamily) noteCells(cells []driver.Cell) {
	for _, c := range cells {
		f.r.note(c.Qualifier, c.Value)
	}
}

func (f *recorderFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	f.r.note(row)
	f.noteSlice(s)
	return f.Family.Get(ctx, row, s)
}

func (f *recorderFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return drivertest.GetEach(ctx, f, rows, s)
}

func (f *recorderFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	f.r.note(r.Start, r.End)
	for _, b := range r.Each {
		f.r.note(b.Start, b.End)
	}
	f.noteSlice(r.Cells)
	return f.Family.Scan(ctx, r)
}

func (f *recorderFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	for _, m := range mutations {
		f.r.note(m.Row)
		f.r.note(m.Deletes...)
		f.noteCells(m.Puts)
	}
	return f.Family.Apply(ctx, mutations...)
}

func (f *recorderFamily) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	for _, r := range replacements {
		f.r.note(r.Row)
		f.r.note(r.Deletes...)
		f.noteCells(append([]driver.Cell{r.Seen}, r.Puts...))
	}
	return f.Family.Replace(ctx, replacements...)
}

func (f *recorderFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	f.r.note(row)
	f.noteCells(append(puts, expect))
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

// Nothing that a driver is given holds a plaintext, a name or a key.
func TestCanaryAtTheDriver(t *testing.T) {
	r := &recorder{DB: drivertest.NewMemory()}
	st, err := Open(context.Background(), r, kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl := useEverything(t, st)
	search(t, "driver", r.all.Bytes(), secrets(t, testMaster, tbl))
	require.Contains(t, r.all.String(), canaryPlain, "the search is blind")
	require.Greater(t, r.all.Len(), 10_000)
}

// Nor does any file of the embedded database, in its log or its tables, nor any value in it.
func TestCanaryOnDisk(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := pebble.Open(dir, nil)
	require.NoError(t, err)
	st, err := Open(ctx, db, kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl := useEverything(t, st)
	all := secrets(t, testMaster, tbl)
	specs := []driver.FamilySpec{catalogueSpec, tbl.now().Spec, tbl.now().PostingSpec}
	for _, name := range []string{canaryCells, canaryTenants} {
		other, err := st.Table(ctx, name)
		require.NoError(t, err)
		specs = append(specs, other.now().Spec, other.now().PostingSpec)
	}
	files := func() (n int, found bool) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) { // the engine replaced it meanwhile
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				n++
				found = found || bytes.Contains(b, []byte(canaryPlain))
				search(t, path, append([]byte(path), b...), all)
			}
			return err
		}))
		return n, found
	}
	n, found := files()
	require.Greater(t, n, 2)
	require.True(t, found, "the search is blind")
	// Opening again writes what is in the log to tables, which may be compressed: their values
	// are looked at as the database returns them.
	require.NoError(t, db.Close())
	db, err = pebble.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	n, _ = files()
	require.Greater(t, n, 2)
	var values bytes.Buffer
	for _, spec := range specs {
		f, err := db.Family(ctx, spec)
		require.NoError(t, err)
		for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			values.Write(row.Key)
			for _, c := range row.Cells {
				values.Write(slices.Concat([]byte{'\n'}, c.Qualifier, []byte{'\n'}, c.Value))
			}
		}
	}
	search(t, "values", values.Bytes(), all)
	require.Contains(t, values.String(), canaryPlain, "the search is blind")
}

// Nor does any byte to or from a server.
func TestCanaryOnTheWire(t *testing.T) {
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		if !kind.Server {
			return
		}
		var wire bytes.Buffer
		st, err := Open(context.Background(), kind.Open(t, &wire), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		tbl := useEverything(t, st)
		search(t, "wire", wire.Bytes(), secrets(t, testMaster, tbl))
		require.Contains(t, wire.String(), canaryPlain, "the search is blind")
	})
}

// Logs, spans and metrics tell what happened, and nothing of the values, nor names.
func TestCanaryInObservability(t *testing.T) {
	ctx := context.Background()
	watch := newTelemetry()
	db := drivertest.NewMemory()
	down := false
	st, err := Open(ctx, drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
		if down {
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	}), kms.NewLocal(testMaster), watch.options())
	require.NoError(t, err)
	tbl := useEverything(t, st)
	// A row that cannot be read is replaced, which is worth a line.
	key, err := bykey.ExactKey(ctx, tbl.now(), canaryRow(1))
	require.NoError(t, err)
	require.NoError(t, tbl.now().Data.Apply(ctx, driver.Mutation{Row: key, Puts: []driver.Cell{{Qualifier: rowcodec.KeyQualifier, Value: []byte("broken")}}}))
	_, err = tbl.Get(ctx, canaryRow(1))
	require.ErrorIs(t, err, ErrTampered)
	require.NoError(t, tbl.Put(ctx, canaryRow(1)))
	// What goes wrong names tables, columns and tenants to the caller.
	for name, err := range map[string]error{
		canaryTable: st.Alter(ctx, canaryTable, AddColumn(PlainColumn("CanaryPlain", String))),
		canaryCells: st.RenameTable(ctx, canaryTable, canaryCells), canaryGone: st.DropTenant(ctx, canaryGone),
		"CanaryToken": tbl.Put(ctx, Row{"CanaryPartHashed": "canary-hashed-part", "CanaryPartOrdered": canaryTime, "CanaryToken": 1}),
	} {
		require.ErrorContains(t, err, name)
	}
	all := secrets(t, testMaster, tbl)
	down = true
	require.Error(t, tbl.Put(ctx, canaryRow(1)))
	for _, err := range tbl.Query(ctx, Query{Where: Field[string]("CanaryNote").Equal("canary-note")}) {
		require.Error(t, err)
	}
	_, err = st.Table(ctx, canaryTable)
	require.Error(t, err)

	all["row key"], all["row key, hex"] = key, []byte(hex.EncodeToString(key))
	all["row key, quoted"] = fmt.Appendf(nil, "%q", key)[1:20]
	all["value of CanaryPlain"] = []byte(canaryPlain)
	traces, metrics, log := watch.spansText(), watch.metricsText(t), watch.log.String()
	search(t, "spans", []byte(traces), all)
	search(t, "metrics", []byte(metrics), all)
	for name := range all { // an error in a log may say how a column is stored
		if strings.HasPrefix(name, "text ") {
			delete(all, name)
		}
	}
	search(t, "log", []byte(log), all)
	require.NotContains(t, traces+metrics+log, "Canary")
	for _, want := range []string{
		"rangecrypt.create", "rangecrypt.put", "rangecrypt.get", "rangecrypt.query", "rangecrypt.page", "rangecrypt.delete",
		"db.collection.name=" + tbl.now().Family(), "rangecrypt.rows=50", "Error", "error.type=store.ErrTampered", "Get " + tbl.now().Family(),
	} {
		require.Contains(t, traces, want)
	}
	for _, want := range []string{"rangecrypt.operation.duration", "db.client.operation.duration", "db.collection.name=" + tbl.now().Family()} {
		require.Contains(t, metrics, want)
	}
	require.Contains(t, log, "a row that could not be read is replaced")
	require.Contains(t, log, "database unavailable")
}
