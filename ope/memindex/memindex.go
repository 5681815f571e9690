// Package memindex holds an [ope.Index] in memory. It serves benchmarks, measurements and tests.
// What it holds ends with the process.
package memindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Index is an [ope.Index] in memory. It is stricter than the contract: it refuses a unit name that
// is too long, a key that is put twice, and a state that falls. Goroutines may share it. The zero Index is empty.
type Index struct {
	mu      sync.Mutex
	units   map[ope.Unit]*unit
	commits int
}

type unit struct {
	meta    ope.Meta
	records recordList
}

var _ ope.Index = (*Index)(nil)

// New returns an empty index.
func New() *Index { return new(Index) }

// Commits returns how many commits were applied.
func (ix *Index) Commits() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.commits
}

// check refuses a call that no index carries out.
func check(ctx context.Context, name ope.Unit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(name) > 64 {
		return fmt.Errorf("memindex: a unit has at most 64 bytes, not %d", len(name))
	}
	return nil
}

// Read implements [ope.Index].
func (ix *Index) Read(ctx context.Context, name ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if err := check(ctx, name); err != nil {
		return ope.View{}, err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	u := ix.units[name]
	if u == nil {
		return ope.View{}, nil
	}
	view := ope.View{Meta: u.meta}
	for r := range u.records.from(from) {
		if to != nil && bytes.Compare(r.Key, to) >= 0 {
			break
		}
		if limit > 0 && len(view.Records) == limit {
			view.More = true
			break
		}
		view.Records = append(view.Records, cloneRecord(r))
	}
	return view, nil
}

// Commit implements [ope.Index].
func (ix *Index) Commit(ctx context.Context, name ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if err := check(ctx, name); err != nil {
		return false, err
	}
	if err := disjoint(change); err != nil {
		return false, err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	u := ix.units[name]
	if u == nil {
		u = new(unit)
	}
	if cond.State != u.meta.State || cond.Generation != u.meta.Generation || cond.Nonce != nil && *cond.Nonce != u.meta.Nonce {
		return false, nil
	}
	for _, key := range cond.Absent {
		if u.records.has(key) {
			return false, nil
		}
	}
	if change.Meta.State < u.meta.State {
		return false, fmt.Errorf("memindex: the state of a unit falls from %d to %d", u.meta.State, change.Meta.State)
	}
	for _, key := range change.Deletes {
		u.records.delete(key)
	}
	for _, r := range change.Puts {
		u.records.put(cloneRecord(r))
	}
	u.meta = change.Meta
	if ix.units == nil {
		ix.units = make(map[ope.Unit]*unit)
	}
	ix.units[name] = u
	ix.commits++
	return true, nil
}

// A recordList is records in ascending order, in chunks: a unit may have a million, and one slice
// of them would be moved by every insert.
type recordList [][]ope.Record // no chunk is empty

const recordChunk = 512

// find returns the chunk and the place in it of the first record at or above the key. Where the key
// is above all, it is the end of the last chunk.
func (l recordList) find(key []byte) (chunk, i int, found bool) {
	above := func(r ope.Record, key []byte) int { return bytes.Compare(r.Key, key) }
	chunk, found = slices.BinarySearchFunc(l, key, func(c []ope.Record, key []byte) int { return above(c[0], key) })
	if found || chunk == 0 {
		return chunk, 0, found
	}
	i, found = slices.BinarySearchFunc(l[chunk-1], key, above)
	return chunk - 1, i, found
}

func (l recordList) has(key []byte) bool {
	_, _, found := l.find(key)
	return found
}

func (l recordList) from(key []byte) iter.Seq[ope.Record] {
	return func(yield func(ope.Record) bool) {
		chunk, i, _ := l.find(key)
		for ; chunk < len(l); chunk, i = chunk+1, 0 {
			for _, r := range l[chunk][i:] {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (l *recordList) put(r ope.Record) {
	if len(*l) == 0 {
		*l = recordList{{r}}
		return
	}
	chunk, i, found := l.find(r.Key)
	c := (*l)[chunk]
	if found {
		c[i] = r
		return
	}
	c = slices.Insert(c, i, r)
	(*l)[chunk] = c
	if half := len(c) / 2; len(c) >= recordChunk {
		(*l)[chunk] = slices.Clone(c[:half])
		*l = slices.Insert(*l, chunk+1, slices.Clone(c[half:]))
	}
}

func (l *recordList) delete(key []byte) {
	chunk, i, found := l.find(key)
	if !found {
		return
	}
	if (*l)[chunk] = slices.Delete((*l)[chunk], i, i+1); len((*l)[chunk]) == 0 {
		*l = slices.Delete(*l, chunk, chunk+1)
	}
}

func disjoint(change ope.Change) error {
	put := make(map[string]bool, len(change.Puts))
	for _, r := range change.Puts {
		if put[string(r.Key)] {
			return errors.New("memindex: a change puts a key twice")
		}
		put[string(r.Key)] = true
	}
	for _, key := range change.Deletes {
		if put[string(key)] {
			return errors.New("memindex: a change puts and deletes the same key")
		}
	}
	return nil
}

func cloneRecord(r ope.Record) ope.Record {
	return ope.Record{Key: append([]byte{}, r.Key...), Value: append([]byte{}, r.Value...)}
}
