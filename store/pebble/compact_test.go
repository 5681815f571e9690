package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// forgettable returns a database with two families of rows whose values have been replaced or deleted, or are of a family that
// was dropped, and what each of those values has.
func forgettable(t *testing.T, dir string, o *Options) (db *DB, kept driver.Family, old string) {
	t.Helper()
	ctx, old := context.Background(), "SECRET-VALUE"
	db, err := Open(dir, o)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	put := func(f driver.Family, marker string) {
		var ms []driver.Mutation
		for i := range 3000 {
			value := binary.BigEndian.AppendUint64([]byte(marker), random.Uint64()) // no block of the disk is a copy of another
			ms = append(ms, driver.Mutation{Row: fmt.Appendf(nil, "%05d", i), Puts: []driver.Cell{{Value: value}}})
		}
		require.NoError(t, f.Apply(ctx, ms...))
	}
	family := func(name string) driver.Family {
		f, err := db.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered})
		require.NoError(t, err)
		put(f, old)
		return f
	}
	kept = family("kept")
	deleted := family("deleted")
	family("dropped")
	require.NoError(t, db.fence.flush(db.eng))
	put(kept, "new")
	for i := range 3000 {
		require.NoError(t, deleted.Apply(ctx, driver.Mutation{Row: fmt.Appendf(nil, "%05d", i), DeleteRow: true}))
	}
	require.NoError(t, db.Drop(ctx, "dropped"))
	return db, kept, old
}

// holders returns the files with an ending that have a text in them.
func holders(t *testing.T, dir, ending, text string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, file := range all {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the engine has removed it
		}
		require.NoError(t, err)
		if bytes.Contains(b, []byte(text)) {
			files = append(files, filepath.Base(file))
		}
	}
	return files
}

func TestCompact(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	db, kept, old := forgettable(t, dir, nil)
	require.NotEmpty(t, holders(t, dir, ".sst", old), "without a compaction, tables have old values")
	require.NoError(t, db.Compact(ctx))
	require.NoError(t, kept.Apply(ctx, driver.Mutation{Row: []byte("later"), Puts: []driver.Cell{{Value: []byte("v")}}}))
	require.NoError(t, db.Close())
	require.Empty(t, holders(t, dir, ".sst", old))
	require.NotEmpty(t, holders(t, dir, ".sst", "new"))
	require.ErrorIs(t, db.Compact(ctx), driver.ErrClosed)

	db, err := Open(dir, nil)
	require.NoError(t, err)
	f, err := db.Family(ctx, driver.FamilySpec{Name: "kept", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	n := 0
	for row, err := range f.Scan(ctx, driver.Range{}) {
		require.NoError(t, err)
		require.True(t, string(row.Key) == "later" || bytes.HasPrefix(row.Cells[0].Value, []byte("new")))
		n++
	}
	require.Equal(t, 3001, n)
	require.NoError(t, db.Close()) // waits until the logs from before are removed
	require.Empty(t, holders(t, dir, "", old), "nor has any other file, once the database was opened again")
}

// Writes and reads of others, ends of contexts and Close come between compactions.
func TestCompactBesideOthers(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	db, kept, _ := forgettable(t, dir, nil)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, db.Compact(ended), context.Canceled)
	var all sync.WaitGroup
	var acknowledged [4]int
	for w := range acknowledged {
		all.Go(func() {
			for n := 0; ; n++ {
				row := fmt.Appendf(nil, "w%d-%06d", w, n)
				if err := kept.Apply(ctx, driver.Mutation{Row: row, Puts: []driver.Cell{{Value: row}}}); err != nil {
					require.ErrorIs(t, err, driver.ErrClosed)
					return
				}
				acknowledged[w] = n + 1
				if _, err := kept.Get(ctx, row, driver.Slice{}); err != nil {
					require.ErrorIs(t, err, driver.ErrClosed)
					return
				}
			}
		})
	}
	for i := range 20 {
		of, cancel := context.WithCancel(ctx)
		if i%2 == 1 {
			all.Go(cancel)
		}
		if err := db.Compact(of); i%2 == 0 {
			require.NoError(t, err)
		} else if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
	}
	for range 3 {
		all.Go(func() {
			if err := db.Compact(ctx); err != nil {
				require.ErrorIs(t, err, driver.ErrClosed)
			}
		})
	}
	require.NoError(t, db.Close())
	all.Wait()

	db, err := Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	f, err := db.Family(ctx, driver.FamilySpec{Name: "kept", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	for w, n := range acknowledged {
		require.Positive(t, n)
		for i := range n {
			row := fmt.Appendf(nil, "w%d-%06d", w, i)
			cells, err := f.Get(ctx, row, driver.Slice{})
			require.NoError(t, err)
			require.Len(t, cells, 1, "%s is lost", row)
		}
	}
}

// A disk that fills up while tables are written anew stops the database, and nothing else.
func TestNoSpaceLeftForCompaction(t *testing.T) {
	for _, left := range []int64{0, 1, 2, 5, 9, 14} {
		mem := vfs.NewCrashableMem()
		disk := &fullDisk{only: ".sst"}
		disk.left.Store(1 << 40)
		db, _, _ := forgettable(t, "db", &Options{FS: errorfs.Wrap(mem, disk)})
		disk.left.Store(left)
		err := db.Compact(context.Background())
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.True(t, strings.Contains(err.Error(), "mend the cause"), err)
		_ = db.Close()

		db, err = Open("db", &Options{FS: mem})
		require.NoError(t, err)
		require.NoError(t, db.Compact(context.Background()))
		f, err := db.Family(context.Background(), driver.FamilySpec{Name: "kept", Layout: driver.LayoutOrdered})
		require.NoError(t, err)
		cells, err := f.Get(context.Background(), []byte("02999"), driver.Slice{})
		require.NoError(t, err)
		require.Len(t, cells, 1)
		require.NoError(t, db.Close())
	}
}

// held is a file system that makes no tables while it is locked.
type held struct {
	sync.RWMutex
	waits atomic.Bool // somebody makes one
}

func (h *held) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
		h.waits.Store(true)
		h.RLock()
		defer h.RUnlock()
	}
	return nil
}

func (h *held) String() string { return "held" }

// What waits for a compaction ends with its context, and then is not done.
func TestWaitingForACompaction(t *testing.T) {
	ctx, disk := context.Background(), new(held)
	db, _, _ := forgettable(t, "db", &Options{FS: errorfs.Wrap(vfs.NewMem(), disk)})
	spec := driver.FamilySpec{Name: "later", Layout: driver.LayoutOrdered}
	disk.Lock()
	disk.waits.Store(false)
	first := make(chan error, 1)
	go func() { first <- db.Compact(ctx) }()
	require.Eventually(t, disk.waits.Load, 30*time.Second, time.Millisecond)
	ended := make(chan error)
	for name, call := range map[string]func(context.Context) error{
		"compact": db.Compact,
		"make":    func(ctx context.Context) error { _, err := db.Family(ctx, spec); return err },
		"drop":    func(ctx context.Context) error { return db.Drop(ctx, "kept") },
	} {
		soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		go func() { ended <- call(soon) }()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s waits longer than its context lives", name)
		}
		cancel()
	}
	disk.Unlock()
	require.NoError(t, <-first)
	names, err := db.Families(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"deleted", "kept"}, names)
	_, err = db.Family(ctx, spec)
	require.NoError(t, err)
	require.NoError(t, db.Drop(ctx, "kept"))
	require.NoError(t, db.Close())
}
