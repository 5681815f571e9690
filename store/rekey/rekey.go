// Package rekey replaces keys of a store that somebody else may know. 'rangecrypt rekey' does what it has, one step after the other;
// most programs need no more than that.
//
// It begins with a [List] of the keys that are to go. Whatever is called again, after a death or by two at a time, replaces only what
// is on the list. So it ends with the same keys as one call.
//
//   - [Replace] and [ReplaceTenant] give new keys for what is written from now on. [store.Table.Convert] then stores all rows under them.
//   - [Copy] begins a copy of a table under keys of its own, which package migrate ends. Tables of pages have it, too. That replaces the keys of row keys, too
//     and, into another store, all keys.
//   - [Prune] removes keys from the catalogue that nothing is under, where nobody can write under them any more.
//
// A new key takes back nothing that was seen: see docs/security.md.
package rekey

import (
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// ErrKept is returned by [Prune] where a client that sleeps may still write under an old key.
var ErrKept = errors.New("rekey: other clients may write under old keys, which are kept: they go with the table, when it is copied into a new one and dropped")

// A List has the ids of keys that are to go, in hex, as [store.Store.Describe] returns them.
type List map[string]bool

// Has reports whether the key of an id is to go.
func (l List) Has(id string) bool { return l[id] }

// All lists all keys that a store has.
func All(d inspect.Database) List {
	all := List{d.Key: true}
	add := func(ids ...string) {
		for _, id := range ids {
			if id != "" {
				all[id] = true
			}
		}
	}
	for _, t := range d.Tenants {
		add(t.Keys...)
	}
	for _, t := range d.Tables {
		add(KeysOf(t)...)
	}
	return all
}

// KeysOf returns the ids of the keys that the catalogue has for a table.
func KeysOf(t inspect.Table) (ids []string) {
	ids = append(ids, t.RowKeys...)
	for _, list := range [][]inspect.Field{t.Key, t.Columns} {
		for _, f := range list {
			for _, of := range append([]inspect.Field{f}, f.Former...) {
				if of.SearchKey != "" {
					ids = append(ids, of.SearchKey)
				}
				ids = append(ids, of.CellKeys...)
			}
		}
	}
	return ids
}

// Replace gives new keys to what of a table is written under a listed one: to its cells, to what its columns are found by, or to
// both. It is one small write, or none. Search keys that other columns have, too, stay: one alone cannot be replaced. So do those of
// parts of the row key, and tables with tenants have no keys of their own.
func Replace(ctx context.Context, st *store.Store, table string, list List, cells, search bool) error {
	if err := administer.Replace(ctx, session.Of(st), table, list.Has, cells, search); err != nil {
		return fmt.Errorf("rekey: replace keys of table %q: %w", table, err)
	}
	return nil
}

// ReplaceTenant gives a tenant a new key for its cells in all tables, if the newest one is listed. What its rows are found by stays
// under its first key: another store has another one.
func ReplaceTenant(ctx context.Context, st *store.Store, tenant string, list List) error {
	if err := administer.RotateTenantKey(ctx, session.Of(st), tenant, list.Has); err != nil {
		return fmt.Errorf("rekey: replace the key of tenant %q: %w", tenant, err)
	}
	return nil
}

// Prune removes from the catalogue the keys of a table that nothing is under, as use says, but the newest ones. Use must have been
// counted after the last conversion. It returns how many there were.
//
// It is for an embedded store which has one client, that calls it and writes nothing at the same time. Elsewhere it is [ErrKept]: a
// writer that has slept since before a rotation would write rows that nobody can open.
func Prune(ctx context.Context, st *store.Store, table string, use inspect.KeyUse) (n int, err error) {
	db := session.Of(st)
	if _, embedded := db.Driver.(driver.Snapshotter); !embedded {
		return 0, ErrKept
	}
	under := make(map[string]int)
	for _, k := range use.Keys {
		under[k.ID] += k.Cells
	}
	for _, k := range use.Search {
		under[k.ID] += k.Entries + k.Records
	}
	unused := func(id string) bool {
		n, counted := under[id]
		return counted && n == 0
	}
	if n, err = prune(ctx, db, table, unused); err != nil {
		return 0, fmt.Errorf("rekey: prune keys of table %q: %w", table, err)
	}
	return n, nil
}

// prune removes keys, and notes that rows which were converted to the table as it was are converted to it as it is.
func prune(ctx context.Context, db *session.Database, table string, unused func(string) bool) (n int, err error) {
	tbl, err := db.Named(ctx, table)
	if err != nil {
		return 0, err
	}
	was, err := tbl.Refresh(ctx)
	if err != nil {
		return 0, err
	}
	if n, err = administer.Prune(ctx, db, table, unused); err != nil || n == 0 {
		return n, err
	}
	now, err := tbl.Refresh(ctx)
	if err != nil {
		return n, err
	}
	_, err = tbl.UpdateProgress(ctx, func(p catalogue.Progress) (catalogue.Progress, bool) {
		if !p.Over || p.Target != was.Since {
			return p, false
		}
		p.Target = now.Since
		return p, true
	})
	return n, err
}
