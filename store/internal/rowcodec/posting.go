package rowcodec

import (
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A posting is a row of the family of postings, with one cell, which is empty unless columns of the table may cover:
//
//	column id, 4 bytes || ciphertext or token || row key || write id, 16 bytes
//
// In a table with tenants the token of the tenant, 16 bytes, follows the column id.
var PostingCell = driver.Cell{Qualifier: []byte{}, Value: []byte{}}

// A value in a server index belongs to the key cell of its row:
//
//	ciphertext or token
//
// In a table with tenants the first 4 bytes of the token of the tenant come before it. Cassandra tells no more than the first
// 15 bytes of values apart, and reads all rows that are equal there. So the ciphertext must begin early. Rows of tenants whose
// tokens begin alike, one pair among 65,000 tenants, fall out by their keys.
const indexedTenant = 4

// AllPostingKeys returns the keys of the postings of records.
func (t *View) AllPostingKeys(records []*Record) [][]byte {
	var keys [][]byte
	for _, r := range records {
		keys = append(keys, t.PostingKeys(r)...)
	}
	return keys
}

// PostingKeys returns the keys of a record's postings.
func (t *View) PostingKeys(r *Record) [][]byte {
	var keys [][]byte
	for i, c := range t.Stored {
		if r.posted(i) != nil && c.Posted() {
			keys = append(keys, t.PostingKey(r, i))
		}
	}
	return keys
}

// PostingsUnknownTo returns the keys of postings of columns that a later view knows no more, not even as former ones.
func (t *View) PostingsUnknownTo(later *View, records []*Record) (keys [][]byte) {
	for i, c := range t.Stored {
		if !c.Posted() || slices.ContainsFunc(later.Stored, func(known *Column) bool { return known.Id == c.Id }) {
			continue
		}
		for _, r := range records {
			if r != nil && i < len(r.Search) && r.Search[i] != nil {
				keys = append(keys, t.PostingKey(r, i))
			}
		}
	}
	return keys
}

// PostingKey returns the key of the posting of a column that has one.
func (t *View) PostingKey(r *Record, column int) []byte {
	return slices.Concat(t.Stored[column].Lead, r.Search[column], r.Key, r.Write[:])
}

// CutPosting returns what a posting of the column says.
func (c *Column) CutPosting(key []byte) (search, row []byte, write WriteID, err error) {
	n := len(c.Lead) + c.Size
	if len(key) < n+1+len(write) {
		return nil, nil, write, fmt.Errorf("%w: a posting of column %q is too short", fault.ErrTampered, c.Name)
	}
	copy(write[:], key[len(key)-len(write):])
	return key[len(c.Lead):n], key[n : len(key)-len(write)], write, nil
}

// Carried returns what a posting carries, which was cut before.
func (c *Column) Carried(posting []byte) []byte { return posting[len(c.Lead):][:c.Size] }
