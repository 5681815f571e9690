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
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/gate"
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

	// So many rows with cells that expire are written at once: each is read first.
	expiringAtOnce = 32

	// A server takes the rows of one request one after the other, and writes its log for each. So a request has only as
	// many as hide its own cost, and several are under way at once.
	multiRows    = 32
	multiBytes   = 1 << 20
	multisAtOnce = 8

	firstPause, longestPause = 20 * time.Millisecond, time.Second // between attempts
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
		return f.fail(ctx, "apply to", err)
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
	var atomics []*atomicCall
	deleted := false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var batches, others errgroup.Group
	batches.SetLimit(batchesAtOnce)
	others.SetLimit(expiringAtOnce)
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
			atomics = append(atomics, f.atomic(ctx, m, nil))
		case len(m.Puts) == 0 && len(m.Deletes) == 0 && !m.DeleteRow:
		default:
			c, err := f.mutate(ctx, m)
			if err != nil {
				cancel()
				return errors.Join(err, batches.Wait())
			}
			batch, size = append(batch, c), size+len(c.cells)
			if len(batch) >= batchRows || size >= batchBytes {
				flush()
			}
		}
	}
	flush()
	if len(atomics) > 0 {
		others.Go(func() error {
			_, err := f.sendAtomics(ctx, atomics)
			return stop(err)
		})
	}
	for _, m := range expiring {
		if ctx.Err() != nil {
			break
		}
		others.Go(func() error { return stop(f.sendExpiring(ctx, m)) })
	}
	err := cmp.Or(first(batches.Wait(), others.Wait()), ctx.Err())
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
		return nil, f.fail(ctx, "replace in", err)
	}
	return late, nil
}

func (f *family) replace(ctx context.Context, replacements []driver.Replacement) (late []int, err error) {
	if err := pause.For(ctx, afterDelete); err != nil {
		return nil, err
	}
	calls := make([]*atomicCall, len(replacements))
	for i, r := range replacements {
		deletes := make(map[string]uint64, len(r.Deletes))
		for _, q := range r.Deletes {
			deletes[string(q)] = uint64(r.Seen.Stamp)
		}
		for _, c := range r.Puts {
			if c.TTL > 0 { // what was seen would be seen again
				deletes[string(c.Qualifier)] = uint64(r.Seen.Stamp)
			}
		}
		calls[i] = f.atomic(ctx, driver.Mutation{Row: r.Row, Puts: r.Puts}, deletes)
		calls[i].condition = condition(calls[i].key, r.Seen)
	}
	held, err := f.sendAtomics(ctx, calls)
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
	if err := resend(ctx, func() error { _, err := f.db.rpc.SendRPC(c); return err }); err != nil {
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

func (f *family) sendBatch(ctx context.Context, calls []hrpc.Call) (results []hrpc.RPCResult, err error) {
	err = resend(ctx, func() error {
		var ok bool
		if results, ok = f.db.client.SendBatch(ctx, calls); ok {
			return nil
		}
		err := gohbase.NotExecutedError // which says that another one of the batch failed
		for _, r := range results {
			if r.Error != nil && errors.Is(err, gohbase.NotExecutedError) {
				err = r.Error
			}
		}
		return err
	})
	return results, err
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
		exception := actionError(m.(*pb.MultiResponse).RegionActionResult)
		if exception == nil {
			return m.(*pb.MultiResponse).GetProcessed(), nil
		}
		if !gate.Refused(javaClass(exception), exception) {
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

// A share is changes of rows that are in one region, and their places among those of the call.
type share struct {
	region hrpc.RegionInfo
	call   *multiCall
	places []int
	bytes  uint32
}

func (s *share) has(row []byte) bool {
	stop := s.region.StopKey()
	return bytes.Compare(row, s.region.StartKey()) >= 0 && (len(stop) == 0 || bytes.Compare(row, stop) < 0)
}

// sendAtomics sends atomic requests until they are done, and reports which of their conditions held.
func (f *family) sendAtomics(ctx context.Context, changes []*atomicCall) (held []bool, err error) {
	held = make([]bool, len(changes))
	if len(changes) == 1 { // the client finds its region
		held[0], err = f.sendAtomic(ctx, changes[0])
		return held, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(multisAtOnce)
	send := func(s *share) {
		group.Go(func() error { return f.sendShare(groupCtx, s, held) })
	}
	var shares []*share // one of each region
	for place, c := range changes {
		i := slices.IndexFunc(shares, func(s *share) bool { return s.has(c.key) })
		if i < 0 {
			var r hrpc.RegionInfo
			if r, err = f.locate(groupCtx, c.key); err != nil {
				break
			}
			i, shares = len(shares), append(shares, &share{region: r})
		}
		s := shares[i]
		if s.call == nil {
			s.call = &multiCall{call: f.db.request(groupCtx, f.table, c.key)}
		}
		s.call.changes, s.places, s.bytes = append(s.call.changes, c), append(s.places, place), s.bytes+c.bytes
		if len(s.places) == multiRows || s.bytes >= multiBytes {
			send(s)
			shares[i] = &share{region: s.region}
		}
	}
	for _, s := range shares {
		if len(s.places) > 0 && err == nil {
			send(s)
		}
	}
	if err := first(group.Wait(), err); err != nil {
		return held, err
	}
	return held, ctx.Err()
}

// sendShare sends changes as one request, once. What the server did not do, or may have done, is sent by itself.
func (f *family) sendShare(ctx context.Context, s *share, held []bool) error {
	var results []*pb.RegionActionResult
	takes, err := f.takes(ctx, s)
	if err != nil {
		return err
	}
	if takes {
		results = s.call.once(ctx, s.region)
	}
	for i, c := range s.call.changes {
		if len(results) == len(s.places) && actionError(results[i:i+1]) == nil {
			held[s.places[i]], _ = processed(results[i])
			continue
		}
		if takes { // it was sent, and may have been made
			pause.Repeats(ctx, "server_unavailable")
		}
		if held[s.places[i]], err = f.sendAtomic(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// once sends the request to a region, and returns nil where there is no answer.
func (c *multiCall) once(ctx context.Context, r hrpc.RegionInfo) []*pb.RegionActionResult {
	client := r.Client()
	if client == nil {
		return nil
	}
	c.SetRegion(r)
	go client.QueueRPC(c)
	select {
	case a := <-c.result:
		if m, ok := a.Msg.(*pb.MultiResponse); ok && a.Error == nil {
			return m.RegionActionResult
		}
	case <-ctx.Done():
	}
	return nil
}

// takes reports whether the server of a share heeds conditions of single changes. Those before HBase 2.4 overlook them,
// and would make each change. So the first request of each connection deletes what is not there, under a condition that
// does not hold: a server that heeds it says that it did nothing.
func (f *family) takes(ctx context.Context, s *share) (bool, error) {
	client := s.region.Client()
	if client == nil || len(s.places) == 1 {
		return false, nil
	}
	if s.call.changes[0].condition == nil {
		return true, nil
	}
	f.db.mu.Lock()
	known := f.db.heed[client.Addr()] == client
	f.db.mu.Unlock()
	if known {
		return true, nil
	}
	row := s.call.key
	probe := &atomicCall{call: f.db.request(ctx, f.table, row)}
	// All our values have a byte before them, so that none is empty.
	probe.condition = condition(row, driver.Cell{Qualifier: []byte("heed")})
	probe.condition.CompareType = pb.CompareType_NOT_EQUAL.Enum()
	m, cells := deletion(row, [][]byte{[]byte("heed")}, 1)
	probe.actions, probe.cells, probe.bytes = []*pb.Action{{Index: proto.Uint32(1), Mutation: m}}, [][]byte{cells}, uint32(len(cells))
	results := (&multiCall{call: f.db.request(ctx, f.table, row), changes: []*atomicCall{probe}}).once(ctx, s.region)
	if len(results) != 1 {
		return false, ctx.Err()
	}
	held, said := processed(results[0])
	if said && !held {
		f.db.mu.Lock()
		f.db.heed[client.Addr()] = client
		f.db.mu.Unlock()
	}
	return said && !held, nil
}

// resend sends a request, again and again as long as an overloaded server drops it from its queue. The client sends only what
// the queue did not take again.
func resend(ctx context.Context, send func() error) error {
	for n := 0; ; n++ {
		err := send()
		if err == nil || javaClass(err) != "CallDroppedException" || pause.For(ctx, pause.Grown(firstPause, longestPause, n)) != nil {
			return err
		}
	}
}

// backOff waits before a request is sent again, and says why it is.
func backOff(ctx context.Context, why string, attempt int) error {
	return pause.Again(ctx, why, firstPause, longestPause, attempt)
}

func actionError(results []*pb.RegionActionResult) error {
	for _, a := range results {
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
