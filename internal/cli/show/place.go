package show

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Place returns the part of a text around a place, and below it a line with a mark at the place. What would move the
// cursor of a terminal is a dot.
func Place(all string, at int) string {
	const around = 30 // characters on either side
	at = min(at, len(all))
	before, after := []rune(harmless(all[:at])), []rune(harmless(all[at:]))
	cut := ""
	if len(before) > around {
		cut, before = "...", before[len(before)-around:]
	}
	indent := text.StringWidth(cut + string(before))
	if len(after) > around {
		after = append(after[:around:around], []rune("...")...)
	}
	return "  " + cut + string(before) + string(after) + "\n  " + strings.Repeat(" ", indent) + "^"
}

func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r), unicode.Is(unicode.Mn, r):
			return '.'
		}
		return r
	}, s)
}
