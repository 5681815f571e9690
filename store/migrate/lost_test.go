package migrate

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
)

// A step that was made is no error where the answer of the database was lost, and one of which nobody knows says so, also if the
// catalogue cannot be read afterwards.
func TestStepsWhoseAnswersAreLost(t *testing.T) {
	steps := []struct {
		name, phase string
		before      func(*stage)
		do          func(*stage) error
	}{
		{"prepare", "prepared", func(*stage) {}, func(s *stage) error {
			_, err := s.m.Prepare(s.ctx, false)
			return err
		}},
		{"abort", "aborted", (*stage).prepare, func(s *stage) error { return s.m.Abort(s.ctx) }},
		{"cut over", "cut over", (*stage).verified, func(s *stage) error { return s.m.Cutover(s.ctx) }},
		{"copy", "copying", (*stage).prepare, func(s *stage) error {
			_, err := s.m.Copy(s.ctx, inspect.Part{Of: 1}, nil)
			return err
		}},
	}
	for _, step := range steps {
		for _, unreachable := range []bool{false, true} {
			name := step.name
			if unreachable {
				name += " of what cannot be read"
			}
			t.Run(name, func(t *testing.T) {
				armed, lost := false, false
				s := newStageIn(t, drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
					switch {
					case !armed || op.Family != "catalogue":
					case op.Conditional() && !lost:
						lost = true
						return drivertest.FailAfter
					case lost && unreachable:
						return drivertest.FailBefore
					}
					return drivertest.NoFault
				}), 20, conditional)
				step.before(s)
				armed = true
				err := step.do(s)
				require.True(t, lost)
				if armed = false; unreachable {
					require.ErrorIs(t, err, driver.ErrUnknownOutcome)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, step.phase, s.phase())
			})
		}
	}
}

// A step whose answer is lost is not made a second time where another client has gone on from there.
func TestStepsAreNotMadeTwice(t *testing.T) {
	prepare := func(s *stage) error {
		_, err := s.m.Prepare(s.ctx, true)
		return err
	}
	for name, c := range map[string]struct {
		step, other func(*stage) error
		phase       string
	}{
		"abort":    {func(s *stage) error { return s.m.Abort(s.ctx) }, prepare, "prepared"},
		"pause":    {func(s *stage) error { return s.m.Pause(s.ctx, true) }, func(s *stage) error { return s.m.Pause(s.ctx, false) }, "copying"},
		"cut over": {func(s *stage) error { return s.m.Cutover(s.ctx) }, func(s *stage) error { return s.m.Pause(s.ctx, true) }, "cut over"},
	} {
		t.Run(name, func(t *testing.T) {
			var between func() error
			s := newStageIn(t, intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
				err := c.Make(nil)
				if now := between; now != nil && op.Conditional() && op.Family == "catalogue" {
					between = nil
					require.NoError(t, errors.Join(err, now()))
					return driver.ErrUnknownOutcome
				}
				return err
			}, nil), 20, conditional)
			if s.verified(); name == "pause" {
				require.NoError(t, s.m.Abort(s.ctx))
				require.NoError(t, prepare(s))
				_, err := s.m.Copy(s.ctx, inspect.Part{Of: 1}, nil)
				require.NoError(t, err)
			}
			between = func() error { return c.other(s) }
			require.ErrorIs(t, c.step(s), driver.ErrUnknownOutcome)
			status, err := s.m.Status(s.ctx)
			require.NoError(t, err)
			require.Equal(t, c.phase, status.Phase)
			require.Equal(t, name == "cut over", status.Paused)
		})
	}
}

// A step that may yet come says so, also where the next attempt is not made.
func TestStepsThatMayYetCome(t *testing.T) {
	for _, late := range []bool{false, true} {
		attempts, armed := 0, false
		s := newStageIn(t, drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
			if !armed || op.Family != "catalogue" || !op.Conditional() {
				return drivertest.NoFault
			}
			switch attempts++; {
			case attempts > 1:
				return drivertest.FailBefore
			case late:
				return drivertest.FailLate
			}
			return drivertest.Lose
		}), 20, conditional)
		s.verified()
		armed = true
		err := s.m.Cutover(s.ctx)
		require.Greater(t, attempts, 1)
		require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	}
}

// createFrom makes a table "from" in the same store, like that of the stage.
func (s *stage) createFrom(change ...func(*store.Schema)) *store.Table {
	schema := schemaOf(append(change, nil)[0])
	schema.Name = "from"
	from, err := s.st.Create(s.ctx, schema)
	require.NoError(s, err)
	return from
}

// openFrom has the stage migrate rows of that table, in a migration as another process would have it.
func (s *stage) openFrom() {
	source, err := FromTable(s.ctx, s.st, "from")
	require.NoError(s, err)
	s.m, err = New(s.table, source)
	require.NoError(s, err)
}

// A table of which data was left when the source was dropped loses that when the drop is made again.
func TestDropThatLeavesDataGoesOn(t *testing.T) {
	for _, again := range []bool{false, true} { // in the same process, or in another one
		ctx, armed, memory := t.Context(), false, drivertest.NewMemory()
		db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if armed && op.Method == "Drop" {
				return drivertest.FailBefore
			}
			return drivertest.NoFault
		})
		s := newStageIn(t, db, 0, nil)
		require.NoError(t, s.createFrom().Put(ctx, store.Row{"id": int64(1), "a": int64(2)}))
		s.openFrom()
		s.verified()
		require.NoError(t, s.m.Cutover(ctx))
		s.verify(nil)
		before, err := memory.Families(ctx)
		require.NoError(t, err)
		armed = true
		_, err = s.m.Drop(ctx, false, nil)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		if again {
			s.openFrom()
		}
		_, err = s.m.Drop(ctx, false, nil)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		armed = false
		_, err = s.m.Drop(ctx, false, nil)
		require.NoError(t, err)
		left, err := memory.Families(ctx)
		require.NoError(t, err)
		require.Len(t, left, len(before)-2, "rows and index entries are gone")
		row, err := s.table.Get(ctx, store.Row{"id": int64(1)})
		require.NoError(t, err)
		require.Equal(t, int64(2), row["a"])
	}
}

// A source that has got another name is not dropped, and not said to be.
func TestDropOfARenamedSource(t *testing.T) {
	ctx, s := t.Context(), newStage(t, 0, nil)
	s.createFrom()
	s.openFrom()
	s.verified()
	require.NoError(t, s.m.Cutover(ctx))
	s.verify(nil)
	require.NoError(t, s.st.RenameTable(ctx, "from", "moved"))
	s.openFrom()
	_, err := s.m.Drop(ctx, false, nil)
	require.ErrorContains(t, err, `it is table "moved" by now`)
	status, err := s.m.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "cut over", status.Phase)
	moved, err := s.st.Table(ctx, "moved")
	require.NoError(t, err)
	late := store.Row{"id": int64(7)}
	require.NoError(t, moved.Put(ctx, late))
	require.NoError(t, s.st.RenameTable(ctx, "moved", "from"))
	s.openFrom()
	_, err = s.m.Drop(ctx, false, nil)
	require.ErrorIs(t, err, ErrDiffers, "its rows are looked at once more")
	require.NoError(t, moved.Delete(ctx, late))
	_, err = s.m.Drop(ctx, false, nil)
	require.NoError(t, err)
	_, err = s.st.Table(ctx, "from")
	require.ErrorIs(t, err, store.ErrNoTable)
}

// Two clients drop the source at a time, and the faster one gives its name to the table that has the rows by now. That stays, whenever
// the other one goes on. Nor does a source that gets another name meanwhile count as dropped.
func TestDropOfASourceWhoseNameIsTaken(t *testing.T) {
	dropped := func(s *stage) error {
		if _, err := s.m.Drop(s.ctx, false, nil); err != nil {
			return err
		}
		return s.st.RenameTable(s.ctx, "orders", "from")
	}
	renamed := func(s *stage) error { return s.st.RenameTable(s.ctx, "from", "moved") }
	for i, meanwhile := range []func(*stage) error{dropped, renamed} {
		most := 0
		for at := 0; at <= most; at++ { // the call of the drop before which the other client is faster; at first he is not
			var s *stage
			calls, armed, fast := 0, false, errors.New("not yet")
			s = newStageIn(t, intercept.New(drivertest.NewMemory(), func(_ context.Context, _ intercept.Op, c intercept.Call) error {
				if !armed {
					return c.Make(nil)
				}
				if calls++; calls == at {
					armed = false
					fast = meanwhile(s)
					armed = true
				}
				return c.Make(nil)
			}, nil), 0, nil)
			s.createFrom()
			s.openFrom()
			s.verified()
			require.NoError(t, s.m.Cutover(s.ctx))
			s.verify(nil)
			armed = true
			_, err := s.m.Drop(s.ctx, false, nil)
			armed = false
			if at == 0 {
				most = calls
			}
			var names []string
			tables, unread := s.st.Tables(s.ctx)
			require.NoError(t, unread)
			for _, schema := range tables {
				names = append(names, schema.Name)
			}
			slices.Sort(names)
			switch {
			case slices.Contains(names, "moved"):
				require.Error(t, err, "call %d", at)
				require.Equal(t, []string{"moved", "orders"}, names)
			case fast == nil && i == 0:
				require.Equal(t, []string{"from"}, names, "call %d: %v", at, err)
			default:
				require.NoError(t, err)
				require.Equal(t, []string{"orders"}, names)
			}
		}
		require.Greater(t, most, 10)
	}
}

// A source is not written while it is there, also where a drop was killed: the next one ends that without another look at its rows.
func TestAKilledDropKeepsWritersOut(t *testing.T) {
	ctx, s := t.Context(), newStage(t, 0, nil)
	s.createFrom()
	s.openFrom()
	s.verified()
	require.NoError(t, s.m.Cutover(ctx))
	s.verify(nil)
	_, err := s.m.update(ctx, false, func(rec *catalogue.Migration) error {
		rec.Phase = catalogue.PhaseDropped
		return nil
	})
	require.NoError(t, err)
	require.ErrorIs(t, Followed(ctx, s.st, "from"), ErrPhase)
	_, err = s.m.Drop(ctx, false, nil)
	require.NoError(t, err)
	_, err = s.st.Table(ctx, "from")
	require.ErrorIs(t, err, store.ErrNoTable)
}

// A source that was altered when it was about to be dropped, or after a drop that failed, is not said to be dropped: its rows are there.
func TestDropOfAnAlteredSource(t *testing.T) {
	for name, by := range map[string]func(s *stage){
		"changed back":    func(s *stage) { s.source.fingerprint = "1" },
		"dropped by hand": func(s *stage) { _ = s.source.Drop(s.ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 3, nil)
			s.verified()
			require.NoError(t, s.m.Cutover(s.ctx))
			s.verify(nil)
			s.source.scanned = func(int) { s.source.fingerprint = "2" } // the last look at its rows
			for range 2 {
				_, err := s.m.Drop(s.ctx, false, nil)
				require.ErrorIs(t, err, ErrSource)
				require.ErrorContains(t, err, "was altered, or another table has its name by now, and nothing was dropped")
				require.Len(t, s.source.rows, 3)
			}
			by(s)
			_, err := s.m.Drop(s.ctx, false, nil)
			require.NoError(t, err)
			require.Empty(t, s.source.rows)
		})
	}
}

// A migration may end at any call of a dual write, and what belongs to it may go. Then the write is where it counts, or its error says that it is not.
func TestAMigrationEndsDuringADualWrite(t *testing.T) {
	aborted := func(s *stage) error { return errors.Join(s.m.Abort(s.ctx), s.st.Drop(s.ctx, "orders")) }
	row := store.Row{"id": int64(3), "a": int64(33), "b": int64(3)}
	for name, end := range map[string]struct {
		step  func(*stage) error
		table string // which has the writes that were acknowledged
		is    error  // what every other one is, or nil for none
	}{
		"cut over and dropped": {func(s *stage) error {
			if err := s.m.Cutover(s.ctx); err != nil {
				return err
			}
			s.verify(nil)
			_, err := s.m.Drop(s.ctx, false, nil)
			return err
		}, "orders", ErrCutOver},
		"aborted and dropped": {aborted, "from", nil},
		"begun again": {func(s *stage) error {
			err := aborted(s)
			require.NoError(s, err)
			s.table, err = s.st.Create(s.ctx, schemaOf(unsearched))
			require.NoError(s, err)
			s.openFrom()
			s.verified()
			return s.m.Cutover(s.ctx)
		}, "orders", store.ErrNoTable},
	} {
		t.Run(name, func(t *testing.T) {
			var before atomic.Int64 // calls that go ahead of the end
			for at, over := int64(1), true; over; at++ {
				before.Store(math.MaxInt64)
				var s *stage
				var ended error
				s = newStageIn(t, intercept.New(drivertest.NewMemory(), func(_ context.Context, _ intercept.Op, c intercept.Call) error {
					if before.Add(-1) == 0 {
						ended = end.step(s)
					}
					return c.Make(nil)
				}, nil), 0, unsearched)
				from := s.createFrom(unsearched)
				s.openFrom()
				s.verified()
				mirror, applied := s.m.Mirror(), false
				before.Store(at)
				err := mirror.Write(s.ctx, []store.Row{row}, func(ctx context.Context) error {
					err := from.Put(ctx, row)
					applied = err == nil
					return err
				})
				over = before.Swap(math.MaxInt64) <= 0
				if err != nil {
					require.NotNil(t, end.is, "call %d: %v", at, err)
					require.ErrorIs(t, err, end.is, "call %d", at)
					require.True(t, at > 1 || !applied)
					continue
				}
				name := end.table
				if !over || ended != nil { // it is not cut over while the row is on its way
					name = "from"
				}
				in, err := s.st.Table(s.ctx, name)
				require.NoError(t, err)
				got, err := in.Get(s.ctx, row)
				require.NoError(t, err, "call %d", at)
				require.Equal(t, row["a"], got["a"])
			}
		})
	}
}

// unsearched leaves nothing to do in the background.
func unsearched(s *store.Schema) {
	conditional(s)
	s.Columns[0] = store.RandomisedColumn("a", store.Int64)
}
