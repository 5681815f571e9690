// Package rows has the commands that put, find, export and delete rows of tables.
package rows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// maxPage is how many rows of a query with --limit are read, and kept, at a time.
const maxPage = 10_000

// A tableQuery is what 'table query' and 'table explain' ask.
type tableQuery struct {
	selection
	results
	columns      []string
	orderBy      string
	desc         bool
	limit        int
	token        string
	tokenFile    string
	requireIndex bool

	count    bool
	min, max string
}

// bindQuery binds the flags that both commands have.
func (q *tableQuery) bindQuery(f *pflag.FlagSet) {
	q.selection.bind(f, "the `condition` on the rows (default: all rows)")
	f.StringSliceVar(&q.columns, "select", nil, "the columns of these `names`, with commas between them, and no others; "+quotedNames)
	f.StringVar(&q.orderBy, "order-by", "", "sort the rows by the `column`; null and NaN come last; 'COLUMN desc' is as --desc")
	f.BoolVar(&q.desc, "desc", false, "turn the order round")
	f.IntVar(&q.limit, "limit", 0, "at most so many `rows` (default all)")
	f.BoolVar(&q.requireIndex, "require-index", false, "fail rather than read all rows of the table")
	cli.OfferColumns(f, "select", "order-by")
}

// bindOne binds the flags that ask for one value in place of rows.
func (q *tableQuery) bindOne(f *pflag.FlagSet, does string) {
	f.BoolVar(&q.count, "count", false, does+" the number of rows only")
	f.StringVar(&q.min, "min", "", does+" the least value of the `column` only")
	f.StringVar(&q.max, "max", "", does+" the greatest value of the `column` only")
	cli.OfferColumns(f, "min", "max")
}

// NewQuery returns the command "table query".
func NewQuery(e *cli.Env) *cobra.Command {
	q := &tableQuery{}
	return cli.Command{
		Use:   "query NAME",
		Short: "Print the rows that a condition selects",
		Long: `Query prints rows of a table: as a table for people, or as CSV, JSON lines or Parquet.
In the table, null is nothing, and an empty text is "".

` + aboutWhere + `

With --limit, a line on standard error has the token of the next page if there are more
rows; the same command with --page-token goes on there. With --pages FILE, the token is in
FILE: each call prints the next page, and the file is empty after the last. Nothing found
is no error. A table whose rows share pages has no order and no tokens: give --limit alone.`,
		Example: `  rangecrypt table query readings --where 'celsius > 25' --store pebble:data --key app.key
  rangecrypt table query readings --count --where 'note is null' \
    --store pebble:data --key app.key
  rangecrypt table query readings --order-by time --desc --limit 10 --select time,celsius \
    --store pebble:data --key app.key
  rangecrypt table query readings --format csv --zone Europe/Berlin --output r.csv \
    --store pebble:data --key app.key`,
		Args: []string{"the name of a table"},
		JSON: "print JSON lines, as --format jsonl",
		Flags: func(f *pflag.FlagSet) {
			q.bindQuery(f)
			f.StringVar(&q.token, "page-token", "", "go on after the page that had this `token`; the other flags must be\nthe same")
			f.StringVar(&q.tokenFile, "pages", "", "go on where the token in this `file` says, if it is there and not\nempty, and write the next token there")
			cli.Writes(f, "pages")
			q.bindOne(f, "print")
			q.results.bind(f)
		},
		Check: func(c *cli.Call) error {
			if err := q.check(c.Flags); err != nil {
				return err
			}
			return q.results.check(c)
		},
		Run: func(ctx context.Context, c *cli.Call) error {
			defer sayAssumed(c, q.values)
			return explained(q.run(ctx, c), q.desc && q.orderBy == "")
		},
	}.New(e)
}

// check refuses flags that contradict each other.
func (q *tableQuery) check(f *pflag.FlagSet) error {
	single := ""
	for _, flag := range []string{"count", "min", "max"} {
		switch {
		case !f.Changed(flag):
		case single != "":
			return exit.Usagef("--%s and --%s print one value each: give one of them", single, flag)
		default:
			single = flag
		}
	}
	if single != "" {
		for _, flag := range []string{"select", "order-by", "desc", "limit", "page-token", "pages"} {
			if f.Changed(flag) {
				return exit.Usagef("--%s is about all rows that the condition selects, and prints one value: leave --%s out", single, flag)
			}
		}
	}
	switch {
	case q.limit < 1 && f.Changed("limit"):
		return exit.Usagef("--limit is %d, need at least 1; without --limit there are all rows", q.limit)
	case q.limit == 0 && (q.token != "" || q.tokenFile != ""):
		return exit.Usagef("pages have a size: give --limit with --page-token and --pages")
	case q.token != "" && q.tokenFile != "":
		return exit.Usagef("--pages has the token in its file: leave --page-token out")
	case q.tokenFile == "":
		return nil
	}
	info, err := os.Stat(q.tokenFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("--pages: %s is no regular file, which keeps a token: name another", q.tokenFile)
	}
	token, err := os.ReadFile(q.tokenFile)
	q.token = strings.TrimSpace(string(token))
	return err
}

// query returns the query, and the columns that it prints.
func (q *tableQuery) query(tbl anytable.Table) (found store.Query, fields []inspect.Field, err error) {
	schema := tbl.Schema()
	all := condition.Columns(schema)
	if found.Where, err = q.predicate(schema, q.values); err != nil {
		return found, nil, err
	}
	if err := q.direction(all); err != nil {
		return found, nil, err
	}
	for flag, name := range map[string]string{"order-by": q.orderBy, "min": q.min, "max": q.max} {
		if err := ordered(flag, all, name); err != nil {
			return found, nil, err
		}
	}
	found.By = q.by
	found.OrderBy, found.Reverse, found.Limit, found.PageToken, found.RequireIndex = q.orderBy, q.desc, q.limit, q.token, q.requireIndex
	fields, found.Columns, err = chosen(all, "select", q.columns, schema)
	return found, fields, err
}

// direction reads --order-by 'COLUMN desc', unless a column is called so.
func (q *tableQuery) direction(all []inspect.Field) error {
	column, way, ok := cutLast(q.orderBy)
	switch {
	case !ok || slices.ContainsFunc(all, func(f inspect.Field) bool { return f.Name == q.orderBy }):
		return nil
	case q.desc:
		return exit.Usagef("--order-by names the direction already: leave --desc out")
	}
	q.orderBy, q.desc = column, way == "desc"
	return nil
}

// cutLast cuts a direction from the end of a text.
func cutLast(text string) (column, direction string, ok bool) {
	at := strings.LastIndexByte(text, ' ')
	if at < 0 {
		return "", "", false
	}
	column, direction = strings.TrimSpace(text[:at]), strings.ToLower(text[at+1:])
	return column, direction, column != "" && (direction == "desc" || direction == "asc")
}

// ordered returns an error unless a column that a flag names has an order, or none is named.
func ordered(flag string, all []inspect.Field, name string) error {
	if name == "" {
		return nil
	}
	i := slices.IndexFunc(all, func(f inspect.Field) bool { return f.Name == name })
	switch {
	case i < 0:
		return unknown(flag, all, name)
	case strings.HasPrefix(all[i].Type, "uuid"):
		return exit.Usagef("--%s: column %s has type uuid, whose values have no order: name another column", flag, show.Visible(name))
	}
	return nil
}

func (q *tableQuery) run(ctx context.Context, c *cli.Call) (err error) {
	tbl, err := anytable.RowsFor(ctx, c, c.Arg(), q.tenant)
	if err != nil {
		return err
	}
	if err := notInPages(c.Flags, tbl, "by", "order-by", "desc", "page-token", "pages", "min", "max"); err != nil {
		return err
	}
	found, fields, err := q.query(tbl)
	if err != nil {
		return err
	}
	if q.count || q.min != "" || q.max != "" {
		return q.printOne(ctx, c, tbl, found)
	}
	out, err := q.results.open(c, fields)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	next := ""
	for row, err := range q.rows(ctx, tbl, found, &next) {
		if err != nil {
			return exit.Early(ctx, q.refused(ctx, tbl, found.Where, err))
		}
		if err := out.Write(picked(nil, row, fields)); err != nil {
			return err
		}
	}
	if err := out.Commit(); err != nil {
		return err
	}
	if q.tokenFile != "" {
		return q.writeToken(next)
	}
	if next != "" {
		c.Warn("there are more rows; the next page: --page-token %s", next)
	}
	return nil
}

// writeToken replaces the token in its file.
func (q *tableQuery) writeToken(token string) error {
	f, err := outfile.Create(q.tokenFile, true)
	if err == nil {
		_, err = f.WriteString(token)
		if err == nil {
			err = f.Commit()
		}
		err = errors.Join(err, f.Discard())
	}
	if err != nil {
		return fmt.Errorf("--pages: %w", err)
	}
	return nil
}

// rows yields the rows, and sets the token of the page after them.
func (q *tableQuery) rows(ctx context.Context, tbl anytable.Table, found store.Query, next *string) iter.Seq2[store.Row, error] {
	single, is := tbl.(*store.Table)
	if q.limit == 0 || !is {
		return tbl.Query(ctx, found)
	}
	return func(yield func(store.Row, error) bool) {
		for left := q.limit; left > 0; left -= maxPage {
			found.Limit = min(left, maxPage)
			rows, token, err := single.Page(ctx, found)
			if errors.Is(err, driver.ErrRange) && found.PageToken == "" && q.tokenFile == "" {
				// A server index has no pages, but may have these rows.
				found.Limit = q.limit
				tbl.Query(ctx, found)(yield)
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if *next = token; token == "" {
				return
			}
			found.PageToken = token
		}
	}
}

// asked returns a query as the store makes it of one for a single value.
func (q *tableQuery) asked(found store.Query, s store.Schema) store.Query {
	name := cmp.Or(q.min, q.max)
	switch {
	case q.count:
		found.Columns = []string{}
	case name != "":
		some := store.Not(store.IsNull(name))
		if slices.ContainsFunc(condition.Columns(s), func(f inspect.Field) bool { return f.Name == name && strings.HasPrefix(f.Type, "float") }) {
			some = store.Not(store.IsNaN(name)) // which is unknown of null
		}
		found.Columns, found.OrderBy, found.Reverse, found.Limit = []string{name}, name, q.max != "", 1
		found.Where = store.And(found.Where, some)
	}
	return found
}

// printOne prints the number of rows, or the least or greatest value of a column.
func (q *tableQuery) printOne(ctx context.Context, c *cli.Call, tbl anytable.Table, found store.Query) error {
	asked := q.asked(found, tbl.Schema())
	single, is := tbl.(*store.Table)
	if found.RequireIndex && is { // what returns one value has no such parameter
		if _, err := single.Explain(ctx, asked); err != nil {
			return q.refused(ctx, tbl, asked.Where, err)
		}
	}
	field := inspect.Field{Name: "count", Type: "int64"}
	var value any
	var err error
	if q.count {
		var n int
		n, err = count(ctx, tbl, asked)
		value = int64(n)
	} else {
		name := cmp.Or(q.min, q.max)
		all := condition.Columns(tbl.Schema())
		field = all[slices.IndexFunc(all, func(f inspect.Field) bool { return f.Name == name })]
		if q.min != "" {
			field.Name = "min"
			value, err = single.Min(ctx, name, found.Where, store.By(q.by))
		} else {
			field.Name = "max"
			value, err = single.Max(ctx, name, found.Where, store.By(q.by))
		}
	}
	if err != nil {
		return exit.Early(ctx, q.refused(ctx, tbl, asked.Where, err))
	}
	if !q.results.shown() {
		return q.results.write(c, []inspect.Field{field}, []any{value})
	}
	if value == nil {
		c.Warn("no row that the condition selects has a value of %q", cmp.Or(q.min, q.max))
		return nil
	}
	column, err := q.values.Column(field)
	if err != nil {
		return err
	}
	text, err := column.Text(value)
	if err != nil {
		return err
	}
	return c.Print(show.Visible(text) + "\n")
}
