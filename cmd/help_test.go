package cmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// Each program knows the commands that only the other one has.
func TestProgramsKnowEachOther(t *testing.T) {
	has := map[string][]string{}
	for program, root := range lookedAt() {
		for _, c := range root.Commands() {
			has[program] = append(has[program], c.Name())
		}
	}
	only := map[string][]string{}
	for program, names := range has {
		for other, theirs := range has {
			for _, name := range names {
				if other != program && !slices.Contains(theirs, name) {
					only[program] = append(only[program], name)
				}
			}
		}
		slices.Sort(only[program])
	}
	require.Equal(t, only, cli.OnlyIn)
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
	require.Equal(t, "the store: pebble:DIR, cassandra://HOST[:PORT][,...]/KEYSPACE[?OPTION=VALUE&...], hbase://QUORUM[/NAMESPACE]", insert["--store"])
	require.Equal(t, "the store's master key, by its source: FILE, env:NAME, exec:COMMAND, passphrase:", insert["--key"])
	require.Regexp(t, `^the scheme, by name: plain, .*\bmope, .*\bkerschbaum`, insert["--scheme"])
	require.Regexp(t, `^generated values, by name \(default uniform\): uniform, `, insert["--data"])
	require.Equal(t, "add a column, such as 'name: note, type: string, encryption: randomised'", complete("rangecrypt", "table", "alter", "--")["--add"])
}

// A flag that is given with nothing is refused by its name, whatever it is about, and so is an argument.
func TestNothingIsEmpty(t *testing.T) {
	flags := 0
	walk(func(program string, path []string, cmd *cobra.Command) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		for _, name := range names {
			root := programs[program](&cli.Env{})
			cmd, _, err := root.Find(path)
			require.NoError(t, err)
			if err := cmd.Flags().Set(name, ""); err != nil {
				continue // the flag has no such value
			}
			require.NotNil(t, root.PersistentPreRunE)
			err = root.PersistentPreRunE(cmd, nil)
			require.ErrorIs(t, err, exit.ErrUsage, "%s %v --%s", program, path, name)
			require.EqualError(t, err, "--"+name+" is empty")
			require.Nil(t, cmd.PersistentPreRunE)
			require.Nil(t, cmd.PersistentPreRun)
			flags++
		}
		root := programs[program](&cli.Env{})
		require.ErrorIs(t, root.PersistentPreRunE(root, []string{"a", ""}), exit.ErrUsage)
	})
	require.Greater(t, flags, 60)
}

// Each flag that names a file is one that is written or one that is read: what is written must not be a file that is read.
func TestFilesOfFlags(t *testing.T) {
	found := map[string][]string{}
	walk(func(program string, path []string, cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if placeholder, _ := pflag.UnquoteUsage(f); placeholder != "file" {
				return
			}
			kind := "read"
			if cli.IsWritten(f) {
				kind = "written"
			}
			found[kind] = append(found[kind], f.Name)
		})
	})
	for kind := range found {
		slices.Sort(found[kind])
		found[kind] = slices.Compact(found[kind])
	}
	require.Equal(t, map[string][]string{
		"written": {"bad-file", "html", "list", "output", "pages", "plot", "show-keys"}, "read": {"aux", "input", "mapping"},
	}, found)
}
