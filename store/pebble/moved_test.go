package pebble

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A directory that is moved, replaced or removed while a process works in it: no write is acknowledged that is not in the directory
// that was moved, and nothing happens to what is in its place.
func TestMoved(t *testing.T) {
	ctx := context.Background()
	spec := driver.FamilySpec{Name: "rows", Layout: driver.LayoutOrdered}
	put := func(db *DB, from, n int) (done int, err error) {
		f, err := db.Family(ctx, spec)
		require.NoError(t, err)
		for i := range n {
			m := driver.Mutation{Row: fmt.Appendf(nil, "%06d", from+i), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: make([]byte, 4000)}}}
			if err := f.Apply(ctx, m); err != nil {
				return i, err
			}
		}
		return n, nil
	}
	count := func(dir string) (n int) {
		db := mustOpen(t, dir, nil)
		f, err := db.Family(ctx, spec)
		require.NoError(t, err)
		for _, err := range f.Scan(ctx, driver.Range{}) {
			require.NoError(t, err)
			n++
		}
		require.NoError(t, db.Close())
		return n
	}
	for _, how := range []struct {
		name    string
		replace func(dir, backup string) error
	}{
		{"backup in its place", func(dir, backup string) error { return os.CopyFS(dir, os.DirFS(backup)) }},
		{"another store in its place", func(dir, _ string) error {
			other := mustOpen(t, dir+".other", nil)
			_, err := put(other, 0, 10)
			require.NoError(t, err)
			require.NoError(t, other.Close())
			return os.Rename(dir+".other", dir)
		}},
		{"a link in its place", func(dir, backup string) error { return os.Symlink(backup, dir) }},
		{"nothing in its place", func(string, string) error { return nil }},
	} {
		t.Run(how.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			backup, moved := dir+".backup", dir+".moved"
			db := mustOpen(t, dir, nil)
			_, err := put(db, 0, 10)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))

			db = mustOpen(t, dir, nil)
			_, err = put(db, 10, 20)
			require.NoError(t, err)
			require.NoError(t, os.Rename(dir, moved))
			require.NoError(t, how.replace(dir, backup))
			done, err := put(db, 30, 5000) // of more than a table in memory
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorContains(t, err, "was moved, replaced or removed")
			require.Zero(t, done)
			require.NoError(t, db.Close()) // every call has returned the error

			if _, err := os.Stat(dir); err == nil {
				require.Equal(t, 10, count(dir))
			}
			require.GreaterOrEqual(t, count(moved), 30)
		})
	}
}

// The working directory of a process may change, also to one that has a store of the same name.
func TestWorkingDirectoryChanges(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	db := mustOpen(t, "store", nil)
	t.Chdir(t.TempDir())
	require.NoError(t, mustOpen(t, "store", nil).Close())
	_, err := db.Family(context.Background(), driver.FamilySpec{Name: "rows", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, mustOpen(t, "store", nil).Close())
	require.NoError(t, mustOpen(t, filepath.Join(parent, "store"), nil).Close())
}
