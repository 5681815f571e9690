package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
)

var tableKillsFlag = flag.Int("e2e.tablekills", 4, "how many processes TestKilledTableClients kills, for each database")

// TestKilledTableClients has four processes insert, update, delete and query rows of one table and
// rebalance its index, and kills them at random moments; new ones take their place. What they have
// told must make sense: all that happened to a row, or to a unit of the index, has one order in which
// each call returned what it should. No write that was acknowledged is lost. What a killed process had begun may have been done at any later time. At the end a fresh process looks
// at everything. The embedded database has one process at a time.
//
//	go test -run KilledTableClients ./internal/e2e -e2e.tablekills 200
func TestKilledTableClients(t *testing.T) {
	onShared(t, func(t *testing.T, kind testdb.Database) {
		kills := *tableKillsFlag
		if testing.Short() {
			kills = min(kills, 3)
		}
		for _, table := range tableKinds(kind) {
			t.Run(string(table), func(t *testing.T) {
				h := newTableHistory(t, kind, table, "")
				v := h.run(t, kills)
				require.Empty(t, v.wrong)
				t.Logf("%v; %d rebalances, %d torn rows, %d errors to try again after", v, h.rebalances, h.torn, len(h.later))
				require.Greater(t, v.ofRows, 10*kills, "too little was done to prove anything")
				require.Greater(t, v.ofUnits, 10*kills)
				require.LessOrEqual(t, h.torn, 1+kills/50, "rows are torn more often than clocks agree by chance")
			})
		}
	})
}

// TestBrokenTableIsNoticed lets the same test find out what is wrong with a database.
func TestBrokenTableIsNoticed(t *testing.T) {
	for how, table := range map[string]tableKind{"forgets rows": hintedTable, "forgets postings": copiesTable} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				h := newTableHistory(t, testdb.All[1], table, how)
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
	told
	kind    testdb.Database
	order   order
	r       *rand.Rand
	journal *journal
}

func newTableHistory(t *testing.T, kind testdb.Database, table tableKind, how string) *tableHistory {
	h := &tableHistory{kind: kind, journal: newJournal(), r: seeded(t, 1), order: newOrder(t, kind, tableScheme, how)}
	h.order.Table = table
	return h
}

// run starts processes, kills as many as it is told, and judges.
func (h *tableHistory) run(t *testing.T, kills int) verdict {
	t.Helper()
	clients, longest := 1, 500*time.Millisecond
	if h.kind.Server {
		clients, longest = 4, 4*time.Second
	}
	h.look(t, 0, []int64{1}) // which makes the table
	lives := make([]life, kills)
	for i := range lives {
		lives[i] = life{order: h.order}
		lives[i].order.Number, lives[i].order.Seed = i+1, h.r.Uint64()
		lives[i].long = time.Duration(h.r.Int64N(int64(longest)))
	}
	live(t, clients, lives, h.take)
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

func (h *tableHistory) take(line string) {
	if text, ok := strings.CutPrefix(line, "call "); ok {
		var c call
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			h.journal.tell(c)
			return
		}
		line = "wrong " + line
	}
	h.told.take(line)
}
