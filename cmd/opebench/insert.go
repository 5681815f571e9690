package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
)

const defaultScheme = "mope"

type insertOptions struct {
	dataOptions
	loadOptions
	keptStore
	scheme string
	layout string
	tenant string
	load   string
	json   bool
}

func newInsert(e *env, runF func(context.Context, *env, *insertOptions) error) *cobra.Command {
	opts := &insertOptions{}
	cmd := &cobra.Command{
		Use:   "insert",
		Short: "Insert values into a store that is kept",
		Long: `Insert encrypts values and adds them to what the store holds under the scheme. A store
or table that does not exist is made. Equal values are kept apart.

An insertion has a name, which is printed. When it was interrupted, the same command
with --load and that name goes on: rows that are there already are written over, so
that none is lost and none is there twice. The input must be the same.

With --tenant the values are those of a tenant, which 'opebench tenant create' makes.`,
		Example: `  opebench insert --store pebble:data --key bench.key --n 100000
  opebench insert --store pebble:data --key bench.key --input flights.csv --column delay`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd.Flags(), "tenant"); err != nil {
				return err
			}
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.StringVar(&opts.scheme, "scheme", defaultScheme, "the scheme, by `name`:\n"+schemeFlagHelp()+"\n")
	f.StringVar(&opts.layout, "layout", "", layoutFlagHelp())
	f.StringVar(&opts.tenant, "tenant", "", "`name` of the tenant whose values these are, of a table with tenants")
	opts.dataOptions.bind(f)
	opts.loadOptions.bind(f)
	f.StringVar(&opts.load, "load", "", "`name` of an interrupted insertion to go on with")
	f.BoolVar(&opts.json, "json", false, "print the result as a line of JSON")
	return cmd
}

func (o *insertOptions) check() error {
	if err := o.keptStore.check(); err != nil {
		return err
	}
	if _, err := bench.TargetOf(o.scheme, bench.Layout(o.layout)); err != nil {
		return err
	}
	return o.loadOptions.check()
}

// loadName returns the name of the insertion.
func (o *insertOptions) loadName() (uint64, error) {
	if o.load == "" {
		return bench.NewLoad(), nil
	}
	name, err := strconv.ParseUint(o.load, 16, 64)
	if err != nil || len(o.load) != 16 {
		return 0, usagef("--load %q is no name of an insertion: these have 16 hexadecimal digits", o.load)
	}
	return name, nil
}

func insert(ctx context.Context, e *env, opts *insertOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	load, err := opts.loadName()
	if err != nil {
		return err
	}
	source, limit, err := opts.source()
	if err != nil {
		return err
	}
	key, err := readKey(e, opts.key)
	if err != nil {
		return err
	}
	progress := newProgress(e)
	// All of the input is read before anything is written, so that a bad cell loses nothing.
	total, err := bench.Count(ctx, source, limit, progress)
	if err != nil {
		return interrupted(ctx, err)
	}
	if total == 0 {
		return errors.New("the input holds no values")
	}

	db, err := e.openStore(ctx, opts.store, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := bench.OpenStore(ctx, db, key, true)
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := store.For(ctx, opts.tenant); err != nil {
		return interrupted(ctx, err)
	}
	table, info, err := store.OpenOrCreate(ctx, bench.Target{Scheme: opts.scheme, Layout: bench.Layout(opts.layout)}, source.Kind(), source.Column())
	if err != nil {
		return interrupted(ctx, err)
	}
	start := time.Now()
	done, err := bench.Insert(ctx, table, store.Load(load), source, total, opts.batch, opts.writers, progress)
	elapsed := time.Since(start)
	name := fmt.Sprintf("%016x", load)
	if err != nil {
		fmt.Fprintf(e.stderr, "opebench: %d of %d rows were inserted; the same command with --load %s goes on\n", done, total, name)
		err = interrupted(ctx, err)
	}
	var index *bench.IndexStats
	if n, ok := table.IndexStats(); ok {
		index = &n
	}
	return errors.Join(err, opts.report(e, info, source, done, elapsed, name, index, err == nil))
}

func (o *insertOptions) report(e *env, info bench.Info, source bench.Source, rows int, elapsed time.Duration, load string, index *bench.IndexStats, complete bool) error {
	rate := float64(rows) / max(elapsed.Seconds(), 1e-9)
	if o.json {
		return json.NewEncoder(e.stdout).Encode(struct {
			Record   string            `json:"record"`
			Store    string            `json:"store"`
			Scheme   string            `json:"scheme"`
			Layout   string            `json:"layout"`
			Tenant   string            `json:"tenant,omitempty"`
			SchemeID string            `json:"scheme_id"`
			Type     string            `json:"type"`
			Column   string            `json:"column"`
			Rows     int               `json:"rows"`
			Skipped  int               `json:"skipped"`
			Elapsed  int64             `json:"elapsed_ns"`
			Rate     float64           `json:"rows_per_s"`
			Load     string            `json:"load"`
			Index    *report.IndexJSON `json:"index,omitempty"`
			Complete bool              `json:"complete"`
		}{"insert", o.store, info.Scheme, string(info.Layout), o.tenant, info.SchemeID, info.Kind.Name, info.Column, rows, skipped(source), elapsed.Nanoseconds(), rate, load, report.NewIndexJSON(index), complete})
	}
	line := fmt.Sprintf("%d %s rows inserted under %s in %.2f s (%.0f rows/s), load %s", rows, info.Kind.Name, info.Name(), elapsed.Seconds(), rate, load)
	if o.tenant != "" {
		line += ", tenant " + visible(o.tenant)
	}
	if n := skipped(source); n > 0 {
		line += fmt.Sprintf(", %d bad rows left out", n)
	}
	if index != nil {
		line += "\nindex: " + report.Index(*index)
	}
	_, err := fmt.Fprintln(e.stdout, line)
	return err
}
