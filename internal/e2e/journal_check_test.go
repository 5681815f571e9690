package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// hand makes a journal of calls that begin and end at the given moments.
func hand(calls ...call) *journal {
	j := newJournal()
	for i, c := range calls {
		c.ID = int64(i)
		j.tell(c)
	}
	return j
}

func put(begin, end, note int64) call {
	return call{Kind: putRow, ID64: 1, Begin: begin, End: end, Note: note}
}

func got(begin, end, note int64) call {
	return call{Kind: getRow, ID64: 1, Begin: begin, End: end, Note: note}
}

func TestHistoriesOfRows(t *testing.T) {
	found := func(begin, end int64, column string, lo, hi int64, notes ...int64) call {
		c := call{Kind: queryRows, Begin: begin, End: end, Column: column, Lo: lo, Hi: hi}
		for _, n := range notes {
			c.Found = append(c.Found, rowNote{1, n})
		}
		return c
	}
	for name, c := range map[string]struct {
		calls []call
		good  bool
	}{
		"one after the other":                       {[]call{put(1, 2, 7), got(3, 4, 7), put(5, 6, 0), got(7, 8, 0)}, true},
		"an acknowledged write is lost":             {[]call{put(1, 2, 7), got(3, 4, 0)}, false},
		"an acknowledged update is lost":            {[]call{put(1, 2, 7), put(3, 4, 8), got(5, 6, 7)}, false},
		"a deletion is lost":                        {[]call{put(1, 2, 7), put(3, 4, 0), got(5, 6, 7)}, false},
		"at the same time":                          {[]call{put(1, 9, 7), put(2, 8, 8), got(3, 4, 8), got(5, 6, 7)}, true},
		"back and forth":                            {[]call{put(1, 9, 7), put(2, 8, 8), got(3, 4, 8), got(5, 6, 7), got(7, 8, 8)}, false},
		"two reads at the same time differ":         {[]call{put(1, 2, 7), put(3, 9, 8), got(4, 6, 8), got(5, 8, 7)}, true},
		"unknown outcome, not applied":              {[]call{put(1, 2, 7), put(3, 0, 8), got(5, 6, 7), got(7, 8, 7)}, true},
		"unknown outcome, applied late":             {[]call{put(1, 2, 7), put(3, 0, 8), got(5, 6, 7), got(7, 8, 8)}, true},
		"unknown outcome, applied and undone":       {[]call{put(1, 2, 7), put(3, 0, 8), got(5, 6, 8), got(7, 8, 7)}, false},
		"a write is made twice":                     {[]call{put(1, 20, 7), got(2, 3, 7), put(4, 5, 8), got(6, 7, 8), got(8, 9, 7)}, false},
		"a deletion is made twice":                  {[]call{put(1, 2, 7), put(3, 20, 0), got(4, 5, 0), put(6, 7, 8), got(8, 9, 0)}, false},
		"an update is made, and finds no row":       {[]call{put(1, 2, 7), got(3, 20, 0), got(4, 5, 8), put(6, 7, 0), got(8, 9, 0)}, false},
		"unknown outcome, made twice":               {[]call{put(1, 2, 7), put(3, 0, 8), got(4, 5, 8), put(6, 7, 9), got(8, 9, 8)}, false},
		"unknown outcome, deletion":                 {[]call{put(1, 2, 7), put(3, 0, 0), got(5, 6, 7), got(7, 8, 0), got(9, 10, 0)}, true},
		"unknown outcome, deletion undone":          {[]call{put(1, 2, 7), put(3, 0, 0), got(5, 6, 0), got(7, 8, 7)}, false},
		"unknown outcome, before it began":          {[]call{put(1, 2, 7), got(3, 4, 8), put(5, 0, 8)}, false},
		"found":                                     {[]call{put(1, 2, 7), found(3, 4, "id", 0, 3, 7)}, true},
		"found with what was replaced":              {[]call{put(1, 2, 7), put(3, 4, 8), found(5, 6, "id", 0, 3, 7)}, false},
		"found where nobody put it":                 {[]call{found(3, 4, "id", 0, 3, 7)}, false},
		"missed":                                    {[]call{put(1, 2, 7), found(3, 4, "id", 0, 3)}, false},
		"missed, outside":                           {[]call{put(1, 2, 7), found(3, 4, "id", 2, 3)}, true},
		"missed, while it is written":               {[]call{put(1, 2, 7), put(3, 6, 8), found(4, 5, "id", 0, 3)}, true},
		"missed, while it may be written":           {[]call{put(1, 2, 7), put(3, 0, 8), found(4, 5, "id", 0, 3)}, true},
		"missed, deletion of unknown outcome":       {[]call{put(1, 2, 7), put(3, 0, 0), found(4, 5, "id", 0, 3), got(6, 7, 0)}, true},
		"missed by a column, which has its value":   {[]call{put(1, 2, 7), found(3, 4, "at", value("at", 1, 7), value("at", 1, 7))}, false},
		"missed by a column, which has another":     {[]call{put(1, 2, 7), found(3, 4, "at", value("at", 1, 7)+1, 100)}, true},
		"a query of unknown outcome says nothing":   {[]call{put(1, 2, 7), found(3, 0, "id", 0, 3)}, true},
		"a read that has not returned says nothing": {[]call{put(1, 2, 7), got(3, 0, 0)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := hand(c.calls...).judge()
			require.Equal(t, c.good, len(v.wrong) == 0, v.wrong)
		})
	}
}

func TestHistoriesOfUnits(t *testing.T) {
	commit := func(begin, end int64, applied bool, expect, to string) call {
		return call{Kind: commitUnit, Unit: "u", Begin: begin, End: end, Applied: applied,
			Expect: []cell{{"", expect, ""}}, Puts: []cell{{"", to, ""}, {"01" + to, "record", ""}}}
	}
	read := func(begin, end int64, heads ...string) call {
		c := call{Kind: readUnit, Unit: "u", Begin: begin, End: end, Slice: &driver.Slice{Only: [][]byte{{}}}}
		for _, h := range heads {
			c.Cells = append(c.Cells, cell{"", h, ""})
		}
		return c
	}
	all := func(begin, end int64, cells ...cell) call {
		return call{Kind: readUnit, Unit: "u", Begin: begin, End: end, Slice: &driver.Slice{Start: []byte{1}, Head: true}, Cells: cells}
	}
	for name, c := range map[string]struct {
		calls []call
		good  bool
	}{
		"one after the other":              {[]call{commit(1, 2, true, "", "a"), commit(3, 4, true, "a", "b"), all(5, 6, cell{"", "b", ""}, cell{"01a", "record", ""}, cell{"01b", "record", ""})}, true},
		"refused":                          {[]call{commit(1, 2, true, "", "a"), commit(3, 4, false, "", "b"), read(5, 6, "a")}, true},
		"refused without reason":           {[]call{commit(1, 2, true, "", "a"), commit(3, 4, false, "a", "b"), read(5, 6, "a")}, false},
		"two have won":                     {[]call{commit(1, 4, true, "", "a"), commit(2, 3, true, "", "b")}, false},
		"an acknowledged commit is lost":   {[]call{commit(1, 2, true, "", "a"), commit(3, 4, true, "a", "b"), read(5, 6, "a")}, false},
		"a record is lost":                 {[]call{commit(1, 2, true, "", "a"), all(5, 6, cell{"", "a", ""})}, false},
		"head and records of two instants": {[]call{commit(1, 2, true, "", "a"), commit(3, 9, true, "a", "b"), all(4, 5, cell{"", "a", ""}, cell{"01a", "record", ""}, cell{"01b", "record", ""})}, false},
		"unknown, not applied":             {[]call{commit(1, 2, true, "", "a"), commit(3, 0, false, "a", "b"), read(5, 6, "a"), commit(7, 8, true, "a", "c"), read(9, 10, "c")}, true},
		"unknown, applied late":            {[]call{commit(1, 2, true, "", "a"), commit(3, 0, false, "a", "b"), read(5, 6, "a"), read(9, 10, "b")}, true},
		"unknown, applied against its condition": {[]call{
			commit(1, 2, true, "", "a"), commit(3, 0, false, "a", "b"), commit(5, 6, true, "a", "c"), read(9, 10, "b")}, false},
		"unknown, never seen, but the reason for a refusal": {[]call{
			commit(1, 2, true, "", "a"), commit(3, 0, false, "a", "b"), commit(5, 6, false, "a", "c"), commit(7, 8, true, "b", "d"), read(9, 10, "d")}, true},
		"unknown, applied twice": {[]call{
			commit(1, 2, true, "", "a"), commit(3, 0, false, "a", "b"), read(5, 6, "b"), commit(7, 8, true, "b", "a"), read(9, 10, "b")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := hand(c.calls...).judge()
			require.Equal(t, c.good, len(v.wrong) == 0, v.wrong)
		})
	}
}

// What is lost among many writes of unknown outcome is found out, and in no more than a moment.
func TestLostAmongUnknownOutcomes(t *testing.T) {
	calls := []call{{Kind: putRow, ID64: 1, Begin: 1, End: 2, Note: 7}, {Kind: commitUnit, Unit: "u", Begin: 1, End: 2, Applied: true, Puts: []cell{{"", "a", ""}}}}
	for i := range int64(40) {
		calls = append(calls, put(3+i, 0, 7), call{Kind: commitUnit, Unit: "u", Begin: 3 + i, Expect: []cell{{"", fmt.Sprint(i), ""}}, Puts: []cell{{"", fmt.Sprint(i + 1), ""}}})
	}
	calls = append(calls, put(50, 51, 8), got(52, 53, 6), call{Kind: commitUnit, Unit: "u", Begin: 50, End: 51, Applied: true, Expect: []cell{{"", "a", ""}}, Puts: []cell{{"", "b", ""}}},
		call{Kind: readUnit, Unit: "u", Begin: 52, End: 53, Slice: &driver.Slice{Only: [][]byte{{}}}, Cells: []cell{{"", "c", ""}}})
	v := hand(calls...).judge()
	require.Len(t, v.wrong, 2)
	require.Contains(t, v.wrong[0], "row 1: its 43 calls are Illegal")
	require.Contains(t, v.wrong[1], "unit u: its 43 calls are Illegal")
}

// loadMemory has three clients with two goroutines each use a database in memory for a while, which
// may be broken, and returns what is found to be wrong.
func loadMemory(t *testing.T, seed uint64, steps int, kind tableKind, how string, crashes bool) []string {
	t.Helper()
	ctx := context.Background()
	j := newJournal()
	var mu sync.Mutex
	var found []string
	wrong := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, fmt.Sprintf(format, args...))
	}
	memory := drivertest.NewMemory()
	key := ope.GenerateKey()
	_, err := connect(ctx, 9, memory, key, kind, "", j.tell)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var connected atomic.Bool
	var starts []func()
	for n := range 3 {
		db := driver.DB(memory)
		if crashes {
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			db = drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if !connected.Load() || r.IntN(100) > 0 {
					return drivertest.NoFault
				}
				return []drivertest.Fault{
					drivertest.FailBefore, drivertest.Lose, drivertest.FailPartly, drivertest.FailAfter, drivertest.FailLate,
				}[r.IntN(5)]
			})
		}
		c, err := connect(ctx, n, db, key, kind, how, j.tell)
		require.NoError(t, err)
		for g := range 2 {
			client := c.client(g, seed+uint64(n))
			client.wrong, client.later = wrong, func(error) {}
			starts = append(starts, func() {
				for range steps {
					if err := client.step(ctx); err != nil {
						wrong("client %d: %v", client.number, err)
						return
					}
				}
			})
		}
	}
	connected.Store(true)
	for _, run := range starts {
		wg.Go(run)
	}
	wg.Wait()
	c, err := connect(ctx, 10, memory, key, kind, "", j.tell)
	require.NoError(t, err)
	client := c.client(0, 0)
	client.wrong = wrong
	if _, err = client.look(ctx, j.rows()); err != nil {
		wrong("%v", err)
	}
	v := j.judge()
	t.Log(v)
	if how == "" {
		require.Greater(t, v.ofRows, 6*steps)
		require.Greater(t, v.ofUnits, 3*steps)
		if crashes {
			require.NotZero(t, v.pending)
		}
	}
	return append(found, v.wrong...)
}

// A database as it should be gives histories that make sense, also where outcomes are unknown.
func TestLoadOfSoundDatabase(t *testing.T) {
	for _, kind := range []tableKind{hintedTable, copiesTable} {
		for _, crashes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, crashes %v", kind, crashes), func(t *testing.T) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				require.Empty(t, loadMemory(t, seed, 150, kind, "", crashes))
			})
		}
	}
}

// A database that is broken is found out, in each way it may be, by the histories of what is broken.
func TestLoadOfBrokenDatabase(t *testing.T) {
	for _, how := range faults {
		t.Run(how, func(t *testing.T) {
			what := "unit "
			if how == "forgets rows" || how == "forgets postings" {
				what = "row "
			}
			for seed := range uint64(20) {
				for _, found := range loadMemory(t, seed, 60, hintedTable, how, false) {
					if first, _, _ := strings.Cut(found, "\n"); strings.HasPrefix(first, what) {
						t.Log("noticed: ", first)
						return
					}
				}
			}
			t.Fatal("nothing was noticed")
		})
	}
}

// What makes no sense is shown, and not what comes long after it.
func TestWhatMakesNoSenseIsShown(t *testing.T) {
	const ms = 1_000_000
	calls := []call{put(ms, 2*ms, 7), got(3*ms, 4*ms, 8)}
	for i := range int64(100) {
		calls = append(calls, got((10+2*i)*ms, (11+2*i)*ms, 7))
	}
	v := hand(calls...).judge()
	require.Len(t, v.wrong, 1)
	require.Contains(t, v.wrong[0], "  2000..3000 µs, client 0: get note 8\n")
	require.NotContains(t, v.wrong[0], "note 7\n  200000..")
}
