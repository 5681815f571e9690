package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var mutableSchema = Schema{
	Name: "mutable",
	Key:  []KeyPart{HashedPart("id", Int64)},
	Columns: []Column{
		OrderedColumn("level", Int64, Kerschbaum), OrderedColumn("name", String, Kerschbaum), RandomisedColumn("note", Int64),
	},
}

func mutableTable(t testing.TB, db driver.DB) *Table {
	t.Helper()
	ctx := context.Background()
	st, err := Open(ctx, db, kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(ctx)) // writes leave nothing to do
	tbl, err := st.Table(ctx, mutableSchema.Name)
	if errors.Is(err, ErrNoTable) {
		tbl, err = st.Create(ctx, mutableSchema)
	}
	require.NoError(t, err)
	return tbl
}

// mutableRows are rows with many values of level, three rows each, but one with many rows.
func mutableRows() []Row {
	var rows []Row
	for i := range int64(2500) {
		level := i / 3 * 1_000_003
		if i >= 2300 {
			level = 5
		}
		rows = append(rows, Row{"id": i, "level": level, "name": fmt.Sprint("customer ", i%40), "note": i})
	}
	return rows
}

// levels returns what a query finds, and checks that no row comes twice.
func levels(t *testing.T, rows []Row) (found []int64) {
	t.Helper()
	seen := make(map[int64]bool)
	for _, row := range rows {
		require.False(t, seen[row["id"].(int64)])
		seen[row["id"].(int64)] = true
		found = append(found, row["level"].(int64))
	}
	return found
}

func all(t *testing.T, tbl *Table, q Query) (rows []Row) {
	t.Helper()
	for row, err := range tbl.Query(context.Background(), q) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// Ranges of more values than are read at once, and values with more rows, in both directions, with
// limits and by pages.
func TestMutableRanges(t *testing.T) {
	ctx := context.Background()
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		tbl := mutableTable(t, kind.Open(t, nil))
		rows := mutableRows()
		require.NoError(t, tbl.Put(ctx, rows...))
		for _, r := range [][2]int64{{-1 << 62, 1 << 62}, {5, 5}, {0, 6}, {1_000_004, 700_000_000}, {6, 1_000_002}, {9, 3}} {
			if !kind.Runs(r[1] < 1<<62) {
				continue
			}
			var want []int64
			for _, row := range rows {
				if level := row["level"].(int64); r[0] <= level && level <= r[1] {
					want = append(want, level)
				}
			}
			slices.Sort(want)
			for _, reverse := range []bool{false, true} {
				q := Query{Where: Field[int64]("level").Between(r[0], r[1]), Reverse: reverse}
				require.Equal(t, want, levels(t, all(t, tbl, q)))
				for _, limit := range []int{1, 10, 1000} {
					q.Limit = limit
					require.Equal(t, want[:min(limit, len(want))], levels(t, all(t, tbl, q)))
				}
				q.Limit, q.PageToken = 311, ""
				var paged []Row
				for {
					page, next, err := tbl.Page(ctx, q)
					require.NoError(t, err)
					paged = append(paged, page...)
					if q.PageToken = next; next == "" {
						break
					}
				}
				require.Equal(t, want, levels(t, paged))
				slices.Reverse(want)
			}
		}
		e, err := tbl.Analyze(ctx, Query{Where: Field[int64]("level").Between(5, 2_500_000)})
		require.NoError(t, err)
		require.Equal(t, inspect.Explanation{Driver: "level", Intervals: 1, Tokens: 3, Buckets: 3, Opened: []string{"level", "name", "note"}, Requests: 1 + 3, Hits: 206, Rows: 206}, e)
	})
}

// counted counts the calls to the families of one table, by the letter that their names begin with.
func counted(db driver.DB, counts map[string]int) driver.DB {
	var mu sync.Mutex
	return drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op.Method != "Family" && op.Family != catalogueFamily && op.Family != "" {
			counts[op.Family[:1]+" "+op.Method]++
		}
		return drivertest.NoFault
	})
}

// Queries never write, equality does without the index, and a Put commits its new values together.
func TestMutableRequests(t *testing.T) {
	ctx := context.Background()
	counts := make(map[string]int)
	db := drivertest.NewMemory()
	tbl := mutableTable(t, counted(db, counts))
	require.NoError(t, tbl.Put(ctx, mutableRows()[:chunks.WriteChunk]...))
	commits := counts["i Commit"] + counts["i CheckAndPut"]
	require.LessOrEqual(t, commits, 2*3, "a column opens its index, and commits its values")
	clear(counts)
	require.NoError(t, tbl.Put(ctx, mutableRows()[:chunks.WriteChunk]...))
	require.Equal(t, 0, counts["i Commit"]+counts["i Get"], "the values are known")

	other := mutableTable(t, counted(db, counts))
	clear(counts)
	require.Len(t, all(t, other, Query{Where: Field[int64]("level").In(3_000_009, 4_000_012, 17)}), 6)
	require.Len(t, all(t, other, Query{Where: Field[string]("name").Equal("customer 7")}), 7)
	require.Equal(t, 0, counts["i Get"])
	require.Len(t, all(t, other, Query{Where: Field[int64]("level").Between(3_000_009, 5_000_012)}), 6)
	require.Greater(t, counts["i Get"], 0)
	for call, n := range counts {
		if strings.HasSuffix(call, "Commit") || strings.HasSuffix(call, "Put") || strings.HasSuffix(call, "Apply") {
			require.Zero(t, n, call)
		}
	}
	clear(counts)
	stats, err := other.Rebalance(ctx, "level", nil)
	require.NoError(t, err)
	require.Equal(t, 86, stats.Values)
	for call := range counts {
		require.Equal(t, "i", call[:1], "rows and postings stay as they are")
	}
	for _, column := range []string{"note", "id", "none"} {
		_, err = other.Rebalance(ctx, column, nil)
		require.ErrorIs(t, err, ErrColumn)
		require.ErrorContains(t, err, column)
	}
}

// A key part of a stateful scheme is looked for without giving out a ciphertext.
func TestStatefulKeyIsReadOnly(t *testing.T) {
	ctx := context.Background()
	counts := make(map[string]int)
	st, err := Open(ctx, counted(drivertest.NewMemory(), counts), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name: "keys", Key: []KeyPart{OrderedPart("at", Int64, WozniakIndexed), TiePart("tie")}, Columns: []Column{RandomisedColumn("v", Int64)},
	})
	require.NoError(t, err)
	rows := []Row{{"at": int64(5), "tie": [16]byte{1}, "v": int64(1)}, {"at": int64(5), "tie": [16]byte{2}, "v": int64(2)}, {"at": int64(-1 << 63), "tie": [16]byte{}, "v": int64(3)}}
	require.NoError(t, tbl.Put(ctx, rows...))
	clear(counts)
	for _, row := range rows {
		got, err := tbl.Get(ctx, row)
		require.NoError(t, err)
		require.Equal(t, row, got)
	}
	for _, key := range []Row{{"at": int64(6), "tie": [16]byte{1}}, {"at": int64(5), "tie": [16]byte{3}}, {"at": int64(1<<63 - 1), "tie": [16]byte{}}} {
		got, err := tbl.Get(ctx, key)
		require.NoError(t, err)
		require.Nil(t, got)
		require.NoError(t, tbl.Delete(ctx, key, rows[0]))
	}
	require.Zero(t, counts["i Commit"])
	require.Len(t, all(t, tbl, Query{}), 2)
	_, err = tbl.Get(ctx, Row{"at": int64(5)})
	require.ErrorIs(t, err, ErrColumn)
}

// Two ranges of values that were never written are one range of ciphertexts. A row that comes into
// it during the query is in one of them.
func TestStatefulRangesThatOverlap(t *testing.T) {
	ctx := context.Background()
	memory := drivertest.NewMemory()
	schema := Schema{Name: "keys", Key: []KeyPart{OrderedPart("at", Int64, WozniakIndexed)}}
	st, err := Open(ctx, memory, kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"at": int64(0)}, Row{"at": int64(100)}))
	once := false
	meddling := drivertest.NewFaulty(noSnapshots{DB: memory}, func(op drivertest.Op) drivertest.Fault {
		if op.Method == "Scan" && op.Family[0] == 't' && !once {
			once = true
			require.NoError(t, tbl.Put(ctx, Row{"at": int64(30)}, Row{"at": int64(70)}))
		}
		return drivertest.NoFault
	})
	st, err = Open(ctx, meddling, kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	other, err := st.Table(ctx, schema.Name)
	require.NoError(t, err)
	require.Equal(t, []Row{{"at": int64(30)}, {"at": int64(70)}}, all(t, other, Query{Where: Field[int64]("at").In(30, 50, 70)}))
	require.True(t, once)
}

// A query on a database with snapshots sees one instant, though it reads the index as it is.
func TestMutableSnapshot(t *testing.T) {
	ctx := context.Background()
	tbl := mutableTable(t, drivertest.NewMemory())
	rows := mutableRows()[:2000]
	require.NoError(t, tbl.Put(ctx, rows...))
	n := 0
	for row, err := range tbl.Query(ctx, Query{Where: Field[int64]("level").AtLeast(0)}) {
		require.NoError(t, err)
		require.Equal(t, rows[row["id"].(int64)], row)
		if n++; n == 1 {
			for _, row := range rows {
				row = maps.Clone(row)
				row["level"] = row["level"].(int64) + 500_000
				require.NoError(t, tbl.Put(ctx, row))
			}
			_, err := tbl.Rebalance(ctx, "level", nil)
			require.NoError(t, err)
		}
	}
	require.Equal(t, len(rows), n)
}

// Whatever is done to the index of a column is an error with its name, or does no harm.
func TestMutableIndexTampering(t *testing.T) {
	ctx := context.Background()
	memory := drivertest.NewMemory()
	tbl := mutableTable(t, memory)
	require.NoError(t, tbl.Put(ctx, mutableRows()[:60]...))
	family, err := memory.Family(ctx, driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
	require.NoError(t, err)
	unit := func(column string) (row []byte) {
		id := tbl.now().ByName[column].Id
		for r, err := range family.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			if bytes.Contains(r.Key, fmt.Appendf(nil, "u%x/", id)) && len(r.Cells) > 3 {
				row = r.Key
			}
		}
		require.NotNil(t, row)
		return row
	}
	row := unit("level")
	was, err := family.Get(ctx, row, driver.Slice{})
	require.NoError(t, err)
	foreign, err := family.Get(ctx, unit("name"), driver.Slice{})
	require.NoError(t, err)
	set := func(cells []driver.Cell) {
		require.NoError(t, family.Apply(ctx, driver.Mutation{Row: row, DeleteRow: true}))
		require.NoError(t, family.Apply(ctx, driver.Mutation{Row: row, Puts: cells}))
	}
	const firstRecord = 3 // behind meta, nonce and the header
	check := func(what string, cells []driver.Cell) {
		t.Helper()
		set(cells)
		client := mutableTable(t, memory)
		var failed error
		for _, err := range client.Query(ctx, Query{Where: Field[int64]("level").AtLeast(0)}) {
			failed = err
		}
		require.True(t, errors.Is(failed, ope.ErrIndex) || detected(failed), "%s: %v", what, failed)
		require.ErrorContains(t, failed, `"level"`)
		require.False(t, Retryable(failed))
		// Equality does not ask the index.
		require.Len(t, all(t, client, Query{Where: Field[int64]("level").Equal(1_000_003)}), 3)
	}
	n := 0
	for i := firstRecord; i < len(was); i++ {
		if len(was[i].Qualifier) > 17 {
			continue // the log of moves
		}
		for _, at := range []int{0, 1, 2, len(was[i].Value) / 2, len(was[i].Value) - 1} {
			cells := slices.Clone(was)
			cells[i].Value = bytes.Clone(cells[i].Value)
			cells[i].Value[at] ^= 0x81
			check(fmt.Sprintf("record %d, byte %d", i, at), cells)
			n++
		}
		if i > firstRecord && len(was[i-1].Qualifier) == 17 {
			cells := slices.Clone(was)
			cells[i].Value, cells[i-1].Value = cells[i-1].Value, cells[i].Value
			check(fmt.Sprintf("records %d and %d swapped", i-1, i), cells)
		}
	}
	require.Greater(t, n, 50)
	check("the index of another column", foreign)
	newer := slices.Clone(was)
	newer[0].Value = append([]byte{9}, was[0].Value[1:]...)
	check("a newer format", newer)
	set(was)
	require.Len(t, all(t, tbl, Query{Where: Field[int64]("level").AtLeast(0)}), 60)
}

// A column with more values than its index takes is an error with its name, and what was there
// stays.
func TestMutableLimit(t *testing.T) {
	ctx := context.Background()
	tbl := mutableTable(t, drivertest.NewMemory())
	level := tbl.now().ByName["level"]
	state, err := index.OpenFamily(ctx, tbl.store().db.Driver, tbl.now().Meta.IndexFamily(), false)
	require.NoError(t, err)
	limited, err := kerschbaum.New(ope.GenerateKey(), Int64.of.Domain(), state, &kerschbaum.Options{Name: "limited", Limit: 100})
	require.NoError(t, err)
	level.Order, level.Batches, level.Scheme = limited, limited, limited
	var rows []Row
	for i := range int64(100) {
		rows = append(rows, Row{"id": i, "level": i * 1000})
	}
	require.NoError(t, tbl.Put(ctx, rows...))
	err = tbl.Put(ctx, Row{"id": int64(1), "level": int64(-1)})
	require.ErrorIs(t, err, ope.ErrFull)
	require.ErrorContains(t, err, `"level"`)
	require.NotContains(t, err.Error(), "-1")
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(2), "level": int64(0)}), "a value that is there")
	require.Len(t, all(t, tbl, Query{Where: Field[int64]("level").AtLeast(0)}), 100)
}

// A key that moves is refused also where the catalogue says so.
func TestMutableKeyInCatalogue(t *testing.T) {
	tbl := mutableTable(t, drivertest.NewMemory())
	meta := *tbl.now().Meta
	meta.Key = []fieldMeta{meta.Columns[0]}
	db := tbl.store().db
	db.Forget(meta.ID)
	_, err := db.Table(context.Background(), &meta, meta.Version)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, `"level"`)
}

// Dropping a table drops its index.
func TestMutableDrop(t *testing.T) {
	ctx := context.Background()
	db := drivertest.NewMemory()
	tbl := mutableTable(t, db)
	families, err := db.Families(ctx)
	require.NoError(t, err)
	require.Len(t, families, 4)
	require.NoError(t, tbl.store().Drop(ctx, mutableSchema.Name))
	families, err = db.Families(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{catalogueFamily}, families)
	require.ErrorIs(t, tbl.Put(ctx, Row{"id": int64(1), "level": int64(1)}), ErrNoTable)
	_, err = tbl.Rebalance(ctx, "level", nil)
	require.ErrorIs(t, err, ErrNoTable)
}

// Readers, writers and rebalances of two clients at the same time.
func TestMutableConcurrency(t *testing.T) {
	ctx := context.Background()
	db := drivertest.NewMemory()
	clients := []*Table{mutableTable(t, db), mutableTable(t, db)}
	var group sync.WaitGroup
	for c, tbl := range clients {
		for w := range 4 {
			group.Go(func() {
				for i := range int64(40) {
					id := int64(c*1000+w*100) + i
					if err := tbl.Put(ctx, Row{"id": id, "level": id * 77_777}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Go(func() {
			for range 5 {
				if _, err := tbl.Rebalance(ctx, "level", nil); err != nil {
					t.Error(err)
				}
				last := int64(-1)
				for row, err := range tbl.Query(ctx, Query{Where: Field[int64]("level").AtLeast(0)}) {
					if err != nil {
						t.Error(err)
						break
					}
					if row["level"].(int64) <= last {
						t.Error("out of order")
					}
					last = row["level"].(int64)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, all(t, clients[0], Query{Where: Field[int64]("level").AtLeast(0)}), 320)
}
