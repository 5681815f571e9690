package wozniak

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"math/bits"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
)

// IndexedOptions are the parameters of an [Indexed] scheme that have defaults.
type IndexedOptions struct {
	// RangeBits is the bit length of ciphertexts, at most 192, at least 16 and at least the
	// domain's, b; 0 stands for the default, max(3b, b+64). Why so many? Every sampling takes 1.44
	// bits of the room that is left, on the average, and there are some 1.4 b of them; where no
	// room is left, ciphertexts are as far apart as plaintexts.
	RangeBits int

	// TargetsOnly keeps of the pairs that are drawn only those of the values that were asked for.
	// By default all are kept, and then the function is one of full RUS, whatever the order in
	// which values come. With TargetsOnly it is not: the law of the ciphertexts depends on the
	// order of insertion. (On a domain of four and a range of ten the law is at a total variation
	// of 0.20 to 0.23 from full RUS, and for ascending and descending order at 0.26 from each
	// other.) In exchange the index has one record a value instead of about 24 for 10,000 values of
	// 32 bits and 45 for 64 bits.
	TargetsOnly bool

	// CacheValues bounds the pairs that are remembered in memory, about 64 bytes each; 0 stands
	// for 1,000,000, which is a whole unit. With fewer, look-ups take more round trips.
	CacheValues int

	// Coins are the random bytes that ciphertexts are drawn from; nil stands for crypto/rand. Set it
	// to reproduce a run. Whoever knows these bytes knows the plaintexts. It is read ahead, by one
	// goroutine at a time.
	Coins io.Reader
}

// UnitValues is how many pairs a unit of an index may hold. More are [ope.ErrFull].
const UnitValues = 1_000_000

// Indexed is the scheme as Waage et al. 2016, section 3.2.1, modify it: an order-preserving
// function by random subrange selection and random uniform sampling (Wozniak et al. 2013) that is
// decided on demand, from the neighbours that are decided already. The pairs of plaintext and
// ciphertext are kept in a unit of an [ope.Index]; the server sees the ciphertexts and sealed
// plaintexts.
//
// A ciphertext is for ever once it was given, so that it may be a row key; but unlike that of the
// keyed scheme it is not a function of the key: who loses the index loses the ciphertexts that
// were not yet given, and every writer needs the index.
//
// Any number of clients, in any number of processes, may share a unit. Every new ciphertext is
// committed under the condition that the unit has not changed since its neighbours were read,
// because places are random: two clients that put values into the same gap would not collide.
// Concurrent calls on one Indexed share commits.
type Indexed struct {
	id     string
	domain ope.Domain
	bits   int
	keep   bool // all pairs, not only targets
	index  ope.Index
	unit   ope.Unit
	sealer *record.Sealer
	coins  draws // used by the one worker at a time

	// What tests change.
	limit    int
	cache    int
	parallel int // most reads of one round trip
	page     int // most records of one read
	pause    func(ctx context.Context, refused int, took time.Duration) error

	queueMu sync.Mutex
	queue   []*request
	working bool

	mu    sync.RWMutex
	known pairs
	open  bool // the unit has a header that is ours
	// The view: what is known of the unit as it was under a nonce. It has a number, so that what
	// was known in an earlier one can be told by it.
	view    uint32
	nonce   ope.Nonce
	counted bool // count is of this view
	count   int
	// Whether the view can be taken for the present state: nobody else seems to write.
	alone bool
	lot   int // values to look up for one commit
	stats IndexStats
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
}

var (
	_ ope.Linear         = (*Indexed)(nil)
	_ ope.BatchEncrypter = (*Indexed)(nil)
)

// NewIndexed returns the scheme for a domain whose state is in a unit of the index. The unit is
// opened by the first value that is encrypted, and belongs to this key, domain and options from then
// on; those of others are refused with [ope.ErrIndex] at the first use. Nil options are the
// defaults.
func NewIndexed(key ope.Key, d ope.Domain, index ope.Index, unit ope.Unit, opts *IndexedOptions) (*Indexed, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	var o IndexedOptions
	if opts != nil {
		o = *opts
	}
	domainBits := bits.Len64(d.Span())
	if o.RangeBits == 0 {
		o.RangeBits = min(max(3*domainBits, domainBits+64), 8*maxSize)
	}
	// Two bytes at least, so that no ciphertext is the header's key.
	if least := max(domainBits, 16); o.RangeBits < least || o.RangeBits > 8*maxSize {
		return nil, fmt.Errorf("%w: a range of %d bits for a domain of %d, need %d to %d",
			ope.ErrParams, o.RangeBits, domainBits, least, 8*maxSize)
	}
	if o.CacheValues < 0 || o.CacheValues > 0 && o.CacheValues < 1000 {
		return nil, fmt.Errorf("%w: a cache of %d values, need at least 1000", ope.ErrParams, o.CacheValues)
	}
	if o.CacheValues == 0 {
		o.CacheValues = UnitValues
	}
	if o.Coins == nil {
		o.Coins = rand.Reader
	}
	kept := "all"
	if o.TargetsOnly {
		kept = "targets"
	}
	id := fmt.Sprintf("wozniak-indexed/1 domain=%s range=%d keep=%s", d, o.RangeBits, kept)
	if key.IsZero() {
		return nil, fmt.Errorf("%w: it is the zero Key; make one with ope.GenerateKey or ope.NewKey", ope.ErrKey)
	}
	sealer, err := record.New(key.Derive("wozniak-indexed"), unit)
	if err != nil {
		return nil, err
	}
	return &Indexed{
		id: id, domain: d, bits: o.RangeBits, keep: !o.TargetsOnly,
		index: index, unit: unit, sealer: sealer, coins: drawFrom(o.Coins),
		limit: UnitValues, cache: o.CacheValues, parallel: 32, page: 32, pause: pause, lot: 8,
	}, nil
}

// ID implements [ope.Scheme], for example "wozniak-indexed/1 domain=[0,255] range=72 keep=all".
func (s *Indexed) ID() string { return s.id }

// Domain implements [ope.Scheme].
func (s *Indexed) Domain() ope.Domain { return s.domain }

// ImmutableCiphertexts implements [ope.Immutable].
func (s *Indexed) ImmutableCiphertexts() {}

// LinearOrder implements [ope.Linear].
func (s *Indexed) LinearOrder() {}

// Stats returns what was done so far.
func (s *Indexed) Stats() IndexStats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stats
}

func (s *Indexed) size() int { return (s.bits + 7) / 8 }

func (s *Indexed) bytes(c point) ope.Ciphertext { return bytes.Clone(c[maxSize-s.size():]) }

func (s *Indexed) outside() error { return fmt.Errorf("%w %v", ope.ErrDomain, s.domain) }

// fail wraps an error of the index.
func (s *Indexed) fail(what string, err error) error {
	return fmt.Errorf("%s index unit %q: %w", what, s.unit, err)
}

// cached returns the ciphertext of an offset if it is remembered.
func (s *Indexed) cached(x uint64) (point, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if low, _ := s.known.around(x); low != nil && low.x == x {
		return low.c, true
	}
	return point{}, false
}

// Encrypt implements [ope.Scheme]. A value that is remembered costs no round trip, another one to
// two where its neighbours are remembered.
func (s *Indexed) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	if !s.domain.Contains(x) {
		return nil, s.outside()
	}
	if c, ok := s.cached(s.domain.Offset(x)); ok {
		return s.bytes(c), nil
	}
	cs, err := s.group(ctx, []uint64{s.domain.Offset(x)})
	if err != nil {
		return nil, err
	}
	return s.bytes(cs[0]), nil
}

// EncryptBatch implements [ope.BatchEncrypter]. It commits in parts; after an error some values may
// have got their ciphertexts.
func (s *Indexed) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	offsets := make([]uint64, len(xs))
	for i, x := range xs {
		if !s.domain.Contains(x) {
			return nil, fmt.Errorf("value at position %d: %w", i, s.outside())
		}
		offsets[i] = s.domain.Offset(x)
	}
	points, err := s.group(ctx, offsets)
	if err != nil {
		return nil, err
	}
	cs := make([]ope.Ciphertext, len(xs))
	for i, c := range points {
		cs[i] = s.bytes(c)
	}
	return cs, nil
}

// Decrypt implements [ope.Scheme]. A ciphertext that is not remembered costs one round trip. One
// that the index has no record of is [ope.ErrCiphertext]; one of another unit is always noticed,
// unless by chance the same string was given in both.
func (s *Indexed) Decrypt(ctx context.Context, c ope.Ciphertext) (int64, error) {
	if len(c) != s.size() {
		return 0, ope.ErrCiphertext
	}
	var p point
	copy(p[maxSize-len(c):], c)
	s.mu.RLock()
	found := s.known.byCiphertext(p)
	var x uint64
	if found != nil {
		x = found.x
	}
	s.mu.RUnlock()
	if found != nil {
		return s.domain.At(x), nil
	}
	if open, err := s.ready(ctx); err != nil {
		return 0, err
	} else if !open {
		return 0, ope.ErrCiphertext
	}
	s.tripped(1)
	v, err := s.index.Read(ctx, s.unit, c, append(bytes.Clone(c), 0), 1)
	if err != nil {
		return 0, s.fail("read", err)
	}
	if len(v.Records) == 0 {
		return 0, ope.ErrCiphertext
	}
	q, err := s.unseal(v.Records[0])
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

// Intervals implements [ope.Scheme]. It reads, at most once if the bounds' neighbours are
// remembered, and never writes.
//
// A bound that was never encrypted has no ciphertext; the interval then reaches to the next value
// outside [lo, hi] that has one. So it holds exactly the values in [lo, hi] of all that are
// encrypted by now, and it goes on to hold all of [lo, hi], whatever is encrypted later; but a
// value outside [lo, hi] that is encrypted later for the first time may fall into it. Whoever keeps
// an interval compares what was found in it with [lo, hi] after decrypting. Bounds that were
// encrypted have exact intervals for good.
func (s *Indexed) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
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
	found, err := s.search(ctx, slices.Compact(asked), false)
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
func (s *Indexed) after(c point) ope.Ciphertext {
	b := s.bytes(c)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b
		}
	}
	return s.top()
}

// The record of a pair has the ciphertext as its key, and the offset, 8 bytes big-endian, as its
// plaintext. The header is the record with the key 00, which is below all ciphertexts: the number
// of pairs, 8 bytes, and the ciphertexts of the ends of the domain.
const pairSize = 8

var headerKey = []byte{0}

func (s *Indexed) seal(p pair) ope.Record {
	key := s.bytes(p.c)
	return ope.Record{Key: key, Value: s.sealer.Seal(key, binary.BigEndian.AppendUint64(nil, p.x))}
}

func (s *Indexed) unseal(r ope.Record) (pair, error) {
	if len(r.Key) != s.size() {
		return pair{}, fmt.Errorf("%w: the record %.64x of unit %q is no ciphertext", ope.ErrIndex, r.Key, s.unit)
	}
	b, err := s.sealer.Open(r.Key, r.Value, pairSize)
	if err != nil {
		return pair{}, err
	}
	p := pair{x: binary.BigEndian.Uint64(b)}
	copy(p.c[maxSize-s.size():], r.Key)
	if p.x > s.domain.Span() {
		return pair{}, s.corrupt(r.Key, "holds what is outside of the domain")
	}
	return p, nil
}

func (s *Indexed) corrupt(key []byte, what string) error {
	return fmt.Errorf("%w: the record %x of unit %q %s", ope.ErrIndex, key, s.unit, what)
}

func (s *Indexed) sealHeader(count int, min, max point) ope.Record {
	b := binary.BigEndian.AppendUint64(nil, uint64(count))
	b = append(append(b, min[maxSize-s.size():]...), max[maxSize-s.size():]...)
	return ope.Record{Key: headerKey, Value: s.sealer.SealHeader(headerKey, s.id, b)}
}

// readHeader reads the number of pairs and the ends of the domain. It reports false if the unit
// was never opened.
func (s *Indexed) readHeader(ctx context.Context) (meta ope.Meta, count int, ends [2]pair, open bool, err error) {
	v, err := s.index.Read(ctx, s.unit, headerKey, []byte{0, 0}, 1)
	if err != nil {
		return meta, 0, ends, false, s.fail("read", err)
	}
	switch {
	case v.Meta.State == ope.StateAbsent && len(v.Records) == 0:
		return v.Meta, 0, ends, false, nil
	case len(v.Records) == 0:
		return meta, 0, ends, false, fmt.Errorf("%w: unit %q has no header of the scheme %q: another scheme wrote it", ope.ErrIndex, s.unit, s.id)
	}
	b, err := s.sealer.OpenHeader(headerKey, s.id, v.Records[0].Value, 8+2*s.size())
	if err != nil {
		return meta, 0, ends, false, err
	}
	if v.Meta.State != ope.StateOpen {
		return meta, 0, ends, false, fmt.Errorf("%w: unit %q is closed", ope.ErrIndex, s.unit)
	}
	copy(ends[0].c[maxSize-s.size():], b[8:])
	ends[1].x = s.domain.Span()
	copy(ends[1].c[maxSize-s.size():], b[8+s.size():])
	return v.Meta, int(binary.BigEndian.Uint64(b)), ends, true, nil
}

// ready makes sure that the unit is ours, and reports whether it was ever opened.
func (s *Indexed) ready(ctx context.Context) (bool, error) {
	s.mu.RLock()
	open := s.open
	s.mu.RUnlock()
	if open {
		return true, nil
	}
	s.tripped(1)
	meta, count, ends, open, err := s.readHeader(ctx)
	if err != nil || !open {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(meta.Nonce)
	s.counted, s.count, s.open = true, count, true
	return true, s.putAll(ends[:])
}

// The set of pairs and the view. These are called with the lock held.

// adopt starts a new view unless the nonce is that of the present one.
func (s *Indexed) adopt(nonce ope.Nonce) {
	if s.nonce == nonce && s.view > 0 {
		s.alone = true
		return
	}
	s.forget()
	s.nonce = nonce
}

// forget ends the view.
func (s *Indexed) forget() {
	s.view++
	s.counted, s.alone = false, false
}

func (s *Indexed) putAll(ps []pair) error {
	for _, p := range ps {
		if !s.known.put(p) {
			return s.corrupt(s.bytes(p.c), "contradicts its neighbours")
		}
	}
	return nil
}

// remember is putAll for those who only read. They leave more in the cache than the worker does,
// since what they drop may be what it has just looked up.
func (s *Indexed) remember(ps []pair) error {
	if s.known.n > 2*s.cache {
		s.known.thin()
	}
	return s.putAll(ps)
}

// tripped counts a round trip of some reads.
func (s *Indexed) tripped(reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	s.stats.Reads += reads
}

// Group commit: callers queue up, and one worker at a time serves all who wait. It is a goroutine
// of its own, since a caller may leave while others wait; it ends with the queue.

type request struct {
	xs   []uint64
	ctx  context.Context // of the caller, to learn that it has left
	cs   []point
	err  error
	done chan struct{}
}

func (s *Indexed) group(ctx context.Context, xs []uint64) ([]point, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(xs) == 0 {
		return nil, nil
	}
	r := &request{xs: xs, ctx: ctx, done: make(chan struct{})}
	s.queueMu.Lock()
	s.queue = append(s.queue, r)
	if !s.working {
		s.working = true
		go s.work()
	}
	s.queueMu.Unlock()
	select {
	case <-r.done:
		return r.cs, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Indexed) work() {
	for {
		s.queueMu.Lock()
		rs := s.queue
		s.queue = nil
		s.working = len(rs) > 0
		s.queueMu.Unlock()
		if len(rs) == 0 {
			return
		}
		s.serve(rs)
		// A record that cannot be read must not fail those who do not need it.
		for _, r := range rs {
			if len(rs) > 1 && r.err != nil && r.ctx.Err() == nil {
				s.serve([]*request{r})
			}
			close(r.done)
		}
	}
}

// serve encrypts the values of all requests, as long as one of the callers waits.
func (s *Indexed) serve(rs []*request) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(rs[0].ctx))
	defer cancel()
	var waiting sync.WaitGroup
	waiting.Add(len(rs))
	for _, r := range rs {
		stop := context.AfterFunc(r.ctx, waiting.Done)
		defer func() {
			if stop() {
				waiting.Done()
			}
		}()
	}
	go func() { waiting.Wait(); cancel() }()

	var xs []uint64
	for _, r := range rs {
		xs = append(xs, r.xs...)
	}
	found, err := s.encrypt(ctx, xs)
	for _, r := range rs {
		if r.err = err; err != nil {
			continue
		}
		r.cs = make([]point, len(r.xs))
		for i, x := range r.xs {
			r.cs[i] = found[x]
		}
	}
}

// commitRecords is how many records a commit may have before no further value goes into it. Those of
// one value stay together, and are at most some 200.
const commitRecords = 256

// encrypt returns the ciphertexts of xs, once all are in the index.
func (s *Indexed) encrypt(ctx context.Context, xs []uint64) (map[uint64]point, error) {
	done := make(map[uint64]point, len(xs))
	left := make([]uint64, 0, len(xs))
	for _, x := range xs {
		if _, twice := done[x]; !twice {
			done[x] = point{}
			left = append(left, x)
		}
	}
	for refused := 0; ; {
		start := time.Now()
		open, err := s.ready(ctx)
		if err != nil {
			return nil, err
		}
		var applied bool
		if !open {
			applied, err = s.openUnit(ctx)
		} else {
			var p *plan
			if p, err = s.locate(ctx, &left, done); err == nil && p == nil {
				return done, nil
			}
			if err == nil {
				applied, err = s.commit(ctx, p)
			}
			if applied {
				left = left[len(p.targets):]
				for _, t := range p.targets {
					done[t.x] = t.c
				}
			}
		}
		switch {
		case err != nil:
			return nil, err
		case applied:
			refused = 0
		default:
			refused++
			if err := s.pause(ctx, refused, time.Since(start)); err != nil {
				return nil, err
			}
		}
	}
}

// openUnit draws the ciphertexts of the ends of the domain and opens the unit with them, unless
// another client does.
func (s *Indexed) openUnit(ctx context.Context) (bool, error) {
	cmin, cmax, err := ends(s.domain.Span(), s.bits, s.coins)
	if err != nil {
		return false, err
	}
	all := []pair{{x: 0, c: pointOf(cmin)}, {x: s.domain.Span(), c: pointOf(cmax)}}
	if s.domain.Span() == 0 {
		all = all[:1]
	}
	// Where records are but no meta, they are another scheme's.
	cond := ope.Condition{State: ope.StateAbsent, Absent: [][]byte{headerKey}}
	nonce, applied, err := s.put(ctx, cond, s.sealHeader(len(all), pointOf(cmin), pointOf(cmax)), slices.Values(all))
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(nonce)
	s.open, s.counted, s.count, s.alone = true, true, len(all), true
	s.stats.Pairs += len(all)
	if err := s.putAll(all); err != nil {
		return false, err
	}
	low, _ := s.known.around(0)
	low.bare = s.view
	return true, nil
}

// put commits the header and pairs under a new nonce. An unknown outcome is reported as one that
// was not applied. Whether it was, or will be, shows when the values are looked up again: the
// condition on state and nonce keeps a late commit from following any other.
func (s *Indexed) put(ctx context.Context, cond ope.Condition, header ope.Record, ps iter.Seq[pair]) (nonce ope.Nonce, applied bool, err error) {
	rand.Read(nonce[:]) // never fails, as documented
	change := ope.Change{Puts: []ope.Record{header}, Meta: ope.Meta{State: ope.StateOpen, Nonce: nonce}}
	for p := range ps {
		change.Puts = append(change.Puts, s.seal(p))
	}
	applied, err = s.index.Commit(ctx, s.unit, cond, change)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	switch {
	case errors.Is(err, ope.ErrUnknownOutcome):
		s.stats.Unknown++
		applied = false
	case err != nil:
		s.forget()
		return nonce, false, s.fail("commit to", err)
	case applied:
		s.stats.Commits++
		return nonce, true, nil
	default:
		s.stats.Refused++
	}
	s.forget()
	return nonce, false, nil
}

// A plan is a commit that is right in the unit as it was under a nonce.
type plan struct {
	nonce   ope.Nonce
	count   int // of pairs after it
	fresh   pairs
	targets []pair // what was asked for, among fresh
	header  ope.Record
}

// locate drops from the front of left what the index has already, and plans a commit of the first
// of the others as soon as their neighbours are known in one view. It returns nil when nothing is
// left.
func (s *Indexed) locate(ctx context.Context, left *[]uint64, done map[uint64]point) (*plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alone {
		s.forget()
	}
	for {
		if s.known.n > s.cache {
			s.known.thin()
		}
		var lot, unknown []uint64
		kept := (*left)[:0]
		for i, x := range *left {
			low, _ := s.known.around(x)
			if low.x == x {
				done[x] = low.c
				continue
			}
			kept, lot = append(kept, x), append(lot, x)
			if low.bare != s.view {
				unknown = append(unknown, x)
			}
			if len(lot) == s.lot {
				kept = append(kept, (*left)[i+1:]...)
				break
			}
		}
		*left = kept
		if len(lot) == 0 {
			return nil, nil
		}
		if len(unknown) == 0 && s.counted {
			return s.plan(lot)
		}
		s.mu.Unlock()
		_, err := s.search(ctx, unknown, true)
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
}

// plan draws ciphertexts for the first of the values, as many as fit in a commit. It is called with
// the lock held.
func (s *Indexed) plan(lot []uint64) (*plan, error) {
	p := &plan{nonce: s.nonce, count: s.count}
	for _, x := range lot {
		low, high := s.known.around(x)
		if a, b := p.fresh.around(x); a != nil || b != nil {
			if a != nil && a.x > low.x {
				low = a
			}
			if b != nil && b.x < high.x {
				high = b
			}
		}
		if low.x == x { // it was drawn on the way to another
			p.targets = append(p.targets, *low)
			continue
		}
		var drawn []pair
		err := between(*low, *high).sample(x, s.coins, func(d uint64, c *big.Int) {
			s.stats.Samplings++
			if s.keep || d == x {
				drawn = append(drawn, pair{x: d, c: pointOf(c)})
			}
		})
		if err != nil {
			return nil, err
		}
		if p.count+len(drawn) > s.limit {
			if len(p.targets) > 0 {
				break
			}
			return nil, fmt.Errorf("%w: unit %q has %d pairs, at most %d are allowed", ope.ErrFull, s.unit, p.count, s.limit)
		}
		for _, d := range drawn {
			p.fresh.put(d)
		}
		p.count += len(drawn)
		p.targets = append(p.targets, drawn[len(drawn)-1])
		if p.fresh.n >= commitRecords {
			break
		}
	}
	first, _ := s.known.around(0)
	last, _ := s.known.around(s.domain.Span())
	p.header = s.sealHeader(p.count, first.c, last.c)
	return p, nil
}

func (s *Indexed) commit(ctx context.Context, p *plan) (bool, error) {
	cond := ope.Condition{State: ope.StateOpen, Nonce: &p.nonce}
	nonce, applied, err := s.put(ctx, cond, p.header, p.fresh.all)
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The view goes on, since what has changed is known.
	s.nonce, s.count = nonce, p.count
	s.stats.Pairs += p.fresh.n
	s.lot = max(8, min(2*len(p.targets), commitRecords, s.cache/8))
	return true, s.putAll(slices.Collect(p.fresh.all))
}

// A gap is where a value is, or would be: the pairs next to it. Both are that of the value itself if it has one.
type gap struct{ low, high pair }

// A page is a read of the records from one ciphertext to another, both included.
type page struct {
	from, to point
	first    *pair  // the pair that must be the first of it, if known
	x        [2]int // from and to which of the values it is for
	view     ope.View
}

// search reads until it knows the gaps of all xs, each as it was at one instant after the call. With
// follow, the view becomes that of the last answer, with all that is known of it.
//
// A page from the left neighbour that is known is enough where most pairs are remembered. Otherwise,
// and when it was not, further pages start at places between the neighbours: half of them evenly
// spread, for what is known least, and half ever closer to the neighbours, since the range halves
// with every draw and is crowded at some places and empty at others.
func (s *Indexed) search(ctx context.Context, xs []uint64, follow bool) (map[uint64]gap, error) {
	found := make(map[uint64]gap, len(xs))
	xs = slices.Sorted(slices.Values(xs))
	gaps := make([]gap, len(xs))
	s.mu.RLock()
	for i, x := range xs {
		low, high := s.known.around(x)
		gaps[i] = gap{*low, *high}
		if low.x == x { // another goroutine has found it
			found[x] = gaps[i]
		}
	}
	probing := s.count/(s.known.n+1) >= s.page/2
	counted := s.counted || !follow
	s.mu.RUnlock()
	for ; ; probing = true {
		var pages []*page
		groups := 0
		for i := 0; i < len(xs); {
			// Values between the same neighbours are looked for together.
			g, from := gaps[i], i
			wanted := false
			for ; i < len(xs) && gaps[i].low.x == g.low.x; i++ {
				_, ok := found[xs[i]]
				wanted = wanted || !ok
			}
			if wanted {
				groups++
				pages = append(pages, &page{from: g.low.c, to: g.high.c, first: &g.low, x: [2]int{from, i}})
			}
		}
		if groups == 0 && counted {
			return found, nil
		}
		if probing {
			for _, pg := range pages[:groups:groups] {
				for _, c := range probes(pg.from, pg.to, max(3, s.parallel/groups-1)) {
					pages = append(pages, &page{from: c, to: pg.to, x: pg.x})
				}
			}
		}
		if err := s.read(ctx, pages, !counted); err != nil {
			return nil, err
		}
		counted = true
		for _, pg := range pages {
			ps, err := s.learn(pg, follow)
			if err != nil {
				return nil, err
			}
			for i := pg.x[0]; i < pg.x[1]; i++ {
				x := xs[i]
				k, hit := slices.BinarySearchFunc(ps, x, func(p pair, x uint64) int { return cmp.Compare(p.x, x) })
				switch {
				case hit:
					found[x] = gap{ps[k], ps[k]}
				case k > 0 && k < len(ps):
					found[x] = gap{ps[k-1], ps[k]}
				case k > 0 && ps[k-1].x > gaps[i].low.x:
					gaps[i].low = ps[k-1]
				case k == 0 && len(ps) > 0 && ps[0].x < gaps[i].high.x:
					gaps[i].high = ps[0]
				}
			}
		}
	}
}

// probes returns at most n ciphertexts between two others, ascending and distinct.
func probes(low, high point, n int) []point {
	from := new(big.Int).SetBytes(low[:])
	width := new(big.Int).Sub(new(big.Int).SetBytes(high[:]), from)
	at := make([]*big.Int, 0, n)
	even := (n + 1) / 2
	for i := 1; i <= even; i++ {
		d := new(big.Int).Mul(width, big.NewInt(int64(i)))
		at = append(at, d.Quo(d, big.NewInt(int64(even+1))))
	}
	for i := range n - even {
		// 1/8, 1/32, 1/128, ... of the width from either side
		d := new(big.Int).Rsh(width, uint(3+2*(i/2)))
		if i%2 == 1 {
			d.Sub(width, d)
		}
		at = append(at, d)
	}
	slices.SortFunc(at, (*big.Int).Cmp)
	var cs []point
	for _, d := range at {
		if c := pointOf(d.Add(d, from)); c != low && (len(cs) == 0 || cs[len(cs)-1] != c) && c != high {
			cs = append(cs, c)
		}
	}
	return cs
}

// read reads all pages, and the header if it is wanted, together.
func (s *Indexed) read(ctx context.Context, pages []*page, header bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs := make([]func() error, 0, len(pages)+1)
	for _, pg := range pages {
		jobs = append(jobs, func() (err error) {
			pg.view, err = s.index.Read(ctx, s.unit, s.bytes(pg.from), append(s.bytes(pg.to), 0), s.page)
			if err != nil {
				return s.fail("read", err)
			}
			return nil
		})
	}
	if header {
		jobs = append(jobs, func() error {
			meta, count, _, open, err := s.readHeader(ctx)
			if err != nil {
				return err
			}
			if !open {
				return fmt.Errorf("%w: unit %q was open and is gone", ope.ErrIndex, s.unit)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.adopt(meta.Nonce)
			s.counted, s.count = true, count
			return nil
		})
	}
	s.mu.Lock()
	s.stats.Trips += (len(jobs) + s.parallel - 1) / s.parallel
	s.stats.Reads += len(jobs)
	s.mu.Unlock()
	var next atomic.Int64
	failures := make([]error, len(jobs))
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
			if failures[i] = jobs[i](); failures[i] != nil {
				cancel() // the others are of no use
				return
			}
		}
	}
	var wg sync.WaitGroup
	for range min(s.parallel, len(jobs)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	// Those that were cancelled tell less than what cancelled them.
	var first error
	for _, err := range failures {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

// learn returns the pairs of a page, after it has remembered them. If the page begins at a pair that
// is known, it must be there: records are never removed.
func (s *Indexed) learn(pg *page, follow bool) ([]pair, error) {
	if pg.view.Meta.State != ope.StateOpen {
		return nil, fmt.Errorf("%w: unit %q is closed", ope.ErrIndex, s.unit)
	}
	ps := make([]pair, len(pg.view.Records))
	for i, r := range pg.view.Records {
		var err error
		if ps[i], err = s.unseal(r); err != nil {
			return nil, err
		}
		if i > 0 && ps[i-1].x >= ps[i].x {
			return nil, s.corrupt(r.Key, "contradicts its neighbours")
		}
	}
	if pg.first != nil && (len(ps) == 0 || ps[0].c != pg.first.c) {
		return nil, s.corrupt(s.bytes(pg.from), "is missing")
	}
	if !pg.view.More && (len(ps) == 0 || ps[len(ps)-1].c != pg.to) {
		return nil, s.corrupt(s.bytes(pg.to), "is missing")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if follow {
		s.adopt(pg.view.Meta.Nonce)
	}
	if !follow {
		return ps, s.remember(ps)
	}
	if err := s.putAll(ps); err != nil {
		return nil, err
	}
	for _, p := range ps[:max(len(ps)-1, 0)] {
		low, _ := s.known.around(p.x)
		low.bare = s.view
	}
	return ps, nil
}

// pause waits before another attempt, by chance as long as the last one took or longer, the more
// the more often it was refused: where many clients write, one that waits lets another through.
func pause(ctx context.Context, refused int, took time.Duration) error {
	longest := min(max(took, 100*time.Microsecond)<<min(refused-1, 6), time.Second)
	t := time.NewTimer(mathrand.N(longest))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
