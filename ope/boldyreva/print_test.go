package boldyreva

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Logs and messages print what a program has at hand: neither the shift nor what a scheme remembers of plaintexts is for them.
func TestSchemesPrintTheirID(t *testing.T) {
	linear, err := New(vectorKey(t), ope.Int64, nil)
	require.NoError(t, err)
	modular, err := NewModular(vectorKey(t), ope.Int64, nil)
	require.NoError(t, err)
	text := newText(t, 32)
	text.Encrypt([]byte("a plaintext that others begin with"))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q", "%t"} {
		require.Equal(t, linear.ID(), fmt.Sprintf(verb, linear))
		require.Equal(t, linear.ID(), fmt.Sprintf(verb, *linear))
		require.Equal(t, modular.ID(), fmt.Sprintf(verb, modular))
		require.Equal(t, modular.ID(), fmt.Sprintf(verb, *modular))
		require.Equal(t, text.ID(), fmt.Sprintf(verb, text))
		require.Empty(t, fmt.Sprintf(verb, new(Scheme)))
	}
	require.Equal(t, "<nil>", fmt.Sprint((*ModularScheme)(nil)))
}
