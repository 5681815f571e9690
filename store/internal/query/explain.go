package query

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/estimate"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// What a probe reads. The keys of all ways are counted up to a number. Of a way that has more, sets are drawn.
const (
	counted = 4096
	draws   = 64
	drawn   = 32 // rows or postings of a draw
)

// Explain says how a query would be answered.
func Explain(ctx context.Context, t *engine.Engine, q Selection) (e inspect.Explanation, err error) {
	err = UntilNotOvertaken(ctx, func() error {
		err := withoutDamaged(ctx, t, &q, func(t *engine.Engine) (again bool, err error) {
			e, err = explain(ctx, t, q)
			return true, err
		})
		t = t.Env.Now()
		return err
	})
	return e, err
}

func explain(ctx context.Context, t *engine.Engine, q Selection) (e inspect.Explanation, err error) {
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
	e.Estimate.Exact, e.Nulls.Exact = true, true
	left := counted
	for i, w := range f.plan.Ways {
		p := probe{f, &w}
		got, err := p.estimate(ctx, max(left, counted/len(f.plan.Ways)))
		if err != nil {
			return e, cmp.Or(f.confirm(ctx, false), err) // it may be because the index was made again
		}
		left -= got.AtLeast
		of := &e.Estimate
		if i > 0 && q.OrderBy != "" && f.plan.sort == nil {
			of = &e.Nulls // these ways come after those in order
		}
		*of = of.And(got)
	}
	return e, f.confirm(ctx, false)
}

// A probe estimates how many rows or postings the ranges of a way have.
type probe struct {
	f *execution
	w *way
}

func (p probe) estimate(ctx context.Context, most int) (e inspect.Estimate, err error) {
	k := p.keys()
	if e.AtLeast, e.Exact, err = p.count(ctx, k, most); err != nil || e.Exact {
		e.Rows = e.AtLeast
		return e, err
	}
	var byKeys, byRows estimate.Sample
	if !p.w.tokenwise() {
		byKeys, err = k.Draw(ctx, draws, drawn, func(rows []driver.Row) (int, error) { return len(rows), nil })
	}
	if err == nil && p.w.driving != nil {
		byRows, err = p.opened(ctx)
	}
	if err != nil {
		return e, err
	}
	rows, sure := byKeys.Rows, byKeys.Sure()
	if p.w.driving != nil {
		rows, sure = estimate.Better(byKeys, byRows, p.w.tokenwise())
	}
	e.Rows, e.Rough = int(min(max(math.Round(rows), float64(e.AtLeast)), math.MaxInt32)), !sure
	return e, nil
}

// count counts what the way scans, until it has found more than most.
func (p probe) count(ctx context.Context, k estimate.Keys, most int) (n int, all bool, err error) {
	if !p.w.tokenwise() {
		return k.Count(ctx, most)
	}
	f := &finder{execution: p.f, way: *p.w}
	for _, r := range p.w.Ranges {
		for _, err := range f.scannedRange(ctx, r) {
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

// opened draws rows of the table by their keys, opens them, and estimates to how many of these the ranges lead. So it finds a value
// that many rows share.
func (p probe) opened(ctx context.Context) (estimate.Sample, error) {
	t, c := p.f.table, p.w.driving
	need := make([]bool, len(t.Stored))
	c.Add(need)
	all := driver.Range{Start: t.Prefix, End: ope.PrefixEnd(t.Prefix), AnyOrder: t.Parts[0].Encryption != meta.Ordered, Cells: t.Slice(need)}
	k := estimate.Keys{Family: p.f.data, Spec: t.Spec, Scans: []driver.Range{all}}
	scratch := new(rowcodec.Scratch)
	return k.Draw(ctx, draws, drawn, func(rows []driver.Row) (n int, err error) {
		for _, row := range rows {
			r, err := t.Opened(ctx, p.f.data, row, need, scratch)
			if err != nil {
				return 0, err
			}
			if r != nil && p.w.values.Has(c, t.ValueOf(c, r)) {
				n++
			}
		}
		return n, nil
	})
}

// keys returns those of what the way scans.
func (p probe) keys() estimate.Keys {
	t, w := p.f.table, p.w
	k := estimate.Keys{Family: p.f.data, Spec: t.Spec}
	cells := driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}}
	if w.driving != nil && !w.served() {
		k.Family, k.Spec, cells = p.f.postings, t.PostingSpec, driver.Slice{}
	}
	for _, r := range w.Ranges {
		scan := driver.Range{Start: r.Start, End: r.End, AnyOrder: w.anyOrder, Cells: cells}
		if w.served() {
			scan = p.f.indexed(w, r)
		}
		k.Scans = append(k.Scans, scan)
	}
	if !w.anyOrder {
		slices.SortFunc(k.Scans, func(a, b driver.Range) int { return bytes.Compare(a.Start, b.Start) })
	}
	return k
}
