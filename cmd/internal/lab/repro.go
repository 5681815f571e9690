package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

type reproOptions struct {
	command.Load
	flags   *pflag.FlagSet // that these are bound to
	figure  string
	seed    uint64
	quick   bool
	json    bool
	plots   []string
	html    string
	store   string
	beside  string
	key     string
	replace bool
	rounds  int
}

func newRepro(e *cli.Env) *cobra.Command {
	opts := &reproOptions{}
	var names []string
	var lines strings.Builder
	for _, f := range repro.Figures() {
		names = append(names, f.Name)
		fmt.Fprintf(&lines, "\n  %-17s %s", f.Name, f.About)
	}
	cmd := &cobra.Command{
		Use: "repro FIGURE|all", ValidArgs: append(names, allFigures),
		Short: "Repeat the experiment of a figure of a paper, and compare",
		Long: `Repro repeats the experiment behind a figure or a table of a paper on the schemes of
this module. It says, statement by statement, what of the paper holds here and what
differs, and why. With "all" it repeats one after the other, and writes a page for a
browser that shows them together.

Some figures need a database: --store names it. Without --store, repro makes an embedded
store in a temporary directory, and removes it. Repro itself delays what goes over the
network: between clients and servers, or before each call of an embedded store.

Figures:` + lines.String(),
		Example: `  opebench repro waage-fig1 --quick
  opebench repro all --quick --html figures.html
  opebench repro waage-fig2 --plot fig2.svg --plot fig2.png
  opebench repro waage-fig3 --store cassandra://127.0.0.1/repro --key key --plot fig3.png
  opebench repro waage-fig3 --store cassandra://127.0.0.1/repro --key key \
    --beside hbase://127.0.0.1/repro
  opebench repro waage-fig3 --batch 1 --writers 1 --rounds 6
  opebench repro ppc-fig3 --plot ppc3.svg
  opebench repro securedbaas-fig8 --store cassandra://127.0.0.1/repro --key key
  opebench repro saas-fig8 --store cassandra://10.0.0.1,10.0.0.2,10.0.0.3/repro --key key
  opebench repro waage-fig2 --json |
    jq -r 'select(.record=="point") | [.curve, .x, .y] | @tsv'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("name one figure, or %q: %s", allFigures, strings.Join(names, ", "))
			}
			opts.figure = args[0]
			return reproduce(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&opts.quick, "quick", false, "fewer repetitions: seconds in an embedded store,\nminutes on a server")
	f.Uint64Var(&opts.seed, "seed", 1, "seed of everything random")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	f.StringArrayVar(&opts.plots, "plot", nil, "draw the figure into this `file`, .svg or .png; repeatable")
	f.StringVar(&opts.html, "html", "", "write a page with the figure into this `file`; \"all\" writes one\nin any case: "+allPage+", which must not exist")
	cli.Writes(f, "plot", "html")
	f.StringVar(&opts.store, "store", "", "the `store` (default: a temporary embedded store):\n"+strings.Join(stores.Usages(), "\n"))
	f.StringVar(&opts.beside, "beside", "", "another `store`, measured in turns with --store and compared:\nof "+strings.Join(comparing(), " and "))
	f.StringVar(&opts.key, "key", "", cli.KeyHelp("the store's master key; needed with --store"))
	f.BoolVar(&opts.replace, "replace", false, "drop what the store holds under the schemes")
	f.IntVar(&opts.rounds, "rounds", 0, "`number` of repetitions in a database (default: the figure's own)")
	opts.Load.Bind(f)
	opts.flags = f
	return cmd
}

// comparing returns the names of the figures that take a second store.
func comparing() (names []string) {
	for _, f := range repro.Figures() {
		if f.Beside {
			names = append(names, f.Name)
		}
	}
	return names
}

// Of all figures: how they are asked for, and the page that shows them.
const (
	allFigures = "all"
	allPage    = "figures.html"
)

// figures returns what is asked for.
func (o *reproOptions) figures() ([]experiment.Figure, error) {
	if o.figure == allFigures {
		return repro.Figures(), nil
	}
	figure, err := repro.Find(o.figure)
	if err != nil {
		return nil, exit.Usagef("%v; or name %q", err, allFigures)
	}
	for _, flag := range []string{"store", "beside", "key", "replace", "rounds", "batch", "writers"} {
		if why := without(figure, flag); why != "" && o.flags.Changed(flag) {
			return nil, exit.Usagef("--%s is about %s", flag, why)
		}
	}
	if !figure.Drawn && len(o.plots) > 0 {
		return nil, exit.Usagef("--plot draws curves, and %s is a table", figure.Name)
	}
	return []experiment.Figure{figure}, nil
}

// without says why a figure does not take a flag, or nothing where it does.
func without(figure experiment.Figure, flag string) string {
	switch {
	case flag == "seed":
	case !figure.Stored:
		return fmt.Sprintf("a database, and %s is measured without one", figure.Name)
	case flag == "beside" && !figure.Beside:
		return fmt.Sprintf("two databases, and %s is of one; there is %s", figure.Name, strings.Join(comparing(), ", "))
	case flag == "rounds" && figure.Once:
		return fmt.Sprintf("repetitions, and %s is measured once", figure.Name)
	case flag == "batch" && figure.Loads < experiment.Batched:
		return fmt.Sprintf("rows that are sent together, and %s sends them in its own way", figure.Name)
	case flag == "writers" && figure.Loads < experiment.Written:
		return fmt.Sprintf("batches that are under way together, and %s sends them in its own way", figure.Name)
	}
	return ""
}

func (o *reproOptions) check() error {
	if o.figure == allFigures && len(o.plots) > 0 {
		return exit.Usagef("--plot draws one figure; --html writes a page with all of them")
	}
	if ext := strings.ToLower(filepath.Ext(o.html)); o.html != "" && ext != ".html" && ext != ".htm" {
		return exit.Usagef("--html writes a page, and the name %q does not end in .html", o.html)
	}
	if o.beside != "" {
		switch {
		case o.store == "":
			return exit.Usagef("--beside is compared with --store: name that, too")
		case o.beside == o.store:
			return exit.Usagef("--beside is the same as --store: name another store")
		}
		if err := stores.Check(o.beside); err != nil {
			return err
		}
	}
	if o.store != "" {
		if err := stores.Check(o.store); err != nil {
			return err
		}
		if err := cli.CheckKey("--key", o.key); err != nil {
			return err
		}
	} else if o.key != "" {
		return exit.Usagef("--key is the key of --store: name that, too")
	} else if o.replace {
		return exit.Usagef("--replace is about a store that is kept: name it with --store")
	}
	if o.flags.Changed("rounds") && (o.rounds < 1 || o.rounds > 10_000) {
		return exit.Usagef("--rounds is %d, need 1 to 10,000", o.rounds)
	}
	return o.Load.Check()
}

// database opens what a figure is measured in, the name "" a temporary store; free closes it.
func (o *reproOptions) database(ctx context.Context, e *cli.Env, name string, key kms.KMS) (d experiment.Database, free func() error, err error) {
	remove := func() error { return nil }
	d = experiment.Database{Name: name, Key: key, Replace: o.replace}
	if name == "" {
		d.Name = temporary
		if name, remove, err = temporaryStore(); err != nil {
			return d, nil, err
		}
	}
	if d.Far, err = stores.Far(name, e.AskPassword); err != nil {
		return d, nil, errors.Join(err, remove())
	}
	if d.DB, err = e.OpenStore(ctx, name, stores.How{Create: true}); err != nil {
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

// master returns the key of the stores: one of its own for temporary ones.
func (o *reproOptions) master(e *cli.Env) (kms.KMS, error) {
	if o.key == "" {
		return kms.NewLocal(ope.GenerateKey()), nil
	}
	return e.ReadKey(o.key)
}

// open has the configuration name what a figure is measured in; free closes it.
func (o *reproOptions) open(ctx context.Context, e *cli.Env, figure experiment.Figure, key kms.KMS, cfg *experiment.Config) (free func() error, err error) {
	first, freeFirst, err := o.database(ctx, e, o.store, key)
	if err != nil {
		return nil, err
	}
	cfg.Database = first
	if o.beside == "" || !figure.Beside {
		return freeFirst, nil
	}
	second, freeSecond, err := o.database(ctx, e, o.beside, key)
	if err != nil {
		return nil, errors.Join(err, freeFirst())
	}
	cfg.Beside = &second
	return func() error { return errors.Join(freeSecond(), freeFirst()) }, nil
}

// diskOf returns what fill puts into an embedded store, in bytes of the disk by family.
func diskOf(ctx context.Context, e *cli.Env, fill func(context.Context, driver.DB) error) (sizes map[string]uint64, err error) {
	name, remove, err := temporaryStore()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	open := func() (driver.DB, error) { return e.OpenStore(ctx, name, stores.How{Create: true}) }
	db, err := open()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fill(ctx, db), db.Close()); err != nil {
		return nil, err
	}
	// Opening it again brings everything into tables.
	return diskUsage(ctx, open)
}
