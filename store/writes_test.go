package store_test

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func TestGetBatch(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), holders(packed))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "note": "a"}, store.Row{"id": 2, "note": "b", "branch": 7}))
	rows, err := tbl.GetBatch(background, []store.Row{{"id": 2}, {"id": 3}, {"id": 1}, {"id": 2}})
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Equal(t, store.Row{"id": int64(2), "note": "b", "branch": int64(7)}, rows[0])
	require.Nil(t, rows[1])
	require.Equal(t, "a", rows[2]["note"])
	require.Equal(t, rows[0], rows[3])
	rows, err = tbl.GetBatch(background, []store.Row{{"id": 2}}, "branch")
	require.NoError(t, err)
	require.Equal(t, []store.Row{{"id": int64(2), "branch": int64(7)}}, rows)

	// More than a driver reads at a time.
	keys := make([]store.Row, 2*driver.MaxBatch+10)
	for i := range keys {
		keys[i] = store.Row{"id": int64(i + 3)}
	}
	last := len(keys) - 1
	require.NoError(t, tbl.Put(background, keys[0], keys[driver.MaxBatch], keys[last]))
	rows, err = tbl.GetBatch(background, keys)
	require.NoError(t, err)
	for i, row := range rows {
		require.Equal(t, i == 0 || i == driver.MaxBatch || i == last, row != nil, i)
		if row != nil {
			require.Equal(t, keys[i]["id"], row["id"])
		}
	}
	rows, err = tbl.GetBatch(background, nil)
	require.NoError(t, err)
	require.Empty(t, rows)
	_, err = tbl.GetBatch(background, []store.Row{{"id": 1}, {}})
	failed := (*store.RowError)(nil)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, failed.Index)
	_, err = tbl.GetBatch(background, []store.Row{{"id": 1}}, "nothing")
	require.ErrorIs(t, err, store.ErrColumn)
}

// An Insert of rows that exist replaces them, and leaves postings that lead to nothing.
func TestInsertIntoATableWithoutConditions(t *testing.T) {
	schema := holders(packed)
	schema.Conditional = false
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, schema)
	require.NoError(t, tbl.Insert(background, store.Row{"id": 1, "balance": 5, "rank": 1, "note": "a"}, store.Row{"id": 2, "balance": 5}))
	require.Len(t, collect(t, tbl, store.Query{Where: balance.Equal(5)}), 2)
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), report.Faults)
	require.NoError(t, tbl.Insert(background, store.Row{"id": 1, "balance": 6}))
	require.Equal(t, []store.Row{{"id": int64(1), "balance": int64(6)}}, collect(t, tbl, store.Query{Where: store.Field[int64]("id").Equal(1)}))
	require.Len(t, collect(t, tbl, store.Query{Where: balance.Equal(5)}), 1)
	require.Len(t, collect(t, tbl, store.Query{Where: balance.Equal(6)}), 1)
	report, err = tbl.Verify(background, &store.VerifyOptions{Repair: true, Grace: time.Nanosecond})
	require.NoError(t, err)
	require.NotZero(t, report.Dangling)
	report, err = tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), report.Faults)
	require.Zero(t, report.Dangling)
	err = tbl.Insert(background, store.Row{"id": 3}, store.Row{"id": 3})
	require.ErrorIs(t, err, driver.ErrOverlap)
	require.ErrorContains(t, err, "insert them one after the other")
	require.NoError(t, tbl.Delete(background, store.Row{"id": 3}, store.Row{"id": 3}))
	for _, call := range []func() error{
		func() error { return tbl.Upsert(background, store.Row{"id": 1}) },
		func() error { return tbl.UpdateIf(background, store.Row{"id": 1}, store.Row{"note": nil}) },
		func() error { _, err := tbl.Increment(background, store.Row{"id": 1}, "balance", 1); return err },
	} {
		err := call()
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "use Put")
	}
}

func TestInsertOfARowThatExists(t *testing.T) {
	testdb.Each(t, func(t *testing.T, database testdb.Database) {
		tbl := create(t, open(t, database.Open(t, nil)), holders(packed))
		var rows []store.Row
		for i := range 300 {
			rows = append(rows, store.Row{"id": i, "note": "new"})
		}
		require.NoError(t, tbl.Insert(background, rows[280]))
		err := tbl.Insert(background, rows...)
		require.ErrorIs(t, err, store.ErrRowExists)
		failed := (*store.RowError)(nil)
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 280, failed.Index)
		batch := (*store.BatchError)(nil)
		require.ErrorAs(t, err, &batch)
		require.Equal(t, 256, batch.Failed[0], "the first chunk was inserted")
		// A row that was deleted does not exist.
		require.NoError(t, tbl.Delete(background, rows[280]))
		require.NoError(t, tbl.Insert(background, rows[280]))
	})
}

// A row that a client with a newer schema wrote, or deleted, exists or does not.
func TestInsertOverARowOfALaterSchema(t *testing.T) {
	db := drivertest.NewMemory()
	st := open(t, db)
	tbl := create(t, open(t, db), holders(packed))
	require.NoError(t, st.RotateKeys(background, "holders"))
	now, err := st.Table(background, "holders")
	require.NoError(t, err)
	require.NoError(t, now.Put(background, store.Row{"id": 1, "note": "theirs"}, store.Row{"id": 2}))
	require.NoError(t, now.Delete(background, store.Row{"id": 2}))
	require.ErrorIs(t, tbl.Insert(background, store.Row{"id": 1}), store.ErrRowExists)
	require.NoError(t, tbl.Insert(background, store.Row{"id": 2, "note": "ours"}))
	row, err := now.Get(background, store.Row{"id": 2})
	require.NoError(t, err)
	require.Equal(t, "ours", row["note"])
}

func TestUpsert(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, holders(cellPerColumn))
	require.NoError(t, tbl.Upsert(background, store.Row{"id": 1, "note": "a", "balance": 1}))
	require.NoError(t, tbl.Upsert(background, store.Row{"id": 1, "balance": 2}, store.Row{"id": 2, "note": nil}))
	row, err := tbl.Get(background, store.Row{"id": 1})
	require.NoError(t, err)
	require.Equal(t, store.Row{"id": int64(1), "note": "a", "balance": int64(2)}, row)
	row, err = tbl.Get(background, store.Row{"id": 2})
	require.NoError(t, err)
	require.Equal(t, store.Row{"id": int64(2)}, row)
	require.Len(t, collect(t, tbl, store.Query{Where: balance.AtLeast(0)}), 1)
	require.ErrorIs(t, tbl.Upsert(background, store.Row{"id": 1}, store.Row{"id": 1}), driver.ErrOverlap)
	require.ErrorIs(t, tbl.Upsert(background, store.Row{"note": "a"}), store.ErrColumn)
	require.ErrorIs(t, tbl.Upsert(background, store.Row{"id": 1, "more": "a"}), store.ErrColumn)

	// With a key that is drawn in an index, and a tie-breaker.
	indexed := create(t, st, store.Schema{
		Name: "indexed", Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.WozniakIndexed), store.TiePart("tie")},
		Columns: []store.Column{store.RandomisedColumn("note", store.String)}, Conditional: true,
	})
	require.ErrorContains(t, indexed.Upsert(background, store.Row{"id": 1, "note": "a"}), `key part "tie" is null`)
	for _, note := range []string{"a", "b"} {
		require.NoError(t, indexed.Upsert(background, store.Row{"id": 1, "tie": [16]byte{1}, "note": note}))
	}
	require.Equal(t, []store.Row{{"id": int64(1), "tie": [16]byte{1}, "note": "b"}}, collect(t, indexed, store.Query{}))
}

func TestUpdateIf(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), holders(packed))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "note": "a", "balance": 1}))
	note := func() any {
		row, err := tbl.Get(background, store.Row{"id": 1})
		require.NoError(t, err)
		return row["note"]
	}
	require.NoError(t, tbl.UpdateIf(background, store.Row{"id": 1, "note": "b"}, store.Row{"note": "a", "remark": nil, "balance": 1}))
	require.Equal(t, "b", note())
	for _, has := range []store.Row{{"note": "a"}, {"note": nil}, {"remark": "a"}, {"note": "b", "balance": 2}} {
		err := tbl.UpdateIf(background, store.Row{"id": 1, "note": "c"}, has)
		require.ErrorIs(t, err, store.ErrConflict)
		require.False(t, store.Retryable(err))
		require.Equal(t, "b", note())
	}
	require.NoError(t, tbl.UpdateIf(background, store.Row{"id": 1, "note": "d"}, nil))
	require.ErrorIs(t, tbl.UpdateIf(background, store.Row{"id": 2, "note": "d"}, store.Row{"note": nil}), store.ErrNoRow)
	err := tbl.UpdateIf(background, store.Row{"id": 1, "note": "d"}, store.Row{"id": 1})
	require.ErrorIs(t, err, store.ErrColumn)
	require.ErrorContains(t, err, "name it in the row alone")
	require.ErrorIs(t, tbl.UpdateIf(background, store.Row{"id": 1}, store.Row{"more": 1}), store.ErrColumn)
	require.ErrorIs(t, tbl.UpdateIf(background, store.Row{"id": 1}, store.Row{"note": 1}), store.ErrColumn)

	// The zeros are equal, and NaN is what it is: whether a row has it can be asked.
	floats := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "floats", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Conditional: true,
		Columns: []store.Column{store.RandomisedColumn("x", store.Float64)},
	})
	require.NoError(t, floats.Put(background, store.Row{"id": 1, "x": math.Copysign(0, -1)}))
	require.NoError(t, floats.UpdateIf(background, store.Row{"id": 1, "x": math.NaN()}, store.Row{"x": 0}))
	require.ErrorIs(t, floats.UpdateIf(background, store.Row{"id": 1, "x": 1}, store.Row{"x": 0}), store.ErrConflict)
	require.NoError(t, floats.UpdateIf(background, store.Row{"id": 1, "x": 1}, store.Row{"x": math.NaN()}))
}

func TestIncrement(t *testing.T) {
	schema := holders(packed)
	schema.Columns = append(schema.Columns, store.RandomisedColumn("big", store.Uint64), store.RandomisedColumn("small", store.Int8.Within(-5, 5)), store.RandomisedColumn("float", store.Float64))
	tbl := create(t, open(t, drivertest.NewMemory()), schema)
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "balance": 1, "big": uint64(math.MaxUint64 - 1), "small": 4, "float": 1, "branch": math.MinInt}))
	key := store.Row{"id": 1}
	for _, c := range []struct {
		column string
		by     int64
		want   any
		err    error
	}{
		{"balance", 2, int64(3), nil}, {"balance", -4, int64(-1), nil}, {"balance", 0, int64(-1), nil}, {"balance", math.MaxInt64, int64(math.MaxInt64 - 1), nil},
		{"balance", 2, nil, ope.ErrDomain}, {"branch", -1, nil, ope.ErrDomain}, {"branch", math.MinInt64, nil, ope.ErrDomain},
		{"big", 1, uint64(math.MaxUint64), nil}, {"big", 1, nil, ope.ErrDomain}, {"big", math.MinInt64, uint64(math.MaxInt64), nil}, {"big", math.MinInt64, nil, ope.ErrDomain},
		{"small", 1, int8(5), nil}, {"small", 1, nil, ope.ErrDomain}, {"small", 300, nil, ope.ErrDomain}, {"small", -10, int8(-5), nil},
		{"float", 1, nil, store.ErrColumn}, {"note", 1, nil, store.ErrColumn}, {"owner", 1, nil, store.ErrColumn}, {"id", 1, nil, store.ErrColumn}, {"more", 1, nil, store.ErrColumn},
	} {
		sum, err := tbl.Increment(background, key, c.column, c.by)
		require.Equal(t, c.want, sum, c)
		require.ErrorIs(t, err, c.err, c)
	}
	require.Len(t, collect(t, tbl, store.Query{Where: balance.Equal(math.MaxInt64 - 1)}), 1)
	_, err := tbl.Increment(background, store.Row{"id": 2}, "balance", 1)
	require.ErrorIs(t, err, store.ErrNoRow)
	_, err = tbl.Increment(background, store.Row{"id": 1, "note": "x"}, "balance", 1)
	require.NoError(t, err, "of the key, the key parts count")
}

// All increments of clients that are at it at the same time count, and none twice, whatever becomes of answers.
func TestIncrementsCount(t *testing.T) {
	testdb.Every(t, func(t *testing.T, database testdb.Database) {
		const clients, times = 4, 8
		db := database.Open(t, nil)
		created := create(t, open(t, db), holders(packed))
		require.NoError(t, created.Put(background, store.Row{"id": 1, "balance": 0}))
		var mu sync.Mutex
		made, unknown := 0, 0
		var group sync.WaitGroup
		for c := range clients {
			group.Go(func() {
				faulty := drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
					if op.Family == "catalogue" || op.Method == "Family" || !op.Conditional() || op.N%3 != c%3 {
						return drivertest.NoFault
					}
					return []drivertest.Fault{drivertest.FailAfter, drivertest.Lose}[op.N/3%2]
				})
				st, err := store.Open(background, faulty, kms.NewLocal(testKey), nil)
				if err != nil {
					panic(err)
				}
				tbl, err := st.Table(background, "holders")
				if err != nil {
					panic(err)
				}
				for range times {
					_, err := tbl.Increment(background, store.Row{"id": 1}, "balance", 1)
					mu.Lock()
					switch {
					case err == nil:
						made++
					case errors.Is(err, driver.ErrUnknownOutcome) && !store.Retryable(err):
						unknown++
					default:
						panic(err)
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		row, err := created.Get(background, store.Row{"id": 1})
		require.NoError(t, err)
		count := row["balance"].(int64)
		t.Logf("%d made, %d of unknown outcome, %d counted", made, unknown, count)
		require.LessOrEqual(t, int64(made), count)
		require.LessOrEqual(t, count, int64(made+unknown))
		require.NotZero(t, made)
	})
}

// If another client writes the row after an attempt whose outcome is not known, an Increment does not try again. If nobody
// does, it finds out.
func TestIncrementOfUnknownOutcome(t *testing.T) {
	for _, fate := range []drivertest.Fault{drivertest.Lose, drivertest.FailAfter} {
		for _, writes := range []bool{false, true} {
			memory := drivertest.NewMemory()
			other := create(t, open(t, memory), holders(packed))
			require.NoError(t, other.Put(background, store.Row{"id": 1, "balance": 1}))
			var write func() error
			if writes {
				write = func() error { return other.Update(background, store.Row{"id": 1, "balance": 10}) }
			}
			tbl, done := afterAttempt(t, memory, "holders", fate, write)
			sum, err := tbl.Increment(background, store.Row{"id": 1}, "balance", 1)
			require.True(t, done())
			if writes {
				require.ErrorIs(t, err, driver.ErrUnknownOutcome)
				require.False(t, store.Retryable(err))
				require.ErrorContains(t, err, "read it before you try again")
			} else {
				require.NoError(t, err)
				require.Equal(t, int64(2), sum)
			}
			row, err := other.Get(background, store.Row{"id": 1})
			require.NoError(t, err)
			require.Equal(t, map[bool]int64{false: 2, true: 10}[writes], row["balance"])
		}
	}
}
