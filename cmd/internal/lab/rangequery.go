package lab

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
)

type rangeQueryOptions struct {
	cli.Kept
	scheme   string // "" is the one that the store holds
	layout   string // so is ""
	tenant   string
	from, to *string
	limit    int  // 0 is all
	limited  bool // --limit was given
	count    bool
	json     bool
}

func newRangeQuery(e *cli.Env) *cobra.Command {
	opts := &rangeQueryOptions{}
	var from, to string
	cmd := &cobra.Command{
		Use:     "range-query",
		Aliases: []string{"query"},
		Short:   "Print the values of a range, in ascending order",
		Long: `Range-query prints the stored values from --from to --to, both included, in ascending
order, as CSV with the column's name in the first row, or as JSON lines. A bound that is
not given is open, and a number beyond the type is legal. A bound of a floating-point
column is rounded to the nearest value of the type, as the values were, so that --to 0.1
takes what was inserted as 0.1. Years have four digits. A range whose bounds are the wrong
way round is empty.

A store that run has filled holds the values under each of the run's schemes: name one
with --scheme.`,
		Example: `  opebench range-query --store pebble:data --key bench.key --from 10 --to 20
  opebench range-query --store pebble:data --key bench.key --from=-5.5 --limit 10 --json
  opebench query --store pebble:data --key bench.key --to 2024-02-29T12:00:00Z --count`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Flags().Visit(func(f *pflag.Flag) {
				switch f.Name {
				case "from":
					opts.from = &from
				case "to":
					opts.to = &to
				case "limit":
					opts.limited = true
				}
			})
			return rangeQuery(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.Kept.Bind(f)
	f.StringVar(&opts.scheme, "scheme", "", "the scheme, by `name` (default: the one that the store holds values under)")
	f.StringVar(&opts.layout, "layout", "", "the `layout`, key or column (default: as the store holds it)")
	command.OfferTargets(f)
	f.StringVar(&opts.tenant, "tenant", "", "`name` of the tenant whose values are meant, of a table with tenants")
	f.StringVar(&from, "from", "", "least `value`, of the column's type")
	f.StringVar(&to, "to", "", "greatest `value`, of the column's type")
	f.IntVar(&opts.limit, "limit", 0, "print at most so many `rows` (default all)")
	f.BoolVar(&opts.count, "count", false, "print the number of rows only")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	return cmd
}

func (o *rangeQueryOptions) check() error {
	if err := o.Kept.Check(); err != nil {
		return err
	}
	if o.scheme != "" {
		if _, err := benchtable.TargetOf(o.scheme, benchtable.Layout(o.layout)); err != nil {
			return err
		}
	} else if o.layout != "" {
		if err := benchtable.CheckLayout(benchtable.Layout(o.layout)); err != nil {
			return err
		}
	}
	if o.limit < 1 && o.limited {
		return exit.Usagef("--limit is %d, need at least 1; without --limit all rows are printed", o.limit)
	}
	return nil
}

func rangeQuery(ctx context.Context, e *cli.Env, opts *rangeQueryOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	key, err := e.ReadKey(opts.Key)
	if err != nil {
		return err
	}
	store, db, err := openTables(ctx, e, opts.Kept, key, false, opts.tenant)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	target, err := opts.target(ctx, store)
	if err != nil {
		return exit.Early(ctx, err)
	}
	table, info, err := store.Open(ctx, target)
	if err != nil {
		return exit.Early(ctx, err)
	}
	lo, hi := info.Kind.Domain.Min, info.Kind.Domain.Max
	fromOK, toOK := true, true // false: no value is on that side of the bound
	if opts.from != nil {
		if lo, fromOK, err = info.Kind.Low(strings.TrimSpace(*opts.from)); err != nil {
			return exit.Usagef("--from: %v; column %q has values of type %s", err, info.Column, info.Kind.Name)
		}
	}
	if opts.to != nil {
		if hi, toOK, err = info.Kind.High(strings.TrimSpace(*opts.to)); err != nil {
			return exit.Usagef("--to: %v; column %q has values of type %s", err, info.Column, info.Kind.Name)
		}
	}
	unordered, err := table.Unordered(ctx)
	if err != nil {
		return exit.Early(ctx, err)
	}
	rows := table.Range(ctx, lo, hi, opts.limit)
	switch {
	case !fromOK || !toOK:
		rows = func(func(bench.Row, error) bool) {}
	case unordered != "":
		e.Warn("%s; until then all rows of the range are read and sorted", unordered)
		rows = bench.Sorted(ctx, table, lo, hi, opts.limit)
	}

	out := bufio.NewWriter(e.Stdout)
	print, finish := printer(out, info, opts, e.StdoutWidth > 0)
	if opts.count { // rows that are printed may pass through a pipe to the same terminal
		rows = counted(rows, e.Progress())
	}
	for row, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = print(row)
		}
		if err != nil {
			unwritten := out.Flush()
			if errors.Is(unwritten, err) { // it is said once
				unwritten = nil
			}
			return errors.Join(exit.Early(ctx, err), unwritten)
		}
	}
	if err = finish(); err == nil {
		err = out.Flush()
	}
	if err != nil || unordered != "" {
		return err
	}
	// Other rows than the least may have come, if the order ended while they did.
	if unordered, err = table.Unordered(ctx); err == nil && unordered != "" {
		err = fmt.Errorf("%w: %s; run the command again", bench.ErrUnordered, unordered)
	}
	return exit.Early(ctx, err)
}

// counted shows on the progress how many rows have come.
func counted(rows iter.Seq2[bench.Row, error], progress progress.Reporter) iter.Seq2[bench.Row, error] {
	return func(yield func(bench.Row, error) bool) {
		progress.Start("reading", -1)
		defer progress.Done()
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
			progress.Add(1)
		}
	}
}

// target returns which table is meant: that of the scheme and layout that are given, or the only
// one.
func (o *rangeQueryOptions) target(ctx context.Context, store *bench.Store) (target benchtable.Target, err error) {
	if o.scheme != "" && o.layout != "" {
		return benchtable.TargetOf(o.scheme, benchtable.Layout(o.layout))
	}
	names, err := store.Tables(ctx)
	if err != nil {
		return target, err
	}
	var found []string
	for _, name := range names {
		t, _ := benchtable.Split(name)
		if (o.scheme == "" || t.Scheme == o.scheme) && (o.layout == "" || string(t.Layout) == o.layout) {
			found, target = append(found, name), t
		}
	}
	switch {
	case len(names) == 0:
		return target, stores.ErrNoneInserted
	case len(found) == 0:
		return target, fmt.Errorf("%w: the store holds no values under %s; it holds %s", stores.ErrNoTable,
			cmp.Or(o.scheme, o.layout), strings.Join(names, ", "))
	case len(found) > 1:
		return target, exit.Usagef("the store holds values under %s: name one with --scheme and --layout", strings.Join(found, ", "))
	}
	return target, nil
}

// jsonText returns a text in JSON of which nothing moves the cursor of a terminal.
func jsonText(text string) json.RawMessage {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, "\\u%04x", unit)
			}
		}
	}
	b.WriteByte('"')
	return json.RawMessage(b.String())
}

// printer returns what prints a row, and what comes after the last.
func printer(out *bufio.Writer, info bench.Info, opts *rangeQueryOptions, terminal bool) (row func(bench.Row) error, finish func() error) {
	nothing := func() error { return nil }
	switch {
	case opts.count:
		n := 0
		return func(bench.Row) error { n++; return nil }, func() error {
			if opts.json {
				_, err := fmt.Fprintf(out, "{\"count\":%d}\n", n)
				return err
			}
			_, err := fmt.Fprintln(out, n)
			return err
		}
	case opts.json:
		name := jsonText(info.Column)
		return func(r bench.Row) error {
			text, err := info.Kind.Format(r.Value)
			if err != nil {
				return err
			}
			if !info.Kind.JSONNumber(text) {
				quoted, err := json.Marshal(text)
				if err != nil {
					return err
				}
				text = string(quoted)
			}
			_, err = fmt.Fprintf(out, "{%s:%s}\n", name, text)
			return err
		}, nothing
	}
	w := csv.NewWriter(out)
	column := info.Column
	if terminal {
		column = show.Visible(column)
	}
	header := w.Write([]string{column})
	return func(r bench.Row) error {
			if header != nil {
				return header
			}
			text, err := info.Kind.Format(r.Value)
			if err != nil {
				return err
			}
			return w.Write([]string{text})
		}, func() error {
			w.Flush()
			return w.Error()
		}
}
