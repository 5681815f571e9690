package store_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// goldenDivided is a database that the first version wrote which divides the units of indexes.
const goldenDivided = "../testdata/vectors/divided-1.json"

// smallUnits has units of indexes divided from 64 values on.
func smallUnits(t *testing.T) {
	scheme.UnitValues.Store(64)
	t.Cleanup(func() { scheme.UnitValues.Store(0) })
}

// dividedDump writes an index that is divided, rebalanced, and divided again.
func dividedDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	smallUnits(t)
	h := newChronicle(t, key, "A database with an index of several units, as store wrote it, see docs/format.md.")
	tbl := h.create(store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.Kerschbaum)},
	})
	for from := range 10 {
		h.put(tbl, featureRows(10*from, 10*from+10, "i1")...)
	}
	_, err := tbl.Rebalance(background, "i1", nil)
	require.NoError(t, err)
	for from := range 6 {
		h.put(tbl, featureRows(-10*from-10, -10*from, "i1")...)
	}
	h.dump.Tables["readings"] = h.holds(tbl, 160)
	return h.finish()
}

// What the first version wrote which divides the units of indexes is read, written and changed, and divided once more.
func TestFirstDividedIndexStaysReadable(t *testing.T) {
	smallUnits(t)
	d := golden(t, goldenDivided, dividedDump)
	_, tbl := rewrittenReadings(t, d)
	require.NoError(t, tbl.Put(background, featureRows(1000, 1200, "i1")...))
	_, err := tbl.Rebalance(background, "i1", nil)
	require.NoError(t, err)
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 360, report.Rows)
}

// goldenDrawn is a database that the first version wrote which divides the units of drawn ciphertexts.
const goldenDrawn = "../testdata/vectors/drawn-1.json"

// drawnDump writes two indexes of drawn ciphertexts that are divided, of a key part and of a column. Parts of some are divided in turn, and
// others were never opened.
func drawnDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	smallUnits(t)
	h := newChronicle(t, key, "A database with indexes of drawn ciphertexts of several units, as store wrote it, see docs/format.md.")
	tbl := h.create(store.Schema{
		Name: "readings", Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.WozniakIndexed)},
		Columns: []store.Column{store.OrderedColumn("i1", small, store.WozniakIndexed)},
	})
	for from := range 12 {
		h.put(tbl, drawnRows(20*from, 20*from+20)...)
	}
	h.dump.Tables["readings"] = h.holds(tbl, 240)
	return h.finish()
}

// drawnRows have keys that ascend, and values in no order.
func drawnRows(from, to int) (rows []store.Row) {
	for i := from; i < to; i++ {
		rows = append(rows, store.Row{"id": int64(i), "i1": int64(i*7919%100_003) - 50_000})
	}
	return rows
}

// What the first version wrote which divides the units of drawn ciphertexts is read, written and changed, divided once more, and made again.
func TestFirstDividedDrawnIndexStaysReadable(t *testing.T) {
	smallUnits(t)
	d := golden(t, goldenDrawn, drawnDump)
	g, tbl := rewrittenReadings(t, d)
	require.NoError(t, tbl.Put(background, drawnRows(1000, 1200)...))
	for _, column := range []string{"id", "i1"} {
		require.NoError(t, tbl.RebuildIndex(background, column, nil))
	}
	for _, scheme := range []store.ColumnScheme{store.Boldyreva, store.WozniakIndexed} {
		require.NoError(t, g.st.Alter(background, "readings", store.ChangeColumn(store.OrderedColumn("i1", small, scheme))))
		_, err := tbl.Convert(background, nil)
		require.NoError(t, err)
	}
	require.NoError(t, tbl.Put(background, drawnRows(2000, 2100)...))
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 540, report.Rows)
}

// When a divided index is made again, all units of the former one are closed for good, also those that nobody had opened, and are empty.
func TestUnitsOfFormerDrawnIndexAreOver(t *testing.T) {
	smallUnits(t)
	d := golden(t, goldenDrawn, drawnDump)
	secret, err := hex.DecodeString(d.Key)
	require.NoError(t, err)
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	db := newSpecDB(loaded(t, d))
	tbl, err := openWith(t, db, key).Table(background, "readings")
	require.NoError(t, err)
	require.NoError(t, tbl.RebuildIndex(background, "id", nil))
	require.NoError(t, tbl.RebuildIndex(background, "i1", nil))
	former, present := 0, 0
	for _, family := range dumped(t, db) {
		for _, row := range family.Rows {
			name, err := hex.DecodeString(row.Key)
			require.NoError(t, err)
			if family.Name[0] != 'i' {
				continue
			}
			if bytes.Contains(name, []byte("-")) {
				present++
				continue
			}
			former++
			require.LessOrEqual(t, len(row.Cells), 2, "%s has records", name)
			require.Equal(t, "0103", row.Cells[0][1][:4], "%s is not over", name)
		}
	}
	// Of the key part four units were divided into 16 each, of the column one was.
	require.Equal(t, 1+4*16+1+16, former)
	require.Greater(t, present, 2)
}

// While clients fill a column whose indexes have units of 64 values, ranges miss no row that was there before they began. In the
// end all rows are found in order, and the table is sound.
func TestDividedColumnUnderLoad(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		smallUnits(t)
		const clients, batches, batch = 3, 20, 20
		db := kind.Open(t, nil)
		tbl := create(t, open(t, db), store.Schema{
			Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.Kerschbaum), store.OrderedColumn("i2", store.Int64, store.WozniakIndexed)},
		})
		values := make([]int64, clients*batches*batch) // ascending, descending, and in random order
		for i := range values {
			values[i] = int64(i) * 1000
		}
		slices.Reverse(values[batches*batch : 2*batches*batch])
		random := rand.New(rand.NewPCG(1, 2))
		random.Shuffle(batches*batch, func(i, j int) {
			at := values[2*batches*batch:]
			at[i], at[j] = at[j], at[i]
		})
		var put atomic.Int64
		var writers sync.WaitGroup
		errs := make(chan error, clients)
		for c := range clients {
			writers.Go(func() {
				own, err := open(t, db).Table(background, "readings")
				for b := 0; b < batches && err == nil; b++ {
					var rows []store.Row
					for i := range batch {
						id := (c*batches+b)*batch + i
						rows = append(rows, store.Row{"id": int64(id), "i1": values[id], "i2": values[id]})
					}
					if err = own.Put(background, rows...); err == nil {
						put.Add(batch)
					}
				}
				errs <- err
			})
		}
		everything := func(column string) store.Query {
			return store.Query{Where: store.Field[int64](column).AtLeast(0)}
		}
		for i := 0; put.Load() < int64(len(values)) && len(errs) == 0; i++ {
			before := put.Load()
			require.GreaterOrEqual(t, int64(len(collect(t, tbl, everything([]string{"i1", "i2"}[i%2])))), before)
		}
		writers.Wait()
		for range clients {
			require.NoError(t, <-errs)
		}
		slices.Sort(values)
		for range 2 {
			for i := range 4 {
				column, reverse := []string{"i1", "i2"}[i/2], i%2 == 1
				q := everything(column)
				q.Reverse = reverse
				var found []int64
				for _, row := range collect(t, tbl, q) {
					found = append(found, row[column].(int64))
				}
				if reverse {
					slices.Reverse(found)
				}
				require.Equal(t, values, found)
			}
			_, err := tbl.Rebalance(background, "i1", nil)
			require.NoError(t, err)
		}
		report, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.Equal(t, len(values), report.Rows)
	})
}
