package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// put DIR KEYFILE TABLE TENANT FROM TO puts rows of these numbers into a table of the embedded store
// in DIR whose columns are texts, but for the number in its row key.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 6 {
		ts.Fatalf("usage: put DIR KEYFILE TABLE TENANT FROM TO")
	}
	from, err := strconv.Atoi(args[4])
	ts.Check(err)
	to, err := strconv.Atoi(args[5])
	ts.Check(err)
	withTenant(ts, args, func(ctx context.Context, tbl *store.Table) {
		ts.Check(putRows(ctx, tbl, from, to))
	})
}

func putRows(ctx context.Context, tbl *store.Table, from, to int) error {
	s := tbl.Schema()
	var rows []store.Row
	for i := from; i < to; i++ {
		row := store.Row{s.Key[0].Name(): int64(i)}
		for _, c := range s.Columns {
			row[c.Name()] = fmt.Sprintf("%s %d", c.Name(), i)
		}
		rows = append(rows, row)
	}
	return tbl.Put(ctx, rows...)
}

// part DIR KEYFILE TABLE TENANT converts a part of a tenant's rows and stops.
func part(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: part DIR KEYFILE TABLE TENANT")
	}
	withTenant(ts, args, func(ctx context.Context, tbl *store.Table) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := tbl.Convert(ctx, &store.ConvertOptions{Progress: func(done, _ int) {
			if done > 0 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			ts.Fatalf("the conversion was to be stopped: %v", err)
		}
	})
}

func withTenant(ts *testscript.TestScript, args []string, do func(context.Context, *store.Table)) {
	ctx := context.Background()
	db, err := pebble.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	key, err := kms.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	st, err := store.Open(ctx, db, key, nil)
	ts.Check(err)
	tbl, err := openFor(ctx, st, args[2], args[3])
	ts.Check(err)
	do(ctx, tbl)
}

// Who converts what another one is converting joins it, and is told so. Both end when all is done.
func TestTwoConversionsOfATenant(t *testing.T) {
	memory := drivertest.NewMemory()
	key := filepath.Join(t.TempDir(), "key")
	// client returns what runs commands beside others on one database.
	client := func(before func()) (run func(args ...string) exitCode, stdout, stderr *bytes.Buffer) {
		stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
		e := &env{stdout: stdout, stderr: stderr, openStore: func(context.Context, string, bool) (driver.DB, error) {
			return stoppingDB{unclosed{memory}, before}, nil
		}}
		return func(args ...string) exitCode {
			return execute(e, append(args, "--store", "pebble:any", "--key", key))
		}, stdout, stderr
	}
	nothing := func() {}
	run, stdout, stderr := client(nothing)
	e, _, _ := testEnv(t, func(db driver.DB) driver.DB { return db })
	require.Equal(t, exitOK, execute(e, []string{"keys", "generate", key}))
	require.Equal(t, exitOK, run("tenant", "create", "acme"), stderr)
	require.Equal(t, exitOK, run("insert", "--tenant", "acme", "--n", "3000", "--layout", "column"), stderr)
	require.Equal(t, exitOK, run("tenant", "rotate", "acme"), stderr)

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
	ended := make(chan exitCode, 1)
	go func() { ended <- first("tenant", "convert", "acme", "--table", "mope/column") }()
	<-begun
	stdout.Reset()
	code := run("tenant", "status", "acme", "--table", "mope/column")
	joined := run("tenant", "convert", "acme", "--table", "mope/column", "--json")
	close(other)
	require.Equal(t, exitOK, <-ended, firstErr)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, exitOK, joined, stderr)
	require.Regexp(t, `acme +as the schema says +\d+ of 64 parts for version \d+\n`, stdout.String())
	require.Regexp(t, `mope/column, tenant acme: a conversion has begun before, and done \d+ of 64 parts; this joins it\n`, stderr.String())
	require.Regexp(t, `"tenant":"acme","rows":\d+,"converted":[1-9]\d*,"unreadable":0,"complete":true\}\n`, stdout.String())
	require.Regexp(t, `^mope/column, tenant acme: \d+ rows read, \d+ of them written anew\n$`, firstOut.String())
	require.Empty(t, firstErr.String())

	stdout.Reset()
	require.Equal(t, exitOK, run("tenant", "convert", "acme", "--table", "mope/column"), stderr)
	require.Equal(t, "mope/column, tenant acme: 3000 rows read, 0 of them written anew\n", stdout.String())
}

// A conversion that is interrupted says so, and the same command goes on.
func TestInterruptedConversionOfATenant(t *testing.T) {
	run, interrupt := interruptible(t)
	run("tenant", "create", "acme")
	run("insert", "--tenant", "acme", "--n", "3000")
	run("tenant", "rotate", "acme")

	printed := interrupt(func(ctx context.Context, e *env, kept keptStore) error {
		return convertTenant(ctx, e, &convertTenantOptions{keptStore: kept, name: "acme", table: "mope/key"})
	})
	require.Regexp(t, `^mope/key, tenant acme: \d+ rows read, \d+ of them written anew; not finished\n$`, printed)

	require.Contains(t, run("tenant", "convert", "acme", "--table", "mope/key"), "written anew\n")
	require.Regexp(t, `acme +as the schema says +done for version \d+\n`, run("tenant", "status", "--table", "mope/key"))
	require.Contains(t, run("tenant", "convert", "acme", "--table", "mope/key"), "3000 rows read, 0 of them")
	require.Contains(t, run("verify", "--tenant", "acme"), "mope/key, tenant acme: 3000 rows, 3000 cells, 0 index entries; sound\n")
}

// Names of tenants that a terminal would obey are printed as what they are, lines fit a narrow terminal,
// and a question that is interrupted ends the command with nothing changed.
func TestTenantsOnATerminal(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	e.stdoutWidth = 60
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exitOK, execute(e, []string{"keys", "generate", key}))
	const name = "a\x1b[2J"
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
		require.Equal(t, exitOK, execute(e, append(args, kept...)), "%v: %s", args, stderr)
		require.NotContains(t, stdout.String()+stderr.String(), "\x1b")
		if args[0] == "insert" {
			continue
		}
		for line := range strings.Lines(stdout.String()) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 60, "%v: %s", args, line)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.ask = func(context.Context, string) (bool, error) { cancel(); return false, ctx.Err() }
	opts := &namedTenantOptions{keptStore: keptStore{store: "pebble:any", key: key}, name: name}
	require.Equal(t, exitInterrupted, codeOf(ctx, dropTenant(ctx, e, opts)))
	stdout.Reset()
	require.Equal(t, exitOK, execute(e, append([]string{"tenant", "list", "--json"}, kept...)))
	require.Equal(t, 1, strings.Count(stdout.String(), "\n"))
}
