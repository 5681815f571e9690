package stores

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
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
	for _, name := range []string{"pebble:~/m", "pebble:~", "pebble:~bob/m"} {
		require.ErrorContains(t, Check(name), "a shell does not replace the ~ behind the colon: write the folder out, or ./ before one that is named so")
	}
	require.NoError(t, Check("pebble:./~/m"))
	require.NoError(t, Check("pebble:m~"))
	require.NoError(t, Check("pebble:///m"))
	require.NoError(t, Check("pebble:m//"))
	require.EqualError(t, Check("pebble://m/x"),
		`store "pebble://m/x": it begins as the name of a server, and would be the folder /m/x: write pebble:m/x, or pebble:/m/x; it is pebble:DIR`)
	require.Equal(t, "pebble:a@b", Shown("pebble:a@b"))
}

// The namespace of HBase itself is refused as every name that cannot be right.
func TestNamespaceOfHBaseItself(t *testing.T) {
	err := Check("hbase://zk1/hbase")
	require.ErrorIs(t, err, exit.ErrUsage)
	require.ErrorContains(t, err, `and not "hbase"`)
	require.NoError(t, Check("hbase://zk1/hbase2"))
}

// A listed is a database that says what it has.
type listed struct {
	driver.DB
	names  []string
	err    error
	closed bool
}

func (l *listed) Families(context.Context) ([]string, error) { return l.names, l.err }
func (l *listed) Close() error                               { l.closed = true; return nil }

// A database is asked what it has before a command works on it, also where that makes a store: what does not answer then is waited for
// here, where that is said.
func TestDatabasesAreAsked(t *testing.T) {
	for _, c := range []struct {
		db     listed
		create bool
		fails  error
	}{
		{listed{names: []string{"catalogue"}}, false, nil},
		{listed{}, false, errNoStore},
		{listed{}, true, nil},
		{listed{err: driver.ErrUnavailable}, true, driver.ErrUnavailable},
	} {
		_, err := used(t.Context(), &c.db, c.create)
		require.ErrorIs(t, err, c.fails)
		require.Equal(t, c.fails != nil, c.db.closed)
	}
}
