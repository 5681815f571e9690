// Package estimate counts keys of a database by reading some of them.
package estimate

import (
	"bytes"
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
)

// Keys are those of disjoint scans of a family. If they are in order, their ranges are ascending.
type Keys struct {
	Family driver.Family
	Spec   driver.FamilySpec
	Scans  []driver.Range
}

// Count counts the keys until it has found more than most.
func (k Keys) Count(ctx context.Context, most int) (n int, all bool, err error) {
	for _, r := range k.together() {
		r.Limit = most + 1 - n
		for _, err := range chunks.Scanned(ctx, k.Family, r) {
			if err != nil {
				return n, false, err
			}
			if n++; n > most {
				return n, false, nil
			}
		}
	}
	return n, true, nil
}

// together returns the scans with as many ranges in one as a scan may have. The ranges of ciphertexts that were not given out yet
// may have keys in common, and each is counted for itself.
func (k Keys) together() []driver.Range {
	for i, r := range k.Scans {
		if len(k.Scans) == 1 || r.AnyOrder || r.Empty() || i > 0 && (k.Scans[i-1].End == nil || bytes.Compare(k.Scans[i-1].End, r.Start) > 0) {
			return k.Scans
		}
	}
	var scans []driver.Range
	for several := range slices.Chunk(k.Scans, driver.MaxBatch) {
		r := driver.Range{Cells: several[0].Cells}
		for _, s := range several {
			r.Each = append(r.Each, driver.Bounds{Start: s.Start, End: s.End})
		}
		scans = append(scans, r)
	}
	return scans
}

// A Sample is an estimate from draws.
type Sample struct {
	Rows      float64 // that there are
	Deviation float64 // the standard deviation of Rows, as the draws tell it
	Each      float64 // for how many rows one row that was drawn stands
}

// Sure reports whether a deviation is small beside the estimate.
func (s Sample) Sure() bool { return s.Rows > 0 && s.Deviation <= 0.2*s.Rows }

// Most returns how many there may be.
func (s Sample) Most() float64 { return s.Rows + 3*(s.Deviation+s.Each) }

// Better returns how many rows there are, and whether that is sure, by draws of keys and by draws of rows. It goes by rows alone
// where no keys were drawn.
func Better(byKeys, byRows Sample, noKeys bool) (rows float64, sure bool) {
	switch {
	case byRows.Sure():
		return byRows.Rows, true
	case noKeys || byKeys.Rows > byRows.Most():
		return byRows.Rows, false
	}
	return byKeys.Rows, byKeys.Sure()
}

// Draw estimates the number of keys or, of their rows, how many count. It draws so many times, an even number, a set
// of at most leaf rows.
//
// It is the estimator of Knuth (Estimating the efficiency of backtrack programs, Math. Comp. 29, 1975). A draw goes down a
// tree, each node of which is a set of keys, and its children are the halves of that which have keys. It goes to one of them at
// random, until a set is small. What is counted there, times the reciprocal of the probability of getting there, is right on average,
// whatever the probabilities are. The first draws take either half alike, and the others, which count, by how much was found there.
// For the draws not to lie together, each begins with random bits of its own part of the range of these.
//
// A halving between the first key and the last leaves out the gaps between keys. A value that many rows share is one thin part of
// the range of keys, though. Where there are very many values, no draw may find it. Rows that are drawn by their own keys tell of it.
func (k Keys) Draw(ctx context.Context, draws, leaf int, counted func([]driver.Row) (int, error)) (s Sample, err error) {
	t := tree{Keys: k, leaf: leaf}
	root, err := t.root(ctx)
	if err != nil {
		return s, err
	}
	random := rand.New(rand.NewPCG(uint64(draws), uint64(leaf))) // the same rows give the same estimate
	part := func(i, of int) float64 { return (float64(i) + random.Float64()) / float64(of) }
	for i := range draws / 2 {
		if err := t.explore(ctx, root, part(i, draws/2)); err != nil {
			return s, err
		}
	}
	t.weigh()
	sum, squares, rows, before := 0.0, 0.0, 0, 0.0
	for i := range draws {
		path, weights, err := t.draw(ctx, root, part(i, draws))
		if err != nil {
			return s, err
		}
		last := len(path) - 1
		m, err := counted(path[last].rows)
		if err != nil {
			return s, err
		}
		x := weights[last] * float64(m)
		if i%2 == 1 {
			squares += (x - before) * (x - before) // of a pair from neighbouring parts, which tells of these parts alone
		}
		n := len(path[last].rows)
		sum, rows, before = sum+x, rows+n, x
		s.Each += weights[last] * float64(n) / float64(draws)
	}
	s.Rows = sum / float64(draws)
	s.Deviation = math.Sqrt(squares) / float64(draws)
	s.Each /= float64(max(1, rows))
	if t.cut {
		s.Deviation = max(s.Deviation, s.Rows)
	}
	return s, nil
}

// A tree is what draws go down. It keeps the nodes that one has seen.
type tree struct {
	Keys
	leaf     int
	byKey    bool // scans in any order come in the order of keys
	cut      bool // a set could not be halved, and was not read to its end
	explored []*node
}

// A node is the keys of some scans.
type node struct {
	scans []driver.Range
	rows  []driver.Row // the first of them, where there is one scan
	whole bool         // these are all
	last  []byte       // the last key, where it is known
	of    []*node      // one or two, that have keys as far as is known

	left     float64 // the probability of the first of two; 0 is one half
	explored int     // so many times
	found    float64 // the sum of what was estimated then
}

// explore draws once, and keeps what it has found.
func (t *tree) explore(ctx context.Context, root *node, u float64) error {
	path, weights, err := t.draw(ctx, root, u)
	if err != nil {
		return err
	}
	last := len(path) - 1
	for i, n := range path {
		n.explored, n.found = n.explored+1, n.found+weights[last]/weights[i]*float64(len(path[last].rows))
	}
	t.explored = append(t.explored, path...)
	return nil
}

// weigh sets with which probability draws go to the left of two halves. It is never near 0 or 1, since what was found may be wrong.
func (t *tree) weigh() {
	const blind = 0.1
	for _, n := range t.explored {
		if len(n.of) < 2 || n.of[0].explored == 0 || n.of[1].explored == 0 {
			continue
		}
		left, right := n.of[0].found/float64(n.of[0].explored), n.of[1].found/float64(n.of[1].explored)
		if left+right > 0 {
			n.left = blind/2 + (1-blind)*left/(left+right)
		}
	}
}

// draw goes down where u, which is in [0, 1), leads. It returns the nodes, and for each the reciprocal of its probability.
func (t *tree) draw(ctx context.Context, n *node, u float64) (path []*node, weights []float64, err error) {
	weight := 1.0
	for {
		if !n.whole && n.of == nil {
			if err := t.halve(ctx, n); err != nil {
				return nil, nil, err
			}
		}
		path, weights = append(path, n), append(weights, weight)
		switch {
		case n.whole:
			return path, weights, nil
		case len(n.of) == 1:
			n = n.of[0]
		default:
			p := n.left
			if p == 0 {
				p = 0.5
			}
			if u < p {
				n, u, weight = n.of[0], u/p, weight/p
			} else {
				n, u, weight = n.of[1], (u-p)/(1-p), weight/(1-p)
			}
		}
	}
}

// child returns a node that was looked at.
func (t *tree) child(ctx context.Context, scans ...driver.Range) (*node, error) {
	n := &node{scans: scans, whole: len(scans) == 0}
	if len(scans) != 1 {
		return n, nil
	}
	return n, t.read(ctx, n, t.leaf)
}

// read reads at most so many rows of a node, which are all if there are no more.
func (t *tree) read(ctx context.Context, n *node, most int) error {
	n.rows, n.whole = nil, true
	r := n.scans[0]
	r.Limit = most + 1
	for row, err := range chunks.Scanned(ctx, t.Family, r) {
		if err != nil {
			return err
		}
		if len(n.rows) == most {
			n.whole = false
			break
		}
		n.rows = append(n.rows, row)
	}
	return nil
}

// root returns all. Rows in no order are taken prefix by prefix where there are few, and by their keys where the database has
// them in that order.
func (t *tree) root(ctx context.Context) (*node, error) {
	scans := t.Scans
	switch {
	case len(scans) != 1 || !scans[0].AnyOrder || scans[0].Index != nil:
	case t.Spec.PrefixBytes == 0:
		scans = slices.Clone(scans)
		scans[0].AnyOrder = false
	default:
		prefixes, all, err := t.prefixes(ctx, scans[0])
		if err != nil {
			return nil, err
		}
		if all {
			scans = prefixes
		} else {
			t.byKey = slices.IsSortedFunc(prefixes, func(a, b driver.Range) int { return bytes.Compare(a.Start, b.Start) })
		}
	}
	return t.child(ctx, scans...)
}

// few is how many prefixes are looked at one by one. So many are in order by chance once in 20 trillion times.
const few = 16

// prefixes returns scans for the first prefixes of a range without order, and reports whether there are no more.
func (t *tree) prefixes(ctx context.Context, r driver.Range) (scans []driver.Range, all bool, err error) {
	for range few {
		n := &node{scans: []driver.Range{r}}
		if err := t.read(ctx, n, 1); err != nil || len(n.rows) == 0 {
			return scans, true, err
		}
		next := t.prefix(r, n.rows[0].Key)
		scans = append(scans, next)
		r.After = append(bytes.Clone(next.Start), bytes.Repeat([]byte{0xff}, digits)...)
	}
	return scans, false, nil
}

// prefix returns the scan of the keys of a range that share the prefix of a key.
func (t *tree) prefix(r driver.Range, key []byte) driver.Range {
	prefix := key[:min(t.Spec.PrefixBytes, len(key))]
	return driver.Range{Start: prefix, End: ope.PrefixEnd(prefix), Cells: r.Cells}
}

// halve sets what a node consists of.
func (t *tree) halve(ctx context.Context, n *node) error {
	r := n.scans[0]
	switch {
	case len(n.scans) > 1:
		middle := len(n.scans) / 2
		return t.set(ctx, n, n.scans[:middle], n.scans[middle:])
	case r.AnyOrder && !t.byKey:
		return t.halveShare(ctx, n)
	}
	first, end := n.rows[0].Key, n.last
	if end == nil && !r.AnyOrder {
		back := r
		back.Reverse = true
		last := &node{scans: []driver.Range{back}}
		if err := t.read(ctx, last, 1); err != nil {
			return err
		}
		if len(last.rows) > 0 {
			end = last.rows[0].Key
		}
	} else if end == nil {
		end = r.End
	}
	if end == nil {
		end = bytes.Repeat([]byte{0xff}, digits)
	}
	middle := middle(first, end)
	if bytes.Compare(middle, first) <= 0 {
		return t.cutOff(ctx, n)
	}
	left, right := r, r
	left.Start, left.End, right.Start = first, middle, middle
	if err := t.set(ctx, n, []driver.Range{left}, []driver.Range{right}); err != nil {
		return err
	}
	if of := len(n.of); !r.AnyOrder && of > 0 {
		n.of[of-1].last = end
	}
	return nil
}

// halveShare halves a share of a range without order. The least share is mostly of one prefix, if that has many rows.
func (t *tree) halveShare(ctx context.Context, n *node) error {
	r := n.scans[0]
	parts := 2 * max(1, r.Parts)
	switch {
	case parts <= driver.MaxParts:
		left, right := r, r
		left.Part, left.Parts, right.Part, right.Parts = 2*r.Part, parts, 2*r.Part+1, parts
		return t.set(ctx, n, []driver.Range{left}, []driver.Range{right})
	case r.Index == nil && t.Spec.PrefixBytes > 0:
		return t.set(ctx, n, []driver.Range{t.prefix(r, n.rows[0].Key)})
	}
	return t.cutOff(ctx, n)
}

// cutOff reads more of a node that cannot be halved.
func (t *tree) cutOff(ctx context.Context, n *node) error {
	const most = 1000
	err := t.read(ctx, n, most)
	t.cut = t.cut || !n.whole
	n.whole = true
	return err
}

// set sets what a node consists of: those of the halves that have keys. A list of scans is not looked at.
func (t *tree) set(ctx context.Context, n *node, halves ...[]driver.Range) error {
	for _, scans := range halves {
		half, err := t.child(ctx, scans...)
		if err != nil {
			return err
		}
		if len(half.rows) > 0 || len(scans) > 1 {
			n.of = append(n.of, half)
		}
	}
	n.whole = len(n.of) == 0 // its rows are gone since
	if n.whole {
		n.rows = nil
	}
	return nil
}

const digits = 32

// middle returns the key halfway between two. The bytes after those that both begin with are taken as the digits of a number, as many
// as tell keys apart.
func middle(start, end []byte) []byte {
	n := 0
	for n < len(start) && n < len(end) && start[n] == end[n] {
		n++
	}
	number := func(key []byte) *big.Int {
		var b [digits]byte
		copy(b[:], key[min(n, len(key)):])
		return new(big.Int).SetBytes(b[:])
	}
	sum := new(big.Int).Add(number(start), number(end))
	var b [digits]byte
	return append(bytes.Clone(start[:n]), sum.Rsh(sum, 1).FillBytes(b[:])...)
}
