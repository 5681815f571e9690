package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

func newTableConvert(e *cli.Env) *cobra.Command {
	var status bool
	var part command.PartFlag
	return cli.Command{
		Use:   "convert NAME",
		Short: "Write again the rows that are stored as an earlier schema said",
		Long: `Convert writes all rows of a table again that are not stored as its schema says by now.
Then rows are found by columns that were changed without opening all of them, and what
dropped columns left is removed. Readers and writers may go on, and lose nothing.

A row that the schema does not take is left as it is, and the exit code is 1: it holds NaN
in a column that is searched, or would be too large. Put null or another value there.

It goes through the key space in 64 parts, and --status says how many are done. That is no
share of the rows: where keys are close to each other, most of these are in few parts.

It may be stopped at any time; the same command goes on where it was. Several may run at a
time and share the work. So a scheduler can have it done: with --part and --parts it does
one part, and whoever does the last one ends the conversion. Parts may be done twice, at
the same time, and of cuts that differ. What is done already is not read again.

Of a table whose rows share pages, it seals those again that are under an earlier key.

Of a table with tenants it converts what all of them have;
'rangecrypt tenant convert' that of one.`,
		Example: `  rangecrypt table convert readings --store pebble:data --key app.key
  rangecrypt table convert readings --store pebble:data --key app.key --status
  rangecrypt table convert readings --store pebble:data --key app.key --part 0 --parts 100`,
		Args: []string{"the name of a table"},
		JSON: "print the result as a line of JSON",
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&status, "status", false, "show how far the conversion is, convert nothing")
			part.Bind(f)
		},
		Check: func(c *cli.Call) error {
			if status && c.Flags.Changed("part") {
				return exit.Usagef("--status is of the whole table: leave out --part and --parts")
			}
			return part.Check(c.Flags)
		},
		Run: func(ctx context.Context, c *cli.Call) error {
			tbl, err := command.Table(ctx, c.Store, c.Arg())
			if errors.Is(err, command.ErrPaged) {
				return reseal(ctx, c)
			}
			if err != nil {
				return err
			}
			if status {
				return conversion{c, c.Arg(), ""}.printStatus(ctx, tbl)
			}
			return conversion{c, c.Arg(), ""}.run(ctx, tbl, part)
		},
	}.New(e)
}

// A conversion is that of a table, or of what a tenant has in it.
type conversion struct {
	*cli.Call
	table, tenant string
}

// name says what is converted.
func (c conversion) name() string { return command.TableOf(c.table, c.tenant) }

func (c conversion) run(ctx context.Context, tbl *store.Table, part command.PartFlag) error {
	if part.Given() {
		return c.runPart(ctx, tbl, part.Part)
	}
	if before, err := tbl.Status(ctx); err != nil {
		return err
	} else if text := begun(before); text != "" {
		c.Warn("%s: %s", c.name(), text)
	}
	bar := c.Totals()
	stats, err := tbl.Convert(ctx, func(done, total int) { bar.At("converting "+c.name(), done, total) })
	bar.End()
	if err != nil && ctx.Err() != nil {
		c.Warn("the conversion is not finished; the same command goes on")
	}
	complete := err == nil && stats.Unfit == 0
	return errors.Join(exit.Early(ctx, cmp.Or(err, c.unfit(stats))), c.print(stats, complete))
}

// unfit returns an error if rows were left that the schema does not take.
func (c conversion) unfit(s inspect.ConvertStats) error {
	if s.Unfit == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s %s not converted, since the schema does not take what has NaN in a column that is searched, "+
		"or would be too large; put null or another value there and convert again", c.name(), show.Counted(s.Unfit, "row"), show.Verb(s.Unfit, "is", "are"))
}

// runPart converts a part, and prints a line of JSON whatever comes of it: whoever runs the parts adds the lines up.
func (c conversion) runPart(ctx context.Context, tbl *store.Table, part inspect.Part) error {
	s, err := tbl.ConvertPart(ctx, part)
	failed := c.Encode(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table"`
		Tenant string `json:"tenant,omitempty"`
		inspect.Part
		Rows       int  `json:"rows"`
		Converted  int  `json:"converted"`
		Unreadable int  `json:"unreadable"`
		Unfit      int  `json:"unfit"`
		Copies     int  `json:"copies"`
		Complete   bool `json:"complete"` // this part
		Done       int  `json:"done"`     // of the parts
		Over       bool `json:"over"`
	}{"conversion_part", c.ShownStore(), c.table, c.tenant, part, s.Rows, s.Converted, s.Unreadable, s.Unfit, s.Copies, err == nil && s.Unfit == 0, s.Done, s.Over})
	return errors.Join(exit.Early(ctx, cmp.Or(err, c.unfit(s.ConvertStats))), failed)
}

// begun says what an earlier call, or another client that is at it, has done of a conversion.
func begun(s inspect.ConvertStatus) string {
	switch {
	case s.Done == s.Total:
		return "" // it is over, or there was none
	case s.Version < s.Latest:
		return fmt.Sprintf("a conversion for version %d of the catalogue has done %d of %d parts of the key space; what is wanted was changed since, "+
			"so that it begins again, for version %d", s.Version, s.Done, s.Total, s.Latest)
	}
	return fmt.Sprintf("a conversion has begun before, and done %d of %d parts of the key space; this joins it", s.Done, s.Total)
}

func (c conversion) print(s inspect.ConvertStats, complete bool) error {
	if c.JSON {
		return c.Encode(struct {
			Record     string `json:"record"`
			Store      string `json:"store"`
			Table      string `json:"table"`
			Tenant     string `json:"tenant,omitempty"`
			Rows       int    `json:"rows"`
			Converted  int    `json:"converted"`
			Unreadable int    `json:"unreadable"`
			Unfit      int    `json:"unfit"`
			Complete   bool   `json:"complete"`
		}{"conversion", c.ShownStore(), c.table, c.tenant, s.Rows, s.Converted, s.Unreadable, s.Unfit, complete})
	}
	line := fmt.Sprintf("%s: %s read, %d of them rewritten", c.name(), show.Counted(s.Rows, "row"), s.Converted)
	if s.Unreadable > 0 {
		line += fmt.Sprintf(", %d left since they cannot be read: see 'rangecrypt verify'", s.Unreadable)
	}
	if s.Unfit > 0 {
		line += fmt.Sprintf(", %d left since the schema does not take them", s.Unfit)
	}
	if !complete {
		line += "; not finished"
	}
	return c.Line("%s", line)
}

func (c conversion) printStatus(ctx context.Context, tbl *store.Table) error {
	s, err := tbl.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.encodeStatus(s)
	}
	line := c.name() + ": no column is to be converted"
	if len(s.Pending) > 0 {
		line = fmt.Sprintf("%s: to be converted for %s", c.name(), names(s.Pending))
	}
	if s.Total > 0 {
		line += fmt.Sprintf("; %d of %d parts of the key space are done, for version %d of the catalogue", s.Done, s.Total, s.Version)
		if s.Done < s.Total {
			line += "; rows may be in few of the parts"
		}
	}
	if s.Total > 0 && s.Version < s.Latest {
		line += fmt.Sprintf("; the table was changed since, at version %d, and rows may be stored as before", s.Latest)
	}
	if tbl.Schema().Tenants {
		line += fmt.Sprintf("; 'rangecrypt tenant status --table %s' shows each tenant", show.Visible(c.table))
	}
	return c.Line("%s", line)
}

func (c conversion) encodeStatus(s inspect.ConvertStatus) error {
	pending := s.Pending
	if pending == nil {
		pending = []string{}
	}
	return c.Encode(struct {
		Record  string   `json:"record"`
		Store   string   `json:"store"`
		Table   string   `json:"table"`
		Tenant  string   `json:"tenant,omitempty"`
		Pending []string `json:"pending"`
		Version uint32   `json:"version"`
		Latest  uint32   `json:"latest"`
		Done    int      `json:"done"`
		Total   int      `json:"total"`
	}{"conversion_status", c.ShownStore(), c.table, c.tenant, pending, s.Version, s.Latest, s.Done, s.Total})
}

// names lists names as a terminal can show them. One with a comma is in double quotes, as flags take it.
func names(all []string) string {
	var shown []string
	for _, name := range all {
		one := show.Visible(name)
		if one == name && strings.Contains(name, ",") {
			one = strconv.Quote(name)
		}
		shown = append(shown, one)
	}
	return strings.Join(shown, ", ")
}
