// Package benchtable says which tables opebench makes: their names and schemas, and how they are recognised.
// The table of a scheme and a layout is named "scheme/layout".
package benchtable

import (
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store"
)

// A Layout is where a table has the value.
type Layout string

// The layouts.
const (
	LayoutKey    Layout = "key"
	LayoutColumn Layout = "column"
)

// Layouts returns the names of the layouts and a line about each.
func Layouts() (names, abouts []string) {
	return []string{string(LayoutKey), string(LayoutColumn)}, []string{
		"the value leads the row key: a range is one scan",
		"the value is a column: a range is a scan of its index, and one read for each row",
	}
}

// CheckLayout returns an error that lists the layouts unless there is one of that name.
func CheckLayout(name Layout) error {
	names, _ := Layouts()
	if !slices.Contains(names, string(name)) {
		return exit.Usagef("unknown layout %q: there is %s", name, strings.Join(names, ", "))
	}
	return nil
}

// Split undoes [Target.Name]; ok is false for a name that opebench gives no table.
func Split(name string) (t Target, ok bool) {
	scheme, layout, _ := strings.Cut(name, "/")
	if CheckLayout(Layout(layout)) != nil {
		return Target{}, false
	}
	t, err := TargetOf(scheme, Layout(layout))
	return t, err == nil
}

// Insertable reports whether opebench makes such a table, by its name and its schema. reserved says that the
// name is one of its names, whatever the schema.
func Insertable(made store.Schema) (insertable, reserved bool) {
	target, reserved := Split(made.Name)
	if !reserved {
		return false, false
	}
	_, insertable = target.Recognise(made)
	return insertable, true
}

// A Holding says what a table holds: values of a kind, and the names of its parts.
type Holding struct {
	Kind   values.Kind
	Column string // as the table was asked for
	Value  string // the part with the value
	ID     string // the part with the row's id
}

// Recognise finds what a table holds; ok is false for one that opebench makes in no such way.
func (t Target) Recognise(made store.Schema) (h Holding, ok bool) {
	switch {
	case t.Layout == LayoutKey && len(made.Key) > 0:
		h.Column = made.Key[0].Describe().Name
	case t.Layout == LayoutColumn && len(made.Columns) > 0:
		h.Column = made.Columns[0].Describe().Name
	}
	for _, kind := range values.Kinds() {
		var want store.Schema
		if want, h.Value, h.ID = t.schema(kind, h.Column); same(made, want) {
			h.Kind = kind
			return h, true
		}
	}
	return Holding{}, false
}

// Schema returns the schema of the table for values of a column.
func (t Target) Schema(kind values.Kind, column string) store.Schema {
	s, _, _ := t.schema(kind, column)
	return s
}

// schema returns the schema and the names of its parts.
//
//	layout  row key                          column
//	key     value (ordered), id (tie)
//	column  id (hashed; in the plain: as is) value (ordered)
func (t Target) schema(kind values.Kind, column string) (s store.Schema, value, id string) {
	spec := t.spec()
	value = values.StoredName(column)
	if id = "id"; id == value {
		id = "row id"
	}
	s.Name = t.Name()
	switch {
	case t.Layout == LayoutKey:
		s.Key = []store.KeyPart{store.OrderedPart(value, kind.Column.Type, spec.order.(store.KeyScheme)), store.TiePart(id)}
	case spec.plain:
		s.Key = []store.KeyPart{store.PlainPart(id, store.UUID)}
	default:
		s.Key = []store.KeyPart{store.HashedPart(id, store.UUID)}
	}
	if t.Layout == LayoutColumn {
		s.Columns = []store.Column{store.OrderedColumn(value, kind.Column.Type, spec.order)}
	}
	return s, value, id
}

// same reports whether two schemas store the same in the same way.
func same(a, b store.Schema) bool {
	return a.AppendOnly == b.AppendOnly &&
		slices.EqualFunc(a.Key, b.Key, func(a, b store.KeyPart) bool { return a.Describe().String() == b.Describe().String() }) &&
		slices.EqualFunc(a.Columns, b.Columns, func(a, b store.Column) bool { return a.Describe().String() == b.Describe().String() })
}
