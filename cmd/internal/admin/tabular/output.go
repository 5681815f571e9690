package tabular

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
)

// Output says where rows go, and in which format.
type Output struct {
	file, format, delimiter, header string
	force                           bool
}

// Bind binds the flags: --output, --format, --delimiter, --header and --force.
func (o *Output) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.file, "output", "-", "the `file` for the rows, or - for the standard output; it gets its name when it is complete,\nand its rows are not encrypted; a device or pipe is written to as it is, and a link is followed")
	f.StringVar(&o.format, "format", "", "the `format` of the output (default: what the suffix of its name says):\n"+formatHelp+"; .gz or .zst after the suffix compresses it")
	f.StringVar(&o.delimiter, "delimiter", "", "`character` between the cells of CSV, or tab (default , or, in a .tsv file, tab)")
	f.StringVar(&o.header, "header", "", "whether the first row of CSV holds the names of the columns, `yes or no` (default yes)")
	f.BoolVar(&o.force, "force", false, "replace a file that exists, unless the command reads it or it holds a master key")
	cli.Writes(f, "output")
	offerShapes(f)
}

func (o *Output) shape() (shape, error) {
	name := o.file
	if name == "-" {
		name = ""
	}
	return shapeOf(name, "the standard output", o.format, o.delimiter, o.header)
}

// Check checks the flags, before anything is opened: the format, and that no file would be replaced.
func (o *Output) Check() error {
	if _, err := o.shape(); err != nil || o.file == "-" {
		return err
	}
	return advised(outfile.Check(o.file, o.force))
}

// advised says what to do about a file that exists.
func advised(err error) error {
	if errors.Is(err, outfile.ErrExists) {
		return fmt.Errorf("%w: name another file, or give --force to replace it", err)
	}
	return err
}

// Open begins the output of rows with such columns. Its rows are complete, and the file has its name, when
// [Sink.Commit] has returned nil; end it with Close in any case.
func (o *Output) Open(e *cli.Env, format *celltext.Format, columns []*celltext.Column) (_ *Sink, err error) {
	shape, err := o.shape()
	if err != nil {
		return nil, err
	}
	s := &Sink{}
	to := e.Stdout
	if o.file != "-" {
		if s.file, err = outfile.Create(o.file, o.force); err != nil {
			return nil, advised(err)
		}
		to = s.file
	}
	if s.Writer, err = shape.writer(s.compressed(shape, to), format, columns); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s shape) writer(w io.Writer, format *celltext.Format, columns []*celltext.Column) (Writer, error) {
	switch s.format {
	case formatParquet:
		return newParquetWriter(w, columns)
	case formatJSON:
		return newJSONWriter(w, columns)
	}
	return newCSVWriter(w, s, format, columns)
}

// A Sink takes rows.
type Sink struct {
	Writer
	file *outfile.File // nil for the standard output
	pack io.Closer     // of what is compressed; may be nil
}

func (s *Sink) compressed(shape shape, to io.Writer) io.Writer {
	switch shape.compression {
	case ".gz":
		z := gzip.NewWriter(to)
		s.pack = z
		return z
	case ".zst":
		z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
		if err != nil {
			panic("tabular: " + err.Error()) // the options are good
		}
		s.pack = z
		return z
	}
	return to
}

// Commit ends the rows and gives the file its name.
func (s *Sink) Commit() error {
	err := s.Writer.Close()
	if err == nil && s.pack != nil {
		err = s.pack.Close()
	}
	if err != nil || s.file == nil {
		return err
	}
	return advised(s.file.Commit())
}

// Close removes what is there of a file that was not committed.
func (s *Sink) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Discard()
}
