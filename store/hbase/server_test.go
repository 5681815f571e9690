package hbase

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

func cell(qualifier, value string) driver.Cell {
	return driver.Cell{Qualifier: []byte(qualifier), Value: []byte(value)}
}

func put(row string, cells ...driver.Cell) driver.Mutation {
	return driver.Mutation{Row: []byte(row), Puts: cells}
}

func texts(cells []driver.Cell) []string {
	out := []string{}
	for _, c := range cells {
		out = append(out, string(c.Qualifier)+"="+string(c.Value))
	}
	return out
}

func within1s(tb testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(tb.Context(), time.Second)
}

// leaks fails if goroutines are left over that were not there before. The ZooKeeper client takes
// up to two seconds to notice that it was closed, where it had no connection.
func leaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		var err error
		for range 8 {
			if err = goleak.Find(before); err == nil {
				return
			}
		}
		require.NoError(t, err)
	})
}

func TestOpenWithoutServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, as far as the kernel does, and says nothing
	require.NoError(t, err)
	defer silent.Close()
	for name, q := range map[string]string{"refused": "127.0.0.1:1", "silent": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			leaks(t)
			ctx, cancel := within1s(t)
			defer cancel()
			begin := time.Now()
			_, err := Open(ctx, q, nil)
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(begin), 3*time.Second)
		})
		t.Run(name+", without a deadline", func(t *testing.T) {
			leaks(t)
			_, err := Open(t.Context(), q, &Options{Timeout: 500 * time.Millisecond})
			require.ErrorIs(t, err, driver.ErrUnavailable)
		})
		t.Run(name+", cancelled", func(t *testing.T) {
			leaks(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("a reason")
			time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
			_, err := Open(ctx, q, nil)
			require.ErrorIs(t, err, reason)
		})
	}
}

func TestOpenWithoutQuorum(t *testing.T) {
	for _, q := range []string{"", "127.0.0.1:99999"} {
		_, err := Open(t.Context(), q, &Options{Timeout: 500 * time.Millisecond})
		require.ErrorContains(t, err, "ZooKeeper quorum")
		require.NotErrorIs(t, err, driver.ErrUnavailable)
	}
}

// TestGivenClient uses a client of the caller's, which Close leaves open.
func TestGivenClient(t *testing.T) {
	leaks(t)
	client := gohbase.NewClient(quorum(t), gohbase.FlushInterval(0))
	defer client.Close()
	db := open(t, Options{Client: client})
	spec := driver.FamilySpec{Name: "given", Layout: driver.LayoutOrdered}
	f, err := db.Family(t.Context(), spec)
	require.NoError(t, err)
	require.NoError(t, f.Apply(t.Context(), put("a", cell("q", "v"))))
	require.NoError(t, db.Close())
	get, err := hrpc.NewGetStr(t.Context(), "rangecrypt_test:given", "a")
	require.NoError(t, err)
	r, err := client.Get(get)
	require.NoError(t, err)
	require.Len(t, r.Cells, 1)
	require.Equal(t, "c:qq=\x01v", string(r.Cells[0].Family)+":"+string(r.Cells[0].Qualifier)+"="+string(r.Cells[0].Value))
	require.NoError(t, open(t, Options{Client: client}).Drop(t.Context(), spec.Name))
}

// TestServerGone takes the network away half-way, and gives it back.
func TestServerGone(t *testing.T) {
	quorum(t)
	leaks(t)
	p := newNetwork(t)
	db := open(t, Options{Dial: p.Dial})
	f := newTable(t, db, driver.FamilySpec{})
	load := func(ctx context.Context, from int) (done int, err error) {
		for i := from; i < 40; i++ {
			if err := f.Apply(ctx, put(fmt.Sprintf("%03d", i), cell("q", "v"))); err != nil {
				return i, err
			}
			if i == 20 && from == 0 {
				p.down()
			}
		}
		return 40, nil
	}
	ctx, cancel := within1s(t)
	defer cancel()
	begin := time.Now()
	n, err := load(ctx, 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.Equal(t, 21, n)
	require.Less(t, time.Since(begin), 3*time.Second)
	for name, try := range map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := f.Get(ctx, []byte("000"), driver.Slice{}); return err },
		"GetBatch": func(ctx context.Context) error {
			_, err := f.GetBatch(ctx, [][]byte{[]byte("000"), []byte("001")}, driver.Slice{})
			return err
		},
		"Scan": func(ctx context.Context) error {
			for _, err := range f.Scan(ctx, driver.Range{}) {
				return err
			}
			return nil
		},
		"CheckAndPut": func(ctx context.Context) error {
			_, err := f.CheckAndPut(ctx, []byte("000"), cell("q", "v"), cell("q", "w"))
			return err
		},
		"Families": func(ctx context.Context) error { _, err := db.Families(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := try(ctx)
		cancel()
		require.ErrorIs(t, err, driver.ErrUnavailable, name)
		require.NotErrorIs(t, err, driver.ErrUnknownOutcome, name)
	}
	p.Set(proxy.Weather{})
	n, err = load(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, 40, n)
	rows := 0
	for _, err := range f.Scan(t.Context(), driver.Range{}) {
		require.NoError(t, err)
		rows++
	}
	require.Equal(t, 40, rows)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
}

// TestCloseWhileGone closes while the client is looking for servers that are not there.
func TestCloseWhileGone(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	f := newTable(t, db, driver.FamilySpec{})
	t.Cleanup(func() { db.Close() })
	leaks(t)
	p := newNetwork(t)
	other := open(t, Options{Dial: p.Dial})
	g, err := other.Family(t.Context(), driver.FamilySpec{Name: f.(*family).spec.Name, Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	require.NoError(t, g.Apply(t.Context(), put("a", cell("q", "v"))))
	p.down()
	ctx, cancel := within1s(t)
	defer cancel()
	_, err = g.Get(ctx, []byte("a"), driver.Slice{})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, other.Close())
}

// TestCloseWhileConnecting gives up while the client is connecting to a server: what comes of it later is closed, too.
func TestCloseWhileConnecting(t *testing.T) {
	q := quorum(t)
	leaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan struct{})
	var servers atomic.Int32 // connections to them: the first is our own, and closed at once
	_, err := Open(ctx, q, &Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.Contains(q, address) && servers.Add(1) == 2 {
			cancel()
			<-given
			ctx = context.WithoutCancel(ctx)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	close(given)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, 2, servers.Load())
}

// TestDeadlineWhileConnecting has a dialer that notices a moment before the context that the time is over, as net.Dialer may. That
// says nothing of the database.
func TestDeadlineWhileConnecting(t *testing.T) {
	q := quorum(t)
	leaks(t)
	var late atomic.Bool
	db := open(t, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if until, ends := ctx.Deadline(); late.Load() && ends && strings.Contains(q, address) {
			for time.Now().Before(until) { // which does not wait for a timer
			}
			return nil, os.ErrDeadlineExceeded
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	late.Store(true)
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		_, err := db.Families(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, driver.ErrUnavailable)
	}
}

// TestFrozenServer has a server that takes requests and says nothing.
func TestFrozenServer(t *testing.T) {
	quorum(t)
	leaks(t)
	p := newNetwork(t)
	db := open(t, Options{Dial: p.Dial})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	f := newTable(t, db, driver.FamilySpec{})
	half := strings.Repeat("x", driver.MaxChange/2-100)
	large := []driver.Cell{cell("q", half), cell("r", half)} // more than the sockets hold
	p.Set(proxy.Weather{Hold: proxy.BothWays})
	for name, try := range map[string]func(context.Context) error{
		"Apply": func(ctx context.Context) error { return f.Apply(ctx, put("a", large...)) },
		"Get":   func(ctx context.Context) error { _, err := f.Get(ctx, []byte("a"), driver.Slice{}); return err },
		"GetBatch": func(ctx context.Context) error {
			_, err := f.GetBatch(ctx, [][]byte{[]byte("a"), []byte("b")}, driver.Slice{})
			return err
		},
		"CheckAndPut": func(ctx context.Context) error {
			_, err := f.CheckAndPut(ctx, []byte("b"), driver.Cell{Qualifier: []byte("q")}, large...)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begin := time.Now()
		err := try(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.Less(t, time.Since(begin), time.Second, name)
	}
	p.Set(proxy.Weather{})
}

// TestUnknownOutcome loses the answer to a conditional put, and the request.
func TestUnknownOutcome(t *testing.T) {
	q := quorum(t)
	p := newNetwork(t)
	db := open(t, Options{Dial: p.Dial})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{})
	try := func(row string, answered bool) {
		// The client has a connection and knows the region, as it mostly does.
		_, err := f.Get(t.Context(), []byte("another"), driver.Slice{})
		require.NoError(t, err)
		p.cutAt(row, answered)
		ok, err := f.CheckAndPut(t.Context(), []byte(row), driver.Cell{Qualifier: []byte("q")}, cell("q", "v"))
		require.ErrorIs(t, err, driver.ErrUnknownOutcome)
		require.False(t, ok)
		require.True(t, p.done())
	}
	t.Run("the answer is lost", func(t *testing.T) {
		for i := range 5 {
			row := fmt.Sprintf("a conditional put %d", i)
			try(row, true)
			cells, err := f.Get(t.Context(), []byte(row), driver.Slice{})
			require.NoError(t, err)
			require.Equal(t, []string{"q=v"}, texts(cells))
		}
	})
	t.Run("the request is lost", func(t *testing.T) {
		try("a lost conditional put", false)
		cells, err := f.Get(t.Context(), []byte("a lost conditional put"), driver.Slice{})
		require.NoError(t, err)
		require.Empty(t, cells)
	})
	t.Run("the time is over", func(t *testing.T) {
		p.Set(proxy.Weather{Hold: proxy.BothWays})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := f.CheckAndPut(ctx, []byte("b"), driver.Cell{Qualifier: []byte("q")}, cell("q", "v"))
		p.Set(proxy.Weather{})
		require.ErrorIs(t, err, driver.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	// Why CheckAndPut is not left to gohbase: when this fails, gohbase has learnt it.
	t.Run("gohbase alone says that it was not put", func(t *testing.T) {
		client := gohbase.NewClient(q, gohbase.RegionDialer(p.Dial))
		defer client.Close()
		table := string(f.(*family).table)
		get, err := hrpc.NewGetStr(t.Context(), table, "another")
		require.NoError(t, err)
		_, err = client.Get(get)
		require.NoError(t, err)
		p.cutAt("gohbase's conditional put", true)
		m, err := hrpc.NewPutStr(t.Context(), table, "gohbase's conditional put", map[string]map[string][]byte{"c": {"qq": []byte("\x01v")}})
		require.NoError(t, err)
		ok, err := client.CheckAndPut(m, "c", "qq", nil)
		require.NoError(t, err)
		require.False(t, ok)
		cells, err := f.Get(t.Context(), []byte("gohbase's conditional put"), driver.Slice{})
		require.NoError(t, err)
		require.Equal(t, []string{"q=v"}, texts(cells))
	})
}

// A request for many rows is lost, or its answer is. All rows change all the same, those that have changed meanwhile excepted.
func TestLostReplacements(t *testing.T) {
	p := newNetwork(t)
	db := open(t, Options{Dial: p.Dial})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{})
	rows := func(cells ...driver.Cell) (ms []driver.Mutation) {
		for i := range 100 {
			ms = append(ms, put(fmt.Sprintf("r%02d", i), cells...))
		}
		return ms
	}
	for name, answered := range map[string]bool{"the answer is lost": true, "the request is lost": false} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, f.Apply(t.Context(), rows(cell("q", "old"), cell("p", "old"))...))
			var rs []driver.Replacement
			for row, err := range f.Scan(t.Context(), driver.Range{Cells: driver.Slice{Only: [][]byte{[]byte("q")}, Stamps: true}}) {
				require.NoError(t, err)
				rs = append(rs, driver.Replacement{Row: row.Key, Seen: row.Cells[0], Puts: []driver.Cell{cell("q", "new")}, Deletes: [][]byte{[]byte("p")}})
			}
			require.Len(t, rs, 100)
			require.NoError(t, f.Apply(t.Context(), put("r99", cell("q", "between"))))
			p.cutAt("r50", answered)
			late, err := f.Replace(t.Context(), rs...)
			require.NoError(t, err)
			require.True(t, p.done())
			require.Contains(t, late, 99)
			for row, err := range f.Scan(t.Context(), driver.Range{}) {
				require.NoError(t, err)
				want := []string{"q=new"}
				if string(row.Key) == "r99" {
					want = []string{"p=old", "q=between"}
				}
				require.Equal(t, want, texts(row.Cells), "%s", row.Key)
			}
		})
	}
}

// A change whose answer is lost is made a second time. Who makes it learns that.
func TestLostAnswersOfChanges(t *testing.T) {
	p := newNetwork(t)
	db := open(t, Options{Dial: p.Dial})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{})
	both := put("r0", cell("q", "v"))
	both.Deletes = [][]byte{[]byte("p")}
	for name, ms := range map[string][]driver.Mutation{
		"one":    {put("r0", cell("q", "v"))},
		"some":   {put("r0", cell("q", "v")), put("r1", cell("q", "v"))},
		"atomic": {both},
		"shared": {both, {Row: []byte("r1"), Puts: both.Puts, Deletes: both.Deletes}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, lost := range []bool{false, true} {
				if lost {
					p.cutAt("r0", true)
				}
				ctx, repeated := pause.Noting(t.Context())
				require.NoError(t, f.Apply(ctx, ms...))
				require.True(t, p.done())
				require.Equal(t, lost, repeated())
			}
		})
	}
}

// at sends cells with a timestamp of our choice.
func (f *family) at(tb testing.TB, row string, time uint64, kind pb.MutationProto_MutationType, qualifier, value string) {
	tb.Helper()
	c, err := f.mutate(tb.Context(), put(row, cell(qualifier, value)))
	require.NoError(tb, err)
	c.mutation.MutateType = kind.Enum()
	is, header := byte(wire.TypePut), wire.ValueHeader
	if kind == pb.MutationProto_DELETE {
		is, header, value = wire.TypeDeleteColumn, "", ""
	}
	c.cells = wire.AppendCell(nil, []byte(row), wire.QualifierHeader, []byte(qualifier), time, is, header, []byte(value))
	_, err = f.sendBatch(tb.Context(), []hrpc.Call{c})
	require.NoError(tb, err)
}

// TestSameMillisecond: what HBase does with a put in the millisecond of a deletion, and that it
// does not happen to ours.
func TestSameMillisecond(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{}).(*family)
	now := uint64(time.Now().UnixMilli())
	f.at(t, "a", now, pb.MutationProto_DELETE, "q", "")
	f.at(t, "a", now, pb.MutationProto_PUT, "q", "lost")
	cells, err := f.Get(t.Context(), []byte("a"), driver.Slice{})
	require.NoError(t, err)
	require.Empty(t, cells, "HBase has changed: a put is no longer covered by a deletion of the same time, and Apply need not wait")

	for i := range 100 {
		m := driver.Mutation{Row: []byte("b"), Deletes: [][]byte{[]byte("q")}}
		if i%2 == 1 {
			m = driver.Mutation{Row: []byte("b"), DeleteRow: true}
		}
		require.NoError(t, f.Apply(t.Context(), m))
		require.NoError(t, f.Apply(t.Context(), put("b", cell("q", fmt.Sprint(i)))))
		cells, err := f.Get(t.Context(), []byte("b"), driver.Slice{})
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprintf("q=%d", i)}, texts(cells))
	}
}

// TestExpiredShowsOlder: what HBase does when a cell over another one expires, and that it does
// not happen to ours.
func TestExpiredShowsOlder(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{}).(*family)
	for _, row := range []string{"a", "b"} {
		require.NoError(t, f.Apply(t.Context(), put(row, cell("q", "old"), cell("r", "stays"))))
		time.Sleep(2 * time.Millisecond)
	}
	expiring := cell("q", "new")
	expiring.TTL = time.Second
	raw, err := f.mutate(t.Context(), put("a", expiring))
	require.NoError(t, err)
	_, err = f.sendBatch(t.Context(), []hrpc.Call{raw})
	require.NoError(t, err)
	require.NoError(t, f.Apply(t.Context(), put("b", expiring, cell("s", "stays too"))))
	for _, row := range []string{"a", "b"} {
		cells, err := f.Get(t.Context(), []byte(row), driver.Slice{Only: [][]byte{[]byte("q")}})
		require.NoError(t, err)
		require.Equal(t, []string{"q=new"}, texts(cells))
	}
	time.Sleep(1300 * time.Millisecond)
	cells, err := f.Get(t.Context(), []byte("a"), driver.Slice{})
	require.NoError(t, err)
	require.Equal(t, []string{"q=old", "r=stays"}, texts(cells), "HBase has changed: older versions do not come back, and puts with a TTL need not read")
	cells, err = f.Get(t.Context(), []byte("b"), driver.Slice{})
	require.NoError(t, err)
	require.Equal(t, []string{"r=stays", "s=stays too"}, texts(cells))
}

// TestLayout opens tables that are not as the library makes them.
func TestLayout(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	make := func(t *testing.T, layout, family string, attributes ...string) driver.FamilySpec {
		spec := driver.FamilySpec{Name: fmt.Sprintf("l%d", rand.Uint64()), Layout: driver.LayoutOrdered}
		schema := &pb.TableSchema{TableName: db.tableName(spec.Name),
			ColumnFamilies: []*pb.ColumnFamilySchema{{Name: []byte(family), Attributes: pairs(attributes...)}}}
		if layout != "" {
			schema.Attributes = pairs(layoutAttribute, layout)
		}
		m := &master{db: db, end: func() {}}
		defer m.close()
		require.NoError(t, m.procedure(t.Context(), "CreateTable", &pb.CreateTableRequest{TableSchema: schema}, &pb.CreateTableResponse{}))
		t.Cleanup(func() {
			m := &master{db: db, end: func() {}}
			defer m.close()
			name := db.tableName(spec.Name)
			require.NoError(t, m.procedure(context.Background(), "DisableTable", &pb.DisableTableRequest{TableName: name}, &pb.DisableTableResponse{}))
			require.NoError(t, m.procedure(context.Background(), "DeleteTable", &pb.DeleteTableRequest{TableName: name}, &pb.DeleteTableResponse{}))
		})
		return spec
	}
	ours := layout(driver.FamilySpec{Layout: driver.LayoutOrdered})
	for _, c := range []struct{ name, layout, family, attribute, value, message string }{
		{"a foreign table", "", "c", "VERSIONS", "1", "has no attribute RANGECRYPT_LAYOUT, as this library makes it"},
		{"a newer format", "format=2 layout=striped", "c", "VERSIONS", "1", "needs a newer version"},
		{"format 10 is not format 1", strings.Replace(ours, "=1", "=10", 1), "c", "VERSIONS", "1", "needs a newer version"},
		{"another layout", strings.Replace(ours, "prefix=0", "prefix=4", 1), "c", "VERSIONS", "1", "prefix=4"},
		{"without the column family", ours, "d", "VERSIONS", "1", "no column family"},
		{"altered versions", ours, "c", "VERSIONS", "3", "VERSIONS=3"},
		{"altered TTL", ours, "c", "TTL", "60", "TTL=60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := make(t, c.layout, c.family, c.attribute, c.value)
			_, err := db.Family(t.Context(), spec)
			require.ErrorIs(t, err, driver.ErrLayout)
			require.ErrorContains(t, err, c.message)
			names, err := db.Families(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.layout != "", slices.Contains(names, spec.Name))
			if !strings.HasPrefix(c.layout, thisFormat) {
				require.ErrorIs(t, db.Drop(t.Context(), spec.Name), driver.ErrLayout)
			}
		})
	}
	t.Run("a cell of another format", func(t *testing.T) {
		f := newTable(t, db, driver.FamilySpec{}).(*family)
		c, err := f.mutate(t.Context(), put("a", cell("q", "v")))
		require.NoError(t, err)
		c.cells[len(c.cells)-2] = 2
		_, err = f.sendBatch(t.Context(), []hrpc.Call{c})
		require.NoError(t, err)
		_, err = f.Get(t.Context(), []byte("a"), driver.Slice{})
		require.ErrorIs(t, err, driver.ErrLayout)
		require.ErrorContains(t, err, "TIMERANGE => [")
		for _, err := range f.Scan(t.Context(), driver.Range{}) {
			require.ErrorIs(t, err, driver.ErrLayout)
			require.ErrorContains(t, err, "TIMERANGE => [")
		}
	})
	t.Run("created by ten at a time", func(t *testing.T) {
		spec := driver.FamilySpec{Name: fmt.Sprintf("l%d", rand.Uint64()), Layout: driver.LayoutWide}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				f, err := db.Family(t.Context(), spec)
				if err == nil {
					err = f.Apply(t.Context(), put("a", cell("q", "v")))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.NoError(t, db.Drop(t.Context(), spec.Name))
	})
}

// A counter counts the requests that the client is given.
type counter struct {
	gohbase.RPCClient
	n, cells atomic.Int64
}

func (c *counter) SendRPC(r hrpc.Call) (proto.Message, error) {
	c.n.Add(1)
	m, err := c.RPCClient.SendRPC(r)
	if g, ok := m.(*pb.GetResponse); ok {
		c.cells.Add(int64(len(g.GetResult().GetCell())))
	}
	return m, err
}

func (c *counter) take() (requests, cells int64) { return c.n.Swap(0), c.cells.Swap(0) }

// TestWideRow: a slice of a row with many cells is one request, which reads no cells beyond it.
func TestWideRow(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{Layout: driver.LayoutWide})
	for part := range 4 {
		m := driver.Mutation{Row: []byte("row")}
		for i := range 5_000 {
			m.Puts = append(m.Puts, cell(fmt.Sprintf("%06d", 5_000*part+i), "v"))
		}
		require.NoError(t, f.Apply(t.Context(), m))
	}
	count := &counter{RPCClient: db.rpc}
	db.rpc = count
	cells, err := f.Get(t.Context(), []byte("row"), driver.Slice{Start: []byte("010000"), Limit: 7_000})
	require.NoError(t, err)
	require.Len(t, cells, 7_000)
	requests, read := count.take()
	require.Equal(t, int64(1), requests)
	require.Equal(t, int64(7_000), read)
}

// TestScanRequests: a scan of a thousand rows is one or two requests, whatever ends it.
func TestScanRequests(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{})
	var ms []driver.Mutation
	for i := range 3000 {
		ms = append(ms, put(fmt.Sprintf("%04d", i), cell("q", strings.Repeat("v", 100))))
	}
	require.NoError(t, f.Apply(t.Context(), ms...))
	count := &counter{RPCClient: db.rpc}
	db.rpc = count
	for _, r := range []driver.Range{
		{Start: []byte("1000"), End: []byte("2000")},
		{Start: []byte("1000"), End: []byte("2000"), Reverse: true},
		{Start: []byte("1000"), Limit: 1000},
		{Limit: 1000, Reverse: true},
		{Start: []byte("2000")},
		{End: []byte("1000"), Reverse: true},
	} {
		rows := 0
		for _, err := range f.Scan(t.Context(), r) {
			require.NoError(t, err)
			rows++
		}
		require.Equal(t, 1000, rows, "%q", r)
		requests, _ := count.take()
		require.LessOrEqual(t, requests, int64(2), "%q", r)
	}
}

// TestSplitAndMove splits, merges and reopens regions under a load of every kind.
func TestSplitAndMove(t *testing.T) {
	quorum(t)
	db := open(t, Options{SplitRegions: 7})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{SpreadBits: 8}).(*family)
	const fixed = 2000
	var ms []driver.Mutation
	key := func(i int) string { return string(binary.BigEndian.AppendUint16(nil, uint16(i*65536/fixed))) }
	for i := range fixed {
		ms = append(ms, put(key(i), cell("q", "v")))
	}
	require.NoError(t, f.Apply(t.Context(), ms...))
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var writes, swaps, scans atomic.Int64
	run := func(step func(i int) error) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := step(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	written := make([]string, 0, 1<<16)
	run(func(i int) error { // puts, and puts with deletes
		row := key(i*7%fixed) + fmt.Sprint("w", i)
		if err := f.Apply(t.Context(), put(row, cell("x", "1"), cell("y", "1"))); err != nil {
			return err
		}
		written = append(written, row)
		writes.Add(1)
		return f.Apply(t.Context(), driver.Mutation{Row: []byte(row), Puts: []driver.Cell{cell("x", "2")}, Deletes: [][]byte{[]byte("y")}})
	})
	run(func(i int) error { // a counter, which an update that is applied twice or not at all breaks
		row := []byte{byte(i * 37), 0, 'c'}
		cells, err := f.Get(t.Context(), row, driver.Slice{})
		if err != nil {
			return err
		}
		expect, next := driver.Cell{Qualifier: []byte("n")}, 1
		if len(cells) > 0 {
			expect = cells[0]
			fmt.Sscan(string(cells[0].Value), &next)
			next++
		}
		ok, err := f.CheckAndPut(t.Context(), row, expect, cell("n", fmt.Sprint(next)))
		if err == nil && !ok {
			err = errors.New("somebody else counted")
		}
		swaps.Add(1)
		return err
	})
	for _, reverse := range []bool{false, true} {
		run(func(int) error {
			seen := 0
			last := []byte(nil)
			for row, err := range f.Scan(t.Context(), driver.Range{Reverse: reverse, Cells: driver.Slice{Only: [][]byte{[]byte("q")}}}) {
				if err != nil {
					return err
				}
				if last != nil && (string(row.Key) <= string(last)) != reverse {
					return fmt.Errorf("row %x came after %x", row.Key, last)
				}
				last = row.Key
				seen++
			}
			if seen != fixed {
				return fmt.Errorf("a scan, reverse %v, saw %d rows of %d", reverse, seen, fixed)
			}
			scans.Add(1)
			return nil
		})
	}
	m := &master{db: db, end: func() {}}
	defer m.close()
	current := func() []hrpc.RegionInfo {
		var rs []hrpc.RegionInfo
		db.mu.Lock()
		defer db.mu.Unlock()
		for r := range db.regions {
			if string(r.Table()) == f.spec.Name && r.Context().Err() == nil {
				rs = append(rs, r)
			}
		}
		slices.SortFunc(rs, func(a, b hrpc.RegionInfo) int { return strings.Compare(string(a.StartKey()), string(b.StartKey())) })
		return rs
	}
	made := current()
	require.Len(t, made, 7, "the family should have been split when it was made")
	require.NoError(t, m.merge(t.Context(), made[4], made[5])) // which none of the splits below divides
	for i, at := range []string{"\x20", "\x50", "\x90\x01", "\xf0"} {
		time.Sleep(300 * time.Millisecond)
		reopened := i%2 == 1
		for _, r := range current() {
			switch inside := string(r.StartKey()) < at && (len(r.StopKey()) == 0 || at < string(r.StopKey())); {
			case inside:
				require.NoError(t, m.split(t.Context(), db, f, r, at))
			case !reopened:
				reopened = true
				require.NoError(t, m.reopen(t.Context(), r))
			}
		}
	}
	time.Sleep(500 * time.Millisecond)
	stop()
	all.Wait()
	t.Logf("%d writes, %d conditional puts, %d scans; %d regions", writes.Load(), swaps.Load(), scans.Load(), len(current()))
	require.GreaterOrEqual(t, len(current()), 9)
	require.True(t, slices.ContainsFunc(current(), func(r hrpc.RegionInfo) bool {
		return bytes.Equal(r.StartKey(), made[4].StartKey()) && bytes.Equal(r.StopKey(), made[5].StopKey())
	}), "merged")
	for _, row := range written {
		cells, err := f.Get(t.Context(), []byte(row), driver.Slice{})
		require.NoError(t, err)
		require.Equal(t, []string{"x=2"}, texts(cells))
	}
	sum := 0
	for row, err := range f.Scan(t.Context(), driver.Range{Cells: driver.Slice{Only: [][]byte{[]byte("n")}}}) {
		require.NoError(t, err)
		n := 0
		fmt.Sscan(string(row.Cells[0].Value), &n)
		sum += n
	}
	require.EqualValues(t, swaps.Load(), sum)
}

// split divides a region. Gohbase's messages are older than that request, so it is written by
// hand: the region, then the key.
func (m *master) split(ctx context.Context, db *DB, f *family, r hrpc.RegionInfo, at string) error {
	id := r.ID()
	info, err := proto.Marshal(&pb.RegionInfo{RegionId: &id, TableName: db.tableName(f.spec.Name), StartKey: r.StartKey(), EndKey: r.StopKey()})
	if err != nil {
		return err
	}
	b := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), info)
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), []byte(at))
	request := &pb.GetClusterStatusRequest{}
	request.ProtoReflect().SetUnknown(b)
	return m.procedure(ctx, "SplitRegion", request, &pb.CreateTableResponse{})
}

// merge makes one region of two neighbours. Gohbase has no message for that either.
func (m *master) merge(ctx context.Context, regions ...hrpc.RegionInfo) error {
	var b []byte
	for _, r := range regions {
		name := bytes.Split(r.Name(), []byte(".")) // TABLE,START,ID.HASH.
		spec, err := proto.Marshal(&pb.RegionSpecifier{Type: pb.RegionSpecifier_ENCODED_REGION_NAME.Enum(), Value: name[len(name)-2]})
		if err != nil {
			return err
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), spec)
	}
	request := &pb.GetClusterStatusRequest{}
	request.ProtoReflect().SetUnknown(b)
	return m.procedure(ctx, "MergeTableRegions", request, &pb.CreateTableResponse{})
}

// reopen closes a region and opens it again, as a move does.
func (m *master) reopen(ctx context.Context, r hrpc.RegionInfo) error {
	spec := &pb.RegionSpecifier{Type: hrpc.RegionSpecifierRegionName, Value: r.Name()}
	if err := m.do(ctx, "UnassignRegion", &pb.UnassignRegionRequest{Region: spec}, &pb.UnassignRegionResponse{}); err != nil {
		return err
	}
	return m.do(ctx, "AssignRegion", &pb.AssignRegionRequest{Region: spec}, &pb.AssignRegionResponse{})
}

// TestExpiredShowsNoneOfARace: of two clients that put a row at the same time, one with a TTL, the other is not seen again when
// the TTL is over.
func TestExpiredShowsNoneOfARace(t *testing.T) {
	quorum(t)
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{}).(*family)
	const rows = 200
	var group errgroup.Group
	group.SetLimit(32)
	for i := range rows {
		row := fmt.Sprint("row ", i)
		expiring := cell("q", "ends "+row)
		expiring.TTL = 2 * time.Second
		group.Go(func() error { return f.Apply(t.Context(), put(row, cell("q", "stays "+row))) })
		group.Go(func() error { return f.Apply(t.Context(), put(row, expiring)) })
	}
	require.NoError(t, group.Wait())
	shown := func() map[string]string {
		found := make(map[string]string)
		for row, err := range f.Scan(t.Context(), driver.Range{}) {
			require.NoError(t, err)
			found[string(row.Key)] = texts(row.Cells)[0]
		}
		return found
	}
	stays := shown()
	maps.DeleteFunc(stays, func(_, shows string) bool { return strings.HasPrefix(shows, "q=ends") })
	require.Less(t, len(stays), rows, "no put with a TTL came last")
	time.Sleep(2500 * time.Millisecond)
	require.Equal(t, stays, shown())
}

// A server that does not know filters of conditions puts nothing under a guard.
func TestGuardOfOldServers(t *testing.T) {
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{Layout: driver.LayoutWide}).(*family)
	row, guard := []byte("a"), driver.Guard{Prefix: []byte("1"), Free: [][]byte{[]byte("q")}, Gone: []byte("-")}
	for _, first := range []driver.Cell{{}, cell("", "1")} {
		if first.Value != nil {
			ok, err := f.CheckAndPut(t.Context(), row, driver.Cell{}, first)
			require.NoError(t, err)
			require.True(t, ok)
		}
		overlooked := guardCondition(row, guard)
		overlooked.ProtoReflect().SetUnknown(nil)
		ok, err := f.putUnder(t.Context(), row, overlooked, []driver.Cell{cell("q", "v")})
		require.NoError(t, err)
		require.False(t, ok)
	}
	ok, err := f.PutGuarded(t.Context(), row, guard, cell("q", "v"))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestDisabledTable(t *testing.T) {
	db := open(t, Options{Timeout: 3 * time.Second})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{}).(*family)
	require.NoError(t, f.Apply(t.Context(), put("a", cell("q", "v"))))
	require.Empty(t, f.unserved())
	m := &master{db: db, end: func() {}}
	defer m.close()
	name := db.tableName(f.spec.Name)
	require.NoError(t, m.procedure(t.Context(), "DisableTable", &pb.DisableTableRequest{TableName: name}, &pb.DisableTableResponse{}))
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorContains(t, err, "is disabled: enable it in the shell of HBase")
	}
	_, err := f.Get(t.Context(), []byte("a"), driver.Slice{})
	refused(err)
	refused(f.Apply(t.Context(), put("b", cell("q", "v"))))
	for _, err := range f.Scan(t.Context(), driver.Range{}) {
		refused(err)
	}
	require.NoError(t, m.procedure(t.Context(), "EnableTable", &pb.EnableTableRequest{TableName: name}, &pb.EnableTableResponse{}))
	require.Eventually(t, func() bool { // the client waits longer each time that it finds nobody
		cells, err := f.Get(t.Context(), []byte("a"), driver.Slice{})
		return err == nil && slices.Equal([]string{"q=v"}, texts(cells))
	}, time.Minute, time.Second)
}

// What the master answers is no error of a connection, which later messages would name.
func TestAnswersAreNoLostConnections(t *testing.T) {
	db := open(t, Options{Namespace: fmt.Sprintf("none%d", rand.Uint64())})
	t.Cleanup(func() { db.Close() })
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, db.last)
}

// A region that somebody has closed is named, with what opens it.
func TestUnassignedRegion(t *testing.T) {
	db := open(t, Options{Timeout: 3 * time.Second})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{}).(*family)
	require.NoError(t, f.Apply(t.Context(), put("a", cell("q", "v"))))
	find := db.get(t.Context(), f.table, []byte("a"), &pb.Get{Row: []byte("a")})
	_, err := db.send(t.Context(), find)
	require.NoError(t, err)
	m := &master{db: db, end: func() {}}
	defer m.close()
	require.NoError(t, m.do(t.Context(), "UnassignRegion", &pb.UnassignRegionRequest{Region: find.specifier()}, &pb.UnassignRegionResponse{}))
	_, err = f.Get(t.Context(), []byte("a"), driver.Slice{})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "if it stays so, assign it in the shell of HBase: assign '")
	require.NoError(t, m.do(t.Context(), "AssignRegion", &pb.AssignRegionRequest{Region: find.specifier()}, &pb.AssignRegionResponse{}))
	require.Eventually(t, func() bool {
		_, err := f.Get(t.Context(), []byte("a"), driver.Slice{})
		return err == nil
	}, time.Minute, time.Second)
}

// What a table that was altered does not take says so, and by whom it is mended.
func TestReadOnlyTable(t *testing.T) {
	db := open(t, Options{})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{}).(*family)
	m := &master{db: db, end: func() {}}
	defer m.close()
	schema, err := m.describe(t.Context(), db.tableName(f.spec.Name))
	require.NoError(t, err)
	schema.Attributes = append(schema.Attributes, pairs("READONLY", "true")...)
	require.NoError(t, m.procedure(t.Context(), "ModifyTable", &pb.ModifyTableRequest{TableName: db.tableName(f.spec.Name), TableSchema: schema}, &pb.CreateTableResponse{}))
	for _, mutations := range [][]driver.Mutation{{put("a", cell("q", "v"))}, {put("a", cell("q", "v")), put("b", cell("q", "v"))}} {
		err := f.Apply(t.Context(), mutations...)
		require.ErrorIs(t, err, driver.ErrUnauthorised)
		require.ErrorContains(t, err, "alter it back in the shell of HBase")
	}
}

// TestMergeAfterSplit merges what was split off with its other neighbour. The row of what was split stays in hbase:meta for minutes,
// and lies between the row of the merged region and the keys in it.
func TestMergeAfterSplit(t *testing.T) {
	quorum(t)
	db := open(t, Options{SplitRegions: 3})
	t.Cleanup(func() { db.Close() })
	f := newTable(t, db, driver.FamilySpec{SpreadBits: 8}).(*family)
	in := func(row string) hrpc.RegionInfo {
		r, err := f.locate(t.Context(), []byte(row))
		require.NoError(t, err)
		return r
	}
	m := &master{db: db, end: func() {}}
	defer m.close()
	// Without data, since a region whose files are those of the one that it was split off cannot be merged yet.
	require.NoError(t, m.split(t.Context(), db, f, in("\x60"), "\x80"))
	require.NoError(t, f.heal(t.Context(), []byte("\x60")))
	require.NoError(t, m.merge(t.Context(), in("\x10"), in("\x60")))
	another := open(t, Options{})
	t.Cleanup(func() { another.Close() })
	for name, db := range map[string]*DB{"a client that knew the regions": db, "a new one": another} {
		f := newFamily(db, f.spec)
		for _, row := range []string{"\x60", "\x90", "\x10", "\xc0"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := f.Apply(ctx, put(row, cell("q", "v")))
			cancel()
			require.NoError(t, err, "%s, row %x", name, row)
		}
	}
}
