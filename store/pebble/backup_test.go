package pebble

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// TestBackup takes backups under writers, each of which writes rows one after the other, first into one family, then into
// another. Each backup is one instant: without holes, the second family at most one row behind, and all there that was
// acknowledged before.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, filepath.Join(dir, "db"), nil)
	family := func(db *DB, name string) driver.Family {
		f, err := db.Family(background, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered})
		require.NoError(t, err)
		return f
	}
	first, second := family(db, "first"), family(db, "second")
	family(db, "dropped")
	require.NoError(t, db.Drop(background, "dropped"))

	const writers = 3
	var acknowledged [writers]atomic.Int64
	ctx, cancel := context.WithCancel(background)
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := int64(0); ctx.Err() == nil; i++ {
				m := mutation(fmt.Sprintf("%d/%06d", w, i), strings.Repeat("x", 20_000)) // of several pages
				for _, f := range []driver.Family{first, second} {
					if err := f.Apply(background, m); err != nil {
						t.Error(err)
						return
					}
				}
				acknowledged[w].Store(i + 1)
			}
		})
	}
	count := func(f driver.Family, w int) (n int64) {
		for row, err := range f.Scan(background, driver.Range{Start: fmt.Appendf(nil, "%d/", w), End: fmt.Appendf(nil, "%d0", w)}) {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d/%06d", w, n), string(row.Key), "a hole")
			n++
		}
		return n
	}
	for round := range 3 {
		require.NoError(t, db.Compact(background)) // so that some are in tables, and some in the log
		for acknowledged[0].Load() < int64(40*(round+1)) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		var known [writers]int64
		for w := range known {
			known[w] = acknowledged[w].Load()
		}
		copied := filepath.Join(dir, fmt.Sprint("copy", round))
		require.NoError(t, db.Backup(background, copied))
		require.Empty(t, neededLogs(t, copied), "the copy depends on a log")

		after := mustOpen(t, copied, nil)
		names, err := after.Families(background)
		require.NoError(t, err)
		require.Equal(t, []string{"first", "second"}, names)
		for w, n := range known {
			a, b := count(family(after, "first"), w), count(family(after, "second"), w)
			require.GreaterOrEqual(t, b, n, "acknowledged rows are missing")
			require.LessOrEqual(t, b, a)
			require.GreaterOrEqual(t, b, a-1, "the families are of two instants")
		}
		// It is a database of its own, and gives no number of a family twice.
		require.NoError(t, family(after, "third").Apply(background, mutation("a", "1")))
		require.NotEqual(t, after.families["third"].id, after.families["second"].id)
		require.NoError(t, after.Close())
	}
	cancel()
	running.Wait()
	for w := range writers {
		require.GreaterOrEqual(t, count(second, w), acknowledged[w].Load())
	}
	require.NoError(t, db.Close())
}

// neededLogs returns the numbers of the logs that a directory cannot be without.
func neededLogs(t *testing.T, dir string) (numbers []string) {
	record, err := readFormat(vfs.Default, dir)
	require.NoError(t, err)
	for number := range record.logs {
		numbers = append(numbers, number)
	}
	return numbers
}

// TestBackupNoSpaceLeft has the disk of the copy fill up after every number of writes in turn. Then there is no copy, or what is
// there is whole, whatever a loss of power leaves. The database goes on.
func TestBackupNoSpaceLeft(t *testing.T) {
	for n := int64(0); ; n++ {
		mem := vfs.NewCrashableMem()
		disk := &fullDisk{under: "copy"}
		disk.left.Store(n)
		db := mustOpen(t, "db", &Options{FS: errorfs.Wrap(mem, disk)})
		f := mustFamily(t, db)
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			require.NoError(t, f.Apply(background, mutation(key, "value of "+key)))
		}
		err := db.Backup(background, "copy")
		if disk.failed.Load() > 0 && err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC, "after %d writes", n)
			require.ErrorIs(t, err, driver.ErrUnavailable)
			_, err = mem.Stat("copy.unfinished")
			require.ErrorIs(t, err, fs.ErrNotExist, "after %d writes", n)
		}
		require.NoError(t, f.Apply(background, mutation("more", "1")), "the database stopped")
		for _, after := range []*vfs.MemFS{mem.CrashClone(vfs.CrashCloneCfg{}), mem} {
			if _, statErr := after.Stat("copy"); statErr != nil {
				require.Error(t, err, "a copy is gone")
				continue
			}
			copied := mustOpen(t, "copy", &Options{FS: after})
			for _, key := range keys {
				require.Equal(t, "value of "+key, value(t, mustFamily(t, copied), key), "after %d writes", n)
			}
			require.NoError(t, copied.Close())
		}
		require.NoError(t, db.Close())
		if disk.failed.Load() == 0 {
			require.NoError(t, err)
			require.Greater(t, n, int64(10))
			return
		}
		require.Less(t, n, int64(1000), "the disk never lasts")
	}
}

// TestBackupIsRefused: nothing is made, and what was there stays.
func TestBackupIsRefused(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, filepath.Join(dir, "db"), nil)
	require.NoError(t, mustFamily(t, db).Apply(background, mutation("a", "1")))
	before := names(t, dir)

	require.ErrorIs(t, db.Backup(background, filepath.Join(dir, "db")), fs.ErrExist)
	require.ErrorContains(t, db.Backup(background, filepath.Join(dir, "db", "copy")), "in the directory of another one")
	if link := filepath.Join(t.TempDir(), "link"); os.Symlink(filepath.Join(dir, "db"), link) == nil {
		require.ErrorContains(t, db.Backup(background, filepath.Join(link, "copy")), "in the directory of another one")
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, db.Backup(ctx, filepath.Join(dir, "copy")), context.Canceled)
	require.Equal(t, before, names(t, dir))

	left := mustOpen(t, filepath.Join(dir, "copy.unfinished"), nil) // as a process leaves it that is killed
	require.NoError(t, left.Close())
	require.ErrorIs(t, db.Backup(background, filepath.Join(dir, "copy")), fs.ErrExist)

	require.NoError(t, db.Close())
	require.ErrorIs(t, db.Backup(background, filepath.Join(dir, "closed")), driver.ErrClosed)
}
