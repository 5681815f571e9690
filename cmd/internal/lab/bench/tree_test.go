package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestTree(t *testing.T) {
	for _, name := range []string{"int8", "int32", "int64", "uint16"} {
		source, err := values.Generate("uniform", 1500, 1, name, "")
		require.NoError(t, err)
		db := drivertest.NewMemory()
		report, err := Run(ctx, openStore(t, db), Config{
			Source: source, Schemes: []string{benchtable.Plain, "mope"}, Queries: 21, Selectivities: []float64{0.01, 0.2}, Batch: 10, Writers: 3, Seed: 4,
			Trees: map[string]string{Tree: "tree", TreeUncached: "other"},
		})
		require.NoError(t, err)
		require.Len(t, report.Results, 4)
		for i, name := range []string{Tree, TreeUncached} {
			tree := report.Results[2+i]
			require.Equal(t, benchtable.Target{Scheme: name, Layout: benchtable.LayoutKey}, tree.Target)
			require.Equal(t, 21, tree.Verified)
			require.True(t, tree.Whole)
			require.GreaterOrEqual(t, tree.Insert.Ratio.Pairs, minPairs, "beside plain")
			require.Equal(t, 21, tree.Query.Ratio.Pairs)
			require.Greater(t, tree.StoredBytes, 24.0, "a value and a row id at least")
			require.Less(t, tree.StoredBytes, 60.0, "however often a node was put")
		}
		families, err := db.Families(ctx)
		require.NoError(t, err)
		require.Subset(t, families, []string{"tree", "other"}, "who named them drops them")
	}
}
