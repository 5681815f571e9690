package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// add writes the rows of a table whose rows are never replaced: postings, then the rows, and later copies into the postings.
// No row is read, but for those of a load that may have put them before: a row that is there already stays as it is.
func (t *Engine) add(ctx context.Context, records []*rowcodec.Record) error {
	records, there, err := t.notYetThere(ctx, records)
	if err != nil {
		return err
	}
	t.copyLater(ctx, there, t.copyPresent)
	if len(records) == 0 {
		return nil
	}
	if err := t.lead(ctx, records); err != nil {
		return err
	}
	twice, err := t.put(ctx, records)
	if err != nil {
		return err
	}
	t.copyLater(ctx, records, func(ctx context.Context, records []*rowcodec.Record) error {
		// A row of a load, or one put twice, may be one that was deleted before, so that it may be deleted again by who read it then.
		present, others := chunks.Divide(records, func(r *rowcodec.Record) bool { return r.OfLoad || twice })
		return errors.Join(t.copyAdded(ctx, others), t.copyPresent(ctx, present))
	})
	return nil
}

// notYetThere returns the rows that are to be written, and those that are there. It is an error if a load is to put another row than it has put before.
func (t *Engine) notYetThere(ctx context.Context, records []*rowcodec.Record) (missing, there []*rowcodec.Record, err error) {
	keys, found := make([][]byte, len(records)), make([]bool, len(records))
	for i, r := range records {
		if r.OfLoad {
			keys[i] = r.Key
		}
	}
	err = t.ReadEach(ctx, t.Data, keys, nil, func(i int, was *rowcodec.Record, err error) error {
		if found[i] = was != nil; err == nil && was != nil && !t.SameValues(was, records[i]) {
			err = fmt.Errorf("%w: with other values; a load puts a row again as it was: give the load of other rows another name", fault.ErrRowExists)
		}
		if err != nil {
			return &fault.RowError{Index: i, Err: err}
		}
		return nil
	})
	if err != nil || !slices.Contains(found, true) {
		return records, nil, err
	}
	for i, r := range records {
		if found[i] {
			there, r.TableTTL = append(there, r), false
		} else {
			missing = append(missing, r)
		}
	}
	return missing, there, nil
}

// SameValues reports whether two records have equal values.
func (t *Engine) SameValues(a, b *rowcodec.Record) bool {
	for i, c := range slices.Concat(t.Parts, t.Columns) {
		x, y := a.Values[i], b.Values[i]
		if (x == nil) != (y == nil) || x != nil && !bytes.Equal(c.Type.AppendStored(nil, x), c.Type.AppendStored(nil, y)) {
			return false
		}
	}
	return true
}

// A postingOf is a posting of a record, or of one that is not known.
type postingOf struct {
	column *rowcodec.Column
	key    []byte
	record *rowcodec.Record
}

// postingsOf returns the postings of records in some columns.
func (t *Engine) postingsOf(records []*rowcodec.Record, in func(*rowcodec.Column) bool) (all []postingOf) {
	for i, c := range t.Stored {
		if !in(c) {
			continue
		}
		for _, r := range records {
			if r.Search[i] != nil {
				all = append(all, postingOf{c, t.PostingKey(r, i), r})
			}
		}
	}
	return all
}

// copyLater puts copies into the postings of rows that are there, after the call.
func (t *Engine) copyLater(ctx context.Context, records []*rowcodec.Record, put func(context.Context, []*rowcodec.Record) error) {
	if len(records) == 0 || !slices.ContainsFunc(t.Stored, (*rowcodec.Column).Covers) {
		return
	}
	kept := value.KeepEach(records, func(r *rowcodec.Record) *[]any { return &r.Values }) // callers may use bytes again that they gave
	t.Env.Later(ctx, func(ctx context.Context) {
		if err := put(ctx, kept); err != nil && !errors.Is(err, driver.ErrNoFamily) {
			t.Env.Warn(ctx, "index entries of rows that were written have no copies yet, which makes queries slower", t.PostingSpec.Name, err)
		}
	})
}

// copyAdded does so with rows that this client has written. A posting that is not as this client has put it keeps what it has:
// the row is being deleted, or put again.
func (t *Engine) copyAdded(ctx context.Context, records []*rowcodec.Record) error {
	postings := t.postingsOf(records, (*rowcodec.Column).Covers)
	cells, err := t.stampedPostings(ctx, postings)
	if err != nil {
		return err
	}
	var copies []driver.Replacement
	for i, p := range postings {
		if p.record.Pends(rowcodec.PostingValue(cells[i])) {
			copies = append(copies, t.CopyInto(p.column, p.key, cells[i][0], p.record))
		}
	}
	if len(copies) > 0 {
		_, err = t.Postings.Replace(ctx, copies...)
	}
	return err
}

// stampedPostings reads the cells of postings.
func (t *Engine) stampedPostings(ctx context.Context, postings []postingOf) ([][]driver.Cell, error) {
	keys, cells := make([][]byte, len(postings)), make([][]driver.Cell, len(postings))
	for i, p := range postings {
		keys[i] = p.key
	}
	err := chunks.GetEach(ctx, t.Postings, keys, driver.Slice{Stamps: true}, func(rows []driver.Row, places []int) error {
		for n, row := range rows {
			cells[places[n]] = row.Cells
		}
		return nil
	})
	return cells, err
}

// Copied counts what became of postings of columns that cover.
type Copied struct {
	Pending  int // that had no copy
	Put      int // copies, also in place of outdated ones
	Doubtful int
}

// CopyScanned puts copies into postings of a column as they were scanned, with their stamps: into those whose writer has
// not, and in place of those that this view would make in another way.
func (t *Engine) CopyScanned(ctx context.Context, c *rowcodec.Column, scanned []driver.Row) (Copied, error) {
	postings, cells := make([]postingOf, len(scanned)), make([][]driver.Cell, len(scanned))
	for i, p := range scanned {
		postings[i], cells[i] = postingOf{column: c, key: p.Key}, p.Cells
	}
	return t.copyAgain(ctx, postings, cells)
}

// copyAgain does so with postings as they were read. It looks for deletions of their rows, and then reads the rows. So whoever
// deletes one of these makes its posting doubtful after it was read here. A row of a client that knows more of the table has perhaps more than this view would copy.
func (t *Engine) copyAgain(ctx context.Context, postings []postingOf, cells [][]driver.Cell) (done Copied, err error) {
	keys, outdated := make([][]byte, len(postings)), make([]bool, len(postings))
	s, doubter := new(rowcodec.Scratch), new(rowcodec.Record)
	doubter.NewAttempt()
	if err := t.hintAgain(ctx, postings, cells); err != nil {
		return done, err
	}
	for i, p := range postings {
		if len(cells[i]) == 0 {
			continue
		}
		if first := cells[i][0]; len(first.Qualifier) == 0 && rowcodec.HasCopy(first.Value) {
			// One that does not open is for Verify to find.
			outdated[i], _ = t.OutdatedCopy(p.column, p.key, first.Value, s)
		}
		is, wanted := rowcodec.PostingValue(cells[i]), outdated[i]
		switch {
		case rowcodec.Doubtful(is):
			done.Doubtful++
			wanted = false
		case !rowcodec.HasCopy(is):
			done.Pending++
			wanted = true
		}
		if wanted {
			if _, keys[i], _, err = p.column.CutPosting(p.key); err != nil {
				return done, err
			}
		}
	}
	if err := t.UnderDeletion(ctx, keys); err != nil {
		return done, err
	}
	made := make([]*driver.Replacement, len(postings))
	err = t.ReadEach(ctx, t.Data, keys, nil, func(i int, r *rowcodec.Record, err error) error {
		c := postings[i].column
		if replaceable(err) || r != nil && t.Outgrown(r) {
			return nil
		}
		if err != nil || r == nil || r.Search[c.Position] == nil || !bytes.Equal(t.PostingKey(r, c.Position), postings[i].key) {
			return err
		}
		replacement := t.CopyInto(c, postings[i].key, cells[i][0], r)
		made[i] = &replacement
		return nil
	})
	if err != nil {
		return done, err
	}
	var copies []driver.Replacement
	for i, replacement := range made {
		switch {
		case replacement != nil:
			copies = append(copies, *replacement)
		case outdated[i] && keys[i] == nil: // its row is about to go, and nothing shall be left under an old key
			copies = append(copies, driver.Replacement{Row: postings[i].key, Seen: cells[i][0], Puts: t.Doubt(postings[i].key, doubter).Puts})
		}
	}
	if len(copies) == 0 {
		return done, nil
	}
	late, err := t.Postings.Replace(ctx, copies...)
	done.Put = len(copies) - len(late)
	return done, err
}

// repost drops postings that rows no longer have, puts some that they have, and then copies into these.
func (t *Engine) repost(ctx context.Context, gone [][]byte, puts []driver.Mutation, records []*rowcodec.Record) error {
	if err := cmp.Or(t.Unpost(ctx, gone), t.Post(ctx, puts)); err != nil {
		return err
	}
	return t.copyPresent(ctx, records)
}

// hintAgain puts new hints into postings whose values are empty, and reads them. No client leaves one so, and it cannot be
// replaced as it was seen.
func (t *Engine) hintAgain(ctx context.Context, postings []postingOf, cells [][]driver.Cell) error {
	var again []postingOf
	var places []int
	var hints []driver.Mutation
	for i, p := range postings {
		if cells[i] != nil && len(rowcodec.PostingValue(cells[i])) == 0 {
			again, places, hints = append(again, p), append(places, i), append(hints, t.PutPosting(p.key, new(rowcodec.Record)))
		}
	}
	if len(again) == 0 {
		return nil
	}
	if err := t.Post(ctx, hints); err != nil {
		return err
	}
	now, err := t.stampedPostings(ctx, again)
	for n, i := range places {
		cells[i] = now[n]
	}
	return err
}

// copyPresent does so with the postings of rows that are there.
func (t *Engine) copyPresent(ctx context.Context, records []*rowcodec.Record) error {
	postings := t.postingsOf(records, (*rowcodec.Column).Covers)
	cells, err := t.stampedPostings(ctx, postings)
	if err == nil {
		_, err = t.copyAgain(ctx, postings, cells)
	}
	return err
}

// removeAdded deletes rows that are never replaced, and may have copies. The order of its steps lets no copy outlive its row:
//
//  1. deletions say that the rows go: from now on others put no copies; at the same time the rows are read, with their stamps,
//     so that what this client writes next comes after them
//  2. their postings are made doubtful, those too that a conversion gives them; at the same time the version is read: who
//     knows of a later schema finds the deletions
//  3. the rows go
//
// What is left goes later: the doubtful postings, and the deletions.
func (t *Engine) removeAdded(ctx context.Context, rowKeys [][]byte) error {
	call := rowcodec.NewDeletion()
	for {
		t = t.Slow() // what has expired for this client alone goes, too
		old, now, err := t.toRemove(ctx, rowKeys, call)
		if err != nil {
			return err
		}
		if now != t {
			t = now
			continue // with the postings that are known by now
		}
		mutations := make([]driver.Mutation, len(old))
		for i, r := range old {
			mutations[i] = driver.Mutation{Row: r.Key, DeleteRow: true}
		}
		if len(old) > 0 {
			if err := t.Data.Apply(ctx, mutations...); err != nil {
				return err
			}
		}
		t.forgetRemoved(ctx, rowKeys, call, old)
		return nil
	}
}

// toRemove makes steps 1 and 2. It returns the rows that there are, or a later engine that is to do so.
func (t *Engine) toRemove(ctx context.Context, rowKeys [][]byte, call rowcodec.Deletion) (old []*rowcodec.Record, now *Engine, err error) {
	deletions := make([]driver.Mutation, len(rowKeys))
	for i, key := range rowKeys {
		deletions[i] = driver.Mutation{Row: t.DeletionKey(key), Puts: []driver.Cell{{Qualifier: call[:], Value: []byte{}}}}
	}
	var rows []driver.Row
	group, groupCtx := relay.WithContext(ctx)
	group.Go(func() error { return t.Post(groupCtx, deletions) })
	group.Go(func() (err error) {
		rows, err = t.stamped(groupCtx, rowKeys)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		r, err := t.openStamped(ctx, &row)
		if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
			now, err := t.Env.AtLeast(ctx, uint32(newer))
			return nil, now, err
		}
		if replaceable(err) {
			err = notReplaced(err)
		}
		if err != nil {
			return nil, nil, err
		}
		if r != nil {
			old = append(old, r)
		}
	}
	if len(old) == 0 {
		return nil, t, nil
	}
	if err := t.encryptColumns(ctx, t.takenRows(old)); err != nil {
		return nil, nil, err
	}
	var version uint32
	group, groupCtx = relay.WithContext(ctx)
	group.Go(func() error { return t.doubt(groupCtx, old) })
	group.Go(func() (err error) {
		version, err = t.Env.Version(groupCtx)
		return err
	})
	if err := group.Wait(); err != nil || version <= t.Version {
		return old, t, err
	}
	if now, err = t.Env.AtLeast(ctx, version); err == nil && now.Same(t.View) {
		now = t
	}
	return old, now, err
}

// takenRows returns those of some rows that the schema takes: a conversion leaves the others as they are.
func (t *Engine) takenRows(records []*rowcodec.Record) []*rowcodec.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r *rowcodec.Record) bool { return t.CheckUnordered(r) != nil })
}

// openStamped opens a row that was read with all its cells and stamps. One of two writes is read again.
func (t *Engine) openStamped(ctx context.Context, row *driver.Row) (*rowcodec.Record, error) {
	for attempt := 0; ; attempt++ {
		r, err := t.Decode(*row, nil, new(rowcodec.Scratch))
		if !errors.Is(err, rowcodec.ErrTornRow) || attempt == TornReads {
			return r, err
		}
		if err := t.reread(ctx, row, attempt); err != nil {
			return nil, err
		}
	}
}

// doubt makes the postings of rows with copies doubtful.
func (t *Engine) doubt(ctx context.Context, records []*rowcodec.Record) error {
	var doubts []driver.Mutation
	for _, r := range records {
		r.NewAttempt()
	}
	postings := t.postingsOf(records, (*rowcodec.Column).Searched)
	_, err := t.stampedPostings(ctx, postings) // to write after them: conversions and loads may have put them later than the row
	for _, p := range postings {
		doubts = append(doubts, t.Doubt(p.key, p.record))
	}
	return cmp.Or(err, t.Post(ctx, doubts))
}

// forgetRemoved removes the postings that this client made doubtful, and then the deletions, later. Those postings of a row of
// a load stay: a client of the load may be about to put the row again.
func (t *Engine) forgetRemoved(ctx context.Context, rowKeys [][]byte, call rowcodec.Deletion, records []*rowcodec.Record) {
	postings := t.postingsOf(slices.DeleteFunc(slices.Clone(records), t.OfLoad), (*rowcodec.Column).Searched)
	t.later(ctx, func(ctx context.Context) error {
		cells, err := t.stampedPostings(ctx, postings)
		if err != nil {
			return err
		}
		var drops []driver.Replacement
		for i, p := range postings {
			if p.record.Doubts(rowcodec.PostingValue(cells[i])) {
				drops = append(drops, driver.Replacement{Row: p.key, Seen: cells[i][0], Deletes: [][]byte{rowcodec.PostingCell.Qualifier}})
			}
		}
		if len(drops) > 0 {
			if _, err := t.Postings.Replace(ctx, drops...); err != nil {
				return err
			}
		}
		deletions := make([]driver.Mutation, len(rowKeys))
		for i, key := range rowKeys {
			deletions[i] = driver.Mutation{Row: t.DeletionKey(key), Deletes: [][]byte{call[:]}}
		}
		return t.Post(ctx, deletions)
	})
}

// UnderDeletion sets to nil the keys of rows that are being deleted, where deletions say so.
func (t *Engine) UnderDeletion(ctx context.Context, rowKeys [][]byte) error {
	if !t.Meta.AppendOnly() {
		return nil
	}
	deletions := make([][]byte, len(rowKeys))
	for i, key := range rowKeys {
		if key != nil {
			deletions[i] = t.DeletionKey(key)
		}
	}
	return chunks.GetEach(ctx, t.Postings, deletions, driver.Slice{}, func(rows []driver.Row, places []int) error {
		for n, row := range rows {
			if len(row.Cells) > 0 {
				rowKeys[places[n]] = nil
			}
		}
		return nil
	})
}
