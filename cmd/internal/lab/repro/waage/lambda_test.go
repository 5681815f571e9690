package waage

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/stretchr/testify/require"
)

func TestLambdaPasses(t *testing.T) {
	r, err := lambdaPasses(context.Background(), experiment.Config{Seed: 1, Quick: true})
	require.NoError(t, err)
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	require.Len(t, r.Curves, len(rooms)*len(lambdaOrders))
	require.Len(t, r.Table.Rows, len(r.Curves))
	counts := make(map[string]string) // runs, those with a pass, passes, moved
	for i, row := range r.Table.Rows {
		name := fmt.Sprintf("%s, lambda %s, %s", row[0].Text, row[1].Text, row[2].Text)
		require.Equal(t, name, r.Curves[i].Name)
		require.Len(t, r.Curves[i].Points, lambdaSteps)
		last := 0.0
		for j, p := range r.Curves[i].Points {
			require.Equal(t, float64((j+1)*lambdaQuickStep), p.X)
			require.GreaterOrEqual(t, p.Y, last, "passes are since the first value")
			last = p.Y
		}
		require.InDelta(t, *row[6].Number / *row[4].Number, last, 1e-12)
		counts[name] = fmt.Sprintf("%s %s %s %s", row[4].Text, row[5].Text, row[6].Text, row[7].Text)
	}
	// Ascending values take a bit of the label each, less those of the values that lie there: the longer the label, the fewer passes.
	for name, want := range map[string]string{
		"int32, lambda 2, best": "1 0 0 0", "int32, lambda 2, average": "3 0 0 0", "int32, lambda 2, worst": "1 1 17 8,908",
		"int32, lambda 3, worst": "1 1 11 5,976", "20 bits, lambda 2, worst": "1 1 30 15,755", "20 bits, lambda 3, worst": "1 1 18 9,283",
		"20 bits, lambda 6.3, average": "3 0 0 0", "20 bits, lambda 6.3, worst": "1 1 8 4,355",
		"16 bits, lambda 2, average": "3 0 0 0", "16 bits, lambda 2, worst": "1 1 39 20,140", "16 bits, lambda 3, worst": "1 1 24 12,596",
	} {
		require.Equal(t, want, counts[name], name)
	}
	require.Equal(t, "+++", reprotest.Marks(r.Findings))

	_, err = lambdaPasses(reprotest.Ended(), experiment.Config{Seed: 1, Quick: true})
	require.ErrorIs(t, err, context.Canceled)
}

func TestRooms(t *testing.T) {
	var bits []int
	for _, r := range rooms {
		bits = append(bits, r.labelBits())
		require.Equal(t, r.domain.Min, r.value(math.MinInt32))
		top := r.value(math.MaxInt32)
		require.LessOrEqual(t, top, r.domain.Max)
		require.Equal(t, float64(r.bits), math.Log2(float64(top-r.domain.Min)+1), "values have these bits")
		require.LessOrEqual(t, r.value(-1), r.value(0))
	}
	require.Equal(t, []int{65, 97, 41, 61, 127, 33, 49}, bits)
	require.Equal(t, 6.3, float64(bits[4]-1)/narrowBits)
	require.Greater(t, paperLambda*(narrowBits+1), 127.0, "with another bit there is no room for it")

	// A label of so many bits has room for as many ascending values, and none for the next one.
	for _, n := range []int{60, 70} {
		_, values, err := uniform(n, 1, "int32", "sorted")
		require.NoError(t, err)
		p := &passing{room: rooms[0], passes: make([]int, lambdaSteps)}
		require.NoError(t, p.count(context.Background(), values))
		require.Equal(t, map[int]int{60: 0, 70: 1}[n], p.total(), "%d values in labels of 65 bits", n)
		require.Equal(t, map[int]int{60: 0, 70: 65}[n], p.moved)
		require.Equal(t, map[int]int{60: 0, 70: 1}[n], p.with)
	}
}

func TestLambdaFindings(t *testing.T) {
	// verdicts makes up counts: all worst cases have passes, and what is named has others.
	verdicts := func(passes map[string]int) string {
		var all passings
		for _, r := range rooms {
			for _, o := range lambdaOrders {
				p := &passing{room: r, order: o.name, runs: 20, passes: make([]int, lambdaSteps)}
				n, given := passes[r.name()+", "+o.name]
				if o.name == worstOrder && !given {
					n = 100
				}
				p.passes[lambdaSteps-1], p.with = n, min(n, 20)
				all = append(all, p)
			}
		}
		return reprotest.Marks(lambdaFindings(all, "20,000"))
	}
	require.Equal(t, "+++", verdicts(nil))
	require.Equal(t, "+++", verdicts(map[string]int{"16 bits, lambda 2, average": 7}), "sometimes 2")
	require.Equal(t, "-++", verdicts(map[string]int{"16 bits, lambda 3, average": 1}))
	require.Equal(t, "-++", verdicts(map[string]int{"int32, lambda 3, best": 1}))
	require.Equal(t, "+-+", verdicts(map[string]int{"20 bits, lambda 6.3, average": 1}))
	require.Equal(t, "++-", verdicts(map[string]int{"20 bits, lambda 6.3, worst": 0}))
}
