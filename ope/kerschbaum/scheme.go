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
// Clients are independent: they share nothing but the index, need no locks, leases or clocks, and any of them may die at any
// time. The place of a new value is a function of its two neighbours, so that of two clients who put values between the same
// neighbours one is refused, reads, and goes on. All insertions of a process go through one commit at a time, which takes
// along whatever was asked for while the last one was under way.
//
// A client remembers values with their ciphertexts, see [Options.CacheValues], and returns these without a request. So they
// can be from before a rebalancing by another client: [Scheme.Encrypt] then succeeds, with what others refuse as
// [ope.ErrStale]. A client that has met a later version in any call forgets what has moved. [Scheme.Range] reads the index and
// gives the version of each ciphertext; Range(ctx, x, x) is the present one of x.
//
// # What it gives away
//
// Order and equality of the values. To who watches the index, also the order in which they came; but nothing else: all that
// the database sees is a function of how the values compare and of coins (IND-OCPA; Kerschbaum and Schröpfer, CCS 2014,
// section 4). To who sees a copy of the index at one time, the labels betray a part of the order of insertion, such as that
// a column was filled in ascending order. [Scheme.Rebalance] wipes that out; do it after a bulk load. The scheme's
// identifier, which names the domain, is sealed, but for what an earlier version wrote.
//
// Records are sealed, and a record that was altered or moved is refused. That the database returned
// an older state, or hid records, is not noticed.
//
// # Limits
//
// An index grows by units of up to about a million values each, see [Options.UnitValues]. Ciphertexts move, so they
// must not be row keys: the type is [ope.Mutable].
package kerschbaum

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/check"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/params"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// Options are the parameters of a scheme that have defaults. All clients of an index must have the
// same Name and Lambda.
type Options struct {
	// Name distinguishes the indexes that share an [ope.Index], for example by the id of a column. It
	// begins the name of every unit and is bound into every record. It has at most 40 bytes.
	Name string

	// Lambda, if it is not 0, selects the scheme as it was published: midpoints, labels of lambda*b+1 bits for domains of b
	// bits, and everything encrypted again when there is no room. It is at least 2, and the labels have at most 128 bits.
	Lambda int

	// CacheValues bounds how many values a client remembers; 0 stands for 1,000,000, and it is at
	// least 4096. A value takes at most 64 bytes, and one with a rank 112.
	CacheValues int

	// Limit is how many distinct values the index takes before Encrypt returns [ope.ErrFull]; 0 stands for
	// 100,000,000. Up to 1024 values of a unit are counted exactly by each client as of its last commit. More are estimated,
	// with an error of some percent. They are refused only when there are surely more than Limit: at about 9/8 of it
	// and, where the index has several units, when one of these is full. It is not a property of the index: each client keeps
	// its own. After some 80 divisions of units in one narrowing place there are no labels left there, and Encrypt returns ErrFull before.
	Limit int

	// UnitValues is about how many values a unit of the index has, which is one row of the database; 0 stands for
	// 1,000,000, of about 100 MB, and it is at least 64. A client that finds more there hands half of them over to a new
	// unit, some hundred with each of its next commits. Where Limit is not higher, there is one unit only. So there is under
	// the rules as published, which take no more values than a unit.
	UnitValues int
}

// A base is what all units of an index have in common.
type base struct {
	id      string
	name    string
	domain  ope.Domain
	rules   order.Rules // of the whole index
	index   *unitio.Index
	codec   *unit.Codec
	limit   int
	ciphers *unit.Ciphers

	// Sizes, which tests make small.
	page     int // elements that a read of an unknown part asks for
	probes   int // parallel reads by which a gap that is not known to be empty is narrowed
	chunk    int // elements in a commit of a pass, and at most in any; all clients must agree on it
	window   int // elements that a relabelling moves in one commit
	passPage int // elements that a pass reads at once
	ahead    int // elements that a client that loads values reads at once
	kept     int // of the last generations, how many have a record of where elements moved
	full     int // values of a unit that is divided
	cache    int // values that are remembered; 0 is no limit
	batch    int // values that are put with one commit
	listSize int // most elements of a chunk of what is remembered; 0 is the list's own

	statsMu sync.Mutex
	stats   Stats
}

// A Scheme is a client of an index. Make it with [New]: the zero Scheme has no key, and its methods return [ope.ErrKey].
type Scheme struct {
	*base
	shards *shards
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
	HandedOver int // values that this client put from one unit into another
}

// New returns a client of the index for a domain. It reads and writes nothing: an index of another
// scheme or key is noticed by the first call that uses it. Nil options are the defaults.
func New(key ope.Key, d ope.Domain, index ope.Index, opts *Options) (*Scheme, error) {
	return newScheme(key, d, index, opts, false)
}

func newScheme(key ope.Key, d ope.Domain, index ope.Index, opts *Options, ranked bool) (*Scheme, error) {
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
	o.Limit = cmp.Or(o.Limit, 100_000_000)
	o.UnitValues = cmp.Or(o.UnitValues, 1_000_000)
	given := params.Sizes{Name: o.Name, Lambda: o.Lambda, CacheValues: o.CacheValues, Limit: o.Limit, UnitValues: o.UnitValues, Ranked: ranked}
	if err := given.Check(); err != nil {
		return nil, err
	}
	id, r, purpose, err := given.Rules(d)
	if err != nil {
		return nil, err
	}
	b := &base{
		id: id, name: o.Name, domain: d, rules: r, limit: o.Limit, cache: o.CacheValues,
		codec:  &unit.Codec{Name: o.Name, ID: id, Key: key.Derive("kerschbaum", "record"), Rules: r, Domain: d},
		probes: 63, chunk: 256, window: 200, passPage: 1024, ahead: 4096, kept: 512, full: o.UnitValues,
	}
	// What the values of a commit make a client read at once must fit into a quarter of its cache,
	// or it would forget the neighbours of the first ones while it looks for those of the last.
	b.batch = min(b.chunk, o.CacheValues/256)
	b.page = min(512, o.CacheValues/(4*b.batch))
	b.ciphers = unit.NewCiphers(key.Expand(64, "kerschbaum", purpose), d)
	b.index = unitio.New(index, b.codec)
	s := &Scheme{base: b}
	s.shards = newShards(s)
	return s, nil
}

// ID implements [ope.Scheme], for example "kerschbaum/1 domain=[0,255]" or, with a lambda,
// "kerschbaum-published/1 domain=[0,255] lambda=2".
func (b *base) ID() string { return b.orZero().id }

// Format implements fmt.Formatter: every verb prints the ID. What is remembered are plaintexts.
func (b *base) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, b.ID()) }

// Domain implements [ope.Scheme].
func (b *base) Domain() ope.Domain {
	if b == nil {
		return ope.Domain{}
	}
	return b.domain
}

// orZero returns b or, for the zero scheme, which no function has made, what has no values.
func (b *base) orZero() *base { return cmp.Or(b, nothingMade) }

var nothingMade = &base{domain: ope.Domain{Min: 0, Max: -1}}

// made returns an error for the zero scheme.
func (b *base) made() error {
	if b == nil {
		return params.ErrZero
	}
	return nil
}

// Stats returns what this client has done so far.
func (b *base) Stats() Stats {
	b = b.orZero()
	calls := b.index.Stats()
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	stats := b.stats
	stats.Reads, stats.Commits, stats.RoundTrips = calls.Reads, calls.Commits, calls.RoundTrips
	stats.Conflicts, stats.Unknown = calls.Conflicts, calls.Unknown
	return stats
}

func (b *base) count(add func(*Stats)) {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	add(&b.stats)
}

// entry returns an element as the index of a version has it.
func (b *base) entry(e order.Element, v ope.Version) ope.Entry {
	return ope.Entry{Plaintext: e.Value, Ciphertext: b.ciphers.Of(v.Epoch, e.Value, e.Label), Version: v}
}

func (b *base) outside() error { return fmt.Errorf("%w %v", ope.ErrDomain, b.Domain()) }

// Encrypt implements [ope.Scheme]. A value that the client remembers costs nothing, another one a commit, and before that,
// if the client does not remember what is around it, some reads. If ctx ends, the value may or may not be in the index.
// What the client remembers may be out of date: see Clients above. On an [ope.Decider], a value that it has only read so far it
// has decided first, so that all others find it.
func (s *Scheme) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	at, err := s.put(ctx, x)
	if err != nil {
		return nil, err
	}
	return s.ciphers.Of(at.version.Epoch, x, at.label), nil
}

// put returns where a value is, after putting it into the index if it is not there.
func (s *Scheme) put(ctx context.Context, x int64) (at spot, err error) {
	if !s.orZero().domain.Contains(x) {
		return at, cmp.Or(s.made(), s.outside())
	}
	err = s.at(ctx, x, func(sh *shard) error {
		var ok bool
		if at, ok = sh.remembered(x, true); ok {
			return nil
		}
		spots, err := sh.commits.Do(ctx, []int64{x})
		if err != nil {
			return err
		}
		if at = spots[0]; at.version.Epoch == 0 {
			return errElsewhere
		}
		return nil
	})
	return at, err
}

// EncryptBatch implements [ope.BatchEncrypter]. Some hundred new values share a commit. If it fails,
// some of the values may be in the index. The ciphertexts lie side by side in one array, so that
// one that is kept keeps them all in memory. What the client remembers may be out of date: see Clients above.
func (s *Scheme) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	return s.encryptBatch(ctx, xs, unit.CiphertextSize, func(c ope.Ciphertext, x int64, at spot) {
		s.ciphers.Put(c, at.version.Epoch, x, at.label)
	})
}

// encryptBatch is EncryptBatch for ciphertexts of a size, which a function sets.
func (s *Scheme) encryptBatch(ctx context.Context, xs []int64, size int, set func(c ope.Ciphertext, x int64, at spot)) ([]ope.Ciphertext, error) {
	if err := cmp.Or(s.made(), ctx.Err()); err != nil {
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
	spots := make([]spot, len(sorted))
	if err := s.putAll(ctx, sorted, spots); err != nil {
		return nil, err
	}
	out := make([]byte, len(xs)*size)
	cs := make([]ope.Ciphertext, len(xs))
	for i, x := range xs {
		at := i
		if len(sorted) < len(xs) || sorted[i] != x {
			at, _ = slices.BinarySearch(sorted, x)
		}
		cs[i] = out[i*size : (i+1)*size : (i+1)*size]
		set(cs[i], x, spots[at])
	}
	return cs, nil
}

// putAll sets the spots of ascending values, each unit's at one version of it.
func (s *Scheme) putAll(ctx context.Context, values []int64, spots []spot) error {
	elsewhere := func(at spot) bool { return at.version.Epoch == 0 }
	for from, to := 0, len(values); from < to; {
		parts := s.shards.split(values[from:to])
		err := s.index.Parallel(len(parts), func(i int) error {
			p := parts[i]
			return p.shard.spots(ctx, values[from+p.from:from+p.to], spots[from+p.from:from+p.to])
		})
		if err != nil {
			return err
		}
		for from < len(spots) && !elsewhere(spots[from]) {
			from++
		}
		for to = from; to < len(spots) && elsewhere(spots[to]); {
			to++
		}
		if from < to {
			if err := s.lead(ctx, s.shards.at(values[from]), values[from]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Decrypt implements [ope.Scheme]. What the client remembers costs nothing, another ciphertext a
// read. [ope.ErrStale] is a ciphertext whose value has moved since: Encrypt of this client returns the present one.
// For a value that is just being handed over from one unit to another, the client must be allowed to write, see [Scheme.Intervals].
func (s *Scheme) Decrypt(ctx context.Context, c ope.Ciphertext) (int64, error) {
	epoch, x, at, ok := s.orZero().ciphers.Parse(c)
	if !ok {
		return 0, cmp.Or(s.made(), ope.ErrCiphertext)
	}
	if err := s.at(ctx, x, func(sh *shard) error { return sh.decrypt(ctx, epoch, x, at) }); err != nil {
		return 0, err
	}
	return x, nil
}

// Check reads the whole index and yields its values as [Scheme.Range] does, but goes on after records that are not
// such as clients leave them. Each of these is given to fault, with its key, which shows no value. The key is nil
// where it is the unit that is damaged. A fault is a record that was altered or moved, values out of order or
// there twice, neighbours that no insertions can have produced, or fewer values than the unit was opened with.
//
// It reads only, and clients may go on. What they leave is no fault. It may or may not see values that are inserted during
// it. It is meant for a client that was made for it, since one that is in use remembers what it has read before.
func (s *Scheme) Check(ctx context.Context, fault func(record []byte, err error)) iter.Seq2[ope.Entry, error] {
	return s.check(ctx, fault, s.entry)
}

// check is Check with entries that a function makes.
func (s *Scheme) check(ctx context.Context, fault func(record []byte, err error), entry func(order.Element, ope.Version) ope.Entry) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		if err := s.made(); err != nil {
			yield(ope.Entry{}, err)
			return
		}
		c := check.Checker{
			Domain: s.domain, Rules: s.rules, Page: s.passPage,
			Units:  func(shard uint32, epoch uint64) *unitio.Shard { return s.shards.get(shard, epoch).units },
			Locate: s.labelOf,
		}
		epoch, _, err := s.shards.first().readRoot(ctx)
		if err == nil {
			err = c.Run(ctx, epoch, fault, func(e order.Element, v ope.Version) bool { return yield(entry(e, v), nil) })
		}
		if err != nil {
			yield(ope.Entry{}, err)
		}
	}
}

// labelOf returns a label of a unit of which label 0 was read, and a version for which it holds: no value from x on is below it.
func (s *Scheme) labelOf(ctx context.Context, number uint32, p unit.Page, x int64) (at order.Label, version ope.Version, err error) {
	sh := s.shards.get(number, p.Unit.Epoch)
	if _, err = sh.note(p); err == nil {
		at, _, version, _, err = sh.bounds(ctx, x, s.domain.Max)
	}
	return at, version, err
}
