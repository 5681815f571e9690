package ferretti

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpcc"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestEncryptionTimes(t *testing.T) {
	processors := runtime.GOMAXPROCS(0)
	r, err := commandTimes(context.Background(), experiment.Config{Seed: 1, Quick: true})
	require.NoError(t, err)
	require.Equal(t, processors, runtime.GOMAXPROCS(0))
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	classes, counts := make(map[string]int), make(map[string][2]float64)
	for i, row := range r.Table.Rows {
		class, command := row[0].Text, row[1].Text
		classes[class]++
		counts[class+": "+command] = [2]float64{*row[2].Number, *row[3].Number}
		require.Positive(t, *row[7].Number, "%s: without encryption a client works, too", command)
		require.Equal(t, class, r.Bars[i].Group)
		require.Equal(t, command, r.Bars[i].Name)
		require.InDelta(t, *row[4].Number, 1e3*r.Bars[i].Y, 1e-9)
	}
	require.Equal(t, map[string]int{tpcc.ClassOrderStatus: 5, tpcc.ClassDelivery: 8, tpcc.ClassStockLevel: 3, tpcc.ClassPayment: 11, tpcc.ClassNewOrder: 10}, classes)
	require.Len(t, counts, len(r.Table.Rows), "each command has one name")
	for command, want := range map[string][2]float64{
		"Order Status: SELECT latest order": {1, 0},
		"Order Status: SELECT order lines":  {3, 1},
		"Delivery: SELECT oldest new order": {4, 2},
		"Delivery: DELETE new_order":        {3, 1},
		"Delivery: UPDATE 10 order_lines":   {100, 10},
		"Stock Level: SELECT recent lines":  {4, 2},
		"Stock Level: SELECT low stock":     {3, 2},
		"Payment: SELECT warehouse":         {1, 0},
		"Payment: UPDATE customer, c_data":  {22, 1},
		"Payment: INSERT history":           {8, 0},
		"New Order: INSERT orders":          {8, 1},
		"New Order: UPDATE stock":           {17, 1},
	} {
		require.Equal(t, want, counts[command], command)
	}
	_, err = commandTimes(reprotest.Ended(), experiment.Config{Seed: 1, Quick: true})
	require.ErrorIs(t, err, context.Canceled)
}

// commandTables returns a terminal, and a client of tables that have its rows.
func commandTables(t *testing.T, seed uint64) (*tpcc.Terminal, *commandClient) {
	t.Helper()
	ctx := context.Background()
	w, err := testbed.NewWorkspace(ctx, experiment.Config{Database: reprotest.Memory()})
	require.NoError(t, err)
	terminal, err := fillCommands(ctx, experiment.Config{Seed: seed}, w)
	require.NoError(t, err)
	c, err := newCommandClient(ctx, w)
	require.NoError(t, err)
	return terminal, c
}

func TestTransactions(t *testing.T) {
	ctx := context.Background()
	terminal, c := commandTables(t, 3)
	var all []*commandTiming
	for range 30 {
		steps := terminal.Turn()
		if all == nil {
			all = timingsOf(steps)
		}
		done := make(map[*commandTiming]bool)
		for _, s := range steps {
			of := timingOf(all, &s)
			require.NotNil(t, of, "each turn has the same commands")
			values, ordered := s.Values()
			require.Equal(t, of.values, values, s.Command)
			require.Equal(t, of.ordered, ordered, s.Command)
			done[of] = true
			for series := range commandSeries {
				_, err := c.do(ctx, &s, series)
				require.NoError(t, err)
			}
		}
		require.Len(t, done, len(all))
	}
	// What clause 3.3 of TPC-C asks of the rows, of those in the tables.
	for series := range commandSeries {
		rows := func(table string, columns ...string) (all []store.Row) {
			for row, err := range c.tables[series][table].Query(ctx, store.Query{Columns: columns}) {
				require.NoError(t, err)
				all = append(all, row)
			}
			return all
		}
		paid, undelivered := int64(0), make(map[any]int32)
		next, latest := make(map[any]int32), make(map[any]int32)
		for _, d := range rows(tpcc.Districts, "d_ytd", "d_next_o_id") {
			paid += tpc.Cents(d["d_ytd"])
			next[d["d_id"]] = d["d_next_o_id"].(int32)
		}
		require.Equal(t, paid, tpc.Cents(rows(tpcc.Warehouses, "w_ytd")[0]["w_ytd"]))
		orders := rows(tpcc.Orders, "o_carrier_id")
		for _, o := range orders {
			latest[o["o_d_id"]] = max(latest[o["o_d_id"]], o["o_id"].(int32)+1)
			if o["o_carrier_id"] == nil {
				undelivered[o["o_d_id"]]++
			}
		}
		require.Equal(t, next, latest)
		for _, o := range rows(tpcc.NewOrders) {
			undelivered[o["no_d_id"]]--
		}
		require.Equal(t, map[any]int32{int32(1): 0, int32(2): 0}, undelivered)
		lines := rows(tpcc.Lines, "ol_delivery_d")
		require.Len(t, lines, tpcc.LineCount*len(orders))
		require.Len(t, rows(tpcc.History), 60)
	}
}

// A row that is not as the terminal left it is a wrong answer.
func TestCommandsAreChecked(t *testing.T) {
	ctx := context.Background()
	terminal, c := commandTables(t, 1)
	for _, s := range terminal.Turn() {
		_, err := c.do(ctx, &s, 0)
		require.NoError(t, err)
		if s.Put == nil && s.Remove == nil {
			s.Want = s.Want[:len(s.Want)-1]
			_, err = c.do(ctx, &s, 0)
			require.ErrorIs(t, err, exit.ErrWrongAnswer, s.Command)
		}
	}
	key := store.Row{"w_id": tpcc.Warehouse}
	s := tpcc.Step{Class: tpcc.ClassPayment, Command: "SELECT warehouse", Statement: tpcc.Statement{Table: tpcc.Warehouses, Keys: []store.Row{key}, Columns: []string{"w_ytd"}}}
	s.Want = []store.Row{{"w_id": tpcc.Warehouse, "w_ytd": tpc.Money(1)}}
	_, err := c.do(ctx, &s, 1)
	require.ErrorIs(t, err, exit.ErrWrongAnswer)
	require.ErrorContains(t, err, "Payment, SELECT warehouse")
}

// A stopwatch leaves out what the database takes, and tells what comes before the last change from what comes after it.
func TestStopwatch(t *testing.T) {
	const slow, work = 40 * time.Millisecond, 10 * time.Millisecond
	ctx := context.Background()
	watch := new(stopwatch)
	db := watch.over(intercept.WithLatency(struct{ driver.DB }{drivertest.NewMemory()}, func() time.Duration { return slow }))
	f, err := db.Family(ctx, driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	row := []byte("row")
	get := func() {
		_, err := f.Get(ctx, row, driver.Slice{})
		require.NoError(t, err)
	}
	between := func(least time.Duration, us float64) {
		t.Helper()
		require.GreaterOrEqual(t, us, float64(least.Microseconds()))
		require.Less(t, us, float64((least + slow - time.Millisecond).Microseconds()))
	}

	watch.start()
	time.Sleep(work)
	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}}}))
	took := watch.stop()
	between(work, took.ask)
	between(0, took.answer)

	watch.start()
	get()
	time.Sleep(work)
	get()
	took = watch.stop()
	between(0, took.ask)
	between(work, took.answer)

	watch.start()
	get()
	time.Sleep(work)
	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row, DeleteRow: true}))
	get()
	took = watch.stop()
	between(work, took.ask)
	between(0, took.answer)

	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}}}))
	watch.start()
	for _, err := range f.Scan(ctx, driver.Range{}) {
		require.NoError(t, err)
		time.Sleep(work) // the caller's time
	}
	between(work, watch.stop().answer)
}

func TestCommandFindings(t *testing.T) {
	commands := func(others, ordered, first float64) (all []*commandTiming) {
		for i := range 10 {
			c := &commandTiming{class: tpcc.ClassPayment, command: "command"}
			us := others
			if i >= 7 {
				c.ordered, us = 1, ordered
			}
			c.encrypt, c.first = reprotest.Steady(20, us), reprotest.Steady(20, first)
			all = append(all, c)
		}
		return all
	}
	require.Equal(t, "+++-", reprotest.Marks(commandFindings(commands(1, 5, 10))))
	require.Equal(t, "+-++", reprotest.Marks(commandFindings(commands(30, 3000, 900))), "three take more than 1 ms")
	require.Equal(t, "---+", reprotest.Marks(commandFindings(commands(200, 20_000, 1200))))
	require.Equal(t, "+-+-", reprotest.Marks(commandFindings(commands(1, 5000, 1))), "three orders of magnitude")
	few := commands(1, 5, 10)
	for _, c := range few {
		c.encrypt, c.first = c.encrypt[:3], c.first[:3]
	}
	require.Equal(t, "????", reprotest.Marks(commandFindings(few)), "without intervals nothing is known")
}

// A series of negative differences is no time, and no bar.
func TestBarsOfNoTime(t *testing.T) {
	r := commandResult([]*commandTiming{
		{class: tpcc.ClassPayment, command: "a", ordered: 1, encrypt: reprotest.Steady(20, -1), decrypt: reprotest.Steady(20, 1), first: reprotest.Steady(20, 1), plain: reprotest.Steady(20, 1)},
		{class: tpcc.ClassPayment, command: "b", encrypt: reprotest.Steady(20, 1), decrypt: reprotest.Steady(20, 1), first: reprotest.Steady(20, 1), plain: reprotest.Steady(20, 1)},
	}, 20, 1)
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	require.Negative(t, r.Bars[0].Y)
	require.False(t, math.IsNaN(r.Bars[1].High))
}
