package cqlsource

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
)

// of is the table that the statements below are of, or not.
var of = &target{keyspace: "shop", table: "orders", session: "shop", key: []string{"customer", "number", "Kind"}}

const (
	passes = "passes"
	all    = "customer=?0 number=?1 Kind=?2" // markers in this order
)

// statements are what programs send: with what they say of the key, or passes, or why they are refused.
var statements = []struct{ text, want string }{
	{`INSERT INTO orders (customer, number, "Kind", note) VALUES (?, ?, ?, ?)`, all},
	{`insert into shop.orders (note, customer, number, "Kind") values (?, ?, ?, ?)`, "customer=?1 number=?2 Kind=?3"},
	{`INSERT INTO "shop"."orders" (customer, NUMBER, "Kind") VALUES ('it''s', -5, 0xCAFE);`, "customer='it's' number=-5 Kind=0xCAFE"},
	{"INSERT INTO orders (customer, number, \"Kind\", m) VALUES ($$a b$$, 1.5e3, 550e8400-e29b-41d4-a716-446655440000, {'a': ?, 'b': [1, (?)]})", "customer='a b' number=1.5e3 Kind=550e8400-e29b-41d4-a716-446655440000"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (:c, : n, :"K")`, all},
	{`INSERT INTO orders (customer, number, "Kind", n) VALUES (?, ?, ?, now()) USING TTL ? AND TIMESTAMP 12`, all},
	{`INSERT/* a */INTO -- b` + "\r" + ` orders // c` + "\n" + `(customer, number, "Kind") VALUES (?, true, ?)`, "customer=?0 number=true Kind=?1"},
	{`UPDATE orders SET note = ?, n = n + 1 WHERE customer = ? AND number = ? AND "Kind" = ?`, "customer=?1 number=?2 Kind=?3"},
	{`UPDATE orders USING TTL ? SET note = 'WHERE customer' WHERE "Kind" = ? AND number = 3 AND customer = ?;`, "customer=?2 number=3 Kind=?1"},
	{`UPDATE shop.orders SET note = ? WHERE customer IN (?, 'b') AND number IN ? AND "Kind" = ?`, "customer=?1,'b' number=[?2] Kind=?3"},
	{`DELETE FROM orders WHERE customer = ? AND number = ? AND "Kind" = ?`, all},
	{`DELETE note, "FROM" FROM orders USING TIMESTAMP ? WHERE customer = ? AND number = ? AND "Kind" = ?`, "customer=?1 number=?2 Kind=?3"},
	{`DELETE FROM orders WHERE customer = :c AND number IN (1,2,-3) AND "Kind" = :k`, "customer=?0 number=1,2,-3 Kind=?1"},

	{`INSERT INTO others (a) VALUES (?)`, passes},
	{`INSERT INTO other.orders (a) VALUES (?)`, passes},
	{`INSERT INTO "Orders" (a) VALUES (?)`, passes},
	{`INSERT INTO "orders " (a) VALUES (?)`, passes},
	{`UPDATE others SET a = 'orders' WHERE b = ? IF c = 3`, passes},
	{`DELETE FROM others WHERE a > 3`, passes},
	{`SELECT * FROM orders`, passes},
	{`TRUNCATE others`, passes},
	{`CREATE TABLE others (a int PRIMARY KEY)`, passes},
	{`CREATE KEYSPACE shop WITH replication = {}`, passes},
	{`BEGIN BATCH INSERT INTO others (a) VALUES ('orders') APPLY BATCH`, passes},
	{`CREATE INDEX ON others ("orders ")`, passes},
	{``, passes},
	{`nonsense`, passes},
	{`INSERT others`, passes},

	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, ?, ?) IF NOT EXISTS`, "lightweight transaction"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, ?, ?) USING TTL 3 IF NOT EXISTS`, "goes on|lightweight transaction"},
	{`INSERT INTO orders JSON ?`, "INSERT JSON has the key within a text: name the columns"},
	{`INSERT INTO orders (customer, number) VALUES (?, ?)`, "does not name the part Kind of the primary key"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, ?)`, "other numbers of columns and values"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, uuid(), ?)`, "number, which is in the primary key, is a function"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, (int)?, ?)`, "is a function or a calculation"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, 1 -1, ?)`, "is a function or a calculation"},
	{`INSERT INTO orders (customer, customer, number, "Kind") VALUES (?, ?, ?, ?)`, "names the part customer of the primary key twice"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (:a, :a, :b)`, "has the marker :a twice"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES (?, ?, ?`, "other numbers of columns and values"},
	{`INSERT INTO orders`, "has no columns and VALUES"},
	{`INSERT orders`, "has no INTO"},
	{`UPDATE orders SET note = ? WHERE customer = ? AND number = ? AND "Kind" = ? IF EXISTS`, "lightweight transaction"},
	{`UPDATE orders SET note = ? WHERE customer = ? AND number = ? AND "Kind" = ? IF note = 'x'`, "lightweight transaction"},
	{`UPDATE orders SET note = ? WHERE customer = ?`, "does not name the part number"},
	{`UPDATE orders SET note = ? WHERE customer = ? AND number = ? AND kind = ?`, "not about a single part of the primary key"},
	{`UPDATE orders SET note = ?`, "has no WHERE"},
	{`UPDATE orders SET note = ? WHERE token(customer) = ?`, "not about a single part"},
	{`UPDATE orders SET note = ? WHERE (customer) = (?) AND number = ? AND "Kind" = ?`, "not about a single part"},
	{`UPDATE orders SET note = ? WHERE customer = ? AND (number, "Kind") = (?, ?)`, "not about a single part"},
	{`UPDATE orders SET note = ? WHERE customer = now() AND number = ? AND "Kind" = ?`, "is a function"},
	{`UPDATE orders SET note = ? WHERE customer = ? AND customer = ? AND number = ? AND "Kind" = ?`, "twice"},
	{`UPDATE orders SET note = ? WHERE customer IN (?, uuid()) AND number = ? AND "Kind" = ?`, "is a function"},
	{`DELETE FROM orders WHERE customer = ? AND number > ?`, "neither = nor IN"},
	{`DELETE FROM orders WHERE customer = ? AND number = ?`, "does not name the part Kind"},
	{`DELETE FROM orders WHERE customer = ? AND number = ? AND "Kind" = ? OR 1`, "is a function or a calculation"},
	{`DELETE FROM orders WHERE customer = ? AND number = ? AND "Kind" = ?; DROP TABLE orders`, "goes on where its end is expected"},
	{`DELETE FROM orders`, "has no WHERE"},
	{`TRUNCATE orders`, "TRUNCATE removes rows without naming them: delete them one by one, or abort the migration first, and make it with the session of gocql itself"},
	{`TRUNCATE TABLE shop.orders`, "TRUNCATE removes rows"},
	{`ALTER TABLE orders ADD x int`, "finish or abort the migration first, and make it with the session of gocql itself"},
	{`DROP TABLE IF EXISTS "orders"`, "finish or abort"},
	{`DROP KEYSPACE shop`, "finish or abort"},
	{`USE other`, "write the keyspace before the name of the table"},
	{`CREATE INDEX ON orders (note)`, "make it with the session of gocql itself"},
	{`BEGIN BATCH INSERT INTO orders (customer, number, "Kind") VALUES (?, ?, ?) APPLY BATCH`, "give it to ExecBatch"},
	{`INSERT INTO orders (customer, number, "Kind") VALUES ('a, ?, ?)`, "does not end"},
	{`DELETE FROM others WHERE a = 'x`, "does not end"},
	{`INSERT INTO others (a) VALUES (1) -- no end`, "does not end"},
	{`/* INSERT`, "does not end"},
}

// text returns what a naming says.
func (n *naming) text(key []string) string {
	var parts []string
	for _, part := range key {
		var values []string
		for _, t := range n.parts[part] {
			switch v := t.text; {
			case n.lists[part]:
				values = append(values, fmt.Sprintf("[?%d]", t.mark))
			case t.kind == tokenMark:
				values = append(values, fmt.Sprintf("?%d", t.mark))
			case t.kind == tokenString:
				values = append(values, "'"+v+"'")
			default:
				values = append(values, v)
			}
		}
		parts = append(parts, part+"="+strings.Join(values, ","))
	}
	return strings.Join(parts, " ")
}

func TestStatements(t *testing.T) {
	require.GreaterOrEqual(t, len(statements), 60)
	for _, s := range statements {
		n, err := of.naming(s.text)
		switch {
		case s.want == passes:
			require.NoError(t, err, s.text)
			require.Nil(t, n, s.text)
		case strings.HasPrefix(s.want, "customer="):
			require.NoError(t, err, s.text)
			require.Equal(t, s.want, n.text(of.key), s.text)
		default:
			require.ErrorIs(t, err, ErrRefused, s.text)
			require.Regexp(t, s.want, err.Error(), s.text)
			require.Contains(t, err.Error(), ": ", "it says what to do")
			require.Nil(t, n)
		}
	}
}

// What stands between quotes, and comments.
var besides = regexp.MustCompile(`(?s)'(?:[^']|'')*'|\$\$.*?\$\$|--[^\r\n]*[\r\n]|//[^\r\n]*[\r\n]|/\*.*?\*/`)

// Whatever is written, a statement that may change the table names whole keys, or is refused.
func FuzzStatements(f *testing.F) {
	for _, s := range statements {
		f.Add(s.text)
	}
	// Read in another way: what is of the table for whoever looks at its words only.
	const name = `(shop\s*\.\s*)?orders(\s*$|\s*[^\s.\w]|\s+\w)`
	change := regexp.MustCompile(`(?is)^(insert\s+into\s+` + name + `|update\s+` + name + `|delete\b[^;()\[\]{}]*\bfrom\s+` + name + `|(truncate|alter|drop|begin)\b.*\borders\b)`)
	f.Fuzz(func(t *testing.T, stmt string) {
		n, err := of.naming(stmt)
		if err != nil {
			require.ErrorIs(t, err, ErrRefused)
			return
		}
		plain := strings.TrimLeft(besides.ReplaceAllString(stmt, " "), " \t\r\n")
		if strings.Contains(plain, `"`) {
			return
		}
		if n == nil {
			if m := change.FindString(plain); m != "" && regexp.MustCompile(`(?i)^delete.*\bfrom\b.*\bfrom\b`).FindString(m) == "" {
				t.Fatalf("it passes: %q", stmt)
			}
			return
		}
		require.NotRegexp(t, `(?i)[^\w]if\b[^)=]*$`, plain)
		for _, part := range of.key {
			require.NotEmpty(t, n.parts[part])
			for _, v := range n.parts[part] {
				require.NotEqual(t, tokenSymbol, v.kind, stmt)
				require.NotEqual(t, tokenEnd, v.kind, stmt)
				require.Less(t, v.mark, max(1, n.marks))
			}
		}
	})
}

// What a literal is depends on the type; what the server reads in ways of its own is to be bound.
func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		cql, text string
		want      any
	}{
		{"int", "-5", int32(-5)}, {"int", "2147483648", nil}, {"int", "'5'", nil}, {"tinyint", "127", int8(127)}, {"bigint", "1.0", nil},
		{"text", "'it''s'", "it's"}, {"text", "5", nil}, {"text", "null", nil}, {"ascii", "$$a$$", "a"},
		{"double", "1e3", 1000.0}, {"float", "-1.5", float32(-1.5)}, {"double", "NaN", nil}, {"boolean", "TRUE", true}, {"boolean", "maybe", nil},
		{"blob", "0x00ff", []byte{0, 255}}, {"blob", "0x0", nil}, {"uuid", "550e8400-e29b-41d4-a716-446655440000", [16]byte{0x55, 0x0e, 0x84, 0, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44}},
		{"timestamp", "'2024-01-01'", nil}, {"timestamp", "0", nil}, {"date", "'2024-02-30'", nil}, {"inet", "'127.0.0.1'", nil}, {"decimal", "1.5", nil}, {"varint", "7", int64(7)},
	} {
		all, err := tokens(c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, kinds[c.cql].parse(all[0].text, all[0].kind), "%s %s", c.cql, c.text)
	}
}

// Values of Go are what the server stores of them, in whichever shape they are bound.
func TestBoundKeys(t *testing.T) {
	type name string
	text, id := "x", gocql.TimeUUID()
	ref := &text
	at := time.Date(2024, 1, 2, 3, 4, 5, 678_999_999, time.UTC)
	for _, c := range []struct {
		cql   string
		bound any
		want  any
	}{
		{"int", 5, int32(5)}, {"int", int64(5), int32(5)}, {"int", "5", int32(5)}, {"bigint", uint8(5), int64(5)}, {"varint", big.NewInt(-5), int64(-5)},
		{"text", name("x"), "x"}, {"text", []byte("x"), "x"}, {"text", &text, "x"}, {"text", &ref, "x"}, {"text", "", ""},
		{"uuid", id.String(), [16]byte(id)}, {"uuid", id, [16]byte(id)}, {"uuid", [16]byte(id), [16]byte(id)},
		{"timestamp", at, at.Truncate(time.Millisecond)}, {"timestamp", int64(5), time.UnixMilli(5).UTC()},
	} {
		cl := &column{name: "k", cql: c.cql, kind: kinds[c.cql], info: gocqlType(t, c.cql)}
		v, err := cl.canonical(c.bound)
		require.NoError(t, err, "%s %T", c.cql, c.bound)
		require.Equal(t, c.want, v, "%s %T", c.cql, c.bound)
	}
	for _, v := range []any{nil, (*string)(nil), gocql.UnsetValue, struct{}{}, gocql.NamedValue("k", "x")} {
		_, err := (&column{cql: "text", kind: kinds["text"], info: gocqlType(t, "text")}).canonical(v)
		require.Error(t, err, "%T", v)
	}
}

// gocqlType returns what gocql knows of a type.
func gocqlType(t *testing.T, cql string) gocql.TypeInfo {
	types := map[string]gocql.Type{
		"int": gocql.TypeInt, "bigint": gocql.TypeBigInt, "varint": gocql.TypeVarint, "text": gocql.TypeText, "uuid": gocql.TypeUUID, "timestamp": gocql.TypeTimestamp,
	}
	require.Contains(t, types, cql)
	return gocql.NewNativeType(4, types[cql], "")
}
