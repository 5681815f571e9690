package wozniak

import (
	"slices"
	"sort"
)

// A pair is a plaintext, as its offset in the domain, and its ciphertext.
type pair struct {
	x uint64
	c u192
	// The view in which nothing is known to lie between this pair and the next of the set.
	bare uint32
}

// pairs is a set of pairs, in the order of both their plaintexts and their ciphertexts.
type pairs struct {
	chunks []chunk
	n      int
}

// A chunk is a run of pairs, at least one. Its first is repeated in the directory, so that a search
// comes to other memory only in the chunk that it ends in: with a million pairs, that is what it
// waits for.
type chunk struct {
	x     uint64
	c     u192
	pairs []pair
}

func chunkOf(ps []pair) chunk { return chunk{ps[0].x, ps[0].c, ps} }

// chunkSize is the size at which a chunk is cut in two. Memory for a pair is 40 bytes, half as
// much again for the chunks that are not full. Why not more? A search waits for more memory. Why not
// less? Every cut moves half of the directory, which for a million pairs has 0.6 MB.
const chunkSize = 128

// A spot is the place of a pair in the set, or of the end if its chunk is len(chunks).
type spot struct{ chunk, i int }

// find returns the first pair for which above is true. It must be false up to some place in the
// set, and true from there.
func (s *pairs) find(above func(x uint64, c u192) bool) spot {
	k := sort.Search(len(s.chunks), func(k int) bool { return above(s.chunks[k].x, s.chunks[k].c) })
	if k == 0 {
		return spot{}
	}
	last := s.chunks[k-1].pairs
	if i := sort.Search(len(last), func(i int) bool { return above(last[i].x, last[i].c) }); i < len(last) {
		return spot{k - 1, i}
	}
	return spot{k, 0}
}

func (s *pairs) at(o spot) *pair {
	if o.chunk >= len(s.chunks) {
		return nil
	}
	return &s.chunks[o.chunk].pairs[o.i]
}

// before returns the pair before a spot, or nil.
func (s *pairs) before(o spot) *pair {
	switch {
	case o.i > 0:
		return &s.chunks[o.chunk].pairs[o.i-1]
	case o.chunk > 0:
		last := s.chunks[o.chunk-1].pairs
		return &last[len(last)-1]
	}
	return nil
}

// around returns the highest pair at or below x and the lowest at or above it; either may be nil.
// They are valid until the set changes.
func (s *pairs) around(x uint64) (low, high *pair) {
	o := s.find(func(y uint64, _ u192) bool { return y >= x })
	high = s.at(o)
	if high != nil && high.x == x {
		return high, high
	}
	return s.before(o), high
}

// byCiphertext returns the pair with a ciphertext, or nil.
func (s *pairs) byCiphertext(c u192) *pair {
	p := s.at(s.find(func(_ uint64, d u192) bool { return !d.less(c) }))
	if p == nil || p.c != c {
		return nil
	}
	return p
}

// put adds a pair. It reports false, and changes nothing, if it does not fit between its
// neighbours. A pair that is there already stays.
func (s *pairs) put(p pair) bool {
	o := s.find(func(y uint64, _ u192) bool { return y >= p.x })
	low, high := s.before(o), s.at(o)
	if high != nil && high.x == p.x {
		return high.c == p.c
	}
	if low != nil && !low.c.less(p.c) || high != nil && !p.c.less(high.c) {
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
			s.chunks = append(s.chunks, chunkOf([]pair{p}))
			return true
		}
		o = spot{o.chunk - 1, len(s.chunks[o.chunk-1].pairs)} // after the last
	}
	ps := slices.Insert(s.chunks[o.chunk].pairs, o.i, p)
	s.chunks[o.chunk] = chunkOf(ps)
	if len(ps) >= chunkSize {
		half := len(ps) / 2
		s.chunks[o.chunk] = chunkOf(slices.Clone(ps[:half]))
		s.chunks = slices.Insert(s.chunks, o.chunk+1, chunkOf(slices.Clone(ps[half:])))
	}
	return true
}

// thin drops every other pair, except the first and the last. What stays is spread as before,
// and helps to find the others again.
func (s *pairs) thin() {
	kept := make([]pair, 0, s.n/2+1)
	i := 0
	for p := range s.all {
		if i%2 == 0 || i == s.n-1 {
			p.bare = 0
			kept = append(kept, p)
		}
		i++
	}
	s.chunks, s.n = nil, len(kept)
	for ps := range slices.Chunk(kept, chunkSize/2) {
		s.chunks = append(s.chunks, chunkOf(slices.Clone(ps)))
	}
}

// all yields the pairs in their order.
func (s *pairs) all(yield func(p pair) bool) {
	for _, c := range s.chunks {
		for _, p := range c.pairs {
			if !yield(p) {
				return
			}
		}
	}
}
