package servers

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that was killed is there until its last thread has ended, which takes a moment. Up waits for that, and starts it again.
func TestUpAfterKill(t *testing.T) {
	fakeMachine(t, "serve")
	o := Options{Kind: Cassandra}
	o.Port, o.PeerPort = upPorts(t)
	c, _, err := Up(t.Context(), o)
	require.NoError(t, err)
	defer Down(tContext(), Cassandra, "")
	p := c.Nodes()[0].current().Process

	// A thread that is traced stays until its tracer has waited for it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := 0
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	require.NoError(t, err)
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil && id != p.PID {
			thread = id
		}
	}
	if err := syscall.PtraceAttach(thread); err != nil {
		t.Skipf("this machine lets nobody trace a process: %v", err)
	}
	_, err = syscall.Wait4(thread, nil, syscall.WALL, nil)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(p.PID, syscall.SIGKILL))
	require.True(t, p.alive())

	type result struct {
		c       *Cluster
		started bool
		err     error
	}
	up := make(chan result, 1)
	go func() {
		c, started, err := Up(tContext(), Options{Kind: Cassandra})
		up <- result{c, started, err}
	}()
	select {
	case r := <-up:
		require.Fail(t, "Up has not waited", "started: %v, error: %v", r.started, r.err)
	case <-time.After(300 * time.Millisecond):
	}
	_, err = syscall.Wait4(thread, nil, syscall.WALL, nil)
	require.NoError(t, err)
	r := <-up
	require.NoError(t, r.err)
	require.True(t, r.started)
	require.NotEqual(t, p.PID, r.c.Nodes()[0].pid())
}
