package kerschbaum

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/stretchr/testify/require"
)

var (
	simRuns      = flag.Int("kerschbaum.seeds", 72, "runs of the simulation")
	simSeed      = flag.Uint64("kerschbaum.seed", 1, "seed of the first run of the simulation; the next ones follow")
	simSchedules = flag.Int("kerschbaum.schedules", 60, "most schedules of a case of which all are run")
	simSetting   = flag.String("kerschbaum.setting", "", "the one setting that the simulation has; all in turn if empty")
	simHarm      = flag.Bool("kerschbaum.harm", false, "only what users can notice is a violation")
	simRepeats   = flag.Int("kerschbaum.repeats", 11, "seeds of which two runs are compared")
)

// A setting is what is the same for all clients of a run.
type setting struct {
	name                string
	bits                uint    // of labels: few, so that there are relabellings and passes
	most                int     // values that a relabelling moves: few, so that there are passes
	page, chunk, probes int     // the sizes of the scheme
	cache               int     // values that a client remembers; 0 is no limit
	full                int     // values that a unit has before it is divided; 0: none is
	published           bool    // the rules
	ranks               uint    // bits of ranks; 0: there are none
	span                int64   // values are below
	appends             bool    // each value is above all before it
	clients             int     // processes
	workers             int     // goroutines of each process
	ops                 int     // operations of each process
	pass                float64 // of every operation: that it is a rebalancing
	copies              float64 // of a rebalancing: that it is one by an earlier version, which copies the index
	random              sim.Random
	harmOnly            bool // only what users can notice is a violation
	undecided           bool // what a client commits that dies is not decided, and clients die soon
}

func (s setting) rules() order.Rules {
	return order.Rules{Bits: s.bits, Published: s.published, RankBits: s.ranks}
}

// The settings that the seeds go through in turn.
var settings = []setting{
	{name: "few labels", bits: 12, most: 12, span: 60, clients: 4, workers: 1, ops: 30, page: 8, chunk: 4, probes: 3},
	{name: "few labels, appends", bits: 12, most: 12, appends: true, clients: 4, workers: 1, ops: 20, page: 4, chunk: 3, probes: 2},
	{name: "some labels, goroutines", bits: 16, most: 16, span: 120, clients: 3, workers: 3, ops: 60, page: 16, chunk: 8, probes: 3},
	{name: "some labels, passes, small caches", bits: 16, most: 8, span: 120, cache: 32, clients: 4, workers: 1, ops: 40, pass: 0.02, page: 4, chunk: 4, probes: 1},
	{name: "labels enough", bits: 128, most: 200, span: 1000, clients: 4, workers: 2, ops: 40, pass: 0.05, page: 16, chunk: 16, probes: 7},
	{name: "labels enough, many passes", bits: 128, most: 200, span: 60, clients: 5, workers: 1, ops: 40, pass: 0.3, page: 16, chunk: 16, probes: 7},
	{name: "fewest labels, appends", bits: 7, most: 16, appends: true, clients: 5, workers: 1, ops: 8, page: 8, chunk: 8, probes: 3},
	{name: "fewest labels, passes", bits: 8, most: 16, span: 40, clients: 5, workers: 1, ops: 30, pass: 0.1, page: 8, chunk: 2, probes: 3},
	{name: "few labels, appends, passes", bits: 10, most: 24, appends: true, clients: 5, workers: 1, ops: 20, pass: 0.1, page: 8, chunk: 2, probes: 3},
	{name: "few labels, appends, copies", bits: 10, most: 24, appends: true, copies: 0.8, clients: 5, workers: 1, ops: 20, pass: 0.1, page: 8, chunk: 2, probes: 3},
	{name: "divided", bits: 128, most: 200, span: 1000, full: 12, clients: 4, workers: 2, ops: 40, pass: 0.03, page: 16, chunk: 4, probes: 7},
	{name: "divided, appends", bits: 128, most: 12, appends: true, full: 8, clients: 4, workers: 1, ops: 30, pass: 0.02, page: 8, chunk: 3, probes: 3},
	{name: "divided, some labels, small caches", bits: 40, most: 12, span: 200, cache: 32, full: 16, clients: 4, workers: 1, ops: 40, pass: 0.05, page: 4, chunk: 4, probes: 2},
	{name: "ranks, few labels", bits: 12, ranks: 40, most: 12, span: 60, clients: 4, workers: 1, ops: 30, pass: 0.05, page: 8, chunk: 4, probes: 3},
	{name: "ranks, divided", bits: 128, ranks: 192, most: 12, span: 200, cache: 32, full: 12, clients: 4, workers: 2, ops: 40, pass: 0.05, page: 4, chunk: 4, probes: 2},
	{name: "few ranks, divided, appends", bits: 128, ranks: 5, most: 12, appends: true, full: 8, clients: 4, workers: 1, ops: 30, pass: 0.02, page: 8, chunk: 3, probes: 3},
	{name: "few ranks, some labels, small caches", bits: 16, ranks: 6, most: 12, span: 200, cache: 32, full: 16, clients: 4, workers: 2, ops: 40, pass: 0.05, page: 4, chunk: 4, probes: 2},
	{name: "as published", bits: 20, published: true, most: 40, appends: true, clients: 3, workers: 1, ops: 20, page: 8, chunk: 8, probes: 3},
}

// withFaults adds the faults that every setting has.
func (s setting) withFaults(r *rand.Rand) setting {
	s.random = sim.Random{Crash: 0.01, Unknown: 0.03, Freeze: 0.02, Frozen: []int{50, 500, 5000}[r.IntN(3)], Burst: []float64{0, 0.5, 0.9}[r.IntN(3)]}
	if s.undecided {
		s.random.Crash = 0.2
	}
	return s
}

const maxSteps = 200_000

// simulate makes one run.
func simulate(t *testing.T, s setting, seed uint64) *world {
	t.Helper()
	sim.Seed(t, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s = s.withFaults(r)
	w := newWorld(s)
	if s.undecided || seed/uint64(len(settings))%2 == 1 {
		w.replicas.random, w.replicas.before = rand.New(rand.NewPCG(seed, 9)), make(map[ope.Unit]ope.Index)
	}
	s.random.R = r
	w.Choose, w.Faults = &s.random, true
	w.Died = func(c *sim.Client) { w.start(s.workers, w.clients[c.ID].todo) }
	synctest.Test(t, func(t *testing.T) {
		for i := range s.clients {
			w.start(s.workers, w.operations(rand.New(rand.NewPCG(seed, uint64(i)+1)), s.ops))
		}
		w.Run(maxSteps)
		w.finish()
	})
	return w
}

func newWorld(s setting) *world {
	w := &world{World: new(sim.World), setting: s, index: memindex.New()}
	w.initChecker()
	return w
}

// finish lets a client that has never seen the index insert values and read everything, without
// faults. Nothing is under way any more after that.
func (w *world) finish() {
	if len(w.Bad()) == 0 {
		w.Faults, w.Choose = false, &sim.Random{R: rand.New(rand.NewPCG(0, 0))}
		all := readRange(simDomain.Min, simDomain.Max)
		w.start(1, inTurn(encrypt(30_000), all, rebalance, encrypt(-1), all, inspect))
		w.Run(2000)
	}
	w.End()
}

func TestSimulation(t *testing.T) {
	total, runs := make(sim.Counts), *simRuns
	if testing.Short() {
		runs = min(runs, 24)
	}
	for i := range runs {
		seed := *simSeed + uint64(i)
		s := settings[seed%uint64(len(settings))]
		if *simSetting != "" {
			i := slices.IndexFunc(settings, func(s setting) bool { return s.name == *simSetting })
			require.GreaterOrEqual(t, i, 0, "no such setting")
			s = settings[i]
		}
		s.harmOnly = *simHarm
		w := simulate(t, s, seed)
		if len(w.Bad()) > 0 {
			t.Fatalf("%s: to see it again: -kerschbaum.seed=%d -kerschbaum.seeds=1\n%s", s.name, seed, w.Story())
		}
		total.Add(w.Counts())
	}
	t.Log(total)
	if runs >= 72 && *simSetting == "" { // fewer may lack something
		require.Empty(t, total.Missing(counted...), "the simulation meets too little to prove anything")
	}
}

// A few values, which several clients encrypt, and ask ranges for. So what a client has put that dies is encrypted by others, and
// nobody commits to the index any more before it is asked for.
func TestSimulationOfUndecidedValues(t *testing.T) {
	total := make(sim.Counts)
	for seed := range uint64(150) {
		w := simulate(t, setting{name: "undecided", undecided: true, bits: 128, most: 200, span: 5, clients: 3, workers: 1, ops: 12, page: 8, chunk: 8, probes: 3}, seed)
		require.Empty(t, w.Bad(), "seed %d\n%s", seed, w.Story())
		total.Add(w.Counts())
	}
	require.Empty(t, total.Missing("undecided commits", "decisions", "Range"))
}

// Equal seeds give equal runs; otherwise a failure could not be looked into.
func TestSimulationIsRepeatable(t *testing.T) {
	for seed := range uint64(*simRepeats) {
		s := settings[seed%uint64(len(settings))]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			sim.RequireRepeatable(t, func() []string {
				trace := simulate(t, s, seed).Trace()
				require.Greater(t, len(trace), 50)
				return trace
			})
		})
	}
}

// A tinyCase is one of which all schedules are run.
type tinyCase struct {
	name      string
	bits      uint
	faults    int  // at most: crashes and unknown outcomes together
	cold      bool // the clients have not seen the index
	published bool // the rules
	full      int  // values of a unit before it is divided; 0: none is
	before    []operation
	clients   [][]operation
	must      string // what must have happened in some schedule
}

var tinyCases = []tinyCase{
	{name: "the first value, twice, one fault", bits: 16, faults: 1, cold: true, must: "refused commits",
		clients: [][]operation{{encrypt(15)}, {encrypt(15)}}},
	{name: "two values for one gap, one fault", bits: 16, faults: 1, must: "refused commits",
		before:  []operation{encrypt(10), encrypt(20)},
		clients: [][]operation{{encrypt(15)}, {encrypt(16)}}},
	{name: "three clients, one gap", bits: 16, must: "refused commits",
		before:  []operation{encrypt(10), encrypt(20)},
		clients: [][]operation{{encrypt(15)}, {encrypt(16)}, {encrypt(15), encrypt(17)}}},
	{name: "relabelling and insertion, one fault", bits: 5, faults: 1, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50), encrypt(60)},
		clients: [][]operation{{encrypt(70)}, {encrypt(25)}}},
	{name: "two relabellings", bits: 5, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50), encrypt(60)},
		clients: [][]operation{{encrypt(70)}, {encrypt(80)}}},
	{name: "relabelling and range, one fault", bits: 5, faults: 1, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50), encrypt(60)},
		clients: [][]operation{{encrypt(70)}, {readRange(0, 100)}}},
	{name: "rebalancing and insertion, one fault", bits: 16, faults: 1, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20)},
		clients: [][]operation{{rebalance}, {encrypt(15)}}},
	{name: "rebalancing and range, one fault", bits: 16, faults: 1, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30)},
		clients: [][]operation{{rebalance}, {readRange(0, 100)}}},
	{name: "pass and insertion, one fault", bits: 16, published: true, faults: 1, must: "passes",
		before:  []operation{encrypt(10), encrypt(20)},
		clients: [][]operation{{rebalance}, {encrypt(15)}}},
	{name: "rebalancing, relabelling and insertion", bits: 5, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50), encrypt(60)},
		clients: [][]operation{{rebalance}, {encrypt(70)}, {encrypt(25)}}},
	{name: "two rebalancings, one fault", bits: 16, faults: 1, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40)},
		clients: [][]operation{{rebalance}, {rebalance}}},
	{name: "division and insertion, one fault", bits: 64, full: 4, faults: 1, must: "freezes of values",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50)},
		clients: [][]operation{{encrypt(60), encrypt(70)}, {encrypt(15)}}},
	{name: "division and range, one fault", bits: 64, full: 4, faults: 1, must: "freezes of values",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50)},
		clients: [][]operation{{encrypt(60), encrypt(70)}, {readRange(0, 100)}}},
	{name: "two divisions", bits: 64, full: 4, must: "freezes of values",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50)},
		clients: [][]operation{{encrypt(60), encrypt(70)}, {encrypt(15), encrypt(16)}}},
	{name: "two passes", bits: 16, published: true, must: "passes",
		before:  []operation{encrypt(10), encrypt(20)},
		clients: [][]operation{{rebalance}, {rebalance}}},
}

// inTurn returns the program of one worker.
func inTurn(ops ...operation) program {
	return func(int) operation {
		if len(ops) == 0 {
			return nil
		}
		op := ops[0]
		ops = ops[1:]
		return op
	}
}

func (p tinyCase) run(t *testing.T, tr *sim.All) *world {
	sim.Seed(t, 1)
	w := newWorld(setting{name: p.name, bits: p.bits, published: p.published, full: p.full, most: 8, page: 8, chunk: 8, probes: 1})
	synctest.Test(t, func(t *testing.T) {
		w.start(0, nil).warm(p.before...)
		for _, ops := range p.clients {
			if c := w.start(1, inTurn(ops...)); !p.cold {
				c.warm(readRange(-1000, 1000))
			}
		}
		tr.Start()
		w.Choose = tr
		w.Run(maxSteps)
		if tr.Pruned() {
			w.End()
		} else {
			w.finish()
		}
	})
	return w
}

// Every schedule of some tiny cases, with every place and kind of a fault; of the larger cases as
// many as the flag allows.
func TestSimulationOfAllSchedules(t *testing.T) {
	for _, p := range tinyCases {
		t.Run(p.name, func(t *testing.T) {
			tr := &sim.All{Faults: p.faults}
			total := make(sim.Counts)
			schedules, all := 0, false
			for !all && schedules < *simSchedules {
				w := p.run(t, tr)
				if len(w.Bad()) > 0 {
					t.Fatalf("schedule %d\n%s", schedules, w.Story())
				}
				if !tr.Pruned() { // else it was seen to lead to where another schedule leads
					schedules++
				}
				total.Add(w.Counts())
				all = !tr.Advance()
			}
			t.Logf("%d schedules, all: %v; %v", schedules, all, total)
			require.Greater(t, schedules, 10)
			require.NotZero(t, total[p.must], p.must)
		})
	}
}
