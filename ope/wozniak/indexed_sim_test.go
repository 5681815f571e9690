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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

var (
	simSeed  = flag.Uint64("sim.seed", 1, "the first seed of simulations")
	simSeeds = flag.Int("sim.seeds", 200, "the number of seeds of simulations")
)

// A world is a simulation of clients that share a unit. One call to the index is carried out at a
// time, chosen by chance; so a run is decided by its seed. Clients die at any call and come back
// without their memory, and outcomes get lost, of commits that were applied, that were not, and
// that are applied later.
type world struct {
	random *rand.Rand
	index  *opetest.Index
	faults bool

	mu      sync.Mutex
	cond    *sync.Cond
	running int          // clients that are not at a call
	waiting []*simClient // at a call, in the order of their numbers

	opts    IndexedOptions
	cache   int
	key     ope.Key
	domain  ope.Domain
	reader  *Indexed // unseals what is in the index
	records map[string]uint64
	given   map[uint64]string // ciphertexts of all values in the index
	ends    int
	commits int // that were checked
	bad     error

	crashes, unknown, late, refused, forgot int
}

type simClient struct {
	n       int
	scheme  *Indexed
	dead    bool
	release chan opetest.Fault
	commit  bool
}

type clientKey struct{}

// simulate runs a world. wrap may break the index that clients see.
func simulate(tb testing.TB, seed uint64, faults bool, wrap func(ope.Index) ope.Index) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 7)), index: opetest.NewIndex(), faults: faults,
		key: indexedKey(tb), records: map[string]uint64{}, given: map[uint64]string{},
	}
	w.cond = sync.NewCond(&w.mu)
	w.domain = []ope.Domain{{Min: 0, Max: 40}, {Min: -100, Max: 100}, ope.Int32, ope.Int64}[seed%4]
	w.opts.TargetsOnly = seed/4%2 == 0
	w.cache = []int{UnitValues, 30}[seed/8%2]
	w.reader = w.newScheme(tb, w.index, 99)
	w.index.Inject(w.gate)

	const clients = 5
	w.running = clients
	var wg sync.WaitGroup
	for n := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(100+n)))
		c := &simClient{n: n, release: make(chan opetest.Fault)}
		wg.Go(func() {
			w.live(tb, c, random, wrap)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.running--
			w.ends++
			w.cond.Signal()
		})
	}
	for steps := 0; ; steps++ {
		w.mu.Lock()
		for w.running > 0 {
			w.cond.Wait()
		}
		w.mu.Unlock()
		if w.check(); w.ends == clients {
			break
		}
		if faults && w.random.IntN(10) == 0 {
			w.index.Release()
			w.check()
		}
		slices.SortFunc(w.waiting, func(a, b *simClient) int { return a.n - b.n })
		i := w.random.IntN(len(w.waiting))
		c := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		fault := opetest.None
		switch p := w.random.IntN(100); {
		case w.bad != nil || steps > 20_000:
			fault, c.dead = opetest.Fail, true // the run is over
		case c.dead:
			fault = opetest.Fail
		case !faults:
		case p < 2:
			fault, c.dead = opetest.Fail, true
			w.crashes++
		case p < 4 && c.commit:
			fault, c.dead = opetest.LostAfter, true
			w.crashes++
		case p < 12 && c.commit:
			fault = []opetest.Fault{opetest.LostBefore, opetest.LostAfter, opetest.Late}[p%3]
			w.unknown++
			if fault == opetest.Late {
				w.late++
			}
		}
		w.running++
		c.release <- fault
	}
	wg.Wait()
	if w.bad == nil {
		w.index.Release()
		w.check()
	}
	return w
}

func (w *world) newScheme(tb testing.TB, ix ope.Index, seed uint64) *Indexed {
	opts := w.opts
	var chacha [32]byte
	chacha[0], chacha[1] = byte(seed), byte(seed>>8)
	opts.Coins = rand.NewChaCha8(chacha)
	s, err := NewIndexed(w.key, w.domain, ix, "unit", &opts)
	require.NoError(tb, err)
	s.parallel, s.page, s.cache = 1, 8, w.cache
	s.pause = func(context.Context, int, time.Duration) error { return nil }
	return s
}

// gate is where the calls of clients wait for their turn.
func (w *world) gate(ctx context.Context, op opetest.Op) opetest.Fault {
	c, ok := ctx.Value(clientKey{}).(*simClient)
	if !ok {
		return opetest.None // a look from outside
	}
	w.mu.Lock()
	c.commit = op.Commit
	w.waiting = append(w.waiting, c)
	w.running--
	w.cond.Signal()
	w.mu.Unlock()
	return <-c.release
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bad == nil {
		w.bad = fmt.Errorf(format, args...)
	}
}

// live is the life of a client: it encrypts, decrypts and asks for intervals, and after a crash
// starts again without what it remembered.
func (w *world) live(tb testing.TB, c *simClient, random *rand.Rand, wrap func(ope.Index) ope.Index) {
	ctx := context.WithValue(context.Background(), clientKey{}, c)
	ix := ope.Index(w.index)
	if wrap != nil {
		ix = wrap(ix)
	}
	births := uint64(c.n)
	born := func() {
		births += 10
		c.dead, c.scheme = false, w.newScheme(tb, ix, births)
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
			if ct, err = c.scheme.Encrypt(ctx, x); err == nil {
				w.acknowledged(x, ct)
				mine = append(mine, x)
			}
		case 2:
			xs := []int64{value(), value(), value()}
			var cts []ope.Ciphertext
			if cts, err = c.scheme.EncryptBatch(ctx, xs); err == nil {
				for i, x := range xs {
					w.acknowledged(x, cts[i])
				}
				mine = append(mine, xs...)
			}
		case 3:
			lo, hi := value(), value()
			lo, hi = min(lo, hi), max(lo, hi)
			before := w.snapshot()
			var ivs []ope.Interval
			if ivs, err = c.scheme.Intervals(ctx, lo, hi); err == nil {
				w.holdBefore(before, lo, hi, ivs)
			}
			if len(mine) > 0 && err == nil {
				x := mine[random.IntN(len(mine))]
				var got int64
				ct := ope.Ciphertext(w.snapshot()[w.domain.Offset(x)])
				if got, err = c.scheme.Decrypt(ctx, ct); err == nil && got != x {
					w.fail("a ciphertext of %d was decrypted as %d", x, got)
				}
			}
		}
		if err != nil {
			if !c.dead || !errors.Is(err, opetest.ErrInjected) {
				w.fail("client %d: %w", c.n, err)
				return
			}
			w.mu.Lock()
			over := w.bad != nil
			w.mu.Unlock()
			if over {
				return
			}
			born()
		}
	}
	w.mu.Lock()
	w.refused += c.scheme.Stats().Refused
	if c.scheme.known.n < len(w.given) && w.cache < len(w.given) {
		w.forgot++
	}
	w.mu.Unlock()
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
		w.fail("%d was acknowledged as %x; in the index it is %x", x, c, in)
	}
}

// holdBefore checks the intervals against what was in the index when they were asked for.
func (w *world) holdBefore(before map[uint64]string, lo, hi int64, ivs []ope.Interval) {
	for x, c := range before {
		v, in := w.domain.At(x), false
		for _, iv := range ivs {
			in = in || bytes.Compare(iv.Start, []byte(c)) <= 0 && bytes.Compare([]byte(c), iv.End) < 0
		}
		if want := lo <= v && v <= hi; in != want {
			w.fail("of the interval [%d, %d], %d is in: %v, want %v", lo, hi, v, in, want)
		}
	}
}

// check looks at the whole index: every value has one ciphertext, the one that it had, in order; no
// record goes away; and the header counts them.
func (w *world) check() {
	commits := w.index.Commits()
	w.mu.Lock()
	checked := commits == w.commits
	w.commits = commits
	w.mu.Unlock()
	if checked {
		return
	}
	v, err := w.index.Read(context.Background(), "unit", []byte{0, 0}, nil, 0)
	if err != nil {
		w.fail("read: %w", err)
		return
	}
	if v.Meta.State == ope.StateAbsent {
		return
	}
	_, count, _, _, err := w.reader.readHeader(context.Background())
	if err != nil {
		w.fail("header: %w", err)
		return
	}
	if count != len(v.Records) {
		w.fail("the header counts %d, the unit has %d", count, len(v.Records))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	present := map[string]bool{}
	var before *uint64
	for _, r := range v.Records {
		present[string(r.Key)] = true
		x, known := w.records[string(r.Key)]
		if !known {
			p, err := w.reader.unseal(r)
			if err != nil {
				w.bad = err
				return
			}
			x = p.x
			w.records[string(r.Key)] = x
			if other, twice := w.given[x]; twice && w.bad == nil {
				w.bad = fmt.Errorf("%d has the ciphertexts %x and %x", w.domain.At(x), other, r.Key)
			}
			w.given[x] = string(r.Key)
		}
		if before != nil && *before >= x && w.bad == nil {
			w.bad = fmt.Errorf("the ciphertext of %d is above that of %d", w.domain.At(*before), w.domain.At(x))
		}
		before = &x
	}
	for c, x := range w.records {
		if !present[c] && w.bad == nil {
			w.bad = fmt.Errorf("the record of %d is gone", w.domain.At(x))
		}
	}
}

func TestIndexedSimulation(t *testing.T) {
	var crashes, unknown, late, refused, forgot int
	for seed := *simSeed; seed < *simSeed+uint64(*simSeeds); seed++ {
		w := simulate(t, seed, true, nil)
		require.NoError(t, w.bad, "-sim.seed=%d -sim.seeds=1", seed)
		crashes, unknown, late, refused = crashes+w.crashes, unknown+w.unknown, late+w.late, refused+w.refused
		forgot += w.forgot
	}
	t.Logf("%d crashes, %d unknown outcomes, %d of them late, %d refused commits, %d clients with a part of the unit",
		crashes, unknown, late, refused, forgot)
	for _, n := range []int{crashes, unknown, late, refused, forgot} {
		require.GreaterOrEqual(t, n, *simSeeds/4, "the simulation meets too little to prove anything")
	}
}

// A run is decided by its seed.
func TestIndexedSimulationRepeats(t *testing.T) {
	a, b := simulate(t, 3, true, nil), simulate(t, 3, true, nil)
	require.NoError(t, a.bad)
	require.Equal(t, a.given, b.given)
	require.Equal(t, a.crashes, b.crashes)
}

// A careless index commits under conditions other than those that it is given.
type careless struct {
	ope.Index
	commit func(ctx context.Context, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error)
}

func (c careless) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	return c.commit(ctx, c.Index, u, cond, change)
}

// Without each part of its conditions, the scheme fails, and the simulation notices.
func TestIndexedSimulationNotices(t *testing.T) {
	for _, m := range []struct {
		name   string
		commit func(ctx context.Context, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error)
	}{
		{"commits do not compare the nonce", func(ctx context.Context, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
			cond.Nonce = nil
			return ix.Commit(ctx, u, cond, change)
		}},
		{"a unit is opened again", func(ctx context.Context, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
			applied, err := ix.Commit(ctx, u, cond, change)
			if !applied && err == nil && cond.State == ope.StateAbsent {
				return ix.Commit(ctx, u, ope.Condition{State: ope.StateOpen}, change)
			}
			return applied, err
		}},
		{"what was not applied is repeated", func(ctx context.Context, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
			applied, err := ix.Commit(ctx, u, cond, change)
			if !applied && err == nil {
				v, err := ix.Read(ctx, u, nil, nil, 1)
				if err != nil {
					return false, err
				}
				return ix.Commit(ctx, u, ope.Condition{State: v.Meta.State, Nonce: &v.Meta.Nonce}, change)
			}
			return applied, err
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			caught := 0
			const runs = 30
			for seed := range uint64(runs) {
				w := simulate(t, seed, false, func(ix ope.Index) ope.Index { return careless{ix, m.commit} })
				if w.bad != nil {
					caught++
				}
			}
			t.Logf("caught in %d of %d runs", caught, runs)
			require.Greater(t, caught, runs/2)
		})
	}
}
