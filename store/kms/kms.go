// Package kms tells where the master key of an encrypted database comes from: a file, a variable of
// the environment, a passphrase, or a service that keeps it and never gives it away.
//
// A database has one random database key, which all its other keys come from. It is kept in the
// database itself, wrapped: encrypted under the master key. Package store asks for two things
// only, to wrap the database key when the database is made or its master key is rotated, and to
// unwrap it when the database is opened:
//
//	Wrap(ctx context.Context, key []byte) (wrapped []byte, err error)
//	Unwrap(ctx context.Context, wrapped []byte) (key []byte, err error)
//
// [Local] does it with a key that the program has, from [ReadFile] or [ReadEnv], and [Passphrase]
// with one that it derives. Key management services wrap and unwrap on their side; the example
// shows a client of one.
//
// What is wrapped by [Local] and by [Passphrase] is authenticated and commits to its master key:
// another one is [ErrWrongKey]. Errors never hold a key, a passphrase or a part of one.
package kms

import (
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
)

// Errors of Unwrap. They are returned wrapped; use errors.Is. Package store turns them into its
// own of the same names.
var (
	// ErrWrongKey is returned when the key was wrapped under another master key or passphrase.
	ErrWrongKey = errors.New("kms: wrapped under another key")

	// ErrTampered is returned when the wrapped key was changed.
	ErrTampered = errors.New("kms: the wrapped key is not as it was written")

	// ErrFormat is returned when the bytes are no wrapped key that this version knows.
	ErrFormat = errors.New("kms: not a wrapped key of a known format")
)

// The first byte of a wrapped key tells what it was wrapped under.
const (
	underKey        = 2 // that of a sealed value
	underPassphrase = 'p'
)

// Local wraps under a master key that the program has. It is safe for concurrent use.
//
// A wrapped key is a sealed value (docs/format.md) under the key that the master key derives for
// the purpose "wrap", at the place "database key".
type Local struct{ sealer *seal.Sealer }

// NewLocal returns the Local of a master key. The error is [ope.ErrKey].
func NewLocal(master ope.Key) (*Local, error) {
	if master.IsZero() {
		return nil, fmt.Errorf("kms: %w: the zero Key holds no secret", ope.ErrKey)
	}
	s, err := wrapper(master)
	if err != nil {
		return nil, err
	}
	return &Local{s}, nil
}

func wrapper(master ope.Key) (*seal.Sealer, error) { return seal.New(master.Derive("wrap").Secret()) }

// place returns where wrapped keys stand, as far as it is bound: a wrapped database key opens
// whatever database it was copied to, but nothing else that was ever sealed opens as one. Other
// databases have other ids, which take part in all keys below the database key.
func place(header ...[]byte) seal.Place {
	return seal.Place(nil).Append([]byte("database key")).Append(header...)
}

// Wrap encrypts a key.
func (l *Local) Wrap(_ context.Context, key []byte) ([]byte, error) {
	return l.sealer.Seal(nil, seal.Header{}, key, place()), nil
}

// Unwrap decrypts what Wrap made under the same master key. The errors are [ErrWrongKey],
// [ErrTampered] and [ErrFormat].
func (l *Local) Unwrap(_ context.Context, wrapped []byte) ([]byte, error) {
	if len(wrapped) > 0 && wrapped[0] == underPassphrase {
		return nil, fmt.Errorf("%w: the database is opened with a passphrase, not with a key", ErrWrongKey)
	}
	return unwrap(l.sealer, wrapped, place())
}

// ID returns what names the master key and commits to it, without telling anything about it: 16
// bytes that stand in what it wrapped.
func (l *Local) ID() [seal.KeyIDSize]byte { return l.sealer.KeyID() }

func unwrap(s *seal.Sealer, sealed []byte, at seal.Place) ([]byte, error) {
	key, _, err := s.Open(nil, sealed, at)
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return nil, ErrWrongKey
	case errors.Is(err, seal.ErrTampered):
		return nil, ErrTampered
	case errors.Is(err, seal.ErrFormat):
		return nil, errForeign
	}
	return key, err
}

var errForeign = fmt.Errorf("%w: it was wrapped by a key management service, or by a newer version", ErrFormat)
