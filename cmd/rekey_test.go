package cmd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A rekeying that is killed again and again is ended by the same command. No row is lost, and nothing is left under an old key.
func TestKilledRekey(t *testing.T) {
	rows := sim.LongShare(5000, 1500, 1500)
	const all, into = "rekey --all --yes --list old --store pebble:data --key app.key", "rekey --into pebble:other --into-key app.key --yes --store pebble:data --key app.key"
	const replaced = `table: log
conditional: true
key:
  - {name: id, type: int64, encryption: ordered, scheme: mope}
columns:
  - {name: level, type: int64, encryption: ordered, scheme: kerschbaum}
  - {name: note, type: string, encryption: randomised}
`
	const added = `table: log
append-only: true
key:
  - {name: id, type: int64, encryption: ordered, scheme: mope}
  - {name: tie, encryption: tie}
columns:
  - {name: level, type: int64, encryption: ordered, scheme: mope, covering: true}
  - {name: note, type: string, encryption: randomised}
`
	const pages = `table: log
layout: paged
page-rows: 16
key:
  - {name: id, type: int64, encryption: ordered, scheme: mope}
columns:
  - {name: level, type: int64, encryption: plain}
  - {name: note, type: string, encryption: randomised}
`
	for name, test := range map[string]struct{ schema, args, store string }{
		"in the store":                    {replaced, all, "pebble:data"},
		"into another store":              {replaced, into, "pebble:other"},
		"append-only, in the store":       {added, all, "pebble:data"},
		"append-only, into another store": {added, into, "pebble:other"},
		"pages, in the store":             {pages, all, "pebble:data"},
		"pages, into another store":       {pages, into, "pebble:other"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := func(args string) string {
				cmd := exec.Command("rangecrypt", strings.Fields(args)...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s", args, out)
				return string(out)
			}
			var csv strings.Builder
			csv.WriteString("id,level,note\n")
			for i := range rows {
				fmt.Fprintf(&csv, "%d,%d,note %[1]d\n", i, i%100)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(csv.String()), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "log.yaml"), []byte(test.schema), 0o600))
			run("keys generate app.key")
			run("table create log.yaml --store pebble:data --key app.key")
			run("table insert log --input rows.csv --store pebble:data --key app.key")

			kills := 0
			for wait := 30 * time.Millisecond; ; wait += 10 * time.Millisecond {
				cmd := exec.Command("rangecrypt", strings.Fields(test.args)...)
				cmd.Dir = dir
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
				require.NoError(t, cmd.Start())
				killed := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
				err := cmd.Wait()
				if killed.Stop() || err == nil {
					require.NoError(t, err, out.String())
					break
				}
				require.True(t, errors.As(err, new(*exec.ExitError)))
				kills++
			}
			t.Log("killed", kills, "times")
			at := " --store " + test.store + " --key app.key"
			require.Equal(t, fmt.Sprintln(rows), run("table query log --count --where level>=0"+at))
			require.Contains(t, run("verify"+at), "sound")
			require.NotContains(t, strings.ReplaceAll(run("keys verify --deep"+at), ", 0 under earlier ones", ""), "earlier")
			require.NotContains(t, run("table list"+at), "next")
			require.Contains(t, run(test.args), "under", "it may be given again")
		})
	}
}

// Where clients may sleep, a column that had the key of another one keeps it until its table is copied. Whoever does what rekey says comes to an end
// by the same list, also where that table had been copied before.
func TestRekeyOfKeysThatColumnsHad(t *testing.T) {
	_, run, stdout, stderr := onMemory(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	rows := write("rows.csv", "k,v\n1,7\n2,8\n")
	for _, schema := range []string{
		"table: owner\nkey: [{name: k, type: int64, encryption: hashed}]\ncolumns: [{name: v, type: int64, encryption: deterministic}]\n",
		"table: sharer\nkey: [{name: k, type: int64, encryption: hashed}]\ncolumns: [{name: v, type: int64, encryption: deterministic, shared-with: {table: owner, column: v}}, {name: w, type: int64, encryption: deterministic}]\n",
	} {
		run(exit.OK, "table", "create", write("schema.yaml", schema))
	}
	run(exit.OK, "table", "insert", "owner", "--input", rows)
	run(exit.OK, "table", "insert", "sharer", "--input", rows)
	run(exit.Failed, "table", "drop", "owner", "--yes")
	require.Contains(t, stderr.String(), "shares that of \"v\": drop it before, or give it a key of its own and then copy table \"sharer\" into a new one, as 'rangecrypt rekey --row-keys' does")
	list := filepath.Join(dir, "list")
	run(exit.OK, "rekey", "--all", "--list", list, "--yes")
	require.Contains(t, stderr.String(), "owner is not copied: column v of table sharer has the key of one of its columns, so that it cannot be dropped; 'rangecrypt table alter' gives that a key of its own")

	// A third one has had the key of a column of the copy.
	run(exit.OK, "table", "create", write("schema.yaml", "table: third\nkey: [{name: k, type: int64, encryption: hashed}]\n"+
		"columns: [{name: w, type: int64, encryption: deterministic, shared-with: {table: sharer, column: w}}]\n"))
	run(exit.OK, "table", "alter", "third", "--change", "name: w, encryption: deterministic, confidentiality: column", "--yes")
	run(exit.OK, "table", "alter", "sharer", "--change", "name: v, encryption: deterministic, confidentiality: column", "--yes")
	run(exit.Failed, "table", "drop", "owner", "--yes")
	require.Contains(t, stderr.String(), "it is kept as long as that column is: copy table \"sharer\" into a new one before")
	run(exit.OK, "rekey", "--cells", "--search", "--list", list) // which ends, though that key stays
	require.Contains(t, stdout.String(), "owner: column v had its search key in common with sharer.v, where a client that sleeps may write under it still: --row-keys copies both tables\n")
	run(exit.OK, "rekey", "--all", "--list", list, "--yes")
	require.Regexp(t, `third: is a new table, [^\0]*sharer: is a new table, [^\0]*owner: is a new table, `, stdout.String())
	require.Contains(t, stdout.String(), "owner: under old keys are 0 cells, 0 index entries and 0 index records; the catalogue has 0 of them\n")
	for _, table := range []string{"owner", "sharer"} {
		run(exit.OK, "table", "query", table, "--where", "v = 7", "--select", "k", "--format", "csv", "--header", "no")
		require.Equal(t, "1\n", stdout.String())
	}
	run(exit.OK, "table", "drop", "owner", "--yes")
}

// A store is not said to be destroyed while it has a table that was made during the copy.
func TestRekeyIntoWhileATableIsMade(t *testing.T) {
	atDrop := func() {}
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return before(db, func() { atDrop() }, "Drop") })
	run := onStore(t, e, stdout, stderr)
	dir := t.TempDir()
	into := filepath.Join(dir, "into")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", into}))
	schema := filepath.Join(dir, "t.yaml")
	create := func(name string) {
		require.NoError(t, os.WriteFile(schema, []byte("table: "+name+"\nkey: [{name: id, type: int64, encryption: hashed}]\n"), 0o600))
		run(exit.OK, "table", "create", schema)
	}
	create("before")
	atDrop = func() {
		atDrop = func() {}
		create("meanwhile")
	}
	args := []string{"rekey", "--into", "pebble:other", "--into-key", into, "--yes"}
	run(exit.Failed, args...)
	require.Contains(t, stderr.String(), "meanwhile: made or renamed here while the others were copied; the same command copies what is there\n")
	require.NotContains(t, stdout.String(), "destroy this store")
	run(exit.OK, args...)
	require.Contains(t, stdout.String(), "all tables are in pebble:other, under other keys: destroy this store with its backups\n")
	run(exit.OK, "table", "list")
	require.NotContains(t, stdout.String(), "meanwhile")
}
