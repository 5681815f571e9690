package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/report"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/cli/wording"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A reproduction is a run of the command: what it measures, and where it shows that.
type reproduction struct {
	*reproOptions
	env   *cli.Env
	keys  kms.KMS // the key of the stores, which is asked for once
	plots []*command.PlotFile
	html  *command.PlotFile // nil for none
	page  report.Page
}

func reproduce(ctx context.Context, e *cli.Env, opts *reproOptions) (err error) {
	figures, err := opts.figures()
	if err != nil {
		return err
	}
	if err := opts.check(); err != nil {
		return err
	}
	r := &reproduction{reproOptions: opts, env: e}
	defer r.discard()
	if err := r.files(); err != nil {
		return err
	}
	if r.keys, err = opts.master(e); err != nil {
		return err
	}
	if len(figures) > 1 {
		if err := r.try(ctx); err != nil {
			return err
		}
	}
	return r.measureAll(ctx, figures)
}

// try opens the stores that are named: no figure is measured before one that cannot be opened is known.
func (r *reproduction) try(ctx context.Context) error {
	if r.store == "" {
		return nil
	}
	free, err := r.open(ctx, r.env, experiment.Figure{Beside: true}, r.keys, new(experiment.Config))
	if err != nil {
		return exit.Early(ctx, err)
	}
	return free()
}

// measureAll measures figures one after the other, also after one that failed, and writes the page.
func (r *reproduction) measureAll(ctx context.Context, figures []experiment.Figure) (err error) {
	start := time.Now()
	r.page = report.Page{Env: show.ThisEnvironment(start), Command: r.command(r.figure), Seed: r.seed, Quick: r.quick, Of: len(figures)}
	if slices.ContainsFunc(figures, func(f experiment.Figure) bool { return f.Stored }) {
		r.page.Store = stores.Shown(cmp.Or(r.store, temporary))
	}
	for i, figure := range figures {
		if r.together() {
			// Where nobody reads on, no other figure is measured.
			line := show.Line(fmt.Sprintf("%s (%d of %d): %s", figure.Name, i+1, len(figures), figure.About), r.env.Style())
			if _, shown := io.WriteString(r.env.Stdout, line); shown != nil {
				err = errors.Join(err, shown)
				break
			}
		}
		failed, shown := r.measure(ctx, figure)
		err = errors.Join(err, failed, shown)
		if ctx.Err() != nil && !errors.Is(err, exit.ErrInterrupted) && i+1 < len(figures) {
			err = errors.Join(err, exit.ErrInterrupted) // between two figures
		}
		if shown != nil || ctx.Err() != nil {
			break // the page has what there is
		}
	}
	r.page.Took = time.Since(start)
	return errors.Join(err, r.end(len(figures)))
}

// together reports whether figures are printed one after the other, for a reader.
func (r *reproduction) together() bool { return r.figure == allFigures && !r.json }

// measure measures a figure and shows what was measured, which is some of it also where it failed.
func (r *reproduction) measure(ctx context.Context, figure experiment.Figure) (failed, shown error) {
	f := report.PageFigure{Command: r.command(figure.Name)}
	f.Figure = report.Figure{Env: r.page.Env, Figure: figure, Seed: r.seed, Quick: r.quick}
	start := time.Now()
	f.Result, failed = r.run(ctx, figure)
	f.Took = time.Since(start)
	if failed != nil {
		f.Failed = wording.Of(failed)
	}
	r.page.Figures = append(r.page.Figures, f)
	if f.Result == nil {
		return failed, nil
	}
	if r.json {
		shown = report.FigureJSON(r.env.Stdout, f.Figure)
	} else {
		shown = report.FigureTable(r.env.Stdout, f.Figure, r.env.Style())
	}
	if shown == nil && r.together() {
		shown = r.env.Line("")
	}
	for _, plot := range r.plots {
		if shown == nil {
			shown = plot.Save(report.FigurePlot(plot.Name, f.Figure))
		}
	}
	return failed, shown
}

// run measures a figure, in a database of its own unless one is named.
func (r *reproduction) run(ctx context.Context, figure experiment.Figure) (result *experiment.Result, err error) {
	cfg := experiment.Config{Seed: r.seed, Quick: r.quick, Progress: r.env.Progress(), Rounds: r.rounds, Batch: r.Batch, Writers: r.Writers}
	if figure.Stored {
		var free func() error
		if free, err = r.open(ctx, r.env, figure, r.keys, &cfg); err != nil {
			return nil, exit.Early(ctx, fmt.Errorf("%s: %w", figure.Name, err))
		}
		defer func() { err = errors.Join(err, free()) }()
	}
	if result, err = figure.Run(ctx, cfg); err != nil {
		err = exit.Early(ctx, fmt.Errorf("%s: %w", figure.Name, err))
	}
	return result, err
}

// end writes the page, unless nothing was measured: one of an earlier run stays then. figures is how many were to be measured.
func (r *reproduction) end(figures int) error {
	if r.html == nil || !slices.ContainsFunc(r.page.Figures, func(f report.PageFigure) bool { return f.Result != nil }) {
		return nil
	}
	var page bytes.Buffer
	err := report.HTML(&page, r.page)
	if err := r.html.Save(page.Bytes(), err); err != nil {
		return err
	}
	if !r.together() {
		return nil
	}
	v := r.page.Verdicts()
	count := show.Counted(figures, "figure")
	if n := len(r.page.Figures); n < figures {
		count = fmt.Sprintf("%d of %s", n, count)
	}
	return r.env.Line("%s; statements: %d HOLDS, %d DIFFERS, %d UNCLEAR; %s shows them", count, v.Holds, v.Differs, v.Unclear, r.html.Name)
}

// command returns how a figure is asked for again.
func (r *reproduction) command(figure string) string {
	words := []string{"opebench repro", figure}
	if r.quick {
		words = append(words, "--quick")
	}
	one, err := repro.Find(figure)
	for _, flag := range []string{"seed", "store", "beside", "rounds", "batch", "writers"} {
		switch {
		case !r.flags.Changed(flag) || err == nil && without(one, flag) != "":
		case flag == "store":
			words = append(words, "--store", quoted(stores.Shown(r.store)), "--key KEY")
		case flag == "beside":
			words = append(words, "--beside", quoted(stores.Shown(r.beside)))
		default:
			words = append(words, "--"+flag, r.flags.Lookup(flag).Value.String())
		}
	}
	return strings.Join(words, " ")
}

// files makes the files that are written in the end: nothing is measured for a file that cannot be made.
func (r *reproduction) files() error {
	if err := cli.Once("plot", r.reproOptions.plots); err != nil {
		return err
	}
	for _, name := range r.reproOptions.plots {
		if err := draw.CheckName(name); err != nil {
			return exit.Usagef("--plot: %v", err)
		}
		plot, err := command.CreatePlot(name)
		if err != nil {
			return err
		}
		r.plots = append(r.plots, plot)
	}
	name, replace := r.reproOptions.html, true
	if name == "" && r.figure == allFigures {
		name, replace = allPage, false
		if r.inStore(name) {
			return exit.Usagef("%s is in the folder of an embedded store, where the database removes and replaces files: name a file elsewhere with --html", name)
		}
	}
	if name == "" {
		return nil
	}
	html, err := command.CreatePage(name, replace)
	if errors.Is(err, outfile.ErrExists) && !replace {
		return fmt.Errorf("%w; name another file with --html, or that one to replace it", err)
	}
	r.html = html
	return err
}

// inStore reports whether a file, which no flag names, is in the folder of an embedded store.
func (r *reproduction) inStore(name string) bool {
	file := outfile.PlaceOf(name)
	for _, store := range []string{r.store, r.beside} {
		if _, folder := stores.Files(store); folder != "" && file.In(outfile.PlaceOf(folder)) {
			return true
		}
	}
	return file.Store() != ""
}

func (r *reproduction) discard() {
	for _, plot := range r.plots {
		plot.Discard()
	}
	r.html.Discard()
}
