// Package order says where the values of an index go: labels, the rules that give them, and what a client knows of
// the labels that are given. It reads and writes nothing.
package order

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/rangecrypt/rangecrypt/ope"
)

// ErrCorrupt is what neighbours that no sequence of insertions can have produced are. It is
// returned wrapped.
var ErrCorrupt = errors.New("corrupt index")

// ErrHole is that values, which only one of two neighbours can have, have no place in either.
var ErrHole = fmt.Errorf("%w: nobody has the values between its own and those of its neighbour", ErrCorrupt)

// LabelSize is the length of a label in bytes.
const LabelSize = 16

// A Label is the place of a value among the others: an unsigned number of 128 bits. The lowest and the highest label of
// the rules are the ends of the index, or of a part of it, and never given to a value.
type Label struct{ Hi, Lo uint64 }

// ParseLabel returns the label that b, big-endian, is the bytes of. It reports false unless b has
// 16 bytes.
func ParseLabel(b []byte) (Label, bool) {
	if len(b) != LabelSize {
		return Label{}, false
	}
	return Label{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// Append appends the 16 bytes of the label, big-endian, so that bytewise order is the order of
// labels.
func (a Label) Append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, a.Hi), a.Lo)
}

// Bytes returns the 16 bytes of the label, as Append does.
func (a Label) Bytes() []byte { return a.Append(make([]byte, 0, LabelSize)) }

// IsZero reports whether a is label 0.
func (a Label) IsZero() bool { return a == Label{} }

// Less reports whether a is below b.
func (a Label) Less(b Label) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// Compare returns -1, 0 or +1: whether a is below, at or above b.
func (a Label) Compare(b Label) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
}

// Plus returns a+b, without what is above 128 bits.
func (a Label) Plus(b Label) Label {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(a.Hi, b.Hi, carry)
	return Label{hi, lo}
}

// Next returns the label above a.
func (a Label) Next() Label { return a.Plus(Label{0, 1}) }

// Previous returns the label below a, and 0 for 0.
func (a Label) Previous() Label {
	if a.IsZero() {
		return a
	}
	return a.Minus(Label{0, 1})
}

// Minus returns a-b, for b at most a.
func (a Label) Minus(b Label) Label {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(a.Hi, b.Hi, borrow)
	return Label{hi, lo}
}

// Over returns a/d and the remainder.
func (a Label) Over(d uint64) (quotient Label, remainder uint64) {
	quotient.Hi, remainder = a.Hi/d, a.Hi%d
	quotient.Lo, remainder = bits.Div64(remainder, a.Lo, d)
	return quotient, remainder
}

// Times returns a*n, without what is above 128 bits.
func (a Label) Times(n uint64) Label {
	hi, lo := bits.Mul64(a.Lo, n)
	return Label{a.Hi*n + hi, lo}
}

// shift returns a / 2^n, for n < 64.
func (a Label) shift(n uint) Label {
	return Label{a.Hi >> n, a.Lo>>n | a.Hi<<(64-n)}
}

// Power returns 2^n, for n < 128.
func Power(n uint) Label { return Label{1 << (n - 64), 1 << n} }

// Length returns the number of bits of a: that of 0 is 0.
func (a Label) Length() uint {
	if a.Hi != 0 {
		return 64 + uint(bits.Len64(a.Hi))
	}
	return uint(bits.Len64(a.Lo))
}

// Probes returns at most k labels that split the labels between from and to, both excluded,
// evenly. They ascend and are distinct, so there are fewer than k where the range is small, and
// none where it is empty.
func Probes(from, to Label, k int) []Label {
	if k < 1 || !from.Less(to) {
		return nil
	}
	step, rest := to.Minus(from).Over(uint64(k) + 1)
	out := make([]Label, 0, k)
	at, carry := from, uint64(0)
	for range k {
		at = at.Plus(step)
		if carry += rest; carry > uint64(k) {
			carry -= uint64(k) + 1
			at = at.Next()
		}
		if from.Less(at) {
			out = append(out, at)
			from = at
		}
	}
	return out
}

// A Shape is what the insertions left in an element other than its label: the state of the gap
// that it was put into. The elements form the binary tree in which each was inserted as a leaf
// (Kerschbaum and Schröpfer, CCS 2014, section 3); the path from the root to an element is a
// sequence of turns to the left and right. The counters saturate.
//
// Of two neighbours one is the ancestor of the other, so that their depths are never equal, and
// the deeper one is the newer.
type Shape struct {
	Depth uint32 // number of elements on the path, this one included; 0 at the ends of the index
	Run   uint32 // equal turns at the end of the path
	Alt   uint32 // alternations at the end of the path
	Dir   int8   // the last turn: -1 left, +1 right, 0 for the root
}

// turn returns the shape below s on its side dir.
func (s Shape) turn(dir int8) Shape {
	below := Shape{Depth: Increment(s.Depth), Run: 1, Dir: dir}
	switch s.Dir {
	case 0:
	case dir:
		below.Run = Increment(s.Run)
	default:
		below.Alt = Increment(s.Alt)
	}
	return below
}

// Increment returns n+1, or n where that is the highest.
func Increment(n uint32) uint32 { return min(n, math.MaxUint32-1) + 1 }

// An Element is a value and its place.
type Element struct {
	Value int64
	Label Label
	Shape Shape
	Rank  Rank // zero in an index without ranks
}

// KeysOf returns the labels of elements as the keys of their records.
func KeysOf(elements []Element) (keys [][]byte) {
	for _, e := range elements {
		keys = append(keys, e.Label.Bytes())
	}
	return keys
}

// Rises reports whether b can be above a, which is any element below: whether value and rank say so.
func (a Element) Rises(b Element) bool {
	ranks := a.Rank.Compare(b.Rank)
	return a.Value < b.Value && (ranks < 0 || ranks == 0 && (a.Rank.Shared || a.Rank == Rank{}))
}

// CompareValue compares the value of e with x.
func (e Element) CompareValue(x int64) int { return cmp.Compare(e.Value, x) }

// CompareLabel compares the label of e with c.
func (e Element) CompareLabel(c Label) int { return e.Label.Compare(c) }

// Rules decide where values go. They are pure functions of labels and shapes, never of values:
// the security of the scheme rests on that.
type Rules struct {
	Bits      uint // labels are below 2^bits; at most 128
	Published bool
	RankBits  uint // ranks are below 2^RankBits; 0: elements have none

	// From and To, both excluded, bound the labels of a part of an index. To is the element that was the first of the
	// part above when the part got its end; at label 0 it stands for the highest label.
	From Label
	To   Element
}

// DefaultRules returns the rules for labels of 128 bits.
func DefaultRules() Rules { return Rules{Bits: 128} }

// Within returns the rules for a part of an index: for labels between from and that of to, both excluded.
func (r Rules) Within(from Label, to Element) Rules {
	r.From, r.To = from, to
	return r
}

// PublishedRules returns the rules of Kerschbaum and Schröpfer for a domain of at most 2^b values
// and ciphertexts from -2^(lambda b) to 2^(lambda b), of which the labels are the distances from
// the lowest one. They have lambda b + 1 bits; more than 128 are [ope.ErrParams].
func PublishedRules(domain ope.Domain, lambda int) (Rules, error) {
	b := max(1, bits.Len64(domain.Span()))
	most := 127 / b
	switch {
	case lambda > most && most < 2:
		return Rules{}, fmt.Errorf("%w: the scheme as published takes no domain of %d bits, since its labels would have more than 128: "+
			"take one of at most 63 bits, or the scheme kerschbaum with its own rules", ope.ErrParams, b)
	case lambda < 1 || lambda > most:
		return Rules{}, fmt.Errorf("%w: lambda %d gives labels of lambda*%d+1 bits for the domain %v, need at most 128: choose lambda from 2 to %d, or a smaller domain",
			ope.ErrParams, lambda, b, domain, most)
	}
	return Rules{Bits: uint(lambda*b + 1), Published: true}, nil
}

// Low returns the element that stands for the end below all values, at the lowest label. It has no value and depth 0.
func (r Rules) Low() Element { return Element{Label: r.From} }

// High returns the element that stands for the end above all values, at the highest label. It has no value and depth 0,
// unless it is the first of the part above.
func (r Rules) High() Element {
	if !r.To.Label.IsZero() {
		return r.To
	}
	if r.Bits >= 128 {
		return Element{Label: Label{math.MaxUint64, math.MaxUint64}, Rank: r.topRank()}
	}
	return Element{Label: Power(r.Bits), Rank: r.topRank()}
}

// ReadFrom returns the label from which a read of the part begins that is to begin at one: what is at the lower end is not in the
// unit any more. At label 0 are the records that are no elements.
func (r Rules) ReadFrom(at Label) Label {
	if at == r.From && !at.IsZero() {
		return at.Next()
	}
	return at
}

// Place returns the element, still without its value, that belongs between two neighbours: a
// function of the two alone, so that the first client that inserts there takes this very label. It
// reports false if the gap is exhausted: call [Rules.Relabel]. Neighbours that no insertions can have
// produced, such as two of equal depth, are ErrCorrupt.
func (r Rules) Place(left, right Element) (e Element, ok bool, err error) {
	e.Shape, err = r.Between(left, right)
	if err != nil {
		return Element{}, false, err
	}
	gap := right.Label.Minus(left.Label)
	if gap == (Label{0, 1}) || e.Shape.Depth == math.MaxUint32 {
		return Element{}, false, nil
	}
	e.Label = left.Label.Plus(r.offset(gap, e.Shape))
	e.Rank = r.rank(left, right, e.Shape)
	return e, true, nil
}

// Between returns the shape of what is put between two neighbours.
func (r Rules) Between(left, right Element) (Shape, error) {
	high := r.High()
	if !left.Label.Less(right.Label) || high.Label.Less(right.Label) {
		return Shape{}, fmt.Errorf("%w: neighbours out of order", ErrCorrupt)
	}
	if (left.Label == r.From) != (left.Shape.Depth == 0) || right != high && (right.Label == high.Label || right.Shape.Depth == 0) {
		return Shape{}, fmt.Errorf("%w: an element's depth does not suit its label", ErrCorrupt)
	}
	switch l, r := left.Shape, right.Shape; {
	case l.Depth > r.Depth:
		return l.turn(+1), nil
	case l.Depth < r.Depth:
		return r.turn(-1), nil
	case l.Depth == 0: // both ends: the first element
		return Shape{Depth: 1}, nil
	}
	return Shape{}, fmt.Errorf("%w: neighbours of equal depth", ErrCorrupt)
}

// predictable is how many equal turns, or alternations, must have been seen before the next is
// expected to be alike. Values in random order seldom get there, and pay what midpoints cost.
const predictable = 4

// offset returns how far above its left neighbour an element of shape s goes in a gap of at least
// 2 labels; it is at least 1 and less than gap.
func (r Rules) offset(gap Label, s Shape) Label {
	if r.Published {
		return gap.Minus(gap.shift(1)) // ceil(gap/2)
	}
	den, dir := s.share()
	part, _ := gap.Over(den)
	if part.IsZero() {
		part.Lo = 1
	}
	if dir < 0 {
		return gap.Minus(part)
	}
	return part
}

// share returns that one of so many equal shares of a gap is left on one side of an element of shape s: below it if dir is
// +1, above it if dir is -1.
//
// After k equal turns the next is expected to be equal with probability (k+1)/(k+2) (Laplace's rule of succession),
// counting from where predictions begin; that much of the gap is left on that side. A run of k then uses about log2(k) bits,
// where midpoints use k.
func (s Shape) share() (den uint64, dir int8) {
	switch {
	case s.Run >= predictable:
		return uint64(s.Run) - 1, s.Dir
	case s.Alt >= predictable:
		return uint64(s.Alt) - 1, -s.Dir
	}
	return 2, +1
}

// fill appends elements for ascending values that all belong between two neighbours, placed
// median first: the cheapest order, and one that does not show how the values came. What it appends
// ascends. Where a part of the gap is exhausted, the values of that part are left out; they are
// fewer than all unless the gap itself is exhausted.
func (r Rules) fill(dst []Element, left, right Element, values []int64) ([]Element, error) {
	if len(values) == 0 {
		return dst, nil
	}
	e, ok, err := r.Place(left, right)
	if err != nil || !ok {
		return dst, err
	}
	m := len(values) / 2
	e.Value = values[m]
	if dst, err = r.fill(dst, left, e, values[:m]); err != nil {
		return dst, err
	}
	return r.fill(append(dst, e), e, right, values[m+1:])
}

// Spread returns elements for ascending values, all of an index, with new labels and shapes: what
// the re-encryption pass writes (Kerschbaum and Schröpfer, CCS 2014, section 3). They are those of
// an index into which the values were inserted median first. Values that do not fit into the
// space of labels are an error.
func (r Rules) Spread(values []int64) ([]Element, error) {
	out, err := r.fill(make([]Element, 0, len(values)), r.Low(), r.High(), values)
	if err == nil && len(out) < len(values) {
		err = fmt.Errorf("%w: labels of %d bits have no room for %d values", ErrFull, r.Bits, len(values))
	}
	return out, err
}

// ErrFull is returned, wrapped, when no relabelling makes room for another value.
var ErrFull = errors.New("space of labels exhausted")

// MedianFirst appends from to to-1 in the order in which a sorted batch is inserted: the middle,
// then the part below it, then the part above.
func MedianFirst(dst []int, from, to int) []int {
	if from == to {
		return dst
	}
	m := from + (to-from)/2
	return MedianFirst(MedianFirst(append(dst, m), from, m), m+1, to)
}
