package opetest

import (
	"context"
	"errors"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
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
)

// An Op is a call that a hook is asked about.
type Op struct {
	N      int // counts the calls, from 1
	Unit   ope.Unit
	Commit bool        // else a read
	Change *ope.Change // of a commit; not to be modified
}

// Index is a [memindex.Index] whose calls can be made to fail.
type Index struct {
	memory *memindex.Index
	mu     sync.Mutex
	hook   func(ctx context.Context, op Op) Fault
	calls  int
}

var _ ope.Index = (*Index)(nil)

// NewIndex returns an empty index that behaves well until [Index.Inject] is called.
func NewIndex() *Index { return &Index{memory: memindex.New()} }

// Inject lets the hook decide the fault of each call from now on; nil ends it. The hook is called
// before the call is carried out, outside of any lock: it may block, to delay or reorder calls,
// and it may use the index. Faults other than None and Fail make a read fail as Fail does.
func (ix *Index) Inject(hook func(ctx context.Context, op Op) Fault) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.hook = hook
}

// Commits returns how many commits were applied.
func (ix *Index) Commits() int { return ix.memory.Commits() }

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
	return ix.memory.Read(ctx, unit, from, to, limit)
}

// Commit implements [ope.Index].
func (ix *Index) Commit(ctx context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	fault, err := ix.begin(ctx, Op{Unit: unit, Commit: true, Change: &change})
	if err != nil {
		return false, err
	}
	if fault == LostBefore {
		return false, ope.ErrUnknownOutcome
	}
	applied, err := ix.memory.Commit(ctx, unit, cond, change)
	if fault == LostAfter && err == nil {
		return false, ope.ErrUnknownOutcome
	}
	return applied, err
}
