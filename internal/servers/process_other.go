//go:build !unix

package servers

import (
	"context"
	"os"
	"os/exec"
)

const (
	supported      = false
	diesWithParent = false
)

var terminate, suspend, resume = os.Kill, os.Kill, os.Kill // of a process that is never started

func detach(*exec.Cmd)        {}
func tie(*exec.Cmd)           {}
func stopWithGroup(*exec.Cmd) {}

func processInfo(int) (info, bool)   { return info{}, false }
func tryLock(*os.File) (bool, error) { return false, ErrUnsupported }

func lockFile(context.Context, string, func()) (func(), error) { return nil, ErrUnsupported }

func isAddrInUse(error) bool        { return false }
func isAddrNotHere(error) bool      { return false }
func isPortNotPermitted(error) bool { return false }
