package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

type runOptions struct {
	dataOptions
	loadOptions
	schemes       []string
	layout        string
	stores        []string
	key           string
	replace       bool
	queries       int
	selectivities []float64 // in per cent
	json          bool
	plot          string
}

func newRun(e *env, runF func(context.Context, *env, *runOptions) error) *cobra.Command {
	opts := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Insert values, query ranges, check every answer, compare with plaintext",
		Long: `Run inserts the same values under every scheme, each into a table of its own, and asks
each for the same ranges. The schemes take turns, so that all meet the same weather on
the machine. Every answer is compared with the plaintext: the rows themselves, their
number and their order. A wrong one ends the run with exit code 3. The input is read
once before anything is written, so that a bad cell is found in time.

The value leads the row key, unless --layout says otherwise or the scheme moves its
ciphertexts, which no row key can do: then it is a column. With plain, each scheme is
compared with a table without encryption of the same layout; for kerschbaum that is
plain-indexed, which is added to the run. What schemes did to their indexes stands in
a table of its own. A batch is one commit to an index, in which the values are placed
middle first: --batch 1 --writers 1 shows what their order costs where they come singly.

Without --store, an embedded store in a temporary directory is used and removed.`,
		Example: `  opebench run
  opebench run --n 1000000 --data zipf --scheme plain --scheme mope --scheme boldyreva
  opebench run --scheme plain --scheme kerschbaum --scheme kerschbaum-paper --order bursts
  opebench run --input flights.csv --column delay --skip-bad --plot delay.png
  opebench run --json | jq -r 'select(.record=="result").benchmark' > new.txt`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("scheme") {
				opts.schemes = defaultSchemes
			}
			if !cmd.Flags().Changed("selectivity") {
				opts.selectivities = []float64{0.1, 1, 10}
			}
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.dataOptions.bind(f)
	f.StringArrayVar(&opts.schemes, "scheme", nil, "a scheme by `name`, repeatable\n(default "+strings.Join(defaultSchemes, ", ")+"):\n"+schemeFlagHelp())
	f.StringVar(&opts.layout, "layout", "", layoutFlagHelp())
	f.StringArrayVar(&opts.stores, "store", nil, "a `store`, repeatable (default: a temporary embedded store):\n"+strings.Join(storeKindUsages(), "\n"))
	f.StringVar(&opts.key, "key", "", keyFlagHelp("the stores' master key; needed with --store"))
	f.BoolVar(&opts.replace, "replace", false, "drop what the store holds under these schemes")
	f.IntVar(&opts.queries, "queries", 200, "`number` of range queries")
	f.Float64SliceVar(&opts.selectivities, "selectivity", nil, "rows that a query selects, in `per cent` of all; queries take turns (default 0.1,1,10)")
	f.Lookup("selectivity").DefValue = "" // it is in the text
	opts.loadOptions.bind(f)
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	f.StringVar(&opts.plot, "plot", "", "draw the result into this `file`, .svg or .png")
	return cmd
}

// defaultSchemes are those of a run that names none.
var defaultSchemes = []string{bench.Plain, defaultScheme, "wozniak", "kerschbaum"}

func (o *runOptions) check() error {
	if len(o.schemes) == 0 {
		return usagef("name a scheme with --scheme")
	}
	for i, name := range o.schemes {
		if slices.Contains(o.schemes[:i], name) {
			return usagef("--scheme %s is given twice", name)
		}
	}
	if _, err := bench.Targets(o.schemes, bench.Layout(o.layout)); err != nil {
		return err
	}
	for i, name := range o.stores {
		if err := checkStore(name); err != nil {
			return err
		}
		if slices.Contains(o.stores[:i], name) {
			return usagef("--store %s is given twice", name)
		}
	}
	if len(o.stores) > 0 || o.key != "" {
		if err := checkKey("--key", o.key); err != nil {
			return err
		}
	}
	if len(o.stores) == 0 && o.replace {
		return usagef("--replace is about a store that is kept: name it with --store")
	}
	if o.queries < 1 || o.queries > 1_000_000 {
		return usagef("--queries is %d, need 1 to 1,000,000", o.queries)
	}
	if len(o.selectivities) == 0 {
		return usagef("--selectivity is empty")
	}
	for _, s := range o.selectivities {
		if !(s > 0 && s <= 100) {
			return usagef("--selectivity is %v, need more than 0 and at most 100 per cent", s)
		}
	}
	if o.plot != "" {
		if err := report.CheckPlotName(o.plot); err != nil {
			return usagef("--plot: %v", err)
		}
	}
	return o.loadOptions.check()
}

func run(ctx context.Context, e *env, opts *runOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	source, limit, err := opts.source()
	if err != nil {
		return err
	}
	key := store.LocalKMS(ope.GenerateKey())
	if opts.key != "" {
		if key, err = readKey(e, opts.key); err != nil {
			return err
		}
	}
	plot, err := createPlot(opts.plot)
	if err != nil {
		return err
	}
	defer plot.discard()

	cfg := bench.Config{
		Source: source, Limit: limit, Schemes: opts.schemes, Layout: bench.Layout(opts.layout), Queries: opts.queries, Batch: opts.batch, Writers: opts.writers,
		Seed: opts.seed, Replace: opts.replace, Progress: newProgress(e),
	}
	for _, s := range opts.selectivities {
		cfg.Selectivities = append(cfg.Selectivities, s/100)
	}
	stores := opts.stores
	if len(stores) == 0 {
		stores = []string{""}
	}
	var runs []report.Run
	for _, name := range stores {
		var r *bench.Report
		r, err = runOn(ctx, e, name, key, cfg)
		if r != nil && len(r.Results) > 0 {
			if name == "" {
				name = temporary
			}
			runs = append(runs, report.Run{
				Env: report.ThisEnvironment(time.Now()), Store: name, Values: source.Describe(), Seed: opts.seed,
				Selectivities: cfg.Selectivities, Skipped: skipped(source), Report: r,
			})
		}
		if err != nil {
			err = interrupted(ctx, err)
			break
		}
	}
	// What was measured is shown in any case.
	if len(runs) > 0 {
		show := func() error { return report.Table(e.stdout, runs, e.style()) }
		if opts.json {
			show = func() error { return report.JSON(e.stdout, runs) }
		}
		err = errors.Join(err, show())
	}
	if err != nil || plot == nil {
		return err
	}
	return plot.save(report.Plot(opts.plot, runs))
}

// runOn measures on one store; the name "" is a temporary one.
func runOn(ctx context.Context, e *env, name string, key store.KMS, cfg bench.Config) (r *bench.Report, err error) {
	if name == "" {
		dir, derr := os.MkdirTemp("", "opebench-")
		if derr != nil {
			return nil, fmt.Errorf("make a temporary store: %w", derr)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		name = "pebble:" + dir
	}
	open := func() (driver.DB, error) { return e.openStore(ctx, name, true) }
	db, err := open()
	if err != nil {
		return nil, err
	}
	store, err := bench.OpenStore(ctx, db, key, true)
	if err == nil {
		r, err = bench.Run(ctx, store, cfg)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return r, err
	}
	if _, ok := db.(diskUser); ok {
		// Opening it anew brings everything into tables.
		db, err := open()
		if err != nil {
			return r, err
		}
		for i := range r.Results {
			for _, family := range r.Results[i].Families {
				n, uerr := db.(diskUser).DiskUsage(ctx, family)
				err = errors.Join(err, uerr)
				r.Results[i].DiskBytes += float64(n) / float64(r.Rows)
			}
		}
		return r, errors.Join(err, db.Close())
	}
	return r, nil
}

// A diskUser is a database that knows how much of the disk its families take. The embedded one
// does.
type diskUser interface {
	DiskUsage(ctx context.Context, family string) (uint64, error)
}
