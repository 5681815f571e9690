package query

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/inorder"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A JoinSide is a column of a table that is joined, and the columns that are returned.
type JoinSide struct {
	Table   *engine.Engine
	Column  string
	Columns []string
}

// Join yields pairs of rows, in one attempt.
func Join(ctx context.Context, left, right JoinSide, limit int, yield func(a, b *Found) bool, yielded func() bool) error {
	if limit < 0 {
		return fmt.Errorf("%w: Limit is %d", driver.ErrRange, limit)
	}
	l, r, err := finders(ctx, left, right)
	if err != nil {
		return err
	}
	if err := l.openFamilies(ctx); err != nil {
		return err
	}
	defer l.close()
	if err := r.openBeside(ctx, l.execution); err != nil {
		return err
	}
	confirm := func() error {
		if err := l.confirm(ctx, yielded()); err != nil {
			return err
		}
		return r.confirm(ctx, yielded())
	}
	size := firstPostings
	for batch, err := range matched(ctx, l, r, &size) {
		if err != nil {
			return err
		}
		if err := batch.open(ctx, l, r); err != nil {
			return err
		}
		if err := confirm(); err != nil {
			return err
		}
		size = min(l.atOnce(2*size), r.atOnce(2*size), chunks.FullBatch)
		if !batch.yield(l, r, func(a, b *Found) bool { err = ctx.Err(); return err == nil && yield(a, b) }) {
			return err
		}
	}
	return confirm()
}

// yield yields the pairs of rows of the matches, and reports whether to go on.
func (ms matches) yield(l, r *finder, yield func(a, b *Found) bool) bool {
	for _, m := range ms {
		for _, a := range m.left.hits {
			for _, b := range m.right.hits {
				// Of an order that is lossy, different values may have one ciphertext.
				if l.driving.Type.Compare(l.table.ValueOf(l.driving, a.record), r.table.ValueOf(r.driving, b.record)) == 0 &&
					!yield(a, b) {
					return false
				}
			}
		}
	}
	return true
}

// finders makes ready to read both sides. A join is refused only if it is as the catalogue has both tables now.
func finders(ctx context.Context, left, right JoinSide) (l, r *finder, err error) {
	_, err = left.Table.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		if l, err = left.finder(t); err != nil {
			return err
		}
		_, err = right.Table.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
			if r, err = right.finder(t); err != nil {
				return err
			}
			return joinable(l, r)
		})
		return err
	})
	return l, r, err
}

// finder makes ready to read all postings of the column, as an engine of the table knows it.
func (s JoinSide) finder(t *engine.Engine) (*finder, error) {
	want, err := t.Want(s.Columns)
	if err != nil {
		return nil, err
	}
	c := t.ByName[s.Column]
	if c == nil {
		return nil, fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, s.Column)
	}
	if reason := forms.Unmerged(c); reason != "" {
		return nil, fmt.Errorf("%w: column %q of table %q cannot be joined: it %s", fault.ErrColumn, s.Column, t.Meta.Name, reason)
	}
	pl := &plan{Ways: []way{{driving: c, Ranges: []keyRange{{Range: ranges.Range{Start: c.Lead, End: ope.PrefixEnd(c.Lead)}}}, tree: &predicate.Tree{Op: predicate.All}}}}
	e := &execution{table: t, plan: pl, ways: pl.Ways, want: want, tally: new(inspect.Explanation)}
	e.need = e.needed()
	return &finder{execution: e, way: pl.Ways[0]}, nil
}

// joinable returns an error unless equal values of both columns are found by equal postings.
func joinable(l, r *finder) error {
	a, b, reason := l.driving, r.driving, "they are not of one tenant"
	if l.table.Tenant.Same(r.table.Tenant) {
		reason = metaOf(l.table.View, a).Differs(l.table.Meta.ID, metaOf(r.table.View, b), r.table.Meta.ID)
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w: column %q of table %q cannot be joined with %q of %q: %s", fault.ErrColumn,
		a.Name, l.table.Meta.Name, b.Name, r.table.Meta.Name, reason)
}

// metaOf returns what the catalogue says of a column.
func metaOf(t *rowcodec.View, c *rowcodec.Column) *meta.Field {
	i := slices.IndexFunc(t.Meta.Columns, func(m meta.Field) bool { return m.ID == c.Id })
	return &t.Meta.Columns[i]
}

// openBeside opens the families of the instant that another finder sees, if it sees one.
func (f *execution) openBeside(ctx context.Context, other *execution) (err error) {
	if other.snapshot == nil {
		return f.openFamilies(ctx)
	}
	f.rely()
	f.unconfirmed.Store(true)
	if f.data, err = other.snapshot.Family(ctx, f.table.Spec); err != nil {
		return err
	}
	if f.postings, err = other.snapshot.Family(ctx, f.table.PostingSpec); err != nil {
		return err
	}
	f.version, err = f.table.Env.VersionIn(ctx, other.snapshot)
	return err
}

// A match is postings of both columns that carry the same.
type match struct{ left, right matchSide }

type matchSide struct {
	postings []driver.Row
	hits     []*Found // what they lead to
}

type matches []match

// matched yields matches, as many at a time as have size postings on either side.
func matched(ctx context.Context, l, r *finder, size *int) iter.Seq2[matches, error] {
	pairs := inorder.Pairs(l.groups(ctx), r.groups(ctx), func(a, b []driver.Row) int {
		return bytes.Compare(l.driving.Carried(a[0].Key), r.driving.Carried(b[0].Key))
	})
	return func(yield func(matches, error) bool) {
		var batch matches
		n, m := 0, 0
		for pair, err := range pairs {
			if err != nil {
				yield(nil, err)
				return
			}
			batch = append(batch, match{matchSide{postings: pair[0]}, matchSide{postings: pair[1]}})
			if n, m = n+len(pair[0]), m+len(pair[1]); max(n, m) >= *size {
				if !yield(batch, nil) {
					return
				}
				batch, n, m = nil, 0, 0
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// groups yields the postings of the driving column, those together that carry the same.
func (f *finder) groups(ctx context.Context) iter.Seq2[[]driver.Row, error] {
	c, r := f.driving, f.Ranges[0]
	postings := func(yield func(driver.Row, error) bool) {
		for row, err := range chunks.Scanned(ctx, f.postings, driver.Range{Start: r.Start, End: r.End}) {
			if f.seen != nil {
				f.unconfirmed.Store(true) // it may be of after the last check
			}
			if err == nil {
				_, _, _, err = c.CutPosting(row.Key)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
	return inorder.Groups(postings, func(a, b driver.Row) bool { return bytes.Equal(c.Carried(a.Key), c.Carried(b.Key)) })
}

// open reads the rows that the postings lead to, many at a time, and leaves out what does not count.
func (ms matches) open(ctx context.Context, l, r *finder) error {
	group, ctx := relay.WithContext(ctx)
	side := func(f *finder, of func(*match) *matchSide) {
		group.Go(func() error {
			var postings []driver.Row
			for i := range ms {
				postings = append(postings, of(&ms[i]).postings...)
			}
			hits, err := f.open(ctx, keyRange{}, postings, 1)()
			if err != nil {
				return err
			}
			for i := range ms {
				s := of(&ms[i])
				for _, hit := range hits[:len(s.postings)] {
					if hit != nil && f.first(hit) {
						hit.by = f
						s.hits = append(s.hits, hit)
					}
				}
				hits = hits[len(s.postings):]
			}
			return nil
		})
	}
	side(l, func(m *match) *matchSide { return &m.left })
	side(r, func(m *match) *matchSide { return &m.right })
	return group.Wait()
}
