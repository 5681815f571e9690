package wozniak

import (
	"bytes"
	"math/big"
	"slices"
	"sort"
)

// maxSize is the length of the longest ciphertext in bytes.
const maxSize = 24

// A point is a ciphertext as a big-endian number, filled up with zeros from the left.
type point [maxSize]byte

func pointOf(n *big.Int) (p point) {
	n.FillBytes(p[:])
	return p
}

// A pair is a plaintext, as its offset in the domain, and its ciphertext.
type pair struct {
	x uint64
	c point
	// The view in which nothing is known to lie between this pair and the next of the set.
	bare uint32
}

func (p pair) number() *big.Int { return new(big.Int).SetBytes(p.c[:]) }

// pairs is a set of pairs, in the order of both their plaintexts and their ciphertexts.
type pairs struct {
	chunks [][]pair // none is empty
	n      int
}

// chunkSize is the size at which a chunk is cut in two. Memory for a pair is 40 bytes, half as
// much again for the chunks that are not full.
const chunkSize = 256

// A spot is the place of a pair in the set, or of the end if its chunk is len(chunks).
type spot struct{ chunk, i int }

// find returns the first pair for which above is true. It must be false up to some place in the
// set, and true from there.
func (s *pairs) find(above func(p *pair) bool) spot {
	k := sort.Search(len(s.chunks), func(k int) bool { return above(&s.chunks[k][0]) })
	if k == 0 {
		return spot{}
	}
	last := s.chunks[k-1]
	if i := sort.Search(len(last), func(i int) bool { return above(&last[i]) }); i < len(last) {
		return spot{k - 1, i}
	}
	return spot{k, 0}
}

func (s *pairs) at(o spot) *pair {
	if o.chunk >= len(s.chunks) {
		return nil
	}
	return &s.chunks[o.chunk][o.i]
}

// before returns the pair before a spot, or nil.
func (s *pairs) before(o spot) *pair {
	switch {
	case o.i > 0:
		return &s.chunks[o.chunk][o.i-1]
	case o.chunk > 0:
		last := s.chunks[o.chunk-1]
		return &last[len(last)-1]
	}
	return nil
}

// around returns the highest pair at or below x and the lowest at or above it; either may be nil.
// They are valid until the set changes.
func (s *pairs) around(x uint64) (low, high *pair) {
	o := s.find(func(p *pair) bool { return p.x >= x })
	high = s.at(o)
	if high != nil && high.x == x {
		return high, high
	}
	return s.before(o), high
}

// byCiphertext returns the pair with a ciphertext, or nil.
func (s *pairs) byCiphertext(c point) *pair {
	p := s.at(s.find(func(p *pair) bool { return bytes.Compare(p.c[:], c[:]) >= 0 }))
	if p == nil || p.c != c {
		return nil
	}
	return p
}

// put adds a pair. It reports false, and changes nothing, if it does not fit between its
// neighbours. A pair that is there already stays.
func (s *pairs) put(p pair) bool {
	o := s.find(func(q *pair) bool { return q.x >= p.x })
	low, high := s.before(o), s.at(o)
	if high != nil && high.x == p.x {
		return high.c == p.c
	}
	if low != nil && bytes.Compare(low.c[:], p.c[:]) >= 0 || high != nil && bytes.Compare(p.c[:], high.c[:]) >= 0 {
		return false
	}
	// Where nothing was between the neighbours, nothing is on either side of what is now.
	p.bare = 0
	if low != nil {
		p.bare = low.bare
	}
	s.n++
	if o.chunk == len(s.chunks) {
		if o.chunk == 0 {
			s.chunks = append(s.chunks, []pair{p})
			return true
		}
		o = spot{o.chunk - 1, len(s.chunks[o.chunk-1])} // behind the last
	}
	chunk := slices.Insert(s.chunks[o.chunk], o.i, p)
	s.chunks[o.chunk] = chunk
	if len(chunk) >= chunkSize {
		half := len(chunk) / 2
		s.chunks[o.chunk] = slices.Clone(chunk[:half])
		s.chunks = slices.Insert(s.chunks, o.chunk+1, slices.Clone(chunk[half:]))
	}
	return true
}

// thin drops every other pair, except the first and the last. What stays is spread as before,
// and helps to find the others again.
func (s *pairs) thin() {
	old, left := s.chunks, s.n
	s.chunks, s.n = nil, 0
	var chunk []pair
	for _, c := range old {
		for _, p := range c {
			left--
			if s.n++; s.n%2 == 0 && left > 0 {
				continue
			}
			p.bare = 0
			if chunk = append(chunk, p); len(chunk) == chunkSize/2 {
				s.chunks, chunk = append(s.chunks, chunk), nil
			}
		}
	}
	if len(chunk) > 0 {
		s.chunks = append(s.chunks, chunk)
	}
	s.n = 0
	for _, c := range s.chunks {
		s.n += len(c)
	}
}

// all yields the pairs in their order.
func (s *pairs) all(yield func(p pair) bool) {
	for _, c := range s.chunks {
		for _, p := range c {
			if !yield(p) {
				return
			}
		}
	}
}
