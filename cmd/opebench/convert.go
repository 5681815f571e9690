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
time and share the work.`,
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
		if opts.status {
			return opts.printStatus(ctx, e, tbl)
		}
		bar := newProgress(e)
		last := -1
		stats, err := tbl.Convert(ctx, &store.ConvertOptions{Progress: func(done, total int) {
			switch {
			case bar == nil:
				return
			case last < 0:
				bar.Start("converting "+visible(opts.name), total)
				last = 0
			case done < last: // the schema was changed, and it began again
				bar.Done()
				bar.Start("converting "+visible(opts.name), total)
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
		return errors.Join(interrupted(ctx, err), opts.printConversion(e, stats, err == nil))
	})
}

func (o *convertTableOptions) printConversion(e *env, s store.ConvertStats, complete bool) error {
	if o.json {
		return json.NewEncoder(e.stdout).Encode(struct {
			Record     string `json:"record"`
			Store      string `json:"store"`
			Table      string `json:"table"`
			Rows       int    `json:"rows"`
			Converted  int    `json:"converted"`
			Unreadable int    `json:"unreadable"`
			Complete   bool   `json:"complete"`
		}{"conversion", shown(o.store), o.name, s.Rows, s.Converted, s.Unreadable, complete})
	}
	line := fmt.Sprintf("%s: %d rows read, %d of them written anew", visible(o.name), s.Rows, s.Converted)
	if s.Unreadable > 0 {
		line += fmt.Sprintf(", %d left since they cannot be read: see 'opebench verify'", s.Unreadable)
	}
	if !complete {
		line += "; not finished"
	}
	_, err := fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}

func (o *convertTableOptions) printStatus(ctx context.Context, e *env, tbl *store.Table) error {
	s, err := tbl.Status(ctx)
	if err != nil {
		return err
	}
	if o.json {
		pending := s.Pending
		if pending == nil {
			pending = []string{}
		}
		return json.NewEncoder(e.stdout).Encode(struct {
			Record  string   `json:"record"`
			Store   string   `json:"store"`
			Table   string   `json:"table"`
			Pending []string `json:"pending"`
			Version uint32   `json:"version"`
			Done    int      `json:"done"`
			Total   int      `json:"total"`
		}{"conversion_status", shown(o.store), o.name, pending, s.Version, s.Done, s.Total})
	}
	line := visible(o.name) + ": no column is to be converted"
	if len(s.Pending) > 0 {
		var names []string
		for _, name := range s.Pending {
			names = append(names, visible(name))
		}
		line = fmt.Sprintf("%s: to be converted for %s", visible(o.name), strings.Join(names, ", "))
	}
	if s.Total > 0 {
		line += fmt.Sprintf("; %d of %d parts are done, for version %d of the catalogue", s.Done, s.Total, s.Version)
	}
	_, err = fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}
