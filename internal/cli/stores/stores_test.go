package stores

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// The adapter's warnings are shown, those of the client library are not.
func TestWarningsOfTheStore(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(warnings{&b, "opebench"})
	log.Warn("the partitions are too few", "family", "x")
	log.Warn("a node is down", "from", "gocql")
	log.Info("all is well")
	require.Equal(t, "opebench: warning: the partitions are too few\n", b.String())
}

// A folder is not named like a server, and what may be a password is not shown.
func TestLoginsOfNoServer(t *testing.T) {
	for _, name := range []string{"pebble://bob:hunter2@m", "pebble://bob:hun/ter2@m/x", "postgres://bob:hunter2@m", "bob:hunter2@m"} {
		err := Check(name)
		require.ErrorIs(t, err, exit.ErrUsage, name)
		require.NotContains(t, err.Error(), "hun", name)
	}
	require.EqualError(t, Check("pebble://bob:hunter2@m"),
		`store "pebble://...": it has a login before a host, which is not shown, and an embedded store has neither: name its folder; it is pebble:DIR`)
	require.NoError(t, Check("pebble:a@b"))
	require.NoError(t, Check("pebble:///m"))
	require.NoError(t, Check("pebble:m//"))
	require.EqualError(t, Check("pebble://m/x"),
		`store "pebble://m/x": it begins as the name of a server, and would be the folder /m/x: write pebble:m/x, or pebble:/m/x; it is pebble:DIR`)
	require.Equal(t, "pebble:a@b", Shown("pebble:a@b"))
}
