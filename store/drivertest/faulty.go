package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// ErrInjected is wrapped by every error that [NewFaulty] makes up.
var ErrInjected = errors.New("drivertest: injected fault")

// An Op is one call of a database, as it is shown to the function that decides its fate.
type Op struct {
	intercept.Op
	N int // counts the calls of the database from 1
}

// A Fault is the fate of a call.
type Fault uint8

const (
	NoFault Fault = iota

	// FailBefore: the call is not made, and its error says so: [driver.ErrUnavailable], also for
	// a conditional one.
	FailBefore

	// Lose: the call is not made, but the caller cannot know: a conditional one returns
	// [driver.ErrUnknownOutcome].
	Lose

	// FailPartly: Apply applies some of the mutations and fails, and so Replace. A scan fails
	// after some rows. Other calls are as with FailAfter.
	FailPartly

	// FailAfter: the call is made, and its answer lost. A conditional one returns
	// [driver.ErrUnknownOutcome].
	FailAfter

	// FailLate is as Lose, but the call is made after all: right before the third call from
	// then, or when the database is closed. It is what ErrUnknownOutcome means by "may still
	// be". A call that fails then is dropped. For reads it is as Lose.
	FailLate

	// CrashBefore and CrashAfter: as Lose and FailAfter, and every later call fails and does
	// nothing, as if the process had died here. Close still closes.
	CrashBefore
	CrashAfter
)

const lateBy = 3

// NewFaulty wraps a database so that decide chooses what becomes of every call, Close excepted.
// It is asked once a call, one call at a time. The result has the optional interfaces that db has.
func NewFaulty(db driver.DB, decide func(Op) Fault) driver.DB {
	f := &faulty{decide: decide}
	return intercept.New(db, f.call, func() { f.release(true) })
}

// CrashAt decides that the n-th call, counted from 1, is the last, before or after it is made.
func CrashAt(n int, after bool) func(Op) Fault {
	return func(op Op) Fault {
		switch {
		case op.N != n:
			return NoFault
		case after:
			return CrashAfter
		}
		return CrashBefore
	}
}

// Randomly decides that a call fails with the probability p, in one of the ways short of a crash.
// Equal seeds and sequences of calls give equal faults.
func Randomly(seed uint64, p float64) func(Op) Fault {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(Op) Fault {
		if r.Float64() >= p {
			return NoFault
		}
		return FailBefore + Fault(r.IntN(int(FailLate-FailBefore)+1))
	}
}

// GetEach is GetBatch by the Get of a family, one row after the other: the least that the contract allows. It is for
// wrappers of a family that have a Get of their own.
func GetEach(ctx context.Context, f driver.Family, rows [][]byte, cells driver.Slice) (found [][]driver.Cell, err error) {
	found = make([][]driver.Cell, len(rows))
	for i, row := range rows {
		if found[i], err = f.Get(ctx, row, cells); err != nil {
			return nil, err
		}
	}
	return found, nil
}

type faulty struct {
	decide func(Op) Fault

	mu      sync.Mutex
	n       int
	crashed bool
	late    []lateCall
}

type lateCall struct {
	at   int
	make func()
}

func (f *faulty) call(_ context.Context, made intercept.Op, c intercept.Call) error {
	f.mu.Lock()
	f.n++
	op := Op{made, f.n}
	crashed := f.crashed
	var fault Fault
	if !crashed {
		fault = f.decide(op)
	}
	f.crashed = f.crashed || fault == CrashBefore || fault == CrashAfter
	if fault == FailLate && !op.Reads() && c.Later != nil {
		f.late = append(f.late, lateCall{f.n + lateBy, c.Later()})
	}
	f.mu.Unlock()
	if !crashed {
		f.release(false)
	}

	lost := fmt.Errorf("%w: %w: call %d, %s", driver.ErrUnavailable, ErrInjected, op.N, op.Method)
	if op.Conditional() {
		lost = fmt.Errorf("%w: %w: call %d, %s", driver.ErrUnknownOutcome, ErrInjected, op.N, op.Method)
	}
	switch {
	case crashed:
		return fmt.Errorf("%w: %w: crashed before call %d, %s", driver.ErrUnavailable, ErrInjected, op.N, op.Method)
	case fault == FailBefore:
		return fmt.Errorf("%w: %w: refused call %d, %s", driver.ErrUnavailable, ErrInjected, op.N, op.Method)
	case fault == Lose, fault == FailLate, fault == CrashBefore:
		return lost
	case fault == FailPartly && c.Partly != nil:
		return errors.Join(c.Partly(), lost)
	case fault == FailPartly && op.Method == "Scan":
		return c.Make(func(rows int) error {
			if rows == 2 {
				return lost
			}
			return nil
		})
	case fault == FailPartly, fault == FailAfter, fault == CrashAfter:
		if err := c.Make(nil); err != nil {
			return err
		}
		return lost
	}
	return c.Make(nil)
}

// release makes the late calls that are due.
func (f *faulty) release(all bool) {
	f.mu.Lock()
	var due []func()
	for len(f.late) > 0 && (all || f.late[0].at <= f.n) {
		due = append(due, f.late[0].make)
		f.late = f.late[1:]
	}
	if f.crashed && all {
		due = nil // a dead process sends nothing
	}
	f.mu.Unlock()
	for _, do := range due {
		do()
	}
}
