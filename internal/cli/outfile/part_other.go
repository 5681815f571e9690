//go:build !unix || solaris || illumos || aix

package outfile

import (
	"errors"
	"os"
)

const (
	renamesOpen = false
	canAgain    = false
)

func again(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }

// tryLock finds no lock, so that parts of files that a process left stay.
func tryLock(*os.File) (taken, held bool) { return false, false }
