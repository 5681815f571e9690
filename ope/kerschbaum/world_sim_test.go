package kerschbaum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// A world is one run of the simulation: clients, each with a scheme and a cache of its own, on one
// index. Every call of the index is a step, and one step is made at a time: a chooser decides whose
// call is next and what becomes of it. Between two steps every goroutine is blocked.
type world struct {
	setting setting
	index   *opetest.Index
	choose  chooser
	checker

	mu      sync.Mutex
	waiting []*call
	late    []*call // commits that are still under way, though their callers no longer wait
	clients []*client
	graves  []*call // of dead clients, never answered
	over    bool
	running int // workers of living clients that are not done
	faults  bool
	group   sync.WaitGroup

	step  int
	trace []string
	bad   []string
	count counts
}

// counts says what has happened, so that a test can tell whether it tested anything.
type counts map[string]int

// counted is what must have happened in some runs with all faults.
var counted = []string{
	"runs",
	"steps",
	"commits",
	"refused commits",
	"crashes",
	"unknown outcomes: not applied",
	"unknown outcomes: applied",
	"late commits: applied",
	"late commits: refused",
	"failed reads",
	"freezes",
	"relabellings",
	"passes",
	"Encrypt",
	"EncryptBatch",
	"Range",
	"Check",
	"Decrypt",
	"Decrypt: stale",
	"Intervals",
	"Valid: stale",
	"Rebalance",
	"moves",
	"Moves",
	"Moves: no longer known",
}

func (c counts) add(d counts) {
	for name, n := range d {
		c[name] += n
	}
}

func (c counts) String() string {
	var out []string
	for _, name := range counted {
		if c[name] > 0 {
			out = append(out, fmt.Sprintf("%s %d", name, c[name]))
		}
	}
	return strings.Join(out, ", ")
}

// requireAll demands that everything that is counted has happened.
func (c counts) requireAll(t *testing.T) {
	t.Helper()
	for _, name := range counted {
		require.NotZero(t, c[name], name)
	}
}

// A fate is what becomes of a call.
type fate int

const (
	done        fate = iota // it is carried out and answered
	fails                   // a read is not answered; its caller gets an error
	unknownLost             // a commit is not carried out; its outcome is unknown to the caller
	unknownDone             // a commit is carried out; its outcome is unknown to the caller
	unknownLate             // a commit is carried out at a later step; its outcome is unknown to the caller
	diesBefore              // the client ends; the call is not carried out
	diesAfter               // the client ends; the call is carried out
	diesLate                // the client ends; the call, a commit, is carried out at a later step
)

func (f fate) String() string {
	return [...]string{"", " fails", " unknown, lost", " unknown, done", " unknown, late", " dies before", " dies after", " dies, late"}[f]
}

// A chooser decides which of the waiting calls is next, and its fate. It returns no call to let a
// late commit happen, the one of number late, or with a negative number to end all clients.
type chooser interface {
	next(w *world) (p *call, f fate, late int)
}

var (
	errDead    = errors.New("the client is dead")
	errOffline = errors.New("the read failed")
)

// A call is a call of the index, or the beginning of an operation.
type call struct {
	client  *client
	what    string
	unit    ope.Unit
	kind    callKind
	do      func() (applied bool, err error)
	release chan fate
}

type callKind int

const (
	begins callKind = iota
	reads
	commits
)

// A client is a process: a scheme with its cache, and goroutines that use it. It implements
// [ope.Index] for its scheme.
type client struct {
	w      *world
	id     int
	scheme *Scheme
	ctx    context.Context
	kill   context.CancelFunc
	dead   bool
	live   int // workers that are not done
	frozen int // the step until which none of its calls is chosen
	todo   program
	free   bool // its calls are no steps, but carried out at once
}

// wait blocks until the call is chosen, and reports its fate. If the client is dead, that is when
// the run is over.
func (c *client) wait(p *call) fate {
	p.client, p.release = c, make(chan fate, 1)
	c.w.mu.Lock()
	switch {
	case c.w.over:
		c.w.mu.Unlock()
		return diesBefore
	case c.free:
		c.w.mu.Unlock()
		return done
	case c.dead:
		c.w.graves = append(c.w.graves, p)
	default:
		c.w.waiting = append(c.w.waiting, p)
	}
	c.w.mu.Unlock()
	return <-p.release
}

func (c *client) Read(_ context.Context, unit ope.Unit, from, to []byte, limit int) (view ope.View, err error) {
	p := &call{kind: reads, unit: unit, what: fmt.Sprintf("read %s [%s,%s) %d", unitName(unit), keyName(from), keyName(to), limit)}
	switch c.wait(p) {
	case done:
		return c.w.index.Read(context.Background(), unit, from, to, limit)
	case fails:
		return view, errOffline
	}
	return view, errDead
}

func (c *client) Commit(_ context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (applied bool, err error) {
	p := &call{kind: commits, unit: unit, what: "commit " + unitName(unit) + " " + changeName(cond, change)}
	p.do = func() (bool, error) {
		if cond.State == ope.StateRetired && change.Meta.State == ope.StateAbsent && c.w.setting.harmOnly {
			return c.w.forget(unit), nil
		}
		applied, err := c.w.index.Commit(context.Background(), unit, cond, change)
		c.w.committed(unit, applied, err)
		return applied, err
	}
	switch c.wait(p) {
	case done:
		return p.do()
	case unknownDone:
		p.do()
		return false, ope.ErrUnknownOutcome
	case unknownLost, unknownLate:
		return false, ope.ErrUnknownOutcome
	}
	return false, errDead
}

var _ ope.Index = (*client)(nil)

// An operation uses a client's scheme and checks what it returns.
type operation func(c *client)

// A program gives the operations of a client's workers, in the order in which they begin; nil is
// the end.
type program func(worker int) operation

// work runs operations, each when it is chosen to begin, until there are none or the run is over.
func (c *client) work(worker int) {
	for c.wait(&call{kind: begins, what: fmt.Sprintf("begin %d", worker)}) == done {
		op := c.todo(worker)
		if op == nil {
			break
		}
		op(c)
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if !c.dead {
		c.live--
		c.w.running--
	}
}

// start lets a new client begin, with so many goroutines.
func (w *world) start(workers int, todo program) *client {
	c := &client{w: w, id: len(w.clients), todo: todo, live: workers}
	c.ctx, c.kill = context.WithCancel(context.Background())
	c.scheme = w.newScheme(c)
	w.mu.Lock()
	w.clients = append(w.clients, c)
	w.running += workers
	w.mu.Unlock()
	for i := range workers {
		w.group.Go(func() { c.work(i) })
		synctest.Wait()
	}
	return c
}

// warm lets a client do something without steps.
func (w *world) warm(c *client, ops ...operation) {
	c.free = true
	for _, op := range ops {
		op(c)
	}
	c.free = false
}

// crash ends a client: what it has under way is never answered, and it makes no more calls.
func (w *world) crash(c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.dead {
		return
	}
	c.dead = true
	w.running -= c.live
	w.waiting = slices.DeleteFunc(w.waiting, func(p *call) bool {
		if p.client == c {
			w.graves = append(w.graves, p)
		}
		return p.client == c
	})
}

// end lets all goroutines end.
func (w *world) end() {
	w.crashAll()
	w.mu.Lock()
	w.over = true
	graves := w.graves
	w.mu.Unlock()
	for _, c := range w.clients {
		c.kill()
	}
	for _, p := range graves {
		p.release <- diesBefore
	}
	w.group.Wait()
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failLocked(format string, args ...any) {
	if len(w.bad) < 10 {
		w.bad = append(w.bad, fmt.Sprintf("step %d: ", w.step)+fmt.Sprintf(format, args...))
	}
}

// run makes steps until all clients are done.
func (w *world) run(maxSteps int) {
	for limit, idle := w.step+maxSteps, 0; ; {
		synctest.Wait()
		w.mu.Lock()
		slices.SortStableFunc(w.waiting, func(a, b *call) int {
			return cmp.Or(cmp.Compare(a.client.id, b.client.id), strings.Compare(a.what, b.what))
		})
		waiting, running, bad := len(w.waiting), w.running, len(w.bad) > 0
		w.mu.Unlock()
		if running == 0 {
			return
		}
		if bad {
			w.crashAll()
			waiting = 0
		}
		if waiting == 0 {
			if idle++; idle > 1000 {
				w.fail("progress: nobody makes a call, and nobody is done")
				w.crashAll()
				return
			}
			time.Sleep(time.Second) // a client pauses
			continue
		}
		if idle = 0; w.step >= limit {
			w.fail("progress: the clients are not done after %d steps", maxSteps)
			continue
		}
		w.makeStep()
		// Whoever pauses goes on at some time, even while others make calls.
		time.Sleep(time.Millisecond)
	}
}

func (w *world) crashAll() {
	for _, c := range w.clients {
		w.crash(c)
	}
}

func (w *world) makeStep() {
	w.step++
	p, f, late := w.choose.next(w)
	switch {
	case p == nil && late < 0:
		w.crashAll()
		return
	case p == nil:
		w.release(late)
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%d %s%v", p.client.id, p.what, f))
	switch f {
	case fails:
		w.count["failed reads"]++
	case unknownLost:
		w.count["unknown outcomes: not applied"]++
	case unknownDone:
		w.count["unknown outcomes: applied"]++
	case diesAfter:
		p.do()
	case unknownLate, diesLate:
		w.late = append(w.late, p)
	}
	if f >= diesBefore {
		w.count["crashes"]++
		w.crash(p.client)
		if w.setting.replace {
			w.start(w.setting.workers, p.client.todo)
		}
		return
	}
	w.mu.Lock()
	w.waiting = slices.DeleteFunc(w.waiting, func(other *call) bool { return other == p })
	w.mu.Unlock()
	p.release <- f
	synctest.Wait()
}

// forget makes the index such as if a unit had never been, which no index that keeps its contract
// lets happen.
func (w *world) forget(unit ope.Unit) bool {
	index := opetest.NewIndex()
	for epoch := range w.units {
		u, err := w.observer.unit(epoch)
		if err != nil {
			panic(err)
		}
		if u.name == unit {
			delete(w.units, epoch)
			continue
		}
		view, err := w.index.Read(context.Background(), u.name, nil, nil, 0)
		if err != nil {
			panic(err)
		}
		if _, err := index.Commit(context.Background(), u.name, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta}); err != nil {
			panic(err)
		}
	}
	w.index = index
	return true
}

// release lets a late commit happen.
func (w *world) release(i int) {
	p := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	applied, _ := p.do()
	if applied {
		w.count["late commits: applied"]++
	} else {
		w.count["late commits: refused"]++
	}
	w.trace = append(w.trace, fmt.Sprintf("%d late %s %v", p.client.id, p.what, applied))
}

// random chooses at random, and for its length of time leaves a client out now and then.
type random struct {
	r       *rand.Rand
	crash   float64 // of every call
	unknown float64 // of every commit, and as often a read fails
	freeze  float64 // of every step
	frozen  int     // at most so many steps
	burst   float64 // how often the client that made the last call makes the next one
	last    *client
}

func (s *random) next(w *world) (*call, fate, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.late) > 0 && s.r.IntN(30) == 0 {
		return nil, done, s.r.IntN(len(w.late))
	}
	awake := func(p *call) bool { return p.client.frozen <= w.step }
	p := w.waiting[s.r.IntN(len(w.waiting))]
	if w.faults && s.r.Float64() < s.freeze {
		w.count["freezes"]++
		p.client.frozen = w.step + s.r.IntN(s.frozen)
	}
	if s.last != nil && s.r.Float64() < s.burst {
		if i := slices.IndexFunc(w.waiting, func(p *call) bool { return p.client == s.last }); i >= 0 {
			p = w.waiting[i]
		}
	}
	if !awake(p) {
		if others := slices.DeleteFunc(slices.Clone(w.waiting), func(p *call) bool { return !awake(p) }); len(others) > 0 {
			p = others[s.r.IntN(len(others))]
		}
	}
	s.last = p.client
	if !w.faults || p.kind == begins {
		return p, done, 0
	}
	switch f := s.r.Float64(); {
	case f < s.crash && p.kind == commits:
		return p, diesBefore + fate(s.r.IntN(3)), 0
	case f < s.crash:
		return p, diesBefore, 0
	case f < s.crash+s.unknown && p.kind == commits:
		return p, unknownLost + fate(s.r.IntN(3)), 0
	case f < s.crash+s.unknown/4 && p.kind == reads:
		return p, fails, 0
	}
	return p, done, 0
}

func (w *world) story() string {
	return strings.Join(w.trace[max(0, len(w.trace)-100):], "\n") + "\n" + strings.Join(w.bad, "\n")
}

// Names for the transcript.

func unitName(u ope.Unit) string {
	_, rest, _ := strings.Cut(string(u), "/000000/")
	return strings.TrimLeft(rest, "0") + "@"
}

func keyName(key []byte) string {
	if key == nil {
		return ""
	}
	return strings.TrimLeft(fmt.Sprintf("%x", key), "0") + "."
}

func changeName(cond ope.Condition, change ope.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "if %d/%d", cond.State, cond.Generation)
	if cond.Nonce != nil {
		fmt.Fprintf(&b, " nonce %x", cond.Nonce[:4])
	}
	for _, key := range cond.Absent {
		fmt.Fprintf(&b, " no %s", keyName(key))
	}
	fmt.Fprintf(&b, ": %d/%d %x", change.Meta.State, change.Meta.Generation, change.Meta.Nonce[:4])
	for _, r := range change.Puts {
		fmt.Fprintf(&b, " +%s", keyName(r.Key))
	}
	for _, key := range change.Deletes {
		fmt.Fprintf(&b, " -%s", keyName(key))
	}
	return b.String()
}
