package pages

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// What follows is for copies of a table: rows become what another table has, while its writers go on.

// A Looker says what rows are to be, nil for no row, from what they are as their page was just read. The numbers are those of the
// keys that Sync was given. It may be called again for a row, and for rows of different partitions at the same time. Of a page whose
// rows are as they are to be it says so by false.
type Looker func(ctx context.Context, e *engine.Engine, which []int, was []*rowcodec.Record) (becomes []*rowcodec.Record, write bool, err error)

// Sync makes the rows with some keys, each given once, what look says. A page is written only if nobody has written it since look
// was called for it; otherwise it is read again, and look called again. So what look has read is newer than all that it replaces.
// Where the schema changes meanwhile, the pages are written once more, under the new one.
func (t *Table) Sync(ctx context.Context, e *engine.Engine, keys []rowcodec.RowValues, look Looker) error {
	becomes := make([]*rowcodec.Record, len(keys))
	looks := func(ctx context.Context, e *engine.Engine, of []change, rows []*rowcodec.Record) (bool, error) {
		which, was := make([]int, len(of)), make([]*rowcodec.Record, len(of))
		for i, c := range of {
			which[i], was[i] = c.index, withKey(rows, c.key)
		}
		all, write, err := look(ctx, e, which, was)
		if err != nil {
			return false, err
		}
		for i, r := range all {
			if becomes[which[i]], of[i].size = r, 0; r != nil {
				of[i].size = size(e.View, r)
			}
		}
		return write, nil
	}
	return t.change(ctx, e, "copy", len(keys), func(v *rowcodec.View, i int) (*rowcodec.Record, change, error) {
		r, err := bykey.Named(v, keys[i])
		return r, change{look: looks, make: func(*rowcodec.View, *rowcodec.Record) (*rowcodec.Record, error) { return becomes[i], nil }}, err
	})
}

// Fits returns [driver.ErrTooLarge] if a row has too many bytes for a page.
func Fits(v *rowcodec.View, r *rowcodec.Record) error { return fits(size(v, r)) }

// See reads rows by their keys, nil where there is none, and returns the table whose view they are of.
func (t *Table) See(ctx context.Context, e *engine.Engine, keys [][]byte) (*engine.Engine, []*rowcodec.Record, error) {
	seen, order := make([]*rowcodec.Record, len(keys)), make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	parts := byPart(e.Spec, order, func(i int) []byte { return keys[i] })
	err := t.retry(ctx, e, func(now *engine.Engine) error {
		e = now
		return e.Env.Concurrently(ctx, len(parts), func(ctx context.Context, i int) error { return t.seePart(ctx, e, parts[i], keys, seen) })
	})
	return e, seen, err
}

// seePart reads those of one part, by their numbers in the order of keys.
func (t *Table) seePart(ctx context.Context, e *engine.Engine, of []int, keys [][]byte, seen []*rowcodec.Record) error {
	for len(of) > 0 {
		p, err := t.find(ctx, e, keys[of[0]], true)
		if err != nil {
			return err
		}
		var rows []*rowcodec.Record
		var till []byte
		if p != nil { // otherwise the part has no page
			if rows, err = t.keyed(ctx, e.View, p); err != nil {
				return err
			}
			till = p.till(keys[of[0]])
		}
		for len(of) > 0 && (till == nil || bytes.Compare(keys[of[0]], till) < 0) {
			seen[of[0]] = withKey(rows, keys[of[0]])
			of = of[1:]
		}
	}
	return nil
}

// Share calls do with the rows of a share of the table, those of one page at a time. With them comes the latest stamp of the page's
// cells, 0 where the database has none. A row is always in the same share, and comes once if it is there from the beginning to the end.
func (t *Table) Share(ctx context.Context, e *engine.Engine, part inspect.Part, do func(e *engine.Engine, rows []*rowcodec.Record, stamp int64) error) error {
	r := driver.Range{AnyOrder: true, Part: part.Index, Parts: part.Of}
	if e.Spec.PrefixBytes > 0 {
		return t.chains(ctx, e, r, do)
	}
	if r = r.Share(); r.Empty() {
		return nil
	}
	_, err := t.chain(ctx, e, startOf(r.Start), r.End, do)
	return err
}

// chains goes along the chains whose first pages are in a scan.
func (t *Table) chains(ctx context.Context, e *engine.Engine, r driver.Range, do func(*engine.Engine, []*rowcodec.Record, int64) error) error {
	r.Cells = driver.Slice{Only: [][]byte{versionCell}}
	last := part{end: []byte{}} // which has no key
	for row, err := range e.Data.Scan(ctx, r) {
		if err != nil {
			return err
		}
		of := partOf(e.Spec, row.Key)
		switch {
		case bytes.Equal(row.Key, of.root):
			if e, err = t.chain(ctx, e, of.root, of.end, do); err != nil {
				return err
			}
		case !last.has(row.Key): // its first page may be in another share, and is there in any case
			there, err := chunks.Exists(ctx, e.Data, of.root)
			if err == nil && !there {
				err = errMissing
			}
			if err != nil {
				return located(e, err)
			}
		}
		last = of
	}
	return nil
}

// chain goes along rows with keys from one on that are below another one. It returns the table as it was at the end, since the
// schema may change meanwhile.
func (t *Table) chain(ctx context.Context, e *engine.Engine, start, end []byte, do func(*engine.Engine, []*rowcodec.Record, int64) error) (*engine.Engine, error) {
	var failed error
	w := &walk{t: t, e: e, sealed: true, stamps: true}
	w.yield = func(r run) bool {
		rows, err := t.keyed(ctx, w.e.View, r.page)
		if err != nil {
			failed = located(w.e, err)
			return false
		}
		rows = slices.DeleteFunc(rows[:r.to], func(r *rowcodec.Record) bool {
			return bytes.Compare(r.Key, start) < 0 || end != nil && bytes.Compare(r.Key, end) >= 0
		})
		if len(rows) > 0 {
			failed = do(w.e, rows, r.stamp)
		}
		return failed == nil
	}
	for from := start; ; from = w.from {
		err := w.between(ctx, from, end)
		since, is := newer(err)
		if !is {
			return w.e, cmp.Or(failed, located(w.e, err))
		}
		if w.e, err = w.e.Env.AtLeast(ctx, since); err != nil {
			return w.e, err
		}
	}
}
