package dirlock

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Pinned is a file system that opens, makes, renames and removes nothing once the path of a directory leads to another one. The engine
// works by names. So after somebody has put a backup in the place of the directory, it would write into that.
type Pinned struct {
	vfs.FS
	dir string
	was fs.FileInfo // nil: not on a disk
}

// Path returns the name of a directory for an engine that works by names: the working directory may change.
func Path(fsys vfs.FS, dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && vfs.Root(fsys) == vfs.Default {
		return abs
	}
	return dir
}

// Above returns the directory which has a file of a name and which a path is in, at any depth and whatever links lead there, or "" if
// none has.
func Above(fsys vfs.FS, path, file string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil && vfs.Root(fsys) == vfs.Default {
		path = real
	}
	parent := fsys.PathDir(path)
	if parent == path {
		return ""
	}
	if _, err := fsys.Stat(fsys.PathJoin(parent, file)); err == nil {
		return parent
	}
	return Above(fsys, parent, file)
}

// Pin returns the file system with the directory as it is now.
func Pin(fsys vfs.FS, dir string) (*Pinned, error) {
	p := &Pinned{FS: fsys, dir: dir}
	if vfs.Root(fsys) != vfs.Default {
		return p, nil
	}
	var err error
	p.was, err = os.Stat(dir)
	return p, err
}

// Still returns an error unless the directory is where it was. It is [driver.ErrUnavailable].
func (p *Pinned) Still() error {
	if p.was == nil {
		return nil
	}
	if is, err := os.Stat(p.dir); err != nil || !os.SameFile(is, p.was) {
		return fmt.Errorf("%w: directory %s was moved, replaced or removed while this process works in it; nothing more is written: "+
			"end the process before you restore a backup; what it has stored is in the directory that was moved", driver.ErrUnavailable, p.dir)
	}
	return nil
}

// Unwrap implements [vfs.FS].
func (p *Pinned) Unwrap() vfs.FS { return p.FS }

// Create implements [vfs.FS].
func (p *Pinned) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.FS.Create(name, category) })
}

// Open implements [vfs.FS].
func (p *Pinned) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.FS.Open(name, opts...) })
}

// OpenReadWrite implements [vfs.FS].
func (p *Pinned) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.FS.OpenReadWrite(name, category, opts...) })
}

// OpenDir implements [vfs.FS].
func (p *Pinned) OpenDir(name string) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// ReuseForWrite implements [vfs.FS].
func (p *Pinned) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file(func() (vfs.File, error) { return p.FS.ReuseForWrite(oldname, newname, category) })
}

// Link implements [vfs.FS].
func (p *Pinned) Link(oldname, newname string) error {
	return p.change(func() error { return p.FS.Link(oldname, newname) })
}

// Rename implements [vfs.FS].
func (p *Pinned) Rename(oldname, newname string) error {
	return p.change(func() error { return p.FS.Rename(oldname, newname) })
}

// Remove implements [vfs.FS].
func (p *Pinned) Remove(name string) error {
	return p.change(func() error { return p.FS.Remove(name) })
}

// RemoveAll implements [vfs.FS].
func (p *Pinned) RemoveAll(name string) error {
	return p.change(func() error { return p.FS.RemoveAll(name) })
}

// MkdirAll implements [vfs.FS].
func (p *Pinned) MkdirAll(dir string, perm os.FileMode) error {
	return p.change(func() error { return p.FS.MkdirAll(dir, perm) })
}

func (p *Pinned) file(open func() (vfs.File, error)) (vfs.File, error) {
	if err := p.Still(); err != nil {
		return nil, err
	}
	return open()
}

func (p *Pinned) change(do func() error) error {
	if err := p.Still(); err != nil {
		return err
	}
	return do()
}
