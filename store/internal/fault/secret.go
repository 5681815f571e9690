package fault

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// NotShown stands for a message that has a part of a key.
const NotShown = "(its message is not shown, since it has a part of the key)"

// Untold returns an error without its text, if that shows a part of a secret. It is of the same kinds as the error.
func Untold(err error, secret []byte) error {
	if err == nil || !ShowsPart(err.Error(), secret) {
		return err
	}
	return untold{err}
}

// An untold has no Unwrap, since what it has in it shows the secret.
type untold struct{ err error }

func (u untold) Error() string        { return NotShown }
func (u untold) Is(target error) bool { return errors.Is(u.err, target) }

// Telling is how many characters in a row a text and a secret have in common only if the text has a
// part of the secret: of hexadecimal digits they are 32 bits.
const Telling = 8

// ShowsPart reports whether a text has a part of a secret: as it is, in hexadecimal, in base64, or as a list of
// numbers, whatever a tool puts between the digits.
func ShowsPart(text string, secret []byte) bool {
	if sharesPart(text, string(secret)) || sharesPart(Digits(text), hex.EncodeToString(secret)) {
		return true
	}
	if sharesPart(strings.ReplaceAll(text, ",", ""), strings.Trim(fmt.Sprint(secret), "[]")) {
		return true
	}
	for skip := range min(3, len(secret)) { // where base64 begins earlier than the secret
		std := base64.RawStdEncoding.EncodeToString(secret[skip:])
		url := base64.RawURLEncoding.EncodeToString(secret[skip:])
		if sharesPart(Only(text, "+/"), std) || sharesPart(Only(text, "-_"), url) {
			return true
		}
	}
	return false
}

// Only returns the letters and digits of a text, and the characters that are kept.
func Only(text, kept string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune(kept, r) {
			return r
		}
		return -1
	}, text)
}

// Digits returns a text in small letters without what a tool puts between hexadecimal digits.
func Digits(text string) string {
	return Only(strings.NewReplacer("0x", "", `\x`, "").Replace(strings.ToLower(text)), "")
}

func sharesPart(text, form string) bool {
	for i := 0; i+Telling <= len(form); i++ {
		if strings.Contains(text, form[i:i+Telling]) {
			return true
		}
	}
	return false
}

// ShowsKey reports whether what a key was wrapped to has a part of the key, as it is or encoded.
func ShowsKey(wrapped, key []byte) bool {
	return ShowsPart(string(wrapped), key) ||
		ShowsPart(base64.StdEncoding.EncodeToString(wrapped), key) // hexadecimal digits are base64, too
}
