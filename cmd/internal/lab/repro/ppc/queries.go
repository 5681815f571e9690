package ppc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// The queries of TPC-H, section 2.4, with the parameters of its validation runs. The client does what a database does with
// the rows: it reads the columns of whole tables, and joins them in memory.

// A tpchQuery is a query of TPC-H. Its answer is lines of text.
type tpchQuery struct {
	number int
	about  string
	answer func(c *tpchClient) []string
}

// tpchQueries are as many as the paper has, of which it names 1, 6, 8 and 10.
var tpchQueries = []tpchQuery{
	{1, "sums by the state of lines", query1},
	{3, "open orders of a market segment", query3},
	{4, "late orders by priority", query4},
	{5, "revenue of a region's own suppliers", query5},
	{6, "lines of a year, discount and quantity", query6},
	{8, "share of a nation's suppliers in a market", query8},
	{9, "profit by nation and year", query9},
	{10, "customers who returned parts", query10},
	{12, "lines by ship mode and priority", query12},
	{14, "share of promoted parts", query14},
}

// tpchLeftOut says of each other query why it is not measured.
var tpchLeftOut = []struct {
	number int
	why    string
}{
	{2, "its subquery asks for a minimum by part, over tables that are small"},
	{7, "it joins the tables of query 8, with the nations once more"},
	{11, "its subquery sums up the same small tables again"},
	{13, "it looks for a pattern in the text of orders, which the generator does not follow"},
	{15, "it defines a view, which the paper's database (MySQL 4.1) does not have"},
	{16, "it counts distinct suppliers and looks for a pattern in their text"},
	{17, "its subquery asks for an average by part"},
	{18, "its subquery groups all lines by order"},
	{19, "no line fulfils its conditions at this size"},
	{20, "its subqueries are nested"},
	{21, "it has two subqueries of all lines"},
	{22, "it works on parts of telephone numbers, and its subqueries are nested"},
}

// A tpchSource has the rows of all tables.
type tpchSource interface {
	// each calls do for each row of a relation. Rows have their keys and at least the columns.
	each(ctx context.Context, relation string, columns []string, do func(store.Row)) error
}

// each is that of rows in memory.
func (d tpchData) each(_ context.Context, relation string, _ []string, do func(store.Row)) error {
	for _, row := range d[relation] {
		do(row)
	}
	return nil
}

// A tpchClient does a query. After an error it reads nothing more.
type tpchClient struct {
	ctx  context.Context
	from tpchSource
	err  error
}

// each calls do for each row of a relation, with columns whose names are separated by spaces.
func (c *tpchClient) each(relation, columns string, do func(tpchRow)) {
	if c.err == nil {
		c.err = c.from.each(c.ctx, relation, strings.Fields(columns), func(row store.Row) { do(tpchRow(row)) })
	}
}

// run returns the answer of a query.
func (q tpchQuery) run(ctx context.Context, from tpchSource) ([]string, error) {
	c := &tpchClient{ctx: ctx, from: from}
	answer := q.answer(c)
	return answer, c.err
}

// A tpchReads notes what a query reads, and has no rows.
type tpchReads map[string][]string

func (r tpchReads) each(_ context.Context, relation string, columns []string, _ func(store.Row)) error {
	r[relation] = columns
	return nil
}

// reads returns the columns that the query reads, by relation.
func (q tpchQuery) reads() tpchReads {
	r := make(tpchReads)
	q.answer(&tpchClient{ctx: context.Background(), from: r})
	return r
}

// sensitive returns the sensitive columns that the query reads, in order.
func (q tpchQuery) sensitive() (all []string) {
	for _, columns := range q.reads() {
		for _, c := range columns {
			if sensitive(c) {
				all = append(all, c)
			}
		}
	}
	slices.Sort(all)
	return all
}

// A tpchRow has values by column. A value that is missing is zero.
type tpchRow store.Row

func (r tpchRow) key(column string) int64 {
	k, _ := r[column].(int64)
	return k
}

func (r tpchRow) text(column string) string {
	s, _ := r[column].(string)
	return s
}

// cents returns a decimal number of two digits after the point, in units of the last.
func (r tpchRow) cents(column string) int64 { return tpc.Cents(r[column]) }

// day returns a date as the number that its digits are, as 19950617.
func (r tpchRow) day(column string) int {
	d, _ := r[column].(encode.CivilDate)
	return d.Year*10_000 + int(d.Month)*100 + d.Day
}

func (r tpchRow) year(column string) int { return r.day(column) / 10_000 }

// revenue returns the price of a line after its discount, in units of 10^-4.
func (r tpchRow) revenue() int64 { return r.cents("l_extendedprice") * (100 - r.cents("l_discount")) }

// promille returns how many thousandths of all the part is.
func promille(part, all int64) int64 {
	if all == 0 {
		return 0
	}
	return 1000 * part / all
}

// sumLines returns a line for each sum, in the order of their keys.
func sumLines[K cmp.Ordered](sums map[K]int64) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, fmt.Sprintf("%v %d", k, sums[k]))
	}
	return all
}

// most returns the n lines of the greatest sums.
func most[K cmp.Ordered](sums map[K]int64, n int, line func(K, int64) string) (all []string) {
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b K) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	for _, k := range keys[:min(n, len(keys))] {
		all = append(all, line(k, sums[k]))
	}
	return all
}

func query1(c *tpchClient) (answer []string) {
	type sums struct{ quantity, price, revenue, charge, discount, count int64 }
	groups := make(map[string]*sums)
	c.each(lines, "l_quantity l_extendedprice l_discount l_tax l_returnflag l_linestatus l_shipdate", func(r tpchRow) {
		if r.day("l_shipdate") > 19980902 {
			return
		}
		name := r.text("l_returnflag") + " " + r.text("l_linestatus")
		g := groups[name]
		if g == nil {
			g = new(sums)
			groups[name] = g
		}
		g.quantity += r.cents("l_quantity")
		g.price += r.cents("l_extendedprice")
		g.revenue += r.revenue()
		g.charge += r.revenue() * (100 + r.cents("l_tax"))
		g.discount += r.cents("l_discount")
		g.count++
	})
	for _, name := range slices.Sorted(maps.Keys(groups)) { // averages are these sums by the count
		answer = append(answer, fmt.Sprintf("%s %v", name, *groups[name]))
	}
	return answer
}

func query3(c *tpchClient) []string {
	building, ordered, revenue := make(map[int64]bool), make(map[int64]int), make(map[int64]int64)
	c.each(customers, "c_mktsegment", func(r tpchRow) {
		if r.text("c_mktsegment") == "BUILDING" {
			building[r.key("c_custkey")] = true
		}
	})
	c.each(purchases, "o_custkey o_orderdate o_shippriority", func(r tpchRow) {
		if building[r.key("o_custkey")] && r.day("o_orderdate") < 19950315 {
			ordered[r.key("o_orderkey")] = r.day("o_orderdate")
		}
	})
	c.each(lines, "l_extendedprice l_discount l_shipdate", func(r tpchRow) {
		if ordered[r.key("l_orderkey")] > 0 && r.day("l_shipdate") > 19950315 {
			revenue[r.key("l_orderkey")] += r.revenue()
		}
	})
	return most(revenue, 10, func(k, sum int64) string { return fmt.Sprint(k, sum, ordered[k]) })
}

func query4(c *tpchClient) []string {
	late, count := make(map[int64]bool), make(map[string]int64)
	c.each(lines, "l_commitdate l_receiptdate", func(r tpchRow) {
		if r.day("l_commitdate") < r.day("l_receiptdate") {
			late[r.key("l_orderkey")] = true
		}
	})
	c.each(purchases, "o_orderdate o_orderpriority", func(r tpchRow) {
		if d := r.day("o_orderdate"); d >= 19930701 && d < 19931001 && late[r.key("o_orderkey")] {
			count[r.text("o_orderpriority")]++
		}
	})
	return sumLines(count)
}

// nationsOf returns the names of the nations of a region, by key.
func nationsOf(c *tpchClient, region string) map[int64]string {
	var key int64
	names := make(map[int64]string)
	c.each(regions, "r_name", func(r tpchRow) {
		if r.text("r_name") == region {
			key = r.key("r_regionkey")
		}
	})
	c.each(nations, "n_name n_regionkey", func(r tpchRow) {
		if r.key("n_regionkey") == key {
			names[r.key("n_nationkey")] = r.text("n_name")
		}
	})
	return names
}

// allNations returns the names of all nations, by key.
func allNations(c *tpchClient) map[int64]string {
	names := make(map[int64]string)
	c.each(nations, "n_name", func(r tpchRow) { names[r.key("n_nationkey")] = r.text("n_name") })
	return names
}

// column returns one column of a relation, by its key.
func (c *tpchClient) column(relation, key, name string) map[int64]int64 {
	all := make(map[int64]int64)
	c.each(relation, name, func(r tpchRow) { all[r.key(key)] = r.key(name) })
	return all
}

func query5(c *tpchClient) []string {
	asia := nationsOf(c, "ASIA")
	customer := c.column(customers, "c_custkey", "c_nationkey")
	supplier := c.column(suppliers, "s_suppkey", "s_nationkey")
	nation, revenue := make(map[int64]int64), make(map[string]int64)
	c.each(purchases, "o_custkey o_orderdate", func(r tpchRow) {
		if r.year("o_orderdate") == 1994 {
			nation[r.key("o_orderkey")] = customer[r.key("o_custkey")]
		}
	})
	c.each(lines, "l_suppkey l_extendedprice l_discount", func(r tpchRow) {
		of, ordered := nation[r.key("l_orderkey")]
		if ordered && asia[of] != "" && supplier[r.key("l_suppkey")] == of {
			revenue[asia[of]] += r.revenue()
		}
	})
	return sumLines(revenue)
}

func query6(c *tpchClient) []string {
	var sum int64
	c.each(lines, "l_quantity l_extendedprice l_discount l_shipdate", func(r tpchRow) {
		if d := r.cents("l_discount"); r.year("l_shipdate") == 1994 && d >= 5 && d <= 7 && r.cents("l_quantity") < 2400 {
			sum += r.cents("l_extendedprice") * d
		}
	})
	return []string{fmt.Sprint(sum)}
}

func query8(c *tpchClient) (answer []string) {
	america, names := nationsOf(c, "AMERICA"), allNations(c)
	customer := c.column(customers, "c_custkey", "c_nationkey")
	supplier := c.column(suppliers, "s_suppkey", "s_nationkey")
	steel, year := make(map[int64]bool), make(map[int64]int)
	c.each(parts, "p_type", func(r tpchRow) { steel[r.key("p_partkey")] = r.text("p_type") == "ECONOMY ANODIZED STEEL" })
	c.each(purchases, "o_custkey o_orderdate", func(r tpchRow) {
		if y := r.year("o_orderdate"); (y == 1995 || y == 1996) && america[customer[r.key("o_custkey")]] != "" {
			year[r.key("o_orderkey")] = y
		}
	})
	brazil, all := make(map[int]int64), make(map[int]int64)
	c.each(lines, "l_partkey l_suppkey l_extendedprice l_discount", func(r tpchRow) {
		y := year[r.key("l_orderkey")]
		if y == 0 || !steel[r.key("l_partkey")] {
			return
		}
		all[y] += r.revenue()
		if names[supplier[r.key("l_suppkey")]] == "BRAZIL" {
			brazil[y] += r.revenue()
		}
	})
	for _, y := range slices.Sorted(maps.Keys(all)) {
		answer = append(answer, fmt.Sprint(y, promille(brazil[y], all[y]), all[y]))
	}
	return answer
}

func query9(c *tpchClient) []string {
	names := allNations(c)
	supplier := c.column(suppliers, "s_suppkey", "s_nationkey")
	type offer struct{ part, supplier int64 }
	green, cost, year, profit := make(map[int64]bool), make(map[offer]int64), make(map[int64]int), make(map[string]int64)
	c.each(parts, "p_name", func(r tpchRow) { green[r.key("p_partkey")] = strings.Contains(r.text("p_name"), "green") })
	c.each(offers, "ps_supplycost", func(r tpchRow) {
		if green[r.key("ps_partkey")] {
			cost[offer{r.key("ps_partkey"), r.key("ps_suppkey")}] = r.cents("ps_supplycost")
		}
	})
	c.each(purchases, "o_orderdate", func(r tpchRow) { year[r.key("o_orderkey")] = r.year("o_orderdate") })
	c.each(lines, "l_partkey l_suppkey l_quantity l_extendedprice l_discount", func(r tpchRow) {
		if part := r.key("l_partkey"); green[part] {
			from := r.key("l_suppkey")
			profit[fmt.Sprint(names[supplier[from]], " ", year[r.key("l_orderkey")])] += r.revenue() - cost[offer{part, from}]*r.cents("l_quantity")
		}
	})
	return sumLines(profit)
}

func query10(c *tpchClient) []string {
	names := allNations(c)
	buyer, revenue, about := make(map[int64]int64), make(map[int64]int64), make(map[int64]string)
	c.each(purchases, "o_custkey o_orderdate", func(r tpchRow) {
		if d := r.day("o_orderdate"); d >= 19931001 && d < 19940101 {
			buyer[r.key("o_orderkey")] = r.key("o_custkey")
		}
	})
	c.each(lines, "l_extendedprice l_discount l_returnflag", func(r tpchRow) {
		if of := buyer[r.key("l_orderkey")]; of != 0 && r.text("l_returnflag") == "R" {
			revenue[of] += r.revenue()
		}
	})
	c.each(customers, "c_name c_address c_nationkey c_phone c_acctbal c_comment", func(r tpchRow) {
		if k := r.key("c_custkey"); revenue[k] > 0 {
			about[k] = fmt.Sprint(r.text("c_name"), r.cents("c_acctbal"), names[r.key("c_nationkey")], r.text("c_address"), r.text("c_phone"), r.text("c_comment"))
		}
	})
	return most(revenue, 20, func(k, sum int64) string { return fmt.Sprint(k, sum, about[k]) })
}

func query12(c *tpchClient) []string {
	urgent, count := make(map[int64]bool), make(map[string]int64)
	c.each(purchases, "o_orderpriority", func(r tpchRow) {
		p := r.text("o_orderpriority")
		urgent[r.key("o_orderkey")] = p == "1-URGENT" || p == "2-HIGH"
	})
	c.each(lines, "l_shipdate l_commitdate l_receiptdate l_shipmode", func(r tpchRow) {
		mode, committed, received := r.text("l_shipmode"), r.day("l_commitdate"), r.day("l_receiptdate")
		if (mode == "MAIL" || mode == "SHIP") && committed < received && r.day("l_shipdate") < committed && received/10_000 == 1994 {
			count[fmt.Sprint(mode, " ", urgent[r.key("l_orderkey")])]++
		}
	})
	return sumLines(count)
}

func query14(c *tpchClient) []string {
	promoted := make(map[int64]bool)
	c.each(parts, "p_type", func(r tpchRow) { promoted[r.key("p_partkey")] = strings.HasPrefix(r.text("p_type"), "PROMO") })
	var part, all int64
	c.each(lines, "l_partkey l_extendedprice l_discount l_shipdate", func(r tpchRow) {
		if r.day("l_shipdate")/100 != 199509 {
			return
		}
		all += r.revenue()
		if promoted[r.key("l_partkey")] {
			part += r.revenue()
		}
	})
	return []string{fmt.Sprint(promille(part, all), " ", all)}
}
