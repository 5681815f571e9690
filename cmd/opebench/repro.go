package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/repro"
)

type reproOptions struct {
	figure string
	seed   uint64
	quick  bool
	json   bool
	plots  []string
}

func newRepro(e *env, runF func(context.Context, *env, *reproOptions) error) *cobra.Command {
	opts := &reproOptions{}
	var names []string
	var lines strings.Builder
	for _, f := range repro.Figures() {
		names = append(names, f.Name)
		fmt.Fprintf(&lines, "\n  %-12s %s", f.Name, f.About)
	}
	cmd := &cobra.Command{
		Use:   "repro FIGURE",
		Short: "Repeat the experiment of a figure of a paper, and compare",
		Long: `Repro repeats the experiment behind a figure or a table of a paper on the schemes of
this module. It tells, statement by statement, what of the paper holds here and what
differs, and why.

Figures:` + lines.String(),
		Example: `  opebench repro waage-fig1 --quick
  opebench repro waage-fig2 --plot fig2.svg --plot fig2.png
  opebench repro waage-fig2 --json | jq -r 'select(.record=="point") | [.curve, .x, .y] | @tsv'`,
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
	return cmd
}

func reproduce(ctx context.Context, e *env, opts *reproOptions) error {
	figure, err := repro.Find(opts.figure)
	if err != nil {
		return usagef("%v", err)
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
	result, err := figure.Run(ctx, repro.Config{Seed: opts.seed, Quick: opts.quick, Progress: newProgress(e)})
	if err != nil {
		return interrupted(ctx, fmt.Errorf("%s: %w", figure.Name, err))
	}
	f := report.Figure{Env: report.ThisEnvironment(time.Now()), Figure: figure, Seed: opts.seed, Quick: opts.quick, Result: result}
	if opts.json {
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
