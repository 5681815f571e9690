// Package where reads conditions on rows as people write them on a command line:
//
//	celsius between 18 and 25 and device = "pump-7"
//
// The language is a part of SQL's, and docs/queries.md has all of it. This package knows no columns: what names and
// values mean is for its caller.
package where

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// An Op is what a [Node] does.
type Op string

// The operators. What is negated, as != and "not in", is a Not.
const (
	And     Op = "and"
	Or      Op = "or"
	Not     Op = "not"
	Equal   Op = "="
	Less    Op = "<"
	AtMost  Op = "<="
	Greater Op = ">"
	AtLeast Op = ">="
	Between Op = "between" // two values
	In      Op = "in"      // one value or more
	Prefix  Op = "like"    // one text, without the % after it
	IsNull  Op = "null"
	IsNaN   Op = "nan"
)

// A Node is a condition, or some that are put together.
type Node struct {
	Op     Op
	Of     []*Node // of And and Or two or more, of Not one
	Column string  // of the others
	At     int     // where Column is in the text
	Values []Value
}

// A Value is written as a constant. Which value it is depends on the type of the column.
type Value struct {
	Form Form
	Text string // of Hex the digits; of a number with a comma before its fraction as it is written
	At   int    // where it is in the text
}

// A Form is how a constant is written.
type Form int

// The forms.
const (
	_      Form = iota // 25, 1.5e3, 2024-02-29, true
	Quoted             // 'a' or "a"
	Hex                // x'00ff'
)

const (
	maxBytes = 1 << 16 // of a text; a command line hardly has more
	maxDepth = 100     // of brackets and negations in each other; it bounds the stack
)

// infinities are words that stand for a value, which after a sign they do in any case.
var infinities = []string{"inf", "infinity"}

// keywords cannot be names of columns unless they are in backquotes.
var keywords = []string{"and", "between", "false", "in", "is", "like", "nan", "not", "null", "or", "true"}

// Errorf returns an error that shows a place in a text. It is for whoever wrote the text, and for no log.
func Errorf(text string, at int, format string, args ...any) error {
	return fmt.Errorf("%s\n%s", fmt.Sprintf(format, args...), show.Place(text, at))
}

// A parser has read the tokens before the first of its own.
type parser struct {
	text  string
	next  []token
	depth int
	comma bool
}

// Parse reads a condition. With decimalComma a number may have a comma before its fraction, as 12,50. Its errors show the
// text.
func Parse(text string, decimalComma bool) (*Node, error) {
	if len(text) > maxBytes {
		return nil, Errorf(text, maxBytes, "a condition has at most %d bytes, and this has %d", maxBytes, len(text))
	}
	if at := notUTF8(text); at >= 0 {
		return nil, Errorf(text, at, "this is not in UTF-8, which all texts of a table are: write the condition in UTF-8")
	}
	all, err := read(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, next: all, comma: decimalComma}
	n, err := p.list(Or)
	if err == nil && p.next[0].kind != end {
		hint := p.noTime()
		if p.keyword() == "," && p.next[1].kind == bare {
			hint = "; a number has a point before its fraction, or a comma with --decimal-comma"
			if p.comma {
				hint = "; a number has only digits on both sides of its comma, and no blanks: 12,50"
			}
		}
		err = p.errorf("and, or, or the end is needed here%s", hint)
	}
	return n, err
}

// errorf returns an error about the next token.
func (p *parser) errorf(format string, args ...any) error {
	return Errorf(p.text, p.next[0].at, format, args...)
}

// keyword returns the next token if it is a keyword or a sign; otherwise "".
func (p *parser) keyword() string {
	t := p.next[0]
	if lower := strings.ToLower(t.text); t.kind == sign || t.kind == word && slices.Contains(keywords, lower) {
		return lower
	}
	return ""
}

// take takes the next token if it is this keyword or sign.
func (p *parser) take(what string) bool {
	if p.keyword() != what {
		return false
	}
	p.next = p.next[1:]
	return true
}

func (p *parser) need(what, why string) error {
	if !p.take(what) {
		return p.errorf("%s is needed here%s%s", what, why, p.noTime())
	}
	return nil
}

// noTime says how a time is written of which only the day was read.
func (p *parser) noTime() string {
	if p.next[0].kind == bare && strings.Contains(p.next[0].text, ":") {
		return "; a time with a blank in it is put in quotation marks"
	}
	return ""
}

// list reads conditions with one operator between them: with Or those of And, and with And single ones.
func (p *parser) list(op Op) (*Node, error) {
	item := p.negation
	if op == Or {
		item = func() (*Node, error) { return p.list(And) }
	}
	var all []*Node
	for more := true; more; more = p.take(string(op)) {
		n, err := item()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return &Node{Op: op, Of: all}, nil
}

// negation reads a condition, one in brackets, or the negation of one.
func (p *parser) negation() (n *Node, err error) {
	begins := p.keyword()
	if begins != "not" && begins != "(" {
		return p.condition()
	}
	if p.depth++; p.depth > maxDepth {
		return nil, p.errorf("there are more than %d brackets and negations in each other", maxDepth)
	}
	defer func() { p.depth-- }()
	if p.take("not") {
		n, err = p.negation()
		return negated(n, true), err
	}
	p.take("(")
	if n, err = p.list(Or); err == nil {
		err = p.need(")", ", or and, or or")
	}
	return n, err
}

func negated(n *Node, not bool) *Node {
	if not {
		return &Node{Op: Not, Of: []*Node{n}}
	}
	return n
}

// condition reads a condition on a column.
func (p *parser) condition() (_ *Node, err error) {
	t := p.next[0]
	n := &Node{Column: t.text, At: t.at}
	switch {
	case p.keyword() != "" && t.kind == word:
		return nil, p.errorf("the name of a column is needed here; one that is a keyword is put in backquotes: `%s`%s", t.text, forAll(p.keyword()))
	case t.kind == end:
		return nil, p.errorf("a condition is needed here, such as: celsius between 18 and 25")
	case t.kind == bare || t.kind == quoted || t.kind == hex:
		return nil, p.errorf("the name of a column is needed here, and a value after its operator; a name that begins with no letter is put in backquotes: `%s`%s",
			strings.ReplaceAll(t.text, "`", "``"), forAll(t.text))
	case t.kind != word && t.kind != name:
		return nil, p.errorf("the name of a column is needed here; one with blanks, or that does not begin with a letter, is put in backquotes")
	}
	p.next = p.next[1:]
	if p.take("is") {
		not := p.take("not")
		if n.Op = Op(p.keyword()); n.Op != IsNull && n.Op != IsNaN {
			return nil, p.errorf("null, nan, not null or not nan is needed here")
		}
		p.take(string(n.Op))
		return negated(n, not), nil
	}
	not := p.take("not")
	switch n.Op = Op(p.keyword()); n.Op {
	case Between, In, Prefix:
	case Equal, Less, AtMost, Greater, AtLeast, "!=", "<>":
		if not {
			return nil, p.errorf("between, in or like is needed after not; any other condition is negated by not before it")
		}
	default:
		return nil, p.errorf("an operator is needed here: =, !=, <, <=, >, >=, between, in, like or is%s", p.noOperator(n.Column))
	}
	p.take(string(n.Op))
	if n.Op == "!=" || n.Op == "<>" {
		n.Op, not = Equal, true
	}
	return negated(n, not), p.operands(n)
}

// forAll says how all rows are meant, if a condition begins like one that always holds.
func forAll(begins string) string {
	if begins == "true" || begins == "1" {
		return "; for all rows give no condition"
	}
	return ""
}

// noOperator says what is there in place of an operator.
func (p *parser) noOperator(column string) string {
	switch t := p.next[0]; {
	case t.kind == sign && t.text == "(":
		return "; there are no functions"
	case t.kind == bare:
		return "; there is no arithmetic"
	case t.kind == end, p.keyword() == "and", p.keyword() == "or", p.keyword() == ")":
		return "; a boolean is compared with true or false: " + show.Visible(column) + " = true"
	}
	return ""
}

// operands reads the values of a condition.
func (p *parser) operands(n *Node) error {
	switch n.Op {
	case Prefix:
		return p.prefix(n)
	case In:
		if err := p.need("(", ", before the values"); err != nil {
			return err
		}
		for more := true; more; more = p.take(",") {
			if err := p.value(n); err != nil {
				return err
			}
		}
		return p.need(")", ", or a comma and another value")
	case Between:
		if err := p.value(n); err != nil {
			return err
		}
		if err := p.need("and", ", between the two bounds"); err != nil {
			return err
		}
	}
	return p.value(n)
}

// value reads a constant.
func (p *parser) value(n *Node) error {
	t, keyword := p.next[0], p.keyword()
	v := Value{Text: t.text, At: t.at}
	switch {
	case t.kind == quoted:
		v.Form = Quoted
	case t.kind == hex:
		v.Form = Hex
	case p.commaNumber() && n.Op == In:
		return Errorf(p.text, p.next[1].at, "with --decimal-comma this is one number or two: put a number with a fraction in quotation marks, as '1,5', and a blank between two numbers, as 1, 5")
	case p.commaNumber():
		v.Text, p.next = p.text[t.at:p.next[2].last], p.next[2:]
	case t.kind == bare:
	case keyword == "true" || keyword == "false":
		v.Text = keyword
	case t.kind == word && slices.Contains(infinities, strings.ToLower(t.text)):
	case keyword == "null" || keyword == "nan":
		return p.errorf("nothing is equal to %[1]s, nor less or more: say is %[1]s, or is not %[1]s", keyword)
	case keyword == "=":
		return p.errorf("leave this out: the operator is one =")
	case n.Op == Equal && (keyword == "<" || keyword == ">"):
		return p.errorf("write %[1]s=, and not =%[1]s", keyword)
	default:
		hint := ""
		if t.kind == word || t.kind == name {
			hint = fmt.Sprintf("; a text is '%s', and columns are not compared with each other", strings.ReplaceAll(t.text, "'", "''"))
		}
		return p.errorf("a value is needed here: a number, a date, true, false, x'00ff', or a text in quotation marks%s", hint)
	}
	n.Values, p.next = append(n.Values, v), p.next[1:]
	return nil
}

var (
	whole    = regexp.MustCompile(`^[-+]?[0-9]+$`)
	fraction = regexp.MustCompile(`^[0-9]+([eE][-+]?[0-9]+)?$`)
)

// commaNumber reports whether the next three tokens look like a number with a comma before its fraction.
func (p *parser) commaNumber() bool {
	if !p.comma || len(p.next) < 3 {
		return false
	}
	before, comma, after := p.next[0], p.next[1], p.next[2]
	return before.kind == bare && comma.kind == sign && comma.text == "," && after.kind == bare &&
		before.last == comma.at && comma.last == after.at && whole.MatchString(before.text) && fraction.MatchString(after.text)
}

// prefix reads the pattern of "like". One without % is equality.
func (p *parser) prefix(n *Node) error {
	t := p.next[0]
	if t.kind != quoted {
		return p.errorf("like takes a text in quotation marks with %% at its end, as in 'pump%%'")
	}
	var text strings.Builder
	n.Op = Equal
	for at, stop := t.at+1, t.last-1; at < stop; at++ {
		switch c := p.text[at]; {
		case c == '%' && at == stop-1:
			n.Op = Prefix
			continue
		case c == '%' || c == '_':
			return Errorf(p.text, at, "like finds beginnings: it takes one %%, at the end, and no _; write \\%c for the character itself", c)
		case c == '\\' && (at == stop-1 || !strings.ContainsRune(`\%_`, rune(p.text[at+1]))):
			return Errorf(p.text, at, `a backslash stands before %%, _ or another backslash`)
		case c == '\\', c == p.text[t.at]: // a quotation mark is written twice
			at++
		}
		text.WriteByte(p.text[at])
	}
	n.Values, p.next = []Value{{Quoted, text.String(), t.at}}, p.next[1:]
	return nil
}
