package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// newKeys returns the command with its subcommands.
func newKeys(e *env) *cobra.Command {
	return group("keys", "Make, list, rotate and check keys", `Keys makes master keys, and administers the keys of a store: the master key wraps the
database key, which is kept in the store, and that wraps the keys of tables and columns.
They are told by their ids. A key itself is never shown, but for a new one by generate.`,
		newKeysGenerate(e, generateKey), newKeysList(e, listKeys), newKeysRotate(e, rotateKeys), newKeysVerify(e, verifyKeys))
}

// openKeptStore opens a store that is there, for do.
func openKeptStore(ctx context.Context, e *env, kept keptStore, do func(db driver.DB, st *store.Store) error) (err error) {
	if err := kept.check(); err != nil {
		return err
	}
	key, err := readKey(e, kept.key)
	if err != nil {
		return err
	}
	db, err := e.openStore(ctx, kept.store, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	st, err := bench.OpenTables(ctx, db, key, false)
	if err == nil {
		err = do(db, st)
	}
	return interrupted(ctx, err)
}

type listKeysOptions struct {
	keptStore
	json bool
}

func newKeysList(e *env, runF func(context.Context, *env, *listKeysOptions) error) *cobra.Command {
	opts := &listKeysOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the ids of a store's keys",
		Long: `List prints the ids of the database key and of the keys of tenants, tables and columns.
Of the keys of cells, the first seals what is written from now on, and all open what is
there. Tables with tenants have no keys of their own.`,
		Example: "  opebench keys list --store pebble:data --key bench.key",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), e, opts) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	return cmd
}

func listKeys(ctx context.Context, e *env, opts *listKeysOptions) error {
	return openKeptStore(ctx, e, opts.keptStore, func(_ driver.DB, st *store.Store) error {
		d, err := st.Describe(ctx)
		if err != nil {
			return err
		}
		for _, k := range keysOf(d) {
			if opts.json {
				err = json.NewEncoder(e.stdout).Encode(k)
			} else {
				_, err = fmt.Fprintf(e.stdout, "%s: %s\n", k.name(), strings.Join(k.IDs, " "))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
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
		return fmt.Sprintf("tenant %s, %s", visible(k.Tenant), k.Purpose)
	case k.Table == "":
		return k.Purpose
	case k.Column == "":
		return fmt.Sprintf("%s, %s", visible(k.Table), k.Purpose)
	}
	return fmt.Sprintf("%s, %q, %s", visible(k.Table), k.Column, k.Purpose)
}

// keysOf returns the keys of a store in the order of their hierarchy.
func keysOf(d store.DatabaseDescription) []keysJSON {
	all := []keysJSON{{Record: "keys", Purpose: "database", IDs: []string{d.Key}}}
	for _, t := range d.Tenants {
		all = append(all, keysJSON{Record: "keys", Tenant: t.Name, Purpose: "all", IDs: t.Keys})
	}
	for _, t := range d.Tables {
		if len(t.RowKeys) > 0 {
			all = append(all, keysJSON{Record: "keys", Table: t.Name, Purpose: "row", IDs: t.RowKeys})
		}
		var add func(name string, f store.FieldDescription)
		add = func(name string, f store.FieldDescription) {
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
func checkShared(d store.DatabaseDescription) error {
	keys := make(map[string]string)
	for _, t := range d.Tables {
		for _, c := range t.Columns {
			keys[t.Name+"."+c.Name] = c.SearchKey
		}
	}
	for _, t := range d.Tables {
		for _, c := range t.Columns {
			for _, other := range c.SharedWith {
				if keys[other] != c.SearchKey {
					return fmt.Errorf("%w: %s and %s share a key, and have not the same", bench.ErrWrongAnswer, visible(t.Name+"."+c.Name), visible(other))
				}
			}
		}
	}
	return nil
}

type verifyKeysOptions struct {
	keptStore
	deep, json bool
}

func newKeysVerify(e *env, runF func(context.Context, *env, *verifyKeysOptions) error) *cobra.Command {
	opts := &verifyKeysOptions{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that a master key opens a store, with all keys in it",
		Long: `Verify opens the store with the master key, unwraps every key in it, and changes nothing.
After a rotation of the master key that was interrupted it tells which key is in force.

With --deep it also reads all rows, and counts the cells that each key sealed: an earlier
key of 0 cells is not needed any more to read what is there.`,
		Example: `  opebench keys verify --store pebble:data --key bench.key
  opebench keys verify --store pebble:data --key bench.key --deep`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), e, opts) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.deep, "deep", false, "count the cells of each key, which reads all rows")
	f.BoolVar(&opts.json, "json", false, "print lines of JSON")
	return cmd
}

func verifyKeys(ctx context.Context, e *env, opts *verifyKeysOptions) error {
	return openKeptStore(ctx, e, opts.keptStore, func(_ driver.DB, st *store.Store) error {
		d, err := st.Describe(ctx)
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
		if opts.json {
			err = json.NewEncoder(e.stdout).Encode(struct {
				Record string `json:"record"`
				Store  string `json:"store"`
				Keys   int    `json:"keys"`
			}{"keys-verify", shown(opts.store), n})
		} else {
			_, err = fmt.Fprintf(e.stdout, "the master key opens the store; %d keys are sound\n", n)
		}
		if err != nil || !opts.deep {
			return err
		}
		unknown := 0
		for _, t := range d.Tables {
			n, err := countKeys(ctx, e, opts, st, t.Name)
			if err != nil {
				return err
			}
			unknown += n
		}
		if unknown > 0 {
			return fmt.Errorf("%w: no key of the store opens %d cells; 'opebench verify' tells where they are", bench.ErrWrongAnswer, unknown)
		}
		return nil
	})
}

// countKeys prints how many cells of a table each key sealed, and returns how many none of them did.
func countKeys(ctx context.Context, e *env, opts *verifyKeysOptions, st *store.Store, table string) (unknown int, err error) {
	tbl, err := st.Table(ctx, table)
	if err != nil {
		return 0, err
	}
	bar := newProgress(e)
	if bar != nil {
		bar.Start(visible(table)+": rows", -1)
		defer bar.Done()
	}
	last := 0
	use, err := tbl.KeyUse(ctx, func(rows int) {
		if bar != nil {
			bar.Add(rows - last)
			last = rows
		}
	})
	if err != nil {
		return 0, err
	}
	if opts.json {
		type key struct {
			Tenant string `json:"tenant,omitempty"`
			Column string `json:"column,omitempty"`
			ID     string `json:"id"`
			Newest bool   `json:"newest"`
			Cells  int    `json:"cells"`
		}
		keys := []key{}
		for _, k := range use.Keys {
			keys = append(keys, key(k))
		}
		return use.Unknown, json.NewEncoder(e.stdout).Encode(struct {
			Record  string `json:"record"`
			Store   string `json:"store"`
			Table   string `json:"table"`
			Keys    []key  `json:"keys"`
			Plain   int    `json:"plain"`
			Orphans int    `json:"orphans,omitempty"`
			Dropped int    `json:"dropped"`
			Unknown int    `json:"unknown"`
		}{"key-use", shown(opts.store), table, keys, use.Plain, use.Orphans, use.Dropped, use.Unknown})
	}
	var rows [][]string
	for _, k := range use.Keys {
		name, which := "(rows)", "earlier cells"
		if k.Column != "" {
			name = visible(k.Column)
		}
		if k.Newest {
			which = "new cells"
		}
		if k.Tenant != "" {
			name = visible(k.Tenant) + ": " + name
		}
		rows = append(rows, []string{name, which, k.ID, strconv.Itoa(k.Cells)})
	}
	for _, rest := range []struct {
		what  string
		cells int
	}{{"not sealed", use.Plain}, {"of dropped tenants", use.Orphans}, {"of dropped columns", use.Dropped}, {"of no known key", use.Unknown}} {
		if rest.cells > 0 {
			rows = append(rows, []string{"", rest.what, "", strconv.Itoa(rest.cells)})
		}
	}
	text := report.Line("table "+visible(table)+":", e.style()) +
		report.Rows([]string{"KEY OF", "FOR", "ID", "CELLS"}, rows, []int{3}, e.style())
	_, err = io.WriteString(e.stdout, text)
	return use.Unknown, err
}

type rotateOptions struct {
	keptStore
	to      string
	table   string
	columns []string
	json    bool
}

func newKeysRotate(e *env, runF func(context.Context, *env, *rotateOptions) error) *cobra.Command {
	opts := &rotateOptions{}
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the master key, or the keys of a table's cells",
		Long: `Rotate --to replaces the master key: the database key is wrapped under the new one. No
data is touched. Keep the old key until 'keys verify' accepts the new one.

Rotate --table gives a table new keys for its cells. What is written from now on is
sealed with them; what is there stays readable with the old ones, which are kept.`,
		Example: `  opebench keys rotate --store pebble:data --key old.key --to new.key
  opebench keys rotate --store pebble:data --key bench.key --table readings --column note`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), e, opts) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.StringVar(&opts.to, "to", "", "`source` of the new master key, as of --key")
	f.StringVar(&opts.table, "table", "", "`name` of the table that gets new keys for its cells")
	f.StringArrayVar(&opts.columns, "column", nil, "`name` of a column of it, repeatable (default all)")
	f.BoolVar(&opts.json, "json", false, "print the result as a line of JSON")
	return cmd
}

func rotateKeys(ctx context.Context, e *env, opts *rotateOptions) error {
	switch {
	case (opts.to == "") == (opts.table == ""):
		return usagef("say what is rotated: the master key, with --to, or the keys of a table's cells, with --table")
	case opts.to != "" && len(opts.columns) > 0:
		return usagef("--column is about a table: name it with --table")
	}
	done := "table " + opts.table + " has new keys for its cells; old ones are kept to read what they sealed"
	rotate := func(_ driver.DB, st *store.Store) error {
		err := st.RotateKeys(ctx, opts.table, opts.columns...)
		if errors.Is(err, store.ErrTenant) {
			err = fmt.Errorf("%w: 'opebench tenant rotate NAME' does it", err)
		}
		return err
	}
	if opts.to != "" {
		if err := checkKey("--to", opts.to); err != nil {
			return err
		}
		to, err := readKey(e, opts.to)
		if err != nil {
			return err
		}
		done = "the store is opened with the new master key from now on"
		rotate = func(db driver.DB, st *store.Store) error { return rotateMaster(ctx, db, st, to) }
	}
	if err := openKeptStore(ctx, e, opts.keptStore, rotate); err != nil {
		return err
	}
	if opts.json {
		return json.NewEncoder(e.stdout).Encode(struct {
			Record  string   `json:"record"`
			Store   string   `json:"store"`
			Table   string   `json:"table,omitempty"`
			Columns []string `json:"columns,omitempty"`
		}{"keys-rotate", shown(opts.store), opts.table, opts.columns})
	}
	_, err := fmt.Fprintln(e.stdout, done)
	return err
}

// rotateMaster rotates and, where that fails, says which key is in force.
func rotateMaster(ctx context.Context, db driver.DB, st *store.Store, to store.KMS) error {
	err := st.RotateMaster(ctx, to)
	if err == nil || !errors.Is(err, driver.ErrUnknownOutcome) && !errors.Is(err, driver.ErrUnavailable) {
		return err // before anything was written
	}
	switch _, now := store.OpenKMS(ctx, db, to, nil); {
	case now == nil:
		return nil
	case errors.Is(now, store.ErrWrongKey):
		return fmt.Errorf("the old key is still in force: %w", err)
	}
	return fmt.Errorf("it is not known which key is in force; keep both, and ask 'opebench keys verify': %w", err)
}

type generateOptions struct {
	file string // "" is stdout
}

func newKeysGenerate(e *env, runF func(*env, *generateOptions) error) *cobra.Command {
	return &cobra.Command{
		Use:   "generate [FILE]",
		Short: "Make a master key",
		Long: `Generate writes a new random key of 32 bytes, in hexadecimal, to FILE, which only its
owner may read, or to the standard output. It never overwrites a file: without its
key, a store cannot be read by anyone. Keep a copy of it elsewhere.`,
		Example: "  opebench keys generate bench.key",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("generate takes one file, %d are given", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			opts := &generateOptions{}
			if len(args) == 1 {
				opts.file = args[0]
			}
			return runF(e, opts)
		},
	}
}

func generateKey(e *env, opts *generateOptions) error {
	key := ope.GenerateKey()
	if opts.file == "" {
		_, err := fmt.Fprint(e.stdout, kms.Encode(key))
		return err
	}
	return kms.WriteFile(opts.file, key)
}
