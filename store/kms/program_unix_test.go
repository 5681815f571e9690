//go:build unix

package kms

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

// alive reports whether the process whose number is in a file runs.
func alive(t *testing.T, file string) bool {
	t.Helper()
	pid := number(t, file)
	// A process that has ended stays until somebody asks for its end: for an orphan, init does.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return syscall.Kill(pid, 0) == nil && (err != nil || !zombie(stat))
}

func number(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return pid
}

func kill(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, syscall.Kill(number(t, file), syscall.SIGKILL))
}

func zombie(stat []byte) bool {
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' {
			return i+2 < len(stat) && stat[i+2] == 'Z'
		}
	}
	return false
}

func requireEnds(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(t, file) }, 10*time.Second, 10*time.Millisecond)
}

// What a program has started ends with it when its time is over.
func TestChildrenOfProgramsEnd(t *testing.T) {
	key := ope.GenerateKey().Secret()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithTimeout(background, time.Second)
	defer cancel()
	began := time.Now()
	_, err := behaves(t, "leaves a child", "-1", "", file).Wrap(ctx, key)
	require.Equal(t, context.DeadlineExceeded, err)
	require.Less(t, time.Since(began), usualTimeout/2)
	requireEnds(t, file)

	// A program that ends without an answer, while a child has its output open.
	file = filepath.Join(t.TempDir(), "pid")
	_, err = behaves(t, "leaves a child", "0", "QUJD", file).Wrap(background, key)
	require.ErrorContains(t, err, "it has ended without an answer, and a process that it started has its output open")
	requireEnds(t, file)

	file = filepath.Join(t.TempDir(), "pid")
	_, err = behaves(t, "leaves a child", "11", "QUJD\n", file).Wrap(background, key)
	require.ErrorIs(t, err, ErrUnavailable)
	kill(t, file)

	// One with an answer may leave an agent that runs on.
	file = filepath.Join(t.TempDir(), "pid")
	_, err = behaves(t, "leaves a child", "0", "QUJD\n", file).Wrap(background, key)
	require.NoError(t, err)
	require.True(t, alive(t, file))
	kill(t, file)
}

// No program stays as a zombie: there is no child left to wait for.
func TestProgramsAreWaitedFor(t *testing.T) {
	key := ope.GenerateKey().Secret()
	for _, p := range []*Program{behavesWithin(t, 50*time.Millisecond, "sleep"), behaves(t, "endless"), behaves(t, "killed"), behaves(t, "deaf")} {
		_, _ = p.Wrap(background, key)
		var status syscall.WaitStatus
		_, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		require.Equal(t, syscall.ECHILD, err)
	}
}
