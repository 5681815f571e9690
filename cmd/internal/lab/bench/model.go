package bench

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

// A window is a range query, with what it must return.
type window struct {
	selectivity float64 // the share of the rows that it was made for
	lo, hi      int64
	want        digest
}

// A model knows what every query must return, in memory that does not grow with the rows: the
// queries are chosen first, then the rows pass by and are added to the digests of the queries
// that they belong to.
type model struct {
	rows    int // in all
	windows []window
	whole   digest

	// The windows' bounds cut the values into stretches; each has its digest. A row is in one
	// stretch, a window is a run of stretches.
	cuts      []int64 // ascending; stretch i ends before cuts[i]
	stretches []digest
	hash      hasher
}

// A digest is a multiset of rows: their number and the sums of two keyed 64-bit hashes of value
// and tie-breaker. Different multisets have the same digest with a probability of about 2^-128.
type digest struct {
	rows int
	a, b uint64
}

func (d *digest) add(other digest) {
	d.rows += other.rows
	d.a += other.a
	d.b += other.b
}

type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (h hasher) row(r Row) digest {
	var buf [8 + TieSize]byte
	binary.LittleEndian.PutUint64(buf[:], uint64(r.Value))
	copy(buf[8:], r.Tie[:])
	return digest{1, maphash.Bytes(h.a, buf[:]), maphash.Bytes(h.b, buf[:])}
}

// sampleSize is how many values the windows are chosen from. Up to as many rows they hold the
// share of the rows that they are to hold exactly (but for equal values); beyond, a share p has a
// standard error of about sqrt(p/sampleSize), which is 0.01 percentage points for 0.1 %.
const sampleSize = 100_000

// sample returns the number of the values and a uniform sample of them in ascending order
// (Vitter's algorithm R).
func sample(drawn iter.Seq2[int64, error], limit int, seed uint64, tick func(n int) error) (int, []int64, error) {
	r := values.Rand(seed, "sample")
	var kept []int64
	n := 0
	for x, err := range drawn {
		if err != nil {
			return n, nil, err
		}
		if n%4096 == 0 {
			if err := tick(n); err != nil {
				return n, nil, err
			}
		}
		n++
		if len(kept) < sampleSize {
			kept = append(kept, x)
		} else if i := r.IntN(n); i < sampleSize {
			kept[i] = x
		}
		if n == limit {
			break
		}
	}
	slices.Sort(kept)
	return n, kept, nil
}

// newModel chooses the queries: each takes the selectivity whose turn it is, and a random run of
// the sample that is as long.
func newModel(rows int, sorted []int64, queries int, selectivities []float64, seed uint64) *model {
	m := &model{rows: rows, hash: newHasher()}
	r := values.Rand(seed, "queries")
	for q := range queries {
		s := selectivities[q%len(selectivities)]
		length := min(max(int(math.Round(s*float64(len(sorted)))), 1), len(sorted))
		first := r.IntN(len(sorted) - length + 1)
		w := window{selectivity: s, lo: sorted[first], hi: sorted[first+length-1]}
		m.windows = append(m.windows, w)
		m.cuts = append(m.cuts, w.lo)
		if w.hi < math.MaxInt64 {
			m.cuts = append(m.cuts, w.hi+1)
		}
	}
	slices.Sort(m.cuts)
	m.cuts = slices.Compact(m.cuts)
	m.stretches = make([]digest, len(m.cuts)+1)
	return m
}

// stretch returns the index of the stretch that x is in.
func (m *model) stretch(x int64) int {
	i, found := slices.BinarySearch(m.cuts, x)
	if found {
		i++
	}
	return i
}

// add counts rows that are being inserted.
func (m *model) add(rows []Row) {
	for _, r := range rows {
		m.stretches[m.stretch(r.Value)].add(m.hash.row(r))
	}
}

// close fixes what the queries must return, after the last row.
func (m *model) close() {
	for i := range m.windows {
		w := &m.windows[i]
		w.want = digest{}
		last := m.stretch(w.hi)
		for s := m.stretch(w.lo); s <= last; s++ {
			w.want.add(m.stretches[s])
		}
	}
	m.whole = digest{}
	for _, s := range m.stretches {
		m.whole.add(s)
	}
}

// A check compares what a query returns with what it must return.
type check struct {
	hash    hasher
	got     digest
	last    int64
	ordered bool
}

func (m *model) check() *check { return &check{hash: m.hash, ordered: true} }

func (c *check) add(rows []Row) {
	for _, r := range rows {
		c.ordered = c.ordered && (c.got.rows == 0 || r.Value >= c.last)
		c.last = r.Value
		c.got.add(c.hash.row(r))
	}
}

// result returns an error that wraps exit.ErrWrongAnswer unless exactly the wanted rows were added, in
// ascending order. It names no value.
func (c *check) result(want digest) error {
	switch {
	case c.got.rows < want.rows:
		return fmt.Errorf("%w: %d rows came back, %d are there", exit.ErrWrongAnswer, c.got.rows, want.rows)
	case c.got.rows > want.rows:
		return fmt.Errorf("%w: %d rows came back, only %d are there", exit.ErrWrongAnswer, c.got.rows, want.rows)
	case c.got != want:
		return fmt.Errorf("%w: of the %d rows that came back, some are not those that were inserted", exit.ErrWrongAnswer, c.got.rows)
	case !c.ordered:
		return fmt.Errorf("%w: the rows came back in another order than their values", exit.ErrWrongAnswer)
	}
	return nil
}
