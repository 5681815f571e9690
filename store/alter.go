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
// it. One whose key another column shares is [ErrShared].
func DropColumn(name string) Change {
	return Change{nil, func(a *alteration) error { return a.Drop(name) }}
}

// RenameColumn gives a part or column another name. Nothing but the catalogue is written.
func RenameColumn(from, to string) Change {
	return Change{nil, func(a *alteration) error { return a.Rename(from, to) }}
}

// ChangeColumn encrypts a column in another way: the column that has the name of c, as c says. The type must be as it was.
// Rows that are there keep their values, plain ones too, and are read as before. Until [Table.Convert] has rewritten them, the
// database cannot search the column, so that queries open and check all rows, in no order: Reverse needs an OrderBy then.
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
// is touched. Readers and writers go on. Writers notice before they acknowledge their next write, and store its rows as the schema
// is by then; with a lease they notice before Alter returns, and rows that were written before are as those that were there.
//
// A column that is not there is [ErrColumn], one that is there already [ErrExists], and a change
// that makes no sense [ErrSchema], as is every change of the row key other than a name. After [driver.ErrUnknownOutcome] all changes
// may have been made, or none: [Table.Describe] says it. Where ctx ends while a lease is waited for, the error says that they are made.
func (st *Store) Alter(ctx context.Context, table string, changes ...Change) (err error) {
	ctx, end := st.db.Observer.Operation(ctx, "alter", "")
	defer func() { end(0, err) }()
	var shares []string
	for _, c := range changes {
		if c.apply == nil {
			return fmt.Errorf("store: alter table %q: %w: a Change was not made by a function of this package", table, ErrSchema)
		}
		shares = append(shares, c.shares...)
	}
	err = administer.Alter(ctx, st.db, table, shares, func(a *alteration) error {
		for _, c := range changes {
			if err := c.apply(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: alter table %q: %w", table, err)
	}
	return nil
}

// RotateKeys gives a table a new key for the cells of row keys, with what is packed in them, and each of the named columns, or
// all where none is named, a new key for its cells. New values are sealed with the new keys; what is there stays readable,
// under the keys whose ids it carries, and [Table.Convert] rewrites it. It is one small write.
//
// Ciphertexts and tokens, which values are found by, have keys of their own, which are not replaced: see [ChangeColumn].
//
// In a table with tenants cells have the keys of the tenants: it is [ErrTenant], see [Store.RotateTenantKey].
func (st *Store) RotateKeys(ctx context.Context, table string, columns ...string) (err error) {
	ctx, end := st.db.Observer.Operation(ctx, "rotate keys", "")
	defer func() { end(0, err) }()
	if err := administer.RotateKeys(ctx, st.db, table, columns); err != nil {
		return fmt.Errorf("store: rotate keys of table %q: %w", table, err)
	}
	return nil
}

// RenameTable gives a table another name. Nothing but the catalogue is written, and tables that are
// open stay so. A table that does not exist is [ErrNoTable], and a name that is taken [ErrExists].
func (st *Store) RenameTable(ctx context.Context, from, to string) (err error) {
	ctx, end := st.db.Observer.Operation(ctx, "rename", "")
	defer func() { end(0, err) }()
	if err := administer.RenameTable(ctx, st.db, from, to); err != nil {
		return fmt.Errorf("store: rename table %q: %w", from, err)
	}
	return nil
}

// Drop removes a table with all its rows. One that does not exist is [ErrNoTable]; one with a column whose key a column of
// another table shares is [ErrShared]. Readers and writers of the table get errors from now on.
func (st *Store) Drop(ctx context.Context, name string) (err error) {
	ctx, end := st.db.Observer.Operation(ctx, "drop", "")
	defer func() { end(0, err) }()
	if err := administer.DropTable(ctx, st.db, name); err != nil {
		return fmt.Errorf("store: drop table %q: %w", name, err)
	}
	return nil
}
