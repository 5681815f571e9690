package maintain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// rebuild makes a damaged index again, goes on with what is known of the table then, and reports
// whether the index is in order.
func (v *Verifier) rebuild(ctx context.Context, id meta.ColumnID) (bool, error) {
	t, c := v.table, v.statefulColumn(id)
	if c == nil {
		return true, nil
	}
	err := rewrite.Reindex(ctx, v.of, t, c.Name, func(rows int) { v.progress("making an index again", rows) })
	if errors.Is(err, catalogue.ErrPutBack) {
		v.report.PutBack = true // which the rows tell, too, when they are read
		return false, nil
	}
	if fault.Refused(err) || errors.Is(err, ope.ErrFull) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("column %q: %w", c.Name, err)
	}
	now, err := t.Env.Refresh(ctx)
	if err != nil {
		return false, err
	}
	if err := v.goOn(ctx, now); err != nil {
		return false, err
	}
	if is := v.table.ByName[c.Name]; is != nil && v.statefulColumn(id) == nil {
		id = is.Id // it has got another, with an index of its own
	}
	faults, err := v.readIndex(ctx, id)
	if is := v.statefulColumn(id); len(faults) > 0 && err == nil && is != nil && forms.Settled(is) && !forms.Settled(c) {
		return v.rebuild(ctx, id) // what was finished was a conversion, and no index
	}
	v.lost[id] = len(faults) > 0
	return len(faults) == 0, err
}

// mendRows mends what is wrong with rows, and makes sure that what it wrote is such as others expect it by
// then, as writers do.
func (v *Verifier) mendRows(ctx context.Context, found []rowCheck) error {
	if mended, err := v.mendRanks(ctx, found); err != nil || mended {
		return cmp.Or(err, errStale)
	}
	done := make([]mended, len(found))
	err := v.table.Env.Concurrently(ctx, len(found), func(ctx context.Context, i int) (err error) {
		for j := range found[i].faults {
			f := &found[i].faults[j]
			if f.Repaired, err = v.mend(ctx, found[i].r, *f, &done[i]); err != nil {
				if newer := rowcodec.NewerRow(0); errors.As(err, &newer) && !v.of.Now().Same(v.table.View) {
					return errStale // an index that the row was to get a value in is gone
				}
				return err
			}
		}
		return nil
	})
	var all mended
	for _, one := range done {
		all.rows, all.postings = append(all.rows, one.rows...), append(all.postings, one.postings...)
	}
	changed, failed := v.settleMended(ctx, all)
	if err = cmp.Or(err, failed); err != nil && !errors.Is(err, errStale) {
		return err
	}
	if err == nil && !changed {
		return nil
	}
	// What could not be mended is perhaps not wrong any more.
	for i := range found {
		for _, f := range found[i].faults {
			if f.Repaired {
				v.fault(f)
			}
		}
	}
	return errStale
}

// convertAgain has a conversion that goes on take up rows that it has passed, and that came back since.
func (v *Verifier) convertAgain(ctx context.Context) error {
	if !v.opts.Repair || v.part > 0 || v.report.PutBack {
		return nil
	}
	err := (&rewrite.Conversion{Table: v.of}).Again(ctx)
	if errors.Is(err, catalogue.ErrPutBack) {
		v.report.PutBack, err = true, nil
	}
	return err
}

// mendRanks makes indexes again that contradict the ranks of rows, and reports whether it has.
func (v *Verifier) mendRanks(ctx context.Context, found []rowCheck) (mended bool, err error) {
	for i := range found {
		for j := range found[i].faults {
			f := &found[i].faults[j]
			c := v.table.ByName[f.Column]
			if c == nil || c.RankSize == 0 || f.Kind != inspect.FaultUnknown && f.Kind != inspect.FaultKey || v.lost[c.Id] {
				continue
			}
			if f.Repaired, err = v.rebuild(ctx, c.Id); err != nil {
				return mended, err
			}
			if v.lost[c.Id] = !f.Repaired; f.Repaired {
				v.fault(*f)
				return true, nil // the table has another column by now
			}
		}
	}
	return false, nil
}

// mended is what mending may have written.
type mended struct {
	rows     []*rowcodec.Record // under the view of fresh
	postings [][]byte
}

// settleMended makes sure that what was mended is such as others expect it, and reports whether the schema has
// changed since.
func (v *Verifier) settleMended(ctx context.Context, all mended) (changed bool, err error) {
	if len(all.rows) > 0 {
		if err := v.mender.SettleWrites(ctx, all.rows); err != nil {
			return false, err
		}
	}
	now, err := v.of.Refresh(ctx)
	if err != nil || now.Same(v.table.View) {
		return false, err
	}
	// Convert may have removed those of a dropped column already.
	unknown := slices.DeleteFunc(all.postings, func(key []byte) bool {
		return slices.ContainsFunc(now.Stored, func(c *rowcodec.Column) bool { return bytes.HasPrefix(key, c.Id[:]) })
	})
	if len(unknown) == 0 {
		return true, nil
	}
	return true, v.table.Unpost(ctx, unknown)
}

// mend writes what is missing. A posting whose row is rewritten at the same time is left dangling.
func (v *Verifier) mend(ctx context.Context, r *rowcodec.Record, f inspect.Fault, done *mended) (bool, error) {
	t := v.table
	switch {
	case f.Err == errUnled || f.Err == errEarlier:
		fresh, err := v.fresh(ctx)
		if err != nil {
			return false, err
		}
		done.rows = append(done.rows, &rowcodec.Record{Key: r.Key})
		err = fresh.Restore(ctx, nil, r.Key)
		return err == nil, err
	case f.Kind == inspect.FaultTorn && r != nil:
		fresh, err := v.fresh(ctx)
		if err != nil {
			return false, err
		}
		done.rows = append(done.rows, &rowcodec.Record{Key: r.Key})
		if err := mending(fresh).Restore(ctx, nil, r.Key); err != nil {
			return false, err
		}
		_, err = fresh.Read(ctx, r.Key, nil)
		if errors.Is(err, fault.ErrTorn) {
			return false, nil // what was left counts as later than the row
		}
		return err == nil, err
	case f.Kind == inspect.FaultHidden:
		done.postings = append(done.postings, f.Place)
		if err := t.Postings.Apply(ctx, t.PutPosting(f.Place, r)); err != nil {
			return false, err
		}
		return chunks.Exists(ctx, t.Postings, f.Place)
	case f.Kind == inspect.FaultUnknown, f.Kind == inspect.FaultKey && f.Err != errOrder:
		c := t.ByName[f.Column]
		if c == nil || !c.Stateful || v.indexes[c] == nil || v.indexes[c].bad() {
			return false, nil
		}
		fresh, err := v.fresh(ctx)
		if err != nil {
			return false, err
		}
		now, err := fresh.Read(ctx, r.Key, nil) // what else was mended has changed it
		if err != nil || now == nil {
			return err == nil, err
		}
		done.rows = append(done.rows, &rowcodec.Record{Key: r.Key})
		moved, stored, err := fresh.Fit(ctx, fresh.ByName[c.Name], now, true)
		if moved != nil {
			done.rows = append(done.rows, moved)
		}
		if fault.Refused(err) || errors.Is(err, ope.ErrFull) {
			return false, nil
		}
		if err != nil || c.Order == nil {
			return err == nil && (stored || f.Kind == inspect.FaultUnknown), err
		}
		return v.inIndex(ctx, c, t.CodeOf(c, r))
	}
	return false, nil
}

// mending returns the engine as one for which cells that an earlier write has left in columns which are null are not there. A row
// with such cells is torn for all others: a node was down when the column became null, and for longer than the others remember that.
func mending(t *engine.Engine) *engine.Engine {
	next, view := *t, *t.View
	next.View, view.Mends = &view, true
	return &next
}

// mendContents takes content out of postings. In tables that have copies, others may be about to delete a row by what is there.
func (v *Verifier) mendContents(ctx context.Context, postings []driver.Row, found []postingCheck) error {
	for i, one := range found {
		if one.fault != nil && one.fault.Err == errContent && !v.table.Meta.Copies() {
			if err := recopy.Empty(ctx, v.table, postings[i], one.r); err != nil {
				return err
			}
			one.fault.Repaired = true
		}
	}
	return nil
}

// keeps reports whether a copy is kept though its row is gone: no client leaves such a one, and where no row is there at all
// copies may be all that is left of them.
func (v *Verifier) keeps(one postingCheck) bool {
	return one.fault != nil && one.fault.Kind == inspect.FaultCopy && v.parts == 1 && v.report.Rows+v.report.Expired == 0
}

// mendCopies puts copies of rows into postings that have none, or another one.
func (v *Verifier) mendCopies(ctx context.Context, postings []driver.Row, found []postingCheck) error {
	t, uncopied := v.table, make(map[*rowcodec.Column][]driver.Row)
	for i := range found {
		c, wrong := v.columnOf(postings[i].Key)
		switch f := found[i].fault; {
		case wrong != nil:
		case found[i].uncopied:
			uncopied[c] = append(uncopied[c], postings[i])
		case f != nil && f.Kind == inspect.FaultCopy && !v.keeps(found[i]):
			var err error
			if f.Repaired, err = recopy.Mend(ctx, t, c, postings[i]); err != nil && !fault.Refused(err) {
				return err
			}
		}
	}
	for c, some := range uncopied {
		if err := recopy.Missing(ctx, t, c, some); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns a view of the table whose schemes remember nothing of what an index had before. It is
// errStale if the table has changed.
func (v *Verifier) fresh(ctx context.Context) (*engine.Engine, error) {
	select { // whoever waits here, while another one asks the database, goes when the call ends
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t := v.table
	if v.mender == nil || !v.mender.Same(t.View) {
		fresh, err := v.of.Fresh(ctx, t.Since)
		if err != nil {
			return nil, err
		}
		if fresh == nil {
			return nil, errStale
		}
		v.mender = fresh
	}
	return v.mender, nil
}

// dropDangling drops the postings that were dangling, and still are after the grace period, which
// is waited for once. Where rows are newer than the catalogue, it does not know what their postings are, and none is dropped.
func dropDangling(ctx context.Context, all ...*Verifier) error {
	waited := false
	for _, v := range all {
		if len(v.dangling) == 0 || v.report.PutBack {
			continue
		}
		if !waited {
			if err := v.AwaitGrace(ctx); err != nil {
				return err
			}
			waited = true
		}
		// What is left of a tenant that was dropped since are orphans.
		if err := v.drop(ctx); err != nil && !errors.Is(err, fault.ErrNoTenant) {
			return err
		}
	}
	return nil
}

// drop drops the postings that were dangling, and still are. A posting is named by a write. A write of a client makes its row but
// once: what is not there after the grace period never will be, unless the write took longer than the period. Those that may
// come again, of conversions and loads, are left to rowOf and unpost. The row is looked for right before a posting is dropped,
// and right after, and then it is put back.
func (v *Verifier) drop(ctx context.Context) error {
	t, err := v.of.Refresh(ctx) // the grace period was long
	if err != nil {
		return err
	}
	if v.ofAll() {
		return v.dropLeft(ctx)
	}
	if err := v.goOn(ctx, t); err != nil {
		return err
	}
	for chunk := range slices.Chunk(v.dangling, chunks.FullBatch) {
		was, _, err := v.stillDangling(ctx, chunk)
		if err != nil {
			return err
		}
		dropped, err := v.unpost(ctx, chunk, was)
		if err != nil {
			return err
		}
		is, rows, err := v.stillDangling(ctx, chunk)
		if err != nil {
			return err
		}
		for i, posting := range chunk {
			switch {
			case was[i] && !is[i]:
				if err := t.Post(ctx, []driver.Mutation{t.PutPosting(posting.Key, rows[i])}); err != nil {
					return err
				}
			case dropped[i]:
				v.report.Dropped++
			}
		}
		v.progress("dropping", v.report.Dropped)
	}
	return nil
}

// unpost drops those of some postings that are stale, and reports which. Rows of a load have the same postings each time that they
// are put, and their deletions have one place. So of a table whose rows are only added, only what was read before the grace period goes.
func (v *Verifier) unpost(ctx context.Context, postings []driver.Row, stale []bool) (dropped []bool, err error) {
	var keys [][]byte
	var places []int // of replacements
	var replacements []driver.Replacement
	var ends []driver.Mutation
	for i, p := range postings {
		_, deletion := v.table.CutDeletion(p.Key)
		switch {
		case !stale[i]:
		case deletion:
			end := driver.Mutation{Row: p.Key}
			for _, c := range p.Cells {
				end.Deletes = append(end.Deletes, c.Qualifier)
			}
			ends = append(ends, end)
		case len(rowcodec.PostingValue(p.Cells)) == 0: // it was not read, or is empty, as no client leaves one
			keys = append(keys, p.Key)
		default:
			places = append(places, i)
			replacements = append(replacements, driver.Replacement{Row: p.Key, Seen: p.Cells[0], Deletes: [][]byte{p.Cells[0].Qualifier}})
		}
	}
	if err := cmp.Or(v.table.Unpost(ctx, keys), v.table.Post(ctx, ends)); err != nil || len(replacements) == 0 {
		return stale, err
	}
	late, err := v.table.Postings.Replace(ctx, replacements...)
	dropped = slices.Clone(stale)
	for _, n := range late {
		dropped[places[n]] = false
	}
	return dropped, err
}

func (v *Verifier) waitGrace(ctx context.Context) error {
	begin := time.Now()
	for left := v.opts.Grace; left > 0; left = v.opts.Grace - time.Since(begin) {
		v.progress("waiting", int(time.Since(begin).Seconds()))
		if err := pause.For(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// stillDangling reports of each posting whether it is known that no row agrees with it, and returns the rows of the others.
func (v *Verifier) stillDangling(ctx context.Context, postings []driver.Row) (stale []bool, rows []*rowcodec.Record, err error) {
	stale, rows = make([]bool, len(postings)), make([]*rowcodec.Record, len(postings))
	err = v.table.Env.Concurrently(ctx, len(postings), func(ctx context.Context, i int) error {
		posting := postings[i].Key
		if row, is := v.table.CutDeletion(posting); is {
			there, err := chunks.Exists(ctx, v.table.Data, row)
			stale[i], rows[i] = !there, new(rowcodec.Record)
			return err
		}
		c, err := v.columnOf(posting)
		if err != nil { // of a column that was dropped since: Convert removes it, or has done so
			stale[i], rows[i] = left(v.table, posting), new(rowcodec.Record)
			return nil
		}
		r, known, err := v.rowOf(ctx, c, posting)
		stale[i] = known && r == nil
		if rows[i] = r; r == nil {
			rows[i] = new(rowcodec.Record) // that cannot be read
		}
		return err
	})
	return stale, rows, err
}
