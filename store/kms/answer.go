package kms

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// What a program writes is not trusted: it may be endless, or have the key in a place that is shown.

const (
	mostAnswer = (mostByProgram+2)/3*4 + len("\r\n")
	mostRemark = 4096 // bytes of standard error that are looked at
	mostShown  = 200  // characters of it that an error has
)

// A capture keeps the beginning of what is written to it.
type capture struct {
	most int
	kept []byte
	over bool
	full func() // is called when more is written; may be nil
}

func (c *capture) Write(text []byte) (int, error) {
	n := min(len(text), c.most-len(c.kept))
	c.kept = append(c.kept, text[:n]...)
	if n < len(text) && !c.over {
		c.over = true
		if c.full != nil {
			c.full()
		}
	}
	return len(text), nil
}

// parseAnswer returns the bytes that a program's output stands for. The errors show nothing of it.
func parseAnswer(text []byte) ([]byte, error) {
	line := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(line) == 0:
		return nil, errors.New("it answers with nothing, and exit code 0")
	case bytes.ContainsAny(line, "\r\n"): // which the decoder would pass over
		return nil, errors.New("it answers with more than one line; 'base64 -w 0' writes one")
	}
	answer, err := base64.StdEncoding.Strict().AppendDecode(nil, line)
	if err != nil { // that error says where, which is of no use without the text
		return nil, errors.New("its answer is no line of base64 (RFC 4648, section 4, with padding) and nothing else")
	}
	return answer, nil
}

// remark returns what is shown of a program's standard error: ": " and its first line that is not
// blank, or nothing. Of a line with a part of a secret nothing is shown.
func remark(stderr []byte, secrets ...[]byte) string {
	text := firstLine(stderr)
	for _, secret := range secrets {
		if fault.ShowsPart(text, secret) {
			return " " + fault.NotShown
		}
	}
	if text = printable(strings.TrimSpace(text)); text == "" {
		return ""
	}
	if shown := []rune(text); len(shown) > mostShown {
		text = string(shown[:mostShown]) + "..."
	}
	return ": " + text
}

func firstLine(stderr []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(stderr)), "\n")
	return line
}

// printable returns a text with a question mark for each character that a terminal might obey. They are
// replaced, not left out, so that nothing comes together that was apart.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

var (
	hexRuns = regexp.MustCompile(`[0-9a-f]{64,}`)
	numbers = regexp.MustCompile(`0x[0-9a-f]+|[1-9][0-9]*|0`)
)

// keysIn returns the keys that a text has as a whole in one of the forms of [fault.ShowsPart]. Its caller does not have the key, and
// knows it when he sees it.
func keysIn(text string, isKey func([]byte) bool) (keys [][]byte) {
	may := [][]byte{[]byte(text), nil}
	for _, number := range numbers.FindAllString(strings.ToLower(text), -1) {
		if n, err := strconv.ParseUint(number, 0, 8); err == nil {
			may[1] = append(may[1], byte(n))
		}
	}
	for _, run := range hexRuns.FindAllString(fault.Digits(text), -1) {
		for skip := range 2 {
			b, _ := hex.DecodeString(run[skip : skip+(len(run)-skip)/2*2])
			may = append(may, b)
		}
	}
	for skip := range 4 {
		for kept, encoding := range map[string]*base64.Encoding{"+/": base64.RawStdEncoding, "-_": base64.RawURLEncoding} {
			if line := fault.Only(text, kept) + "AAA"; len(line) > skip { // the last byte of a key may have bits in a character of its own
				b, _ := encoding.DecodeString(line[skip : skip+(len(line)-skip)/4*4])
				may = append(may, b)
			}
		}
	}
	for _, b := range may {
		for i := 0; i+ope.KeySize <= len(b); i++ {
			if isKey(b[i : i+ope.KeySize]) {
				keys = append(keys, b[i:i+ope.KeySize])
			}
		}
	}
	return keys
}

// secretsIn returns what may be secrets in the output of a program that failed: its long words, and what they
// stand for.
func secretsIn(stdout []byte) (secrets [][]byte) {
	for _, word := range bytes.Fields(stdout) {
		if len(word) < 2*fault.Telling {
			continue
		}
		secrets = append(secrets, word)
		if b, err := base64.StdEncoding.DecodeString(string(word)); err == nil {
			secrets = append(secrets, b)
		}
		if b, err := hex.DecodeString(string(word)); err == nil {
			secrets = append(secrets, b)
		}
	}
	return secrets
}
