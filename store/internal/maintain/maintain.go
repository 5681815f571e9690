// Package maintain makes passes over a whole table, while readers and writers go on. One verifies it: it reads all rows,
// postings and indexes, and mends what is wrong. Another converts all rows to the present schema.
package maintain

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A Pseudonym is what the keys of rows and postings of a tenant begin with, in one table: its token
// there. It is zero where there are no tenants.
type Pseudonym [meta.TokenSize]byte

// PseudonymAt returns the one at a position of a key, or the zero one where the key is too short.
func PseudonymAt(key []byte, at int) (p Pseudonym) {
	if len(key) >= at+len(p) {
		copy(p[:], key[at:])
	}
	return p
}

// Pseudonyms returns those of all tenants in a table.
func Pseudonyms(ctx context.Context, tbl *session.Table) (map[Pseudonym]bool, error) {
	tenants, err := tbl.Database().Catalogue.AllTenants(ctx)
	if err != nil {
		return nil, err
	}
	k, all := tbl.Database().Keys.Table(tbl.ID()), make(map[Pseudonym]bool, len(tenants))
	for _, tenant := range tenants {
		all[Pseudonym(k.Token(tenant.ID))] = true
	}
	return all, nil
}
