package keyring

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Sealers are the keys of one purpose. New values are sealed with the newest; a value is opened with the one whose id it
// carries. They are safe for concurrent use.
//
// Each rotation adds a key, and few tables have values under more than the last ones. So the earlier keys are made ready when a
// value asks for one of them.
type Sealers struct {
	newest  *seal.Sealer
	earlier func() ([]*seal.Sealer, error) // the newest first
}

// newSealers returns sealers with a newest key and earlier ones, which open makes ready by their numbers from 0, the oldest, on.
func newSealers(newest ope.Key, earlier int, open func(i int) (ope.Key, error)) *Sealers {
	return &Sealers{Sealer(newest), sync.OnceValues(func() (keys []*seal.Sealer, err error) {
		for i := earlier - 1; i >= 0; i-- {
			key, err := open(i)
			if err != nil {
				return nil, err
			}
			keys = append(keys, Sealer(key))
		}
		return keys, nil
	})}
}

// All returns the keys, the newest first. There are none where nothing is sealed.
func (s *Sealers) All() ([]*seal.Sealer, error) {
	if s == nil {
		return nil, nil
	}
	earlier, err := s.earlier()
	return append([]*seal.Sealer{s.newest}, earlier...), err
}

// Seal is [seal.Sealer.Seal] with the newest key.
func (s *Sealers) Seal(dst []byte, h seal.Header, plaintext []byte, place seal.Place) []byte {
	return s.newest.Seal(dst, h, plaintext, place)
}

// Open is [seal.Sealer.Open] with the key that sealed the value.
func (s *Sealers) Open(dst, sealed []byte, place seal.Place) (plaintext []byte, h seal.Header, err error) {
	// A sealer looks at the id of the key before anything else.
	plaintext, h, err = s.newest.Open(dst, sealed, place)
	if !errors.Is(err, seal.ErrWrongKey) {
		return plaintext, h, err
	}
	earlier, failed := s.earlier()
	if failed != nil {
		return nil, h, failed
	}
	for _, key := range earlier {
		if plaintext, h, err = key.Open(dst, sealed, place); !errors.Is(err, seal.ErrWrongKey) {
			break
		}
	}
	return plaintext, h, err
}

// Newest reports whether a value was sealed with the newest key.
func (s *Sealers) Newest(sealed []byte) bool {
	id, err := seal.PeekKeyID(sealed)
	return err == nil && id == s.newest.KeyID()
}

// NewestID returns the id of the newest key in hex, or "" where nothing is sealed.
func (s *Sealers) NewestID() string {
	if s == nil {
		return ""
	}
	id := s.newest.KeyID()
	return hex.EncodeToString(id[:])
}

// IDs returns the ids of the keys in hex, the newest first.
func (s *Sealers) IDs() ([]string, error) {
	keys, err := s.All()
	ids := make([]string, len(keys))
	for i, key := range keys {
		id := key.KeyID()
		ids[i] = hex.EncodeToString(id[:])
	}
	return ids, err
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

// Unwrapped returns the key with a secret that the key management service unwrapped.
func Unwrapped(secret []byte) (ope.Key, error) {
	key, err := ope.NewKey(secret)
	if err != nil {
		return ope.Key{}, fmt.Errorf("%w: the key management service has unwrapped a key of %d bytes, need %d", fault.ErrTampered, len(secret), ope.KeySize)
	}
	return key, nil
}
