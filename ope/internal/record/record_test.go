package record

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

func sealer(t *testing.T, secret byte, unit ope.Unit) *Sealer {
	t.Helper()
	key, err := ope.NewKey(bytes.Repeat([]byte{secret}, ope.KeySize))
	require.NoError(t, err)
	s, err := New(key, unit)
	require.NoError(t, err)
	return s
}

func TestRoundTrip(t *testing.T) {
	s := sealer(t, 1, "u")
	for _, n := range []int{0, 1, 8, 100} {
		plaintext := bytes.Repeat([]byte{7}, n)
		sealed := s.Seal([]byte("key"), plaintext)
		require.Len(t, sealed, Overhead+n)
		require.NotEqual(t, sealed, s.Seal([]byte("key"), plaintext), "equal values are not seen to be equal")
		got, err := s.Open([]byte("key"), sealed, n)
		require.NoError(t, err)
		require.Equal(t, plaintext, append([]byte{}, got...))

		header := s.SealHeader([]byte{0}, "scheme/1", plaintext)
		got, err = s.OpenHeader([]byte{0}, "scheme/1", header, n)
		require.NoError(t, err)
		require.Equal(t, plaintext, append([]byte{}, got...))
	}
}

// A record opens nowhere else, under no other key, and not with any bit changed.
func TestBinding(t *testing.T) {
	s := sealer(t, 1, "u")
	secret := []byte("a secret")
	sealed := s.Seal([]byte("key"), secret)
	header := s.SealHeader([]byte{0}, "scheme/1", secret)
	refused := func(what string, s *Sealer, key string, sealed []byte) {
		t.Helper()
		_, err := s.Open([]byte(key), sealed, len(secret))
		require.ErrorIs(t, err, ope.ErrIndex, what)
		require.NotContains(t, err.Error(), "secret")
	}
	refused("another key", s, "kez", sealed)
	refused("no key", s, "", sealed)
	refused("a longer key", s, "key\x00", sealed)
	refused("another secret", sealer(t, 2, "u"), "key", sealed)
	refused("another unit", sealer(t, 1, "v"), "key", sealed)
	refused("a byte from the unit to the key", sealer(t, 1, ""), "ukey", sealed)
	refused("a header", s, "\x00", header)
	refused("nothing", s, "key", nil)
	refused("cut short", s, "key", sealed[:len(sealed)-1])
	refused("longer", s, "key", append(bytes.Clone(sealed), 0))
	for bit := range 8 * len(sealed) {
		changed := bytes.Clone(sealed)
		changed[bit/8] ^= 1 << (bit % 8)
		refused("a changed bit", s, "key", changed)
	}
	for bit := range 8 * len(header) {
		changed := bytes.Clone(header)
		changed[bit/8] ^= 1 << (bit % 8)
		_, err := s.OpenHeader([]byte{0}, "scheme/1", changed, len(secret))
		require.ErrorIs(t, err, ope.ErrIndex, "bit %d", bit)
	}
	for n := range header {
		_, err := s.OpenHeader([]byte{0}, "scheme/1", header[:n], len(secret))
		require.ErrorIs(t, err, ope.ErrIndex, "%d bytes", n)
	}
}

// The error says what is wrong.
func TestErrorsTell(t *testing.T) {
	s := sealer(t, 1, "the unit")
	header := s.SealHeader([]byte{0}, "scheme/1", nil)
	tell := func(err error, words ...string) {
		t.Helper()
		require.ErrorIs(t, err, ope.ErrIndex)
		for _, w := range append(words, "the unit") {
			require.Contains(t, err.Error(), w)
		}
	}
	_, err := s.OpenHeader([]byte{0}, "scheme/2", header, 0)
	tell(err, "scheme/1", "scheme/2")
	_, err = s.OpenHeader([]byte{0}, "scheme/1", header, 1)
	tell(err, "186 bytes", "need 187")
	_, err = sealer(t, 2, "the unit").OpenHeader([]byte{0}, "scheme/1", header, 0)
	tell(err, "another key", "another scheme", "scheme/1")
	header[0] = 3
	_, err = s.OpenHeader([]byte{0}, "scheme/1", header, 0)
	tell(err, "format 3", "newer version")
	sealed := s.Seal([]byte{0xab, 0xcd}, nil)
	_, err = s.Open([]byte{0xab, 0xce}, sealed, 0)
	tell(err, "abce")
	sealed[0] = 9
	_, err = s.Open([]byte{0xab, 0xcd}, sealed, 0)
	tell(err, "abcd", "format 9")
}

// A header shows nothing of the scheme, not by its length either.
func TestHeaderIsSealed(t *testing.T) {
	s := sealer(t, 1, "u")
	short := s.SealHeader([]byte{0}, "s", []byte("content"))
	long := s.SealHeader([]byte{0}, strings.Repeat("s", 126), []byte("content"))
	require.Len(t, long, len(short))
	require.Equal(t, short[:17], long[:17], "format and key id")
	for _, header := range [][]byte{short, long} {
		require.NotContains(t, string(header), "ssssssss") // random bytes have two by chance
	}
	for _, n := range []int{0, 125, 126, 127, 128, 1000} {
		scheme := strings.Repeat("s", n)
		got, err := s.OpenHeader([]byte{0}, scheme, s.SealHeader([]byte{0}, scheme, []byte("content")), 7)
		require.NoError(t, err, n)
		require.Equal(t, "content", string(got))
	}
}

// Headers that have the scheme in the clear are read as ever.
func TestHeaderFormat1(t *testing.T) {
	s := sealer(t, 1, "the unit")
	const scheme = "scheme/1 domain=[0,255]"
	before := append(append([]byte{1}, s.id...), 0, byte(len(scheme)))
	before = append(before, scheme...)
	header := append(bytes.Clone(before), s.Seal(append([]byte{0}, before...), []byte("content"))...)
	got, err := s.OpenHeader([]byte{0}, scheme, header, 7)
	require.NoError(t, err)
	require.Equal(t, "content", string(got))
	_, err = s.OpenHeader([]byte{0}, "scheme/1 domain=[0,1]", header, 7)
	require.ErrorIs(t, err, ope.ErrIndex)
	require.ErrorContains(t, err, scheme)
	_, err = sealer(t, 2, "the unit").OpenHeader([]byte{0}, scheme, header, 7)
	require.ErrorIs(t, err, ope.ErrIndex)
	require.ErrorContains(t, err, "another key")
	for bit := range 8 * len(header) {
		changed := bytes.Clone(header)
		changed[bit/8] ^= 1 << (bit % 8)
		_, err := s.OpenHeader([]byte{0}, scheme, changed, 7)
		require.ErrorIs(t, err, ope.ErrIndex, "bit %d", bit)
	}
	for n := range header {
		_, err := s.OpenHeader([]byte{0}, scheme, header[:n], 7)
		require.ErrorIs(t, err, ope.ErrIndex, "%d bytes", n)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := New(ope.Key{}, "u")
	require.ErrorIs(t, err, ope.ErrKey)
	_, err = New(ope.GenerateKey(), ope.Unit(strings.Repeat("u", 65)))
	require.ErrorIs(t, err, ope.ErrParams)
}

// Many records are opened by several goroutines, each as by the Sealer alone.
func TestOpenAll(t *testing.T) {
	s := sealer(t, 1, "u")
	const n, size = 2000, 8
	keys, sealed := make([][]byte, n), make([][]byte, n)
	for i := range keys {
		keys[i] = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i%9)
		sealed[i] = s.Seal(keys[i], binary.BigEndian.AppendUint64(nil, uint64(i)))
	}
	all := func() (opened []uint64, err error) {
		opened = make([]uint64, n)
		return opened, s.OpenAll(n, func(o *Opener, i int) error {
			b, err := o.Open(keys[i], sealed[i], size)
			if err == nil {
				opened[i] = binary.BigEndian.Uint64(b)
			}
			return err
		})
	}
	opened, err := all()
	require.NoError(t, err)
	for i, x := range opened {
		require.Equal(t, uint64(i), x)
	}
	require.NoError(t, s.OpenAll(0, nil))

	// Of several errors it is the first in the order of records, whichever came first.
	var want error
	for _, i := range []int{1900, 1100, 700} {
		sealed[i][bodyPos] ^= 1
		_, want = s.Open(keys[i], sealed[i], size)
	}
	_, err = all()
	require.ErrorIs(t, err, ope.ErrIndex)
	require.EqualError(t, err, want.Error())
}

// What an Opener refuses does not keep it from opening what comes next.
func TestOpenerGoesOn(t *testing.T) {
	s := sealer(t, 1, "u")
	key, sealed := []byte("key"), s.Seal([]byte("key"), []byte("four"))
	require.NoError(t, s.OpenAll(3, func(o *Opener, i int) error {
		if i == 1 {
			_, err := o.Open([]byte("another and longer"), sealed, 4)
			require.ErrorIs(t, err, ope.ErrIndex)
			return nil
		}
		b, err := o.Open(key, sealed, 4)
		require.Equal(t, "four", string(b))
		return err
	}))
}
