package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A coarse database writes rows with timestamps that are rarely new, as those of two clients: a replacement of Cassandra comes
// right after what it says that was seen.
type coarse struct {
	driver.Indexer
	last   *atomic.Int64
	writes *atomic.Int64
}

// tick is how far timestamps are apart, in microseconds.
const tick = 16_000

func (db coarse) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.Indexer.Family(ctx, spec)
	if err != nil || spec.Name[0] != 't' {
		return f, err
	}
	return coarseFamily{f, db}, nil
}

type coarseFamily struct {
	driver.Family
	db coarse
}

func (f coarseFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	f.db.writes.Add(1)
	at := max(time.Now().UnixMicro()/tick*tick, f.db.last.Load()+tick)
	f.db.last.Store(at)
	var replacements []driver.Replacement
	for _, m := range mutations {
		seen := driver.Cell{Qualifier: []byte{}, Value: []byte("anything"), Stamp: at + 1}
		replacements = append(replacements, driver.Replacement{Row: m.Row, Seen: seen, Puts: m.Puts, Deletes: m.Deletes})
	}
	_, err := f.Replace(ctx, replacements...)
	return err
}

// Two clients put the same row at the same time, often with one timestamp. When both have returned, the index leads to the row
// with the values that it has, whoever won.
func TestOneTimestampIsMendedBeforeAPutReturns(t *testing.T) {
	for _, kind := range testdb.All {
		if kind.Name != "cassandra" {
			continue
		}
		kind.Need(t)
		db := kind.Open(t, nil).(driver.Indexer)
		st := open(t, db)
		tbl := create(t, st, store.Schema{
			Name: "places", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("celsius", store.Int32, store.MOPE).ServerIndex(), store.RandomisedColumn("note", store.String)},
		})
		const rounds, clients = 60, 2
		var writes atomic.Int64
		var theirs []*store.Table
		for range clients {
			of, err := open(t, coarse{db, new(atomic.Int64), &writes}).Table(background, "places")
			require.NoError(t, err)
			theirs = append(theirs, of)
		}
		again := func(round int) int64 { return writes.Load() - int64(round*clients) }
		round := 0
		for ; round < rounds || again(round) == 0 && round < 40*rounds; round++ { // a busy machine may keep them apart for long
			id := int64(round % 7)
			var group sync.WaitGroup
			errs := make([]error, clients)
			for i, of := range theirs {
				group.Go(func() {
					errs[i] = of.Put(background, store.Row{"id": id, "celsius": int32(round*clients + i), "note": fmt.Sprint(i)})
				})
			}
			group.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			row, err := tbl.Get(background, store.Row{"id": id})
			require.NoError(t, err)
			found := collect(t, tbl, store.Query{Where: celsiusField.Equal(row["celsius"].(int32))})
			require.Len(t, found, 1, "round %d: the index does not lead to the row", round)
			require.Equal(t, row, found[0])
		}
		v, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		t.Logf("%d of %d Puts wrote their row again", again(round), round*clients)
		require.Positive(t, again(round), "no two Puts had one timestamp: nothing was tested")
	}
}
