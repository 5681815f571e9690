package rowload

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// shownBad is how many bad rows an error names.
const shownBad = 5

// Bad counts rows that cannot be put, keeps what is wrong with the first of them, and writes all of them to a file.
type Bad struct {
	Rows  int
	first []string
	load  string // whose rows they are; "" where none are put
	file  *outfile.File
	w     *bufio.Writer

	failed bool // an error about the file was returned
}

// ToFile has bad rows written to a file that only its owner can read: each as a line of JSON with its number, what is
// wrong with it, and the row as it came. A file that exists is an error, as it may be the key, or the input. A load that
// goes on replaces the one that it left itself, since it meets every bad row again.
func (b *Bad) ToFile(name, load string, goesOn bool) error {
	replace := goesOn && leftBy(name, load)
	f, err := outfile.Create(name, replace)
	switch {
	case errors.Is(err, outfile.ErrExists) && goesOn:
		return fmt.Errorf("--bad-file: %w, and this load did not make it: name the file that it made, or a new one", err)
	case errors.Is(err, outfile.ErrExists):
		return fmt.Errorf("--bad-file: %w: name another file", err)
	case err != nil:
		return fmt.Errorf("--bad-file: %w", err)
	}
	b.load, b.file, b.w = load, f, bufio.NewWriter(f)
	return nil
}

// leftBy reports whether a file is empty, or begins with a bad row of a load.
func leftBy(name, load string) bool {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var first badLine
	err = json.NewDecoder(io.LimitReader(f, 4*tabular.MaxRow)).Decode(&first)
	return err == io.EOF || err == nil && first.Row > 0 && first.Load == load
}

// badLine is a bad row in the file.
type badLine struct {
	Load   string `json:"load,omitempty"` // the beginning of its name
	Row    int    `json:"row"`
	Line   int    `json:"line,omitempty"`
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Base64 string `json:"base64,omitempty"` // in place of a text that is not UTF-8
}

// Add counts a row.
func (b *Bad) Add(row *tabular.Row, why error) error {
	if b.Rows++; b.Rows <= shownBad {
		b.first = append(b.first, row.Where()+": "+why.Error())
	}
	if b.w == nil {
		return nil
	}
	line := badLine{Load: b.load, Row: row.Number, Line: row.Line, Reason: why.Error()}
	if came := row.Came(); utf8.Valid(came) {
		line.Text = string(came)
	} else {
		line.Base64 = base64.StdEncoding.EncodeToString(came)
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = b.w.Write(append(text, '\n'))
	}
	if err != nil {
		b.failed = true
		return fmt.Errorf("--bad-file: %w", err)
	}
	return nil
}

// Close ends the file, and gives it its name. One without a row is left out, and so is one that is not kept. An error that
// Add has returned is not returned again.
func (b *Bad) Close(keep bool) error {
	if b.file == nil {
		return nil
	}
	var err error
	if !b.failed {
		err = b.w.Flush()
	}
	if err == nil && !b.failed && keep && b.Rows > 0 {
		err = b.file.Commit()
	}
	err = errors.Join(err, b.file.Discard())
	b.file, b.w = nil, nil
	if err != nil {
		return fmt.Errorf("--bad-file: %w", err)
	}
	return nil
}

// String names the first of the rows.
func (b *Bad) String() string {
	names := b.first
	if more := b.Rows - len(b.first); more > 0 {
		names = append(names[:len(names):len(names)], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, "; ")
}

// tooMany returns the error of more bad rows than may be. Skip says that some may.
func (b *Bad) tooMany(rows, allowed int, skip bool) error {
	of := ""
	if rows > 0 {
		of = fmt.Sprintf(" of %d %s", rows, show.Plural(rows, "row"))
	} else {
		of = " " + show.Plural(b.Rows, "row")
	}
	text := fmt.Sprintf("%d%s %s bad", b.Rows, of, show.Verb(b.Rows, "is", "are"))
	advice := "; --skip-bad leaves such rows out where they are few, --max-bad says how many"
	if skip {
		text += fmt.Sprintf(", and at most %d may be", allowed)
		advice = "; --max-bad allows more"
	}
	return fmt.Errorf("%w: %s: %s%s", tabular.ErrInput, text, b, advice)
}
