package meta

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Encryption is how a part or column is protected. The strings are stored.
type Encryption string

const (
	Plain         Encryption = "plain"
	Hashed        Encryption = "hashed"
	Ordered       Encryption = "ordered"
	TieBreaker    Encryption = "tie"
	Randomised    Encryption = "randomised"
	Deterministic Encryption = "deterministic"
)

// confidentiality says which columns share a search key (Ferretti et al. 2014, section 3.1). The
// strings are stored.
type confidentiality string

const (
	OfColumn   confidentiality = ""            // COL: one column
	OfColumns  confidentiality = "multicolumn" // MCOL: the column that it was made for, and those that name it
	OfDatabase confidentiality = "database"    // DBC: all such columns of equal types, encryptions and schemes
)

// A Spec is what a schema says of a key part or column.
type Spec struct {
	Name       string
	Type       value.Type
	Encryption Encryption
	Scheme     string // for ordered: the name of the scheme

	Confidentiality confidentiality
	Table, Column   string // whose search key it shares, where it is ofColumns

	Covering    bool     // its postings have copies of the rows
	Copied      []string // the columns that copies have besides itself, and the row key; nil is all
	ServerIndex bool     // it has no postings, but an index of the database
}

// Clear reports whether the database sees the values.
func (f Spec) Clear() bool {
	return f.Encryption == Plain || f.Encryption == TieBreaker || scheme.Clear(f.Scheme)
}

// Inspect returns what the schema says of the part or column, for whoever administers tables.
func (f Spec) Inspect() inspect.Field {
	d := inspect.Field{Name: f.Name, Encryption: string(f.Encryption), Scheme: f.Scheme, Covering: f.Covering, Copied: f.Copied, ServerIndex: f.ServerIndex}
	if f.Type != nil {
		d.Type = f.Type.String()
	}
	if f.Encryption == Ordered || f.Encryption == Deterministic {
		if d.Confidentiality = string(f.Confidentiality); f.Confidentiality == OfColumn {
			d.Confidentiality = "column"
		}
	}
	if f.Confidentiality == OfColumns {
		d.KeyOf = &inspect.ColumnName{Table: f.Table, Column: f.Column}
	}
	return d
}

// check returns an error if the field makes no sense by itself, whatever its name.
func (f Spec) check() error {
	switch {
	case f.Type == nil:
		return fmt.Errorf("%w: column %q has no type", fault.ErrSchema, f.Name)
	case f.Encryption == "":
		return fmt.Errorf("%w: column %q was not made by a function of package store", fault.ErrSchema, f.Name)
	case f.Encryption == Ordered && f.Scheme == "":
		return fmt.Errorf("%w: column %q is ordered and has no scheme: give one, such as MOPE", fault.ErrSchema, f.Name)
	case f.Type.ID() == "":
		return fmt.Errorf("%w: column %q: its type was not made by package store", fault.ErrSchema, f.Name)
	case f.Encryption == Ordered && !f.Type.Orderable() && f.Type.Err() == nil: // which is told below
		return fmt.Errorf("%w: column %q: values of type %s have no order", fault.ErrSchema, f.Name, f.Type)
	case f.Confidentiality != OfColumn && f.Encryption != Ordered && f.Encryption != Deterministic:
		return fmt.Errorf("%w: column %q is %s: only deterministic and ordered columns have a search key to share", fault.ErrSchema, f.Name, f.Encryption)
	case f.Covering && f.Encryption != Ordered && f.Encryption != Deterministic:
		return fmt.Errorf("%w: column %q is %s, and cannot cover: only ordered and deterministic columns have index entries", fault.ErrSchema, f.Name, f.Encryption)
	case f.Confidentiality != OfColumn && f.Scheme == scheme.KerschbaumRanked:
		return fmt.Errorf("%w: column %q cannot share a search key with scheme %q, whose index is made again with a new one: take %q", fault.ErrSchema,
			f.Name, f.Scheme, scheme.Kerschbaum)
	case f.Covering && f.Scheme == scheme.WozniakIndexed:
		return fmt.Errorf("%w: column %q cannot cover with scheme %q, whose ciphertexts are drawn again when its index is made again: take %q", fault.ErrSchema,
			f.Name, f.Scheme, scheme.Wozniak)
	}
	if err := f.checkServerIndex(); err != nil {
		return err
	}
	if err := f.Type.Err(); err != nil {
		return fmt.Errorf("%w: column %q: %w", fault.ErrSchema, f.Name, err)
	}
	if f.Encryption == Ordered {
		if err := scheme.Check(f.Scheme, f.Type); err != nil {
			return fmt.Errorf("%w: column %q: %w", fault.ErrSchema, f.Name, err)
		}
	}
	return nil
}

// field returns what the catalogue keeps of the specification by itself.
func (f Spec) field() Field {
	return Field{Name: f.Name, Type: f.Type.ID(), Encryption: f.Encryption, Scheme: f.Scheme, Confidentiality: f.Confidentiality, Covering: f.Covering, ServerIndex: f.ServerIndex}
}

// checkServerIndex returns an error if no index of a database can lead to the values.
func (f Spec) checkServerIndex() error {
	switch {
	case !f.ServerIndex:
		return nil
	case f.Encryption != Ordered && f.Encryption != Deterministic:
		return fmt.Errorf("%w: column %q is %s, and cannot have a server index: only ordered and deterministic columns are searched", fault.ErrSchema, f.Name, f.Encryption)
	case f.Covering:
		return fmt.Errorf("%w: column %q cannot both cover and have a server index, which has no index entries: leave out one of the two", fault.ErrSchema, f.Name)
	case scheme.Stateful(f.Scheme):
		return fmt.Errorf("%w: column %q cannot have a server index with scheme %q, which keeps its ciphertexts in an index of its own: take %q, %q or %q", fault.ErrSchema,
			f.Name, f.Scheme, scheme.MOPE, scheme.Boldyreva, scheme.Wozniak)
	}
	return nil
}

// CheckTableName returns an error if no table can be given the name.
func CheckTableName(name string) error { return schemaError(checkName("a table name", name)) }

func checkColumnName(name string) error { return schemaError(checkName("a column name", name)) }

func schemaError(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", fault.ErrSchema, err)
	}
	return err
}

// checkName returns an error if nothing can be given the name. Names that the catalogue has are not checked: some are
// older than the rule.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty: it has 1 to 100 bytes", what)
	case len(name) > 100:
		return fmt.Errorf("%s has 1 to 100 bytes, this one %d", what, len(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%s is valid UTF-8, and %q is not", what, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s has no control character, and %q has one", what, name)
	case name != strings.TrimSpace(name):
		return fmt.Errorf("%s neither begins nor ends with a space, and %q does", what, name)
	}
	return nil
}
