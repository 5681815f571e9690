package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
)

// Who mistypes the name of a store is told that there is none. Nothing is made under that name.
func TestMistypedStoreIsNotMade(t *testing.T) {
	for _, kind := range testdb.All {
		var store string
		switch kind.Name {
		case "memory":
			continue
		case "pebble":
			store = "pebble:" + filepath.Join(t.TempDir(), "mistyped")
		case "cassandra":
			store = "cassandra://" + os.Getenv("RANGECRYPT_CASSANDRA") + "/mistyped_by_a_test"
		case "hbase":
			store = "hbase://" + os.Getenv("RANGECRYPT_HBASE") + "/mistyped_by_a_test"
		}
		t.Run(kind.Name, func(t *testing.T) {
			kind.Need(t)
			if strings.Count(store, "://") > 1 {
				t.Skip("the server is named by a URL")
			}
			var stdout, stderr bytes.Buffer
			e := &cli.Env{Stdout: &stdout, Stderr: &stderr, OpenStore: stores.Open}
			key := filepath.Join(t.TempDir(), "key")
			require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
			stdout.Reset()
			for _, command := range [][]string{{"table", "list"}, {"verify"}, {"table", "list"}} { // the second finds what the first makes
				stderr.Reset()
				require.Equal(t, exit.Failed, execute(e, append(command, "--store", store, "--key", key)))
				require.Contains(t, stderr.String(), "there is no store in ")
				require.Contains(t, stderr.String(), "'rangecrypt table create' make one\n")
				require.Empty(t, stdout.String())
			}
		})
	}
}
