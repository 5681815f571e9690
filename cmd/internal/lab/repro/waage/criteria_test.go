package waage

import (
	"context"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/leakage"
)

func TestCriteria(t *testing.T) {
	ctx := context.Background()
	cfg := experiment.Config{Seed: 3, Quick: true}
	at := map[string]properties{}
	for _, v := range variants {
		p, err := observe(ctx, cfg, v, 2)
		require.NoError(t, err, v.name)
		at[v.name] = p
		require.NotEqual(t, p.immutable, p.mutable, v.name)
		require.True(t, p.floats, v.name)
		require.InDelta(t, 0.75, p.ranked, 0.2, "%s: the order alone", v.name)
	}
	m, keyed, indexed, published, local := at[mope], at[wozniakKeyed], at[wozniakIndexed], at[kerschbaumPublished], at[kerschbaumLocal]
	require.True(t, m.immutable && keyed.immutable && indexed.immutable)
	require.True(t, !m.linear && keyed.linear && indexed.linear)
	require.True(t, m.appends && keyed.appends && !indexed.appends && !local.appends)
	require.Equal(t, []int{0, 0, 0, 0}, []int{m.moved, keyed.moved, indexed.moved, local.moved})
	require.Greater(t, published.moved, criteriaValues/2, "sorted input is its worst case")
	require.Equal(t, []float64{0, 0}, []float64{m.commits, keyed.commits})
	require.InDelta(t, 1, indexed.commits, 0.01)
	require.InDelta(t, 1, local.commits, 0.01)
	require.Equal(t, []int{2, 1, 1, 1, 1}, []int{m.intervals, keyed.intervals, indexed.intervals, published.intervals, local.intervals})
	require.Zero(t, m.trips+keyed.trips)
	require.Positive(t, min(indexed.trips, published.trips, local.trips))
	require.Equal(t, []string{"int64"}, published.refused, "labels of 129 bits")
	require.Empty(t, append(append(m.refused, indexed.refused...), local.refused...))
	require.Equal(t, 1.0, m.known, "the upper bits of a random order-preserving function")
	require.Less(t, max(keyed.scaled, indexed.scaled, local.scaled), 0.25)
	require.Zero(t, keyed.traced)
	require.InDelta(t, 0.012, local.traced, 0.005)
	require.InDelta(t, 0.012, published.traced, 0.005)
}

func TestCriteriaTable(t *testing.T) {
	cfg := experiment.Config{Seed: 3, Quick: true}
	r, err := criteriaTable(context.Background(), cfg)
	require.NoError(t, err)
	require.Len(t, r.Table.Rows, len(criteria)*len(variants))
	reprotest.WellFormed(t, r)
	for _, row := range r.Table.Rows {
		for _, cell := range row {
			require.NotEmpty(t, cell.Text)
		}
	}
	require.Equal(t, "+--?--", reprotest.Marks(r.Findings))

	// Each scheme of the paper's table is measured or told to be not built, and no line of it is too wide for a terminal.
	papers := map[string]bool{}
	for _, v := range variants {
		papers[v.paper] = true
	}
	for _, row := range r.More.Rows {
		require.Len(t, row, len(r.More.Columns))
		require.NotContains(t, papers, row[0].Text)
		papers[row[0].Text] = true
		require.LessOrEqual(t, len(row[3].Text), 44)
	}
	require.Len(t, papers, 8)

	for range 2 {
		p, err := observe(context.Background(), cfg, variants[0], criteriaQuickKeys)
		require.NoError(t, err)
		last := r.Table.Rows[len(r.Table.Rows)-len(variants)]
		require.Equal(t, p.security(), last[2], "a seed gives one table")
	}
}

// What was not seen is not said: a scheme with other properties gets other words.
func TestCriteriaWords(t *testing.T) {
	p := properties{mutable: true, moved: 7, commits: 1.25, intervals: 3, trips: 2, refused: []string{"int64"}, scaled: 0.5, ranked: 0.25, traced: 0.125}
	require.Equal(t, "mutable; sorted input moved 7", p.mutability().Text)
	require.Equal(t, "index; 1.2 commits a value", p.structures().Text)
	require.Equal(t, "client only; 3 comparisons, 2.0 trips", p.components().Text)
	require.Equal(t, "integers, no int64", p.input().Text)
	require.Equal(t, "scaling 50 %, rank 25 %, trace 12.5 %", p.security().Text)
	require.Equal(t, "contradictory", properties{immutable: true, mutable: true}.mutability().Text)
	require.Equal(t, "none", properties{}.structures().Text)
}

func TestTurnBack(t *testing.T) {
	column := []ope.Ciphertext{{0x0f, 0xff}, {0x00, 0x00}, {0x08, 0x00}}
	require.Equal(t, []ope.Ciphertext{{0x07, 0xff}, {0x08, 0x00}, {0x00, 0x00}}, turnBack(column, ope.Ciphertext{0x08, 0x00}, 12))
}

func TestTraceFollowsTheRule(t *testing.T) {
	// Ascending insertion at midpoints of 41 bits: each value is the child of the one before.
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), 41)
	var labels []ope.Ciphertext
	for range 10 {
		label, _, _ := leakage.Midpoint(low, high, struct{}{})
		labels = append(labels, label.FillBytes(make([]byte, labelSize)))
		low = label
	}
	require.Equal(t, []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8}, trace(labels, 41))

	for id, want := range map[string]int{"wozniak/1 domain=[0,1] range=84": 84, "kerschbaum/1 domain=[0,1]": 0, "kerschbaum-published/1 domain=[0,1] lambda=2": 41} {
		got, err := rangeBits(id)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
