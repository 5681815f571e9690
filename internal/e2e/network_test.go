package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/index"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var (
	faultsFlag      = flag.Int("e2e.faults", 9, "how often TestBrokenNetwork breaks the network, for each database")
	networkSeedFlag = flag.Uint64("e2e.networkseed", 0, "seed of TestBrokenNetwork; 0 draws one")
)

const (
	// A client waits so long for a server where its caller does not say.
	clientTimeout = 3 * time.Second

	// A call may return so much later than its context ends. On an idle machine it is some
	// milliseconds; these run on busy ones.
	slack = 2 * time.Second

	// After a fault the clients connect again. HBase's waits longer and longer between attempts.
	mending = 20 * time.Second
)

// TestBrokenNetwork has one client write rows, run queries, encrypt with an index and change a cell
// conditionally, each in several goroutines. The network is cut, silent or slow at random moments.
// Every error is of a known kind and comes in time. The same client works when the network does. No
// conditional change is sent twice, and what was acknowledged is there.
// In the end the network falls silent for good, and the client is closed: nothing is left of it.
//
//	go test -run BrokenNetwork ./internal/e2e -e2e.faults 100
func TestBrokenNetwork(t *testing.T) {
	for _, kind := range testdb.All {
		if !kind.Server {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			kind.Need(t)
			seed := *networkSeedFlag
			if seed == 0 {
				seed = rand.Uint64()
			}
			t.Logf("repeat with -e2e.networkseed %d", seed)
			name := kind.Reserve(t)
			leaks(t)
			n := newNetworked(t, kind, name)
			r := rand.New(rand.NewPCG(seed, 0))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var wg sync.WaitGroup
			for i := range 8 {
				r := rand.New(rand.NewPCG(seed, uint64(1+i)))
				call := n.calls()[i%4]
				wg.Go(func() {
					for ctx.Err() == nil {
						n.call(ctx, call, r)
					}
				})
			}
			faults := *faultsFlag
			if testing.Short() {
				faults = min(faults, 3)
			}
			worst := time.Duration(0)
			order := r.Perm(len(networkFaults))
			for i := range faults {
				fault := networkFaults[order[i%len(order)]]
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
				fault.do(n.proxy, r)
				n.proxy.Set(proxy.Weather{})
				worst = max(worst, n.works(t, fault.name))
			}
			stop()
			wg.Wait()
			require.Empty(t, n.wrong)
			n.check(t)
			t.Logf("%d connections cut; the longest until all worked again took %v", n.proxy.Cuts(), worst)
			for _, c := range n.calls() {
				o := n.outcomes[c.name]
				t.Logf("%-12s %5d done, %4d not, of these %d with an unknown outcome", c.name, o.done, o.not, o.unknown)
				require.Positive(t, o.done)
				require.Positive(t, o.not, "nothing was disturbed")
			}
			n.noticesRepeats(t)
			n.silence(t, kind, name)
			require.Empty(t, n.wrong)
		})
	}
}

// networkFaults are what can happen to a network. Each lasts for a while and returns.
var networkFaults = []struct {
	name string
	do   func(p *proxy.Proxy, r *rand.Rand)
}{
	{"cut", func(p *proxy.Proxy, r *rand.Rand) { p.Cut() }},
	{"cut in a request", func(p *proxy.Proxy, r *rand.Rand) { cutAfter(p, r, proxy.ToServer) }},
	{"cut in an answer", func(p *proxy.Proxy, r *rand.Rand) { cutAfter(p, r, proxy.ToClient) }},
	{"gone", func(p *proxy.Proxy, r *rand.Rand) {
		p.Set(proxy.Weather{Refuse: true})
		p.Cut()
		lasts(r, 700)
	}},
	{"requests lost", func(p *proxy.Proxy, r *rand.Rand) { drop(p, r, proxy.ToServer) }},
	{"answers lost", func(p *proxy.Proxy, r *rand.Rand) { drop(p, r, proxy.ToClient) }},
	// Requests of calls that have long returned arrive when it is over.
	{"requests late", func(p *proxy.Proxy, r *rand.Rand) {
		p.Set(proxy.Weather{Hold: proxy.ToServer})
		lasts(r, 700)
	}},
	{"all late", func(p *proxy.Proxy, r *rand.Rand) {
		p.Set(proxy.Weather{Hold: proxy.BothWays})
		lasts(r, 700)
	}},
	{"slow", func(p *proxy.Proxy, r *rand.Rand) {
		p.Set(proxy.Weather{Delay: time.Duration(20+r.IntN(100)) * time.Millisecond})
		lasts(r, 700)
		p.Cut()
	}},
}

func lasts(r *rand.Rand, most int) {
	time.Sleep(time.Duration(300+r.IntN(most)) * time.Millisecond)
}

// cutAfter cuts three connections in the middle of something.
func cutAfter(p *proxy.Proxy, r *rand.Rand, to proxy.Direction) {
	for range 3 {
		cuts := p.Cuts()
		p.CutAfter(r.Int64N(5000), to)
		for range 50 {
			if p.Cuts() > cuts {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// drop loses what is sent, and in the end the connections.
func drop(p *proxy.Proxy, r *rand.Rand, to proxy.Direction) {
	p.Set(proxy.Weather{Drop: to})
	lasts(r, 700)
	p.Set(proxy.Weather{})
	p.Cut()
}

// networked is a client of a proxy, and what it was told.
type networked struct {
	proxy   *proxy.Proxy
	network testdb.Network
	sent    sentBytes

	db     driver.DB
	table  *store.Table
	scheme ope.Scheme
	once   *onceDB       // what the scheme has its index in
	family driver.Family // that of the counter

	next atomic.Int64 // of rows and of conditional changes

	mu       sync.Mutex
	rows     map[int64]bool           // that were put, and whether that was acknowledged
	values   map[int64]ope.Ciphertext // acknowledged
	changes  map[int64]outcome        // conditional changes
	outcomes map[string]*tally
	wrong    []string
}

type tally struct{ done, not, unknown int }

// outcome is what a caller knows of a conditional change.
type outcome int

const (
	unknown outcome = iota
	applied
	refused
)

func newNetworked(t *testing.T, kind testdb.Database, name string) *networked {
	n := &networked{
		rows: make(map[int64]bool), values: make(map[int64]ope.Ciphertext), changes: make(map[int64]outcome),
		outcomes: make(map[string]*tally),
	}
	n.proxy, n.network = kind.Proxied(n.sent.tap)
	n.network.Timeout = clientTimeout
	t.Cleanup(n.proxy.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The families are made without the proxy, by a client with more patience: on a busy machine
	// that takes seconds.
	key := ope.GenerateKey()
	counter := driver.FamilySpec{Name: "counter", Layout: driver.LayoutWide}
	direct, err := kind.Join(ctx, name)
	require.NoError(t, err)
	st, err := store.Open(ctx, direct, kms.NewLocal(key), nil)
	require.NoError(t, err)
	_, err = st.Create(ctx, store.Schema{
		Name:    "rows",
		Key:     []store.KeyPart{store.OrderedPart("id", store.Int64, store.Boldyreva)},
		Columns: []store.Column{store.OrderedColumn("twice", store.Int64, store.Boldyreva)},
	})
	require.NoError(t, err)
	_, err = index.Open(ctx, direct, "network")
	require.NoError(t, err)
	_, err = direct.Family(ctx, counter)
	require.NoError(t, err)
	require.NoError(t, direct.Close())

	n.db, err = kind.Through(ctx, name, n.network)
	require.NoError(t, err)
	t.Cleanup(func() { n.close(t) })
	st, err = store.Open(ctx, n.db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	n.table, err = st.Table(ctx, "rows")
	require.NoError(t, err)
	n.once = &onceDB{DB: n.db, calls: make(map[string]int)}
	ix, err := index.Open(ctx, n.once, "network")
	require.NoError(t, err)
	n.scheme, err = schemes[slices.IndexFunc(schemes, func(s schemeKind) bool { return s.name == "kerschbaum" })].new(ope.GenerateKey(), ix)
	require.NoError(t, err)
	n.family, err = n.db.Family(ctx, counter)
	require.NoError(t, err)
	for _, c := range n.calls() {
		n.outcomes[c.name] = new(tally)
	}
	n.works(t, "nothing yet")
	return n
}

// close closes the client, in whatever state the network is.
func (n *networked) close(t *testing.T) {
	begun := time.Now()
	require.NoError(t, n.db.Close())
	require.Less(t, time.Since(begun), 10*time.Second)
	require.Eventually(t, func() bool { return n.proxy.Connections() == 0 }, time.Minute, 10*time.Millisecond, "a closed client keeps no connection")
}

// leaks fails if goroutines are left at the end of the test that were not there before. HBase's
// clients take some seconds to notice that they were closed.
func leaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		var err error
		for range 10 {
			if err = goleak.Find(before); err == nil {
				return
			}
		}
		require.NoError(t, err)
	})
}

// A networkCall does one thing, with values of its own. Only conditional ones may have an unknown
// outcome.
type networkCall struct {
	name        string
	conditional bool
	do          func(ctx context.Context, r *rand.Rand) error
}

func (n *networked) calls() []networkCall {
	return []networkCall{
		{"Put", false, n.put},
		{"Query", false, n.query},
		{"Encrypt", true, n.encrypt},
		{"CheckAndPut", true, n.change},
	}
}

// call makes a call that has some time, and looks at how it ends.
func (n *networked) call(ctx context.Context, c networkCall, r *rand.Rand) {
	var cancel context.CancelFunc
	within := time.Duration(100+r.IntN(1200)) * time.Millisecond
	abandoned := r.IntN(10) == 0 // by its caller, and not by a deadline
	if abandoned {
		ctx, cancel = context.WithCancel(ctx)
		timer := time.AfterFunc(within, cancel)
		defer timer.Stop()
	} else {
		ctx, cancel = context.WithTimeout(ctx, within)
	}
	defer cancel()
	begun := time.Now()
	err := c.do(ctx, r)
	took := time.Since(begun)
	if err != nil {
		time.Sleep(5 * time.Millisecond) // as a polite client
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.outcomes[c.name]
	if took > within+slack {
		n.wrong = append(n.wrong, fmt.Sprintf("%s returned after %v, and had %v: %v", c.name, took, within, err))
	}
	if err == nil {
		o.done++
		return
	}
	o.not++
	if errors.Is(err, driver.ErrUnknownOutcome) {
		o.unknown++
	}
	if complaint := untyped(ctx, err, c.conditional); complaint != "" {
		n.wrong = append(n.wrong, fmt.Sprintf("%s: %s: %v", c.name, complaint, err))
	}
}

// untyped says what is wrong with an error of a network that is broken.
func untyped(ctx context.Context, err error, conditional bool) string {
	unavailable, unknown := errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrUnknownOutcome)
	switch {
	case unknown && !conditional:
		return "what may be repeated has an unknown outcome"
	case unavailable || unknown:
		if !store.Retryable(err) {
			return "it is not for trying again"
		}
		return ""
	case ctx.Err() == nil:
		return "neither ErrUnavailable nor ErrUnknownOutcome, nor had its context ended"
	case !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)):
		return "it does not wrap the error of its context"
	}
	return ""
}

// works requires that every call succeeds soon, and returns how long that took.
func (n *networked) works(t *testing.T, after string) time.Duration {
	t.Helper()
	begun := time.Now()
	for _, c := range n.calls() {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := c.do(ctx, rand.New(rand.NewPCG(1, uint64(n.next.Add(1)))))
			cancel()
			if err == nil {
				break
			}
			require.Less(t, time.Since(begun), mending, "%s after %q: %v", c.name, after, err)
			time.Sleep(20 * time.Millisecond)
		}
	}
	return time.Since(begun)
}

const id, twice = store.Field[int64]("id"), store.Field[int64]("twice")

func (n *networked) put(ctx context.Context, r *rand.Rand) error {
	rows := make([]store.Row, 1+r.IntN(8))
	var ids []int64
	for i := range rows {
		x := n.next.Add(1)
		rows[i] = store.Row{"id": x, "twice": 2 * x}
		ids = append(ids, x)
	}
	n.mu.Lock()
	for _, x := range ids {
		n.rows[x] = false
	}
	n.mu.Unlock()
	err := n.table.Put(ctx, rows...)
	var batch *store.BatchError
	failed := func(i int) bool { return err != nil && (batch == nil || slices.Contains(batch.Failed, i)) }
	errors.As(err, &batch)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, x := range ids {
		n.rows[x] = !failed(i)
	}
	return err
}

// query looks for some of the rows that were there before it began, by key or by column.
func (n *networked) query(ctx context.Context, r *rand.Rand) error {
	hi := n.next.Load()
	lo := max(0, hi-r.Int64N(100))
	where := id.Between(lo, hi)
	if r.IntN(2) == 0 {
		where = twice.Between(2*lo, 2*hi)
	}
	n.mu.Lock()
	missing := make(map[int64]bool)
	for x := lo; x <= hi; x++ {
		if n.rows[x] {
			missing[x] = true
		}
	}
	n.mu.Unlock()
	for row, err := range n.table.Query(ctx, store.Query{Where: where}) {
		if err != nil {
			return err
		}
		x, _ := id.Of(row)
		y, _ := twice.Of(row)
		if x < lo || x > hi || y != 2*x {
			n.complain("a query from %d to %d has found %d with %d", lo, hi, x, y)
		}
		delete(missing, x)
	}
	for x := range missing {
		n.complain("a query from %d to %d has not found %d, which was acknowledged before", lo, hi, x)
	}
	return nil
}

func (n *networked) encrypt(ctx context.Context, r *rand.Rand) error {
	x := domain.Min + r.Int64N(domain.Max-domain.Min)
	c, err := n.scheme.Encrypt(ctx, x)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.values[x] = c
	n.mu.Unlock()
	return nil
}

var counterRow = []byte("row")

// change adds one to the counter and, in the same step, a cell that no other change has.
func (n *networked) change(ctx context.Context, _ *rand.Rand) error {
	cells, err := n.family.Get(ctx, counterRow, driver.Slice{Only: [][]byte{{'n'}}})
	if err != nil {
		if errors.Is(err, driver.ErrUnknownOutcome) {
			n.complain("a read has an unknown outcome: %v", err)
		}
		return err
	}
	expect, count := driver.Cell{Qualifier: []byte{'n'}}, uint64(0)
	if len(cells) > 0 {
		expect.Value = cells[0].Value
		count = binary.BigEndian.Uint64(cells[0].Value)
	}
	x := n.next.Add(1)
	n.mu.Lock()
	n.changes[x] = unknown
	n.mu.Unlock()
	ok, err := n.family.CheckAndPut(ctx, counterRow, expect,
		driver.Cell{Qualifier: []byte{'n'}, Value: binary.BigEndian.AppendUint64(nil, count+1)},
		driver.Cell{Qualifier: mark(x), Value: []byte{1}})
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil && ok:
		n.changes[x] = applied
	case !errors.Is(err, driver.ErrUnknownOutcome): // also without an error
		n.changes[x] = refused
	}
	return err
}

// mark is the qualifier of a conditional change, long enough to be found in what was sent.
func mark(x int64) []byte { return fmt.Appendf(nil, "mark of change %016d", x) }

func (n *networked) complain(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wrong = append(n.wrong, fmt.Sprintf(format, args...))
}

// check compares what is there in the end with what the client was told, and what it has sent with
// what it was asked for.
func (n *networked) check(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, where := range map[string]store.Predicate{"key": id.AtLeast(0), "column": twice.AtLeast(0)} {
		found := make(map[int64]bool)
		for row, err := range n.table.Query(ctx, store.Query{Where: where}) {
			require.NoError(t, err)
			x, _ := id.Of(row)
			_, tried := n.rows[x]
			require.True(t, tried, "row %d was never put", x)
			require.False(t, found[x], "row %d is there twice", x)
			require.Equal(t, 2*x, row["twice"])
			found[x] = true
		}
		for x, acknowledged := range n.rows {
			require.False(t, acknowledged && !found[x], "row %d, which was acknowledged, is not found by its %s", x, name)
		}
	}

	var last ope.Ciphertext
	there := make(map[int64]bool)
	for e, err := range n.scheme.(ope.Mutable).Range(ctx, domain.Min, domain.Max) {
		require.NoError(t, err)
		require.Negative(t, bytes.Compare(last, e.Ciphertext))
		last = e.Ciphertext
		there[e.Plaintext] = true
	}
	for x := range n.values {
		require.True(t, there[x], "a value that was acknowledged is lost")
	}

	var cells []driver.Cell
	require.Eventually(t, func() bool {
		var err error
		cells, err = n.family.Get(ctx, counterRow, driver.Slice{})
		return err == nil
	}, 30*time.Second, 100*time.Millisecond)
	stands := make(map[string]bool)
	count := uint64(0)
	for _, c := range cells {
		if string(c.Qualifier) == "n" {
			count = binary.BigEndian.Uint64(c.Value)
			continue
		}
		stands[string(c.Qualifier)] = true
	}
	require.Equal(t, int(count), len(stands), "each change that was made has counted once")
	for x, o := range n.changes {
		is := stands[string(mark(x))]
		require.False(t, o == applied && !is, "change %d was acknowledged, and not made", x)
		require.False(t, o == refused && is, "change %d was refused, and made", x)
	}
	require.Greater(t, len(n.once.calls), 10)
	require.Empty(t, n.repeated())
}

// repeated says which conditional changes were sent more often than they were asked for.
func (n *networked) repeated() (complaints []string) {
	for x := range n.changes {
		if times := n.sent.count(mark(x)); times > 1 {
			complaints = append(complaints, fmt.Sprintf("change %d was sent %d times", x, times))
		}
	}
	for value, calls := range n.once.calls {
		if times := n.sent.count([]byte(value)); times > calls {
			complaints = append(complaints, fmt.Sprintf("a commit of the index was asked for %d times, and sent %d times", calls, times))
		}
	}
	return complaints
}

// noticesRepeats lets the same check find out that a client sends a conditional change again when it
// does not know what became of it.
func (n *networked) noticesRepeats(t *testing.T) {
	time.AfterFunc(200*time.Millisecond, func() {
		n.proxy.Set(proxy.Weather{})
		n.proxy.Cut()
	})
	n.proxy.Set(proxy.Weather{Drop: proxy.ToClient})
	x := n.next.Add(1)
	n.changes[x] = unknown
	_, _ = repeats{n.family}.CheckAndPut(t.Context(), []byte("another row"), driver.Cell{Qualifier: []byte{'n'}}, driver.Cell{Qualifier: mark(x), Value: []byte{1}})
	require.NotEmpty(t, n.repeated())
}

type repeats struct{ driver.Family }

func (f repeats) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	for {
		ok, err := f.Family.CheckAndPut(ctx, row, expect, puts...)
		if err == nil || !store.Retryable(err) {
			return ok, err
		}
	}
}

// sentBytes keeps what clients have sent, connection by connection.
type sentBytes struct {
	mu sync.Mutex
	by map[int]*bytes.Buffer
}

func (s *sentBytes) tap(connection int, to proxy.Direction, b []byte) {
	if to != proxy.ToServer {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = make(map[int]*bytes.Buffer)
	}
	if s.by[connection] == nil {
		s.by[connection] = new(bytes.Buffer)
	}
	s.by[connection].Write(b)
}

func (s *sentBytes) count(what []byte) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.by {
		n += bytes.Count(b.Bytes(), what)
	}
	return n
}

// onceDB is a database that counts its conditional changes, by a value that they put and that is no
// part of any condition.
type onceDB struct {
	driver.DB
	mu    sync.Mutex
	calls map[string]int
}

func (d *onceDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := d.DB.Family(ctx, spec)
	if c, ok := f.(driver.Committer); ok {
		return &onceCommitter{c, d}, err
	}
	return &onceFamily{f, d}, err
}

func (d *onceDB) note(puts []driver.Cell) {
	for _, c := range puts {
		if !driver.InHead(c.Qualifier) && len(c.Value) > 16 {
			d.mu.Lock()
			d.calls[string(c.Value)]++
			d.mu.Unlock()
			return
		}
	}
}

type onceFamily struct {
	driver.Family
	db *onceDB
}

func (f *onceFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	f.db.note(puts)
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

type onceCommitter struct {
	driver.Committer
	db *onceDB
}

func (f *onceCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	f.db.note(puts)
	return f.Committer.Commit(ctx, row, expect, puts, deletes)
}

// silence lets the network swallow or keep all that is sent: every call ends with its context, or
// with the client's own patience. It stays so, and the client is closed in it.
func (n *networked) silence(t *testing.T, kind testdb.Database, database string) {
	calls := append(n.calls(),
		networkCall{"Family", false, func(ctx context.Context, _ *rand.Rand) error {
			_, err := n.db.Family(ctx, driver.FamilySpec{Name: "counter", Layout: driver.LayoutWide})
			return err
		}},
		networkCall{"Open", false, func(ctx context.Context, _ *rand.Rand) error {
			db, err := kind.Through(ctx, database, n.network)
			if err == nil {
				err = db.Close()
			}
			return err
		}})
	// The last one is what the client is closed in.
	for _, weather := range []proxy.Weather{{Hold: proxy.BothWays}, {Drop: proxy.ToClient}, {Drop: proxy.BothWays}} {
		n.works(t, "all connections cut")
		n.proxy.Set(weather)
		for _, c := range calls {
			n.ends(t, c)
		}
		if weather.Drop == proxy.BothWays {
			var wg sync.WaitGroup
			for _, c := range n.calls()[:2] {
				wg.Go(func() { n.losesPatience(t, c) })
			}
			wg.Wait()
			break
		}
		n.proxy.Set(proxy.Weather{})
		n.proxy.Cut()
	}
}

// ends requires that a call ends with its context.
func (n *networked) ends(t *testing.T, c networkCall) {
	const within = 200 * time.Millisecond
	r := rand.New(rand.NewPCG(3, uint64(n.next.Add(1)))) // a value that is not known yet
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	begun := time.Now()
	err := c.do(ctx, r)
	require.Less(t, time.Since(begun), within+slack, c.name)
	require.ErrorIs(t, err, context.DeadlineExceeded, c.name)
	require.Empty(t, untyped(ctx, err, c.conditional), "%s: %v", c.name, err)

	ctx, abandon := context.WithCancelCause(t.Context())
	cause := errors.New("the caller has changed its mind")
	timer := time.AfterFunc(within, func() { abandon(cause) })
	defer timer.Stop()
	begun = time.Now()
	err = c.do(ctx, r)
	require.Less(t, time.Since(begun), within+slack, c.name)
	require.True(t, errors.Is(err, cause) || errors.Is(err, context.Canceled), "%s: %v", c.name, err)
}

// losesPatience requires that a call ends that could go on for ever.
func (n *networked) losesPatience(t *testing.T, c networkCall) {
	begun := time.Now()
	err := c.do(t.Context(), rand.New(rand.NewPCG(2, 2)))
	assert.ErrorIs(t, err, driver.ErrUnavailable, c.name)
	assert.Less(t, time.Since(begun), 2*clientTimeout+slack, c.name)
}
