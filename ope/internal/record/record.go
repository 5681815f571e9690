// Package record seals the values of the records that a stateful scheme keeps in an [ope.Index],
// and binds each to its unit and key: whoever holds the database cannot alter a record, nor copy
// it to another key or unit, without the reader noticing. What is not noticed is a record that was
// removed, or replaced by an older value of the same key.
//
// A sealed value is longer than its plaintext by [Overhead], whatever the plaintext: a scheme
// whose plaintexts have one length shows nothing by lengths.
//
// The cipher is XChaCha20-Poly1305 (RFC 8439 with the extended nonce of
// draft-irtf-cfrg-xchacha-03) under a random 192-bit nonce, so that any number of independent
// clients may share a key.
package record

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/rangecrypt/rangecrypt/ope"
)

// The format of a sealed value:
//
//	offset  bytes
//	0       1    format, 1
//	1       24   nonce, random
//	25      n    plaintext XOR key stream
//	25+n    16   Poly1305 tag
//
// The associated data is the format, the unit's length in one byte, the unit, and the record's key.
const (
	format  = 1
	bodyPos = 1 + chacha20poly1305.NonceSizeX

	// Overhead is by how many bytes a sealed value is longer than its plaintext.
	Overhead = bodyPos + chacha20poly1305.Overhead
)

// headerID is the length of a header's key ID.
const headerID = 16

// A Sealer seals and opens the values of one unit. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
	unit ope.Unit
	id   []byte // of the key; see SealHeader
}

// New returns the Sealer of a unit. The key is the scheme's own; the keys that are used are
// derived from it.
func New(key ope.Key, unit ope.Unit) (*Sealer, error) {
	if key.IsZero() {
		return nil, fmt.Errorf("%w: it is the zero Key; make one with ope.GenerateKey or ope.NewKey", ope.ErrKey)
	}
	if len(unit) > 64 {
		return nil, fmt.Errorf("%w: the name of an index unit has %d bytes, at most 64 are allowed", ope.ErrParams, len(unit))
	}
	aead, err := chacha20poly1305.NewX(key.Expand(chacha20poly1305.KeySize, "index", "record"))
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return &Sealer{aead, unit, key.Expand(headerID, "index", "key id")}, nil
}

// Seal returns the sealed value for the record with a key.
func (s *Sealer) Seal(key, plaintext []byte) []byte {
	out := make([]byte, bodyPos, Overhead+len(plaintext))
	out[0] = format
	rand.Read(out[1:]) // never fails, as documented
	return s.aead.Seal(out, out[1:bodyPos], plaintext, s.place(key))
}

// Open returns the plaintext, of the given size, of the record with a key. An error is
// [ope.ErrIndex] and tells the place of the record, never what it holds.
func (s *Sealer) Open(key, sealed []byte, size int) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != format {
		return nil, s.refuse(key, newer(sealed))
	}
	if len(sealed) != Overhead+size {
		return nil, s.refuse(key, fmt.Sprintf("has %d bytes, need %d", len(sealed), Overhead+size))
	}
	plaintext, err := s.aead.Open(make([]byte, 0, size), sealed[1:bodyPos], sealed[bodyPos:], s.place(key))
	if err != nil {
		return nil, s.refuse(key, "was changed, moved from another place, or sealed under another key")
	}
	return plaintext, nil
}

// SealHeader returns the value of the record that tells what a unit is: it names the key and the
// scheme in the clear, so that a client with another of either learns which it needs, and seals
// the plaintext.
func (s *Sealer) SealHeader(key []byte, scheme string, plaintext []byte) []byte {
	out := append([]byte{format}, s.id...)
	out = append(out, byte(len(scheme)>>8), byte(len(scheme)))
	out = append(out, scheme...)
	return append(out, s.Seal(append(key[:len(key):len(key)], out...), plaintext)...)
}

// OpenHeader returns the plaintext, of the given size, of the header with a key. A unit of another
// scheme, key or format is [ope.ErrIndex], and the error tells which.
func (s *Sealer) OpenHeader(key []byte, scheme string, sealed []byte, size int) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != format {
		return nil, s.refuse(key, newer(sealed))
	}
	const fixed = 1 + headerID + 2
	if len(sealed) < fixed {
		return nil, s.refuse(key, "is cut short")
	}
	end := fixed + int(binary.BigEndian.Uint16(sealed[fixed-2:]))
	if len(sealed) < end {
		return nil, s.refuse(key, "is cut short")
	}
	// The scheme comes first: other parameters may come with another key.
	if other := string(sealed[fixed:end]); other != scheme {
		return nil, fmt.Errorf("%w: unit %q was written by the scheme %.200q, this one is %q", ope.ErrIndex, s.unit, other, scheme)
	}
	if subtle.ConstantTimeCompare(sealed[1:1+headerID], s.id) != 1 {
		return nil, fmt.Errorf("%w: unit %q was written under another key", ope.ErrIndex, s.unit)
	}
	return s.Open(append(key[:len(key):len(key)], sealed[:end]...), sealed[end:], size)
}

func newer(sealed []byte) string {
	if len(sealed) == 0 {
		return "is empty"
	}
	return fmt.Sprintf("has the format %d, known is %d: it needs a newer version of rangecrypt, or is none of ours", sealed[0], format)
}

func (s *Sealer) refuse(key []byte, what string) error {
	return fmt.Errorf("%w: the record %.64x of unit %q %s", ope.ErrIndex, key, s.unit, what)
}

func (s *Sealer) place(key []byte) []byte {
	place := make([]byte, 0, 2+len(s.unit)+len(key))
	place = append(place, format, byte(len(s.unit)))
	place = append(place, s.unit...)
	return append(place, key...)
}
