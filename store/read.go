package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Get returns the row with the key parts of key, with the named columns or, where none is named,
// with all of them. It returns nil if there is no such row.
func (tbl *Table) Get(ctx context.Context, key Row, columns ...string) (_ Row, err error) {
	t, err := tbl.use()
	if err != nil {
		return nil, err
	}
	ctx, end := t.st.observer.operation(ctx, "get", t.family())
	defer func() { end(1, err) }()
	var want []bool
	var rowKey []byte
	t, err = tbl.checked(ctx, t, func(t *view) (err error) {
		if want, err = t.want(columns); err == nil {
			rowKey, err = t.exactKey(ctx, key)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", t.schema.Name, t.gone(err))
	}
	if rowKey == nil {
		return nil, nil
	}
	r, err := t.getClear(ctx, rowKey, key, want)
	if err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", t.schema.Name, t.gone(err))
	}
	if r == nil {
		return nil, nil
	}
	t.st.lazy.found(ctx, tbl, r)
	return t.row(r, want), nil
}

// getClear returns a row of which some columns are wanted. If all of these are in plain cells it opens
// nothing: that the cells are of one write is seen by their headers, and the key parts are those asked
// for. Which of the columns are null only the key cell says: if one has no cell, that is opened.
func (t *view) getClear(ctx context.Context, rowKey []byte, key Row, want []bool) (*record, error) {
	if !slices.Contains(want, true) {
		return t.read(ctx, rowKey, want)
	}
	for i, c := range t.stored {
		if want[i] && c.of == nil && (!c.clear() || c.packed || len(c.former) > 0) {
			return t.read(ctx, rowKey, want)
		}
	}
	cells, err := t.data.Get(ctx, rowKey, t.slice(want))
	if err != nil {
		return nil, err
	}
	if r := t.decodeClear(cells, want); r != nil {
		r.key = rowKey
		return r, t.checkKey(r, key)
	}
	return t.opened(ctx, t.data, driver.Row{Key: rowKey, Cells: cells}, want, new(scratch))
}

// decodeClear returns what the wanted columns, all of them plain, have in the cells of a row, or nil
// if that takes the key cell.
func (t *view) decodeClear(cells []driver.Cell, want []bool) *record {
	if len(cells) == 0 || len(cells[0].Qualifier) != 0 {
		return nil
	}
	h, err := seal.PeekHeader(cells[0].Value)
	if t.clear {
		_, h, err = openPlain(cells[0].Value)
	}
	if err != nil || h.Policy > t.version {
		return nil
	}
	r := t.newRecord()
	for i, c := range t.stored {
		if !want[i] {
			continue
		}
		at := slices.IndexFunc(cells, func(cell driver.Cell) bool { return bytes.Equal(cell.Qualifier, c.id[:]) })
		if at < 0 {
			return nil
		}
		b, cell, err := openPlain(cells[at].Value)
		if err == nil && cell.Write == h.Write {
			r.values[t.valueIndex(c)], err = c.typ.parse(b)
		}
		if err != nil || cell.Write != h.Write {
			return nil
		}
	}
	return r
}

// exactKey returns the row key of a Row that names all key parts. It may return nil if there is no
// such row.
func (t *view) exactKey(ctx context.Context, key Row) ([]byte, error) {
	keys, err := t.exactKeys(ctx, []Row{key})
	if row := (*RowError)(nil); errors.As(err, &row) {
		return nil, row.Err // which one it is says nothing
	} else if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// exactKeys does so for many. An error is a [RowError], or one of the database.
func (t *view) exactKeys(ctx context.Context, rows []Row) ([][]byte, error) {
	// Encrypting a value that no row has would write it to the index of a stateful scheme. So rows
	// are looked for there, as a query does, which takes requests.
	find := slices.ContainsFunc(t.parts, func(c *column) bool { return c.stateful })
	keys := make([][]byte, len(rows))
	records := make([]*record, len(rows))
	for i, row := range rows {
		r := t.newRecord()
		err := t.checkKey(r, row)
		if err == nil && r.fresh {
			err = fmt.Errorf("%w: key part %q is null", ErrColumn, t.parts[len(t.parts)-1].name)
		}
		if err == nil && !find {
			err = t.encodeKey(ctx, r)
		}
		if err != nil {
			return nil, &RowError{i, err}
		}
		keys[i], records[i] = r.key, r
	}
	if !find {
		return keys, nil
	}
	err := t.st.each(ctx, len(keys), func(ctx context.Context, i int) (err error) {
		keys[i], err = t.findKey(ctx, records[i])
		return err
	})
	return keys, err
}

// findKey returns the key of the row that has the key parts of r, or nil.
func (t *view) findKey(ctx context.Context, r *record) ([]byte, error) {
	var p Predicate
	for i, c := range t.parts {
		p.terms = append(p.terms, term{column: c.name, in: []any{r.values[i]}})
	}
	for hit, err := range t.find(ctx, Query{Where: p, Limit: 1, keyOnly: true}, new(Explanation)) {
		if err != nil {
			return nil, err
		}
		return hit.record.key, nil
	}
	return nil, nil
}

// want returns which columns the names mean, by position; nil means all.
func (t *view) want(names []string) ([]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	want := make([]bool, len(t.stored))
	for _, name := range names {
		c := t.byName[name]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.schema.Name, name)
		}
		c.add(want)
	}
	return want, nil
}

// add adds a column to those that are wanted.
func (c *column) add(want []bool) {
	if c.part >= 0 {
		return
	}
	want[c.position] = true
	for _, former := range c.former {
		want[former.position] = true
	}
}

// searchedColumns returns which columns have postings.
func (t *view) searchedColumns() []bool {
	want := make([]bool, len(t.stored))
	for i, c := range t.stored {
		want[i] = c.searched()
	}
	return want
}

// slice returns the cells that decode needs for the columns in want.
func (t *view) slice(want []bool) driver.Slice {
	if want == nil {
		return driver.Slice{}
	}
	only := [][]byte{keyQualifier}
	for _, i := range t.byID {
		if want[i] {
			only = append(only, t.stored[i].id[:])
		}
	}
	return driver.Slice{Only: only}
}

// tornReads is how often a row that holds a mixture of two writes is read again before it is
// reported. Between the two writes of a race it holds one only for as long as they take.
const tornReads = 6

// read returns a row, or nil if there is none.
func (t *view) read(ctx context.Context, key []byte, want []bool) (*record, error) {
	return t.readFrom(ctx, t.data, key, want)
}

func (t *view) readFrom(ctx context.Context, data driver.Family, key []byte, want []bool) (*record, error) {
	for attempt := 0; ; attempt++ {
		cells, err := data.Get(ctx, key, t.slice(want))
		if err != nil {
			return nil, err
		}
		row := driver.Row{Key: key, Cells: cells}
		r, err := t.decode(row, want, new(scratch))
		if newer := newerRow(0); errors.As(err, &newer) {
			return t.readNewer(ctx, data, row, want, newer)
		}
		if !errors.Is(err, errTornRow) {
			return r, err
		}
		if attempt == tornReads {
			return nil, fmt.Errorf("%w: %w", ErrTorn, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// opened returns the row that was scanned.
func (t *view) opened(ctx context.Context, data driver.Family, row driver.Row, want []bool, s *scratch) (*record, error) {
	r, err := t.decode(row, want, s)
	if err == nil {
		return r, nil
	}
	if newer := newerRow(0); errors.As(err, &newer) {
		return t.readNewer(ctx, data, row, want, newer)
	}
	if errors.Is(err, errTornRow) {
		return t.readFrom(ctx, data, row.Key, want)
	}
	return nil, err
}

// readNewer returns, as one of this view, a row that was written by a client which knew more of the
// table: it finds out. If the row is not stored as this view has it, it is read once more.
func (t *view) readNewer(ctx context.Context, data driver.Family, row driver.Row, want []bool, newer newerRow) (*record, error) {
	now, err := t.tbl.atLeast(ctx, uint32(newer))
	if err != nil {
		return nil, err
	}
	if now.same(t) {
		return now.opened(ctx, data, row, want, new(scratch))
	}
	r, err := now.readFrom(ctx, data, row.Key, now.wanted(t, want))
	if err != nil || r == nil {
		return nil, err
	}
	return t.adopted(now, r), nil
}

// same reports whether two views are of the same schema and policy.
func (t *view) same(other *view) bool { return t.changed == other.changed }

// successor returns what a column of another view is in this one, or nil if it was dropped.
func (t *view) successor(c *column) *column {
	if c.part >= 0 {
		return t.parts[c.part]
	}
	i := slices.IndexFunc(t.stored, func(s *column) bool { return s.id == c.id })
	switch {
	case i < 0:
		return nil
	case t.stored[i].of != nil:
		return t.stored[i].of
	}
	return t.stored[i]
}

// wanted returns which columns of this view are those of another one.
func (t *view) wanted(other *view, columns []bool) []bool {
	if columns == nil {
		return nil
	}
	want := make([]bool, len(t.stored))
	for i, c := range other.stored {
		if s := t.successor(c); columns[i] && s != nil {
			s.add(want)
		}
	}
	return want
}

// adopted turns a row of another view into one of this. It has the values of this view's columns,
// and what their postings carry where they have some.
func (t *view) adopted(other *view, r *record) *record {
	a := t.newRecord()
	a.key, a.write, a.version = r.key, r.write, r.version
	copy(a.values, r.values[:len(t.parts)])
	for i, c := range t.columns {
		if s := other.successor(c); s != nil {
			a.values[len(t.parts)+i] = r.values[other.valueIndex(s)]
		}
	}
	for i, c := range t.stored {
		j := slices.IndexFunc(other.stored, func(s *column) bool { return s.id == c.id })
		if j >= 0 && a.search != nil && r.search != nil {
			a.search[i] = r.search[j]
		}
	}
	return a
}

// readWrite returns the write id of a row, and whether there is one.
func (t *view) readWrite(ctx context.Context, key []byte) (writeID, bool, error) {
	cells, err := t.data.Get(ctx, key, driver.Slice{Only: [][]byte{keyQualifier}})
	if err != nil || len(cells) == 0 {
		return writeID{}, false, err
	}
	var s scratch
	s.where.of(t, key)
	_, h, err := t.openKeyCell(cells[0].Value, &s)
	if newer := newerRow(0); errors.As(err, &newer) {
		now, err := t.tbl.atLeast(ctx, uint32(newer))
		if err != nil {
			return writeID{}, false, err
		}
		_, h, err = now.openKeyCell(cells[0].Value, &s)
		return h.Write, err == nil, err
	}
	if err != nil {
		return writeID{}, false, err
	}
	return h.Write, true, nil
}

// pause waits before the next attempt, about 2 ms at first and twice as long each time, at most
// 200 ms; half of it is random, so that clients in each other's way part.
func pause(ctx context.Context, attempt int) error {
	d := min(time.Millisecond<<min(attempt+1, 10), 200*time.Millisecond)
	d = d/2 + rand.N(d/2+1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-timer.C:
		return nil
	}
}

// ended returns the error of a context that is done, with its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// family returns the name under which the table appears in spans and logs.
func (t *view) family() string { return t.meta.dataFamily() }

// gone adds [ErrNoTable] to an error of the database where the reason is that the table was
// dropped.
func (t *view) gone(err error) error {
	if errors.Is(err, driver.ErrNoFamily) {
		return fmt.Errorf("%w: it was dropped: %w", ErrNoTable, err)
	}
	return err
}
