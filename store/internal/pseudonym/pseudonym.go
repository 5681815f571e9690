// Package pseudonym reads from keys whose rows and postings they are of, in a table with tenants.
package pseudonym

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A Token is what the keys of rows and postings of a tenant begin with, in one table. It is zero where there are no tenants.
type Token [meta.TokenSize]byte

// At returns the one at a position of a key, or the zero one where the key is too short.
func At(key []byte, at int) (p Token) {
	if len(key) >= at+len(p) {
		copy(p[:], key[at:])
	}
	return p
}

// All returns those of all tenants in a table.
func All(ctx context.Context, tbl *session.Table) (map[Token]bool, error) {
	tenants, err := tbl.Database().Catalogue.AllTenants(ctx)
	if err != nil {
		return nil, err
	}
	k, all := tbl.Database().Keys.Table(tbl.ID()), make(map[Token]bool, len(tenants))
	for _, tenant := range tenants {
		all[Token(k.Token(tenant.ID))] = true
	}
	return all, nil
}
