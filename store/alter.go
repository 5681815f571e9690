package store

import (
	"context"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store/internal/administer"
)

// A Change is a change of a table's schema, for [Store.Alter].
type Change struct {
	shares []string // tables that it needs the entries of
	apply  func(*alteration) error
}

// AddColumn adds a column. Rows that are there have no value in it. A name that a part or column has is [ErrExists].
func AddColumn(c Column) Change {
	return Change{tableOf(c), func(a *alteration) error { return a.Add(c.spec) }}
}

// DropColumn removes a column: from now on it has no values, and what rows still hold of it cannot be opened any more. But the
// database has that, and in the clear if the column was plain, until [Table.Convert] has ended: to put a row again need not remove
// it. Files of the database have it until they are compacted: see DB.Compact of store/pebble. One whose key another column shares is
// [ErrShared]. A write of another client that gives the column a value, and learns of this only when it has written, is
// [ErrSchemaChanged] and [ErrWritten]: its rows are there without that value. One that only reads goes on to return values of rows
// that were there, until it learns of this: see [Table.Schema].
func DropColumn(name string) Change {
	return Change{nil, func(a *alteration) error { return a.Drop(name) }}
}

// RenameColumn gives a part or column another name. Only the catalogue is written. Another client that only reads goes on to take
// and return the former name, until it learns of this: see [Table.Schema]. A table of store/cell is [ErrSchema].
func RenameColumn(from, to string) Change {
	return Change{nil, func(a *alteration) error { return a.Rename(from, to) }}
}

// ChangeColumn encrypts a column in another way: the column that has the name of c, as c says. The type must be as it was.
// Rows that are there keep their values, plain ones too, and are read as before. Until [Table.Convert] has rewritten them,
// queries by the column scan the index entries of before, and then those of now. Where there were none before, or they were of another
// kind, queries open and check all rows, in no order: Reverse needs an OrderBy then. [Table.Explain] says which. A [TableOf] goes on, whatever
// its tags say of the encryption. It does not where the column is plain from now on and not tagged plain.
//
// A row that holds NaN where the column is searched from now on, or would be too large, stays as it is: see inspect.ConvertStats.
// In a table of which nothing is encrypted a column cannot be encrypted; make another table.
func ChangeColumn(c Column) Change {
	return Change{tableOf(c), func(a *alteration) error { return a.Change(c.spec) }}
}

// SetTTL changes [Schema.TTL], for rows that are put from now on. Rows that are there expire when they would have. So a table
// that had a TTL never becomes one without: 0 is as [TTLByRow] then.
//
// A Put that is under way may write rows with the former TTL. If its client learns of the change before the Put returns, it puts
// them again with the new one. They stay with the former one if that fails, if the client dies or, with a lease, if the Put returns
// before Alter does. No conversion changes that: put them again. A TTL of [Table.Expiring] stays.
func SetTTL(ttl time.Duration) Change {
	return Change{nil, func(a *alteration) error { return a.SetTTL(ttl) }}
}

func tableOf(c Column) []string {
	if c.spec.Confidentiality == ofColumns {
		return []string{c.spec.Table}
	}
	return nil
}

// Alter changes the schema of a table: all the changes, one after the other, or none of them. It is one small write, and no row
// is touched. Readers and writers go on, but a query by a column that is encrypted otherwise from now on may end as [Table.RebuildIndex]
// says. Writers notice before they acknowledge their next write, and store its rows as the schema is by then. With a lease Alter
// returns when no write that goes by the former schema is acknowledged any more; rows of those that were are as the others that
// were there. A client that does not write goes by what it knows, as [Table.Schema] says, with a lease or without.
//
// A column that is not there is [ErrColumn], one that is there already [ErrExists], and a change
// that makes no sense [ErrSchema], as is every change of the row key other than a name. After [driver.ErrUnknownOutcome] all changes
// may have been made, or none: [Table.Describe] says it. Where ctx ends while a lease is waited for, the error says that they are made.
func (st *Store) Alter(ctx context.Context, table string, changes ...Change) error {
	return st.call(ctx, "alter", fmt.Sprintf("alter table %q", table), func(ctx context.Context) error {
		var shares []string
		for _, c := range changes {
			if c.apply == nil {
				return fmt.Errorf("%w: a Change was not made by a function of this package", ErrSchema)
			}
			shares = append(shares, c.shares...)
		}
		return administer.Alter(ctx, st.db, table, shares, func(a *alteration) error {
			for _, c := range changes {
				if err := c.apply(a); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// RotateKeys gives a table a new key for the cells of row keys, with what is packed in them, and each of the named columns, or
// all where none is named, a new key for its cells. New values are sealed with the new keys; what is there stays readable,
// under the keys whose ids it carries, and [Table.Convert] rewrites it. It is one small write.
//
// Ciphertexts and tokens, which values are found by, have keys of their own: see [Store.RotateSearchKeys].
//
// In a table with tenants cells have the keys of the tenants: it is [ErrTenant], see [Store.RotateTenantKey].
func (st *Store) RotateKeys(ctx context.Context, table string, columns ...string) error {
	return st.call(ctx, "rotate keys", fmt.Sprintf("rotate keys of table %q", table), func(ctx context.Context) error {
		return administer.RotateKeys(ctx, st.db, table, columns)
	})
}

// RotateSearchKeys gives each of the named columns of a table a new search key: the key of its ciphertexts and tokens. It is as a
// change of the column's encryption to the same one. What is written from now on has the new key, and queries find rows by
// the old one and the new one; one that is under way may end as [Table.RebuildIndex] says. [Table.Convert] stores all rows under the new one. From then on no row has the old one, though index entries that lead to no row may: Verify with Repair drops them.
//
// A part of the row key, and a column that is not searched, are [ErrSchema]. A column that shares its key with another one is
// [ErrShared]. A table with tenants is [ErrTenant], since its search keys are derived from the keys of the tenants.
func (st *Store) RotateSearchKeys(ctx context.Context, table string, columns ...string) error {
	return st.call(ctx, "rotate keys", fmt.Sprintf("rotate search keys of table %q", table), func(ctx context.Context) error {
		return administer.RotateSearchKeys(ctx, st.db, table, columns)
	})
}

// RenameTable gives a table another name. Nothing but the catalogue is written, and tables that are
// open stay so. A table that does not exist is [ErrNoTable], a name that is taken [ErrExists], a table of store/cell [ErrSchema], one whose rows
// are coming into another table of this store migrate.ErrPhase.
func (st *Store) RenameTable(ctx context.Context, from, to string) error {
	return st.call(ctx, "rename", fmt.Sprintf("rename table %q", from), func(ctx context.Context) error {
		return administer.RenameTable(ctx, st.db, from, to)
	})
}

// Drop removes a table with all its rows. One that does not exist is [ErrNoTable]; one with a column whose key a column of
// another table shares is [ErrShared]. One whose rows are coming into another table of this store, or that rows come into, is
// migrate.ErrPhase until the migration is cut over or aborted. Readers and writers of the table get errors from now on.
func (st *Store) Drop(ctx context.Context, name string) error {
	return st.call(ctx, "drop", fmt.Sprintf("drop table %q", name), func(ctx context.Context) error {
		return administer.DropTable(ctx, st.db, name)
	})
}
