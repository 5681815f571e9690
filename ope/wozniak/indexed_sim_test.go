package wozniak

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/mutant"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

var (
	simSeed  = flag.Uint64("sim.seed", 1, "the first seed of simulations")
	simSeeds = flag.Int("sim.seeds", 80, "the number of seeds of simulations")
)

// A world is a simulation of clients that share a unit. Who dies is followed by a client that remembers nothing.
type world struct {
	*sim.World
	index  *memindex.Index
	opts   IndexedOptions
	cache  int
	key    ope.Key
	domain ope.Domain
	reader *Indexed // unseals what is in the index
	limit  int
	fanOut int

	replicas *rand.Rand                   // not nil: what clients commit that die is not decided, as on Cassandra
	before   map[ope.Unit]*memindex.Index // such a unit, as some reads show it
	missed   int                          // reads that did

	mu      sync.Mutex
	records map[string]uint64 // by unit and key
	units   map[ope.Unit]simUnit
	sealing bool // a client has begun to seal the index
	sealed  bool
	given   map[uint64]string // ciphertexts of all values in the index
	commits int               // that were checked
}

// A simIndex is the index as a client sees it.
type simIndex struct {
	*sim.Client
	w *world
}

func (ix simIndex) Read(_ context.Context, unit ope.Unit, from, to []byte, limit int) (view ope.View, err error) {
	err = ix.Call(sim.Call{Kind: sim.Read, What: fmt.Sprintf("read %s [%x,%x) %d", unit, from, to, limit), Do: func(bool) (err error) {
		view, err = ix.w.indexOf(unit).Read(context.Background(), unit, from, to, limit)
		return err
	}})
	return view, err
}

// undecidedSim is a simIndex whose reads may miss what is not decided.
type undecidedSim struct{ simIndex }

func (ix undecidedSim) Decide(_ context.Context, unit ope.Unit) error {
	return ix.Call(sim.Call{Kind: sim.Read, What: fmt.Sprintf("decide %s", unit), Do: func(bool) error {
		ix.w.decide(unit)
		ix.w.Count("decisions")
		return nil
	}})
}

// indexFor returns the index as a client sees it.
func (w *world) indexFor(c *sim.Client) ope.Index {
	if w.replicas != nil {
		return undecidedSim{simIndex{c, w}}
	}
	return simIndex{c, w}
}

func (w *world) indexOf(unit ope.Unit) ope.Index {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.before[unit]; before != nil && w.replicas.IntN(2) == 0 {
		w.missed++
		return before
	}
	return w.index
}

func (w *world) decide(unit ope.Unit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.before, unit)
}

func (w *world) misses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.missed
}

// commit makes a commit. What was not decided before it is decided.
func (w *world) commit(c *sim.Client, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	w.decide(unit)
	before := memindex.New()
	if w.replicas != nil && c.Dying() {
		view, err := w.index.Read(bg, unit, nil, nil, 0)
		if err == nil {
			_, err = before.Commit(bg, unit, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
		}
		if err != nil {
			return false, err
		}
	}
	applied, err := w.index.Commit(bg, unit, cond, change)
	if w.replicas != nil && c.Dying() && applied {
		w.mu.Lock()
		w.before[unit] = before
		w.mu.Unlock()
		w.Count("undecided commits")
	}
	return applied, err
}

func (ix simIndex) Commit(_ context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (applied bool, err error) {
	what := fmt.Sprintf("commit %s %x", unit, change.Meta.Nonce)
	err = ix.Call(sim.Call{Kind: sim.Write, What: what, Do: func(bool) (err error) {
		applied, err = ix.w.commit(ix.Client, unit, cond, change)
		return err
	}})
	if errors.Is(err, sim.ErrUnknown) {
		return false, ope.ErrUnknownOutcome
	}
	return applied && err == nil, err
}

// A scheme with an index takes long for the trials of opetest.
func init() {
	if !sim.Full() {
		_ = flag.Set("rapid.checks", "30")
	}
}

// simulate runs a world.
func simulate(t *testing.T, seed uint64) *world {
	sim.Seed(t, seed)
	w := &world{World: new(sim.World), index: memindex.New(), key: indexedKey(t), records: map[string]uint64{}, units: map[ope.Unit]simUnit{}, given: map[uint64]string{}}
	w.Choose = &sim.Random{R: rand.New(rand.NewPCG(seed, 7)), Crash: 0.04, Unknown: 0.08}
	w.Faults, w.Step = true, w.check
	w.domain = []ope.Domain{{Min: 0, Max: 40}, {Min: -100, Max: 100}, ope.Int32, ope.Int64, {Min: 4, Max: 4}}[seed%5]
	w.opts.TargetsOnly = seed/4%2 == 0
	w.cache = []int{unitValues, 30}[seed/8%2]
	w.limit = []int{unitValues, 3, 5, 12, 40}[seed/2%5]
	w.fanOut = []int{2, 3, 7}[seed/3%3]
	w.reader = w.newScheme(t, w.index, 99)
	if seed/7%2 == 1 {
		w.replicas, w.before = rand.New(rand.NewPCG(seed, 300)), make(map[ope.Unit]*memindex.Index)
	}
	synctest.Test(t, func(t *testing.T) {
		for n := range uint64(5) {
			w.Go(func() { w.live(t, n, rand.New(rand.NewPCG(seed, 100+n))) })
		}
		if seed%4 == 1 {
			w.Go(func() { w.seal(t, rand.New(rand.NewPCG(seed, 200))) })
		}
		w.Run(20_000)
		w.End()
	})
	return w
}

func (w *world) newScheme(tb testing.TB, ix ope.Index, seed uint64) *Indexed {
	opts := w.opts
	var chacha [32]byte
	chacha[0], chacha[1] = byte(seed), byte(seed>>8)
	opts.Coins = rand.NewChaCha8(chacha)
	s, err := NewIndexed(w.key, w.domain, ix, "unit", &opts)
	require.NoError(tb, err)
	s.parallel, s.page, s.ahead, s.cache = 1, 8, 16, w.cache
	// Clients may have their own minds about when and how units are divided.
	s.limit, s.fanOut = w.limit+int(seed%3)*w.limit/2, w.fanOut+int(seed/2%2)
	return s
}

// live encrypts, decrypts and asks for intervals, as one client after the other.
func (w *world) live(tb testing.TB, n uint64, random *rand.Rand) {
	var s *Indexed
	births := n
	born := func() {
		births += 10
		s = w.newScheme(tb, w.indexFor(w.Client()), births)
	}
	born()
	value := func() int64 {
		d := w.domain
		if random.IntN(3) == 0 { // where others are, too
			return d.At(min(d.Span(), d.Span()/2+random.Uint64N(4)))
		}
		return d.At(random.Uint64N(min(d.Span(), 1<<62) + 1))
	}
	var mine []int64
	for range 12 {
		var err error
		switch random.IntN(4) {
		case 0, 1:
			x := value()
			var ct ope.Ciphertext
			if ct, err = s.Encrypt(bg, x); err == nil {
				w.acknowledged(x, ct)
				mine = append(mine, x)
			}
		case 2:
			xs := []int64{value(), value(), value()}
			var cts []ope.Ciphertext
			if cts, err = s.EncryptBatch(bg, xs); err == nil {
				for i, x := range xs {
					w.acknowledged(x, cts[i])
				}
				mine = append(mine, xs...)
			}
		case 3:
			lo, hi := value(), value()
			lo, hi = min(lo, hi), max(lo, hi)
			before, missed := w.snapshot(), w.misses()
			var ivs []ope.Interval
			if ivs, err = s.Intervals(bg, lo, hi); err == nil {
				w.holdBefore(before, lo, hi, ivs, w.misses() > missed)
			}
			if len(mine) > 0 && err == nil {
				x := mine[random.IntN(len(mine))]
				var got int64
				ct := ope.Ciphertext(w.snapshot()[w.domain.Offset(x)])
				if got, err = s.Decrypt(bg, ct); err == nil && got != x {
					w.Fail("a ciphertext of %d was decrypted as %d", x, got)
				}
			}
		}
		switch {
		case errors.Is(err, sim.ErrDead):
			born()
		case err != nil && w.isSealing():
			return // it may find a unit closed
		case err != nil && !errors.Is(err, sim.ErrFailed):
			w.Fail("client %d: %v", n, err)
			return
		}
	}
	if s.Stats().Refused > 0 {
		w.Count("refused commits")
	}
	if s.Stats().Divided > 0 {
		w.Count("clients that divided a unit")
	}
	if s.Stats().Copied > 0 {
		w.Count("clients that opened a part")
	}
	if s.known.n < len(w.given) && w.cache < len(w.given) {
		w.Count("clients with a part of the unit")
	}
}

func (w *world) isSealing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sealing
}

// seal seals the index at some time.
func (w *world) seal(tb testing.TB, random *rand.Rand) {
	c := w.Client()
	for range random.IntN(150) {
		if err := c.Call(sim.Call{Kind: sim.Read, What: "wait"}); errors.Is(err, sim.ErrDead) {
			c = w.Client()
		}
	}
	w.mu.Lock()
	w.sealing = true
	w.mu.Unlock()
	for births := uint64(1000); births < 1020; births++ { // a large tree may never be sealed between two faults
		pairs, sound, err := w.newScheme(tb, w.indexFor(c), births).Seal(bg)
		if errors.Is(err, sim.ErrDead) {
			c = w.Client()
		}
		if err != nil {
			if c.Dead() {
				return // the world is over
			}
			continue
		}
		has := w.snapshot()
		w.mu.Lock()
		w.sealed = true
		w.mu.Unlock()
		if len(has) > 0 && !sound {
			w.Fail("a sound index was sealed as one that is not")
		}
		if len(pairs) != len(has) {
			w.Fail("of %d values, %d came with the seal", len(has), len(pairs))
		}
		for _, p := range pairs {
			if has[w.domain.Offset(p.Plaintext)] != string(p.Ciphertext) {
				w.Fail("%d came with another ciphertext", p.Plaintext)
			}
		}
		w.Count("sealed")
		return
	}
}

func (w *world) snapshot() map[uint64]string {
	w.check()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[uint64]string, len(w.given))
	for x, c := range w.given {
		out[x] = c
	}
	return out
}

// acknowledged checks what a client was told against the index.
func (w *world) acknowledged(x int64, c ope.Ciphertext) {
	if in, ok := w.snapshot()[w.domain.Offset(x)]; !ok || in != string(c) {
		w.Fail("%d was acknowledged as %x; in the index it is %x", x, c, in)
	}
}

// holdBefore checks the intervals against what was in the index when they were asked for. Where reads may have missed some of it,
// there may be more in them.
func (w *world) holdBefore(before map[uint64]string, lo, hi int64, ivs []ope.Interval, missed bool) {
	for x, c := range before {
		v, in := w.domain.At(x), false
		for _, iv := range ivs {
			in = in || bytes.Compare(iv.Start, []byte(c)) <= 0 && bytes.Compare([]byte(c), iv.End) < 0
		}
		if want := lo <= v && v <= hi; in != want && (want || !missed) {
			w.Fail("of the interval [%d, %d], %d is in: %v, want %v", lo, hi, v, in, want)
		}
	}
}

// A simUnit is what the index has of a unit.
type simUnit struct {
	state  ope.State
	pairs  []pair
	header header
}

// unitOf reads a unit, and holds it to what is true of every unit.
func (w *world) unitOf(u *unit) (is simUnit, ok bool) {
	v, err := w.index.Read(bg, u.name, nil, nil, 0)
	if err != nil {
		w.Fail("read: %v", err)
		return is, false
	}
	is.state = v.Meta.State
	for _, r := range v.Records {
		if !w.reader.isPair(r.Key) {
			continue
		}
		x, known := w.records[string(u.name)+string(r.Key)]
		if !known {
			p, err := u.unseal(r)
			if err != nil {
				w.Fail("record: %v", err)
				return is, false
			}
			x = p.x
			w.records[string(u.name)+string(r.Key)] = x
			if w.units[u.name].state > ope.StateOpen {
				w.Fail("unit %q was closed, and got a record", u.name)
			}
		}
		is.pairs = append(is.pairs, pair{x: x, c: fromBytes(r.Key)})
	}
	if len(v.Records) == 0 {
		w.units[u.name] = is // it may have been sealed before it was opened
		return is, true
	}
	if is.header, err = u.readHeader(bg); err != nil {
		w.Fail("header: %v", err)
		return is, false
	}
	before := w.units[u.name]
	w.units[u.name] = is
	switch n := len(is.pairs); {
	case len(before.pairs) > n:
		w.Fail("a record of unit %q is gone", u.name)
	case is.header.open && is.header.count != n:
		w.Fail("the header of %q counts %d, the unit has %d", u.name, is.header.count, n)
	case is.header.open && (is.pairs[0].c != is.header.ends[0].c || is.pairs[n-1].c != is.header.ends[1].c):
		w.Fail("unit %q has not the ends that its header names", u.name)
	default:
		return is, true
	}
	return is, false
}

// check looks at the whole index: every value has one ciphertext, the one that it had, in order; no
// record goes away; headers count them; what is copied is what was there; and nothing is open before all of it is.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.commits == w.index.Commits() {
		return
	}
	w.commits = w.index.Commits()
	root := w.reader.root
	is, ok := w.unitOf(root)
	if !ok {
		return
	}
	if is.header.open {
		root.low, root.high = is.header.ends[0], is.header.ends[1]
	}
	all, ok := w.below(root, is)
	if !ok {
		return
	}
	for i, p := range all {
		if i > 0 && (all[i-1].x >= p.x || !all[i-1].c.less(p.c)) {
			w.Fail("the ciphertext of %d is above that of %d", w.domain.At(all[i-1].x), w.domain.At(p.x))
		}
		c := string(w.reader.bytes(p.c))
		if other, known := w.given[p.x]; !known {
			if w.given[p.x] = c; w.sealed {
				w.Fail("%d got a ciphertext after the index was sealed", w.domain.At(p.x))
			}
		} else if other != c {
			w.Fail("%d has the ciphertexts %x and %x", w.domain.At(p.x), other, c)
		}
	}
	if len(all) < len(w.given) {
		w.Fail("%d values are gone", len(w.given)-len(all))
	}
}

// below returns what clients find in a unit and in those that came of its division.
func (w *world) below(u *unit, is simUnit) (all []pair, ok bool) {
	if len(is.header.parts) == 0 {
		return is.pairs, true
	}
	if len(u.parts) == 0 {
		if err := u.attach(is.header.parts); err != nil {
			w.Fail("directory: %v", err)
			return nil, false
		}
	}
	for _, n := range u.parts {
		has, ok := w.unitOf(n)
		if !ok {
			return nil, false
		}
		var there []pair // in the divided unit
		for _, p := range is.pairs {
			if n.low.x <= p.x && p.x <= n.high.x {
				there = append(there, p)
			}
		}
		if len(there) != n.count || there[0] != n.low || there[len(there)-1] != n.high {
			w.Fail("the directory of %q is not what the unit has", u.name)
			return nil, false
		}
		copied := 0
		for _, p := range has.pairs {
			if copied < len(there) && p == there[copied] {
				copied++
			} else if !has.header.open && !slices.Contains(there, p) {
				w.Fail("%d is in %q before that is open, and not in %q", w.domain.At(p.x), n.name, u.name)
			}
		}
		got := there
		if has.header.open {
			w.Count("units that came of a division")
			if copied < len(there) {
				w.Fail("unit %q is open, and not all is copied", n.name)
			}
			if got, ok = w.below(n, has); !ok {
				return nil, false
			}
		}
		if len(all) > 0 {
			got = got[1:] // the first of the part is the last of the one before
		}
		all = append(all, got...)
	}
	return all, true
}

func TestIndexedSimulation(t *testing.T) {
	total := make(sim.Counts)
	for seed := *simSeed; seed < *simSeed+uint64(*simSeeds); seed++ {
		w := simulate(t, seed)
		require.Empty(t, w.Bad(), "-sim.seed=%d -sim.seeds=1\n%s", seed, w.Story())
		total.Add(w.Counts())
	}
	t.Log(total)
	require.NotZero(t, total["undecided commits"])
	require.NotZero(t, total["decisions"])
	for _, what := range []string{"dies before", "dies after", "dies, late", "unknown, lost", "unknown, done", "unknown, late", "refused commits", "clients with a part of the unit", "clients that divided a unit", "clients that opened a part", "sealed"} {
		require.GreaterOrEqual(t, total[what], *simSeeds/8, "%s: the simulation meets too little to prove anything", what)
	}
}

// A run is decided by its seed.
func TestIndexedSimulationRepeats(t *testing.T) {
	for seed := range uint64(8) {
		require.Equal(t, simulate(t, seed).Trace(), simulate(t, seed).Trace(), "seed %d", seed)
	}
}

// divisionMutants take the rules of a division away.
var divisionMutants = []mutant.Mutant{
	{Name: "closeAnyNonce", File: "indexed_divide.go", Old: `ope.Condition{State: ope.StateOpen, Nonce: &nonce}, ope.Change{`,
		New: `func() (c ope.Condition) {
		if c = (ope.Condition{State: ope.StateOpen, Nonce: &nonce}); On {
			c.Nonce = nil
		}
		return c
	}(), ope.Change{`},
	{Name: "copyIntoOpen", File: "indexed_divide.go", Old: `		if applied, err := u.put(ctx, ope.Condition{State: ope.StateAbsent}, change); err`,
		New: `		cond := ope.Condition{State: ope.StateAbsent}
		if On {
			v, err := s.index.Read(ctx, u.name, headerKey, nil, 1)
			if err != nil {
				return false, err
			}
			cond.State = v.Meta.State
		}
		if applied, err := u.put(ctx, cond, change); err`},
	{Name: "openBeforeAllIsCopied", File: "indexed_divide.go", Old: `	if len(there) > 0 {
		return false, u.corrupt`, New: `	if On && len(missing) > 2 {
		missing = missing[:len(missing)-1]
	}
	if len(there) > 0 {
		return false, u.corrupt`},
	{Name: "openWithWhatIsThere", File: "indexed_divide.go", Old: `	if err != nil || !done {
		return false, err
	}
	if len(all)`, New: `	if err != nil || !done && !On {
		return false, err
	}
	if len(all)`, Edits: []mutant.Edit{{File: "indexed_divide.go", Old: `	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	err = u.opened(nonce, all)`, New: `	if On && err == nil && !applied {
		v, _ := s.index.Read(ctx, u.name, headerKey, nil, 1)
		applied, err = u.put(ctx, ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation}, u.opening(nonce, u.sealHeader(len(all), u.low.c, u.high.c), slices.Values([]pair(nil))))
	}
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	err = u.opened(nonce, all)`}}},
	{Name: "partsLeaveGaps", File: "indexed_divide.go", Old: `same && k < n && i == first(k) {`, New: `same && k < n && (i == first(k) && (!On || k == 0) || On && k > 0 && i == first(k)+1) {`},
	{Name: "partsOfOthers", File: "indexed_divide.go", Old: `count: first(k+1) - first(k) + 1})`, New: `count: first(k+1) - first(k) + map[bool]int{false: 1}[On]})`},
	{Name: "sealForgetsAbsentUnits", File: "indexed_restore.go", Old: `		cond := ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation}`,
		New: `		if On && u.parent != nil && v.Meta.State == ope.StateAbsent {
			return false, nil
		}
		cond := ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation}`},
	{Name: "sealForgetsParts", File: "indexed_restore.go", Old: `	case len(h.parts) == 0:
		return all`, New: `	case len(h.parts) == 0 || On:
		return all`},
	{Name: "readersStayAbove", File: "indexed_search.go", Old: `			return u.unlessOpen(before[u])`, New: `			if On && u.parent != nil {
				return &unit{s: s, name: u.parent.name, sealer: u.parent.sealer, frozen: true, low: u.low, high: u.high, count: u.count}
			}
			return u.unlessOpen(before[u])`},
	{Name: "writersStayAbove", File: "indexed_divide.go", Old: `	found, err := s.search(ctx, j.lot, func(uint64) *unit { return j.u.unlessOpen(before) }, nil)`, New: `	if On {
		j.u.name = before.name
	}
	found, err := s.search(ctx, j.lot, func(uint64) *unit { return j.u.unlessOpen(before) }, nil)`},
	{Name: "aDividedUnitIsNotReadAgain", File: "indexed_divide.go", Test: "^TestDividedByAnother$", Old: `		u.forget() // it is not what it was
`, New: `		if !On {
			u.forget() // it is not what it was
		}
`},
	{Name: "coinsOfFullUnits", File: "indexed_commit.go", Test: "^TestDivisionDrawsAsOneUnit$", Old: `		if err := u.full(p.count); err != nil {
`, New: `		if err := u.full(p.count); err != nil {
			if On {
				_, _ = s.coins(u192{lo: 255})
			}
`},
	{Name: "openWhatIsGone", File: "indexed_units.go", Test: "^TestDividedNoticesDamage$", Old: `return u.open || listed && u.parent != nil`, New: `return (u.open || listed && u.parent != nil) && !On`},
	{Name: "intervalsOfWhatIsThere", File: "indexed.go", Test: "^TestIndexed$/./^IntervalsPartial$", Old: `iv.Start = s.after(g.low.c)`, New: `iv.Start = s.after(g.low.c)
			if On {
				iv.Start = s.bytes(g.high.c)
			}`},
}

// Each part of the conditions of a commit is taken away, and the simulation must notice.
func TestMutants(t *testing.T) {
	var mutants []mutant.Mutant
	for _, m := range []mutant.Mutant{
		{Name: "anyNonce", Old: `cond := ope.Condition{State: ope.StateOpen, Nonce: &p.nonce}`, New: `cond := ope.Condition{State: ope.StateOpen, Nonce: &p.nonce}
	if On {
		cond.Nonce = nil
	}`},
		{Name: "openAgain", Old: `applied, err = s.index.Commit(ctx, u.name, cond, change)`, New: `applied, err = s.index.Commit(ctx, u.name, cond, change)
	if On && !applied && err == nil && cond.State == ope.StateAbsent {
		applied, err = s.index.Commit(ctx, u.name, ope.Condition{State: ope.StateOpen}, change)
	}`},
		{Name: "unknownIsApplied", Old: `s.stats.Unknown++
`, New: `s.stats.Unknown++
		if On {
			return true, nil
		}
`},
		{Name: "repeatWhatWasRefused", Old: `	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	switch {`, New: `	if On && !applied && err == nil {
		v, _ := s.index.Read(ctx, u.name, nil, nil, 1)
		applied, err = s.index.Commit(ctx, u.name, ope.Condition{State: v.Meta.State, Nonce: &v.Meta.Nonce}, change)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	switch {`},
	} {
		m.File = "indexed_commit.go"
		mutants = append(mutants, m)
	}
	mutants = append(mutants, divisionMutants...)
	for i := range mutants {
		if m := &mutants[i]; m.Test == "" {
			m.Test, m.Flags = "^TestIndexedSimulation$", []string{"-sim.seeds=160"}
		}
	}
	mutant.Test(t, sim.Long(), time.Minute, mutants)
}
