package store

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/seal"
)

// A KeyUse says how many cells of a table were sealed with which key.
type KeyUse struct {
	Keys []KeyCount // those of key cells, then those of each column, the newest of each first

	Plain   int // cells that are not sealed
	Dropped int // cells of columns that were dropped, and with them their keys: [Table.Convert] removes them
	Unknown int // cells that no key of theirs opens, or that are none: see [Table.Verify]
}

// A KeyCount is how many cells one key sealed.
type KeyCount struct {
	Column string // "" for key cells, with what is packed in them
	ID     string // of the key, in hex
	Newest bool   // it seals what is written from now on
	Cells  int
}

// mostKeyIDs bounds the memory of KeyUse, whatever ids the database makes up. A table has at most
// 1,000 columns, and a key more for each rotation.
const mostKeyIDs = 1 << 16

// KeyUse reads a table and counts its cells by the keys that sealed them, as their headers say. It
// reads only, while readers and writers go on. A key of no cell is not needed to read what is there;
// a client that slept since before a rotation may still seal with an older key, and converts that
// when it wakes, unless it dies.
//
// Of a table with tenants it counts the cells of the one that it is open for.
//
// Memory does not depend on the number of rows. progress, if not nil, is called now and then with the
// number of rows so far.
func (tbl *Table) KeyUse(ctx context.Context, progress func(rows int)) (use KeyUse, err error) {
	t, err := tbl.use()
	if err != nil {
		return KeyUse{}, err
	}
	ctx, end := t.st.observer.operation(ctx, "key use", t.family())
	rows := 0
	defer func() { end(rows, err) }()
	type sealed struct {
		qualifier string
		key       seal.KeyID
	}
	counts := make(map[sealed]int)
	for row, err := range t.data.Scan(ctx, under(t.prefix)) {
		if err != nil {
			return KeyUse{}, fmt.Errorf("store: key use of %q: %w", t.schema.Name, t.gone(err))
		}
		for _, cell := range row.Cells {
			if len(cell.Value) == 0 {
				continue // deleted under a condition
			}
			if cell.Value[0] == plainFormat {
				use.Plain++
				continue
			}
			id, err := seal.PeekKeyID(cell.Value)
			at := sealed{string(cell.Qualifier), id}
			if _, known := counts[at]; err != nil || !known && len(counts) == mostKeyIDs {
				use.Unknown++
				continue
			}
			counts[at]++
		}
		if rows++; progress != nil && rows%fullBatch == 0 {
			progress(rows)
		}
	}
	// What keys there are is asked for behind the scan: then it has those of all rows.
	if t, err = tbl.refresh(ctx); err != nil {
		return KeyUse{}, fmt.Errorf("store: key use: %w", err)
	}
	count := func(column string, qualifier []byte, keys *sealers, current bool) {
		if keys == nil {
			return
		}
		for i, key := range keys.keys {
			id := key.KeyID()
			at := sealed{string(qualifier), id}
			use.Keys = append(use.Keys, KeyCount{column, hex.EncodeToString(id[:]), current && i == 0, counts[at]})
			delete(counts, at)
		}
	}
	count("", keyQualifier, t.keySealer, true)
	columns := map[string]bool{string(keyQualifier): true}
	for _, c := range t.columns {
		for _, id := range append([]*column{c}, c.former...) {
			count(c.name, id.id[:], id.sealer, id == c && !c.clear())
			columns[string(id.id[:])] = true
		}
	}
	for at, n := range counts {
		if columns[at.qualifier] {
			use.Unknown += n
		} else {
			use.Dropped += n
		}
	}
	return use, nil
}
