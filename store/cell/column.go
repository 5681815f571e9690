package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A column seals and opens values of any Go type. It never changes.
type column struct {
	table, name string
	typ         value.Type
	sealer      *keyring.Sealers
	place       seal.Place // without the row

	// What stands for a value where rows are found; nothing of it in a randomised column.
	order ope.Scheme            // of an ordered column that is not text, or
	text  *boldyreva.TextScheme // of text in the order of more bytes, or
	token *keyring.Tokens       // of a deterministic column
	size  int
}

func newColumn(k keyring.Table, m *meta.Table, f *meta.Field) (*column, error) {
	s, err := m.SpecOf(f)
	if err != nil {
		return nil, err
	}
	c := &column{table: m.Name, name: f.Name, typ: s.Type, place: keyring.Place("elsewhere", m.ID[:], f.ID[:])}
	if c.sealer, err = k.Cells(f); err != nil {
		return nil, err
	}
	key, err := k.Search(f)
	if err != nil {
		return nil, err
	}
	switch f.Encryption {
	case meta.Deterministic:
		c.token, c.size = keyring.NewTokens(key), meta.TokenSize
	case meta.Ordered:
		if n := s.Type.TextOrder(); n > 0 {
			if c.text, err = scheme.NewText(f.Scheme, key.Derive(keyring.PurposeOrder), n); err == nil {
				c.size = len(c.text.Encrypt(nil))
			}
			return c, err
		}
		if c.order, err = scheme.New(f.Scheme, key.Derive(keyring.PurposeOrder), s.Type.Domain(), nil, "", 0); err != nil {
			return nil, err
		}
		var all []ope.Interval
		if all, err = c.intervals(nil, nil); err == nil {
			c.size = len(all[0].Start)
		}
	}
	return c, err
}

// search returns what stands for a normalized value, or nil in a randomised column.
func (c *column) search(v any) ([]byte, error) {
	switch {
	case c.size == 0:
		return nil, nil
	case c.typ.Unordered(v):
		return nil, value.ErrNaN
	case c.token != nil:
		return c.token.AppendToken(nil, c.typ.Append(nil, v)), nil
	case c.text != nil:
		return c.text.Encrypt(c.typ.Append(nil, v)), nil
	}
	code, err := c.typ.Code(v)
	if err != nil {
		return nil, err
	}
	return c.order.Encrypt(context.Background(), code) // no scheme without a state waits for anything
}

// at returns the place of the column in a row, with room for what sealing adds.
func (c *column) at(row RowKey) seal.Place {
	p := slices.Grow(seal.Place(nil), len(c.place)+len(row.parts)+seal.HeaderSize)
	return append(append(p, c.place...), row.parts...)
}

func (c *column) seal(row RowKey, given any) (Cell, error) {
	if err := row.check(); err != nil {
		return Cell{}, err
	}
	v, err := c.typ.Normalize(given)
	if err != nil {
		return Cell{}, err
	}
	search, err := c.search(v)
	if err != nil {
		return Cell{}, err
	}
	// The sealed value begins with what it is found by, so that the two columns are held to each other.
	plaintext := c.typ.AppendStored(slices.Clone(search), v)
	return Cell{search, c.sealer.Seal(nil, keyring.NewHeader(), plaintext, c.at(row))}, nil
}

func (c *column) open(row RowKey, stored Cell) (any, error) {
	if err := row.check(); err != nil {
		return nil, err
	}
	switch {
	case stored.Sealed == nil && len(stored.Search) == 0: // what is empty is no null, and no sealed value
		return nil, fault.ErrNull
	case stored.Sealed == nil:
		return nil, torn("the sealed value is null or was not read, and what it is found by is not null")
	}
	b, _, err := c.sealer.Open(nil, stored.Sealed, c.at(row))
	if err != nil {
		return nil, unopened(fault.OfSeal(err))
	}
	if len(b) < c.size {
		return nil, fmt.Errorf("%w: the sealed value is too short", fault.ErrFormat)
	}
	if stored.Search != nil && !bytes.Equal(stored.Search, b[:c.size]) {
		return nil, torn("the row is found by another value than the sealed one, or by none")
	}
	v, err := c.typ.Parse(b[c.size:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrFormat, err)
	}
	return v, nil
}

func torn(what string) error {
	return fmt.Errorf("%w: %s: write the value of the row again", fault.ErrTorn, what)
}

// unopened says what may be the reason, and what to look at.
func unopened(err error) error {
	if err == fault.ErrWrongKey {
		return fmt.Errorf("%w: it is of another column, table or store, or its key id was damaged, or it was sealed before this one was registered: look where it was read from", err)
	}
	if errors.Is(err, seal.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: it was changed, or is of another row: name the row as it was named to seal it", err)
}

func (c *column) failed(what string, err error) error {
	return fmt.Errorf("cell: %s field %q of table %q: %w", what, c.name, c.table, err)
}

// intervals returns those of the ciphertexts of values between two bounds; nil is unbounded.
func (c *column) intervals(lo, hi *value.Bound) ([]ope.Interval, error) {
	if c.text != nil {
		bytesOf := func(b *value.Bound) []byte {
			if b == nil {
				return nil
			}
			return c.typ.Append([]byte{}, b.Value)
		}
		if iv, ok := c.text.Interval(bytesOf(lo), bytesOf(hi)); ok {
			return []ope.Interval{iv}, nil
		}
		return nil, nil
	}
	from, to, ok := c.typ.Codes(lo, hi)
	if !ok {
		return nil, nil
	}
	return c.order.Intervals(context.Background(), from, to)
}
