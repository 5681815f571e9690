package drivertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// fates gives the calls their fates in turn.
func fates(fs ...Fault) func(Op) Fault {
	return func(op Op) Fault {
		if op.N > len(fs) {
			return NoFault
		}
		return fs[op.N-1]
	}
}

func faultyFamily(t *testing.T, decide func(Op) Fault) (plain, faulty driver.Committer, db driver.DB) {
	t.Helper()
	mem := NewMemory()
	spec := driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}
	p, err := mem.Family(background, spec)
	require.NoError(t, err)
	db = NewFaulty(mem, decide)
	f, err := db.Family(background, spec) // call 1
	require.NoError(t, err)
	return p.(driver.Committer), f.(driver.Committer), db
}

func TestFaults(t *testing.T) {
	puts := []driver.Mutation{row("a", put("q", "1")), row("b", put("q", "1")), row("c", put("q", "1"))}
	for _, c := range []struct {
		fault       Fault
		applied     []string // after Apply of puts
		kind        error    // of Apply
		conditional error
		done        bool // the conditional one
	}{
		{NoFault, []string{"a", "b", "c"}, nil, nil, true},
		{FailBefore, []string{}, driver.ErrUnavailable, driver.ErrUnavailable, false},
		{Lose, []string{}, driver.ErrUnavailable, driver.ErrUnknownOutcome, false},
		{FailPartly, []string{"a", "c"}, driver.ErrUnavailable, driver.ErrUnknownOutcome, true},
		{FailAfter, []string{"a", "b", "c"}, driver.ErrUnavailable, driver.ErrUnknownOutcome, true},
		{CrashBefore, []string{}, driver.ErrUnavailable, driver.ErrUnknownOutcome, false},
		{CrashAfter, []string{"a", "b", "c"}, driver.ErrUnavailable, driver.ErrUnknownOutcome, true},
	} {
		t.Run(fmt.Sprint(c.fault), func(t *testing.T) {
			check := func(err, kind error) {
				t.Helper()
				if kind == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, kind)
				require.ErrorIs(t, err, ErrInjected)
			}
			plain, f, _ := faultyFamily(t, fates(NoFault, c.fault))
			check(f.Apply(background, puts...), c.kind)
			require.Equal(t, c.applied, keys(scan(t, plain, driver.Range{})))

			plain, f, _ = faultyFamily(t, fates(NoFault, c.fault))
			apply(t, plain, puts...)
			var rs []driver.Replacement
			for _, m := range puts {
				rs = append(rs, driver.Replacement{Row: m.Row, Seen: seen(t, plain, string(m.Row), "q"), Puts: []driver.Cell{put("q", "2")}})
			}
			_, err := f.Replace(background, rs...)
			check(err, c.kind)
			replaced := []string{}
			for _, r := range scan(t, plain, driver.Range{}) {
				if string(r.Cells[0].Value) == "2" {
					replaced = append(replaced, string(r.Key))
				}
			}
			require.Equal(t, c.applied, replaced)

			for _, commit := range []bool{false, true} {
				plain, f, _ := faultyFamily(t, fates(NoFault, c.fault))
				var ok bool
				var err error
				if commit {
					ok, err = f.Commit(background, b("r"), []driver.Cell{absent("q")}, []driver.Cell{put("q", "1")}, nil)
				} else {
					ok, err = f.CheckAndPut(background, b("r"), absent("q"), put("q", "1"))
				}
				check(err, c.conditional)
				require.Equal(t, c.fault == NoFault, ok)
				require.Equal(t, c.done, len(get(t, plain, "r", driver.Slice{})) == 1)
			}

			_, f, db := faultyFamily(t, fates(NoFault, NoFault, c.fault, c.fault))
			require.NoError(t, f.Apply(background, puts...))
			_, err = f.Get(background, b("a"), driver.Slice{})
			check(err, c.kind)
			n := 0
			for _, err = range f.Scan(background, driver.Range{}) {
				n++
			}
			check(err, c.kind)
			if c.fault == FailPartly {
				require.Equal(t, 3, n, "two rows and the error")
			}
			err = f.Apply(background, puts...)
			if c.fault == CrashBefore || c.fault == CrashAfter {
				check(err, driver.ErrUnavailable)
				_, err := db.Families(background)
				check(err, driver.ErrUnavailable)
				check(db.Drop(background, "f"), driver.ErrUnavailable)
				_, err = db.(driver.Snapshotter).Snapshot()
				check(err, driver.ErrUnavailable)
			} else {
				require.NoError(t, err)
			}
			require.NoError(t, db.Close())
		})
	}
}

// A call whose outcome is unknown may still be made later, with what was passed at the time.
func TestFailLate(t *testing.T) {
	plain, f, db := faultyFamily(t, fates(NoFault, FailLate, FailLate, NoFault, NoFault, NoFault, FailLate))
	key := b("r")
	_, err := f.CheckAndPut(background, key, absent("q"), put("q", "late")) // call 2
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	key[0] = 'X'
	require.ErrorIs(t, f.Apply(background, row("s", put("q", "late"))), ErrInjected) // 3
	require.Empty(t, get(t, plain, "r", driver.Slice{}))
	require.Empty(t, get(t, f, "r", driver.Slice{}))                     // 4
	require.Equal(t, []string{"q=late"}, get(t, f, "r", driver.Slice{})) // 5, before which call 2 is made
	require.Equal(t, []string{"q=late"}, get(t, f, "s", driver.Slice{})) // 6
	_, err = f.Commit(background, b("t"), nil, []driver.Cell{put("q", "late")}, nil)
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	require.Empty(t, get(t, plain, "t", driver.Slice{}))
	snap, err := db.(driver.Snapshotter).Snapshot()
	require.NoError(t, err)
	require.NoError(t, snap.Close())
	require.NoError(t, db.Close())

	plain, f, db = faultyFamily(t, fates(NoFault, FailLate))
	apply(t, plain, row("r", put("q", "1")))
	key = b("r")
	_, err = f.Replace(background, driver.Replacement{Row: key, Seen: seen(t, plain, "r", "q"), Puts: []driver.Cell{put("q", "late")}})
	require.ErrorIs(t, err, ErrInjected)
	key[0] = 'X'
	for i := range 3 {
		require.Equal(t, []string{"q=1"}, get(t, plain, "r", driver.Slice{}), i)
		_, err := f.Get(background, b("r"), driver.Slice{})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"q=late"}, get(t, plain, "r", driver.Slice{}))
	require.NoError(t, db.Close())
}

func TestCrashAtEveryCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 2; n <= 12; n++ {
			plain, f, _ := faultyFamily(t, CrashAt(n, after))
			acknowledged := 0
			for i := range 10 {
				if f.Apply(background, row(fmt.Sprint(i), put("q", "v"))) == nil {
					require.Equal(t, i, acknowledged, "acknowledged after the crash")
					acknowledged++
				}
			}
			require.Equal(t, min(10, n-2), acknowledged)
			want := acknowledged
			if after && n < 12 {
				want++
			}
			require.Len(t, scan(t, plain, driver.Range{}), want)
		}
	}
}

func TestRandomlyIsRepeatable(t *testing.T) {
	seen := make(map[Fault]int)
	a, b, other := Randomly(7, 0.5), Randomly(7, 0.5), Randomly(8, 0.5)
	differ := 0
	for range 1000 {
		x := a(Op{})
		require.Equal(t, x, b(Op{}))
		seen[x]++
		if other(Op{}) != x {
			differ++
		}
	}
	require.Greater(t, differ, 100)
	require.InDelta(t, 500, seen[NoFault], 100)
	for f := FailBefore; f <= FailLate; f++ {
		require.InDelta(t, 100, seen[f], 60, "fault %d", f)
	}
	require.Zero(t, seen[CrashBefore]+seen[CrashAfter])
	for range 100 {
		require.Equal(t, NoFault, Randomly(1, 0)(Op{}))
		require.NotEqual(t, NoFault, Randomly(1, 1)(Op{}))
	}
}

// Without faults the wrappers are drivers like others, optional interfaces included.
func TestWrappersKeepTheContract(t *testing.T) {
	t.Run("faulty", func(t *testing.T) {
		TestDriver(t, func(testing.TB) driver.DB {
			return NewFaulty(NewMemory(), func(Op) Fault { return NoFault })
		}, nil)
	})
}
