package kerschbaum

import "iter"

// A list is the part of an index that a client knows: elements ascending by value and by label at
// once. Of each element, and of the low end, it is known whether it is linked: whether the next
// element here is also the next in the index. It is not safe for concurrent use.
type list struct{}

// A gap is where a value that is not in a list belongs.
type gap struct {
	left, right element // the nearest known elements, or ends of the index
	linked      bool    // whether they are neighbours in the index: the gap is really empty
}

// newList returns an empty list for an index under the rules. It holds about limit elements at
// most, forgetting those not used for long, in runs; 0 is no limit.
func newList(r rules, limit int) *list { panic("not yet") }

// len returns the number of elements.
func (l *list) len() int { panic("not yet") }

// find returns the element of value x.
func (l *list) find(x int64) (element, bool) { panic("not yet") }

// findLabel returns the element at c.
func (l *list) findLabel(c label) (element, bool) { panic("not yet") }

// gap returns the place of value x between known elements. If x itself is in the list, that is
// the gap above it.
func (l *list) gap(x int64) gap { panic("not yet") }

// gapLabel returns the place of label c between known elements. If there is an element at c, that
// is the gap above it.
func (l *list) gapLabel(c label) gap { panic("not yet") }

// insert adds an element that was put into the index between its neighbours here: where they were
// linked, both are linked to it. An element that is there already is left as it is. One that is
// out of order is errCorrupt and not inserted.
func (l *list) insert(e element) error { panic("not yet") }

// learn takes note of a run of neighbours of the index, as read at one instant or as written by a
// relabelling: at least one element, ascending, the ends of the index among them where the run
// reaches these. What was known from its first to its last label is replaced. A run that is out of
// order in itself or with what is around it is errCorrupt, and not learnt: either the index is
// corrupt, or the list is of another generation of it.
func (l *list) learn(run []element) error { panic("not yet") }

// all yields the elements whose values are at least from, in ascending order, and whether each is
// linked. The list must not be changed meanwhile.
func (l *list) all(from int64) iter.Seq2[element, bool] { panic("not yet") }

// clear forgets everything.
func (l *list) clear() { panic("not yet") }
