package command

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

// Data says which values are inserted.
type Data struct {
	flags *pflag.FlagSet // that these are bound to

	n    int
	Seed uint64
	kind string

	data, order string // generated

	input, Column, delimiter string // of a file
	header                   string
	skipBad                  bool
	maxBad                   string
}

const (
	defaultN    = 20_000
	defaultData = "uniform"
)

// Bind binds the flags.
func (o *Data) Bind(f *pflag.FlagSet) {
	o.flags = f
	names, abouts := values.Workloads()
	f.IntVar(&o.n, "n", 0, "`number` of values (default 20,000, or all of the input)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the generated values and of the choice of queries")
	f.StringVar(&o.kind, "type", "", "`type` of the values (default: the data's own, or inferred from the input's first rows):\n"+strings.Join(values.KindNames(), ", "))
	f.StringVar(&o.data, "data", "", "generated values, by `name` (default uniform):\n"+cli.List(names, abouts))
	orders, about := values.Orders()
	f.StringVar(&o.order, "order", "", "`order` of the generated values (default random; sorted for sorted and timestamps):\n"+cli.List(orders, about))
	cli.Offer(f, "type", values.KindNames()...)
	cli.Offer(f, "data", names...)
	cli.Offer(f, "order", orders...)
	f.StringVar(&o.input, "input", "", "read the values from this CSV `file` instead")
	f.StringVar(&o.Column, "column", "", "the input's column: its `name` in the first row, or its number from 1 on")
	f.StringVar(&o.header, "header", "", "whether the input's first row holds names, `yes or no` (default: as the\nfirst rows and --column show; what was assumed is printed)")
	cli.Offer(f, "header", "yes", "no")
	f.StringVar(&o.delimiter, "delimiter", "", "`character` between the input's cells, or tab (default ,)")
	f.BoolVar(&o.skipBad, "skip-bad", false, "leave out and count bad rows: the cell is missing or no value, or the row has\nfewer cells than the first, or more that are not empty")
	f.StringVar(&o.maxBad, "max-bad", "", "fail if more `rows` than this are bad, such as 20 or 0.5% (default with --skip-bad:\n1%, or 10 rows of fewer than 100; without it: 0)")
}

// Changed reports whether a flag was given.
func (o *Data) Changed(flag string) bool { return o.flags.Changed(flag) }

// Source returns the values; a limit of 0 is all of them.
func (o *Data) Source(e *cli.Env) (s values.Source, limit int, err error) {
	if o.n < 1 && o.flags.Changed("n") {
		return nil, 0, exit.Usagef("--n is %d, need at least 1", o.n)
	}
	if o.input == "" {
		for _, flag := range []string{"column", "header", "delimiter", "skip-bad", "max-bad"} {
			if o.flags.Changed(flag) {
				return nil, 0, exit.Usagef("--%s is about a file: name it with --input", flag)
			}
		}
		data, n := o.data, o.n
		if data == "" {
			data = defaultData
		}
		if n == 0 {
			n = defaultN
		}
		s, err = values.Generate(data, n, o.Seed, o.kind, o.order)
		return s, 0, err
	}
	switch {
	case o.data != "":
		return nil, 0, exit.Usagef("--data generates values and --input reads them: give one of them")
	case o.order != "":
		return nil, 0, exit.Usagef("--order is about generated values: those of --input come in the order of the file")
	case o.Column == "":
		return nil, 0, exit.Usagef("--input needs --column, the name or number of the column to read")
	}
	csv, err := o.OpenCSV(e, o.input, o.Column, o.kind, o.n)
	if err != nil {
		return nil, 0, err
	}
	return csv, o.n, nil
}

// OpenCSV opens a column of a file, of which limit values are wanted, and prints what is assumed
// about it. A kind of "" is inferred.
func (o *Data) OpenCSV(e *cli.Env, path, column, kind string, limit int) (*values.CSVSource, error) {
	opts := values.CSVOptions{Type: kind, Header: values.Header(o.header), Limit: limit}
	if o.flags.Changed("delimiter") {
		var err error
		if opts.Comma, err = csvrows.ParseComma("delimiter", o.delimiter); err != nil {
			return nil, err
		}
	}
	if o.flags.Changed("header") {
		if err := values.CheckHeader(opts.Header); err != nil {
			return nil, err
		}
	}
	if !o.skipBad && o.flags.Changed("skip-bad") && o.flags.Changed("max-bad") {
		return nil, exit.Usagef("--skip-bad=false and --max-bad contradict each other: give one of them")
	}
	if o.skipBad {
		opts.MaxBad = values.DefaultMaxBad()
	}
	if o.flags.Changed("max-bad") {
		var err error
		if opts.MaxBad, err = values.ParseMaxBad(o.maxBad); err != nil {
			return nil, exit.Usagef("--max-bad: %v", err)
		}
	}
	csv, err := values.OpenCSV(path, column, opts)
	if err != nil {
		return nil, err
	}
	if assumed := csv.Assumed(); assumed != "" {
		e.Warn("%s", assumed)
	}
	return csv, nil
}

// Skipped returns how many rows the last pass over the source left out.
func Skipped(s values.Source) int {
	if c, ok := s.(*values.CSVSource); ok {
		return c.Skipped()
	}
	return 0
}

// Load says how values are sent to the store.
type Load struct{ Batch, Writers int }

// Bind binds the flags.
func (o *Load) Bind(f *pflag.FlagSet) {
	f.IntVar(&o.Batch, "batch", 100, "`rows` that are sent together")
	f.IntVar(&o.Writers, "writers", 4, "`number` of batches that are under way together")
}

// Check returns an error unless the flags have values that they may.
func (o *Load) Check() error {
	if o.Batch < 1 || o.Batch > 10_000 {
		return exit.Usagef("--batch is %d, need 1 to 10,000", o.Batch)
	}
	if o.Writers < 1 || o.Writers > 1024 {
		return exit.Usagef("--writers is %d, need 1 to 1,024", o.Writers)
	}
	return nil
}

// LayoutHelp is the help of the flag that names a layout.
func LayoutHelp() string {
	names, abouts := benchtable.Layouts()
	return "the `layout`, which is where a table has the value (default key; column for schemes that cannot be a key):\n" + cli.List(names, abouts)
}

// OfferTargets has a shell complete the flags --scheme, to the schemes and others, and --layout.
func OfferTargets(f *pflag.FlagSet, others ...string) {
	schemes, _ := benchtable.Schemes()
	layouts, _ := benchtable.Layouts()
	cli.Offer(f, "scheme", append(schemes, others...)...)
	cli.Offer(f, "layout", layouts...)
}

// SchemeHelp lists the schemes for a help text.
func SchemeHelp() string {
	names, abouts := benchtable.Schemes()
	return cli.List(names, abouts)
}
