package ferretti

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpcc"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// Figure 5 of Ferretti, Colajanni and Marchetti (IEEE TPDS 2014), section 5: what a client spends on encryption for each
// command of TPC-C. It is the time that the client takes, without the database, beyond what the same command takes on the
// same tables without encryption.

var commandFigures = []experiment.Figure{{
	Name: "securedbaas-fig5", About: "encryption times of the commands of TPC-C",
	Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 5",
	Drawn:  true,
	Run:    commandTimes,
}}

const (
	commandRounds      = 40
	commandQuickRounds = 6 // the fewest that have an interval
	commandTurns       = 20
	commandQuickTurns  = 8

	publishedCommands = 44
)

// commandSeries are what a command is timed in: a difference is of the first beyond the second.
var commandSeries = [2]string{workload.Encrypted, workload.Library}

// A stopwatch takes the time of a client that asks a database through [stopwatch.over], without what the database takes.
type stopwatch struct {
	mu     sync.Mutex
	open   int       // calls that the database is at
	since  time.Time // that there are none
	spent  time.Duration
	asked  time.Duration // what was spent when the first call began, or the last one that changes something
	called bool
}

// A split is what a client takes to ask for something, and with the answer, in us.
type split struct{ ask, answer float64 }

func (s *stopwatch) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent, s.asked, s.called = 0, 0, false
	s.since = time.Now()
}

func (s *stopwatch) stop() split {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += time.Since(s.since)
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	return split{us(s.asked), us(s.spent - s.asked)}
}

// enter begins a call of the database.
func (s *stopwatch) enter(changes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open++; s.open == 1 {
		s.spent += time.Since(s.since)
	}
	if changes || !s.called {
		s.asked = s.spent
	}
	s.called = true
}

func (s *stopwatch) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.open == 0 {
		s.since = time.Now()
	}
}

// over returns the database with its time left out, without snapshots, as clusters have none.
func (s *stopwatch) over(db driver.DB) driver.DB { return stoppedDB{db, s} }

type stoppedDB struct {
	driver.DB
	watch *stopwatch
}

func (db stoppedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return stoppedFamily{f, db.watch}, nil
}

type stoppedFamily struct {
	driver.Family
	watch *stopwatch
}

func (f stoppedFamily) Get(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	f.watch.enter(false)
	defer f.watch.leave()
	return f.Family.Get(ctx, row, cells)
}

func (f stoppedFamily) GetBatch(ctx context.Context, rows [][]byte, cells driver.Slice) ([][]driver.Cell, error) {
	f.watch.enter(false)
	defer f.watch.leave()
	return f.Family.GetBatch(ctx, rows, cells)
}

// Scan leaves out the time until each row is there, and none that the caller spends on it.
func (f stoppedFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		f.watch.enter(false)
		defer f.watch.leave()
		for row, err := range f.Family.Scan(ctx, r) {
			f.watch.leave()
			more := yield(row, err)
			f.watch.enter(false)
			if !more {
				return
			}
		}
	}
}

func (f stoppedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	f.watch.enter(true)
	defer f.watch.leave()
	return f.Family.Apply(ctx, mutations...)
}

func (f stoppedFamily) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	f.watch.enter(true)
	defer f.watch.leave()
	return f.Family.Replace(ctx, replacements...)
}

func (f stoppedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	f.watch.enter(true)
	defer f.watch.leave()
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

// A commandTiming is what was measured of a command, in us by round.
type commandTiming struct {
	class, command  string
	values, ordered int // to be encrypted
	plain           []float64
	encrypt         []float64
	decrypt         []float64
	first           []float64                   // to encrypt, of a client that has not done the command before
	now             [len(commandSeries)][]split // of this round
}

// add ends a round.
func (c *commandTiming) add() {
	middle := func(series int, of func(split) float64) float64 {
		var all []float64
		for _, s := range c.now[series][1:] {
			all = append(all, of(s))
		}
		return experiment.MedianOf(all).Mid
	}
	ask, answer := func(s split) float64 { return s.ask }, func(s split) float64 { return s.answer }
	c.plain = append(c.plain, middle(1, func(s split) float64 { return s.ask + s.answer }))
	c.encrypt = append(c.encrypt, middle(0, ask)-middle(1, ask))
	c.decrypt = append(c.decrypt, middle(0, answer)-middle(1, answer))
	c.first = append(c.first, c.now[0][0].ask-c.now[1][0].ask)
	c.now = [len(commandSeries)][]split{}
}

// timingsOf returns the commands of a turn, each once, by class in the order of the figure.
func timingsOf(steps []tpcc.Step) (all []*commandTiming) {
	for _, s := range steps {
		if timingOf(all, &s) == nil {
			values, ordered := s.Values()
			all = append(all, &commandTiming{class: s.Class, command: s.Command, values: values, ordered: ordered})
		}
	}
	slices.SortStableFunc(all, func(a, b *commandTiming) int {
		return slices.Index(tpcc.Classes, a.class) - slices.Index(tpcc.Classes, b.class)
	})
	return all
}

// timingOf returns the timing of a command, or nil if there is none.
func timingOf(all []*commandTiming, s *tpcc.Step) *commandTiming {
	i := slices.IndexFunc(all, func(c *commandTiming) bool { return c.class == s.Class && c.command == s.Command })
	if i < 0 {
		return nil
	}
	return all[i]
}

// A commandClient has the tables of both series open.
type commandClient struct {
	watch  *stopwatch
	tables [len(commandSeries)]map[string]*store.Table
}

// newCommandClient opens the tables as a client that knows nothing.
func newCommandClient(ctx context.Context, w *testbed.Workspace) (*commandClient, error) {
	c := &commandClient{watch: new(stopwatch)}
	st, err := store.Open(ctx, c.watch.over(w.DB), w.Master, nil)
	if err != nil {
		return nil, err
	}
	// From now on a write does all that it has to before it returns: nothing of it counts as the next command's.
	if err := st.Close(ctx); err != nil {
		return nil, err
	}
	for i, series := range commandSeries {
		c.tables[i] = make(map[string]*store.Table)
		for _, r := range tpcc.Tables {
			if c.tables[i][r.Name], err = st.Table(ctx, w.Name(tpccName(series, r.Name))); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// do times a command in one series. An answer that is not right is exit.ErrWrongAnswer.
func (c *commandClient) do(ctx context.Context, s *tpcc.Step, series int) (split, error) {
	c.watch.start()
	rows, err := s.On(ctx, c.tables[series][s.Table])
	took := c.watch.stop()
	if err == nil && !s.SameRows(rows, s.Want) {
		err = exit.ErrWrongAnswer
	}
	if err != nil {
		err = fmt.Errorf("%s, %s, %s: %w", commandSeries[series], s.Class, s.Command, err)
	}
	return took, err
}

// fillCommands makes the tables of both series, and returns a terminal whose rows they have.
func fillCommands(ctx context.Context, cfg experiment.Config, w *testbed.Workspace) (*tpcc.Terminal, error) {
	t, filling := tpcc.NewTerminal(cfg.Seed)
	cfg.Bar().Start("insert", len(commandSeries)*len(filling))
	defer cfg.Bar().Done()
	for _, series := range commandSeries {
		for _, r := range tpcc.Tables {
			if _, err := w.Create(ctx, tpccSchema(series, r)); err != nil {
				return nil, err
			}
		}
	}
	c, err := newCommandClient(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, tables := range c.tables {
		for _, s := range filling {
			if _, err := s.On(ctx, tables[s.Table]); err != nil {
				return nil, err
			}
			cfg.Bar().Add(1)
		}
	}
	return t, nil
}

// timeCommands times the commands of a terminal, by new clients in rounds. Series take turns.
func timeCommands(ctx context.Context, cfg experiment.Config, w *testbed.Workspace, rounds, turns int) (all []*commandTiming, err error) {
	t, err := fillCommands(ctx, cfg, w)
	if err != nil {
		return nil, err
	}
	cfg.Bar().Start("measure", rounds*turns)
	defer cfg.Bar().Done()
	for round := range rounds {
		c, err := newCommandClient(ctx, w)
		if err != nil {
			return nil, err
		}
		for range turns {
			steps := t.Turn()
			if all == nil {
				all = timingsOf(steps)
			}
			for i := range steps {
				of := timingOf(all, &steps[i])
				for n := range commandSeries {
					series := (i + n + t.Turns + round) % len(commandSeries)
					took, err := c.do(ctx, &steps[i], series)
					if err != nil {
						return nil, err
					}
					of.now[series] = append(of.now[series], took)
				}
			}
			cfg.Bar().Add(1)
		}
		for _, of := range all {
			of.add()
		}
	}
	return all, nil
}

func commandTimes(ctx context.Context, cfg experiment.Config) (r *experiment.Result, err error) {
	rounds, turns := cfg.Size(commandRounds, commandQuickRounds), cfg.Size(commandTurns, commandQuickTurns)
	// On one processor nothing is done beside the database, so that no time of the client is hidden.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	db, err := pebble.Open("commands", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// Without snapshots, as clusters have none: they are asked for the same.
	w, err := testbed.NewWorkspace(ctx, experiment.Config{Database: experiment.Database{DB: struct{ driver.DB }{db}, Key: kms.NewLocal(ope.GenerateKey())}})
	if err != nil {
		return nil, err
	}
	all, err := timeCommands(ctx, cfg, w, rounds, turns)
	if err != nil {
		return nil, err
	}
	return commandResult(all, rounds, turns), nil
}

func commandResult(all []*commandTiming, rounds, turns int) *experiment.Result {
	r := &experiment.Result{
		Title: fmt.Sprintf("Encryption times of %d commands of TPC-C, median of %d rounds of %d transactions of each class", len(all), rounds, turns),
		Y:     "encryption, ms (log scale)", LogY: true, Runs: rounds,
		Table: &experiment.Table{
			Names:   2,
			Columns: []string{"class", "command", "values", "order", "enc. us", "dec. us", "first us", "plain us"},
			Words:   []bool{true, true, false, false, false, false, false, false},
		},
		Notes: []string{
			"values: how many have to be encrypted for the command, in conditions and rows. order: how many of them by mOPE; a range has two ends, also where it is open, since mOPE moves values around. enc.: encryption time. It is the time of the client, without the database, until it has asked or made its last change, beyond that of the same command on the same tables without encryption. dec.: the same of the answer. first: enc. of a client that has not done the command before. plain: all time of the client without encryption. The drawing and JSON lines have the 95 % intervals; what takes less than the drawing's axis begins with, or no longer than without encryption, has no bar there.",
			"The database is in memory, and its time is not counted. Clients work on one processor. Each round has new ones, whose first transactions are in no other column than first. So they know their keys and what mOPE remembers of its tree, but not the values: balances are new, and order numbers follow each other.",
			fmt.Sprintf("The paper does not list its %d commands. These are what clauses 2.4 to 2.8 of TPC-C do, each on one table. New Order reads customer and warehouse apart. Stock Level reads the lines of the last 20 orders, and then the stock below a threshold, in place of a join. An UPDATE puts the row that was read before, as a whole, so Delivery reads the customer, too. Where index entries are replaced, it reads the old row once more. Last names, and customers of orders, have a column together with warehouse and district. It is found by tokens, and without encryption by its values, so that reading index entries differs a little.", publishedCommands),
			"Order numbers, quantities in stock and balances are encrypted by mOPE, the first in row keys. Other key parts are hashed, and other columns sealed together.",
		},
	}
	for _, c := range all {
		row := []experiment.Cell{experiment.Words("%s", c.class), experiment.Words("%s", c.command), experiment.Numeral(float64(c.values), 0), experiment.Numeral(float64(c.ordered), 0)}
		for _, us := range [][]float64{c.encrypt, c.decrypt, c.first, c.plain} {
			cell := experiment.MedianOf(us).Cell()
			cell.Text = fmt.Sprintf("%.1f", math.Round(10**cell.Number)/10+0) // no -0.0
			row = append(row, cell)
		}
		r.Table.Rows = append(r.Table.Rows, row)
		ms := c.took().At(0)
		kin := "without order"
		if c.ordered > 0 {
			kin = "with ordered values"
		}
		r.Bars = append(r.Bars, experiment.Bar{Group: c.class, Name: c.command, Kin: kin, Y: ms.Y / 1e3, Low: ms.Low / 1e3, High: ms.High / 1e3})
	}
	r.Findings = commandFindings(all)
	r.Below(tpccPaperSize)
	return r
}

// took returns the encryption time, in us.
func (c *commandTiming) took() experiment.Ratio { return experiment.MedianOf(c.encrypt) }

func (c *commandTiming) firstTook() experiment.Ratio { return experiment.MedianOf(c.first) }

// under says whether at least so many commands take less than a time.
func under(all []*commandTiming, took func(*commandTiming) experiment.Ratio, us float64, least int) experiment.Verdict {
	sure, possible := surely(all, took, us)
	switch {
	case sure >= least:
		return experiment.IsSo
	case possible < least:
		return experiment.IsNot
	}
	return experiment.Unclear
}

// surely returns how many commands take less than a time by their whole intervals, and of how many that is not excluded.
func surely(all []*commandTiming, took func(*commandTiming) experiment.Ratio, us float64) (sure, possible int) {
	for _, c := range all {
		v := took(c).Below(us)
		if v == experiment.IsSo {
			sure++
		}
		if v != experiment.IsNot {
			possible++
		}
	}
	return sure, possible
}

// The paper's "two orders of magnitude" is from one and a half to two and a half.
const leastOrders, mostOrders = 31.6, 316

func commandFindings(all []*commandTiming) []experiment.Finding {
	n, took, first := len(all), (*commandTiming).took, (*commandTiming).firstTook
	// count says how many medians are below a time, and how many whole intervals.
	count := func(took func(*commandTiming) experiment.Ratio, us float64) string {
		medians := 0
		for _, c := range all {
			if took(c).Mid < us {
				medians++
			}
		}
		sure, _ := surely(all, took, us)
		return fmt.Sprintf("the median of %d of %d is, and the whole interval of %d", medians, n, sure)
	}
	with := 0
	for _, c := range all {
		if c.ordered > 0 {
			with++
		}
	}
	ordered, others := commandMedians(all, func(c *commandTiming) bool { return c.ordered > 0 }), commandMedians(all, func(c *commandTiming) bool { return c.ordered == 0 })
	beside := experiment.RatioOf(ordered, others)
	return []experiment.Finding{
		under(all, took, 100, n/2+1).Finding("The paper: the encryption time is below 0.1 ms for the majority of commands. Here %s.", count(took, 100)),
		under(all, took, 1000, n-2).Finding("The paper: it is below 1 ms for all but two. Here %s. The slowest, in us: %s.", count(took, 1000), slowest(all, took)),
		under(all, first, 1000, n-2).Finding("The same of clients that have not done the command before: %s. The slowest, in us: %s.", count(first, 1000), slowest(all, first)),
		experiment.Both(beside.Above(leastOrders), beside.Below(mostOrders)).Finding("The paper: two commands, of Stock Level and Payment, take two orders of magnitude longer, because of order-preserving encryption. Here %d commands name ordered values, as one that writes such a value encrypts it, too. Their median is %v times that of the others: %s us beside %s.",
			with, beside, experiment.MedianOf(ordered).Text(1), experiment.MedianOf(others).Text(1)),
	}
}

// slowest names the commands that take longest.
func slowest(all []*commandTiming, took func(*commandTiming) experiment.Ratio) string {
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b *commandTiming) int { return cmp.Compare(took(b).Mid, took(a).Mid) })
	var names []string
	for _, c := range sorted[:min(len(sorted), 3)] {
		names = append(names, fmt.Sprintf("%s, %s: %s", c.class, c.command, took(c).Text(1)))
	}
	return strings.Join(names, "; ")
}

// commandMedians returns the median over some commands of each round.
func commandMedians(all []*commandTiming, some func(*commandTiming) bool) (rounds []float64) {
	for round := range all[0].encrypt {
		var at []float64
		for _, c := range all {
			if some(c) {
				at = append(at, c.encrypt[round])
			}
		}
		rounds = append(rounds, experiment.MedianOf(at).Mid)
	}
	return rounds
}

// tpccSchema returns the schema of a table. Without encryption it has the same index entries.
func tpccSchema(series string, r tpc.Relation) store.Schema {
	s := store.Schema{Name: tpccName(series, r.Name), AppendOnly: r.Name == tpcc.History}
	var scheme = store.Plaintext
	part, hidden := store.PlainPart, store.PlainColumn
	if series == workload.Encrypted {
		scheme, part, hidden = store.MOPE, store.HashedPart, store.RandomisedColumn
	}
	for _, k := range r.Key {
		if slices.Contains(tpcc.ByRange, k.Name) {
			s.Key = append(s.Key, store.OrderedPart(k.Name, k.Of, scheme))
		} else {
			s.Key = append(s.Key, part(k.Name, k.Of))
		}
	}
	if s.AppendOnly {
		s.Key = append(s.Key, store.TiePart("h_tie"))
	}
	for _, c := range r.Columns {
		switch {
		case slices.Contains(tpcc.ByRange, c.Name), series != workload.Encrypted && slices.Contains(tpcc.ByValue, c.Name):
			s.Columns = append(s.Columns, store.OrderedColumn(c.Name, c.Of, scheme))
		case slices.Contains(tpcc.ByValue, c.Name):
			s.Columns = append(s.Columns, store.DeterministicColumn(c.Name, c.Of))
		default:
			s.Columns = append(s.Columns, hidden(c.Name, c.Of))
		}
	}
	return s
}

func tpccName(series, table string) string { return series + " " + table }
