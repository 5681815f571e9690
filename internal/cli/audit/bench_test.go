package audit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

// What an audit of 10^5 values takes, all schemes and adversaries.
func BenchmarkAudit100000(b *testing.B) {
	source, err := values.Generate("normal", 100_000, 1, "", "")
	require.NoError(b, err)
	cfg := Config{Kind: source.Kind(), Domain: source.Kind().Domain, Values: valuesOf(b, source), Schemes: Schemes(), Trials: MinTrials, Known: 10}
	cfg.Dist, err = ParseDist("normal:0,134217728", cfg.Kind, cfg.Domain)
	require.NoError(b, err)
	for b.Loop() {
		_, err := Run(context.Background(), cfg)
		require.NoError(b, err)
	}
}

func valuesOf(tb testing.TB, source values.Source) []int64 {
	var values []int64
	for x, err := range source.Values() {
		require.NoError(tb, err)
		values = append(values, x)
	}
	return values
}
