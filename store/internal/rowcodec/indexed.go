package rowcodec

import (
	"bytes"
	"context"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// IndexNames returns the names of the server indexes that are in use.
func (t *View) IndexNames() (names []string) {
	for _, c := range t.Columns {
		if c.ServerIndex {
			names = append(names, c.IndexName())
		}
	}
	return names
}

// IndexBound returns a bound of values in the server index: their prefix, continued with zeros; nil stays nil.
func (c *Column) IndexBound(prefix []byte) []byte {
	if prefix == nil {
		return nil
	}
	return append(bytes.Clone(prefix), make([]byte, max(0, len(c.Lead)+c.Size-len(prefix)))...)
}

// inIndexes returns which columns have server indexes, or had other ids before.
func (t *View) inIndexes() []bool {
	want := make([]bool, len(t.Stored))
	for i, c := range t.Stored {
		want[i] = c.ServerIndex || c.Of != nil && c.Of.ServerIndex
	}
	return want
}

// IndexSlice returns the cells, and the values in indexes, that Misplaced looks at.
func (t *View) IndexSlice() driver.Slice {
	want := t.inIndexes()
	for i, c := range t.Stored {
		want[i] = want[i] && !c.Packed
	}
	s := t.Slice(want)
	s.Indexes = t.IndexNames()
	return s
}

// Misplaced returns the columns of which a row that was read with its values in indexes, or written, has another value there
// than in its cells. What the row carries is computed, unless it is known of the write that left the row.
func (t *View) Misplaced(ctx context.Context, row driver.Row, known *Record, s *Scratch) (wrong []*Column, err error) {
	r, err := t.Decode(row, t.inIndexes(), s)
	if r == nil || err != nil {
		return nil, err
	}
	is := row.Cells[0].Index
	for i, c := range t.Columns {
		older := slices.ContainsFunc(c.Former, func(f *Column) bool { return r.Values[len(t.Parts)+f.Position] != nil })
		if !c.ServerIndex || older {
			continue // a conversion gives it the value
		}
		var should []byte
		switch v := r.Values[len(t.Parts)+i]; {
		case v == nil || c.Type.Unordered(v):
		case known != nil && known.Write == r.Write && known.posted(i) != nil:
			should = slices.Concat(c.Lead, known.posted(i))
		default:
			if should, err = c.AppendSearch(ctx, bytes.Clone(c.Lead), v); err != nil {
				return nil, err
			}
		}
		at := slices.IndexFunc(is, func(v driver.IndexValue) bool { return v.Index == c.IndexName() })
		if at >= 0 && (should == nil) == (is[at].Value == nil) && bytes.Equal(should, is[at].Value) {
			continue
		}
		wrong = append(wrong, c)
	}
	return wrong, nil
}
