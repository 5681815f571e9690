package servers

import (
	"os/exec"
	"runtime"
)

// A spawner starts commands from one thread that lives until close is called. Linux sends the
// signal that ties a child to its parent when the thread that made the child ends, and the
// threads of a Go program come and go.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan<- error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for r := range s.requests {
			r.done <- r.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	s.requests <- spawnRequest{cmd, done}
	return <-done
}

func (s *spawner) close() { close(s.requests) }
