package catalogue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// RotateMaster lets another service wrap the database key. Nothing else changes.
func (c *Catalogue) RotateMaster(ctx context.Context, to kms.KMS) error {
	c.rotating.Lock()
	defer c.rotating.Unlock()
	wrapped, err := wrapKey(ctx, to, c.Key)
	if err != nil {
		return err
	}
	err = swap(ctx, c.Family, func(lost *error) (driver.Cell, []driver.Cell, error) {
		r, cells, err := c.read(ctx, OnlyRoot)
		if err != nil {
			return driver.Cell{}, nil, err
		}
		if string(r.wrapped) == string(wrapped) { // an attempt whose answer was lost
			*lost = nil
			return cells[0], nil, nil
		}
		if err := c.mayRotate(ctx, r.wrapped, to); err != nil {
			return driver.Cell{}, nil, err
		}
		r.wrapped = wrapped
		return cells[0], []driver.Cell{{Qualifier: RootQualifier, Value: c.SealRoot(r)}}, nil
	})
	if err == nil {
		c.master, c.wrapped = to, wrapped
	}
	return err
}

// mayRotate returns an error if the master key is neither the one that this client knows, nor the next:
// then another client has rotated it, and what it did is not undone.
func (c *Catalogue) mayRotate(ctx context.Context, wrapped []byte, to kms.KMS) error {
	if string(wrapped) == string(c.wrapped) {
		return nil
	}
	for _, service := range []kms.KMS{c.master, to} {
		key, err := unwrapKey(ctx, service, wrapped, c.Key.Secret())
		if err == nil && key.Equal(c.Key) {
			return nil
		}
		if err != nil && !errors.Is(err, fault.ErrWrongKey) {
			return err
		}
	}
	return fmt.Errorf("%w: another client rotated the master key; open the database again with the present one", fault.ErrWrongKey)
}

// kmsError gives the error of a key management service its kind.
func kmsError(ctx context.Context, err error) error {
	if errors.Is(err, fault.ErrWrongKey) {
		return wrongKey{err}
	}
	var (
		network     net.Error
		certificate *tls.CertificateVerificationError
	)
	if errors.As(err, &network) && !errors.As(err, &certificate) && ctx.Err() == nil && !errors.Is(err, kms.ErrUnavailable) {
		return fmt.Errorf("%w: %w", kms.ErrUnavailable, err)
	}
	return err
}

// wrongKey is [ErrWrongKey] of the database key, with one sentence for what every layer says of it, and what the service says besides.
type wrongKey struct{ err error }

func (w wrongKey) Error() string {
	text := w.err.Error()
	if said, why, more := strings.Cut(text, kms.ErrWrongKey.Error()+": "); more {
		return said + why
	}
	const is = "the key or passphrase is not that of the database"
	for _, kind := range []error{kms.ErrWrongKey, fault.ErrWrongKey} {
		text = strings.TrimSuffix(strings.TrimSuffix(text, kind.Error()), ": ")
	}
	if text == "" {
		return is
	}
	return is + ": " + text
}

func (w wrongKey) Unwrap() []error { return []error{fault.ErrWrongKey, w.err} }

// wrapKey returns a key as the service wraps it, which it must be able to undo. A service gets copies, and what it
// returns is copied: it may clear the ones, and use the memory of the others again.
func wrapKey(ctx context.Context, service kms.KMS, key ope.Key) ([]byte, error) {
	wrapped, err := service.Wrap(ctx, key.Secret())
	wrapped = slices.Clone(wrapped)
	switch {
	case isOfWhatIsStored(err):
		return nil, fmt.Errorf("wrap the database key: %w; the fault is with the service, and not with the database", fault.Untold(err, key.Secret()))
	case err != nil:
		return nil, fmt.Errorf("wrap the database key: %w", fault.Untold(kmsError(ctx, err), key.Secret()))
	case len(wrapped) == 0 || len(wrapped) > kms.MaxWrapped:
		return nil, fmt.Errorf("the wrapped database key has %d bytes, need 1 to %d", len(wrapped), kms.MaxWrapped)
	case fault.ShowsKey(wrapped, key.Secret()):
		return nil, errors.New("wrap the database key: the key management service does not encrypt: it answers with the key itself, which is not wrapped")
	}
	again, err := unwrapKey(ctx, service, wrapped, key.Secret())
	if err == nil && !again.Equal(key) {
		err = errors.New("it gives back another key")
	}
	if isOfWhatIsStored(err) {
		return nil, fmt.Errorf("the key management service cannot unwrap what it wrapped: %s; the fault is with the service, and not with the database", err)
	}
	if err != nil {
		return nil, fmt.Errorf("the key management service cannot unwrap what it wrapped: %w", err)
	}
	return wrapped, nil
}

// isOfWhatIsStored reports whether an error is about what the database holds, which a key that is only now wrapped is not.
func isOfWhatIsStored(err error) bool {
	return slices.ContainsFunc([]error{fault.ErrWrongKey, fault.ErrTampered, fault.ErrFormat}, func(kind error) bool { return errors.Is(err, kind) })
}

// unwrapKey undoes wrapKey. An error does not show the key that it may be, which is nil where none is known.
func unwrapKey(ctx context.Context, service kms.KMS, wrapped, known []byte) (ope.Key, error) {
	secret, err := service.Unwrap(ctx, slices.Clone(wrapped))
	switch err = fault.Untold(fault.Untold(kmsError(ctx, err), known), secret); {
	case errors.Is(err, fault.ErrWrongKey):
		return ope.Key{}, err
	case err != nil:
		return ope.Key{}, fmt.Errorf("unwrap the database key: %w", err)
	}
	return keyring.Unwrapped(secret)
}
