package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Random chooses at random, and now and then leaves a client out for some time.
type Random struct {
	R       *rand.Rand
	Crash   float64 // of every call: that its client dies
	Unknown float64 // of every write: that its outcome is unknown. A quarter as often a read fails
	Freeze  float64 // of every step: that a client is left out
	Frozen  int     // for at most so many steps
	Burst   float64 // of every step: that the client that made the last call makes this one
	last    *Client
}

// Next implements [Chooser].
func (s *Random) Next(w *World) (*Call, Fate, int) {
	if len(w.late) > 0 && s.R.IntN(30) == 0 {
		return nil, Done, s.R.IntN(len(w.late))
	}
	awake := func(p *Call) bool { return p.client.frozen <= w.steps }
	p := w.waiting[s.R.IntN(len(w.waiting))]
	if w.Faults && s.R.Float64() < s.Freeze {
		w.count("freezes")
		p.client.frozen = w.steps + s.R.IntN(s.Frozen)
	}
	if s.last != nil && s.R.Float64() < s.Burst {
		if i := slices.IndexFunc(w.waiting, func(p *Call) bool { return p.client == s.last }); i >= 0 {
			p = w.waiting[i]
		}
	}
	if !awake(p) {
		if others := slices.DeleteFunc(slices.Clone(w.waiting), func(p *Call) bool { return !awake(p) }); len(others) > 0 {
			p = others[s.R.IntN(len(others))]
		}
	}
	s.last = p.client
	if !w.Faults || p.Kind == Begin {
		return p, Done, 0
	}
	switch f := s.R.Float64(); {
	case f < s.Crash && p.Kind == Write:
		return p, DiesBefore + Fate(s.R.IntN(3)), 0
	case f < s.Crash:
		return p, DiesBefore, 0
	case f < s.Crash+s.Unknown && p.Kind == Write:
		return p, UnknownLost + Fate(s.R.IntN(3)), 0
	case f < s.Crash+s.Unknown/4 && p.Kind == Read:
		return p, Fails, 0
	}
	return p, Done, 0
}

// All enumerates the schedules of a tiny case: every order of the calls, and every place and kind of a death or an
// unknown outcome, as far as there may be some. Orders that differ only by swapping neighbouring calls that do not
// see each other are one order (sleep sets, Godefroid 1996). Each run begins with [All.Start].
type All struct {
	Faults int // that a schedule may have

	path   []*fork
	depth  int
	left   int // faults that this schedule may still have
	pruned bool
}

// A fork is a place on the path where something was chosen.
type fork struct {
	choices []choice
	at      int
	asleep  []choice // these were tried before something that does not see them
}

type choice struct {
	name   string
	call   *Call // of the present schedule
	late   int
	client int
	fate   Fate
	on     string
	writes bool
}

// commutes reports whether the two choices give the same in either order.
func (a choice) commutes(b choice) bool {
	if a.client == b.client || a.fate != Done && b.fate != Done {
		return false
	}
	if !a.writes && !b.writes {
		return true
	}
	return a.writes != b.writes && a.on != b.on
}

func (c choice) in(list []choice) bool {
	return slices.ContainsFunc(list, func(other choice) bool { return other.name == c.name })
}

func (t *All) choices(w *World) (out []choice) {
	for _, p := range w.waiting {
		if p.Kind == Begin {
			return []choice{{name: "begin", call: p, client: p.client.ID}}
		}
	}
	add := func(p *Call, f Fate) {
		out = append(out, choice{
			name: fmt.Sprintf("%d %s%v", p.client.ID, p.What, f), call: p, client: p.client.ID, fate: f, on: p.On,
			writes: p.Kind == Write && f != UnknownLost && f != UnknownLate && f != DiesBefore && f != DiesLate,
		})
	}
	for _, p := range w.waiting {
		add(p, Done)
		if t.left == 0 {
			continue
		}
		add(p, DiesBefore)
		if p.Kind == Write {
			for _, f := range []Fate{UnknownLost, UnknownDone, UnknownLate, DiesAfter, DiesLate} {
				add(p, f)
			}
		}
	}
	for i, p := range w.late {
		out = append(out, choice{name: fmt.Sprintf("%d late %s", p.client.ID, p.What), late: i, client: -1, on: p.On, writes: true})
	}
	return out
}

// Next implements [Chooser].
func (t *All) Next(w *World) (*Call, Fate, int) {
	choices := t.choices(w)
	if t.depth == len(t.path) {
		f := &fork{choices: choices}
		if t.depth > 0 {
			up := t.path[t.depth-1]
			for _, other := range append(slices.Clone(up.asleep), up.choices[:up.at]...) {
				if other.commutes(up.choices[up.at]) {
					f.asleep = append(f.asleep, other)
				}
			}
		}
		if f.skip(); f.at == len(choices) {
			t.pruned = true
			return nil, Done, -1
		}
		t.path = append(t.path, f)
	}
	f := t.path[t.depth]
	if len(choices) != len(f.choices) || choices[f.at].name != f.choices[f.at].name {
		panic("sim: the schedules of a tiny case are not repeatable")
	}
	t.depth++
	chosen := choices[f.at]
	if chosen.fate != Done {
		t.left--
	}
	return chosen.call, chosen.fate, chosen.late
}

func (f *fork) skip() {
	for f.at < len(f.choices) && f.choices[f.at].in(f.asleep) {
		f.at++
	}
}

// Start begins the next schedule.
func (t *All) Start() { t.depth, t.left, t.pruned = 0, t.Faults, false }

// Pruned reports whether the schedule was given up, since all that can follow has been seen.
func (t *All) Pruned() bool { return t.pruned }

// Advance goes on to the next schedule. It reports false if there is none.
func (t *All) Advance() bool {
	for len(t.path) > 0 {
		f := t.path[len(t.path)-1]
		f.at++
		if f.skip(); f.at < len(f.choices) {
			return true
		}
		t.path = t.path[:len(t.path)-1]
	}
	return false
}
