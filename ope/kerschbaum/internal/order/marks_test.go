package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarks(t *testing.T) {
	r := DefaultRules()
	all, err := r.Spread([]int64{10, 20, 30, 40, 50})
	require.NoError(t, err)
	l := NewList(r, 0)
	require.NoError(t, l.Learn(all[:1]))
	require.False(t, l.Doubts(10))
	l.Clear()

	l.Doubt()
	require.NoError(t, l.Learn(all[:2]))
	require.True(t, l.Doubts(10))
	require.True(t, l.Doubts(15), "what is not known may have been forgotten")
	require.True(t, l.Doubts(5))
	m := l.Mark()
	require.NoError(t, l.Learn(all[:3]))
	l.Decided(m)
	require.False(t, l.Doubts(10))
	require.False(t, l.Doubts(20))
	require.True(t, l.Doubts(30), "it was learnt later")
	require.NoError(t, l.Learn(all[:3]))
	require.False(t, l.Doubts(20), "to see it again leaves it as it was")
	require.NoError(t, l.Put(all[2:4]))
	require.False(t, l.Doubts(30))
	require.False(t, l.Doubts(40))
	require.NoError(t, l.Insert(all[4]))
	require.False(t, l.Doubts(50))

	moved := all[1]
	moved.Label = moved.Label.Next()
	l.Forget(Moved{all[0].Label, all[2].Label})
	require.NoError(t, l.Learn([]Element{moved}))
	require.True(t, l.Doubts(20))
	l.Decided(m)
	require.True(t, l.Doubts(20))
}

// Marks that were made before numbers begin anew do not say more than they did.
func TestManyMarks(t *testing.T) {
	r := DefaultRules()
	all, err := r.Spread([]int64{10, 20, 30, 40})
	require.NoError(t, err)
	l := NewList(r, 0)
	l.Doubt()
	require.NoError(t, l.Learn(all[:1]))
	first := l.Mark()
	l.Decided(first)
	require.NoError(t, l.Learn(all[1:2]))
	var late Mark
	for range 1<<16 - 3 {
		late = l.Mark()
	}
	require.NoError(t, l.Learn(all[2:3]))
	last := l.Mark() // of the last number
	require.NoError(t, l.Learn(all[3:]))
	for i, doubts := range []bool{false, true, true, true} {
		require.Equal(t, doubts, l.Doubts(all[i].Value))
	}
	l.Decided(first)
	l.Decided(late) // which has 20, but what had that number is not known any more
	require.True(t, l.Doubts(30))
	l.Decided(last)
	for i, doubts := range []bool{false, false, false, true} {
		require.Equal(t, doubts, l.Doubts(all[i].Value))
	}
	l.Decided(l.Mark())
	require.False(t, l.Doubts(40))
}
