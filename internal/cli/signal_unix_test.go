//go:build unix

package cli

import (
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
