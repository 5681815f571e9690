package store_test

import "github.com/rangecrypt/rangecrypt/store/drivertest"

// A doomedCall gives one call of a client its fate: in one attempt after the other a later one, counted from when the client
// was armed.
type doomedCall struct {
	fate     drivertest.Fault
	n, calls int
	armed    bool
	reached  bool // in this attempt; otherwise the client makes fewer calls
}

// next begins the next attempt, at a call so many later.
func (d *doomedCall) next(step int) { *d = doomedCall{fate: d.fate, n: d.n + step} }

// fault is for [drivertest.NewFaulty].
func (d *doomedCall) fault(drivertest.Op) drivertest.Fault {
	if !d.armed {
		return drivertest.NoFault
	}
	if d.calls++; d.calls != d.n {
		return drivertest.NoFault
	}
	d.reached = true
	return d.fate
}
