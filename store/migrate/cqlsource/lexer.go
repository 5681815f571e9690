package cqlsource

import (
	"errors"
	"regexp"
	"strings"
)

// A tokenKind is what a token of CQL is.
type tokenKind int

const (
	tokenEnd    tokenKind = iota
	tokenWord             // a keyword, or a name without quotes
	tokenQuoted           // a name in quotes; the text is without
	tokenString           // likewise
	tokenNumber
	tokenHex
	tokenUUID
	tokenMark   // ? or :name, with the text "" or the name
	tokenSymbol // one character
)

// A token is a part of a statement.
type token struct {
	kind tokenKind
	text string
	mark int // of a marker: which one it is, from 0
}

// is reports whether a token is a keyword or a symbol.
func (t token) is(text string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, text) || t.kind == tokenSymbol && t.text == text
}

// name returns the name that a token is, as the database has it.
func (t token) name() (string, bool) {
	switch t.kind {
	case tokenWord:
		return strings.ToLower(t.text), true
	case tokenQuoted:
		return t.text, true
	}
	return "", false
}

// Patterns in the order in which they are tried: of those that fit, the server takes the longest.
var patterns = []struct {
	kind tokenKind
	of   *regexp.Regexp
}{
	{tokenUUID, regexp.MustCompile(`^(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)},
	{tokenHex, regexp.MustCompile(`^0[xX][0-9a-fA-F]*`)},
	{tokenNumber, regexp.MustCompile(`^-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?`)},
	{tokenWord, regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*`)},
}

var errText = errors.New("a string, a name in quotes or a comment in it does not end")

// tokens returns what a statement consists of, without blanks and comments, and with an end.
func tokens(stmt string) (all []token, err error) {
	marks, braces := 0, 0
	for at := 0; at < len(stmt); {
		rest := stmt[at:]
		switch c := rest[0]; {
		case c == ' ', c == '\t', c == '\n', c == '\r':
			at++
			continue
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "//"):
			if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
				at += end + 1
				continue
			}
			return nil, errText // for the server a comment has a line's end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return nil, errText
			}
			at += 2 + end + 2
			continue
		case c == '?':
			all, at = append(all, token{kind: tokenMark, mark: marks}), at+1
			marks++
			continue
		}
		t, n := next(rest)
		if n == 0 {
			return nil, errText
		}
		switch {
		case t.is("{"):
			braces++
		case t.is("}"):
			braces--
		}
		// Within the braces of a map a colon follows a key.
		if last := len(all) - 1; last >= 0 && all[last].is(":") && (t.kind == tokenWord || t.kind == tokenQuoted) && braces <= 0 {
			t.kind, t.mark, all = tokenMark, marks, all[:last]
			marks++
		}
		all, at = append(all, t), at+n
	}
	return append(all, token{}), nil
}

// next returns the token that a text begins with, and how long it is; 0 if it does not end.
func next(text string) (token, int) {
	if text[0] == '\'' || text[0] == '"' || strings.HasPrefix(text, "$$") {
		return delimited(text)
	}
	best, kind := text[:1], tokenSymbol
	for _, p := range patterns {
		if found := p.of.FindString(text); len(found) > len(best) || found != "" && kind == tokenSymbol {
			best, kind = found, p.kind
		}
	}
	return token{kind: kind, text: best}, len(best)
}

// delimited returns the string or name that a text begins with, and how long it is; 0 if it does not end.
func delimited(text string) (token, int) {
	if strings.HasPrefix(text, "$$") {
		end := strings.Index(text[2:], "$$")
		if end < 0 {
			return token{}, 0
		}
		return token{kind: tokenString, text: text[2 : 2+end]}, end + 4
	}
	quote, kind := text[:1], tokenString
	if quote == `"` {
		kind = tokenQuoted
	}
	for end := 1; ; {
		i := strings.Index(text[end:], quote)
		if i < 0 {
			return token{}, 0
		}
		end += i + 1
		if !strings.HasPrefix(text[end:], quote) {
			return token{kind: kind, text: strings.ReplaceAll(text[1:end-1], quote+quote, quote)}, end
		}
		end++
	}
}
