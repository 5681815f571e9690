package store

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
)

// indexedIdentity is identity with an index as a mutable scheme has it, for comparison: a record for
// each value that was encrypted, whose key is the ciphertext and whose value is empty. There is one
// unit, and nothing in it moves.
type indexedIdentity struct {
	plain identity
	index ope.Index
	unit  ope.Unit

	mu    sync.Mutex
	state ope.State      // of the unit, as far as is known
	known map[int64]bool // values that are in the index
}

var (
	_ ope.Mutable        = (*indexedIdentity)(nil)
	_ ope.BatchEncrypter = (*indexedIdentity)(nil)
)

func newIndexedIdentity(d ope.Domain, x ope.Index, unit ope.Unit) *indexedIdentity {
	return &indexedIdentity{plain: newIdentity(d), index: x, unit: unit, known: make(map[int64]bool)}
}

func (s *indexedIdentity) ID() string {
	return "plaintext-indexed/1 domain=" + s.plain.domain.String()
}

func (s *indexedIdentity) Domain() ope.Domain { return s.plain.domain }

func (s *indexedIdentity) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	if !s.plain.domain.Contains(x) {
		return nil, fmt.Errorf("%w %v", ope.ErrDomain, s.plain.domain)
	}
	cs, err := s.EncryptBatch(ctx, []int64{x})
	if err != nil {
		return nil, err
	}
	return cs[0], nil
}

func (s *indexedIdentity) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	cs := make([]ope.Ciphertext, len(xs))
	var fresh []ope.Record
	var added []int64
	s.mu.Lock()
	state, seen := s.state, make(map[int64]bool)
	for i, x := range xs {
		var err error
		if cs[i], err = s.plain.Encrypt(ctx, x); err != nil {
			s.mu.Unlock()
			return nil, fmt.Errorf("value at position %d: %w", i, err)
		}
		if !s.known[x] && !seen[x] {
			seen[x] = true
			added = append(added, x)
			fresh = append(fresh, ope.Record{Key: cs[i], Value: []byte{}})
		}
	}
	s.mu.Unlock()
	for len(fresh) > 0 {
		applied, err := s.index.Commit(ctx, s.unit, ope.Condition{State: state},
			ope.Change{Puts: fresh, Meta: ope.Meta{State: ope.StateOpen}})
		switch {
		case err != nil:
			return nil, err // putting the same records again is harmless
		case applied:
			fresh = nil
		case state == ope.StateOpen:
			return nil, fmt.Errorf("%w: unit %q", ope.ErrIndex, s.unit)
		}
		state = ope.StateOpen // someone has opened it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = max(s.state, state)
	for _, x := range added {
		s.known[x] = true
	}
	return cs, nil
}

func (s *indexedIdentity) Decrypt(ctx context.Context, c ope.Ciphertext) (int64, error) {
	x, err := s.plain.Decrypt(ctx, c)
	if err != nil {
		return 0, err
	}
	view, err := s.index.Read(ctx, s.unit, c, append(c[:len(c):len(c)], 0), 1)
	if err == nil && len(view.Records) == 0 {
		err = ope.ErrCiphertext
	}
	return x, err
}

func (s *indexedIdentity) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	return s.plain.Intervals(ctx, lo, hi)
}

func (s *indexedIdentity) Range(ctx context.Context, lo, hi int64) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		intervals, err := s.plain.Intervals(ctx, lo, hi)
		if err != nil {
			yield(ope.Entry{}, err)
			return
		}
		for _, iv := range intervals {
			from := []byte(iv.Start)
			for more := true; more; {
				const page = 1000
				view, err := s.index.Read(ctx, s.unit, from, iv.End, page)
				if err != nil {
					yield(ope.Entry{}, err)
					return
				}
				for _, r := range view.Records {
					x, err := s.plain.Decrypt(ctx, r.Key)
					if !yield(ope.Entry{Plaintext: x, Ciphertext: r.Key}, err) || err != nil {
						return
					}
					from = append(r.Key[:len(r.Key):len(r.Key)], 0)
				}
				more = view.More
			}
		}
	}
}

func (s *indexedIdentity) Rebalance(context.Context, func(done, total int)) (ope.RebalanceStats, error) {
	return ope.RebalanceStats{}, nil
}

func (s *indexedIdentity) Moves(context.Context, ope.Version) iter.Seq2[ope.Move, error] {
	return func(func(ope.Move, error) bool) {}
}
