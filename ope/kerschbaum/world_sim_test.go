package kerschbaum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// A world is one run of the simulation: clients, each with a scheme and a cache of its own, on one index. The checker
// looks at the index after every commit.
type world struct {
	*sim.World
	setting setting
	clients []*client

	replicas replicas

	mu    sync.Mutex // guards what follows
	index ope.Index
	checker
}

// counted is what must have happened in some runs with all faults.
var counted = []string{
	"steps", "commits", "refused commits", "late commits: applied", "late commits: refused", "freezes",
	"fails", "unknown, lost", "unknown, done", "unknown, late", "dies before", "dies after", "dies, late",
	"relabellings", "passes", "Encrypt", "EncryptBatch", "Range", "Check", "Decrypt", "Decrypt: stale", "Intervals",
	"Rebalance", "Intervals of ranks", "undecided commits", "decisions",
}

// A client is a process: a scheme with its cache, and goroutines that use it. It implements [ope.Index] for its
// scheme.
type client struct {
	*sim.Client
	w      *world
	scheme *Scheme
	todo   program
}

var _ ope.Index = (*client)(nil)

func (c *client) Read(_ context.Context, unit ope.Unit, from, to []byte, limit int) (view ope.View, err error) {
	what := fmt.Sprintf("read %s [%s,%s) %d", unitName(unit), keyName(from), keyName(to), limit)
	err = c.Call(sim.Call{Kind: sim.Read, On: string(unit), What: what, Do: func(bool) (err error) {
		view, err = c.indexOf(unit).Read(context.Background(), unit, from, to, limit)
		return err
	}})
	return view, err
}

func (c *client) Commit(_ context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (applied bool, err error) {
	what := "commit " + unitName(unit) + " " + changeName(cond, change)
	var made bool
	err = c.Call(sim.Call{Kind: sim.Write, On: string(unit), What: what, Do: func(late bool) (err error) {
		if cond.State == ope.StateRetired && change.Meta.State == ope.StateAbsent && c.w.setting.harmOnly {
			c.w.forget(unit)
			made = true
			return nil
		}
		made, err = c.decidesBy(unit, func() (bool, error) { return c.w.index.Commit(context.Background(), unit, cond, change) })
		c.w.committed(unit, made, err)
		switch {
		case late && made:
			c.w.Count("late commits: applied")
		case late:
			c.w.Count("late commits: refused")
		}
		return err
	}})
	if errors.Is(err, sim.ErrUnknown) {
		return false, ope.ErrUnknownOutcome
	}
	return made && err == nil, err
}

// An operation uses a client's scheme and checks what it returns.
type operation func(c *client)

// A program gives the operations of a client's workers, in the order in which they begin; nil is
// the end.
type program func(worker int) operation

// start lets a new client begin, with so many goroutines.
func (w *world) start(workers int, todo program) *client {
	c := &client{Client: w.Client(), w: w, todo: todo}
	c.scheme = w.newScheme(c.asIndex())
	w.clients = append(w.clients, c)
	for worker := range workers {
		w.Go(func() {
			for c.Call(sim.Call{Kind: sim.Begin, What: fmt.Sprintf("begin %d", worker)}) == nil {
				op := c.todo(worker)
				if op == nil {
					return
				}
				op(c)
			}
		})
	}
	return c
}

// warm lets a client do something without steps.
func (c *client) warm(ops ...operation) {
	c.Free(func() {
		for _, op := range ops {
			op(c)
		}
	})
}

// forget makes the index such as if a unit had never been, which no index that keeps its contract
// lets happen.
func (w *world) forget(unit ope.Unit) {
	index := memindex.New()
	for epoch := range w.units {
		u := first(w.observer).unit(epoch)
		if u.Name == unit {
			delete(w.units, epoch)
			continue
		}
		view, err := w.index.Read(context.Background(), u.Name, nil, nil, 0)
		if err != nil {
			panic(err)
		}
		if _, err := index.Commit(context.Background(), u.Name, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta}); err != nil {
			panic(err)
		}
	}
	w.index = index
}

// Names for the transcript.

func unitName(u ope.Unit) string {
	number, epoch := shardOf(u)
	return fmt.Sprintf("%x/%x@", number, epoch)
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
