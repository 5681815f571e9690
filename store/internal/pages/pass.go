package pages

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// A Census is what a pass over all pages found.
type Census struct {
	Pages, Rows int
	Uncut       int // pages whose writer died before it had cut them; the next writer does
	Old         int // that were not sealed with the newest key
	Resealed    int // that are now
	Damaged     int // that cannot be read or are missing, and are none of Pages
	Faults      []inspect.Fault
}

// mostFaults is how many faults a Census has.
const mostFaults = 1000

// Verify opens all pages and looks whether they form whole chains, with the rows in their order. A page that is damaged or missing
// does not end it, but the pages before and behind are not compared with it.
func (t *Table) Verify(ctx context.Context, e *engine.Engine) (c Census, err error) {
	damaged := func(key []byte, err error) {
		if c.Damaged++; len(c.Faults) < mostFaults {
			c.Faults = append(c.Faults, inspect.Fault{Kind: inspect.FaultPage, Place: key, Err: err})
		}
	}
	err = t.pages(ctx, e, &c, damaged, func(*engine.Engine, *page) error { return nil })
	if err == nil && c.Damaged > 0 {
		err = located(e, fmt.Errorf("damaged are %d of %d pages: %w", c.Damaged, c.Pages+c.Damaged, c.Faults[0].Err))
	}
	return c, err
}

// Reseal seals the pages again that are not sealed with the newest key. It waits until all writers know that key: whoever has made it
// may have died before.
func (t *Table) Reseal(ctx context.Context, e *engine.Engine) (c Census, err error) {
	if e, err = e.Env.Refresh(ctx); err != nil {
		return c, err
	}
	if err = t.Database().Catalogue.Quiesce(ctx, e.Since); err != nil {
		return c, err
	}
	err = t.pages(ctx, e, &c, nil, func(e *engine.Engine, p *page) error {
		if !p.old {
			return nil
		}
		if err := (&writer{Table: t}).reseal(ctx, e, p.key, isOld); err != nil {
			return err
		}
		c.Resealed++
		return nil
	})
	return c, err
}

func isOld(p *page) bool { return p.old }

// pages calls do with all pages, and counts them. A damaged page ends it, unless there is a function that is told of it.
func (t *Table) pages(ctx context.Context, e *engine.Engine, c *Census, damaged func(key []byte, err error), do func(*engine.Engine, *page) error) error {
	return t.retry(ctx, e, func(e *engine.Engine) error {
		*c = Census{Resealed: c.Resealed}
		var failed error
		w := &walk{t: t, e: e, sealed: true, damaged: damaged, yield: func(r run) bool {
			if _, failed = t.keyed(ctx, e.View, r.page); failed != nil && damaged != nil && isDamage(failed) {
				damaged(r.key, failed)
				failed = nil
				return true
			}
			c.Pages++
			c.Rows += r.to
			if len(r.cuts) > 0 {
				c.Uncut++
			}
			if r.old {
				c.Old++
			}
			if failed == nil {
				failed = do(e, r.page)
			}
			return failed == nil
		}}
		if err := w.all(ctx); err != nil {
			return err
		}
		return failed
	})
}
