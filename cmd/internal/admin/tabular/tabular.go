// Package tabular reads and writes rows as files have them: CSV, JSON lines and Parquet, compressed or not.
package tabular

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
)

// A Reader yields the rows of an input.
type Reader interface {
	// Fields returns the names of the fields, in the order of the cells of a row. Those of CSV without a header are
	// "1", "2" and so on, and those of JSON lines the ones that it was opened with.
	Fields() []string

	// Unnamed returns the numbers, from 1 on, of fields that the input has no name for. Fields has these as their names.
	Unnamed() []int

	// Next returns the next row, which is valid until the next call, or io.EOF. After a RowError that is not fatal
	// the row after the bad one can be read. Nothing can be read after another error.
	Next() (*Row, error)

	Close() error
}

// A Row is a row of an input.
type Row struct {
	Number int // from 1 on; a header has none
	Line   int // of a text, on which it begins; 0 where there are no lines
	Cells  []celltext.Cell
	raw    []byte // of a text, as it came, without the end of its line

	fields []string // of typed cells
}

// Came returns the row as it came; of Parquet as JSON.
func (r *Row) Came() []byte {
	if r.fields != nil {
		return rawOf(r.fields, r.Cells)
	}
	return r.raw
}

// Kept returns a copy that stays valid.
func (r *Row) Kept() *Row {
	kept := *r
	kept.raw, kept.Cells = bytes.Clone(r.raw), slices.Clone(r.Cells)
	return &kept
}

// Where says which row it is.
func (r *Row) Where() string { return where(r.Number, r.Line) }

func where(number, line int) string {
	if line == 0 {
		return fmt.Sprintf("row %d", number)
	}
	return fmt.Sprintf("row %d (line %d)", number, line)
}

// A RowError says what is wrong with a row as a whole. It does not hold what the row has.
type RowError struct {
	Row   Row  // without cells
	Fatal bool // nobody can say where the next row begins
	Err   error
}

func (e *RowError) Error() string { return e.Row.Where() + ": " + e.Err.Error() }
func (e *RowError) Unwrap() error { return e.Err }

// A Writer writes rows in a format.
type Writer interface {
	// Write writes a row: values in the order of the columns, of the Go types of the store; nil is null.
	Write(values []any) error

	// Close ends the file. It does not close what the file is written to.
	Close() error
}
