package cli

import (
	"encoding/csv"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// once returns the text of an error in which each package is named once. Errors of a package are wrapped by others of it.
func once(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	for _, pkg := range []string{"store: ", "driver: ", "ope: ", "kms: "} {
		at := strings.Index(first, pkg)
		if at < 0 || at > 0 && !strings.HasSuffix(first[:at], ": ") {
			continue
		}
		at += len(pkg)
		first = first[:at] + strings.ReplaceAll(first[at:], ": "+pkg, ": ")
	}
	if more {
		return first + "\n" + rest
	}
	return first
}

// kinds are the values that flags take, by the names of pflag.
var kinds = map[string]string{"int": "an integer", "int64": "an integer", "uint64": "an integer from 0 on", "float64": "a number", "bool": "true or false",
	"duration": "a duration, such as 90s or 1h30m"}

// flagError says in our words what is wrong with a flag, or with its value.
func flagError(cmd *cobra.Command, err error) error {
	flags := cmd.Flags()
	var bad *pflag.InvalidValueError
	var number *strconv.NumError
	var none *pflag.NotExistError
	if errors.As(err, &none) && len(none.GetSpecifiedName()) > 1 {
		var names []string
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		return exit.Usagef("%v%s", err, strings.Replace(show.DidYouMean(names, none.GetSpecifiedName()), "mean ", "mean --", 1))
	}
	if none != nil && strings.IndexAny(none.GetSpecifiedShortnames(), ".0123456789") == 0 {
		takes := "no argument that is negative"
		if args := cmd.Annotations[offerArgs]; args != "" {
			takes = strings.ReplaceAll(args, "\n", " and ")
		}
		return exit.Usagef("-%s is negative: %s takes %s", none.GetSpecifiedShortnames(), cmd.Name(), takes)
	}
	if !errors.As(err, &bad) {
		return exit.Usagef("%v", err)
	}
	if errors.Is(err, errTwice) {
		hint := "give one of them"
		if what, _ := pflag.UnquoteUsage(bad.GetFlag()); what == "condition" {
			hint = "write one, with and, or or, between them"
		}
		return exit.Usagef("--%s is %v: %s", bad.GetFlag().Name, errTwice, hint)
	}
	var list *csv.ParseError
	kind := kinds[bad.GetFlag().Value.Type()]
	switch {
	case errors.As(bad.Unwrap(), &list):
		return exit.Usagef(`--%s is %q, need values with commas between them, and in double quotes those that have a comma or such a quote in them: 'a,"b,c"', `+
			`without a blank before the quote`, bad.GetFlag().Name, bad.GetValue())
	case kind == "":
		return exit.Usagef("%v", err)
	case errors.As(bad.Unwrap(), &number) && errors.Is(number.Err, strconv.ErrRange):
		return exit.Usagef("--%s is %q, which is too large or too small", bad.GetFlag().Name, bad.GetValue())
	}
	return exit.Usagef("--%s is %q, need %s", bad.GetFlag().Name, bad.GetValue(), kind)
}
