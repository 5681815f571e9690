package maintain

import (
	"context"
	"encoding/hex"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// mostKeyIDs bounds the memory of KeyUse, whatever ids the database makes up. A table has at most
// 1,000 columns, and a key more for each rotation. With tenants each has keys of its own for each
// column: then mostTenantKeys counts, which is some 30 MB.
const mostKeyIDs, mostTenantKeys = 1 << 16, 1 << 18

// KeyUse reads a table and counts its cells by the keys that sealed them, as their headers say. progress may be
// nil. It returns the number of rows also with an error.
func KeyUse(ctx context.Context, tbl *session.Table, progress func(rows int)) (use inspect.KeyUse, rows int, err error) {
	t := tbl.Now()
	counts, most := make(map[sealedBy]int), mostKeyIDs
	tenants := t.Meta.Tenants && !tbl.Bound()
	if tenants {
		most = mostTenantKeys
	}
	for row, err := range t.Data.Scan(ctx, engine.Under(t.Prefix)) {
		if err != nil {
			return inspect.KeyUse{}, rows, engine.Gone(err)
		}
		var of pseudonym
		if tenants {
			of = pseudonymAt(row.Key, 0)
		}
		for _, cell := range row.Cells {
			if len(cell.Value) == 0 {
				continue // deleted under a condition
			}
			at := sealedBy{of: of}
			if cell.Value[0] != rowcodec.PlainFormat {
				at.sealed, at.qualifier = true, string(cell.Qualifier)
				if at.key, err = seal.PeekKeyID(cell.Value); err != nil {
					use.Unknown++
					continue
				}
			}
			if _, known := counts[at]; !known && len(counts) == most {
				use.Unknown++
				continue
			}
			counts[at]++
		}
		if rows++; progress != nil && rows%engine.FullBatch == 0 {
			progress(rows)
		}
	}
	// What keys there are is asked for after the scan: then it has those of all rows.
	known := make(map[pseudonym]bool)
	columns := map[string]bool{string(rowcodec.KeyQualifier): true}
	count := func(tbl *session.Table) error {
		t, err := tbl.Refresh(ctx)
		if err != nil {
			return err
		}
		var of pseudonym
		if tenants {
			of = pseudonym(t.Prefix)
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

// countOthers counts the cells that no key which is known sealed.
func countOthers(use *inspect.KeyUse, counts map[sealedBy]int, known map[pseudonym]bool, columns map[string]bool) {
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
	of        pseudonym
	sealed    bool
	qualifier string
	key       seal.KeyID
}

// keyCounts returns the keys of the table, for the tenant that it is open for if it is, and takes
// the number of their cells from counts.
func keyCounts(t *rowcodec.View, of pseudonym, counts map[sealedBy]int) (all []inspect.KeyCount) {
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
