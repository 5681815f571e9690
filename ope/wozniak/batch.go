package wozniak

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope"
)

// A batch is encrypted in parts of this many values, each by one walk from the root, so that the
// common path to them costs nothing, and a cancelled batch ends soon.
const batchPart = 1 << 13

// EncryptBatch implements [ope.BatchEncrypter]. It uses up to GOMAXPROCS goroutines, and ends with
// the context's error if ctx is cancelled. The ciphertexts lie side by side in one array, so that
// one that is kept keeps them all in memory.
func (s *Scheme) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	if err := cmp.Or(made(s.id), ctx.Err()); err != nil {
		return nil, err
	}
	items := make([]item, len(xs))
	for i, x := range xs {
		if err := s.check(x); err != nil {
			return nil, fmt.Errorf("value at position %d: %w", i, err)
		}
		items[i] = item{s.domain.Offset(x), i}
	}
	if !slices.IsSorted(xs) {
		slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.rank, b.rank) })
	}
	size := s.size()
	out := make([]byte, len(xs)*size)
	set := func(it item, excess u192) {
		c := s.tree.low.add(u192{lo: it.rank}).add(excess)
		c.appendTo(out[it.place*size:it.place*size], size)
	}
	var next atomic.Int64
	work := func() {
		w := s.tree.get()
		defer s.tree.put(w)
		for ctx.Err() == nil {
			from := (int(next.Add(1)) - 1) * batchPart
			if from >= len(items) {
				return
			}
			s.tree.walk(w, items[from:min(from+batchPart, len(items))], set)
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (len(items)+batchPart-1)/batchPart) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cs := make([]ope.Ciphertext, len(xs))
	for i := range cs {
		cs[i] = out[i*size : (i+1)*size : (i+1)*size]
	}
	return cs, nil
}

// An item is a rank to encrypt and the place of its ciphertext in the batch.
type item struct {
	rank  uint64
	place int
}

// walk sets the excess of all items, which are in the order of their ranks.
func (t *tree) walk(w *walker, items []item, set func(item, u192)) {
	for len(items) > 0 && items[0].rank == 0 {
		set(items[0], u192{})
		items = items[1:]
	}
	for last := len(items) - 1; last >= 0 && items[last].rank == t.span; last-- {
		set(items[last], t.slack)
		items = items[:last]
	}
	if len(items) > 0 {
		t.root().walk(w, u192{}, items, set)
	}
}

// walk is walk for items of the node, whose lower neighbour has the excess e.
func (n node) walk(w *walker, e u192, items []item, set func(item, u192)) {
	for len(items) > 0 {
		if first := items[0].rank; first == items[len(items)-1].rank { // one rank, maybe several times
			e = e.add(n.excess(w, first))
			for _, it := range items {
				set(it, e)
			}
			return
		}
		i, x := w.sample(&n)
		p := n.min + i
		from, _ := slices.BinarySearchFunc(items, p, func(it item, p uint64) int {
			return cmp.Compare(it.rank, p)
		})
		if from > 0 {
			lower := n
			lower.last, lower.slack = i-1, x
			lower.walk(w, e, items[:from], set)
		}
		e = e.add(x)
		for items = items[from:]; len(items) > 0 && items[0].rank == p; items = items[1:] {
			set(items[0], e)
		}
		n.min, n.last, n.slack = p+1, n.last-i-1, n.slack.sub(x)
	}
}
