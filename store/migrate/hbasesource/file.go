package hbasesource

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
)

// ParseMapping reads a mapping from a file in YAML, and checks it:
//
//	key:
//	  - {name: customer, as: utf8, until: "|"}
//	  - {name: at, as: milliseconds}
//	columns:
//	  - {name: amount, cell: "d:amount", as: int64}
//	ignore: ["d:cache", "x:*"]
func ParseMapping(data []byte) (m Mapping, err error) {
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&m); err != nil {
		return Mapping{}, fmt.Errorf("hbasesource: the mapping: %w", err)
	}
	return m, m.Check()
}
