package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var scanChecks = []check{
	{"ranges are half-open", onEdges, checkBounds},
	{"scans are limited and reversed", onEdges, checkScanLimits},
	{"scans yield rows that have a cell in the slice", onOrdered, checkScanSlices},
	{"scans yield each row once across pages", onOrdered, checkScanPages},
	{"scans stop when the caller stops", onOrdered, checkScanStop},
	{"rows stay valid after the iteration", onOrdered, checkRowsStay},
	{"scans see every row that stays", onOrdered, checkScanWhileWriting},
	{"an invalid range is refused", onOrdered, checkInvalidRange},
}

func checkBounds(tb testing.TB, _ *suite, f driver.Family, _ string) {
	for i, start := range bounds {
		for j, end := range bounds {
			r := driver.Range{Start: start, End: end, Reverse: (i+j)%3 == 0}
			require.Equal(tb, ranged(edges[1:], r), keys(scan(tb, f, r)), "%+v", r)
		}
	}
}

func checkScanLimits(tb testing.TB, s *suite, f driver.Family, p string) {
	rs := []driver.Range{{Start: b("\x00\x02"), End: b("b"), Limit: 3, Reverse: true}}
	for _, limit := range []int{1, 2, len(edges) - 2, len(edges) - 1, len(edges), 10000} {
		rs = append(rs, driver.Range{Limit: limit}, driver.Range{Limit: limit, Reverse: true})
	}
	for _, r := range rs {
		require.Equal(tb, ranged(edges[1:], r), keys(scan(tb, f, r)), "%+v", r)
	}
	// The cells of a row ascend in a scan that descends.
	g := s.ordered(tb)
	apply(tb, g, row(p+"a", put("1", ""), put("2", ""), put("3", "")))
	r := within(p)
	r.Reverse = true
	require.Equal(tb, []string{"1=", "2=", "3="}, show(scan(tb, g, r)[0].Cells))
}

func checkScanSlices(tb testing.TB, _ *suite, f driver.Family, p string) {
	qualifiers := []string{"", "a", "b", "b\x00", "c", "d"}
	var ms []driver.Mutation
	for i := range 1 << len(qualifiers) {
		m := row(fmt.Sprintf("%s%02d", p, i))
		for j, q := range qualifiers {
			if i>>j&1 == 1 {
				m.Puts = append(m.Puts, put(q, fmt.Sprint(i)))
			}
		}
		for j := range i % 20 { // cells that no slice asks for
			m.Puts = append(m.Puts, put(fmt.Sprintf("x%02d", j), "no"), put(fmt.Sprintf("bb%02d", j), "no"))
		}
		ms = append(ms, m)
	}
	apply(tb, f, ms...)
	for i, slice := range []driver.Slice{
		{Only: bs("a")},
		{Only: bs("c", "", "a")},
		{Only: bs("d", "none")},
		{Only: bs("none")},
		{Start: b("b"), End: b("bb")},
		{Start: b("c"), End: b("x")},
		{End: b("b")},
		{End: []byte{}},
		{Start: b("b"), End: b("a")},
	} {
		var all []string
		for _, m := range ms {
			if in := sliced(slices.Sorted(slices.Values(names(m.Puts))), slice); len(in) > 0 {
				all = append(all, fmt.Sprintf("%s %q", m.Row, in))
			}
		}
		for _, limit := range []int{0, 7} {
			r := within(p)
			r.Cells, r.Reverse, r.Limit = slice, (i+limit)%2 == 1, limit
			got := []string{}
			for _, row := range scan(tb, f, r) {
				got = append(got, fmt.Sprintf("%s %q", row.Key, names(row.Cells)))
			}
			require.Equal(tb, ranged(all, driver.Range{Reverse: r.Reverse, Limit: limit}), got, "%+v", r)
		}
	}
}

func checkScanPages(tb testing.TB, _ *suite, f driver.Family, p string) {
	all := manyRows(tb, f, p, 5000)
	r := within(p)
	for _, r.Reverse = range []bool{false, true} {
		seq, want := f.Scan(background, r), ranged(all, r)
		for range 2 { // a sequence can be ranged over again
			var got []string
			for row, err := range seq {
				require.NoError(tb, err)
				require.Len(tb, row.Cells, 2)
				require.Equal(tb, string(row.Key), string(row.Cells[0].Value))
				got = append(got, string(row.Key))
			}
			require.Len(tb, got, len(want))
			require.True(tb, slices.Equal(want, got), "wrong rows or order")
		}
	}
	r.Reverse, r.Limit = false, 4321
	require.Len(tb, scan(tb, f, r), 4321)
}

func checkScanStop(tb testing.TB, _ *suite, f driver.Family, p string) {
	all := manyRows(tb, f, p, 1500)
	for _, stop := range []int{1, 2, 999, 1000, 1001} {
		var got []string
		for row, err := range f.Scan(background, within(p)) {
			require.NoError(tb, err)
			if got = append(got, string(row.Key)); len(got) == stop {
				break
			}
		}
		require.Equal(tb, all[:stop], got)
	}
	// Within a scan anything may be done, the same scan included.
	n := 0
	for outer, err := range f.Scan(background, within(p)) {
		require.NoError(tb, err)
		for inner, err := range f.Scan(background, driver.Range{Start: outer.Key, Limit: 1}) {
			require.NoError(tb, err)
			require.Equal(tb, outer.Key, inner.Key)
			apply(tb, f, deleteRow(string(inner.Key)))
		}
		if n++; n == 10 {
			break
		}
	}
	require.Len(tb, scan(tb, f, within(p)), len(all)-10)
}

func checkRowsStay(tb testing.TB, _ *suite, f driver.Family, p string) {
	all := manyRows(tb, f, p, 2500)
	rows := scan(tb, f, within(p))
	scan(tb, f, within(p))
	require.Equal(tb, all, keys(rows))
	for i, r := range rows {
		require.Len(tb, r.Cells, 2)
		require.Equal(tb, "k="+all[i], show(r.Cells)[0])
	}
}

func checkScanWhileWriting(tb testing.TB, _ *suite, f driver.Family, p string) {
	const n = 1200
	var ms []driver.Mutation
	for i := range n {
		ms = append(ms, row(fmt.Sprintf("%s%05d", p, i), put("q", "stays")))
	}
	apply(tb, f, ms...)
	comesAndGoes := func(w int) func(int) error {
		return func(i int) error {
			key := fmt.Sprintf("%s%05d-%d", p, i*7%n, w)
			return errors.Join(f.Apply(background, row(key, put("q", "goes"))), f.Apply(background, deleteRow(key)))
		}
	}
	scans := func() {
		for i := range 6 {
			r := within(p)
			r.Reverse = i%2 == 1
			stay, last := 0, ""
			for row, err := range f.Scan(background, r) {
				require.NoError(tb, err)
				key, want := string(row.Key), "q=goes"
				require.True(tb, last == "" || (key > last) != r.Reverse && key != last, "%q after %q", key, last)
				last = key
				if len(key) == len(p)+5 {
					want = "q=stays"
					stay++
				}
				require.Equal(tb, []string{want}, show(row.Cells))
			}
			require.Equal(tb, n, stay, "rows that stay")
		}
	}
	during(tb, comesAndGoes(0), func() { during(tb, comesAndGoes(1), scans) })
}

func checkInvalidRange(tb testing.TB, _ *suite, f driver.Family, p string) {
	for _, r := range []driver.Range{
		{Limit: -1},
		{Reverse: true, AnyOrder: true},
		{Parts: 2},
		{Parts: -1, AnyOrder: true},
		{Parts: driver.MaxParts + 1, AnyOrder: true},
		{Part: -1, Parts: 2, AnyOrder: true},
		{Part: 2, Parts: 2, AnyOrder: true},
		{Part: 1, AnyOrder: true},
		{Cells: driver.Slice{Limit: 1}},
	} {
		r.Start, r.End = within(p).Start, within(p).End
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", r)
	}
	// Ranges that are empty are not invalid.
	apply(tb, f, row(p+"a", put("q", "v")))
	for _, r := range []driver.Range{
		{Start: b(p + "z"), End: b(p)}, {Start: b(p + "a"), End: b(p + "a")}, {End: []byte{}}, {Start: b(p + "z"), End: b(p), Reverse: true},
		{Start: b(p + "z"), End: b(p), AnyOrder: true}, {Start: b(p + "b"), End: b(p + "c")},
	} {
		require.Empty(tb, scan(tb, f, r), "%+v", r)
	}
}
