//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

const supported = true

const (
	terminate = syscall.SIGTERM
	suspend   = syscall.SIGSTOP
	resume    = syscall.SIGCONT
)

// detach lets the command outlive this process and its terminal.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// stopWithGroup has the end of the command's context end also the processes that it has started:
// mvn is a script.
func stopWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// tryLock takes the lock of an open file if nobody has it. The lock goes with the process.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// lockFile waits for the lock of the file of that name, which it makes, and calls busy once if it
// has to wait.
func lockFile(ctx context.Context, name string, busy func()) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		ok, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, err
		}
		if ok {
			return func() { f.Close() }, nil
		}
		if first {
			busy()
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			f.Close()
			return nil, fmt.Errorf("wait for the lock %s: %w", name, err)
		}
	}
}

func isAddrInUse(err error) bool        { return errors.Is(err, syscall.EADDRINUSE) }
func isAddrNotHere(err error) bool      { return errors.Is(err, syscall.EADDRNOTAVAIL) }
func isPortNotPermitted(err error) bool { return errors.Is(err, syscall.EACCES) }
