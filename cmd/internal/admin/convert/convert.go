// Package convert runs the conversion of a table, or of the rows of a tenant, for commands, and prints how far it is.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A Conversion is that of a table, or of what a tenant has in it.
type Conversion struct {
	*cli.Call
	Table, Tenant string
}

// name says what is converted.
func (c Conversion) name() string { return command.TableOf(c.Table, c.Tenant) }

// Run converts the rows, or a part of them, and prints what it did.
func (c Conversion) Run(ctx context.Context, tbl *store.Table, part command.PartFlag) error {
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
func (c Conversion) unfit(s inspect.ConvertStats) error {
	if s.Unfit == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s %s not converted, since the schema does not take what has NaN in a column that is searched, "+
		"or would be too large; put null or another value there, or delete the row, and convert again: --where 'COLUMN is nan' finds the former", c.name(), show.Counted(s.Unfit, "row"), show.Verb(s.Unfit, "is", "are"))
}

// runPart converts a part, and prints a line of JSON whatever comes of it: whoever runs the parts adds the lines up.
func (c Conversion) runPart(ctx context.Context, tbl *store.Table, part inspect.Part) error {
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
	}{"conversion_part", c.ShownStore(), c.Table, c.Tenant, part, s.Rows, s.Converted, s.Unreadable, s.Unfit, s.Copies, err == nil && s.Unfit == 0, s.Done, s.Over})
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

func (c Conversion) print(s inspect.ConvertStats, complete bool) error {
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
		}{"conversion", c.ShownStore(), c.Table, c.Tenant, s.Rows, s.Converted, s.Unreadable, s.Unfit, complete})
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

// PrintStatus prints how far the conversion is.
func (c Conversion) PrintStatus(ctx context.Context, tbl *store.Table) error {
	s, err := tbl.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.EncodeStatus(s)
	}
	line := c.name() + ": no column is to be converted"
	if len(s.Pending) > 0 {
		line = fmt.Sprintf("%s: to be converted for %s", c.name(), show.Names(s.Pending))
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
		line += fmt.Sprintf("; 'rangecrypt tenant status --table %s' shows each tenant", show.Visible(c.Table))
	}
	return c.Line("%s", line)
}

// EncodeStatus prints how far the conversion is as a line of JSON.
func (c Conversion) EncodeStatus(s inspect.ConvertStatus) error {
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
	}{"conversion_status", c.ShownStore(), c.Table, c.Tenant, pending, s.Version, s.Latest, s.Done, s.Total})
}

// Progress says how far a conversion is.
func Progress(s inspect.ConvertStatus) string {
	switch {
	case s.Total == 0:
		return fmt.Sprintf("none for version %d", s.Latest)
	case s.Version < s.Latest && s.Done < s.Total:
		return fmt.Sprintf("%d of %d parts for version %d; begins again, for version %d", s.Done, s.Total, s.Version, s.Latest)
	case s.Version < s.Latest:
		return fmt.Sprintf("done for version %d, none for version %d", s.Version, s.Latest)
	case s.Done < s.Total:
		return fmt.Sprintf("%d of %d parts for version %d", s.Done, s.Total, s.Version)
	}
	return fmt.Sprintf("done for version %d", s.Version)
}
