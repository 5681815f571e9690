package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

func newTableRebalance(e *cli.Env) *cobra.Command {
	var tenant string
	columns := namedColumns{what: "column"}
	return cli.Command{
		Use:   "rebalance NAME COLUMN...",
		Short: "Space the ciphertexts of a Kerschbaum column evenly",
		Long: `Rebalance gives all values of a column with the scheme kerschbaum new ciphertexts, evenly
spaced, which no longer show in which order the values came. Do so after a bulk load. It
rewrites the index of the column and no row; columns that share the index have it
rewritten with it.

Readers and writers may go on. If it is stopped, what has moved stays where it is: run it
again for the rest.`,
		Example:  `  rangecrypt table rebalance readings celsius --store pebble:data --key app.key`,
		Args:     []string{"the name of a table", "the columns"},
		Optional: true,
		Repeat:   true,
		JSON:     "print a line of JSON for each column",
		Flags: func(f *pflag.FlagSet) {
			columns.bind(f)
			anytable.BindTenant(f, &tenant)
		},
		Check: columns.check,
		Run:   func(ctx context.Context, c *cli.Call) error { return rebalance(ctx, c, tenant, columns.of(c)) },
	}.New(e)
}

func rebalance(ctx context.Context, c *cli.Call, tenant string, columns []string) error {
	tbl, err := anytable.TableFor(ctx, c, c.Arg(), tenant)
	if err != nil {
		return err
	}
	for _, column := range columns { // all, before one is changed
		if err := checkMovable(condition.Columns(tbl.Schema()), column); err != nil {
			return err
		}
	}
	for _, column := range columns {
		name := fmt.Sprintf("%s, column %s", command.TableOf(c.Arg(), tenant), show.Visible(column))
		bar := c.Totals()
		stats, err := tbl.Rebalance(ctx, column, func(done, total int) { bar.At("rebalancing", done, total) })
		bar.End()
		if err != nil {
			if ctx.Err() != nil {
				c.Warn("%s: stopped; what has moved stays where it is, run it again for the rest", name)
			}
			return exit.Early(ctx, err)
		}
		if err := printRebalance(c, tenant, column, name, stats); err != nil {
			return err
		}
	}
	return nil
}

// checkMovable returns an error unless the ciphertexts of a column can be moved.
func checkMovable(all []inspect.Field, column string) error {
	i := slices.IndexFunc(all, func(f inspect.Field) bool { return f.Name == column })
	if i < 0 {
		return exit.Usagef("%v", condition.Unknown(all, column))
	}
	scheme, err := store.ParseScheme(all[i].Scheme)
	if _, movable := scheme.(store.MutableScheme); err == nil && movable {
		return nil
	}
	var able []string
	for _, f := range all {
		if scheme, err := store.ParseScheme(f.Scheme); err == nil {
			if _, movable := scheme.(store.MutableScheme); movable {
				able = append(able, f.Name)
			}
		}
	}
	if len(able) == 0 {
		return exit.Usagef("column %s is not ordered by kerschbaum, and none of the table is: only its ciphertexts move", show.Visible(column))
	}
	return exit.Usagef("column %s is not ordered by kerschbaum, only whose ciphertexts move; there is %s", show.Visible(column), show.Names(able))
}

func printRebalance(c *cli.Call, tenant, column, name string, s ope.RebalanceStats) error {
	return c.Result(struct {
		Record string      `json:"record"`
		Store  string      `json:"store"`
		Table  string      `json:"table"`
		Tenant string      `json:"tenant,omitempty"`
		Column string      `json:"column"`
		Values int         `json:"values"`
		Moved  int         `json:"moved"`
		Before ope.Version `json:"before"`
		After  ope.Version `json:"after"`
	}{"rebalance", c.ShownStore(), c.Arg(), tenant, column, s.Values, s.Moved, s.Before, s.After},
		fmt.Sprintf("%s: %s %s in the index, %s of them moved", name, show.Count(s.Values), show.Plural(s.Values, "value"), show.Count(s.Moved)))
}
