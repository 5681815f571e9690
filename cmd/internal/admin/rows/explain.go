package rows

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// NewExplain returns the command "table explain".
func NewExplain(e *cli.Env) *cobra.Command {
	q := &tableQuery{}
	var analyze bool
	return cli.Command{
		Use:   "explain NAME",
		Short: "Show how a query is answered",
		Long: `Explain shows what a query of 'table query' with these flags scans and opens, and how
many rows there are to look at, and in the table. Up to 4,096 it counts them. Of more it
reads some, for which it may open up to 2,048 rows: 'about 9,000' is mostly right by a
third, while 'at least 5,000, perhaps 9,000' is what was counted, and a guess. With
--analyze the query is run, and what it did is counted. What is scanned drives the query:
the row key, or the index of a column, which --by may name. Where that column covers,
it says whether copies answer the query, or which columns they lack, so that rows are read.
With --order-by, rows without a value come last, and what is looked at for them is shown
for itself.

` + aboutWhere,
		Example: `  rangecrypt table explain readings --where 'celsius > 25' \
    --store pebble:data --key app.key
  rangecrypt table explain readings --where "note = 'ok'" --analyze \
    --store pebble:data --key app.key`,
		Args: []string{"the name of a table"},
		JSON: "print a line of JSON",
		Flags: func(f *pflag.FlagSet) {
			q.bindQuery(f)
			q.bindOne(f, "explain a query for")
			f.BoolVar(&analyze, "analyze", false, "run the query, and count what it does")
			q.texts.BindConstants(f)
		},
		Check: func(c *cli.Call) (err error) {
			if err := q.check(c.Flags); err != nil {
				return err
			}
			q.values, err = q.texts.Format()
			return err
		},
		Run: func(ctx context.Context, c *cli.Call) error {
			return explained(q.explain(ctx, c, analyze), q.desc && q.orderBy == "")
		},
	}.New(e)
}

func (q *tableQuery) explain(ctx context.Context, c *cli.Call, analyze bool) error {
	tbl, err := anytable.TableFor(ctx, c, c.Arg(), q.tenant)
	if err != nil {
		return err
	}
	found, _, err := q.query(tbl)
	if err != nil {
		return err
	}
	found = q.asked(found, tbl.Schema())
	sayAssumed(c, q.values)
	explain := tbl.Explain
	if analyze {
		explain = tbl.Analyze
	}
	x, err := explain(ctx, found)
	if err != nil {
		return exit.Early(ctx, q.refused(ctx, tbl, found.Where, err))
	}
	all := x
	if !analyze {
		if all, err = tbl.Explain(ctx, store.Query{Columns: []string{}}); err != nil {
			return exit.Early(ctx, err)
		}
	}
	if c.JSON {
		return q.encode(c, x, all, analyze)
	}
	rows := [][]string{
		{"table", command.TableOf(c.Arg(), q.tenant)},
		{"scanned", show.Visible(x.Driver)},
		{"ranges", show.Count(x.Intervals)},
		{"partitions", fmt.Sprint(x.Buckets)},
		{"opened of each row", opened(x)},
		{"answered by copies", byCopies(x)},
		{"sorted by the client", yesNo(x.Sorted)},
		{"to be converted", show.Names(x.Unconverted)},
	}
	if x.Buckets == 0 {
		rows[3][1] = "all"
	}
	if len(x.Changing) > 0 {
		rows = append(rows, []string{"being converted", show.Names(x.Changing) + ": by index entries of before, and then of now"})
	}
	if analyze {
		rows = append(rows, [][]string{
			{"values looked up", show.Count(x.Tokens)}, {"requests", show.Count(x.Requests)}, {"found in the ranges", show.Count(x.Hits)},
			{"of these discarded", show.Count(x.Discarded)}, {"rows returned", show.Count(x.Rows)},
		}...)
	} else {
		nulls := ""
		if x.Nulls != none {
			nulls = estimate(x.Nulls)
		}
		rows = append(rows, []string{"to look at", estimate(x.Estimate)}, []string{"to look at for null", nulls},
			[]string{"rows of the table", estimate(all.Estimate)})
	}
	var b strings.Builder
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		if row[1] != "" {
			b.WriteString(show.Line(fmt.Sprintf("%-*s  %s", width, row[0], row[1]), c.Style()))
		}
	}
	return c.Print(b.String())
}

var none = inspect.Estimate{Exact: true}

func estimate(e inspect.Estimate) string {
	switch {
	case e.Exact:
		return show.Count(e.Rows)
	case !e.Rough:
		return "about " + show.Count(rounded(e.Rows))
	case e.Rows > e.AtLeast:
		return "at least " + show.Count(e.AtLeast) + ", perhaps " + show.Count(rounded(e.Rows))
	}
	return "at least " + show.Count(e.AtLeast)
}

// rounded returns a number with the two digits that an estimate may have.
func rounded(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

func opened(x inspect.Explanation) string {
	if len(x.Opened) == 0 {
		return "its key"
	}
	return "its key, " + show.Names(x.Opened)
}

// byCopies says whether copies in index entries answer the query; nothing where they are not scanned.
func byCopies(x inspect.Explanation) string {
	var said []string
	switch {
	case len(x.Copied) == 0 && len(x.Uncopied) == 0:
		return ""
	case len(x.Copied) == 0:
		said = append(said, "no")
	case x.Driver == x.Copied[0]:
		return "yes"
	default:
		said = append(said, "those of "+show.Names(x.Copied))
	}
	if len(x.Uncopied) > 0 {
		said = append(said, "rows are read, since copies lack "+show.Names(x.Uncopied))
	}
	return strings.Join(said, "; ")
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// encode prints an explanation, beside that of a query for all rows.
func (q *tableQuery) encode(c *cli.Call, x, all inspect.Explanation, analyze bool) error {
	type analysis struct {
		Tokens    int `json:"values"`
		Requests  int `json:"requests"`
		Hits      int `json:"found"`
		Discarded int `json:"discarded"`
		Rows      int `json:"rows"`
	}
	line := struct {
		Record      string    `json:"record"`
		Store       string    `json:"store"`
		Table       string    `json:"table"`
		Tenant      string    `json:"tenant,omitempty"`
		Scanned     string    `json:"scanned"`
		Intervals   int       `json:"ranges"`
		Buckets     int       `json:"partitions"`
		Opened      []string  `json:"opened"`
		Copied      []string  `json:"copied,omitempty"`
		Uncopied    []string  `json:"uncopied,omitempty"`
		Sorted      bool      `json:"sorted"`
		Unconverted []string  `json:"unconverted"`
		Changing    []string  `json:"changing,omitempty"`
		Estimate    *int      `json:"estimate,omitempty"`
		AtLeast     *int      `json:"at_least,omitempty"`
		Exact       *bool     `json:"exact,omitempty"`
		Rough       *bool     `json:"rough,omitempty"`
		Nulls       *int      `json:"nulls_estimate,omitempty"`
		NullsExact  *bool     `json:"nulls_exact,omitempty"`
		All         *int      `json:"table_estimate,omitempty"`
		AllExact    *bool     `json:"table_exact,omitempty"`
		Analysis    *analysis `json:"analysis,omitempty"`
	}{
		Record: "explanation", Store: c.ShownStore(), Table: c.Arg(), Tenant: q.tenant, Scanned: x.Driver, Intervals: x.Intervals, Buckets: x.Buckets,
		Opened: append([]string{}, x.Opened...), Copied: x.Copied, Uncopied: x.Uncopied, Sorted: x.Sorted, Unconverted: append([]string{}, x.Unconverted...),
		Changing: x.Changing,
	}
	if analyze {
		line.Analysis = &analysis{x.Tokens, x.Requests, x.Hits, x.Discarded, x.Rows}
	} else {
		line.Estimate, line.AtLeast, line.Exact, line.Rough = &x.Estimate.Rows, &x.Estimate.AtLeast, &x.Estimate.Exact, &x.Estimate.Rough
		line.All, line.AllExact = &all.Estimate.Rows, &all.Estimate.Exact
		if x.Nulls != none {
			line.Nulls, line.NullsExact = &x.Nulls.Rows, &x.Nulls.Exact
		}
	}
	return c.Encode(line)
}
