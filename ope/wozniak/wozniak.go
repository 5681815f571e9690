// Package wozniak is the order-preserving encryption of Wozniak, Rossberg, Grau, Alshawish and
// Schaefer (CCSW 2013), random subrange selection (RSS) over random uniform sampling (RUS), in two
// forms.
//
// RUS decides an order-preserving function by recursion. Choose a plaintext p of those left, each equally likely.
// Choose its ciphertext c, each equally likely, from those that leave room for all plaintexts below and above. Go
// on in the lower and the upper part. RSS first chooses at random which part of the range is used at all. Waage,
// Homann and Wiese (SECRYPT 2016, section 3.2.1) follow the recursion only to the value that is wanted, allow
// negative plaintexts, and give the ends of the domain their ciphertexts first: that of the least value, then that
// of the greatest. Here these two are chosen from those that leave room for all values between; the paper chooses
// them from all, which often leaves too little.
//
// The keyed form, [New], is the default. It keeps no state: the coins of each step are a function of the key and
// of the part [d_min, d_max] of the domain that the step is about. Every encryption and decryption descends from
// the whole domain. As in a random binary search tree, that takes about 2 ln |D| steps: 42 for 32 bits and 87 for
// 64. The function is therefore the one that the full recursion between the two ends gives, whatever is encrypted
// in which order. The indexed form, [NewIndexed], is the one of Waage et al.: it starts from the neighbours that
// are encrypted already, which an index keeps. By default it keeps every pair that is drawn on the way to a value,
// so that a unit of a million pairs is full after some 48,000 values of 32 bits; see [IndexedOptions.TargetsOnly].
//
// # Exactness
//
// Both choices of a step are exactly uniform, and a ciphertext of the keyed form is a mathematical
// function of the key, the parameters and the plaintext. No floating point takes part: ciphertexts
// are the same on every architecture and with every compiler, and they are so for good.
//
// Their law is that of three choices in turn, but for what AES differs from a random function: the
// subrange by RSS, the ciphertexts of the two ends in it, and the values between by full RUS. It is
// not the law of full RUS in RSS, which does not choose the ends first: of five values in eight
// ciphertexts, the two laws are at a total variation of 0.13. docs/format.md specifies every bit.
//
// # What it gives away
//
// Order and equality, always, to everyone who sees ciphertexts. A single ciphertext shows less of
// its plaintext than one of package boldyreva, which is the plaintext stretched: here both are
// split independently at each step. Of a random plaintext, someone who sees where the ciphertext
// lies between those of the ends of the domain guesses the place in the domain with a standard
// deviation of 0.22 instead of 0.29. With more ciphertexts this is lost: their order alone shows
// places, and for a dense column, or one whose distribution is known, sorting recovers most values
// (Naveed, Kamara and Wright, CCS 2015). Someone who knows pairs of plaintext and ciphertext knows
// between which of them the others lie.
//
// Distances show where the range is too small: a part of the range with as many ciphertexts as
// plaintexts has one function only, and its ciphertexts are as far from each other as their
// plaintexts. See [Options.RangeBits].
//
// Nothing here runs in constant time: the number of steps depends on the plaintext, and where the
// processor has no AES instructions, AES is looked up in tables.
//
// There is no authentication; see package ope.
package wozniak

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
)

// Options are the parameters of a [Scheme] that have defaults. All of them decide ciphertexts.
type Options struct {
	// RangeBits is R, the bit length of ciphertexts, at most 192; 0 stands for the default.
	//
	// The default is max(3b, b+64) for a domain of b bits: 72 for 8-bit plaintexts, 96 for 32-bit
	// ones, 192 for 64-bit ones. Why not less? A part of the range that has no slack, no more
	// ciphertexts than plaintexts, shows distances. Each of the 2 ln |D| steps cuts the slack at a
	// uniform place, which costs 1 nat on average: 2 ln |D| nats in all, or 2b bits. Of 3b bits b
	// are left, less some for RSS, with a deviation of 2 sqrt(ln |D|) nats. So 1.8 % of 32-bit
	// plaintexts and 0.2 % of 64-bit ones come to lie in a part without slack. With 64 and 128 bits
	// it is every second one. Small domains have 64 bits more than b, so that a string that is no
	// ciphertext, such as one of another key, is hardly ever taken for one. Why not more? At 64
	// bits it would gain little, and it lengthens row keys.
	RangeBits int

	// AllowSmallRange accepts a RangeBits below the default, down to as many as the domain has.
	// With none to spare the function is the identity, x - Min, and hides nothing.
	AllowSmallRange bool
}

// A Scheme is the keyed form. It has no state, and no cache either: the upper steps, which all values
// share, are taken again by each, and only a batch takes them once. Make it with [New]: the
// zero Scheme has no key, and its methods return [ope.ErrKey].
type Scheme struct {
	id     string
	domain ope.Domain
	bits   int
	tree   *tree // behind a pointer, so that fmt does not show its ends: see [memory]
}

var (
	_ ope.Linear         = (*Scheme)(nil)
	_ ope.Appender       = (*Scheme)(nil)
	_ ope.BatchEncrypter = (*Scheme)(nil)
)

// New returns the keyed scheme for a domain. Nil options are the defaults.
func New(key ope.Key, d ope.Domain, opts *Options) (*Scheme, error) {
	if key.IsZero() {
		return nil, fmt.Errorf("%w: it is the zero Key; make one with ope.GenerateKey or ope.NewKey", ope.ErrKey)
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	rangeBits, err := checkRange(bits.Len64(d.Span()), o.RangeBits, 1, o.AllowSmallRange)
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("wozniak/1 domain=%s range=%d", d, rangeBits)
	return &Scheme{
		id:     id,
		domain: d,
		bits:   rangeBits,
		tree: newTree(coins.New(key, "wozniak", id, "tree"), coins.New(key, "wozniak", id, "subrange"),
			d.Span(), rangeBits),
	}, nil
}

func defaultRangeBits(domainBits int) int { return max(3*domainBits, domainBits+64) }

// checkRange returns the bits of the range that the options ask for, of both forms of the scheme.
func checkRange(domainBits, rangeBits, least int, allowSmall bool) (int, error) {
	enough := defaultRangeBits(domainBits)
	if rangeBits == 0 {
		rangeBits = enough
	}
	if rangeBits < least || rangeBits > 8*maxSize {
		return 0, fmt.Errorf("%w: a range of %d bits, need %d to %d", ope.ErrParams, rangeBits, least, 8*maxSize)
	}
	if rangeBits < domainBits {
		return 0, fmt.Errorf("%w: a range of %d bits is smaller than the domain, which has %d",
			ope.ErrParams, rangeBits, domainBits)
	}
	if rangeBits < enough && !allowSmall {
		return 0, fmt.Errorf("%w: a range of %d bits shows distances in a domain of %d; use at least %d, or set AllowSmallRange",
			ope.ErrParams, rangeBits, domainBits, enough)
	}
	return rangeBits, nil
}

// ID implements [ope.Scheme], for example "wozniak/1 domain=[0,255] range=72".
func (s *Scheme) ID() string { return s.id }

// Format implements fmt.Formatter: every verb prints the ID. The ciphertexts of the ends of the domain come from the key.
func (s Scheme) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.id) }

// Domain implements [ope.Scheme].
func (s *Scheme) Domain() ope.Domain { return s.domain }

// ImmutableCiphertexts implements [ope.Immutable].
func (s *Scheme) ImmutableCiphertexts() {}

// LinearOrder implements [ope.Linear].
func (s *Scheme) LinearOrder() {}

// size returns the length of a ciphertext in bytes.
func (s *Scheme) size() int { return (s.bits + 7) / 8 }

// Encrypt implements [ope.Scheme].
func (s *Scheme) Encrypt(_ context.Context, x int64) (ope.Ciphertext, error) {
	if err := s.check(x); err != nil {
		return nil, err
	}
	return s.encode(s.tree.ciphertext(s.domain.Offset(x))), nil
}

// AppendEncrypt implements [ope.Appender].
func (s *Scheme) AppendEncrypt(dst []byte, x int64) ([]byte, error) {
	if err := s.check(x); err != nil {
		return dst, err
	}
	return s.tree.ciphertext(s.domain.Offset(x)).appendTo(dst, s.size()), nil
}

// Decrypt implements [ope.Scheme].
func (s *Scheme) Decrypt(_ context.Context, c ope.Ciphertext) (int64, error) {
	if err := made(s.id); err != nil {
		return 0, err
	}
	if len(c) != s.size() {
		return 0, ope.ErrCiphertext
	}
	m, ok := s.tree.rank(fromBytes(c))
	if !ok {
		return 0, ope.ErrCiphertext
	}
	return s.domain.At(m), nil
}

// Intervals implements [ope.Scheme]. An interval that reaches an end of the domain is open there, so
// that it does not disclose the ciphertext of that end.
func (s *Scheme) Intervals(_ context.Context, lo, hi int64) ([]ope.Interval, error) {
	if err := made(s.id); err != nil {
		return nil, err
	}
	d, ok := s.domain.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	iv := ope.Interval{Start: make(ope.Ciphertext, s.size())}
	if d.Min != s.domain.Min {
		iv.Start = s.encode(s.tree.ciphertext(s.domain.Offset(d.Min)))
	}
	if d.Max != s.domain.Max {
		// Something is above the ciphertext of what is below the highest.
		iv.End = s.encode(s.tree.ciphertext(s.domain.Offset(d.Max)).add(u192{lo: 1}))
	} else {
		iv.End = append(ones(8*s.size()).appendTo(make([]byte, 0, s.size()+1), s.size()), 0)
	}
	return []ope.Interval{iv}, nil
}

func (s *Scheme) encode(c u192) ope.Ciphertext {
	return c.appendTo(make([]byte, 0, s.size()), s.size())
}

// check returns an error unless the scheme has a key, and x is in its domain.
func (s *Scheme) check(x int64) error { return check(s.id, s.domain, x) }

// check returns an error unless the scheme of an identifier has a key, and x is in its domain.
func check(id string, d ope.Domain, x int64) error {
	if d.Contains(x) && id != "" {
		return nil
	}
	return cmp.Or(made(id), fmt.Errorf("%w %v", ope.ErrDomain, d))
}

// made returns an error for the scheme of no identifier: the zero value, which no function has made.
func made(id string) error {
	if id == "" {
		return fmt.Errorf("%w: this scheme is a zero value; make it with wozniak.New or NewIndexed", ope.ErrKey)
	}
	return nil
}
