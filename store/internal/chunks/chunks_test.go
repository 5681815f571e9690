package chunks_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
)

// A batch ends with FullBatch rows, or with the row that brings it to FullBytes; no row is left out.
func TestBatchesAreBounded(t *testing.T) {
	ctx := t.Context()
	f, err := drivertest.NewMemory().Family(ctx, driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	sizes := func(i int) int {
		if i >= 600 && i < 620 {
			return 1 << 20
		}
		return 10
	}
	const rows = 700
	for i := range rows {
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: fmt.Appendf(nil, "%04d", i), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: make([]byte, sizes(i))}}}))
	}
	n := 0
	require.NoError(t, chunks.InBatches(ctx, f, driver.Range{}, func(batch []driver.Row) error {
		bytes := 0
		for i, row := range batch {
			require.Equal(t, fmt.Sprintf("%04d", n+i), string(row.Key))
			if bytes += chunks.SizeOf(row); i < len(batch)-1 {
				require.Less(t, bytes, rowsize.Enough)
			}
		}
		require.LessOrEqual(t, len(batch), chunks.FullBatch)
		if len(batch) < chunks.FullBatch && n+len(batch) < rows {
			require.GreaterOrEqual(t, bytes, rowsize.Enough)
		}
		n += len(batch)
		return nil
	}))
	require.Equal(t, rows, n)
}
