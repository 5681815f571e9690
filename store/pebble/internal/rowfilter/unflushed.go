// Package rowfilter says of rows, by filters, where they need not be looked for: [Unflushed] in memtables, [Policy] in
// tables.
package rowfilter

import (
	"hash/maphash"
	"sync"
)

// Unflushed is a set of rows that memtables may have changes of. It may hold others, and lacks none that was added and is
// not yet in a table: then tables alone have all of a row that it does not hold.
//
// It relies on this:
//
//   - One goroutine writes. It adds the rows of a write before the engine gets it, and calls Add again only after
//     the engine has applied the write.
//   - FlushBegins and FlushEnds are called as the engine's events are, which is with the engine's own lock held. So no
//     memtable is closed between the choice of what is flushed and FlushBegins, and at FlushEnds new iterators have
//     the tables that the flush has made.
//   - The engine makes one flush at a time, of one or more of the oldest memtables that are closed: of all before
//     the one that is written, since what one goroutine writes is complete when it goes on.
//   - The engine has nothing in memtables at first. Open flushes what it replays.
//
// A filter takes rows until a flush begins, and is then closed by the next Add, and a new one takes over. At that moment the engine
// has all writes of the closed one, in tables, in closed memtables, or in the one that is being written, M. A flush that begins later
// takes the closed ones, and M if that was closed meanwhile. If it was not, M is the oldest memtable when that flush has
// ended, and so the next flush takes it. So after two that succeeded, everything is in tables, and the filter is dropped. (A
// flush that began before the filter was closed may be one of what went before, so that it does not count.)
//
// Who reads asks Has first, and makes an iterator of tables only afterwards. A change that was acknowledged by then was added
// before. Either its filter still holds it, or that filter was dropped before the iterator was made, which then has its table.
type Unflushed struct {
	seed maphash.Seed

	mu      sync.RWMutex
	filters []*filter // from the oldest to the one that takes rows
	begun   uint64    // flushes so far
	next    bool      // a flush has begun since the last filter was made
}

// A filter is a Bloom filter in blocks of a cache line: 4 bits of one block for each row. With 512 KiB, a memtable of
// 32 MiB that is full of cells of 100 bytes, each a row of its own, makes it wrong of one other row in a hundred, and one with rows of
// usual lengths of one in ten thousand. Smaller ones would be wrong too often for index entries; larger ones leave caches.
type filter struct {
	blocks [blocks][8]uint64

	closed  bool
	begun   uint64 // flushes that had begun when it was closed
	flushed int    // flushes that began later and succeeded
}

const (
	blockBits = 13
	blocks    = 1 << blockBits

	flushesToDrop = 2
)

// NewUnflushed returns a set without rows.
func NewUnflushed() *Unflushed { return &Unflushed{seed: maphash.MakeSeed()} }

// Hash returns what stands for a row in this set.
func (u *Unflushed) Hash(row []byte) uint64 { return maphash.Bytes(u.seed, row) }

// Add adds rows by their hashes.
func (u *Unflushed) Add(hashes ...uint64) {
	if len(hashes) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.filters); n == 0 || u.next {
		if n > 0 && !u.filters[n-1].closed {
			u.filters[n-1].closed, u.filters[n-1].begun = true, u.begun
		}
		u.filters = append(u.filters, new(filter))
		u.next = false
	}
	f := u.filters[len(u.filters)-1]
	for _, h := range hashes {
		f.add(h)
	}
}

// Has reports whether a row may be in the set.
func (u *Unflushed) Has(hash uint64) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, f := range u.filters {
		if f.has(hash) {
			return true
		}
	}
	return false
}

// FlushBegins says that the engine has begun a flush.
func (u *Unflushed) FlushBegins() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.begun++
	u.next = true
}

// FlushEnds says that the flush that began last has succeeded. One that failed has none.
func (u *Unflushed) FlushEnds() {
	u.mu.Lock()
	defer u.mu.Unlock()
	kept := u.filters[:0]
	for _, f := range u.filters {
		if f.closed && f.begun < u.begun {
			f.flushed++
		}
		if f.flushed < flushesToDrop {
			kept = append(kept, f)
		}
	}
	clear(u.filters[len(kept):])
	u.filters = kept
}

// line returns the block of a hash; the other bits of the hash say which bits of it.
func (f *filter) line(hash uint64) (*[8]uint64, uint64) {
	return &f.blocks[hash%blocks], hash >> blockBits
}

func (f *filter) add(hash uint64) {
	line, bits := f.line(hash)
	for range 4 {
		line[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
}

func (f *filter) has(hash uint64) bool {
	line, bits := f.line(hash)
	for range 4 {
		if line[bits>>6&7]>>(bits&63)&1 == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}
