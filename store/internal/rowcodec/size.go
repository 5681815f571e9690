package rowcodec

import (
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// The limits of a row of a table with Schema.Conditional, whose change names the key cell that is to
// be there and all cells that are to be: whatever two rows the change is between, it can be sent.
const (
	maxConditionalKeyCell = driver.MaxChange / 3
	maxConditionalRow     = driver.MaxChange - maxConditionalKeyCell
)

// CheckSize returns an error if a record with checked values is beyond what every database takes. It
// needs neither the key of the record nor what its postings carry, so that it comes before anything
// is written.
func (t *View) CheckSize(r *Record) error {
	key := t.keySize(r)
	most := 0 // that any cell, or all of them, can have
	for i, c := range t.Parts {
		most += ValueSize(c.Type, r.Values[i]) + cellOverhead
	}
	for i, c := range t.Columns {
		v := r.Values[len(t.Parts)+i]
		if v == nil {
			continue
		}
		if posting := len(c.Lead) + c.Size + key + len(r.Write); c.Posted() && posting > driver.MaxRowKey {
			return fmt.Errorf("column %q: %w: the row key has %d bytes, at most %d in a row with a value of this column",
				c.Name, driver.ErrTooLarge, key, driver.MaxRowKey-(posting-key))
		}
		most += key + c.Size + ValueSize(c.Type, v) + cellOverhead
	}
	if most <= maxConditionalKeyCell {
		return nil
	}
	return t.checkLarge(r, key)
}

// cellOverhead is at least what a cell has besides its value.
const cellOverhead = 16 + seal.Overhead

// checkLarge looks at the cells that a large row is going to have.
func (t *View) checkLarge(r *Record, key int) error {
	made := *r
	made.Key, made.Search = make([]byte, key), make([][]byte, len(t.Stored))
	var shared, largest sized // of what is in the key cell, and of all
	for i, c := range t.Parts {
		part := sized{fmt.Sprintf("key part %q", c.Name), ValueSize(c.Type, r.Values[i])}
		shared, largest = shared.or(part), largest.or(part)
	}
	for i, c := range t.Columns {
		v := r.Values[len(t.Parts)+i]
		if v == nil {
			continue
		}
		if c.Searched() {
			made.Search[i] = make([]byte, c.Size)
		}
		column := sized{fmt.Sprintf("column %q", c.Name), ValueSize(c.Type, v)}
		if largest = largest.or(column); c.Packed {
			shared = shared.or(column)
		}
	}
	keyCell, row := driver.MaxValue, driver.MaxChange
	if t.Meta.Conditional {
		keyCell, row = maxConditionalKeyCell, maxConditionalRow
	}
	tooLarge := func(which, what string, n, most int) error {
		return fmt.Errorf("%s: %w: %s %d bytes, at most %d", which, driver.ErrTooLarge, what, n, most)
	}
	m := t.Mutation(&made)
	for i, c := range t.Columns {
		if c.Covers() && made.Search[i] != nil {
			if n := t.copySize(c, &made); n > driver.MaxValue {
				return tooLarge(largest.what, fmt.Sprintf("it is the largest of a row, whose copy for column %q has", c.Name), n, driver.MaxValue)
			}
		}
	}
	all := 0
	for _, cell := range m.Puts {
		n := len(cell.Value)
		switch {
		case len(cell.Qualifier) == 0 && n > keyCell:
			return tooLarge(shared.what, "it is the largest of the values that share a cell, which has", n, keyCell)
		case n > driver.MaxValue:
			return tooLarge(fmt.Sprintf("column %q", t.named(cell.Qualifier)), "its cell has", n, driver.MaxValue)
		}
		all += key + len(cell.Qualifier) + n
	}
	for _, qualifier := range m.Deletes {
		all += key + len(qualifier)
	}
	if all > row {
		return tooLarge(largest.what, "it is the largest of a row, which has", all, row)
	}
	return nil
}

// copySize returns the length of the copy of a record in postings of a column.
func (t *View) copySize(c *Column, r *Record) int {
	n := cellOverhead + len(t.appendKey(nil, r))
	for i, of := range t.Columns {
		if v := r.Values[len(t.Parts)+i]; v != nil && c.copies(i) {
			n += len(of.Id) + 4 + ValueSize(of.Type, v)
		}
	}
	return n
}

// A sized is a key part or column, and the length of its value.
type sized struct {
	what string
	n    int
}

// or returns the larger of two.
func (s sized) or(other sized) sized {
	if other.n > s.n {
		return other
	}
	return s
}

// named returns the name of the column with the id.
func (t *View) named(id []byte) string {
	return t.Columns[slices.IndexFunc(t.Columns, func(c *Column) bool { return string(c.Id[:]) == string(id) })].Name
}

// checkKeySize returns an error if the row key of a record is going to be too long.
func (t *View) checkKeySize(r *Record, most int) error {
	key, longest, size := t.keySize(r), "", 0
	if key <= most {
		return nil
	}
	for i, c := range t.Parts {
		if n := c.SearchSize(r.Values[i]); n > size {
			longest, size = c.Name, n
		}
	}
	return fmt.Errorf("key part %q: %w: it is the longest of the row key, which has %d bytes, at most %d", longest, driver.ErrTooLarge, key, most)
}

// keySize returns the length of the row key that a record is going to have.
func (t *View) keySize(r *Record) int {
	key := len(t.Prefix)
	for i, c := range t.Parts {
		key += c.SearchSize(r.Values[i])
	}
	return key
}

// ValueSize returns the length of the canonical bytes of a value.
func ValueSize(t value.Type, v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return t.Width()
}

// SearchSize returns how many bytes appendSearch appends for a value.
func (c *Column) SearchSize(v any) int {
	switch {
	case c.Encryption == meta.Plain:
		if n := c.Type.Width(); n > 0 {
			return n
		}
		return len(value.AppendSortable(nil, c.Type, v))
	case c.Encryption == meta.TieBreaker:
		return c.Type.Width()
	case c.Part >= 0 && c.Encryption == meta.Ordered && !c.Type.Exact():
		return c.Size + meta.TokenSize
	}
	return c.Size
}
