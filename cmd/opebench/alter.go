package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/schemafile"
	"github.com/rangecrypt/rangecrypt/store"
)

type alterTableOptions struct {
	keptStore
	target string // the name of a table or, without wanted, a schema file
	wanted []wantedChange
	dryRun bool
	yes    bool
}

// A wantedChange is a flag that asks for a change; they are made in the order of the command line.
type wantedChange struct{ kind, text string }

// changeFlag appends the flag's values to those of other flags.
type changeFlag struct {
	kind string
	to   *[]wantedChange
}

func (f changeFlag) String() string { return "" }
func (f changeFlag) Type() string   { return "text" }
func (f changeFlag) Set(text string) error {
	*f.to = append(*f.to, wantedChange{f.kind, text})
	return nil
}

func newTableAlter(e *env, runF func(context.Context, *env, *alterTableOptions) error) *cobra.Command {
	opts := &alterTableOptions{}
	cmd := &cobra.Command{
		Use:   "alter NAME|FILE",
		Short: "Add, drop, rename and change columns",
		Long: `Alter makes the changes that the flags name, in their order, or, without any of these
flags, those that make the table what the schema file FILE says: it shows them and asks.
All are made or none, in one small write; no row is written, and other programs may go
on. What changes in the row key, the layout and the types of columns is refused.

Adding or changing takes a column as a schema file has it; a change names no type. Rows
keep the values of a changed column, but until 'opebench table convert' has written them
anew, queries by it open and check all rows. Values of a dropped column are lost.`,
		Example: `  opebench table alter readings --store pebble:data --key bench.key \
    --rename note=remark --add 'name: site, type: string, encryption: deterministic'
  opebench table alter readings --store pebble:data --key bench.key \
    --change 'name: celsius, encryption: ordered, scheme: wozniak'
  opebench table alter readings.yaml --store pebble:data --key bench.key --dry-run`,
		Args: args("the name of a table or a schema file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.target = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.Var(changeFlag{"add", &opts.wanted}, "add", "add a `column`, such as\n'name: note, type: string, encryption: randomised'")
	f.Var(changeFlag{"drop", &opts.wanted}, "drop", "drop the column of that `name` with its values")
	f.Var(changeFlag{"rename", &opts.wanted}, "rename", "rename a column or part of the row key: `old=new`")
	f.Var(changeFlag{"change", &opts.wanted}, "change", "change encryption, scheme or confidentiality of a\n`column`, such as 'name: note, encryption: plain'")
	f.BoolVar(&opts.dryRun, "dry-run", false, "show the changes, make none")
	bindYes(f, &opts.yes)
	return cmd
}

func alterTable(ctx context.Context, e *env, opts *alterTableOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	name := opts.target
	var wanted store.Schema
	if len(opts.wanted) == 0 {
		var err error
		if wanted, err = readSchema(opts.target); err != nil {
			return err
		}
		name = wanted.Name
	}
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		tbl, err := st.Table(ctx, name)
		if err != nil {
			return err
		}
		var changes []change
		if len(opts.wanted) == 0 {
			changes, err = difference(tbl.Schema(), wanted)
		} else {
			changes, err = namedChanges(tbl.Schema(), opts.wanted)
		}
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			_, err := fmt.Fprintf(e.stdout, "table %s is as it is wanted\n", visible(name))
			return err
		}
		return makeChanges(ctx, e, opts, st, name, changes)
	})
}

// makeChanges shows the changes of a table and makes them.
func makeChanges(ctx context.Context, e *env, opts *alterTableOptions, st *store.Store, name string, changes []change) error {
	var made []store.Change
	ask, rewrite := len(opts.wanted) == 0, false
	for _, c := range changes {
		made = append(made, c.store)
		ask, rewrite = ask || c.loses, rewrite || c.rewrites
		if _, err := fmt.Fprint(e.stdout, report.Line(c.line, e.style())); err != nil {
			return err
		}
		if c.shares != "" {
			fmt.Fprintln(e.stderr, "opebench: warning: "+c.shares)
		}
	}
	if opts.dryRun {
		return nil
	}
	if ask {
		question := fmt.Sprintf("Change table %s?", visible(name))
		if slices.ContainsFunc(changes, func(c change) bool { return c.loses }) {
			question = fmt.Sprintf("Change table %s, so that values are lost?", visible(name))
		}
		if err := confirm(ctx, e, opts.yes, question); err != nil {
			return err
		}
	}
	if err := st.Alter(ctx, name, made...); err != nil {
		return err
	}
	line := fmt.Sprintf("table %s was changed", visible(name))
	if rewrite {
		line += "; rows are found by the changed columns without opening all of them after 'opebench table convert'"
	}
	_, err := fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}

// A change is a change of a table and what there is to say about it.
type change struct {
	store    store.Change
	line     string
	loses    bool // values are lost
	rewrites bool // rows have to be written anew to be found by the column
	shares   string
}

func added(c store.Column) change {
	return change{store: store.AddColumn(c), line: fmt.Sprintf("+ add %s: %s", visible(c.Name()), stored(c)), shares: sharing(c)}
}

func dropped(c store.Column) change {
	return change{store: store.DropColumn(c.Name()), line: fmt.Sprintf("- drop %s: %s; its values are lost", visible(c.Name()), stored(c)), loses: true}
}

func changed(from, to store.Column) change {
	return change{
		store:    store.ChangeColumn(to),
		line:     fmt.Sprintf("~ change %s: from %s to %s", visible(to.Name()), stored(from), stored(to)),
		rewrites: searched(from) || searched(to),
		shares:   sharing(to),
	}
}

func searched(c store.Column) bool {
	return c.Encryption() == "ordered" || c.Encryption() == "deterministic"
}

// stored says how a column is stored, in words that a terminal can show.
func stored(c store.Column) string {
	s := c.Type().String() + ", " + c.Encryption()
	if c.Scheme() != "" {
		s += " (" + c.Scheme() + ")"
	}
	if with := sharedWith(c); with != "" {
		s += ", key of " + with
	}
	return s
}

// sharedWith says whose search key a column has besides its own; "" for one with a key of its own.
func sharedWith(c store.Column) string {
	if table, column, shares := c.Shared(); shares {
		return visible(table) + ", " + visible(column)
	}
	if c.IsDatabaseWide() {
		return "the database"
	}
	return ""
}

// sharing warns of what the search key of a column gives away that others have, too.
func sharing(c store.Column) string {
	others := "all database-wide columns of its type, encryption and scheme"
	if table, column, shares := c.Shared(); shares {
		others = fmt.Sprintf("column %s of table %s", visible(column), visible(table))
	} else if !c.IsDatabaseWide() {
		return ""
	}
	learns := "which rows of them have equal values"
	if c.Encryption() == "ordered" {
		learns += ", and which have less"
	}
	return fmt.Sprintf("column %s has one search key with %s: the database sees %s; who knows the values of one reads the others by it",
		visible(c.Name()), others, learns)
}

// namedChanges returns the changes that flags ask for.
func namedChanges(s store.Schema, wanted []wantedChange) ([]change, error) {
	columns := map[string]store.Column{}
	for _, c := range s.Columns {
		columns[c.Name()] = c
	}
	var changes []change
	for _, w := range wanted {
		switch w.kind {
		case "add":
			c, err := schemafile.ParseColumn("--add", w.text, nil)
			if err != nil {
				return nil, usageError(err.Error())
			}
			columns[c.Name()] = c
			changes = append(changes, added(c))
		case "drop":
			c, ok := columns[w.text]
			if !ok {
				return nil, noColumn(s, w.text)
			}
			delete(columns, w.text)
			changes = append(changes, dropped(c))
		case "rename":
			from, to, ok := strings.Cut(w.text, "=")
			if !ok || from == "" || to == "" {
				return nil, usagef("--rename %q is not of the form old=new", w.text)
			}
			if c, ok := columns[from]; ok {
				delete(columns, from)
				columns[to] = c
			}
			changes = append(changes, change{store: store.RenameColumn(from, to), line: fmt.Sprintf("> rename %s to %s", visible(from), visible(to))})
		case "change":
			var unknown *string
			c, err := schemafile.ParseColumn("--change", w.text, func(name string) store.Type {
				if c, ok := columns[name]; ok {
					return c.Type()
				}
				unknown = &name
				return nil
			})
			if unknown != nil {
				return nil, noColumn(s, *unknown)
			}
			if err != nil {
				return nil, usageError(err.Error())
			}
			before, ok := columns[c.Name()]
			if !ok {
				return nil, noColumn(s, c.Name())
			}
			columns[c.Name()] = c
			changes = append(changes, changed(before, c))
		}
	}
	return changes, nil
}

func noColumn(s store.Schema, name string) error {
	return fmt.Errorf("%w: table %s has no column %s that can be dropped or changed", store.ErrColumn, visible(s.Name), visible(name))
}

// difference returns the changes that turn one schema into the other.
func difference(from, to store.Schema) ([]change, error) {
	var refused []error
	refuse := func(format string, args ...any) {
		refused = append(refused, fmt.Errorf("%w: "+format, append([]any{store.ErrSchema}, args...)...))
	}
	if !slices.EqualFunc(from.Key, to.Key, func(a, b store.KeyPart) bool { return a.Describe() == b.Describe() }) {
		refuse("the row key cannot be changed; it is %s, and the file says %s", keyOf(from), keyOf(to))
	}
	if from.Layout != to.Layout {
		refuse("the layout cannot be changed from %q to %q", from.Layout, to.Layout)
	}
	if to.SpreadBits != 0 && from.SpreadBits != to.SpreadBits {
		refuse("spread-bits cannot be changed from %d to %d", from.SpreadBits, to.SpreadBits)
	}
	if from.Conditional != to.Conditional {
		refuse("conditional cannot be changed from %t to %t, as the file says, or is by default: make a new table for it", from.Conditional, to.Conditional)
	}
	if from.Tenants != to.Tenants {
		refuse("tenants cannot be changed from %t to %t, as the file says, or is by default: rows are under keys of tenants or of the table; make a new table for it", from.Tenants, to.Tenants)
	}
	var changes []change
	find := func(s store.Schema, name string) (store.Column, bool) {
		i := slices.IndexFunc(s.Columns, func(c store.Column) bool { return c.Name() == name })
		if i < 0 {
			return store.Column{}, false
		}
		return s.Columns[i], true
	}
	for _, c := range from.Columns {
		if _, stays := find(to, c.Name()); !stays {
			changes = append(changes, dropped(c))
		}
	}
	for _, c := range to.Columns {
		before, there := find(from, c.Name())
		switch {
		case !there:
			changes = append(changes, added(c))
		case before.Type().String() != c.Type().String():
			refuse("column %s: the type cannot be changed from %s to %s; give the new column another name", visible(c.Name()), before.Type(), c.Type())
		case before.Describe() != c.Describe():
			changes = append(changes, changed(before, c))
		}
	}
	return changes, errors.Join(refused...)
}

// keyOf says what the row key of a table consists of.
func keyOf(s store.Schema) string {
	var parts []string
	for _, p := range s.Key {
		parts = append(parts, p.Describe())
	}
	return fmt.Sprintf("%q", strings.Join(parts, "; "))
}

type renameTableOptions struct {
	keptStore
	from, to string
}

func newTableRename(e *env, runF func(context.Context, *env, *renameTableOptions) error) *cobra.Command {
	opts := &renameTableOptions{}
	cmd := &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "Give a table another name",
		Long: `Rename changes the name of a table, in one small write: the database knows no names.
Programs that have the table open go on.`,
		Example: "  opebench table rename readings measurements --store pebble:data --key bench.key",
		Args:    args("the name of a table", "its new name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.from, opts.to = args[0], args[1]
			return runF(cmd.Context(), e, opts)
		},
	}
	cmd.Flags().SortFlags = false
	opts.keptStore.bind(cmd.Flags())
	return cmd
}

func renameTable(ctx context.Context, e *env, opts *renameTableOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		if err := st.RenameTable(ctx, opts.from, opts.to); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.stdout, "table %s is now %s\n", visible(opts.from), visible(opts.to))
		return err
	})
}
