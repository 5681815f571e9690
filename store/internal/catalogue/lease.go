package catalogue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/lease"
)

// With a lease, a write need not end with reading the version: it is enough that a read of it has begun a short time ago.
// Whoever relies on all writers knowing of a change waits instead until they must have read it.
//
// Say that a writer's last read of the version began at R and returned v, and that it finds at A, after all of its rows
// were acknowledged, that A - R is less than the lease. Version v+1 came after R. So at the moment of v+1 plus the lease, by
// a clock that is right, the rows are there, and whoever looks for rows of before v+1 from then on finds them. He does not
// know that moment, but one after it: when his own change was answered, or when he had read v+1 and made sure that nobody can
// read v any more. From there he waits [lease.Terms.Hold]. It matters to nobody who made the change, and whether he lives.
//
// The terms of the lease are in the root, so that those of each version are the same for all. Longer ones count with the
// version that brings them. Shorter ones count at once for writers, but whoever waits has to go by the longest that a
// writer may still have. The root says so until the wait for them is over: see [Catalogue.SetLease].

// leases are what a client knows of the lease.
type leases struct {
	mu    sync.Mutex
	terms lease.Terms // of version
	known bool        // some root was read

	version uint32        // the latest that was read
	began   time.Duration // the last read that returned it

	certain uint32        // a version that the catalogue had, for every client,
	at      time.Duration // at this time
}

// note takes over what a read of the root has returned that began at some time.
func (l *leases) note(r Root, began time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known && (r.Version < l.version || r.Version == l.version && began < l.began) {
		return
	}
	l.known, l.version, l.began, l.terms = true, r.Version, began, lease.Terms{}
	if r.Lease != nil {
		l.terms = *r.Lease
	}
}

// Leased reports whether the version that the catalogue has may be taken to be a given one: it was so when it was read last,
// and a lease is not over since that read began.
func (c *Catalogue) Leased(version uint32) bool {
	c.leases.mu.Lock()
	defer c.leases.mu.Unlock()
	l := &c.leases
	return l.terms.Grant > 0 && l.version == version && c.Clock()-l.began < l.terms.Granted()
}

// changed notes that this client has made a version.
func (c *Catalogue) changed(version uint32) {
	c.see(version)
	c.isCertain(version)
}

// isCertain notes that every client which reads the catalogue from now on finds a version, or a later one.
func (c *Catalogue) isCertain(version uint32) {
	c.leases.mu.Lock()
	defer c.leases.mu.Unlock()
	if version > c.leases.certain {
		c.leases.certain, c.leases.at = version, c.Clock()
	}
}

// end returns when the last of the leases ends that were taken before a version, if it is known by when nobody takes one any
// more; 0 where there is no lease.
func (c *Catalogue) end(version uint32) (end time.Duration, known bool) {
	c.leases.mu.Lock()
	defer c.leases.mu.Unlock()
	l := &c.leases
	if l.terms.Wait == 0 {
		return 0, true
	}
	return l.at + l.terms.Hold(), l.certain >= version
}

// hold returns how long leases may last that are taken by now.
func (c *Catalogue) hold() time.Duration {
	c.leases.mu.Lock()
	defer c.leases.mu.Unlock()
	return c.leases.terms.Hold()
}

// Quiesce waits until no client writes rows any more as the catalogue was before a version which this client has read or
// made, but such as finds out before it acknowledges them. Without a lease it does not wait. Its error is a [fault.Unwaited].
func (c *Catalogue) Quiesce(ctx context.Context, version uint32) error {
	end, known := c.end(version)
	for attempt := 0; !known; attempt++ {
		if err := c.settleVersion(ctx, attempt); err != nil {
			return &fault.Unwaited{Left: c.hold(), Err: err}
		}
		end, known = c.end(version)
	}
	// The timer may have another clock: what counts is ours. Later changes of this client do not put off the end.
	for left := end - c.Clock(); left > 0; left = end - c.Clock() {
		if err := pause.For(ctx, max(left, time.Millisecond)); err != nil {
			return &fault.Unwaited{Left: end - c.Clock(), Err: err}
		}
	}
	return nil
}

// settleVersion makes sure that the present version of the catalogue is the one that every client finds. On Cassandra, what
// this client has read may else be a change that is not decided yet, which others do not find.
func (c *Catalogue) settleVersion(ctx context.Context, attempt int) error {
	r, cells, err := c.read(ctx, OnlyRoot)
	if err != nil {
		return err
	}
	decided, err := c.decide(ctx, cells[0])
	switch {
	case decided:
		c.isCertain(r.Version)
		return nil
	case err != nil && !errors.Is(err, driver.ErrUnknownOutcome):
		return err
	}
	return waitForTurn(ctx, "catalogue_changed", attempt)
}

// leavesTime returns an error if the context ends before a change of the catalogue would count as made.
func (c *Catalogue) leavesTime(ctx context.Context) error {
	hold := c.hold()
	if hold == 0 {
		return ctx.Err()
	}
	deadline, ends := ctx.Deadline()
	if left := time.Until(deadline); ends && left < hold {
		return fmt.Errorf("%w: nothing was changed: a change waits %v for clients with a lease, and the context ends in %v: give it more time",
			context.DeadlineExceeded, hold, left.Round(time.Millisecond))
	}
	return nil
}

// Lease returns the lease for people; without one it is zero.
func (c *Catalogue) Lease(ctx context.Context) (inspect.Lease, error) {
	r, _, err := c.read(ctx, OnlyRoot)
	if err != nil || r.Lease == nil {
		return inspect.Lease{}, err
	}
	return r.Lease.Inspect(), nil
}

// SetLease gives writers a lease of d from now on, or none if that is 0. A lease that becomes shorter, or ends, does so at
// once for writers. But the root still says how long the former one was until that is over: then a second change says that
// nobody need wait for it any more. If this client dies in between, changes wait for longer than they would need to, until
// somebody sets the lease again.
func (c *Catalogue) SetLease(ctx context.Context, d time.Duration) error {
	granted, version, err := c.swapLease(ctx, func(now lease.Terms, check time.Duration) (lease.Terms, error) {
		if d != 0 {
			if err := lease.Check(d, check); err != nil {
				return now, err
			}
		}
		if now.Granted() == d {
			return now, nil
		}
		now.Since, now.Grant = 0, d.Milliseconds()
		if now.Wait > now.Grant {
			return now, c.leavesTime(ctx)
		}
		now.Wait = now.Grant
		return now, nil
	})
	if err != nil || granted.Wait == granted.Grant {
		return err
	}
	if err := c.Quiesce(ctx, version); err != nil {
		return err
	}
	_, _, err = c.swapLease(ctx, func(now lease.Terms, _ time.Duration) (lease.Terms, error) {
		if now == granted { // else another client has set it since
			now.Wait = now.Grant
		}
		return now, nil
	})
	return err
}

// swapLease replaces the terms of the lease by what next makes of them, where they are zero if there is none. next is told
// how long a check of the version takes. It returns what is there then, and the version. Terms of which next says no version
// get that which they come with.
func (c *Catalogue) swapLease(ctx context.Context, next func(now lease.Terms, check time.Duration) (lease.Terms, error)) (terms lease.Terms, version uint32, err error) {
	made, expected, before := false, []byte(nil), lease.Terms{} // by the last attempt, and what it was to replace
	err = swap(ctx, c.Family, func(lost *error) (expect driver.Cell, puts []driver.Cell, err error) {
		began := c.Clock()
		r, cells, err := c.read(ctx, OnlyRoot)
		if err != nil {
			return expect, nil, err
		}
		check := c.Clock() - began
		passed := !bytes.Equal(cells[0].Value, expected)
		e := &Edit{c: c, root: r}
		if expect = cells[0]; r.Format == FormatNoTree {
			e.whole = true
			if expect, err = e.read(ctx); err != nil {
				return expect, nil, err
			}
		}
		was := lease.Terms{}
		if e.root.Lease != nil {
			was = *e.root.Lease
		}
		version = e.root.Version
		terms, err = next(was, check)
		if passed && *lost != nil && err == nil && terms != was && was != before {
			*lost = changedSince(*lost) // of which this would be another change
			return expect, nil, nil
		}
		if passed {
			*lost = nil // what is there counts, whoever has put it
		}
		if err != nil || terms == was {
			made = false
			return expect, nil, err
		}
		made, expected, before = true, expect.Value, was
		puts, err = e.leaseCells(&terms)
		version = max(version, terms.Since)
		return expect, puts, err
	})
	if err == nil && made {
		c.changed(version)
	}
	return terms, version, err
}

// leaseCells returns the cells that give the catalogue a lease, and sets the version that terms without one come with.
func (e *Edit) leaseCells(terms *lease.Terms) ([]driver.Cell, error) {
	if e.root.Version == math.MaxUint32 {
		return nil, errAllVersions(e.root.Version)
	}
	next, nodes := e.root, []driver.Cell(nil)
	if terms.Since == 0 {
		next.Version++
		terms.Since = next.Version
	}
	if next.Format == FormatNoTree {
		e.tree = make(Tree)
		nodes, next.Digest = e.tree.Put(e.c, slices.Collect(maps.Values(e.cells)))
	}
	format := byte(FormatLease)
	if next.Lease = terms; terms.Wait == 0 {
		format, next.Lease, *terms = Format, nil, lease.Terms{}
	}
	if next.Format != FormatFields {
		next.Format = format
	}
	return append([]driver.Cell{{Qualifier: RootQualifier, Value: e.c.SealRoot(next)}}, nodes...), nil
}

func errAllVersions(version uint32) error {
	return fmt.Errorf("%w: the catalogue was changed %d times, which is all it can be", fault.ErrFormat, version)
}
