package cmd

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A change that is interrupted while it waits for writers is made, which the command says, with what that means.
func TestInterruptedWaitForLease(t *testing.T) {
	changed := func() {}
	e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB {
		return intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
			err := c.Make(nil)
			if op.Conditional() {
				changed()
			}
			return err
		}, nil)
	})
	key := filepath.Join(t.TempDir(), "key")
	kept := []string{"--store", "pebble:any", "--key", key}
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	run := func(args ...string) string {
		t.Helper()
		stdout.Reset()
		stderr.Reset()
		require.Equal(t, exit.OK, execute(e, append(args, kept...)), stderr)
		return stdout.String()
	}
	interrupt := func(args ...string) string {
		t.Helper()
		stdout.Reset()
		stderr.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		changed = cancel
		defer func() { changed = func() {} }()
		require.Equal(t, exit.Interrupted, executeIn(ctx, e, append(args, kept...)), stderr)
		return stderr.String()
	}
	const left = `rangecrypt: interrupted; the change is made, and stays; as the lease of writers is not over, they may write by the former schema, ` +
		`policy or key for another (1m3\.8|1m3\.7|1m3|1m2)\S*s: rely on the change after that, and do not make it again\n`
	run("table", "create", "internal/admin/schemafile/testdata/staff.yaml")
	run("tenant", "create", "acme")
	run("lease", "set", "1m")

	require.Regexp(t, "^"+left+"$", interrupt("table", "alter", "staff", "--rename", "team=crew"))
	require.Contains(t, run("table", "describe", "staff"), "crew")
	require.Regexp(t, "^"+left+"$", interrupt("table", "rename", "staff", "people"))
	require.Regexp(t, "^"+left+"$", interrupt("keys", "rotate", "--table", "people"))
	require.Regexp(t, "^"+left+"$", interrupt("tenant", "rotate", "acme"))
	said := interrupt("table", "drop", "people", "--yes")
	require.Regexp(t, `^rangecrypt: table people is gone, and its data may not be yet: 'rangecrypt table drop --id [0-9a-f]{32}' drops the rest\n`+left+"$", said)
	require.NotContains(t, run("table", "list"), "people")

	// One that becomes shorter says what waits.
	require.Regexp(t, `^rangecrypt: writers have the new lease, and changes wait for the former one until the same command is given again\nrangecrypt: interrupted\n$`,
		interrupt("lease", "set", "1s"))
	require.Contains(t, run("lease", "show"), "a lease is ending")
}
