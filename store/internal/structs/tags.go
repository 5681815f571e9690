// Package structs fills rows from structs of Go, and structs from rows. What a struct's tags say is read once, into a
// [Plan]; a [Binding] is a plan as it fits one view of a table.
package structs

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// TagName is the key of the tags.
const TagName = "rangecrypt"

type Tie = value.Tie

// A field is a field of a struct that has a column.
type field struct {
	path   string // as errors name it: Reading.Celsius
	index  []int  // as reflect has it
	column string
	key    int // position in the row key, from 1 on; 0 of a column

	encryption meta.Encryption // "" where the tag names none
	scheme     string
	typ        value.Type // nil where the tag names none
	whole      bool       // typ is all of the type, its domain included
	covering   bool
	copied     []string // by covering; nil where the tag names none
	served     bool     // by an index of the database

	null   nullable
	elem   reflect.Type // of the values, without what makes them null
	tie    bool         // its Go type is Tie or LoadTie
	ofLoad bool         // it is LoadTie
}

// A Plan is what the tags of a struct say.
type Plan struct {
	name   string
	fields []*field
}

// SchemeOf says whether an order-preserving scheme of a name may encrypt key parts, or that there is none.
type SchemeOf func(name string) (forKeys bool, err error)

// Of reads the tags of a struct. The error is ErrSchema, and has all mistakes.
func Of(typ reflect.Type, schemeOf SchemeOf) (*Plan, error) {
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is no struct", fault.ErrSchema, typ)
	}
	p := &Plan{name: cmp.Or(typ.Name(), "struct")}
	errs := p.add(typ, p.name, nil, schemeOf)
	errs = append(errs, p.checkNames()...)
	if errs == nil {
		errs = p.checkKey()
	}
	if errs != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrSchema, fault.Join(errs...))
	}
	return p, nil
}

// add adds the fields of a struct, and of those that are embedded in it.
func (p *Plan) add(typ reflect.Type, path string, index []int, schemeOf SchemeOf) (errs []error) {
	for i := range typ.NumField() {
		sf := typ.Field(i)
		tag, tagged := sf.Tag.Lookup(TagName)
		name := path + "." + sf.Name
		at := append(slices.Clone(index), i)
		switch {
		case tag == "-":
		case sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct:
			before := len(p.fields)
			inner := p.add(sf.Type, name, at, schemeOf)
			if len(p.fields) == before && sf.IsExported() && isValue(sf.Type) { // as time.Time, which nothing would keep
				inner = []error{untagged(name, sf)}
			}
			errs = append(errs, inner...)
		case sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Pointer:
			errs = append(errs, fmt.Errorf("field %s: an embedded pointer is not followed: embed the struct itself", name))
		case !sf.IsExported() && tagged:
			errs = append(errs, fmt.Errorf("field %s is not exported: begin its name with a capital, or drop the tag", name))
		case !sf.IsExported():
		case !tagged:
			errs = append(errs, untagged(name, sf))
		default:
			f := &field{path: name, index: at}
			err := f.parse(tag, schemeOf)
			if err == nil {
				err = f.of(sf.Type)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("field %s: %w", name, err))
				continue
			}
			p.fields = append(p.fields, f)
		}
	}
	return errs
}

func untagged(name string, sf reflect.StructField) error {
	return fmt.Errorf("field %s has no tag: write `%s:%q`, or `%s:\"-\"` to leave it out", name, TagName, strings.ToLower(sf.Name), TagName)
}

// isValue reports whether a column can have values of a Go type.
func isValue(typ reflect.Type) bool {
	elem, _ := nullableOf(typ)
	return defaultType(elem) != nil || (&field{elem: elem}).vague() != ""
}

const options = "key=N, hashed, plain, ordered=SCHEME, deterministic, randomised, covering, covering=COLUMNS, server-index, unit=ns|us|ms|s, scale=N, type=TYPE"

// parse reads a tag.
func (f *field) parse(tag string, schemeOf SchemeOf) error {
	column, rest, _ := strings.Cut(tag, ",")
	if column == "" {
		return errors.New("the tag begins with a comma, or is empty: the name of the column comes first")
	}
	f.column = column
	given := make(map[string]bool)
	for rest != "" {
		var option string
		option, rest, _ = strings.Cut(rest, ",")
		name, text, valued := strings.Cut(option, "=")
		if given[name] {
			return fmt.Errorf("option %s is there twice", name)
		}
		given[name] = true
		if err := f.option(name, text, valued); err != nil {
			return err
		}
	}
	if f.scheme != "" {
		forKeys, err := schemeOf(f.scheme)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), fault.ErrSchema.Error()+": "))
		}
		if f.key > 0 && !forKeys {
			return fmt.Errorf("scheme %s encrypts columns only, and no row key: write ordered=mope, or take the field out of the key", f.scheme)
		}
	}
	switch {
	case f.key > 0 && (f.encryption == meta.Randomised || f.encryption == meta.Deterministic):
		return fmt.Errorf("a key part cannot be %s: write hashed, ordered=SCHEME or plain", f.encryption)
	case f.key == 0 && f.encryption == meta.Hashed:
		return errors.New("only key parts are hashed: write key=N, or deterministic for a column that is found by its value")
	case f.covering && f.key > 0:
		return errors.New("a key part has no index entries to cover: drop covering, or key=N")
	case f.covering && f.encryption != meta.Ordered && f.encryption != meta.Deterministic:
		return errors.New("only ordered and deterministic columns have index entries to cover: write ordered=SCHEME or deterministic, or drop covering")
	case f.served && (f.key > 0 || f.encryption != meta.Ordered && f.encryption != meta.Deterministic):
		return errors.New("only ordered and deterministic columns have a server index: write ordered=SCHEME or deterministic and no key, or drop server-index")
	case f.served && f.covering:
		return errors.New("covering and server-index exclude each other")
	}
	return nil
}

// option reads one option of a tag.
func (f *field) option(name, text string, valued bool) (err error) {
	switch encryption := meta.Encryption(name); {
	case name == "key":
		if f.key, err = strconv.Atoi(text); err != nil || f.key < 1 {
			return fmt.Errorf("option key needs the position in the row key, from 1 on: key=1")
		}
	case name == "ordered" && text == "":
		return errors.New("option ordered needs a scheme: write ordered=mope, say")
	case name == "ordered" || slices.Contains([]meta.Encryption{meta.Hashed, meta.Plain, meta.Deterministic, meta.Randomised}, encryption):
		if f.encryption != "" {
			return fmt.Errorf("%s and %s exclude each other", f.encryption, name)
		}
		if name != "ordered" && valued {
			return fmt.Errorf("option %s takes no value", name)
		}
		f.encryption, f.scheme = encryption, text
	case name == "covering":
		if f.covering = true; !valued {
			break
		}
		if f.copied = strings.Fields(text); len(f.copied) == 0 {
			return errors.New("option covering takes the columns that copies have, with blanks between them: covering=celsius note; the name of the column itself for no others; or covering alone for all")
		}
	case name == "server-index":
		if valued {
			return errors.New("option server-index takes no value")
		}
		f.served = true
	case name == "unit" || name == "scale" || name == "type":
		if f.typ != nil {
			return errors.New("only one of unit, scale and type can be given")
		}
		spelled := map[string]string{"unit": "timestamp/" + text, "scale": "decimal(" + text + ")", "type": text}[name]
		if f.typ, err = value.Parse(spelled); err != nil {
			if name != "type" {
				return fmt.Errorf("option %s=%s: write unit=ns, us, ms or s, and scale=0 to 1000 digits after the point", name, text)
			}
			return errors.New(strings.TrimPrefix(err.Error(), fault.ErrSchema.Error()+": "))
		}
		f.whole = name == "type"
	default:
		return fmt.Errorf("unknown option %q: there is %s", name, options)
	}
	return nil
}

// of takes over the Go type of a field.
func (f *field) of(typ reflect.Type) error {
	f.elem, f.null = nullableOf(typ)
	f.ofLoad = f.elem == reflect.TypeFor[rowcodec.LoadTie]()
	f.tie = f.ofLoad || f.elem == reflect.TypeFor[Tie]()
	switch {
	case value.IsInexact(f.elem) && (f.typ == nil || f.typ.GoType() != stringType):
		return fmt.Errorf("a %v is not always a decimal number: use inf.Dec, big.Int or encode.Decimal, or write type=string", f.elem)
	case f.key > 0 && f.null != never && f.null != nilSlice:
		return fmt.Errorf("a key part cannot be null: give the field the Go type %v", f.elem)
	case f.tie && (f.key == 0 || f.null != never):
		return errors.New("a Tie is the last part of the row key, and no pointer: write key=N")
	case f.tie && (f.encryption != "" || f.typ != nil):
		return errors.New("a Tie is drawn at random: it takes no option but key=N")
	}
	if f.typ != nil {
		if _, ok := accessOf(f.elem, f.typ.GoType()); !ok {
			return fmt.Errorf("a field of Go type %v does not take %s", f.elem, f.refused())
		}
	} else if defaultType(f.elem) == nil && f.vague() == "" {
		return fmt.Errorf("no column has values of Go type %v; %sleave the field out with `%s:\"-\"`", typ, f.texted(), TagName)
	}
	if t := cmp.Or(f.typ, defaultType(f.elem)); t != nil && f.encryption == meta.Ordered && !t.Orderable() {
		return fmt.Errorf("values of type %s have no order: write deterministic, or hashed in the key", t)
	}
	return nil
}

// refused returns which option the Go type does not take, and what to do.
func (f *field) refused() string {
	said := "type=" + f.typ.String()
	switch column := f.typ.GoType(); {
	case column == stringType:
		return said + ": " + f.untexted()
	case column == decimalType && value.IsDecimal(f.elem):
		if !f.whole {
			said = "scale="
		}
		return said + ", its text is no decimal number: write type=string, which keeps the text"
	case !f.whole && column == timeType:
		return "unit=, which is for time.Time"
	case !f.whole:
		return "scale=, which is for encode.Decimal, inf.Dec and other decimals"
	case value.HasText(f.elem) && defaultType(f.elem) == nil:
		return said + ": write " + f.vague()
	}
	return said
}

// untexted returns what a Go type needs to be kept as a text.
func (f *field) untexted() string {
	switch {
	case value.WritesText(f.elem):
		return "give the type the method UnmarshalText, which reads back what MarshalText writes"
	case value.ReadsText(f.elem):
		return "give the type the method MarshalText, which writes what UnmarshalText reads"
	case f.prints():
		return "give the type the methods MarshalText and UnmarshalText, its String method is not read back"
	}
	return "only types that are made of string, or have the methods MarshalText and UnmarshalText, do"
}

// texted advises a text for a Go type that prints or writes one.
func (f *field) texted() string {
	if !f.prints() && !value.WritesText(f.elem) && !value.ReadsText(f.elem) {
		return ""
	}
	return "give the type the methods MarshalText and UnmarshalText and write type=string, or "
}

func (f *field) prints() bool {
	return reflect.PointerTo(f.elem).Implements(reflect.TypeFor[fmt.Stringer]())
}

// vague returns what to write where the Go type alone does not say the type of the column.
func (f *field) vague() string {
	switch _, number := accessOf(f.elem, decimalType); {
	case value.SameShape(f.elem, timeType):
		return "unit=ns, us, ms or s"
	case value.SameShape(f.elem, addrType):
		return "type=ipv4 or type=ipv6"
	case f.elem == ipType:
		return "type=string, which keeps the text, or type=bytes, for which an address of 4 bytes is not the same one of 16; or give the field the Go type netip.Addr"
	case number && value.HasText(f.elem):
		return "scale=N, the digits after the point, or type=string, which keeps the text of MarshalText"
	case number:
		return "scale=N, the digits after the point"
	case value.HasText(f.elem):
		return "type=string, which keeps the text of MarshalText"
	}
	return ""
}

// checkNames returns the mistakes of fields that have the same column.
func (p *Plan) checkNames() (errs []error) {
	first := make(map[string]*field)
	for _, f := range p.fields {
		if other := first[f.column]; other != nil {
			errs = append(errs, fmt.Errorf("fields %s and %s both have column %q: rename one, or leave it out with `%s:\"-\"`", other.path, f.path, f.column, TagName))
		}
		first[f.column] = f
	}
	return errs
}

// checkKey returns the mistakes of the row key.
func (p *Plan) checkKey() (errs []error) {
	parts := make(map[int]*field)
	last := 0
	for _, f := range p.fields {
		if other := parts[f.key]; other != nil && f.key > 0 {
			errs = append(errs, fmt.Errorf("fields %s and %s both have key=%d: number the parts of the row key from 1 on", other.path, f.path, f.key))
		}
		parts[f.key] = f
		last = max(last, f.key)
	}
	if last == 0 {
		return []error{fmt.Errorf("no field of %s has key=1: mark the parts of the row key", p.name)}
	}
	for n := 1; n <= last && errs == nil; n++ {
		if parts[n] == nil {
			errs = append(errs, fmt.Errorf("field %s has key=%d, and no field has key=%d: number the parts of the row key from 1 on", parts[last].path, last, n))
		}
	}
	for _, f := range p.fields {
		switch {
		case !f.tie || f.key == last:
		case parts[last].tie:
			errs = append(errs, fmt.Errorf("fields %s and %s are both a Tie: a row key has one, as its last part; leave the other out", f.path, parts[last].path))
		default:
			errs = append(errs, fmt.Errorf("field %s: a Tie is the last part of the row key: write key=%d, and at each part after it a number that is one less",
				f.path, last))
		}
	}
	return errs
}

// Schema returns the schema that the tags describe, which is not checked as a whole. The error is ErrSchema.
func (p *Plan) Schema(name string) (s meta.Schema, err error) {
	s.Name = name
	if s.Key, s.Columns, err = p.specs(); err != nil {
		return s, err
	}
	covers := slices.ContainsFunc(s.Columns, func(f meta.Spec) bool { return f.Covering })
	ties := slices.ContainsFunc(s.Key, func(f meta.Spec) bool { return f.Encryption == meta.TieBreaker })
	s.AppendOnly, s.Conditional = covers && ties, covers && !ties
	return s, nil
}

// specs returns the key parts and the columns, columns in the order of the fields.
func (p *Plan) specs() (key, columns []meta.Spec, err error) {
	var errs []error
	var parts []*field
	for _, f := range p.fields {
		spec := meta.Spec{Name: f.column, Type: cmp.Or(f.typ, defaultType(f.elem)), Encryption: cmp.Or(f.encryption, meta.Randomised), Scheme: f.scheme, Covering: f.covering, Copied: f.copied, ServerIndex: f.served}
		switch {
		case f.tie:
			spec.Type, spec.Encryption = value.UUID, meta.TieBreaker
		case spec.Type == nil:
			errs = append(errs, fmt.Errorf("field %s: which type has the column? Write %s", f.path, f.vague()))
		case f.key > 0 && f.encryption == "":
			errs = append(errs, fmt.Errorf("field %s: how is the key part encrypted? Write hashed, ordered=SCHEME or plain", f.path))
		}
		if f.key > 0 {
			parts = append(parts, f)
			key = append(key, spec)
		} else {
			columns = append(columns, spec)
		}
	}
	if errs != nil {
		return nil, nil, fmt.Errorf("%w: %w", fault.ErrSchema, fault.Join(errs...))
	}
	sorted := make([]meta.Spec, len(key))
	for i, f := range parts {
		sorted[f.key-1] = key[i]
	}
	return sorted, columns, nil
}
