package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPackagesAreNamedOnce(t *testing.T) {
	for text, want := range map[string]string{
		`store: table "t": store: no such table`:                  `store: table "t": no such table`,
		"after 5 rows: store: query: driver: bad: store: changed": "after 5 rows: store: query: driver: bad: changed",
		"store: x: store: y: store: z":                            "store: x: y: z",
		"store: a\n  b: store: c":                                 "store: a\n  b: store: c",
		"no such file":                                            "no such file",
	} {
		require.Equal(t, want, once(text))
	}
}
