package unitio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// A late index answers some reads with what a unit was, and reports some commits with an error.
type late struct {
	ope.Index
	views   []ope.View
	commits []error
}

func (l *late) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if len(l.views) > 0 {
		view := l.views[0]
		l.views = l.views[1:]
		return view, nil
	}
	return l.Index.Read(ctx, u, from, to, limit)
}

func (l *late) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	applied, err := l.Index.Commit(ctx, u, cond, change)
	if len(l.commits) > 0 {
		applied, err = false, l.commits[0]
		l.commits = l.commits[1:]
	}
	return applied, err
}

// newShard returns shard 0 of an index. Its client has seen generation 2 of epoch 1, and nothing else.
func newShard(index ope.Index) *Shard {
	codec := &unit.Codec{Name: "column", ID: "test", Key: ope.GenerateKey(), Rules: order.DefaultRules(), Domain: ope.Int64}
	return New(index, codec).Shard(0, func(epoch uint64, _ []byte) (ope.Meta, bool, bool) {
		return ope.Meta{State: ope.StateOpen, Generation: 2}, epoch == 1, false
	}, new(sync.Mutex), order.NewList(codec.Rules, 0))
}

// open opens a unit of no values in a generation, and returns what it is then.
func open(t *testing.T, s *Shard, u *unit.Unit, generation uint64) ope.Meta {
	t.Helper()
	meta := ope.Meta{State: ope.StateOpen, Generation: generation, Nonce: NewNonce()}
	applied, err := s.Commit(t.Context(), u, ope.Condition{}, ope.Change{Puts: []ope.Record{u.SealHeader(unit.Header{})}, Meta: meta})
	require.NoError(t, err)
	require.True(t, applied)
	return meta
}

// A unit that is older than what its client has seen was put back. A client that has seen nothing of it takes it.
func TestUnitsThatWerePutBack(t *testing.T) {
	s := newShard(opetest.NewIndex())
	for epoch, refused := range map[uint64]bool{1: true, 2: false} {
		u := s.Unit(epoch)
		open(t, s, u, 1)
		_, err := s.ReadMeta(t.Context(), u)
		require.Equal(t, refused, errors.Is(err, ope.ErrIndex), "%d: %v", epoch, err)
	}
}

// An answer that is late is no unit that was put back: it is read again.
func TestAnswersThatAreLate(t *testing.T) {
	index := &late{Index: opetest.NewIndex()}
	s := newShard(index)
	u := s.Unit(1)
	is := open(t, s, u, 2)
	index.views = []ope.View{{Meta: ope.Meta{State: ope.StateOpen, Generation: 1, Nonce: NewNonce()}}}
	got, err := s.ReadMeta(t.Context(), u)
	require.NoError(t, err)
	require.Equal(t, is, got)
	require.Equal(t, Stats{Reads: 2, Commits: 2, RoundTrips: 4, Conflicts: 1}, s.Stats())
}

// A commit of unknown outcome counts as refused, whatever has become of it.
func TestUnknownOutcome(t *testing.T) {
	index := &late{Index: opetest.NewIndex(), commits: []error{fmt.Errorf("%w: timeout", ope.ErrUnknownOutcome)}}
	s := newShard(index)
	u := s.Unit(3)
	applied, err := s.Commit(t.Context(), u, ope.Condition{}, ope.Change{Meta: ope.Meta{State: ope.StateOpen}})
	require.NoError(t, err)
	require.False(t, applied)
	meta, err := s.ReadMeta(t.Context(), u)
	require.NoError(t, err)
	require.Equal(t, ope.StateOpen, meta.State)
	require.Equal(t, Stats{Reads: 1, Commits: 1, RoundTrips: 2, Unknown: 1}, s.Stats())
}

func TestParallel(t *testing.T) {
	s := newShard(opetest.NewIndex())
	require.NoError(t, s.Parallel(5, func(i int) error {
		_, err := s.ReadMeta(t.Context(), s.Unit(2+uint64(i)))
		return err
	}))
	require.Equal(t, Stats{Reads: 5, RoundTrips: 1}, s.Stats())
	err := s.Parallel(3, func(i int) error {
		if i == 0 {
			return nil
		}
		return fmt.Errorf("%d", i)
	})
	require.EqualError(t, err, "1", "it is the first in their order")
}

// The directory has the highest edge that was listed of a shard. What is damaged in it does not hide what is before that.
func TestDirectory(t *testing.T) {
	index := opetest.NewIndex()
	s := newShard(index)
	listing := func(number uint32, value int64) unit.Listing {
		return unit.Listing{Number: number, High: order.Element{Value: value, Label: order.Label{Lo: uint64(value)}}, Epoch: 3}
	}
	for _, l := range []unit.Listing{listing(7, 100), listing(5, 50), listing(7, 90), listing(7, 110)} {
		require.NoError(t, s.List(t.Context(), l))
	}
	is, directory, err := s.ReadRoot(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(3), is.Generation)
	require.Equal(t, []unit.Listing{listing(5, 50), listing(7, 110)}, directory)

	damaged := ope.Record{Key: unit.ListingKey(7), Value: []byte("damaged")}
	_, err = index.Commit(t.Context(), s.Unit(unit.Root).Name, ope.Condition{State: is.State, Generation: is.Generation}, ope.Change{Puts: []ope.Record{damaged}, Meta: is})
	require.NoError(t, err)
	_, directory, err = s.ReadRoot(t.Context())
	require.ErrorIs(t, err, ope.ErrIndex)
	require.Equal(t, []unit.Listing{listing(5, 50)}, directory)
}

// The middle of a unit is found in steps. A unit that has fewer values than it seemed has none to find.
func TestMiddle(t *testing.T) {
	const n = 50
	s := newShard(opetest.NewIndex())
	u := s.Unit(2)
	elements, err := order.DefaultRules().Spread(make([]int64, n))
	require.NoError(t, err)
	change := ope.Change{Meta: ope.Meta{State: ope.StateOpen}}
	for _, e := range elements {
		change.Puts = append(change.Puts, u.SealElement(e))
	}
	_, err = s.Commit(t.Context(), u, ope.Condition{}, change)
	require.NoError(t, err)

	var found Search
	for range 3 { // a search that has ended begins again
		at, fewer, err := s.Middle(t.Context(), u, &found, order.DefaultRules(), n, 2)
		require.NoError(t, err)
		require.False(t, fewer)
		require.Zero(t, at, "8 reads of 2 records do not reach it")
		at, fewer, err = s.Middle(t.Context(), u, &found, order.DefaultRules(), n, 2)
		require.NoError(t, err)
		require.False(t, fewer)
		require.Equal(t, elements[n/2-1].Label, at)
	}
	at, fewer, err := s.Middle(t.Context(), u, &found, order.DefaultRules(), 3*n, n)
	require.NoError(t, err)
	require.True(t, fewer)
	require.Zero(t, at)
}
