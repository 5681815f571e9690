// Package corpora holds one test: every fuzz target has inputs that each run of the tests repeats.
package corpora

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var target = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// A target without a corpus, and a corpus that no target reads any more, are both a mistake that nothing
// else would show.
func TestEveryFuzzTargetHasACorpus(t *testing.T) {
	targets, corpora := map[string]bool{}, map[string]bool{} // by folder
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != "../..":
			return fs.SkipDir
		case e.IsDir() && strings.HasSuffix(filepath.ToSlash(filepath.Dir(path)), "testdata/fuzz"):
			corpora[path] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range target.FindAllStringSubmatch(string(text), -1) {
				targets[filepath.Join(filepath.Dir(path), "testdata", "fuzz", m[1])] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(targets), 10)
	for dir := range targets {
		inputs, _ := os.ReadDir(dir)
		require.NotEmpty(t, inputs, "a fuzz target has no corpus in %s: run it, and copy some inputs there from $(go env GOCACHE)/fuzz", dir)
	}
	for dir := range corpora {
		require.True(t, targets[dir], "%s is the corpus of no fuzz target: rename or remove it", dir)
	}
}
