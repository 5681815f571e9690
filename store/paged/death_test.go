package paged_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// mortal returns a database whose client dies before, or right after, the n-th conditional change from when it is armed.
func mortal(db driver.DB, n int, after bool) (_ driver.DB, arm func()) {
	changes, armed := 0, false
	return intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if !armed || !op.Conditional() {
			if armed && changes >= n {
				return errDead
			}
			return c.Make(nil)
		}
		if changes++; changes < n {
			return c.Make(nil)
		}
		if changes == n && after {
			_ = c.Make(nil)
		}
		return errDead
	}, nil), func() { armed = true }
}

// Wherever a client dies while it cuts a page into many, others find each row once, as it was written last: also where they have
// changed a new page while the old one still has the rows that it is to lose.
func TestDeathInACut(t *testing.T) {
	testdb.EachOf(t, false, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		for n := 1; n <= 8; n++ {
			for _, after := range []bool{false, true} {
				for _, spread := range []int{-1, 1} {
					name := fmt.Sprintf("%d, %t, %d", n, after, spread)
					t.Run(name, func(t *testing.T) { testDeath(t, db, name, n, after, spread) })
				}
			}
		}
	})
}

func testDeath(t *testing.T, db driver.DB, name string, n int, after bool, spread int) {
	st := opened(t, db)
	tbl, err := paged.Create(t.Context(), st, store.Schema{
		Name: name, SpreadBits: spread, Key: []store.KeyPart{store.OrderedPart("at", store.Uint8, store.Plaintext)},
		Columns: []store.Column{store.RandomisedColumn("value", store.Int64)},
	}, 2)
	require.NoError(t, err)
	row := func(at, value int64) store.Row { return store.Row{"at": uint8(at), "value": value} }
	want := map[int64]int64{3: 3, 90: 90}
	require.NoError(t, tbl.Put(t.Context(), row(3, 3), row(90, 90)))
	dying, arm := mortal(db, n, after)
	victim, err := paged.Open(t.Context(), opened(t, dying), name)
	require.NoError(t, err)
	arm()
	var rows []store.Row
	for at := int64(10); at < 80; at += 7 {
		rows = append(rows, row(at, at))
	}
	err = victim.Put(t.Context(), rows...)
	require.Equal(t, n <= 7, err != nil, "%v", err)
	if n > 1 || after {
		for at := int64(10); at < 80; at += 7 {
			want[at] = at
		}
	}
	check := func() {
		t.Helper()
		for _, bounds := range [][2]int64{{0, 255}, {0, 20}, {15, 40}, {17, 17}, {38, 60}, {52, 53}, {60, 91}, {73, 255}, {4, 9}, {90, 90}} {
			found := make(map[int64]int64)
			for row, err := range tbl.Query(t.Context(), store.Query{Where: store.Field[uint8]("at").Between(uint8(bounds[0]), uint8(bounds[1]))}) {
				require.NoError(t, err)
				at := int64(row["at"].(uint8))
				require.NotContains(t, found, at, "twice")
				found[at] = row["value"].(int64)
			}
			for at, value := range want {
				if bounds[0] <= at && at <= bounds[1] {
					require.Equal(t, value, found[at], "row %d of %v", at, bounds)
					delete(found, at)
				}
			}
			require.Empty(t, found)
		}
		var found int
		for row, err := range tbl.Query(t.Context(), store.Query{Where: store.Field[uint8]("at").In(3, 17, 45, 73, 90, 91)}) {
			require.NoError(t, err)
			require.Equal(t, want[int64(row["at"].(uint8))], row["value"])
			found++
		}
		count := 0
		for _, at := range []int64{3, 17, 45, 73, 90} {
			if _, ok := want[at]; ok {
				count++
			}
		}
		require.Equal(t, count, found)
		for at, value := range want {
			row, err := tbl.Get(t.Context(), store.Row{"at": uint8(at)})
			require.NoError(t, err)
			require.Equal(t, value, row["value"], "row %d", at)
		}
	}
	check()
	// From the last row on: a page that was made can be changed while the one that is being cut stays as it is.
	for _, at := range []int64{90, 73, 66, 74} {
		want[at] = 1000 + at
		require.NoError(t, tbl.Put(t.Context(), row(at, 1000+at)))
		check()
	}
	want[11] = 11
	require.NoError(t, tbl.Put(t.Context(), row(11, 11)))
	check()
	c, err := tbl.Verify(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Uncut)
	require.Equal(t, len(want), c.Rows)
}
