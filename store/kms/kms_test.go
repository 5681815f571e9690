package kms

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/internal/secretfile"
	"github.com/rangecrypt/rangecrypt/ope"
)

var background = context.Background()

// cheap is the least that Argon2id can cost.
var cheap = cost{passes: 1, memory: leastLane, lanes: 1}

func testKey(t testing.TB, fill byte) ope.Key {
	t.Helper()
	key, err := ope.NewKey(bytes.Repeat([]byte{fill}, ope.KeySize))
	require.NoError(t, err)
	return key
}

func local(t testing.TB, fill byte) *Local {
	t.Helper()
	return NewLocal(testKey(t, fill))
}

func passphrase(t testing.TB, text string) *Passphrase {
	t.Helper()
	p, err := NewPassphrase([]byte(text))
	require.NoError(t, err)
	return p
}

// keeper is what package store asks of a key management service.
type keeper interface {
	Wrap(ctx context.Context, key []byte) ([]byte, error)
	Unwrap(ctx context.Context, wrapped []byte) ([]byte, error)
}

var theKey = bytes.Repeat([]byte("key!"), ope.KeySize/4)

// cheaply wraps at the least cost, so that a test can do it often.
type cheaply struct{ *Passphrase }

func (c cheaply) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	return c.wrap(ctx, key, cheap)
}

func TestWhatIsWrappedIsUnwrapped(t *testing.T) {
	for name, k := range map[string]keeper{"local": local(t, 1), "passphrase": cheaply{passphrase(t, "correct horse")}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				key := rapid.SliceOfN(rapid.Byte(), ope.KeySize, ope.KeySize).Draw(t, "key")
				wrapped, err := k.Wrap(background, key)
				require.NoError(t, err)
				require.NotContains(t, string(wrapped), string(key))
				again, err := k.Wrap(background, key)
				require.NoError(t, err)
				require.NotEqual(t, wrapped, again, "a nonce or salt is used twice")
				got, err := k.Unwrap(background, wrapped)
				require.NoError(t, err)
				require.Equal(t, string(key), string(got))
			})
		})
	}
}

// Wrapped keys of version 0 are read for ever. The passphrase's was put together by hand.
func TestFormatIsPinned(t *testing.T) {
	place := append([]byte{0, 0, 0, 12}, "database key"...)
	master := testKey(t, 1)
	s, err := seal.New(master.Derive("wrap").Secret())
	require.NoError(t, err)
	key, err := local(t, 1).Unwrap(background, s.Seal(nil, seal.Header{Policy: 7}, []byte("the key"), place))
	require.NoError(t, err)
	require.Equal(t, "the key", string(key))
	require.Equal(t, s.KeyID(), seal.KeyID(local(t, 1).ID()))

	header, err := hex.DecodeString("70" + "13" + "00000003" + "00000100" + "04" + "000102030405060708090a0b0c0d0e0f")
	require.NoError(t, err)
	// Argon2id of 32 bytes: time 3, memory 256 KiB, 4 lanes, version 0x13; by package cryptography of Python.
	secret, err := hex.DecodeString("6bd130685e8219e8642e74b685c653121e885fbf945bc97752f578f1f084a37d")
	require.NoError(t, err)
	master, err = ope.NewKey(secret)
	require.NoError(t, err)
	s, err = seal.New(master.Derive("wrap").Secret())
	require.NoError(t, err)
	at := append(bytes.Clone(place), 0, 0, 0, 27)
	at = append(at, header...)
	key, err = passphrase(t, "correct horse").Unwrap(background, s.Seal(bytes.Clone(header), seal.Header{}, []byte("the key"), at))
	require.NoError(t, err)
	require.Equal(t, "the key", string(key))

	wrapped, err := passphrase(t, "correct horse").Wrap(background, theKey)
	require.NoError(t, err)
	require.Equal(t, "70"+"13"+"00000003"+"00010000"+"04", hex.EncodeToString(wrapped[:costEnd]), "what RFC 9106 recommends second")
	require.Len(t, wrapped, wrappedEnd+seal.Overhead+ope.KeySize)
}

func TestOtherMasterKeysAreTold(t *testing.T) {
	right, err := local(t, 1).Wrap(background, theKey)
	require.NoError(t, err)
	_, err = local(t, 2).Unwrap(background, right)
	require.ErrorIs(t, err, ErrWrongKey)
	require.NotErrorIs(t, err, ErrTampered)
	require.NotEqual(t, local(t, 1).ID(), local(t, 2).ID())

	said, err := passphrase(t, "correct horse").wrap(background, []byte("key"), cheap)
	require.NoError(t, err)
	for _, other := range []string{"Correct horse", "correct horse ", "battery staple"} {
		_, err = passphrase(t, other).Unwrap(background, said)
		require.ErrorIs(t, err, ErrWrongKey)
		require.NotContains(t, err.Error(), other)
	}

	// One is not taken for the other, and the message says which is wanted.
	_, err = local(t, 1).Unwrap(background, said)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "with a passphrase, not with a key")
	_, err = passphrase(t, "correct horse").Unwrap(background, right)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "with a key, not with a passphrase")
}

// Whoever changes a byte of a wrapped key makes it useless, and no more than that.
func TestEveryChangedByteIsNoticed(t *testing.T) {
	for name, k := range map[string]keeper{"local": local(t, 1), "passphrase": cheaply{passphrase(t, "correct horse")}} {
		t.Run(name, func(t *testing.T) {
			wrapped, err := k.Wrap(background, theKey)
			require.NoError(t, err)
			for i := range wrapped {
				for bit := range 8 {
					if name == "passphrase" && i >= 2 && i < costEnd && !changesLittle(i, bit) {
						continue // would cost much; TestHostileCosts
					}
					changed := bytes.Clone(wrapped)
					changed[i] ^= 1 << bit
					key, err := k.Unwrap(background, changed)
					require.Nil(t, key, "byte %d, bit %d", i, bit)
					require.True(t, isAny(err, ErrWrongKey, ErrTampered, ErrFormat), "byte %d, bit %d: %v", i, bit, err)
				}
				key, err := k.Unwrap(background, wrapped[:i])
				require.Nil(t, key)
				require.True(t, isAny(err, ErrTampered, ErrFormat), "%d bytes: %v", i, err)
			}
			key, err := k.Unwrap(background, append(bytes.Clone(wrapped), 0))
			require.Nil(t, key)
			require.ErrorIs(t, err, ErrTampered)
		})
	}
}

// changesLittle reports whether a bit of the cost raises it by no more than a MiB.
func changesLittle(i, bit int) bool {
	return i == 5 && bit < 7 || i == 8 && bit < 2 || i == 9 || i == 10
}

// isAny reports whether err is one of them.
func isAny(err error, of ...error) bool {
	for _, target := range of {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// The header is bound: a passphrase that derives the same key from another header opens nothing.
// Without it in the place, a copy with another header would pass for another wrapped key.
func TestHeaderIsBound(t *testing.T) {
	p := passphrase(t, "correct horse")
	wrapped, err := p.wrap(background, []byte("the key"), cheap)
	require.NoError(t, err)
	s, err := p.sealer(background, cheap, wrapped[costEnd:wrappedEnd])
	require.NoError(t, err)
	_, err = unwrap(s, wrapped[wrappedEnd:], place(wrapped[:wrappedEnd]))
	require.NoError(t, err)
	_, err = unwrap(s, wrapped[wrappedEnd:], place())
	require.ErrorIs(t, err, ErrTampered)
}

// A database that asks for more than a client can bear is refused at once.
func TestHostileCosts(t *testing.T) {
	p := passphrase(t, "correct horse")
	honest, err := p.wrap(background, []byte("the key"), cheap)
	require.NoError(t, err)
	refused := func(passes, memory uint32, lanes uint8) {
		t.Helper()
		wrapped := bytes.Clone(honest)
		binary.BigEndian.PutUint32(wrapped[2:], passes)
		binary.BigEndian.PutUint32(wrapped[6:], memory)
		wrapped[10] = lanes
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := p.Unwrap(background, wrapped)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrFormat, "%d passes, %d KiB, %d lanes", passes, memory, lanes)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	}
	const all = 1<<32 - 1
	refused(1, all, 1) // four TiB
	refused(1, mostMemory+1, 4)
	refused(all, all, 255)
	refused(all, 64, 1)
	refused(mostWork/64+1, 64, 1)
	refused(3, mostMemory, 4)
	refused(1, 64<<10, mostLanes+1)
	refused(1, leastLane*4-1, 4)
	refused(0, 64, 1)
	refused(1, 64, 0)
	refused(1, 0, 1)

	for _, c := range []cost{usual, {passes: 1, memory: 2 << 20, lanes: 4}} { // both of RFC 9106
		require.NoError(t, c.check())
	}
}

// FuzzUnwrap: what a database gives out as wrapped keys neither panics nor costs much, and opens
// only if we made it.
func FuzzUnwrap(f *testing.F) {
	p, l := passphrase(f, "correct horse"), local(f, 1)
	for _, k := range []keeper{l, cheaply{p}} {
		wrapped, err := k.Wrap(background, theKey)
		require.NoError(f, err)
		f.Add(wrapped)
	}
	f.Add([]byte{})
	f.Add([]byte("p\x13"))
	f.Fuzz(func(t *testing.T, wrapped []byte) {
		if len(wrapped) >= wrappedEnd {
			c := cost{binary.BigEndian.Uint32(wrapped[2:]), binary.BigEndian.Uint32(wrapped[6:]), wrapped[10]}
			if c.check() == nil && c.passes*c.memory > 1<<14 {
				t.Skip("allowed, and slow")
			}
		}
		for _, k := range []keeper{l, p} {
			key, err := k.Unwrap(background, wrapped)
			if err == nil {
				require.Equal(t, string(theKey), string(key))
				continue
			}
			require.Nil(t, key)
			require.True(t, isAny(err, ErrWrongKey, ErrTampered, ErrFormat), "%v", err)
		}
	})
}

// Who tries passphrases has to try them for each database anew.
func TestSaltIsDrawn(t *testing.T) {
	salts := make(map[string]bool)
	for range 3 {
		wrapped, err := passphrase(t, "x").wrap(background, make([]byte, ope.KeySize), cost{1, leastLane, 1})
		require.NoError(t, err)
		salts[string(wrapped[costEnd:wrappedEnd])] = true
	}
	require.Len(t, salts, 3)
}

func TestArgumentsThatHoldNoSecret(t *testing.T) {
	_, err := NewLocal(ope.Key{}).Wrap(background, []byte("key"))
	require.ErrorIs(t, err, ope.ErrKey)
	_, err = NewLocal(ope.Key{}).Unwrap(background, []byte("wrapped"))
	require.ErrorIs(t, err, ope.ErrKey)
	require.Zero(t, NewLocal(ope.Key{}).ID())
	said, err := NewPassphrase([]byte("correct horse"))
	require.NoError(t, err)
	for _, key := range [][]byte{nil, []byte("key"), make([]byte, 33)} {
		for _, k := range []KMS{NewLocal(ope.GenerateKey()), said} {
			_, err := k.Wrap(background, key)
			require.ErrorIs(t, err, ope.ErrKey)
			require.ErrorContains(t, err, fmt.Sprintf("it has %d bytes", len(key)))
		}
	}
	_, err = NewPassphrase(nil)
	require.ErrorContains(t, err, "empty")

	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = passphrase(t, "x").Wrap(ctx, make([]byte, ope.KeySize))
	require.ErrorIs(t, err, context.Canceled)
}

// Neither prints.
func TestSecretsDoNotPrint(t *testing.T) {
	const text = "correct horse"
	p := passphrase(t, text)
	key := testKey(t, 'k')
	l := NewLocal(key)
	for _, v := range []any{p, *p, []any{p}, struct{ P *Passphrase }{p}, l, *l} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
			printed := fmt.Sprintf(verb, v)
			for _, secret := range []string{text, string(key.Secret()), hex.EncodeToString([]byte(text)), strings.Repeat("107 ", 4), "99 111 114 114"} {
				require.NotContains(t, strings.ToLower(printed), secret, "%T with %s", v, verb)
			}
		}
	}
	//lint:ignore SA9005 that there is nothing to show is what is tested
	b, err := json.Marshal(p)
	require.NoError(t, err)
	require.Equal(t, "{}", string(b))
}

func TestKeyFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	_, err := ReadFile(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "there is no key file "+name)

	key := ope.GenerateKey()
	require.ErrorIs(t, WriteFile(name, ope.Key{}), ope.ErrKey)
	require.NoFileExists(t, name)
	require.NoError(t, WriteFile(name, key))
	info, err := os.Stat(name)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	}
	got, err := ReadFile(name)
	require.NoError(t, err)
	require.True(t, got.Equal(key))

	// It may be the only copy.
	err = WriteFile(name, ope.GenerateKey())
	require.ErrorIs(t, err, fs.ErrExist)
	got, err = ReadFile(name)
	require.NoError(t, err)
	require.True(t, got.Equal(key))

	require.Error(t, WriteFile(filepath.Join(name, "below a file"), key))

	if runtime.GOOS == "windows" {
		return
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o666} {
		require.NoError(t, os.Chmod(name, mode))
		_, err := ReadFile(name)
		require.ErrorContains(t, err, "chmod 600 "+name, "%04o", mode)
		require.NotErrorIs(t, err, fs.ErrNotExist)
	}
	require.NoError(t, os.Chmod(name, 0o400))
	_, err = ReadFile(name)
	require.NoError(t, err)
}

// FuzzKeyFile: a file is read as a key only if it holds the digits of that key and white space. What is
// refused is not shown.
func FuzzKeyFile(f *testing.F) {
	name := filepath.Join(f.TempDir(), "key")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(name, text, 0o600))
		key, err := ReadFile(name)
		text, marked := bytes.CutPrefix(text, []byte("\xef\xbb\xbf"))
		digits := string(bytes.TrimSpace(text))
		if err == nil {
			require.Equal(t, strings.ToLower(digits)+"\n", Encode(key))
			require.LessOrEqual(t, len(text), mostText)
			return
		}
		require.True(t, key.IsZero())
		require.ErrorIs(t, err, ope.ErrKey)
		secret, hexErr := hex.DecodeString(digits)
		require.False(t, hexErr == nil && len(secret) == ope.KeySize && len(text) <= mostText, "a key was refused")
		if !marked && (bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))) {
			require.Equal(t, "kms: "+ope.ErrKey.Error()+": key file "+name+" "+secretfile.ErrUTF16.Error(), err.Error())
			return
		}
		require.Equal(t, "kms: key file "+name+": "+ope.ErrKey.Error()+": need 64 hexadecimal digits", err.Error(), "whatever the text")
	})
}

// What is no key is told without showing a part of it: it may be most of one.
func TestTextsThatAreNoKeys(t *testing.T) {
	digits := strings.TrimSpace(Encode(testKey(t, 0xab)))
	for name, text := range map[string]string{
		"as it is":     digits,
		"line feed":    digits + "\n",
		"Windows":      digits + "\r\n",
		"blanks":       "  " + digits + " \n\n",
		"upper case":   strings.ToUpper(digits),
		"! short":      digits[:62] + "\n",
		"! odd":        digits[:63] + "\n",
		"! long":       digits + "ab",
		"! two keys":   digits + "\n" + digits,
		"! no digit":   digits[:63] + "z",
		"most blanks":  digits + strings.Repeat(" ", 64),
		"! blanks":     digits + strings.Repeat(" ", 65),
		"! more":       digits + strings.Repeat(" ", 64) + "and more",
		"! endless":    strings.Repeat(digits, 100),
		"! passphrase": "hunter2 and what not",
		"! nothing":    "",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			t.Setenv("RANGECRYPT_TEST_KEY", text)
			for _, read := range []func() (ope.Key, error){
				func() (ope.Key, error) { return ReadFile(file) },
				func() (ope.Key, error) { return ReadEnv("RANGECRYPT_TEST_KEY") },
			} {
				key, err := read()
				if !strings.HasPrefix(name, "!") {
					require.NoError(t, err)
					require.True(t, key.Equal(testKey(t, 0xab)))
					continue
				}
				require.ErrorContains(t, err, "64 hexadecimal digits")
				require.NotContains(t, err.Error(), "abab")
				require.NotContains(t, err.Error(), "hunter2")
				require.NotContains(t, err.Error(), "z'")
				require.True(t, key.IsZero())
			}
		})
	}
	_, err := ReadEnv("RANGECRYPT_TEST_KEY_THAT_IS_NOT_THERE")
	require.ErrorContains(t, err, "no variable RANGECRYPT_TEST_KEY_THAT_IS_NOT_THERE")
}

// A folder in the place of a key file is told as what it is, and its mode is left alone.
func TestKeyFileIsAFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadFile(dir)
	require.ErrorContains(t, err, dir+" is a folder; name the key file in it")
	require.NotContains(t, err.Error(), "chmod")
	err = WriteFile(dir, ope.GenerateKey())
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, dir+" is a folder; name a new file in it")
}
