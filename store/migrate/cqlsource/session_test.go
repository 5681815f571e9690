package cqlsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A notebook is a Mirror that notes which keys it is given.
type notebook struct {
	mu   sync.Mutex
	keys []store.Row
	fail error
}

func (n *notebook) Write(ctx context.Context, keys []store.Row, apply func(context.Context) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return n.fail
	}
	n.keys = keys
	return apply(ctx)
}

// A spareBook writes what has no key.
type spareBook struct {
	notebook
	why error
}

func (n *spareBook) WriteUnfit(ctx context.Context, why error, apply func(context.Context) error) error {
	n.why = why
	return fmt.Errorf("the server is asked: %w", apply(ctx))
}

// What the statements of the table change on the server are the rows that they were found to name, and no others.
func TestSessionNamesWhatChanges(t *testing.T) {
	t.Parallel()
	source, session := source(t, `CREATE TABLE orders (customer text, number int, "Kind" uuid, note text, n int, PRIMARY KEY ((customer, number), "Kind"))`, "orders")
	do(t, session, "CREATE TABLE others (id int PRIMARY KEY, note text)")
	book := new(notebook)
	s := NewSession(source, book)
	kind, other := gocql.MustRandomUUID(), gocql.MustRandomUUID()
	// rows returns all rows as text, by their keys.
	rows := func() map[string]string {
		all := make(map[string]string)
		for f, err := range source.Scan(t.Context(), inspect.Part{Of: 1}) {
			require.NoError(t, err)
			// When a row expires is only known to a second, so two scans may differ by one.
			all[fmt.Sprint(f.Row["customer"], f.Row["number"], f.Row["Kind"])] = fmt.Sprint(f.Row["note"], f.Row["n"], f.Written, f.Expires.IsZero())
		}
		return all
	}
	row := func(customer string, number int32, kind gocql.UUID) string {
		return fmt.Sprint(customer, number, [16]byte(kind))
	}
	a := func(number int32) string { return row("a", number, kind) }
	full := `customer = ? AND number = ? AND "Kind" = ?`
	for _, c := range []struct {
		stmt    string
		values  []any
		changes []string
	}{
		{`INSERT INTO orders (customer, number, "Kind", note) VALUES (?, ?, ?, 'x')`, []any{"a", 1, kind}, []string{a(1)}},
		{`INSERT INTO orders (customer, number, "Kind", note) VALUES ('a', 2, ` + kind.String() + `, ?) USING TTL 1000`, []any{"y"}, []string{a(2)}},
		{`INSERT INTO orders (note, number, customer, "Kind") VALUES (?, ?, ?, ?)`, []any{nil, "3", []byte("a"), kind.String()}, []string{a(3)}},
		{`INSERT INTO orders (customer, number, "Kind") VALUES (:c, :n, :k)`, []any{"b", int64(4), kind}, []string{row("b", 4, kind)}},
		{`UPDATE orders SET note = ? WHERE ` + full, []any{"z", "a", 1, other}, []string{row("a", 1, other)}},
		{`UPDATE orders SET note = ? WHERE customer IN ('a', 'b') AND number IN ? AND "Kind" IN (?, ?)`, []any{"in", []int{1, 2}, kind, other},
			[]string{a(1), a(2), row("a", 1, other), row("a", 2, other), row("b", 1, kind), row("b", 1, other), row("b", 2, kind), row("b", 2, other)}},
		{`DELETE note FROM orders WHERE ` + full, []any{"a", 1, kind}, []string{a(1)}},
		{`DELETE FROM orders WHERE ` + full + ";", []any{"a", 2, kind}, []string{a(2)}},
		{`UPDATE orders USING TTL ? SET n = ?, note = ? WHERE ` + full, []any{500, 7, "ttl", "c", -5, kind}, []string{row("c", -5, kind)}},
	} {
		before := rows()
		book.keys = nil
		require.NoError(t, s.Exec(t.Context(), c.stmt, c.values...), c.stmt)
		after := rows()
		var changed []string
		for key := range after {
			if before[key] != after[key] {
				changed = append(changed, key)
			}
		}
		for key := range before {
			if _, ok := after[key]; !ok {
				changed = append(changed, key)
			}
		}
		var named []string
		for _, key := range book.keys {
			named = append(named, fmt.Sprint(key["customer"], key["number"], key["Kind"]))
		}
		slices.Sort(changed)
		slices.Sort(c.changes)
		slices.Sort(named)
		require.Equal(t, c.changes, changed, c.stmt)
		require.Equal(t, changed, named, c.stmt)
	}

	book.keys = nil
	require.NoError(t, s.Exec(t.Context(), "INSERT INTO others (id, note) VALUES (?, ?) IF NOT EXISTS", 1, "orders"))
	require.NoError(t, s.Exec(t.Context(), "SELECT * FROM orders"))
	require.Nil(t, book.keys)

	batch := session.Batch(gocql.LoggedBatch)
	batch.Query("INSERT INTO others (id, note) VALUES (2, 'x')")
	batch.Query(`INSERT INTO orders (customer, number, "Kind", n) VALUES (?, ?, ?, ?)`, "d", 1, kind, 1)
	batch.Query(`DELETE FROM orders WHERE `+full, "c", -5, kind)
	require.NoError(t, s.ExecBatch(t.Context(), batch))
	require.Equal(t, []store.Row{{"customer": "d", "number": int32(1), "Kind": [16]byte(kind)}, {"customer": "c", "number": int32(-5), "Kind": [16]byte(kind)}}, book.keys)
	require.Contains(t, rows(), row("d", 1, kind))
	require.NotContains(t, rows(), row("c", -5, kind))
	book.keys = nil
	batch = session.Batch(gocql.UnloggedBatch).Query("INSERT INTO others (id) VALUES (3)")
	require.NoError(t, s.ExecBatch(t.Context(), batch))
	require.Nil(t, book.keys)

	server, err := testcassandra.New()
	require.NoError(t, err)
	nowhere, err := server.Cluster().CreateSession() // in no keyspace
	require.NoError(t, err)
	defer nowhere.Close()
	elsewhere, err := New(t.Context(), nowhere, source.keyspace, "orders", Options{Consistency: gocql.EachQuorum})
	require.NoError(t, err)
	batch = nowhere.Batch(gocql.UnloggedBatch).Query(`DELETE FROM orders WHERE `+full, "nobody", 1, kind).SetKeyspace(source.keyspace)
	_ = NewSession(elsewhere, book).ExecBatch(t.Context(), batch) // early versions of the protocol do not send the keyspace
	require.Len(t, book.keys, 1, "the keyspace of a batch counts")
	require.Equal(t, gocql.EachQuorum, batch.GetConsistency())
	batch = nowhere.Batch(gocql.UnloggedBatch).Query(`DELETE FROM `+source.keyspace+`.orders WHERE `+full, "nobody", 1, kind).Consistency(gocql.One)
	require.NoError(t, s.ExecBatch(t.Context(), batch))
	require.Equal(t, gocql.Quorum, batch.GetConsistency())
	batch.Consistency(gocql.All)
	require.NoError(t, s.ExecBatch(t.Context(), batch))
	require.Equal(t, gocql.All, batch.GetConsistency())

	// What is refused changes nothing, not even another statement of its batch.
	before := rows()
	for _, c := range []struct {
		stmt   string
		values []any
		says   string
	}{
		{"DELETE FROM orders WHERE customer = ? AND number = ?", []any{"a", 1}, "does not name the part Kind"},
		{`DELETE FROM orders WHERE ` + full, []any{"a", 1}, "has 3 markers and 2 values"},
		{`DELETE FROM orders WHERE ` + full, []any{"a", nil, kind}, "number, a part of the primary key, is null, or unset"},
		{`DELETE FROM orders WHERE ` + full, []any{"a", struct{}{}, kind}, "has a value that gocql does not bind to it"},
		{`DELETE FROM orders WHERE ` + full, []any{gocql.NamedValue("customer", "a"), gocql.NamedValue("number", 1), gocql.NamedValue("Kind", kind)}, "bind values in the order of the markers"},
		{`DELETE FROM orders WHERE customer = ? AND number = 1 AND "Kind" = 'x'`, []any{"a"}, "is a literal that the server reads as a value of uuid: bind it with ?"},
		{`DELETE FROM orders WHERE customer = ? AND number IN ? AND "Kind" = ?`, []any{"a", 1, kind}, "bind a slice"},
		{`DELETE FROM orders WHERE customer = ? AND number IN ? AND "Kind" = ?`, []any{"a", make([]int, 1001), kind}, "names more than 1000 rows"},
	} {
		err := s.Exec(t.Context(), c.stmt, c.values...)
		require.ErrorIs(t, err, ErrRefused, c.stmt)
		require.ErrorContains(t, err, c.says)
		batch := session.Batch(gocql.LoggedBatch)
		batch.Query(`INSERT INTO orders (customer, number, "Kind", n) VALUES ('e', 1, ?, 1)`, kind)
		batch.Query(c.stmt, c.values...)
		require.ErrorIs(t, s.ExecBatch(t.Context(), batch), ErrRefused)
	}
	named := session.Batch(gocql.LoggedBatch).Query(`DELETE FROM orders WHERE customer = :a AND number = :b AND "Kind" = :c`, gocql.NamedValue("a", "a"), 1, kind)
	require.ErrorIs(t, NewSession(source, new(spareBook)).ExecBatch(t.Context(), named), ErrRefused, "also while no migration goes on")
	// A key that no encrypted table has is the Mirror's to refuse, as it does while a migration goes on.
	spares := new(spareBook)
	sparing := NewSession(source, spares)
	null := []any{"a", nil, kind}
	require.ErrorContains(t, sparing.Exec(t.Context(), `DELETE FROM orders WHERE `+full, null...), "the server is asked")
	require.ErrorIs(t, spares.why, ErrRefused)
	spares.why = nil
	require.ErrorContains(t, sparing.ExecBatch(t.Context(), session.Batch(gocql.LoggedBatch).Query(`DELETE FROM orders WHERE `+full, null...)), "the server is asked")
	require.ErrorIs(t, spares.why, ErrRefused)
	require.NotContains(t, sparing.Exec(t.Context(), "TRUNCATE orders").Error(), "the server is asked")
	bound := session.Batch(gocql.LoggedBatch)
	bound.Bind(`DELETE FROM orders WHERE `+full, func(*gocql.QueryInfo) ([]any, error) { return []any{"a", 1, kind}, nil })
	require.ErrorIs(t, s.ExecBatch(t.Context(), bound), ErrRefused)
	require.Equal(t, before, rows())

	book.fail = errors.New("cut over")
	require.ErrorIs(t, s.Exec(t.Context(), "DELETE FROM orders WHERE "+full, "a", 1, kind), book.fail)
	require.Equal(t, before, rows(), "the mirror makes the write")
}

// A UUID that gocql makes of a time is another one each time that it is bound.
func TestKeysThatAreMadeWhenTheyAreBound(t *testing.T) {
	t.Parallel()
	source, _ := source(t, "CREATE TABLE events (device text, at timeuuid, n int, PRIMARY KEY (device, at))", "events")
	book := new(notebook)
	s, now := NewSession(source, book), time.Now()
	for stmt, at := range map[string]any{
		"INSERT INTO events (device, at, n) VALUES ('a', ?, 1)":     now,
		"UPDATE events SET n = 1 WHERE device = 'a' AND at = ?":     &now,
		"DELETE FROM events WHERE device = 'a' AND at IN ?":         []time.Time{now},
		"DELETE FROM events WHERE at IN (now(), ?) AND device = ''": gocql.UUIDFromTime(now),
	} {
		err := s.Exec(t.Context(), stmt, at)
		require.ErrorIs(t, err, ErrRefused, stmt)
		if _, made := at.(gocql.UUID); !made {
			require.ErrorContains(t, err, "make the UUID first")
		}
	}
	require.Empty(t, book.keys)
	require.NoError(t, s.Exec(t.Context(), "INSERT INTO events (device, at, n) VALUES ('a', ?, 1)", gocql.UUIDFromTime(now)))
	require.Len(t, book.keys, 1)
}

// The server agrees on which table each statement is of, and refuses what it does not read.
func TestStatementsOnTheServer(t *testing.T) {
	t.Parallel()
	source, session := source(t, `CREATE TABLE orders (customer text, number int, "Kind" uuid, note text, "FROM" text, n int, m map<text, int>, PRIMARY KEY ((customer, number), "Kind"))`, "orders")
	do(t, session, "CREATE TABLE others (a int PRIMARY KEY)")
	of := *of
	of.keyspace, of.session = source.keyspace, source.keyspace
	known := 0
	for _, st := range statements {
		n, err := of.naming(st.text)
		meta, refusal := session.StatementMetadata(t.Context(), st.text, "")
		if refusal != nil || meta.Table == "" {
			continue // the server reads nothing, or nothing is bound
		}
		known++
		if meta.Table == "orders" {
			require.True(t, n != nil || err != nil, "it passes: %s", st.text)
		}
		if n != nil {
			require.Equal(t, n.marks, len(meta.BindColumns), st.text)
			for part, values := range n.parts {
				for _, v := range values {
					if v.kind == tokenMark {
						require.Contains(t, []string{part, "in(" + part + ")", v.text}, meta.BindColumns[v.mark].Name, st.text)
					}
				}
			}
		}
	}
	require.Greater(t, known, 12)
}

// Where the values of a table may still be is listed, and goes when it was seen to.
func TestRemains(t *testing.T) {
	t.Parallel()
	s, session := source(t, "CREATE TABLE orders (id int PRIMARY KEY, note text)", "orders")
	do(t, session, "INSERT INTO orders (id, note) VALUES (1, 'x')")
	do(t, session, "CREATE INDEX by_note ON orders (note)")
	d, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.Contains(t, d.BeforeDrop, "The index by_note has values of the table. It goes with the table.")
	do(t, session, "DROP INDEX by_note")
	l, err := s.read(t.Context())
	require.NoError(t, err)
	if advice := s.noSnapshots(l); strings.HasPrefix(advice, "ALTER TABLE") {
		require.False(t, s.without(t.Context(), l, "allow_auto_snapshot"))
		do(t, session, advice)
		require.True(t, s.without(t.Context(), l, "allow_auto_snapshot"))
		require.False(t, s.without(t.Context(), l, "incremental_backups"))
		d, err := s.Describe(t.Context())
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(d.BeforeDrop), "auto_snapshot", "what was done is not asked for again")
	} else {
		require.Contains(t, advice, "nodetool clearsnapshot", "no option of a table before Cassandra 5")
	}
	require.NoError(t, s.Drop(t.Context()))
	remains, err := s.Remains(t.Context())
	require.NoError(t, err)
	var what []string
	for _, r := range remains {
		what = append(what, r.What)
		require.NotEmpty(t, r.Where)
		require.NotEmpty(t, r.Advice)
		require.False(t, r.Seen, "%v", r)
	}
	require.Regexp(t, "commit log.*caches.*backups", fmt.Sprint(what))
}
