package kerschbaum

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/rangecrypt/rangecrypt/ope"
)

// errCorrupt is what neighbours that no sequence of insertions can have produced are. It is
// returned wrapped.
var errCorrupt = errors.New("corrupt index")

// labelSize is the length of a label in bytes.
const labelSize = 16

// A label is the place of a value among the others: an unsigned number of 128 bits. Label 0 and
// the highest label of the rules are the ends of the index and never given to a value.
type label struct{ hi, lo uint64 }

// parseLabel returns the label that b, big-endian, is the bytes of. It reports false unless b has
// 16 bytes.
func parseLabel(b []byte) (label, bool) {
	if len(b) != labelSize {
		return label{}, false
	}
	return label{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// append appends the 16 bytes of the label, big-endian, so that bytewise order is the order of
// labels.
func (a label) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, a.hi), a.lo)
}

func (a label) bytes() []byte { return a.append(make([]byte, 0, labelSize)) }

func (a label) isZero() bool { return a == label{} }

func (a label) less(b label) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a label) compare(b label) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

func (a label) plus(b label) label {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return label{hi, lo}
}

func (a label) minus(b label) label {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return label{hi, lo}
}

// over returns a/d and the remainder.
func (a label) over(d uint64) (quotient label, remainder uint64) {
	quotient.hi, remainder = a.hi/d, a.hi%d
	quotient.lo, remainder = bits.Div64(remainder, a.lo, d)
	return quotient, remainder
}

// times returns a*n, without what is above 128 bits.
func (a label) times(n uint64) label {
	hi, lo := bits.Mul64(a.lo, n)
	return label{a.hi*n + hi, lo}
}

// shift returns a / 2^n, for n < 64.
func (a label) shift(n uint) label {
	return label{a.hi >> n, a.lo>>n | a.hi<<(64-n)}
}

// power returns 2^n, for n < 128.
func power(n uint) label { return label{1 << (n - 64), 1 << n} }

// length returns the number of bits of a: that of 0 is 0.
func (a label) length() uint {
	if a.hi != 0 {
		return 64 + uint(bits.Len64(a.hi))
	}
	return uint(bits.Len64(a.lo))
}

// probes returns at most k labels that split the labels between from and to, both excluded,
// evenly. They ascend and are distinct, so there are fewer than k where the range is small, and
// none where it is empty.
func probes(from, to label, k int) []label {
	if k < 1 || !from.less(to) {
		return nil
	}
	step, rest := to.minus(from).over(uint64(k) + 1)
	out := make([]label, 0, k)
	at, carry := from, uint64(0)
	for range k {
		at = at.plus(step)
		if carry += rest; carry > uint64(k) {
			carry -= uint64(k) + 1
			at = at.plus(label{0, 1})
		}
		if from.less(at) {
			out = append(out, at)
			from = at
		}
	}
	return out
}

// A shape is what the insertions left in an element other than its label: the state of the gap
// that it was put into. The elements form the binary tree in which each was inserted as a leaf
// (Kerschbaum and Schröpfer, CCS 2014, section 3); the path from the root to an element is a
// sequence of turns to the left and right. The counters saturate.
//
// Of two neighbours one is the ancestor of the other, so that their depths are never equal, and
// the deeper one is the newer.
type shape struct {
	depth uint32 // number of elements on the path, this one included; 0 at the ends of the index
	run   uint32 // equal turns at the end of the path
	alt   uint32 // alternations at the end of the path
	dir   int8   // the last turn: -1 left, +1 right, 0 for the root
}

// turn returns the shape below s on its side dir.
func (s shape) turn(dir int8) shape {
	below := shape{depth: increment(s.depth), run: 1, dir: dir}
	switch s.dir {
	case 0:
	case dir:
		below.run = increment(s.run)
	default:
		below.alt = increment(s.alt)
	}
	return below
}

func increment(n uint32) uint32 { return min(n, math.MaxUint32-1) + 1 }

// An element is a value and its place.
type element struct {
	value int64
	label label
	shape shape
}

func (e element) compareValue(x int64) int { return cmp.Compare(e.value, x) }

func (e element) compareLabel(c label) int { return e.label.compare(c) }

// Rules decide where values go. They are pure functions of labels and shapes, never of values:
// the security of the scheme rests on that.
type rules struct {
	bits      uint // labels are below 2^bits; at most 128
	published bool
}

func defaultRules() rules { return rules{bits: 128} }

// publishedRules returns the rules of Kerschbaum and Schröpfer for a domain of at most 2^b values
// and ciphertexts from -2^(lambda b) to 2^(lambda b), of which the labels are the distances from
// the lowest one. They have lambda b + 1 bits; more than 128 are [ope.ErrParams].
func publishedRules(domain ope.Domain, lambda int) (rules, error) {
	b := max(1, bits.Len64(domain.Span()))
	most := 127 / b
	if lambda < 1 || lambda > most {
		return rules{}, fmt.Errorf("%w: lambda %d gives labels of lambda*%d+1 bits for the domain %v, need at most 128: choose lambda from 1 to %d, or a smaller domain",
			ope.ErrParams, lambda, b, domain, most)
	}
	return rules{bits: uint(lambda*b + 1), published: true}, nil
}

// high returns the element that stands for the end of the index above all values, at the highest
// label. The zero element stands for the end below them. Both have no value and depth 0.
func (r rules) high() element {
	if r.bits >= 128 {
		return element{label: label{math.MaxUint64, math.MaxUint64}}
	}
	return element{label: power(r.bits)}
}

// place returns the element, still without its value, that belongs between two neighbours: a
// function of the two alone, so that the first client that inserts there takes this very label. It
// reports false if the gap is exhausted: call relabel. Neighbours that no insertions can have
// produced, such as two of equal depth, are errCorrupt.
func (r rules) place(left, right element) (e element, ok bool, err error) {
	e.shape, err = r.between(left, right)
	if err != nil {
		return element{}, false, err
	}
	gap := right.label.minus(left.label)
	if gap == (label{0, 1}) || e.shape.depth == math.MaxUint32 {
		return element{}, false, nil
	}
	e.label = left.label.plus(r.offset(gap, e.shape))
	return e, true, nil
}

// between returns the shape of what is put between two neighbours.
func (r rules) between(left, right element) (shape, error) {
	high := r.high()
	if !left.label.less(right.label) || high.label.less(right.label) {
		return shape{}, fmt.Errorf("%w: neighbours out of order", errCorrupt)
	}
	if left.label.isZero() != (left.shape.depth == 0) || (right.label == high.label) != (right.shape.depth == 0) {
		return shape{}, fmt.Errorf("%w: an element's depth does not suit its label", errCorrupt)
	}
	switch l, r := left.shape, right.shape; {
	case l.depth > r.depth:
		return l.turn(+1), nil
	case l.depth < r.depth:
		return r.turn(-1), nil
	case l.depth == 0: // both ends: the first element
		return shape{depth: 1}, nil
	}
	return shape{}, fmt.Errorf("%w: neighbours of equal depth", errCorrupt)
}

// predictable is how many equal turns, or alternations, must have been seen before the next is
// expected to be alike. Values in random order seldom get there, and pay what midpoints cost.
const predictable = 4

// offset returns how far above its left neighbour an element of shape s goes in a gap of at least
// 2 labels; it is at least 1 and less than gap.
func (r rules) offset(gap label, s shape) label {
	if r.published {
		return gap.minus(gap.shift(1)) // ceil(gap/2)
	}
	// After k equal turns the next is expected to be equal with probability (k+1)/(k+2) (Laplace's
	// rule of succession), counting from where predictions begin; that share of the gap is left
	// on that side. A run of k then uses about log2(k) bits, where midpoints use k.
	den, dir := uint64(2), int8(+1)
	if s.run >= predictable {
		den, dir = uint64(s.run)-1, s.dir
	} else if s.alt >= predictable {
		den, dir = uint64(s.alt)-1, -s.dir
	}
	part, _ := gap.over(den)
	if part.isZero() {
		part.lo = 1
	}
	if dir < 0 {
		return gap.minus(part)
	}
	return part
}

// fill appends elements for ascending values that all belong between two neighbours, placed
// median first: the cheapest order, and one that does not show how the values came. What it appends
// ascends. Where a part of the gap is exhausted, the values of that part are left out; they are
// fewer than all unless the gap itself is exhausted.
func (r rules) fill(dst []element, left, right element, values []int64) ([]element, error) {
	if len(values) == 0 {
		return dst, nil
	}
	e, ok, err := r.place(left, right)
	if err != nil || !ok {
		return dst, err
	}
	m := len(values) / 2
	e.value = values[m]
	if dst, err = r.fill(dst, left, e, values[:m]); err != nil {
		return dst, err
	}
	return r.fill(append(dst, e), e, right, values[m+1:])
}

// spread returns elements for ascending values, all of an index, with new labels and shapes: what
// the re-encryption pass writes (Kerschbaum and Schröpfer, CCS 2014, section 3). They are those of
// an index into which the values were inserted median first. Values that do not fit into the
// space of labels are an error.
func (r rules) spread(values []int64) ([]element, error) {
	out, err := r.fill(make([]element, 0, len(values)), element{}, r.high(), values)
	if err == nil && len(out) < len(values) {
		err = fmt.Errorf("%w: labels of %d bits have no room for %d values", errFull, r.bits, len(values))
	}
	return out, err
}

// errFull is returned, wrapped, when no relabelling makes room for another value.
var errFull = errors.New("space of labels exhausted")

// medianFirst appends from to to-1 in the order in which a sorted batch is inserted: the middle,
// then the part below it, then the part above.
func medianFirst(dst []int, from, to int) []int {
	if from == to {
		return dst
	}
	m := from + (to-from)/2
	return medianFirst(medianFirst(append(dst, m), from, m), m+1, to)
}
