package order

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func (a Label) big() *big.Int { return new(big.Int).SetBytes(a.Bytes()) }

// anyLabel draws labels of all lengths, and those where carries happen.
var anyLabel = rapid.Custom(func(t *rapid.T) Label {
	word := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 2, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}))
	return Label{word.Draw(t, "hi"), word.Draw(t, "lo")}
})

func TestLabelsCalculate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyLabel.Draw(t, "a"), anyLabel.Draw(t, "b")
		d := rapid.Uint64Range(1, math.MaxUint64).Draw(t, "d")
		n := rapid.UintRange(0, 63).Draw(t, "n")
		modulus := new(big.Int).Lsh(big.NewInt(1), 128)
		require.Equal(t, new(big.Int).Mod(new(big.Int).Add(a.big(), b.big()), modulus).String(), a.Plus(b).big().String())
		require.Equal(t, new(big.Int).Mod(new(big.Int).Sub(a.big(), b.big()), modulus).String(), a.Minus(b).big().String())
		q, r := a.Over(d)
		wantQ, wantR := new(big.Int).DivMod(a.big(), new(big.Int).SetUint64(d), new(big.Int))
		require.Equal(t, wantQ.String(), q.big().String())
		require.Equal(t, wantR.Uint64(), r)
		require.Equal(t, new(big.Int).Rsh(a.big(), n).String(), a.shift(n).big().String())
		require.EqualValues(t, a.big().BitLen(), a.Length())
		require.Equal(t, a.big().Cmp(b.big()), a.Compare(b))
		require.Equal(t, a.big().Cmp(b.big()) < 0, a.Less(b))
		require.Equal(t, a.Compare(b), bytes.Compare(a.Bytes(), b.Bytes()), "bytewise order")
		back, ok := ParseLabel(a.Bytes())
		require.True(t, ok)
		require.Equal(t, a, back)
	})
	for _, n := range []int{0, 1, 8, 15, 17, 32} {
		_, ok := ParseLabel(make([]byte, n))
		require.False(t, ok, n)
	}
}

func TestProbesSplitARangeEvenly(t *testing.T) {
	check := func(t require.TestingT, from, to Label, k int) {
		out := Probes(from, to, k)
		room := new(big.Int).Sub(to.big(), from.big())
		room.Sub(room, big.NewInt(1))
		if room.Sign() < 0 {
			require.Empty(t, out)
			return
		}
		if room.IsInt64() && room.Int64() < int64(k) {
			require.EqualValues(t, room.Int64(), len(out), "every label of a small range")
		} else {
			require.Len(t, out, k)
		}
		least, most := new(big.Int), new(big.Int)
		for i, last := 0, from; i <= len(out); i++ {
			next := to
			if i < len(out) {
				next = out[i]
			}
			require.True(t, last.Less(next), "ascending, between the bounds")
			d := next.Minus(last).big()
			if i == 0 || d.Cmp(least) < 0 {
				least = d
			}
			if d.Cmp(most) > 0 {
				most = d
			}
			last = next
		}
		require.LessOrEqual(t, new(big.Int).Sub(most, least).Cmp(big.NewInt(1)), 0, "steps differ by one at most")
	}
	for to := range uint64(40) {
		for from := range uint64(40) {
			for k := 1; k < 20; k++ {
				check(t, Label{0, from}, Label{0, to}, k)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, anyLabel.Draw(t, "from"), anyLabel.Draw(t, "to"), rapid.IntRange(1, 100).Draw(t, "k"))
	})
	require.Empty(t, Probes(Label{}, Label{1, 0}, 0))
}

func TestPublishedRulesNeedRoom(t *testing.T) {
	for _, test := range []struct {
		domain ope.Domain
		lambda int
		bits   uint // 0: refused
	}{
		{ope.Int32, 2, 65}, {ope.Int32, 3, 97}, {ope.Int32, 4, 0}, {ope.Int32, 0, 0}, {ope.Int32, -1, 0},
		{ope.Int64, 1, 65}, {ope.Int64, 2, 0}, {ope.Int8, 15, 121}, {ope.Int8, 16, 0},
		{ope.Domain{Min: 5, Max: 5}, 127, 128}, {ope.Domain{Min: 5, Max: 5}, 128, 0},
		{ope.Domain{Min: -3, Max: 5}, 2, 9}, // 9 values: 4 bits
		{ope.Domain{Min: 1, Max: 0}, 2, 0}, {ope.Int32, math.MaxInt, 0},
	} {
		r, err := PublishedRules(test.domain, test.lambda)
		if test.bits == 0 {
			require.ErrorIs(t, err, ope.ErrParams, "%v", test)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.bits, r.Bits)
		low, high := Element{}, r.High()
		require.Zero(t, low)
		want := new(big.Int).Lsh(big.NewInt(1), test.bits)
		if test.bits == 128 {
			want.Sub(want, big.NewInt(1)) // the highest number that there is
		}
		require.Equal(t, want, high.Label.big())
	}
	_, err := PublishedRules(ope.Int64, 2)
	require.ErrorContains(t, err, "takes no domain of 64 bits")
	require.NotContains(t, err.Error(), "lambda", "there is none to choose")
	_, err = PublishedRules(ope.Int32, 4)
	require.ErrorContains(t, err, "choose lambda from 2 to 3")
}

// The paper: c = c_n + ceil((c_{n+1} - c_n) / 2).
func TestPublishedRulesTakeTheMiddle(t *testing.T) {
	r, err := PublishedRules(ope.Domain{Min: 0, Max: 3}, 1) // labels from 0 to 8
	require.NoError(t, err)
	o := newOwner(r, 0)
	for _, step := range []struct{ value, label int64 }{{10, 4}, {20, 6}, {30, 7}, {15, 5}} {
		require.NoError(t, o.insert(step.value))
		e, ok := o.list.Find(step.value)
		require.True(t, ok)
		require.EqualValues(t, step.label, e.Label.Lo)
	}
	require.Zero(t, o.relabelCounts)

	// No room above 7: of 10 15 20 30 the median, the third, gets the middle first.
	require.NoError(t, o.insert(40))
	require.Equal(t, relabelCounts{relabels: 1, moved: 4, largest: 4}, o.relabelCounts)
	for _, step := range []struct{ value, label int64 }{{20, 4}, {15, 2}, {10, 1}, {30, 6}, {40, 7}} {
		e, ok := o.list.Find(step.value)
		require.True(t, ok)
		require.EqualValues(t, step.label, e.Label.Lo, step.value)
	}
}

// In spaces of a power of two all gaps are even. In the largest space they are not.
func TestPublishedRulesRoundUp(t *testing.T) {
	r, err := PublishedRules(ope.Domain{Min: 0, Max: 1}, 127)
	require.NoError(t, err)
	require.Equal(t, Label{0, 2}, r.offset(Label{0, 3}, Shape{}))
	require.Equal(t, Label{0, 1}, r.offset(Label{0, 2}, Shape{}))
	low, high := Element{}, r.High()
	e, ok, err := r.Place(low, high)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Label{1 << 63, 0}, e.Label)
}

func TestTurnsAreCounted(t *testing.T) {
	s := Shape{Depth: 1} // the root
	for _, step := range []struct {
		dir  int8
		want Shape
	}{
		{+1, Shape{2, 1, 0, +1}}, {+1, Shape{3, 2, 0, +1}}, {-1, Shape{4, 1, 1, -1}}, {+1, Shape{5, 1, 2, +1}},
		{-1, Shape{6, 1, 3, -1}}, {-1, Shape{7, 2, 0, -1}}, {-1, Shape{8, 3, 0, -1}}, {+1, Shape{9, 1, 1, +1}},
	} {
		s = s.turn(step.dir)
		require.Equal(t, step.want, s)
	}
}

func TestCountersSaturate(t *testing.T) {
	const most = math.MaxUint32
	require.Equal(t, Shape{Depth: 1, Run: most, Dir: 1}, Shape{Run: most, Dir: 1}.turn(+1))
	require.Equal(t, Shape{Depth: 1, Run: 1, Alt: most, Dir: -1}, Shape{Run: 7, Alt: most, Dir: 1}.turn(-1))

	r := DefaultRules()
	low, high := Element{}, r.High()
	e := Element{Label: Label{1 << 63, 0}, Shape: Shape{Depth: 5, Run: most, Dir: 1}}
	above, ok, err := r.Place(e, high)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Shape{Depth: 6, Run: most, Dir: 1}, above.Shape)
	require.True(t, e.Label.Less(above.Label) && above.Label.Less(high.Label))

	// A depth that would saturate would make equal depths: only a pass, which counts depths again, helps.
	e.Shape.Depth = most - 2
	next, ok, err := r.Place(low, e)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, uint32(most-1), next.Shape.Depth)
	_, ok, err = r.Place(next, e)
	require.NoError(t, err)
	require.False(t, ok)
	_, advice, err := r.Relabel([]Element{low, next, e, high}, 2, 0)
	require.NoError(t, err)
	require.Equal(t, AdvisePass, advice)
}

func TestImpossibleNeighboursAreAnError(t *testing.T) {
	for _, r := range []Rules{DefaultRules(), {Bits: 65, Published: true}} {
		low, high := Element{}, r.High()
		at := func(l uint64, depth uint32) Element {
			return Element{Label: Label{0, l}, Shape: Shape{Depth: depth, Run: 1, Dir: 1}}
		}
		for name, pair := range map[string][2]Element{
			"equal depths":        {at(10, 3), at(20, 3)},
			"equal labels":        {at(10, 3), at(10, 4)},
			"descending labels":   {at(20, 3), at(10, 4)},
			"both the low end":    {low, low},
			"ends exchanged":      {high, low},
			"a value of depth 0":  {low, at(10, 0)},
			"two of depth 0":      {at(10, 0), at(20, 0)},
			"low end of depth 1":  {at(0, 1), at(10, 2)},
			"high end of depth 1": {low, {Label: high.Label, Shape: Shape{Depth: 1}}},
		} {
			_, _, err := r.Place(pair[0], pair[1])
			require.ErrorIs(t, err, ErrCorrupt, name)
			_, _, err = r.Relabel(pair[:], 1, 0)
			require.ErrorIs(t, err, ErrCorrupt, name)
			_, err = r.fill(nil, pair[0], pair[1], []int64{1, 2})
			require.ErrorIs(t, err, ErrCorrupt, name)
		}
		// Anywhere in a window labels must ascend.
		_, _, err := r.Relabel([]Element{at(30, 1), at(20, 2), at(40, 3)}, 2, 0)
		require.ErrorIs(t, err, ErrCorrupt)
	}
	_, _, err := Rules{Bits: 65, Published: true}.Place(Element{}, Element{Label: Label{math.MaxUint64, 0}, Shape: Shape{Depth: 1}})
	require.ErrorIs(t, err, ErrCorrupt, "a label above the space")
}

// requireSound checks that an owner's list is what an index of these values, ascending, must be.
func requireSound(t require.TestingT, o *owner, values []int64) {
	low, high := Element{}, o.rules.High()
	last, linked := low, o.list.linked
	n := 0
	for e, link := range o.list.all(math.MinInt64) {
		// Not by require, which takes longer than all the rest.
		if !linked || !last.Label.Less(e.Label) || e.Shape.Depth == 0 || e.Shape.Depth == last.Shape.Depth || e.Value != values[n] {
			require.FailNow(t, "index is unsound", "%v before %v, linked %v", last, e, linked)
		}
		last, linked = e, link
		n++
	}
	require.True(t, linked)
	require.True(t, last.Label.Less(high.Label))
	require.Equal(t, len(values), n)
}

// Every order of up to 6 values, or 7 with -counts, keeps its order in every small space, or is told that it is full:
// never before it must be.
func TestAllOrdersInSmallSpaces(t *testing.T) {
	relabels, passes, fulls, longest := 0, 0, 0, 6
	if *allCounts {
		longest = 7
	}
	for _, published := range []bool{false, true} {
		for width := uint(2); width <= 8; width++ {
			for n := 1; n <= longest; n++ {
				permute(n, func(order []int64) {
					o := newOwner(Rules{Bits: width, Published: published}, 0)
					for i, x := range order {
						present := slices.Sorted(slices.Values(order[:i]))
						if err := o.insert(x); err != nil {
							require.ErrorIs(t, err, ErrFull)
							// A balanced tree of h levels fits in h bits. The published procedure
							// balances before the new value comes.
							levels := bits.Len(uint(i + 1))
							if published {
								levels++
							}
							require.Greater(t, levels, int(width), "%v in %d bits", order[:i+1], width)
							requireSound(t, o, present)
							fulls++
							return
						}
						requireSound(t, o, slices.Sorted(slices.Values(order[:i+1])))
					}
					relabels += o.relabels
					passes += o.passes
				})
			}
		}
	}
	require.NotZero(t, relabels)
	require.NotZero(t, passes)
	require.NotZero(t, fulls)
}

// permute calls yield with all orders of 0 to n-1.
func permute(n int, yield func([]int64)) {
	order := make([]int64, n)
	for i := range order {
		order[i] = int64(i)
	}
	var walk func(k int)
	walk = func(k int) {
		if k == n {
			yield(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			walk(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	walk(0)
}

// The first labels of four orders, worked out by hand, in units of 2^122.
func TestPlacesDoNotChange(t *testing.T) {
	for _, test := range []struct {
		order  []int64
		labels []uint64
	}{
		{[]int64{1}, []uint64{32}},
		{[]int64{2, 1, 3}, []uint64{32, 16, 48}},
		{[]int64{1, 2, 3, 4, 5}, []uint64{32, 48, 56, 60, 61}}, // the fifth after four turns: a third of 4
		{[]int64{5, 4, 3, 2, 1}, []uint64{32, 16, 8, 4, 2}},
	} {
		o := newOwner(DefaultRules(), 0)
		for i, x := range test.order {
			require.NoError(t, o.insert(x))
			e, _ := o.list.Find(x)
			require.Equal(t, test.labels[i], e.Label.Plus(Label{0, 1}).Hi>>58, "%v", test.order[:i+1])
		}
	}

	// Of everything that relabelling and passes do, too.
	hash := sha256.New()
	for _, width := range []uint{24, 48, 128} {
		for _, a := range arrival.All {
			o := newOwner(Rules{Bits: width}, 50)
			for _, x := range a.Of(t, 1000) {
				require.NoError(t, o.insert(x))
			}
			for e := range o.list.all(math.MinInt64) {
				fmt.Fprintf(hash, "%x %v\n", e.Label.Bytes(), e.Shape)
			}
		}
	}
	require.Equal(t, "2b87d2c397f2876026b9ec10d65f6af8c047376c0078d3eb71656770b5b58010", hex.EncodeToString(hash.Sum(nil)))
}

func TestSpreadIsTheBalancedTree(t *testing.T) {
	for _, r := range []Rules{DefaultRules(), {Bits: 97, Published: true}} {
		for _, n := range []int{0, 1, 2, 3, 7, 8, 100, 1023, 1024, 100_000} {
			values := make([]int64, n)
			for i := range values {
				values[i] = int64(i) * 3
			}
			out, err := r.Spread(values)
			require.NoError(t, err)
			require.Len(t, out, n)
			deepest := uint32(0)
			for i, e := range out {
				require.Equal(t, values[i], e.Value)
				deepest = max(deepest, e.Shape.Depth)
			}
			require.EqualValues(t, bits.Len(uint(n)), deepest)
			if n > 10_000 {
				continue
			}

			// It is what inserting in that order does, and more can be inserted.
			o := newOwner(r, 0)
			for _, i := range MedianFirst(nil, 0, n) {
				require.NoError(t, o.insert(values[i]))
			}
			require.Equal(t, out, o.elements())
			for x := range int64(3 * n) {
				if x%3 != 0 {
					require.NoError(t, o.insert(x))
				}
			}
			require.Zero(t, o.relabelCounts)
		}
	}
}

func TestSpreadUsesTheSpaceEvenly(t *testing.T) {
	values := make([]int64, 1<<16-1)
	for i := range values {
		values[i] = int64(i)
	}
	out, err := DefaultRules().Spread(values)
	require.NoError(t, err)
	high := DefaultRules().High()
	for i, e := range append(out, high) {
		gap := e.Label
		if i > 0 {
			gap = e.Label.Minus(out[i-1].Label)
		}
		// 2^112 if all were alike; the outermost turns are uneven.
		require.Greater(t, gap.Length(), uint(128-16-16), i)
	}
}

func TestSpreadTellsWhenThereIsNoRoom(t *testing.T) {
	for _, published := range []bool{false, true} {
		r := Rules{Bits: 4, Published: published}
		out, err := r.Spread([]int64{1, 2, 3, 4, 5, 6, 7})
		require.NoError(t, err)
		require.Len(t, out, 7)
		_, err = r.Spread(make([]int64, 16)) // 15 labels between the ends
		require.ErrorIs(t, err, ErrFull)
	}
}

func TestFillLeavesOutWhatHasNoRoom(t *testing.T) {
	r := Rules{Bits: 8}
	left := Element{Label: Label{0, 100}, Shape: Shape{Depth: 1}}
	right := Element{Label: Label{0, 104}, Shape: Shape{Depth: 2, Run: 1, Dir: 1}}
	out, err := r.fill(nil, left, right, []int64{10, 20, 30, 40, 50, 60, 70})
	require.NoError(t, err)
	var got []string
	for _, e := range out {
		got = append(got, fmt.Sprint(e.Value, "@", e.Label.Lo))
	}
	require.Equal(t, []string{"20@101", "40@102", "60@103"}, got)

	right.Label.Lo = 101
	out, err = r.fill(nil, left, right, []int64{1})
	require.NoError(t, err)
	require.Empty(t, out)
}

func TestMedianFirst(t *testing.T) {
	require.Equal(t, []int{3, 1, 0, 2, 5, 4, 6}, MedianFirst(nil, 0, 7))
	require.Empty(t, MedianFirst(nil, 0, 0))
}
