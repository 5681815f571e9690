package opetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	records []ope.Record // ascending
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
	first, _ := u.find(from)
	for _, r := range u.records[first:] {
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
		if _, found := u.find(key); found {
			return false, nil
		}
	}
	if change.Meta.State < u.meta.State {
		return false, fmt.Errorf("opetest: the state of a unit falls from %d to %d", u.meta.State, change.Meta.State)
	}
	for _, key := range change.Deletes {
		if i, found := u.find(key); found {
			u.records = slices.Delete(u.records, i, i+1)
		}
	}
	for _, r := range change.Puts {
		if i, found := u.find(r.Key); found {
			u.records[i] = cloneRecord(r)
		} else {
			u.records = slices.Insert(u.records, i, cloneRecord(r))
		}
	}
	u.meta = change.Meta
	ix.units[unit] = u
	ix.commits++
	return true, nil
}

func (u *memoryUnit) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(u.records, key, func(r ope.Record, key []byte) int { return bytes.Compare(r.Key, key) })
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
