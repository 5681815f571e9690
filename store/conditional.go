package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Rows of a table with Schema.Conditional are written by compare-and-set: each change names the
// key cell that it has seen, and replaces it. So no clock decides anything, what a change replaces
// is exactly what it has read, and of two clients that change different columns of a row neither
// undoes what the other did.
//
// A row that is deleted keeps a key cell with empty content: were it to vanish, a change that
// expects no row and comes very late would bring an old row back. Where a database cannot delete
// under a condition (HBase), a cell that is to go gets an empty value.

// A rowChange is what one call does to one row.
type rowChange struct {
	key []byte

	// next returns what the row becomes, nil for no row, from what it is, nil where there is none.
	// It is called again when another client was faster.
	next func(was *record) (*record, error)

	merges bool // next needs all of what it is

	read, tried []*record // states of the row that this change has met, and its attempts
	stored      *record   // what it has made of the row in the end
	done        bool
}

// commit makes changes of different rows. The order of its steps makes every row findable at any
// moment, wherever a client dies: postings first, then the row, and then the postings of what was
// replaced go.
//
// What became of a change whose outcome is unknown is found out by reading. Where the row is as it
// was, the change is tried again under the same condition: at most one of the two is ever made.
func (t *view) commit(ctx context.Context, changes []*rowChange) error {
	rows := make([]conditionalRow, len(changes))
	for round := 0; ; round++ {
		err := t.st.each(ctx, len(changes), func(ctx context.Context, i int) (err error) {
			if !changes[i].done {
				rows[i], err = t.meet(ctx, changes[i])
			}
			return err
		})
		if err != nil {
			return err
		}
		var written []*record
		for i, c := range changes {
			if c.done {
				continue
			}
			if rows[i].becomes, err = c.next(rows[i].record); err != nil {
				return err
			}
			if rows[i].becomes != nil {
				written = append(written, rows[i].becomes)
				c.tried = append(c.tried, rows[i].becomes)
			} else {
				c.done = rows[i].record == nil && rows[i].opens // there is no row to delete
			}
		}
		if err := t.announce(ctx, written); err != nil {
			return err
		}
		err = t.st.each(ctx, len(changes), func(ctx context.Context, i int) error {
			c := changes[i]
			if c.done {
				return nil
			}
			made, err := t.swap(ctx, c.key, &rows[i])
			if made {
				c.stored, c.done = rows[i].becomes, true
			}
			if errors.Is(err, driver.ErrUnknownOutcome) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(changes, func(c *rowChange) bool { return !c.done }) {
			break
		}
		if err := pause(ctx, round); err != nil {
			return err
		}
	}
	return t.dropReplaced(ctx, changes)
}

// A conditionalRow is a row as a change has met it, and what it is to become.
type conditionalRow struct {
	record  *record // nil where there is no row, or where it does not open
	opens   bool
	cells   []driver.Cell
	becomes *record
}

// keyCell returns the value of the key cell, or nil where there is none.
func (r *conditionalRow) keyCell() []byte {
	if len(r.cells) > 0 && len(r.cells[0].Qualifier) == 0 {
		return r.cells[0].Value
	}
	return nil
}

// meet reads the row of a change. Where the row is what an earlier attempt was to make of it, the
// change is done.
func (t *view) meet(ctx context.Context, c *rowChange) (conditionalRow, error) {
	cells, err := t.data.Get(ctx, c.key, driver.Slice{})
	if err != nil {
		return conditionalRow{}, err
	}
	row := conditionalRow{cells: cells, opens: true}
	row.record, err = t.decode(driver.Row{Key: c.key, Cells: cells}, nil, new(scratch))
	newer := newerRow(0)
	switch {
	case c.merges && err != nil:
		return conditionalRow{}, err
	case errors.As(err, &newer):
		row.opens = false // it is replaced, by one that is then written as newer clients expect it
	case refused(err), errors.Is(err, errTornRow):
		// What cannot be read may be replaced; its postings point to nothing then.
		t.st.observer.warn(ctx, "a row that could not be read is replaced", t.family(), err)
		row.opens = false
	case err != nil:
		return conditionalRow{}, err
	}
	is := func(r *record) bool { return row.record != nil && r.write == row.record.write }
	if i := slices.IndexFunc(c.tried, is); i >= 0 {
		c.stored, c.done = c.tried[i], true
	} else if row.record != nil && !slices.ContainsFunc(c.read, is) {
		c.read = append(c.read, row.record)
	}
	return row, nil
}

// announce makes durable what records are found by.
func (t *view) announce(ctx context.Context, records []*record) error {
	if err := t.encryptColumns(ctx, records); err != nil || t.postings == nil {
		return err
	}
	return t.post(ctx, t.allPostingKeys(records))
}

// swap makes a row what it is to become, unless its key cell has changed.
func (t *view) swap(ctx context.Context, key []byte, row *conditionalRow) (bool, error) {
	m := driver.Mutation{Row: key}
	if row.becomes != nil {
		m = t.mutation(row.becomes)
	} else {
		header := seal.Header{Policy: t.version}
		rand.Read(header.Write[:])
		m.Puts = []driver.Cell{{Qualifier: keyQualifier, Value: t.keyCell(header, nil, t.places(key))}}
	}
	m.Deletes = superseded(row.cells, m.Puts)
	expect := driver.Cell{Qualifier: keyQualifier, Value: row.keyCell()}
	if family, ok := t.data.(driver.Committer); ok {
		return family.Commit(ctx, key, []driver.Cell{expect}, m.Puts, m.Deletes)
	}
	for _, qualifier := range m.Deletes {
		m.Puts = append(m.Puts, driver.Cell{Qualifier: qualifier, Value: []byte{}})
	}
	return t.data.CheckAndPut(ctx, key, expect, m.Puts...)
}

// replace makes rows that were read what they are to become, where nobody has written them since. It
// returns the indexes of those that somebody has, as [driver.Family.Replace] does, and of those where
// it is not known.
func (t *view) replace(ctx context.Context, rows []driver.Row, becomes []*record) (late []int, err error) {
	if t.schema.Conditional {
		made := make([]bool, len(rows))
		err := t.st.each(ctx, len(rows), func(ctx context.Context, i int) (err error) {
			made[i], err = t.swap(ctx, rows[i].Key, &conditionalRow{cells: rows[i].Cells, becomes: becomes[i]})
			if errors.Is(err, driver.ErrUnknownOutcome) {
				return nil // it is read again, and tells
			}
			return err
		})
		for i, made := range made {
			if !made {
				late = append(late, i)
			}
		}
		return late, err
	}
	replacements := make([]driver.Replacement, len(rows))
	for i, row := range rows {
		m := t.mutation(becomes[i])
		replacements[i] = driver.Replacement{Row: row.Key, Seen: row.Cells[0], Puts: m.Puts, Deletes: superseded(row.Cells, m.Puts)}
	}
	return t.data.Replace(ctx, replacements...)
}

// superseded returns the qualifiers of cells that are there and not put.
func superseded(cells, puts []driver.Cell) [][]byte {
	var qualifiers [][]byte
	for _, cell := range cells {
		put := slices.ContainsFunc(puts, func(p driver.Cell) bool { return bytes.Equal(p.Qualifier, cell.Qualifier) })
		if !put && len(cell.Value) > 0 {
			qualifiers = append(qualifiers, cell.Qualifier)
		}
	}
	return qualifiers
}

// dropReplaced removes the postings of all that rows have been, and of attempts that came to
// nothing: none of it comes back, since its condition has failed for ever.
func (t *view) dropReplaced(ctx context.Context, changes []*rowChange) error {
	if t.postings == nil {
		return nil
	}
	var gone []*record
	for _, c := range changes {
		for _, r := range slices.Concat(c.read, c.tried) {
			if c.stored == nil || r.write != c.stored.write {
				gone = append(gone, r)
			}
		}
	}
	return t.unpost(ctx, t.allPostingKeys(gone))
}

// replacement returns the change that makes a record of a row, whatever that is.
func replacement(r *record) *rowChange {
	return &rowChange{key: r.key, next: func(*record) (*record, error) { return r.again(), nil }}
}

// deletion returns the change that deletes a row.
func deletion(key []byte) *rowChange {
	return &rowChange{key: key, next: func(*record) (*record, error) { return nil, nil }}
}

// again returns the record as one of another write: each attempt has postings of its own.
func (r *record) again() *record {
	next := *r
	rand.Read(next.write[:])
	return &next
}

// Update changes columns of rows that exist: of each Row, the key parts say which row it is, and
// the columns that it names get new values, nil for null; those that it does not name stay as they
// are. What another client changes at the same time is not lost. The table must have
// [Schema.Conditional]. A row that does not exist is [ErrNoRow], and stays so.
//
// All rows are checked before anything is written. They are changed in chunks, in the order given,
// and errors are those of [Table.Put].
func (tbl *Table) Update(ctx context.Context, rows ...Row) (err error) {
	t, err := tbl.use()
	if err != nil {
		return err
	}
	ctx, end := t.st.observer.operation(ctx, "update", t.family())
	defer func() { end(len(rows), err) }()
	var updates []*updated
	t, err = tbl.checked(ctx, t, func(t *view) (err error) {
		updates, err = t.updates(ctx, rows)
		return err
	})
	if err == nil {
		err = t.inChunks(len(rows), func(from, to int) error { return t.updateChunk(ctx, updates[from:to], from) })
	}
	if err != nil {
		return fmt.Errorf("store: update %q: %w", t.schema.Name, t.gone(err))
	}
	return nil
}

// updates returns what an Update with the given rows is to do.
func (t *view) updates(ctx context.Context, rows []Row) ([]*updated, error) {
	if !t.schema.Conditional {
		return nil, fmt.Errorf("%w: rows of a table without Conditional are written as a whole: use Put", ErrSchema)
	}
	for i, row := range rows {
		if err := t.checkNames(row); err != nil {
			return nil, &RowError{i, err}
		}
	}
	keys, err := t.exactKeys(ctx, rows)
	if err != nil {
		if row := (*RowError)(nil); !errors.As(err, &row) {
			err = undone(0, len(rows), err)
		}
		return nil, err
	}
	updates := make([]*updated, len(rows))
	distinct := make(distinctKeys, len(rows))
	for i, row := range rows {
		if keys[i] == nil {
			return nil, &RowError{i, ErrNoRow}
		}
		if err := distinct.add(keys[i], i, "update"); err != nil {
			return nil, &RowError{i, err}
		}
		if updates[i], err = t.updated(keys[i], row); err != nil {
			return nil, &RowError{i, err}
		}
	}
	return updates, nil
}

// An updated row is the new values of some of its columns.
type updated struct {
	key    []byte
	values map[columnID]any // nil for null
}

func (t *view) updated(key []byte, row Row) (*updated, error) {
	u := &updated{key: key, values: make(map[columnID]any)}
	for _, c := range t.columns {
		if _, named := row[c.name]; !named {
			continue
		}
		v, err := c.value(row)
		if err != nil {
			return nil, err
		}
		u.values[c.id] = v
	}
	return u, nil
}

// updateChunk updates rows, under a later view where that is needed: a row that was written by a
// client which knows more of the table must keep what this one does not know of.
func (t *view) updateChunk(ctx context.Context, updates []*updated, from int) error {
	now, changes := t, make([]*rowChange, len(updates))
	for i, u := range updates {
		changes[i] = &rowChange{key: u.key, merges: true, next: func(was *record) (*record, error) {
			if was == nil {
				return nil, &RowError{from + i, ErrNoRow}
			}
			return now.merged(was, t, u), nil
		}}
	}
	for {
		err := now.commit(ctx, changes)
		newer := newerRow(0)
		if !errors.As(err, &newer) {
			if err != nil && !t.st.guards.noFailed {
				// Some rows may have been updated, under a schema that is no longer.
				var tried []*record
				for _, c := range changes {
					tried = append(tried, c.tried[:min(1, len(c.tried))]...)
				}
				if unsettled := now.settleWrites(ctx, tried); unsettled != nil {
					err = errors.Join(err, unsettled)
				}
				err = now.late(err)
			}
			if err != nil {
				return err
			}
			break
		}
		later, err := t.tbl.atLeast(ctx, uint32(newer))
		if err != nil {
			return err
		}
		// What was updated stays so, whatever others have made of it since.
		for _, c := range changes {
			for _, records := range [][]*record{c.read, c.tried} {
				for i, r := range records {
					records[i] = later.adopted(now, r)
				}
			}
		}
		now = later
	}
	records := make([]*record, len(changes))
	for i, c := range changes {
		records[i] = c.stored
	}
	return now.settleWrites(ctx, records)
}

// merged returns a row with what an update of another view gives it.
func (t *view) merged(was *record, of *view, u *updated) *record {
	r := was.again()
	r.values, r.search = slices.Clone(was.values), slices.Clone(was.search)
	clear(r.search[min(len(t.columns), len(r.search)):]) // a value of a former column has moved
	for _, c := range of.columns {
		v, named := u.values[c.id]
		if !named {
			continue
		}
		if c = t.successor(c); c == nil {
			continue // it was dropped
		}
		r.values[t.valueIndex(c)] = v
		if c.searched() {
			r.search[c.position] = nil
		}
	}
	return r
}
