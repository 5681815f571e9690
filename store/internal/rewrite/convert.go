// Package rewrite makes passes that store rows again, while readers and writers go on: they convert all rows of a table to
// the present schema, and make an index again from the rows.
package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A Conversion is one execution of Convert.
type Conversion struct {
	Table    *session.Table
	Progress func(done, total int) // of parts; may be nil
	Read     func(rows int)        // is called with the number of rows of each batch, one call at a time; may be nil

	vain  int // how often it waited for the end of an earlier round
	mu    sync.Mutex
	Stats inspect.ConvertStats
}

// Run converts the rows of the table: of all tenants, if it has any and is not open for one.
func (c *Conversion) Run(ctx context.Context) error {
	if c.Table.Now().Meta.Tenants && !c.Table.Bound() {
		return c.tenants(ctx)
	}
	return c.run(ctx)
}

// sweepers is how many parts one client converts at a time.
func sweepers() int { return min(4, max(2, runtime.GOMAXPROCS(0))) }

func (c *Conversion) run(ctx context.Context) error {
	for again := false; ; again = true {
		t, p, err := c.join(ctx, again)
		if err != nil || p.Over {
			return err
		}
		if err = c.parts(ctx, t, p); err == nil {
			err = c.finish(ctx, t, p)
		}
		if err != nil || c.Stats.Unfit > 0 {
			return err
		}
		// The schema may have been changed since, or another round have begun. And queries of this
		// client may use at once what the end of the conversion allows.
	}
}

// join returns the round that goes on, and the table as it is to be. If there is none it begins one, unless the last one was to
// what the table is and there need not be another: then that is what it returns, and it is over.
func (c *Conversion) join(ctx context.Context, enough bool) (*engine.Engine, catalogue.Progress, error) {
	for behind := 0; ; {
		// The view is of after the change of the schema, so that whoever has written an old row by
		// now, and does not convert it himself, has written it before the scan.
		t, err := c.Table.Settled(ctx)
		if err != nil {
			return nil, catalogue.Progress{}, err
		}
		ending := false
		p, err := c.Table.UpdateProgress(ctx, func(p catalogue.Progress) (catalogue.Progress, bool) {
			ending = enough && p.Target < t.Since && c.vain < endings && c.mayEnd(p)
			if ending || p.Target > t.Since || p.Target == t.Since && (enough || !p.Over) {
				return p, false
			}
			return catalogue.Progress{Round: p.Round + 1, Target: t.Since, Parts: make([]bool, c.Table.Database().Parts)}, true
		})
		if err != nil || p.Target == t.Since {
			return t, p, err
		}
		n := &behind // the schema or policy was changed after it was read
		switch {
		case ending:
			n = &c.vain
		case behind >= engine.TornReads:
			return nil, p, catalogue.PutBack(fmt.Sprintf("the conversion is to version %d, and the table is of version %d", p.Target, t.Since))
		}
		*n++
		if err := engine.WaitAgain(ctx, "schema_changed", *n); err != nil {
			return nil, p, err
		}
	}
}

// endings is how often the ends of earlier rounds are waited for, some 0.7 s in all: once, and not for each tenant.
const endings = 9

// mayEnd reports whether a round to an earlier version may be at its end: whoever ends it says so in the table's entry, which is a
// later version, and then in the progress. Another one that comes in between, for one part, is not to begin a round that nobody ends.
func (c *Conversion) mayEnd(p catalogue.Progress) bool {
	if p.Over {
		return c.Table.Bound() // which the end for all tenants carries on
	}
	return len(p.Parts) > 0 && p.Done() == len(p.Parts)
}

// tenants converts the rows of all tenants. Whoever makes a tenant later knows the schema by then.
func (c *Conversion) tenants(ctx context.Context) error {
	for {
		t, err := c.Table.Settled(ctx)
		if err != nil {
			return err
		}
		err = c.eachTenant(ctx, func(one *Conversion) error { return one.run(ctx) })
		if err != nil || c.Stats.Unfit > 0 {
			return err
		}
		if concluded, err := c.concludeTenants(ctx, t); err != nil || concluded {
			return err
		}
	}
}

// eachTenant calls do with a conversion of the rows of each tenant, and counts what it did.
func (c *Conversion) eachTenant(ctx context.Context, do func(one *Conversion) error) error {
	return c.Table.EachTenant(ctx, func(tbl *session.Table) error {
		one := &Conversion{Table: tbl, Progress: c.Progress, Read: c.Read, vain: c.vain}
		err := do(one)
		c.vain = one.vain
		c.Stats.Add(one.Stats)
		return err
	})
}

// concludeTenants says that the rows of all tenants are converted to the view. It reports false if the table is another by then.
func (c *Conversion) concludeTenants(ctx context.Context, t *engine.Engine) (bool, error) {
	target, err := c.Conclude(ctx, t)
	if err != nil {
		return false, err
	}
	now, err := c.Table.Refresh(ctx)
	if err != nil || now.Since != target {
		return false, err
	}
	if err := c.Carry(ctx, t, now); err != nil {
		return false, err
	}
	c.Table.Database().RefreshTenants(ctx, c.Table.ID())
	return true, nil
}

// Carry notes that the tenants that were converted to the table as it was are so to the table as it
// is now, where the conclusion is all that has changed it.
func (c *Conversion) Carry(ctx context.Context, was, now *engine.Engine) error {
	if was.Since == now.Since {
		return nil
	}
	return c.Table.EachTenant(ctx, func(tbl *session.Table) error {
		_, tenant, _, err := tbl.Entry(ctx)
		if err != nil {
			return err
		}
		_, err = tbl.UpdateProgress(ctx, func(p catalogue.Progress) (catalogue.Progress, bool) {
			if !p.Over || p.Target != meta.Changed(was.Meta, tenant) {
				return p, false
			}
			p.Target = meta.Changed(now.Meta, tenant)
			return p, true
		})
		return err
	})
}

// parts converts what parts are not done, until all are, by whichever client, or another round has begun.
func (c *Conversion) parts(ctx context.Context, t *engine.Engine, p catalogue.Progress) error {
	began, total := p, len(p.Parts)
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
		if c.Progress != nil {
			c.Progress(p.Done(), len(p.Parts))
		}
	}
	noted := func(now catalogue.Progress) {
		mu.Lock()
		defer mu.Unlock() // where the callback ends the goroutine, too

		if other = other || !now.Continues(began); !other && now.Done() > p.Done() { // which another may have changed since
			p = now
			report()
		}
	}
	report()
	return relay.Each(ctx, sweepers(), func(ctx context.Context, _ int) error {
		for part := next(); part >= 0; part = next() {
			now, err := c.part(ctx, t, began, part, total)
			if err != nil {
				return err
			}
			noted(now)
		}
		return nil
	})
}

// part converts the rows of one part, as the schema is known to be when each batch is converted. It notes that, unless the schema
// does not take some of them, and returns how far the conversion is.
func (c *Conversion) part(ctx context.Context, t *engine.Engine, began catalogue.Progress, part, parts int) (catalogue.Progress, error) {
	whole := true
	r := t.Rows(part, parts)
	r.Cells.Stamps = true
	err := chunks.InBatches(ctx, t.Data, r, func(batch []driver.Row) error {
		done, err := c.Table.Now().ConvertAndSettle(ctx, batch)
		if err == nil {
			err = clearExpired(ctx, c.Table.Now(), batch)
		}
		whole = whole && done.Unfit == 0
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Stats.Add(inspect.ConvertStats{
			Rows: len(batch) - done.Expired, Converted: done.Converted, Unreadable: done.Unreadable, Unfit: done.Unfit,
		})
		if c.Read != nil {
			c.Read(len(batch) - done.Expired)
		}
		return err
	})
	if err != nil {
		return catalogue.Progress{}, err
	}
	span := catalogue.SpanOf(part, parts)
	return c.Table.UpdateProgress(ctx, func(now catalogue.Progress) (catalogue.Progress, bool) {
		if !whole || !now.Continues(began) || now.Has(span) {
			return now, false
		}
		return now.With(span), true
	})
}

// clearExpired removes what rows that have expired have of dropped columns. The database removes the rest soon. But it was told to keep
// for ever what came at a time when the row did not expire. Nobody reads that, also where the clock of this client is wrong, and what
// somebody puts meanwhile stays.
func clearExpired(ctx context.Context, t *engine.Engine, rows []driver.Row) error {
	if !t.Meta.Expires() {
		return nil
	}
	late, ageless, none := t.View.Late(), *t.View, make([]bool, len(t.Stored))
	ageless.Clock = rowcodec.Clock{Now: func() time.Time { return time.Unix(0, 0) }} // nothing has expired by it
	var s rowcodec.Scratch
	var clears []driver.Replacement
	for _, row := range rows {
		clear := driver.Replacement{Row: row.Key}
		for _, cell := range row.Cells {
			known := slices.ContainsFunc(t.Stored, func(c *rowcodec.Column) bool { return bytes.Equal(c.Id[:], cell.Qualifier) })
			if known || len(cell.Qualifier) == 0 {
				continue
			}
			if clear.Deletes = append(clear.Deletes, cell.Qualifier); len(clear.Deletes) == 1 || cell.Stamp > clear.Seen.Stamp {
				clear.Seen = cell
			}
		}
		if len(clear.Deletes) == 0 {
			continue // as nearly all rows, which need not be opened then
		}
		if r, err := late.Decode(row, none, &s); err != nil || r != nil {
			continue
		}
		if _, err := ageless.Decode(row, none, &s); err == nil {
			clears = append(clears, clear)
		}
	}
	if len(clears) == 0 {
		return nil
	}
	_, err := t.Data.Replace(ctx, clears...)
	return err
}

// Again converts once more what counts as converted, while a round goes on. After a restore that may be further than the rows are, whose
// index entries the end of the round would take away.
func (c *Conversion) Again(ctx context.Context) error {
	p, _, err := c.Table.Progress(ctx)
	if err != nil || p.Over || len(p.Parts) == 0 {
		return err
	}
	t, err := c.Table.Settled(ctx)
	if err != nil || p.Target != t.Since {
		return err
	}
	for part := range p.Parts {
		if p.Meets(catalogue.SpanOf(part, len(p.Parts))) {
			if _, err := c.part(ctx, t, p, part, len(p.Parts)); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish ends the round, if it still is the present one: then all its parts are done. It says in the
// table's entry that all rows are converted, unless they are those of one tenant.
func (c *Conversion) finish(ctx context.Context, t *engine.Engine, began catalogue.Progress) error {
	now, _, err := c.Table.Progress(ctx)
	if err != nil || !now.Continues(began) || now.Over || now.Done() < len(now.Parts) {
		return err
	}
	// Copies of rows come last: they are of the rows as these are by now.
	if copied, err := recopy.All(ctx, t); err != nil {
		return err
	} else {
		c.Stats.Copies += copied.Put
	}
	target := now.Target
	if !c.Table.Bound() {
		if target, err = c.Conclude(ctx, t); err != nil {
			return err
		}
	}
	_, err = c.Table.UpdateProgress(ctx, func(p catalogue.Progress) (catalogue.Progress, bool) {
		if !p.Continues(began) || p.Over {
			return p, false
		}
		p.Target, p.Over = target, true
		return p, true
	})
	return err
}

// Conclude removes what no row needs any more when all are converted to the view, says so in the
// table's entry, and returns the version of the entry that they are converted to then.
func (c *Conversion) Conclude(ctx context.Context, t *engine.Engine) (target uint32, err error) {
	if err := dropPostingsOf(ctx, t, t.Meta.Dropped); err != nil {
		return 0, err
	}
	if err := c.dropIndexesOf(ctx, t, t.Meta.Dropped); err != nil {
		return 0, err
	}
	if err := c.dropServerIndexes(ctx, t); err != nil {
		return 0, err
	}
	defer func() {
		if err == nil {
			err = c.dropFormerIndexes(ctx, t)
		}
	}()
	target, err = c.Table.Database().Catalogue.Settle(ctx, t.Meta.Name, t.Meta.ID, t.Meta.Version)
	if err != nil || target > 0 {
		return target, fault.Part(err)
	}
	// Another client that has finished may have said so, or changed something.
	after, err := c.Table.Refresh(ctx)
	if err != nil {
		return 0, err
	}
	said := t.Meta.Clone()
	said.Version, said.Dropped, said.DroppedIndexes = after.Meta.Version, nil, nil
	for i := range said.Columns {
		for j := range said.Columns[i].Former {
			said.Columns[i].Former[j].Converted = true
		}
	}
	if reflect.DeepEqual(said, after.Meta) {
		return after.Meta.Version, nil
	}
	return t.Meta.Version, nil
}

// dropPostingsOf removes the postings of columns that were dropped.
func dropPostingsOf(ctx context.Context, t *engine.Engine, ids []meta.ColumnID) error {
	if t.Postings == nil {
		return nil
	}
	for _, id := range ids {
		err := chunks.InBatches(ctx, t.Postings, driver.Range{Start: id[:], End: ope.PrefixEnd(id[:]), AnyOrder: t.Meta.Tenants}, func(rows []driver.Row) error {
			keys := make([][]byte, len(rows))
			for i, row := range rows {
				keys[i] = row.Key
			}
			return t.Unpost(ctx, keys)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropIndexesOf removes the indexes of columns that were dropped, which nobody shares.
func (c *Conversion) dropIndexesOf(ctx context.Context, t *engine.Engine, ids []meta.ColumnID) error {
	left := newLeftovers(c.Table.Database(), t.Meta.ID)
	for _, id := range ids {
		ref := meta.IndexRef{ColumnRef: meta.ColumnRef{Table: t.Meta.ID, Column: id}, Tenants: t.Meta.Tenants}
		err := left.index(ctx, ref, &meta.Field{ID: id})
		if errors.Is(err, driver.ErrNoFamily) { // no column of the table ever had one
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropServerIndexes removes the indexes of the database that columns had which were changed or dropped. A client that
// sleeps may go on to write values there, and none to read them: a query finds out that they are gone.
func (c *Conversion) dropServerIndexes(ctx context.Context, t *engine.Engine) error {
	gone := slices.Clone(t.Meta.DroppedIndexes)
	for _, f := range t.Stored {
		if f.Of != nil && f.ServerIndex && !f.Converted {
			gone = append(gone, f.Id)
		}
	}
	for _, id := range gone {
		if err := driver.DropIndex(ctx, c.Table.Database().Driver, t.Spec, meta.IndexName(id)); err != nil {
			return err
		}
	}
	return nil
}

// dropFormerIndexes removes the indexes that columns had under ids which no row has any more.
func (c *Conversion) dropFormerIndexes(ctx context.Context, t *engine.Engine) error {
	if !slices.ContainsFunc(t.Stored, func(c *rowcodec.Column) bool { return c.Stateful && (c.Of != nil || c.Unit > 0) }) {
		return nil
	}
	now, err := t.Env.Refresh(ctx)
	if err != nil {
		return err
	}
	return DropUnused(ctx, c.Table.Database(), now.Meta)
}
