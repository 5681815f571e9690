package wozniak

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"math/big"
	"math/bits"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

var update = flag.Bool("update", false, "write the vector file anew; only before a version is released")

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
	Cases    []encryption
	Digests  []digest
}

type encryption struct {
	X int64
	C string // hex
}

// A digest is the SHA-256 of the concatenated ciphertexts of Min + floor(z_i |D| / 2^64), for the first
// Count outputs z_i of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) seeded with Seed.
type digest struct {
	Seed, Count int
	SHA256      string
}

func (d *digest) values(domain ope.Domain) []int64 {
	state := uint64(d.Seed)
	xs := make([]int64, d.Count)
	for i := range xs {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		if span := domain.Span(); span != math.MaxUint64 {
			z, _ = bits.Mul64(z, span+1)
		}
		xs[i] = domain.At(z)
	}
	return xs
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
	s, err := New(keyedKey(t, 0), ope.Domain{Min: c.Min, Max: c.Max}, &Options{RangeBits: c.Range, AllowSmallRange: true})
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
	require.Equal(t, hex.EncodeToString(keyedKey(t, 0).Secret()), f.Key)
	require.NotEmpty(t, f.Configurations)
	for i := range f.Configurations {
		c := &f.Configurations[i]
		t.Run(c.ID, func(t *testing.T) {
			s := c.scheme(t)
			require.Equal(t, c.ID, s.ID())
			require.Equal(t, c.Ends, s.ends())
			require.NotEmpty(t, c.Cases)
			for _, e := range c.Cases {
				got, err := s.Encrypt(t.Context(), e.X)
				require.NoError(t, err)
				require.Equal(t, e.C, hex.EncodeToString(got), "x %d", e.X)
				x, err := s.Decrypt(t.Context(), got)
				require.NoError(t, err)
				require.Equal(t, e.X, x)
			}
			require.NotEmpty(t, c.Digests)
			for _, d := range c.Digests {
				if !testing.Short() || d.Count <= 1000 {
					require.Equal(t, d.SHA256, keyedDigest(t, s, &d))
				}
			}
		})
	}
}

func keyedDigest(t testing.TB, s *Scheme, d *digest) string {
	h := sha256.New()
	var c []byte
	for _, x := range d.values(s.Domain()) {
		var err error
		c, err = s.AppendEncrypt(c[:0], x)
		require.NoError(t, err)
		h.Write(c)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func writeKeyedVectors(t *testing.T) {
	f := vectorFile{
		Comment: "Written by go test ./ope/wozniak -run KeyedVectors -update; checked by testdata/reference/wozniak.py.",
		Scheme:  "wozniak/1",
		Key:     hex.EncodeToString(keyedKey(t, 0).Secret()),
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
				x := p.domain.At(o)
				ct, err := s.Encrypt(t.Context(), x)
				require.NoError(t, err)
				c.Cases = append(c.Cases, encryption{x, hex.EncodeToString(ct)})
			}
		}
		for _, count := range []int{20, 300, 5000} {
			d := digest{Seed: 2000 + i, Count: count}
			d.SHA256 = keyedDigest(t, s, &d)
			c.Digests = append(c.Digests, d)
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
		if strings.Contains(os.Getenv("RANGECRYPT_REQUIRE"), "python") {
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
