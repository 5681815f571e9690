package cassandra

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What is cut is cut between its ends, into pieces of which none is much larger than the others.
func TestCuts(t *testing.T) {
	some := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		low, high := some.Draw(t, "low"), some.Draw(t, "high")
		if rapid.Bool().Draw(t, "unbounded") {
			high = nil
		}
		all := append([][]byte{low}, cuts(low, high)...)
		if high != nil {
			if bytes.Compare(low, high) >= 0 {
				t.Skip("empty")
			}
			all = append(all, high)
		}
		for i := range all[1:] {
			if bytes.Compare(all[i], all[i+1]) >= 0 {
				t.Fatalf("%x is not below %x", all[i], all[i+1])
			}
		}
		// Only of a range without keys that are a little longer than its ends, nothing is cut.
		if len(all) < 3 && !bytes.HasPrefix(high, low) {
			t.Fatalf("nothing is cut between %x and %x", low, high)
		}
	})
}

func TestEndsOfPartitions(t *testing.T) {
	for _, spec := range []driver.FamilySpec{{}, {SpreadBits: 3}, {SpreadBits: 16}, {PrefixBytes: 2}, {PrefixBytes: 2, SpreadBits: 5}} {
		spec.Layout = driver.LayoutOrdered
		for range 2000 {
			key := make([]byte, spec.PrefixBytes+rand.IntN(4))
			for i := range key {
				key[i] = []byte{0, 1, 0xfe, 0xff}[rand.IntN(4)]
			}
			low, high := ends(spec, partition(spec, key))
			// A key that is too short to have all bits of its bucket has zeros in their place.
			padded := append(bytes.Clone(key), 0, 0)
			require.True(t, bytes.Compare(low, padded) <= 0, "%x is not above %x", key, low)
			require.True(t, high == nil || bytes.Compare(key, high) < 0, "%x is not below %x", key, high)
		}
	}
}

// Hashes of partitions are those of the server.
func TestHashOf(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), wideSpec)
	var mutations []driver.Mutation
	for n := 1; n < 70; n++ {
		for range 20 {
			row := make([]byte, n)
			for i := range row {
				row[i] = byte(rand.Uint32())
			}
			mutations = append(mutations, driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}}})
		}
	}
	slices.SortFunc(mutations, func(a, b driver.Mutation) int { return bytes.Compare(a.Row, b.Row) })
	mutations = slices.CompactFunc(mutations, func(a, b driver.Mutation) bool { return bytes.Equal(a.Row, b.Row) })
	require.NoError(t, f.Apply(t.Context(), mutations...))
	i := f.db.session.Query("SELECT k, token(k) FROM " + f.table).Iter()
	var row []byte
	var hash int64
	n := 0
	for ; i.Scan(&row, &hash); row = nil {
		require.Equal(t, hash, hashOf(row), "%x", row)
		n++
	}
	require.NoError(t, i.Close())
	require.Equal(t, len(mutations), n)
}

// tooMany is some more markers than the server reads.
func tooMany(t *testing.T, db *DB) int {
	n, err := testcassandra.Markers(t.Context(), db.session)
	require.NoError(t, err)
	return n * 6 / 5
}

// The server gives up a read that meets too many markers. Scans read such ranges all the same: in order and not, from either
// end, in parts, and after any row.
func TestScansOfManyMarkers(t *testing.T) {
	spec := driver.FamilySpec{Name: "things", Layout: driver.LayoutOrdered, PrefixBytes: 2, SpreadBits: 2}
	f := openFamily(t, open(t, keyspace(t)), spec)
	ctx := t.Context()
	var changes []driver.Mutation
	var live [][]byte
	add := func(row []byte, lives bool) {
		m := driver.Mutation{Row: row, Deletes: [][]byte{[]byte("q")}}
		if lives {
			m = driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: []byte("q"), Value: row}}}
			live = append(live, row)
		}
		changes = append(changes, m)
	}
	pile := tooMany(t, f.db)
	for i := range pile {
		add(binary.BigEndian.AppendUint32([]byte("aa\x01same"), uint32(i)), i%(pile/6) == 17)
	}
	add([]byte("aa"), true)
	add([]byte("aa\xf0"), true)
	for p := range 300 {
		prefix := binary.BigEndian.AppendUint16(nil, uint16(p*211))
		each := pile / 300
		for i := range each { // and so many of each of many partitions
			add(append(bytes.Clone(prefix), byte(i*7), byte(i), byte(i>>8)), i%(each/3) == 0)
		}
	}
	require.NoError(t, f.Apply(ctx, changes...))
	var k []byte
	require.True(t, TooManyMarkers(f.db.session.Query("SELECT k FROM "+f.table+" LIMIT 1000").Scan(&k)), "the server does not mind")

	slices.SortFunc(live, bytes.Compare)
	rows := func(r driver.Range) (keys [][]byte) {
		for row, err := range f.Scan(ctx, r) {
			require.NoError(t, err, fmt.Sprintf("%+v", r))
			require.Equal(t, row.Key, row.Cells[0].Value)
			keys = append(keys, row.Key)
		}
		return keys
	}
	var of [][]byte // the pile
	for _, key := range live {
		if bytes.HasPrefix(key, []byte("aa")) {
			of = append(of, key)
		}
	}
	in := driver.Range{Start: []byte("aa"), End: []byte("ab")}
	require.Equal(t, of, rows(in))
	in.Limit = 3
	require.Equal(t, of[:3], rows(in))
	in = driver.Range{Start: of[1], End: of[len(of)-1], Reverse: true, Cells: driver.Slice{Only: [][]byte{[]byte("q")}}}
	backwards := slices.Clone(of[1 : len(of)-1])
	slices.Reverse(backwards)
	require.Equal(t, backwards, rows(in))

	all := rows(driver.Range{AnyOrder: true})
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, bytes.Compare)
	require.Equal(t, live, sorted)
	var parts [][]byte
	for part := range 3 {
		parts = append(parts, rows(driver.Range{AnyOrder: true, Part: part, Parts: 3})...)
	}
	require.Equal(t, all, parts)
	at := slices.IndexFunc(all, func(key []byte) bool { return bytes.Equal(key, of[2]) }) // within the pile
	for _, after := range []int{0, at, at + 1, len(all) - 1} {
		require.Equal(t, all[after+1:], append([][]byte{}, rows(driver.Range{AnyOrder: true, After: all[after]})...), "after %d of %d", after, len(all))
	}
	bounded := rows(driver.Range{AnyOrder: true, Start: of[1], End: of[4]})
	require.Equal(t, of[1:4], bounded)
}

// So is the slice of a row read: also while it changes, as it was at one instant.
func TestSlicesOfManyMarkers(t *testing.T) {
	f := openFamily(t, open(t, keyspace(t)), wideSpec)
	ctx, row := t.Context(), []byte("unit")
	q := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte{1}, uint32(i)) }
	pile := tooMany(t, f.db)
	gap := pile / 6
	var all []driver.Cell
	var change driver.Mutation
	for i := range pile {
		if i%gap == 17 {
			all = append(all, driver.Cell{Qualifier: q(i), Value: q(i)})
		} else {
			change.Deletes = append(change.Deletes, q(i))
		}
		if len(change.Deletes) == 1000 || i == pile-1 {
			require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row, Deletes: change.Deletes}))
			change.Deletes = nil
		}
	}
	head := driver.Cell{Qualifier: []byte{}, Value: []byte("head")}
	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: row, Puts: append([]driver.Cell{head}, all...)}))
	_, err := f.get(ctx, row, driver.Slice{Start: q(0), End: q(pile)})
	require.True(t, TooManyMarkers(err), "the server does not mind")

	get := func(s driver.Slice) []driver.Cell {
		cells, err := f.Get(ctx, row, s)
		require.NoError(t, err)
		for i := range cells {
			require.Equal(t, s.Stamps, cells[i].Stamp != 0)
			cells[i].Stamp = 0
		}
		return cells
	}
	withHead := append([]driver.Cell{head}, all...)
	require.Equal(t, all, get(driver.Slice{Start: q(0)}))
	require.Equal(t, withHead, get(driver.Slice{}))
	require.Equal(t, withHead, get(driver.Slice{Head: true, Stamps: true}))
	require.Equal(t, withHead, get(driver.Slice{Start: q(0), End: q(pile), Head: true}))
	require.Equal(t, withHead[:1], get(driver.Slice{Start: q(18), End: q(gap + 17), Head: true}), "few markers, no cells")
	require.Equal(t, withHead[:3], get(driver.Slice{Start: q(0), Limit: 2, Head: true}))
	require.Equal(t, all[1:], get(driver.Slice{Start: q(18)}))

	// Somebody moves a cell from one end to the other and back, with one mutation each time. It stays long enough that the row can
	// be read twice, also on a slow machine.
	began := time.Now()
	get(driver.Slice{Start: q(0)})
	stays := max(3*time.Second, 3*time.Since(began))
	moving, stop := context.WithCancel(ctx)
	var mover sync.WaitGroup
	mover.Go(func() {
		for at := 0; moving.Err() == nil; at = pile - 1 - at {
			err := f.Apply(ctx, driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: q(at), Value: []byte("moves")}}, Deletes: [][]byte{q(pile - 1 - at)}})
			if err != nil {
				t.Error(err)
				return
			}
			_ = pause.For(moving, stays)
		}
	})
	defer mover.Wait()
	defer stop()
	time.Sleep(time.Second) // it is somewhere
	for range 3 {
		cells := get(driver.Slice{Start: q(0)})
		cells = slices.DeleteFunc(cells, func(c driver.Cell) bool { return string(c.Value) == "moves" })
		require.Equal(t, all, cells)
		require.Len(t, get(driver.Slice{Start: q(0)}), len(all)+1)
	}
}
