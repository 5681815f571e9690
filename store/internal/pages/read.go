package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A run is the rows of a page that are its own: those before one.
type run struct {
	*page
	to int
}

// cellsOf returns what is read of a page.
func cellsOf(sealed bool) driver.Slice {
	if sealed {
		return driver.Slice{}
	}
	return driver.Slice{Only: [][]byte{plainCell}}
}

// find returns the page that a key is in, or nil if its part has none.
func (t *Table) find(ctx context.Context, e *engine.Engine, key []byte, sealed bool) (*page, error) {
	return t.findWith(ctx, e, key, sealed, cellsOf(sealed))
}

func (t *Table) findWith(ctx context.Context, e *engine.Engine, key []byte, sealed bool, cells driver.Slice) (*page, error) {
	of := partOf(e.Spec, key)
	for attempt := 0; ; attempt++ {
		var found *page
		r := driver.Range{Start: of.root, End: append(bytes.Clone(key), 0), Reverse: true, Limit: 1, Cells: cells}
		for row, err := range e.Data.Scan(ctx, r) {
			if err != nil {
				return nil, err
			}
			if found, err = t.open(e.View, row, sealed); err != nil {
				return nil, err
			}
		}
		if found == nil {
			later, err := t.hasFrom(ctx, e, part{key, of.end})
			if err != nil || !later {
				return nil, err
			}
		}
		// Pages are made from the last to the first, and the first one of a part before them. So the last one before a key
		// reaches it, unless it was made or cut between the looks at a key after it and at its own.
		if found != nil && found.reaches(key) {
			return found, nil
		}
		if attempt == attempts {
			return nil, errMissing
		}
		if err := engine.WaitAgain(ctx, "page_cut", attempt); err != nil {
			return nil, unfit(err)
		}
	}
}

// unfit says what was waited for when a call ended.
func unfit(err error) error {
	return fmt.Errorf("pages do not fit together, as while others cut them, or if one is missing: to verify the table tells: %w", err)
}

// hasFrom reports whether a page begins at one of the given keys.
func (t *Table) hasFrom(ctx context.Context, e *engine.Engine, keys part) (has bool, err error) {
	for _, err := range e.Data.Scan(ctx, driver.Range{Start: keys.root, End: keys.end, Limit: 1, Cells: driver.Slice{Only: [][]byte{versionCell}}}) {
		return err == nil, err
	}
	return false, nil
}

// errBroken is returned where the pages that a scan read do not form a chain.
var errBroken = errors.New("pages: pages that do not follow each other")

// errUncut is returned where a scan ended within a page that is being cut: pages after the end may have some of its rows by now.
var errUncut = errors.New("pages: a page that is being cut reaches beyond the end")

// A walk goes along chains of pages. What does not fit together it reads again: between two reads another client may have cut
// a page.
type walk struct {
	t      *Table
	e      *engine.Engine
	sealed bool
	stamps bool // pages are read with stamps
	yield  func(run) bool

	damaged func(key []byte, err error) // is told of pages that cannot be read or are missing, which are left out; nil: they end the walk

	held *page  // whose rows are yielded when it is known which of them the next page takes over
	of   part   // that it is in
	from []byte // before which all rows were yielded
	past *part  // keys without a gap that were yielded last
	gap  bool   // the page before was left out, so that nothing says where the next one of the part begins
	done bool   // the caller wants no more

	ahead []*page // where ranges begin, by key
}

// step takes the next page of a scan.
func (w *walk) step(p *page) error {
	if err := w.reach(p.key); err != nil || w.done {
		return err // where done, the caller does not ask whether the next one is right
	}
	w.hold(p)
	return nil
}

// reach yields what is before the page with a key, and returns errBroken if no page is to begin there.
func (w *walk) reach(key []byte) error {
	switch same := w.of.has(key); {
	case same && w.gap:
	case same && w.held != nil:
		to := w.held.next(key)
		if to < 0 {
			return errBroken
		}
		w.emit(to, key)
	default:
		if w.held != nil {
			if w.held.high != nil {
				return errBroken
			}
			if w.emit(w.held.rows, w.of.end); w.done {
				return nil
			}
		}
		w.of = partOf(w.e.Spec, key)
		w.held, w.from = nil, w.of.root
		if !bytes.Equal(key, w.of.root) {
			return errBroken
		}
	}
	w.gap = false
	return nil
}

// isDamage reports whether an error is about what a page has.
func isDamage(err error) bool {
	return errors.Is(err, fault.ErrTampered) || errors.Is(err, fault.ErrWrongKey)
}

// leaveOut goes on behind a page that cannot be read.
func (w *walk) leaveOut(key []byte, err error) error {
	if w.damaged == nil || !isDamage(err) || !hasPart(w.e.Spec, key) {
		return err
	}
	if err := w.reach(key); err != nil || w.done {
		return err
	}
	w.damaged(key, err)
	w.held, w.from, w.gap = nil, key, true
	return nil
}

func (w *walk) hold(p *page) { w.held, w.from = p, p.key }

// end ends a scan of keys below a bound, where nil is none.
func (w *walk) end(bound []byte) error {
	if w.held == nil {
		return nil
	}
	till := w.till()
	switch {
	case w.held.high != nil && (bound == nil || bytes.Compare(w.held.high, bound) < 0):
		return errBroken
	case len(w.held.cuts) > 0 && bound != nil && (till == nil || bytes.Compare(till, bound) > 0):
		return errUncut
	}
	w.emit(w.held.rows, till)
	w.held = nil
	return nil
}

// till returns where the held page ends.
func (w *walk) till() []byte {
	if w.held.high == nil {
		return w.of.end
	}
	return w.held.high
}

// emit yields the rows of the held page before one, which has all that are below a key.
func (w *walk) emit(to int, till []byte) {
	if w.done {
		return
	}
	if w.past == nil || !bytes.Equal(w.past.end, w.held.key) {
		w.past = &part{root: w.held.key}
	}
	w.past.end = till
	w.done = !w.yield(run{w.held, to})
}

// cells returns what is read of a page.
func (w *walk) cells() driver.Slice {
	s := cellsOf(w.sealed)
	s.Stamps = w.stamps
	return s
}

// scan goes along the pages that a scan of the database reads.
func (w *walk) scan(ctx context.Context, r driver.Range) error {
	r.Cells = w.cells()
	for row, err := range w.e.Data.Scan(ctx, r) {
		if err != nil {
			return err
		}
		p, err := w.t.open(w.e.View, row, w.sealed)
		if err == nil {
			err = w.step(p)
		} else {
			err = w.leaveOut(row.Key, err)
		}
		if err != nil || w.done {
			return err
		}
	}
	return w.end(r.End)
}

// between goes along the pages that have keys from one on that are below another one. Both are of parts that a scan reads in
// order. It begins with the page that has the first key.
func (w *walk) between(ctx context.Context, start, end []byte) error {
	for attempt := 0; ; {
		w.of, w.held, w.from, w.gap = partOf(w.e.Spec, start), nil, start, false
		err := w.attempt(ctx, start, end)
		switch {
		case errors.Is(err, errUncut):
			start, end, attempt = w.from, w.till(), 0
			continue
		case !errors.Is(err, errBroken):
			return err
		}
		w.ahead = nil // what was read earlier may be what does not fit
		if attempt++; bytes.Compare(w.from, start) > 0 {
			start, attempt = w.from, 0
		}
		if attempt > attempts {
			if err := w.leaveOutMissing(ctx, end); !errors.Is(err, errBroken) {
				return err
			}
			start, attempt = w.from, 0
		}
		if err := engine.WaitAgain(ctx, "page_cut", attempt); err != nil {
			return unfit(err)
		}
	}
}

// leaveOutMissing goes on behind pages that are missing, whose number nobody knows. The page before them is whole.
func (w *walk) leaveOutMissing(ctx context.Context, end []byte) error {
	if w.damaged == nil {
		return errMissing
	}
	r, place := driver.Range{Start: append(bytes.Clone(w.from), 0), End: end}, w.from
	if w.held != nil {
		if w.held.high != nil {
			place = w.held.high
		}
		if w.emit(w.held.rows, w.till()); w.done {
			return nil
		}
	}
	w.damaged(place, errMissing)
	w.held, w.gap = nil, true
	return w.scan(ctx, r)
}

func (w *walk) attempt(ctx context.Context, start, end []byte) error {
	r := driver.Range{Start: w.of.root, End: end}
	if !bytes.Equal(start, w.of.root) {
		first := w.aheadOf(start)
		if first == nil {
			var err error
			if first, err = w.t.findWith(ctx, w.e, start, w.sealed, w.cells()); err != nil {
				return err
			}
		}
		switch {
		case first == nil && w.of.end != nil && (end == nil || bytes.Compare(w.of.end, end) < 0):
			r.Start = w.of.end // the part has no page, others may have
		case first == nil:
			return nil
		default:
			w.held = first
			till := w.till()
			if len(first.cuts) == 0 && (till == nil || end != nil && bytes.Compare(till, end) >= 0) {
				return w.end(end) // no other page has such keys
			}
			r.Start = append(bytes.Clone(first.key), 0)
		}
	}
	if err := w.scan(ctx, r); err != nil || w.done {
		return err
	}
	return w.started(ctx, end)
}

// started returns errBroken if no page was read of the part that a bound is in, and one begins at the bound or after it: the first
// page of that part is missing, or was not there yet.
func (w *walk) started(ctx context.Context, bound []byte) error {
	if w.past != nil && (w.past.end == nil || bytes.Compare(w.past.end, bound) >= 0) || !cutsPart(w.e.Spec, bound) {
		return nil
	}
	of := partOf(w.e.Spec, bound)
	later, err := w.t.hasFrom(ctx, w.e, part{bound, of.end})
	if err != nil || !later {
		return err
	}
	if bytes.Compare(w.from, of.root) < 0 {
		w.from = of.root // what is before was yielded
	}
	return errBroken
}

// all goes along all pages, part by part, in no order of the parts.
func (w *walk) all(ctx context.Context) error {
	if w.e.Spec.PrefixBytes == 0 {
		return w.between(ctx, []byte{0}, nil)
	}
	for r := (driver.Range{AnyOrder: true}); ; {
		err := w.scan(ctx, r)
		if !errors.Is(err, errBroken) {
			return err
		}
		// The rest of the part is read by itself, and the scan goes on after it.
		of := w.of
		if err := w.between(ctx, w.from, of.end); err != nil || w.done {
			return err
		}
		r.After = append(bytes.Clone(of.root), bytes.Repeat([]byte{0xff}, driver.MaxRowKey-len(of.root))...)
	}
}
