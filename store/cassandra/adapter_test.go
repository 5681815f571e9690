package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/clock"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/doubt"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/given"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// These tests are of what is special to Cassandra, and need one.

func exec(tb testing.TB, db *DB, stmt string, values ...any) {
	tb.Helper()
	require.NoError(tb, db.session.Query(strings.ReplaceAll(stmt, "$", db.keyspace+"."), values...).Exec())
}

func put(row, qualifier, value string) driver.Mutation {
	return driver.Mutation{Row: []byte(row), Puts: []driver.Cell{{Qualifier: []byte(qualifier), Value: []byte(value)}}}
}

func show(cells []driver.Cell) string {
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "%s=%s ", c.Qualifier, c.Value)
	}
	return strings.TrimSpace(b.String())
}

func TestForeignDirectory(t *testing.T) {
	c := keyspace(t)
	s := session(t)
	defer s.Close()
	require.NoError(t, s.Query("CREATE KEYSPACE "+c.Keyspace+" WITH replication = "+given.Literal(c.Replication)).Exec())
	require.NoError(t, s.Query("CREATE TABLE "+c.Keyspace+".rangecrypt_families (id int PRIMARY KEY, what text)").Exec())
	_, err := Open(t.Context(), c)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "[id int (partition_key 0) what text]")
	require.ErrorContains(t, err, "something else")
}

// Who must find a store writes nothing where there is none, not even which consistency its clients have.
func TestMustExist(t *testing.T) {
	c := keyspace(t)
	c.MustExist = true
	s := session(t)
	defer s.Close()
	refused := func() {
		_, err := Open(t.Context(), c)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "there is no store in keyspace")
	}
	refused()
	require.NoError(t, s.Query("CREATE KEYSPACE "+c.Keyspace+" WITH replication = "+given.Literal(c.Replication)).Exec())
	require.NoError(t, s.Query("CREATE TABLE "+c.Keyspace+".things (id int PRIMARY KEY)").Exec())
	refused()
	var tables int
	require.NoError(t, s.Query("SELECT count(*) FROM system_schema.tables WHERE keyspace_name = ?", c.Keyspace).Scan(&tables))
	require.Equal(t, 1, tables)

	maker := c
	maker.MustExist, maker.Datacentre = false, "datacenter1"
	db := open(t, maker)
	_, err := Open(t.Context(), c)
	require.ErrorIs(t, err, driver.ErrLayout)
	exec(t, db, "DELETE FROM $rangecrypt_families WHERE name = '.keyspace'") // as one who was killed left it
	refused()
}

// Which data centre the clients of a keyspace work in is recorded where those of all data centres see it.
func TestDatacentreIsRecordedForAll(t *testing.T) {
	c := keyspace(t)
	c.Datacentre = "datacenter1"
	cluster := connection(t).Cluster()
	levels := make(map[string]gocql.Consistency)
	cluster.QueryObserver = observer(func(q gocql.ObservedQuery) {
		level, _ := q.Query.GetSerialConsistency()
		levels[strings.Fields(q.Statement)[0]] = level
	})
	s, err := cluster.CreateSession()
	require.NoError(t, err)
	defer s.Close()
	_, err = New(t.Context(), s, c.Options)
	require.NoError(t, err)
	require.Equal(t, gocql.Serial, levels["INSERT"])
}

type observer func(gocql.ObservedQuery)

func (o observer) ObserveQuery(_ context.Context, q gocql.ObservedQuery) { o(q) }

// Clients of a data centre that keeps no copies could do nothing there, and say so.
func TestDatacentreWithoutCopies(t *testing.T) {
	c := keyspace(t)
	s := session(t)
	defer s.Close()
	require.NoError(t, s.Query("CREATE KEYSPACE "+c.Keyspace+" WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}").Exec())
	c.Datacentre = "elsewhere"
	_, err := New(t.Context(), s, c.Options)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "no copies in data centre elsewhere")
	var tables int
	require.NoError(t, s.Query("SELECT count(*) FROM system_schema.tables WHERE keyspace_name = ?", c.Keyspace).Scan(&tables))
	require.Zero(t, tables, "nothing is written")
}

// A keyspace whose directory is lost is no empty one: whoever made a store there would hide the one that there is.
func TestLostDirectory(t *testing.T) {
	c := keyspace(t)
	finder := c
	finder.MustExist = true
	db := open(t, c)
	refused := func() {
		for _, c := range []Config{c, finder} {
			_, err := Open(t.Context(), c)
			require.ErrorIs(t, err, driver.ErrCorrupt)
			require.ErrorContains(t, err, "rangecrypt_families")
			require.NotErrorIs(t, err, fs.ErrNotExist)
		}
	}
	exec(t, db, "CREATE TABLE $things_abcdefg (id int PRIMARY KEY)") // somebody else's
	exec(t, db, "TRUNCATE $rangecrypt_families")
	open(t, c) // no family was there
	for _, spec := range []driver.FamilySpec{orderedSpec, {Name: "wide", Layout: driver.LayoutWide}} {
		f := openFamily(t, db, spec)
		exec(t, db, "DELETE FROM $rangecrypt_families WHERE name = '.keyspace'")
		_, err := Open(t.Context(), finder)
		require.ErrorIs(t, err, driver.ErrCorrupt)
		require.NotErrorIs(t, err, fs.ErrNotExist)
		open(t, c) // which makes that row again
		if spec.Layout == driver.LayoutOrdered {
			require.NoError(t, db.AddIndex(t.Context(), spec, "ix"))
		}
		exec(t, db, "TRUNCATE $rangecrypt_families")
		refused()
		exec(t, db, "DROP TABLE $rangecrypt_families")
		refused()
		exec(t, db, "DROP TABLE "+f.table)
		open(t, c)
	}
}

// A row that somebody has put into another partition is found by no Get. Scans of all partitions say so.
func TestMisplacedRows(t *testing.T) {
	db := open(t, keyspace(t))
	f := openFamily(t, db, orderedSpec)
	count := func() (n int, err error) {
		for _, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	require.NoError(t, f.Apply(t.Context(), put("apple", "q", "v"), put("pear", "q", "v")))
	n, err := count()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	var p, k []byte
	require.NoError(t, db.session.Query("SELECT p, k FROM "+f.table+" LIMIT 1").Scan(&p, &k))
	p[len(p)-1] ^= 1
	exec(t, db, "INSERT INTO "+f.table+" (p, k, q, v) VALUES (?, ?, ?, ?)", p, k, []byte("q"), []byte("v"))
	_, err = count()
	require.ErrorIs(t, err, driver.ErrCorrupt)
	require.ErrorContains(t, err, fmt.Sprintf("partition p = 0x%x", p))
	require.NotContains(t, err.Error(), string(k))
	exec(t, db, "DELETE FROM "+f.table+" WHERE p = ? AND k = ?", p, k)
	n, err = count()
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestFormatsAndLayouts(t *testing.T) {
	c := keyspace(t)
	db := open(t, c)
	f := openFamily(t, db, orderedSpec)

	other := c
	other.Datacentre = "datacenter1"
	_, err := Open(t.Context(), other)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "SERIAL, this one is configured for LOCAL_SERIAL in datacenter1")

	// A family made by a newer version can neither be opened nor dropped.
	exec(t, db, "UPDATE $rangecrypt_families SET format = 2 WHERE name = 'things'")
	_, err = db.Family(t.Context(), orderedSpec)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "newer version, with format 2; this one reads format 1")
	require.ErrorIs(t, db.Drop(t.Context(), "things"), driver.ErrLayout)
	exec(t, db, "UPDATE $rangecrypt_families SET format = 1 WHERE name = 'things'")

	// A table that is not as it was made.
	exec(t, db, "ALTER TABLE "+f.table+" ADD note text")
	_, err = db.Family(t.Context(), orderedSpec)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "note text")
	require.ErrorContains(t, err, "a column was added, which ALTER TABLE drops again")
	exec(t, db, "DROP TABLE "+f.table)
	exec(t, db, "CREATE TABLE "+f.table+" (p blob, k blob, q blob, v blob, PRIMARY KEY ((p), k, q))")
	_, err = db.Family(t.Context(), orderedSpec)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "the directory says")
	mends := regexp.MustCompile("UPDATE [^;]+").FindString(err.Error())
	require.NoError(t, db.session.Query(mends).ExecContext(t.Context()))
	_, err = db.Family(t.Context(), orderedSpec)
	require.NoError(t, err, mends)

	// A keyspace as a whole.
	exec(t, db, "UPDATE $rangecrypt_families SET format = 2 WHERE name = '.keyspace'")
	_, err = Open(t.Context(), c)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, "newer version")
}

// A table that somebody has dropped by hand is not made again, empty, by who asks for the family that was there. Who makes the family
// goes on where another client died.
func TestTableIsGone(t *testing.T) {
	db := open(t, keyspace(t))
	f := openFamily(t, db, orderedSpec)
	exec(t, db, "DROP TABLE "+f.table)
	existing := orderedSpec
	existing.Existing = true
	_, err := db.Family(t.Context(), existing)
	require.ErrorIs(t, err, driver.ErrNoFamily)
	require.ErrorContains(t, err, "is gone")
	ended, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = db.Family(ended, existing)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	made := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() {
		_, err := db.Family(t.Context(), orderedSpec)
		made <- err
	})
	_, err = db.Family(t.Context(), existing)
	require.NoError(t, err)
	require.NoError(t, <-made)
}

// Whose clock is far from the nodes' does not begin: its writes and deletions would hide those of others.
func TestClockSkew(t *testing.T) {
	c := keyspace(t)
	db := open(t, c)
	for _, by := range []time.Duration{-time.Minute, 0, time.Minute} {
		err := db.checkClock(t.Context(), func() time.Time { return time.Now().Add(by) })
		if by == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "the clock of this machine is 1m0s")
		}
	}
	c.MaxClockSkew = 2 * time.Minute
	wide := open(t, c)
	require.NoError(t, wide.checkClock(t.Context(), func() time.Time { return time.Now().Add(time.Minute) }))
}

func TestOneDatacentre(t *testing.T) {
	c := keyspace(t)
	c.Datacentre = "datacenter1"
	f := openFamily(t, open(t, c), wideSpec)
	ok, err := f.CheckAndPut(t.Context(), []byte("row"), driver.Cell{}, driver.Cell{Value: []byte("1")})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, gocql.LocalSerial, f.db.serial)
	require.Equal(t, gocql.LocalQuorum, f.db.quorum)
	c.Datacentre = ""
	_, err = Open(t.Context(), c)
	require.ErrorIs(t, err, driver.ErrLayout)
}

func TestConsistencyThatReplicationCannotGive(t *testing.T) {
	c := keyspace(t)
	c.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": "7"}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	_, err := Open(ctx, c)
	require.NoError(t, ctx.Err())
	require.ErrorIs(t, err, driver.ErrUnavailable)
	var unavailable *gocql.RequestErrUnavailable
	require.ErrorAs(t, err, &unavailable)
	require.ErrorContains(t, err, "needs 4 replicas")
	require.ErrorContains(t, err, "start the nodes that have the others; only a keyspace without rows may get fewer copies")
}

// What only the server can refuse, it is said to be about the replication, which is shown.
func TestReplicationThatTheServerRefuses(t *testing.T) {
	for _, options := range []map[string]string{
		{"class": "NetworkTopologyStrategy", "nowhere": "3"},
		{"class": "NoSuchStrategy", "replication_factor": "1"},
	} {
		c := keyspace(t)
		c.Replication = options
		_, err := Open(t.Context(), c)
		require.ErrorContains(t, err, "make the keyspace with the replication "+given.Literal(options)+": ")
		require.NotErrorIs(t, err, driver.ErrUnavailable)
	}
}

func TestFamiliesMadeAtTheSameTime(t *testing.T) {
	c := keyspace(t)
	var wait sync.WaitGroup
	families := make([]*family, 6)
	for i := range families {
		wait.Go(func() {
			db, err := Open(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			f, err := db.Family(t.Context(), wideSpec)
			if err == nil {
				err = f.Apply(t.Context(), put("row", fmt.Sprint(i), "x"))
			}
			if err != nil {
				t.Error(err)
				return
			}
			families[i] = f.(*family)
		})
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	for _, f := range families {
		require.Equal(t, families[0].table, f.table)
	}
	cells, err := openFamily(t, open(t, c), wideSpec).Get(t.Context(), []byte("row"), driver.Slice{})
	require.NoError(t, err)
	require.Len(t, cells, len(families))
}

func TestDroppedFamily(t *testing.T) {
	db := open(t, keyspace(t))
	old := openFamily(t, db, wideSpec)
	require.NoError(t, old.Apply(t.Context(), put("row", "q", "old")))

	// Another client has marked it and died, or lacks the right DROP.
	exec(t, db, "UPDATE $rangecrypt_families SET dropping = true WHERE name = 'things' IF EXISTS")
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"things"}, names, "its data is there")

	again := openFamily(t, db, wideSpec)
	cells, err := again.Get(t.Context(), []byte("row"), driver.Slice{})
	require.NoError(t, err)
	require.Empty(t, cells)

	// The handle of the old family does not reach the new one.
	_, err = old.Get(t.Context(), []byte("row"), driver.Slice{})
	require.ErrorIs(t, err, driver.ErrNoFamily)
	require.ErrorIs(t, old.Apply(t.Context(), put("row", "q", "lost")), driver.ErrNoFamily)
	_, err = old.CheckAndPut(t.Context(), []byte("row"), driver.Cell{})
	require.ErrorIs(t, err, driver.ErrNoFamily)
	for _, err := range old.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.ErrorIs(t, err, driver.ErrNoFamily)
	}
	require.NoError(t, db.Drop(t.Context(), "things"))
	require.NoError(t, db.Drop(t.Context(), "things"))
	require.NoError(t, db.Drop(t.Context(), keyspaceRow), "no family")
	var n int
	require.NoError(t, db.session.Query("SELECT count(*) FROM system_schema.tables WHERE keyspace_name = ?", db.keyspace).Scan(&n))
	require.Equal(t, 1, n, "only the directory is left")
	for table := range db.doubts.Range {
		require.Fail(t, "something is kept of a table that is gone", table)
	}
}

// TestConditions tries all states of two cells, all expectations and all changes, against a
// model, in both layouts.
func TestConditions(t *testing.T) {
	db := open(t, keyspace(t))
	families := []*family{
		openFamily(t, db, wideSpec),
		openFamily(t, db, driver.FamilySpec{Name: "ordered", Layout: driver.LayoutOrdered, SpreadBits: 3}),
	}
	states := []*string{nil, ptr(""), ptr("1")}
	expectations := []*string{ptr("any"), nil, ptr("1"), ptr("2")} // "any" is none
	changes := []string{"none", "put", "delete"}
	type test struct{ state, expect, change [2]int }
	var all []test
	for i := range 3 * 3 * 4 * 4 * 3 * 3 {
		all = append(all, test{
			[2]int{i % 3, i / 3 % 3}, [2]int{i / 9 % 4, i / 36 % 4}, [2]int{i / 144 % 3, i / 432},
		})
	}
	require.Len(t, all, 1296)
	if testing.Short() {
		all = all[:100]
	}
	qualifiers := [2][]byte{{}, []byte("b")}
	var wait sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wait.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(all) && !t.Failed(); n = int(next.Add(1)) - 1 {
				c, f := all[n], families[n%2]
				row := []byte(fmt.Sprintf("%c row %d", n, n))
				// All writes are conditional, as the contract demands.
				var setUp, expect, puts, want []driver.Cell
				var deletes [][]byte
				holds := true
				for j, q := range qualifiers {
					state := states[c.state[j]]
					if state != nil {
						setUp = append(setUp, driver.Cell{Qualifier: q, Value: []byte(*state)})
					}
					if e := expectations[c.expect[j]]; e == nil {
						expect = append(expect, driver.Cell{Qualifier: q})
						holds = holds && state == nil
					} else if *e != "any" {
						expect = append(expect, driver.Cell{Qualifier: q, Value: []byte(*e)})
						holds = holds && state != nil && *state == *e
					}
				}
				for j, q := range qualifiers {
					after := states[c.state[j]]
					switch changes[c.change[j]] {
					case "put":
						puts = append(puts, driver.Cell{Qualifier: q, Value: []byte("new")})
						if holds {
							after = ptr("new")
						}
					case "delete":
						deletes = append(deletes, q)
						if holds {
							after = nil
						}
					}
					if after != nil {
						want = append(want, driver.Cell{Qualifier: q, Value: []byte(*after)})
					}
				}
				_, err := f.Commit(t.Context(), row, nil, setUp, nil)
				var ok bool
				if err == nil {
					ok, err = f.Commit(t.Context(), row, expect, puts, deletes)
				}
				var got []driver.Cell
				if err == nil {
					got, err = f.Get(t.Context(), row, driver.Slice{})
				}
				if err != nil || ok != holds || show(got) != show(want) {
					t.Errorf("state %v, expected %v, changes %v: %v, %v, got %s, want %v, %s", c.state, c.expect, c.change, err, ok, show(got), holds, show(want))
				}
			}
		})
	}
	wait.Wait()
}

func ptr(s string) *string { return &s }

// TestChecksWriteNothing: a condition on a cell that is not changed leaves no trace.
func TestChecksWriteNothing(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), wideSpec)
	row := []byte("row")
	_, err := f.Commit(t.Context(), row, nil, []driver.Cell{{Qualifier: []byte("a"), Value: []byte("1")}}, nil)
	require.NoError(t, err)
	written := func() (at int64) {
		require.NoError(t, f.db.session.Query("SELECT writetime(v) FROM "+f.table+" WHERE k = ? AND q = ?", row, []byte("a")).Scan(&at))
		return at
	}
	before := written()
	ok, err := f.Commit(t.Context(), row, []driver.Cell{{Qualifier: []byte("a"), Value: []byte("1")}, {Qualifier: []byte("b")}}, nil, [][]byte{[]byte("b")})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, before, written())
}

func TestTimestamps(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), wideSpec)
	ctx := t.Context()
	at := func(q string) (at int64) {
		require.NoError(t, f.db.session.Query("SELECT writetime(v) FROM "+f.table+" WHERE k = ? AND q = ?", []byte("row"), []byte(q)).Scan(&at))
		return at
	}
	// Unconditional mutations have this client's clock, here an hour ahead of the server's.
	ahead := time.Now().Add(time.Hour).UnixMicro()
	f.db.clock.After(ahead)
	require.NoError(t, f.Apply(ctx, put("row", "a", "1")))
	require.Greater(t, at("a"), ahead)
	// Conditional ones have the server's.
	_, err := f.Commit(ctx, []byte("row"), nil, []driver.Cell{{Qualifier: []byte("b"), Value: []byte("1")}}, nil)
	require.NoError(t, err)
	require.Less(t, at("b"), ahead)
	// A later mutation wins, at once and always.
	for i := range 50 {
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("row"), Deletes: [][]byte{[]byte("a")}}))
		require.NoError(t, f.Apply(ctx, put("row", "a", fmt.Sprint(i))))
	}
	cells, err := f.Get(ctx, []byte("row"), driver.Slice{})
	require.NoError(t, err)
	require.Equal(t, "a=49 b=1", show(cells))

	// A row written by a clock two hours ahead is deleted all the same.
	exec(t, f.db, "INSERT INTO "+f.table+" (k, q, v) VALUES (?, ?, ?) USING TIMESTAMP ?", []byte("row"), []byte("c"), []byte("1"), time.Now().Add(2*time.Hour).UnixMicro())
	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("row"), DeleteRow: true}))
	cells, err = f.Get(ctx, []byte("row"), driver.Slice{})
	require.NoError(t, err)
	require.Empty(t, cells)
	require.NoError(t, f.Apply(ctx, put("row", "c", "2")))
	cells, err = f.Get(ctx, []byte("row"), driver.Slice{})
	require.NoError(t, err)
	require.Equal(t, "c=2", show(cells))
}

// TestReplaceBetweenClients: a replacement comes right after what was seen, whoever wrote that and
// whatever the clocks say. Everything else that any client writes comes before or after both.
func TestReplaceBetweenClients(t *testing.T) {
	c := keyspace(t)
	mine, theirs := openFamily(t, open(t, c), orderedSpec), openFamily(t, open(t, c), orderedSpec)
	ctx := t.Context()
	theirs.db.clock.After(time.Now().Add(time.Hour).UnixMicro())
	write := func(f *family, value string) {
		m := put("row", "q", value)
		m.Puts = append(m.Puts, driver.Cell{Qualifier: []byte("r"), Value: []byte(value)})
		require.NoError(t, f.Apply(ctx, m))
	}
	read := func() []driver.Cell {
		cells, err := mine.Get(ctx, []byte("row"), driver.Slice{Stamps: true})
		require.NoError(t, err)
		require.Len(t, cells, 2)
		require.Equal(t, cells[0].Stamp, cells[1].Stamp)
		return cells
	}
	replace := func(seen driver.Cell, value string) driver.Replacement {
		m := put("row", "q", value)
		r := driver.Replacement{Row: m.Row, Seen: seen, Puts: append(m.Puts, driver.Cell{Qualifier: []byte("r"), Value: []byte(value)})}
		_, err := mine.Replace(ctx, r)
		require.NoError(t, err)
		return r
	}
	write(theirs, "1")
	seen := read()[0]
	replace(seen, "2")
	require.Equal(t, seen.Stamp+1, read()[0].Stamp)
	require.Equal(t, "q=2 r=2", show(read()))
	write(mine, "3")
	require.Equal(t, "q=3 r=3", show(read()), "a mutation after a replacement")

	// The least later timestamp that a mutation of any client can have, before and after it.
	write(theirs, "4")
	for _, first := range []bool{false, true} {
		seen = read()[0]
		if !first {
			replace(seen, "9 replaced")
		}
		for _, q := range []string{"q", "r"} {
			exec(t, mine.db, "INSERT INTO "+mine.table+" (p, k, q, v) VALUES (?, ?, ?, ?) USING TIMESTAMP ?", []byte{0, 0}, []byte("row"), []byte(q), []byte("5"), seen.Stamp+clock.Step)
		}
		if first {
			replace(seen, "9 replaced")
		}
		require.Equal(t, "q=5 r=5", show(read()))
	}

	// Two replacements of the same, by clients that do not know of each other.
	theirs.db.clock.After(seen.Stamp + clock.Step)
	write(theirs, "6")
	seen = read()[0]
	require.Equal(t, "6", string(seen.Value))
	for _, value := range []string{"7 of one", "7 of the other", "7 of a third"} {
		r := replace(seen, value)
		_, err := theirs.Replace(ctx, r)
		require.NoError(t, err)
		cells := read()
		require.Equal(t, cells[0].Value, cells[1].Value)
	}

	// What one of them puts and the other deletes is there, whichever of the two comes last.
	for _, first := range []bool{false, true} {
		write(theirs, "8")
		seen = read()[0]
		deleting := driver.Replacement{Row: []byte("row"), Seen: seen, Puts: put("row", "q", "9").Puts, Deletes: [][]byte{[]byte("r")}}
		if first {
			_, err := theirs.Replace(ctx, deleting)
			require.NoError(t, err)
			cells, err := mine.Get(ctx, []byte("row"), driver.Slice{})
			require.NoError(t, err)
			require.Equal(t, "q=9", show(cells))
		}
		replace(seen, "8 of one")
		if !first {
			_, err := theirs.Replace(ctx, deleting)
			require.NoError(t, err)
		}
		require.Equal(t, "q=9 r=8 of one", show(read()))
	}
}

func TestTimesToLive(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), orderedSpec)
	for _, c := range []struct {
		ttl  time.Duration
		want int
	}{{1500 * time.Millisecond, 2}, {time.Hour + 1, 3601}, {maxTTL, 630_720_000}} {
		m := put("row", "q", "v")
		m.Puts[0].TTL = c.ttl
		require.NoError(t, f.Apply(t.Context(), m))
		var ttl int
		require.NoError(t, f.db.session.Query("SELECT ttl(v) FROM "+f.table+" WHERE p = ? AND k = ? AND q = ?", []byte{0, 0}, []byte("row"), []byte("q")).Scan(&ttl))
		require.InDelta(t, c.want, ttl, 1)
		require.LessOrEqual(t, ttl, c.want)
	}
	m := put("row", "q", "v")
	m.Puts[0].TTL = maxTTL + 1
	require.ErrorIs(t, f.Apply(t.Context(), m), driver.ErrRange)
	// A put without one is for ever.
	require.NoError(t, f.Apply(t.Context(), put("row", "q", "v")))
	var ttl *int
	require.NoError(t, f.db.session.Query("SELECT ttl(v) FROM "+f.table+" WHERE p = ? AND k = ? AND q = ?", []byte{0, 0}, []byte("row"), []byte("q")).Scan(&ttl))
	require.Nil(t, ttl)
}

// What an operator sets on tables does not make cells end that the store keeps for ever: neither those of rows, nor of the catalogue
// and indexes, nor the entries of the directory.
func TestDefaultTimeToLive(t *testing.T) {
	db := open(t, keyspace(t))
	exec(t, db, "ALTER TABLE $rangecrypt_families WITH default_time_to_live = 1000")
	ordered, wide := openFamily(t, db, orderedSpec), openFamily(t, db, driver.FamilySpec{Name: "wide", Layout: driver.LayoutWide})
	require.NoError(t, db.AddIndex(t.Context(), orderedSpec, "ix"))
	cell := func(qualifier, value string) driver.Cell {
		return driver.Cell{Qualifier: []byte(qualifier), Value: []byte(value)}
	}
	for _, f := range []*family{ordered, wide} {
		exec(t, db, "ALTER TABLE "+f.table+" WITH default_time_to_live = 1000")
		m := driver.Mutation{Row: []byte("row"), Puts: []driver.Cell{cell("", "1"), cell("b", "1"), cell("long", "1")}}
		if f == ordered {
			m.Puts[0].Index = []driver.IndexValue{{Index: "ix", Value: []byte{1}}}
		}
		require.NoError(t, f.Apply(t.Context(), m))
		for _, expect := range [][]driver.Cell{nil, {{Qualifier: []byte("b")}}, {{Qualifier: []byte{}}, {Qualifier: []byte("long")}}} {
			done, err := f.Commit(t.Context(), []byte("conditional"), expect, []driver.Cell{cell("", "1"), cell("b", "1"), cell("long", "1")}, nil)
			require.NoError(t, err)
			require.Equal(t, expect == nil, done)
		}
		done, err := f.Commit(t.Context(), []byte("conditional"), []driver.Cell{cell("", "1"), cell("long", "1")}, []driver.Cell{cell("", "2")}, nil)
		require.NoError(t, err)
		require.True(t, done)
		cells, err := f.Get(t.Context(), []byte("row"), driver.Slice{Stamps: true})
		require.NoError(t, err)
		late, err := f.Replace(t.Context(), driver.Replacement{Row: []byte("row"), Seen: cells[0], Puts: []driver.Cell{cell("", "2")}})
		require.NoError(t, err)
		require.Empty(t, late)
	}
	for table, columns := range map[string]string{
		ordered.table: "ttl(v), ttl(ix)", wide.table: "ttl(v), ttl(h0), ttl(h1)", "$rangecrypt_families": "ttl(format), ttl(table_id)",
	} {
		rows, err := db.session.Query("SELECT " + columns + " FROM " + strings.ReplaceAll(table, "$", db.keyspace+".")).Iter().SliceMap()
		require.NoError(t, err)
		require.NotEmpty(t, rows)
		for _, row := range rows {
			for column, ttl := range row {
				require.Zero(t, ttl, "%s of %s", column, table)
			}
		}
	}
}

func TestLargeValues(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), wideSpec)
	value := bytes.Repeat([]byte{7}, driver.MaxValue)
	ok, err := f.CheckAndPut(t.Context(), []byte("SECRETROW"), driver.Cell{}, driver.Cell{Qualifier: []byte("q"), Value: value})
	require.NoError(t, err)
	require.True(t, ok)
	cells, err := f.Get(t.Context(), []byte("SECRETROW"), driver.Slice{})
	require.NoError(t, err)
	require.True(t, len(cells) == 1 && bytes.Equal(cells[0].Value, value))

	// One mutation is applied at once, or not at all.
	err = f.Apply(t.Context(), driver.Mutation{Row: []byte("SECRETROW"), Puts: []driver.Cell{
		{Qualifier: []byte("1"), Value: value}, {Qualifier: []byte("2"), Value: value}, {Qualifier: []byte("3"), Value: value},
	}})
	require.ErrorIs(t, err, driver.ErrTooLarge)
	require.ErrorContains(t, err, "a change of one row has")
	require.NotContains(t, err.Error(), "SECRETROW")
	cells, err = f.Get(t.Context(), []byte("SECRETROW"), driver.Slice{})
	require.NoError(t, err)
	require.Len(t, cells, 1)
}

// TestScansAgree compares scans with a model, with cells filtered by the server and here, over
// rows of very different lengths.
func TestScansAgree(t *testing.T) {
	db := open(t, keyspace(t))
	ctx := t.Context()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	lengths := []int{1, 2, 3, 5, wideCells - 1, wideCells, wideCells + 1, 3 * firstPage, maxPage, maxPage + 1}
	for _, spec := range []driver.FamilySpec{
		{Name: "one", Layout: driver.LayoutOrdered},
		{Name: "spread", Layout: driver.LayoutOrdered, SpreadBits: 6},
		{Name: "wide", Layout: driver.LayoutWide},
	} {
		f := openFamily(t, db, spec)
		var rows []driver.Row
		for i := range 60 {
			n := lengths[rng.IntN(len(lengths))]
			if i%4 != 0 {
				n = min(n, 5)
			}
			row := driver.Row{Key: []byte{byte(4 * i), byte(rng.IntN(256)), byte(i)}}
			for j := range n {
				row.Cells = append(row.Cells, driver.Cell{Qualifier: []byte(fmt.Sprintf("%04d", j)), Value: []byte{byte(i), byte(j)}})
			}
			rows = append(rows, row)
			require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row.Key, Puts: row.Cells}))
		}
		found := 0
		for range 80 {
			var r driver.Range
			r.AnyOrder = spec.Layout == driver.LayoutWide || rng.IntN(4) == 0
			if rng.IntN(2) == 0 {
				r.Start = rows[rng.IntN(60)].Key[:1+rng.IntN(3)]
			}
			if rng.IntN(2) == 0 {
				r.End = rows[rng.IntN(60)].Key[:1+rng.IntN(3)]
			}
			if rng.IntN(3) == 0 {
				r.Limit = 1 + rng.IntN(30)
			}
			r.Reverse = !r.AnyOrder && rng.IntN(2) == 0
			at := func() []byte {
				return []byte(fmt.Sprintf("%04d", []int{0, 1, 2, 4, 60, 64, 100, 1000, 1023}[rng.IntN(9)]))
			}
			switch rng.IntN(4) {
			case 0:
				r.Cells.Only = [][]byte{at()}
			case 1:
				r.Cells.Only = [][]byte{at(), at(), at()}
			case 2:
				r.Cells.Start, r.Cells.End = at(), at()
			}
			here := rng.IntN(2) == 0

			want := map[string]string{}
			var order []string
			for _, row := range rows {
				var kept []driver.Cell
				for _, c := range row.Cells {
					if r.Cells.Contains(c.Qualifier) {
						kept = append(kept, c)
					}
				}
				if len(kept) > 0 && bytes.Compare(r.Start, row.Key) <= 0 && (r.End == nil || bytes.Compare(row.Key, r.End) < 0) {
					want[string(row.Key)] = show(kept)
					order = append(order, string(row.Key))
				}
			}
			if r.Reverse {
				slices.Reverse(order)
			}
			var got []string
			scanCtx, cancel := context.WithCancel(ctx)
			s := &scan{f: f, r: r, ctx: scanCtx, pages: scanCtx}
			s.filtering.Store(here || f.db.noIn && len(r.Cells.Only) > 1)
			if err := error(nil); !r.Empty() && !r.Cells.Empty() {
				err = s.run(func(row driver.Row, err error) bool {
					require.NoError(t, err)
					require.Equal(t, want[string(row.Key)], show(row.Cells), "%+v", r)
					got = append(got, string(row.Key))
					return true
				})
				require.NoError(t, err)
			}
			cancel()
			s.wait.Wait()
			n := len(order)
			if r.Limit > 0 {
				n = min(n, r.Limit)
			}
			if r.AnyOrder {
				require.Len(t, got, n, "%+v", r)
				slices.Sort(got)
				require.Len(t, slices.Compact(got), n, "each once")
			} else {
				require.Equal(t, append([]string{}, order[:n]...), append([]string{}, got...), "%+v here %v", r, here)
			}
			found += n
		}
		require.NotZero(t, found)
	}
}

// A counter counts queries.
type counter struct{ n atomic.Int64 }

func (c *counter) ObserveQuery(context.Context, gocql.ObservedQuery) { c.n.Add(1) }

func TestBringYourOwnSession(t *testing.T) {
	c := keyspace(t)
	var count counter
	cluster := connection(t).Cluster()
	cluster.QueryObserver = &count
	s, err := cluster.CreateSession()
	require.NoError(t, err)
	defer s.Close()
	db, err := New(t.Context(), s, c.Options)
	require.NoError(t, err)
	f := openFamily(t, db, driver.FamilySpec{Name: "spread", Layout: driver.LayoutOrdered, SpreadBits: 8})
	var all []driver.Mutation
	for i := range 5000 {
		all = append(all, put(string([]byte{byte(i >> 8), byte(i)})+"row", "q", "v"))
	}
	require.NoError(t, f.Apply(t.Context(), all...))

	queries := func(stop int) int64 {
		before := count.n.Load()
		n := 0
		for _, err := range f.Scan(t.Context(), driver.Range{}) {
			require.NoError(t, err)
			if n++; n == stop {
				break
			}
		}
		return count.n.Load() - before
	}
	require.LessOrEqual(t, queries(1), int64(2), "a scan that stops has read no more than a page ahead")
	all256 := queries(0)
	require.GreaterOrEqual(t, all256, int64(256), "each bucket is read")
	require.Less(t, all256, int64(300))

	before := count.n.Load()
	for row, err := range f.Scan(t.Context(), driver.Range{Start: []byte{3}, End: []byte{4}, Limit: 1}) {
		require.NoError(t, err)
		require.Equal(t, []byte("\x03\x00row"), row.Key)
	}
	require.Equal(t, before+1, count.n.Load(), "one bucket, one page")

	require.NoError(t, db.Close())
	require.False(t, s.Closed(), "it is the caller's")
}

func TestLargestPartition(t *testing.T) {
	db := open(t, keyspace(t))
	f := openFamily(t, db, driver.FamilySpec{Name: "spread", Layout: driver.LayoutOrdered, SpreadBits: 4})
	require.NoError(t, f.Apply(t.Context(), put("\x00a", "q", "v")))
	_, table, _ := strings.Cut(f.table, ".")
	size, err := db.largestPartition(t.Context(), table)
	require.NoError(t, err)
	require.Zero(t, size, "the table has never been flushed")
	f.warnOfSize()
}

func TestLogsHaveNoKeys(t *testing.T) {
	c := keyspace(t)
	var log recorder
	c.Logger = log.logger()
	f := openFamily(t, open(t, c), wideSpec)
	require.NoError(t, f.Apply(t.Context(), put("SECRETROW", "SECRETCOLUMN", "SECRETVALUE")))
	_, err := f.Get(t.Context(), []byte("SECRETROW"), driver.Slice{})
	require.NoError(t, err)
	require.Contains(t, log.text(), "from=gocql")
	require.NotContains(t, log.text(), "SECRET")
}

// TestServerGone: whatever is under way when the server goes ends with a typed error within its
// deadline, and goes on when the server is back.
func TestServerGone(t *testing.T) {
	c := keyspace(t)
	c.Timeout = 2 * time.Second
	p := through(t, &c)
	f := openFamily(t, open(t, c), wideSpec)
	row := []byte("row")
	_, err := f.CheckAndPut(t.Context(), row, driver.Cell{}, driver.Cell{Value: []byte("1")})
	require.NoError(t, err)
	require.NoError(t, f.Apply(t.Context(), put("other", "q", "0")))

	many := openFamily(t, f.db, driver.FamilySpec{Name: "many", Layout: driver.LayoutOrdered})
	calls := map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error {
			_, err := f.Get(ctx, row, driver.Slice{})
			return err
		},
		"GetBatch": func(ctx context.Context) error {
			_, err := many.GetBatch(ctx, [][]byte{row, []byte("other")}, driver.Slice{})
			return err
		},
		"Scan": func(ctx context.Context) error {
			for _, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Apply": func(ctx context.Context) error { return f.Apply(ctx, put("other", "q", "1")) },
		"Family": func(ctx context.Context) error {
			_, err := f.db.Family(ctx, wideSpec)
			return err
		},
	}
	check := func(ctx context.Context) (bool, error) {
		return f.CheckAndPut(ctx, row, driver.Cell{Value: []byte("1")}, driver.Cell{Value: []byte("2")})
	}

	// The server is silent.
	p.Set(proxy.Weather{Drop: proxy.ToClient})
	for name, call := range calls {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.Less(t, time.Since(start), 2*time.Second, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	_, err = check(ctx)
	cancel()
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	inDoubt := func(f *family) bool {
		_, in := f.doubt.Has(row)
		return in
	}
	require.True(t, inDoubt(f))
	require.ErrorIs(t, calls["Apply"](t.Context()), driver.ErrUnavailable, "gocql's own timeout")

	// The server is gone.
	p.Set(proxy.Weather{Refuse: true})
	p.Cut()
	for name, call := range calls {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, driver.ErrUnavailable, name)
		require.Less(t, time.Since(start), 8*time.Second, name)
	}
	_, err = check(t.Context())
	require.True(t, errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknownOutcome), "%v", err)
	for i := range doubt.Max {
		f.doubt.Add(fmt.Append(nil, "doubtful", i))
	}
	_, err = check(t.Context())
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotErrorIs(t, err, driver.ErrUnknownOutcome, "so many rows are in doubt that no further change is sent")

	// It is back: the interrupted load resumes, and a read settles the row.
	p.Set(proxy.Weather{})
	require.Eventually(t, func() bool { return calls["Apply"](t.Context()) == nil }, 30*time.Second, 100*time.Millisecond)
	again := openFamily(t, f.db, wideSpec)
	require.True(t, inDoubt(again), "the doubt is the client's, not the handle's")
	cells, err := again.Get(t.Context(), row, driver.Slice{})
	require.NoError(t, err)
	require.Equal(t, "=2", show(cells), "the server had the change before it fell silent")
	require.False(t, inDoubt(f))
	left := func() (n int) {
		for i := range doubt.Max {
			if _, in := f.doubt.Has(fmt.Append(nil, "doubtful", i)); in {
				n++
			}
		}
		return n
	}
	for range 3 {
		ok, err := check(t.Context())
		require.NoError(t, err)
		require.False(t, ok, "not twice")
		require.Equal(t, doubt.Max-1, left(), "a change settles a row first as long as there are too many")
	}
}

// TestManyUnknownOutcomes: counters that are incremented by conditional changes while answers
// get lost count each increment that was acknowledged, once, and no other more than once.
func TestManyUnknownOutcomes(t *testing.T) {
	c := keyspace(t)
	p := through(t, &c)
	f := openFamily(t, open(t, c), wideSpec)
	row := []byte("row")
	_, err := f.CheckAndPut(t.Context(), row, driver.Cell{}, driver.Cell{Value: []byte("0")})
	require.NoError(t, err)
	acknowledged, unknown, value := 0, 0, 0
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if i%6 == 3 {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			p.Set(proxy.Weather{Drop: proxy.ToClient})
		}
		ok, err := f.CheckAndPut(ctx, row, driver.Cell{Value: fmt.Append(nil, value)}, driver.Cell{Value: fmt.Append(nil, value+1)})
		cancel()
		if i%6 == 3 {
			p.Set(proxy.Weather{})
			p.Cut() // a connection that has lost an answer gets no others
		}
		switch {
		case errors.Is(err, driver.ErrUnknownOutcome):
			unknown++
		case err != nil:
			require.ErrorIs(t, err, driver.ErrUnavailable)
		case ok:
			acknowledged++
		}
		require.Eventually(t, func() bool {
			cells, err := f.Get(t.Context(), row, driver.Slice{})
			if err != nil {
				return false
			}
			_, err = fmt.Sscan(string(cells[0].Value), &value)
			require.NoError(t, err)
			return true
		}, 30*time.Second, 50*time.Millisecond)
	}
	require.NotZero(t, unknown)
	require.GreaterOrEqual(t, value, acknowledged)
	require.LessOrEqual(t, value, acknowledged+unknown)
}

// What was read with its stamps loses to what is written after, whatever the clocks say.
func TestWritesWinOverWhatWasRead(t *testing.T) {
	c := keyspace(t)
	stamps := driver.Slice{Stamps: true}
	reads := map[string]func(*family) error{
		"Get": func(f *family) error { _, err := f.Get(t.Context(), []byte("a"), stamps); return err },
		"GetBatch": func(f *family) error {
			_, err := f.GetBatch(t.Context(), [][]byte{[]byte("a"), []byte("b")}, stamps)
			return err
		},
		"Scan": func(f *family) error {
			for _, err := range f.Scan(t.Context(), driver.Range{Cells: stamps}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, read := range reads {
		theirs := openFamily(t, open(t, c), orderedSpec)
		theirs.db.clock.After(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, theirs.Apply(t.Context(), put("a", "", name), put("b", "", name)))
		mine := openFamily(t, open(t, c), orderedSpec)
		require.NoError(t, mine.Apply(t.Context(), put("a", "", "lost")))
		cells, err := mine.Get(t.Context(), []byte("a"), driver.Slice{})
		require.NoError(t, err)
		require.Equal(t, "="+name, show(cells), "a slower clock loses where nothing was read")
		require.NoError(t, read(mine))
		require.NoError(t, mine.Apply(t.Context(), put("a", "", "mine")))
		require.NoError(t, mine.Apply(t.Context(), driver.Mutation{Row: []byte("b"), DeleteRow: true}))
		cells, err = mine.Get(t.Context(), []byte("a"), driver.Slice{})
		require.NoError(t, err)
		require.Equal(t, "=mine", show(cells), name)
		cells, err = mine.Get(t.Context(), []byte("b"), driver.Slice{})
		require.NoError(t, err)
		require.Empty(t, cells, name)
	}
}

// Where two clients write a row with one timestamp, the cell may be of the one and what an index has of the other: of each the
// greater is left, and none is greater than any. Whoever relies on indexes reads what it has written.
func TestOneTimestampMixesCellsAndIndexes(t *testing.T) {
	c := keyspace(t)
	ctx, mine, theirs := t.Context(), open(t, c), open(t, c)
	f := openFamily(t, mine, orderedSpec)
	require.NoError(t, mine.AddIndex(ctx, orderedSpec, "ix"))
	g := openFamily(t, theirs, orderedSpec)
	put := func(f *family, value string, index []byte) {
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("row"), Puts: []driver.Cell{{Qualifier: []byte{}, Value: []byte(value), Index: []driver.IndexValue{{Index: "ix", Value: index}}}}}))
	}
	for _, test := range []struct{ a, b, left []byte }{
		{[]byte{1}, []byte{2}, []byte{2}}, {[]byte{2}, []byte{1}, []byte{2}}, {[]byte{1}, nil, nil}, {nil, []byte{1}, nil},
	} {
		at := max(mine.clock.Next(), theirs.clock.After(time.Now().Add(time.Minute).UnixMicro()))
		mine.clock.See([]driver.Cell{{Stamp: at}})
		theirs.clock.See([]driver.Cell{{Stamp: at}})
		put(f, "b", test.a)
		put(g, "a", test.b)
		cells, err := f.Get(ctx, []byte("row"), driver.Slice{Stamps: true, Indexes: []string{"ix"}})
		require.NoError(t, err)
		require.Equal(t, at+clock.Step, cells[0].Stamp)
		require.Equal(t, "b", string(cells[0].Value))
		require.Equal(t, test.left, cells[0].Index[0].Value)
	}
}

// What the server refuses, as a guardrail does, has its words, and the column that was made for it is gone again.
func TestRefusedIndexLeavesNoColumn(t *testing.T) {
	db := open(t, keyspace(t))
	f := openFamily(t, db, orderedSpec)
	exec(t, db, "ALTER TABLE "+f.table+" ADD ix blob") // of which it makes no index
	err := db.AddIndex(t.Context(), orderedSpec, "ix")
	require.ErrorIs(t, err, driver.ErrNoIndex)
	require.ErrorContains(t, err, "the server refuses it: Unsupported type: blob")
	require.Equal(t, f.table, openFamily(t, db, orderedSpec).table, "the family can be opened")
	require.NoError(t, db.AddIndex(t.Context(), orderedSpec, "iy"))
}

// A row that is to be decided is read as one that this client has changed without learning the outcome.
func TestDecidedReads(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), wideSpec)
	require.True(t, driver.Describe(f.db).Undecided)
	row, cell := []byte("row"), driver.Cell{Qualifier: []byte{}, Value: []byte("1")}
	_, err := f.CheckAndPut(t.Context(), row, driver.Cell{Qualifier: []byte{}}, cell)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	f.doubt.Turn <- struct{}{}
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = f.Get(ctx, row, driver.Slice{Decided: true})
	require.ErrorIs(t, err, context.Canceled, "it waits for its turn to read at SERIAL")
	<-f.doubt.Turn
	_, in := f.doubt.Has(row)
	require.True(t, in)
	cells, err := f.Get(t.Context(), row, driver.Slice{Decided: true})
	require.NoError(t, err)
	require.Equal(t, []driver.Cell{cell}, cells)
	_, in = f.doubt.Has(row)
	require.False(t, in)
}

// A mutation that counts as made earlier loses to all that is later, whichever comes first.
func TestMutationsAsOf(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), orderedSpec)
	require.True(t, driver.Describe(f.db).Backdates)
	ctx, before := t.Context(), time.Now().Add(-time.Hour)
	cells := func(value string) []driver.Cell {
		return []driver.Cell{{Qualifier: []byte("q"), Value: []byte(value)}, {Qualifier: []byte("r"), Value: []byte(value)}}
	}
	earlier := func(row string) {
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte(row), Puts: cells("earlier"), Deletes: [][]byte{[]byte("s")}, AsOf: before},
			driver.Mutation{Row: []byte(row + " too"), Puts: cells("earlier"), AsOf: before}))
	}
	now := func(row string) {
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte(row), Puts: append(cells("now"), driver.Cell{Qualifier: []byte("s"), Value: []byte("now")})}))
	}
	get := func(row string) (values []string) {
		found, err := f.Get(ctx, []byte(row), driver.Slice{})
		require.NoError(t, err)
		for _, c := range found {
			values = append(values, string(c.Value))
		}
		return values
	}
	earlier("a")
	require.Equal(t, []string{"earlier", "earlier"}, get("a"))
	require.Equal(t, []string{"earlier", "earlier"}, get("a too"))
	now("a")
	require.Equal(t, []string{"now", "now", "now"}, get("a"))
	earlier("a")
	require.Equal(t, []string{"now", "now", "now"}, get("a"))
	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("b"), DeleteRow: true}))
	earlier("b")
	require.Empty(t, get("b"))
	now("b")
	require.Len(t, get("b"), 3)

	for _, spec := range []driver.FamilySpec{orderedSpec, wideSpec} {
		f := openFamily(t, open(t, keyspace(t)), spec)
		change := func(row string, m driver.Mutation) {
			m.Row = []byte(row)
			require.NoError(t, f.Apply(ctx, m))
		}
		for _, row := range []string{"later", "earlier"} {
			change(row, driver.Mutation{Puts: cells("earliest"), AsOf: before.Add(-time.Hour)})
		}
		change("later", driver.Mutation{Puts: cells("now")[:1]})
		for _, row := range []string{"later", "earlier"} {
			change(row, driver.Mutation{DeleteRow: true, AsOf: before})
		}
		found, err := f.Get(ctx, []byte("later"), driver.Slice{})
		require.NoError(t, err)
		require.Len(t, found, 1, "what was put later stays, in rows of layout %d", spec.Layout)
		found, err = f.Get(ctx, []byte("earlier"), driver.Slice{})
		require.NoError(t, err)
		require.Empty(t, found)
		for _, asOf := range []time.Time{time.Unix(0, 0), time.Unix(0, 7000), time.Unix(-1, 0), time.Date(1, 2, 3, 4, 5, 6, 7, time.UTC)} {
			change("later", driver.Mutation{Puts: cells("ages ago"), AsOf: asOf})
			change("later", driver.Mutation{Deletes: [][]byte{[]byte("q")}, AsOf: asOf})
		}
		found, err = f.Get(ctx, []byte("later"), driver.Slice{Only: [][]byte{[]byte("q")}})
		require.NoError(t, err)
		require.Equal(t, "now", string(found[0].Value))
	}
}

// The first statement of Open meets silence, and so does the session's own look at its connection, which the end of a session waits for.
func TestSilenceAfterConnecting(t *testing.T) {
	c := keyspace(t)
	if c.TLS != nil {
		t.Skip("the proxy reads what is sent")
	}
	var p *proxy.Proxy
	p = proxy.New(func(_ int, to proxy.Direction, b []byte) {
		if to == proxy.ToServer && bytes.Contains(b, []byte("SELECT replication FROM")) {
			p.Set(proxy.Weather{Hold: proxy.BothWays})
		}
	})
	t.Cleanup(p.Close)
	c.Dial, c.Timeout = p.Dial, 30*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	_, err := Open(ctx, c)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 20*time.Second)
}
