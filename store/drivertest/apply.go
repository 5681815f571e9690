package drivertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var applyChecks = []check{
	{"Apply takes any number of mutations", onOrdered, checkApplyMany},
	{"applying again is harmless", onOrdered, checkApplyAgain},
	{"a change that names a cell or row twice is refused", onOrdered, checkOverlap},
	{"DeleteRow removes the whole row", onBoth, checkDeleteRow},
	{"a mutation after an acknowledged one wins over it", onOrdered, checkLastWins},
	{"concurrent mutations leave the value of one", onOrdered, checkConcurrentApply},
	{"the cells of a mutation appear all at once", onBoth, checkAtomicRow},
}

func checkApplyMany(tb testing.TB, _ *suite, f driver.Family, p string) {
	apply(tb, f)
	all := manyRows(tb, f, p, 7000)
	require.Equal(tb, all, keys(scan(tb, f, within(p))))
	// Values that are large together.
	var ms, gone []driver.Mutation
	big := strings.Repeat("v", 1<<20)
	for i := range 12 {
		key := fmt.Sprintf("%sbig%d", p, i)
		ms, gone = append(ms, row(key, put("q", big))), append(gone, deleteRow(key))
	}
	apply(tb, f, ms...)
	for _, m := range ms {
		found := read(tb, f, string(m.Row), driver.Slice{})
		require.Len(tb, found, 1)
		require.True(tb, string(found[0].Value) == big)
	}
	apply(tb, f, gone...)
}

func checkApplyAgain(tb testing.TB, _ *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("old", "1"), put("x", "1")), row(p+"b", put("x", "1")))
	ms := []driver.Mutation{
		{Row: b(p + "a"), Puts: cells{put("x", "2"), put("y", "2")}, Deletes: bs("old", "never")},
		deleteRow(p + "b"), deleteCells(p+"c", "never"), deleteRow(p + "d"),
	}
	for range 3 {
		apply(tb, f, ms...)
		require.Equal(tb, []string{p + "a"}, keys(scan(tb, f, within(p))))
		is(tb, f, p+"a", "x=2", "y=2")
	}
}

func checkOverlap(tb testing.TB, _ *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "old")))
	secret := put("q", "secret")
	for _, c := range []struct {
		name string
		ms   []driver.Mutation
	}{
		{"put and deleted", []driver.Mutation{{Row: b(p + "a"), Puts: cells{secret}, Deletes: bs("q")}}},
		{"put twice", []driver.Mutation{row(p+"a", secret, secret)}},
		{"deleted twice", []driver.Mutation{deleteCells(p+"a", "q", "q")}},
		{"row deleted and put", []driver.Mutation{{Row: b(p + "a"), DeleteRow: true, Puts: cells{secret}}}},
		{"row deleted and cell deleted", []driver.Mutation{{Row: b(p + "a"), DeleteRow: true, Deletes: bs("r")}}},
		{"one row twice", []driver.Mutation{row(p+"b", secret), row(p+"a", put("x", "1")), row(p+"a", put("y", "1"))}},
		{"empty qualifier twice", []driver.Mutation{row(p+"a", put("", "secret"), driver.Cell{Value: b("secret")})}},
	} {
		err := f.Apply(background, c.ms...)
		require.ErrorIs(tb, err, driver.ErrOverlap, c.name)
		require.NotContains(tb, err.Error(), "secret")
		m := c.ms[0]
		if committer, ok := f.(driver.Committer); ok && len(c.ms) == 1 && !m.DeleteRow {
			_, err := committer.Commit(background, m.Row, nil, m.Puts, m.Deletes)
			require.ErrorIs(tb, err, driver.ErrOverlap, "Commit: %s", c.name)
		}
	}
	_, err := f.CheckAndPut(background, b(p+"a"), put("q", "old"), put("q", "1"), put("q", "2"))
	require.ErrorIs(tb, err, driver.ErrOverlap)
	is(tb, f, p+"a", "q=old") // a refused change was not applied
	is(tb, f, p+"b")
}

func checkDeleteRow(tb testing.TB, _ *suite, f driver.Family, p string) {
	for _, n := range []int{1, 3, 700} {
		m := row(p + "a")
		for i := range n {
			m.Puts = append(m.Puts, put(fmt.Sprintf("%04d", i), "v"))
		}
		apply(tb, f, m, row(p+"a\x00", put("q", "stays")), row(p+"Z", put("q", "stays")))
		apply(tb, f, deleteRow(p+"a"))
		is(tb, f, p+"a")
		apply(tb, f, row(p+"a", put("new", "v")))
		is(tb, f, p+"a", "new=v") // old cells do not come back
		is(tb, f, p+"a\x00", "q=stays")
		is(tb, f, p+"Z", "q=stays")
	}
}

// checkLastWins repeats, without a pause, what a database that orders by milliseconds gets wrong.
func checkLastWins(tb testing.TB, _ *suite, f driver.Family, p string) {
	key := p + "a"
	for i := range 40 {
		v := fmt.Sprint(i)
		apply(tb, f, row(key, put("q", "old")))
		apply(tb, f, row(key, put("q", v)))
		is(tb, f, key, "q="+v)
		apply(tb, f, deleteCells(key, "q"))
		is(tb, f, key)
		apply(tb, f, row(key, put("q", v)))
		is(tb, f, key, "q="+v)
		apply(tb, f, deleteRow(key))
		is(tb, f, key)
		apply(tb, f, row(key, put("q", v)))
		is(tb, f, key, "q="+v)
		// Put and delete by turns, without a read.
		apply(tb, f, deleteCells(key, "q"))
		apply(tb, f, row(key, put("q", "w"+v)))
		apply(tb, f, deleteRow(key))
		apply(tb, f, row(key, put("q", "x"+v)))
		is(tb, f, key, "q=x"+v)
	}
}

func checkConcurrentApply(tb testing.TB, _ *suite, f driver.Family, p string) {
	own := func(w int) string { return fmt.Sprint(p, "own", w) }
	require.NoError(tb, together(8, func(w int) (err error) {
		for i := range 10 {
			v := put("q", fmt.Sprintf("%d-%d", w, i))
			// A row that all write and one of its own.
			err = errors.Join(err, f.Apply(background, row(p+"a", v), row(own(w), v)))
		}
		return err
	}))
	got := get(tb, f, p+"a", driver.Slice{})
	require.Len(tb, got, 1)
	require.Regexp(tb, `^q=[0-7]-[0-9]$`, got[0])
	for w := range 8 {
		is(tb, f, own(w), fmt.Sprintf("q=%d-9", w))
	}
}

func checkAtomicRow(tb testing.TB, s *suite, f driver.Family, p string) {
	const n = 10
	write := func(i int) error {
		// Odd generations have the cells 0 to 9, even ones 5 to 14.
		m := row(p + "a")
		low, other := 5, 0
		if i%2 == 1 {
			low, other = 0, 10
		}
		for c := range n {
			m.Puts = append(m.Puts, put(fmt.Sprintf("%02d", low+c), fmt.Sprint(i)))
		}
		for c := range n / 2 {
			m.Deletes = append(m.Deletes, fmt.Appendf(nil, "%02d", other+c))
		}
		return f.Apply(background, m)
	}
	require.NoError(tb, write(0))
	whole := func(got cells) {
		tb.Helper()
		require.Len(tb, got, n, "a torn row: %q", show(got))
		var first int
		_, err := fmt.Sscanf(string(got[0].Qualifier), "%d", &first)
		require.NoError(tb, err)
		for i, c := range got {
			require.Equal(tb, string(got[0].Value), string(c.Value), "a torn row: %q", show(got))
			require.Equal(tb, fmt.Sprintf("%02d", first+i), string(c.Qualifier), "a torn row: %q", show(got))
		}
	}
	r := within(p)
	r.AnyOrder = f == s.wide(tb)
	during(tb, write, func() {
		for i := range 150 {
			whole(read(tb, f, p+"a", driver.Slice{}))
			if r.AnyOrder && i%8 > 0 {
				continue // it may have to read the whole family
			}
			rows := scan(tb, f, r)
			require.Len(tb, rows, 1)
			whole(rows[0].Cells)
		}
	})
}

// checkTTL allows for databases that round the time of the put down, so that a cell may end up to
// a second early, and for a second of other slack.
func checkTTL(tb testing.TB, _ *suite, f driver.Family, p string) {
	start := time.Now()
	apply(tb, f,
		row(p+"mixed", putFor(2*time.Second, "gone", "1"), put("stays", "1")),
		row(p+"gone", putFor(2*time.Second, "q", "1")),
		row(p+"brief", putFor(1, "q", "1")), // rounded up to a second
		row(p+"renewed", putFor(2*time.Second, "q", "1")),
		row(p+"long", putFor(100*time.Hour, "q", "1")),
	)
	stored := time.Now()
	apply(tb, f, row(p+"renewed", put("q", "2")))
	rows := scan(tb, f, within(p))
	if time.Since(start) < 700*time.Millisecond { // none has ended yet
		is(tb, f, p+"mixed", "gone=1", "stays=1")
		is(tb, f, p+"gone", "q=1")
		require.Contains(tb, keys(rows), p+"gone")
	}
	for _, r := range rows {
		for _, c := range r.Cells {
			require.Zero(tb, c.TTL, "reads leave the TTL zero")
		}
	}
	eventually(tb, 4*time.Second, "a cell of one second stayed", func() bool {
		return len(get(tb, f, p+"brief", driver.Slice{})) == 0
	})
	eventually(tb, time.Until(stored.Add(5*time.Second)), "a cell of two seconds stayed", func() bool {
		return len(get(tb, f, p+"gone", driver.Slice{})) == 0 && len(get(tb, f, p+"mixed", driver.Slice{})) == 1
	})
	require.Equal(tb, []string{p + "long", p + "mixed", p + "renewed"}, keys(scan(tb, f, within(p))))
	is(tb, f, p+"mixed", "stays=1")
	is(tb, f, p+"renewed", "q=2") // the time to live of an overwritten value is over
	is(tb, f, p+"long", "q=1")

	require.ErrorIs(tb, f.Apply(background, row(p+"x", putFor(-1, "q", "1"))), driver.ErrRange)
}
