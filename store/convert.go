package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// ConvertOptions are the optional parameters of [Table.Convert]. The zero value is the default.
type ConvertOptions struct {
	// Progress, if not nil, is called by one goroutine at a time with how many parts of the table are
	// done, by whichever client, and how many there are.
	Progress func(done, total int)
}

// ConvertStats counts what one call of [Table.Convert] did.
type ConvertStats struct {
	Rows       int // that were read
	Converted  int // that were written anew
	Unreadable int // that were left as they are, since they cannot be read: see [Table.Verify]
}

// ConvertStatus is how far the conversion of a table is.
type ConvertStatus struct {
	// Pending are the columns whose encryption was changed and of which not all rows are known to be
	// converted.
	Pending []string
	// Version is that of the schema which the last conversion converts to, or 0 if there was none.
	Version uint32
	// Latest is the version that last changed how rows are stored: if it is not Version, there may be
	// rows of before.
	Latest uint32
	// Done of Total parts of the table are converted, by whichever client.
	Done, Total int
}

// Convert writes all rows anew that are not stored as the schema says, because it was changed since
// they were written, and removes what dropped columns left. Then the columns whose encryption was
// changed can drive queries.
//
// Readers and writers go on, and lose nothing. It may be stopped at any moment: the next call goes
// on where it was. Several clients may call it at a time and share the work. If the schema is
// changed meanwhile it begins again.
//
// Called when all is done, it looks through the table once more: a client that died, or lost the
// database, in the middle of a write or a conversion which it began under an old schema may have left
// rows of that, which are read as any others, but found by their changed columns only when they were
// converted.
//
// A table that is open for a tenant converts the rows of this tenant, also to its policy and its newest
// key. One with tenants that is not converts those of all, one tenant after the other, and only then
// can the columns drive queries, and postings of dropped columns go; Progress is of each of them.
func (tbl *Table) Convert(ctx context.Context, opts *ConvertOptions) (stats ConvertStats, err error) {
	t := tbl.now()
	ctx, end := t.st.observer.operation(ctx, "convert", t.family())
	defer func() { end(stats.Converted, err) }()
	c := &converter{tbl: tbl}
	if opts != nil {
		c.opts = *opts
	}
	if t.meta.Tenants && tbl.tenant == nil {
		err = c.tenants(ctx)
	} else {
		err = c.run(ctx)
	}
	if err != nil {
		err = fmt.Errorf("store: convert %q: %w", t.schema.Name, t.gone(err))
	}
	return c.stats, err
}

// Status tells how far the conversion of the table is.
func (tbl *Table) Status(ctx context.Context) (ConvertStatus, error) {
	t, err := tbl.refresh(ctx)
	if err == nil {
		var p sweep
		if p, _, err = tbl.sweep(ctx); err == nil {
			s := ConvertStatus{Version: p.Target, Latest: t.changed, Done: p.done(), Total: len(p.Parts)}
			for _, c := range t.columns {
				if slices.ContainsFunc(c.former, func(f *column) bool { return !f.converted }) {
					s.Pending = append(s.Pending, c.name)
				}
			}
			return s, nil
		}
	}
	return ConvertStatus{}, fmt.Errorf("store: status of %q: %w", tbl.now().schema.Name, err)
}

// A sweep is the progress of a conversion, which all clients share. It has a cell of its own in the
// catalogue's row, sealed:
//
//	0x03 || table id [|| token of the tenant in the table]
//
// It is changed by compare-and-set, and does not raise the version of the catalogue.
type sweep struct {
	Round  uint64 `json:"round"`  // rises with each beginning
	Target uint32 `json:"target"` // version of the table's or tenant's entry that rows are converted to
	Parts  []bool `json:"parts"`  // which are done
	Over   bool   `json:"over"`   // all are, and the entry says so
}

const (
	sweepEntry = 3
	sweepParts = 64
)

func (p sweep) done() (n int) {
	for _, done := range p.Parts {
		if done {
			n++
		}
	}
	return n
}

func (tbl *Table) sweepQualifier() []byte {
	return slices.Concat([]byte{sweepEntry}, tbl.id[:], tbl.now().prefix)
}

// sweep returns the progress of the last conversion, and its cell, which is empty if there was none.
func (tbl *Table) sweep(ctx context.Context) (p sweep, cell driver.Cell, err error) {
	c := tbl.st.catalogue
	q := tbl.sweepQualifier()
	cells, err := c.family.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{q}})
	if err != nil || len(cells) == 0 {
		return sweep{}, driver.Cell{Qualifier: q}, err
	}
	b, _, err := c.sealer.Open(nil, cells[0].Value, place("catalogue", q))
	if err != nil {
		return sweep{}, driver.Cell{}, fmt.Errorf("progress: %w", sealError(err))
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return sweep{}, driver.Cell{}, fmt.Errorf("%w: progress: %w", ErrFormat, err)
	}
	return p, cells[0], nil
}

// updateSweep replaces the progress by what next makes of it, unless that is nothing, and returns
// what is there then. An unknown outcome is resolved by reading again.
func (tbl *Table) updateSweep(ctx context.Context, next func(sweep) (sweep, bool)) (sweep, error) {
	c := tbl.st.catalogue
	for attempt := 0; ; attempt++ {
		p, cell, err := tbl.sweep(ctx)
		if err != nil {
			return sweep{}, err
		}
		p.Parts = slices.Clone(p.Parts)
		p, change := next(p)
		if !change {
			return p, nil
		}
		b, err := json.Marshal(p)
		if err != nil {
			panic("store: " + err.Error()) // numbers always marshal
		}
		q := cell.Qualifier
		done, err := c.family.CheckAndPut(ctx, catalogueRow, cell,
			driver.Cell{Qualifier: q, Value: c.sealer.Seal(nil, newHeader(), b, place("catalogue", q))})
		if done || err != nil && !errors.Is(err, driver.ErrUnknownOutcome) {
			return p, err
		}
		if err := pause(ctx, attempt); err != nil {
			return sweep{}, err
		}
	}
}

// converter is one execution of Convert.
type converter struct {
	tbl  *Table
	opts ConvertOptions

	mu    sync.Mutex
	stats ConvertStats
}

// sweepers is how many parts one client converts at a time.
func sweepers() int { return min(4, max(2, runtime.GOMAXPROCS(0))) }

func (c *converter) run(ctx context.Context) error {
	for again, behind := false, 0; ; {
		// The view is of after the change of the schema, so that whoever has written an old row by
		// now, and does not convert it himself, has written it before the scan.
		t, err := c.tbl.refresh(ctx)
		if err != nil {
			return err
		}
		over := false
		p, err := c.tbl.updateSweep(ctx, func(p sweep) (sweep, bool) {
			over = again && p.Over && p.Target == t.changed
			if over || p.Target > t.changed || p.Target == t.changed && !p.Over {
				return p, false
			}
			return sweep{Round: p.Round + 1, Target: t.changed, Parts: make([]bool, cmp.Or(t.st.guards.parts, sweepParts))}, true
		})
		if err != nil || over {
			return err
		}
		if p.Target != t.changed { // the schema or policy was changed after it was read
			if behind++; behind > tornReads {
				return fmt.Errorf("%w: the catalogue was put back", ErrTampered)
			}
			if err := pause(ctx, behind); err != nil {
				return err
			}
			continue
		}
		behind = 0
		if err = c.parts(ctx, t, p); err == nil {
			err = c.finish(ctx, t, p.Round)
		}
		if err != nil {
			return err
		}
		// The schema may have been changed meanwhile, or another round have begun. And queries of this
		// client may use at once what the end of the conversion allows.
		again = true
	}
}

// tenants converts the rows of all tenants. Whoever makes a tenant later knows the schema by then.
func (c *converter) tenants(ctx context.Context) error {
	for {
		t, err := c.tbl.refresh(ctx)
		if err != nil {
			return err
		}
		err = c.tbl.eachTenant(ctx, func(tbl *Table) error {
			one := &converter{tbl: tbl, opts: c.opts}
			err := one.run(ctx)
			c.stats.Rows += one.stats.Rows
			c.stats.Converted += one.stats.Converted
			c.stats.Unreadable += one.stats.Unreadable
			return err
		})
		if err != nil {
			return err
		}
		target, err := c.conclude(ctx, t)
		if err != nil {
			return err
		}
		now, err := c.tbl.refresh(ctx)
		if err != nil {
			return err
		}
		if now.changed == target {
			if err := c.carry(ctx, t, now); err != nil {
				return err
			}
			t.st.refreshBound(ctx, func(b *Table) bool { return b.id == t.meta.ID })
			return nil
		}
	}
}

// carry notes that the tenants that were converted to the table as it was are so to the table as it
// is now, where the conclusion is all that has changed it.
func (c *converter) carry(ctx context.Context, was, now *view) error {
	if was.changed == now.changed {
		return nil
	}
	return c.tbl.eachTenant(ctx, func(tbl *Table) error {
		_, tenant, _, err := c.tbl.st.catalogue.entry(ctx, now.schema.Name, tbl.id, tbl.tenant)
		if err != nil {
			return err
		}
		_, err = tbl.updateSweep(ctx, func(p sweep) (sweep, bool) {
			if !p.Over || p.Target != changed(was.meta, tenant) {
				return p, false
			}
			p.Target = changed(now.meta, tenant)
			return p, true
		})
		return err
	})
}

// parts converts what parts are not done, until all are, by whichever client, or another round has begun.
func (c *converter) parts(ctx context.Context, t *view, p sweep) error {
	round, total := p.Round, len(p.Parts)
	var mu sync.Mutex // of the following, and p
	taken := make([]bool, len(p.Parts))
	other := false // round has begun: nobody takes another part, but those under way are finished
	next := func() int {
		mu.Lock()
		defer mu.Unlock()
		var open []int
		for i, done := range p.Parts {
			if !done && !taken[i] {
				open = append(open, i)
			}
		}
		if len(open) == 0 || other {
			return -1
		}
		part := open[rand.IntN(len(open))] // where other clients are not
		taken[part] = true
		return part
	}
	report := func() {
		if c.opts.Progress != nil {
			c.opts.Progress(p.done(), len(p.Parts))
		}
	}
	report()
	group, ctx := errgroup.WithContext(ctx)
	for range sweepers() {
		group.Go(func() error {
			for part := next(); part >= 0; part = next() {
				if err := c.part(ctx, t, part, total); err != nil {
					return err
				}
				now, err := c.tbl.updateSweep(ctx, func(now sweep) (sweep, bool) {
					if now.Round != round || now.Parts[part] {
						return now, false
					}
					now.Parts[part] = true
					return now, true
				})
				if err != nil {
					return err
				}
				mu.Lock()
				if other = other || now.Round != round; !other {
					p = now
					report()
				}
				mu.Unlock()
			}
			return nil
		})
	}
	return group.Wait()
}

// part converts the rows of one part, as the schema is known to be when each batch is converted.
func (c *converter) part(ctx context.Context, t *view, part, parts int) error {
	r := t.rows(part, parts)
	r.Cells.Stamps = true
	return inBatches(ctx, t.data, r, func(batch []driver.Row) error {
		converted, unreadable, err := c.tbl.now().convertAndSettle(ctx, batch)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Rows += len(batch)
		c.stats.Converted += converted
		c.stats.Unreadable += unreadable
		return err
	})
}

// rows returns the range of a part of the rows, with all their cells.
func (t *view) rows(part, parts int) driver.Range {
	r := under(t.prefix)
	r.Part, r.Parts = part, parts
	return r
}

// finish ends the round, if it still is the present one: then all its parts are done. It says in the
// table's entry that all rows are converted, unless they are those of one tenant.
func (c *converter) finish(ctx context.Context, t *view, round uint64) error {
	now, _, err := c.tbl.sweep(ctx)
	if err != nil || now.Round != round || now.Over {
		return err
	}
	target := now.Target
	if c.tbl.tenant == nil {
		if target, err = c.conclude(ctx, t); err != nil {
			return err
		}
	}
	_, err = c.tbl.updateSweep(ctx, func(p sweep) (sweep, bool) {
		if p.Round != round || p.Over {
			return p, false
		}
		p.Target, p.Over = target, true
		return p, true
	})
	return err
}

// conclude removes what no row needs any more when all are converted to the view, says so in the
// table's entry, and returns the version of the entry that they are converted to then.
func (c *converter) conclude(ctx context.Context, t *view) (target uint32, err error) {
	if err := t.dropPostingsOf(ctx, t.meta.Dropped); err != nil {
		return 0, err
	}
	target, err = t.st.settle(ctx, t.schema.Name, t.meta.ID, t.meta.Version)
	if err != nil || target > 0 {
		return target, err
	}
	// Another client that has finished may have said so, or changed something.
	after, err := c.tbl.refresh(ctx)
	if err != nil {
		return 0, err
	}
	said := t.meta.clone()
	said.Version, said.Dropped = after.meta.Version, nil
	for i := range said.Columns {
		for j := range said.Columns[i].Former {
			said.Columns[i].Former[j].Converted = true
		}
	}
	if reflect.DeepEqual(said, after.meta) {
		return after.meta.Version, nil
	}
	return t.meta.Version, nil
}

// dropPostingsOf removes the postings of columns that were dropped.
func (t *view) dropPostingsOf(ctx context.Context, ids []columnID) error {
	if t.postings == nil {
		return nil
	}
	for _, id := range ids {
		err := inBatches(ctx, t.postings, driver.Range{Start: id[:], End: ope.PrefixEnd(id[:]), AnyOrder: t.meta.Tenants}, func(rows []driver.Row) error {
			keys := make([][]byte, len(rows))
			for i, row := range rows {
				keys[i] = row.Key
			}
			return t.unpost(ctx, keys)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outdated reports whether a row is stored in another way than this view stores rows. The row has
// all its cells.
func (t *view) outdated(row driver.Row, s *scratch) (bool, error) {
	s.where.of(t, row.Key)
	b, _, err := t.openKeyCell(row.Cells[0].Value, s)
	if err != nil || len(b) == 0 { // it was deleted
		return false, err
	}
	for range t.parts {
		if _, b, err = cutSized(b); err != nil {
			return false, fmt.Errorf("key cell: %w: %w", ErrFormat, err)
		}
	}
	older, own, err := t.older(row.Cells, entries{rest: b})
	if older || err != nil {
		return older, err
	}
	cells := 0
	for _, cell := range row.Cells {
		if len(cell.Value) > 0 {
			cells++
		}
	}
	return cells != 1+own, nil
}

// older reports whether the entries of a row's key cell, or those of its cells that were read, are
// stored in another way than this view stores them, and of how many columns there are cells.
func (t *view) older(cells []driver.Cell, entries entries) (older bool, own int, err error) {
	if !t.clear && !t.keySealer.newest(cells[0].Value) {
		return true, 0, nil
	}
	for _, i := range t.byID {
		c := t.stored[i]
		e, err := entries.find(c.id)
		switch {
		case err != nil:
			return false, 0, fmt.Errorf("key cell: %w: %w", ErrFormat, err)
		case !e.present:
			continue
		case c.of != nil || e.packed != c.packed || !e.packed && e.clear != c.clear():
			return true, 0, nil
		case e.packed:
			continue
		}
		own++
		at := slices.IndexFunc(cells, func(cell driver.Cell) bool { return string(cell.Qualifier) == string(c.id[:]) })
		if at > 0 && (e.clear && sealed(cells[at].Value) || !e.clear && !c.sealer.newest(cells[at].Value)) {
			return true, 0, nil
		}
	}
	// Other entries are of no column of this view.
	return entries.passed > 0 || len(entries.rest) > 0, own, nil
}

// settleGrace is how long a conversion that was cancelled goes on to settle what it has written.
const settleGrace = 5 * time.Second

// convertAndSettle converts rows, and makes sure that these are such as others expect them by now: a
// change that came meanwhile may have been followed by a conversion which has seen these rows before,
// as it wants them, and nobody else would convert them again. So it does that when it is cancelled, too.
func (t *view) convertAndSettle(ctx context.Context, rows []driver.Row) (converted, unreadable int, err error) {
	records := make([]*record, len(rows))
	for i, row := range rows {
		records[i] = &record{key: row.Key}
	}
	converted, unreadable, err = t.convert(ctx, rows)
	settling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(settleGrace, cancel) })()
	return converted, unreadable, errors.Join(err, t.settleWrites(settling, records))
}

// convert writes those of some rows anew that are not stored as this view stores rows, and returns
// how many, and how many cannot be read. The rows are as they were read, with all cells and their
// stamps. Where somebody has written a row since it was read, what is there now is read and converted;
// but a database that does not tell leaves that to whoever wrote it, who reads the version behind.
func (t *view) convert(ctx context.Context, rows []driver.Row) (converted, unreadable int, err error) {
	for attempt := 0; ; attempt++ {
		n, not, late, err := t.convertOnce(ctx, rows)
		converted, unreadable = converted+n, unreadable+not
		if err != nil || len(late) == 0 {
			return converted, unreadable, err
		}
		if err := pause(ctx, attempt); err != nil {
			return converted, unreadable, err
		}
		if rows, err = t.stamped(ctx, late); err != nil {
			return converted, unreadable, err
		}
	}
}

// convertOnce converts rows as they were read, where nobody has written them since, and returns also
// the keys of those that somebody has, as far as the database tells.
//
// A row keeps its write id, since it is the same write: what stays as it was keeps its postings.
// New postings come before the row, and old ones go behind it.
func (t *view) convertOnce(ctx context.Context, rows []driver.Row) (converted, unreadable int, late [][]byte, err error) {
	was := make([]*record, len(rows))
	var refusals atomic.Int64
	err = t.each(ctx, len(rows), func(ctx context.Context, i int, s *scratch) error {
		r, err := t.toConvert(ctx, &rows[i], s)
		if refused(err) || errors.Is(err, errTornRow) {
			refusals.Add(1)
			t.st.observer.warn(ctx, "a row that cannot be read is not converted", t.family(), err)
			return nil
		}
		was[i] = r
		return err
	})
	if err != nil {
		return 0, 0, nil, err
	}
	unreadable = int(refusals.Load())
	var read []driver.Row
	var old, records []*record
	var gone [][]byte // postings
	for i, r := range was {
		if r == nil {
			continue
		}
		n := t.newRecord()
		n.key, n.write, n.version = r.key, r.write, r.version
		copy(n.values, r.values[:len(t.parts)+len(t.columns)])
		if n.search != nil {
			copy(n.search, r.search[:len(t.columns)])
			for c := len(t.columns); c < len(t.stored); c++ {
				if r.search[c] != nil {
					gone = append(gone, t.postingKey(r, c))
				}
			}
		}
		read, old, records = append(read, rows[i]), append(old, r), append(records, n)
	}
	if len(records) == 0 {
		return 0, unreadable, nil, nil
	}
	if err := t.encryptColumns(ctx, records); err != nil {
		return 0, unreadable, nil, err
	}
	if t.postings != nil {
		var added [][]byte
		for i, r := range records {
			for c := range t.columns {
				if r.search[c] != nil && old[i].search[c] == nil {
					added = append(added, t.postingKey(r, c))
				}
			}
		}
		if err := t.post(ctx, added); err != nil {
			return 0, unreadable, nil, err
		}
	}
	tooLate, err := t.replace(ctx, read, records)
	if err != nil {
		return 0, unreadable, nil, err
	}
	for _, i := range tooLate {
		late = append(late, read[i].Key)
	}
	if t.postings != nil {
		if err := t.unpost(ctx, gone); err != nil {
			return 0, unreadable, nil, err
		}
	}
	return len(records) - len(late), unreadable, late, nil
}

// encryptColumns sets what the postings of records carry, where it is not set yet, and makes values
// of stateful columns durable in their indexes.
func (t *view) encryptColumns(ctx context.Context, records []*record) error {
	if err := t.encryptAll(ctx, records, func(c *column) bool { return c.part < 0 && c.stateful }); err != nil {
		return err
	}
	return t.each(ctx, len(records), func(ctx context.Context, i int, _ *scratch) error { return t.encodeColumns(ctx, records[i]) })
}

// each calls do for 0 to n-1 on all processors.
func (t *view) each(ctx context.Context, n int, do func(ctx context.Context, i int, s *scratch) error) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), n)
	for w := range workers {
		group.Go(func() error {
			s := new(scratch)
			for i := w; i < n; i += workers {
				if err := do(ctx, i, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// toConvert returns the row if it has to be converted.
func (t *view) toConvert(ctx context.Context, row *driver.Row, s *scratch) (*record, error) {
	for attempt := 0; ; attempt++ {
		if len(row.Cells) == 0 {
			return nil, nil
		}
		old, err := true, error(nil)
		if len(row.Cells[0].Qualifier) == 0 {
			old, err = t.outdated(*row, s)
		}
		if newer := newerRow(0); errors.As(err, &newer) {
			old, err = true, nil
		}
		if err != nil || !old {
			return nil, err
		}
		r, err := t.decode(*row, nil, s)
		if newer := newerRow(0); errors.As(err, &newer) {
			now, later := t.tbl.atLeast(ctx, uint32(newer))
			if later != nil || !now.same(t) {
				return nil, later // its writer knew as much of the table as this view, or more
			}
			r, err = now.decode(*row, nil, s)
		}
		if !errors.Is(err, errTornRow) || attempt == tornReads {
			return r, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
		if row.Cells, err = t.data.Get(ctx, row.Key, driver.Slice{Stamps: true}); err != nil {
			return nil, err
		}
	}
}

// convertWrites converts rows that this client wrote under an older view, unless others have
// written them since.
func (t *view) convertWrites(ctx context.Context, writes []*record) error {
	for chunk := range slices.Chunk(writes, writeChunk) {
		keys := make([][]byte, len(chunk))
		for i, r := range chunk {
			keys[i] = r.key
		}
		rows, err := t.stamped(ctx, keys)
		if err != nil {
			return err
		}
		if _, _, err := t.convert(ctx, rows); err != nil {
			return err
		}
	}
	return nil
}
