package stores

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
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
