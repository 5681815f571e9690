package cqlsource

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// files are some files of a folder.
type files struct {
	n     int
	bytes int64
}

// add counts a file. Nodes delete files while others count them.
func (f *files) add(d fs.DirEntry) error {
	info, err := d.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		f.n, f.bytes = f.n+1, f.bytes+info.Size()
	}
	return err
}

func (f *files) String() string {
	if f.n == 1 {
		return fmt.Sprintf(" (1 file, %d bytes)", f.bytes)
	}
	return fmt.Sprintf(" (%d files, %d bytes)", f.n, f.bytes)
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
