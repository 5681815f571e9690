package paged_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A writer that does not know a new key yet seals all pages again under it which he has written while they were resealed: also those
// that came of a cut and have none of his rows.
func TestCutWhilePagesAreResealed(t *testing.T) {
	testdb.EachOf(t, false, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := opened(t, db)
		tbl, err := paged.Create(ctx, st, store.Schema{
			Name: "t", SpreadBits: -1, Key: []store.KeyPart{store.OrderedPart("at", store.Uint8, store.Plaintext)},
			Columns: []store.Column{store.RandomisedColumn("value", store.Int64)},
		}, 4)
		require.NoError(t, err)
		for at := uint8(10); at <= 40; at += 10 {
			require.NoError(t, tbl.Put(ctx, store.Row{"at": at, "value": int64(at)}))
		}
		writer, err := paged.Open(ctx, opened(t, db), "t")
		require.NoError(t, err)
		require.NoError(t, st.RotateKeys(ctx, "t"))

		wrote := false
		resealing, err := paged.Open(ctx, opened(t, intercept.New(db, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
			if op.Method != "Scan" || op.Family[0] != 't' || wrote {
				return c.Make(nil)
			}
			return c.Make(func(int) error { // the page is read, and not resealed yet
				if wrote {
					return nil
				}
				wrote = true
				return writer.Put(ctx, store.Row{"at": uint8(11), "value": int64(11)})
			})
		}, nil)), "t")
		require.NoError(t, err)
		wrote = false
		_, err = resealing.Reseal(ctx)
		require.NoError(t, err)
		require.True(t, wrote)
		c, err := tbl.Verify(ctx)
		require.NoError(t, err)
		require.Equal(t, 5, c.Rows)
		require.Equal(t, 2, c.Pages)
		require.Zero(t, c.Old)
	})
}

// A call that fails leaves no page under a key that was replaced before, nor a value of a column that was dropped in the clear.
func TestWriteThatFailsAfterKeysWereReplaced(t *testing.T) {
	testdb.EachOf(t, false, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := opened(t, db)
		tbl, err := paged.Create(ctx, st, store.Schema{
			Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)}, Columns: []store.Column{store.PlainColumn("note", store.String)},
		}, 0)
		require.NoError(t, err)
		made, once, failing := make(chan struct{}), sync.Once{}, false
		writer, err := paged.Open(ctx, opened(t, intercept.New(db, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
			if !failing || op.Method != "CheckAndPut" || op.Family[0] != 't' {
				return c.Make(nil)
			}
			if op.Row[0]&1 == 0 {
				<-made
				return driver.ErrUnavailable
			}
			defer once.Do(func() { close(made) })
			return c.Make(nil)
		}, nil)), "t")
		require.NoError(t, err)
		require.NoError(t, st.Alter(ctx, "t", store.DropColumn("note")))
		require.NoError(t, st.RotateKeys(ctx, "t"))
		_, err = tbl.Reseal(ctx)
		require.NoError(t, err)

		failing = true
		var rows []store.Row
		for k := range int64(20) {
			rows = append(rows, store.Row{"k": k, "note": "CANARY"})
		}
		require.ErrorIs(t, writer.Put(ctx, rows...), driver.ErrUnavailable)
		c, err := tbl.Verify(ctx)
		require.NoError(t, err)
		require.NotZero(t, c.Pages)
		require.Zero(t, c.Old)
		names, err := db.Families(ctx)
		require.NoError(t, err)
		for _, name := range names {
			if name[0] != 't' {
				continue
			}
			f, err := db.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
			require.NoError(t, err)
			for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				for _, cell := range row.Cells {
					require.NotContains(t, string(cell.Value), "CANARY")
				}
			}
		}
	})
}
