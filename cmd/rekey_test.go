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

	"github.com/rangecrypt/rangecrypt/internal/sim"
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
