package store

import (
	"context"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// The simulation of copies, in conditional tables of which a column has ranks. Besides, three clients make its index again, which
// gives the column another id, one changes whether it covers, and three repair the table. All of them die at any call, also of the
// catalogue. After each step every row must have its index entries, and queries must return what nobody changed meanwhile.

var ranked = OrderedColumn("celsius", Int8, KerschbaumRanked)

// renewing starts the clients that this simulation has more.
func (w *coverWorld) renewing() {
	for range 3 {
		w.client(4, (*coverClient).rebuild)
		w.client(4, (*coverClient).repair)
	}
	w.client(4, (*coverClient).recover)
}

// underWay notes a call that writes rows as other writes than they are, as long as it lasts.
func (w *coverWorld) underWay(do func() error) error {
	ended := w.begun()
	defer ended()
	return do()
}

func (w *coverWorld) begun() (ended func()) {
	n := w.writes
	w.writes++
	if w.writing == nil {
		w.writing = make(map[int]bool)
	}
	w.writing[n] = true
	return func() { delete(w.writing, n) }
}

// rebuild makes the index again.
func (c *coverClient) rebuild() error {
	err := c.tbl.RebuildIndex(context.Background(), "celsius", nil)
	if err == nil {
		c.World.Count("indexes made again")
	}
	return err
}

// recover changes whether the column covers, or converts the rows.
func (c *coverClient) recover() error {
	ctx := context.Background()
	switch c.World.r.IntN(3) {
	case 0:
		return c.st.Alter(ctx, "t", ChangeColumn(ranked))
	case 1:
		return c.st.Alter(ctx, "t", ChangeColumn(ranked.Covering()))
	}
	_, err := c.tbl.Convert(ctx, nil)
	if err == nil {
		c.World.Count("conversions")
	}
	return err
}

// repair verifies the table, and mends it. The grace period is over, as is assumed of it, when all writes are that were under way
// when it began, also those that are late.
func (c *coverClient) repair() error {
	w, began := c.World, int(c.World.step.Load())
	pause := func(context.Context) error { return c.Call(sim.Call{Kind: sim.Begin, What: "pause"}) }
	v := c.tbl.verifier(&VerifyOptions{Repair: true, Fault: func(f inspect.Fault) {
		if f.Kind != inspect.FaultUndone && !w.straggles(f, began) {
			w.Fail("verify: %s: column %q: %v", f.Kind, f.Column, f.Err)
		}
	}})
	v.Pause = pause
	ended := w.begun() // what it mends it writes before the grace period
	v.AwaitGrace = func(ctx context.Context) error {
		ended()
		for before, late := maps.Clone(w.writing), true; len(before) > 0 || late; {
			if err := pause(ctx); err != nil {
				return err
			}
			maps.DeleteFunc(before, func(n int, _ bool) bool { return !w.writing[n] })
			late = late && (len(before) > 0 || w.Late() > 0) // what they left on its way
		}
		return nil
	}
	report, err := v.Run(context.Background())
	ended()
	if err == nil {
		w.Count("repairs")
	}
	for range report.Dropped {
		w.Count("dropped entries")
	}
	return err
}

// Simulated: queries by a column find every row, whoever makes its index again, changes or repairs the table, and dies.
func TestRenewalsSimulated(t *testing.T) {
	for name, v := range map[string]coverVariant{
		"compared": {conditional: true, renews: true},
		"clocks":   {conditional: true, renews: true, clocks: true},
	} {
		t.Run(name, func(t *testing.T) {
			runs := max(10, *simRuns/2)
			total, found, _ := coverRuns(t, v, runs)
			t.Logf("%d runs: %v; queries had to return %d rows", runs, total, found)
			if runs >= 50 { // fewer may lack some of it
				require.Empty(t, total.Missing("indexes made again", "conversions", "repairs", "dropped entries", "dies before", "dies after", "dies, late"))
				require.Greater(t, found, runs/4)
			}
		})
	}
}
