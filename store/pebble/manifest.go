package pebble

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/store/pebble/internal/errkind"
)

// A manifest is the beginning of one of the files in which the engine lists its tables. The engine takes the
// first record that is not whole for the end of the file, since a crash leaves one there. Then it removes the
// tables that it has not read of, so a damaged record would cost all that was written since.
type manifest struct {
	name   string
	length int64
	sum    [sha256.Size]byte
}

const (
	manifestPrefix = "MANIFEST-"
	manifestMarker = "manifest" // in the name marker.manifest.N.MANIFEST-N of the file that names the manifest in use
)

// ofEngine reports whether a file has a name that only the engine gives.
func ofEngine(name string) bool {
	return strings.HasPrefix(name, manifestPrefix) || strings.HasPrefix(name, "marker."+manifestMarker+".") || strings.HasSuffix(name, ".sst")
}

// A manifestWriter follows what is written to a manifest.
type manifestWriter struct {
	name   string
	length int64
	sum    hash.Hash
}

func newManifestWriter(name string) *manifestWriter {
	return &manifestWriter{name: name, sum: sha256.New()}
}

// Write implements [io.Writer]. It returns no error.
func (w *manifestWriter) Write(p []byte) (int, error) {
	w.length += int64(len(p))
	return w.sum.Write(p)
}

func (w *manifestWriter) manifest() manifest {
	return manifest{w.name, w.length, [sha256.Size]byte(w.sum.Sum(nil))}
}

// readManifest returns all of a manifest, if it begins as it should. What follows is on the disk then, which a
// process that was killed may not have come to.
func readManifest(fsys vfs.FS, dir string, want manifest) (manifest, error) {
	path := fsys.PathJoin(dir, want.name)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, errkind.Damaged(fmt.Errorf("the file %s is missing", want.name))
	} else if err != nil {
		return manifest{}, err
	}
	defer f.Close()
	w := newManifestWriter(want.name)
	_, err = io.CopyN(w, f, want.length)
	switch {
	case errors.Is(err, io.EOF):
		return manifest{}, errkind.Damaged(fmt.Errorf("the file %s has %d bytes, and had %d", want.name, w.length, want.length))
	case err != nil:
		return manifest{}, err
	case want.length > 0 && w.manifest() != want:
		return manifest{}, errkind.Damaged(fmt.Errorf("the file %s is not as it was written", want.name))
	}
	more, err := io.Copy(w, f)
	if err == nil && more > 0 {
		var again vfs.File
		if again, err = fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified); err == nil {
			err = errors.Join(again.Sync(), again.Close())
		}
	}
	return w.manifest(), err
}
