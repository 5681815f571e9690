package kerschbaum

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// A checker looks at the raw index after every step and knows all that clients were told.
//
// The invariants of the protocol:
//
//	I1  in a unit the order of labels is the order of values
//	I2  a value is at most once in a unit
//	I3  within a generation no record moves, changes or vanishes, unless the unit is retired
//	I4  what is in a gap of a generation includes the place that the rules give for that gap
//	I5  nothing is inserted into a unit that is not open
//	I6  a unit opens with what its sealed predecessor holds, and is not changed before that retires
//	I7  an acknowledged value is in the lowest unit that is open or sealed
//	R1  the order of ranks is the order of values, also where several share one
//	R2  the rank of a value never changes, whatever moves
//	I8  nobody writes a copied record into a unit that is open
type checker struct {
	key      ope.Key
	observer *Scheme                               // whose calls are no steps
	units    map[uint64]*unitState                 // by epoch
	places   map[ope.Version]map[int64]order.Label // every place that a value ever had
	been     map[seat]bool                         // the same
	ranks    map[int64]order.Rank                  // of each value that was ever there
	tried    map[int64]bool                        // values whose encryption has begun
	acked    map[int64]bool                        // values whose encryption has ended
	handed   map[string]int64                      // ciphertexts that clients got, and of which value
	clock    int64                                 // the highest value of those that grow
	dividedChecker
}

// A seat is that a value is at a label in an epoch.
type seat struct {
	epoch uint64
	label order.Label
	value int64
}

// A unitState is what a unit holds.
type unitState struct {
	meta     ope.Meta
	elements []order.Element        // ascending by label
	raw      map[order.Label]string // sealed values, the header's among them
	opened   map[order.Label]order.Element
}

func (w *world) initChecker() {
	w.checker = checker{
		units:  make(map[uint64]*unitState),
		places: make(map[ope.Version]map[int64]order.Label),
		been:   make(map[seat]bool),
		ranks:  make(map[int64]order.Rank),
		tried:  make(map[int64]bool),
		acked:  make(map[int64]bool),
		handed: make(map[string]int64),

		dividedChecker: dividedChecker{shards: make(map[uint32]*shardState)},
	}
	w.key, _ = ope.NewKey(bytes.Repeat([]byte{1}, ope.KeySize))
	w.observer = w.newScheme(w.index)
}

// committed is called after every commit that reached the index.
func (w *world) committed(unit ope.Unit, applied bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.breach("the index refuses a commit: %v", err)
	}
	if !applied {
		w.Count("refused commits")
		return
	}
	w.Count("commits")
	if w.setting.full > 0 {
		w.committedDivided(unit)
		return
	}
	view, err := w.index.Read(context.Background(), unit, nil, nil, 0)
	if err != nil {
		panic(err)
	}
	epoch, ok := w.epochOf(unit)
	if !ok {
		return // no unit of values
	}
	before := w.units[epoch]
	if before == nil {
		before = new(unitState)
	}
	now, err := w.decode(epoch, before, view)
	if err != nil {
		w.Fail("a record cannot be read: %v", err)
		return
	}
	w.units[epoch] = now
	w.checkUnit(now)
	w.checkChange(epoch, before, now)
	w.checkAcknowledged()
	w.remember(epoch, now)
}

// breach is a violation that has not harmed anybody yet.
func (w *world) breach(format string, args ...any) {
	if !w.setting.harmOnly {
		w.Fail(format, args...)
	}
}

func (w *world) checkUnit(u *unitState) {
	seen := make(map[int64]bool)
	for i, e := range u.elements {
		if i > 0 && u.elements[i-1].Value >= e.Value {
			w.breach("I1: order: %d at %x, %d at %x", u.elements[i-1].Value, u.elements[i-1].Label.Bytes()[8:], e.Value, e.Label.Bytes()[8:])
		}
		if seen[e.Value] {
			w.breach("I2: a value twice")
		}
		seen[e.Value] = true
	}
	w.checkRanks(u.elements)
}

// checkRanks checks that ranks rise with the values of an index, and that none changes.
func (w *world) checkRanks(elements []order.Element) {
	for i, e := range elements {
		if i > 0 && elements[i-1].Value < e.Value && !elements[i-1].Rises(e) {
			w.Fail("R1: the rank of %d is not above that of %d", e.Value, elements[i-1].Value)
		}
		if was, ok := w.ranks[e.Value]; ok && was != e.Rank {
			w.Fail("R2: a value has another rank than before")
		}
		w.ranks[e.Value] = e.Rank
	}
}

func (w *world) checkChange(epoch uint64, before, now *unitState) {
	if now.meta.Generation < before.meta.Generation {
		w.breach("the generation falls")
	}
	var fresh []order.Element
	for _, e := range now.elements {
		if _, was := before.raw[e.Label]; !was {
			fresh = append(fresh, e)
		}
	}
	was, is := before.meta.State, now.meta.State
	same := before.meta.Generation == now.meta.Generation || was == ope.StateAbsent
	if same && is != ope.StateRetired {
		for l, raw := range before.raw {
			if now.raw[l] != raw {
				w.breach("I3: a record moved, changed or vanished within a generation")
			}
		}
	}
	if !same {
		w.Count("relabellings")
		if was != ope.StateOpen || is != ope.StateOpen {
			w.breach("I5: a relabelling of a unit that is not open")
		}
	}
	if !same && epoch > 1 || len(fresh) > 0 {
		if predecessor := w.units[epoch-1]; is == ope.StateOpen && was == ope.StateOpen && predecessor != nil && predecessor.meta.State == ope.StateSealed {
			w.breach("I6: a unit is changed while its predecessor is not retired")
		}
	}
	if was >= ope.StateSealed && len(fresh) > 0 {
		w.breach("I5: an insertion into a unit that is sealed or retired")
	}
	if was == ope.StateAbsent && is == ope.StateAbsent && epoch > 1 {
		if predecessor := w.units[epoch-1]; predecessor == nil || predecessor.meta.State != ope.StateSealed {
			w.breach("I6: a copy of a unit that is not sealed")
		}
	}
	if was == ope.StateAbsent && is == ope.StateOpen && epoch > 1 {
		w.Count("passes")
		predecessor := w.units[epoch-1]
		if predecessor == nil || predecessor.meta.State != ope.StateSealed || !slices.Equal(valuesOf(predecessor), valuesOf(now)) {
			w.breach("I6: a unit opens that is not the copy of its sealed predecessor")
		}
	}
	if was == ope.StateOpen {
		had := make(map[int64]bool)
		for _, e := range before.elements {
			had[e.Value] = true
		}
		if same {
			for _, e := range fresh {
				if had[e.Value] {
					w.breach("I8: a value that was there is written again into an open unit")
				}
			}
		} else {
			is := make(map[int64]bool)
			for _, e := range now.elements {
				is[e.Value] = true
			}
			for x := range had {
				if !is[x] {
					w.breach("I7: a relabelling loses a value")
				}
			}
		}
		if same && is == ope.StateOpen {
			w.checkCanonical(w.setting.rules(), before.elements, fresh)
		}
	}
}

// checkCanonical checks that the new elements are where insertions one after the other would have
// put them.
func (w *world) checkCanonical(rules order.Rules, before, fresh []order.Element) {
	low, high := rules.Low(), rules.High()
	var within func(left, right order.Element, fresh []order.Element) bool
	within = func(left, right order.Element, fresh []order.Element) bool {
		if len(fresh) == 0 {
			return true
		}
		first, ok, err := rules.Place(left, right)
		if err != nil || !ok {
			return false
		}
		i, found := slices.BinarySearchFunc(fresh, first.Label, func(e order.Element, l order.Label) int { return e.Label.Compare(l) })
		return found && fresh[i].Shape == first.Shape && fresh[i].Rank == first.Rank && within(left, fresh[i], fresh[:i]) && within(fresh[i], right, fresh[i+1:])
	}
	left := low
	for _, right := range append(slices.Clone(before), high) {
		n := 0
		for n < len(fresh) && fresh[n].Label.Less(right.Label) {
			n++
		}
		if !within(left, right, fresh[:n]) {
			w.breach("I4: a value is not at the place of its gap")
		}
		fresh, left = fresh[n:], right
	}
}

func valuesOf(u *unitState) []int64 {
	out := make([]int64, len(u.elements))
	for i, e := range u.elements {
		out[i] = e.Value
	}
	return out
}

// current returns the unit that counts: the lowest one that is open or sealed.
func (w *world) current() (epoch uint64, u *unitState) {
	if w.setting.full > 0 {
		u = new(unitState)
		w.contents(func(_ *shardState, elements []order.Element) { u.elements = append(u.elements, elements...) })
		return 1, u
	}
	for _, epoch := range slices.Sorted(maps.Keys(w.units)) {
		if s := w.units[epoch].meta.State; s == ope.StateOpen || s == ope.StateSealed {
			return epoch, w.units[epoch]
		}
	}
	return 0, new(unitState)
}

// version returns the version of the unit that counts.
func (w *world) version() ope.Version {
	epoch, u := w.current()
	return ope.Version{Epoch: epoch, Generation: u.meta.Generation}
}

func (w *world) checkAcknowledged() {
	if w.setting.full > 0 {
		for x := range w.acked {
			if _, there := w.where[x]; !there {
				w.Fail("D3: an acknowledged value is lost")
			}
		}
		return
	}
	_, u := w.current()
	have := make(map[int64]bool, len(u.elements))
	for _, e := range u.elements {
		have[e.Value] = true
	}
	for x := range w.acked {
		if !have[x] {
			w.Fail("I7: an acknowledged value is lost")
			return
		}
	}
}

// remember keeps where each value is.
func (w *world) remember(epoch uint64, u *unitState) {
	if u.meta.State == ope.StateAbsent || u.meta.State == ope.StateRetired {
		return
	}
	v := ope.Version{Epoch: epoch, Generation: u.meta.Generation}
	if w.places[v] == nil {
		w.places[v] = make(map[int64]order.Label)
	}
	for _, e := range u.elements {
		w.places[v][e.Value] = e.Label
		w.been[seat{epoch, e.Label, e.Value}] = true
	}
}

// seatOf returns what a ciphertext stands for, and whether that ever was true.
func (w *world) seatOf(c ope.Ciphertext) (seat, bool) {
	epoch, x, l, ok := w.observer.ciphers.Parse(c)
	s := seat{epoch, l, x}
	return s, ok && w.been[s]
}

// receive takes note of a ciphertext that a client got for a value.
func (w *world) receive(value int64, c ope.Ciphertext) seat {
	s, ok := w.seatOf(c)
	if !ok || s.value != value {
		w.Fail("a ciphertext was handed out that never was the value's")
	}
	w.handed[string(c)] = value
	return s
}

// What the checker knows of the protocol's formats:

var simDomain = ope.Int16

// newScheme returns the scheme of a client that has never seen the index.
func (w *world) newScheme(index ope.Index) *Scheme {
	s, err := New(w.key, simDomain, index, &Options{Name: "simulated"})
	if err != nil {
		panic(err)
	}
	s.rules = w.setting.rules()
	s.codec.Rules.RankBits = s.rules.RankBits
	s.page, s.chunk, s.probes, s.window = w.setting.page, w.setting.chunk, w.setting.probes, w.setting.most
	s.passPage, s.ahead, s.kept = w.setting.page, w.setting.page, 4
	s.batch, s.cache = w.setting.chunk, w.setting.cache
	if s.cache > 0 {
		s.listSize = 4
	}
	if w.setting.full > 0 {
		s.full = w.setting.full
	}
	s.shards = newShards(s)
	return s
}

// epochOf returns the epoch that a unit is, unless it is the root.
func (w *world) epochOf(u ope.Unit) (epoch uint64, ok bool) {
	_, rest, _ := strings.Cut(string(u), "/000000/")
	if _, err := fmt.Sscanf(rest, "%x", &epoch); err != nil {
		panic(err)
	}
	return epoch, epoch != unit.Root
}

// decode opens the elements of a unit.
func (w *world) decode(epoch uint64, before *unitState, v ope.View) (*unitState, error) {
	u := first(w.observer).unit(epoch)
	now := &unitState{meta: v.Meta, raw: make(map[order.Label]string)}
	for _, r := range v.Records {
		l, ok := order.ParseLabel(r.Key)
		if !ok {
			continue // of the log
		}
		now.raw[l] = string(r.Value)
		if l.IsZero() {
			continue // the header
		}
		e, known := before.opened[l]
		if !known || before.raw[l] != now.raw[l] {
			var err error
			if e, err = u.OpenElement(r); err != nil {
				return nil, err
			}
		}
		now.elements = append(now.elements, e)
	}
	now.opened = make(map[order.Label]order.Element)
	for _, e := range now.elements {
		now.opened[e.Label] = e
	}
	return now, nil
}

func intervalHolds(iv ope.Interval, l order.Label) bool {
	c := unit.Bound(l)
	return bytes.Compare(iv.Start, c) <= 0 && bytes.Compare(c, iv.End) < 0
}
