package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// ErrUnsupported means that servers cannot be run on this operating system.
var ErrUnsupported = errors.New("servers are run on Linux, macOS and other Unixes only; " +
	"start the database another way, such as in a container")

// A process is named by its id and by when it began, since the system uses ids again: a state
// file may be older than the machine's last start.
type process struct {
	PID   int    `json:"pid"`
	Began string `json:"began"` // as processInfo says it; to be compared only
}

// info is what the system says of a process.
type info struct {
	began  string
	zombie bool  // ended, not yet reaped by its parent
	ending bool  // killed, or about to end, and still there
	memory int64 // resident, in bytes
}

// identify returns the process that has the id now.
func identify(pid int) (process, error) {
	i, ok := processInfo(pid)
	if !ok {
		return process{}, fmt.Errorf("process %d ended at once", pid)
	}
	return process{PID: pid, Began: i.began}, nil
}

func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	i, ok := processInfo(p.PID)
	return ok && !i.zombie && i.began == p.Began
}

// signal sends a signal to the process, and to no other that has got its id since. A process
// that has ended is no error.
func (p process) signal(sig os.Signal) error {
	if p.PID <= 0 {
		return nil
	}
	// On Linux the handle is bound to the process that has the id at this moment; so look who it
	// is after taking it, not before.
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer h.Release()
	if !p.alive() {
		return nil
	}
	if err := h.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// waitSettled waits until a process that was killed is gone. It takes a moment until a server has given back
// its memory, and its ports answer meanwhile. It returns at once if the process goes on.
func (p process) waitSettled(ctx context.Context) error {
	if i, ok := processInfo(p.PID); p.PID > 0 && ok && i.ending {
		return p.waitGone(ctx)
	}
	return nil
}

const pollEvery = 25 * time.Millisecond

// waitGone waits until the process has ended.
func (p process) waitGone(ctx context.Context) error {
	for p.alive() {
		if err := pause.For(ctx, pollEvery); err != nil {
			return fmt.Errorf("process %d still runs: %w", p.PID, err)
		}
	}
	return nil
}

// kill ends the process by SIGKILL and returns when it is gone. It takes no context: nothing can
// hold up the end of a process for long but a sick disk.
func (p process) kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return p.waitGone(ctx)
}

// stop asks the process to end and returns when it is gone. One that has not ended after the
// grace time, or when ctx ends, is killed.
func (p process) stop(ctx context.Context, grace time.Duration) error {
	if err := p.signal(terminate); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.waitGone(ctx) == nil {
		return nil
	}
	return p.kill()
}
