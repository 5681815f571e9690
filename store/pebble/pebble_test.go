package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cockroach "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

func TestOpenNeedsADirectory(t *testing.T) {
	_, err := Open("", nil)
	require.EqualError(t, err, "pebble: no directory given")
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		return
	}
	// An engine that fails to open leaves this one running. TestDriver looks for it where nothing
	// fails.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter"))
}

// childEnv names the directory in which a process that a test has started runs child, which is
// set where there are such tests.
const childEnv = "RANGECRYPT_PEBBLE_TEST_CHILD"

var child func(dir string)

var background = context.Background()

func mustOpen(tb testing.TB, dir string, o *Options) *DB {
	tb.Helper()
	db, err := Open(dir, o)
	require.NoError(tb, err)
	return db
}

var orderedSpec = driver.FamilySpec{Name: "ordered", Layout: driver.LayoutOrdered}

func mustFamily(tb testing.TB, db driver.DB) driver.Committer {
	tb.Helper()
	f, err := db.Family(background, orderedSpec)
	require.NoError(tb, err)
	return f.(driver.Committer)
}

func mutation(key, value string) driver.Mutation {
	return driver.Mutation{Row: []byte(key), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte(value)}}}
}

func value(tb testing.TB, f driver.Family, key string) string {
	tb.Helper()
	cells, err := f.Get(background, []byte(key), driver.Slice{Only: [][]byte{[]byte("q")}})
	require.NoError(tb, err)
	if len(cells) == 0 {
		return ""
	}
	return string(cells[0].Value)
}

func TestDriver(t *testing.T) {
	dir := t.TempDir()
	open := func(tb testing.TB) driver.DB { return mustOpen(tb, dir, nil) }
	drivertest.TestDriver(t, open, &drivertest.Options{
		Reopen: func(tb testing.TB, db driver.DB) driver.DB {
			require.NoError(tb, db.Close())
			return open(tb)
		},
	})
}

func BenchmarkPebble(b *testing.B) {
	drivertest.Benchmark(b, func(tb testing.TB) driver.DB { return mustOpen(tb, b.TempDir(), nil) })
}

func TestDamagedEntriesAreErrors(t *testing.T) {
	db := mustOpen(t, t.TempDir(), nil)
	defer db.Close()
	f := mustFamily(t, db)
	require.NoError(t, f.Apply(background, mutation("a", "1")))
	key := append(layout.AppendRow(nil, f.(*family).entry.id, []byte("a")), 'x')
	require.NoError(t, db.eng.Set(key, []byte{9}, cockroach.Sync))
	_, err := f.Get(background, []byte("a"), driver.Slice{})
	require.ErrorIs(t, err, layout.ErrValue)
	_, err = f.CheckAndPut(background, []byte("a"), driver.Cell{Qualifier: []byte("x")})
	require.ErrorIs(t, err, layout.ErrValue)
	require.NoError(t, db.eng.Set(layout.AppendFamily(nil, f.(*family).entry.id), []byte{0}, cockroach.Sync))
	for _, err = range f.Scan(background, driver.Range{}) {
	}
	require.ErrorIs(t, err, layout.ErrKey)
}

// Time.

func TestExpiryIsExact(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	db := mustOpen(t, t.TempDir(), &Options{Now: func() time.Time { return now }})
	defer db.Close()
	f := mustFamily(t, db)
	for _, c := range []struct {
		ttl   time.Duration
		nanos int
		want  int64 // seconds after 1,000,000
	}{
		{time.Second, 0, 1}, {1, 0, 1}, {time.Second + 1, 0, 2}, {1500 * time.Millisecond, 0, 2},
		{time.Second, 1, 2}, {time.Second, 999_999_999, 2}, {time.Hour, 0, 3600}, {math.MaxInt64, 0, 9223372037},
	} {
		now = time.Unix(1_000_000, int64(c.nanos))
		m := mutation("a", "1")
		m.Puts[0].TTL = c.ttl
		require.NoError(t, f.Apply(background, m))
		now = time.Unix(1_000_000+c.want, -1)
		require.Equal(t, "1", value(t, f, "a"), "%+v", c)
		snap, err := db.Snapshot()
		require.NoError(t, err)
		now = time.Unix(1_000_000+c.want, 0)
		require.Empty(t, value(t, f, "a"), "%+v", c)
		for range f.Scan(background, driver.Range{}) {
			require.Fail(t, "a row without a live cell")
		}
		view, err := snap.Family(background, orderedSpec)
		require.NoError(t, err)
		require.Equal(t, "1", value(t, view, "a"), "a snapshot stays at its instant")
		require.NoError(t, snap.Close())

		// To a condition it is absent.
		ok, err := f.CheckAndPut(background, []byte("a"), driver.Cell{Qualifier: []byte("q"), Value: []byte("1")})
		require.NoError(t, err)
		require.False(t, ok)
		ok, err = f.CheckAndPut(background, []byte("a"), driver.Cell{Qualifier: []byte("q")}, driver.Cell{Qualifier: []byte("q"), Value: []byte("2")})
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "2", value(t, f, "a"))
	}
}

// Opening.

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, mustOpen(t, dir, nil).Close())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// TestNoDatabaseInTheDirectoryOfAnother: whoever removes that one would remove both.
func TestNoDatabaseInTheDirectoryOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := mustOpen(t, dir, nil)
	before := names(t, dir)
	made := filepath.Join(t.TempDir(), "made")
	require.NoError(t, os.Mkdir(made, 0o700))
	inner := []string{filepath.Join(dir, "new"), filepath.Join(dir, "some", "where", "new")}
	if link := filepath.Join(t.TempDir(), "link"); os.Symlink(dir, link) == nil {
		inner = append(inner, filepath.Join(link, "new"))
	}
	for _, name := range inner {
		_, err := Open(name, nil)
		require.ErrorIs(t, err, driver.ErrLayout, name)
		require.ErrorContains(t, err, "in the directory of another one")
	}
	require.Equal(t, before, names(t, dir))
	require.NoError(t, db.Close())

	// One that is there already goes on. An older version made it.
	require.NoError(t, mustOpen(t, made, nil).Close())
	require.NoError(t, os.Rename(made, filepath.Join(dir, "made")))
	require.NoError(t, mustOpen(t, filepath.Join(dir, "made"), nil).Close())
}

func TestOpenMakesNothingThatMustExist(t *testing.T) {
	parent := t.TempDir()
	for _, dir := range []string{parent, filepath.Join(parent, "none")} {
		_, err := Open(dir, &Options{MustExist: true})
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NotErrorIs(t, err, driver.ErrCorrupt)
		left, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.NoError(t, mustOpen(t, parent, nil).Close())
	require.NoError(t, mustOpen(t, parent, &Options{MustExist: true}).Close())
}

func TestOpenLocked(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	_, err := Open(dir, nil)
	require.ErrorIs(t, err, driver.ErrLocked)
	require.NoError(t, db.Close())
	require.NoError(t, mustOpen(t, dir, nil).Close())
}

func TestOpenWhereNothingCanBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := Open(dir, nil)
		require.Error(t, err)
		require.NotErrorIs(t, err, driver.ErrLocked)
		require.Contains(t, err.Error(), dir)
	}
	if os.Getuid() != 0 { // root may write everywhere
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o500))
		_, err := Open(dir, nil)
		require.ErrorIs(t, err, os.ErrPermission)
		require.NotErrorIs(t, err, driver.ErrLocked)
	}
	_, err := Open(t.TempDir(), &Options{CacheBytes: -1})
	require.ErrorContains(t, err, "CacheBytes")
}

func TestOpenLeavesWhatIsForeign(t *testing.T) {
	listing := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			content, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			names = append(names, e.Name()+"="+string(content))
		}
		return names
	}
	refused := func(dir, text string) {
		t.Helper()
		before := listing(dir)
		_, err := Open(dir, nil)
		require.ErrorIs(t, err, driver.ErrLayout)
		require.ErrorContains(t, err, text)
		require.Equal(t, before, listing(dir))
	}

	other := t.TempDir()
	eng, err := cockroach.Open(other, &cockroach.Options{Logger: quiet{}})
	require.NoError(t, err)
	require.NoError(t, eng.Set([]byte("a"), []byte("b"), cockroach.Sync))
	require.NoError(t, eng.Close())
	refused(other, "not empty")

	documents := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(documents, "letter.txt"), []byte("dear"), 0o600))
	refused(documents, "not empty")

	newer := t.TempDir()
	require.NoError(t, mustOpen(t, newer, nil).Close())
	require.NoError(t, os.WriteFile(filepath.Join(newer, formatName), []byte("rangecrypt pebble store, format 4\n"), 0o600))
	refused(newer, "format 4")
	require.NoError(t, os.WriteFile(filepath.Join(newer, formatName), []byte("rangecry"), 0o600))
	refused(newer, "damaged")

	// An attempt that died at once may be repeated.
	half := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(half, formatName+".tmp"), []byte("rang"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(half, "LOCK"), nil, 0o600))
	require.NoError(t, mustOpen(t, half, nil).Close())

	// So may one that died when the engine had written its files, which hold no data yet.
	require.NoError(t, os.Rename(filepath.Join(half, formatName), filepath.Join(half, unfinished)))
	require.NoError(t, mustOpen(t, half, nil).Close())
	require.FileExists(t, filepath.Join(half, formatName))
	require.NoFileExists(t, filepath.Join(half, unfinished))
	require.NoError(t, os.Rename(filepath.Join(half, formatName), filepath.Join(half, unfinished)))
	require.NoError(t, os.WriteFile(filepath.Join(half, unfinished), []byte("rang"), 0o600))
	refused(half, "damaged")

	// Nor is what says so removed to be written again: a process that is killed then would leave files that are nobody's.
	again := t.TempDir()
	require.NoError(t, mustOpen(t, again, nil).Close())
	require.NoError(t, os.Remove(filepath.Join(again, formatName)))
	require.NoError(t, os.WriteFile(filepath.Join(again, unfinished), []byte(noted{}.text()), 0o600))
	_, err = Open(again, &Options{FS: &dying{FS: vfs.Default, at: unfinished}})
	require.ErrorIs(t, err, errDied)
	require.NoError(t, mustOpen(t, again, nil).Close())

	// Where the directory was there before, it stays when it cannot be opened.
	full := vfs.NewMem()
	require.NoError(t, full.MkdirAll("db", 0o700))
	disk := &fullDisk{}
	disk.left.Store(8)
	_, err = Open("db", &Options{FS: errorfs.Wrap(full, disk)})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	_, err = full.Stat("db")
	require.NoError(t, err)
	require.NoError(t, mustOpen(t, "db", &Options{FS: full}).Close())
}

func TestOpenRefusesNewerFamilies(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	mustFamily(t, db)
	spec := layout.EncodeSpec(1, orderedSpec)
	spec[0] = layout.DirectoryVersion + 1
	require.NoError(t, db.eng.Set(layout.DirectoryKey(orderedSpec.Name), spec, cockroach.Sync))
	require.NoError(t, db.Close())
	for range 2 { // and does not keep the lock
		_, err := Open(dir, nil)
		require.ErrorIs(t, err, driver.ErrLayout)
	}
}

// A file, such as a master key, is no store, and the error says what one is.
func TestOpenRefusesFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.key")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	for _, exists := range []bool{false, true} {
		_, err := Open(file, &Options{MustExist: exists})
		require.ErrorIs(t, err, driver.ErrLayout)
		require.ErrorContains(t, err, "it is no directory; name one, or a new one")
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "kept", string(kept))
	}
}

func TestOpenRefusesNewerEngines(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mustOpen(t, dir, nil).Close())
	markers, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	require.NoError(t, err)
	require.NotEmpty(t, markers)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "marker.format-version.999999.999"), nil, 0o600))
	_, err = Open(dir, nil)
	require.ErrorIs(t, err, driver.ErrLayout)
}

func TestIDsAreNotGivenTwice(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	var ids []uint32
	for i := range 6 {
		f := mustFamily(t, db)
		require.Empty(t, value(t, f, "a"), "a row of a dropped family came back")
		require.NoError(t, f.Apply(background, mutation("a", "1")))
		ids = append(ids, f.(*family).entry.id)
		require.NoError(t, db.Drop(background, orderedSpec.Name))
		if i%2 == 1 {
			require.NoError(t, db.Close())
			db = mustOpen(t, dir, nil)
		}
	}
	require.NoError(t, db.Close())
	require.Equal(t, []uint32{1, 2, 3, 4, 5, 6}, ids)
}

// Closing.

func TestAfterClose(t *testing.T) {
	db := mustOpen(t, t.TempDir(), nil)
	f := mustFamily(t, db)
	require.NoError(t, f.Apply(background, mutation("a", "1")))
	snap, err := db.Snapshot()
	require.NoError(t, err)
	view, err := snap.Family(background, orderedSpec)
	require.NoError(t, err)
	var inScan error
	for _, inScan = range f.Scan(background, driver.Range{}) {
		require.NoError(t, db.Close(), "a scan that waits for its caller does not hold Close up")
	}
	require.NoError(t, inScan)
	for _, f := range []driver.Committer{f, view.(driver.Committer)} {
		_, err := f.Get(background, []byte("a"), driver.Slice{})
		require.ErrorIs(t, err, errClosed)
		for _, err = range f.Scan(background, driver.Range{}) {
		}
		require.ErrorIs(t, err, errClosed)
		require.Error(t, f.Apply(background, mutation("a", "1")))
		_, err = f.CheckAndPut(background, []byte("a"), driver.Cell{})
		require.Error(t, err)
	}
	_, err = db.Family(background, orderedSpec)
	require.ErrorIs(t, err, errClosed)
	_, err = db.Family(background, driver.FamilySpec{Name: "new", Layout: driver.LayoutWide})
	require.ErrorIs(t, err, errClosed)
	_, err = db.Families(background)
	require.ErrorIs(t, err, errClosed)
	require.ErrorIs(t, db.Drop(background, orderedSpec.Name), errClosed)
	_, err = db.Snapshot()
	require.ErrorIs(t, err, errClosed)
	require.ErrorIs(t, db.Close(), errClosed)
	require.NoError(t, snap.Close())
	_, err = view.Get(background, []byte("a"), driver.Slice{})
	require.ErrorIs(t, err, errClosed)
}

func TestSnapshotAfterItsClose(t *testing.T) {
	db := mustOpen(t, t.TempDir(), nil)
	defer db.Close()
	mustFamily(t, db)
	snap, err := db.Snapshot()
	require.NoError(t, err)
	view, err := snap.Family(background, orderedSpec)
	require.NoError(t, err)
	require.NoError(t, snap.Close())
	_, err = view.Get(background, []byte("a"), driver.Slice{})
	require.ErrorIs(t, err, errSnapshotClosed)
	require.ErrorIs(t, snap.Close(), errSnapshotClosed)
}

// What is called while Close runs is done and acknowledged, or refused.
func TestCloseUnderLoad(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	f := mustFamily(t, db)
	const writers = 8
	var acknowledged [writers]int
	done := make(chan struct{}, writers)
	for w := range writers {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := 0; ; i++ {
				if err := f.Apply(background, mutation(fmt.Sprintf("%d/%d", w, i), "1")); err != nil {
					if !errors.Is(err, errClosed) {
						t.Error(err)
					}
					return
				}
				acknowledged[w] = i + 1
			}
		}()
	}
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, db.Close())
	for range writers {
		<-done
	}
	db = mustOpen(t, dir, nil)
	defer db.Close()
	f = mustFamily(t, db)
	total := 0
	for w, n := range acknowledged {
		total += n
		for i := range n {
			require.Equal(t, "1", value(t, f, fmt.Sprintf("%d/%d", w, i)))
		}
		require.Empty(t, value(t, f, fmt.Sprintf("%d/%d", w, n)), "a refused write was made")
	}
	require.NotZero(t, total)
}

// Data that no longer fits in memory is flushed, compacted and read from tables.
func TestBeyondMemory(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, &Options{CacheBytes: 1 << 20})
	f := mustFamily(t, db)
	const n, batch = 30_000, 2000
	payload := bytes.Repeat([]byte{7}, 1000)
	for i := 0; i < n; i += batch {
		ms := make([]driver.Mutation, batch)
		for j := range ms {
			k := (i + j) * 7919 % n
			ms[j] = driver.Mutation{Row: fmt.Appendf(nil, "%08d", k), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: append(fmt.Appendf(nil, "%d:", k), payload...)}}}
		}
		require.NoError(t, f.Apply(background, ms...))
	}
	require.NotZero(t, db.eng.Metrics().Flush.Count)
	check := func() {
		i := 0
		for row, err := range f.Scan(background, driver.Range{}) {
			require.NoError(t, err)
			if string(row.Key) != fmt.Sprintf("%08d", i) || !slices.Equal(row.Cells[0].Value, append(fmt.Appendf(nil, "%d:", i), payload...)) {
				require.Fail(t, "wrong row", "%d: %s", i, row.Key)
			}
			i++
		}
		require.Equal(t, n, i)
	}
	check()
	require.NoError(t, db.Close())
	db = mustOpen(t, dir, nil)
	f = mustFamily(t, db)
	check()
	require.NoError(t, db.Close())
}

// A cell that is written again and again does not make its row slower to read.
func TestManyVersions(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer db.Close()
	f := mustFamily(t, db)
	const writes = 5 * manyVersions
	var mutations []driver.Mutation
	for i := range 8 {
		mutations = append(mutations, mutation(fmt.Sprint("row", i), "1"))
	}
	worst := 0
	for i := range writes / len(mutations) {
		require.NoError(t, f.Apply(background, mutations...))
		if i%64 == 0 {
			// What the fence of a read would step over: the versions in the engine.
			it, err := db.eng.NewIter(nil)
			require.NoError(t, err)
			for valid := it.First(); valid; valid = it.Next() {
			}
			s := it.Stats()
			require.NoError(t, it.Close())
			worst = max(worst, s.ForwardStepCount[cockroach.InternalIterCall])
			n := 0
			for _, err := range f.Scan(background, driver.Range{}) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, len(mutations), n)
		}
	}
	require.Greater(t, worst, manyVersions, "the test writes too little")
	require.Less(t, worst, writes*3/4, "no flush was made")
	require.NotZero(t, db.eng.Metrics().Flush.Count)
}

var _ vfs.FS = (*fence)(nil)
var _ interface {
	driver.Snapshotter
	driver.Describer
} = (*DB)(nil)
var _ driver.Committer = (*family)(nil)

// dying is a file system that makes a file as the engine's does, which removes one that is there first, and dies before it is
// made.
type dying struct {
	vfs.FS
	at string // how the name of the file begins
}

var errDied = errors.New("died")

func (d *dying) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(filepath.Base(name), d.at) {
		return nil, errors.Join(errDied, d.FS.RemoveAll(name))
	}
	return d.FS.Create(name, c)
}
