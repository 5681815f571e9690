// Package outfile writes the files that commands are told to write. A file gets its name when it is complete. What is no
// regular file, such as a device or a pipe, is written to as it is, and is never replaced. So is what stands for an open file,
// such as /dev/stdout. A file that holds a master key is never replaced, either. A [Place] tells whether two names are one file.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// ErrExists is the error about a file that must not be replaced.
var ErrExists = errors.New("exists")

// A File is one that is being written.
type File struct {
	*os.File
	place   string // the name that it gets; "" for what is no regular file, or has its name
	shown   string
	replace bool
}

// descriptor returns which open file of the process a name stands for. Where a shell has redirected it to a regular file, that
// is written on where it ends, as everything that the process prints.
func descriptor(name string) (fd int, open bool) {
	switch name {
	case "/dev/stdout":
		return 1, canAgain
	case "/dev/stderr":
		return 2, canAgain
	}
	number, found := strings.CutPrefix(name, "/dev/fd/")
	fd, err := strconv.Atoi(number)
	return fd, found && err == nil && fd >= 0 && canAgain
}

// place returns where a file of a name is. A link is followed, so that it stays. Special says that there is something
// which is no regular file, under the same name.
func place(name string, replace bool) (path string, special bool, err error) {
	if _, open := descriptor(name); open {
		return name, true, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(name); err == nil {
			return "", false, fmt.Errorf("%s is a link to a file that is not there: name that file itself", name)
		}
		dir := filepath.Dir(name)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return "", false, fmt.Errorf("folder %s does not exist", dir)
		}
		return name, false, nil
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, fmt.Errorf("%s is a directory: name a file in it", name)
	case !info.Mode().IsRegular():
		return name, true, nil
	case !replace:
		return "", false, fmt.Errorf("%s %w", name, ErrExists)
	}
	if err := CheckKey(name); err != nil {
		return "", false, err
	}
	path, err = filepath.EvalSymlinks(name)
	return path, false, err
}

// Check returns the error that Create has about a name: an existing file is ErrExists, unless it may be replaced. It does
// not see whether the folder may be written to.
func Check(name string, replace bool) error {
	_, _, err := place(name, replace)
	return err
}

// Create begins a file that only its owner can read. It ends with Commit or Discard.
func Create(name string, replace bool) (*File, error) {
	path, special, err := place(name, replace)
	if err != nil {
		return nil, err
	}
	f := &File{shown: name, replace: replace}
	if fd, open := descriptor(path); open {
		f.File, err = again(fd, name)
	} else if special {
		f.File, err = os.OpenFile(path, os.O_WRONLY, 0)
	} else {
		f.place = path
		f.File, err = createPart(path)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Write writes on. The reader of a pipe that is named has to read all of it: if it ends before, that is an error, and none that is
// [syscall.EPIPE], as of a standard output of which somebody has seen enough.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if !errors.Is(err, syscall.EPIPE) {
		return n, err
	}
	if fd, open := descriptor(f.shown); !open || fd != 1 {
		err = fmt.Errorf("%s: its reader ended before everything was written to it", f.shown)
	}
	return n, err
}

// WriteString is Write of a string.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// Regular reports whether the file is a regular one, and no device or pipe.
func (f *File) Regular() bool { return f.place != "" }

// Commit has all bytes and the name of the file on the disk. A file that was made meanwhile is ErrExists, unless it may
// be replaced.
func (f *File) Commit() error {
	if f.place == "" {
		return f.Close() // a device or pipe has no disk
	}
	// Whoever sees the name finds all bytes, also after the machine has stopped.
	if err := f.Sync(); err != nil {
		return err
	}
	if !renamesOpen {
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := f.rename(); err != nil {
		return err
	}
	dir := filepath.Dir(f.place)
	f.place = ""
	_ = f.Close() // its bytes were synced
	if err := syncFolder(dir); err != nil {
		return fmt.Errorf("%s is written, and may not be there after a loss of power: %w", f.shown, err)
	}
	return nil
}

// syncFolder makes names in a folder outlive a loss of power, where the system can do so, and the folder may be read.
var syncFolder = func(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer dir.Close()
	err = dir.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

func (f *File) rename() error {
	if f.replace {
		if err := CheckKey(f.place); err != nil { // that was made meanwhile
			return err
		}
		return os.Rename(f.Name(), f.place)
	}
	err := os.Link(f.Name(), f.place)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s %w by now", f.shown, ErrExists)
	case err != nil: // this file system has no links
		if err := Check(f.place, false); err != nil {
			return err
		}
		return os.Rename(f.Name(), f.place)
	}
	return os.Remove(f.Name())
}

// Discard removes what is there of a file that was not committed. After Commit it does nothing.
func (f *File) Discard() error {
	_ = f.Close() // it may be closed
	if f.place == "" {
		return nil
	}
	f.place = ""
	return os.Remove(f.Name())
}
