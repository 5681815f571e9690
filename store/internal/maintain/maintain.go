// Package maintain makes passes over a whole table, while readers and writers go on. One verifies it: it reads all rows,
// postings and indexes, and mends what is wrong. Others convert all rows to the present schema, make an index again, count cells by their keys,
// or delete what dropped tenants left. Whoever calls a pass adds which table it was of to an error.
package maintain

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A pseudonym is what the keys of rows and postings of a tenant begin with, in one table: its token
// there. It is zero where there are no tenants.
type pseudonym [meta.TokenSize]byte

// pseudonymAt returns the one at a position of a key, or the zero one where the key is too short.
func pseudonymAt(key []byte, at int) (p pseudonym) {
	if len(key) >= at+len(p) {
		copy(p[:], key[at:])
	}
	return p
}

// pseudonyms returns those of all tenants in a table.
func pseudonyms(ctx context.Context, tbl *session.Table) (map[pseudonym]bool, error) {
	tenants, err := tbl.Database().Catalogue.AllTenants(ctx)
	if err != nil {
		return nil, err
	}
	k, all := tbl.Database().Keys.Table(tbl.ID()), make(map[pseudonym]bool, len(tenants))
	for _, tenant := range tenants {
		all[pseudonym(k.Token(tenant.ID))] = true
	}
	return all, nil
}
