// Package forms says by which index entries the rows of a column are found while its encryption is being changed.
//
// From the change until all rows are converted, a row is stored in one of several forms: as the column is now, or as it was
// before. Each form has an id, a search key and postings of its own. Whoever stores a row in another form writes the new
// posting before the row, and drops the old one after it. So who scans the postings of the earlier forms first, and those
// of the later ones after that, meets a posting of each row that nobody gives another value.
package forms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// Of returns the forms that rows may have of a column, the earliest first. It returns nil if some rows are found by no posting:
// the column was not searched before or has an index of the database, or the index of a form lacks values.
func Of(c *rowcodec.Column) []*rowcodec.Column {
	if !c.Searched() || lacks(c) {
		return nil
	}
	all, later := []*rowcodec.Column{c}, c
	for _, f := range c.Former {
		switch {
		case f.Converted:
			continue
		case c.ServerIndex || !f.Posted() || lacks(f) || renewed(later, f):
			return nil
		}
		all, later = append(all, f), f
	}
	slices.Reverse(all)
	return all
}

// lacks reports whether the index that ranges of a form are read from lacks values of rows.
func lacks(c *rowcodec.Column) bool { return c.Filling && c.Order != nil }

// renewed reports whether the earlier form may have an index that is damaged: that of ranks is made again by another form.
func renewed(later, earlier *rowcodec.Column) bool {
	return later.Spec.Scheme == scheme.KerschbaumRanked && earlier.Spec.Scheme == later.Spec.Scheme
}

// Changing returns the columns of which rows may have several forms, by their first ids.
func Changing(t *rowcodec.View) (ids []meta.ColumnID) {
	for _, c := range t.Columns {
		if len(Of(c)) > 1 {
			ids = append(ids, Origin(c))
		}
	}
	return ids
}

// A DamagedError is the error of the index that an earlier form of a column has. Nobody makes that index again, and a conversion
// does not read it.
type DamagedError struct {
	Of  *rowcodec.Column // as it is now
	Err error
}

func (d *DamagedError) Error() string {
	return fmt.Sprintf("column %q: the index of its encryption before the change: %v; convert the table, which does without", d.Of.Name, d.Err)
}

func (d *DamagedError) Unwrap() error { return d.Err }

// Drive reports whether ranges of the column lead to all rows that have a value there.
func Drive(c *rowcodec.Column) bool { return Of(c) != nil }

// Settled reports whether rows have one form of the column, so that its postings or server index lead to all that have a value.
func Settled(c *rowcodec.Column) bool {
	return c.Searched() && !slices.ContainsFunc(c.Former, func(f *rowcodec.Column) bool { return !f.Converted })
}

// Unmerged says why the postings of a column cannot be merged with those of another one, or returns "" if they can.
func Unmerged(c *rowcodec.Column) string {
	switch {
	case c.Part >= 0:
		return "is a part of the row key: get the rows of its values instead"
	case !c.Searched():
		return fmt.Sprintf("is %s: only deterministic and ordered columns are searched", c.Encryption)
	case c.ServerIndex:
		return "has a server index, whose rows come in no order: let it have index entries instead"
	case !Settled(c):
		return "was changed, and not all rows were converted"
	}
	return ""
}

// Carries reports whether a posting of a form counts for a row, and is not left over from another value. What it carries
// either is in the row, or is what the form makes of the value that the row has, in another form by now. Otherwise a row
// would be missed that is stored in another form since the posting was read, or again in an earlier one. A form whose ciphertexts are
// drawn has them in its index. That need not be asked if the rows come in any order, as the row may be wherever it is met.
func Carries(ctx context.Context, t *rowcodec.View, form *rowcodec.Column, r *rowcodec.Record, carried []byte, anyOrder bool) (bool, error) {
	if search := r.Search[form.Position]; search != nil {
		return bytes.Equal(search, carried), nil
	}
	value := t.ValueOf(form, r)
	if value == nil || form.Type.Unordered(value) {
		return false, nil
	}
	if form.Encryption == meta.Ordered && form.Stateful && form.Order == nil {
		if anyOrder {
			return true, nil
		}
		return draws(ctx, form, carried, value)
	}
	made, err := form.AppendSearch(ctx, nil, value)
	return bytes.Equal(made, carried), err
}

// draws reports whether a form whose ciphertexts are drawn has given a ciphertext to a value. To encrypt the value might write it.
func draws(ctx context.Context, form *rowcodec.Column, ct []byte, value any) (bool, error) {
	code, err := form.Type.Code(value)
	if err != nil {
		return false, err
	}
	has, err := form.Scheme.Decrypt(ctx, ct)
	if errors.Is(err, ope.ErrCiphertext) || errors.Is(err, ope.ErrIndex) {
		return false, nil // of an index that was made again, or goes, or is damaged
	}
	return err == nil && has == code, err
}

// Origin returns the first id that a column had. It stays when the encryption is changed.
func Origin(c *rowcodec.Column) meta.ColumnID {
	if n := len(c.Former); n > 0 {
		return c.Former[n-1].Id
	}
	return c.Id
}

// Keeps returns an error if a write under an earlier view gave values to columns that were dropped since: its rows have none there.
func Keeps(now, earlier *rowcodec.View, has func(c *rowcodec.Column) bool) error {
	if now.Same(earlier) { // as nearly always
		return nil
	}
	var lost []string
	for _, c := range earlier.Columns {
		if !slices.ContainsFunc(now.Stored, func(s *rowcodec.Column) bool { return s.Id == c.Id }) && has(c) {
			lost = append(lost, strconv.Quote(c.Name))
		}
	}
	if lost == nil {
		return nil
	}
	return fmt.Errorf("%w: another client has dropped column %s: %w, without the values there", fault.ErrSchemaChanged, strings.Join(lost, ", "), fault.ErrWritten)
}
