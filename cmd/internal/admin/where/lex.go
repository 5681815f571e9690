package where

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// A kind is what a token is: the number of its group in tokens.
type kind int

const (
	end    kind = iota
	quoted      // in quotation marks
	name        // in backquotes
	hex         // x'..'
	word        // a keyword, or a name
	bare        // begins as a number does; dates, times, addresses and UUIDs may do so, too
	sign        // an operator, a bracket or a comma
)

// A token is what a text consists of.
type token struct {
	kind     kind
	text     string // without quotation marks
	at, last int    // its bytes in the text: from, and up to
}

var tokens = regexp.MustCompile(`^(?:('(?:[^']|'')*'|"(?:[^"]|"")*")|` + "(`(?:[^`]|``)*`)" +
	`|([xX]'[^']*')|([\pL_][\pL\pN_.-]*)|([-+.:\pN][\pL\pN_.:+-]*)|(<=|>=|<>|!=|[=<>(),]))`)

// strays are what people write from habit, and what to write in its place.
var strays = []struct{ text, hint string }{
	{"&", "write and"},
	{"|", "write or; a text with this character is in quotation marks"},
	{"!", "write not, or != between a column and a value"},
	{"\u2264", "write <="}, {"\u2265", "write >="}, {"\u2260", "write !="},
	{"\u201c", straight}, {"\u201d", straight}, {"\u201e", straight}, {"\u2018", straight}, {"\u2019", straight}, {"\u00b4", straight},
	{";", "leave it out: a condition has no sign at its end"},
	{"[", "write the name without brackets, or in backquotes"},
	{"*", noSums}, {"/", noSums + "; a date with this character is in quotation marks"}, {"%", noSums},
}

const (
	straight = "write a straight quotation mark, ' or \""
	noSums   = "there is no arithmetic: compare a column with a value"
)

// stray says what to do about the character that a text begins with, which means nothing.
func stray(text string) string {
	for _, s := range strays {
		if strings.HasPrefix(text, s.text) {
			return "this character means nothing here: " + s.hint
		}
	}
	return "this character means nothing here; texts are in quotation marks, and names in backquotes if they have such characters"
}

// notUTF8 returns the place of the first byte that is not UTF-8, or -1.
func notUTF8(text string) int {
	for at, r := range text {
		if _, size := utf8.DecodeRuneInString(text[at:]); r == utf8.RuneError && size == 1 {
			return at
		}
	}
	return -1
}

// read divides a text into tokens, of which the last is the end.
func read(text string) ([]token, error) {
	var all []token
	for at := 0; ; {
		rest := strings.TrimLeft(text[at:], " \t\r\n")
		at = len(text) - len(rest)
		if rest == "" {
			return append(all, token{end, "", at, at}), nil
		}
		found := tokens.FindStringSubmatchIndex(rest)
		switch first, _ := utf8.DecodeRuneInString(rest); {
		case found != nil:
		case strings.ContainsRune("'\"`", first):
			return nil, Errorf(text, at, "this quotation mark is not closed; inside, it is written twice")
		default:
			return nil, Errorf(text, at, "%s", stray(rest))
		}
		k := end + 1
		for found[2*k] < 0 {
			k++
		}
		t := token{k, rest[:found[1]], at, at + found[1]}
		switch k {
		case quoted, name:
			mark := t.text[:1]
			t.text = strings.ReplaceAll(t.text[1:len(t.text)-1], mark+mark, mark)
		case hex:
			t.text = t.text[2 : len(t.text)-1]
		}
		all, at = append(all, t), t.last
	}
}
