package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// deletedTogether is how many rows a call of the store deletes.
const deletedTogether = 256

// A deletion is of rows of a table.
type deletion struct {
	selection
	texts       celltext.Flags
	values      *celltext.Format
	all, dryRun bool
}

// NewDelete returns the command "table delete".
func NewDelete(e *cli.Env) *cobra.Command {
	d := &deletion{}
	return cli.Command{
		Use:   "delete NAME --where CONDITION",
		Short: "Delete the rows that a condition selects",
		Long: `Delete counts the rows that the condition selects, asks, and deletes them. Nothing brings
them back. It may be stopped at any time; the same command deletes the rest.

Readers and writers may go on. A row that another client writes after it was found is
deleted, whatever it holds by then; one that satisfies the condition only later stays.
On Cassandra, rows of a table without searched columns stay as well if a client whose clock
is ahead has written them. The command says how many are there still, with exit code 1.

` + aboutWhere,
		Example: `  rangecrypt table delete readings --dry-run --where 'time < 2020-01-01' \
    --store pebble:data --key app.key
  rangecrypt table delete readings --where 'time < 2020-01-01' \
    --store pebble:data --key app.key`,
		Args: []string{"the name of a table"},
		JSON: cli.OneLine,
		Yes:  true,
		Flags: func(f *pflag.FlagSet) {
			d.bind(f, "the `condition` on the rows that are deleted")
			f.BoolVar(&d.all, "all", false, "delete all rows")
			f.BoolVar(&d.dryRun, "dry-run", false, "say how many rows there are, delete none")
			d.texts.BindConstants(f)
		},
		Check: func(c *cli.Call) (err error) {
			switch {
			case d.where == "" && !d.all:
				return exit.Usagef("say which rows with --where; --all deletes all of them, and 'rangecrypt table drop' the table, too")
			case d.where != "" && d.all:
				return exit.Usagef("--where and --all contradict each other: leave one out")
			}
			c.ReadOnly = d.dryRun
			d.values, err = d.texts.Format()
			return err
		},
		Run: d.run,
	}.New(e)
}

func (d *deletion) run(ctx context.Context, c *cli.Call) error {
	tbl, err := anytable.RowsFor(ctx, c, c.Arg(), d.tenant)
	if err != nil {
		return err
	}
	if err := notInPages(c.Flags, tbl, "by"); err != nil {
		return err
	}
	p, err := d.predicate(tbl.Schema(), d.values)
	if err != nil {
		return err
	}
	if single, is := tbl.(*store.Table); is && d.by != "" { // before anybody is asked
		if _, err := single.Explain(ctx, store.Query{Where: p, By: d.by}); err != nil {
			return exit.Early(ctx, d.refused(ctx, tbl, p, err))
		}
	}
	if !d.dryRun {
		if err := migrate.Followed(ctx, c.Store, c.Arg()); err != nil {
			return err
		}
	}
	sayAssumed(c, d.values)
	name := command.TableOf(c.Arg(), d.tenant)
	total := -1
	if d.dryRun || !c.Yes {
		if total, err = count(ctx, tbl, store.Query{Where: p, By: d.by}); err != nil {
			return exit.Early(ctx, err)
		}
	}
	if d.dryRun || total == 0 {
		line := "%s: %d %s would be deleted"
		if !d.dryRun {
			line = "%s: %d %s deleted"
		}
		return d.print(c, total, true, fmt.Sprintf(line, name, total, show.Plural(total, "row")))
	}
	if total > 0 {
		question := fmt.Sprintf("Delete %d %s of %s? Nothing brings them back.", total, show.Plural(total, "row"), name)
		if err := c.Confirm(ctx, question); err != nil {
			return err
		}
	}
	n, err := d.delete(ctx, c, tbl, p, total)
	line := fmt.Sprintf("%s: %d %s deleted", name, n, show.Plural(n, "row"))
	if err != nil {
		line += "; not finished, the same command deletes the rest"
	}
	return errors.Join(exit.Early(ctx, err), d.print(c, n, err == nil, line))
}

// kept returns how many of some rows are there after they were deleted. A table that has read the rows before it deletes them has
// deleted them whatever the clocks say.
func kept(ctx context.Context, tbl anytable.Table, keys []store.Row) (n int, err error) {
	single, is := tbl.(*store.Table)
	if !is || single.Schema().Conditional || slices.ContainsFunc(single.Schema().Columns, anytable.Searched) {
		return 0, nil
	}
	rows, err := single.GetBatch(ctx, keys)
	for _, row := range rows {
		if row != nil {
			n++
		}
	}
	return n, err
}

// delete deletes the rows, and returns how many. After an error, others may be deleted, too.
func (d *deletion) delete(ctx context.Context, c *cli.Call, tbl anytable.Table, p store.Predicate, total int) (n int, err error) {
	bar := c.Totals()
	defer bar.End()
	var keys []store.Row
	left := 0
	together := deletedTogether
	if anytable.IsPaged(tbl) {
		together = pagedBatch
	}
	flush := func() error {
		err := tbl.Delete(ctx, keys...)
		failed := (*store.BatchError)(nil)
		switch {
		case err == nil:
			var some int
			some, err = kept(ctx, tbl, keys)
			n, left = n+len(keys)-some, left+some
		case errors.As(err, &failed):
			n += len(keys) - len(failed.Failed)
		}
		keys = keys[:0]
		bar.At("deleting", n, total)
		return err
	}
	for row, err := range tbl.Query(ctx, store.Query{Where: p, By: d.by, Columns: []string{}}) {
		if err != nil {
			return n, err
		}
		if keys = append(keys, row); len(keys) == together {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	if len(keys) > 0 {
		err = flush()
	}
	if err == nil && left > 0 {
		err = fmt.Errorf("still there: %s that another client has put meanwhile, or one whose clock is ahead: what that wrote can be deleted when the time has come",
			show.Counted(left, "row"))
	}
	return n, err
}

func (d *deletion) print(c *cli.Call, rows int, complete bool, line string) error {
	return c.Result(struct {
		Record   string `json:"record"`
		Store    string `json:"store"`
		Table    string `json:"table"`
		Tenant   string `json:"tenant,omitempty"`
		Rows     int    `json:"rows"`
		DryRun   bool   `json:"dry_run"`
		Complete bool   `json:"complete"`
	}{"deletion", c.ShownStore(), c.Arg(), d.tenant, rows, d.dryRun, complete}, line)
}
