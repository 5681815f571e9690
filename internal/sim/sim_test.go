package sim

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A counter is a database with one number, which clients raise by one. Raises are conditional, unless it is careless.
type counter struct {
	*World
	n, acked int
	careless bool
}

// raise adds one, however often it must try. It reports false if it cannot know that it did.
func (d *counter) raise(c *Client) bool {
	for {
		var was int
		err := c.Call(Call{Kind: Read, What: "read", Do: func(bool) error { was = d.n; return nil }})
		if errors.Is(err, ErrFailed) {
			continue
		} else if err != nil {
			return false
		}
		applied := false
		err = c.Call(Call{Kind: Write, What: "write", Do: func(bool) error {
			if applied = d.careless || d.n == was; applied {
				d.n = was + 1
			}
			return nil
		}})
		if err != nil {
			return false
		}
		if applied {
			d.acked++
			return true
		}
	}
}

// run lets some clients raise the counter so many times each.
func (d *counter) run(t *testing.T, choose Chooser, faults bool, clients, times int) *counter {
	d.World = &World{Choose: choose, Faults: faults}
	d.Step = func() {
		if d.n < d.acked {
			d.Fail("%d raises are acknowledged, and the counter is %d", d.acked, d.n)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for range clients {
			c := d.Client()
			d.Go(func() {
				for range times {
					if !d.raise(c) && c.Dead() {
						c = d.Client()
					}
				}
			})
		}
		d.Run(10_000)
		d.End()
	})
	return d
}

func chance(seed uint64) *Random {
	return &Random{R: rand.New(rand.NewPCG(seed, 0)), Crash: 0.05, Unknown: 0.1, Freeze: 0.05, Frozen: 20, Burst: 0.3}
}

func TestRandom(t *testing.T) {
	total := make(Counts)
	noticed := 0
	for seed := range uint64(100) {
		d := new(counter).run(t, chance(seed), true, 3, 10)
		require.Empty(t, d.Bad(), d.Story())
		require.Equal(t, d.Trace(), new(counter).run(t, chance(seed), true, 3, 10).Trace())
		total.Add(d.Counts())
		if len((&counter{careless: true}).run(t, chance(seed), true, 3, 10).Bad()) > 0 {
			noticed++
		}
	}
	require.Empty(t, total.Missing("steps", "freezes", "fails", "unknown, lost", "unknown, done", "unknown, late", "dies before", "dies after", "dies, late"))
	require.Equal(t, []string{"nothing"}, total.Missing("steps", "nothing"))
	require.Greater(t, noticed, 50)
	d := new(counter).run(t, chance(1), false, 3, 10)
	require.Equal(t, 30, d.n, "without faults, everybody gets through")
}

// schedules returns how many schedules there are of clients that raise a counter once, and how many are bad.
func schedules(t *testing.T, careless bool, faults, clients int) (all, bad int) {
	tree := &All{Faults: faults}
	for more := true; more; more = tree.Advance() {
		tree.Start()
		d := (&counter{careless: careless}).run(t, tree, true, clients, 1)
		if len(d.Bad()) > 0 {
			bad++
		}
		if !tree.Pruned() {
			all++
		}
	}
	return all, bad
}

func TestAll(t *testing.T) {
	all, bad := schedules(t, false, 0, 1)
	require.Equal(t, []int{1, 0}, []int{all, bad})
	// One after the other (twice), or both read before one writes. As reads commute, that is one order of them, and
	// either may write first.
	all, bad = schedules(t, false, 0, 2)
	require.Equal(t, []int{4, 0}, []int{all, bad})
	all, bad = schedules(t, true, 0, 2)
	require.Equal(t, []int{4, 2}, []int{all, bad})
	all, bad = schedules(t, false, 1, 2)
	require.Greater(t, all, 20)
	require.Zero(t, bad)
}

// A client that is dead makes no calls, and one that makes none and does not end is noticed.
func TestDeadAndIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &World{Choose: chance(1)}
		c := w.Client()
		never := make(chan struct{})
		var failed, after error
		w.Go(func() { failed = c.Call(Call{Kind: Begin, What: "begin"}); <-never })
		w.Step = func() {
			w.Step = nil
			w.Go(func() { after = w.Client().Call(Call{Kind: Read, What: "read"}); close(never) })
		}
		w.Faults, w.Choose = true, firstDies{}
		w.Run(100)
		w.End()
		require.ErrorIs(t, failed, ErrDead)
		require.NoError(t, after)
		free := w.Client()
		require.ErrorIs(t, free.Call(Call{Kind: Read}), ErrDead, "the run is over")
	})
}

type firstDies struct{}

func (firstDies) Next(w *World) (*Call, Fate, int) {
	if w.steps == 1 {
		return w.waiting[0], DiesBefore, 0
	}
	return w.waiting[0], Done, 0
}
