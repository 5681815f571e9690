package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/report"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

const defaultScheme = "mope"

type insertOptions struct {
	command.Data
	command.Load
	cli.Kept
	scheme string
	layout string
	tenant string
	goOn   string // the name of the load
	json   bool
}

func newInsert(e *cli.Env) *cobra.Command {
	opts := &insertOptions{}
	cmd := &cobra.Command{
		Use:   "insert",
		Short: "Insert values into a store that is kept",
		Long: `Insert encrypts values and adds them to what the store holds under the scheme. A store
or table that does not exist is made. Equal values are kept apart. A table holds the
values of one column: another one is refused.

All of the input is read before anything is written. If more rows are bad than --max-bad
allows, the first of them are named and nothing is inserted. A number, date or timestamp
that does not fit the type which was guessed from the first rows is always an error.

An insertion has a name, which is printed before the first row is written. When it was
interrupted, the same command with --load and that name goes on: rows that are there
already are written over, so that none is lost and none is there twice. Rows that are
there already and are not those of the input are noticed, and nothing is written.

Numbers are decimal, as 007, +6, -12.50, 1e6 and inf; dates are like 2024-02-29, and
timestamps like 2024-02-29T12:00:00Z, down to microseconds and in UTC unless they say
another offset. Blanks around a cell do not count. A row has at most 1,048,576 bytes.

With --tenant the values are those of a tenant, which 'rangecrypt tenant create' makes.`,
		Example: `  opebench insert --store pebble:data --key bench.key --n 100000
  opebench insert --store pebble:data --key bench.key --input flights.csv --column delay
  opebench insert --store pebble:data --key bench.key --input flights.csv --column delay \
    --skip-bad --max-bad 20 --load 2b4d594c97ff08a5`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return insert(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.Kept.Bind(f)
	f.StringVar(&opts.scheme, "scheme", defaultScheme, "the scheme, by `name`:\n"+command.SchemeHelp()+"\n")
	f.StringVar(&opts.layout, "layout", "", command.LayoutHelp())
	command.OfferTargets(f)
	f.StringVar(&opts.tenant, "tenant", "", "`name` of the tenant whose values these are, of a table with tenants")
	opts.Data.Bind(f)
	opts.Load.Bind(f)
	f.StringVar(&opts.goOn, "load", "", "`name` of an interrupted insertion to go on with, 16 hexadecimal digits;\nthe input must be the same")
	f.BoolVar(&opts.json, "json", false, cli.OneLine)
	return cmd
}

func (o *insertOptions) check() error {
	if err := o.Kept.Check(); err != nil {
		return err
	}
	if _, err := benchtable.TargetOf(o.scheme, benchtable.Layout(o.layout)); err != nil {
		return err
	}
	return o.Load.Check()
}

func loadText(load uint64) string { return fmt.Sprintf("%016x", load) }

// loadName returns the name of the insertion.
func (o *insertOptions) loadName() (uint64, error) {
	if o.goOn == "" {
		return loads.NewName(), nil
	}
	name, err := strconv.ParseUint(o.goOn, 16, 64)
	if err != nil || len(o.goOn) != 16 {
		return 0, exit.Usagef("--load %q is no name of an insertion: these have 16 hexadecimal digits", o.goOn)
	}
	return name, nil
}

func insert(ctx context.Context, e *cli.Env, opts *insertOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	load, err := opts.loadName()
	if err != nil {
		return err
	}
	source, limit, err := opts.Source(e)
	if err != nil {
		return nothingInserted(err)
	}
	// A scheme that takes no such values makes no store.
	if _, err := benchtable.SchemeID(opts.scheme, source.Kind()); err != nil {
		return err
	}
	key, err := e.ReadKey(opts.Key)
	if err != nil {
		return err
	}
	progress := e.Progress()
	// All of the input is read before anything is written, so that a bad cell loses nothing.
	input, err := bench.Count(ctx, source, limit, progress)
	if err != nil {
		return exit.Early(ctx, nothingInserted(err))
	}
	if input.Rows == 0 {
		return values.NoValues(source)
	}

	create := opts.tenant == "" // one that does not exist has no tenant
	store, db, err := openTables(ctx, e, opts.Kept, key, create, opts.tenant)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	table, info, err := store.OpenOrCreate(ctx, benchtable.Target{Scheme: opts.scheme, Layout: benchtable.Layout(opts.layout)}, source.Kind(), source.Column())
	if err != nil {
		return exit.Early(ctx, err)
	}
	skipped := command.Skipped(source)
	source = bench.Unchanged(source, input)
	var there *int // of the rows of a load that is to go on
	if opts.goOn != "" {
		n, err := bench.CheckLoad(ctx, table, info.Kind, store.Load(load), source, limit, progress)
		if err != nil {
			return exit.Early(ctx, fmt.Errorf("--load %s: %w", loadText(load), err))
		}
		there = &n
		e.Warn("%d of %d rows of this load are there%s", n, input.Rows, hintOfNone(n))
	}
	if err := opts.announce(e, load, input.Rows, there); err != nil {
		return err
	}
	start := time.Now()
	done, err := bench.Insert(ctx, table, store.Load(load), source, limit, opts.Batch, opts.Writers, progress)
	l := loaded{name: loadText(load), rows: done, elapsed: time.Since(start), skipped: skipped, complete: err == nil, atLeast: bench.Unsure(err)}
	if err != nil {
		next := fmt.Sprintf("the same command with --load %s goes on", l.name)
		if errors.Is(err, bench.ErrChanged) && !errors.Is(err, bench.ErrGrown) {
			next = fmt.Sprintf("they may be of the input as it was and as it is by now, so that this load cannot go on. No command removes them alone: "+
				"'rangecrypt table drop %s' removes the table with all of its rows, after which the input can be inserted again", info.Name())
		}
		e.Warn("%s%d of %d rows were inserted; %s", l.atLeastText(), done, input.Rows, next)
		err = exit.Early(ctx, err)
	}
	if n, ok := table.IndexStats(); ok {
		l.index = &n
	}
	return errors.Join(err, opts.report(e, info, l))
}

// nothingInserted adds that to an error about the input.
func nothingInserted(err error) error {
	if errors.Is(err, values.ErrInput) {
		err = fmt.Errorf("%w; nothing was inserted", err)
	}
	return err
}

// hintOfNone says what to look for where no row of a load is there.
func hintOfNone(there int) string {
	if there > 0 {
		return ""
	}
	return "; is the name of the load right? All rows are inserted"
}

// announce prints the name of the insertion, and how to go on with it if the process is killed.
func (o *insertOptions) announce(e *cli.Env, load uint64, rows int, there *int) error {
	if o.json {
		return e.Encode(struct {
			Record string `json:"record"`
			Load   string `json:"load"`
			Rows   int    `json:"rows"`
			There  *int   `json:"rows_there,omitempty"` // if --load is given
		}{"load", loadText(load), rows, there})
	}
	return e.Print(fmt.Sprintf("load %s: if it is interrupted, the same command with --load and this name goes on\n", loadText(load)))
}

// A loaded is what came of an insertion.
type loaded struct {
	name     string
	rows     int
	skipped  int
	elapsed  time.Duration
	index    *bench.IndexStats // of a scheme that has one
	complete bool
	atLeast  bool // more rows may be there than are counted
}

func (l loaded) atLeastText() string {
	if l.atLeast {
		return "at least "
	}
	return ""
}

func (o *insertOptions) report(e *cli.Env, info bench.Info, l loaded) error {
	rate := float64(l.rows) / max(l.elapsed.Seconds(), 1e-9)
	if o.json {
		return e.Encode(struct {
			Record   string            `json:"record"`
			Store    string            `json:"store"`
			Scheme   string            `json:"scheme"`
			Layout   string            `json:"layout"`
			Tenant   string            `json:"tenant,omitempty"`
			SchemeID string            `json:"scheme_id"`
			Type     string            `json:"type"`
			Column   json.RawMessage   `json:"column"`
			Rows     int               `json:"rows"`
			Skipped  int               `json:"skipped"`
			Elapsed  int64             `json:"elapsed_ns"`
			Rate     float64           `json:"rows_per_s"`
			Load     string            `json:"load"`
			Index    *report.IndexJSON `json:"index,omitempty"`
			Complete bool              `json:"complete"`
			AtLeast  bool              `json:"at_least,omitempty"` // of rows
		}{"insert", o.Kept.Name, info.Scheme, string(info.Layout), o.tenant, info.SchemeID, info.Kind.Name, jsonText(info.Column), l.rows, l.skipped, l.elapsed.Nanoseconds(), rate, l.name, report.NewIndexJSON(l.index), l.complete, l.atLeast})
	}
	line := fmt.Sprintf("%s%d %s %s inserted under %s in %.2f s (%.0f rows/s), load %s", l.atLeastText(), l.rows, info.Kind.Name, show.Plural(l.rows, "row"), info.Name(), l.elapsed.Seconds(), rate, l.name)
	if o.tenant != "" {
		line += ", tenant " + show.Visible(o.tenant)
	}
	if l.skipped > 0 {
		line += fmt.Sprintf(", %d bad %s left out", l.skipped, show.Plural(l.skipped, "row"))
	}
	if l.index != nil {
		line += "\nindex: " + report.Index(*l.index)
	}
	return e.Print(line + "\n")
}
