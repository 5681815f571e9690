package cqlsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// roleEnv says what a process that the test starts does, with "|" between the words, and for which databases.
const roleEnv = "CQLSOURCE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(strings.Split(role, "|")); err != nil {
			fmt.Fprintln(os.Stderr, role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	customers, numbers = 60, 20
	writersEach        = 2 // of a process
	copiedParts        = 12
	ofStore            = "the table"
)

// A stage is what the processes of the test have open.
type stage struct {
	session   *gocql.Session // of the application
	source    *Source
	table     *store.Table
	migration *migrate.Migration
}

// enter opens the application's table in one keyspace, and the encrypted one in another.
func enter(ctx context.Context, keyspace, reserved, key string) (*stage, error) {
	server, err := testcassandra.New()
	if err != nil {
		return nil, err
	}
	s := new(stage)
	cluster := server.Cluster()
	cluster.Keyspace = keyspace
	if s.session, err = cluster.CreateSession(); err != nil {
		return nil, err
	}
	if s.source, err = New(ctx, s.session, keyspace, "orders", Options{}); err != nil {
		return nil, err
	}
	secret, err := ope.NewKey([]byte(key))
	if err != nil {
		return nil, err
	}
	for _, db := range testdb.All {
		if db.Name != "cassandra" {
			continue
		}
		joined, err := db.Join(ctx, reserved)
		if err != nil {
			return nil, err
		}
		st, err := store.Open(ctx, joined, kms.NewLocal(secret), nil)
		if err != nil {
			return nil, err
		}
		if s.table, err = st.Table(ctx, ofStore); errors.Is(err, store.ErrNoTable) {
			return s, st.Close(ctx) // the caller makes it
		}
		if err != nil {
			return nil, err
		}
		s.migration, err = migrate.New(s.table, s.source)
		return s, err
	}
	return nil, errors.New("no cassandra")
}

// play does what a process is started for, until it is killed.
func play(role []string) error {
	ctx := context.Background()
	s, err := enter(ctx, role[1], role[2], role[3])
	if err != nil {
		return err
	}
	switch role[0] {
	case "operate":
		return s.operate(ctx, role[4])
	case "keep":
		return s.keep(ctx, wholeNumber(role[4]), role[5], wholeNumber(role[6]))
	case "copy":
		for i := range copiedParts {
			if _, err := s.migration.Copy(ctx, inspect.Part{Index: i, Of: copiedParts}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	seed, err := strconv.ParseUint(role[4], 10, 64)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	for i := range writersEach {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wait.Go(func() {
			for {
				if err := s.write(ctx, r, role[5] == "expiring"); err != nil {
					fmt.Fprintln(os.Stderr, "writer:", err)
				} else {
					os.Stdout.WriteString(".")
				}
			}
		})
	}
	wait.Wait()
	return nil
}

func wholeNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

// write makes one write of the application.
func (s *stage) write(ctx context.Context, r *rand.Rand, expiring bool) error {
	writes := NewSession(s.source, s.migration.Mirror())
	c, n := r.IntN(customers), r.IntN(numbers)
	ttl := 0
	if expiring {
		ttl = []int{0, 0, 0, 1, 3, 5000}[r.IntN(6)]
	}
	switch r.IntN(6) {
	case 0:
		return writes.Exec(ctx, "DELETE FROM orders WHERE customer = ? AND number = ?", c, n)
	case 1:
		return writes.Exec(ctx, "UPDATE orders USING TTL ? SET amount = ? WHERE customer = ? AND number = ?", ttl, r.Int64(), c, n)
	case 2:
		return writes.Exec(ctx, "UPDATE orders USING TTL ? SET note = ? WHERE customer = ? AND number IN ?", ttl, fmt.Sprint("note ", r.Uint64()), c, []int{n, (n + 1) % numbers})
	case 3:
		batch := s.session.Batch(gocql.UnloggedBatch)
		batch.Query("DELETE note FROM orders WHERE customer = ? AND number = ?", c, n)
		batch.Query("INSERT INTO orders (customer, number, amount) VALUES (?, ?, ?)", c, (n+1)%numbers, r.Int64())
		return writes.ExecBatch(ctx, batch)
	}
	return writes.Exec(ctx, "INSERT INTO orders (customer, number, note, amount, at) VALUES (?, ?, ?, ?, ?) USING TTL ?", c, n, fmt.Sprint("new ", r.Uint64()), r.Int64(), time.UnixMilli(r.Int64N(1e12)), ttl)
}

// Writers and copiers are killed at any moment. After a verification with repair both tables have the same rows, as a plain reading of both says.
func TestKilledProcesses(t *testing.T) {
	for _, kind := range []string{"conditional", "expiring"} {
		t.Run(kind, func(t *testing.T) { killed(t, kind) })
	}
}

// open makes the encrypted table of the application's, in a keyspace that it returns.
func open(t *testing.T, keyspace, key string, change func(*store.Schema)) (s *stage, reserved string) {
	t.Helper()
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			reserved = db.Reserve(t)
		}
	}
	s, err := enter(t.Context(), keyspace, reserved, key)
	require.NoError(t, err)
	schema, _, err := s.source.Propose(t.Context(), ofStore)
	require.NoError(t, err)
	schema.Columns[0] = store.OrderedColumn("amount", store.Int64, store.Boldyreva)
	change(&schema)
	makeTable(t, reserved, key, schema)
	s, err = enter(t.Context(), keyspace, reserved, key)
	require.NoError(t, err)
	return s, reserved
}

// begin does so, and prepares the migration.
func begin(t *testing.T, keyspace, key string, change func(*store.Schema)) (s *stage, reserved string) {
	t.Helper()
	s, reserved = open(t, keyspace, key, change)
	_, err := s.migration.Prepare(t.Context(), false)
	require.NoError(t, err)
	return s, reserved
}

func killed(t *testing.T, kind string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	session, keyspace := application(t)
	do(t, session, "CREATE TABLE orders (customer int, number int, note text, amount bigint, at timestamp, PRIMARY KEY ((customer), number))")
	for c := range customers {
		for n := 0; n < numbers; n += 2 {
			written := time.Now().Add(-time.Duration(n%4) * time.Hour).UnixMicro() // some are copied as of long before
			do(t, session, "INSERT INTO orders (customer, number, note, amount) VALUES (?, ?, 'of before', ?) USING TIMESTAMP ?", c, n, r.Int64(), written)
		}
	}
	key := fmt.Sprintf("%032x", r.Uint64())
	s, reserved := begin(t, keyspace, key, func(schema *store.Schema) {
		if schema.Conditional = kind == "conditional"; !schema.Conditional {
			schema.TTL = store.TTLByRow
		}
	})

	during := 12 * time.Second
	if sim.Long() {
		during = 20 * time.Second
	}
	over, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	var wait sync.WaitGroup
	kills, written := 0, 0
	var mu sync.Mutex
	for i := range 5 { // four of writers, one of copiers
		r := rand.New(rand.NewPCG(seed, uint64(2+i)))
		wait.Go(func() {
			for life := 0; over.Err() == nil; life++ {
				cmd := process(over, "write", keyspace, reserved, key, fmt.Sprint(r.Uint64()), kind)
				if i == 4 {
					cmd = process(over, "copy", keyspace, reserved, key)
				}
				ended := time.AfterFunc(time.Duration(1500+r.IntN(3000))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				var writes bytes.Buffer
				cmd.Stdout, cmd.Stderr = &writes, os.Stderr
				err := cmd.Run()
				ended.Stop()
				mu.Lock()
				written += writes.Len()
				if err != nil && strings.Contains(err.Error(), "killed") {
					kills++
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.GreaterOrEqual(t, kills, 8)
	if kind == "expiring" {
		time.Sleep(6 * time.Second) // until what was to expire soon has
	}
	differing := settle(t, s)
	t.Logf("%d writes and %d kills; the verification found %d rows that differed", written, kills, differing)
	require.Greater(t, written, 100)
	require.NoError(t, s.migration.Cutover(t.Context()))

	require.Greater(t, sameRows(t, s), 100)
}

// sameRows compares the rows of both tables, by a plain reading of both, and returns how many there are.
func sameRows(t *testing.T, s *stage) int {
	t.Helper()
	want := make(map[string]string)
	rows := s.session.Query("SELECT customer, number, note, amount, at FROM orders").Consistency(gocql.Quorum).IterContext(t.Context())
	var customer, number int
	var note *string
	var amount *int64
	var at *time.Time
	for rows.Scan(&customer, &number, &note, &amount, &at) {
		want[fmt.Sprint(customer, " ", number)] = shown(note) + shown(amount) + shown(at)
	}
	require.NoError(t, rows.Close())
	got := make(map[string]string)
	for row, err := range s.table.Query(t.Context(), store.Query{}) {
		require.NoError(t, err)
		got[fmt.Sprint(row["customer"], " ", row["number"])] = shownOf[string](row["note"]) + shownOf[int64](row["amount"]) + shownOf[time.Time](row["at"])
	}
	require.Equal(t, want, got)
	return len(want)
}

// Rows that were written long before are copied without a look at the table. What writers do meanwhile wins all the same, deletions
// included, without any verification.
func TestCopiesLoseToWriters(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	session, keyspace := application(t)
	do(t, session, "CREATE TABLE orders (customer int, number int, note text, amount bigint, at timestamp, PRIMARY KEY ((customer), number))")
	before := time.Now().Add(-time.Hour).UnixMicro()
	for c := range customers {
		for n := range numbers {
			do(t, session, "INSERT INTO orders (customer, number, note, amount) VALUES (?, ?, 'of before', ?) USING TIMESTAMP ?", c, n, c*n, before)
		}
	}
	s, _ := begin(t, keyspace, fmt.Sprintf("%032x", rand.Uint64()), func(*store.Schema) {})

	for n := range numbers { // before any copy
		require.NoError(t, NewSession(s.source, s.migration.Mirror()).Exec(t.Context(), "DELETE FROM orders WHERE customer = ? AND number = ?", 0, n))
	}
	writing, stop := context.WithCancel(t.Context())
	var writers, copiers sync.WaitGroup
	for i := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, i))
		writers.Go(func() {
			for writing.Err() == nil {
				if err := s.write(t.Context(), r, false); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3 { // who cut it differently, and meet in all rows
		copiers.Go(func() {
			for part := range i + 2 {
				if _, err := s.migration.Copy(t.Context(), inspect.Part{Index: part, Of: i + 2}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	copiers.Wait()
	time.Sleep(200 * time.Millisecond)
	stop()
	writers.Wait()
	status, err := s.migration.Status(t.Context())
	require.NoError(t, err)
	require.Greater(t, status.Copy.Rows.Copied, customers*numbers/2)
	require.Greater(t, sameRows(t, s), customers*numbers/4)
}

// shown returns a value that may be null.
func shown[T any](v *T) string {
	if v == nil {
		return "null "
	}
	return fmt.Sprint(*v, " ")
}

func shownOf[T any](v any) string {
	if v == nil {
		return shown[T](nil)
	}
	of := v.(T)
	return shown(&of)
}

// process returns a process that plays a role.
func process(ctx context.Context, role ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join(role, "|"))
	return cmd
}

// makeTable makes the encrypted table.
func makeTable(t *testing.T, reserved, key string, schema store.Schema) {
	t.Helper()
	secret, err := ope.NewKey([]byte(key))
	require.NoError(t, err)
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			joined, err := db.Join(t.Context(), reserved)
			require.NoError(t, err)
			st, err := store.Open(t.Context(), joined, kms.NewLocal(secret), nil)
			require.NoError(t, err)
			_, err = st.Create(t.Context(), schema)
			require.NoError(t, err)
			require.NoError(t, st.Close(t.Context()))
		}
	}
}

// settle ends the copy, and verifies with repair until nothing differs. It returns how many rows differed.
func settle(t *testing.T, s *stage) (differing int) {
	for i := range copiedParts {
		_, err := s.migration.Copy(t.Context(), inspect.Part{Index: i, Of: copiedParts}, nil)
		require.NoError(t, err)
	}
	for range 10 {
		found := 0
		for i := range 3 {
			done, err := s.migration.Verify(t.Context(), inspect.Part{Index: i, Of: 3}, &migrate.PassOptions{Repair: true})
			require.NoError(t, err)
			found += done.Rows.Mended + done.Rows.Differs
			require.Zero(t, done.Rows.Refused)
		}
		if differing += found; found == 0 {
			return differing
		}
	}
	require.Fail(t, "rows differ again and again")
	return differing
}
