package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20poly1305"
	"pgregory.net/rapid"
)

func testKey(fill byte) []byte { return bytes.Repeat([]byte{fill}, KeySize) }

func newSealer(t testing.TB, fill byte) *Sealer {
	t.Helper()
	s, err := New(testKey(fill))
	require.NoError(t, err)
	return s
}

func parts(p ...string) Place {
	var place Place
	for _, s := range p {
		place = place.Append([]byte(s))
	}
	return place
}

var header = Header{Policy: 0x01020304, Write: [16]byte{5, 6, 7}}

func TestRoundTrip(t *testing.T) {
	s := newSealer(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		plaintext := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "plaintext")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "prefix")
		h := Header{Policy: rapid.Uint32().Draw(t, "policy")}
		copy(h.Write[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "write"))
		var place Place
		for _, part := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 0, 4).Draw(t, "place") {
			place = place.Append(part)
		}
		sealed := s.Seal(bytes.Clone(prefix), h, plaintext, place)
		require.Len(t, sealed, len(prefix)+len(plaintext)+Overhead)
		require.True(t, bytes.HasPrefix(sealed, prefix), "Seal appends")

		peeked, err := PeekHeader(sealed[len(prefix):])
		require.NoError(t, err)
		require.Equal(t, h, peeked)
		opened, got, err := s.Open(bytes.Clone(prefix), sealed[len(prefix):], place)
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.Equal(t, append(bytes.Clone(prefix), plaintext...), append([]byte{}, opened...), "Open appends")
	})
}

// HKDF-SHA256 of 32 bytes of 0x07, computed by hmac and hashlib of Python.
const (
	pinnedKeyID     = "0b8924001d12a89786cbd7e0fc60b0d1"
	pinnedCipherKey = "bfe457a11e64f36a1f9c6c58adc4fe89976d0dbc2b95ff7a84586d408958b4de"
)

// The format stays readable: a value put together from the documented layout, with the cipher
// alone and keys that were derived apart, opens.
func TestFormatIsPinned(t *testing.T) {
	s := newSealer(t, 7)
	id := s.KeyID()
	require.Equal(t, pinnedKeyID, hex.EncodeToString(id[:]))

	place := parts("table", "row", "column")
	require.Equal(t, "000000057461626c6500000003726f7700000006636f6c756d6e", hex.EncodeToString(place))

	cipherKey, err := hex.DecodeString(pinnedCipherKey)
	require.NoError(t, err)
	aead, err := chacha20poly1305.NewX(cipherKey)
	require.NoError(t, err)
	head := append([]byte{1, 2, 3, 4}, header.Write[:]...)
	nonce := bytes.Repeat([]byte{9}, 24)
	sealed := append([]byte{2}, id[:]...)
	sealed = append(sealed, head...)
	sealed = append(sealed, nonce...)
	sealed = aead.Seal(sealed, nonce, []byte("hello"), append(bytes.Clone(place), head...))
	require.Len(t, sealed, 5+77)

	opened, h, err := s.Open(nil, sealed, place)
	require.NoError(t, err)
	require.Equal(t, "hello", string(opened))
	require.Equal(t, header, h)
}

// In every byte, the header included.
func TestEveryChangedByteIsNoticed(t *testing.T) {
	s := newSealer(t, 1)
	place := parts("t", "row", "c")
	sealed := s.Seal(nil, header, []byte("eight by"), place)
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			opened, _, err := s.Open(nil, changed, place)
			require.Nil(t, opened)
			want := ErrTampered
			switch {
			case i == 0:
				want = ErrFormat
			case i < 1+KeyIDSize:
				want = ErrWrongKey
			}
			require.ErrorIs(t, err, want, "byte %d, bit %d", i, bit)
		}
	}
}

func TestEveryTruncationAndExtensionIsNoticed(t *testing.T) {
	s := newSealer(t, 1)
	sealed := s.Seal(nil, header, []byte("eight by"), nil)
	for n := range sealed {
		_, _, err := s.Open(nil, sealed[:n], nil)
		require.ErrorIs(t, err, ErrTampered, "cut to %d bytes", n)
		_, err = PeekHeader(sealed[:n])
		require.Equal(t, n < Overhead, errors.Is(err, ErrTampered), "cut to %d bytes", n)
	}
	_, _, err := s.Open(nil, append(bytes.Clone(sealed), 0), nil)
	require.ErrorIs(t, err, ErrTampered)
}

func TestMovedValuesAreNoticed(t *testing.T) {
	s := newSealer(t, 1)
	// No two of these lists are the same place, though the bytes of many run together alike.
	places := []Place{
		nil, parts(""), parts("", ""), parts("ab", "c"), parts("a", "bc"), parts("abc"), parts("a", "b", "c"),
		parts("ab", "c", ""), parts("", "ab", "c"), parts("c", "ab"), parts("\x00\x00\x00\x01a"), parts("a"),
	}
	for i, from := range places {
		sealed := s.Seal(nil, header, []byte("v"), from)
		for j, to := range places {
			opened, _, err := s.Open(nil, sealed, to)
			if i == j {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, ErrTampered, "from %q to %q", from, to)
			require.Nil(t, opened)
		}
	}
}

// The header follows the place in the associated data. It has a fixed length and the parts of a
// place have theirs before them, so that no byte passes from one to the other: a header that is
// shifted into the place is another place.
func TestPlaceAndHeaderDoNotRunTogether(t *testing.T) {
	s := newSealer(t, 1)
	sealed := s.Seal(nil, header, []byte("v"), parts("row"))
	head := sealed[1+KeyIDSize : 1+KeyIDSize+20]
	for n := 1; n <= len(head); n++ {
		_, _, err := s.Open(nil, sealed, append(parts("row"), head[:n]...))
		require.ErrorIs(t, err, ErrTampered)
	}
}

func TestWrongKeyIsToldFromTampering(t *testing.T) {
	a, b := newSealer(t, 1), newSealer(t, 2)
	require.NotEqual(t, a.KeyID(), b.KeyID())
	_, _, err := b.Open(nil, a.Seal(nil, header, []byte("v"), nil), nil)
	require.ErrorIs(t, err, ErrWrongKey)
	require.NotErrorIs(t, err, ErrTampered)
}

func TestNothingOfThePlaintextIsLeftAfterAnError(t *testing.T) {
	s := newSealer(t, 1)
	plaintext := []byte("a plaintext that is easy to find")
	sealed := s.Seal(nil, header, plaintext, nil)
	sealed[len(sealed)-1] ^= 1
	dst := make([]byte, 0, 1000)
	_, _, err := s.Open(dst, sealed, nil)
	require.ErrorIs(t, err, ErrTampered)
	require.NotContains(t, string(dst[:cap(dst)]), "plaintext")
}

func TestKeysOfOtherLengthsAreRefused(t *testing.T) {
	for _, n := range []int{0, 16, KeySize - 1, KeySize + 1} {
		_, err := New(make([]byte, n))
		require.Error(t, err, "%d bytes", n)
	}
}

func TestNoncesDiffer(t *testing.T) {
	s := newSealer(t, 1)
	seen := map[string]bool{}
	for range 1000 {
		nonce := s.Seal(nil, header, nil, nil)[headerEnd:bodyStart]
		require.False(t, seen[string(nonce)])
		seen[string(nonce)] = true
	}
}

func TestConcurrentUse(t *testing.T) {
	s := newSealer(t, 1)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			place := parts(fmt.Sprint(g))
			for i := range 100 {
				want := fmt.Sprint(g, i)
				got, _, err := s.Open(nil, s.Seal(nil, header, []byte(want), place), place)
				if err != nil || string(got) != want {
					t.Errorf("goroutine %d: %q, %v", g, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzOpen looks for bytes that open although they were never sealed.
func FuzzOpen(f *testing.F) {
	s, err := New(testKey(1))
	require.NoError(f, err)
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{2}, Overhead))
	f.Add(append(append([]byte{2}, s.id[:]...), make([]byte, Overhead)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := s.Open(nil, b, nil); err == nil {
			t.Errorf("%x opens", b)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{8, 32, 1024} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s, place, plaintext := newSealer(b, 1), benchmarkPlace(), make([]byte, size)
			var dst []byte
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				dst = s.Seal(dst[:0], header, plaintext, place)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{8, 32, 1024} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			s, place := newSealer(b, 1), benchmarkPlace()
			sealed := s.Seal(nil, header, make([]byte, size), place)
			var dst []byte
			var err error
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if dst, _, err = s.Open(dst[:0], sealed, place); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchmarkPlace is as long as that of a cell of a table, with room for the header.
func benchmarkPlace() Place {
	return slices.Grow(parts("cell", "0123456789abcdef", "0123456789abcdef01234567", "v"), 32)
}
