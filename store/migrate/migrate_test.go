package migrate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var whole = inspect.Part{Index: 0, Of: 1}

// A stage is a source with some rows and a table for them.
type stage struct {
	*testing.T
	ctx    context.Context
	source *memorySource
	st     *store.Store
	table  *store.Table
	m      *Migration
}

// schemaOf returns a schema that takes the rows of a memorySource.
func schemaOf(change func(*store.Schema)) store.Schema {
	s := store.Schema{
		Name: "orders", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("a", store.Int64.Within(-1000, 1000), store.MOPE), store.RandomisedColumn("b", store.Int64)},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func conditional(s *store.Schema) { s.Conditional = true }
func expiring(s *store.Schema)    { s.TTL = store.TTLByRow }

func newStage(t *testing.T, rows int64, change func(*store.Schema)) *stage {
	return newStageIn(t, drivertest.NewMemory(), rows, change)
}

func newStageIn(t *testing.T, db driver.DB, rows int64, change func(*store.Schema)) *stage {
	s := &stage{T: t, ctx: t.Context(), source: newMemorySource()}
	for id := range rows {
		require.NoError(t, s.source.change(id, store.Row{"a": id % 1000, "b": id}, 0))
	}
	var err error
	s.st, err = store.Open(s.ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.st.Close(context.Background())) })
	s.table, err = s.st.Create(s.ctx, schemaOf(change))
	require.NoError(t, err)
	s.m, err = New(s.table, s.source)
	require.NoError(t, err)
	return s
}

func (s *stage) prepare() {
	_, err := s.m.Prepare(s.ctx, false)
	require.NoError(s, err)
}

// verified brings a migration to where it may be cut over.
func (s *stage) verified() {
	s.prepare()
	s.copy()
	s.verify(nil)
}

func (s *stage) copy() Counts {
	done, err := s.m.Copy(s.ctx, whole, nil)
	require.NoError(s, err)
	return done.Rows
}

func (s *stage) verify(opts *PassOptions) Counts {
	done, err := s.m.Verify(s.ctx, whole, opts)
	require.NoError(s, err)
	return done.Rows
}

func (s *stage) phase() string {
	status, err := s.m.Status(s.ctx)
	require.NoError(s, err)
	return status.Phase
}

// write writes a row through the Mirror.
func (s *stage) write(id int64, row store.Row, life time.Duration) error {
	return s.m.Mirror().Write(s.ctx, []store.Row{{"id": id}}, func(context.Context) error { return s.source.change(id, row, life) })
}

func TestMigrationFromBeginToEnd(t *testing.T) {
	for name, change := range map[string]func(*store.Schema){"conditional": conditional, "last write wins": expiring} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 700, change)
			plan, err := s.m.Plan(s.ctx)
			require.NoError(t, err)
			require.Empty(t, plan.Unfit)
			require.Equal(t, []string{"Remove snapshots."}, plan.Before)
			require.Equal(t, 500, plan.Sampled)
			require.Greater(t, plan.Space, int64(700*100))
			require.Empty(t, s.phase(), "a plan stores nothing")
			s.prepare()
			require.NoError(t, s.write(1000, store.Row{"a": int64(1), "b": int64(2)}, 0))
			row, err := s.table.Get(s.ctx, store.Row{"id": int64(1000)})
			require.NoError(t, err)
			require.Equal(t, store.Row{"id": int64(1000), "a": int64(1), "b": int64(2)}, row)

			for i := range 3 {
				done, err := s.m.Copy(s.ctx, inspect.Part{Index: i, Of: 3}, nil)
				require.NoError(t, err)
				require.Equal(t, i == 2, done.Over)
				require.Equal(t, "copying", s.phase())
			}
			status, err := s.m.Status(s.ctx)
			require.NoError(t, err)
			require.Equal(t, Counts{Copied: 700, Equal: 1}, status.Copy.Rows)
			require.Equal(t, 1.0, status.Copy.Done)
			again, err := s.m.Copy(s.ctx, inspect.Part{Index: 3, Of: 7}, nil)
			require.NoError(t, err)
			require.True(t, again.Again, "another cut of what is done is not read again")

			require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers, "it is not verified")
			require.Equal(t, Counts{Equal: 701}, s.verify(nil))
			require.Equal(t, "verified", s.phase())
			require.NoError(t, s.m.Cutover(s.ctx))
			require.Equal(t, "cut over", s.phase())
			require.ErrorIs(t, s.write(1, nil, 0), ErrCutOver)
			require.Contains(t, s.source.rows, int64(1), "nothing was written")

			require.NoError(t, s.table.Put(s.ctx, store.Row{"id": int64(1), "a": int64(7)}))
			_, err = s.m.Drop(s.ctx, false, nil)
			require.ErrorIs(t, err, ErrDiffers, "the source may still be written")
			require.Equal(t, Counts{Equal: 701}, s.verify(nil))
			remains, err := s.m.Drop(s.ctx, false, nil)
			require.NoError(t, err)
			require.Len(t, remains, 1)
			remains, err = s.m.Drop(s.ctx, false, nil)
			require.NoError(t, err)
			require.Len(t, remains, 1)
			require.Equal(t, 1, s.source.drops)
			require.Equal(t, "dropped", s.phase())
			require.ErrorIs(t, s.m.Abort(s.ctx), ErrPhase)
			_, err = s.m.Prepare(s.ctx, true)
			require.Error(t, err)
		})
	}
}

// What a writer leaves who dies between his two writes is found on both sides, and mended.
func TestVerificationFindsBothSides(t *testing.T) {
	for name, change := range map[string]func(*store.Schema){"conditional": conditional, "last write wins": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which has the time to look again
				s := newStage(t, 10, change)
				s.prepare()
				s.copy()
				require.NoError(t, s.source.change(3, store.Row{"a": int64(-1)}, 0))
				require.NoError(t, s.source.change(4, nil, 0))
				require.NoError(t, s.source.change(11, store.Row{"a": int64(5)}, 0))
				var rows []string
				opts := &PassOptions{Finding: func(f Finding) { rows = append(rows, f.Row) }}
				require.Equal(t, Counts{Equal: 8, Differs: 3}, s.verify(opts))
				require.Len(t, rows, 3)
				require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
				before := rows
				rows = nil
				s.verify(opts)
				require.ElementsMatch(t, before, rows, "a row has the same hash in each list")
				opts.Repair = true
				require.Equal(t, Counts{Equal: 8, Mended: 3}, s.verify(opts))
				require.NoError(t, s.m.Cutover(s.ctx))
				for id := range int64(12) {
					row, err := s.table.Get(s.ctx, store.Row{"id": id})
					require.NoError(t, err)
					require.Equal(t, s.source.rows[id].Row, row)
				}
			})
		})
	}
}

// A pass whose callback does not return is not over.
func TestCallbacksThatDoNotReturn(t *testing.T) {
	s := newStage(t, 10, nil)
	s.prepare()
	var callback func()
	opts := &PassOptions{Progress: func(int) { callback() }}
	for _, shares := range []int{1, 4} {
		opts.Shares, callback = shares, func() { panic("of the caller") }
		said := make(chan string)
		outcome := func() {
			defer func() { said <- fmt.Sprint(recover()) }()
			_, _ = s.m.Copy(s.ctx, whole, opts)
			t.Error("the callback has ended the call")
		}
		go outcome()
		require.Contains(t, <-said, "of the caller")
		callback = runtime.Goexit
		go outcome()
		require.Equal(t, "<nil>", <-said)
	}
	require.Equal(t, Counts{Copied: 10}, s.copy())
}

// Rows that were written past the wrapper after the cut-over keep the source from being dropped.
func TestLateRowsKeepTheSource(t *testing.T) {
	for _, ahead := range []time.Duration{0, -time.Hour, time.Hour} {
		t.Run(fmt.Sprintf("the clock of the source is %v ahead", ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lateRowsKeepTheSource(t, ahead) }) // which has the time to look again
		})
	}
}

func lateRowsKeepTheSource(t *testing.T, ahead time.Duration) {
	s := newStage(t, 10, conditional)
	s.source.ahead = ahead
	s.prepare()
	s.copy()
	s.verify(nil)
	require.NoError(t, s.source.change(5, store.Row{"a": int64(55)}, 0), "past the wrapper")
	require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
	require.NoError(t, s.source.change(5, store.Row{"a": int64(5)}, 0))
	require.NoError(t, s.m.Cutover(s.ctx))
	require.NoError(t, s.source.change(3, store.Row{"a": int64(77)}, 0))
	_, err := s.m.Verify(s.ctx, whole, &PassOptions{Repair: true})
	require.ErrorIs(t, err, ErrPhase)
	require.Equal(t, 1, s.verify(nil).Differs)
	_, err = s.m.Drop(s.ctx, false, nil)
	require.ErrorIs(t, err, ErrDiffers)
	require.NoError(t, s.table.Update(s.ctx, store.Row{"id": int64(3), "a": int64(77)}))
	require.Equal(t, Counts{Equal: 10}, s.verify(nil))
	require.NoError(t, s.source.change(4, store.Row{"a": int64(78)}, 0), "after the verification")
	_, err = s.m.Drop(s.ctx, false, nil)
	require.ErrorIs(t, err, ErrDiffers)
	require.False(t, s.source.dropped)
	_, err = s.m.Drop(s.ctx, true, nil)
	require.NoError(t, err)
	require.True(t, s.source.dropped)
}

// Another table that has the name of one that was dropped stays.
func TestDropOfAnotherTable(t *testing.T) {
	s := newStage(t, 1, conditional)
	s.prepare()
	s.copy()
	s.verify(nil)
	require.NoError(t, s.m.Cutover(s.ctx))
	s.verify(nil)
	_, err := s.m.Drop(s.ctx, false, nil)
	require.NoError(t, err)
	s.source.dropped, s.source.fingerprint = false, "2"
	_, err = s.m.Drop(s.ctx, false, nil)
	require.NoError(t, err)
	require.False(t, s.source.dropped)
}

func TestRowsThatTheTableRefuses(t *testing.T) {
	s := newStage(t, 5, conditional)
	require.NoError(t, s.source.change(2, store.Row{"a": int64(5000)}, 0))      // out of the domain
	require.NoError(t, s.source.change(3, store.Row{"a": int64(3)}, time.Hour)) // expires
	plan, err := s.m.Plan(s.ctx)
	require.NoError(t, err)
	require.Equal(t, 2, plan.Refused)
	s.prepare()
	require.Equal(t, Counts{Copied: 3, Refused: 2}, s.copy())
	var found []error
	require.Equal(t, Counts{Equal: 3, Refused: 2}, s.verify(&PassOptions{Repair: true, Finding: func(f Finding) { found = append(found, f.Err) }}))
	require.Len(t, found, 2)
	for _, err := range found {
		require.ErrorIs(t, err, ErrUnfit)
		require.NotContains(t, err.Error(), "5000")
	}
	require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
	require.ErrorIs(t, s.write(2, store.Row{"a": int64(6000)}, 0), ErrUnfit)
	require.NoError(t, s.write(2, store.Row{"a": int64(6)}, 0))
	require.NoError(t, s.write(3, store.Row{"a": int64(6)}, 0))
	require.Equal(t, Counts{Equal: 5}, s.verify(nil))
	require.NoError(t, s.m.Cutover(s.ctx))
}

func TestRowsThatExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		s := newStage(t, 3, expiring)
		require.NoError(t, s.source.change(1, store.Row{"a": int64(1)}, time.Hour))
		s.prepare()
		require.Equal(t, Counts{Copied: 3}, s.copy())
		require.NoError(t, s.write(2, store.Row{"a": int64(9)}, 30*time.Minute))
		require.NoError(t, s.write(4, store.Row{"a": int64(9)}, time.Millisecond))
		require.Equal(t, 0, s.verify(nil).Differs)
		require.NoError(t, s.source.change(2, store.Row{"a": int64(9)}, 2*time.Hour))
		require.Equal(t, 1, s.verify(nil).Differs, "the values are the same, and the row lives longer")
		require.Equal(t, 1, s.verify(&PassOptions{Repair: true}).Mended)
		err := s.write(2, store.Row{"a": int64(9)}, 20*365*24*time.Hour)
		require.ErrorIs(t, err, ErrUnfit)
		require.ErrorContains(t, err, "write it again with a shorter time to live")
	})
}

// Where rows expire unless their write says otherwise, one that stays in the source stays in the table, as of its copy.
func TestRowsThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &datedDB{DB: drivertest.NewMemory(), stamps: make(map[string]int64)} // where copies count as made earlier
		s := newStageIn(t, db, 3, func(schema *store.Schema) { schema.TTL = time.Hour })
		s.source.ttl = time.Hour
		time.Sleep(time.Second) // the rows were written before it is prepared
		s.prepare()
		require.Equal(t, Counts{Copied: 3}, s.copy())
		require.Equal(t, Counts{Equal: 3}, s.verify(nil))
		time.Sleep(2 * time.Hour)
		require.Equal(t, Counts{Equal: 3}, s.verify(nil))
	})
}

// What goes on is not prepared again, whatever the table has by then, and the error says that alone.
func TestPreparedTwice(t *testing.T) {
	s := newStage(t, 3, conditional)
	s.prepare()
	s.copy()
	for _, continues := range []bool{false, true} {
		_, err := s.m.Prepare(s.ctx, continues)
		require.ErrorIs(t, err, ErrPhase)
		require.NotErrorIs(t, err, ErrUnfit)
	}
}

func TestWhatCannotBePrepared(t *testing.T) {
	s := newStage(t, 3, func(schema *store.Schema) {
		schema.Conditional = true
		schema.Columns = []store.Column{store.RandomisedColumn("a", store.String), store.RandomisedColumn("c", store.Int64)}
	})
	s.source.unmapped = []string{"Column \"n\" is a counter."}
	s.source.ttl = time.Hour
	plan, err := s.m.Prepare(s.ctx, false)
	require.ErrorIs(t, err, ErrUnfit)
	require.Len(t, plan.Unfit, 3, "%q", plan.Unfit)
	require.Empty(t, s.phase())
	_, err = s.m.Copy(s.ctx, whole, nil)
	require.ErrorIs(t, err, ErrPhase)
	require.ErrorIs(t, s.m.Pause(s.ctx, true), ErrPhase)
	require.ErrorContains(t, s.m.Pause(s.ctx, false), "resume table")

	full := newStage(t, 3, conditional)
	require.NoError(t, full.table.Put(full.ctx, store.Row{"id": int64(9)}))
	require.NoError(t, full.table.Delete(full.ctx, store.Row{"id": int64(9)}))
	_, err = full.m.Prepare(full.ctx, false)
	require.ErrorIs(t, err, ErrUnfit, "there is a mark of a deleted row")
	_, err = full.m.Prepare(full.ctx, true)
	require.NoError(t, err)

	for name, change := range map[string]func(*store.Schema){
		"tenants":     func(s *store.Schema) { s.Tenants = true },
		"append-only": func(s *store.Schema) { s.AppendOnly, s.Key = true, append(s.Key, store.TiePart("tie")) },
	} {
		schema := schemaOf(change)
		schema.Name = name
		tbl, err := full.st.Create(full.ctx, schema)
		require.NoError(t, err)
		_, err = New(tbl, full.source)
		require.ErrorIs(t, err, ErrUnfit)
	}
}

// Without a source a migration says how far it is, and is paused and aborted. All else says that there is none.
func TestMigrationWithoutASource(t *testing.T) {
	s := newStage(t, 3, conditional)
	bare, err := New(s.table, nil)
	require.NoError(t, err)
	calls := func() map[string]error {
		_, plan := bare.Plan(s.ctx)
		_, prepare := bare.Prepare(s.ctx, true)
		_, parts := bare.Parts(s.ctx)
		return map[string]error{"Plan": plan, "Prepare": prepare, "Parts": parts}
	}
	for name, err := range calls() {
		require.ErrorIs(t, err, ErrSource, name)
		require.ErrorContains(t, err, "no source is given", name)
	}
	s.prepare()
	all := calls()
	_, all["Copy"] = bare.Copy(s.ctx, whole, nil)
	_, all["Verify"] = bare.Verify(s.ctx, whole, nil)
	all["Write"] = bare.Mirror().Write(s.ctx, []store.Row{{"id": int64(1)}}, func(context.Context) error { return nil })
	s.copy()
	s.verify(nil)
	all["Cutover"] = bare.Cutover(s.ctx)
	for name, err := range all {
		require.ErrorIs(t, err, ErrSource, name)
	}
	status, err := bare.Status(s.ctx)
	require.NoError(t, err)
	require.False(t, status.Looked)
	require.NoError(t, bare.Pause(s.ctx, true))
	require.NoError(t, bare.Pause(s.ctx, false))
	require.NoError(t, s.m.Cutover(s.ctx))
	require.NoError(t, s.m.Cutover(s.ctx), "again")
	require.ErrorIs(t, bare.Cutover(s.ctx), ErrSource)
	s.verify(nil)
	require.NoError(t, s.m.Cutover(s.ctx))
	status, err = s.m.Status(s.ctx)
	require.NoError(t, err)
	require.False(t, status.Verified.IsZero(), "it was verified since")
	_, err = bare.Drop(s.ctx, false, nil)
	require.ErrorIs(t, err, ErrSource)
	_, err = New(nil, s.source)
	require.ErrorContains(t, err, "no table")
}

func TestSourceThatChanges(t *testing.T) {
	s := newStage(t, 3, conditional)
	s.prepare()
	s.source.scanned = func(int) { s.source.fingerprint = "2" }
	_, err := s.m.Copy(s.ctx, whole, nil)
	require.ErrorIs(t, err, ErrSource, "it has changed while it was read")
	status, err := s.m.Status(s.ctx)
	require.NoError(t, err)
	require.True(t, status.Changed)
	require.Zero(t, status.Copy.Done)
	s.source.scanned, s.source.fingerprint = nil, "1"
	s.copy()
	s.verify(nil)
	s.source.fingerprint = "2"
	require.ErrorIs(t, s.m.Cutover(s.ctx), ErrSource)
	_, err = s.m.Verify(s.ctx, whole, nil)
	require.ErrorIs(t, err, ErrSource)
	require.NoError(t, s.m.Abort(s.ctx))
	require.NoError(t, s.write(8, store.Row{"a": int64(1)}, 0))
	row, err := s.table.Get(s.ctx, store.Row{"id": int64(8)})
	require.NoError(t, err)
	require.Nil(t, row, "after the end the source is written alone")
	s.source.fingerprint = "2"
	_, err = s.m.Prepare(s.ctx, true)
	require.NoError(t, err)
	require.Equal(t, Counts{Copied: 1, Equal: 3}, s.copy())
}

// A copy that is paused, or loses the database, ends; the next one goes on.
func TestCopyGoesOn(t *testing.T) {
	s := newStage(t, 2000, conditional)
	s.prepare()
	pause := true
	s.source.scanned = func(row int) {
		if row > 600 && pause {
			pause = false
			require.NoError(t, s.m.Pause(s.ctx, true))
		}
	}
	for i := range 2 {
		_, err := s.m.Copy(s.ctx, inspect.Part{Index: i, Of: 2}, nil)
		require.ErrorIs(t, err, ErrPaused)
	}
	require.NoError(t, s.write(9, nil, 0), "dual writes go on")
	status, err := s.m.Status(s.ctx)
	require.NoError(t, err)
	require.True(t, status.Paused)
	require.NoError(t, s.m.Pause(s.ctx, false))
	full := errors.New("no space left")
	s.source.before = func(what string) error {
		if what == "scan" {
			return errors.Join(driver.ErrUnavailable, full)
		}
		return nil
	}
	_, err = s.m.Copy(s.ctx, whole, nil)
	require.ErrorIs(t, err, full)
	require.True(t, store.Retryable(err))
	s.source.before = nil
	counts := s.copy()
	require.Equal(t, 1999, counts.Copied+counts.Equal)
	require.Positive(t, counts.Equal)
	require.Equal(t, Counts{Equal: 1999}, s.verify(nil))
}

// The application learns which of the two has its write.
func TestDualWriteFails(t *testing.T) {
	s := newStage(t, 1, conditional)
	s.prepare()
	gone := errors.New("refused by the source")
	err := s.m.Mirror().Write(s.ctx, []store.Row{{"id": int64(0)}}, func(context.Context) error { return gone })
	require.Equal(t, gone, err)
	s.source.before = func(what string) error {
		if what == "read" {
			return driver.ErrUnavailable
		}
		return nil
	}
	err = s.write(0, store.Row{"a": int64(1)}, 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "the source has the write, and the table not yet")
	require.True(t, store.Retryable(err))
	s.source.before = nil
	require.NoError(t, s.write(0, store.Row{"a": int64(1)}, 0))
	other, err := New(s.table, renamed{s.source})
	require.NoError(t, err)
	require.ErrorIs(t, other.Mirror().Write(s.ctx, []store.Row{{"id": int64(0)}}, func(context.Context) error { return nil }), ErrSource)
}

type renamed struct{ *memorySource }

func (renamed) Name() string { return "memory:others" }

// The table follows a write whose context ends, and what failed has all verified again, since it may still come to the source.
func TestDualWriteOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		s := newStage(t, 20, conditional)
		s.verified()
		for name, timeout := range map[string]error{"done": nil, "with an error": context.DeadlineExceeded} {
			ctx, cancel := context.WithCancel(s.ctx)
			id := map[bool]int64{true: 3, false: 4}[timeout == nil]
			err := s.m.Mirror().Write(ctx, []store.Row{{"id": int(id)}}, func(context.Context) error {
				defer cancel()
				require.NoError(t, s.source.change(id, nil, 0))
				return timeout
			})
			require.Equal(t, timeout, err, name)
			row, err := s.table.Get(s.ctx, store.Row{"id": id})
			require.NoError(t, err)
			require.Nil(t, row)
		}
		require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
		require.Equal(t, "copying", s.phase())
		// As a request that comes to the source when nobody waits for it any more.
		require.NoError(t, s.source.change(5, nil, 0))
		require.Equal(t, 1, s.verify(nil).Differs)
		require.Equal(t, Counts{Equal: 17, Mended: 1}, s.verify(&PassOptions{Repair: true}))
		require.Equal(t, Counts{Equal: 17}, s.verify(nil))
		require.NoError(t, s.m.Cutover(s.ctx))
	})
}

// A row that is deleted in the source alone, since the table could not follow or the application panicked, has all verified again.
func TestDualWriteThatTheTableMisses(t *testing.T) {
	for name, write := range map[string]func(s *stage){
		"source cannot be read": func(s *stage) {
			s.source.before = func(what string) error {
				if what == "read" {
					return driver.ErrUnavailable
				}
				return nil
			}
			require.ErrorContains(s, s.write(3, nil, 0), "the source has the write, and the table not yet")
			s.source.before = nil
		},
		"source hangs": func(s *stage) { // for longer than it is followed
			s.source.before = func(what string) error {
				if what == "read" {
					time.Sleep(time.Minute)
				}
				return nil
			}
			ctx, cancel := context.WithCancel(s.ctx)
			err := s.m.Mirror().Write(ctx, []store.Row{{"id": int64(3)}}, func(context.Context) error {
				cancel()
				return s.source.change(3, nil, 0)
			})
			require.ErrorContains(s, err, "the source has the write, and the table not yet")
			s.source.before = nil
		},
		"panic": func(s *stage) {
			require.PanicsWithValue(s, "later", func() {
				_ = s.m.Mirror().Write(s.ctx, []store.Row{{"id": int64(3)}}, func(context.Context) error {
					require.NoError(s, s.source.change(3, nil, 0))
					panic("later")
				})
			})
			row, err := s.table.Get(s.ctx, store.Row{"id": int64(3)})
			require.NoError(s, err)
			require.Nil(s, row, "the table follows")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which has the time to look again
				s := newStage(t, 20, conditional)
				s.verified()
				write(s)
				require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
				require.Equal(t, "copying", s.phase())
				s.verify(&PassOptions{Repair: true})
				require.Equal(t, Counts{Equal: 19}, s.verify(nil))
				require.NoError(t, s.m.Cutover(s.ctx))
			})
		})
	}
}

// A key that is none ends a dual write before the source is written.
func TestDualWriteChecksKeys(t *testing.T) {
	s := newStage(t, 1, conditional)
	s.prepare()
	for _, row := range []store.Row{{"id": "0"}, {"id": 1.5}, {"a": int64(1)}} {
		err := s.m.Mirror().Write(s.ctx, []store.Row{row}, func(context.Context) error { panic("the source is written") })
		require.ErrorContains(t, err, "nothing was written")
		require.ErrorAs(t, err, new(*store.RowError))
	}
	require.ErrorContains(t, s.m.Mirror().Write(s.ctx, []store.Row{{"id": int64(1)}}, nil), "nothing was written")
	_, err := s.m.Copy(s.ctx, whole, &PassOptions{Shares: -3})
	require.ErrorIs(t, err, driver.ErrRange)
}

// What was written between the last verification and the cut-over is not lost: by a writer who died before the table was told, past the
// wrapper, or such that the table does not take it.
func TestCutoverFindsWhatWasWrittenSince(t *testing.T) {
	for name, write := range map[string]func(s *stage) error{
		"past the wrapper": func(s *stage) error { return s.source.change(3, store.Row{"a": int64(7)}, 0) },
		"new":              func(s *stage) error { return s.source.change(77, store.Row{"a": int64(7)}, 0) },
		"unfit": func(s *stage) error {
			err := s.m.Mirror().Write(s.ctx, []store.Row{{"id": int64(5)}}, func(context.Context) error {
				return s.source.change(5, store.Row{"a": int64(1_000_000)}, 0)
			})
			require.ErrorIs(s, err, ErrUnfit)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which has the time to look again
				s := newStage(t, 50, conditional)
				s.verified()
				require.NoError(t, write(s))
				require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
				require.Equal(t, "verified", s.phase())

				_, err := s.m.Verify(s.ctx, whole, &PassOptions{Repair: true})
				require.NoError(t, err)
				if name == "unfit" {
					require.ErrorIs(t, s.m.Cutover(s.ctx), ErrDiffers)
					return
				}
				require.NoError(t, s.m.Cutover(s.ctx))
			})
		})
	}
}

// A column of the table that is dropped in the middle keeps the cut-over from being made.
func TestCutoverComparesSchemas(t *testing.T) {
	s := newStage(t, 20, conditional)
	s.verified()
	require.NoError(t, s.st.Alter(s.ctx, "orders", store.DropColumn("b")))
	require.ErrorIs(t, s.m.Cutover(s.ctx), ErrUnfit)
}

// A column of the table that is dropped, and made again or put in place of another one, has not the values that were verified.
func TestColumnMadeAgainIsVerifiedAgain(t *testing.T) {
	b := store.RandomisedColumn("b", store.Int64)
	for name, changes := range map[string][]store.Change{
		"dropped": {store.DropColumn("b"), store.AddColumn(b)},
		"renamed": {store.RenameColumn("b", "other"), store.AddColumn(b)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 20, conditional)
			for id, f := range s.source.rows {
				f.Written = time.Now().Add(-time.Hour) // so that the cut-over does not compare it again
				s.source.rows[id] = f
			}
			s.verified()
			require.NoError(t, s.st.Alter(t.Context(), s.table.Schema().Name, changes...))

			require.ErrorIs(t, s.m.Cutover(t.Context()), ErrDiffers)

			require.Equal(t, 20, s.verify(&PassOptions{Repair: true}).Mended)
			s.verify(nil)
			require.NoError(t, s.m.Cutover(t.Context()))
		})
	}
}

// A table that is made anew under the name of the source is not dropped with it, and a source that somebody else has dropped is.
func TestDropIsMadeOnce(t *testing.T) {
	s := newStage(t, 20, conditional)
	s.verified()
	require.NoError(t, s.m.Cutover(s.ctx))
	require.NoError(t, s.source.Drop(s.ctx)) // by hand
	other, err := New(s.table, elsewhere{s.source})
	require.NoError(t, err)
	_, err = other.Drop(s.ctx, false, nil)
	require.Error(t, err, "nothing of another name is gone")
	require.Equal(t, "cut over", s.phase())
	_, err = s.m.Drop(s.ctx, false, nil)
	require.ErrorIs(t, err, ErrDiffers, "nobody has looked since the cut-over")
	require.Equal(t, "cut over", s.phase())
	_, err = s.m.Drop(s.ctx, true, nil)
	require.NoError(t, err)
	drops := s.source.drops
	s.source.dropped = false // a new one, of which the database says the same
	_, err = s.m.Drop(s.ctx, false, nil)
	require.NoError(t, err)
	require.Equal(t, drops, s.source.drops)
}

// An elsewhere is a source of another name.
type elsewhere struct{ *memorySource }

func (elsewhere) Name() string { return "memory:other" }

// A row with other values comes into a table whose rows are only added while it is copied. It goes, and what the source has comes.
func TestCopyMeetsAnotherRow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // it could try for ever
	defer cancel()
	db, key, source := drivertest.NewMemory(), ope.GenerateKey(), newMemorySource()
	source.tied = true
	require.NoError(t, source.change(1, store.Row{"a": int64(1), "b": int64(1)}, 0))
	open := func(db driver.DB) *store.Store {
		st, err := store.Open(ctx, db, kms.NewLocal(key), nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
		return st
	}
	tbl, err := open(db).Create(ctx, schemaOf(func(s *store.Schema) { s.Key, s.AppendOnly = append(s.Key, store.TiePart("tie")), true }))
	require.NoError(t, err)
	other := source.key(1)
	other["tie"], other["a"], other["b"] = store.LoadTie(other["tie"].([16]byte)), int64(1), int64(2)
	const before, seen, over = 0, 1, 2
	at := over
	copies, err := open(drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
		switch {
		case at == before && op.Family[0] == 't':
			at = seen
		case at == seen:
			at = over
			require.NoError(t, tbl.Put(ctx, other))
		}
		return drivertest.NoFault
	})).Table(ctx, "orders")
	require.NoError(t, err)
	m, err := New(copies, source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	at = before
	_, err = m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, over, at)
	row, err := tbl.Get(ctx, source.key(1))
	require.NoError(t, err)
	require.Equal(t, source.rows[1].Row, row)
}

// A copy whose context ends after it has put a row looks at the source again all the same: who has deleted the row there has
// found none in the table.
func TestInterruptedCopyLooksAgain(t *testing.T) {
	for _, appends := range []bool{false, true} {
		t.Run(fmt.Sprint("appends ", appends), func(t *testing.T) {
			source := newMemorySource()
			source.tied = appends
			require.NoError(t, source.change(1, store.Row{"a": int64(1), "b": int64(1)}, 0))
			st, err := store.Open(t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
			tbl, err := st.Create(t.Context(), schemaOf(func(s *store.Schema) {
				if s.AppendOnly = appends; appends {
					s.Key = append(s.Key, store.TiePart("tie"))
				}
			}))
			require.NoError(t, err)
			m, err := New(tbl, source)
			require.NoError(t, err)
			_, err = m.Prepare(t.Context(), false)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			reads := 0
			source.before = func(what string) error {
				if what == "read" {
					if reads++; reads == 1 {
						cancel()
						return source.change(1, nil, 0)
					}
				}
				return nil
			}
			_, err = m.Copy(ctx, whole, nil)
			require.ErrorIs(t, err, context.Canceled)
			require.Greater(t, reads, 1)
			n, err := tbl.Count(t.Context(), store.Predicate{})
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}

// However often a row is copied, it expires when it does.
func TestLifeEndsWhenItDoes(t *testing.T) {
	for range 3 { // a second may begin in between
		now := time.Now()
		end := now.Truncate(time.Second).Add(time.Hour)
		life := layouts.LifeUntil(end)
		if time.Now().Truncate(time.Second).Equal(now.Truncate(time.Second)) {
			require.Zero(t, life%time.Second)
			require.Equal(t, end, now.Add(life).Add(time.Second-1).Truncate(time.Second), "as a Put rounds")
			require.Equal(t, end.Add(time.Second), now.Add(layouts.LifeUntil(end.Add(time.Millisecond))).Add(time.Second-1).Truncate(time.Second))
			require.Equal(t, time.Second, layouts.LifeUntil(now), "0 would be for ever")
			return
		}
	}
	t.Fatal("seconds are too short here")
}

// A source stays while another table gets rows from it.
func TestSourceOfTwoTablesStays(t *testing.T) {
	s := newStage(t, 10, conditional)
	s.verified()
	schema := schemaOf(conditional)
	schema.Name = "another"
	another, err := s.st.Create(s.ctx, schema)
	require.NoError(t, err)
	m, err := New(another, s.source)
	require.NoError(t, err)
	_, err = m.Prepare(s.ctx, false)
	require.NoError(t, err)
	require.NoError(t, s.m.Cutover(s.ctx))
	s.verify(nil)
	_, err = s.m.Drop(s.ctx, false, nil)
	require.ErrorIs(t, err, ErrPhase)
	require.ErrorContains(t, err, `table "another" gets rows from memory:orders too: cut its migration over first, or abort it`)
	require.False(t, s.source.dropped)

	require.NoError(t, m.Abort(s.ctx))
	_, err = s.m.Drop(s.ctx, false, nil)
	require.NoError(t, err)
	require.True(t, s.source.dropped)
}
