package tabular

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// errReturn is the error of a row that ends with "\r\r\n", as Python writes it on Windows unless its newline is empty. A reader of CSV would take
// one of these for the end of the last value.
var errReturn = errors.New(`a carriage return too many: remove it first, with "sed 's/\r\r$/\r/'", say`)

// mark is that of UTF-8, with which a file may begin.
var mark = []byte("\xef\xbb\xbf")

// errMark is the error of a row that begins with the mark: its first value would, too.
var errMark = errors.New("it begins with the mark of UTF-8 (U+FEFF), as where files were joined: remove that, or put a value that begins so in quotes")

type csvReader struct {
	r       *csvrows.Reader
	fields  []string
	unnamed []int
	ahead   bool   // the first row was read, and is one of values
	head    []byte // the first row as it came, if it has the names of several fields
	cut     bool   // the header has no end of line
	row     Row
	end     func()
}

func newCSVReader(text io.Reader, s shape, names, ignored []string, end func()) (Reader, error) {
	r, err := csvrows.New(text, s.comma, MaxRow)
	if err != nil {
		return nil, err
	}
	r.Exact = true
	c := &csvReader{r: r, end: end, ahead: !s.header}
	var bad *csvrows.Error
	switch err := r.Next(); {
	case err == io.EOF:
		return nil, errEmpty
	case errors.As(err, &bad):
		return nil, fmt.Errorf("the first row: %w", bad)
	case err != nil:
		return nil, err
	case bytes.HasSuffix(r.Raw(), []byte{'\r'}):
		return nil, fmt.Errorf("its first row ends with %w", errReturn)
	}
	c.fields, c.cut = r.Cells(), !r.Ended()
	r.Blank = len(c.fields) == 1
	if s.header && len(c.fields) > 1 {
		c.head = bytes.Clone(r.Raw())
	}
	if !s.header {
		for i := range c.fields {
			c.fields[i] = strconv.Itoa(i + 1)
		}
	}
	c.unnamed, err = heading{names: names, ignored: ignored, text: true}.check(c.fields)
	return c, err
}

func (c *csvReader) Fields() []string { return c.fields }

func (c *csvReader) Unnamed() []int { return c.unnamed }

func (c *csvReader) Next() (*Row, error) {
	var err error
	if !c.ahead {
		err = c.r.Next()
	}
	c.ahead = false
	if err == io.EOF && c.row.Number == 0 && c.cut {
		return nil, errors.New("it has no rows, and its header no end of line: it was cut short, so copy it again")
	}
	if err == io.EOF {
		return nil, err
	}
	c.row.Number++
	c.row.Line, c.row.raw = c.r.First, c.r.Raw()
	c.row.Cells = c.row.Cells[:0]
	var bad *csvrows.Error
	switch {
	case errors.As(err, &bad):
		err := bad.Err
		if bad.Line != c.row.Line {
			err = fmt.Errorf("line %d: %w", bad.Line, err)
		}
		return nil, &RowError{Row: c.row, Fatal: bad.Fatal, Err: err}
	case err != nil:
		return nil, fmt.Errorf("after line %d: %w", c.r.Line, err)
	case bytes.HasSuffix(c.row.raw, []byte{'\r'}):
		return nil, &RowError{Row: c.row, Err: fmt.Errorf("it ends with %w", errReturn)}
	case c.head != nil && bytes.Equal(bytes.TrimPrefix(c.row.raw, mark), c.head):
		return nil, &RowError{Row: c.row, Err: errors.New("it has the names of the fields again, as where files were joined")}
	case bytes.HasPrefix(c.row.raw, mark):
		return nil, &RowError{Row: c.row, Err: errMark}
	case c.r.Len() != len(c.fields):
		err := fmt.Errorf("it has %d %s, the first row has %d", c.r.Len(), show.Plural(c.r.Len(), "field"), len(c.fields))
		why := c.r.Others()
		if why == "" && c.r.Len() < len(c.fields) && !c.r.Ended() {
			why = "it is the last and has no end of line: the file was cut short, so copy it again"
		}
		if why != "" {
			err = fmt.Errorf("%w; %s", err, why)
		}
		return nil, &RowError{Row: c.row, Fatal: why != "", Err: err}
	}
	for i := range c.fields {
		cell := celltext.Cell{Kind: celltext.Bare, Text: c.r.Cell(i)}
		if c.r.Quoted(i) {
			cell.Kind = celltext.Quoted
		}
		c.row.Cells = append(c.row.Cells, cell)
	}
	return &c.row, nil
}

func (c *csvReader) Close() error {
	c.end()
	return nil
}

type csvWriter struct {
	w       *bufio.Writer
	comma   string
	columns []*celltext.Column
	nulls   []string
	line    []byte
	head    []byte // the first row, if it has the names of several columns
}

func newCSVWriter(w io.Writer, s shape, format *celltext.Format, columns []*celltext.Column) (Writer, error) {
	c := &csvWriter{w: bufio.NewWriterSize(w, 1<<16), comma: string(s.comma), columns: columns, nulls: format.Nulls}
	if len(c.nulls) > 0 && strings.Contains(c.nulls[0], c.comma) {
		return nil, exit.Usagef("--null: the text has %q, which stands between cells, so that null would be several of them: take another text, or another --delimiter", s.comma)
	}
	if s.header {
		for i, column := range columns {
			c.separate(i)
			c.put(column.Name, false)
		}
		if len(columns) > 1 {
			c.head = bytes.Clone(c.line)
		}
		_, _ = c.w.Write(append(c.line, '\n')) // the next error is the same
	}
	return c, nil
}

// separate begins the line, or its next cell.
func (c *csvWriter) separate(i int) {
	if i == 0 {
		c.line = c.line[:0]
		return
	}
	c.line = append(c.line, c.comma...)
}

// put writes a text, in quotes if it is to be so, or where it is not to be taken for null or for more than one cell.
func (c *csvWriter) put(text string, quotes bool) {
	if !quotes && text != "" && !strings.ContainsAny(text, "\"\r\n") && !strings.Contains(text, c.comma) && !slices.Contains(c.nulls, text) &&
		text[0] != ' ' && text[len(text)-1] != ' ' && !strings.HasPrefix(text, "\ufeff") {
		c.line = append(c.line, text...)
		return
	}
	c.line = append(c.line, '"')
	c.line = append(c.line, strings.ReplaceAll(text, `"`, `""`)...)
	c.line = append(c.line, '"')
}

func (c *csvWriter) Write(values []any) error {
	err := c.cells(values, false)
	if err == nil && c.head != nil && bytes.Equal(c.line, c.head) { // as where files were joined, which a reader would take it for
		err = c.cells(values, true)
	}
	if err != nil {
		return err
	}
	_, err = c.w.Write(append(c.line, '\n'))
	return err
}

// cells makes the line of a row.
func (c *csvWriter) cells(values []any, quotes bool) error {
	for i, v := range values {
		c.separate(i)
		if v == nil {
			c.line = append(c.line, c.null(c.columns[i])...)
			continue
		}
		text, err := c.columns[i].Text(v)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.columns[i].Name, err)
		}
		c.put(text, quotes)
	}
	return nil
}

// null returns how null is written. A cell that is alone in its row is not left empty: most readers skip a blank line. But "" is the
// empty text, where a column has that.
func (c *csvWriter) null(of *celltext.Column) string {
	switch {
	case len(c.nulls) > 0 && c.nulls[0] != "":
		return c.nulls[0]
	case len(c.columns) > 1:
		return ""
	case of.HasEmpty():
		of.SayBlank()
		return ""
	}
	return `""`
}

func (c *csvWriter) Close() error { return c.w.Flush() }
