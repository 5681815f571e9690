package store_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// The oracle: predicates as trees over plain values, in the logic of three values. It shares nothing with the package but
// the constructors of predicates.

// truth is 1 for true, -1 for false and 0 for unknown.
type truth int

func (a truth) String() string { return [...]string{"false", "unknown", "true"}[a+1] }

// asked is a predicate of both sides.
type asked struct {
	where store.Predicate
	of    func(store.Row) truth
	text  string
}

func isNaN(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.IsNaN(v)
	case float32:
		return math.IsNaN(float64(v))
	}
	return false
}

// An oracle makes tables, rows and predicates.
type oracle struct {
	*tableModel
	r     *rand.Rand
	names []string // of parts and columns; those with NaN twice, so that they are asked for more often
	nulls int      // of eight columns of a row so many more are null
	named int      // queries that a column drove because they named it

	was     map[string][]store.Column // what columns were before, whose rows are not all converted
	changed int                       // queries by several forms of a column
}

var (
	nan64 = withNaN(f64, math.NaN(), math.Float64frombits(0xfff8000000000001), math.NaN(), math.Copysign(0, -1))
	nan32 = withNaN(f32, float32(math.NaN()), math.Float32frombits(0xffc00001), float32(math.NaN()), float32(math.Copysign(0, -1)))
	// Texts that share eight bytes, and that end at a prefix's end.
	alike = kindOf(store.String, strings.Compare, []string{"", "a", "abcdefgh", "abcdefghi", "abcdefgh\x00", "abcdefghz", "abcdefg", "abcdefgz", "b"}, "abcdefghh", "abcdefgh\xff", "abc", "\xff")
)

// withNaN adds values to those of a kind that can be stored.
func withNaN(k kind, values ...any) kind {
	k.values = append(slices.Clone(k.values), values...)
	return k
}

// newOracle draws a schema.
func newOracle(r *rand.Rand, n int) *oracle {
	m := newModel(fmt.Sprintf("o%d", n))
	keyKinds := []kind{strs, alike, blobs, i8, i64, u8, u32, f64, dates, ip4, ip6, ms, cents, bools, narrow}
	for i := range 1 + r.IntN(3) {
		k, name := pick(r, keyKinds), fmt.Sprintf("k%d", i)
		how := r.IntN(4)
		if i > 0 && m.parts[i-1].how != 'o' {
			how = r.IntN(6) // so that ranges of a plain part are met
		}
		if i == 0 && slices.Contains([]string{"string", "bytes"}, k.typ.String()) {
			how &= 2 // plain it cannot lead a key
		}
		switch how {
		case 0:
			m.hashed(name, k)
		case 1, 4, 5:
			m.plain(name, k)
		case 2:
			m.ordered(name, k, store.MOPE)
		default:
			m.ordered(name, k, pick(r, []store.KeyScheme{store.Boldyreva, store.Wozniak, store.WozniakIndexed}))
		}
	}
	// Rows of some tables are only added. Most searched columns of these have copies of rows, as they have in some conditional ones.
	added, conditional := r.IntN(4) == 0, r.IntN(4) == 0
	copied := added || conditional && r.IntN(2) == 0
	if added || r.IntN(3) == 0 {
		m.tie("tie")
	}
	kinds := append(slices.Clone(keyKinds), uuids, i16, f32, secs, ns)
	var mayBeNaN []string
	for i := range 2 + r.IntN(4) {
		k, name := pick(r, kinds), fmt.Sprintf("c%d", i)
		n := r.IntN(10)
		if n < 4 {
			if k = pick(r, []kind{nan64, nan32, nan64, nan32, k}); isFloat(k) {
				mayBeNaN = append(mayBeNaN, name)
			}
		}
		switch {
		case n < 2:
			m.column(k, store.PlainColumn(name, k.typ))
		case n < 4:
			m.column(k, store.RandomisedColumn(name, k.typ))
		case n < 6 || !k.ordered:
			m.column(k, m.covers(r, copied && r.IntN(4) > 0, store.DeterministicColumn(name, k.typ)))
		default:
			scheme := pick(r, columnSchemes)
			m.column(k, m.covers(r, copied && r.IntN(4) > 0 && scheme != store.WozniakIndexed, store.OrderedColumn(name, k.typ, scheme)))
		}
	}
	m.schema.CellPerColumn, m.schema.Conditional, m.schema.Tenants = r.IntN(2) == 0, conditional && !added, r.IntN(4) == 0
	m.schema.AppendOnly = added
	if !m.schema.AppendOnly && !m.schema.Conditional && r.IntN(2) == 0 {
		m.serve(r)
	}
	o := &oracle{tableModel: m, r: r, names: append(mayBeNaN, m.cols...), nulls: pick(r, []int{0, 0, 3, 6}), was: make(map[string][]store.Column)}
	for _, c := range m.schema.Columns {
		name := c.Describe().Name
		for searched := c.Describe().Encryption; (searched == "ordered" || searched == "deterministic") && len(o.was[name]) < 2 && r.IntN(3) == 0; {
			o.was[name] = append(o.was[name], o.earlier(name))
		}
	}
	for _, p := range m.parts {
		o.names = append(o.names, p.name)
	}
	return o
}

// earlier draws what a column was: mostly such that it drives queries all the same while its rows are converted.
func (o *oracle) earlier(name string) store.Column {
	k := o.kinds[name]
	switch n := o.r.IntN(8); {
	case n == 0:
		return store.RandomisedColumn(name, k.typ)
	case n == 1 || !k.ordered:
		return store.DeterministicColumn(name, k.typ)
	}
	return store.OrderedColumn(name, k.typ, pick(o.r, columnSchemes))
}

// change makes columns what they are next, and converts some of the rows of before.
func (o *oracle) change(t *testing.T, st *store.Store, tbl *store.Table, round int) {
	if round == 0 || len(o.was) == 0 {
		return
	}
	_, err := tbl.ConvertPart(background, inspect.Part{Index: o.r.IntN(3), Of: 3})
	require.NoError(t, err, o.describe())
	for _, c := range o.schema.Columns {
		name := c.Describe().Name
		was := o.was[name]
		switch is := append(slices.Clip(was), c); {
		case len(was) < round:
		case !reflect.DeepEqual(is[round-1].Describe(), is[round].Describe()):
			require.NoError(t, st.Alter(background, o.schema.Name, store.ChangeColumn(is[round])), o.describe())
		case !o.schema.Tenants && is[round].Describe().Encryption != "randomised":
			require.NoError(t, st.RotateSearchKeys(background, o.schema.Name, name), o.describe())
		}
	}
}

// first returns the schema that the table has at first.
func (o *oracle) first() store.Schema {
	s := o.schema
	s.Columns = slices.Clone(s.Columns)
	for i, c := range s.Columns {
		if was := o.was[c.Describe().Name]; len(was) > 0 {
			s.Columns[i] = was[0]
		}
	}
	return s
}

var columnSchemes = []store.ColumnScheme{store.Boldyreva, store.MOPE, store.Wozniak, store.WozniakIndexed, store.Kerschbaum, store.KerschbaumRanked}

// serve gives searched columns server indexes.
func (m *tableModel) serve(r *rand.Rand) {
	for i, c := range m.schema.Columns {
		if d := c.Describe(); d.Encryption == "deterministic" || slices.Contains([]string{"mope", "boldyreva", "wozniak"}, d.Scheme) && r.IntN(3) > 0 {
			m.schema.Columns[i] = c.ServerIndex()
		}
	}
}

// unserve takes them away, where the database has none.
func (m *tableModel) unserve() {
	for i, c := range m.schema.Columns {
		d := c.Describe()
		if !d.ServerIndex {
			continue
		}
		scheme, _ := store.ParseScheme(d.Scheme)
		if typ := m.kinds[d.Name].typ; d.Encryption == "deterministic" {
			m.schema.Columns[i] = store.DeterministicColumn(d.Name, typ)
		} else {
			m.schema.Columns[i] = store.OrderedColumn(d.Name, typ, scheme)
		}
	}
}

// hasServed reports whether a driver of a query has a server index.
func (m *tableModel) hasServed(driver string) bool {
	return slices.ContainsFunc(m.schema.Columns, func(c store.Column) bool {
		return c.Describe().ServerIndex && slices.Contains(strings.Split(driver, " or "), c.Describe().Name)
	})
}

// covers has a column cover, some with all columns and some with a few.
func (m *tableModel) covers(r *rand.Rand, yes bool, c store.Column) store.Column {
	switch {
	case !yes:
		return c
	case r.IntN(2) == 0:
		return c.Covering()
	}
	names := []string{m.parts[0].name}
	for _, name := range m.cols {
		if r.IntN(3) > 0 {
			names = append(names, name)
		}
	}
	return c.Covering(names...)
}

func isFloat(k kind) bool { return k.typ.String() == "float64" || k.typ.String() == "float32" }

func (o *oracle) randomRow() store.Row {
	row := o.tableModel.randomRow(o.r)
	for _, c := range o.cols {
		if o.r.IntN(8) < o.nulls {
			row[c] = nil
		}
	}
	return row
}

// leaf draws a predicate on one column.
func (o *oracle) leaf(column string) asked {
	r, k := o.r, o.kinds[column]
	ordered := []operator{between, atLeast, atMost, greater, less, equal, in}
	value := func(row store.Row) any { return row[column] }
	switch n := r.IntN(12); {
	case n == 0:
		return asked{store.IsNull(column), func(row store.Row) truth {
			if value(row) == nil {
				return 1
			}
			return -1
		}, column + " is null"}
	case n < 3 && isFloat(k):
		return asked{store.IsNaN(column), func(row store.Row) truth {
			switch v := value(row); {
			case v == nil:
				return 0
			case isNaN(v):
				return 1
			}
			return -1
		}, column + " is nan"}
	case n < 4 && k.typ.String() == "string":
		v := pick(r, k.bounds).(string)
		v = v[:r.IntN(len(v)+1)]
		return o.comparison(column, fmt.Sprintf("prefix %q", v), store.HasPrefix(store.Field[string](column), v),
			func(x any) bool { return strings.HasPrefix(x.(string), v) })
	case n < 4 && k.typ.String() == "bytes":
		v := string(pick(r, k.bounds).([]byte))
		v = v[:r.IntN(len(v)+1)]
		return o.comparison(column, fmt.Sprintf("prefix %q", v), store.HasPrefix(store.Field[[]byte](column), []byte(v)),
			func(x any) bool { return strings.HasPrefix(string(x.([]byte)), v) })
	}
	op := pick(r, ordered)
	if !k.ordered || r.IntN(4) == 0 {
		op = pick(r, []operator{equal, in})
	}
	a, b := pick(r, k.bounds), pick(r, k.bounds)
	if r.IntN(5) > 0 && k.compare(a, b) > 0 {
		a, b = b, a
	}
	var list []any
	for range r.IntN(pick(r, []int{2, 4, 4, 60})) {
		list = append(list, pick(r, k.bounds))
	}
	return o.comparison(column, fmt.Sprintf("op%d %s %s %v", op, show(a), show(b), list), k.term(column, op, a, b, list),
		func(x any) bool { return k.holds(x, op, a, b, list) })
}

func (o *oracle) comparison(column, text string, where store.Predicate, holds func(any) bool) asked {
	return asked{where, func(row store.Row) truth {
		v := row[column]
		switch {
		case v == nil || isNaN(v):
			return 0
		case holds(v):
			return 1
		}
		return -1
	}, column + " " + text}
}

// tree draws a predicate.
func (o *oracle) tree(depth int, columns []string) asked {
	r := o.r
	if depth == 0 || r.IntN(4) == 0 {
		return o.leaf(pick(r, columns))
	}
	if r.IntN(4) == 0 {
		p := o.tree(depth-1, columns)
		return asked{store.Not(p.where), func(row store.Row) truth { return -p.of(row) }, "not (" + p.text + ")"}
	}
	var of []asked
	for range r.IntN(4) {
		of = append(of, o.tree(depth-1, columns))
	}
	if r.IntN(2) == 0 {
		return and(of)
	}
	where, texts := parts(of)
	return asked{store.Or(where...), func(row store.Row) truth {
		any := truth(-1)
		for _, p := range of {
			any = max(any, p.of(row))
		}
		return any
	}, "(" + strings.Join(texts, " or ") + ")"}
}

func and(of []asked) asked {
	where, texts := parts(of)
	return asked{store.And(where...), func(row store.Row) truth {
		all := truth(1)
		for _, p := range of {
			all = min(all, p.of(row))
		}
		return all
	}, "(" + strings.Join(texts, " and ") + ")"}
}

func parts(of []asked) (where []store.Predicate, texts []string) {
	for _, p := range of {
		where, texts = append(where, p.where), append(texts, p.text)
	}
	return where, texts
}

// predicate draws one that may lead to rows: of few columns, or with the first key part fixed.
func (o *oracle) predicate() asked {
	r := o.r
	var columns []string
	for range 1 + r.IntN(3) {
		columns = append(columns, pick(r, o.names))
	}
	if r.IntN(3) > 0 {
		return o.tree(r.IntN(4), columns)
	}
	// Leading parts are fixed, and the next one is restricted.
	n := r.IntN(len(o.parts)) + r.IntN(2)
	next := o.parts[min(n, len(o.parts)-1)].name
	all := []asked{o.tree(r.IntN(3), append(columns, next))}
	if r.IntN(2) == 0 {
		all = append(all, o.tree(r.IntN(2), []string{next}))
	}
	for _, part := range o.parts[:n] {
		k := o.kinds[part.name]
		var list []any
		for range 1 + r.IntN(3) {
			list = append(list, pick(r, k.values[:min(len(k.values), 4)]))
		}
		all = append(all, o.comparison(part.name, fmt.Sprintf("one of %v", list), k.term(part.name, in, nil, nil, list),
			func(x any) bool { return k.holds(x, in, nil, nil, list) }))
	}
	return and(all)
}

// fill makes the table with rows, some of which were replaced or deleted, and returns it.
func (o *oracle) fill(t *testing.T, db driver.DB) *store.Table {
	st := open(t, db)
	tbl := create(t, st, o.first())
	whole := tbl
	if o.schema.Tenants {
		for _, name := range []string{"one", "two"} {
			if err := st.CreateTenant(background, name); err != nil {
				require.ErrorIs(t, err, store.ErrExists)
			}
		}
		other, err := tbl.Tenant(background, "two")
		require.NoError(t, err)
		for range 10 {
			if err := other.Put(background, o.ofLoad([]store.Row{o.randomRow()})...); !o.schema.AppendOnly || !errors.Is(err, store.ErrRowExists) {
				require.NoError(t, err)
			}
		}
		tbl, err = tbl.Tenant(background, "one")
		require.NoError(t, err)
	}
	for round := range 3 {
		o.change(t, st, whole, round)
		rows := make(map[string]store.Row)
		for range 8 + o.r.IntN(10) {
			row := o.randomRow()
			rows[o.key(row)] = row
		}
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			if o.r.IntN(8) == 0 && o.rows[key] != nil {
				require.NoError(t, tbl.Delete(background, rows[key]))
				delete(o.rows, key)
				delete(rows, key)
				continue
			}
			if o.schema.AppendOnly && o.rows[key] != nil {
				delete(rows, key) // which can come again when it is gone
				continue
			}
			o.rows[key] = rows[key]
		}
		require.NoError(t, tbl.Put(background, o.ofLoad(slices.Collect(maps.Values(rows)))...))
	}
	return tbl
}

// ofLoad returns the rows as those of a load where only such a row may have a key that was chosen.
func (o *oracle) ofLoad(rows []store.Row) []store.Row {
	if !o.schema.AppendOnly {
		return rows
	}
	out := make([]store.Row, len(rows))
	for i, row := range rows {
		out[i] = maps.Clone(row)
		out[i]["tie"] = store.LoadTie(row["tie"].([16]byte))
	}
	return out
}

// texts returns the keys of rows, sorted.
func (o *oracle) texts(rows []store.Row) []string {
	out := []string{}
	for _, row := range rows {
		out = append(out, showRow(row))
	}
	slices.Sort(out)
	return out
}

// check asks one predicate in all ways, and returns how many queries it made.
func (o *oracle) check(t *testing.T, tbl *store.Table) int {
	p := o.predicate()
	columns := o.randomColumns(o.r)
	if len(columns) == 0 && o.r.IntN(2) == 0 {
		columns = nil
	}
	var want []store.Row
	counts := make(map[truth]int)
	for _, row := range o.rows {
		truth := p.of(row)
		if counts[truth]++; truth == 1 {
			want = append(want, row)
		}
	}
	q := store.Query{Where: p.where, Columns: columns}
	e := o.checkExplained(t, tbl, q, p, len(want))
	explained := e.Driver
	about := fmt.Sprintf("%s\nby %s: %s", o.describe(), explained, p.text)
	// Rows, and pages of them in the same order.
	rows := collect(t, tbl, q)
	wanted := o.projected(want, columns)
	require.Equal(t, wanted, o.texts(rows), about)
	o.samePages(t, tbl, q, rows, e, about)
	q.Reverse = true
	backwards, err := all(tbl, q)
	if errors.Is(err, driver.ErrRange) {
		require.True(t, strings.Contains(explained, "all rows") || o.hasServed(explained), about)
	} else {
		require.NoError(t, err, about)
		slices.Reverse(backwards)
		require.Equal(t, wanted, o.texts(backwards), about)
		slices.Reverse(backwards)
		require.Equal(t, show2(backwards), show2(o.pages(t, tbl, q, about)), "pages, backwards, of %s", about)
	}
	// What is neither true nor false is unknown.
	n, err := tbl.Count(background, p.where)
	require.NoError(t, err, about)
	require.Equal(t, counts[1], n, about)
	n, err = tbl.Count(background, store.Not(p.where))
	require.NoError(t, err, about)
	require.Equal(t, counts[-1], n, "the negation of %s", about)
	exists, err := tbl.Exists(background, p.where)
	require.NoError(t, err, about)
	require.Equal(t, len(want) > 0, exists, about)
	return 8 + o.checkNamed(t, tbl, p, columns) + o.checkOrder(t, tbl, p, want, about)
}

// checkNamed asks for the rows by the postings of a column.
func (o *oracle) checkNamed(t *testing.T, tbl *store.Table, p asked, columns []string) int {
	by := pick(o.r, o.cols)
	if o.r.IntN(2) == 0 {
		p = and([]asked{p, o.leaf(by)})
	}
	q := store.Query{Where: p.where, Columns: columns, By: by}
	var want []store.Row
	for _, row := range o.rows {
		if p.of(row) == 1 {
			want = append(want, row)
		}
	}
	wanted := o.projected(want, columns)
	about := fmt.Sprintf("%s\nby the column %s: %s", o.describe(), by, p.text)
	e, err := tbl.Analyze(background, q)
	if err != nil {
		require.ErrorIs(t, err, store.ErrColumn, about)
		return 1
	}
	if slices.Contains(e.Unconverted, by) {
		require.Equal(t, len(want), e.Rows, about)
		return 1
	}
	if e.Intervals > 0 {
		require.Equal(t, q.By, e.Driver, about)
		o.named++
	}
	q.RequireIndex = true
	rows := collect(t, tbl, q)
	require.Equal(t, wanted, o.texts(rows), about)
	o.samePages(t, tbl, q, rows, e, about)
	if column := pick(o.r, o.names); o.kinds[column].ordered {
		q.OrderBy = column
		ordered := collect(t, tbl, q)
		require.Equal(t, wanted, o.texts(ordered), "%s\nordered by %s", about, column)
		require.Equal(t, show2(ordered), show2(o.pages(t, tbl, q, about)), "pages of %s\nordered by %s", about, column)
	}
	return 5
}

func (o *oracle) projected(want []store.Row, columns []string) []string {
	var rows []store.Row
	for _, row := range want {
		rows = append(rows, o.project(row, columns))
	}
	return o.texts(rows)
}

// samePages requires that pages have the rows of a query: in its order, unless it has none because a column has several forms.
func (o *oracle) samePages(t *testing.T, tbl *store.Table, q store.Query, rows []store.Row, e inspect.Explanation, about string) {
	t.Helper()
	got, want := show2(o.pages(t, tbl, q, about)), show2(rows)
	if len(e.Changing) > 0 {
		o.changed++
		slices.Sort(got)
		slices.Sort(want)
	}
	require.Equal(t, want, got, "pages of %s", about)
}

func (o *oracle) checkExplained(t *testing.T, tbl *store.Table, q store.Query, p asked, want int) inspect.Explanation {
	e, err := tbl.Analyze(background, q)
	require.NoError(t, err, "%s: %s", o.describe(), p.text)
	require.Equal(t, want, e.Rows, "%s\nby %s: %s", o.describe(), e.Driver, p.text)
	require.Equal(t, e.Hits, e.Rows+e.Discarded)
	planned, err := tbl.Explain(background, q)
	require.NoError(t, err)
	require.Equal(t, e.Driver, planned.Driver)
	if planned.Estimate.Exact && planned.Nulls.Exact {
		require.Equal(t, e.Hits, planned.Estimate.Rows+planned.Nulls.Rows, "%s\nby %s: %s", o.describe(), e.Driver, p.text)
	}
	q.RequireIndex = true
	if _, err := all(tbl, q); err != nil {
		require.ErrorIs(t, err, store.ErrScan)
		require.Contains(t, e.Driver, "all rows", "%s\nby %s: %s", o.describe(), e.Driver, p.text)
	} else {
		require.NotContains(t, e.Driver, "all rows")
	}
	return e
}

// checkOrder asks for the rows in the order of a column.
func (o *oracle) checkOrder(t *testing.T, tbl *store.Table, p asked, want []store.Row, about string) int {
	column := pick(o.r, o.names)
	k := o.kinds[column]
	q := store.Query{Where: p.where, OrderBy: column, Reverse: o.r.IntN(2) == 0}
	about = fmt.Sprintf("%s\nordered by %s, %t", about, column, q.Reverse)
	if !k.ordered {
		_, err := all(tbl, q)
		require.ErrorIs(t, err, store.ErrColumn, about)
		return 1
	}
	none := func(row store.Row) bool { return row[column] == nil || isNaN(row[column]) }
	var values []any
	for _, row := range want {
		if !none(row) {
			values = append(values, row[column])
		}
	}
	slices.SortFunc(values, k.compare)
	least, err := tbl.Min(background, column, p.where)
	require.NoError(t, err, about)
	most, err := tbl.Max(background, column, p.where)
	require.NoError(t, err, about)
	if len(values) == 0 {
		require.Nil(t, least, about)
		require.Nil(t, most, about)
	} else {
		require.Equal(t, show(values[0]), show(least), about)
		require.Equal(t, show(values[len(values)-1]), show(most), about)
	}
	if q.Reverse {
		slices.Reverse(values)
	}
	check := func(rows []store.Row, n int) {
		t.Helper()
		require.Len(t, rows, n, about)
		for i, row := range rows {
			if i < len(values) {
				require.NotNil(t, row[column], about)
				require.Equal(t, show(values[i]), show(row[column]), about)
			} else {
				require.True(t, none(row), about)
			}
		}
	}
	rows := collect(t, tbl, q)
	check(rows, len(want))
	require.Equal(t, o.projected(want, nil), o.texts(rows), about)
	require.Equal(t, show2(rows), show2(o.pages(t, tbl, q, about)), "pages of %s", about)
	// Equal values come in one order, and in its opposite.
	q.Reverse = !q.Reverse
	backwards := collect(t, tbl, q)
	slices.Reverse(backwards[:len(values)])
	require.Equal(t, show2(rows[:len(values)]), show2(backwards[:len(values)]), about)
	q.Reverse = !q.Reverse
	q.Limit = 1 + o.r.IntN(6)
	check(collect(t, tbl, q), min(q.Limit, len(want)))
	return 6
}

// pages returns the rows of all pages.
func (o *oracle) pages(t *testing.T, tbl *store.Table, q store.Query, about string) (rows []store.Row) {
	t.Helper()
	for {
		q.Limit = 1 + o.r.IntN(9) // a token does not depend on it
		page, next, err := tbl.Page(background, q)
		if errors.Is(err, driver.ErrRange) && q.OrderBy == "" {
			e, err := tbl.Explain(background, q)
			require.NoError(t, err, about)
			require.True(t, o.hasServed(e.Driver), about)
			q.Limit = 0
			return collect(t, tbl, q)
		}
		require.NoError(t, err, about)
		rows = append(rows, page...)
		if q.PageToken = next; next == "" {
			return rows
		}
		require.Len(t, page, q.Limit, about)
		require.LessOrEqual(t, len(rows), len(o.rows), about)
	}
}

func show2(rows []store.Row) []string {
	var out []string
	for _, row := range rows {
		out = append(out, showRow(row))
	}
	return out
}

func all(tbl *store.Table, q store.Query) (rows []store.Row, err error) {
	for row, err := range tbl.Query(background, q) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// describe returns the schema, and what columns were before.
func (o *oracle) describe() string {
	text := schemaText(o.schema)
	for _, name := range slices.Sorted(maps.Keys(o.was)) {
		for _, c := range o.was[name] {
			text += fmt.Sprintf(", %s was %s %s", name, c.Describe().Encryption, c.Describe().Scheme)
		}
	}
	return text
}

func schemaText(s store.Schema) string {
	var b strings.Builder
	fmt.Fprintf(&b, "packed %t, conditional %t, append-only %t, tenants %t", !s.CellPerColumn, s.Conditional, s.AppendOnly, s.Tenants)
	for _, p := range s.Key {
		fmt.Fprintf(&b, ", %+v", p.Describe())
	}
	for _, c := range s.Columns {
		fmt.Fprintf(&b, ", %+v", c.Describe())
	}
	return b.String()
}

var queriesFlag = flag.Int("store.queries", 0, "queries of TestModelOfPredicates on each database; 0 goes by -store.ops")

// Whatever a predicate says, the store answers as a plain evaluation of it does.
func TestModelOfPredicates(t *testing.T) {
	seed := seeded(t).Uint64()
	// run asks so many queries, each schema so many predicates: those of the schemas i, i+step and so on.
	// A run of some length goes on until a column that was named has driven a query, and one in several forms: few may.
	run := func(t *testing.T, queries, predicates, i, step int, fresh func() driver.DB) {
		began := time.Now()
		asked, named, changed, schemas := 0, 0, 0, 0
		for asked < queries || schemas < 200 && (queries >= 1000 && named == 0 || queries >= 2000 && changed == 0) {
			o := newOracle(rand.New(rand.NewPCG(seed, uint64(i))), i)
			db := fresh()
			if _, ok := db.(driver.Indexer); !ok {
				o.unserve()
			}
			tbl := o.fill(t, db)
			for range predicates {
				asked += o.check(t, tbl)
			}
			require.NoError(t, open(t, db).Drop(background, o.schema.Name))
			named, changed = named+o.named, changed+o.changed
			schemas++
			i += step
		}
		require.True(t, named > 0 || queries < 1000, "no column that was named drove a query")
		require.True(t, changed > 0 || queries < 2000, "no column drove a query by several forms")
		t.Logf("%d queries of %d tables, %d driven by the column that they name, %d by several forms, in %v", asked, schemas, named, changed, time.Since(began).Round(time.Millisecond))
	}
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		queries := 100 * *opsFlag
		if testing.Short() {
			queries /= 4
		}
		if kind.Server {
			queries = 3 * *opsFlag
		}
		queries = cmp.Or(*queriesFlag, queries)
		switch {
		case kind.Name == "memory":
			run(t, queries, 16, 0, 1, func() driver.DB { return newWeak(seed) })
		case !kind.Server:
			db := kind.Open(t, nil)
			run(t, queries, 16, 0, 1, func() driver.DB { return db })
		default:
			// To make a table takes a second, and the rest is mostly waiting.
			db := kind.Open(t, nil)
			clients, predicates := 1, 12
			if queries > 1000 {
				clients, predicates = 4, 60
			}
			for i := range clients {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					run(t, queries/clients, predicates, i, clients, func() driver.DB { return db })
				})
			}
		}
	})
}
