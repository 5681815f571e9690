package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/gate"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

// CheckAndPut implements [driver.Family].
//
// Gohbase sends a request again when the connection broke, whether it had been written or not.
// The second one finds what the first one put, and reports that nothing was done. So the client
// is only asked where the row is; the request is given to that connection by us, once.
func (f *family) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	if err := f.spec.CheckConditional(row, []driver.Cell{expect}, puts, nil); err != nil {
		return false, err
	}
	ctx, cancel := f.db.bound(ctx)
	defer cancel()
	row = slices.Clone(row)
	var done bool
	var err error
	if len(puts) == 0 {
		done, err = f.holds(ctx, row, expect)
	} else {
		done, err = f.putUnder(ctx, row, condition(row, expect), puts)
	}
	if err != nil {
		return false, f.fail(ctx, "check and put in", err)
	}
	return done, nil
}

// holds is the condition alone, since HBase refuses to put nothing.
func (f *family) holds(ctx context.Context, row []byte, expect driver.Cell) (bool, error) {
	cells, err := f.read(ctx, row, driver.Slice{Only: [][]byte{expect.Qualifier}})
	if err != nil {
		return false, err
	}
	if len(cells) == 0 {
		return expect.Value == nil, nil
	}
	return expect.Value != nil && string(cells[0].Value) == string(expect.Value), nil
}

// mostGuarded is how many free cells a guard has at most. With twice as many, the filters take longer than the read in place
// of them: for each cell, the server walks through the prefixes up to it.
const mostGuarded = 512

// PutGuarded implements [driver.Guarder].
func (f *family) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	if err := f.spec.CheckGuarded(row, guard, puts); err != nil {
		return false, err
	}
	if len(guard.Free) > mostGuarded {
		return false, nil
	}
	ctx, cancel := f.db.bound(ctx)
	defer cancel()
	row = slices.Clone(row)
	done, err := f.putUnder(ctx, row, guardCondition(row, guard), puts)
	if err != nil {
		return false, f.fail(ctx, "put under a guard in", err)
	}
	return done, nil
}

func (f *family) putUnder(ctx context.Context, row []byte, condition *pb.Condition, puts []driver.Cell) (bool, error) {
	mutation := conditional(row, puts) // the client never changes what it sends
	for n := 0; ; n++ {
		r, err := f.locate(ctx, row)
		if err != nil {
			return false, err
		}
		done, err := f.attempt(ctx, r, &conditionalCall{call: f.db.request(ctx, f.table, row), mutation: mutation, condition: condition})
		if !errors.Is(err, errNotDone) {
			return done, err
		}
		// The server has not begun with it, so it may be sent again. A read makes the client
		// look for the region.
		f.db.note(err)
		if err := f.heal(ctx, row); err != nil {
			return false, err
		}
		if err := backOff(ctx, "server_unavailable", n); err != nil {
			return false, err
		}
	}
}

func conditional(row []byte, puts []driver.Cell) *pb.MutationProto {
	values := make([]*pb.MutationProto_ColumnValue_QualifierValue, len(puts))
	for i, c := range puts {
		values[i] = &pb.MutationProto_ColumnValue_QualifierValue{
			Qualifier: wire.Stored(c.Qualifier),
			Value:     append([]byte(wire.ValueHeader), c.Value...),
		}
	}
	return &pb.MutationProto{
		Row: row, MutateType: typeOfPut,
		ColumnValue: []*pb.MutationProto_ColumnValue{{Family: []byte(wire.ColumnFamily), QualifierValue: values}},
	}
}

func condition(row []byte, expect driver.Cell) *pb.Condition {
	// An empty value to compare with holds where there is no cell; all our cells have a byte.
	var value []byte
	if expect.Value != nil {
		value = append([]byte(wire.ValueHeader), expect.Value...)
	}
	return &pb.Condition{
		Row: row, Family: []byte(wire.ColumnFamily), Qualifier: wire.Stored(expect.Qualifier),
		CompareType: pb.CompareType_EQUAL.Enum(),
		Comparator:  wire.Must(filter.NewBinaryComparator(filter.NewByteArrayComparable(value)).ConstructPBComparator()),
	}
}

// guardCondition makes a condition that a row is left over by filters. The first of them has the server seek the cells
// that are named, and see no other: it takes a cell if the greatest prefix not above its qualifier begins it. So the
// second prefix, which no cell has, keeps the first from all other cells. The other filters leave nothing of the row
// unless its first cell begins as it must, or if another cell is there and not gone.
//
// Servers before HBase 2.3 overlook the filter. For them the condition is one that never holds.
func guardCondition(row []byte, guard driver.Guard) *pb.Condition {
	first := wire.Stored(nil)
	seen := [][]byte{first, append(slices.Clip(first), 0)}
	for _, q := range guard.Free {
		seen = append(seen, wire.Stored(q))
	}
	equal := func(c filter.Comparator) *filter.CompareFilter { return filter.NewCompareFilter(filter.Equal, c) }
	prefix := filter.NewByteArrayComparable(append([]byte(wire.ValueHeader), guard.Prefix...))
	left := filter.NewList(filter.MustPassAll,
		filter.NewMultipleColumnPrefixFilter(slices.CompactFunc(seen, bytes.Equal)),
		filter.NewSingleColumnValueFilter([]byte(wire.ColumnFamily), first, filter.Equal,
			filter.NewBinaryPrefixComparator(prefix), true, true),
		filter.NewSkipFilter(filter.NewList(filter.MustPassOne,
			filter.NewQualifierFilter(equal(filter.NewBinaryComparator(filter.NewByteArrayComparable(first)))),
			filter.NewValueFilter(equal(wire.StoredValue(guard.Gone))))))
	c := condition(row, driver.Cell{})
	c.Comparator = wire.Must(filter.NewBinaryComparator(filter.NewByteArrayComparable([]byte("no value begins so"))).ConstructPBComparator())
	b := protowire.AppendTag(nil, fieldConditionFilter, protowire.BytesType)
	c.ProtoReflect().SetUnknown(protowire.AppendBytes(b, wire.Must(proto.Marshal(wire.Must(left.ConstructPBFilter())))))
	return c
}

// locate returns the region that a row is in, with a connection.
func (f *family) locate(ctx context.Context, row []byte) (hrpc.RegionInfo, error) {
	for {
		c := &locateCall{call: f.db.request(ctx, f.table, row)}
		_, err := f.db.send(ctx, c)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			return nil, errors.New("a request without a message was answered")
		case !c.found:
			return nil, err
		case c.region.Client() != nil:
			return c.region, nil
		}
		// The connection was lost just now.
		if err := f.heal(ctx, row); err != nil {
			return nil, err
		}
		pause.Repeats(ctx, "server_unavailable")
	}
}

// errNotDone says that a request was not begun with.
var errNotDone = errors.New("the request was refused")

// attempt sends a request once, and says what is known of it.
func (f *family) attempt(ctx context.Context, r hrpc.RegionInfo, c *conditionalCall) (bool, error) {
	rc := r.Client()
	if rc == nil {
		return false, errNotDone
	}
	c.SetRegion(r)
	go rc.QueueRPC(c)
	select {
	case a := <-c.result:
		return c.outcome(a)
	case <-ctx.Done():
		if c.state.CompareAndSwap(waiting, abandoned) {
			return false, ctx.Err()
		}
		// It may have been answered at the same time.
		select {
		case a := <-c.result:
			return c.outcome(a)
		default:
			return false, fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
}

func (c *conditionalCall) outcome(a hrpc.RPCResult) (bool, error) {
	if a.Error != nil {
		class := javaClass(a.Error)
		switch {
		case gate.Refused(class, a.Error), c.state.CompareAndSwap(waiting, abandoned):
			return false, fmt.Errorf("%w: %w", errNotDone, a.Error)
		case impossible[class]:
			return false, a.Error
		}
		return false, fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, a.Error)
	}
	r, ok := a.Msg.(*pb.MutateResponse)
	if !ok || r.Processed == nil {
		return false, fmt.Errorf("%w: the answer does not say", driver.ErrUnknownOutcome)
	}
	return r.GetProcessed(), nil
}
