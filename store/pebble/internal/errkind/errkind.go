// Package errkind gives errors of the engine and the file system the kinds that callers know them by.
package errkind

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

// New returns an error with a text, that is all of the others.
func New(text string, is ...error) error { return &fault{text, is} }

// Damaged returns the error for files that are not as the engine left them.
func Damaged(cause error) error {
	return New(fmt.Sprintf("%v: restore its directory from a backup: %s", driver.ErrCorrupt, oneLine(cause)), driver.ErrCorrupt, cause)
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

// Of gives what the engine returns the kind that callers know it by.
func Of(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrCorrupt):
		return err
	case pebble.IsCorruptionError(err), errors.Is(err, fs.ErrNotExist):
		return Damaged(err)
	}
	return OfDisk(err)
}

// OfOpen does so for what the engine returns when it is opened. What is not the file
// system's is about the files: the engine names most damage by texts only.
func OfOpen(err error) error {
	var errno syscall.Errno
	if err == nil || errors.Is(err, driver.ErrLayout) || errors.As(err, &errno) && errno != syscall.ENOENT {
		return Of(err)
	}
	return Damaged(err)
}

// OfDisk gives an error its kind where the file system refuses what this process may not do, a disk is full or fails, or no more
// files can be opened.
func OfDisk(err error) error {
	if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnauthorised) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return New(fmt.Sprintf("%v: %s", driver.ErrUnauthorised, oneLine(err)), driver.ErrUnauthorised, err)
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, errno) {
			text := fmt.Sprintf("%v: %s", driver.ErrUnavailable, oneLine(err))
			if errno == syscall.EMFILE {
				text += "; allow the process more of them (ulimit -n)"
			}
			return New(text, driver.ErrUnavailable, err)
		}
	}
	return err
}
