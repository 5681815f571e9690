package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A damagedCopies is a table with copies, in which somebody changes index entries.
type damagedCopies struct {
	*testing.T
	st     *Store
	tbl    *Table
	copies []driver.Row
	want   map[string][]string // rows of the two columns
}

func coverDamage(t *testing.T, name string, st *Store) *damagedCopies {
	t.Helper()
	tbl, err := st.Create(t.Context(), Schema{
		Name: name, AppendOnly: true,
		Key: []KeyPart{HashedPart("device", String), TiePart("id")},
		Columns: []Column{
			OrderedColumn("celsius", Int32, MOPE).Covering(), DeterministicColumn("room", String).Covering(),
			RandomisedColumn("note", String), PlainColumn("model", String),
		},
	})
	require.NoError(t, err)
	for i := range 4 {
		require.NoError(t, tbl.Put(t.Context(), Row{"device": "a", "id": LoadTie{byte(i)}, "celsius": i, "room": "r", "note": fmt.Sprint(i), "model": "m"}))
	}
	d := &damagedCopies{T: t, st: st, tbl: tbl, want: make(map[string][]string)}
	d.copies = copiesIn(t, tbl)
	require.Len(t, d.copies, 8)
	for by := range d.questions() {
		d.want[by], err = d.ask(by)
		require.NoError(t, err)
		require.Len(t, d.want[by], 4)
	}
	return d
}

func (d *damagedCopies) questions() map[string]Predicate {
	return map[string]Predicate{"celsius": Int32.Field("celsius").Between(0, 3), "room": String.Field("room").Equal("r")}
}

func (d *damagedCopies) ask(by string) ([]string, error) {
	var rows []Row
	for row, err := range d.tbl.Query(d.Context(), Query{Where: d.questions()[by], By: by}) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return texted(rows), nil
}

// put gives an index entry another value.
func (d *damagedCopies) put(key, value []byte) {
	d.Helper()
	putContent(d.T, d.tbl, key, value)
}

// putContent gives an index entry of a table another value.
func putContent(t *testing.T, tbl *Table, key, value []byte) {
	t.Helper()
	m := driver.Mutation{Row: key, Puts: []driver.Cell{{Qualifier: []byte{}, Value: value}}}
	require.NoError(t, tbl.now().Postings.Apply(t.Context(), m))
}

// copiesIn returns the index entries of a table, all of which have a copy.
func copiesIn(t *testing.T, tbl *Table) (copies []driver.Row) {
	t.Helper()
	for row, err := range tbl.now().Postings.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		require.True(t, rowcodec.HasCopy(row.Cells[0].Value))
		copies = append(copies, driver.Row{Key: row.Key, Cells: []driver.Cell{{Qualifier: []byte{}, Value: bytes.Clone(row.Cells[0].Value)}}})
	}
	return copies
}

func (d *damagedCopies) verify(repair bool) (*inspect.Verification, []inspect.Fault) {
	d.Helper()
	return verified(d.T, d.tbl, VerifyOptions{Repair: repair, Grace: time.Nanosecond})
}

// check asks for the rows after an index entry was damaged: they are right, or the error says what to do. Verify finds what
// is no state of an index entry, and a repair leaves a copy there.
func (d *damagedCopies) check(c driver.Row, value []byte, what string, args ...any) (failed bool) {
	d.Helper()
	what = fmt.Sprintf(what, args...)
	d.put(c.Key, value)
	for by, want := range d.want {
		rows, err := d.ask(by)
		if err == nil {
			require.Equal(d, want, rows, "%s: a wrong answer by %s", what, by)
			continue
		}
		failed = true
		require.ErrorIs(d, err, ErrTampered, what)
		require.ErrorContains(d, err, "rangecrypt verify --repair", what)
		require.ErrorContains(d, err, fmt.Sprintf("%q", by), what)
	}
	v, faults := d.verify(false)
	switch {
	case rowcodec.Doubtful(value):
		require.False(d, failed, what)
		require.True(d, v.Sound(), what)
		d.put(c.Key, c.Cells[0].Value)
		return false
	case !rowcodec.HasCopy(value):
		require.False(d, failed, what)
		require.True(d, v.Sound(), what)
		require.Equal(d, 1, v.Uncopied, what)
	default:
		require.Equal(d, 1, v.Faults[inspect.FaultCopy], what)
		require.Len(d, faults, 1, what)
		require.Equal(d, c.Key, faults[0].Place, what)
	}
	d.verify(true)
	v, _ = d.verify(false)
	require.True(d, v.Sound(), "%s: %v", what, v.Faults)
	require.Zero(d, v.Uncopied, "%s: the repair leaves it without a copy", what)
	for by, want := range d.want {
		rows, err := d.ask(by)
		require.NoError(d, err, what)
		require.Equal(d, want, rows, what)
	}
	cells, err := d.tbl.now().Postings.Get(d.Context(), c.Key, driver.Slice{})
	require.NoError(d, err)
	require.True(d, rowcodec.HasCopy(cells[0].Value), what)
	d.put(c.Key, c.Cells[0].Value)
	return failed
}

// Whatever byte of a copy changes, and wherever it is cut, no query returns a wrong row.
func TestDamagedCopies(t *testing.T) {
	d := coverDamage(t, "events", stores(t, drivertest.NewMemory(), 1)[0])
	c := d.copies[1]
	whole, failed := c.Cells[0].Value, 0
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= []byte{0x01, 0x80, 0xff}[i%3]
		if d.check(c, damaged, "byte %d of %d", i, len(whole)) {
			failed++
		}
	}
	require.Greater(t, failed, len(whole)*2/3, "most damage is an error")
	for _, first := range []byte{0x00, 0xff} {
		damaged := bytes.Clone(whole)
		damaged[0] = first
		require.False(t, d.check(c, damaged, "first byte %x", first))
	}
	for n := 0; n < len(whole); n += 1 + n/8 {
		require.Equal(t, n > 0, d.check(c, whole[:n], "cut to %d bytes", n))
	}
	require.True(t, d.check(c, append(bytes.Clone(whole), 0), "a byte more"))
	for _, value := range [][]byte{{0}, {0xff}, {1}, {2}, {3}, bytes.Repeat([]byte{2}, 1000)} {
		d.check(c, value, "%d bytes of %x", len(value), value[0])
	}
}

// A copy opens in its own index entry alone.
func TestMovedCopies(t *testing.T) {
	st := stores(t, drivertest.NewMemory(), 1)[0]
	d, other := coverDamage(t, "events", st), coverDamage(t, "others", st)
	for i, c := range d.copies {
		for j, from := range d.copies {
			if i != j {
				require.True(t, d.check(c, from.Cells[0].Value, "that of %d in %d", j, i))
			}
		}
		d.check(c, other.copies[i].Cells[0].Value, "that of another table in %d", i)
	}
	require.NoError(t, d.tbl.Delete(t.Context(), Row{"device": "a", "id": LoadTie{}}))
	for by := range d.want {
		var err error
		d.want[by], err = d.ask(by)
		require.NoError(t, err)
		require.Len(t, d.want[by], 3)
	}
	mend := func(copies int) {
		t.Helper()
		v, _ := d.verify(false)
		require.Equal(t, map[inspect.FaultKind]int{inspect.FaultCopy: copies}, v.Faults)
		v, _ = d.verify(true)
		require.Equal(t, copies, v.Repaired)
		v, _ = d.verify(false)
		require.True(t, v.Sound())
		require.Zero(t, v.Dangling+v.Uncopied)
		for by, want := range d.want {
			rows, err := d.ask(by)
			require.NoError(t, err)
			require.Equal(t, want, rows)
		}
	}
	// The copies of a row that was deleted are put back. As with the row itself, a query cannot tell, but Verify can.
	var old []driver.Row
	for _, c := range d.copies {
		cells, err := d.tbl.now().Postings.Get(t.Context(), c.Key, driver.Slice{})
		require.NoError(t, err)
		if len(cells) == 0 || !rowcodec.HasCopy(cells[0].Value) {
			old = append(old, c)
			d.put(c.Key, c.Cells[0].Value)
		}
	}
	require.Len(t, old, 2)
	mend(2)
	// So it is when another row of the load has come in its place.
	require.NoError(t, d.tbl.Put(t.Context(), Row{"device": "a", "id": LoadTie{}, "celsius": 0, "room": "r", "note": "another", "model": "m"}))
	for by := range d.want {
		var err error
		d.want[by], err = d.ask(by)
		require.NoError(t, err)
		require.Len(t, d.want[by], 4)
	}
	for _, c := range old {
		d.put(c.Key, c.Cells[0].Value)
	}
	mend(2)
}

// In a table with copies, the posting of a column that does not cover is a hint. Anything else in it is a fault.
func TestContentOfHints(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		st := stores(t, drivertest.NewMemory(), 1)[0]
		tbl, err := st.Create(t.Context(), Schema{
			Name: "t", AppendOnly: !conditional, Conditional: conditional, Key: []KeyPart{HashedPart("k", Int64), TiePart("id")},
			Columns: []Column{DeterministicColumn("covers", Int64).Covering(), DeterministicColumn("hints", Int64)},
		})
		require.NoError(t, err)
		require.NoError(t, tbl.Put(t.Context(), Row{"k": 1, "covers": 2, "hints": 3}))
		d := &damagedCopies{T: t, st: st, tbl: tbl}
		c := tbl.now().ByName["hints"]
		for row, err := range tbl.now().Postings.Scan(t.Context(), driver.Range{Start: c.Lead, End: ope.PrefixEnd(c.Lead)}) {
			require.NoError(t, err)
			was := bytes.Clone(row.Cells[0].Value)
			require.Len(t, was, rowcodec.HintSize)
			for _, value := range [][]byte{append(bytes.Clone(was), 0), was[:1], {2}, bytes.Repeat([]byte{2}, 100)} {
				d.put(row.Key, value)
				v, faults := d.verify(false)
				require.Equal(t, map[inspect.FaultKind]int{inspect.FaultPosting: 1}, v.Faults, "%x", value)
				require.Equal(t, row.Key, faults[0].Place)
				require.Equal(t, "hints", faults[0].Column)
			}
			for _, value := range [][]byte{{}, was} {
				d.put(row.Key, value)
				v, _ := d.verify(false)
				require.True(t, v.Sound(), "%x", value)
			}
		}
	}
}
