package boldyreva

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
)

// A tree is the order-preserving function from [0, last] to [0, 2^bits).
type tree struct {
	source *coins.Source
	last   uint64 // number of plaintexts less one: the number itself may be 2^64
	bits   uint
	exact  bool       // tests: no shortcuts, every decision by exact arithmetic
	pool   *sync.Pool // nil: a walker is made for one operation, and remembers nothing
}

func newTree(source *coins.Source, last uint64, rangeBits uint) tree {
	return tree{source, last, rangeBits, false, &sync.Pool{}}
}

// A walker is the state of one operation, and what is kept of those before.
type walker struct {
	*coins.Reader
	exact bool
	known *[1 << knownBits][2]known // nil: it remembers nothing
	lanes *lanes                    // nil until a batch is encrypted
	ahead *coins.Lanes              // nil: nothing is computed ahead
}

// known is a node's split. Walkers remember some: all values have the root in common, those of a
// narrow column or of one query's bounds a long way down, and a walk spends most of its time on
// the large nodes. In a set, the first place is that of the largest node, which is met again most
// likely, and the second that of the last one.
type known struct {
	hi, lo uint64 // middle of the node; 0 if there is none
	lower  uint64
	bits   uint
}

const knownBits = 8

func (t *tree) get() *walker {
	if t.pool == nil {
		return &walker{Reader: t.source.NewReader(), exact: t.exact, ahead: t.source.NewLanes()}
	}
	w, ok := t.pool.Get().(*walker)
	if !ok {
		w = &walker{Reader: t.source.NewReader(), known: new([1 << knownBits][2]known), ahead: t.source.NewLanes()}
	}
	w.exact = t.exact
	return w
}

func (t *tree) put(w *walker) {
	if t.pool != nil {
		t.pool.Put(w)
	}
}

// A node is the range [base, base + 2^bits), in which last+1 ciphertexts lie.
type node struct {
	hi, lo uint64 // base, of which the low bits are 0
	bits   uint
	last   uint64
}

// full reports whether every number of the range is a ciphertext.
func (n *node) full() bool { return n.bits <= 64 && n.last == ^uint64(0)>>(64-n.bits) }

// middle returns the node's label: its midpoint, of which the lowest bit that is set gives the
// node's size. A node of no bits has none.
func (n *node) middle() (hi, lo uint64) {
	if n.bits > 64 {
		return n.hi | 1<<(n.bits-65), 0
	}
	return n.hi, n.lo | 1<<(n.bits-1)
}

// seek selects the coins of the node.
func (n *node) seek(w *walker) {
	hi, lo := n.middle()
	if n.bits > 64 {
		w.Seek(1, 0, hi)
	} else {
		w.Seek(0, hi, lo)
	}
}

// split returns how many points of a node that is neither full nor scattered nor has a single
// point lie in its lower half, and whether that is remembered.
func (n *node) split(w *walker) (lower uint64, met bool) {
	if n.last < popcountMost || w.exact || w.known == nil { // small nodes are many, and soon split
		n.seek(w)
		return w.split(n.bits, n.last), false
	}
	hi, lo := n.middle()
	set := &w.known[(hi*0x9E3779B97F4A7C15^lo*0xD6E8FEB86659FD93)>>(64-knownBits)]
	for i := range set {
		if k := &set[i]; k.hi == hi && k.lo == lo {
			return k.lower, true
		}
	}
	n.seek(w)
	lower = w.split(n.bits, n.last)
	place := &set[1]
	if n.bits >= set[0].bits {
		place, set[1] = &set[0], set[0]
	}
	*place = known{hi, lo, lower, n.bits}
	return lower, false
}

// add adds c * 2^bits to the base. The bits that it sets are not set before.
func (n *node) add(c uint64, bits uint) {
	if bits >= 64 {
		n.hi |= c << (bits - 64)
		return
	}
	n.lo |= c << bits
	n.hi |= c >> (64 - bits) // 0 if bits is 0
}

// leafCounter is the counter of the coins that place a point in a range of its own.
const leafCounter = 1 << 63

// leaf returns the one ciphertext of a node.
func (n *node) leaf(w *walker) (hi, lo uint64) {
	if n.bits == 0 {
		return n.hi, n.lo
	}
	n.seek(w)
	return n.fill(w.Block(leafCounter))
}

// fill returns the base and, below, as many bits of a block as the node has, which may be none.
func (n *node) fill(hi, lo uint64) (uint64, uint64) {
	if n.bits <= 64 {
		return n.hi, n.lo | lo&(^uint64(0)>>(64-n.bits))
	}
	return n.hi | hi&(^uint64(0)>>(128-n.bits)), lo
}

// scattered reports whether the points of a node are few enough to be placed one by one.
func (n *node) scattered() bool { return n.last < scatterMost && n.bits >= scatterBits }

func (t *tree) encrypt(m uint64) (hi, lo uint64) {
	w := t.get()
	hi, lo = (&node{bits: t.bits, last: t.last}).encrypt(w, m)
	t.put(w)
	return hi, lo
}

// encrypt returns the ciphertext of the node that has m others of it below.
func (n *node) encrypt(w *walker, m uint64) (hi, lo uint64) {
	for unknown := 0; n.last != 0; {
		if n.full() {
			return n.hi, n.lo | m
		}
		if n.scattered() {
			n.seek(w)
			places := w.scatter(n.bits, n.last)
			m = n.enter(&places, m)
			continue
		}
		if unknown == 2 && w.ahead != nil {
			unknown++
			m = n.runAhead(w, m)
			continue
		}
		lower, met := n.split(w)
		if unknown++; met {
			unknown = 0
		}
		n.bits--
		if m < lower {
			n.last = lower - 1
		} else {
			m -= lower
			n.last -= lower
			n.add(1, n.bits)
		}
	}
	return n.leaf(w)
}

// enter narrows a scattered node to the cell of its point m, and returns the point's rank there.
func (n *node) enter(places *[scatterMost]uint16, m uint64) (rank uint64) {
	place := places[m&(scatterMost-1)]
	low, high := m, m // the points in the cell
	for low > 0 && places[(low-1)&(scatterMost-1)] == place {
		low--
	}
	for high < n.last && places[(high+1)&(scatterMost-1)] == place {
		high++
	}
	n.bits -= scatterDepth(n.bits)
	n.add(uint64(place), n.bits)
	n.last = high - low
	return m - low
}

// decrypt returns the plaintext of a ciphertext, or false if there is none.
func (t *tree) decrypt(hi, lo uint64) (m uint64, ok bool) {
	if t.bits < 64 && (hi != 0 || lo>>t.bits != 0) || t.bits >= 64 && t.bits < 128 && hi>>(t.bits-64) != 0 {
		return 0, false
	}
	w := t.get()
	defer t.put(w)
	n := node{bits: t.bits, last: t.last}
	for n.last != 0 {
		if n.full() {
			return m + (lo & (^uint64(0) >> (64 - n.bits))), true
		}
		if n.scattered() {
			n.seek(w)
			places := w.scatter(n.bits, n.last)
			depth := scatterDepth(n.bits)
			n.bits -= depth
			var place uint16
			if n.bits >= 64 {
				place = uint16(hi >> (n.bits - 64))
			} else {
				place = uint16(hi<<(64-n.bits) | lo>>n.bits)
			}
			place &= 1<<depth - 1
			var below, count uint64
			for _, p := range places[:n.last+1] {
				if p < place {
					below++
				} else if p == place {
					count++
				}
			}
			if count == 0 {
				return 0, false
			}
			m += below
			n.last = count - 1
			n.add(uint64(place), n.bits)
			continue
		}
		lower, _ := n.split(w)
		n.bits--
		var upper uint64
		if n.bits >= 64 {
			upper = hi >> (n.bits - 64) & 1
		} else {
			upper = lo >> n.bits & 1
		}
		switch {
		case upper == 0 && lower == 0 || upper == 1 && lower > n.last:
			return 0, false
		case upper == 0:
			n.last = lower - 1
		default:
			m += lower
			n.last -= lower
			n.add(1, n.bits)
		}
	}
	leafHi, leafLo := n.leaf(w)
	return m, leafHi == hi && leafLo == lo
}

// A batch is the ranks to encrypt, ascending, and where their ciphertexts go.
type batch struct {
	ranks []uint64
	order []int // the place in out of each rank; nil if it is the rank's own
	out   []byte
	size  int
}

// sort brings the ranks into ascending order.
func (b *batch) sort() {
	type item struct {
		rank  uint64
		place int
	}
	items := make([]item, len(b.ranks))
	for i, m := range b.ranks {
		items[i] = item{m, i}
	}
	slices.SortFunc(items, func(x, y item) int { return cmp.Compare(x.rank, y.rank) })
	b.order = make([]int, len(items))
	for i, it := range items {
		b.ranks[i], b.order[i] = it.rank, it.place
	}
}

func (b *batch) set(i int, hi, lo uint64) {
	if b.order != nil {
		i = b.order[i]
	}
	dst := b.out[i*b.size : (i+1)*b.size]
	switch len(dst) {
	case 8:
		binary.BigEndian.PutUint64(dst, lo)
		return
	case 16:
		binary.BigEndian.PutUint64(dst[:8], hi)
		binary.BigEndian.PutUint64(dst[8:], lo)
		return
	}
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte(lo)
		lo, hi = lo>>8|hi<<56, hi>>8
	}
}

// setAll sets the ciphertext of some ranks.
func (b *batch) setAll(from, to int, hi, lo uint64) {
	for ; from < to; from++ {
		b.set(from, hi, lo)
	}
}
