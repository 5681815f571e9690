package tabular

import (
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
func (o *Output) Bind(f *pflag.FlagSet) { panic("not written yet") }

// Check checks the flags, before anything is opened: the format, and that no file would be replaced.
func (o *Output) Check() error { panic("not written yet") }

// Open begins the output of rows with such columns. Its rows are complete, and the file has its name, when
// [Sink.Commit] has returned nil; end it with Close in any case.
func (o *Output) Open(e *cli.Env, format *celltext.Format, columns []*celltext.Column) (*Sink, error) {
	panic("not written yet")
}

// A Sink takes rows.
type Sink struct {
	Writer
}

// Commit ends the rows and gives the file its name.
func (s *Sink) Commit() error { panic("not written yet") }

// Close removes what is there of a file that was not committed.
func (s *Sink) Close() error { panic("not written yet") }
