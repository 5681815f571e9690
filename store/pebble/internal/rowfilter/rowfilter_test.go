package rowfilter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// A machine is what [Unflushed] relies on: an engine with memtables, of which the last is written, and one flush at a time.
type machine struct {
	u         *Unflushed
	memtables []map[int]bool
	flushing  int // memtables that are being flushed
}

func newMachine() *machine { return &machine{u: NewUnflushed(), memtables: []map[int]bool{{}}} }

func hash(u *Unflushed, row int) uint64 {
	return u.Hash(binary.BigEndian.AppendUint64(nil, uint64(row)))
}

func (m *machine) write(rows ...int) {
	for _, row := range rows {
		m.u.Add(hash(m.u, row))
	}
}

func (m *machine) apply(rows ...int) {
	for _, row := range rows {
		m.memtables[len(m.memtables)-1][row] = true
	}
}

func (m *machine) rotate() { m.memtables = append(m.memtables, map[int]bool{}) }

func (m *machine) beginFlush() {
	if m.flushing == 0 && len(m.memtables) > 1 {
		m.flushing = len(m.memtables) - 1
		m.u.FlushBegins()
	}
}

func (m *machine) endFlush(succeeds bool) {
	if m.flushing > 0 && succeeds {
		m.memtables = m.memtables[m.flushing:]
		m.u.FlushEnds()
	}
	m.flushing = 0
}

// Whatever the order of writes, changes of memtables and flushes, the set lacks no row that a memtable has, and in the end
// it has none.
func TestUnflushedLacksNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dropped := 0
	for range 200 {
		m := newMachine()
		row := 0
		for range 100 {
			switch random.IntN(5) {
			case 0, 1:
				row++
				m.write(row, -row)
				for range random.IntN(3) { // what else goes on before the engine applies the write
					[]func(){m.beginFlush, func() { m.endFlush(true) }}[random.IntN(2)]()
				}
				if random.IntN(4) == 0 {
					m.rotate()
				}
				m.apply(row, -row)
			case 2:
				m.rotate()
			case 3:
				m.beginFlush()
			case 4:
				m.endFlush(random.IntN(4) > 0)
			}
			for i, memtable := range m.memtables {
				for row := range memtable {
					require.True(t, m.u.Has(hash(m.u, row)), "row %d of memtable %d", row, i)
				}
			}
			if row > 0 && !m.u.Has(hash(m.u, 1)) {
				dropped++
			}
		}
		for i := range 4 { // each with a row, since a filter is closed by the next write
			m.endFlush(true)
			m.write(row + i)
			m.apply(row + i)
			m.rotate()
			m.beginFlush()
		}
		m.endFlush(true)
		require.LessOrEqual(t, len(m.u.filters), flushesToDrop+1)
	}
	require.NotZero(t, dropped, "no filter was ever dropped")
}

func TestUnflushedIsSeldomWrong(t *testing.T) {
	u := NewUnflushed()
	const rows = 100_000 // of 300 bytes, in 32 MiB
	for i := range rows {
		u.Add(hash(u, i))
	}
	wrong := 0
	for i := range rows {
		require.True(t, u.Has(hash(u, i)))
		if u.Has(hash(u, rows+i)) {
			wrong++
		}
	}
	require.Less(t, wrong, rows/1000)
}

// Filters have the rows of all keys that were added, keys without a row by themselves, and few others.
func TestPolicy(t *testing.T) {
	p := Policy(10, func(key []byte) (int, error) {
		if key[0] == 'n' {
			return 0, errors.New("no row")
		}
		return 9, nil
	})
	key := func(row int, cell string) []byte {
		return append(binary.BigEndian.AppendUint64([]byte("r"), uint64(row)), cell...)
	}
	w := p.NewWriter(pebble.TableFilter)
	const rows = 1_000
	for i := range rows {
		for cell := range 5 {
			w.AddKey(key(i, fmt.Sprint(cell)))
		}
	}
	w.AddKey([]byte("none"))
	filter := w.Finish(nil)
	require.Less(t, len(filter), 2*rows*10/8, "a row has one entry")
	has := func(key []byte) bool { return p.MayContain(pebble.TableFilter, filter, key) }
	require.True(t, has([]byte("none")))
	wrong := 0
	for i := range rows {
		require.True(t, has(key(i, "any")))
		if has(key(rows+i, "0")) {
			wrong++
		}
	}
	require.Less(t, wrong, rows/20)
}

// The filter of a table has each row, however rows begin with each other and with bytes that are escaped, and is usable again.
func TestPolicyHasEachRow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := Policy(10, layout.RowPrefixLen)
	w := p.NewWriter(pebble.TableFilter)
	for range 200 {
		var keys [][]byte
		for range 1 + random.IntN(30) {
			row := make([]byte, 1+random.IntN(3))
			for i := range row {
				row[i] = []byte{0, 1, 2, 0xff}[random.IntN(4)]
			}
			key := layout.AppendRow(nil, uint32(random.IntN(2)), row)
			for cell := range 1 + random.IntN(3) {
				keys = append(keys, append(bytes.Clone(key), fmt.Sprint(cell)...))
			}
			if random.IntN(4) == 0 {
				keys = append(keys, key[:len(key)-1-random.IntN(2)]) // has no row
			}
		}
		slices.SortFunc(keys, bytes.Compare)
		for _, key := range keys {
			w.AddKey(key)
		}
		filter := w.Finish(nil)
		for _, key := range keys {
			require.True(t, p.MayContain(pebble.TableFilter, filter, key), "%x", key)
		}
	}
}
