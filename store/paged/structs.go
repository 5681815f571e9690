package paged

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
	"github.com/rangecrypt/rangecrypt/store/internal/structs"
)

// A TableOf is a [Table] whose rows are structs. It is safe for concurrent use. See [For].
type TableOf[T any] struct {
	table *Table
	fit   *structs.Fitting
}

// For opens a table of pages whose rows are structs, with tags as [store.For] reads them. [store.SchemaOf] has the schema for [Create]:
//
//	type Reading struct {
//		Device  string    `rangecrypt:"device,key=1,hashed"`
//		At      time.Time `rangecrypt:"at,key=2,ordered=mope,unit=ms"`
//		Celsius *float64  `rangecrypt:"celsius"`
//		Model   string    `rangecrypt:"model,plain"`
//	}
//
// What contradicts the table is [store.ErrColumn], as is a column without a field, unless [store.AllowUnmapped] is given: then Put is
// refused. If the schema is changed later, calls go on as long as the struct fits; otherwise they are [store.ErrSchemaChanged],
// and [store.ErrWritten] if rows were written all the same.
func For[T any](ctx context.Context, st *store.Store, name string, options ...store.ForOption) (*TableOf[T], error) {
	plan, err := session.PlanOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("paged: table %q: %w", name, err)
	}
	tbl, err := Open(ctx, st, name)
	if err != nil {
		return nil, err
	}
	of := &TableOf[T]{tbl, structs.NewFitting(plan, slices.Contains(options, store.AllowUnmapped))}
	_, err = tbl.pages.Now().WithSecondLook(ctx, func(e *engine.Engine) error {
		_, err := of.fit.Of(e.View)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("paged: table %q: %w", name, err)
	}
	return of, nil
}

// Table returns the table itself, for what is done with no rows, or with such as are maps.
func (of *TableOf[T]) Table() *Table { return of.table }

// Put writes rows, each as a whole, as [Table.Put] does. A tie-breaker that is zero is drawn, and the struct has it then, so that the
// same Put again writes the same row.
func (of *TableOf[T]) Put(ctx context.Context, rows ...*T) error {
	values, err := of.rows(ctx, "put", rows, nil, true)
	if err != nil {
		return err
	}
	return of.wrote(of.table.Put(of.fit.Guarding(ctx), values...), true)
}

// Update changes columns of a row that exists, as [Table.Update] does: the named ones or, where none is named, all that have a field.
func (of *TableOf[T]) Update(ctx context.Context, row *T, columns ...string) error {
	values, err := of.rows(ctx, "update", []*T{row}, columns, false)
	if err != nil {
		return err
	}
	return of.wrote(of.table.Update(of.fit.Guarding(ctx), values...), false)
}

// Delete removes the rows that have the key parts of keys, as [Table.Delete] does.
func (of *TableOf[T]) Delete(ctx context.Context, keys ...*T) error {
	values, err := of.rows(ctx, "delete", keys, []string{}, false)
	if err != nil {
		return err
	}
	return of.explained(of.table.Delete(ctx, values...))
}

// Get returns the row that has the key parts of key, whose other fields are not looked at. A row that does not exist is
// [store.ErrNoRow]; [Table.Get] returns nil, and no error.
func (of *TableOf[T]) Get(ctx context.Context, key *T) (*T, error) {
	keys, err := of.rows(ctx, "get", []*T{key}, []string{}, false)
	if err != nil {
		return nil, err
	}
	_, b, err := of.use(ctx)
	if err != nil {
		return nil, of.table.pages.Refused(ctx, "get", err)
	}
	values, err := of.table.Get(ctx, keys[0], b.Columns...)
	if err != nil {
		return nil, of.explained(err)
	}
	if values == nil {
		return nil, fmt.Errorf("paged: get from %q: %w", of.name(), store.ErrNoRow)
	}
	return of.filled(b, values, nil)
}

// Query yields the rows that the query selects, as [Table.Query] does. Fields whose columns are not among Columns of the query are zero,
// and so are encrypted key parts of a query that is Unauthenticated.
func (of *TableOf[T]) Query(ctx context.Context, q store.Query) iter.Seq2[*T, error] {
	q.Columns = slices.Clone(q.Columns)
	return func(yield func(*T, error) bool) {
		e, b, err := of.use(ctx)
		if err != nil {
			yield(nil, of.table.pages.Refused(ctx, "query", err))
			return
		}
		q := q // the sequence may be ranged over again, and by several goroutines
		switch {
		case q.Columns == nil && q.Unauthenticated:
			q.Columns = plainColumns(e, b)
		case q.Columns == nil:
			q.Columns = b.Columns
		}
		for values, err := range of.table.Query(ctx, q) {
			var row *T
			if err != nil {
				err = of.explained(err)
			} else {
				row, err = of.filled(b, values, q.Columns)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// plainColumns returns the names of the columns that are read without a key, of those that have a field.
func plainColumns(e *engine.Engine, b *structs.Binding) []string {
	names := []string{}
	for _, c := range e.Columns {
		if c.Clear() && (b.Columns == nil || slices.Contains(b.Columns, c.Name)) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (of *TableOf[T]) name() string { return of.table.pages.Now().Meta.Name }

// use returns the table as this client knows it, and how the struct fits that.
func (of *TableOf[T]) use(ctx context.Context) (e *engine.Engine, b *structs.Binding, err error) {
	if e, err = of.table.pages.Use(); err != nil {
		return nil, nil, fault.Prefixed(err)
	}
	e, err = e.WithSecondLook(ctx, func(e *engine.Engine) error {
		b, err = of.fit.Still(e.View)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("paged: table %q: %w", of.name(), err)
	}
	return e, b, nil
}

// rows returns structs as rows, for an operation that is observed if it ends here.
func (of *TableOf[T]) rows(ctx context.Context, do string, from []*T, columns []string, whole bool) ([]store.Row, error) {
	rows, err := of.named(ctx, from, columns, whole)
	if err != nil {
		return nil, of.table.pages.Refused(ctx, do, err)
	}
	return rows, nil
}

// named returns structs as rows of key parts and the columns that are asked for; nil asks for all that have a field. Those of a
// whole get tie-breakers.
func (of *TableOf[T]) named(ctx context.Context, from []*T, columns []string, whole bool) ([]store.Row, error) {
	e, b, err := of.use(ctx)
	if err != nil {
		return nil, err
	}
	if whole {
		if err := b.Whole("a row that is written as a whole would have null there: use Update"); err != nil {
			return nil, fmt.Errorf("paged: put into %q: %w", of.name(), err)
		}
	}
	last := e.Parts[len(e.Parts)-1]
	rows := make([]store.Row, len(from))
	for i, s := range from {
		row, err := structs.ValueOf(s)
		if err == nil {
			rows[i], err = b.Row(e.View, row, columns)
		}
		if err == nil && whole && last.Encryption == meta.TieBreaker && rows[i][last.Name] == nil {
			var tie [16]byte
			_, _ = rand.Read(tie[:]) // it never fails
			rows[i][last.Name] = tie
			err = b.Set(e.View, row, last.Name, tie)
		}
		if err != nil {
			return nil, fmt.Errorf("paged: table %q: %w", of.name(), &store.RowError{Index: i, Err: err})
		}
	}
	return rows, nil
}

// filled returns a row that has the named columns as a struct. The client may have learned since the binding that columns have other
// names: then the row has those.
func (of *TableOf[T]) filled(b *structs.Binding, values store.Row, columns []string) (*T, error) {
	if now := of.table.pages.Now(); now.Since != b.Since {
		if _, err := of.fit.Still(now.View); err != nil {
			return nil, fmt.Errorf("paged: table %q: %w", of.name(), err)
		}
	}
	row := new(T)
	if err := b.FillRow(reflect.ValueOf(row).Elem(), values, columns, store.ErrNull); err != nil {
		return nil, of.explained(fmt.Errorf("paged: table %q: %w", of.name(), err))
	}
	return row, nil
}

func (of *TableOf[T]) wrote(err error, whole bool) error {
	return of.fit.Wrote(of.table.pages.Now().View, err, whole)
}

func (of *TableOf[T]) explained(err error) error {
	return of.fit.Explained(of.table.pages.Now().View, err)
}
