package ferretti

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
		points := []netPoint{{0, 2}, {5 * time.Millisecond, 3}}
		all, trips, whole, err := measureThroughput(ctx, cfg, points, 2)
		require.NoError(t, err)
		require.Equal(t, 2, whole)
		require.Len(t, trips, len(workload.Series))
		encrypted, bare := slices.Index(workload.Series, workload.Encrypted), slices.Index(workload.Series, workload.Bare)
		require.Equal(t, [workload.Kinds]int{1, 1, 1, 1, 1}, trips[bare])
		for kind, n := range trips[encrypted] {
			require.LessOrEqual(t, trips[bare][kind], n)
		}
		require.Equal(t, trips[encrypted], trips[slices.Index(workload.Series, workload.Library)], "all that the encrypted series asks for")
		for i, at := range all {
			require.Equal(t, points[i], at.netPoint)
			for series, rates := range at.rates {
				require.Len(t, rates, 2, workload.Series[series])
				if points[i].latency > 0 {
					// A client does no more than one round trip after the other.
					for _, rate := range rates {
						require.LessOrEqual(t, rate, float64(points[i].clients)/points[i].latency.Minutes())
					}
				}
			}
		}
		require.NotZero(t, reprotest.Families(t, cfg.Database))

		r := orderResult(cfg, all, trips, whole, "clients", func(p netPoint) float64 { return float64(p.clients) })
		require.Len(t, r.Curves, len(workload.Series))
		require.Len(t, r.Table.Rows, len(workload.Series)*len(points))
		r.Findings = slices.Concat(latencyFindings(all), clientFindings(all, 0.2))
		reprotest.WellFormed(t, r)

		_, err = byLatency(reprotest.Ended(), cfg, []time.Duration{0})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// What was measured before the database failed is kept.
func TestThroughputKeepsWholeRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		d := reprotest.Memory()
		failing := false
		calls := 0
		d.DB = drivertest.NewFaulty(d.DB, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Scan" {
				calls++
			}
			// After the count, one round that does not count, and one that does: 3 queries a client,
			// series and round.
			if failing = calls > 2*len(workload.Series)+2*3*len(workload.Series)+1; failing && op.Method == "Scan" {
				return drivertest.FailBefore
			}
			return drivertest.NoFault
		})
		all, _, whole, err := measureThroughput(context.Background(), experiment.Config{Seed: 1, Quick: true, Database: d}, []netPoint{{0, 1}}, 3)
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
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
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
		for series, table := range c.Tables {
			for range 3 {
				require.NoError(t, c.Block(ctx, series), workload.Series[series])
			}
			require.Equal(t, int64(3*workload.KindShares[workload.Delete]), c.First[series])
			require.Equal(t, int64(workload.FirstOrders+3*workload.KindShares[workload.Insert]), c.Next[series])
			k := c.Key(c.First[series] + 3)
			o, found, err := table.Get(ctx, k)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, workload.OrderOf(k, o.Quantity), o, workload.Series[series])

			// Orders that are changed or gone are noticed.
			for n := c.First[series]; n < c.Next[series]; n++ {
				o := workload.OrderOf(c.Key(n), 1)
				o.Customer = "another"
				require.NoError(t, table.Put(ctx, o))
			}
			require.ErrorIs(t, c.Operate(ctx, series, workload.Get), exit.ErrWrongAnswer, workload.Series[series])
			for n := c.First[series]; n < c.Next[series]; n += 10 {
				require.NoError(t, table.Remove(ctx, c.Key(n)))
			}
			require.ErrorIs(t, c.Operate(ctx, series, workload.Range), exit.ErrWrongAnswer, workload.Series[series])
		}
	})
}

// The plaintext series takes the round trips of the encrypted one.
func TestFurtherRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		p, c := joined(t)
		more := [workload.Kinds]int{0, 1, 2, 3, 4}
		c.Tables[0].(*workload.BareTable).Further = more
		trips, err := p.count(ctx, c)
		require.NoError(t, err)
		require.Equal(t, [workload.Kinds]int{1, 2, 3, 4, 5}, trips[0])

		encrypted, bare := [workload.Kinds]int{1, 3, 1, 0, 2}, [workload.Kinds]int{1, 1, 1, 1, 1}
		require.Equal(t, [workload.Kinds]int{0, 2, 0, 0, 1}, further([][workload.Kinds]int{0: {9, 9, 9, 9, 9}, 1: {}, 2: encrypted, 3: bare}))
	})
}

func TestOrdersInTheClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		o := workload.OrderOf(workload.Key{Warehouse: 3, Number: 1<<40 | 5}, 17)
		got, err := workload.ReadOrder(o.Key, o.Bytes())
		require.NoError(t, err)
		require.Equal(t, o, got)
		for n := range 29 {
			_, err := workload.ReadOrder(o.Key, o.Bytes()[:n])
			require.Error(t, err)
		}
		require.Len(t, o.Key.Bytes(), workload.PrefixBytes+8)
		require.Negative(t, slices.Compare(o.Key.Bytes(), workload.Key{Warehouse: 3, Number: 1<<40 | 6}.Bytes()))

		ctx := context.Background()
		p, c := joined(t)
		for _, name := range workload.Families {
			f, err := p.space.DB.Family(ctx, p.space.Spec(name, workload.PrefixBytes))
			require.NoError(t, err)
			cells, err := f.Get(ctx, c.Key(3).Bytes(), driver.Slice{})
			require.NoError(t, err)
			require.Len(t, cells, 1)
			require.Contains(t, string(cells[0].Value), workload.OrderOf(c.Key(3), 1).Customer)
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
			all = append(all, &throughput{p, [][]float64{reprotest.Steady(9, plain/2), reprotest.Steady(9, plain*library[i]), reprotest.Steady(9, plain*encrypted[i]), reprotest.Steady(9, plain), reprotest.Steady(9, plain*encrypted[i]*0.9)}})
		}
		return all
	}
	ms := time.Millisecond
	latencies := []netPoint{{0, 20}, {20 * ms, 20}, {40 * ms, 20}, {80 * ms, 20}}
	require.Equal(t, "+++", reprotest.Marks(latencyFindings(made(latencies, []float64{0.8, 0.99, 1, 1}, []float64{0.6, 0.8, 0.96, 0.98}))))
	require.Equal(t, "---", reprotest.Marks(latencyFindings(made(latencies, []float64{0.8, 0.8, 1, 1}, []float64{0.6, 0.8, 0.96, 0.5}))))

	near := latencyFindings(made(latencies[:2], []float64{1, 1}, []float64{0.9, 1}))
	require.Equal(t, "++?", reprotest.Marks(near), "nothing is asked of short ways")

	clients := []netPoint{{40 * ms, 1}, {40 * ms, 20}, {40 * ms, 40}}
	require.Equal(t, "+-+", reprotest.Marks(clientFindings(made(clients, []float64{1, 1, 1}, []float64{1, 0.97, 0.8}), 0.2)))
	require.Equal(t, "-+-", reprotest.Marks(clientFindings(made(clients, []float64{1, 1, 1}, []float64{1, 0.9, 0.97}), 0.2)))
	few := made(clients, []float64{1, 1, 1}, []float64{1, 0.97, 0.8})
	for _, t := range few {
		for series := range t.rates {
			t.rates[series] = t.rates[series][:2]
		}
	}
	require.Equal(t, "???", reprotest.Marks(clientFindings(few, 0.2)), "so few rounds have no interval")

	require.Equal(t, "4.0", percentCell(experiment.Ratio{Low: math.NaN(), Mid: 0.04, High: math.NaN()}).Text)
	require.Equal(t, "4.0 (-1.0 to 6.0)", percentCell(experiment.Ratio{Low: -0.01, Mid: 0.04, High: 0.06}).Text)
}
