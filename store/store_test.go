package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

var readings = store.Schema{
	Name: "readings",
	Key: []store.KeyPart{
		store.HashedPart("device", store.String),
		store.OrderedPart("time", store.Time(time.Millisecond), store.MOPE),
		store.TiePart("id"),
	},
	Columns: []store.Column{
		store.OrderedColumn("temperature", store.Float64, store.Boldyreva),
		store.DeterministicColumn("status", store.String),
		store.RandomisedColumn("note", store.String),
		store.PlainColumn("zone", store.Int32),
		store.OrderedColumn("name", store.String, store.Boldyreva),
	},
}

const (
	device      = store.Field[string]("device")
	at          = store.Field[time.Time]("time")
	temperature = store.Field[float64]("temperature")
	status      = store.Field[string]("status")
	name        = store.Field[string]("name")
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	db, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer db.Close()
	st, err := store.Open(ctx, db, ope.GenerateKey(), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, readings)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	var rows []store.Row
	base := time.UnixMilli(1700000000000).UTC()
	for i := range 2000 {
		rows = append(rows, store.Row{
			"device": fmt.Sprint("d", i%10), "time": base.Add(time.Duration(r.IntN(1e6)) * time.Millisecond),
			"temperature": r.Float64() * 40, "status": []string{"ok", "bad"}[r.IntN(2)], "zone": r.IntN(5),
			"name": fmt.Sprintf("sensor-%04d", r.IntN(1000)),
		})
	}
	require.NoError(t, tbl.Put(ctx, rows...))
	count := func(p store.Predicate, less func(a, b store.Row) bool) int {
		n := 0
		var last store.Row
		for row, err := range tbl.Query(ctx, store.Query{Where: p}) {
			require.NoError(t, err)
			if last != nil && less != nil {
				require.False(t, less(row, last))
			}
			last = row
			n++
		}
		e, err := tbl.Explain(ctx, store.Query{Where: p})
		require.NoError(t, err)
		t.Logf("%+v", e)
		return n
	}
	want := func(f func(store.Row) bool) int {
		n := 0
		for _, row := range rows {
			if f(row) {
				n++
			}
		}
		return n
	}
	lessTemp := func(a, b store.Row) bool { return a["temperature"].(float64) < b["temperature"].(float64) }
	lessTime := func(a, b store.Row) bool { return a["time"].(time.Time).Before(b["time"].(time.Time)) }
	lessName := func(a, b store.Row) bool { return a["name"].(string) < b["name"].(string) }
	require.Equal(t, 2000, count(store.Predicate{}, nil))
	require.Equal(t, want(func(r store.Row) bool { return r["temperature"].(float64) >= 10 && r["temperature"].(float64) <= 20 }), count(temperature.Between(10, 20), lessTemp))
	require.Equal(t, want(func(r store.Row) bool { return r["device"] == "d3" }), count(device.Equal("d3"), lessTime))
	mid := base.Add(500 * time.Second)
	require.Equal(t, want(func(r store.Row) bool { return r["device"] == "d3" && r["time"].(time.Time).After(mid) }), count(store.And(device.Equal("d3"), at.Greater(mid)), lessTime))
	require.Equal(t, want(func(r store.Row) bool { return r["status"] == "ok" && r["temperature"].(float64) < 5 }), count(store.And(status.Equal("ok"), temperature.Less(5)), nil))
	require.Equal(t, want(func(r store.Row) bool { n := r["name"].(string); return n >= "sensor-0100" && n < "sensor-0200" }), count(store.And(name.AtLeast("sensor-0100"), name.Less("sensor-0200")), lessName))
	// pages
	for _, rev := range []bool{false, true} {
		token, n := "", 0
		for {
			page, next, err := tbl.Page(ctx, store.Query{Where: name.AtLeast("sensor-0500"), Limit: 37, PageToken: token, Reverse: rev})
			require.NoError(t, err)
			n += len(page)
			if next == "" {
				break
			}
			token = next
		}
		require.Equal(t, want(func(r store.Row) bool { return r["name"].(string) >= "sensor-0500" }), n)
	}
}
