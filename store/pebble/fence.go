package pebble

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A fence is the file system that the engine works on. The first failure of a write closes it:
// from then on nothing on the disk changes any more, as if the process had been killed there.
// What was acknowledged before is on the disk; nothing is acknowledged after. Without it the
// engine would go on: repeat flushes for ever on a full disk, or take a later fsync that succeeds
// as proof that data is safe which an earlier, failed one has dropped (Rebello et al., "Can
// applications recover from fsync failures?", USENIX ATC 2020).
//
// The fence is also the engine's logger, since the engine reports what it cannot go on from by
// Fatalf, which by default ends the process.
type fence struct {
	vfs.FS
	lock string // a Lock of this file is held by the DB

	once   sync.Once
	cause  error
	failed chan struct{} // closed after cause is set

	// Once given up, what the engine writes behind the closed fence succeeds and goes nowhere:
	// for an engine that nobody uses, so that it comes to its end instead of trying for ever.
	givenUp atomic.Bool
}

func newFence(fs vfs.FS) *fence { return &fence{FS: fs, failed: make(chan struct{})} }

// fail closes the fence. Only the first cause is kept: it is the one that explains the others.
func (f *fence) fail(cause error) {
	f.once.Do(func() {
		f.cause = cause
		close(f.failed)
	})
}

// err returns nil or what closed the fence.
func (f *fence) err() error {
	select {
	case <-f.failed:
		return f.cause
	default:
		return nil
	}
}

// change runs an operation that changes the disk.
func (f *fence) change(op func() error) error {
	if err := f.err(); err != nil {
		if f.givenUp.Load() {
			return nil
		}
		// The engine repeats failed flushes without a pause.
		time.Sleep(10 * time.Millisecond)
		return err
	}
	err := op()
	if err != nil {
		f.fail(err)
	}
	return err
}

func (f *fence) file(open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.change(func() (err error) {
		file, err = open()
		return err
	})
	if err == nil && file == nil { // given up
		file, err = vfs.NewMem().Create("nowhere", vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, err
	}
	return &fencedFile{file, f}, nil
}

func (f *fence) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *fence) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *fence) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, category) })
}

func (f *fence) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{dir, f}, nil
}

func (f *fence) Rename(oldname, newname string) error {
	return f.change(func() error { return f.FS.Rename(oldname, newname) })
}

func (f *fence) Link(oldname, newname string) error {
	return f.change(func() error { return f.FS.Link(oldname, newname) })
}

func (f *fence) MkdirAll(dir string, perm os.FileMode) error {
	return f.change(func() error { return f.FS.MkdirAll(dir, perm) })
}

// Removals that fail leave garbage, which is no reason to stop.

func (f *fence) Remove(name string) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *fence) RemoveAll(name string) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.FS.RemoveAll(name)
}

// Lock gives the engine the lock that the DB holds already, and lets go of when it is closed,
// whatever became of the engine.
func (f *fence) Lock(name string) (io.Closer, error) {
	if filepath.Base(name) != filepath.Base(f.lock) {
		return nil, errors.New("unexpected lock file")
	}
	return io.NopCloser(nil), nil
}

func (f *fence) Unwrap() vfs.FS { return f.FS }

type fencedFile struct {
	vfs.File
	fence *fence
}

func (f *fencedFile) Write(p []byte) (n int, err error) {
	err = f.fence.change(func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	if err == nil {
		n = len(p) // also of what goes nowhere
	}
	return n, err
}

func (f *fencedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fence.change(func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *fencedFile) Sync() error     { return f.fence.change(f.File.Sync) }
func (f *fencedFile) SyncData() error { return f.fence.change(f.File.SyncData) }

func (f *fencedFile) SyncTo(length int64) (full bool, err error) {
	err = f.fence.change(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
