package migrate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Of large rows few are copied, compared and sampled together.
func TestFewLargeRowsAreCopiedTogether(t *testing.T) {
	const rows = 90
	ctx, st := t.Context(), opened(t, drivertest.NewMemory())
	schema := store.Schema{Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("text", store.String)}}
	schema.Name = "from"
	from, err := st.Create(ctx, schema)
	require.NoError(t, err)
	schema.Name = "into"
	_, err = st.Create(ctx, schema)
	require.NoError(t, err)
	text := strings.Repeat("x", 1<<19)
	for i := range int64(rows) {
		require.NoError(t, from.Put(ctx, store.Row{"id": i, "text": text}))
	}
	source, err := FromTable(ctx, st, "from")
	require.NoError(t, err)
	m, err := Open(ctx, st, "into", source)
	require.NoError(t, err)
	plan, err := m.Prepare(ctx, false)
	require.NoError(t, err)
	require.Equal(t, 64, plan.Sampled, "which have 32 MiB")

	largest, last := 0, 0
	noted := &PassOptions{Progress: func(n int) { largest, last = max(largest, n-last), n }}
	done, err := m.Copy(ctx, whole, noted)
	require.NoError(t, err)
	require.Equal(t, Counts{Copied: rows}, done.Rows)
	require.Equal(t, 8, largest, "which have 4 MiB")
	last = 0
	done, err = m.Verify(ctx, whole, noted)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: rows}, done.Rows)
}
