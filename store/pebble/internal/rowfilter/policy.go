package rowfilter

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// Policy returns Bloom filters of rows, in tables. A row has one entry of so many bits, however many cells it has, which
// makes filters smaller than those of cells, and faster to make. Filters then say nothing of the cells that a row lacks.
//
// The function returns the length of the part of a key that says which row it is of, or an error for keys that have no row.
// They are in filters by themselves. No key begins with that part of another row.
func Policy(bits int, prefixLen func(key []byte) (int, error)) pebble.FilterPolicy {
	return policy{bloom.FilterPolicy(bits), prefixLen}
}

type policy struct {
	bloom     bloom.FilterPolicy
	prefixLen func(key []byte) (int, error)
}

// Name is written into tables. An engine that does not know it reads these tables without their filters.
func (p policy) Name() string { return "rangecrypt.rows.1" }

func (p policy) MayContain(t pebble.FilterType, filter, key []byte) bool {
	return p.bloom.MayContain(t, filter, p.row(key))
}

func (p policy) NewWriter(t pebble.FilterType) pebble.FilterWriter {
	return &writer{FilterWriter: p.bloom.NewWriter(t), policy: p}
}

func (p policy) row(key []byte) []byte {
	if n, err := p.prefixLen(key); err == nil {
		return key[:n]
	}
	return key
}

type writer struct {
	pebble.FilterWriter // which takes equal keys in a row for one
	policy              policy
	last                []byte // the row of the last key that had one
}

// AddKey adds a row once, whose cells come one after the other: to look where a key's row ends, and to hash it, takes longer.
func (w *writer) AddKey(key []byte) {
	if len(w.last) > 0 && bytes.HasPrefix(key, w.last) {
		return
	}
	row := w.policy.row(key)
	if len(row) < len(key) {
		w.last = append(w.last[:0], row...)
	}
	w.FilterWriter.AddKey(row)
}

func (w *writer) Finish(dst []byte) []byte {
	w.last = w.last[:0]
	return w.FilterWriter.Finish(dst)
}
