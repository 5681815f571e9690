// Package record seals the records that stateful schemes keep in an index, and binds each to the
// place where it stands.
//
// A record opens only under the key that sealed it, only unchanged, and only in its own unit under
// its own key: whoever holds the database cannot alter a record, nor copy it to another place,
// without the reader noticing. What is not noticed is a record that was removed, or replaced by an
// older one of the same place.
//
// The cipher is XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) under a random 192-bit nonce, so
// that any number of independent clients may share a key. The length of the content is not hidden:
// a kind of record has one length, whatever its values are.
package record

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/rangecrypt/rangecrypt/ope"
	"golang.org/x/crypto/chacha20poly1305"
)

// Errors of [Sealer.Open] and [Sealer.OpenHeader]. They are returned wrapped; use errors.Is.
var (
	// ErrTampered is returned when a record was changed, was sealed for another place or under
	// another key, or is no record at all.
	ErrTampered = errors.New("damaged, or not written by this scheme for this place")

	// ErrFormat is returned when a record was written by a newer release.
	ErrFormat = errors.New("format unknown: a newer release is needed")
)

const (
	format    = 1
	nonceSize = chacha20poly1305.NonceSizeX
	keyIDSize = 16

	// Overhead is by how many bytes a record is longer than its content.
	Overhead = 1 + nonceSize + chacha20poly1305.Overhead
)

// A Sealer seals and opens records. It is safe for concurrent use if its source of nonces is.
type Sealer struct {
	aead  cipher.AEAD
	keyID [keyIDSize]byte
	rand  io.Reader
}

// New returns a sealer under the key, which should be for records alone. Nonces are read from
// random, or from crypto/rand if it is nil.
func New(key ope.Key, random io.Reader) *Sealer {
	if random == nil {
		random = rand.Reader
	}
	aead, err := chacha20poly1305.NewX(key.Expand(chacha20poly1305.KeySize, "record", "seal"))
	if err != nil {
		panic("record: " + err.Error()) // the key has the right size
	}
	return &Sealer{aead, [keyIDSize]byte(key.Expand(keyIDSize, "record", "id")), random}
}

// The format of a record:
//
//	offset  bytes
//	0       1    format, 1
//	1       24   nonce, random
//	25      n    content XOR key stream
//	25+n    16   Poly1305 tag
//
// The associated data is the unit, preceded by its length as one byte, and the record's key.

// Seal appends the record with this content at a place to dst.
func (s *Sealer) Seal(dst []byte, unit ope.Unit, key, content []byte) ([]byte, error) {
	var space [128]byte
	dst = append(dst, format)
	at := len(dst)
	dst = append(dst, space[:nonceSize]...)
	if _, err := io.ReadFull(s.rand, dst[at:]); err != nil {
		return nil, fmt.Errorf("seal a record: %w", err)
	}
	return s.aead.Seal(dst, dst[at:], content, place(space[:0], unit, key)), nil
}

// Open appends the content of the record at a place to dst.
func (s *Sealer) Open(dst []byte, unit ope.Unit, r ope.Record) ([]byte, error) {
	if len(r.Value) == 0 {
		return nil, at(unit, r.Key, ErrTampered)
	}
	if r.Value[0] != format {
		return nil, at(unit, r.Key, fmt.Errorf("%w (it has format %d)", ErrFormat, r.Value[0]))
	}
	if len(r.Value) < Overhead {
		return nil, at(unit, r.Key, ErrTampered)
	}
	var space [128]byte
	nonce, sealed := r.Value[1:1+nonceSize], r.Value[1+nonceSize:]
	out, err := s.aead.Open(dst, nonce, sealed, place(space[:0], unit, r.Key))
	if err != nil {
		return nil, at(unit, r.Key, ErrTampered)
	}
	return out, nil
}

func place(dst []byte, unit ope.Unit, key []byte) []byte {
	dst = append(append(dst, byte(len(unit))), unit...)
	return append(dst, key...)
}

// at names the place of a record that an error is about. A key is a ciphertext, which the database
// sees anyway.
func at(unit ope.Unit, key []byte, err error) error {
	return fmt.Errorf("record %x of unit %q: %w", key, unit, err)
}

// A header is a record that tells who wrote a unit:
//
//	offset  bytes
//	0       1    format, 1
//	1       16   key ID: HKDF of the key
//	17           a record as above
//
// The content of the record is the length of the scheme's identifier, 4 bytes big-endian; the
// identifier, filled up with zeros to a multiple of 64 bytes, so that its length tells little; and
// what the scheme adds.

// SealHeader returns the header of a unit, written by the scheme that id identifies, with further
// content.
func (s *Sealer) SealHeader(unit ope.Unit, key []byte, id string, content []byte) ([]byte, error) {
	padded := make([]byte, 4+(len(id)+63)/64*64, 4+(len(id)+63)/64*64+len(content))
	binary.BigEndian.PutUint32(padded, uint32(len(id)))
	copy(padded[4:], id)
	out := append([]byte{format}, s.keyID[:]...)
	return s.Seal(out, unit, key, append(padded, content...))
}

// OpenHeader returns the further content of a unit's header. Of a unit that was written under
// another key it is [ope.ErrKey], and of one that was written by another scheme or with other
// parameters [ope.ErrParams].
func (s *Sealer) OpenHeader(unit ope.Unit, r ope.Record, id string) ([]byte, error) {
	if len(r.Value) > 0 && r.Value[0] != format {
		return nil, at(unit, r.Key, fmt.Errorf("%w (it has format %d)", ErrFormat, r.Value[0]))
	}
	if len(r.Value) < 1+keyIDSize {
		return nil, at(unit, r.Key, ErrTampered)
	}
	if [keyIDSize]byte(r.Value[1:]) != s.keyID {
		return nil, at(unit, r.Key, fmt.Errorf("%w: the index was written under another key", ope.ErrKey))
	}
	content, err := s.Open(nil, unit, ope.Record{Key: r.Key, Value: r.Value[1+keyIDSize:]})
	if err != nil {
		return nil, err
	}
	if len(content) < 4 {
		return nil, at(unit, r.Key, ErrTampered)
	}
	n := uint64(binary.BigEndian.Uint32(content))
	if padded := (n + 63) / 64 * 64; uint64(len(content)) < 4+padded {
		return nil, at(unit, r.Key, ErrTampered)
	} else if got := string(content[4 : 4+n]); got != id {
		return nil, at(unit, r.Key, fmt.Errorf("%w: the index was written by the scheme %q, this is %q", ope.ErrParams, got, id))
	} else {
		return content[4+padded:], nil
	}
}
