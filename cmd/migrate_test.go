package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/migrate/cqlsource"
)

var migratedRows = flag.Int("cmd.migrated", 1000, "rows that are migrated from Cassandra")

// shop is an application with the arguments STORE, FROM, KEYFILE, ROWS and SEED. Four writers insert rows of a table, update single
// columns, delete and insert again, until the table is cut over or the standard input ends. With a sixth argument rows expire, too.
func shop() {
	if err := shops(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func shops(ctx context.Context, args []string) error {
	source, err := cqlsource.Open(ctx, args[1])
	if err != nil {
		return err
	}
	defer source.Close()
	key, err := kms.ReadFile(args[2])
	if err != nil {
		return err
	}
	db, err := cli.System().OpenStore(ctx, args[0], stores.How{})
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, db, kms.NewLocal(key), nil)
	if err != nil {
		return err
	}
	tbl, err := st.Table(ctx, "orders")
	if err != nil {
		return err
	}
	m, err := migrate.New(tbl, source)
	if err != nil {
		return err
	}
	s := &shopper{session: cqlsource.NewSession(source, m.Mirror()), source: source, table: tbl, expires: len(args) > 5}
	s.rows, _ = strconv.ParseInt(args[3], 10, 64)
	seed, _ := strconv.ParseUint(args[4], 10, 64)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		s.stop.Store(true)
	}()
	var group errgroup.Group
	for w := range uint64(4) {
		group.Go(func() error { return s.writes(ctx, rand.New(rand.NewPCG(seed, w))) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Println("writes", s.made.Load())
	return errors.Join(st.Close(ctx), db.Close())
}

type shopper struct {
	session *cqlsource.Session
	source  *cqlsource.Source
	table   *store.Table
	rows    int64
	expires bool
	stop    atomic.Bool
	made    atomic.Int64
}

// writes writes until the end. What fails is written again, as applications do.
func (s *shopper) writes(ctx context.Context, r *rand.Rand) error {
	table := strings.TrimPrefix(s.source.Name(), "cassandra:")
	for !s.stop.Load() {
		id, a, b := r.Int64N(s.rows+s.rows/10), r.Int64N(1000), fmt.Sprint("note ", r.IntN(5))
		var do func() error
		switch n := r.IntN(5); {
		case n == 0:
			do = func() error { return s.session.Exec(ctx, "DELETE FROM "+table+" WHERE id = ?", id) }
		case n == 1:
			do = func() error { return s.session.Exec(ctx, "UPDATE "+table+" SET a = ? WHERE id = ?", a, id) }
		case n == 2:
			do = func() error { return s.session.Exec(ctx, "UPDATE "+table+" SET b = ? WHERE id = ?", b, id) }
		case n == 3 && s.expires:
			do = func() error {
				return s.session.Exec(ctx, "INSERT INTO "+table+" (id, a, b) VALUES (?, ?, ?) USING TTL 7200", id, a, b)
			}
		default:
			do = func() error {
				return s.session.Exec(ctx, "INSERT INTO "+table+" (id, a, b) VALUES (?, ?, ?)", id, a, b)
			}
		}
		for err := do(); err != nil; err = do() {
			if errors.Is(err, migrate.ErrCutOver) {
				return s.overtaken(ctx, id)
			}
			if !store.Retryable(err) {
				return err
			}
		}
		s.made.Add(1)
	}
	return nil
}

// overtaken writes a row into the table that the source may have since the cut-over, as the application is told to.
func (s *shopper) overtaken(ctx context.Context, id int64) error {
	found, err := s.source.Read(ctx, []store.Row{{"id": id}})
	if err == nil && found[0].Exists {
		return s.table.Put(ctx, found[0].Row)
	} else if err == nil {
		return s.table.Delete(ctx, store.Row{"id": id})
	}
	return err
}

const shopSchema = `table: orders
key:
  - {name: id, type: int64, encryption: hashed}
columns:
  - {name: a, type: int64, encryption: ordered, scheme: mope}
  - {name: b, type: string, encryption: randomised}
`

// A shopStage is a table of an application in Cassandra, and a store in another keyspace.
type shopStage struct {
	*testing.T
	dir, from, store string
	session          *gocql.Session
	kills            *rand.Rand
}

func newShopStage(t *testing.T, more string) *shopStage {
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			db.Need(t)
		}
	}
	cassandra, err := testcassandra.New()
	require.NoError(t, err)
	plain := newKeyspace()
	s := &shopStage{T: t, dir: t.TempDir(), store: urlOf(t), kills: rand.New(rand.NewPCG(1, 2))}
	s.session, err = cassandra.Make(t.Context(), plain)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.session.Close()
		require.NoError(t, cassandra.Drop(plain))
	})
	s.from = cassandra.Store(cassandra.Hosts[0], plain+".orders")
	require.NoError(t, s.session.Query("CREATE TABLE orders (id bigint PRIMARY KEY, a bigint, b text)").ExecContext(t.Context()))
	var group errgroup.Group
	group.SetLimit(64)
	for id := range *migratedRows {
		group.Go(func() error {
			return s.session.Query("INSERT INTO orders (id, a, b) VALUES (?, ?, ?)", int64(id), int64(id%1000), "note").ExecContext(t.Context())
		})
	}
	require.NoError(t, group.Wait())
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "orders.yaml"), []byte(shopSchema+more), 0o600))
	s.run("keys", "generate", "key")
	s.run("table", "create", "orders.yaml", "--store", s.store, "--key", "key")
	return s
}

// run runs a command that ends well.
func (s *shopStage) run(args ...string) string {
	s.Helper()
	cmd, stdout, stderr := start(s.T, s.dir, args...)
	require.NoError(s, cmd.Wait(), "%v: %s%s", args, stdout, stderr)
	return stdout.String()
}

// args returns those of a command about the migration.
func (s *shopStage) args(step string, more ...string) []string {
	args := append([]string{"migrate", step, "orders", "--store", s.store, "--key", "key"}, more...)
	if step != "status" {
		args = append(args, "--from", s.from)
	}
	return args
}

func (s *shopStage) status() (phase string) {
	var status struct{ Phase string }
	require.NoError(s, json.Unmarshal([]byte(s.run(s.args("status", "--json")...)), &status))
	return status.Phase
}

// killed starts a command twice and kills it after some time.
func (s *shopStage) killed(most time.Duration, step string, more ...string) {
	for range 2 {
		cmd, _, _ := start(s.T, s.dir, s.args(step, more...)...)
		time.Sleep(time.Duration(s.kills.Int64N(int64(most))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// A shopProcess is an application that runs.
type shopProcess struct {
	cmd  *exec.Cmd
	out  *strings.Builder
	stop func()
}

func (s *shopStage) shop(seed int, expires bool) *shopProcess {
	args := []string{s.store, s.from, "key", strconv.Itoa(*migratedRows), strconv.Itoa(seed)}
	if expires {
		args = append(args, "expires")
	}
	p := &shopProcess{cmd: exec.Command("shop", args...), out: new(strings.Builder)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, p.out, p.out
	in, err := p.cmd.StdinPipe()
	require.NoError(s, err)
	p.stop = func() { _ = in.Close() }
	require.NoError(s, p.cmd.Start())
	s.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// contents returns the rows of the source.
func (s *shopStage) contents() map[int64]store.Row {
	all := make(map[int64]store.Row)
	var id int64
	var a *int64
	var b *string
	iter := s.session.Query("SELECT id, a, b FROM orders").Consistency(gocql.Quorum).IterContext(s.Context())
	for iter.Scan(&id, &a, &b) {
		row := store.Row{"id": id}
		if a != nil {
			row["a"] = *a
		}
		if b != nil {
			row["b"] = *b
		}
		all[id] = row
	}
	require.NoError(s, iter.Close())
	return all
}

// An application goes on with two processes of four writers each, which are killed like each step of the migration. In the end no
// row is lost, none differs, and none is in the clear alone.
func TestMigrationFromCassandra(t *testing.T) {
	for name, test := range map[string]struct {
		more    string
		expires bool
	}{"conditional": {"conditional: true\n", false}, "last write wins": {"ttl: by row\n", true}} {
		t.Run(name, func(t *testing.T) {
			s := newShopStage(t, test.more)
			shops := []*shopProcess{s.shop(1, test.expires), s.shop(2, test.expires)}
			s.killed(300*time.Millisecond, "prepare")
			if s.status() == "" {
				s.run(s.args("prepare")...)
			}
			require.Equal(t, "prepared", s.status())
			s.killed(2*time.Second, "copy")
			for i, p := range shops {
				_ = p.cmd.Process.Kill()
				_ = p.cmd.Wait()
				shops[i] = s.shop(3+i, test.expires)
			}
			began := time.Now()
			t.Log(s.run(s.args("copy")...), time.Since(began))
			s.killed(2*time.Second, "verify", "--repair")
			t.Log(s.run(s.args("verify", "--repair")...))
			if test.expires { // the last write wins, so that none may be under way
				for _, p := range shops {
					p.stop()
					require.NoError(t, p.cmd.Wait(), p.out)
				}
			}
			s.killed(300*time.Millisecond, "cutover", "--yes")
			if s.status() != "cut over" {
				s.run(s.args("cutover", "--yes")...)
			}
			if !test.expires {
				for _, p := range shops {
					require.NoError(t, p.cmd.Wait(), p.out)
				}
			}
			t.Log(shops[0].out, shops[1].out)
			rows := s.contents()
			s.killed(time.Second, "verify")
			t.Log(s.run(s.args("verify")...))
			s.dropped(rows)
		})
	}
}

// dropped drops the source, and looks for its rows in the table.
func (s *shopStage) dropped(rows map[int64]store.Row) {
	s.killed(time.Second, "drop", "--yes")
	var wait sync.WaitGroup
	for range 2 { // at a time
		wait.Go(func() {
			cmd, stdout, stderr := start(s.T, s.dir, s.args("drop", "--yes")...)
			_ = cmd.Wait() // it may be known that something remains
			if code := cmd.ProcessState.ExitCode(); code > 1 {
				s.Errorf("drop ended with %d: %s%s", code, stdout, stderr)
			}
		})
	}
	wait.Wait()
	require.Equal(s, "dropped", s.status())
	require.Error(s, s.session.Query("SELECT id FROM orders").ExecContext(s.Context()), "the source is gone")
	key, err := kms.ReadFile(filepath.Join(s.dir, "key"))
	require.NoError(s, err)
	db, err := cli.System().OpenStore(s.Context(), s.store, stores.How{})
	require.NoError(s, err)
	defer db.Close()
	st, err := store.Open(s.Context(), db, kms.NewLocal(key), nil)
	require.NoError(s, err)
	tbl, err := st.Table(s.Context(), "orders")
	require.NoError(s, err)
	n := 0
	for row, err := range tbl.Query(s.Context(), store.Query{}) {
		require.NoError(s, err)
		require.Equal(s, rows[row["id"].(int64)], row)
		n++
	}
	require.Equal(s, len(rows), n)
	require.NoError(s, st.Close(s.Context()))
}
