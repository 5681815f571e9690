package opetest

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"pgregory.net/rapid"
)

// checkIntervals compares Intervals with the values themselves: for every pair of bounds in and
// around a small domain, and for random bounds and the values beside them in another.
func checkIntervals(tb testing.TB, p *probe) {
	if p.small() {
		xs := p.values()
		cs := p.settle(tb, xs)
		bounds := append(slices.Clone(xs), math.MinInt64, math.MaxInt64, 0)
		for i := range int64(3) {
			if p.d.Min >= math.MinInt64+i {
				bounds = append(bounds, p.d.Min-i)
			}
			if p.d.Max <= math.MaxInt64-i {
				bounds = append(bounds, p.d.Max+i)
			}
		}
		slices.Sort(bounds)
		bounds = slices.Compact(bounds)
		for _, lo := range bounds {
			for _, hi := range bounds {
				holdExactly(tb, p, lo, hi, xs, cs)
			}
		}
	}
	rapid.Check(tb, func(t *rapid.T) {
		lo, hi := boundOf(p.d).Draw(t, "lo"), boundOf(p.d).Draw(t, "hi")
		xs := append(rapid.SliceOfN(Values(p.d), 1, 8).Draw(t, "xs"), p.d.Min, p.d.Max)
		for _, bound := range []int64{lo, hi} {
			for _, x := range []int64{bound - 1, bound, bound + 1} { // wrapping around is harmless
				if p.d.Contains(x) {
					xs = append(xs, x)
				}
			}
		}
		slices.Sort(xs)
		xs = slices.Compact(xs)
		cs := p.settle(t, xs)
		ivs := holdExactly(t, p, lo, hi, xs, cs)
		keysHoldExactly(t, ivs, lo, hi, xs, cs)
	})
}

// checkIntervalsPartial checks a stateful scheme: the bounds need not have been encrypted, and
// asking for them does not encrypt them.
func checkIntervalsPartial(tb testing.TB, p *probe) {
	all := p.values()
	if ivs, err := p.Intervals(ctx, p.d.Min, p.d.Max); err != nil || len(ivs) != 1 {
		tb.Fatalf("Intervals of the whole domain of an empty index = %v, %v; want one", ivs, err)
	}
	var xs []int64
	for i, x := range all {
		if i%3 == 1 {
			xs = append(xs, x)
		}
	}
	cs := p.settle(tb, xs)
	before := make(map[[2]int64][]ope.Interval)
	for _, i := range thin(len(all), 60) {
		for _, j := range thin(len(all), 60) {
			before[[2]int64{all[i], all[j]}] = holdExactly(tb, p, all[i], all[j], xs, cs)
		}
	}
	if m, ok := p.Scheme.(ope.Mutable); ok {
		n := 0
		for e, err := range m.Range(ctx, math.MinInt64, math.MaxInt64) {
			if err != nil {
				tb.Fatalf("Range: %v", err)
			}
			if n >= len(xs) || e.Plaintext != xs[n] {
				tb.Fatalf("after Intervals, the index holds %d, which was never encrypted", e.Plaintext)
			}
			n++
		}
		return
	}
	// What is encrypted later is in the intervals of before.
	cs = p.settle(tb, all)
	for bounds, ivs := range before {
		for i, x := range all {
			if bounds[0] <= x && x <= bounds[1] && !slices.ContainsFunc(ivs, func(iv ope.Interval) bool { return holds(iv, cs[i]) }) {
				tb.Fatalf("Intervals(%d, %d) go on to miss %d, which was encrypted since", bounds[0], bounds[1], x)
			}
		}
	}
}

// holds reports whether a ciphertext is in an interval.
func holds(iv ope.Interval, c ope.Ciphertext) bool {
	return bytes.Compare(iv.Start, c) <= 0 && bytes.Compare(c, iv.End) < 0
}

func checkWholeDomain(tb testing.TB, p *probe) {
	xs := p.values()
	cs := p.settle(tb, xs)
	for _, bounds := range [][2]int64{{p.d.Min, p.d.Max}, {math.MinInt64, math.MaxInt64}} {
		ivs := holdExactly(tb, p, bounds[0], bounds[1], xs, cs)
		if len(ivs) != 1 {
			tb.Fatalf("the whole domain is %d intervals, want one", len(ivs))
		}
		// A scheme may by chance have the lowest or the highest string as a ciphertext.
		start, end := ivs[0].Start, ivs[0].End
		for i, c := range cs {
			if bytes.Equal(start, c) && !bytes.Equal(c, make([]byte, len(c))) {
				tb.Fatalf("the interval of the whole domain starts at the ciphertext of %d", xs[i])
			}
			if bytes.Equal(end, plus(c, 1)) {
				tb.Fatalf("the interval of the whole domain ends after the ciphertext of %d", xs[i])
			}
		}
	}
}

// holdExactly checks the intervals of [lo, hi] against the ascending values xs, whose present
// ciphertexts are cs.
func holdExactly(t rapid.TB, p *probe, lo, hi int64, xs []int64, cs []ope.Ciphertext) []ope.Interval {
	t.Helper()
	ivs, err := p.Intervals(ctx, lo, hi)
	if err != nil {
		t.Fatalf("Intervals(%d, %d): %v", lo, hi, err)
	}
	within, some := p.d.Intersect(lo, hi)
	if !some {
		if len(ivs) != 0 {
			t.Fatalf("Intervals(%d, %d), where nothing of the domain %v is, returned %d intervals", lo, hi, p.d, len(ivs))
		}
		return nil
	}
	most := 2
	if p.strict || within == p.d {
		most = 1
	}
	if len(ivs) > most || len(ivs) == 0 {
		t.Fatalf("Intervals(%d, %d) returned %d intervals; want at least one, at most %d", lo, hi, len(ivs), most)
	}
	n := len(ivs[0].Start)
	if len(cs) > 0 {
		n = len(cs[0])
	}
	for _, iv := range ivs {
		wellFormed(t, iv, n)
		if !p.mutable && iv.Version != (ope.Version{}) {
			t.Fatalf("an interval of an immutable scheme has the version %v", iv.Version)
		}
		if p.stateless && bytes.Compare(iv.Start, iv.End) >= 0 {
			t.Fatalf("Intervals(%d, %d) returned the empty interval [%x, %x)", lo, hi, iv.Start, iv.End)
		}
	}
	if len(ivs) == 2 && bytes.Compare(ivs[0].Start, ivs[1].End) < 0 && bytes.Compare(ivs[1].Start, ivs[0].End) < 0 {
		t.Fatalf("Intervals(%d, %d) returned overlapping intervals", lo, hi)
	}
	last := 0
	for i, x := range xs {
		in := -1
		for k, iv := range ivs {
			if holds(iv, cs[i]) {
				in = k
			}
		}
		if want := lo <= x && x <= hi; (in >= 0) != want {
			t.Fatalf("Intervals(%d, %d) %s %d, whose ciphertext is %x", lo, hi, map[bool]string{true: "miss", false: "hold"}[want], x, cs[i])
		}
		if in >= 0 && in < last {
			t.Fatalf("Intervals(%d, %d) are not in the order of their plaintexts", lo, hi)
		}
		last = max(last, in)
	}
	return ivs
}

func wellFormed(t rapid.TB, iv ope.Interval, n int) {
	t.Helper()
	if len(iv.Start) != n {
		t.Fatalf("an interval starts with %d bytes; ciphertexts have %d", len(iv.Start), n)
	}
	top := append(bytes.Repeat([]byte{0xff}, n), 0)
	if len(iv.End) != n && !bytes.Equal(iv.End, top) {
		t.Fatalf("an interval ends with %x, neither of %d bytes nor the highest string and 0x00", iv.End, n)
	}
	if bytes.Compare(iv.Start, iv.End) > 0 {
		t.Fatalf("the interval [%x, %x) is reversed", iv.Start, iv.End)
	}
}

// keysHoldExactly checks the same where the ciphertext is a part of a database key.
func keysHoldExactly(t *rapid.T, ivs []ope.Interval, lo, hi int64, xs []int64, cs []ope.Ciphertext) {
	prefix := rapid.SampledFrom([]string{"", "\x00", "t", "a\xff", "\xff", "\xff\xff"}).Draw(t, "prefix")
	suffix := rapid.SampledFrom([]string{"", "\x00", "row", "\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}).Draw(t, "suffix")
	for i, x := range xs {
		key := slices.Concat([]byte(prefix), cs[i], []byte(suffix))
		in := 0
		for _, iv := range ivs {
			start, end := iv.KeyRange([]byte(prefix))
			if bytes.Compare(start, key) <= 0 && (end == nil || bytes.Compare(key, end) < 0) {
				in++
			}
		}
		if want := lo <= x && x <= hi; (in > 0) != want || in > 1 {
			t.Fatalf("%d key ranges of [%d, %d] under the prefix %x hold the key %x of %d", in, lo, hi, prefix, key, x)
		}
	}
}
