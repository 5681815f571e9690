package cmd

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Who converts what another one is converting joins it, and is shown that. Both end when all is done.
func TestTwoConversionsOfATenant(t *testing.T) {
	memory := drivertest.NewMemory()
	key := filepath.Join(t.TempDir(), "key")
	// client returns what runs commands beside others on one database.
	client := func(do func()) (run func(args ...string) exit.Code, stdout, stderr *bytes.Buffer) {
		stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
		e := &cli.Env{Stdout: stdout, Stderr: stderr, OpenStore: func(context.Context, string, stores.How) (driver.DB, error) {
			return before(unclosed{memory}, do, "Replace"), nil
		}}
		return func(args ...string) exit.Code {
			return execute(e, append(args, "--store", "pebble:any", "--key", key))
		}, stdout, stderr
	}
	nothing := func() {}
	run, stdout, stderr := client(nothing)
	e, _, _ := testEnv(t, func(db driver.DB) driver.DB { return db })
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	require.Equal(t, exit.OK, run("tenant", "create", "acme"), stderr)
	require.Equal(t, exit.OK, run("insert", "--tenant", "acme", "--n", "3000", "--layout", "column"), stderr)
	require.Equal(t, exit.OK, run("tenant", "rotate", "acme"), stderr)

	// The first stops when a half of the parts or so are done; the other one then does the rest.
	begun, other := make(chan struct{}), make(chan struct{})
	var calls sync.Mutex
	n := 0
	first, firstOut, firstErr := client(func() {
		calls.Lock()
		n++
		at := n
		calls.Unlock()
		if at == 20 {
			close(begun)
		}
		if at >= 20 {
			<-other
		}
	})
	ended := make(chan exit.Code, 1)
	go func() { ended <- first("tenant", "convert", "acme", "--table", "mope/column") }()
	<-begun
	stdout.Reset()
	code := run("tenant", "status", "acme", "--table", "mope/column")
	joined := run("tenant", "convert", "acme", "--table", "mope/column", "--json")
	close(other)
	require.Equal(t, exit.OK, <-ended, firstErr)
	require.Equal(t, exit.OK, code, stderr)
	require.Equal(t, exit.OK, joined, stderr)
	require.Regexp(t, `acme +as the schema says +\d+ of 64 parts for version \d+\n`, stdout.String())
	require.Regexp(t, `mope/column, tenant acme: a conversion has begun before, and done \d+ of 64 parts of the key space; this joins it\n`, stderr.String())
	require.Regexp(t, `"tenant":"acme","rows":\d+,"converted":[1-9]\d*,"unreadable":0,"unfit":0,"complete":true\}\n`, stdout.String())
	require.Regexp(t, `^mope/column, tenant acme: \d+ rows read, \d+ of them rewritten\n$`, firstOut.String())
	require.Empty(t, firstErr.String())

	stdout.Reset()
	require.Equal(t, exit.OK, run("tenant", "convert", "acme", "--table", "mope/column"), stderr)
	require.Equal(t, "mope/column, tenant acme: 3000 rows read, 0 of them rewritten\n", stdout.String())
}

// A conversion that is interrupted says so, and the same command goes on.
func TestInterruptedConversionOfATenant(t *testing.T) {
	run, interrupt := interruptible(t)
	run("tenant", "create", "acme")
	run("insert", "--tenant", "acme", "--n", "3000")
	run("tenant", "rotate", "acme")

	printed := interrupt(notFinished, "tenant", "convert", "acme", "--table", "mope/key")
	require.Regexp(t, `^mope/key, tenant acme: \d+ rows read, \d+ of them rewritten; not finished\n$`, printed)

	require.Contains(t, run("tenant", "convert", "acme", "--table", "mope/key"), "rewritten\n")
	require.Regexp(t, `acme +as the schema says +done for version \d+\n`, run("tenant", "status", "--table", "mope/key"))
	require.Contains(t, run("tenant", "convert", "acme", "--table", "mope/key"), "3000 rows read, 0 of them")
	require.Contains(t, run("verify", "--tenant", "acme"), "mope/key, tenant acme: 3000 rows, 3000 cells, 0 index entries; sound\n")
}

// A purge that is interrupted says so, and the same command goes on.
func TestInterruptedPurge(t *testing.T) {
	run, interrupt := interruptible(t)
	run("tenant", "create", "acme")
	run("insert", "--tenant", "acme", "--n", "3000")
	run("tenant", "drop", "acme", "--yes")
	printed := interrupt("'rangecrypt tenant purge' goes on", "tenant", "purge", "--yes")
	require.Regexp(t, `^mope/key: \d+ rows, 0 index entries and 0 indexes of dropped tenants were deleted; not finished\n$`, printed)
	require.Contains(t, run("verify"), "rows are of tenants that were dropped")
	require.Contains(t, run("tenant", "purge", "--yes"), "of dropped tenants were deleted\n")
	require.NotContains(t, run("verify"), "dropped")
}

// A process that is killed while it drops a tenant with its rows leaves nothing that the next one
// cannot delete.
func TestKilledPurge(t *testing.T) {
	dir := t.TempDir()
	kept := []string{"--store", "pebble:data", "--key", "key"}
	run := func(args ...string) string {
		t.Helper()
		cmd, stdout, stderr := start(t, dir, append(args, kept...)...)
		require.NoError(t, cmd.Wait(), stderr)
		return stdout.String()
	}
	cmd, _, _ := start(t, dir, "keys", "generate", "key")
	require.NoError(t, cmd.Wait())
	run("tenant", "create", "other")
	run("insert", "--tenant", "other", "--n", "100", "--layout", "column")
	killed := 0
	for i := range sim.Share(6, 3) {
		run("tenant", "create", "acme")
		run("insert", "--tenant", "acme", "--n", "10000", "--layout", "column")
		cmd, stdout, _ := start(t, dir, append([]string{"tenant", "drop", "acme", "--rows", "--yes"}, kept...)...)
		time.Sleep(time.Duration(20+40*i) * time.Millisecond)
		_ = cmd.Process.Kill()
		if cmd.Wait() != nil {
			killed++
		}
		if strings.Contains(run("tenant", "list"), "acme") {
			require.NotContains(t, stdout.String(), "was dropped")
			run("tenant", "drop", "acme", "--rows", "--yes")
		} else {
			run("tenant", "purge", "--yes")
		}
		found := run("verify")
		require.Contains(t, found, "mope/column: 100 rows, 200 cells, 100 index entries; sound")
		require.NotContains(t, found, "dropped")
	}
	require.Positive(t, killed)
	require.Equal(t, "100\n", run("range-query", "--tenant", "other", "--layout", "column", "--count"))
}

// Names of tenants that a terminal would obey are printed as what they are, lines fit a narrow terminal,
// and a question that is interrupted ends the command with nothing changed.
func TestTenantsOnATerminal(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	e.StdoutWidth = 60
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	require.Equal(t, exit.Failed, execute(e, []string{"tenant", "create", "a\x1b[2J", "--store", "pebble:any", "--key", key}))
	const name = "a\u202eb"
	kept := []string{"--store", "pebble:any", "--key", key}
	for _, args := range [][]string{
		{"tenant", "create", name},
		{"insert", "--tenant", name, "--n", "3", "--layout", "column"},
		{"tenant", "list", "--table", "mope/column"},
		{"tenant", "policy", name, "--table", "mope/column", "--whole"},
		{"tenant", "policy", name, "--table", "mope/column"},
		{"tenant", "rotate", name},
		{"tenant", "convert", name, "--table", "mope/column"},
		{"tenant", "status", "--table", "mope/column"},
		{"table", "describe", "mope/column", "--count"},
		{"table", "convert", "mope/column", "--status"},
		{"verify", "--tenant", name},
	} {
		stdout.Reset()
		require.Equal(t, exit.OK, execute(e, append(args, kept...)), "%v: %s", args, stderr)
		require.NotContains(t, stdout.String()+stderr.String(), "\x1b")
		require.NotContains(t, stdout.String()+stderr.String(), "\u202e")
		if args[0] == "insert" {
			continue
		}
		for line := range strings.Lines(stdout.String()) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 60, "%v: %s", args, line)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.Ask = func(context.Context, string) (bool, error) { cancel(); return false, ctx.Err() }
	require.Equal(t, exit.Interrupted, executeIn(ctx, e, append([]string{"tenant", "drop", name}, kept...)))
	stdout.Reset()
	require.Equal(t, exit.OK, execute(e, append([]string{"tenant", "list", "--json"}, kept...)))
	require.Equal(t, 1, strings.Count(stdout.String(), "\n"))
}
