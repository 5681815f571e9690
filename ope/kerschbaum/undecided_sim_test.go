package kerschbaum

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// What a client commits that dies is known to one replica, as on Cassandra. A read may show it or not, until the next commit of
// the unit, or until somebody has it decided.
type replicas struct {
	random *rand.Rand // nil: all know everything
	mu     sync.Mutex
	before map[ope.Unit]ope.Index // a unit as the others know it
	aged   int                    // reads that have missed what is not decided
}

// decide lets all replicas know all of a unit.
func (r *replicas) decide(unit ope.Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.before, unit)
}

// missed returns how many reads have missed what is not decided.
func (r *replicas) missed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aged
}

// deciding is a client whose reads may show what is not decided.
type deciding struct{ *client }

func (c deciding) Decide(_ context.Context, unit ope.Unit) error {
	return c.Call(sim.Call{Kind: sim.Read, On: string(unit), What: "decide " + unitName(unit), Do: func(bool) error {
		c.w.replicas.decide(unit)
		c.w.Count("decisions")
		return nil
	}})
}

// asIndex returns what the scheme of a client uses.
func (c *client) asIndex() ope.Index {
	if c.w.replicas.random != nil {
		return deciding{c}
	}
	return c
}

// indexOf returns where a read of a unit is answered.
func (c *client) indexOf(unit ope.Unit) ope.Index {
	r := &c.w.replicas
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.before[unit]; before != nil && r.random.IntN(2) == 0 {
		r.aged++
		return before
	}
	return c.w.index
}

// decidesBy makes a commit, by which what was undecided before is decided.
func (c *client) decidesBy(unit ope.Unit, commit func() (bool, error)) (bool, error) {
	r := &c.w.replicas
	r.decide(unit)
	if r.random == nil || !c.Dying() {
		return commit()
	}
	before := memindex.New()
	view, err := c.w.index.Read(context.Background(), unit, nil, nil, 0)
	if err != nil {
		return false, err
	}
	if _, err := before.Commit(context.Background(), unit, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta}); err != nil {
		return false, err
	}
	made, err := commit()
	if made && err == nil {
		r.mu.Lock()
		r.before[unit] = before
		r.mu.Unlock()
		c.w.Count("undecided commits")
	}
	return made, err
}
