// Package keyuse counts the cells of a table by the keys that sealed them.
package keyuse

import (
	"context"
	"encoding/hex"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pseudonym"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// mostKeyIDs bounds the memory of Count, whatever ids the database makes up. A table has at most
// 1,000 columns, and a key more for each rotation. With tenants each has keys of its own for each
// column: then mostTenantKeys counts, which is some 30 MB.
const mostKeyIDs, mostTenantKeys = 1 << 16, 1 << 18

// Count reads a table and counts its cells by the keys that sealed them, as their headers say. progress may be
// nil. It returns the number of rows also with an error.
func Count(ctx context.Context, tbl *session.Table, progress func(rows int)) (use inspect.KeyUse, rows int, err error) {
	t := tbl.Now()
	counts, most := make(map[sealedBy]int), mostKeyIDs
	tenants := t.Meta.Tenants && !tbl.Bound()
	if tenants {
		most = mostTenantKeys
	}
	add := func(of pseudonym.Token, qualifier, value []byte) {
		at := sealedBy{of: of}
		if value[0] != rowcodec.PlainFormat {
			id, err := seal.PeekKeyID(value)
			if err != nil {
				use.Unknown++
				return
			}
			at.sealed, at.qualifier, at.key = true, string(qualifier), id
		}
		if _, known := counts[at]; !known && len(counts) == most {
			use.Unknown++
			return
		}
		counts[at]++
	}
	for row, err := range t.Data.Scan(ctx, engine.Under(t.Prefix)) {
		if err != nil {
			return inspect.KeyUse{}, rows, engine.Gone(err)
		}
		var of pseudonym.Token
		if tenants {
			of = pseudonym.At(row.Key, 0)
		}
		for _, cell := range row.Cells {
			if len(cell.Value) > 0 { // or it was deleted under a condition
				add(of, cell.Qualifier, cell.Value)
			}
		}
		if rows++; progress != nil && rows%engine.FullBatch == 0 {
			progress(rows)
		}
	}
	if err := eachCopy(ctx, tbl, func(posting driver.Row) {
		var of pseudonym.Token
		if tenants {
			of = pseudonym.At(posting.Key, len(meta.ColumnID{}))
		}
		add(of, rowcodec.KeyQualifier, posting.Cells[0].Value) // which has the key
	}); err != nil {
		return inspect.KeyUse{}, rows, engine.Gone(err)
	}
	// What keys there are is asked for after the scan: then it has those of all rows.
	known := make(map[pseudonym.Token]bool)
	columns := map[string]bool{string(rowcodec.KeyQualifier): true}
	count := func(tbl *session.Table) error {
		t, err := tbl.Refresh(ctx)
		if err != nil {
			return err
		}
		var of pseudonym.Token
		if tenants {
			of = pseudonym.Token(t.Prefix)
		}
		known[of] = true
		use.Keys = append(use.Keys, keyCounts(t.View, of, counts)...)
		for _, c := range t.Stored {
			columns[string(c.Id[:])] = true
		}
		return nil
	}
	if tenants {
		err = tbl.EachTenant(ctx, count)
	} else {
		err = count(tbl)
	}
	if err != nil {
		return inspect.KeyUse{}, rows, err
	}
	countOthers(&use, counts, known, columns)
	return use, rows, nil
}

// eachCopy calls do for the postings that have copies of rows, also for those of columns that were dropped.
func eachCopy(ctx context.Context, tbl *session.Table, do func(posting driver.Row)) error {
	t, err := tbl.Refresh(ctx)
	if err != nil || !t.Meta.Copies() || t.Postings == nil {
		return err
	}
	leads := [][]byte{nil}
	if tbl.Bound() {
		leads = nil
		for _, c := range t.Stored {
			if c.Posted() {
				leads = append(leads, c.Lead)
			}
		}
		for _, id := range t.Meta.Dropped {
			leads = append(leads, slices.Concat(id[:], t.Prefix))
		}
	}
	for _, lead := range leads {
		for posting, err := range t.Postings.Scan(ctx, engine.Under(lead)) {
			if err != nil {
				return err
			}
			if len(posting.Cells) > 0 && rowcodec.HasCopy(posting.Cells[0].Value) {
				do(posting)
			}
		}
	}
	return nil
}

// countOthers counts the cells that no key which is known sealed.
func countOthers(use *inspect.KeyUse, counts map[sealedBy]int, known map[pseudonym.Token]bool, columns map[string]bool) {
	for at, n := range counts {
		switch {
		case !known[at.of]:
			use.Orphans += n
		case !at.sealed:
			use.Plain += n
		case columns[at.qualifier]:
			use.Unknown += n
		default:
			use.Dropped += n
		}
	}
}

// sealedBy is what the cells that a KeyUse counts have in common. Of those that are not sealed it
// is no more than whose they are.
type sealedBy struct {
	of        pseudonym.Token
	sealed    bool
	qualifier string
	key       seal.KeyID
}

// keyCounts returns the keys of the table, for the tenant that it is open for if it is, and takes
// the number of their cells from counts.
func keyCounts(t *rowcodec.View, of pseudonym.Token, counts map[sealedBy]int) (all []inspect.KeyCount) {
	tenant := t.TenantName()
	count := func(column string, qualifier []byte, keys *keyring.Sealers, current bool) {
		if keys == nil {
			return
		}
		for i, key := range keys.Keys {
			id := key.KeyID()
			at := sealedBy{of, true, string(qualifier), id}
			all = append(all, inspect.KeyCount{Tenant: tenant, Column: column, ID: hex.EncodeToString(id[:]), Newest: current && i == 0, Cells: counts[at]})
			delete(counts, at)
		}
	}
	count("", rowcodec.KeyQualifier, t.KeySealer, true)
	for _, c := range t.Columns {
		for _, id := range append([]*rowcodec.Column{c}, c.Former...) {
			count(c.Name, id.Id[:], id.Sealer, id == c && !c.Clear())
		}
	}
	return all
}
