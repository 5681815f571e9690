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
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"
)

// The format of a sealed value:
//
//	offset  bytes
//	0       1    format, 2
//	1       16   key ID: HKDF-SHA256(key, info "rangecrypt/seal/2 id")
//	17      4    policy version, big-endian
//	21      16   write id
//	37      24   nonce, random
//	61      n    plaintext XOR key stream
//	61+n    16   Poly1305 tag
//
// The cipher's key is HKDF-SHA256(key, info "rangecrypt/seal/2 key"), and the associated data is
// the encoded place, followed by the policy version and the write id. Format and key ID are not
// repeated in the associated data: another format would be opened with another derived key, and a
// key ID that is not exactly ours is refused.
//
// A first byte of 1 is kept for values that are not sealed, which have the same header without
// the key ID, so that the two are never taken for each other.
const (
	format    = 2
	idEnd     = 1 + KeyIDSize
	headerEnd = idEnd + HeaderSize
	bodyStart = headerEnd + nonceSize
	nonceSize = chacha20poly1305.NonceSizeX
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = 32

	// KeyIDSize is the length of a key ID in bytes.
	KeyIDSize = 16

	// HeaderSize is by how many bytes Seal and Open lengthen a place, in its spare capacity if it
	// has as much.
	HeaderSize = 4 + 16

	// Overhead is by how many bytes a sealed value is longer than its plaintext.
	Overhead = bodyStart + chacha20poly1305.Overhead
)

// Errors of [Sealer.Open]. They are returned wrapped; use errors.Is.
var (
	// ErrFormat is returned when the value was made by a newer format.
	ErrFormat = errors.New("seal: not a sealed value of a known format")

	// ErrWrongKey is returned when the value was sealed under another key.
	ErrWrongKey = errors.New("seal: sealed under another key")

	// ErrTampered is returned when the value was changed or cut short, or was sealed for another place.
	ErrTampered = errors.New("seal: changed, or moved from another place")
)

// A KeyID names a key without telling anything about it, and commits to it: it is practically
// impossible to make two keys of one ID (the best attack takes about 2^64 evaluations of HKDF
// for one collision). Poly1305 alone does not commit; without the ID, a sealed value could be
// crafted that opens under two keys, to two plaintexts.
type KeyID [KeyIDSize]byte

// A Header is what can be read of a sealed value without its key. It is authenticated.
type Header struct {
	Policy uint32   // version of the policy that the value was written under
	Write  [16]byte // random id of the write, the same in all values of one write
}

// A Sealer seals and opens values under one key. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
	id   KeyID
}

// New returns the Sealer for a key of 32 bytes that is used for nothing else. The key is not
// kept.
func New(key []byte) (*Sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("seal: the key has %d bytes, need %d", len(key), KeySize)
	}
	cipherKey, err := hkdf.Key(sha256.New, key, nil, "rangecrypt/seal/2 key", chacha20poly1305.KeySize)
	if err != nil {
		return nil, fmt.Errorf("seal: derive the cipher's key: %w", err)
	}
	id, err := hkdf.Key(sha256.New, key, nil, "rangecrypt/seal/2 id", KeyIDSize)
	if err != nil {
		return nil, fmt.Errorf("seal: derive the key ID: %w", err)
	}
	aead, err := chacha20poly1305.NewX(cipherKey)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &Sealer{aead, KeyID(id)}, nil
}

// KeyID returns the ID of the Sealer's key.
func (s *Sealer) KeyID() KeyID { return s.id }

// Seal appends the sealed plaintext with its header to dst and returns the extended slice, which
// is longer by len(plaintext) + [Overhead]. It allocates no more than dst and place need to grow,
// and a few bytes inside the cipher. plaintext must not overlap dst's spare capacity, and place's
// spare capacity is written to.
func (s *Sealer) Seal(dst []byte, h Header, plaintext []byte, place Place) []byte {
	dst = slices.Grow(dst, Overhead+len(plaintext))
	dst = append(dst, format)
	dst = append(dst, s.id[:]...)
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, h.Policy)
	dst = append(dst, h.Write[:]...)
	ad := append(place, dst[start:]...)
	nonce := dst[len(dst) : len(dst)+nonceSize]
	rand.Read(nonce) // never fails, as documented
	return s.aead.Seal(dst[:len(dst)+nonceSize], nonce, plaintext, ad)
}

// Open appends the plaintext of a sealed value to dst and returns the extended slice, and the
// header. After an error, which is [ErrFormat], [ErrWrongKey] or [ErrTampered], it returns nil and
// a header not to be trusted, and dst's spare capacity holds nothing of the plaintext. sealed must
// not overlap dst's spare capacity, and place's spare capacity is written to.
func (s *Sealer) Open(dst, sealed []byte, place Place) ([]byte, Header, error) {
	h, err := PeekHeader(sealed)
	if err != nil {
		return nil, h, err
	}
	if KeyID(sealed[1:idEnd]) != s.id { // neither is a secret
		return nil, h, ErrWrongKey
	}
	ad := append(place, sealed[idEnd:headerEnd]...)
	plaintext, err := s.aead.Open(dst, sealed[headerEnd:bodyStart], sealed[bodyStart:], ad)
	if err != nil {
		return nil, h, ErrTampered
	}
	return plaintext, h, nil
}

// PeekHeader returns the header of a sealed value without authenticating it. The error is
// [ErrFormat] or, of one that is cut short, [ErrTampered].
func PeekHeader(sealed []byte) (Header, error) {
	var h Header
	switch {
	case len(sealed) < Overhead: // no format has less
		return h, fmt.Errorf("%w: it has %d bytes, at least %d are needed", ErrTampered, len(sealed), Overhead)
	case sealed[0] != format:
		return h, fmt.Errorf("%w: format %d, known is %d", ErrFormat, sealed[0], format)
	}
	h.Policy = binary.BigEndian.Uint32(sealed[idEnd:])
	copy(h.Write[:], sealed[idEnd+4:])
	return h, nil
}

// PeekKeyID returns the ID of the key of a sealed value without authenticating it. Errors are those of
// [PeekHeader].
func PeekKeyID(sealed []byte) (KeyID, error) {
	if _, err := PeekHeader(sealed); err != nil {
		return KeyID{}, err
	}
	return KeyID(sealed[1:idEnd]), nil
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
