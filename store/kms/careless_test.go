package kms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A written is a service that does what its functions say.
type written struct {
	wrap, unwrap func(ctx context.Context, given []byte) ([]byte, error)
}

func (w written) Wrap(ctx context.Context, key []byte) ([]byte, error) { return w.wrap(ctx, key) }
func (w written) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	return w.unwrap(ctx, wrapped)
}

// rotatedTo returns what comes of giving a new database to a service, and of a rotation of another one to it. The latter
// opens with the one of two services that is in force, and what is in it stays.
func rotatedTo(t *testing.T, service kms.KMS) (made, rotated error) {
	t.Helper()
	_, made = store.Open(background, drivertest.NewMemory(), service, nil)
	db, local := drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
	st, err := store.Open(background, db, local, nil)
	require.NoError(t, err)
	_, err = st.Create(background, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.String)}})
	require.NoError(t, err)
	rotated = st.RotateMaster(background, service)
	present := kms.KMS(local)
	if rotated == nil {
		present = service
	}
	for range 2 { // the second time a service may have spoilt what it keeps
		st, err = store.Open(background, db, present, nil)
		require.NoError(t, err)
		_, err = st.Table(background, "t")
		require.NoError(t, err)
	}
	return made, rotated
}

// A service may clear what it was given, and use again the memory of what it returns.
func TestServiceThatClearsItsMemory(t *testing.T) {
	local := kms.NewLocal(ope.GenerateKey())
	buffer := make([]byte, 0, kms.MaxWrapped)
	for name, service := range map[string]kms.KMS{
		"clears what it was given": written{
			func(ctx context.Context, key []byte) ([]byte, error) { defer clear(key); return local.Wrap(ctx, key) },
			func(ctx context.Context, w []byte) ([]byte, error) { defer clear(w); return local.Unwrap(ctx, w) },
		},
		"has one buffer": written{
			func(ctx context.Context, key []byte) ([]byte, error) {
				w, err := local.Wrap(ctx, key)
				buffer = append(buffer[:0], w...)
				return buffer, err
			},
			func(ctx context.Context, w []byte) ([]byte, error) {
				key, err := local.Unwrap(ctx, w)
				buffer = append(buffer[:0], key...)
				return buffer, err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			made, rotated := rotatedTo(t, service)
			require.NoError(t, made)
			require.NoError(t, rotated)
		})
	}
}

// A service that does not encrypt is refused, since the database would have its own key.
func TestServiceThatDoesNotWrap(t *testing.T) {
	for name, form := range map[string]func([]byte) []byte{
		"as it is":         slices.Clone[[]byte],
		"behind something": func(key []byte) []byte { return slices.Concat([]byte("version 1:"), key) },
		"in hexadecimal":   func(key []byte) []byte { return []byte(hex.EncodeToString(key)) },
		"in base64":        func(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key)) },
		"a half of it":     func(key []byte) []byte { return key[:16] },
		"encoded, in a line": func(key []byte) []byte {
			return fmt.Appendf(nil, `{"key":"%s"}`, base64.URLEncoding.EncodeToString(key))
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys := map[string][]byte{}
			made, rotated := rotatedTo(t, written{
				func(_ context.Context, key []byte) ([]byte, error) {
					w := form(key)
					keys[string(w)] = slices.Clone(key)
					return w, nil
				},
				func(_ context.Context, w []byte) ([]byte, error) { return keys[string(w)], nil },
			})
			for _, err := range []error{made, rotated} {
				require.ErrorContains(t, err, "it answers with the key itself, which is not wrapped")
				require.False(t, store.Retryable(err))
			}
		})
	}
}

// An error of a service that shows a part of the key keeps its kind, and nothing of its text.
func TestServiceThatTellsTheKey(t *testing.T) {
	local := kms.NewLocal(ope.GenerateKey())
	var secret []byte
	for name, service := range map[string]kms.KMS{
		"wrap": written{
			func(_ context.Context, key []byte) ([]byte, error) {
				secret = slices.Clone(key)
				return nil, fmt.Errorf("cannot wrap %x: %w", key, kms.ErrUnavailable)
			}, local.Unwrap},
		"unwrap": written{local.Wrap, func(ctx context.Context, w []byte) ([]byte, error) {
			key, err := local.Unwrap(ctx, w)
			secret = slices.Clone(key)
			return nil, fmt.Errorf("no use of %v: %w", key, errors.Join(err, kms.ErrUnavailable))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			made, rotated := rotatedTo(t, service)
			for _, err := range []error{made, rotated} {
				require.ErrorIs(t, err, kms.ErrUnavailable)
				require.True(t, store.Retryable(err))
				require.ErrorContains(t, err, "its message is not shown, since it has a part of the key")
				for err := err; err != nil; err = errors.Unwrap(err) {
					require.NotContains(t, err.Error(), hex.EncodeToString(secret)[:16])
					require.False(t, bytes.Contains([]byte(err.Error()), fmt.Append(nil, secret[:8])[1:20]), "%v", err)
				}
			}
		})
	}
}
