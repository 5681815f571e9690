package order

import "slices"

// A Batch is the elements that one commit puts into gaps of a list.
type Batch struct {
	Elements []Element // what is to be put there, ascending
	Gaps     []Gap     // between which of the elements that are there
	Firsts   [][]byte  // of each gap, the key that its first element takes
	Crowded  int64     // if there are no elements: a value that there is no room for
}

// Add adds x, which goes into the gap g of the list.
func (b *Batch) Add(r Rules, x int64, g Gap) error {
	left, right := g.Left, g.Right
	i, ok := slices.BinarySearchFunc(b.Elements, x, Element.CompareValue)
	if ok {
		return nil
	}
	first := true // in this gap
	if i > 0 && left.Label.Less(b.Elements[i-1].Label) {
		left, first = b.Elements[i-1], false
	}
	if i < len(b.Elements) && b.Elements[i].Label.Less(right.Label) {
		right, first = b.Elements[i], false
	}
	e, ok, err := r.Place(left, right)
	if err != nil {
		return err
	}
	if !ok {
		b.Crowded = x
		return nil
	}
	e.Value = x
	b.Elements = slices.Insert(b.Elements, i, e)
	if first {
		b.Gaps = append(b.Gaps, g)
		b.Firsts = append(b.Firsts, e.Label.Bytes())
	}
	return nil
}
