package hbase

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"github.com/tsuna/gohbase/zk"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// A master talks to the HBase master, which makes and removes tables, over a connection of its
// own that lives as long as one operation. Gohbase's AdminClient is not used: it cannot be
// closed, knows only the default namespace and five of the attributes of a table, and cannot
// read any back.
type master struct {
	db  *DB
	rc  hrpc.RegionClient
	end context.CancelFunc
}

// atMaster returns the context of an operation, and the master for it.
func (d *DB) atMaster(ctx context.Context) (context.Context, *master) {
	ctx, cancel := d.bound(ctx)
	return ctx, &master{db: d, end: cancel}
}

// close ends the operation.
func (m *master) close() {
	m.end()
	m.leave()
}

// leave closes the connection. The next request makes another one.
func (m *master) leave() {
	if m.rc != nil {
		m.rc.Close()
		m.rc = nil
	}
}

// A masterCall is a request to the master.
type masterCall struct {
	call
	name              string
	request, response proto.Message
}

func (c *masterCall) Name() string               { return c.name }
func (c *masterCall) Description() string        { return c.name }
func (c *masterCall) ToProto() proto.Message     { return c.request }
func (c *masterCall) NewResponse() proto.Message { return proto.Clone(c.response) }

// do sends one request and fills in the response. It waits for a master that is starting or being
// replaced. A request whose connection was lost may have been done all the same.
func (m *master) do(ctx context.Context, name string, request, response proto.Message) error {
	for n := 0; ; n++ {
		err := m.try(ctx, name, request, response)
		if err == nil {
			return nil
		}
		var server region.ServerError
		var retry region.RetryableError
		switch javaClass(err) {
		case "PleaseHoldException", "ServerNotRunningYetException", "MasterNotRunningException", "MasterStoppedException":
		default:
			if !errors.As(err, &server) && !errors.As(err, &retry) && !errors.Is(err, errUnreachable) {
				return err
			}
		}
		if until, ends := ctx.Deadline(); ctx.Err() == nil && (!ends || time.Now().Before(until)) { // else it may be all that is wrong
			m.db.note(err)
		}
		m.leave()
		if backOff(ctx, "server_unavailable", n) != nil {
			return err
		}
	}
}

func (m *master) try(ctx context.Context, name string, request, response proto.Message) error {
	if m.rc == nil {
		rc, err := m.db.dial(ctx, zk.Master, region.MasterClient)
		if err != nil {
			return err
		}
		m.rc = rc
	}
	// A context of its own keeps the client from dropping the answer silently.
	c := &masterCall{call: call{ctx: ctx, result: make(chan hrpc.RPCResult, 1)}, name: name, request: request, response: response}
	go m.rc.QueueRPC(c)
	select {
	case r := <-c.result:
		if r.Error != nil {
			return r.Error
		}
		proto.Reset(response)
		proto.Merge(response, r.Msg)
		return nil
	case <-ctx.Done():
		m.leave()
		return ctx.Err()
	}
}

// procedure sends a request that the master answers with the number of a procedure, and waits
// until that has ended.
func (m *master) procedure(ctx context.Context, name string, request proto.Message, response interface {
	proto.Message
	GetProcId() uint64
}) error {
	if err := m.do(ctx, name, request, response); err != nil {
		return err
	}
	id := response.GetProcId()
	for n := 0; ; n++ {
		var r pb.GetProcedureResultResponse
		if err := m.do(ctx, "getProcedureResult", &pb.GetProcedureResultRequest{ProcId: &id}, &r); err != nil {
			return err
		}
		if e := r.GetException().GetGenericException(); e != nil {
			return errors.New(javaPrefix + e.GetClassName() + ": " + e.GetMessage())
		}
		if r.GetState() != pb.GetProcedureResultResponse_RUNNING {
			return nil // finished, or so long ago that it has been forgotten
		}
		if err := pause.For(ctx, pause.Grown(10*time.Millisecond, 100*time.Millisecond, n)); err != nil {
			return err
		}
	}
}

var errUnreachable = errors.New("server is not reachable")

// dial finds a server through ZooKeeper and connects to it.
func (d *DB) dial(ctx context.Context, what zk.ResourceName, kind region.ClientType) (hrpc.RegionClient, error) {
	address, err := d.locate(ctx, what)
	if err != nil {
		return nil, err
	}
	rc := region.NewClient(address, kind, 1, 0, d.user, d.readTimeout, nil, d.gate.DialRegion)
	connected := make(chan error, 1)
	go func() { connected <- rc.Dial(ctx) }()
	select {
	case err = <-connected:
	case <-ctx.Done():
		err = ctx.Err()
		go func() { <-connected; rc.Close() }()
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(errUnreachable, err)
	}
	return rc, nil
}

// locate asks ZooKeeper for the address of a server. Its client has no context: the connections
// that it makes are closed when ours is done, which ends it.
func (d *DB) locate(ctx context.Context, what zk.ResourceName) (string, error) {
	dial := func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := d.gate.DialZooKeeper(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	type answer struct {
		address string
		err     error
	}
	answered := make(chan answer, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		address, err := zk.NewClient(d.quorum, d.zkTimeout, dial).LocateResource(what.Prepend(d.root))
		answered <- answer{address, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			return "", errors.Join(errUnreachable, a.err)
		}
		return a.address, nil
	case <-ctx.Done():
		select {
		case a := <-answered:
			if a.err == nil {
				return a.address, nil
			}
			return "", errors.Join(errUnreachable, a.err)
		default:
			return "", ctx.Err()
		}
	}
}
