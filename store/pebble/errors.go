package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A fault is an error of the engine or the file system, with the kinds that callers know it by.
type fault struct {
	text string
	is   []error
}

func (f *fault) Error() string   { return f.text }
func (f *fault) Unwrap() []error { return f.is }

// damaged returns the error for files that are not as the engine left them.
func damaged(cause error) error {
	return &fault{fmt.Sprintf("%v: restore its directory from a backup: %s", driver.ErrCorrupt, oneLine(cause)), []error{driver.ErrCorrupt, cause}}
}

// oneLine returns the text of an error in one line, without what the engine adds for its own reports. The
// engine's name is left out, since each error of this package begins with it.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.ReplaceAll(strings.TrimSpace(line), "pebble: ", ""); line != "" && line != "<corruption detail carrier>" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// classify gives what the engine returns the kind that callers know it by.
func classify(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrCorrupt):
		return err
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist):
		return damaged(err)
	}
	return ofDisk(err)
}

// classifyOpen does so for what the engine returns when it is opened. What is not the file
// system's is about the files: the engine names most damage by texts only.
func classifyOpen(err error) error {
	var errno syscall.Errno
	if err == nil || errors.Is(err, driver.ErrLayout) || errors.As(err, &errno) && errno != syscall.ENOENT {
		return classify(err)
	}
	return damaged(err)
}

// ofDisk gives an error its kind where the file system refuses what this process may not do, or a disk is full or fails.
func ofDisk(err error) error {
	if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnauthorised) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return &fault{fmt.Sprintf("%v: %s", driver.ErrUnauthorised, oneLine(err)), []error{driver.ErrUnauthorised, err}}
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO} {
		if errors.Is(err, errno) {
			return &fault{fmt.Sprintf("%v: %s", driver.ErrUnavailable, oneLine(err)), []error{driver.ErrUnavailable, err}}
		}
	}
	return err
}
