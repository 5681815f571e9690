package rowcodec

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// Updated is what becomes of some columns of a row.
type Updated struct {
	Key    []byte
	Values map[meta.ColumnID]any // nil for null

	Parts []any     // values of the key parts, if the row is made where there is none
	If    *Updated  // what the row must have, or nil
	Add   *Addition // to one column, or nil
}

// An Addition changes an integer.
type Addition struct {
	Column *Column
	By     int64
	Sum    any // set when it was computed
}

// Once reports whether it matters how often the update is made.
func (u *Updated) Once() bool { return u.If != nil || u.Add != nil }

func (t *View) Updated(key []byte, row RowValues) (*Updated, error) {
	u := &Updated{Key: key, Values: make(map[meta.ColumnID]any)}
	for _, c := range t.Columns {
		if _, named := row[c.Name]; !named {
			continue
		}
		v, err := c.checked(valueIn(row))
		if err != nil {
			return nil, err
		}
		u.Values[c.Id] = v
	}
	return u, nil
}

// Changed returns what an update of another view makes of a row, nil where there is none.
func (t *View) Changed(was *Record, of *View, u *Updated) (*Record, error) {
	if was == nil && u.Parts == nil {
		return nil, fault.ErrNoRow
	}
	if was == nil {
		was = t.NewRecord()
		was.Key = u.Key
		copy(was.Values, u.Parts)
	}
	if u.If != nil {
		if err := t.agrees(was, of, u.If); err != nil {
			return nil, err
		}
	}
	if err := t.add(was, u); err != nil {
		return nil, err
	}
	r := t.merged(was, of, u)
	return r, cmp.Or(t.CheckUnordered(r), t.CheckSize(r))
}

// Ahead returns what is known of the row that an update makes before it is read what the row was: its key, the new values of
// searched columns, and a write id. It is nil where the row is not found by any of it.
func (t *View) Ahead(u *Updated) (r *Record) {
	for _, c := range t.Columns {
		if v := u.Values[c.Id]; v != nil && c.Searched() {
			if r == nil {
				r = t.NewRecord()
				r.Key = u.Key
				rand.Read(r.Write[:])
			}
			r.Values[t.ValueIndex(c)] = v
		}
	}
	return r
}

// Follow makes a record the write that was announced ahead of it.
func (r *Record) Follow(ahead *Record) {
	r.Write, r.attempt = ahead.Write, ahead.attempt
	for i, search := range ahead.Search {
		if search != nil {
			r.Search[i] = search
		}
	}
}

// agrees returns an error unless a row has the values of an update of another view.
func (t *View) agrees(r *Record, of *View, u *Updated) error {
	for _, c := range of.Columns {
		want, named := u.Values[c.Id]
		if !named {
			continue
		}
		now := t.successor(c)
		if now == nil {
			return fmt.Errorf("%w: column %q was dropped", fault.ErrColumn, c.Name)
		}
		has := r.Values[t.ValueIndex(now)]
		same := has == nil && want == nil
		if has != nil && want != nil {
			nan := c.Type.Unordered(want)
			same = nan && c.Type.Unordered(has) || !nan && !c.Type.Unordered(has) && c.Type.Compare(has, want) == 0
		}
		if !same {
			return fmt.Errorf("%w: column %q", fault.ErrConflict, c.Name)
		}
	}
	return nil
}

// add computes the addition of an update.
func (t *View) add(r *Record, u *Updated) (err error) {
	if u.Add == nil {
		return nil
	}
	c := t.successor(u.Add.Column)
	if c == nil {
		return fmt.Errorf("%w: column %q was dropped", fault.ErrColumn, u.Add.Column.Name)
	}
	v := r.Values[t.ValueIndex(c)]
	if v == nil {
		return fmt.Errorf("column %q: %w", c.Name, fault.ErrNull)
	}
	if u.Add.Sum, err = c.Type.Add(v, u.Add.By); err != nil {
		return fmt.Errorf("column %q: %w", c.Name, err)
	}
	u.Values = map[meta.ColumnID]any{u.Add.Column.Id: u.Add.Sum}
	return nil
}

// merged returns a row with what an update of another view gives it.
func (t *View) merged(was *Record, of *View, u *Updated) *Record {
	r := was.Again()
	r.Values, r.Search = slices.Clone(was.Values), slices.Clone(was.Search)
	clear(r.Search[min(len(t.Columns), len(r.Search)):]) // a value of a former column has moved
	for _, c := range of.Columns {
		v, named := u.Values[c.Id]
		if !named {
			continue
		}
		if c = t.successor(c); c == nil {
			continue // it was dropped
		}
		r.Values[t.ValueIndex(c)] = v
		if c.Searched() {
			r.Search[c.Position] = nil
		}
	}
	return r
}
