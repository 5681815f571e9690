package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var batchChecks = []check{
	{"GetBatch returns what Get returns", onLayouts, checkBatch},
	{"GetBatch takes up to MaxBatch rows", onLayouts, checkFullBatch},
	{"what GetBatch returns belongs to the caller", onOrdered, checkBatchReturned},
	{"what GetBatch is passed is neither kept nor changed", onOrdered, checkBatchPassed},
	{"each row of a batch is of one instant", onOrdered, checkBatchInstant},
	{"GetBatch observes what was acknowledged", onOrdered, checkBatchReadsWrites},
	{"an invalid batch is refused", onOrdered, checkInvalidBatch},
}

// onLayouts are families whose rows lie in one partition, and in several.
func onLayouts(tb testing.TB, s *suite) []driver.Family {
	return []driver.Family{s.ordered(tb), s.family(tb, "batches")}
}

func readBatch(tb testing.TB, f driver.Family, rows []string, s driver.Slice) []cells {
	tb.Helper()
	found, err := f.GetBatch(background, bs(rows...), s)
	require.NoError(tb, err)
	require.Len(tb, found, len(rows))
	return found
}

// agrees requires that a batch is what single reads are.
func agrees(tb testing.TB, f driver.Family, rows []string, s driver.Slice) {
	tb.Helper()
	for i, found := range readBatch(tb, f, rows, s) {
		want := read(tb, f, rows[i], s)
		require.Equal(tb, show(want), show(found), "row %d, %q, %+v", i, rows[i], s)
		for n, c := range found {
			require.Equal(tb, want[n].Stamp, c.Stamp, "stamp of %q in row %q", c.Qualifier, rows[i])
		}
	}
}

func checkBatch(tb testing.TB, s *suite, f driver.Family, p string) {
	var rows []string
	var ms []driver.Mutation
	for i, edge := range edges {
		key := p + edge
		if f != s.ordered(tb) {
			key = edge + "\x01" + p // in several partitions
		}
		rows = append(rows, key, key+"absent")
		ms = append(ms, row(key, put("", fmt.Sprint(i)), put("q", key), put("r", ""), put("\xff", "last")))
	}
	apply(tb, f, ms...)
	apply(tb, f, deleteRow(rows[0]), deleteCells(rows[2], "", "r"))
	rows = append(reversed(rows), shuffled(rows[:len(edges)])...) // some are named twice
	for _, s := range []driver.Slice{
		{}, {Stamps: true}, {Only: bs("q")}, {Only: bs("")}, {Only: bs("r", "", "r")}, {Only: bs("none")}, {Only: bs("q", "r"), Stamps: true},
		{Start: b("q")}, {End: b("r")}, {Start: b("a"), End: b("r")}, {Start: b("r"), End: b("q")}, {End: []byte{}},
	} {
		agrees(tb, f, rows, s)
		agrees(tb, f, rows[:1], s)
		agrees(tb, f, nil, s)
	}
}

func checkFullBatch(tb testing.TB, _ *suite, f driver.Family, p string) {
	all := manyRows(tb, f, p, driver.MaxBatch)
	for i, found := range readBatch(tb, f, reversed(all), driver.Slice{}) {
		require.Equal(tb, all[len(all)-1-i], string(found[0].Value))
	}
	// Large rows beside small ones, and beside those that are named twice.
	large := strings.Repeat("v", 1<<20)
	for i := range 10 {
		apply(tb, f, row(all[100*i], put("v", large+fmt.Sprint(i))))
	}
	again := readBatch(tb, f, append(all[:512:512], all[:512]...), driver.Slice{Only: bs("v")})
	for i := range 512 {
		require.Len(tb, again[i], 1)
		require.Equal(tb, show(again[i]), show(again[512+i]))
		require.Equal(tb, i%100 == 0, len(again[i][0].Value) > 1<<20)
	}
}

func checkBatchReturned(tb testing.TB, _ *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "value a"), put("r", "")), row(p+"b", put("q", "value b")))
	for range 2 {
		found := readBatch(tb, f, []string{p + "b", p + "a", p + "a"}, driver.Slice{})
		for _, cells := range found {
			for _, c := range cells {
				_ = append(c.Qualifier, "zzzzzzzz"...)
				_ = append(c.Value, "zzzzzzzz"...)
			}
			_ = append(cells, put("zz", "zz"))
		}
		for i, want := range [][]string{{"q=value b"}, {"q=value a", "r="}, {"q=value a", "r="}} {
			require.Equal(tb, want, show(found[i]))
			for n, c := range found[i] {
				for _, of := range [][]byte{c.Qualifier, c.Value} {
					for j := range of {
						of[j] = 'X'
					}
				}
				found[i][n] = driver.Cell{}
			}
		}
	}
}

func checkBatchPassed(tb testing.TB, _ *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "1"), put("r", "2")), row(p+"b", put("q", "3")))
	args := []string{p + "b", p + "a", p + "none"}
	var rows [][]byte
	for _, arg := range args {
		rows = append(rows, append(make([]byte, 0, 100), arg...))
	}
	only := bs("r", "q")
	found, err := f.GetBatch(background, rows, driver.Slice{Only: only})
	require.NoError(tb, err)
	require.Equal(tb, bs("r", "q"), only)
	for i, arg := range args {
		require.Equal(tb, arg, string(rows[i]))
		for _, x := range rows[i][len(arg):cap(rows[i])] {
			require.Zero(tb, x, "something was written beyond a slice that was passed")
		}
		clear(rows[i])
	}
	require.Equal(tb, []string{"q=3"}, show(found[0]))
	require.Equal(tb, []string{"q=1", "r=2"}, show(found[1]))
}

func checkBatchInstant(tb testing.TB, _ *suite, f driver.Family, p string) {
	var rows []string
	for i := range 40 {
		rows = append(rows, fmt.Sprintf("%s%02d", p, i))
	}
	write := func(version int) error {
		var ms []driver.Mutation
		for _, key := range rows {
			m := row(key)
			for i := range 20 {
				m.Puts = append(m.Puts, put(fmt.Sprintf("%02d", i), fmt.Sprint(version)))
			}
			ms = append(ms, m)
		}
		return f.Apply(background, ms...)
	}
	require.NoError(tb, write(0))
	during(tb, write, func() {
		for range 40 {
			for i, found := range readBatch(tb, f, rows, driver.Slice{}) {
				require.Len(tb, found, 20)
				mixed := slices.ContainsFunc(found, func(c driver.Cell) bool { return string(c.Value) != string(found[0].Value) })
				require.False(tb, mixed, "row %d is a mixture of two writes: %q", i, show(found))
			}
		}
	})
}

func checkBatchReadsWrites(tb testing.TB, _ *suite, f driver.Family, p string) {
	rows := []string{p + "a", p + "b", p + "c"}
	before := absent("q")
	for i := range 20 {
		v := fmt.Sprint(i)
		apply(tb, f, row(rows[0], put("q", v)), row(rows[1], put("q", v)))
		require.True(tb, checkAndPut(tb, f, rows[2], before, put("q", v)))
		before = put("q", v)
		for _, found := range readBatch(tb, f, rows, driver.Slice{Only: bs("q")}) {
			require.Equal(tb, []string{"q=" + v}, show(found))
		}
	}
}

func checkInvalidBatch(tb testing.TB, s *suite, f driver.Family, p string) {
	refused := func(f driver.Family, rows [][]byte, slice driver.Slice, want error) {
		tb.Helper()
		found, err := f.GetBatch(background, rows, slice)
		require.ErrorIs(tb, err, want, "%d rows, %+v", len(rows), slice)
		require.Nil(tb, found)
	}
	rows := bs(p+"a", p+"b")
	refused(f, rows, driver.Slice{Limit: 1}, driver.ErrRange)
	refused(f, rows, driver.Slice{Limit: -1}, driver.ErrRange)
	refused(f, rows, driver.Slice{Head: true}, driver.ErrRange)
	refused(f, rows, driver.Slice{Only: bs("q"), End: b("z")}, driver.ErrRange)
	refused(s.wide(tb), rows, driver.Slice{}, driver.ErrRange)
	refused(f, slices.Repeat(rows, driver.MaxBatch/2+1), driver.Slice{}, driver.ErrTooLarge)
	refused(f, bs(p+"a", strings.Repeat("k", driver.MaxRowKey+1)), driver.Slice{}, driver.ErrTooLarge)
	_, err := f.GetBatch(background, bs(p+"a", ""), driver.Slice{})
	require.Error(tb, err, "an empty row key was accepted")
	_, err = s.family(tb, "prefix").GetBatch(background, bs("ab", "a"), driver.Slice{})
	require.Error(tb, err, "a row key that is shorter than the prefix was accepted")
}
