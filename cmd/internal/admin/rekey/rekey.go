// Package rekey has the command "rangecrypt rekey".
package rekey

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/convert"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/migration"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
	"github.com/rangecrypt/rangecrypt/store/rekey"
)

// A rekeying replaces keys.
type rekeying struct {
	*cli.Call
	file                                 string
	tables                               []string
	cells, search, rowKeys, tenants, all bool
	to                                   string
	into                                 cli.Kept
	dryRun                               bool

	list    rekey.List
	renewed []string // tables that were to get other keys of row keys
}

// New returns the command "rekey".
func New(e *cli.Env) *cobra.Command {
	r := new(rekeying)
	return cli.Command{
		Use:   "rekey",
		Short: "Replace keys that others may know, and store all rows under new ones",
		Long: `Rekey replaces the keys of a store, and stores all rows under the new ones. It begins with
a list of all keys that the store has, and writes their ids into the file of --list. Then
it replaces those of them that it is told to:

  --cells     the keys that seal cells; --tenants those of tenants
  --search    the keys that columns are found by: of ciphertexts and tokens
  --row-keys  the keys of parts of the row key: each table is copied into a new one, which
              gets its name, and is dropped. All writers must write through the wrapper of
              package store/migrate meanwhile, or nobody may write
  --all       all of these
  --to        the master key; it comes last
  --into      everything, the database key and the keys of tenants too: all tables are
              copied into another store, and dropped here. It needs no list

It may be stopped at any time. The same command goes on by the list, and replaces no key
twice; two at a time do no harm. At the end it counts what is under listed keys still.
With --dry-run it says what is left to do, and does nothing.

An embedded store forgets old keys at the end. Other stores keep them in the catalogue, as
a client that sleeps may write under them: they go when their table is dropped. What was
seen is not taken back: docs/security.md.`,
		Example: `  rangecrypt rekey --cells --search --list old-keys --store pebble:data --key app.key
  rangecrypt rekey --all --to new.key --list old-keys --store pebble:data --key app.key
  rangecrypt rekey --into pebble:new --into-key new.key --store pebble:data --key app.key`,
		JSON: "print JSON lines", Yes: true,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&r.file, "list", "", "a `file` that keeps the ids of the keys that are to go; it is\nmade with those of all keys where it is not there")
			f.StringArrayVar(&r.tables, "table", nil, "`name` of a table, repeatable (default all)")
			f.BoolVar(&r.cells, "cells", false, "replace the keys of cells")
			f.BoolVar(&r.search, "search", false, "replace the search keys of columns")
			f.BoolVar(&r.rowKeys, "row-keys", false, "copy tables into new ones, under other keys of row keys")
			f.BoolVar(&r.tenants, "tenants", false, "replace the keys of tenants that seal cells")
			f.BoolVar(&r.all, "all", false, "all of these")
			f.StringVar(&r.to, "to", "", "`source` of the new master key, as of --key")
			f.StringVar(&r.into.Name, "into", "", "another `store`, which gets all tables; it is made if needed")
			f.StringVar(&r.into.Key, "into-key", "", cli.KeyHelp("that store's master key"))
			cli.Writes(f, "list")
			f.BoolVar(&r.dryRun, "dry-run", false, "say what is left to do, and do nothing")
		},
		Check: r.check,
		Run:   func(ctx context.Context, _ *cli.Call) error { return r.run(ctx) },
	}.New(e)
}

func (r *rekeying) check(c *cli.Call) error {
	r.Call = c
	if r.all {
		r.cells, r.search, r.rowKeys, r.tenants = true, true, true, true
	}
	some := r.some()
	switch {
	case r.into.Name != "":
		if some || r.to != "" || r.file != "" || len(r.tables) > 0 {
			return exit.Usagef("--into copies everything into another store, under other keys: leave out --list, --table, --to and what is to be replaced")
		}
		if err := stores.Check(r.into.Name); err != nil {
			return err
		}
		if sameFolder(c.Kept.Name, r.into.Name) {
			return exit.Usagef("--into is the store that --store names: give a new one")
		}
		return cli.CheckKey("--into-key", r.into.Key)
	case r.into.Key != "":
		return exit.Usagef("--into-key is the key of --into: name that, too")
	case !some && r.to == "":
		return exit.Usagef("say what is replaced: --cells, --search, --row-keys, --tenants, --all, the master key with --to, or everything with --into")
	case some && r.file == "" && !r.dryRun:
		return exit.Usagef("name a file with --list, which keeps the ids of the keys that are to go: the same command goes on by it")
	case !some && r.file != "":
		return exit.Usagef("--list is for keys in the store: the master key needs none")
	case r.to != "":
		if err := cli.CheckKey("--to", r.to); err != nil {
			return err
		}
	}
	return cli.Once("table", r.tables)
}

// sameFolder reports whether two stores keep their data in one folder.
func sameFolder(one, other string) bool {
	_, a := stores.Files(one)
	_, b := stores.Files(other)
	is, err := os.Stat(a)
	if err != nil || a == "" || b == "" {
		return false
	}
	and, err := os.Stat(b)
	return err == nil && os.SameFile(is, and)
}

func (r *rekeying) run(ctx context.Context) error {
	if r.into.Name != "" {
		return r.runInto(ctx)
	}
	to, err := r.newMaster(ctx) // before anything is done
	if err == nil && r.some() {
		err = r.within(ctx)
	}
	if err != nil || to == nil || r.dryRun {
		return err
	}
	if err := to(ctx); err != nil {
		return err
	}
	return r.step("", "master", "the store is opened with the new master key from now on")
}

// some reports whether other keys than the master key are replaced.
func (r *rekeying) some() bool { return r.cells || r.search || r.rowKeys || r.tenants }

// within replaces keys that are in the store.
func (r *rekeying) within(ctx context.Context) error {
	d, err := r.Store.Describe(ctx)
	if err == nil {
		err = r.known(d)
	}
	if err == nil {
		err = r.readList(d)
	}
	if err == nil && r.rowKeys {
		r.renewed, err = r.toCopy(ctx, d)
	}
	if err == nil && !r.dryRun {
		if err = r.generations(ctx, r.renewed); err == nil {
			err = r.replace(ctx)
		}
		if err == nil {
			d, err = r.Store.Describe(ctx)
		}
	}
	if err != nil {
		return err
	}
	return r.report(ctx, d)
}

// newMaster reads the new master key. The function that it returns, if there is one, has the store opened with it.
func (r *rekeying) newMaster(ctx context.Context) (func(context.Context) error, error) {
	if r.to == "" {
		return nil, nil
	}
	to, err := r.ReadNewKey(ctx, r.to)
	if err == nil {
		_, err = command.CheckNew(ctx, r.Call, to)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return command.RotateMaster(ctx, r.Call, to) }, nil
}

// concerns reports whether a table is one of those that keys are replaced of.
func (r *rekeying) concerns(table string) bool {
	return len(r.tables) == 0 || slices.Contains(r.tables, table) || slices.Contains(r.tables, strings.TrimSuffix(table, migration.NextSuffix))
}

// known returns an error unless all tables that are named are there.
func (r *rekeying) known(d inspect.Database) error {
	var names []string
	for _, t := range d.Tables {
		names = append(names, t.Name)
	}
	for _, name := range r.tables {
		if !slices.Contains(names, name) && !slices.Contains(names, name+migration.NextSuffix) {
			return fmt.Errorf("table %q: %w; 'rangecrypt table list' shows those that there are%s", name, store.ErrNoTable, show.DidYouMean(names, name))
		}
	}
	return nil
}

// keyID matches the id of a key in a list.
var keyID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// readList reads the list or, where there is none, makes it with all keys.
func (r *rekeying) readList(d inspect.Database) error {
	if r.file == "" {
		r.list = rekey.All(d)
		return nil
	}
	f, err := os.Open(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		r.list = rekey.All(d)
		if r.dryRun {
			return nil
		}
		if err := r.writeList(d.Key); !errors.Is(err, outfile.ErrExists) {
			return err
		}
		f, err = os.Open(r.file) // another one was faster
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r.list = make(rekey.List)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan() || errors.Is(lines.Err(), bufio.ErrTooLong); n++ {
		if !keyID.MatchString(lines.Text()) {
			return fmt.Errorf("line %d of %s is no id of a key, and is not shown: name a list that this command has made, or a file that is not there", n, r.file)
		}
		r.list[lines.Text()] = true
	}
	if err := lines.Err(); err != nil {
		return err
	}
	// Under another list, or one that lacks keys, these would not be replaced, and all would look well.
	if !r.list.Has(d.Key) {
		return fmt.Errorf("the key of this database is not in %s: it is the list of another store, or was cut off at its end; name the whole list, or a file that is not there, into which all keys of now are written", r.file)
	}
	return nil
}

// writeList writes the list. The key of the database, which every list has, is last: a list that was cut off between lines lacks it.
func (r *rekeying) writeList(last string) (err error) {
	f, err := outfile.Create(r.file, false)
	if err != nil {
		return err
	}
	var ids []string
	for id := range r.list {
		if id != last {
			ids = append(ids, id+"\n")
		}
	}
	slices.Sort(ids)
	if _, err = f.WriteString(strings.Join(ids, "") + last + "\n"); err == nil {
		err = f.Commit()
	}
	if err != nil {
		f.Discard()
	}
	return err
}

// step prints what was done of a table, or of all.
func (r *rekeying) step(table, what, text string) error {
	line := text
	if table != "" {
		line = show.Visible(table) + ": " + text
	}
	return r.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table,omitempty"`
		Step   string `json:"step"`
		Text   string `json:"text"`
	}{"rekey", r.ShownStore(), table, what, text}, line)
}

// resealPages gives tables whose rows share pages new keys, and seals the pages again.
func (r *rekeying) resealPages(ctx context.Context, d inspect.Database) error {
	for _, t := range d.Tables {
		if !r.cells || t.Layout != inspect.Paged || !r.concerns(t.Name) || countListed(r.list, t.RowKeys) == 0 {
			continue
		}
		if err := rekey.Replace(ctx, r.Store, t.Name, r.list, true, false); err != nil {
			return err
		}
		tbl, err := paged.Open(ctx, r.Store, t.Name)
		if err == nil {
			_, err = tbl.Reseal(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace gives new keys to what is written from now on, and stores rows under them.
func (r *rekeying) replace(ctx context.Context) error {
	d, err := r.Store.Describe(ctx)
	if err != nil {
		return err
	}
	if r.tenants {
		for _, t := range d.Tenants {
			if err := rekey.ReplaceTenant(ctx, r.Store, t.Name, r.list); err != nil {
				return err
			}
		}
	}
	var tables []inspect.Table // that have what is under listed keys, or may have
	for _, t := range d.Tables {
		wanted := t.Tenants && r.tenants || !t.Tenants && (r.cells || r.search) && countListed(r.list, rekey.KeysOf(t)) > 0
		if r.concerns(t.Name) && !t.Apart() && wanted {
			tables = append(tables, t)
		}
	}
	// All keys come before any row, so that what is written meanwhile is under new ones.
	for _, t := range tables {
		if t.Tenants {
			continue
		}
		if err := rekey.Replace(ctx, r.Store, t.Name, r.list, r.cells, r.search); err != nil {
			return err
		}
	}
	if err := r.resealPages(ctx, d); err != nil {
		return err
	}
	for _, t := range tables {
		if err := r.convert(ctx, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// convert stores the rows of a table under its newest keys, unless an earlier call has done so.
func (r *rekeying) convert(ctx context.Context, table string) error {
	tbl, err := r.Store.Table(ctx, table)
	if err != nil {
		return err
	}
	s, err := tbl.Status(ctx)
	if err != nil || s.Total > 0 && s.Done == s.Total && s.Version == s.Latest {
		return err
	}
	return convert.Conversion{Call: r.Call, Table: table, Tenant: ""}.Run(ctx, tbl, command.PartFlag{})
}
