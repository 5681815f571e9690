package hbase

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/gate"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

// fail gives an error of the client its kind. The context decides first: what the client says
// when it ran out of time is of no more use.
func (d *DB) fail(ctx context.Context, what string, err error) error {
	if err == nil {
		d.note(nil)
		return nil
	}
	var (
		server  region.ServerError
		moved   region.NotServingRegionError
		retry   region.RetryableError
		done    = ctx.Err()
		own     = errors.Is(context.Cause(ctx), errNoAnswer)
		kind    error
		message = concise{err}
	)
	d.mu.Lock()
	last, closed := d.last, d.closed
	d.mu.Unlock()
	denied := d.gate.Reason()
	switch {
	case closed, errors.Is(err, gohbase.ErrClientClosed):
		kind = driver.ErrClosed
	case isKind(err):
		return fmt.Errorf("hbase: %s: %w", what, message)
	case denied != nil && javaClass(err) == "" && (done == nil || errors.Is(context.Cause(ctx), denied) || errors.Is(done, context.DeadlineExceeded)):
		return fmt.Errorf("hbase: %s: %w", what, denied)
	case ctx.Value(over{}) != nil: // which says nothing of the database
		return fmt.Errorf("hbase: %s: %w", what, pause.Ended(ctx))
	case errors.Is(done, context.DeadlineExceeded) && (own || last != nil):
		// The client tries until its time is over, so that a database that cannot be reached, or
		// a region that nobody serves, shows itself like this. The caller's own deadline alone shows nothing.
		ended := pause.Ended(ctx)
		if own {
			ended = errNoAnswer
		}
		if last != nil && gate.Unauthorised[javaClass(last)] {
			return fmt.Errorf("hbase: %s: %w: %w", what, driver.ErrUnauthorised, concise{last})
		}
		if last != nil {
			return fmt.Errorf("hbase: %s: %w: %w; %w", what, driver.ErrUnavailable, ended, gate.Last(concise{last}))
		}
		return fmt.Errorf("hbase: %s: %w: %w", what, driver.ErrUnavailable, ended)
	case done != nil:
		return fmt.Errorf("hbase: %s: %w", what, pause.Ended(ctx))
	case errors.Is(err, gohbase.TableNotFound) || javaClass(err) == "TableNotFoundException":
		kind = driver.ErrNoFamily
	case gate.Unauthorised[javaClass(err)]:
		kind = driver.ErrUnauthorised
	case errors.Is(err, gohbase.ErrCannotFindRegion),
		errors.As(err, &server), errors.As(err, &moved), errors.As(err, &retry):
		kind = driver.ErrUnavailable
	default:
		return gate.Explained(fmt.Errorf("hbase: %s: %w", what, message))
	}
	return fmt.Errorf("hbase: %s: %w: %w", what, kind, message)
}

// fail returns the error of a call about the family. A table that was disabled, or a region that is not open, is served by nobody:
// that is said, since else it seems as if servers were down.
func (f *family) fail(ctx context.Context, what string, err error) error {
	err = f.db.fail(ctx, what+" "+f.spec.Name, err)
	if errors.Is(err, errNoAnswer) {
		if why := f.unserved(); why != "" {
			return fmt.Errorf("%w; %s", err, why)
		}
	}
	return err
}

// unserved says why nobody serves the table, or a part of it, where the cluster knows that; "" otherwise.
func (f *family) unserved() string {
	ctx, cancel := context.WithTimeout(context.Background(), f.db.reserve())
	defer cancel()
	// Its row, and then those of its regions, which have a comma behind its name. Of very many the first ones must do.
	rows := &pb.Scan{StartRow: f.table, StopRow: []byte(string(f.table) + "-"), TimeRange: &pb.TimeRange{}}
	c := &scanCall{call: f.db.request(ctx, []byte("hbase:meta"), f.table), rows: 1000, scan: rows, decode: wire.DecodeForeign}
	if _, err := f.db.send(ctx, c); err != nil {
		return ""
	}
	return gate.Unserved(string(f.table), c.page)
}

type over struct{}

// errNoAnswer is why a call ends whose caller has set no time.
var errNoAnswer = errors.New("no answer within the time that Options.Timeout gives")

func isKind(err error) bool {
	for _, k := range []error{driver.ErrLayout, driver.ErrNoFamily, driver.ErrUnavailable, driver.ErrUnauthorised, driver.ErrClosed, driver.ErrUnknownOutcome} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// concise leaves the stack trace of the server, and names of types of the client, out of the text of an error.
type concise struct{ error }

func (c concise) Unwrap() error { return c.error }
func (c concise) Error() string {
	text := c.error.Error()
	if i := strings.Index(text, "\n\tat "); i >= 0 {
		text = text[:i]
	}
	return gate.Plain(text)
}

const javaPrefix = "HBase Java exception "

// javaClass returns the name, without its package, of the exception that the server threw.
func javaClass(err error) string {
	_, class, ok := strings.Cut(err.Error(), javaPrefix)
	if !ok {
		return ""
	}
	class, _, _ = strings.Cut(class, ":")
	return class[strings.LastIndexByte(class, '.')+1:]
}

// impossible are the exceptions by which a server says that it will never do it.
var impossible = map[string]bool{
	"DoNotRetryIOException":       true,
	"NoSuchColumnFamilyException": true,
	"FailedSanityCheckException":  true,
	"AccessDeniedException":       true,
	"TableNotFoundException":      true,
	"IllegalArgumentException":    true,
}

// scannerLost are those by which it says that a scanner lost its files or its region while it was read. The page can be
// read again: its scanner was opened for it alone.
var scannerLost = map[string]bool{
	"UnknownScannerException": true, // to clients that say no version, as gohbase does
	"ScannerResetException":   true,
}

var silenceOnce sync.Once

// silence keeps the lines that gohbase writes about every lost connection off standard error. It
// logs to logrus's standard logger, which is the application's too: so the lines are taken out
// where they are formatted, and only those.
func silence() {
	silenceOnce.Do(func() {
		l := logrus.StandardLogger()
		l.SetFormatter(withoutGohbase{l.Formatter})
	})
}

type withoutGohbase struct{ logrus.Formatter }

func (f withoutGohbase) Format(e *logrus.Entry) ([]byte, error) {
	// What ends the process is worth a line from whoever it comes.
	if e.Level > logrus.FatalLevel && fromGohbase() {
		return nil, nil
	}
	return f.Formatter.Format(e)
}

func fromGohbase() bool {
	var callers [24]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "github.com/tsuna/gohbase") {
			return true
		}
		if !more {
			return false
		}
	}
}
