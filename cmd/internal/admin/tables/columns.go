package tables

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// namedColumns are those that a command is about. They come after the name of the table, or with --column.
type namedColumns struct {
	what  string // each of them is, for messages
	given []string
}

func (n *namedColumns) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&n.given, "column", nil, "`name` of the "+n.what+", as after the name of the table;\nrepeatable")
	cli.OfferColumns(f, "column")
}

// of returns the columns of a call.
func (n *namedColumns) of(c *cli.Call) []string { return slices.Concat(n.given, c.Args[1:]) }

func (n *namedColumns) check(c *cli.Call) error {
	all := n.of(c)
	if len(all) == 0 {
		return exit.Usagef("name the %s after the name of the table, or with --column", n.what)
	}
	for i, column := range all {
		if slices.Contains(all[:i], column) {
			return exit.Usagef("column %s is named twice", show.Visible(column))
		}
	}
	return nil
}
