package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

var anyBytes = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}), 0, 6)

// A get of a batch takes its own cells out of those of all, also where some have an unknown format.
func TestBatchedGets(t *testing.T) {
	row := []byte("row")
	cellOf := func(header, value string) []byte {
		return wire.AppendCell(nil, row, wire.QualifierHeader, []byte("q"), 7, wire.TypePut, header, []byte(value))
	}
	answered := func(n int32) *pb.GetResponse { return &pb.GetResponse{Result: &pb.Result{AssociatedCellCount: &n}} }
	known, unknown := cellOf(wire.ValueHeader, "value"), cellOf("\x77", "value")
	all := slices.Concat(known, known, unknown, known)
	read := func(c *batchedGet, b []byte, n int32) int {
		size, err := c.DeserializeCellBlocks(answered(n), b)
		require.NoError(t, err)
		return int(size)
	}
	want := []driver.Cell{{Qualifier: []byte("q"), Value: []byte("value"), Stamp: 7}}
	c := &batchedGet{of: new(family), stamps: true}
	require.Zero(t, read(c, all, 0))
	require.Equal(t, len(known), read(c, all, 1))
	cells, err := c.answer(answered(1))
	require.NoError(t, err)
	require.Equal(t, want, cells)
	cells, err = c.answer(answered(0))
	require.NoError(t, err)
	require.Empty(t, cells, "of an earlier attempt")

	require.Equal(t, len(unknown), read(c, all[2*len(known):], 1), "the next one goes on behind it")
	_, err = c.answer(answered(1))
	require.ErrorIs(t, err, driver.ErrLayout)
	require.Equal(t, len(known)-1, read(c, known[1:], 1))
	_, err = c.answer(answered(1))
	require.ErrorIs(t, err, wire.ErrCell)
}

func TestBelow(t *testing.T) {
	require.Equal(t, []byte("a"), below([]byte("a\x00")))
	rapid.Check(t, func(t *rapid.T) {
		k := append([]byte{1}, anyBytes.Draw(t, "key")...)
		require.Negative(t, bytes.Compare(below(k), k))
	})
}

func TestCut(t *testing.T) {
	long := bytes.Repeat([]byte{7}, driver.MaxRowKey+1)
	got, cutOff := cut(long)
	require.Len(t, got, driver.MaxRowKey)
	require.True(t, cutOff)
	got, cutOff = cut(long[1:])
	require.Len(t, got, driver.MaxRowKey)
	require.False(t, cutOff)
	got, _ = cut(nil)
	require.Nil(t, got)
}

func TestSplitKeys(t *testing.T) {
	prefix := driver.FamilySpec{PrefixBytes: 8}
	require.Empty(t, splitKeys(prefix, 1))
	require.Empty(t, splitKeys(driver.FamilySpec{}, 8), "keys of no known spread")
	require.Equal(t, [][]byte{{0x40, 0}, {0x80, 0}, {0xc0, 0}}, splitKeys(prefix, 4))
	require.Len(t, splitKeys(driver.FamilySpec{SpreadBits: 2}, 100), 3, "no more regions than the bits tell apart")
	for n := 2; n < 300; n++ {
		keys := splitKeys(prefix, n)
		require.Len(t, keys, n-1)
		for i := 1; i < len(keys); i++ {
			require.Negative(t, bytes.Compare(keys[i-1], keys[i]))
		}
	}
}

// TestAdvance: where a scan goes on after each kind of answer.
func TestAdvance(t *testing.T) {
	rows := func(keys ...string) (rs []driver.Row) {
		for _, k := range keys {
			rs = append(rs, driver.Row{Key: []byte(k)})
		}
		return rs
	}
	for _, c := range []struct {
		name     string
		reverse  bool
		stop     string
		call     scanCall
		from, to string
		at       string
		after    bool
		done     bool
	}{
		{name: "more rows in the region", call: scanCall{more: true, page: rows("b", "c")}, from: "a", to: "m", at: "c", after: true},
		{name: "out of time before a row", call: scanCall{more: true, cursor: []byte("d")}, from: "a", to: "m", at: "d"},
		{name: "out of time behind a row", call: scanCall{more: true, page: rows("b"), cursor: []byte("d")}, from: "a", to: "m", at: "b", after: true},
		{name: "out of time at once", call: scanCall{more: true}, from: "a", to: "m", at: "start"},
		{name: "next region", call: scanCall{page: rows("b")}, from: "a", to: "m", at: "m"},
		{name: "last region", from: "m", at: "", done: true},
		{name: "the region ends at the bound", stop: "m", from: "a", to: "m", at: "m", done: true},
		{name: "the region ends beyond the bound", stop: "l", from: "a", to: "m", at: "m", done: true},
		{name: "next region in reverse", reverse: true, stop: "a", from: "m", at: "m", after: true},
		{name: "first region in reverse", reverse: true, to: "m", at: "", after: true, done: true},
		{name: "the bound in reverse", reverse: true, stop: "m", from: "m", at: "m", after: true, done: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scan{at: []byte("start"), reverse: c.reverse}
			if c.stop != "" {
				s.stop = []byte(c.stop)
			}
			s.advance(&c.call, []byte(c.from), []byte(c.to))
			require.Equal(t, c.at, string(s.at))
			require.Equal(t, c.after, s.after)
			require.Equal(t, c.done, s.done)
		})
	}
}

func TestAnswerFindsCursor(t *testing.T) {
	r := &pb.ScanResponse{MoreResultsInRegion: proto.Bool(true)}
	cursor := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("row"))
	unknown := appendBool(nil, 10, true)
	unknown = protowire.AppendBytes(protowire.AppendTag(unknown, fieldResponseCursor, protowire.BytesType), cursor)
	r.ProtoReflect().SetUnknown(unknown)
	c := &scanCall{page: []driver.Row{{}}}
	c.answer(r)
	require.Equal(t, "row", string(c.cursor))
	require.True(t, c.more)
	require.Empty(t, c.page)
}

// TestOutcome: what each answer to a conditional put says about it.
func TestOutcome(t *testing.T) {
	java := func(class string) error {
		return errors.New(javaPrefix + "org.apache.hadoop.hbase." + class + ":\nwhy\n\tat there")
	}
	for _, c := range []struct {
		name  string
		sent  bool
		err   error
		kind  error // nil is another error
		again bool
	}{
		{name: "lost after it was sent", sent: true, err: region.ErrClientClosed, kind: driver.ErrUnknownOutcome},
		{name: "lost before it was sent", err: region.ErrClientClosed, again: true},
		{name: "region moved", sent: true, err: java("NotServingRegionException"), again: true},
		{name: "server busy", sent: true, err: java("CallQueueTooBigException"), again: true},
		{name: "log lost", sent: true, err: java("regionserver.wal.WALSyncTimeoutIOException"), kind: driver.ErrUnknownOutcome},
		{name: "server stops", sent: true, err: java("regionserver.RegionServerStoppedException"), again: true},
		{name: "server aborts", sent: true, err: java("regionserver.RegionServerAbortedException"), again: true},
		{name: "server drops what waits", sent: true, err: java("CallDroppedException"), again: true},
		{name: "log closed", sent: true, err: errors.New(javaPrefix + "java.io.IOException:\njava.io.IOException: Cannot append; log is closed, regionName = r"), again: true},
		{name: "log not written", sent: true, err: errors.New(javaPrefix + "java.io.IOException:\nwhy"), kind: driver.ErrUnknownOutcome},
		{name: "never", sent: true, err: java("DoNotRetryIOException")},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &conditionalCall{}
			if c.sent {
				call.state.Store(sent)
			}
			done, err := call.outcome(hrpc.RPCResult{Error: c.err})
			require.False(t, done)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.again, errors.Is(err, errNotDone))
			require.Equal(t, c.kind != nil, errors.Is(err, driver.ErrUnknownOutcome))
		})
	}
	_, err := (&conditionalCall{}).outcome(hrpc.RPCResult{Msg: &pb.MutateResponse{}})
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
}

// TestSentOnce: whatever the client does, a conditional put is written once, and not at all when
// the caller has gone.
func TestSentOnce(t *testing.T) {
	c := &conditionalCall{}
	c.SetRegion(region.NewInfo(1, nil, []byte("t"), []byte("n"), nil, nil))
	require.NotNil(t, c.ToProto())
	require.Nil(t, c.ToProto())
	c = &conditionalCall{}
	c.state.Store(abandoned)
	require.Nil(t, c.ToProto())
}

func TestErrorKinds(t *testing.T) {
	d := &DB{}
	ctx := context.Background()
	require.ErrorIs(t, d.fail(ctx, "x", gohbase.TableNotFound), driver.ErrNoFamily)
	require.ErrorIs(t, d.fail(ctx, "x", gohbase.TableNotFound), gohbase.TableNotFound)
	require.ErrorIs(t, d.fail(ctx, "x", gohbase.ErrClientClosed), driver.ErrClosed)
	// What the user may not do stays so, also where the client tries until its time is over.
	denied := fmt.Errorf("%sorg.apache.hadoop.hbase.security.AccessDeniedException:\norg.apache.hadoop.hbase.security.AccessDeniedException: "+
		"Insufficient permissions for user 'weak'", javaPrefix)
	late, over := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer over()
	for _, err := range []error{d.fail(ctx, "x", denied), (&DB{last: denied}).fail(late, "x", late.Err())} {
		require.ErrorIs(t, err, driver.ErrUnauthorised)
		require.NotErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorContains(t, err, "Insufficient permissions")
	}
	err := d.fail(ctx, "x", region.ErrClientClosed)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	var server region.ServerError
	require.ErrorAs(t, err, &server)
	err = d.fail(ctx, "x", fmt.Errorf("%sa.b.SomeException:\na.b.SomeException: why\n\tat a.b.C.d(E.java:1)", javaPrefix))
	require.ErrorContains(t, err, "why")
	require.NotContains(t, err.Error(), "E.java")
	require.NotErrorIs(t, err, driver.ErrUnavailable)
	err = d.fail(ctx, "x", fmt.Errorf("%sjava.io.IOException:\njava.io.IOException: of the log\n\tat a.b.C.d(E.java:1)", javaPrefix))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotContains(t, err.Error(), "E.java")
	require.NoError(t, d.fail(ctx, "x", nil))
	// What succeeds ends what was wrong before. A call that began too late says nothing of the database.
	d.note(errors.New("an old error"))
	require.NoError(t, d.fail(ctx, "x", nil))
	require.ErrorIs(t, d.fail(late, "x", late.Err()), context.DeadlineExceeded)
	require.NotErrorIs(t, d.fail(late, "x", late.Err()), driver.ErrUnavailable, "the caller's time was over, and nothing else is known")
	require.NotContains(t, d.fail(late, "x", late.Err()).Error(), "an old error")
	d.note(errors.New("connection refused"))
	require.ErrorIs(t, d.fail(late, "x", late.Err()), driver.ErrUnavailable)
	require.NoError(t, d.fail(ctx, "x", nil))
	begun, _ := d.bound(late)
	require.ErrorIs(t, d.fail(begun, "x", late.Err()), context.DeadlineExceeded)
	require.NotErrorIs(t, d.fail(begun, "x", late.Err()), driver.ErrUnavailable)
	own, cancel := (&DB{timeout: time.Nanosecond}).bound(ctx)
	defer cancel()
	<-own.Done()
	require.ErrorIs(t, d.fail(own, "x", own.Err()), driver.ErrUnavailable)
	require.NotErrorIs(t, d.fail(own, "x", own.Err()), context.DeadlineExceeded, "nobody else's time was over")
	reason := errors.New("a reason")
	cancelled, stop := context.WithCancelCause(ctx)
	stop(reason)
	require.ErrorIs(t, d.fail(cancelled, "x", context.Canceled), reason)
	require.NotErrorIs(t, d.fail(cancelled, "x", context.Canceled), driver.ErrUnavailable)
}

func TestOpenArguments(t *testing.T) {
	for _, c := range []struct {
		quorum string
		o      Options
	}{
		{"", Options{}}, {"q:1", Options{Namespace: "a:b"}}, {"q:1", Options{Namespace: "hbase"}},
		{"q:1", Options{Namespace: strings.Repeat("n", 61)}}, {"q:1", Options{SplitRegions: -1}}, {"q:1", Options{Timeout: -1}},
	} {
		_, err := Open(t.Context(), c.quorum, &c.o)
		require.Error(t, err)
	}
}

// TestSilence: lines of gohbase are left out, those of the application are not.
func TestSilence(t *testing.T) {
	silence()
	var b bytes.Buffer
	logrus.SetOutput(&b)
	defer logrus.SetOutput(os.Stderr)
	logrus.Error("a line of the application")
	c := region.NewClient("127.0.0.1:1", region.RegionClient, 1, 0, "u", 0, nil, nil)
	require.Error(t, c.Dial(t.Context())) // of which gohbase logs a line
	require.Contains(t, b.String(), "a line of the application")
	require.NotContains(t, b.String(), "closing region client")
}

// answers are what a server answers to one request after the other.
type answers []error

func (a *answers) SendRPC(c hrpc.Call) (proto.Message, error) {
	err := (*a)[0]
	*a = (*a)[1:]
	if err != nil {
		return nil, err
	}
	c.SetRegion(region.NewInfo(1, nil, []byte("t"), []byte("n"), nil, nil))
	return &pb.ScanResponse{}, nil
}

// A page whose scanner lost its files, as those of a region that is split, is read again. The real server does so now
// and then, when a region is split under load.
func TestLostScannerIsOpenedAgain(t *testing.T) {
	java := func(class string) error { return errors.New(javaPrefix + "org.apache.hadoop.hbase." + class + ": why") }
	for name, c := range map[string]struct {
		answers answers
		err     string
	}{
		"once":                 {answers: answers{java("UnknownScannerException"), nil}},
		"of a later server":    {answers: answers{java("exceptions.ScannerResetException"), java("UnknownScannerException"), nil}},
		"another is an error":  {answers{java("DoNotRetryIOException")}, "DoNotRetryIOException"},
		"another one, in turn": {answers{java("UnknownScannerException"), java("DoNotRetryIOException")}, "DoNotRetryIOException"},
	} {
		t.Run(name, func(t *testing.T) {
			db := &DB{rpc: &c.answers, timeout: time.Minute, regions: make(map[hrpc.RegionInfo]struct{})}
			f := &family{db: db, spec: driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}}
			var err error
			for _, err = range f.Scan(t.Context(), driver.Range{}) {
				break
			}
			require.Empty(t, c.answers)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
		})
	}
}

// What an overloaded server has dropped from its queue is sent again, alone as in a batch.
func TestDroppedRequestsAreSentAgain(t *testing.T) {
	drop := errors.New(javaPrefix + "org.apache.hadoop.hbase.CallDroppedException:\nwhy")
	r := []byte("r")
	one := driver.Mutation{Row: r, Puts: []driver.Cell{{Value: []byte("v")}}}
	for name, call := range map[string]func(*family) error{
		"scan": func(f *family) (err error) {
			for _, err = range f.Scan(t.Context(), driver.Range{}) {
				break
			}
			return err
		},
		"mutation": func(f *family) error { return f.Apply(t.Context(), one) },
		"mutations": func(f *family) error {
			return f.Apply(t.Context(), one, driver.Mutation{Row: []byte("s"), DeleteRow: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := answers{drop, drop, nil}
			db := &DB{rpc: &a, client: &batches{answers: &a}, timeout: time.Minute, regions: make(map[hrpc.RegionInfo]struct{})}
			require.NoError(t, call(&family{db: db, spec: driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}}))
			require.Empty(t, a)
		})
	}
}

// batches answers each batch as one request.
type batches struct {
	gohbase.Client
	*answers
}

func (b *batches) SendBatch(_ context.Context, calls []hrpc.Call) ([]hrpc.RPCResult, bool) {
	results := make([]hrpc.RPCResult, len(calls))
	_, results[0].Error = b.SendRPC(calls[0])
	return results, results[0].Error == nil
}

// A request that the client sends a second time may be made twice. Who makes it learns that.
func TestRequestsSentTwiceAreNoted(t *testing.T) {
	f := &family{db: &DB{regions: make(map[hrpc.RegionInfo]struct{})}, table: []byte("t")}
	m := driver.Mutation{Row: []byte("r"), Puts: []driver.Cell{{Value: []byte("v")}}}
	for name, call := range map[string]func(context.Context) hrpc.Call{
		"change": func(ctx context.Context) hrpc.Call {
			c, err := f.mutate(ctx, m)
			require.NoError(t, err)
			return c
		},
		"atomic change": func(ctx context.Context) hrpc.Call { return f.atomic(ctx, m, nil) },
	} {
		ctx, repeated := pause.Noting(t.Context())
		c := call(ctx)
		for i := range 3 {
			c.SetRegion(region.NewInfo(1, nil, []byte("t"), []byte("n"), nil, nil))
			require.Equal(t, i > 0, repeated(), name)
		}
	}
}

// A closingServer answers a change with what a server says whose log is closed, and later takes it.
type closingServer struct{ refuses, changes int }

func (s *closingServer) SendRPC(c hrpc.Call) (proto.Message, error) {
	c.SetRegion(region.NewInfo(1, nil, []byte("t"), []byte("n"), nil, nil))
	result := &pb.RegionActionResult{}
	switch c.ToProto().(type) {
	case *pb.GetRequest:
		return &pb.GetResponse{}, nil
	case *pb.MultiRequest:
		if s.changes++; s.changes <= s.refuses {
			result.Exception = &pb.NameBytesPair{Name: proto.String("java.io.IOException"), Value: []byte("java.io.IOException: Cannot append; log is closed, regionName = n")}
		}
	}
	return &pb.MultiResponse{RegionActionResult: []*pb.RegionActionResult{result}}, nil
}

// What both puts and deletes is sent again to a server that did not begin with it, as all else is.
func TestClosedLogIsNoFailure(t *testing.T) {
	s := &closingServer{refuses: 2}
	db := &DB{rpc: s, timeout: time.Minute, regions: make(map[hrpc.RegionInfo]struct{})}
	f := &family{db: db, spec: driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}}
	require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: []byte("r"), Puts: []driver.Cell{{Value: []byte("v")}}, Deletes: [][]byte{[]byte("q")}}))
	require.Equal(t, 3, s.changes)
}

// An oldServer answers as one before HBase 2.4 does, which overlooks the conditions of single changes.
type oldServer struct {
	hrpc.RegionClient
	multis []*pb.MultiRequest
}

func (*oldServer) Addr() string { return "old" }
func (s *oldServer) QueueRPC(c hrpc.Call) {
	m := c.ToProto().(*pb.MultiRequest)
	s.multis = append(s.multis, m)
	results := make([]*pb.RegionActionResult, len(m.RegionAction))
	for i := range results {
		results[i] = &pb.RegionActionResult{}
	}
	c.ResultChan() <- hrpc.RPCResult{Msg: &pb.MultiResponse{RegionActionResult: results}}
}

// SendRPC locates, and says of every single request that its condition holds.
func (s *oldServer) SendRPC(c hrpc.Call) (proto.Message, error) {
	r := region.NewInfo(1, nil, []byte("t"), []byte("n"), nil, nil)
	r.SetClient(s)
	c.SetRegion(r)
	switch m := c.ToProto().(type) {
	case nil:
		return nil, errors.New("located")
	case *pb.MultiRequest:
		s.multis = append(s.multis, m)
	}
	return &pb.MultiResponse{Processed: pbTrue}, nil
}

func TestConditionsThatOldServersOverlook(t *testing.T) {
	s := &oldServer{}
	db := &DB{rpc: s, timeout: time.Minute, regions: make(map[hrpc.RegionInfo]struct{}), heed: make(map[string]hrpc.RegionClient)}
	f := &family{db: db, spec: driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}}
	seen := driver.Cell{Qualifier: []byte("q"), Value: []byte("old"), Stamp: 7}
	var replacements []driver.Replacement
	for _, row := range []string{"a", "b", "c"} {
		replacements = append(replacements, driver.Replacement{Row: []byte(row), Seen: seen, Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("new")}}})
	}
	late, err := f.Replace(t.Context(), replacements...)
	require.NoError(t, err)
	require.Empty(t, late)
	require.Len(t, s.multis, 1+len(replacements))
	require.Len(t, s.multis[0].RegionAction, 1, "which tries it out")
	require.Equal(t, pb.MutationProto_DELETE, s.multis[0].RegionAction[0].Action[0].Mutation.GetMutateType())
	for _, m := range s.multis[1:] {
		require.Len(t, m.RegionAction, 1)
		require.NotNil(t, m.Condition, "which old servers heed")
	}

	// Without conditions there is nothing that they could overlook.
	s.multis = nil
	var mutations []driver.Mutation
	for _, r := range replacements {
		mutations = append(mutations, driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: [][]byte{[]byte("p")}})
	}
	require.NoError(t, f.Apply(t.Context(), mutations...))
	require.Len(t, s.multis, 1)
	require.Len(t, s.multis[0].RegionAction, len(mutations))
}

// A table that somebody has altered so that it loses rows, or shows others, is refused, and the error says how it is set back.
func TestAlteredTables(t *testing.T) {
	d := &DB{namespace: "n"}
	spec := driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}
	schema := func(of, family []string) *pb.TableSchema {
		return &pb.TableSchema{
			Attributes:     pairs(append([]string{layoutAttribute, layout(spec)}, of...)...),
			ColumnFamilies: []*pb.ColumnFamilySchema{{Name: []byte("c"), Attributes: pairs(family...)}},
		}
	}
	for _, c := range []struct{ name, value, back string }{
		{"DURABILITY", "SKIP_WAL", "DURABILITY => 'USE_DEFAULT'"},
		{"DURABILITY", "ASYNC_WAL", "DURABILITY => 'USE_DEFAULT'"},
	} {
		err := d.verify(schema([]string{c.name, c.value}, nil), spec)
		require.ErrorIs(t, err, driver.ErrLayout)
		require.ErrorContains(t, err, "table n:f was altered to "+c.name+"="+c.value)
		require.ErrorContains(t, err, c.back)
	}
	for _, c := range []struct{ name, value, back string }{
		{"VERSIONS", "5", "VERSIONS => '1'"},
		{"TTL", "60", "TTL => '2147483647'"},
		{"MIN_VERSIONS", "1", "MIN_VERSIONS => '0'"},
		{"KEEP_DELETED_CELLS", "TTL", "KEEP_DELETED_CELLS => 'FALSE'"},
		{"NEW_VERSION_BEHAVIOR", "true", "NEW_VERSION_BEHAVIOR => 'FALSE'"},
	} {
		err := d.verify(schema(nil, []string{c.name, c.value}), spec)
		require.ErrorIs(t, err, driver.ErrLayout)
		require.ErrorContains(t, err, "table n:f was altered to "+c.name+"="+c.value)
		require.ErrorContains(t, err, c.back)
	}
	for _, durability := range []string{"USE_DEFAULT", "SYNC_WAL", "FSYNC_WAL"} {
		require.NoError(t, d.verify(schema([]string{"DURABILITY", durability, "READONLY", "true"}, []string{
			"VERSIONS", "1", "KEEP_DELETED_CELLS", "false", "COMPRESSION", "GZ", "BLOOMFILTER", "NONE", "TTL", "2147483647"}), spec))
	}
}
