// Package tables has the commands that make, show, change and drop tables.
package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/rows"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// New returns the command with its subcommands.
func New(e *cli.Env) *cobra.Command {
	group := cli.Group("table", "Create, show, change and drop tables", `Table administers the encrypted tables of a store, of whichever program. The schema of a
table is a file in YAML: its name, the parts of the row key and the columns, each with a
type, an encryption and, where it is ordered, a scheme. 'rangecrypt table describe --yaml'
writes the file of a table that is there.

    table: readings
    key:
      - {name: device, type: string, encryption: hashed}
      - {name: time, type: timestamp/ms, encryption: ordered, scheme: mope}
    columns:
      - {name: celsius, type: decimal(1), encryption: ordered, scheme: boldyreva}
      - {name: note, type: string, encryption: randomised}

Keys are never shown.`,
		newTableCreate(e), newTableList(e), newTableDescribe(e), rows.NewInsert(e), rows.NewExport(e), newTableAlter(e), newTableRename(e), newTableConvert(e),
		newTableReindex(e), newTableDrop(e),
		rows.NewQuery(e), rows.NewExplain(e), rows.NewJoin(e), rows.NewDelete(e), newTableRebalance(e))
	check := group.Args
	group.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains([]string{"verify", "check", "validate"}, args[0]) {
			return exit.Usagef("unknown command %q: 'rangecrypt verify --table NAME' checks the rows of a table, and 'rangecrypt table create FILE --dry-run' a schema file", args[0])
		}
		return check(cmd, args)
	}
	return group
}

// readSchema reads the schema in a file, or in the standard input for "-".
func readSchema(file string) (schemafile.Table, error) {
	in := os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return schemafile.Table{}, fmt.Errorf("read the schema: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, schemafile.MaxBytes+1))
	if err != nil {
		return schemafile.Table{}, fmt.Errorf("read the schema: %w", err)
	}
	if file == "-" {
		file = "standard input"
	}
	return schemafile.Parse(file, data)
}

func newTableCreate(e *cli.Env) *cobra.Command {
	var dryRun bool
	var wanted schemafile.Table
	check := func(c *cli.Call) (err error) {
		if !dryRun {
			if err := c.Kept.Check(); err != nil {
				return err
			}
		}
		if wanted, err = readSchema(c.Arg()); err != nil {
			return err
		}
		if err := checkName(wanted.Schema); err != nil {
			return err
		}
		for _, column := range wanted.Columns {
			if warning := sharing(column); warning != "" {
				c.Warn("warning: %s", warning)
			}
		}
		if key := wanted.Key; wanted.PageRows > 0 && len(key) == 1 && key[0].Describe().Encryption != "ordered" {
			c.Warn("warning: a page has rows of one value of %s, so that each one will have one row, and the layout saves nothing: order that part, add another one, or take the layout packed",
				show.Visible(key[0].Describe().Name))
		}
		if dryRun {
			c.Offline = func() error { return printTable(c, tableJSON{Record: "table", Schema: newSchemaJSON(wanted)}) }
		}
		return nil
	}
	return cli.Command{
		Use:   "create FILE",
		Short: "Create a table from a schema file",
		Long: `Create makes the table that FILE describes, or the standard input for -. A store that does
not exist is made. A mistake in the file is an error with its line, and nothing is made.

The file is YAML. It has these fields:

    table         the name of the table
    key           the parts of the row key: name, type, encryption (hashed, ordered, plain
                  or tie) and, where it is ordered, scheme
    columns       the columns: name, type, encryption (randomised, deterministic, ordered
                  or plain), scheme, confidentiality or shared-with, and covering or
                  server-index; covering is true, or a list of the columns that copies
                  have besides the column itself and the row key, which [] leaves alone
    layout, page-rows, spread-bits, conditional, append-only, tenants, ttl

With 'layout: paged' up to page-rows rows with neighbouring keys share a sealed cell, which
is for tables that are loaded and then mostly read.

docs/operations.md, under "Schema files", has all of them with types and schemes.`,
		Example: `  rangecrypt table create readings.yaml --store pebble:data --key app.key
  rangecrypt table create readings.yaml --dry-run`,
		Args: []string{"the file of a schema"},
		JSON: "print the table as a line of JSON",
		How:  stores.How{Create: true},
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&dryRun, "dry-run", false, "check the file and show the table, create nothing; needs no store")
		},
		Check: check,
		Run: func(ctx context.Context, c *cli.Call) error {
			tbl, err := create(ctx, c, wanted)
			if err != nil {
				return err
			}
			if c.JSON {
				return printTable(c, tableJSON{Record: "created", Store: c.ShownStore(), Schema: newSchemaJSON(anytable.FileOf(tbl))})
			}
			return c.Line("table %s was created", show.Visible(wanted.Name))
		},
	}.New(e)
}

// create makes a table.
func create(ctx context.Context, c *cli.Call, wanted schemafile.Table) (anytable.Table, error) {
	if wanted.PageRows > 0 {
		return paged.Create(ctx, c.Store, wanted.Schema, wanted.PageRows)
	}
	return c.Store.Create(ctx, wanted.Schema)
}

func newTableList(e *cli.Env) *cobra.Command {
	return cli.Command{
		Use:     "list",
		Short:   "List the tables of a store",
		Long:    "List prints the tables of a store with the parts of their row keys and their columns.",
		Example: "  rangecrypt table list --store pebble:data --key app.key",
		JSON:    "print a line of JSON for each table",
		Run:     listTables,
	}.New(e)
}

func listTables(ctx context.Context, c *cli.Call) error {
	schemas, err := c.Store.Tables(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	list := func(shown tableJSON) error {
		shown.Store = c.ShownStore()
		if c.JSON {
			return printTable(c, shown)
		}
		var parts []string
		for _, p := range shown.Schema.Key {
			parts = append(parts, show.Visible(p.Name))
		}
		rows = append(rows, []string{show.Visible(shown.Schema.Table), strings.Join(parts, ", "), strconv.Itoa(len(shown.Schema.Columns))})
		return nil
	}
	for _, s := range schemas {
		if err := list(tableJSON{Record: "table", Schema: newSchemaJSON(schemafile.Table{Schema: s})}); err != nil {
			return err
		}
	}
	d, err := c.Store.Describe(ctx)
	if err != nil {
		return err
	}
	for _, t := range d.Tables {
		if t.Layout == inspect.Paged {
			if err := list(described(t)); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	if !c.JSON {
		if err := c.Print(show.Rows([]string{"TABLE", "KEY", "COLUMNS"}, rows, []int{2}, c.Style())); err != nil {
			return err
		}
	}
	return command.WarnOfLeftOvers(ctx, c, d)
}

func newTableDescribe(e *cli.Env) *cobra.Command {
	var yaml, count bool
	return cli.Command{
		Use:   "describe NAME",
		Short: "Show how a table is stored",
		Long: `Describe prints the parts of the row key and the columns of a table with their types and
encryptions, the names that the database sees, and the ids of keys, as cells carry them.
It never prints a key or a value.`,
		Example: `  rangecrypt table describe readings --store pebble:data --key app.key
  rangecrypt table describe readings --yaml --store pebble:data --key app.key > r.yaml`,
		Args: []string{"the name of a table"},
		JSON: "print a line of JSON",
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&yaml, "yaml", false, "print the file that 'table create' reads")
			f.BoolVar(&count, "count", false, "count the rows, which reads them all")
		},
		Check: func(c *cli.Call) error {
			if yaml && (c.JSON || count) {
				return exit.Usagef("--yaml prints a schema file: give neither --json nor --count with it")
			}
			return nil
		},
		Run: func(ctx context.Context, c *cli.Call) error { return describeTable(ctx, c, yaml, count) },
	}.New(e)
}

func describeTable(ctx context.Context, c *cli.Call, yaml, count bool) error {
	tbl, err := anytable.Find(ctx, c, c.Arg())
	absent := errors.Is(err, store.ErrNoTable) // or the application keeps its rows
	if err != nil && (!absent || yaml || count) {
		return err
	}
	if yaml {
		_, err := c.Stdout.Write(schemafile.Format(anytable.FileOf(tbl)))
		return err
	}
	_, d, unknown := anytable.Describe(ctx, c, c.Arg())
	if absent && errors.Is(unknown, store.ErrNoTable) {
		return err
	}
	if unknown != nil {
		return unknown
	}
	shown := described(d)
	shown.Store = c.ShownStore()
	if count {
		n, err := countAll(ctx, c, tbl)
		if err != nil {
			return err
		}
		shown.Rows = &n
	}
	return printTable(c, shown)
}

// countAll counts the rows of a table, those of all tenants where it has some.
func countAll(ctx context.Context, c *cli.Call, tbl anytable.Table) (rows int, err error) {
	single, is := tbl.(*store.Table)
	if !is || !tbl.Schema().Tenants {
		return countRows(ctx, c, tbl)
	}
	names, err := c.Store.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		bound, err := single.Tenant(ctx, name)
		if errors.Is(err, store.ErrNoTenant) {
			continue // it was dropped since
		}
		if err != nil {
			return rows, err
		}
		n, err := countRows(ctx, c, bound)
		if rows += n; err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// countRows reads all rows of a table, without their columns.
func countRows(ctx context.Context, c *cli.Call, tbl anytable.Table) (n int, err error) {
	bar := c.Totals()
	defer bar.End()
	for _, err := range tbl.Query(ctx, store.Query{Columns: []string{}}) {
		if err != nil {
			return n, err
		}
		if n++; n%1024 == 1 {
			bar.At("counting", n, -1)
		}
	}
	return n, nil
}

func newTableRename(e *cli.Env) *cobra.Command {
	return cli.Command{
		Use:   "rename NAME NEW",
		Short: "Give a table another name",
		Long: `Rename changes the name of a table, in one small write: the database knows no names.
Programs that have the table open go on. A table that 'opebench insert' made keeps its
name, and no other table can have such a name.`,
		Example: "  rangecrypt table rename readings measurements --store pebble:data --key app.key",
		Args:    []string{"the name of a table", "its new name"},
		Run:     renameTable,
	}.New(e)
}

func renameTable(ctx context.Context, c *cli.Call) error {
	from, to := c.Args[0], c.Args[1]
	tbl, err := anytable.Find(ctx, c, from)
	if err != nil {
		return err
	}
	renamed := tbl.Schema()
	if err := checkOwn(renamed, "renamed"); err != nil {
		return err
	}
	renamed.Name = to
	if err := checkName(renamed); err != nil {
		return err
	}
	if err := c.Store.RenameTable(ctx, from, to); err != nil {
		return err
	}
	return c.Line("table %s is now %s", show.Visible(from), show.Visible(to))
}
