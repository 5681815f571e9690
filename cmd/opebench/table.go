package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/schemafile"
	"github.com/rangecrypt/rangecrypt/store"
)

// newTable returns the command with its subcommands.
func newTable(e *env) *cobra.Command {
	return group("table", "Create, show, change and drop tables", `Table administers the encrypted tables of a store, of whichever program. The schema of a
table is a file in YAML: its name, the parts of the row key and the columns, each with a
type, an encryption and, where it is ordered, a scheme. 'opebench table describe --yaml'
writes the file of a table that is there.

    table: readings
    key:
      - {name: device, type: string, encryption: hashed}
      - {name: time, type: timestamp/ms, encryption: ordered, scheme: mope}
    columns:
      - {name: celsius, type: decimal(1), encryption: ordered, scheme: boldyreva}
      - {name: note, type: string, encryption: randomised}

Keys are never shown.`,
		newTableCreate(e, createTable), newTableList(e, listTables), newTableDescribe(e, describeTable),
		newTableAlter(e, alterTable), newTableRename(e, renameTable), newTableConvert(e, convertTable),
		newTableDrop(e, dropTable))
}

// group returns a command that only holds others.
func group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: there is %s", args[0], strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// args refuses another number of arguments than the names tell; each is something to say in a
// message.
func args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) == len(names) {
			for i, arg := range given {
				if arg == "" {
					return usagef("%s is empty", names[i])
				}
			}
			return nil
		}
		want := "no arguments, only flags"
		if len(names) > 0 {
			want = strings.Join(names, " and ")
		}
		return usagef("%s takes %s; %d arguments are given", cmd.Name(), want, len(given))
	}
}

// notEmpty refuses flags that are given with nothing, as by a script whose variable is not set: a
// command that took them as not given would do something else.
func notEmpty(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if flag := f.Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usagef("--%s is empty", name)
		}
	}
	return nil
}

// withTables calls do with the tables of the store that the options name. With create it makes a
// store where there is none.
func withTables(ctx context.Context, e *env, o keptStore, create bool, do func(st *store.Store) error) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	key, err := readKey(e, o.key)
	if err != nil {
		return err
	}
	db, err := e.openStore(ctx, o.store, create)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	st, err := bench.OpenTables(ctx, db, key, create)
	if err != nil {
		return interrupted(ctx, err)
	}
	return interrupted(ctx, do(st))
}

// confirm asks whether to go on, unless the answer is given by --yes. Where nobody can be asked that
// is needed.
func confirm(ctx context.Context, e *env, yes bool, question string) error {
	if yes {
		return nil
	}
	if e.ask == nil {
		return usagef("%s Say so with --yes where nobody can be asked", question)
	}
	agreed, err := e.ask(ctx, question+" [y/N] ")
	if err != nil {
		return interrupted(ctx, err)
	}
	if !agreed {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

// ask asks a question on the terminal.
func ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(os.Stderr, question)
	type line struct {
		text string
		err  error
	}
	lines := make(chan line, 1) // Ctrl-C ends the waiting, not the reading
	go func() {
		text, err := bufio.NewReader(os.Stdin).ReadString('\n') // a terminal gives one line at a time
		lines <- line{text, err}
	}()
	select {
	case l := <-lines:
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return false, fmt.Errorf("read the answer: %w", l.err)
		}
		switch strings.ToLower(strings.TrimSpace(l.text)) {
		case "y", "yes":
			return true, nil
		}
		return false, nil
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return false, ctx.Err()
	}
}

func bindYes(f *pflag.FlagSet, yes *bool) {
	f.BoolVarP(yes, "yes", "y", false, "do not ask")
}

// readSchema reads the schema in a file, or in the standard input for "-".
func readSchema(file string) (store.Schema, error) {
	// More than 1000 columns with the longest names take.
	const most = 1 << 20
	in := os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return store.Schema{}, fmt.Errorf("read the schema: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return store.Schema{}, fmt.Errorf("read the schema: %w", err)
	}
	if len(data) > most {
		return store.Schema{}, fmt.Errorf("read the schema: %s has more than %d bytes", file, most)
	}
	if file == "-" {
		file = "standard input"
	}
	return schemafile.Parse(file, data)
}

// visible returns a name as it can be printed on a terminal.
func visible(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || name != strings.TrimSpace(name) {
		return quoted
	}
	return name
}

type createTableOptions struct {
	keptStore
	file   string
	dryRun bool
	json   bool
}

func newTableCreate(e *env, runF func(context.Context, *env, *createTableOptions) error) *cobra.Command {
	opts := &createTableOptions{}
	cmd := &cobra.Command{
		Use:   "create FILE",
		Short: "Create a table from a schema file",
		Long: `Create makes the table that FILE describes, or the standard input for -. A store that does
not exist is made. Mistakes in the file are told with their lines, and nothing is made.`,
		Example: `  opebench table create readings.yaml --store pebble:data --key bench.key
  opebench table create readings.yaml --dry-run`,
		Args: args("the file of a schema"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.file = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.dryRun, "dry-run", false, "check the file and show the table, create nothing; needs no store")
	f.BoolVar(&opts.json, "json", false, "print the table as a line of JSON")
	return cmd
}

func createTable(ctx context.Context, e *env, opts *createTableOptions) error {
	if !opts.dryRun {
		if err := opts.check(); err != nil {
			return err
		}
	}
	s, err := readSchema(opts.file)
	if err != nil {
		return err
	}
	for _, c := range s.Columns {
		if warning := sharing(c); warning != "" {
			fmt.Fprintln(e.stderr, "opebench: warning: "+warning)
		}
	}
	if opts.dryRun {
		return printTable(e, tableJSON{Record: "table", Schema: newSchemaJSON(s)}, opts.json)
	}
	return withTables(ctx, e, opts.keptStore, true, func(st *store.Store) error {
		tbl, err := st.Create(ctx, s)
		if err != nil {
			return err
		}
		if opts.json {
			return printTable(e, tableJSON{Record: "created", Store: shown(opts.store), Schema: newSchemaJSON(tbl.Schema())}, true)
		}
		_, err = fmt.Fprintf(e.stdout, "table %s was created\n", visible(s.Name))
		return err
	})
}

type listTablesOptions struct {
	keptStore
	json bool
}

func newTableList(e *env, runF func(context.Context, *env, *listTablesOptions) error) *cobra.Command {
	opts := &listTablesOptions{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tables of a store",
		Long:    "List prints the tables of a store with the parts of their row keys and their columns.",
		Example: "  opebench table list --store pebble:data --key bench.key",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), e, opts) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.json, "json", false, "print a line of JSON for each table")
	return cmd
}

func listTables(ctx context.Context, e *env, opts *listTablesOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		schemas, err := st.Tables(ctx)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, s := range schemas {
			if opts.json {
				if err := printTable(e, tableJSON{Record: "table", Store: shown(opts.store), Schema: newSchemaJSON(s)}, true); err != nil {
					return err
				}
				continue
			}
			var parts []string
			for _, p := range s.Key {
				parts = append(parts, visible(p.Name()))
			}
			rows = append(rows, []string{visible(s.Name), strings.Join(parts, ", "), strconv.Itoa(len(s.Columns))})
		}
		if opts.json {
			return nil
		}
		_, err = io.WriteString(e.stdout, report.Rows([]string{"TABLE", "KEY", "COLUMNS"}, rows, []int{2}, e.style()))
		return err
	})
}

type describeTableOptions struct {
	keptStore
	name              string
	yaml, json, count bool
}

func newTableDescribe(e *env, runF func(context.Context, *env, *describeTableOptions) error) *cobra.Command {
	opts := &describeTableOptions{}
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show how a table is stored",
		Long: `Describe prints the parts of the row key and the columns of a table with their types and
encryptions, the names that the database sees, and the ids of keys, as cells carry them.
It never prints a key or a value.`,
		Example: `  opebench table describe readings --store pebble:data --key bench.key
  opebench table describe readings --yaml --store pebble:data --key bench.key > r.yaml`,
		Args: args("the name of a table"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.name = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.yaml, "yaml", false, "print the file that 'table create' reads")
	f.BoolVar(&opts.json, "json", false, "print a line of JSON")
	f.BoolVar(&opts.count, "count", false, "count the rows, which reads them all")
	return cmd
}

func describeTable(ctx context.Context, e *env, opts *describeTableOptions) error {
	if opts.yaml && (opts.json || opts.count) {
		return usagef("--yaml prints a schema file: give neither --json nor --count with it")
	}
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		tbl, err := st.Table(ctx, opts.name)
		if err != nil {
			return err
		}
		if opts.yaml {
			_, err := e.stdout.Write(schemafile.Format(tbl.Schema()))
			return err
		}
		d, err := tbl.Describe(ctx)
		if err != nil {
			return err
		}
		shownTable := described(d)
		shownTable.Store = shown(opts.store)
		if opts.count {
			n, err := countAll(ctx, e, st, tbl)
			if err != nil {
				return err
			}
			shownTable.Rows = &n
		}
		return printTable(e, shownTable, opts.json)
	})
}

// countAll counts the rows of a table, those of all tenants where it has some.
func countAll(ctx context.Context, e *env, st *store.Store, tbl *store.Table) (rows int, err error) {
	if !tbl.Schema().Tenants {
		return countRows(ctx, e, tbl)
	}
	names, err := st.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		bound, err := tbl.Tenant(ctx, name)
		if errors.Is(err, store.ErrNoTenant) {
			continue // it was dropped meanwhile
		}
		if err != nil {
			return rows, err
		}
		n, err := countRows(ctx, e, bound)
		if rows += n; err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// countRows reads all rows of a table, without their columns.
func countRows(ctx context.Context, e *env, tbl *store.Table) (n int, err error) {
	bar := newProgress(e)
	if bar != nil {
		bar.Start("counting", -1)
		defer bar.Done()
	}
	shownAt := time.Now()
	added := 0
	for _, err := range tbl.Query(ctx, store.Query{Columns: []string{}}) {
		if err != nil {
			return n, err
		}
		n++
		if bar != nil && time.Since(shownAt) > 100*time.Millisecond {
			bar.Add(n - added)
			added, shownAt = n, time.Now()
		}
	}
	return n, nil
}

// tableJSON is a table as it is printed.
type tableJSON struct {
	Record string     `json:"record"`
	Store  string     `json:"store,omitempty"`
	Schema schemaJSON `json:"schema"`
	Rows   *int       `json:"rows,omitempty"`

	// Of a table that is there, as the database and the catalogue know it.
	ID       string   `json:"id,omitempty"`
	Version  uint32   `json:"version,omitempty"`
	Families []string `json:"families,omitempty"`
	RowKeys  []string `json:"row_keys,omitempty"` // ids, that for new rows first
}

// described returns what is printed of a description.
func described(d store.Description) tableJSON {
	fields := func(from []store.FieldDescription) []fieldJSON {
		to := []fieldJSON{}
		for _, d := range from {
			f := fieldJSON{
				Name: d.Name, Type: d.Type, Encryption: d.Encryption, Scheme: d.Scheme, Confidentiality: d.Confidentiality,
				ID: d.ID, Since: d.Since, Sharers: d.SharedWith, SearchKey: d.SearchKey, CellKeys: d.CellKeys,
			}
			for _, former := range d.Former {
				f.Unconverted = f.Unconverted || !former.Converted
			}
			var sharers []string
			for _, name := range d.SharedWith {
				sharers = append(sharers, visible(name))
			}
			f.keyOf = strings.Join(sharers, ", ")
			to = append(to, f)
		}
		return to
	}
	spread := d.SpreadBits
	if spread == 0 {
		spread = -1 // as in schemas
	}
	return tableJSON{
		Record: "table", ID: d.ID, Version: d.Version, Families: d.Families, RowKeys: d.RowKeys,
		Schema: schemaJSON{
			Table: d.Name, Layout: d.Layout.String(), SpreadBits: spread, Conditional: d.Conditional, Tenants: d.Tenants,
			Key: fields(d.Key), Columns: fields(d.Columns),
		},
	}
}

type schemaJSON struct {
	Table       string      `json:"table"`
	Layout      string      `json:"layout"`
	SpreadBits  int         `json:"spread_bits"`
	Conditional bool        `json:"conditional,omitempty"`
	Tenants     bool        `json:"tenants,omitempty"`
	Key         []fieldJSON `json:"key"`
	Columns     []fieldJSON `json:"columns"`
}

type fieldJSON struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Encryption string `json:"encryption"`
	Scheme     string `json:"scheme,omitempty"`

	// Of columns whose search key others have, too.
	SharedWith      *columnJSON `json:"shared_with,omitempty"`
	Confidentiality string      `json:"confidentiality,omitempty"`

	// Of a table that is there. Keys are shown by their ids, that for new cells first.
	ID          string   `json:"id,omitempty"`
	Since       uint32   `json:"since,omitempty"`
	Sharers     []string `json:"sharers,omitempty"`
	SearchKey   string   `json:"search_key,omitempty"`
	CellKeys    []string `json:"cell_keys,omitempty"`
	Unconverted bool     `json:"unconverted,omitempty"` // rows may have values of an earlier encryption

	keyOf string // in words
}

type columnJSON struct {
	Table  string `json:"table"`
	Column string `json:"column"`
}

func newSchemaJSON(s store.Schema) schemaJSON {
	j := schemaJSON{
		Table: s.Name, Layout: s.Layout.String(), SpreadBits: s.SpreadBits, Conditional: s.Conditional, Tenants: s.Tenants,
		Key: []fieldJSON{}, Columns: []fieldJSON{},
	}
	for _, p := range s.Key {
		j.Key = append(j.Key, fieldJSON{Name: p.Name(), Type: p.Type().String(), Encryption: p.Encryption(), Scheme: p.Scheme()})
	}
	for _, c := range s.Columns {
		f := fieldJSON{Name: c.Name(), Type: c.Type().String(), Encryption: c.Encryption(), Scheme: c.Scheme(), keyOf: sharedWith(c)}
		if table, column, shares := c.Shared(); shares {
			f.SharedWith = &columnJSON{table, column}
		}
		if c.IsDatabaseWide() {
			f.Confidentiality = "database"
		}
		j.Columns = append(j.Columns, f)
	}
	return j
}

func printTable(e *env, t tableJSON, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(e.stdout).Encode(t)
	}
	s := t.Schema
	line := fmt.Sprintf("table %s: %s", visible(s.Table), s.Layout)
	if s.Conditional {
		line += ", conditional"
	}
	if s.Tenants {
		line += ", with tenants"
	}
	if t.Rows != nil {
		line += fmt.Sprintf(", %d rows", *t.Rows)
	}
	if t.ID != "" {
		line += fmt.Sprintf(", as of version %d of the catalogue", t.Version)
	}
	text := report.Line(line, e.style())
	if t.ID != "" {
		text += report.Line("in the database: "+strings.Join(t.Families, ", "), e.style())
	}
	keys := [][]string{}
	add := func(name, use string, ids ...string) {
		for i, id := range ids {
			if i > 0 {
				use = "earlier cells"
			}
			keys = append(keys, []string{name, use, id})
		}
	}
	add("(rows)", "new cells", t.RowKeys...)
	var rows [][]string
	for i, f := range slices.Concat(s.Key, s.Columns) {
		part := "column"
		if i < len(s.Key) {
			part = fmt.Sprintf("key %d", i+1)
		}
		note := ""
		if f.Unconverted {
			note = "to be converted"
		}
		name := visible(f.Name)
		rows = append(rows, []string{name, part, f.Type, f.Encryption, f.Scheme, f.keyOf, f.ID, note})
		if f.SearchKey != "" {
			add(name, "search", f.SearchKey)
		}
		add(name, "new cells", f.CellKeys...)
	}
	text += report.Rows([]string{"NAME", "PART", "TYPE", "ENCRYPTION", "SCHEME", "KEY SHARED WITH", "ID", "ROWS"}, rows, nil, e.style())
	if len(keys) > 0 {
		text += report.Rows([]string{"KEY OF", "FOR", "ID"}, keys, nil, e.style())
	}
	_, err := io.WriteString(e.stdout, text)
	return err
}

type dropTableOptions struct {
	keptStore
	name string
	yes  bool
}

func newTableDrop(e *env, runF func(context.Context, *env, *dropTableOptions) error) *cobra.Command {
	opts := &dropTableOptions{}
	cmd := &cobra.Command{
		Use:   "drop NAME",
		Short: "Drop a table with all its rows",
		Long: `Drop removes a table with all its rows and indexes. Nothing brings them back but a backup
of the whole store. Clients that use the table get errors from then on.`,
		Example: "  opebench table drop readings --store pebble:data --key bench.key",
		Args:    args("the name of a table"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.name = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	bindYes(f, &opts.yes)
	return cmd
}

func dropTable(ctx context.Context, e *env, opts *dropTableOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		// One that does not exist is told before anybody is asked.
		if _, err := st.Table(ctx, opts.name); err != nil {
			return err
		}
		if err := confirm(ctx, e, opts.yes, fmt.Sprintf("Drop table %s with all its rows? Nothing brings them back.", visible(opts.name))); err != nil {
			return err
		}
		if err := st.Drop(ctx, opts.name); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.stdout, "table %s was dropped\n", visible(opts.name))
		return err
	})
}
