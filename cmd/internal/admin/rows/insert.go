package rows

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/rowload"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

type insertRows struct {
	tabular.Input
	celltext.Flags
	command.Load
	maps, ignored   []string
	tenant          string
	skipBad, dryRun bool
	maxBad, badFile string
	lastWins        bool
	name            string // of a load to go on with
	ttlText         string

	most   values.MaxBad
	values *celltext.Format
	ttl    time.Duration // 0 for what the table says
}

// NewInsert returns the command "table insert".
func NewInsert(e *cli.Env) *cobra.Command {
	o := &insertRows{}
	return cli.Command{
		Use:   "insert NAME",
		Short: "Insert the rows of a file into a table",
		Long: `Insert reads rows from CSV, JSON lines or Parquet and puts them into a table. A row whose
key is there already replaces that row.

Fields go to the columns that have their names; --map names others. A field without a
column is an error, unless --ignore names it. A column without a field is null. A key part
needs a field, but for the tie-breaker: rows without one get one of their own. Those of an
append-only table always do: leave out a field for it with --ignore.

A file is read twice. First every row is checked, and nothing is written if one is bad or
two have one key. --skip-bad or --max-bad leave bad rows out and count them. The standard
input is read once, so that the rows before a bad one may be written, and those before one
with the key of an earlier row. A share of it, as in --max-bad 1%, is known at its end.

A load has a name, which is printed before the first row is written. When it was
interrupted, the same command with --load and that name goes on, so that no row is lost
and none is there twice. Where each row gets a tie-breaker of its own, rows that are there
already are left as they are. In other tables nobody can tell whose they are: they are
written again, and replace what was changed since. What was deleted since comes back.

The name of a load of a file depends on its bytes, the table, the names of its columns and
the flags: with others it is refused. So it is known only when the rows were checked.
A load of the standard input goes on only if the same bytes come again; nobody checks that.

The file of --bad-file gets its name at the end. A load that goes on writes the one that it
left anew, and refuses any other that is there. Where it cannot be written at the end, the
rows are in all the same, and --load with another --bad-file writes it.

In CSV an empty cell without quotes is null, and "" in quotes is the empty text. Times are
as in RFC 3339, and in UTC unless they or --zone say another zone; --time-format reads
others, and numbers. Booleans are true and false, t and f, yes and no, y and n, 1 and 0; of
JSON and Parquet numbers are none. Numbers are decimal; floating point numbers may be inf
and nan, and what is not 0 never becomes 0. Lists and groups of JSON and Parquet are read
nowhere: --ignore leaves such fields out. Of Parquet, pages without compression and those
in snappy, gzip, brotli and zstd are read; those in LZ4 and LZO are refused.

CSV with a header and no rows, and Parquet without rows, are put as 0 rows. An input of 0
bytes is an error: nothing tells it from one that was cut short, or from a command before
a pipe that failed.

Rows of a table with pages are best in the order of its row key: then pages get full. Of
these, --batch sends 4,096 together, and --writers one batch at a time, unless you say.

With --tenant the rows are those of a tenant, which 'rangecrypt tenant create' makes.`,
		Example: `  rangecrypt table insert flights --input flights.csv --store pebble:data --key app.key
  rangecrypt table insert flights --input flights.csv.gz --null NA --map carrier=airline \
    --ignore tailnum --zone America/New_York --store pebble:data --key app.key
  rangecrypt table insert flights --input f.parquet --dry-run --store pebble:data \
    --key app.key
  rangecrypt table insert flights --input flights.csv --skip-bad --max-bad 20 \
    --bad-file bad.jsonl --store pebble:data --key app.key
  zcat flights.csv.gz | rangecrypt table insert flights --input - --format csv \
    --store pebble:data --key app.key`,
		Args: []string{"the name of a table"},
		JSON: "print lines of JSON: the name of the load, and what came of it",
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&o.tenant, "tenant", "", "`name` of the tenant whose rows these are, of a table with tenants")
			o.Input.Bind(f)
			f.StringArrayVar(&o.maps, "map", nil, "`FIELD=COLUMN`: the column of a field with another name; give the flag again for more")
			f.StringArrayVar(&o.ignored, "ignore", nil, "`field` that is left out; give the flag again for more")
			cli.OfferColumns(f, "map")
			o.Flags.BindRead(f)
			f.BoolVar(&o.dryRun, "dry-run", false, "check all rows and write none")
			f.BoolVar(&o.skipBad, "skip-bad", false, "leave out and count bad rows: a value is none of the column's type, or fields are\nmissing or too many")
			f.StringVar(&o.maxBad, "max-bad", "", "fail if more `rows` than this are bad, such as 20 or 0.5% (default with --skip-bad:\n1%, or 10 rows of fewer than 100, but not all; without it: 0)")
			f.StringVar(&o.badFile, "bad-file", "", "write bad rows, if there are any, to this new `file`, as they came and not\nencrypted, with what is wrong; only its owner can read it")
			cli.Writes(f, "bad-file")
			f.StringVar(&o.ttlText, "ttl", "", "let the rows expire this `time` after they are put, such as 30d or 12h30m (default:\nwhat the table says)")
			f.BoolVar(&o.lastWins, "last-wins", false, "of rows with one key put the last; otherwise they are an error: of a file before\nanything is written; of the standard input before the later row is written, if its\nkey is one of the first 262,144 keys, and else at the end, when the last is there")
			o.Load.Bind(f)
			f.StringVar(&o.name, "load", "", "`name` of an interrupted load to go on with; the input must be the same")
		},
		Check: o.check,
		Run:   o.run,
	}.New(e)
}

func (o *insertRows) check(c *cli.Call) (err error) {
	if err := c.Kept.Check(); err != nil {
		return err
	}
	if err := o.Load.Check(); err != nil {
		return err
	}
	if err := cli.Once("ignore", o.ignored); err != nil {
		return err
	}
	switch {
	case o.maxBad != "" && !o.skipBad && c.Flags.Changed("skip-bad"):
		return exit.Usagef("--skip-bad=false and --max-bad contradict each other: give one of them")
	case o.badFile != "" && !o.skipBad && o.maxBad == "" && !o.dryRun:
		return exit.Usagef("--bad-file needs --skip-bad, --max-bad or --dry-run")
	case o.dryRun && o.name != "":
		return exit.Usagef("--dry-run writes nothing, so that there is no load to go on with: leave --load out")
	}
	if o.skipBad {
		o.most = values.DefaultMaxBad()
	}
	if o.maxBad != "" {
		if o.most, err = values.ParseMaxBad(o.maxBad); err != nil {
			return exit.Usagef("--max-bad: %v", err)
		}
		o.skipBad = true
	}
	if o.ttlText != "" {
		if o.ttl, err = schemafile.ParseTTL(o.ttlText); err != nil {
			return exit.Usagef("--ttl: %v", err)
		}
	}
	c.ReadOnly = o.dryRun
	if o.values, err = o.Flags.Format(); err != nil {
		return err
	}
	return o.Input.Check()
}

func (o *insertRows) run(ctx context.Context, c *cli.Call) (err error) {
	tbl, err := o.table(ctx, c)
	if err == nil && !o.dryRun {
		err = migrate.Followed(ctx, c.Store, c.Arg())
	}
	if err != nil {
		return err
	}
	l, err := o.load(c, tbl)
	if err != nil {
		return err
	}
	o.Until(ctx)
	first, err := l.Begin(o.name)
	if err != nil {
		return err
	}
	if o.dryRun {
		first = ""
	}
	if o.badFile != "" {
		if err := l.Bad.ToFile(o.badFile, first, o.name != ""); err != nil {
			return err
		}
	}
	begun, name, done := false, "", rowload.Done{}
	defer func() {
		unkept := l.Bad.Close(begun || o.name == "" && ctx.Err() == nil)
		if unkept != nil && err == nil && begun {
			unkept = o.unkept(unkept, l, done, name)
		}
		err = errors.Join(err, unkept)
	}()
	if !o.Stream() || o.dryRun {
		if err := o.checkRows(ctx, c, l); err != nil || o.dryRun {
			return err
		}
	} else if err := o.Await(); err != nil {
		return fmt.Errorf("%w; nothing was inserted", err)
	}
	secret, err := o.secret(ctx, c)
	if err != nil {
		return exit.Early(ctx, err)
	}
	if name, err = l.Name(o.said(l), secret); err != nil {
		return err
	}
	if !o.Stream() {
		o.tell(c, l)
	}
	if err := o.announce(c, name, l); err != nil {
		return err
	}
	begun = true
	start := time.Now()
	done, err = l.Insert(ctx, target(tbl))
	if o.Stream() && l.Map != nil {
		o.tell(c, l)
	}
	if err != nil {
		c.Warn("%s; %s", counted(done, l, o.Stream()), o.next(err, name))
		err = exit.Early(ctx, err)
	}
	return errors.Join(err, o.report(c, l, done, time.Since(start), name, err == nil))
}

// unkept says, of a load that is complete, what its file of bad rows lacks and how to get it.
func (o *insertRows) unkept(err error, l *rowload.Load, done rowload.Done, name string) error {
	rows, same := done.Rows+done.There, ""
	if o.Stream() {
		same = ", the same bytes"
	}
	return fmt.Errorf("%w; the load is complete, with %d %s in the table, and only the file of the %d bad %s was not written: "+
		"the same command with --load %s%s and another --bad-file writes it", err, rows, show.Plural(rows, "row"), l.Bad.Rows, show.Plural(l.Bad.Rows, "row"), name, same)
}

// table opens the table, for rows that expire where these say when.
func (o *insertRows) table(ctx context.Context, c *cli.Call) (anytable.Table, error) {
	tbl, err := anytable.RowsFor(ctx, c, c.Arg(), o.tenant)
	single, _ := tbl.(*store.Table)
	switch {
	case err != nil:
		return nil, err
	case o.ttl == 0:
		return tbl, nil
	case anytable.IsPaged(tbl):
		return nil, exit.Usagef("--ttl: rows of table %s cannot expire, since they share pages: leave --ttl out", show.Visible(c.Arg()))
	case tbl.Schema().Conditional:
		return nil, exit.Usagef("--ttl: rows of table %s cannot expire, since it is conditional: leave --ttl out", show.Visible(tbl.Schema().Name))
	case tbl.Schema().TTL == 0:
		return nil, exit.Usagef("--ttl: rows of table %s cannot expire: write its schema file with 'table describe --yaml', add 'ttl: by row', and give that to 'table alter'",
			show.Visible(c.Arg()))
	}
	return single.Expiring(o.ttl), nil
}

// load returns the load that the flags ask for.
func (o *insertRows) load(c *cli.Call, tbl anytable.Table) (*rowload.Load, error) {
	schema := tbl.Schema()
	columns, err := o.values.Columns(schema)
	if err != nil {
		return nil, err
	}
	names, err := rowload.NamesOf(columns, schema.AppendOnly, o.maps, o.ignored)
	if err != nil {
		return nil, err
	}
	l := &rowload.Load{
		Input: &o.Input, Names: names, Bar: c.Progress(), SkipBad: o.skipBad, MaxBad: o.most, LastWins: o.lastWins,
		Batch: o.Batch, Writers: o.Writers,
	}
	if anytable.IsPaged(tbl) {
		if !c.Flags.Changed("batch") {
			l.Batch = pagedBatch
		}
		if !c.Flags.Changed("writers") {
			l.Writers = pagedWriters
		}
	}
	for _, p := range schema.Key {
		l.Key = append(l.Key, p.Describe().Name)
	}
	return l, nil
}

// checkRows checks all rows. A dry run ends with that.
func (o *insertRows) checkRows(ctx context.Context, c *cli.Call, l *rowload.Load) error {
	if err := l.Check(ctx); err != nil {
		if ctx.Err() != nil {
			c.Warn("nothing was inserted: the rows were being checked")
			return exit.Early(ctx, err)
		}
		return fmt.Errorf("%w; nothing was inserted", err)
	}
	if o.dryRun {
		o.tell(c, l)
		return o.reportChecked(c, l)
	}
	return nil
}

// secret returns what nobody knows who sees the name of a load, and cannot see the database.
func (o *insertRows) secret(ctx context.Context, c *cli.Call) ([]byte, error) {
	db, d, err := anytable.Describe(ctx, c, c.Arg())
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %q", db.ID, db.Key, d.ID, o.tenant))
	return sum[:], err
}

// said returns the flags that rows depend on, of an input that was checked.
func (o *insertRows) said(l *rowload.Load) string {
	if l.Map == nil {
		return ""
	}
	var fields []string
	for i, f := range l.Map.Fields {
		column := ""
		if c := l.Map.Columns; i < len(c) && c[i] != nil {
			column = c[i].Name
		}
		fields = append(fields, fmt.Sprintf("%q=%q", f, column))
	}
	said := fmt.Sprintf("%s %s", strings.Join(fields, " "), o.Flags.Said())
	if o.ttl != 0 {
		said += fmt.Sprintf(" ttl %d", o.ttl)
	}
	return said
}

// next says how to go on after an error.
func (o *insertRows) next(err error, name string) string {
	switch {
	case errors.Is(err, rowload.ErrChanged):
		return "the input is not what it was, so that this load cannot go on: insert what it is by now as a load of its own"
	case errors.Is(err, rowload.ErrOther):
		return fmt.Sprintf("give load %s the input and flags that it had at first, or leave --load out for a load of its own", name)
	case errors.Is(err, rowload.ErrRefused) && o.skipBad:
		return fmt.Sprintf("the same command with --load %s and a greater --max-bad goes on", name)
	case errors.Is(err, rowload.ErrRefused):
		return fmt.Sprintf("the same command with --load %s and --skip-bad leaves out what the table refuses, and goes on", name)
	case errors.Is(err, store.ErrSchemaChanged):
		return fmt.Sprintf("insert the input again with --map, or --ignore, for that column: rows that are there already are replaced, unless the table has a tie-breaker (load %s)", name)
	case errors.Is(err, tabular.ErrInput):
		return fmt.Sprintf("mend the input, and insert it again: rows that are there already are replaced, unless the table has a tie-breaker (load %s)", name)
	case o.Stream():
		return fmt.Sprintf("the same command with --load %s and the same bytes goes on", name)
	}
	return fmt.Sprintf("the same command with --load %s goes on", name)
}

// tell says what was assumed.
func (o *insertRows) tell(c *cli.Call, l *rowload.Load) {
	sayAssumed(c, o.values)
	if l.Replaces() {
		c.Warn("rows that are there already are written again, and replace what was changed since: their keys are in the input, and do not say which load they are of")
	}
	if n := len(l.Map.Missing); n > 0 {
		c.Warn("no field is for %s %s: null in all rows", show.Plural(n, "column"), strings.Join(visible(l.Map.Missing), ", "))
	}
	if l.Rewrote > 0 && l.LastWins {
		c.Warn("%d %s the key of an earlier one; the last of them is put", l.Rewrote, show.Verb(l.Rewrote, "row has", "rows have"))
	}
}

func visible(names []string) []string {
	names = slices.Clone(names)
	for i, name := range names {
		names[i] = show.Visible(name)
	}
	return names
}

func atLeast(done rowload.Done) string {
	if done.Unsure {
		return "at least "
	}
	return ""
}

// counted says how many rows are there after an error.
func counted(done rowload.Done, l *rowload.Load, stream bool) string {
	read := ""
	if stream {
		read = " read so far"
	}
	text := fmt.Sprintf("%s%d of %d %s%s %s inserted", atLeast(done), done.Rows, l.Rows, show.Plural(l.Rows, "row"), read, show.Verb(l.Rows, "was", "were"))
	if done.There > 0 {
		text += fmt.Sprintf(", and %d %s there already", done.There, show.Verb(done.There, "was", "were"))
	}
	return text
}

// announce prints the name of the load, and how to go on with it if the process is killed.
func (o *insertRows) announce(c *cli.Call, name string, l *rowload.Load) error {
	if c.JSON {
		return c.Encode(struct {
			Record string `json:"record"`
			Load   string `json:"load"`
			Rows   int    `json:"rows,omitempty"` // where they are known
		}{"load", name, l.Rows - l.Bad.Rows})
	}
	return c.Line("load %s: if it is interrupted, the same command with --load and this name goes on", name)
}

type mappedJSON struct {
	Field  string `json:"field"`
	Column string `json:"column,omitempty"`
	Type   string `json:"type,omitempty"`
}

// sayNone says that an input has no rows: it is seldom what was meant.
func (o *insertRows) sayNone(c *cli.Call, l *rowload.Load) {
	if l.Rows == 0 {
		c.Warn("%s has no rows", o.Name())
	}
}

func (o *insertRows) reportChecked(c *cli.Call, l *rowload.Load) error {
	o.sayNone(c, l)
	var mapped []mappedJSON
	var rows [][]string
	for i, f := range l.Map.Fields {
		m := mappedJSON{Field: f}
		row := []string{show.Visible(f), "(ignored)", ""}
		if column := l.Map.Columns[i]; column != nil {
			m.Column, m.Type = column.Name, column.Type
			row = []string{show.Visible(f), show.Visible(column.Name), column.Type}
		}
		mapped, rows = append(mapped, m), append(rows, row)
	}
	if c.JSON {
		return c.Encode(struct {
			Record   string       `json:"record"`
			Store    string       `json:"store"`
			Table    string       `json:"table"`
			Rows     int          `json:"rows"`
			Bad      int          `json:"bad"`
			Repeated int          `json:"repeated"`
			Fields   []mappedJSON `json:"fields"`
			Null     []string     `json:"null_columns,omitempty"`
		}{"checked", c.ShownStore(), c.Arg(), l.Rows, l.Bad.Rows, l.Rewrote, mapped, l.Map.Missing})
	}
	line := fmt.Sprintf("%d %s checked, %d of them %s bad; nothing was written", l.Rows, show.Verb(l.Rows, "row was", "rows were"), l.Bad.Rows, show.Verb(l.Bad.Rows, "is", "are"))
	return c.Print(show.Line(line, c.Style()) + show.Rows([]string{"FIELD", "COLUMN", "TYPE"}, rows, nil, c.Style()))
}

func (o *insertRows) report(c *cli.Call, l *rowload.Load, done rowload.Done, elapsed time.Duration, name string, complete bool) error {
	rate := float64(done.Rows) / max(elapsed.Seconds(), 1e-9)
	if complete {
		o.sayNone(c, l)
	}
	skipped := 0
	if o.skipBad {
		skipped = l.Bad.Rows
	}
	if c.JSON {
		return c.Encode(struct {
			Record   string  `json:"record"`
			Store    string  `json:"store"`
			Table    string  `json:"table"`
			Tenant   string  `json:"tenant,omitempty"`
			Rows     int     `json:"rows"`
			There    int     `json:"rows_there,omitempty"`
			Skipped  int     `json:"skipped"`
			Repeated int     `json:"repeated"`
			Elapsed  int64   `json:"elapsed_ns"`
			Rate     float64 `json:"rows_per_s"`
			Load     string  `json:"load"`
			Complete bool    `json:"complete"`
			AtLeast  bool    `json:"at_least,omitempty"` // of rows
		}{"insert", c.ShownStore(), c.Arg(), o.tenant, done.Rows, done.There, skipped, l.Rewrote, elapsed.Nanoseconds(), rate, name, complete, done.Unsure})
	}
	line := fmt.Sprintf("%s%d %s inserted into %s in %.2f s (%.0f rows/s), load %s", atLeast(done), done.Rows, show.Plural(done.Rows, "row"), command.TableOf(c.Arg(), o.tenant), elapsed.Seconds(), rate, name)
	if done.There > 0 {
		line += fmt.Sprintf(", %d %s there already", done.There, show.Verb(done.There, "row was", "rows were"))
	}
	if skipped > 0 {
		line += fmt.Sprintf(", %d bad %s left out", skipped, show.Plural(skipped, "row"))
	}
	return c.Line("%s", line)
}
