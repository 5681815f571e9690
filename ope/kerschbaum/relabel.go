package kerschbaum

import (
	"fmt"
	"math"
	"slices"
)

// A relabelling makes room in an exhausted gap: the elements from to to (excluded) of the window
// that it was computed for, and the new one among them, get the places of elements.
type relabelling struct {
	from, to int
	elements []element // ascending, to-from+1 of them; that at gap-from is the new one, without its value
}

// advice is what the caller of relabel does next.
type advice int

const (
	adviseCommit advice = iota // commit the relabelling
	adviseLower                // read on below the window, and ask again
	adviseUpper                // read on above the window, and ask again
	advisePass                 // rewrite the whole index, the new value included: no window of at most the given size makes room
)

// relabel makes room between window[gap-1] and window[gap], of which place said that there is
// none. The window is a run of neighbours of the index; the ends of the index are in it when it
// reaches them, and do not move. At most most elements are moved; 0 is no limit. The answer is a
// function of labels and shapes alone, as that of place, and does not depend on how much more than
// needed is in the window. The elements keep their shapes: the tree of insertions, from which the
// next places are computed, stays what it is.
//
// The published rules move everything and give all shapes again: they want the whole index, both ends
// included.
func (r rules) relabel(window []element, gap int, most int) (relabelling, advice, error) {
	for i := 1; i < len(window); i++ {
		if !window[i-1].label.less(window[i].label) {
			return relabelling{}, 0, fmt.Errorf("%w: labels out of order", errCorrupt)
		}
	}
	shape, err := r.between(window[gap-1], window[gap])
	if err != nil {
		return relabelling{}, 0, err
	}
	if r.published {
		return r.relabelAll(window, gap, most)
	}
	if shape.depth == math.MaxUint32 {
		return relabelling{}, advisePass, nil
	}
	best, advice := r.choose(window, gap, most)
	if advice != adviseCommit {
		return relabelling{}, advice, nil
	}
	return r.pack(window, gap, best, shape), adviseCommit, nil
}

// A stretch of a window is what is between the indices a and b, both excluded.
type stretch struct{ a, b int }

func (s stretch) moved() int { return s.b - s.a - 1 }

// step returns the distance that the moved elements of a stretch get to each other, and whether it
// is enough. All together they take 1/256 of the stretch (at 128 bits): the gap that was exhausted
// is the one where more is to be expected, and keeps the rest. At least 64 labels must be between
// them, so that a value that does come there does not at once exhaust the next gap.
func (r rules) step(window []element, s stretch) (label, bool) {
	span := window[s.b].label.minus(window[s.a].label)
	step, _ := span.shift(r.bits / 16).over(uint64(s.moved()) + 1)
	return step, step.length() > max(1, r.bits/20)
}

// choose returns the stretch to move: the cheapest, in elements moved for each bit that the gap
// gains, of those that growing from the gap towards the larger adjacent gap comes by.
//
// This has no bound like that of Bender et al. (ESA 2002, "tag-range relabelling"), which was measured beside it.
// The figures are for 10^6 values and 128 bits. For ascending runs from random places it moves a fifteenth as
// many, and a hundredth in the largest change. For a random path to one place, the worst case, it moves 3.3
// instead of 7.8 an insertion.
func (r rules) choose(window []element, gap, most int) (stretch, advice) {
	high := r.high()
	s := stretch{gap - 1, gap}
	var best stretch
	cost, gained := uint64(0), uint64(0) // of best; it gained nothing: there is none
	for {
		// Bit lengths are all the precision that the comparison needs. What is gained is less
		// than the length: an exhausted gap has 1 bit, and the new element halves what it gets.
		moved, length := uint64(s.moved()), uint64(window[s.b].label.minus(window[s.a].label).length())
		if moved > 0 && length > 3 {
			gain := length - 3
			if _, ok := r.step(window, s); ok && (gained == 0 || moved*gained < cost*gain) {
				best, cost, gained = s, moved, gain
			}
		}
		lowest, highest := window[s.a].label.isZero(), window[s.b].label == high.label
		switch {
		case lowest && highest, most > 0 && s.moved() >= most,
			gained > 0 && moved*gained > cost*uint64(r.bits): // no gain makes up for so many
			if gained == 0 {
				return best, advisePass
			}
			return best, adviseCommit
		case !lowest && s.a == 0:
			return best, adviseLower
		case !highest && s.b == len(window)-1:
			return best, adviseUpper
		case highest, !lowest && window[s.b+1].label.minus(window[s.b].label).less(window[s.a].label.minus(window[s.a-1].label)):
			s.a--
		default:
			s.b++
		}
	}
}

// pack moves the elements of a stretch to its two edges and puts one of the given shape into the
// gap between, where place would put it.
func (r rules) pack(window []element, gap int, s stretch, shape shape) relabelling {
	step, _ := r.step(window, s)
	lower, upper := window[s.a].label, window[s.b].label
	out := make([]element, s.moved()+1)
	for i := s.a + 1; i < gap; i++ {
		lower = lower.plus(step)
		out[i-s.a-1] = window[i]
		out[i-s.a-1].label = lower
	}
	for i := s.b - 1; i >= gap; i-- {
		upper = upper.minus(step)
		out[i-s.a] = window[i]
		out[i-s.a].label = upper
	}
	out[gap-s.a-1] = element{label: lower.plus(r.offset(upper.minus(lower), shape)), shape: shape}
	return relabelling{s.a + 1, s.b, out}
}

// relabelAll is the published procedure.
func (r rules) relabelAll(window []element, gap, most int) (relabelling, advice, error) {
	high := r.high()
	last := len(window) - 1
	switch {
	case most > 0 && last-1 > most:
		return relabelling{}, advisePass, nil
	case !window[0].label.isZero():
		return relabelling{}, adviseLower, nil
	case window[last].label != high.label:
		return relabelling{}, adviseUpper, nil
	}
	values := make([]int64, 0, last)
	for _, e := range window[1:last] {
		values = append(values, e.value)
	}
	out, err := r.spread(values)
	if err != nil {
		return relabelling{}, 0, err
	}
	all := slices.Concat([]element{{}}, out, []element{high})
	e, ok, err := r.place(all[gap-1], all[gap])
	if err == nil && !ok {
		err = fmt.Errorf("%w: labels of %d bits have no room for %d values", errFull, r.bits, last)
	}
	if err != nil {
		return relabelling{}, 0, err
	}
	return relabelling{1, last, slices.Insert(out, gap-1, e)}, adviseCommit, nil
}
