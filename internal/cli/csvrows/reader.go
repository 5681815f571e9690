// Package csvrows reads the rows of texts in CSV.
package csvrows

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// A Limit is how many bytes a row has at most, which bounds the memory that it takes.
type Limit int

// A Reader reads the rows of a text in CSV (RFC 4180) as package encoding/csv does, which a test
// holds it to. Of a row that is no such text it says more: on which line it begins, on which line
// a quotation opens that has no end, and whether the next line is a row again.
type Reader struct {
	// Blank says that a blank line is a row of one empty cell. Otherwise it is none.
	Blank bool

	// Exact says that the end of a line inside quotes is as it came. Otherwise it is a line feed.
	Exact bool

	// Line is that which was read last, First the one on which the row begins, and Lines those of its cells.
	Line, First int
	Lines       []int

	r      *bufio.Reader
	comma  []byte
	limit  int
	size   int // of the row so far, in bytes
	long   []byte
	raw    []byte
	end    string // of the line that was read last
	text   []byte // the row's cells, one after the other
	ends   []int  // of the cells in text
	quoted []bool // which of them are
}

// An Error says what is wrong with a row that begins on a line. After a fatal one nobody can
// tell where the next row begins.
type Error struct {
	Line  int
	Fatal bool
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

var (
	errBareQuote  = errors.New("a quotation mark inside a cell that begins without one")
	errAfterQuote = errors.New("text after the quotation mark that ends a cell")
	errUnclosed   = errors.New("the quotation mark that opens here is not closed, so that rows after it would be lost")
)

// errLong is what readLine returns once the row is too long.
var errLong = errors.New("long")

func (r *Reader) tooLong() error { return fmt.Errorf("the row has more than %d bytes", r.limit) }

func (r *Reader) endless() error {
	return fmt.Errorf("%w; is a quotation mark not closed?", r.tooLong())
}

// IsParquet reports whether a file that begins so is in Parquet. Text may begin with PAR1, too, as the name of a column; what
// Parquet has behind it is no text.
func IsParquet(head []byte) bool {
	behind, ok := bytes.CutPrefix(head, []byte("PAR1"))
	return ok && len(behind) > 0 && behind[0] < ' ' && !bytes.ContainsAny(behind[:1], "\t\r\n")
}

// IsBzip2 reports whether a file that begins so is compressed with bzip2, and not text that begins with BZh, as a name may.
func IsBzip2(head []byte) bool {
	behind, ok := bytes.CutPrefix(head, []byte("BZh"))
	return ok && len(behind) > 1 && '1' <= behind[0] && behind[0] <= '9' &&
		(bytes.HasPrefix(behind[1:], []byte("1AY&SY")) || bytes.HasPrefix(behind[1:], []byte("\x17rE8P\x90"))) // the latter of nothing
}

// beginsAsJSON matches what no file of cells begins with, since a quotation mark is at the beginning of a cell.
var beginsAsJSON = regexp.MustCompile(`^\s*(\[\s*)?\{\s*"`)

// New returns what reads the rows of a file, or an error for what is no text in UTF-8.
func New(f io.Reader, comma rune, limit Limit) (*Reader, error) {
	const peeked = 1 << 16
	b := bufio.NewReaderSize(f, peeked)
	head, err := b.Peek(peeked)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if text, marked := bytes.CutPrefix(head, []byte("\xef\xbb\xbf")); marked { // as UTF-8
		_, _ = b.Discard(len(head) - len(text)) // these bytes are there
		head = text
	}
	starts := func(mark string) bool { return bytes.HasPrefix(head, []byte(mark)) }
	cr := bytes.IndexByte(head, '\r')
	switch {
	// Compressed files may have as many zero bytes as UTF-16.
	case starts("\x1f\x8b"), starts("PK\x03\x04"), starts("\x28\xb5\x2f\xfd"), starts("\xfd7zXZ\x00"), IsBzip2(head):
		return nil, errors.New("the file is compressed, or a spreadsheet's own: write it as CSV first")
	case IsParquet(head):
		return nil, errors.New("the file is in Parquet, and values are read from CSV: write it as CSV first")
	case beginsAsJSON.Match(head):
		return nil, errors.New("the file is in JSON, and is to be read as CSV: write it as CSV first")
	case starts("\xff\xfe"), starts("\xfe\xff"), 4*bytes.Count(head, []byte{0}) > len(head):
		return nil, errors.New("the text is in UTF-16, or is no text: write it in UTF-8 first, with 'iconv -f UTF-16 -t UTF-8', say")
	}
	if cr >= 0 && cr < len(head)-1 && !bytes.Contains(head, []byte{'\n'}) {
		return nil, errors.New(`its lines end with a carriage return alone: change these to line feeds first, with "tr '\r' '\n'", say`)
	}
	return &Reader{r: b, comma: []byte(string(comma)), limit: int(limit)}, nil
}

// Len returns how many cells the row has.
func (r *Reader) Len() int { return len(r.ends) }

// Cell returns the i-th cell of the row.
func (r *Reader) Cell(i int) string {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return string(r.text[start:r.ends[i]])
}

// Quoted reports whether the i-th cell of the row is in quotation marks.
func (r *Reader) Quoted(i int) bool { return r.quoted[i] }

// Raw returns the row as it came, without the end of its last line. Of one that is too long it is the beginning.
func (r *Reader) Raw() []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(r.raw, []byte{'\n'}), []byte{'\r'})
}

// Ended reports whether the last line of the row has an end, as only the last row of a file may not have.
func (r *Reader) Ended() bool { return bytes.HasSuffix(r.raw, []byte{'\n'}) }

// Cells returns all cells of the row.
func (r *Reader) Cells() []string {
	all := make([]string, r.Len())
	for i := range all {
		all[i] = r.Cell(i)
	}
	return all
}

// severalLines reports whether the row goes on after its first line.
func (r *Reader) severalLines() bool { return r.Line > r.First }

// Others says why a row that is bad may hold other rows; it is "" where it does not.
func (r *Reader) Others() string {
	switch {
	case r.severalLines():
		return fmt.Sprintf("it goes on up to line %d: is a quotation mark not closed?", r.Line)
	case bytes.IndexByte(bytes.TrimRight(r.text, "\r"), '\r') >= 0:
		return "it has a carriage return inside: do some rows end with that alone?"
	}
	return ""
}

// Next reads a row that is not blank. It returns io.EOF after the last, an Error, or an error of
// the file.
func (r *Reader) Next() error {
	r.text, r.ends, r.Lines, r.quoted = r.text[:0], r.ends[:0], r.Lines[:0], r.quoted[:0]
	var line []byte
	for read := false; !read || len(line) == 0 && !r.Blank; read = true {
		r.size, r.raw = 0, r.raw[:0]
		var quotes int
		var err error
		line, quotes, err = r.readLine()
		r.First = r.Line
		switch {
		case err == errLong && quotes%2 != 0: // it goes on in the next line
			return &Error{r.Line, true, r.endless()}
		case err == errLong:
			return &Error{r.Line, false, r.tooLong()}
		case err != nil:
			return err
		}
	}
	for {
		r.Lines = append(r.Lines, r.Line)
		if len(line) == 0 || line[0] != '"' {
			cell, rest, more := bytes.Cut(line, r.comma)
			if bytes.IndexByte(cell, '"') >= 0 {
				return r.broken(r.First, errBareQuote)
			}
			r.text = append(r.text, cell...)
			r.ends, r.quoted = append(r.ends, len(r.text)), append(r.quoted, false)
			if !more {
				return nil
			}
			line = rest
			continue
		}
		opened := r.Line
		rest, err := r.quotation(line[1:])
		if err != nil {
			return err
		}
		r.ends, r.quoted = append(r.ends, len(r.text)), append(r.quoted, true)
		switch {
		case len(rest) == 0:
			return nil
		case !bytes.HasPrefix(rest, r.comma):
			return r.broken(opened, errAfterQuote)
		}
		line = rest[len(r.comma):]
	}
}

// broken returns the error of a row that is not as CSV has it. If it has several lines, a
// quotation mark may be missing on the first of them, and the others may be rows.
func (r *Reader) broken(line int, err error) error {
	if r.severalLines() {
		err = fmt.Errorf("a quotation mark opens here, and on line %d there is %w, so that rows between may be lost", r.Line, err)
	}
	return &Error{line, r.severalLines(), err}
}

// quotation takes a cell up to the quotation mark that ends it, and returns what follows on that line.
func (r *Reader) quotation(line []byte) (rest []byte, err error) {
	opened := r.Line
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			r.text = append(append(r.text, line...), r.end...)
			line, _, err = r.readLine()
			switch {
			case err == io.EOF:
				return nil, &Error{opened, true, errUnclosed}
			case err == errLong:
				return nil, &Error{opened, true, r.endless()}
			case err != nil:
				return nil, err
			}
			continue
		}
		r.text = append(r.text, line[:i]...)
		if line = line[i+1:]; len(line) == 0 || line[0] != '"' {
			return line, nil
		}
		r.text, line = append(r.text, '"'), line[1:]
	}
}

// readLine returns a line without its end, and how many quotation marks it has. It is valid until
// the next call. Once the row is too long it is errLong, after the line.
func (r *Reader) readLine() (line []byte, quotes int, err error) {
	size := 0
	for {
		var part []byte
		part, err = r.r.ReadSlice('\n')
		size += len(part)
		switch {
		case err == bufio.ErrBufferFull || line != nil:
			if size <= r.limit {
				r.long = append(r.long[:len(line)], part...)
				line = r.long
			}
			quotes += bytes.Count(part, []byte{'"'})
		default:
			line = part
			quotes = bytes.Count(part, []byte{'"'})
		}
		if err != bufio.ErrBufferFull {
			break
		}
	}
	if err != nil && (err != io.EOF || size == 0) {
		return nil, 0, err
	}
	r.Line++
	if r.size += size; r.size > r.limit {
		return nil, quotes, errLong
	}
	r.raw = append(r.raw, line...)
	line = bytes.TrimSuffix(line, []byte{'\n'})
	r.end = "\n"
	if bare, ok := bytes.CutSuffix(line, []byte{'\r'}); ok {
		line = bare
		if r.Exact {
			r.end = "\r\n"
		}
	}
	return line, quotes, nil
}

// ParseComma returns the character that a flag names, or the word tab.
func ParseComma(flag, text string) (rune, error) {
	if text == "tab" {
		return '\t', nil
	}
	r, size := utf8.DecodeRuneInString(text)
	if size != len(text) || r == utf8.RuneError || strings.ContainsRune("\"\r\n", r) {
		return 0, exit.Usagef("--%s must be one character, and no quotation mark or end of line", flag)
	}
	return r, nil
}
