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

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// goldenDump is a database that the first version wrote. Every later one must read it.
const goldenDump = "../testdata/vectors/table-1.json"

var writeGolden = flag.Bool("store.golden", false, "write the golden database anew; only before a version is released")

// A dump is all that a database holds, with the key and what the tables are known to hold.
type dump struct {
	Comment  string                         `json:"comment"`
	Key      string                         `json:"key"` // master key, hex
	Families []familyDump                   `json:"families"`
	Tables   map[string][]map[string]string `json:"tables"` // rows in the order of their keys
}

type familyDump struct {
	Name        string    `json:"name"`
	Layout      string    `json:"layout"`
	PrefixBytes int       `json:"prefix_bytes"`
	SpreadBits  int       `json:"spread_bits"`
	Rows        []rowDump `json:"rows"`
}

type rowDump struct {
	Key   string      `json:"key"`
	Cells [][2]string `json:"cells"` // qualifier and value
}

// specDB remembers how families were opened.
type specDB struct {
	driver.DB
	specs map[string]driver.FamilySpec
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
		f := familyDump{Name: name, Layout: layoutText(spec.Layout), PrefixBytes: spec.PrefixBytes, SpreadBits: spec.SpreadBits, Rows: []rowDump{}}
		family, err := db.DB.Family(background, spec)
		require.NoError(t, err)
		for row, err := range family.Scan(background, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			r := rowDump{Key: hex.EncodeToString(row.Key)}
			for _, c := range row.Cells {
				r.Cells = append(r.Cells, [2]string{hex.EncodeToString(c.Qualifier), hex.EncodeToString(c.Value)})
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
	cells.Name, cells.Layout = "cell per column", store.CellPerColumn
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
				store.OrderedColumn("level", store.Int16, store.KerschbaumPublished), store.OrderedColumn("ratio", store.Float64, store.WozniakIndexed),
				store.OrderedColumn("count", store.Uint32, store.Wozniak), store.OrderedColumn("public", store.Int8, store.PlaintextIndexed),
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
	db := specDB{drivertest.NewMemory(), map[string]driver.FamilySpec{}}
	st, err := store.Open(background, db, key, nil)
	require.NoError(t, err)
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
		for _, r := range f.Rows {
			m := driver.Mutation{Row: unhex(r.Key)}
			for _, c := range r.Cells {
				m.Puts = append(m.Puts, driver.Cell{Qualifier: unhex(c[0]), Value: unhex(c[1])})
			}
			require.NoError(t, family.Apply(background, m))
		}
	}
	return db
}

func readDump(t *testing.T) (d dump) {
	t.Helper()
	b, err := os.ReadFile(goldenDump)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &d))
	return d
}

// A database that the first version wrote is read: the schemas, every row, and rows by the
// postings of every searched column; and it can be written to.
func TestFirstFormatStaysReadable(t *testing.T) {
	if *writeGolden {
		key, err := ope.NewKey(bytes.Repeat([]byte{0x52}, ope.KeySize))
		require.NoError(t, err)
		b, err := json.MarshalIndent(formatDump(t, key), "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(goldenDump, append(b, '\n'), 0o644))
	}
	d := readDump(t)
	secret, err := hex.DecodeString(d.Key)
	require.NoError(t, err)
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	st, err := store.Open(background, loaded(t, d), key, nil)
	require.NoError(t, err)
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
		require.Equal(t, want[schema.Name].Layout, schema.Layout)
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

func described(s store.Schema) (lines []string) {
	for _, p := range s.Key {
		lines = append(lines, p.Describe())
	}
	for _, c := range s.Columns {
		lines = append(lines, c.Describe())
	}
	return lines
}

// docs/format.md is enough to read a table: a reader written from it, which shares nothing with
// this code, reads what was just written and what the first version wrote.
func TestIndependentReader(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("RANGECRYPT_REQUIRE"), ","), "python") {
			t.Fatal("RANGECRYPT_REQUIRE names python, but there is no python3")
		}
		t.Skip("needs python3")
	}
	fresh := formatDump(t, ope.GenerateKey())
	file := filepath.Join(t.TempDir(), "dump.json")
	b, err := json.Marshal(fresh)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b, 0o600))
	read := func(file string) ([]byte, error) {
		cmd := exec.Command(python, "../testdata/reference/tables.py", file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &stderr)
		}
		return out, err
	}
	for file, d := range map[string]dump{file: fresh, goldenDump: readDump(t)} {
		out, err := read(file)
		require.NoError(t, err)
		var got map[string][]map[string]string
		require.NoError(t, json.Unmarshal(out, &got))
		require.Len(t, got, len(formatSchemas()))
		for name, rows := range got {
			require.Equal(t, sorted(d.Tables[name]), sorted(rows), name)
		}
	}

	// The reader is no rubber stamp.
	indexes := 0
	for i := range fresh.Families {
		rows := fresh.Families[i].Rows
		if len(rows) == 0 {
			continue
		}
		was := rows[0]
		rows[0].Key = was.Key[:len(was.Key)-2] + map[bool]string{true: "00", false: "01"}[strings.HasSuffix(was.Key, "01")]
		b, err := json.Marshal(fresh)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, b, 0o600))
		_, err = read(file)
		require.Error(t, err, "a changed row key in family %s", fresh.Families[i].Name)
		rows[0] = was
		if fresh.Families[i].Name[0] != 'i' {
			continue
		}
		for _, row := range rows { // of the index: a changed record of each unit that has some
			for j, cell := range row.Cells {
				if len(cell[0]) < 2*len("0123456789abcdef") {
					continue
				}
				row.Cells[j][1] = cell[1][:len(cell[1])-1] + map[bool]string{true: "0", false: "1"}[strings.HasSuffix(cell[1], "1")]
				b, err := json.Marshal(fresh)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, b, 0o600))
				_, err = read(file)
				require.Error(t, err, "a changed record")
				row.Cells[j] = cell
				indexes++
				break
			}
		}
	}
	require.Greater(t, indexes, 4)
}
