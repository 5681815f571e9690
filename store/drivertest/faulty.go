package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// ErrInjected is wrapped by every error that [NewFaulty] makes up.
var ErrInjected = errors.New("drivertest: injected fault")

// An Op is one call of a database, as it is shown to the function that decides its fate.
type Op struct {
	N      int    // counts the calls of the database from 1
	Method string // "Family", "Families", "Drop", "Snapshot", "Get", "Scan", "Apply", "Replace", "CheckAndPut" or "Commit"
	Family string // its name, where the call has one
	Row    []byte // of Get, CheckAndPut and Commit; not to be changed
}

// Reads reports whether the call changes nothing.
func (o Op) Reads() bool {
	return o.Method == "Families" || o.Method == "Snapshot" || o.Method == "Get" || o.Method == "Scan"
}

// Conditional reports whether the call is a CheckAndPut or Commit.
func (o Op) Conditional() bool { return o.Method == "CheckAndPut" || o.Method == "Commit" }

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
	return wrap(db, f.call, func() { f.release(true) })
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

// WithLatency wraps a database so that every call, and every thousand rows of a scan, takes as
// much longer as delay says. The result has the optional interfaces that db has.
func WithLatency(db driver.DB, delay func() time.Duration) driver.DB {
	wait := func(ctx context.Context) error {
		timer := time.NewTimer(delay())
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return done(ctx)
		}
	}
	return wrap(db, func(ctx context.Context, op Op, c call) error {
		if err := wait(ctx); err != nil {
			return err
		}
		if op.Method == "Scan" {
			return c.make(func(rows int) error {
				if rows%1000 == 0 {
					return wait(ctx)
				}
				return nil
			})
		}
		return c.make(nil)
	}, nil)
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

func (f *faulty) call(ctx context.Context, op Op, c call) error {
	f.mu.Lock()
	f.n++
	op.N = f.n
	crashed := f.crashed
	var fault Fault
	if !crashed {
		fault = f.decide(op)
	}
	f.crashed = f.crashed || fault == CrashBefore || fault == CrashAfter
	if fault == FailLate && !op.Reads() && c.later != nil {
		f.late = append(f.late, lateCall{f.n + lateBy, c.later()})
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
	case fault == FailPartly && c.partly != nil:
		return errors.Join(c.partly(), lost)
	case fault == FailPartly && op.Method == "Scan":
		return c.make(func(rows int) error {
			if rows == 2 {
				return lost
			}
			return nil
		})
	case fault == FailPartly, fault == FailAfter, fault == CrashAfter:
		if err := c.make(nil); err != nil {
			return err
		}
		return lost
	}
	return c.make(nil)
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

// A call is what a hook may do with a call.
type call struct {
	// make makes the call. A scan asks rows, with the number of rows yielded so far, whether to
	// go on.
	make func(rows func(int) error) error

	// partly, of Apply and Replace, makes every other change; nil otherwise.
	partly func() error

	// later, of mutations, copies what was passed and returns a function that makes the call; nil
	// otherwise.
	later func() func()
}

type hook func(ctx context.Context, op Op, c call) error

// wrap returns db with all calls going through the hook.
func wrap(db driver.DB, h hook, closing func()) driver.DB {
	w := &wrappedDB{db: db, hook: h, closing: closing}
	if s, ok := db.(driver.Snapshotter); ok {
		return &wrappedSnapshotter{w, s}
	}
	return w
}

type wrappedDB struct {
	db      driver.DB
	hook    hook
	closing func()
}

func (w *wrappedDB) Family(ctx context.Context, spec driver.FamilySpec) (f driver.Family, err error) {
	err = w.hook(ctx, Op{Method: "Family", Family: spec.Name}, call{make: func(func(int) error) error {
		f, err = w.db.Family(ctx, spec)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return wrapFamily(f, spec.Name, w.hook), nil
}

func (w *wrappedDB) Families(ctx context.Context) (names []string, err error) {
	err = w.hook(ctx, Op{Method: "Families"}, call{make: func(func(int) error) error {
		names, err = w.db.Families(ctx)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return names, nil
}

func (w *wrappedDB) Drop(ctx context.Context, name string) error {
	return w.hook(ctx, Op{Method: "Drop", Family: name}, call{make: func(func(int) error) error {
		return w.db.Drop(ctx, name)
	}})
}

func (w *wrappedDB) Close() error {
	if w.closing != nil {
		w.closing()
	}
	return w.db.Close()
}

type wrappedSnapshotter struct {
	*wrappedDB
	db driver.Snapshotter
}

func (w *wrappedSnapshotter) Snapshot() (s driver.Snapshot, err error) {
	err = w.hook(context.Background(), Op{Method: "Snapshot"}, call{make: func(func(int) error) error {
		s, err = w.db.Snapshot()
		return err
	}})
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return &wrappedSnapshot{s, w.hook}, nil
}

type wrappedSnapshot struct {
	driver.Snapshot
	hook hook
}

func (w *wrappedSnapshot) Family(ctx context.Context, spec driver.FamilySpec) (f driver.Family, err error) {
	err = w.hook(ctx, Op{Method: "Family", Family: spec.Name}, call{make: func(func(int) error) error {
		f, err = w.Snapshot.Family(ctx, spec)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return wrapFamily(f, spec.Name, w.hook), nil
}

func wrapFamily(f driver.Family, name string, h hook) driver.Family {
	w := &wrappedFamily{f, name, h}
	if c, ok := f.(driver.Committer); ok {
		return &wrappedCommitter{w, c}
	}
	return w
}

type wrappedFamily struct {
	family driver.Family
	name   string
	hook   hook
}

func (w *wrappedFamily) Get(ctx context.Context, row []byte, s driver.Slice) (cells []driver.Cell, err error) {
	err = w.hook(ctx, Op{Method: "Get", Family: w.name, Row: row}, call{make: func(func(int) error) error {
		cells, err = w.family.Get(ctx, row, s)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return cells, nil
}

func (w *wrappedFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		stopped := false
		err := w.hook(ctx, Op{Method: "Scan", Family: w.name}, call{make: func(rows func(int) error) error {
			n := 0
			for row, err := range w.family.Scan(ctx, r) {
				if err != nil {
					return err
				}
				if !yield(row, nil) {
					stopped = true
					return nil
				}
				if n++; rows != nil {
					if err := rows(n); err != nil {
						return err
					}
				}
			}
			return nil
		}})
		if err != nil && !stopped {
			yield(driver.Row{}, err)
		}
	}
}

func (w *wrappedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	return w.hook(ctx, Op{Method: "Apply", Family: w.name}, call{
		make:   func(func(int) error) error { return w.family.Apply(ctx, mutations...) },
		partly: func() error { return w.family.Apply(ctx, everyOther(mutations)...) },
		later: func() func() {
			kept := cloneMutations(mutations)
			return func() { _ = w.family.Apply(context.Background(), kept...) }
		},
	})
}

func (w *wrappedFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	err = w.hook(ctx, Op{Method: "Replace", Family: w.name}, call{
		make: func(func(int) error) error {
			late, err = w.family.Replace(ctx, replacements...)
			return err
		},
		partly: func() error {
			_, err := w.family.Replace(ctx, everyOther(replacements)...)
			return err
		},
		later: func() func() {
			kept := cloneReplacements(replacements)
			return func() { _, _ = w.family.Replace(context.Background(), kept...) }
		},
	})
	if err != nil {
		return nil, err
	}
	return late, nil
}

func everyOther[T any](all []T) (some []T) {
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

func (w *wrappedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (ok bool, err error) {
	err = w.hook(ctx, Op{Method: "CheckAndPut", Family: w.name, Row: row}, call{
		make: func(func(int) error) error {
			ok, err = w.family.CheckAndPut(ctx, row, expect, puts...)
			return err
		},
		later: func() func() {
			row, expect, puts := bytes.Clone(row), cloneCells([]driver.Cell{expect}), cloneCells(puts)
			return func() { _, _ = w.family.CheckAndPut(context.Background(), row, expect[0], puts...) }
		},
	})
	return ok && err == nil, err
}

type wrappedCommitter struct {
	*wrappedFamily
	committer driver.Committer
}

func (w *wrappedCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (ok bool, err error) {
	err = w.hook(ctx, Op{Method: "Commit", Family: w.name, Row: row}, call{
		make: func(func(int) error) error {
			ok, err = w.committer.Commit(ctx, row, expect, puts, deletes)
			return err
		},
		later: func() func() {
			row, expect, puts, deletes := bytes.Clone(row), cloneCells(expect), cloneCells(puts), cloneAll(deletes)
			return func() { _, _ = w.committer.Commit(context.Background(), row, expect, puts, deletes) }
		},
	})
	return ok && err == nil, err
}

// Clones keep nil and empty apart.

func cloneAll(bs [][]byte) [][]byte {
	out := slices.Clone(bs)
	for i := range out {
		out[i] = bytes.Clone(out[i])
	}
	return out
}

func cloneCells(cells []driver.Cell) []driver.Cell {
	out := slices.Clone(cells)
	for i, c := range out {
		out[i].Qualifier, out[i].Value = bytes.Clone(c.Qualifier), bytes.Clone(c.Value)
	}
	return out
}

func cloneMutations(mutations []driver.Mutation) []driver.Mutation {
	out := slices.Clone(mutations)
	for i, m := range out {
		out[i].Row, out[i].Puts, out[i].Deletes = bytes.Clone(m.Row), cloneCells(m.Puts), cloneAll(m.Deletes)
	}
	return out
}

func cloneReplacements(replacements []driver.Replacement) []driver.Replacement {
	out := slices.Clone(replacements)
	for i, r := range out {
		out[i].Row, out[i].Seen = bytes.Clone(r.Row), cloneCells([]driver.Cell{r.Seen})[0]
		out[i].Puts, out[i].Deletes = cloneCells(r.Puts), cloneAll(r.Deletes)
	}
	return out
}
