// Package vectortest has what the tests of the stateless schemes share: keys, and ciphertexts that are
// kept in files for ever.
package vectortest

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/bits"
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
