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

// Format returns the file of a table, which Parse reads back to the same table.
func Format(s Table) []byte {
	var b strings.Builder
	field := func(indent, name, value string) { fmt.Fprintf(&b, "%s%s: %s\n", indent, name, value) }
	item := func(fields []fieldText) {
		for i, f := range fields {
			field(map[bool]string{true: "  - ", false: "    "}[i == 0], f.name, f.value)
		}
	}
	field("", "table", quoted(s.Name))
	field("", "layout", s.Layout())
	if s.PageRows > 0 {
		field("", "page-rows", fmt.Sprint(s.PageRows))
	}
	if s.SpreadBits != 0 {
		field("", "spread-bits", fmt.Sprint(s.SpreadBits))
	}
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
		item(common(p.Describe()))
	}
	if len(s.Columns) > 0 {
		b.WriteString("columns:\n")
	}
	for _, c := range s.Columns {
		item(ofColumn(c.Describe()))
	}
	return []byte(b.String())
}

// A fieldText is a field of a part or column, as YAML has it.
type fieldText struct{ name, value string }

// common returns the fields that parts and columns have in common.
func common(d inspect.Field) []fieldText {
	fields := []fieldText{{"name", quoted(d.Name)}}
	if d.Encryption != "tie" {
		fields = append(fields, fieldText{"type", typeText(d.Type)})
	}
	fields = append(fields, fieldText{"encryption", d.Encryption})
	if d.Scheme != "" {
		fields = append(fields, fieldText{"scheme", d.Scheme})
	}
	return fields
}

// typeText returns a type as YAML reads it back. Beginnings may have signs that mean something in YAML, such as the # of a comment.
func typeText(typ string) string {
	if strings.HasPrefix(typ, "string after ") {
		return quoted(typ)
	}
	return typ
}

// ofColumn returns the fields of a column, but for those that have their default.
func ofColumn(d inspect.Field) []fieldText {
	fields := common(d)
	if d.KeyOf != nil {
		fields = append(fields, fieldText{"shared-with", fmt.Sprintf("{table: %s, column: %s}", quoted(d.KeyOf.Table), quoted(d.KeyOf.Column))})
	}
	if d.Confidentiality == "database" {
		fields = append(fields, fieldText{"confidentiality", "database"})
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
		fields = append(fields, fieldText{"covering", covering})
	}
	if d.ServerIndex {
		fields = append(fields, fieldText{"server-index", "true"})
	}
	return fields
}

// FormatColumn returns a column as ParseColumn reads it, without its type.
func FormatColumn(c store.Column) string {
	var fields []string
	for _, f := range ofColumn(c.Describe()) {
		if f.name != "type" {
			fields = append(fields, f.name+": "+f.value)
		}
	}
	return strings.Join(fields, ", ")
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
