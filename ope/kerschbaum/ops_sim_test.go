package kerschbaum

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// ended reports whether an operation has succeeded. If it must have, and has not, that is a
// violation.
func (c *client) ended(what string, err error) bool {
	switch {
	case c.Dead():
		return false
	case err == nil:
		return true
	case errors.Is(err, sim.ErrFailed):
		return false
	}
	c.w.Fail("%s: %v", what, err)
	return false
}

// locked runs f while nothing else happens.
func (c *client) locked(f func(w *world)) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	f(c.w)
}

func encrypt(x int64) operation {
	return func(c *client) {
		c.locked(func(w *world) { w.tried[x] = true })
		ciphertext, err := c.scheme.Encrypt(context.Background(), x)
		if !c.ended("Encrypt", err) {
			return
		}
		c.locked(func(w *world) {
			w.Count("Encrypt")
			w.acknowledge(x, ciphertext)
		})
	}
}

func encryptBatch(xs ...int64) operation {
	return func(c *client) {
		c.locked(func(w *world) {
			for _, x := range xs {
				w.tried[x] = true
			}
		})
		ciphertexts, err := c.scheme.EncryptBatch(context.Background(), xs)
		if !c.ended("EncryptBatch", err) {
			return
		}
		c.locked(func(w *world) {
			w.Count("EncryptBatch")
			if len(ciphertexts) != len(xs) {
				w.Fail("EncryptBatch returns %d ciphertexts for %d values", len(ciphertexts), len(xs))
				return
			}
			for i, x := range xs {
				w.acknowledge(x, ciphertexts[i])
			}
		})
	}
}

func (w *world) acknowledge(x int64, c ope.Ciphertext) {
	w.acked[x] = true
	w.receive(x, c)
	w.checkAcknowledged()
}

// readRange reads a range and checks it: ascending, all that was acknowledged before, nothing that
// nobody tried to insert, and for each value its ciphertext.
func readRange(lo, hi int64) operation {
	return func(c *client) {
		c.entries("Range", lo, hi, c.scheme.Range(context.Background(), lo, hi))
	}
}

// inspect lets a new client check the whole index. Whatever others do, it finds no fault.
func inspect(c *client) {
	s := c.w.newScheme(c.asIndex())
	c.entries("Check", simDomain.Min, simDomain.Max, s.Check(context.Background(), func(record []byte, err error) {
		c.locked(func(w *world) {
			if !c.Dead() {
				w.Fail("Check: record %x: %v", record, err)
			}
		})
	}))
}

func (c *client) entries(what string, lo, hi int64, read iter.Seq2[ope.Entry, error]) (out []ope.Entry, ok bool) {
	var must []int64
	c.locked(func(w *world) {
		for _, x := range slices.Sorted(maps.Keys(w.acked)) {
			if lo <= x && x <= hi {
				must = append(must, x)
			}
		}
	})
	for e, err := range read {
		if err != nil {
			c.ended(what, err)
			return nil, false
		}
		out = append(out, e)
	}
	if !c.ended(what, nil) {
		return nil, false
	}
	c.locked(func(w *world) {
		w.Count(what)
		got := make(map[int64]bool)
		for i, e := range out {
			got[e.Plaintext] = true
			switch {
			case e.Plaintext < lo || e.Plaintext > hi:
				w.Fail("%s yields a value outside of the range", what)
			case i > 0 && out[i-1].Plaintext >= e.Plaintext:
				w.Fail("%s yields values out of order", what)
			case !w.tried[e.Plaintext]:
				w.Fail("%s yields a value that nobody encrypted", what)
			}
			at := w.receive(e.Plaintext, e.Ciphertext)
			if l, ok := w.places[e.Version][e.Plaintext]; !ok || l != at.label || at.epoch != e.Version.Epoch {
				w.Fail("%s yields a ciphertext of another version than it says", what)
			}
		}
		for _, x := range must {
			if !got[x] {
				w.Fail("%s misses an acknowledged value", what)
			}
		}
	})
	return out, true
}

// decrypt decrypts a ciphertext that some client got at some time.
func decrypt(pick int) operation {
	return func(c *client) {
		var ciphertext ope.Ciphertext
		var value int64
		var before ope.Version
		var was spot
		c.locked(func(w *world) {
			if len(w.handed) > 0 {
				key := slices.Sorted(maps.Keys(w.handed))[pick%len(w.handed)]
				ciphertext, value, before = ope.Ciphertext(key), w.handed[key], w.version()
				was = w.where[value]
			}
		})
		if ciphertext == nil {
			return
		}
		missed := c.w.replicas.missed()
		x, err := c.scheme.Decrypt(context.Background(), ciphertext)
		stale := errors.Is(err, ope.ErrStale)
		if !stale && !c.ended("Decrypt", err) {
			return
		}
		c.locked(func(w *world) {
			if c.Dead() {
				return
			}
			w.Count("Decrypt")
			switch {
			case stale && w.replicas.missed() > missed:
			case stale:
				w.Count("Decrypt: stale")
				at, _ := w.seatOf(ciphertext)
				if w.setting.full > 0 {
					if is := w.where[value]; is.label == was.label && is.label == at.label {
						w.Fail("Decrypt: a ciphertext is refused as stale, but its value is there")
					}
				} else if before == w.version() && at.epoch == before.Epoch && w.places[before][value] == at.label {
					w.Fail("Decrypt: a ciphertext is refused as stale, but its value is there")
				}
			case x != value:
				w.Fail("Decrypt: another value than the ciphertext was handed out for")
			}
		})
	}
}

// intervals asks for intervals and checks them against the index as it was at their version.
func intervals(lo, hi int64) operation {
	return func(c *client) {
		type seen struct {
			version  ope.Version
			elements []order.Element
		}
		look := func(w *world) seen {
			_, u := w.current()
			return seen{w.version(), u.elements}
		}
		var before, after seen
		missed := c.w.replicas.missed()
		c.locked(func(w *world) { before = look(w) })
		ivs, err := c.scheme.Intervals(context.Background(), lo, hi)
		if !c.ended("Intervals", err) {
			return
		}
		c.locked(func(w *world) {
			w.Count("Intervals")
			after = look(w)
			if lo > hi {
				if len(ivs) > 0 {
					w.Fail("Intervals: something is in an empty range")
				}
				return
			}
			if len(ivs) != 1 {
				w.Fail("Intervals: %d of them", len(ivs))
				return
			}
			iv := ivs[0]
			if w.setting.full > 0 {
				before.version, after.version = ope.Version{}, ope.Version{}
				if places(before.elements, after.elements) {
					iv.Version = ope.Version{}
				}
			}
			if iv.Version.Compare(before.version) < 0 && w.replicas.missed() == missed {
				w.Fail("Intervals: one of version %v, asked for at %v", iv.Version, before.version)
			}
			there := make(map[int64]bool)
			for _, e := range before.elements {
				there[e.Value] = true
			}
			for _, s := range []seen{before, after} {
				if s.version != iv.Version {
					continue
				}
				for _, e := range s.elements {
					in, belongs := intervalHolds(iv, e.Label), lo <= e.Value && e.Value <= hi
					if there[e.Value] && in != belongs && (belongs || w.replicas.missed() == missed) {
						w.Fail("Intervals: a value is on the wrong side")
					}
				}
			}
		})
	}
}

// rankedIntervals asks for the interval of ranks, which has all that was in the index before, and nothing else of that.
func rankedIntervals(lo, hi int64) operation {
	return func(c *client) {
		var before []order.Element
		c.locked(func(w *world) {
			_, u := w.current()
			before = u.elements
		})
		missed := c.w.replicas.missed()
		ivs, err := (&Ranked{*c.scheme}).Intervals(context.Background(), lo, hi)
		if !c.ended("Intervals", err) {
			return
		}
		c.locked(func(w *world) {
			w.Count("Intervals of ranks")
			for _, e := range before {
				at, in := w.observer.ciphers.Ranked(e.Value, e.Rank), false
				for _, iv := range ivs {
					in = in || bytes.Compare(iv.Start, at) <= 0 && bytes.Compare(at, iv.End) < 0
				}
				switch belongs := lo <= e.Value && e.Value <= hi; {
				case belongs && !in:
					w.Fail("Intervals of ranks: %d is missing between %d and %d", e.Value, lo, hi)
				case !belongs && in && !e.Rank.Shared && w.replicas.missed() == missed:
					w.breach("Intervals of ranks: %d is there between %d and %d", e.Value, lo, hi)
				}
			}
		})
	}
}

// places reports whether elements have the places that they had.
func places(before, after []order.Element) bool {
	at := make(map[int64]order.Label)
	for _, e := range after {
		at[e.Value] = e.Label
	}
	return !slices.ContainsFunc(before, func(e order.Element) bool { return at[e.Value] != e.Label })
}

func rebalance(c *client) { c.rebalance((*Scheme).Rebalance) }

func rebalanceByCopy(c *client) {
	c.rebalance(func(s *Scheme, ctx context.Context, progress func(done, total int)) (ope.RebalanceStats, error) {
		return first(s).rebalancePublished(ctx, progress)
	})
}

func (c *client) rebalance(do func(*Scheme, context.Context, func(done, total int)) (ope.RebalanceStats, error)) {
	var before ope.Version
	var values int
	c.locked(func(w *world) {
		_, u := w.current()
		before, values = w.version(), len(u.elements)
	})
	missed := c.w.replicas.missed()
	last := 0
	stats, err := do(c.scheme, context.Background(), func(n, total int) {
		c.locked(func(w *world) {
			if n < last || n > total {
				w.Fail("Rebalance: %d of %d values are done, after %d", n, total, last)
			}
			last = n
		})
	})
	if !c.ended("Rebalance", err) {
		return
	}
	c.locked(func(w *world) {
		w.Count("Rebalance")
		if w.replicas.missed() > missed {
			before, values = ope.Version{}, 0 // what is not decided need not count
		}
		switch {
		case w.setting.full > 0: // values may go to where they were counted already
			if stats.Values > len(w.tried) || stats.After.Compare(stats.Before) < 0 {
				w.Fail("Rebalance: %+v", stats)
			}
		case stats.After.Compare(stats.Before) < 0, stats.Values > 0 && stats.Before.Compare(before) < 0:
			w.Fail("Rebalance: from version %v to %v, called at %v", stats.Before, stats.After, before)
		case w.version().Compare(stats.After) < 0:
			w.Fail("Rebalance: version %v is said to be reached", stats.After)
		case stats.Values < values || stats.Values > len(w.tried):
			w.Fail("Rebalance: %d values are said to be there, but there were %d", stats.Values, values)
		}
	})
}

// operations returns a program of n random operations.
func (w *world) operations(r *rand.Rand, n int) program {
	s := &w.setting
	value := func() int64 {
		if s.appends {
			w.clock++
			return w.clock
		}
		return r.Int64N(s.span)
	}
	any := func() int64 {
		if s.appends {
			return r.Int64N(w.clock + 2)
		}
		return r.Int64N(s.span)
	}
	return func(int) operation {
		if n == 0 {
			return nil
		}
		n--
		switch k := r.IntN(100); {
		case r.Float64() < s.pass:
			if r.Float64() < s.copies {
				return rebalanceByCopy
			}
			return rebalance
		case k < 45:
			return encrypt(value())
		case k < 60:
			xs := make([]int64, 1+r.IntN(6))
			for i := range xs {
				xs[i] = value()
			}
			return encryptBatch(xs...)
		case k < 72:
			a := any()
			return readRange(a, a+any())
		case k < 74:
			return inspect
		case k < 82:
			return decrypt(r.Int())
		case k < 90:
			if s.ranks > 0 {
				return rankedIntervals(any(), any())
			}
			if r.IntN(4) == 0 {
				return intervals(simDomain.Min, simDomain.Max)
			}
			return intervals(any(), any())
		default:
			return readRange(simDomain.Min, simDomain.Max)
		}
	}
}
