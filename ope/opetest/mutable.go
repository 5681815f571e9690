package opetest

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"pgregory.net/rapid"
)

// entries returns what Range yields, and checks it: the present ciphertexts of want, which is
// ascending, in order.
func (p *probe) entries(t rapid.TB, lo, hi int64, want []int64) []ope.Entry {
	t.Helper()
	var got []ope.Entry
	for e, err := range p.Scheme.(ope.Mutable).Range(ctx, lo, hi) {
		if err != nil {
			t.Fatalf("Range(%d, %d): %v", lo, hi, err)
		}
		got = append(got, e)
	}
	for i, e := range got {
		if i >= len(want) || e.Plaintext != want[i] {
			t.Fatalf("Range(%d, %d) yielded %d as its value %d; want the %d values %v", lo, hi, e.Plaintext, i, len(want), want)
		}
		p.decrypts(t, e.Ciphertext, e.Plaintext)
		if c := p.encrypt(t, e.Plaintext); !bytes.Equal(c, e.Ciphertext) {
			t.Fatalf("Range(%d, %d) yielded %d with %x; its ciphertext is %x", lo, hi, e.Plaintext, e.Ciphertext, c)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("Range(%d, %d) yielded %d of %d values", lo, hi, len(got), len(want))
	}
	return got
}

// between returns the part of the ascending xs that is in [lo, hi].
func between(xs []int64, lo, hi int64) []int64 {
	return slices.DeleteFunc(slices.Clone(xs), func(x int64) bool { return x < lo || x > hi })
}

func checkRange(tb testing.TB, p *probe) {
	p.entries(tb, math.MinInt64, math.MaxInt64, nil)
	var xs []int64
	for i, x := range p.values() {
		if i%2 == 0 {
			xs = append(xs, x)
		}
	}
	p.settle(tb, xs)
	p.settle(tb, xs[:1]) // once more does not yield it twice
	p.entries(tb, math.MinInt64, math.MaxInt64, xs)
	p.entries(tb, math.MaxInt64, math.MinInt64, nil)
	rapid.Check(tb, func(t *rapid.T) {
		lo, hi := boundOf(p.d).Draw(t, "lo"), boundOf(p.d).Draw(t, "hi")
		p.entries(t, lo, hi, between(xs, lo, hi))
	})
	for range p.Scheme.(ope.Mutable).Range(ctx, p.d.Min, p.d.Max) {
		break // must not be called again: the runtime would panic
	}
}

// checkModel runs random histories against a set of values. Every ciphertext that was ever handed
// out is its own value for ever, or stale.
func checkModel(tb testing.TB, p *probe) {
	rapid.Check(tb, func(t *rapid.T) {
		p := newProbe(tb, p.make, p.d)
		m := p.Scheme.(ope.Mutable)
		values := map[int64]bool{}
		handedOut := map[string]int64{}
		add := func(x int64, c ope.Ciphertext) {
			values[x] = true
			handedOut[string(c)] = x
		}
		actions := map[string]func(*rapid.T){
			"Encrypt": func(t *rapid.T) {
				x := Values(p.d).Draw(t, "x")
				add(x, p.encrypt(t, x))
			},
			"Range": func(t *rapid.T) {
				lo, hi := boundOf(p.d).Draw(t, "lo"), boundOf(p.d).Draw(t, "hi")
				p.entries(t, lo, hi, between(slices.Sorted(maps.Keys(values)), lo, hi))
			},
			"Rebalance": func(t *rapid.T) {
				if _, err := m.Rebalance(ctx, nil); err != nil {
					t.Fatalf("Rebalance: %v", err)
				}
			},
			"": func(t *rapid.T) {
				for c, x := range handedOut {
					got, err := p.Decrypt(ctx, ope.Ciphertext(c))
					if errors.Is(err, ope.ErrStale) {
						continue
					}
					if err != nil || got != x {
						t.Fatalf("Decrypt(%x), once handed out for %d, = %d, %v; want it or ErrStale", c, x, got, err)
					}
				}
			},
		}
		if b, ok := p.Scheme.(ope.BatchEncrypter); ok {
			actions["EncryptBatch"] = func(t *rapid.T) {
				xs := rapid.SliceOfN(Values(p.d), 0, 10).Draw(t, "xs")
				cs, err := b.EncryptBatch(ctx, xs)
				if err != nil {
					t.Fatalf("EncryptBatch: %v", err)
				}
				for i, x := range xs {
					add(x, cs[i])
				}
			}
		}
		t.Repeat(actions)
	})
}

func checkRebalance(tb testing.TB, p *probe) {
	m := p.Scheme.(ope.Mutable)
	xs := thinned(p.values(), 100)
	p.settle(tb, xs)
	before := p.entries(tb, math.MinInt64, math.MaxInt64, xs)
	ivBefore, err := p.Intervals(ctx, p.d.Min, p.d.Max)
	if err != nil || len(ivBefore) != 1 {
		tb.Fatalf("Intervals = %v, %v", ivBefore, err)
	}

	lastDone, lastTotal := 0, 0
	stats, err := m.Rebalance(ctx, func(done, total int) {
		if done < lastDone || done > total {
			tb.Errorf("progress went from %d to %d of %d", lastDone, done, total)
		}
		lastDone, lastTotal = done, total
	})
	if err != nil {
		tb.Fatalf("Rebalance: %v", err)
	}
	if lastTotal != 0 && lastTotal != len(xs) {
		tb.Fatalf("progress counted %d values in all, want %d", lastTotal, len(xs))
	}

	after := p.entries(tb, math.MinInt64, math.MaxInt64, xs)
	moved := 0
	for i, e := range before {
		if after[i].Version.Compare(e.Version) <= 0 {
			tb.Fatalf("Rebalance took the version from %v to %v; it rises when ciphertexts move", e.Version, after[i].Version)
		}
		if bytes.Equal(e.Ciphertext, after[i].Ciphertext) {
			continue // decrypts to its value, as entries has checked
		}
		moved++
		if x, err := p.Decrypt(ctx, e.Ciphertext); !errors.Is(err, ope.ErrStale) {
			tb.Fatalf("after Rebalance, Decrypt of the old ciphertext %x of %d = %d, %v; want ErrStale", e.Ciphertext, e.Plaintext, x, err)
		}
	}
	want := ope.RebalanceStats{Values: len(xs), Moved: moved, Before: before[0].Version, After: after[0].Version}
	if stats != want {
		tb.Fatalf("Rebalance returned %+v, want %+v", stats, want)
	}
	ivs, err := p.Intervals(ctx, p.d.Min, p.d.Max)
	if err != nil || len(ivs) != 1 {
		tb.Fatalf("Intervals = %v, %v", ivs, err)
	}
	if ivBefore[0].Version != stats.Before || ivs[0].Version != stats.After {
		tb.Fatalf("intervals of the versions %v and %v around a Rebalance from %v to %v", ivBefore[0].Version, ivs[0].Version, stats.Before, stats.After)
	}
}
