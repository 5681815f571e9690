package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A join is of two tables, or of one with itself.
type join struct {
	results
	tenant      string
	left, right []string // columns that are printed
	limit       int
}

// NewJoin returns the command "table join".
func NewJoin(e *cli.Env) *cobra.Command {
	j := &join{}
	return cli.Command{
		Use:   "join LEFT.COLUMN RIGHT.COLUMN",
		Short: "Print the pairs of rows that have equal values in two columns",
		Long: `Join prints each pair of a row of one table and a row of another, or of the same, whose
values in two columns are equal. Null equals nothing. The columns must be deterministic or
ordered, and share one search key, so that the database compares them without seeing them.
For that the schema file of one names the other, or both say 'confidentiality: database':

    - {name: operator, type: string, encryption: deterministic,
       shared-with: {table: staff, column: name}}

A part of the row key cannot be joined.

In the result the names of columns begin with that of their table, and with left and right
where a table is joined with itself. The pairs come in no order.`,
		Example: `  rangecrypt table join shifts.operator staff.name --store pebble:data --key app.key
  rangecrypt table join shifts.operator staff.name --right-select team --format csv \
    --store pebble:data --key app.key`,
		Args: []string{"a column of a table", "a column of a table to join it with"},
		JSON: "print JSON lines, as --format jsonl",
		Flags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&j.left, "left-select", nil, "of the first table the columns of these `names`, with commas\nbetween them, and no others")
			f.StringSliceVar(&j.right, "right-select", nil, "of the second table the columns of these `names`, with commas\nbetween them, and no others")
			cli.OfferColumnsOf(f, "left-select", 0)
			cli.OfferColumnsOf(f, "right-select", 1)
			f.IntVar(&j.limit, "limit", 0, "at most so many `pairs` (default all)")
			anytable.BindTenant(f, &j.tenant)
			j.results.bind(f)
		},
		Check: func(c *cli.Call) error {
			if j.limit < 1 && c.Flags.Changed("limit") {
				return exit.Usagef("--limit is %d, need at least 1; without --limit there are all pairs", j.limit)
			}
			for _, arg := range c.Args {
				if table, column, ok := strings.Cut(arg, "."); !ok || table == "" || column == "" {
					return exit.Usagef("%s names no column of a table: it is TABLE.COLUMN", show.Visible(arg))
				}
			}
			return j.results.check(c)
		},
		Run: j.run,
	}.New(e)
}

// A joined is a side of a join.
type joined struct {
	*store.Table
	name   string          // of the table
	column string          // that is compared
	fields []inspect.Field // that are printed
	wanted []string        // as the store takes them
}

func (j *join) run(ctx context.Context, c *cli.Call) (err error) {
	left, err := j.side(ctx, c, c.Args[0], "left-select", j.left)
	if err != nil {
		return err
	}
	right, err := j.side(ctx, c, c.Args[1], "right-select", j.right)
	if err != nil {
		return err
	}
	var headers []inspect.Field
	for _, side := range []*joined{left, right} {
		prefix := side.name
		if left.name == right.name {
			prefix = map[*joined]string{left: "left", right: "right"}[side]
		}
		for _, f := range side.fields {
			f.Name = prefix + "." + f.Name
			if slices.ContainsFunc(headers, func(other inspect.Field) bool { return other.Name == f.Name }) { // as a.b of table c and b of table c.a have
				return exit.Usagef("two columns of the result have the name %s, of which readers keep one: leave one out with --left-select or --right-select", show.Visible(f.Name))
			}
			headers = append(headers, f)
		}
	}
	out, err := j.open(c, headers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	opts := &store.JoinOptions{Left: left.wanted, Right: right.wanted, Limit: j.limit}
	for pair, err := range store.Join(ctx, left.Table, left.column, right.Table, right.column, opts) {
		if errors.Is(err, store.ErrColumn) {
			err = fmt.Errorf("%w; 'rangecrypt table describe' shows which columns share keys", err)
		}
		if err != nil {
			return exit.Early(ctx, err)
		}
		if err := out.Write(picked(picked(nil, pair[0], left.fields), pair[1], right.fields)); err != nil {
			return err
		}
	}
	if err := out.Commit(); err != nil {
		return err
	}
	sayAssumed(c, j.values)
	return nil
}

// side opens the table that an argument names with a column of it. Both names may have points, so that any of them may
// be the one in between.
func (j *join) side(ctx context.Context, c *cli.Call, arg, flag string, wanted []string) (*joined, error) {
	var found []*joined
	var missing error
	for i := range len(arg) {
		if arg[i] != '.' || i == 0 || i == len(arg)-1 {
			continue
		}
		s := &joined{name: arg[:i], column: arg[i+1:]}
		var err error
		if s.Table, err = anytable.TableFor(ctx, c, s.name, j.tenant); err != nil {
			if !errors.Is(err, store.ErrNoTable) {
				return nil, err
			}
			if missing == nil {
				missing = err
			}
			continue
		}
		all := condition.Columns(s.Schema())
		if _, _, err := chosen(all, flag, []string{s.column}, s.Schema()); err != nil {
			missing = exit.Usagef("table %s: %v", show.Visible(s.name), condition.Unknown(all, s.column))
			continue
		}
		if s.fields, s.wanted, err = chosen(all, flag, wanted, s.Schema()); err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	switch len(found) {
	case 0:
		return nil, missing
	case 1:
		return found[0], nil
	}
	return nil, exit.Usagef("%s names columns of more than one table: rename one with 'rangecrypt table rename'", show.Visible(arg))
}
