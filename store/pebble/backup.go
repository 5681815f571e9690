package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rangecrypt/rangecrypt/store/pebble/internal/dirlock"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/errkind"
)

// Backup writes what the database holds at one instant into a directory that is not there yet, while others go on to read and
// write. All that was acknowledged before is in it. The directory is a database as any other. It is there when it is whole: until
// then its name ends in ".unfinished", which a process that is killed leaves.
//
// All data is read, and is written with one sync for some MiB. What is damaged is [driver.ErrCorrupt] then. A directory that
// is there already is fs.ErrExist, and left as it is.
func (db *DB) Backup(ctx context.Context, dir string) error {
	if err := db.backup(ctx, dir); err != nil {
		return fmt.Errorf("pebble: back %s up to %s: %w", db.dir, dir, err)
	}
	return nil
}

func (db *DB) backup(ctx context.Context, dir string) (err error) {
	fsys := db.fence.FS.Unwrap() // the fence is for what the database cannot be without
	dir = dirlock.Path(fsys, dir)
	part := dir + ".unfinished"
	for _, name := range []string{dir, part} {
		switch _, err := fsys.Stat(name); {
		case err == nil:
			return fmt.Errorf("%w: %s: name another one, or remove what an earlier backup has left", fs.ErrExist, name)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	taken, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	to, err := Open(part, &Options{FS: fsys})
	if err != nil {
		return err
	}
	err = taken.(*snapshot).copyTo(ctx, to)
	if err = errors.Join(err, to.Close()); err == nil {
		err = fsys.Rename(part, dir)
	}
	if err != nil {
		return errkind.OfDisk(errors.Join(err, fsys.RemoveAll(part)))
	}
	return errkind.OfDisk(dirlock.Sync(fsys, fsys.PathDir(dir)))
}

// copyTo writes all keys of the engine, the directory of families among them, to a database that has none.
func (s *snapshot) copyTo(ctx context.Context, to *DB) error {
	for from := []byte{0}; from != nil; { // no key is below
		if err := contextError(ctx); err != nil {
			return err
		}
		b := to.eng.NewBatch()
		var err error
		if from, err = s.appendTo(b, from); err != nil {
			return errors.Join(err, b.Close())
		}
		if _, err := to.queue.do(ctx, &write{batch: b}); err != nil {
			return err
		}
	}
	return nil
}

// appendTo puts some keys into a batch, from one on, and returns where it goes on: nil at the end.
func (s *snapshot) appendTo(b *pebble.Batch, from []byte) (next []byte, err error) {
	if err := s.db.enter(); err != nil {
		return nil, err
	}
	defer s.db.leave()
	it, err := s.snap.NewIter(&pebble.IterOptions{LowerBound: from})
	if err != nil {
		return nil, errkind.Of(err)
	}
	valid := it.First()
	for ; valid && b.Len() < maxGroup && err == nil; valid = it.Next() {
		err = b.Set(it.Key(), it.Value(), nil)
	}
	if valid {
		next = bytes.Clone(it.Key())
	}
	return next, errkind.Of(errors.Join(err, it.Close()))
}
