package rewrite

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Ranks are in the postings of rows, and never change. So an index that gives them out cannot be made again beside the rows:
// what a client remembers of the one that is damaged would contradict the new one. The column gets another id, another key and
// an index of its own, as when its encryption is changed. A conversion stores all rows so.

// renew does so with a column whose ciphertexts begin with ranks. A conversion that is under way it finishes, since that may be
// one that somebody has begun in this way. Where rows do not fit, that never ends, and says nothing of the index: then it does
// so again. It returns how many rows do not fit.
func renew(ctx context.Context, tbl *session.Table, column string, progress func(rows int)) (unfit int, err error) {
	db := tbl.Database()
	m, _, version, err := tbl.Entry(ctx)
	if err != nil {
		return 0, err
	}
	whole, err := db.Table(ctx, m, version) // of all tenants
	if err != nil {
		return 0, err
	}
	rows := 0
	convert := func() (unfit int, err error) {
		conversion := &Conversion{Table: whole, Read: func(n int) {
			if rows += n; progress != nil {
				progress(rows)
			}
		}}
		err = conversion.Run(ctx)
		return conversion.Stats.Unfit, err
	}
	c := whole.Now().ByName[column]
	if c != nil && !forms.Settled(c) {
		if unfit, err := convert(); !fault.Refused(err) && (err != nil || unfit == 0) {
			return 0, err
		}
	}
	err = administer.Alter(ctx, db, m.Name, nil, func(a *meta.Alteration) error {
		if f, err := a.Column(column); err != nil || c == nil || f.ID != c.Id { // another client has begun
			return err
		}
		return a.Renew(column)
	})
	if err != nil {
		return 0, err
	}
	if _, err := whole.Refresh(ctx); err != nil {
		return 0, err
	}
	rows = 0
	return convert()
}
