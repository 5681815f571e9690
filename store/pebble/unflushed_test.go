package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// few is a slice whose cells are looked for one by one, many is one with too many of them.
var (
	few  = driver.Slice{Only: [][]byte{[]byte("n"), []byte("odd")}, NeedsFirst: true}
	many = driver.Slice{Only: [][]byte{[]byte("n"), []byte("odd"), []byte("x1"), []byte("x2"), []byte("x3")}, NeedsFirst: true}
)

// A read sees what was acknowledged before it began, while others write the same rows and memtables are flushed at moments
// that chance draws: a row that memtables do not hold is looked for in tables only.
func TestReadsSeeWritesBesideFlushes(t *testing.T) {
	db := mustOpen(t, "dir", &Options{FS: vfs.NewMem()})
	defer func() { require.NoError(t, db.Close()) }()
	f := mustFamily(t, db)
	const writers, rows = 3, 40
	key := func(w, i int) []byte { return fmt.Appendf(nil, "row %d of %d\x00", i, w) }
	var begun, acknowledged [writers][rows]atomic.Uint64 // changes of a row; it is there after those of odd numbers
	var applied, inTables atomic.Int64
	last := 3 * time.Second
	if sim.Long() {
		last = 20 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	write := func(w int, random *rand.Rand) error {
		n := acknowledged[w][:]
		var changes []driver.Mutation
		chosen := make(map[int]bool)
		for range 1 + random.IntN(5) {
			i := random.IntN(rows)
			if chosen[i] {
				continue
			}
			chosen[i] = true
			next := begun[w][i].Add(1)
			m := driver.Mutation{Row: key(w, i), DeleteRow: true}
			pad := driver.Cell{Qualifier: []byte("pad"), Value: make([]byte, random.IntN(8<<10))} // so that memtables fill up
			if next%2 == 1 {
				value := binary.BigEndian.AppendUint64(nil, next)
				m = driver.Mutation{Row: m.Row, Puts: []driver.Cell{{Qualifier: []byte("n"), Value: value}, {Qualifier: []byte("odd"), Value: value}, pad}}
			}
			changes = append(changes, m)
		}
		if err := f.Apply(background, changes...); err != nil {
			return err
		}
		for i := range chosen {
			n[i].Add(1)
		}
		applied.Add(1)
		return nil
	}
	check := func(w, i int, least, most uint64, cells []driver.Cell) error {
		switch {
		case len(cells) == 0 && (most > least || least%2 == 0):
			return nil
		case len(cells) == 0:
			return fmt.Errorf("row %d of %d has nothing, where %d was acknowledged before", i, w, least)
		case len(cells) != 2:
			return fmt.Errorf("row %d of %d has %d cells", i, w, len(cells))
		}
		if n := binary.BigEndian.Uint64(cells[0].Value); n < least || n > most || string(cells[1].Value) != string(cells[0].Value) {
			return fmt.Errorf("row %d of %d has %d and %d, where %d was acknowledged before and %d had begun after", i, w, n, cells[1].Value, least, most)
		}
		return nil
	}
	read := func(random *rand.Rand) error {
		var keys [][]byte
		var places [][2]int
		var least []uint64
		for range 1 + random.IntN(10) {
			w, i := random.IntN(writers), random.IntN(rows)
			keys, places, least = append(keys, key(w, i)), append(places, [2]int{w, i}), append(least, acknowledged[w][i].Load())
			if !db.unflushed.Has(db.unflushed.Hash(layout.AppendRow(nil, f.(*family).entry.id, key(w, i)))) {
				inTables.Add(1)
			}
		}
		slice := []driver.Slice{few, many}[random.IntN(2)]
		var found [][]driver.Cell
		if len(keys) == 1 {
			cells, err := f.Get(background, keys[0], slice)
			if err != nil {
				return err
			}
			found = append(found, cells)
		} else {
			var err error
			if found, err = f.GetBatch(background, keys, slice); err != nil {
				return err
			}
		}
		for n, p := range places {
			if err := check(p[0], p[1], least[n], begun[p[0]][p[1]].Load(), found[n]); err != nil {
				return err
			}
		}
		return nil
	}
	for w := range writers {
		random := rand.New(rand.NewPCG(rand.Uint64(), 1))
		group.Go(func() error {
			for ctx.Err() == nil {
				if err := write(w, random); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 2 {
		random := rand.New(rand.NewPCG(rand.Uint64(), 2))
		group.Go(func() error {
			for ctx.Err() == nil {
				if err := read(random); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(rand.Int64N(int64(5 * time.Millisecond))))
			db.queue.flushSoon()
		}
		return nil
	})
	require.NoError(t, group.Wait())
	t.Logf("%d writes, %d rows read from tables only", applied.Load(), inTables.Load())
	require.NotZero(t, inTables.Load())
}
