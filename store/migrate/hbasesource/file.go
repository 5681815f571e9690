package hbasesource

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A mapping is small. The parser of YAML takes memory and time that grow with the square of the depth.
const maxMapping, maxDepth = 512 << 10, 32 // bytes, brackets

// ParseMapping reads a mapping from a file in YAML, and checks it. An error has nothing of the file but names of fields:
//
//	key:
//	  - {name: customer, as: utf8, until: "|"}
//	  - {name: at, as: milliseconds}
//	columns:
//	  - {name: amount, cell: "d:amount", as: int64}
//	ignore: ["d:cache", "x:*"]
//
// A qualifier or an end that is no text is of the type !!binary, in base64.
func ParseMapping(data []byte) (m Mapping, err error) {
	if err := parseMapping(data, &m); err != nil {
		return Mapping{}, fmt.Errorf("hbasesource: the mapping: %w", err)
	}
	return m, m.Check()
}

func parseMapping(data []byte, m *Mapping) error {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // which some editors write
	depth := 0
	for _, b := range data {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > maxDepth {
			return fmt.Errorf("it is nested deeper than %d", maxDepth)
		}
	}
	switch {
	case len(data) > maxMapping:
		return fmt.Errorf("it has %d bytes, at most %d: is this the right file?", len(data), maxMapping)
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("it is empty")
	}
	err := checkTexts(data)
	if err == nil {
		err = yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(m)
	}
	var at yaml.Error
	if !errors.As(err, &at) {
		return err
	}
	if t := at.GetToken(); t != nil && t.Position != nil {
		return fmt.Errorf("line %d, column %d: %s", t.Position.Line, t.Position.Column, at.GetMessage())
	}
	return errors.New(at.GetMessage())
}

// checkTexts returns an error where a file has a number whose text would not be read as it is: 007 is 7, and 00 is 0.
func checkTexts(data []byte) error {
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return err
	}
	var numbers numbersRead
	for i, d := range f.Docs {
		if i > 0 && d.Body != nil {
			return errors.New("a second document begins in it, which would not be read: a file has one mapping")
		}
		ast.Walk(&numbers, d.Body)
	}
	return numbers.first
}

// numbersRead is the error of the first number, or boolean, that is read as another text than its own.
type numbersRead struct{ first error }

// Visit looks at a node of a file.
func (n *numbersRead) Visit(node ast.Node) ast.Visitor {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		t := node.GetToken()
		if n.first == nil && fmt.Sprint(node.(ast.ScalarNode).GetValue()) != t.Value {
			n.first = fmt.Errorf("line %d, column %d: this is read as a number or a boolean, and not as the text that is written there: put it into quotes", t.Position.Line, t.Position.Column)
		}
	}
	return n
}
