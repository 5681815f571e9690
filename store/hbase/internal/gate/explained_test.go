package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase/region"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What a server does not take for a reason that an administrator can change has that reason, and stays what it is.
func TestExplained(t *testing.T) {
	const exception = "HBase Java exception org.apache.hadoop.hbase.DoNotRetryIOException: "
	for _, c := range []struct {
		text string
		kind error
		todo string
	}{
		{exception + "region is read only", driver.ErrUnauthorised, "alter it back in the shell of HBase"},
		{"HBase Java exception org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: Column family c does not exist", driver.ErrLayout, Lost},
		{exception + "Cell with size 5140 exceeds limit of 2000 bytes", nil, "hbase.server.keyvalue.maxsize"},
	} {
		err := errors.New(c.text)
		explained := Explained(err)
		require.ErrorIs(t, explained, err)
		require.ErrorContains(t, explained, c.todo)
		if c.kind != nil {
			require.ErrorIs(t, explained, c.kind)
		}
	}
	other := errors.New(exception + "something else")
	require.Equal(t, other, Explained(other))
}

// What a server cannot do at the moment may succeed later: such an error is retryable, and others are not. What did not begin
// may be sent again.
func TestExceptionsThatPass(t *testing.T) {
	for class, c := range map[string]struct {
		message         string
		passes, refused bool
	}{
		"java.io.IOException":                                                {message: "stream already broken", passes: true},
		"java.io.FileNotFoundException":                                      {passes: true},
		"org.apache.hadoop.ipc.RemoteException":                              {message: "Operation category WRITE is not supported in state standby", passes: true},
		"java.io.InterruptedIOException":                                     {passes: true},
		"org.apache.hadoop.hbase.CallDroppedException":                       {passes: true, refused: true},
		"org.apache.hadoop.hbase.exceptions.TimeoutIOException":              {message: "Timed out waiting for lock for row", passes: true},
		"org.apache.hadoop.hbase.regionserver.RegionServerStoppedException":  {passes: true, refused: true},
		"org.apache.hadoop.hbase.regionserver.wal.WALSyncTimeoutIOException": {passes: true},
		"org.apache.hadoop.hbase.DoNotRetryIOException":                      {},
		"org.apache.hadoop.hbase.exceptions.RequestTooBigException":          {},
		"org.apache.hadoop.hbase.io.hfile.CorruptHFileException":             {message: "caused by java.io.IOException: no"},
		"org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException":   {},
	} {
		err := fmt.Errorf("hbase: apply to t: HBase Java exception %s: %[1]s: %s", class, c.message)
		explained := Explained(err)
		require.ErrorIs(t, explained, err)
		require.Equal(t, c.passes, errors.Is(explained, driver.ErrUnavailable), class)
		require.Equal(t, c.refused, Refused(class[strings.LastIndexByte(class, '.')+1:], err), class)
	}
	require.True(t, Refused("IOException", errors.New("Cannot append; log is closed, regionName = r")))
}

// What nobody serves is a table that is disabled, or a region that is not open. A region that was split has others in its place.
func TestUnserved(t *testing.T) {
	const enc = "0123456789abcdef0123456789abcdef"
	state := func(name, value string) []driver.Cell {
		return []driver.Cell{{Qualifier: []byte("info:server")}, {Qualifier: []byte(name), Value: []byte(value)}}
	}
	rows := func(table string, states ...string) []driver.Row {
		all := []driver.Row{{Key: []byte("ns:t"), Cells: state("table:state", table)}}
		for _, s := range states {
			all = append(all, driver.Row{Key: []byte("ns:t,a.b,1795993119581." + enc + "."), Cells: state("info:state", s)})
		}
		return all
	}
	const enabled = "\x08\x00"
	require.Empty(t, Unserved("ns:t", rows(enabled, "OPEN", "SPLIT", "OPEN", "")))
	require.Contains(t, Unserved("ns:t", rows(enabled, "OPEN", "CLOSED")), "is in the state CLOSED: if it stays so, assign it in the shell of HBase: assign '"+enc+"'")
	for _, disabled := range []string{"\x08\x01", "\x08\x02"} {
		require.Contains(t, Unserved("ns:t", rows(disabled, "CLOSED")), "its table ns:t is disabled: enable it")
	}
}

// The last error is told, and where it says that there is no master, so is what to do.
func TestLast(t *testing.T) {
	for text, says := range map[string]string{
		"server is not reachable failed to read the /hbase/master znode: zk: node does not exist":             "ZooKeeper has no /hbase/master: no master of HBase runs",
		"server is not reachable failed to read the /hbase/master znode: zk: connection closed":               "the last error was: server is not reachable failed to read",
		"server is not reachable failed to read the /hbase/meta-region-server znode: zk: node does not exist": "the last error was: server is not reachable failed to read",
		"connection refused": "the last error was: connection refused",
	} {
		err := errors.New(text)
		last := Last(err)
		require.ErrorContains(t, last, says)
		require.NotErrorIs(t, last, err)
		_, connected := last.(interface{ Connected() bool })
		require.Equal(t, strings.HasPrefix(says, "ZooKeeper"), connected)
	}
}

// The text of an error of gohbase is plain, so that people read it.
func TestPlain(t *testing.T) {
	for want, err := range map[string]error{
		"a: the connection to the server was lost":     fmt.Errorf("a: %w", region.ErrClientClosed),
		"a: got a response with a nonsensical call ID": fmt.Errorf("a: %w", region.ErrMissingCallID),
	} {
		require.Equal(t, want, Plain(err.Error()))
	}
	for _, err := range []error{region.ServerError{}, region.RetryableError{}, region.NotServingRegionError{}} {
		require.NotContains(t, Plain(err.Error()+": b c"), "region.")
	}
	require.Equal(t, "a b", Plain("a\nb"))
}
