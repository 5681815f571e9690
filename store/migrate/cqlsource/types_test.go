package cqlsource

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A sample is a value as gocql binds it, as a source returns it, and as the server's JSON has it: nil where that has no such value.
type sample struct{ bound, found, json any }

func number(v any) json.Number { return json.Number(fmt.Sprint(v)) }

// samples returns values of a type: extreme ones first, and some by chance.
func samples(cql string, r *rand.Rand) (all []sample) {
	ints := func(bits int) {
		lowest := int64(-1) << (bits - 1)
		for _, n := range []int64{lowest, lowest + 1, -1, 0, 1, -(lowest + 1), r.Int64() >> (64 - bits), -(r.Int64() >> (64 - bits))} {
			all = append(all, sample{n, kinds[cql].parse(fmt.Sprint(n), tokenNumber), number(n)})
		}
	}
	switch cql {
	case "tinyint":
		ints(8)
	case "smallint":
		ints(16)
	case "int":
		ints(32)
	case "bigint", "varint":
		ints(64)
	case "text", "ascii":
		for _, s := range []string{"", "a", "it's \"quoted\"", "\x00\x7f", strings.Repeat("long ", 1000), fmt.Sprint(r.Uint64())} {
			all = append(all, sample{s, s, s})
		}
		if cql == "text" {
			all = append(all, sample{"größer \U0001F600", "größer \U0001F600", "größer \U0001F600"})
		}
	case "blob":
		for _, b := range [][]byte{{}, {0}, {0xff, 0}, []byte(fmt.Sprint(r.Uint64()))} {
			all = append(all, sample{b, b, "0x" + hex.EncodeToString(b)})
		}
	case "boolean":
		all = []sample{{true, true, true}, {false, false, false}}
	case "float":
		for _, f := range []float32{0, float32(math.Copysign(0, -1)), 1.5, -math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffc12345)} {
			all = append(all, sample{f, f, nil})
		}
	case "double":
		for _, f := range []float64{0, math.Copysign(0, -1), 1.5, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(0xfff8000000012345), r.NormFloat64()} {
			all = append(all, sample{f, f, nil})
		}
	case "timestamp":
		for _, ms := range []int64{math.MinInt64, math.MaxInt64, -1, 0, 1, r.Int64()} {
			all = append(all, sample{ms, time.UnixMilli(ms).UTC(), nil})
		}
		at := time.Date(2024, 2, 29, 23, 59, 59, 999e6, time.UTC)
		all = append(all, sample{at, at, "2024-02-29 23:59:59.999Z"}, sample{time.Time{}, time.Time{}, nil})
	case "date":
		for text, d := range map[string]encode.CivilDate{"1970-01-01": {Year: 1970, Month: 1, Day: 1}, "1969-12-31": {Year: 1969, Month: 12, Day: 31}, "2024-02-29": {Year: 2024, Month: 2, Day: 29}, "0004-02-29": {Year: 4, Month: 2, Day: 29}} {
			all = append(all, sample{text, d, text})
		}
		lowest, _ := encode.Date().Decode(math.MinInt32)
		highest, _ := encode.Date().Decode(math.MaxInt32)
		all = append(all, sample{raw{[]byte{0, 0, 0, 0}}, lowest, nil}, sample{raw{[]byte{0xff, 0xff, 0xff, 0xff}}, highest, nil})
	case "time":
		for text, n := range map[string]int64{"00:00:00.000000000": 0, "23:59:59.999999999": 86400e9 - 1} {
			all = append(all, sample{time.Duration(n), n, text})
		}
	case "uuid", "timeuuid":
		for range 3 {
			id := gocql.TimeUUID()
			all = append(all, sample{id, [16]byte(id), id.String()})
		}
	case "inet":
		v4, v6 := net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")
		all = []sample{{v4, []byte(v4.To4()), "192.0.2.1"}, {v6, []byte(v6), nil}}
	case "decimal":
		for _, text := range []string{"0", "-0.01", "1.50", "123456789012345678901234567890.5", "-128", "255", "-32768.000"} {
			d, _ := new(inf.Dec).SetString(text)
			all = append(all, sample{*d, encode.Decimal{Unscaled: d.UnscaledBig(), Scale: int32(d.Scale())}, number(text)})
		}
	}
	return all
}

// equal reports whether two values are one, to the bit.
func equal(a, b any) bool {
	switch a := a.(type) {
	case float32:
		b, ok := b.(float32)
		return ok && math.Float32bits(a) == math.Float32bits(b)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.Equal(b)
	case encode.Decimal:
		b, ok := b.(encode.Decimal)
		return ok && a.Scale == b.Scale && a.Unscaled.Cmp(b.Unscaled) == 0
	}
	return reflect.DeepEqual(a, b)
}

// cqlTypes are those that are mapped.
func cqlTypes() (names []string) {
	for _, name := range sortedKeys(kinds) {
		if name != "varchar" { // which the schema calls text
			names = append(names, name)
		}
	}
	return names
}

// collect returns all rows of a scan in so many parts, each of which must be there once.
func collect(tb testing.TB, s *Source, parts int) (all []migrate.Found) {
	tb.Helper()
	seen := make(map[string]bool)
	for i := range parts {
		for f, err := range s.Scan(tb.Context(), inspect.Part{Index: i, Of: parts}) {
			require.NoError(tb, err)
			key := ""
			for _, c := range s.layout.Load().key {
				key += fmt.Sprintf("%v\x00", f.Row[c.name])
			}
			require.False(tb, seen[key] && f.Refused == "", "a row came twice")
			seen[key] = true
			all = append(all, f)
		}
	}
	return all
}

// Values of all types, nulls among them, come as they were written; what the server says of them as JSON is the same.
func TestAllTypes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var columns []string
	for _, name := range cqlTypes() {
		columns = append(columns, fmt.Sprintf("%q %s", "of "+name, name))
	}
	s, session := source(t, "CREATE TABLE every (id int PRIMARY KEY, "+strings.Join(columns, ", ")+")", "every")
	d, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.Empty(t, d.Unmapped)
	want := make(map[int32]map[string]sample)
	id := int32(0)
	for _, name := range cqlTypes() {
		for _, v := range samples(name, r) {
			do(t, session, fmt.Sprintf("INSERT INTO every (id, %q) VALUES (?, ?)", "of "+name), id, v.bound)
			want[id] = map[string]sample{"of " + name: v}
			id++
		}
	}
	for range 100 { // and several in a row
		want[id] = make(map[string]sample)
		names, values := []string{"id"}, []any{id}
		for _, name := range cqlTypes() {
			if all := samples(name, r); r.IntN(3) > 0 {
				v := all[r.IntN(len(all))]
				want[id]["of "+name] = v
				names, values = append(names, fmt.Sprintf("%q", "of "+name)), append(values, v.bound)
			}
		}
		do(t, session, "INSERT INTO every ("+strings.Join(names, ", ")+") VALUES (?"+strings.Repeat(", ?", len(names)-1)+")", values...)
		id++
	}
	check := func(f migrate.Found) {
		require.Empty(t, f.Refused)
		require.True(t, f.Exists)
		row := want[f.Row["id"].(int32)]
		require.Len(t, f.Row, 1+len(row))
		for name, v := range row {
			require.True(t, equal(v.found, f.Row[name]), "column %s has %v, and not %v", name, f.Row[name], v.found)
		}
	}
	all := collect(t, s, 3)
	require.Len(t, all, len(want))
	var keys []store.Row
	for _, f := range all {
		check(f)
		keys = append(keys, store.Row{"id": f.Row["id"]})
	}
	again, err := s.Read(t.Context(), append(keys, store.Row{"id": int32(-1)}))
	require.NoError(t, err)
	require.Equal(t, migrate.Found{Row: store.Row{"id": int32(-1)}}, again[len(keys)], "a row that is not there")
	for i, f := range again[:len(keys)] {
		require.Equal(t, keys[i]["id"], f.Row["id"])
		check(f)
	}
	kept := inEncrypted(t, s, all)
	require.Greater(t, kept, len(all)/2)
	rows := session.Query("SELECT JSON * FROM every").IterContext(t.Context())
	compared := 0
	for text := ""; rows.Scan(&text); {
		var got map[string]any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&got))
		n, err := got["id"].(json.Number).Int64()
		require.NoError(t, err)
		for name, v := range got {
			name = strings.Trim(name, `"`)
			if w, ok := want[int32(n)][name]; ok && w.json != nil {
				require.Equal(t, w.json, v, name)
				compared++
			} else if !ok && name != "id" {
				require.Nil(t, v)
			}
		}
	}
	require.NoError(t, rows.Close())
	require.Greater(t, compared, 300)
}

// inEncrypted puts rows into the table that is proposed, and looks whether they come back as they are. It returns how many there were.
func inEncrypted(t *testing.T, s *Source, all []migrate.Found) (kept int) {
	schema, _, err := s.Propose(t.Context(), "every")
	require.NoError(t, err)
	st, err := store.Open(t.Context(), testdb.All[0].Open(t, nil), kms.NewLocal(ope.GenerateKey()), nil) // in memory
	require.NoError(t, err)
	tbl, err := st.Create(t.Context(), schema)
	require.NoError(t, err)
	for _, f := range all {
		if err := tbl.Put(t.Context(), f.Row); err != nil {
			require.ErrorIs(t, err, ope.ErrDomain)
			require.NotNil(t, f.Row["of decimal"], "only a decimal is too long")
			continue
		}
		row, err := tbl.Get(t.Context(), store.Row{"id": f.Row["id"]})
		require.NoError(t, err)
		require.Len(t, row, len(f.Row))
		for name, v := range f.Row {
			if d, ok := v.(encode.Decimal); ok {
				back := row[name].(encode.Decimal)
				require.Equal(t, new(inf.Dec).SetUnscaledBig(d.Unscaled).SetScale(inf.Scale(d.Scale)).Cmp(new(inf.Dec).SetUnscaledBig(back.Unscaled).SetScale(inf.Scale(back.Scale))), 0)
				continue
			}
			require.True(t, equal(v, row[name]), "column %s has %v, and not %v", name, row[name], v)
		}
		kept++
	}
	return kept
}

// selectByPlaces finds each row of a table by its place, which is of no other row. It returns how many there are.
func selectByPlaces(t *testing.T, s *Source, session *gocql.Session) (n int) {
	l, err := s.usable(t.Context())
	require.NoError(t, err)
	places := make(map[string]bool)
	rows := session.Query(l.selected()).Iter()
	for {
		values := make([]raw, l.width())
		if !rows.Scan(pointers(values)...) {
			break
		}
		place := l.place(values)
		require.False(t, places[place], place)
		places[place] = true
		one := session.Query(l.selected() + " WHERE " + place).Iter()
		got := make([]raw, l.width())
		require.True(t, one.Scan(pointers(got)...), place)
		for i := range l.key {
			require.Equal(t, values[i].data, got[i].data, place)
		}
		require.False(t, one.Scan(pointers(got)...), place)
		require.NoError(t, one.Close(), place)
		n++
	}
	require.NoError(t, rows.Close())
	return n
}

// Each type can be in the key: what a scan finds is read again by it. What no encrypted table can tell apart is refused.
func TestTypesOfKeys(t *testing.T) {
	t.Parallel()
	session, keyspace := application(t)
	r := rand.New(rand.NewPCG(1, 2))
	names := cqlTypes()
	if !sim.Long() { // each table takes the server half a second
		names = []string{"decimal", "double", "text", "timestamp", names[rand.IntN(len(names))]}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		for _, key := range []string{"((k), p)", "((p), k)"} {
			table := "t" + name + fmt.Sprint(strings.Index(key, "k"))
			do(t, session, fmt.Sprintf("CREATE TABLE %s (p int, k %s, v text, PRIMARY KEY %s)", table, name, key))
			s, err := New(t.Context(), session, keyspace, table, Options{})
			require.NoError(t, err)
			d, err := s.Describe(t.Context())
			require.NoError(t, err)
			if name == "decimal" && key == "((k), p)" {
				require.Len(t, d.Unmapped, 1)
				require.Contains(t, d.Unmapped[0], "1.0 and 1.00 are two keys")
				_, err := s.Read(t.Context(), nil)
				require.ErrorIs(t, err, store.ErrSchema)
				continue
			}
			schema, _, err := s.Propose(t.Context(), table)
			require.NoError(t, err)
			require.NoError(t, schema.Check(), table)
			kept := 0
			for _, v := range samples(name, r) {
				if err := session.Query("INSERT INTO "+table+" (p, k, v) VALUES (7, ?, 'x')", v.bound).Exec(); err == nil {
					kept++
				} else {
					require.Contains(t, err.Error(), "empty", "%s %v", name, v.bound) // of a partition
				}
			}
			var keys []store.Row
			refused := 0
			for _, f := range collect(t, s, 2) {
				if f.Refused != "" {
					require.Regexp(t, "^column k (is in the key, and (the negative zero|NaN|stored in other bytes)|is empty)", f.Refused)
					var v string
					require.NoError(t, session.Query("SELECT v FROM "+table+" WHERE "+f.Place).Scan(&v), f.Place)
					refused++
					continue
				}
				delete(f.Row, "v")
				keys = append(keys, f.Row)
			}
			switch {
			case name == "double", name == "float":
				nans := map[bool]int{true: 2, false: 1}[key == "((k), p)"] // among clustering columns two NaN are equal
				require.Equal(t, 1+nans, refused, "the negative zero, and NaN")
			case name == "timestamp" && key == "((p), k)":
				require.Equal(t, 1, refused, "the empty one")
			default:
				require.Zero(t, refused, table)
			}
			found := selectByPlaces(t, s, session)
			require.Equal(t, len(keys)+refused, found, table)
			again, err := s.Read(t.Context(), keys)
			require.NoError(t, err)
			for i, f := range again {
				require.Equal(t, "x", f.Row["v"], "%s %v", table, keys[i])
				require.True(t, equal(keys[i]["k"], f.Row["k"]))
			}
			require.LessOrEqual(t, len(keys)+refused, kept)
			require.NotEmpty(t, keys)
		}
	}
}

// What has no place in an encrypted table is said at once, each with a reason and a way out.
func TestUnmapped(t *testing.T) {
	t.Parallel()
	session, keyspace := application(t)
	do(t, session, "CREATE TYPE place (street text, town text)")
	do(t, session, `CREATE TABLE odd (k int, c int, n text, one text STATIC, span duration, tags set<text>, parts frozen<list<int>>, m map<text, text>,
		pair tuple<int, int>, near vector<float, 3>, home place, "Was" frozen<place>, PRIMARY KEY (k, c))`)
	do(t, session, "CREATE TABLE counts (k int PRIMARY KEY, n counter)")
	s, err := New(t.Context(), session, keyspace, "odd", Options{})
	require.NoError(t, err)
	d, err := s.Describe(t.Context())
	require.NoError(t, err)
	require.Len(t, d.Unmapped, 9)
	for _, part := range []string{
		"The column one (text) is static", "The column span (duration) is a duration", "The column tags (set<text>) is a collection", "The column parts (frozen<list<int>>) is a collection",
		"The column m (map<text, text>) is a collection", "The column pair (frozen<tuple<int, int>>) is a tuple", "The column near (vector<float, 3>) is a vector", "The column home (place) is of a type of your own",
		"The column Was (frozen<place>) is of a type of your own",
	} {
		require.True(t, slices.ContainsFunc(d.Unmapped, func(u string) bool { return strings.HasPrefix(u, part) && strings.Contains(u, ": ") }), "%s: %v", part, d.Unmapped)
	}
	for _, err := range s.Scan(t.Context(), inspect.Part{Of: 1}) {
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "The column tags")
	}
	_, _, err = s.Propose(t.Context(), "odd")
	require.ErrorIs(t, err, store.ErrSchema)
	s, err = New(t.Context(), session, keyspace, "counts", Options{})
	require.NoError(t, err)
	d, err = s.Describe(t.Context())
	require.NoError(t, err)
	require.Len(t, d.Unmapped, 1)
	require.Contains(t, d.Unmapped[0], "The column n (counter) is a counter")
}

// The bytes of numbers are the fewest, as the server has them.
func TestTwosComplement(t *testing.T) {
	for n := int64(-70000); n <= 70000; n++ {
		b := appendTwosComplement(nil, big.NewInt(n))
		require.Equal(t, n, twosComplement(b).Int64())
		require.False(t, len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80), "%x", b)
	}
}

// All columns whose names an encrypted table does not take are listed, as the others that it does not take.
func TestNamesOfColumns(t *testing.T) {
	t.Parallel()
	var l layout
	const rename = "rename it if it is in the key, or add one with another name, and drop this one."
	for _, name := range []string{"note", "a b", "x\ny", " lead", "trail ", strings.Repeat("n", 101), strings.Repeat("n", 100)} {
		l.checkColumn(&column{name: name, cql: "int"}, "regular")
	}
	require.Equal(t, []string{
		`The column "x\ny" (int) has a name with a control character, or with a space at an end: ` + rename,
		`The column " lead" (int) has a name with a control character, or with a space at an end: ` + rename,
		`The column "trail " (int) has a name with a control character, or with a space at an end: ` + rename,
		"The column " + strings.Repeat("n", 101) + " (int) has a name of more than 100 bytes: " + rename,
	}, l.unmapped)
}
