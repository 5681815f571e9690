package values

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

const (
	// sniffed is how many rows the type of a column is inferred from.
	sniffed = 1000

	// maxCell is the length in bytes beyond which a cell holds no value: the longest, an instant
	// with nine digits of a second and an offset, has 35, and numbers are written with fewer
	// than 64 unless something is wrong.
	maxCell = 64

	// maxRecord bounds the bytes of a row.
	maxRecord = 1 << 20

	// shownBad is how many bad rows an error names.
	shownBad = 5
)

// ErrInput is wrapped by errors about a cell of the input.
var ErrInput = errors.New("bad input")

// CSVOptions says how a file is read. The zero value is the default.
type CSVOptions struct {
	Type   string // name of a kind; by default it is inferred from the first rows
	Comma  rune   // between cells, default ','
	Header Header // whether the first row holds names
	MaxBad MaxBad // how many bad rows are left out; by default none may be there
	Limit  int    // how many values are wanted, 0 for all; bad rows after the last of them do not count
}

// MaxBad is how many rows of a file may be bad: their cell is missing, overlong, or no value of the
// type, or the row is overlong or not as CSV has it. The zero value is none.
type MaxBad struct {
	rows    int
	percent *big.Rat
	given   bool // by a flag; otherwise none may be bad
	few     int  // replaces percent in a file of fewer than 100 rows, unless it is 0
}

// DefaultMaxBad allows 1 % of the rows, or 10 rows of a file of fewer than 100.
func DefaultMaxBad() MaxBad { return MaxBad{given: true, percent: big.NewRat(1, 1), few: 10} }

// Default reports whether it is that of DefaultMaxBad, which nobody has chosen for a file.
func (m MaxBad) Default() bool { return m.few > 0 }

// ParseMaxBad reads a number of rows, or a share of them like 2.5%.
func ParseMaxBad(text string) (MaxBad, error) {
	wrong := exit.Usagef("%q is neither a number of rows, such as 20, nor a share of them from 0%% to 100%%, such as 0.5%%", text)
	if share, ok := strings.CutSuffix(text, "%"); ok {
		share = strings.TrimSpace(share)
		// A Rat would also take fractions and exponents.
		if _, err := strconv.ParseFloat(share, 64); err != nil || strings.Trim(share, "0123456789.") != "" {
			return MaxBad{}, wrong
		}
		percent, ok := new(big.Rat).SetString(share)
		if !ok || percent.Cmp(big.NewRat(100, 1)) > 0 {
			return MaxBad{}, wrong
		}
		return MaxBad{given: true, percent: percent}, nil
	}
	rows, err := strconv.Atoi(text)
	if err != nil || rows < 0 {
		return MaxBad{}, wrong
	}
	return MaxBad{given: true, rows: rows}, nil
}

// Share reports whether it is a share of the rows, so that it is known when all are.
func (m MaxBad) Share() bool { return m.percent != nil }

// Of returns how many of so many rows may be bad.
func (m MaxBad) Of(rows int) int {
	switch {
	case m.percent == nil:
		return m.rows
	case m.few > 0 && rows < 100:
		return m.few
	}
	share := new(big.Rat).Mul(m.percent, big.NewRat(int64(rows), 100))
	return int(new(big.Int).Quo(share.Num(), share.Denom()).Int64())
}

// A CSVSource is a column of a file in CSV (RFC 4180). The file is read as a stream, once more for
// every pass.
type CSVSource struct {
	path     string
	names    []string // the cells of the first row
	column   string   // its name, or what stands for it
	stored   string   // the same as a table has it
	index    int
	header   bool // the first row holds names
	assumed  string
	kind     Kind
	inferred bool
	opts     CSVOptions
	skipped  int
	bad      badRows // of the last pass
}

// OpenCSV returns the source of a column of a file. The column is the name in the file's first
// row or, where no name is like it, a number from 1 on. Where the column is a number and the file
// leaves open whether its first row holds names, that is exit.ErrUsage.
func OpenCSV(path, column string, opts CSVOptions) (*CSVSource, error) {
	opts.Comma = cmp.Or(opts.Comma, ',')
	if strings.TrimSpace(column) == "" {
		return nil, exit.Usagef("name the column of %s, or give its number", path)
	}
	s := &CSVSource{path: path, opts: opts}
	if opts.Type != "" {
		var err error
		if s.kind, err = KindByName(opts.Type); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(path)
	if path == "-" || err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file: the input is read more than once, save it to a file first", ErrInput, path)
	}
	if err != nil {
		return nil, err
	}
	err = s.rows(func(r *csvrows.Reader, bad *csvrows.Error) error {
		if bad != nil {
			return s.at(bad)
		}
		s.names = r.Cells()
		return errStop
	})
	switch {
	case err != nil:
		return nil, err
	case s.names == nil:
		return nil, fmt.Errorf("%w: %s is empty", ErrInput, path)
	}
	if err := s.find(column); err != nil {
		return nil, err
	}
	if opts.Type == "" {
		if s.kind, err = s.infer(); err != nil {
			return nil, err
		}
		s.inferred = true
	}
	return s, nil
}

// errStop ends rows without an error.
var errStop = errors.New("stop")

// rows calls f with every row of the file, or with what is wrong with it, until f returns an error.
// What is fatal is an error of its own.
func (s *CSVSource) rows(f func(r *csvrows.Reader, bad *csvrows.Error) error) error {
	file, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := csvrows.New(file, s.opts.Comma, maxRecord)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInput, s.path, err)
	}
	for {
		err := r.Next()
		var bad *csvrows.Error
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &bad) && bad.Fatal:
			return s.at(bad)
		case bad == nil && err != nil:
			return fmt.Errorf("%w: %s: after line %d: %w", ErrInput, s.path, r.Line, err)
		}
		if err := f(r, bad); err == errStop {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// at returns the error of a row, which shows nothing of its cells.
func (s *CSVSource) at(bad *csvrows.Error) error {
	if s.column == "" {
		return fmt.Errorf("%w: %s: %w", ErrInput, s.path, bad)
	}
	return fmt.Errorf("%w: %s: line %d, column %q: %w", ErrInput, s.path, bad.Line, s.column, bad.Err)
}

// parse returns the value of a cell. While no type is known, any value of any type is one.
func (s *CSVSource) parse(cell string) (int64, error) {
	cell = strings.TrimSpace(cell)
	switch {
	case cell == "":
		return 0, errMissing
	case len(cell) > maxCell:
		return 0, fmt.Errorf("overlong cell of %d bytes, at most %d make a value", len(cell), maxCell)
	}
	return s.kind.Parse(cell)
}

var errMissing = errors.New("missing")

// value returns the value of a row.
func (s *CSVSource) value(r *csvrows.Reader) (int64, *csvrows.Error) {
	cells := r.Len()
	for cells > len(s.names) && r.Cell(cells-1) == "" {
		cells-- // a separator at the end of a line separates nothing
	}
	if cells != len(s.names) {
		// One that is missing or too much may stand before the column, and move it.
		err := fmt.Errorf("the row has %s, the first row has %d", show.Counted(cells, "cell"), len(s.names))
		if s.index >= cells {
			err = fmt.Errorf("%w: the row has %s, the column is number %d", errMissing, show.Counted(cells, "cell"), s.index+1)
		}
		return 0, withOthers(r, &csvrows.Error{Line: r.First, Err: err})
	}
	cell := r.Cell(s.index)
	x, err := s.parse(cell)
	if err == nil {
		return x, nil
	}
	bad := &csvrows.Error{Line: r.Lines[s.index], Err: err}
	if s.inferred && isValue(cell) {
		bad.Fatal = true
		bad.Err = fmt.Errorf("%w, but a value of another type than %s, which is only a guess from the first rows: %s",
			err, s.kind.Name, s.wider(cell))
	}
	if strings.Contains(strings.TrimSpace(cell), "\r") {
		bad = withOthers(r, bad)
	}
	return 0, bad
}

// withOthers makes the error of a row that may hold other rows a fatal one: these would be lost
// without being counted.
func withOthers(r *csvrows.Reader, bad *csvrows.Error) *csvrows.Error {
	if why := r.Others(); why != "" {
		bad.Fatal, bad.Err = true, fmt.Errorf("%w; %s", bad.Err, why)
	}
	return bad
}

// wider advises the type that is likely to be meant where another was guessed: one that holds all
// values of the column.
func (s *CSVSource) wider(cell string) string {
	const advice = "name the type with --type"
	if s.kind.Name != "int64" {
		return advice
	}
	holdsCell := false
	for _, name := range []string{"uint64", "float64"} {
		k, err := KindByName(name)
		if err != nil {
			panic("values: " + err.Error())
		}
		if _, err := k.Parse(strings.TrimSpace(cell)); err != nil {
			continue
		}
		if s.holdAll(k) {
			return advice + " " + name
		}
		holdsCell = true
	}
	if holdsCell {
		return "no type holds all values of the column exactly; write some of them otherwise, or leave them out"
	}
	return advice
}

// holdAll reports whether a kind holds all cells that are values of some type.
func (s *CSVSource) holdAll(k Kind) bool {
	row, all := 0, true
	err := s.rows(func(r *csvrows.Reader, bad *csvrows.Error) error {
		if row++; row == 1 && s.header || bad != nil || s.index >= r.Len() {
			return nil
		}
		cell := strings.TrimSpace(r.Cell(s.index))
		if _, err := k.Parse(cell); err != nil && isValue(cell) {
			all = false
			return errStop
		}
		return nil
	})
	return all && err == nil
}

// isValue reports whether a cell is a value of a type that can be inferred, or a number beyond all
// of these.
func isValue(cell string) bool {
	cell = strings.TrimSpace(cell)
	if len(cell) > maxCell {
		return false
	}
	for _, k := range inferredKinds() {
		if _, err := k.Parse(cell); err == nil || errors.Is(err, ope.ErrDomain) || errors.Is(err, encode.ErrInexact) {
			return true
		}
	}
	return false
}

// infer returns the first of the types that can be inferred that the most cells of the first rows
// are values of.
func (s *CSVSource) infer() (Kind, error) {
	all := inferredKinds()
	values := make([]int, len(all))
	rows, row := 0, 0
	var unread *csvrows.Error // the first of them
	err := s.rows(func(r *csvrows.Reader, bad *csvrows.Error) error {
		if row++; row == 1 && s.header || bad != nil || s.index >= r.Len() {
			unread = cmp.Or(unread, bad)
			return nil // met again, and reported, when the values are read
		}
		if cell := strings.TrimSpace(r.Cell(s.index)); cell != "" && len(cell) <= maxCell {
			for i, k := range all {
				if _, err := k.Parse(cell); err == nil {
					values[i]++
				}
			}
		}
		if rows++; rows == sniffed {
			return errStop
		}
		return nil
	})
	if err != nil {
		return Kind{}, err
	}
	most := slices.Max(values)
	switch {
	case rows == 0 && unread != nil:
		err = fmt.Errorf("no numbers, dates or timestamps: %w", unread)
	case rows == 0:
		err = errors.New("no numbers, dates or timestamps: no row has a cell there")
	case most == 0:
		err = fmt.Errorf("no numbers, dates or timestamps in the first %s%s; give --type if they come later",
			strings.TrimPrefix(show.Counted(rows, "row"), "1 "), s.otherDelimiter())
	}
	if err != nil {
		return Kind{}, fmt.Errorf("%w: %s, column %q: %w", ErrInput, s.path, s.column, err)
	}
	return all[slices.Index(values, most)], nil
}

// counted returns a number with what it counts: "row" for "1 row", "2 rows".
func (s *CSVSource) Kind() Kind { return s.kind }
func (s *CSVSource) Len() int   { return -1 }

// Column returns the name by which a table knows the column.
func (s *CSVSource) Column() string { return s.stored }

func (s *CSVSource) Describe() string {
	return fmt.Sprintf("%s values of %s, column %q", s.kind.Name, filepath.Base(s.path), s.column)
}

// Skipped returns how many rows the last complete pass left out.
func (s *CSVSource) Skipped() int { return s.skipped }

// Values implements Source. Rows that are bad are left out and counted up to the end. If there are
// more than may be, the last thing yielded is an error, which names the first of them.
func (s *CSVSource) Values() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		s.skipped, s.bad = 0, badRows{}
		var found badRows
		good, row, stopped := 0, 0, false
		err := s.rows(func(r *csvrows.Reader, bad *csvrows.Error) error {
			if row++; row == 1 && s.header {
				return nil
			}
			var x int64
			if bad == nil {
				x, bad = s.value(r)
			}
			switch {
			case bad != nil && bad.Fatal:
				return s.at(bad)
			case bad != nil:
				found.add(bad)
				return nil
			}
			good++
			last := good == s.opts.Limit
			if last { // nobody may ask for what comes after it
				if err := s.check(found, good); err != nil {
					return err
				}
			}
			if stopped = !yield(x, nil) || last; stopped {
				return errStop
			}
			return nil
		})
		if err == nil && !stopped {
			err = s.check(found, good)
		}
		if err != nil {
			yield(0, err)
		}
	}
}

// badRows counts rows, and keeps the first ones.
type badRows struct {
	n     int
	first []*csvrows.Error
}

func (b *badRows) add(bad *csvrows.Error) {
	if b.n++; b.n <= shownBad {
		b.first = append(b.first, bad)
	}
}

// String names the first of the rows.
func (b badRows) String() string {
	var names []string
	for _, bad := range b.first {
		names = append(names, bad.Error())
	}
	if more := b.n - len(b.first); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, "; ")
}

// check returns an error if more rows are bad than may be.
func (s *CSVSource) check(bad badRows, good int) error {
	s.skipped, s.bad = bad.n, bad
	allowed := s.opts.MaxBad.Of(good + bad.n)
	if bad.n <= allowed {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %s %s bad", bad.n, show.Counted(good+bad.n, "row"), show.Verb(bad.n, "is", "are"))
	if allowed > 0 || s.opts.MaxBad.percent != nil {
		fmt.Fprintf(&text, ", and at most %d may be", allowed)
	}
	text.WriteString(": " + bad.String())
	if !s.opts.MaxBad.given {
		text.WriteString("; --skip-bad leaves such rows out where they are few, --max-bad says how many")
	} else {
		text.WriteString("; --max-bad allows more")
	}
	return fmt.Errorf("%w: %s, column %q: %s", ErrInput, s.path, s.column, &text)
}
