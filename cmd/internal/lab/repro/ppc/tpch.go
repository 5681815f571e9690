package ppc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// The rows of TPC-H, by the rules of its section 4.2.3. What is simplified is in [tpchSimplified].

const tpchSimplified = "The rows follow TPC-H's rules for values, keys and references, at a smaller scale. Simplified: texts are words of its lists without its grammar, " +
	"addresses are letters, and the four suppliers of a part are spread by a rule that holds for few suppliers, too."

// tpchData is the rows of each relation, in the order of their keys.
type tpchData map[string][]store.Row

// rows returns how many there are.
func (d tpchData) rows() (n int) {
	for _, all := range d {
		n += len(all)
	}
	return n
}

// A tpchScale is how many things there are, in TPC-H's proportions.
type tpchScale struct{ orders, customers, parts, suppliers, clerks int }

// scaleOf returns the scale by the number of orders, of which a scale factor of 1 has 1,500,000. Small ones have
// suppliers enough for the four of a part.
func scaleOf(orders int) tpchScale {
	return tpchScale{orders: orders, customers: max(10, orders/10), parts: max(20, orders*2/15), suppliers: max(8, orders/150), clerks: max(4, orders/1500)}
}

// tpchOf returns the rows of a seed, with so many orders.
func tpchOf(seed uint64, orders int) tpchData {
	g := generator{seed, scaleOf(orders), make(tpchData)}
	for n, name := range tpchRegions {
		r := g.stream(streamRegion, n)
		g.add(regions, store.Row{"r_regionkey": int64(n), "r_name": name, "r_comment": tpc.Text(r, 31, 115)})
	}
	for n, nation := range tpchNations {
		r := g.stream(streamNation, n)
		g.add(nations, store.Row{"n_nationkey": int64(n), "n_name": nation.name, "n_regionkey": int64(nation.region), "n_comment": tpc.Text(r, 31, 114)})
	}
	for n := range g.suppliers {
		g.supplier(n + 1)
	}
	for n := range g.customers {
		g.customer(n + 1)
	}
	for n := range g.parts {
		g.part(n + 1)
	}
	for n := range g.orders {
		g.order(n)
	}
	return g.data
}

type generator struct {
	seed uint64
	tpchScale
	data tpchData
}

// The streams of random numbers. Each row has one of its own, so that it does not depend on others.
const (
	streamRegion = iota
	streamNation
	streamSupplier
	streamCustomer
	streamPart
	streamOrder
)

func (g generator) stream(of, n int) *rand.Rand {
	return rand.New(rand.NewPCG(g.seed, uint64(of)<<40|uint64(n)))
}

func (g generator) add(relation string, row store.Row) {
	g.data[relation] = append(g.data[relation], row)
}

// tpchAddress returns 10 to 40 letters.
func tpchAddress(r *rand.Rand) string {
	text := make([]byte, tpc.Between(r, 10, 40))
	for i := range text {
		text[i] = byte('a' + r.IntN(26))
	}
	return string(text)
}

func tpchPhone(r *rand.Rand, nation int) string {
	return fmt.Sprintf("%02d-%03d-%03d-%04d", nation+10, tpc.Between(r, 100, 999), tpc.Between(r, 100, 999), tpc.Between(r, 1000, 9999))
}

func (g generator) supplier(key int) {
	r := g.stream(streamSupplier, key)
	nation := r.IntN(len(tpchNations))
	g.add(suppliers, store.Row{
		"s_suppkey": int64(key), "s_name": fmt.Sprintf("Supplier#%09d", key), "s_address": tpchAddress(r), "s_nationkey": int64(nation),
		"s_phone": tpchPhone(r, nation), "s_acctbal": tpc.Money(int64(tpc.Between(r, -99_999, 999_999))), "s_comment": tpc.Text(r, 25, 100),
	})
}

func (g generator) customer(key int) {
	r := g.stream(streamCustomer, key)
	nation := r.IntN(len(tpchNations))
	g.add(customers, store.Row{
		"c_custkey": int64(key), "c_name": fmt.Sprintf("Customer#%09d", key), "c_address": tpchAddress(r), "c_nationkey": int64(nation),
		"c_phone": tpchPhone(r, nation), "c_acctbal": tpc.Money(int64(tpc.Between(r, -99_999, 999_999))), "c_mktsegment": tpc.OneOf(r, tpchSegments), "c_comment": tpc.Text(r, 29, 116),
	})
}

// part adds a part and what its four suppliers offer.
func (g generator) part(key int) {
	r := g.stream(streamPart, key)
	var name []string
	for _, i := range r.Perm(len(tpchColours))[:5] {
		name = append(name, tpchColours[i])
	}
	maker := tpc.Between(r, 1, 5)
	g.add(parts, store.Row{
		"p_partkey": int64(key), "p_name": strings.Join(name, " "), "p_mfgr": fmt.Sprintf("Manufacturer#%d", maker), "p_brand": fmt.Sprintf("Brand#%d%d", maker, tpc.Between(r, 1, 5)),
		"p_type": tpc.OneOf(r, tpchTypes[0]) + " " + tpc.OneOf(r, tpchTypes[1]) + " " + tpc.OneOf(r, tpchTypes[2]), "p_size": int32(tpc.Between(r, 1, 50)),
		"p_container": tpc.OneOf(r, tpchContainers[0]) + " " + tpc.OneOf(r, tpchContainers[1]), "p_retailprice": tpc.Money(retailPrice(key)), "p_comment": tpc.Text(r, 5, 22),
	})
	var from []int
	for i := range 4 {
		from = append(from, g.supplierOf(key, i))
	}
	slices.Sort(from)
	for _, supplier := range from {
		g.add(offers, store.Row{
			"ps_partkey": int64(key), "ps_suppkey": int64(supplier), "ps_availqty": int32(tpc.Between(r, 1, 9999)),
			"ps_supplycost": tpc.Money(int64(tpc.Between(r, 100, 100_000))), "ps_comment": tpc.Text(r, 49, 198),
		})
	}
}

// supplierOf returns the i-th supplier of a part. TPC-H adds the turn of the part to the distance; with few suppliers two of
// the four could then be one.
func (g generator) supplierOf(part, i int) int {
	return (part+(part-1)/g.suppliers+i*(g.suppliers/4))%g.suppliers + 1
}

// retailPrice is in cents.
func retailPrice(part int) int64 { return int64(90_000 + part/10%20_001 + 100*(part%1000)) }

// The dates of orders, and the day that is today for TPC-H.
var (
	firstOrder = time.Date(1992, time.January, 1, 0, 0, 0, 0, time.UTC)
	tpchToday  = time.Date(1995, time.June, 17, 0, 0, 0, 0, time.UTC)
)

// orderDays is on how many days there are orders: to the end of 1998 but 151 days.
const orderDays = 7*365 + 2 - 151

func civil(t time.Time) encode.CivilDate {
	return encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}
}

// orderKey returns the key of the n-th order: 8 of 32 numbers are one.
func tpchOrderKey(n int) int64 { return int64(n/8*32 + n%8 + 1) }

// order adds the n-th order and its lines.
func (g generator) order(n int) {
	r := g.stream(streamOrder, n)
	customer := tpc.Between(r, 1, g.customers)
	for customer%3 == 0 { // a third of the customers have no orders
		customer = tpc.Between(r, 1, g.customers)
	}
	day := firstOrder.AddDate(0, 0, r.IntN(orderDays))
	count := tpc.Between(r, 1, 7)
	var total int64
	shipped := 0
	for i := range count {
		line := g.line(r, tpchOrderKey(n), i+1, day)
		// Of price, discount and tax, in units of 10^-6.
		total += tpc.Cents(line["l_extendedprice"]) * (100 - tpc.Cents(line["l_discount"])) * (100 + tpc.Cents(line["l_tax"]))
		if line["l_linestatus"] == "F" {
			shipped++
		}
		g.add(lines, line)
	}
	status := "P"
	switch shipped {
	case 0:
		status = "O"
	case count:
		status = "F"
	}
	g.add(purchases, store.Row{
		"o_orderkey": tpchOrderKey(n), "o_custkey": int64(customer), "o_orderstatus": status, "o_totalprice": tpc.Money((total + 5_000) / 10_000), "o_orderdate": civil(day),
		"o_orderpriority": tpc.OneOf(r, tpchPriorities), "o_clerk": fmt.Sprintf("Clerk#%09d", tpc.Between(r, 1, g.clerks)), "o_shippriority": int32(0), "o_comment": tpc.Text(r, 19, 78),
	})
}

// line returns a line of an order of a day.
func (g generator) line(r *rand.Rand, order int64, number int, day time.Time) store.Row {
	part, quantity := tpc.Between(r, 1, g.parts), tpc.Between(r, 1, 50)
	ship := day.AddDate(0, 0, tpc.Between(r, 1, 121))
	receipt := ship.AddDate(0, 0, tpc.Between(r, 1, 30))
	returned, status := "N", "O"
	if !receipt.After(tpchToday) {
		returned = tpc.OneOf(r, []string{"R", "A"})
	}
	if !ship.After(tpchToday) {
		status = "F"
	}
	return store.Row{
		"l_orderkey": order, "l_linenumber": int64(number), "l_partkey": int64(part), "l_suppkey": int64(g.supplierOf(part, r.IntN(4))),
		"l_quantity": tpc.Money(int64(100 * quantity)), "l_extendedprice": tpc.Money(int64(quantity) * retailPrice(part)),
		"l_discount": tpc.Money(int64(tpc.Between(r, 0, 10))), "l_tax": tpc.Money(int64(tpc.Between(r, 0, 8))), "l_returnflag": returned, "l_linestatus": status,
		"l_shipdate": civil(ship), "l_commitdate": civil(day.AddDate(0, 0, tpc.Between(r, 30, 90))), "l_receiptdate": civil(receipt),
		"l_shipinstruct": tpc.OneOf(r, tpchInstructions), "l_shipmode": tpc.OneOf(r, tpchModes), "l_comment": tpc.Text(r, 10, 43),
	}
}
