package outfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// A Place is where a file or folder is, or would be made: two names of one file have the same.
type Place struct {
	path string      // absolute, and without links as far as there is something
	info fs.FileInfo // nil where nothing is
}

// PlaceOf returns the place of a name. Links are followed.
func PlaceOf(name string) Place {
	info, err := os.Stat(name)
	if err != nil {
		info = nil
	}
	return Place{real(name), info}
}

// PlaceOfOpen returns the place of a file that is open, and false for what is no regular file.
func PlaceOfOpen(f *os.File) (Place, bool) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return Place{}, false
	}
	return Place{info: info}, true
}

// mostLinks is how many links to what is not there are followed, as many as Linux follows.
const mostLinks = 40

// real returns a name as it is without links. Of what is not there, the folders are followed that are there.
func real(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return filepath.Clean(name)
	}
	for range mostLinks {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			return found
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(real(parent), filepath.Base(path))
	}
	return path
}

// Special reports whether there is something that is no regular file and no folder, such as a device or a pipe. It can be
// written to by several, and nothing of it is replaced.
func (p Place) Special() bool {
	return p.info != nil && !p.info.Mode().IsRegular() && !p.info.IsDir()
}

// Same reports whether two places are one.
func (p Place) Same(q Place) bool {
	if p.info != nil && q.info != nil {
		return os.SameFile(p.info, q.info)
	}
	return p.path == q.path && p.path != ""
}

// In reports whether a place is a folder, or anywhere below it.
func (p Place) In(folder Place) bool {
	if p.Same(folder) {
		return true
	}
	for _, above := range p.above() {
		if PlaceOf(above).Same(folder) {
			return true
		}
	}
	return false
}

// above returns the folders that a place is in, the nearest first.
func (p Place) above() (folders []string) {
	for path := p.path; path != "" && filepath.Dir(path) != path; {
		path = filepath.Dir(path)
		folders = append(folders, path)
	}
	return folders
}

// Store returns the folder of an embedded store that a place is in; "" for none. Such a store has a lock and a manifest.
func (p Place) Store() string {
	for _, folder := range p.above() {
		if _, err := os.Lstat(filepath.Join(folder, "LOCK")); err != nil {
			continue
		}
		if manifests, _ := filepath.Glob(filepath.Join(globbed(folder), "MANIFEST-*")); len(manifests) > 0 {
			return folder
		}
	}
	return ""
}

// special are the characters that mean something in a pattern.
var special = regexp.MustCompile(`[*?\[\\]`)

// globbed returns a pattern that only one name matches.
func globbed(name string) string {
	if filepath.Separator == '\\' { // patterns have no escapes there
		return name
	}
	return special.ReplaceAllString(name, `\$0`)
}

// keyText matches the text of a file that holds a master key.
var keyText = regexp.MustCompile(`^\s*[0-9a-fA-F]{64}\s*$`)

// mostKey is how long such a file may be, as package kms has it.
const mostKey = 128

// CheckKey returns an error if a name is that of a file that holds a master key, or may hold one since it cannot be read.
func CheckKey(name string) error {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil // there is none, or it is not replaced
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostKey+1))
	if err != nil {
		return err
	}
	if len(text) <= mostKey && keyText.Match(text) {
		return exit.Usagef("%s holds a master key, which nothing replaces: without it nobody can read its store; name another file", name)
	}
	return nil
}
