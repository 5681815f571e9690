package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errTwice is the error of a flag that has one value, and is given two.
var errTwice = errors.New("given twice, with two values")

// A single is the value of a flag that has one. A second one would replace the first unsaid: of two conditions, or two files with rows, one would
// be left out.
type single struct {
	pflag.Value
	given *string // nil before there is one
}

// Set sets the value, unless there is another one. Integers are decimal, also with zeros before them: to pflag, 010 is 8.
func (s *single) Set(text string) error {
	if s.given != nil && *s.given != text {
		return errTwice
	}
	s.given = &text
	switch s.Type() {
	case "int":
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		text = strconv.Itoa(n)
	case "uint64":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		text = strconv.FormatUint(n, 10)
	}
	return s.Value.Set(text)
}

// refuseSecond has the flags of a command and its subcommands refuse a second value, unless they gather all that they are given.
func refuseSecond(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, list := f.Value.(pflag.SliceValue)
		if gathers := f.Annotations[gathered] != nil; !list && !gathers {
			f.Value = &single{Value: f.Value}
		}
	})
	for _, sub := range cmd.Commands() {
		refuseSecond(sub)
	}
}

// gathered is the annotation of flags that are no list, and gather all values.
const gathered = "gathered"

// Gathers says that flags which are no lists take one value after the other.
func Gathers(f *pflag.FlagSet, flags ...string) {
	for _, flag := range flags {
		annotate(f, flag, gathered, []string{})
	}
}
