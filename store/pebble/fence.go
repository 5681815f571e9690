package pebble

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/store/pebble/internal/dirlock"
)

// A fence is the file system that the engine works on. The first failure of a write closes it: from then on nothing on the
// disk changes any more, as if the process had been killed there. What was acknowledged before is on the disk; nothing is
// acknowledged after. Without it the engine would go on. On a full disk it would repeat flushes for ever. After an fsync
// that failed and dropped data, it would take a later one that succeeds as proof that the data is safe (Rebello et al., "Can
// applications recover from fsync failures?", USENIX ATC 2020).
//
// The fence is also the engine's logger, since the engine reports what it cannot go on from by
// Fatalf, which by default ends the process.
type fence struct {
	vfs.FS
	lock   string       // a Lock of this file is held by the DB
	still  func() error // whether names lead to the files that are open
	record *fileRecord

	once   sync.Once
	cause  error
	failed chan struct{} // closed after cause is set

	// Once given up, what the engine writes through the closed fence succeeds and goes nowhere:
	// for an engine that nobody uses, so that it comes to its end instead of trying for ever.
	givenUp atomic.Bool

	// So it is also while the engine may end a log: it panics when that fails, and then unlocks what is not
	// locked, which ends the process.
	logging atomic.Bool
}

// whileLogging runs an operation in which the engine may end a log, and returns what closed the fence, too.
// One goroutine at a time does so.
func (f *fence) whileLogging(op func() error) error {
	f.logging.Store(true) // before the check, so that no failure comes between
	defer f.logging.Store(false)
	if err := f.err(); err != nil {
		return err
	}
	if err := op(); err != nil {
		return err
	}
	return f.err()
}

// startFlush starts to move what is in memory into tables. What it returns is closed at the end.
func (f *fence) startFlush(eng *pebble.DB) (done <-chan struct{}, err error) {
	err = f.whileLogging(func() (err error) {
		done, err = eng.AsyncFlush()
		return err
	})
	return done, err
}

// flush waits for the end, or for a write that fails.
func (f *fence) flush(eng *pebble.DB) error {
	done, err := f.startFlush(eng)
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-f.failed:
	}
	return f.err()
}

// nowhere reports whether writes through the closed fence succeed and go nowhere.
func (f *fence) nowhere() bool { return f.givenUp.Load() || f.logging.Load() }

func newFence(fs *dirlock.Pinned, lock string, record *fileRecord) *fence {
	return &fence{FS: fs, lock: lock, still: fs.Still, record: record, failed: make(chan struct{})}
}

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
		if f.nowhere() {
			return nil
		}
		// The engine repeats failed flushes without a pause.
		time.Sleep(10 * time.Millisecond)
		return err
	}
	err := op()
	if err != nil {
		f.fail(err)
		if f.nowhere() {
			return nil
		}
	}
	return err
}

func (f *fence) file(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	log, isLog := logNumber(f.FS, name)
	err := f.change(func() (err error) {
		file, err = open()
		if err == nil && isLog {
			if err = f.record.add(log); err != nil {
				err, file = errors.Join(err, file.Close()), nil
			}
		}
		return err
	})
	if err == nil && file == nil { // given up
		file, err = vfs.NewMem().Create("nowhere", vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, err
	}
	fenced := &fencedFile{File: file, fence: f}
	if isLog {
		fenced.log = log
	}
	if base := f.FS.PathBase(name); strings.HasPrefix(base, manifestPrefix) {
		fenced.manifest = newManifestWriter(base)
	}
	return fenced, nil
}

func (f *fence) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *fence) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *fence) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(newname, func() (vfs.File, error) {
		if err := f.forget(oldname); err != nil {
			return nil, err
		}
		return f.FS.ReuseForWrite(oldname, newname, category)
	})
}

func (f *fence) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: dir, fence: f}, nil
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
	if err := f.forget(name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// forget takes a log off the record before it goes.
func (f *fence) forget(name string) error {
	if log, ok := logNumber(f.FS, name); ok {
		return f.record.remove(log)
	}
	return nil
}

func (f *fence) RemoveAll(name string) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.FS.RemoveAll(name)
}

// Lock gives the engine the lock that the DB holds already, and lets go of when it is closed, whatever became of the engine.
func (f *fence) Lock(name string) (io.Closer, error) {
	if filepath.Base(name) != filepath.Base(f.lock) {
		return nil, errors.New("unexpected lock file")
	}
	return io.NopCloser(nil), nil
}

func (f *fence) Unwrap() vfs.FS { return f.FS }

type fencedFile struct {
	vfs.File
	fence   *fence
	log     string // the number of a log, "" for other files
	written int64  // to a log, which is written in order, by one goroutine

	manifest *manifestWriter // of a manifest, which is written so, too
}

func (f *fencedFile) Close() error {
	err := f.File.Close()
	if err == nil && f.log != "" && f.fence.err() == nil {
		f.fence.record.ended(f.log, f.written)
	}
	return err
}

func (f *fencedFile) Write(p []byte) (n int, err error) {
	err = f.fence.change(func() (err error) {
		if f.manifest != nil {
			_, _ = f.manifest.Write(p) // first: a file may change p. What fails ends the use of the file.
		}
		n, err = f.File.Write(p)
		f.written += int64(n)
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

func (f *fencedFile) Sync() error {
	return f.sync(func() error {
		err := f.File.Sync()
		if err == nil && f.manifest != nil {
			err = f.fence.record.synced(f.manifest.manifest())
		}
		return err
	})
}

func (f *fencedFile) SyncData() error { return f.sync(f.File.SyncData) }

// sync is what acknowledges writes. Nobody finds these where the directory was before.
func (f *fencedFile) sync(do func() error) error {
	return f.fence.change(func() error {
		if err := f.fence.still(); err != nil {
			return err
		}
		return do()
	})
}

func (f *fencedFile) SyncTo(length int64) (full bool, err error) {
	err = f.fence.change(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
