package values

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// Header says whether the first row of a file holds the columns' names.
type Header string

// The headers. By default the column and the first rows decide.
const (
	HeaderGuess Header = ""
	HeaderYes   Header = "yes"
	HeaderNo    Header = "no"
)

// CheckHeader returns an error unless there is such a header.
func CheckHeader(h Header) error {
	if h != HeaderYes && h != HeaderNo {
		return exit.Usagef("--header %q: say yes if the first row holds the columns' names, no if it holds values", h)
	}
	return nil
}

// find finds the column that is called so, and whether the first row holds names. Outer blanks
// count only where names differ in nothing else.
func (s *CSVSource) find(column string) error {
	var named, exactly []int
	for i, name := range s.names {
		if name == column {
			exactly = append(exactly, i)
		}
		if strings.TrimSpace(name) == strings.TrimSpace(column) {
			named = append(named, i)
		}
	}
	if len(exactly) == 1 {
		named = exactly
	}
	column = strings.TrimSpace(column)
	number, err := strconv.Atoi(column)
	isNumber := err == nil && number >= 1 && number <= len(s.names)

	header := s.opts.Header
	another := isNumber && slices.ContainsFunc(named, func(i int) bool { return i != number-1 })
	if header == HeaderGuess && isNumber {
		if header, err = s.guess(number-1, another); err != nil {
			return err
		}
		if header == HeaderYes && another {
			return s.ambiguous(named[0], number)
		}
	}
	switch {
	case header == HeaderNo && isNumber:
		s.index = number - 1
	case header == HeaderNo:
		return exit.Usagef("--header no: the columns of %s have no names, give a number from 1 to %d with --column", s.path, len(s.names))
	case len(named) == 1:
		s.header, s.index = true, named[0]
	case len(named) > 1:
		return fmt.Errorf("%w: %s has %d columns named %q; give the number of one", ErrInput, s.path, len(named), column)
	case isNumber:
		s.header, s.index = true, number-1
	default:
		return s.noColumn(column)
	}
	s.stored = s.storedName()
	s.column = ShownColumn(s.stored)
	// A row without any text may be one of values, of which the name is one.
	noText := !slices.ContainsFunc(s.names, func(cell string) bool { return classOf(cell) == classText })
	if s.opts.Header == HeaderGuess && (isNumber || noText) {
		s.assumed = fmt.Sprintf("the first row of %s is taken for values; with --header yes it is taken for names", s.path)
		if s.header {
			s.assumed = fmt.Sprintf("the first row of %s is taken for names, and the column is number %d, %q; with --header no it is taken for values", s.path, s.index+1, s.column)
		}
	}
	if another && s.header && s.opts.Header == HeaderYes {
		s.assumed = fmt.Sprintf("the column is number %d of %s, whose name is %q, and not number %d", s.index+1, s.path, column, number)
	}
	return nil
}

// ambiguous returns the error of a number that is the name of another column.
func (s *CSVSource) ambiguous(named, number int) error {
	other := strings.TrimSpace(s.names[number-1])
	instead := "give the columns of the file other names"
	if _, err := strconv.Atoi(other); err != nil && other != "" && s.namesHave(other) == 1 {
		instead = fmt.Sprintf("give its name, --column %s", show.Argument(other))
	}
	return exit.Usagef("--column %d is the name of column number %d of %s, and the number of column %q: for the name, give --header yes; for the number, %s",
		number, named+1, s.path, other, instead)
}

// Assumed says what was assumed about the first row, and how to change it; it is "" where there was
// no doubt.
func (s *CSVSource) Assumed() string { return s.assumed }

// derivedMark begins the names that tables have for columns without a name of their own. A column that has such a
// name in its header gets a derived one, too.
const derivedMark = ":"

// formerMark is what earlier versions had in its place, while names could begin with a space.
const formerMark = " "

// SameColumn reports whether a table that has a stored name was filled from the column of the other.
func SameColumn(stored, name string) bool {
	if former, ok := strings.CutPrefix(stored, formerMark); ok {
		stored = derivedMark + former
	}
	return stored == name
}

// StoredName returns the name that a table's column has if it is filled from a column.
func StoredName(column string) string {
	if !storable(column) {
		return noName
	}
	return column
}

// noName is the name of a table's column where that which it is filled from has none.
const noName = "value"

// storable reports whether a column of a table can have the name, whenever it was made.
func storable(name string) bool { return name != "" && len(name) <= 100 && utf8.ValidString(name) }

// givable reports whether a new one can; outer blanks do not count here.
func givable(name string) bool {
	return storable(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// storedName returns the name by which a table knows the column. It is the name in the header, if
// that is one column's own and a table can have it. Otherwise it is derived from the name, the
// number, or both, so that columns which differ have names that differ.
func (s *CSVSource) storedName() string {
	number := strconv.Itoa(s.index + 1)
	if !s.header {
		return derivedMark + number
	}
	name := strings.TrimSpace(s.names[s.index])
	own := s.namesHave(name) == 1 && name != ""
	marked := strings.HasPrefix(name, derivedMark)
	if own && givable(name) && !marked {
		return name
	}
	derived := name
	switch {
	case name == "":
		derived += "number " + number
	case !own:
		derived += ", number " + number
	}
	if stored := derivedMark + derived; givable(stored) && !marked {
		return stored
	}
	const kept = 60
	digest := sha256.Sum256([]byte(formerMark + derived))
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name[:min(len(name), kept)], ""))
	return derivedMark + name + fmt.Sprintf("... %x", digest[:8])
}

// ShownColumn returns the name of a table's column without what marks it as derived.
func ShownColumn(stored string) string {
	if former, ok := strings.CutPrefix(stored, formerMark); ok {
		return former
	}
	return strings.TrimPrefix(stored, derivedMark)
}

// standIn matches what is shown for a column without a name of its own. A name may be like that, too.
var standIn = regexp.MustCompile(`(^|, )number [0-9]+$`)

// DescribeColumn says of which column a table has the values.
func DescribeColumn(stored string) string {
	shown := ShownColumn(stored)
	if _, err := strconv.Atoi(shown); err == nil && shown != stored {
		return fmt.Sprintf("column number %s of a file without names", shown)
	}
	if shown == stored && standIn.MatchString(shown) {
		return fmt.Sprintf("the column whose name is %q", shown)
	}
	return fmt.Sprintf("column %q", shown)
}

// namesHave returns how many columns have a name.
func (s *CSVSource) namesHave(name string) int {
	n := 0
	for _, other := range s.names {
		if strings.TrimSpace(other) == name {
			n++
		}
	}
	return n
}

// noColumn returns the error of a column that is not there. It shows the first row only if it is
// certain that this holds names.
func (s *CSVSource) noColumn(column string) error {
	what := fmt.Sprintf("has no column %q", column)
	if slices.ContainsFunc(s.names, func(name string) bool { return !utf8.ValidString(name) }) {
		what += " (its first row is not in UTF-8: write the file in UTF-8 first, with 'iconv -f WINDOWS-1252 -t UTF-8', say)"
	}
	if _, err := strconv.Atoi(column); err == nil {
		return fmt.Errorf("%w: %s has %s, none is named or numbered %s%s", ErrInput, s.path, show.Counted(len(s.names), "column"), column, s.otherDelimiter())
	}
	names, values, err := s.evidence()
	if err != nil {
		return err
	}
	if s.opts.Header != HeaderYes && (!names || values) {
		return fmt.Errorf("%w: %s %s%s; its first row has %s, give the name or the number of one", ErrInput, s.path, what, s.otherDelimiter(), show.Counted(len(s.names), "cell"))
	}
	const shown = 20
	var list []string
	for _, name := range s.names[:min(len(s.names), shown)] {
		list = append(list, show.Visible(name))
	}
	if len(s.names) > shown {
		list = append(list, "...")
	}
	return fmt.Errorf("%w: %s %s%s; it has %s", ErrInput, s.path, what, s.otherDelimiter(), strings.Join(list, ", "))
}

// otherDelimiter advises another delimiter if one divides the first row into more cells.
func (s *CSVSource) otherDelimiter() string {
	for _, d := range []struct{ char, flag string }{{";", "';'"}, {"\t", "tab"}, {"|", "'|'"}, {",", ","}} {
		if d.char != string(cmp.Or(s.opts.Comma, ',')) && strings.Count(strings.Join(s.names, ""), d.char) >= len(s.names) {
			return fmt.Sprintf("; are its cells divided by another character? Then give --delimiter %s", d.flag)
		}
	}
	return ""
}

// A class is what a cell of the first row may be.
type class int

const (
	classNothing class = iota // neither a name nor a value, and no sign of anything
	classValue
	classText
)

func classOf(cell string) class {
	cell = strings.TrimSpace(cell)
	switch strings.ToLower(cell) {
	case "", "na", "n/a", "nan", "null", "none", "-", "?", `\n`:
		return classNothing
	}
	if isValue(cell) {
		return classValue
	}
	return classText
}

// guess decides whether the first row holds names, where the column is given by a number, and
// another one may have a name like it. What the file leaves open is an error: a name that is taken
// for a value is stored, and a value that is taken for a name is lost.
func (s *CSVSource) guess(index int, another bool) (Header, error) {
	names, values, err := s.evidence()
	switch {
	case err != nil:
		return "", err
	case names && !values:
		return HeaderYes, nil
	case values && !names:
		return HeaderNo, nil
	}
	texts := 0
	for _, cell := range s.names {
		if classOf(cell) == classText {
			texts++
		}
	}
	neither := !names && !another
	switch {
	case neither && classOf(s.names[index]) == classText:
		return HeaderYes, nil
	case neither && texts == 0:
		return HeaderNo, nil
	}
	return "", exit.Usagef("the first row of %s may hold names or values: say which, with --header yes or --header no", s.path)
}

// evidence looks into the first rows for what shows that the first one holds names, and for what
// shows that it holds values: a text above values is a name, one that comes again below is none.
func (s *CSVSource) evidence() (names, values bool, err error) {
	type count struct{ values, texts int }
	first := make([]class, len(s.names))
	for i, cell := range s.names {
		first[i] = classOf(cell)
	}
	below := make([]count, len(s.names))
	row := 0
	err = s.rows(func(r *csvrows.Reader, bad *csvrows.Error) error {
		if row++; row == 1 || bad != nil {
			return nil
		}
		for i := range min(len(first), r.Len()) {
			if first[i] != classText {
				continue
			}
			cell := r.Cell(i)
			values = values || cell == s.names[i]
			switch classOf(cell) {
			case classValue:
				below[i].values++
			case classText:
				below[i].texts++
			}
		}
		if row > sniffed {
			return errStop
		}
		return nil
	})
	for i := range below {
		names = names || below[i].values > below[i].texts
	}
	return names, values, err
}
