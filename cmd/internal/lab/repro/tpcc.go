package repro

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store"
)

// The tables of TPC-C, and its commands on them.

const (
	tpccWarehouses = "warehouse"
	tpccDistricts  = "district"
	tpccCustomers  = "customer"
	tpccHistory    = "history"
	tpccOrders     = "orders"
	tpccNewOrders  = "new_order"
	tpccLines      = "order_line"
	tpccItems      = "item"
	tpccStock      = "stock"
)

var (
	tpccID    = store.Int32.Within(1, 100_000)
	tpccOrder = store.Int32.Within(1, 10_000_000)
	tpccMoney = store.Decimal(2).Within(money(-999_999_999_999), money(999_999_999_999)) // numeric(12, 2)
	tpccRate  = store.Decimal(4)
	tpccTime  = store.Int64 // in ms
)

// tpccTables have the columns of the specification, and two more. A customer has c_name, and an order o_customer, in one
// number what the specification looks them up by: warehouse and district with the last name, or with the customer. It is
// a number, since a plain index entry has the beginning of a text only, where a token stands for all of it.
var tpccTables = []relation{
	{tpccWarehouses, []field{{"w_id", tpccID}}, []field{
		{"w_name", store.String}, {"w_street_1", store.String}, {"w_street_2", store.String}, {"w_city", store.String}, {"w_state", store.String},
		{"w_zip", store.String}, {"w_tax", tpccRate}, {"w_ytd", tpccMoney},
	}},
	{tpccDistricts, []field{{"d_w_id", tpccID}, {"d_id", tpccID}}, []field{
		{"d_name", store.String}, {"d_street_1", store.String}, {"d_street_2", store.String}, {"d_city", store.String}, {"d_state", store.String},
		{"d_zip", store.String}, {"d_tax", tpccRate}, {"d_ytd", tpccMoney}, {"d_next_o_id", tpccOrder},
	}},
	{tpccCustomers, []field{{"c_w_id", tpccID}, {"c_d_id", tpccID}, {"c_id", tpccID}}, []field{
		{"c_first", store.String}, {"c_middle", store.String}, {"c_last", store.String}, {"c_name", store.Int64}, {"c_street_1", store.String},
		{"c_street_2", store.String}, {"c_city", store.String}, {"c_state", store.String}, {"c_zip", store.String}, {"c_phone", store.String},
		{"c_since", tpccTime}, {"c_credit", store.String}, {"c_credit_lim", tpccMoney}, {"c_discount", tpccRate}, {"c_balance", tpccMoney},
		{"c_ytd_payment", tpccMoney}, {"c_payment_cnt", store.Int32}, {"c_delivery_cnt", store.Int32}, {"c_data", store.String},
	}},
	{tpccHistory, []field{{"h_w_id", tpccID}, {"h_d_id", tpccID}}, []field{
		{"h_c_id", tpccID}, {"h_c_d_id", tpccID}, {"h_c_w_id", tpccID}, {"h_date", tpccTime}, {"h_amount", tpccMoney}, {"h_data", store.String},
	}},
	{tpccOrders, []field{{"o_w_id", tpccID}, {"o_d_id", tpccID}, {"o_id", tpccOrder}}, []field{
		{"o_c_id", tpccID}, {"o_customer", store.Int64}, {"o_entry_d", tpccTime}, {"o_carrier_id", store.Int32}, {"o_ol_cnt", store.Int32},
		{"o_all_local", store.Int32},
	}},
	{tpccNewOrders, []field{{"no_w_id", tpccID}, {"no_d_id", tpccID}, {"no_o_id", tpccOrder}}, nil},
	{tpccLines, []field{{"ol_w_id", tpccID}, {"ol_d_id", tpccID}, {"ol_o_id", tpccOrder}, {"ol_number", tpccID}}, []field{
		{"ol_i_id", tpccID}, {"ol_supply_w_id", tpccID}, {"ol_delivery_d", tpccTime}, {"ol_quantity", store.Int32}, {"ol_amount", tpccMoney},
		{"ol_dist_info", store.String},
	}},
	{tpccItems, []field{{"i_id", tpccID}}, []field{{"i_im_id", store.Int32}, {"i_name", store.String}, {"i_price", tpccMoney}, {"i_data", store.String}}},
	{tpccStock, []field{{"s_w_id", tpccID}, {"s_i_id", tpccID}}, append([]field{
		{"s_quantity", store.Int32.Within(-9999, 9999)}, {"s_ytd", store.Int32}, {"s_order_cnt", store.Int32}, {"s_remote_cnt", store.Int32}, {"s_data", store.String},
	}, tpccDists()...)},
}

// tpccDists are the columns with what an order line says of its district.
func tpccDists() (all []field) {
	for d := range 10 {
		all = append(all, field{tpccDist(d + 1), store.String})
	}
	return all
}

func tpccDist(district int) string { return fmt.Sprintf("s_dist_%02d", district) }

// What commands search by ranges, or by the least or the greatest; and the columns that they search by value. Ranges of
// balances no command asks for: whoever grants credit does.
var (
	tpccByRange = []string{"o_id", "no_o_id", "ol_o_id", "s_quantity", "c_balance"}
	tpccByValue = []string{"c_name", "o_customer"}
)

// tpccSchema returns the schema of a table. Without encryption it has the same index entries.
func tpccSchema(series string, r relation) store.Schema {
	s := store.Schema{Name: tpccName(series, r.name), AppendOnly: r.name == tpccHistory}
	var scheme = store.Plaintext
	part, hidden := store.PlainPart, store.PlainColumn
	if series == orderEncrypted {
		scheme, part, hidden = store.MOPE, store.HashedPart, store.RandomisedColumn
	}
	for _, k := range r.key {
		if slices.Contains(tpccByRange, k.name) {
			s.Key = append(s.Key, store.OrderedPart(k.name, k.of, scheme))
		} else {
			s.Key = append(s.Key, part(k.name, k.of))
		}
	}
	if s.AppendOnly {
		s.Key = append(s.Key, store.TiePart("h_tie"))
	}
	for _, c := range r.columns {
		switch {
		case slices.Contains(tpccByRange, c.name), series != orderEncrypted && slices.Contains(tpccByValue, c.name):
			s.Columns = append(s.Columns, store.OrderedColumn(c.name, c.of, scheme))
		case slices.Contains(tpccByValue, c.name):
			s.Columns = append(s.Columns, store.DeterministicColumn(c.name, c.of))
		default:
			s.Columns = append(s.Columns, hidden(c.name, c.of))
		}
	}
	return s
}

func tpccName(series, table string) string { return series + " " + table }

// tpccTable returns the table with a name.
func tpccTable(name string) relation {
	return tpccTables[slices.IndexFunc(tpccTables, func(r relation) bool { return r.name == name })]
}

// A tpccStatement is what a command asks of one table: to put rows, to delete those of keys, to read those of keys, or to
// find those that equal and within name.
type tpccStatement struct {
	table    string
	put      []store.Row
	remove   []store.Row
	keys     []store.Row
	equal    store.Row
	within   *span
	by       string
	order    string // by which the rows are sorted
	reverse  bool
	limit    int
	counting bool // asks for the number of rows only
	columns  []string
}

// A span is the values of a column from one on, where there is one, that are below another.
type span struct {
	column      string
	from, below any
}

// predicate returns what the rows have that are searched.
func (s *tpccStatement) predicate() store.Predicate {
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

// on asks a table.
func (s *tpccStatement) on(ctx context.Context, t *store.Table) (rows []store.Row, err error) {
	switch {
	case s.put != nil:
		return nil, t.Put(ctx, s.put...)
	case s.remove != nil:
		return nil, t.Delete(ctx, s.remove...)
	case len(s.keys) == 1:
		row, err := t.Get(ctx, s.keys[0], s.columns...)
		return []store.Row{row}, err
	case s.keys != nil:
		return t.GetBatch(ctx, s.keys, s.columns...)
	case s.counting:
		n, err := t.Count(ctx, s.predicate(), store.By(s.by))
		return []store.Row{{"count": n}}, err
	}
	q := store.Query{Where: s.predicate(), Columns: s.columns, By: s.by, OrderBy: s.order, Reverse: s.reverse, Limit: s.limit}
	for row, err := range t.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// values returns how many values of a statement the client has to encrypt, and how many of them in order.
func (s *tpccStatement) values() (all, ordered int) {
	count := func(name string) {
		all++
		if slices.Contains(tpccByRange, name) {
			ordered++
		}
	}
	for _, row := range slices.Concat(s.put, s.remove, s.keys) {
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

// A tpccModel is the rows of each table in memory, by what their keys say.
type tpccModel map[string]map[string]store.Row

func tpccKey(r relation, row store.Row) string {
	var b strings.Builder
	for _, k := range r.key {
		fmt.Fprint(&b, row[k.name], " ")
	}
	return b.String()
}

// row returns a copy of the row of a key.
func (m tpccModel) row(table string, key store.Row) store.Row {
	return maps.Clone(m[table][tpccKey(tpccTable(table), key)])
}

// change does what a statement changes.
func (m tpccModel) change(s *tpccStatement) {
	r := tpccTable(s.table)
	if m[s.table] == nil {
		m[s.table] = make(map[string]store.Row)
	}
	for _, row := range s.put {
		m[s.table][tpccKey(r, row)] = maps.Clone(row)
	}
	for _, key := range s.remove {
		delete(m[s.table], tpccKey(r, key))
	}
}

// answer returns what a statement that reads is to return.
func (m tpccModel) answer(s *tpccStatement) (rows []store.Row) {
	r := tpccTable(s.table)
	switch {
	case s.put != nil || s.remove != nil:
		return nil
	case s.keys != nil:
		for _, key := range s.keys {
			rows = append(rows, r.project(m.row(s.table, key), s.columns))
		}
		return rows
	}
	for _, row := range m[s.table] {
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
		rows[i] = r.project(row, s.columns)
	}
	return rows
}

// selects reports whether a row is among those that a statement searches.
func (s *tpccStatement) selects(row store.Row) bool {
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

// project returns the key parts of a row and some of its columns.
func (r relation) project(row store.Row, columns []string) store.Row {
	if row == nil {
		return nil
	}
	out := make(store.Row)
	for _, k := range r.key {
		out[k.name] = row[k.name]
	}
	for _, c := range columns {
		if v, ok := row[c]; ok {
			out[c] = v
		}
	}
	return out
}

// sameRows reports whether an answer has these rows, in their order where the statement says one.
func (s *tpccStatement) sameRows(got, want []store.Row) bool {
	texts := func(rows []store.Row) (all []string) {
		for _, row := range rows {
			all = append(all, fmt.Sprint(row))
		}
		if s.order == "" && s.keys == nil {
			slices.Sort(all)
		}
		return all
	}
	return slices.Equal(texts(got), texts(want))
}
