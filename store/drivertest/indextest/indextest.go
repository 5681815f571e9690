// Package indextest checks that a database keeps the promises of [driver.Indexer].
package indextest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A suite is a family with two indexes. Checks share it, and each has rows of its own: their keys begin with p.
type suite struct {
	db   driver.Indexer
	spec driver.FamilySpec
	f    driver.Family
}

const one, two = "one", "two"

var key = driver.Slice{Only: [][]byte{{}}}

// A check is of one sentence or more.
type check struct {
	name string
	run  func(tb testing.TB, s *suite, p string)
}

var checks = []check{
	{"rows are found by ranges of values", checkRanges},
	{"a range of keys bounds a scan by an index", checkKeys},
	{"shares of a scan by an index are all of it", checkParts},
	{"a put sets the values that it names and no others", checkNamed},
	{"a value goes with its cell", checkDeleted},
	{"a value ends with its cell", checkTTL},
	{"a replacement carries values", checkReplace},
	{"reads return values", checkReads},
	{"a cell and its values appear at once", checkAtomic},
	{"many rows are found page by page", checkMany},
	{"what no index can serve is refused", checkRefused},
	{"an index that is dropped answers no scan, and may still be named", checkDrop},
}

// TestIndexer tests a database. The families that it makes are dropped at the end.
func TestIndexer(t *testing.T, db driver.Indexer) {
	s := newSuite(t, db)
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, s, c.name+"/") })
	}
}

func newSuite(tb testing.TB, db driver.Indexer) *suite {
	ctx := context.Background()
	var id [6]byte
	_, _ = rand.Read(id[:])
	s := &suite{db: db, spec: driver.FamilySpec{Name: "ix" + hex.EncodeToString(id[:]), Layout: driver.LayoutOrdered, SpreadBits: 4}}
	require.ErrorIs(tb, db.AddIndex(ctx, s.spec, one), driver.ErrNoFamily, "there is no such family")
	_, err := db.Family(ctx, s.spec)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Drop(context.Background(), s.spec.Name)) })
	for _, name := range []string{one, two, one} { // one that is there stays
		require.NoError(tb, db.AddIndex(ctx, s.spec, name))
	}
	s.f, err = db.Family(ctx, s.spec) // an index is no part of the layout
	require.NoError(tb, err)
	return s
}

func (s *suite) put(tb testing.TB, row, value string, index ...driver.IndexValue) {
	require.NoError(tb, s.f.Apply(context.Background(), driver.Mutation{Row: []byte(row), Puts: []driver.Cell{
		{Qualifier: []byte{}, Value: []byte(value), Index: index}, {Qualifier: []byte("other"), Value: []byte("x")},
	}}))
}

func value(index string, v ...byte) driver.IndexValue {
	return driver.IndexValue{Index: index, Value: v}
}

// scan returns what a scan yields, as key=value, in order of the keys.
func (s *suite) scan(tb testing.TB, p string, r driver.IndexRange, change ...func(*driver.Range)) []string {
	all := driver.Range{Start: []byte(p), End: append([]byte(p), 0xff), AnyOrder: true, Cells: key, Index: &r}
	for _, c := range change {
		c(&all)
	}
	found := []string{}
	for row, err := range s.f.Scan(context.Background(), all) {
		require.NoError(tb, err)
		require.Len(tb, row.Cells, 1)
		require.True(tb, bytes.HasPrefix(row.Key, []byte(p)), "a row of another range")
		require.Empty(tb, row.Cells[0].Qualifier)
		found = append(found, string(row.Key[len(p):])+"="+string(row.Cells[0].Value))
	}
	slices.Sort(found)
	return found
}

func checkRanges(tb testing.TB, s *suite, p string) {
	values := [][]byte{{0, 0}, {0, 1}, {0, 0xff}, {1, 0}, {0x7f, 0xff}, {0x80, 0}, {0xff, 0xff}}
	for i, v := range values {
		s.put(tb, fmt.Sprint(p, i), fmt.Sprint(i), value(one, v...))
	}
	s.put(tb, p+"none", "none")
	s.put(tb, p+"other", "other", value(two, 0, 1))
	bounds := append([][]byte{nil}, values...)
	for _, start := range bounds {
		for _, end := range bounds {
			want := []string{}
			for i, v := range values {
				if bytes.Compare(v, start) >= 0 && (end == nil || bytes.Compare(v, end) < 0) {
					want = append(want, fmt.Sprintf("%d=%d", i, i))
				}
			}
			require.Equal(tb, want, s.scan(tb, p, driver.IndexRange{Index: one, Start: start, End: end}), "%x to %x", start, end)
		}
	}
	// Values that are equal in many bytes.
	long := func(last byte) []byte { return append(bytes.Repeat([]byte{7}, driver.MaxIndexValue-1), last) }
	for i := range byte(3) {
		s.put(tb, fmt.Sprint(p, i), "long", value(two, long(i)...))
	}
	require.Equal(tb, []string{"1=long"}, s.scan(tb, p, driver.IndexRange{Index: two, Start: long(1), End: long(2)}))
}

func checkKeys(tb testing.TB, s *suite, p string) {
	for i := range 5 {
		s.put(tb, fmt.Sprint(p, i), "v", value(one, 1))
	}
	require.Equal(tb, []string{"1=v", "2=v"}, s.scan(tb, p, driver.IndexRange{Index: one}, func(r *driver.Range) {
		r.Start, r.End = []byte(p+"1"), []byte(p+"3")
	}))
	require.Len(tb, s.scan(tb, p, driver.IndexRange{Index: one}, func(r *driver.Range) { r.Limit = 2 }), 2)
}

func checkParts(tb testing.TB, s *suite, p string) {
	var rows []driver.Mutation
	for i := range 200 {
		rows = append(rows, driver.Mutation{Row: fmt.Appendf([]byte(p), "%c%d", i, i), Puts: []driver.Cell{{Qualifier: []byte{}, Value: []byte("v"), Index: []driver.IndexValue{value(one, byte(i))}}}})
	}
	require.NoError(tb, s.f.Apply(context.Background(), rows...))
	in := driver.IndexRange{Index: one, Start: []byte{50}, End: []byte{150}}
	want := s.scan(tb, p, in)
	require.Len(tb, want, 100)
	var all []string
	for part := range 7 {
		all = append(all, s.scan(tb, p, in, func(r *driver.Range) { r.Part, r.Parts = part, 7 })...)
	}
	slices.Sort(all)
	require.Equal(tb, want, all)
}

func checkNamed(tb testing.TB, s *suite, p string) {
	s.put(tb, p+"r", "1", value(one, 1), value(two, 1))
	s.put(tb, p+"r", "2", value(one, 2))
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: one, End: []byte{2}}))
	require.Equal(tb, []string{"r=2"}, s.scan(tb, p, driver.IndexRange{Index: one, Start: []byte{2}}))
	require.Equal(tb, []string{"r=2"}, s.scan(tb, p, driver.IndexRange{Index: two, Start: []byte{1}, End: []byte{2}}))
	s.put(tb, p+"r", "3", value(one), value(two, 3)) // nil is none
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: one}))
	require.Equal(tb, []string{"r=3"}, s.scan(tb, p, driver.IndexRange{Index: two}))
	s.put(tb, p+"r", "4")
	require.Equal(tb, []string{"r=4"}, s.scan(tb, p, driver.IndexRange{Index: two}))
}

func checkDeleted(tb testing.TB, s *suite, p string) {
	ctx := context.Background()
	s.put(tb, p+"row", "1", value(one, 1))
	s.put(tb, p+"cell", "1", value(one, 1))
	require.Len(tb, s.scan(tb, p, driver.IndexRange{Index: one}), 2)
	require.NoError(tb, s.f.Apply(ctx, driver.Mutation{Row: []byte(p + "row"), DeleteRow: true}, driver.Mutation{Row: []byte(p + "cell"), Deletes: [][]byte{{}}}))
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: one}))
	s.put(tb, p+"row", "2")
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: one}), "a row that comes again has not what it had")
}

func checkTTL(tb testing.TB, s *suite, p string) {
	ctx, all := context.Background(), driver.Range{Start: []byte(p), End: append([]byte(p), 0xff), AnyOrder: true}
	s.put(tb, p+"left", "for ever", value(two, 2)) // whoever puts it again does not know of this index
	require.NoError(tb, s.f.Apply(ctx, driver.Mutation{Row: []byte(p + "r"), Puts: []driver.Cell{
		{Qualifier: []byte{}, Value: []byte("v"), TTL: 2 * time.Second, Index: []driver.IndexValue{value(one, 1)}},
	}}, driver.Mutation{Row: []byte(p + "left"), Deletes: [][]byte{[]byte("other")}, Puts: []driver.Cell{
		{Qualifier: []byte{}, Value: []byte("v"), TTL: 2 * time.Second, Index: []driver.IndexValue{value(one, 2)}},
	}}))
	require.Len(tb, s.scan(tb, p, driver.IndexRange{Index: one}), 2)
	for begun := time.Now(); len(s.scan(tb, p, driver.IndexRange{Index: one})) > 0; time.Sleep(100 * time.Millisecond) {
		require.Less(tb, time.Since(begun), 10*time.Second)
	}
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: two}))
	for _, slice := range []driver.Slice{{}, {Stamps: true}, {Only: [][]byte{{}}}, {Indexes: []string{one, two}}} {
		cells, err := s.f.Get(ctx, []byte(p+"left"), slice)
		require.NoError(tb, err)
		require.Empty(tb, cells)
		each, err := s.f.GetBatch(ctx, [][]byte{[]byte(p + "r"), []byte(p + "left")}, slice)
		require.NoError(tb, err)
		require.Empty(tb, slices.Concat(each...))
		of := all
		of.Cells = slice
		for row, err := range s.f.Scan(ctx, of) {
			require.NoError(tb, err)
			require.Fail(tb, "something is left", "%s: %v", row.Key, row.Cells)
		}
	}
}

func checkReplace(tb testing.TB, s *suite, p string) {
	ctx := context.Background()
	s.put(tb, p+"r", "1", value(one, 1), value(two, 1))
	seen, err := s.f.Get(ctx, []byte(p+"r"), driver.Slice{Only: [][]byte{{}}, Stamps: true})
	require.NoError(tb, err)
	_, err = s.f.Replace(ctx, driver.Replacement{Row: []byte(p + "r"), Seen: seen[0], Puts: []driver.Cell{
		{Qualifier: []byte{}, Value: []byte("2"), Index: []driver.IndexValue{value(one, 2), value(two)}},
	}})
	require.NoError(tb, err)
	require.Equal(tb, []string{"r=2"}, s.scan(tb, p, driver.IndexRange{Index: one, Start: []byte{2}}))
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: one, End: []byte{2}}))
	require.Empty(tb, s.scan(tb, p, driver.IndexRange{Index: two}))
}

func checkReads(tb testing.TB, s *suite, p string) {
	ctx := context.Background()
	s.put(tb, p+"a", "1", value(one, 0, 0, 7))
	s.put(tb, p+"b", "2", value(two, 9))
	want := map[string][]driver.IndexValue{p + "a": {value(two), value(one, 0, 0, 7)}, p + "b": {value(two, 9), value(one)}}
	for _, slice := range []driver.Slice{
		{Indexes: []string{two, one}}, {Indexes: []string{two, one}, Stamps: true}, {Only: [][]byte{{}}, Indexes: []string{two, one}},
	} {
		see := func(row string, cells []driver.Cell) {
			require.NotEmpty(tb, cells)
			require.Equal(tb, want[row], cells[0].Index, row)
			require.Equal(tb, slice.Stamps, cells[0].Stamp != 0)
			for _, c := range cells[1:] {
				require.Empty(tb, c.Index)
			}
		}
		for row := range want {
			cells, err := s.f.Get(ctx, []byte(row), slice)
			require.NoError(tb, err)
			see(row, cells)
		}
		found, err := s.f.GetBatch(ctx, [][]byte{[]byte(p + "a"), []byte(p + "nothing"), []byte(p + "b"), []byte(p + "a")}, slice)
		require.NoError(tb, err)
		see(p+"a", found[0])
		found[0][0].Index[1].Value[0]++ // it belongs to the caller
		found[0][0].Index[0].Index = "another"
		see(p+"a", found[3])
		require.Empty(tb, found[1])
		see(p+"b", found[2])
		n := 0
		for row, err := range s.f.Scan(ctx, driver.Range{Start: []byte(p), End: append([]byte(p), 0xff), AnyOrder: true, Cells: slice}) {
			require.NoError(tb, err)
			see(string(row.Key), row.Cells)
			n++
		}
		require.Equal(tb, 2, n)
	}
	cells, err := s.f.Get(ctx, []byte(p+"a"), driver.Slice{})
	require.NoError(tb, err)
	require.Empty(tb, cells[0].Index, "nobody asked for it")
}

func checkAtomic(tb testing.TB, s *suite, p string) {
	ctx, row := context.Background(), []byte(p+"r")
	var writers sync.WaitGroup
	var failed error
	writers.Go(func() {
		for i := range 100 {
			v := byte(i)
			if failed = s.f.Apply(ctx, driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: []byte{}, Value: []byte{v}, Index: []driver.IndexValue{value(one, v), value(two, v)}}}}); failed != nil {
				return
			}
		}
	})
	for range 100 {
		cells, err := s.f.Get(ctx, row, driver.Slice{Only: [][]byte{{}}, Indexes: []string{one, two}})
		require.NoError(tb, err)
		if len(cells) > 0 {
			require.Equal(tb, []driver.IndexValue{value(one, cells[0].Value...), value(two, cells[0].Value...)}, cells[0].Index)
		}
	}
	writers.Wait()
	require.NoError(tb, failed)
}

func checkMany(tb testing.TB, s *suite, p string) {
	const n = 3000
	var rows []driver.Mutation
	for i := range n {
		rows = append(rows, driver.Mutation{Row: fmt.Appendf([]byte{byte(i)}, "%s%d", p, i), Puts: []driver.Cell{
			{Qualifier: []byte{}, Value: bytes.Repeat([]byte("v"), 100), Index: []driver.IndexValue{value(one, 0xfe, byte(i>>8), byte(i))}},
			{Qualifier: []byte("other"), Value: []byte("w")},
		}})
	}
	require.NoError(tb, s.f.Apply(context.Background(), rows...))
	seen := make(map[string]bool)
	for row, err := range s.f.Scan(context.Background(), driver.Range{AnyOrder: true, Cells: key, Index: &driver.IndexRange{Index: one, Start: []byte{0xfe, 0, 100}, End: []byte{0xfe, byte(n >> 8), n & 0xff}}}) {
		require.NoError(tb, err)
		require.False(tb, seen[string(row.Key)], "each row comes once")
		seen[string(row.Key)] = true
	}
	require.Len(tb, seen, n-100)
}

func checkRefused(tb testing.TB, s *suite, p string) {
	ctx := context.Background()
	in := &driver.IndexRange{Index: one}
	long := make([]byte, driver.MaxIndexValue+1)
	for what, r := range map[string]driver.Range{
		"in order":      {Cells: key, Index: in},
		"after a row":   {AnyOrder: true, After: []byte(p), Cells: key, Index: in},
		"all cells":     {AnyOrder: true, Index: in},
		"other cells":   {AnyOrder: true, Cells: driver.Slice{Only: [][]byte{[]byte("other")}}, Index: in},
		"name":          {AnyOrder: true, Cells: key, Index: &driver.IndexRange{Index: "One; DROP"}},
		"bound":         {AnyOrder: true, Cells: key, Index: &driver.IndexRange{Index: one, Start: long}},
		"no such index": {AnyOrder: true, Cells: key, Index: &driver.IndexRange{Index: "nothing"}},
	} {
		var failed error
		for _, err := range s.f.Scan(ctx, r) {
			failed = err
		}
		is := map[string]error{"bound": driver.ErrTooLarge, "no such index": driver.ErrNoIndex}[what]
		if is == nil {
			is = driver.ErrRange
		}
		require.ErrorIs(tb, failed, is, what)
	}
	for what, c := range map[string]driver.Cell{
		"other cell": {Qualifier: []byte("other"), Value: []byte("v"), Index: []driver.IndexValue{value(one, 1)}},
		"empty":      {Qualifier: []byte{}, Value: []byte("v"), Index: []driver.IndexValue{{Index: one, Value: []byte{}}}},
		"long":       {Qualifier: []byte{}, Value: []byte("v"), Index: []driver.IndexValue{value(one, long...)}},
		"name":       {Qualifier: []byte{}, Value: []byte("v"), Index: []driver.IndexValue{value("v", 1)}},
	} {
		require.Error(tb, s.f.Apply(ctx, driver.Mutation{Row: []byte(p + "r"), Puts: []driver.Cell{c}}), what)
	}
	for _, name := range []string{"", "v", "1a", "a-b", "Ab", string(bytes.Repeat([]byte("a"), driver.MaxIndexName+1))} {
		require.ErrorIs(tb, s.db.AddIndex(ctx, s.spec, name), driver.ErrRange, name)
		require.ErrorIs(tb, s.db.DropIndex(ctx, s.spec, name), driver.ErrRange, name)
	}
	wide := driver.FamilySpec{Name: s.spec.Name, Layout: driver.LayoutWide}
	require.ErrorIs(tb, s.db.AddIndex(ctx, wide, one), driver.ErrRange)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(tb, s.db.AddIndex(gone, s.spec, one), context.Canceled)
}

func checkDrop(tb testing.TB, s *suite, p string) {
	ctx := context.Background()
	s.put(tb, p+"r", "1", value(one, 1), value(two, 1))
	require.NoError(tb, s.db.DropIndex(ctx, s.spec, two))
	require.NoError(tb, s.db.DropIndex(ctx, s.spec, two))
	require.NoError(tb, s.db.DropIndex(ctx, driver.FamilySpec{Name: s.spec.Name + "x", Layout: driver.LayoutOrdered}, two), "nor is there such a family")
	var failed error
	for _, err := range s.f.Scan(ctx, driver.Range{AnyOrder: true, Cells: key, Index: &driver.IndexRange{Index: two}}) {
		failed = err
	}
	require.ErrorIs(tb, failed, driver.ErrNoIndex)
	s.put(tb, p+"r", "2", value(one, 2), value(two, 2))
	require.Equal(tb, []string{"r=2"}, s.scan(tb, p, driver.IndexRange{Index: one}))
	_, err := s.db.Family(ctx, s.spec)
	require.NoError(tb, err)
}
