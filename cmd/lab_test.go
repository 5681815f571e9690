package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// lyingDB changes what scans of tables yield.
type lyingDB struct {
	driver.DB
	lie func(r driver.Range, rows []driver.Row) []driver.Row
}

func (l lyingDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := l.DB.Family(ctx, spec)
	return lyingFamily{f, l.lie}, err
}

type lyingFamily struct {
	driver.Family
	lie func(r driver.Range, rows []driver.Row) []driver.Row
}

func (l lyingFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		var rows []driver.Row
		for row, err := range l.Family.Scan(ctx, r) {
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			rows = append(rows, row)
		}
		for _, row := range l.lie(r, rows) {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// A database that lies is found out, whatever the lie, the scheme and the layout, unless the table
// sees through the lie and the answer is right.
func TestRunFindsWrongAnswers(t *testing.T) {
	var other driver.Row // remembered from another query
	first := func(rows []driver.Row) driver.Row {
		return driver.Row{Key: bytes.Clone(rows[0].Key), Cells: rows[0].Cells}
	}
	lies := []struct {
		name  string
		lie   func(r driver.Range, rows []driver.Row) []driver.Row
		key   exit.Code // with layout key
		col   exit.Code // with layout column, where postings are scanned
		moves exit.Code // the same, value by value: here most have one posting
	}{
		{"drops the first row", func(_ driver.Range, rows []driver.Row) []driver.Row { return rows[min(1, len(rows)):] }, exit.Wrong, exit.Wrong, exit.Wrong},
		{"drops the last row", func(_ driver.Range, rows []driver.Row) []driver.Row { return rows[:max(len(rows)-1, 0)] }, exit.Wrong, exit.Wrong, exit.Wrong},
		{"returns nothing", func(driver.Range, []driver.Row) []driver.Row { return nil }, exit.Wrong, exit.Wrong, exit.Wrong},
		{"returns a row twice", func(_ driver.Range, rows []driver.Row) []driver.Row {
			if len(rows) > 0 {
				rows = append([]driver.Row{first(rows)}, rows...)
			}
			return rows
		}, exit.Wrong, exit.Wrong, exit.Wrong},
		{"puts one row in the place of another", func(_ driver.Range, rows []driver.Row) []driver.Row {
			if len(rows) > 1 {
				rows[1] = first(rows)
			}
			return rows
		}, exit.Wrong, exit.Wrong, exit.Wrong},
		{"gives one row the cells of another", func(_ driver.Range, rows []driver.Row) []driver.Row {
			if len(rows) > 1 {
				rows[1].Cells = rows[0].Cells
			}
			return rows
		}, exit.Wrong, exit.OK, exit.OK}, // postings have no content
		{"reverses the order", func(_ driver.Range, rows []driver.Row) []driver.Row {
			for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
				rows[i], rows[j] = rows[j], rows[i]
			}
			return rows
		}, exit.Wrong, exit.Wrong, exit.Wrong},
		{"returns a row out of the range", func(r driver.Range, rows []driver.Row) []driver.Row {
			if len(rows) == 0 {
				return rows
			}
			if other.Key != nil && !slices.ContainsFunc(r.Bounds(), func(b driver.Bounds) bool { return b.Compare(other.Key) == 0 }) {
				return append(rows, other)
			}
			other = first(rows)
			return rows
		}, exit.Wrong, exit.Wrong, exit.Wrong},
	}
	for _, test := range lies {
		for _, scheme := range []string{"plain", "mope", "boldyreva", "wozniak", "wozniak-indexed", "kerschbaum", "plain-indexed"} {
			if scheme == "mope" && test.name == "returns a row out of the range" {
				continue // a query may be two ranges, and the row one of the other: by the secret shift
			}
			layouts := map[string]exit.Code{"key": test.key, "column": test.col}
			if _, err := benchtable.TargetOf(scheme, benchtable.LayoutKey); err != nil {
				layouts = map[string]exit.Code{"column": test.moves}
			}
			for layout, want := range layouts {
				t.Run(scheme+"/"+layout+"/"+test.name, func(t *testing.T) {
					other = driver.Row{}
					told := 0
					var mu sync.Mutex // postings are scanned side by side
					e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
						return lyingDB{db, func(r driver.Range, rows []driver.Row) []driver.Row {
							mu.Lock()
							defer mu.Unlock()
							told++
							return test.lie(r, rows)
						}}
					})
					code := execute(e, []string{"run", "--n", "500", "--queries", "50", "--selectivity", "2,10", "--scheme", scheme, "--layout", layout})
					require.Equal(t, want, code, stderr)
					require.Positive(t, told)
					if want == exit.OK {
						return
					}
					require.Regexp(t, `wrong answer|another order|not as it was written`, stderr)
					require.Contains(t, stderr.String(), "seed 1")
					require.Contains(t, stdout.String(), "Not complete")
				})
			}
		}
	}

	e, _, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return lyingDB{db, func(_ driver.Range, rows []driver.Row) []driver.Row { return rows }}
	})
	require.Equal(t, exit.OK, execute(e, []string{"run", "--n", "500", "--queries", "50"}), "without a lie: %s", stderr)
}

// A row that no query asks for is missed by the query for everything.
func TestRunFindsARowLostOutsideOfTheQueries(t *testing.T) {
	e, _, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return lyingDB{db, func(r driver.Range, rows []driver.Row) []driver.Row {
			if len(rows) >= 500 {
				rows = rows[1:]
			}
			return rows
		}}
	})
	require.Equal(t, exit.Wrong, execute(e, []string{"run", "--n", "500", "--queries", "10"}))
	require.Contains(t, stderr.String(), "query for everything")
}

// What range-query prints was stored under its key, even where the database lies.
func TestRangeQueryRefusesMovedRows(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	lying := false
	e, _, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return lyingDB{db, func(r driver.Range, rows []driver.Row) []driver.Row {
			if lying && len(rows) > 0 {
				last := rows[len(rows)-1] // moved to the end of the domain
				last.Key = append(bytes.Repeat([]byte{0xff}, 8), last.Key[8:]...)
				rows = append(rows, last)
			}
			return rows
		}}
	})
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	kept := []string{"--store", "pebble:x", "--key", key}
	require.Equal(t, exit.OK, execute(e, append([]string{"insert", "--n", "300", "--scheme", "boldyreva"}, kept...)), stderr)
	lying = true
	require.Equal(t, exit.Wrong, execute(e, append([]string{"query", "--from", "0", "--to", "1000000000", "--count"}, kept...)), stderr)
}

func TestFailuresOfTheStoreHaveTheirExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		err    error
		want   exit.Code
	}{
		"no space":        {"Apply", fmt.Errorf("write: %w: %w", driver.ErrUnavailable, syscall.ENOSPC), exit.Unreachable},
		"gone half-way":   {"Apply", driver.ErrUnavailable, exit.Unreachable},
		"gone at queries": {"Scan", driver.ErrUnavailable, exit.Unreachable},
		"locked":          {"Family", driver.ErrLocked, exit.Unreachable},
		"other layout":    {"Family", driver.ErrLayout, exit.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, stderr := testEnv(t, func(db driver.DB) driver.DB {
				return intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
					if op.Method == test.method {
						return test.err
					}
					return c.Make(nil)
				}, nil)
			})
			require.Equal(t, test.want, execute(e, []string{"run", "--n", "500"}), stderr)
			require.NotEmpty(t, stderr.String())
		})
	}
}

var goesOn = regexp.MustCompile(`(\d+) of (\d+) rows were inserted; the same command with --load ([0-9a-f]{16}) goes on`)

// partlyInserted returns how many of n rows an insertion that ended early has said to be there, which
// are some but not all, and the name of its load.
func partlyInserted(t *testing.T, stderr string, n int) (acknowledged int, load string) {
	t.Helper()
	m := goesOn.FindStringSubmatch(stderr)
	require.NotNil(t, m, stderr)
	acknowledged = number(t, m[1])
	require.Positive(t, acknowledged)
	require.Less(t, acknowledged, n)
	require.Equal(t, n, number(t, m[2]))
	return acknowledged, m[3]
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}

// A full disk ends an insertion with a clear error; what was acknowledged is there when there is
// space again, and the insertion goes on.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	kept := []string{"--store", "pebble:" + filepath.Join(dir, "data"), "--key", key}
	const n = 3000

	var written atomic.Int64
	full := vfs.FS(errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncTo || op.Kind == errorfs.OpFileSyncData) && written.Add(1) > 80 {
			return syscall.ENOSPC
		}
		return nil
	})))
	var stdout, stderr bytes.Buffer
	e := &cli.Env{Stdout: &stdout, Stderr: &stderr, OpenStore: func(_ context.Context, name string, _ stores.How) (driver.DB, error) {
		return pebble.Open(strings.TrimPrefix(name, "pebble:"), &pebble.Options{FS: full})
	}}
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	insert := append([]string{"insert", "--n", strconv.Itoa(n), "--writers", "1"}, kept...)
	require.Equal(t, exit.Unreachable, execute(e, insert), &stderr)
	require.Contains(t, stderr.String(), "no space left")
	acknowledged, load := partlyInserted(t, stderr.String(), n)

	e.OpenStore = stores.Open
	count := func() int {
		stdout.Reset()
		require.Equal(t, exit.OK, execute(e, append([]string{"query", "--count"}, kept...)), &stderr)
		return number(t, stdout.String())
	}
	require.GreaterOrEqual(t, count(), acknowledged)
	require.Equal(t, exit.OK, execute(e, append(insert, "--load", load)), &stderr)
	require.Equal(t, n, count())
}

// An input that is changed while it is read is noticed. What was inserted can go on only if the rows of
// before are still there; otherwise the way out is named.
func TestInputThatChanges(t *testing.T) {
	before := "c\n" + strings.Repeat("1\n2\n3\n", 100)
	for name, test := range map[string]struct {
		after  string
		goesOn bool
	}{
		"rewritten":          {strings.ReplaceAll(before, "2", "4"), false},
		"cut":                {before[:len(before)/2], false},
		"another type":       {before[:len(before)/2] + "x\n" + before[len(before)/2:], false},
		"rows came after it": {before + "5\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			key, input := filepath.Join(dir, "key"), filepath.Join(dir, "in.csv")
			e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
				require.NoError(t, os.WriteFile(input, []byte(test.after), 0o600)) // it was read once by now
				return db
			})
			require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
			require.NoError(t, os.WriteFile(input, []byte(before), 0o600))
			insert := []string{"insert", "--store", "pebble:x", "--key", key, "--input", input, "--column", "c", "--batch", "10"}
			require.Equal(t, exit.Failed, execute(e, insert), stderr)
			require.Contains(t, stderr.String(), "the input has changed while it was read")
			load := regexp.MustCompile(`load ([0-9a-f]{16})`).FindStringSubmatch(stdout.String())[1]
			if !test.goesOn {
				require.NotContains(t, stderr.String(), "--load")
				require.Contains(t, stderr.String(), "this load cannot go on")
				require.Contains(t, stderr.String(), "'rangecrypt table drop mope/key'")
				return
			}
			require.Contains(t, stderr.String(), "300 of 300 rows were inserted; the same command with --load "+load+" goes on")
			require.Equal(t, exit.OK, execute(e, append(insert, "--load", load)), stderr)
			stdout.Reset()
			require.Equal(t, exit.OK, execute(e, []string{"query", "--store", "pebble:x", "--key", key, "--count"}), stderr)
			require.Equal(t, "301\n", stdout.String())
		})
	}
}

// Ctrl-C: what was inserted is there, and the insertion goes on where it ended.
func TestInterruptedInsert(t *testing.T) {
	unixOnly(t)
	for _, scheme := range []string{"mope", "wozniak-indexed", "kerschbaum"} {
		t.Run(scheme, func(t *testing.T) { testInterruptedInsert(t, scheme) })
	}
}

func testInterruptedInsert(t *testing.T, scheme string) {
	dir := t.TempDir()
	require.NoError(t, exec.Command("opebench", "keys", "generate", filepath.Join(dir, "key")).Run())
	const n = 12_000
	insert := []string{"insert", "--store", "pebble:data", "--key", "key", "--n", strconv.Itoa(n), "--batch", "20", "--scheme", scheme}
	cmd, stdout, stderr := start(t, dir, insert...)
	grown(t, filepath.Join(dir, "data"), 100_000)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), stderr)
	require.Contains(t, stderr.String(), "interrupted")
	acknowledged, load := partlyInserted(t, stderr.String(), n)
	require.Contains(t, stdout.String(), strconv.Itoa(acknowledged)+" int32 rows inserted", "partial results are printed")

	count := func() int {
		cmd, stdout, stderr := start(t, dir, "query", "--store", "pebble:data", "--key", "key", "--count")
		require.NoError(t, cmd.Wait(), stderr)
		return number(t, stdout.String())
	}
	require.Equal(t, acknowledged, count(), "batches that were under way are counted")
	if scheme != "mope" {
		require.Contains(t, stdout.String(), "\nindex: ")
	}
	cmd, _, stderr = start(t, dir, append(insert, "--load", load)...)
	require.NoError(t, cmd.Wait(), stderr)
	require.Contains(t, stderr.String(), fmt.Sprintf("%d of %d rows of this load are there\n", acknowledged, n))
	require.Equal(t, n, count())
}

// A process that is killed at any time has printed the name of its insertion before it wrote, with
// which the same command makes every row be there once: on pebble, after several kills, with
// another size of batches, and with bad rows left out. Another input is refused.
func TestKilledInsert(t *testing.T) {
	unixOnly(t)
	for _, test := range []struct {
		layout string
		args   []string
		first  func(stdout string) string // the name in the first line
	}{
		{"key", nil, func(line string) string {
			return regexp.MustCompile(`^load ([0-9a-f]{16}): `).FindStringSubmatch(line)[1]
		}},
		{"column", []string{"--json"}, func(line string) string {
			var r struct{ Record, Load string }
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			require.Equal(t, "load", r.Record)
			return r.Load
		}},
	} {
		t.Run(test.layout, func(t *testing.T) {
			dir := t.TempDir()
			const n = 12_000
			var input, other strings.Builder
			input.WriteString("a,b\n")
			other.WriteString("a,b\n")
			for i := range n {
				fmt.Fprintf(&input, "%d,%d\n", i%1000, i)
				fmt.Fprintf(&other, "%d,%d\n", (i+1)%1000, i)
				if i%200 == 100 {
					input.WriteString("NA,0\n")
				}
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "in.csv"), []byte(input.String()), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "other.csv"), []byte(other.String()), 0o600))
			require.NoError(t, exec.Command("opebench", "keys", "generate", filepath.Join(dir, "key")).Run())
			kept := []string{"--store", "pebble:data", "--key", "key"}
			insert := func(file string, args ...string) []string {
				return slices.Concat([]string{"insert", "--input", file, "--column", "a", "--layout", test.layout, "--skip-bad"}, kept, test.args, args)
			}
			name := ""
			for kill := range 3 {
				args := []string{"--batch", strconv.Itoa(5 + kill)}
				if name != "" {
					args = append(args, "--load", name)
				}
				cmd := exec.Command("opebench", insert("in.csv", args...)...)
				cmd.Dir = dir
				pipe, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				line, err := bufio.NewReader(pipe).ReadString('\n')
				require.NoError(t, err)
				if found := test.first(line); name == "" {
					name = found
				} else {
					require.Equal(t, name, found)
				}
				if kill > 0 {
					time.Sleep(time.Duration(kill) * 50 * time.Millisecond)
				} else {
					grown(t, filepath.Join(dir, "data"), 100_000)
				}
				require.NoError(t, cmd.Process.Kill())
				require.Error(t, cmd.Wait())
			}
			count := func() int {
				out, err := exec.Command("opebench", "query", "--store", "pebble:"+filepath.Join(dir, "data"), "--key", filepath.Join(dir, "key"), "--count").Output()
				require.NoError(t, err)
				return number(t, string(out))
			}
			require.Positive(t, count())
			require.Less(t, count(), n, "it was killed too late")

			for _, wrong := range [][]string{insert("other.csv", "--load", name), insert("in.csv", "--load", name, "--column", "b")} {
				cmd, stdout, _ := start(t, dir, wrong...)
				_ = cmd.Wait()
				require.Equal(t, 2, cmd.ProcessState.ExitCode())
				require.Empty(t, stdout.String())
			}
			for range 2 {
				cmd, _, stderr := start(t, dir, insert("in.csv", "--load", name, "--batch", "300")...)
				require.NoError(t, cmd.Wait(), stderr)
				require.Equal(t, n, count())
			}
			cmd, stdout, stderr := start(t, dir, slices.Concat([]string{"query", "--from", "7", "--to", "7", "--count"}, kept)...)
			require.NoError(t, cmd.Wait(), stderr)
			require.Equal(t, "12\n", stdout.String())
		})
	}
}

// Ctrl-C: a run prints what it measured, and leaves no temporary store behind.
func TestInterruptedRun(t *testing.T) {
	unixOnly(t)
	temp := t.TempDir()
	cmd := exec.Command("opebench", "run", "--n", "1000000", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	grown(t, temp, 1_000_000)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), &stderr)
	require.Regexp(t, `^opebench: 1000000 rows for each of 6 tables, .*\n(opebench: inserting.*\n)*opebench: interrupted\n$`, stderr.String())
	records := map[string]int{}
	for line := range strings.Lines(stdout.String()) {
		var r struct {
			Record   string
			Complete bool
			Rows     int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.False(t, r.Complete)
		records[r.Record]++
	}
	require.Equal(t, 1, records["run"])
	require.Positive(t, records["result"])
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A reader that has seen enough, such as head, is no failure.
func TestClosedPipeEndsQuietly(t *testing.T) {
	unixOnly(t)
	dir := t.TempDir()
	for _, args := range [][]string{
		{"keys", "generate", "key"},
		{"insert", "--store", "pebble:data", "--key", "key", "--n", "30000"},
	} {
		cmd, _, stderr := start(t, dir, args...)
		require.NoError(t, cmd.Wait(), stderr)
	}
	for _, args := range [][]string{
		{"opebench", "query"},
		{"opebench", "query", "--json"},
		{"rangecrypt", "table", "query", "mope/key"},
		{"rangecrypt", "table", "query", "mope/key", "--json"},
	} {
		cmd := exec.Command(args[0], append(args[1:], "--store", "pebble:data", "--key", "key")...)
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReaderSize(pipe, 16).ReadString('\n')
		require.NoError(t, err)
		require.NotEmpty(t, line)
		require.NoError(t, pipe.Close())
		require.NoError(t, cmd.Wait(), &stderr)
		require.Empty(t, stderr.String())
	}
}

// Any other failure to write is one.
func TestUnwritableOutputIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full on this system")
	}
	defer full.Close()
	dir := t.TempDir()
	kept := []string{"--store", "pebble:data", "--key", "key"}
	for _, args := range [][]string{{"keys", "generate", "key"}, append([]string{"insert", "--n", "3000"}, kept...)} {
		made := exec.Command("opebench", args...)
		made.Dir = dir
		require.NoError(t, made.Run())
	}
	for _, args := range [][]string{
		{"run", "--n", "100", "--queries", "3"}, {"keys", "generate"}, {"version"}, {"--version"}, {}, {"--help"}, {"run", "--help"}, {"help", "run"},
		append([]string{"range-query"}, kept...), append([]string{"range-query", "--limit", "3"}, kept...),
		append([]string{"range-query", "--json"}, kept...), append([]string{"range-query", "--count"}, kept...),
	} {
		cmd := exec.Command("opebench", args...)
		cmd.Dir = dir
		cmd.Stdout = full
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run()
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), "%v", args)
		require.Regexp(t, `^opebench: .*no space left on device\n$`, stderr.String(), "%v", args)
	}
}

// The family of a tree is dropped after a run, also after one that was interrupted.
func TestTreeIsDropped(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		var db driver.DB
		var calls atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		e, _, stderr := testEnv(t, func(made driver.DB) driver.DB {
			db = made
			return intercept.New(made, func(_ context.Context, op intercept.Op, c intercept.Call) error {
				if strings.HasPrefix(op.Family, "opebench_tree_") && op.Method != "Drop" {
					if n := calls.Add(1); interrupted && n == 50 {
						cancel()
					}
				}
				return c.Make(nil)
			}, nil)
		})
		open := e.OpenStore
		e.OpenStore = func(ctx context.Context, name string, how stores.How) (driver.DB, error) {
			if err := ctx.Err(); err != nil {
				return nil, err // as of a server
			}
			return open(ctx, name, how)
		}
		code := executeIn(ctx, e, []string{"run", "--scheme", "tree", "--n", "2000", "--queries", "3"})
		require.Equal(t, interrupted, code != exit.OK, "%s", stderr)
		require.GreaterOrEqual(t, calls.Load(), int64(50))
		names, err := db.Families(t.Context())
		require.NoError(t, err)
		for _, name := range names {
			require.NotContains(t, name, "tree")
		}
		cancel()
	}
}

// A tree that is left of a run that was killed is told of, and --replace drops it.
func TestTreeThatIsLeft(t *testing.T) {
	var db driver.DB
	e, _, stderr := testEnv(t, func(made driver.DB) driver.DB { db = made; return made })
	run := []string{"run", "--scheme", "tree", "--n", "200", "--queries", "3"}
	require.Equal(t, exit.OK, execute(e, run))
	require.Empty(t, stderr.String())
	_, err := db.Family(t.Context(), driver.FamilySpec{Name: "opebench_tree_0123456789abcdef", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	kept := append(run, "--store", "pebble:x", "--key", key)
	require.Equal(t, exit.OK, execute(e, kept))
	_, err = db.Family(t.Context(), driver.FamilySpec{Name: "opebench_tree_0123456789abcdef", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	require.Equal(t, exit.OK, execute(e, kept))
	require.Contains(t, stderr.String(), "the store has trees of a run that was killed, or of one that goes on: 1; --replace drops them")
	require.Equal(t, exit.OK, execute(e, append(kept, "--replace")))
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	for _, name := range names {
		require.NotContains(t, name, "tree")
	}
}

// A bar is drawn on a terminal, and taken away in the end.
func TestProgress(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return intercept.WithLatency(db, func() time.Duration { return time.Millisecond })
	})
	e.BarWidth = 80
	require.Equal(t, exit.OK, execute(e, []string{"run", "--n", "5000", "--queries", "3"}))
	require.Contains(t, stderr.String(), "inserting")
	require.NotContains(t, stdout.String(), "inserting")
	require.Regexp(t, `\r$`, stderr.String())

	e, _, stderr = testEnv(t, func(db driver.DB) driver.DB { return db })
	require.Equal(t, exit.OK, execute(e, []string{"run", "--n", "200", "--queries", "3"}))
	require.Empty(t, stderr.String())
}

// A column's name that came from a file does nothing to a terminal; elsewhere it is printed as it is.
func TestNamesOnTerminals(t *testing.T) {
	dir := t.TempDir()
	key, input := filepath.Join(dir, "key"), filepath.Join(dir, "in.csv")
	const name = "a\u2028[31m\u00ad2J\u202e\U000e0001\"\\b" // with what JSON does not escape by itself
	require.NoError(t, os.WriteFile(input, []byte(`"`+strings.ReplaceAll(name, `"`, `""`)+"\",b\n1,2\n"), 0o600))
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	kept := []string{"--store", "pebble:x", "--key", key}
	harmless := func(text string) {
		t.Helper()
		for _, r := range strings.ReplaceAll(text, "\n", "") {
			require.True(t, strconv.IsPrint(r), "%q", text)
		}
	}
	require.Equal(t, exit.OK, execute(e, append([]string{"insert", "--input", input, "--column", "1", "--json"}, kept...)), stderr)
	harmless(stdout.String() + stderr.String())
	require.Equal(t, exit.Usage, execute(e, append([]string{"insert", "--input", input, "--column", "b"}, kept...)))
	require.Contains(t, stderr.String(), `and this is column "b"`)
	harmless(stderr.String())

	stdout.Reset()
	require.Equal(t, exit.OK, execute(e, append([]string{"query", "--json"}, kept...)))
	harmless(stdout.String())
	var row map[string]int
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &row))
	require.Equal(t, map[string]int{name: 1}, row)
	stdout.Reset()
	require.Equal(t, exit.OK, execute(e, append([]string{"query"}, kept...)))
	require.Equal(t, `"`+strings.ReplaceAll(name, `"`, `""`)+"\"\n1\n", stdout.String())
	e.StdoutWidth = 80
	stdout.Reset()
	require.Equal(t, exit.OK, execute(e, append([]string{"query"}, kept...)))
	harmless(stdout.String())
}
