package kerschbaum

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

var (
	simRuns      = flag.Int("kerschbaum.seeds", 200, "runs of the simulation")
	simSeed      = flag.Uint64("kerschbaum.seed", 1, "seed of the first run of the simulation; the next ones follow")
	simSchedules = flag.Int("kerschbaum.schedules", 200, "most schedules of a case of which all are run")
	simRepeats   = flag.Int("kerschbaum.repeats", 18, "seeds of which two runs are compared")
)

// A setting is what is the same for all clients of a run.
type setting struct {
	name                string
	bits                uint    // of labels: few, so that there are relabellings and passes
	most                int     // values that a relabelling moves: few, so that there are passes
	page, chunk, probes int     // the sizes of the scheme
	cache               int     // values that a client remembers; 0 is no limit
	published           bool    // the rules
	span                int64   // values are below
	appends             bool    // each value is above all before it
	clients             int     // processes
	workers             int     // goroutines of each process
	ops                 int     // operations of each process
	pass                float64 // of every operation: that it is a pass
	crash               float64
	unknown             float64
	freeze              float64
	frozen              int
	burst               float64
	replace             bool // a client that died is replaced by one that goes on
	guards              guards
	harmOnly            bool // only what users can notice is a violation
}

func (s setting) rules() rules { return rules{bits: s.bits, published: s.published} }

// The settings that the seeds go through in turn.
var settings = []setting{
	{name: "few labels", bits: 12, most: 12, span: 60, clients: 4, workers: 1, ops: 30, page: 8, chunk: 4, probes: 3},
	{name: "few labels, appends", bits: 12, most: 12, appends: true, clients: 4, workers: 1, ops: 20, page: 4, chunk: 3, probes: 2},
	{name: "some labels, goroutines", bits: 16, most: 16, span: 120, clients: 3, workers: 3, ops: 60, page: 16, chunk: 8, probes: 3},
	{name: "some labels, passes, small caches", bits: 16, most: 8, span: 120, cache: 32, clients: 4, workers: 1, ops: 40, pass: 0.02, page: 4, chunk: 4, probes: 1},
	{name: "labels enough", bits: 128, most: 200, span: 1000, clients: 4, workers: 2, ops: 40, pass: 0.05, page: 16, chunk: 16, probes: 7},
	{name: "fewest labels, appends", bits: 7, most: 16, appends: true, clients: 5, workers: 1, ops: 12, page: 8, chunk: 8, probes: 3},
	{name: "fewest labels, passes", bits: 8, most: 16, span: 40, clients: 5, workers: 1, ops: 30, pass: 0.1, page: 8, chunk: 2, probes: 3},
	{name: "few labels, appends, passes", bits: 10, most: 24, appends: true, clients: 5, workers: 1, ops: 20, pass: 0.1, page: 8, chunk: 2, probes: 3},
	{name: "as published", bits: 20, published: true, most: 40, appends: true, clients: 3, workers: 1, ops: 20, page: 8, chunk: 8, probes: 3},
}

// withFaults adds the faults that every setting has.
func (s setting) withFaults(r *rand.Rand) setting {
	s.crash, s.unknown, s.replace = 0.01, 0.03, true
	s.freeze, s.frozen = 0.02, []int{50, 500, 5000}[r.IntN(3)]
	s.burst = []float64{0, 0.5, 0.9}[r.IntN(3)]
	return s
}

const maxSteps = 200_000

// simulate makes one run.
func simulate(t *testing.T, s setting, seed uint64) *world {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s = s.withFaults(r)
	w := newWorld(s)
	w.choose = &random{r: r, crash: s.crash, unknown: s.unknown, freeze: s.freeze, frozen: s.frozen, burst: s.burst}
	synctest.Test(t, func(t *testing.T) {
		w.faults = true
		for i := range s.clients {
			w.start(s.workers, w.operations(rand.New(rand.NewPCG(seed, uint64(i)+1)), s.ops))
		}
		w.run(maxSteps)
		w.finish()
	})
	w.count["runs"] = 1
	w.count["steps"] = w.step
	return w
}

func newWorld(s setting) *world {
	w := &world{setting: s, index: opetest.NewIndex(), count: make(counts)}
	w.initChecker()
	return w
}

// finish lets a client that has never seen the index insert values and read everything, without
// faults. Nothing is under way any more after that.
func (w *world) finish() {
	if len(w.bad) == 0 {
		w.faults = false
		w.choose = &random{r: rand.New(rand.NewPCG(0, 0))}
		all := readRange(simDomain.Min, simDomain.Max)
		w.start(1, inTurn(encrypt(30_000), all, rebalance, encrypt(-1), all, inspect))
		w.run(2000)
	}
	for len(w.bad) == 0 && len(w.late) > 0 {
		w.release(0)
	}
	w.end()
}

func TestSimulation(t *testing.T) {
	total := make(counts)
	for i := range *simRuns {
		seed := *simSeed + uint64(i)
		s := settings[seed%uint64(len(settings))]
		w := simulate(t, s, seed)
		if len(w.bad) > 0 {
			t.Fatalf("%s: to see it again: -kerschbaum.seed=%d -kerschbaum.seeds=1\n%s", s.name, seed, w.story())
		}
		total.add(w.count)
	}
	t.Log(total)
	if *simRuns >= 200 { // fewer may lack something
		total.requireAll(t)
	}
}

// Equal seeds give equal runs; otherwise a failure could not be looked into.
func TestSimulationIsRepeatable(t *testing.T) {
	for seed := range uint64(*simRepeats) {
		s := settings[seed%uint64(len(settings))]
		a, b := simulate(t, s, seed), simulate(t, s, seed)
		require.Equal(t, strings.Join(a.trace, "\n"), strings.Join(b.trace, "\n"), "seed %d", seed)
		require.Greater(t, len(a.trace), 50)
	}
}

// A tinyCase is one of which all schedules are run.
type tinyCase struct {
	name    string
	bits    uint
	faults  int  // at most: crashes and unknown outcomes together
	cold    bool // the clients have not seen the index
	before  []operation
	clients [][]operation
	must    string // what must have happened in some schedule
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
	{name: "pass and insertion, one fault", bits: 16, faults: 1, must: "passes",
		before:  []operation{encrypt(10), encrypt(20)},
		clients: [][]operation{{rebalance}, {encrypt(15)}}},
	{name: "pass, relabelling and insertion", bits: 5, must: "relabellings",
		before:  []operation{encrypt(10), encrypt(20), encrypt(30), encrypt(40), encrypt(50), encrypt(60)},
		clients: [][]operation{{rebalance}, {encrypt(70)}, {encrypt(25)}}},
	{name: "two passes", bits: 16, must: "passes",
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

func (p tinyCase) run(t *testing.T, tr *tree) *world {
	cryptotest.SetGlobalRandom(t, 1)
	w := newWorld(setting{name: p.name, bits: p.bits, most: 8, page: 8, chunk: 8, probes: 1})
	synctest.Test(t, func(t *testing.T) {
		w.warm(w.start(0, nil), p.before...)
		for _, ops := range p.clients {
			if c := w.start(1, inTurn(ops...)); !p.cold {
				w.warm(c, readRange(-1000, 1000))
			}
		}
		tr.begin()
		w.choose = tr
		w.run(maxSteps)
		if tr.pruned {
			w.end()
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
			tr := &tree{faults: p.faults}
			total := make(counts)
			schedules, all := 0, false
			for !all && schedules < *simSchedules {
				w := p.run(t, tr)
				if len(w.bad) > 0 {
					t.Fatalf("schedule %d\n%s", schedules, w.story())
				}
				if !tr.pruned { // else it was seen to lead to where another schedule leads
					schedules++
				}
				total.add(w.count)
				all = !tr.advance()
			}
			t.Logf("%d schedules, all: %v; %v", schedules, all, total)
			require.Greater(t, schedules, 10)
			require.NotZero(t, total[p.must], p.must)
		})
	}
}

// The simulation notices when the protocol lacks one of its guards: an invariant is violated, and
// in some run users get to know it, because values are lost, out of order or missing in a range.
func TestSimulationNotices(t *testing.T) {
	for _, c := range []struct {
		name     string
		guards   guards
		setting  string
		harmless bool // to users
	}{
		{"an insertion of any generation", guards{insertAnyGeneration: true}, "fewest labels, appends", false},
		{"an insertion over what is there", guards{insertOverOccupied: true}, "few labels", false},
		{"an insertion into gaps that may not be empty", guards{insertAnyNonce: true}, "fewest labels, passes", false},
		{"an insertion anywhere in its gap", guards{insertAnywhere: true}, "few labels", false},
		{"an insertion beside what is known by then", guards{insertAsKnown: true}, "some labels, goroutines", false},
		{"a relabelling of what has changed", guards{relabelAnyNonce: true}, "fewest labels, appends", false},
		{"a refresh of any generation", guards{refreshAnyGeneration: true}, "fewest labels, appends", false},
		{"a range of any generation", guards{rangeAnyGeneration: true}, "fewest labels, appends", false},
		{"a copy into an open unit", guards{copyIntoOpen: true}, "few labels, appends, passes", false},
		// What is copied is a function of what was sealed, so it is overwritten by the same.
		{"a copy over what is there", guards{copyOverExisting: true}, "few labels, appends, passes", true},
		{"a copy of an open unit", guards{openUnsealed: true}, "few labels, appends, passes", false},
		{"a retired unit that is forgotten", guards{forgetRetired: true}, "few labels, appends, passes", false},
		{"an unknown commit that is repeated", guards{repeatUnknown: true}, "few labels, appends, passes", false},
	} {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.name == c.setting })
		s := settings[i]
		s.guards = c.guards
		t.Run(c.name, func(t *testing.T) {
			s.harmOnly = false
			noticed(t, s)
			if !c.harmless {
				s.harmOnly = true
				noticed(t, s)
			}
		})
	}
}

// noticed makes runs until one is bad, which one of the first dozens is: the rest is there so that no
// change to the protocol makes this miss by chance.
func noticed(t *testing.T, s setting) {
	t.Helper()
	const most = 2000
	for seed := range uint64(most) {
		if w := simulate(t, s, seed); len(w.bad) > 0 {
			t.Logf("seed %d: %s", seed, w.bad[0])
			return
		}
	}
	t.Fatalf("nothing noticed in %d runs", most)
}
