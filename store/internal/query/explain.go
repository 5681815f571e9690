package query

import (
	"bytes"
	"context"
	"math"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/estimate"
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
			count = p.unordered
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

// keyRange counts the keys of a range of a way.
func (p *probe) keyRange(ctx context.Context, w *way, r keyRange, most int) (float64, error) {
	rows, exact, err := p.keysOf(w).Range(ctx, r.Start, r.end, most)
	p.exact = p.exact && exact
	return rows, err
}

// unordered counts the rows of a range that has no order.
func (p *probe) unordered(ctx context.Context, w *way, r keyRange, most int) (float64, error) {
	k := p.keysOf(w)
	if w.served() {
		scan := p.f.indexed(w, r)
		r.Start, r.end, k.Index = scan.Start, scan.End, scan.Index
	}
	rows, exact, err := k.Unordered(ctx, r.Start, r.end, most)
	p.exact = p.exact && exact
	return rows, err
}

func (p *probe) keysOf(w *way) estimate.Keys {
	if w.driving != nil && !w.served() {
		return estimate.Keys{Family: p.f.postings, Spec: p.f.table.PostingSpec}
	}
	return estimate.Keys{Family: p.f.data, Spec: p.f.table.Spec, Cells: driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}}}
}

// values counts the postings of values in the index of a mutable scheme. If there are more, it extrapolates by where the last
// one is between the first value that is there and the last.
func (p *probe) values(ctx context.Context, w *way, r keyRange, most int) (rows float64, err error) {
	codes, first, last := 0, r.within.Lo, r.within.Lo
	for code, err := range r.within.Codes(ctx, r.by.Order, false) {
		if err != nil {
			return 0, err
		}
		if codes == probedTokens || rows >= float64(most) {
			p.exact = false
			end := code
			for end, err = range r.within.Codes(ctx, r.by.Order, true) {
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
