// Package estimate counts keys of a database by reading some of them.
package estimate

import (
	"bytes"
	"context"
	"math/big"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// Keys are those of a family. The cells are what is read of a row.
type Keys struct {
	Family driver.Family
	Spec   driver.FamilySpec
	Cells  driver.Slice
	Index  *driver.IndexRange // that leads to them, in no order; or nil
}

// A scanned is what a scan of a probe yielded: so many keys, and whether these are all that there are.
type scanned struct {
	n           int
	first, last []byte
	all         bool
}

// scan reads at most so many keys.
func (k Keys) scan(ctx context.Context, r driver.Range, most int) (s scanned, err error) {
	r.Cells, r.Limit, r.Index = k.Cells, most+1, k.Index
	for row, err := range engine.Scanned(ctx, k.Family, r) {
		if err != nil || s.n == most {
			return s, err
		}
		if s.n == 0 {
			s.first = row.Key
		}
		s.n, s.last = s.n+1, row.Key
	}
	s.all = true
	return s, nil
}

// sampled is how many shares of a range a probe looks at.
const sampled = 4

// Range counts the keys of a range, and reports whether it has counted all. If there are more, it extrapolates from how dense they are at some places between the
// first key that is there and the last. It takes it that keys are evenly spread. Where they are in clusters, its places are
// in the gaps between them, and the estimate is too low rather than too high.
func (k Keys) Range(ctx context.Context, start, end []byte, most int) (rows float64, exact bool, err error) {
	got, err := k.scan(ctx, driver.Range{Start: start, End: end}, most)
	if err != nil || got.all {
		return float64(got.n), true, err
	}
	last, err := k.scan(ctx, driver.Range{Start: start, End: end, Reverse: true}, 1)
	if err != nil || last.n == 0 { // they are gone since
		return float64(got.n), false, err
	}
	keys := newInterval(got.first, last.first)
	for i := range sampled {
		place := keys.at(2*i+1, 2*sampled)
		s, err := k.scan(ctx, driver.Range{Start: place, End: end}, max(1, most/sampled))
		if err != nil {
			return 0, false, err
		}
		if s.n > 1 {
			rows += float64(s.n-1) / keys.share(place, s.last) / sampled
		}
	}
	return max(rows, float64(got.n)), false, nil
}

// An interval is that between two keys, whose bytes are taken as the digits of a number, as many as tell keys apart.
type interval struct {
	common       []byte // what both keys begin with
	start, width *big.Int
}

const digits = 32

func newInterval(start, end []byte) interval {
	n := 0
	for n < len(start) && n < len(end) && start[n] == end[n] {
		n++
	}
	in := interval{common: start[:n]}
	in.start = in.number(start)
	in.width = new(big.Int).Sub(in.number(end), in.start)
	return in
}

func (in interval) number(key []byte) *big.Int {
	var b [digits]byte
	copy(b[:], key[min(len(in.common), len(key)):])
	return new(big.Int).SetBytes(b[:])
}

// at returns the key that is part/parts of the way to the end.
func (in interval) at(part, parts int) []byte {
	n := new(big.Int).Mul(in.width, big.NewInt(int64(part)))
	n.Add(n.Quo(n, big.NewInt(int64(parts))), in.start)
	var b [digits]byte
	return append(bytes.Clone(in.common), n.FillBytes(b[:])...)
}

// share returns which part of the interval is between two keys of it.
func (in interval) share(from, to []byte) float64 {
	n := new(big.Int).Sub(in.number(to), in.number(from))
	if in.width.Sign() <= 0 || n.Sign() <= 0 {
		return 1
	}
	f, _ := new(big.Rat).SetFrac(n, in.width).Float64()
	return f
}

// Unordered counts the rows of a range that has no order, and reports whether it has counted all. If there are more, it counts those in some shares of it, which
// are as large as they can be read whole. It takes it that rows are evenly spread, unless it sees that they are not: then it
// returns those that it has counted.
func (k Keys) Unordered(ctx context.Context, start, end []byte, most int) (rows float64, exact bool, err error) {
	const enough = 3 // of the shares must have rows
	scan := func(part, parts int) (scanned, error) {
		return k.scan(ctx, driver.Range{Start: start, End: end, AnyOrder: true, Part: part, Parts: parts}, max(1, most/sampled))
	}
	whole, err := scan(0, 1)
	if err != nil || whole.all {
		return float64(whole.n), true, err
	}
	if rows, all, err := k.prefixes(ctx, start, end, most); err != nil || all {
		return max(rows, float64(whole.n)), false, err
	}
	for parts := 1 << 6; parts <= driver.MaxParts; parts <<= 5 {
		sum, with, all := 0, 0, true
		for i := range sampled {
			s, err := scan((2*i+1)*parts/(2*sampled), parts)
			if err != nil {
				return 0, false, err
			}
			if sum += s.n; s.n > 0 {
				with++
			}
			all = all && s.all
		}
		if with < enough {
			break
		}
		if rows = max(float64(whole.n), float64(sum)/sampled*float64(parts)); all {
			return rows, false, nil
		}
	}
	return max(rows, float64(whole.n)), false, nil
}

// prefixes counts the rows of a range without order prefix by prefix, as Range does for each. It reports whether these
// were all: not where there are many.
func (k Keys) prefixes(ctx context.Context, start, end []byte, most int) (rows float64, all bool, err error) {
	const few = 32 // partitions, of which a prefix has one or more
	spec := k.Spec
	if spec.PrefixBytes == 0 || k.Index != nil {
		return 0, false, nil
	}
	seen := make(map[string]bool)
	var after []byte
	for range few {
		next, err := k.scan(ctx, driver.Range{Start: start, End: end, AnyOrder: true, After: after}, 1)
		if err != nil || next.n == 0 {
			return rows, true, err
		}
		prefix := next.first[:min(spec.PrefixBytes, len(next.first))]
		if !seen[string(prefix)] {
			seen[string(prefix)] = true
			n, _, err := k.Range(ctx, prefix, ope.PrefixEnd(prefix), max(1, most/few))
			if err != nil {
				return 0, false, err
			}
			rows += n
		}
		// The last key of its partition.
		after = bytes.Clone(next.first[:min(spec.PrefixBytes+(spec.SpreadBits+7)/8, len(next.first))])
		if bits := spec.SpreadBits % 8; bits > 0 {
			after[len(after)-1] |= 0xff >> bits
		}
		after = append(after, bytes.Repeat([]byte{0xff}, digits)...)
	}
	return 0, false, nil
}
