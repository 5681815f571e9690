package query

import (
	"bytes"
	"context"
	"math"
	"math/big"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// What a probe reads at most.
const (
	probedKeys   = 1000
	probedRanges = 16 // of one way
	probedTokens = 50 // of one range
)

// Explain says how a query would be answered.
func Explain(ctx context.Context, t *engine.Engine, q Selection) (e inspect.Explanation, err error) {
	var f *execution
	_, err = t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		f, err = newExecution(ctx, t, q, &e)
		return err
	})
	if err != nil {
		return e, err
	}
	if err := f.openFamilies(ctx); err != nil {
		return e, err
	}
	defer f.close()
	f.describe()
	p := probe{f: f, exact: true}
	for i := range f.plan.Ways {
		if err := p.way(ctx, &f.plan.Ways[i], max(1, probedKeys/len(f.plan.Ways))); err != nil {
			return e, err
		}
	}
	e.Estimate, e.Exact = int(min(math.Round(p.rows), math.MaxInt32)), p.exact
	return e, nil
}

// A probe counts keys of ranges.
type probe struct {
	f     *execution
	rows  float64
	exact bool
}

// way adds the rows or postings of a way, of which it reads so many keys.
func (p *probe) way(ctx context.Context, w *way, keys int) error {
	n := min(len(w.Ranges), probedRanges, keys)
	p.exact = p.exact && n == len(w.Ranges)
	sum := 0.0
	for i := range n {
		r := w.Ranges[i*len(w.Ranges)/n]
		count := p.keyRange
		switch {
		case w.anyOrder:
			count = p.partitions
		case w.tokenwise():
			count = p.values
		}
		rows, err := count(ctx, w, r, max(1, keys/n))
		if err != nil {
			return err
		}
		sum += rows
	}
	if n > 0 {
		p.rows += sum * float64(len(w.Ranges)) / float64(n)
	}
	return nil
}

// A scanned is what a scan of a probe yielded: so many keys, and whether these are all that there are.
type scanned struct {
	n           int
	first, last []byte
	all         bool
}

// scan reads at most so many keys.
func (p *probe) scan(ctx context.Context, w *way, r driver.Range, most int) (s scanned, err error) {
	family := p.f.data
	if w.driving != nil {
		family = p.f.postings
	} else {
		r.Cells.Only = [][]byte{rowcodec.KeyQualifier}
	}
	r.Limit = most + 1
	for row, err := range engine.Scanned(ctx, family, r) {
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

// keyRange counts the keys of a range. If there are more, it extrapolates from how dense they are at some places between the
// first key that is there and the last. It takes it that keys are evenly spread. Where they are in clusters, its places are
// in the gaps between them, and the estimate is too low rather than too high.
func (p *probe) keyRange(ctx context.Context, w *way, r keyRange, most int) (float64, error) {
	got, err := p.scan(ctx, w, driver.Range{Start: r.Start, End: r.end}, most)
	if err != nil || got.all {
		return float64(got.n), err
	}
	p.exact = false
	end, err := p.scan(ctx, w, driver.Range{Start: r.Start, End: r.end, Reverse: true}, 1)
	if err != nil || end.n == 0 { // they are gone since
		return float64(got.n), err
	}
	keys, rows := newInterval(got.first, end.first), 0.0
	for i := range sampled {
		place := keys.at(2*i+1, 2*sampled)
		s, err := p.scan(ctx, w, driver.Range{Start: place, End: r.end}, max(1, most/sampled))
		if err != nil {
			return 0, err
		}
		if s.n > 1 {
			rows += float64(s.n-1) / keys.share(place, s.last) / sampled
		}
	}
	return max(rows, float64(got.n)), nil
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

// partitions counts the rows of a range that has no order. If there are more, it counts those in some shares of it, which
// are as large as they can be read whole. It takes it that rows are evenly spread, unless it sees that they are not: then it
// returns those that it has counted.
func (p *probe) partitions(ctx context.Context, w *way, r keyRange, most int) (rows float64, err error) {
	const enough = 3 // of the shares must have rows
	scan := func(part, parts int) (scanned, error) {
		return p.scan(ctx, w, driver.Range{Start: r.Start, End: r.end, AnyOrder: true, Part: part, Parts: parts}, max(1, most/sampled))
	}
	whole, err := scan(0, 1)
	if err != nil || whole.all {
		return float64(whole.n), err
	}
	p.exact = false
	if rows, all, err := p.prefixes(ctx, w, r, most); err != nil || all {
		return max(rows, float64(whole.n)), err
	}
	for parts := 1 << 6; parts <= driver.MaxParts; parts <<= 5 {
		sum, with, all := 0, 0, true
		for i := range sampled {
			s, err := scan((2*i+1)*parts/(2*sampled), parts)
			if err != nil {
				return 0, err
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
			return rows, nil
		}
	}
	return max(rows, float64(whole.n)), nil
}

// prefixes counts the rows of a range without order prefix by prefix, as keyRange does for each. It reports whether these
// were all: not where there are many.
func (p *probe) prefixes(ctx context.Context, w *way, r keyRange, most int) (rows float64, all bool, err error) {
	const few = 32 // partitions, of which a prefix has one or more
	spec := p.f.table.Spec
	if w.driving != nil {
		spec = p.f.table.PostingSpec
	}
	if spec.PrefixBytes == 0 {
		return 0, false, nil
	}
	seen := make(map[string]bool)
	var after []byte
	for range few {
		next, err := p.scan(ctx, w, driver.Range{Start: r.Start, End: r.end, AnyOrder: true, After: after}, 1)
		if err != nil || next.n == 0 {
			return rows, true, err
		}
		prefix := next.first[:min(spec.PrefixBytes, len(next.first))]
		if !seen[string(prefix)] {
			seen[string(prefix)] = true
			n, err := p.keyRange(ctx, w, keyRange{Start: prefix, end: ope.PrefixEnd(prefix)}, max(1, most/few))
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

// values counts the postings of values in the index of a mutable scheme. If there are more, it extrapolates by where the last
// one is between the first value that is there and the last.
func (p *probe) values(ctx context.Context, w *way, r keyRange, most int) (rows float64, err error) {
	codes, first, last := 0, r.within.Lo, r.within.Lo
	for code, err := range codesOf(ctx, r.by.Order, r.within, false) {
		if err != nil {
			return 0, err
		}
		if codes == probedTokens || rows >= float64(most) {
			p.exact = false
			end := code
			for end, err = range codesOf(ctx, r.by.Order, r.within, true) {
				if err != nil {
					return 0, err
				}
				break
			}
			return rows / min(max((float64(last)-float64(first))/(float64(end)-float64(first)), 1e-9), 1), nil
		}
		if codes == 0 {
			first = code
		}
		key := r.by.AppendTag(bytes.Clone(r.by.Lead), code)
		n, err := p.keyRange(ctx, w, keyRange{Start: key, end: ope.PrefixEnd(key)}, max(1, most-int(rows)))
		if err != nil {
			return 0, err
		}
		rows, codes, last = rows+n, codes+1, code
	}
	return rows, nil
}
