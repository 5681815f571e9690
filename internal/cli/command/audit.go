package command

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/audit"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/ope"
)

type auditOptions struct {
	Data
	schemes        []string
	min, max       string
	aux, auxColumn string
	dist           string
	known, trials  int
	failAbove      float64
	json           bool
	plot           string

	limited bool // --fail-above was given
}

// trialSeed draws the trials of every audit. A seed that can be chosen could be chosen for its verdict.
const trialSeed = 1

// NewAudit returns the command that says what a column would give away.
func NewAudit(e *cli.Env) *cobra.Command {
	opts := &auditOptions{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what a column would give away under each scheme",
		Long: `Order-preserving encryption shows the database the order of the values. Audit finds out
what somebody could read from that. It encrypts a column under new keys, and runs the
published attacks on the ciphertexts, without a key. There are four adversaries. One
knows which values the column can have, one how such values are distributed, and one
some of the rows. The last is a server that has watched queries. Audit shows how many
values they read, what that means, and whether to use such encryption at all.

What an adversary knows of the distribution is another data set with --aux, or a law
with --dist. With neither, a random half of the rows is known and the other attacked.

Each trial draws new keys, known rows and halves. Shares are medians of all trials. The
verdict and --fail-above are about the worst trial. The verdict is: do not use it, where
more than 10 % are read exactly; take it for rounding, where more than 50 % are known
within 1 %; a part is known, above 1 % exactly or 10 % within 1 %; otherwise, little is
read.

Nothing is stored, and no value is printed.`,
		Example: `  PROGRAM audit --input patients.csv --column age
  PROGRAM audit --input patients.csv --column age --aux census.csv --plot age.svg
  PROGRAM audit --input flights.csv --column delay --dist normal:5,30
  PROGRAM audit --input flights.csv --column delay --scheme mope --fail-above 0.10`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("scheme") {
				opts.schemes = audit.Schemes()
			}
			opts.limited = cmd.Flags().Changed("fail-above")
			return auditColumn(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.Data.Bind(f)
	f.Lookup("seed").Usage = "seed of the generated values; the trials do not depend on it"
	f.StringVar(&opts.min, "min", "", "least `value` of the column's domain (default: of the type)")
	f.StringVar(&opts.max, "max", "", "greatest `value` of the column's domain (default: of the type)")
	f.StringVar(&opts.aux, "aux", "", "CSV `file` with similar values, which the adversary knows")
	f.StringVar(&opts.auxColumn, "aux-column", "", "its column, by `name` or number (default: as --column)")
	f.StringVar(&opts.dist, "dist", "", "the `law` of the values, which the adversary knows:\n"+strings.ReplaceAll(audit.DistHelp(), ", ", "\n"))
	f.StringArrayVar(&opts.schemes, "scheme", nil, "a scheme by `name`, repeatable (default: all):\n"+strings.Join(audit.Schemes(), ", "))
	cli.Offer(f, "scheme", audit.Schemes()...)
	f.IntVar(&opts.known, "known", 10, "`number` of rows that the third adversary knows, 0 for none")
	f.IntVar(&opts.trials, "trials", audit.MinTrials, fmt.Sprintf("`number` of trials, each with a key, known rows and halves of its own: %d to %d", audit.MinTrials, audit.MaxTrials))
	f.Float64Var(&opts.failAbove, "fail-above", 0, "exit with code 5 if more than this `share` of the rows, from 0 to 1,\nis read exactly under one of the schemes in one of the trials")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	f.StringVar(&opts.plot, "plot", "", "draw the result into this `file`, .svg or .png")
	cli.Writes(f, "plot")
	return cmd
}

func (o *auditOptions) check() error {
	for _, name := range o.schemes {
		if err := audit.CheckScheme(name); err != nil {
			return err
		}
	}
	if err := cli.Once("scheme", o.schemes); err != nil {
		return err
	}
	switch {
	case o.aux != "" && o.dist != "":
		return exit.Usagef("--aux and --dist both say what the adversary knows: give one of them")
	case o.auxColumn != "" && o.aux == "":
		return exit.Usagef("--aux-column is about a file: name it with --aux")
	case o.aux != "" && o.Column == "" && o.auxColumn == "":
		return exit.Usagef("--aux needs --aux-column, the name or number of the column to read")
	case o.known < 0:
		return exit.Usagef("--known is %d, need at least 0", o.known)
	case o.trials < audit.MinTrials || o.trials > audit.MaxTrials:
		return exit.Usagef("--trials is %d, need %d to %d", o.trials, audit.MinTrials, audit.MaxTrials)
	case o.limited && !(o.failAbove >= 0 && o.failAbove <= 1):
		return exit.Usagef("--fail-above is %v, need a share from 0 to 1, such as 0.10", o.failAbove)
	}
	return CheckPlot(o.plot)
}

// domain returns the domain that --min and --max narrow the type's to.
func (o *auditOptions) domain(k values.Kind) (ope.Domain, error) {
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
			return d, exit.Usagef("%s: %v; the column has values of type %s", bound.flag, err, k.Name)
		}
		*bound.code = code
	}
	if d.Validate() != nil {
		return d, exit.Usagef("--min is above --max")
	}
	return d, nil
}

func auditColumn(ctx context.Context, e *cli.Env, opts *auditOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	source, limit, err := opts.Source(e)
	if err != nil {
		return err
	}
	kind := source.Kind()
	cfg := audit.Config{Kind: kind, Schemes: opts.schemes, Trials: opts.trials, Known: opts.known, Seed: trialSeed, Progress: e.Progress()}
	if cfg.Domain, err = opts.domain(kind); err != nil {
		return err
	}
	knows := "the other half of the rows, in each trial another"
	if opts.dist != "" {
		if cfg.Dist, err = audit.ParseDist(opts.dist, kind, cfg.Domain); err != nil {
			return err
		}
		knows = opts.dist
	}
	if cfg.Values, err = readAll(ctx, source, limit); err != nil {
		return err
	}
	if len(cfg.Values) == 0 {
		return values.NoValues(source)
	}
	auxSkipped := 0
	if opts.aux != "" {
		aux, err := opts.auxSource(e, kind)
		if err != nil {
			return err
		}
		if cfg.Aux, err = readAll(ctx, aux, 0); err != nil {
			return fmt.Errorf("--aux: %w", err)
		}
		knows = fmt.Sprintf("%d %s", len(cfg.Aux), aux.Describe())
		if auxSkipped = Skipped(aux); auxSkipped > 0 {
			knows += fmt.Sprintf(" (%s bad %s left out)", show.Count(auxSkipped), show.Plural(auxSkipped, "row"))
		}
	}
	plot, err := CreatePlot(opts.plot)
	if err != nil {
		return err
	}
	defer plot.Discard()

	found, err := audit.Run(ctx, cfg)
	if err != nil {
		return exit.Early(ctx, err)
	}
	a := auditReport{
		Env: show.ThisEnvironment(time.Now()), Values: source.Describe(), Knows: knows, Seed: opts.Seed, Skipped: Skipped(source), AuxSkipped: auxSkipped,
		Advice: audit.Advise(found), Report: found,
	}
	worst := 0.0
	var failed []string
	if opts.limited {
		a.Limit = &opts.failAbove
		for _, r := range found.Results {
			if f, _ := r.Worst(); f.Exact > opts.failAbove {
				a.Failed = append(a.Failed, r.Scheme)
				failed = append(failed, fmt.Sprintf("%s (%s)", r.Scheme, audit.Percent(f.Exact)))
				worst = math.Max(worst, f.Exact)
			}
		}
	}
	if opts.json {
		err = auditJSON(e.Report(), a)
	} else {
		err = auditTable(e.Report(), a, e.Style())
	}
	if err == nil && plot != nil {
		err = plot.Save(auditPlot(opts.plot, a))
	}
	if err == nil && len(a.Failed) > 0 {
		err = fmt.Errorf("%w: up to %s of the rows are read exactly under %s, and --fail-above allows %s",
			exit.ErrLeaky, audit.Percent(worst), strings.Join(failed, ", "), audit.Percent(opts.failAbove))
	}
	return err
}

func (o *auditOptions) auxSource(e *cli.Env, kind values.Kind) (values.Source, error) {
	column := o.auxColumn
	if column == "" {
		column = o.Column
	}
	return o.OpenCSV(e, o.aux, column, kind.Name, 0)
}

// readAll returns the values of a source, at most limit of them where that is not 0.
func readAll(ctx context.Context, source values.Source, limit int) ([]int64, error) {
	var values []int64
	for x, err := range source.Values() {
		if err != nil {
			return nil, err
		}
		if len(values)%4096 == 0 && ctx.Err() != nil {
			return nil, exit.ErrInterrupted
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
