package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// late adds to the error of a call of which some rows may yet be written that the schema was changed
// during the call, and what remains to be done.
func (t *Engine) late(err error) error {
	if err == nil || t.Env.Now().Same(t.View) {
		return err
	}
	return fmt.Errorf("%w; the schema was changed during the call: if a write takes effect late, columns that were changed "+
		"do not lead to its row until that is written again or converted", err)
}

// SettleWrites makes sure that rows which were written under this view are such as others expect them, who may know more of the
// table. The catalogue says so: it is changed before anybody relies on rows being stored in a new way. It is read after the
// last write, so that a change which it does not show is made by one who finds the rows.
func (t *Engine) SettleWrites(ctx context.Context, records []*rowcodec.Record) error {
	_, err := t.settled(ctx, records)
	return err
}

// settled does so, and returns the table as the writes are by now.
func (t *Engine) settled(ctx context.Context, records []*rowcodec.Record) (*Engine, error) {
	if len(records) == 0 {
		return t, nil
	}
	now, changed, err := t.settle(ctx, records)
	switch {
	case err == nil || errors.Is(err, errLookBack) || errors.Is(err, fault.ErrNoTable) || errors.Is(err, fault.ErrNoTenant) || errors.Is(err, fault.ErrTampered):
		return now, err
	case !changed:
		return now, fmt.Errorf("after the write the catalogue could not be asked whether the schema had been changed: %w", err)
	}
	return now, fmt.Errorf("the rows may be stored as the schema was, so that columns which were changed do not lead to them until "+
		"they are written again or converted, and a TTL that was changed does not count for them until they are written again: %w", err)
}

// settleLeased does so, but that it reads nothing if all rows were written, a lease says that the version is still ours, and
// no index of the database is to be looked at.
func (t *Engine) settleLeased(ctx context.Context, records []*rowcodec.Record, written bool) (now *Engine, err error) {
	looks := len(t.IndexNames()) > 0 && slices.ContainsFunc(records, func(r *rowcodec.Record) bool { return r != nil && !r.Fresh })
	if written && !looks && t.Env.Leased(t.Version) {
		return t, nil
	}
	return t.settled(ctx, records)
}

// settle returns the table as the writes are by now and, with an error, whether the schema was changed.
func (t *Engine) settle(ctx context.Context, records []*rowcodec.Record) (_ *Engine, changed bool, err error) {
	retimed := false
	for of, was, attempt := t.View, t, 0; ; {
		version, misplaced, err := t.lookBack(ctx, of, records)
		if err == nil && len(misplaced) > 0 {
			if err := t.writeAgain(ctx, misplaced, attempt); err != nil {
				return t, changed, err
			}
			attempt++
			continue
		}
		if err == nil && version == t.Version && retimed {
			// A conversion to this version that has read a row as it was put may come yet, and has the time of our replacement.
			retimed = false
			if err := t.unlessOvertaken(ctx, t.ConvertWrites(ctx, records, true)); err != nil {
				return t, changed, err
			}
			continue
		}
		if err != nil || version == t.Version {
			return t, changed, err
		}
		if version < t.Version {
			return t, changed, catalogue.PutBack(fmt.Sprintf("it has version %d, and the table is known as of version %d", version, t.Version))
		}
		changed = true
		now, err := t.Env.AtLeast(ctx, version)
		if err != nil || now.Same(t.View) {
			return t, changed, err
		}
		records, retimed = now.Retimed(t.View, records), retimed || now.TTL != t.TTL
		if err = now.reindexWrites(ctx, t.View, of, records); err == nil {
			err = now.ConvertWrites(ctx, records, false)
		}
		if err == nil {
			err = was.Unpost(ctx, of.PostingsUnknownTo(now.View, records)) // Convert may have removed others already
		}
		if err == nil {
			t = now
		} else if err := now.unlessOvertaken(ctx, err); err != nil {
			return t, changed, err
		}
	}
}

// unlessOvertaken returns an error, unless it comes of an index that was made again since: the catalogue, which is
// read, says something else of the table.
func (t *Engine) unlessOvertaken(ctx context.Context, err error) error {
	newer := rowcodec.NewerRow(0)
	if !errors.Is(err, ope.ErrIndex) && !errors.As(err, &newer) {
		return err
	}
	now, failed := t.Env.Refresh(ctx)
	if failed == nil && !now.Same(t.View) {
		return nil
	}
	return fault.Join(err, failed)
}

// filled makes sure that the pairs of all rows are in a column's index before others are drawn there.
func (t *Engine) filled(ctx context.Context, c *rowcodec.Column) error {
	if !c.Filling || c.Order != nil || c.Filled.Load() {
		return nil
	}
	err := t.Env.Fill(ctx, t.IndexOf(c))
	c.Filled.Store(err == nil)
	return err
}

// outdatedIndex returns what an error of a column's index means for a write: nothing, if the column has another index by now
// and its rows do not depend on it, since the write is settled in the end; or that a newer view is needed.
func (t *Engine) outdatedIndex(ctx context.Context, c *rowcodec.Column, err error) error {
	now, failed := t.Env.Refresh(ctx)
	if failed != nil || slices.ContainsFunc(now.Columns, func(n *rowcodec.Column) bool { return n.Id == c.Id && n.Unit == c.Unit }) {
		return fault.Join(err, failed)
	}
	if c.Order != nil {
		return nil
	}
	return fmt.Errorf("%w: %w", rowcodec.NewerRow(now.Version), err)
}

// reindexWrites puts what this client wrote into indexes that were made again since an older view, and
// stores rows again whose ciphertexts do not fit there. The records are those of a view.
func (t *Engine) reindexWrites(ctx context.Context, was, of *rowcodec.View, records []*rowcodec.Record) error {
	before := make(map[meta.ColumnID]uint32)
	for _, c := range slices.Concat(was.Parts, was.Stored) {
		before[c.Id] = c.Unit
	}
	again := slices.DeleteFunc(slices.Concat(t.Parts, t.Columns), func(c *rowcodec.Column) bool {
		unit, known := before[c.Id]
		return !c.Stateful || !known || unit == c.Unit
	})
	if len(again) == 0 {
		return nil
	}
	for chunk := range slices.Chunk(records, chunks.WriteChunk) {
		for _, c := range again {
			if c.Part < 0 {
				continue
			}
			// What was written counts, and not what is there: another client that settles a row of the
			// same key may have moved it already.
			for _, r := range chunk {
				if r == nil || r.Values == nil {
					continue
				}
				moved, _, err := t.Fit(ctx, c, t.Inherited(of, r), false)
				if err != nil {
					return err
				}
				if moved != nil {
					*r = *of.Adopted(t.View, moved)
				}
			}
		}
		if err := t.reindexRows(ctx, again, of, chunk); err != nil {
			return err
		}
	}
	return nil
}

// reindexRows puts what rows have in some columns into their indexes, as the rows are now, and as they were
// written under a view where they are not there: they may yet come.
func (t *Engine) reindexRows(ctx context.Context, columns []*rowcodec.Column, of *rowcodec.View, records []*rowcodec.Record) error {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c *rowcodec.Column) bool { return c.Part >= 0 })
	for _, r := range records {
		if r == nil || len(columns) == 0 {
			continue
		}
		now, err := t.Read(ctx, r.Key, nil)
		switch {
		case replaceable(err):
			continue
		case err != nil:
			return err
		case now == nil && r.Values == nil:
			continue
		case now == nil:
			if err := t.expect(ctx, columns, t.Inherited(of, r)); err != nil {
				return err
			}
			continue
		}
		for _, c := range columns {
			if _, _, err := t.Fit(ctx, c, now, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// expect makes sure that a row which is not there, but may yet come, is found then; or that it does not come, if
// its ciphertexts have no place.
func (t *Engine) expect(ctx context.Context, columns []*rowcodec.Column, r *rowcodec.Record) error {
	for _, c := range columns {
		fits, err := t.adopt(ctx, c, r)
		if err != nil {
			return err
		}
		if !fits {
			return t.bar(ctx, r.Key)
		}
	}
	return nil
}

// Fit makes sure that what a row has in a part or column is in its index. If the ciphertext has no
// place there, the row is stored again with one that has, and returned where its key is another then:
// unless there is a row of that key and it is to be kept.
func (t *Engine) Fit(ctx context.Context, c *rowcodec.Column, r *rowcodec.Record, keep bool) (moved *rowcodec.Record, stored bool, err error) {
	fits, err := t.adopt(ctx, c, r)
	switch {
	case err != nil || fits || t.Outgrown(r):
		return nil, false, err
	case c.Part < 0:
		return nil, true, t.Restore(ctx, c, r.Key)
	}
	moved, err = t.move(ctx, r, keep)
	return moved, true, err
}

// Outgrown reports whether a client has written a row that was read which knows more of the table. As this view stores rows, the row
// would lose what this view does not know of. Whoever has written it settles it.
func (t *Engine) Outgrown(r *rowcodec.Record) bool {
	return r.Version > t.Version && !t.Env.Now().Same(t.View)
}

// adopt puts what a row has in a part or column into its index, and reports whether it has a place there.
func (t *Engine) adopt(ctx context.Context, c *rowcodec.Column, r *rowcodec.Record) (fits bool, err error) {
	code, ct, err := t.PairOf(c, r)
	if err != nil || ct == nil {
		return true, err
	}
	if err = t.filled(ctx, c); err == nil {
		if scheme, ok := c.Scheme.(*wozniak.Indexed); ok {
			var is ope.Ciphertext
			is, err = scheme.EncryptAs(ctx, wozniak.Pair{Plaintext: code, Ciphertext: ct})
			fits = bytes.Equal(is, ct)
		} else {
			_, err = c.Scheme.Encrypt(ctx, code)
			fits = true
		}
	}
	if err != nil {
		err = fmt.Errorf("column %q: %w", c.Name, err)
	}
	return fits, err
}

// Restore writes a row again whose ciphertext in a column is not that of its value, unless others write
// it first. A nil column takes the row as it is: it gets what it lacks in indexes of the database.
func (t *Engine) Restore(ctx context.Context, c *rowcodec.Column, key []byte) error {
	for attempt := 0; ; attempt++ {
		rows, err := t.stamped(ctx, [][]byte{key})
		if err != nil || len(rows[0].Cells) == 0 {
			return err
		}
		old, err := t.Opened(ctx, t.Data, rows[0], nil, new(rowcodec.Scratch))
		if err != nil || old == nil || t.Outgrown(old) || c != nil && old.Search[c.Position] == nil {
			return err
		}
		next := *old
		next.Search = slices.Clone(old.Search)
		if c != nil {
			next.Search[c.Position] = nil
		}
		clear(next.Search[min(len(t.Columns), len(next.Search)):]) // what it has in former columns is stored in the present ones
		records := []*rowcodec.Record{&next}
		if err := t.encryptColumns(ctx, records); err != nil {
			return err
		}
		if c != nil && bytes.Equal(next.Search[c.Position], old.Search[c.Position]) {
			return nil
		}
		postings := t.AllPostingKeys(records)
		if err := t.Post(ctx, t.PutPostings(records)); err != nil {
			return err
		}
		late, err := t.replace(ctx, rows, records)
		if err != nil {
			return err
		}
		if len(late) == 0 {
			return t.Unpost(ctx, slices.DeleteFunc(t.AllPostingKeys([]*rowcodec.Record{old}), func(was []byte) bool {
				return slices.ContainsFunc(postings, func(is []byte) bool { return bytes.Equal(was, is) })
			}))
		}
		if err := WaitAgain(ctx, "row_changed", attempt); err != nil {
			return err
		}
	}
}

// move stores a row under the key that it should have, and removes it from the one that it has. With keep, a row that is there
// already stays: where conditions decide, also one that comes just then.
func (t *Engine) move(ctx context.Context, r *rowcodec.Record, keep bool) (_ *rowcodec.Record, err error) {
	moved := *r
	moved.Key, moved.Search, moved.Insert = nil, slices.Clone(r.Search), keep && t.Meta.Conditional
	if err := t.EncodeKey(ctx, &moved); err != nil {
		return nil, err
	}
	if bytes.Equal(moved.Key, r.Key) {
		return nil, nil
	}
	clear(moved.Search[min(len(t.Columns), len(moved.Search)):])
	there := false
	if keep {
		there, err = t.there(ctx, moved.Key)
	}
	if err == nil && !there {
		if err = t.encryptColumns(ctx, []*rowcodec.Record{&moved}); err == nil {
			err = t.Write(ctx, []*rowcodec.Record{&moved})
		}
	}
	if err != nil && !errors.Is(err, fault.ErrRowExists) {
		return nil, err
	}
	return &moved, t.bar(ctx, r.Key)
}

// bar removes a row, and keeps it from coming back: a write of it may still be under way, whose outcome was
// never known. Without conditions, a write that was sent before loses to the removal by its timestamp.
func (t *Engine) bar(ctx context.Context, key []byte) error {
	if !t.Meta.Conditional {
		return t.remove(ctx, [][]byte{key})
	}
	c := deletion(key)
	c.bars = true
	return t.commit(ctx, []*rowChange{c})
}

// PairsOf returns the codes that rows have in some parts and columns with stateful schemes, each with the ciphertexts or tokens
// that it has there. A row that cannot be read has none; one that is newer than the catalogue is an error.
func (t *Engine) PairsOf(ctx context.Context, users []*rowcodec.Column, rows []driver.Row) (map[int64][][]byte, error) {
	t = t.Slow()
	pairs := make(map[int64][][]byte)
	for _, row := range rows {
		r, err := t.Opened(ctx, t.Data, row, nil, new(rowcodec.Scratch))
		switch {
		case replaceable(err):
			continue
		case err != nil:
			return nil, err
		case r == nil:
			continue
		}
		for _, c := range users {
			code, ct, err := t.PairOf(c, r)
			if err != nil {
				return nil, err
			}
			if ct != nil {
				pairs[code] = append(pairs[code], ct)
			}
		}
	}
	return pairs, nil
}
