package store

import (
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// What packages beside this one may ask of its values.
func init() {
	session.Of = func(st any) *session.Database { return st.(*Store).db }
	session.SchemaOf = func(s any) meta.Schema { return s.(Schema).inner() }
	session.PublicSchema = func(s meta.Schema) any { return publicSchema(s) }
	session.PlanOf = planOf
	session.SelectionOf = func(q any) query.Selection { return q.(Query).selection() }
	scheme.OfColumn = func(table any, name string) (ope.Scheme, error) {
		t, err := table.(*Table).open().Use()
		if err != nil {
			return nil, err
		}
		c := t.ByName[name]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.Meta.Name, name)
		}
		return c.Scheme, nil
	}
}
