package cqlsource

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

var migratedRows = flag.Int("cqlsource.migrated", sim.LongShare(50_000, 10_000, 4_000), "rows of the table that comes in under writers that are killed, as the steps of the migration are")

const (
	keepers     = 8   // processes that write, each its own rows
	ofCustomer  = 100 // rows
	leastParts  = 8
	longLife    = 5000 // seconds: longer than the test
	shortLife   = 2
	neverOfLong = "of before"
)

// An entry is what a row is to be, as its only writer knows.
type entry struct {
	exists    bool
	note      string // "" is null
	amount    int64
	hasAmount bool
	life      int // seconds, or 0 for ever
}

// An act is a write of a row. What it writes follows from its value.
type act struct {
	row   int
	does  string
	value int64
}

// after returns what the row is when the act is done.
func (e entry) after(a act) entry {
	switch a.does {
	case "insert":
		return entry{true, fmt.Sprint("new ", a.value), a.value, true, 0}
	case "insert long":
		return entry{true, fmt.Sprint("new ", a.value), a.value, true, longLife}
	case "insert short":
		return entry{true, fmt.Sprint("new ", a.value), a.value, true, shortLife}
	case "note":
		e.exists, e.note = true, fmt.Sprint("note ", a.value)
	case "amount":
		e.exists, e.amount, e.hasAmount = true, a.value, true
	case "delete":
		return entry{}
	}
	return e
}

// A ledger is a file with what a writer begins, and what it was told that it has written. So who goes on after its death knows both.
type ledger struct {
	file    *os.File
	rows    map[int]entry // that were written
	pending *act
	acts    int
}

func openLedger(path string, before int) (*ledger, error) {
	l := &ledger{rows: make(map[int]entry)}
	var err error
	if l.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(l.file); lines.Scan(); {
		fields := strings.Split(lines.Text(), "|")
		if len(fields) == 1 {
			l.rows[l.pending.row] = l.entry(l.pending.row, before).after(*l.pending)
			l.pending = nil
			l.acts++
			continue
		}
		l.pending = &act{does: fields[1]}
		if l.pending.row, err = strconv.Atoi(fields[0]); err == nil {
			l.pending.value, err = strconv.ParseInt(fields[2], 10, 64)
		}
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// entry returns what a row is. So many rows were there before.
func (l *ledger) entry(row, before int) entry {
	if e, written := l.rows[row]; written {
		return e
	}
	if row < before {
		return entry{true, neverOfLong, int64(row), true, 0}
	}
	return entry{}
}

func (l *ledger) begin(a act) error {
	l.pending = &a
	_, err := fmt.Fprintf(l.file, "%d|%s|%d\n", a.row, a.does, a.value)
	return err
}

func (l *ledger) done(e entry) error {
	l.rows[l.pending.row], l.pending = e, nil
	_, err := fmt.Fprintln(l.file, "done")
	return err
}

// keep writes the rows of one writer, until the table is cut over: then it writes what is under way into the table.
func (s *stage) keep(ctx context.Context, writer int, path string, before int) error {
	l, err := openLedger(path, before)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	writes := NewSession(s.source, s.migration.Mirror())
	for over := false; !over; {
		if l.pending == nil {
			row := rand.IntN((before+before/10)/keepers)*keepers + writer
			does := []string{"insert", "insert long", "insert short", "delete", "note", "amount", "note", "amount"}
			if l.entry(row, before).life > 0 {
				does = does[:4] // values of one row with several ends end together in the encrypted table
			}
			if err := l.begin(act{row, does[rand.IntN(len(does))], rand.Int64N(1e15)}); err != nil {
				return err
			}
		}
		a := *l.pending
		e := l.entry(a.row, before).after(a)
		c, n := a.row/ofCustomer, a.row%ofCustomer
		switch a.does {
		case "delete":
			err = writes.Exec(ctx, "DELETE FROM orders WHERE customer = ? AND number = ?", c, n)
		case "note":
			err = writes.Exec(ctx, "UPDATE orders SET note = ? WHERE customer = ? AND number = ?", e.note, c, n)
		case "amount":
			err = writes.Exec(ctx, "UPDATE orders SET amount = ? WHERE customer = ? AND number = ?", e.amount, c, n)
		default:
			err = writes.Exec(ctx, "INSERT INTO orders (customer, number, note, amount) VALUES (?, ?, ?, ?) USING TTL ?", c, n, e.note, e.amount, e.life)
		}
		if over = errors.Is(err, migrate.ErrCutOver); over {
			err = s.put(ctx, a.row, e)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "writer:", err) // and the same again
			over = false
			continue
		}
		if err := l.done(e); err != nil {
			return err
		}
	}
	return nil
}

// put writes a row into the encrypted table.
func (s *stage) put(ctx context.Context, row int, e entry) error {
	r := store.Row{"customer": int32(row / ofCustomer), "number": int32(row % ofCustomer)}
	if !e.exists {
		return s.table.Delete(ctx, r)
	}
	if e.note != "" {
		r["note"] = e.note
	}
	if e.hasAmount {
		r["amount"] = e.amount
	}
	return s.table.Expiring(time.Duration(e.life)*time.Second).Put(ctx, r)
}

// operate does a step of the migration, and prints how many rows it has read. It begins with a line that says so.
func (s *stage) operate(ctx context.Context, step string) error {
	fmt.Println(0)
	rows := 0
	pass := func(do func(context.Context, inspect.Part, *migrate.PassOptions) (migrate.PartDone, error), repair bool) (all migrate.Counts, err error) {
		parts, err := s.migration.Parts(ctx)
		parts = max(parts, leastParts)
		for i := 0; i < parts && err == nil; i++ {
			var done migrate.PartDone
			done, err = do(ctx, inspect.Part{Index: i, Of: parts}, &migrate.PassOptions{Shares: 4, Repair: repair, Progress: func(n int) { fmt.Println(rows + n) }})
			all.Add(done.Rows)
			rows += done.Rows.Copied + done.Rows.Equal + done.Rows.Mended
		}
		return all, err
	}
	var err error
	var counts migrate.Counts
	switch step {
	case "prepare":
		_, err = s.migration.Prepare(ctx, false)
	case "copy":
		_, err = pass(s.migration.Copy, false)
	case "verify":
		counts, err = pass(s.migration.Verify, true)
	case "cutover":
		err = s.migration.Cutover(ctx)
	case "verify again":
		counts, err = pass(s.migration.Verify, false)
	case "drop":
		_, err = s.migration.Drop(ctx, false, nil)
	}
	if errors.Is(err, migrate.ErrPhase) { // it was killed after it had done its step
		if status, failed := s.migration.Status(ctx); failed == nil && (step == "prepare" && status.Phase == "prepared" || step == "cutover" && status.Phase == "cut over") {
			err = nil
		}
	}
	if n := counts.Differs + counts.Refused; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d rows differ", n))
	}
	return err
}

// killing runs a step, and kills it when it has read so many rows, after some time more. It returns the rows that it read.
func (d *death) killing(t *testing.T, step string, rows int, more time.Duration) (read int, err error) {
	t.Helper()
	cmd := process(t.Context(), "operate", d.keyspace, d.reserved, d.key, step)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var said strings.Builder
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			read = max(read, n)
		}
		if read >= rows && !killed {
			killed = true
			time.Sleep(more)
			_ = cmd.Process.Kill()
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err = cmd.Wait(); err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return read, err
}

const never = 1 << 60

// death is what steps that are killed have in common.
type death struct{ keyspace, reserved, key string }

// A table comes in while eight processes insert rows, update single columns, delete, insert again, and let rows expire. Each step is killed
// twice, and the writers now and then. In the end the encrypted table has exactly what the writers were told that they wrote. What is
// copied twice after a death is at most a part.
//
//	RANGECRYPT_CASSANDRA=127.0.0.1:9042 go test -run EveryStepIsKilled -timeout 2h ./store/migrate/cqlsource -cqlsource.migrated 1000000
func TestEveryStepIsKilled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	before := *migratedRows
	session, keyspace := application(t)
	do(t, session, "CREATE TABLE orders (customer int, number int, note text, amount bigint, at timestamp, PRIMARY KEY ((customer), number))")
	load := new(errgroup.Group)
	load.SetLimit(128)
	for row := range before {
		written := time.Now().Add(-time.Duration(row%2) * time.Hour).UnixMicro() // half of them long before
		load.Go(func() error {
			return session.Query("INSERT INTO orders (customer, number, note, amount) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
				row/ofCustomer, row%ofCustomer, neverOfLong, row, written).ExecContext(t.Context())
		})
	}
	require.NoError(t, load.Wait())
	key := fmt.Sprintf("%032x", r.Uint64())
	s, reserved := open(t, keyspace, key, func(schema *store.Schema) { schema.TTL = store.TTLByRow })
	d := &death{keyspace, reserved, key}
	folder := t.TempDir()

	var writers sync.WaitGroup
	lives := 0
	var mu sync.Mutex
	path := func(writer int) string { return filepath.Join(folder, fmt.Sprint(writer)) }
	for writer := range keepers {
		r := rand.New(rand.NewPCG(seed, uint64(2+writer)))
		writers.Go(func() {
			for ended := false; !ended && t.Context().Err() == nil; {
				cmd := process(t.Context(), "keep", keyspace, reserved, key, fmt.Sprint(writer), path(writer), fmt.Sprint(before))
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if !assert.NoError(t, err) {
					return
				}
				bufio.NewScanner(out).Scan() // until it is ready, which takes long on a busy machine
				kill := time.AfterFunc(time.Duration(500+r.IntN(8000))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				ended = cmd.Wait() == nil
				kill.Stop()
				mu.Lock()
				lives++
				mu.Unlock()
			}
		})
	}
	short := func(step string) time.Duration {
		if step == "prepare" {
			return time.Duration(r.IntN(3)) * time.Millisecond
		}
		return time.Duration(r.IntN(2+before/1000)) * time.Millisecond
	}
	steps := []string{"prepare", "copy", "verify", "cutover", "verify again", "drop"}
	read := make(map[string]int)
	began := time.Now()
	for _, step := range steps {
		if step == "verify again" {
			writers.Wait() // the source receives no writes
			time.Sleep((shortLife + 1) * time.Second)
		}
		for range 2 {
			after := 0
			if step == "copy" || strings.HasPrefix(step, "verify") {
				after = 1 + r.IntN(before/3)
			}
			n, err := d.killing(t, step, after, short(step))
			require.ErrorContains(t, err, "killed", step)
			read[step] += n
		}
		for attempt := 0; ; attempt++ {
			n, err := d.killing(t, step, never, 0)
			read[step] += n
			if err == nil {
				break
			}
			require.Equal(t, "cutover", step, "%v", err)
			require.ErrorContains(t, err, "verify it again")
			require.Less(t, attempt, 20)
			_, err = d.killing(t, "verify", never, 0)
			require.NoError(t, err)
		}
		t.Logf("%s: %.0f s, %d rows read", step, time.Since(began).Seconds(), read[step])
		began = time.Now()
	}
	status, err := s.migration.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "dropped", status.Phase)
	copied := status.Copy.Rows
	again := read["copy"] - copied.Copied - copied.Equal - copied.Mended
	t.Logf("%d lives of writers; the copy: %+v, and %d rows again after two deaths", lives, copied, again)
	parts := max(leastParts, 1<<bitsOf(before>>14))
	require.LessOrEqual(t, again, 2*before/parts*5/4)

	want, acts := make(map[int]entry), 0
	for row := range before {
		want[row] = new(ledger).entry(row, before)
	}
	for writer := range keepers {
		l, err := openLedger(path(writer), before)
		require.NoError(t, err)
		require.Nil(t, l.pending)
		acts += l.acts
		for row, e := range l.rows {
			if want[row] = e; !e.exists || e.life == shortLife {
				delete(want, row)
			}
		}
	}
	t.Logf("%d writes", acts)
	require.Greater(t, acts, 100)
	wrong := 0
	for row, err := range s.table.Query(t.Context(), store.Query{}) {
		require.NoError(t, err)
		id := int(row["customer"].(int32))*ofCustomer + int(row["number"].(int32))
		e := want[id]
		note, _ := row["note"].(string)
		amount, hasAmount := row["amount"].(int64)
		if !e.exists || note != e.note || hasAmount != e.hasAmount || amount != e.amount {
			wrong++
			t.Logf("row %d is %q %d, and is to be %+v", id, note, amount, e)
		}
		delete(want, id)
	}
	require.Zero(t, wrong, "rows that differ")
	require.Empty(t, want, "rows that are lost")
}

func bitsOf(n int) (bits int) {
	for ; n > 0; n >>= 1 {
		bits++
	}
	return bits
}
