package servers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

const diesWithParent = true

// tie has the system kill the command when the thread that starts it ends; see [spawner].
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// bootID names the run of the machine, from whose beginning Linux counts.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(id))
})

// processInfo reads /proc/PID/stat, see proc_pid_stat(5).
func processInfo(pid int) (info, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return info{}, false
	}
	// The second field is the name in brackets, which may hold anything.
	_, rest, ok := bytes.Cut(stat, []byte("("))
	if i := bytes.LastIndexByte(rest, ')'); ok && i >= 0 {
		rest = rest[i+1:]
	}
	f := bytes.Fields(rest) // f[0] is field 3
	if len(f) < 29 {
		return info{}, false
	}
	pages, _ := strconv.ParseInt(string(f[21]), 10, 64)
	// The first thread may have ended, and others not yet. Until they have, the process keeps its ports and files.
	ended := (f[0][0] == 'Z' || f[0][0] == 'X') && len(f[17]) == 1 && f[17][0] <= '1'
	flags, _ := strconv.ParseUint(string(f[6]), 10, 64)
	pending, _ := strconv.ParseUint(string(f[28]), 10, 64)
	const exiting = 4 // PF_EXITING of the kernel
	return info{
		ending: f[0][0] == 'Z' || flags&exiting != 0 || pending&(1<<(syscall.SIGKILL-1)) != 0,
		began:  bootID() + ":" + string(f[19]),
		zombie: ended,
		memory: pages * int64(os.Getpagesize()),
	}, true
}
