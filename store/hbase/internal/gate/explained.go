package gate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// refusals are what servers say when somebody has altered a table, or set a limit. The class of the exception tells few of them.
var refusals = []struct {
	says string
	kind error // may be nil
	todo string
}{
	{"region is read only", driver.ErrUnauthorised, "the table was altered to READONLY: alter it back in the shell of HBase"},
	{"NoSuchColumnFamilyException", driver.ErrLayout, "the column family was removed from the table: " + Lost},
	{"exceeds limit of", nil, "the limit is hbase.server.keyvalue.maxsize, of the servers or the table: raise it, or write smaller values"},
}

// Lost is what to do where a table has lost its column family.
const Lost = "restore the table from a snapshot or a backup; without one, drop it in the shell of HBase: then it is said what can be done without it"

// refused are the exceptions by which a server says that it did not begin with a request. Only
// after these may a conditional put be sent again.
var refused = map[string]bool{
	"NotServingRegionException":    true,
	"RegionMovedException":         true,
	"RegionOpeningException":       true,
	"WrongRegionException":         true,
	"CallQueueTooBigException":     true,
	"CallDroppedException":         true,
	"RegionTooBusyException":       true,
	"RpcThrottlingException":       true,
	"ServerNotRunningYetException": true,
	"RegionServerAbortedException": true,
	"RegionServerStoppedException": true,
}

// Refused reports whether an exception of the class, without its package, is one of those. A log that is closed is looked
// at before anything is changed.
func Refused(class string, err error) bool {
	return refused[class] || class == "IOException" && strings.Contains(err.Error(), "Cannot append; log is closed")
}

// passing begin the names of exceptions of a server that is overloaded, ends, or has trouble with its log or files, or that
// waited too long for another request. HBase's own client sends a request again after them, and gohbase does not.
var passing = []string{
	"java.io.", "java.net.", "java.nio.", "org.apache.hadoop.hdfs.", "org.apache.hadoop.ipc.", // of its file system
	"org.apache.hadoop.hbase.CallDroppedException",
	"org.apache.hadoop.hbase.DroppedSnapshotException",
	"org.apache.hadoop.hbase.exceptions.TimeoutIOException", // of the lock of a row
	"org.apache.hadoop.hbase.regionserver.RegionServerAbortedException",
	"org.apache.hadoop.hbase.regionserver.RegionServerStoppedException",
	"org.apache.hadoop.hbase.regionserver.WrongRegionException",
	"org.apache.hadoop.hbase.regionserver.wal.",
}

// Explained returns an error with its kind and with what to do, where a server says only what it does not take, or that it
// cannot do it now.
func Explained(err error) error {
	text := err.Error()
	for _, r := range refusals {
		switch {
		case !strings.Contains(text, r.says):
		case r.kind != nil:
			return fmt.Errorf("%w; %w: %s", err, r.kind, r.todo)
		default:
			return fmt.Errorf("%w; %s", err, r.todo)
		}
	}
	_, class, _ := strings.Cut(text, "HBase Java exception ")
	for _, p := range passing {
		if strings.HasPrefix(class, p) {
			return fmt.Errorf("%w; %w: it passes by itself in most cases; if it does not, look into the log of the server", err, driver.ErrUnavailable)
		}
	}
	return err
}

// Last returns the last error before a call ended without an answer. It wraps none, since what failed then is not why the call ended.
func Last(err error) error {
	_, znode, _ := strings.Cut(err.Error(), "failed to read the ")
	if znode, rest, _ := strings.Cut(znode, " znode: "); strings.HasSuffix(znode, "/master") && strings.HasSuffix(rest, "node does not exist") {
		return connected{fmt.Errorf("ZooKeeper has no %s: no master of HBase runs, or its zookeeper.znode.parent is another; "+
			"start the master, which clients open tables by; programs that have them open go on without it", znode)}
	}
	return errors.New("the last error was: " + err.Error())
}

// A connected error is one of a database that was connected to, so that the error says what is wrong with it.
type connected struct{ error }

func (connected) Connected() bool { return true }

// Plain returns the text of an error of gohbase on one line, and without the names of its types.
func Plain(text string) string { return plain.Replace(text) }

var plain = strings.NewReplacer(
	"region.ServerError: client is closed", "the connection to the server was lost",
	"region.ServerError: ", "", "region.RetryableError: ", "", "region.NotServingRegionError: ", "",
	"\n", " ",
)
