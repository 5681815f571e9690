package cassandra

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/doubt"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/hooks"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// These tests need no server.

var (
	orderedSpec = driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered}
	wideSpec    = driver.FamilySpec{Name: "things", Layout: driver.LayoutWide}
)

func TestBucketsKeepOrder(t *testing.T) {
	for bits := range 17 {
		before := -1
		for n := range 1 << 16 {
			b := bucket([]byte{byte(n >> 8), byte(n), 0xab}, bits)
			if b < before || b >= 1<<bits {
				t.Fatalf("%d bits: bucket %d after %d", bits, b, before)
			}
			before = b
		}
		require.Equal(t, 1<<bits-1, before, "the last bucket is used")
		require.Zero(t, bucket(nil, bits))
		require.Equal(t, bucket([]byte{0x81, 0}, bits), bucket([]byte{0x81}, bits), "a short key is continued with zeros")
	}
}

// TestBucketsOfARange compares with all keys of up to two bytes out of a few.
func TestBucketsOfARange(t *testing.T) {
	alphabet := []byte{0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xff}
	keys := [][]byte{nil, {}}
	for _, a := range alphabet {
		keys = append(keys, []byte{a})
		for _, b := range alphabet {
			keys = append(keys, []byte{a, b}, []byte{a, b, 0})
		}
	}
	for _, bits := range []int{0, 1, 2, 3, 8, 9, 16} {
		for _, start := range keys {
			for _, end := range keys {
				first, last := buckets(start, end, bits)
				low, high := 1<<bits, -1
				for _, k := range keys[1:] {
					if bytes.Compare(start, k) <= 0 && (end == nil || bytes.Compare(k, end) < 0) {
						b := bucket(k, bits)
						low, high = min(low, b), max(high, b)
					}
				}
				if high >= 0 {
					require.LessOrEqual(t, first, low, "%x %x", start, end)
					require.GreaterOrEqual(t, last, high, "%x %x", start, end)
				}
				if end != nil && bytes.Compare(start, end) < 0 {
					// No bucket is read that lies above the end as a whole.
					require.Less(t, string(bytes.TrimRight([]byte{byte(last << (16 - bits) >> 8), byte(last << (16 - bits))}, "\x00")), string(end))
				}
			}
		}
	}
}

func TestPartitions(t *testing.T) {
	row := []byte{0xaa, 0xbb, 0xc1, 0xd2, 0xe3}
	for _, c := range []struct {
		prefix, bits int
		want         []byte
	}{
		{0, 0, []byte{0, 0}},
		{0, 1, []byte{0, 1}},
		{0, 16, []byte{0xaa, 0xbb}},
		{2, 0, []byte{0xaa, 0xbb, 0, 0}},
		{2, 4, []byte{0xaa, 0xbb, 0, 0xc}},
		{2, 12, []byte{0xaa, 0xbb, 0x0c, 0x1d}},
		{5, 8, []byte{0xaa, 0xbb, 0xc1, 0xd2, 0xe3, 0, 0}},
	} {
		spec := driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered, PrefixBytes: c.prefix, SpreadBits: c.bits}
		require.Equal(t, c.want, partition(spec, row), "%+v", c)
	}
	require.Equal(t, row, partition(wideSpec, row))
}

// TestIndexValues: what a column of a server index holds is read, whatever somebody else wrote to it.
func TestIndexValues(t *testing.T) {
	for _, value := range [][]byte{nil, {0}, {0, 0, 5}, bytes.Repeat([]byte{255}, driver.MaxIndexValue)} {
		require.Equal(t, driver.IndexValue{Index: "i", Value: value}, indexValue("i", number(value)))
	}
	require.Equal(t, driver.IndexValue{Index: "i", Value: []byte{}}, indexValue("i", new(big.Int)))
}

// TestBoundsAreShortened: a long bound and the shortened one have the same keys on each side.
func TestBoundsAreShortened(t *testing.T) {
	key := bytes.Repeat([]byte{7}, driver.MaxRowKey)
	for _, tail := range []string{"", "\x00", "\x00\x00\x00", "\xff\xff", "\x07\x07"} {
		long := append(bytes.Clone(key), tail...)
		for _, k := range [][]byte{key, key[:5], {8}, {7, 8}, append(bytes.Clone(key[:len(key)-1]), 8), append(bytes.Clone(key[:len(key)-1]), 6)} {
			require.Equal(t, bytes.Compare(k, long) < 0, bytes.Compare(k, bound(long)) < 0)
		}
	}
	require.Len(t, bound(make([]byte, 1<<17)), driver.MaxRowKey+1)
}

func TestStatements(t *testing.T) {
	db := &DB{keyspace: "ks"}
	f := newFamily(db, orderedSpec, "things_abc")
	require.Equal(t, "INSERT INTO ks.things_abc (p, k, q, v) VALUES (?, ?, ?, ?) USING TTL ?", f.put)
	require.Equal(t, "DELETE FROM ks.things_abc WHERE p = ? AND k = ? AND q = ?", f.deleteCell)
	require.Equal(t, "DELETE FROM ks.things_abc WHERE p = ? AND k = ?", f.deleteRow)
	require.Equal(t, "UPDATE ks.things_abc USING TTL 0 SET v = ? WHERE p = ? AND k = ? AND q = ? IF v = ?", f.cas)
	f = newFamily(db, wideSpec, "things_abc")
	require.Equal(t, "INSERT INTO ks.things_abc (k, q, v) VALUES (?, ?, ?) USING TTL ?", f.put)
	require.Equal(t, "DELETE FROM ks.things_abc WHERE k = ? AND q = ? IF v = ?", f.casDelete)
	require.Equal(t, "DELETE FROM ks.things_abc WHERE k = ?", f.deleteRow)
	require.Equal(t, "INSERT INTO ks.things_abc (k, q, v, h1) VALUES (?, ?, ?, ?) USING TTL ?", f.headPut[1])
	require.Equal(t, "UPDATE ks.things_abc USING TTL 0 SET v = ?, h0 = ? WHERE k = ? AND q = ? IF v = ?", f.headCAS[0])
	require.Equal(t, "DELETE h1 FROM ks.things_abc WHERE k = ?", f.headDelete[1])

	for _, c := range []struct {
		r    driver.Range
		want string
		n    int
	}{
		{driver.Range{}, "p = ? LIMIT ?", 2},
		{driver.Range{Start: []byte("a"), End: []byte("b")}, "p = ? AND k >= ? AND k < ? LIMIT ?", 4},
		{driver.Range{Start: []byte("a"), Reverse: true}, "p = ? AND k >= ? ORDER BY k DESC, q DESC LIMIT ?", 3},
		{driver.Range{Cells: driver.Slice{Only: [][]byte{nil}}}, "p = ? AND q = ? LIMIT ? ALLOW FILTERING", 3},
		{driver.Range{Cells: driver.Slice{Only: [][]byte{nil, nil}}}, "p = ? AND q IN ? LIMIT ? ALLOW FILTERING", 3},
		{driver.Range{Cells: driver.Slice{Start: []byte("a"), End: []byte("b")}}, "p = ? AND q >= ? AND q < ? LIMIT ? ALLOW FILTERING", 4},
	} {
		s := &scan{f: newFamily(db, orderedSpec, "things_abc"), r: c.r}
		stmt, values := s.selectOrdered(cursor{part: []byte{0, 0}, lower: c.r.Start, upper: c.r.End}, 10, false)
		require.Equal(t, "SELECT k, q, v FROM ks.things_abc WHERE "+c.want, stmt)
		require.Len(t, values, c.n)
	}
}

// TestReplacementsDeleteWhatWasSeen: of a put and a deletion with one timestamp the deletion would win,
// also over what another replacement puts.
func TestReplacementsDeleteWhatWasSeen(t *testing.T) {
	for _, spec := range []driver.FamilySpec{orderedSpec, wideSpec} {
		f := newFamily(&DB{keyspace: "ks"}, spec, "things_abc")
		const seen = int64(1 << 50)
		m := driver.Mutation{
			Row: []byte("row"), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}, {Qualifier: []byte{0}, Value: []byte("v")}},
			Deletes: [][]byte{[]byte("r"), {}},
		}
		stamps := make(map[string][]int64) // by the first word
		for _, b := range f.batches([]driver.Mutation{m}, []int64{seen + 1}) {
			_, one := b.stamp()
			require.False(t, one)
			f.statements(b, one, func(stmt string, values []any) {
				require.Regexp(t, ` USING (TTL \? AND )?TIMESTAMP \?`, stmt)
				require.Len(t, values, strings.Count(stmt, "?"))
				// Behind what is put, and in front of the key of what is deleted.
				kind, _, _ := strings.Cut(stmt, " ")
				at := values[0]
				if kind == "INSERT" {
					at = values[len(values)-1]
				}
				stamps[kind] = append(stamps[kind], at.(int64))
			})
		}
		require.ElementsMatch(t, []string{"INSERT", "DELETE"}, slices.Collect(maps.Keys(stamps)))
		for kind, all := range stamps {
			for _, stamp := range all {
				require.Equal(t, map[string]int64{"INSERT": seen + 1, "DELETE": seen}[kind], stamp)
			}
		}
	}
}

// TestOneStamp: what is only put, with one timestamp, needs no timestamps of its own.
func TestOneStamp(t *testing.T) {
	f := newFamily(&DB{keyspace: "ks"}, driver.FamilySpec{Layout: driver.LayoutOrdered, PrefixBytes: 1}, "things_abc")
	puts := []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}, {Qualifier: []byte("r"), Value: []byte("v")}}
	one := driver.Mutation{Row: []byte("row"), Puts: puts}
	other := driver.Mutation{Row: []byte("rows"), Puts: puts}
	for _, c := range []struct {
		mutations []driver.Mutation
		stamps    []int64
		want      int64
		one       bool
	}{
		{[]driver.Mutation{one}, []int64{9}, 9, true},
		{[]driver.Mutation{one, other}, []int64{9, 9}, 9, true},
		{[]driver.Mutation{one, other}, []int64{9, 17}, 0, false},
		{[]driver.Mutation{one}, nil, 0, true},
	} {
		all := f.batches(c.mutations, c.stamps)
		require.Len(t, all, 1)
		stamp, is := all[0].stamp()
		require.Equal(t, c.want, stamp)
		require.Equal(t, c.one, is)
	}
}

// TestSmallBatchesGoTogether: as many as the server takes without a warning, of one timestamp.
func TestSmallBatchesGoTogether(t *testing.T) {
	ordered := driver.FamilySpec{Layout: driver.LayoutOrdered, PrefixBytes: 1}
	rows := func(n, size int) (all []driver.Mutation) {
		for i := range n {
			all = append(all, driver.Mutation{Row: []byte{byte(i), 'r'}, Puts: []driver.Cell{{Value: make([]byte, size)}}})
		}
		return all
	}
	replaced := rows(2, 100)
	replaced[0].Deletes = [][]byte{[]byte("r")}
	for name, c := range map[string]struct {
		spec      driver.FamilySpec
		mutations []driver.Mutation
		stamps    []int64
		want      []int // batches of each request
	}{
		"few":                {ordered, rows(3, 100), nil, []int{3}},
		"many":               {ordered, rows(25, 100), nil, []int{10, 10, 5}},
		"longer":             {ordered, rows(4, 1500), nil, []int{2, 2}},
		"long":               {ordered, rows(2, 4000), nil, []int{1, 1}},
		"nothing":            {ordered, []driver.Mutation{{Row: []byte("a")}, {Row: []byte("b")}}, nil, nil},
		"wide":               {driver.FamilySpec{Layout: driver.LayoutWide}, rows(2, 100), nil, []int{1, 1}},
		"made earlier":       {ordered, rows(2, 100), []int64{8, 8}, []int{2}},
		"of different times": {ordered, rows(3, 100), []int64{8, 16, 16}, []int{1, 2}},
		"of two times each":  {ordered, replaced, []int64{8, 8}, []int{1, 1}},
	} {
		f := newFamily(&DB{keyspace: "ks"}, c.spec, "things_abc")
		var got []int
		for _, request := range f.together(f.batches(c.mutations, c.stamps)) {
			got = append(got, len(request))
		}
		require.Equal(t, c.want, got, name)
	}
}

// TestConditionsNameEachCellOnce: in a batch, whose statements have one timestamp, a delete would
// win over a put.
func TestConditionsNameEachCellOnce(t *testing.T) {
	f := newFamily(&DB{keyspace: "ks"}, orderedSpec, "things_abc")
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.Permutation([]string{"", "a", "b", "c", "d"}).Draw(t, "names")
		nPut := rapid.IntRange(0, 5).Draw(t, "puts")
		nDelete := rapid.IntRange(0, 5-nPut).Draw(t, "deletes")
		var puts []driver.Cell
		for _, q := range names[:nPut] {
			puts = append(puts, driver.Cell{Qualifier: []byte(q), Value: []byte("new")})
		}
		var deletes [][]byte
		for _, q := range names[nPut : nPut+nDelete] {
			deletes = append(deletes, []byte(q))
		}
		var expect []driver.Cell
		for _, q := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 5, rapid.ID[string]).Draw(t, "expect") {
			e := driver.Cell{Qualifier: []byte(q)}
			if rapid.Bool().Draw(t, "present") {
				e.Value = []byte("old")
			}
			expect = append(expect, e)
		}
		statements, possible := f.conditions([]byte{0, 0}, []byte("row"), expect, puts, deletes)
		require.True(t, possible)
		seen, conditions := map[string]bool{}, 0
		for _, s := range statements {
			require.Equal(t, strings.Count(s.Stmt, "?"), len(s.Args))
			require.True(t, s.Idempotent, "or gocql does not ask hooks.Elsewhere")
			at := 2 // of the qualifier among the values
			if strings.HasPrefix(s.Stmt, "UPDATE") {
				at = 3
			}
			q := string(s.Args[at].([]byte))
			if strings.Contains(s.Stmt, " IF ") {
				conditions++
			}
			if strings.HasSuffix(s.Stmt, "!= ?") { // writes nothing
				require.Equal(t, gocql.UnsetValue, s.Args[0])
				continue
			}
			require.False(t, seen[q], "cell %q named twice", q)
			seen[q] = true
		}
		require.Equal(t, max(len(expect), min(1, nPut+nDelete)), max(conditions, len(expect)))
		require.GreaterOrEqual(t, conditions, len(expect))
	})

	a := []byte("a")
	_, possible := f.conditions(nil, a, []driver.Cell{{Qualifier: a}, {Qualifier: a, Value: a}}, nil, nil)
	require.False(t, possible, "two values of one cell")
	statements, possible := f.conditions(nil, a, []driver.Cell{{Qualifier: a, Value: a}, {Qualifier: a, Value: a}}, nil, nil)
	require.True(t, possible)
	require.Len(t, statements, 1)
}

func TestBatchesAreBounded(t *testing.T) {
	f := newFamily(&DB{}, driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered, SpreadBits: 2}, "t")
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 10, 1000, batchBytes / 2, batchBytes, 2 * batchBytes}), 1, 600).Draw(t, "sizes")
		value := make([]byte, 2*batchBytes)
		var all []driver.Mutation
		for i, n := range sizes {
			all = append(all, driver.Mutation{Row: []byte{byte(i * 37), byte(i >> 8), byte(i)}, Puts: []driver.Cell{{Value: value[:n]}}})
		}
		total := 0
		for _, b := range f.batches(all, nil) {
			statements, size := 0, 0
			for _, m := range b.mutations {
				require.Equal(t, b.part, partition(f.spec, m.Row), "one partition")
				n, s := f.weigh(m)
				statements, size = statements+n, size+s
			}
			total += len(b.mutations)
			if len(b.mutations) > 1 {
				require.LessOrEqual(t, statements, batchStatements)
				require.LessOrEqual(t, size, batchBytes)
			}
		}
		require.Equal(t, len(all), total)
	})
}

func TestStatementsOfManyRows(t *testing.T) {
	f := newFamily(&DB{}, driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered, PrefixBytes: 1, SpreadBits: 2}, "t")
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfNDistinct(rapid.SliceOfN(rapid.Byte(), 1, 3), 0, 300, func(row []byte) string { return string(row) }).Draw(t, "rows")
		doubtful := rapid.IntRange(0, len(rows)).Draw(t, "in doubt")
		f.doubt = doubt.New()
		for _, row := range rows[:doubtful] {
			f.doubt.Add(row)
		}
		most := rapid.IntRange(1, batchKeys).Draw(t, "most")
		open := make(map[string]int) // statements that are not full, by partition
		var read [][]byte
		for _, keys := range f.statementsOf(rows, most) {
			part := partition(f.spec, keys[0])
			for _, key := range keys {
				require.Equal(t, part, partition(f.spec, key), "one partition")
				_, inDoubt := f.doubt.Has(key)
				require.False(t, inDoubt && len(keys) > 1, "a row in doubt is read as Get does")
			}
			_, inDoubt := f.doubt.Has(keys[0])
			require.LessOrEqual(t, len(keys), most)
			if !inDoubt && len(keys) < most {
				open[string(part)]++
				require.LessOrEqual(t, open[string(part)], 1)
			}
			read = append(read, keys...)
		}
		require.ElementsMatch(t, rows, read)
	})
}

func TestPagesAreBounded(t *testing.T) {
	var s sizes
	require.Equal(t, firstPage, s.page(0))
	require.Equal(t, 2, s.page(1), "one more than wanted")
	s.saw(1000, 2000, 2000*100)
	require.Equal(t, maxPage, s.page(0))
	require.Equal(t, 21, s.page(10), "two cells a row")
	s.saw(10, 10, 10*driver.MaxValue)
	require.Equal(t, 2, s.page(0))
}

func TestSecondsAreRoundedUp(t *testing.T) {
	require.Equal(t, 1, seconds(1))
	require.Equal(t, 1, seconds(time.Second))
	require.Equal(t, 2, seconds(time.Second+1))
}

func TestPasswordsNeedTLS(t *testing.T) {
	c := Config{Options: Options{Keyspace: "ks"}, Hosts: []string{"127.0.0.1"}, Username: "u", Password: "secret"}
	_, err := Open(t.Context(), c)
	require.ErrorContains(t, err, "unencrypted")
	require.NotContains(t, err.Error(), "secret")
	c.AllowPlaintextPassword = true
	require.NoError(t, c.check())
	c.AllowPlaintextPassword = false
	c.TLS = &tls.Config{}
	require.NoError(t, c.check())
	options := c.cluster().SslOpts
	require.False(t, options.InsecureSkipVerify)
	require.EqualValues(t, tls.VersionTLS12, options.MinVersion)
	require.Zero(t, c.TLS.MinVersion, "the caller's configuration is left as it is")
}

func TestInvalidConfigurations(t *testing.T) {
	good := Config{Options: Options{Keyspace: "ks"}, Hosts: []string{"h"}}
	require.NoError(t, good.check())
	for name, change := range map[string]func(*Config){
		"no keyspace":         func(c *Config) { c.Keyspace = "" },
		"keyspace with quote": func(c *Config) { c.Keyspace = `ks"` },
		"long keyspace":       func(c *Config) { c.Keyspace = strings.Repeat("k", 49) },
		"no hosts":            func(c *Config) { c.Hosts = nil },
		"password only":       func(c *Config) { c.Password = "p" },
		"negative in flight":  func(c *Config) { c.InFlight = -1 },
		"Timeout is -1ns":     func(c *Config) { c.Timeout = -1 },
		"ConnectTimeout is":   func(c *Config) { c.ConnectTimeout = -1 },
		"Port is -1":          func(c *Config) { c.Port = -1 },
		"Port is 65536":       func(c *Config) { c.Port = 65536 },
		"a host is empty":     func(c *Config) { c.Hosts = []string{"h", ""} },
		"no class":            func(c *Config) { c.Replication = map[string]string{"dc1": "3"} },
		"the replication has": func(c *Config) {
			c.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": "3'; DROP"}
		},
		"no copies in data centre dc1": func(c *Config) {
			c.Datacentre, c.Replication = "dc1", map[string]string{"class": "NetworkTopologyStrategy", "dc2": "3"}
		},
		"is not HOST": func(c *Config) { c.Hosts = []string{"h", "http://x"} },
	} {
		c := good
		change(&c)
		_, err := Open(t.Context(), c)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, driver.ErrUnavailable, name)
		if strings.Contains(name, " is ") || strings.Contains(name, "is not") || strings.Contains(name, " has") {
			require.ErrorContains(t, err, name)
		}
	}
}

func TestNoSession(t *testing.T) {
	_, err := New(t.Context(), nil, Options{Keyspace: "ks"})
	require.EqualError(t, err, "cassandra: no session given")
}

// Only levels under which a client reads what others were told that they wrote are taken.
func TestConsistency(t *testing.T) {
	for c, says := range map[gocql.Consistency][2]string{ // without and with a data centre; "" is taken
		gocql.Any: {"", ""}, gocql.All: {"", ""}, gocql.EachQuorum: {"", ""},
		gocql.Quorum:      {"", "take LOCAL_QUORUM, EACH_QUORUM or ALL"},
		gocql.LocalQuorum: {"needs a Datacentre", ""},
		gocql.One:         {"would not read what other clients have written", "would not read what other clients have written"},
		gocql.Two:         {"would not read", "would not read"}, gocql.LocalOne: {"would not read", "would not read"},
		gocql.Serial: {"would not read", "would not read"}, gocql.LocalSerial: {"would not read", "would not read"},
	} {
		for i, dc := range []string{"", "dc1"} {
			err := (&Options{Keyspace: "ks", Datacentre: dc, Consistency: c}).check()
			if says[i] == "" {
				require.NoError(t, err, "%v %s", c, dc)
			} else {
				require.ErrorContains(t, err, says[i])
			}
		}
	}
}

// The server's words on a right become a statement that gives it.
func TestAdviceOnRights(t *testing.T) {
	for message, advice := range map[string]string{
		"User app has no SELECT permission on <table ks.rows_abc> or any of its parents":   "have an administrator GRANT SELECT ON KEYSPACE ks TO app",
		"User app has no CREATE permission on <all tables in ks> or any of its parents":    "have an administrator GRANT CREATE ON KEYSPACE ks TO app",
		"User app has no DROP permission on <keyspace ks> or any of its parents":           "have an administrator GRANT DROP ON KEYSPACE ks TO app",
		"User app has no CREATE permission on <all keyspaces> or any of its parents":       "have an administrator make the keyspace, or GRANT CREATE ON ALL KEYSPACES TO app",
		`User The "App" has no MODIFY permission on <table ks.rows> or any of its parents`: `have an administrator GRANT MODIFY ON KEYSPACE ks TO "The ""App"""`,
		"Provided username app and/or password are incorrect":                              "check the user name and the password",
		"app is not permitted to log in":                                                   "have an administrator ALTER ROLE it WITH LOGIN = true, or take another role",
		"You have not logged in":                                                           "",
	} {
		require.Equal(t, advice, refusalAdvice(message))
	}
}

// A query by an index that is gone could be answered by reading all rows, if it said so. Nobody can have it say so.
func TestDroppedIndexIsMadeAgain(t *testing.T) {
	by := driver.Range{Index: &driver.IndexRange{Index: "s1"}}
	for message, says := range map[string]string{
		"Cannot execute this query as it might involve data filtering: use ALLOW FILTERING": "driver: no such index: somebody has dropped it, or a restore has left it out; Verify with Repair, 'rangecrypt verify --repair', makes it again",
		"Undefined column name s1": "driver: no such index: Undefined column name s1",
	} {
		of := &fakeError{gocql.ErrCodeInvalid, message}
		err := unindexed(by, of)
		require.ErrorIs(t, err, driver.ErrNoIndex)
		require.ErrorIs(t, err, of)
		require.EqualError(t, err, says)
		require.Equal(t, error(of), unindexed(driver.Range{}, of))
	}
}

// A fakeError is what the server may answer.
type fakeError struct {
	code    int
	message string
}

func (e *fakeError) Code() int       { return e.code }
func (e *fakeError) Message() string { return e.message }
func (e *fakeError) Error() string   { return e.message }

func TestKindsOfErrors(t *testing.T) {
	db := &DB{attempts: new(attempts)}
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		err     error
		kind    error // nil for none
		applied bool  // whether a conditional change may have been
	}{
		{gocql.ErrNoConnections, driver.ErrUnavailable, false},
		{gocql.ErrNoStreams, driver.ErrUnavailable, false},
		{gocql.ErrTooManyStmts, driver.ErrTooLarge, false},
		{gocql.ErrConnectionClosed, driver.ErrUnavailable, true},
		{gocql.ErrTimeoutNoResponse, driver.ErrUnavailable, true},
		{io.EOF, driver.ErrUnavailable, true},
		{refused, driver.ErrUnavailable, true},
		{&gocql.RequestErrUnavailable{Consistency: gocql.Serial, Required: 2, Alive: 1}, driver.ErrUnavailable, false},
		{&gocql.RequestErrUnavailable{Consistency: gocql.Quorum, Required: 2, Alive: 1}, driver.ErrUnavailable, true},
		{&fakeError{gocql.ErrCodeReadTimeout, ""}, driver.ErrUnavailable, true},
		{&fakeError{gocql.ErrCodeWriteTimeout, ""}, driver.ErrUnavailable, true},
		{&fakeError{gocql.ErrCodeCASWriteUnknown, ""}, driver.ErrUnavailable, true},
		{&fakeError{gocql.ErrCodeOverloaded, ""}, driver.ErrUnavailable, true},
		{&fakeError{gocql.ErrCodeOverloaded, "Server is shutting down"}, driver.ErrUnavailable, false},
		{&fakeError{gocql.ErrCodeBootstrapping, ""}, driver.ErrUnavailable, false},
		{&fakeError{gocql.ErrCodeServer, "java.lang.Boom"}, nil, true},
		{&fakeError{gocql.ErrCodeInvalid, "table things_abc does not exist"}, driver.ErrNoFamily, false},
		{&fakeError{gocql.ErrCodeInvalid, "unconfigured table things"}, driver.ErrNoFamily, false},
		{&fakeError{gocql.ErrCodeInvalid, "keyspace ks does not exist"}, driver.ErrNoFamily, false},
		{&fakeError{gocql.ErrCodeServer, "java.lang.IllegalArgumentException: Unknown CF ec5cc5c5-8fa0-4bdb-b2b7-e86de2a8232a"}, driver.ErrNoFamily, true},
		{&fakeError{gocql.ErrCodeInvalid, "CQL Message of size 17825868 bytes exceeds allowed maximum of 16777216 bytes"}, driver.ErrTooLarge, false},
		{&fakeError{gocql.ErrCodeInvalid, "Rejected an oversized mutation (9/8) for keyspace: ks. Top keys are: t.SESAME"}, driver.ErrTooLarge, false},
		{&fakeError{gocql.ErrCodeSyntax, "no viable alternative"}, nil, false},
		{&fakeError{gocql.ErrCodeUnauthorized, "User weak has no SELECT permission on <table ks.t>"}, driver.ErrUnauthorised, false},
		{&fakeError{gocql.ErrCodeCredentials, "Provided username me and/or password are incorrect"}, driver.ErrUnauthorised, false},
		{&fakeError{gocql.ErrCodeCredentials, "Unable to perform authentication: Cannot achieve consistency level QUORUM"}, driver.ErrUnavailable, false},
		{&fakeError{gocql.ErrCodeUnauthorized, "Unable to perform authorization of permissions: Operation timed out"}, driver.ErrUnavailable, false},
		{gocql.ErrSessionClosed, driver.ErrClosed, false},
	} {
		err := db.failed(t.Context(), "get", c.err)
		for _, kind := range []error{driver.ErrUnavailable, driver.ErrNoFamily, driver.ErrTooLarge, driver.ErrUnknownOutcome, driver.ErrUnauthorised, driver.ErrClosed} {
			require.Equal(t, kind == c.kind, errors.Is(err, kind), "%v is %v", err, kind)
		}
		require.ErrorIs(t, err, c.err)
		require.NotContains(t, err.Error(), "SESAME", "no key in an error")

		err = db.failedCAS(t.Context(), "commit", c.err)
		require.Equal(t, c.applied, errors.Is(err, driver.ErrUnknownOutcome), "%v", err)
		require.ErrorIs(t, err, c.err)
	}
	err := db.failed(t.Context(), "get", &gocql.RequestErrUnavailable{Consistency: gocql.Quorum, Required: 2, Alive: 1})
	require.ErrorContains(t, err, "QUORUM needs 2 replicas, of which 1 are alive: start the nodes that have the others; only a keyspace without rows")
	require.NoError(t, db.failed(t.Context(), "get", nil))
	closed := &DB{attempts: new(attempts)}
	closed.open, closed.close = context.WithCancel(t.Context())
	require.ErrorIs(t, closed.failed(t.Context(), "get", gocql.ErrConnectionClosed), driver.ErrUnavailable)
	closed.close()
	require.ErrorIs(t, closed.failed(t.Context(), "get", gocql.ErrConnectionClosed), driver.ErrClosed)
	require.NoError(t, db.failedCAS(t.Context(), "get", nil))
}

func TestErrorsOfAContext(t *testing.T) {
	db := &DB{attempts: new(attempts)}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for _, err := range []error{db.failed(ctx, "get", context.Canceled), db.failedCAS(ctx, "commit", context.Canceled), db.failedCAS(ctx, "commit", io.EOF)} {
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, db.failedCAS(ctx, "commit", context.Canceled), driver.ErrUnknownOutcome)
	require.ErrorIs(t, db.failedCAS(ctx, "commit", io.EOF), io.EOF)

	// The context of a connection is not the caller's.
	err := db.failed(t.Context(), "get", context.Canceled)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotErrorIs(t, err, context.Canceled)
	err = db.failedCAS(t.Context(), "commit", context.Canceled)
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestRetries(t *testing.T) {
	connected := (&Config{}).cluster().RetryPolicy // of idempotent statements of a session that Connect makes
	for _, err := range []error{io.EOF, gocql.ErrConnectionClosed} {
		require.Equal(t, gocql.RetryNextHost, new(retry).GetRetryType(err), "%v", err)
		require.Equal(t, gocql.RetryNextHost, connected.GetRetryType(err), "%v", err)
		require.Equal(t, gocql.Rethrow, hooks.Elsewhere.GetRetryType(err), "%v", err)
	}
	for _, err := range []error{
		&fakeError{gocql.ErrCodeBootstrapping, ""},
		&fakeError{gocql.ErrCodeOverloaded, "Server is shutting down"},
		&fakeError{gocql.ErrCodeInvalid, "table t does not exist"},
	} {
		require.Equal(t, gocql.RetryNextHost, new(retry).GetRetryType(err), "%v", err)
		require.Equal(t, gocql.RetryNextHost, hooks.Elsewhere.GetRetryType(err), "%v", err)
	}
	for _, err := range []error{
		gocql.ErrTimeoutNoResponse, context.Canceled, &fakeError{gocql.ErrCodeInvalid, ""}, &fakeError{gocql.ErrCodeWriteTimeout, ""},
		&fakeError{gocql.ErrCodeOverloaded, "Too many in flight hints: 9"}, errors.New("x"),
	} {
		require.Equal(t, gocql.Rethrow, new(retry).GetRetryType(err), "%v", err)
		require.Equal(t, gocql.Rethrow, connected.GetRetryType(err), "%v", err)
		require.Equal(t, gocql.Rethrow, hooks.Elsewhere.GetRetryType(err), "%v", err)
	}
}

// Rows that are too many for one statement are read one by one.
func TestOverdone(t *testing.T) {
	forbidden := &fakeError{gocql.ErrCodeInvalid, "Guardrail in_select_cartesian_product violated: Aborting query because of 40 values"}
	for _, err := range []error{gocql.ErrTimeoutNoResponse, gocql.ErrFrameTooBig, forbidden} {
		require.True(t, overdone(t.Context(), err), "%v", err)
	}
	for _, err := range []error{io.EOF, &fakeError{gocql.ErrCodeInvalid, "Guardrail page_size violated: so"}, &fakeError{gocql.ErrCodeUnauthorized, ""}} {
		require.False(t, overdone(t.Context(), err), "%v", err)
	}
}

func TestCrowdedBucketsWarn(t *testing.T) {
	for _, c := range []struct {
		bits, used int
		warns      bool
	}{{8, 1, true}, {8, 4, true}, {8, 5, false}, {1, 1, true}, {1, 2, false}, {16, 1024, true}, {16, 1025, false}} {
		var log recorder
		f := newFamily(&DB{log: log.logger()}, driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered, SpreadBits: c.bits}, "t")
		for i := range 2 * judgeAfter / 16 {
			f.watch(bucketKey(nil, i%c.used), 16, 1)
		}
		if c.warns {
			require.Equal(t, 1, strings.Count(log.text(), fmt.Sprintf("meet %d of %d buckets", c.used, 1<<c.bits)), log.text())
		} else {
			require.Empty(t, log.text())
		}
	}
}

func TestLargePartitionsWarn(t *testing.T) {
	require.Empty(t, largeWarning(driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered}, largePartition))
	require.Contains(t, largeWarning(driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered}, largePartition+1<<20), "101 MiB")
	require.Contains(t, largeWarning(driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered, SpreadBits: 4}, 1<<30), "more SpreadBits")
	require.Contains(t, largeWarning(driver.FamilySpec{Name: "things", Layout: driver.LayoutWide}, 1<<30), "divide the row")
}

func TestLogger(t *testing.T) {
	var log recorder
	l := hooks.Logger{To: log.logger()}
	l.Error("boom", gocql.NewLogFieldString("host", "h"))
	l.Info("hello")
	require.Contains(t, log.text(), "level=WARN msg=boom from=gocql host=h")
	require.Contains(t, log.text(), "level=DEBUG msg=hello from=gocql")
	hooks.Logger{}.Error("nobody listens")
	hooks.Logger{To: slog.New(slog.DiscardHandler)}.Error("nobody listens")
}

func TestDirectoryID(t *testing.T) {
	require.Equal(t, directoryID("a"), directoryID("a"))
	require.NotEqual(t, directoryID("a"), directoryID("b"))
	require.Equal(t, gocql.VariantIETF, directoryID("a").Variant())
}

func TestNobodyAnswersAtStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refused := l.Addr().String()
	require.NoError(t, l.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = Open(ctx, Config{Options: Options{Keyspace: "ks"}, Hosts: []string{refused}})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, ctx.Err(), "at once")
	var dial *net.OpError
	require.ErrorAs(t, err, &dial)
	require.ErrorContains(t, err, refused)
}

func TestSilenceAtStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, Config{Options: Options{Keyspace: "ks"}, Hosts: []string{l.Addr().String()}})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 3*time.Second)
}

// A node that hangs accepts connections, and never ends a handshake of TLS. That is not waited for without end.
func TestSilenceWithTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = Open(ctx, Config{Options: Options{Keyspace: "ks"}, Hosts: []string{l.Addr().String()}, TLS: &tls.Config{}, ConnectTimeout: 300 * time.Millisecond})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, ctx.Err())
	require.Less(t, time.Since(start), 20*time.Second)
}

// TestTLSVerifiesTheServer: nothing of a login goes to a server whose certificate does not fit.
func TestTLSVerifiesTheServer(t *testing.T) {
	site := httptest.NewTLSServer(nil) // for its certificate, of 127.0.0.1 and example.com
	site.Close()
	known := x509.NewCertPool()
	known.AddCert(site.Certificate())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: site.TLS.Certificates})
	require.NoError(t, err)
	var heard atomic.Int64 // bytes, after the handshake
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n, _ := conn.Read(make([]byte, 1024))
			heard.Add(int64(n))
			conn.Close()
		}
	})
	defer wait.Wait()
	defer l.Close()
	for _, c := range []struct {
		name   string
		config *tls.Config
		says   string // "" where it is trusted
	}{
		{"unknown authority", &tls.Config{}, "unknown authority"},
		{"another name", &tls.Config{RootCAs: known, ServerName: "cassandra.invalid"}, "not cassandra.invalid"},
		{"too old", &tls.Config{RootCAs: known, MaxVersion: tls.VersionTLS11}, "tls"},
		{"trusted", &tls.Config{RootCAs: known}, ""},
	} {
		heard.Store(0)
		_, err := Open(t.Context(), Config{
			Options: Options{Keyspace: "ks"}, Hosts: []string{l.Addr().String()},
			Username: "me", Password: "secret", TLS: c.config, ConnectTimeout: time.Second,
		})
		require.Error(t, err, c.name)
		require.NotContains(t, err.Error(), "secret", c.name)
		if c.says == "" {
			require.NotZero(t, heard.Load(), "the server was not trusted")
		} else {
			require.ErrorContains(t, err, c.says, c.name)
			require.Zero(t, heard.Load(), c.name)
		}
		require.Zero(t, c.config.MinVersion, "the caller's configuration was changed")
	}
}

// TestTokens: the parts of a scan are all hashes, each once, in shares of one size.
func TestTokens(t *testing.T) {
	for _, parts := range []int{0, 1, 2, 3, 7, 1000, driver.MaxParts} {
		next := int64(math.MinInt64)
		for part := range max(1, parts) {
			least, most := Tokens(part, parts)
			require.Equal(t, next, least)
			if part < parts-1 {
				require.InEpsilon(t, math.Exp2(64)/float64(parts), float64(uint64(most-least))+1, 1e-9)
			} else {
				require.Equal(t, int64(math.MaxInt64), most)
			}
			next = most + 1
		}
	}
}
