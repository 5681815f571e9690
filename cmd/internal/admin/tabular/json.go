package tabular

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// A jsonReader reads an object from each line. A field that an object has not is null.
type jsonReader struct {
	r       *bufio.Reader
	names   []string
	at      map[string]int
	ignored []string
	line    int
	ended   bool // the line has an end
	buf     []byte
	row     Row
	has     []bool
	unknown []string // fields of the row that are none of names
	end     func()
	parsed  scanner
}

func newJSONReader(text io.Reader, names, ignored []string, end func()) (Reader, error) {
	r := &jsonReader{r: bufio.NewReaderSize(text, 1<<16), names: names, at: map[string]int{}, ignored: ignored, end: end, has: make([]bool, len(names))}
	r.parsed.skips = r.skips
	head, err := r.r.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case len(head) == 0:
		return nil, errEmpty
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = r.r.Discard(3)
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")), bytes.IndexByte(head, 0) >= 0:
		return nil, errors.New("the text is in UTF-16, or is no text: write it in UTF-8 first, with 'iconv -f UTF-16 -t UTF-8', say")
	case head[0] == '[':
		return nil, errors.New("it is a JSON array, and not an object on each line: 'jq -c .[]' makes lines of it")
	}
	for i, name := range names {
		r.at[name] = i
	}
	return r, nil
}

func (r *jsonReader) Fields() []string { return r.names }

func (r *jsonReader) Unnamed() []int { return nil }

func (r *jsonReader) Close() error {
	r.end()
	return nil
}

// readLine reads a line, of which it keeps no more than a row may have.
func (r *jsonReader) readLine() (long bool, err error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		if len(r.buf)+len(part) <= MaxRow {
			r.buf = append(r.buf, part...)
		} else {
			long = true
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && len(part) == 0 && len(r.buf) == 0 || err != nil && err != io.EOF {
			return false, err
		}
		r.line++
		r.ended = err == nil
		r.buf = bytes.TrimSpace(r.buf)
		return long, nil
	}
}

func (r *jsonReader) Next() (*Row, error) {
	for {
		long, err := r.readLine()
		if err == io.EOF && r.row.Number == 0 {
			return nil, errors.New("it has blank lines only, as a file that was cut short may have: " + withoutRows)
		}
		if err == io.EOF {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("after line %d: %w", r.line, err)
		}
		if len(r.buf) == 0 {
			continue
		}
		r.row.Number++
		r.row.Line, r.row.raw = r.line, r.buf
		if long {
			return nil, &RowError{Row: Row{Number: r.row.Number, Line: r.line, raw: r.buf}, Err: fmt.Errorf("the row has more than %d bytes", MaxRow)}
		}
		err = r.parse()
		if errors.Is(err, errCut) && !r.ended {
			err = errors.New("the last line ends in the middle of an object: the file was cut short, so copy it again")
			return nil, &RowError{Row: Row{Number: r.row.Number, Line: r.line, raw: r.buf}, Fatal: true, Err: err}
		}
		if err != nil {
			return nil, &RowError{Row: Row{Number: r.row.Number, Line: r.line, raw: r.buf}, Err: err}
		}
		return &r.row, nil
	}
}

func (r *jsonReader) parse() error {
	if cap(r.row.Cells) < len(r.names) {
		r.row.Cells = make([]celltext.Cell, len(r.names))
	}
	if string(r.buf) == "{" {
		return fmt.Errorf("%w on one line: 'jq -c .' makes one line of several", errJSON)
	}
	r.row.Cells = r.row.Cells[:len(r.names)]
	clear(r.row.Cells)
	clear(r.has)
	r.unknown = r.unknown[:0]
	err := r.parsed.object(r.buf, func(name string, cell celltext.Cell) error {
		i := r.at[name]
		if r.has[i] {
			return fmt.Errorf("field %s is there twice", show.Visible(name))
		}
		r.row.Cells[i], r.has[i] = cell, true
		return nil
	})
	if err == nil && len(r.unknown) > 0 {
		return unknownFields(r.unknown, r.names)
	}
	return err
}

// skips reports whether the value of a field is not read: it is ignored, or has no column, which ends the row.
func (r *jsonReader) skips(name string) bool {
	_, known := r.at[name]
	if !known && !slices.Contains(r.unknown, name) {
		r.unknown = append(r.unknown, name)
	}
	return !known || slices.Contains(r.ignored, name)
}

// unknownFields is the error of a row with fields that have no column.
func unknownFields(unknown, names []string) error {
	list := func(names []string) string {
		const shown, longest = 20, 100
		var texts []string
		for _, name := range names[:min(len(names), shown)] {
			if len(name) > longest {
				name = strings.ToValidUTF8(name[:longest], "") + "..."
			}
			texts = append(texts, show.Visible(name))
		}
		if len(names) > shown {
			texts = append(texts, "...")
		}
		return strings.Join(texts, ", ")
	}
	return fmt.Errorf("the table has no column for %s %s; it has %s: --map FIELD=COLUMN names the column of a field, --ignore FIELD leaves the field out",
		show.Plural(len(unknown), "field"), list(unknown), list(names))
}

// A scanner reads a flat object of JSON. Its errors do not hold values.
type scanner struct {
	text  []byte
	at    int
	skips func(name string) bool // of fields whose values are not read; nil for none
}

var errJSON = errors.New("it is no object of JSON")

func (s *scanner) blank() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// take skips a character and the blanks around it, if it is there.
func (s *scanner) take(c byte) bool {
	s.blank()
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.blank()
	return true
}

func (s *scanner) object(text []byte, field func(name string, cell celltext.Cell) error) error {
	s.text, s.at = text, 0
	if !s.take('{') {
		return errJSON
	}
	for n := 0; !s.take('}'); n++ {
		if n > 0 && !s.take(',') {
			return s.cut(errJSON)
		}
		name, err := s.string()
		if err != nil {
			return s.cut(err)
		}
		if !s.take(':') {
			return s.cut(errJSON)
		}
		if err := s.member(name, field); err != nil {
			return err
		}
	}
	if s.at < len(text) {
		return fmt.Errorf("%w: there is something after it", errJSON)
	}
	return nil
}

// member reads the value of a field, or passes over it.
func (s *scanner) member(name string, field func(name string, cell celltext.Cell) error) (err error) {
	skipped := s.skips != nil && s.skips(name)
	var cell celltext.Cell
	if skipped {
		err = s.pass()
	} else {
		cell, err = s.value()
	}
	switch {
	case err == errJSON:
		return s.cut(err)
	case err != nil:
		return fmt.Errorf("field %s holds %w", show.Visible(strings.ToValidUTF8(name[:min(len(name), 100)], "")), err)
	case skipped:
		return nil
	}
	return field(name, cell)
}

// errCut is the error of an object that has no end.
var errCut = errors.New("it ends in the middle of an object of JSON")

// cut returns the error of an object that is none because it ends too early.
func (s *scanner) cut(err error) error {
	if err == errJSON && s.at >= len(s.text) {
		return errCut
	}
	return err
}

// The errors of values that no column has.
var (
	errNested   = errors.New("an array or object, which no column does: write it as a text, or leave the field out with --ignore")
	errNoNumber = errors.New(`NaN or Infinity, which JSON does not have: write "NaN" or "Infinity" in quotes for a column of floating point numbers, or null`)
	errUTF8     = errors.New("a text that is not in UTF-8: write the file in UTF-8 first, with 'iconv -f WINDOWS-1252 -t UTF-8', say")
)

// pass goes to the end of a value that is not read, which may be an array or object.
func (s *scanner) pass() error {
	begin, depth := s.at, 0
	if s.at == len(s.text) || strings.IndexByte("{[", s.text[s.at]) < 0 {
		_, err := s.value()
		return err
	}
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			if _, _, err := s.quoted(); err != nil {
				return err
			}
			s.at-- // to its end
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case 'N', 'I':
			if rest := s.text[s.at:]; bytes.HasPrefix(rest, []byte("NaN")) || bytes.HasPrefix(rest, []byte("Infinity")) {
				return errNoNumber
			}
		}
		if depth > 0 {
			continue
		}
		s.at++
		switch in := s.text[begin:s.at]; {
		case !utf8.Valid(in):
			return errUTF8
		case !json.Valid(in):
			s.at = begin // it has an end
			return errJSON
		}
		return nil
	}
	return errJSON
}

func (s *scanner) value() (cell celltext.Cell, err error) {
	if s.at == len(s.text) {
		return cell, errJSON
	}
	switch s.text[s.at] {
	case '"':
		cell.Kind = celltext.String
		cell.Text, err = s.string()
		return cell, err
	case '{', '[':
		return cell, errNested
	}
	begin := s.at
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n,}", s.text[s.at]) < 0 {
		s.at++
	}
	text := s.text[begin:s.at]
	switch string(text) {
	case "NaN", "Infinity", "-Infinity":
		return cell, errNoNumber
	}
	if !json.Valid(text) {
		return cell, errJSON
	}
	if string(text) == "null" {
		return cell, nil
	}
	return celltext.Cell{Kind: celltext.Literal, Text: string(text)}, nil
}

// string reads a text in quotes.
func (s *scanner) string() (string, error) {
	in, plain, err := s.quoted()
	switch {
	case err != nil:
		return "", err
	case !utf8.Valid(in):
		return "", errUTF8
	case plain:
		return string(in[1 : len(in)-1]), nil
	}
	return unescaped(in)
}

// quoted returns a text with its quotes. A plain one has no escapes.
func (s *scanner) quoted() (in []byte, plain bool, err error) {
	if s.at == len(s.text) || s.text[s.at] != '"' {
		return nil, false, errJSON
	}
	begin := s.at
	plain = true
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[begin:s.at], plain, nil
		case c == '\\':
			plain = false
			if s.at++; s.at == len(s.text) {
				return nil, false, errJSON
			}
		case c < ' ':
			return nil, false, errJSON
		}
	}
	return nil, false, errJSON
}

func unescaped(in []byte) (string, error) {
	var text string
	if json.Unmarshal(in, &text) != nil {
		return "", errJSON
	}
	// Half of a surrogate pair is replaced. A backslash that is escaped begins no escape.
	escapes := bytes.ToLower(bytes.ReplaceAll(in, []byte(`\\`), nil))
	if n := strings.Count(text, "\ufffd"); n > 0 && n != bytes.Count(in, []byte("\ufffd"))+bytes.Count(escapes, []byte(`\ufffd`)) {
		return "", errors.New("half of a surrogate pair, which is no character")
	}
	return text, nil
}

type jsonWriter struct {
	w       *bufio.Writer
	columns []*celltext.Column
	names   [][]byte // with the sign before and the colon after each
	buf     []byte
}

func newJSONWriter(w io.Writer, columns []*celltext.Column) (Writer, error) {
	j := &jsonWriter{w: bufio.NewWriterSize(w, 1<<16), columns: columns}
	for i, c := range columns {
		name := []byte{'{'}
		if i > 0 {
			name[0] = ','
		}
		j.names = append(j.names, append(celltext.AppendQuoted(name, c.Name), ':'))
	}
	return j, nil
}

func (j *jsonWriter) Write(values []any) error {
	j.buf = j.buf[:0]
	for i, v := range values {
		j.buf = append(j.buf, j.names[i]...)
		var err error
		if j.buf, err = j.columns[i].AppendJSON(j.buf, v); err != nil {
			return fmt.Errorf("column %q: %w", j.columns[i].Name, err)
		}
	}
	j.buf = append(j.buf, '}', '\n')
	_, err := j.w.Write(j.buf)
	return err
}

func (j *jsonWriter) Close() error { return j.w.Flush() }
