package gate

import (
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
const Lost = "restore the table from a snapshot or a backup"

// Explained returns an error with its kind and with what to do, where a server says only what it does not take.
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
	return err
}
