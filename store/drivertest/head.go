package drivertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var headChecks = []check{
	{"a slice has the head of its row added", onWide, checkHead},
	{"the head follows every change", onWide, checkHeadChanges},
	{"a slice and the head are of one instant", onWide, checkHeadInstant},
}

func checkHead(tb testing.TB, _ *suite, f driver.Family, p string) {
	for i, have := range [][]string{
		edges, edges[1:], append([]string{""}, edges[2:]...), edges[2:], // edges[:2] are the head
		edges[:2], {""}, {"\x00"}, {"a"}, {"\x00\x00", "\x00\x01", "b"}, {"", "b"}, nil,
	} {
		key := fmt.Sprint(p, i)
		m := row(key)
		for _, q := range have {
			m.Puts = append(m.Puts, put(q, "of "+q))
		}
		apply(tb, f, m)
		for j, start := range bounds {
			for k, end := range bounds {
				if i > 0 && (j+k)%3 != i%3 {
					continue // all of them for the first row, and a third for each other
				}
				slice := driver.Slice{Start: start, End: end, Limit: (i + j + k/3) % 3, Head: true}
				want := []string{}
				for _, q := range sliced(have, slice) {
					want = append(want, q+"=of "+q)
				}
				require.Equal(tb, want, get(tb, f, key, slice), "%q, %+v", have, slice)
			}
		}
	}
}

func checkHeadChanges(tb testing.TB, _ *suite, f driver.Family, p string) {
	// A slice that has a cell, one that has none, one below which there is nothing but the head,
	// and one that is within the head.
	slices := []driver.Slice{{Start: b("m")}, {Start: b("x")}, {Start: b("b"), End: b("c")}, {End: b("\x00")}, {Start: b("n"), End: b("m")}}
	key := p + "applied"
	has := func(head ...string) {
		tb.Helper()
		all := append(append([]string{}, head...), "m=v")
		for i, slice := range slices {
			slice.Head = true
			want := all
			if i > 0 {
				want = all[:len(head)]
			}
			require.Equal(tb, want, get(tb, f, key, slice), "%+v", slice)
		}
		is(tb, f, key, all...) // they are cells as all others are
	}
	apply(tb, f, row(key, put("m", "v")))
	has()
	apply(tb, f, row(key, put("", "1")))
	has("=1")
	apply(tb, f, row(key, put("\x00", "2"), put("", "")))
	has("=", "\x00=2")
	apply(tb, f, deleteCells(key, ""))
	has("\x00=2")
	apply(tb, f, driver.Mutation{Row: b(key), Puts: cells{put("", "3")}, Deletes: bs("\x00")})
	has("=3")
	apply(tb, f, deleteRow(key), row(p+"other", put("", "4")))
	require.Empty(tb, get(tb, f, key, driver.Slice{Start: b("m"), Head: true}))
	apply(tb, f, row(key, put("m", "v")))
	has()

	key = p + "conditional"
	require.True(tb, checkAndPut(tb, f, key, absent(""), put("m", "v")))
	has()
	require.True(tb, checkAndPut(tb, f, key, absent(""), put("", "1")))
	has("=1")
	require.True(tb, checkAndPut(tb, f, key, put("", "1"), put("\x00", "2")))
	has("=1", "\x00=2")
	require.True(tb, checkAndPut(tb, f, key, put("\x00", "2"), put("\x00", "3"), put("", "4")))
	has("=4", "\x00=3")
	require.False(tb, checkAndPut(tb, f, key, put("", "1"), put("", "5"), put("\x00", "5")))
	has("=4", "\x00=3")
	if c, ok := f.(driver.Committer); ok {
		require.True(tb, commit(tb, c, key, cells{put("", "4"), absent("n")}, cells{put("\x00", "6")}))
		has("=4", "\x00=6")
		require.True(tb, commit(tb, c, key, cells{put("", "4")}, nil, "\x00"))
		has("=4")
		require.True(tb, commit(tb, c, key, cells{put("", "4"), absent("\x00")}, cells{put("\x00", "7")}, ""))
		has("\x00=7")
		require.True(tb, commit(tb, c, key, cells{absent("")}, cells{put("", "8")}, "\x00"))
		has("=8")
	}
}

// checkHeadInstant has a writer who counts in the head, and puts a cell with the same number at
// odd ones and deletes it at even ones.
func checkHeadInstant(tb testing.TB, _ *suite, f driver.Family, p string) {
	key := p + "a"
	write := func(i int) error {
		n := fmt.Sprint(i)
		m := row(key, put("", n), put("\x00", n), put("z", n))
		if i%2 == 1 {
			m.Puts = append(m.Puts, put("m", n))
		} else {
			m.Deletes = bs("m")
		}
		return f.Apply(background, m)
	}
	require.NoError(tb, write(0))
	during(tb, write, func() {
		for range 300 {
			got := get(tb, f, key, driver.Slice{Start: b("b"), End: b("n"), Limit: 1, Head: true})
			require.GreaterOrEqual(tb, len(got), 2)
			n := got[0][1:]
			want := []string{"=" + n, "\x00=" + n}
			if strings.ContainsAny(n[len(n)-1:], "13579") {
				want = append(want, "m="+n)
			}
			require.Equal(tb, want, got)
		}
	})
}
