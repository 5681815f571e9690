package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var sliceChecks = []check{
	{"Get of an absent row has no cells", onBoth, checkAbsentRow},
	{"slices are half-open and limited", onWide, checkSlices},
	{"slices by qualifier", onWide, checkOnly},
	{"slices of a wide row across pages", onWide, checkWideRow},
	{"a slice may need its first cell", onBoth, checkNeedsFirst},
	{"an invalid slice is refused", onBoth, checkInvalidSlice},
}

func checkAbsentRow(tb testing.TB, _ *suite, f driver.Family, p string) {
	for _, slice := range []driver.Slice{{}, {Decided: true}, {Only: bs("q")}, {Start: b("a"), End: b("b"), Limit: 1}} {
		require.Empty(tb, read(tb, f, p+"none", slice))
	}
}

func checkSlices(tb testing.TB, _ *suite, f driver.Family, p string) {
	m := row(p + "r")
	for _, q := range edges {
		m.Puts = append(m.Puts, put(q, "v"))
	}
	apply(tb, f, m, row(p+"q", put("before", "")), row(p+"s", put("after", "")))
	n := 0
	for _, start := range bounds {
		for _, end := range bounds {
			slice := driver.Slice{Start: start, End: end, Decided: n%7 == 0}
			if n++; n%4 == 0 {
				slice.Limit = 1 + n%5
			}
			require.Equal(tb, sliced(edges, slice), names(read(tb, f, p+"r", slice)), "%+v", slice)
		}
	}
}

func checkOnly(tb testing.TB, _ *suite, f driver.Family, p string) {
	m := row(p + "r")
	var have []string
	for i := 0; i < len(edges); i += 2 {
		m.Puts, have = append(m.Puts, put(edges[i], "v")), append(have, edges[i])
	}
	apply(tb, f, m)
	for _, slice := range []driver.Slice{
		{Only: bs(edges[0])},
		{Only: bs(edges[1])},
		{Only: bs(edges[4], edges[0], edges[3])},
		{Only: bs(edges[2], edges[2], edges[2])},
		{Only: bs(edges...)},
		{Only: bs(reversed(edges)...), Limit: 3},
		{Only: bs(edges[1], edges[2], edges[4]), Limit: 1},
		{Only: bs(strings.Repeat("\xff", driver.MaxQualifier))},
	} {
		require.Equal(tb, sliced(have, slice), names(read(tb, f, p+"r", slice)), "%+v", slice)
	}
}

func checkWideRow(tb testing.TB, _ *suite, f driver.Family, p string) {
	const n = 6000
	var qualifiers []string
	for i := range n {
		qualifiers = append(qualifiers, fmt.Sprintf("q%05d", 2*i))
	}
	for part := range slices.Chunk(qualifiers, 500) { // a row is written bit by bit
		m := row(p + "r")
		for _, q := range part {
			m.Puts = append(m.Puts, put(q, "value of "+q))
		}
		apply(tb, f, m)
	}
	for _, slice := range []driver.Slice{
		{},
		{Limit: n - 1},
		{Start: b("q00001"), End: b("q11997")},
		{Start: b("q05000"), Limit: 10},
		{Start: b("q05001"), End: b("q05002")},
		{Start: b("q99999")},
		{Only: bs("q00000", "q00001", "q06000", "q11998")},
		// Empty ones.
		{Start: b("b"), End: b("a")}, {Start: b("q00002"), End: b("q00002")}, {End: []byte{}}, {Start: b("r")}, {Only: bs("none")},
	} {
		found := read(tb, f, p+"r", slice)
		want, got := sliced(qualifiers, slice), names(found)
		require.Len(tb, got, len(want), "%+v", slice)
		require.True(tb, slices.Equal(want, got), "%+v: wrong cells", slice)
		for _, c := range found {
			require.Equal(tb, "value of "+string(c.Qualifier), string(c.Value))
		}
	}
}

func checkNeedsFirst(tb testing.TB, s *suite, f driver.Family, p string) {
	all := edges[:5]
	var rows []string
	for i := range 1 << len(all) { // all rows that have some of the cells, and one that has none
		m := row(fmt.Sprintf("%s%02d", p, i))
		for n, q := range all {
			m.Puts = append(m.Puts, put(q, "v"))[:len(m.Puts)+i>>n&1]
		}
		rows = append(rows, string(m.Row))
		apply(tb, f, m)
	}
	for ; len(all) > 0; all = all[1:] {
		slice := driver.Slice{Only: bs(reversed(all)...), NeedsFirst: true}
		for i, key := range rows {
			found, want := read(tb, f, key, slice), read(tb, f, key, driver.Slice{Only: slice.Only})
			if f == s.ordered(tb) && i%3 > 0 {
				found = readBatch(tb, f, []string{p + "none", key, key}, slice)[1]
			}
			if len(found) > 0 || len(want) > 0 && string(want[0].Qualifier) == slices.Min(all) {
				require.Equal(tb, show(want), show(found), "%q, %+v", key, slice)
			}
		}
	}
}

func checkInvalidSlice(tb testing.TB, s *suite, f driver.Family, p string) {
	refused := func(slice driver.Slice) {
		tb.Helper()
		_, err := f.Get(background, b(p+"r"), slice)
		require.ErrorIs(tb, err, driver.ErrRange, "%+v", slice)
		r := anyOrder(p)
		r.Cells = slice
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", slice)
	}
	refused(driver.Slice{Limit: -1})
	refused(driver.Slice{Only: bs("q"), Start: b("a")})
	refused(driver.Slice{Only: bs("q"), End: b("z")})
	refused(driver.Slice{Only: bs("q"), Head: true})
	refused(driver.Slice{NeedsFirst: true})
	refused(driver.Slice{Start: b("a"), NeedsFirst: true})
	r := anyOrder(p)
	r.Cells.Head = true
	require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "the head in a scan")
	if f == s.ordered(tb) {
		refused(driver.Slice{Head: true})
	}
}
