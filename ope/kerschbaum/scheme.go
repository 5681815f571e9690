// Package kerschbaum is the mutable order-preserving encoding of Kerschbaum and Schröpfer (CCS
// 2014), as Waage, Homann and Wiese (SECRYPT 2016, section 3.2.2) put it into wide-column stores,
// with its state shared by independent clients through an [ope.Index].
//
// The ciphertext of a value is its place among the other values, a label, which says nothing of
// the value but its order. To encrypt a new value, a client looks up its neighbours in the index
// and takes a label between theirs. Where there is none, labels are moved to make room.
//
// # Deviations
//
// The published scheme takes the middle of the gap. When a gap is exhausted, it encrypts the whole index again:
// under sorted input, over and over. Here labels have 128 bits. A gap is divided by what the turns of the
// insertion path so far make probable. Only what is around an exhausted gap is moved. Sorted input and time series
// move nothing. [Options.Lambda] selects the scheme as published.
//
// # Clients
//
// Clients are independent: they share nothing but the index, need no locks, leases or clocks, and
// any of them may die at any time. The place of a new value is a function of its two neighbours, so
// that of two clients who put values between the same neighbours one is refused, reads, and goes
// on. All insertions of a process go through one commit at a time, which takes along whatever was
// asked for while the last one was under way.
//
// # What it gives away
//
// Order and equality of the values. To who watches the index, also the order in which they came;
// but nothing else: all that the database sees is a function of how the values compare and of
// coins (IND-OCPA; Kerschbaum and Schröpfer, CCS 2014, section 4). To who sees a copy of the index
// at one time, the labels betray a part of the order of insertion, such as that a column was filled
// in ascending order. [Scheme.Rebalance] wipes that out; do it after a bulk load. The scheme's
// identifier, which names the domain, is sealed, but for what an earlier version wrote.
//
// Records are sealed, and a record that was altered or moved is refused. That the database returned
// an older state, or hid records, is not noticed.
//
// # Limits
//
// An index takes about a million values, see [Options.Limit]. Ciphertexts move, so they must not be
// row keys: the type is [ope.Mutable].
package kerschbaum

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/groupcommit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// Options are the parameters of a scheme that have defaults. All clients of an index must have the
// same Name and Lambda.
type Options struct {
	// Name distinguishes the indexes that share an [ope.Index], for example by the id of a column. It
	// begins the name of every unit and is bound into every record. It has at most 40 bytes.
	Name string

	// Lambda, if it is not 0, selects the scheme as it was published: midpoints, labels of
	// lambda*b+1 bits for domains of b bits, and everything encrypted again when there is no room.
	// It is at least 2, and the labels have at most 128 bits.
	Lambda int

	// CacheValues bounds how many values a client remembers; 0 stands for 1,000,000, and it is at
	// least 4096. A value takes at most 64 bytes.
	CacheValues int

	// Limit is how many distinct values the index takes before Encrypt returns [ope.ErrFull]; 0 stands for
	// 1,000,000, which make a unit of about 100 MB. Up to 1024 values are counted exactly by each client as of its
	// last commit. More are estimated, with an error of some percent. They are refused only when there are surely
	// more than Limit: at about 9/8 of it. It is not a property of the index: each client keeps its own.
	Limit int
}

// A Scheme is a client of an index. Make it with [New].
type Scheme struct {
	id        string
	name      string
	domain    ope.Domain
	rules     order.Rules
	index     ope.Index
	limit     int
	recordKey ope.Key
	tagInner  cipher.Block
	tagOuter  cipher.Block

	// Sizes, which tests make small.
	page     int // elements that a read of an unknown part asks for
	probes   int // parallel reads by which a gap that is not known to be empty is narrowed
	chunk    int // elements in a commit of a pass, and at most in any; all clients must agree on it
	window   int // elements that a relabelling moves in one commit
	passPage int // elements that a pass reads at once
	ahead    int // elements that a client that loads values reads at once
	kept     int // of the last generations, how many have a record of where elements moved

	mu    sync.Mutex
	known known
	tally tally

	commits *groupcommit.Group[int64, spot]
	passing chan struct{}

	unitsMu sync.Mutex
	units   map[uint64]*unit

	statsMu sync.Mutex
	stats   Stats
}

var (
	_ ope.Mutable        = (*Scheme)(nil)
	_ ope.BatchEncrypter = (*Scheme)(nil)
)

// Stats counts what a client has done since it was made.
type Stats struct {
	Reads      int // calls of Index.Read
	Commits    int // calls of Index.Commit
	RoundTrips int // of both; those that were made at the same time are one
	Conflicts  int // commits that were refused, because another client's came first
	Unknown    int // commits of unknown outcome
	Inserted   int // values put into the index
	Relabels   int // relabellings by one commit
	Passes     int // passes that this client made, or helped to finish
	Moved      int // values to which this client gave another label
}

// New returns a client of the index for a domain. It reads and writes nothing: an index of another
// scheme or key is noticed by the first call that uses it. Nil options are the defaults.
func New(key ope.Key, d ope.Domain, index ope.Index, opts *Options) (*Scheme, error) {
	if key.IsZero() {
		return nil, fmt.Errorf("%w: it is the zero Key; make one with ope.GenerateKey or ope.NewKey", ope.ErrKey)
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if index == nil {
		return nil, fmt.Errorf("%w: no index", ope.ErrParams)
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.CacheValues = cmp.Or(o.CacheValues, 1_000_000)
	o.Limit = cmp.Or(o.Limit, 1_000_000)
	switch {
	case len(o.Name) > nameLimit:
		return nil, fmt.Errorf("%w: the name has %d bytes, at most %d are allowed", ope.ErrParams, len(o.Name), nameLimit)
	case o.CacheValues < 4096:
		return nil, fmt.Errorf("%w: a cache of %d values, need at least 4096", ope.ErrParams, o.CacheValues)
	case o.Limit < 1:
		return nil, fmt.Errorf("%w: a limit of %d values, need at least 1", ope.ErrParams, o.Limit)
	case o.Lambda == 1 || o.Lambda < 0:
		return nil, fmt.Errorf("%w: lambda %d, need at least 2, or 0 for the default rules", ope.ErrParams, o.Lambda)
	}
	id, r := fmt.Sprintf("kerschbaum/1 domain=%s", d), order.DefaultRules()
	if o.Lambda != 0 {
		var err error
		if r, err = order.PublishedRules(d, o.Lambda); err != nil {
			return nil, err
		}
		id = fmt.Sprintf("kerschbaum-published/1 domain=%s lambda=%d", d, o.Lambda)
	}
	s := &Scheme{
		id: id, name: o.Name, domain: d, rules: r, index: index, limit: o.Limit,
		recordKey: key.Derive("kerschbaum", "record"),
		probes:    63, chunk: 256, window: 200, passPage: 1024, ahead: 4096, kept: 512,
		known:   known{list: order.NewList(r, o.CacheValues)},
		passing: make(chan struct{}, 1),
		units:   map[uint64]*unit{},
	}
	// What the values of a commit make a client read at once must fit into a quarter of its cache,
	// or it would forget the neighbours of the first ones while it looks for those of the last.
	batch := min(s.chunk, o.CacheValues/256)
	s.page = min(512, o.CacheValues/(4*batch))
	s.commits = groupcommit.New(batch, s.put)
	keys := key.Expand(64, "kerschbaum", "ciphertext")
	s.tagInner, _ = aes.NewCipher(keys[:32]) // 32 bytes are a key
	s.tagOuter, _ = aes.NewCipher(keys[32:])
	return s, nil
}

// ID implements [ope.Scheme], for example "kerschbaum/1 domain=[0,255]" or, with a lambda,
// "kerschbaum-published/1 domain=[0,255] lambda=2".
func (s *Scheme) ID() string { return s.id }

// Domain implements [ope.Scheme].
func (s *Scheme) Domain() ope.Domain { return s.domain }

// Stats returns what this client has done so far.
func (s *Scheme) Stats() Stats {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	return s.stats
}

func (s *Scheme) count(add func(*Stats)) {
	s.statsMu.Lock()
	defer s.statsMu.Unlock()
	add(&s.stats)
}

// A ciphertext is a label and a tag. The tag shows whether a ciphertext is stale, since it holds the epoch and the
// value. A ciphertext is good as long as this value is at this label. It is never taken for that of a value that
// was put there later.
//
//	tag = AES_K2(AES_K1(label) xor (value || epoch || 0^32))
const ciphertextSize = order.LabelSize + aes.BlockSize

func (s *Scheme) ciphertext(epoch uint64, x int64, c order.Label) ope.Ciphertext {
	return s.putCiphertext(make(ope.Ciphertext, ciphertextSize), epoch, x, c)
}

func (s *Scheme) putCiphertext(out ope.Ciphertext, epoch uint64, x int64, c order.Label) ope.Ciphertext {
	c.Append(out[:0])
	tag := out[order.LabelSize:]
	s.tagInner.Encrypt(tag, out[:order.LabelSize])
	binary.BigEndian.PutUint64(tag, binary.BigEndian.Uint64(tag)^uint64(x))
	binary.BigEndian.PutUint64(tag[8:], binary.BigEndian.Uint64(tag[8:])^epoch<<32)
	s.tagOuter.Encrypt(tag, tag)
	return out
}

// parse returns what a ciphertext holds. It reports false for what was never a ciphertext of the
// scheme, but with probability 2^-32; the index decides in any case.
func (s *Scheme) parse(c ope.Ciphertext) (epoch uint64, x int64, at order.Label, ok bool) {
	if len(c) != ciphertextSize {
		return 0, 0, order.Label{}, false
	}
	at, _ = order.ParseLabel(c[:order.LabelSize])
	var blocks [2 * aes.BlockSize]byte
	inner, tag := blocks[:aes.BlockSize], blocks[aes.BlockSize:]
	s.tagInner.Encrypt(inner, c[:order.LabelSize])
	s.tagOuter.Decrypt(tag, c[order.LabelSize:])
	x = int64(binary.BigEndian.Uint64(tag) ^ binary.BigEndian.Uint64(inner))
	rest := binary.BigEndian.Uint64(tag[8:]) ^ binary.BigEndian.Uint64(inner[8:])
	epoch = rest >> 32
	return epoch, x, at, uint32(rest) == 0 && epoch > 0 && s.domain.Contains(x)
}

func (s *Scheme) outside() error { return fmt.Errorf("%w %v", ope.ErrDomain, s.domain) }

// Encrypt implements [ope.Scheme]. A value that the client remembers costs nothing, another one a
// commit, and before that, if the client does not remember what is around it, some reads. If ctx
// ends, the value may or may not be in the index.
func (s *Scheme) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	if !s.domain.Contains(x) {
		return nil, s.outside()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	e, ok := s.known.list.Find(x)
	epoch := s.known.epoch
	s.mu.Unlock()
	if ok {
		return s.ciphertext(epoch, x, e.Label), nil
	}
	spots, err := s.commits.Do(ctx, []int64{x})
	if err != nil {
		return nil, err
	}
	return s.ciphertext(spots[0].version.Epoch, x, spots[0].label), nil
}

// EncryptBatch implements [ope.BatchEncrypter]. Some hundred new values share a commit. If it fails,
// some of the values may be in the index. The ciphertexts lie side by side in one array, so that
// one that is kept keeps them all in memory.
func (s *Scheme) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, x := range xs {
		if !s.domain.Contains(x) {
			return nil, fmt.Errorf("value at position %d: %w", i, s.outside())
		}
	}
	sorted := slices.Clone(xs)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	spots, err := s.spots(ctx, sorted)
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(xs)*ciphertextSize)
	cs := make([]ope.Ciphertext, len(xs))
	for i, x := range xs {
		at := i
		if len(sorted) < len(xs) || sorted[i] != x {
			at, _ = slices.BinarySearch(sorted, x)
		}
		c := out[i*ciphertextSize : (i+1)*ciphertextSize : (i+1)*ciphertextSize]
		cs[i] = s.putCiphertext(c, spots[at].version.Epoch, x, spots[at].label)
	}
	return cs, nil
}

// spots returns where ascending values are, all at one version, after putting those into the index
// that are not there.
func (s *Scheme) spots(ctx context.Context, values []int64) ([]spot, error) {
	spots := make([]spot, len(values))
	turns := order.MedianFirst(make([]int, 0, len(values)), 0, len(values)) // of insertion
	for {
		missing, ok := s.find(values, spots, turns)
		if !ok {
			continue // the version has changed
		}
		if len(missing) == 0 {
			return spots, nil
		}
		ask := make([]int64, len(missing))
		for n, i := range missing {
			ask[n] = values[i]
		}
		got, err := s.commits.Do(ctx, ask)
		if err != nil {
			return nil, err
		}
		for n, i := range missing {
			spots[i] = got[n]
		}
	}
}

// find sets the spots of the values that the client remembers, and returns those of the turns that
// have none of the present version. It reports false if the version changes in between.
func (s *Scheme) find(values []int64, spots []spot, turns []int) (missing []int, ok bool) {
	const atOnce = 4096 // so that others need not wait for long
	var version ope.Version
	for from := 0; from < len(turns); from += atOnce {
		s.mu.Lock()
		if from == 0 {
			version = s.known.version()
		}
		if s.known.version() != version {
			s.mu.Unlock()
			return nil, false
		}
		for _, i := range turns[from:min(from+atOnce, len(turns))] {
			if spots[i].version == version && version.Epoch != 0 {
				continue
			}
			if e, found := s.known.list.Find(values[i]); found {
				spots[i] = spot{e.Label, version}
			} else {
				missing = append(missing, i)
			}
		}
		s.mu.Unlock()
	}
	return missing, true
}

// Decrypt implements [ope.Scheme]. What the client remembers costs nothing, another ciphertext a
// read. [ope.ErrStale] is a ciphertext whose value is not at its place: it has moved since.
func (s *Scheme) Decrypt(ctx context.Context, c ope.Ciphertext) (int64, error) {
	epoch, x, at, ok := s.parse(c)
	if !ok {
		return 0, ope.ErrCiphertext
	}
	for {
		s.mu.Lock()
		known := s.known.version()
		e, found := s.known.list.Find(x)
		s.mu.Unlock()
		switch {
		case known.Epoch > epoch:
			return 0, ope.ErrStale
		case known.Epoch == epoch && found && e.Label == at:
			return x, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := s.connect(ctx); err != nil {
			return 0, err
		}
		if known, _ = s.version(); known.Epoch > epoch {
			continue
		}
		if !at.Less(order.Label{Hi: 1<<64 - 1, Lo: 1<<64 - 1}) || at.IsZero() {
			return 0, ope.ErrCiphertext
		}
		p, err := s.read(ctx, known.Epoch, at, at.Next(), 1)
		if err != nil {
			return 0, err
		}
		s.mu.Lock()
		ok, err := s.meet(p.unit, p.meta)
		if ok && err == nil && len(p.elements) > 0 {
			err = s.learn(p.unit, p.elements)
		}
		s.mu.Unlock()
		switch {
		case err != nil:
			return 0, err
		case p.meta.State == ope.StateRetired:
			continue // the epoch of the ciphertext is over, or has only begun
		case known.Epoch < epoch:
			return 0, ope.ErrCiphertext // of an epoch that has not begun
		case len(p.elements) > 0 && p.elements[0].Value == x:
			return x, nil
		default:
			return 0, ope.ErrStale
		}
	}
}
