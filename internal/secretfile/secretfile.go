// Package secretfile reads files that only their owner may read: keys and passwords.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// ErrUTF16 is of a file in another character set than is read.
var ErrUTF16 = errors.New("is in UTF-16, as some shells and editors of Windows write it: write it in UTF-8")

// A Kind is what a file holds, in words for errors.
type Kind struct {
	Name   string // as "key file"
	Remedy string // what to do where others may have read it, as "rotate the key"
	Most   int    // bytes that are read; one more shows that there are more
}

// Read returns the beginning of a file, [Kind.Most] bytes and one. On all systems but Windows, a file that others than
// its owner may read or change is refused, and one in UTF-16 is [ErrUTF16]. The mark of UTF-8, with which some editors begin a file, is
// left out. One that does not exist is [fs.ErrNotExist]. No error holds any of its text.
func Read(name string, k Kind) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe, the first writer is not waited for
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s %s: %w", k.Name, name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", k.Name, err)
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened, whatever the name means by now
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", k.Name, err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; name the %s in it", name, k.Name)
	}
	if info.Mode()&fs.ModeDevice != 0 {
		return nil, fmt.Errorf("%s is a device; name the %s", name, k.Name)
	}
	if info.Mode()&fs.ModeNamedPipe != 0 && named(name) {
		return nil, fmt.Errorf("%s is a named pipe; name the %s", name, k.Name)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s %s has mode %04o: others may read or change it; do 'chmod 600 %[2]s', and %[4]s if somebody may have read it",
			k.Name, name, mode, k.Remedy)
	}
	const mark = "\xef\xbb\xbf"
	text, err := io.ReadAll(io.LimitReader(f, int64(len(mark)+k.Most)+1))
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", k.Name, err)
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s %s %w", k.Name, name, ErrUTF16)
	}
	text = bytes.TrimPrefix(text, []byte(mark))
	return text[:min(len(text), k.Most+1)], nil
}

// named reports whether a pipe is one of a file system, whose writer may never come. A shell makes the others, such as that of
// /dev/stdin, and a link to one leads to no name.
func named(pipe string) bool {
	path, err := filepath.EvalSymlinks(pipe)
	return err == nil && !strings.HasPrefix(path, "/dev/")
}
