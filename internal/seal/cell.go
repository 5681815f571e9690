package seal

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"
)

// A Header is what can be read of a sealed cell without its key. It is authenticated.
type Header struct {
	Policy uint32   // version of the policy that the cell was written under
	Write  [16]byte // random id of the write, the same in all cells of one write
}

// The format of a cell:
//
//	offset  bytes
//	0       1    format, 2
//	1       16   key ID
//	17      4    policy version, big-endian
//	21      16   write id
//	37      24   nonce, random
//	61      n    plaintext XOR key stream
//	61+n    16   Poly1305 tag
//
// The associated data is the encoded place, followed by the policy version and the write id.
const (
	format2       = 2
	headerSize    = 4 + 16
	cellNonce     = headSize + headerSize
	cellBodyStart = cellNonce + nonceSize

	// CellOverhead is by how many bytes a sealed cell is longer than its plaintext.
	CellOverhead = cellBodyStart + chacha20poly1305.Overhead
)

// SealCell appends the sealed plaintext with its header to dst.
func (s *Sealer) SealCell(dst []byte, h Header, plaintext []byte, place Place) []byte {
	dst = slices.Grow(dst, CellOverhead+len(plaintext))
	dst = append(dst, format2)
	dst = append(dst, s.head[1:]...)
	dst = binary.BigEndian.AppendUint32(dst, h.Policy)
	dst = append(dst, h.Write[:]...)
	ad := append(place, dst[len(dst)-headerSize:]...)
	nonce := dst[len(dst) : len(dst)+nonceSize]
	rand.Read(nonce)
	return s.aead.Seal(dst[:len(dst)+nonceSize], nonce, plaintext, ad)
}

// OpenCell appends the plaintext of a sealed cell to dst and returns it with the header.
func (s *Sealer) OpenCell(dst, sealed []byte, place Place) ([]byte, Header, error) {
	h, err := PeekHeader(sealed)
	if err != nil {
		return nil, h, err
	}
	if subtle.ConstantTimeCompare(sealed[1:headSize], s.head[1:]) != 1 {
		return nil, h, ErrWrongKey
	}
	ad := append(place, sealed[headSize:cellNonce]...)
	plaintext, err := s.aead.Open(dst, sealed[cellNonce:cellBodyStart], sealed[cellBodyStart:], ad)
	if err != nil {
		return nil, h, ErrTampered
	}
	return plaintext, h, nil
}

// PeekHeader returns the header of a sealed cell without authenticating it.
func PeekHeader(sealed []byte) (Header, error) {
	var h Header
	switch {
	case len(sealed) == 0:
		return h, fmt.Errorf("%w: it is empty", ErrFormat)
	case sealed[0] != format2:
		return h, fmt.Errorf("%w: format %d, known is %d", ErrFormat, sealed[0], format2)
	case len(sealed) < CellOverhead:
		return h, fmt.Errorf("%w: it has %d bytes, at least %d are needed", ErrFormat, len(sealed), CellOverhead)
	}
	h.Policy = binary.BigEndian.Uint32(sealed[headSize:])
	copy(h.Write[:], sealed[headSize+4:])
	return h, nil
}
