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

// between returns how many pairs there are from x to another one, both included.
func (s *pairs) between(x, to uint64) (n int) {
	from := s.find(func(y uint64, _ u192) bool { return y >= x })
	end := s.find(func(y uint64, _ u192) bool { return y > to })
	for _, c := range s.chunks[from.chunk:end.chunk] {
		n += len(c.pairs)
	}
	return n + end.i - from.i
}

// byCiphertext returns the pair with a ciphertext, if there is one.
func (s *pairs) byCiphertext(c u192) (is pair, found bool) {
	p := s.at(s.find(func(_ uint64, d u192) bool { return !d.less(c) }))
	if p == nil || p.c != c {
		return is, false
	}
	return *p, true
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

// merge adds a run of pairs, ascending, between which nothing lies in a view. If one set cannot hold both them and those
// that are there, it changes nothing, and returns a pair that is out of order.
func (s *pairs) merge(run []pair, view uint32) (odd *pair) {
	if len(run) == 0 {
		return nil
	}
	last := run[len(run)-1].x
	begin := s.find(func(y uint64, _ u192) bool { return y >= run[0].x })
	end := s.find(func(y uint64, _ u192) bool { return y > last })
	from, to := begin.chunk, end.chunk // chunks that are replaced
	if begin.i == 0 && from > 0 {
		from-- // so that many short runs do not leave many short chunks
	}
	if end.i > 0 {
		to++
	}
	had := 0
	for _, c := range s.chunks[from:to] {
		had += len(c.pairs)
	}
	all := make([]pair, 0, had+len(run))
	add := func(p pair) {
		if p.bare = view; p.x == last {
			p.bare = 0 // what follows the last is not known
		}
		all = append(all, p)
	}
	for _, c := range s.chunks[from:to] {
		for _, p := range c.pairs {
			for ; len(run) > 0 && run[0].x < p.x; run = run[1:] {
				add(run[0])
			}
			if all = append(all, p); len(run) == 0 || run[0].x != p.x {
				continue
			}
			if run[0].c != p.c {
				return &run[0]
			}
			if p.x != last {
				all[len(all)-1].bare = view
			}
			run = run[1:]
		}
	}
	for _, p := range run {
		add(p)
	}
	for i := range all {
		if i > 0 && !all[i-1].c.less(all[i].c) || i == 0 && from > 0 && !s.before(spot{from, 0}).c.less(all[0].c) {
			return &all[i]
		}
	}
	if to < len(s.chunks) && !all[len(all)-1].c.less(s.chunks[to].c) {
		return &all[len(all)-1]
	}
	s.n += len(all) - had
	s.chunks = slices.Replace(s.chunks, from, to, chunksOf(all)...)
	return nil
}

// chunksOf cuts pairs into chunks that are at least half full, and have room.
func chunksOf(all []pair) (chunks []chunk) {
	pieces := 1
	if len(all) >= chunkSize {
		const filled = chunkSize * 3 / 4
		pieces = (len(all) + filled - 1) / filled
	}
	for ; pieces > 0; pieces-- {
		n := (len(all) + pieces - 1) / pieces
		chunks = append(chunks, chunkOf(append(make([]pair, 0, chunkSize), all[:n]...)))
		all = all[n:]
	}
	return chunks
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
