package store_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The model: rows in a map, and predicates evaluated on plain values. Nothing of the package's
// own comparing, encoding or planning is used in it.

// A kind is a type with values to try.
type kind struct {
	typ     store.Type
	values  []any // storable; few, so that they repeat
	bounds  []any // for predicates: also finer than the resolution, and outside the domain
	compare func(a, b any) int
	ordered bool
	term    func(column string, op operator, a, b any, list []any) store.Predicate
}

type operator int

const (
	between operator = iota
	atLeast
	atMost
	greater
	less
	equal
	in
	operators
)

func kindOf[T any](typ store.Type, compare func(a, b T) int, values []T, bounds ...T) kind {
	k := kind{typ: typ, ordered: true, compare: func(a, b any) int { return compare(a.(T), b.(T)) }}
	for _, v := range values {
		k.values = append(k.values, v)
	}
	for _, v := range append(slices.Clone(values), bounds...) {
		k.bounds = append(k.bounds, v)
	}
	k.term = func(column string, op operator, a, b any, list []any) store.Predicate {
		f := store.Field[T](column)
		switch op {
		case between:
			return f.Between(a.(T), b.(T))
		case atLeast:
			return f.AtLeast(a.(T))
		case atMost:
			return f.AtMost(a.(T))
		case greater:
			return f.Greater(a.(T))
		case less:
			return f.Less(a.(T))
		case equal:
			return f.Equal(a.(T))
		}
		typed := make([]T, len(list))
		for i, v := range list {
			typed[i] = v.(T)
		}
		return f.In(typed...)
	}
	return k
}

func (k kind) unordered() kind {
	k.ordered = false
	return k
}

// holds says what op means.
func (k kind) holds(v any, op operator, a, b any, list []any) bool {
	if v == nil {
		return false
	}
	switch op {
	case between:
		return k.compare(v, a) >= 0 && k.compare(v, b) <= 0
	case atLeast:
		return k.compare(v, a) >= 0
	case atMost:
		return k.compare(v, a) <= 0
	case greater:
		return k.compare(v, a) > 0
	case less:
		return k.compare(v, a) < 0
	case equal:
		return k.compare(v, a) == 0
	}
	return slices.ContainsFunc(list, func(w any) bool { return k.compare(v, w) == 0 })
}

func decimal(s string) encode.Decimal {
	d, err := encode.ParseDecimal(s)
	if err != nil {
		panic(err)
	}
	return d
}

func compareDecimals(a, b encode.Decimal) int {
	rat := func(d encode.Decimal) *big.Rat {
		r, _ := new(big.Rat).SetString(d.String())
		return r
	}
	return rat(a).Cmp(rat(b))
}

func compareBools(a, b bool) int {
	toInt := map[bool]int{true: 1}
	return toInt[a] - toInt[b]
}

func compareDates(a, b encode.CivilDate) int {
	return time.Date(a.Year, a.Month, a.Day, 0, 0, 0, 0, time.UTC).Compare(time.Date(b.Year, b.Month, b.Day, 0, 0, 0, 0, time.UTC))
}

func compareUUIDs(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }

func date(y int, m time.Month, d int) encode.CivilDate {
	return encode.CivilDate{Year: y, Month: m, Day: d}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	base = time.UnixMilli(1_700_000_000_000).UTC()

	strs   = kindOf(store.String, strings.Compare, []string{"", "a", "a\x00", "a\x00\x00b", "a\x01", "ab", "sensor-0", "sensor-01", "sensor-02", "sensor-0\x00", "sensor-1", "sensor-10", "zz", "äöü", "\U0010ffff\U0010ffff\U0010ffff"}, "sensor-", "sensor-011", "\xff\xff", "sensor-0\xff")
	blobs  = kindOf(store.Bytes, bytes.Compare, [][]byte{{}, {0}, {0, 0}, {0, 1}, []byte("12345678"), []byte("123456789"), []byte("12345678\x00"), {0xff}, bytes.Repeat([]byte{0xff}, 8), bytes.Repeat([]byte{0xff}, 20)}, []byte("1234567"), nil)
	uuids  = kindOf(store.UUID, compareUUIDs, [][16]byte{{}, {1}, {2}, {15: 1}, {0xff, 15: 0xff}}).unordered()
	bools  = kindOf(store.Bool, compareBools, []bool{false, true})
	i8     = kindOf(store.Int8, cmp.Compare[int8], []int8{math.MinInt8, -2, -1, 0, 1, 5, math.MaxInt8})
	i16    = kindOf(store.Int16, cmp.Compare[int16], []int16{math.MinInt16, -1, 0, 1, math.MaxInt16})
	i32    = kindOf(store.Int32, cmp.Compare[int32], []int32{math.MinInt32, -7, -1, 0, 1, 7, math.MaxInt32})
	i64    = kindOf(store.Int64, cmp.Compare[int64], []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 2, 3, 1 << 40, math.MaxInt64 - 1, math.MaxInt64})
	u8     = kindOf(store.Uint8.Within(10, 200), cmp.Compare[uint8], []uint8{10, 11, 12, 100, 199, 200}, 0, 9, 201, 255)
	u16    = kindOf(store.Uint16, cmp.Compare[uint16], []uint16{0, 1, 2, 1000, math.MaxUint16})
	u32    = kindOf(store.Uint32, cmp.Compare[uint32], []uint32{0, 1, 1 << 31, 1<<31 - 1, math.MaxUint32})
	u64    = kindOf(store.Uint64, cmp.Compare[uint64], []uint64{0, 1, 1<<63 - 1, 1 << 63, math.MaxUint64})
	narrow = kindOf(store.Int64.Within(-3, 1000), cmp.Compare[int64], []int64{-3, -2, 0, 1, 500, 999, 1000}, math.MinInt64, -4, 1001, math.MaxInt64)
	f32    = kindOf(store.Float32, cmp.Compare[float32], []float32{float32(math.Inf(-1)), -math.MaxFloat32, -1.5, -math.SmallestNonzeroFloat32, 0, math.SmallestNonzeroFloat32, 1, 1.0000001, float32(math.Inf(1))}, float32(math.Copysign(0, -1)))
	f64    = kindOf(store.Float64, cmp.Compare[float64], []float64{math.Inf(-1), -math.MaxFloat64, -20.5, -math.SmallestNonzeroFloat64, 0, 18, 18.000000000000004, 25, 25.5, math.MaxFloat64, math.Inf(1)}, math.Copysign(0, -1), 19)
	dates  = kindOf(store.Date, compareDates, []encode.CivilDate{date(1, 1, 1), date(1900, 2, 28), date(1970, 1, 1), date(2000, 2, 29), date(2026, 3, 4), date(9999, 12, 31)})
	ip4    = kindOf(store.IPv4, netip.Addr.Compare, []netip.Addr{addr("0.0.0.0"), addr("10.0.0.1"), addr("127.255.255.255"), addr("128.0.0.0"), addr("255.255.255.255")})
	ip6    = kindOf(store.IPv6, netip.Addr.Compare, []netip.Addr{addr("::"), addr("2001:db8::1"), addr("2001:db8::2"), addr("2001:db8:0:1::"), addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}, addr("2001:db8::"), addr("2001:db8::1:0"))
	ms     = kindOf(store.Time(time.Millisecond), time.Time.Compare, []time.Time{time.UnixMilli(math.MinInt64).UTC(), base, base.Add(time.Millisecond), base.Add(2 * time.Millisecond), base.Add(time.Hour), base.AddDate(1, 0, 0), time.UnixMilli(math.MaxInt64).UTC()}, base.Add(1), base.Add(time.Millisecond-1), base.Add(90*time.Minute))
	ns     = kindOf(store.Time(time.Nanosecond), time.Time.Compare, []time.Time{time.Unix(0, math.MinInt64).UTC(), base, base.Add(1), base.Add(time.Second), time.Unix(0, math.MaxInt64).UTC()}, time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC))
	secs   = kindOf(store.Time(time.Second).Within(time.Unix(0, 0), time.Unix(4e9, 0)), time.Time.Compare, []time.Time{time.Unix(0, 0).UTC(), time.Unix(1, 0).UTC(), time.Unix(3e9, 0).UTC(), time.Unix(4e9, 0).UTC()}, time.Unix(-5, 0), time.Unix(1, 5), time.Unix(5e9, 0))
	cents  = kindOf(store.Decimal(2), compareDecimals, []encode.Decimal{decimal("-92233720368547758.08"), decimal("-0.01"), decimal("0"), decimal("0.01"), decimal("19.90"), decimal("19.99"), decimal("92233720368547758.07")}, decimal("0.005"), decimal("-0.001"), decimal("99999999999999999999"), decimal("-99999999999999999999"), decimal("19.9"))
)

// A tableModel is a schema with the kinds of its parts and columns.
type tableModel struct {
	schema store.Schema
	kinds  map[string]kind
	// how a part of the key orders rows: 'h'ashed, 'o'rdered, 'p'lain or 't'ie
	parts []modelPart
	cols  []string
	rows  map[string]store.Row
}

type modelPart struct {
	name string
	how  byte
}

func newModel(name string) *tableModel {
	return &tableModel{schema: store.Schema{Name: name}, kinds: make(map[string]kind), rows: make(map[string]store.Row)}
}

func (m *tableModel) part(how byte, k kind, part store.KeyPart) *tableModel {
	m.schema.Key = append(m.schema.Key, part)
	m.parts = append(m.parts, modelPart{part.Describe().Name, how})
	m.kinds[part.Describe().Name] = k
	return m
}

func (m *tableModel) hashed(name string, k kind) *tableModel {
	return m.part('h', k, store.HashedPart(name, k.typ))
}
func (m *tableModel) plain(name string, k kind) *tableModel {
	return m.part('p', k, store.PlainPart(name, k.typ))
}
func (m *tableModel) ordered(name string, k kind, s store.KeyScheme) *tableModel {
	return m.part('o', k, store.OrderedPart(name, k.typ, s))
}
func (m *tableModel) tie(name string) *tableModel { return m.part('t', uuids, store.TiePart(name)) }

func (m *tableModel) cellPerColumn() *tableModel {
	m.schema.CellPerColumn = cellPerColumn
	return m
}

func (m *tableModel) column(k kind, c store.Column) *tableModel {
	m.schema.Columns = append(m.schema.Columns, c)
	m.cols = append(m.cols, c.Describe().Name)
	m.kinds[c.Describe().Name] = k
	return m
}

// models returns the schemas that are tried: every type is in an ordered, a deterministic or a
// plain place somewhere, every scheme in a key and in a column, and keys begin with each kind of
// part.
func models() []*tableModel {
	det := func(k kind) func(string) store.Column {
		return func(n string) store.Column { return store.DeterministicColumn(n, k.typ) }
	}
	ord := func(k kind, s store.ColumnScheme) func(string) store.Column {
		return func(n string) store.Column { return store.OrderedColumn(n, k.typ, s) }
	}
	return []*tableModel{
		newModel("hashed, ordered, tie").hashed("device", strs).ordered("time", ms, store.MOPE).tie("id").
			column(f64, ord(f64, store.Boldyreva)("temperature")).
			column(strs, det(strs)("status")).
			column(strs, store.RandomisedColumn("note", store.String)).
			column(i32, store.PlainColumn("zone", store.Int32)).
			column(strs, ord(strs, store.Boldyreva)("name")),
		newModel("ordered, plain").ordered("at", i64, store.Boldyreva).plain("where", strs).
			column(u64, ord(u64, store.MOPE)("count")).
			column(uuids, det(uuids)("uuid")).
			column(cents, ord(cents, store.Boldyreva)("price")).
			column(bools, ord(bools, store.MOPE)("on")).
			column(dates, ord(dates, store.MOPE)("day")).
			column(blobs, store.PlainColumn("raw", store.Bytes)),
		newModel("lossy, hashed").ordered("name", strs, store.MOPE).hashed("number", i32).
			column(blobs, ord(blobs, store.MOPE)("blob")).
			column(ip6, ord(ip6, store.Boldyreva)("address")).
			column(i64, det(i64)("total")).
			column(ms, store.PlainColumn("seen", ms.typ)),
		newModel("plain, ordered").plain("region", u16).ordered("level", i8, store.MOPE).
			column(u8, ord(u8, store.Boldyreva)("small")).
			column(ip4, ord(ip4, store.MOPE)("ip")).
			column(f32, ord(f32, store.Boldyreva)("ratio")).
			column(ns, ord(ns, store.Boldyreva)("instant")).
			column(narrow, ord(narrow, store.MOPE)("narrow")),
		newModel("hashed, plain, lossy").hashed("tenant", uuids).plain("kind", strs).ordered("path", strs, store.Boldyreva).
			column(u32, ord(u32, store.Boldyreva)("size")).
			column(f64, det(f64)("score")).
			column(secs, ord(secs, store.MOPE)("created")),
		newModel("nothing searched").hashed("id", uuids).hashed("sub", bools).plain("part", i16).
			column(blobs, store.RandomisedColumn("body", store.Bytes)).
			column(bools, store.RandomisedColumn("flag", store.Bool)).
			column(i8, store.PlainColumn("i8", store.Int8)).
			column(i16, store.RandomisedColumn("i16", store.Int16)),
		newModel("cell per column").cellPerColumn().hashed("id", i32).ordered("at", i64, store.MOPE).
			column(blobs, store.RandomisedColumn("body", store.Bytes)).
			column(strs, store.RandomisedColumn("note", store.String)).
			column(i32, store.PlainColumn("zone", store.Int32)).
			column(f64, ord(f64, store.Boldyreva)("level")),
		newModel("mutable columns").hashed("id", i32).ordered("at", i64, store.Wozniak).
			column(i64, ord(i64, store.Kerschbaum)("amount")).
			column(strs, ord(strs, store.Kerschbaum)("name")).
			column(i8, ord(i8, compare.KerschbaumPublished)("level")).
			column(ms, ord(ms, store.Kerschbaum)("seen")).
			column(i64, ord(i64, compare.PlaintextIndexed)("plain")).
			column(f64, ord(f64, store.Wozniak)("ratio")),
		newModel("stateful key").ordered("at", i64, store.WozniakIndexed).ordered("name", strs, store.WozniakIndexed).tie("id").
			column(f64, ord(f64, store.WozniakIndexed)("ratio")).
			column(blobs, ord(blobs, store.WozniakIndexed)("blob")),
		newModel("ranked columns").hashed("id", i32).ordered("at", i64, store.Wozniak).
			column(i64, ord(i64, store.KerschbaumRanked)("amount")).
			column(strs, ord(strs, store.KerschbaumRanked)("name")).
			column(f64, ord(f64, store.KerschbaumRanked)("ratio")),
		newModel("single ordered").ordered("day", dates, store.Boldyreva).
			column(cents, det(cents)("cents")).
			column(ip4, store.PlainColumn("ip", store.IPv4)),
	}
}

// show makes text of a value that is equal for equal values.
func show(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case encode.Decimal:
		r, _ := new(big.Rat).SetString(v.String())
		return r.String()
	case float64:
		return fmt.Sprint(v + 0) // -0 + 0 is 0
	case float32:
		return fmt.Sprint(v + 0)
	case [16]byte:
		return fmt.Sprintf("%x", v)
	}
	return fmt.Sprintf("%q", fmt.Sprint(v))
}

func showRow(row store.Row) string {
	var b strings.Builder
	for _, column := range slices.Sorted(maps.Keys(row)) {
		fmt.Fprintf(&b, "%s=%s ", column, show(row[column]))
	}
	return b.String()
}

func (m *tableModel) key(row store.Row) string {
	key := make(store.Row)
	for _, p := range m.parts {
		key[p.name] = row[p.name]
	}
	return showRow(key)
}

func (m *tableModel) randomKey(r *rand.Rand) store.Row {
	row := make(store.Row)
	for i, p := range m.parts {
		values := m.kinds[p.name].values
		if i == 0 && p.how != 'o' {
			values = values[:min(3, len(values))] // so that a prefix has several rows
		}
		row[p.name] = pick(r, values)
	}
	return row
}

func (m *tableModel) randomRow(r *rand.Rand) store.Row {
	row := m.randomKey(r)
	for _, c := range m.cols {
		if r.IntN(4) > 0 {
			row[c] = pick(r, m.kinds[c].values)
		} else if r.IntN(2) == 0 {
			row[c] = nil
		}
	}
	return row
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// a filter is a predicate of both sides.
type filter struct {
	where store.Predicate
	holds func(store.Row) bool
	text  string
	lists map[string][]any // parts that an In or Equal fixes
}

func (m *tableModel) randomFilter(r *rand.Rand) filter {
	f := filter{holds: func(store.Row) bool { return true }, lists: make(map[string][]any)}
	var all []string
	for _, p := range m.parts {
		all = append(all, p.name)
	}
	lead := r.IntN(3) == 0 // conditions on the key from its beginning
	all = append(all, m.cols...)
	var predicates []store.Predicate
	for n := range r.IntN(4) {
		column := pick(r, all)
		if lead && n < len(m.parts) {
			column = m.parts[n].name
		}
		k := m.kinds[column]
		op := operator(r.IntN(int(operators)))
		if !k.ordered || lead && n < len(m.parts)-1 && m.parts[n].how != 'o' {
			op = equal + operator(r.IntN(2))
		}
		a, b := pick(r, k.bounds), pick(r, k.bounds)
		if r.IntN(4) > 0 && k.compare(a, b) > 0 {
			a, b = b, a // reversed ranges stay, but are not the rule
		}
		var list []any
		for range r.IntN(5) {
			list = append(list, pick(r, k.bounds))
		}
		before := f.holds
		f.holds = func(row store.Row) bool { return before(row) && k.holds(row[column], op, a, b, list) }
		f.text += fmt.Sprintf("[%s op%d %s %s %v]", column, op, show(a), show(b), list)
		predicates = append(predicates, k.term(column, op, a, b, list))
		if op == equal || op == in {
			f.lists[column] = list
		}
	}
	f.where = store.And(predicates...)
	return f
}

// order returns how an answer must be ordered, given what drove it, or nil for any order.
func (m *tableModel) order(driver string, f filter) func(a, b store.Row) int {
	by := func(column string) func(a, b store.Row) int {
		return func(a, b store.Row) int { return m.kinds[column].compare(a[column], b[column]) }
	}
	switch driver {
	case "all rows":
		if m.parts[0].how != 'o' {
			return nil
		}
		return by(m.parts[0].name)
	case "row key":
		var orders []func(a, b store.Row) int
		for _, p := range m.parts {
			_, fixed := f.lists[p.name]
			if (p.how == 'h' || p.how == 't') && !fixed {
				break
			}
			orders = append(orders, by(p.name))
			if !fixed || p.how == 'o' {
				break // behind a part that is not fixed there is no order
			}
		}
		return func(a, b store.Row) int {
			for _, order := range orders {
				if d := order(a, b); d != 0 {
					return d
				}
			}
			return 0
		}
	}
	return by(driver)
}

// history collects what a run answers, in a form that does not depend on random ids.
type history []string

func (h *history) add(format string, args ...any) { *h = append(*h, fmt.Sprintf(format, args...)) }

// project leaves the named columns, and the key.
func (m *tableModel) project(row store.Row, columns []string) store.Row {
	out := make(store.Row)
	for name, v := range row {
		isPart := slices.ContainsFunc(m.parts, func(p modelPart) bool { return p.name == name })
		if v != nil && (columns == nil || isPart || slices.Contains(columns, name)) {
			out[name] = v
		}
	}
	return out
}

// run carries out random operations on a table and the model and compares all answers.
func (m *tableModel) run(t *testing.T, db driver.DB, r *rand.Rand, ops int) history {
	var h history
	st := open(t, db)
	tbl := create(t, st, m.schema)
	counts := make(map[string]int)
	for range ops {
		switch n := r.IntN(20); {
		case n < 6:
			rows := make(map[string]store.Row)
			for range 1 + r.IntN(8) {
				row := m.randomRow(r)
				rows[m.key(row)] = row
			}
			var batch []store.Row
			known := false
			for _, key := range slices.Sorted(maps.Keys(rows)) {
				batch = append(batch, rows[key])
				known = known || m.rows[key] != nil
				m.rows[key] = rows[key]
			}
			write := tbl.Put
			if !known {
				write = tbl.Insert
			}
			require.NoError(t, write(background, batch...))
		case n < 7:
			var keys []store.Row
			for range 1 + r.IntN(4) {
				key := m.randomKey(r)
				keys = append(keys, key)
				delete(m.rows, m.key(key))
			}
			require.NoError(t, tbl.Delete(background, keys...))
		case n < 9:
			key := m.randomKey(r)
			columns := m.randomColumns(r)
			got, err := tbl.Get(background, key, columns...)
			require.NoError(t, err)
			want := m.rows[m.key(key)]
			if want == nil {
				require.Nil(t, got)
			} else {
				require.Equal(t, showRow(m.project(want, columns)), showRow(got))
			}
			h.add("get %s", showRow(got))
		case n < 10:
			var err error
			st = open(t, db) // another client
			tbl, err = st.Table(background, m.schema.Name)
			require.NoError(t, err)
			for _, c := range m.cols {
				if _, err := tbl.Rebalance(background, c, nil); err != nil {
					require.ErrorIs(t, err, store.ErrColumn)
				}
			}
		default:
			m.query(t, tbl, r, &h, counts)
		}
	}
	t.Logf("%s: %d rows, answers by driver: %v", m.schema.Name, len(m.rows), counts)
	// The whole table once more, so that what was lost on the way is seen.
	var got []string
	for _, row := range collect(t, tbl, store.Query{}) {
		got = append(got, showRow(row))
	}
	var want []string
	for _, row := range m.rows {
		want = append(want, showRow(m.project(row, nil)))
	}
	require.ElementsMatch(t, want, got)
	return h
}

func (m *tableModel) randomColumns(r *rand.Rand) []string {
	var columns []string
	for _, c := range m.cols {
		if r.IntN(3) == 0 {
			columns = append(columns, c)
		}
	}
	if r.IntN(4) == 0 {
		columns = append(columns, m.parts[0].name)
	}
	return columns
}

func (m *tableModel) query(t *testing.T, tbl *store.Table, r *rand.Rand, h *history, counts map[string]int) {
	f := m.randomFilter(r)
	q := store.Query{Where: f.where, Columns: m.randomColumns(r)}
	explain, err := tbl.Analyze(background, q)
	require.NoError(t, err, f.text)
	counts[explain.Driver]++
	order := m.order(explain.Driver, f)
	q.Reverse = order != nil && r.IntN(2) == 0

	var want []store.Row
	for _, row := range m.rows {
		if f.holds(row) {
			want = append(want, row)
		}
	}
	require.Equal(t, len(want), explain.Rows, "%s: %+v", f.text, explain)
	require.Equal(t, explain.Hits, explain.Rows+explain.Discarded)
	if order != nil {
		slices.SortFunc(want, func(a, b store.Row) int {
			d := order(a, b)
			if q.Reverse {
				d = -d
			}
			return d
		})
	}
	got := m.checkAnswer(t, f, want, collect(t, tbl, q), q, order)
	h.add("query %s %t: %s", f.text, q.Reverse, got)

	// A limit cuts the same order short.
	limited := q
	limited.Limit = 1 + r.IntN(6)
	rows := collect(t, tbl, limited)
	require.Len(t, rows, min(limited.Limit, len(want)), f.text)
	if order != nil {
		for i, row := range rows {
			require.Zero(t, order(want[i], m.full(t, row)), f.text)
		}
	}

	// The pages together are the whole.
	rows = nil
	for pages := 0; ; pages++ {
		require.LessOrEqual(t, pages, len(want)/limited.Limit, f.text)
		page, next, err := tbl.Page(background, limited)
		require.NoError(t, err, f.text)
		rows = append(rows, page...)
		if limited.PageToken = next; next == "" {
			break
		}
		require.Len(t, page, limited.Limit, f.text)
	}
	m.checkAnswer(t, f, want, rows, q, order)
}

// full returns the model's row of the same key.
func (m *tableModel) full(t *testing.T, row store.Row) store.Row {
	t.Helper()
	full := m.rows[m.key(row)]
	require.NotNil(t, full, "a row that was not written: %s", showRow(row))
	return full
}

// checkAnswer compares an answer with the rows wanted, where rows that are equal in the order may
// come in any. It returns the answer with those in the order of their keys.
func (m *tableModel) checkAnswer(t *testing.T, f filter, want, got []store.Row, q store.Query, order func(a, b store.Row) int) string {
	t.Helper()
	if order == nil {
		order = func(a, b store.Row) int { return 0 }
	}
	require.Len(t, got, len(want), f.text)
	text := func(rows []store.Row, whole bool) string {
		var out []string
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && order(m.full(t, rows[0]), m.full(t, rows[n])) == 0 {
				n++
			}
			var group []string
			for _, row := range rows[:n] {
				if whole {
					row = m.project(row, q.Columns)
				}
				group = append(group, m.key(row)+": "+showRow(row))
			}
			slices.Sort(group)
			out = append(out, group...)
			rows = rows[n:]
		}
		return strings.Join(out, "\n")
	}
	answer := text(got, false)
	require.Equal(t, text(want, true), answer, f.text)
	return answer
}

// TestModel compares random operations with a plain map, and the histories of all databases with
// each other.
func TestModel(t *testing.T) {
	seed := seeded(t).Uint64()
	var mu sync.Mutex
	first := make(map[string]history)
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		ops := *opsFlag
		if testing.Short() {
			ops = (ops + 1) / 2
		}
		switch {
		case kind.Name == "memory":
			ops *= 2
		case kind.Server:
			ops = max(1, ops/4)
		}
		db := kind.Open(t, nil)
		for i, m := range models() {
			t.Run(m.schema.Name, func(t *testing.T) {
				h := m.run(t, db, rand.New(rand.NewPCG(seed, uint64(i))), ops)
				require.NotEmpty(t, h)
				mu.Lock()
				defer mu.Unlock()
				if before, ok := first[m.schema.Name]; !ok {
					first[m.schema.Name] = h
				} else {
					n := min(len(h), len(before)) // the runs differ in length
					require.Equal(t, before[:n], h[:n])
				}
			})
		}
	})
}

// A database without snapshots, and one that returns all rows in an order of its own, as
// Cassandra does.
func TestModelWithoutSnapshots(t *testing.T) {
	r := seeded(t)
	for _, m := range models() {
		t.Run(m.schema.Name, func(t *testing.T) { m.run(t, newWeak(r.Uint64()), r, 2**opsFlag) })
	}
}
