package rowcodec

import (
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// An Updated row is the new values of some of its columns.
type Updated struct {
	Key    []byte
	values map[meta.ColumnID]any // nil for null
}

func (t *View) Updated(key []byte, row RowValues) (*Updated, error) {
	u := &Updated{Key: key, values: make(map[meta.ColumnID]any)}
	for _, c := range t.Columns {
		if _, named := row[c.Name]; !named {
			continue
		}
		v, err := c.checked(valueIn(row))
		if err != nil {
			return nil, err
		}
		u.values[c.Id] = v
	}
	return u, nil
}

// Merged returns a row with what an update of another view gives it.
func (t *View) Merged(was *Record, of *View, u *Updated) *Record {
	r := was.Again()
	r.Values, r.Search = slices.Clone(was.Values), slices.Clone(was.Search)
	clear(r.Search[min(len(t.Columns), len(r.Search)):]) // a value of a former column has moved
	for _, c := range of.Columns {
		v, named := u.values[c.Id]
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
