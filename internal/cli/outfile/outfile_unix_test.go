//go:build unix

package outfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is no regular file is written to, and is there afterwards as it was.
func TestPipesAreNotReplaced(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := t.TempDir()
		pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
		require.NoError(t, os.Symlink(pipe, link))
		for _, name := range []string{pipe, link} {
			read := make(chan []byte, 1)
			go func() {
				in, err := os.Open(pipe)
				text, _ := io.ReadAll(in)
				if err == nil {
					in.Close() // before the next writer comes, who would go ahead of the next reader
				}
				read <- text
			}()
			f, err := Create(name, replace)
			require.NoError(t, err)
			_, err = f.WriteString("rows")
			require.NoError(t, err)
			require.NoError(t, f.Commit())
			require.NoError(t, f.Discard())
			require.Equal(t, "rows", string(<-read))
		}
		info, err := os.Lstat(pipe)
		require.NoError(t, err)
		require.Equal(t, os.ModeNamedPipe, info.Mode().Type())
		info, err = os.Lstat(link)
		require.NoError(t, err)
		require.Equal(t, os.ModeSymlink, info.Mode().Type())
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 2)
	}
}

// A link stays, and the file that it leads to is replaced. One that leads nowhere is refused.
func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	file, link, loose := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "loose")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("file", link))
	require.NoError(t, os.Symlink("nowhere", loose))
	_, err := Create(link, false)
	require.ErrorIs(t, err, ErrExists)
	_, err = Create(loose, true)
	require.ErrorContains(t, err, "is a link to a file that is not there")
	f, err := Create(link, true)
	require.NoError(t, err)
	_, err = f.WriteString("new")
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "file", to)
}

// A name that has no room for what a file is called until it is complete is what the error is about, and not the folder.
func TestNamesThatAreTooLong(t *testing.T) {
	name := filepath.Join(t.TempDir(), strings.Repeat("x", 240))
	_, err := Create(name, false)
	require.EqualError(t, err, name+": the name is too long: until the file is complete, its name is 33 bytes longer")
	f, err := Create(name[:len(name)-20], false)
	require.NoError(t, err)
	require.NoError(t, f.Discard())
}

// The folder is synced when the file has its name, also where a link leads to it. An error of that leaves the file.
func TestNamesOutliveALossOfPower(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	file, link, sync := filepath.Join(dir, "file"), filepath.Join(links, "link"), syncFolder
	t.Cleanup(func() { syncFolder = sync })
	require.NoError(t, os.Symlink(file, link))
	for i, name := range []string{file, link, file} {
		replace := i > 0
		f, err := Create(name, replace)
		require.NoError(t, err)
		_, err = f.WriteString("rows")
		require.NoError(t, err)
		var synced []string
		failed := error(nil)
		if i == 2 {
			failed = errors.New("disk failure")
		}
		syncFolder = func(folder string) error {
			synced = append(synced, folder)
			require.FileExists(t, file)
			return errors.Join(failed, sync(folder))
		}
		require.ErrorIs(t, f.Commit(), failed)
		real, err := filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		at, err := filepath.EvalSymlinks(synced[0])
		require.NoError(t, err)
		require.Equal(t, real, at)
		require.Len(t, synced, 1)
		require.NoError(t, f.Discard())
		require.FileExists(t, file)
	}
}
