package wozniak

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/groupcommit"
	"github.com/rangecrypt/rangecrypt/ope"
)

// IndexedOptions are the parameters of an [Indexed] scheme that have defaults.
type IndexedOptions struct {
	// RangeBits is the bit length of ciphertexts, at least 16 and at most 192; 0 stands for the
	// default, which is that of [Options.RangeBits], for the same reasons.
	RangeBits int

	// AllowSmallRange accepts a RangeBits below the default, down to as many as the domain has, but at least 16. See
	// [Options.AllowSmallRange].
	AllowSmallRange bool

	// TargetsOnly keeps of the pairs that are drawn only those of the values that were asked for. By default all
	// are kept, and then the law of the function is that of the keyed form, full RUS between the ends, whatever
	// the order in which values come. With TargetsOnly it is not: the law of the ciphertexts depends on the order
	// of insertion. (An example has four values between the ends, and ten ciphertexts for them. There the law is
	// at a total variation of 0.20 to 0.23 from full RUS. Those of ascending and descending order are at 0.26 from
	// each other.) In exchange the index has one record a value. By default it has about 24 for 10,000 values of
	// 32 bits, and 68 for 64 bits.
	//
	// So the default divides a unit, of 1,000,000 pairs, at some 48,000 values of 32 bits, or
	// 15,000 of 64 bits; TargetsOnly does so at 1,000,000. Set it for columns that grow large, or
	// take [New], which has no index. It cannot be changed later.
	TargetsOnly bool

	// CacheValues bounds the pairs that are remembered in memory, of all units together, at most 64
	// bytes each; 0 stands for 1,000,000. It is at least 1000. With fewer than the index has,
	// look-ups take more round trips, and up to twice as many are remembered for a while.
	CacheValues int

	// UnitValues is how many pairs a unit of the index has, which is one row of the database, before it is divided; 0
	// stands for 1,000,000, of about 100 MB, and it is at least 64.
	UnitValues int

	// Coins are the random bytes that ciphertexts are drawn from; nil stands for crypto/rand. Set it
	// to reproduce a run. Who knows these bytes knows the plaintexts. It is read ahead, by one
	// goroutine at a time.
	Coins io.Reader
}

// unitValues is the default of [IndexedOptions.UnitValues].
const unitValues = 1_000_000

// Indexed is the scheme as Waage et al. 2016, section 3.2.1, modify it: an order-preserving
// function by random subrange selection and random uniform sampling (Wozniak et al. 2013) that is
// decided on demand, from the neighbours that are decided already. The pairs of plaintext and
// ciphertext are kept in a unit of an [ope.Index], and in further ones once it is full; the server
// sees the ciphertexts and sealed plaintexts.
//
// A ciphertext is for ever once it was given, so it may be a row key. But it is not a function of the key, as that
// of the keyed scheme is. Who loses the index loses the ciphertexts that were not yet given, and every writer
// needs the index.
//
// Make it with [NewIndexed]: the zero Indexed has no key, and its methods return [ope.ErrKey].
//
// Any number of clients, in any number of processes, may share an index. Every new ciphertext is
// committed under the condition that its unit has not changed since its neighbours were read,
// because places are random: two clients that put values into the same gap would not collide.
// Concurrent calls on one Indexed share commits.
type Indexed struct {
	id     string
	domain ope.Domain
	bits   int
	keep   bool // all pairs, not only targets
	index  ope.Index
	key    ope.Key // of records
	coins  draws   // used with the lock held

	// What tests change.
	limit    int // pairs at which a unit is divided
	fanOut   int // parts that it is divided into
	cache    int
	parallel int // most reads of one round trip
	page     int // most records of one read
	ahead    int // the same where the unit is read ahead

	commits *groupcommit.Group[wish, u192]

	*memory
}

// A memory is what a client knows. It is behind a pointer, because an application may print what it has a client in. Where the
// verb does not suit a pointer, fmt shows what that points to, but nothing beyond.
type memory struct {
	mu       sync.RWMutex
	room     []pair // between which a unit that is opened leaves room; see Restore
	known    pairs  // of all units
	root     *unit
	views    uint32            // numbers of views so far
	listings map[uint64][]part // what the root says of other units
	stats    IndexStats
}

// IndexStats counts what an [Indexed] has done since it was made.
type IndexStats struct {
	Samplings int // executions of the sample procedure, the measure of Waage et al. 2016, section 3.2.1
	Pairs     int // that were put into the index
	Trips     int // round trips to the index one after the other; reads made together count as one
	Reads     int
	Commits   int // that were applied
	Refused   int // that met a change by another client
	Unknown   int // whose outcome was unknown
	Divided   int // units that were divided
	Copied    int // pairs that were copied to the parts of divided units
}

var (
	_ ope.Linear         = (*Indexed)(nil)
	_ ope.BatchEncrypter = (*Indexed)(nil)
)

// NewIndexed returns the scheme for a domain whose state is in a unit of the index. The unit is
// opened by the first value that is encrypted, and belongs to this key, domain and options from then
// on; those of others are refused with [ope.ErrIndex] at the first use. Nil options are the
// defaults.
//
// Units that come of a division are named unit || "/" || 16 hexadecimal digits. A unit with a name of more than 47 bytes
// cannot be divided: values beyond its pairs are [ope.ErrFull], and what is there is found as before.
func NewIndexed(key ope.Key, d ope.Domain, index ope.Index, unit ope.Unit, opts *IndexedOptions) (*Indexed, error) {
	if key.IsZero() {
		return nil, fmt.Errorf("%w: it is the zero Key; make one with ope.GenerateKey or ope.NewKey", ope.ErrKey)
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if index == nil {
		return nil, fmt.Errorf("%w: no index", ope.ErrParams)
	}
	var o IndexedOptions
	if opts != nil {
		o = *opts
	}
	// Two bytes at least, so that no ciphertext is the header's key.
	rangeBits, err := checkRange(bits.Len64(d.Span()), o.RangeBits, 16, o.AllowSmallRange)
	if err != nil {
		return nil, err
	}
	if o.CacheValues < 0 || o.CacheValues > 0 && o.CacheValues < 1000 {
		return nil, fmt.Errorf("%w: a cache of %d values, need at least 1000", ope.ErrParams, o.CacheValues)
	}
	if o.CacheValues == 0 {
		o.CacheValues = unitValues
	}
	if o.UnitValues < 0 || o.UnitValues > 0 && o.UnitValues < 64 {
		return nil, fmt.Errorf("%w: units of %d values, need at least 64", ope.ErrParams, o.UnitValues)
	}
	if o.Coins == nil {
		o.Coins = rand.Reader
	}
	kept := "all"
	if o.TargetsOnly {
		kept = "targets"
	}
	id := fmt.Sprintf("wozniak-indexed/1 domain=%s range=%d keep=%s", d, rangeBits, kept)
	s := &Indexed{
		id: id, domain: d, bits: rangeBits, keep: !o.TargetsOnly,
		index: index, key: key.Derive("wozniak-indexed"), coins: drawFrom(o.Coins),
		limit: cmp.Or(o.UnitValues, unitValues), fanOut: 16, cache: o.CacheValues, parallel: 32, page: 32, ahead: 4096,
		memory: &memory{listings: make(map[uint64][]part)},
	}
	if s.root, err = s.newUnit(unit, pair{}, pair{x: d.Span()}); err != nil {
		return nil, err
	}
	s.commits = groupcommit.New(commonTurn, s.encrypt)
	return s, nil
}

// ID implements [ope.Scheme], for example "wozniak-indexed/1 domain=[0,255] range=72 keep=all".
func (s *Indexed) ID() string { return s.id }

// Format implements fmt.Formatter: every verb prints the ID. What is remembered are plaintexts with their ciphertexts.
func (s *Indexed) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.id) }

// Domain implements [ope.Scheme].
func (s *Indexed) Domain() ope.Domain { return s.domain }

// ImmutableCiphertexts implements [ope.Immutable].
func (s *Indexed) ImmutableCiphertexts() {}

// LinearOrder implements [ope.Linear].
func (s *Indexed) LinearOrder() {}

// Stats returns what was done so far.
func (s *Indexed) Stats() IndexStats {
	m := cmp.Or(s.memory, new(memory))
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stats
}

func (s *Indexed) size() int { return (s.bits + 7) / 8 }

func (s *Indexed) bytes(c u192) ope.Ciphertext {
	return c.appendTo(make([]byte, 0, s.size()), s.size())
}

// has returns an error unless the scheme has a key, and x is in its domain.
func (s *Indexed) has(x int64) error { return check(s.id, s.domain, x) }

// cached returns the ciphertext of an offset if it is remembered.
func (s *Indexed) cached(x uint64) (u192, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if low, _ := s.known.around(x); low != nil && low.x == x {
		return low.c, true
	}
	return u192{}, false
}

// Encrypt implements [ope.Scheme]. A value that is remembered costs no round trip, another one to
// two where its neighbours are remembered.
func (s *Indexed) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	if err := s.has(x); err != nil {
		return nil, err
	}
	if c, ok := s.cached(s.domain.Offset(x)); ok {
		return s.bytes(c), nil
	}
	cs, err := s.commits.Do(ctx, []wish{{x: s.domain.Offset(x)}})
	if err != nil {
		return nil, err
	}
	return s.bytes(cs[0]), nil
}

// EncryptBatch implements [ope.BatchEncrypter]. It commits in parts, between which other callers take
// their turn; after an error some values may have got their ciphertexts.
func (s *Indexed) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	if err := cmp.Or(made(s.id), ctx.Err()); err != nil {
		return nil, err
	}
	wishes := make([]wish, len(xs))
	for i, x := range xs {
		if err := s.has(x); err != nil {
			return nil, fmt.Errorf("value at position %d: %w", i, err)
		}
		wishes[i].x = s.domain.Offset(x)
	}
	found, err := s.commits.Do(ctx, wishes)
	if err != nil {
		return nil, err
	}
	cs := make([]ope.Ciphertext, len(xs))
	for i, c := range found {
		cs[i] = s.bytes(c)
	}
	return cs, nil
}

// Decrypt implements [ope.Scheme]. A ciphertext that is not remembered costs one round trip, or two where a unit was
// divided and nobody has put a value beside it since. One that the index has no record of is [ope.ErrCiphertext], or
// [ope.ErrIndex] where the index was made again; one of another index is noticed, unless by chance both gave the same string.
// On an [ope.Decider], one that is not there is looked up again after what is there is decided.
func (s *Indexed) Decrypt(ctx context.Context, c ope.Ciphertext) (int64, error) {
	if err := made(s.id); err != nil || len(c) != s.size() {
		return 0, cmp.Or(err, ope.ErrCiphertext)
	}
	s.mu.RLock()
	known, found := s.known.byCiphertext(fromBytes(c))
	s.mu.RUnlock()
	if found {
		return s.domain.At(known.x), nil
	}
	open, err := s.ready(ctx)
	if err == nil && !open && s.root.decides(ctx, &err) {
		open, err = s.ready(ctx)
	}
	if err != nil || !open {
		return 0, cmp.Or(err, ope.ErrCiphertext)
	}
	q, err := s.find(ctx, c)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.remember([]pair{q}); err != nil {
		return 0, err
	}
	return s.domain.At(q.x), nil
}

// find reads the pair of a ciphertext. What a unit does not have can be in one that came of its division.
func (s *Indexed) find(ctx context.Context, c ope.Ciphertext) (pair, error) {
	s.mu.RLock()
	u := s.root.leafOf(fromBytes(c))
	s.mu.RUnlock()
	for decided := (*unit)(nil); ; {
		s.tripped(1)
		v, err := s.index.Read(ctx, u.name, c, append(bytes.Clone(c), 0), 1)
		if err != nil {
			return pair{}, u.fail("read", err)
		}
		if len(v.Records) > 0 {
			if v.Meta.State != ope.StateAbsent && !u.frozen {
				s.mu.Lock()
				u.open = true
				s.mu.Unlock()
			}
			return u.unseal(v.Records[0])
		}
		var e *elsewhere
		if err := u.check(v.Meta); !errors.As(err, &e) {
			if decided != u && u.decides(ctx, &err) {
				decided = u
				continue
			}
			return pair{}, cmp.Or(err, ope.ErrCiphertext)
		}
		before, err := s.instead(ctx, e)
		if err != nil {
			return pair{}, err
		}
		s.mu.RLock()
		u = cmp.Or(before, u).leafOf(fromBytes(c))
		s.mu.RUnlock()
	}
}

// Intervals implements [ope.Scheme]. It reads, at most once if the bounds' neighbours are
// remembered, or as Decrypt does twice, and never writes.
//
// A bound that was never encrypted has no ciphertext; the interval then reaches to the next value outside [lo, hi]
// that has one. Of all values that are encrypted by now, it holds exactly those in [lo, hi]. It goes on to hold
// all of [lo, hi], whatever is encrypted later. But a value outside [lo, hi] may fall into it, if it is encrypted
// later for the first time. Who keeps an interval compares what was found in it with [lo, hi] after decrypting.
// Bounds that were encrypted have exact intervals for good.
func (s *Indexed) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	if err := made(s.id); err != nil {
		return nil, err
	}
	d, ok := s.domain.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	iv := ope.Interval{Start: make(ope.Ciphertext, s.size()), End: s.top()}
	if d == s.domain {
		return []ope.Interval{iv}, nil
	}
	open, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	if !open {
		return []ope.Interval{iv}, nil // nothing is encrypted; all of it will be in here
	}
	// An interval that reaches an end of the domain is open there, so that it does not disclose
	// the ciphertext of that end.
	bounds := []uint64{s.domain.Offset(d.Min), s.domain.Offset(d.Max)}
	var asked []uint64
	for i, x := range bounds {
		if c, known := s.cached(x); known {
			if i == 0 && d.Min > s.domain.Min {
				iv.Start = s.bytes(c)
			} else if i == 1 && d.Max < s.domain.Max {
				iv.End = s.after(c)
			}
		} else {
			asked = append(asked, x)
		}
	}
	found, err := s.gaps(ctx, slices.Compact(asked))
	if err != nil {
		return nil, err
	}
	if g, some := found[bounds[0]]; some {
		iv.Start = s.bytes(g.high.c)
		if g.low.x != g.high.x {
			iv.Start = s.after(g.low.c)
		}
	}
	if g, some := found[bounds[1]]; some {
		iv.End = s.bytes(g.high.c)
		if g.low.x == g.high.x {
			iv.End = s.after(g.high.c)
		}
	}
	return []ope.Interval{iv}, nil
}

// top returns the bound that is above every ciphertext.
func (s *Indexed) top() ope.Ciphertext {
	return append(bytes.Repeat([]byte{0xff}, s.size()), 0)
}

// after returns the lowest bound above a ciphertext.
func (s *Indexed) after(c u192) ope.Ciphertext {
	b := s.bytes(c)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b
		}
	}
	return s.top()
}

// remember is putAll for those who only read. They leave more in the cache than the worker does. While it works
// they drop nothing, since it may have just looked that up, and would look it up for ever. It makes room itself.
func (s *Indexed) remember(ps []pair) error {
	if s.known.n-s.cache > s.cache { // twice as many might exceed an int
		if s.commits.Callers() > 0 {
			return nil
		}
		s.thin()
	}
	return s.putAll(ps)
}

func (s *Indexed) putAll(ps []pair) error {
	for _, p := range ps {
		if !s.known.put(p) {
			return s.root.leaf(p.x).corrupt(s.bytes(p.c), "contradicts its neighbours")
		}
	}
	return nil
}

// thin makes room among what is remembered. The ends of units stay, so that neighbours of a value are in its unit.
func (s *Indexed) thin() {
	s.known.thin()
	for u := range s.root.leaves {
		s.known.put(u.low)
	}
}

// tripped counts a round trip of some reads.
func (s *Indexed) tripped(reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	s.stats.Reads += reads
}
