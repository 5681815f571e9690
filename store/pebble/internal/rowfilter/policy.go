package rowfilter

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// Policy returns Bloom filters of rows, in tables. A row has one entry of so many bits, however many cells it has, which
// makes filters smaller than those of cells, and faster to make. Filters then say nothing of the cells that a row lacks.
//
// The function returns the length of the part of a key that says which row it is of, or an error for keys that have no row.
// They are in filters by themselves.
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
	return writer{p.bloom.NewWriter(t), p}
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
}

func (w writer) AddKey(key []byte) { w.FilterWriter.AddKey(w.policy.row(key)) }
