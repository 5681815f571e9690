package kerschbaum

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// Logs and messages print what a program has at hand: the edges of units, which are plaintexts, are not for them.
func TestSchemesPrintTheirID(t *testing.T) {
	s, err := New(ope.GenerateKey(), ope.Int64, memindex.New(), nil)
	require.NoError(t, err)
	ranked, err := NewRanked(ope.GenerateKey(), ope.Int64, memindex.New(), nil)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q", "%t"} {
		require.Equal(t, s.ID(), fmt.Sprintf(verb, s))
		require.Equal(t, s.ID(), fmt.Sprintf(verb, *s))
		require.Equal(t, ranked.ID(), fmt.Sprintf(verb, ranked))
		require.Empty(t, fmt.Sprintf(verb, new(Scheme)))
		require.Empty(t, fmt.Sprintf(verb, new(Ranked)))
	}
}
