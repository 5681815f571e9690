package administer

import (
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Register gives keys to columns of a table that the application keeps. What is registered so already stays as it is.
func Register(ctx context.Context, db *session.Database, table string, columns []meta.Spec) error {
	return db.Catalogue.Change(ctx, []string{table}, func(e *catalogue.Edit) (err error) {
		before, next := e.Table(table), (*meta.Table)(nil)
		switch {
		case before == nil:
			next, err = meta.NewElsewhere(table)
		case !before.Elsewhere():
			err = fmt.Errorf("%w: a table whose rows are kept here: give the other one another name", fault.ErrExists)
		default:
			next = before.Clone()
		}
		if err != nil {
			return err
		}
		a := &meta.Alteration{Meta: next, Others: e, Changed: before == nil}
		for _, c := range columns {
			if err := register(a, c); err != nil {
				return err
			}
		}
		if !a.Changed {
			return nil
		}
		return complete(db, e, next)
	})
}

func register(a *meta.Alteration, c meta.Spec) error {
	if err := a.Meta.Registrable(c); err != nil {
		return err
	}
	i := slices.IndexFunc(a.Meta.Columns, func(f meta.Field) bool { return f.Name == c.Name })
	if i < 0 {
		return a.Add(c)
	}
	f := &a.Meta.Columns[i]
	if c.Type.ID() != f.Type || c.Encryption != f.Encryption || c.Scheme != f.Scheme {
		return fmt.Errorf("%w: column %q, with another type, encryption or scheme, which never change: register a column of another name", fault.ErrExists, c.Name)
	}
	return nil
}
