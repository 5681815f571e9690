package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// before returns a database that calls a function before calls of the named methods.
func before(db driver.DB, do func(), methods ...string) driver.DB {
	return intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if slices.Contains(methods, op.Method) {
			do()
		}
		return c.Make(nil)
	}, nil)
}

// interruptible returns what runs commands on a store. interrupt runs one, and interrupts it as soon as it has
// begun to replace or delete rows. The command is to say so, and what it has printed is returned.
func interruptible(t *testing.T) (run func(args ...string) string, interrupt func(says string, args ...string) string) {
	t.Helper()
	interrupted := func() {}
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return before(db, func() { interrupted() }, "Replace", "Apply") })
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	kept := func(args []string) []string { return append(args, "--store", "pebble:any", "--key", key) }
	run = func(args ...string) string {
		t.Helper()
		stdout.Reset()
		require.Equal(t, exit.OK, execute(e, kept(args)), stderr)
		return stdout.String()
	}
	return run, func(says string, args ...string) string {
		t.Helper()
		stdout.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		interrupted = cancel
		code := executeIn(ctx, e, kept(args))
		interrupted = func() {}
		require.Equal(t, exit.Interrupted, code, stderr)
		require.Contains(t, stderr.String(), says)
		return stdout.String()
	}
}

const notFinished = "the conversion is not finished; the same command goes on"

// A conversion that is interrupted says so, and the same command goes on.
func TestInterruptedConversion(t *testing.T) {
	run, interrupt := interruptible(t)
	run("insert", "--n", "3000", "--layout", "column")
	run("keys", "rotate", "--table", "mope/column")

	printed := interrupt(notFinished, "table", "convert", "mope/column")
	require.Regexp(t, `^mope/column: \d+ rows read, \d+ of them rewritten; not finished\n$`, printed)
	require.Regexp(t, `; \d+ of 64 parts of the key space are done`, run("table", "convert", "mope/column", "--status"))

	require.Contains(t, run("table", "convert", "mope/column"), "rewritten\n")
	require.Contains(t, run("table", "convert", "mope/column", "--status"), "no column is to be converted; 64 of 64 parts of the key space are done")
	require.NotContains(t, run("table", "convert", "mope/column", "--status"), "since")
	run("keys", "rotate", "--table", "mope/column")
	require.Regexp(t, `the table was changed since, at version \d+, and rows may be stored as before`, run("table", "convert", "mope/column", "--status"))
	run("table", "convert", "mope/column")
	require.NotContains(t, run("table", "convert", "mope/column", "--status"), "since")
	require.Contains(t, run("verify"), "3000 rows, 6000 cells, 3000 index entries; sound\n")
}

// A deletion that is interrupted says how many rows are deleted, and the same command deletes the rest.
func TestInterruptedDeletion(t *testing.T) {
	run, interrupt := interruptible(t)
	run("insert", "--n", "2000", "--layout", "column", "--seed", "3")
	count := func() (n int) {
		_, err := fmt.Sscan(run("table", "query", "mope/column", "--where", "uniform > 0", "--count"), &n)
		require.NoError(t, err)
		return n
	}
	all := count()
	require.Greater(t, all, 800)

	printed := interrupt("interrupted", "table", "delete", "mope/column", "--where", "uniform > 0", "--yes")
	var deleted int
	_, err := fmt.Sscanf(printed, "mope/column: %d rows deleted; not finished, the same command deletes the rest\n", &deleted)
	require.NoError(t, err, printed)
	left := count()
	require.Less(t, deleted, all)
	require.LessOrEqual(t, deleted, all-left)

	require.Equal(t, fmt.Sprintf("mope/column: %d rows deleted\n", left), run("table", "delete", "mope/column", "--where", "uniform > 0", "--yes"))
	require.Zero(t, count())
	require.Contains(t, run("verify"), "sound\n")
}

// What is there after it was deleted, since a clock was ahead that wrote it, does not count as deleted.
func TestDeletionsThatLose(t *testing.T) {
	lose := false
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
			if lose && op.Method == "Apply" {
				return c.Partly()
			}
			return c.Make(nil)
		}, nil)
	})
	dir := t.TempDir()
	key, schema, rows := filepath.Join(dir, "key"), filepath.Join(dir, "t.yaml"), filepath.Join(dir, "t.csv")
	run := func(code exit.Code, args ...string) string {
		t.Helper()
		stdout.Reset()
		stderr.Reset()
		require.Equal(t, code, execute(e, append(args, "--store", "pebble:any", "--key", key)), stderr)
		return stdout.String()
	}
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	require.NoError(t, os.WriteFile(schema, []byte("table: t\nkey: [{name: id, type: int64, encryption: hashed}]\ncolumns: [{name: note, type: string, encryption: randomised}]\n"), 0o600))
	require.NoError(t, os.WriteFile(rows, []byte("id,note\n1,a\n2,b\n3,c\n4,d\n"), 0o600))
	run(exit.OK, "table", "create", schema)
	run(exit.OK, "table", "insert", "t", "--input", rows)
	lose = true
	require.Equal(t, "t: 2 rows deleted; not finished, the same command deletes the rest\n", run(exit.Failed, "table", "delete", "t", "--all", "--yes"))
	require.Contains(t, stderr.String(), "still there: 2 rows that another client has put meanwhile, or one whose clock is ahead")
	lose = false
	require.Equal(t, "t: 2 rows deleted\n", run(exit.OK, "table", "delete", "t", "--all", "--yes"))

	// Who is not asked has not counted the rows: no share of them is shown.
	run(exit.OK, "table", "insert", "t", "--input", rows)
	e.BarWidth = 100
	run(exit.OK, "table", "delete", "t", "--all", "--yes")
	require.Contains(t, stderr.String(), "deleting")
	require.NotContains(t, stderr.String(), "%")
}

// A drop that is interrupted says what is left, and so does the list of tables: by the id that is named there the rest is dropped.
// What a table has that is there is not dropped so.
func TestInterruptedDrop(t *testing.T) {
	atDrop, atChange := func() {}, func() {}
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return before(before(db, func() { atDrop() }, "Drop"), func() { atChange() }, "CheckAndPut", "PutGuarded", "Commit", "Replace")
	})
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	run := func(ctx context.Context, code exit.Code, args ...string) {
		t.Helper()
		stdout.Reset()
		stderr.Reset()
		require.Equal(t, code, executeIn(ctx, e, append(args, "--store", "pebble:any", "--key", key)), stderr)
	}
	id := func(table string) string {
		run(t.Context(), exit.OK, "table", "describe", table, "--json")
		found := regexp.MustCompile(`"id":"([0-9a-f]{32})"`).FindStringSubmatch(stdout.String())
		require.Len(t, found, 2, stdout)
		return found[1]
	}
	run(t.Context(), exit.OK, "insert", "--n", "10", "--layout", "column")
	run(t.Context(), exit.OK, "insert", "--n", "10", "--layout", "key")
	gone, there := id("mope/column"), id("mope/key")
	rest := fmt.Sprintf("'rangecrypt table drop --id %s' drops", gone)

	ctx, cancel := context.WithCancel(t.Context())
	atDrop = cancel
	run(ctx, exit.Interrupted, "table", "drop", "mope/column", "--yes")
	atDrop = func() {}
	require.Contains(t, stderr.String(), "table mope/column is gone, and its data may not be yet: "+rest+" the rest\n")
	run(t.Context(), exit.OK, "table", "list")
	require.Contains(t, stderr.String(), "unless it is from a backup, "+rest+" it\n")
	run(t.Context(), exit.Usage, "table", "drop", "--id", gone)
	run(t.Context(), exit.OK, "table", "drop", "--id", gone, "--yes")
	require.Equal(t, "what was left of the table was dropped\n", stdout.String())
	run(t.Context(), exit.OK, "table", "list")
	require.Empty(t, stderr.String())
	run(t.Context(), exit.OK, "table", "drop", "--id", gone, "--yes")
	require.Equal(t, "nothing is left of a table with that id\n", stdout.String())

	run(t.Context(), exit.Failed, "table", "drop", "--id", there, "--yes")
	require.Contains(t, stderr.String(), "table mope/key has that id, and is there: 'rangecrypt table drop mope/key' drops it\n")
	for _, args := range [][]string{{}, {"mope/key", "--id", there}, {"--id", "mope/key"}} {
		run(t.Context(), exit.Usage, append([]string{"table", "drop"}, args...)...)
	}
	run(t.Context(), exit.OK, "verify")
	require.Contains(t, stdout.String(), "10 rows, ")

	// One that is interrupted before the table is gone changes nothing.
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	run(ctx, exit.Interrupted, "table", "drop", "mope/key", "--yes")
	run(t.Context(), exit.OK, "table", "describe", "mope/key")

	// Of one that is interrupted in the change itself nobody knows whether that comes still. What is said holds in either case.
	ctx, cancel = context.WithCancel(t.Context())
	atChange = cancel
	run(ctx, exit.Interrupted, "table", "drop", "mope/key", "--yes")
	atChange = func() {}
	require.Contains(t, stderr.String(), "table mope/key is as it was so far; the same command drops it; if that finds no such table, 'rangecrypt table drop --id "+there+"' drops the rest\n")
	run(t.Context(), exit.OK, "table", "drop", "mope/key", "--yes")
	run(t.Context(), exit.OK, "table", "drop", "--id", there, "--yes")
}

// onStore returns what runs a command on a store of an env with a new key, and asks for its exit code. Outputs are those of the last one.
func onStore(t *testing.T, e *cli.Env, stdout, stderr *bytes.Buffer) func(code exit.Code, args ...string) {
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	return func(code exit.Code, args ...string) {
		t.Helper()
		stdout.Reset()
		stderr.Reset()
		require.Equal(t, code, execute(e, append(args, "--store", "pebble:any", "--key", key)), stderr)
	}
}

// onMemory is onStore of a store in memory, which it also returns.
func onMemory(t *testing.T) (db driver.DB, run func(code exit.Code, args ...string), stdout, stderr *bytes.Buffer) {
	db = drivertest.NewMemory()
	e, stdout, stderr := testEnv(t, func(driver.DB) driver.DB { return db })
	return db, onStore(t, e, stdout, stderr), stdout, stderr
}

// A table that has lost its rows is dropped as any other, since nothing else brings the store in order where there is no backup.
func TestDropOfATableWithoutRows(t *testing.T) {
	db, run, stdout, stderr := onMemory(t)
	run(exit.OK, "table", "create", "internal/admin/schemafile/testdata/readings.yaml")
	run(exit.OK, "table", "describe", "readings", "--json")
	id := regexp.MustCompile(`"id":"([0-9a-f]{32})"`).FindStringSubmatch(stdout.String())
	require.NoError(t, db.Drop(t.Context(), "t"+id[1]))
	run(exit.Wrong, "table", "query", "readings")
	require.Contains(t, stderr.String(), "without one, the table can only be dropped")
	run(exit.OK, "table", "drop", "readings", "--yes")
	run(exit.OK, "table", "list")
	require.Empty(t, stderr.String())
}

// Indexes that columns of several tables share are of the database, and no data of a table that is not there.
func TestSharedIndexesAreNoLeftOvers(t *testing.T) {
	db, run, stdout, stderr := onMemory(t)
	dir := t.TempDir()
	schema, rows := filepath.Join(dir, "t.yaml"), filepath.Join(dir, "t.csv")
	require.NoError(t, os.WriteFile(schema, []byte("table: t\nkey: [{name: id, type: int64, encryption: hashed}]\ncolumns: [{name: v, type: int64, encryption: ordered, scheme: kerschbaum, confidentiality: database}]\n"), 0o600))
	require.NoError(t, os.WriteFile(rows, []byte("id,v\n1,2\n"), 0o600))
	run(exit.OK, "table", "create", schema)
	run(exit.OK, "table", "insert", "t", "--input", rows)
	run(exit.OK, "table", "list")
	require.Empty(t, stderr.String())
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(names, func(name string) bool { return name[0] == 'i' })
	run(exit.OK, "table", "drop", "--id", names[i][1:], "--yes")
	require.Equal(t, "nothing is left of a table with that id\n", stdout.String())
	run(exit.OK, "table", "query", "t", "--where", "v = 2")
}

// Data that no table of the catalogue has is named also where a table of it has no data, as under a catalogue from before the table was
// made anew: then there is data of as many tables as there are tables.
func TestListUnderAnOlderCatalogue(t *testing.T) {
	db, run, stdout, stderr := onMemory(t)
	made := func(name string) string {
		run(exit.OK, "table", "create", "internal/admin/schemafile/testdata/"+name+".yaml")
		run(exit.OK, "table", "describe", name, "--json")
		return regexp.MustCompile(`"id":"([0-9a-f]{32})"`).FindStringSubmatch(stdout.String())[1]
	}
	made("staff")
	catalogue, err := db.Family(t.Context(), driver.FamilySpec{Name: "catalogue", Layout: driver.LayoutWide, Existing: true})
	require.NoError(t, err)
	var before []driver.Mutation
	for row, err := range catalogue.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		before = append(before, driver.Mutation{Row: row.Key, DeleteRow: true}, driver.Mutation{Row: row.Key, Puts: row.Cells})
	}
	run(exit.OK, "table", "drop", "staff", "--yes")
	anew := made("staff")
	backedUp := func() {
		for _, m := range before {
			require.NoError(t, catalogue.Apply(t.Context(), m))
		}
	}
	backedUp()
	for code, args := range map[exit.Code][]string{exit.OK: {"table", "list"}, exit.Wrong: {"verify"}} {
		run(code, args...)
		require.Contains(t, stderr.String(), "the store has data of a table that is not among these")
		require.Contains(t, stderr.String(), "'rangecrypt table drop --id "+anew+"' drops it\n")
	}

	// All of it is one warning.
	other := made("readings")
	backedUp()
	run(exit.OK, "table", "list")
	ids := []string{anew, other}
	slices.Sort(ids)
	require.Equal(t, 1, strings.Count(stderr.String(), "not among these"))
	require.Contains(t, stderr.String(), "'rangecrypt table drop --id ID' drops that of one; the ids are "+strings.Join(ids, ", ")+"\n")
}

// Where the catalogue is older than rows, verify says what that means for all else that it says.
func TestVerifyUnderAnOlderCatalogue(t *testing.T) {
	db, run, stdout, _ := onMemory(t)
	rows := filepath.Join(t.TempDir(), "rows.csv")
	require.NoError(t, os.WriteFile(rows, []byte("id,name,team\n1,ann,mill\n"), 0o600))
	run(exit.OK, "table", "create", "internal/admin/schemafile/testdata/staff.yaml")
	catalogue, err := db.Family(t.Context(), driver.FamilySpec{Name: "catalogue", Layout: driver.LayoutWide, Existing: true})
	require.NoError(t, err)
	before := make(map[string][]driver.Cell)
	for row, err := range catalogue.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		before[string(row.Key)] = row.Cells
	}
	run(exit.OK, "keys", "rotate", "--table", "staff")
	run(exit.OK, "table", "insert", "staff", "--input", rows)
	run(exit.OK, "verify")
	require.NotContains(t, stdout.String(), "newer than the catalogue")
	for row, cells := range before {
		require.NoError(t, catalogue.Apply(t.Context(), driver.Mutation{Row: []byte(row), Puts: cells}))
	}
	run(exit.Wrong, "verify", "--repair")
	require.Contains(t, stdout.String(), "rows are newer than the catalogue: restore its newest copy")
}

// What is printed fits a narrow terminal.
func TestTablesOnNarrowTerminal(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	e.StdoutWidth = 60
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	kept := []string{"--store", "pebble:any", "--key", key}
	for _, args := range [][]string{
		{"table", "create", "internal/admin/schemafile/testdata/readings.yaml"},
		{"table", "list"},
		{"table", "alter", "readings", "--change", "name: note, encryption: deterministic"},
		{"table", "describe", "readings", "--count"},
		{"table", "convert", "readings"},
	} {
		stdout.Reset()
		require.Equal(t, exit.OK, execute(e, append(args, kept...)), stderr)
		for line := range strings.Lines(stdout.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 60, line)
		}
	}
	require.Empty(t, stderr.String())
	stdout.Reset()
	require.Equal(t, exit.OK, execute(e, append([]string{"table", "describe", "readings"}, kept...)))
	require.Contains(t, stdout.String(), "\nnote\n  part: column\n  type: string\n  encryption: deterministic\n")
	for _, args := range [][]string{{"table", "query", "readings"}, {"table", "explain", "readings", "--where", "note = 'x'"}} {
		stdout.Reset()
		require.Equal(t, exit.OK, execute(e, append(args, kept...)), stderr)
		require.LessOrEqual(t, utf8.RuneCountInString(strings.SplitN(stdout.String(), "\n", 2)[0]), 60)
	}
}

// Names that a terminal would obey are printed as what they are, and a question that is interrupted
// ends the command with nothing changed.
func TestHostileNamesAndInterruptedQuestions(t *testing.T) {
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "schema.yaml")
	describe := func(name, part string) {
		require.NoError(t, os.WriteFile(file, []byte("table: "+name+"\nkey: [{name: "+part+", type: bool, encryption: hashed}]\n"), 0o600))
	}
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	kept := []string{"--store", "pebble:any", "--key", key}
	for name, part := range map[string]string{`"a\e[2J"`: "k", "a": `"k\n"`} {
		describe(name, part)
		require.Equal(t, exit.Failed, execute(e, append([]string{"table", "create", file}, kept...)), stderr)
	}
	const name = "a\u202eb" // a mark that turns the text around is no control character
	describe(name, "k\u202e")
	require.Equal(t, exit.OK, execute(e, append([]string{"table", "create", file}, kept...)), stderr)
	require.Equal(t, exit.OK, execute(e, append([]string{"table", "list"}, kept...)))
	require.Equal(t, exit.OK, execute(e, append([]string{"table", "describe", name}, kept...)))
	require.NotContains(t, stdout.String()+stderr.String(), "\x1b")
	require.NotContains(t, stdout.String(), "\u202e")
	require.Contains(t, stdout.String(), `"k\u202e"`)

	ctx, cancel := context.WithCancel(t.Context())
	e.Ask = func(context.Context, string) (bool, error) { cancel(); return false, ctx.Err() }
	require.Equal(t, exit.Interrupted, executeIn(ctx, e, append([]string{"table", "drop", name}, kept...)))
	stdout.Reset()
	require.Equal(t, exit.OK, execute(e, append([]string{"table", "list", "--json"}, kept...)))
	require.Equal(t, 1, bytes.Count(stdout.Bytes(), []byte("\n")))
}
