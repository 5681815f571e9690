package command

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
	"github.com/rangecrypt/rangecrypt/store/remake"
)

type verification struct {
	*cli.Call
	tables []string
	tenant string
	repair bool
	grace  time.Duration
	every  int
	part   PartFlag
	fixed  bool // the table that is checked is one whose rows are neither replaced nor deleted where they cannot be read
}

// NewVerify returns the command that checks tables.
func NewVerify(e *cli.Env) *cobra.Command {
	v := &verification{}
	return cli.Command{
		Use:   "verify",
		Short: "Check the tables of a store, and mend what can be mended",
		Long: `Verify reads tables, whichever program filled them. It checks that all rows open, that
keys and index entries are those of the rows' values and in their order, and that every
row is found by each of its columns. Other clients may go on. It prints where faults are,
as the database names the places, and never a value.

Index entries that point to no row are no fault: clients leave them when they die. With
--repair, those that still point to none after the grace period are dropped, index
entries that are missing are written, and indexes that are damaged or lost are made again
from the rows, as are tables of index entries that are lost: end other clients before.
No row changes its values. One whose ciphertext has no place in an index is stored again
under another.

With --part and --parts it checks one part of each table, and prints JSON lines. What all
parts have adds up to what a table has; the first one has the indexes, too. So a scheduler
can have a large table verified.

The exit code is 3 if there is a fault that was not mended, or a table that cannot be
read to its end. The other tables are checked in any case. It is 1 if a table has index
entries and no rows, which may be lost.`,
		Example: `  PROGRAM verify --store pebble:data --key app.key
  PROGRAM verify --store cassandra://127.0.0.1/app --key app.key --repair
  PROGRAM verify --store pebble:data --key app.key --table readings --json
  PROGRAM verify --store pebble:data --key app.key --table readings --part 0 --parts 100`,
		JSON: "print JSON lines",
		Flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&v.tables, "table", nil, "`name` of a table, may be repeated (default all)")
			f.StringVar(&v.tenant, "tenant", "", "`name` of a tenant: check what it has in tables with\ntenants, and nothing else (default all tenants)")
			f.BoolVar(&v.repair, "repair", false, "mend what can be mended without changing values")
			f.DurationVar(&v.grace, "grace", 10*time.Minute, "how `long` an index entry must point to no row\nbefore --repair drops it; it must be longer than\nany write takes")
			f.IntVar(&v.every, "every", 1, "encrypt the values of one row in `n` again and\ncompare; the other checks are of all rows")
			v.part.Bind(f)
		},
		Check: func(c *cli.Call) error {
			v.Call = c
			if v.grace <= 0 {
				return exit.Usagef("--grace is %v, need more than 0", v.grace)
			}
			if v.every < 1 {
				return exit.Usagef("--every is %d, need at least 1", v.every)
			}
			if err := v.part.Check(c.Flags); err != nil {
				return err
			}
			c.JSON = c.JSON || v.part.Given()
			return nil
		},
		Run: func(ctx context.Context, _ *cli.Call) error { return v.run(ctx) },
	}.New(e)
}

func (v *verification) run(ctx context.Context) error {
	var names []string
	for _, name := range v.tables {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		schemas, err := v.Store.Tables(ctx)
		if err != nil {
			return err
		}
		if v.tenant == "" {
			if names, err = paged.Names(ctx, v.Store); err != nil {
				return err
			}
		}
		for _, s := range schemas {
			if v.tenant == "" || s.Tenants {
				names = append(names, s.Name)
			}
		}
		if v.tenant != "" && len(names) == 0 {
			return fmt.Errorf("%w: no table of the store has tenants", store.ErrTenant)
		}
	}
	if v.repair { // all before the first: an index that tables share is made again from the rows of each
		for _, name := range names {
			if err := v.remake(ctx, name); err != nil {
				return err
			}
		}
	}
	sound, undone := true, true
	left := false // of tables without rows are index entries
	for _, name := range names {
		found, err := v.table(ctx, name)
		if errors.Is(err, store.ErrNoTable) && len(v.tables) == 0 {
			continue // it was dropped since
		}
		if err != nil && (ctx.Err() != nil || !exit.WrongData(err)) {
			return err
		}
		if err != nil {
			v.Warn("%v", err)
		}
		if err == nil && found.Rows+found.Expired == 0 && found.Dangling > found.Unknown && !v.part.Given() {
			v.Warn("%s: there were index entries and no rows: if nobody has deleted the rows, restore them from a backup", show.Visible(name))
			left = left || found.Dropped < found.Dangling
		}
		if err == nil && found.Sound() {
			continue
		}
		sound = false
		undone = undone && err == nil && len(found.Faults) == 1 && found.Faults[inspect.FaultUndone] > 0
	}
	var err error // after what was found
	if len(v.tables) == 0 && v.tenant == "" && !v.part.Given() {
		err = WarnOfLeftOvers(ctx, v.Call, inspect.Database{})
	}
	if !sound && undone {
		return errors.New("an index is being made again: if nobody does that now, 'rangecrypt table reindex' or 'verify --repair' finishes it; then verify again")
	}
	if !sound {
		return fmt.Errorf("%w: the store is not as its clients left it", exit.ErrWrongAnswer)
	}
	if left {
		return errors.New("index entries without any row may be all that is left of a table; where its rows were deleted, --repair drops them")
	}
	return err
}

// remake makes the parts of a table again that the database has lost, if its rows can fill them.
func (v *verification) remake(ctx context.Context, name string) error {
	switch _, err := v.Store.Table(ctx, name); {
	case errors.Is(err, driver.ErrNoFamily):
	case err == nil, errors.Is(err, store.ErrNoTable), exit.WrongData(err):
		return nil // what else is wrong is told when the table is checked
	default:
		return err // nobody knows whether something is lost
	}
	made, err := remake.Derived(ctx, v.Store, name)
	for _, family := range made {
		v.Warn("%s: the database had lost %s, which is made again from the rows; queries miss rows until that is over", show.Visible(name), family)
	}
	return err
}

// pages checks a table of pages. There is nothing to repair in it.
func (v *verification) pages(ctx context.Context, name string, tbl *paged.Table) (*inspect.Verification, error) {
	var c paged.Census
	if !v.part.Given() || v.part.Part.Index == 0 { // the first part is all of the table, whose pages are few
		bar := v.Totals()
		bar.At(show.Visible(name)+": pages", 0, -1)
		var err error
		c, err = tbl.Verify(ctx)
		bar.End()
		for _, f := range c.Faults {
			err = errors.Join(err, v.printFault(name, f))
		}
		if err != nil {
			return nil, err
		}
	}
	return &inspect.Verification{}, v.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table"`
		Pages  int    `json:"pages"`
		Rows   int    `json:"rows"`
		Uncut  int    `json:"uncut"`
		OldKey int    `json:"old_key"`
	}{"verify-pages", v.ShownStore(), name, c.Pages, c.Rows, c.Uncut, c.Old},
		fmt.Sprintf("%s: %s in %s are sound; %s under an earlier key", show.Visible(name), show.Counted(c.Rows, "row"), show.Counted(c.Pages, "page"), show.Counted(c.Old, "page")))
}

// table checks one table and prints what was found, also when it was interrupted.
func (v *verification) table(ctx context.Context, name string) (found *inspect.Verification, err error) {
	tbl, err := Table(ctx, v.Store, name)
	if errors.Is(err, ErrPaged) && v.tenant == "" {
		var pages *paged.Table
		if pages, err = paged.Open(ctx, v.Store, name); err == nil {
			return v.pages(ctx, name, pages)
		}
	}
	if err == nil && v.tenant != "" {
		tbl, err = ForTenant(ctx, v.Store, name, v.tenant)
	}
	if err != nil {
		return nil, err
	}
	var failed error // of printing
	bar := v.Totals()
	part := inspect.Part{Of: 1}
	if v.part.Given() {
		part = v.part.Part
	}
	found, err = tbl.VerifyPart(ctx, part, &store.VerifyOptions{
		Repair: v.repair, Grace: v.grace, Every: v.every,
		Fault: func(f inspect.Fault) { failed = errors.Join(failed, v.printFault(name, f)) },
		Progress: func(step string, done int) {
			total := -1 // not known
			if step == "waiting" {
				total = int(v.grace.Seconds())
			}
			bar.At(TableOf(name, v.tenant)+": "+step, done, total)
		},
	})
	bar.End()
	if found == nil {
		return nil, err
	}
	v.fixed = fixed(tbl.Schema())
	failed = errors.Join(failed, v.printReport(name, found, err == nil))
	return found, errors.Join(err, failed)
}

// fixed reports whether rows of a table that cannot be read are neither replaced nor deleted, since index entries may have copies of them.
func fixed(s store.Schema) bool {
	return s.AppendOnly || slices.ContainsFunc(s.Columns, func(c store.Column) bool { return c.Describe().Covering })
}

func (v *verification) printFault(table string, f inspect.Fault) error {
	if v.JSON {
		return v.Encode(struct {
			Record   string `json:"record"`
			Table    string `json:"table"`
			Tenant   string `json:"tenant,omitempty"`
			Kind     string `json:"kind"`
			Column   string `json:"column,omitempty"`
			Place    string `json:"place"`
			Error    string `json:"error"`
			Repaired bool   `json:"repaired"`
		}{"fault", table, f.Tenant, string(f.Kind), f.Column, hex.EncodeToString(f.Place), f.Err.Error(), f.Repaired})
	}
	line := fmt.Sprintf("%s: %s", TableOf(table, f.Tenant), f.Kind)
	if f.Column != "" {
		line += fmt.Sprintf(", column %q", f.Column)
	}
	if f.Place != nil {
		line += ", at " + hex.EncodeToString(f.Place)
	}
	line += ": " + strings.TrimPrefix(f.Err.Error(), "store: ")
	if f.Repaired {
		line += "; mended"
	}
	return v.Line("%s", line)
}

func (v *verification) printReport(table string, r *inspect.Verification, complete bool) error {
	if v.JSON {
		type index struct {
			Tenant     string `json:"tenant,omitempty"`
			Column     string `json:"column"`
			Values     int    `json:"values"`
			Epoch      uint64 `json:"epoch"`
			Generation uint64 `json:"generation"`
		}
		indexes := []index{}
		for _, x := range r.Indexes {
			indexes = append(indexes, index{x.Tenant, x.Column, x.Values, x.Version.Epoch, x.Version.Generation})
		}
		var part *inspect.Part
		if v.part.Given() {
			part = &v.part.Part
		}
		return v.Encode(struct {
			Record string `json:"record"`
			Store  string `json:"store"`
			Table  string `json:"table"`
			Tenant string `json:"tenant,omitempty"`
			*inspect.Part
			Rows     int                       `json:"rows"`
			Expired  int                       `json:"expired,omitempty"` // besides these
			Cells    int                       `json:"cells"`
			Postings int                       `json:"postings"`
			Indexes  []index                   `json:"indexes"`
			Dangling int                       `json:"dangling"`
			Unknown  int                       `json:"unknown"` // of these
			Dropped  int                       `json:"dropped"`
			Uncopied int                       `json:"uncopied"`
			Orphans  int                       `json:"orphans,omitempty"`
			PutBack  bool                      `json:"put_back,omitempty"` // the catalogue, since rows are newer
			Faults   map[inspect.FaultKind]int `json:"faults"`
			Repaired int                       `json:"repaired"`
			Sound    bool                      `json:"sound"`
			Complete bool                      `json:"complete"`
		}{"verify", v.ShownStore(), table, v.tenant, part, r.Rows, r.Expired, r.Cells, r.Postings, indexes, r.Dangling, r.Unknown, r.Dropped, r.Uncopied, r.Orphans, r.PutBack, r.Faults, r.Repaired, r.Sound() && complete, complete})
	}
	var text strings.Builder
	for _, line := range v.summary(table, r, complete) {
		text.WriteString(show.Line(line, v.Style()))
	}
	return v.Print(text.String())
}

// summary says in lines what was found in a table.
func (v *verification) summary(table string, r *inspect.Verification, complete bool) []string {
	line := fmt.Sprintf("%s: %s, %s, %s", TableOf(table, v.tenant), show.Counted(r.Rows, "row"), show.Counted(r.Cells, "cell"), show.Counted(r.Postings, "index entry"))
	if r.Expired > 0 {
		line += ", " + show.Counted(r.Expired, "expired row")
	}
	type total struct{ values, tenants int }
	totals := map[string]total{}
	var columns []string // with an index for each of some tenants
	for _, x := range r.Indexes {
		if v.tenant == "" && x.Tenant != "" {
			of := totals[x.Column]
			if of.tenants == 0 {
				columns = append(columns, x.Column)
			}
			totals[x.Column] = total{of.values + x.Values, of.tenants + 1}
			continue
		}
		line += fmt.Sprintf(", %s in the index of %q (epoch %d, generation %d)", show.Counted(x.Values, "value"), x.Column, x.Version.Epoch, x.Version.Generation)
	}
	for _, column := range columns {
		line += fmt.Sprintf(", %s in the indexes of %q for %s", show.Counted(totals[column].values, "value"), column, show.Counted(totals[column].tenants, "tenant"))
	}
	switch {
	case !complete:
		line += "; not finished"
	case r.Sound():
		line += "; sound"
	default:
		line += "; NOT SOUND"
	}
	lines := []string{line}
	if r.PutBack {
		lines = append(lines, "  rows are newer than the catalogue: restore its newest copy and verify again; until then purge nothing and drop nothing, since what it does not know looks as if it were dropped")
	}
	for _, kind := range inspect.FaultKinds() {
		if n := r.Faults[kind]; n > 0 {
			do := advice[kind]
			if v.fixed {
				do = cmp.Or(adviceOfFixed[kind], do)
			}
			lines = append(lines, fmt.Sprintf("  %d x %s: %s", n, kind, do))
		}
	}
	if r.Repaired > 0 {
		lines = append(lines, fmt.Sprintf("  %d mended", r.Repaired))
	}
	if r.Uncopied > 0 {
		line := fmt.Sprintf("  %s %s no copy of %s row, so that queries read it", show.Counted(r.Uncopied, "index entry"), show.Verb(r.Uncopied, "has", "have"), show.Verb(r.Uncopied, "its", "their"))
		if v.repair {
			line += "; " + show.Verb(r.Uncopied, "it has", "they have") + " by now"
		} else {
			line += "; --repair puts copies"
		}
		lines = append(lines, line)
	}
	if r.Dangling > 0 {
		line := fmt.Sprintf("  %s %s to no row, which does no harm", show.Counted(r.Dangling, "index entry"), show.Verb(r.Dangling, "points", "point"))
		if v.repair {
			line += fmt.Sprintf("; %d %s dropped", r.Dropped, show.Verb(r.Dropped, "was", "were"))
		} else {
			line += "; --repair drops those that stay so"
		}
		lines = append(lines, line)
	}
	if r.Unknown > 0 {
		lines = append(lines, fmt.Sprintf("  %d of these %s of columns that the table has no more", r.Unknown, show.Verb(r.Unknown, "is", "are")))
	}
	if r.Orphans > 0 {
		lines = append(lines, fmt.Sprintf("  %s %s of tenants that were dropped: nobody can read them, and 'rangecrypt tenant purge' deletes them", show.Counted(r.Orphans, "row"), show.Verb(r.Orphans, "is", "are")))
	}
	return lines
}

// advice says what a kind of fault means and what to do.
var advice = map[inspect.FaultKind]string{
	inspect.FaultCell:    "somebody or something changed the data; find out who, and put these rows again or restore them from a backup",
	inspect.FaultTorn:    "a node that was down, a partial restore, or writers whose clocks agree to the microsecond; --repair takes away what is only left over; put the others again or restore them",
	inspect.FaultKey:     "written by a client with a fault or without the index; --repair stores those again that have one; delete the others and put them again",
	inspect.FaultPosting: "not written by this version, or changed since; queries that meet a wrong key fail. --repair takes content out that clients give to none; delete other keys in the database",
	inspect.FaultIndex:   "the rows are whole; --repair makes the index again from them, and so does 'rangecrypt table reindex' where the column has no server index",
	inspect.FaultUndone:  "wait for whoever does that; if nobody does, --repair or 'rangecrypt table reindex' finishes it",
	inspect.FaultHidden:  "these rows are not found by the column; --repair writes what is missing",
	inspect.FaultUnknown: "these rows are not found by ranges of the column; --repair writes what is missing",
	inspect.FaultPage:    "somebody or something changed the data; find out who, and restore the table, or bring the other rows into a new one",
	inspect.FaultCopy:    "queries by the column return rows that are not there, or other values; --repair puts copies of the rows as they are, unless none is there",
}

// adviceOfFixed is that of tables where a row that cannot be read is neither replaced nor deleted.
var adviceOfFixed = map[inspect.FaultKind]string{
	inspect.FaultCell: "somebody or something changed the data; find out who, and restore these rows from a backup; in this table they are neither replaced nor deleted",
	inspect.FaultTorn: "a node that was down, a partial restore, or writers whose clocks agree to the microsecond; --repair takes away what is only left over; restore the others from a backup",
}
