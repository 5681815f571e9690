package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
)

var tableKillsFlag = flag.Int("e2e.tablekills", 8, "how many processes TestKilledTableClients kills, for each database")

// TestKilledTableClients has four processes insert, update, delete and query rows of one table and
// rebalance its index, and kills them at random moments; new ones take their place. What they have
// told must make sense: there is one order of all that happened to a row, and to a unit of the
// index, in which each call returned what it should, and no write that was acknowledged is lost. What
// a killed process had begun may have been done at any later time. At the end a fresh process looks
// at everything. The embedded database has one process at a time.
//
//	go test -run KilledTableClients ./internal/e2e -e2e.tablekills 200
func TestKilledTableClients(t *testing.T) {
	for _, kind := range testdb.All {
		if !kind.Shared() {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			kind.Need(t)
			kills := *tableKillsFlag
			if testing.Short() {
				kills = min(kills, 3)
			}
			h := newTableHistory(t, kind, "")
			v := h.run(t, kills)
			require.Empty(t, v.wrong)
			t.Logf("%v; %d rebalances, %d torn rows, %d errors to try again after", v, h.rebalances, h.torn, len(h.later))
			require.Greater(t, v.ofRows, 10*kills, "too little was done to prove anything")
			require.Greater(t, v.ofUnits, 10*kills)
			require.LessOrEqual(t, h.torn, 1+kills/50, "rows are torn more often than clocks agree by chance")
		})
	}
}

// TestBrokenTableIsNoticed lets the same test find out what is wrong with a database.
func TestBrokenTableIsNoticed(t *testing.T) {
	for _, how := range []string{"forgets rows", "forgets postings"} {
		t.Run(how, func(t *testing.T) {
			for range 10 {
				h := newTableHistory(t, testdb.All[1], how)
				if v := h.run(t, 2); len(v.wrong) > 0 {
					first, _, _ := strings.Cut(v.wrong[0], "\n")
					t.Log("noticed: ", first)
					return
				}
			}
			t.Fatal("nothing was noticed")
		})
	}
}

// A tableHistory is what processes have told of their use of a table.
type tableHistory struct {
	kind    testdb.Database
	order   order
	r       *rand.Rand
	journal *journal

	mu         sync.Mutex
	rebalances int
	torn       int
	later      []string
	wrong      []string
}

func newTableHistory(t *testing.T, kind testdb.Database, how string) *tableHistory {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -e2e.seed %d", seed)
	return &tableHistory{
		kind: kind, journal: newJournal(), r: rand.New(rand.NewPCG(seed, 1)),
		order: order{
			Database: kind.Name, Name: kind.Reserve(t), Scheme: tableScheme,
			Key: bytes.Repeat([]byte{7}, 32), Begun: time.Now(), Break: how,
		},
	}
}

// run starts processes, kills as many as it is told, and judges.
func (h *tableHistory) run(t *testing.T, kills int) verdict {
	clients, longest := 1, 500*time.Millisecond
	if h.kind.Server {
		clients, longest = 4, 4*time.Second
	}
	h.look(t, 0, []int64{1}) // which makes the table
	lives := make(chan order, kills)
	long := make([]time.Duration, kills+1)
	for i := range kills {
		o := h.order
		o.Number, o.Seed = i+1, h.r.Uint64()
		long[o.Number] = time.Duration(h.r.Int64N(int64(longest)))
		lives <- o
	}
	close(lives)
	var wg sync.WaitGroup
	failures := make(chan error, kills)
	for range clients {
		wg.Go(func() {
			for o := range lives {
				p := start(t, o)
				told := false
				for p.lines.Scan() {
					if !told { // its time begins when it has done something
						told = true
						time.AfterFunc(long[o.Number], func() { _ = p.cmd.Process.Kill() })
					}
					h.take(p.lines.Text())
				}
				if err := p.cmd.Wait(); !told {
					failures <- fmt.Errorf("a process did not start: %w", err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	require.NoError(t, <-failures)
	h.look(t, kills+1, h.journal.rows())
	v := h.journal.judge()
	v.wrong = append(h.wrong, v.wrong...)
	return v
}

// look has a fresh process look at the table.
func (h *tableHistory) look(t *testing.T, number int, ids []int64) {
	o := h.order
	o.Number, o.Values, o.Break = number, ids, ""
	p := start(t, o)
	last := ""
	for p.lines.Scan() {
		last = p.lines.Text()
		h.take(last)
	}
	if err := errors.Join(p.lines.Err(), p.cmd.Wait()); err != nil || last != "done" {
		h.wrong = append(h.wrong, fmt.Sprintf("the look at everything did not end: %v, %s", err, last))
	}
}

func (h *tableHistory) take(text string) {
	what, rest, _ := strings.Cut(text, " ")
	var c call
	if what == "call" {
		if err := json.Unmarshal([]byte(rest), &c); err == nil {
			h.journal.tell(c)
			return
		}
		what = "wrong"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch what {
	case "rebalanced":
		h.rebalances++
	case "torn":
		h.torn++
	case "later":
		h.later = append(h.later, rest)
	case "wrong", "failed":
		h.wrong = append(h.wrong, text)
	}
}
