package paged_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A twice is a table that two clients have open, with the row 1.
type twice struct {
	mine, theirs *paged.Table
	others       *store.Store

	at   func(op intercept.Op) bool // which call of mine is to be met
	fate drivertest.Fault           // of that
	then func()                     // is done before the next one, unless it is nil
}

func newTwice(t *testing.T) *twice {
	w := &twice{at: func(intercept.Op) bool { return false }}
	memory, next := drivertest.NewMemory(), func() {}
	w.others = opened(t, memory)
	var err error
	w.theirs, err = paged.Create(t.Context(), w.others, store.Schema{
		Name: "rows", Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.Boldyreva)},
		Columns: []store.Column{store.RandomisedColumn("n", store.Int64), store.PlainColumn("note", store.String)},
	}, 4)
	require.NoError(t, err)
	require.NoError(t, w.theirs.Put(t.Context(), store.Row{"id": int64(1), "n": int64(1), "note": "old"}))
	w.mine, err = paged.Open(t.Context(), opened(t, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		do := next
		next = func() {}
		do()
		if !w.at(op.Op) {
			return drivertest.NoFault
		}
		w.at, next = func(intercept.Op) bool { return false }, func() {
			if w.then != nil {
				w.then()
			}
		}
		return w.fate
	})), "rows")
	require.NoError(t, err)
	return w
}

// row returns what there is of a row as n and note, or nothing.
func (w *twice) row(t *testing.T, id int64) store.Row {
	row, err := w.theirs.Get(t.Context(), store.Row{"id": id})
	require.NoError(t, err)
	return row
}

func ofPages(op intercept.Op) bool { return op.Conditional() && op.Family != "catalogue" }

// A change of rows whose answer is lost is not made again where another client has changed them since: it may have seen the first.
// Where others have changed other rows of the page, these tell nothing.
func TestChangesOfPagesAreNotMadeTwice(t *testing.T) {
	whole := func(id, n int64, note string) store.Row { return store.Row{"id": id, "n": n, "note": note} }
	many := func(ctx context.Context, tbl *paged.Table) error { // of which a page cannot have all
		return tbl.Put(ctx, whole(1, 2, "mine"), whole(2, 2, "mine"), whole(3, 2, "mine"), whole(4, 2, "mine"), whole(5, 2, "mine"), whole(6, 2, "mine"))
	}
	calls := map[string]func(ctx context.Context, tbl *paged.Table) error{
		"put":  func(ctx context.Context, tbl *paged.Table) error { return tbl.Put(ctx, whole(1, 2, "mine")) },
		"many": many,
		"update": func(ctx context.Context, tbl *paged.Table) error {
			return tbl.Update(ctx, store.Row{"id": 1, "n": 2, "note": "mine"})
		},
		"delete": func(ctx context.Context, tbl *paged.Table) error { return tbl.Delete(ctx, store.Row{"id": int64(1)}) },
	}
	meddlers := map[string]func(ctx context.Context, tbl *paged.Table) error{
		"nobody": nil,
		"others": func(ctx context.Context, tbl *paged.Table) error { return tbl.Put(ctx, whole(9, 3, "theirs")) },
		"put":    func(ctx context.Context, tbl *paged.Table) error { return tbl.Put(ctx, whole(1, 3, "theirs")) },
		"delete": func(ctx context.Context, tbl *paged.Table) error { return tbl.Delete(ctx, store.Row{"id": int64(1)}) },
	}
	for name, call := range calls {
		for fateName, fate := range map[string]drivertest.Fault{"made": drivertest.FailAfter, "lost": drivertest.Lose} {
			for other, meddle := range meddlers {
				t.Run(name+", "+fateName+", then "+other, func(t *testing.T) {
					w, met := newTwice(t), meddle == nil
					w.at, w.fate = ofPages, fate
					if meddle != nil {
						w.then = func() { met = true; require.NoError(t, meddle(t.Context(), w.theirs)) }
					}
					err := call(t.Context(), w.mine)
					require.True(t, met)
					row := w.row(t, 1)
					stays := other == "nobody" || other == "others" || name == "delete" && other == "delete"
					switch {
					case stays:
						require.NoError(t, err)
						require.Equal(t, name == "delete", row == nil)
					default:
						require.ErrorIs(t, err, driver.ErrUnknownOutcome)
						require.NotErrorIs(t, err, store.ErrNoRow)
						require.ErrorContains(t, err, "another client has written the rows since")
						require.True(t, store.Retryable(err))
					}
					if note := map[string]string{"put": "theirs", "delete": ""}[other]; row != nil && !stays {
						require.Equal(t, note, row["note"])
					} else if row != nil {
						require.Equal(t, "mine", row["note"])
					}
					if again := call(t.Context(), w.mine); name == "update" && row == nil { // by the same client
						require.ErrorIs(t, again, store.ErrNoRow)
					} else {
						require.NoError(t, again)
					}
					census, err := w.theirs.Verify(t.Context())
					require.NoError(t, err)
					require.Zero(t, census.Uncut)
				})
			}
		}
	}
}

// Where the schema changes while rows are written, their pages are written again, but the rows stay what others have made of them since.
func TestRowsThatOthersChangeBesidesTheSchema(t *testing.T) {
	id := store.Row{"id": int64(1)}
	for name, call := range map[string]func(tbl *paged.Table) error{
		"put": func(tbl *paged.Table) error {
			return tbl.Put(t.Context(), store.Row{"id": int64(1), "n": int64(2), "note": "mine"})
		},
		"update": func(tbl *paged.Table) error {
			return tbl.Update(t.Context(), store.Row{"id": int64(1), "n": int64(2), "note": "mine"})
		},
		"delete": func(tbl *paged.Table) error { return tbl.Delete(t.Context(), id) },
	} {
		for other, meddle := range map[string]func(tbl *paged.Table) error{
			"put": func(tbl *paged.Table) error {
				return tbl.Put(t.Context(), store.Row{"id": int64(1), "n": int64(2), "note": "theirs"})
			},
			"delete": func(tbl *paged.Table) error { return tbl.Delete(t.Context(), id) },
		} {
			t.Run(name+", "+other, func(t *testing.T) {
				w, met := newTwice(t), errors.New("nobody came between")
				w.at, w.fate = ofPages, drivertest.NoFault
				w.then = func() {
					met = errors.Join(w.others.RotateKeys(t.Context(), "rows"), meddle(w.theirs))
				}
				require.NoError(t, call(w.mine))
				require.NoError(t, met)
				row := w.row(t, 1)
				require.Equal(t, other == "delete", row == nil)
				if row != nil {
					require.Equal(t, "theirs", row["note"])
				}
				census, err := w.theirs.Verify(t.Context())
				require.NoError(t, err)
				require.Zero(t, census.Old)
			})
		}
	}
}
