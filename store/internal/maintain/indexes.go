package maintain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// An indexed part or column is one with a stateful scheme.
type indexed struct {
	found   *inspect.Index // of a mutable scheme, what is reported
	codes   []int64        // in the index, ascending
	ranks   []byte         // of the codes, one after the other, where ciphertexts begin with them
	blind   bool           // it cannot be read at all
	damaged bool
}

// bad reports whether the index was found damaged, so that rows are not at fault for what it lacks.
func (x *indexed) bad() bool { return x.blind || x.damaged }

// checkIndexes reads the indexes of stateful schemes and, with Repair, makes those again that are
// damaged. What a column had before its encryption was changed is not searched.
func (v *Verifier) checkIndexes(ctx context.Context) error {
	if v.opts.Repair && v.part == 0 {
		if err := rewrite.DropUnused(ctx, v.of.Database(), v.table.Meta); err != nil {
			return err
		}
	}
	if v.part == 0 {
		if err := v.checkServed(ctx); err != nil {
			return err
		}
	}
	return v.readIndexes(ctx)
}

var errNoIndex = errors.New("the index of the database is gone: queries by the column fail")

// checkServed looks for the indexes of the database and, with Repair, makes those again that are gone. What rows have in them is
// compared with the rows.
func (v *Verifier) checkServed(ctx context.Context) error {
	var gone []*rowcodec.Column
	look := func() (bool, error) {
		gone = nil
		for _, c := range v.table.Columns {
			if !c.ServerIndex {
				continue
			}
			of := driver.Range{AnyOrder: true, Limit: 1, Cells: driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}}, Index: &driver.IndexRange{Index: c.IndexName()}}
			for _, err := range v.table.Data.Scan(ctx, of) {
				if errors.Is(err, driver.ErrNoIndex) {
					gone = append(gone, c)
				} else if err != nil {
					return false, err
				}
			}
		}
		return len(gone) > 0, nil
	}
	mend := func() (err error) {
		for _, c := range gone {
			if v.opts.Repair {
				err = driver.AddIndex(ctx, v.of.Database().Driver, v.table.Spec, c.IndexName())
			}
			if err != nil {
				return err
			}
			v.fault(inspect.Fault{Kind: inspect.FaultIndex, Column: c.Name, Err: errNoIndex, Repaired: v.opts.Repair})
		}
		return nil
	}
	return v.steady(ctx, look, mend)
}

// readIndexes reads the indexes that were not read yet.
func (v *Verifier) readIndexes(ctx context.Context) error {
	for {
		var c *rowcodec.Column
		for _, one := range slices.Concat(v.table.Parts, v.table.Columns) {
			if one.Stateful && v.indexes[one] == nil {
				c = one
				break
			}
		}
		if c == nil {
			return v.readEarlier(ctx)
		}
		faults, err := v.readIndex(ctx, c.Id)
		if err != nil {
			return err
		}
		if len(faults) == 0 || v.lost[c.Id] || v.part > 0 {
			continue
		}
		mended := false
		if v.opts.Repair {
			if mended, err = v.rebuild(ctx, c.Id); err != nil {
				return err
			}
			v.lost[c.Id] = !mended
		}
		for _, f := range faults {
			if f.Kind = inspect.FaultIndex; errors.Is(f.Err, errFilling) {
				f.Kind = inspect.FaultUndone
			}
			f.Column, f.Repaired = c.Name, mended
			v.fault(f)
		}
	}
}

// readEarlier reads the indexes that columns had before they were changed, and by which queries find rows until these are converted.
// Nobody makes them again: where one lacks something, the rows are stored as the column is now.
func (v *Verifier) readEarlier(ctx context.Context) error {
	for _, c := range v.table.Columns {
		for _, form := range forms.Of(c) {
			if !form.Stateful || v.indexes[form] != nil {
				continue
			}
			x, _, err := v.checkIndex(ctx, form, true)
			if err != nil {
				return err
			}
			v.indexes[form] = x
		}
	}
	return nil
}

// statefulColumn returns the part or column of an id, if it has an index.
func (v *Verifier) statefulColumn(id meta.ColumnID) *rowcodec.Column {
	for _, c := range slices.Concat(v.table.Parts, v.table.Columns) {
		if c.Id == id && c.Stateful {
			return c
		}
	}
	return nil
}

// readIndex reads the index of a part or column, if there still is one, and returns what is wrong with it.
func (v *Verifier) readIndex(ctx context.Context, id meta.ColumnID) (faults []inspect.Fault, err error) {
	var c *rowcodec.Column
	var x *indexed
	err = v.steady(ctx, func() (_ bool, err error) {
		x, faults = nil, nil
		if c = v.statefulColumn(id); c != nil {
			x, faults, err = v.checkIndex(ctx, c, false)
		}
		return len(faults) > 0, err
	}, nil)
	if err == nil && c != nil {
		v.indexes[c] = x
		v.listIndexes()
	}
	return faults, err
}

// listIndexes reports what is known of the indexes.
func (v *Verifier) listIndexes() {
	v.report.Indexes = nil
	if v.part > 0 {
		return
	}
	for _, c := range slices.Concat(v.table.Parts, v.table.Columns) {
		if x := v.indexes[c]; x != nil && x.found != nil {
			found := *x.found
			found.Column = c.Name
			v.report.Indexes = append(v.report.Indexes, found)
		}
	}
}

// checkIndex reads the index of a part or column with a stateful scheme; again, where rows have values
// that a first look has not found.
func (v *Verifier) checkIndex(ctx context.Context, c *rowcodec.Column, again bool) (*indexed, []inspect.Fault, error) {
	x := new(indexed)
	var faults []inspect.Fault
	damaged := func(record []byte, err error) {
		x.damaged = true
		faults = append(faults, inspect.Fault{Place: bytes.Clone(record), Err: err})
	}
	if c.Filling {
		x.blind = true
		damaged(nil, errFilling)
		return x, faults, nil
	}
	var entries iter.Seq2[ope.Entry, error]
	switch s := v.schemes[c].(type) {
	case interface {
		Check(context.Context, func(record []byte, err error)) iter.Seq2[ope.Entry, error]
	}:
		entries = s.Check(ctx, damaged)
	case ope.Mutable:
		entries = s.Range(ctx, s.Domain().Min, s.Domain().Max)
	}
	found := inspect.Index{Tenant: v.tenant(), Column: c.Name}
	for e, err := range entries {
		if fault.Refused(err) {
			x.blind = true
			damaged(nil, err)
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("column %q: %w", c.Name, err)
		}
		x.codes = append(x.codes, e.Plaintext)
		x.ranks = append(x.ranks, e.Ciphertext[:c.RankSize]...)
		found.Values, found.Version = found.Values+1, e.Version
		if found.Values%chunks.FullBatch == 0 {
			v.progress("index values", found.Values)
		}
	}
	if len(x.codes) == 0 && !x.bad() && !again {
		if some, err := v.hasValues(ctx, c); err != nil {
			return nil, nil, err
		} else if some {
			// Values come before rows: what rows have was put there before, if it was.
			return v.checkIndex(ctx, c, true)
		}
	}
	if len(x.codes) == 0 && !x.bad() && again && c.Of == nil {
		x.blind = true
		damaged(nil, errGone)
	}
	if c.Order != nil || c.RankSize > 0 {
		x.found = &found
	}
	return x, faults, nil
}

// hasValues reports whether a row has a value in a part or column, as far as the first rows tell.
func (v *Verifier) hasValues(ctx context.Context, c *rowcodec.Column) (some bool, err error) {
	t := v.table
	r := chunks.Under(t.Prefix)
	r.Limit = chunks.FullBatch
	for row, err := range t.Data.Scan(ctx, r) {
		if err != nil {
			return false, err
		}
		found, err := t.PairsOf(ctx, []*rowcodec.Column{c}, []driver.Row{row})
		if fault.Refused(err) {
			continue
		}
		if err != nil || len(found) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// inIndex reports whether the code of a row is in the column's index. It was there before the row
// was, and does not go.
func (v *Verifier) inIndex(ctx context.Context, c *rowcodec.Column, code int64) (bool, error) {
	x := v.indexes[c]
	if _, found := slices.BinarySearch(x.codes, code); found || x.bad() {
		return true, nil
	}
	index, ok := v.schemes[c].(ope.Mutable)
	if !ok {
		return true, nil
	}
	for e, err := range index.Range(ctx, code, code) {
		if fault.Refused(err) {
			return false, nil
		}
		return err == nil && e.Plaintext == code, err
	}
	return false, nil
}
