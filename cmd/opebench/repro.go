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
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/repro"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

type reproOptions struct {
	loadOptions
	flags   *pflag.FlagSet // that these are bound to
	figure  string
	seed    uint64
	quick   bool
	json    bool
	plots   []string
	store   string
	key     string
	replace bool
	rounds  int
}

func newRepro(e *env, runF func(context.Context, *env, *reproOptions) error) *cobra.Command {
	opts := &reproOptions{}
	var names []string
	var lines strings.Builder
	for _, f := range repro.Figures() {
		names = append(names, f.Name)
		fmt.Fprintf(&lines, "\n  %-17s %s", f.Name, f.About)
	}
	cmd := &cobra.Command{
		Use:   "repro FIGURE",
		Short: "Repeat the experiment of a figure of a paper, and compare",
		Long: `Repro repeats the experiment behind a figure or a table of a paper on the schemes of
this module. It tells, statement by statement, what of the paper holds here and what
differs, and why.

What is measured in a database is so in the one that --store names, one kind at a time;
without it, an embedded store in a temporary directory is used and removed. Network
latency is emulated in this process: between clients and servers, or as a pause before
each call of an embedded store.

Figures:` + lines.String(),
		Example: `  opebench repro waage-fig1 --quick
  opebench repro waage-fig2 --plot fig2.svg --plot fig2.png
  opebench repro waage-fig3 --store cassandra://127.0.0.1/repro --key key --plot fig3.png
  opebench repro waage-fig3 --batch 1 --writers 1 --rounds 6
  opebench repro ppc-fig3 --plot ppc3.svg
  opebench repro securedbaas-fig8 --store cassandra://127.0.0.1/repro --key key
  opebench repro saas-fig8 --store cassandra://10.0.0.1,10.0.0.2,10.0.0.3/repro --key key
  opebench repro waage-fig2 --json |
    jq -r 'select(.record=="point") | [.curve, .x, .y] | @tsv'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one figure: %s", strings.Join(names, ", "))
			}
			opts.figure = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&opts.quick, "quick", false, "fewer repetitions: seconds instead of minutes")
	f.Uint64Var(&opts.seed, "seed", 1, "seed of everything random")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	f.StringArrayVar(&opts.plots, "plot", nil, "draw the figure into this `file`, .svg or .png; repeatable")
	f.StringVar(&opts.store, "store", "", "the `store` (default: a temporary embedded store):\n"+strings.Join(storeKindUsages(), "\n"))
	f.StringVar(&opts.key, "key", "", keyFlagHelp("the store's master key; needed with --store"))
	f.BoolVar(&opts.replace, "replace", false, "drop what the store holds under the schemes")
	f.IntVar(&opts.rounds, "rounds", 0, "`number` of repetitions in a database (default: the figure's own)")
	opts.loadOptions.bind(f)
	opts.flags = f
	return cmd
}

func (o *reproOptions) check(figure repro.Figure) error {
	if !figure.Stored {
		for _, flag := range []string{"store", "key", "replace", "rounds", "batch", "writers"} {
			if o.flags.Changed(flag) {
				return usagef("--%s is about a database, and %s is measured without one", flag, figure.Name)
			}
		}
	}
	if !figure.Drawn && len(o.plots) > 0 {
		return usagef("--plot draws curves, and %s is a table", figure.Name)
	}
	if o.store != "" {
		if err := checkStore(o.store); err != nil {
			return err
		}
		if err := checkKey("--key", o.key); err != nil {
			return err
		}
	} else if o.replace {
		return usagef("--replace is about a store that is kept: name it with --store")
	}
	if o.flags.Changed("rounds") && (o.rounds < 1 || o.rounds > 10_000) {
		return usagef("--rounds is %d, need 1 to 10,000", o.rounds)
	}
	return o.loadOptions.check()
}

// database opens what a figure is measured in; free closes it.
func (o *reproOptions) database(ctx context.Context, e *env) (d repro.Database, free func() error, err error) {
	key, name, remove := store.LocalKMS(ope.GenerateKey()), o.store, func() error { return nil }
	if o.key != "" {
		if key, err = readKey(e, o.key); err != nil {
			return d, nil, err
		}
	}
	d = repro.Database{Name: name, Key: key, Replace: o.replace}
	if name == "" {
		dir, err := os.MkdirTemp("", "opebench-")
		if err != nil {
			return d, nil, fmt.Errorf("make a temporary store: %w", err)
		}
		d.Name, name, remove = temporary, "pebble:"+dir, func() error { return os.RemoveAll(dir) }
	}
	kind, rest, err := splitStore(name)
	if err != nil {
		return d, nil, errors.Join(err, remove())
	}
	if kind.far != nil {
		d.Far = func(ctx context.Context, dial repro.Dial) (driver.DB, error) { return kind.far(ctx, rest, dial) }
	}
	if d.DB, err = e.openStore(ctx, name, true); err != nil {
		return d, nil, errors.Join(err, remove())
	}
	if _, ok := d.DB.(diskUser); ok {
		d.Disk = func(ctx context.Context, fill func(context.Context, driver.DB) error) (map[string]uint64, error) {
			return diskOf(ctx, e, fill)
		}
	}
	if d.Store, err = bench.OpenStore(ctx, d.DB, key, true); err != nil {
		return d, nil, errors.Join(err, d.DB.Close(), remove())
	}
	return d, func() error { return errors.Join(d.DB.Close(), remove()) }, nil
}

// diskOf returns what fill puts into an embedded store, in bytes of the disk by family.
func diskOf(ctx context.Context, e *env, fill func(context.Context, driver.DB) error) (sizes map[string]uint64, err error) {
	dir, err := os.MkdirTemp("", "opebench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	open := func() (driver.DB, error) { return e.openStore(ctx, "pebble:"+dir, true) }
	db, err := open()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fill(ctx, db), db.Close()); err != nil {
		return nil, err
	}
	// Opening it anew brings everything into tables.
	if db, err = open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	names, err := db.Families(ctx)
	if err != nil {
		return nil, err
	}
	user, ok := db.(diskUser)
	if !ok {
		return nil, fmt.Errorf("%T does not tell its size", db)
	}
	sizes = make(map[string]uint64)
	for _, name := range names {
		if sizes[name], err = user.DiskUsage(ctx, name); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

func reproduce(ctx context.Context, e *env, opts *reproOptions) (err error) {
	figure, err := repro.Find(opts.figure)
	if err != nil {
		return usagef("%v", err)
	}
	if err := opts.check(figure); err != nil {
		return err
	}
	var plots []*plotFile
	for i, name := range opts.plots {
		if err := report.CheckPlotName(name); err != nil {
			return usagef("--plot: %v", err)
		}
		if slices.Contains(opts.plots[:i], name) {
			return usagef("--plot %s is given twice", name)
		}
		plot, err := createPlot(name)
		if err != nil {
			return err
		}
		defer plot.discard()
		plots = append(plots, plot)
	}
	cfg := repro.Config{Seed: opts.seed, Quick: opts.quick, Progress: newProgress(e), Rounds: opts.rounds, Batch: opts.batch, Writers: opts.writers}
	if figure.Stored {
		database, free, err := opts.database(ctx, e)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, free()) }()
		cfg.Database = database
	}
	result, err := figure.Run(ctx, cfg)
	if err != nil {
		err = interrupted(ctx, fmt.Errorf("%s: %w", figure.Name, err))
	}
	if result == nil {
		return err
	}
	// What was measured is shown in any case.
	return errors.Join(err, opts.show(e, figure, result, plots))
}

// show prints and draws a result.
func (o *reproOptions) show(e *env, figure repro.Figure, result *repro.Result, plots []*plotFile) (err error) {
	f := report.Figure{Env: report.ThisEnvironment(time.Now()), Figure: figure, Seed: o.seed, Quick: o.quick, Result: result}
	if o.json {
		err = report.FigureJSON(e.stdout, f)
	} else {
		err = report.FigureTable(e.stdout, f, e.style())
	}
	if err != nil {
		return err
	}
	for _, plot := range plots {
		if err := plot.save(report.FigurePlot(plot.name, f)); err != nil {
			return err
		}
	}
	return nil
}
