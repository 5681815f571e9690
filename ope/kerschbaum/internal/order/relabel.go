package order

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// A Relabelling makes room in an exhausted gap: the elements from to to (excluded) of the window
// that it was computed for, and the new one among them, get the places of elements.
type Relabelling struct {
	From, To int
	Elements []Element // ascending, to-from+1 of them; that at gap-from is the new one, without its value
}

// Advice is what the caller of Relabel does next.
type advice int

const (
	AdviseCommit advice = iota // commit the relabelling
	AdviseLower                // read on below the window, and ask again
	AdviseUpper                // read on above the window, and ask again
	AdvisePass                 // rewrite the whole index, the new value included: no window of at most the given size makes room
)

// Relabel makes room between window[gap-1] and window[gap], of which [Rules.Place] said that there is
// none. The window is a run of neighbours of the index; the ends of the index are in it when it
// reaches them, and do not move. At most most elements are moved; 0 is no limit. The answer is a
// function of labels and shapes alone, as that of Place, and does not depend on how much more than
// needed is in the window. The elements keep their shapes: the tree of insertions, from which the
// next places are computed, stays what it is.
//
// The published rules move everything and give all shapes again: they want the whole index, both ends
// included.
func (r Rules) Relabel(window []Element, gap int, most int) (Relabelling, advice, error) {
	for i := 1; i < len(window); i++ {
		if !window[i-1].Label.Less(window[i].Label) {
			return Relabelling{}, 0, fmt.Errorf("%w: labels out of order", ErrCorrupt)
		}
	}
	shape, err := r.Between(window[gap-1], window[gap])
	if err != nil {
		return Relabelling{}, 0, err
	}
	if r.Published {
		return r.relabelAll(window, gap, most)
	}
	if shape.Depth == math.MaxUint32 {
		return Relabelling{}, AdvisePass, nil
	}
	best, advice := r.choose(window, gap, most)
	if advice != AdviseCommit {
		return Relabelling{}, advice, nil
	}
	return r.pack(window, gap, best, shape), AdviseCommit, nil
}

// A stretch of a window is what is between the indices a and b, both excluded.
type stretch struct{ a, b int }

func (s stretch) moved() int { return s.b - s.a - 1 }

// step returns the distance that the moved elements of a stretch get to each other, and whether it
// is enough. All together they take 1/256 of the stretch (at 128 bits): the gap that was exhausted
// is the one where more is to be expected, and keeps the rest. At least 64 labels must be between
// them, so that a value that does come there does not at once exhaust the next gap.
func (r Rules) step(window []Element, s stretch) (Label, bool) {
	span := window[s.b].Label.Minus(window[s.a].Label)
	step, _ := span.shift(r.Bits / 16).Over(uint64(s.moved()) + 1)
	return step, step.Length() > max(1, r.Bits/20)
}

// choose returns the stretch to move: the cheapest, in elements moved for each bit that the gap
// gains, of those that growing from the gap towards the larger adjacent gap comes by.
//
// This has no bound like that of Bender et al. (ESA 2002, "tag-range relabelling"), which was measured beside it.
// The figures are for 10^6 values and 128 bits. For ascending runs from random places it moves a fifteenth as
// many, and a hundredth in the largest change. For a random path to one place, the worst case, it moves 3.3
// instead of 7.8 an insertion.
func (r Rules) choose(window []Element, gap, most int) (stretch, advice) {
	high := r.High()
	s := stretch{gap - 1, gap}
	var best stretch
	cost, gained := uint64(0), uint64(0) // of best; it gained nothing: there is none
	for {
		// Bit lengths are all the precision that the comparison needs. What is gained is less
		// than the length: an exhausted gap has 1 bit, and the new element halves what it gets.
		moved, length := uint64(s.moved()), uint64(window[s.b].Label.Minus(window[s.a].Label).Length())
		if moved > 0 && length > 3 {
			gain := length - 3
			if _, ok := r.step(window, s); ok && (gained == 0 || moved*gained < cost*gain) {
				best, cost, gained = s, moved, gain
			}
		}
		lowest, highest := window[s.a].Label == r.From, window[s.b].Label == high.Label
		switch {
		case lowest && highest, most > 0 && s.moved() >= most,
			gained > 0 && moved*gained > cost*uint64(r.Bits): // no gain makes up for so many
			if gained == 0 {
				return best, AdvisePass
			}
			return best, AdviseCommit
		case !lowest && s.a == 0:
			return best, AdviseLower
		case !highest && s.b == len(window)-1:
			return best, AdviseUpper
		case highest, !lowest && window[s.b+1].Label.Minus(window[s.b].Label).Less(window[s.a].Label.Minus(window[s.a-1].Label)):
			s.a--
		default:
			s.b++
		}
	}
}

// pack moves the elements of a stretch to its two edges and puts one of the given shape into the
// gap between, where Place would put it.
func (r Rules) pack(window []Element, gap int, s stretch, shape Shape) Relabelling {
	step, _ := r.step(window, s)
	lower, upper := window[s.a].Label, window[s.b].Label
	out := make([]Element, s.moved()+1)
	for i := s.a + 1; i < gap; i++ {
		lower = lower.Plus(step)
		out[i-s.a-1] = window[i]
		out[i-s.a-1].Label = lower
	}
	for i := s.b - 1; i >= gap; i-- {
		upper = upper.Minus(step)
		out[i-s.a] = window[i]
		out[i-s.a].Label = upper
	}
	at := lower.Plus(r.offset(upper.Minus(lower), shape))
	out[gap-s.a-1] = Element{Label: at, Shape: shape, Rank: r.rank(window[gap-1], window[gap], shape)}
	return Relabelling{s.a + 1, s.b, out}
}

// relabelAll is the published procedure.
func (r Rules) relabelAll(window []Element, gap, most int) (Relabelling, advice, error) {
	high := r.High()
	last := len(window) - 1
	switch {
	case most > 0 && last-1 > most:
		return Relabelling{}, AdvisePass, nil
	case window[0].Label != r.From:
		return Relabelling{}, AdviseLower, nil
	case window[last].Label != high.Label:
		return Relabelling{}, AdviseUpper, nil
	}
	values := make([]int64, 0, last)
	for _, e := range window[1:last] {
		values = append(values, e.Value)
	}
	out, err := r.Spread(values)
	if err != nil {
		return Relabelling{}, 0, err
	}
	all := slices.Concat([]Element{r.Low()}, out, []Element{high})
	e, ok, err := r.Place(all[gap-1], all[gap])
	if err == nil && !ok {
		err = fmt.Errorf("%w: labels of %d bits have no room for %d values", ErrFull, r.Bits, last)
	}
	if err != nil {
		return Relabelling{}, 0, err
	}
	return Relabelling{1, last, slices.Insert(out, gap-1, e)}, AdviseCommit, nil
}

// Deepen makes those of a run that may be changed deeper, until each differs in depth from its neighbours. The first
// and the last are not changed.
func Deepen(run []Element, may []bool) {
	for i := 1; i < len(run)-1; i++ {
		for may[i] && (run[i].Shape.Depth == run[i-1].Shape.Depth ||
			run[i].Shape.Depth == run[i+1].Shape.Depth && (!may[i+1] || i == len(run)-2)) {
			run[i].Shape.Depth = Increment(run[i].Shape.Depth)
		}
	}
}

// Distinguished returns the inner elements of a window after some have moved. Of two neighbours one must be the
// deeper: where one that has moved is as deep as what it came beside, it is taken to be deeper than that.
func Distinguished(before, after []Element) []Element {
	moved := make([]bool, len(after))
	for i := range after {
		moved[i] = after[i] != before[i]
	}
	Deepen(after, moved)
	return after[1 : len(after)-1]
}

// Joined returns elements as they go to a unit with a high edge, and the next edge. The first is what the edge was taken
// for when others were put below it. Where others, or the next edge, are as deep as what they come beside, they are taken
// to be deeper.
func Joined(edge Element, elements []Element, next Element) ([]Element, Element) {
	run := append(slices.Clone(elements), next, Element{})
	may := make([]bool, len(run))
	if edge.Shape.Depth > 0 && run[0].Shape != edge.Shape {
		run[0].Shape = edge.Shape
		for i := range may {
			may[i] = i > 0
		}
	}
	Deepen(run, may)
	return run[:len(elements)], run[len(elements)]
}

// Seek returns the index of the first element of a run that is above x, where x belongs before it, or -1 if x is there.
func Seek(run []Element, x int64) int {
	i := sort.Search(len(run), func(i int) bool {
		e := run[i]
		return e.Shape.Depth != 0 && e.Value >= x || i > 0 && e.Shape.Depth == 0
	})
	if i < len(run) && run[i].Shape.Depth != 0 && run[i].Value == x {
		return -1
	}
	return i
}

// Firsts returns the places that are taken first in the gaps of a run, or in some of them, as far as these have room.
func (r Rules) Firsts(run []Element, of func(i int) bool) ([][]byte, error) {
	firsts := make([][]byte, 0, len(run))
	for i := range run[1:] {
		e, ok, err := r.Place(run[i], run[i+1])
		if err != nil {
			return nil, err
		}
		if ok && (of == nil || of(i)) {
			firsts = append(firsts, e.Label.Bytes())
		}
	}
	return firsts, nil
}
