package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

func flipped(at func(size int) int) func(string) error {
	return func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content[at(len(content))] ^= 1
		return os.WriteFile(path, content, 0o600)
	}
}

func cutTo(part float64) func(string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, int64(part*float64(info.Size())))
	}
}

func middle(size int) int { return size / 2 }

const logRows = 300

func writeLogRows(t *testing.T, f driver.Family) {
	t.Helper()
	for i := range logRows {
		require.NoError(t, f.Apply(background, mutation(fmt.Sprintf("row%03d", i), strings.Repeat("x", 5000))))
	}
}

func countLogRows(t *testing.T, f driver.Family) (n int) {
	t.Helper()
	for _, err := range f.Scan(background, driver.Range{}) {
		require.NoError(t, err)
		n++
	}
	return n
}

func logsOf(t *testing.T, dir string) []string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	return logs
}

// A directory that was closed depends on no log: whatever becomes of them, no row is lost.
func TestClosedNeedsNoLog(t *testing.T) {
	whole := t.TempDir()
	for _, session := range []string{"first", "second"} {
		db := mustOpen(t, whole, nil)
		f := mustFamily(t, db)
		if session == "first" {
			writeLogRows(t, f)
		} else {
			require.NoError(t, f.Apply(background, mutation("row000", "another")))
		}
		require.NoError(t, db.Close())
		for name, damage := range map[string]func(string) error{
			"removed": os.Remove,
			"emptied": cutTo(0),
			"cut":     cutTo(0.5),
			"flipped": func(path string) error {
				if info, err := os.Stat(path); err != nil || info.Size() == 0 {
					return err
				}
				return flipped(middle)(path)
			},
		} {
			t.Run(session+"/"+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "db")
				require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
				for _, path := range logsOf(t, dir) {
					require.NoError(t, damage(path))
				}
				db := mustOpen(t, dir, nil)
				f := mustFamily(t, db)
				require.Equal(t, logRows, countLogRows(t, f))
				if session == "second" {
					require.Equal(t, "another", value(t, f, "row000"))
				}
				require.NoError(t, db.Close())
			})
		}
	}
}

// gate keeps tables from being made while it is shut.
type gate struct {
	shut atomic.Bool
	open chan struct{}
}

func (g *gate) String() string { return "gate" }

func (g *gate) MaybeError(op errorfs.Op) error {
	if g.shut.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
		<-g.open
	}
	return nil
}

// killedWithLogs returns what a process that was killed leaves: rows in several logs, and in no table.
func killedWithLogs(t *testing.T) (dir string, logs []string) {
	t.Helper()
	live, dir := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
	g := &gate{open: make(chan struct{})}
	db := mustOpen(t, live, &Options{FS: errorfs.Wrap(vfs.Default, g)})
	f := mustFamily(t, db)
	g.shut.Store(true)
	writeLogRows(t, f)
	require.NoError(t, os.CopyFS(dir, os.DirFS(live)))
	close(g.open)
	require.NoError(t, db.Close())
	logs = logsOf(t, dir)
	require.GreaterOrEqual(t, len(logs), 3)
	return dir, logs
}

// A directory that was not closed needs its logs. Damage of the newest one's end looks like the end that
// a crash leaves, and is not noticed, as the doc of Open says.
func TestKilledNeedsItsLogs(t *testing.T) {
	whole, logs := killedWithLogs(t)
	middleLog := len(logs) / 2
	newest := len(logs) - 1
	even := 0 // the number of this log and the next one differ in one bit
	if number, _ := logNumber(vfs.Default, logs[0]); strings.ContainsAny(number[len(number)-1:], "13579") {
		even = 1
	}
	for name, c := range map[string]struct {
		log     int // -1 for all
		damage  func(string) error
		noticed bool
	}{
		"oldest removed":                {0, os.Remove, true},
		"middle removed":                {middleLog, os.Remove, true},
		"newest removed":                {newest, os.Remove, true},
		"all removed":                   {-1, os.Remove, true},
		"all emptied":                   {-1, cutTo(0), true},
		"oldest emptied":                {0, cutTo(0), true},
		"middle emptied":                {middleLog, cutTo(0), true},
		"middle cut":                    {middleLog, cutTo(0.7), true},
		"middle flipped":                {middleLog, flipped(middle), true},
		"newest flipped in the middle":  {newest, flipped(middle), true},
		"newest flipped at the end":     {newest, flipped(func(size int) int { return size - 3000 }), false},
		"newest cut":                    {newest, cutTo(0.5), false},
		"newest emptied":                {newest, cutTo(0), false},
		"header made a mark of the end": {even, flipped(func(int) int { return 7 }), false},
		"nothing":                       {newest, func(string) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			for i, path := range logs {
				if c.log < 0 || c.log == i {
					require.NoError(t, c.damage(filepath.Join(dir, filepath.Base(path))))
				}
			}
			before := names(t, dir)
			if c.noticed {
				for range 2 {
					_, err := Open(dir, nil)
					require.ErrorIs(t, err, driver.ErrCorrupt)
					require.NotContains(t, err.Error(), "\n")
				}
				require.Equal(t, before, names(t, dir))
				return
			}
			db := mustOpen(t, dir, nil)
			n := countLogRows(t, mustFamily(t, db))
			require.Equal(t, name == "nothing", n == logRows, n)
			require.NoError(t, db.Close())
		})
	}
}

// Directories of earlier formats have no manifest and, of format 1, no logs on their list. They get them when they
// are opened.
func TestEarlierFormats(t *testing.T) {
	const manifest = ` MANIFEST-[0-9]{6}:[0-9]+:[0-9a-f]{64}`
	for format := range 2 {
		format++
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			dir, logs := killedWithLogs(t)
			file := filepath.Join(dir, formatName)
			matches := func(pattern string) bool {
				text, err := os.ReadFile(file)
				return err == nil && regexp.MustCompile(`^rangecrypt pebble store, format 3\n`+pattern+`$`).Match(text)
			}
			require.NoError(t, os.WriteFile(file, textOf(t, file, format), 0o600))
			db := mustOpen(t, dir, nil)
			require.Equal(t, logRows, countLogRows(t, mustFamily(t, db)))
			require.NoError(t, mustFamily(t, db).Apply(background, mutation("row000", "another")))
			require.Eventually(t, func() bool { // the engine removes old logs in the background
				return matches(`logs [0-9]{6}:0\nmanifests(` + manifest + `)+\n`)
			}, 10*time.Second, 10*time.Millisecond)
			require.NoFileExists(t, filepath.Join(dir, filepath.Base(logs[0])))
			require.NoError(t, db.Close())
			require.True(t, matches(`logs\nmanifests`+manifest+`\n`))

			// So do those that were closed, whether anything is written or not.
			require.NoError(t, os.WriteFile(file, textOf(t, file, format), 0o600))
			db = mustOpen(t, dir, nil)
			require.Equal(t, "another", value(t, mustFamily(t, db), "row000"))
			require.NoError(t, db.Close())
			require.True(t, matches(`logs\nmanifests`+manifest+`\n`))
		})
	}
}

// textOf returns what the file RANGECRYPT would say in an earlier format.
func textOf(t *testing.T, file string, format int) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return append(fmt.Appendf(nil, formatText, format), bytes.Join(bytes.SplitAfter(text, []byte("\n"))[1:format], nil)...)
}

func TestDamagedFormat(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mustOpen(t, dir, nil).Close())
	sum := strings.Repeat("0", 64)
	for _, rest := range []string{
		"1\nlogs\n", "2\n", "2\nlogs", "2\nlogs 000001\n", "2\nlogs 000001:99999999999999999999\n", "2\nlogs\nmanifests\n",
		"3\n", "3\nlogs\n", "3\nlogs\nmanifests", "3\nlogs\nmanifests MANIFEST-000001:1\n",
		"3\nlogs\nmanifests MANIFEST-000001:99999999999999999999:" + sum + "\n", "3\nlogs\nmanifests MANIFEST-000001:1:" + sum + "0\n",
		"3\nlogs\nmanifests MANIFEST-000009:1:" + sum + "\n", "0\n", "-1\n", "03\nlogs\nmanifests\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, formatName), []byte("rangecrypt pebble store, format "+rest), 0o600))
		_, err := Open(dir, nil)
		require.ErrorIs(t, err, driver.ErrCorrupt, rest)
	}
}

// A disk without space for the tables that closing makes loses nothing.
func TestNoSpaceLeftForClosing(t *testing.T) {
	for _, only := range []string{".sst", ".log", "MANIFEST", formatName} {
		for n := range int64(4) {
			t.Run(fmt.Sprint(only, n), func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				disk := &fullDisk{only: only}
				disk.left.Store(1 << 40)
				db := mustOpen(t, "db", &Options{FS: errorfs.Wrap(mem, disk)})
				require.NoError(t, mustFamily(t, db).Apply(background, mutation("a", "value of a")))
				disk.left.Store(n)
				if err := db.Close(); err != nil {
					require.True(t, errors.Is(err, syscall.ENOSPC), err)
				}
				verifyAcknowledged(t, mem.CrashClone(vfs.CrashCloneCfg{}), []string{"a"}, n)
				verifyAcknowledged(t, mem, []string{"a"}, n)
			})
		}
	}
}

// noLog is a file system that makes no further log, or ends none.
type noLog struct {
	full atomic.Bool
	kind errorfs.OpKind
}

func (d *noLog) String() string { return "no log" }

func (d *noLog) MaybeError(op errorfs.Op) error {
	if d.full.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind == d.kind {
		return syscall.ENOSPC
	}
	return nil
}

// A disk that fills up where one log follows another stops the database, and not the process.
func TestNoSpaceLeftForTheNextLog(t *testing.T) {
	newDisks := map[string]func() (errorfs.Injector, func()){
		"create": func() (errorfs.Injector, func()) {
			d := &noLog{kind: errorfs.OpCreate}
			return d, func() { d.full.Store(true) }
		},
		"sync": func() (errorfs.Injector, func()) {
			d := &noLog{kind: errorfs.OpFileSyncData}
			return d, func() { d.full.Store(true) }
		},
	}
	for n := range int64(6) {
		newDisks[fmt.Sprint("list", n)] = func() (errorfs.Injector, func()) {
			d := &fullDisk{only: formatName}
			d.left.Store(1 << 40)
			return d, func() { d.left.Store(n) }
		}
	}
	for name, newDisk := range newDisks {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			disk, fill := newDisk()
			db := mustOpen(t, "db", &Options{FS: errorfs.Wrap(mem, disk)})
			f := mustFamily(t, db)
			fill()
			var acknowledged []string
			for i := range logRows {
				key := fmt.Sprintf("row%03d", i)
				if err := f.Apply(background, mutation(key, "value of "+key+strings.Repeat("x", 5000))); err != nil {
					require.ErrorIs(t, err, syscall.ENOSPC)
					require.ErrorIs(t, err, driver.ErrUnavailable)
					break
				}
				acknowledged = append(acknowledged, key)
			}
			require.Less(t, len(acknowledged), logRows)
			require.NoError(t, db.Close())
			db = mustOpen(t, "db", &Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			f = mustFamily(t, db)
			for _, key := range acknowledged {
				require.Len(t, value(t, f, key), len("value of "+key)+5000, key)
			}
			require.NoError(t, db.Close())
		})
	}
}
