package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A KMS keeps a master key and uses it on behalf of its callers: a key management service, a
// hardware module, or a local key, [LocalKMS]. It wraps one key for each database, when the
// database is made and when its master key is rotated, and unwraps it each time that the database
// is opened.
type KMS interface {
	// Wrap encrypts and authenticates a key of 32 bytes under the newest master key. What it
	// returns has at most [MaxWrapped] bytes and is stored as it is; it should name the master key,
	// so that Unwrap finds the right one.
	Wrap(ctx context.Context, key []byte) (wrapped []byte, err error)

	// Unwrap returns the key that was wrapped. Where that was done under a master key that the
	// service has not, the error should wrap [ErrWrongKey].
	Unwrap(ctx context.Context, wrapped []byte) (key []byte, err error)
}

// MaxWrapped is the length of the longest wrapped key, in bytes.
const MaxWrapped = 2048

// LocalKMS returns the KMS that is a master key in the memory of this process: [kms.Local]. Another
// master key is refused with [ErrWrongKey], the zero Key with [ope.ErrKey].
func LocalKMS(master ope.Key) KMS {
	l, err := kms.NewLocal(master)
	if err != nil {
		return noKey{err}
	}
	return l
}

// noKey is the KMS of a master key that is none.
type noKey struct{ err error }

func (k noKey) Wrap(context.Context, []byte) ([]byte, error)   { return nil, k.err }
func (k noKey) Unwrap(context.Context, []byte) ([]byte, error) { return nil, k.err }

var errKeyBytes = fmt.Errorf("%w: an unwrapped key has not %d bytes", ErrTampered, ope.KeySize)

// kmsError turns an error of package kms into one of this package. Those of other services are
// their own.
func kmsError(err error) error {
	for own, of := range map[error]error{ErrWrongKey: kms.ErrWrongKey, ErrTampered: kms.ErrTampered, ErrFormat: kms.ErrFormat} {
		if errors.Is(err, of) {
			return fmt.Errorf("%w: %w", own, err)
		}
	}
	return err
}

// wrapKey returns a key as the service wraps it, which it must be able to undo.
func wrapKey(ctx context.Context, service KMS, key ope.Key) ([]byte, error) {
	wrapped, err := service.Wrap(ctx, key.Secret())
	if err != nil {
		return nil, fmt.Errorf("wrap the database key: %w", err)
	}
	if len(wrapped) == 0 || len(wrapped) > MaxWrapped {
		return nil, fmt.Errorf("the wrapped database key has %d bytes, need 1 to %d", len(wrapped), MaxWrapped)
	}
	again, err := unwrapKey(ctx, service, wrapped)
	if err == nil && !again.Equal(key) {
		err = errors.New("it is another key")
	}
	if err != nil {
		return nil, fmt.Errorf("the key management service cannot unwrap what it wrapped: %w", err)
	}
	return wrapped, nil
}

// unwrapKey undoes wrapKey.
func unwrapKey(ctx context.Context, service KMS, wrapped []byte) (ope.Key, error) {
	secret, err := service.Unwrap(ctx, wrapped)
	if err != nil {
		return ope.Key{}, fmt.Errorf("unwrap the database key: %w", kmsError(err))
	}
	return unwrapped(secret)
}

// unwrapped returns the key with a secret that was unwrapped.
func unwrapped(secret []byte) (ope.Key, error) {
	key, err := ope.NewKey(secret)
	if err != nil {
		return ope.Key{}, errKeyBytes
	}
	return key, nil
}
