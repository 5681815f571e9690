package kerschbaum

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// A dyingIndex is that of a client that dies with a commit, which is not decided: others may read the unit as it was.
type dyingIndex struct {
	ope.Index
	with func(unit ope.Unit, change ope.Change) bool

	mu   sync.Mutex
	dead bool
	old  map[ope.Unit]ope.Index // units that have something undecided, as they were
}

var errDead = errors.New("the client is dead")

func (d *dyingIndex) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false, errDead
	}
	if !d.with(u, change) {
		return d.Index.Commit(ctx, u, cond, change)
	}
	view, err := d.Read(ctx, u, nil, nil, 0)
	if err != nil {
		return false, err
	}
	old := opetest.NewIndex()
	if _, err := old.Commit(ctx, u, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta}); err != nil {
		return false, err
	}
	if applied, err := d.Index.Commit(ctx, u, cond, change); !applied || err != nil {
		return applied, err
	}
	d.dead, d.old = true, map[ope.Unit]ope.Index{u: old}
	return true, errDead
}

// A survivor is the index of another client, which reads what is undecided, or as long as it is not, what was before.
type survivor struct {
	*dyingIndex
	misses bool
}

func (s survivor) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	s.mu.Lock()
	old := s.old[u]
	s.mu.Unlock()
	if s.misses && old != nil {
		return old.Read(ctx, u, from, to, limit)
	}
	return s.Index.Read(ctx, u, from, to, limit)
}

func (s survivor) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	_ = s.Decide(ctx, u)
	return s.Index.Commit(ctx, u, cond, change)
}

func (s survivor) Decide(_ context.Context, u ope.Unit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.old, u)
	return nil
}

// A leftUnit is a unit that a client commits no more to, since it dies.
type leftUnit struct {
	survivor
	unit ope.Unit
}

func (l leftUnit) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if u == l.unit {
		return false, errDead
	}
	return l.survivor.Commit(ctx, u, cond, change)
}

func has(t *testing.T, s *Scheme, x int64) (is bool) {
	for e, err := range s.Range(t.Context(), s.domain.Min, s.domain.Max) {
		require.NoError(t, err)
		is = is || e.Plaintext == x
	}
	return is
}

// A client that reads a unit as retired puts values into the next one. Those who read the unit as it was would miss them.
func TestUndecidedRetirement(t *testing.T) {
	opts := &Options{Lambda: 2}
	d := &dyingIndex{Index: opetest.NewIndex(), with: func(_ ope.Unit, change ope.Change) bool { return change.Meta.State == ope.StateRetired }}
	writer := newClient(t, d, ope.Uint8, opts)
	_, err := writer.EncryptBatch(t.Context(), []int64{1, 60, 120, 180})
	require.NoError(t, err)
	_, err = writer.Rebalance(t.Context(), nil)
	require.ErrorIs(t, err, errDead)

	_, err = newClient(t, survivor{d, false}, ope.Uint8, opts).Encrypt(t.Context(), 90)
	require.NoError(t, err)
	require.True(t, has(t, newClient(t, survivor{d, true}, ope.Uint8, opts), 90), "an encrypted value is missing")
}

// What a client has frozen that dies with that is handed over by another one, and a third one puts values there. Those who read
// the unit as it was would miss them.
func TestUndecidedFreeze(t *testing.T) {
	ctx, opts := t.Context(), &Options{UnitValues: 64}
	d := &dyingIndex{Index: opetest.NewIndex()}
	writer := newClient(t, d, ope.Int64, opts)
	root := first(writer).unit(1)
	var is unit.Part
	d.with = func(u ope.Unit, change ope.Change) bool {
		for _, r := range change.Puts {
			if u == root.Name && bytes.Equal(r.Key, unit.PartKey) {
				var err error
				is, err = root.OpenPart(r)
				return err == nil && is.N > 0
			}
		}
		return false
	}
	var err error
	for x := int64(0); err == nil; x++ {
		require.Less(t, x, int64(200))
		_, err = writer.Encrypt(ctx, 2*x)
	}
	require.ErrorIs(t, err, errDead)

	at := is.Low.Value - 1
	_, err = newClient(t, leftUnit{survivor{d, false}, root.Name}, ope.Int64, opts).Encrypt(ctx, at)
	require.ErrorIs(t, err, errDead)
	_, err = newClient(t, survivor{d, false}, ope.Int64, opts).Encrypt(ctx, at)
	require.NoError(t, err)
	require.True(t, has(t, newClient(t, survivor{d, true}, ope.Int64, opts), at), "an encrypted value is missing")
}

// A check, which reads a unit again and again, takes what it misses for no damage.
func TestUndecidedCheck(t *testing.T) {
	d := &dyingIndex{Index: opetest.NewIndex(), with: func(ope.Unit, ope.Change) bool { return true }}
	_, err := newClient(t, d, ope.Uint8, nil).Encrypt(t.Context(), 90)
	require.ErrorIs(t, err, errDead)
	old := d.old
	for n := range 5 {
		d.old = map[ope.Unit]ope.Index{}
		x := &lateMiss{survivor: survivor{d, true}, old: old, after: n}
		for _, err := range newClient(t, x, ope.Uint8, nil).Check(t.Context(), func(_ []byte, err error) { t.Errorf("after %d reads: %v", n, err) }) {
			require.NoError(t, err)
		}
	}
}

// A lateMiss shows what is undecided with some reads, and misses it with those that follow.
type lateMiss struct {
	survivor
	old   map[ope.Unit]ope.Index
	after int
}

func (l *lateMiss) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if l.after--; l.after == -1 {
		for u, old := range l.old {
			l.survivor.old[u] = old
		}
	}
	return l.survivor.Read(ctx, u, from, to, limit)
}
