package rekey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/convert"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/migration"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/rekey"
)

// longestCopied is how many bytes the name of a table has at most that is copied: any name has at most 100.
const longestCopied = 100 - len(migration.NextSuffix)

// toCopy returns the tables that are to be copied, since the keys of their row keys are listed, and those that are being copied.
func (r *rekeying) toCopy(ctx context.Context, d inspect.Database) (names []string, err error) {
	for _, t := range d.Tables {
		if !r.concerns(t.Name) {
			continue
		}
		base, of, err := r.copyOf(ctx, t)
		switch {
		case err != nil:
			return nil, err
		case base != "" && of == "dropped":
			names = append(names, base) // which is gone, or about to go, and this one has not got its name yet
		case base == "" && r.listedRowKey(t) && r.copyable(t, d.Tables):
			names = append(names, t.Name)
		}
	}
	names = r.withSharers(names, d.Tables)
	slices.Sort(names)
	all := slices.Compact(names)
	names = slices.DeleteFunc(slices.Clone(all), func(name string) bool { // one that was made, and not prepared yet
		base, next := strings.CutSuffix(name, migration.NextSuffix)
		return next && slices.Contains(all, base)
	})
	for _, name := range names {
		if len(name) > longestCopied {
			return nil, exit.Usagef("table %s: its name has %d bytes, and while the table is copied another one has that name and %q: 'rangecrypt table rename' gives it one of at most %d bytes",
				show.Visible(name), len(name), migration.NextSuffix, longestCopied)
		}
	}
	return sharersFirst(r.droppable(names, d), d)
}

// droppable returns those of the tables that can be dropped when they and all others of them were copied.
func (r *rekeying) droppable(names []string, d inspect.Database) []string {
	for {
		before := len(names)
		for _, t := range d.Tables {
			for owner, c := range migration.KeyOwners(t) {
				if i := slices.Index(names, owner); i >= 0 && !slices.Contains(names, t.Name) {
					r.Warn("%s is not copied: column %s of table %s had the key of one of its columns, so that it cannot be dropped before that table is copied, too",
						show.Visible(owner), show.Visible(c.Name), show.Visible(t.Name))
					names = slices.Delete(names, i, i+1)
				}
			}
		}
		if len(names) == before {
			return names
		}
	}
}

// withSharers adds tables without listed row keys whose columns have or had keys of tables that are copied: an earlier call may have copied them
// while they had these. They are copied once more, since no other command takes these keys from them. So are those that have keys of them in turn.
func (r *rekeying) withSharers(names []string, all []inspect.Table) []string {
	for i := 0; i < len(names); i++ {
		for _, t := range all {
			for owner := range migration.KeyOwners(t) {
				if owner == names[i] && r.concerns(t.Name) && !slices.Contains(names, t.Name) && !r.listedRowKey(t) && r.copyable(t, all) {
					names = append(names, t.Name)
				}
			}
		}
	}
	return names
}

// sharersFirst orders tables so that each comes before those whose keys its columns have or had.
func sharersFirst(names []string, d inspect.Database) (ordered []string, err error) {
	after := make(map[string][]string) // the tables that one waits for
	for _, t := range d.Tables {
		for owner := range migration.KeyOwners(t) {
			if slices.Contains(names, t.Name) {
				after[owner] = append(after[owner], t.Name)
			}
		}
	}
	for left := slices.Clone(names); len(left) > 0; {
		i := slices.IndexFunc(left, func(name string) bool {
			return !slices.ContainsFunc(after[name], func(sharer string) bool { return slices.Contains(left, sharer) })
		})
		if i < 0 {
			return nil, fmt.Errorf("%w: %s have keys of each other's columns, so that none can be dropped when it is copied: 'rangecrypt table alter' gives such columns keys of their own", store.ErrShared, listNames(left))
		}
		ordered, left = append(ordered, left[i]), slices.Delete(left, i, i+1)
	}
	return ordered, nil
}

// generations copies tables into new ones, and goes on where an earlier call has begun.
func (r *rekeying) generations(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if err := r.madeBefore(ctx, names); err != nil {
		return err
	}
	if err := r.Confirm(ctx, fmt.Sprintf("Copy %s into new tables? All that write them must write through the wrapper of package store/migrate, or nobody may write.", listNames(names))); err != nil {
		return err
	}
	if err := r.settle(ctx, names, r.Store, migration.NextSuffix); err != nil {
		return err
	}
	for _, name := range names {
		if err := r.generation(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// madeBefore returns an error if a table that is there to become the copy of one has keys that are listed. Its rows would be under these
// at the end, and the same command would copy it again.
func (r *rekeying) madeBefore(ctx context.Context, names []string) error {
	d, err := r.Store.Describe(ctx)
	if err != nil {
		return err
	}
	for _, t := range d.Tables {
		name, next := strings.CutSuffix(t.Name, migration.NextSuffix)
		if !next || !slices.Contains(names, name) || !r.listedRowKey(t) {
			continue
		}
		phase, err := phaseOf(ctx, r.Store, t.Name)
		if err != nil {
			return err
		}
		before := ""
		switch phase {
		case "cut over", "dropped": // its source is written no more: the report has it copied once again
			continue
		case "aborted": // which is told when it is copied
			continue
		case "prepared", "copying", "verified":
			before = fmt.Sprintf("end what comes into it, by 'rangecrypt migrate abort %s', and ", show.Visible(t.Name))
		}
		return fmt.Errorf("table %s was made before the list of keys that are to go, and has keys that are on it: %sdrop it, and give the same command again; if programs need it before, make it again when the list is there",
			show.Visible(t.Name), before)
	}
	return nil
}

// settle converts tables whose columns were changed, unless their copies have begun, which have the same name in a store but for a suffix.
// Rows that such a table does not take would keep its copy from its end. Now they can be changed still, and the table, too.
func (r *rekeying) settle(ctx context.Context, names []string, to *store.Store, suffix string) error {
	for _, name := range names {
		tbl, err := command.Table(ctx, r.Store, name)
		if errors.Is(err, command.ErrPaged) || errors.Is(err, store.ErrNoTable) {
			continue // no column of pages is changed so, and what is gone was copied
		}
		if err != nil {
			return err
		}
		phase, err := phaseOf(ctx, to, name+suffix)
		if err != nil {
			return err
		}
		s, err := tbl.Status(ctx)
		if err != nil {
			return err
		}
		if phase != "" || len(s.Pending) == 0 {
			continue
		}
		r.Warn("%s is converted first, since it was changed: %s", show.Visible(name), listNames(s.Pending))
		if err := (convert.Conversion{Call: r.Call, Table: name, Tenant: ""}).Run(ctx, tbl, command.PartFlag{}); err != nil {
			return fmt.Errorf("%w; rekey has copied nothing of that table, and the same command goes on", err)
		}
	}
	return nil
}

// phaseOf returns the phase of the migration into a table, which may not be there. Without one it is "".
func phaseOf(ctx context.Context, st *store.Store, table string) (string, error) {
	of, err := migrate.Open(ctx, st, table, nil)
	if errors.Is(err, store.ErrNoTable) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	s, err := of.Status(ctx)
	return s.Phase, err
}

// copyOf returns the table that a table is a copy of, and at which phase the copy is, or "".
func (r *rekeying) copyOf(ctx context.Context, t inspect.Table) (base, phase string, err error) {
	base, next := strings.CutSuffix(t.Name, migration.NextSuffix)
	if !next || t.Layout == inspect.Elsewhere {
		return "", "", nil
	}
	of, err := migrate.Open(ctx, r.Store, t.Name, nil)
	if err != nil {
		return "", "", err
	}
	s, err := of.Status(ctx)
	if err != nil || s.Source != migration.FromTable+base {
		return "", "", err
	}
	return base, s.Phase, nil
}

// copyable reports whether a table can be copied, so that the copy takes its place. It warns where another one is in the way.
func (r *rekeying) copyable(t inspect.Table, all []inspect.Table) bool {
	if t.Tenants || t.Layout == inspect.Elsewhere {
		return false // the report says why
	}
	for _, other := range all {
		for _, c := range other.Columns {
			if other.Name != t.Name && c.KeyOf != nil && c.KeyOf.Table == t.Name {
				r.Warn("%s is not copied: column %s of table %s has the key of one of its columns, so that it cannot be dropped; 'rangecrypt table alter' gives that a key of its own",
					show.Visible(t.Name), show.Visible(c.Name), show.Visible(other.Name))
				return false
			}
		}
	}
	return true
}

// listedRowKey reports whether a part of the row key of a table is found by a listed key.
func (r *rekeying) listedRowKey(t inspect.Table) bool {
	return slices.ContainsFunc(t.Key, func(f inspect.Field) bool {
		return r.list.Has(f.SearchKey) && f.Scheme != store.Plaintext.String()
	})
}

// generation copies a table into a new one, which gets its name.
func (r *rekeying) generation(ctx context.Context, name string) error {
	next := name + migration.NextSuffix
	again := func() (*migrate.Migration, error) { return rekey.Copy(ctx, r.Store, name, r.Store, next) }
	of, err := again()
	if err == nil {
		err = r.toTheEnd(ctx, r.Call, next, of, again)
	}
	if err == nil {
		err = r.Store.RenameTable(ctx, next, name)
		if _, there := anytable.Find(ctx, r.Call, name); errors.Is(err, store.ErrNoTable) && there == nil {
			err = nil // another one was faster
		}
	}
	if err != nil {
		return err
	}
	return r.step(name, "row-keys", "is a new table, under other keys of row keys; the one of before is dropped")
}

// errCopied is the error where somebody who was asked ends a copy in the middle.
var errCopied = errors.New("not confirmed; what was copied and cut over stays so, and the same command goes on")

// toTheEnd does what is left of a migration, in the store of a call. Before the cut-over it is begun again: schemas and policies may have
// been changed while rows were copied.
func (r *rekeying) toTheEnd(ctx context.Context, c *cli.Call, into string, of *migrate.Migration, again func() (*migrate.Migration, error)) error {
	tbl, err := anytable.Find(ctx, c, into)
	if err != nil {
		return err
	}
	m := &migration.Migration{Call: c, Table: tbl, Into: into, Within: c == r.Call}
	at, there := show.Argument(into), "" // a table of this store may have the same name, with the only rows
	if !m.Within {
		at, there = at+" --store "+show.Argument(c.ShownStore()), " of "+c.ShownStore()
	}
	const steps = 20  // more are not made, unless others do the same
	verified := false // by this call: what was deleted since an earlier one would come back
	for n := 0; ; n++ {
		s, err := of.Status(ctx)
		if err != nil {
			return err
		}
		switch {
		case s.Paused:
			err = fmt.Errorf("the copy into table %s%s is paused: 'rangecrypt migrate resume %s' lets it go on; then give the command again", show.Visible(into), there, at)
		case s.Phase == "aborted":
			err = fmt.Errorf("the copy into table %s%s was aborted: 'rangecrypt table drop %s' removes that table; then give the command again", show.Visible(into), there, at)
		case s.Phase == "cut over" && s.Verified.IsZero():
			err = m.Verify(ctx, of, command.PartFlag{}, false)
		case s.Phase == "", s.Phase == "cut over", s.Phase == "dropped":
			if err := m.Drop(ctx, of, false); !errors.Is(err, cli.ErrDeclined) {
				return err
			}
			return errCopied
		case s.Copied.IsZero():
			err = m.Copy(ctx, of, command.PartFlag{})
		case !verified || s.Verified.Before(s.Copied):
			err = m.Verify(ctx, of, command.PartFlag{}, true)
			verified = err == nil
		default:
			if _, err = again(); err == nil {
				err = m.Cutover(ctx, of)
			}
		}
		if errors.Is(err, cli.ErrDeclined) {
			return errCopied
		}
		faster := errors.Is(err, migrate.ErrPhase) || errors.Is(err, migrate.ErrCutOver) || errors.Is(err, store.ErrNoTable) // another one, that may have dropped the source
		if err != nil && (!faster || n == steps) {
			return err
		}
	}
}

// byKeeper returns the tables whose rows the store has, and those of which the application keeps them.
func byKeeper(d inspect.Database) (here, elsewhere []string) {
	for _, t := range d.Tables {
		if t.Layout == inspect.Elsewhere {
			elsewhere = append(elsewhere, t.Name)
		} else {
			here = append(here, t.Name)
		}
	}
	return here, elsewhere
}

// runInto copies all tables into another store.
func (r *rekeying) runInto(ctx context.Context) (err error) {
	d, err := r.Store.Describe(ctx)
	if err != nil {
		return err
	}
	names, others := byKeeper(d)
	if names, err = sharersFirst(names, d); err != nil {
		return err
	}
	if r.dryRun {
		return r.step("", "into", fmt.Sprintf("to be copied into %s: %s", stores.Shown(r.into.Name), listNames(names)))
	}
	if len(others) > 0 {
		r.Warn("%s will stay here, since the application keeps the rows: they are no part of the copy", listNames(others))
	}
	if len(names) > 0 {
		if err := r.Confirm(ctx, fmt.Sprintf("Copy %s into %s? All that write them must write through the wrapper of package store/migrate, or nobody may write.",
			listNames(names), stores.Shown(r.into.Name))); err != nil {
			return err
		}
	}
	db, key, err := r.into.Open(ctx, r.Env, stores.How{Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	into, err := stores.Tables(ctx, db, key, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close(ctx)) }()
	if err := r.settle(ctx, names, into, ""); err != nil {
		return err
	}
	if err := r.copyAll(ctx, names, into); err != nil {
		return err
	}
	if d, err = r.Store.Describe(ctx); err != nil {
		return err
	}
	if since, _ := byKeeper(d); len(since) > 0 {
		return fmt.Errorf("%s: made or renamed here while the others were copied; the same command copies what is there", listNames(since))
	}
	if len(others) > 0 {
		return fmt.Errorf("%w: %s stay here, since the application keeps the rows, while the rest is copied: register them in the other store, and write all values there", store.ErrNoTable, listNames(others))
	}
	err = r.step("", "into", fmt.Sprintf("all tables are in %s, under other keys: destroy this store with its backups", stores.Shown(r.into.Name)))
	if err == nil && r.Opens(ctx, db) {
		err = r.step("", "master", "the master key of this store opens the other one, too: 'rangecrypt keys rotate --to KEY' replaces it there, if others may know it")
	}
	return err
}

// copyAll copies tables into another store. One that shares a key with another one begins after that.
func (r *rekeying) copyAll(ctx context.Context, names []string, into *store.Store) error {
	begun := make(map[string]*migrate.Migration)
	for len(begun) < len(names) {
		var last error
		before := len(begun)
		for _, name := range names {
			if begun[name] != nil {
				continue
			}
			of, err := rekey.Copy(ctx, r.Store, name, into, name)
			switch {
			case errors.Is(err, store.ErrNoTable):
				last = err
			case err != nil:
				return err
			default:
				begun[name] = of
			}
		}
		if len(begun) == before {
			return last
		}
	}
	call := *r.Call
	call.Kept, call.Store = r.into, into
	for _, name := range names {
		again := func() (*migrate.Migration, error) { return rekey.Copy(ctx, r.Store, name, into, name) }
		if err := r.toTheEnd(ctx, &call, name, begun[name], again); err != nil {
			return exit.Early(ctx, fmt.Errorf("table %s: %w", show.Visible(name), err))
		}
	}
	return nil
}

// listNames lists tables, as far as there is room.
func listNames(all []string) string {
	const most = 5
	if len(all) > most {
		return show.Names(all[:most]) + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return show.Names(all)
}
