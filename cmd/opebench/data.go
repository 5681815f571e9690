package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
)

// dataOptions say which values are inserted.
type dataOptions struct {
	flags *pflag.FlagSet // that these are bound to

	n    int
	seed uint64
	kind string

	data, order string // generated

	input, column, delimiter string // of a file
	skipBad                  bool
}

const (
	defaultN    = 20_000
	defaultData = "uniform"
)

func (o *dataOptions) bind(f *pflag.FlagSet) {
	o.flags = f
	names, abouts := bench.Workloads()
	f.IntVar(&o.n, "n", 0, "`number` of values (default 20,000, or all of the input)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the generated values and of the choice of queries")
	f.StringVar(&o.kind, "type", "", "`type` of the values (default: the data's own, or inferred from the input's first rows):\n"+strings.Join(bench.KindNames(), ", "))
	f.StringVar(&o.data, "data", "", "generated values, by `name` (default uniform):\n"+list(names, abouts))
	orders, about := bench.Orders()
	f.StringVar(&o.order, "order", "", "`order` of the generated values (default random; sorted for sorted and timestamps):\n"+list(orders, about))
	f.StringVar(&o.input, "input", "", "read the values from this CSV `file` instead")
	f.StringVar(&o.column, "column", "", "the input's column: its `name` in the first row, or its number from 1 on")
	f.StringVar(&o.delimiter, "delimiter", "", "`character` between the input's cells, or tab (default ,)")
	f.BoolVar(&o.skipBad, "skip-bad", false, "leave out and count the input's rows whose cell is missing or no value")
}

// source returns the values; a limit of 0 is all of them.
func (o *dataOptions) source() (s bench.Source, limit int, err error) {
	if o.n < 1 && o.flags.Changed("n") {
		return nil, 0, usagef("--n is %d, need at least 1", o.n)
	}
	if o.input == "" {
		for flag, given := range map[string]bool{"--column": o.column != "", "--skip-bad": o.skipBad, "--delimiter": o.delimiter != ""} {
			if given {
				return nil, 0, usagef("%s is about a file: name it with --input", flag)
			}
		}
		data, n := o.data, o.n
		if data == "" {
			data = defaultData
		}
		if n == 0 {
			n = defaultN
		}
		s, err = bench.Generate(data, n, o.seed, o.kind, o.order)
		return s, 0, err
	}
	switch {
	case o.data != "":
		return nil, 0, usagef("--data generates values and --input reads them: give one of them")
	case o.order != "":
		return nil, 0, usagef("--order is about generated values: those of --input come in the order of the file")
	case o.column == "":
		return nil, 0, usagef("--input needs --column, the name or number of the column to read")
	}
	opts, err := o.csvOptions()
	if err != nil {
		return nil, 0, err
	}
	s, err = bench.OpenCSV(o.input, o.column, opts)
	return s, o.n, err
}

// csvOptions say how files are read.
func (o *dataOptions) csvOptions() (bench.CSVOptions, error) {
	opts := bench.CSVOptions{Type: o.kind, SkipBad: o.skipBad}
	switch {
	case o.delimiter == "tab":
		opts.Comma = '\t'
	case o.delimiter != "":
		r, size := utf8.DecodeRuneInString(o.delimiter)
		if size != len(o.delimiter) || r == utf8.RuneError || strings.ContainsRune("\"\r\n", r) {
			return opts, usagef("--delimiter must be one character, and no quotation mark or end of line")
		}
		opts.Comma = r
	}
	return opts, nil
}

// skipped returns how many rows the last pass over the source left out.
func skipped(s bench.Source) int {
	if c, ok := s.(*bench.CSVSource); ok {
		return c.Skipped()
	}
	return 0
}

// loadOptions say how values are sent to the store.
type loadOptions struct{ batch, writers int }

func (o *loadOptions) bind(f *pflag.FlagSet) {
	f.IntVar(&o.batch, "batch", 100, "`rows` that are sent together")
	f.IntVar(&o.writers, "writers", 4, "`number` of batches that are under way together")
}

func (o *loadOptions) check() error {
	if o.batch < 1 || o.batch > 10_000 {
		return usagef("--batch is %d, need 1 to 10,000", o.batch)
	}
	if o.writers < 1 || o.writers > 1024 {
		return usagef("--writers is %d, need 1 to 1,024", o.writers)
	}
	return nil
}

// keptStore names a store that is there before or after the command, and its master key.
type keptStore struct{ store, key string }

func (o *keptStore) bind(f *pflag.FlagSet) {
	f.StringVar(&o.store, "store", "", "the `store`:\n"+strings.Join(storeKindUsages(), "\n"))
	f.StringVar(&o.key, "key", "", keyFlagHelp("the store's master key"))
}

func (o *keptStore) check() error {
	if o.store == "" {
		return usagef("name the store with --store: %s", storeUsages())
	}
	if err := checkStore(o.store); err != nil {
		return err
	}
	return checkKey("--key", o.key)
}

func layoutFlagHelp() string {
	names, abouts := bench.Layouts()
	return "the `layout`, which is where a table has the value (default key; column for schemes that cannot be a key):\n" + list(names, abouts)
}

func schemeFlagHelp() string {
	names, abouts := bench.Schemes()
	return list(names, abouts)
}
