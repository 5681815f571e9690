package drivertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var eachChecks = []check{
	{"a scan of several ranges yields what a scan of each does", onEdges, checkEach},
	{"very many ranges are scanned at once", onLayouts, checkManyRanges},
	{"ranges with many rows are scanned at once", onLayouts, checkLargeRanges},
	{"a scan of several ranges sees every row that stays", onOrdered, checkEachWhileWriting},
	{"invalid ranges of one scan are refused", onBatches, checkInvalidEach},
}

func onBatches(tb testing.TB, s *suite) []driver.Family {
	return []driver.Family{s.family(tb, "batches")}
}

// rangedEach returns the keys, which ascend, that a scan of several ranges should have.
func rangedEach(all []string, r driver.Range) []string {
	out := []string{}
	each := slices.Clone(r.Each)
	if r.Reverse {
		slices.Reverse(each)
	}
	for _, b := range each {
		out = append(out, ranged(all, driver.Range{Start: b.Start, End: b.End, Reverse: r.Reverse, Limit: r.Limit})...)
	}
	return out
}

func checkEach(tb testing.TB, _ *suite, f driver.Family, _ string) {
	rng := random(tb)
	points := append(slices.Clone(edges), "\x00\x00\x00", "ac", "\xff\xff\xff\x00")
	slices.Sort(points)
	for range 60 {
		r := driver.Range{Reverse: rng.IntN(2) == 0, Limit: rng.IntN(2) * rng.IntN(4)}
		for at := rng.IntN(10); at+1 < len(points); {
			end := min(len(points)-1, at+1+rng.IntN(1+rng.IntN(12)))
			r.Each = append(r.Each, driver.Bounds{Start: b(points[at]), End: b(points[end])})
			if at = end; rng.IntN(2) == 0 { // otherwise the next one is adjacent
				at += 1 + rng.IntN(4)
			}
		}
		if rng.IntN(4) == 0 {
			r.Each[len(r.Each)-1].End = nil
		}
		if rng.IntN(8) == 0 {
			r.Each = []driver.Bounds{{}}
		}
		require.Equal(tb, rangedEach(edges[1:], r), keys(scan(tb, f, r)), "%+v", r)
	}
	require.Empty(tb, scan(tb, f, driver.Range{Each: []driver.Bounds{{Start: b("a\x00\x02"), End: b("a\x00\x03")}}}))
	require.Empty(tb, scan(tb, f, driver.Range{Each: []driver.Bounds{{}}, Cells: driver.Slice{Only: bs("none")}}))
}

// inGroups writes the rows 0 to n-1 of groups, and returns their keys and the bounds of the groups. They lie in several
// partitions where there are any.
func inGroups(tb testing.TB, s *suite, f driver.Family, p string, sizes []int) (all []string, groups []driver.Bounds) {
	tb.Helper()
	var ms []driver.Mutation
	for g, n := range sizes {
		prefix := fmt.Sprintf("%s%05d/", p, g)
		if f != s.ordered(tb) {
			prefix = fmt.Sprintf("%c%c%s%05d/", 'A'+g*9/len(sizes), g*256*9/len(sizes)%256, p, g)
		}
		groups = append(groups, driver.Bounds{Start: within(prefix).Start, End: within(prefix).End})
		for i := range n {
			key := fmt.Sprintf("%s%05d", prefix, i)
			all, ms = append(all, key), append(ms, row(key, put("k", key), put("v", "of "+key), put("w", "")))
		}
	}
	apply(tb, f, ms...)
	return all, groups
}

func checkManyRanges(tb testing.TB, s *suite, f driver.Family, p string) {
	rng := random(tb)
	sizes := make([]int, 2*driver.MaxBatch)
	for i := range sizes {
		sizes[i] = rng.IntN(4)
	}
	all, groups := inGroups(tb, s, f, p, sizes)
	for i, n := range []int{driver.MaxBatch, 1, 2, 64, 300} {
		r := driver.Range{Reverse: i%2 == 1, Limit: []int{0, 0, 2, 1}[i%4], Cells: driver.Slice{Only: bs("k", "w")}}
		for at := range n {
			r.Each = append(r.Each, groups[at*len(groups)/n])
		}
		want := rangedEach(all, r)
		seq := f.Scan(background, r)
		for range 2 { // a sequence can be ranged over again
			var got []string
			for row, err := range seq {
				require.NoError(tb, err)
				require.Equal(tb, []string{"k=" + string(row.Key), "w="}, show(row.Cells))
				got = append(got, string(row.Key))
			}
			require.Len(tb, got, len(want), "%d ranges", n)
			require.True(tb, slices.Equal(want, got), "wrong rows or order in %d ranges", n)
		}
		got := 0
		for _, err := range seq {
			require.NoError(tb, err)
			if got++; got > len(want)/2 {
				break
			}
		}
		require.Equal(tb, min(len(want), len(want)/2+1), got, "the caller stops")
	}
}

func checkLargeRanges(tb testing.TB, s *suite, f driver.Family, p string) {
	all, groups := inGroups(tb, s, f, p, []int{3, 1500, 0, 40, 40, 0, 1200, 1, 1})
	for _, limit := range []int{0, 1, 39, 40, 1300, 5000} {
		for _, reverse := range []bool{false, true} {
			for _, each := range [][]driver.Bounds{groups, groups[1:2], groups[3:5], groups[4:]} {
				r := driver.Range{Each: each, Limit: limit, Reverse: reverse}
				want, got := rangedEach(all, r), keys(scan(tb, f, r))
				require.Len(tb, got, len(want), "limit %d, reverse %t", limit, reverse)
				require.True(tb, slices.Equal(want, got), "wrong rows or order: limit %d, reverse %t", limit, reverse)
			}
		}
	}
}

func checkEachWhileWriting(tb testing.TB, s *suite, f driver.Family, p string) {
	stay, groups := inGroups(tb, s, f, p, slices.Repeat([]int{3, 0, 70}, 10))
	comesAndGoes := func(i int) error {
		key := stay[i*7%len(stay)] + "-"
		if err := f.Apply(background, row(key, put("q", "goes"))); err != nil {
			return err
		}
		return f.Apply(background, deleteRow(key))
	}
	during(tb, comesAndGoes, func() {
		for i := range 6 {
			r := driver.Range{Each: groups, Reverse: i%2 == 1}
			found := keys(scan(tb, f, r))
			found = slices.DeleteFunc(found, func(key string) bool { return key[len(key)-1] == '-' })
			require.Equal(tb, rangedEach(stay, r), found)
		}
	})
}

func checkInvalidEach(tb testing.TB, s *suite, f driver.Family, p string) {
	one, other := driver.Bounds{Start: b(p + "a"), End: b(p + "b")}, driver.Bounds{Start: b(p + "c"), End: b(p + "d")}
	apply(tb, f, row(p+"a", put("q", "v")), row(p+"c", put("q", "v")))
	require.Len(tb, scan(tb, f, driver.Range{Each: []driver.Bounds{one, other}}), 2)
	for _, r := range []driver.Range{
		{Each: []driver.Bounds{}},
		{Each: []driver.Bounds{other, one}},
		{Each: []driver.Bounds{one, one}},
		{Each: []driver.Bounds{{Start: b(p + "a"), End: b(p + "b\x00")}, {Start: b(p + "b"), End: b(p + "c")}}},
		{Each: []driver.Bounds{{Start: b(p + "a"), End: b(p + "a")}}},
		{Each: []driver.Bounds{one, {Start: b(p + "z"), End: b(p + "c")}}},
		{Each: []driver.Bounds{{Start: b(p + "a")}, other}},
		{Each: []driver.Bounds{{Start: b("a"), End: b("z")}}}, // several prefixes
		{Each: []driver.Bounds{one, {}}},
		{Each: []driver.Bounds{one}, AnyOrder: true},
		{Each: []driver.Bounds{one}, Start: one.Start},
		{Each: []driver.Bounds{one}, End: one.End},
		{Each: []driver.Bounds{one}, Limit: -1},
		{Each: slices.Repeat([]driver.Bounds{one}, driver.MaxBatch+1)},
	} {
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", r)
	}
	require.ErrorIs(tb, scanError(tb, s.wide(tb), background, driver.Range{Each: []driver.Bounds{one}}), driver.ErrRange)
}
