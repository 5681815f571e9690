package kerschbaum

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// What is checked of an index whose units are divided, after every commit:
//
//	D1  the parts of the shards lie side by side and cover the domain; between two of them is at most what is frozen
//	D2  in all shards together, the order of labels is the order of values, and no value is there twice
//	D3  no value vanishes, acknowledged or not
//	D4  within a generation of a shard no element of its part moves or vanishes
//	D5  the generation of a value rises when its label changes, and never falls
//	D6  what is put between two elements of a generation is where the rules put it
type dividedChecker struct {
	shards map[uint32]*shardState
	where  map[int64]spot // of each value
}

// A shardState is what a shard holds.
type shardState struct {
	meta     ope.Meta
	part     unit.Part
	elements []order.Element // of its part
	frozen   []order.Element
}

// shardOf returns the number of the shard that a unit is of, and its epoch.
func shardOf(u ope.Unit) (number uint32, epoch uint64) {
	parts := strings.Split(string(u), "/")
	if _, err := fmt.Sscanf(parts[len(parts)-2]+" "+parts[len(parts)-1], "%x %x", &number, &epoch); err != nil {
		panic(err)
	}
	return number, epoch
}

// committedDivided is called after every commit that changed a unit.
func (w *world) committedDivided(name ope.Unit) {
	number, epoch := shardOf(name)
	if epoch == unit.Root {
		return
	}
	view, err := w.index.Read(context.Background(), name, nil, nil, 0)
	if err != nil {
		panic(err)
	}
	before := w.shards[number]
	now, err := w.decodeShard(number, view)
	if err != nil {
		w.Fail("a record cannot be read: %v", err)
		return
	}
	w.shards[number] = now
	if before != nil {
		w.checkShard(before, now)
	}
	w.checkContents()
}

func (w *world) decodeShard(number uint32, view ope.View) (*shardState, error) {
	s := w.observer.shards.get(number, 1)
	u := s.unit(1)
	now := &shardState{meta: view.Meta, part: unit.Whole(s.domain)}
	for _, r := range view.Records {
		if slices.Equal(r.Key, unit.PartKey) {
			var err error
			if now.part, err = u.OpenPart(r); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range view.Records {
		at, ok := order.ParseLabel(r.Key)
		if !ok || at.IsZero() {
			continue
		}
		e, err := u.OpenElement(r)
		if err != nil {
			return nil, err
		}
		if at.Less(now.part.Low.Label) {
			now.frozen = append(now.frozen, e)
		} else {
			now.elements = append(now.elements, e)
		}
		if !now.part.Top && !at.Less(now.part.High.Label) {
			w.breach("D1: an element beyond the part of its shard")
		}
	}
	if len(now.frozen) != int(now.part.N) {
		w.breach("D1: %d frozen elements, and %d are said to be", len(now.frozen), now.part.N)
	}
	return now, nil
}

// checkShard checks how a shard has changed.
func (w *world) checkShard(before, now *shardState) {
	if now.meta.Generation < before.meta.Generation || now.meta.State < before.meta.State {
		w.breach("the generation or the state of a shard falls")
	}
	if now.meta.Generation != before.meta.Generation {
		w.Count("relabellings")
		if now.part.N > 0 {
			w.Count("freezes of values")
		}
		return
	}
	is := make(map[order.Label]order.Element)
	for _, e := range now.elements {
		is[e.Label] = e
	}
	for _, e := range before.elements {
		if is[e.Label] != e {
			w.breach("D4: an element moved, changed or vanished within a generation")
		}
		delete(is, e.Label)
	}
	if now.part.Low != before.part.Low || now.part.High != before.part.High {
		w.breach("D4: the part of a shard changed within a generation")
	}
	fresh := slices.SortedFunc(maps.Values(is), func(a, b order.Element) int { return a.Label.Compare(b.Label) })
	w.checkCanonical(now.part.Rules(w.setting.rules()), before.elements, fresh)
}

// contents returns what all shards have, from the lowest value on, and whether their parts fit together.
func (w *world) contents(each func(s *shardState, elements []order.Element)) {
	var chain []*shardState
	for number := uint32(0); ; {
		s := w.shards[number]
		if s == nil || s.meta.State == ope.StateAbsent {
			if number != 0 {
				w.breach("D1: a shard is missing that another names")
			}
			break
		}
		chain = append(chain, s)
		if number = s.part.Left; number == 0 {
			break
		}
	}
	slices.Reverse(chain)
	for i, s := range chain {
		if i == 0 && s.part.Low != (order.Element{Value: simDomain.Min}) {
			w.breach("D1: nobody has the lowest values")
		}
		if i > 0 {
			switch left := chain[i-1].part; {
			case unit.SameEdge(left.High, s.part.Low):
			case s.part.N > 0 && unit.SameEdge(left.High, s.part.Given):
				each(s, s.frozen)
			default:
				w.breach("D1: the parts of two shards do not fit together")
			}
		}
		each(s, s.elements)
	}
}

// checkContents checks all shards together.
func (w *world) checkContents() {
	now := make(map[int64]spot)
	var last order.Element
	var all []order.Element
	w.contents(func(s *shardState, elements []order.Element) {
		all = append(all, elements...)
		for _, e := range elements {
			generation := s.meta.Generation
			if !s.part.Covers(e.Value) {
				generation = s.part.Since
			}
			if _, twice := now[e.Value]; twice || last.Shape.Depth > 0 && (e.Value <= last.Value || !last.Label.Less(e.Label)) {
				w.breach("D2: %d at %x is not above %d at %x", e.Value, e.Label.Bytes(), last.Value, last.Label.Bytes())
			}
			if !s.part.Covers(e.Value) && s.part.Low.Value <= e.Value {
				w.breach("D2: a value beyond the part of its shard")
			}
			last = e
			now[e.Value] = spot{label: e.Label, version: ope.Version{Epoch: 1, Generation: generation}}
		}
	})
	w.checkRanks(all)
	for x, was := range w.where {
		is, there := now[x]
		switch {
		case !there && w.acked[x]:
			w.Fail("D3: an acknowledged value is lost")
		case !there:
			w.breach("D3: a value is lost")
		case is.version.Compare(was.version) < 0, is.label != was.label && is.version == was.version:
			w.breach("D5: a value moves, and its version does not rise")
		}
	}
	for x, is := range now {
		if w.places[is.version] == nil {
			w.places[is.version] = make(map[int64]order.Label)
		}
		if at, ok := w.places[is.version][x]; ok && at != is.label {
			w.breach("D5: a value has two places in a version")
		}
		w.places[is.version][x] = is.label
		w.been[seat{1, is.label, x}] = true
	}
	w.where = now
}
