package cmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// walk calls visit with every command of both programs, by its program and the path to it.
func walk(visit func(program string, path []string, cmd *cobra.Command)) {
	var down func(program string, path []string, cmd *cobra.Command)
	down = func(program string, path []string, cmd *cobra.Command) {
		visit(program, path, cmd)
		for _, sub := range cmd.Commands() {
			down(program, append(slices.Clone(path), sub.Name()), sub)
		}
	}
	for program, root := range lookedAt() {
		down(program, nil, root)
	}
}

// Help fits a terminal, but for names that are longer.
func TestHelpFits(t *testing.T) {
	commands := 0
	walk(func(program string, path []string, _ *cobra.Command) {
		commands++
		e, stdout, stderr := testEnv(t, func(db driver.DB) driver.DB { return db })
		require.Equal(t, exit.OK, cli.Execute(t.Context(), e, programs[program], append(path, "--help")))
		require.Empty(t, stderr.String())
		require.Contains(t, stdout.String(), "Usage:")
		for line := range strings.Lines(stdout.String()) {
			require.LessOrEqual(t, len(line), 92, "%s %v: %s", program, path, line)
		}
	})
	require.Greater(t, commands, 30)
}

// Shells show a flag with a line that says what it is, all of its values included.
func TestCompletionDescribesFlags(t *testing.T) {
	complete := func(program string, args ...string) map[string]string {
		e, stdout, _ := testEnv(t, func(db driver.DB) driver.DB { return db })
		require.Equal(t, exit.OK, cli.Execute(t.Context(), e, programs[program], append([]string{"__complete"}, args...)))
		about := map[string]string{}
		for line := range strings.Lines(stdout.String()) {
			if flag, text, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				about[flag] = text
			}
		}
		return about
	}
	flags := 0
	walk(func(program string, path []string, _ *cobra.Command) {
		for flag, text := range complete(program, append(path, "--")...) {
			flags++
			require.NotContains(t, text, "`", "%v %s", path, flag)
			require.NotRegexp(t, `[:,]$|such as$`, strings.TrimSuffix(text, "passphrase:"), "%v %s", path, flag)
			require.NotContains(t, text, "  ", "%v %s", path, flag)
		}
	})
	require.Greater(t, flags, 100)
	insert := complete("opebench", "insert", "--")
	require.Equal(t, "the store: pebble:DIR, cassandra://HOST[:PORT][,...]/KEYSPACE[?replication=N], hbase://QUORUM[/NAMESPACE]", insert["--store"])
	require.Equal(t, "the store's master key, by its source: FILE, env:NAME, passphrase:", insert["--key"])
	require.Regexp(t, `^the scheme, by name: plain, .*\bmope, .*\bkerschbaum`, insert["--scheme"])
	require.Regexp(t, `^generated values, by name \(default uniform\): uniform, `, insert["--data"])
	require.Equal(t, "add a column, such as 'name: note, type: string, encryption: randomised'", complete("rangecrypt", "table", "alter", "--")["--add"])
}
