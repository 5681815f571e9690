// Package migration has the commands of "rangecrypt migrate".
package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// New returns the command "migrate".
func New(e *cli.Env) *cobra.Command { return newMigrate(e, openOrigin) }

// newMigrate returns the command with its subcommands.
func newMigrate(e *cli.Env, open opener) *cobra.Command {
	return cli.Group("migrate", "Bring the rows of another table into an encrypted one", `Migrate brings the rows of a table of CQL or HBase, which an application keeps itself, into
an encrypted table, while the application goes on. The encrypted table is made before, with
a row key of the same columns as the primary key and columns of the same names. The rows of
an encrypted table may come into another one so, under other keys. Then:

  1. all writers of the application write through a wrapper (package store/migrate)
  2. prepare checks whether the table fits, and says what it will take
  3. copy copies the rows; what the application writes meanwhile wins over it
  4. verify compares each row, and with --repair mends what differs
  5. cutover: from now on the application reads and writes the encrypted table
  6. verify again, when nothing writes the old table any more, and drop removes it

Status shows how far a migration is. It can be paused, and aborted before the cut-over.
Nothing but drop removes plaintext. Docs/operations.md has a session.`,
		newMigrateSchema(e, open), newMigratePrepare(e, open), newMigrateCopy(e, open), newMigrateVerify(e, open), newMigrateCutover(e, open), newMigrateDrop(e, open),
		newMigrateStatus(e, open), newMigratePause(e, open, true), newMigratePause(e, open, false), newMigrateAbort(e, open))
}

// A Migration is a command on one.
type Migration struct {
	*cli.Call
	open  opener
	from  origin
	Table anytable.Table // while it runs
	keys  keyList
	Into  string // the table's name, where that is no argument: the command is another one, which does all steps

	Within bool // such a command copies a table of the same store
}

// target returns the name of the table that rows come into.
func (m *Migration) target() string { return cmp.Or(m.Into, m.Arg()) }

var theMigrated = []string{"the name of a table"}

func (m *Migration) check(c *cli.Call) error {
	if m.Call = c; m.from.name == "" {
		return exit.Usagef("name the table that rows come from with --from, as cassandra://127.0.0.1/shop.orders")
	}
	return m.from.check()
}

// checkMaybe is check of a step that needs no source, and takes one: so that all steps can be given the same flags.
func (m *Migration) checkMaybe(c *cli.Call) error {
	m.Call = c
	return m.from.check()
}

// meant returns an error if a source is named that is not the one of the migration.
func (m *Migration) meant(ctx context.Context, of *migrate.Migration) error {
	if m.from.name == "" {
		return nil
	}
	if _, err := of.Status(ctx); errors.Is(err, migrate.ErrSource) {
		return err
	}
	return nil // what else is wrong with a source keeps nobody from ending its migration
}

// run calls do with the migration, and closes its source.
func (m *Migration) run(ctx context.Context, do func(*migrate.Migration) error) error {
	tbl, err := anytable.Find(ctx, m.Call, m.Arg())
	if err != nil {
		return err
	}
	m.Table = tbl
	var source migrate.Source
	if m.from.name != "" {
		var end func()
		if source, end, err = m.open(ctx, &m.from, m.Call); err != nil {
			return exit.Early(ctx, err)
		}
		defer end()
	}
	of, err := migrate.Open(ctx, m.Store, m.Arg(), source)
	if err != nil {
		return err
	}
	return exit.Early(ctx, do(of))
}

func newMigratePrepare(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	var plan, goOn bool
	return cli.Command{
		Use:   "prepare TABLE",
		Short: "Check whether the rows fit, show a plan, and begin",
		Long: `Prepare compares the primary key, the columns and their types with the encrypted table,
and encrypts some rows to estimate time and space. What does not fit is printed, and then
nothing begins. With --plan nothing begins in any case.

The encrypted table must be empty. Let all writers of the application write through the
wrapper before rows are copied.`,
		Example: `  rangecrypt migrate prepare orders --from cassandra://127.0.0.1/shop.orders --plan \
      --store cassandra://127.0.0.1/app --key app.key`,
		Args: theMigrated, JSON: cli.OneLine,
		Flags: func(f *pflag.FlagSet) {
			m.from.bind(f)
			f.BoolVar(&plan, "plan", false, "show the plan, begin nothing")
			f.BoolVar(&goOn, "continue", false, "take a table that has rows of an aborted migration;\nnobody may be writing them any more")
		},
		Check: m.check,
		Run: func(ctx context.Context, _ *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error {
				var p migrate.Plan
				var err error
				if plan {
					p, err = of.Plan(ctx)
				} else {
					p, err = of.Prepare(ctx, goOn)
				}
				if p.Source == "" || errors.Is(err, migrate.ErrPhase) { // which says all of what goes on
					return err
				}
				at := "prepared"
				if err != nil || plan {
					s, _ := of.Status(ctx) // which it has also where the source is another one
					at = s.Phase
				}
				shared, other := m.sharers(ctx)
				p.Before = append(p.Before, shared...)
				return errors.Join(err, m.printPlan(p, err == nil && !plan, at), other)
			})
		},
	}.New(e)
}

// sharers says which tables of the store keep the encrypted table that rows come from from being dropped.
func (m *Migration) sharers(ctx context.Context) (todo []string, err error) {
	name, encrypted := strings.CutPrefix(m.from.name, FromTable)
	if !encrypted || m.from.kept.Name != "" {
		return nil, nil
	}
	d, err := m.Store.Describe(ctx)
	for _, t := range d.Tables {
		for owner, c := range KeyOwners(t) {
			if owner == name {
				todo = append(todo, fmt.Sprintf("The column %s of table %s has, or had, the search key of one of its columns, and keeps it from being dropped: drop that table before, or bring its rows into another one.", c.Name, t.Name))
			}
		}
	}
	return slices.Compact(todo), err
}

// printPlan prints a plan, and whether the migration has begun by this call, or is at some phase by another one.
func (m *Migration) printPlan(p migrate.Plan, begun bool, at string) error {
	if m.JSON {
		return m.Encode(struct {
			Record   string   `json:"record"`
			Store    string   `json:"store"`
			Table    string   `json:"table"`
			Source   string   `json:"source"`
			Begun    bool     `json:"begun"`
			Unfit    []string `json:"unfit,omitempty"`
			Unmapped []string `json:"unmapped,omitempty"`
			Notes    []string `json:"notes,omitempty"`
			Before   []string `json:"before_drop,omitempty"`
			Rows     int64    `json:"rows"`
			AtLeast  bool     `json:"at_least"`
			Bytes    int64    `json:"bytes"`
			Sampled  int      `json:"sampled"`
			Refused  int      `json:"refused"`
			Reason   string   `json:"reason,omitempty"` // of the first of them
			Space    int64    `json:"space"`
			Seconds  float64  `json:"seconds"`
		}{"migration_plan", m.ShownStore(), m.Arg(), p.Source, begun, p.Unfit, p.Unmapped, p.Notes, p.Before, p.Rows, p.AtLeast, p.Bytes, p.Sampled, p.Refused, p.Reason, p.Space, p.Time.Seconds()})
	}
	lines := []string{fmt.Sprintf("%s into %s", show.Visible(p.Source), show.Visible(m.Arg()))}
	for _, list := range []struct {
		what string
		all  []string
	}{{"Does not fit", p.Unfit}, {"Cannot be mapped", p.Unmapped}, {"Note", p.Notes}, {"Before drop", p.Before}} {
		for _, text := range list.all {
			lines = append(lines, list.what+": "+printable(text))
		}
	}
	about := "about"
	if p.AtLeast {
		about = "at least"
	}
	if p.Rows > 0 {
		lines = append(lines, fmt.Sprintf("The source has %s %s %s in %s bytes.", about, show.Count(int(p.Rows)), show.Plural(int(p.Rows), "row"), show.Count(int(p.Bytes))))
	}
	if p.Space > 0 {
		lines = append(lines, fmt.Sprintf("The table will take %s %s bytes. One process copies %[1]s %[3]v, if writing takes as long as reading and encrypting.",
			about, show.Count(int(p.Space)), max(p.Time.Round(time.Second), time.Second)))
	}
	if p.Refused > 0 {
		lines = append(lines, fmt.Sprintf("Of the first %d rows the table does not take %d: 'rangecrypt migrate copy' lists such rows. The first: %s.", p.Sampled, p.Refused, printable(p.Reason)))
	}
	switch {
	case begun:
		lines = append(lines, "It is prepared: let all writers write through the wrapper, and then copy.")
	case at != "" && at != "aborted":
		lines = append(lines, fmt.Sprintf("A migration into the table has begun before, and is %s: 'rangecrypt migrate status' shows what comes next.", at))
	case len(p.Unfit)+len(p.Unmapped) == 0:
		lines = append(lines, "Nothing has begun.")
	}
	return m.Line("%s", strings.Join(lines, "\n"))
}

// printable returns a text, in which names are quoted, as it can be printed on a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

func newMigrateCutover(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	return cli.Command{
		Use:   "cutover TABLE",
		Short: "Make the encrypted table the one that the application writes",
		Long: `Cutover ends the dual writes: from now on the wrapper refuses, and the application reads
and writes the encrypted table. It asks for a complete verification without differences
since all was copied. There is no way back.

A table that is conditional, or of pages, loses nothing, whatever still goes on. Before the
cut-over of any other one, stop the writers, or wait until no dual write can be under way:
one that sleeps may otherwise undo what was written after it.`,
		Example: `  rangecrypt migrate cutover orders --from cassandra://127.0.0.1/shop.orders \
      --store cassandra://127.0.0.1/app --key app.key`,
		Args: theMigrated, JSON: cli.OneLine, Yes: true, Flags: m.from.bind, Check: m.check,
		Run: func(ctx context.Context, _ *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error { return m.Cutover(ctx, of) })
		},
	}.New(e)
}

// Cutover ends the use of the source, after a complete verification.
func (m *Migration) Cutover(ctx context.Context, of *migrate.Migration) error {
	question := fmt.Sprintf("Cut table %s over? The wrapper writes no more, and there is no way back.", show.Visible(m.target()))
	if !m.Table.Schema().Conditional && !anytable.IsPaged(m.Table) {
		question = fmt.Sprintf("Cut table %s over? It is not conditional: a dual write that is still under way may undo what is written later. The wrapper writes no more, and there is no way back.", show.Visible(m.target()))
	}
	if err := m.Confirm(ctx, question); err != nil {
		return err
	}
	if err := of.Cutover(ctx); err != nil {
		return err
	}
	return m.printStep("migration_cut_over", "is cut over: write it and no longer the source; then verify again, and drop the source")
}

func (m *Migration) printStep(record, line string) error {
	return m.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table"`
	}{record, m.ShownStore(), m.target()}, fmt.Sprintf("table %s %s", show.Visible(m.target()), line))
}

func newMigrateDrop(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	var late bool
	return cli.Command{
		Use:   "drop TABLE",
		Short: "Remove the source with its plaintext, and list what may remain of it",
		Long: `Drop removes the table that the rows came from. It asks for a complete 'rangecrypt migrate
verify' since the cut-over, made when the source received no writes any more: take the
right to write away from the application before. It reads the write times of all rows
once more. A row that was written after the cut-over, and that the encrypted table has
otherwise, keeps the source; with --late such rows are given up. Clocks of clients must
be right for that. Nothing shows what was deleted in the source after the cut-over.

Then it lists where values may still be in the clear: data files, snapshots, commit logs,
hints, backups. The exit code is 1 while some of them are known to be there. Call it again
to see what is left.`,
		Example: `  rangecrypt migrate drop orders --from cassandra://127.0.0.1/shop.orders \
      --store cassandra://127.0.0.1/app --key app.key`,
		Args: theMigrated, JSON: "print JSON lines", Yes: true,
		Flags: func(f *pflag.FlagSet) {
			m.from.bind(f)
			f.BoolVar(&late, "late", false, "give up rows that were written after the cut-over")
		},
		Check: m.check,
		Run: func(ctx context.Context, c *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error { return m.Drop(ctx, of, late) })
		},
	}.New(e)
}

// Drop drops the source, and lists what may still hold its rows.
func (m *Migration) Drop(ctx context.Context, of *migrate.Migration, late bool) error {
	status, err := of.Status(ctx)
	if err != nil {
		return err
	}
	if status.Phase != "dropped" {
		if err := m.Confirm(ctx, fmt.Sprintf("Drop %s with all its rows? Nothing brings it back.", show.Visible(status.Source))); err != nil {
			return err
		}
	}
	list := &findings{Migration: m}
	remains, err := of.Drop(ctx, late, list.options(false))
	if errors.Is(err, migrate.ErrDiffers) && !late {
		err = fmt.Errorf("%w; %s gives such rows up", err, m.lateFlag(status))
	}
	if err = errors.Join(err, list.failed); err != nil {
		return err
	}
	seen := 0
	for _, r := range remains {
		if r.Seen {
			seen++
		}
		if err := m.printRemain(r); err != nil {
			return err
		}
	}
	if seen > 0 {
		return fmt.Errorf("%s dropped, and values of it may still be in %s that %s known to be there; remove %s, and drop again to see what is left",
			show.Visible(status.Source)+" is", show.Counted(seen, "place"), show.Verb(seen, "is", "are"), show.Verb(seen, "it", "them"))
	}
	has := "has all rows"
	if late {
		has = "has all rows but those that were given up"
	}
	return m.printStep("migration_dropped", has+", and the source is dropped; nothing is known to remain of it")
}

// lateFlag names what gives rows up that were written too late: a flag, or a command with it.
func (m *Migration) lateFlag(s migrate.Status) string {
	if m.Into == "" {
		return "--late"
	}
	from := FromTable + show.Argument(strings.TrimPrefix(s.Source, FromTable))
	if !m.Within {
		from += " --from-store STORE --store " + show.Argument(m.ShownStore())
	}
	return fmt.Sprintf("'rangecrypt migrate drop %s --late --from %s'", show.Argument(m.Into), from)
}

func (m *Migration) printRemain(r migrate.Remain) error {
	known := "possible"
	if r.Seen {
		known = "there"
	}
	return m.Result(struct {
		Record string `json:"record"`
		What   string `json:"what"`
		Where  string `json:"where"`
		Seen   bool   `json:"seen"`
		Advice string `json:"advice"`
	}{"migration_remain", r.What, r.Where, r.Seen, r.Advice}, fmt.Sprintf("%s (%s): %s: %s", r.What, known, show.Visible(r.Where), r.Advice))
}
