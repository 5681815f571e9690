package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
)

type rangeQueryOptions struct {
	keptStore
	scheme   string // "" is the one that the store holds
	layout   string // so is ""
	tenant   string
	from, to *string
	limit    int
	count    bool
	json     bool
}

func newRangeQuery(e *env, runF func(context.Context, *env, *rangeQueryOptions) error) *cobra.Command {
	opts := &rangeQueryOptions{}
	var from, to string
	cmd := &cobra.Command{
		Use:     "range-query",
		Aliases: []string{"query"},
		Short:   "Print the values of a range, in ascending order",
		Long: `Range-query prints the stored values from --from to --to, both included, in ascending
order, as CSV with the column's name in the first row, or as JSON lines. A bound that is
not given is open. A range whose bounds are the wrong way round is empty.

A store that run has filled holds the values under each of the run's schemes: name one
with --scheme.`,
		Example: `  opebench range-query --store pebble:data --key bench.key --from 10 --to 20
  opebench range-query --store pebble:data --key bench.key --from=-5.5 --limit 10 --json
  opebench query --store pebble:data --key bench.key --to 2024-02-29T12:00:00Z --count`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An empty text is a bound, if a wrong one; it is not an open one.
			cmd.Flags().Visit(func(f *pflag.Flag) {
				switch f.Name {
				case "from":
					opts.from = &from
				case "to":
					opts.to = &to
				}
			})
			if err := notEmpty(cmd.Flags(), "tenant"); err != nil {
				return err
			}
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.StringVar(&opts.scheme, "scheme", "", "the scheme, by `name` (default: the one that the store holds values under)")
	f.StringVar(&opts.layout, "layout", "", "the `layout`, key or column (default: as the store holds it)")
	f.StringVar(&opts.tenant, "tenant", "", "`name` of the tenant whose values are meant, of a table with tenants")
	f.StringVar(&from, "from", "", "least `value`, of the column's type")
	f.StringVar(&to, "to", "", "greatest `value`, of the column's type")
	f.IntVar(&opts.limit, "limit", 0, "print at most so many `rows` (default all)")
	f.BoolVar(&opts.count, "count", false, "print the number of rows only")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	return cmd
}

func (o *rangeQueryOptions) check() error {
	if err := o.keptStore.check(); err != nil {
		return err
	}
	if o.scheme != "" {
		if _, err := bench.TargetOf(o.scheme, bench.Layout(o.layout)); err != nil {
			return err
		}
	} else if o.layout != "" {
		if err := bench.CheckLayout(bench.Layout(o.layout)); err != nil {
			return err
		}
	}
	if o.limit < 0 {
		return usagef("--limit is %d, need at least 1, or 0 for all", o.limit)
	}
	return nil
}

func rangeQuery(ctx context.Context, e *env, opts *rangeQueryOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	key, err := readKey(e, opts.key)
	if err != nil {
		return err
	}
	db, err := e.openStore(ctx, opts.store, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := bench.OpenStore(ctx, db, key, false)
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := store.For(ctx, opts.tenant); err != nil {
		return interrupted(ctx, err)
	}
	target, err := opts.target(ctx, store)
	if err != nil {
		return interrupted(ctx, err)
	}
	table, info, err := store.Open(ctx, target)
	if err != nil {
		return interrupted(ctx, err)
	}
	lo, hi := info.Kind.Domain.Min, info.Kind.Domain.Max
	fromOK, toOK := true, true // false: no value is on that side of the bound
	if opts.from != nil {
		if lo, fromOK, err = info.Kind.Low(strings.TrimSpace(*opts.from)); err != nil {
			return usagef("--from: %v; column %q has values of type %s", err, info.Column, info.Kind.Name)
		}
	}
	if opts.to != nil {
		if hi, toOK, err = info.Kind.High(strings.TrimSpace(*opts.to)); err != nil {
			return usagef("--to: %v; column %q has values of type %s", err, info.Column, info.Kind.Name)
		}
	}
	rows := table.Range(ctx, lo, hi, opts.limit)
	if !fromOK || !toOK {
		rows = func(func(bench.Row, error) bool) {}
	}

	out := bufio.NewWriter(e.stdout)
	print, finish := printer(out, info, opts)
	for row, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = print(row)
		}
		if err != nil {
			return errors.Join(interrupted(ctx, err), out.Flush())
		}
	}
	return errors.Join(finish(), out.Flush())
}

// target returns which table is meant: that of the scheme and layout that are given, or the only
// one.
func (o *rangeQueryOptions) target(ctx context.Context, store *bench.Store) (target bench.Target, err error) {
	if o.scheme != "" && o.layout != "" {
		return bench.TargetOf(o.scheme, bench.Layout(o.layout))
	}
	names, err := store.Tables(ctx)
	if err != nil {
		return target, err
	}
	var found []string
	for _, name := range names {
		t, _ := bench.SplitTable(name)
		if (o.scheme == "" || t.Scheme == o.scheme) && (o.layout == "" || string(t.Layout) == o.layout) {
			found, target = append(found, name), t
		}
	}
	switch {
	case len(names) == 0:
		return target, fmt.Errorf("%w: nothing was inserted into this store yet", bench.ErrNoTable)
	case len(found) == 0:
		return target, fmt.Errorf("%w: the store holds no values under %s; it holds %s", bench.ErrNoTable,
			cmp.Or(o.scheme, o.layout), strings.Join(names, ", "))
	case len(found) > 1:
		return target, usagef("the store holds values under %s: name one with --scheme and --layout", strings.Join(found, ", "))
	}
	return target, nil
}

// printer returns what prints a row, and what comes after the last.
func printer(out *bufio.Writer, info bench.Info, opts *rangeQueryOptions) (row func(bench.Row) error, finish func() error) {
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
		name, err := json.Marshal(info.Column)
		return func(r bench.Row) error {
			if err != nil {
				return err
			}
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
	header := w.Write([]string{info.Column})
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
