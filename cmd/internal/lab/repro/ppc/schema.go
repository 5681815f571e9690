package ppc

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// The tables of TPC-H, and the forms in which they are stored.

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
var relations = []tpc.Relation{
	{Name: regions, Key: []tpc.Field{tpc.F("r_regionkey", tpchKey)}, Columns: []tpc.Field{tpc.F("r_name", store.String), tpc.F("r_comment", store.String)}},
	{Name: nations, Key: []tpc.Field{tpc.F("n_nationkey", tpchKey)}, Columns: []tpc.Field{tpc.F("n_name", store.String), tpc.F("n_regionkey", tpchKey), tpc.F("n_comment", store.String)}},
	{Name: suppliers, Key: []tpc.Field{tpc.F("s_suppkey", tpchKey)}, Columns: []tpc.Field{
		tpc.F("s_name", store.String), tpc.F("s_address", store.String), tpc.F("s_nationkey", tpchKey), tpc.F("s_phone", store.String), tpc.F("s_acctbal", tpchMoney), tpc.F("s_comment", store.String),
	}},
	{Name: customers, Key: []tpc.Field{tpc.F("c_custkey", tpchKey)}, Columns: []tpc.Field{
		tpc.F("c_name", store.String), tpc.F("c_address", store.String), tpc.F("c_nationkey", tpchKey), tpc.F("c_phone", store.String), tpc.F("c_acctbal", tpchMoney),
		tpc.F("c_mktsegment", store.String), tpc.F("c_comment", store.String),
	}},
	{Name: parts, Key: []tpc.Field{tpc.F("p_partkey", tpchKey)}, Columns: []tpc.Field{
		tpc.F("p_name", store.String), tpc.F("p_mfgr", store.String), tpc.F("p_brand", store.String), tpc.F("p_type", store.String), tpc.F("p_size", store.Int32),
		tpc.F("p_container", store.String), tpc.F("p_retailprice", tpchMoney), tpc.F("p_comment", store.String),
	}},
	{Name: offers, Key: []tpc.Field{tpc.F("ps_partkey", tpchKey), tpc.F("ps_suppkey", tpchKey)}, Columns: []tpc.Field{
		tpc.F("ps_availqty", store.Int32), tpc.F("ps_supplycost", tpchMoney), tpc.F("ps_comment", store.String),
	}},
	{Name: purchases, Key: []tpc.Field{tpc.F("o_orderkey", tpchKey)}, Columns: []tpc.Field{
		tpc.F("o_custkey", tpchKey), tpc.F("o_orderstatus", store.String), tpc.F("o_totalprice", tpchMoney), tpc.F("o_orderdate", store.Date), tpc.F("o_orderpriority", store.String),
		tpc.F("o_clerk", store.String), tpc.F("o_shippriority", store.Int32), tpc.F("o_comment", store.String),
	}},
	{Name: lines, Key: []tpc.Field{tpc.F("l_orderkey", tpchKey), tpc.F("l_linenumber", store.Int64.Within(1, 7))}, Columns: []tpc.Field{
		tpc.F("l_partkey", tpchKey), tpc.F("l_suppkey", tpchKey), tpc.F("l_quantity", tpchMoney), tpc.F("l_extendedprice", tpchMoney), tpc.F("l_discount", tpchMoney), tpc.F("l_tax", tpchMoney),
		tpc.F("l_returnflag", store.String), tpc.F("l_linestatus", store.String), tpc.F("l_shipdate", store.Date), tpc.F("l_commitdate", store.Date), tpc.F("l_receiptdate", store.Date),
		tpc.F("l_shipinstruct", store.String), tpc.F("l_shipmode", store.String), tpc.F("l_comment", store.String),
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
func (f form) make(ctx context.Context, w *testbed.Workspace, s store.Schema) error {
	if f.pages {
		_, err := w.CreatePages(ctx, s)
		return err
	}
	_, err := w.Create(ctx, s)
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
func (f form) schema(r tpc.Relation) store.Schema {
	s := store.Schema{Name: r.Name, CellPerColumn: f.cells}
	for _, k := range r.Key {
		s.Key = append(s.Key, store.OrderedPart(k.Name, k.Of, store.Plaintext))
	}
	for _, c := range r.Columns {
		column := store.PlainColumn
		if f.encrypted(c.Name) {
			column = store.RandomisedColumn
		}
		s.Columns = append(s.Columns, column(c.Name, c.Of))
	}
	return s
}

// table returns the name that a relation has in the form.
func (f form) table(w *testbed.Workspace, r tpc.Relation) string {
	return w.Name(f.name + " " + r.Name)
}

// create makes all relations.
func (f form) create(ctx context.Context, w *testbed.Workspace) error {
	for _, r := range relations {
		s := f.schema(r)
		s.Name = f.name + " " + r.Name
		if err := f.make(ctx, w, s); err != nil {
			return err
		}
	}
	return nil
}

// tables opens all relations as a client of st.
func (f form) tables(ctx context.Context, w *testbed.Workspace, st *store.Store) (map[string]formTable, error) {
	all := make(map[string]formTable)
	for _, r := range relations {
		t, err := f.open(ctx, st, f.table(w, r))
		if err != nil {
			return nil, err
		}
		all[r.Name] = t
	}
	return all, nil
}

// fill makes all relations, and puts the rows into them.
func (f form) fill(ctx context.Context, w *testbed.Workspace, data tpchData, batch int, done func(rows int)) error {
	if err := f.create(ctx, w); err != nil {
		return err
	}
	all, err := f.tables(ctx, w, w.Store)
	if err != nil {
		return err
	}
	return load(ctx, all, data, batch, done)
}

// load puts all rows of the data, batch rows at a time.
func load(ctx context.Context, all map[string]formTable, data tpchData, batch int, done func(rows int)) error {
	for _, r := range relations {
		for part := range slices.Chunk(data[r.Name], max(1, batch)) {
			if err := all[r.Name].Put(ctx, part...); err != nil {
				return err
			}
			done(len(part))
		}
	}
	return nil
}

// checkLoaded returns exit.ErrWrongAnswer unless the tables have the rows of the data.
func checkLoaded(ctx context.Context, all map[string]formTable, data tpchData) error {
	for _, r := range relations {
		n := 0
		for row, err := range all[r.Name].Query(ctx, store.Query{Columns: r.ColumnNames()}) {
			if err != nil {
				return err
			}
			if n >= len(data[r.Name]) || fmt.Sprint(row) != fmt.Sprint(data[r.Name][n]) {
				return fmt.Errorf("%w: a row of %s is not as it was written", exit.ErrWrongAnswer, r.Name)
			}
			n++
		}
		if n != len(data[r.Name]) {
			return fmt.Errorf("%w: %d rows of %s came instead of %d", exit.ErrWrongAnswer, n, r.Name, len(data[r.Name]))
		}
	}
	return nil
}
