package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// lists is a file system that keeps what is left when the process is killed, or the power fails, before each
// change of a file that lists others.
type lists struct {
	mem  *vfs.MemFS
	rows atomic.Int64 // that were acknowledged

	mu      sync.Mutex
	moments []moment
}

type moment struct {
	killed, powerless *vfs.MemFS
	rows              int
	op                string
}

func (l *lists) String() string { return "lists" }

func (l *lists) MaybeError(op errorfs.Op) error {
	base := filepath.Base(op.Path)
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && (ofEngine(base) && !strings.HasSuffix(base, ".sst") || strings.HasPrefix(base, formatName)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.moments = append(l.moments, moment{asItIs(l.mem), l.mem.CrashClone(vfs.CrashCloneCfg{}), int(l.rows.Load()), fmt.Sprint(op.Kind, " ", base)})
	}
	return nil
}

func asItIs(mem *vfs.MemFS) *vfs.MemFS {
	return mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

// listed runs some sessions, whose tables come and go, and returns what is left of each moment, and at the end.
func listed(t *testing.T) (closed *vfs.MemFS, moments []moment) {
	t.Helper()
	l := &lists{mem: vfs.NewCrashableMem()}
	fs := errorfs.Wrap(l.mem, l)
	for session := range 3 {
		db := mustOpen(t, "db", &Options{FS: fs})
		f := mustFamily(t, db)
		for i := range 4 {
			require.NoError(t, f.Apply(background, mutation(fmt.Sprintf("row%d%d", session, i), "value")))
			l.rows.Add(1)
			if i%2 == 1 {
				require.NoError(t, db.eng.Flush())
			}
		}
		if session == 1 {
			require.NoError(t, db.eng.Compact(background, []byte{0}, []byte{255}, false))
		}
		require.NoError(t, db.Close())
	}
	return l.mem, l.moments
}

// noticed opens a directory, and reports whether its damage is noticed. Otherwise the rows must be there.
func noticed(t *testing.T, mem *vfs.MemFS, rows int, msg ...any) bool {
	t.Helper()
	before := contents(t, mem)
	db, err := Open("db", &Options{FS: mem})
	if err != nil {
		require.ErrorIs(t, err, driver.ErrCorrupt, msg...)
		require.Equal(t, before, contents(t, mem), msg...)
		return true
	}
	if rows > 0 {
		n := countLogRows(t, mustFamily(t, db))
		require.GreaterOrEqual(t, n, rows, msg...)
		require.LessOrEqual(t, n, rows+1, msg...)
	}
	require.NoError(t, db.Close(), msg...)
	return false
}

func contents(t *testing.T, mem *vfs.MemFS) (files []string) {
	t.Helper()
	names, err := mem.List("db")
	if err != nil {
		return nil
	}
	for _, name := range names {
		if name != "LOCK" {
			files = append(files, name+"="+string(fileOf(t, mem, name)))
		}
	}
	slices.Sort(files)
	return files
}

func fileOf(t *testing.T, mem *vfs.MemFS, name string) []byte {
	t.Helper()
	f, err := mem.Open("db/" + name)
	require.NoError(t, err)
	content, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return content
}

func setFile(t *testing.T, mem *vfs.MemFS, name string, content []byte) {
	t.Helper()
	f, err := mem.Create("db/"+name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(bytes.Clone(content)) // a file may change what it is given
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func manifestOf(t *testing.T, mem *vfs.MemFS) string {
	t.Helper()
	name, err := atomicfs.ReadMarker(mem, "db", manifestMarker)
	require.NoError(t, err)
	return name
}

// damages calls do with a copy of the directory for each byte of a file from an offset on: with that byte
// changed, by one bit or by all, and with the file cut there.
func damages(t *testing.T, mem *vfs.MemFS, name string, from int, do func(mem *vfs.MemFS, msg string)) {
	t.Helper()
	whole := fileOf(t, mem, name)
	require.Less(t, from, len(whole))
	for at := from; at < len(whole); at++ {
		for _, mask := range []byte{1, 2, 4, 8, 16, 32, 64, 128, 255} {
			content := bytes.Clone(whole)
			content[at] ^= mask
			changed := asItIs(mem)
			setFile(t, changed, name, content)
			do(changed, fmt.Sprintf("%s: byte %d changed by %08b", name, at, mask))
		}
		changed := asItIs(mem)
		setFile(t, changed, name, whole[:at])
		do(changed, fmt.Sprintf("%s: cut to %d bytes", name, at))
	}
}

// A manifest that was changed or cut in a directory that was closed is refused, and the directory left as it is.
func TestDamagedManifest(t *testing.T) {
	closed, _ := listed(t)
	require.False(t, noticed(t, asItIs(closed), 12))
	name := manifestOf(t, closed)
	damages(t, closed, name, 0, func(mem *vfs.MemFS, msg string) { require.True(t, noticed(t, mem, 12, msg), msg) })
	for _, more := range []string{"\x00", "x", strings.Repeat("\x00", 100), string(fileOf(t, closed, name))} {
		mem := asItIs(closed)
		setFile(t, mem, name, append(fileOf(t, closed, name), more...))
		noticed(t, mem, 12, more)
	}
}

// The file RANGECRYPT itself, changed or cut, is refused or does no harm.
func TestDamagedRecord(t *testing.T) {
	closed, _ := listed(t)
	refused := 0
	damages(t, closed, formatName, 0, func(mem *vfs.MemFS, msg string) {
		before := contents(t, mem)
		db, err := Open("db", &Options{FS: mem})
		if err == nil {
			require.Equal(t, 12, countLogRows(t, mustFamily(t, db)), msg)
			require.NoError(t, db.Close())
			return
		}
		require.True(t, errors.Is(err, driver.ErrCorrupt) || errors.Is(err, driver.ErrLayout), "%s: %v", msg, err)
		require.Equal(t, before, contents(t, mem), msg)
		refused++
	})
	require.Greater(t, refused, 9*len(fileOf(t, closed, formatName)))
}

// Files of different times are refused: they do not fit.
func TestFilesOfAnotherTime(t *testing.T) {
	closed, moments := listed(t)
	older := moments[slices.IndexFunc(moments, func(m moment) bool { return m.rows == 6 })].killed
	require.NotEqual(t, manifestOf(t, closed), manifestOf(t, older))

	mem := asItIs(closed)
	setFile(t, mem, formatName, fileOf(t, older, formatName))
	require.True(t, noticed(t, mem, 12))

	mem = asItIs(closed)
	names, err := mem.List("db")
	require.NoError(t, err)
	for _, name := range names {
		if ofEngine(name) && !strings.HasSuffix(name, ".sst") {
			require.NoError(t, mem.Remove("db/"+name))
		}
	}
	setFile(t, mem, manifestOf(t, older), fileOf(t, older, manifestOf(t, older)))
	setFile(t, mem, "marker.manifest.000009."+manifestOf(t, older), nil)
	require.True(t, noticed(t, mem, 12))
}

// Wherever the process is killed or the power fails, the directory can be opened and has what was acknowledged.
func TestKilledBetweenLists(t *testing.T) {
	_, moments := listed(t)
	ops := make(map[string]int)
	for i, m := range moments {
		for name, mem := range map[string]*vfs.MemFS{"killed": m.killed, "powerless": m.powerless} {
			for range 2 { // and closed, and opened again
				require.False(t, noticed(t, mem, m.rows, "%s before %s, %d of %d", name, m.op, i, len(moments)))
			}
		}
		kind, _, _ := strings.Cut(m.op, "-")
		ops[kind]++
	}
	t.Log(ops)
	require.Greater(t, len(moments), 100)
}

// begun is a directory that was left by a process that was killed.
type begun struct {
	moment
	manifest   string
	known, has int // how long it is
}

// manifestsOf returns what was noted of the manifests that were in use, and what they are.
func manifestsOf(t *testing.T, moments []moment) (all []begun) {
	t.Helper()
	for _, m := range moments {
		record, err := readFormat(m.killed, "db")
		if err != nil || record == nil || len(record.manifests) == 0 {
			continue
		}
		b := begun{moment: m, manifest: manifestOf(t, m.killed)}
		i := slices.IndexFunc(record.manifests, func(m manifest) bool { return m.name == b.manifest })
		require.GreaterOrEqual(t, i, 0, m.op)
		b.known, b.has = int(record.manifests[i].length), len(fileOf(t, m.killed, b.manifest))
		require.GreaterOrEqual(t, b.has, b.known)
		all = append(all, b)
	}
	return all
}

// After a kill, too, damage of the manifest is refused, or what it hides is in the logs and tables still.
func TestDamagedManifestOfAKilled(t *testing.T) {
	_, moments := listed(t)
	all := manifestsOf(t, moments)
	longer := slices.DeleteFunc(slices.Clone(all), func(b begun) bool { return b.has == b.known || b.rows == 0 })
	require.GreaterOrEqual(t, len(longer), 3)
	for _, b := range []begun{all[len(all)/2], longer[len(longer)/2]} {
		if b.has > b.known {
			damages(t, b.killed, b.manifest, b.known, func(mem *vfs.MemFS, msg string) { require.False(t, noticed(t, mem, b.rows, msg), msg) })
		}
		kept := fileOf(t, b.killed, b.manifest)
		setFile(t, b.killed, b.manifest, kept[:b.known])
		damages(t, b.killed, b.manifest, 0, func(mem *vfs.MemFS, msg string) { require.True(t, noticed(t, mem, b.rows, msg), msg) })
	}
}

// What a killed process had written and not noted counts from the next opening on: it is synced, and noted. The
// engine begins another manifest when there is a log, and otherwise goes on with this one.
func TestManifestIsNotedWhenOpened(t *testing.T) {
	mem, _ := listed(t)
	files, err := mem.List("db")
	require.NoError(t, err)
	for _, name := range files {
		if _, isLog := logNumber(mem, name); isLog {
			require.NoError(t, mem.Remove("db/"+name))
		}
	}
	name := manifestOf(t, mem)
	content := fileOf(t, mem, name)
	w := newManifestWriter(name)
	_, _ = w.Write(content[:len(content)/2])
	setFile(t, mem, formatName, []byte(noted{manifests: []manifest{w.manifest()}}.text()))
	setFile(t, mem, name, content[:len(content)/2])
	f, err := mem.OpenReadWrite("db/"+name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.WriteAt(content[len(content)/2:], int64(len(content)/2))
	require.NoError(t, err)
	require.NoError(t, f.Close())

	db := mustOpen(t, "db", &Options{FS: mem})
	require.Equal(t, 12, countLogRows(t, mustFamily(t, db)))
	require.False(t, noticed(t, mem.CrashClone(vfs.CrashCloneCfg{}), 12))
	require.NoError(t, db.Close())
	require.Equal(t, name, manifestOf(t, mem))
	now := manifestsOf(t, []moment{{killed: mem}})
	require.Len(t, now, 1)
	require.Equal(t, len(content), now[0].known)
}

// A copy of a directory that was closed is as good as the directory.
func TestCopyOfADirectory(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	writeLogRows(t, mustFamily(t, db))
	require.NoError(t, db.Close())
	copied := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	for range 2 {
		db = mustOpen(t, copied, nil)
		require.Equal(t, logRows, countLogRows(t, mustFamily(t, db)))
		require.NoError(t, mustFamily(t, db).Apply(background, mutation("row000", "another")))
		require.NoError(t, db.Close())
	}
}
