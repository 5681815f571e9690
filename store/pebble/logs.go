package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	formatName    = "RANGECRYPT" // the file that makes a directory ours, once the engine's are there
	unfinished    = formatName + ".tmp"
	formatText    = "rangecrypt pebble store, format %d\n"
	formatVersion = 2
)

// A logRecord is the list, in the file RANGECRYPT, of the logs that the directory must have. The engine
// replays the logs that it finds, and a number that is missing proves nothing to it.
//
// A log is put on the list when its file is there for good, before anything is written to it. It is
// taken off before the engine removes or reuses the file. So no crash leaves a log on the list and not in the
// directory. A closed database needs no log, and its list is empty.
type logRecord struct {
	fs  vfs.FS
	dir string

	mu         sync.Mutex
	frozen     bool
	unfinished bool             // the directory is not ours yet and has no data: the file is not written
	logs       map[string]int64 // by the number in its name: how long it is at least
}

// freeze ends the use of the record, before another one may open the directory: an engine that was given
// up may still run.
func (r *logRecord) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// logNumber returns the part of a log's file name before its ending.
func logNumber(fsys vfs.FS, path string) (number string, ok bool) {
	return strings.CutSuffix(fsys.PathBase(path), ".log")
}

// add puts a log on the list whose file was just made.
func (r *logRecord) add(number string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := syncDir(r.fs, r.dir); err != nil {
		return err
	}
	logs := maps.Clone(r.logs)
	logs[number] = 0
	return r.write(logs)
}

// remove takes a log off the list.
func (r *logRecord) remove(number string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.logs[number]; !ok {
		return nil
	}
	logs := maps.Clone(r.logs)
	delete(logs, number)
	return r.write(logs)
}

// ended sets the length of a log that is complete. The next change of the list writes it down.
func (r *logRecord) ended(number string, length int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.logs[number]; ok {
		r.logs[number] = length
	}
}

// clear empties the list.
func (r *logRecord) clear() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.write(make(map[string]int64))
}

// check refuses a directory without a log of the list.
func (r *logRecord) check() error {
	for _, number := range slices.Sorted(maps.Keys(r.logs)) {
		name := number + ".log"
		info, err := r.fs.Stat(r.fs.PathJoin(r.dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return damaged(fmt.Errorf("the log %s is missing", name))
		case err != nil:
			return err
		case info.Size() < r.logs[number]:
			return damaged(fmt.Errorf("the log %s has %d bytes, and had %d", name, info.Size(), r.logs[number]))
		}
	}
	return nil
}

// write writes the file in one step, unless the directory has no data yet.
func (r *logRecord) write(logs map[string]int64) error {
	if r.frozen {
		return errClosed
	}
	if !r.unfinished {
		err := r.writeAside(logs)
		if err == nil {
			err = r.fs.Rename(r.fs.PathJoin(r.dir, unfinished), r.fs.PathJoin(r.dir, formatName))
		}
		if err == nil {
			err = syncDir(r.fs, r.dir)
		}
		if err != nil {
			return err
		}
	}
	r.logs = logs
	return nil
}

// writeAside writes what is to be the file.
func (r *logRecord) writeAside(logs map[string]int64) error {
	f, err := r.fs.Create(r.fs.PathJoin(r.dir, unfinished), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(formatText, formatVersion) + "logs"
	for _, number := range slices.Sorted(maps.Keys(logs)) {
		text += fmt.Sprintf(" %s:%d", number, logs[number])
	}
	_, err = io.WriteString(f, text+"\n")
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// begin says that the directory is about to be ours, before the engine writes there.
func (r *logRecord) begin() error {
	r.logs = make(map[string]int64)
	err := r.writeAside(nil)
	if err == nil {
		err = syncDir(r.fs, r.dir)
	}
	if err != nil {
		return fmt.Errorf("write to the directory: %w", err)
	}
	return nil
}

// finish makes the directory ours, after the engine has written what a store cannot be without. What was
// begun becomes the file first: a crash must not leave it half written beside the engine's files.
func (r *logRecord) finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.fs.Rename(r.fs.PathJoin(r.dir, unfinished), r.fs.PathJoin(r.dir, formatName))
	if err == nil {
		err = syncDir(r.fs, r.dir)
	}
	if err == nil {
		r.unfinished = false
		err = r.write(r.logs)
	}
	if err != nil {
		return fmt.Errorf("write to the directory: %w", err)
	}
	return nil
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readFormat returns the record of a directory that is ours. It returns nil for one that is empty, or that
// nobody came to the end of making ours, so that it has no data.
func readFormat(fsys vfs.FS, dir string) (*logRecord, error) {
	names, err := fsys.List(dir)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(names, formatName):
		logs, err := readLogs(fsys, fsys.PathJoin(dir, formatName))
		if err != nil {
			return nil, err
		}
		return &logRecord{fs: fsys, dir: dir, logs: logs}, nil
	case !slices.ContainsFunc(names, func(name string) bool { return name != "LOCK" && name != unfinished }):
		return nil, nil
	case slices.Contains(names, unfinished):
		_, err := readLogs(fsys, fsys.PathJoin(dir, unfinished))
		if errors.Is(err, fs.ErrNotExist) { // another process has just come to the end
			return readFormat(fsys, dir)
		}
		return nil, err
	}
	if slices.ContainsFunc(names, ofEngine) {
		return nil, notOurs(fmt.Sprintf("the directory is not empty and has files of the engine Pebble, but no file %s; "+
			"restore that file, as it was last, or the directory from a backup; or name a new directory, if this is another program's", formatName))
	}
	return nil, fmt.Errorf("%w: the directory is not empty and holds no rangecrypt store, since it has no file %s; name a new one", driver.ErrLayout, formatName)
}

// readLogs returns the list in a file, or an error unless the file names a format that this version reads.
func readLogs(fsys vfs.FS, name string) (map[string]int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, err
	}
	var version int
	_, err = fmt.Sscanf(string(text), formatText, &version)
	if err == nil && version > formatVersion {
		return nil, fmt.Errorf("%w: the store has format %d, this version reads up to %d; use a newer version of rangecrypt", driver.ErrLayout, version, formatVersion)
	}
	logs, ok := parseLogs(version, string(text))
	if err != nil || !ok {
		return nil, notOurs(fmt.Sprintf("the file %s is damaged or not ours; restore it from a backup, or name a new directory", fsys.PathBase(name)))
	}
	return logs, nil
}

// notOurs returns the error for a directory that is another program's, or ours and damaged.
func notOurs(text string) error {
	return &fault{fmt.Sprintf("%v: %s", driver.ErrLayout, text), []error{driver.ErrLayout, driver.ErrCorrupt}}
}

// ofEngine reports whether a file has a name that only the engine gives.
func ofEngine(name string) bool {
	return strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.manifest.") || strings.HasSuffix(name, ".sst")
}

var logsLine = regexp.MustCompile(`^logs((?: [0-9]+:[0-9]+)*)\n$`)

// parseLogs returns the list in the text of the file. Format 1 has none.
func parseLogs(version int, text string) (logs map[string]int64, ok bool) {
	logs = make(map[string]int64)
	first, rest, _ := strings.Cut(text, "\n")
	switch version {
	case 1:
		return logs, true
	case formatVersion:
	default:
		return nil, false
	}
	line := logsLine.FindStringSubmatch(rest)
	if line == nil || first+"\n" != fmt.Sprintf(formatText, version) {
		return nil, false
	}
	for _, field := range strings.Fields(line[1]) {
		number, length, _ := strings.Cut(field, ":")
		n, err := strconv.ParseInt(length, 10, 64)
		if err != nil {
			return nil, false
		}
		logs[number] = n
	}
	return logs, true
}
