package pebble

import (
	"fmt"
	"slices"
	"testing"

	cockroach "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// asBefore has the engine as it was before filters had rows: they had cells, and blocks were smaller.
func asBefore(o *cockroach.Options) {
	o.MemTableSize, o.MemTableStopWritesThreshold, o.Filters = 16<<20, 3, nil
	for i := range o.Levels {
		o.Levels[i] = cockroach.LevelOptions{
			BlockSize: 4 << 10, FilterPolicy: bloom.FilterPolicy(10),
			Compression: func() *sstable.CompressionProfile { return sstable.SnappyCompression },
		}
	}
}

// A directory is read and written by turns with filters of cells and with filters of rows, and each finds what both wrote.
func TestTablesOfEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	const rows = 300
	key := func(i int) []byte { return fmt.Appendf(nil, "row %03d\x00%d", i, i) }
	want := make(map[int]string)
	for turn := range 6 {
		options := &Options{}
		if turn%2 == 0 {
			options.tune = asBefore
		}
		db := mustOpen(t, dir, options)
		f := mustFamily(t, db)
		check := func() {
			var keys [][]byte
			for i := range rows {
				keys = append(keys, key(i))
			}
			for _, slice := range []driver.Slice{few, many, {Only: few.Only}, {}} {
				found, err := f.GetBatch(background, keys, slice)
				require.NoError(t, err)
				for i := range rows {
					one, err := f.Get(background, keys[i], slice)
					require.NoError(t, err)
					require.Equal(t, found[i], one)
					if want[i] == "" {
						require.Empty(t, one, "row %d in turn %d", i, turn)
						continue
					}
					require.Equal(t, want[i], string(one[0].Value), "row %d in turn %d", i, turn)
				}
			}
		}
		check()
		for i := turn; i < rows; i += 2 + turn {
			m := driver.Mutation{Row: key(i), DeleteRow: i%5 == 4}
			if want[i] = ""; !m.DeleteRow {
				want[i] = fmt.Sprint("turn ", turn)
				for _, q := range []string{"n", "odd", "x2"} {
					m.Puts = append(m.Puts, driver.Cell{Qualifier: []byte(q), Value: []byte(want[i])})
				}
			}
			require.NoError(t, f.Apply(background, m))
		}
		check()
		require.NoError(t, db.eng.Flush())
		check()
		if turn == 3 {
			require.NoError(t, db.eng.Compact(background, []byte{0}, []byte{255}, false))
			check()
		}
		require.NoError(t, db.Close())
	}
	require.True(t, slices.Contains([]string{want[0], want[1], want[2], want[3], want[5]}, "turn 5"))
}
