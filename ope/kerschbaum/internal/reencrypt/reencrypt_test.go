package reencrypt

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

var errDied = errors.New("the client died")

// A mortal index carries out some commits, and no other.
type mortal struct {
	ope.Index
	commits int
}

func (m *mortal) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if m.commits == 0 {
		return false, errDied
	}
	m.commits--
	return m.Index.Commit(ctx, u, cond, change)
}

// A counter counts what a copier does.
type counter struct{ begun, copied, ended int }

func (n *counter) copier(index ope.Index, key ope.Key) *Copier {
	codec := &unit.Codec{Name: "column", ID: "test", Key: key, Rules: order.DefaultRules(), Domain: ope.Int64}
	return &Copier{
		Shard: unitio.New(index, codec).Shard(0, func(uint64, []byte) (ope.Meta, bool, bool) { return ope.Meta{}, false, false }, new(sync.Mutex), order.NewList(codec.Rules, 0)),
		Rules: codec.Rules, Chunk: 4, Page: 3,
		Begun:  func() { n.begun++ },
		Copied: func(values int) { n.copied += values },
		Ended:  func(next uint64) { n.ended = int(next) },
	}
}

// filled returns an index whose first epoch has the values 0 to 9, in ascending order of insertion.
func filled(t *testing.T, key ope.Key) ope.Index {
	t.Helper()
	index := opetest.NewIndex()
	c := new(counter).copier(index, key)
	u := c.Unit(1)
	puts := []ope.Record{u.SealHeader(unit.Header{})}
	left := c.Rules.Low()
	for x := range int64(10) {
		e, ok, err := c.Rules.Place(left, c.Rules.High())
		require.NoError(t, err)
		require.True(t, ok)
		e.Value = x
		puts = append(puts, u.SealElement(e))
		left = e
	}
	applied, err := c.Commit(t.Context(), u, ope.Condition{}, ope.Change{Puts: puts, Meta: ope.Meta{State: ope.StateOpen, Generation: 5}})
	require.NoError(t, err)
	require.True(t, applied)
	return index
}

// requireCopied requires that the pass of the first epoch was made.
func requireCopied(t *testing.T, c *Copier) {
	t.Helper()
	root, _, err := c.ReadRoot(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(2), root.Generation)
	meta, err := c.ReadMeta(t.Context(), c.Unit(1))
	require.NoError(t, err)
	require.Equal(t, ope.StateRetired, meta.State)
	p, err := c.Read(t.Context(), 2, order.Label{}, c.Rules.High().Label, 100)
	require.NoError(t, err)
	require.Equal(t, ope.StateOpen, p.Meta.State)
	require.Equal(t, &unit.Header{Values: 10, Generation: 5}, p.Header)
	want, err := c.Rules.Spread([]int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	require.NoError(t, err)
	require.Equal(t, want, p.Elements)
}

func TestPass(t *testing.T) {
	key := ope.GenerateKey()
	index := filled(t, key)
	var n counter
	c := n.copier(index, key)
	var told []int
	stats, err := c.Run(t.Context(), 1, func(done, total int) { told = append(told, done, total) })
	require.NoError(t, err)
	require.Equal(t, ope.RebalanceStats{Values: 10, Moved: 10, Before: ope.Version{Epoch: 1, Generation: 5}, After: ope.Version{Epoch: 2}}, stats)
	require.Equal(t, []int{0, 10, 4, 10, 8, 10, 10, 10}, told)
	require.Equal(t, counter{begun: 1, copied: 10, ended: 2}, n)
	requireCopied(t, c)
	old, err := c.ReadRecords(t.Context(), c.Unit(1), nil, nil, 0)
	require.NoError(t, err)
	require.Len(t, old.Records, 1, "its header stays")

	again, err := c.Run(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, stats, again)
	require.Equal(t, 1, n.begun, "what is retired is not copied again")
}

// Who makes a pass may die at any commit. Another one finishes it.
func TestPassIsFinished(t *testing.T) {
	const commits = 8 // one seals, three copy, one opens, one retires, one sets the root, and at least one cleans up
	key := ope.GenerateKey()
	for survives := range commits {
		index := filled(t, key)
		_, err := new(counter).copier(&mortal{index, survives}, key).Run(t.Context(), 1, nil)
		require.ErrorIs(t, err, errDied, "%d", survives)
		c := new(counter).copier(index, key)
		_, err = c.Run(t.Context(), 1, nil)
		require.NoError(t, err)
		requireCopied(t, c)
	}
}

// A lagging index shows a unit as it was, after some reads of it, until what came later is decided.
type lagging struct {
	ope.Index
	unit   ope.Unit
	before ope.Index // nil: what it shows is decided
	reads  int       // that show what is not decided
}

func (l *lagging) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if u == l.unit && l.before != nil {
		if l.reads == 0 {
			return l.before.Read(ctx, u, from, to, limit)
		}
		l.reads--
	}
	return l.Index.Read(ctx, u, from, to, limit)
}

func (l *lagging) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if u == l.unit {
		l.before = nil
	}
	return l.Index.Commit(ctx, u, cond, change)
}

// Who makes a pass may die before its last commit is decided for all. What another one has read of that may be missing in the next
// read, and does not end the pass before it is made.
func TestPassIsFinishedThoughNotAllIsDecided(t *testing.T) {
	key := ope.GenerateKey()
	for reads := range 5 {
		index, before := filled(t, key), filled(t, key)
		_, err := new(counter).copier(&mortal{index, 1}, key).Run(t.Context(), 1, nil)
		require.ErrorIs(t, err, errDied)
		l := &lagging{Index: index, before: before, reads: reads}
		c := new(counter).copier(l, key)
		l.unit = c.Unit(1).Name
		_, err = c.Run(t.Context(), 1, nil)
		require.NoError(t, err)
		requireCopied(t, c)
	}
}
