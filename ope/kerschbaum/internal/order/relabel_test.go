package order

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var allCounts = flag.Bool("counts", false, "also run the counts that take minutes")

// An owner is the only client of an index, whose list is the index.
type owner struct {
	rules Rules
	most  int
	list  *List
	relabelCounts
}

type relabelCounts struct{ relabels, passes, moved, largest int }

func (c relabelCounts) String() string {
	return fmt.Sprintf("%d relabellings, %d passes, %d moves, %d the most at once", c.relabels, c.passes, c.moved, c.largest)
}

func newOwner(r Rules, most int) *owner {
	o := &owner{rules: r, most: most, list: NewList(r, 0)}
	low, high := Element{}, r.High()
	if err := o.list.Learn([]Element{low, high}); err != nil {
		panic(err)
	}
	return o
}

func (o *owner) insert(x int64) error {
	g := o.list.Gap(x)
	e, ok, err := o.rules.Place(g.Left, g.Right)
	if err != nil {
		return err
	}
	if !ok {
		return o.relabel(x)
	}
	e.Value = x
	return o.list.Insert(e)
}

// relabel makes room for x and inserts it.
func (o *owner) relabel(x int64) error {
	below, above := 32, 32
	for {
		window, gap := o.list.window(x, below, above)
		move, advice, err := o.rules.Relabel(window, gap, o.most)
		if err != nil {
			return err
		}
		switch advice {
		case AdviseLower:
			below *= 2
		case AdviseUpper:
			above *= 2
		case AdviseCommit:
			move.Elements[gap-move.From].Value = x
			o.count(window[move.From:move.To], move.Elements)
			o.relabels++
			return o.list.Learn(slices.Concat(window[move.From-1:move.From], move.Elements, window[move.To:move.To+1]))
		case AdvisePass:
			old, values := o.elements(), []int64{x}
			for _, e := range old {
				values = append(values, e.Value)
			}
			slices.Sort(values)
			fresh, err := o.rules.Spread(values)
			if err != nil {
				return err
			}
			o.passes++
			o.count(old, fresh)
			low, high := Element{}, o.rules.High()
			return o.list.Learn(slices.Concat([]Element{low}, fresh, []Element{high}))
		}
	}
}

func (o *owner) elements() []Element {
	out := make([]Element, 0, o.list.Len())
	for e := range o.list.all(math.MinInt64) {
		out = append(out, e)
	}
	return out
}

func (o *owner) count(old, fresh []Element) {
	labels := make(map[int64]Label, len(fresh))
	for _, e := range fresh {
		labels[e.Value] = e.Label
	}
	n := 0
	for _, e := range old {
		if labels[e.Value] != e.Label || o.rules.Published { // the paper counts what is re-encrypted
			n++
		}
	}
	o.moved += n
	o.largest = max(o.largest, n)
}

// run inserts values in an order, and returns the owner of the index.
func run(tb testing.TB, r Rules, most int, values []int64) *owner {
	o := newOwner(r, most)
	for _, x := range values {
		require.NoError(tb, o.insert(x))
	}
	return o
}

// Nothing moves, other than for what cannot be predicted; there, a few elements an insertion.
func TestMoves(t *testing.T) {
	n := 20_000
	if *allCounts {
		n = 1_000_000
	}
	for _, a := range arrival.All {
		values := a.Of(t, n)
		o := run(t, DefaultRules(), 0, values)
		slices.Sort(values)
		requireSound(t, o, values)
		t.Logf("%-10s %v, %.4f moves an insertion", a.Name, o.relabelCounts, float64(o.moved)/float64(n))
		switch {
		case a.Name == "coinflips":
			require.InDelta(t, 2.5, float64(o.moved)/float64(n), 1.5) // grows with log n
		case a.Name == "bursts" && n > 100_000: // a few gaps in 10^6 insertions are exhausted
			require.Less(t, o.moved, n/20)
		default:
			require.Zero(t, o.relabelCounts, a.Name)
		}
	}
}

// A limit on the size of a change has passes over the whole index in the place of large changes.
func TestLimitedRelabelling(t *testing.T) {
	n := 10_000
	if *allCounts {
		n = 100_000
	}
	values := arrival.Named(t, "coinflips").Of(t, n)
	o := run(t, DefaultRules(), 200, values)
	slices.Sort(values)
	requireSound(t, o, values)
	t.Logf("%v, %.4f moves an insertion", o.relabelCounts, float64(o.moved)/float64(n))
	require.NotZero(t, o.passes)
	require.Less(t, o.passes, n/1000)
	require.Greater(t, o.relabels, 10*o.passes)
}

// In less space even the predictable exhausts gaps. It then costs little, in changes that are small
// against the index.
func TestRelabellingIsLocal(t *testing.T) {
	for _, a := range arrival.All {
		o := run(t, Rules{Bits: 64}, 0, a.Of(t, 20_000))
		require.Zero(t, o.passes, a.Name)
		bound := 20_000
		if a.Name == "coinflips" {
			bound = 5 * 20_000
			require.Greater(t, o.relabels, 100)
		}
		require.Less(t, o.moved, bound, a.Name)
		requireSound(t, o, slices.Sorted(slices.Values(a.Of(t, 20_000))))
	}
}

// Asked with any window that is large enough, relabel gives one answer, and it moves no more than
// it may.
func TestRelabelDoesNotDependOnTheWindow(t *testing.T) {
	compared := 0
	for _, r := range []Rules{{Bits: 48}, {Bits: 64}} {
		for _, most := range []int{0, 3, 20, 200} {
			o := newOwner(r, most)
			for _, x := range arrival.Named(t, "coinflips").Of(t, 2000) {
				g := o.list.Gap(x)
				if _, ok, _ := o.rules.Place(g.Left, g.Right); !ok && o.list.Len() > 0 {
					window, gap := o.list.window(x, math.MaxInt, math.MaxInt)
					want, wantAdvice, err := r.Relabel(window, gap, most)
					require.NoError(t, err)
					require.Contains(t, []advice{AdviseCommit, AdvisePass}, wantAdvice)
					if most > 0 {
						require.LessOrEqual(t, want.To-want.From, most)
					}
					for margin := 1; margin < 2*len(window); margin *= 2 {
						part, partGap := o.list.window(x, margin, margin)
						got, advice, err := r.Relabel(part, partGap, most)
						require.NoError(t, err)
						switch advice {
						case AdviseLower:
							require.False(t, part[0].Label.IsZero())
						case AdviseUpper:
							require.NotZero(t, part[len(part)-1].Shape.Depth)
						default:
							require.Equal(t, wantAdvice, advice)
							require.Equal(t, want.Elements, got.Elements)
							if advice == AdviseCommit {
								require.Equal(t, want.From-gap, got.From-partGap)
							}
							compared++
						}
					}
				}
				require.NoError(t, o.insert(x))
			}
		}
	}
	require.Greater(t, compared, 1000)
}

// Why sorted values "should be avoided" (Waage et al. 2016, section 4) with the published rules: n of
// them in labels of b bits make about n^2 / 2(b - log2 n) moves.
func TestPublishedRulesRebalance(t *testing.T) {
	for _, test := range []struct {
		name           string
		n, lambda      int
		relabels, each float64 // each: moves an insertion
		full           bool
	}{
		{"random", 10_000, 2, 0, 0, false},
		{"preorder", 10_000, 2, 0, 0, false},
		{"sorted", 10_000, 2, 186, 94, false},
		{"reverse", 10_000, 2, 186, 94, true},
		{"timeseries", 10_000, 2, 23, 11.7, false},
		{"random", 100_000, 2, 0, 0, true},
		{"preorder", 100_000, 2, 0, 0, true},
		{"sorted", 100_000, 2, 1989, 1009, true},
		{"sorted", 100_000, 3, 1215, 613, true},
		{"reverse", 100_000, 2, 2029, 1030, true},
		{"timeseries", 100_000, 2, 258, 131, true},
		{"bursts", 100_000, 2, 1959, 993, true},
		{"zigzag", 100_000, 2, 2012, 1023, true},
		{"coinflips", 100_000, 2, 2012, 1023, true},
	} {
		if test.full && !*allCounts {
			continue
		}
		r, err := PublishedRules(ope.Int32, test.lambda)
		require.NoError(t, err)
		o := run(t, r, 0, arrival.Named(t, test.name).Of(t, test.n))
		each := float64(o.moved) / float64(test.n)
		t.Logf("%-10s n %6d lambda %d: %d rebalances, %.1f moves an insertion", test.name, test.n, test.lambda, o.relabels, each)
		if test.relabels == 0 {
			require.Zero(t, o.relabels)
			continue
		}
		require.InEpsilon(t, test.relabels, o.relabels, 0.05, test.name)
		require.InEpsilon(t, test.each, each, 0.05, test.name)
	}
	// A sorted column exhausts the space when it has as many values as the space has bits.
	r, err := PublishedRules(ope.Int32, 2)
	require.NoError(t, err)
	require.Zero(t, run(t, r, 0, arrival.Named(t, "sorted").Of(t, 65)).relabels)
	require.Equal(t, 1, run(t, r, 0, arrival.Named(t, "sorted").Of(t, 66)).relabels)
}

// transcript is everything that a server sees of an order of insertions: labels, shapes and moves,
// after each.
func transcript(t require.TestingT, r Rules, most int, values []int64) (out []string) {
	o := newOwner(r, most)
	for _, x := range values {
		before := o.relabelCounts
		err := o.insert(x)
		line := fmt.Sprint(err, before, o.relabelCounts)
		e, _ := o.list.Find(x)
		if o.relabelCounts == before {
			line += fmt.Sprint(e.Label, e.Shape)
		} else {
			for _, e := range o.elements() {
				line += fmt.Sprint(e.Label, e.Shape)
			}
		}
		out = append(out, line)
		if err != nil {
			break
		}
	}
	return out
}

// IND-OCPA (Kerschbaum and Schröpfer, CCS 2014, section 4): two sequences of values with the same
// order pattern have the same transcript, whatever their distances.
func TestOnlyTheOrderIsSeen(t *testing.T) {
	check := func(t require.TestingT, ranks []int64, values []int64) { // values[i] is that of rank i
		renamed := make([]int64, len(ranks))
		for i, rank := range ranks {
			renamed[i] = values[rank]
		}
		for _, r := range []Rules{{Bits: 12}, {Bits: 32}, {Bits: 128}, {Bits: 17, Published: true}} {
			for _, most := range []int{0, 10} {
				require.Equal(t, transcript(t, r, most, ranks), transcript(t, r, most, renamed))
			}
		}
	}
	// The most different distances: neighbouring integers against those at the ends of the type
	// and doubling ones.
	const n = 60
	values := make([]int64, n)
	for i := range values {
		switch {
		case i < 5:
			values[i] = math.MinInt64 + int64(i)
		case i >= n-5:
			values[i] = math.MaxInt64 - int64(n-1-i)
		default:
			values[i] = 1 << i
		}
	}
	require.True(t, slices.IsSorted(values))
	for _, a := range arrival.All {
		sequence := a.Of(t, n)
		sorted := slices.Sorted(slices.Values(sequence))
		ranks := make([]int64, n)
		for i, x := range sequence {
			rank, _ := slices.BinarySearch(sorted, x)
			ranks[i] = int64(rank)
		}
		check(t, ranks, values)
		check(t, ranks, sorted)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		ranks := rapid.Permutation(arrival.OutsideIn(n, func(int) bool { return true })).Draw(t, "order")
		values := rapid.SliceOfNDistinct(rapid.Int64(), n, n, rapid.ID).Draw(t, "values")
		slices.Sort(values)
		check(t, ranks, values)
	})
	// It does tell orders apart, or the test could not fail.
	require.NotEqual(t, transcript(t, DefaultRules(), 0, []int64{1, 2, 3}), transcript(t, DefaultRules(), 0, []int64{1, 3, 2}))
}
