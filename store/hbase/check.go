package hbase

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
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
		done, err = f.checkAndPut(ctx, row, expect, puts)
	}
	if err != nil {
		return false, f.db.fail(ctx, "check and put in "+f.spec.Name, err)
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

func (f *family) checkAndPut(ctx context.Context, row []byte, expect driver.Cell, puts []driver.Cell) (bool, error) {
	mutation, condition := conditional(row, expect, puts)
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

// conditional makes the parts of the request. They are never changed by the client.
func conditional(row []byte, expect driver.Cell, puts []driver.Cell) (*pb.MutationProto, *pb.Condition) {
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
	}, condition(row, expect)
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
		case refused[class], c.state.CompareAndSwap(waiting, abandoned):
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
