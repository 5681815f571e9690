//go:build unix

package kms

import (
	"os/exec"
	"syscall"
)

// inGroup gives the command a process group of its own, which is killed when the command's context ends.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killGroup kills what the command, which has ended, has left running in its group. The number of a
// group is not given to another while one of it runs.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
