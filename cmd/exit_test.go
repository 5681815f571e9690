package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Every error that callers may branch on has the exit code that is meant for it, and none is
// forgotten.
func TestEveryErrorHasAnExitCode(t *testing.T) {
	codes := map[string]map[error]exit.Code{
		"store": {
			store.ErrSchema: exit.Failed, store.ErrExists: exit.Failed, store.ErrNoTable: exit.Failed, store.ErrNoRow: exit.Failed,
			store.ErrScan: exit.Failed, store.ErrWritten: exit.Failed, store.ErrRowExists: exit.Failed, store.ErrConflict: exit.Failed,
			store.ErrColumn: exit.Failed, store.ErrTenant: exit.Failed, store.ErrNoTenant: exit.Failed, store.ErrPolicy: exit.Failed,
			store.ErrShared: exit.Failed, store.ErrLease: exit.Usage, store.ErrNull: exit.Failed, store.ErrSchemaChanged: exit.Failed, store.ErrToken: exit.Failed,
			store.ErrWrongKey: exit.Wrong, store.ErrFormat: exit.Wrong, store.ErrTampered: exit.Wrong, store.ErrTorn: exit.Wrong,
		},
		"store/driver": {
			driver.ErrTooLarge: exit.Failed, driver.ErrOverlap: exit.Failed, driver.ErrRange: exit.Failed, driver.ErrSeen: exit.Failed,
			driver.ErrReadOnly: exit.Failed, driver.ErrLayout: exit.Failed, driver.ErrNoFamily: exit.Failed, driver.ErrNoIndex: exit.Failed,
			driver.ErrUnauthorised: exit.Failed, driver.ErrClosed: exit.Failed, // which calling again does not help
			driver.ErrCorrupt: exit.Wrong, driver.ErrUnavailable: exit.Unreachable, driver.ErrLocked: exit.Unreachable,
			driver.ErrUnknownOutcome: exit.Unreachable,
		},
		"ope": {
			ope.ErrParams: exit.Failed, ope.ErrKey: exit.Failed, ope.ErrDomain: exit.Failed, ope.ErrStale: exit.Failed, ope.ErrFull: exit.Failed,
			ope.ErrCiphertext: exit.Wrong, ope.ErrIndex: exit.Wrong, ope.ErrUnknownOutcome: exit.Unreachable,
		},
		"store/kms": {
			kms.ErrWrongKey: exit.Wrong, kms.ErrTampered: exit.Wrong, kms.ErrFormat: exit.Wrong, kms.ErrUnavailable: exit.Unreachable,
		},
	}
	for dir, known := range codes {
		require.Len(t, known, len(sentinels(t, filepath.Join("..", dir))),
			"an error of package %s has no exit code here: say which it has, also in codeOf unless that is 1", dir)
		for err, want := range known {
			require.Equal(t, want, exit.CodeOf(t.Context(), fmt.Errorf("query: %w", err)), err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want exit.Code
	}{
		{t.Context(), nil, exit.OK},
		{t.Context(), errors.New("no such file"), exit.Failed},
		{t.Context(), exit.ErrUsage, exit.Usage},
		{t.Context(), exit.ErrWrongAnswer, exit.Wrong},
		{t.Context(), fmt.Errorf("%w: %w", exit.ErrKey, store.ErrWrongKey), exit.Failed},
		{t.Context(), exit.ErrLeaky, exit.Leaky},
		{t.Context(), fmt.Errorf("write: %w", syscall.EPIPE), exit.OK},
		{t.Context(), errors.Join(fmt.Errorf("write: %w", syscall.EPIPE), syscall.EPIPE), exit.OK},
		{t.Context(), errors.Join(errors.New("a bad row"), fmt.Errorf("write: %w", syscall.EPIPE)), exit.Failed},
		{t.Context(), fmt.Errorf("%w: %w", driver.ErrUnavailable, syscall.EPIPE), exit.Unreachable},
		{t.Context(), fmt.Errorf("%w: %w", driver.ErrUnavailable, syscall.ENOSPC), exit.Unreachable},
		{t.Context(), fmt.Errorf("print: %w", syscall.ENOSPC), exit.Failed},
		{t.Context(), errors.Join(driver.ErrUnavailable, store.ErrTampered), exit.Wrong},
		{cancelled, context.Canceled, exit.Interrupted},
		{cancelled, fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Canceled), exit.Interrupted},
		{cancelled, errors.Join(store.ErrTorn, context.Canceled), exit.Wrong},
	} {
		require.Equal(t, c.want, exit.CodeOf(c.ctx, c.err), "%v", c.err)
	}
}

// sentinels returns the names of the errors that a package declares.
func sentinels(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Err") {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

// Damage that a query or a check meets ends it with 3, whatever it is.
func TestDamageEndsWithItsExitCode(t *testing.T) {
	for name, damage := range map[string]struct {
		scheme, layout string
		of             string // rows (t), indexes (i) or postings (x)
		change         func(driver.Row) driver.Mutation
	}{
		"format byte": {"mope", "key", "t", func(row driver.Row) driver.Mutation {
			row.Cells[0].Value[0] ^= 0x40
			return driver.Mutation{Row: row.Key, Puts: row.Cells}
		}},
		"id of a key": {"mope", "column", "t", func(row driver.Row) driver.Mutation {
			row.Cells[0].Value[3] ^= 1
			return driver.Mutation{Row: row.Key, Puts: row.Cells}
		}},
		"torn row": {"boldyreva", "column", "t", func(row driver.Row) driver.Mutation {
			return driver.Mutation{Row: row.Key, Deletes: [][]byte{row.Cells[len(row.Cells)-1].Qualifier}}
		}},
		"truncated posting": {"mope", "column", "x", func(row driver.Row) driver.Mutation {
			return driver.Mutation{Row: row.Key[:len(row.Key)-30], Puts: row.Cells}
		}},
		"record of an index": {"kerschbaum", "column", "i", func(row driver.Row) driver.Mutation {
			for _, c := range row.Cells {
				if len(c.Value) > 8 {
					c.Value[len(c.Value)-1] ^= 1
				}
			}
			return driver.Mutation{Row: row.Key, Puts: row.Cells}
		}},
		"cut record of an index": {"wozniak-indexed", "key", "i", func(row driver.Row) driver.Mutation {
			for i, c := range row.Cells {
				row.Cells[i].Value = c.Value[:len(c.Value)/2]
			}
			return driver.Mutation{Row: row.Key, Puts: row.Cells}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			memory := drivertest.NewMemory()
			key := filepath.Join(t.TempDir(), "key")
			var stdout, stderr bytes.Buffer
			e := &cli.Env{Stdout: &stdout, Stderr: &stderr, OpenStore: func(context.Context, string, stores.How) (driver.DB, error) { return unclosed{memory}, nil }}
			run := func(args ...string) exit.Code {
				stdout.Reset()
				stderr.Reset()
				return execute(e, append(args, "--store", "pebble:any", "--key", key))
			}
			require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
			of := []string{"--scheme", damage.scheme, "--layout", damage.layout}
			require.Equal(t, exit.OK, run(append([]string{"insert", "--n", "50"}, of...)...), &stderr)
			changed, err := changeRows(t.Context(), memory, damage.of, math.MaxInt, damage.change)
			require.NoError(t, err)
			require.Positive(t, changed)
			require.Equal(t, exit.Wrong, run(append([]string{"range-query", "--from", "0", "--to", "1000000000"}, of...)...), "%s%s", &stdout, &stderr)
			require.Equal(t, exit.Wrong, run("verify"), "%s%s", &stdout, &stderr)
			require.Equal(t, 1, strings.Count(strings.TrimSpace(stderr.String()), "\n")+1, &stderr)
		})
	}
}

// A file of the embedded store that is damaged ends with 3, and what is whole is checked all the same.
func TestDamagedFileEndsWithItsExitCode(t *testing.T) {
	dir := t.TempDir()
	key, data := filepath.Join(dir, "key"), filepath.Join(dir, "data")
	var stdout, stderr bytes.Buffer
	e := &cli.Env{Stdout: &stdout, Stderr: &stderr, OpenStore: stores.Open}
	run := func(args ...string) exit.Code {
		stdout.Reset()
		stderr.Reset()
		return execute(e, append(args, "--store", "pebble:"+data, "--key", key))
	}
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	for _, scheme := range []string{"boldyreva", "mope"} {
		require.Equal(t, exit.OK, run("insert", "--n", strconv.Itoa(20_000), "--scheme", scheme), &stderr)
		require.Equal(t, exit.OK, run("range-query", "--count", "--scheme", scheme), &stderr)
	}
	tables, err := filepath.Glob(filepath.Join(data, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	damaged := map[exit.Code]int{}
	for _, name := range tables {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		bad := bytes.Clone(content)
		copy(bad[len(bad)/2:], "damage")
		require.NoError(t, os.WriteFile(name, bad, 0o600))
		code := run("verify")
		damaged[code]++
		if code == exit.Wrong {
			require.Contains(t, stderr.String(), "restore its directory from a backup")
			require.NotContains(t, stderr.String(), "carrier")
			if strings.Contains(stdout.String(), "not finished") {
				require.Equal(t, 2, strings.Count(stdout.String(), "/key: "), &stdout)
			}
		}
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
	require.Positive(t, damaged[exit.Wrong], damaged)
	require.Zero(t, damaged[exit.Failed], damaged)

	lost := tables[0] + ".lost"
	require.NoError(t, os.Rename(tables[0], lost))
	require.Equal(t, exit.Wrong, run("range-query", "--count", "--scheme", "mope"), &stderr)
	require.Equal(t, exit.Wrong, run("verify"), &stderr)
	require.NoError(t, os.Rename(lost, tables[0]))
	require.Equal(t, exit.OK, run("verify"), &stderr)
}
