package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// writeChunk is how many rows go through the steps of a Put together. Larger chunks save round
// trips and syncs; smaller ones tell more exactly which rows a failed batch left undone.
const writeChunk = 256

// Put writes rows, each as a whole: a row with the same key is replaced, with its columns that
// are null now. All rows are checked before anything is written; the error of a bad row is a
// [RowError]. Rows are written in chunks, in the order given; if one fails, the error is a
// [BatchError]. The cells of one row appear at once, different rows may appear in any order.
//
// A Put of a row that another client writes at the same time leaves one of the two rows, whole.
//
// If the schema was changed by another client, the values are in the columns they were meant for,
// whatever these are named and however they are encrypted now; values of a column that was dropped
// are left out.
func (tbl *Table) Put(ctx context.Context, rows ...Row) (err error) {
	t, err := tbl.use()
	if err != nil {
		return err
	}
	ctx, end := t.st.observer.operation(ctx, "put", t.family())
	defer func() { end(len(rows), err) }()
	records := make([]*record, len(rows))
	t, err = tbl.checked(ctx, t, func(t *view) (err error) {
		for i, row := range rows {
			if records[i], err = t.check(row); err != nil {
				return &RowError{i, err}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: put into %q: %w", t.schema.Name, err)
	}
	// A stateful scheme gives ciphertexts out by writing to its index; values without rows do no harm
	// there.
	if err := t.encryptAll(ctx, records, func(c *column) bool { return c.stateful && c.order == nil }); err != nil {
		return fmt.Errorf("store: put into %q: %w", t.schema.Name, t.gone(undone(0, len(rows), err)))
	}
	distinct := make(distinctKeys, len(rows))
	for i, r := range records {
		err := t.encode(ctx, r)
		if err == nil {
			err = distinct.add(r.key, i, "put")
		}
		if err != nil {
			return fmt.Errorf("store: put into %q: %w", t.schema.Name, &RowError{i, err})
		}
	}
	err = t.inChunks(len(rows), func(from, to int) error { return t.write(ctx, records[from:to]) })
	reached := len(rows)
	if failed := (*BatchError)(nil); errors.As(err, &failed) {
		// Rows of the chunk that failed may have been written, too.
		if reached = failed.Failed[0]; !t.st.guards.noFailed {
			reached = min(len(rows), reached+writeChunk)
		}
	}
	if unsettled := t.settleWrites(ctx, records[:reached]); unsettled != nil {
		err = undone(0, len(rows), errors.Join(err, unsettled))
	}
	if err = t.late(err); err != nil {
		return fmt.Errorf("store: put into %q: %w", t.schema.Name, t.gone(err))
	}
	return nil
}

// distinctKeys has the position of each row of a call by its key.
type distinctKeys map[string]int

// add returns an error if an earlier row has the key: what the call does to them has no order.
func (d distinctKeys) add(key []byte, row int, do string) error {
	if first, twice := d[string(key)]; twice {
		return fmt.Errorf("%w: it has the row key of row %d; %s them one after the other", driver.ErrOverlap, first, do)
	}
	d[string(key)] = row
	return nil
}

// late adds to the error of a call of which some rows may yet be written that the schema was changed
// meanwhile, and what remains to be done.
func (t *view) late(err error) error {
	if err == nil || t.tbl.now().same(t) {
		return err
	}
	return fmt.Errorf("%w; the schema was changed meanwhile: if a write takes effect late, columns that were changed "+
		"do not lead to its row until that is written again or converted", err)
}

// settleWrites makes sure that rows which were written under this view are such as others expect
// them, who may know more of the table. The catalogue tells: it is changed before anybody relies on
// rows being stored in a new way. It is read after the last write, so that a change which it does
// not show is made by one who finds the rows.
func (t *view) settleWrites(ctx context.Context, records []*record) error {
	if len(records) == 0 || t.st.guards.noVersion {
		return nil
	}
	err := t.settle(ctx, records)
	if err == nil || errors.Is(err, ErrNoTable) || errors.Is(err, ErrNoTenant) || errors.Is(err, ErrTampered) {
		return err
	}
	return fmt.Errorf("the rows may be stored as the schema was, so that columns which were changed do not lead to them "+
		"until they are written again or converted: %w", err)
}

func (t *view) settle(ctx context.Context, records []*record) error {
	for t := t; ; {
		version, err := t.st.catalogue.version(ctx, t.st.catalogue.family)
		if err != nil || version == t.version {
			return err
		}
		if version < t.version {
			return fmt.Errorf("%w: the catalogue was put back", ErrTampered)
		}
		now, err := t.tbl.atLeast(ctx, version)
		if err != nil || now.same(t) {
			return err
		}
		if err := now.convertWrites(ctx, records); err != nil {
			return err
		}
		t = now
	}
}

// schemaGuards switches off what makes changes of a schema safe, so that tests can tell that they
// would notice. The zero value has everything on.
type schemaGuards struct {
	parts int // of a conversion; 0 is sweepParts

	noVersion bool // the version is not read after the last write
	noSince   bool // cells are not told by when their column came

	noFailed     bool // rows of a chunk that failed are not settled
	noSecondLook bool // a name is refused without a look at the catalogue
}

// Delete removes rows by their keys: of each Row, the key parts are read and must be there,
// columns are ignored. A row that does not exist is no error. Errors are those of Put.
func (tbl *Table) Delete(ctx context.Context, keys ...Row) (err error) {
	t, err := tbl.use()
	if err != nil {
		return err
	}
	ctx, end := t.st.observer.operation(ctx, "delete", t.family())
	defer func() { end(len(keys), err) }()
	var rowKeys [][]byte
	t, err = tbl.checked(ctx, t, func(t *view) (err error) {
		rowKeys, err = t.exactKeys(ctx, keys)
		return err
	})
	if err != nil {
		if row := (*RowError)(nil); !errors.As(err, &row) {
			err = undone(0, len(keys), err)
		}
		return fmt.Errorf("store: delete from %q: %w", t.schema.Name, t.gone(err))
	}
	err = t.inChunks(len(rowKeys), func(from, to int) error {
		chunk := slices.DeleteFunc(slices.Clone(rowKeys[from:to]), func(key []byte) bool { return key == nil })
		slices.SortFunc(chunk, slices.Compare)
		return t.remove(ctx, slices.CompactFunc(chunk, slices.Equal))
	})
	if err != nil {
		return fmt.Errorf("store: delete from %q: %w", t.schema.Name, t.gone(err))
	}
	return nil
}

// inChunks calls do for one chunk after the other. What it did not reach counts as failed.
func (t *view) inChunks(n int, do func(from, to int) error) error {
	for from := 0; from < n; from += writeChunk {
		if err := do(from, min(n, from+writeChunk)); err != nil {
			return undone(from, n, err)
		}
	}
	return nil
}

// undone returns the error of a call that did not reach the rows from..n.
func undone(from, n int, err error) error {
	failed := make([]int, 0, n-from)
	for i := from; i < n; i++ {
		failed = append(failed, i)
	}
	return &BatchError{failed, err}
}

// write makes records durable. The order of its steps is what makes every row findable at any
// moment, wherever a client dies:
//
//  1. the postings of the new row, and the values of mutable columns in their indexes; at the same
//     time the old row is read, for its postings
//  2. the row itself
//  3. the row is read back, because the last write wins by clocks that may disagree
//  4. the old postings go, unless what was read back is still the old row
//
// A posting without its row is left when a client dies between 1 and 2, or when two writers
// replace a row at the same time. Readers pass over it.
func (t *view) write(ctx context.Context, records []*record) error {
	if t.schema.Conditional {
		changes := make([]*rowChange, len(records))
		for i, r := range records {
			changes[i] = replacement(r)
		}
		return t.commit(ctx, changes)
	}
	mutations := make([]driver.Mutation, len(records))
	for i, r := range records {
		mutations[i] = t.mutation(r)
	}
	if t.postings == nil {
		return t.data.Apply(ctx, mutations...)
	}
	var old []*record
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.post(groupCtx, t.allPostingKeys(records)) })
	group.Go(func() error {
		return t.encryptAll(groupCtx, records, func(c *column) bool { return c.order != nil })
	})
	group.Go(func() error {
		var err error
		old, err = t.current(groupCtx, records)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := t.data.Apply(ctx, mutations...); err != nil {
		return err
	}
	return t.dropPostings(ctx, old)
}

// encryptAll lets stateful schemes make the values of records durable in their indexes.
func (t *view) encryptAll(ctx context.Context, records []*record, by func(*column) bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range t.byName {
		if !by(c) {
			continue
		}
		group.Go(func() error {
			codes := make([]int64, 0, len(records))
			for _, r := range records {
				if v := r.values[t.valueIndex(c)]; v != nil {
					code, err := c.typ.code(v)
					if err != nil {
						return fmt.Errorf("column %q: %w", c.name, err)
					}
					codes = append(codes, code)
				}
			}
			if len(codes) == 0 {
				return nil
			}
			if _, err := c.scheme.(ope.BatchEncrypter).EncryptBatch(ctx, codes); err != nil {
				return fmt.Errorf("column %q: %w", c.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// remove deletes rows, and then their postings.
func (t *view) remove(ctx context.Context, rowKeys [][]byte) error {
	if t.schema.Conditional {
		changes := make([]*rowChange, len(rowKeys))
		for i, key := range rowKeys {
			changes[i] = deletion(key)
		}
		return t.commit(ctx, changes)
	}
	records := make([]*record, len(rowKeys))
	mutations := make([]driver.Mutation, len(rowKeys))
	for i, key := range rowKeys {
		records[i] = &record{key: key}
		mutations[i] = driver.Mutation{Row: key, DeleteRow: true}
	}
	var old []*record
	if t.postings != nil {
		var err error
		if old, err = t.current(ctx, records); err != nil {
			return err
		}
	}
	if err := t.data.Apply(ctx, mutations...); err != nil {
		return err
	}
	return t.dropPostings(ctx, old)
}

// current returns the rows that the records are going to replace, as far as they have postings.
func (t *view) current(ctx context.Context, records []*record) ([]*record, error) {
	old := make([]*record, len(records))
	searched := t.searchedColumns()
	err := t.st.each(ctx, len(records), func(ctx context.Context, i int) error {
		if records[i].fresh {
			return nil
		}
		found, err := t.read(ctx, records[i].key, searched)
		switch {
		case refused(err), errors.Is(err, ErrTorn):
			// What cannot be read may be replaced; its postings point to nothing then.
			t.st.observer.warn(ctx, "a row that could not be read is replaced", t.family(), err)
			return nil
		case err != nil:
			return err
		}
		old[i] = found
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(old, func(r *record) bool { return r == nil }), nil
}

// dropPostings removes the postings of rows that were replaced or deleted. A row that is still
// there, because its timestamp beat the later write, keeps them.
func (t *view) dropPostings(ctx context.Context, old []*record) error {
	if len(old) == 0 {
		return nil
	}
	postings := make([][][]byte, len(old))
	err := t.st.each(ctx, len(old), func(ctx context.Context, i int) error {
		keys := t.postingKeys(old[i])
		if len(keys) == 0 {
			return nil
		}
		write, found, err := t.readWrite(ctx, old[i].key)
		if err == nil && !(found && write == old[i].write) {
			postings[i] = keys
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.unpost(ctx, slices.Concat(postings...))
}

// A posting is a row of the index family without content:
//
//	column id, 4 bytes || ciphertext or token || row key || write id, 16 bytes
//
// In a table with tenants the token of the tenant, 16 bytes, follows the column id.
var postingCell = driver.Cell{Qualifier: []byte{}, Value: []byte{}}

// post makes postings durable.
func (t *view) post(ctx context.Context, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	puts := make([]driver.Mutation, len(keys))
	for i, key := range keys {
		puts[i] = driver.Mutation{Row: key, Puts: []driver.Cell{postingCell}}
	}
	return t.postings.Apply(ctx, puts...)
}

// unpost removes postings.
func (t *view) unpost(ctx context.Context, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	drops := make([]driver.Mutation, len(keys))
	for i, key := range keys {
		drops[i] = driver.Mutation{Row: key, DeleteRow: true}
	}
	return t.postings.Apply(ctx, drops...)
}

// allPostingKeys returns the keys of the postings of records.
func (t *view) allPostingKeys(records []*record) [][]byte {
	var keys [][]byte
	for _, r := range records {
		keys = append(keys, t.postingKeys(r)...)
	}
	return keys
}

// postingKeys returns the keys of a record's postings.
func (t *view) postingKeys(r *record) [][]byte {
	var keys [][]byte
	for i := range t.stored {
		if r.search[i] != nil {
			keys = append(keys, t.postingKey(r, i))
		}
	}
	return keys
}

// postingKey returns the key of the posting of a column that has one.
func (t *view) postingKey(r *record, column int) []byte {
	return slices.Concat(t.stored[column].lead, r.search[column], r.key, r.write[:])
}

// cutPosting returns what a posting of the column says.
func (c *column) cutPosting(key []byte) (search, row []byte, write writeID, err error) {
	n := len(c.lead) + c.size
	if len(key) < n+1+len(write) {
		return nil, nil, write, fmt.Errorf("%w: a posting of column %q is too short", ErrFormat, c.name)
	}
	copy(write[:], key[len(key)-len(write):])
	return key[len(c.lead):n], key[n : len(key)-len(write)], write, nil
}
