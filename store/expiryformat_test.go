package store_test

import (
	"encoding/hex"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// expirySchemas are tables whose rows expire: by the table or by the row, of both layouts, and in the clear.
func expirySchemas() []store.Schema {
	schemas := map[string]store.Schema{}
	for _, s := range formatSchemas() {
		schemas[s.Name] = s
	}
	packed, cells, stateful, plain := schemas["by key"], schemas["cell per column"], schemas["stateful"], schemas["plain"]
	packed.TTL, cells.TTL, stateful.TTL, plain.TTL = time.Hour, store.TTLByRow, 3*time.Hour, time.Hour
	return []store.Schema{packed, cells, stateful, plain}
}

// expiryDump writes rows that expire and others, some of them again, and keeps what there is two hours later: of some expired
// rows all cells, of others the key cells.
func expiryDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	db := newSpecDB(drivertest.NewMemoryAt(clock))
	st, err := store.Open(background, db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	store.SetClock(st, clock)
	d := dump{Comment: "A database of rows that expire as store wrote it, see docs/format.md.", Key: hex.EncodeToString(key.Secret()), Tables: map[string][]map[string]string{}}
	for _, schema := range expirySchemas() {
		now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		tbl, rows := create(t, st, schema), formatRows()[schema.Name]
		put := func(ttl time.Duration, rows ...store.Row) {
			require.NoError(t, tbl.Expiring(ttl).Put(background, rows...))
		}
		require.NoError(t, tbl.Put(background, rows...))
		put(0, rows[0])
		put(5*time.Hour, rows[1])
		put(30*time.Minute, rows[2])
		if schema.Name != "plain" {
			require.NoError(t, st.RotateKeys(background, schema.Name))
		}
		now = now.Add(20 * time.Minute)
		_, err := tbl.Convert(background, nil)
		require.NoError(t, err)
		now = now.Add(time.Hour + 39*time.Minute)
		if len(rows) > 3 {
			put(2*time.Second, rows[3])
		}
		now = now.Add(time.Minute)
		alive := rows[:2]
		if schema.TTL == store.TTLByRow || schema.TTL > 2*time.Hour {
			alive = append(alive[:2:2], rows[4])
		}
		d.Tables[schema.Name] = texts(alive)
	}
	d.Now = now.Unix()
	// The row that was put again had expired by then, so that its postings were left to the database.
	d.Dangling = map[string]int{"by key": 4}
	d.Families = dumped(t, db)
	return d
}

// Rows that the first version with expiries wrote are read until they expire, and not after.
func TestFirstExpiriesStayReadable(t *testing.T) {
	d := golden(t, goldenExpiry, expiryDump)
	st := openDump(t, d)
	now := time.Unix(d.Now, 0)
	store.SetClock(st, func() time.Time { return now })
	for _, schema := range expirySchemas() {
		tbl, err := st.Table(background, schema.Name)
		require.NoError(t, err)
		require.Equal(t, schema.TTL, tbl.Schema().TTL)
		require.Equal(t, described(schema), described(tbl.Schema()))
		require.Equal(t, schema.CellPerColumn, tbl.Schema().CellPerColumn)
		now = time.Unix(d.Now, 0)
		rows := collect(t, tbl, store.Query{})
		require.Equal(t, sorted(d.Tables[schema.Name]), texts(rows), schema.Name)
		report, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.Equal(t, len(rows), report.Rows)
		require.Positive(t, report.Expired)
		require.Equal(t, d.Dangling[schema.Name], report.Dangling)
		now = now.Add(4 * time.Hour)
		want := 1 // which never expires
		if schema.TTL == store.TTLByRow {
			want = 2
		}
		require.Len(t, collect(t, tbl, store.Query{}), want)
		require.NoError(t, tbl.Put(background, maps.Clone(rows[0])))
	}
}
