package show

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Visible returns a name as it can be printed on a terminal.
func Visible(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || name != strings.TrimSpace(name) {
		return quoted
	}
	return name
}

// Argument returns a name as an argument of a command that a user is to type.
func Argument(name string) string {
	other := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:", r))
	}
	switch {
	case name != "" && strings.IndexFunc(name, other) < 0:
		return name
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }):
		return strconv.Quote(name)
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// Names lists names as a terminal can show them. One with a comma is in double quotes, as flags take it.
func Names(all []string) string {
	var shown []string
	for _, name := range all {
		one := Visible(name)
		if one == name && strings.Contains(name, ",") {
			one = strconv.Quote(name)
		}
		shown = append(shown, one)
	}
	return strings.Join(shown, ", ")
}
