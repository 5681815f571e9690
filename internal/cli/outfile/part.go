package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A file is written under another name beside it, .NAME.NNN.part, so that it only has to be renamed. The process that
// writes a part has its lock. One that was killed leaves the part, and nobody has the lock.
const partSuffix = ".part"

// createPart makes the part of a file, and removes those that were left. An error names the folder, and not the part.
func createPart(file string) (*os.File, error) {
	dir, before := filepath.Dir(file), "."+filepath.Base(file)+"."
	removeLeft(dir, before)
	for {
		f, err := os.CreateTemp(dir, before+"*"+partSuffix)
		var of *fs.PathError
		if errors.As(err, &of) {
			return nil, &fs.PathError{Op: "write into folder", Path: dir, Err: of.Err}
		}
		if err != nil {
			return nil, err
		}
		taken, held := tryLock(f)
		if !held && (!taken || sameFile(f)) {
			return f, nil // without locks nobody takes it for one that was left
		}
		_ = f.Close() // another process has taken it for one before it had its lock
	}
}

// removeLeft removes the parts that nobody writes any more. What cannot be removed stays.
func removeLeft(dir, before string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		number, named := strings.CutPrefix(e.Name(), before)
		number, ends := strings.CutSuffix(number, partSuffix)
		if !named || !ends || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if taken, _ := tryLock(f); taken && sameFile(f) {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}
}

// sameFile reports whether an open file still has its name.
func sameFile(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named)
}
