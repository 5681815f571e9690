// Package show is how results look: tables that fit the terminal, and lines of JSON.
package show

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// None is written where there is nothing to write.
const None = "-"

// Prose is the width of running text where no terminal says one.
const Prose = 92

// Style is how a table is to look.
type Style struct {
	Width int  // of the terminal in columns; 0 where there is none
	Bold  bool // headers
}

// Grid returns a table without lines, whose columns of numbers stand at the right.
func Grid(headers []string, rows [][]string, number func(column int) bool, style Style) string {
	t := table.NewWriter()
	plain := table.StyleDefault
	plain.Options = table.OptionsNoBordersAndSeparators
	plain.Box.PaddingLeft, plain.Box.PaddingRight = "", "  "
	plain.Format.Header = text.FormatDefault
	plain.Color = table.ColorOptions{}
	if style.Bold {
		plain.Color.Header = text.Colors{text.Bold}
	}
	t.SetStyle(plain)
	line := func(cells []string) table.Row {
		row := table.Row{}
		for _, c := range cells {
			row = append(row, c)
		}
		return row
	}
	var configs []table.ColumnConfig
	for i := range headers {
		if number(i) {
			configs = append(configs, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(line(headers))
	t.SetColumnConfigs(configs)
	for _, cells := range rows {
		t.AppendRow(line(cells))
	}
	var b strings.Builder
	for line := range strings.Lines(t.Render()) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// Longest returns the columns of the longest line.
func Longest(s string) int {
	n := 0
	for line := range strings.Lines(s) {
		n = max(n, text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")))
	}
	return n
}

// Wrap returns a text in lines of at most a width, if that is not 0.
func Wrap(s string, width int) string {
	if width > 0 {
		s = text.WrapSoft(s, width)
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// Percent writes a share in per cent.
func Percent(share float64) string {
	return fmt.Sprintf("%v %%", math.Round(share*1e8)/1e6)
}

// Count writes 20000 as 20,000.
func Count(n int) string {
	s := fmt.Sprint(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// AppendFloat appends a number of so many bits as most programs read it: DuckDB and Polars take +Inf for a text, and Python takes -0 of JSON for
// an integer, of which 0 has no sign.
func AppendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(dst, "inf"...)
	case math.IsInf(v, -1):
		return append(dst, "-inf"...)
	case v == 0 && math.Signbit(v):
		return append(dst, "-0.0"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// Plural returns what n of something are called: "row" for 1, "rows" otherwise.
func Plural(n int, what string) string {
	switch {
	case n == 1:
		return what
	case strings.HasSuffix(what, "ry"):
		return strings.TrimSuffix(what, "y") + "ies"
	case strings.HasSuffix(what, "x"):
		return what + "es"
	}
	return what + "s"
}

// Counted returns a number of something: "1 row", "2 index entries".
func Counted(n int, what string) string { return fmt.Sprintf("%d %s", n, Plural(n, what)) }

// Verb returns which form of a verb n of something take: "is" for 1, "are" otherwise.
func Verb(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// Lines writes JSON lines.
func Lines(w io.Writer, lines []any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// A JSONEnvironment is the line of JSON of an environment.
type JSONEnvironment struct {
	Record string `json:"record"` // "environment"
	Environment
}
