package kerschbaum

import (
	"fmt"
	"slices"
)

// A tree enumerates the schedules of a tiny case: every order of the calls, and every place and kind of
// a crash or an unknown outcome as far as there may be some. Orders that differ only by swapping
// neighbouring calls that do not see each other are one order (sleep sets, Godefroid 1996).
type tree struct {
	faults int // how many faults a schedule may have
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
	p      *call // of the present schedule
	late   int
	client int
	fate   fate
	unit   string
	writes bool
}

// commute reports whether the two choices give the same in either order.
func (a choice) commute(b choice) bool {
	if a.client == b.client || a.fate != done && b.fate != done {
		return false
	}
	if !a.writes && !b.writes {
		return true
	}
	return a.writes != b.writes && a.unit != b.unit
}

func (c choice) in(list []choice) bool {
	return slices.ContainsFunc(list, func(other choice) bool { return other.name == c.name })
}

func (t *tree) choices(w *world) (out []choice) {
	for _, p := range w.waiting {
		if p.kind == begins {
			return []choice{{name: "begin", p: p, client: p.client.id}}
		}
	}
	add := func(p *call, f fate) {
		out = append(out, choice{
			name: fmt.Sprintf("%d %s%v", p.client.id, p.what, f), p: p, client: p.client.id, fate: f, unit: string(p.unit),
			writes: p.kind == commits && f != unknownLost && f != unknownLate && f != diesBefore && f != diesLate,
		})
	}
	for _, p := range w.waiting {
		add(p, done)
		if t.left == 0 {
			continue
		}
		add(p, diesBefore)
		if p.kind == commits {
			for _, f := range []fate{unknownLost, unknownDone, unknownLate, diesAfter, diesLate} {
				add(p, f)
			}
		}
	}
	for i, p := range w.late {
		out = append(out, choice{name: fmt.Sprintf("%d late %s", p.client.id, p.what), late: i, client: -1, unit: string(p.unit), writes: true})
	}
	return out
}

// next implements chooser.
func (t *tree) next(w *world) (*call, fate, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	choices := t.choices(w)
	if t.depth == len(t.path) {
		f := &fork{choices: choices}
		if t.depth > 0 {
			up := t.path[t.depth-1]
			for _, other := range append(slices.Clone(up.asleep), up.choices[:up.at]...) {
				if other.commute(up.choices[up.at]) {
					f.asleep = append(f.asleep, other)
				}
			}
		}
		if f.skip(); f.at == len(choices) {
			t.pruned = true // all that can follow has been seen
			return nil, done, -1
		}
		t.path = append(t.path, f)
	}
	f := t.path[t.depth]
	if len(choices) != len(f.choices) || choices[f.at].name != f.choices[f.at].name {
		panic("the schedules of a tiny case are not repeatable")
	}
	t.depth++
	chosen := choices[f.at]
	if chosen.fate != done {
		t.left--
	}
	return chosen.p, chosen.fate, chosen.late
}

func (f *fork) skip() {
	for f.at < len(f.choices) && f.choices[f.at].in(f.asleep) {
		f.at++
	}
}

// begin starts the next schedule.
func (t *tree) begin() { t.depth, t.left, t.pruned = 0, t.faults, false }

// advance goes on to the next schedule. It reports false if there is none.
func (t *tree) advance() bool {
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
