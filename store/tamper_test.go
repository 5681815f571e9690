package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func tamperSchema(name string, layout bool) Schema {
	return Schema{
		Name:          name,
		CellPerColumn: layout,
		Key:           []KeyPart{HashedPart("id", Int64), OrderedPart("at", Int64, MOPE)},
		Columns: []Column{
			OrderedColumn("ordered", Int64, Boldyreva),
			OrderedColumn("also", Int64, Boldyreva),
			DeterministicColumn("token", String),
			RandomisedColumn("secret", String),
			RandomisedColumn("other", String),
			PlainColumn("plain", String),
		},
	}
}

// tampering is a database whose operator does as he likes.
type tampering struct {
	t      *testing.T
	db     driver.DB
	key    ope.Key
	tables [2]*Table
	rows   []Row // of each table
}

var everyColumn = []string{"ordered", "also", "token", "secret", "other", "plain"}

func newTampering(t *testing.T, layout bool) *tampering {
	x := &tampering{t: t, db: drivertest.NewMemory(), key: ope.GenerateKey()}
	st, err := Open(context.Background(), x.db, kms.NewLocal(x.key), nil)
	require.NoError(t, err)
	for i := range int64(2) {
		// Both rows have the same values, so that nothing but the place tells cells apart.
		x.rows = append(x.rows, Row{"id": i, "at": int64(7), "ordered": int64(5), "also": int64(5), "token": "same", "secret": "same", "other": "same", "plain": "same"})
	}
	for i := range x.tables {
		x.tables[i], err = st.Create(context.Background(), tamperSchema(fmt.Sprint("table", i), layout))
		require.NoError(t, err)
		require.NoError(t, x.tables[i].Put(context.Background(), x.rows...))
	}
	return x
}

func (x *tampering) cells(tbl *Table, row Row) (key []byte, cells []driver.Cell) {
	key, err := bykey.ExactKey(context.Background(), tbl.now(), row)
	require.NoError(x.t, err)
	cells, err = tbl.now().Data.Get(context.Background(), key, driver.Slice{})
	require.NoError(x.t, err)
	return key, cells
}

// with replaces a row's cells, calls do and puts the row back.
func (x *tampering) with(tbl *Table, row Row, cells []driver.Cell, do func()) {
	key, was := x.cells(tbl, row)
	x.set(tbl, key, cells)
	do()
	x.set(tbl, key, was)
}

func (x *tampering) set(tbl *Table, key []byte, cells []driver.Cell) {
	require.NoError(x.t, tbl.now().Data.Apply(context.Background(), driver.Mutation{Row: key, DeleteRow: true}))
	if len(cells) > 0 {
		require.NoError(x.t, tbl.now().Data.Apply(context.Background(), driver.Mutation{Row: key, Puts: cells}))
	}
}

func detected(err error) bool {
	return errors.Is(err, ErrTampered) || errors.Is(err, ErrTorn) || errors.Is(err, ErrWrongKey) || errors.Is(err, ErrFormat)
}

// mustNotice reads a row in all ways.
func (x *tampering) mustNotice(tbl *Table, row Row, what string, args ...any) {
	x.t.Helper()
	what = fmt.Sprintf(what, args...)
	got, err := tbl.Get(context.Background(), row)
	require.True(x.t, detected(err), "get, %s: %v, %v", what, got, err)
	require.NotContains(x.t, err.Error(), "same", what)
	for _, p := range []Predicate{{}, Field[int64]("id").Equal(row["id"].(int64)), Field[int64]("ordered").AtLeast(0), Field[string]("token").Equal("same")} {
		var last error
		for _, err := range tbl.Query(context.Background(), Query{Where: p}) {
			last = err
		}
		require.True(x.t, detected(last), "query, %s: %v", what, last)
	}
}

func with(cells []driver.Cell, i int, value []byte) []driver.Cell {
	cells = slices.Clone(cells)
	cells[i].Value = value
	return cells
}

func (x *tampering) column(tbl *Table, cell driver.Cell) *rowcodec.Column {
	for _, c := range tbl.now().Columns {
		if bytes.Equal(c.Id[:], cell.Qualifier) {
			return c
		}
	}
	return nil // the key cell
}

func inLayouts(t *testing.T, test func(t *testing.T, layout bool)) {
	for _, layout := range []bool{packed, cellPerColumn} {
		t.Run(inspect.Layout(layout), func(t *testing.T) { test(t, layout) })
	}
}

// TestTampering: whatever is done to a cell is an error for whoever reads it.
func TestTampering(t *testing.T) { inLayouts(t, testTampering) }

func testTampering(t *testing.T, layout bool) {
	synctest.Test(t, func(t *testing.T) { // reading again takes time
		x := newTampering(t, layout)
		tbl, row := x.tables[0], x.rows[0]
		_, cells := x.cells(tbl, row)
		own := len(everyColumn)
		if layout == packed {
			own -= 2 // secret and other
		}
		require.Len(t, cells, 1+own)
		n := 0
		for i, cell := range cells {
			c := x.column(tbl, cell)
			isPlain := c != nil && c.Encryption == plain
			for at := range cell.Value {
				if isPlain && (at >= rowcodec.PlainOverhead || at >= 1 && at < 5) {
					continue // a plain value is not authenticated, nor is its policy
				}
				for _, bit := range []byte{1, 0x80} {
					changed := bytes.Clone(cell.Value)
					changed[at] ^= bit
					x.with(tbl, row, with(cells, i, changed), func() { x.mustNotice(tbl, row, "cell %d, byte %d flipped", i, at) })
					n++
				}
			}
			for size := range cell.Value {
				if isPlain && size >= rowcodec.PlainOverhead {
					continue
				}
				x.with(tbl, row, with(cells, i, cell.Value[:size]), func() { x.mustNotice(tbl, row, "cell %d cut to %d bytes", i, size) })
				n++
			}
			if !isPlain {
				x.with(tbl, row, with(cells, i, append(bytes.Clone(cell.Value), 0)), func() { x.mustNotice(tbl, row, "cell %d with a byte more", i) })
			}
			x.with(tbl, row, slices.Delete(slices.Clone(cells), i, i+1), func() { x.mustNotice(tbl, row, "cell %d removed", i) })
		}
		require.Greater(t, n, 1000)
	})
}

// Cells that are authentic, but stand elsewhere.
func TestMovedCells(t *testing.T) { inLayouts(t, testMovedCells) }

func testMovedCells(t *testing.T, layout bool) {
	synctest.Test(t, func(t *testing.T) {
		x := newTampering(t, layout)
		tbl, row := x.tables[0], x.rows[0]
		_, cells := x.cells(tbl, row)
		_, neighbours := x.cells(tbl, x.rows[1])
		_, others := x.cells(x.tables[1], row)
		n := 0
		for i := range cells {
			c := x.column(tbl, cells[i])
			x.with(tbl, row, with(cells, i, neighbours[i].Value), func() { x.mustNotice(tbl, row, "cell %d of another row", i) })
			for j := range others {
				// Both the same column and others of the other table, whose ids are different.
				x.with(tbl, row, with(cells, i, others[j].Value), func() { x.mustNotice(tbl, row, "cell %d of another table in cell %d", j, i) })
				n++
			}
			for j := range cells {
				if i == j {
					continue
				}
				if c != nil && c.Encryption == plain {
					continue // the cells of other columns are not plain; covered by the other direction
				}
				swapped := with(with(cells, i, cells[j].Value), j, cells[i].Value)
				x.with(tbl, row, swapped, func() { x.mustNotice(tbl, row, "cells %d and %d swapped", i, j) })
				x.with(tbl, row, with(cells, i, cells[j].Value), func() { x.mustNotice(tbl, row, "cell %d copied to %d", j, i) })
				n++
			}
		}
		require.Greater(t, n, len(cells)*len(others))

		// The whole row under another row's key.
		x.with(tbl, x.rows[1], cells, func() { x.mustNotice(tbl, x.rows[1], "row %d in place of another", 0) })

		// An older cell of the same place.
		require.NoError(t, tbl.Put(context.Background(), row))
		_, now := x.cells(tbl, row)
		for i := range now {
			x.with(tbl, row, with(now, i, cells[i].Value), func() { x.mustNotice(tbl, row, "cell %d of an earlier write", i) })
		}

		// What is not noticed, as the documentation says: a whole row that is put back, or left out.
		changed := maps.Clone(row)
		changed["secret"] = "new"
		require.NoError(t, tbl.Put(context.Background(), changed))
		x.with(tbl, row, cells, func() {
			got, err := tbl.Get(context.Background(), row)
			require.NoError(t, err)
			require.Equal(t, "same", got["secret"])
		})
		x.with(tbl, row, nil, func() {
			got, err := tbl.Get(context.Background(), row)
			require.NoError(t, err)
			require.Nil(t, got)
		})
	})
}

// Postings are hints: whatever they say, a query returns no row that does not satisfy it, and none
// twice. They can hide rows.
func TestTamperedPostings(t *testing.T) {
	ctx := context.Background()
	db := drivertest.NewMemory()
	st, err := Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, tamperSchema("t", cellPerColumn))
	require.NoError(t, err)
	for i := range int64(6) {
		require.NoError(t, tbl.Put(ctx, Row{"id": i, "at": i, "ordered": i, "also": -i, "token": fmt.Sprint(i % 2)}))
	}
	var keys [][]byte
	for row, err := range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		keys = append(keys, row.Key)
	}
	require.Len(t, keys, 18)
	// Every column's every ciphertext points to every row.
	forged := 0
	for _, of := range keys {
		for _, to := range keys {
			for _, c := range tbl.now().Columns {
				if !bytes.HasPrefix(of, c.Id[:]) {
					continue
				}
				search, _, write, err := c.CutPosting(of)
				require.NoError(t, err)
				for _, d := range tbl.now().Columns {
					if bytes.HasPrefix(to, d.Id[:]) {
						_, row, _, err := d.CutPosting(to)
						require.NoError(t, err)
						key := slices.Concat(c.Id[:], search, row, write[:])
						require.NoError(t, tbl.now().Postings.Apply(ctx, driver.Mutation{Row: key, Puts: []driver.Cell{rowcodec.PostingCell}}))
						forged++
					}
				}
			}
		}
	}
	require.Equal(t, 18*18, forged)
	ask := func(p Predicate) []int64 {
		var ids []int64
		for row, err := range tbl.Query(ctx, Query{Where: p}) {
			require.NoError(t, err)
			ids = append(ids, row["id"].(int64))
		}
		return ids
	}
	require.Equal(t, []int64{2, 3, 4}, ask(Field[int64]("ordered").Between(2, 4)))
	require.Equal(t, []int64{3, 2, 1}, ask(Field[int64]("also").Between(-3, -1)))
	require.ElementsMatch(t, []int64{1, 3, 5}, ask(Field[string]("token").Equal("1")))

	// One that is no posting at all is an error.
	require.NoError(t, tbl.now().Postings.Apply(ctx, driver.Mutation{Row: append(bytes.Clone(tbl.now().ByName["ordered"].Id[:]), 0x7f), Puts: []driver.Cell{rowcodec.PostingCell}}))
	var last error
	for _, err := range tbl.Query(ctx, Query{Where: Field[int64]("ordered").AtLeast(-1 << 62)}) {
		last = err
	}
	require.ErrorIs(t, last, ErrTampered)
}

func TestTamperedCatalogue(t *testing.T) {
	ctx := context.Background()
	x := newTampering(t, cellPerColumn)
	family, err := x.db.Family(ctx, driver.FamilySpec{Name: catalogueFamily, Layout: driver.LayoutWide})
	require.NoError(t, err)
	cells, err := family.Get(ctx, catalogueRow, driver.Slice{})
	require.NoError(t, err)
	entries := entriesOf(cells)
	require.Len(t, entries, 2)
	require.GreaterOrEqual(t, len(cells), 1+len(entries)+treeLevels)
	use := func(key ope.Key) error {
		st, err := Open(ctx, x.db, kms.NewLocal(key), nil)
		if err != nil {
			return err
		}
		_, err = st.Tables(ctx)
		_, err0 := st.Table(ctx, "table0")
		_, err1 := st.Table(ctx, "table1")
		return errors.Join(err, err0, err1)
	}
	set := func(cells ...driver.Cell) {
		require.NoError(t, family.Apply(ctx, driver.Mutation{Row: catalogueRow, Puts: cells}))
	}
	require.NoError(t, use(x.key))
	require.ErrorIs(t, use(ope.GenerateKey()), ErrWrongKey)
	for i, cell := range cells {
		for at := range cell.Value {
			if at > 80 && at < len(cell.Value)-20 && at%32 != 0 {
				continue // every byte of the header and the end, some between
			}
			changed := bytes.Clone(cell.Value)
			changed[at] ^= 1
			set(driver.Cell{Qualifier: cell.Qualifier, Value: changed})
			err := use(x.key)
			require.True(t, detected(err), "cell %d, byte %d: %v", i, at, err)
			if i == 0 && at == 0 { // the format becomes that of before, in which entries are not proven
				_, err := Open(ctx, x.db, kms.NewLocal(x.key), nil)
				require.ErrorIs(t, err, ErrTampered)
			}
			if i == 0 && at == 1 { // how long the wrapped key in it is
				require.ErrorIs(t, err, ErrTampered)
			}
			set(driver.Cell{Qualifier: cell.Qualifier, Value: cell.Value[:at]})
			require.True(t, detected(use(x.key)), "cell %d cut to %d", i, at)
		}
		set(cell)
	}
	require.NoError(t, use(x.key))
	// Entries of one another's names.
	set(driver.Cell{Qualifier: entries[0].Qualifier, Value: entries[1].Value}, driver.Cell{Qualifier: entries[1].Qualifier, Value: entries[0].Value})
	require.ErrorIs(t, use(x.key), ErrTampered)
	// A catalogue without root is not made again under the entries that are there.
	set(cells...)
	st, err := Open(ctx, x.db, kms.NewLocal(x.key), nil)
	require.NoError(t, err)
	require.NoError(t, family.Apply(ctx, driver.Mutation{Row: catalogueRow, Deletes: [][]byte{rootQualifier}}))
	_, err = st.Create(ctx, tamperSchema("another", cellPerColumn))
	require.ErrorIs(t, err, ErrTampered)
	require.ErrorIs(t, use(x.key), ErrTampered)
}

// A row that is a mixture for a moment only is read again; one that stays so is reported, and
// mended by the next Put.
func TestTornRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		x := newTampering(t, cellPerColumn)
		tbl, row := x.tables[0], x.rows[0]
		key, first := x.cells(tbl, row)
		require.NoError(t, tbl.Put(ctx, row))
		_, second := x.cells(tbl, row)
		torn := with(second, 2, first[2].Value)
		x.set(tbl, key, torn)
		reads := 0
		healing := drivertest.NewFaulty(noSnapshots{DB: x.db}, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Get" && bytes.Equal(op.Row, key) {
				if reads++; reads == 3 {
					x.set(tbl, key, second)
				}
			}
			return drivertest.NoFault
		})
		st, err := Open(ctx, healing, kms.NewLocal(x.key), nil)
		require.NoError(t, err)
		healed, err := st.Table(ctx, "table0")
		require.NoError(t, err)
		got, err := healed.Get(ctx, row)
		require.NoError(t, err)
		require.Equal(t, row, got)
		require.Equal(t, 3, reads)

		// Rows that are read together are read again one by one.
		byColumn := Query{Where: Field[int64]("ordered").Equal(5)}
		for _, read := range []func() (int, error){
			func() (int, error) {
				rows, err := healed.GetBatch(ctx, []Row{x.rows[1], row})
				if err == nil {
					require.Equal(t, []Row{x.rows[1], row}, rows)
				}
				return len(rows), err
			},
			func() (int, error) {
				e, err := healed.Analyze(ctx, byColumn)
				return e.Rows, err
			},
		} {
			x.set(tbl, key, torn)
			reads = 0
			n, err := read()
			require.NoError(t, err)
			require.Equal(t, 2, n)
			require.Equal(t, 3, reads)
			x.set(tbl, key, torn)
			reads = 3
			_, err = read()
			require.ErrorIs(t, err, ErrTorn)
		}

		x.set(tbl, key, torn)
		_, err = tbl.Get(ctx, row)
		require.ErrorIs(t, err, ErrTorn)
		require.False(t, Retryable(err))
		require.NoError(t, tbl.Put(ctx, row))
		got, err = tbl.Get(ctx, row)
		require.NoError(t, err)
		require.Equal(t, row, got)
		e, err := tbl.Analyze(ctx, Query{Where: Field[int64]("ordered").Equal(5)})
		require.NoError(t, err)
		require.Equal(t, 2, e.Rows)
	})
}

// lyingScans is a database that changes the answers of scans.
type lyingScans struct {
	driver.DB
	lie func(rows []driver.Row) []driver.Row
}

type lyingFamily struct {
	driver.Family
	db *lyingScans
}

func (db *lyingScans) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return lyingFamily{f, db}, err
}

func (f lyingFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		var rows []driver.Row
		for row, err := range f.Family.Scan(ctx, r) {
			if err != nil {
				yield(row, err)
				return
			}
			rows = append(rows, row)
		}
		if f.db.lie != nil && len(rows) > 1 {
			rows = f.db.lie(rows)
		}
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// A database that answers a scan with rows twice, in another order or from elsewhere is noticed,
// whichever way the rows are found.
func TestLyingScans(t *testing.T) {
	ctx := context.Background()
	db := &lyingScans{DB: drivertest.NewMemory()}
	st, err := Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name:    "t",
		Key:     []KeyPart{OrderedPart("id", Int64, Boldyreva)},
		Columns: []Column{OrderedColumn("ordered", Int64, Boldyreva), OrderedColumn("moved", Int64, Kerschbaum)},
	})
	require.NoError(t, err)
	for i := range int64(6) {
		require.NoError(t, tbl.Put(ctx, Row{"id": i, "ordered": i, "moved": i / 3}))
	}
	elsewhere := driver.Row{Key: []byte{0}}
	for name, lie := range map[string]func(rows []driver.Row) []driver.Row{
		"twice":         func(rows []driver.Row) []driver.Row { return append(rows, rows[len(rows)-1]) },
		"another order": func(rows []driver.Row) []driver.Row { slices.Reverse(rows); return rows },
		"elsewhere":     func(rows []driver.Row) []driver.Row { return append(rows, elsewhere) },
	} {
		for column, want := range map[string]int{"id": 4, "ordered": 4, "moved": 3} {
			for _, reverse := range []bool{false, true} {
				q := Query{Where: Field[int64](column).Between(1, 4), Reverse: reverse}
				run := func(lie func(rows []driver.Row) []driver.Row) (n int, last error) {
					db.lie = lie
					defer func() { db.lie = nil }()
					for _, err := range tbl.Query(ctx, q) {
						n++
						last = err
					}
					return n, last
				}
				n, err := run(nil)
				require.NoError(t, err)
				require.Equal(t, want, n)
				_, err = run(lie)
				require.ErrorIs(t, err, ErrTampered, "%s, %s, reverse %v", name, column, reverse)
			}
		}
	}
}

// A cell that was emptied or cut short is tampered with: no newer version writes such a one.
func TestCutCellsAreTampered(t *testing.T) {
	x := newTampering(t, cellPerColumn)
	tbl, row := x.tables[0], x.rows[0]
	_, cells := x.cells(tbl, row)
	for i, cell := range cells {
		for _, n := range []int{0, 1, 5, 20} {
			if i > 0 && n == 0 {
				continue // as one that was deleted: the row is torn
			}
			cut := slices.Clone(cells)
			cut[i].Value = cell.Value[:n]
			x.with(tbl, row, cut, func() {
				_, err := tbl.Get(t.Context(), row)
				require.ErrorIs(t, err, ErrTampered, "cell %d cut to %d", i, n)
				require.NotErrorIs(t, err, ErrFormat)
			})
		}
	}
}
