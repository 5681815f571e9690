package scheme

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
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

	mu         sync.Mutex
	known      map[int64]bool // values that are in the index
	queue      []*insertion   // calls that wait
	committing bool           // somebody serves the queue

	state ope.State // of the unit, as far as who commits knows
}

// An insertion is a call that waits for values to be in the index.
type insertion struct {
	records map[int64]ope.Record
	done    chan error // takes one
}

// insertionRecords bounds the records of a commit.
const insertionRecords = 256

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
	r := &insertion{make(map[int64]ope.Record), make(chan error, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range xs {
		var err error
		if cs[i], err = s.plain.Encrypt(ctx, x); err != nil {
			return nil, fmt.Errorf("value at position %d: %w", i, err)
		}
		if !s.known[x] {
			r.records[x] = ope.Record{Key: cs[i], Value: []byte{}}
		}
	}
	if len(r.records) == 0 {
		return cs, nil
	}
	s.queue = append(s.queue, r)
	if !s.committing {
		s.committing = true
		go s.commitQueue(context.WithoutCancel(ctx))
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case err := <-r.done:
		return cs, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// commitQueue serves calls until none waits. Those that wait while a commit is under way share the next
// one, as with Kerschbaum's scheme: with a commit for each, what it is compared with would be slower.
func (s *indexedIdentity) commitQueue(ctx context.Context) {
	for {
		s.mu.Lock()
		turn, records := 0, make(map[int64]ope.Record)
		for turn < len(s.queue) && (turn == 0 || len(records)+len(s.queue[turn].records) <= insertionRecords) {
			maps.Copy(records, s.queue[turn].records)
			turn++
		}
		served := s.queue[:turn:turn]
		s.queue = s.queue[turn:]
		s.committing = turn > 0
		s.mu.Unlock()
		if turn == 0 {
			return
		}
		err := s.commit(ctx, slices.Collect(maps.Values(records)))
		if err == nil {
			s.mu.Lock()
			for x := range records {
				s.known[x] = true
			}
			s.mu.Unlock()
		}
		for _, r := range served {
			r.done <- err
		}
	}
}

// commit puts records into the index. To put the same again is harmless.
func (s *indexedIdentity) commit(ctx context.Context, records []ope.Record) error {
	for {
		applied, err := s.index.Commit(ctx, s.unit, ope.Condition{State: s.state},
			ope.Change{Puts: records, Meta: ope.Meta{State: ope.StateOpen}})
		switch {
		case err != nil:
			return err
		case applied:
			s.state = ope.StateOpen
			return nil
		case s.state == ope.StateOpen:
			return fmt.Errorf("%w: unit %q", ope.ErrIndex, s.unit)
		}
		s.state = ope.StateOpen // someone has opened it
	}
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
