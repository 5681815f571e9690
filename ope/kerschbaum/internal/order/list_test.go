package order

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireOrdered checks what every list must keep.
func requireOrdered(t require.TestingT, l *List) {
	n := 0
	var last Element
	for _, c := range l.chunks {
		if len(c.values) != len(c.entries) || l.rules.RankBits > 0 && len(c.ranks) != len(c.entries) || l.rules.RankBits == 0 && c.ranks != nil {
			require.FailNow(t, "values or ranks are out of step")
		}
		if len(c.entries) == 0 || len(c.entries) > l.Size || c.value != c.values[0] || c.label != c.entries[0].label {
			require.FailNow(t, "the directory is wrong")
		}
		for i := range c.entries {
			e := c.element(i)
			if n > 0 && (last.Value >= e.Value || !last.Label.Less(e.Label)) {
				require.FailNow(t, "not in order")
			}
			last = e
			n++
		}
	}
	require.Equal(t, n, l.Len())
}

// A knownIndex is an index of which a part is known: what a list must be, in one sorted slice.
type knownIndex struct {
	low, high Element
	all       []Element // that can ever be in the index
	present   []bool
	known     []bool
	linked    []bool // of the known ones
	lowLinked bool
}

func newKnownIndex(rules Rules, r *rand.Rand, n int) *knownIndex {
	k := &knownIndex{present: make([]bool, n), known: make([]bool, n), linked: make([]bool, n)}
	k.low, k.high = Element{}, rules.High()
	for i := range n {
		k.all = append(k.all, Element{
			Value: math.MinInt64 + int64(i)*7, // the lowest is a value as any other
			Label: Label{uint64(i+1) << 50, r.Uint64()},
			Shape: Shape{1 + r.Uint32N(1000), r.Uint32(), r.Uint32(), int8(r.IntN(3) - 1)},
		})
	}
	k.all[n-1].Value = math.MaxInt64
	if rules.RankBits > 0 {
		at := Rank{Lo: Label{0, 1}}
		for i := range k.all {
			if at.Shared = i > 0 && r.IntN(3) == 0; !at.Shared {
				at = at.plus(Rank{Hi: r.Uint64N(2), Lo: Label{r.Uint64(), r.Uint64() | 1}})
			}
			k.all[i].Rank = at
		}
	}
	return k
}

// before returns the nearest i below at that is set, or -1; after the nearest from at on, or n.
func before(set []bool, at int) int {
	for at--; at >= 0 && !set[at]; at-- {
	}
	return at
}

func after(set []bool, at int) int {
	for ; at < len(set) && !set[at]; at++ {
	}
	return at
}

func (k *knownIndex) at(i int) Element {
	switch i {
	case -1:
		return k.low
	case len(k.all):
		return k.high
	}
	return k.all[i]
}

func (k *knownIndex) link(i int) *bool {
	if i < 0 {
		return &k.lowLinked
	}
	return &k.linked[i]
}

// run returns what is present from index from to index to, both included, and takes note of it.
func (k *knownIndex) run(from, to int) []Element {
	var members []int
	for i := max(from, 0); i <= min(to, len(k.all)-1); i++ {
		if k.present[i] {
			members = append(members, i)
		}
	}
	if from < 0 {
		members = slices.Insert(members, 0, -1)
	}
	if to == len(k.all) {
		members = append(members, len(k.all))
	}
	var out []Element
	for _, i := range members {
		out = append(out, k.at(i))
	}
	inner := len(members) - 1
	if from < 0 {
		inner--
	}
	if len(members) == 0 || len(members) == 1 && (from < 0 || to == len(k.all)) || from >= 0 && to == len(k.all) && inner < 0 {
		return out // nothing is learnt
	}
	if first := members[0]; first >= 0 && !k.known[first] {
		*k.link(before(k.known, first)) = false
	}
	last := members[len(members)-1]
	if last < len(k.all) && !k.known[last] {
		k.linked[last] = false
	}
	for i, m := range members {
		if m >= 0 && m < len(k.all) {
			k.known[m] = true
		}
		if i < len(members)-1 {
			*k.link(m) = true
		}
	}
	return out
}

// Whatever a client reads and writes, a list is what was learnt, and with a limit a part of that,
// and none of its links is invented.
func TestListIsWhatWasLearnt(t *testing.T) {
	const n = 120
	evicted, splits := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		limit := rapid.SampledFrom([]int{0, 0, 10, 40}).Draw(t, "limit")
		rules := DefaultRules()
		rules.RankBits = rapid.SampledFrom([]uint{0, RankBits}).Draw(t, "bits of ranks")
		k := newKnownIndex(rules, r, n)
		l := NewList(rules, limit)
		l.Size = rapid.SampledFrom([]int{2, 3, 8}).Draw(t, "size")
		everyone := rapid.IntRange(0, 100).Draw(t, "present")
		for i := range k.present {
			k.present[i] = r.IntN(100) < everyone
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			learnt := l.Len() // if nothing is, nothing need be forgotten
			switch x := r.IntN(10); {
			case x < 3: // a slice is read
				from := r.IntN(n+1) - 1
				run := k.run(from, min(n, from+r.IntN(30)))
				if len(run) > 2 {
					learnt = len(run)
				}
				require.NoError(t, l.Learn(run))
				for _, e := range run {
					if e.Shape.Depth > 0 {
						_, ok := l.Find(e.Value)
						require.True(t, ok, "what was just learnt is known")
					}
				}
			case x == 3 && r.IntN(10) == 0: // all of it
				learnt = n
				require.NoError(t, l.Learn(k.run(-1, n)))
			case x < 7: // this client inserts
				i := r.IntN(n)
				if k.known[i] || k.present[i] {
					// Again, which changes nothing that was known.
					if e, ok := l.Find(k.all[i].Value); ok {
						require.NoError(t, l.Insert(e))
					}
					continue
				}
				learnt = 1
				k.present[i] = true
				k.linked[i] = *k.link(before(k.known, i))
				k.known[i] = true
				require.NoError(t, l.Insert(k.all[i]))
			case x < 9: // another does, and this one does not know
				k.present[r.IntN(n)] = true
			case r.IntN(20) == 0:
				l.Clear()
				clear(k.known)
				k.lowLinked = false
			}

			requireOrdered(t, l)
			splits += len(l.chunks) / 2
			if limit > 0 {
				require.LessOrEqual(t, l.Len(), max(limit, learnt+2*l.Size))
			}
			have := make([]bool, n)
			for e := range l.all(math.MinInt64) {
				i, ok := slices.BinarySearchFunc(k.all, e.Value, func(e Element, x int64) int {
					if e.Value < x {
						return -1
					}
					return int(min(1, uint64(e.Value-x)))
				})
				require.True(t, ok)
				require.Equal(t, k.all[i], e)
				require.True(t, k.known[i], "not learnt")
				have[i] = true
			}
			if limit == 0 {
				require.Equal(t, k.known, have)
			} else if !slices.Equal(k.known, have) {
				evicted++
			}
			for range 5 {
				i := r.IntN(n)
				e, ok := l.Find(k.all[i].Value)
				require.Equal(t, have[i], ok)
				if ok {
					require.Equal(t, k.all[i], e)
				}
				_, ok = l.Find(k.all[i].Value ^ 1)
				require.False(t, ok)

				left, right := before(have, i+1), after(have, i+1)
				g := l.Gap(k.all[i].Value)
				require.Equal(t, k.at(left), g.Left)
				require.Equal(t, k.at(right), g.Right)
				if limit == 0 {
					require.Equal(t, *k.link(left), g.Linked)
				} else if g.Linked {
					require.True(t, *k.link(left), "an invented link")
					require.Equal(t, right, after(k.known, i+1), "a link over what was forgotten")
				}

				most, low := r.IntN(6), left
				for m := 0; m < most && low >= 0 && g.Linked && *l.link(l.previous(l.floor(k.all[low].Value))); m++ {
					low = before(have, low)
				}
				require.Equal(t, k.at(low), l.Lowest(k.all[i].Value, most))
			}
			from := r.IntN(n)
			at := after(have, from)
			for e := range l.all(k.all[from].Value) {
				require.Equal(t, k.at(at), e)
				at = after(have, at+1)
				if r.IntN(10) == 0 {
					at = n
					break
				}
			}
			require.Equal(t, n, at)
		}
	})
	if !testing.Short() { // then there are enough of them, whatever the seeds
		require.NotZero(t, evicted)
		require.NotZero(t, splits)
	}
}

func TestListRefusesWhatIsOutOfOrder(t *testing.T) {
	low, high := Element{}, DefaultRules().High()
	at := func(value int64, l uint64) Element {
		return Element{Value: value, Label: Label{0, l}, Shape: Shape{Depth: 1}}
	}
	l := NewList(DefaultRules(), 0)
	require.NoError(t, l.Learn([]Element{low, at(10, 100), at(20, 200), at(30, 300), high}))
	content := func() (out []Element) {
		for e := range l.all(math.MinInt64) {
			out = append(out, e)
		}
		return out
	}
	want := content()
	require.Len(t, want, 3)
	for name, run := range map[string][]Element{
		"values descend":       {at(12, 110), at(11, 120)},
		"values repeat":        {at(12, 110), at(12, 120)},
		"labels descend":       {at(11, 120), at(12, 110)},
		"below its left":       {at(5, 150)},
		"above its right":      {at(25, 150)},
		"a known value":        {at(10, 150)},
		"a known value, right": {at(20, 150)},
		"at the low end":       {low, at(1, 0), at(10, 100)},
		"a low end inside":     {at(1, 1), low, at(10, 100)},
		"moved":                {at(20, 250), at(30, 310)},
	} {
		require.ErrorIs(t, l.Learn(run), ErrCorrupt, name)
		require.Equal(t, want, content(), name)
	}
	for name, e := range map[string]Element{
		"a known value":         at(10, 150),
		"a known label":         at(15, 200),
		"above its right":       at(15, 250),
		"below its left":        at(15, 50),
		"at the low end":        at(5, 0),
		"at the high end":       {Value: 40, Label: high.Label},
		"a moved, known value":  at(20, 201),
		"lowest value, a label": at(math.MinInt64, 100),
	} {
		require.ErrorIs(t, l.Insert(e), ErrCorrupt, name)
		require.Equal(t, want, content(), name)
	}
	// A value that is in the place of another, in one read, replaces it: labels are reused.
	require.NoError(t, l.Learn([]Element{at(10, 100), at(25, 200), at(30, 300)}))
	require.Equal(t, []Element{at(10, 100), at(25, 200), at(30, 300)}, content())
	// The empty index is all known.
	require.NoError(t, l.Learn([]Element{low, high}))
	require.Equal(t, Gap{low, high, true}, l.Gap(0))
	l.Clear()
	require.Equal(t, Gap{low, high, false}, l.Gap(0))
}

// What is used is kept when a list forgets, and what was forgotten can be learnt again.
func TestListKeepsWhatIsUsed(t *testing.T) {
	const n, limit = 100_000, 10_000
	r := DefaultRules()
	low, high := Element{}, r.High()
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(i)
	}
	elements, err := r.Spread(values)
	require.NoError(t, err)
	elements = slices.Concat([]Element{low}, elements, []Element{high})
	l := NewList(r, limit)
	for i := 0; i < len(elements)-1; i += 255 {
		require.NoError(t, l.Learn(elements[i:min(i+256, len(elements))]))
		require.LessOrEqual(t, l.Len(), limit)
		if i > 0 {
			_, ok := l.Find(7) // again and again
			require.True(t, ok, i)
		}
	}
	require.Greater(t, l.Len(), limit*9/10)
	requireOrdered(t, l)
	_, ok := l.Find(n / 2)
	require.False(t, ok)
	require.False(t, l.Gap(n/2).Linked)
	require.NoError(t, l.Learn(elements[n/2:n/2+3]))
	e, ok := l.Find(n / 2)
	require.True(t, ok)
	require.Equal(t, elements[n/2+1], e)
	require.True(t, l.Gap(n/2).Linked)
}

// A cached index takes at most 64 bytes a value, and 112 with ranks, with chunks filled at random and, at worst, by half.
func TestMemoryOfAList(t *testing.T) {
	memoryOfAList(t, 0, 40, 64)
	memoryOfAList(t, RankBits, 40+32, 112)
}

func memoryOfAList(t *testing.T, rankBits uint, least, most float64) {
	const n = 60_000
	rules := DefaultRules()
	rules.RankBits = rankBits
	for _, order := range []string{"random", "zigzag"} {
		values := arrival.Named(t, order).Of(t, n)
		var was, is runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&was)
		o := run(t, rules, 0, values)
		runtime.GC()
		runtime.ReadMemStats(&is)
		each := float64(is.HeapAlloc-was.HeapAlloc) / n
		t.Logf("%-10s %.1f bytes a value", order, each)
		require.Less(t, each, most, order)
		require.Greater(t, each, least, "an element alone")
		require.Equal(t, n, o.list.Len())
		runtime.KeepAlive(values)
	}
}

func benchmarkInsert(b *testing.B, r Rules, order string, n int) {
	values := arrival.Named(b, order).Of(b, n)
	b.ReportAllocs()
	moved := 0
	for b.Loop() {
		moved = run(b, r, 0, values).moved
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/value")
	b.ReportMetric(float64(moved)/float64(n), "moves/value")
}

// BenchmarkInsert is of finding the place of a value and putting it there, in memory.
func BenchmarkInsert(b *testing.B) {
	for _, a := range arrival.All {
		b.Run(a.Name, func(b *testing.B) { benchmarkInsert(b, DefaultRules(), a.Name, 1_000_000) })
	}
}

func BenchmarkInsertPublished(b *testing.B) {
	for _, a := range arrival.All[:5] {
		b.Run(a.Name, func(b *testing.B) { benchmarkInsert(b, Rules{Bits: 65, Published: true}, a.Name, 10_000) })
	}
}

// BenchmarkFind is of encryption and decryption when everything is known.
func BenchmarkFind(b *testing.B) {
	const n = 1_000_000
	values := arrival.Named(b, "random").Of(b, n)
	o := run(b, DefaultRules(), 0, values)
	b.Run("value", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, ok := o.list.Find(values[i%n]); !ok {
				b.Fatal("not found")
			}
		}
	})
}
