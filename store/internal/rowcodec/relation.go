package rowcodec

import (
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Want returns which columns the names mean, by position; nil means all, as no names do that are nil.
func (t *View) Want(names []string) ([]bool, error) {
	if names == nil {
		return nil, nil
	}
	want := make([]bool, len(t.Stored))
	for _, name := range names {
		c := t.ByName[name]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, name)
		}
		c.Add(want)
	}
	return want, nil
}

// Add adds a column to those that are wanted.
func (c *Column) Add(want []bool) {
	if c.Part >= 0 {
		return
	}
	want[c.Position] = true
	for _, former := range c.Former {
		want[former.Position] = true
	}
}

// RankOver returns the rank of a replacement by this view of a row that was written at a version: the number of encryptions of
// columns that the rows have been searched by since. The greater of two knows of all that the other does, so that it must win.
func (t *View) RankOver(version uint32) int {
	n := len(t.Meta.Dropped) + len(t.Meta.DroppedIndexes)
	for _, c := range t.Stored {
		if c.Searched() && c.Since > version {
			n++
		}
	}
	return min(n, driver.MaxRank)
}

// PostedColumns returns which columns have postings.
func (t *View) PostedColumns() []bool {
	want := make([]bool, len(t.Stored))
	for i, c := range t.Stored {
		want[i] = c.Posted()
	}
	return want
}

// Posts reports whether rows have postings, but for what a client leaves that dies asleep.
func (t *View) Posts() bool {
	return slices.ContainsFunc(t.Stored, func(c *Column) bool { return c.Posted() && !c.Converted })
}

// Slice returns the cells that decode needs for the columns in want.
func (t *View) Slice(want []bool) driver.Slice {
	if want == nil {
		return driver.Slice{}
	}
	only := [][]byte{KeyQualifier}
	for _, i := range t.byID {
		if want[i] {
			only = append(only, t.Stored[i].Id[:])
		}
	}
	return driver.Slice{Only: only}
}

// Same reports whether two views are of the same schema and policy.
func (t *View) Same(other *View) bool { return t.Since == other.Since }

// successor returns what a column of another view is in this one, or nil if it was dropped.
func (t *View) successor(c *Column) *Column {
	if c.Part >= 0 {
		return t.Parts[c.Part]
	}
	i := slices.IndexFunc(t.Stored, func(s *Column) bool { return s.Id == c.Id })
	switch {
	case i < 0:
		return nil
	case t.Stored[i].Of != nil:
		return t.Stored[i].Of
	}
	return t.Stored[i]
}

// Wanted returns which columns of this view are those of another one.
func (t *View) Wanted(other *View, columns []bool) []bool {
	if columns == nil {
		return nil
	}
	want := make([]bool, len(t.Stored))
	for i, c := range other.Stored {
		if s := t.successor(c); columns[i] && s != nil {
			s.Add(want)
		}
	}
	return want
}

// Adopted turns a row of a later view into one of this. It has the values of this view's columns,
// and what their postings carry where they have some.
func (t *View) Adopted(later *View, r *Record) *Record {
	a := t.taken(later, r)
	for i, c := range t.Columns {
		if s := later.successor(c); s != nil {
			a.Values[len(t.Parts)+i] = r.Values[later.ValueIndex(s)]
		}
	}
	return a
}

// Inherited turns a row of an earlier view into one of this, likewise.
func (t *View) Inherited(earlier *View, r *Record) *Record {
	a := t.taken(earlier, r)
	for i, c := range earlier.Columns {
		if s := t.successor(c); s != nil {
			a.Values[t.ValueIndex(s)] = r.Values[len(earlier.Parts)+i]
		}
	}
	return a
}

// taken returns what a row of another view has in this one whatever became of the columns.
func (t *View) taken(other *View, r *Record) *Record {
	a := t.NewRecord()
	a.Key, a.Write, a.Version, a.AsOf, a.Expires, a.TableTTL, a.attempt = r.Key, r.Write, r.Version, r.AsOf, r.Expires, r.TableTTL, r.attempt
	copy(a.Values, r.Values[:len(t.Parts)])
	for i, c := range t.Stored {
		j := slices.IndexFunc(other.Stored, func(s *Column) bool { return s.Id == c.Id })
		if j >= 0 && a.Search != nil && r.Search != nil {
			a.Search[i] = r.Search[j]
		}
	}
	return a
}
