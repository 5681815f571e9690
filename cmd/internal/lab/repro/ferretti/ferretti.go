package ferretti

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figures 8 to 10 of Ferretti, Colajanni and Marchetti (IEEE TPDS 2014), section 5: the throughput
// of TPC-C by independent clients over an emulated network, without encryption, with all that their
// SecureDBaaS does but no encryption, and encrypted. Transactions are here single operations on
// rows, in shares that are stated, since wide-column stores have no transactions of several rows.

var throughputFigures = []experiment.Figure{
	{
		Name: "securedbaas-fig8", About: "throughput of 20 clients by network latency",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 8",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			latencies := []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond}
			if cfg.Quick {
				latencies = latencies[:3]
			}
			return byLatency(ctx, cfg, latencies)
		},
	},
	{
		Name: "securedbaas-fig9", About: "throughput by clients at 40 ms",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 9",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return byClients(ctx, cfg, 40*time.Millisecond, clientSteps(cfg), 0.20)
		},
	},
	{
		Name: "securedbaas-fig10", About: "throughput by clients at 80 ms",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 10",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return byClients(ctx, cfg, 80*time.Millisecond, clientSteps(cfg), 0.13)
		},
	},
}

const (
	orderRounds      = 12
	orderQuickRounds = 2

	// What is asked of the encrypted series: an overhead of at most so much with so many clients.
	mostOverhead = 0.05
	mostAsked    = 20
)

// tpccPaperSize is what the paper's clients ask, in section 5.
const tpccPaperSize = "TPC-C with 10 warehouses, 1,046 MB without encryption"

func clientSteps(cfg experiment.Config) []int {
	if cfg.Quick {
		return []int{1, mostAsked}
	}
	return []int{1, 5, 10, mostAsked, 30, 40}
}

// blocks returns how many blocks a client does in a round: more where they take less time.
func blocks(latency time.Duration, quick bool) int {
	switch {
	case quick || latency >= 80*time.Millisecond:
		return 1
	case latency >= 40*time.Millisecond:
		return 2
	case latency >= 10*time.Millisecond:
		return 4
	}
	return 20
}

// A netPoint is a place at which the throughput is measured.
type netPoint struct {
	latency time.Duration
	clients int
}

// A throughput is what was measured at a point: by series and round, in operations a minute.
type throughput struct {
	netPoint
	rates [][]float64
}

func (t *throughput) rate(series string) experiment.Ratio {
	return experiment.MedianOf(t.rates[slices.Index(workload.Series, series)])
}

// shares returns what share of the throughput of another series one has, by round.
func (t *throughput) shares(series, beside string) (all []float64) {
	rates, others := t.rates[slices.Index(workload.Series, series)], t.rates[slices.Index(workload.Series, beside)]
	for i := range min(len(rates), len(others)) {
		all = append(all, rates[i]/others[i])
	}
	return all
}

// overhead returns by which share the throughput of a series is below that of another.
func (t *throughput) overhead(series, beside string) experiment.Ratio {
	r := experiment.MedianOf(t.shares(series, beside))
	return experiment.Ratio{Low: 1 - r.High, Mid: 1 - r.Mid, High: 1 - r.Low}
}

// A party is the clients and the network between them and the database.
type party struct {
	net     *testbed.Network
	space   *testbed.Workspace
	clients []*workload.Client
	dbs     []driver.DB
	trips   [][workload.Kinds]int // by series
}

func (p *party) close(ctx context.Context) (err error) {
	p.net.Latency(0)
	for _, db := range p.dbs {
		err = errors.Join(err, p.net.Disconnect(db))
	}
	p.net.Close()
	return errors.Join(err, p.space.Drop(ctx))
}

// tables opens the tables of all series as a client.
func (p *party) tables(ctx context.Context, db driver.DB) ([]workload.Table, error) {
	st, err := store.Open(ctx, db, p.space.Master, nil)
	if err != nil {
		return nil, err
	}
	var all []workload.Table
	for _, series := range workload.Series {
		switch series {
		case workload.Bare, workload.Padded:
			f, err := db.Family(ctx, p.space.Spec(workload.Families[series], workload.PrefixBytes))
			if err != nil {
				return nil, err
			}
			b := &workload.BareTable{F: f}
			if series == workload.Padded && p.trips != nil {
				b.Further = further(p.trips)
			}
			all = append(all, b)
		default:
			t, err := st.Table(ctx, p.space.Name(series))
			if err != nil {
				return nil, err
			}
			all = append(all, workload.StoreTable{T: t})
		}
	}
	return all, nil
}

// further returns by how many round trips the encrypted series exceeds the bare one.
func further(trips [][workload.Kinds]int) (more [workload.Kinds]int) {
	encrypted, bare := trips[slices.Index(workload.Series, workload.Encrypted)], trips[slices.Index(workload.Series, workload.Bare)]
	for kind := range more {
		more[kind] = max(0, encrypted[kind]-bare[kind])
	}
	return more
}

// newParty makes the tables and so many clients with their first orders. One client more is only
// for counting what each operation takes.
func newParty(ctx context.Context, cfg experiment.Config, clients int) (p *party, err error) {
	space, err := testbed.NewWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p = &party{net: testbed.NewNetwork(cfg), space: space}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(ctx))
		}
	}()
	for _, name := range workload.Families {
		if _, err := space.Family(ctx, space.Spec(name, workload.PrefixBytes)); err != nil {
			return nil, err
		}
	}
	for _, series := range []string{workload.Library, workload.Encrypted, workload.Searched} {
		if _, err := space.Create(ctx, workload.Schema(series)); err != nil {
			return nil, err
		}
	}
	counting, err := p.join(ctx, cfg, clients, true)
	if err != nil {
		return nil, err
	}
	if p.trips, err = p.count(ctx, counting); err != nil {
		return nil, err
	}
	cfg.Bar().Start("insert", clients)
	defer cfg.Bar().Done()
	for i := range clients {
		c, err := p.join(ctx, cfg, i, false)
		if err != nil {
			return nil, err
		}
		p.clients = append(p.clients, c.Client)
		cfg.Bar().Add(1)
	}
	return p, nil
}

// A countedClient is a client of which the requests are counted.
type countedClient struct {
	*workload.Client
	counter *testbed.Counter
}

// join adds a client with its first orders.
func (p *party) join(ctx context.Context, cfg experiment.Config, number int, counted bool) (countedClient, error) {
	db, err := p.net.Connect(ctx)
	if err != nil {
		return countedClient{}, err
	}
	p.dbs = append(p.dbs, db)
	var count *testbed.Counter
	if counted {
		count = new(testbed.Counter)
		db = count.Over(db)
	}
	c := &workload.Client{Number: number}
	if c.Tables, err = p.tables(ctx, db); err != nil {
		return countedClient{}, err
	}
	for _, t := range c.Tables {
		c.Random = append(c.Random, rand.New(rand.NewPCG(cfg.Seed, uint64(number))))
		c.First, c.Next = append(c.First, 0), append(c.Next, workload.FirstOrders)
		if err := p.ready(ctx, c, t); err != nil {
			return countedClient{}, err
		}
	}
	return countedClient{c, count}, nil
}

// ready puts the first orders of a client.
func (p *party) ready(ctx context.Context, c *workload.Client, t workload.Table) error {
	var rows []store.Row
	var mutations []driver.Mutation
	for n := range int64(workload.FirstOrders) {
		o := workload.OrderOf(c.Key(n), 1)
		rows = append(rows, workload.StoreTable{}.Row(o))
		mutations = append(mutations, o.Mutation())
	}
	if s, ok := t.(workload.StoreTable); ok {
		return s.T.Put(ctx, rows...)
	}
	return t.(*workload.BareTable).F.Apply(ctx, mutations...)
}

// count returns the round trips of each operation, by series.
func (p *party) count(ctx context.Context, c countedClient) ([][workload.Kinds]int, error) {
	p.net.Latency(testbed.CountLatency)
	defer p.net.Latency(0)
	var all [][workload.Kinds]int
	for series := range workload.Series {
		var trips [workload.Kinds]int
		for kind := range workload.Kinds {
			for range 2 { // the first may have to ask for more
				// What a write of a searched column leaves to do must not be counted as another one's.
				if err := pause.For(ctx, 4*testbed.CountLatency); err != nil {
					return nil, err
				}
				before := c.counter.Now()
				if err := c.Operate(ctx, series, kind); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", workload.Series[series], workload.KindNames[kind], err)
				}
				trips[kind] = c.counter.Now().Since(before).Trips
			}
		}
		all = append(all, trips)
	}
	return all, nil
}

// run has the clients do blocks in a series at the same time, and returns how many operations a
// minute they did: the sum of what each did while it was at it, so that it does not hang on the last.
func (p *party) run(ctx context.Context, clients, series, blocks int) (float64, error) {
	group, ctx := errgroup.WithContext(ctx)
	rates := make([]float64, clients)
	for i, c := range p.clients[:clients] {
		group.Go(func() error {
			start := time.Now()
			for range blocks {
				if err := c.Block(ctx, series); err != nil {
					return err
				}
			}
			rates[i] = float64(blocks*workload.BlockSize) / time.Since(start).Minutes()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w", workload.Series[series], err)
	}
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	return sum, nil
}

// measureThroughput measures at points in turns, and in each point the series in turns. It returns the
// rounds that are whole also together with an error.
func measureThroughput(ctx context.Context, cfg experiment.Config, points []netPoint, rounds int) (all []*throughput, trips [][workload.Kinds]int, whole int, err error) {
	clients := 0
	for _, pt := range points {
		clients = max(clients, pt.clients)
		all = append(all, &throughput{pt, make([][]float64, len(workload.Series))})
	}
	p, err := newParty(ctx, cfg, clients)
	if err != nil {
		return nil, nil, 0, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	cfg.Bar().Start("measure", (rounds+1)*len(points)*len(workload.Series))
	defer cfg.Bar().Done()
	for round := -1; round < rounds; round++ { // the first is not counted
		for _, t := range all {
			p.net.Latency(t.latency)
			for i := range workload.Series {
				series := (i + max(round, 0)) % len(workload.Series)
				rate, err := p.run(ctx, t.clients, series, blocks(t.latency, cfg.Quick || round < 0))
				if err != nil {
					whole = max(0, round)
					for _, t := range all {
						for i, rates := range t.rates {
							t.rates[i] = rates[:min(len(rates), whole)]
						}
					}
					return all, p.trips, whole, err
				}
				if round >= 0 {
					t.rates[series] = append(t.rates[series], rate)
				}
				cfg.Bar().Add(1)
			}
		}
	}
	return all, p.trips, rounds, nil
}

// orderResult makes a result of what was measured; x is the place of a point on the axis.
func orderResult(cfg experiment.Config, all []*throughput, trips [][workload.Kinds]int, rounds int, axis string, x func(netPoint) float64) *experiment.Result {
	r := &experiment.Result{
		X: axis, Y: "operations a minute", Runs: rounds,
		Table: &experiment.Table{
			Names:   2,
			Columns: []string{axis, "", "operations/min", "overhead %", "beside as many trips %"},
			Words:   []bool{false, true, false, false, false},
		},
	}
	for _, series := range workload.Series {
		r.Curves = append(r.Curves, experiment.Curve{Name: series})
	}
	for _, t := range all {
		for i, series := range workload.Series {
			rate := t.rate(series)
			r.Curves[i].Points = append(r.Curves[i].Points, rate.At(x(t.netPoint)))
			cell := func(beside string) experiment.Cell {
				if series == beside {
					return experiment.Words("")
				}
				return percentCell(t.overhead(series, beside))
			}
			r.Table.Rows = append(r.Table.Rows, []experiment.Cell{
				experiment.Numeral(x(t.netPoint), 0), experiment.Words("%s", series), experiment.Numeral(rate.Mid, 0), cell(workload.Bare), cell(workload.Padded),
			})
		}
	}
	var counts []string
	for i, series := range workload.Series {
		if series == workload.Padded {
			continue // as the encrypted one
		}
		counts = append(counts, workload.PerOperation(series, trips[i]))
	}
	r.Notes = []string{
		fmt.Sprintf("Each client does %s; a query reads %d rows. Every client is a store with connections of its own, and all work at a time.", workload.Shares(), workload.RangeRows),
		"plaintext: rows in the clear, without this module, in one round trip for each operation. plaintext, padded: the same with dummy reads, to as many round trips as encrypted ones take. plain-rangecrypt: all that this module does, without encryption. ordered column: one column more can be searched by ranges, and is written with index entries. overhead: by how much the throughput is below that of plaintext in the same round, with its 95 % interval; findings are about this. beside as many trips: below that of the padded plaintext.",
		"Round trips of an operation, counted. " + strings.Join(counts, "; ") + ".",
	}
	if cfg.Database.Far == nil {
		r.Notes = append(r.Notes, "The store is embedded: the latency is a pause before each call, and clients share the store.")
	} else {
		r.Notes = append(r.Notes, "The latency is of the way there and back, made by a proxy between each client and the servers.")
	}
	return r
}

func percentCell(overhead experiment.Ratio) experiment.Cell {
	p := overhead.Percent()
	c := p.Cell()
	c.Text = p.Text(1)
	return c
}

func byLatency(ctx context.Context, cfg experiment.Config, latencies []time.Duration) (*experiment.Result, error) {
	var points []netPoint
	for _, l := range latencies {
		points = append(points, netPoint{l, mostAsked})
	}
	return throughputBy(ctx, cfg, points, "latency in ms", func(p netPoint) float64 { return float64(p.latency) / 1e6 },
		fmt.Sprintf("Throughput of %d clients by network latency", mostAsked), latencyFindings)
}

// throughputBy measures the throughput at points, which are drawn by x.
func throughputBy(ctx context.Context, cfg experiment.Config, points []netPoint, xLabel string, x func(netPoint) float64, title string, findings func([]*throughput) []experiment.Finding) (*experiment.Result, error) {
	planned := cfg.RoundsOr(orderRounds, orderQuickRounds)
	all, trips, rounds, err := measureThroughput(ctx, cfg, points, planned)
	if rounds == 0 {
		return nil, err
	}
	r := orderResult(cfg, all, trips, rounds, xLabel, x)
	r.Title = fmt.Sprintf("%s: %s, median of %d %s", title, cfg.Database.Name, rounds, show.Plural(rounds, "round"))
	r.Early(planned)
	r.Findings = findings(all)
	r.Below(tpccPaperSize)
	return r, err
}

// overheads lists the overhead of a series at points. What decides is plaintext with the fewest round
// trips: nobody who does without encryption has to ask for more.
func overheads(all []*throughput, series string, name func(netPoint) string) string {
	var text []string
	for _, t := range all {
		text = append(text, fmt.Sprintf("%s %s", percentCell(t.overhead(series, workload.Bare)).Text, name(t.netPoint)))
	}
	return strings.Join(text, ", ")
}

// asked says whether the encrypted series is as close to plaintext as it has to be at a point.
func (t *throughput) asked() experiment.Verdict {
	o := t.overhead(workload.Encrypted, workload.Bare)
	return o.About(mostOverhead, mostOverhead)
}

// askedFinding says whether the encrypted series is close enough at all points where that is asked.
func askedFinding(points []*throughput, where string, name func(netPoint) string) experiment.Finding {
	var enough []experiment.Verdict
	for _, t := range points {
		enough = append(enough, t.asked())
	}
	if len(enough) == 0 {
		enough = []experiment.Verdict{experiment.Unclear} // nothing was measured there
	}
	return experiment.Every(enough...).Finding("Asked of this module: with %d clients%s at most %.0f %% below plaintext. Here, in per cent: %s.",
		mostAsked, where, 100*mostOverhead, cmp.Or(overheads(points, workload.Encrypted, name), "not measured"))
}

func latencyFindings(all []*throughput) []experiment.Finding {
	at := func(p netPoint) string { return fmt.Sprintf("at %d ms", p.latency.Milliseconds()) }
	first, last := all[0].overhead(workload.Encrypted, workload.Bare), all[len(all)-1].overhead(workload.Encrypted, workload.Bare)
	library, smaller := experiment.IsSo, last.Below(first.Mid)
	var asked []*throughput // where something is asked
	for _, t := range all {
		if t.latency >= 20*time.Millisecond {
			library = experiment.Both(library, t.overhead(workload.Library, workload.Bare).About(mostOverhead, 2*mostOverhead))
		}
		if l := t.latency.Milliseconds(); l == 40 || l == 80 {
			asked = append(asked, t)
		}
	}
	return []experiment.Finding{
		library.Finding("The paper: without the cost of cryptography its throughput is that of plaintext for any realistic delay (more than 20 ms). plain-rangecrypt is below plaintext by, in per cent: %s.", overheads(all, workload.Library, at)),
		smaller.Finding("The paper: encrypted it is lower, but the difference decreases rapidly with the latency, until it almost vanishes. Encrypted, it is below plaintext by, in per cent: %s; with an ordered column: %s.", overheads(all, workload.Encrypted, at), overheads(all, workload.Searched, at)),
		askedFinding(asked, ", at 40 and 80 ms,", at),
	}
}

func byClients(ctx context.Context, cfg experiment.Config, latency time.Duration, clients []int, paper float64) (*experiment.Result, error) {
	var points []netPoint
	for _, n := range clients {
		points = append(points, netPoint{latency, n})
	}
	return throughputBy(ctx, cfg, points, "clients", func(p netPoint) float64 { return float64(p.clients) },
		fmt.Sprintf("Throughput by clients at %d ms", latency.Milliseconds()),
		func(all []*throughput) []experiment.Finding { return clientFindings(all, paper) })
}

func clientFindings(all []*throughput, paper float64) []experiment.Finding {
	with := func(p netPoint) string { return fmt.Sprintf("with %d", p.clients) }
	first, last := all[0], all[len(all)-1]
	growth := func(t *throughput, series string) float64 { return t.rate(series).Mid / first.rate(series).Mid }
	most := last.overhead(workload.Encrypted, workload.Bare)
	var asked []*throughput
	for _, t := range all {
		if t.clients == mostAsked {
			asked = append(asked, t)
		}
	}
	plain, encrypted := growth(last, workload.Bare), growth(last, workload.Encrypted)
	kept := experiment.RatioOf(last.shares(workload.Encrypted, workload.Bare), first.shares(workload.Encrypted, workload.Bare))
	return []experiment.Finding{
		experiment.Both(most.Above(paper-0.05), most.Below(paper+0.05)).Finding(
			"The paper: with 40 clients encryption costs %.0f %% of the throughput. Here, with %d, it is below plaintext by %s %%. By clients: %s; with an ordered column: %s.", 100*paper, last.clients, percentCell(most).Text, overheads(all, workload.Encrypted, with), overheads(all, workload.Searched, with)),
		kept.Above(0.9).Finding(
			"The paper: encryption does not affect scalability. From %d to %d clients the throughput grows %.1f times, and %.1f times in plaintext: %v times as much in the same round.", first.clients, last.clients, encrypted, plain, kept),
		askedFinding(asked, "", with),
	}
}
