package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A KMS keeps a master key and wraps the keys of databases under it: see [kms.KMS].
type KMS = kms.KMS

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

func (k noKey) Wrap(context.Context, []byte) ([]byte, error) { return nil, k.err }

func (k noKey) Unwrap(context.Context, []byte) ([]byte, error) { return nil, k.err }
