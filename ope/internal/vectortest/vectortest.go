// Package vectortest has what the tests of the stateless schemes share: keys, and ciphertexts that are
// kept in files for ever. It also has the checks that both run with their own sizes.
package vectortest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Key returns the key whose secret is the bytes first, first+1, ...
func Key(t testing.TB, first byte) ope.Key {
	t.Helper()
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = first + byte(i)
	}
	k, err := ope.NewKey(secret)
	must(t, err)
	return k
}

// A Scheme is what vectors are for.
type Scheme interface {
	ope.Scheme
	ope.Appender
}

// A Case is a value and its ciphertext.
type Case struct {
	X int64
	C string // hex
}

// CaseOf returns what the scheme makes of a value.
func CaseOf(t testing.TB, s Scheme, x int64) Case {
	t.Helper()
	c, err := s.Encrypt(t.Context(), x)
	must(t, err)
	return Case{x, hex.EncodeToString(c)}
}

// Check encrypts and decrypts the value.
func (c Case) Check(t testing.TB, s Scheme) {
	t.Helper()
	if got := CaseOf(t, s, c.X); got != c {
		t.Fatalf("the ciphertext of %d is %s, must be %s", c.X, got.C, c.C)
	}
	ciphertext, err := hex.DecodeString(c.C)
	must(t, err)
	x, err := s.Decrypt(t.Context(), ciphertext)
	must(t, err)
	if x != c.X {
		t.Fatalf("%s decrypts to %d, must be %d", c.C, x, c.X)
	}
}

// A Digest is the SHA-256 of the concatenated ciphertexts of Min + floor(z_i M / 2^64), for the first
// Count outputs z_i of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) seeded with Seed, and M values.
type Digest struct {
	Seed, Count int
	SHA256      string
}

// DigestOf returns what the scheme makes of these values.
func DigestOf(t testing.TB, s Scheme, seed, count int) Digest {
	t.Helper()
	d, h := s.Domain(), sha256.New()
	state := uint64(seed)
	var c []byte
	for range count {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		if span := d.Span(); span != math.MaxUint64 {
			z, _ = bits.Mul64(z, span+1)
		}
		var err error
		c, err = s.AppendEncrypt(c[:0], d.At(z))
		must(t, err)
		h.Write(c)
	}
	return Digest{seed, count, hex.EncodeToString(h.Sum(nil))}
}

// Check encrypts the values; with -short, only if they are few: ciphertexts are also checked on other
// architectures, under emulation.
func (d Digest) Check(t testing.TB, s Scheme) {
	t.Helper()
	if testing.Short() && d.Count > 1000 {
		return
	}
	if got := DigestOf(t, s, d.Seed, d.Count); got != d {
		t.Fatalf("the digest of %d ciphertexts from seed %d is %s, must be %s", d.Count, d.Seed, got.SHA256, d.SHA256)
	}
}

// Allocations requires that calls of the scheme allocate nothing but what they return.
func Allocations(t testing.TB, s Scheme) {
	t.Helper()
	if RaceDetector() {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	c, err := s.Encrypt(t.Context(), 17)
	must(t, err)
	buf, ctx := make([]byte, 0, 24), t.Context()
	for name, call := range map[string]struct {
		most float64
		do   func()
	}{
		"AppendEncrypt": {0, func() { buf, _ = s.AppendEncrypt(buf[:0], 17) }},
		"Decrypt":       {0, func() { s.Decrypt(ctx, c) }},
		"Encrypt":       {1, func() { c, _ = s.Encrypt(ctx, 17) }},
	} {
		if n := testing.AllocsPerRun(200, call.do); n > call.most {
			t.Errorf("%v: %s allocates %v times, at most %v", s.Domain(), name, n, call.most)
		}
	}
}

// LargeBatch encrypts n values, enough for several goroutines: sorted or not, with duplicates and both ends. It
// compares some with single calls.
func LargeBatch(t testing.TB, s Scheme, n int) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	d, r := s.Domain(), rand.New(rand.NewPCG(7, 8))
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = d.At(r.Uint64N(d.Span() + 1))
	}
	xs[100], xs[200], xs[300], xs[400] = d.Max, d.Min, d.Max, d.Min
	for range 2 {
		cs, err := s.(ope.BatchEncrypter).EncryptBatch(t.Context(), xs)
		must(t, err)
		for i := 0; i < len(xs); i += 7 {
			if c, err := s.Encrypt(t.Context(), xs[i]); err != nil || !bytes.Equal(c, cs[i]) {
				t.Fatalf("value %d of a batch is encrypted as %x, alone as %x, %v", i, cs[i], c, err)
			}
		}
		slices.Sort(xs)
	}
}

// FuzzOrder fuzzes two values, a domain and a length of ciphertexts: order and round trip hold.
func FuzzOrder(f *testing.F, newScheme func(d ope.Domain, rangeBits int) (Scheme, error)) {
	f.Add(int64(0), int64(1), int64(-5), uint64(10), uint8(64))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64), uint64(math.MaxUint64), uint8(64))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64), uint64(math.MaxUint64), uint8(192))
	f.Add(int64(3), int64(3), int64(0), uint64(255), uint8(8))
	f.Fuzz(func(t *testing.T, x, y, low int64, span uint64, rangeBits uint8) {
		room := uint64(math.MaxInt64) - uint64(low) // how far the domain can reach up
		d := ope.Domain{Min: low, Max: int64(uint64(low) + min(span, room))}
		s, err := newScheme(d, int(rangeBits))
		if err != nil {
			t.Skip(err)
		}
		cx, errX := s.Encrypt(t.Context(), x)
		cy, errY := s.Encrypt(t.Context(), y)
		if (errX == nil) != d.Contains(x) || (errY == nil) != d.Contains(y) {
			t.Fatal("the domain is not what is encrypted")
		}
		if errX != nil || errY != nil {
			return
		}
		if got, want := bytes.Compare(cx, cy), cmp.Compare(x, y); got != want {
			t.Fatalf("compare %d and %d: %d", x, y, got)
		}
		if back, err := s.Decrypt(t.Context(), cx); err != nil || back != x {
			t.Fatalf("%d decrypts to %d, %v", x, back, err)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// RaceDetector reports whether the test was built with -race.
func RaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
