package condition_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var (
	seed = flag.Uint64("condition.seed", 1, "of TestConditions")
	runs = flag.Int("condition.runs", 300, "conditions of TestConditions")
)

// A verdict is a value of the logic with three.
type verdict int

const (
	no verdict = iota
	unknown
	yes
)

func of(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// A constant is a text, and what it is.
type constant struct {
	text  string
	is    any // *big.Rat, string, or what the value of a row is
	above int // 1 and -1 for infinities
}

// A column of the tests has some values, and constants that they are compared with. Compare is independent of the code
// under test: numbers and times are exact fractions.
type column struct {
	name      string
	values    []any // nil is null
	constants []constant
	is        func(v any) (any, int)
}

func ratio(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

// numbers are constants that are what they say.
func numbers(texts ...string) (all []constant) {
	for _, text := range texts {
		all = append(all, constant{text: text, is: ratio(text)})
	}
	return all
}

func seconds(t time.Time) *big.Rat {
	return new(big.Rat).Add(new(big.Rat).SetInt64(t.Unix()), big.NewRat(int64(t.Nanosecond()), 1_000_000_000))
}

// comparison returns -1, 0 or 1.
func (c *column) comparison(v any, k constant) int {
	is, above := c.is(v)
	if above != 0 || k.above != 0 {
		return cmp.Compare(above, k.above)
	}
	switch is := is.(type) {
	case *big.Rat:
		return is.Cmp(k.is.(*big.Rat))
	case string:
		return strings.Compare(is, k.is.(string))
	}
	panic(is)
}

func integer[T int8 | uint64 | int64](v any) (any, int) {
	return new(big.Rat).SetInt(mustInt(fmt.Sprint(v.(T)))), 0
}

func mustInt(text string) *big.Int {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic(text)
	}
	return n
}

func float[T float32 | float64](v any) (any, int) {
	f := float64(v.(T))
	if math.IsInf(f, 0) {
		return nil, int(math.Copysign(1, f))
	}
	return new(big.Rat).SetFloat64(f), 0
}

func text(v any) (any, int) { return v.(string), 0 }

func columns() []*column {
	day := func(text string) time.Time {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			panic(err)
		}
		return t
	}
	at := func(text, means string) constant { return constant{text: text, is: seconds(day(means))} }
	finer := at("'2024-02-29T11:00:00.0000000001Z'", "2024-02-29T11:00:00Z")
	finer.is = new(big.Rat).Add(finer.is.(*big.Rat), ratio("1e-10"))
	decimal := func(unscaled int64) encode.Decimal { return encode.Decimal{Unscaled: big.NewInt(unscaled), Scale: 1} }
	whole := []string{"-1e400", "-129", "-128", "-127.5", "-1", "-1e-9", "-0", "0", "+0.5", "1", "1e0", "10e-1", "1.5", "2", "126.99", "127", "127.0", "128", "1e30", "1e999999999999"}
	small := numbers(whole[1 : len(whole)-1]...)
	small = append(small, constant{text: whole[0], above: -1, is: 0}, constant{text: whole[len(whole)-1], above: 1, is: 0}, constant{text: "'1'", is: ratio("1")})
	return []*column{
		{"i", []any{nil, int8(-128), int8(-127), int8(-1), int8(0), int8(1), int8(2), int8(127)}, small, integer[int8]},
		{"within", []any{nil, int64(-2), int64(0), int64(3)}, append(numbers("-1000000000000000000000", "-3", "-2", "2.5", "3", "4"), small...), integer[int64]},
		{
			"u", []any{nil, uint64(0), uint64(1), uint64(math.MaxUint64 - 1), uint64(math.MaxUint64)},
			append(numbers("18446744073709551614.5", "18446744073709551615", "18446744073709551616", "18446744073709551614"), small...), integer[uint64],
		},
		{
			"d", []any{nil, decimal(-15), decimal(0), decimal(15), decimal(16), decimal(math.MaxInt64), decimal(math.MinInt64)},
			append(numbers("1.5", "1.50", "1.55", "1.6", "-1.55", "-1.5", "922337203685477580.7", "922337203685477580.75", "922337203685477580.8", "-922337203685477580.8", "-922337203685477580.85"), small...),
			func(v any) (any, int) {
				d := v.(encode.Decimal)
				return new(big.Rat).SetFrac(d.Unscaled, big.NewInt(int64(math.Pow10(int(d.Scale))))), 0
			},
		},
		{"f", []any{nil, math.NaN(), math.Inf(-1), -math.MaxFloat64, -1.5, math.Copysign(0, -1), 0.0, 0.1, 1.0, float64(1 << 53), math.MaxFloat64, math.Inf(1)}, []constant{
			{"0.1", new(big.Rat).SetFloat64(0.1), 0}, {"0", ratio("0"), 0}, {"-0.0", ratio("0"), 0}, {"9007199254740993", ratio("9007199254740993"), 0},
			{"9007199254740992", ratio("9007199254740992"), 0}, {"9007199254740991.6", ratio("9007199254740992"), 0}, {"-1.5", ratio("-1.5"), 0},
			{"1e400", new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(400), nil)), 0}, {"-1e400", new(big.Rat).SetInt(new(big.Int).Neg(new(big.Int).Exp(big.NewInt(10), big.NewInt(400), nil))), 0},
			{"+inf", nil, 1}, {"'-inf'", nil, -1}, {"1.7976931348623157e308", new(big.Rat).SetFloat64(math.MaxFloat64), 0}, {"1e-400", ratio("0"), 0},
		}, float[float64]},
		{"g", []any{nil, float32(math.NaN()), float32(0.1), float32(1 << 24), float32(math.MaxFloat32), float32(math.Inf(1))}, []constant{
			{"0.1", new(big.Rat).SetFloat64(float64(float32(0.1))), 0}, {"16777217", ratio("16777217"), 0}, {"16777216", ratio("16777216"), 0},
			{"3.5e38", ratio("3.5e38"), 0}, {"+inf", nil, 1}, {"-3.5e38", ratio("-3.5e38"), 0},
		}, float[float32]},
		{"s", []any{nil, "", "a", "a'b", `a"b`, "ab", "a%b", "b", "null", "\U0010ffff"}, []constant{
			{"''", "", 0}, {"'a'", "a", 0}, {`"a"`, "a", 0}, {"'a''b'", "a'b", 0}, {`"a""b"`, `a"b`, 0}, {"'ab'", "ab", 0}, {`"a%b"`, "a%b", 0}, {"'null'", "null", 0}, {"'zzz'", "zzz", 0},
		}, text},
		{"b", []any{nil, []byte{}, []byte{0}, []byte{0, 255}, []byte{255, 255}}, []constant{
			{"x''", "", 0}, {"X'00'", "\x00", 0}, {"x'00Ff'", "\x00\xff", 0}, {"x'ffff'", "\xff\xff", 0}, {"x'01'", "\x01", 0},
		}, func(v any) (any, int) { return string(v.([]byte)), 0 }},
		{"long", []any{nil, "", "a", "of eight", "of eight bytes", "of eight bytez", "of eight bytes and 16 more"}, []constant{
			{"''", "", 0}, {"'of eight'", "of eight", 0}, {"'of eight bytes'", "of eight bytes", 0}, {"'of eight bytes and 16'", "of eight bytes and 16", 0}, {"'zzz'", "zzz", 0},
		}, text},
		{"after", []any{nil, "", "a", "https://a", "https://www.example.org/1", "https://www.example.org/2", "z"}, []constant{
			{"'https://www.example.org/1'", "https://www.example.org/1", 0}, {"'https://'", "https://", 0}, {"'b'", "b", 0},
		}, text},
		{"bin", []any{nil, []byte{}, []byte("of eight bytes"), []byte("of eight bytez")}, []constant{
			{"x''", "", 0}, {"x'6f66206569676874206279746573'", "of eight bytes", 0}, {"x'ff'", "\xff", 0},
		}, func(v any) (any, int) { return string(v.([]byte)), 0 }},
		{"t", []any{nil, day("2024-02-28T23:00:00Z"), day("2024-02-29T11:00:00Z"), day("2024-02-29T11:00:00.001Z"), day("1969-12-31T23:59:59.999Z")}, []constant{
			at("2024-02-29", "2024-02-28T23:00:00Z"), at("'2024-02-29 12:00'", "2024-02-29T11:00:00Z"), at("'2024-02-29 12:00:00.001'", "2024-02-29T11:00:00.001Z"),
			at("2024-02-29T11:00:00.0005Z", "2024-02-29T11:00:00.0005Z"), at("2024-02-29T12:00+01:00", "2024-02-29T11:00:00Z"), at("1969-12-31T23:59:59.9995Z", "1969-12-31T23:59:59.9995Z"),
			at("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"), at("9999-12-31T00:00:00Z", "9999-12-31T00:00:00Z"), finer,
		}, func(v any) (any, int) { return seconds(v.(time.Time)), 0 }},
		{"y", []any{nil, encode.CivilDate{Year: 2024, Month: 2, Day: 29}, encode.CivilDate{Year: 1969, Month: 12, Day: 31}}, []constant{
			{"2024-02-29", "2024-02-29", 0}, {"'2024-03-01'", "2024-03-01", 0}, {"1969-12-31", "1969-12-31", 0}, {"0001-01-01", "0001-01-01", 0},
		}, func(v any) (any, int) {
			d := v.(encode.CivilDate)
			return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day), 0
		}},
		{"o", []any{nil, false, true}, []constant{{"true", "true", 0}, {"FALSE", "false", 0}, {"'true'", "true", 0}}, func(v any) (any, int) { return fmt.Sprint(v), 0 }},
		{"ip", []any{nil, netip.MustParseAddr("9.0.0.1"), netip.MustParseAddr("192.0.2.1")}, []constant{
			{"192.0.2.1", "\xc0\x00\x02\x01", 0}, {"'10.0.0.0'", "\x0a\x00\x00\x00", 0},
		}, func(v any) (any, int) { b := v.(netip.Addr).As4(); return string(b[:]), 0 }},
		{"id", []any{nil, [16]byte{15: 1}, [16]byte{0: 255}}, []constant{
			{"00000000-0000-0000-0000-000000000001", string(append(make([]byte, 15), 1)), 0}, {"'ff000000-0000-0000-0000-000000000000'", string(append([]byte{255}, make([]byte, 15)...)), 0},
		}, func(v any) (any, int) { id := v.([16]byte); return string(id[:]), 0 }},
	}
}

var types = map[string]store.Column{
	"i": store.OrderedColumn("i", store.Int8, store.Boldyreva), "within": store.OrderedColumn("within", store.Int64.Within(-2, 3), store.MOPE),
	"u": store.RandomisedColumn("u", store.Uint64), "d": store.OrderedColumn("d", store.Decimal(1), store.Plaintext), "f": store.RandomisedColumn("f", store.Float64),
	"g": store.PlainColumn("g", store.Float32), "s": store.OrderedColumn("s", store.String, store.Plaintext), "b": store.DeterministicColumn("b", store.Bytes),
	"long": store.OrderedColumn("long", store.String.OrderedBy(16), store.Boldyreva), "after": store.OrderedColumn("after", store.String.Prefixed("https://www."), store.MOPE),
	"bin": store.OrderedColumn("bin", store.Bytes.OrderedBy(24), store.Boldyreva),
	"t":   store.OrderedColumn("t", store.Time(time.Millisecond), store.Plaintext), "y": store.RandomisedColumn("y", store.Date), "o": store.DeterministicColumn("o", store.Bool),
	"ip": store.RandomisedColumn("ip", store.IPv4), "id": store.DeterministicColumn("id", store.UUID),
}

// A table has rows whose values are known.
type table struct {
	*store.Table
	columns []*column
	rows    map[int64]store.Row
	format  *celltext.Format
}

func newTable(t testing.TB, r *rand.Rand) *table {
	all := columns()
	schema := store.Schema{Name: "t", Key: []store.KeyPart{store.OrderedPart("n", store.Int64, store.Plaintext)}}
	for _, c := range all {
		schema.Columns = append(schema.Columns, types[c.name])
	}
	st, err := store.Open(t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(t.Context(), schema)
	require.NoError(t, err)
	tab := &table{tbl, all, map[int64]store.Row{}, inZone(t, "Etc/GMT-1")}
	const n = 24 // more than any column has values, so that each is there
	for _, c := range all {
		values := slices.Clone(c.values)
		for len(values) < n {
			values = append(values, c.values[r.IntN(len(c.values))])
		}
		r.Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		for i, v := range values {
			if tab.rows[int64(i)] == nil {
				tab.rows[int64(i)] = store.Row{"n": int64(i)}
			}
			if v != nil {
				tab.rows[int64(i)][c.name] = v
			}
		}
	}
	require.NoError(t, tbl.Put(t.Context(), slices.Collect(maps.Values(tab.rows))...))
	return tab
}

func inZone(t testing.TB, zone string) *celltext.Format {
	var flags celltext.Flags
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.BindConstants(f)
	require.NoError(t, f.Parse([]string{"--zone", zone}))
	format, err := flags.Format()
	require.NoError(t, err)
	return format
}

// check asks the table, and compares with what is true of each row.
func (tab *table) check(t *testing.T, text string, holds func(store.Row) verdict) {
	t.Helper()
	p, err := condition.Parse(tab.Schema(), text, tab.format)
	require.NoError(t, err, text)
	var want, got []int64
	for n, row := range tab.rows {
		if holds(row) == yes {
			want = append(want, n)
		}
	}
	for row, err := range tab.Query(t.Context(), store.Query{Where: p, Columns: []string{}}) {
		require.NoError(t, err, text)
		got = append(got, row["n"].(int64))
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got, "%s", text)
}

func isNaN(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.IsNaN(v)
	case float32:
		return v != v
	}
	return false
}

// compared returns a condition on a column with an operator and one constant, and what is true of a row.
func (c *column) compared(op string, k constant) (string, func(store.Row) verdict) {
	return fmt.Sprintf("%s %s %s", c.name, op, k.text), func(row store.Row) verdict {
		v := row[c.name]
		if v == nil || isNaN(v) {
			return unknown
		}
		d := c.comparison(v, k)
		return of(map[string]bool{"=": d == 0, "!=": d != 0, "<>": d != 0, "<": d < 0, "<=": d <= 0, ">": d > 0, ">=": d >= 0}[op])
	}
}

func (c *column) operators() []string {
	if c.name == "id" {
		return []string{"=", "!="}
	}
	return []string{"=", "!=", "<", "<=", ">", ">=", "<>"}
}

// Each operator with each constant selects of each column what it says.
func TestEachComparison(t *testing.T) {
	tab := newTable(t, rand.New(rand.NewPCG(1, 1)))
	n := 0
	for _, c := range tab.columns {
		for _, op := range c.operators()[:len(c.operators())-1] {
			for _, k := range c.constants {
				text, holds := c.compared(op, k)
				tab.check(t, text, holds)
				n++
			}
		}
		tab.check(t, c.name+" is null", func(row store.Row) verdict { return of(row[c.name] == nil) })
		tab.check(t, "not "+c.name+" is null", func(row store.Row) verdict { return of(row[c.name] != nil) })
	}
	require.Greater(t, n, 500)
	for _, prefix := range []string{"", "a", "ab", "a'", "z", "\U0010ffff"} {
		quoted := strings.ReplaceAll(prefix, "'", "''")
		tab.check(t, "s like '"+quoted+"%'", func(row store.Row) verdict {
			v, ok := row["s"].(string)
			if !ok {
				return unknown
			}
			return of(strings.HasPrefix(v, prefix))
		})
	}
	tab.check(t, `s like 'a\%%'`, func(row store.Row) verdict { v, _ := row["s"].(string); return of(v == "a%b") })
	for _, c := range []string{"f", "g"} {
		tab.check(t, c+" is nan", func(row store.Row) verdict { return of(isNaN(row[c])) })
		tab.check(t, c+" is not nan", func(row store.Row) verdict { return of(row[c] != nil && !isNaN(row[c])) })
	}
}

// random returns a condition, and what is true of a row.
func (tab *table) random(r *rand.Rand, depth int) (string, func(store.Row) verdict) {
	if depth > 0 && r.IntN(4) > 0 {
		return tab.combined(r, depth)
	}
	c := tab.columns[r.IntN(len(tab.columns))]
	constant := func() constant { return c.constants[r.IntN(len(c.constants))] }
	not, flip := "", func(v verdict) verdict { return v }
	if r.IntN(2) == 0 {
		not, flip = "not ", func(v verdict) verdict { return yes - v }
	}
	switch form := r.IntN(8); {
	case form == 0:
		return fmt.Sprintf("%s is %snull", c.name, not), func(row store.Row) verdict { return flip(of(row[c.name] == nil)) }
	case form == 1 && (c.name == "f" || c.name == "g"):
		return fmt.Sprintf("%s IS %sNaN", c.name, not), func(row store.Row) verdict {
			if row[c.name] == nil {
				return unknown
			}
			return flip(of(isNaN(row[c.name])))
		}
	case form == 2 && c.name != "id":
		lo, hi := constant(), constant()
		_, above := c.compared(">=", lo)
		_, below := c.compared("<=", hi)
		return fmt.Sprintf("%s %sbetween %s and %s", c.name, not, lo.text, hi.text), func(row store.Row) verdict { return flip(min(above(row), below(row))) }
	case form == 3:
		var texts []string
		var any []func(store.Row) verdict
		for range 1 + r.IntN(4) {
			k := constant()
			_, equal := c.compared("=", k)
			texts, any = append(texts, k.text), append(any, equal)
		}
		return fmt.Sprintf("%s %sin (%s)", c.name, not, strings.Join(texts, ", ")), func(row store.Row) (v verdict) {
			for _, equal := range any {
				v = max(v, equal(row))
			}
			return flip(v)
		}
	}
	return c.compared(c.operators()[r.IntN(len(c.operators()))], constant())
}

func (tab *table) combined(r *rand.Rand, depth int) (string, func(store.Row) verdict) {
	a, holdsA := tab.random(r, depth-1)
	b, holdsB := tab.random(r, depth-1)
	switch r.IntN(3) {
	case 0:
		return "not (" + a + ")", func(row store.Row) verdict { return yes - holdsA(row) }
	case 1:
		return "(" + a + ") AND (" + b + ")", func(row store.Row) verdict { return min(holdsA(row), holdsB(row)) }
	}
	return "(" + a + ") or (" + b + ")", func(row store.Row) verdict { return max(holdsA(row), holdsB(row)) }
}

// Conditions select what SQL's logic with three values says.
func TestConditions(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	tab := newTable(t, r)
	for range *runs {
		text, holds := tab.random(r, 4)
		tab.check(t, text, holds)
	}
}

// What a column does not take is refused with what it takes, at its place; no constant is in the message itself.
func TestErrors(t *testing.T) {
	tab := newTable(t, rand.New(rand.NewPCG(1, 1)))
	for _, c := range []struct{ text, at, message string }{
		{"i = 'x9'", "'x9'", "column i has type int8: it takes a number, such as 25"},
		{"i = x'09'", "x'09'", "column i has type int8: it takes a number, such as 25"},
		{"i = 1_000", "1_000", "column i has type int8: it takes a number, such as 25"},
		{"i in (1, 0x9)", "0x9", "column i has type int8: it takes a number, such as 25"},
		{"d = 2024-02-29", "2024-02-29", "column d has type decimal(1): it takes a number, such as 21.5"},
		{"f = 'x9'", "'x9'", "column f has type float64: it takes a number, such as 21.5, +inf or -inf"},
		{"f = 'nan'", "'nan'", "column f has type float64: nothing is equal to NaN, nor less or more; say is nan, or is not nan"},
		{"s = 9", "9", "column s has type string: it takes a text in quotation marks"},
		{"b = 'x9'", "'x9'", "column b has type bytes: it takes pairs of hexadecimal digits, as in x'00ff'"},
		{"b = x'9'", "x'9'", "column b has type bytes: it takes pairs of hexadecimal digits, as in x'00ff'"},
		{"b like 'x%'", "'x%'", "column b has type bytes: like is for columns of type string"},
		{"t = 2024-02-30", "2024-02-30", "column t has type timestamp/ms: it takes times, and this is not a time like 2024-02-29T12:00:00.5Z"},
		{"y = '2024-02-29 12:00'", "'2024", "column y has type date: it takes a date, such as 2024-02-29"},
		{"o = 2", "2", "column o has type bool: it takes true or false"},
		{"o = 1", "1", "column o has type bool: it takes true or false"},
		{"o in (true, 0)", "0", "column o has type bool: it takes true or false"},
		{"o = 'yes'", "'yes'", "column o has type bool: it takes true or false"},
		{"o = x'01'", "x'01'", "column o has type bool: it takes true or false"},
		{"ip = '2001:db8::1'", "'2001", "column ip has type ipv4: it takes an IPv4 address in quotation marks, such as '192.0.2.1'"},
		{"id < 'x9'", "id", "column id has type uuid: its values have no order; compare them with =, != or in"},
		{"id = 'x9'", "'x9'", "column id has type uuid: it takes a UUID in quotation marks, such as '6ba7b810-9dad-11d1-80b4-00c04fd430c8'"},
		{"i is nan", "i is", "column i has type int8, which has no NaN: only float32 and float64 have it"},
		{"withn = 1", "withn", "no column withn: there is n, i, within, u, d, f, g, s, b, long, after, bin, t, y, o, ip, id; did you mean within?"},
		{"a = 1", "a", "no column a: there is n, i, within, u, d, f, g, s, b, long, after, bin, t, y, o, ip, id"},
		{"aq = 1", "aq", "no column aq: there is n, i, within, u, d, f, g, s, b, long, after, bin, t, y, o, ip, id"},
		{"IP = 1", "IP", "no column IP: there is n, i, within, u, d, f, g, s, b, long, after, bin, t, y, o, ip, id; did you mean ip?"},
		{"temperature = 1", "temp", "no column temperature: there is n, i, within, u, d, f, g, s, b, long, after, bin, t, y, o, ip, id"},
	} {
		_, err := condition.Parse(tab.Schema(), c.text, tab.format)
		require.Error(t, err, c.text)
		lines := strings.Split(err.Error(), "\n")
		require.Equal(t, []string{c.message, "  " + c.text, "  " + strings.Repeat(" ", strings.Index(c.text, c.at)) + "^"}, lines)
	}
	_, err := condition.Parse(tab.Schema(), "t = '2024-10-27 02:30'", inZone(t, "Europe/Berlin"))
	require.ErrorContains(t, err, "a time that clocks of --zone show twice")
	_, err = condition.Parse(tab.Schema(), "t > 2024-03-31T02:30", inZone(t, "Europe/Berlin"))
	require.ErrorContains(t, err, "a time that clocks of --zone skip")
}
