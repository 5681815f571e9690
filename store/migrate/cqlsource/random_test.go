package cqlsource

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A writer of statements writes each in one of the many ways that CQL allows.
type scribbler struct {
	*rand.Rand
	keyspace string
	values   []any
}

func (s *scribbler) one(of ...string) string { return of[s.IntN(len(of))] }

// gap returns what may stand between two tokens.
func (s *scribbler) gap() string {
	return s.one(" ", " ", "\t", "\n ", " /* orders WHERE a = ? */ ", " -- FROM others '\n", " // \"\r")
}

// say joins tokens.
func (s *scribbler) say(tokens ...string) string {
	text := ""
	for _, t := range tokens {
		text += t + s.gap()
	}
	return text
}

func (s *scribbler) keyword(word string) string { return s.one(word, strings.ToLower(word)) }

// text returns a literal that looks like something else.
func (s *scribbler) text() string {
	n := fmt.Sprint(s.IntN(1000))
	return s.one("'"+n+" it''s -- /* ? '", "'WHERE a = "+n+"'", "$$"+n+" ' ? \" $$", "'"+n+";'")
}

// value returns a literal or a marker for a value; the literal is that text.
func (s *scribbler) value(literal string, bound any) string {
	if s.IntN(2) == 0 {
		return literal
	}
	s.values = append(s.values, bound)
	return "?"
}

// part returns a column of the key, and a value for it.
func (s *scribbler) part(i int) (name string, value func() string) {
	n := 1 + s.IntN(2)
	switch i {
	case 0:
		return s.one("a", "A", `"a"`), func() string {
			return s.value(s.one("'x"+fmt.Sprint(n)+"'", "$$x"+fmt.Sprint(n)+"$$"), "x"+fmt.Sprint(n))
		}
	case 1:
		return s.one("b", `"b"`, "B"), func() string { return s.value(fmt.Sprint(-n), -n) }
	}
	return `"C"`, func() string { return s.value(s.one("0x0"+strconv.Itoa(n), "0X0"+strconv.Itoa(n)), []byte{byte(n)}) }
}

func (s *scribbler) table() []string {
	name := s.one("orders", "ORDERS", `"orders"`)
	if s.IntN(2) == 0 {
		return []string{name}
	}
	return []string{s.one(s.keyspace, `"`+s.keyspace+`"`), ".", name}
}

// where returns conditions on the parts of the key; some statements lack one, or have another kind.
func (s *scribbler) where() []string {
	words := []string{s.keyword("WHERE")}
	parts := s.Perm(3)
	if s.IntN(8) == 0 {
		parts = parts[:2]
	}
	for i, part := range parts {
		if i > 0 {
			words = append(words, s.keyword("AND"))
		}
		name, value := s.part(part)
		switch s.IntN(8) {
		case 0:
			_, other := s.part(part)
			words = append(words, name, s.keyword("IN"), "(", value(), ",", other(), ")")
		case 1:
			words = append(words, name, s.one(">", ">=", "<"), value())
		case 2:
			words = append(words, "(", name, ")", "=", "(", value(), ")")
		default:
			words = append(words, name, "=", value())
		}
	}
	if s.IntN(10) == 0 {
		words = append(words, s.keyword("IF"), s.keyword("EXISTS"))
	}
	return words
}

func (s *scribbler) statement() string {
	s.values = nil
	var words []string
	switch s.IntN(3) {
	case 0:
		words = append([]string{s.keyword("INSERT"), s.keyword("INTO")}, s.table()...)
		var names, values []string
		for _, i := range s.Perm(4) {
			name, value := "note", func() string { return s.value(s.text(), s.text()) }
			if i < 3 {
				name, value = s.part(i)
			}
			names, values = append(names, name, ","), append(values, value(), ",")
		}
		words = append(append(append(words, "("), names[:7]...), ")", s.keyword("VALUES"), "(")
		words = append(append(words, values[:7]...), ")")
		words = append(words, s.one("", "", "USING TTL 1000", "IF NOT EXISTS"))
	case 1:
		words = append([]string{s.keyword("UPDATE")}, s.table()...)
		words = append(words, s.one("", "USING TTL 500"), s.keyword("SET"), "note", "=", s.value(s.text(), s.text()))
		words = append(words, s.where()...)
	case 2:
		words = []string{s.keyword("DELETE"), s.one("", "note", `"FROM"`, `note, "FROM"`), s.keyword("FROM")}
		words = append(append(words, s.table()...), s.where()...)
	}
	return strings.TrimLeft(s.say(words...), " \t\r\n") + s.one("", ";", " ; ;")
}

// In whichever way a statement is written: what it changes on the server is among the rows that it was found to name, or it is refused.
func TestStatementsWrittenInManyWays(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	source, session := source(t, `CREATE TABLE orders (a text, b int, "C" blob, note text, "FROM" text, PRIMARY KEY ((a, b), "C"))`, "orders")
	book := new(notebook)
	s := NewSession(source, book)
	rows := func() map[string]string {
		all := make(map[string]string)
		for f, err := range source.Scan(t.Context(), inspect.Part{Of: 1}) {
			require.NoError(t, err)
			all[fmt.Sprint(f.Row["a"], f.Row["b"], f.Row["C"])] = fmt.Sprint(f.Row, f.Written)
		}
		return all
	}
	w := &scribbler{Rand: rand.New(rand.NewPCG(seed, 0)), keyspace: source.keyspace}
	made, refused, failed := 0, 0, 0
	for range sim.LongShare(1000, 250, 150) {
		for _, a := range []string{"x1", "x2"} {
			do(t, session, `UPDATE orders SET "FROM" = 'x' WHERE a = ? AND b IN (-1, -2) AND "C" IN (0x01, 0x02)`, a)
		}
		stmt := w.statement()
		before := rows()
		book.keys = nil
		err := s.Exec(t.Context(), stmt, w.values...)
		after := rows()
		named := make(map[string]bool)
		for _, key := range book.keys {
			named[fmt.Sprint(key["a"], key["b"], key["C"])] = true
		}
		for key := range before {
			require.True(t, before[key] == after[key] || named[key], "%s\n%v\nchanges %s", stmt, w.values, key)
		}
		for key := range after {
			require.True(t, before[key] == after[key] || named[key], "%s\n%v\nmakes %s", stmt, w.values, key)
		}
		switch {
		case errors.Is(err, ErrRefused):
			refused++
			require.Empty(t, named)
		case err != nil:
			failed++
		default:
			made++
			require.NotEmpty(t, named, stmt)
		}
	}
	t.Logf("%d are made, %d refused, %d fail", made, refused, failed)
	require.Greater(t, made, 20)
	require.Greater(t, refused, 20)
	require.Less(t, failed, 20, "the server reads most of them")
}
