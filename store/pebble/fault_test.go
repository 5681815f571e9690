package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// fullDisk is a file system that has no space left from the n-th write on.
type fullDisk struct {
	left   atomic.Int64 // writes
	failed atomic.Int64
	only   string // kinds of files, by what their base names contain; "" is all
	under  string // files whose paths begin so
	once   bool   // one write fails, and the next ones do not
}

func (d *fullDisk) String() string { return "full disk" }

func (d *fullDisk) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.Contains(filepath.Base(op.Path), d.only) || !strings.HasPrefix(op.Path, d.under) {
		return nil
	}
	switch op.Kind {
	case errorfs.OpRemove, errorfs.OpRemoveAll, errorfs.OpLock, errorfs.OpFilePreallocate, errorfs.OpFileClose:
		return nil // these work on a full disk, or are no writes
	}
	if d.left.Add(-1) >= 0 || d.once && d.failed.Load() > 0 {
		return nil
	}
	d.failed.Add(1)
	return fmt.Errorf("%s: %w", filepath.Base(op.Path), syscall.ENOSPC)
}

// TestNoSpaceLeft lets the disk fill up after every number of writes in turn. Whenever that is,
// the process lives, errors say why, and what was acknowledged is there when there is space again.
func TestNoSpaceLeft(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprint("once=", once), func(t *testing.T) {
			opens, applies := 0, 0
			for n := int64(0); ; n++ {
				mem := vfs.NewCrashableMem()
				disk := &fullDisk{once: once}
				disk.left.Store(n)
				acknowledged, openErr := fillUp(t, errorfs.Wrap(mem, disk))
				if openErr != nil {
					opens++
					require.ErrorIs(t, openErr, syscall.ENOSPC)
					require.ErrorIs(t, openErr, driver.ErrUnavailable)
					_, err := mem.Stat("db")
					require.ErrorIs(t, err, fs.ErrNotExist, "a directory is left after %d writes", n)
				} else {
					applies++
				}
				// What a loss of power would leave, and what a plain restart sees.
				for _, after := range []*vfs.MemFS{mem.CrashClone(vfs.CrashCloneCfg{}), mem} {
					verifyAcknowledged(t, after, acknowledged, n)
				}
				if disk.failed.Load() == 0 {
					require.Greater(t, opens, 5, "no failure while opening")
					require.Greater(t, applies, 20, "no failure while writing")
					return
				}
				require.Less(t, n, int64(1000), "the disk never lasts")
			}
		})
	}
}

// fillUp writes until something fails, at most a few rows, and returns those that were
// acknowledged.
func fillUp(t *testing.T, fs vfs.FS) (acknowledged []string, openErr error) {
	t.Helper()
	db, err := Open("db", &Options{FS: fs})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it may report the full disk, too
	failed := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorIs(t, err, driver.ErrUnavailable)
	}
	f, err := db.Family(background, orderedSpec)
	if err != nil {
		failed(err)
		return nil, nil
	}
	for i := range 12 {
		key := fmt.Sprint("row", i)
		var err error
		if i%2 == 0 {
			err = f.Apply(background, mutation(key, "value of "+key))
		} else {
			var ok bool
			ok, err = f.CheckAndPut(background, []byte(key), driver.Cell{Qualifier: []byte("q")}, mutation(key, "value of "+key).Puts...)
			if err != nil {
				require.False(t, ok)
				require.ErrorIs(t, err, driver.ErrUnknownOutcome)
			}
		}
		if err == nil {
			acknowledged = append(acknowledged, key)
			continue
		}
		failed(err)
		// From here on every call says the same, and nothing is acknowledged.
		_, err = f.Get(background, []byte("row0"), driver.Slice{})
		failed(err)
		failed(f.Apply(background, mutation("later", "1")))
		ok, err := f.CheckAndPut(background, []byte("later"), driver.Cell{Qualifier: []byte("q")})
		failed(err)
		require.False(t, ok)
		require.NotErrorIs(t, err, driver.ErrUnknownOutcome, "what was not tried is not unknown")
		_, err = db.Families(background)
		failed(err)
		_, err = db.Family(background, driver.FamilySpec{Name: "other", Layout: driver.LayoutWide})
		failed(err)
		failed(db.Drop(background, orderedSpec.Name))
		_, err = db.Snapshot()
		failed(err)
		for _, err := range f.Scan(background, driver.Range{}) {
			failed(err)
		}
		break
	}
	return acknowledged, nil
}

func verifyAcknowledged(t *testing.T, fs vfs.FS, acknowledged []string, n int64) {
	t.Helper()
	db, err := Open("db", &Options{FS: fs})
	require.NoError(t, err, "open again after %d writes", n)
	f := mustFamily(t, db)
	for _, key := range acknowledged {
		require.Equal(t, "value of "+key, value(t, f, key), "%s was acknowledged and is lost after %d writes", key, n)
	}
	require.Empty(t, value(t, f, "later"))
	require.NoError(t, f.Apply(background, mutation("after", "1")))
	require.NoError(t, db.Close())
}

// TestNoSpaceLeftForTables fills the disk in the background, when memory is flushed to tables, and
// under several writers. No writer waits for ever.
func TestNoSpaceLeftForTables(t *testing.T) {
	for only, writes := range map[string]int64{".sst": 2, "MANIFEST": 1, ".log": 20} {
		t.Run(only, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			disk := &fullDisk{only: only}
			disk.left.Store(1 << 40)
			db := mustOpen(t, "db", &Options{FS: errorfs.Wrap(mem, disk)})
			f := mustFamily(t, db)
			payload := strings.Repeat("x", 256<<10)
			var (
				writers sync.WaitGroup
				mu      sync.Mutex
				known   []string
			)
			require.NoError(t, f.Apply(background, mutation("first", "1")))
			disk.left.Store(writes)
			for w := range 4 {
				writers.Go(func() {
					for i := range 200 { // 200 MiB, three memtables and more
						key := fmt.Sprintf("%d/%d", w, i)
						err := f.Apply(background, mutation(key, payload))
						if err != nil {
							if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, driver.ErrUnavailable) {
								t.Error(err)
							}
							return
						}
						mu.Lock()
						known = append(known, key)
						mu.Unlock()
					}
					t.Error("the full disk was not noticed")
				})
			}
			writers.Wait()
			begin := time.Now()
			require.NoError(t, db.Close())
			require.Less(t, time.Since(begin), 10*time.Second)

			db = mustOpen(t, "db", &Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			f = mustFamily(t, db)
			require.Equal(t, "1", value(t, f, "first"))
			for _, key := range known {
				require.True(t, value(t, f, key) == payload, "%s was acknowledged and is lost", key)
			}
			require.NoError(t, db.Close())
		})
	}
}

// TestNoSpaceLeftForClose fills the disk at every table that closing writes, in the flush and in compactions that follow it. All is in
// the logs, so closing is no failure.
func TestNoSpaceLeftForClose(t *testing.T) {
	for round := 0; ; round++ {
		n := int64(round / 3) // where compactions come differs
		mem := vfs.NewCrashableMem()
		disk := &fullDisk{only: ".sst"}
		disk.left.Store(1 << 40)
		options := &Options{FS: errorfs.Wrap(mem, disk)}
		var rows []string
		for i := range 6 { // tables of level 0, which are soon to be compacted
			db := mustOpen(t, "db", options)
			rows = append(rows, fmt.Sprint("row", i))
			for _, row := range []string{rows[i], "row0", "row9"} { // tables whose rows overlap
				require.NoError(t, mustFamily(t, db).Apply(background, mutation(row, "value of "+row)))
			}
			if i == 5 {
				disk.left.Store(n)
			}
			require.NoError(t, db.Close(), "after %d writes", n)
		}
		verifyAcknowledged(t, mem.CrashClone(vfs.CrashCloneCfg{}), rows, n)
		verifyAcknowledged(t, mem, rows, n)
		if disk.failed.Load() == 0 {
			require.Greater(t, n, int64(2))
			return
		}
	}
}

// TestNoSpaceLeftForRecovery opens a directory whose log has to be replayed, on a disk that has no
// space for the tables that come of it: an error in finite time, and nothing is lost.
func TestNoSpaceLeftForRecovery(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	require.NoError(t, mustFamily(t, db).Apply(background, mutation("a", "value of a")))
	killed := mem.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, db.Close())

	disk := &fullDisk{only: ".sst"}
	begin := time.Now()
	_, err := Open("db", &Options{FS: errorfs.Wrap(killed, disk)})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.Positive(t, disk.failed.Load())
	require.Less(t, time.Since(begin), 10*time.Second)

	// The lock is free, and the engine that was left alone does no harm.
	verifyAcknowledged(t, killed, []string{"a"}, 0)
}

// TestPowerLoss takes copies of what a loss of power would leave, at random moments: all that was
// synced, and a random part of what was not.
func TestPowerLoss(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed) // for the record; what runs beside it is not repeatable
	r := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	f := mustFamily(t, db)
	ctx, cancel := context.WithCancel(background)
	const writers = 4
	var acknowledged [writers]atomic.Int64
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := int64(0); ctx.Err() == nil; i++ {
				if err := f.Apply(background, mutation(fmt.Sprintf("%d/%06d", w, i), fmt.Sprint(i))); err != nil {
					t.Error(err)
					return
				}
				acknowledged[w].Store(i + 1)
				time.Sleep(200 * time.Microsecond) // the copies are of a modest size
			}
		})
	}
	for range 10 {
		time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		var known [writers]int64
		for w := range known {
			known[w] = acknowledged[w].Load()
		}
		lost := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(101), RNG: r})
		after := mustOpen(t, "db", &Options{FS: lost})
		g := mustFamily(t, after)
		for w, n := range known {
			have := int64(0)
			for row, err := range g.Scan(background, driver.Range{Start: fmt.Appendf(nil, "%d/", w), End: fmt.Appendf(nil, "%d0", w)}) {
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("%d/%06d", w, have), string(row.Key), "a hole")
				have++
			}
			require.GreaterOrEqual(t, have, n, "acknowledged rows are lost")
		}
		require.NoError(t, after.Close())
	}
	cancel()
	running.Wait()
	require.NoError(t, db.Close())
}

// slowDisk makes syncs of the log wait for the gate, once it hangs.
type slowDisk struct {
	hangs atomic.Bool
	gate  chan struct{}
}

func (d *slowDisk) String() string { return "slow disk" }

func (d *slowDisk) MaybeError(op errorfs.Op) error {
	if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSync) && d.hangs.Load() {
		<-d.gate
	}
	return nil
}

// TestDeadlineOnASlowDisk: a caller does not wait for a disk that hangs, is told what it cannot
// know, and a write that was still waiting is never made.
func TestDeadlineOnASlowDisk(t *testing.T) {
	disk := &slowDisk{gate: make(chan struct{})}
	db := mustOpen(t, "db", &Options{FS: errorfs.Wrap(vfs.NewMem(), disk)})
	f := mustFamily(t, db)
	disk.hangs.Store(true)

	deadline := func() context.Context {
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, err := f.CheckAndPut(deadline(), []byte("taken"), driver.Cell{Qualifier: []byte("q")}, mutation("", "1").Puts...)
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ok, err := f.CheckAndPut(deadline(), []byte("waiting"), driver.Cell{Qualifier: []byte("q")}, mutation("", "1").Puts...)
	require.False(t, ok)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, driver.ErrUnknownOutcome, "it was withdrawn for certain")
	err = f.Apply(deadline(), mutation("waiting too", "1"))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	close(disk.gate)
	require.NoError(t, f.Apply(background, mutation("after", "1")))
	require.Equal(t, "1", value(t, f, "taken"))
	require.Empty(t, value(t, f, "waiting"))
	require.Empty(t, value(t, f, "waiting too"))
	require.NoError(t, db.Close())
}

// Reads that fail are errors of the call, and do not stop the database.
func TestReadError(t *testing.T) {
	var broken atomic.Bool
	mem := vfs.NewMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpFileReadAt {
			return syscall.EIO
		}
		return nil
	}))
	db := mustOpen(t, "db", &Options{FS: fs, CacheBytes: 1})
	f := mustFamily(t, db)
	require.NoError(t, f.Apply(background, mutation("a", strings.Repeat("1", 1000))))
	require.NoError(t, db.eng.Flush())
	require.NoError(t, db.Close())
	db = mustOpen(t, "db", &Options{FS: fs, CacheBytes: 1})
	f = mustFamily(t, db)
	broken.Store(true)
	_, err := f.Get(background, []byte("a"), driver.Slice{})
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	_, err = f.CheckAndPut(background, []byte("a"), driver.Cell{Qualifier: []byte("q"), Value: []byte("1")})
	require.ErrorIs(t, err, syscall.EIO)
	require.NotErrorIs(t, err, driver.ErrUnknownOutcome)
	broken.Store(false)
	require.Len(t, value(t, f, "a"), 1000)
	require.NoError(t, f.Apply(background, mutation("b", "1")))
	require.NoError(t, db.Close())
}

// lockedUp is a file system on which this process may not write.
type lockedUp struct{}

func (lockedUp) String() string { return "locked up" }

func (lockedUp) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	return &fs.PathError{Op: "open", Path: op.Path, Err: syscall.EACCES}
}

// What the process may not do is no database that is down, nor is one that has stopped: repeating the
// call helps neither.
func TestMayNotWrite(t *testing.T) {
	_, err := Open("db", &Options{FS: errorfs.Wrap(vfs.NewMem(), lockedUp{})})
	require.ErrorIs(t, err, driver.ErrUnauthorised)
	require.NotErrorIs(t, err, driver.ErrUnavailable)

	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer db.Close()
	require.ErrorIs(t, db.stopped(syscall.ENOSPC), driver.ErrClosed)
	require.ErrorIs(t, db.stopped(syscall.ENOSPC), syscall.ENOSPC)
	require.Equal(t, 1, strings.Count(db.stopped(syscall.ENOSPC).Error(), driver.ErrUnavailable.Error()), "it is said once")
	require.NotErrorIs(t, db.stopped(syscall.ENOSPC), driver.ErrUnauthorised)
	require.ErrorIs(t, db.stopped(syscall.EPERM), driver.ErrUnauthorised)
}

// Directories whose files are damaged or missing are refused with the kind of the error and the way, in
// one line, and left as they are.
func TestDamagedDirectory(t *testing.T) {
	whole := t.TempDir()
	db := mustOpen(t, whole, nil)
	f := mustFamily(t, db)
	for i := range 100 {
		require.NoError(t, f.Apply(background, mutation(fmt.Sprintf("row%03d", i), strings.Repeat("x", 1000))))
	}
	require.NoError(t, db.eng.Flush())
	require.NoError(t, f.Apply(background, mutation("in the log", "1")))
	require.NoError(t, db.Close())

	one := func(t *testing.T, dir, pattern string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, names, pattern)
		return names[len(names)-1]
	}
	remove := func(pattern string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Remove(one(t, dir, pattern))) }
	}
	cut := func(pattern string, size int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Truncate(one(t, dir, pattern), size)) }
	}
	overwrite := func(pattern, with string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(one(t, dir, pattern), []byte(with), 0o600))
		}
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, string)
		is     error
		says   string
	}{
		"table missing":       {remove("*.sst"), driver.ErrCorrupt, "does not exist"},
		"table cut":           {cut("*.sst", 100), driver.ErrCorrupt, "size mismatch"},
		"manifest missing":    {remove("MANIFEST-*"), driver.ErrCorrupt, "MANIFEST-000001 is missing"},
		"manifest cut":        {cut("MANIFEST-*", 20), driver.ErrCorrupt, "has 20 bytes, and had"},
		"manifest empty":      {cut("MANIFEST-*", 0), driver.ErrCorrupt, "has 0 bytes, and had"},
		"manifest of another": {overwrite("MANIFEST-*", "hello"), driver.ErrCorrupt, "has 5 bytes, and had"},
		"name of manifest":    {remove("marker.manifest.*"), driver.ErrCorrupt, "no file marker.manifest"},
		"all but the format": {func(t *testing.T, dir string) {
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, f := range files {
				if f.Name() != formatName {
					require.NoError(t, os.Remove(filepath.Join(dir, f.Name())))
				}
			}
		}, driver.ErrCorrupt, "which a store has from its beginning"},
		"version of engine":       {remove("marker.format-version.*"), driver.ErrCorrupt, ""},
		"options":                 {overwrite("OPTIONS-*", "hello"), driver.ErrCorrupt, "syntax"},
		"format of another":       {overwrite(formatName, "hello"), driver.ErrCorrupt, formatName},
		"format empty":            {overwrite(formatName, ""), driver.ErrLayout, "restore it from a backup"},
		"format missing":          {remove(formatName), driver.ErrCorrupt, "no file " + formatName + "; restore that file, as it was last, or the directory from a backup"},
		"format of a later time":  {overwrite(formatName, "rangecrypt pebble store, format 9\n"), driver.ErrLayout, "use a newer version"},
		"open in another process": {func(t *testing.T, dir string) { db := mustOpen(t, dir, nil); t.Cleanup(func() { _ = db.Close() }) }, driver.ErrLocked, "close the other one first"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			c.damage(t, dir)
			before := names(t, dir)
			for range 2 { // and does not keep the lock
				_, err := Open(dir, nil)
				require.ErrorIs(t, err, c.is)
				require.ErrorContains(t, err, c.says)
				require.NotContains(t, err.Error(), "\n")
				require.Equal(t, 1, strings.Count(err.Error(), "pebble: "), err)
			}
			if !errors.Is(c.is, driver.ErrLocked) { // who has it open goes on, and deletes what it need not keep
				require.Equal(t, before, names(t, dir))
			}
		})
	}
}

// names returns those of the files with data in a directory.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".sst") || strings.HasSuffix(f.Name(), ".log") || strings.HasPrefix(f.Name(), "MANIFEST") {
			names = append(names, f.Name())
		}
	}
	return names
}

// A block that is damaged is an error of every read that meets it, conditions included, and of no other:
// a cell that cannot be read does not count as absent.
func TestDamagedBlock(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	f := mustFamily(t, db)
	random := rand.NewChaCha8([32]byte{})
	var cells []driver.Cell
	for i := range 40 {
		value := make([]byte, blockBytes) // a block for each
		random.Read(value)
		cells = append(cells, driver.Cell{Qualifier: fmt.Appendf(nil, "q%02d", i), Value: value})
	}
	row := []byte("row")
	require.NoError(t, f.Apply(background, driver.Mutation{Row: row, Puts: cells}))
	require.NoError(t, db.eng.Flush())
	require.NoError(t, db.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	damaged := 0
	for _, name := range tables {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		if at := bytes.Index(content, cells[20].Value[100:200]); at >= 0 {
			content[at] ^= 1
			require.NoError(t, os.WriteFile(name, content, 0o600))
			damaged++
		}
	}
	require.Equal(t, 1, damaged)

	db = mustOpen(t, dir, nil)
	f = mustFamily(t, db)
	for i, c := range cells {
		_, err := f.Get(background, row, driver.Slice{Only: [][]byte{c.Qualifier}})
		expect := slices.Clone(cells)
		expect[i].Value = nil // it is not
		ok, condition := f.Commit(background, row, expect, []driver.Cell{{Qualifier: []byte("other")}}, nil)
		require.False(t, ok, i)
		if i == 20 {
			require.ErrorIs(t, err, driver.ErrCorrupt)
			require.ErrorIs(t, condition, driver.ErrCorrupt)
			continue
		}
		require.NoError(t, err)
		if i < 20 {
			require.NoError(t, condition)
		}
	}
	for _, err := range f.Scan(background, driver.Range{}) {
		require.ErrorIs(t, err, driver.ErrCorrupt)
	}
	require.ErrorIs(t, f.Apply(background, driver.Mutation{Row: row, DeleteRow: true}), driver.ErrCorrupt)
	copied := filepath.Join(t.TempDir(), "copy")
	require.ErrorIs(t, db.Backup(background, copied), driver.ErrCorrupt)
	require.NoDirExists(t, copied)
	require.NoError(t, f.Apply(background, mutation("another", "1")))
	require.NoError(t, db.Close())
}
