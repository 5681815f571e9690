package hbase

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

// The requests below are our own implementations of gohbase's hrpc.Call. Gohbase finds the
// region, connects, sends and retries. What it sends is made here, for three reasons. The client
// speaks the protocol of HBase 1. That has no words for a put and a delete in one atomic step, for
// a scan that begins after a row, or for one that says how far it came. It retries its own requests
// in every case, which a conditional put must not be. And it makes a map and four objects of each
// cell; building cells from bytes keeps this package as fast as the bare client.

// call is what all requests have in common. The context is in it since hrpc.Call demands that.
type call struct {
	ctx        context.Context
	table, key []byte
	region     hrpc.RegionInfo
	result     chan hrpc.RPCResult
	seen       func(ctx context.Context, before, to hrpc.RegionInfo) // told of every region that the request is sent to
}

func (c *call) Table() []byte                   { return c.table }
func (c *call) Key() []byte                     { return c.key }
func (c *call) Region() hrpc.RegionInfo         { return c.region }
func (c *call) ResultChan() chan hrpc.RPCResult { return c.result }
func (c *call) Context() context.Context        { return c.ctx }

func (c *call) SetRegion(r hrpc.RegionInfo) {
	if c.seen != nil {
		c.seen(c.ctx, c.region, r)
	}
	c.region = r
}

func (c *call) specifier() *pb.RegionSpecifier {
	return &pb.RegionSpecifier{Type: hrpc.RegionSpecifierRegionName, Value: c.region.Name()}
}

// A locateCall is never sent: without a message the client gives it back, and by then has found
// the region of the key and a connection to its server.
type locateCall struct {
	call
	found bool
}

func (c *locateCall) Name() string               { return "Get" }
func (c *locateCall) Description() string        { return "Locate" }
func (c *locateCall) NewResponse() proto.Message { return &pb.GetResponse{} }
func (c *locateCall) ToProto() proto.Message {
	c.found = true
	return nil
}

// A getCall reads cells of one row.
type getCall struct {
	call
	get *pb.Get
}

func (c *getCall) Name() string               { return "Get" }
func (c *getCall) Description() string        { return "Get" }
func (c *getCall) NewResponse() proto.Message { return &pb.GetResponse{} }
func (c *getCall) ToProto() proto.Message {
	return &pb.GetRequest{Region: c.specifier(), Get: c.get}
}

// A decoder decodes n cells of one row.
type decoder func(b []byte, n int) (key []byte, cells []driver.Cell, read int, err error)

// A scanCall reads one page of rows out of one region.
type scanCall struct {
	call
	scan   *pb.Scan
	rows   uint32 // at most so many
	decode decoder

	page   []driver.Row
	bad    error
	more   bool   // the region has more rows
	cursor []byte // a row up to which nothing is left, if the server gave up early
}

func (c *scanCall) Name() string               { return "Scan" }
func (c *scanCall) Description() string        { return "Scan" }
func (c *scanCall) NewResponse() proto.Message { return &pb.ScanResponse{} }
func (c *scanCall) ToProto() proto.Message {
	// Each page is a scanner of its own that the server closes with the answer. An open one
	// would be lost with its region, and after a minute without a request.
	return &pb.ScanRequest{
		Region: c.specifier(), Scan: c.scan, NumberOfRows: &c.rows, CloseScanner: pbTrue,
		ClientHandlesPartials: pbFalse, ClientHandlesHeartbeats: pbTrue,
	}
}

func (c *scanCall) DeserializeCellBlocks(m proto.Message, b []byte) (uint32, error) {
	r := m.(*pb.ScanResponse)
	c.page, c.bad = make([]driver.Row, 0, len(r.CellsPerResult)), nil
	read := 0
	for _, n := range r.CellsPerResult {
		key, cells, k, err := c.decode(b[read:], int(n))
		if err != nil {
			c.bad = err
			return uint32(len(b)), nil
		}
		read += k
		if len(cells) > 0 {
			c.page = append(c.page, driver.Row{Key: key, Cells: cells})
		}
	}
	return uint32(read), nil
}

// answer takes what the response says besides the rows.
func (c *scanCall) answer(r *pb.ScanResponse) {
	if len(r.CellsPerResult) == 0 {
		c.page = nil // an earlier attempt may have left one
	}
	c.more = r.GetMoreResultsInRegion()
	c.cursor = nil
	message, _ := protowire.ConsumeBytes(unknownField(r, fieldResponseCursor, protowire.BytesType))
	if _, _, n := protowire.ConsumeTag(message); n > 0 {
		row, _ := protowire.ConsumeBytes(message[n:])
		c.cursor = slices.Clone(row)
	}
}

// A mutateCall puts or deletes cells of one row. It wraps gohbase's own request because only
// that can go into a batch, and overrides how it is written.
type mutateCall struct {
	*hrpc.Mutate
	mutation *pb.MutationProto
	cells    []byte
	seen     func(ctx context.Context, before, to hrpc.RegionInfo)
}

func (c *mutateCall) SetRegion(r hrpc.RegionInfo) {
	c.seen(c.Context(), c.Region(), r)
	c.Mutate.SetRegion(r)
}

func (c *mutateCall) CellBlocksEnabled() bool { return true }

func (c *mutateCall) SerializeCellBlocks(blocks [][]byte) (proto.Message, [][]byte, uint32) {
	return &pb.MutateRequest{
		Region:   &pb.RegionSpecifier{Type: hrpc.RegionSpecifierRegionName, Value: c.Region().Name()},
		Mutation: c.mutation,
	}, append(blocks, c.cells), uint32(len(c.cells))
}

// An atomicCall makes several mutations of one row at once, under a condition if there is one.
type atomicCall struct {
	call
	actions   []*pb.Action
	cells     [][]byte
	bytes     uint32
	condition *pb.Condition
}

func (c *atomicCall) Name() string               { return "Multi" }
func (c *atomicCall) Description() string        { return "RowMutations" }
func (c *atomicCall) NewResponse() proto.Message { return &pb.MultiResponse{} }
func (c *atomicCall) ToProto() proto.Message {
	return &pb.MultiRequest{RegionAction: []*pb.RegionAction{{
		Region: c.specifier(), Atomic: pbTrue, Action: c.actions,
	}}, Condition: c.condition}
}
func (c *atomicCall) CellBlocksEnabled() bool { return true }
func (c *atomicCall) SerializeCellBlocks(blocks [][]byte) (proto.Message, [][]byte, uint32) {
	return c.ToProto(), append(blocks, c.cells...), c.bytes
}

func (c *atomicCall) DeserializeCellBlocks(_ proto.Message, b []byte) (uint32, error) {
	return uint32(len(b)), nil // nothing in it is of interest
}

// A multiCall makes atomic changes of rows of one region, each under its own condition if it has one.
type multiCall struct {
	call
	changes []*atomicCall
}

func (c *multiCall) Name() string               { return "Multi" }
func (c *multiCall) Description() string        { return "RowMutations" }
func (c *multiCall) NewResponse() proto.Message { return &pb.MultiResponse{} }
func (c *multiCall) ToProto() proto.Message {
	m := &pb.MultiRequest{}
	for _, a := range c.changes {
		action := &pb.RegionAction{Region: c.specifier(), Atomic: pbTrue, Action: a.actions}
		if a.condition != nil {
			b := protowire.AppendTag(nil, fieldActionCondition, protowire.BytesType)
			action.ProtoReflect().SetUnknown(protowire.AppendBytes(b, wire.Must(proto.Marshal(a.condition))))
		}
		m.RegionAction = append(m.RegionAction, action)
	}
	return m
}

func (c *multiCall) CellBlocksEnabled() bool { return true }
func (c *multiCall) SerializeCellBlocks(blocks [][]byte) (proto.Message, [][]byte, uint32) {
	size := uint32(0)
	for _, a := range c.changes {
		blocks, size = append(blocks, a.cells...), size+a.bytes
	}
	return c.ToProto(), blocks, size
}

func (c *multiCall) DeserializeCellBlocks(_ proto.Message, b []byte) (uint32, error) {
	return uint32(len(b)), nil // nothing in it is of interest
}

// processed reports whether the condition of a change held, if the server says so.
func processed(r *pb.RegionActionResult) (held, said bool) {
	v, n := protowire.ConsumeVarint(unknownField(r, fieldResultProcessed, protowire.VarintType))
	return v != 0, n > 0
}

// A conditionalCall is a CheckAndPut. It can be sent once only: state goes from waiting to sent
// when the client writes it, or to abandoned when the caller gives up before that, and never on.
type conditionalCall struct {
	call
	mutation  *pb.MutationProto
	condition *pb.Condition
	state     atomic.Int32
}

const (
	waiting int32 = iota
	sent
	abandoned
)

func (c *conditionalCall) Name() string               { return "Mutate" }
func (c *conditionalCall) Description() string        { return "CheckAndPut" }
func (c *conditionalCall) NewResponse() proto.Message { return &pb.MutateResponse{} }
func (c *conditionalCall) ToProto() proto.Message {
	if !c.state.CompareAndSwap(waiting, sent) {
		return nil // which the client refuses to send
	}
	return &pb.MutateRequest{Region: c.specifier(), Mutation: c.mutation, Condition: c.condition}
}

var (
	pbTrue  = proto.Bool(true)
	pbFalse = proto.Bool(false)
)

// Fields of HBase 2 that gohbase's messages do not have. Protocol buffers carry them as unknown
// fields, of which a message may hold any.
const (
	fieldScanIncludeStart protowire.Number = 21
	fieldScanIncludeStop  protowire.Number = 22
	fieldScanNeedCursor   protowire.Number = 24
	fieldResponseCursor   protowire.Number = 12
	fieldActionCondition  protowire.Number = 4 // since HBase 2.4
	fieldConditionFilter  protowire.Number = 7 // since HBase 2.3
	fieldResultProcessed  protowire.Number = 3
)

func appendBool(b []byte, field protowire.Number, v bool) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), protowire.EncodeBool(v))
}

// unknownField returns the bytes of a message that begin with the content of a field that gohbase does not know, or nil.
func unknownField(m proto.Message, field protowire.Number, kind protowire.Type) []byte {
	for unknown := []byte(m.ProtoReflect().GetUnknown()); len(unknown) > 0; {
		number, k, n := protowire.ConsumeTag(unknown)
		if n < 0 {
			return nil
		}
		if number == field && k == kind {
			return unknown[n:]
		}
		m := protowire.ConsumeFieldValue(number, k, unknown[n:])
		if m < 0 {
			return nil
		}
		unknown = unknown[n+m:]
	}
	return nil
}
