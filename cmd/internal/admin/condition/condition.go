// Package condition turns a condition as people write it into a predicate of package store, by the types of the
// columns. Constants need not be values of a column: one that is finer than the column keeps, or beyond its type, is
// compared with its values as it is written.
package condition

import (
	"fmt"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/where"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// Parse returns the predicate that a text states of the rows of a table. Times without an offset are of the zone of the
// format. An error shows the place in the text.
func Parse(schema store.Schema, text string, format *celltext.Format) (store.Predicate, error) {
	n, err := where.Parse(text, format.DecimalComma())
	if err != nil {
		return store.Predicate{}, err
	}
	b := binder{text, Columns(schema), format}
	return b.predicate(n)
}

// Columns returns what a table has: the parts of its row key, and then its columns.
func Columns(schema store.Schema) (all []inspect.Field) {
	for _, p := range schema.Key {
		all = append(all, p.Describe())
	}
	for _, c := range schema.Columns {
		all = append(all, c.Describe())
	}
	return all
}

// A binder knows what the names of a text mean.
type binder struct {
	text    string
	columns []inspect.Field
	format  *celltext.Format
}

func (b binder) predicate(n *where.Node) (store.Predicate, error) {
	var of []store.Predicate
	for _, inner := range n.Of {
		p, err := b.predicate(inner)
		if err != nil {
			return store.Predicate{}, err
		}
		of = append(of, p)
	}
	switch n.Op {
	case where.And:
		return store.And(of...), nil
	case where.Or:
		return store.Or(of...), nil
	case where.Not:
		return store.Not(of[0]), nil
	}
	column, err := b.column(n)
	if err != nil {
		return store.Predicate{}, err
	}
	base, _ := celltext.Base(column.Type)
	switch {
	case n.Op == where.IsNull:
		return store.IsNull(column.Name), nil
	case n.Op == where.IsNaN && base != "float32" && base != "float64":
		return store.Predicate{}, where.Errorf(b.text, n.At, "column %s has type %s, which has no NaN: only float32 and float64 have it", show.Visible(column.Name), base)
	case n.Op == where.IsNaN:
		return store.IsNaN(column.Name), nil
	}
	return b.compare(column, base, n)
}

func (b binder) column(n *where.Node) (inspect.Field, error) {
	for _, c := range b.columns {
		if c.Name == n.Column {
			return c, nil
		}
	}
	return inspect.Field{}, where.Errorf(b.text, n.At, "%v", Unknown(b.columns, n.Column))
}

// Unknown returns the error about a name that no column has. It says which there are, and which is nearest.
func Unknown(columns []inspect.Field, name string) error {
	var names, shown []string
	for _, c := range columns {
		names, shown = append(names, c.Name), append(shown, show.Visible(c.Name))
	}
	return fmt.Errorf("no column %s: there is %s%s", show.Visible(name), strings.Join(shown, ", "), show.DidYouMean(names, name))
}
