//go:build unix

package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// A terminal that is closed interrupts a command, so that it tidies up, unless nohup keeps that from it.
func TestHangUp(t *testing.T) {
	ignored := signal.Ignored(syscall.SIGHUP)
	interrupted := false
	code := Execute(t.Context(), &Env{Stdout: io.Discard, Stderr: io.Discard}, func(*Env) *cobra.Command {
		return &cobra.Command{Use: "wait", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				return err
			}
			patience := 10 * time.Second
			if ignored {
				patience = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			select {
			case <-cmd.Context().Done():
				interrupted = true
				return exit.ErrInterrupted
			case <-ctx.Done():
				return nil
			}
		}}
	}, nil)
	require.Equal(t, !ignored, interrupted)
	require.Equal(t, ignored, code == 0)
}

// What does not end when it is interrupted is told of once, with what ends it.
func TestInterruptedWithoutEnd(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	said, stderr := io.Pipe()
	e := &Env{Stdout: io.Discard, Stderr: stderr, patience: time.Millisecond}
	code := Execute(ctx, e, func(*Env) *cobra.Command {
		return &cobra.Command{Use: "wait", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
			interrupt()
			line, err := bufio.NewReader(said).ReadString('\n')
			require.NoError(t, err)
			require.Regexp(t, "^wait: interrupted, but .*: another Ctrl-C ends this at once\n$", line)
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return exit.ErrInterrupted
		}}
	}, nil)
	require.Equal(t, exit.Interrupted, code)
}
