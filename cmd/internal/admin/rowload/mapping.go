// Package rowload puts the rows of a file into a table: it maps fields to columns, checks all rows, and writes them in
// batches, so that a load which was interrupted can be gone on with.
package rowload

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
)

// Names says which fields go to which columns, beside those that have their names.
type Names struct {
	columns []*celltext.Column
	drawn   bool              // no row names its tie-breaker
	to      map[string]string // columns of fields
	order   []string          // the fields in it
	ignored []string
}

// NamesOf reads FIELD=COLUMN texts. Drawn says that the table has a tie-breaker that no row names: its rows are only added.
func NamesOf(columns []*celltext.Column, drawn bool, maps, ignored []string) (*Names, error) {
	n := &Names{columns: columns, drawn: drawn, to: map[string]string{}, ignored: ignored}
	for _, text := range maps {
		field, column, err := n.cut(text)
		if err != nil {
			return nil, err
		}
		for other, to := range n.to {
			if to == column {
				return nil, exit.Usagef("--map: column %s has two fields, %s and %s: give one of them", show.Visible(column), show.Visible(other), show.Visible(field))
			}
		}
		if _, ok := n.to[field]; ok {
			return nil, exit.Usagef("--map: field %s has two columns: give one of them", show.Visible(field))
		}
		if slices.Contains(ignored, field) {
			return nil, exit.Usagef("field %s is in --map and in --ignore: give one of them", show.Visible(field))
		}
		if drawn && n.columns[n.column(column)].Tie {
			return nil, exit.Usagef("--map: %s; give --ignore %s in place of --map", isDrawn(column), show.Argument(field))
		}
		n.to[field] = column
		n.order = append(n.order, field)
	}
	return n, nil
}

// cut takes FIELD=COLUMN apart, where both may have equals signs: the column is one of the table.
func (n *Names) cut(text string) (field, column string, err error) {
	for at := range len(text) {
		if text[at] != '=' || at == 0 {
			continue
		}
		if n.column(text[at+1:]) >= 0 {
			return text[:at], text[at+1:], nil
		}
		if column == "" {
			column = text[at+1:]
		}
	}
	if column == "" {
		return "", "", exit.Usagef("--map %q is not FIELD=COLUMN", text)
	}
	return "", "", exit.Usagef("--map: the table has no column %s; it has %s", show.Visible(column), n.all())
}

func (n *Names) column(name string) int {
	return slices.IndexFunc(n.columns, func(c *celltext.Column) bool { return c.Name == name })
}

func (n *Names) all() string {
	var names []string
	for _, c := range n.columns {
		names = append(names, show.Visible(c.Name))
	}
	return strings.Join(names, ", ")
}

// isDrawn says why no field is for a tie-breaker.
func isDrawn(tie string) string {
	return fmt.Sprintf("rows of an append-only table get tie-breakers (column %s) of their own, and none from the input", show.Visible(tie))
}

// leftOut says so of a field.
func leftOut(tie, field string) string {
	return fmt.Sprintf("%s: --ignore %s leaves the field out", isDrawn(tie), show.Argument(field))
}

// Fields returns the names that a field of JSON may have.
func (n *Names) Fields() []string {
	fields := slices.Concat(n.order, n.ignored)
	for _, c := range n.columns {
		taken := false
		for _, to := range n.to {
			taken = taken || to == c.Name
		}
		if !taken && !slices.Contains(fields, c.Name) {
			fields = append(fields, c.Name)
		}
	}
	return fields
}

// A Mapping says which column each field of an input goes to.
type Mapping struct {
	Fields  []string
	Columns []*celltext.Column // of the fields; nil for one that is ignored
	Missing []string           // columns without a field, which are null
	drawn   bool               // tie-breakers come from nowhere else
	ties    *loads.Ties        // where the tie-breakers come from that rows do not have
	tie     string             // the name of the tie-breaker; "" where the table has none
}

// Map maps the fields of an input, of which some have their numbers as names, since they have none. Every field needs a
// column or to be ignored, and every key part a field, but for the tie-breaker.
func (n *Names) Map(fields []string, unnamed []int, header tabular.Header) (*Mapping, error) {
	m := &Mapping{Fields: fields, drawn: n.drawn}
	if err := namesNothing(fields, unnamed, header); err != nil {
		return nil, err
	}
	shown := n.shown(fields, header)
	for _, flag := range slices.Concat(n.order, n.ignored) {
		if slices.Contains(fields, flag) {
			continue
		}
		hint := ""
		if header == tabular.TakenAsNames && isNumber(flag) {
			hint = ": fields have numbers in place of names where --header no says that the first row holds values"
		}
		return nil, exit.Usagef("the input has no field %s, which --map or --ignore names; it has %s%s", show.Visible(flag), list(shown(fields)), hint)
	}
	has := map[string]string{}
	var unknown []string
	for _, field := range fields {
		if slices.Contains(n.ignored, field) {
			m.Columns = append(m.Columns, nil)
			continue
		}
		name, mapped := n.to[field]
		if !mapped {
			name = field
		}
		i := n.column(name)
		if i < 0 {
			unknown = append(unknown, field)
			continue
		}
		if other, ok := has[name]; ok {
			return nil, exit.Usagef("fields %s and %s are both for column %s: leave one out with --ignore", show.Visible(other), show.Visible(field), show.Visible(name))
		}
		if n.drawn && n.columns[i].Tie && header != tabular.EachRowNames { // which may leave it out
			return nil, fmt.Errorf("%w: %s", tabular.ErrInput, leftOut(name, field))
		}
		has[name] = field
		m.Columns = append(m.Columns, n.columns[i])
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%w: the table has no column for %s %s; it has %s: --map FIELD=COLUMN names the column of a field, --ignore FIELD leaves the field out%s",
			tabular.ErrInput, show.Plural(len(unknown), "field"), list(shown(unknown)), n.all(), n.hints(unknown, fields, unnamed, header))
	}
	var without []string
	for _, c := range n.columns {
		switch _, ok := has[c.Name]; {
		case c.Tie:
			m.tie = c.Name
		case ok:
		case c.Key:
			without = append(without, c.Name)
		default:
			m.Missing = append(m.Missing, c.Name)
		}
	}
	if len(without) > 0 {
		return nil, fmt.Errorf("%w: no field of the input is for key %s %s, which every row needs; the fields are %s: --map FIELD=COLUMN names one",
			tabular.ErrInput, show.Plural(len(without), "part"), list(without), list(shown(fields)))
	}
	return m, nil
}

// shown returns how a message names some of the fields of an input. If a first row may hold values, as none of its cells is
// the name of a column, that is by their numbers: values are in no message.
func (n *Names) shown(fields []string, header tabular.Header) func(some []string) []string {
	if header != tabular.TakenAsNames || slices.ContainsFunc(fields, func(field string) bool {
		return n.to[field] != "" || slices.Contains(n.ignored, field) ||
			slices.ContainsFunc(n.columns, func(c *celltext.Column) bool { return tabular.IsLike(field, c.Name) })
	}) {
		return func(some []string) []string { return some }
	}
	return func(some []string) (numbers []string) {
		for _, field := range some {
			numbers = append(numbers, "number "+strconv.Itoa(1+slices.Index(fields, field)))
		}
		return numbers
	}
}

// isNumber reports whether a text is a number, which the name of a field seldom is.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// namesNothing refuses a first row that was taken for names, and has none.
func namesNothing(fields []string, unnamed []int, header tabular.Header) error {
	if header != tabular.TakenAsNames {
		return nil
	}
	for i, field := range fields {
		if !isNumber(field) && !slices.Contains(unnamed, i+1) {
			return nil
		}
	}
	has, names := "numbers only", "if these are the names of the fields"
	switch len(unnamed) {
	case 0:
	case len(fields):
		has, names = "empty cells only", "if the fields have no names: then they have their numbers, too"
	default:
		has = "numbers and empty cells only"
	}
	return exit.Usagef("the first row has %s: say --header no if it holds values, which names fields by their numbers from 1 on, or --header yes %s", has, names)
}

// hints says what fields without columns may be.
func (n *Names) hints(unknown, fields []string, unnamed []int, header tabular.Header) (hints string) {
	var nameless []string
	for _, number := range unnamed {
		if name := strconv.Itoa(number); slices.Contains(unknown, name) {
			nameless = append(nameless, name)
		}
	}
	if count := len(nameless); count > 0 {
		hints = fmt.Sprintf("; %s number %s %s: --ignore %s leaves it out, --map %[4]s=COLUMN names its column",
			show.Plural(count, "field"), list(nameless), show.Verb(count, "has no name", "have no names"), nameless[0])
	}
	var maps []string
	count := "capitals count"
	for _, field := range unknown {
		for _, c := range n.columns {
			if tabular.IsLike(field, c.Name) {
				maps = append(maps, "--map "+mapArgument(field, c.Name))
				if strings.TrimSpace(field) != field {
					count = "blanks around a name and capitals count"
				}
			}
		}
	}
	if len(maps) > 0 {
		return fmt.Sprintf("%s; %s: did you mean %s?", hints, count, strings.Join(maps, " "))
	}
	return hints + valuesHint(unknown, len(fields), header)
}

// mapArgument returns what --map needs for a field and a column, in quotes where a shell needs them.
func mapArgument(field, column string) string {
	if show.Argument(field) == field && show.Argument(column) == column {
		return field + "=" + column
	}
	return show.Argument(field + "=" + column)
}

// valuesHint says why no field of an input may have a column.
func valuesHint(unknown []string, fields int, header tabular.Header) string {
	if len(unknown) < fields {
		return ""
	}
	if fields == 1 && strings.ContainsAny(unknown[0], ";\t|,") {
		return "; if its cells are divided by another character, name that with --delimiter"
	}
	if header != tabular.TakenAsNames {
		return ""
	}
	return "; if the first row holds values, say --header no, and name the fields by their numbers"
}

func list(names []string) string {
	const shown = 40
	var texts []string
	for _, name := range names[:min(len(names), shown)] {
		if len(name) > 100 {
			name = strings.ToValidUTF8(name[:100], "") + "..."
		}
		texts = append(texts, show.Visible(name))
	}
	if len(names) > shown {
		texts = append(texts, "...")
	}
	return strings.Join(texts, ", ")
}

// Distinct reports whether all rows get tie-breakers of their own, so that no two have one key.
func (m *Mapping) Distinct() bool {
	return m.drawn || m.tie != "" && !slices.ContainsFunc(m.Columns, func(c *celltext.Column) bool { return c != nil && c.Tie })
}

// errKey is returned for a row without a key part.
var errKey = errors.New("no value, which a part of the row key needs")

// Row returns a row of the input as the table has it. An error names the column, and no value.
func (m *Mapping) Row(in *tabular.Row) (store.Row, error) {
	row := make(store.Row, len(m.Columns)+1)
	if err := m.values(in, row); err != nil {
		return nil, err
	}
	if m.tie != "" && row[m.tie] == nil && m.ties != nil {
		tie := m.ties.Tie(uint64(in.Number))
		if row[m.tie] = [loads.TieSize]byte(tie); m.drawn {
			row[m.tie] = store.LoadTie(tie)
		}
	}
	return row, nil
}

// Check returns the error that Row would.
func (m *Mapping) Check(in *tabular.Row) error { return m.values(in, nil) }

// values sets the values of a row that is not nil.
func (m *Mapping) values(in *tabular.Row, row store.Row) error {
	for i, c := range m.Columns {
		if c == nil {
			continue
		}
		v, err := c.Value(in.Cells[i])
		if err == nil && v == nil && c.Key && !c.Tie {
			err = errKey
		}
		if m.drawn && c.Tie && v != nil {
			return errors.New(leftOut(c.Name, m.Fields[i]))
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", show.Visible(c.Name), err)
		}
		if v != nil && row != nil {
			row[c.Name] = v
		}
	}
	return nil
}
