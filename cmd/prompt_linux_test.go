package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/term"
)

// newTerminal returns both ends of a pseudo-terminal.
func newTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn()
	require.NoError(t, err)
	var number, unlocked int32
	require.NoError(t, raw.Control(func(fd uintptr) {
		for request, arg := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(arg)))
			require.Zero(t, errno)
		}
	}))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// Ctrl-C where a passphrase is asked for ends the command, and what is typed is shown again.
func TestInterruptedPassphrase(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	opebench := filepath.Join(dir, "opebench")
	require.NoError(t, os.Symlink(self, opebench))
	master, slave := newTerminal(t)
	terminal := func() *term.State {
		s, err := term.GetState(int(slave.Fd()))
		require.NoError(t, err)
		return s
	}
	before := terminal()

	// The shell has the terminal, and keeps it as it is left until it gets a line.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `trap : INT; "$0" insert --store "pebble:$1" --key passphrase: --n 1; echo "code $?."; read line`,
		opebench, filepath.Join(dir, "data"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	var shown bytes.Buffer
	until := func(text string) { t.Helper(); readUntil(t, master, &shown, text) }
	stop := context.AfterFunc(ctx, func() { _ = slave.Close(); _ = master.Close() }) // ends the reading
	until("New passphrase: ")
	require.Eventually(t, func() bool { return *terminal() != *before }, time.Minute, time.Millisecond, "what is typed is shown")
	_, err = master.WriteString("abc\x03")
	require.NoError(t, err)
	until("code ")
	until(".")
	require.Equal(t, before, terminal(), "what is typed is not shown any more")
	require.Contains(t, shown.String(), "opebench: interrupted")
	require.Contains(t, shown.String(), "code 130.")
	require.NotContains(t, shown.String(), "abc")
	_, err = master.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	stop()
}

// readUntil adds to shown what a terminal shows, until that contains the text. Closing the terminal ends it.
func readUntil(t *testing.T, master *os.File, shown *bytes.Buffer, text string) {
	t.Helper()
	for b := make([]byte, 256); !strings.Contains(shown.String(), text); {
		n, err := master.Read(b)
		require.NoError(t, err, shown.String())
		shown.Write(b[:n])
	}
}

// The password of a database is asked for on the terminal where nothing else gives it: once, and not shown.
func TestPasswordIsAskedFor(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	opebench := filepath.Join(dir, "opebench")
	require.NoError(t, os.Symlink(self, opebench))
	key := filepath.Join(dir, "key")
	require.NoError(t, exec.Command(opebench, "keys", "generate", key).Run())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for typed, says := range map[string]string{
		"SESAME\n": "nothing listens at 127.0.0.1:1",
		"\n":       "the password that was typed is empty",
	} {
		master, slave := newTerminal(t)
		before, err := term.GetState(int(slave.Fd()))
		require.NoError(t, err)
		cmd := exec.CommandContext(ctx, opebench, "query", "--count", "--key", key,
			"--store", "cassandra://127.0.0.1:1/ks?user=app&insecure-plaintext-password=yes")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		require.NoError(t, cmd.Start())
		var shown bytes.Buffer
		until := func(text string) { t.Helper(); readUntil(t, master, &shown, text) }
		stop := context.AfterFunc(ctx, func() { _ = slave.Close(); _ = master.Close() }) // ends the reading
		until("Password of app at 127.0.0.1:1: ")
		hidden := func() bool { // what is typed before that would be shown
			state, err := term.GetState(int(slave.Fd()))
			return err == nil && *state != *before
		}
		require.Eventually(t, hidden, time.Minute, time.Millisecond)
		_, err = master.WriteString(typed)
		require.NoError(t, err)
		until(says)
		_ = cmd.Wait()
		stop()
		require.NotContains(t, shown.String(), "SESAME")
		require.Equal(t, 1, strings.Count(shown.String(), "Password of"))
	}
}
