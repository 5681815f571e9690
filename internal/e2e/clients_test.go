package e2e

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

var (
	killsFlag = flag.Int("e2e.kills", 4, "how many processes TestKilledClients kills, for each database and scheme")
	seedFlag  = flag.Uint64("e2e.seed", 0, "seed of TestKilledClients; 0 draws one")
)

// TestKilledClients has several processes encrypt values with one index, and kills them at random
// moments; new ones take their place. At the end a fresh process looks at the index: its values must
// be in order and each there once, nothing that was acknowledged may be lost, and nothing be there
// that nobody put in. The embedded database has one process at a time.
//
//	go test -run KilledClients ./internal/e2e -e2e.kills 200
func TestKilledClients(t *testing.T) {
	onShared(t, func(t *testing.T, kind testdb.Database) {
		for _, scheme := range schemes {
			t.Run(scheme.name, func(t *testing.T) {
				h := newHistory(t, kind, scheme.name, "")
				kills := *killsFlag
				switch {
				case testing.Short():
					kills = min(kills, 3)
				case !kind.Server:
					kills = (kills + 1) / 2
				}
				h.run(t, kills)
				require.Empty(t, h.wrong)
				t.Logf("%d values acknowledged in %d calls, %d ranges, %d rebalances, %d errors to try again after",
					len(h.acknowledged), h.calls, h.ranges, h.rebalances, len(h.later))
				require.GreaterOrEqual(t, len(h.acknowledged), kills, "too little was written to prove anything")
			})
		}
	})
}

// onShared runs a test for every kind of database that several processes can use. The kinds run at the
// same time: the test mostly waits for processes that start, and for their servers.
func onShared(t *testing.T, test func(t *testing.T, kind testdb.Database)) {
	for _, kind := range testdb.All {
		if !kind.Shared() {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			kind.Need(t)
			test(t, kind)
		})
	}
}

// TestBrokenIndexIsNoticed lets the same test find out what is wrong with an index.
func TestBrokenIndexIsNoticed(t *testing.T) {
	onShared(t, func(t *testing.T, kind testdb.Database) {
		for _, how := range []string{"forgets", "unconditional"} {
			if how == "unconditional" && !kind.Server { // which only several clients suffer from
				continue
			}
			t.Run(how, func(t *testing.T) {
				for range 10 {
					h := newHistory(t, kind, "wozniak", how)
					h.run(t, 4)
					if len(h.wrong) > 0 {
						t.Log("noticed: ", h.wrong[0])
						return
					}
				}
				t.Fatal("nothing was noticed")
			})
		}
	})
}

// A told is what processes have said on the way, whatever they do.
type told struct {
	mu           sync.Mutex
	rebalances   int
	torn         int
	later, wrong []string
}

// take takes a line that begins with a word which all processes use.
func (h *told) take(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch what, rest, _ := strings.Cut(line, " "); what {
	case "rebalanced":
		h.rebalances++
	case "torn":
		h.torn++
	case "later":
		h.later = append(h.later, rest)
	case "wrong", "failed":
		h.wrong = append(h.wrong, line)
	}
}

// A history is what the processes have told of an index.
type history struct {
	told
	kind  testdb.Database
	order order
	r     *rand.Rand

	tried        map[int64]bool
	acknowledged map[int64]string // with the latest ciphertext
	immutable    bool
	calls        int
	ranges       int
}

// seeded returns a source with the seed of the flag, or another one, which it logs.
func seeded(t *testing.T, stream uint64) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -e2e.seed %d", seed)
	return rand.New(rand.NewPCG(seed, stream))
}

// newOrder returns what all processes of a test are told.
func newOrder(t *testing.T, kind testdb.Database, scheme, how string) order {
	t.Helper()
	return order{
		Database: kind.Name, Name: kind.Reserve(t), Scheme: scheme,
		Key: bytes.Repeat([]byte{7}, 32), Begun: time.Now(), Break: how,
	}
}

func newHistory(t *testing.T, kind testdb.Database, scheme, how string) *history {
	s, err := schemes[slices.IndexFunc(schemes, func(s schemeKind) bool { return s.name == scheme })].new(ope.GenerateKey(), memindex.New())
	require.NoError(t, err)
	_, immutable := s.(ope.Immutable)
	return &history{
		kind: kind, order: newOrder(t, kind, scheme, how), r: seeded(t, 0),
		tried: make(map[int64]bool), acknowledged: make(map[int64]string), immutable: immutable,
	}
}

// A running is a worker process.
type running struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, o order) *running {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	p := &running{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), workerVariable+"=1")
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe() // stays open until the process has ended
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	_, err = in.Write(append(text, '\n'))
	require.NoError(t, err)
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	p.lines.Split(wholeLines)
	return p
}

// wholeLines is bufio.ScanLines without a last line that the kill has cut off: what it says was not
// told.
func wholeLines(data []byte, end bool) (int, []byte, error) {
	n := bytes.IndexByte(data, '\n') + 1
	switch {
	case n > 0:
		return n, data[:n-1], nil
	case end:
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// A life is that of a process: what it is told, and how long it lives from the first line on that
// begins with since.
type life struct {
	order order
	since string
	long  time.Duration
}

// live has processes work, as many at a time as there are clients, and kills each when its time is
// over. Take is given their lines.
func live(t *testing.T, clients int, lives []life, take func(line string)) {
	t.Helper()
	queue := make(chan life, len(lives))
	for _, l := range lives {
		queue <- l
	}
	close(queue)
	var wg sync.WaitGroup
	failures := make(chan error, len(lives))
	for range clients {
		wg.Go(func() {
			for l := range queue {
				p := start(t, l.order)
				started, begun := false, false
				for p.lines.Scan() {
					line := p.lines.Text()
					if started = true; !begun && strings.HasPrefix(line, l.since) {
						begun = true
						time.AfterFunc(l.long, func() { _ = p.cmd.Process.Kill() })
					}
					take(line)
				}
				if err := p.cmd.Wait(); !started {
					failures <- fmt.Errorf("a process did not start: %w", err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	require.NoError(t, <-failures)
}

// run starts processes and kills as many as it is told.
func (h *history) run(t *testing.T, kills int) {
	t.Helper()
	clients, longest := 1, 300*time.Millisecond
	if h.kind.Server {
		clients, longest = 4, 1500*time.Millisecond
	}
	lives := make([]life, kills)
	for i := range lives {
		lives[i] = life{h.order, "ack", time.Duration(h.r.Int64N(int64(longest)))}
		lives[i].order.Seed = h.r.Uint64()
		if i%5 == 0 {
			lives[i].since = "ready" // before it has acknowledged anything
		}
	}
	live(t, clients, lives, h.take)
	h.check(t)
}

// take takes one line.
func (h *history) take(line string) {
	what, rest, _ := strings.Cut(line, " ")
	if !slices.Contains([]string{"try", "ack", "range"}, what) {
		h.told.take(line)
		return
	}
	fields := strings.Fields(rest)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch what {
	case "try":
		h.calls++
		for _, f := range fields {
			x, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				h.wrong = append(h.wrong, line)
			}
			h.tried[x] = true
		}
	case "ack":
		x, c, ok := entry(fields)
		if !ok {
			h.wrong = append(h.wrong, line)
			return
		}
		if old, again := h.acknowledged[x]; again && h.immutable && old != c {
			h.wrong = append(h.wrong, fmt.Sprintf("%d was acknowledged as %s and as %s", x, old, c))
		}
		h.acknowledged[x] = c
	case "range":
		h.ranges++
	}
}

func entry(fields []string) (x int64, c string, ok bool) {
	if len(fields) != 2 {
		return 0, "", false
	}
	x, err := strconv.ParseInt(fields[0], 10, 64)
	_, err2 := hex.DecodeString(fields[1])
	return x, fields[1], err == nil && err2 == nil
}

// check has a fresh process look at the index.
func (h *history) check(t *testing.T) {
	o := h.order
	o.Break = ""
	o.Values = slices.AppendSeq([]int64{}, maps.Keys(h.acknowledged))
	slices.Sort(o.Values)
	p := start(t, o)
	require.True(t, p.lines.Scan())
	require.Equal(t, "ready", p.lines.Text())
	var values []int64
	var ciphertexts []string
	last := ""
	for p.lines.Scan() {
		last = p.lines.Text()
		rest, is := strings.CutPrefix(last, "entry ")
		if !is {
			h.take(last)
			continue
		}
		x, c, ok := entry(strings.Fields(rest))
		require.True(t, ok, last)
		values, ciphertexts = append(values, x), append(ciphertexts, c)
	}
	if err := p.cmd.Wait(); err != nil || last != "done" {
		h.wrong = append(h.wrong, fmt.Sprintf("the check did not end: %v, %s", err, last))
	}
	complain := func(format string, args ...any) { h.wrong = append(h.wrong, fmt.Sprintf(format, args...)) }
	for i := range values {
		x, c := values[i], ciphertexts[i]
		if i > 0 && (values[i-1] >= x || len(ciphertexts[i-1]) != len(c) || ciphertexts[i-1] >= c) {
			complain("%d has the ciphertext %s, and before it %d has %s", x, c, values[i-1], ciphertexts[i-1])
		}
		if !h.tried[x] {
			complain("%d is in the index, and nobody put it there", x)
		}
		if h.immutable && h.acknowledged[x] != c {
			complain("%d was acknowledged as %s, and is %s in the end", x, h.acknowledged[x], c)
		}
	}
	for _, x := range o.Values {
		if _, found := slices.BinarySearch(values, x); !found {
			complain("%d was acknowledged, and is lost", x)
		}
	}
}
