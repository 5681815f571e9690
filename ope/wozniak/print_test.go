package wozniak

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// Logs and messages print what a program has at hand: what a scheme remembers is not for them.
func TestSchemesPrintTheirID(t *testing.T) {
	keyed, err := New(ope.GenerateKey(), ope.Int64, nil)
	require.NoError(t, err)
	indexed, err := NewIndexed(ope.GenerateKey(), ope.Int64, memindex.New(), "unit", nil)
	require.NoError(t, err)
	_, err = indexed.Encrypt(t.Context(), 7700770077)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q", "%t"} {
		require.Equal(t, keyed.ID(), fmt.Sprintf(verb, keyed))
		require.Equal(t, keyed.ID(), fmt.Sprintf(verb, *keyed))
		require.Equal(t, indexed.ID(), fmt.Sprintf(verb, indexed))
		require.Empty(t, fmt.Sprintf(verb, new(Indexed)))
	}
}
