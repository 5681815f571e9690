package store_test

import (
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// goldenElsewhere is a database that the first version wrote which gives keys to tables that the application keeps.
const goldenElsewhere = "../testdata/vectors/elsewhere-1.json"

// An elsewhereCell is what a row of a table that the application keeps has of a column.
type elsewhereCell struct {
	Row    []string `json:"row"` // the values of its primary key, each after its type
	Column string   `json:"column"`
	Search string   `json:"search"`
	Sealed string   `json:"sealed"`
	Value  string   `json:"value"`
}

// elsewhereRows are row keys, with the texts of their values.
var elsewhereRows = []struct {
	key   cell.RowKey
	texts []string
}{
	{cell.Row(0), []string{"int 0"}},
	{cell.Row(127, "süd"), []string{"int 127", "text süd"}},
	{cell.Row(int64(128), []byte{0, 0xff}), []string{"int 128", "blob 00ff"}},
	{cell.Row(int8(-128), true), []string{"int -128", "boolean true"}},
	{cell.Row(-129, [16]byte{15: 1}), []string{"int -129", "uuid 00000000000000000000000000000001"}},
	{cell.Row(time.UnixMilli(-1), netip.MustParseAddr("::1")), []string{"timestamp -1", "inet ::1"}},
	{cell.Row(netip.MustParseAddr("192.0.2.1"), "", 1<<62), []string{"inet 192.0.2.1", "text ", "int 4611686018427387904"}},
}

// elsewhereColumns are a column of each kind, with values.
var elsewhereColumns = []elsewhereColumn{
	elsewhereOf(store.OrderedColumn("amount", store.Int64, store.Boldyreva), store.Int64, -5, 0, 1<<40),
	elsewhereOf(store.OrderedColumn("when", store.Time(time.Millisecond), store.MOPE), store.Time(time.Millisecond), time.UnixMilli(0).UTC(), time.UnixMilli(1.7e12).UTC()),
	elsewhereOf(store.OrderedColumn("ratio", store.Float64, store.Wozniak), store.Float64, -1.5, 0, 1e300),
	elsewhereOf(store.OrderedColumn("path", store.String.OrderedBy(16), store.Boldyreva), store.String, "", "/a/long/path/to/a", "/a/long/path/to/b"),
	elsewhereOf(store.OrderedColumn("name", store.String, store.Boldyreva), store.String, "Meier", "Müller"),
	elsewhereOf(store.DeterministicColumn("site", store.String), store.String, "north", "south"),
	elsewhereOf(store.RandomisedColumn("note", store.Bytes), store.Bytes, []byte{}, []byte("a note")),
}

type elsewhereColumn struct {
	column store.Column
	seal   func(t *testing.T, st *store.Store, table string) []elsewhereCell // all values, for all rows
	check  func(t *testing.T, st *store.Store, table string, c elsewhereCell)
}

func (c elsewhereColumn) name() string { return c.column.Describe().Name }

func elsewhereOf[T any](column store.Column, typ store.TypeOf[T], values ...T) elsewhereColumn {
	name := column.Describe().Name
	open := func(t *testing.T, st *store.Store, table string) *cell.Field[T] {
		f, err := cell.Open(background, st, table, typ.Field(name))
		require.NoError(t, err)
		return f
	}
	return elsewhereColumn{column, func(t *testing.T, st *store.Store, table string) (cells []elsewhereCell) {
		for _, v := range values {
			for _, row := range elsewhereRows {
				c, err := open(t, st, table).Seal(row.key, v)
				require.NoError(t, err)
				cells = append(cells, elsewhereCell{row.texts, name, hex.EncodeToString(c.Search), hex.EncodeToString(c.Sealed), valueText(name, v)})
			}
		}
		return cells
	}, func(t *testing.T, st *store.Store, table string, want elsewhereCell) {
		f := open(t, st, table)
		var key cell.RowKey
		for _, row := range elsewhereRows {
			if len(row.texts) == len(want.Row) && row.texts[0] == want.Row[0] {
				key = row.key
			}
		}
		var c cell.Cell
		var err error
		c.Search, err = hex.DecodeString(want.Search)
		require.NoError(t, err)
		c.Sealed, err = hex.DecodeString(want.Sealed)
		require.NoError(t, err)
		v, err := f.Open(key, c)
		require.NoError(t, err)
		require.Equal(t, want.Value, valueText(name, v), name)
		again, err := f.Seal(key, v)
		require.NoError(t, err)
		require.Equal(t, want.Search, hex.EncodeToString(again.Search), name)
	}}
}

func elsewhereDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "Keys for tables that the application keeps, and cells of these, as store/cell wrote them, see docs/format.md.")
	h.dump.Elsewhere = make(map[string][]elsewhereCell)
	for _, table := range []string{"shop.orders", "empty"} {
		h.dump.Elsewhere[table] = []elsewhereCell{}
		for _, c := range elsewhereColumns {
			require.NoError(t, cell.Register(background, h.st, table, c.column))
			if table != "empty" {
				h.dump.Elsewhere[table] = append(h.dump.Elsewhere[table], c.seal(t, h.st, table)...)
			}
		}
	}
	h.alter("empty", store.DropColumn("amount")) // the version that wrote the golden database also renamed "name" to "title"
	tbl := h.create(store.Schema{Name: "here", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.MOPE)}})
	h.put(tbl, featureRows(0, 3, "i1")...)
	h.dump.Tables["here"] = h.holds(tbl, 3)
	return h.finish()
}

// What the first version sealed for tables of the application opens, and values still have the same ciphertexts and tokens.
func TestFirstCellsElsewhereStayReadable(t *testing.T) {
	d := golden(t, goldenElsewhere, elsewhereDump)
	st := openDump(t, d)
	for g := range goldenTables(t, d, st) {
		g.check()
	}
	described, err := st.Describe(background)
	require.NoError(t, err)
	tables := make(map[string]inspect.Table)
	for _, table := range described.Tables {
		tables[table.Name] = table
	}
	require.Len(t, tables, 3)
	require.Equal(t, inspect.Elsewhere, tables["empty"].Layout)
	require.Empty(t, tables["shop.orders"].Families)
	require.Len(t, tables["shop.orders"].Columns, len(elsewhereColumns))
	require.Len(t, tables["empty"].Columns, len(elsewhereColumns)-1)
	require.Len(t, d.Elsewhere["shop.orders"], 17*len(elsewhereRows))
	for _, c := range d.Elsewhere["shop.orders"] {
		for _, column := range elsewhereColumns {
			if column.name() == c.Column {
				column.check(t, st, "shop.orders", c)
			}
		}
	}
}

// The reference refuses cells that were changed or moved, and values that are found by something else.
func TestIndependentReaderRefusesCellsElsewhere(t *testing.T) {
	read := independentReader(t)
	for what, change := range map[string]func(cells []elsewhereCell){
		"nothing":                 func([]elsewhereCell) {},
		"another row":             func(cells []elsewhereCell) { cells[0].Row = []string{"int 1"} },
		"another type of the key": func(cells []elsewhereCell) { cells[0].Row = []string{"text 0"} },
		"another column":          func(cells []elsewhereCell) { cells[0].Column = "when" },
		"swapped":                 func(cells []elsewhereCell) { cells[0].Sealed, cells[1].Sealed = cells[1].Sealed, cells[0].Sealed },
		"found by another value":  func(cells []elsewhereCell) { cells[0].Search = cells[len(elsewhereRows)].Search },
	} {
		d := readDump(t, goldenElsewhere)
		cells := d.Elsewhere["shop.orders"]
		change(cells)
		d.Elsewhere["shop.orders"] = cells[:2]
		b, err := json.Marshal(d)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "dump.json")
		require.NoError(t, os.WriteFile(file, b, 0o600))
		_, err = read(file)
		require.Equal(t, what == "nothing", err == nil, what)
	}
}
