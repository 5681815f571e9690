package opetest

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

// ErrInjected is what a call fails with under [Fail].
var ErrInjected = errors.New("opetest: injected fault")

// A Fault is what happens to a call of an [Index].
type Fault int

const (
	None       Fault = iota // the call is carried out and answered
	Fail                    // it is not carried out, and fails with ErrInjected
	LostBefore              // a commit is not carried out; its outcome is reported as unknown
	LostAfter               // a commit is carried out; its outcome is reported as unknown
	Late                    // its outcome is reported as unknown; [Index.Release] carries it out
)

// An Op is a call that a hook is asked about.
type Op struct {
	N      int // counts the calls, from 1
	Unit   ope.Unit
	Commit bool        // else a read
	Change *ope.Change // of a commit; not to be modified
}

// Index is an [ope.Index] in memory. It is stricter than the contract: it refuses a unit name that
// is too long, a key that is put twice, and a state that falls.
type Index struct {
	mu      sync.Mutex
	units   map[ope.Unit]*memoryUnit
	hook    func(ctx context.Context, op Op) Fault
	late    []func()
	calls   int
	commits int
}

type memoryUnit struct {
	meta    ope.Meta
	records recordList
}

var _ ope.Index = (*Index)(nil)

// NewIndex returns an empty index that behaves well until [Index.Inject] is called.
func NewIndex() *Index { return &Index{units: map[ope.Unit]*memoryUnit{}} }

// Inject lets the hook decide the fault of each call from now on; nil ends it. The hook is called
// before the call is carried out, outside of any lock: it may block, to delay or reorder calls,
// and it may use the index. Faults other than None and Fail make a read fail as Fail does.
func (ix *Index) Inject(hook func(ctx context.Context, op Op) Fault) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.hook = hook
}

// Release carries out the commits that are late, in the order of their calls, each under its own
// condition as it is now. It returns their number.
func (ix *Index) Release() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	n := len(ix.late)
	for _, commit := range ix.late {
		commit()
	}
	ix.late = nil
	return n
}

// Commits returns how many commits were applied.
func (ix *Index) Commits() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.commits
}

// begin counts the call and asks the hook about it.
func (ix *Index) begin(ctx context.Context, op Op) (Fault, error) {
	ix.mu.Lock()
	ix.calls++
	op.N = ix.calls
	hook := ix.hook
	ix.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Fail, err
	}
	if len(op.Unit) > 64 {
		return Fail, fmt.Errorf("opetest: a unit has at most 64 bytes, not %d", len(op.Unit))
	}
	fault := None
	if hook != nil {
		fault = hook(ctx, op)
	}
	if fault == Fail || fault != None && !op.Commit {
		return Fail, ErrInjected
	}
	return fault, ctx.Err() // the hook may have waited for it
}

// Read implements [ope.Index].
func (ix *Index) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if _, err := ix.begin(ctx, Op{Unit: unit}); err != nil {
		return ope.View{}, err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	u := ix.units[unit]
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
func (ix *Index) Commit(ctx context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if err := disjoint(change); err != nil {
		return false, err
	}
	fault, err := ix.begin(ctx, Op{Unit: unit, Commit: true, Change: &change})
	if err != nil {
		return false, err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	switch fault {
	case LostBefore:
		return false, ope.ErrUnknownOutcome
	case LostAfter:
		if _, err := ix.commit(unit, cond, change); err != nil {
			return false, err
		}
		return false, ope.ErrUnknownOutcome
	case Late:
		cond, change := cloneCondition(cond), cloneChange(change)
		ix.late = append(ix.late, func() { ix.commit(unit, cond, change) })
		return false, ope.ErrUnknownOutcome
	}
	return ix.commit(unit, cond, change)
}

// commit is called with the lock held.
func (ix *Index) commit(unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	u := ix.units[unit]
	if u == nil {
		u = new(memoryUnit)
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
		return false, fmt.Errorf("opetest: the state of a unit falls from %d to %d", u.meta.State, change.Meta.State)
	}
	for _, key := range change.Deletes {
		u.records.delete(key)
	}
	for _, r := range change.Puts {
		u.records.put(cloneRecord(r))
	}
	u.meta = change.Meta
	ix.units[unit] = u
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
			return errors.New("opetest: a change puts a key twice")
		}
		put[string(r.Key)] = true
	}
	for _, key := range change.Deletes {
		if put[string(key)] {
			return errors.New("opetest: a change puts and deletes the same key")
		}
	}
	return nil
}

func cloneRecord(r ope.Record) ope.Record {
	return ope.Record{Key: append([]byte{}, r.Key...), Value: append([]byte{}, r.Value...)}
}

func cloneCondition(c ope.Condition) ope.Condition {
	if c.Nonce != nil {
		nonce := *c.Nonce
		c.Nonce = &nonce
	}
	c.Absent = cloneKeys(c.Absent)
	return c
}

func cloneChange(c ope.Change) ope.Change {
	puts := make([]ope.Record, len(c.Puts))
	for i, r := range c.Puts {
		puts[i] = cloneRecord(r)
	}
	c.Puts, c.Deletes = puts, cloneKeys(c.Deletes)
	return c
}

func cloneKeys(keys [][]byte) [][]byte {
	out := make([][]byte, len(keys))
	for i, key := range keys {
		out[i] = bytes.Clone(key)
	}
	return out
}
