// Package tenants has the commands of "rangecrypt tenant".
package tenants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/convert"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// New returns the command with its subcommands.
func New(e *cli.Env) *cobra.Command {
	return cli.Group("tenant", "Administer tenants, their policies and keys", `Tenant administers the tenants of a store. Tenants share tables whose schema files say
'tenants: true', and nothing else: each has keys of its own, and sees its own rows only.

A tenant's policy says which columns of a table are sealed for it. It can be changed at
any time, and counts for what is written from then on; rows that are there are read as
before, and written again by 'rangecrypt tenant convert'.`,
		newTenantCreate(e), newTenantList(e), newTenantPolicy(e), newTenantConvert(e), newTenantStatus(e), newTenantRotate(e),
		newTenantDrop(e), newTenantPurge(e))
}

// bindTable binds the flag that names a table of tenants.
func bindTable(f *pflag.FlagSet, table *string) {
	f.StringVar(table, "table", "", "`name` of the table")
}

// needTable refuses a command that needs a table without one.
func needTable(table string) error {
	if table == "" {
		return exit.Usagef("name the table with --table: a tenant may have rows in several")
	}
	return nil
}

// theTenant is what commands about one tenant have in common.
var theTenant = []string{"the name of a tenant"}

// printTenant prints that something was done with a tenant.
func printTenant(c *cli.Call, record, line string) error {
	return c.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Tenant string `json:"tenant"`
	}{record, c.ShownStore(), c.Arg()}, fmt.Sprintf("tenant %s %s", show.Visible(c.Arg()), line))
}

func newTenantCreate(e *cli.Env) *cobra.Command {
	return cli.Command{
		Use:   "create NAME",
		Short: "Make a tenant, with keys of its own",
		Long: `Create makes a tenant with random keys of its own, in one small write. It can then have
rows in every table with tenants. The database does not see its name. A store that does
not exist is made.`,
		Example: "  rangecrypt tenant create acme --store pebble:data --key app.key",
		Args:    theTenant, JSON: cli.OneLine, How: stores.How{Create: true},
		Run: func(ctx context.Context, c *cli.Call) error {
			if err := c.Store.CreateTenant(ctx, c.Arg()); err != nil {
				return err
			}
			return printTenant(c, "tenant_created", "was created")
		},
	}.New(e)
}

func newTenantRotate(e *cli.Env) *cobra.Command {
	return cli.Command{
		Use:   "rotate NAME",
		Short: "Give a tenant a new key for its cells",
		Long: `Rotate gives a tenant a new key. What is written from now on, in any table, is sealed
with keys that derive from it; what is there stays readable with the old one, which is
kept. What values are found by, ciphertexts and tokens, stays under the first key.`,
		Example: "  rangecrypt tenant rotate acme --store pebble:data --key app.key",
		Args:    theTenant, JSON: cli.OneLine,
		Run: func(ctx context.Context, c *cli.Call) error {
			if err := c.Store.RotateTenantKey(ctx, c.Arg()); err != nil {
				return command.KnownTenant(err)
			}
			return printTenant(c, "tenant_rotated", "has a new key for its cells; what is there stays readable under the old ones, "+
				"and 'rangecrypt tenant convert' writes it again")
		},
	}.New(e)
}

func newTenantDrop(e *cli.Env) *cobra.Command {
	var rows bool
	return cli.Command{
		Use:   "drop NAME",
		Short: "Drop a tenant with its keys, so that nothing of it can be read",
		Long: `Drop removes a tenant with its keys. What is sealed of it, in all tables, cannot be read
any more, and nothing brings the keys back but a backup of the catalogue. Its rows stay
as bytes, and so do columns that are plain, unless --rows deletes them: that is 'rangecrypt
tenant purge', which may be stopped, and goes on when it is called again.`,
		Example: `  rangecrypt tenant drop acme --store pebble:data --key app.key
  rangecrypt tenant drop acme --rows --store pebble:data --key app.key`,
		Args: theTenant, JSON: cli.OneLine, Yes: true,
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&rows, "rows", false, "delete its rows, and those of all tenants that were dropped\nbefore")
		},
		Run: func(ctx context.Context, c *cli.Call) error { return dropTenant(ctx, c, rows) },
	}.New(e)
}

func dropTenant(ctx context.Context, c *cli.Call, rows bool) error {
	// One that does not exist is an error before anybody is asked.
	names, err := c.Store.Tenants(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(names, c.Arg()) {
		err := command.KnownTenant(fmt.Errorf("drop tenant %q: %w", c.Arg(), store.ErrNoTenant))
		if rows {
			err = fmt.Errorf("%w; 'rangecrypt tenant purge' deletes rows of tenants that were dropped", err)
		}
		return err
	}
	name := show.Visible(c.Arg())
	question := fmt.Sprintf("Drop tenant %s with its keys? Nothing that is sealed of it can be read then, and nothing brings it back.", name)
	if rows {
		question = fmt.Sprintf("Drop tenant %s with its keys, and delete its rows and those of all tenants that were dropped before? Nothing brings them back.", name)
	}
	if err := c.Confirm(ctx, question); err != nil {
		return err
	}
	if err := c.Store.DropTenant(ctx, c.Arg()); err != nil {
		return command.KnownTenant(err)
	}
	line := "was dropped"
	if !rows {
		line += "; its rows are left as bytes that no key opens, and their plain columns as they were; 'rangecrypt tenant purge' deletes them"
	}
	if err := printTenant(c, "tenant_dropped", line); err != nil || !rows {
		return err
	}
	return purgeAll(ctx, c)
}

func newTenantPurge(e *cli.Env) *cobra.Command {
	var table string
	return cli.Command{
		Use:   "purge",
		Short: "Delete the rows that dropped tenants left",
		Long: `Purge deletes what tenants that were dropped left in the tables of a store: rows with
their plain columns, index entries, and indexes. It reads the keys of all rows of tables
with tenants. Readers and writers may go on. 'rangecrypt verify' counts such rows.

It may be stopped at any time; the same command goes on. A program that was writing for a
tenant while it was dropped may leave rows afterwards: purge once more.

Do not purge a store whose catalogue was restored from an older backup than its rows:
tenants that were made since then count as dropped.`,
		Example: `  rangecrypt tenant purge --store pebble:data --key app.key
  rangecrypt tenant purge --table readings --yes --store pebble:data --key app.key`,
		JSON: "print a line of JSON for each table",
		Yes:  true,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&table, "table", "", "`name` of the table (default all with tenants)")
		},
		Run: func(ctx context.Context, c *cli.Call) error { return purgeTenants(ctx, c, table) },
	}.New(e)
}

func purgeTenants(ctx context.Context, c *cli.Call, table string) error {
	of := "all tables"
	if table != "" {
		of = "table " + show.Visible(table)
		// One that does not exist is an error before anybody is asked.
		if _, err := command.Table(ctx, c.Store, table); err != nil {
			return err
		}
	}
	question := fmt.Sprintf("Delete the rows of tenants that were dropped, in %s? Nothing brings them back.", of)
	if err := c.Confirm(ctx, question); err != nil {
		return err
	}
	if table != "" {
		return purgeTable(ctx, c, table)
	}
	return purgeAll(ctx, c)
}

// purgeAll deletes what dropped tenants left in all tables.
func purgeAll(ctx context.Context, c *cli.Call) error {
	schemas, err := c.Store.Tables(ctx)
	if err != nil {
		return err
	}
	for _, s := range schemas {
		if !s.Tenants {
			continue
		}
		if err := purgeTable(ctx, c, s.Name); err != nil && !errors.Is(err, store.ErrNoTable) { // it was dropped since
			return err
		}
	}
	return nil
}

// purgeTable deletes what dropped tenants left in a table, and prints how much, also when it was interrupted.
func purgeTable(ctx context.Context, c *cli.Call, name string) error {
	tbl, err := command.Table(ctx, c.Store, name)
	if err != nil {
		return err
	}
	bar := c.Totals()
	deleted, err := tbl.DeleteOrphans(ctx, func(read int) { bar.At(show.Visible(name)+": keys", read, -1) })
	bar.End()
	if errors.Is(err, store.ErrTenant) {
		return err // nothing was begun
	}
	line := fmt.Sprintf("%s: %s, %s and %s of dropped tenants were deleted", show.Visible(name), show.Counted(deleted.Rows, "row"),
		show.Counted(deleted.Postings, "index entry"), show.Counted(deleted.Indexes, "index"))
	if err != nil {
		c.Warn("rows of dropped tenants are left; 'rangecrypt tenant purge' goes on")
		line += "; not finished"
	}
	return errors.Join(err, c.Result(struct {
		Record   string `json:"record"`
		Store    string `json:"store"`
		Table    string `json:"table"`
		Rows     int    `json:"rows"`
		Postings int    `json:"postings"`
		Indexes  int    `json:"indexes"`
		Complete bool   `json:"complete"`
	}{"tenant_purged", c.ShownStore(), name, deleted.Rows, deleted.Postings, deleted.Indexes, err == nil}, line))
}

func newTenantList(e *cli.Env) *cobra.Command {
	var table string
	return cli.Command{
		Use:   "list",
		Short: "List the tenants of a store",
		Long: `List prints the names of all tenants and, with --table, which columns of that table are
sealed for each.`,
		Example: `  rangecrypt tenant list --store pebble:data --key app.key
  rangecrypt tenant list --table readings --store pebble:data --key app.key`,
		JSON:  "print a line of JSON for each tenant",
		Flags: func(f *pflag.FlagSet) { f.StringVar(&table, "table", "", "`name` of a table whose policies are shown") },
		Run:   func(ctx context.Context, c *cli.Call) error { return listTenants(ctx, c, table) },
	}.New(e)
}

func listTenants(ctx context.Context, c *cli.Call, table string) error {
	names, err := c.Store.Tenants(ctx)
	if err != nil {
		return err
	}
	if table != "" && len(names) == 0 {
		// Nobody looks for the table otherwise.
		if _, err := command.Table(ctx, c.Store, table); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, name := range names {
		p := policyOf{tenant: name, table: table}
		if table != "" {
			if err := p.read(ctx, c.Store); errors.Is(err, store.ErrNoTenant) {
				continue // it was dropped since
			} else if err != nil {
				return err
			}
		}
		if c.JSON {
			if err := p.encode(c, "tenant"); err != nil {
				return err
			}
		}
		rows = append(rows, []string{show.Visible(name), p.says()})
	}
	if c.JSON {
		return nil
	}
	return c.Print(show.Rows([]string{"TENANT", "SEALED"}, rows, nil, c.Style()))
}

func newTenantConvert(e *cli.Env) *cobra.Command {
	var table string
	var part command.PartFlag
	return cli.Command{
		Use:   "convert NAME --table TABLE",
		Short: "Write again the rows of a tenant that are stored as an earlier policy said",
		Long: `Convert writes those rows of a tenant in a table again that are not stored as its policy,
its newest key and the schema say by now. Readers and writers may go on, and lose nothing.

It may be stopped at any time; the same command goes on where it was, or begins again if
the policy was changed since. Several may run at a time and share the work. With --part
and --parts it does one part, as 'rangecrypt table convert' does.`,
		Example: "  rangecrypt tenant convert acme --table readings --store pebble:data --key app.key",
		Args:    theTenant, JSON: cli.OneLine,
		Flags: func(f *pflag.FlagSet) {
			bindTable(f, &table)
			part.Bind(f)
		},
		Check: func(c *cli.Call) error { return cmp.Or(needTable(table), part.Check(c.Flags)) },
		Run: func(ctx context.Context, c *cli.Call) error {
			tbl, err := command.ForTenant(ctx, c.Store, table, c.Arg())
			if err != nil {
				return err
			}
			return convert.Conversion{Call: c, Table: table, Tenant: c.Arg()}.Run(ctx, tbl, part)
		},
	}.New(e)
}

func newTenantStatus(e *cli.Env) *cobra.Command {
	var table string
	return cli.Command{
		Use:   "status [NAME] --table TABLE",
		Short: "Show how far the conversion of tenants' rows is",
		Long: `Status prints, for one tenant or all, which columns of a table are sealed, and how far the
conversion of what was stored otherwise is. It reads no row: where none is done
for the version of the catalogue that has the policy, the newest key and the schema by
now, there may be rows of before. What it counts are parts of the key space, and not rows,
most of which may be in few parts.`,
		Example: `  rangecrypt tenant status --table readings --store pebble:data --key app.key
  rangecrypt tenant status acme --table readings --store pebble:data --key app.key --json`,
		Args:     []string{"the name of a tenant, or nothing"},
		Optional: true,
		JSON:     "print a line of JSON for each tenant",
		Flags:    func(f *pflag.FlagSet) { bindTable(f, &table) },
		Check:    func(*cli.Call) error { return needTable(table) },
		Run:      func(ctx context.Context, c *cli.Call) error { return tenantStatus(ctx, c, table) },
	}.New(e)
}

func tenantStatus(ctx context.Context, c *cli.Call, table string) error {
	if _, err := command.Table(ctx, c.Store, table); err != nil {
		return err
	}
	names := c.Args
	if len(names) == 0 {
		var err error
		if names, err = c.Store.Tenants(ctx); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, name := range names {
		p := policyOf{tenant: name, table: table}
		err := p.read(ctx, c.Store)
		var status inspect.ConvertStatus
		if err == nil {
			status, err = p.open.Status(ctx)
		}
		if errors.Is(err, store.ErrNoTenant) && len(c.Args) == 0 {
			continue // it was dropped since
		}
		if err != nil {
			return err
		}
		if c.JSON {
			if err := (convert.Conversion{Call: c, Table: table, Tenant: name}).EncodeStatus(status); err != nil {
				return err
			}
		}
		rows = append(rows, []string{show.Visible(name), p.says(), convert.Progress(status)})
	}
	if c.JSON {
		return nil
	}
	return c.Print(show.Rows([]string{"TENANT", "SEALED", "CONVERSION"}, rows, nil, c.Style()))
}
