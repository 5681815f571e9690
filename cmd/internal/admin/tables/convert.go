package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/convert"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

func newTableConvert(e *cli.Env) *cobra.Command {
	var status bool
	var part command.PartFlag
	return cli.Command{
		Use:   "convert NAME",
		Short: "Write again the rows that are stored as an earlier schema said",
		Long: `Convert writes all rows of a table again that are not stored as its schema says by now.
Then rows are found by columns that were changed without opening all of them, and what
dropped columns left is removed. Readers and writers may go on, and lose nothing.

A row that the schema does not take is left as it is, and the exit code is 1: it holds NaN
in a column that is searched, or would be too large. Put null or another value there.

It goes through the key space in 64 parts, and --status says how many are done. That is no
share of the rows: where keys are close to each other, most of these are in few parts.

It may be stopped at any time; the same command goes on where it was. Several may run at a
time and share the work. So a scheduler can have it done: with --part and --parts it does
one part, and whoever does the last one ends the conversion. Parts may be done twice, at
the same time, and of cuts that differ. What is done already is not read again.

Of a table whose rows share pages, it seals those again that are under an earlier key.

Of a table with tenants it converts what all of them have;
'rangecrypt tenant convert' that of one.`,
		Example: `  rangecrypt table convert readings --store pebble:data --key app.key
  rangecrypt table convert readings --store pebble:data --key app.key --status
  rangecrypt table convert readings --store pebble:data --key app.key --part 0 --parts 100`,
		Args: []string{"the name of a table"},
		JSON: cli.OneLine,
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&status, "status", false, "show how far the conversion is, convert nothing")
			part.Bind(f)
		},
		Check: func(c *cli.Call) error {
			if status && c.Flags.Changed("part") {
				return exit.Usagef("--status is of the whole table: leave out --part and --parts")
			}
			return part.Check(c.Flags)
		},
		Run: func(ctx context.Context, c *cli.Call) error {
			tbl, err := command.Table(ctx, c.Store, c.Arg())
			if errors.Is(err, command.ErrPaged) {
				return reseal(ctx, c)
			}
			if err != nil {
				return err
			}
			if status {
				return convert.Conversion{Call: c, Table: c.Arg(), Tenant: ""}.PrintStatus(ctx, tbl)
			}
			return convert.Conversion{Call: c, Table: c.Arg(), Tenant: ""}.Run(ctx, tbl, part)
		},
	}.New(e)
}

// reseal seals the pages of a table again that are under an earlier key.
func reseal(ctx context.Context, c *cli.Call) error {
	for _, flag := range []string{"status", "part"} {
		if c.Flags.Changed(flag) {
			return exit.Usagef("--%s: a table of pages is converted as a whole, page by page: leave it out; 'rangecrypt verify --table %s' says how many pages are under an earlier key", flag, show.Argument(c.Arg()))
		}
	}
	tbl, err := paged.Open(ctx, c.Store, c.Arg())
	if err != nil {
		return err
	}
	bar := c.Totals()
	bar.At(show.Visible(c.Arg())+": sealing pages again", 0, -1)
	all, err := tbl.Reseal(ctx)
	bar.End()
	if err != nil && ctx.Err() != nil {
		c.Warn("not all pages were sealed again; the same command does the rest")
	}
	line := fmt.Sprintf("%s: %s of %d %s sealed again", show.Visible(c.Arg()), show.Counted(all.Resealed, "page"), all.Pages, show.Verb(all.Resealed, "was", "were"))
	if err == nil && all.Resealed == 0 {
		line += ", since all are under the newest key: 'rangecrypt keys rotate --table " + show.Argument(c.Arg()) + "' makes another one"
	}
	return errors.Join(exit.Early(ctx, err), c.Result(struct {
		Record   string `json:"record"`
		Store    string `json:"store"`
		Table    string `json:"table"`
		Pages    int    `json:"pages"`
		Rows     int    `json:"rows"`
		Resealed int    `json:"resealed"`
		Complete bool   `json:"complete"`
	}{"reseal", c.ShownStore(), c.Arg(), all.Pages, all.Rows, all.Resealed, err == nil}, line))
}
