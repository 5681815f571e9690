package rows

import (
	"bufio"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/people"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// forPeople is the format of results that only commands which show them have.
const forPeople = "table"

var formats = []string{forPeople, "csv", "jsonl", "parquet"}

// results are the rows that a command finds: where they go, in which format, and how their values are written.
type results struct {
	tabular.Output
	texts  celltext.Flags
	values *celltext.Format // after check
	flags  *pflag.FlagSet
}

// bind binds the flags.
func (r *results) bind(f *pflag.FlagSet) {
	r.flags = f
	r.Output.Bind(f)
	r.texts.Bind(f)
	format := f.Lookup("format")
	format.Usage = "the `format`: table, for people, csv, jsonl or parquet (default table,\nor as the end of the name of --output says)"
	cli.Offer(f, "format", formats...)
}

// shown reports whether the rows are a table for people.
func (r *results) shown() bool {
	format := r.flags.Lookup("format").Value.String()
	return format == forPeople || format == "" && r.flags.Lookup("output").Value.String() == "-"
}

// check checks the flags.
func (r *results) check(c *cli.Call) (err error) {
	if c.JSON {
		if r.flags.Changed("format") && r.flags.Lookup("format").Value.String() != "jsonl" {
			return exit.Usagef("--json is --format jsonl: leave the other format out")
		}
		if err := r.flags.Set("format", "jsonl"); err != nil {
			return err
		}
	}
	if format := r.flags.Lookup("format").Value.String(); format != "" && !slices.Contains(formats, format) {
		return exit.Usagef("--format %q: there is %s", format, strings.Join(formats, ", "))
	}
	if r.values, err = r.texts.Format(); err != nil {
		return err
	}
	if !r.shown() {
		return r.Output.Check()
	}
	for _, flag := range []string{"output", "delimiter", "header"} {
		if r.flags.Changed(flag) {
			return exit.Usagef("--%s is about files: name their format with --format", flag)
		}
	}
	return nil
}

// A sink takes rows. They are complete when Commit has returned nil; it ends with Close in any case.
type sink interface {
	Write(values []any) error
	Commit() error
	Close() error
}

// open begins the output of rows with such columns.
func (r *results) open(c *cli.Call, fields []inspect.Field) (sink, error) {
	var columns []*celltext.Column
	for _, field := range fields {
		column, err := r.values.Column(field)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	if !r.shown() {
		return r.Output.Open(c.Env, r.values, columns)
	}
	w := bufio.NewWriter(c.Stdout)
	return &screen{Table: people.New(w, columns, c.Style()), w: w}, nil
}

// A screen is the standard output, with a table for people.
type screen struct {
	*people.Table
	w     *bufio.Writer
	ended bool
}

func (s *screen) Commit() error { return s.end(false) }

func (s *screen) end(failed bool) error {
	s.ended = true
	if err := s.Table.Close(failed); err != nil {
		return err
	}
	return s.w.Flush()
}

// Close shows the rows that came before an error, unless that was of the output.
func (s *screen) Close() error {
	if _, err := s.w.Write(nil); s.ended || err != nil {
		return nil // Write has returned that error
	}
	return s.end(true)
}

// write is the output of one row.
func (r *results) write(c *cli.Call, fields []inspect.Field, values []any) (err error) {
	out, err := r.open(c, fields)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Write(values); err != nil {
		return err
	}
	return out.Commit()
}

// chosen returns the columns of a table that are wanted, in the order wanted; all where none is named. The second
// result has the names for the store, which returns key parts in any case.
func chosen(all []inspect.Field, flag string, names []string, schema store.Schema) (fields []inspect.Field, columns []string, err error) {
	if len(names) == 0 {
		return all, nil, nil
	}
	columns = []string{} // and not nil, which is all
	var found []string
	for _, name := range names {
		i := indexOf(all, name)
		if i < 0 {
			return nil, nil, unknown(flag, all, name)
		}
		found = append(found, all[i].Name)
		if fields = append(fields, all[i]); i >= len(schema.Key) {
			columns = append(columns, all[i].Name)
		}
	}
	return fields, columns, cli.Once(flag, found)
}

// indexOf returns which column a list of names means. Blanks around a name count only where a column has
// them, as one may whose name is older than the rule against it.
func indexOf(all []inspect.Field, name string) int {
	at := func(name string) int {
		return slices.IndexFunc(all, func(f inspect.Field) bool { return f.Name == name })
	}
	if i := at(name); i >= 0 {
		return i
	}
	return at(strings.TrimSpace(name))
}

// picked returns the values of a row in the order of columns.
func picked(values []any, row store.Row, fields []inspect.Field) []any {
	for _, f := range fields {
		values = append(values, row[f.Name])
	}
	return values
}
