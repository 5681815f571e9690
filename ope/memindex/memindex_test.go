package memindex_test

import (
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

func TestIndex(t *testing.T) {
	opetest.TestIndex(t, func(testing.TB) ope.Index { return memindex.New() })
}

func TestIndexIsStrict(t *testing.T) {
	ix, ctx := memindex.New(), t.Context()
	commit := func(state ope.State, change ope.Change) (bool, error) {
		return ix.Commit(ctx, "u", ope.Condition{State: state}, change)
	}
	_, err := ix.Read(ctx, ope.Unit(strings.Repeat("u", 65)), nil, nil, 0)
	require.Error(t, err)
	a := ope.Record{Key: []byte("a")}
	_, err = commit(ope.StateAbsent, ope.Change{Puts: []ope.Record{a, a}})
	require.Error(t, err)
	_, err = commit(ope.StateAbsent, ope.Change{Puts: []ope.Record{a}, Deletes: [][]byte{a.Key}})
	require.Error(t, err)
	applied, err := commit(ope.StateAbsent, ope.Change{Meta: ope.Meta{State: ope.StateSealed}})
	require.NoError(t, err)
	require.True(t, applied)
	_, err = commit(ope.StateSealed, ope.Change{Meta: ope.Meta{State: ope.StateOpen}})
	require.Error(t, err)
	require.NotErrorIs(t, err, ope.ErrUnknownOutcome)
}
