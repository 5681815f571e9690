package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
)

type exportRows struct {
	tabular.Output
	celltext.Flags
	selected []string
	tenant   string

	values *celltext.Format
}

// NewExport returns the command "table export".
func NewExport(e *cli.Env) *cobra.Command {
	o := &exportRows{}
	return cli.Command{
		Use:   "export NAME",
		Short: "Write all rows of a table to a file",
		Long: `Export writes the rows of a table as CSV, JSON lines or Parquet, decrypted: whoever can
read the output can read the values. 'rangecrypt table insert' of the file into an equal
table gives equal rows, with the same flags about values. Into an append-only table insert
it with --ignore and the name of the tie-breaker: rows get new ones there.

A file gets its name when all rows are in it, and none has the name before. Only its owner
can read it. One that exists is not replaced without --force; one that the command reads,
or that holds a master key, never is. None is written into the folder of an embedded store.

In CSV null is an empty cell without quotes, and the empty text is "" in quotes. In a file
of one column, null is "" too, unless that is a value: then it is a blank line, and --null
gives it a word. JSON has decimals as texts, since most readers round numbers. In Parquet
a decimal has 38 digits, and texts stand for decimals of more; times in seconds are in
milliseconds. A tie-breaker is written as a UUID.

With --tenant the rows are those of a tenant.`,
		Example: `  rangecrypt table export flights --output f.parquet --store pebble:data --key app.key
  rangecrypt table export flights --select carrier,dep_delay --format csv \
    --store pebble:data --key app.key
  rangecrypt table export flights --output f.jsonl.zst --force --store pebble:data \
    --key app.key`,
		Args: []string{"the name of a table"},
		How:  stores.How{Pass: true},
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&o.tenant, "tenant", "", "`name` of the tenant whose rows are written, of a table with tenants")
			f.StringSliceVar(&o.selected, "select", nil, "the `columns` to write, with commas between them (default: the key and all columns); "+quotedNames)
			cli.OfferColumns(f, "select")
			o.Output.Bind(f)
			o.Flags.Bind(f)
		},
		Check: func(c *cli.Call) (err error) {
			if err := c.Kept.Check(); err != nil {
				return err
			}
			c.ReadOnly = true
			if o.values, err = o.Flags.Format(); err != nil {
				return err
			}
			return o.Output.Check()
		},
		Run: o.run,
	}.New(e)
}

// choose returns the columns that are written.
func (o *exportRows) choose(all []*celltext.Column, schema store.Schema) ([]*celltext.Column, error) {
	fields, _, err := chosen(condition.Columns(schema), "select", o.selected, schema)
	if err != nil {
		return nil, err
	}
	var wanted []*celltext.Column
	for _, f := range fields {
		i := slices.IndexFunc(all, func(c *celltext.Column) bool { return c.Name == f.Name })
		wanted = append(wanted, all[i])
	}
	return wanted, nil
}

func (o *exportRows) run(ctx context.Context, c *cli.Call) (err error) {
	tbl, err := anytable.RowsFor(ctx, c, c.Arg(), o.tenant)
	if err != nil {
		return err
	}
	all, err := o.values.Columns(tbl.Schema())
	if err != nil {
		return err
	}
	columns, err := o.choose(all, tbl.Schema())
	if err != nil {
		return err
	}
	sink, err := o.Output.Open(c.Env, o.values, columns)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	start := time.Now()
	rows, err := writeRows(ctx, c, tbl, sink, columns)
	if err == nil {
		err = sink.Commit()
	}
	if err != nil {
		return exit.Early(ctx, fmt.Errorf("after %d %s: %w", rows, show.Plural(rows, "row"), err))
	}
	sayAssumed(c, o.values)
	c.Warn("%d %s written in %.2f s", rows, show.Verb(rows, "row was", "rows were"), time.Since(start).Seconds())
	return nil
}

func writeRows(ctx context.Context, c *cli.Call, tbl anytable.Table, to tabular.Writer, columns []*celltext.Column) (rows int, err error) {
	bar := c.Totals()
	defer bar.End()
	wanted := []string{}
	for _, column := range columns {
		if !column.Key {
			wanted = append(wanted, column.Name)
		}
	}
	values := make([]any, len(columns))
	for row, err := range tbl.Query(ctx, store.Query{Columns: wanted}) {
		if err != nil {
			return rows, err
		}
		for i, column := range columns {
			values[i] = row[column.Name]
		}
		if err := to.Write(values); err != nil {
			return rows, err
		}
		if rows++; rows%1024 == 1 {
			bar.At("writing rows", rows, -1)
		}
	}
	return rows, nil
}
