package repro

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figures 8 to 10 of Ferretti, Colajanni and Marchetti (IEEE TPDS 2014), section 5: the throughput
// of TPC-C by independent clients over an emulated network, without encryption, with all that their
// SecureDBaaS does but no encryption, and encrypted. Transactions are here single operations on
// rows, in shares that are stated, since wide-column stores have no transactions of several rows.

var ferrettiFigures = []Figure{
	{
		Name: "securedbaas-fig8", About: "throughput of 20 clients by network latency",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 8",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg Config) (*Result, error) {
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
		Run: func(ctx context.Context, cfg Config) (*Result, error) {
			return byClients(ctx, cfg, 40*time.Millisecond, clientSteps(cfg), 0.20)
		},
	},
	{
		Name: "securedbaas-fig10", About: "throughput by clients at 80 ms",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 10",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg Config) (*Result, error) {
			return byClients(ctx, cfg, 80*time.Millisecond, clientSteps(cfg), 0.13)
		},
	},
}

// tpccPaperSize is what the paper's clients ask, in section 5.
const tpccPaperSize = "TPC-C with 10 warehouses, 1,046 MB without encryption"

func clientSteps(cfg Config) []int {
	if cfg.Quick {
		return []int{1, mostAsked}
	}
	return []int{1, 5, 10, mostAsked, 30, 40}
}

const (
	orderRounds      = 12
	orderQuickRounds = 2

	// What is asked of the encrypted series: an overhead of at most so much with so many clients.
	mostOverhead = 0.05
	mostAsked    = 20

	warehouses  = 10
	ordersReady = 60 // of each client, before the first round
	ordersRange = 20 // rows of a query
)

// The operations on orders, and how many of each are in a block. Statements of TPC-C read and write
// in about these shares; a block always has the same ones, in random order.
type orderKind int

const (
	orderGet orderKind = iota
	orderInsert
	orderUpdate
	orderRange
	orderDelete
	orderKinds
)

var orderNames = [orderKinds]string{"get", "insert", "update", "range query", "delete"}

var orderShares = [orderKinds]int{8, 4, 4, 3, 1}

// shares says how many of each kind there are.
func shares() string {
	var all []string
	for kind, n := range orderShares {
		all = append(all, fmt.Sprintf("%d %% %s", 100*n/orderBlock, orderNames[kind]))
	}
	return strings.Join(all, ", ")
}

// perOperation says what a series takes of something for each kind.
func perOperation(series string, numbers [orderKinds]int) string {
	var text []string
	for kind, n := range numbers {
		text = append(text, fmt.Sprintf("%s %d", orderNames[kind], n))
	}
	return series + ": " + strings.Join(text, ", ")
}

// orderBlock is the number of operations in a block.
const orderBlock = 20

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

// orderKey is the row key of an order.
type orderKey struct {
	warehouse int32
	number    int64
}

// An order is a row. Everything but the quantity is decided by its key.
type order struct {
	orderKey
	customer, district string
	item, amount       int64
	quantity           int32
	entered            time.Time
}

func orderOf(k orderKey, quantity int32) order {
	r := rand.New(rand.NewPCG(uint64(k.warehouse), uint64(k.number)))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	return order{
		orderKey: k, customer: text(16), district: text(24), item: r.Int64N(100_000), amount: r.Int64N(1_000_000),
		quantity: quantity, entered: time.UnixMilli(1_700_000_000_000 + k.number).UTC(),
	}
}

// An orderTable keeps orders for one client.
type orderTable interface {
	get(ctx context.Context, k orderKey) (order, bool, error)
	put(ctx context.Context, o order) error
	// query returns how many orders there are from a key on in n numbers.
	query(ctx context.Context, k orderKey, n int) (int, error)
	remove(ctx context.Context, k orderKey) error
}

// The series. orderBare is what the others are compared with.
const (
	orderPadded    = "plaintext, padded"
	orderLibrary   = "plain-rangecrypt"
	orderEncrypted = "encrypted"
	orderBare      = "plaintext"
	orderSearched  = "encrypted, ordered column"
)

var orderSeries = []string{orderPadded, orderLibrary, orderEncrypted, orderBare, orderSearched}

// orderFamilies are the families of the series that are no tables of this module.
var orderFamilies = map[string]string{orderPadded: "plain", orderBare: "bare"}

// orderSchema returns the schema of a table of orders: one partition for each warehouse, in which
// they are in the order of their numbers, and the values of the columns in one cell.
func orderSchema(series string) store.Schema {
	key, column := []store.KeyPart{store.HashedPart("warehouse", store.Int32), store.OrderedPart("number", store.Int64, store.MOPE)}, store.RandomisedColumn
	if series == orderLibrary {
		key, column = []store.KeyPart{store.PlainPart("warehouse", store.Int32), store.OrderedPart("number", store.Int64, store.Plaintext)}, store.PlainColumn
	}
	amount := column("amount", store.Int64)
	if series == orderSearched {
		amount = store.OrderedColumn("amount", store.Int64, store.MOPE)
	}
	return store.Schema{Name: series, Key: key, Columns: []store.Column{
		column("customer", store.String), column("district", store.String), column("item", store.Int64),
		amount, column("quantity", store.Int32), column("entered", store.Int64),
	}}
}

type storeOrders struct{ t *store.Table }

func (s storeOrders) get(ctx context.Context, k orderKey) (o order, found bool, err error) {
	row, err := s.t.Get(ctx, store.Row{"warehouse": k.warehouse, "number": k.number})
	if err != nil || row == nil {
		return o, false, err
	}
	entered, _ := row["entered"].(int64)
	o = order{orderKey: k, entered: time.UnixMilli(entered).UTC()}
	o.customer, _ = row["customer"].(string)
	o.district, _ = row["district"].(string)
	o.item, _ = row["item"].(int64)
	o.amount, _ = row["amount"].(int64)
	o.quantity, _ = row["quantity"].(int32)
	return o, true, nil
}

func (s storeOrders) row(o order) store.Row {
	return store.Row{
		"warehouse": o.warehouse, "number": o.number, "customer": o.customer, "district": o.district,
		"item": o.item, "amount": o.amount, "quantity": o.quantity, "entered": o.entered.UnixMilli(),
	}
}

func (s storeOrders) put(ctx context.Context, o order) error { return s.t.Put(ctx, s.row(o)) }

func (s storeOrders) query(ctx context.Context, k orderKey, n int) (found int, err error) {
	return s.count(ctx, store.And(store.Field[int32]("warehouse").Equal(k.warehouse), store.Field[int64]("number").Between(k.number, k.number+int64(n)-1)))
}

// count returns how many orders a query reads.
func (s storeOrders) count(ctx context.Context, where store.Predicate) (found int, err error) {
	for _, err := range s.t.Query(ctx, store.Query{Where: where}) {
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (s storeOrders) remove(ctx context.Context, k orderKey) error {
	return s.t.Delete(ctx, store.Row{"warehouse": k.warehouse, "number": k.number})
}

// bareOrders are orders without this module: a row is one cell in the clear, and each operation one
// request. Where an operation of the encrypted series takes further round trips, as many small reads
// can follow it, so that the two differ in nothing but encryption and what goes with it.
type bareOrders struct {
	f       driver.Family
	further [orderKinds]int
}

const orderPrefix = 4 // bytes of the warehouse

func (k orderKey) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(k.warehouse))
	return binary.BigEndian.AppendUint64(b, uint64(k.number))
}

func (o order) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(o.item))
	b = binary.BigEndian.AppendUint64(b, uint64(o.amount))
	b = binary.BigEndian.AppendUint32(b, uint32(o.quantity))
	b = binary.BigEndian.AppendUint64(b, uint64(o.entered.UnixMilli()))
	return append(append(append(b, byte(len(o.customer))), o.customer...), o.district...)
}

func (o order) mutation() driver.Mutation {
	return driver.Mutation{Row: o.orderKey.bytes(), Puts: []driver.Cell{{Qualifier: []byte{}, Value: o.bytes()}}}
}

func readOrder(k orderKey, b []byte) (o order, err error) {
	if len(b) < 29 || len(b) < 29+int(b[28]) {
		return o, errors.New("an order is too short")
	}
	n := 29 + int(b[28])
	return order{
		orderKey: k, item: int64(binary.BigEndian.Uint64(b)), amount: int64(binary.BigEndian.Uint64(b[8:])),
		quantity: int32(binary.BigEndian.Uint32(b[16:])), entered: time.UnixMilli(int64(binary.BigEndian.Uint64(b[20:]))).UTC(),
		customer: string(b[29:n]), district: string(b[n:]),
	}, nil
}

// pad makes the further round trips of an operation.
func (b *bareOrders) pad(ctx context.Context, kind orderKind) error {
	for range b.further[kind] {
		if _, err := b.f.Get(ctx, []byte("meta"), driver.Slice{Only: [][]byte{{}}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bareOrders) get(ctx context.Context, k orderKey) (o order, found bool, err error) {
	cells, err := b.f.Get(ctx, k.bytes(), driver.Slice{})
	if err == nil && len(cells) > 0 {
		found = true
		o, err = readOrder(k, cells[0].Value)
	}
	return o, found, err
}

func (b *bareOrders) put(ctx context.Context, o order) error {
	return b.f.Apply(ctx, o.mutation())
}

func (b *bareOrders) query(ctx context.Context, k orderKey, n int) (found int, err error) {
	end := orderKey{k.warehouse, k.number + int64(n)}
	for row, err := range b.f.Scan(ctx, driver.Range{Start: k.bytes(), End: end.bytes()}) {
		if err == nil && len(row.Key) == 12 {
			_, err = readOrder(orderKey{k.warehouse, int64(binary.BigEndian.Uint64(row.Key[4:]))}, row.Cells[0].Value)
		}
		if err != nil {
			return 0, err
		}
		found++
	}
	return found, nil
}

func (b *bareOrders) remove(ctx context.Context, k orderKey) error {
	return b.f.Apply(ctx, driver.Mutation{Row: k.bytes(), DeleteRow: true})
}

// An orderClient is one client with its orders in the tables of all series, which it works on in
// turns. It alone has the orders of its numbers.
type orderClient struct {
	number int
	tables []orderTable // by series
	first  []int64      // by series: the first of its orders that was not deleted
	next   []int64      // the one to insert next
	random []*rand.Rand
}

func (c *orderClient) key(n int64) orderKey {
	return orderKey{int32(c.number % warehouses), int64(c.number)<<32 | n}
}

// operate does one operation in a series, with its further round trips. An answer that is not right is
// exit.ErrWrongAnswer.
func (c *orderClient) operate(ctx context.Context, series int, kind orderKind) error {
	err := c.do(ctx, series, kind)
	if b, ok := c.tables[series].(*bareOrders); ok && err == nil {
		err = b.pad(ctx, kind)
	}
	return err
}

func (c *orderClient) do(ctx context.Context, series int, kind orderKind) error {
	t, r := c.tables[series], c.random[series]
	some := func(room int64) orderKey {
		return c.key(c.first[series] + r.Int64N(c.next[series]-c.first[series]-room))
	}
	switch kind {
	case orderGet:
		k := some(0)
		o, found, err := t.get(ctx, k)
		if err == nil && (!found || o != orderOf(k, o.quantity)) {
			err = fmt.Errorf("%w: an order is not as it was written", exit.ErrWrongAnswer)
		}
		return err
	case orderInsert:
		o := orderOf(c.key(c.next[series]), 1)
		c.next[series]++
		return t.put(ctx, o)
	case orderUpdate:
		return t.put(ctx, orderOf(some(0), int32(r.Uint32()>>1)))
	case orderRange:
		n, err := t.query(ctx, some(ordersRange-1), ordersRange)
		if err == nil && n != ordersRange {
			err = fmt.Errorf("%w: %d orders came instead of %d", exit.ErrWrongAnswer, n, ordersRange)
		}
		return err
	}
	k := c.key(c.first[series])
	c.first[series]++
	return t.remove(ctx, k)
}

// block does the operations of a block in random order.
func (c *orderClient) block(ctx context.Context, series int) error {
	var kinds []orderKind
	for kind, n := range orderShares {
		kinds = append(kinds, slices.Repeat([]orderKind{orderKind(kind)}, n)...)
	}
	r := c.random[series]
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds {
		if err := c.operate(ctx, series, kind); err != nil {
			return err
		}
	}
	return nil
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

func (t *throughput) rate(series string) ratio {
	return medianOf(t.rates[slices.Index(orderSeries, series)])
}

// shares returns what share of the throughput of another series one has, by round.
func (t *throughput) shares(series, beside string) (all []float64) {
	rates, others := t.rates[slices.Index(orderSeries, series)], t.rates[slices.Index(orderSeries, beside)]
	for i := range min(len(rates), len(others)) {
		all = append(all, rates[i]/others[i])
	}
	return all
}

// overhead returns by which share the throughput of a series is below that of another.
func (t *throughput) overhead(series, beside string) ratio {
	r := medianOf(t.shares(series, beside))
	return ratio{1 - r.high, 1 - r.mid, 1 - r.low}
}

// percent writes a share in per cent.
func (r ratio) percent() ratio { return ratio{100 * r.low, 100 * r.mid, 100 * r.high} }

// A party is the clients and the network between them and the database.
type party struct {
	net     *network
	space   *workspace
	clients []*orderClient
	dbs     []driver.DB
	trips   [][orderKinds]int // by series
}

func (p *party) close(ctx context.Context) (err error) {
	p.net.latency(0)
	for _, db := range p.dbs {
		err = errors.Join(err, p.net.disconnect(db))
	}
	p.net.close()
	return errors.Join(err, p.space.drop(ctx))
}

// tables opens the tables of all series as a client.
func (p *party) tables(ctx context.Context, db driver.DB) ([]orderTable, error) {
	st, err := store.Open(ctx, db, p.space.master, nil)
	if err != nil {
		return nil, err
	}
	var all []orderTable
	for _, series := range orderSeries {
		switch series {
		case orderBare, orderPadded:
			f, err := db.Family(ctx, p.space.spec(orderFamilies[series], orderPrefix))
			if err != nil {
				return nil, err
			}
			b := &bareOrders{f: f}
			if series == orderPadded && p.trips != nil {
				b.further = further(p.trips)
			}
			all = append(all, b)
		default:
			t, err := st.Table(ctx, p.space.name(series))
			if err != nil {
				return nil, err
			}
			all = append(all, storeOrders{t})
		}
	}
	return all, nil
}

// further returns by how many round trips the encrypted series exceeds the bare one.
func further(trips [][orderKinds]int) (more [orderKinds]int) {
	encrypted, bare := trips[slices.Index(orderSeries, orderEncrypted)], trips[slices.Index(orderSeries, orderBare)]
	for kind := range more {
		more[kind] = max(0, encrypted[kind]-bare[kind])
	}
	return more
}

// countLatency is long enough for requests that are sent together to be seen under way together.
const countLatency = 20 * time.Millisecond

// newParty makes the tables and so many clients with their first orders. One client more is only
// for counting what each operation takes.
func newParty(ctx context.Context, cfg Config, clients int) (p *party, err error) {
	space, err := newWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p = &party{net: newNetwork(cfg), space: space}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close(ctx))
		}
	}()
	for _, name := range orderFamilies {
		if _, err := space.family(ctx, space.spec(name, orderPrefix)); err != nil {
			return nil, err
		}
	}
	for _, series := range []string{orderLibrary, orderEncrypted, orderSearched} {
		if _, err := space.create(ctx, orderSchema(series)); err != nil {
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
	cfg.bar().Start("insert", clients)
	defer cfg.bar().Done()
	for i := range clients {
		c, err := p.join(ctx, cfg, i, false)
		if err != nil {
			return nil, err
		}
		p.clients = append(p.clients, c.orderClient)
		cfg.bar().Add(1)
	}
	return p, nil
}

// A countedClient is a client of which the requests are counted.
type countedClient struct {
	*orderClient
	counter *counter
}

// join adds a client with its first orders.
func (p *party) join(ctx context.Context, cfg Config, number int, counted bool) (countedClient, error) {
	db, err := p.net.connect(ctx)
	if err != nil {
		return countedClient{}, err
	}
	p.dbs = append(p.dbs, db)
	var count *counter
	if counted {
		count = new(counter)
		db = count.over(db)
	}
	c := &orderClient{number: number}
	if c.tables, err = p.tables(ctx, db); err != nil {
		return countedClient{}, err
	}
	for _, t := range c.tables {
		c.random = append(c.random, rand.New(rand.NewPCG(cfg.Seed, uint64(number))))
		c.first, c.next = append(c.first, 0), append(c.next, ordersReady)
		if err := p.ready(ctx, c, t); err != nil {
			return countedClient{}, err
		}
	}
	return countedClient{c, count}, nil
}

// ready puts the first orders of a client.
func (p *party) ready(ctx context.Context, c *orderClient, t orderTable) error {
	var rows []store.Row
	var mutations []driver.Mutation
	for n := range int64(ordersReady) {
		o := orderOf(c.key(n), 1)
		rows = append(rows, storeOrders{}.row(o))
		mutations = append(mutations, o.mutation())
	}
	if s, ok := t.(storeOrders); ok {
		return s.t.Put(ctx, rows...)
	}
	return t.(*bareOrders).f.Apply(ctx, mutations...)
}

// count returns the round trips of each operation, by series.
func (p *party) count(ctx context.Context, c countedClient) ([][orderKinds]int, error) {
	p.net.latency(countLatency)
	defer p.net.latency(0)
	var all [][orderKinds]int
	for series := range orderSeries {
		var trips [orderKinds]int
		for kind := range orderKinds {
			for range 2 { // the first may have to ask for more
				// What a write of a searched column leaves to do must not be counted as another one's.
				if err := pause.For(ctx, 4*countLatency); err != nil {
					return nil, err
				}
				before := c.counter.now()
				if err := c.operate(ctx, series, kind); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", orderSeries[series], orderNames[kind], err)
				}
				trips[kind] = c.counter.now().since(before).trips
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
				if err := c.block(ctx, series); err != nil {
					return err
				}
			}
			rates[i] = float64(blocks*orderBlock) / time.Since(start).Minutes()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w", orderSeries[series], err)
	}
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	return sum, nil
}

// measureThroughput measures at points in turns, and in each point the series in turns. It returns the
// rounds that are whole also together with an error.
func measureThroughput(ctx context.Context, cfg Config, points []netPoint, rounds int) (all []*throughput, trips [][orderKinds]int, whole int, err error) {
	clients := 0
	for _, pt := range points {
		clients = max(clients, pt.clients)
		all = append(all, &throughput{pt, make([][]float64, len(orderSeries))})
	}
	p, err := newParty(ctx, cfg, clients)
	if err != nil {
		return nil, nil, 0, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	cfg.bar().Start("measure", (rounds+1)*len(points)*len(orderSeries))
	defer cfg.bar().Done()
	for round := -1; round < rounds; round++ { // the first is not counted
		for _, t := range all {
			p.net.latency(t.latency)
			for i := range orderSeries {
				series := (i + max(round, 0)) % len(orderSeries)
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
				cfg.bar().Add(1)
			}
		}
	}
	return all, p.trips, rounds, nil
}

// orderResult makes a result of what was measured; x is the place of a point on the axis.
func orderResult(cfg Config, all []*throughput, trips [][orderKinds]int, rounds int, axis string, x func(netPoint) float64) *Result {
	r := &Result{
		X: axis, Y: "operations a minute", Runs: rounds,
		Table: &Table{
			Names:   2,
			Columns: []string{axis, "", "operations/min", "overhead %", "beside as many trips %"},
			Words:   []bool{false, true, false, false, false},
		},
	}
	for _, series := range orderSeries {
		r.Curves = append(r.Curves, Curve{Name: series})
	}
	for _, t := range all {
		for i, series := range orderSeries {
			rate := t.rate(series)
			r.Curves[i].Points = append(r.Curves[i].Points, rate.at(x(t.netPoint)))
			cell := func(beside string) Cell {
				if series == beside {
					return words("")
				}
				return percentCell(t.overhead(series, beside))
			}
			r.Table.Rows = append(r.Table.Rows, []Cell{
				numeral(x(t.netPoint), 0), words("%s", series), numeral(rate.mid, 0), cell(orderBare), cell(orderPadded),
			})
		}
	}
	var counts []string
	for i, series := range orderSeries {
		if series == orderPadded {
			continue // as the encrypted one
		}
		counts = append(counts, perOperation(series, trips[i]))
	}
	r.Notes = []string{
		fmt.Sprintf("Each client does %s; a query reads %d rows. Every client is a store with connections of its own, and all work at a time.", shares(), ordersRange),
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

func percentCell(overhead ratio) Cell {
	p := overhead.percent()
	c := p.cell()
	c.Text = p.text(1)
	return c
}

func byLatency(ctx context.Context, cfg Config, latencies []time.Duration) (*Result, error) {
	var points []netPoint
	for _, l := range latencies {
		points = append(points, netPoint{l, mostAsked})
	}
	return throughputBy(ctx, cfg, points, "latency in ms", func(p netPoint) float64 { return float64(p.latency) / 1e6 },
		fmt.Sprintf("Throughput of %d clients by network latency", mostAsked), latencyFindings)
}

// throughputBy measures the throughput at points, which are drawn by x.
func throughputBy(ctx context.Context, cfg Config, points []netPoint, xLabel string, x func(netPoint) float64, title string, findings func([]*throughput) []Finding) (*Result, error) {
	planned := cfg.rounds(orderRounds, orderQuickRounds)
	all, trips, rounds, err := measureThroughput(ctx, cfg, points, planned)
	if rounds == 0 {
		return nil, err
	}
	r := orderResult(cfg, all, trips, rounds, xLabel, x)
	r.Title = fmt.Sprintf("%s: %s, median of %d %s", title, cfg.Database.Name, rounds, plural(rounds, "round"))
	r.early(planned)
	r.Findings = findings(all)
	r.below(tpccPaperSize)
	return r, err
}

// overheads lists the overhead of a series at points. What decides is plaintext with the fewest round
// trips: nobody who does without encryption has to ask for more.
func overheads(all []*throughput, series string, name func(netPoint) string) string {
	var text []string
	for _, t := range all {
		text = append(text, fmt.Sprintf("%s %s", percentCell(t.overhead(series, orderBare)).Text, name(t.netPoint)))
	}
	return strings.Join(text, ", ")
}

// asked says whether the encrypted series is as close to plaintext as it has to be at a point.
func (t *throughput) asked() verdict {
	o := t.overhead(orderEncrypted, orderBare)
	return o.about(mostOverhead, mostOverhead)
}

// askedFinding says whether the encrypted series is close enough at all points where that is asked.
func askedFinding(points []*throughput, where string, name func(netPoint) string) Finding {
	var enough []verdict
	for _, t := range points {
		enough = append(enough, t.asked())
	}
	if len(enough) == 0 {
		enough = []verdict{unclear} // nothing was measured there
	}
	return every(enough...).finding("Asked of this module: with %d clients%s at most %.0f %% below plaintext. Here, in per cent: %s.",
		mostAsked, where, 100*mostOverhead, cmp.Or(overheads(points, orderEncrypted, name), "not measured"))
}

func latencyFindings(all []*throughput) []Finding {
	at := func(p netPoint) string { return fmt.Sprintf("at %d ms", p.latency.Milliseconds()) }
	first, last := all[0].overhead(orderEncrypted, orderBare), all[len(all)-1].overhead(orderEncrypted, orderBare)
	library, smaller := isSo, last.below(first.mid)
	var asked []*throughput // where something is asked
	for _, t := range all {
		if t.latency >= 20*time.Millisecond {
			library = both(library, t.overhead(orderLibrary, orderBare).about(mostOverhead, 2*mostOverhead))
		}
		if l := t.latency.Milliseconds(); l == 40 || l == 80 {
			asked = append(asked, t)
		}
	}
	return []Finding{
		library.finding("The paper: without the cost of cryptography its throughput is that of plaintext for any realistic delay (more than 20 ms). plain-rangecrypt is below plaintext by, in per cent: %s.", overheads(all, orderLibrary, at)),
		smaller.finding("The paper: encrypted it is lower, but the difference decreases rapidly with the latency, until it almost vanishes. Encrypted, it is below plaintext by, in per cent: %s; with an ordered column: %s.", overheads(all, orderEncrypted, at), overheads(all, orderSearched, at)),
		askedFinding(asked, ", at 40 and 80 ms,", at),
	}
}

func byClients(ctx context.Context, cfg Config, latency time.Duration, clients []int, paper float64) (*Result, error) {
	var points []netPoint
	for _, n := range clients {
		points = append(points, netPoint{latency, n})
	}
	return throughputBy(ctx, cfg, points, "clients", func(p netPoint) float64 { return float64(p.clients) },
		fmt.Sprintf("Throughput by clients at %d ms", latency.Milliseconds()),
		func(all []*throughput) []Finding { return clientFindings(all, paper) })
}

func clientFindings(all []*throughput, paper float64) []Finding {
	with := func(p netPoint) string { return fmt.Sprintf("with %d", p.clients) }
	first, last := all[0], all[len(all)-1]
	growth := func(t *throughput, series string) float64 { return t.rate(series).mid / first.rate(series).mid }
	most := last.overhead(orderEncrypted, orderBare)
	var asked []*throughput
	for _, t := range all {
		if t.clients == mostAsked {
			asked = append(asked, t)
		}
	}
	plain, encrypted := growth(last, orderBare), growth(last, orderEncrypted)
	kept := ratioOf(last.shares(orderEncrypted, orderBare), first.shares(orderEncrypted, orderBare))
	return []Finding{
		both(most.above(paper-0.05), most.below(paper+0.05)).finding(
			"The paper: with 40 clients encryption costs %.0f %% of the throughput. Here, with %d, it is below plaintext by %s %%. By clients: %s; with an ordered column: %s.", 100*paper, last.clients, percentCell(most).Text, overheads(all, orderEncrypted, with), overheads(all, orderSearched, with)),
		kept.above(0.9).finding(
			"The paper: encryption does not affect scalability. From %d to %d clients the throughput grows %.1f times, and %.1f times in plaintext: %v times as much in the same round.", first.clients, last.clients, encrypted, plain, kept),
		askedFinding(asked, "", with),
	}
}
