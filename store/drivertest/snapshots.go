package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var snapshotChecks = []check{
	{"a snapshot is of one instant", onOrdered, checkSnapshot},
	{"a random history agrees with a model", onBoth, checkModel},
}

func checkSnapshot(tb testing.TB, s *suite, f driver.Family, p string) {
	db, ok := s.db.(driver.Snapshotter)
	if !ok {
		tb.Skip("no Snapshotter")
	}
	g := s.wide(tb)
	apply(tb, f, row(p+"a", put("q", "1")), row(p+"b", put("q", "1")))
	apply(tb, g, row(p+"w", put("q", "1")))
	dropped := driver.FamilySpec{Name: s.name + "_snap", Layout: driver.LayoutOrdered}
	h, err := db.Family(background, dropped)
	require.NoError(tb, err)
	apply(tb, h, row("a", put("q", "1")))

	snap, err := db.Snapshot()
	require.NoError(tb, err)
	defer func() { require.NoError(tb, snap.Close()) }()
	apply(tb, f, row(p+"a", put("q", "2")), deleteRow(p+"b"), row(p+"c", put("q", "2")))
	apply(tb, g, row(p+"w", put("q", "2")))
	require.NoError(tb, db.Drop(background, dropped.Name))

	view := func(spec driver.FamilySpec) driver.Family {
		tb.Helper()
		v, err := snap.Family(background, spec)
		require.NoError(tb, err)
		return v
	}
	vf := view(s.specs["ordered"])
	require.Equal(tb, []string{p + "a", p + "b"}, keys(scan(tb, vf, within(p))))
	is(tb, vf, p+"a", "q=1")
	agrees(tb, vf, []string{p + "c", p + "b", p + "a"}, driver.Slice{})
	require.Equal(tb, []string{"q=1"}, show(readBatch(tb, vf, []string{p + "b"}, driver.Slice{})[0]))
	is(tb, view(s.specs["wide"]), p+"w", "q=1")
	is(tb, view(dropped), "a", "q=1")
	require.Equal(tb, []string{p + "a", p + "c"}, keys(scan(tb, f, within(p))))

	changes(tb, vf, background, p+"a", seen(tb, vf, p+"a", "q"), func(method string, err error) {
		require.ErrorIs(tb, err, driver.ErrReadOnly, method)
	})
	require.Equal(tb, []string{p + "a", p + "c"}, keys(scan(tb, f, within(p))))

	other := s.specs["ordered"]
	other.SpreadBits = 3
	_, err = snap.Family(background, other)
	require.ErrorIs(tb, err, driver.ErrLayout)
	late := driver.FamilySpec{Name: s.name + "_late", Layout: driver.LayoutOrdered}
	_, err = db.Family(background, late)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, db.Drop(background, late.Name)) }()
	_, err = snap.Family(background, late)
	require.ErrorIs(tb, err, driver.ErrNoFamily)
}

// checkReopen is not in the list, since it replaces the database.
func (s *suite) checkReopen(tb testing.TB) {
	f, g := s.ordered(tb), s.wide(tb)
	p := s.prefix()
	all := manyRows(tb, f, p, 500)
	require.True(tb, checkAndPut(tb, g, p+"w", absent("q"), put("q", "1")))
	apply(tb, f, deleteRow(all[0]))
	before, err := s.db.Families(background)
	require.NoError(tb, err)

	s.db = s.o.Reopen(tb, s.db)
	clear(s.families)
	after, err := s.db.Families(background)
	require.NoError(tb, err)
	for _, spec := range s.specs {
		require.Contains(tb, before, spec.Name)
		require.Contains(tb, after, spec.Name)
	}
	f, err = s.db.Family(background, s.specs["ordered"])
	require.NoError(tb, err)
	require.Equal(tb, all[1:], keys(scan(tb, f, within(p))))
	g, err = s.db.Family(background, s.specs["wide"])
	require.NoError(tb, err)
	is(tb, g, p+"w", "q=1")
	other := s.specs["ordered"]
	other.PrefixBytes = 1
	_, err = s.db.Family(background, other)
	require.ErrorIs(tb, err, driver.ErrLayout)
}
