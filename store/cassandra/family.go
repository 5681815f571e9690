package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/clock"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/doubt"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/instant"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	// Apply puts mutations of one partition into batches of at most so many statements and
	// bytes. A batch of one partition is one mutation to the server, which takes 16 MiB by
	// default. Larger batches than these gain nothing: they only keep one thread of the server
	// busy for longer.
	batchStatements = 256
	batchBytes      = 256 << 10

	// Small batches of several partitions are one request, which saves the server and the client most of what a request costs.
	// By default the server warns of more than 10 partitions, and of 5 KiB with what it adds to each cell.
	togetherParts, togetherBytes, cellBytes = 10, 4 << 10, 64

	// The server takes no longer TTL: 20 years.
	maxTTL = 630_720_000 * time.Second
)

// family implements [driver.Committer].
type family struct {
	db    *DB
	spec  driver.FamilySpec
	table string // with the keyspace

	// Statements. The columns of the key come first in put and delete, after the value in cas. Puts end with the TTL. All that put
	// say one, of which 0 is none: otherwise the server would take the default_time_to_live that somebody gave the table.
	put, deleteCell, deleteRow, youngest string
	cas, casDelete, casUnlike            string
	all                                  string // cells of a row

	// For the cells of a head, by the length of the qualifier: put and cas take the value twice.
	headPut, headCAS, headDelete [2]string

	sizes    sizes
	rowSizes driver.Sizes // of GetBatch
	doubt    *doubt.Rows  // of all handles of the table
	watched  watch
}

var _ driver.Committer = (*family)(nil)

func newFamily(db *DB, spec driver.FamilySpec, table string) *family {
	rows, _ := db.doubts.LoadOrStore(table, doubt.New())
	f := &family{db: db, spec: spec, table: db.keyspace + "." + table, doubt: rows.(*doubt.Rows)}
	columns, row := "p, k", "p = ? AND k = ?"
	if spec.Layout == driver.LayoutWide {
		columns, row = "k", "k = ?"
	}
	marks := strings.Repeat("?, ", strings.Count(columns, ",")+2) + "?"
	f.put = fmt.Sprintf("INSERT INTO %s (%s, q, v) VALUES (%s) USING TTL ?", f.table, columns, marks)
	f.deleteRow = fmt.Sprintf("DELETE FROM %s WHERE %s", f.table, row)
	f.deleteCell = f.deleteRow + " AND q = ?"
	f.youngest = fmt.Sprintf("SELECT max(writetime(v)) FROM %s WHERE %s", f.table, row)
	f.cas = fmt.Sprintf("UPDATE %s USING TTL 0 SET v = ? WHERE %s AND q = ? IF v = ?", f.table, row)
	f.casUnlike = fmt.Sprintf("UPDATE %s USING TTL 0 SET v = ? WHERE %s AND q = ? IF v != ?", f.table, row)
	f.casDelete = f.deleteCell + " IF v = ?"
	f.all = fmt.Sprintf(cellColumns+" FROM %s WHERE %s", f.table, row)
	for i, h := range []string{"h0", "h1"} {
		f.headPut[i] = fmt.Sprintf("INSERT INTO %s (k, q, v, %s) VALUES (?, ?, ?, ?) USING TTL ?", f.table, h)
		f.headCAS[i] = fmt.Sprintf("UPDATE %s USING TTL 0 SET v = ?, %s = ? WHERE k = ? AND q = ? IF v = ?", f.table, h)
		f.headDelete[i] = fmt.Sprintf("DELETE %s FROM %s WHERE k = ?", h, f.table)
	}
	f.watched.init(spec)
	return f
}

// inHead reports whether a cell is also kept in a static column.
func (f *family) inHead(qualifier []byte) bool {
	return f.spec.Layout == driver.LayoutWide && driver.InHead(qualifier)
}

// key appends the columns of a row's key.
func (f *family) key(values []any, part any, row []byte) []any {
	if f.spec.Layout == driver.LayoutOrdered {
		values = append(values, part)
	}
	return append(values, row)
}

// Get implements [driver.Family].
func (f *family) Get(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	if err := errors.Join(f.spec.CheckRow(row), f.spec.CheckSlice(cells)); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("cassandra: get: %w", pause.Ended(ctx))
	}
	if cells.Decided {
		f.doubt.Add(row) // as if a change of this client might not be decided
	}
	read := f.get
	if cells.Head {
		read = f.getWithHead
	}
	out, err := read(ctx, row, cells)
	if TooManyMarkers(err) && len(cells.Only) == 0 && len(cells.Indexes) == 0 {
		out, err = f.getInPieces(ctx, row, cells)
	}
	return out, f.db.failed(ctx, "get", err)
}

// get reads the slice of a row at once, without pages: the pages of one query are not of one
// instant.
func (f *family) get(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	if cells.Empty() {
		return nil, nil
	}
	part := partition(f.spec, row)
	stmt, values := f.selectRow(part, row, cells, false)
	if len(cells.Indexes) > 0 {
		stmt = columnsOf(cells) + strings.TrimPrefix(stmt, cellColumns+" FROM ")
		rows, _, _, err := f.readRows(f.db.reading(f.db.session.Query(stmt, values...)).RoutingKey(part).IterContext(ctx), driver.Range{Cells: cells})
		if rows = there(rows); err != nil || len(rows) == 0 {
			return nil, err
		}
		return rows[0].Cells, nil
	}
	var stamp int64
	var more []any
	if cells.Stamps {
		stmt = cellColumns + ", writetime(v)" + strings.TrimPrefix(stmt, cellColumns)
		more = []any{&stamp}
	}
	var out []driver.Cell
	err := f.readRow(ctx, part, row, stmt, values, func(i *gocql.Iter) {
		out = make([]driver.Cell, 0, i.NumRows())
		for c, ok := nextCell(i, more...); ok; c, ok = nextCell(i, more...) {
			c.Stamp = stamp
			out = append(out, c)
		}
	})
	if err != nil {
		return nil, err
	}
	f.db.clock.See(out)
	return out, nil
}

// getInPieces reads a slice that the server gives up. Its pieces are not of one instant. So all are read until two times agree
// in every cell, write times included: nothing that is there has changed from the end of the first to the beginning of the
// second.
func (f *family) getInPieces(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	s, joined := cells, false
	if cells.Head {
		if s, joined = cells.JoinHead(); joined {
			s.Limit = cells.LimitWithHead()
		}
	}
	s.Head, s.Stamps = false, true
	var begins [][]byte
	out, err := instant.Agreed(ctx, cells.Stamps, nil, func() (out []driver.Cell, err error) {
		if cells.Head && !joined {
			if out, err = f.get(ctx, row, driver.Slice{End: driver.AboveHead(), Stamps: true}); err != nil {
				return nil, err
			}
		}
		var rest []driver.Cell
		rest, begins, err = f.pieces(ctx, row, s, begins)
		return append(out, rest...), err
	})
	if joined {
		out = cells.CutBehindHead(out)
	}
	return out, err
}

// pieces reads a slice in pieces: the first begins where the slice does, and the others at some qualifiers. What the server gives up
// is cut. It returns where all pieces begin in the end, so that who reads again need not meet as many markers in vain.
func (f *family) pieces(ctx context.Context, row []byte, s driver.Slice, at [][]byte) (out []driver.Cell, begins [][]byte, err error) {
	piece := s
	for i := 0; i <= len(at); i++ {
		if piece.End = s.End; i < len(at) {
			piece.End = at[i]
		}
		var within [][]byte
		more, err := f.get(ctx, row, piece)
		if TooManyMarkers(err) {
			if cut := cuts(piece.Start, piece.End); len(cut) > 0 {
				more, within, err = f.pieces(ctx, row, piece, cut)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			begins = append(begins, piece.Start)
		}
		begins = append(begins, within...)
		if out = append(out, more...); s.Limit > 0 && len(out) >= s.Limit {
			break
		}
		piece.Start, piece.Limit = piece.End, max(0, s.Limit-len(out))
	}
	return out, begins, nil
}

// readRow runs a query of one row and lets take have the answer.
func (f *family) readRow(ctx context.Context, part, row []byte, stmt string, values []any, take func(*gocql.Iter)) error {
	for attempt := 0; ; attempt++ {
		q := f.db.reading(f.db.session.Query(stmt, values...)).RoutingKey(part)
		mark, inDoubt := f.doubt.Has(row)
		if inDoubt {
			// A conditional change of unknown outcome may have been decided without having been
			// carried out. A read at SERIAL carries it out first. One at a time, since they would
			// keep each other from ending, and the first one mostly spares the others.
			select {
			case f.doubt.Turn <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			if mark, inDoubt = f.doubt.Has(row); inDoubt {
				q.Consistency(f.db.serial)
			} else {
				<-f.doubt.Turn
			}
		}
		i := q.IterContext(ctx)
		take(i)
		err := i.Close()
		if inDoubt {
			if err == nil {
				f.doubt.Settle(row, mark)
			}
			<-f.doubt.Turn
		}
		if err == nil || !inDoubt || !contended(err) || attempt == serialAttempts {
			return err
		}
		// The read takes part in the contest for the row, and loses it within milliseconds on a
		// busy row. To repeat it is harmless.
		if err := pause.Again(ctx, "contended_row", 8*time.Millisecond, 400*time.Millisecond, attempt); err != nil {
			return err
		}
	}
}

// serialAttempts is how often a read at SERIAL is repeated, over some four seconds.
const serialAttempts = 18

// cellColumns is what the query of a row begins with.
const cellColumns = "SELECT q, v"

// nextCell takes a cell off an answer that begins with the columns q and v.
func nextCell(i *gocql.Iter, more ...any) (c driver.Cell, ok bool) {
	for ok = true; ok && c.Value == nil; { // or it is not there, see there
		c.Qualifier, c.Value = nil, []byte{}
		ok = i.Scan(append([]any{&c.Qualifier, &c.Value}, more...)...)
	}
	c.Qualifier = blob(c.Qualifier)
	return c, ok
}

// getWithHead reads a slice with the head of its row. With a limit, an answer need not be of one instant, which package instant sees.
func (f *family) getWithHead(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	if cells.Limit == 0 {
		return f.getOnceWithHead(ctx, row, cells)
	}
	s := cells
	s.Stamps = true
	return instant.Agreed(ctx, cells.Stamps, instant.OfHead, func() ([]driver.Cell, error) { return f.getOnceWithHead(ctx, row, s) })
}

// getOnceWithHead does so without a look at that.
//
// The static columns come with every CQL row of the slice, but do not come with none. Then the
// cell before the end of the slice is asked for: that it lies before the start, or that there is
// none, says that the slice is empty, and its static columns are of the same instant.
func (f *family) getOnceWithHead(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	if s, ok := cells.JoinHead(); ok {
		s.Limit = cells.LimitWithHead()
		out, err := f.get(ctx, row, s)
		return cells.CutBehindHead(out), err
	}
	for {
		out, found, err := f.sliceAndHead(ctx, row, cells, false)
		if err != nil || found {
			return out, err
		}
		before := driver.Slice{End: cells.End, Limit: 1, Stamps: cells.Stamps}
		if out, found, err = f.sliceAndHead(ctx, row, before, true); err != nil || !found {
			return nil, err // without a cell there is no head either
		}
		if last := len(out) - 1; bytes.Compare(out[last].Qualifier, cells.Start) < 0 {
			return out[:last], nil
		}
		// Not empty any more.
	}
}

// sliceAndHead reads a slice, from its end where last is set, with the head of its row in front. It
// reports whether the slice has any cell.
func (f *family) sliceAndHead(ctx context.Context, row []byte, s driver.Slice, last bool) (out []driver.Cell, found bool, err error) {
	part := partition(f.spec, row)
	stmt, values := f.selectRow(part, row, s, last)
	columns := ", h0, h1"
	var h [2]*[]byte // nil for null
	var stamp int64
	var headStamps [2]*int64 // as h
	first, more := []any{&h[0], &h[1]}, []any{nil, nil}
	if s.Stamps {
		columns += ", writetime(v), writetime(h0), writetime(h1)"
		first, more = append(first, &stamp, &headStamps[0], &headStamps[1]), append(more, &stamp, nil, nil)
	}
	stmt = cellColumns + columns + strings.TrimPrefix(stmt, cellColumns)
	err = f.readRow(ctx, part, row, stmt, values, func(i *gocql.Iter) {
		out = make([]driver.Cell, 0, i.NumRows()+2)
		c, ok := nextCell(i, first...)
		if found = ok; !ok {
			return
		}
		for n, value := range h {
			if value == nil {
				continue
			}
			head := driver.Cell{Qualifier: make([]byte, n), Value: blob(*value)}
			if s.Stamps && headStamps[n] != nil {
				head.Stamp = *headStamps[n]
			}
			out = append(out, head)
		}
		for ; ok; c, ok = nextCell(i, more...) {
			c.Stamp = stamp
			out = append(out, c)
		}
	})
	if err != nil {
		return nil, false, err
	}
	f.db.clock.See(out)
	return out, found, nil
}

// selectRow returns the query of a slice, which takes the cells from its end where last is set.
func (f *family) selectRow(part, row []byte, cells driver.Slice, last bool) (stmt string, values []any) {
	values = f.key(make([]any, 0, 6), part, row)
	if cells.Limit == 0 && len(cells.Only) == 0 && len(cells.Start) == 0 && cells.End == nil {
		return f.all, values
	}
	var b strings.Builder
	b.WriteString(f.all)
	values = whereCells(&b, values, cells)
	if last {
		b.WriteString(" ORDER BY q DESC")
	}
	if cells.Limit > 0 {
		b.WriteString(" LIMIT ?")
		values = append(values, cells.Limit)
	}
	return b.String(), values
}

// whereCells appends the conditions of a slice.
func whereCells(stmt *strings.Builder, values []any, s driver.Slice) []any {
	switch {
	case len(s.Only) == 1:
		stmt.WriteString(" AND q = ?")
		return append(values, blob(s.Only[0]))
	case len(s.Only) > 1:
		only := make([][]byte, len(s.Only))
		for i, q := range s.Only {
			only[i] = blob(q)
		}
		stmt.WriteString(" AND q IN ?")
		return append(values, only)
	}
	if len(s.Start) > 0 {
		stmt.WriteString(" AND q >= ?")
		values = append(values, bound(s.Start))
	}
	if s.End != nil {
		stmt.WriteString(" AND q < ?")
		values = append(values, bound(s.End))
	}
	return values
}

// Apply implements [driver.Family].
func (f *family) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if err := f.spec.CheckMutations(mutations); err != nil {
		return err
	}
	if err := checkTTL(mutations); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("cassandra: apply: %w", pause.Ended(ctx))
	}
	return f.db.failed(ctx, "apply", f.sendAll(ctx, f.batches(mutations, asOf(mutations))))
}

// asOf returns the timestamps of mutations that are to count as made earlier; nil for others.
func asOf(mutations []driver.Mutation) []int64 {
	if len(mutations) == 0 || mutations[0].AsOf.IsZero() {
		return nil
	}
	at := max(clock.Step, mutations[0].AsOf.UnixMicro()) // 0 is none
	return slices.Repeat([]int64{at - at%clock.Step}, len(mutations))
}

func checkTTL(mutations []driver.Mutation) error {
	for _, m := range mutations {
		for _, c := range m.Puts {
			if c.TTL > maxTTL {
				return fmt.Errorf("%w: TTL is %v, Cassandra takes at most 20 years", driver.ErrRange, c.TTL)
			}
		}
	}
	return nil
}

// Replace implements [driver.Family]. A replacement has a timestamp right after that of the cell
// that was seen, as much later as its rank is. All later mutations have greater ones, and win.
//
// It deletes with the timestamp of that cell itself. No cell that was there is younger, and what
// another replacement puts stays. Of a put and a deletion with one timestamp the deletion would win,
// and could take a cell from the very replacement that has won.
func (f *family) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	if err := f.spec.CheckReplacements(replacements); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("cassandra: replace: %w", pause.Ended(ctx))
	}
	mutations, stamps := make([]driver.Mutation, len(replacements)), make([]int64, len(replacements))
	for i, r := range replacements {
		mutations[i] = driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: r.Deletes}
		if stamps[i], err = f.db.clock.Behind(ctx, r.Seen.Stamp, r.Rank); err != nil {
			return nil, f.db.failed(ctx, "replace", err)
		}
	}
	if err := checkTTL(mutations); err != nil {
		return nil, err
	}
	return nil, f.db.failed(ctx, "replace", f.sendAll(ctx, f.batches(mutations, stamps)))
}

// sendAll sends batches, several at a time.
func (f *family) sendAll(ctx context.Context, batches []*batch) error {
	requests := f.together(batches)
	if len(requests) == 1 { // in the goroutine of the caller, whose stack has grown
		if err := f.db.slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer f.db.slots.Release(1)
		return f.send(ctx, requests[0])
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, r := range requests {
		// The slot is taken here, so that no more goroutines exist than can work.
		if f.db.slots.Acquire(groupCtx, 1) != nil {
			break
		}
		group.Go(func() error {
			defer f.db.slots.Release(1)
			return f.send(groupCtx, r)
		})
	}
	err := group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// together divides batches by the request that sends them. A row of a family with wide rows may be deleted, for which it is read before.
func (f *family) together(batches []*batch) (requests [][]*batch) {
	of, room := int64(0), 0 // the timestamp of the last request, and for how many bytes there is room in it
	for _, b := range batches {
		stamp, one := b.stamp()
		size, last := b.size+b.statements*cellBytes, len(requests)-1
		switch {
		case b.statements == 0:
		case size <= room && one && stamp == of && len(requests[last]) < togetherParts:
			requests[last], room = append(requests[last], b), room-size
		default:
			if requests, of, room = append(requests, []*batch{b}), stamp, togetherBytes-size; !one || f.spec.Layout == driver.LayoutWide {
				room = 0
			}
		}
	}
	return requests
}

// A batch is mutations of one partition, which the server applies as a whole.
type batch struct {
	part             []byte
	mutations        []driver.Mutation
	stamps           []int64 // of the mutations, where they are replacements, or count as made earlier
	statements, size int
	first            int // index of the first mutation
}

// batches groups mutations by partition, in batches of bounded size. A mutation is never split.
// Replacements have timestamps of their own, and so has what counts as made earlier.
func (f *family) batches(mutations []driver.Mutation, stamps []int64) []*batch {
	if len(mutations) == 1 {
		b := &batch{part: partition(f.spec, mutations[0].Row), mutations: mutations, stamps: stamps}
		b.statements, b.size = f.weigh(mutations[0])
		return []*batch{b}
	}
	var all []*batch
	open := make(map[string]*batch) // by partition, the one to be filled
	var b *batch                    // that of the mutation before
	var part []byte
	for i, m := range mutations {
		part = appendPartition(part[:0], f.spec, m.Row)
		if b == nil || !bytes.Equal(b.part, part) {
			b = open[string(part)]
		}
		statements, size := f.weigh(m)
		if b == nil || b.statements+statements > batchStatements || b.size+size > batchBytes {
			b = &batch{part: bytes.Clone(part), first: i}
			all = append(all, b)
			open[string(part)] = b
		}
		if b.first+len(b.mutations) == i {
			b.mutations = mutations[b.first : i+1 : i+1] // not copied, as long as it is a stretch
		} else {
			b.mutations = append(b.mutations, m)
		}
		if stamps != nil {
			b.stamps = append(b.stamps, stamps[i])
		}
		b.statements += statements
		b.size += size
	}
	return all
}

func (f *family) weigh(m driver.Mutation) (statements, size int) {
	if m.DeleteRow {
		return 1, len(m.Row)
	}
	statements = len(m.Puts) + len(m.Deletes)
	size = statements * len(m.Row)
	for _, c := range m.Puts {
		size += len(c.Qualifier) + len(c.Value)
	}
	for _, q := range m.Deletes {
		size += len(q)
		if f.inHead(q) {
			statements++
		}
	}
	return statements, size
}

// send sends batches as one statement or batch of statements. It may be repeated, since it has a timestamp.
func (f *family) send(ctx context.Context, batches []*batch) error {
	first, statements := batches[0], 0
	for _, b := range batches {
		statements += b.statements
	}
	stamp, one := first.stamp()
	if stamp == 0 {
		stamp = f.db.clock.Next()
	}
	if f.spec.Layout == driver.LayoutWide && first.mutations[0].DeleteRow && first.stamps == nil { // then it is the only one
		// The row may have been written by conditional changes, whose timestamps are the
		// server's. A clock that is slower would delete nothing.
		var youngest *int64
		q := f.db.reading(f.db.session.Query(f.youngest, first.part)).RoutingKey(first.part).Consistency(f.db.serial)
		if err := q.ScanContext(ctx, &youngest); err != nil {
			return err
		}
		if youngest != nil {
			stamp = f.db.clock.After(*youngest)
		}
	}
	var err error
	if statements == 1 {
		f.statements(first, one, func(stmt string, values []any) {
			q := f.db.session.Query(stmt, values...).RoutingKey(first.part).Consistency(f.db.quorum).PageSize(0)
			err = f.db.repeated(q.WithTimestamp(stamp)).ExecContext(ctx)
		})
	} else {
		q := f.db.session.Batch(gocql.UnloggedBatch).Consistency(f.db.quorum).WithTimestamp(stamp).RetryPolicy(new(retry))
		if twice := f.db.twice(); twice != nil {
			q = q.SpeculativeExecutionPolicy(twice)
		}
		q.Entries = make([]gocql.BatchEntry, 0, statements)
		for _, b := range batches {
			f.statements(b, one, func(stmt string, values []any) {
				q.Entries = append(q.Entries, gocql.BatchEntry{Stmt: stmt, Args: values, Idempotent: true})
			})
		}
		err = q.ExecContext(ctx)
	}
	if err == nil {
		for _, b := range batches {
			f.watch(b.part, len(b.mutations), b.size)
		}
	}
	return err
}

// stamp returns the timestamp of all statements, 0 for one of the clock: then the request has it, where it costs the server less.
func (b *batch) stamp() (stamp int64, one bool) {
	for i := range b.stamps {
		if stamp = b.stamps[0]; b.stamps[i] != stamp || len(b.mutations[i].Deletes) > 0 {
			return 0, false
		}
	}
	return stamp, true
}

// statements calls add for each statement of a batch. Unless they have one timestamp, those of a mutation carry its own.
func (f *family) statements(b *batch, one bool, add func(stmt string, values []any)) {
	var part any = b.part
	plain := add
	for i, m := range b.mutations {
		if !one {
			add = func(stmt string, values []any) {
				at, stamp := len(values), b.stamps[i] // after what is put, in front of what is deleted
				if strings.HasPrefix(stmt, "DELETE") {
					at, stamp = 0, stamp-1
				}
				plain(stamped(stmt), slices.Insert(values, at, any(stamp)))
			}
		}
		if m.DeleteRow {
			add(f.deleteRow, f.key(nil, part, m.Row))
			continue
		}
		for _, c := range m.Puts {
			add(f.putCell(part, m.Row, c))
		}
		for _, q := range m.Deletes {
			add(f.deleteCell, append(f.key(make([]any, 0, 3), part, m.Row), blob(q)))
			if f.inHead(q) {
				add(f.headDelete[len(q)], []any{m.Row})
			}
		}
	}
}

// stamped returns the statement of a replacement for that of a mutation.
func stamped(stmt string) string {
	if strings.HasPrefix(stmt, "DELETE") {
		return strings.Replace(stmt, " WHERE ", " USING TIMESTAMP ? WHERE ", 1)
	}
	return stmt + " AND TIMESTAMP ?"
}

// putCell returns the statement that puts a cell unconditionally.
func (f *family) putCell(part any, row []byte, c driver.Cell) (stmt string, values []any) {
	stmt, values = f.put, append(f.key(make([]any, 0, 6), part, row), blob(c.Qualifier), blob(c.Value))
	if f.inHead(c.Qualifier) {
		stmt, values = f.headPut[len(c.Qualifier)], append(values, blob(c.Value))
	} else if len(c.Index) > 0 {
		stmt, values = f.putIndexed(values, c.Index)
	}
	return stmt, append(values, seconds(c.TTL))
}

// putIndexed completes a statement that puts a cell with what it has in indexes.
func (f *family) putIndexed(values []any, index []driver.IndexValue) (string, []any) {
	var columns strings.Builder
	for _, v := range index {
		columns.WriteString(", " + v.Index)
		values = append(values, number(v.Value))
	}
	return strings.Replace(f.put, ", v) VALUES (", ", v"+columns.String()+") VALUES ("+strings.Repeat("?, ", len(index)), 1), values
}

// seconds rounds up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// sizes remembers what the cells of a family are like, to choose the length of pages.
type sizes struct{ cellBytes, rowCells atomic.Int64 }

// saw notes a page.
func (s *sizes) saw(rows, cells, bytes int) {
	if rows > 0 {
		s.cellBytes.Store(int64(bytes/cells + 1))
		s.rowCells.Store(int64((cells + rows - 1) / rows))
	}
}

// page returns how many cells to ask for, at least two, when about so many rows are wanted, or
// all where it is zero.
func (s *sizes) page(rows int) int {
	n := int64(firstPage)
	if cell := s.cellBytes.Load(); cell > 0 {
		n = max(2, min(maxPage, pageBytes/cell))
	}
	if rows > 0 {
		// One more than wanted, since the last row of a full page may be cut off.
		n = min(n, int64(rows)*max(1, s.rowCells.Load())+1)
	}
	return int(max(2, n))
}
