package hbasesource

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
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
	err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(m)
	var at yaml.Error
	if !errors.As(err, &at) {
		return err
	}
	if t := at.GetToken(); t != nil && t.Position != nil {
		return fmt.Errorf("line %d, column %d: %s", t.Position.Line, t.Position.Column, at.GetMessage())
	}
	return errors.New(at.GetMessage())
}
