package store_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestSchemaMistakes(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	key := []store.KeyPart{store.HashedPart("key", store.String)}
	column := func(c ...store.Column) store.Schema { return store.Schema{Name: "t", Key: key, Columns: c} }
	parts := func(p ...store.KeyPart) store.Schema { return store.Schema{Name: "t", Key: p} }
	many := make([]store.Column, 1001)
	for i := range many {
		many[i] = store.RandomisedColumn(fmt.Sprint(i), store.Bool)
	}
	for _, c := range []struct {
		schema store.Schema
		names  string // what the error has to name
	}{
		{store.Schema{Key: key}, "table name"},
		{store.Schema{Name: strings.Repeat("x", 101), Key: key}, "101"},
		{store.Schema{Name: "a\xff", Key: key}, `"a\xff"`},
		{store.Schema{Name: "a\nb", Key: key}, `"a\nb"`},
		{store.Schema{Name: "t"}, `"t"`},
		{store.Schema{Name: "t", Key: key, SpreadBits: 13}, "a spread of 13 bits"},
		{store.Schema{Name: "t", Key: key, SpreadBits: -2}, "a spread of -2 bits"},
		{column(store.RandomisedColumn("key", store.Bool)), `"key"`},
		{column(store.RandomisedColumn("a", store.Bool), store.PlainColumn("a", store.Bool)), `"a"`},
		{column(store.RandomisedColumn("", store.Bool)), "a column name is empty"},
		{column(store.RandomisedColumn("a\xff", store.Bool)), `"a\xff"`},
		{column(store.RandomisedColumn("untyped", nil)), `"untyped"`},
		{column(store.Column{}), `column name`},
		{column(store.OrderedColumn("uuid", store.UUID, store.Boldyreva)), `"uuid"`},
		{column(store.OrderedColumn("no scheme", store.Int8, store.KeyScheme{})), `"no scheme"`},
		{column(store.RandomisedColumn("when", store.Time(time.Minute))), `"when"`},
		{column(store.OrderedColumn("hour", store.Time(time.Hour), store.MOPE)), `column "hour": the unit of Time must be`},
		{column(store.OrderedColumn("text", store.String, compare.KerschbaumPublished)), "takes no domain of 64 bits"},
		{column(store.RandomisedColumn("vast", store.Decimal(1_000_000_000))), "1000000000"},
		{column(store.OrderedColumn("narrow", store.Int8.Within(5, 4), store.MOPE)), `"narrow"`},
		{column(store.OrderedColumn("text", store.String.Within("a", "b"), store.MOPE)), `"text"`},
		{column(many...), "1001"},
		{parts(store.TiePart("id")), `"id"`},
		{parts(store.HashedPart("a", store.Bool), store.TiePart("tie"), store.HashedPart("b", store.Bool)), `"tie"`},
		{parts(store.TiePart("tie"), store.HashedPart("b", store.Bool)), `tie-breaker "tie" must be the last part of the row key: move it to the end, after part "b"`},
		{parts(store.HashedPart("b", store.Bool), store.TiePart("c"), store.TiePart("d")), `"c" and "d" are both tie-breakers: a row key has one, as its last part`},
		{parts(store.PlainPart("text", store.String)), `"text"`},
		{parts(store.OrderedPart("uuid", store.UUID, store.MOPE)), `"uuid"`},
		{parts(store.KeyPart{}), "column name"},
		{parts(store.HashedPart("a", store.Bool), store.OrderedPart("a", store.Int8, store.MOPE)), `"a"`},
	} {
		_, err := st.Create(background, c.schema)
		require.ErrorIs(t, err, store.ErrSchema, c.names)
		require.ErrorContains(t, err, c.names)
		require.False(t, store.Retryable(err))
	}
	schemas, err := st.Tables(background)
	require.NoError(t, err)
	require.Empty(t, schemas)
}

// A schema comes back from the catalogue as it was given.
func TestSchemaIsKept(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	var want []string
	for i, m := range models() {
		m.schema.SpreadBits = i - 1
		tbl := create(t, st, m.schema)
		want = append(want, describe(tbl.Schema()))
		require.Equal(t, describe(m.schema), describe(tbl.Schema()), "but for the default")
	}
	other := open(t, memory)
	schemas, err := other.Tables(background)
	require.NoError(t, err)
	var got []string
	names := make([]string, len(schemas))
	for i, s := range schemas {
		names[i] = s.Name
		got = append(got, describe(s))
		tbl, err := other.Table(background, s.Name)
		require.NoError(t, err)
		require.Equal(t, describe(s), describe(tbl.Schema()))
	}
	require.ElementsMatch(t, want, got)
	require.True(t, slices.IsSorted(names))
	_, err = st.Create(background, store.Schema{Name: names[0], Key: readings.Key})
	require.ErrorIs(t, err, store.ErrExists)
}

func describe(s store.Schema) string {
	text := s.Name
	for _, p := range s.Key {
		text += "; " + p.Describe().String()
	}
	for _, c := range s.Columns {
		text += "; " + c.Describe().String()
	}
	return text
}

func TestTimesThatFit(t *testing.T) {
	for unit, ends := range map[time.Duration][2]time.Time{
		time.Nanosecond:  {time.Date(1677, 9, 22, 0, 0, 0, 0, time.UTC), time.Date(2262, 4, 11, 0, 0, 0, 0, time.UTC)},
		time.Microsecond: {time.Date(-290_307, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(294_246, 12, 31, 0, 0, 0, 0, time.UTC)},
		time.Millisecond: {time.Date(-290_000_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(290_000_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		time.Second:      {time.Date(-290_000_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(290_000_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("at", store.Time(unit))}})
		for _, at := range ends {
			require.NoError(t, tbl.Put(background, store.Row{"at": at}), "%v %v", unit, at)
		}
		zero := tbl.Put(background, store.Row{"at": time.Time{}})
		if unit > time.Nanosecond {
			require.NoError(t, zero)
		} else {
			require.ErrorIs(t, zero, ope.ErrDomain)
		}
		if unit < time.Millisecond {
			require.ErrorIs(t, tbl.Put(background, store.Row{"at": ends[0].AddDate(-2, 0, 0)}), ope.ErrDomain)
			require.ErrorIs(t, tbl.Put(background, store.Row{"at": ends[1].AddDate(2, 0, 0)}), ope.ErrDomain)
		}
	}
}

func TestMisuse(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "t",
		Key:  []store.KeyPart{store.HashedPart("id", store.Int64), store.OrderedPart("day", store.Date, store.MOPE)},
		Columns: []store.Column{
			store.OrderedColumn("level", store.Int8, store.MOPE),
			store.OrderedColumn("ratio", store.Float64, store.Boldyreva),
			store.OrderedColumn("hour", store.Time(time.Second), store.Boldyreva),
			store.OrderedColumn("small", store.Int64.Within(0, 9), store.Boldyreva),
			store.DeterministicColumn("uuid", store.UUID),
			store.RandomisedColumn("text", store.String),
			store.OrderedColumn("address", store.IPv6, store.MOPE),
			store.OrderedColumn("price", store.Decimal(2), store.MOPE),
		},
	})
	good := store.Row{"id": int64(1), "day": date(2026, 1, 1)}
	require.NoError(t, tbl.Put(background, good))
	for _, c := range []struct {
		column string
		value  any
		is     error
	}{
		{"unknown", 1, store.ErrColumn},
		{"id", nil, store.ErrColumn},
		{"id", "1", store.ErrColumn},
		{"id", int32(1), store.ErrColumn},
		{"day", nil, store.ErrColumn},
		{"day", date(2026, 2, 30), encode.ErrInvalid},
		{"level", int64(1), store.ErrColumn},
		{"level", 200, ope.ErrDomain}, // an int that is no int8
		{"level", 300, ope.ErrDomain},
		{"level", "high", store.ErrColumn},
		{"ratio", math.NaN(), encode.ErrInvalid},
		{"ratio", float32(1), store.ErrColumn},
		{"hour", time.Unix(1, 1), encode.ErrInexact},
		{"hour", "now", store.ErrColumn},
		{"small", 10, ope.ErrDomain},
		{"small", -1, ope.ErrDomain},
		{"uuid", "1234", store.ErrColumn},
		{"text", "\xff", ope.ErrDomain},
		{"address", addr("10.0.0.1"), ope.ErrDomain},
		{"hour", time.Unix(1, 1), ope.ErrDomain},
		{"price", decimal("0.001"), encode.ErrInexact},
		{"price", decimal("1e9"[:1] + strings.Repeat("0", 30)), ope.ErrDomain},
	} {
		row := maps.Clone(good)
		row[c.column] = c.value
		err := tbl.Put(background, good, row)
		require.Error(t, err, c.column)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.column)
		}
		require.ErrorContains(t, err, fmt.Sprintf("%q", c.column))
		require.NotContains(t, err.Error(), "(codec ", "which says nothing to who wrote the value")
		var at *store.RowError
		require.ErrorAs(t, err, &at)
		require.Equal(t, 1, at.Index)
		require.False(t, store.Retryable(err))
	}
	// Null is absent, also in an ordered column, and never satisfies a predicate.
	require.NoError(t, tbl.Put(background, store.Row{"id": 2, "day": date(2026, 1, 1), "level": nil}))
	require.Empty(t, collect(t, tbl, store.Query{Where: store.Field[int8]("level").AtLeast(math.MinInt8)}))
	require.Len(t, collect(t, tbl, store.Query{}), 2)

	for _, c := range []struct {
		where store.Predicate
		is    error
		names string
	}{
		{store.Field[int64]("unknown").Equal(1), store.ErrColumn, `"unknown"`},
		{store.Field[int64]("level").Equal(1), store.ErrColumn, `"level"`},
		{store.Field[int]("level").Equal(1), store.ErrColumn, `"level": store: invalid use of a column: its values have Go type int8, the Field has int`},
		{store.Field[int]("level").AtLeast(1), store.ErrColumn, `"level"`},
		{store.Field[int]("level").In(), store.ErrColumn, `"level"`},
		{store.Field[uint]("id").Equal(1), store.ErrColumn, `"id"`},
		{store.Field[any]("level").Equal("1"), store.ErrColumn, `"level"`},
		{store.Field[any]("level").Equal(300), ope.ErrDomain, `"level"`},
		{store.Field[string]("ratio").Less("1"), store.ErrColumn, `"ratio"`},
		{store.Field[[16]byte]("uuid").AtLeast([16]byte{}), store.ErrColumn, `"uuid"`},
		{store.Field[float64]("ratio").AtMost(math.NaN()), encode.ErrInvalid, `"ratio"`},
		{store.Field[float64]("ratio").In(1, math.NaN()), encode.ErrInvalid, `"ratio"`},
		{store.Field[encode.CivilDate]("day").Equal(date(2026, 13, 1)), encode.ErrInvalid, `"day"`},
	} {
		_, err := tbl.Analyze(background, store.Query{Where: c.where})
		require.ErrorIs(t, err, c.is, c.names)
		require.ErrorContains(t, err, c.names)
		for _, err := range tbl.Query(background, store.Query{Where: c.where}) {
			require.ErrorIs(t, err, c.is)
		}
		_, _, err = tbl.Page(background, store.Query{Where: c.where, Limit: 1})
		require.ErrorIs(t, err, c.is)
	}
	for _, q := range []store.Query{{Limit: -1}, {Reverse: true}} {
		_, err := tbl.Analyze(background, q)
		require.ErrorIs(t, err, driver.ErrRange)
	}
	_, err := tbl.Analyze(background, store.Query{Columns: []string{"level", "nothing"}})
	require.ErrorIs(t, err, store.ErrColumn)
	require.ErrorContains(t, err, `"nothing"`)
	_, err = tbl.Get(background, good, "nothing")
	require.ErrorIs(t, err, store.ErrColumn)
	_, err = tbl.Get(background, store.Row{"id": 1})
	require.ErrorIs(t, err, store.ErrColumn)
	require.ErrorContains(t, err, `"day"`)
	require.ErrorIs(t, tbl.Delete(background, store.Row{"id": 1}), store.ErrColumn)
	_, _, err = tbl.Page(background, store.Query{})
	require.ErrorIs(t, err, driver.ErrRange, "a page without a limit")
	require.ErrorIs(t, tbl.Put(background, good, good), driver.ErrOverlap)
	require.ErrorIs(t, tbl.Put(background, store.Row{"id": 1, "day": date(2026, 1, 1), "text": strings.Repeat("x", driver.MaxValue)}), driver.ErrTooLarge)
	require.NoError(t, tbl.Put(background))
	require.NoError(t, tbl.Delete(background))
}

// A comparison of numbers that would fill the memory when written out.
func TestHugeDecimals(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("price", store.Decimal(2), store.Boldyreva), store.RandomisedColumn("cost", store.Decimal(0))},
	})
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "price": decimal("1"), "cost": decimal("-1")}, store.Row{"id": 2, "price": decimal("0"), "cost": decimal("0")}))
	huge, tiny := decimal("3"), decimal("3")
	huge.Scale, tiny.Scale = math.MinInt32, math.MaxInt32
	for _, column := range []store.Field[encode.Decimal]{"price", "cost"} {
		require.Len(t, collect(t, tbl, store.Query{Where: column.AtMost(huge)}), 2)
		require.Empty(t, collect(t, tbl, store.Query{Where: column.AtLeast(huge)}))
	}
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[encode.Decimal]("price").Greater(tiny)}), 1)
	require.Empty(t, collect(t, tbl, store.Query{Where: store.Field[encode.Decimal]("cost").Greater(tiny)}))
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[encode.Decimal]("cost").Less(tiny)}), 2)
}

func TestPageTokens(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	tbl := create(t, st, accounts)
	other := accounts
	other.Name = "others"
	second := create(t, st, other)
	for i := range int64(20) {
		for _, tbl := range []*store.Table{tbl, second} {
			require.NoError(t, tbl.Put(background, store.Row{"id": i, "balance": i / 2, "owner": "o"}))
		}
	}
	q := store.Query{Where: balance.Between(1, 8), Limit: 3}
	_, token, err := tbl.Page(background, q)
	require.NoError(t, err)
	require.NotEmpty(t, token)
	q.PageToken = token
	page, _, err := tbl.Page(background, q)
	require.NoError(t, err)
	require.Len(t, page, 3)
	// The same query said in other words, and with another limit or other columns, may go on.
	for _, same := range []store.Query{
		{Where: store.And(balance.AtLeast(1), balance.AtMost(8)), Limit: 3, PageToken: token},
		{Where: balance.Between(1, 8), Limit: 7, Columns: []string{"owner"}, PageToken: token},
	} {
		got, _, err := tbl.Page(background, same)
		if err == nil {
			require.Equal(t, page[0]["id"], got[0]["id"])
		} else {
			require.ErrorIs(t, err, store.ErrToken)
		}
	}
	// Another client, too.
	later, err := open(t, memory).Table(background, accounts.Name)
	require.NoError(t, err)
	got, _, err := later.Page(background, q)
	require.NoError(t, err)
	require.Equal(t, page, got)
	for name, wrong := range map[string]store.Query{
		"other bounds":     {Where: balance.Between(1, 9), Limit: 3},
		"other column":     {Where: owner.Equal("o"), Limit: 3},
		"more conditions":  {Where: store.And(balance.Between(1, 8), owner.Equal("o")), Limit: 3},
		"no conditions":    {Limit: 3},
		"another order":    {Where: balance.Between(1, 8), Limit: 3, Reverse: true},
		"other list":       {Where: balance.In(1, 8), Limit: 3},
		"no such interval": {Where: balance.Between(8, 1), Limit: 3},
	} {
		wrong.PageToken = token
		_, _, err := tbl.Page(background, wrong)
		require.ErrorIs(t, err, store.ErrToken, name)
		require.False(t, store.Retryable(err))
	}
	_, _, err = second.Page(background, q)
	require.ErrorIs(t, err, store.ErrToken, "another table")
	for i := range token {
		for _, damaged := range []string{
			token[:i] + "_" + token[i+1:], token[:i], token[:i] + "%" + token[i+1:],
			token[:i] + "\n" + token[i:], token[:i] + "\r\n" + token[i:], token + strings.Repeat("\n", i+1), token + "=",
		} {
			if damaged == token || damaged == "" {
				continue
			}
			q.PageToken = damaged
			_, _, err := tbl.Page(background, q)
			require.ErrorIs(t, err, store.ErrToken, "%d", i)
		}
	}
}

// A context that ends stops every call, with its cause.
func TestContext(t *testing.T) {
	tbl := create(t, open(t, newWeak(1)), accounts)
	var rows []store.Row
	for i := range int64(1000) {
		rows = append(rows, store.Row{"id": i, "balance": i})
	}
	require.NoError(t, tbl.Put(background, rows...))
	cause := fmt.Errorf("the cause")
	for _, where := range []store.Predicate{{}, balance.AtLeast(0)} {
		ctx, cancel := context.WithCancelCause(background)
		defer cancel(nil)
		n := 0
		var last error
		for _, err := range tbl.Query(ctx, store.Query{Where: where}) {
			if n++; n == 5 {
				cancel(cause)
			}
			last = err
		}
		require.ErrorIs(t, last, context.Canceled)
		require.Less(t, n, 900)
		require.Error(t, tbl.Put(ctx, rows[0]))
		_, err := tbl.Get(ctx, rows[0])
		require.ErrorIs(t, err, context.Canceled)
	}
	// A caller that stops reads no further.
	n := 0
	for _, err := range tbl.Query(background, store.Query{Where: balance.AtLeast(0)}) {
		require.NoError(t, err)
		if n++; n == 3 {
			break
		}
	}
	require.Equal(t, 3, n)
}

// What the types are to refuse does not compile; what they are to allow does.
func TestMustNotCompile(t *testing.T) {
	const head = `package p
import "github.com/rangecrypt/rangecrypt/store"
`
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	out, err := list.Output()
	require.NoError(t, err)
	exported := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exported[path] = file
	}
	files := token.NewFileSet()
	shared := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) })
	check := func(source string) error {
		f, err := parser.ParseFile(files, "p.go", head+source, 0)
		require.NoError(t, err)
		_, err = (&types.Config{Importer: shared}).Check("p", files, []*ast.File{f}, nil)
		return err
	}
	require.NoError(t, check(`var _ = store.OrderedPart("x", store.Int64, store.MOPE)`))
	require.NoError(t, check(`var _ = store.OrderedPart("x", store.Int64, store.WozniakIndexed)`))
	require.NoError(t, check(`var _ = store.OrderedColumn("x", store.Int64, store.MOPE)`))
	require.NoError(t, check(`var _ = store.OrderedColumn("x", store.Int64, store.Kerschbaum)`))
	// A function that takes any scheme of a column, as one that moves ciphertexts is.
	const mutable = `func part(s store.ColumnScheme) any { return %s("x", store.Int64, s) }`
	require.NoError(t, check(fmt.Sprintf(mutable, "store.OrderedColumn")))
	for name, source := range map[string]string{
		"Kerschbaum in a key":        `var _ = store.OrderedPart("x", store.Int64, store.Kerschbaum)`,
		"any column scheme in a key": fmt.Sprintf(mutable, "store.OrderedPart"),
		"a scheme of one's own":      `type mine struct{}; func (mine) columnScheme() string { return "mine" }; var _ = store.OrderedColumn("x", store.Int64, mine{})`,
		"a type of one's own":        `type mine struct{}; var _ = store.RandomisedColumn("x", mine{})`,
		"a column in a key":          `var _ = store.Schema{Key: []store.KeyPart{store.PlainColumn("x", store.Int64)}}`,
		"a part among the columns":   `var _ = store.Schema{Columns: []store.Column{store.HashedPart("x", store.Int64)}}`,
		"a bound of another type":    `var _ = store.Field[int64]("x").Between("a", "b")`,
		"a scheme without its field": `var _ = store.KeyScheme{"boldyreva"}`,
	} {
		require.Error(t, check(source), name)
	}
}

// A field finds the values that it can read, and what it cannot read is not null.
func TestFieldOf(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name:    "t",
		Key:     []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i", store.Int8, store.MOPE), store.RandomisedColumn("note", store.String)},
	})
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "i": 7}))
	rows := collect(t, tbl, store.Query{Where: store.Field[int8]("i").Equal(7)})
	require.Len(t, rows, 1)

	v, err := store.Field[int8]("i").Of(rows[0])
	require.NoError(t, err)
	require.Equal(t, int8(7), v)
	_, err = store.Field[int]("i").Of(rows[0])
	require.ErrorIs(t, err, store.ErrColumn)
	require.NotErrorIs(t, err, store.ErrNull)
	require.EqualError(t, err, `column "i": store: invalid use of a column: its values have Go type int8, the Field has int: use int8`)
	for _, null := range []store.Row{rows[0], {"note": nil}} {
		_, err = store.Field[string]("note").Of(null)
		require.ErrorIs(t, err, store.ErrNull)
		require.NotErrorIs(t, err, store.ErrColumn)
	}
	anything, err := store.Field[any]("i").Of(rows[0])
	require.NoError(t, err)
	require.Equal(t, int8(7), anything)
	require.Len(t, collect(t, tbl, store.Query{Where: store.Field[any]("i").Equal(7)}), 1)
}
