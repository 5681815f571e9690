// Package kms says where the master key of an encrypted database comes from: a file, a variable of
// the environment, a passphrase, or a service or program that keeps it and never gives it away.
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
// shows a client of one. [Program] asks another program, whose maker knows the service.
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
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A KMS keeps a master key and uses it on behalf of its callers: a key management service, a
// hardware module, or a local key, [Local]. It wraps one key for each database, when the
// database is made and when its master key is rotated, and unwraps it each time that the database
// is opened.
//
// Both methods must return soon once ctx is done, with its error: package store gives them the context
// of its caller, and waits for them whatever that says. They must be safe for concurrent use. A request
// needs a time limit of its own, since a context may have none.
//
// A service may clear what it is given, and use the memory of what it returns again: package store has copies. An
// error that has a part of the key in its text is told by its kind alone.
type KMS interface {
	// Wrap encrypts and authenticates a key of 32 bytes under the newest master key. What it
	// returns has at most [MaxWrapped] bytes and is stored as it is; it should name the master key,
	// so that Unwrap finds the right one. Package store has it unwrapped at once, before it is stored:
	// a service that gives back other bytes, or none, is refused. So is one whose answer has a part of the key in it.
	Wrap(ctx context.Context, key []byte) (wrapped []byte, err error)

	// Unwrap returns the key that was wrapped. Where that was done under a master key that the
	// service has not, the error should wrap [ErrWrongKey]. Where the service cannot be reached or
	// does not answer, that of either method should wrap [ErrUnavailable], so that it is
	// retryable; an error of the network is taken for that.
	Unwrap(ctx context.Context, wrapped []byte) (key []byte, err error)
}

// MaxWrapped is the length of the longest wrapped key, in bytes.
const MaxWrapped = 2048

// Errors of Wrap and Unwrap. They are returned wrapped; use errors.Is. All but ErrUnavailable are also
// the errors of package store of the same names.
var (
	// ErrWrongKey is returned when the key was wrapped under another master key or passphrase.
	ErrWrongKey = fault.As("kms: wrapped under another key", fault.ErrWrongKey)

	// ErrTampered is returned when the wrapped key was changed.
	ErrTampered = fault.As("kms: the wrapped key is not as it was written", fault.ErrTampered)

	// ErrUnavailable is returned when a key management service cannot be reached or does not answer.
	// The call may be repeated later. [Local] and [Passphrase] never return it.
	ErrUnavailable = errors.New("kms: key management service unavailable")

	// ErrFormat is returned when the bytes are no wrapped key that this version knows.
	ErrFormat = fault.As("kms: not a wrapped key of a known format", fault.ErrFormat)
)

// The first byte of a wrapped key says what it was wrapped under.
const (
	underKey        = 2 // that of a sealed value
	underPassphrase = 'p'
	underProgram    = 'x'
)

// Local wraps under a master key that the program has. It is safe for concurrent use.
//
// A wrapped key is a sealed value (docs/format.md) under the key that the master key derives for
// the purpose "wrap", at the place "database key".
type Local struct {
	sealer *seal.Sealer
	err    error // of a key that is none
}

// NewLocal returns the Local of a master key. With the zero Key, Wrap and Unwrap are [ope.ErrKey]. So they are with the
// zero Local, and with a nil one.
func NewLocal(master ope.Key) *Local {
	if master.IsZero() {
		return &Local{err: fmt.Errorf("kms: %w: the zero Key holds no secret", ope.ErrKey)}
	}
	s, err := wrapper(master)
	return &Local{s, err}
}

func wrapper(master ope.Key) (*seal.Sealer, error) { return seal.New(master.Derive("wrap").Secret()) }

// place returns where wrapped keys stand, as far as it is bound: a wrapped database key opens
// whatever database it was copied to, but nothing else that was ever sealed opens as one. Other
// databases have other ids, which take part in all keys below the database key.
func place(header ...[]byte) seal.Place {
	return seal.Place(nil).Append([]byte("database key")).Append(header...)
}

// Wrap encrypts a key. One that has not 32 bytes is [ope.ErrKey].
func (l *Local) Wrap(_ context.Context, key []byte) ([]byte, error) {
	if err := l.made(); err != nil {
		return nil, err
	}
	if err := checkLength(key); err != nil {
		return nil, err
	}
	return l.sealer.Seal(nil, seal.Header{}, key, place()), nil
}

// Unwrap decrypts what Wrap made under the same master key. The errors are [ErrWrongKey],
// [ErrTampered] and [ErrFormat].
func (l *Local) Unwrap(_ context.Context, wrapped []byte) ([]byte, error) {
	if err := l.made(); err != nil {
		return nil, err
	}
	switch {
	case len(wrapped) > 0 && wrapped[0] == underPassphrase:
		return nil, fmt.Errorf("%w: the database is opened with a passphrase, not with a key", ErrWrongKey)
	case len(wrapped) > 0 && wrapped[0] == underProgram:
		return nil, fmt.Errorf("%w: the database is opened with a program, not with a key", ErrWrongKey)
	}
	return unwrap(l.sealer, wrapped, place())
}

// made returns an error unless there is a key to wrap under.
func (l *Local) made() error {
	if l == nil || l.sealer == nil && l.err == nil {
		return zero("key", "kms.NewLocal")
	}
	return l.err
}

// zero is the error of a KMS that no function has made. It says what the KMS has not, and what makes one.
func zero(what, by string) error {
	return fmt.Errorf("kms: %w: this KMS is a zero value, and has no %s; make it with %s", ope.ErrKey, what, by)
}

// ID returns what names the master key and commits to it, without telling anything about it: 16
// bytes that stand in what it wrapped. Without a key they are 0.
func (l *Local) ID() (id [seal.KeyIDSize]byte) {
	if l.made() == nil {
		id = l.sealer.KeyID()
	}
	return id
}

// checkLength returns an error unless the bytes are as many as a key has: what is wrapped otherwise opens no database.
func checkLength(key []byte) error {
	if len(key) != ope.KeySize {
		return fmt.Errorf("kms: wrap: %w: it has %d bytes, need %d", ope.ErrKey, len(key), ope.KeySize)
	}
	return nil
}

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

var errForeign = fmt.Errorf("%w: the key of the database was wrapped by a key management service of another kind, or by a newer version (%w)", ErrWrongKey, ErrFormat)
