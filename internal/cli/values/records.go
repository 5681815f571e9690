package values

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxRecord bounds the memory of a row.
const maxRecord = 1 << 20

// records reads the rows of a text in CSV (RFC 4180) as package encoding/csv does, which a test
// holds it to. Of a row that is no such text it says more: on which line it begins, on which line
// a quotation opens that has no end, and whether the next line is a row again.
type records struct {
	r     *bufio.Reader
	comma []byte
	line  int // that was read last
	first int // of the row
	size  int // of the row so far, in bytes
	long  []byte

	text  []byte // the row's cells, one after the other
	ends  []int  // of the cells in text
	lines []int  // on which they begin
}

// A rowError says what is wrong with a row that begins on a line. After a fatal one nobody can
// tell where the next row begins.
type rowError struct {
	line  int
	fatal bool
	err   error
}

func (e *rowError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *rowError) Unwrap() error { return e.err }

var (
	errLong       = fmt.Errorf("the row has more than %d bytes", maxRecord)
	errBareQuote  = errors.New("a quotation mark inside a cell that begins without one")
	errAfterQuote = errors.New("text after the quotation mark that ends a cell")
	errUnclosed   = errors.New("the quotation mark that opens here is not closed, so that rows after it would be lost")
	errEndless    = fmt.Errorf("%w; is a quotation mark not closed?", errLong)
)

// newRecords returns the rows of a file, or an error for what is no text in UTF-8.
func newRecords(f io.Reader, comma rune) (*records, error) {
	const peeked = 1 << 16
	b := bufio.NewReaderSize(f, peeked)
	head, err := b.Peek(peeked)
	if err != nil && err != io.EOF {
		return nil, err
	}
	starts := func(mark string) bool { return bytes.HasPrefix(head, []byte(mark)) }
	cr := bytes.IndexByte(head, '\r')
	switch {
	case starts("\xef\xbb\xbf"): // the mark of UTF-8
		_, _ = b.Discard(3) // these bytes are there
	// Compressed files may have as many zero bytes as UTF-16.
	case starts("\x1f\x8b"), starts("PK\x03\x04"), starts("\x28\xb5\x2f\xfd"), starts("\xfd7zXZ\x00"), starts("BZh"):
		return nil, errors.New("the file is compressed, or a spreadsheet's own: write it as CSV first")
	case starts("\xff\xfe"), starts("\xfe\xff"), 4*bytes.Count(head, []byte{0}) > len(head):
		return nil, errors.New("the text is in UTF-16, or is no text: write it in UTF-8 first, with 'iconv -f UTF-16 -t UTF-8', say")
	}
	if cr >= 0 && cr < len(head)-1 && !bytes.Contains(head, []byte{'\n'}) {
		return nil, errors.New(`its lines end with a carriage return alone: change these to line feeds first, with "tr '\r' '\n'", say`)
	}
	return &records{r: b, comma: []byte(string(comma))}, nil
}

func (r *records) len() int { return len(r.ends) }

// cell returns the i-th cell of the row.
func (r *records) cell(i int) string {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return string(r.text[start:r.ends[i]])
}

// cells returns all cells of the row.
func (r *records) cells() []string {
	all := make([]string, r.len())
	for i := range all {
		all[i] = r.cell(i)
	}
	return all
}

// severalLines reports whether the row goes on after its first line.
func (r *records) severalLines() bool { return r.line > r.first }

// others says why a row that is bad may hold other rows; it is "" where it does not.
func (r *records) others() string {
	switch {
	case r.severalLines():
		return fmt.Sprintf("it goes on up to line %d: is a quotation mark not closed?", r.line)
	case bytes.IndexByte(bytes.TrimRight(r.text, "\r"), '\r') >= 0:
		return "it has a carriage return inside: do some rows end with that alone?"
	}
	return ""
}

// next reads a row that is not blank. It returns io.EOF after the last, a rowError, or an error of
// the file.
func (r *records) next() error {
	r.text, r.ends, r.lines = r.text[:0], r.ends[:0], r.lines[:0]
	var line []byte
	for len(line) == 0 {
		r.size = 0
		var quotes int
		var err error
		line, quotes, err = r.readLine()
		r.first = r.line
		switch {
		case err == errLong && quotes%2 != 0: // it goes on in the next line
			return &rowError{r.line, true, errEndless}
		case err == errLong:
			return &rowError{r.line, false, err}
		case err != nil:
			return err
		}
	}
	for {
		r.lines = append(r.lines, r.line)
		if len(line) == 0 || line[0] != '"' {
			cell, rest, more := bytes.Cut(line, r.comma)
			if bytes.IndexByte(cell, '"') >= 0 {
				return r.broken(r.first, errBareQuote)
			}
			r.text = append(r.text, cell...)
			r.ends = append(r.ends, len(r.text))
			if !more {
				return nil
			}
			line = rest
			continue
		}
		opened := r.line
		rest, err := r.quoted(line[1:])
		if err != nil {
			return err
		}
		r.ends = append(r.ends, len(r.text))
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
func (r *records) broken(line int, err error) error {
	if r.severalLines() {
		err = fmt.Errorf("a quotation mark opens here, and on line %d there is %w, so that rows between may be lost", r.line, err)
	}
	return &rowError{line, r.severalLines(), err}
}

// quoted takes a cell up to the quotation mark that ends it, and returns what follows on that line.
func (r *records) quoted(line []byte) (rest []byte, err error) {
	opened := r.line
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			r.text = append(append(r.text, line...), '\n')
			line, _, err = r.readLine()
			switch {
			case err == io.EOF:
				return nil, &rowError{opened, true, errUnclosed}
			case err == errLong:
				return nil, &rowError{opened, true, errEndless}
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
func (r *records) readLine() (line []byte, quotes int, err error) {
	size := 0
	for {
		var part []byte
		part, err = r.r.ReadSlice('\n')
		size += len(part)
		switch {
		case err == bufio.ErrBufferFull || line != nil:
			if size <= maxRecord {
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
	r.line++
	if r.size += size; r.size > maxRecord {
		return nil, quotes, errLong
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'}), quotes, nil
}
