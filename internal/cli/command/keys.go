// Package command has the commands that both programs have, and what more than one command takes.
package command

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// NewKeys returns the command that makes master keys and administers the keys of a store.
func NewKeys(e *cli.Env) *cobra.Command {
	return cli.Group("keys", "Make, list, rotate and check keys", `Keys makes master keys, and administers the keys of a store. The master key wraps the
database key, which is kept in the store. That one wraps the keys of tables and columns.
Commands name keys by their ids. They never show a key, but for a new one by generate.`,
		newGenerate(e), newKeysList(e), newKeysRotate(e), newKeysVerify(e))
}

// NewKeysOfLab returns the command that only makes master keys.
func NewKeysOfLab(e *cli.Env) *cobra.Command {
	keys := cli.Group("keys", "Make master keys", `Keys makes the master keys that other commands take. 'rangecrypt keys' lists, rotates and
checks the keys of a store.`, newGenerate(e))
	// The others are those of rangecrypt, with which flags they may come.
	f, unknown := keys.Flags(), keys.Args
	new(cli.Kept).Bind(f)
	f.VisitAll(func(flag *pflag.Flag) { flag.Hidden = true })
	keys.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains([]string{"list", "rotate", "verify"}, args[0]) {
			return exit.Usagef("opebench only makes keys: %s is a command of 'rangecrypt keys'", args[0])
		}
		return unknown(cmd, args)
	}
	return keys
}

func newKeysList(e *cli.Env) *cobra.Command {
	return cli.Command{
		Use:   "list",
		Short: "List the ids of a store's keys",
		Long: `List prints the ids of the database key and of the keys of tenants, tables and columns.
Of the keys of cells, the first seals what is written from now on, and all open what is
there. Tables with tenants have no keys of their own.`,
		Example: "  rangecrypt keys list --store pebble:data --key app.key",
		JSON:    "print JSON lines",
		Run: func(ctx context.Context, c *cli.Call) error {
			d, err := c.Store.Describe(ctx)
			if err != nil {
				return err
			}
			for _, k := range keysOf(d) {
				if err := c.Result(k, k.name()+": "+strings.Join(k.IDs, " ")); err != nil {
					return err
				}
			}
			return nil
		},
	}.New(e)
}

// keysJSON are the keys of one purpose, by their ids, the newest first.
type keysJSON struct {
	Record  string   `json:"record"`
	Table   string   `json:"table,omitempty"`
	Tenant  string   `json:"tenant,omitempty"`
	Column  string   `json:"column,omitempty"` // or part of the row key
	Purpose string   `json:"purpose"`
	IDs     []string `json:"ids"`
}

// name says whose keys these are.
func (k keysJSON) name() string {
	switch {
	case k.Tenant != "":
		return fmt.Sprintf("tenant %s, %s", show.Visible(k.Tenant), k.Purpose)
	case k.Table == "":
		return k.Purpose
	case k.Column == "":
		return fmt.Sprintf("%s, %s", show.Visible(k.Table), k.Purpose)
	}
	return fmt.Sprintf("%s, %q, %s", show.Visible(k.Table), k.Column, k.Purpose)
}

// keysOf returns the keys of a store in the order of their hierarchy.
func keysOf(d inspect.Database) []keysJSON {
	all := []keysJSON{{Record: "keys", Purpose: "database", IDs: []string{d.Key}}}
	for _, t := range d.Tenants {
		all = append(all, keysJSON{Record: "keys", Tenant: t.Name, Purpose: "all", IDs: t.Keys})
	}
	for _, t := range d.Tables {
		if len(t.RowKeys) > 0 {
			all = append(all, keysJSON{Record: "keys", Table: t.Name, Purpose: "row", IDs: t.RowKeys})
		}
		var add func(name string, f inspect.Field)
		add = func(name string, f inspect.Field) {
			if f.SearchKey != "" {
				all = append(all, keysJSON{Record: "keys", Table: t.Name, Column: name, Purpose: "search", IDs: []string{f.SearchKey}})
			}
			if len(f.CellKeys) > 0 {
				all = append(all, keysJSON{Record: "keys", Table: t.Name, Column: name, Purpose: "cell", IDs: f.CellKeys})
			}
			for _, former := range f.Former {
				add(name, former)
			}
		}
		for _, f := range slices.Concat(t.Key, t.Columns) {
			add(f.Name, f)
		}
	}
	return all
}

// checkShared returns an error unless columns that share a key have it.
func checkShared(d inspect.Database) error {
	keys := make(map[string][]string) // of columns by their names, which several may have, as those of a.b, c and of a, b.c
	for _, t := range d.Tables {
		for _, c := range t.Columns {
			keys[t.Name+"."+c.Name] = append(keys[t.Name+"."+c.Name], c.SearchKey)
		}
	}
	for _, t := range d.Tables {
		for _, c := range t.Columns {
			for _, other := range c.SharedWith {
				if !slices.Contains(keys[other], c.SearchKey) {
					return fmt.Errorf("%w: %s and %s share a key, and have not the same", exit.ErrWrongAnswer, show.Visible(t.Name+"."+c.Name), show.Visible(other))
				}
			}
		}
	}
	return nil
}

func newKeysVerify(e *cli.Env) *cobra.Command {
	var deep bool
	return cli.Command{
		Use:   "verify",
		Short: "Check that a master key opens a store, with all keys in it",
		Long: `Verify opens the store with the master key, unwraps every key in it, and changes nothing.
After an interrupted rotation of the master key it finds out which key is in force.

With --deep it also reads all rows, index entries and indexes. It counts the cells that
each key sealed, and what is found by each search key: index entries, rows where it is one
of the row key, and records of the index that a scheme keeps. It counts what the catalogue
has about a table under the database key, too. An earlier key of 0 is not needed any more
to read what is there. Of a table whose rows share pages it opens all pages, and counts
those under earlier keys. Of tables that an application keeps itself (package store/cell)
it has the keys, and nothing to count.`,
		Example: `  rangecrypt keys verify --store pebble:data --key app.key
  rangecrypt keys verify --store pebble:data --key app.key --deep`,
		JSON: "print lines of JSON",
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&deep, "deep", false, "count what is under each key, which reads all rows")
		},
		Run: func(ctx context.Context, c *cli.Call) error { return verifyKeys(ctx, c, deep) },
	}.New(e)
}

func verifyKeys(ctx context.Context, c *cli.Call, deep bool) error {
	d, err := c.Store.Describe(ctx)
	if err == nil {
		err = checkShared(d)
	}
	if err != nil {
		return err
	}
	n := 0
	for _, k := range keysOf(d) {
		n += len(k.IDs)
	}
	err = c.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Keys   int    `json:"keys"`
	}{"keys-verify", c.ShownStore(), n}, fmt.Sprintf("the master key opens the store; %s %s sound", show.Counted(n, "key"), show.Verb(n, "is", "are")))
	if err != nil || !deep {
		return err
	}
	unknown := 0
	for _, t := range d.Tables {
		if t.Layout == inspect.Elsewhere {
			continue // the application has the cells
		}
		n, err := countTable(ctx, c, t, d.Key)
		if err != nil && !errors.Is(err, store.ErrNoTable) { // of one that was dropped since
			return err
		}
		unknown += n
	}
	if unknown > 0 {
		return fmt.Errorf("%w: no key of the store opens %s; 'rangecrypt verify' finds where they are", exit.ErrWrongAnswer, show.Counted(unknown, "cell"))
	}
	return nil
}

type rotation struct {
	to      string
	table   string
	columns []string
	search  bool
}

func newKeysRotate(e *cli.Env) *cobra.Command {
	var r rotation
	return cli.Command{
		Use:   "rotate",
		Short: "Replace the master key, or the keys of a table's cells",
		Long: `Rotate --to replaces the master key: the database key is wrapped under the new one. No
data is touched. Keep the old key until 'keys verify' accepts the new one, and as long as
there are backups from before: only the old key opens these. A program that opens the store
already wraps the database key again.

Rotate --table gives a table new keys for its cells. What is written from now on is
sealed with them. What is there stays readable with the old ones, which are kept.

With --search as well, the columns that --column names get new search keys instead: those
of the ciphertexts and tokens that values are found by. Queries go on by the old and the
new ones. 'rangecrypt table convert' stores all rows under the new ones.`,
		Example: `  rangecrypt keys rotate --store pebble:data --key old.key --to new.key
  rangecrypt keys rotate --store pebble:data --key app.key --table readings --column note
  rangecrypt keys rotate --store pebble:data --key app.key --table log --column at --search`,
		JSON: cli.OneLine,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&r.to, "to", "", "`source` of the new master key, as of --key")
			f.StringVar(&r.table, "table", "", "`name` of the table that gets new keys for its cells")
			f.StringArrayVar(&r.columns, "column", nil, "`name` of a column of it, repeatable (default all)")
			f.BoolVar(&r.search, "search", false, "replace the search keys of these columns, and not the keys of cells")
			cli.OfferColumns(f, "column")
		},
		Check: func(c *cli.Call) error { return r.check(c) },
		Run:   func(ctx context.Context, c *cli.Call) error { return r.run(ctx, c) },
	}.New(e)
}

func (r rotation) check(*cli.Call) error {
	switch {
	case (r.to == "") == (r.table == ""):
		return exit.Usagef("say what is rotated: the master key, with --to, or the keys of a table's cells, with --table")
	case r.to != "" && len(r.columns) > 0:
		return exit.Usagef("--column is about a table: name it with --table")
	case r.to != "" && r.search:
		return exit.Usagef("--search is about columns of a table: name it with --table, and them with --column")
	case r.search && len(r.columns) == 0:
		return exit.Usagef("--search needs --column: name the columns that get new search keys")
	case r.to != "":
		return cli.CheckKey("--to", r.to)
	}
	return nil
}

func (r rotation) run(ctx context.Context, c *cli.Call) error {
	done := "the store is opened with the new master key from now on"
	if r.to != "" {
		to, err := c.ReadNewKey(ctx, r.to)
		if err != nil {
			return err
		}
		if err := RotateMaster(ctx, c, to); err != nil {
			return err
		}
	} else if r.search {
		done = "columns of table " + r.table + " have new search keys; 'rangecrypt table convert' stores its rows under them"
		err := c.Store.RotateSearchKeys(ctx, r.table, r.columns...)
		if errors.Is(err, store.ErrTenant) {
			err = fmt.Errorf("%w: 'rangecrypt rekey --into STORE' copies all tables into another store, under others", err)
		}
		if err != nil {
			return knownTable(err)
		}
	} else {
		done = "table " + r.table + " has new keys for its cells; old ones are kept to read what they sealed"
		err := c.Store.RotateKeys(ctx, r.table, r.columns...)
		if errors.Is(err, store.ErrTenant) {
			err = fmt.Errorf("%w: 'rangecrypt tenant rotate NAME' does it", err)
		}
		if err != nil {
			return knownTable(err)
		}
	}
	return c.Result(struct {
		Record  string   `json:"record"`
		Store   string   `json:"store"`
		Table   string   `json:"table,omitempty"`
		Columns []string `json:"columns,omitempty"`
		Search  bool     `json:"search,omitempty"`
	}{"keys-rotate", c.ShownStore(), r.table, r.columns, r.search}, done)
}

func knownTable(err error) error {
	if errors.Is(err, store.ErrNoTable) {
		return fmt.Errorf("%w; 'rangecrypt table list' shows those that there are", err)
	}
	return err
}

// CheckNew returns an error if a key that is to be the new master key of the call's store opens it already, and otherwise whether it does:
// a program may, since its service may have a newer master key than the one that it finds.
func CheckNew(ctx context.Context, c *cli.Call, to kms.KMS) (same bool, err error) {
	_, again := to.(*kms.Program)
	_, closed := store.Open(ctx, c.DB, to, nil)
	if closed == nil && !again {
		return true, exit.Usagef("the store is opened with the key of --to already: name a new one, which 'rangecrypt keys generate' makes")
	}
	return closed == nil, nil
}

// RotateMaster rotates the master key of the call's store and, where that fails, says which key is in force.
func RotateMaster(ctx context.Context, c *cli.Call, to kms.KMS) error {
	same, err := CheckNew(ctx, c, to)
	if err != nil {
		return err
	}
	err = c.Store.RotateMaster(ctx, to)
	if errors.Is(err, store.ErrWrongKey) {
		return fmt.Errorf("%w any more: another client has rotated the master key", exit.ErrKey)
	}
	if err == nil || same || !errors.Is(err, driver.ErrUnknownOutcome) && !errors.Is(err, driver.ErrUnavailable) {
		return err // before anything was written, or one key opens what is written in either case
	}
	const patience = 5 * time.Second
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // also if ctx is done
	defer cancel()
	known := "it is not known which key is in force; keep both, and ask 'rangecrypt keys verify'"
	switch _, now := store.Open(asked, c.DB, to, nil); {
	case now == nil:
		return nil
	case errors.Is(now, store.ErrWrongKey) && errors.Is(err, driver.ErrUnknownOutcome):
		known = "the old key is in force, and the new one may yet be; keep both, and ask 'rangecrypt keys verify' in some seconds"
	case errors.Is(now, store.ErrWrongKey):
		known = "the old key is still in force"
	}
	if ctx.Err() != nil {
		return exit.Interruption(known)
	}
	return fmt.Errorf("%s: %w", known, err)
}

// keyOnly matches the text of a key file, and what is longer.
var keyOnly = regexp.MustCompile(`^[0-9a-fA-F]{64,}$`)

func newGenerate(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate [FILE]",
		Short: "Make a master key",
		Long: `Generate writes a new random key of 32 bytes, in hexadecimal, to FILE, which only its
owner may read, or to the standard output. It never overwrites a file: without its
key, a store cannot be read by anyone. Keep a copy of it elsewhere. It writes none into
the folder of an embedded store, which removes files there.`,
		Example: "  PROGRAM keys generate app.key",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("generate takes one file, %d are given", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			key := ope.GenerateKey()
			switch {
			case len(args) == 0:
				return e.Print(kms.Encode(key))
			case args[0] == "-":
				return exit.Usagef("generate takes the name of a file, and - is none; without a file it prints the key, and ./- is a file of that name")
			case keyOnly.MatchString(args[0]):
				return exit.Usagef("generate takes the name of a file, and this looks like a key, which is not shown")
			}
			return kms.WriteFile(args[0], key)
		},
	}
	cli.WritesArguments(cmd)
	return cmd
}
