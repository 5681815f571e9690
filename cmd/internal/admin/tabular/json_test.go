package tabular

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Half of a surrogate pair is refused, and the sign that stands for one elsewhere is none, also where escaped backslashes look like escapes.
func TestHalvesOfPairs(t *testing.T) {
	for in, want := range map[string]string{
		`"\ufffd"`: "\ufffd", `"\uFFFD \\ufffd"`: "\ufffd \\ufffd", "\"\ufffd \\\\\\ufffd\"": "\ufffd \\\ufffd", `"\ud83d\ude00"`: "\U0001f600", `"\\ud800"`: `\ud800`,
	} {
		text, err := unescaped([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, text, in)
	}
	for _, in := range []string{`"\ud800"`, `"\\ufffd \ud800"`, `"\ufffd \udfff"`, `"\\\\ufffd \ud800"`} {
		_, err := unescaped([]byte(in))
		require.ErrorContains(t, err, "half of a surrogate pair", in)
	}
}
