// Package tpcc has the tables of TPC-C, and the commands of its transactions with the answers of a model.
package tpcc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/store"
)

// The tables of TPC-C, and its commands on them.

const (
	Warehouses = "warehouse"
	Districts  = "district"
	customers  = "customer"
	History    = "history"
	Orders     = "orders"
	NewOrders  = "new_order"
	Lines      = "order_line"
	items      = "item"
	stockItems = "stock"
)

var (
	idType    = store.Int32.Within(1, 100_000)
	orderType = store.Int32.Within(1, 10_000_000)
	moneyType = store.Decimal(2).Within(tpc.Money(-999_999_999_999), tpc.Money(999_999_999_999)) // numeric(12, 2)
	rateType  = store.Decimal(4)
	timeType  = store.Int64 // in ms
)

// Tables have the columns of the specification, and two more. A customer has c_name, and an order o_customer, in one
// number what the specification looks them up by: warehouse and district with the last name, or with the customer. It is
// a number, since a plain index entry has the beginning of a text only, where a token stands for all of it.
var Tables = []tpc.Relation{
	{Name: Warehouses, Key: []tpc.Field{tpc.F("w_id", idType)}, Columns: []tpc.Field{
		tpc.F("w_name", store.String), tpc.F("w_street_1", store.String), tpc.F("w_street_2", store.String), tpc.F("w_city", store.String), tpc.F("w_state", store.String),
		tpc.F("w_zip", store.String), tpc.F("w_tax", rateType), tpc.F("w_ytd", moneyType),
	}},
	{Name: Districts, Key: []tpc.Field{tpc.F("d_w_id", idType), tpc.F("d_id", idType)}, Columns: []tpc.Field{
		tpc.F("d_name", store.String), tpc.F("d_street_1", store.String), tpc.F("d_street_2", store.String), tpc.F("d_city", store.String), tpc.F("d_state", store.String),
		tpc.F("d_zip", store.String), tpc.F("d_tax", rateType), tpc.F("d_ytd", moneyType), tpc.F("d_next_o_id", orderType),
	}},
	{Name: customers, Key: []tpc.Field{tpc.F("c_w_id", idType), tpc.F("c_d_id", idType), tpc.F("c_id", idType)}, Columns: []tpc.Field{
		tpc.F("c_first", store.String), tpc.F("c_middle", store.String), tpc.F("c_last", store.String), tpc.F("c_name", store.Int64), tpc.F("c_street_1", store.String),
		tpc.F("c_street_2", store.String), tpc.F("c_city", store.String), tpc.F("c_state", store.String), tpc.F("c_zip", store.String), tpc.F("c_phone", store.String),
		tpc.F("c_since", timeType), tpc.F("c_credit", store.String), tpc.F("c_credit_lim", moneyType), tpc.F("c_discount", rateType), tpc.F("c_balance", moneyType),
		tpc.F("c_ytd_payment", moneyType), tpc.F("c_payment_cnt", store.Int32), tpc.F("c_delivery_cnt", store.Int32), tpc.F("c_data", store.String),
	}},
	{Name: History, Key: []tpc.Field{tpc.F("h_w_id", idType), tpc.F("h_d_id", idType)}, Columns: []tpc.Field{
		tpc.F("h_c_id", idType), tpc.F("h_c_d_id", idType), tpc.F("h_c_w_id", idType), tpc.F("h_date", timeType), tpc.F("h_amount", moneyType), tpc.F("h_data", store.String),
	}},
	{Name: Orders, Key: []tpc.Field{tpc.F("o_w_id", idType), tpc.F("o_d_id", idType), tpc.F("o_id", orderType)}, Columns: []tpc.Field{
		tpc.F("o_c_id", idType), tpc.F("o_customer", store.Int64), tpc.F("o_entry_d", timeType), tpc.F("o_carrier_id", store.Int32), tpc.F("o_ol_cnt", store.Int32),
		tpc.F("o_all_local", store.Int32),
	}},
	{Name: NewOrders, Key: []tpc.Field{tpc.F("no_w_id", idType), tpc.F("no_d_id", idType), tpc.F("no_o_id", orderType)}, Columns: nil},
	{Name: Lines, Key: []tpc.Field{tpc.F("ol_w_id", idType), tpc.F("ol_d_id", idType), tpc.F("ol_o_id", orderType), tpc.F("ol_number", idType)}, Columns: []tpc.Field{
		tpc.F("ol_i_id", idType), tpc.F("ol_supply_w_id", idType), tpc.F("ol_delivery_d", timeType), tpc.F("ol_quantity", store.Int32), tpc.F("ol_amount", moneyType),
		tpc.F("ol_dist_info", store.String),
	}},
	{Name: items, Key: []tpc.Field{tpc.F("i_id", idType)}, Columns: []tpc.Field{tpc.F("i_im_id", store.Int32), tpc.F("i_name", store.String), tpc.F("i_price", moneyType), tpc.F("i_data", store.String)}},
	{Name: stockItems, Key: []tpc.Field{tpc.F("s_w_id", idType), tpc.F("s_i_id", idType)}, Columns: append([]tpc.Field{
		tpc.F("s_quantity", store.Int32.Within(-9999, 9999)), tpc.F("s_ytd", store.Int32), tpc.F("s_order_cnt", store.Int32), tpc.F("s_remote_cnt", store.Int32), tpc.F("s_data", store.String),
	}, distColumns()...)},
}

// distColumns are the columns with what an order line says of its district.
func distColumns() (all []tpc.Field) {
	for d := range 10 {
		all = append(all, tpc.Field{Name: distColumn(d + 1), Of: store.String})
	}
	return all
}

func distColumn(district int) string { return fmt.Sprintf("s_dist_%02d", district) }

// What commands search by ranges, or by the least or the greatest; and the columns that they search by value. Ranges of
// balances no command asks for: whoever grants credit does.
var (
	ByRange = []string{"o_id", "no_o_id", "ol_o_id", "s_quantity", "c_balance"}
	ByValue = []string{"c_name", "o_customer"}
)

// tableOf returns the table with a name.
func tableOf(name string) tpc.Relation {
	return Tables[slices.IndexFunc(Tables, func(r tpc.Relation) bool { return r.Name == name })]
}

// A Statement is what a command asks of one table: to put rows, to delete those of keys, to read those of keys, or to
// find those that equal and within name.
type Statement struct {
	Table    string
	Put      []store.Row
	Remove   []store.Row
	Keys     []store.Row
	equal    store.Row
	within   *span
	by       string
	order    string // by which the rows are sorted
	reverse  bool
	limit    int
	counting bool // asks for the number of rows only
	Columns  []string
}

// A span is the values of a column from one on, where there is one, that are below another.
type span struct {
	column      string
	from, below any
}

// predicate returns what the rows have that are searched.
func (s *Statement) predicate() store.Predicate {
	var all []store.Predicate
	for _, name := range slices.Sorted(maps.Keys(s.equal)) {
		all = append(all, store.Field[any](name).Equal(s.equal[name]))
	}
	if w := s.within; w != nil {
		f := store.Field[any](w.column)
		if w.from != nil {
			all = append(all, f.AtLeast(w.from))
		}
		all = append(all, f.Less(w.below))
	}
	return store.And(all...)
}

// On asks a table.
func (s *Statement) On(ctx context.Context, t *store.Table) (rows []store.Row, err error) {
	switch {
	case s.Put != nil:
		return nil, t.Put(ctx, s.Put...)
	case s.Remove != nil:
		return nil, t.Delete(ctx, s.Remove...)
	case len(s.Keys) == 1:
		row, err := t.Get(ctx, s.Keys[0], s.Columns...)
		return []store.Row{row}, err
	case s.Keys != nil:
		return t.GetBatch(ctx, s.Keys, s.Columns...)
	case s.counting:
		n, err := t.Count(ctx, s.predicate(), store.By(s.by))
		return []store.Row{{"count": n}}, err
	}
	q := store.Query{Where: s.predicate(), Columns: s.Columns, By: s.by, OrderBy: s.order, Reverse: s.reverse, Limit: s.limit}
	for row, err := range t.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Values returns how many values of a statement the client has to encrypt, and how many of them in order.
func (s *Statement) Values() (all, ordered int) {
	count := func(name string) {
		all++
		if slices.Contains(ByRange, name) {
			ordered++
		}
	}
	for _, row := range slices.Concat(s.Put, s.Remove, s.Keys) {
		for name := range row {
			count(name)
		}
	}
	for name := range s.equal {
		count(name)
	}
	// A range has two ends to encrypt, also where it is open: the least of a column is no end of what is stored, as mOPE
	// moves values around. So has a search for the least in a row key.
	between := ""
	if s.within != nil {
		between = s.within.column
	} else if s.by == "" {
		between = s.order
	}
	if between != "" {
		count(between)
		count(between)
	}
	return all, ordered
}

// A model is the rows of each table in memory, by what their keys say.
type model map[string]map[string]store.Row

func keyOf(r tpc.Relation, row store.Row) string {
	var b strings.Builder
	for _, k := range r.Key {
		fmt.Fprint(&b, row[k.Name], " ")
	}
	return b.String()
}

// row returns a copy of the row of a key.
func (m model) row(table string, key store.Row) store.Row {
	return maps.Clone(m[table][keyOf(tableOf(table), key)])
}

// change does what a statement changes.
func (m model) change(s *Statement) {
	r := tableOf(s.Table)
	if m[s.Table] == nil {
		m[s.Table] = make(map[string]store.Row)
	}
	for _, row := range s.Put {
		m[s.Table][keyOf(r, row)] = maps.Clone(row)
	}
	for _, key := range s.Remove {
		delete(m[s.Table], keyOf(r, key))
	}
}

// answer returns what a statement that reads is to return.
func (m model) answer(s *Statement) (rows []store.Row) {
	r := tableOf(s.Table)
	switch {
	case s.Put != nil || s.Remove != nil:
		return nil
	case s.Keys != nil:
		for _, key := range s.Keys {
			rows = append(rows, r.Project(m.row(s.Table, key), s.Columns))
		}
		return rows
	}
	for _, row := range m[s.Table] {
		if s.selects(row) {
			rows = append(rows, row)
		}
	}
	if s.counting {
		return []store.Row{{"count": len(rows)}}
	}
	if s.order != "" {
		slices.SortFunc(rows, func(a, b store.Row) int { return compareValues(a[s.order], b[s.order]) })
		if s.reverse {
			slices.Reverse(rows)
		}
	}
	if s.limit > 0 {
		rows = rows[:min(len(rows), s.limit)]
	}
	for i, row := range rows {
		rows[i] = r.Project(row, s.Columns)
	}
	return rows
}

// selects reports whether a row is among those that a statement searches.
func (s *Statement) selects(row store.Row) bool {
	for name, v := range s.equal {
		if row[name] != v {
			return false
		}
	}
	w := s.within
	return w == nil || (w.from == nil || compareValues(row[w.column], w.from) >= 0) && compareValues(row[w.column], w.below) < 0
}

// compareValues compares two numbers of a row, or two texts.
func compareValues(a, b any) int {
	x, number := a.(int32)
	if y, ok := b.(int32); number && ok {
		return int(x) - int(y)
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// SameRows reports whether an answer has these rows, in their order where the statement says one.
func (s *Statement) SameRows(got, want []store.Row) bool {
	texts := func(rows []store.Row) (all []string) {
		for _, row := range rows {
			all = append(all, fmt.Sprint(row))
		}
		if s.order == "" && s.Keys == nil {
			slices.Sort(all)
		}
		return all
	}
	return slices.Equal(texts(got), texts(want))
}
