package cmd

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// On terminals of any width, an insertion and a query show how far they are, in frames that fit.
func TestProgressOnTerminals(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, exec.Command("opebench", "keys", "generate", filepath.Join(dir, "key")).Run())
	for _, columns := range []uint16{40, 80, 120} {
		store := []string{"--store", "pebble:" + filepath.Join(dir, strconv.Itoa(int(columns))), "--key", filepath.Join(dir, "key")}
		for _, test := range []struct {
			phase string
			args  []string
		}{
			{"inserting", []string{"insert", "--n", "20000"}},
			{"reading", []string{"range-query", "--count"}},
		} {
			master, slave := newTerminal(t)
			size := [4]uint16{24, columns}
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, slave.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size)))
			require.Zero(t, errno)
			cmd := exec.Command("opebench", append(test.args, store...)...)
			cmd.Env = append(cmd.Environ(), "TERM=xterm")
			cmd.Stderr = slave
			start := time.Now()
			require.NoError(t, cmd.Start())
			require.NoError(t, slave.Close())
			var shown bytes.Buffer
			_, _ = io.Copy(&shown, master) // ends with an error once nobody has the terminal
			require.NoError(t, cmd.Wait())
			require.NoError(t, master.Close())

			frames := 0
			for frame := range strings.SplitSeq(shown.String(), "\r") {
				require.Less(t, len(frame), int(columns), "%q", frame)
				if strings.HasPrefix(frame, test.phase) {
					frames++
				}
				for _, m := range regexp.MustCompile(` (\d+)/s`).FindAllStringSubmatch(frame, -1) {
					rate, err := strconv.Atoi(m[1])
					require.NoError(t, err)
					require.LessOrEqual(t, float64(rate), 20_000/min(time.Since(start).Seconds(), 1), frame)
				}
			}
			require.Positive(t, frames, "%q", shown.String())
			require.True(t, strings.HasSuffix(shown.String(), "\r"))
		}
	}
}
