package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// What a finding of a verification says.
var (
	errDiffers = errors.New("the table has other values than the source")
	errMissing = errors.New("the table does not have the row")
	errMixture = errors.New("a row of the table has cells of two writes, which a repair mends if the source has it; else verify the table, which tells its place")
	errExtra   = errors.New("the source does not have the row")
	errLate    = errors.New("the source may have been written after the cut-over, and the table has other values")
)

// Verify compares a part of the source with the table, and a part of the table with the source: each row is compared. With Repair,
// which is for before the cut-over, rows that differ become what the source has. What writers leave for a moment is no difference. When all parts are done, that is
// one verification. The next call begins another one, and so does a repair of what the present one found; a part that this has done
// is not read again. A dual write that failed has all parts verified again: go on until Over, also where a part that was being
// verified then is [ErrPhase].
//
// After the cut-over it looks for rows of the source that were written later, by their write times, which must be those of the
// clock here. Such a row went past the wrapper. It is no difference if the table has the same values.
func (m *Migration) Verify(ctx context.Context, part inspect.Part, opts *PassOptions) (PartDone, error) {
	done, err := m.pass(opts).verify(ctx, part)
	return done, m.failed(fmt.Sprintf("verify part %d of %d of", part.Index, part.Of), err)
}

func (p *pass) verify(ctx context.Context, part inspect.Part) (PartDone, error) {
	if err := part.Check(); err != nil {
		return PartDone{}, err
	}
	span := catalogue.SpanOf(part.Index, part.Of)
	rec, err := p.record(ctx)
	if err == nil && rec.Phase != "" {
		err = p.unchanged(ctx, rec) // before another verification begins in vain
	}
	if err != nil {
		return PartDone{}, err
	}
	rec, err = p.update(ctx, false, func(rec *catalogue.Migration) (err error) {
		switch {
		case !rec.Phase.Dual() && rec.Phase != catalogue.PhaseCutOver:
			return notAt(*rec, "there is nothing to compare")
		case rec.Phase == catalogue.PhaseCutOver && p.opts.Repair:
			return notAt(*rec, "the source repairs the table no more")
		case rec.Paused:
			return ErrPaused
		case rec.Verify.Began == 0, rec.Verify.Over(), p.opts.Repair && rec.Verify.Rows.Differs > 0:
			rec.Verify = catalogue.MigrationPass{}
			rec.Verify.Began, err = p.now(ctx)
		}
		return err
	})
	if err != nil {
		return PartDone{}, err
	}
	if rec.Verify.Spans.Has(span) {
		return PartDone{Again: true}, nil
	}
	if part.Index == 0 && rec.Phase.Dual() { // once for all parts
		if err := p.noStrangers(ctx); err != nil {
			return PartDone{}, err
		}
	}
	err = rec.Verify.Spans.EachLeft(ctx, part, p.opts.Shares, func(ctx context.Context, share inspect.Part) error {
		return p.each(ctx, func(p *pass) error {
			if rec.Phase == catalogue.PhaseCutOver {
				return p.scan(ctx, share, func(found []Found) error { return p.late(ctx, rec, found) })
			}
			if err := p.scan(ctx, share, func(found []Found) error { return p.compare(ctx, found, true) }); err != nil {
				return err
			}
			return p.tableRows(ctx, share, func(rows []store.Row) error { return p.compareBack(ctx, rows) })
		})
	})
	if err == nil {
		err = p.unchanged(ctx, rec)
	}
	if err != nil {
		return PartDone{Rows: p.rows}, err
	}
	began := rec
	rec, err = p.update(ctx, false, func(rec *catalogue.Migration) error {
		if rec.Round != began.Round || rec.Phase.Dual() != began.Phase.Dual() || rec.Verify.Began != began.Verify.Began {
			return notAt(*rec, "another verification has begun since")
		}
		p.noted(rec, span)
		return nil
	})
	return PartDone{Rows: p.rows, Over: rec.Verify.Over()}, err
}

// noted notes that a part is verified. A difference is known from the moment at which it is found.
func (p *pass) noted(rec *catalogue.Migration, span catalogue.Span) {
	if rec.Verify.Spans.Has(span) {
		return
	}
	rec.Verify.Spans = rec.Verify.Spans.With(span)
	rec.Verify.Rows.Add(p.rows)
	rec.Verify.Table += p.here
	if rec.Verify.Rows.Differs+rec.Verify.Rows.Refused > 0 {
		rec.Verified = 0
		if rec.Phase == catalogue.PhaseVerified {
			rec.Phase = catalogue.PhaseCopying
		}
	} else if rec.Verify.Over() {
		rec.Verified = rec.Verify.Began
		if rec.Phase.Dual() && rec.Copied != 0 && rec.Verified >= rec.Copied {
			rec.Phase = catalogue.PhaseVerified
		}
	}
}

// compare compares rows as the source was found to have them, or not to have them, with those of the table. Equal ones are counted on demand.
func (p *pass) compare(ctx context.Context, found []Found, equal bool) error {
	r, err := p.sees(ctx, found)
	if err == nil {
		err = p.going(ctx)
	}
	if err != nil {
		return err
	}
	return p.settle(ctx, r, equal)
}

// compareBack compares rows that the table was found to have with the source. Those that the source has are counted with it.
func (p *pass) compareBack(ctx context.Context, rows []store.Row) error {
	found, err := p.source.Read(ctx, rows)
	if err != nil {
		return ofSource(err)
	}
	gone, _ := chunks.Divide(found, func(f Found) bool { return !f.Exists })
	if len(gone) == 0 {
		return p.going(ctx)
	}
	return p.compare(ctx, gone, false)
}

// looks is how often rows that differ are looked at, for about a second in all: writers write the source first.
const looks = 8

// settle counts the rows of a round. Those that differ are looked at again, the table's first, and repaired if that is asked for.
func (p *pass) settle(ctx context.Context, r *round, equal bool) error {
	differs := func(r *round) (which []int) {
		for i, w := range r.wish {
			if r.out[i].refused == nil && !w.is(r.t, &r.seen[i]) {
				which = append(which, i)
			}
		}
		return which
	}
	which := differs(r)
	wrong := make(map[int]bool)
	for attempt := 0; len(which) > 0; attempt++ {
		if attempt == looks {
			for _, i := range which {
				wrong[i] = !p.opts.Repair
			}
			if p.opts.Repair {
				if err := p.mend(ctx, r, which); err != nil {
					return err
				}
			}
			break
		}
		if err := engine.WaitAgain(ctx, "row_differs", attempt+2); err != nil {
			return err
		}
		keys, rows, out := make([][]byte, len(which)), make([]store.Row, len(which)), make([]*outcome, len(which))
		for n, i := range which {
			keys[n], rows[n], out[n] = r.keys[i], r.found[i].Row, r.out[i]
		}
		again, err := p.look(ctx, keys, rows, out)
		if err != nil {
			return err
		}
		var still []int
		for _, n := range differs(again) {
			still = append(still, which[n])
		}
		which = still
	}
	p.count(r, func(i int, one *Counts) {
		switch {
		case wrong[i]:
			one.Differs++
			switch {
			case r.wish[i].record == nil:
				p.finds(r.keys[i], r.found[i], errExtra)
			case r.seen[i].Record == nil && !r.seen[i].Torn:
				p.finds(r.keys[i], r.found[i], errMissing)
			default:
				p.finds(r.keys[i], r.found[i], errDiffers)
			}
		case r.out[i].changed:
			one.Mended++
		case equal:
			r.countEqual(i, one)
		}
	})
	return nil
}

// fresh compares the rows of the source that were written since they were verified. Their writers may have died, or been told that the
// table does not take them, or know nothing of the migration.
func (p *pass) fresh(ctx context.Context, rec catalogue.Migration) error {
	since := time.UnixMilli(rec.Verified).Add(-longBefore)
	return p.each(ctx, func(p *pass) error {
		return p.scan(ctx, inspect.Part{Index: 0, Of: 1}, func(found []Found) error {
			recent := slices.DeleteFunc(slices.Clone(found), func(f Found) bool { return !f.Written.IsZero() && f.Written.Before(since) })
			if len(recent) == 0 {
				return p.going(ctx)
			}
			return p.compare(ctx, recent, true)
		})
	})
}

// late counts rows of the source that were written too late to be compared before the cut-over, and that the table has otherwise. The
// application may have changed the table's row since: where that is seen, a row of before the cut-over does not count.
func (p *pass) late(ctx context.Context, began catalogue.Migration, found []Found) error {
	cutover, compared := time.UnixMilli(began.CutOver), time.UnixMilli(cmp.Or(began.Checked, began.CutOver))
	if rec, err := p.record(ctx); err != nil {
		return err
	} else if rec.Paused {
		return ErrPaused
	}
	r, err := p.sees(ctx, found)
	if err != nil {
		return err
	}
	var all Counts
	for i, w := range r.wish {
		written := found[i].Written
		since := p.table.Written(r.seen[i].Stamp())
		if r.out[i].refused == nil && w.is(r.t, &r.seen[i]) || !written.IsZero() && (written.Before(compared) || written.Before(cutover) && since.After(cutover)) {
			r.countEqual(i, &all)
			continue
		}
		all.Differs++
		p.finds(r.keys[i], r.found[i], errLate)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows.Add(all)
	return nil
}
