// Package record seals the values of the records that a stateful scheme keeps in an [ope.Index]. Each is bound to
// its unit and key. Who holds the database cannot alter a record, nor copy it to another key or unit, without the
// reader noticing. What is not noticed is a record that was removed, or replaced by an older value of the same
// key.
//
// A sealed value is longer than its plaintext by [Overhead], whatever the plaintext: a scheme
// whose plaintexts have one length shows nothing by lengths.
//
// The cipher is XChaCha20-Poly1305 (RFC 8439 with the extended nonce of
// draft-irtf-cfrg-xchacha-03) under a random 192-bit nonce, so that any number of independent
// clients may share a key.
package record

import (
	"cmp"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

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
// [ope.ErrIndex] and names the place of the record, never what it holds.
func (s *Sealer) Open(key, sealed []byte, size int) ([]byte, error) {
	return s.open(make([]byte, 0, size), s.place(key), key, sealed, size)
}

// open appends the plaintext to out.
func (s *Sealer) open(out, place, key, sealed []byte, size int) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != format {
		return nil, s.refuse(key, newer(sealed, format))
	}
	if len(sealed) != Overhead+size {
		return nil, s.refuse(key, fmt.Sprintf("has %d bytes, need %d", len(sealed), Overhead+size))
	}
	plaintext, err := s.aead.Open(out, sealed[1:bodyPos], sealed[bodyPos:], place)
	if err != nil {
		return nil, s.refuse(key, "was changed, moved from another place, or sealed under another key")
	}
	return plaintext, nil
}

// An Opener opens values one after the other, in the same memory. It is not safe for concurrent use.
type Opener struct {
	sealer           *Sealer
	place, plaintext []byte
}

// Open is that of the Sealer. The plaintext is valid until the next call.
func (o *Opener) Open(key, sealed []byte, size int) (plaintext []byte, err error) {
	o.place = append(o.place[:2+len(o.sealer.unit)], key...)
	plaintext, err = o.sealer.open(o.plaintext[:0], o.place, key, sealed, size)
	if err == nil {
		o.plaintext = plaintext
	}
	return plaintext, err
}

// OpenAll calls open for 0 to n-1, and returns the first error in their order. Who reads a unit ahead opens thousands of
// records, which takes as long as reading them. So goroutines share them, and each has an Opener.
func (s *Sealer) OpenAll(n int, open func(o *Opener, i int) error) error {
	const atOnce = 256 // fewer are not worth a goroutine
	parts := (n + atOnce - 1) / atOnce
	errs := make([]error, parts)
	var next atomic.Int64
	work := func() {
		o := &Opener{sealer: s, place: s.place(nil)}
		for part := int(next.Add(1)) - 1; part < parts; part = int(next.Add(1)) - 1 {
			for i := part * atOnce; i < min((part+1)*atOnce, n) && errs[part] == nil; i++ {
				errs[part] = open(o, i)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), parts) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return cmp.Or(errs...)
}

// Headers have formats of their own. Format 2, which is written:
//
//	offset  bytes
//	0       1    format, 2
//	1       16   key ID
//	17      n    a sealed value as above, whose associated data goes on with the bytes before it
//
// Its plaintext is the length of the scheme's identifier, 2 bytes, the identifier, as many zeros as
// make these a multiple of [headerPad], and the header's content. Format 1 has the length and
// the identifier in the clear, after the key ID, and seals the content alone.
const (
	headerClear  = 1
	headerSealed = 2

	// headerPad is more than every identifier of ours takes, so that lengths show nothing of them.
	headerPad = 128
)

// SealHeader returns the value of the record that says what a unit is. It names the key, so that a
// client with another one learns that, and seals the scheme, whose identifier has the bounds of the
// domain, together with the content.
func (s *Sealer) SealHeader(key []byte, scheme string, content []byte) []byte {
	out := append([]byte{headerSealed}, s.id...)
	plaintext := make([]byte, padded(scheme), padded(scheme)+len(content))
	binary.BigEndian.PutUint16(plaintext, uint16(len(scheme)))
	copy(plaintext[2:], scheme)
	return append(out, s.Seal(append(key[:len(key):len(key)], out...), append(plaintext, content...))...)
}

// padded returns how many bytes of a header's plaintext an identifier takes.
func padded(scheme string) int { return (2 + len(scheme) + headerPad - 1) / headerPad * headerPad }

// OpenHeader returns the content, of the given size, of the header with a key. A unit of another
// scheme, key or format is [ope.ErrIndex], and the error says which.
func (s *Sealer) OpenHeader(key []byte, scheme string, sealed []byte, size int) ([]byte, error) {
	const fixed = 1 + headerID
	switch {
	case len(sealed) == 0 || sealed[0] != headerClear && sealed[0] != headerSealed:
		return nil, s.refuse(key, newer(sealed, headerSealed))
	case len(sealed) < fixed:
		return nil, s.refuse(key, "is cut short")
	}
	ours := subtle.ConstantTimeCompare(sealed[1:fixed], s.id) == 1
	if sealed[0] == headerClear {
		return s.openClear(key, scheme, sealed, size, ours)
	}
	if !ours {
		return nil, fmt.Errorf("%w: unit %q was written under another key, or by another scheme than %q", ope.ErrIndex, s.unit, scheme)
	}
	plaintext, err := s.Open(append(key[:len(key):len(key)], sealed[:fixed]...), sealed[fixed:], max(0, len(sealed)-fixed-Overhead))
	if err != nil {
		return nil, err
	}
	other, _, ok := cutScheme(plaintext)
	switch {
	case !ok:
		return nil, s.refuse(key, "is cut short")
	case other != scheme:
		return nil, s.foreign(other, scheme)
	case len(plaintext) != padded(scheme)+size:
		return nil, s.refuse(key, fmt.Sprintf("has %d bytes, need %d", len(sealed), len(sealed)-len(plaintext)+padded(scheme)+size))
	}
	return plaintext[padded(scheme):], nil
}

// openClear is OpenHeader for format 1.
func (s *Sealer) openClear(key []byte, scheme string, sealed []byte, size int, ours bool) ([]byte, error) {
	other, rest, ok := cutScheme(sealed[1+headerID:])
	switch {
	case !ok:
		return nil, s.refuse(key, "is cut short")
	case other != scheme: // this comes first: other parameters may come with another key
		return nil, s.foreign(other, scheme)
	case !ours:
		return nil, fmt.Errorf("%w: unit %q was written under another key", ope.ErrIndex, s.unit)
	}
	return s.Open(append(key[:len(key):len(key)], sealed[:len(sealed)-len(rest)]...), rest, size)
}

// cutScheme returns the identifier that b begins with, after its length, and what follows it.
func cutScheme(b []byte) (scheme string, rest []byte, ok bool) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return "", nil, false
	}
	end := 2 + int(binary.BigEndian.Uint16(b))
	return string(b[2:end]), b[end:], true
}

func (s *Sealer) foreign(scheme, own string) error {
	return fmt.Errorf("%w: unit %q was written by the scheme %.200q, this one is %q", ope.ErrIndex, s.unit, scheme, own)
}

func newer(sealed []byte, known int) string {
	if len(sealed) == 0 {
		return "is empty"
	}
	return fmt.Sprintf("has the format %d, known is %d: it needs a newer version of rangecrypt, or is none of ours", sealed[0], known)
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
