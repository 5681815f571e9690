package keyring

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Sealers are the keys of one purpose, the newest first. New values are sealed with the newest;
// a value is opened with the one whose id it carries. They are safe for concurrent use.
type Sealers struct{ Keys []*seal.Sealer }

// Seal is [seal.Sealer.Seal] with the newest key.
func (s *Sealers) Seal(dst []byte, h seal.Header, plaintext []byte, place seal.Place) []byte {
	return s.Keys[0].Seal(dst, h, plaintext, place)
}

// Open is [seal.Sealer.Open] with the key that sealed the value.
func (s *Sealers) Open(dst, sealed []byte, place seal.Place) (plaintext []byte, h seal.Header, err error) {
	for _, key := range s.Keys {
		// A sealer looks at the id of the key before anything else.
		if plaintext, h, err = key.Open(dst, sealed, place); !errors.Is(err, seal.ErrWrongKey) {
			break
		}
	}
	return plaintext, h, err
}

// Newest reports whether a value was sealed with the newest key.
func (s *Sealers) Newest(sealed []byte) bool {
	id, err := seal.PeekKeyID(sealed)
	return err == nil && id == s.Keys[0].KeyID()
}

// ids returns the ids of the keys in hex, the newest first.
func (s *Sealers) IDs() []string {
	if s == nil {
		return nil
	}
	ids := make([]string, len(s.Keys))
	for i, key := range s.Keys {
		id := key.KeyID()
		ids[i] = hex.EncodeToString(id[:])
	}
	return ids
}

// Sealer returns what seals under a key.
func Sealer(key ope.Key) *seal.Sealer {
	s, err := seal.New(key.Secret())
	if err != nil {
		panic("keyring: " + err.Error()) // derived keys have the right length
	}
	return s
}

// Place returns what a sealed value is bound to: a kind of thing and what names one of them.
func Place(kind string, parts ...[]byte) seal.Place {
	return seal.Place(nil).Append([]byte(kind)).Append(parts...)
}

// NewHeader returns the header of a value of a new write.
func NewHeader() seal.Header {
	var h seal.Header
	rand.Read(h.Write[:])
	return h
}

// ID returns the id of a key in hex.
func ID(key ope.Key) string {
	id := Sealer(key).KeyID()
	return hex.EncodeToString(id[:])
}

var errKeyBytes = fmt.Errorf("%w: an unwrapped key has not %d bytes", fault.ErrTampered, ope.KeySize)

// Unwrapped returns the key with a secret that was unwrapped.
func Unwrapped(secret []byte) (ope.Key, error) {
	key, err := ope.NewKey(secret)
	if err != nil {
		return ope.Key{}, errKeyBytes
	}
	return key, nil
}
