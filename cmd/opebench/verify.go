package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/store"
)

type verifyOptions struct {
	keptStore
	tables []string
	tenant string
	repair bool
	grace  time.Duration
	every  int
	json   bool
}

func newVerify(e *env, runF func(context.Context, *env, *verifyOptions) error) *cobra.Command {
	opts := &verifyOptions{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the tables of a store, and mend what can be mended",
		Long: `Verify reads tables, of opebench and of any other program that uses this module, and
checks that all rows open, that keys and index entries are those of the rows' values and
in their order, and that every row is found by each of its columns. Other clients may go
on. It prints where faults are, as the database names the places, and never a value.

Index entries that point to no row are no fault: clients leave them when they die. With
--repair, those that still point to none after the grace period are dropped, and index
entries that are missing are written. Rows are never touched.

The exit code is 3 if there is a fault that was not mended.`,
		Example: `  opebench verify --store pebble:data --key bench.key
  opebench verify --store cassandra://127.0.0.1/bench --key bench.key --repair
  opebench verify --store pebble:data --key bench.key --table mope/column --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd.Flags(), "tenant"); err != nil {
				return err
			}
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.StringArrayVar(&opts.tables, "table", nil, "`name` of a table, may be repeated (default all)")
	f.StringVar(&opts.tenant, "tenant", "", "`name` of a tenant: check what it has in tables with\ntenants, and nothing else (default all tenants)")
	f.BoolVar(&opts.repair, "repair", false, "mend what can be mended without touching rows")
	f.DurationVar(&opts.grace, "grace", store.DefaultGrace, "how `long` an index entry must point to no row\nbefore --repair drops it; it must be longer than\nany write takes")
	f.IntVar(&opts.every, "every", 1, "encrypt the values of one row in `n` again and\ncompare; the other checks are of all rows")
	f.BoolVar(&opts.json, "json", false, "print JSON lines")
	return cmd
}

func (o *verifyOptions) check() error {
	if err := o.keptStore.check(); err != nil {
		return err
	}
	if o.grace <= 0 {
		return usagef("--grace is %v, need more than 0", o.grace)
	}
	if o.every < 1 {
		return usagef("--every is %d, need at least 1", o.every)
	}
	return nil
}

// errFaults is returned where a table has faults that were not mended.
var errFaults = fmt.Errorf("%w: the store is not as its clients left it", bench.ErrWrongAnswer)

func verify(ctx context.Context, e *env, opts *verifyOptions) (err error) {
	if err := opts.check(); err != nil {
		return err
	}
	key, err := readKey(e, opts.key)
	if err != nil {
		return err
	}
	db, err := e.openStore(ctx, opts.store, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	st, err := bench.OpenTables(ctx, db, key, false)
	if err != nil {
		return interrupted(ctx, err)
	}
	names := opts.tables
	if len(names) == 0 {
		schemas, err := st.Tables(ctx)
		if err != nil {
			return interrupted(ctx, err)
		}
		for _, s := range schemas {
			if opts.tenant == "" || s.Tenants {
				names = append(names, s.Name)
			}
		}
		if opts.tenant != "" && len(names) == 0 {
			return fmt.Errorf("%w: no table of the store has tenants", store.ErrTenant)
		}
	}
	sound := true
	for _, name := range names {
		ok, err := verifyTable(ctx, e, opts, st, name)
		if err != nil {
			return interrupted(ctx, err)
		}
		sound = sound && ok
	}
	if !sound {
		return errFaults
	}
	return nil
}

// verifyTable checks one table and prints what was found, also when it was interrupted.
func verifyTable(ctx context.Context, e *env, opts *verifyOptions, st *store.Store, name string) (sound bool, err error) {
	tbl, err := st.Table(ctx, name)
	if err == nil && opts.tenant != "" {
		tbl, err = openFor(ctx, st, name, opts.tenant)
	}
	if err != nil {
		return false, err
	}
	what := tableOf(name, opts.tenant)
	var failed error // of printing
	bar := newProgress(e)
	step, last := "", 0
	found, err := tbl.Verify(ctx, &store.VerifyOptions{
		Repair: opts.repair, Grace: opts.grace, Every: opts.every,
		Fault: func(f store.Fault) { failed = errors.Join(failed, opts.printFault(e, name, f)) },
		Progress: func(now string, done int) {
			if bar == nil {
				return
			}
			if now != step {
				if step != "" {
					bar.Done()
				}
				total := -1 // not known
				if now == "waiting" {
					total = int(opts.grace.Seconds())
				}
				bar.Start(what+": "+now, total)
				step, last = now, 0
			}
			bar.Add(done - last)
			last = done
		},
	})
	if step != "" {
		bar.Done()
	}
	if found == nil {
		return false, err
	}
	failed = errors.Join(failed, opts.printReport(e, name, found, err == nil))
	return found.Sound(), errors.Join(err, failed)
}

func (o *verifyOptions) printFault(e *env, table string, f store.Fault) error {
	if o.json {
		return json.NewEncoder(e.stdout).Encode(struct {
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
	line := fmt.Sprintf("%s: %s", tableOf(table, f.Tenant), f.Kind)
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
	_, err := fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}

func (o *verifyOptions) printReport(e *env, table string, r *store.Verification, complete bool) error {
	if o.json {
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
		return json.NewEncoder(e.stdout).Encode(struct {
			Record   string                  `json:"record"`
			Store    string                  `json:"store"`
			Table    string                  `json:"table"`
			Tenant   string                  `json:"tenant,omitempty"`
			Rows     int                     `json:"rows"`
			Cells    int                     `json:"cells"`
			Postings int                     `json:"postings"`
			Indexes  []index                 `json:"indexes"`
			Dangling int                     `json:"dangling"`
			Dropped  int                     `json:"dropped"`
			Orphans  int                     `json:"orphans,omitempty"`
			Faults   map[store.FaultKind]int `json:"faults"`
			Repaired int                     `json:"repaired"`
			Sound    bool                    `json:"sound"`
			Complete bool                    `json:"complete"`
		}{"verify", shown(o.store), table, o.tenant, r.Rows, r.Cells, r.Postings, indexes, r.Dangling, r.Dropped, r.Orphans, r.Faults, r.Repaired, r.Sound(), complete})
	}
	line := fmt.Sprintf("%s: %d rows, %d cells, %d index entries", tableOf(table, o.tenant), r.Rows, r.Cells, r.Postings)
	type total struct{ values, tenants int }
	totals := map[string]total{}
	var columns []string // with an index for each of some tenants
	for _, x := range r.Indexes {
		if o.tenant == "" && x.Tenant != "" {
			of := totals[x.Column]
			if of.tenants == 0 {
				columns = append(columns, x.Column)
			}
			totals[x.Column] = total{of.values + x.Values, of.tenants + 1}
			continue
		}
		line += fmt.Sprintf(", %d values in the index of %q (epoch %d, generation %d)", x.Values, x.Column, x.Version.Epoch, x.Version.Generation)
	}
	for _, column := range columns {
		line += fmt.Sprintf(", %d values in the indexes of %q for %d tenants", totals[column].values, column, totals[column].tenants)
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
	for _, kind := range store.FaultKinds() {
		if n := r.Faults[kind]; n > 0 {
			lines = append(lines, fmt.Sprintf("  %d x %s: %s", n, kind, advice[kind]))
		}
	}
	if r.Repaired > 0 {
		lines = append(lines, fmt.Sprintf("  %d mended", r.Repaired))
	}
	if r.Dangling > 0 {
		line := fmt.Sprintf("  %d index entries point to no row, which does no harm", r.Dangling)
		if o.repair {
			line += fmt.Sprintf("; %d were dropped", r.Dropped)
		} else {
			line += "; --repair drops those that stay so"
		}
		lines = append(lines, line)
	}
	if r.Orphans > 0 {
		lines = append(lines, fmt.Sprintf("  %d rows are of tenants that were dropped: nobody can read them", r.Orphans))
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(report.Line(line, e.style()))
	}
	_, err := io.WriteString(e.stdout, text.String())
	return err
}

// advice says what a kind of fault means and what to do.
var advice = map[store.FaultKind]string{
	store.FaultCell:    "somebody or something changed the data; find out who, and put these rows again or restore them from a backup",
	store.FaultTorn:    "writers whose clocks agree to the microsecond, or a partial restore; put these rows again",
	store.FaultKey:     "written by a client with a fault or without the index; delete these rows and put them again",
	store.FaultPosting: "not written by this version; queries that meet one fail. Delete these keys in the database",
	store.FaultIndex:   "the rows are whole; copy them to a new table, whose index is then made anew",
	store.FaultHidden:  "these rows are not found by the column; --repair writes what is missing",
	store.FaultUnknown: "these rows are not found by ranges of the column; --repair writes what is missing",
}
