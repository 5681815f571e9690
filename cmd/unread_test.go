package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

const unreadPages = `table: log
layout: paged
page-rows: 4
key:
  - {name: id, type: int64, encryption: ordered, scheme: mope}
columns:
  - {name: level, type: int64, encryption: plain}
`

const unreadRows = `table: log
key:
  - {name: id, type: int64, encryption: ordered, scheme: mope}
columns:
  - {name: level, type: int64, encryption: ordered, scheme: kerschbaum}
`

// A table that cannot be looked for is none that is not there. No verification passes over it, no command says what it is not, and a repair
// says that the store did not answer, and not that something is lost which it makes again.
func TestUnansweredRequestIsNoMissingTable(t *testing.T) {
	for name, test := range map[string]struct {
		schema, command, done string
		lost                  bool // a family of the index
	}{
		"verification of pages":  {unreadPages, "verify", "log: 20 rows", false},
		"keys of pages":          {unreadPages, "keys verify --deep", "log", false},
		"load of pages":          {unreadPages, "table insert log --input rows.csv", "20 rows inserted", false},
		"verification of rows":   {unreadRows, "verify", "log: 20 rows", false},
		"repair of what is lost": {unreadRows, "verify --repair --grace 1ms", "log: 20 rows", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			writeRows(t, test.schema)
			for n, calls := 0, 0; n <= calls; n++ { // the first run counts
				at, made := 0, 0
				var memory driver.DB
				e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
					memory = db
					return drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
						if made++; made == at {
							return drivertest.FailBefore
						}
						return drivertest.NoFault
					})
				})
				run := func(command string) exit.Code {
					stdout.Reset()
					stderr.Reset()
					return execute(e, append(strings.Fields(command), "--store", "pebble:any", "--key", "app.key"))
				}
				require.Equal(t, exit.OK, run("table create log.yaml"), "%s", stderr)
				require.Equal(t, exit.OK, run("table insert log --input rows.csv"), "%s", stderr)
				if test.lost {
					names, err := memory.Families(t.Context())
					require.NoError(t, err)
					for _, name := range names {
						if strings.HasPrefix(name, "i") {
							require.NoError(t, memory.Drop(t.Context(), name))
						}
					}
				}
				at, made = n, 0
				code := run(test.command)
				calls, at = max(calls, made), 0
				if code == exit.OK {
					require.Contains(t, stdout.String(), test.done, "call %d", n)
				} else {
					require.Equal(t, exit.Unreachable, code, "call %d: %s%s", n, stdout, stderr)
				}
			}
		})
	}
}

// writeRows writes a key, a schema and rows into the folder.
func writeRows(t *testing.T, schema string) {
	csv := "id,level\n"
	for i := range 20 {
		csv += fmt.Sprintf("%d,%d\n", i, i%9)
	}
	require.NoError(t, os.WriteFile("rows.csv", []byte(csv), 0o600))
	require.NoError(t, os.WriteFile("log.yaml", []byte(schema), 0o600))
	require.Equal(t, exit.OK, execute(&cli.Env{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)}, []string{"keys", "generate", "app.key"}))
}

// Of two that rekey at a time the slower one ends as the faster one does, also where that has made the list, or has dropped the table.
func TestTwoRekeyAtATime(t *testing.T) {
	for name, command := range map[string]string{
		"in the store":       "rekey --all --list old --yes",
		"into another store": "rekey --into pebble:other --into-key app.key --yes",
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 {
				t.Chdir(t.TempDir())
				writeRows(t, unreadRows)
				kept := map[string]driver.DB{"pebble:any": drivertest.NewMemory(), "pebble:other": drivertest.NewMemory()}
				run := func(command string) (exit.Code, string) {
					var out bytes.Buffer
					e := &cli.Env{Stdout: &out, Stderr: &out, OpenStore: func(_ context.Context, name string, _ stores.How) (driver.DB, error) {
						return unclosed{kept[name]}, nil
					}}
					return cli.Execute(t.Context(), e, admin.New, append(strings.Fields(command), "--store", "pebble:any", "--key", "app.key")), out.String()
				}
				for _, command := range []string{"table create log.yaml", "table insert log --input rows.csv"} {
					code, out := run(command)
					require.Equal(t, exit.OK, code, out)
				}
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						code, out := run(command)
						if code != exit.OK {
							t.Errorf("ended with %d: %s", code, out)
						}
					})
				}
				both.Wait()
				if strings.Contains(command, "--into") {
					kept["pebble:any"] = kept["pebble:other"]
				}
				_, out := run("table query log --count --where level>=0")
				require.Equal(t, "20\n", out)
				code, out := run("verify")
				require.Equal(t, exit.OK, code, out)
			}
		})
	}
}
