package kerschbaum

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// Ranked is the scheme with ciphertexts that never move. Each value has, besides its label, a rank: a longer number that
// it gets with its first place, and keeps. Labels, and units of the index, go on to move and divide below that. So a database
// that has the rows in the order of these ciphertexts has a range in one piece.
//
// What a rank says of a value is what a label says: its order, and, by the path that leads there, a part of the order in
// which values came. Since ranks never move, nothing wipes that out, and a copy of the rows shows it as well as one of the index.
//
// Where values come along a path that nothing predicts, 192 bits can be used up. From then on values between those two share
// a rank: their ciphertexts differ, but have no order among themselves. See [RankSize].
//
// Make it with [NewRanked]: the zero Ranked has no key, and its methods return [ope.ErrKey].
type Ranked struct{ of Scheme }

// RankSize is how many bytes of a ciphertext of [Ranked] have the order of the values. The last of them is 1 where values
// share what is before it, and otherwise 0.
const RankSize = order.RankSize

var (
	_ ope.Linear         = (*Ranked)(nil)
	_ ope.BatchEncrypter = (*Ranked)(nil)
)

// NewRanked is [New], for ranks. An index that was made with them is of no use without, and the other way round.
func NewRanked(key ope.Key, d ope.Domain, index ope.Index, opts *Options) (*Ranked, error) {
	s, err := newScheme(key, d, index, opts, true)
	if err != nil {
		return nil, err
	}
	return &Ranked{*s}, nil
}

// ID implements [ope.Scheme], for example "kerschbaum-ranked/1 domain=[0,255]".
func (r *Ranked) ID() string { return r.of.ID() }

// Format implements fmt.Formatter as [Scheme.Format] does.
func (r Ranked) Format(f fmt.State, _ rune) { r.of.Format(f, 'v') }

// Domain implements [ope.Scheme].
func (r *Ranked) Domain() ope.Domain { return r.of.Domain() }

// ImmutableCiphertexts implements [ope.Immutable].
func (r *Ranked) ImmutableCiphertexts() {}

// LinearOrder implements [ope.Linear].
func (r *Ranked) LinearOrder() {}

// Stats returns what this client has done so far.
func (r *Ranked) Stats() Stats { return r.of.Stats() }

// Encrypt implements [ope.Scheme] as [Scheme.Encrypt] does.
func (r *Ranked) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	at, err := r.of.put(ctx, x)
	if err != nil {
		return nil, err
	}
	return r.of.ciphers.Ranked(x, at.rank), nil
}

// EncryptBatch implements [ope.BatchEncrypter] as [Scheme.EncryptBatch] does.
func (r *Ranked) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	return r.of.encryptBatch(ctx, xs, unit.RankedSize, func(c ope.Ciphertext, x int64, at spot) {
		r.of.ciphers.PutRanked(c, x, at.rank)
	})
}

// Check is [Scheme.Check]. Ranks that are not in the order of the values are a fault, too.
func (r *Ranked) Check(ctx context.Context, fault func(record []byte, err error)) iter.Seq2[ope.Entry, error] {
	return r.of.check(ctx, fault, func(e order.Element, v ope.Version) ope.Entry {
		return ope.Entry{Plaintext: e.Value, Ciphertext: r.of.ciphers.Ranked(e.Value, e.Rank), Version: v}
	})
}

// Parse returns the plaintext of a ciphertext, as its tag has it, without asking the index whether that gave it out.
func (r *Ranked) Parse(c ope.Ciphertext) (int64, error) {
	x, _, ok := r.of.orZero().ciphers.ParseRanked(c)
	if !ok {
		return 0, cmp.Or(r.of.made(), ope.ErrCiphertext)
	}
	return x, nil
}

// Decrypt implements [ope.Scheme]. What the client remembers costs nothing, another ciphertext some reads.
func (r *Ranked) Decrypt(ctx context.Context, c ope.Ciphertext) (int64, error) {
	x, rank, ok := r.of.orZero().ciphers.ParseRanked(c)
	if !ok {
		return 0, cmp.Or(r.of.made(), ope.ErrCiphertext)
	}
	is, err := r.around(ctx, x)
	if err == nil && (!is.there || is.at.Rank != rank) {
		err = ope.ErrCiphertext
	}
	if err != nil {
		return 0, err
	}
	return x, nil
}

// A rankedPlace is where a value is, or would be.
type rankedPlace struct {
	there bool           // in the index, at the element
	at    *order.Element // or the lowest above it; nil: none is
	below *order.Element // the highest that is lower; not known for what is there
}

// remembered returns the place of a value that the client remembers.
func (r *Ranked) remembered(x int64) (rankedPlace, bool) {
	at, ok := r.of.shards.at(x).remembered(x, false)
	return rankedPlace{there: true, at: &order.Element{Value: x, Rank: at.rank}}, ok
}

// around returns the place of a value, as the client remembers it or as it is now.
func (r *Ranked) around(ctx context.Context, x int64) (p rankedPlace, err error) {
	if p, ok := r.remembered(x); ok {
		return p, nil
	}
	within := reading{Domain: ope.Domain{Min: x, Max: r.of.domain.Max}}
	err = r.of.read(ctx, &within, func(e order.Element, _ ope.Version) bool {
		p.at, p.there = &e, e.Value == x
		return false
	})
	p.below = within.below
	return p, err
}

// Intervals implements [ope.Scheme]. A bound that the client remembers costs nothing, another one a read and, where little
// is remembered, some more. The whole domain has all ciphertexts, and is known without a read. Where values share a rank
// with a bound, the interval has them all.
func (r *Ranked) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	d := r.of.orZero().domain
	within, ok := d.Intersect(lo, hi)
	if !ok {
		return nil, r.of.made()
	}
	iv := ope.Interval{Start: make(ope.Ciphertext, unit.RankedSize), End: append(bytes.Repeat([]byte{0xff}, unit.RankedSize), 0)}
	var reads []func() error
	at := func(x int64, set func(rankedPlace)) {
		if p, ok := r.remembered(x); ok { // which is no round trip
			set(p)
			return
		}
		reads = append(reads, func() error {
			p, err := r.around(ctx, x)
			set(p)
			return err
		})
	}
	if within.Min > d.Min {
		at(within.Min, func(p rankedPlace) {
			switch {
			case p.there:
				iv.Start = unit.RankedBound(p.at.Rank, 0)
			case p.below != nil && p.below.Rank.Shared:
				iv.Start = unit.RankedBound(p.below.Rank, 0)
			case p.below != nil:
				iv.Start = unit.RankedBound(p.below.Rank, 1)
			}
		})
	}
	if within.Max < d.Max {
		at(within.Max, func(p rankedPlace) {
			switch {
			case p.there, p.at != nil && p.at.Rank.Shared: // what is below may share it
				iv.End = unit.RankedBound(p.at.Rank, 1)
			case p.at != nil:
				iv.End = unit.RankedBound(p.at.Rank, 0)
			}
		})
	}
	if err := r.of.index.Parallel(len(reads), func(i int) error { return reads[i]() }); err != nil {
		return nil, err
	}
	return []ope.Interval{iv}, nil
}
