package boldyreva

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func BenchmarkLinear(b *testing.B)  { opetest.BenchmarkScheme(b, makeLinear(nil)) }
func BenchmarkModular(b *testing.B) { opetest.BenchmarkScheme(b, makeModular(nil)) }

// Single values by the sizes of domain and range, sparse and dense. They are uniform, so that
// little of their paths is remembered.
func BenchmarkSizes(b *testing.B) {
	for _, c := range []struct {
		d    ope.Domain
		bits int
	}{{ope.Int8, 16}, {ope.Int16, 32}, {ope.Int32, 33}, {ope.Int32, 64}, {ope.Int64, 96}, {ope.Int64, 128}} {
		s, err := New(vectortest.Key(b, 1), c.d, &Options{RangeBits: c.bits, AllowSmallRange: true})
		require.NoError(b, err)
		opetest.BenchmarkValues(b, fmt.Sprintf("%d bits of %s", c.bits, c.d), s)
	}
}

func BenchmarkMillion(b *testing.B) {
	s, err := New(vectortest.Key(b, 1), ope.Int32, nil)
	require.NoError(b, err)
	opetest.BenchmarkMillion(b, s)
}

// One node, by its number of points.
func BenchmarkSplit(b *testing.B) {
	for _, c := range []struct {
		k uint
		m uint64
	}{{64, 16}, {64, 64}, {64, 192}, {64, 193}, {9, 250}, {64, 1000}, {64, 4000}, {64, 1 << 20}, {64, 1 << 32}, {128, 1 << 62}} {
		b.Run(fmt.Sprintf("%d points in %d bits", c.m, c.k), func(b *testing.B) {
			w := nodeWalker(b, false)
			for i := uint64(0); b.Loop(); i++ {
				w.Seek(0, 0, i)
				w.split(c.k, c.m-1)
			}
		})
	}
}
