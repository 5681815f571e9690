package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store"
	storecompare "github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// TieSize is the length of a row id in bytes.
const TieSize = loads.TieSize

// A Tie is the id of a row.
type Tie = loads.Tie

// A Row is a value and its id.
type Row struct {
	Value int64
	Tie   Tie
}

// A Table is what the measurements need of a stored column.
type Table interface {
	// Insert makes rows durable. Inserting one again is harmless.
	Insert(ctx context.Context, rows []Row) error

	// Range yields the rows with lo <= value <= hi in ascending order of their values, at most
	// limit of them, where 0 is no limit. lo > hi yields nothing. An error is the last thing
	// yielded.
	Range(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error]

	// IndexStats returns what was done so far to the index of the values, and false where there is
	// none that counts.
	IndexStats() (IndexStats, bool)
}

// A StoredTable is an encrypted table, whose ranges may be without an order for a time.
type StoredTable interface {
	Table

	// Rows yields the same as Range does, but in no order; with a limit any of the rows.
	Rows(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error]

	// Unordered says why ranges come in no order at present, and what ends that. It is "" where they come in
	// that of their values.
	Unordered(ctx context.Context) (string, error)
}

// ErrUnordered is returned by a range whose rows came in no order, for a reason that ends.
var ErrUnordered = errors.New("the rows came in no order")

var errMisplaced = fmt.Errorf("%w: rows came back twice or in another order than their values", exit.ErrWrongAnswer)

// table is an encrypted table with a value and a row id.
type table struct {
	table     *store.Table
	kind      values.Kind
	value, id string // names of the parts
	moves     bool   // its ciphertexts
}

func (t *table) Insert(ctx context.Context, rows []Row) error {
	stored := make([]store.Row, len(rows))
	for i, row := range rows {
		value, err := t.kind.Column.Value(row.Value)
		if err != nil {
			return err
		}
		stored[i] = store.Row{t.value: value, t.id: [TieSize]byte(row.Tie)}
	}
	return t.table.Put(ctx, stored...)
}

func (t *table) IndexStats() (IndexStats, bool) {
	n, err := storecompare.StatsOf(t.table, t.value)
	return IndexStats{n, t.moves}, err == nil
}

func (t *table) Range(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var previous Row
		first := true
		for row, err := range t.Rows(ctx, lo, hi, limit) {
			if err == nil && !first && (row.Value < previous.Value || row == previous) {
				err = t.misplaced(ctx)
			}
			if !yield(row, err) || err != nil {
				return
			}
			previous, first = row, false
		}
	}
}

// misplaced returns the error of a row that came after a greater one, or twice.
func (t *table) misplaced(ctx context.Context) error {
	if why, err := t.Unordered(ctx); err == nil && why != "" {
		return fmt.Errorf("%w: %s; run the command again", ErrUnordered, why)
	}
	return errMisplaced
}

func (t *table) Rows(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		d, ok := t.kind.Domain.Intersect(lo, hi)
		if !ok {
			return
		}
		where, err := t.kind.Column.Between(t.value, d.Min, d.Max)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for stored, err := range t.table.Query(ctx, store.Query{Where: where, Limit: limit}) {
			var row Row
			if err == nil {
				row, err = t.row(stored)
			}
			// The table authenticates each row, but not how many there are and in what order.
			if err == nil && (row.Value < lo || row.Value > hi) {
				err = errMisplaced
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (t *table) Unordered(ctx context.Context) (string, error) {
	d, err := t.table.Describe(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(d.Columns, func(f inspect.Field) bool { return f.Name == t.value })
	if i < 0 {
		return "", nil // the value leads the row key, whose order is that of rows
	}
	switch f := d.Columns[i]; {
	case f.Remaking && t.moves:
		return fmt.Sprintf("the index of column %q is being made again, which 'rangecrypt table reindex %s --column %s' finishes",
			t.value, show.Argument(d.Name), show.Argument(t.value)), nil
	case slices.ContainsFunc(f.Former, func(former inspect.Field) bool { return !former.Converted }):
		return fmt.Sprintf("rows have column %q under an earlier encryption, which 'rangecrypt table convert %s' ends",
			t.value, show.Argument(d.Name)), nil
	}
	return "", nil
}

// Sorted yields the rows with lo <= value <= hi as [Table.Range] does, of a table whose ranges come in no order.
// It reads all of them, and holds those that it yields, or twice as many.
func Sorted(ctx context.Context, t StoredTable, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var rows []Row
		sorted := func() bool {
			slices.SortFunc(rows, func(a, b Row) int {
				return cmp.Or(cmp.Compare(a.Value, b.Value), bytes.Compare(a.Tie[:], b.Tie[:]))
			})
			n := len(rows)
			rows = slices.Compact(rows)
			same := len(rows) < n
			if limit > 0 && len(rows) > limit {
				rows = rows[:limit]
			}
			return !same
		}
		for row, err := range t.Rows(ctx, lo, hi, 0) {
			if err == nil {
				rows = append(rows, row)
				if limit > 0 && len(rows)/2 >= limit && !sorted() {
					err = errMisplaced
				}
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
		}
		if !sorted() {
			yield(Row{}, errMisplaced)
			return
		}
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (t *table) row(stored store.Row) (row Row, err error) {
	id, ok := stored[t.id].([TieSize]byte)
	if !ok {
		return row, fmt.Errorf("%w: a row has no id", exit.ErrWrongAnswer)
	}
	row.Tie = id
	row.Value, err = t.kind.Column.Code(stored[t.value])
	return row, err
}
