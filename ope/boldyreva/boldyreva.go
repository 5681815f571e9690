// Package boldyreva is the stateless order-preserving encryption of Boldyreva, Chenette, Lee and
// O'Neill (EUROCRYPT 2009), and its variant with a secret modular shift, mOPE (Boldyreva,
// Chenette and O'Neill, CRYPTO 2011).
//
// A key selects a random order-preserving function from a domain of M plaintexts to a range of
// 2^R ciphertexts: every M-subset of the range is equally likely to be its image. The function is
// never stored. Encryption descends a binary tree of ranges; at each node the key's coins decide how
// many of the node's plaintexts lie in the lower half, a hypergeometric variate.
//
// # Exactness
//
// The variates have exactly the hypergeometric law, and a ciphertext is a mathematical function of
// the key, the parameters and the plaintext. No floating point takes part: ciphertexts are the same
// on every architecture and with every compiler, and they are so for good. The distance of a
// ciphertext's law from the ideal is below 2^-120, beside that of AES from a random function.
// docs/format.md specifies every bit.
//
// # What it gives away
//
// Order and equality, always, to everyone who sees ciphertexts. And more: a ciphertext is close to its plaintext
// stretched to the range. So it shows about the upper half of the plaintext's bits to someone who knows the
// domain, and nothing of the data (Boldyreva, Chenette and O'Neill, CRYPTO 2011, on window one-wayness). The lower
// half is hidden only as long as the plaintexts are few and not known in part: for a dense column, or one whose
// distribution is known, sorting recovers most values (Naveed, Kamara and Wright, CCS 2015).
//
// The shift of [NewModular] hides where the domain begins. What it gains is lost with the first
// open-ended or wrapping query, which points at the place (Mavroforakis et al., SIGMOD 2015, on
// queries against mOPE), and with data dense enough to show a gap. It adds nothing against someone
// who knows a single pair of plaintext and ciphertext.
//
// Nothing here runs in constant time: rejection sampling takes a time that depends on the plaintext,
// and where the processor has no AES instructions, AES is looked up in tables.
//
// There is no authentication; see package ope.
package boldyreva

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
)

// Options are the parameters of a scheme that have defaults. All of them decide ciphertexts.
type Options struct {
	// RangeBits is R, the bit length of ciphertexts, at most 128; 0 stands for the default.
	//
	// The default is twice the bits of the domain, and at least eight more, rounded up to whole
	// bytes: 16 for 8-bit plaintexts, 64 for 32-bit ones, 128 for 64-bit ones.
	// Why not less? The range has to exceed the domain by far for the function to have any
	// freedom. At twice the bits, neighbouring ciphertexts of a full domain of M are about M
	// apart; a string that is no ciphertext, such as one of another key, is taken for one with
	// probability 1/M only. Why not more? Bits beyond that are independent of the plaintext's
	// neighbours and hide nothing; they only lengthen row keys.
	RangeBits int

	// AllowSmallRange accepts a RangeBits of less than eight bits above the domain's, down to as
	// many as the domain has. The fewer, the more the function is like the identity; with none
	// to spare it is the identity, x - Min, and hides nothing.
	AllowSmallRange bool
}

// A Scheme is the linear order-preserving encryption of 2009. Make it with [New]: the zero Scheme
// has no key, and its methods return [ope.ErrKey].
type Scheme struct{ scheme }

// A ModularScheme is mOPE: the encryption of 2009 after a secret rotation of the domain. Make it
// with [NewModular]: the zero ModularScheme has no key, and its methods return [ope.ErrKey].
type ModularScheme struct{ scheme }

var (
	_ ope.Linear         = (*Scheme)(nil)
	_ ope.Immutable      = (*ModularScheme)(nil)
	_ ope.Appender       = (*Scheme)(nil)
	_ ope.Appender       = (*ModularScheme)(nil)
	_ ope.BatchEncrypter = (*Scheme)(nil)
	_ ope.BatchEncrypter = (*ModularScheme)(nil)
)

// New returns the linear scheme for a domain. Nil options are the defaults.
func New(key ope.Key, d ope.Domain, opts *Options) (*Scheme, error) {
	s, err := newScheme("boldyreva/1", key, d, opts)
	if err != nil {
		return nil, err
	}
	return &Scheme{*s}, nil
}

// NewModular returns the modular scheme for a domain. Its coins have nothing to do with those of
// [New] with the same key. Nil options are the defaults.
func NewModular(key ope.Key, d ope.Domain, opts *Options) (*ModularScheme, error) {
	s, err := newScheme("mope/1", key, d, opts)
	if err != nil {
		return nil, err
	}
	s.modular = true
	s.shift = coins.New(key, "boldyreva", s.id, "shift").Uniform(d.Span())
	return &ModularScheme{*s}, nil
}

// LinearOrder implements [ope.Linear].
func (s *Scheme) LinearOrder() {}

// scheme is what both schemes are; a linear one has shift 0.
type scheme struct {
	id      string
	domain  ope.Domain
	tree    tree
	modular bool
	*rotation
}

// A rotation is how far the domain is shifted. It is behind a pointer of its own: what an application has a scheme in may be
// printed with a verb that does not suit a pointer, and then fmt shows what that points to, but nothing beyond.
type rotation struct{ shift uint64 }

func newScheme(name string, key ope.Key, d ope.Domain, opts *Options) (*scheme, error) {
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
	domainBits := bits.Len64(d.Span())
	if o.RangeBits == 0 {
		o.RangeBits = defaultRangeBits(domainBits)
	}
	if o.RangeBits < 1 || o.RangeBits > 128 {
		return nil, fmt.Errorf("%w: a range of %d bits, need 1 to 128", ope.ErrParams, o.RangeBits)
	}
	if o.RangeBits < domainBits {
		return nil, fmt.Errorf("%w: a range of %d bits is smaller than the domain, which has %d",
			ope.ErrParams, o.RangeBits, domainBits)
	}
	if o.RangeBits < domainBits+8 && !o.AllowSmallRange {
		return nil, fmt.Errorf("%w: a range of %d bits hides little of a domain of %d; use at least %d, or set AllowSmallRange",
			ope.ErrParams, o.RangeBits, domainBits, domainBits+8)
	}
	id := fmt.Sprintf("%s domain=%s range=%d", name, d, o.RangeBits)
	return &scheme{
		id: id, domain: d,
		tree: newTree(coins.New(key, "boldyreva", id, "coins"), d.Span(), uint(o.RangeBits)), rotation: new(rotation),
	}, nil
}

func defaultRangeBits(domainBits int) int {
	return min((max(2*domainBits, domainBits+8)+7)/8*8, 128)
}

// ID implements [ope.Scheme], for example "boldyreva/1 domain=[0,255] range=16" or,
// of a modular scheme, "mope/1 domain=[0,255] range=16".
func (s *scheme) ID() string { return s.id }

// Format implements fmt.Formatter: every verb prints the ID. The shift is as secret as the key.
func (s scheme) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.id) }

// Domain implements [ope.Scheme].
func (s *scheme) Domain() ope.Domain { return s.domain }

// ImmutableCiphertexts implements [ope.Immutable].
func (s *scheme) ImmutableCiphertexts() {}

// size returns the length of a ciphertext in bytes.
func (s *scheme) size() int { return int(s.tree.bits+7) / 8 }

// Encrypt implements [ope.Scheme].
func (s *scheme) Encrypt(_ context.Context, x int64) (ope.Ciphertext, error) {
	if err := s.check(x); err != nil {
		return nil, err
	}
	return s.encrypt(x), nil
}

// AppendEncrypt implements [ope.Appender].
func (s *scheme) AppendEncrypt(dst []byte, x int64) ([]byte, error) {
	if err := s.check(x); err != nil {
		return dst, err
	}
	hi, lo := s.tree.encrypt(s.rank(x))
	return appendWords(dst, hi, lo, s.size()), nil
}

// Decrypt implements [ope.Scheme].
func (s *scheme) Decrypt(_ context.Context, c ope.Ciphertext) (int64, error) {
	if err := s.made(); err != nil {
		return 0, err
	}
	if len(c) != s.size() {
		return 0, ope.ErrCiphertext
	}
	var hi, lo uint64
	for _, b := range c {
		hi, lo = hi<<8|lo>>56, lo<<8|uint64(b)
	}
	m, ok := s.tree.decrypt(hi, lo)
	if !ok {
		return 0, ope.ErrCiphertext
	}
	if m < s.shift {
		m += s.domain.Span() + 1 // both wrap if the domain is all of int64
	}
	return s.domain.At(m - s.shift), nil
}

// Intervals implements [ope.Scheme]. An interval of a linear scheme that reaches an end of the
// domain is open there, so that it does not disclose the ciphertext of that end.
func (s *scheme) Intervals(_ context.Context, lo, hi int64) ([]ope.Interval, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	d, ok := s.domain.Intersect(lo, hi)
	switch {
	case !ok:
		return nil, nil
	case d == s.domain:
		return []ope.Interval{{Start: s.lowest(), End: s.top()}}, nil
	case s.rank(d.Min) > s.rank(d.Max): // the shift wraps around between them
		return []ope.Interval{
			{Start: s.encrypt(d.Min), End: s.top()},
			{Start: s.lowest(), End: s.after(d.Max)},
		}, nil
	}
	// A modular scheme encrypts both bounds even where its rotation begins or ends: an open bound
	// would point at that place.
	var iv ope.Interval
	if d.Min == s.domain.Min && !s.modular {
		iv.Start = s.lowest()
	} else {
		iv.Start = s.encrypt(d.Min)
	}
	if d.Max == s.domain.Max && !s.modular {
		iv.End = s.top()
	} else {
		iv.End = s.after(d.Max)
	}
	return []ope.Interval{iv}, nil
}

// A batch is encrypted in chunks, each by one walk from the root; this many values share one, so
// that the common path to them costs nothing, and a cancelled batch ends soon.
const chunk = 1 << 13

// EncryptBatch implements [ope.BatchEncrypter]. It uses up to GOMAXPROCS goroutines, and ends with
// the context's error if ctx is cancelled. The ciphertexts lie side by side in one
// array, so that one that is kept keeps them all in memory.
func (s *scheme) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	if err := cmp.Or(s.made(), ctx.Err()); err != nil {
		return nil, err
	}
	b := batch{ranks: make([]uint64, len(xs)), size: s.size(), out: make([]byte, len(xs)*s.size())}
	for i, x := range xs {
		if err := s.check(x); err != nil {
			return nil, fmt.Errorf("value at position %d: %w", i, err)
		}
		b.ranks[i] = s.rank(x)
	}
	// Ascending values have ascending ranks, up to one wrap of the shift; others are sorted.
	runs := [2]int{len(xs), len(xs)}
	if slices.IsSorted(xs) {
		for i := 1; i < len(xs); i++ {
			if b.ranks[i] < b.ranks[i-1] {
				runs[0] = i
				break
			}
		}
	} else {
		b.sort()
	}

	type span struct{ from, to int }
	var chunks []span
	for from, r := 0, 0; r < len(runs); r++ {
		for from < runs[r] {
			to := min(from+chunk, runs[r])
			chunks = append(chunks, span{from, to})
			from = to
		}
	}
	var next atomic.Int64
	work := func() {
		w := s.tree.get()
		defer s.tree.put(w)
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(chunks) {
				return
			}
			s.tree.walk(w, node{bits: s.tree.bits, last: s.tree.last}, &b, chunks[i].from, chunks[i].to)
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chunks)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cs := make([]ope.Ciphertext, len(xs))
	for i := range cs {
		cs[i] = b.out[i*b.size : (i+1)*b.size : (i+1)*b.size]
	}
	return cs, nil
}

// encrypt returns the ciphertext of a value of the domain.
func (s *scheme) encrypt(x int64) ope.Ciphertext {
	hi, lo := s.tree.encrypt(s.rank(x))
	return appendWords(make([]byte, 0, s.size()), hi, lo, s.size())
}

// rank returns the place of x in the order of ciphertexts: its offset, shifted.
func (s *scheme) rank(x int64) uint64 {
	m, room := s.domain.Offset(x), s.domain.Span()-s.shift
	if m > room {
		return m - room - 1
	}
	return m + s.shift
}

// made returns an error for the zero scheme, which no function has made.
func (s *scheme) made() error {
	if s.tree.source == nil {
		return errZero
	}
	return nil
}

var errZero = fmt.Errorf("%w: this scheme is a zero value; make it with boldyreva.New, NewModular or NewText", ope.ErrKey)

// check returns an error unless the scheme has a key, and x is in its domain.
func (s *scheme) check(x int64) error {
	if s.domain.Contains(x) && s.tree.source != nil {
		return nil
	}
	return cmp.Or(s.made(), fmt.Errorf("%w %v", ope.ErrDomain, s.domain))
}

func (s *scheme) lowest() ope.Ciphertext { return make(ope.Ciphertext, s.size()) }

// top returns the bound that is above every byte string of a ciphertext's length.
func (s *scheme) top() ope.Ciphertext {
	c := make(ope.Ciphertext, s.size()+1)
	for i := range s.size() {
		c[i] = 0xff
	}
	return c
}

// after returns the lowest bound above the ciphertext of x.
func (s *scheme) after(x int64) ope.Ciphertext {
	c := s.encrypt(x)
	for i := len(c) - 1; i >= 0; i-- {
		if c[i]++; c[i] != 0 {
			return c
		}
	}
	return s.top()
}

// appendWords appends the low size bytes, at most 16, of a 128-bit number.
func appendWords(dst []byte, hi, lo uint64, size int) []byte {
	if size == 8 {
		return binary.BigEndian.AppendUint64(dst, lo)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return append(dst, b[16-size:]...)
}
