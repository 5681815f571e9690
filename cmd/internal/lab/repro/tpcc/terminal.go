package tpcc

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// The rows and transactions of TPC-C.

// How many there are of each: fewer than in TPC-C, as what a client encrypts for a command does not depend on the rows
// beside those that it names. Three customers of a district have one last name, as in TPC-C. An order has ten lines, which
// is the mean of its 5 to 15.
const (
	districtCount  = 2
	nameCount      = 20
	sameName       = 3
	customerCount  = nameCount * sameName
	itemCount      = 200
	orderCount     = 30 // of a district at first, of which the last third is not delivered
	LineCount      = 10
	recentOrders   = 20 // orders that Stock Level looks at
	badCredit      = 10 // one of so many names
	Warehouse      = int32(1)
	startOfTime    = 1_700_000_000_000 // ms
	paidAtFirst    = 3_000_000         // in a district at first
	leastThreshold = 10
	mostThreshold  = 20
)

// The classes of transactions, in the order of the paper's figure.
const (
	ClassOrderStatus = "Order Status"
	ClassDelivery    = "Delivery"
	ClassStockLevel  = "Stock Level"
	ClassPayment     = "Payment"
	ClassNewOrder    = "New Order"
)

// Classes are all classes of transactions.
var Classes = []string{ClassOrderStatus, ClassDelivery, ClassStockLevel, ClassPayment, ClassNewOrder}

// A Step is a command of a transaction with the answer that is right.
type Step struct {
	Class, Command string
	Statement
	Want []store.Row
}

// A Terminal makes the transactions of a seed, one after the other, and knows the rows as they are then.
type Terminal struct {
	random *rand.Rand
	rows   model
	steps  []Step
	class  string // of the transaction that is made
	Turns  int
	now    int64
}

// NewTerminal returns a terminal and what fills the tables, which is a statement for each.
func NewTerminal(seed uint64) (*Terminal, []Statement) {
	t := &Terminal{random: rand.New(rand.NewPCG(seed, 5)), rows: make(model), now: startOfTime}
	rows := make(map[string][]store.Row)
	add := func(table string, row store.Row) { rows[table] = append(rows[table], row) }
	warehouse := t.place("w", store.Row{"w_id": Warehouse})
	warehouse["w_ytd"] = tpc.Money(districtCount * paidAtFirst)
	add(Warehouses, warehouse)
	for i := range int32(itemCount) {
		add(items, store.Row{"i_id": i + 1, "i_im_id": t.random.Int32N(10_000), "i_name": t.text(14, 24), "i_price": t.money(100, 10_000), "i_data": t.text(26, 50)})
		add(stockItems, t.stock(i+1))
	}
	for d := range int32(districtCount) {
		district := t.place("d", store.Row{"d_w_id": Warehouse, "d_id": d + 1})
		district["d_next_o_id"] = int32(orderCount + 1)
		add(Districts, district)
		for c := range int32(customerCount) {
			add(customers, t.customer(d+1, c+1))
		}
		for o := range int32(orderCount) {
			order, undelivered, lines := t.order(d+1, o+1, int32(tpc.Between(t.random, 1, customerCount)))
			if o < orderCount*2/3 {
				order["o_carrier_id"] = int32(tpc.Between(t.random, 1, 10))
				for _, line := range lines {
					line["ol_delivery_d"] = t.now
				}
			} else {
				add(NewOrders, undelivered)
			}
			add(Orders, order)
			rows[Lines] = append(rows[Lines], lines...)
		}
	}
	var all []Statement
	for _, r := range Tables {
		if s := (Statement{Table: r.Name, Put: rows[r.Name]}); s.Put != nil {
			t.rows.change(&s)
			all = append(all, s)
		}
	}
	return t, all
}

func (t *Terminal) text(lo, hi int) string { return tpc.Text(t.random, lo, hi) }

func (t *Terminal) money(lo, hi int) encode.Decimal {
	return tpc.Money(int64(tpc.Between(t.random, lo, hi)))
}

func (t *Terminal) rate(most int) encode.Decimal {
	d := t.money(0, most)
	d.Scale = 4
	return d
}

// place adds name, address, tax and payments to a row.
func (t *Terminal) place(prefix string, row store.Row) store.Row {
	row[prefix+"_name"] = t.text(6, 10)
	row[prefix+"_tax"], row[prefix+"_ytd"] = t.rate(2000), tpc.Money(paidAtFirst)
	return t.address(prefix, row)
}

func (t *Terminal) address(prefix string, row store.Row) store.Row {
	for _, column := range []string{"_street_1", "_street_2", "_city"} {
		row[prefix+column] = t.text(10, 20)
	}
	row[prefix+"_state"], row[prefix+"_zip"] = t.text(2, 2), fmt.Sprintf("%04d11111", t.random.IntN(10_000))
	return row
}

func (t *Terminal) stock(item int32) store.Row {
	row := store.Row{
		"s_w_id": Warehouse, "s_i_id": item, "s_quantity": int32(tpc.Between(t.random, 10, 100)), "s_ytd": int32(0), "s_order_cnt": int32(0),
		"s_remote_cnt": int32(0), "s_data": t.text(26, 50),
	}
	for _, dist := range distColumns() {
		row[dist.Name] = t.text(24, 24)
	}
	return row
}

// lastName returns the n-th last name of TPC-C, out of its syllables.
func lastName(n int) string {
	syllables := []string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
	return syllables[n/100%10] + syllables[n/10%10] + syllables[n%10]
}

// nameOfCustomer returns the number of a customer's last name.
func nameOfCustomer(customer int32) int { return int(customer-1) / sameName }

// inDistrict returns one number of a customer, or a checksum of a last name, and of the warehouse and district.
func inDistrict(district int32, who uint32) int64 {
	return int64(Warehouse)<<40 | int64(district)<<32 | int64(who)
}

func byName(district int32, name int) int64 {
	return inDistrict(district, crc32.ChecksumIEEE([]byte(lastName(name))))
}

func (t *Terminal) customer(district, customer int32) store.Row {
	name, credit := nameOfCustomer(customer), "GC"
	if name%badCredit == 0 {
		credit = "BC"
	}
	return t.address("c", store.Row{
		"c_w_id": Warehouse, "c_d_id": district, "c_id": customer, "c_first": t.text(8, 16), "c_middle": "OE", "c_last": lastName(name),
		"c_name": byName(district, name), "c_phone": fmt.Sprintf("%016d", t.random.Int64N(1e16)), "c_since": t.now, "c_credit": credit,
		"c_credit_lim": tpc.Money(5_000_000), "c_discount": t.rate(5000), "c_balance": tpc.Money(-1000), "c_ytd_payment": tpc.Money(1000),
		"c_payment_cnt": int32(1), "c_delivery_cnt": int32(0), "c_data": t.text(300, 500),
	})
}

// order returns an order that is not delivered, with its row of new_order and its lines.
func (t *Terminal) order(district, number, customer int32) (order, undelivered store.Row, lines []store.Row) {
	order = store.Row{
		"o_w_id": Warehouse, "o_d_id": district, "o_id": number, "o_c_id": customer, "o_customer": inDistrict(district, uint32(customer)),
		"o_entry_d": t.now, "o_ol_cnt": int32(LineCount), "o_all_local": int32(1),
	}
	for i, item := range t.random.Perm(itemCount)[:LineCount] {
		lines = append(lines, store.Row{
			"ol_w_id": Warehouse, "ol_d_id": district, "ol_o_id": number, "ol_number": int32(i + 1), "ol_i_id": int32(item + 1),
			"ol_supply_w_id": Warehouse, "ol_quantity": int32(tpc.Between(t.random, 1, 10)), "ol_amount": t.money(1, 999_999), "ol_dist_info": t.text(24, 24),
		})
	}
	return order, store.Row{"no_w_id": Warehouse, "no_d_id": district, "no_o_id": number}, lines
}

// Turn returns the commands of one transaction of each class, in a district. There are two payments, as those of customers
// with bad credit have commands of their own, and customers are named by their last name or by their number.
func (t *Terminal) Turn() []Step {
	t.steps = nil
	t.Turns++
	t.now += 1000
	district := int32(t.Turns%districtCount + 1)
	t.newOrder(district)
	t.class = ClassPayment
	bad := badCredit * t.random.IntN(nameCount/badCredit)
	t.payment(district, t.byLastName(district, bad))
	good := 1 + badCredit*t.random.IntN(nameCount/badCredit) + t.random.IntN(badCredit-1)
	t.payment(district, t.byNumber(district, int32(good*sameName+1)))
	t.orderStatus(district)
	t.delivery(district)
	t.stockLevel(district)
	return t.steps
}

// do adds a command to the transaction, and returns the right answer.
func (t *Terminal) do(command string, s Statement) []store.Row {
	want := t.rows.answer(&s)
	t.steps = append(t.steps, Step{t.class, command, s, want})
	t.rows.change(&s)
	return want
}

// read adds a command that reads columns of the row of a key, and returns the row with all of them.
func (t *Terminal) read(command, table string, key store.Row, columns ...string) store.Row {
	t.do(command, Statement{Table: table, Keys: []store.Row{key}, Columns: columns})
	return t.rows.row(table, key)
}

// write adds a command that puts rows.
func (t *Terminal) write(command, table string, rows ...store.Row) {
	t.do(command, Statement{Table: table, Put: rows})
}

func (t *Terminal) warehouseKey() store.Row { return store.Row{"w_id": Warehouse} }

func (t *Terminal) districtKey(district int32) store.Row {
	return store.Row{"d_w_id": Warehouse, "d_id": district}
}

func (t *Terminal) customerKey(district, customer int32) store.Row {
	return store.Row{"c_w_id": Warehouse, "c_d_id": district, "c_id": customer}
}

func (t *Terminal) orderKey(district, number int32) store.Row {
	return store.Row{"o_w_id": Warehouse, "o_d_id": district, "o_id": number}
}

// plus adds cents to a column.
func plus(row store.Row, column string, cents int64) {
	row[column] = tpc.Money(tpc.Cents(row[column]) + cents)
}

// next adds one to a column.
func next(row store.Row, column string) {
	n, _ := row[column].(int32)
	row[column] = n + 1
}

var customerColumns = []string{
	"c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state", "c_zip", "c_phone", "c_credit", "c_credit_lim", "c_discount", "c_balance", "c_since",
}

// byLastName adds the commands that find the customer in the middle of those with a last name, in the order of first names.
func (t *Terminal) byLastName(district int32, name int) store.Row {
	s := Statement{Table: customers, equal: store.Row{"c_name": byName(district, name)}, by: "c_name"}
	counted := s
	counted.counting = true
	t.do("SELECT count by name", counted)
	s.order, s.Columns = "c_first", customerColumns
	found := t.do("SELECT customers by name", s)
	return t.rows.row(customers, found[len(found)/2])
}

func (t *Terminal) byNumber(district, customer int32) store.Row {
	return t.read("SELECT customer by id", customers, t.customerKey(district, customer), customerColumns...)
}

func (t *Terminal) newOrder(district int32) {
	t.class = ClassNewOrder
	customer := int32(tpc.Between(t.random, 1, customerCount))
	t.read("SELECT customer", customers, t.customerKey(district, customer), "c_discount", "c_last", "c_credit")
	t.read("SELECT warehouse", Warehouses, t.warehouseKey(), "w_tax")
	d := t.read("SELECT district", Districts, t.districtKey(district), "d_next_o_id", "d_tax")
	number, _ := d["d_next_o_id"].(int32)
	next(d, "d_next_o_id")
	t.write("UPDATE district", Districts, d)
	order, undelivered, lines := t.order(district, number, customer)
	t.write("INSERT orders", Orders, order)
	t.write("INSERT new_order", NewOrders, undelivered)
	for _, line := range lines {
		item := t.read("SELECT item", items, store.Row{"i_id": line["ol_i_id"]}, "i_price", "i_name", "i_data")
		dist := distColumn(int(district))
		stock := t.read("SELECT stock", stockItems, store.Row{"s_w_id": Warehouse, "s_i_id": line["ol_i_id"]}, "s_quantity", "s_data", dist, "s_ytd", "s_order_cnt")
		left, _ := stock["s_quantity"].(int32)
		ordered, _ := line["ol_quantity"].(int32)
		if left -= ordered; left < 10 {
			left += 91
		}
		sold, _ := stock["s_ytd"].(int32)
		stock["s_quantity"], stock["s_ytd"] = left, sold+ordered
		next(stock, "s_order_cnt")
		t.write("UPDATE stock", stockItems, stock)
		line["ol_amount"], line["ol_dist_info"] = tpc.Money(int64(ordered)*tpc.Cents(item["i_price"])), stock[dist]
		t.write("INSERT order_line", Lines, line)
	}
}

func (t *Terminal) payment(district int32, customer store.Row) {
	amount := int64(tpc.Between(t.random, 100, 500_000))
	columns := func(prefix string) (all []string) {
		for _, column := range []string{"_street_1", "_street_2", "_city", "_state", "_zip", "_name", "_ytd"} {
			all = append(all, prefix+column)
		}
		return all
	}
	w := t.read("SELECT warehouse", Warehouses, t.warehouseKey(), columns("w")...)
	plus(w, "w_ytd", amount)
	t.write("UPDATE warehouse", Warehouses, w)
	d := t.read("SELECT district", Districts, t.districtKey(district), columns("d")...)
	plus(d, "d_ytd", amount)
	t.write("UPDATE district", Districts, d)
	plus(customer, "c_balance", -amount)
	plus(customer, "c_ytd_payment", amount)
	next(customer, "c_payment_cnt")
	if customer["c_credit"] == "BC" {
		number, _ := customer["c_id"].(int32)
		old := t.read("SELECT customer data", customers, t.customerKey(district, number), "c_data")
		data := fmt.Sprint(number, district, Warehouse, district, Warehouse, amount, old["c_data"])
		customer["c_data"] = data[:min(len(data), 500)]
		t.write("UPDATE customer, c_data", customers, customer)
	} else {
		t.write("UPDATE customer", customers, customer)
	}
	// What draws its key is in no answer.
	t.steps = append(t.steps, Step{Class: t.class, Command: "INSERT history", Statement: Statement{Table: History, Put: []store.Row{{
		"h_w_id": Warehouse, "h_d_id": district, "h_c_id": customer["c_id"], "h_c_d_id": district, "h_c_w_id": Warehouse, "h_date": t.now,
		"h_amount": tpc.Money(amount), "h_data": t.text(12, 24),
	}}}})
}

func (t *Terminal) orderStatus(district int32) {
	t.class = ClassOrderStatus
	t.byLastName(district, t.random.IntN(nameCount))
	// Of a customer who has ordered.
	order := t.rows.row(Orders, t.orderKey(district, int32(tpc.Between(t.random, 1, orderCount))))
	customer, _ := order["o_c_id"].(int32)
	t.byNumber(district, customer)
	latest := t.do("SELECT latest order", Statement{
		Table: Orders, equal: store.Row{"o_customer": inDistrict(district, uint32(customer))}, by: "o_customer", order: "o_id", reverse: true, limit: 1,
		Columns: []string{"o_entry_d", "o_carrier_id"},
	})
	number, _ := latest[0]["o_id"].(int32)
	t.do("SELECT order lines", t.linesOf(district, number, "ol_i_id", "ol_supply_w_id", "ol_quantity", "ol_amount", "ol_delivery_d"))
}

// linesOf returns what reads the lines of an order.
func (t *Terminal) linesOf(district, number int32, columns ...string) Statement {
	return Statement{Table: Lines, equal: store.Row{"ol_w_id": Warehouse, "ol_d_id": district, "ol_o_id": number}, Columns: columns}
}

func (t *Terminal) delivery(district int32) {
	t.class = ClassDelivery
	oldest := t.do("SELECT oldest new order", Statement{
		Table: NewOrders, equal: store.Row{"no_w_id": Warehouse, "no_d_id": district}, order: "no_o_id", limit: 1, Columns: []string{},
	})
	number, _ := oldest[0]["no_o_id"].(int32)
	t.do("DELETE new_order", Statement{Table: NewOrders, Remove: oldest})
	order := t.read("SELECT order", Orders, t.orderKey(district, number), "o_c_id")
	order["o_carrier_id"] = int32(tpc.Between(t.random, 1, 10))
	t.write("UPDATE orders", Orders, order)
	all := t.do("SELECT sum of lines", t.linesOf(district, number, "ol_amount"))
	sum := int64(0)
	var lines []store.Row
	for _, key := range all {
		line := t.rows.row(Lines, key)
		line["ol_delivery_d"] = t.now
		sum += tpc.Cents(line["ol_amount"])
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b store.Row) int { return compareValues(a["ol_number"], b["ol_number"]) })
	t.write("UPDATE 10 order_lines", Lines, lines...)
	customer, _ := order["o_c_id"].(int32)
	c := t.read("SELECT customer", customers, t.customerKey(district, customer), "c_balance", "c_delivery_cnt")
	plus(c, "c_balance", sum)
	next(c, "c_delivery_cnt")
	t.write("UPDATE customer", customers, c)
}

func (t *Terminal) stockLevel(district int32) {
	t.class = ClassStockLevel
	d := t.read("SELECT district", Districts, t.districtKey(district), "d_next_o_id")
	number, _ := d["d_next_o_id"].(int32)
	t.do("SELECT recent lines", Statement{
		Table: Lines, equal: store.Row{"ol_w_id": Warehouse, "ol_d_id": district}, within: &span{"ol_o_id", number - recentOrders, number}, Columns: []string{"ol_i_id"},
	})
	t.do("SELECT low stock", Statement{
		Table: stockItems, equal: store.Row{"s_w_id": Warehouse}, by: "s_quantity",
		within: &span{column: "s_quantity", below: int32(tpc.Between(t.random, leastThreshold, mostThreshold))}, Columns: []string{},
	})
}
