package tabular

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// A heading says what is known of the names of fields before an input is opened.
type heading struct {
	names   []string // that a field may have
	ignored []string // those of fields that are left out
	text    bool     // the names are cells of a first row, which may hold values
}

// check refuses fields that nobody can tell apart. It gives fields without a name their numbers as names, and returns the numbers.
func (h heading) check(fields []string) (unnamed []int, err error) {
	in, advice := "", ""
	if h.text {
		in, advice = " in the first row", "; if the first row holds values, say --header no"
	}
	at := make(map[string]int, len(fields))
	for i, name := range fields {
		if h.text && !utf8.ValidString(name) {
			return nil, errors.New("its first row is not in UTF-8: write the file in UTF-8 first, with 'iconv -f WINDOWS-1252 -t UTF-8', say")
		}
		first, again := at[name]
		switch {
		case name == "" && (len(fields) > 1 || !h.text):
			// As tables are written whose first column only counts the rows.
			unnamed = append(unnamed, i+1)
		case !again:
			at[name] = i
		case slices.Contains(h.ignored, name):
		case h.known(fields):
			return nil, fmt.Errorf("fields number %d and %d have the same name, %s: rename one of them, or leave both out with --ignore %s",
				first+1, i+1, show.Visible(name), show.Argument(name))
		default:
			return nil, fmt.Errorf("fields number %d and %d have the same name: rename one of them, or leave both out with --ignore and their name%s", first+1, i+1, advice)
		}
	}
	for _, number := range unnamed {
		name := strconv.Itoa(number)
		if _, taken := at[name]; taken && !slices.Contains(h.ignored, name) {
			return nil, fmt.Errorf("field number %d has no name%s, and another field is called %d: give it a name, or leave both out with --ignore %d%s",
				number, in, number, number, advice)
		}
		fields[number-1] = name
	}
	return unnamed, nil
}

// IsLike reports whether the name of a field is that of a column, but for capitals and the blanks around it.
func IsLike(field, column string) bool { return strings.EqualFold(strings.TrimSpace(field), column) }

// known reports whether a message may have the names of fields. Cells of a first row may be values where none is like
// the name of a column, and values are in no message.
func (h heading) known(fields []string) bool {
	return !h.text || slices.ContainsFunc(fields, func(field string) bool {
		return slices.ContainsFunc(h.names, func(name string) bool { return IsLike(field, name) })
	})
}
