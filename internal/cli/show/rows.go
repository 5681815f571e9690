package show

import (
	"fmt"
	"slices"
	"strings"
)

// Rows returns rows of texts as a table, and as a paragraph for each row, which its first cell
// begins, where the terminal is too narrow for a table. numbers are the columns to align on the
// right. A column without any text is left out.
func Rows(headers []string, rows [][]string, numbers []int, style Style) string {
	var shown []int
	for i := range headers {
		if i == 0 || slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			shown = append(shown, i)
		}
	}
	pick := func(cells []string) (picked []string) {
		for _, i := range shown {
			picked = append(picked, cells[i])
		}
		return picked
	}
	var picked [][]string
	for _, row := range rows {
		picked = append(picked, pick(row))
	}
	table := Grid(pick(headers), picked, func(i int) bool { return slices.Contains(numbers, shown[i]) }, style)
	if style.Width == 0 || Longest(table) <= style.Width {
		return table
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(Wrap(row[0], style.Width))
		for _, i := range shown[1:] {
			if row[i] != "" {
				b.WriteString(Wrap(fmt.Sprintf("  %s: %s", strings.ToLower(headers[i]), row[i]), style.Width))
			}
		}
	}
	return b.String()
}

// Line returns text as a line, or as some where a terminal is too narrow.
func Line(text string, style Style) string { return Wrap(text+"\n", style.Width) }
