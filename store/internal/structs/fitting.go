package structs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A Fitting is how a struct fits a table, as the table changes.
type Fitting struct {
	plan     *Plan
	unmapped bool                    // columns may have no field
	last     atomic.Pointer[Binding] // to the view of the last call
}

// NewFitting returns that of a struct.
func NewFitting(plan *Plan, unmapped bool) *Fitting { return &Fitting{plan: plan, unmapped: unmapped} }

// Other returns that of the same struct for another table.
func (f *Fitting) Other() *Fitting { return NewFitting(f.plan, f.unmapped) }

// Of returns how the struct fits a view.
func (f *Fitting) Of(t *rowcodec.View) (*Binding, error) {
	if b := f.last.Load(); b != nil && b.Since == t.Since {
		return b, nil
	}
	b, err := f.plan.Bind(t)
	if err == nil && !f.unmapped {
		err = b.Whole("add fields, or give store.AllowUnmapped to For")
	}
	if err != nil {
		return nil, err
	}
	f.last.Store(b)
	return b, nil
}

// Still returns how the struct fits a view of a table that it did fit.
func (f *Fitting) Still(t *rowcodec.View) (*Binding, error) {
	b, err := f.Of(t)
	if err != nil {
		return nil, Changed(err)
	}
	return b, nil
}

// Changed returns what it means that a struct does not fit, if it did fit.
func Changed(err error) error {
	return fault.Besides(fmt.Errorf("%w: %s", fault.ErrSchemaChanged, strings.TrimPrefix(err.Error(), fault.ErrColumn.Error()+": ")), err)
}

type guarded struct{}

// Guarding returns the context of a write of such structs: see [Guards].
func (f *Fitting) Guarding(ctx context.Context) context.Context {
	return context.WithValue(ctx, guarded{}, f)
}

// Guards returns an error if a write is of structs whose tags say that a column is sealed which a view has in the clear. Who learns of the
// view in the middle of the write asks before it stores anything so.
func Guards(ctx context.Context, t *rowcodec.View) error {
	f, _ := ctx.Value(guarded{}).(*Fitting)
	if f == nil || f.last.Load() != nil && f.last.Load().Since == t.Since {
		return nil
	}
	schema, err := t.Meta.Schema()
	if err != nil {
		return err
	}
	for _, s := range schema.Columns {
		for _, of := range f.plan.fields {
			if of.column != s.Name {
				continue
			}
			if err := of.exposed(t.Meta, s); err != nil {
				return Changed(fmt.Errorf("%w: %s does not fit: field %s: %w", fault.ErrColumn, f.plan.name, of.path, err))
			}
		}
	}
	return nil
}

// Wrote returns the error of a write into a table, also if it has ended without one, but told the client that the struct does not fit
// any more. The rows of a whole have null where the struct has no field.
func (f *Fitting) Wrote(t *rowcodec.View, err error, whole bool) error {
	if err != nil && !errors.Is(err, fault.ErrWritten) {
		return f.Explained(t, err)
	}
	b, unfit := f.Still(t)
	if unfit == nil && whole {
		if unfit = b.Whole("give the struct a field for each"); unfit != nil {
			unfit = Changed(unfit)
		}
	}
	if unfit != nil {
		return fmt.Errorf("store: table %q: %w; %w, by the new schema", t.Meta.Name, unfit, fault.ErrWritten)
	}
	return err
}

// Explained returns what an error of a call means, if the schema was changed before it. A value is null, too, whose column is gone.
func (f *Fitting) Explained(t *rowcodec.View, err error) error {
	if (errors.Is(err, fault.ErrColumn) || errors.Is(err, fault.ErrNull)) && !errors.Is(err, fault.ErrSchemaChanged) {
		if _, unfit := f.Still(t); unfit != nil {
			return fmt.Errorf("store: table %q: %w", t.Meta.Name, unfit)
		}
	}
	return err
}

var errNil = fmt.Errorf("%w: the pointer is nil", fault.ErrColumn)

// ValueOf returns the struct that a pointer leads to.
func ValueOf[T any](row *T) (reflect.Value, error) {
	if row == nil {
		return reflect.Value{}, errNil
	}
	return reflect.ValueOf(row).Elem(), nil
}
