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
	r      *bufio.Reader
	names  []string
	at     map[string]int
	line   int
	ended  bool // the line has an end
	buf    []byte
	row    Row
	has    []bool
	end    func()
	parsed scanner
}

func newJSONReader(text io.Reader, names []string, end func()) (Reader, error) {
	r := &jsonReader{r: bufio.NewReaderSize(text, 1<<16), names: names, at: map[string]int{}, end: end, has: make([]bool, len(names))}
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
	return r.parsed.object(r.buf, func(name string, cell celltext.Cell) error {
		i, ok := r.at[name]
		switch {
		case !ok:
			return unknownField(name, r.names)
		case r.has[i]:
			return fmt.Errorf("field %s is there twice", show.Visible(name))
		}
		r.row.Cells[i], r.has[i] = cell, true
		return nil
	})
}

func unknownField(name string, names []string) error {
	const shown = 20
	list := slices.Clone(names[:min(len(names), shown)])
	if len(names) > shown {
		list = append(list, "...")
	}
	if len(name) > 100 {
		return errors.New("a field has a name of more than 100 bytes, which no column has")
	}
	return fmt.Errorf("field %s is no column of the table: it has %s; --map names the column of a field, --ignore leaves the field out", show.Visible(name), strings.Join(list, ", "))
}

// A scanner reads a flat object of JSON. Its errors do not hold values.
type scanner struct {
	text []byte
	at   int
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
		cell, err := s.value()
		if err == nil {
			err = field(name, cell)
		} else if err != errJSON {
			err = fmt.Errorf("field %s holds %w", show.Visible(strings.ToValidUTF8(name[:min(len(name), 100)], "")), err)
		} else {
			err = s.cut(err)
		}
		if err != nil {
			return err
		}
	}
	if s.at < len(text) {
		return fmt.Errorf("%w: there is something after it", errJSON)
	}
	return nil
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

var errNested = errors.New("an array or object, which no column does")

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
	if s.at == len(s.text) || s.text[s.at] != '"' {
		return "", errJSON
	}
	begin := s.at
	plain := true
	for s.at++; ; s.at++ {
		if s.at == len(s.text) {
			return "", errJSON
		}
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			in := s.text[begin:s.at]
			if !utf8.Valid(in) {
				return "", errors.New("a text that is not in UTF-8: write the file in UTF-8 first, with 'iconv -f LATIN1 -t UTF-8', say")
			}
			if plain {
				return string(in[1 : len(in)-1]), nil
			}
			return unescaped(in)
		case c == '\\':
			plain = false
			s.at++
			if s.at == len(s.text) {
				return "", errJSON
			}
		case c < ' ':
			return "", errJSON
		}
	}
}

func unescaped(in []byte) (string, error) {
	var text string
	if json.Unmarshal(in, &text) != nil {
		return "", errJSON
	}
	// Half of a surrogate pair is replaced.
	if n := strings.Count(text, "\ufffd"); n > 0 && n != bytes.Count(in, []byte("\ufffd"))+bytes.Count(bytes.ToLower(in), []byte(`\ufffd`)) {
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
