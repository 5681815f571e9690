// Package schemafile reads and writes the schema of a table as a file in YAML. A mistake is an
// error with the file, the line, the column and the field. All mistakes in single fields come at once,
// up to a number. Where there is none come those that the check of the store finds: the first in the key,
// and else one for each column.
//
// testdata/readings.yaml is an example with every field.
package schemafile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/rangecrypt/rangecrypt/internal/cli/columns"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// MaxBytes is how long a file may be: one of 1000 columns is longer only if most characters of their names
// have to be escaped. The lexer takes up to 450 bytes for each byte of a file.
const MaxBytes = 512 << 10

const (
	// maxDepth is how deep brackets, or entries on one line, may be nested: a schema needs four. The
	// parser of YAML takes memory that grows with the square of the depth.
	maxDepth = 32

	// maxItems is the most items that a list may have, which is more than a table can have columns.
	maxItems = 1 << 10

	// maxTold is how many mistakes an error lists, and maxText how long the text of one may be.
	maxTold = 50
	maxText = 1000
)

// ErrInvalid is returned for a file that is no schema.
var ErrInvalid = errors.New("not a schema")

// An Error is a mistake in a file.
type Error struct {
	File         string
	Line, Column int    // from 1 on; 0 if the file is empty
	Field        string // "columns[2].type", say; "" for mistakes that are not of one
	Err          error
}

func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		where += ": " + short(e.Field)
	}
	return where + ": " + cut(strings.TrimPrefix(e.Err.Error(), store.ErrSchema.Error()+": "), maxText)
}

// short returns what a file holds for a message.
func short(text string) string { return cut(text, 100) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func (e *Error) Unwrap() []error { return []error{ErrInvalid, e.Err} }

// A Table is what a file describes.
type Table struct {
	store.Schema
	PageRows int // how many rows a page of package paged has; 0: the table has no pages
}

// Check returns what is wrong with the schema.
func (t Table) Check() error {
	if t.PageRows > 0 {
		err := paged.Check(t.Schema, t.PageRows)
		return cmp.Or(errors.Unwrap(err), err) // without the name of its package
	}
	return t.Schema.Check()
}

// Layout names where the columns of a row are.
func (t Table) Layout() string {
	if t.PageRows > 0 {
		return inspect.Paged
	}
	return inspect.Layout(t.CellPerColumn)
}

// with returns the table with another key and other columns.
func (t Table) with(key []store.KeyPart, columns ...store.Column) Table {
	return Table{store.Schema{Name: t.Name, Key: key, Columns: columns}, t.PageRows}
}

// Parse reads the table that is in a file of the given name. What it returns without an error can
// be created, unless the catalogue has a say: the name may be taken, and what a column is shared
// with may be missing or of another secure type.
func Parse(file string, data []byte) (Table, error) {
	r := &reader{file: file, options: make(map[string]ast.Node)}
	t := r.table(data)
	if err := r.err(); err != nil {
		return Table{}, err
	}
	return t, nil
}

// ParseColumn reads a column as an item of the list of columns has it, with or without the braces
// around it: "name: note, type: string, encryption: randomised". Where it names no type it has the
// one that typeOf returns for its name, as store.ParseType reads it; "" where a type is needed. The name of a file is
// what errors begin with.
func ParseColumn(file, text string, typeOf func(name string) string) (store.Column, error) {
	return (&reader{file: file, typeOf: typeOf, options: make(map[string]ast.Node)}).inline(text)
}

// inline reads a column, with or without the braces around it.
func (r *reader) inline(text string) (store.Column, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		text, r.added = "{"+text+"}", 1
	}
	var c store.Column
	if n := r.document([]byte(text)); n != nil {
		var ok bool
		if c, ok = r.column(n, "", map[string]bool{}); ok {
			r.checkColumn(n, "", c)
		}
	}
	return c, r.err()
}

// ParseChange reads a column as ParseColumn does, which is to replace the one that column returns for its name. An error says
// how that one is stored. So does one about options which it has, and which the text leaves out: nobody is to lose them unsaid.
func ParseChange(file, text string, column func(name string) (store.Column, bool)) (store.Column, error) {
	name := ""
	r := &reader{file: file, options: make(map[string]ast.Node), typeOf: func(of string) string {
		before, _ := column(of)
		return before.Describe().Type
	}, named: &name}
	c, err := r.inline(text)
	before, known := column(name)
	switch {
	case !known:
		return c, err
	case err == nil:
		err = r.leftOut(before.Describe(), c.Describe())
	}
	if err != nil {
		err = fmt.Errorf("%w; it is now %s", err, show.Argument(FormatColumn(before)))
	}
	return c, err
}

// leftOut returns an error if a column has an option that the one in its place may have, and nothing is said of it.
func (r *reader) leftOut(before, after inspect.Field) error {
	said := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return r.options[name] != nil })
	}
	searched := after.Encryption == "ordered" || after.Encryption == "deterministic"
	for _, option := range []struct {
		has, said bool
		name, end string
	}{
		{before.Covering && !after.ServerIndex, said("covering"), "covering", "covering: false"},
		{before.ServerIndex && !after.Covering, said("server-index"), "server-index", "server-index: false"},
		{before.Confidentiality == "database", said("confidentiality", "shared-with"), "confidentiality: database", "confidentiality: column"},
		{before.KeyOf != nil, said("confidentiality", "shared-with"), "shared-with", "confidentiality: column"},
	} {
		if searched && option.has && !option.said {
			return fmt.Errorf("%s: column %q has %s, which is left out: write it to keep it, or %s", r.file, before.Name, option.name, option.end)
		}
	}
	return nil
}

// A reader reads a file. Its methods report mistakes and return zero values then.
type reader struct {
	file   string
	typeOf func(name string) string // of a column without type; nil if it is a mistake
	named  *string                  // the name that was read last; may be nil
	added  int                      // characters before the first line
	errs   []*Error

	options map[string]ast.Node // where the file says what the table is, and options of columns, such as whether they cover, by its path
}

// err returns the mistakes in the order of their places.
func (r *reader) err() error {
	for _, e := range r.errs {
		if e.Line == 1 {
			e.Column = max(e.Column-r.added, 1)
		}
	}
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	var all []error
	for i, err := range r.errs {
		if i == maxTold {
			all = append(all, fmt.Errorf("%s: %w: there are %d mistakes more", r.file, ErrInvalid, len(r.errs)-i))
			break
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

func (r *reader) fail(at ast.Node, field string, err error) {
	e := &Error{File: r.file, Field: field, Err: err}
	if t := first(at); t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	r.errs = append(r.errs, e)
}

func (r *reader) failf(at ast.Node, field, format string, args ...any) {
	r.fail(at, field, fmt.Errorf(format, args...))
}

// first returns the token that a node begins with. A mapping's own is a colon in its middle.
func first(n ast.Node) *token.Token {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return first(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return first(n.Key)
	}
	return n.GetToken()
}

// document returns what the one document of the file holds.
func (r *reader) document(data []byte) ast.Node {
	if len(data) > MaxBytes {
		r.errs = append(r.errs, &Error{File: r.file, Err: fmt.Errorf("it has more than %d bytes, which no schema needs", MaxBytes)})
		return nil
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		r.errs = append(r.errs, &Error{File: r.file, Err: errors.New("it is no text in UTF-8: write it in UTF-8 first, with 'iconv -f UTF-16 -t UTF-8', say")})
		return nil
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(data), "\ufeff")) // which some editors write
	if at := tooDeep(tokens); at != nil {
		r.errs = append(r.errs, &Error{
			File: r.file, Line: at.Position.Line, Column: at.Position.Column,
			Err: fmt.Errorf("brackets or entries are nested deeper than %d, which no schema needs", maxDepth),
		})
		return nil
	}
	f, err := parser.Parse(tokens, 0)
	if err != nil {
		e := &Error{File: r.file, Err: errors.New("it is not YAML")}
		var at yaml.Error
		if errors.As(err, &at) {
			e.Err = errors.New(at.GetMessage())
			if strings.Contains(at.GetMessage(), "\t") {
				e.Err = fmt.Errorf("%w: YAML is indented with blanks, and not with tabs", errors.New(strings.ReplaceAll(at.GetMessage(), "\t", `\t`)))
			}
			if t := at.GetToken(); t != nil && t.Position != nil {
				e.Line, e.Column = t.Position.Line, t.Position.Column
			}
		}
		r.errs = append(r.errs, e)
		return nil
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		r.failf(nil, "", "the file is empty")
		return nil
	}
	if len(f.Docs) > 1 {
		r.failf(f.Docs[1].Body, "", "a second document begins here; a file has the schema of one table")
		return nil
	}
	return f.Docs[0].Body
}

// tooDeep returns the token that is nested too deep, or nil. Nesting by lines is bounded by the length
// of the file, since each level is indented further.
func tooDeep(tokens token.Tokens) *token.Token {
	brackets, entries, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != line {
				entries, line = 0, t.Position.Line
			}
			entries++
		}
		if brackets > maxDepth || entries > maxDepth {
			return t
		}
	}
	return nil
}

func (r *reader) table(data []byte) (s Table) {
	body := r.document(data)
	if body == nil {
		return s
	}
	var keyNode, columnsNode ast.Node
	isPaged := false
	known := []fieldReader{
		{"table", func(n ast.Node, field string) { s.Name = r.text(n, field) }},
		{"layout", func(n ast.Node, field string) {
			layout := choose(r, n, field, []string{inspect.Packed, inspect.CellPerColumn, inspect.Paged}, func(name string) string { return name })
			s.CellPerColumn, isPaged = layout == inspect.CellPerColumn, layout == inspect.Paged
		}},
		{"page-rows", func(n ast.Node, field string) {
			before := len(r.errs)
			if s.PageRows = r.integer(n, field); s.PageRows < 1 && len(r.errs) == before {
				r.failf(n, field, "%d rows a page, need 2 at least", s.PageRows)
			}
		}},
		{"spread-bits", func(n ast.Node, field string) {
			before := len(r.errs)
			if s.SpreadBits = r.integer(n, field); s.SpreadBits == 0 && len(r.errs) == before { // to the library it is the default
				r.failf(n, field, "0 bits: write -1 for one partition, or leave it out for 16")
			}
		}},
		{"conditional", func(n ast.Node, field string) { s.Conditional = r.boolean(n, field) }},
		{"append-only", func(n ast.Node, field string) { s.AppendOnly = r.boolean(n, field) }},
		{"tenants", func(n ast.Node, field string) { s.Tenants = r.boolean(n, field) }},
		{"ttl", func(n ast.Node, field string) { s.TTL = r.ttl(n, field) }},
		{"key", func(n ast.Node, _ string) { keyNode = n }},
		{"columns", func(n ast.Node, _ string) { columnsNode = n }},
	}
	for i, f := range known {
		known[i].read = func(n ast.Node, field string) { r.options[field] = n; f.read(n, field) }
	}
	r.fields(body, "", known, "table", "key")
	switch pageRows := r.options["page-rows"]; {
	case isPaged && pageRows == nil:
		s.PageRows = paged.Rows
	case pageRows != nil && !isPaged:
		r.failf(pageRows, "page-rows", "only pages have it: write layout: %s, or leave it out", inspect.Paged)
	}
	names := map[string]bool{}
	for i, n := range r.list(keyNode, "key") {
		if part, ok := r.keyPart(n, fmt.Sprintf("key[%d]", i), names); ok {
			s.Key = append(s.Key, part)
		}
	}
	for i, n := range r.list(columnsNode, "columns") {
		if column, ok := r.column(n, fmt.Sprintf("columns[%d]", i), names); ok {
			s.Columns = append(s.Columns, column)
		}
	}
	if len(r.errs) > 0 {
		return s
	}
	r.check(s, body, keyNode, columnsNode)
	return s
}

// check finds what the schema is refused for, and where that is.
func (r *reader) check(s Table, body, keyNode, columnsNode ast.Node) {
	if s.Check() == nil {
		return
	}
	if r.checkFields(s); len(r.errs) > 0 {
		return
	}
	// Key parts depend on those before them, columns on nothing.
	for i, n := range r.list(keyNode, "key") {
		checked := s.Key[:i+1]
		if s.Key[i].Describe().Encryption == "tie" {
			checked = s.Key // it depends on those after it, too
		}
		if err := s.with(checked).Check(); err != nil {
			r.fail(n, fmt.Sprintf("key[%d]", i), err)
			return // the next ones would fail likewise
		}
	}
	r.checkAppendOnly(s.Schema)
	if s.Conditional && s.TTL != 0 {
		r.failf(r.options["ttl"], "ttl", "rows of a table that is conditional cannot expire, since a write under a condition has no TTL: leave out one of the two")
	}
	for i, n := range r.list(columnsNode, "columns") {
		path := fmt.Sprintf("columns[%d]", i)
		r.checkColumn(n, path, s.Columns[i])
		if s.PageRows > 0 {
			if err := s.with(s.Key, s.Columns[i]).Check(); err != nil && len(r.errs) == 0 {
				r.fail(n, path, err)
			}
		}
		if field := join(path, "server-index"); (s.Conditional || s.AppendOnly) && s.Columns[i].Describe().ServerIndex {
			r.failf(r.options[field], field, "only columns of tables whose rows are put as a whole have one: leave it out, or conditional and append-only")
		}
		if field := join(path, "covering"); s.Columns[i].Describe().Covering && !s.AppendOnly && !s.Conditional {
			r.failf(r.options[field], field,
				"rows of the table may be replaced unseen, so that their copies could be old ones: write append-only: true or conditional: true for the table, or leave covering out")
		}
		r.checkCopied(join(path, "covering"), s.Schema, s.Columns[i])
	}
	switch err := s.Check(); {
	case len(r.errs) > 0:
	case len(s.Key) == 0:
		r.fail(keyNode, "key", err)
	case s.with(s.Key).Check() == nil: // all columns together, such as that they are too many
		r.fail(columnsNode, "columns", err)
	default:
		r.fail(body, "", err)
	}
}

// checkFields finds what single fields of the table are refused for, whatever its key and columns are.
func (r *reader) checkFields(s Table) {
	key := []store.KeyPart{store.HashedPart("k", store.Bool), store.HashedPart("l", store.Bool)}
	pages := min(s.PageRows, paged.Rows) // a number that is right
	for _, f := range []struct {
		name  string
		table Table
	}{
		{"table", Table{store.Schema{Name: s.Name, Key: key}, 0}},
		{"page-rows", Table{store.Schema{Name: s.Name, Key: key}, s.PageRows}},
		{"spread-bits", Table{store.Schema{Name: s.Name, Key: key, SpreadBits: s.SpreadBits}, 0}},
		{"conditional", Table{store.Schema{Name: s.Name, Key: key, Conditional: s.Conditional}, pages}},
		{"append-only", Table{store.Schema{Name: s.Name, Key: append(key, store.TiePart("m")), AppendOnly: s.AppendOnly}, pages}},
		{"tenants", Table{store.Schema{Name: s.Name, Key: key, Tenants: s.Tenants}, pages}},
		{"ttl", Table{store.Schema{Name: s.Name, Key: key, TTL: s.TTL}, pages}},
	} {
		if err := f.table.Check(); err != nil {
			r.fail(r.options[f.name], f.name, err)
			if f.name == "table" || f.name == "page-rows" {
				return // all others have it, too
			}
		}
	}
}

// checkCopied finds names in a list of columns to copy that are none of the schema.
func (r *reader) checkCopied(field string, s store.Schema, c store.Column) {
	known := columns.Names(s)
	for i, name := range c.Describe().Copied {
		if !slices.Contains(known, name) {
			r.failf(r.options[field], fmt.Sprintf("%s[%d]", field, i), "the schema has no column %q: correct the name, or leave it out", name)
		}
	}
}

// checkAppendOnly finds what keeps rows from being only added.
func (r *reader) checkAppendOnly(s store.Schema) {
	switch last := s.Key[max(len(s.Key)-1, 0):]; {
	case !s.AppendOnly || len(last) == 0:
	case last[0].Describe().Encryption != "tie":
		r.failf(r.options["append-only"], "append-only", "each row needs a key of its own: add a tie-breaker (encryption: tie) as the last part of the key, or leave append-only out")
	case s.Conditional:
		r.failf(r.options["append-only"], "append-only", "rows that are only added are never replaced, so that conditional means nothing: leave out one of the two")
	}
}

// checkColumn finds what a column is refused for in any table.
func (r *reader) checkColumn(n ast.Node, path string, c store.Column) {
	part := "k"
	if c.Describe().Name == part {
		part = "l"
	}
	s := store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart(part, store.Bool)}, Columns: []store.Column{c}}
	if c.Describe().Covering {
		s.Key, s.AppendOnly = append(s.Key, store.TiePart(part+"'")), true
		s.Columns[0] = c.Covering() // other columns are not here
	}
	if err := s.Check(); err != nil {
		r.fail(n, path, err)
	}
}

// A fieldReader reads the value of a field of a mapping.
type fieldReader struct {
	name string
	read func(value ast.Node, field string)
}

// fields reads a mapping whose fields are at most those given, each once, and at least the required
// ones.
func (r *reader) fields(n ast.Node, path string, known []fieldReader, required ...string) bool {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		r.failf(n, path, "need fields, such as %s: ..., not %s", known[0].name, kind(n))
		return false
	}
	before := len(r.errs)
	seen := map[string]bool{}
	for _, v := range values {
		name, ok := scalarText(v.Key)
		i := slices.IndexFunc(known, func(f fieldReader) bool { return f.name == name })
		switch {
		case !ok || i < 0:
			r.failf(v.Key, join(path, v.Key.String()), "unknown field: there is %s%s", strings.Join(fieldNames(known), ", "), show.DidYouMean(fieldNames(known), name))
		case seen[name]:
			r.failf(v.Key, join(path, name), "given twice")
		default:
			seen[name] = true
			known[i].read(v.Value, join(path, name))
		}
	}
	for _, name := range required {
		if !seen[name] {
			r.failf(n, join(path, name), "it is missing")
		}
	}
	return len(r.errs) == before
}

func fieldNames(known []fieldReader) (names []string) {
	for _, f := range known {
		names = append(names, f.name)
	}
	return names
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// kind says what a node is.
func kind(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	}
	return "an anchor, alias or tag"
}

func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

func (r *reader) text(n ast.Node, field string) string {
	text, ok := scalarText(n)
	if !ok {
		r.failf(n, field, "need a text, not %s; put it into quotes if it is one", kind(n))
	}
	return text
}

func (r *reader) integer(n ast.Node, field string) int {
	form := "an integer"
	if i, ok := n.(*ast.IntegerNode); ok {
		switch v := i.Value.(type) {
		case int64:
			if strconv.FormatInt(v, 10) == i.Token.Value {
				return int(v)
			}
		case uint64:
			if v < 1<<31 && strconv.FormatUint(v, 10) == i.Token.Value {
				return int(v)
			}
		}
		form += " in decimal digits, without a 0 before them" // which YAML reads 010 by as 8
	}
	r.failf(n, field, "need %s, not %s", form, short(n.GetToken().Value))
	return 0
}

func (r *reader) boolean(n ast.Node, field string) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.failf(n, field, "need true or false, not %s", kind(n))
		return false
	}
	return b.Value
}

// duration reads a duration, which may be in days.
func duration(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(text)
}

// longestTTL is the greatest that a row may have.
const longestTTL = 3650 * day

// ParseTTL reads how long single rows live.
func ParseTTL(text string) (time.Duration, error) {
	ttl, err := duration(text)
	if err != nil || ttl <= 0 || ttl > longestTTL || ttl%time.Second != 0 {
		return 0, fmt.Errorf("%q is none of whole seconds up to 3650d, as 30d and 12h30m are; days stand by themselves", text)
	}
	return ttl, nil
}

// ttl reads how long rows live.
func (r *reader) ttl(n ast.Node, field string) time.Duration {
	text, ok := scalarText(n)
	if text == ttlByRow {
		return store.TTLByRow
	}
	ttl, err := duration(text)
	if !ok || err != nil || ttl <= 0 {
		r.failf(n, field, "need how long rows live, as in 30d or 12h30m, where days stand by themselves, or %q, not %s", ttlByRow, short(n.GetToken().Value))
	} else if _, err := ParseTTL(text); err != nil {
		r.fail(n, field, err)
	}
	return ttl
}

// choose returns the one of the choices whose name is the text.
func choose[T any](r *reader, n ast.Node, field string, choices []T, name func(T) string) (chosen T) {
	before := len(r.errs)
	text := r.text(n, field)
	var names []string
	for _, c := range choices {
		if name(c) == text {
			return c
		}
		names = append(names, name(c))
	}
	if len(r.errs) == before {
		r.failf(n, field, "unknown value %q: there is %s%s", short(text), strings.Join(names, ", "), show.DidYouMean(names, text))
	}
	return chosen
}

// list returns the items of a list, which may be missing.
func (r *reader) list(n ast.Node, field string) []ast.Node {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.SequenceNode:
		if len(n.Values) > maxItems {
			r.failf(n, field, "it has %d items, at most %d can be read", len(n.Values), maxItems)
			return nil
		}
		return n.Values
	}
	r.failf(n, field, "need a list, whose items begin with '- ', not %s", kind(n))
	return nil
}

// declaration is what is said of a part or column.
type declaration struct {
	name       string
	typ        store.Type
	encryption string
	scheme     store.ColumnScheme
}

// parsed reads a text by what parses it.
func parsed[T any](r *reader, n ast.Node, field string, parse func(string) (T, error)) (value T) {
	before := len(r.errs)
	text := r.text(n, field)
	if len(r.errs) > before {
		return value
	}
	value, err := parse(text)
	if err != nil {
		r.fail(n, field, err)
	}
	return value
}

// declared reads what parts and columns have in common, and further fields. A field that the
// encryption must or cannot have is an error.
func (r *reader) declared(n ast.Node, path string, names map[string]bool, encryptions []string, further ...fieldReader) (d declaration, ok bool) {
	var typeAt, schemeAt ast.Node
	itself := func(s string) string { return s }
	ok = r.fields(n, path, append([]fieldReader{
		{"name", func(n ast.Node, field string) {
			d.name = r.text(n, field)
			if names[d.name] {
				r.failf(n, field, "two columns are named %q", d.name)
			}
			names[d.name] = true
			if r.named != nil {
				*r.named = d.name
			}
		}},
		{"type", func(n ast.Node, field string) {
			typeAt = n
			d.typ = parsed(r, n, field, store.ParseType)
		}},
		{"encryption", func(n ast.Node, field string) { d.encryption = choose(r, n, field, encryptions, itself) }},
		{"scheme", func(n ast.Node, field string) {
			schemeAt = n
			d.scheme = parsed(r, n, field, store.ParseScheme)
		}},
	}, further...), "name", "encryption")
	if !ok {
		return d, false
	}
	before := len(r.errs)
	switch {
	case d.encryption == "tie" && typeAt != nil:
		r.failf(typeAt, join(path, "type"), "a tie-breaker has no type: it is 16 random bytes")
	case d.encryption != "tie" && typeAt == nil:
		if r.typeOf != nil {
			d.typ, _ = store.ParseType(r.typeOf(d.name)) // nil where it is missing
		}
		if d.typ == nil {
			r.failf(n, join(path, "type"), "it is missing")
		}
	}
	switch {
	case d.encryption == "ordered" && schemeAt == nil:
		r.failf(n, join(path, "scheme"), "it is missing; %q is %s", d.name, d.encryption)
	case d.encryption != "ordered" && schemeAt != nil:
		r.failf(schemeAt, join(path, "scheme"), "only what is ordered has a scheme; %q is %s", d.name, d.encryption)
	}
	return d, len(r.errs) == before
}

func (r *reader) keyPart(n ast.Node, path string, names map[string]bool) (store.KeyPart, bool) {
	d, ok := r.declared(n, path, names, []string{"hashed", "ordered", "plain", "tie"})
	if !ok {
		return store.KeyPart{}, false
	}
	switch d.encryption {
	case "hashed":
		return store.HashedPart(d.name, d.typ), true
	case "plain":
		return store.PlainPart(d.name, d.typ), true
	case "tie":
		return store.TiePart(d.name), true
	}
	scheme, ok := d.scheme.(store.KeyScheme)
	if !ok {
		r.failf(n, join(path, "scheme"), "scheme %s encrypts columns only, and no row key", d.scheme)
		return store.KeyPart{}, false
	}
	return store.OrderedPart(d.name, d.typ, scheme), true
}

func (r *reader) column(n ast.Node, path string, names map[string]bool) (store.Column, bool) {
	var confidentiality, sharedTable, sharedColumn string
	var confidentialityAt, sharedAt ast.Node
	covering, served := false, false
	var copied []string
	option := func(name string, is *bool) fieldReader {
		return fieldReader{name, func(n ast.Node, field string) { *is, r.options[field] = r.boolean(n, field), n }}
	}
	d, ok := r.declared(n, path, names, []string{"randomised", "deterministic", "ordered", "plain"},
		fieldReader{"confidentiality", func(n ast.Node, field string) {
			confidentialityAt, r.options[field] = n, n
			confidentiality = choose(r, n, field, []string{"column", "database"}, func(s string) string { return s })
		}},
		fieldReader{"shared-with", func(n ast.Node, field string) {
			sharedAt, r.options[field] = n, n
			r.fields(n, field, []fieldReader{
				{"table", func(n ast.Node, field string) { sharedTable = r.text(n, field) }},
				{"column", func(n ast.Node, field string) { sharedColumn = r.text(n, field) }},
			}, "table", "column")
		}},
		fieldReader{"covering", func(n ast.Node, field string) {
			r.options[field] = n
			switch of := n.(type) {
			case *ast.BoolNode:
				covering = of.Value
			case *ast.SequenceNode:
				covering, copied = true, []string{}
				for i, name := range r.list(n, field) {
					copied = append(copied, r.text(name, fmt.Sprintf("%s[%d]", field, i)))
				}
			default:
				r.failf(n, field, "need true or false, or the columns that copies have, such as [celsius, note], not %s", kind(n))
			}
		}},
		option("server-index", &served))
	if !ok {
		return store.Column{}, false
	}
	if confidentialityAt != nil && sharedAt != nil {
		r.failf(sharedAt, join(path, "shared-with"), "give it or confidentiality, not both: a column shares its search key with those that name it, or with all that are database-wide")
		return store.Column{}, false
	}
	var c store.Column
	switch d.encryption {
	case "randomised":
		c = store.RandomisedColumn(d.name, d.typ)
	case "deterministic":
		c = store.DeterministicColumn(d.name, d.typ)
	case "ordered":
		c = store.OrderedColumn(d.name, d.typ, d.scheme)
	default:
		c = store.PlainColumn(d.name, d.typ)
	}
	switch {
	case sharedAt != nil:
		c = c.SharedWith(sharedTable, sharedColumn)
	case confidentiality == "database":
		c = c.DatabaseWide()
	}
	if covering {
		c = c.Covering(copied...)
	}
	if served {
		c = c.ServerIndex()
	}
	return c, true
}
