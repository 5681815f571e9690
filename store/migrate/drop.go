package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
)

// Drop removes the source, and returns where values of it may still be in the clear. It asks for a complete verification since the
// cut-over, which is to be made when the source has stopped receiving writes: best when the application lost the right. It
// reads the write times of all rows once more before it drops anything. A row that was written after the cut-over, and that the
// table has otherwise, is [ErrDiffers]; with late, the caller has looked at such rows and gives them up.
//
// Nothing shows what was deleted in the source after the cut-over. Nor is there a way back. A source from which another
// table of the store still gets rows is [ErrPhase].
//
// Called again, it ends what it began, and lists again what remains.
func (m *Migration) Drop(ctx context.Context, late bool, opts *PassOptions) ([]Remain, error) {
	remains, err := m.drop(ctx, late, opts)
	return remains, m.failed("drop the source of", err)
}

func (m *Migration) drop(ctx context.Context, late bool, opts *PassOptions) ([]Remain, error) {
	rec, err := m.record(ctx)
	switch {
	case err != nil:
		return nil, err
	case rec.Phase == catalogue.PhaseDropped:
		return m.dropped(ctx, rec)
	case rec.Phase != catalogue.PhaseCutOver:
		return nil, notAt(rec, "the source is dropped after the cut-over only")
	case rec.Paused:
		return nil, ErrPaused
	}
	if err := m.alone(ctx, rec); err != nil {
		return nil, err
	}
	err = m.unchanged(ctx, rec)
	if ours, is := m.source.(encrypted); is && errors.Is(err, driver.ErrNoFamily) {
		if err := administer.Gone(ctx, ours.db, rec); err != nil {
			return nil, ofSource(err)
		}
	}
	switch {
	case errors.Is(err, driver.ErrNoFamily) && rec.Verified == 0 && !late:
		return nil, fmt.Errorf("%w: the source is gone, and nobody has looked for rows that it got after the cut-over: say that they are given up", ErrDiffers)
	case errors.Is(err, driver.ErrNoFamily): // somebody else has dropped it
	case rec.Verified == 0 && !late && rec.Verify.Over():
		return nil, fmt.Errorf("%w: rows of the source were written after the cut-over, %d in all, which a verification lists: write them into the table and verify it "+
			"again, or say that they are given up", ErrDiffers, rec.Verify.Rows.Differs+rec.Verify.Rows.Refused)
	case rec.Verified == 0 && !late:
		return nil, fmt.Errorf("%w: verify it again, now that the source receives no writes", ErrDiffers)
	case err != nil:
		return nil, err
	default:
		if err := m.noneLate(ctx, rec, late, opts); err != nil {
			return nil, err
		}
	}
	// Whoever finds this phase ends what is begun here.
	rec, err = m.update(ctx, false, func(rec *catalogue.Migration) error {
		if rec.Phase != catalogue.PhaseCutOver && rec.Phase != catalogue.PhaseDropped {
			return notAt(*rec, "it was changed while rows were read")
		}
		rec.Phase, rec.Dropped = catalogue.PhaseDropped, cmp.Or(rec.Dropped, time.Now().UnixMilli())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m.dropped(ctx, rec)
}

// alone returns an error if another table of the store still gets rows from the source.
func (m *Migration) alone(ctx context.Context, rec catalogue.Migration) error {
	c := m.table.Database().Catalogue
	tables, _, err := c.Tables(ctx)
	if err != nil {
		return err
	}
	records, err := c.Migrations(ctx, tables)
	for _, t := range tables {
		other := records[t.ID]
		if other.Phase.Dual() && other.Source == rec.Source {
			return notAt(rec, fmt.Sprintf("table %q gets rows from %s too: cut its migration over first, or abort it", t.Name, rec.Source))
		}
	}
	return err
}

// noneLate returns an error if rows of the source were written too late, unless they are given up.
func (m *Migration) noneLate(ctx context.Context, rec catalogue.Migration, late bool, opts *PassOptions) error {
	p := m.pass(opts)
	err := p.each(ctx, func(p *pass) error {
		return p.scan(ctx, inspect.Part{Index: 0, Of: 1}, func(found []Found) error { return p.late(ctx, rec, found) })
	})
	if err == nil && p.rows.Differs > 0 && !late {
		err = fmt.Errorf("%w: rows of the source were written after the cut-over, %d in all, so that they went past the wrapper: write them into the table, "+
			"or say that they are given up", ErrDiffers, p.rows.Differs)
	}
	return err
}

// dropped removes the source if it is there still, and lists what remains.
func (m *Migration) dropped(ctx context.Context, rec catalogue.Migration) ([]Remain, error) {
	if err := m.same(rec); err != nil {
		return nil, err
	}
	if rec.Removed == 0 {
		if err := m.remove(ctx, rec); err != nil {
			return nil, ofSource(err)
		}
	}
	remains, err := m.source.Remains(ctx)
	return remains, ofSource(err)
}

// remove removes the source, once: what is made under its name later is another table. What is not as the source was stays, and may be it.
func (m *Migration) remove(ctx context.Context, rec catalogue.Migration) error {
	fingerprint, err := m.source.Fingerprint(ctx)
	ours, is := m.source.(encrypted)
	switch gone := errors.Is(err, driver.ErrNoFamily); {
	case err == nil && fingerprint == rec.Fingerprint:
		err = m.source.Drop(ctx)
	case is && (err == nil || gone): // an earlier call may have left some of it
		err = administer.DropRest(ctx, ours.db, rec)
	case gone:
		err = nil
	case err == nil:
		err = fmt.Errorf("%w: %s was altered, or another table has its name by now, and nothing was dropped: change it back, or drop it yourself", ErrSource, rec.Source)
	}
	if err != nil {
		return err
	}
	_, err = m.update(ctx, false, func(rec *catalogue.Migration) error {
		rec.Removed = time.Now().UnixMilli()
		return nil
	})
	return err
}
