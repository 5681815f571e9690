package store_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A heldDB counts the bytes of rows that were read, and of the largest GetBatch.
type heldDB struct {
	driver.DB
	mu             sync.Mutex // a join reads both sides at a time
	scanned, batch int
}

type heldFamily struct {
	driver.Family
	db *heldDB
}

func (db *heldDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return &heldFamily{f, db}, err
}

func bytesOf(cells []driver.Cell) (n int) {
	for _, cell := range cells {
		n += len(cell.Value)
	}
	return n
}

func (f *heldFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		for row, err := range f.Family.Scan(ctx, r) {
			f.db.mu.Lock()
			f.db.scanned += bytesOf(row.Cells)
			f.db.mu.Unlock()
			if !yield(row, err) {
				return
			}
		}
	}
}

func (f *heldFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	found, err := f.Family.GetBatch(ctx, rows, s)
	n := 0
	for _, cells := range found {
		n += bytesOf(cells)
	}
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	f.db.batch = max(f.db.batch, n)
	return found, err
}

// Of large rows few are in memory at a time, whatever reads them, so that a table of them can be queried.
func TestFewLargeRowsAreHeld(t *testing.T) {
	const rows, size, most = 80, 512 << 10, 5 << 20 // a batch ends with the row that fills it
	db := &heldDB{DB: drivertest.NewMemory()}
	st := open(t, db)
	tbl := create(t, st, store.Schema{
		Name: "t", Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.Boldyreva)},
		Columns: []store.Column{store.OrderedColumn("v", store.Int64, store.Boldyreva), store.RandomisedColumn("text", store.String)},
	})
	text := strings.Repeat("x", size)
	for i := range int64(rows) {
		require.NoError(t, tbl.Put(background, store.Row{"id": i, "v": i, "text": text}))
	}

	t.Run("query by the row key", func(t *testing.T) {
		db.scanned = 0
		for row, err := range tbl.Query(background, store.Query{Where: store.Int64.Field("id").Less(rows)}) {
			require.NoError(t, err)
			require.Len(t, row["text"], size)
			break
		}
		require.LessOrEqual(t, db.scanned, 2*most, "before the first row")
	})
	for name, columns := range map[string][]string{"query by a column": nil, "query by a column for little of each row": {"id"}} {
		t.Run(name, func(t *testing.T) {
			db.batch = 0
			require.Len(t, collect(t, tbl, store.Query{Columns: columns, Where: store.Int64.Field("v").Less(rows), OrderBy: "v"}), rows)
			require.LessOrEqual(t, db.batch, 16*(size+1024), "the first batch has sixteen rows, whatever their size")
		})
	}
	t.Run("join", func(t *testing.T) {
		create(t, st, store.Schema{
			Name: "u", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("v", store.Int64, store.Boldyreva).SharedWith("t", "v")},
		})
		other := store.Must(st.Table(background, "u"))
		for i := range int64(rows) {
			require.NoError(t, other.Put(background, store.Row{"id": i, "v": i}))
		}
		db.batch = 0
		n := 0
		for _, err := range store.Join(background, tbl, "v", other, "v", nil) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, rows, n)
		require.LessOrEqual(t, db.batch, 16*(size+1024))
	})
}
