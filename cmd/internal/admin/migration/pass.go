package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// migratedShares is how many shares of a part are read at a time.
const migratedShares = 4

func newMigrateCopy(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	var part command.PartFlag
	return cli.Command{
		Use:   "copy TABLE",
		Short: "Copy the rows, while the application goes on",
		Long: `Copy copies rows that the encrypted table does not have, and makes those that it has what
the source has. What the application writes meanwhile wins over it, deletions included.

It may be stopped at any time; the same command goes on, and repeats at most the part
that was under way. With --part and --parts it does one part, so that a scheduler can
have it done. Parts may be done twice, at the same time, and of cuts that differ.

Rows that the table does not take are listed by a keyed hash of their keys, and the copy
goes on. At its end it sums up the reasons. Change such rows, or the table; then
'rangecrypt migrate verify --repair' brings them. --show-keys writes the keys to a file.
Such rows keep the cut-over from being made, and the exit code is 1.`,
		Example: `  rangecrypt migrate copy orders --from cassandra://127.0.0.1/shop.orders \
      --store cassandra://127.0.0.1/app --key app.key`,
		Args: theMigrated, JSON: "print JSON lines",
		Flags: func(f *pflag.FlagSet) {
			m.from.bind(f)
			m.keys.bind(f)
			part.Bind(f)
		},
		Check: func(c *cli.Call) error { return cmp.Or(m.check(c), part.Check(c.Flags), m.keys.check()) },
		Run: func(ctx context.Context, _ *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error { return m.Copy(ctx, of, part) })
		},
	}.New(e)
}

// Copy copies one part of the rows, or all.
func (m *Migration) Copy(ctx context.Context, of *migrate.Migration, part command.PartFlag) error {
	p := &migrationPass{findings: findings{Migration: m, why: make(map[string]int)}, of: of, record: copied, doing: "copying", do: of.Copy}
	err := p.all(ctx, part)
	err = errors.Join(err, p.sumUp(p.rows.Refused))
	if n := p.rows.Refused; err == nil && n > 0 {
		err = fmt.Errorf("the table does not take %s: %s; the cut-over is not made before", show.Counted(n, "row"), m.remedy(n))
	}
	if err != nil || part.Given() || p.rows != (migrate.Counts{}) {
		return err
	}
	// An earlier call has done all parts.
	if s := p.status; s.Copy.Rows.Refused > 0 && s.Verified.Before(s.Copied) {
		return errors.New("all is copied, but for rows that the table did not take: change them, or the table; then 'rangecrypt migrate verify --repair' brings them")
	}
	return nil
}

func newMigrateVerify(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	var part command.PartFlag
	var repair bool
	return cli.Command{
		Use:   "verify TABLE",
		Short: "Compare each row of the source and of the encrypted table",
		Long: `Verify reads the source and the encrypted table, and compares each row. Rows that differ
are listed by a keyed hash of their keys, and --show-keys writes the keys to a file. With
--repair they become what the source has. The application may go on. The exit code is 3 if
rows differ that are not repaired, or that the table does not take.

After the cut-over it looks for rows of the source that were written later. These went
past the wrapper. 'rangecrypt migrate drop' asks for such a verification.

With --part and --parts it does one part, as 'rangecrypt migrate copy' does.`,
		Example: `  rangecrypt migrate verify orders --repair --from cassandra://127.0.0.1/shop.orders \
      --store cassandra://127.0.0.1/app --key app.key`,
		Args: theMigrated, JSON: "print JSON lines",
		Flags: func(f *pflag.FlagSet) {
			m.from.bind(f)
			f.BoolVar(&repair, "repair", false, "make rows that differ what the source has")
			m.keys.bind(f)
			part.Bind(f)
		},
		Check: func(c *cli.Call) error { return cmp.Or(m.check(c), part.Check(c.Flags), m.keys.check()) },
		Run: func(ctx context.Context, _ *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error { return m.Verify(ctx, of, part, repair) })
		},
	}.New(e)
}

// Verify compares one part of the rows, or all. Rows that differ are an error.
func (m *Migration) Verify(ctx context.Context, of *migrate.Migration, part command.PartFlag, repair bool) error {
	p := &migrationPass{findings: findings{Migration: m}, of: of, record: verified, doing: "verifying", do: of.Verify, repair: repair}
	if err := p.all(ctx, part); err != nil {
		return err
	}
	if !part.Given() { // an earlier call may have found some
		p.rows = p.status.Verify.Rows
		m.compareCounts(p.status)
	}
	if wrong := p.rows.Differs + p.rows.Refused; wrong > 0 {
		err := fmt.Errorf("%w: %s not in the table as the source has %s", exit.ErrWrongAnswer,
			show.Counted(wrong, "row")+" "+show.Verb(wrong, "is", "are"), show.Verb(wrong, "it", "them"))
		if n := p.rows.Refused; m.Into != "" && n > 0 && p.status.CutOver.IsZero() {
			err = fmt.Errorf("%w; the table does not take %s: %s", err, show.Counted(n, "row"), m.remedy(n))
		}
		return err
	}
	return nil
}

// remedy says how rows come into the table that it does not take. A table whose rows come into another one of its store is changed by no
// command meanwhile, and a copy under other keys has the schema of the table: there it has to be taken back.
func (m *Migration) remedy(n int) string {
	into, them := show.Visible(m.target()), show.Verb(n, "it", "them")
	switch {
	case m.Into == "" && strings.HasPrefix(m.from.name, FromTable) && m.from.kept.Name == "":
		return fmt.Sprintf("change %s through the wrapper, or the table %s", them, into)
	case m.Into == "":
		return fmt.Sprintf("change %s, or the table", them)
	case !m.Within:
		return fmt.Sprintf("change %s in the store that rows come from, and give the command again", them)
	}
	from := FromTable + show.Argument(strings.TrimSuffix(m.Into, NextSuffix))
	return fmt.Sprintf("'rangecrypt migrate verify %[1]s --from %[2]s --show-keys FILE' names %[3]s; 'rangecrypt migrate abort %[1]s' and "+
		"'rangecrypt table drop %[1]s' take the copy back; then change %[3]s, or the table, and give the command again", into, from, them)
}

// compareCounts says where the source has as many rows that are equal as the table has not. Rows that expire are gone in between.
func (m *Migration) compareCounts(s migrate.Status) {
	rows := s.Verify.Rows
	only := migrate.Counts{Equal: rows.Equal, Mixed: rows.Mixed, Ignored: rows.Ignored}
	if !s.CutOver.IsZero() || rows != only || rows.Equal == s.Verify.Table || m.Table.Schema().TTL != 0 {
		return
	}
	m.Warn("the source has %s to be in the table, and the table has %s; that is usual while the application writes: where nobody does, do not cut over",
		show.Counted(rows.Equal, "row"), show.Count(s.Verify.Table))
}

// Findings list rows.
type findings struct {
	*Migration
	mu     sync.Mutex
	listed int
	failed error          // of printing
	why    map[string]int // of how many rows each reason was; nil where nobody asks
}

// mostListed is how many rows are listed.
const mostListed = 1000

func (f *findings) options(repair bool) *migrate.PassOptions {
	return &migrate.PassOptions{Repair: repair, Shares: migratedShares, Finding: func(row migrate.Finding) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failed = errors.Join(f.failed, f.keys.add(row))
		if why := row.Err.Error(); f.why != nil && (f.why[why] > 0 || len(f.why) < mostListed) {
			f.why[why]++
		}
		switch f.listed++; {
		case f.listed == mostListed+1:
			f.Warn("more rows are counted, and not listed")
		case f.listed <= mostListed:
			f.failed = errors.Join(f.failed, f.Result(struct {
				Record string `json:"record"`
				Table  string `json:"table"`
				Row    string `json:"row"`
				Error  string `json:"error"`
			}{"migration_row", f.target(), row.Row, row.Err.Error()}, fmt.Sprintf("row %s: %v", cmp.Or(row.Row, "without a key"), row.Err)))
		}
	}}
}

// mostReasons is how many reasons are summed up.
const mostReasons = 10

// sumUp says of how many rows each of the reasons was, most first.
func (f *findings) sumUp(rows int) error {
	reasons := slices.SortedFunc(maps.Keys(f.why), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.why[b], f.why[a]), cmp.Compare(a, b))
	})
	for i, reason := range reasons {
		if i == mostReasons {
			return cmp.Or(f.failed, f.reason("other reasons", rows))
		}
		if err := f.reason(reason, f.why[reason]); err != nil {
			return err
		}
		rows -= f.why[reason]
	}
	return nil
}

func (f *findings) reason(reason string, rows int) error {
	return f.Result(struct {
		Record string `json:"record"`
		Table  string `json:"table"`
		Error  string `json:"error"`
		Rows   int    `json:"rows"`
	}{"migration_reason", f.target(), reason, rows}, fmt.Sprintf("%s: %s", show.Counted(rows, "row"), printable(reason)))
}

// A migrationPass copies or verifies.
type migrationPass struct {
	findings
	of            *migrate.Migration
	record, doing string
	repair        bool
	do            func(context.Context, inspect.Part, *migrate.PassOptions) (migrate.PartDone, error)
	rows          migrate.Counts
	status        migrate.Status  // once all parts are done
	total         *migrate.Counts // what all calls have counted, where others did some of it
}

// all does one part, or all of them.
func (p *migrationPass) all(ctx context.Context, part command.PartFlag) (err error) {
	if err := p.keys.open(p.Table); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.keys.end()) }()
	began := time.Now()
	if part.Given() {
		p.JSON = true
		done, err := p.do(ctx, part.Part, p.options(p.repair))
		p.rows = done.Rows
		return errors.Join(err, p.failed, p.print(&part.Part, done, err == nil, time.Since(began)))
	}
	parts, err := p.of.Parts(ctx)
	if err != nil {
		return err
	}
	begun, over, again, bar := false, false, 0, p.Totals()
	for i := 0; i < parts && err == nil; i++ {
		var done migrate.PartDone
		if done, err = p.do(ctx, inspect.Part{Index: i, Of: parts}, p.options(p.repair)); err == nil {
			begun = true
			bar.At(p.doing+" "+show.Visible(p.target()), i+1, parts)
		}
		p.rows.Add(done.Rows)
		over = over || done.Over
		if done.Again {
			again++
		}
	}
	bar.End()
	if err != nil && ctx.Err() != nil {
		p.Warn("it is not finished; the same command goes on")
	}
	if err != nil && ctx.Err() == nil && !begun && p.rows == (migrate.Counts{}) {
		return errors.Join(err, p.failed) // which says all: there is no result
	}
	var earlier error
	if err == nil {
		earlier = p.countAll(ctx)
	}
	done := migrate.PartDone{Rows: p.rows, Over: over, Again: again == parts}
	return errors.Join(err, earlier, p.failed, p.print(nil, done, err == nil, time.Since(began)))
}

// countAll sets what all calls have counted of the pass, where this one has not counted all.
func (p *migrationPass) countAll(ctx context.Context) (err error) {
	if p.status, err = p.of.Status(ctx); err != nil {
		return err
	}
	all := p.status.Copy.Rows
	if p.record == verified {
		all = p.status.Verify.Rows
	}
	if all != p.rows {
		p.total = &all
	}
	return nil
}

// The records of passes.
const copied, verified = "migration_copied", "migration_verified"

func (p *migrationPass) print(part *inspect.Part, done migrate.PartDone, complete bool, took time.Duration) error {
	if !p.JSON {
		line := countedRows(done.Rows) + map[bool]string{false: "; not finished"}[complete]
		if done.Again {
			line += "; all parts were done before"
		}
		if p.total != nil {
			line += "; in all: " + countedRows(*p.total)
		}
		return p.Line("%s: %s", show.Visible(p.target()), line)
	}
	return p.Encode(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table"`
		*inspect.Part
		migrate.Counts
		Total    *migrate.Counts `json:"total,omitempty"` // of all calls, where some of it was done before
		Again    bool            `json:"again"`           // all of it was done before
		Complete bool            `json:"complete"`
		Over     bool            `json:"over"`
		Seconds  float64         `json:"seconds"`
	}{p.record, p.ShownStore(), p.target(), part, done.Rows, p.total, done.Again, complete, done.Over, took.Seconds()})
}

// countedRows says what became of rows.
func countedRows(c migrate.Counts) string {
	line := fmt.Sprintf("%s copied, %s equal", show.Count(c.Copied), show.Count(c.Equal))
	for _, more := range []struct {
		n    int
		what string
	}{{c.Mended, "made what the source has"}, {c.Differs, "differ"}, {c.Refused, "refused"}, {c.Mixed, "with values that expire at different times"}, {c.Ignored, "of ignored cells only"}} {
		if more.n > 0 {
			line += fmt.Sprintf(", %s %s", show.Count(more.n), more.what)
		}
	}
	return line
}

func newMigrateStatus(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	return cli.Command{
		Use:   "status TABLE",
		Short: "Show how far a migration is",
		Long: `Status shows at which step a migration is, what was counted, and what comes next. With
--from it also looks whether the schema of the source has changed.`,
		Example: `  rangecrypt migrate status orders --store cassandra://127.0.0.1/app --key app.key`,
		Args:    theMigrated, JSON: cli.OneLine, Flags: m.from.bind, Check: m.checkMaybe,
		Run: func(ctx context.Context, _ *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error {
				s, err := of.Status(ctx)
				if err != nil && (s.Phase == "" || errors.Is(err, migrate.ErrSource)) {
					return err
				}
				return errors.Join(m.printStatus(s), err) // which keeps nobody from seeing how far it is
			})
		},
	}.New(e)
}

func (m *Migration) printStatus(s migrate.Status) error {
	if m.JSON {
		type pass struct {
			Began int64   `json:"began,omitempty"` // milliseconds since 1970, as all times
			Done  float64 `json:"done"`
			migrate.Counts
		}
		var changed *bool
		if s.Looked {
			changed = &s.Changed
		}
		milli := func(t time.Time) int64 { return max(0, t.UnixMilli()) }
		return m.Encode(struct {
			Record   string `json:"record"`
			Store    string `json:"store"`
			Table    string `json:"table"`
			Source   string `json:"source"`
			Phase    string `json:"phase"`
			Paused   bool   `json:"paused"`
			Changed  *bool  `json:"source_changed"` // null where nobody looked
			Prepared int64  `json:"prepared"`
			Copied   int64  `json:"copied"`
			Verified int64  `json:"verified"`
			CutOver  int64  `json:"cut_over"`
			Dropped  int64  `json:"dropped"`
			Copy     pass   `json:"copy"`
			Verify   pass   `json:"verify"`
		}{"migration_status", m.ShownStore(), m.Arg(), s.Source, s.Phase, s.Paused, changed, milli(s.Prepared), milli(s.Copied), milli(s.Verified), milli(s.CutOver), milli(s.Dropped),
			pass{milli(s.Copy.Began), s.Copy.Done, s.Copy.Rows}, pass{milli(s.Verify.Began), s.Verify.Done, s.Verify.Rows}})
	}
	if s.Phase == "" {
		return m.Line("%s: no migration was prepared", show.Visible(m.Arg()))
	}
	line := fmt.Sprintf("%s from %s: %s", show.Visible(m.Arg()), show.Visible(s.Source), s.Phase)
	if s.Paused {
		line += ", paused"
	}
	if s.Changed {
		of := "the schema of the source"
		if m.from.mapping != "" {
			of += ", or the mapping,"
		}
		line += "\n" + of + " has changed since"
	}
	switch {
	case s.Looked || !s.CutOver.IsZero() || s.Phase == "aborted":
	case m.from.name == "":
		line += "\nnobody looked whether the schema of the source has changed: name the source with --from"
	default:
		line += "\nthe schema of the source cannot be read"
	}
	line += fmt.Sprintf("\ncopied: %.0f %% of the source%s", 100*s.Copy.Done, soFar(s.Copy))
	if !s.Verify.Began.IsZero() {
		line += fmt.Sprintf("\nverified: %.0f %% since %s%s", 100*s.Verify.Done, s.Verify.Began.UTC().Format(time.RFC3339), soFar(s.Verify))
	}
	return m.Line("%s\n%s", line, next(s))
}

// soFar says what became of the rows of a pass. Of a part that is under way nothing is counted, so that there may be none.
func soFar(p migrate.Pass) string {
	switch {
	case p.Done == 1:
		return "; " + countedRows(p.Rows)
	case p.Rows == (migrate.Counts{}):
		return " so far"
	}
	return " so far; in the parts that are done: " + countedRows(p.Rows)
}

// next says what comes next.
func next(s migrate.Status) string {
	switch {
	case s.Changed:
		return "next: change the schema of the source back; or abort, and prepare again"
	case s.Paused:
		return "next: resume"
	case s.Phase == "aborted":
		return "the application writes the source alone; drop the table, or prepare again with --continue"
	case s.Phase == "dropped":
		return "over; 'rangecrypt migrate drop' lists what remains of the source"
	case s.Phase == "cut over" && s.Verified.IsZero() && s.Verify.Done == 1:
		return "next: write the rows that were written too late into the table, and verify; or 'rangecrypt migrate drop --late' gives them up"
	case s.Phase == "cut over" && s.Verified.IsZero():
		return "next: verify, when nothing writes the source any more; if it was dropped, 'rangecrypt migrate drop --late' ends the migration"
	case s.Phase == "cut over":
		return "next: drop"
	case s.Copied.IsZero():
		return "next: copy"
	case s.Verified.Before(s.Copied) && s.Verify.Done == 1 && s.Verify.Rows.Differs == 0 && s.Verify.Rows.Refused > 0:
		return "next: change the rows that the table does not take, or the table; then verify --repair"
	case s.Verified.Before(s.Copied) && s.Verify.Done == 1 && s.Verify.Rows.Differs > 0:
		return "next: verify --repair"
	case s.Verified.Before(s.Copied):
		return "next: verify"
	}
	return "next: cutover"
}

func newMigratePause(e *cli.Env, open opener, pause bool) *cobra.Command {
	m := &Migration{open: open}
	cmd := cli.Command{
		Use:   "pause TABLE",
		Short: "Let copies and verifications stop; dual writes go on",
		Long: `Pause lets all copies and verifications of a table stop at their next batch, wherever they
run. What they have done stays. Dual writes go on. It needs no --from, and checks one.`,
		Example: `  rangecrypt migrate pause orders --store cassandra://127.0.0.1/app --key app.key`,
		Args:    theMigrated, JSON: cli.OneLine, Flags: m.from.bind, Check: m.checkMaybe,
	}
	done := "is paused"
	if !pause {
		cmd.Use, cmd.Short, done = "resume TABLE", "Let copies and verifications go on", "may be copied and verified again"
		cmd.Long = `Resume ends a pause. Copies and verifications are to be started again, and go on where they
were. It needs no --from, and checks one.`
		cmd.Example = `  rangecrypt migrate resume orders --store cassandra://127.0.0.1/app --key app.key`
	}
	cmd.Run = func(ctx context.Context, _ *cli.Call) error {
		return m.run(ctx, func(of *migrate.Migration) error {
			if err := m.meant(ctx, of); err != nil {
				return err
			}
			if err := of.Pause(ctx, pause); err != nil {
				return err
			}
			return m.printStep("migration_"+map[bool]string{true: "paused", false: "resumed"}[pause], done)
		})
	}
	return cmd.New(e)
}

func newMigrateAbort(e *cli.Env, open opener) *cobra.Command {
	m := &Migration{open: open}
	return cli.Command{
		Use:   "abort TABLE",
		Short: "End a migration before its cut-over; the source stays",
		Long: `Abort ends a migration that is not cut over. The wrapper goes on and writes the source
alone. The encrypted table stays, and is no longer kept up: drop it with 'rangecrypt table
drop', or prepare again with --continue when no write of before can be under way. It needs
no --from, and checks one.`,
		Example: `  rangecrypt migrate abort orders --store cassandra://127.0.0.1/app --key app.key`,
		Args:    theMigrated, JSON: cli.OneLine, Yes: true, Flags: m.from.bind, Check: m.checkMaybe,
		Run: func(ctx context.Context, c *cli.Call) error {
			return m.run(ctx, func(of *migrate.Migration) error {
				if err := m.meant(ctx, of); err != nil {
					return err
				}
				if err := c.Confirm(ctx, fmt.Sprintf("Abort the migration into table %s? The table is no longer kept up.", show.Visible(c.Arg()))); err != nil {
					return err
				}
				if err := of.Abort(ctx); err != nil {
					s, _ := of.Status(ctx)
					if !errors.Is(err, migrate.ErrPhase) || s.Phase != "aborted" {
						return err
					}
					return m.printStep("migration_aborted", "was no longer kept up before, since its migration was aborted already; 'rangecrypt table drop' removes it")
				}
				return m.printStep("migration_aborted", "is no longer kept up, and the application writes the source alone; 'rangecrypt table drop' removes it")
			})
		},
	}.New(e)
}

// NextSuffix follows the name of a table in that of the one which takes its place.
const NextSuffix = ".next"
