// Package rewrite makes passes that store rows again, while readers and writers go on: they convert all rows of a table to
// the present schema, and make an index again from the rows.
package rewrite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
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
	for again, behind := false, 0; ; {
		// The view is of after the change of the schema, so that whoever has written an old row by
		// now, and does not convert it himself, has written it before the scan.
		t, err := c.Table.Settled(ctx)
		if err != nil {
			return err
		}
		over := false
		p, err := c.Table.UpdateProgress(ctx, func(p catalogue.Progress) (catalogue.Progress, bool) {
			over = again && p.Over && p.Target == t.Since
			if over || p.Target > t.Since || p.Target == t.Since && !p.Over {
				return p, false
			}
			return catalogue.Progress{Round: p.Round + 1, Target: t.Since, Parts: make([]bool, c.Table.Database().Parts)}, true
		})
		if err != nil || over {
			return err
		}
		if p.Target != t.Since { // the schema or policy was changed after it was read
			if behind++; behind > engine.TornReads {
				return catalogue.PutBack(fmt.Sprintf("the conversion is to version %d, and the table is of version %d", p.Target, t.Since))
			}
			if err := engine.WaitAgain(ctx, "schema_changed", behind); err != nil {
				return err
			}
			continue
		}
		behind = 0
		if err = c.parts(ctx, t, p); err == nil {
			err = c.finish(ctx, t, p)
		}
		if err != nil || c.Stats.Unfit > 0 {
			return err
		}
		// The schema may have been changed since, or another round have begun. And queries of this
		// client may use at once what the end of the conversion allows.
		again = true
	}
}

// tenants converts the rows of all tenants. Whoever makes a tenant later knows the schema by then.
func (c *Conversion) tenants(ctx context.Context) error {
	for {
		t, err := c.Table.Settled(ctx)
		if err != nil {
			return err
		}
		err = c.Table.EachTenant(ctx, func(tbl *session.Table) error {
			one := &Conversion{Table: tbl, Progress: c.Progress, Read: c.Read}
			err := one.run(ctx)
			c.Stats.Rows += one.Stats.Rows
			c.Stats.Converted += one.Stats.Converted
			c.Stats.Unreadable += one.Stats.Unreadable
			c.Stats.Unfit += one.Stats.Unfit
			c.Stats.Copies += one.Stats.Copies
			return err
		})
		if err != nil || c.Stats.Unfit > 0 {
			return err
		}
		target, err := c.Conclude(ctx, t)
		if err != nil {
			return err
		}
		now, err := c.Table.Refresh(ctx)
		if err != nil {
			return err
		}
		if now.Since == target {
			if err := c.Carry(ctx, t, now); err != nil {
				return err
			}
			c.Table.Database().RefreshTenants(ctx, c.Table.ID())
			return nil
		}
	}
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
	report()
	group, ctx := errgroup.WithContext(ctx)
	for range sweepers() {
		group.Go(func() error {
			for part := next(); part >= 0; part = next() {
				whole, err := c.part(ctx, t, part, total)
				if err != nil {
					return err
				}
				if !whole {
					continue
				}
				now, err := c.Table.UpdateProgress(ctx, func(now catalogue.Progress) (catalogue.Progress, bool) {
					if !now.Continues(began) || now.Parts[part] {
						return now, false
					}
					now.Parts[part] = true
					return now, true
				})
				if err != nil {
					return err
				}
				mu.Lock()
				if other = other || !now.Continues(began); !other && now.Done() > p.Done() { // which another may have changed since
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

// part converts the rows of one part, as the schema is known to be when each batch is converted, and
// reports whether it fitted all of them.
func (c *Conversion) part(ctx context.Context, t *engine.Engine, part, parts int) (whole bool, err error) {
	whole = true
	r := t.Rows(part, parts)
	r.Cells.Stamps = true
	err = engine.InBatches(ctx, t.Data, r, func(batch []driver.Row) error {
		done, err := c.Table.Now().ConvertAndSettle(ctx, batch)
		whole = whole && done.Unfit == 0
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Stats.Rows += len(batch) - done.Expired
		c.Stats.Converted += done.Converted
		c.Stats.Unreadable += done.Unreadable
		c.Stats.Unfit += done.Unfit
		if c.Read != nil {
			c.Read(len(batch) - done.Expired)
		}
		return err
	})
	return whole, err
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
	if err := t.DropPostingsOf(ctx, t.Meta.Dropped); err != nil {
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

// dropIndexesOf removes the indexes of columns that were dropped, which nobody shares.
func (c *Conversion) dropIndexesOf(ctx context.Context, t *engine.Engine, ids []meta.ColumnID) error {
	for _, id := range ids {
		ref := meta.IndexRef{ColumnRef: meta.ColumnRef{Table: t.Meta.ID, Column: id}, Tenants: t.Meta.Tenants}
		err := dropIndexes(ctx, c.Table.Database(), ref, &meta.Field{ID: id}, t.Meta.ID)
		if err != nil && !errors.Is(err, driver.ErrNoFamily) { // no column of the table ever had one
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
