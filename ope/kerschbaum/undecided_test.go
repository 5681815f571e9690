package kerschbaum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// A halfIndex shows what was committed before it is decided, and its before does not.
type halfIndex struct {
	ope.Index
	before  *swappedIndex // of others, until it is decided
	decided atomic.Int32  // calls
	fails   error
}

func (h *halfIndex) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	h.before.reads.Store(nil)
	return h.Index.Commit(ctx, u, cond, change)
}

func (h *halfIndex) Decide(context.Context, ope.Unit) error {
	if h.fails != nil {
		return h.fails
	}
	h.decided.Add(1)
	h.before.reads.Store(nil)
	return nil
}

// halfDecided returns an index with some values, of which 90 is not decided.
func halfDecided(t *testing.T) (h *halfIndex, others ope.Index) {
	index := opetest.NewIndex()
	writer := newClient(t, index, ope.Uint8, nil)
	_, err := writer.EncryptBatch(t.Context(), []int64{1, 60, 120, 180})
	require.NoError(t, err)
	view, err := index.Read(t.Context(), first(writer).unit(1).Name, nil, nil, 0)
	require.NoError(t, err)
	old := opetest.NewIndex()
	_, err = old.Commit(t.Context(), first(writer).unit(1).Name, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
	require.NoError(t, err)
	_, err = writer.Encrypt(t.Context(), 90)
	require.NoError(t, err)
	h = &halfIndex{Index: index, before: &swappedIndex{Index: index}}
	h.before.reads.Store(new(ope.Index(old)))
	return h, h.before
}

// Who encrypts a value that another client has put makes sure that all others find it: the other client may have died before
// the database has decided that.
func TestEncryptedValuesAreDecided(t *testing.T) {
	ctx := t.Context()
	finds := func(others ope.Index) bool {
		for e, err := range newClient(t, others, ope.Uint8, nil).Range(ctx, 0, 255) {
			require.NoError(t, err)
			if e.Plaintext == 90 {
				return true
			}
		}
		return false
	}
	for name, c := range map[string]struct {
		encrypt func(s *Scheme) error
		decided int32
	}{
		"one":           {func(s *Scheme) error { _, err := s.Encrypt(ctx, 90); return err }, 1},
		"some":          {func(s *Scheme) error { _, err := s.EncryptBatch(ctx, []int64{90, 60, 1}); return err }, 1},
		"with new ones": {func(s *Scheme) error { _, err := s.EncryptBatch(ctx, []int64{90, 61}); return err }, 0}, // the commit decides it
		"after a query": {func(s *Scheme) error {
			if _, err := s.Intervals(ctx, 90, 120); err != nil {
				return err
			}
			_, err := s.Encrypt(ctx, 90)
			return err
		}, 1},
		"after a query of it": {func(s *Scheme) error {
			if _, err := s.Intervals(ctx, 90, 90); err != nil {
				return err
			}
			_, err := s.EncryptBatch(ctx, []int64{90})
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, others := halfDecided(t)
			require.False(t, finds(others))
			s := newClient(t, h, ope.Uint8, nil)
			require.NoError(t, c.encrypt(s))
			require.Equal(t, c.decided, h.decided.Load())
			require.True(t, finds(others), "an encrypted value is missing")
			calls := s.Stats().RoundTrips
			require.NoError(t, c.encrypt(s))
			require.Equal(t, c.decided, h.decided.Load(), "it was decided already")
			if name != "after a query" && name != "after a query of it" {
				require.Equal(t, calls, s.Stats().RoundTrips)
			}
		})
	}

	t.Run("what the client has put", func(t *testing.T) {
		h, _ := halfDecided(t)
		s := newClient(t, h, ope.Uint8, nil)
		for range 2 {
			_, err := s.EncryptBatch(ctx, []int64{91, 92, 93})
			require.NoError(t, err)
		}
		require.Zero(t, h.decided.Load())
	})

	t.Run("a query", func(t *testing.T) {
		h, others := halfDecided(t)
		s := newClient(t, h, ope.Uint8, nil)
		require.True(t, finds(h))
		_, err := s.Intervals(ctx, 80, 100)
		require.NoError(t, err)
		require.False(t, finds(others), "it has something decided")
	})

	t.Run("a failure", func(t *testing.T) {
		h, _ := halfDecided(t)
		h.fails = errors.New("no answer")
		s := newClient(t, h, ope.Uint8, nil)
		for range 2 {
			_, err := s.Encrypt(ctx, 90)
			require.ErrorIs(t, err, h.fails)
		}
	})
}
