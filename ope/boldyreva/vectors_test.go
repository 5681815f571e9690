package boldyreva

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

var update = flag.Bool("update", false, "write the vector files again; only before a version is released")

const vectorFolder = "../../testdata/vectors"

// The format of the vector files. Numbers that may exceed int64 are decimal strings.
type vectorFile struct {
	Comment        string
	Scheme         string
	Key            string          // master key, hex
	Configurations []configuration // ciphertexts
	Samples        []sampleVector  // of the linear scheme's file: nodes alone
	Scatters       []scatterVector
}

type configuration struct {
	ID              string
	Min, Max        int64
	Range           int
	AllowSmallRange bool
	Shift           string `json:",omitempty"`
	Cases           []vectortest.Case
	Digests         []vectortest.Digest
}

// The coins of sampleVector and scatterVector are those of the master key with the labels
// "boldyreva", "vectors", "nodes"; the node's label is tag 0, u = Bits and v.
type sampleVector struct {
	Bits   uint
	Points string
	V      []uint32 // labels
	Lower  []string // points in the lower half, one for each label
}

type scatterVector struct {
	Bits   uint
	Points int
	V      []uint32
	Cells  [][]uint16
}

var vectorParameters = []struct {
	domain ope.Domain
	bits   int
}{
	{ope.Domain{Min: 0, Max: 0}, 8},
	{ope.Domain{Min: 7, Max: 7}, 1},
	{ope.Domain{Min: -1, Max: 0}, 128},
	{ope.Domain{Min: -4, Max: 3}, 11},
	{ope.Int8, 16},
	{ope.Uint8, 16}, // as many values from another minimum
	{ope.Uint8, 8},  // the identity
	{ope.Domain{Min: 0, Max: 254}, 8},
	{ope.Domain{Min: 1, Max: 129}, 8},
	{ope.Domain{Min: -300, Max: 84}, 64},
	{ope.Domain{Min: -1000, Max: 3095}, 24},
	{ope.Int16, 32},
	{ope.Int32, 64},
	{ope.Int32, 33}, // dense
	{ope.Int32, 65},
	{ope.Domain{Min: -1_000_003, Max: 998_244_353}, 77},
	{ope.Int64, 64}, // the identity
	{ope.Int64, 65},
	{ope.Int64, 128},
	{ope.Domain{Min: math.MinInt64, Max: math.MaxInt64 - 1}, 64},
	{ope.Domain{Min: -1 << 62, Max: math.MaxInt64}, 100},
}

func vectorKey(t testing.TB) ope.Key { return vectortest.Key(t, 0) }

type testScheme interface {
	ope.Immutable
	ope.BatchEncrypter
	ope.Appender
}

func makeVectorScheme(t testing.TB, name string, c *configuration) (testScheme, *scheme) {
	d, o := ope.Domain{Min: c.Min, Max: c.Max}, &Options{RangeBits: c.Range, AllowSmallRange: c.AllowSmallRange}
	if name == "mope/1" {
		s, err := NewModular(vectorKey(t), d, o)
		require.NoError(t, err)
		return s, &s.scheme
	}
	s, err := New(vectorKey(t), d, o)
	require.NoError(t, err)
	return s, &s.scheme
}

func vectorPath(name string) string {
	return filepath.Join(vectorFolder, map[string]string{"boldyreva/1": "boldyreva-1.json", "mope/1": "mope-1.json"}[name])
}

func readVectors(t testing.TB, name string) *vectorFile {
	t.Helper()
	text, err := os.ReadFile(vectorPath(name))
	require.NoError(t, err)
	f := new(vectorFile)
	require.NoError(t, json.Unmarshal(text, f))
	require.Equal(t, name, f.Scheme)
	secret, err := hex.DecodeString(f.Key)
	require.NoError(t, err)
	require.Equal(t, vectorKey(t).Secret(), secret)
	require.NotEmpty(t, f.Configurations)
	return f
}

func TestVectors(t *testing.T) {
	for _, name := range []string{"boldyreva/1", "mope/1"} {
		t.Run(name, func(t *testing.T) {
			if *update {
				writeVectors(t, name)
			}
			f := readVectors(t, name)
			for i := range f.Configurations {
				c := &f.Configurations[i]
				t.Run(c.ID, func(t *testing.T) { checkConfiguration(t, name, c) })
			}
		})
	}
}

func checkConfiguration(t *testing.T, name string, c *configuration) {
	s, inner := makeVectorScheme(t, name, c)
	require.Equal(t, c.ID, s.ID())
	if name == "mope/1" {
		require.Equal(t, c.Shift, fmt.Sprint(inner.shift))
	}
	require.NotEmpty(t, c.Cases)
	for _, exact := range []bool{false, true} {
		inner.tree.exact = exact
		for i, e := range c.Cases {
			if exact && (testing.Short() || !sim.Full()) && i%8 != 0 {
				continue // exact arithmetic takes long, above all under emulation
			}
			e.Check(t, s)
		}
	}
	inner.tree.exact = false
	require.NotEmpty(t, c.Digests)
	for _, d := range c.Digests {
		d.Check(t, s)
	}
}

func nodeWalker(t testing.TB, exact bool) *walker {
	return &walker{Reader: coins.New(vectorKey(t), "boldyreva", "vectors", "nodes").NewReader(), exact: exact}
}

func TestNodeVectors(t *testing.T) {
	f := readVectors(t, "boldyreva/1")
	require.NotEmpty(t, f.Samples)
	require.NotEmpty(t, f.Scatters)
	for _, exact := range []bool{false, true} {
		w := nodeWalker(t, exact)
		for _, s := range f.Samples {
			require.NotEmpty(t, s.V)
			for i, v := range s.V {
				w.Seek(0, uint64(s.Bits), uint64(v))
				require.Equal(t, s.Lower[i], fmt.Sprint(w.split(s.Bits, lastOf(t, s.Points))), "exact %t: %d bits, %s points, label %d", exact, s.Bits, s.Points, v)
			}
		}
		for _, s := range f.Scatters {
			require.NotEmpty(t, s.V)
			for i, v := range s.V {
				w.Seek(0, uint64(s.Bits), uint64(v))
				places := w.scatter(s.Bits, uint64(s.Points-1))
				require.Equal(t, s.Cells[i], places[:s.Points], "exact %t: %d bits, %d points, label %d", exact, s.Bits, s.Points, v)
			}
		}
	}
}

// lastOf returns a number of points less one.
func lastOf(t testing.TB, points string) uint64 {
	m, ok := new(big.Int).SetString(points, 10)
	require.True(t, ok)
	m.Sub(m, one)
	require.True(t, m.IsUint64())
	return m.Uint64()
}

func pointsOf(last uint64) string { return new(big.Int).Add(bigUint(last), one).String() }

func writeVectors(t testing.TB, name string) {
	f := vectorFile{
		Comment: "Written by go test ./ope/boldyreva -run Vectors -update; checked by testdata/reference/boldyreva.py.",
		Scheme:  name,
		Key:     hex.EncodeToString(vectorKey(t).Secret()),
	}
	for i, p := range vectorParameters {
		c := configuration{Min: p.domain.Min, Max: p.domain.Max, Range: p.bits, AllowSmallRange: true}
		s, inner := makeVectorScheme(t, name, &c)
		c.ID = s.ID()
		if name == "mope/1" {
			c.Shift = fmt.Sprint(inner.shift)
		}
		offsets := []uint64{0, 1, 2, 7, 8, 9, 191, 192, 193, 255, 256, 1023, 4096}
		for n := uint(13); n < 64; n += 10 {
			offsets = append(offsets, 1<<n-1, 1<<n)
		}
		span := p.domain.Span()
		for _, o := range append([]uint64{span / 3, span/2 - 1, span / 2, span/2 + 1, span - 1, span}, offsets...) {
			if o <= span {
				c.Cases = append(c.Cases, vectortest.CaseOf(t, s, p.domain.At(o)))
			}
		}
		for _, count := range []int{300, 10_000} {
			c.Digests = append(c.Digests, vectortest.DigestOf(t, s, 1000+i, count))
		}
		f.Configurations = append(f.Configurations, c)
	}
	if name == "boldyreva/1" {
		f.Samples, f.Scatters = nodeVectors(t)
	}
	text, err := json.MarshalIndent(f, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(vectorPath(name), append(text, '\n'), 0o644))
}

func nodeVectors(t testing.TB) (samples []sampleVector, scatters []scatterVector) {
	w := nodeWalker(t, false)
	add := func(k uint, last uint64, labels ...uint32) {
		s := sampleVector{Bits: k, Points: pointsOf(last), V: labels}
		for _, v := range labels {
			w.Seek(0, uint64(k), uint64(v))
			s.Lower = append(s.Lower, fmt.Sprint(w.split(k, last)))
		}
		samples = append(samples, s)
	}
	// Around every boundary of the branches, and of V where it is nearly M + 1, from dense to sparse.
	var lasts []uint64
	for _, m := range []uint64{2, 3, 4, 9, 63, 64, 65, 127, 128, 129, 191, 192, 193, 194, 254, 255, 256, 257, 300, 511, 1022, 1023, 1024, 4094, 4095, 4096, 4097, 65534, 65535, 65536, 1 << 20, 1<<28 + 1, 1<<32 - 1, 1 << 32, 1<<47 + 12345, 1 << 62, 1 << 63} {
		lasts = append(lasts, m-1)
	}
	lasts = append(lasts, math.MaxUint64-1, math.MaxUint64)
	for _, last := range lasts {
		dense := uint(bits.Len64(last))
		seen := map[uint]bool{}
		for _, k := range []uint{dense, dense + 1, dense + 2, dense + 8, 62, 63, 64, 65, 127, 128} {
			full := k <= 64 && last == math.MaxUint64>>(64-k)
			if k >= dense && k <= 128 && !seen[k] && !full {
				seen[k] = true
				add(k, last, 0, 1, 2)
			}
		}
	}
	// Proposals from the tail of each envelope.
	for _, c := range []struct {
		k    uint
		last uint64
	}{{20, 199}, {20, 511}, {64, 2047}, {64, 1 << 14}, {64, 1 << 40}, {128, math.MaxUint64}} {
		v1, v0 := variance(c.k, c.last)
		n := bits.Len64(v0)
		if v1 != 0 {
			n = 65
		}
		env := &envelopes[min(classes[n], 4)]
		for v, found := uint32(0), 0; found < 2; v++ {
			w.Seek(0, uint64(c.k), uint64(v))
			a, _ := w.Block(0)
			if col := env.column[a>>58]; a>>58 == blocks && uint32(a>>32)&(1<<25-1) < col>>6 {
				add(c.k, c.last, v)
				found++
			}
		}
	}
	for _, k := range []uint{8, 9, 12, 15, 16, 17, 18, 22, 64, 65, 80, 81, 128} {
		for points := 2; points <= scatterMost; points++ {
			s := scatterVector{Bits: k, Points: points, V: []uint32{0, 1, 2}}
			// And the first with a tie, which the exact comparison decides in small cells.
			if points == scatterMost && k > 16 {
				for v := uint32(3); ; v++ {
					w.Seek(0, uint64(k), uint64(v))
					places := w.scatter(k, scatterMost-1)
					tie := false
					for i := 1; i < scatterMost; i++ {
						tie = tie || places[i] == places[i-1]
					}
					if tie {
						s.V = append(s.V, v)
						break
					}
				}
			}
			for _, v := range s.V {
				w.Seek(0, uint64(k), uint64(v))
				places := w.scatter(k, uint64(points-1))
				s.Cells = append(s.Cells, append([]uint16(nil), places[:points]...))
			}
			scatters = append(scatters, s)
		}
	}
	return samples, scatters
}
