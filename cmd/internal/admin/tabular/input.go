package tabular

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// MaxRow bounds the bytes of a row of text: one that a store takes has at most 15 MiB, which hexadecimal digits double.
const MaxRow = 32 << 20

// ErrInput is wrapped by errors about an input.
var ErrInput = errors.New("bad input")

// errEmpty is the error of an input of no bytes. One without rows is none: nothing was cut from its header, or end.
var errEmpty = errors.New("it is empty, as a file that was cut short may be: " + withoutRows)

// errNothing is that of a standard input of no bytes.
var errNothing = errors.New("nothing came, as after a command that failed before the pipe: " + withoutRows)

const withoutRows = "write a table without rows as CSV with a header, or as Parquet"

// ErrChanged is returned where a file is no longer what it was when it was opened.
var ErrChanged = errors.New("the input has changed while it was read")

// The formats.
const (
	formatCSV     = "csv"
	formatJSON    = "jsonl"
	formatParquet = "parquet"
)

const formatHelp = "csv, jsonl (JSON lines) or parquet"

// suffixes are those of file names, after one of a compression.
var suffixes = map[string]string{
	".csv": formatCSV, ".tsv": formatCSV, ".jsonl": formatJSON, ".ndjson": formatJSON, ".parquet": formatParquet, ".pq": formatParquet,
}

// compressions are the suffixes of compressed files.
var compressions = []string{".gz", ".zst"}

// otherCompressions are those of files that are not read, and not written.
var otherCompressions = []string{".bz2", ".xz", ".lzma", ".lz4", ".br", ".z", ".zip", ".7z"}

// standardInput is what an input without a name is.
const standardInput = "the standard input"

// A shape is how a file is written.
type shape struct {
	format      string
	compression string // a suffix, or ""
	comma       rune
	header      bool
}

// shapeOf returns the shape of a file of a name, "" being the standard input or output.
func shapeOf(name, what, format, delimiter, header string) (s shape, err error) {
	base := strings.ToLower(filepath.Base(name))
	if at := slices.IndexFunc(compressions, func(suffix string) bool { return strings.HasSuffix(base, suffix) }); at >= 0 {
		s.compression = compressions[at]
		base = strings.TrimSuffix(base, s.compression)
	}
	suffix := filepath.Ext(base)
	switch {
	case slices.Contains(otherCompressions, suffix):
		return s, exit.Usagef("%s: files are not read or written as the suffix %s says: of what is compressed, only .gz and .zst are; an input of another kind is unpacked first", name, suffix)
	case format != "" && !slices.Contains([]string{formatCSV, formatJSON, formatParquet}, format):
		return s, exit.Usagef("--format %q: there is %s", format, formatHelp)
	case format != "":
		s.format = format
	case name == "" && what == standardInput:
		return s, exit.Usagef("name the format of %s with --format: csv or jsonl (JSON lines); Parquet is read from files only", what)
	case name == "":
		return s, exit.Usagef("name the format of %s with --format: %s", what, formatHelp)
	case suffixes[suffix] != "":
		s.format = suffixes[suffix]
	default:
		return s, exit.Usagef("the name of %s does not say its format, as .csv, .jsonl and .parquet do: name it with --format: %s", name, formatHelp)
	}
	s.comma, s.header = ',', true
	if suffix == ".tsv" {
		s.comma = '\t'
	}
	if s.format != formatCSV && (delimiter != "" || header != "") {
		return s, exit.Usagef("--delimiter and --header are about CSV, and this is %s", s.format)
	}
	if delimiter != "" {
		if s.comma, err = csvrows.ParseComma("delimiter", delimiter); err != nil {
			return s, fmt.Errorf("%w; for a tab give the word tab", err)
		}
	}
	switch header {
	case "", "yes":
	case "no":
		s.header = false
	default:
		return s, exit.Usagef("--header %q: say yes if the first row holds the names of the columns, no if it holds values", header)
	}
	if s.format == formatParquet && s.compression != "" {
		return s, exit.Usagef("%s: files in Parquet are compressed inside, and not as a whole: leave %s out of the name of an output, and unpack an input first", name, s.compression)
	}
	return s, nil
}

// Input says where rows come from, and in which format.
type Input struct {
	file, format, delimiter, header string

	stdin *bufio.Reader // the standard input, if that is read
}

// Bind binds the flags: --input, --format, --delimiter and --header.
func (o *Input) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.file, "input", "", "the `file` with the rows, or - for the standard input")
	f.StringVar(&o.format, "format", "", "the `format` of the input (default: what the suffix of its name says):\n"+formatHelp+"; .gz or .zst after the suffix says that it is compressed, which the standard input cannot be")
	f.StringVar(&o.delimiter, "delimiter", "", "`character` between the cells of CSV, or tab (default , or, in a .tsv file, tab)")
	f.StringVar(&o.header, "header", "", "whether the first row of CSV holds the names of the fields, `yes or no` (default yes)")
	offerShapes(f)
}

// offerShapes has shells complete how files are written.
func offerShapes(f *pflag.FlagSet) {
	cli.Offer(f, "format", formatCSV, formatJSON, formatParquet)
	cli.Offer(f, "delimiter", "tab")
	cli.Offer(f, "header", "yes", "no")
}

// Name returns the name of the input as it is shown.
func (o *Input) Name() string {
	if o.Stream() {
		return "standard input"
	}
	return o.file
}

// Stream reports whether the input is the standard input, which can be read once.
func (o *Input) Stream() bool { return o.file == "-" }

func (o *Input) shape() (shape, error) {
	if o.file == "" {
		return shape{}, exit.Usagef("name the file with the rows with --input, or - for the standard input")
	}
	name := o.file
	if o.Stream() {
		name = ""
	}
	s, err := shapeOf(name, standardInput, o.format, o.delimiter, o.header)
	if err == nil && s.format == formatParquet && o.Stream() {
		err = exit.Usagef("Parquet is read from its end, so that it cannot come from the standard input: save it to a file first")
	}
	return s, err
}

// Check checks the flags, and whether there is such a file.
func (o *Input) Check() error {
	if _, err := o.shape(); err != nil || o.Stream() {
		return err
	}
	info, err := os.Stat(o.file)
	if err == nil && !info.Mode().IsRegular() {
		what := "no regular file; --input - reads the standard input"
		if info.IsDir() {
			what = "a directory: name a file in it"
		}
		return fmt.Errorf("%w: %s is %s", ErrInput, o.file, what)
	}
	return o.missing(err)
}

// missing says of an error about the file whether there is none.
func (o *Input) missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--input: there is no file %s", o.file)
	}
	return err
}

// A Header says what the first row of an input is.
type Header int

// The kinds of first rows. Without --header it is taken for the names of fields. In JSON lines each row names its own.
const (
	NamesFields Header = iota
	TakenAsNames
	NoNames
	EachRowNames
)

// Header returns what the first row is, by the flags.
func (o *Input) Header() Header {
	s, err := o.shape()
	switch {
	case err == nil && s.format == formatJSON:
		return EachRowNames
	case err != nil || s.format != formatCSV || o.header == "yes":
		return NamesFields
	case o.header == "no":
		return NoNames
	}
	return TakenAsNames
}

// Said returns what a load depends on: how the bytes of the input are read.
func (o *Input) Said() string {
	s, err := o.shape()
	return fmt.Sprintf("%+v %v", s, err)
}

// Until has the standard input be read until a context ends, which it may wait longer than.
func (o *Input) Until(ctx context.Context) { o.stdin = bufio.NewReader(cli.Until(ctx, os.Stdin)) }

// Await waits for the first byte of the standard input. That none comes is an error, which is returned before anything is done.
func (o *Input) Await() error {
	_, err := o.stdin.Peek(1)
	if err == io.EOF {
		return o.about(errNothing)
	}
	return err
}

// Open opens the input. Names are those that a row of JSON lines may have. Fields that are ignored may be there twice, and
// may hold lists and groups: nobody reads their cells. Each byte that is read goes to tap, too, unless it is nil: of
// Parquet those of the whole file at once.
func (o *Input) Open(names, ignored []string, tap io.Writer) (Reader, error) {
	s, err := o.shape()
	if err != nil {
		return nil, err
	}
	file := os.Stdin
	if !o.Stream() {
		if file, err = os.Open(o.file); err != nil {
			return nil, o.missing(err)
		}
	}
	began, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var in io.Reader = file
	if o.Stream() {
		in = o.stdin
	}
	r, err := s.open(file, in, o.Stream(), names, ignored, tap)
	if err != nil {
		if !o.Stream() {
			_ = file.Close()
		}
		return nil, o.about(err)
	}
	return &inputReader{Reader: r, of: o, file: file, began: began}, nil
}

// about says in an error which input it is about.
func (o *Input) about(err error) error {
	var unread *fs.PathError
	if errors.Is(err, exit.ErrUsage) || errors.Is(err, context.Canceled) || errors.As(err, &unread) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrInput, o.Name(), err)
}

// An inputReader closes its file, and names it in errors.
type inputReader struct {
	Reader
	of    *Input
	file  *os.File
	began fs.FileInfo
}

func (r *inputReader) Next() (*Row, error) {
	row, err := r.Reader.Next()
	var bad *RowError
	if err == io.EOF && !r.of.Stream() {
		if now, unread := r.file.Stat(); unread != nil || now.Size() != r.began.Size() || !now.ModTime().Equal(r.began.ModTime()) {
			return nil, ErrChanged // also where bytes are read twice, as those of Parquet
		}
	}
	if err != nil && err != io.EOF && !errors.As(err, &bad) {
		err = r.of.about(err)
	}
	return row, err
}

func (r *inputReader) Close() error {
	err := r.Reader.Close()
	if !r.of.Stream() {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

func (s shape) open(file *os.File, in io.Reader, stream bool, names, ignored []string, tap io.Writer) (Reader, error) {
	if s.format == formatParquet {
		return openParquet(file, ignored, tap)
	}
	if tap != nil {
		in = io.TeeReader(in, tap)
	}
	buffered := bufio.NewReaderSize(in, 1<<16)
	head, err := buffered.Peek(16)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if err := s.checkHead(head, stream); err != nil {
		return nil, err
	}
	text, end, err := s.decompressed(buffered)
	if err != nil {
		return nil, err
	}
	if s.format == formatJSON {
		return newJSONReader(text, names, ignored, end)
	}
	return newCSVReader(text, s, names, ignored, end)
}

// unpackers are the programs that write what is in a compressed file to the standard output.
var unpackers = map[string]string{".gz": "zcat", ".zst": "zstdcat"}

// checkHead refuses what begins like a file of another format than the name says. A stream has no name.
func (s shape) checkHead(head []byte, stream bool) error {
	starts := func(mark string) bool { return bytes.HasPrefix(head, []byte(mark)) }
	begins := map[string]string{".gz": "\x1f\x8b", ".zst": "\x28\xb5\x2f\xfd"}
	for _, suffix := range compressions {
		switch is := starts(begins[suffix]); {
		case is && stream:
			return fmt.Errorf("it is compressed, which only files may be: decompress it before, as in '%s FILE | rangecrypt ...'", unpackers[suffix])
		case is && s.compression != suffix:
			return fmt.Errorf("it is compressed, which its name does not say: give it the suffix %s", suffix)
		case !is && s.compression == suffix && len(head) > 0:
			return fmt.Errorf("it is not compressed as its suffix %s says: give it a name without that", suffix)
		}
	}
	switch {
	case len(head) == 0 && stream:
		return errNothing
	case len(head) == 0:
		return errEmpty
	case csvrows.IsParquet(head) && stream:
		return errors.New("it is in Parquet, which is read from its end: save it to a file first")
	case csvrows.IsParquet(head):
		return errors.New("it is in Parquet: say so with --format parquet")
	case starts("PK\x03\x04"):
		return errors.New("it is a ZIP archive, or a spreadsheet's own file: unpack it, or save it as CSV, first")
	case csvrows.IsBzip2(head), starts("\xfd7zXZ\x00"):
		return errors.New("it is compressed in a way that is not read: gzip and zstd are, as .gz and .zst")
	}
	return nil
}

// decompressed returns the text of a file, and what ends its decompression.
func (s shape) decompressed(in *bufio.Reader) (text io.Reader, end func(), err error) {
	switch s.compression {
	case ".gz":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, cutShort(err)
		}
		return shortReader{&members{in, z}}, func() { _ = z.Close() }, nil
	case ".zst":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<27))
		if err != nil {
			return nil, nil, cutShort(err)
		}
		return shortReader{z}, z.Close, nil
	}
	return in, func() {}, nil
}

// errAfter is the error of a compressed file with something else at its end.
var errAfter = errors.New("there is something after the compressed rows: the file is damaged, or was appended to; copy it again, or cut that off")

// members reads the members of a file of gzip, which are texts one after the other.
type members struct {
	in *bufio.Reader
	z  *gzip.Reader
}

func (m *members) Read(p []byte) (int, error) {
	m.z.Multistream(false)
	n, err := m.z.Read(p)
	if err != io.EOF {
		return n, err
	}
	head, err := m.in.Peek(2)
	switch {
	case err == io.EOF && len(head) == 0:
		return n, io.EOF
	case err != nil && err != io.EOF:
		return n, err
	case string(head) != "\x1f\x8b":
		return n, errAfter
	}
	return n, m.z.Reset(m.in)
}

// A shortReader says of a compressed file that it is cut short or damaged.
type shortReader struct{ io.Reader }

func (r shortReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = cutShort(err)
	}
	return n, err
}

func cutShort(err error) error {
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return err
	case errors.Is(err, errAfter), errors.Is(err, zstd.ErrMagicMismatch): // of the first frame it was checked
		return errAfter
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the compressed file ends too early: it was cut short, so copy it again")
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return errors.New("the compressed file needs more than 128 MiB of memory: compress it again, without --long or --ultra")
	}
	return fmt.Errorf("the compressed file is damaged: %w", err)
}
