package repro

import (
	"context"
	"fmt"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/store"
)

// The tables of TPC-H, and the forms in which they are stored.

// A field is a key part or a column of a table of TPC-H.
type field struct {
	name string
	of   store.Type
}

// A relation is a table of TPC-H.
type relation struct {
	name         string
	key, columns []field
}

var (
	tpchKey   = store.Int64.Within(0, 1<<31-1) // of what a row is found by
	tpchMoney = store.Decimal(2)
)

const (
	regions   = "region"
	nations   = "nation"
	suppliers = "supplier"
	customers = "customer"
	parts     = "part"
	offers    = "partsupp"
	purchases = "orders"
	lines     = "lineitem"
)

// relations are loaded in this order, in which a row refers only to what is there.
var relations = []relation{
	{regions, []field{{"r_regionkey", tpchKey}}, []field{{"r_name", store.String}, {"r_comment", store.String}}},
	{nations, []field{{"n_nationkey", tpchKey}}, []field{{"n_name", store.String}, {"n_regionkey", tpchKey}, {"n_comment", store.String}}},
	{suppliers, []field{{"s_suppkey", tpchKey}}, []field{
		{"s_name", store.String}, {"s_address", store.String}, {"s_nationkey", tpchKey}, {"s_phone", store.String}, {"s_acctbal", tpchMoney}, {"s_comment", store.String},
	}},
	{customers, []field{{"c_custkey", tpchKey}}, []field{
		{"c_name", store.String}, {"c_address", store.String}, {"c_nationkey", tpchKey}, {"c_phone", store.String}, {"c_acctbal", tpchMoney},
		{"c_mktsegment", store.String}, {"c_comment", store.String},
	}},
	{parts, []field{{"p_partkey", tpchKey}}, []field{
		{"p_name", store.String}, {"p_mfgr", store.String}, {"p_brand", store.String}, {"p_type", store.String}, {"p_size", store.Int32},
		{"p_container", store.String}, {"p_retailprice", tpchMoney}, {"p_comment", store.String},
	}},
	{offers, []field{{"ps_partkey", tpchKey}, {"ps_suppkey", tpchKey}}, []field{
		{"ps_availqty", store.Int32}, {"ps_supplycost", tpchMoney}, {"ps_comment", store.String},
	}},
	{purchases, []field{{"o_orderkey", tpchKey}}, []field{
		{"o_custkey", tpchKey}, {"o_orderstatus", store.String}, {"o_totalprice", tpchMoney}, {"o_orderdate", store.Date}, {"o_orderpriority", store.String},
		{"o_clerk", store.String}, {"o_shippriority", store.Int32}, {"o_comment", store.String},
	}},
	{lines, []field{{"l_orderkey", tpchKey}, {"l_linenumber", store.Int64.Within(1, 7)}}, []field{
		{"l_partkey", tpchKey}, {"l_suppkey", tpchKey}, {"l_quantity", tpchMoney}, {"l_extendedprice", tpchMoney}, {"l_discount", tpchMoney}, {"l_tax", tpchMoney},
		{"l_returnflag", store.String}, {"l_linestatus", store.String}, {"l_shipdate", store.Date}, {"l_commitdate", store.Date}, {"l_receiptdate", store.Date},
		{"l_shipinstruct", store.String}, {"l_shipmode", store.String}, {"l_comment", store.String},
	}},
}

// tpchSensitive are the attributes that the paper encrypts.
var tpchSensitive = []string{
	"l_partkey", "l_shipmode", "p_name", "s_acctbal", "ps_supplycost", "c_name", "o_orderdate", "o_custkey", "o_totalprice", "n_name", "r_name",
}

func sensitive(column string) bool { return slices.Contains(tpchSensitive, column) }

// anySensitive reports whether one of the columns is sensitive.
func anySensitive(columns []string) bool { return slices.ContainsFunc(columns, sensitive) }

// A formTable is a table in one of the forms.
type formTable interface {
	put(ctx context.Context, rows ...store.Row) error

	// query returns all rows with their keys and the columns. Without a proof it takes plain columns as they are stored.
	query(ctx context.Context, columns []string, proof bool) iter.Seq2[store.Row, error]
}

// A form is a way to store the tables. Its make makes a table in the workspace, and its open opens one as a client of st.
type form struct {
	name string
	make func(ctx context.Context, w *workspace, s store.Schema) error
	open func(ctx context.Context, st *store.Store, name string) (formTable, error)

	// encrypted says which columns are, and cells that each column has a cell.
	encrypted func(column string) bool
	cells     bool
}

const formPlainCells = "plain, cell per column"

func nothing(string) bool    { return false }
func everything(string) bool { return true }

// tpchForms are the forms of the tables. The first is what others are compared with.
var tpchForms = []form{
	{formPlain, makeRows, openRows, nothing, false},
	{formPlainCells, makeRows, openRows, nothing, true},
	{formPacked, makeRows, openRows, sensitive, false},
	{formCells, makeRows, openRows, sensitive, true},
	{formWhole, makeRows, openRows, everything, false},
}

// schema returns the schema of a relation in the form. Row keys are plain, and in order, in all of them.
func (f form) schema(r relation) store.Schema {
	s := store.Schema{Name: r.name, CellPerColumn: f.cells}
	for _, k := range r.key {
		s.Key = append(s.Key, store.OrderedPart(k.name, k.of, store.Plaintext))
	}
	for _, c := range r.columns {
		column := store.PlainColumn
		if f.encrypted(c.name) {
			column = store.RandomisedColumn
		}
		s.Columns = append(s.Columns, column(c.name, c.of))
	}
	return s
}

// fill makes all relations, and puts the rows into them, batch rows at a time, as a client of st. It
// returns the tables by name.
func (f form) fill(ctx context.Context, w *workspace, st *store.Store, data tpchData, batch int, done func(rows int)) (map[string]formTable, error) {
	all, err := f.empty(ctx, w, st)
	if err != nil {
		return nil, err
	}
	return all, load(ctx, all, data, batch, done)
}

// empty makes all relations.
func (f form) empty(ctx context.Context, w *workspace, st *store.Store) (map[string]formTable, error) {
	all := make(map[string]formTable)
	for _, r := range relations {
		s := f.schema(r)
		s.Name = f.name + " " + r.name
		if err := f.make(ctx, w, s); err != nil {
			return nil, err
		}
		t, err := f.open(ctx, st, w.name(s.Name))
		if err != nil {
			return nil, err
		}
		all[r.name] = t
	}
	return all, nil
}

// load puts all rows of the data, batch rows at a time.
func load(ctx context.Context, all map[string]formTable, data tpchData, batch int, done func(rows int)) error {
	for _, r := range relations {
		for part := range slices.Chunk(data[r.name], max(1, batch)) {
			if err := all[r.name].put(ctx, part...); err != nil {
				return err
			}
			done(len(part))
		}
	}
	return nil
}

// rowTable is a table of which each row is stored by itself.
type rowTable struct{ *store.Table }

func makeRows(ctx context.Context, w *workspace, s store.Schema) error {
	_, err := w.create(ctx, s)
	return err
}

func openRows(ctx context.Context, st *store.Store, name string) (formTable, error) {
	t, err := st.Table(ctx, name)
	return rowTable{t}, err
}

func (t rowTable) put(ctx context.Context, rows ...store.Row) error { return t.Put(ctx, rows...) }

func (t rowTable) query(ctx context.Context, columns []string, _ bool) iter.Seq2[store.Row, error] {
	return t.Query(ctx, store.Query{Columns: columns})
}

// columnNames returns the columns of a relation that are no part of its key.
func (r relation) columnNames() (names []string) {
	for _, c := range r.columns {
		names = append(names, c.name)
	}
	return names
}

// checkLoaded returns exit.ErrWrongAnswer unless the tables have the rows of the data.
func checkLoaded(ctx context.Context, all map[string]formTable, data tpchData) error {
	for _, r := range relations {
		n := 0
		for row, err := range all[r.name].query(ctx, r.columnNames(), true) {
			if err != nil {
				return err
			}
			if n >= len(data[r.name]) || fmt.Sprint(row) != fmt.Sprint(data[r.name][n]) {
				return fmt.Errorf("%w: a row of %s is not as it was written", exit.ErrWrongAnswer, r.name)
			}
			n++
		}
		if n != len(data[r.name]) {
			return fmt.Errorf("%w: %d rows of %s came instead of %d", exit.ErrWrongAnswer, n, r.name, len(data[r.name]))
		}
	}
	return nil
}
