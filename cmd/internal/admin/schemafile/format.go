package schemafile

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// Format returns the file of a schema, which Parse reads back to the same schema.
func Format(s store.Schema) []byte {
	var b strings.Builder
	field := func(indent, name, value string) { fmt.Fprintf(&b, "%s%s: %s\n", indent, name, value) }
	common := func(d inspect.Field) {
		field("  - ", "name", quoted(d.Name))
		if d.Encryption != "tie" {
			field("    ", "type", d.Type)
		}
		field("    ", "encryption", d.Encryption)
		if d.Scheme != "" {
			field("    ", "scheme", d.Scheme)
		}
	}
	field("", "table", quoted(s.Name))
	field("", "layout", inspect.Layout(s.CellPerColumn))
	field("", "spread-bits", fmt.Sprint(s.SpreadBits))
	if s.Conditional {
		field("", "conditional", "true")
	}
	if s.AppendOnly {
		field("", "append-only", "true")
	}
	if s.Tenants {
		field("", "tenants", "true")
	}
	if s.TTL != 0 {
		field("", "ttl", TTL(s.TTL))
	}
	b.WriteString("key:\n")
	for _, p := range s.Key {
		common(p.Describe())
	}
	if len(s.Columns) > 0 {
		b.WriteString("columns:\n")
	}
	for _, c := range s.Columns {
		d := c.Describe()
		common(d)
		if d.KeyOf != nil {
			field("    ", "shared-with", fmt.Sprintf("{table: %s, column: %s}", quoted(d.KeyOf.Table), quoted(d.KeyOf.Column)))
		}
		if d.Confidentiality == "database" {
			field("    ", "confidentiality", "database")
		}
		if d.Covering {
			covering := "true"
			if d.Copied != nil {
				names := make([]string, len(d.Copied))
				for i, name := range d.Copied {
					names[i] = quoted(name)
				}
				covering = "[" + strings.Join(names, ", ") + "]"
			}
			field("    ", "covering", covering)
		}
		if d.ServerIndex {
			field("    ", "server-index", "true")
		}
	}
	return []byte(b.String())
}

const (
	day      = 24 * time.Hour
	ttlByRow = "by row"
)

// TTL returns a time to live as schema files have it.
func TTL(ttl time.Duration) string {
	switch {
	case ttl == store.TTLByRow:
		return ttlByRow
	case ttl%day == 0:
		return fmt.Sprintf("%dd", ttl/day)
	}
	return ttl.String()
}

// unquoted matches texts that YAML reads as they are, but for reserved words.
var unquoted = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// reserved are words that a version of YAML reads as something else than a text.
var reserved = regexp.MustCompile(`^(?i:null|true|false|yes|no|on|off|y|n|inf|nan)$`)

// quoted returns a name as YAML reads it back.
func quoted(name string) string {
	if unquoted.MatchString(name) && !reserved.MatchString(name) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range name {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
