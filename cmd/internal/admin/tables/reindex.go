package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

func newTableReindex(e *cli.Env) *cobra.Command {
	columns := namedColumns{what: "key part or column"}
	return cli.Command{
		Use:   "reindex NAME COLUMN...",
		Short: "Make the index of a key part or column again",
		Long: `Reindex makes the index of a key part or column again from the rows, where 'verify' finds
it damaged. Schemes with an index are wozniak-indexed, kerschbaum and those like it.
Columns that share the index, of other tables too, have it made again with it. A column
of kerschbaum-ranked gets a new index, and all rows are stored again.

Readers and writers may go on; those with new values for wozniak-indexed wait. It may be
stopped at any time; the same command goes on. 'rangecrypt verify --repair' does the same.`,
		Example:  `  rangecrypt table reindex readings pressure --store pebble:data --key app.key`,
		Args:     []string{"the name of a table", "the columns or key parts"},
		Optional: true,
		Repeat:   true,
		JSON:     "print a line of JSON for each column",
		Flags:    columns.bind,
		Check:    columns.check,
		Run:      func(ctx context.Context, c *cli.Call) error { return reindexAll(ctx, c, columns.of(c)) },
	}.New(e)
}

func reindexAll(ctx context.Context, c *cli.Call, columns []string) error {
	tbl, err := command.Table(ctx, c.Store, c.Arg())
	if err != nil {
		return err
	}
	all := condition.Columns(tbl.Schema())
	for _, column := range columns { // all, before one is read
		if !slices.ContainsFunc(all, func(f inspect.Field) bool { return f.Name == column }) {
			return exit.Usagef("%v", condition.Unknown(all, column))
		}
	}
	for _, column := range columns {
		if err := reindex(ctx, c, tbl, column); err != nil {
			return err
		}
	}
	return nil
}

func reindex(ctx context.Context, c *cli.Call, tbl *store.Table, column string) error {
	name := show.Visible(c.Arg())
	read := 0
	bar := c.Totals()
	err := tbl.RebuildIndex(ctx, column, func(rows int) {
		bar.At("reading "+name, rows, -1)
		read = rows
	})
	bar.End()
	if err != nil && ctx.Err() != nil {
		c.Warn("the index is not finished; the same command goes on")
	}
	if err != nil {
		return err
	}
	return c.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table"`
		Column string `json:"column"`
		Rows   int    `json:"rows"`
	}{"reindex", c.ShownStore(), c.Arg(), column, read},
		fmt.Sprintf("%s: the index of %q was made again from %s", name, column, show.Counted(read, "row")))
}
