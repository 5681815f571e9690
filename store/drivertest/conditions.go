package drivertest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var conditionChecks = []check{
	{"CheckAndPut puts if, and only if, the cell is as expected", onBoth, checkCheckAndPut},
	{"CheckAndPut refuses what not every database can", onOrdered, checkConditionalRefusals},
	{"CheckAndPut lets exactly one of many win", onWide, checkRace},
	{"CheckAndPut loses no update", onWide, checkCounter},
	{"PutGuarded puts if its guard holds", onWide, checkGuard},
	{"Get leaves out nothing but what may be skipped", onWide, checkSkip},
	{"PutGuarded gives a free place to one of many", onWide, checkPlaces},
	{"Commit needs all expectations", onBoth, checkCommit},
	{"Commit swaps cells at once", onWide, checkSwap},
	{"Commit distinguishes absent from empty", onWide, checkAbsentOrEmpty},
}

func checkCheckAndPut(tb testing.TB, _ *suite, f driver.Family, p string) {
	key := p + "a"
	has := func(want ...string) {
		tb.Helper()
		is(tb, f, key, want...)
	}
	require.False(tb, checkAndPut(tb, f, key, put("v", "1"), put("v", "2")), "an absent row has no value")
	has()
	require.True(tb, checkAndPut(tb, f, key, absent("v"), put("v", "1"), put("x", "a")))
	has("v=1", "x=a")
	require.False(tb, checkAndPut(tb, f, key, absent("v"), put("v", "2"), put("x", "b")), "a cell that exists is not absent")
	has("v=1", "x=a")
	require.False(tb, checkAndPut(tb, f, key, put("v", "2"), put("v", "3")), "another value")
	require.False(tb, checkAndPut(tb, f, key, put("v", "1\x00"), put("v", "3")), "a longer value")
	require.False(tb, checkAndPut(tb, f, key, put("v", "\x00"), put("v", "3")), "another value")
	has("v=1", "x=a")
	require.True(tb, checkAndPut(tb, f, key, put("v", "1"), put("v", "12"), put("y", "c")))
	has("v=12", "x=a", "y=c")
	require.False(tb, checkAndPut(tb, f, key, put("v", "1"), put("v", "3")), "a prefix of the value")
	require.True(tb, checkAndPut(tb, f, key, put("v", "12"), put("z", "d")), "the cell that is checked need not be put")
	has("v=12", "x=a", "y=c", "z=d")
	require.True(tb, checkAndPut(tb, f, key, absent("none"), put("v", "3")), "an absent cell of a row that exists")
	has("v=3", "x=a", "y=c", "z=d")
	require.True(tb, checkAndPut(tb, f, key, put("v", "3"), put("v", "3")), "the same value again")
	require.True(tb, checkAndPut(tb, f, key+"\x00", absent(""), put("", "edge")), "an empty qualifier")
	require.True(tb, checkAndPut(tb, f, key+"\x00", put("", "edge"), put("", "\xff\x00")))
	has("v=3", "x=a", "y=c", "z=d")
	for i := range 20 { // without a pause
		require.True(tb, checkAndPut(tb, f, p+"n", number(i), number(i+1)), "step %d", i)
	}
}

// number is the cell "n" of a counter, absent for zero.
func number(i int) driver.Cell {
	if i == 0 {
		return absent("n")
	}
	return put("n", fmt.Sprint(i))
}

func checkConditionalRefusals(tb testing.TB, _ *suite, f driver.Family, p string) {
	key, empty, expiring := b(p+"a"), driver.Cell{Qualifier: b("q"), Value: []byte{}}, putFor(time.Hour, "q", "v")
	_, err := f.CheckAndPut(background, key, empty, put("q", "v"))
	require.Error(tb, err, "an empty value was expected")
	_, err = f.CheckAndPut(background, key, absent("q"), expiring)
	require.Error(tb, err, "a TTL under a condition")
	if c, ok := f.(driver.Committer); ok {
		_, err := c.Commit(background, key, cells{absent("x"), empty}, nil, nil)
		require.Error(tb, err, "an empty value was expected")
		_, err = c.Commit(background, key, nil, cells{expiring}, nil)
		require.Error(tb, err, "a TTL under a condition")
	}
	is(tb, f, p+"a")
}

func checkRace(tb testing.TB, _ *suite, f driver.Family, p string) {
	for round := range 10 {
		key := fmt.Sprintf("%s%d", p, round)
		expect := absent("q")
		if round%2 == 1 {
			require.True(tb, checkAndPut(tb, f, key, absent("q"), put("q", "old")))
			expect = put("q", "old")
		}
		const racers = 8
		var won, doubtful [racers]bool
		require.NoError(tb, together(racers, func(i int) (err error) {
			won[i], err = f.CheckAndPut(background, b(key), expect, put("q", fmt.Sprint(i)), put(fmt.Sprintf("by%d", i), ""))
			if doubtful[i] = errors.Is(err, driver.ErrUnknownOutcome); doubtful[i] {
				return nil
			}
			return err
		}))
		count := func(flags [racers]bool) (n int) {
			for _, set := range flags {
				if set {
					n++
				}
			}
			return n
		}
		got := get(tb, f, key, driver.Slice{})
		require.Len(tb, got, 2, "%q", got)
		var winner int
		_, err := fmt.Sscanf(got[1], "q=%d", &winner)
		require.NoError(tb, err, "%q", got)
		require.Equal(tb, fmt.Sprintf("by%d=", winner), got[0])
		require.True(tb, won[winner] || doubtful[winner], "the loser %d left its value", winner)
		require.LessOrEqual(tb, count(won), 1, "several won")
		if count(doubtful) == 0 {
			require.Equal(tb, 1, count(won), "exactly one wins")
		}
	}
}

func checkCounter(tb testing.TB, _ *suite, f driver.Family, p string) {
	const workers, steps = 8, 4
	var unknown atomic.Int64
	require.NoError(tb, together(workers, func(int) error {
		for done := 0; done < steps; {
			found, err := f.Get(background, b(p+"a"), driver.Slice{})
			n := 0
			if err == nil && len(found) > 0 {
				_, err = fmt.Sscan(string(found[0].Value), &n)
			}
			if err != nil {
				return err
			}
			ok, err := f.CheckAndPut(background, b(p+"a"), number(n), number(n+1))
			switch {
			case errors.Is(err, driver.ErrUnknownOutcome):
				unknown.Add(1)
				done++ // counted, perhaps in vain
			case err != nil:
				return err
			case ok:
				done++
			}
		}
		return nil
	}))
	var n int
	_, err := fmt.Sscanf(get(tb, f, p+"a", driver.Slice{})[0], "n=%d", &n)
	require.NoError(tb, err)
	require.LessOrEqual(tb, n, workers*steps)
	require.GreaterOrEqual(tb, n, workers*steps-int(unknown.Load()), "updates were lost")
}

// able returns a family as one of a kind that not every database has.
func able[F driver.Family](tb testing.TB, f driver.Family) F {
	tb.Helper()
	able, ok := f.(F)
	if !ok {
		tb.Skipf("no %v", reflect.TypeFor[F]())
	}
	return able
}

func checkGuard(tb testing.TB, _ *suite, f driver.Family, p string) {
	g := able[driver.Guarder](tb, f)
	key := p + "a"
	has := func(want ...string) {
		tb.Helper()
		is(tb, f, key, want...)
	}
	try := func(prefix string, free []string, puts ...driver.Cell) bool {
		tb.Helper()
		ok, err := g.PutGuarded(background, b(key), driver.Guard{Prefix: b(prefix), Free: bs(free...), Gone: b("-")}, puts...)
		require.NoError(tb, err)
		return ok
	}
	require.False(tb, try("1", nil, put("x", "1")), "no row")
	require.True(tb, checkAndPut(tb, f, key, absent(""), put("\x01b", "-"), put("\x01c", "-"), put("\x01d", "live")))
	require.False(tb, try("1", []string{"\x01b"}, put("x", "1")), "no first cell, though one is free")
	require.True(tb, checkAndPut(tb, f, key, absent(""), put("", "1a")))
	row := []string{"=1a", "\x01b=-", "\x01c=-", "\x01d=live"}
	has(row...)
	require.False(tb, try("2", nil, put("x", "1")), "another value")
	require.False(tb, try("1a+", nil, put("x", "1")), "longer than the value")
	require.False(tb, try("1", []string{"\x01d"}, put("x", "1")), "not free")
	require.False(tb, try("1", []string{"\x01a", "\x01b", "\x01d", "\x01e"}, put("x", "1")), "one is not free")
	has(row...)
	require.True(tb, try("1", nil, put("", "1b")), "no cells need be free")
	require.True(tb, try("1b", []string{"\x01a", "\x01b", "\x01c", "\x01cc", "\x01e"}, put("", "1c"), put("\x01b", "now"), put("\x01d", "-")))
	has("=1c", "\x01b=now", "\x01c=-", "\x01d=-")
	require.False(tb, try("1", []string{"\x01b"}, put("x", "1")), "taken by now")
	require.True(tb, try("1", []string{"\x01d"}, put("\x01d", "again")), "gone by now")
	require.True(tb, try("1", []string{"\x01ba"}, put("\x01bb", "v")), "what others begin with counts for nothing")
	for _, wrong := range []driver.Guard{{Gone: b("-")}, {Prefix: b("1")}, {Prefix: b("1"), Gone: b("-"), Free: bs("b", "a")}, {Prefix: b("1"), Gone: b("-"), Free: bs("")}} {
		_, err := g.PutGuarded(background, b(key), wrong, put("x", "1"))
		require.Error(tb, err)
	}
	has("=1c", "\x01b=now", "\x01bb=v", "\x01c=-", "\x01d=again")
}

// checkSkip reads with each limit. A database need not skip anything.
func checkSkip(tb testing.TB, _ *suite, f driver.Family, p string) {
	var puts cells
	var others []string
	for i := range 12 {
		c := put(fmt.Sprintf("\x01%02d", i), []string{"-", "-", "v", "--"}[i%4])
		if puts = append(puts, c); i%4 > 1 {
			others = append(others, show(cells{c})...)
		}
	}
	require.True(tb, checkAndPut(tb, f, p+"a", absent(""), append(puts, put("", "first"))...))
	for limit := range len(puts) + 2 {
		for _, head := range []bool{false, true} {
			got := get(tb, f, p+"a", driver.Slice{Start: b("\x01"), End: b("\x02"), Limit: limit, Head: head, Skip: b("-")})
			if head {
				require.Equal(tb, "=first", got[0])
				got = got[1:]
			}
			whole := limit == 0 || len(got) < limit
			require.True(tb, whole || len(got) == limit, "%d cells of %d: %q", len(got), limit, got)
			kept := slices.DeleteFunc(got, func(c string) bool { return strings.HasSuffix(c, "=-") })
			require.Equal(tb, others[:len(kept)], kept, "limit %d", limit)
			require.True(tb, !whole || len(kept) == len(others), "limit %d: %q", limit, kept)
		}
	}
}

// checkPlaces has many take the same places of a row, each as often as it wins one.
func checkPlaces(tb testing.TB, _ *suite, f driver.Family, p string) {
	g := able[driver.Guarder](tb, f)
	const takers, places = 6, 20
	require.True(tb, checkAndPut(tb, f, p+"a", absent(""), put("", "1"), put("\x0100", "-")))
	var won, doubtful [takers][places]bool
	require.NoError(tb, together(takers, func(i int) (err error) {
		for n := range places {
			q := fmt.Sprintf("\x01%02d", n)
			won[i][n], err = g.PutGuarded(background, b(p+"a"), driver.Guard{Prefix: b("1"), Free: bs(q), Gone: b("-")}, put(q, fmt.Sprint(i)), put("", fmt.Sprint(1, i, n)))
			if doubtful[i][n] = errors.Is(err, driver.ErrUnknownOutcome); err != nil && !doubtful[i][n] {
				return err
			}
		}
		return nil
	}))
	got := get(tb, f, p+"a", driver.Slice{Start: b("\x01")})
	require.Len(tb, got, places, "%q", got)
	for n := range places {
		var winner int
		_, err := fmt.Sscanf(got[n][strings.IndexByte(got[n], '=')+1:], "%d", &winner)
		require.NoError(tb, err, "%q", got)
		for i := range takers {
			require.True(tb, won[i][n] == (i == winner) || doubtful[i][n], "%d took %d, which has %q", i, n, got[n])
		}
	}
}

func checkCommit(tb testing.TB, _ *suite, f driver.Family, p string) {
	c := able[driver.Committer](tb, f)
	key := p + "a"
	has := func(want ...string) {
		tb.Helper()
		is(tb, f, key, want...)
	}
	commit := func(expect, puts cells, deletes ...string) bool {
		tb.Helper()
		return commit(tb, c, key, expect, puts, deletes...)
	}
	require.True(tb, commit(cells{absent("x"), absent("y")}, cells{put("x", "1"), put("y", "1"), put("z", "1")}))
	has("x=1", "y=1", "z=1")
	require.False(tb, commit(cells{put("x", "1"), put("y", "2")}, cells{put("x", "9")}, "z"), "the second does not hold")
	require.False(tb, commit(cells{put("x", "2"), put("y", "1")}, cells{put("x", "9")}, "z"), "the first does not hold")
	require.False(tb, commit(cells{put("x", "1"), absent("y")}, cells{put("x", "9")}, "z"), "present, not absent")
	require.False(tb, commit(cells{put("x", "1"), put("none", "1")}, cells{put("x", "9")}, "z"), "absent, not present")
	has("x=1", "y=1", "z=1")
	require.True(tb, commit(cells{put("x", "1"), put("y", "1"), absent("none")}, cells{put("x", "2")}, "y", "never"))
	has("x=2", "z=1")
	require.True(tb, commit(cells{absent("y"), put("x", "2")}, nil, "z"), "deletes alone")
	has("x=2")
	require.True(tb, commit(cells{absent("z")}, cells{put("z", "2")}), "a deleted cell is absent")
	has("x=2", "z=2")
	require.True(tb, commit(cells{put("z", "2")}, nil, "x", "z"), "the cell that is checked may be deleted")
	has()
	require.True(tb, commit(cells{absent("x"), absent("z")}, cells{put("x", "3")}), "the row may come back")
	has("x=3")
	for i := range 10 { // without a pause
		require.True(tb, commit(cells{put("x", "3")}, cells{put("w", fmt.Sprint(i))}), "round %d", i)
		require.True(tb, commit(cells{put("w", fmt.Sprint(i))}, nil, "w"), "round %d", i)
		has("x=3")
	}
	// Many cells in one commit.
	var puts cells
	var deletes []string
	for i := range 50 {
		q := fmt.Sprintf("m%03d", i)
		puts, deletes = append(puts, put(q, "v")), append(deletes, q)
	}
	require.True(tb, commit(cells{put("x", "3")}, puts))
	require.Len(tb, get(tb, f, key, driver.Slice{}), 51)
	require.True(tb, commit(cells{put("m049", "v")}, cells{put("x", "4")}, deletes...))
	has("x=4")
	_, err := c.Commit(background, b(key), nil, cells{put("x", "5")}, bs("x"))
	require.ErrorIs(tb, err, driver.ErrOverlap)
	has("x=4")
}

// checkSwap relabels as an order index does: labels that exist before and after change their
// values, some go and some come, and no reader sees a mixture.
func checkSwap(tb testing.TB, _ *suite, f driver.Family, p string) {
	c := able[driver.Committer](tb, f)
	key := p + "a"
	require.True(tb, commit(tb, c, key, cells{absent("version")}, cells{put("version", "0"), put("label1", "A"), put("label2", "B")}))
	reads := func(int) error {
		found, err := f.Get(background, b(key), driver.Slice{})
		if err != nil {
			return err
		}
		got := strings.Join(show(found), " ")
		for _, begin := range []string{"label1=A label2=B version=", "label1=B label2=A version=", "label2=A label3=B version="} {
			if strings.HasPrefix(got, begin) {
				return nil
			}
		}
		return fmt.Errorf("a torn commit: %s", got)
	}
	swaps := func() {
		for i := range 30 {
			change := []struct {
				puts    cells
				deletes []string
			}{
				{cells{put("label1", "B"), put("label2", "A")}, nil},
				{cells{put("label3", "B")}, []string{"label1"}},
				{cells{put("label1", "A"), put("label2", "B")}, []string{"label3"}},
			}[i%3]
			puts := append(change.puts, put("version", fmt.Sprint(i+1)))
			require.True(tb, commit(tb, c, key, cells{put("version", fmt.Sprint(i))}, puts, change.deletes...))
		}
	}
	during(tb, reads, func() { during(tb, reads, swaps) })
	is(tb, f, key, "label1=A", "label2=B", "version=30")
}

func checkAbsentOrEmpty(tb testing.TB, _ *suite, f driver.Family, p string) {
	c := able[driver.Committer](tb, f)
	key := p + "a"
	require.True(tb, commit(tb, c, key, nil, cells{put("empty", "")}), "without an expectation")
	is(tb, f, key, "empty=")
	require.False(tb, commit(tb, c, key, cells{absent("empty")}, cells{put("q", "1")}), "an empty value is not absent")
	require.True(tb, commit(tb, c, key, cells{absent("none")}, cells{put("q", "1")}))
	is(tb, f, key, "empty=", "q=1")
}
