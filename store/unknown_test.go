package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A change of a row whose outcome is not known is not made again once another client has written the row. That client may
// have seen it, and what it did would be undone. Nor does the change say then that it was not made.
func TestChangesOfUnknownOutcome(t *testing.T) {
	id := store.Row{"id": int64(1)}
	with := func(balance int64, note string) store.Row {
		return store.Row{"id": int64(1), "balance": balance, "owner": "x", "note": note}
	}
	puts := func(tbl *store.Table) error { return tbl.Put(background, with(3, "other")) }
	inserts := func(tbl *store.Table) error { return tbl.Insert(background, with(3, "other")) }
	updates := func(tbl *store.Table) error {
		return tbl.Update(background, store.Row{"id": 1, "balance": 3, "note": "other"})
	}
	deletes := func(tbl *store.Table) error { return tbl.Delete(background, id) }
	comesAndGoes := func(tbl *store.Table) error { return errors.Join(puts(tbl), deletes(tbl)) }
	for name, call := range map[string]struct {
		inserts, deletes, once bool
		do                     func(*store.Table) error
	}{
		"put":    {do: func(tbl *store.Table) error { return tbl.Put(background, with(2, "mine")) }},
		"update": {do: func(tbl *store.Table) error { return tbl.Update(background, with(2, "mine")) }},
		"upsert": {do: func(tbl *store.Table) error { return tbl.Upsert(background, with(2, "mine")) }},
		"put new": {inserts: true, do: func(tbl *store.Table) error {
			return tbl.Put(background, with(2, "mine"))
		}},
		"insert":  {inserts: true, do: func(tbl *store.Table) error { return tbl.Insert(background, with(2, "mine")) }},
		"upserts": {inserts: true, do: func(tbl *store.Table) error { return tbl.Upsert(background, with(2, "mine")) }},
		"delete":  {deletes: true, do: deletes},
		"update if": {once: true, do: func(tbl *store.Table) error {
			return tbl.UpdateIf(background, with(2, "mine"), store.Row{"note": "old"})
		}},
		"increment": {once: true, do: func(tbl *store.Table) error {
			_, err := tbl.Increment(background, id, "balance", 1)
			return err
		}},
	} {
		for fateName, fate := range map[string]drivertest.Fault{"made": drivertest.FailAfter, "lost": drivertest.Lose} {
			made := fate == drivertest.FailAfter
			there := call.inserts && made || !call.inserts && !(call.deletes && made)
			meddlers := map[string]func(*store.Table) error{"nobody": nil, "put": puts, "comes and goes": comesAndGoes}
			if there {
				meddlers["update"], meddlers["delete"] = updates, deletes
			} else {
				meddlers["insert"] = inserts
			}
			for other, meddle := range meddlers {
				for _, covering := range []bool{false, true} {
					t.Run(name+", "+fateName+", then "+other+map[bool]string{true: ", copies"}[covering], func(t *testing.T) {
						schema := holders(packed)
						if covering {
							for i := range 3 {
								schema.Columns[i] = schema.Columns[i].Covering()
							}
						}
						memory := drivertest.NewMemory()
						theirs := create(t, open(t, memory), schema)
						if !call.inserts {
							require.NoError(t, theirs.Put(background, with(1, "old")))
						}
						var between func() error
						if meddle != nil {
							between = func() error { return meddle(theirs) }
						}
						tbl, done := afterAttempt(t, memory, schema.Name, fate, between)
						err := call.do(tbl)
						require.True(t, done())
						row, failed := theirs.Get(background, id)
						require.NoError(t, failed)
						gone := other == "delete" || other == "comes and goes"
						switch {
						case meddle == nil || call.deletes && gone:
							require.NoError(t, err)
							require.Equal(t, call.deletes, row == nil)
						default:
							require.ErrorIs(t, err, driver.ErrUnknownOutcome)
							require.NotErrorIs(t, err, store.ErrNoRow)
							require.NotErrorIs(t, err, store.ErrRowExists)
							require.ErrorContains(t, err, "another client has written the row since")
							require.NotEqual(t, call.once, store.Retryable(err))
							require.Equal(t, gone, row == nil)
							if row != nil {
								require.Equal(t, "other", row["note"])
								require.Equal(t, int64(3), row["balance"])
							}
						}
						var found []store.Row
						if row != nil {
							found = []store.Row{row}
						}
						require.Equal(t, found, collect(t, theirs, store.Query{Where: balance.AtLeast(0)}))
						require.Equal(t, found, collect(t, theirs, store.Query{Where: owner.Equal("x")}))
						report, failed := theirs.Verify(background, nil)
						require.NoError(t, failed)
						require.True(t, report.Sound(), report.Faults)
						require.Zero(t, report.Dangling, "nothing of what was replaced, or never came, is left")
					})
				}
			}
		}
	}
}

// afterAttempt opens a table whose first conditional change has a fate. Before the next call meddle is done, unless it is nil. What
// it returns says whether all that has happened.
func afterAttempt(t *testing.T, db driver.DB, table string, fate drivertest.Fault, meddle func() error) (_ *store.Table, done func() bool) {
	t.Helper()
	attempted, meddled := false, meddle == nil
	tbl, err := open(t, drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
		switch {
		case op.Family == "catalogue" || op.Method == "Family":
		case op.Conditional() && !attempted:
			attempted = true
			return fate
		case attempted && !meddled:
			meddled = true
			assert.NoError(t, meddle())
		}
		return drivertest.NoFault
	})).Table(background, table)
	require.NoError(t, err)
	return tbl, func() bool { return attempted && meddled }
}

// A change that must not be made twice says that it may have been made, also where another client has converted the row since, and
// the catalogue cannot be asked how.
func TestChangesOfUnknownOutcomeThatAreConverted(t *testing.T) {
	for name, do := range map[string]func(*store.Table) error{
		"update if": func(tbl *store.Table) error {
			return tbl.UpdateIf(background, store.Row{"id": 1, "balance": 2}, store.Row{"note": "old"})
		},
		"increment": func(tbl *store.Table) error {
			_, err := tbl.Increment(background, store.Row{"id": int64(1)}, "balance", 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory := drivertest.NewMemory()
			st := open(t, memory)
			theirs := create(t, st, holders(packed))
			require.NoError(t, theirs.Put(background, store.Row{"id": int64(1), "balance": int64(1), "owner": "x", "note": "old"}))
			attempted, converted := false, false
			tbl, err := open(t, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				switch {
				case op.Family == "catalogue" && converted:
					return drivertest.FailBefore
				case op.Family == "catalogue" || op.Method == "Family":
				case op.Conditional() && !attempted:
					attempted = true
					return drivertest.FailAfter
				case attempted && !converted:
					converted = true
					assert.NoError(t, st.RotateKeys(background, "holders"))
					_, err := theirs.Convert(background, nil)
					assert.NoError(t, err)
				}
				return drivertest.NoFault
			})).Table(background, "holders")
			require.NoError(t, err)
			err = do(tbl)
			require.True(t, converted)
			row, failed := theirs.Get(background, store.Row{"id": int64(1)})
			require.NoError(t, failed)
			require.Equal(t, int64(2), row["balance"])
			require.ErrorIs(t, err, driver.ErrUnknownOutcome)
			require.False(t, store.Retryable(err), "it would be made twice: %v", err)
		})
	}
}

// A lease that may yet be set is not said to be refused, where the next attempt is not made.
func TestLeasesThatMayYetBeSet(t *testing.T) {
	attempts, armed := 0, false
	st := open(t, drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
		if !armed || !op.Conditional() {
			return drivertest.NoFault
		}
		if attempts++; attempts == 1 {
			return drivertest.Lose
		}
		return drivertest.FailBefore
	}))
	armed = true
	require.ErrorIs(t, st.SetLease(background, time.Second), driver.ErrUnknownOutcome)
	require.Equal(t, 2, attempts)
}
