package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/store"
)

type convertTableOptions struct {
	keptStore
	name   string
	status bool
	json   bool
}

func newTableConvert(e *env, runF func(context.Context, *env, *convertTableOptions) error) *cobra.Command {
	opts := &convertTableOptions{}
	cmd := &cobra.Command{
		Use:   "convert NAME",
		Short: "Write rows anew that are stored as an earlier schema said",
		Long: `Convert writes all rows of a table anew that are not stored as its schema says by now.
Then rows are found by columns that were changed without opening all of them, and what
dropped columns left is removed. Readers and writers may go on, and lose nothing.

It may be stopped at any time; the same command goes on where it was. Several may run at a
time and share the work. Of a table with tenants it converts what all of them have;
'opebench tenant convert' that of one.`,
		Example: `  opebench table convert readings --store pebble:data --key bench.key
  opebench table convert readings --store pebble:data --key bench.key --status`,
		Args: args("the name of a table"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.name = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.status, "status", false, "show how far the conversion is, convert nothing")
	f.BoolVar(&opts.json, "json", false, "print the result as a line of JSON")
	return cmd
}

func convertTable(ctx context.Context, e *env, opts *convertTableOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		tbl, err := st.Table(ctx, opts.name)
		if err != nil {
			return err
		}
		c := conversion{store: opts.store, table: opts.name, json: opts.json}
		if opts.status {
			return c.printStatus(ctx, e, tbl)
		}
		return c.run(ctx, e, tbl)
	})
}

// A conversion is that of a table, or of what a tenant has in it.
type conversion struct {
	store, table, tenant string
	json                 bool
}

// name says what is converted.
func (c conversion) name() string { return tableOf(c.table, c.tenant) }

// tableOf names a table or, where a tenant is named, what it has in the table.
func tableOf(table, tenant string) string {
	if tenant == "" {
		return visible(table)
	}
	return visible(table) + ", tenant " + visible(tenant)
}

func (c conversion) run(ctx context.Context, e *env, tbl *store.Table) error {
	if before, err := tbl.Status(ctx); err != nil {
		return err
	} else if text := begun(before); text != "" {
		fmt.Fprintln(e.stderr, "opebench: "+c.name()+": "+text)
	}
	bar := newProgress(e)
	last := -1
	stats, err := tbl.Convert(ctx, &store.ConvertOptions{Progress: func(done, total int) {
		switch {
		case bar == nil:
			return
		case last < 0:
			bar.Start("converting "+c.name(), total)
			last = 0
		case done < last: // the schema was changed, and it began again
			bar.Done()
			bar.Start("converting "+c.name(), total)
			last = 0
		}
		bar.Add(done - last)
		last = done
	}})
	if last >= 0 {
		bar.Done()
	}
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(e.stderr, "opebench: the conversion is not finished; the same command goes on")
	}
	return errors.Join(interrupted(ctx, err), c.print(e, stats, err == nil))
}

// begun says what an earlier call, or another client that is at it, has done of a conversion.
func begun(s store.ConvertStatus) string {
	switch {
	case s.Done == s.Total:
		return "" // it is over, or there was none
	case s.Version < s.Latest:
		return fmt.Sprintf("a conversion for version %d of the catalogue has done %d of %d parts; what is wanted was changed since, "+
			"so that it begins again, for version %d", s.Version, s.Done, s.Total, s.Latest)
	}
	return fmt.Sprintf("a conversion has begun before, and done %d of %d parts; this joins it", s.Done, s.Total)
}

func (c conversion) print(e *env, s store.ConvertStats, complete bool) error {
	if c.json {
		return json.NewEncoder(e.stdout).Encode(struct {
			Record     string `json:"record"`
			Store      string `json:"store"`
			Table      string `json:"table"`
			Tenant     string `json:"tenant,omitempty"`
			Rows       int    `json:"rows"`
			Converted  int    `json:"converted"`
			Unreadable int    `json:"unreadable"`
			Complete   bool   `json:"complete"`
		}{"conversion", shown(c.store), c.table, c.tenant, s.Rows, s.Converted, s.Unreadable, complete})
	}
	line := fmt.Sprintf("%s: %d rows read, %d of them written anew", c.name(), s.Rows, s.Converted)
	if s.Unreadable > 0 {
		line += fmt.Sprintf(", %d left since they cannot be read: see 'opebench verify'", s.Unreadable)
	}
	if !complete {
		line += "; not finished"
	}
	_, err := fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}

func (c conversion) printStatus(ctx context.Context, e *env, tbl *store.Table) error {
	s, err := tbl.Status(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.encodeStatus(e, s)
	}
	line := c.name() + ": no column is to be converted"
	if len(s.Pending) > 0 {
		line = fmt.Sprintf("%s: to be converted for %s", c.name(), names(s.Pending))
	}
	if s.Total > 0 {
		line += fmt.Sprintf("; %d of %d parts are done, for version %d of the catalogue", s.Done, s.Total, s.Version)
	}
	if tbl.Schema().Tenants {
		line += fmt.Sprintf("; 'opebench tenant status --table %s' tells of each tenant", visible(c.table))
	}
	_, err = fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}

func (c conversion) encodeStatus(e *env, s store.ConvertStatus) error {
	pending := s.Pending
	if pending == nil {
		pending = []string{}
	}
	return json.NewEncoder(e.stdout).Encode(struct {
		Record  string   `json:"record"`
		Store   string   `json:"store"`
		Table   string   `json:"table"`
		Tenant  string   `json:"tenant,omitempty"`
		Pending []string `json:"pending"`
		Version uint32   `json:"version"`
		Latest  uint32   `json:"latest"`
		Done    int      `json:"done"`
		Total   int      `json:"total"`
	}{"conversion_status", shown(c.store), c.table, c.tenant, pending, s.Version, s.Latest, s.Done, s.Total})
}

// names lists names as a terminal can show them.
func names(all []string) string {
	var shown []string
	for _, name := range all {
		shown = append(shown, visible(name))
	}
	return strings.Join(shown, ", ")
}
