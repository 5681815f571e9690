package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// oneCell is a database that can check one cell only, as HBase.
type oneCell struct{ driver.DB }

func (d oneCell) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := d.DB.Family(ctx, spec)
	return struct{ driver.Family }{f}, err
}

// guarding is a database that can check one cell, and with a part of it that others are free, as HBase. A guard holds there only
// while nothing changes at all.
type guarding struct{ driver.DB }

type guardingFamily struct {
	driver.Family
	committer driver.Committer
}

func (d guarding) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := d.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return guardingFamily{f, f.(driver.Committer)}, nil
}

func (f guardingFamily) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	cells, err := f.Get(ctx, row, driver.Slice{Only: append([][]byte{MetaQualifier}, guard.Free...)})
	if err != nil || len(cells) == 0 || !bytes.HasPrefix(cells[0].Value, guard.Prefix) {
		return false, err
	}
	expect := cells
	for _, q := range guard.Free {
		i := slices.IndexFunc(cells, func(c driver.Cell) bool { return bytes.Equal(c.Qualifier, q) })
		switch {
		case i < 0:
			expect = append(expect, driver.Cell{Qualifier: q})
		case !bytes.Equal(cells[i].Value, guard.Gone):
			return false, nil
		}
	}
	return f.committer.Commit(ctx, row, expect, puts, nil)
}

func openTestIndex(tb testing.TB, db driver.DB) ope.Index {
	tb.Helper()
	ix, err := Open(tb.Context(), db, "test")
	require.NoError(tb, err)
	return ix
}

func TestIndex(t *testing.T) {
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		opetest.TestIndex(t, func(tb testing.TB) ope.Index { return openTestIndex(tb, db) })
	})
	for _, kind := range testdb.All[:2] {
		t.Run(kind.Name+" checking one cell", func(t *testing.T) {
			db := oneCell{kind.Open(t, nil)}
			opetest.TestIndex(t, func(tb testing.TB) ope.Index { return openTestIndex(tb, db) })
		})
		t.Run(kind.Name+" with guards", func(t *testing.T) {
			db := guarding{kind.Open(t, nil)}
			opetest.TestIndex(t, func(tb testing.TB) ope.Index { return openTestIndex(tb, db) })
		})
	}
}

// forms runs a test on both forms of an index.
func forms(t *testing.T, test func(t *testing.T, form func(driver.DB) driver.DB)) {
	t.Run("several cells", func(t *testing.T) { test(t, func(db driver.DB) driver.DB { return db }) })
	t.Run("one cell", func(t *testing.T) { test(t, func(db driver.DB) driver.DB { return oneCell{db} }) })
	t.Run("guards", func(t *testing.T) { test(t, func(db driver.DB) driver.DB { return guarding{db} }) })
}

func records(n, length int) (rs []ope.Record) {
	for i := range n {
		rs = append(rs, ope.Record{Key: fmt.Appendf(nil, "%0*d", length, i), Value: []byte("value")})
	}
	return rs
}

var openMeta = ope.Meta{State: ope.StateOpen, Generation: 1, Nonce: ope.Nonce{1}}

func mustCommit(tb testing.TB, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) {
	tb.Helper()
	applied, err := ix.Commit(tb.Context(), u, cond, change)
	require.NoError(tb, err)
	require.True(tb, applied)
}

func TestIndexStays(t *testing.T) {
	forms(t, func(t *testing.T, form func(driver.DB) driver.DB) {
		dir := t.TempDir()
		db, err := pebble.Open(dir, nil)
		require.NoError(t, err)
		change := ope.Change{Puts: records(1000, 8), Meta: openMeta}
		mustCommit(t, openTestIndex(t, form(db)), "unit", ope.Condition{}, change)
		require.NoError(t, db.Close())
		db, err = pebble.Open(dir, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		view, err := openTestIndex(t, form(db)).Read(t.Context(), "unit", nil, nil, 0)
		require.NoError(t, err)
		require.Equal(t, ope.View{Meta: openMeta, Records: change.Puts}, view)
	})
}

// TestIndexRequests counts what the database is asked for.
func TestIndexRequests(t *testing.T) {
	forms(t, func(t *testing.T, form func(driver.DB) driver.DB) {
		var ops []drivertest.Op
		ix := openTestIndex(t, form(drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
			ops = append(ops, op)
			return drivertest.NoFault
		})))
		count := func() (reads, changes int) {
			for _, op := range ops {
				if op.Reads() {
					reads++
				} else {
					changes++
				}
			}
			ops = nil
			return reads, changes
		}
		count()
		is := func(wantReads, wantChanges int) {
			t.Helper()
			reads, changes := count()
			require.Equal(t, []int{wantReads, wantChanges}, []int{reads, changes})
		}
		readsOfCommit := 1
		if form(nil) == nil {
			readsOfCommit = 0
		}
		mustCommit(t, ix, "unit", ope.Condition{}, ope.Change{Puts: records(300, 4), Meta: openMeta})
		is(readsOfCommit, 1)
		for _, limit := range []int{0, 1, 299, 300} {
			view, err := ix.Read(t.Context(), "unit", nil, nil, limit)
			require.NoError(t, err)
			require.Equal(t, limit > 0 && limit < 300, view.More)
			is(1, 0)
		}
		mustCommit(t, ix, "unit",
			ope.Condition{State: openMeta.State, Generation: 1, Nonce: &openMeta.Nonce, Absent: [][]byte{[]byte("x"), []byte("y")}},
			ope.Change{Puts: []ope.Record{{Key: []byte("x")}}, Deletes: [][]byte{[]byte("0001")}, Meta: openMeta})
		is(readsOfCommit, 1)
	})
}

// TestIndexUnknownOutcome loses the answer of each commit in turn, or the commit itself. It must be
// told as what it is, and nothing be sent again.
func TestIndexUnknownOutcome(t *testing.T) {
	forms(t, func(t *testing.T, form func(driver.DB) driver.DB) {
		for _, fault := range []drivertest.Fault{drivertest.Lose, drivertest.FailAfter, drivertest.FailBefore} {
			conditional, next := 0, drivertest.NoFault
			ix := openTestIndex(t, form(drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
				if !op.Conditional() {
					return drivertest.NoFault
				}
				conditional++
				return next
			})))
			mustCommit(t, ix, "unit", ope.Condition{}, ope.Change{Meta: openMeta})
			next, conditional = fault, 0
			nonce := ope.Nonce{9}
			applied, err := ix.Commit(t.Context(), "unit", ope.Condition{State: openMeta.State, Generation: 1},
				ope.Change{Puts: records(2, 4), Meta: ope.Meta{State: ope.StateOpen, Generation: 1, Nonce: nonce}})
			require.False(t, applied)
			require.ErrorIs(t, err, drivertest.ErrInjected)
			require.Equal(t, fault != drivertest.FailBefore, errors.Is(err, ope.ErrUnknownOutcome))
			require.True(t, errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknownOutcome), "it may be tried again")
			require.Equal(t, 1, conditional)
			next = drivertest.NoFault
			view, err := ix.Read(t.Context(), "unit", nil, nil, 0)
			require.NoError(t, err)
			require.Equal(t, fault == drivertest.FailAfter, view.Meta.Nonce == nonce)
			require.Len(t, view.Records, map[bool]int{true: 2}[fault == drivertest.FailAfter])
		}
	})
}

// TestIndexLateCommit lets a commit of unknown outcome arrive after another one that was
// acknowledged. Where the whole unit is compared, it must fail even if the meta is the same again.
func TestIndexLateCommit(t *testing.T) {
	next := drivertest.NoFault
	db := drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
		if !op.Conditional() {
			return drivertest.NoFault
		}
		return next
	})
	ix := openTestIndex(t, oneCell{db})
	mustCommit(t, ix, "unit", ope.Condition{}, ope.Change{Meta: openMeta})
	cond := ope.Condition{State: openMeta.State, Generation: 1, Nonce: &openMeta.Nonce}
	next = drivertest.FailLate
	_, err := ix.Commit(t.Context(), "unit", cond, ope.Change{Puts: records(1, 4), Meta: openMeta})
	require.ErrorIs(t, err, ope.ErrUnknownOutcome)
	next = drivertest.NoFault
	mustCommit(t, ix, "unit", cond, ope.Change{Meta: openMeta})
	for range 5 { // it arrives meanwhile
		view, err := ix.Read(t.Context(), "unit", nil, nil, 0)
		require.NoError(t, err)
		require.Empty(t, view.Records)
	}
}

// afterGet is a database that does something after each Get.
type afterGet struct {
	driver.DB
	do func()
}

func (d afterGet) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := d.DB.Family(ctx, spec)
	return afterGetFamily{f, d.do}, err
}

type afterGetFamily struct {
	driver.Family
	do func()
}

func (f afterGetFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	defer f.do()
	return f.Family.Get(ctx, row, s)
}

// TestIndexConflicts has commits to the same unit come between the two requests of a commit. The
// condition still holds, so they must not make it fail.
func TestIndexConflicts(t *testing.T) {
	memory := drivertest.NewMemory()
	rival := openTestIndex(t, oneCell{memory})
	var between func()
	// The first request of a commit is a read.
	ix := openTestIndex(t, oneCell{afterGet{memory, func() {
		if do := between; do != nil {
			between = nil
			do()
		}
	}}})
	mustCommit(t, rival, "unit", ope.Condition{}, ope.Change{Meta: openMeta})
	cond := ope.Condition{State: openMeta.State, Generation: 1}
	for i := range 5 {
		between = func() {
			mustCommit(t, rival, "unit", cond, ope.Change{Puts: []ope.Record{{Key: []byte{'r', byte(i)}}}, Meta: openMeta})
		}
		own := cond
		own.Absent = [][]byte{{'o', byte(i)}}
		mustCommit(t, ix, "unit", own, ope.Change{Puts: []ope.Record{{Key: []byte{'o', byte(i)}}}, Meta: openMeta})
		require.Nil(t, between)
		// A rival that takes the key does make it fail.
		own.Absent = [][]byte{{'x', byte(i)}}
		between = func() {
			mustCommit(t, rival, "unit", cond, ope.Change{Puts: []ope.Record{{Key: []byte{'x', byte(i)}}}, Meta: openMeta})
		}
		applied, err := ix.Commit(t.Context(), "unit", own, ope.Change{Meta: openMeta})
		require.NoError(t, err)
		require.False(t, applied)
	}
	view, err := ix.Read(t.Context(), "unit", nil, nil, 0)
	require.NoError(t, err)
	require.Len(t, view.Records, 15)
}

// TestIndexDeletedRecords reads with limits where far more records were deleted than are wanted.
func TestIndexDeletedRecords(t *testing.T) {
	forms(t, func(t *testing.T, form func(driver.DB) driver.DB) {
		ix := openTestIndex(t, form(drivertest.NewMemory()))
		rs := records(2000, 4)
		mustCommit(t, ix, "unit", ope.Condition{}, ope.Change{Puts: rs, Meta: openMeta})
		var kept []ope.Record
		var deleted [][]byte
		for i, r := range rs {
			if i%500 == 499 {
				kept = append(kept, r)
			} else {
				deleted = append(deleted, r.Key)
			}
		}
		cond := ope.Condition{State: openMeta.State, Generation: 1}
		mustCommit(t, ix, "unit", cond, ope.Change{Deletes: deleted, Meta: openMeta})
		for limit := range 6 {
			view, err := ix.Read(t.Context(), "unit", nil, nil, limit)
			require.NoError(t, err)
			want := kept
			if limit > 0 {
				want = kept[:min(limit, len(kept))]
			}
			require.Equal(t, want, view.Records)
			require.Equal(t, len(want) < len(kept), view.More)
		}
		cond.Absent = deleted[:3]
		mustCommit(t, ix, "unit", cond, ope.Change{Meta: openMeta})
	})
}

func TestIndexRefusals(t *testing.T) {
	forms(t, func(t *testing.T, form func(driver.DB) driver.DB) {
		ctx := t.Context()
		memory := drivertest.NewMemory()
		ix := openTestIndex(t, form(memory))
		long := ope.Unit(bytes.Repeat([]byte{'u'}, 65))
		_, err := ix.Read(ctx, long, nil, nil, 0)
		require.ErrorContains(t, err, "65 bytes")
		_, err = ix.Commit(ctx, long, ope.Condition{}, ope.Change{})
		require.ErrorContains(t, err, "65 bytes")
		_, err = ix.Read(ctx, "unit", nil, nil, -1)
		require.ErrorContains(t, err, "limit")
		r := ope.Record{Key: []byte("SECRET"), Value: []byte("SECRET")}
		_, err = ix.Commit(ctx, "unit", ope.Condition{}, ope.Change{Puts: []ope.Record{r, r}})
		require.ErrorContains(t, err, "twice")
		require.NotContains(t, err.Error(), "SECRET")
		for _, name := range []string{"no-name", "", strings.Repeat("n", MaxName+1)} {
			_, err = Open(ctx, form(memory), name)
			require.ErrorIs(t, err, driver.ErrRange)
			require.True(t, strings.HasPrefix(err.Error(), "index: "), err)
			require.ErrorContains(t, err, fmt.Sprintf("its name is %q, need 1 to %d characters", name, MaxName))
		}
		_, err = Open(ctx, form(memory), string(bytes.Repeat([]byte{'n'}, MaxName)))
		require.NoError(t, err)
		_, err = Open(ctx, form(memory), string(bytes.Repeat([]byte{'n'}, MaxName+1)))
		require.ErrorIs(t, err, driver.ErrRange)

		// What was written in another form, by a later version, or was damaged.
		family, err := memory.Family(ctx, driver.FamilySpec{Name: "index_test", Layout: driver.LayoutWide})
		require.NoError(t, err)
		cells := headCells(openMeta)
		sound := cells[:]
		if ix.(*index).committer == nil {
			sound = []driver.Cell{versionCell(openMeta)}
		}
		other := bytes.Clone(sound[0].Value)
		other[0] = 3 - other[0]
		later := bytes.Clone(sound[0].Value)
		later[0] = 3
		record := func(value string) driver.Cell {
			return driver.Cell{Qualifier: []byte{recordCell, 'k'}, Value: []byte(value)}
		}
		for i, c := range []struct {
			cells []driver.Cell
			want  error
		}{
			{append(slices.Clone(sound), record("\x01")), nil},
			{[]driver.Cell{{Value: other}}, fault.ErrFormat},
			{[]driver.Cell{{Value: later}}, fault.ErrFormat},
			{[]driver.Cell{{Value: sound[0].Value[:9]}}, fault.ErrTampered},
			{[]driver.Cell{{Value: []byte{}}}, fault.ErrTampered},
			{append(slices.Clone(sound[:1]), driver.Cell{Qualifier: NonceQualifier, Value: make([]byte, 15)}), fault.ErrTampered},
			{append(slices.Clone(sound), record("")), fault.ErrTampered},
			{append(slices.Clone(sound), record("\x00\x00")), fault.ErrTampered},
			{append(slices.Clone(sound), record("\x02v")), fault.ErrTampered},
		} {
			unit := ope.Unit(fmt.Sprint(i))
			require.NoError(t, family.Apply(ctx, driver.Mutation{Row: append([]byte{'u'}, unit...), Puts: c.cells}))
			_, err := ix.Read(ctx, unit, nil, nil, 0)
			if c.want == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, c.want, i)
			}
		}
	})
}

// TestIndexInserts has many clients insert different keys at once. Where the parts of a condition
// are checked apart, none of them may fail.
func TestIndexInserts(t *testing.T) {
	forms(t, func(t *testing.T, form func(driver.DB) driver.DB) {
		db := form(drivertest.NewMemory())
		ix := openTestIndex(t, db)
		mustCommit(t, ix, "unit", ope.Condition{}, ope.Change{Meta: openMeta})
		const clients, each = 8, 40
		var wg sync.WaitGroup
		failures := make(chan error, clients*each)
		for c := range clients {
			wg.Go(func() {
				for i := range each {
					key := fmt.Appendf(nil, "%d/%d", c, i)
					meta := openMeta
					meta.Nonce = ope.Nonce{byte(c), byte(i)}
					applied, err := ix.Commit(context.Background(), "unit",
						ope.Condition{State: meta.State, Generation: 1, Absent: [][]byte{key}},
						ope.Change{Puts: []ope.Record{{Key: key, Value: key}}, Meta: meta})
					if err == nil && !applied {
						err = fmt.Errorf("client %d: insert %d was refused", c, i)
					}
					if err != nil {
						failures <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(failures)
		require.NoError(t, <-failures)
		view, err := ix.Read(t.Context(), "unit", nil, nil, 0)
		require.NoError(t, err)
		require.Len(t, view.Records, clients*each)
	})
}

// undecidedDB is a database whose reads may show what is not decided. It keeps what it was asked to decide.
type undecidedDB struct {
	driver.DB
	decided *[]string
}

type undecidedFamily struct {
	driver.Committer
	decided *[]string
}

func (undecidedDB) Describe() driver.Description { return driver.Description{Undecided: true} }

func (d undecidedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := d.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return undecidedFamily{f.(driver.Committer), d.decided}, nil
}

func (f undecidedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if s.Decided {
		*f.decided = append(*f.decided, string(row))
	}
	return f.Committer.Get(ctx, row, s)
}

func TestDecide(t *testing.T) {
	ctx := t.Context()
	plain, err := Open(ctx, drivertest.NewMemory(), "plain")
	require.NoError(t, err)
	_, decides := plain.(ope.Decider)
	require.False(t, decides, "it shows only what is decided")

	var decided []string
	x, err := Open(ctx, undecidedDB{drivertest.NewMemory(), &decided}, "undecided")
	require.NoError(t, err)
	_, err = x.Read(ctx, "unit", nil, nil, 1)
	require.NoError(t, err)
	require.Empty(t, decided)
	require.NoError(t, x.(ope.Decider).Decide(ctx, "unit"))
	require.Equal(t, []string{"uunit"}, decided)
	require.Error(t, x.(ope.Decider).Decide(ctx, ope.Unit(strings.Repeat("u", 65))))
}
