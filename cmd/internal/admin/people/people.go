// Package people shows rows to people, as a table or, where a terminal is too narrow for one, as paragraphs. Its memory
// does not depend on the number of rows: the first ones decide how wide columns are.
package people

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

const (
	// deciding is how many rows decide. Their texts are kept until then.
	deciding = 200
	// widest is how wide a column may be made by them.
	widest = 60
)

// A Table shows rows. Null is nothing, an empty text is "", and what would move the cursor of a terminal is written as
// in Go.
type Table struct {
	w       io.Writer
	columns []*celltext.Column
	numbers []bool
	style   show.Style

	kept   [][]string // of the rows before widths are known
	widths []int
	tall   bool // rows are paragraphs
}

// New returns a table of columns.
func New(w io.Writer, columns []*celltext.Column, style show.Style) *Table {
	t := &Table{w: w, columns: columns, style: style}
	for _, c := range columns {
		typ := strings.TrimRight(c.Type, "0123456789()-")
		t.numbers = append(t.numbers, slices.Contains([]string{"int", "uint", "float", "decimal"}, typ))
	}
	return t
}

// Write shows a row: values in the order of the columns, of the Go types of the store; nil is null.
func (t *Table) Write(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		if v == nil {
			continue
		}
		s, err := t.columns[i].Text(v)
		if err != nil {
			return fmt.Errorf("column %q: %w", t.columns[i].Name, err)
		}
		if cells[i] = show.Visible(s); s == "" {
			cells[i] = `""`
		}
	}
	if t.widths != nil {
		return t.row(cells)
	}
	if t.kept = append(t.kept, cells); len(t.kept) < deciding {
		return nil
	}
	return t.decide()
}

// Close shows what is left. Of no rows it shows the names of the columns, unless there was an error.
func (t *Table) Close(failed bool) error {
	if t.widths != nil || failed && len(t.kept) == 0 {
		return nil
	}
	return t.decide()
}

// decide fixes the widths, and shows the rows that were kept.
func (t *Table) decide() error {
	headers := make([]string, len(t.columns))
	t.widths = make([]int, len(t.columns))
	total := 0
	for i, c := range t.columns {
		headers[i] = show.Visible(c.Name)
		t.widths[i] = text.StringWidth(headers[i])
		for _, row := range t.kept {
			t.widths[i] = max(t.widths[i], min(widest, text.StringWidth(row[i])))
		}
		total += t.widths[i] + 2
	}
	t.tall = t.style.Width > 0 && total-2 > t.style.Width
	if !t.tall {
		if err := t.line(headers, t.style.Bold); err != nil {
			return err
		}
	}
	for _, row := range t.kept {
		if err := t.row(row); err != nil {
			return err
		}
	}
	t.kept = nil
	return nil
}

func (t *Table) row(cells []string) error {
	if !t.tall {
		return t.line(cells, false)
	}
	var b strings.Builder
	for i, cell := range cells {
		if cell != "" {
			b.WriteString(show.Wrap(show.Visible(t.columns[i].Name)+": "+cell+"\n", t.style.Width))
		}
	}
	_, err := io.WriteString(t.w, b.String()+"\n")
	return err
}

// line writes cells below each other's. What is wider than its column moves the rest of the line.
func (t *Table) line(cells []string, bold bool) error {
	var b strings.Builder
	for i, cell := range cells {
		space := strings.Repeat(" ", max(0, t.widths[i]-text.StringWidth(cell)))
		if t.numbers[i] {
			cell = space + cell
		} else {
			cell += space
		}
		b.WriteString(cell + "  ")
	}
	line := strings.TrimRight(b.String(), " ")
	if bold {
		line = text.Bold.Sprint(line)
	}
	_, err := io.WriteString(t.w, line+"\n")
	return err
}
