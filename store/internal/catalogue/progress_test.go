package catalogue

import (
	"encoding/json"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A progress is continued by one of the same round only.
func TestProgress(t *testing.T) {
	p := Progress{Round: 2, Target: 5, Parts: []bool{true, false, true}}
	require.Equal(t, 2, p.Done())
	require.True(t, p.Continues(Progress{Round: 2, Target: 5, Parts: make([]bool, 3)}))
	for _, other := range []Progress{
		{Round: 1, Target: 5, Parts: p.Parts}, {Round: 2, Target: 6, Parts: p.Parts}, {Round: 2, Target: 5, Parts: p.Parts[:2]},
	} {
		require.False(t, p.Continues(other))
	}
}

// Whatever parts are done, of whatever numbers of parts: a part is done if no place of it is outside of those, by exact fractions.
func TestProgressByContainment(t *testing.T) {
	numbers := rapid.OneOf(rapid.SampledFrom([]int{1, 2, 3, 7, 64, 100, 128}), rapid.IntRange(1, 5000), rapid.SampledFrom([]int{driver.MaxParts, driver.MaxParts - 1}))
	rapid.Check(t, func(t *rapid.T) {
		type part struct{ i, of int }
		draw := func(name string, of int) part { return part{rapid.IntRange(0, of-1).Draw(t, name), of} }
		ratio := func(i, of int) *big.Rat { return big.NewRat(int64(i), int64(of)) }
		p := Progress{Round: 1, Target: 1, Parts: make([]bool, rapid.SampledFrom([]int{1, 3, ProgressParts}).Draw(t, "parts"))}
		var done []part
		few := []int{numbers.Draw(t, "of"), numbers.Draw(t, "of"), len(p.Parts)}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			one := draw("done", rapid.SampledFrom(few).Draw(t, "of"))
			done = append(done, one)
			before := p
			parts := slices.Clone(p.Parts)
			p = p.With(SpanOf(one.i, one.of))
			require.Equal(t, parts, before.Parts, "what it was made of is as it was")
		}
		// holds goes from the lower bound of a part over those that are done, as far as they lead.
		holds := func(one part) bool {
			at, end := ratio(one.i, one.of), ratio(one.i+1, one.of)
			for moved := true; moved && at.Cmp(end) < 0; {
				moved = false
				for _, d := range done {
					if ratio(d.i, d.of).Cmp(at) <= 0 && ratio(d.i+1, d.of).Cmp(at) > 0 {
						at, moved = ratio(d.i+1, d.of), true
					}
				}
			}
			return at.Cmp(end) >= 0
		}
		for range 10 {
			one := draw("asked", rapid.SampledFrom(append(few, numbers.Draw(t, "of"))).Draw(t, "of"))
			require.Equal(t, holds(one), p.Has(SpanOf(one.i, one.of)), "%v", one)
		}
		of := rapid.SampledFrom(append(few, 1, 7, 100)).Draw(t, "of")
		for i, is := range p.DoneOf(min(of, 5000)) {
			require.Equal(t, p.Has(SpanOf(i, min(of, 5000))), is)
		}
		require.Equal(t, p.Has(SpanOf(0, 1)), p.Done() == len(p.Parts), "an older program looks at the parts alone")
		for i, is := range p.Parts {
			require.Equal(t, p.Has(SpanOf(i, len(p.Parts))), is)
		}
		// What is stored is in its order, apart, and says nothing twice.
		for i, s := range p.Spans {
			require.Less(t, s[0], s[1])
			require.True(t, i == 0 || p.Spans[i-1][1] < s[0])
			for j, is := range p.Parts {
				part := SpanOf(j, len(p.Parts))
				require.False(t, is && s[0] < part[1] && part[0] < s[1])
			}
		}
		b, err := json.Marshal(p)
		require.NoError(t, err)
		var read Progress
		require.NoError(t, json.Unmarshal(b, &read))
		require.Equal(t, p, read)
	})
}
