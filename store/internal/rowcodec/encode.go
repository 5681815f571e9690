package rowcodec

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// EncodeAll sets what checked records are found by: their keys, and what their postings carry. An error is of the record
// whose position it returns.
func (t *View) EncodeAll(ctx context.Context, records []*Record) (failed int, err error) {
	parts := make([][]ope.Ciphertext, len(t.Parts))
	for i, c := range t.Parts {
		parts[i] = c.encryptAll(ctx, records, i)
	}
	for i, c := range t.Columns {
		if c.Searched() {
			for j, ct := range c.encryptAll(ctx, records, len(t.Parts)+i) {
				if ct != nil {
					records[j].Search[i] = ct
				}
			}
		}
	}
	for j, r := range records {
		err := cmp.Or(ctx.Err(), t.encodeKey(ctx, r, func(part int) ope.Ciphertext {
			if parts[part] == nil {
				return nil
			}
			return parts[part][j]
		}))
		if err == nil {
			err = t.EncodeColumns(ctx, r)
		}
		if err != nil {
			return j, err
		}
	}
	return 0, nil
}

// encryptAll returns the ciphertexts of the values at a position of records, or nil where they are better encrypted one by
// one. That is so too where one cannot be: whose it is says the error then.
func (c *Column) encryptAll(ctx context.Context, records []*Record, at int) []ope.Ciphertext {
	batches, ok := c.Scheme.(ope.BatchEncrypter)
	if len(records) < 2 || !ok || c.Stateful {
		return nil
	}
	codes, of, err := c.Codes(records, at)
	if err != nil {
		return nil
	}
	cs, err := batches.EncryptBatch(ctx, codes)
	if err != nil {
		return nil
	}
	all := make([]ope.Ciphertext, len(records))
	for i, j := range of {
		all[j] = cs[i]
	}
	return all
}

// Codes returns the order codes of the column's values, which records have at a position, and the records that have one.
func (c *Column) Codes(records []*Record, at int) (codes []int64, of []int, err error) {
	codes, of = make([]int64, 0, len(records)), make([]int, 0, len(records))
	for j, r := range records {
		v := r.Values[at]
		if v == nil {
			continue
		}
		code, err := c.Type.Code(v)
		if c.Type.Unordered(v) {
			err = value.ErrNaN
		}
		if err != nil {
			return nil, nil, fmt.Errorf("column %q: %w", c.Name, err)
		}
		codes, of = append(codes, code), append(of, j)
	}
	return codes, of, nil
}

// EncodeKey sets the key of a record.
func (t *View) EncodeKey(ctx context.Context, r *Record) error {
	return t.encodeKey(ctx, r, func(int) ope.Ciphertext { return nil })
}

// encodeKey is EncodeKey where a function returns the ciphertexts of parts, as far as they are known.
func (t *View) encodeKey(ctx context.Context, r *Record, known func(part int) ope.Ciphertext) (err error) {
	r.Key = append(r.Key, t.Prefix...)
	for i, c := range t.Parts {
		if ct := known(i); ct != nil {
			r.Key = c.appendKnown(r.Key, ct, r.Values[i])
		} else if r.Key, err = c.AppendSearch(ctx, r.Key, r.Values[i]); err != nil {
			return fmt.Errorf("key part %q: %w", c.Name, err)
		}
	}
	return nil
}

// EncodeColumns sets what the postings of a record carry, where it is not set yet.
func (t *View) EncodeColumns(ctx context.Context, r *Record) error {
	for i, c := range t.Columns {
		if v := r.Values[len(t.Parts)+i]; c.Searched() && v != nil && r.Search[i] == nil {
			var err error
			if r.Search[i], err = c.AppendSearch(ctx, nil, v); err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
		}
	}
	return nil
}
