package store_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// goldenDump is a database that the first version wrote. Every later one must read it.
const goldenDump = "../testdata/vectors/table-1.json"

// goldenExpiry is one that the first version with rows that expire wrote.
const goldenExpiry = "../testdata/vectors/expiry-1.json"

// goldenCopies is one that the first version with copies of rows in postings wrote.
const goldenCopies = "../testdata/vectors/covering-1.json"

// goldenReplaced is one that the first version with copies of rows in conditional tables wrote.
const goldenReplaced = "../testdata/vectors/covering-2.json"

// goldenChosen is one that the first version with copies of some columns wrote.
const goldenChosen = "../testdata/vectors/covering-3.json"

// goldenServed is one that the first version with indexes of the database wrote.
const goldenServed = "../testdata/vectors/served-1.json"

// goldenTenants is one that the first version with tenants wrote.
const goldenTenants = "../testdata/vectors/tenants-1.json"

var writeGolden = flag.String("store.golden", "", "name of the golden database that is written again; only before a version is released")

// A dump is all that a database holds, with the key and what the tables are known to hold.
type dump struct {
	Comment  string                         `json:"comment"`
	Key      string                         `json:"key"` // master key, hex
	Families []familyDump                   `json:"families"`
	Tables   map[string][]map[string]string `json:"tables"` // rows in the order of their keys

	Tenants map[string]map[string][]map[string]string `json:"tenants,omitempty"` // rows, by table and tenant
	Orphans map[string]int                            `json:"orphans,omitempty"` // rows of tenants that are gone, by table

	Now int64 `json:"now,omitempty"` // seconds since 1970, by which rows have expired

	Dangling map[string]int      `json:"dangling,omitempty"` // postings that point to nothing, by table
	Schemas  map[string][]string `json:"schemas,omitempty"`  // the parts and columns of a table, in words

	Elsewhere map[string][]elsewhereCell `json:"elsewhere,omitempty"` // of tables that the application keeps
}

type familyDump struct {
	Name        string    `json:"name"`
	Layout      string    `json:"layout"`
	PrefixBytes int       `json:"prefix_bytes"`
	SpreadBits  int       `json:"spread_bits"`
	Rows        []rowDump `json:"rows"`

	Indexes []string `json:"indexes,omitempty"` // that the database keeps
}

type rowDump struct {
	Key   string      `json:"key"`
	Cells [][2]string `json:"cells"` // qualifier and value

	Indexed map[string]string `json:"indexed,omitempty"` // what the row has in indexes, by their names
}

// specDB remembers how families were opened, and which indexes they got.
type specDB struct {
	driver.DB
	specs   map[string]driver.FamilySpec
	indexes map[string][]string
}

func newSpecDB(db driver.DB) specDB {
	return specDB{db, make(map[string]driver.FamilySpec), make(map[string][]string)}
}

func (db specDB) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	db.indexes[spec.Name] = append(db.indexes[spec.Name], name)
	return driver.AddIndex(ctx, db.DB, spec, name)
}

func (db specDB) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	db.indexes[spec.Name] = slices.DeleteFunc(db.indexes[spec.Name], func(n string) bool { return n == name })
	return driver.DropIndex(ctx, db.DB, spec, name)
}

func (db specDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	db.specs[spec.Name] = spec
	return db.DB.Family(ctx, spec)
}

func layoutText(l driver.Layout) string {
	return map[driver.Layout]string{driver.LayoutOrdered: "ordered", driver.LayoutWide: "wide"}[l]
}

// dumped returns the families of the database.
func dumped(t *testing.T, db specDB) []familyDump {
	t.Helper()
	names, err := db.Families(background)
	require.NoError(t, err)
	families := []familyDump{}
	for _, name := range names {
		spec := db.specs[name]
		f := familyDump{Name: name, Layout: layoutText(spec.Layout), PrefixBytes: spec.PrefixBytes, SpreadBits: spec.SpreadBits, Rows: []rowDump{}, Indexes: db.indexes[name]}
		family, err := db.DB.Family(background, spec)
		require.NoError(t, err)
		for row, err := range family.Scan(background, driver.Range{AnyOrder: true, Cells: driver.Slice{Indexes: f.Indexes}}) {
			require.NoError(t, err)
			r := rowDump{Key: hex.EncodeToString(row.Key)}
			for _, c := range row.Cells {
				r.Cells = append(r.Cells, [2]string{hex.EncodeToString(c.Qualifier), hex.EncodeToString(c.Value)})
				for _, v := range c.Index {
					if v.Value != nil {
						if r.Indexed == nil {
							r.Indexed = make(map[string]string)
						}
						r.Indexed[v.Index] = hex.EncodeToString(v.Value)
					}
				}
			}
			f.Rows = append(f.Rows, r)
		}
		slices.SortFunc(f.Rows, func(a, b rowDump) int { return cmp.Compare(a.Key, b.Key) })
		families = append(families, f)
	}
	return families
}

// formatSchemas are tables in which every type, part, column and layout occurs.
func formatSchemas() []store.Schema {
	byKey := store.Schema{
		Name: "by key",
		Key: []store.KeyPart{
			store.HashedPart("device", store.String), store.OrderedPart("time", store.Time(time.Millisecond), store.MOPE),
			store.PlainPart("shard", store.Bytes), store.OrderedPart("label", store.String, store.Boldyreva), store.TiePart("tie"),
		},
		Columns: []store.Column{
			store.OrderedColumn("temperature", store.Float64, store.MOPE), store.DeterministicColumn("site", store.String),
			store.OrderedColumn("note", store.String, store.Boldyreva), store.RandomisedColumn("secret", store.Bytes),
			store.PlainColumn("valid", store.Bool), store.OrderedColumn("public", store.Uint16, store.Plaintext),
			store.RandomisedColumn("never", store.Int8),
		},
	}
	cells := byKey
	cells.Name, cells.CellPerColumn = "cell per column", cellPerColumn
	return []store.Schema{byKey, cells,
		{
			Name: "by column",
			Key:  []store.KeyPart{store.HashedPart("id", store.UUID)},
			Columns: []store.Column{
				store.OrderedColumn("int8", store.Int8, store.Boldyreva), store.OrderedColumn("int16", store.Int16, store.MOPE),
				store.OrderedColumn("int32", store.Int32, store.MOPE), store.OrderedColumn("int64", store.Int64, store.MOPE),
				store.OrderedColumn("uint8", store.Uint8, store.MOPE), store.OrderedColumn("uint16", store.Uint16, store.Boldyreva),
				store.OrderedColumn("uint32", store.Uint32, store.MOPE), store.OrderedColumn("uint64", store.Uint64, store.MOPE),
				store.OrderedColumn("float32", store.Float32, store.Boldyreva), store.OrderedColumn("bool", store.Bool, store.Boldyreva),
				store.OrderedColumn("date", store.Date, store.MOPE), store.OrderedColumn("ipv4", store.IPv4, store.Boldyreva),
				store.OrderedColumn("ipv6", store.IPv6, store.Boldyreva), store.OrderedColumn("bytes", store.Bytes, store.MOPE),
				store.OrderedColumn("seconds", store.Time(time.Second), store.Boldyreva), store.OrderedColumn("micros", store.Time(time.Microsecond), store.MOPE),
				store.DeterministicColumn("nanos", store.Time(time.Nanosecond)), store.OrderedColumn("price", store.Decimal(2), store.MOPE),
				store.OrderedColumn("percent", store.Int64.Within(-5, 100), store.MOPE), store.DeterministicColumn("uuid", store.UUID),
			},
			SpreadBits: 6,
		},
		{
			Name: "stateful",
			Key: []store.KeyPart{
				store.HashedPart("id", store.Uint8), store.OrderedPart("seconds", store.Time(time.Second), store.Wozniak),
				store.OrderedPart("path", store.String, store.WozniakIndexed),
			},
			Columns: []store.Column{
				store.OrderedColumn("amount", store.Int64, store.Kerschbaum), store.OrderedColumn("name", store.String, store.Kerschbaum),
				store.OrderedColumn("level", store.Int16, compare.KerschbaumPublished), store.OrderedColumn("ratio", store.Float64, store.WozniakIndexed),
				store.OrderedColumn("count", store.Uint32, store.Wozniak), store.OrderedColumn("public", store.Int8, compare.PlaintextIndexed),
				store.OrderedColumn("shared", store.Int64, store.Kerschbaum).SharedWith("stateful", "amount"),
				store.OrderedColumn("wide", store.Int16, store.WozniakIndexed).DatabaseWide(), store.DeterministicColumn("token", store.String).DatabaseWide(),
			},
		},
		{
			Name:       "ordered key",
			Key:        []store.KeyPart{store.OrderedPart("value", store.Int32, store.MOPE), store.TiePart("id")},
			SpreadBits: -1,
		},
		{
			Name:    "plain",
			Key:     []store.KeyPart{store.PlainPart("id", store.Uint32), store.OrderedPart("when", store.Date, store.Plaintext)},
			Columns: []store.Column{store.OrderedColumn("value", store.Int16, store.Plaintext), store.PlainColumn("text", store.String)},
		},
	}
}

func formatRows() map[string][]store.Row {
	at := time.Date(2024, 2, 29, 12, 0, 0, 123_000_000, time.UTC)
	day := encode.CivilDate{Year: 2024, Month: 2, Day: 29}
	ip6 := netip.MustParseAddr
	rows := map[string][]store.Row{
		"by column": {
			{"id": [16]byte{1}},
			{"id": [16]byte{2}, "int8": int8(-128), "int16": int16(-2), "int32": int32(math.MinInt32), "int64": int64(math.MinInt64), "uint8": uint8(0), "uint16": uint16(0),
				"uint32": uint32(0), "uint64": uint64(0), "float32": float32(math.Inf(-1)), "bool": false, "date": encode.CivilDate{Year: 1969, Month: 12, Day: 31},
				"ipv4": ip6("0.0.0.0"), "ipv6": ip6("::"), "bytes": []byte{}, "seconds": time.Unix(-1, 0).UTC(), "micros": time.Unix(-1, 1000).UTC(),
				"nanos": time.Unix(-1, 1).UTC(), "price": encode.Decimal{Unscaled: big.NewInt(-1250), Scale: 2}, "percent": int64(-5), "uuid": [16]byte{}},
			{"id": [16]byte{3}, "int8": int8(127), "int16": int16(300), "int32": int32(math.MaxInt32), "int64": int64(math.MaxInt64), "uint8": uint8(255), "uint16": uint16(65535),
				"uint32": uint32(math.MaxUint32), "uint64": uint64(math.MaxUint64), "float32": float32(-1.5), "bool": true, "date": day,
				"ipv4": ip6("255.255.255.255"), "ipv6": ip6("2001:db8::1"), "bytes": []byte("long enough for a shared prefix"), "seconds": at.Truncate(time.Second), "micros": at,
				"nanos": at, "price": encode.Decimal{Unscaled: big.NewInt(5), Scale: 2}, "percent": int64(100), "uuid": [16]byte{15: 255}},
		},
		"plain": {
			{"id": uint32(7), "when": day, "value": int16(-300), "text": "seen by all"},
			{"id": uint32(7), "when": encode.CivilDate{Year: 1900, Month: 1, Day: 1}, "value": int16(300)},
			{"id": uint32(math.MaxUint32), "when": day},
		},
	}
	for i := range 5 {
		rows["ordered key"] = append(rows["ordered key"], store.Row{"value": int32(i-2) << 20, "id": [16]byte{byte(i)}})
		rows["stateful"] = append(rows["stateful"], store.Row{
			"id": uint8(i % 2), "seconds": at.Truncate(time.Second).Add(time.Duration(i) * time.Second), "path": "a path longer than the prefix " + strconv.Itoa(i/2),
			"amount": int64(i-2) * 1_000_000_007, "name": strings.Repeat("n", i*4), "level": int16(i * 100), "ratio": float64(i) - 1.5,
			"count": uint32(i), "public": int8(-i),
			"shared": int64(i-2) * 7, "wide": int16(i / 2), "token": "t",
		})
		rows["by key"] = append(rows["by key"], store.Row{
			"device": "pump-" + strconv.Itoa(i%2), "time": at.Add(time.Duration(i) * time.Hour), "shard": []byte{0, byte(i), 0xff}, "label": "a label longer than the prefix " + strconv.Itoa(i),
			"tie": [16]byte{byte(i)}, "temperature": float64(i)*10.25 - 20, "site": "Süd", "note": strings.Repeat("n", i*4), "secret": []byte{byte(i)},
			"valid": i%2 == 0, "public": uint16(i),
		})
	}
	delete(rows["by key"][4], "temperature")
	rows["cell per column"] = rows["by key"]
	return rows
}

// formatDump writes the tables into a new database: with rows that were replaced or deleted, and a
// table that was dropped.
func formatDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	db := newSpecDB(drivertest.NewMemory())
	st, err := store.Open(background, db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	rows := formatRows()
	d := dump{Comment: "A database as store wrote it, see docs/format.md.", Key: hex.EncodeToString(key.Secret()), Tables: map[string][]map[string]string{}}
	for _, schema := range formatSchemas() {
		tbl := create(t, st, schema)
		require.NotEmpty(t, rows[schema.Name])
		require.NoError(t, tbl.Put(background, rows[schema.Name]...))
		first := maps.Clone(rows[schema.Name][0])
		require.NoError(t, tbl.Delete(background, first))
		require.NoError(t, tbl.Put(background, rows[schema.Name]...))
		if schema.Name == "cell per column" {
			require.NoError(t, st.RotateKeys(background, schema.Name))
			require.NoError(t, tbl.Put(background, rows[schema.Name][2:]...))
		}
		if schema.Name == "stateful" {
			_, err := tbl.Rebalance(background, "amount", nil)
			require.NoError(t, err)
			other := maps.Clone(rows[schema.Name][1])
			other["amount"] = int64(-5)
			require.NoError(t, tbl.Put(background, other)) // a value that no row has by the end
			require.NoError(t, tbl.Put(background, rows[schema.Name][1]))
		}
		d.Tables[schema.Name] = texts(rows[schema.Name])
	}
	create(t, st, store.Schema{Name: "dropped", Key: []store.KeyPart{store.HashedPart("k", store.String)}})
	require.NoError(t, st.Drop(background, "dropped"))
	d.Families = dumped(t, db)
	return d
}

// texts returns rows with their values as texts, in an order of their own.
func texts(rows []store.Row) []map[string]string {
	all := []map[string]string{}
	for _, row := range rows {
		m := map[string]string{}
		for name, v := range row {
			if v != nil {
				m[name] = valueText(name, v)
			}
		}
		all = append(all, m)
	}
	return sorted(all)
}

func sorted(rows []map[string]string) []map[string]string {
	key := func(m map[string]string) string {
		b, err := json.Marshal(m) // in the order of the names
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	slices.SortFunc(rows, func(a, b map[string]string) int { return strings.Compare(key(a), key(b)) })
	return rows
}

func valueText(name string, v any) string {
	switch v := v.(type) {
	case [16]byte:
		return hex.EncodeToString(v[:])
	case []byte:
		return hex.EncodeToString(v)
	case float32:
		return fmt.Sprintf("%08x", math.Float32bits(v))
	case float64:
		return fmt.Sprintf("%016x", math.Float64bits(v))
	case encode.CivilDate:
		return fmt.Sprintf("%04d-%02d-%02d", v.Year, v.Month, v.Day)
	case time.Time:
		switch name {
		case "seconds":
			return fmt.Sprint(v.Unix(), " s")
		case "nanos":
			return fmt.Sprint(v.UnixNano(), " ns")
		case "micros":
			return fmt.Sprint(v.UnixMicro(), " us")
		}
		return fmt.Sprint(v.UnixMilli(), " ms")
	}
	return fmt.Sprint(v)
}

// loaded returns a database with the content of a dump.
func loaded(t *testing.T, d dump) driver.DB {
	t.Helper()
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	db := drivertest.NewMemory()
	for _, f := range d.Families {
		spec := driver.FamilySpec{Name: f.Name, Layout: driver.LayoutOrdered, PrefixBytes: f.PrefixBytes, SpreadBits: f.SpreadBits}
		if f.Layout == layoutText(driver.LayoutWide) {
			spec.Layout = driver.LayoutWide
		}
		family, err := db.Family(background, spec)
		require.NoError(t, err)
		for _, name := range f.Indexes {
			require.NoError(t, driver.AddIndex(background, db, spec, name))
		}
		for _, r := range f.Rows {
			m := driver.Mutation{Row: unhex(r.Key)}
			for _, c := range r.Cells {
				m.Puts = append(m.Puts, driver.Cell{Qualifier: unhex(c[0]), Value: unhex(c[1])})
			}
			for name, v := range r.Indexed {
				m.Puts[0].Index = append(m.Puts[0].Index, driver.IndexValue{Index: name, Value: unhex(v)})
			}
			require.NoError(t, family.Apply(background, m))
		}
	}
	return db
}

func readDump(t *testing.T, file string) (d dump) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &d))
	return d
}

// A database that the first version wrote is read: the schemas, every row, and rows by the
// postings of every searched column; and it can be written to.
func TestFirstFormatStaysReadable(t *testing.T) {
	d := golden(t, goldenDump, formatDump)
	st := openDump(t, d)
	schemas, err := st.Tables(background)
	require.NoError(t, err)
	require.Len(t, schemas, len(d.Tables))
	want := map[string]store.Schema{}
	for _, s := range formatSchemas() {
		want[s.Name] = s
	}
	for _, schema := range schemas {
		tbl, err := st.Table(background, schema.Name)
		require.NoError(t, err)
		require.Equal(t, described(want[schema.Name]), described(schema))
		require.Equal(t, want[schema.Name].CellPerColumn, schema.CellPerColumn)
		var rows []store.Row
		for row, err := range tbl.Query(background, store.Query{}) {
			require.NoError(t, err)
			rows = append(rows, row)
		}
		require.NotEmpty(t, rows)
		require.Equal(t, sorted(d.Tables[schema.Name]), texts(rows), schema.Name)
		require.NoError(t, tbl.Put(background, rows...), "it is written to as before")
	}
	tbl, err := st.Table(background, "by column")
	require.NoError(t, err)
	for _, where := range []store.Predicate{
		store.Field[int8]("int8").AtLeast(0), store.Field[int64]("int64").Greater(0), store.Field[uint64]("uint64").Greater(1),
		store.Field[float32]("float32").AtLeast(-2), store.Field[[]byte]("bytes").AtLeast([]byte("long")), store.Field[bool]("bool").Equal(true),
		store.Field[int64]("percent").Between(99, 200), store.Field[[16]byte]("uuid").Equal([16]byte{15: 255}),
		store.Field[netip.Addr]("ipv6").Equal(netip.MustParseAddr("2001:db8::1")), store.Field[[16]byte]("id").Equal([16]byte{3}),
	} {
		rows, next, err := tbl.Page(background, store.Query{Where: where, Limit: 5})
		require.NoError(t, err)
		require.Empty(t, next)
		require.Len(t, rows, 1)
		require.Equal(t, [16]byte{3}, rows[0]["id"])
	}
}

// Headers of indexes that the first version wrote have bounds in the clear. Whatever writes them
// again seals them.
func TestFirstHeadersAreSealed(t *testing.T) {
	d := golden(t, goldenDump, formatDump)
	db := newSpecDB(loaded(t, d))
	for _, f := range d.Families {
		db.specs[f.Name] = driver.FamilySpec{Name: f.Name, Layout: driver.LayoutOrdered, PrefixBytes: f.PrefixBytes, SpreadBits: f.SpreadBits}
		if f.Layout == layoutText(driver.LayoutWide) {
			db.specs[f.Name] = driver.FamilySpec{Name: f.Name, Layout: driver.LayoutWide}
		}
	}
	bounds := func() (units []string) {
		for _, f := range dumped(t, db) {
			for _, r := range f.Rows {
				if slices.ContainsFunc(r.Cells, func(c [2]string) bool { return strings.Contains(c[1], hex.EncodeToString([]byte("domain="))) }) {
					units = append(units, r.Key)
				}
			}
		}
		return units
	}
	require.Len(t, bounds(), 7, "as it was written")
	key, err := hex.DecodeString(d.Key)
	require.NoError(t, err)
	master, err := ope.NewKey(key)
	require.NoError(t, err)
	st, err := store.Open(background, db, kms.NewLocal(master), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	tbl, err := st.Table(background, "stateful")
	require.NoError(t, err)
	row := maps.Clone(formatRows()["stateful"][0])
	row["path"], row["ratio"], row["wide"] = "values", 77.5, int16(-9) // which are new to their indexes
	require.NoError(t, tbl.Put(background, row))
	for _, column := range []string{"amount", "name", "level"} {
		_, err := tbl.Rebalance(background, column, nil)
		require.NoError(t, err)
	}
	require.Len(t, bounds(), 1, "the header of an epoch that was over before")
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[int64]("amount").AtLeast(0)}), 3)
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[float64]("ratio").AtLeast(77)}), 1)
}

// Indexes that the first version wrote are made again from the rows.
func TestFirstIndexesAreRebuilt(t *testing.T) {
	st := openDump(t, golden(t, goldenDump, formatDump))
	tbl, err := st.Table(background, "stateful")
	require.NoError(t, err)
	before := texts(collect(t, tbl, store.Query{}))
	for _, column := range []string{"path", "amount", "name", "level", "ratio", "public", "shared", "wide"} {
		require.NoError(t, tbl.RebuildIndex(background, column, nil), column)
	}
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, before, texts(collect(t, tbl, store.Query{})))
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[int64]("amount").AtLeast(0)}), 3)
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[float64]("ratio").AtLeast(0)}), 3)
	require.NoError(t, tbl.Put(background, formatRows()["stateful"]...))
}

// golden returns what is in a file, which is written again before if that is asked for by its name.
func golden(t *testing.T, file string, write func(*testing.T, ope.Key) dump) dump {
	t.Helper()
	if *writeGolden != "" && *writeGolden == filepath.Base(file) {
		key, err := ope.NewKey(bytes.Repeat([]byte{0x52}, ope.KeySize))
		require.NoError(t, err)
		b, err := json.MarshalIndent(write(t, key), "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(b, '\n'), 0o644))
	}
	return readDump(t, file)
}

func openDump(t *testing.T, d dump) *store.Store {
	t.Helper()
	secret, err := hex.DecodeString(d.Key)
	require.NoError(t, err)
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	st, err := store.Open(background, loaded(t, d), kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	return st
}

// tenantSchemas are tables with tenants: of each kind of column that has a key of its own, and of both
// layouts.
func tenantSchemas() []store.Schema {
	packed := store.Schema{
		Name: "packed", Tenants: true,
		Key: []store.KeyPart{store.HashedPart("id", store.Int64), store.OrderedPart("seconds", store.Time(time.Second), store.MOPE)},
		Columns: []store.Column{
			store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String), store.RandomisedColumn("size", store.Int64),
			store.DeterministicColumn("user", store.String), store.OrderedColumn("level", store.Int16, store.Kerschbaum),
			store.OrderedColumn("ratio", store.Float64, store.WozniakIndexed), store.DeterministicColumn("wide", store.String).DatabaseWide(),
			store.OrderedColumn("public", store.Int8, store.Plaintext),
		},
	}
	cells := packed
	cells.Name, cells.CellPerColumn = "cell per column", cellPerColumn
	cells.Key = []store.KeyPart{store.PlainPart("id", store.Int64), store.HashedPart("user", store.String)}
	cells.Columns = []store.Column{
		store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String), store.RandomisedColumn("size", store.Int64),
		store.OrderedColumn("level", store.Int16, store.Kerschbaum).SharedWith("packed", "level"),
		store.DeterministicColumn("of", store.String).SharedWith("packed", "user"), store.OrderedColumn("price", store.Decimal(2), store.Boldyreva),
		store.OrderedColumn("wide", store.Int16, store.WozniakIndexed).DatabaseWide(),
	}
	return []store.Schema{packed, cells}
}

func tenantRows(table string) (rows []store.Row) {
	for i := range 9 {
		row := store.Row{"id": int64(i), "note": fmt.Sprint("note ", i), "zone": fmt.Sprint("zone ", i), "size": int64(-i)}
		more := store.Row{
			"seconds": time.Unix(int64(i)<<20, 0).UTC(), "user": fmt.Sprint("user ", i%2), "level": int16(i % 4),
			"ratio": float64(i) / 8, "wide": fmt.Sprint("w", i%3), "public": int8(i),
		}
		if table == "cell per column" {
			more = store.Row{
				"user": fmt.Sprint("user ", i), "level": int16(i % 5), "of": fmt.Sprint("user ", i%3),
				"price": encode.Decimal{Unscaled: big.NewInt(int64(100 - i)), Scale: 2}, "wide": int16(i % 2),
			}
		}
		maps.Copy(row, more)
		rows = append(rows, row)
	}
	delete(rows[1], "zone")
	delete(rows[2], "note")
	return rows
}

// tenantDump writes tables of three tenants into a new database, while their policies and keys
// change, and lets one of the tenants go.
func tenantDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	db := newSpecDB(drivertest.NewMemory())
	st, err := store.Open(background, db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	d := dump{
		Comment: "A database of tenants as store wrote it, see docs/format.md.", Key: hex.EncodeToString(key.Secret()),
		Tables: map[string][]map[string]string{}, Tenants: map[string]map[string][]map[string]string{}, Orphans: map[string]int{},
	}
	names := []string{"alpha", "beta", "gone"}
	for _, name := range names {
		require.NoError(t, st.CreateTenant(background, name))
	}
	for _, schema := range tenantSchemas() {
		unbound, table := create(t, st, schema), schema.Name
		d.Tenants[table], d.Orphans[table] = map[string][]map[string]string{}, 2
		rows := tenantRows(table)
		for _, name := range names {
			tbl, err := unbound.Tenant(background, name)
			require.NoError(t, err)
			put := func(rows ...store.Row) { require.NoError(t, tbl.Put(background, rows...)) }
			policy := func(p store.Policy, unseal ...string) {
				require.NoError(t, st.SetPolicy(background, name, table, p, unseal...))
			}
			switch name {
			case "alpha": // rows of four policies and two keys
				put(rows[:2]...)
				policy(store.Policy{Sensitive: []string{"zone"}}, "note", "size")
				put(rows[2:4]...)
				require.NoError(t, st.RotateTenantKey(background, name))
				policy(store.Policy{Whole: true})
				put(rows[4:6]...)
				policy(store.Policy{}, "note", "zone", "size")
				put(rows[6:]...)
				d.Tenants[table][name] = texts(rows)
			case "beta": // rows that were converted, and others
				policy(store.Policy{}, "note", "size")
				put(rows[:5]...)
				policy(store.Policy{Sensitive: []string{"note", "size", "level"}})
				_, err := tbl.Convert(background, nil)
				require.NoError(t, err)
				require.NoError(t, tbl.Delete(background, rows[0]))
				policy(store.Policy{Sensitive: []string{"zone"}}, "note", "size")
				put(rows[1:3]...)
				d.Tenants[table][name] = texts(rows[1:5])
			default:
				put(rows[:d.Orphans[table]]...)
			}
		}
	}
	require.NoError(t, st.DropTenant(background, "gone"))
	d.Families = dumped(t, db)
	return d
}

// A database of tenants that the first version with tenants wrote is read: every row of every tenant,
// whatever its policy was, also by postings; and it is converted.
func TestFirstTenantsStayReadable(t *testing.T) {
	d := golden(t, goldenTenants, tenantDump)
	st := openDump(t, d)
	names, err := st.Tenants(background)
	require.NoError(t, err)
	require.Equal(t, []string{"alpha", "beta"}, names)
	policy, ok, err := st.Policy(background, "beta", "packed")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, store.Policy{Sensitive: []string{"zone"}}, policy)
	for _, schema := range tenantSchemas() {
		unbound, err := st.Table(background, schema.Name)
		require.NoError(t, err)
		require.Equal(t, described(schema), described(unbound.Schema()))
		check := func() {
			t.Helper()
			for _, name := range names {
				tbl, err := unbound.Tenant(background, name)
				require.NoError(t, err)
				require.NotEmpty(t, d.Tenants[schema.Name][name])
				rows := collect(t, tbl, store.Query{})
				require.Equal(t, sorted(d.Tenants[schema.Name][name]), texts(rows), name)
				require.Equal(t, texts(rows), texts(collect(t, tbl, store.Query{Where: store.Field[int16]("level").AtLeast(0)})))
			}
			report, err := unbound.Verify(background, nil)
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.Equal(t, d.Orphans[schema.Name], report.Orphans)
		}
		check()
		stats, err := unbound.Convert(background, nil)
		require.NoError(t, err)
		require.Equal(t, 13, stats.Rows)
		require.Positive(t, stats.Converted)
		check()
	}
}

// described returns a line for each part and column, with the type as the catalogue has it.
func described(s store.Schema) []string {
	var fields []inspect.Field
	for _, p := range s.Key {
		fields = append(fields, p.Describe())
	}
	for _, c := range s.Columns {
		fields = append(fields, c.Describe())
	}
	return describedFields(fields)
}

func describedFields(fields []inspect.Field) (lines []string) {
	for _, d := range fields {
		typ := must(store.ParseType(d.Type))
		lines = append(lines, strings.Replace(d.String(), ": "+d.Type+",", ": "+store.TypeID(typ)+",", 1))
	}
	return lines
}

// docs/format.md is enough to read a table: a reader written from it, which shares nothing with
// this code, reads what was just written and what the first version wrote.
func TestIndependentReader(t *testing.T) {
	read := independentReader(t)
	for of, c := range map[string]struct {
		golden  []string
		write   func(*testing.T, ope.Key) dump
		indexes int // that have records; 0 where the database is too large to change each of its parts
	}{
		"tables": {[]string{goldenDump}, formatDump, 5}, "tenants": {[]string{goldenTenants}, tenantDump, 2},
		"features": {goldenFeatures, featureDump, 0}, "policies": {goldenPolicies, policyDump, 0},
		"expiry": {[]string{goldenExpiry}, expiryDump, 2}, "copies": {[]string{goldenCopies}, copiesDump, 0},
		"copies of replaced rows": {[]string{goldenReplaced}, replacedDump, 0},
		"copies of some columns":  {[]string{goldenChosen}, chosenDump, 0},
		"server indexes":          {[]string{goldenServed}, servedDump, 0},
		"lease":                   {[]string{goldenLease}, leaseDump, 0},
		"rebalanced":              {[]string{goldenRebalanced}, rebalancedDump, 1},
		"divided":                 {[]string{goldenDivided}, dividedDump, 0},
		"drawn":                   {[]string{goldenDrawn}, drawnDump, 5},
		"ranked":                  {[]string{goldenRanked}, rankedDump, 0},
		"elsewhere":               {[]string{goldenElsewhere}, elsewhereDump, 0},
		"pages":                   {[]string{goldenPages}, pagesDump, 0},
		"parts":                   {[]string{goldenParts}, partsDump, 0},
		"archive":                 {[]string{goldenArchive}, archiveDump, 0},
		"migration":               {[]string{goldenMigration}, migrationDump, 0},
	} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "dump.json")
			fresh := c.write(t, ope.GenerateKey())
			b, err := json.Marshal(fresh)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, b, 0o600))
			dumps := map[string]dump{file: fresh}
			if sim.Full() { // neither they nor their reader change with the program
				for _, name := range c.golden {
					dumps[name] = readDump(t, name)
				}
			}
			for file, d := range dumps {
				out, err := read(file)
				require.NoError(t, err)
				var got struct {
					Tables  map[string][]map[string]string            `json:"tables"`
					Tenants map[string]map[string][]map[string]string `json:"tenants"`
					Orphans map[string]int                            `json:"orphans"`

					Dangling map[string]int `json:"dangling"`

					Elsewhere map[string][]string `json:"elsewhere"`
				}
				require.NoError(t, json.Unmarshal(out, &got))
				require.Len(t, got.Elsewhere, len(d.Elsewhere))
				for name, cells := range d.Elsewhere {
					for i, c := range cells {
						require.Equal(t, c.Value, got.Elsewhere[name][i], "%s of %s", c.Column, name)
					}
				}
				require.Len(t, got.Tables, len(d.Tables))
				for name, rows := range got.Tables {
					require.Equal(t, sorted(d.Tables[name]), sorted(rows), name)
				}
				require.Len(t, got.Tenants, len(d.Tenants))
				for name, tenants := range got.Tenants {
					require.Len(t, tenants, len(d.Tenants[name]))
					for tenant, rows := range tenants {
						require.Equal(t, sorted(d.Tenants[name][tenant]), sorted(rows), name)
					}
					require.Equal(t, d.Orphans[name], got.Orphans[name])
				}
				for name, dangling := range got.Dangling {
					require.Equal(t, d.Dangling[name], dangling, name)
				}
			}
			if c.indexes > 0 && (sim.Long() || sim.Full() && of == "tables") { // each change is a run of the reader
				require.GreaterOrEqual(t, rejected(t, fresh, file, read), c.indexes)
			}
		})
	}
}

// rejected makes sure that the reader is no rubber stamp, and returns in how many units of indexes it
// noticed a change. Of tenants that are gone there is nothing to notice, nor of postings that lead to no row.
func rejected(t *testing.T, d dump, file string, read func(string) ([]byte, error)) (indexes int) {
	t.Helper()
	gone := len(d.Orphans) > 0
	notices := func() bool {
		b, err := json.Marshal(d)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, b, 0o600))
		_, err = read(file)
		return err != nil
	}
	for i := range d.Families {
		rows := d.Families[i].Rows
		noticed := len(rows) == 0
		for j, was := range rows {
			if noticed || j > 0 && !gone && len(d.Dangling) == 0 {
				break
			}
			rows[j].Key = was.Key[:len(was.Key)-2] + map[bool]string{true: "00", false: "01"}[strings.HasSuffix(was.Key, "01")]
			noticed = notices()
			rows[j] = was
		}
		require.True(t, noticed, "a changed row key in family %s", d.Families[i].Name)
		if d.Families[i].Name[0] != 'i' {
			continue
		}
		for _, row := range rows { // of the index: a changed record of each unit that has some
			for j, cell := range row.Cells {
				if len(cell[0]) < 2*len("0123456789abcdef") {
					continue
				}
				row.Cells[j][1] = cell[1][:len(cell[1])-1] + map[bool]string{true: "0", false: "1"}[strings.HasSuffix(cell[1], "1")]
				noticed := notices()
				row.Cells[j] = cell
				require.True(t, noticed || gone, "a changed record")
				if noticed {
					indexes++
				}
				break
			}
		}
	}
	return indexes
}

// independentReader returns a function that reads a dump with testdata/reference/tables.py.
func independentReader(t *testing.T) func(file string) ([]byte, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if sim.Required("python") {
			t.Fatal("RANGECRYPT_REQUIRE names python, but there is no python3")
		}
		t.Skip("needs python3")
	}
	return func(file string) ([]byte, error) {
		cmd := exec.Command(python, "../testdata/reference/tables.py", file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &stderr)
		}
		return out, err
	}
}

// readIndependently puts rows in a table of their own, and requires that the independent reader finds them there.
func readIndependently(t *testing.T, schema store.Schema, rows []store.Row) {
	db := newSpecDB(drivertest.NewMemory())
	key := ope.GenerateKey()
	st, err := store.Open(background, db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	tbl := create(t, st, schema)
	require.NoError(t, tbl.Put(background, rows...))
	d := dump{Key: hex.EncodeToString(key.Secret()), Tables: map[string][]map[string]string{schema.Name: texts(rows)}, Families: dumped(t, db)}
	b, err := json.Marshal(d)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dump.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	out, err := independentReader(t)(file)
	require.NoError(t, err)
	var got struct {
		Tables map[string][]map[string]string `json:"tables"`
	}
	require.NoError(t, json.Unmarshal(out, &got))
	require.Equal(t, d.Tables[schema.Name], sorted(got.Tables[schema.Name]))
}

// Bits that equal values do not share come back from the cells, and what is searched is made of what they share.
func TestIndependentReaderOfFloats(t *testing.T) {
	zero, zero32 := math.Copysign(0, -1), float32(math.Copysign(0, -1))
	readIndependently(t, store.Schema{
		Name: "floats",
		Key:  []store.KeyPart{store.HashedPart("id", store.Float64), store.OrderedPart("at", store.Float32, store.MOPE), store.PlainPart("k", store.Float64)},
		Columns: []store.Column{
			store.OrderedColumn("o", store.Float64, store.MOPE), store.OrderedColumn("m", store.Float64, store.Kerschbaum),
			store.OrderedColumn("c", store.Float32, store.Plaintext), store.DeterministicColumn("d", store.Float32),
			store.OrderedColumn("n", store.Float64, store.KerschbaumRanked), store.RandomisedColumn("r", store.Float64), store.PlainColumn("p", store.Float32),
		},
	}, []store.Row{
		{"id": zero, "at": zero32, "k": zero, "o": zero, "m": zero, "n": zero, "c": zero32, "d": zero32, "r": zero, "p": zero32},
		{"id": 0.0, "at": float32(1), "k": zero, "o": -1.5, "m": 0.0, "n": 0.0, "c": float32(0), "d": float32(0), "r": math.NaN(), "p": math.Float32frombits(0xffc00001)},
	})
}

// Text that is ordered by more than its first eight bytes, or after a beginning.
func TestIndependentReaderOfText(t *testing.T) {
	long, after := store.String.OrderedBy(32), store.String.Prefixed("https://", "http://", "https://www.", "é")
	schema := store.Schema{
		Name: "texts",
		Key:  []store.KeyPart{store.OrderedPart("k", long, store.Boldyreva), store.OrderedPart("a", after, store.Wozniak), store.PlainPart("p", long)},
		Columns: []store.Column{
			store.OrderedColumn("b", store.Bytes.OrderedBy(16), store.Boldyreva), store.OrderedColumn("m", after, store.Kerschbaum),
			store.OrderedColumn("n", after, store.KerschbaumRanked), store.OrderedColumn("s", store.String, store.KerschbaumRanked),
			store.OrderedColumn("c", after, store.Plaintext), store.DeterministicColumn("d", long), store.RandomisedColumn("r", after),
		},
	}
	var rows []store.Row
	for i, x := range []string{"", "\x00", "a", "http://", "http://a", "http:/0", "https://", "https://www.example.org/", "https://www.example.org/a", "\x7f", "é", "éa", "ê", "\U0010ffff"} {
		rows = append(rows, store.Row{"k": x, "a": x + fmt.Sprint(i), "p": x, "b": []byte(x), "m": x, "n": x, "s": x, "c": x, "d": x, "r": x})
	}
	readIndependently(t, schema, rows)
}
