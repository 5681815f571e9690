package hbase

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

const (
	// A batch of 1,000 rows or a megabyte is where the cost of a request no longer shows; the
	// server takes a batch region by region, with one write of its log each. Of larger ones it
	// may refuse a part.
	batchRows  = 1000
	batchBytes = 1 << 20

	// Two batches under way keep the server busy while the next is made. More would only take
	// memory.
	batchesAtOnce = 2

	// This client cannot batch rows that need an atomic step of their own. So many of them are
	// under way at once.
	atomicAtOnce = 32

	// See the section on time in the package comment. One millisecond is what is needed, the
	// second is for clocks that are being slewed.
	afterDelete = 2 * time.Millisecond
)

// Apply implements [driver.Family].
func (f *family) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if err := f.spec.CheckMutations(mutations); err != nil {
		return err
	}
	ctx, cancel := f.db.bound(ctx)
	defer cancel()
	if err := f.apply(ctx, mutations); err != nil {
		return f.db.fail(ctx, "apply to "+f.spec.Name, err)
	}
	return nil
}

func (f *family) apply(ctx context.Context, mutations []driver.Mutation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(mutations) == 1 && simple(mutations[0]) {
		return f.applyOne(ctx, mutations[0])
	}
	var expiring []driver.Mutation
	deleted := false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var batches, atomics errgroup.Group
	batches.SetLimit(batchesAtOnce)
	atomics.SetLimit(atomicAtOnce)
	stop := func(err error) error {
		if err != nil {
			cancel() // the others need not go on
		}
		return err
	}
	var batch []hrpc.Call
	size := 0
	flush := func() {
		if calls := batch; len(calls) > 0 {
			batches.Go(func() error {
				_, err := f.sendBatch(ctx, calls)
				return stop(err)
			})
			batch, size = nil, 0
		}
	}
	for _, m := range mutations {
		if ctx.Err() != nil {
			break
		}
		deleted = deleted || m.DeleteRow || len(m.Deletes) > 0
		switch {
		case slices.ContainsFunc(m.Puts, func(c driver.Cell) bool { return c.TTL > 0 }):
			expiring = append(expiring, m)
		case len(m.Puts) > 0 && len(m.Deletes) > 0:
			c := f.atomic(ctx, m, nil)
			atomics.Go(func() error {
				_, err := f.sendAtomic(ctx, c)
				return stop(err)
			})
		case len(m.Puts) == 0 && len(m.Deletes) == 0 && !m.DeleteRow:
		default:
			c, err := f.mutate(ctx, m)
			if err != nil {
				cancel()
				return errors.Join(err, batches.Wait(), atomics.Wait())
			}
			batch, size = append(batch, c), size+len(c.cells)
			if len(batch) >= batchRows || size >= batchBytes {
				flush()
			}
		}
	}
	flush()
	for _, m := range expiring {
		if ctx.Err() != nil {
			break
		}
		atomics.Go(func() error { return stop(f.sendExpiring(ctx, m)) })
	}
	err := first(batches.Wait(), atomics.Wait())
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && deleted {
		err = pause.For(ctx, afterDelete)
	}
	return err
}

// Replace implements [driver.Family]. Each replacement is a request with a condition on the value of
// the cell that was seen, which the server checks and carries out with the row locked. The client
// may send it again: it then finds another value.
//
// Its deletions have the time of what was seen, so that they do not cover a put that follows in the
// same millisecond. It first waits until that time is over: a deletion of that time must not cover
// what it puts, nor may one of its own cover what comes next.
func (f *family) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	if err := f.spec.CheckReplacements(replacements); err != nil {
		return nil, err
	}
	ctx, cancel := f.db.bound(ctx)
	defer cancel()
	if late, err = f.replace(ctx, replacements); err != nil {
		return nil, f.db.fail(ctx, "replace in "+f.spec.Name, err)
	}
	return late, nil
}

func (f *family) replace(ctx context.Context, replacements []driver.Replacement) (late []int, err error) {
	if err := pause.For(ctx, afterDelete); err != nil {
		return nil, err
	}
	held := make([]bool, len(replacements))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atomicAtOnce)
	for i, r := range replacements {
		if groupCtx.Err() != nil {
			break
		}
		deletes := make(map[string]uint64, len(r.Deletes))
		for _, q := range r.Deletes {
			deletes[string(q)] = uint64(r.Seen.Stamp)
		}
		for _, c := range r.Puts {
			if c.TTL > 0 { // what was seen would be seen again
				deletes[string(c.Qualifier)] = uint64(r.Seen.Stamp)
			}
		}
		c := f.atomic(groupCtx, driver.Mutation{Row: r.Row, Puts: r.Puts}, deletes)
		c.condition = condition(c.key, r.Seen)
		group.Go(func() (err error) {
			held[i], err = f.sendAtomic(groupCtx, c)
			return err
		})
	}
	err = group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	for i, held := range held {
		if !held {
			late = append(late, i)
		}
	}
	return late, err
}

// simple reports whether a mutation is one request of HBase.
func simple(m driver.Mutation) bool {
	return (len(m.Puts) > 0) != (m.DeleteRow || len(m.Deletes) > 0) &&
		!slices.ContainsFunc(m.Puts, func(c driver.Cell) bool { return c.TTL > 0 })
}

// applyOne sends a single mutation without the cost of a batch. The client queues such a request, so
// that it heeds the context and sends those of other goroutines along with it.
func (f *family) applyOne(ctx context.Context, m driver.Mutation) error {
	c, err := f.mutate(ctx, m)
	if err != nil {
		return err
	}
	if _, err := f.db.rpc.SendRPC(c); err != nil {
		return err
	}
	if len(m.Puts) == 0 {
		return pause.For(ctx, afterDelete)
	}
	return nil
}

// first returns the error that came first, not those that it made the others return.
func first(a, b error) error {
	if a == nil || errors.Is(a, context.Canceled) && b != nil {
		return b
	}
	return a
}

// mutate makes the request for a mutation that only puts or only deletes.
func (f *family) mutate(ctx context.Context, m driver.Mutation) (*mutateCall, error) {
	key := slices.Clone(m.Row)
	base, err := hrpc.NewPut(ctx, f.table, key, nil)
	if err != nil {
		return nil, err
	}
	c := &mutateCall{Mutate: base, seen: f.db.see}
	switch {
	case m.DeleteRow:
		c.mutation, c.cells = deletion(key, nil, wire.Latest)
	case len(m.Deletes) > 0:
		c.mutation, c.cells = deletion(key, m.Deletes, wire.Latest)
	default:
		c.mutation, c.cells = puts(key, m.Puts)
	}
	return c, nil
}

// atomic makes the request for a mutation that puts and deletes, or puts cells that live for
// different times. The versions of cells named in old that are not younger than its times are
// deleted too.
func (f *family) atomic(ctx context.Context, m driver.Mutation, old map[string]uint64) *atomicCall {
	key := slices.Clone(m.Row)
	c := &atomicCall{call: f.db.request(ctx, f.table, key)}
	add := func(p *pb.MutationProto, cells []byte) {
		// The server takes the cells in the order of the actions.
		c.actions = append(c.actions, &pb.Action{Index: proto.Uint32(uint32(len(c.actions)) + 1), Mutation: p})
		c.cells = append(c.cells, cells)
		c.bytes += uint32(len(cells))
	}
	for q, t := range old {
		add(deletion(key, [][]byte{[]byte(q)}, t))
	}
	if len(m.Deletes) > 0 {
		add(deletion(key, m.Deletes, wire.Latest))
	}
	sorted := slices.SortedStableFunc(slices.Values(m.Puts), func(a, b driver.Cell) int { return cmp.Compare(a.TTL, b.TTL) })
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].TTL == sorted[0].TTL {
			n++
		}
		add(puts(key, sorted[:n]))
		sorted = sorted[n:]
	}
	return c
}

// puts makes one message of cells with the same time to live.
func puts(row []byte, cells []driver.Cell) (*pb.MutationProto, []byte) {
	size := 0
	for _, c := range cells {
		size += wire.CellSize(len(row), len(wire.QualifierHeader)+len(c.Qualifier), len(wire.ValueHeader)+len(c.Value))
	}
	b := make([]byte, 0, size)
	for _, c := range cells {
		b = wire.AppendCell(b, row, wire.QualifierHeader, c.Qualifier, wire.Latest, wire.TypePut, wire.ValueHeader, c.Value)
	}
	p := &pb.MutationProto{Row: row, MutateType: typeOfPut, AssociatedCellCount: proto.Int32(int32(len(cells)))}
	if ttl := cells[0].TTL; ttl > 0 {
		// HBase counts in milliseconds; whole seconds, rounded up, are what the seam promises.
		seconds := uint64((ttl-1)/time.Second) + 1
		p.Attribute = []*pb.NameBytesPair{{Name: proto.String("_ttl"), Value: binary.BigEndian.AppendUint64(nil, 1000*seconds)}}
	}
	return p, b
}

// deletion makes one message that deletes cells, or the whole row where there are no qualifiers.
func deletion(row []byte, qualifiers [][]byte, time uint64) (*pb.MutationProto, []byte) {
	p := &pb.MutationProto{Row: row, MutateType: typeOfDelete, AssociatedCellCount: proto.Int32(int32(max(1, len(qualifiers))))}
	if len(qualifiers) == 0 {
		return p, wire.AppendCell(nil, row, "", nil, time, wire.TypeDeleteFamily, "", nil)
	}
	size := 0
	for _, q := range qualifiers {
		size += wire.CellSize(len(row), len(wire.QualifierHeader)+len(q), 0)
	}
	b := make([]byte, 0, size)
	for _, q := range qualifiers {
		b = wire.AppendCell(b, row, wire.QualifierHeader, q, time, wire.TypeDeleteColumn, "", nil)
	}
	return p, b
}

var (
	typeOfPut    = pb.MutationProto_PUT.Enum()
	typeOfDelete = pb.MutationProto_DELETE.Enum()
)

func (f *family) sendBatch(ctx context.Context, calls []hrpc.Call) ([]hrpc.RPCResult, error) {
	results, ok := f.db.client.SendBatch(ctx, calls)
	if ok {
		return results, nil
	}
	err := gohbase.NotExecutedError // which says that another one of the batch failed
	for _, r := range results {
		if r.Error != nil && errors.Is(err, gohbase.NotExecutedError) {
			err = r.Error
		}
	}
	return nil, err
}

// sendAtomic sends an atomic request until it is done. The client does not look into the answer,
// which is where the server says that it does not have the region. If the request has a condition,
// held reports whether that held.
func (f *family) sendAtomic(ctx context.Context, c *atomicCall) (held bool, err error) {
	for attempt := 0; ; attempt++ {
		m, err := f.db.send(ctx, c)
		if err != nil {
			return false, err
		}
		exception := actionError(m.(*pb.MultiResponse))
		if exception == nil {
			return m.(*pb.MultiResponse).GetProcessed(), nil
		}
		if !refused[javaClass(exception)] {
			return false, exception
		}
		f.db.note(exception)
		if err := f.heal(ctx, c.key); err != nil {
			return false, err
		}
		if backOff(ctx, "server_unavailable", attempt) != nil {
			return false, exception
		}
		again := *c // the request that was sent belongs to the client
		again.call = f.db.request(ctx, c.table, c.key)
		c = &again
	}
}

// backOff waits before a request is sent again, and says why it is.
func backOff(ctx context.Context, why string, attempt int) error {
	return pause.Again(ctx, why, 20*time.Millisecond, time.Second, attempt)
}

func actionError(r *pb.MultiResponse) error {
	for _, a := range r.GetRegionActionResult() {
		e := a.GetException()
		for _, r := range a.GetResultOrException() {
			if e == nil {
				e = r.GetException()
			}
		}
		if e != nil {
			return errors.New(javaPrefix + e.GetName() + ":\n" + string(e.GetValue()))
		}
	}
	return nil
}

// heal reads from a row, by which the client finds out where it is.
func (f *family) heal(ctx context.Context, row []byte) error {
	_, err := f.db.send(ctx, f.db.get(ctx, f.table, row, &pb.Get{Row: row, ExistenceOnly: pbTrue}))
	return err
}

// sendExpiring puts cells with a time to live. A version before them would be seen again when
// their time is over, so the same step deletes it, by its timestamp: the deletion must not cover
// the put itself. If another client writes between the look and the step, the step is not done, as far as the first
// of the cells shows that.
func (f *family) sendExpiring(ctx context.Context, m driver.Mutation) error {
	for attempt := 0; ; attempt++ {
		done, err := f.tryExpiring(ctx, m)
		if err != nil || done {
			return err
		}
		if err := backOff(ctx, "row_changed", attempt); err != nil {
			return err
		}
	}
}

func (f *family) tryExpiring(ctx context.Context, m driver.Mutation) (done bool, err error) {
	key := slices.Clone(m.Row)
	var only [][]byte
	for _, c := range m.Puts {
		if c.TTL > 0 {
			only = append(only, slices.Clone(c.Qualifier))
		}
	}
	old := make(map[string]uint64)
	for _, q := range only {
		old[string(q)] = 0
	}
	r, err := f.db.send(ctx, f.db.get(ctx, f.table, key, &pb.Get{Row: key, Column: wire.Columns(driver.Slice{Only: only})}))
	if err != nil {
		return false, err
	}
	newest, seen := uint64(0), driver.Cell{Qualifier: only[0]}
	for _, c := range r.(*pb.GetResponse).GetResult().GetCell() {
		newest = max(newest, c.GetTimestamp())
		if bytes.Equal(c.GetQualifier(), wire.Stored(only[0])) {
			seen.Value = bytes.TrimPrefix(c.GetValue(), []byte(wire.ValueHeader))
		}
	}
	if newest == 0 {
		old = nil
	}
	for q := range old {
		old[q] = newest
	}
	// The put must get a later time than what it replaces.
	if newest > 0 {
		if err := pause.For(ctx, afterDelete); err != nil {
			return false, err
		}
	}
	c := f.atomic(ctx, m, old)
	c.condition = condition(c.key, seen)
	return f.sendAtomic(ctx, c)
}
