package repro

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		cfg := Config{Seed: 1, Quick: true, Database: memory()}
		points := []netPoint{{0, 2}, {5 * time.Millisecond, 3}}
		all, trips, whole, err := measureThroughput(ctx, cfg, points, 2)
		require.NoError(t, err)
		require.Equal(t, 2, whole)
		require.Len(t, trips, len(orderSeries))
		encrypted, bare := slices.Index(orderSeries, orderEncrypted), slices.Index(orderSeries, orderBare)
		require.Equal(t, [orderKinds]int{1, 1, 1, 1, 1}, trips[bare])
		for kind, n := range trips[encrypted] {
			require.LessOrEqual(t, trips[bare][kind], n)
		}
		require.Equal(t, trips[encrypted], trips[slices.Index(orderSeries, orderLibrary)], "all that the encrypted series asks for")
		for i, at := range all {
			require.Equal(t, points[i], at.netPoint)
			for series, rates := range at.rates {
				require.Len(t, rates, 2, orderSeries[series])
				if points[i].latency > 0 {
					// A client does no more than one round trip after the other.
					for _, rate := range rates {
						require.LessOrEqual(t, rate, float64(points[i].clients)/points[i].latency.Minutes())
					}
				}
			}
		}
		require.NotZero(t, families(t, cfg.Database))

		r := orderResult(cfg, all, trips, whole, "clients", func(p netPoint) float64 { return float64(p.clients) })
		require.Len(t, r.Curves, len(orderSeries))
		require.Len(t, r.Table.Rows, len(orderSeries)*len(points))
		r.Findings = slices.Concat(latencyFindings(all), clientFindings(all, 0.2))
		wellFormed(t, r)

		_, err = byLatency(ended(), cfg, []time.Duration{0})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// What was measured before the database failed is kept.
func TestThroughputKeepsWholeRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		d := memory()
		failing := false
		calls := 0
		d.DB = drivertest.NewFaulty(d.DB, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Scan" {
				calls++
			}
			// After the count, one round that does not count, and one that does: 3 queries a client,
			// series and round.
			if failing = calls > 2*len(orderSeries)+2*3*len(orderSeries)+1; failing && op.Method == "Scan" {
				return drivertest.FailBefore
			}
			return drivertest.NoFault
		})
		all, _, whole, err := measureThroughput(context.Background(), Config{Seed: 1, Quick: true, Database: d}, []netPoint{{0, 1}}, 3)
		require.ErrorIs(t, err, drivertest.ErrInjected)
		require.Equal(t, 1, whole)
		for _, rates := range all[0].rates {
			require.Len(t, rates, 1)
		}
	})
}

// joined returns a client, counted, with its orders.
func joined(t *testing.T) (*party, countedClient) {
	ctx := context.Background()
	cfg := Config{Seed: 1, Quick: true, Database: memory()}
	p, err := newParty(ctx, cfg, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.close(ctx)) })
	c, err := p.join(ctx, cfg, 7, true)
	require.NoError(t, err)
	return p, c
}

func TestOrdersAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		_, c := joined(t)
		for series, table := range c.tables {
			for range 3 {
				require.NoError(t, c.block(ctx, series), orderSeries[series])
			}
			require.Equal(t, int64(3*orderShares[orderDelete]), c.first[series])
			require.Equal(t, int64(ordersReady+3*orderShares[orderInsert]), c.next[series])
			k := c.key(c.first[series] + 3)
			o, found, err := table.get(ctx, k)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, orderOf(k, o.quantity), o, orderSeries[series])

			// Orders that are changed or gone are noticed.
			for n := c.first[series]; n < c.next[series]; n++ {
				o := orderOf(c.key(n), 1)
				o.customer = "another"
				require.NoError(t, table.put(ctx, o))
			}
			require.ErrorIs(t, c.operate(ctx, series, orderGet), exit.ErrWrongAnswer, orderSeries[series])
			for n := c.first[series]; n < c.next[series]; n += 10 {
				require.NoError(t, table.remove(ctx, c.key(n)))
			}
			require.ErrorIs(t, c.operate(ctx, series, orderRange), exit.ErrWrongAnswer, orderSeries[series])
		}
	})
}

// The plaintext series takes the round trips of the encrypted one.
func TestFurtherRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		p, c := joined(t)
		more := [orderKinds]int{0, 1, 2, 3, 4}
		c.tables[0].(*bareOrders).further = more
		trips, err := p.count(ctx, c)
		require.NoError(t, err)
		require.Equal(t, [orderKinds]int{1, 2, 3, 4, 5}, trips[0])

		encrypted, bare := [orderKinds]int{1, 3, 1, 0, 2}, [orderKinds]int{1, 1, 1, 1, 1}
		require.Equal(t, [orderKinds]int{0, 2, 0, 0, 1}, further([][orderKinds]int{0: {9, 9, 9, 9, 9}, 1: {}, 2: encrypted, 3: bare}))
	})
}

func TestOrdersInTheClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		o := orderOf(orderKey{3, 1<<40 | 5}, 17)
		got, err := readOrder(o.orderKey, o.bytes())
		require.NoError(t, err)
		require.Equal(t, o, got)
		for n := range 29 {
			_, err := readOrder(o.orderKey, o.bytes()[:n])
			require.Error(t, err)
		}
		require.Len(t, o.orderKey.bytes(), orderPrefix+8)
		require.Negative(t, slices.Compare(o.orderKey.bytes(), orderKey{3, 1<<40 | 6}.bytes()))

		ctx := context.Background()
		p, c := joined(t)
		for _, name := range orderFamilies {
			f, err := p.space.db.Family(ctx, p.space.spec(name, orderPrefix))
			require.NoError(t, err)
			cells, err := f.Get(ctx, c.key(3).bytes(), driver.Slice{})
			require.NoError(t, err)
			require.Len(t, cells, 1)
			require.Contains(t, string(cells[0].Value), orderOf(c.key(3), 1).customer)
		}
	})
}

func TestThroughputFindings(t *testing.T) {
	// Throughput of the library and encrypted beside plaintext with the fewest trips, by latency or clients.
	// Plaintext with dummy reads is far slower, and decides nothing.
	made := func(points []netPoint, library, encrypted []float64) []*throughput {
		var all []*throughput
		for i, p := range points {
			plain := 100 * float64(p.clients)
			all = append(all, &throughput{p, [][]float64{steady(9, plain/2), steady(9, plain*library[i]), steady(9, plain*encrypted[i]), steady(9, plain), steady(9, plain*encrypted[i]*0.9)}})
		}
		return all
	}
	ms := time.Millisecond
	latencies := []netPoint{{0, 20}, {20 * ms, 20}, {40 * ms, 20}, {80 * ms, 20}}
	require.Equal(t, "+++", marks(latencyFindings(made(latencies, []float64{0.8, 0.99, 1, 1}, []float64{0.6, 0.8, 0.96, 0.98}))))
	require.Equal(t, "---", marks(latencyFindings(made(latencies, []float64{0.8, 0.8, 1, 1}, []float64{0.6, 0.8, 0.96, 0.5}))))

	near := latencyFindings(made(latencies[:2], []float64{1, 1}, []float64{0.9, 1}))
	require.Equal(t, "++?", marks(near), "nothing is asked of short ways")

	clients := []netPoint{{40 * ms, 1}, {40 * ms, 20}, {40 * ms, 40}}
	require.Equal(t, "+-+", marks(clientFindings(made(clients, []float64{1, 1, 1}, []float64{1, 0.97, 0.8}), 0.2)))
	require.Equal(t, "-+-", marks(clientFindings(made(clients, []float64{1, 1, 1}, []float64{1, 0.9, 0.97}), 0.2)))
	few := made(clients, []float64{1, 1, 1}, []float64{1, 0.97, 0.8})
	for _, t := range few {
		for series := range t.rates {
			t.rates[series] = t.rates[series][:2]
		}
	}
	require.Equal(t, "???", marks(clientFindings(few, 0.2)), "so few rounds have no interval")

	require.Equal(t, "4.0", percentCell(ratio{math.NaN(), 0.04, math.NaN()}).Text)
	require.Equal(t, "4.0 (-1.0 to 6.0)", percentCell(ratio{-0.01, 0.04, 0.06}).Text)
}
