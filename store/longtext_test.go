package store_test

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

var longTexts = flag.Int("long-texts", 5_000, "rows of TestPrefixReadsWhatItMatches")

// Ids with a common beginning are found by a prefix without reading what only begins alike.
func TestPrefixReadsWhatItMatches(t *testing.T) {
	rng := seeded(t)
	tbl := create(t, open(t, testdb.All[1].Open(t, nil)), store.Schema{ // the embedded one, which holds millions
		Name:    "pages",
		Key:     []store.KeyPart{store.HashedPart("n", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("url", store.String.OrderedBy(32), store.Boldyreva)},
	})
	const url = store.Field[string]("url")
	var all []string
	for rows := []store.Row(nil); len(all) < *longTexts; rows = rows[:0] {
		for range min(1000, *longTexts-len(all)) {
			text := fmt.Sprintf("https://%08x-%04x-%04x-%012x", rng.Uint32(), rng.Uint32N(1<<16), rng.Uint32N(1<<16), rng.Uint64N(1<<48))
			rows = append(rows, store.Row{"n": len(all), "url": text})
			all = append(all, text)
		}
		require.NoError(t, tbl.Put(background, rows...))
	}
	slices.Sort(all)
	read, matched := 0, 0
	for _, length := range []int{8, 9, 10, 11, 12, 13, 16, 17, 22, 24, 30, 32, 36} {
		times := 20
		if length == 8 {
			times = 1 // all rows begin so
		}
		for range times {
			prefix := all[rng.IntN(len(all))][:length]
			e, err := tbl.Analyze(background, store.Query{Where: store.HasPrefix(url, prefix)})
			require.NoError(t, err)
			require.Equal(t, "url", e.Driver)
			from, _ := slices.BinarySearch(all, prefix)
			to, _ := slices.BinarySearch(all, prefix+"\xff")
			n := to - from
			require.Equal(t, n, e.Rows, prefix)
			read, matched = read+e.Hits, matched+n
		}
	}
	t.Logf("read %d, matched %d", read, matched)
	require.LessOrEqual(t, float64(read), 1.1*float64(matched))
}

// What is ordered by more bytes answers as what is ordered by eight: on row keys and columns, at every edge.
func TestOrderedByMoreAnswersTheSame(t *testing.T) {
	rng := seeded(t)
	st := open(t, drivertest.NewMemory())
	texts := [][]byte{{}, {0}, {0, 0}, {0xff}, bytes.Repeat([]byte{0xff}, 33)}
	for range sim.Share(150, 60) {
		piece := func() []byte { return bytes.Repeat([]byte{"\x00a\x7f\xff"[rng.IntN(4)]}, 1+rng.IntN(12)) }
		texts = append(texts, slices.Concat(piece(), piece(), piece(), piece()))
	}
	var tables []*store.Table
	var rows []store.Row
	for i, x := range texts {
		rows = append(rows, store.Row{"k": x, "n": i, "v": texts[(7*i)%len(texts)]})
	}
	for i, typ := range []store.Type{store.Bytes, store.Bytes.OrderedBy(16), store.Bytes.OrderedBy(24), store.Bytes.OrderedBy(32)} {
		tbl := create(t, st, store.Schema{
			Name:    fmt.Sprint("by", i),
			Key:     []store.KeyPart{store.OrderedPart("k", typ, store.Boldyreva), store.PlainPart("n", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("v", typ, store.Boldyreva)},
		})
		require.NoError(t, tbl.Put(background, rows...))
		s, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.Empty(t, s.Faults)
		require.Zero(t, s.Dangling)
		tables = append(tables, tbl)
	}
	for range 120 {
		f := store.Field[[]byte]([]string{"k", "v"}[rng.IntN(2)])
		a, b := texts[rng.IntN(len(texts))], texts[rng.IntN(len(texts))]
		p := []store.Predicate{
			f.Between(a, b), f.AtLeast(a), f.Greater(a), f.AtMost(a), f.Less(a), f.In(a, b), store.Not(f.Between(a, b)), store.Not(f.In(a, b)),
			store.HasPrefix(f, a[:rng.IntN(len(a)+1)]), store.Or(f.Less(a), f.Greater(b)), store.And(f.Greater(a), f.Less(b)),
		}[rng.IntN(11)]
		q := store.Query{Where: p, Reverse: rng.IntN(2) == 1}
		want := answer(t, collect(t, tables[0], q), q, string(f))
		for _, tbl := range tables[1:] {
			require.Equal(t, want, answer(t, collect(t, tbl, q), q, string(f)))
			require.Equal(t, want, answer(t, byPages(t, tbl, q, 1+rng.IntN(7)), q, string(f)))
		}
	}
}

// So does what is ordered after beginnings, whatever the scheme.
func TestPrefixedAnswersTheSame(t *testing.T) {
	rng := seeded(t)
	st := open(t, drivertest.NewMemory())
	beginnings := []string{"https://", "http://", "https://www."}
	var texts []string
	for range 150 {
		b := append(beginnings, "", "h", "https")[rng.IntN(6)]
		texts = append(texts, b[:rng.IntN(len(b)+1)], b+strings.Repeat([]string{"\x00", "a", "é", "\x7f"}[rng.IntN(4)], rng.IntN(12))+fmt.Sprint(rng.IntN(100)))
	}
	var rows []store.Row
	for i, x := range texts {
		rows = append(rows, store.Row{"k": x, "n": i, "v": texts[(7*i)%len(texts)], "m": x})
	}
	var tables []*store.Table
	for i, typ := range []store.Type{store.String, store.String.Prefixed(beginnings...), must(store.ParseType("string after https:// http:// https://www."))} {
		tbl := create(t, st, store.Schema{
			Name:    fmt.Sprint("by", i),
			Key:     []store.KeyPart{store.OrderedPart("k", typ, store.MOPE), store.PlainPart("n", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("v", typ, store.Wozniak), store.OrderedColumn("m", typ, store.Kerschbaum)},
		})
		require.NoError(t, tbl.Put(background, rows...))
		tables = append(tables, tbl)
	}
	for range 100 {
		f := store.Field[string]([]string{"k", "v", "m"}[rng.IntN(3)])
		a, b := texts[rng.IntN(len(texts))], texts[rng.IntN(len(texts))]
		p := []store.Predicate{f.Between(a, b), f.Greater(a), f.AtMost(a), f.In(a, b), store.HasPrefix(f, a), store.Not(f.Between(a, b))}[rng.IntN(6)]
		q := store.Query{Where: p, Reverse: rng.IntN(2) == 1}
		want := answer(t, collect(t, tables[0], q), q, string(f))
		for _, tbl := range tables[1:] {
			require.Equal(t, want, answer(t, collect(t, tbl, q), q, string(f)))
		}
	}
	for _, bad := range []store.Type{store.String.Prefixed(), store.String.Prefixed("a b"), store.String.Prefixed("a\n"), store.String.Prefixed("\xff"), store.Bytes.Prefixed("a"), store.String.OrderedBy(16).Prefixed("a")} {
		require.ErrorIs(t, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", bad)}}.Check(), store.ErrSchema)
	}
	for _, text := range []string{"string after", "bytes after a", "string after a a", "string after a b c d e f g h i j k l m n o p q"} {
		_, err := store.ParseType(text)
		require.ErrorIs(t, err, store.ErrSchema, text)
	}
	require.Equal(t, "string after http:// https:// https://www.", store.String.Prefixed(beginnings...).String())
}

// answer returns the numbers of the rows, ascending, after it has checked that the rows are in the order of the column.
func answer(t *testing.T, rows []store.Row, q store.Query, column string) (numbers []int64) {
	text := func(v any) string {
		if b, ok := v.([]byte); ok {
			return string(b)
		}
		return v.(string)
	}
	for i, row := range rows {
		numbers = append(numbers, row["n"].(int64))
		if i > 0 {
			d := strings.Compare(text(rows[i-1][column]), text(row[column]))
			require.True(t, d == 0 || (d > 0) == q.Reverse, "row %d is out of order", i)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// byPages reads a query page by page.
func byPages(t *testing.T, tbl *store.Table, q store.Query, limit int) (rows []store.Row) {
	for q.Limit = limit; ; {
		page, next, err := tbl.Page(background, q)
		require.NoError(t, err)
		if rows = append(rows, page...); next == "" {
			return rows
		}
		q.PageToken = next
	}
}

// Other schemes, other types and other numbers of bytes are refused with words, by schemas and by texts of types.
func TestOrderedByRefuses(t *testing.T) {
	long := store.String.OrderedBy(32)
	of := func(columns ...store.Column) error {
		return store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)}, Columns: columns}.Check()
	}
	for _, scheme := range []store.ColumnScheme{store.MOPE, store.Wozniak, store.WozniakIndexed, store.Kerschbaum, store.KerschbaumRanked, store.Plaintext} {
		err := of(store.OrderedColumn("c", long, scheme))
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorIs(t, err, ope.ErrParams)
		require.ErrorContains(t, err, `column "c"`)
		require.ErrorContains(t, err, "takes the scheme boldyreva, not "+scheme.(fmt.Stringer).String())
	}
	require.NoError(t, of(store.OrderedColumn("a", long, store.Boldyreva), store.DeterministicColumn("b", long), store.RandomisedColumn("c", long), store.PlainColumn("d", long)))
	for _, typ := range []store.Type{store.String.OrderedBy(8), store.Bytes.OrderedBy(31), store.String.OrderedBy(64), long.OrderedBy(16)} {
		require.ErrorIs(t, of(store.RandomisedColumn("c", typ)), store.ErrSchema)
	}
	require.ErrorContains(t, of(store.RandomisedColumn("c", store.Int64.OrderedBy(16))), "only string and bytes")
	require.ErrorContains(t, of(store.RandomisedColumn("c", store.String.OrderedBy(12))), "16, 24 or 32; 12 is none of these")
	for _, text := range []string{"string(8)", "string(33)", "string()", "string(016)", "int8(16)", "bytes(32", "uuid(16)", "string(32) from a to b"} {
		_, err := store.ParseType(text)
		require.ErrorIs(t, err, store.ErrSchema, text)
	}
	for text, typ := range map[string]store.Type{"string(16)": store.String.OrderedBy(16), "bytes(24)": store.Bytes.OrderedBy(24), "string(32)": long} {
		got, err := store.ParseType(text)
		require.NoError(t, err)
		require.Equal(t, text, got.String())
		require.Equal(t, store.TypeID(typ), store.TypeID(got))
	}
}
