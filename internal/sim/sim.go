// Package sim runs clients of a database in a simulation that a seed decides: a run that fails is seen again with
// the same seed. It is for tests.
//
// Every call of the database is a step, and one step is made at a time. A [Chooser] decides whose call is next and
// what becomes of it: clients die, answers are lost, and calls are made long after their callers gave up. Between
// two steps every goroutine is blocked, so a run belongs in a bubble of testing/synctest. There time costs nothing.
//
// A test has a world of its own around a [World]. It wraps the database, so that each call goes through
// [Client.Call]. It checks its invariants after each step, and what clients are answered.
package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// What a call fails with.
var (
	ErrDead    = errors.New("the client is dead")
	ErrFailed  = errors.New("the read failed")
	ErrUnknown = errors.New("the outcome is unknown")
)

// A Kind says what may become of a call.
type Kind int

const (
	Begin Kind = iota // no call of the database: a client begins something. It is always Done
	Read
	Write
)

// A Fate is what becomes of a call.
type Fate int

const (
	Done        Fate = iota // it is made and answered
	Fails                   // a read is not answered; its caller gets ErrFailed
	UnknownLost             // a write is not made; its caller gets ErrUnknown
	UnknownDone             // a write is made; its caller gets ErrUnknown
	UnknownLate             // a write is made at a later step; its caller gets ErrUnknown
	DiesBefore              // the client dies; the call is not made
	DiesAfter               // the client dies; the call is made
	DiesLate                // the client dies; the call, a write, is made at a later step
)

func (f Fate) String() string {
	return [...]string{"", " fails", " unknown, lost", " unknown, done", " unknown, late", " dies before", " dies after", " dies, late"}[f]
}

// A Call is a step that a client wants to make.
type Call struct {
	Kind Kind
	What string                // for the transcript
	On   string                // what it reads or changes: calls on different ones do not see each other
	Do   func(late bool) error // makes the call; late says that it is a later step than the caller waited for

	client  *Client
	release chan Fate
}

// A Chooser decides which of the waiting calls is next, and its fate. It returns no call to let a late call happen,
// the one of number late, or with a negative number to end all clients.
type Chooser interface {
	Next(w *World) (c *Call, f Fate, late int)
}

// A World is a run: clients and what they wait for. The fields are set before it runs.
type World struct {
	Choose Chooser
	Faults bool            // else every call is done
	Died   func(c *Client) // if not nil: called when a client has died, and may start another
	Step   func()          // if not nil: called after each step, while all clients are blocked

	mu      sync.Mutex
	steps   int
	clients []*Client
	running int // goroutines
	waiting []*Call
	late    []*Call // under way, though their callers no longer wait
	over    bool
	group   sync.WaitGroup
	trace   []string
	bad     []string
	counts  Counts
}

// A Client is a process. When it dies, all its calls fail with [ErrDead] from then on.
type Client struct {
	ID     int
	w      *World
	dying  bool
	dead   bool
	free   bool
	frozen int // the step until which none of its calls is chosen
}

// Client returns a new client.
func (w *World) Client() *Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &Client{ID: len(w.clients), w: w, dead: w.over}
	w.clients = append(w.clients, c)
	return c
}

// Go starts a goroutine of a client.
func (w *World) Go(f func()) {
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	w.group.Go(func() {
		f()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running--
	})
	synctest.Wait()
}

// Dead reports whether the client has died.
func (c *Client) Dead() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.dead
}

// Dying reports, in a call, whether the client is never told of it, and makes no other one.
func (c *Client) Dying() bool { return c.dying || c.Dead() }

// Free calls f. Calls of the client in it are no steps, but made at once.
func (c *Client) Free(f func()) {
	c.free = true
	f()
	c.free = false
}

// Call waits until the call is chosen, and returns what Do does unless its fate is another.
func (c *Client) Call(call Call) error {
	p := &call
	p.client, p.release = c, make(chan Fate, 1)
	c.w.mu.Lock()
	switch {
	case c.dead:
		p.release <- DiesBefore
	case c.free:
		p.release <- Done
	default:
		c.w.waiting = append(c.w.waiting, p)
	}
	c.w.mu.Unlock()
	switch <-p.release {
	case Done:
		if p.Do == nil {
			return nil
		}
		return c.w.make(p)
	case Fails:
		return ErrFailed
	case UnknownDone:
		_ = c.w.make(p)
		return ErrUnknown
	case UnknownLost, UnknownLate:
		return ErrUnknown
	}
	return ErrDead
}

// make makes a call in the goroutine of its client. That may end next, which by itself says nothing of the order of what it did
// and of what follows. Its count does, as it takes the lock.
func (w *World) make(p *Call) error {
	defer w.Count("calls")
	return p.Do(false)
}

// settle waits until all goroutines wait or have ended, and returns how many there are. It takes the lock, as make does.
func (w *World) settle() (running int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

// Run makes steps until all goroutines have ended, at most so many. It ends all clients when something is wrong.
func (w *World) Run(most int) {
	for limit, idle := w.steps+most, 0; ; {
		running := w.settle()
		w.mu.Lock()
		slices.SortStableFunc(w.waiting, func(a, b *Call) int {
			return cmp.Or(cmp.Compare(a.client.ID, b.client.ID), strings.Compare(a.What, b.What))
		})
		waiting, bad := len(w.waiting), len(w.bad) > 0
		w.mu.Unlock()
		switch {
		case running == 0:
			return
		case bad && !w.over:
			w.kill()
		case waiting == 0:
			if idle++; idle > 1000 {
				if w.over {
					panic("sim: dead clients do not end")
				}
				w.Fail("progress: nobody makes a call, and nobody ends")
			}
			time.Sleep(time.Second) // a client pauses
		case w.steps >= limit:
			w.Fail("progress: the clients have not ended after %d steps", most)
		default:
			idle = 0
			w.step()
			time.Sleep(time.Millisecond) // who pauses goes on at some time, though others make calls
		}
	}
}

// Late returns how many calls are yet to be made though their callers no longer wait.
func (w *World) Late() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.late)
}

// End kills all clients, makes what is late, and waits for all goroutines.
func (w *World) End() {
	for len(w.bad) == 0 && len(w.late) > 0 {
		w.makeLate(0)
	}
	w.kill()
	w.group.Wait()
}

// kill ends all clients, and those who are yet to come.
func (w *World) kill() {
	w.over = true
	for _, c := range w.clients {
		w.crash(c)
	}
}

// crash ends a client. Its calls fail.
func (w *World) crash(c *Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.dead = true
	w.waiting = slices.DeleteFunc(w.waiting, func(p *Call) bool {
		if p.client == c {
			p.release <- DiesBefore
		}
		return p.client == c
	})
}

func (w *World) step() {
	w.steps++
	w.mu.Lock()
	p, f, late := w.Choose.Next(w)
	w.mu.Unlock()
	switch {
	case p == nil && late < 0:
		w.kill()
		return
	case p == nil:
		w.makeLate(late)
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%d %s%v", p.client.ID, p.What, f))
	if f != Done {
		w.Count(strings.TrimSpace(f.String()))
	}
	switch f {
	case DiesAfter:
		p.client.dying = true
		p.Do(false)
	case UnknownLate, DiesLate:
		w.late = append(w.late, p)
	}
	if f >= DiesBefore {
		w.crash(p.client)
		synctest.Wait()
		if w.Died != nil {
			w.Died(p.client)
		}
	} else {
		w.mu.Lock()
		w.waiting = slices.DeleteFunc(w.waiting, func(other *Call) bool { return other == p })
		w.mu.Unlock()
		p.release <- f
	}
	w.stepped()
}

// makeLate makes a call whose caller no longer waits.
func (w *World) makeLate(i int) {
	p := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.trace = append(w.trace, fmt.Sprintf("%d late %s", p.client.ID, p.What))
	p.Do(true)
	w.stepped()
}

func (w *World) stepped() {
	w.settle()
	if w.Step != nil {
		w.Step()
	}
}

// Fail notes that something is wrong. The run ends.
func (w *World) Fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.bad) < 10 {
		w.bad = append(w.bad, fmt.Sprintf("step %d: ", w.steps)+fmt.Sprintf(format, args...))
	}
}

// Bad returns what is wrong.
func (w *World) Bad() []string { return w.bad }

// Trace returns the steps.
func (w *World) Trace() []string { return w.trace }

// Story returns the last steps and what is wrong.
func (w *World) Story() string {
	return strings.Join(w.trace[max(0, len(w.trace)-400):], "\n") + "\n" + strings.Join(w.bad, "\n")
}

// Count notes that something has happened, so that a test can see whether it tested anything. Fates are counted
// by their names.
func (w *World) Count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(what)
}

func (w *World) count(what string) {
	if w.counts == nil {
		w.counts = make(Counts)
	}
	w.counts[what]++
}

// Counts returns what has happened, and the steps.
func (w *World) Counts() Counts {
	counts := maps.Clone(w.counts)
	if counts == nil {
		counts = make(Counts)
	}
	counts["steps"] = w.steps
	return counts
}

// Counts says how often something has happened.
type Counts map[string]int

// Add adds those of another run.
func (c Counts) Add(d Counts) {
	for what, n := range d {
		c[what] += n
	}
}

// Missing returns what of the given has never happened.
func (c Counts) Missing(whats ...string) (missing []string) {
	for _, what := range whats {
		if c[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}
