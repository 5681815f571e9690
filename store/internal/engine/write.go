package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Write makes records durable. The order of its steps is what makes every row findable at any
// moment, wherever a client dies:
//
//  1. the postings of the new row, and the values of mutable columns in their indexes; at the same
//     time the old row is read, for its postings
//  2. the row itself
//  3. the row is read back, because the last write wins by clocks that may disagree
//  4. the old postings go, unless what was read back is still the old row
//
// The caller need not wait for 3 and 4. A posting without its row is left when a client dies before the end, or when two
// writers replace a row at the same time. Readers pass over it.
//
// Records that count as made earlier lose to all that is written under conditions, and so need none.
func (t *Engine) Write(ctx context.Context, records []*rowcodec.Record) error {
	if t.Meta.Conditional && records[0].AsOf.IsZero() {
		changes := make([]*rowChange, len(records))
		for i, r := range records {
			if changes[i] = replacement(r); r.Insert {
				changes[i] = insertion(r, i)
			}
		}
		return t.commit(ctx, changes)
	}
	if t.Meta.AppendOnly() {
		return t.add(ctx, records)
	}
	if t.Postings == nil || !t.Posts() {
		_, err := t.put(ctx, records)
		return err
	}
	var old []*rowcodec.Record
	group, groupCtx := relay.WithContext(ctx)
	group.Go(func() error { return t.lead(groupCtx, records) })
	group.Go(func() (err error) {
		old, err = t.current(groupCtx, records, false)
		return err
	})
	err := group.Wait()
	if err == nil {
		_, err = t.put(ctx, records)
	}
	if err == nil {
		t.dropPostings(ctx, old)
	}
	return err
}

// lead makes durable what leads to rows.
func (t *Engine) lead(ctx context.Context, records []*rowcodec.Record) error {
	group, ctx := relay.WithContext(ctx)
	group.Go(func() error { return t.Post(ctx, t.PutPostings(records)) })
	ordered := func(c *rowcodec.Column) bool { return c.Order != nil }
	group.Go(func() error { return t.EncryptAll(ctx, records, ordered) })
	return group.Wait()
}

// put makes the rows of records whose postings are durable. Where the database may have made them twice, another client may have
// replaced rows between, and dropped their postings, before they came back. So those that are there get their postings again.
func (t *Engine) put(ctx context.Context, records []*rowcodec.Record) (twice bool, err error) {
	mutations := make([]driver.Mutation, len(records))
	for i, r := range records {
		mutations[i] = t.Mutation(r)
	}
	noting, repeats := pause.Noting(ctx)
	if err := t.Data.Apply(noting, mutations...); err != nil || !repeats() || t.Postings == nil {
		return false, err
	}
	there, _, err := t.stillThere(ctx, records)
	for _, r := range there {
		r.NewAttempt() // or who has read the first posting, and sleeps since before the row was deleted, would put a copy into this one
	}
	return true, cmp.Or(err, t.Post(ctx, t.PutPostings(there)))
}

// EncryptAll lets stateful schemes make the values of records durable in their indexes.
func (t *Engine) EncryptAll(ctx context.Context, records []*rowcodec.Record, by func(*rowcodec.Column) bool) error {
	group, ctx := relay.WithContext(ctx)
	for _, c := range t.ByName {
		if !by(c) {
			continue
		}
		group.Go(func() error {
			codes, _, err := c.Codes(records, t.ValueIndex(c))
			if err != nil || len(codes) == 0 {
				return err
			}
			err = t.filled(ctx, c)
			if err == nil {
				_, err = c.Batches.EncryptBatch(ctx, codes)
			}
			if errors.Is(err, ope.ErrIndex) && c.Part < 0 {
				err = t.outdatedIndex(ctx, c, err)
			}
			if err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// remove deletes rows, and then their postings.
func (t *Engine) remove(ctx context.Context, rowKeys [][]byte) (err error) {
	if t.Meta.Conditional {
		changes := make([]*rowChange, len(rowKeys))
		for i, key := range rowKeys {
			changes[i] = deletion(key)
		}
		return t.commit(ctx, changes)
	}
	if t.Meta.AppendOnly() {
		return t.removeAdded(ctx, rowKeys)
	}
	records, mutations := make([]*rowcodec.Record, len(rowKeys)), make([]driver.Mutation, len(rowKeys))
	for i, key := range rowKeys {
		records[i] = &rowcodec.Record{Key: key}
		mutations[i] = driver.Mutation{Row: key, DeleteRow: true}
	}
	var old []*rowcodec.Record
	if t.Postings != nil && t.Posts() {
		if old, err = t.current(ctx, records, true); err != nil {
			return err
		}
	}
	if err = t.Data.Apply(ctx, mutations...); err == nil {
		t.dropPostings(ctx, old)
	}
	return err
}

// replaceable reports whether a row may be replaced though it could not be read. One that was written at a later
// version than the catalogue has may not: what replaced it would be stored as the schema once was.
func replaceable(err error) bool {
	return fault.Refused(err) && !errors.Is(err, catalogue.ErrPutBack) || errors.Is(err, fault.ErrTorn) || errors.Is(err, rowcodec.ErrTornRow)
}

// current returns the rows that the records are going to replace, or delete, as far as they have postings.
func (t *Engine) current(ctx context.Context, records []*rowcodec.Record, deletes bool) ([]*rowcodec.Record, error) {
	old := make([]*rowcodec.Record, len(records))
	searched := t.PostedColumns()
	keys := make([][]byte, len(records)) // nil where there is nothing to replace
	for i, r := range records {
		if !r.Fresh && !r.Insert {
			keys[i] = r.Key
		}
	}
	slice := t.Slice(searched)
	slice.NeedsFirst = true // a row without a key cell is replaced whatever else it has, and its postings cannot be named
	slice.Stamps = true     // so that what this client writes next comes after it, though its writer's clock may be ahead
	err := t.readEach(ctx, t.Data, keys, slice, searched, func(i int, found *rowcodec.Record, err error) error {
		if replaceable(err) || deletes && errors.Is(err, catalogue.ErrPutBack) {
			// What cannot be read may be replaced; its postings point to nothing then.
			t.Env.Warn(ctx, "a row that could not be read is replaced", t.Family(), err)
			return nil
		}
		old[i] = found
		return err
	})
	return slices.DeleteFunc(old, func(r *rowcodec.Record) bool { return r == nil }), err
}

// dropPostings removes the postings of rows that were replaced or deleted, later. A row that is still
// there, because its timestamp beat the later write, keeps them.
func (t *Engine) dropPostings(ctx context.Context, old []*rowcodec.Record) {
	if len(old) == 0 {
		return
	}
	t.later(ctx, func(ctx context.Context) error {
		_, gone, err := t.stillThere(ctx, old)
		return cmp.Or(err, t.Unpost(ctx, t.AllPostingKeys(gone)))
	})
}

// stillThere returns those of some rows with postings that are as they were written, and the others.
func (t *Engine) stillThere(ctx context.Context, records []*rowcodec.Record) (there, gone []*rowcodec.Record, err error) {
	keys, is := make([][]byte, len(records)), make(map[*rowcodec.Record]bool)
	for i, r := range records {
		if len(t.PostingKeys(r)) > 0 {
			keys[i] = r.Key
		}
	}
	err = chunks.GetEach(ctx, t.Data, keys, keyCells, func(rows []driver.Row, places []int) error {
		for n, row := range rows {
			write, found, err := t.writeOf(ctx, row)
			if err != nil {
				return err
			}
			is[records[places[n]]] = found && write == records[places[n]].Write
		}
		return nil
	})
	if err == nil {
		there, gone = chunks.Divide(records, func(r *rowcodec.Record) bool { return is[r] })
	}
	return there, gone, err
}

// later drops postings that lead to nothing, after the call.
func (t *Engine) later(ctx context.Context, drop func(context.Context) error) {
	t.Env.Later(ctx, func(ctx context.Context) {
		if err := drop(ctx); err != nil && !errors.Is(err, driver.ErrNoFamily) {
			t.Env.Warn(ctx, "postings of rows that were replaced or deleted are left over", t.PostingSpec.Name, err)
		}
	})
}

// postings returns where postings are: also those of a first searched column, which is newer than this view.
func (t *Engine) postings() driver.Family { return cmp.Or(t.Postings, t.Env.Now().Postings) }

// Post makes postings durable.
func (t *Engine) Post(ctx context.Context, puts []driver.Mutation) error {
	if family := t.postings(); len(puts) > 0 && family != nil {
		return family.Apply(ctx, puts...)
	}
	return nil
}

// Unpost removes postings.
func (t *Engine) Unpost(ctx context.Context, keys [][]byte) error {
	drops := make([]driver.Mutation, len(keys))
	for i, key := range keys {
		drops[i] = driver.Mutation{Row: key, DeleteRow: true}
	}
	return t.Post(ctx, drops)
}

// Put writes rows, each as a whole.
func (t *Engine) Put(ctx context.Context, rows []rowcodec.RowValues) error {
	return t.PutEach(ctx, len(rows), func(t *rowcodec.View, i int) (*rowcodec.Record, error) { return t.Check(rows[i]) })
}

// PutEach writes n rows that a function returns as checked records of a view. It is called again for a later view.
func (t *Engine) PutEach(ctx context.Context, n int, row func(t *rowcodec.View, i int) (*rowcodec.Record, error)) error {
	records := make([]*rowcodec.Record, n)
	t, err := t.WithSecondLook(ctx, func(t *Engine) (err error) {
		for i := range records {
			if records[i], err = row(t.View, i); err != nil || ctx.Err() != nil {
				return fault.OfRow(ctx, i, n, err)
			}
		}
		// A stateful scheme gives ciphertexts out by writing to its index; values without rows do no harm there.
		if err := t.EncryptAll(ctx, records, func(c *rowcodec.Column) bool { return c.Stateful && c.Order == nil }); err != nil {
			return fault.NothingDone(n, fault.Gone(err))
		}
		// What it remembers no more, it reads again.
		if i, err := t.EncodeAll(ctx, records); err != nil {
			return fault.OfRow(ctx, i, n, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	distinct := make(chunks.DistinctKeys, n)
	for i, r := range records {
		do := "put"
		if r.Insert {
			do = "insert"
		}
		if err := distinct.Add(r.Key, i, do); err != nil {
			return &fault.RowError{Index: i, Err: err}
		}
	}
	written := t.Env.Writes(n)
	err = chunks.InChunks(n, func(from, to int) error {
		err := t.Write(ctx, records[from:to])
		if row := (*fault.RowError)(nil); errors.As(err, &row) {
			row.Index += from
		}
		return err
	})
	reached := n
	failed := (*fault.BatchError)(nil)
	if errors.As(err, &failed) {
		// Rows of the chunk that failed may have been written, too.
		reached = min(n, failed.Failed[0]+chunks.WriteChunk)
	}
	written()
	now, unsettled := t.settleLeased(ctx, records[:reached], err == nil)
	if unsettled != nil {
		if failed != nil {
			// That no row counts as written says already that all are to be written again.
			unsettled = fault.Besides(failed.Err, unsettled)
		}
		err = fault.Undone(0, n, unsettled)
	}
	if err != nil {
		return t.late(err)
	}
	return forms.Keeps(now.View, t.View, func(c *rowcodec.Column) bool {
		return slices.ContainsFunc(records, func(r *rowcodec.Record) bool { return t.ValueOf(c, r) != nil })
	})
}

// RemoveAll deletes rows by their keys, of which some may be nil, in chunks.
func (t *Engine) RemoveAll(ctx context.Context, rowKeys [][]byte) error {
	return chunks.InChunks(len(rowKeys), func(from, to int) error {
		chunk := slices.DeleteFunc(slices.Clone(rowKeys[from:to]), func(key []byte) bool { return key == nil })
		slices.SortFunc(chunk, slices.Compare)
		return t.remove(ctx, slices.CompactFunc(chunk, slices.Equal))
	})
}
