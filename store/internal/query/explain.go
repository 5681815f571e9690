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

// scan returns how many keys a scan yields, at most so many, the last of them, and whether these are all.
func (p *probe) scan(ctx context.Context, w *way, r driver.Range, most int) (n int, last []byte, all bool, err error) {
	family := p.f.data
	if w.driving != nil {
		family = p.f.postings
	} else {
		r.Cells.Only = [][]byte{rowcodec.KeyQualifier}
	}
	r.Limit = most + 1
	for row, err := range engine.Scanned(ctx, family, r) {
		if err != nil {
			return n, nil, false, err
		}
		if n == most {
			return n, last, false, nil
		}
		n, last = n+1, row.Key
	}
	return n, last, true, nil
}

// keyRange counts the keys of a range. If there are more, it extrapolates by where in the range the last one is.
func (p *probe) keyRange(ctx context.Context, w *way, r keyRange, most int) (float64, error) {
	n, last, all, err := p.scan(ctx, w, driver.Range{Start: r.Start, End: r.end}, most)
	if err != nil || all {
		return float64(n), err
	}
	p.exact = false
	return float64(n) / share(r.Start, r.end, last), nil
}

// share returns which part of a range is up to a key.
func share(start, end, key []byte) float64 {
	n := 0
	for n < len(start) && n < len(end) && start[n] == end[n] {
		n++
	}
	number := func(b []byte) *big.Float {
		var digits [32]byte
		copy(digits[:], b[min(n, len(b)):])
		return new(big.Float).SetInt(new(big.Int).SetBytes(digits[:]))
	}
	top := number(bytes.Repeat([]byte{0xff}, n+32))
	if end != nil {
		top = number(end)
	}
	bottom := number(start)
	part, whole := new(big.Float).Sub(number(key), bottom), new(big.Float).Sub(top, bottom)
	if whole.Sign() <= 0 {
		return 1
	}
	f, _ := part.Quo(part, whole).Float64()
	return min(max(f, 1e-9), 1)
}

// partitions counts the rows of a range that has no order in small shares of it, and in larger ones until there are
// enough. It takes it that rows are evenly spread.
func (p *probe) partitions(ctx context.Context, w *way, r keyRange, most int) (rows float64, err error) {
	const enough = 50
	for _, parts := range []int{driver.MaxParts, 1 << 12, 1 << 6, 1} {
		n, _, all, err := p.scan(ctx, w, driver.Range{Start: r.Start, End: r.end, AnyOrder: true, Part: parts / 2, Parts: parts}, max(1, most/4))
		if err != nil {
			return 0, err
		}
		rows = float64(n) * float64(parts)
		if parts == 1 && all {
			return rows, nil
		}
		if n >= enough || !all {
			break
		}
	}
	p.exact = false
	return rows, nil
}

// values counts the postings of values in the index of a mutable scheme.
func (p *probe) values(ctx context.Context, w *way, r keyRange, most int) (rows float64, err error) {
	codes, last := 0, r.within.Lo
	for code, err := range codesOf(ctx, r.by.Order, r.within, false) {
		if err != nil {
			return 0, err
		}
		if codes == probedTokens || rows >= float64(most) {
			p.exact = false
			done := (float64(last) - float64(r.within.Lo) + 1) / (float64(r.within.Hi) - float64(r.within.Lo) + 1)
			return rows / min(max(done, 1e-9), 1), nil
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
