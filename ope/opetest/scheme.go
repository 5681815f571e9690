// Package opetest checks that schemes and indexes keep the contracts that package ope states, as
// testing/fstest does for file systems. A test of a scheme calls [TestScheme], a test of an index
// [TestIndex]. [NewIndex] returns an index in memory that can be made to fail.
//
// Random checks are properties of pgregory.net/rapid: a failure prints the seed and a minimal
// example; the flags -rapid.seed and -rapid.checks give a seed and the number of trials.
package opetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
	"pgregory.net/rapid"
)

// TestCiphertexts checks that of all byte strings with the length of the scheme's ciphertexts exactly the
// ciphertexts decrypt. It is for ranges of up to 16 bits.
func TestCiphertexts(t *testing.T, s ope.Immutable) {
	t.Helper()
	d := s.Domain()
	made, length := make(map[string]int64), 0
	for x := d.Min; ; x++ {
		c, err := s.Encrypt(ctx, x)
		if err != nil {
			t.Fatalf("Encrypt(%d): %v", x, err)
		}
		made[string(c)], length = x, len(c)
		if x == d.Max {
			break
		}
	}
	if uint64(len(made)-1) != d.Span() || length < 1 || length > 2 {
		t.Fatalf("%d values have %d ciphertexts of %d bytes", d.Span()+1, len(made), length)
	}
	for v := range 1 << (8 * length) {
		c := ope.Ciphertext{byte(v >> 8), byte(v)}[2-length:]
		x, err := s.Decrypt(ctx, c)
		if want, ok := made[string(c)]; ok && (err != nil || x != want) {
			t.Fatalf("Decrypt(%x) = %d, %v; want %d", c, x, err, want)
		} else if !ok && !errors.Is(err, ope.ErrCiphertext) {
			t.Fatalf("Decrypt(%x) = %d, %v; want an error: it is no ciphertext", c, x, err)
		}
	}
}

// A MakeFunc returns a new scheme for the domain, under the same key and parameters at each call.
// Of a stateless scheme, two results therefore agree; a stateful one starts with an empty index
// of its own. A scheme that cannot serve the domain calls tb.Skip.
type MakeFunc func(tb testing.TB, d ope.Domain) ope.Scheme

// TestScheme checks every sentence of the contracts that the scheme's type implements:
// [ope.Scheme] always; [ope.Immutable], [ope.Linear], [ope.Mutable], [ope.Appender] and
// [ope.BatchEncrypter] where it has their methods. Small domains are tested exhaustively,
// 32-bit domains and the whole of int64 by random values that prefer edges.
func TestScheme(t *testing.T, make MakeFunc) {
	served := 0
	for _, d := range testDomains {
		t.Run(d.String(), func(t *testing.T) {
			applicable := checksFor(make(t, d))
			served++
			for _, c := range applicable {
				t.Run(c.name, func(t *testing.T) { c.run(t, newProbe(t, make, d)) })
			}
		})
	}
	// Under -run, the filter may have left out every domain.
	if served == 0 && !filtered() {
		t.Error("the scheme serves none of the domains: nothing was tested")
	}
}

// The domains that every scheme is tried on. Those of at most 256 values are exhausted; the
// others catch arithmetic that overflows and sizes that are not powers of two.
var testDomains = []ope.Domain{
	ope.Uint8,
	ope.Int8,
	{Min: -1, Max: 1},
	{Min: 7, Max: 7},
	{Min: math.MaxInt64 - 4, Max: math.MaxInt64},
	{Min: math.MinInt64, Max: math.MinInt64 + 1},
	{Min: -1_000_003, Max: 998_244_353},
	ope.Int32,
	ope.Int64,
}

// A check tests one rule. It reports through testing.TB, so that the tests of this package can
// prove that it fails for a scheme that breaks the rule.
type check struct {
	name    string
	applies func(s ope.Scheme) bool // nil: to every scheme
	run     func(tb testing.TB, p *probe)
}

var checks = []check{
	{"ID", nil, checkID},
	{"RoundTrip", nil, checkRoundTrip},
	{"Order", nil, checkOrder},
	{"Length", nil, checkLength},
	{"OutsideDomain", hasOutside, checkOutsideDomain},
	{"ForeignCiphertexts", nil, checkForeignCiphertexts},
	{"Ownership", nil, checkOwnership},
	{"Permanence", is[ope.Immutable], checkPermanence},
	{"SameKeySameCiphertext", is[ope.Appender], checkSameKey},
	{"Concurrency", nil, checkConcurrency},
	{"Context", nil, checkContext},
	{"Append", is[ope.Appender], checkAppend},
	{"AppendAllocatesNothing", is[ope.Appender], checkAppendAllocs},
	{"Batch", is[ope.BatchEncrypter], checkBatch},
	{"BatchOutsideDomain", func(s ope.Scheme) bool { return is[ope.BatchEncrypter](s) && hasOutside(s) }, checkBatchOutsideDomain},
	{"Intervals", nil, checkIntervals},
	{"IntervalsPartial", func(s ope.Scheme) bool { return !is[ope.Appender](s) }, checkIntervalsPartial},
	{"WholeDomain", nil, checkWholeDomain},
	{"Range", is[ope.Mutable], checkRange},
	{"Model", is[ope.Mutable], checkModel},
	{"Rebalance", is[ope.Mutable], checkRebalance},
}

func checksFor(s ope.Scheme) []check {
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return c.applies != nil && !c.applies(s) })
}

func is[T any](s ope.Scheme) bool { _, ok := s.(T); return ok }

func hasOutside(s ope.Scheme) bool { return s.Domain() != ope.Int64 }

// A probe is a fresh scheme under test with what a check asks about it.
type probe struct {
	ope.Scheme
	d    ope.Domain
	make MakeFunc

	strict    bool // its ciphertexts have no rotation
	mutable   bool
	stateless bool
}

func newProbe(tb testing.TB, make MakeFunc, d ope.Domain) *probe {
	s := make(tb, d)
	return &probe{
		Scheme: s, d: d, make: make,
		// Only an immutable scheme that does not promise a linear order may shift.
		strict:    is[ope.Linear](s) || !is[ope.Immutable](s),
		mutable:   is[ope.Mutable](s),
		stateless: is[ope.Appender](s),
	}
}

// small reports whether the domain is exhausted.
func (p *probe) small() bool { return p.d.Span() < 256 }

// values returns the whole of a small domain, and the edges of another, ascending.
func (p *probe) values() []int64 {
	if !p.small() {
		return edges(p.d)
	}
	xs := make([]int64, p.d.Span()+1)
	for i := range xs {
		xs[i] = p.d.At(uint64(i))
	}
	return xs
}

func (p *probe) encrypt(t rapid.TB, x int64) ope.Ciphertext {
	t.Helper()
	c, err := p.Encrypt(ctx, x)
	if err != nil {
		t.Fatalf("Encrypt(%d): %v", x, err)
	}
	return c
}

// settle returns the ciphertexts of xs as they are once all xs are encrypted: those of a mutable
// scheme may move during that.
func (p *probe) settle(t rapid.TB, xs []int64) []ope.Ciphertext {
	t.Helper()
	cs := make([]ope.Ciphertext, len(xs))
	for pass := 0; pass == 0 || pass == 1 && p.mutable; pass++ {
		for _, i := range shuffled(len(xs)) {
			cs[i] = p.encrypt(t, xs[i])
		}
	}
	return cs
}

func (p *probe) decrypts(t rapid.TB, c ope.Ciphertext, want int64) {
	t.Helper()
	switch got, err := p.Decrypt(ctx, c); {
	case err != nil:
		t.Fatalf("Decrypt(%x), the ciphertext of %d: %v", c, want, err)
	case got != want:
		t.Fatalf("Decrypt(%x) = %d, want %d", c, got, want)
	}
}

var ctx = context.Background()

func checkID(tb testing.TB, p *probe) {
	if p.ID() == "" {
		tb.Error("ID is empty")
	}
	if p.Domain() != p.d {
		tb.Errorf("Domain() = %v, want %v", p.Domain(), p.d)
	}
	if again := p.make(tb, p.d).ID(); again != p.ID() {
		tb.Errorf("two schemes of the same parameters have the IDs %q and %q", p.ID(), again)
	}
	if p.d.Span() == 0 || !p.stateless {
		return
	}
	// A parameter that decides a ciphertext must be in the ID: here, the domain.
	part := ope.Domain{Min: p.d.Min, Max: p.d.Max - 1}
	other := newProbe(tb, p.make, part)
	if other.ID() != p.ID() {
		return
	}
	for _, x := range other.values() {
		if a, b := p.encrypt(tb, x), other.encrypt(tb, x); !bytes.Equal(a, b) {
			tb.Fatalf("schemes with the same ID %q encrypt %d differently for the domains %v and %v", p.ID(), x, p.d, part)
		}
	}
}

func checkRoundTrip(tb testing.TB, p *probe) {
	xs := p.values()
	for i, c := range p.settle(tb, xs) {
		p.decrypts(tb, c, xs[i])
	}
	if p.small() {
		return
	}
	rapid.Check(tb, func(t *rapid.T) {
		x := Values(p.d).Draw(t, "x")
		p.decrypts(t, p.encrypt(t, x), x)
	})
}

// checkOrder compares consecutive values, which settles all pairs, exhaustively where the domain
// is small. At most one step may go down, the rotation, and none in a scheme without one.
func checkOrder(tb testing.TB, p *probe) {
	inOrder := func(t rapid.TB, xs []int64) {
		t.Helper()
		if len(xs) < 2 {
			return
		}
		cs := p.settle(t, xs)
		down := 0
		for i := range cs {
			next := (i + 1) % len(cs)
			switch bytes.Compare(cs[i], cs[next]) {
			case 0:
				t.Fatalf("%d and %d have the same ciphertext", xs[i], xs[next])
			case 1:
				down++
				if p.strict && next != 0 {
					t.Fatalf("the ciphertext of %d is above that of %d", xs[i], xs[next])
				}
			}
		}
		if down != 1 {
			t.Fatalf("the ciphertexts of %d ascending values are not a rotation of an ascending sequence: they descend %d times", len(xs), down)
		}
	}
	inOrder(tb, p.values())
	if p.small() {
		return
	}
	rapid.Check(tb, func(t *rapid.T) {
		inOrder(t, ascending(p.d, 12).Draw(t, "xs"))
	})
}

func checkLength(tb testing.TB, p *probe) {
	n := 0
	for _, c := range p.settle(tb, p.values()) {
		if n == 0 {
			n = len(c)
		}
		if len(c) != n || n == 0 {
			tb.Fatalf("ciphertexts of %d and %d bytes; the length must be fixed and above zero", n, len(c))
		}
	}
}

// outside returns values that are not in the domain: its neighbours, the ends of int64, and some
// whose digits do not occur in an error by chance.
func outside(d ope.Domain) (all, conspicuous []int64) {
	conspicuous = []int64{
		600_613_700, -600_613_700, 123_456_789_012_345, -123_456_789_012_345,
		math.MaxInt64 - 6_006_137, math.MinInt64 + 6_006_137,
	}
	if d.Min > math.MinInt64 {
		all = append(all, d.Min-1, math.MinInt64)
	}
	if d.Max < math.MaxInt64 {
		all = append(all, d.Max+1, math.MaxInt64)
	}
	conspicuous = slices.DeleteFunc(conspicuous, d.Contains)
	return append(all, conspicuous...), conspicuous
}

// leaks reports whether the message shows the value in decimal or hexadecimal.
func leaks(message string, x int64) bool {
	message = strings.ToLower(message)
	magnitude := uint64(x)
	if x < 0 {
		magnitude = -magnitude
	}
	for _, form := range []string{
		strconv.FormatUint(magnitude, 10), strconv.FormatUint(magnitude, 16),
		strconv.FormatUint(uint64(x), 10), strconv.FormatUint(uint64(x), 16),
		fmt.Sprintf("%e", float64(x)),
	} {
		if strings.Contains(message, form) {
			return true
		}
	}
	return false
}

func checkOutsideDomain(tb testing.TB, p *probe) {
	all, conspicuous := outside(p.d)
	for _, x := range all {
		c, err := p.Encrypt(ctx, x)
		if !errors.Is(err, ope.ErrDomain) || c != nil {
			tb.Fatalf("Encrypt(%d), outside the domain %v: ciphertext %x, error %v; want none and ErrDomain", x, p.d, c, err)
		}
		if slices.Contains(conspicuous, x) && leaks(err.Error(), x) {
			tb.Fatalf("the error of Encrypt(%d) shows the value: %v", x, err)
		}
	}
	p.decrypts(tb, p.encrypt(tb, p.d.Min), p.d.Min) // errors leave the scheme usable
}

func checkForeignCiphertexts(tb testing.TB, p *probe) {
	xs := p.values()
	cs := p.settle(tb, xs)
	n := len(cs[0])

	// refused checks that c is refused, or is the ciphertext of what it decrypts to.
	refused := func(t rapid.TB, what string, c ope.Ciphertext) {
		t.Helper()
		given := bytes.Clone(c)
		x, err := p.Decrypt(ctx, c)
		if !bytes.Equal(given, c) {
			t.Fatalf("Decrypt changed its argument, %s, from %x to %x", what, given, c)
		}
		if errors.Is(err, ope.ErrCiphertext) || p.mutable && errors.Is(err, ope.ErrStale) {
			return
		}
		if err != nil {
			t.Fatalf("Decrypt of %s, %x: %v; want ErrCiphertext", what, c, err)
		}
		if len(c) != n {
			t.Fatalf("Decrypt of %s, %x, returned %d; ciphertexts have %d bytes", what, c, x, n)
		}
		if !p.d.Contains(x) {
			t.Fatalf("Decrypt of %s, %x, returned %d, outside the domain", what, c, x)
		}
		if again := p.encrypt(t, x); !bytes.Equal(again, c) {
			t.Fatalf("Decrypt of %s, %x, returned %d, whose ciphertext is %x", what, c, x, again)
		}
	}

	refused(tb, "nil", nil)
	refused(tb, "an empty string", ope.Ciphertext{})
	refused(tb, "all zeros", make(ope.Ciphertext, n))
	refused(tb, "all ones", bytes.Repeat([]byte{0xff}, n))
	refused(tb, "a long string", bytes.Repeat([]byte{0x5a}, 4096))
	for _, i := range thin(len(cs), 40) {
		c := cs[i]
		refused(tb, "a ciphertext without its last byte", c[:len(c)-1])
		refused(tb, "a ciphertext without its first byte", c[1:])
		refused(tb, "a ciphertext and a zero", append(bytes.Clone(c), 0))
		refused(tb, "a zero and a ciphertext", append([]byte{0}, c...))
		refused(tb, "the successor of a ciphertext", plus(c, 1))
		refused(tb, "the predecessor of a ciphertext", plus(c, -1))
		for bit := range 8 * len(c) {
			flipped := bytes.Clone(c)
			flipped[bit/8] ^= 1 << (bit % 8)
			refused(tb, "a ciphertext with a flipped bit", flipped)
		}
	}
	rapid.Check(tb, func(t *rapid.T) {
		refused(t, "a random string", rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "c"))
	})
}

func checkOwnership(tb testing.TB, p *probe) {
	x := p.d.Max
	a := p.encrypt(tb, x)
	want := bytes.Clone(a)
	for i := range a {
		a[i] ^= 0xff
	}
	if b := p.encrypt(tb, x); !bytes.Equal(b, want) {
		tb.Fatalf("after the caller wrote to the ciphertext of %d, it is %x, want %x", x, b, want)
	}
	p.decrypts(tb, want, x)
	ivs, err := p.Intervals(ctx, x, x)
	if err != nil || len(ivs) == 0 {
		tb.Fatalf("Intervals(%d, %d) = %v, %v", x, x, ivs, err)
	}
	clear(ivs[0].Start)
	clear(ivs[0].End)
	p.decrypts(tb, p.encrypt(tb, x), x)
}

// checkPermanence encrypts some values, then 10,000 others, and the former again.
func checkPermanence(tb testing.TB, p *probe) {
	xs := thinned(p.values(), 100)
	before := p.settle(tb, xs)
	random := rand.New(rand.NewPCG(1, 2))
	others := make([]int64, 10_000)
	for i := range others {
		others[i] = uniform(p.d, random.Uint64())
	}
	single := others
	if b, ok := p.Scheme.(ope.BatchEncrypter); ok {
		single = others[:len(others)/2]
		if _, err := b.EncryptBatch(ctx, others[len(others)/2:]); err != nil {
			tb.Fatalf("EncryptBatch: %v", err)
		}
	}
	for _, x := range single {
		p.encrypt(tb, x)
	}
	for i, x := range xs {
		if after := p.encrypt(tb, x); !bytes.Equal(before[i], after) {
			tb.Fatalf("the ciphertext of %d was %x and is %x after others were encrypted", x, before[i], after)
		}
		p.decrypts(tb, before[i], x)
	}
}

func checkSameKey(tb testing.TB, p *probe) {
	other := newProbe(tb, p.make, p.d)
	same := func(t rapid.TB, x int64) {
		if a, b := p.encrypt(t, x), other.encrypt(t, x); !bytes.Equal(a, b) {
			t.Fatalf("two schemes of one key encrypt %d as %x and %x", x, a, b)
		}
	}
	for _, i := range shuffled(len(p.values())) { // another order than any other check's
		same(tb, p.values()[i])
	}
	rapid.Check(tb, func(t *rapid.T) { same(t, Values(p.d).Draw(t, "x")) })
}

// checkConcurrency lets goroutines encrypt the same values, each in another order, on a scheme
// that has seen none of them. The race detector does the rest.
func checkConcurrency(tb testing.TB, p *probe) {
	xs := thinned(p.values(), 128)
	const workers = 8
	results := make([][]ope.Ciphertext, workers)
	failures := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		results[w] = make([]ope.Ciphertext, len(xs))
		wg.Go(func() { failures[w] = encryptAll(p, xs, results[w], uint64(w)) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		tb.Fatalf("under concurrent use: %v", err)
	}
	for i, c := range p.settle(tb, xs) {
		p.decrypts(tb, c, xs[i])
		for w := range workers {
			if !p.mutable && !bytes.Equal(results[w][i], c) {
				tb.Fatalf("under concurrent use, %d was encrypted as %x and as %x", xs[i], results[w][i], c)
			}
		}
	}
}

func encryptAll(p *probe, xs []int64, out []ope.Ciphertext, seed uint64) error {
	for _, i := range rand.New(rand.NewPCG(seed, 7)).Perm(len(xs)) {
		x := xs[i]
		c, err := p.Encrypt(ctx, x)
		if err != nil {
			return fmt.Errorf("Encrypt(%d): %w", x, err)
		}
		out[i] = c
		got, err := p.Decrypt(ctx, c)
		if p.mutable && errors.Is(err, ope.ErrStale) {
			continue // another goroutine's value moved it
		}
		if err != nil || got != x {
			return fmt.Errorf("Decrypt(%x) = %d, %w; want %d", c, got, err, x)
		}
		if _, err := p.Intervals(ctx, x, x); err != nil {
			return fmt.Errorf("Intervals(%d, %d): %w", x, x, err)
		}
		if a, ok := p.Scheme.(ope.Appender); ok {
			if d, err := a.AppendEncrypt(nil, x); err != nil || !bytes.Equal(d, c) {
				return fmt.Errorf("AppendEncrypt(nil, %d) = %x, %w; want %x", x, d, err, c)
			}
		}
		if b, ok := p.Scheme.(ope.BatchEncrypter); ok && i%16 == 0 {
			if ds, err := b.EncryptBatch(ctx, xs[i:i+1]); err != nil || len(ds) != 1 || !p.mutable && !bytes.Equal(ds[0], c) {
				return fmt.Errorf("EncryptBatch(%d) = %x, %w; want %x", x, ds, err, c)
			}
		}
	}
	return nil
}

// checkContext checks that a stateless scheme ignores the context. A stateful one may refuse to
// go on when it is cancelled, and is unharmed.
func checkContext(tb testing.TB, p *probe) {
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, x := range thinned(p.values(), 20) {
		c, err := p.Encrypt(cancelled, x)
		switch {
		case err == nil:
			p.decrypts(tb, c, x)
		case p.stateless:
			tb.Fatalf("Encrypt with a cancelled context: %v; a stateless scheme ignores it", err)
		case !errors.Is(err, context.Canceled):
			tb.Fatalf("Encrypt with a cancelled context: %v; want context.Canceled", err)
		case c != nil:
			tb.Fatalf("Encrypt with a cancelled context returned %x beside an error", c)
		}
		c = p.encrypt(tb, x)
		p.decrypts(tb, c, x)
		if _, err := p.Decrypt(cancelled, c); err != nil && (p.stateless || !errors.Is(err, context.Canceled)) {
			tb.Fatalf("Decrypt with a cancelled context: %v", err)
		}
		if _, err := p.Intervals(cancelled, x, x); err != nil && (p.stateless || !errors.Is(err, context.Canceled)) {
			tb.Fatalf("Intervals with a cancelled context: %v", err)
		}
	}
}

func checkAppend(tb testing.TB, p *probe) {
	a := p.Scheme.(ope.Appender)
	rapid.Check(tb, func(t *rapid.T) {
		x := Values(p.d).Draw(t, "x")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "prefix")
		spare := rapid.IntRange(0, 64).Draw(t, "spare")
		dst := append(make([]byte, 0, len(prefix)+spare), prefix...)
		got, err := a.AppendEncrypt(dst, x)
		if err != nil {
			t.Fatalf("AppendEncrypt(dst, %d): %v", x, err)
		}
		if want := append(bytes.Clone(prefix), p.encrypt(t, x)...); !bytes.Equal(got, want) {
			t.Fatalf("AppendEncrypt(%x, %d) = %x, want %x", prefix, x, got, want)
		}
		if !bytes.Equal(dst, prefix) {
			t.Fatalf("AppendEncrypt changed the bytes of dst from %x to %x", prefix, dst)
		}
	})
	all, conspicuous := outside(p.d)
	for _, x := range all {
		dst := append(make([]byte, 0, 100), "prefix"...)
		got, err := a.AppendEncrypt(dst, x)
		if !errors.Is(err, ope.ErrDomain) {
			tb.Fatalf("AppendEncrypt(dst, %d), outside the domain %v: %v; want ErrDomain", x, p.d, err)
		}
		if len(got) != len(dst) || cap(got) != cap(dst) || &got[0] != &dst[0] || string(got) != "prefix" {
			tb.Fatalf("AppendEncrypt did not return dst unchanged with its error, but %q", got)
		}
		if slices.Contains(conspicuous, x) && leaks(err.Error(), x) {
			tb.Fatalf("the error of AppendEncrypt(dst, %d) shows the value: %v", x, err)
		}
	}
}

func checkAppendAllocs(tb testing.TB, p *probe) {
	if vectortest.RaceDetector() {
		tb.Skip("the race detector makes sync.Pool allocate")
	}
	a := p.Scheme.(ope.Appender)
	xs := p.values()
	dst := make([]byte, 0, 1024)
	i := 0
	allocs := testing.AllocsPerRun(2000, func() {
		a.AppendEncrypt(dst, xs[i%len(xs)])
		i++
	})
	if allocs != 0 {
		tb.Fatalf("AppendEncrypt allocates %v times a call", allocs)
	}
}

func checkBatch(tb testing.TB, p *probe) {
	b := p.Scheme.(ope.BatchEncrypter)
	equal := func(t rapid.TB, xs []int64) []ope.Ciphertext {
		t.Helper()
		given := slices.Clone(xs)
		cs, err := b.EncryptBatch(ctx, xs)
		if err != nil {
			t.Fatalf("EncryptBatch of %d values: %v", len(xs), err)
		}
		if !slices.Equal(xs, given) {
			t.Fatalf("EncryptBatch changed its argument")
		}
		if len(cs) != len(xs) {
			t.Fatalf("EncryptBatch of %d values returned %d ciphertexts", len(xs), len(cs))
		}
		for i, x := range xs {
			if c := p.encrypt(t, x); !bytes.Equal(c, cs[i]) {
				t.Fatalf("EncryptBatch encrypted %d, the value at %d of %d, as %x; Encrypt as %x", x, i, len(xs), cs[i], c)
			}
		}
		return cs
	}
	equal(tb, nil)
	equal(tb, []int64{})
	xs := p.values()
	equal(tb, xs)
	slices.Reverse(xs)
	equal(tb, xs)
	rapid.Check(tb, func(t *rapid.T) {
		equal(t, rapid.SliceOfN(Values(p.d), 0, 50).Draw(t, "xs"))
	})
	random := rand.New(rand.NewPCG(3, 4))
	xs = make([]int64, 3000)
	for i := range xs {
		xs[i] = uniform(p.d, random.Uint64())
	}
	xs[2999] = xs[0] // at least one duplicate, far from its double
	cs := equal(tb, xs)

	// Each result is the caller's: neither writing nor appending to one may change another.
	want := make([][]byte, len(cs))
	for i, c := range cs {
		want[i] = bytes.Clone(c)
	}
	for i, c := range cs {
		if !bytes.Equal(c, want[i]) {
			tb.Fatalf("the ciphertexts %d and one before it of a batch share memory", i)
		}
		_ = append(c, 0xa5, 0x5a)
		for j := range c {
			c[j] ^= 0xff
		}
	}
	if c := p.encrypt(tb, xs[0]); !bytes.Equal(c, want[0]) {
		tb.Fatal("writing to the ciphertexts of a batch changed the scheme")
	}
}

func checkBatchOutsideDomain(tb testing.TB, p *probe) {
	b := p.Scheme.(ope.BatchEncrypter)
	_, conspicuous := outside(p.d)
	for _, position := range []int{137, 290, 299} {
		for _, bad := range conspicuous {
			for _, sorted := range []bool{false, true} {
				xs := make([]int64, 300)
				for i := range xs {
					xs[i] = uniform(p.d, uint64(i)*0x9e3779b97f4a7c15)
				}
				at := position
				if sorted {
					slices.Sort(xs)
					if at = 299; bad < p.d.Min {
						at = 0
					}
				}
				xs[at] = bad
				cs, err := b.EncryptBatch(ctx, xs)
				if !errors.Is(err, ope.ErrDomain) || cs != nil {
					tb.Fatalf("EncryptBatch with a value outside the domain: %d ciphertexts, error %v; want none and ErrDomain", len(cs), err)
				}
				if leaks(err.Error(), bad) {
					tb.Fatalf("the error of EncryptBatch shows the value %d: %v", bad, err)
				}
				if !regexp.MustCompile(`\b` + strconv.Itoa(at) + `\b`).MatchString(err.Error()) {
					tb.Fatalf("the error of EncryptBatch does not name the position %d of the value outside the domain: %v", at, err)
				}
			}
		}
	}
}

// filtered reports whether -run or -skip selects tests.
func filtered() bool {
	return testingFlag("test.run") != "" || testingFlag("test.skip") != ""
}
