// Package seal encrypts and authenticates what a table stores beside its order-preserving
// ciphertexts, and binds each sealed value to the place where it stands.
//
// A sealed value opens only under the key that sealed it, only unchanged, and only at the [Place]
// that it was sealed for: whoever holds the database cannot alter a cell, nor copy it to another
// row, column or table, without the reader noticing. What is not noticed is a cell that was
// removed, or replaced by an older sealed value of the same place.
//
// The cipher is XChaCha20-Poly1305 (RFC 8439 with the extended nonce of
// draft-irtf-cfrg-xchacha-03) under a random 192-bit nonce, so that any number of independent
// clients may share a key: after 2^80 messages the probability that two nonces were equal is
// still only about 2^-33.
//
// The length of the plaintext is not hidden.
package seal

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"
)

// The first format:
//
//	offset  bytes
//	0       1    format, 1
//	1       16   key ID: HKDF-SHA256(key, info "rangecrypt/seal/1 id")
//	17      24   nonce, random
//	41      n    plaintext XOR key stream
//	41+n    16   Poly1305 tag
//
// The cipher's key is HKDF-SHA256(key, info "rangecrypt/seal/1 key"), and the associated data is
// the encoded place. Format and key ID are not repeated in the associated data: another format
// would be opened with another derived key, and a key ID that is not exactly ours is refused.
const (
	format1   = 1
	nonceSize = chacha20poly1305.NonceSizeX
	headSize  = 1 + KeyIDSize
	bodyStart = headSize + nonceSize
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = 32

	// KeyIDSize is the length of a key ID in bytes.
	KeyIDSize = 16

	// Overhead is by how many bytes a sealed value is longer than its plaintext.
	Overhead = bodyStart + chacha20poly1305.Overhead
)

// Errors of [Sealer.Open]. They are returned wrapped; use errors.Is.
var (
	// ErrFormat is returned when the bytes are no sealed value, are cut short, or were made by a
	// newer format.
	ErrFormat = errors.New("seal: not a sealed value of a known format")

	// ErrWrongKey is returned when the value was sealed under another key.
	ErrWrongKey = errors.New("seal: sealed under another key")

	// ErrTampered is returned when the value was changed, or was sealed for another place.
	ErrTampered = errors.New("seal: changed, or moved from another place")
)

// A KeyID names a key without telling anything about it, and commits to it: it is practically
// impossible to make two keys of one ID (the best attack takes about 2^64 evaluations of HKDF
// for one collision). Poly1305 alone does not commit; without the ID, a sealed value could be
// crafted that opens under two keys, to two plaintexts.
type KeyID [KeyIDSize]byte

// A Sealer seals and opens values under one key. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
	head [headSize]byte
}

// New returns the Sealer for a key of 32 bytes that is used for nothing else. The key is not
// kept.
func New(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("seal: the key has %d bytes, need %d", len(key), KeySize)
	}
	cipherKey, err := hkdf.Key(sha256.New, key, nil, "rangecrypt/seal/1 key", chacha20poly1305.KeySize)
	if err != nil {
		return nil, fmt.Errorf("seal: derive the cipher's key: %w", err)
	}
	id, err := hkdf.Key(sha256.New, key, nil, "rangecrypt/seal/1 id", KeyIDSize)
	if err != nil {
		return nil, fmt.Errorf("seal: derive the key ID: %w", err)
	}
	aead, err := chacha20poly1305.NewX(cipherKey)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	s := &Sealer{aead: aead}
	s.head[0] = format1
	copy(s.head[1:], id)
	return s, nil
}

// KeyID returns the ID of the Sealer's key.
func (s *Sealer) KeyID() KeyID { return KeyID(s.head[1:]) }

// Seal appends the sealed plaintext to dst and returns the extended slice, which is longer by
// len(plaintext) + [Overhead]. It allocates no more than dst needs to grow, and a few bytes
// inside the cipher. plaintext must not overlap dst's spare capacity.
func (s *Sealer) Seal(dst, plaintext []byte, place Place) []byte {
	dst = slices.Grow(dst, Overhead+len(plaintext))
	dst = append(dst, s.head[:]...)
	nonce := dst[len(dst) : len(dst)+nonceSize]
	rand.Read(nonce) // never fails, as documented
	dst = dst[:len(dst)+nonceSize]
	return s.aead.Seal(dst, nonce, plaintext, place)
}

// Open appends the plaintext of a sealed value to dst and returns the extended slice. After an
// error, which is [ErrFormat], [ErrWrongKey] or [ErrTampered], it returns nil, and dst's spare
// capacity holds nothing of the plaintext. sealed must not overlap dst's spare capacity.
func (s *Sealer) Open(dst, sealed []byte, place Place) ([]byte, error) {
	switch {
	case len(sealed) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	case sealed[0] != format1:
		return nil, fmt.Errorf("%w: format %d, known is %d", ErrFormat, sealed[0], format1)
	case len(sealed) < Overhead:
		return nil, fmt.Errorf("%w: it has %d bytes, at least %d are needed", ErrFormat, len(sealed), Overhead)
	case subtle.ConstantTimeCompare(sealed[1:headSize], s.head[1:]) != 1:
		return nil, ErrWrongKey
	}
	plaintext, err := s.aead.Open(dst, sealed[headSize:bodyStart], sealed[bodyStart:], place)
	if err != nil {
		return nil, ErrTampered
	}
	return plaintext, nil
}

// A Place says where a sealed value stands, as a list of byte strings: table, row key, column and
// whatever else tells it from all other values under the same key. Different lists are different
// places: each part is preceded by its length, as a big-endian uint32. Name tables and columns by
// IDs that never change and are never given to another, since a sealed value cannot be renamed.
//
// The nil Place is the empty list.
type Place []byte

// Append returns the place p with further parts. Like the built-in append it may write to the
// spare capacity of p.
func (p Place) Append(parts ...[]byte) Place {
	for _, part := range parts {
		p = binary.BigEndian.AppendUint32(p, uint32(len(part)))
		p = append(p, part...)
	}
	return p
}
