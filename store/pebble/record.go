package pebble

import (
	"encoding/hex"
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
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/dirlock"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/errkind"
)

const (
	formatName    = "RANGECRYPT" // the file that makes a directory ours, once the engine's are there
	unfinished    = formatName + ".tmp"
	formatText    = "rangecrypt pebble store, format %d\n"
	formatVersion = 3
)

// A fileRecord is what the file RANGECRYPT says of the engine's files, because the engine cannot tell that
// they are not as it left them: it replays the logs that it finds, and reads a manifest as far as it can.
//
// A log is put on the list when its file is there for good, before anything is written to it. It is
// taken off before the engine removes or reuses the file. So no crash leaves a log on the list and not in the
// directory. A closed database needs no log, and its list is empty.
//
// What was synced of a manifest is noted before the engine relies on it. So whatever a crash leaves, the manifest
// begins with what was noted. What follows there is at most what the engine did not know to be on the disk yet.
type fileRecord struct {
	fs  vfs.FS
	dir string

	mu         sync.Mutex
	frozen     bool
	unfinished bool // the directory is not ours yet and has no data: the file is not written
	noted
}

// noted is what the file says.
type noted struct {
	logs map[string]int64 // by the number in its name: how long it is at least

	// The manifests that the engine may find to be its own: the newest is the last one. The other is there while it
	// is not known that the engine has changed over. There is none in files of earlier formats.
	manifests []manifest
}

// freeze ends the use of the record, before another one may open the directory: an engine that was given
// up may still run.
func (r *fileRecord) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// logNumber returns the part of a log's file name before its ending.
func logNumber(fsys vfs.FS, path string) (number string, ok bool) {
	return strings.CutSuffix(fsys.PathBase(path), ".log")
}

// add puts a log on the list whose file was just made.
func (r *fileRecord) add(number string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := dirlock.Sync(r.fs, r.dir); err != nil {
		return err
	}
	logs := maps.Clone(r.logs)
	logs[number] = 0
	return r.write(noted{logs, r.manifests})
}

// remove takes a log off the list.
func (r *fileRecord) remove(number string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.logs[number]; !ok {
		return nil
	}
	logs := maps.Clone(r.logs)
	delete(logs, number)
	return r.write(noted{logs, r.manifests})
}

// ended sets the length of a log that is complete. The next change of the list writes it down.
func (r *fileRecord) ended(number string, length int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.logs[number]; ok {
		r.logs[number] = length
	}
}

// synced notes what of a manifest is on the disk.
func (r *fileRecord) synced(m manifest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The engine does not write to a manifest again before it has changed over to it for good.
	before := r.newest()
	if len(before) > 0 && before[0].name == m.name {
		before = nil
	}
	return r.write(noted{r.logs, append(slices.Clone(before), m)})
}

// newest returns the last manifest, if there is one.
func (r *fileRecord) newest() []manifest { return r.manifests[max(0, len(r.manifests)-1):] }

// close notes that the directory needs no log.
func (r *fileRecord) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.write(noted{make(map[string]int64), r.newest()})
}

// check refuses a directory without a log of the list, or whose manifest is not as noted.
func (r *fileRecord) check() error {
	if err := r.checkLogs(); err != nil {
		return err
	}
	return r.checkManifest()
}

func (r *fileRecord) checkLogs() error {
	for _, number := range slices.Sorted(maps.Keys(r.logs)) {
		name := number + ".log"
		info, err := r.fs.Stat(r.fs.PathJoin(r.dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return errkind.Damaged(fmt.Errorf("the log %s is missing", name))
		case err != nil:
			return err
		case info.Size() < r.logs[number]:
			return errkind.Damaged(fmt.Errorf("the log %s has %d bytes, and had %d", name, info.Size(), r.logs[number]))
		}
	}
	return nil
}

// checkManifest refuses a directory that does not say which manifest is in use: the engine would take it for a
// new one, and remove what data there is. It refuses one whose manifest does not begin as noted, and notes the rest.
func (r *fileRecord) checkManifest() error {
	name, err := atomicfs.ReadMarker(r.fs, r.dir, manifestMarker)
	switch {
	case err != nil:
		return errkind.Damaged(err)
	case name == "":
		return errkind.Damaged(errors.New("there is no file marker.manifest.*, which a store has from its beginning"))
	}
	want := manifest{name: name}
	if len(r.manifests) > 0 {
		i := slices.IndexFunc(r.manifests, func(m manifest) bool { return m.name == name })
		if i < 0 {
			return errkind.Damaged(fmt.Errorf("%s is not in the file %s: one of them is from another time", name, formatName))
		}
		want = r.manifests[i]
	}
	m, err := readManifest(r.fs, r.dir, want)
	r.manifests = []manifest{m}
	return err
}

// write writes the file in one step, unless the directory has no data yet.
func (r *fileRecord) write(n noted) error {
	if r.frozen {
		return errClosed
	}
	if !r.unfinished {
		err := r.writeAside(n)
		if err == nil {
			err = r.fs.Rename(r.fs.PathJoin(r.dir, unfinished), r.fs.PathJoin(r.dir, formatName))
		}
		if err == nil {
			err = dirlock.Sync(r.fs, r.dir)
		}
		if err != nil {
			return err
		}
	}
	r.noted = n
	return nil
}

// writeAside writes what is to be the file.
func (r *fileRecord) writeAside(n noted) error {
	f, err := r.fs.Create(r.fs.PathJoin(r.dir, unfinished), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, n.text())
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// text returns the text of the file.
func (n noted) text() string {
	text := fmt.Sprintf(formatText, formatVersion) + "logs"
	for _, number := range slices.Sorted(maps.Keys(n.logs)) {
		text += fmt.Sprintf(" %s:%d", number, n.logs[number])
	}
	text += "\nmanifests"
	for _, m := range n.manifests {
		text += fmt.Sprintf(" %s:%d:%x", m.name, m.length, m.sum)
	}
	return text + "\n"
}

// begin says that the directory is about to be ours, before the engine writes there. Where a process before said so, and was
// killed then, its word stays: to write it again would remove it first, and there may be files of the engine already.
func (r *fileRecord) begin() error {
	r.logs = make(map[string]int64)
	n, err := readNoted(r.fs, r.fs.PathJoin(r.dir, unfinished))
	if err != nil || n.text() != (noted{}).text() {
		err = r.writeAside(noted{})
	}
	if err = errors.Join(err, dirlock.Sync(r.fs, r.dir)); err != nil {
		return fmt.Errorf("write to the directory: %w", err)
	}
	return nil
}

// finish makes the directory ours, after the engine has written what a store cannot be without. What was
// begun becomes the file first: a crash must not leave it half written beside the engine's files.
func (r *fileRecord) finish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.fs.Rename(r.fs.PathJoin(r.dir, unfinished), r.fs.PathJoin(r.dir, formatName))
	if err == nil {
		err = dirlock.Sync(r.fs, r.dir)
	}
	if err == nil {
		r.unfinished = false
		err = r.write(r.noted)
	}
	if err != nil {
		return fmt.Errorf("write to the directory: %w", err)
	}
	return nil
}

// readFormat returns the record of a directory that is ours. It returns nil for one that is empty, or that
// nobody came to the end of making ours, so that it has no data.
func readFormat(fsys vfs.FS, dir string) (*fileRecord, error) {
	names, err := fsys.List(dir)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%w: it is no directory; name one, or a new one", driver.ErrLayout)
	case err != nil:
		return nil, err
	case slices.Contains(names, formatName):
		noted, err := readNoted(fsys, fsys.PathJoin(dir, formatName))
		if err != nil {
			return nil, err
		}
		return &fileRecord{fs: fsys, dir: dir, noted: noted}, nil
	case !slices.ContainsFunc(names, func(name string) bool { return name != "LOCK" && name != unfinished }):
		return nil, nil
	case slices.Contains(names, unfinished):
		_, err := readNoted(fsys, fsys.PathJoin(dir, unfinished))
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

// readNoted returns what a file says, or an error unless it names a format that this version reads.
func readNoted(fsys vfs.FS, name string) (noted, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return noted{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return noted{}, err
	}
	var version int
	_, err = fmt.Sscanf(string(text), formatText, &version)
	if err == nil && version > formatVersion {
		return noted{}, fmt.Errorf("%w: the store has format %d, this version reads up to %d; use a newer version of rangecrypt", driver.ErrLayout, version, formatVersion)
	}
	n, ok := parseNoted(version, string(text))
	if err != nil || !ok {
		return noted{}, notOurs(fmt.Sprintf("the file %s is damaged or not ours; restore it from a backup, or name a new directory", fsys.PathBase(name)))
	}
	return n, nil
}

// notOurs returns the error for a directory that is another program's, or ours and damaged.
func notOurs(text string) error {
	return errkind.New(fmt.Sprintf("%v: %s", driver.ErrLayout, text), driver.ErrLayout, driver.ErrCorrupt)
}

// The lines that follow the first one, in each format.
var notedLines = []*regexp.Regexp{
	1: regexp.MustCompile(`^()()$`),
	2: regexp.MustCompile(`^logs((?: [0-9]+:[0-9]+)*)\n()$`),
	3: regexp.MustCompile(`^logs((?: [0-9]+:[0-9]+)*)\nmanifests((?: MANIFEST-[0-9]+:[0-9]+:[0-9a-f]{64})*)\n$`),
}

// parseNoted returns what the text of the file says.
func parseNoted(version int, text string) (n noted, ok bool) {
	rest, ok := strings.CutPrefix(text, fmt.Sprintf(formatText, version))
	if !ok || version < 1 || version > formatVersion {
		return noted{}, false
	}
	lines := notedLines[version].FindStringSubmatch(rest)
	if lines == nil {
		return noted{}, false
	}
	n.logs = make(map[string]int64)
	for _, field := range strings.Fields(lines[1]) {
		number, length, _ := strings.Cut(field, ":")
		n.logs[number] = parseLength(length)
	}
	for _, field := range strings.Fields(lines[2]) {
		parts := strings.Split(field, ":")
		m := manifest{name: parts[0], length: parseLength(parts[1])}
		_, _ = hex.Decode(m.sum[:], []byte(parts[2])) // they are 64 digits
		n.manifests = append(n.manifests, m)
	}
	return n, true
}

// parseLength returns a number, or where there are too many digits the greatest, which is no file's length.
func parseLength(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}
