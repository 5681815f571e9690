package tabular

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli"
)

// Output says where rows go, and in which format.
type Output struct {
	file, format, delimiter, header string
	force                           bool
}

// Bind binds the flags: --output, --format, --delimiter, --header and --force.
func (o *Output) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.file, "output", "-", "the `file` for the rows, or - for the standard output; it gets its name when it is complete,\nand its rows are not encrypted")
	f.StringVar(&o.format, "format", "", "the `format` of the output (default: what the suffix of its name says):\n"+formatHelp+"; .gz or .zst after the suffix compresses it")
	f.StringVar(&o.delimiter, "delimiter", "", "`character` between the cells of CSV, or tab (default , or, in a .tsv file, tab)")
	f.StringVar(&o.header, "header", "", "whether the first row of CSV holds the names of the columns, `yes or no` (default yes)")
	f.BoolVar(&o.force, "force", false, "replace a file that exists")
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
	info, err := os.Lstat(o.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it", o.file)
	case !o.force:
		return fmt.Errorf("%s exists: name another file, or give --force to replace it", o.file)
	}
	return nil
}

// Open begins the output of rows with such columns. Its rows are complete, and the file has its name, when
// [Sink.Commit] has returned nil; end it with Close in any case.
func (o *Output) Open(e *cli.Env, format *celltext.Format, columns []*celltext.Column) (_ *Sink, err error) {
	shape, err := o.shape()
	if err != nil {
		return nil, err
	}
	s := &Sink{of: o}
	to := e.Stdout
	if o.file != "-" {
		if s.file, err = createPart(o.file); err != nil {
			return nil, err
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
	of   *Output
	file *os.File  // nil for the standard output, and when it has its name
	pack io.Closer // of what is compressed; may be nil
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
	// Whoever sees the name finds all rows, also after the machine has stopped.
	if err := s.file.Sync(); err != nil {
		return err
	}
	if !renamesOpen {
		if err := s.file.Close(); err != nil {
			return err
		}
	}
	if err := s.of.rename(s.file.Name()); err != nil {
		return err
	}
	_ = s.file.Close() // its bytes were synced
	s.file = nil
	return nil
}

// rename gives a file its name, which no other file has by now.
func (o *Output) rename(from string) error {
	if o.force {
		return os.Rename(from, o.file)
	}
	err := os.Link(from, o.file)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists by now: name another file, or give --force to replace it", o.file)
	case err != nil: // this file system has no links
		if err := o.Check(); err != nil {
			return err
		}
		return os.Rename(from, o.file)
	}
	return os.Remove(from)
}

// Close removes what is there of a file that was not committed.
func (s *Sink) Close() error {
	if s.file == nil {
		return nil
	}
	_ = s.file.Close() // it may be closed
	err := os.Remove(s.file.Name())
	s.file = nil
	return err
}
