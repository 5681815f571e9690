package gate

import (
	"encoding/binary"
	"math"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/internal/sim"
)

func TestQuorum(t *testing.T) {
	for _, q := range []string{"h", "zk1:2181", "zk1,zk2:2182,127.0.0.1", "[::1]:2181", "[fe80::1%eth0]:1,h"} {
		require.NoError(t, Quorum(q), q)
	}
	for _, q := range []string{
		"", "127.0.0.1:99999", "h:0", "h:-1", "h:+1", "h:zk", ":2181", "h:", "::1", "[::1]", "[::1", "1:2:3", "h,", ",h", "h, g", " h", "hbase://h", "zk1/hbase", "user:secret@h:1",
	} {
		err := Quorum(q)
		require.Error(t, err, q)
		require.NotContains(t, err.Error(), "secret")
	}
	require.ErrorContains(t, Quorum("h:1,g:99999"), "hbase: server 2 of 2 of the ZooKeeper quorum is not HOST or HOST:PORT")
}

// A request that looks for a region asks for none that was split, and all other requests stay as they are.
func TestPastSplit(t *testing.T) {
	sent := func(region, method string, request proto.Message) []byte {
		if scan, ok := request.(*pb.ScanRequest); ok {
			scan.Region.Value = []byte(region)
		}
		id := uint32(7)
		head, err := proto.Marshal(&pb.RequestHeader{MethodName: &method, CallId: &id})
		require.NoError(t, err)
		body, err := proto.Marshal(request)
		require.NoError(t, err)
		b := protowire.AppendBytes(protowire.AppendBytes(make([]byte, 4), head), body)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	scan := func(options ...func(hrpc.Call) error) proto.Message {
		s, err := hrpc.NewScanRange(t.Context(), []byte("hbase:meta"), []byte("ns:t,hbase:meta,,1,:"), []byte("ns:t"),
			append(options, hrpc.Families(map[string][]string{"info": nil}), hrpc.CloseScanner(), hrpc.NumberOfRows(1))...)
		require.NoError(t, err)
		s.SetRegion(region.NewInfo(0, []byte("hbase"), []byte("meta"), []byte(meta), nil, nil))
		return s.ToProto()
	}
	lookup := sent(meta, "Scan", scan(hrpc.Reversed()))
	changed := pastSplit(lookup)
	require.EqualValues(t, len(changed)-4, binary.BigEndian.Uint32(changed))
	head, n := protowire.ConsumeBytes(changed[4:])
	require.Positive(t, n)
	body, m := protowire.ConsumeBytes(changed[4+n:])
	require.Equal(t, len(changed), 4+n+m)
	var header pb.RequestHeader
	require.NoError(t, proto.Unmarshal(head, &header))
	require.EqualValues(t, 7, header.GetCallId())
	var request pb.ScanRequest
	require.NoError(t, proto.Unmarshal(body, &request))
	require.Contains(t, request.Scan.Filter.GetName(), "SingleColumnValueFilter")
	request.Scan.Filter = nil
	require.Equal(t, lookup, sent(meta, "Scan", &request), "and nothing else is changed")

	require.Nil(t, pastSplit(changed), "one with a filter")
	for name, b := range map[string][]byte{
		"a scan upwards":         sent(meta, "Scan", scan()),
		"a scan of other rows":   sent("ns:t,,1", "Scan", scan(hrpc.Reversed())),
		"another request":        sent(meta, "Get", scan(hrpc.Reversed())),
		"the first of all":       append([]byte("HBas\x00P"), meta...),
		"a part of a request":    lookup[:len(lookup)-1],
		"more than one":          append(append([]byte(nil), lookup...), lookup...),
		"one that is none":       append(binary.BigEndian.AppendUint32(nil, uint32(len(meta)+5)), append([]byte{0xff, 0xff, 0xff, 0xff, 0xff}, meta...)...),
		"one with a wrong body":  append(binary.BigEndian.AppendUint32(nil, uint32(len(meta)+2)), append([]byte{0, byte(len(meta))}, meta...)...),
		"nothing":                nil,
		"what is longer than it": sent(meta, "Scan", &pb.ScanRequest{Region: &pb.RegionSpecifier{Type: hrpc.RegionSpecifierRegionName}, Scan: &pb.Scan{Reversed: proto.Bool(true), StartRow: make([]byte, longestLookup)}}),
	} {
		require.Nil(t, pastSplit(b), name)
	}
}

// connection returns both ends of a connection of the client, until the end of the test.
func connection(t *testing.T, g *Gate, listener net.Listener) (conn, server net.Conn) {
	t.Helper()
	conn, err := g.DialForClient(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	server, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	return conn, server
}

// A server that says nothing is given up, however many requests are sent to it meanwhile. One that answers any of them is not.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	g := Gate{Dial: new(net.Dialer).DialContext}
	conn, server := connection(t, &g, listener)
	const patience = time.Second
	asks := func(answers bool) {
		for range 30 {
			if conn.SetReadDeadline(time.Now().Add(patience)) != nil {
				return
			}
			if answers {
				_, _ = server.Write([]byte("a"))
			}
			time.Sleep(patience / 10)
		}
	}
	asked := make(chan bool)
	go func() { asks(true); close(asked) }()
	for range 30 {
		_, err := conn.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	<-asked
	require.NoError(t, conn.SetReadDeadline(time.Time{})) // nothing is asked for
	time.Sleep(2 * patience)
	begin := time.Now()
	asked = make(chan bool)
	go func() { asks(false); close(asked) }()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, time.Since(begin), 5*patience/2)
	<-asked
}

// A server that hangs is given up as soon as it is no member of the cluster, and so is one that wakes then. One that only takes long is not.
func TestServerThatIsGone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	const quiet, patience = 200 * time.Millisecond, time.Minute
	var asked, leaves atomic.Int32 // leaves: at which look it is a member no more
	g := Gate{Dial: new(net.Dialer).DialContext, quiet: quiet, members: func() ([]string, error) {
		if asked.Add(1) >= leaves.Load() {
			return []string{"other,1,2"}, nil
		}
		return []string{"other,1,2", host + "," + port + ",3"}, nil
	}}
	for _, c := range []struct {
		name   string
		leaves int32
		answer time.Duration // when it comes
		after  int32         // how many looks, at least; -1: never
		gone   bool
	}{
		{"answers soon", 0, quiet / 4, 0, false},
		{"was never a member", 0, 3 * quiet, 0, false}, // as a master
		{"takes long", math.MaxInt32, 3 * quiet, 0, false},
		{"hangs", 3, 0, -1, true},
		{"wakes", 3, 0, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked.Store(0)
			leaves.Store(c.leaves)
			conn, server := connection(t, &g, listener)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
			if c.after >= 0 {
				time.AfterFunc(c.answer, func() {
					for asked.Load() < c.after {
						time.Sleep(time.Millisecond)
					}
					_, _ = server.Write([]byte("a"))
				})
			}
			begin := time.Now()
			n, err := conn.Read(make([]byte, 1))
			if c.gone {
				require.Error(t, err)
				require.Less(t, time.Since(begin), patience/2)
				require.Zero(t, n, "nothing of it is believed")
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	}
}

// The members are those of the cluster, and one that was a member and is none is gone.
func TestMembersOfACluster(t *testing.T) {
	quorum := os.Getenv("RANGECRYPT_HBASE")
	switch {
	case quorum == "" && sim.Required("hbase"):
		t.Fatal("RANGECRYPT_REQUIRE names hbase, but RANGECRYPT_HBASE is not set")
	case quorum == "":
		t.Skip("set RANGECRYPT_HBASE to the ZooKeeper quorum of an HBase to run this test")
	}
	g := Gate{Dial: new(net.Dialer).DialContext}
	g.Follow(quorum, "/hbase")
	members, err := g.members()
	require.NoError(t, err)
	require.NotEmpty(t, members)
	for _, m := range members {
		server := strings.Split(m, ",")
		require.Len(t, server, 3, m)
		require.False(t, g.gone(net.JoinHostPort(server[0], server[1])))
	}
	const other = "region.server:1"
	require.False(t, g.gone(other), "it was never a member")
	g.known.Store(other, true)
	require.True(t, g.gone(other))
	g.Follow(quorum, "/nothing")
	require.False(t, g.gone(other), "nobody knows")
}
