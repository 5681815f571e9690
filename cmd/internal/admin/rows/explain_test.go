package rows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// An estimate has no more digits than it is good for, and a guess is called one.
func TestEstimateInWords(t *testing.T) {
	for text, e := range map[string]inspect.Estimate{
		"0":                                 {Exact: true},
		"4,096":                             {Rows: 4096, AtLeast: 4096, Exact: true},
		"about 340,000":                     {Rows: 336_776, AtLeast: 4097},
		"about 10,000":                      {Rows: 9_960, AtLeast: 4097},
		"at least 4,097, perhaps 26,000":    {Rows: 26_499, AtLeast: 4097, Rough: true},
		"at least 4,097":                    {Rows: 4097, AtLeast: 4097, Rough: true},
		"about 4,500":                       {Rows: 4_460, AtLeast: 4097},
		"at least 5,049, perhaps 5,000,000": {Rows: 5_040_000, AtLeast: 5049, Rough: true},
	} {
		require.Equal(t, text, estimate(e))
	}
}
