package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A Mirror lets an application write the source as before, and the table with it. All writers of the source have one before rows are
// copied, and as long as the migration goes on. Where there is none, or it was aborted, they write the source alone. It is safe for concurrent use.
type Mirror struct{ m *Migration }

// Mirror returns what dual writes go through. In a table with tenants each has its own, see [Migration.MirrorOf].
func (m *Migration) Mirror() *Mirror { return &Mirror{m} }

// MirrorOf returns what dual writes of a tenant's rows go through. The write of the source is one of the old table, opened for the tenant.
func (m *Migration) MirrorOf(ctx context.Context, tenant string) (*Mirror, error) {
	s, is := m.source.(tenanted)
	if !is {
		return nil, m.failed("mirror", fmt.Errorf("%w: the source has no tenants", ErrUnfit))
	}
	from, err := s.ofTenant(ctx, tenant)
	if err != nil {
		return nil, m.failed("mirror", err)
	}
	one, err := m.of(ctx, tenant, from)
	if err != nil {
		return nil, m.failed("mirror", err)
	}
	return &Mirror{one}, nil
}

// Write calls apply, which is the application's own write of the source, and makes the rows of the table that have the keys what the source has then. The
// keys are those of all rows that apply may change: of each Row, the key parts are read, before apply is called. In a table with AppendOnly the application
// draws the tie-breaker as a [store.LoadTie], so that it can name the row here. From the cut-over on it is [ErrCutOver], and nothing is written.
//
// An error of apply is returned as it is, and the table follows what the source has all the same. If the table could not follow, the
// error says that the source has the write and the table not yet. Write the same again, or leave it to a verification with repair.
// A row that the table does not take is [ErrUnfit]. A key that it does not take ends the call before apply, while a migration goes on: one without
// its tie-breaker, too. It is also an error of the store such as [store.ErrColumn]. Where no migration goes on, apply is all that is done. A Mirror
// of a table that was dropped is [store.ErrNoTable] if rows of the source come into another one that has its name by now.
//
// The table follows also where the context ends meanwhile: the call then takes up to ten seconds more, and five where that fails. What failed, or panicked, may still come to the
// source later, as a request does whose answer was too late, and be missing in the table. So that counts as not verified from then on.
func (w *Mirror) Write(ctx context.Context, keys []store.Row, apply func(context.Context) error) error {
	return w.write(ctx, keys, nil, apply)
}

// WriteUnfit is [Mirror.Write] of a row whose key no table takes, as why says, which has no value. While a migration goes on it is [ErrUnfit], and nothing is written.
func (w *Mirror) WriteUnfit(ctx context.Context, why error, apply func(context.Context) error) error {
	return w.write(ctx, nil, fault.Unfit(why), apply)
}

func (w *Mirror) write(ctx context.Context, keys []store.Row, unfit error, apply func(context.Context) error) (err error) {
	const nothing = "nothing was written: dual write of"
	if _, err := w.m.table.Use(); err != nil {
		return w.m.failed(nothing, fmt.Errorf("%w: take the Mirror of the tenant, by MirrorOf", err))
	}
	_, err = w.m.dual(ctx)
	if unfit == nil {
		keys, unfit = bykey.NamedIn(w.m.table.Now(), keys)
	}
	switch {
	case err == nil:
		err = unfit
	case errors.Is(err, ErrPhase):
		err = administer.MadeAgain(ctx, w.m.table.Table, w.m.source.Name())
	}
	if err == nil && apply == nil {
		err = errors.New("no write of the source is given")
	}
	if err != nil {
		return w.m.failed(nothing, err)
	}
	applied := errors.New("panic") // as long as it has not returned
	defer func() { err = w.followed(ctx, keys, unfit, applied) }()
	applied = apply(ctx)
	return nil
}

// followed makes rows what the source has after a write, and returns its error, or why the table does not follow.
func (w *Mirror) followed(ctx context.Context, keys []store.Row, unfit, applied error) error {
	following, cancel := pause.Outlasting(ctx, followTime)
	defer cancel()
	err := w.follow(following, keys, unfit)
	if applied != nil || err != nil && !errors.Is(err, ErrUnfit) { // a row that does not fit is in the source, where the cut-over meets it
		noting, cancel := pause.Outlasting(following, noteTime)
		defer cancel()
		err = errors.Join(err, w.m.table.Database().Catalogue.Doubt(noting, w.m.table.ID()))
	}
	switch {
	case err == nil:
		return applied
	case applied != nil:
		return errors.Join(applied, w.m.failed("the source may have the write, and the table does not follow: dual write of", err))
	case errors.Is(err, ErrCutOver):
		return w.m.failed("the source has the write, and the table will not get it: dual write of", err)
	}
	return w.m.failed("the source has the write, and the table not yet: dual write of", err)
}

// For followTime the table follows the source when the context of a write has ended. Then noteTime is left to note that it does not.
const followTime, noteTime = 10 * time.Second, 5 * time.Second

// follow makes rows what the source has. Where no migration goes on by now, one that begins later finds what was written.
func (w *Mirror) follow(ctx context.Context, keys []store.Row, unfit error) error {
	_, err := w.m.dual(ctx)
	if err == nil {
		err = unfit
	}
	var all []outcome
	if err == nil {
		if all, err = w.m.reconcile(ctx, keys, true); err != nil {
			_, ended := w.m.dual(ctx) // meanwhile, and with it the table or the source may have gone
			err = cmp.Or(ended, err)
		}
	}
	if errors.Is(err, ErrPhase) {
		return administer.MadeAgain(ctx, w.m.table.Table, w.m.source.Name())
	}
	for _, row := range all {
		if err == nil && row.refused != nil {
			err = fault.Unfit(row.refused)
		}
	}
	return err
}
