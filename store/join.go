package store

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Joined is a row of each of two tables, with equal values in the columns that were joined.
type Joined struct{ Left, Right Row }

// JoinOptions are the optional parameters of [Join]. The zero value is the default.
type JoinOptions struct {
	// Left and Right are the names of the columns that are returned of either table; nil means all.
	// Key parts are always returned.
	Left, Right []string

	// Limit is how many pairs are yielded at most; 0 is no limit.
	Limit int
}

// Join yields all pairs of rows of two tables, or of one with itself, that have equal values in two
// columns: the inner join. Duplicates give their product, and null equals nothing. The pairs come
// in an order of their own.
//
// Both columns must be deterministic or ordered and have one search key, see [Column.SharedWith] and
// [Column.DatabaseWide]; otherwise it is [ErrColumn], with the reason. Then what the database has of
// equal values is equal, and the postings of both columns are merged without a row being read: only
// rows that have a partner are. Every row is verified like one that a query finds, and what is
// promised when rows change meanwhile is what [Table.Query] promises of each table; on a database
// with snapshots a join sees one instant.
//
// It reads lazily. Its memory is that of the largest set of rows with one value, and 16 bytes a row
// on a database without snapshots. Both tables must be of one [Store].
func Join(ctx context.Context, left *Table, leftColumn string, right *Table, rightColumn string, opts *JoinOptions) iter.Seq2[Joined, error] {
	return func(yield func(Joined, error) bool) {
		n, err := 0, error(nil)
		ctx, end := left.st.observer.operation(ctx, "join", left.now().family())
		defer func() { end(n, err) }()
		if opts == nil {
			opts = &JoinOptions{}
		}
		for _, tbl := range []*Table{left, right} {
			if _, err = tbl.use(); err != nil {
				yield(Joined{}, err)
				return
			}
		}
		for again := true; again && err == nil; {
			again, err = join(ctx, left.now(), leftColumn, right.now(), rightColumn, opts, func(j Joined) bool {
				n++
				return yield(j, nil) && n != opts.Limit
			}, func() bool { return n > 0 })
		}
		if err != nil {
			err = fmt.Errorf("store: join %q and %q: %w", left.now().schema.Name, right.now().schema.Name, left.now().gone(err))
			yield(Joined{}, err)
		}
	}
}

// join does so in two views, and reports whether to do it again in newer ones.
func join(ctx context.Context, left *view, leftColumn string, right *view, rightColumn string, opts *JoinOptions,
	yield func(Joined) bool, yielded func() bool) (again bool, err error) {
	if opts.Limit < 0 {
		return false, fmt.Errorf("%w: Limit is %d", driver.ErrRange, opts.Limit)
	}
	l, err := left.joined(leftColumn, opts.Left)
	if err != nil {
		return false, err
	}
	r, err := right.joined(rightColumn, opts.Right)
	if err != nil {
		return false, err
	}
	if err := joinable(l, r); err != nil {
		return false, err
	}
	if err := l.openFamilies(ctx); err != nil {
		return false, err
	}
	defer l.close()
	if err := r.openBeside(ctx, l); err != nil {
		return false, err
	}
	// checked makes sure that the postings so far lead to all rows that there were.
	checked := func() (bool, error) {
		for _, f := range []*finder{l, r} {
			ok, err := f.stillDrives(ctx)
			if err != nil {
				return false, err
			}
			if !ok && yielded() {
				return false, fmt.Errorf("%w: column %q", ErrSchemaChanged, f.plan.driving.name)
			}
			if !ok {
				again = true
				return false, nil
			}
		}
		return true, nil
	}
	size := firstPostings
	for batch, err := range matched(ctx, l, r, &size) {
		if err != nil {
			return false, err
		}
		if err := batch.open(ctx, l, r); err != nil {
			return false, err
		}
		if ok, err := checked(); !ok {
			return again, err
		}
		size = min(2*size, fullBatch)
		for _, m := range batch {
			for _, a := range m.left.hits {
				for _, b := range m.right.hits {
					// Of an order that is lossy, different values may have one ciphertext.
					if l.plan.driving.typ.compare(left.valueOf(l.plan.driving, a), right.valueOf(r.plan.driving, b)) == 0 &&
						!yield(Joined{a.row(), b.row()}) {
						return false, nil
					}
				}
			}
		}
	}
	_, err = checked()
	return again, err
}

// joined makes ready to read all postings of a column.
func (t *view) joined(name string, columns []string) (*finder, error) {
	want, err := t.want(columns)
	if err != nil {
		return nil, err
	}
	c := t.byName[name]
	reason := ""
	switch {
	case c == nil:
		return nil, fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.schema.Name, name)
	case c.part >= 0:
		reason = "is a part of the row key: get the rows of its values instead"
	case !c.searched():
		reason = fmt.Sprintf("is %s: only deterministic and ordered columns are searched", c.encryption)
	case !c.drives():
		reason = "was changed, and not all rows were converted"
	}
	if reason != "" {
		return nil, fmt.Errorf("%w: column %q of table %q cannot be joined: it %s", ErrColumn, name, t.schema.Name, reason)
	}
	pl := &plan{driving: c, ranges: []keyRange{{start: c.lead, end: ope.PrefixEnd(c.lead)}}}
	f := &finder{table: t, plan: pl, want: want, explain: new(Explanation)}
	f.need = f.needed()
	return f, nil
}

// joinable returns an error unless equal values of both columns are found by equal postings.
func joinable(l, r *finder) error {
	a, b := l.plan.driving, r.plan.driving
	refused := func(reason string) error {
		return fmt.Errorf("%w: column %q of table %q cannot be joined with %q of %q: %s", ErrColumn,
			a.name, l.table.schema.Name, b.name, r.table.schema.Name, reason)
	}
	if l.table.st != r.table.st {
		return refused("the tables are of two Stores")
	}
	m, n := l.table.metaOf(a), r.table.metaOf(b)
	switch {
	case !l.table.tbl.tenant.same(r.table.tbl.tenant):
		return refused("they are not of one tenant")
	case !slices.Equal(m.secureType(), n.secureType()):
		return refused("their types, encryptions or schemes differ")
	case m.Confidentiality == ofDatabase && n.Confidentiality == ofDatabase:
	case m.Confidentiality == ofDatabase || n.Confidentiality == ofDatabase || m.owner(l.table.meta.ID) != n.owner(r.table.meta.ID):
		return refused("they have search keys of their own; see SharedWith and DatabaseWide")
	}
	return nil
}

// metaOf returns what the catalogue says of a column.
func (t *view) metaOf(c *column) *fieldMeta {
	i := slices.IndexFunc(t.meta.Columns, func(m fieldMeta) bool { return m.ID == c.id })
	return &t.meta.Columns[i]
}

// openBeside opens the families of the instant that another finder sees, if it sees one.
func (f *finder) openBeside(ctx context.Context, other *finder) (err error) {
	if other.snapshot == nil {
		return f.openFamilies(ctx)
	}
	f.unchecked.Store(true)
	if f.data, err = other.snapshot.Family(ctx, f.table.spec); err != nil {
		return err
	}
	if f.postings, err = other.snapshot.Family(ctx, f.table.postingSpec); err != nil {
		return err
	}
	f.catalogue, err = other.snapshot.Family(ctx, catalogueSpec)
	return err
}

// A match is postings of both columns that carry the same.
type match struct{ left, right matchSide }

type matchSide struct {
	postings []driver.Row
	hits     []*found // what they lead to
}

type matches []match

// matched yields matches, as many at a time as have size postings on either side.
func matched(ctx context.Context, l, r *finder, size *int) iter.Seq2[matches, error] {
	return func(yield func(matches, error) bool) {
		left, stopLeft := iter.Pull2(l.groups(ctx))
		defer stopLeft()
		right, stopRight := iter.Pull2(r.groups(ctx))
		defer stopRight()
		a, errA, moreA := left()
		b, errB, moreB := right()
		var batch matches
		n, m := 0, 0
		for moreA && moreB && errA == nil && errB == nil {
			order := bytes.Compare(l.plan.driving.carried(a[0].Key), r.plan.driving.carried(b[0].Key))
			if order == 0 {
				batch = append(batch, match{matchSide{postings: a}, matchSide{postings: b}})
				if n, m = n+len(a), m+len(b); max(n, m) >= *size {
					if !yield(batch, nil) {
						return
					}
					batch, n, m = nil, 0, 0
				}
			}
			if order <= 0 {
				a, errA, moreA = left()
			}
			if order >= 0 {
				b, errB, moreB = right()
			}
		}
		switch {
		case errA != nil:
			yield(nil, errA)
		case errB != nil:
			yield(nil, errB)
		case len(batch) > 0:
			yield(batch, nil)
		}
	}
}

// groups yields the postings of the driving column, those together that carry the same.
func (f *finder) groups(ctx context.Context) iter.Seq2[[]driver.Row, error] {
	return func(yield func([]driver.Row, error) bool) {
		c, r := f.plan.driving, f.plan.ranges[0]
		var group []driver.Row
		for row, err := range scanned(ctx, f.postings, driver.Range{Start: r.start, End: r.end}) {
			if f.seen != nil {
				f.unchecked.Store(true) // it may be of after the last check
			}
			if err == nil {
				_, _, _, err = c.cutPosting(row.Key)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(group) > 0 && !bytes.Equal(c.carried(group[0].Key), c.carried(row.Key)) {
				if !yield(group, nil) {
					return
				}
				group = nil
			}
			group = append(group, row)
		}
		if len(group) > 0 {
			yield(group, nil)
		}
	}
}

// carried returns what a posting carries, which was cut before.
func (c *column) carried(posting []byte) []byte { return posting[len(c.lead):][:c.size] }

// open reads the rows that the postings lead to, many at a time, and leaves out what does not count.
func (ms matches) open(ctx context.Context, l, r *finder) error {
	group, ctx := errgroup.WithContext(ctx)
	side := func(f *finder, of func(*match) *matchSide) {
		group.Go(func() error {
			var postings []driver.Row
			for i := range ms {
				postings = append(postings, of(&ms[i]).postings...)
			}
			hits, err := f.resolve(ctx, keyRange{}, postings)
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
