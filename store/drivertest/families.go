package drivertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var familyChecks = []check{
	{"a family is created once and found again", onOrdered, checkFamily},
	{"another layout is refused", onBoth, checkLayout},
	{"a family that is to exist is not created", onOrdered, checkExisting},
	{"an invalid specification is refused", onOrdered, checkSpec},
	{"Families are in ascending order", onBoth, checkFamilies},
	{"Drop removes a family with all that it holds", onOrdered, checkDrop},
}

func checkFamily(tb testing.TB, s *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "v")))
	again, err := s.db.Family(background, s.specs["ordered"])
	require.NoError(tb, err)
	is(tb, again, p+"a", "q=v")
	apply(tb, again, row(p+"a", put("q", "w")))
	is(tb, f, p+"a", "q=w")
	is(tb, s.wide(tb), p+"a") // families do not see each other's rows
}

func checkLayout(tb testing.TB, s *suite, _ driver.Family, _ string) {
	ordered, wide := s.specs["ordered"].Name, s.specs["wide"].Name
	for _, other := range []driver.FamilySpec{
		{Name: ordered, Layout: driver.LayoutWide},
		{Name: ordered, Layout: driver.LayoutOrdered, PrefixBytes: 2},
		{Name: ordered, Layout: driver.LayoutOrdered, SpreadBits: 2},
		{Name: wide, Layout: driver.LayoutOrdered},
	} {
		_, err := s.db.Family(background, other)
		require.ErrorIs(tb, err, driver.ErrLayout, "%+v", other)
	}
}

func checkExisting(tb testing.TB, s *suite, f driver.Family, p string) {
	never := driver.FamilySpec{Name: s.name + "_existing", Layout: driver.LayoutWide, Existing: true}
	_, err := s.db.Family(background, never)
	require.ErrorIs(tb, err, driver.ErrNoFamily)
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	require.NotContains(tb, names, never.Name)

	apply(tb, f, row(p+"a", put("q", "v")))
	spec := s.specs["ordered"]
	spec.Existing = true
	again, err := s.db.Family(background, spec)
	require.NoError(tb, err)
	is(tb, again, p+"a", "q=v")
	other := spec
	other.SpreadBits = 2
	_, err = s.db.Family(background, other)
	require.ErrorIs(tb, err, driver.ErrLayout)

	db, ok := s.db.(driver.Snapshotter)
	if !ok {
		return
	}
	snap, err := db.Snapshot()
	require.NoError(tb, err)
	defer func() { require.NoError(tb, snap.Close()) }()
	_, err = snap.Family(background, never)
	require.ErrorIs(tb, err, driver.ErrNoFamily)
	again, err = snap.Family(background, spec)
	require.NoError(tb, err)
	is(tb, again, p+"a", "q=v")
}

func checkSpec(tb testing.TB, s *suite, _ driver.Family, _ string) {
	for _, spec := range []driver.FamilySpec{
		{Name: "x"},
		{Name: "", Layout: driver.LayoutWide},
		{Name: "1x", Layout: driver.LayoutWide},
		{Name: "X", Layout: driver.LayoutWide},
		{Name: "x-y", Layout: driver.LayoutWide},
		{Name: "x'; drop", Layout: driver.LayoutWide},
		{Name: strings.Repeat("x", 41), Layout: driver.LayoutWide},
		{Name: "x", Layout: driver.LayoutWide, PrefixBytes: 1},
		{Name: "x", Layout: driver.LayoutWide, SpreadBits: 1},
		{Name: "x", Layout: driver.LayoutOrdered, PrefixBytes: -1},
		{Name: "x", Layout: driver.LayoutOrdered, SpreadBits: 17},
		{Name: "x", Layout: 3},
	} {
		_, err := s.db.Family(background, spec)
		require.ErrorIs(tb, err, driver.ErrRange, "%+v", spec)
	}
}

func checkFamilies(tb testing.TB, s *suite, _ driver.Family, _ string) {
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	require.True(tb, slices.IsSorted(names), "%q", names)
	require.Equal(tb, names, slices.Compact(slices.Clone(names)), "a name twice")
	require.Contains(tb, names, s.specs["wide"].Name)
	require.Contains(tb, names, s.specs["ordered"].Name)
}

func checkDrop(tb testing.TB, s *suite, _ driver.Family, _ string) {
	require.NoError(tb, s.db.Drop(background, s.name+"_never"), "a family that does not exist is no error")
	require.NoError(tb, s.db.Drop(background, "No family's name"), "nor is one that cannot exist")

	// A name of the full length.
	spec := driver.FamilySpec{Name: (s.name + "_" + strings.Repeat("z9_", 20))[:40], Layout: driver.LayoutOrdered}
	tb.Cleanup(func() { require.NoError(tb, s.db.Drop(background, spec.Name)) })
	f, err := s.db.Family(background, spec)
	require.NoError(tb, err)
	apply(tb, f, row("a", put("q", "v")))
	stamped := seen(tb, f, "a", "q")
	require.NoError(tb, s.db.Drop(background, spec.Name))
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	require.NotContains(tb, names, spec.Name)

	fails := func(method string, err error) {
		require.Error(tb, err, "%s of a dropped family", method)
		require.True(tb, s.o.Own == nil || s.o.Own(err), "%s: the error does not wrap that of the database's client: %v", method, err)
	}
	_, err = f.Get(background, b("a"), driver.Slice{})
	fails("Get", err)
	_, err = f.GetBatch(background, bs("a", "b"), driver.Slice{})
	fails("GetBatch", err)
	fails("Scan", scanError(tb, f, background, driver.Range{}))
	changes(tb, f, background, "a", stamped, fails)

	// The name can be used again, with another layout, and nothing comes back.
	spec.Layout = driver.LayoutWide
	f, err = s.db.Family(background, spec)
	require.NoError(tb, err)
	require.Empty(tb, scan(tb, f, driver.Range{AnyOrder: true}))
}
