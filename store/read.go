package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Get returns the row with the key parts of key, with the named columns or, where none is named,
// with all of them. It returns nil if there is no such row.
func (t *Table) Get(ctx context.Context, key Row, columns ...string) (_ Row, err error) {
	ctx, end := t.st.observer.operation(ctx, "get", t.family())
	defer func() { end(1, err) }()
	want, err := t.want(columns)
	if err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", t.schema.Name, err)
	}
	rowKey, err := t.exactKey(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", t.schema.Name, t.gone(err))
	}
	if rowKey == nil {
		return nil, nil
	}
	r, err := t.read(ctx, rowKey, want)
	if err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", t.schema.Name, t.gone(err))
	}
	if r == nil {
		return nil, nil
	}
	return t.row(r, want), nil
}

// exactKey returns the row key of a Row that names all key parts. It may return nil if there is no
// such row.
func (t *Table) exactKey(ctx context.Context, key Row) ([]byte, error) {
	keys, err := t.exactKeys(ctx, []Row{key})
	if row := (*RowError)(nil); errors.As(err, &row) {
		return nil, row.Err // which one it is says nothing
	} else if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// exactKeys does so for many. An error is a [RowError], or one of the database.
func (t *Table) exactKeys(ctx context.Context, rows []Row) ([][]byte, error) {
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
func (t *Table) findKey(ctx context.Context, r *record) ([]byte, error) {
	var p Predicate
	for i, c := range t.parts {
		p.terms = append(p.terms, term{column: c.name, in: []any{r.values[i]}})
	}
	for hit, err := range t.find(ctx, Query{Where: p, Limit: 1}, make([]bool, len(t.columns)), new(Explanation)) {
		if err != nil {
			return nil, err
		}
		return hit.record.key, nil
	}
	return nil, nil
}

// want returns which columns the names mean, by position; nil means all.
func (t *Table) want(names []string) ([]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	want := make([]bool, len(t.columns))
	for _, name := range names {
		c := t.byName[name]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.schema.Name, name)
		}
		if c.part < 0 {
			want[c.position] = true
		}
	}
	return want, nil
}

// searchedColumns returns which columns have postings.
func (t *Table) searchedColumns() []bool {
	want := make([]bool, len(t.columns))
	for i, c := range t.columns {
		want[i] = c.searched()
	}
	return want
}

// slice returns the cells that decode needs for the columns in want.
func (t *Table) slice(want []bool) driver.Slice {
	if want == nil {
		return driver.Slice{}
	}
	only := [][]byte{keyQualifier}
	for _, i := range t.byID {
		if want[i] {
			only = append(only, t.columns[i].id[:])
		}
	}
	return driver.Slice{Only: only}
}

// tornReads is how often a row that holds a mixture of two writes is read again before it is
// reported. Between the two writes of a race it holds one only for as long as they take.
const tornReads = 6

// read returns a row, or nil if there is none.
func (t *Table) read(ctx context.Context, key []byte, want []bool) (*record, error) {
	return t.readFrom(ctx, t.data, key, want)
}

func (t *Table) readFrom(ctx context.Context, data driver.Family, key []byte, want []bool) (*record, error) {
	for attempt := 0; ; attempt++ {
		cells, err := data.Get(ctx, key, t.slice(want))
		if err != nil {
			return nil, err
		}
		r, err := t.decode(driver.Row{Key: key, Cells: cells}, want, new(scratch))
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

// readWrite returns the write id of a row, and whether there is one.
func (t *Table) readWrite(ctx context.Context, key []byte) (writeID, bool, error) {
	cells, err := t.data.Get(ctx, key, driver.Slice{Only: [][]byte{keyQualifier}})
	if err != nil || len(cells) == 0 {
		return writeID{}, false, err
	}
	var s scratch
	s.where.of(t, key)
	_, h, err := t.openKeyCell(cells[0].Value, &s)
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
func (t *Table) family() string { return t.meta.dataFamily() }

// gone adds [ErrNoTable] to an error of the database where the reason is that the table was
// dropped.
func (t *Table) gone(err error) error {
	if errors.Is(err, driver.ErrNoFamily) {
		return fmt.Errorf("%w: it was dropped: %w", ErrNoTable, err)
	}
	return err
}
