package store

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

var expiringRows = flag.Int("store.expiring", 600, "rows that expire under load")

// Rows expire while others are put and all are read: no reader gets an error, or a row that has expired or lacks something,
// and the database removes what is left, the postings one grace after the rows.
func TestRowsExpireUnderLoad(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ttl, grace := time.Second, time.Second
		if kind.Server {
			ttl, grace = 6*time.Second, 3*time.Second
		} else {
			t.Parallel()
		}
		db := kind.Open(t, nil)
		st := stores(t, db, 1)[0]
		st.db.Clock = rowcodec.Clock{Grace: grace}
		tbl, err := st.Create(t.Context(), Schema{
			Name: "t", TTL: ttl, CellPerColumn: cellPerColumn,
			Key: []KeyPart{HashedPart("device", Int64), OrderedPart("at", Int64, MOPE)},
			Columns: []Column{
				OrderedColumn("level", Int64, MOPE), DeterministicColumn("site", Int64), RandomisedColumn("put", Int64), PlainColumn("zone", String),
			},
		})
		require.NoError(t, err)
		const devices, sites = 97, 50
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var written atomic.Int64 // rows below it were put
		var wrote sync.Map       // when their Put returned
		var reads, found, back atomic.Int64
		check := func(began time.Time, row Row) error {
			reads.Add(1)
			at := row["at"].(int64)
			if began.Sub(time.UnixMilli(row["put"].(int64))) > ttl+2*time.Second { // of which one is for rounding, and one for the Put
				back.Add(1)
			}
			if row["device"] != at%devices || row["level"] != at || row["site"] != at%sites || row["zone"] != fmt.Sprint("zone ", at) {
				return fmt.Errorf("row %d is %v", at, row)
			}
			return nil
		}
		readers, readCtx := errgroup.WithContext(ctx)
		reader := func(read func(ctx context.Context, i int64) error) {
			readers.Go(func() error {
				for i := int64(0); readCtx.Err() == nil; i++ {
					if err := read(readCtx, i); err != nil && readCtx.Err() == nil {
						return err
					}
					time.Sleep(5 * time.Millisecond)
				}
				return nil
			})
		}
		query := func(ctx context.Context, q Query) error {
			began := time.Now()
			for row, err := range tbl.Query(ctx, q) {
				if err == nil {
					err = check(began, row)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		reader(func(ctx context.Context, i int64) error {
			return query(ctx, Query{Where: Field[int64]("level").Between(written.Load()-200, written.Load())})
		})
		reader(func(ctx context.Context, i int64) error {
			return query(ctx, Query{Where: Field[int64]("site").Equal(i % sites)})
		})
		reader(func(ctx context.Context, i int64) error {
			return query(ctx, Query{Where: Field[int64]("device").Equal(i % devices)})
		})
		reader(func(ctx context.Context, i int64) error {
			at := written.Load() - 1
			if at < 0 {
				return nil
			}
			began := time.Now()
			row, err := tbl.Get(ctx, Row{"device": at % devices, "at": at})
			put, _ := wrote.Load(at)
			switch {
			case err != nil:
				return err
			case row != nil:
				found.Add(1)
				return check(began, row)
			case time.Since(put.(time.Time)) < ttl:
				return fmt.Errorf("row %d was put %v ago, and is not found", at, time.Since(put.(time.Time)))
			}
			return nil
		})
		began := time.Now()
		for next := 0; next < *expiringRows; {
			var rows []Row
			put := time.Now()
			for ; next < *expiringRows && len(rows) < 256; next++ {
				at := int64(next)
				rows = append(rows, Row{"device": at % devices, "at": at, "level": at, "site": at % sites, "put": put.UnixMilli(), "zone": fmt.Sprint("zone ", at)})
			}
			require.NoError(t, tbl.Put(ctx, rows...))
			wrote.Store(int64(next-1), put)
			written.Store(int64(next))
		}
		took := time.Since(began)
		end := time.Now().Truncate(time.Second).Add(ttl + time.Second) // of all rows
		time.Sleep(time.Until(end))
		count := func(spec driver.FamilySpec) (n int) {
			f, err := db.Family(ctx, spec)
			require.NoError(t, err)
			for _, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				n++
			}
			return n
		}
		for _, err := range tbl.Query(ctx, Query{}) {
			require.NoError(t, err)
			require.Fail(t, "a row is found after it has expired")
		}
		keys, postings := count(tbl.now().Spec), count(tbl.now().PostingSpec)
		time.Sleep(time.Until(end.Add(2*grace + 2*time.Second))) // which databases round up
		require.Zero(t, count(tbl.now().Spec))
		require.Zero(t, count(tbl.now().PostingSpec))
		cancel()
		require.NoError(t, readers.Wait())
		require.Zero(t, back.Load(), "rows that came back")
		t.Logf("%d rows put in %v; %d rows read by queries and %d by key; when the last had expired, %d key cells and %d postings were left, and none %v later",
			*expiringRows, took.Round(time.Millisecond), reads.Load(), found.Load(), keys, postings, time.Since(end).Round(time.Millisecond))
	})
}
