package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/audit"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/ope"
)

type auditOptions struct {
	dataOptions
	schemes        []string
	min, max       string
	aux, auxColumn string
	dist           string
	known, keys    int
	failAbove      float64
	json           bool
	plot           string

	limited bool // --fail-above was given
}

// errLeaky is returned for a column that gives away more than --fail-above allows.
var errLeaky = errors.New("the column gives away too much")

func newAudit(e *env, runF func(context.Context, *env, *auditOptions) error) *cobra.Command {
	opts := &auditOptions{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Tell what a column would give away under each scheme",
		Long: `Audit encrypts a column under fresh keys and attacks it, with no key, as those would
who see the database: the published attacks on order-preserving encryption, for
adversaries who know the column's domain, or how such values are distributed, or some
of its rows, and for a server that has watched queries. It tells how many values they
read, what that means, and whether to use such encryption for the column at all.

What an adversary knows of the distribution is another data set with --aux, or a law
with --dist. With neither, a random half of the rows is known and the other attacked.

Nothing is stored, and no value is printed.`,
		Example: `  opebench audit --input patients.csv --column age
  opebench audit --input patients.csv --column age --aux census.csv --plot age.svg
  opebench audit --input flights.csv --column delay --dist normal:5,30
  opebench audit --input flights.csv --column delay --scheme mope --fail-above 0.10`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("scheme") {
				opts.schemes = audit.Schemes()
			}
			opts.limited = cmd.Flags().Changed("fail-above")
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.dataOptions.bind(f)
	f.StringVar(&opts.min, "min", "", "least `value` of the column's domain (default: of the type)")
	f.StringVar(&opts.max, "max", "", "greatest `value` of the column's domain (default: of the type)")
	f.StringVar(&opts.aux, "aux", "", "CSV `file` with similar values, which the adversary knows")
	f.StringVar(&opts.auxColumn, "aux-column", "", "its column, by `name` or number (default: as --column)")
	f.StringVar(&opts.dist, "dist", "", "the `law` of the values, which the adversary knows:\n"+strings.ReplaceAll(audit.DistHelp(), ", ", "\n"))
	f.StringArrayVar(&opts.schemes, "scheme", nil, "a scheme by `name`, repeatable (default: all):\n"+strings.Join(audit.Schemes(), ", "))
	f.IntVar(&opts.known, "known", 10, "`number` of rows that the third adversary knows, 0 for none")
	f.IntVar(&opts.keys, "keys", 5, "`number` of keys that shares are means over")
	f.Float64Var(&opts.failAbove, "fail-above", 0, "exit with code 5 if more than this `share` of the rows, from 0 to 1,\nis read exactly under one of the schemes")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	f.StringVar(&opts.plot, "plot", "", "draw the result into this `file`, .svg or .png")
	return cmd
}

func (o *auditOptions) check() error {
	for i, name := range o.schemes {
		if err := audit.CheckScheme(name); err != nil {
			return err
		}
		if slices.Contains(o.schemes[:i], name) {
			return usagef("--scheme %s is given twice", name)
		}
	}
	switch {
	case o.aux != "" && o.dist != "":
		return usagef("--aux and --dist both say what the adversary knows: give one of them")
	case o.auxColumn != "" && o.aux == "":
		return usagef("--aux-column is about a file: name it with --aux")
	case o.aux != "" && o.column == "" && o.auxColumn == "":
		return usagef("--aux needs --aux-column, the name or number of the column to read")
	case o.known < 0:
		return usagef("--known is %d, need at least 0", o.known)
	case o.keys < 1 || o.keys > audit.MaxKeys:
		return usagef("--keys is %d, need 1 to %d", o.keys, audit.MaxKeys)
	case o.limited && !(o.failAbove >= 0 && o.failAbove <= 1):
		return usagef("--fail-above is %v, need a share from 0 to 1, such as 0.10", o.failAbove)
	}
	if o.plot != "" {
		if err := report.CheckPlotName(o.plot); err != nil {
			return usagef("--plot: %v", err)
		}
	}
	return nil
}

// domain returns the domain that --min and --max narrow the type's to.
func (o *auditOptions) domain(k bench.Kind) (ope.Domain, error) {
	d := k.Domain
	for _, bound := range []struct {
		flag, text string
		code       *int64
	}{{"--min", o.min, &d.Min}, {"--max", o.max, &d.Max}} {
		if bound.text == "" {
			continue
		}
		code, err := k.Parse(bound.text)
		if err != nil {
			return d, usagef("%s: %v; the column has values of type %s", bound.flag, err, k.Name)
		}
		*bound.code = code
	}
	if d.Validate() != nil {
		return d, usagef("--min is above --max")
	}
	return d, nil
}

func auditColumn(ctx context.Context, e *env, opts *auditOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	source, limit, err := opts.source()
	if err != nil {
		return err
	}
	kind := source.Kind()
	cfg := audit.Config{Kind: kind, Schemes: opts.schemes, Keys: opts.keys, Known: opts.known, Seed: opts.seed, Progress: newProgress(e)}
	if cfg.Domain, err = opts.domain(kind); err != nil {
		return err
	}
	knows := "the other half of the rows"
	if opts.dist != "" {
		if cfg.Dist, err = audit.ParseDist(opts.dist, kind, cfg.Domain); err != nil {
			return err
		}
		knows = opts.dist
	}
	if cfg.Values, err = readAll(ctx, source, limit); err != nil {
		return err
	}
	if opts.aux != "" {
		aux, err := opts.auxSource(kind)
		if err != nil {
			return err
		}
		if cfg.Aux, err = readAll(ctx, aux, 0); err != nil {
			return fmt.Errorf("--aux: %w", err)
		}
		knows = fmt.Sprintf("%d %s", len(cfg.Aux), aux.Describe())
	}
	plot, err := createPlot(opts.plot)
	if err != nil {
		return err
	}
	defer plot.discard()

	found, err := audit.Run(ctx, cfg)
	if err != nil {
		return interrupted(ctx, err)
	}
	a := report.Audit{
		Env: report.ThisEnvironment(time.Now()), Values: source.Describe(), Knows: knows, Seed: opts.seed, Skipped: skipped(source),
		Advice: audit.Advise(found), Report: found,
	}
	worst := 0.0
	if opts.limited {
		a.Limit = &opts.failAbove
		for _, r := range found.Results {
			if f, _ := r.Worst(); f.Exact > opts.failAbove {
				a.Failed = append(a.Failed, r.Scheme)
				worst = math.Max(worst, f.Exact)
			}
		}
	}
	if opts.json {
		err = report.AuditJSON(e.stdout, a)
	} else {
		err = report.AuditTable(e.stdout, a, e.style())
	}
	if err == nil && plot != nil {
		err = plot.save(report.AuditPlot(opts.plot, a))
	}
	if err == nil && len(a.Failed) > 0 {
		err = fmt.Errorf("%w: up to %s of the rows are read exactly under %s, and --fail-above allows %s",
			errLeaky, audit.Percent(worst), strings.Join(a.Failed, ", "), audit.Percent(opts.failAbove))
	}
	return err
}

func (o *auditOptions) auxSource(kind bench.Kind) (bench.Source, error) {
	column := o.auxColumn
	if column == "" {
		column = o.column
	}
	csv, err := o.csvOptions()
	if err != nil {
		return nil, err
	}
	csv.Type = kind.Name
	return bench.OpenCSV(o.aux, column, csv)
}

// readAll returns the values of a source, at most limit of them where that is not 0.
func readAll(ctx context.Context, source bench.Source, limit int) ([]int64, error) {
	var values []int64
	for x, err := range source.Values() {
		if err != nil {
			return nil, err
		}
		if len(values)%4096 == 0 && ctx.Err() != nil {
			return nil, errInterrupted
		}
		if values = append(values, x); len(values) == limit {
			break
		}
		if len(values) > audit.MaxRows {
			return nil, fmt.Errorf("there are more than %d rows, and an audit takes no more: --n takes the first ones", audit.MaxRows)
		}
	}
	return values, nil
}
