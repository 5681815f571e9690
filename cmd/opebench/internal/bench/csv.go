package bench

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// sniffed is how many rows the type of a column is inferred from.
	sniffed = 1000

	// maxCell is the length in bytes beyond which a cell holds no value: the longest, an instant
	// with nine digits of a second and an offset, has 35, and numbers are written with fewer
	// than 64 unless something is wrong.
	maxCell = 64

	// maxRecord bounds the memory of a row. A quotation mark that is never closed would make the
	// rest of the file one row.
	maxRecord = 1 << 20
)

// ErrInput is wrapped by errors about a cell of the input.
var ErrInput = errors.New("bad input")

// CSVOptions says how a file is read. The zero value is the default.
type CSVOptions struct {
	Type    string // name of a kind; by default it is inferred from the first rows
	Comma   rune   // between cells, default ','
	SkipBad bool   // leave rows out whose cell is missing, overlong, or no value of the type, and overlong rows
}

// A CSVSource is a column of a file in CSV (RFC 4180). The file is read as a stream, anew for
// every pass.
type CSVSource struct {
	path     string
	column   string // as shown
	index    int
	header   bool
	kind     Kind
	inferred bool
	opts     CSVOptions
	skipped  int
}

// OpenCSV returns the source of a column of a file. The column is the name in the file's first
// row or, where no name is like it, a number from 1 on. By number, the first row counts as names
// unless its cell is a value.
func OpenCSV(path, column string, opts CSVOptions) (*CSVSource, error) {
	if opts.Comma == 0 {
		opts.Comma = ','
	}
	if column == "" {
		return nil, usagef("name the column of %s, or give its number", path)
	}
	s := &CSVSource{path: path, column: column, opts: opts}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file: the input is read more than once, save it to a file first", ErrInput, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := newRecords(f, opts.Comma)
	head, _, err := r.next()
	if err == io.EOF {
		return nil, fmt.Errorf("%w: %s is empty", ErrInput, path)
	}
	if err != nil {
		return nil, s.atRow(1, err)
	}
	names := append([]string(nil), head...)
	byNumber, err := s.find(names)
	if err != nil {
		return nil, err
	}
	if opts.Type != "" {
		if s.kind, err = KindByName(opts.Type); err != nil {
			return nil, err
		}
	}
	s.header = true
	if byNumber && s.index < len(names) {
		_, isValue := s.parse(names[s.index])
		s.header = isValue != nil
	}
	if opts.Type == "" {
		cells := []string{}
		if !s.header {
			cells = append(cells, names[s.index])
		}
		for len(cells) < sniffed {
			record, _, err := r.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				var bad *csv.ParseError
				if errors.As(err, &bad) || err == errLong {
					continue // met again, and reported, when the values are read
				}
				return nil, err
			}
			if s.index < len(record) {
				cells = append(cells, strings.Clone(record[s.index]))
			}
		}
		if s.kind, err = infer(cells); err != nil {
			return nil, fmt.Errorf("%w: %s, column %q: %w", ErrInput, path, s.column, err)
		}
		s.inferred = true
	}
	return s, nil
}

// find sets the column's index and reports whether it was given as a number.
func (s *CSVSource) find(names []string) (byNumber bool, err error) {
	found := 0
	for i, name := range names {
		if strings.TrimSpace(name) == s.column {
			s.index = i
			found++
		}
	}
	number, nerr := strconv.Atoi(s.column)
	switch {
	case found == 1:
		return false, nil
	case found > 1:
		return false, fmt.Errorf("%w: %s has %d columns named %q; give the number of one", ErrInput, s.path, found, s.column)
	case nerr == nil && number >= 1 && number <= len(names):
		s.index = number - 1
		return true, nil
	case nerr == nil:
		return false, fmt.Errorf("%w: %s has %s, none is named or numbered %s", ErrInput, s.path, counted(len(names), "column"), s.column)
	}
	const shown = 20
	list := strings.Join(names[:min(len(names), shown)], ", ")
	if len(names) > shown {
		list += ", ..."
	}
	return false, fmt.Errorf("%w: %s has no column %q; it has %s", ErrInput, s.path, s.column, list)
}

// parse returns the value of a cell. While no type is known, any value of any type is one.
func (s *CSVSource) parse(cell string) (int64, error) {
	cell = strings.TrimSpace(cell)
	switch {
	case cell == "":
		return 0, errMissing
	case len(cell) > maxCell:
		return 0, fmt.Errorf("overlong cell of %d bytes, at most %d make a value", len(cell), maxCell)
	case s.kind.Parse != nil:
		return s.kind.Parse(cell)
	}
	_, err := infer([]string{cell})
	return 0, err
}

var errMissing = errors.New("missing")

// infer returns the first of the types that can be inferred that the most cells are values of.
func infer(cells []string) (Kind, error) {
	best, most := Kind{}, 0
	for _, k := range inferredKinds() {
		n := 0
		for _, cell := range cells {
			cell = strings.TrimSpace(cell)
			if cell == "" || len(cell) > maxCell {
				continue
			}
			if _, err := k.Parse(cell); err == nil {
				n++
			}
		}
		if n > most {
			best, most = k, n
		}
	}
	switch {
	case len(cells) == 0:
		return Kind{}, errors.New("no numbers, dates or timestamps: no row has a cell there")
	case most == 0:
		return Kind{}, fmt.Errorf("no numbers, dates or timestamps in the first %s; give --type if they come later", strings.TrimPrefix(counted(len(cells), "row"), "1 "))
	}
	return best, nil
}

// counted returns a number with what it counts: "row" for "1 row", "2 rows".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (s *CSVSource) Kind() Kind { return s.kind }
func (s *CSVSource) Len() int   { return -1 }

// Column returns the name of the column, or its number where it has none.
func (s *CSVSource) Column() string { return s.column }

func (s *CSVSource) Describe() string {
	return fmt.Sprintf("%s values of %s, column %q", s.kind.Name, filepath.Base(s.path), s.column)
}

// Skipped returns how many rows the last complete pass left out.
func (s *CSVSource) Skipped() int { return s.skipped }

func (s *CSVSource) atRow(row int, err error) error {
	return fmt.Errorf("%w: %s: row %d, column %q: %w", ErrInput, s.path, row, s.column, err)
}

// Values implements Source. Rows are numbered from 1, the row of names included. An error names
// row and column, and never what the cell holds.
func (s *CSVSource) Values() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		f, err := os.Open(s.path)
		if err != nil {
			yield(0, err)
			return
		}
		defer f.Close()
		r := newRecords(f, s.opts.Comma)
		s.skipped = 0
		for {
			record, row, err := r.next()
			if err == io.EOF {
				return
			}
			var x int64
			var bad *csv.ParseError
			switch {
			case errors.As(err, &bad):
				err = bad.Err
			case err == errLong: // the next row is found
			case err != nil: // of reading, or a record without end: what follows is lost
				yield(0, s.atRow(row, err))
				return
			case row == 1 && s.header:
				continue
			case s.index >= len(record):
				err = fmt.Errorf("%w: the row has %s, the column is number %d", errMissing, counted(len(record), "cell"), s.index+1)
			default:
				x, err = s.parse(record[s.index])
			}
			if err == nil {
				if !yield(x, nil) {
					return
				}
				continue
			}
			if s.opts.SkipBad {
				s.skipped++
				continue
			}
			if s.inferred {
				err = fmt.Errorf("%w (%s is the type of the first rows; --type names another)", err, s.kind.Name)
			}
			yield(0, s.atRow(row, fmt.Errorf("%w; --skip-bad leaves such rows out", err)))
			return
		}
	}
}

// records reads the records of a file and counts them.
type records struct {
	csv   *csv.Reader
	guard *guard
	row   int
}

func newRecords(f io.Reader, comma rune) *records {
	b := bufio.NewReaderSize(f, 1<<16)
	if mark, err := b.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3) // the mark of UTF-8; these bytes are there
	}
	g := &guard{r: b}
	r := csv.NewReader(g)
	r.Comma = comma
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	return &records{csv: r, guard: g}
}

// next returns a record, which is valid until the next call, and its number. After errLong, the
// next call returns the record behind the long one.
func (r *records) next() ([]string, int, error) {
	start := r.csv.InputOffset()
	r.guard.left, r.guard.stopped = maxRecord, false
	record, err := r.csv.Read()
	if r.guard.stopped {
		// Whatever package csv makes of the part that it got.
		record, err = nil, r.guard.skipLine(start)
	}
	if err != io.EOF {
		r.row++
	}
	return record, r.row, err
}

var (
	// errLong is returned for a record that is too long and was skipped.
	errLong = fmt.Errorf("the row has more than %d bytes", maxRecord)

	// errEndless is returned for one whose end is not known.
	errEndless = fmt.Errorf("%w; is a quotation mark not closed?", errLong)
)

// guard stops when one record takes more than it has left: package csv would take the record
// into memory whole. It follows the lines, so as to tell whether the record ends with its line.
type guard struct {
	r       *bufio.Reader
	left    int
	stopped bool

	read    int64 // bytes
	endLine int64 // how many of them go up to the end of the last line that is not blank
	line    int   // bytes of the last line so far
	quotes  int   // quotation marks among them
}

func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		g.stopped = true
		return 0, errLong
	}
	n, err := g.r.Read(p)
	g.left -= n
	g.follow(p[:n])
	return n, err
}

func (g *guard) follow(p []byte) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		g.line += len(part)
		g.quotes += bytes.Count(part, []byte{'"'})
		g.read += int64(len(p) - len(rest))
		if ended {
			if g.line > 1 || g.line == 1 && !bytes.HasSuffix(part, []byte{'\r'}) {
				g.endLine = g.read
			}
			g.line, g.quotes = 0, 0
		}
		p = rest
	}
}

// skipLine skips the rest of the line that the guard stopped in and returns errLong, if the record
// begins and ends with that line: it does unless a quotation goes on in the next one, which takes
// an odd number of quotation marks, or came from the one before. Then it is errEndless. The
// record began at the offset start or behind blank lines there.
func (g *guard) skipLine(start int64) error {
	if g.endLine > start {
		return errEndless
	}
	quotes := g.quotes
	for {
		part, err := g.r.ReadSlice('\n')
		quotes += bytes.Count(part, []byte{'"'})
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && err != io.EOF:
			return err
		case quotes%2 != 0:
			return errEndless
		}
		g.line, g.quotes = 0, 0
		return errLong
	}
}
