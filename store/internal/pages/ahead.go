package pages

import (
	"bytes"
	"context"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
)

const (
	mostAhead  = 256 // ranges whose first pages are read ahead
	together   = 32  // pages that are read at a time
	bytesAhead = 8 << 20
)

// readAhead reads the pages in which ranges begin, many at a time. Ranges that begin in a page which has been read need no other.
func (w *walk) readAhead(ctx context.Context, of []ranges.Range) error {
	w.ahead = nil
	var left [][]byte
	for _, r := range of {
		if start := startOf(r.Start); !bytes.Equal(start, partOf(w.e.Spec, start).root) {
			left = append(left, start)
		}
	}
	for total := 0; len(left) > 1 && total < bytesAhead; {
		step := (len(left) + together - 1) / together
		found := make([]*page, (len(left)+step-1)/step)
		err := w.e.Env.Concurrently(ctx, len(found), func(ctx context.Context, i int) (err error) {
			found[i], err = w.t.find(ctx, w.e, left[i*step], w.sealed)
			return err
		})
		if err != nil {
			return err
		}
		var rest [][]byte
		for i, p := range found {
			rest = append(rest, left[i*step+1:min(len(left), (i+1)*step)]...)
			if p != nil {
				total += p.size
				w.ahead = append(w.ahead, p)
			}
		}
		slices.SortStableFunc(w.ahead, func(a, b *page) int { return bytes.Compare(a.key, b.key) })
		w.ahead = slices.CompactFunc(w.ahead, func(a, b *page) bool { return bytes.Equal(a.key, b.key) })
		left = slices.DeleteFunc(rest, func(start []byte) bool { return w.aheadOf(start) != nil })
	}
	return nil
}

// aheadOf returns the page that was read ahead and has a key, or nil.
func (w *walk) aheadOf(key []byte) *page {
	i, found := slices.BinarySearchFunc(w.ahead, key, func(p *page, key []byte) int { return bytes.Compare(p.key, key) })
	if !found {
		i--
	}
	if i < 0 || !w.ahead[i].reaches(key) || !partOf(w.e.Spec, w.ahead[i].key).has(key) {
		return nil
	}
	return w.ahead[i]
}

// startOf returns the first key that a range may have which starts at a bound.
func startOf(bound []byte) []byte {
	if len(bound) == 0 {
		return []byte{0}
	}
	return bound
}
