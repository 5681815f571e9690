package structs

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A boundField is a field with its column.
type boundField struct {
	*field
	access
}

// A Binding is a plan as it fits a view.
type Binding struct {
	Since    uint32       // of the view
	Columns  []string     // that have a field; nil if all have
	Unmapped []string     // columns without
	fields   []boundField // by position: key parts, then columns
	tie      bool         // the last part of the row key is drawn if it is zero
}

// Bind fits the plan to a view of a table. What does not fit is ErrColumn, and all of it is told at once.
func (p *Plan) Bind(t *rowcodec.View) (*Binding, error) {
	schema, err := t.Meta.Schema()
	if err != nil {
		return nil, err
	}
	specs := slices.Concat(schema.Key, schema.Columns)
	b := &Binding{Since: t.Since, fields: make([]boundField, len(specs)), tie: schema.Key[len(schema.Key)-1].Encryption == meta.TieBreaker}
	var errs []error
	for _, f := range p.fields {
		i := slices.IndexFunc(specs, func(s meta.Spec) bool { return s.Name == f.column })
		if i < 0 {
			errs = append(errs, fmt.Errorf("field %s: there is no column %q", f.path, f.column))
			continue
		}
		a, ok := accessOf(f.elem, specs[i].Type.GoType())
		if err := f.fits(t.Meta, specs[i], i, len(schema.Key), ok); err != nil {
			errs = append(errs, fmt.Errorf("field %s: %w", f.path, err))
			continue
		}
		b.fields[i] = boundField{f, a}
	}
	for i, s := range specs {
		switch mapped := slices.ContainsFunc(p.fields, func(f *field) bool { return f.column == s.Name }); {
		case !mapped && i < len(schema.Key):
			errs = append(errs, fmt.Errorf("key part %q has no field: add one with `%s:\"%s,key=%d\"`", s.Name, TagName, s.Name, i+1))
		case !mapped:
			b.Unmapped = append(b.Unmapped, s.Name)
		case i >= len(schema.Key):
			b.Columns = append(b.Columns, s.Name)
		}
	}
	if errs != nil {
		return nil, fmt.Errorf("%w: %s does not fit: %w", fault.ErrColumn, p.name, fault.Join(errs...))
	}
	if b.Unmapped == nil {
		b.Columns = nil
	} else if b.Columns == nil {
		b.Columns = []string{}
	}
	return b, nil
}

// Whole returns an error if columns have no field.
func (b *Binding) Whole(then string) error {
	if b.Unmapped == nil {
		return nil
	}
	names := make([]string, len(b.Unmapped))
	for i, name := range b.Unmapped {
		names[i] = strconv.Quote(name)
	}
	return fmt.Errorf("%w: without a field: column %s; %s", fault.ErrColumn, strings.Join(names, ", "), then)
}

// fits returns an error if a field contradicts what the schema says of its column. How a column is encrypted, and what
// leads to its rows, may be changed while programs run: there the tag says only how the table is made. But what it says
// is sealed must not go out in the clear.
func (f *field) fits(m *meta.Table, s meta.Spec, position, parts int, goType bool) error {
	tie := s.Encryption == meta.TieBreaker
	switch {
	case position < parts && f.key != position+1:
		return fmt.Errorf("column %q is part %d of the row key: write key=%d", s.Name, position+1, position+1)
	case position >= parts && f.key > 0:
		return fmt.Errorf("column %q is no part of the row key: drop key=%d", s.Name, f.key)
	case f.tie && !tie:
		return fmt.Errorf("key part %q is no tie-breaker: make the field a [16]byte", s.Name)
	case tie && f.encryption != "":
		return fmt.Errorf("key part %q is a tie-breaker: drop option %s", s.Name, f.encryption)
	case !goType:
		return fmt.Errorf("column %q has type %s, with values of Go type %v: the field has %v", s.Name, s.Type, s.Type.GoType(), f.elem)
	case f.exposed(m, s) != nil:
		return f.exposed(m, s)
	case f.key > 0 && f.encryption != "" && (f.encryption != s.Encryption || f.scheme != s.Scheme):
		return fmt.Errorf("key part %q is %s: write so, or nothing", s.Name, spelled(s.Encryption, s.Scheme))
	case f.typ != nil && f.whole && f.typ.ID() != s.Type.ID(), f.typ != nil && !f.whole && f.typ.ID() != base(s.Type.ID()):
		return fmt.Errorf("column %q has type %s: write so, or nothing", s.Name, s.Type)
	}
	return nil
}

// exposed returns an error if a column that is no key part is in the clear, and the tag says that it is sealed.
func (f *field) exposed(m *meta.Table, s meta.Spec) error {
	encrypt := "encrypt the column with store.ChangeColumn"
	if m.Paged() {
		encrypt = "make a table whose column is sealed, and bring the rows into it"
	}
	switch {
	case f.key > 0:
	case f.encryption == "" && s.Clear():
		return fmt.Errorf("column %q is not encrypted: write plain", s.Name)
	case f.encryption != "" && s.Clear() && !(meta.Spec{Encryption: f.encryption, Scheme: f.scheme}).Clear():
		return fmt.Errorf("column %q is plain, and the tag says %s: write plain, or %s", s.Name, spelled(f.encryption, f.scheme), encrypt)
	}
	return nil
}

// spelled returns an encryption as a tag has it.
func spelled(encryption meta.Encryption, scheme string) string {
	return strings.TrimSuffix(string(encryption)+"="+scheme, "=")
}

// base returns the id of a type without its domain.
func base(id string) string {
	id, _, _ = strings.Cut(id, " within=")
	return id
}

// Record returns a struct as a checked record of the view that the binding is of. A tie-breaker that is zero is drawn,
// and the struct has it then. Where rows are never replaced it has it after Keep.
func (b *Binding) Record(t *rowcodec.View, row reflect.Value) (*rowcodec.Record, error) {
	if t.Meta.AppendOnly() {
		return b.added(t, row)
	}
	r, err := t.CheckValues(func(c *rowcodec.Column) (any, error) { return b.value(t, c, row) })
	if err == nil {
		b.Keep(t, row, r)
	}
	return r, err
}

// added does so in a table whose rows are never replaced, where a tie-breaker that is named is one of a load.
func (b *Binding) added(t *rowcodec.View, row reflect.Value) (*rowcodec.Record, error) {
	last := t.Parts[len(t.Parts)-1]
	f := &b.fields[last.Part]
	tie := f.at(row, true).(*[16]byte)
	if !f.ofLoad {
		if *tie != [16]byte{} {
			return nil, fmt.Errorf("%w: field %s is not zero: the store draws the tie-breakers of rows that are never replaced; "+
				"set the field to zero to add a row, or make it a store.LoadTie to put one again", fault.ErrColumn, f.path)
		}
		return t.CheckValues(func(c *rowcodec.Column) (any, error) { return b.value(t, c, row) })
	}
	if *tie == [16]byte{} {
		rand.Read(tie[:])
	}
	values, err := b.Row(t, row, nil)
	if err != nil {
		return nil, err
	}
	values[last.Name] = rowcodec.LoadTie(*tie)
	return t.Check(values)
}

// Keep gives a struct the tie-breaker that was drawn for its record.
func (b *Binding) Keep(t *rowcodec.View, row reflect.Value, r *rowcodec.Record) {
	if last := len(t.Parts) - 1; r.Fresh && b.tie {
		*b.fields[last].at(row, true).(*[16]byte) = r.Values[last].([16]byte)
	}
}

// value returns what a struct has for a column, normalized.
func (b *Binding) value(t *rowcodec.View, c *rowcodec.Column, row reflect.Value) (any, error) {
	f := &b.fields[t.ValueIndex(c)]
	if f.field == nil {
		return nil, nil
	}
	at := f.at(row, false)
	if at == nil {
		return nil, nil
	}
	if tie, ok := at.(*[16]byte); ok && *tie == [16]byte{} && b.tie && c.Part == len(t.Parts)-1 {
		return nil, nil
	}
	if f.load == nil {
		return c.Type.NormalizeAt(at)
	}
	v, err := f.load(at)
	if err != nil {
		return nil, fmt.Errorf("field %s: %w", f.path, err)
	}
	return c.Type.Normalize(v)
}

// Row returns a struct as a row with the key parts, and of the columns with those that are asked for; nil asks for all
// that have a field.
func (b *Binding) Row(t *rowcodec.View, row reflect.Value, columns []string) (rowcodec.RowValues, error) {
	values, err := b.Values(t, row, columns)
	if err != nil {
		return nil, err
	}
	return values, b.add(values, t, row, t.Parts)
}

// Values returns the columns of a struct that are asked for; nil asks for all that have a field.
func (b *Binding) Values(t *rowcodec.View, row reflect.Value, columns []string) (rowcodec.RowValues, error) {
	values := make(rowcodec.RowValues)
	var asked []*rowcodec.Column
	for _, name := range columns {
		if err := b.Mapped(t, name); err != nil {
			return nil, err
		} else if c := t.ByName[name]; c == nil {
			values[name] = nil // is refused
		} else if c.Part >= 0 {
			return nil, fmt.Errorf("%w: %q is a part of the row key, which stays: it says which row it is, and is not named", fault.ErrColumn, name)
		}
	}
	for _, c := range t.Columns {
		if b.fields[t.ValueIndex(c)].field != nil && (columns == nil || slices.Contains(columns, c.Name)) {
			asked = append(asked, c)
		}
	}
	return values, b.add(values, t, row, asked)
}

// Mapped returns an error if there is a column without a field of that name.
func (b *Binding) Mapped(t *rowcodec.View, name string) error {
	if c := t.ByName[name]; c != nil && b.fields[t.ValueIndex(c)].field == nil {
		return fmt.Errorf("%w: column %q has no field", fault.ErrColumn, name)
	}
	return nil
}

// add adds to a row what a struct has for columns.
func (b *Binding) add(values rowcodec.RowValues, t *rowcodec.View, row reflect.Value, columns []*rowcodec.Column) error {
	for _, c := range columns {
		v, err := b.value(t, c, row)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		values[c.Name] = v
	}
	return nil
}

// Set gives the field of a column that has one a value.
func (b *Binding) Set(t *rowcodec.View, row reflect.Value, name string, v any) error {
	return b.fields[t.ValueIndex(t.ByName[name])].set(row, v, fault.ErrNull)
}

// Fill gives a struct the values of a record of the view that the binding is of: of the key parts that it has, and of the columns
// in want, by position, where nil means all. Null where the field cannot say so is the given error.
func (b *Binding) Fill(t *rowcodec.View, row reflect.Value, r *rowcodec.Record, want []bool, null error) error {
	for i := range b.fields {
		if f := &b.fields[i]; f.field != nil && (i < len(t.Parts) && r.Values[i] != nil || i >= len(t.Parts) && (want == nil || want[i-len(t.Parts)])) {
			if err := f.set(row, r.Values[i], null); err != nil {
				return err
			}
		}
	}
	return nil
}

// FillRow does so with a row that has the named columns, where nil means all. Of the key parts it may lack some.
func (b *Binding) FillRow(row reflect.Value, values rowcodec.RowValues, columns []string, null error) error {
	for i := range b.fields {
		f := &b.fields[i]
		if f.field == nil {
			continue
		}
		_, has := values[f.column]
		if has || f.key == 0 && (columns == nil || slices.Contains(columns, f.column)) {
			if err := f.set(row, values[f.column], null); err != nil {
				return err
			}
		}
	}
	return nil
}

// set gives the field of a new struct a value.
func (f *boundField) set(row reflect.Value, v any, null error) error {
	if v == nil {
		if f.null == never {
			return fmt.Errorf("column %q: %w, which field %s cannot be: make it a pointer", f.column, null, f.path)
		}
		return nil
	}
	ok, err := f.save(f.at(row, true), v)
	if err != nil {
		return fmt.Errorf("column %q: field %s: %w", f.column, f.path, err)
	}
	if !ok {
		return fmt.Errorf("%w: column %q has values of Go type %T", fault.ErrSchemaChanged, f.column, v)
	}
	return nil
}
