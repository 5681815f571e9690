package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// stoppingDB calls a function before rows are replaced, as only conversions do.
type stoppingDB struct {
	driver.DB
	before func()
}

func (db stoppingDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return stoppingFamily{f, db.before}, err
}

type stoppingFamily struct {
	driver.Family
	before func()
}

func (f stoppingFamily) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	f.before()
	return f.Family.Replace(ctx, replacements...)
}

// interruptible returns what runs commands on a store, and what interrupts a conversion in it as soon
// as it has begun to replace rows, and returns what it has printed.
func interruptible(t *testing.T) (run func(args ...string) string, interrupt func(convert func(context.Context, *env, keptStore) error) string) {
	t.Helper()
	interrupted := func() {}
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return stoppingDB{db, func() { interrupted() }} })
	kept := keptStore{store: "pebble:any", key: filepath.Join(t.TempDir(), "key")}
	require.Equal(t, exitOK, execute(e, []string{"keys", "generate", kept.key}))
	run = func(args ...string) string {
		t.Helper()
		stdout.Reset()
		require.Equal(t, exitOK, execute(e, append(args, "--store", kept.store, "--key", kept.key)), stderr)
		return stdout.String()
	}
	return run, func(convert func(context.Context, *env, keptStore) error) string {
		t.Helper()
		stdout.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		interrupted = cancel
		err := convert(ctx, e, kept)
		interrupted = func() {}
		require.Equal(t, exitInterrupted, codeOf(ctx, err), err)
		require.Contains(t, stderr.String(), "the conversion is not finished; the same command goes on")
		return stdout.String()
	}
}

// A conversion that is interrupted says so, and the same command goes on.
func TestInterruptedConversion(t *testing.T) {
	run, interrupt := interruptible(t)
	run("insert", "--n", "3000", "--layout", "column")
	run("table", "alter", "mope/column", "--change", "name: uniform, encryption: ordered, scheme: wozniak")

	printed := interrupt(func(ctx context.Context, e *env, kept keptStore) error {
		return convertTable(ctx, e, &convertTableOptions{keptStore: kept, name: "mope/column"})
	})
	require.Regexp(t, `^mope/column: \d+ rows read, \d+ of them written anew; not finished\n$`, printed)
	require.Contains(t, run("table", "convert", "mope/column", "--status"), "to be converted for uniform")

	require.Contains(t, run("table", "convert", "mope/column"), "written anew\n")
	require.Contains(t, run("table", "convert", "mope/column", "--status"), "no column is to be converted")
	require.Contains(t, run("verify"), "3000 rows, 6000 cells, 3000 index entries; sound\n")
}

// What is printed fits a narrow terminal.
func TestTablesOnNarrowTerminal(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	e.stdoutWidth = 60
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exitOK, execute(e, []string{"keys", "generate", key}))
	kept := []string{"--store", "pebble:any", "--key", key}
	for _, args := range [][]string{
		{"table", "create", "internal/schemafile/testdata/readings.yaml"},
		{"table", "list"},
		{"table", "alter", "readings", "--change", "name: note, encryption: deterministic"},
		{"table", "describe", "readings", "--count"},
		{"table", "convert", "readings"},
	} {
		stdout.Reset()
		require.Equal(t, exitOK, execute(e, append(args, kept...)), stderr)
		for line := range strings.Lines(stdout.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 60, line)
		}
	}
	require.Empty(t, stderr.String())
	stdout.Reset()
	require.Equal(t, exitOK, execute(e, append([]string{"table", "describe", "readings"}, kept...)))
	require.Contains(t, stdout.String(), "\nnote\n  part: column\n  type: string\n  encryption: deterministic\n")
}

// Names that a terminal would obey are printed as what they are, and a question that is interrupted
// ends the command with nothing changed.
func TestHostileNamesAndInterruptedQuestions(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "schema.yaml")
	require.NoError(t, os.WriteFile(file, []byte("table: \"a\\e[2J\"\nkey: [{name: \"k\\n\", type: bool, encryption: hashed}]\n"), 0o600))
	require.Equal(t, exitOK, execute(e, []string{"keys", "generate", key}))
	kept := []string{"--store", "pebble:any", "--key", key}
	require.Equal(t, exitOK, execute(e, append([]string{"table", "create", file}, kept...)), stderr)
	require.Equal(t, exitOK, execute(e, append([]string{"table", "list"}, kept...)))
	require.Equal(t, exitOK, execute(e, append([]string{"table", "describe", "a\x1b[2J"}, kept...)))
	require.NotContains(t, stdout.String()+stderr.String(), "\x1b")
	require.Contains(t, stdout.String(), `"k\n"`)

	ctx, cancel := context.WithCancel(t.Context())
	e.ask = func(context.Context, string) (bool, error) { cancel(); return false, ctx.Err() }
	opts := &dropTableOptions{keptStore: keptStore{store: "pebble:any", key: key}, name: "a\x1b[2J"}
	require.Equal(t, exitInterrupted, codeOf(ctx, dropTable(ctx, e, opts)))
	stdout.Reset()
	require.Equal(t, exitOK, execute(e, append([]string{"table", "list", "--json"}, kept...)))
	require.Equal(t, 1, bytes.Count(stdout.Bytes(), []byte("\n")))
}

// Columns that share a key and have two are told.
func TestKeysThatAreNotShared(t *testing.T) {
	column := func(name, key, other string) store.FieldDescription {
		return store.FieldDescription{Name: name, SearchKey: key, SharedWith: []string{other}}
	}
	d := store.DatabaseDescription{Tables: []store.Description{
		{Name: "t", Columns: []store.FieldDescription{column("a", "1", "u.b")}}, {Name: "u", Columns: []store.FieldDescription{column("b", "1", "t.a")}},
	}}
	require.NoError(t, checkShared(d))
	d.Tables[1].Columns[0].SearchKey = "2"
	require.ErrorContains(t, checkShared(d), "t.a and u.b share a key")
	require.Equal(t, exitWrong, codeOf(t.Context(), checkShared(d)))
}
