package store_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// goldenPages is a database that the first version wrote with tables whose rows are in pages.
const goldenPages = "../testdata/vectors/paged-1.json"

// pageRows is how many rows a page of these tables has: few, for few rows to make many pages.
const pageRows = 4

// A pagedTable is a table of pages in the making, and what it is to hold.
type pagedTable struct {
	h *chronicle
	*paged.Table
	name string
	key  []string
	rows []store.Row
}

func (h *chronicle) createPages(name string, key []store.KeyPart, columns ...store.Column) *pagedTable {
	h.t.Helper()
	schema := store.Schema{Name: name, Key: key, Columns: columns}
	if key[0].Describe().Encryption == "ordered" {
		schema.SpreadBits = -1 // one chain of pages
	}
	tbl, err := paged.Create(background, h.st, schema, pageRows)
	require.NoError(h.t, err)
	g := &pagedTable{h: h, Table: tbl, name: name}
	for _, part := range key {
		g.key = append(g.key, part.Describe().Name)
	}
	return g
}

// put replaces or adds rows.
func (g *pagedTable) put(rows ...store.Row) {
	g.h.t.Helper()
	require.NoError(g.h.t, g.Put(background, rows...))
	g.note(rows...)
}

func (g *pagedTable) note(rows ...store.Row) {
	g.forget(rows...)
	g.rows = append(g.rows, rows...)
	g.h.dump.Tables[g.name] = texts(g.rows)
}

func (g *pagedTable) delete(rows ...store.Row) {
	g.h.t.Helper()
	rows = slices.Clone(rows) // which may be the table's
	require.NoError(g.h.t, g.Delete(background, rows...))
	g.forget(rows...)
	g.h.dump.Tables[g.name] = texts(g.rows)
}

func (g *pagedTable) forget(rows ...store.Row) {
	for _, row := range rows {
		g.rows = slices.DeleteFunc(g.rows, func(r store.Row) bool {
			return !slices.ContainsFunc(g.key, func(part string) bool { return valueText(part, r[part]) != valueText(part, row[part]) })
		})
	}
}

// dying returns the table for a client that dies right after it has changed pages so many times.
func (g *pagedTable) dying(changes int) *paged.Table {
	g.h.t.Helper()
	armed := false
	tbl, err := paged.Open(background, openWith(g.h.t, drivertest.NewFaulty(g.h.db, func(op drivertest.Op) drivertest.Fault {
		if !armed || !op.Conditional() {
			return drivertest.NoFault
		}
		if changes--; changes > 0 {
			return drivertest.NoFault
		}
		return drivertest.CrashAfter
	}), g.h.key), g.name)
	require.NoError(g.h.t, err)
	armed = true
	return tbl
}

// putDying puts rows into one page by a client that dies right after it has changed pages so many times. The rows are there after the
// first change: the client only may not get to say so.
func (g *pagedTable) putDying(changes int, rows ...store.Row) {
	g.h.t.Helper()
	if err := g.dying(changes).Put(background, rows...); err != nil {
		require.ErrorIs(g.h.t, err, drivertest.ErrInjected)
	}
	g.note(rows...)
}

// finishPages notes the schemas, and returns the database.
func (h *chronicle) finishPages() dump {
	h.t.Helper()
	described, err := h.st.Describe(background)
	require.NoError(h.t, err)
	for _, table := range described.Tables {
		h.dump.Schemas[table.Name] = describedFields(slices.Concat(table.Key, table.Columns))
	}
	h.dump.Families = dumped(h.t, h.db)
	return h.dump
}

// pagesDump writes tables of pages: of each kind of row key, with each type, with schemas and keys that changed, with pages that are
// empty, and with pages that clients left in the middle of a cut that died.
func pagesDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "Tables whose rows are in pages, as store/paged wrote them, see docs/format.md.")
	h.pagesOfKeys()
	h.pagesOfTypes()
	h.pagesChanged()
	h.pagesCut()
	h.createPages("empty", []store.KeyPart{store.HashedPart("id", store.Int64)})
	h.dump.Tables["empty"] = []map[string]string{}
	gone := h.createPages("gone", []store.KeyPart{store.PlainPart("id", store.Int64)})
	gone.put(featureRows(0, 3)...)
	require.NoError(t, h.st.Drop(background, "gone"))
	delete(h.dump.Tables, "gone")
	here := h.create(store.Schema{Name: "here", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.MOPE)}})
	h.put(here, featureRows(0, 3, "i1")...)
	h.dump.Tables["here"] = h.holds(here, 3)
	return h.finishPages()
}

// withNotes gives rows with a sealed and a plain column, of which some are null.
func withNotes(rows []store.Row) []store.Row {
	for i, row := range rows {
		row["note"], row["zone"] = fmt.Sprint("note ", i), fmt.Sprint("zone ", i%3)
		if i%3 == 1 {
			row["note"] = nil
		}
		if i%4 == 2 {
			row["zone"] = nil
		}
	}
	return rows
}

func noteAndZone() []store.Column {
	return []store.Column{store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String)}
}

// pagesOfKeys makes tables of each kind of row key: their pages are in parts or not.
func (h *chronicle) pagesOfKeys() {
	spread, err := paged.Create(background, h.st, store.Schema{
		Name: "spread", Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.MOPE)}, Columns: noteAndZone(), SpreadBits: 3,
	}, pageRows)
	require.NoError(h.t, err)
	g := &pagedTable{h: h, Table: spread, name: "spread", key: []string{"id"}}
	rows := withNotes(featureRows(0, 40))
	for i := range rows {
		rows[i]["id"] = int64(i-20) << 58 // in each part some
	}
	g.put(rows[:30]...)
	g.put(rows[30:]...)

	for name, columns := range map[string][]store.Column{"plaintext and plain": noteAndZone(), "nothing encrypted": {store.PlainColumn("note", store.String), store.PlainColumn("zone", store.String)}} {
		g = h.createPages(name, []store.KeyPart{store.OrderedPart("id", small, store.Plaintext), store.PlainPart("k", store.String)}, columns...)
		rows = withNotes(featureRows(-6, 12))
		for i, row := range rows {
			row["id"], row["k"] = int64(i/3-2), []string{"", "\x00", "k\x00k"}[i%3]
		}
		g.put(rows...)
	}

	g = h.createPages("hashed", []store.KeyPart{store.HashedPart("device", store.String), store.OrderedPart("at", store.Time(time.Millisecond), store.Wozniak)}, noteAndZone()...)
	rows = withNotes(featureRows(0, 24))
	for i, row := range rows {
		delete(row, "id")
		row["device"], row["at"] = []string{"", "a", "b"}[i%3], time.UnixMilli(int64(1.7e12)+int64(i)*60_000).UTC()
	}
	g.put(rows...)

	g = h.createPages("tie", []store.KeyPart{store.PlainPart("kind", store.Uint8), store.TiePart("tie")}, noteAndZone()...)
	rows = withNotes(featureRows(0, 20))
	for i, row := range rows {
		delete(row, "id")
		row["kind"], row["tie"] = []uint8{0, 1, 255}[i%3], [16]byte{byte(i), 15: 1}
	}
	g.put(rows...)

	g = h.createPages("paths", []store.KeyPart{store.OrderedPart("line", store.Int16, store.Boldyreva), store.PlainPart("path", store.String)}, noteAndZone()...)
	rows = withNotes(featureRows(0, 12))
	for i, row := range rows {
		delete(row, "id")
		row["path"], row["line"] = []string{"", "\x00", "a", "é/long/enough/to/be/a/path"}[i%4], int16(i/4-1)
	}
	g.put(rows...)

	g = h.createPages("texts", []store.KeyPart{
		store.OrderedPart("long", store.String.OrderedBy(16), store.Boldyreva), store.OrderedPart("after", store.String.Prefixed("https://", "http://"), store.MOPE),
	}, noteAndZone()...)
	rows = nil
	for _, long := range []string{"", "a", "a long text, of which many begin as others do", "a long text, of many"} {
		for _, after := range []string{"", "http://a", "https://a", "é"} {
			rows = append(rows, store.Row{"long": long, "after": after})
		}
	}
	g.put(withNotes(rows)...)

	g = h.createPages("many parts", []store.KeyPart{
		store.OrderedPart("ratio", store.Float32, store.MOPE), store.PlainPart("ipv4", store.IPv4), store.OrderedPart("date", store.Date, store.Boldyreva),
		store.HashedPart("name", store.String), store.OrderedPart("text", store.String, store.Wozniak), store.PlainPart("bytes", store.Bytes), store.TiePart("tie"),
	})
	for i := range 10 {
		g.put(store.Row{
			"ratio": []float32{float32(math.Copysign(0, -1)), 1.5, float32(math.Inf(-1))}[i%3], "ipv4": netip.AddrFrom4([4]byte{byte(i % 2)}), "date": encode.CivilDate{Year: 1969 + i, Month: 12, Day: 31},
			"name": strings.Repeat("n", i), "text": "a text longer than the code " + fmt.Sprint(i%2), "bytes": []byte{0, byte(i)}, "tie": [16]byte{byte(i)},
		})
	}
}

// pagesOfTypes makes tables with columns of every type, sealed ones and plain ones.
func (h *chronicle) pagesOfTypes() {
	all := formatSchemas()[2]
	require.Equal(h.t, "by column", all.Name)
	rows := formatRows()[all.Name]
	rows = append(rows, maps.Clone(rows[1]), maps.Clone(rows[2]), maps.Clone(rows[1]), store.Row{}, maps.Clone(rows[2]))
	texts := []any{"", strings.Repeat("t", 126), strings.Repeat("u", 126), nil, strings.Repeat("v", 127), strings.Repeat("w", 127), "x", strings.Repeat("y", 300)}
	for i, row := range rows {
		row["id"], row["text"] = uint16(i), texts[i]
		row["float64"] = []any{math.NaN(), math.Copysign(0, -1), 0.0, math.Float64frombits(0xfff8_0000_0000_0001), math.Inf(1), nil, -1.5, 1e300}[i]
		if i >= 3 && len(row) > 3 {
			row["float32"] = float32(math.Copysign(0, -1))
		}
	}
	for _, sealed := range []bool{true, false} {
		column, scheme, name := store.PlainColumn, store.Plaintext, "types, plain"
		if sealed {
			column, scheme, name = store.RandomisedColumn, store.Boldyreva, "types, sealed"
		}
		columns := []store.Column{column("text", store.String), column("float64", store.Float64)}
		for _, c := range all.Columns {
			columns = append(columns, column(c.Describe().Name, must(store.ParseType(c.Describe().Type))))
		}
		h.createPages(name, []store.KeyPart{store.OrderedPart("id", store.Uint16, scheme)}, columns...).put(rows...)
	}
}

// numbered is a row key whose pages are one chain, in an order that is known.
func numbered() []store.KeyPart {
	return []store.KeyPart{store.OrderedPart("id", small, store.Plaintext)}
}

// pagesChanged makes tables whose keys and columns changed: some pages are of before.
func (h *chronicle) pagesChanged() {
	g := h.createPages("rotated", numbered(), noteAndZone()...)
	g.put(withNotes(featureRows(0, 24))...)
	require.NoError(h.t, h.st.RotateKeys(background, "rotated"))
	_, err := g.dying(2).Reseal(background)
	require.ErrorIs(h.t, err, drivertest.ErrInjected)
	require.NoError(h.t, h.st.RotateKeys(background, "rotated"))
	g.put(withNotes(featureRows(20, 22))...)

	g = h.createPages("rotated often", numbered(), noteAndZone()...)
	for i := range 20 {
		g.put(withNotes(featureRows(4*i, 4*i+4))...)
		require.NoError(h.t, h.st.RotateKeys(background, "rotated often"))
	}

	g = h.createPages("changed", numbered(), append(noteAndZone(), store.RandomisedColumn("gone", store.Int64), store.PlainColumn("went", store.String))...)
	rows := withNotes(featureRows(0, 24))
	for _, row := range rows {
		with := maps.Clone(row)
		with["gone"], with["went"] = int64(7), "went"
		require.NoError(h.t, g.Put(background, with))
	}
	h.alter("changed",
		store.DropColumn("gone"), store.DropColumn("went"), store.RenameColumn("note", "remark"), store.RenameColumn("id", "number"),
		store.AddColumn(store.RandomisedColumn("more", store.Int64)), store.AddColumn(store.PlainColumn("open", store.Bool)),
	)
	for _, row := range rows {
		row["remark"], row["number"] = row["note"], row["id"]
		delete(row, "note")
		delete(row, "id")
	}
	g.key = []string{"number"}
	g.note(rows...)
	g.Table, err = paged.Open(background, h.st, "changed")
	require.NoError(h.t, err)
	rows[3]["more"], rows[3]["open"], rows[12]["open"] = int64(3), true, false
	g.put(rows[3], rows[12])

	g = h.createPages("emptied", numbered(), noteAndZone()...)
	g.put(withNotes(featureRows(0, 24))...)
	g.delete(g.rows[4:19]...)
	g = h.createPages("all emptied", numbered(), noteAndZone()...)
	g.put(withNotes(featureRows(0, 6))...)
	g.delete(g.rows...)
}

// pagesCut makes tables with pages that clients left in the middle of a cut, and some that others wrote to since.
func (h *chronicle) pagesCut() {
	for changes := 1; changes <= 5; changes++ { // the page with all rows, and four new pages at most
		for _, since := range []string{"", ", and changed"} {
			g := h.createPages(fmt.Sprintf("cut, %d changes%s", changes, since), numbered(), noteAndZone()...)
			g.put(withNotes(featureRows(0, 4))...)
			g.put(withNotes(featureRows(100, 104))...)
			more := withNotes(featureRows(10, 26))
			g.putDying(changes, more...)
			if since != "" { // behind the last cut, as far as there is one: it may be cut once more
				g.put(withNotes(featureRows(26, 32))...)
				g.delete(featureRows(22, 23)...)
			}
		}
	}
}

// Tables of pages that the first version with such wrote are read, written and sealed again.
func TestFirstPagesStayReadable(t *testing.T) {
	d := golden(t, goldenPages, pagesDump)
	st := openDump(t, d)
	described, err := st.Describe(background)
	require.NoError(t, err)
	require.Len(t, described.Tables, len(d.Tables))
	for _, g := range described.Tables {
		require.Equal(t, d.Schemas[g.Name], describedFields(slices.Concat(g.Key, g.Columns)))
		if g.Layout != inspect.Paged {
			(&goldenTable{t: t, st: st, name: g.Name, dump: d}).check()
			continue
		}
		require.Equal(t, pageRows, g.PageRows)
		tbl, err := paged.Open(background, st, g.Name)
		require.NoError(t, err)
		check := func() (rows []store.Row, c paged.Census) {
			t.Helper()
			for row, err := range tbl.Query(background, store.Query{}) {
				require.NoError(t, err, g.Name)
				rows = append(rows, row)
			}
			require.Equal(t, sorted(d.Tables[g.Name]), texts(rows), g.Name)
			for _, row := range rows {
				got, err := tbl.Get(background, row)
				require.NoError(t, err)
				require.Equal(t, texts([]store.Row{row}), texts([]store.Row{got}), g.Name)
			}
			c, err := tbl.Verify(background)
			require.NoError(t, err, g.Name)
			require.Equal(t, len(rows), c.Rows)
			return rows, c
		}
		rows, _ := check()
		_, err = tbl.Reseal(background)
		require.NoError(t, err)
		_, c := check()
		require.Zero(t, c.Old, g.Name)
		require.NoError(t, tbl.Put(background, rows...))
		check()
		require.NoError(t, tbl.Delete(background, rows...))
		require.NoError(t, tbl.Put(background, rows...))
		check()
	}
}

// The reference refuses pages that were changed, moved or taken away.
func TestIndependentReaderRefusesPages(t *testing.T) {
	read := independentReader(t)
	write := func(cut int) dump { // pages that begin with the rows 0, 40, 80 and 120, of which the second is being cut into four
		h := newChronicle(t, ope.GenerateKey(), "")
		g := h.createPages("numbers", numbered(), noteAndZone()...)
		for i := range 4 {
			g.put(withNotes(featureRows(40*i, 40*i+4))...)
		}
		more := featureRows(60, 71)
		g.putDying(cut, withNotes(more)...)
		return h.finishPages()
	}
	flip := func(qualifier string, page int) func(pages []rowDump) []rowDump {
		return func(pages []rowDump) []rowDump {
			for i, cell := range pages[page].Cells {
				if must(hex.DecodeString(cell[0]))[0] == qualifier[0] {
					b := must(hex.DecodeString(cell[1]))
					b[len(b)-1] ^= 1
					pages[page].Cells[i][1] = hex.EncodeToString(b)
				}
			}
			return pages
		}
	}
	without := func(page int) func(pages []rowDump) []rowDump {
		return func(pages []rowDump) []rowDump { return slices.Delete(pages, page, page+1) }
	}
	for what, c := range map[string]struct {
		changes int // of pages, until the client dies
		change  func(pages []rowDump) []rowDump
	}{
		"nothing":                    {2, func(pages []rowDump) []rowDump { return pages }},
		"what is plain":              {2, flip("p", 1)},
		"what is sealed":             {2, flip("s", 1)},
		"the write id":               {2, flip("v", 1)},
		"no first page":              {2, without(0)},
		"no second page":             {2, without(1)},
		"no last page":               {2, func(pages []rowDump) []rowDump { return pages[:len(pages)-1] }},
		"no page of a cut":           {3, without(3)},
		"no page between cuts":       {4, without(3)},
		"swapped":                    {2, func(p []rowDump) []rowDump { p[0].Cells, p[1].Cells = p[1].Cells, p[0].Cells; return p }},
		"swapped, what is plain":     {2, func(p []rowDump) []rowDump { p[0].Cells[0], p[1].Cells[0] = p[1].Cells[0], p[0].Cells[0]; return p }},
		"a page behind the last one": {2, func(p []rowDump) []rowDump { return append(p, rowDump{Key: "ffff", Cells: p[0].Cells}) }},
		"without what is sealed":     {2, func(p []rowDump) []rowDump { p[0].Cells = slices.Delete(p[0].Cells, 1, 2); return p }},
	} {
		d := write(c.changes)
		for i := range d.Families {
			if d.Families[i].Name[0] == 't' {
				require.Greater(t, len(d.Families[i].Rows), 4)
				d.Families[i].Rows = c.change(d.Families[i].Rows)
			}
		}
		file := filepath.Join(t.TempDir(), "dump.json")
		require.NoError(t, os.WriteFile(file, must(json.Marshal(d)), 0o600))
		_, err := read(file)
		if what == "nothing" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "Error", what)
	}
}

// Where clients left a page in the middle of a cut, ranges of the row key see what others wrote to the new pages since, and each
// row once.
func TestRangesOverPagesInACut(t *testing.T) {
	st := openDump(t, readDump(t, goldenPages))
	id := small.Field("id")
	for changes := 1; changes <= 5; changes++ {
		name := fmt.Sprintf("cut, %d changes, and changed", changes)
		tbl, err := paged.Open(background, st, name)
		require.NoError(t, err)
		ids := func(where store.Predicate) (found []int64) {
			for row, err := range tbl.Query(background, store.Query{Where: where}) {
				require.NoError(t, err, name)
				found = append(found, row["id"].(int64))
			}
			slices.Sort(found)
			return found
		}
		all := ids(store.Predicate{})
		require.Len(t, all, 29)
		for low := int64(-1); low < 36; low++ {
			for high := low; high < 36; high++ {
				want := slices.DeleteFunc(slices.Clone(all), func(i int64) bool { return i < low || i > high })
				require.Equal(t, want, append([]int64{}, ids(id.Between(low, high))...), "%s: %d to %d", name, low, high)
				want = slices.DeleteFunc(slices.Clone(all), func(i int64) bool { return i != low && i != high })
				require.Equal(t, want, append([]int64{}, ids(id.In(low, high))...), "%s: %d or %d", name, low, high)
			}
		}
	}
}
