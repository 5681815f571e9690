package drivertest

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var partitionChecks = []check{
	{"scans in order keep within a prefix", onPrefixed, checkPrefix},
	{"spread bits keep the order", onOrdered, checkSpread},
	{"scans in any order are complete", onAny, checkAnyOrder},
	{"scans in any order go on after a row", onOrdered, checkAfter},
	{"the parts of a scan are disjoint and together the whole", onOrdered, checkParts},
	{"rows of a wide family are scanned in any order", onWide, checkWideScan},
}

func onAny(tb testing.TB, s *suite) []driver.Family {
	return []driver.Family{s.ordered(tb), s.family(tb, "prefix")}
}

// fill puts a row for each key.
func fill(tb testing.TB, f driver.Family, all []string) {
	tb.Helper()
	var ms []driver.Mutation
	for _, key := range all {
		ms = append(ms, row(key, put("k", key), put("x", "")))
	}
	apply(tb, f, ms...)
}

func sorted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

func checkPrefix(tb testing.TB, _ *suite, f driver.Family, _ string) {
	var all []string
	for _, hash := range []string{"\x00\x00", "aa", "ab", "a\xff", "b\x00", "\xff\xff"} {
		for _, rest := range []string{"", "\x00", "1", "2", "\xff"} {
			all = append(all, hash+rest)
		}
	}
	all = sorted(all)
	fill(tb, f, all)
	for _, r := range []driver.Range{
		{Start: b("aa"), End: b("ab")},
		{Start: b("aa"), End: b("ab"), Reverse: true},
		{Start: b("aa\x00"), End: b("aa2")},
		{Start: b("a\xff"), End: b("b")},
		{Start: b("a\xff"), End: b("b\x00")},
		{Start: b("a\xff1"), End: b("b"), Reverse: true, Limit: 2},
		{Start: b("\xff\xff")},
		{Start: b("zz"), End: b("zz\x01")},
		{Start: b("zz"), End: b("aa")},
		{Start: b("\x00\x00"), End: b("\x00\x01"), Limit: 1},
	} {
		require.Equal(tb, ranged(all, r), keys(scan(tb, f, r)), "%+v", r)
	}
	for _, r := range []driver.Range{
		{}, {Start: b("aa")}, {Start: b("a"), End: b("ab")}, {Start: b("aa"), End: b("ab\x00")}, {End: b("aa")}, {Start: b("aa"), End: b("b")},
	} {
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", r)
	}
	require.Equal(tb, all, scanKeys(tb, f, driver.Range{AnyOrder: true}))

	short := "a row key shorter than the prefix was accepted"
	require.Error(tb, f.Apply(background, row("a", put("q", "v"))), short)
	_, err := f.Get(background, b("a"), driver.Slice{})
	require.Error(tb, err, short)
	_, err = f.CheckAndPut(background, b("a"), absent("q"), put("q", "v"))
	require.Error(tb, err, short)
}

func checkSpread(tb testing.TB, s *suite, _ driver.Family, _ string) {
	r := random(tb)
	for _, kind := range []string{"spread", "spread_prefix"} {
		f, spec := s.family(tb, kind), kinds[kind]
		var all []string
		hash := strings.Repeat("h", spec.PrefixBytes)
		for _, e := range edges {
			if key := hash + e; key != "" {
				all = append(all, key)
			}
		}
		for range 200 {
			key := []byte(hash)
			for range 1 + r.IntN(4) {
				key = append(key, byte(r.Uint32()))
			}
			all = append(all, string(key))
		}
		all = sorted(all)
		fill(tb, f, all)
		for i := range 40 {
			q := driver.Range{Reverse: i%2 == 1}
			if i >= 4 {
				x, y := all[r.IntN(len(all))], all[r.IntN(len(all))]
				q.Start, q.End = b(min(x, y)), b(max(x, y))
			}
			if i%3 == 0 {
				q.Limit = 1 + r.IntN(50)
			}
			if spec.PrefixBytes > 0 && i < 4 {
				q.Start, q.End = b("h"), b("i")
			}
			require.Equal(tb, ranged(all, q), keys(scan(tb, f, q)), "%+v", q)
		}
		for _, key := range all[:20] {
			is(tb, f, key, "k="+key, "x=")
		}
		require.Equal(tb, all, scanKeys(tb, f, driver.Range{AnyOrder: true}))
	}
}

func checkAnyOrder(tb testing.TB, _ *suite, f driver.Family, p string) {
	all := manyRows(tb, f, p, 2500)
	for _, limit := range []int{0, 1, 1700} {
		r := anyOrder(p)
		r.Limit, r.Cells = limit, driver.Slice{Only: bs("k")}
		seen := make(map[string]bool)
		for _, row := range scan(tb, f, r) {
			require.False(tb, seen[string(row.Key)], "%q twice", row.Key)
			require.True(tb, strings.HasPrefix(string(row.Key), p), "%q is not in the range", row.Key)
			require.Equal(tb, []string{"k=" + string(row.Key)}, show(row.Cells))
			seen[string(row.Key)] = true
		}
		if limit == 0 {
			limit = len(all)
		}
		require.Len(tb, seen, limit)
	}
}

func checkAfter(tb testing.TB, s *suite, _ driver.Family, _ string) {
	rng := random(tb)
	for _, kind := range []string{"after", "after_prefix"} {
		f, spec := s.family(tb, kind), kinds[kind]
		var all []string
		for _, e := range edges {
			if len(e) >= max(1, spec.PrefixBytes) {
				all = append(all, e, "tenant"+e)
			}
		}
		for range 200 {
			key := string(binary.BigEndian.AppendUint32(nil, rng.Uint32()))
			all = append(all, key, "tenant"+key, "te"+key)
		}
		all = sorted(all)
		fill(tb, f, all)
		order := keys(scan(tb, f, driver.Range{AnyOrder: true}))
		require.ElementsMatch(tb, all, order)
		require.Equal(tb, order, keys(scan(tb, f, driver.Range{AnyOrder: true})), "another scan has another order")
		begun, n := make(map[string]bool), spec.PrefixBytes
		for i, key := range order {
			if n > 0 && i > 0 && key[:n] == order[i-1][:n] {
				require.Greater(tb, key, order[i-1], "rows of one prefix come in their order")
			} else {
				require.True(tb, n == 0 || !begun[key[:n]], "rows of one prefix come one after the other")
			}
			begun[key[:n]] = true
		}
		// The order does not depend on what else there is: neither on the row itself, nor on the range.
		gone := order[rng.IntN(len(order))]
		apply(tb, f, deleteRow(gone))
		x, y := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		for i, r := range []driver.Range{{}, {Start: b("te"), End: b("tf")}, {Start: b(min(x, y)), End: b(max(x, y))}, {Start: b(x)}, {End: b(y)}} {
			r.AnyOrder = true
			for n := range 12 {
				at := rng.IntN(len(order))
				if n == 0 {
					at = slices.Index(order, gone)
				}
				want := []string{}
				for _, key := range order[at+1:] {
					if key != gone && key >= string(r.Start) && (r.End == nil || key < string(r.End)) {
						want = append(want, key)
					}
				}
				r.After, r.Limit = b(order[at]), 0
				if n%4 == 1 {
					r.Limit = 1 + rng.IntN(40)
					want = want[:min(r.Limit, len(want))]
				}
				r.Cells = driver.Slice{}
				if n%2 == 1 {
					r.Cells.Only = bs("k")
				}
				require.Equal(tb, want, keys(scan(tb, f, r)), "range %d, after %q", i, order[at])
			}
		}
		apply(tb, f, row(gone, put("k", gone), put("x", "")))
		for _, r := range []driver.Range{{After: b("tenant")}, {AnyOrder: true, After: b("tenant"), Parts: 2}} {
			r.Start, r.End = b("tenant"), b("tenanu")
			require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange)
		}
	}
	require.ErrorIs(tb, scanError(tb, s.family(tb, "wide"), background, driver.Range{AnyOrder: true, After: b("k")}), driver.ErrRange)
}

func checkParts(tb testing.TB, s *suite, _ driver.Family, _ string) {
	rng := random(tb)
	for _, kind := range []string{"parts", "parts_prefix", "parts_wide"} {
		f, spec := s.family(tb, kind), kinds[kind]
		var all []string
		for _, e := range edges {
			if len(e) >= max(1, spec.PrefixBytes) {
				all = append(all, e, "tenant"+e)
			}
		}
		for range 300 {
			key := string(binary.BigEndian.AppendUint32(nil, rng.Uint32()))
			all = append(all, key, "tenant"+key)
		}
		all = sorted(all)
		fill(tb, f, all)
		x, y := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		for _, r := range []driver.Range{
			{}, {Start: b("tenant"), End: b("tenanu")}, {Start: b(min(x, y)), End: b(max(x, y))}, {Start: b(x)}, {End: b(y)},
		} {
			r.AnyOrder, r.Cells = true, driver.Slice{Only: bs("k")}
			for _, r.Parts = range []int{1, 2, 7} {
				require.Equal(tb, ranged(all, r), scanParts(tb, f, r), "%d parts of %q to %q", r.Parts, r.Start, r.End)
			}
			few, many := partsOf(tb, f, r, 5), partsOf(tb, f, r, 12)
			for key, i := range few {
				j := many[key]
				require.True(tb, i*12 < (j+1)*5 && j*5 < (i+1)*12, "%q is in part %d of 5, and in part %d of 12", key, i, j)
			}
		}
		// The largest number, of which these are the first and last parts.
		for _, part := range []int{0, driver.MaxParts - 1} {
			scan(tb, f, driver.Range{AnyOrder: true, Part: part, Parts: driver.MaxParts})
		}
	}
}

// scanParts returns the keys of all parts of a range, sorted.
func scanParts(tb testing.TB, f driver.Family, r driver.Range) []string {
	tb.Helper()
	all := []string{}
	for r.Part = range r.Parts {
		rows := scan(tb, f, r)
		for _, row := range rows {
			require.Equal(tb, []string{"k=" + string(row.Key)}, show(row.Cells))
		}
		all = append(all, keys(rows)...)
		if r.Part == r.Parts/2 && len(rows) > 1 {
			limited := r
			limited.Limit = len(rows) - 1
			require.Len(tb, scan(tb, f, limited), len(rows)-1, "%+v", limited)
		}
	}
	slices.Sort(all)
	return all
}

// partsOf returns in which of some parts of a range each key is.
func partsOf(tb testing.TB, f driver.Family, r driver.Range, parts int) map[string]int {
	tb.Helper()
	of := make(map[string]int)
	for r.Part, r.Parts = 0, parts; r.Part < parts; r.Part++ {
		for _, key := range scanKeys(tb, f, r) {
			of[key] = r.Part
		}
	}
	return of
}

func checkWideScan(tb testing.TB, _ *suite, f driver.Family, p string) {
	all := manyRows(tb, f, p, 300)
	require.ErrorIs(tb, scanError(tb, f, background, within(p)), driver.ErrRange)
	r := anyOrder(p)
	require.Equal(tb, all, scanKeys(tb, f, r))
	r.Cells = driver.Slice{Start: b("k"), End: b("l")}
	for _, row := range scan(tb, f, r) {
		require.Equal(tb, []string{"k=" + string(row.Key)}, show(row.Cells))
	}
}
