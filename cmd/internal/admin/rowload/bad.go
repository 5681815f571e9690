package rowload

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// shownBad is how many bad rows an error names.
const shownBad = 5

// Bad counts rows that cannot be put, keeps what is wrong with the first of them, and writes all of them to a file.
type Bad struct {
	Rows  int
	first []string
	file  *os.File
	w     *bufio.Writer
}

// ToFile has bad rows written to a file that only its owner can read: each as a line of JSON with its number, what is
// wrong with it, and the row as it came. A file that exists is an error, whatever it is: it may be the key, or the input.
func (b *Bad) ToFile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--bad-file: %s exists: name another file, or remove it first", name)
	}
	if err != nil {
		return err
	}
	b.file, b.w = f, bufio.NewWriter(f)
	return nil
}

// badLine is a bad row in the file.
type badLine struct {
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
	line := badLine{Row: row.Number, Line: row.Line, Reason: why.Error()}
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
		return fmt.Errorf("--bad-file: %w", err)
	}
	return nil
}

// Close ends the file. One without a row is removed again.
func (b *Bad) Close() error {
	if b.file == nil {
		return nil
	}
	err := errors.Join(b.w.Flush(), b.file.Close())
	if b.Rows == 0 {
		err = errors.Join(err, os.Remove(b.file.Name()))
	}
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
	verb := "are"
	if b.Rows == 1 {
		verb = "is"
	}
	of := ""
	if rows > 0 {
		of = fmt.Sprintf(" of %d %s", rows, show.Plural(rows, "row"))
	} else {
		of = " " + show.Plural(b.Rows, "row")
	}
	text := fmt.Sprintf("%d%s %s bad", b.Rows, of, verb)
	advice := "; --skip-bad leaves such rows out where they are few, --max-bad says how many"
	if skip {
		text += fmt.Sprintf(", and at most %d may be", allowed)
		advice = "; --max-bad allows more"
	}
	return fmt.Errorf("%w: %s: %s%s", tabular.ErrInput, text, b, advice)
}
