package ferretti

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestResponseTimes(t *testing.T) {
	cfg := experiment.Config{Seed: 1, Quick: true}
	synctest.Test(t, func(t *testing.T) { // whose network takes no real time
		cfg.Database = reprotest.Memory()
		r, err := overheadTable(t.Context(), cfg)
		require.NoError(t, err)
		reprotest.WellFormed(t, r)
		reprotest.Smaller(t, r)
		require.Len(t, r.Table.Rows, 4*len(orderCommands))
		for i, row := range r.Table.Rows {
			latency := []float64{0, 20, 40, 80}[i/4]
			for _, cell := range []int{2, 3, 5} {
				require.GreaterOrEqual(t, *row[cell].Number, latency, "row %d: a command takes a round trip at least", i)
			}
		}
		require.Zero(t, tablesLeft(t, cfg.Database))
	})
	for _, f := range orderTimeFigures[1:] {
		synctest.Test(t, func(t *testing.T) {
			cfg.Database = reprotest.Memory()
			r, err := f.Run(t.Context(), cfg)
			require.NoError(t, err)
			reprotest.WellFormed(t, r)
			reprotest.Smaller(t, r)
			require.Len(t, r.Table.Rows, 2*len(timedSeries))
			require.Len(t, r.Boxes, 2*len(timedSeries))
			for _, row := range r.Table.Rows {
				for q := 3; q <= 6; q++ {
					require.LessOrEqual(t, *row[q-1].Number, *row[q].Number)
				}
			}
		})
	}
	_, err := overheadTable(reprotest.Ended(), experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()})
	require.ErrorIs(t, err, context.Canceled)
}

// tablesLeft returns how many families there are besides the catalogue.
func tablesLeft(t *testing.T, d experiment.Database) int { return max(0, reprotest.Families(t, d)-1) }

// What a write leaves to do after its answer is no part of the time of the command that comes next.
func TestCommandsAreTimedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
		p, err := newParty(ctx, cfg, 1)
		require.NoError(t, err)
		c, err := p.join(ctx, cfg, timedClient, true)
		require.NoError(t, err)
		const latency = 40 * time.Millisecond
		p.net.Latency(latency)
		for turn := range timedSeries { // in each turn another series is the last
			before := c.counter.Now()
			took, err := timeCommand(ctx, c, workload.Delete, 1, turn)
			require.NoError(t, err)
			require.Len(t, took, len(timedSeries))
			after := c.counter.Now()
			require.Greater(t, after.Requests, before.Requests)
			time.Sleep(100 * latency)
			require.Equal(t, after, c.counter.Now(), "turn %d", turn)
		}
		require.NoError(t, p.close(ctx))
	})
}

// In an open loop a command that is held up counts from when it was to begin, and so do those behind it.
func TestOpenLoopCountsFromArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		_, c := joined(t)
		const pause = time.Second
		took, err := openLoop(ctx, 1, c.Client, 0, 40)
		require.NoError(t, err)
		require.Len(t, took, 40)
		held := 0
		c.Tables[0] = slowOnce{Table: c.Tables[0], till: time.Now().Add(pause)}
		took, err = openLoop(ctx, 1, c.Client, 0, 40)
		require.NoError(t, err)
		for _, d := range took {
			if d > pause/2 {
				held++
			}
		}
		require.Greater(t, held, 3, "all that came in the first half of the pause")
	})
}

// slowOnce answers nothing until a time.
type slowOnce struct {
	workload.Table
	till time.Time
}

func (s slowOnce) wait() {
	time.Sleep(time.Until(s.till))
}

func (s slowOnce) Get(ctx context.Context, k workload.Key) (workload.Order, bool, error) {
	s.wait()
	return s.Table.Get(ctx, k)
}

func (s slowOnce) Put(ctx context.Context, o workload.Order) error {
	s.wait()
	return s.Table.Put(ctx, o)
}

// What was measured before the database failed is kept.
func TestResponseTimesKeepWholeRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		d := reprotest.Memory()
		calls := 0
		d.DB = drivertest.NewFaulty(d.DB, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Get" && op.Family[0] != 't' {
				if calls++; calls > 400 {
					return drivertest.FailBefore
				}
			}
			return drivertest.NoFault
		})
		p, err := newParty(context.Background(), experiment.Config{Seed: 1, Quick: true, Database: d}, 1)
		require.NoError(t, err)
		all, whole, err := measureTimes(context.Background(), experiment.Config{}, p, []time.Duration{0}, 100)
		require.ErrorIs(t, err, drivertest.ErrInjected)
		require.Less(t, whole, 100)
		for _, at := range all {
			for _, seconds := range at.seconds {
				require.Len(t, seconds, whole*nearTimes)
			}
		}
	})
}

// Where the store gives writers a lease, a write is one round trip, and the figure says so.
func TestResponseTimesWithLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		ctx := context.Background()
		cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
		times := []*orderTime{}
		for _, c := range orderCommands {
			times = append(times, &orderTime{kind: c, seconds: [][]float64{{1}, {2}, {3}}})
		}
		for _, lease := range []time.Duration{0, 200 * time.Millisecond} {
			st, err := store.Open(ctx, cfg.Database.DB, cfg.Database.Key, nil)
			require.NoError(t, err)
			require.NoError(t, st.SetLease(ctx, lease))
			p, err := newParty(ctx, cfg, 1)
			require.NoError(t, err)
			trips := p.trips[slices.Index(workload.Series, workload.Encrypted)]
			require.Equal(t, map[bool]int{true: 2, false: 1}[lease == 0], trips[workload.Insert])
			require.Contains(t, timeFindings(times, p)[1].Text, map[bool]string{true: "takes 2 round trips", false: "takes one round trip, as in plaintext"}[lease == 0])
			require.NoError(t, p.close(ctx))
		}
	})
}
