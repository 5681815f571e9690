package boldyreva

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

func newText(t testing.TB, size int) *TextScheme {
	s, err := NewText(vectorKey(t), size)
	require.NoError(t, err)
	return s
}

// padded returns what counts of a string.
func padded(x []byte, size int) []byte {
	p := make([]byte, size)
	copy(p, x)
	return p
}

// edges are strings that differ at the ends of pieces, by filling zeros, and beyond what counts.
func edges() [][]byte {
	all := [][]byte{{}, {0}, {0xff}, {0, 0}, []byte("a"), []byte("a\x00"), []byte("a\x00\x00"), []byte("a\x01"), []byte("b")}
	for _, n := range []int{7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40} {
		for _, c := range []string{"\x00", "\x01", "k", "\xff"} {
			x := strings.Repeat(c, n)
			all = append(all, []byte(x), []byte(x[:n-1]+"\x00"), []byte(x[:n-1]+"\x7f"), []byte(x[:n-1]+"\x80"), []byte(x[:n-1]+"\xff"))
		}
	}
	return all
}

func TestTextOrder(t *testing.T) {
	for size := 8; size <= MaxText; size += 8 {
		s := newText(t, size)
		require.Equal(t, size, s.Size())
		all := edges()
		for i, a := range all {
			c := s.Encrypt(a)
			require.Len(t, c, 2*size)
			x, err := s.Decrypt(c)
			require.NoError(t, err)
			require.Equal(t, padded(a, size), x)
			for _, b := range all[:i] {
				require.Equal(t, bytes.Compare(padded(a, size), padded(b, size)), bytes.Compare(c, s.Encrypt(b)), "%x and %x by %d bytes", a, b, size)
			}
		}
	}
}

// Ciphertexts do not depend on what was encrypted before, or at the same time.
func TestTextIsStateless(t *testing.T) {
	s := newText(t, 32)
	rng := rand.New(rand.NewPCG(1, 2))
	texts := make([][]byte, 3*mostKnown)
	for i := range texts {
		texts[i] = fmt.Appendf(nil, "https://example.org/%x", rng.Uint64N(2*mostKnown))
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(texts, len(texts)/4) {
		wg.Go(func() {
			for _, x := range part {
				s.Encrypt(x)
			}
		})
	}
	wg.Wait()
	for _, x := range texts[:200] {
		require.Equal(t, newText(t, 32).Encrypt(x), s.Encrypt(x))
	}
	dst := s.AppendEncrypt([]byte("before"), []byte("x"))
	require.Equal(t, append([]byte("before"), s.Encrypt([]byte("x"))...), dst)
}

func TestTextInterval(t *testing.T) {
	for size := 8; size <= MaxText; size += 8 {
		s := newText(t, size)
		all := edges()
		bounds := append([][]byte{nil}, all[:60]...)
		for _, lo := range bounds {
			for _, hi := range bounds {
				iv, ok := s.Interval(lo, hi)
				if !ok {
					require.NotNil(t, hi)
					require.Positive(t, bytes.Compare(padded(lo, size), padded(hi, size)))
					continue
				}
				start, end := iv.KeyRange([]byte("p"))
				for _, x := range all[:60] {
					within := (lo == nil || bytes.Compare(padded(lo, size), padded(x, size)) <= 0) && (hi == nil || bytes.Compare(padded(x, size), padded(hi, size)) <= 0)
					key := slices.Concat([]byte("p"), s.Encrypt(x), []byte("row"))
					require.Equal(t, within, bytes.Compare(start, key) <= 0 && bytes.Compare(key, end) < 0, "%x in [%x, %x] by %d bytes", x, lo, hi, size)
				}
			}
		}
	}
}

func TestTextRefuses(t *testing.T) {
	for _, size := range []int{-8, 0, 7, 12, 40, 64} {
		_, err := NewText(vectorKey(t), size)
		require.ErrorIs(t, err, ope.ErrParams)
		require.ErrorContains(t, err, "need 8, 16, 24 or 32")
	}
	_, err := NewText(ope.Key{}, 8)
	require.ErrorIs(t, err, ope.ErrKey)

	s := newText(t, 16)
	c := s.Encrypt([]byte("exactly sixteen!"))
	for _, bad := range []ope.Ciphertext{nil, c[:31], append(slices.Clone(c), 0), newText(t, 24).Encrypt([]byte("x"))} {
		_, err := s.Decrypt(bad)
		require.ErrorIs(t, err, ope.ErrCiphertext)
	}
	for i := range c {
		changed := slices.Clone(c)
		changed[i] ^= 0x10
		if x, err := s.Decrypt(changed); err == nil { // one in 2^64 is another plaintext's
			require.NotEqual(t, "exactly sixteen!", string(x))
		} else {
			require.ErrorIs(t, err, ope.ErrCiphertext)
		}
	}
}

type textVectors struct {
	Comment, Key   string
	Configurations []textConfiguration
}

type textConfiguration struct {
	ID    string
	Bytes int
	Cases []struct{ X, C string } // hex
}

func TestTextVectors(t *testing.T) {
	path := filepath.Join(vectorFolder, "boldyreva-text-1.json")
	if *update {
		f := textVectors{
			Comment: "Written by go test ./ope/boldyreva -run TextVectors -update; checked by testdata/reference/boldyreva.py.",
			Key:     hex.EncodeToString(vectorKey(t).Secret()),
		}
		for size := 8; size <= MaxText; size += 8 {
			s := newText(t, size)
			c := textConfiguration{ID: s.ID(), Bytes: size}
			some := slices.DeleteFunc(edges(), func(x []byte) bool { return len(x)%8 > 1 && len(x)%8 < 7 })
			for _, x := range slices.Concat(some[3:80], [][]byte{[]byte("https://example.org/"), []byte("Zürich"), []byte("0d4f2c1e-7a1b-4c55-9f10-3b1a5ce0e9aa")}) {
				c.Cases = append(c.Cases, struct{ X, C string }{hex.EncodeToString(x), hex.EncodeToString(s.Encrypt(x))})
			}
			f.Configurations = append(f.Configurations, c)
		}
		text, err := json.MarshalIndent(f, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var f textVectors
	require.NoError(t, json.Unmarshal(text, &f))
	require.Equal(t, hex.EncodeToString(vectorKey(t).Secret()), f.Key)
	require.Len(t, f.Configurations, 4)
	for _, c := range f.Configurations {
		s := newText(t, c.Bytes)
		require.Equal(t, c.ID, s.ID())
		require.Len(t, c.Cases, 80)
		for _, e := range c.Cases {
			x, err := hex.DecodeString(e.X)
			require.NoError(t, err)
			require.Equal(t, e.C, hex.EncodeToString(s.Encrypt(x)), e.X)
		}
	}
}

// Many texts take no more memory than few: what is made for the pieces of one goes with it.
func TestTextMemory(t *testing.T) {
	s := newText(t, 32)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 30_000 {
		s.Encrypt(fmt.Appendf(nil, "%08[1]x%08[1]x%08[1]x", uint32(i)*0x9E3779B1))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapSys)-int64(before.HeapSys), int64(32<<20))
}

// A beginning that is met often gets walkers that remember, which changes no ciphertext.
func TestTextOften(t *testing.T) {
	s := newText(t, 32)
	for i := range 3 * often {
		x := fmt.Appendf(nil, "https://www.exam%08x", i)
		require.Equal(t, newText(t, 32).Encrypt(x), s.Encrypt(x))
	}
	require.NotNil(t, s.known["https://"].next.tree.pool)
}

// Texts of which the first piece, or nothing, is known.
func BenchmarkText(b *testing.B) {
	for _, c := range []struct{ name, format string }{{"common beginning", "https://%08x"}, {"random", "%08[1]x%08[1]x%08[1]x"}} {
		b.Run(c.name, func(b *testing.B) {
			s := newText(b, 32)
			b.ReportAllocs()
			for i := uint32(0); b.Loop(); i++ {
				s.Encrypt(fmt.Appendf(nil, c.format, i*0x9E3779B1))
			}
		})
	}
}
