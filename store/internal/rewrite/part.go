package rewrite

import (
	"context"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
)

// Part converts the rows of one of some parts of the table: of all tenants, if it has any and is not open for one. What the
// conversion that goes on has done of it by now is not read again. Whoever finds that all is done ends the conversion.
func (c *Conversion) Part(ctx context.Context, part, parts int) (inspect.ConvertedPart, error) {
	if !c.Table.Now().Meta.Tenants || c.Table.Bound() {
		p, err := c.one(ctx, part, parts)
		return c.converted(p.DoneOf(parts), p.Over), err
	}
	for {
		t, err := c.Table.Settled(ctx)
		if err != nil {
			return c.converted(nil, false), err
		}
		done, over := slices.Repeat([]bool{true}, parts), true // of all tenants
		err = c.eachTenant(ctx, func(one *Conversion) error {
			p, err := one.one(ctx, part, parts)
			if err != nil {
				return err
			}
			for i, is := range p.DoneOf(parts) {
				done[i] = done[i] && is
			}
			over = over && p.Over
			return nil
		})
		if err != nil || !over {
			return c.converted(done, false), err
		}
		if concluded, err := c.concludeTenants(ctx, t); err != nil || concluded {
			return c.converted(done, concluded), err
		}
	}
}

func (c *Conversion) converted(done []bool, over bool) inspect.ConvertedPart {
	all := inspect.ConvertedPart{ConvertStats: c.Stats, Over: over}
	for _, is := range done {
		if is {
			all.Done++
		}
	}
	return all
}

// one converts a part of the rows of a tenant or of a table without any, and returns how far their conversion is. Where the schema
// is changed before the end, it begins again.
func (c *Conversion) one(ctx context.Context, part, parts int) (catalogue.Progress, error) {
	for {
		t, began, err := c.join(ctx, true)
		if err != nil || began.Over {
			return began, err
		}
		if now := began; !now.Has(catalogue.SpanOf(part, parts)) {
			if now, err = c.part(ctx, t, began, part, parts); err != nil || c.Stats.Unfit > 0 {
				return now, err
			}
			if !now.Continues(began) {
				continue
			}
		}
		if err := c.finish(ctx, t, began); err != nil {
			return began, err
		}
		now, _, err := c.Table.Progress(ctx)
		if err == nil && now.Over {
			_, err = c.Table.Refresh(ctx) // so that queries of this client use at once what the end allows
			return now, err
		}
		if err != nil || now.Continues(began) {
			return now, err
		}
	}
}
