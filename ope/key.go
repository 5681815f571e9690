package ope

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// KeySize is the length of a key's secret in bytes.
const KeySize = 32

// A Key is a 256-bit secret from which the keys of schemes and cells are derived. It prints as a
// placeholder in every format and log. Keys are compared with [Key.Equal], not with ==. The zero
// Key holds no secret: functions that take a key refuse it with [ErrKey], and its own Secret, Derive and Expand panic.
type Key struct {
	// In a function, which no printer and no reflection can look into. fmt does not call
	// methods on unexported fields, and where the verb does not suit a pointer, as in %s, it
	// prints what the pointer points to.
	secret func() *[KeySize]byte
}

func holding(secret *[KeySize]byte) Key {
	return Key{func() *[KeySize]byte { return secret }}
}

// GenerateKey returns a new random key.
func GenerateKey() Key {
	secret := new([KeySize]byte)
	rand.Read(secret[:]) // never fails, as documented
	return holding(secret)
}

// NewKey returns the key with a copy of secret, which must be 32 bytes from a cryptographic
// random source or a key-derivation function. It is not for passphrases.
func NewKey(secret []byte) (Key, error) {
	if len(secret) != KeySize {
		return Key{}, fmt.Errorf("%w: the secret has %d bytes, need %d", ErrKey, len(secret), KeySize)
	}
	return holding((*[KeySize]byte)(append([]byte(nil), secret...))), nil
}

// IsZero reports whether k is the zero Key, which holds no secret.
func (k Key) IsZero() bool { return k.secret == nil }

// Equal reports in constant time whether two keys have the same secret. Zero keys are equal only
// to zero keys.
func (k Key) Equal(other Key) bool {
	if k.IsZero() || other.IsZero() {
		return k.IsZero() && other.IsZero()
	}
	return subtle.ConstantTimeCompare(k.secret()[:], other.secret()[:]) == 1
}

// Secret returns a copy of the secret. It panics for the zero Key.
func (k Key) Secret() []byte {
	k.mustHold()
	return append([]byte(nil), k.secret()[:]...)
}

// Derive returns the key for the purpose that the labels name. Different lists of labels give
// independent keys; neither key shows anything of the other. It panics for the zero Key.
//
// It is HKDF-SHA256 (RFC 5869) with no salt and, as info, "rangecrypt/key/1" followed by each
// label preceded by its length in bytes as a big-endian uint32.
func (k Key) Derive(labels ...string) Key {
	return holding((*[KeySize]byte)(k.Expand(KeySize, labels...)))
}

// Expand returns n bytes for the purpose that the labels name, as [Key.Derive] does for n = 32.
// n is 0 to 8160, and it panics for another, and for the zero Key. A longer expansion begins with the shorter one:
// give every purpose its own labels.
func (k Key) Expand(n int, labels ...string) []byte {
	k.mustHold()
	if n < 0 || n > 255*sha256.Size {
		panic(fmt.Sprintf("ope: Expand to %d bytes, need 0 to %d", n, 255*sha256.Size))
	}
	info := []byte("rangecrypt/key/1")
	for _, label := range labels {
		info = binary.BigEndian.AppendUint32(info, uint32(len(label)))
		info = append(info, label...)
	}
	out, err := hkdf.Key(sha256.New, k.secret()[:], nil, string(info), n)
	if err != nil {
		panic("ope: " + err.Error()) // the length is one that there is
	}
	return out
}

func (k Key) mustHold() {
	if k.IsZero() {
		panic("ope: use of a zero Key")
	}
}

const keyPlaceholder = "ope.Key(secret)"

// Format implements fmt.Formatter: every verb prints a placeholder.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// String returns a placeholder.
func (k Key) String() string {
	if k.IsZero() {
		return "ope.Key(zero)"
	}
	return keyPlaceholder
}

// LogValue implements slog.LogValuer with a placeholder.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText refuses, so that no encoder writes a key by accident. Use [Key.Secret] where the
// secret is really meant to be stored.
func (k Key) MarshalText() ([]byte, error) {
	return nil, errors.New("ope: a Key is not marshalled; use Secret to store it on purpose")
}
