package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bare"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/report"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

type runOptions struct {
	command.Data
	command.Load
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

func newRun(e *cli.Env) *cobra.Command {
	opts := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Insert values, query ranges, check every answer, compare with plaintext",
		Long: `A scheme is a way to encrypt so that order is kept. Run inserts the same values under
every scheme, each into a table of its own, and asks each for the same ranges. The
schemes take turns, so that other work on the machine slows all of them alike. Run
compares every answer with the values themselves: the rows, their number and their
order. A wrong answer ends the run with exit code 3. All of the input is read before
anything is written, so that a bad cell is found in time.

The value is the first part of the row key, unless --layout says otherwise. Some schemes
encrypt columns only, most since they move ciphertexts: there the value is a column. With
the scheme plain, each scheme is compared with a table of the same layout that is not
encrypted. For kerschbaum that is plain-indexed, which run adds. With bare, all are
compared with rows of the same length that the database's own client library writes.
What plain takes more than bare is what the tables of this module cost. Bare rows are
dropped in the end.

Tree is the alternative to all schemes, for comparison: an encrypted B+tree whose nodes
the client asks for one after the other, from the root down. The database can find
nothing in it, and sees no order. With tree the client remembers what is above the
leaves; with tree-uncached it remembers nothing. Trees are dropped in the end.

Some schemes keep an index in the database; a second table shows what they did to it. A
batch is one write to the index. --batch 1 --writers 1 shows the cost of single values.

Without --store, an embedded store in a temporary directory is used and removed. A run
that is killed leaves it, as opebench-NUMBER in the folder for temporary files, and bare
rows, as opebench-bare-NUMBER beside the store or as a table opebench_bare_NUMBER. Under
the schemes plain and bare these have the values in the clear: remove them yourself.`,
		Example: `  opebench run
  opebench run --n 1000000 --data zipf --scheme plain --scheme mope --scheme boldyreva
  opebench run --scheme plain --scheme kerschbaum --scheme kerschbaum-paper --order bursts
  opebench run --input flights.csv --column delay --skip-bad --plot delay.png
  opebench run --json | jq -r 'select(.record=="result").benchmark' > new.txt`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("scheme") {
				opts.schemes = defaultSchemes
			}
			if !cmd.Flags().Changed("selectivity") {
				opts.selectivities = []float64{0.1, 1, 10}
			}
			return run(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.Data.Bind(f)
	f.StringArrayVar(&opts.schemes, "scheme", nil, "a scheme by `name`, repeatable\n(default "+strings.Join(defaultSchemes, ", ")+"):\n"+command.SchemeHelp()+",\nor bare: the database's client library alone, by row key,\nor tree or tree-uncached: an encrypted tree that the client walks")
	f.StringVar(&opts.layout, "layout", "", command.LayoutHelp())
	command.OfferTargets(f, bench.Bare, bench.Tree, bench.TreeUncached)
	f.StringArrayVar(&opts.stores, "store", nil, "a `store`, repeatable (default: a temporary embedded store):\n"+strings.Join(stores.Usages(), "\n"))
	f.StringVar(&opts.key, "key", "", cli.KeyHelp("the stores' master key; needed with --store"))
	f.BoolVar(&opts.replace, "replace", false, "drop what the store holds under these schemes, and trees that are left of a run that was killed")
	f.IntVar(&opts.queries, "queries", 0, "`number` of range queries (default 200, and fewer of many rows)")
	f.Float64SliceVar(&opts.selectivities, "selectivity", nil, "rows that a query selects, in `per cent` of all; queries take turns (default 0.1,1,10)")
	f.Lookup("selectivity").DefValue = "" // it is in the text
	opts.Load.Bind(f)
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	f.StringVar(&opts.plot, "plot", "", "draw the result into this `file`, .svg or .png")
	cli.Writes(f, "plot")
	return cmd
}

// defaultSchemes are those of a run that names none.
var defaultSchemes = []string{bench.Bare, benchtable.Plain, defaultScheme, "wozniak", "kerschbaum"}

func (o *runOptions) check() error {
	if len(o.schemes) == 0 {
		return exit.Usagef("name a scheme with --scheme")
	}
	if err := errors.Join(cli.Once("scheme", o.schemes), cli.Once("store", o.stores)); err != nil {
		return err
	}
	if o.layout != "" {
		if err := benchtable.CheckLayout(benchtable.Layout(o.layout)); err != nil {
			return err
		}
	}
	if _, err := benchtable.Targets(o.stored(), benchtable.Layout(o.layout)); err != nil {
		if slices.ContainsFunc(o.stored(), func(name string) bool { return benchtable.Baseline(name) == "" }) {
			err = exit.Usagef("%v; and %s, %s and %s, which are no tables", err, bench.Bare, bench.Tree, bench.TreeUncached)
		}
		return err
	}
	if i := slices.IndexFunc(o.schemes, bench.IsTree); i >= 0 && o.layout == string(benchtable.LayoutColumn) {
		return exit.Usagef("%s has its rows in the order of the values, as a row key has, and no columns: leave out --layout", o.schemes[i])
	}
	for _, name := range o.stores {
		if err := stores.Check(name); err != nil {
			return err
		}
	}
	if len(o.stores) > 0 || o.key != "" {
		if err := cli.CheckKey("--key", o.key); err != nil {
			return err
		}
	}
	if len(o.stores) == 0 && o.replace {
		return exit.Usagef("--replace is about a store that is kept: name it with --store")
	}
	if given := o.Changed("queries"); given && o.queries < 1 || o.queries > 1_000_000 {
		return exit.Usagef("--queries is %d, need 1 to 1,000,000", o.queries)
	}
	if len(o.selectivities) == 0 {
		return exit.Usagef("--selectivity is empty")
	}
	for _, s := range o.selectivities {
		if !(s > 0 && s <= 100) {
			return exit.Usagef("--selectivity is %v, need more than 0 and at most 100 per cent", s)
		}
	}
	if err := command.CheckPlot(o.plot); err != nil {
		return err
	}
	return o.Load.Check()
}

// stored returns the schemes of tables.
func (o *runOptions) stored() []string {
	return slices.DeleteFunc(slices.Clone(o.schemes), func(name string) bool { return name == bench.Bare || bench.IsTree(name) })
}

func run(ctx context.Context, e *cli.Env, opts *runOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	source, limit, err := opts.Source(e)
	if err != nil {
		return err
	}
	var key kms.KMS = kms.NewLocal(ope.GenerateKey())
	if opts.key != "" {
		if key, err = e.ReadKey(opts.key); err != nil {
			return err
		}
	}
	plot, err := command.CreatePlot(opts.plot)
	if err != nil {
		return err
	}
	defer plot.Discard()

	cfg := bench.Config{
		Source: source, Limit: limit, Schemes: opts.stored(), Layout: benchtable.Layout(opts.layout), Queries: opts.queries, Batch: opts.Batch, Writers: opts.Writers,
		Seed: opts.Seed, Replace: opts.replace, Progress: e.Progress(),
		Tell: func(text string) { e.Tell(text) },
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
		r, err = runOn(ctx, e, name, key, cfg, opts.schemes)
		if r != nil && len(r.Results) > 0 {
			if name == "" {
				name = temporary
			}
			runs = append(runs, report.Run{
				Env: show.ThisEnvironment(time.Now()), Store: name, Values: source.Describe(), Seed: opts.Seed,
				Selectivities: cfg.Selectivities, Skipped: command.Skipped(source), Report: r,
			})
		}
		if err != nil {
			err = exit.Early(ctx, err)
			break
		}
	}
	// What was measured is shown in any case.
	if len(runs) > 0 {
		show := func() error { return report.Table(e.Report(), runs, e.Style()) }
		if opts.json {
			show = func() error { return report.JSON(e.Report(), runs) }
		}
		err = errors.Join(err, show())
	}
	if err != nil || plot == nil {
		return err
	}
	return plot.Save(report.Plot(opts.plot, runs))
}

// runOn measures on one store, with what is named that is no scheme of tables beside them; the name "" is a temporary one.
func runOn(ctx context.Context, e *cli.Env, name string, key kms.KMS, cfg bench.Config, schemes []string) (r *bench.Report, err error) {
	if name == "" {
		var remove func() error
		if name, remove, err = temporaryStore(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	if slices.Contains(schemes, bench.Bare) {
		cfg.Bare = func(ctx context.Context) (bare.Store, error) { return bareStore(ctx, e, name) }
	}
	openIn := func(ctx context.Context) (driver.DB, error) { return e.OpenStore(ctx, name, stores.How{Create: true}) }
	open := func() (driver.DB, error) { return openIn(ctx) }
	db, err := open()
	if err != nil {
		return nil, err
	}
	cfg.Trees = make(map[string]string)
	for _, scheme := range schemes {
		if bench.IsTree(scheme) {
			cfg.Trees[scheme] = fmt.Sprintf("%s%016x", treePrefix, loads.NewName())
		}
	}
	if len(cfg.Trees) > 0 {
		if err := leftTrees(ctx, e, db, cfg.Replace); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		defer func() { err = errors.Join(err, dropFamilies(ctx, openIn, cfg.Trees)) }()
	}
	store, err := bench.OpenStore(ctx, db, key, true)
	if err == nil {
		r, err = bench.Run(ctx, store, cfg)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return r, err
	}
	if _, ok := db.(diskUser); !ok {
		return r, nil
	}
	// Opening it again brings everything into tables.
	sizes, err := diskUsage(ctx, open)
	for i := range r.Results {
		for _, family := range r.Results[i].Families {
			r.Results[i].DiskBytes += float64(sizes[family]) / float64(r.Rows)
		}
	}
	return r, err
}

// treePrefix begins the names of the families of trees.
const treePrefix = "opebench_tree_"

// leftTrees looks for trees that nobody has dropped, and drops them where that is asked for.
func leftTrees(ctx context.Context, e *cli.Env, db driver.DB, drop bool) error {
	names, err := db.Families(ctx)
	if err != nil {
		return err
	}
	left := 0
	for _, name := range names {
		if !strings.HasPrefix(name, treePrefix) {
			continue
		}
		if left++; drop {
			err = errors.Join(err, db.Drop(ctx, name))
		}
	}
	if left > 0 && !drop {
		e.Tell(fmt.Sprintf("the store has trees of a run that was killed, or of one that goes on: %d; --replace drops them", left))
	}
	return err
}

// dropFamilies removes what was made to compare, also where the run was interrupted.
func dropFamilies(ctx context.Context, open func(context.Context) (driver.DB, error), names map[string]string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	db, err := open(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		err = errors.Join(err, db.Drop(ctx, name))
	}
	return errors.Join(err, db.Close())
}
