package wozniak

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"math/big"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

var update = flag.Bool("update", false, "write the vector file again; only before a version is released")

const keyedVectors = "../../testdata/vectors/wozniak-1.json"

// The format of the vector file.
type vectorFile struct {
	Comment        string
	Scheme         string
	Key            string // master key, hex
	Configurations []configuration
}

type configuration struct {
	ID       string
	Min, Max int64
	Range    int
	Ends     [2]string // the ciphertexts of Min and Max, decimal
	Cases    []vectortest.Case
	Digests  []vectortest.Digest
}

var vectorParameters = []struct {
	domain ope.Domain
	bits   int
}{
	{ope.Domain{Min: 0, Max: 0}, 64},
	{ope.Domain{Min: 7, Max: 7}, 1},
	{ope.Domain{Min: -7, Max: -7}, 192},
	{ope.Domain{Min: -1, Max: 0}, 65},
	{ope.Domain{Min: -1, Max: 1}, 192},
	{ope.Domain{Min: -4, Max: 3}, 11},
	{ope.Int8, 72},
	{ope.Uint8, 72}, // as many values from another minimum
	{ope.Uint8, 8},  // the identity
	{ope.Domain{Min: 1, Max: 129}, 8},
	{ope.Domain{Min: -300, Max: 84}, 73},
	{ope.Int16, 80},
	{ope.Uint16, 17}, // dense
	{ope.Int32, 96},
	{ope.Int32, 65},
	{ope.Int32, 128},
	{ope.Uint32, 192},
	// Around 2^32 ranks that are not ends, where labels and digits change.
	{ope.Domain{Min: 0, Max: 1 << 32}, 99},
	{ope.Domain{Min: 0, Max: 1<<32 + 1}, 99},
	{ope.Domain{Min: 0, Max: 1<<32 + 2}, 99},
	{ope.Domain{Min: -1_000_003, Max: 998_244_353}, 94},
	{ope.Domain{Min: -1 << 40, Max: 1 << 39}, 123},
	{ope.Int64, 64}, // the identity
	{ope.Int64, 65},
	{ope.Int64, 128},
	{ope.Int64, 192},
	{ope.Domain{Min: math.MinInt64, Max: math.MaxInt64 - 1}, 191},
	{ope.Domain{Min: math.MinInt64, Max: -1}, 189},
	{ope.Domain{Min: -1 << 62, Max: math.MaxInt64}, 160},
}

func (c *configuration) scheme(t testing.TB) *Scheme {
	s, err := New(vectortest.Key(t, 0), ope.Domain{Min: c.Min, Max: c.Max}, &Options{RangeBits: c.Range, AllowSmallRange: true})
	require.NoError(t, err)
	return s
}

func (x u192) big() *big.Int { return new(big.Int).SetBytes(x.appendTo(nil, 24)) }

func (s *Scheme) ends() [2]string {
	low := s.tree.low
	return [2]string{low.big().String(), low.add(s.tree.slack).add(u192{lo: s.tree.span}).big().String()}
}

func TestKeyedVectors(t *testing.T) {
	if *update {
		writeKeyedVectors(t)
	}
	text, err := os.ReadFile(keyedVectors)
	require.NoError(t, err)
	var f vectorFile
	require.NoError(t, json.Unmarshal(text, &f))
	require.Equal(t, "wozniak/1", f.Scheme)
	require.Equal(t, hex.EncodeToString(vectortest.Key(t, 0).Secret()), f.Key)
	require.NotEmpty(t, f.Configurations)
	for i := range f.Configurations {
		c := &f.Configurations[i]
		t.Run(c.ID, func(t *testing.T) {
			s := c.scheme(t)
			require.Equal(t, c.ID, s.ID())
			require.Equal(t, c.Ends, s.ends())
			require.NotEmpty(t, c.Cases)
			for _, e := range c.Cases {
				e.Check(t, s)
			}
			require.NotEmpty(t, c.Digests)
			for _, d := range c.Digests {
				d.Check(t, s)
			}
		})
	}
}

func writeKeyedVectors(t *testing.T) {
	f := vectorFile{
		Comment: "Written by go test ./ope/wozniak -run KeyedVectors -update; checked by testdata/reference/wozniak.py.",
		Scheme:  "wozniak/1",
		Key:     hex.EncodeToString(vectortest.Key(t, 0).Secret()),
	}
	for i, p := range vectorParameters {
		c := configuration{Min: p.domain.Min, Max: p.domain.Max, Range: p.bits}
		s := c.scheme(t)
		c.ID, c.Ends = s.ID(), s.ends()
		span := p.domain.Span()
		seen := map[uint64]bool{}
		offsets := []uint64{0, 1, 2, span / 3, span/2 - 1, span / 2, span/2 + 1, span - 2, span - 1, span, 7, 255, 256}
		for n := uint(13); n < 64; n += 10 {
			offsets = append(offsets, 1<<n-1, 1<<n)
		}
		for _, o := range offsets {
			if o <= span && !seen[o] {
				seen[o] = true
				c.Cases = append(c.Cases, vectortest.CaseOf(t, s, p.domain.At(o)))
			}
		}
		for _, count := range []int{20, 300, 5000} {
			c.Digests = append(c.Digests, vectortest.DigestOf(t, s, 2000+i, count))
		}
		f.Configurations = append(f.Configurations, c)
	}
	text, err := json.MarshalIndent(f, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(keyedVectors, append(text, '\n'), 0o644))
}

func TestKeyedReference(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if sim.Required("python") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command(python, "wozniak.py", "--quick")
	cmd.Dir = "../../testdata/reference"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("%s", out)
}
