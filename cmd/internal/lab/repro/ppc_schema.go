package repro

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// The tables of TPC-H, and the forms in which they are stored.

// A field is a key part or a column of a relation.
type field struct {
	name string
	of   store.Type
}

// A relation is a table of TPC-H or TPC-C.
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

// A formTable is a table of rows or of pages.
type formTable interface {
	Put(ctx context.Context, rows ...store.Row) error
	Query(ctx context.Context, q store.Query) iter.Seq2[store.Row, error]
}

// A form is a way to store tables.
type form struct {
	name      string
	encrypted func(column string) bool
	cells     bool // each column has a cell
	pages     bool // rows share pages
}

// make makes a table in the workspace.
func (f form) make(ctx context.Context, w *workspace, s store.Schema) error {
	if f.pages {
		_, err := w.createPages(ctx, s)
		return err
	}
	_, err := w.create(ctx, s)
	return err
}

// open opens a table as a client of st. It knows nothing of what was read before.
func (f form) open(ctx context.Context, st *store.Store, name string) (formTable, error) {
	if f.pages {
		return paged.Open(ctx, st, name)
	}
	return st.Table(ctx, name)
}

// openings returns how many sealed pages were opened, if a table has pages.
func openings(t formTable) uint64 {
	if t, ok := t.(*paged.Table); ok {
		return t.Stats().Opened
	}
	return 0
}

const (
	formPlainCells = "plain, cell per column"
	formPages      = "pages"
	formPagesPlain = "plain pages"
	formPagesWhole = "whole pages"
)

func nothing(string) bool    { return false }
func everything(string) bool { return true }

// tpchForms are the forms of the tables. The first is what others are compared with.
var tpchForms = []form{
	{name: formPlain, encrypted: nothing},
	{name: formPlainCells, encrypted: nothing, cells: true},
	{name: formPacked, encrypted: sensitive},
	{name: formCells, encrypted: sensitive, cells: true},
	{name: formWhole, encrypted: everything},
	{name: formPagesPlain, encrypted: nothing, pages: true},
	{name: formPages, encrypted: sensitive, pages: true},
	{name: formPagesWhole, encrypted: everything, pages: true},
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

// table returns the name that a relation has in the form.
func (f form) table(w *workspace, r relation) string { return w.name(f.name + " " + r.name) }

// create makes all relations.
func (f form) create(ctx context.Context, w *workspace) error {
	for _, r := range relations {
		s := f.schema(r)
		s.Name = f.name + " " + r.name
		if err := f.make(ctx, w, s); err != nil {
			return err
		}
	}
	return nil
}

// tables opens all relations as a client of st.
func (f form) tables(ctx context.Context, w *workspace, st *store.Store) (map[string]formTable, error) {
	all := make(map[string]formTable)
	for _, r := range relations {
		t, err := f.open(ctx, st, f.table(w, r))
		if err != nil {
			return nil, err
		}
		all[r.name] = t
	}
	return all, nil
}

// fill makes all relations, and puts the rows into them.
func (f form) fill(ctx context.Context, w *workspace, data tpchData, batch int, done func(rows int)) error {
	if err := f.create(ctx, w); err != nil {
		return err
	}
	all, err := f.tables(ctx, w, w.store)
	if err != nil {
		return err
	}
	return load(ctx, all, data, batch, done)
}

// load puts all rows of the data, batch rows at a time.
func load(ctx context.Context, all map[string]formTable, data tpchData, batch int, done func(rows int)) error {
	for _, r := range relations {
		for part := range slices.Chunk(data[r.name], max(1, batch)) {
			if err := all[r.name].Put(ctx, part...); err != nil {
				return err
			}
			done(len(part))
		}
	}
	return nil
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
		for row, err := range all[r.name].Query(ctx, store.Query{Columns: r.columnNames()}) {
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
