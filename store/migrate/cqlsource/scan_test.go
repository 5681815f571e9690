package cqlsource

import (
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// However a table is cut, its parts have each row once.
func TestScanByParts(t *testing.T) {
	t.Parallel()
	s, session := source(t, "CREATE TABLE many (a int, b text, n bigint, PRIMARY KEY ((a), b)) WITH CLUSTERING ORDER BY (b DESC)", "many")
	const partitions, each = 400, 25
	for a := range partitions {
		batch := session.Batch(1)
		for b := range each {
			batch.Query("INSERT INTO many (a, b, n) VALUES (?, ?, ?)", a, fmt.Sprint("row ", b), a*each+b)
		}
		require.NoError(t, batch.ExecContext(t.Context()))
	}
	for _, parts := range []int{1, 7, 64} {
		sum := int64(0)
		all := collect(t, s, parts)
		for _, f := range all {
			sum += f.Row["n"].(int64)
			require.Equal(t, f.Row["n"], int64(f.Row["a"].(int32))*each+number2(f.Row["b"].(string)))
		}
		require.Len(t, all, partitions*each)
		require.Equal(t, int64(partitions*each)*(partitions*each-1)/2, sum)
	}
	d, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.InEpsilon(t, partitions*each, d.Rows, 0.5)
	require.InEpsilon(t, partitions*each*(4+6+8), d.Bytes, 0.5)
	require.False(t, d.AtLeast)

	read := 0
	for range s.Scan(t.Context(), inspect.Part{Of: 1}) { // and the caller may stop
		if read++; read == 300 {
			break
		}
	}
	require.Equal(t, 300, read)
	for _, err := range s.Scan(t.Context(), inspect.Part{Index: 1, Of: 1}) {
		require.ErrorIs(t, err, driver.ErrRange)
	}
}

// A small table is counted, however many rows its partitions have. Of a large one with few partitions at least some is known.
func TestEstimateOfFewPartitions(t *testing.T) {
	t.Parallel()
	s, session := source(t, "CREATE TABLE wide (a int, b int, n bigint, PRIMARY KEY ((a), b))", "wide")
	const partitions = 4
	put := func(from, to int) {
		for a := range partitions {
			for b := from; b < to; b += 100 {
				batch := session.Batch(gocql.UnloggedBatch)
				for i := b; i < min(b+100, to); i++ {
					batch.Query("INSERT INTO wide (a, b, n) VALUES (?, ?, ?)", a, i, int64(i))
				}
				require.NoError(t, batch.ExecContext(t.Context()))
			}
		}
	}
	put(0, 844)
	d, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{int64(partitions * 844), int64(partitions * 844 * 16), false}, []any{d.Rows, d.Bytes, d.AtLeast})
	put(844, 2600)
	d, err = s.Describe(t.Context())
	require.NoError(t, err)
	require.True(t, d.AtLeast)
	require.GreaterOrEqual(t, d.Rows, int64(10_000))
}

func number2(text string) (n int64) {
	fmt.Sscanf(text, "row %d", &n)
	return n
}

// Names are quoted, whatever they are.
func TestNames(t *testing.T) {
	t.Parallel()
	s, session := source(t, `CREATE TABLE "Order" ("sel;ect" int, "From" text, "quo""ted" text, "größe" text, "token" int, PRIMARY KEY (("sel;ect", "From"), "token"))`, "Order")
	do(t, session, `INSERT INTO "Order" ("sel;ect", "From", "token", "quo""ted", "größe") VALUES (1, 'a', 2, 'b', 'c')`)
	require.Equal(t, "cassandra:"+s.keyspace+".Order", s.Name())
	all := collect(t, s, 2)
	require.Len(t, all, 1)
	require.Equal(t, store.Row{"sel;ect": int32(1), "From": "a", "token": int32(2), `quo"ted`: "b", "größe": "c"}, all[0].Row)
	again, err := s.Read(t.Context(), []store.Row{{"sel;ect": int32(1), "From": "a", "token": int32(2)}})
	require.NoError(t, err)
	require.Equal(t, all[0].Row, again[0].Row)
	_, err = s.Read(t.Context(), []store.Row{{"sel;ect": 1, "From": "a"}})
	require.ErrorIs(t, err, store.ErrColumn)

	schema, hints, err := s.Propose(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, schema.Check())
	require.Equal(t, "orders", schema.Name)
	var parts []string
	for _, p := range schema.Key {
		parts = append(parts, p.Describe().Name+" "+p.Describe().Encryption)
	}
	require.Equal(t, []string{"sel;ect hashed", "From hashed", "token ordered"}, parts)
	require.Len(t, schema.Columns, 2)
	require.Contains(t, hints[0], "größe (text): to search by it, take {encryption: ordered, scheme: boldyreva}")

	other, err := New(t.Context(), session, s.keyspace, "order", Options{})
	require.NoError(t, err)
	_, err = other.Describe(t.Context())
	require.ErrorIs(t, err, driver.ErrNoFamily)
	require.ErrorContains(t, err, "has no table order, but Order: names have capital letters or not")
}

// The time of the last write and the end of the last value are those of the server.
func TestTimes(t *testing.T) {
	t.Parallel()
	s, session := source(t, "CREATE TABLE times (id int PRIMARY KEY, a text, b int) WITH default_time_to_live = 86400", "times")
	d, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, 24*time.Hour, d.TTL)
	schema, hints, err := s.Propose(t.Context(), "times")
	require.NoError(t, err)
	require.Equal(t, 24*time.Hour, schema.TTL)
	require.Contains(t, hints[len(hints)-1], "A row lives for 24h0m0s")

	do(t, session, "INSERT INTO times (id, a, b) VALUES (1, 'x', 1) USING TTL 0 AND TIMESTAMP 1000")
	do(t, session, "UPDATE times USING TTL 0 AND TIMESTAMP 2001 SET b = 2 WHERE id = 1")
	do(t, session, "INSERT INTO times (id, a, b) VALUES (2, 'x', 1)")
	do(t, session, "INSERT INTO times (id, a) VALUES (3, 'x') USING TTL 1000")
	do(t, session, "UPDATE times USING TTL 5000 SET b = 1 WHERE id = 3")
	do(t, session, "INSERT INTO times (id, a) VALUES (4, 'x') USING TTL 0")
	do(t, session, "UPDATE times USING TTL 100 SET b = 1 WHERE id = 4")
	do(t, session, "INSERT INTO times (id) VALUES (5)")
	do(t, session, "INSERT INTO times (id, a, b) VALUES (6, 'x', 1)")
	do(t, session, "DELETE a, b FROM times WHERE id = 6")
	do(t, session, "UPDATE times SET b = 1 WHERE id = 7")
	do(t, session, "DELETE FROM times WHERE id = 7")
	now := time.Now()
	rows := make(map[int32]migrate.Found)
	for _, f := range collect(t, s, 1) {
		rows[f.Row["id"].(int32)] = f
	}
	require.Len(t, rows, 6)
	require.Equal(t, time.UnixMicro(2001).UTC(), rows[1].Written)
	require.Zero(t, rows[1].Expires)
	require.False(t, rows[1].Mixed)
	require.WithinDuration(t, now, rows[2].Written, time.Minute)
	require.WithinDuration(t, now.Add(24*time.Hour), rows[2].Expires, 3*time.Second)
	require.False(t, rows[2].Mixed)
	require.WithinDuration(t, now.Add(5000*time.Second), rows[3].Expires, 3*time.Second)
	require.True(t, rows[3].Mixed)
	require.Zero(t, rows[4].Expires)
	require.True(t, rows[4].Mixed)
	for _, id := range []int32{5, 6} { // nothing but the key
		require.Equal(t, migrate.Found{Row: store.Row{"id": id}, Exists: true}, rows[id])
	}
	found, err := s.Read(t.Context(), []store.Row{{"id": int32(7)}, {"id": int32(3)}})
	require.NoError(t, err)
	require.False(t, found[0].Exists)
	require.WithinDuration(t, rows[3].Expires, found[1].Expires, 2*time.Second)
}

// A table whose schema changes is noticed, as is one that was dropped and made again, by a scan that is under way, too.
func TestSchemaChanges(t *testing.T) {
	t.Parallel()
	const create = "CREATE TABLE moving (id int PRIMARY KEY, a text)"
	s, session := source(t, create, "moving")
	for i := range 10 {
		do(t, session, "INSERT INTO moving (id, a) VALUES (?, 'x')", i)
	}
	print := func() string {
		at, err := s.Now(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), at, 10*time.Second)
		fingerprint, err := s.Fingerprint(t.Context())
		require.NoError(t, err)
		return fingerprint
	}
	seen := map[string]bool{print(): true}
	require.True(t, seen[print()], "nothing has changed")
	do(t, session, "ALTER TABLE moving WITH comment = 'x'")
	require.True(t, seen[print()], "nothing of note has changed")
	for _, stmt := range []string{"ALTER TABLE moving ADD b int", "ALTER TABLE moving DROP b", "ALTER TABLE moving RENAME id TO number", "DROP TABLE moving"} {
		rows := 0
		var last error
		for _, err := range s.Scan(t.Context(), inspect.Part{Of: 1}) {
			if rows++; rows == 3 {
				do(t, session, stmt)
			}
			last = err
		}
		require.Error(t, last, stmt)
		if stmt == "DROP TABLE moving" {
			require.ErrorIs(t, last, driver.ErrNoFamily)
			do(t, session, create)
		} else {
			require.ErrorContains(t, last, "was altered, or dropped and made again")
		}
		if stmt != "ALTER TABLE moving DROP b" { // then it is as it was
			require.False(t, seen[print()], stmt)
		}
		seen[print()] = true
	}
	// Nobody drops a table that somebody has made in place of the one that was described.
	do(t, session, "DROP TABLE moving")
	do(t, session, create)
	require.ErrorContains(t, s.Drop(t.Context()), "dropped and made again")
	_, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Drop(t.Context()))
	require.NoError(t, s.Drop(t.Context()), "once more")
}

// A range with more deleted rows than the server steps over is read all the same; of a partition that has them the error says what to do.
func TestScanOfManyMarkers(t *testing.T) {
	if !sim.Full() {
		t.Skip("deletes three times as many rows as the server steps over")
	}
	t.Parallel()
	s, session := source(t, "CREATE TABLE gone (a int, b int, n int, PRIMARY KEY (a, b))", "gone")
	most, err := testcassandra.Markers(t.Context(), session)
	require.NoError(t, err)
	remove := func(a, from, to int) {
		for b := from; b < to; {
			batch := session.Batch(1)
			for ; b < to && batch.Size() < 500; b++ {
				batch.Query("DELETE FROM gone WHERE a = ? AND b = ?", a, b)
			}
			require.NoError(t, batch.ExecContext(t.Context()))
		}
	}
	for a := range 100 {
		each := most / 50
		remove(a, 0, each)
		do(t, session, "INSERT INTO gone (a, b, n) VALUES (?, ?, ?)", a, each, a)
		do(t, session, "INSERT INTO gone (a, b, n) VALUES (?, ?, ?)", a, each+1, a)
	}
	count := 0
	err = session.Query("SELECT count(*) FROM gone").ScanContext(t.Context(), &count)
	require.True(t, cassandra.TooManyMarkers(err), "the server does not mind: %v", err)
	require.Len(t, collect(t, s, 1), 200)
	require.Len(t, collect(t, s, 7), 200)

	do(t, session, "INSERT INTO gone (a, b, n) VALUES (1000, 0, 0)")
	remove(1000, 1, most+1000)
	do(t, session, "INSERT INTO gone (a, b, n) VALUES (1000, ?, 0)", most+1000)
	var last error
	for _, err := range s.Scan(t.Context(), inspect.Part{Of: 1}) {
		last = err
	}
	require.ErrorContains(t, last, "run 'nodetool garbagecollect "+s.keyspace+" gone' on each node")
	require.ErrorIs(t, last, driver.ErrUnavailable)
}
