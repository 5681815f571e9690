package cmd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// Ctrl-C ends a command that waits for the program of its key, and the program with it. Neither the key nor what it was
// wrapped to is in what other users see of them.
func TestCtrlCEndsTheProgramOfAKey(t *testing.T) {
	unixOnly(t)
	dir := t.TempDir()
	done := func(code exit.Code, args ...string) {
		t.Helper()
		cmd, _, stderr := start(t, dir, args...)
		_ = cmd.Wait()
		require.Equal(t, int(code), cmd.ProcessState.ExitCode(), stderr)
	}
	done(exit.OK, "keys", "generate", "key")
	done(exit.OK, "insert", "--store", "pebble:data", "--key", "exec:keeper key", "--n", "5")

	cmd, _, stderr := start(t, dir, "range-query", "--store", "pebble:data", "--key", "exec:keeper key hang", "--count")
	var number int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "key.pid"))
		if err == nil {
			number, err = strconv.Atoi(string(text))
		}
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	if seen, err := os.ReadFile("/proc/" + strconv.Itoa(number) + "/cmdline"); err == nil {
		require.Equal(t, "keeper\x00key\x00hang\x00unwrap\x00", string(seen))
	}
	if inherited, err := os.ReadFile("/proc/" + strconv.Itoa(number) + "/environ"); err == nil {
		require.Equal(t, strings.Count(strings.Join(os.Environ(), "\x00"), "\x00"), strings.Count(string(inherited), "\x00")-1, "no variable is added")
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, int(exit.Interrupted), cmd.ProcessState.ExitCode(), stderr)
	keeper, err := os.FindProcess(number)
	require.NoError(t, err)
	require.Error(t, keeper.Signal(syscall.Signal(0)))
}
