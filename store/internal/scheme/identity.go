package scheme

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/rangecrypt/rangecrypt/ope"
)

// identity is the scheme that does not encrypt: the ciphertext of x is x - Min, big-endian, in as
// many bytes as the domain needs.
type identity struct {
	domain ope.Domain
	size   int
}

var (
	_ ope.Linear   = identity{}
	_ ope.Appender = identity{}
)

func newIdentity(d ope.Domain) identity {
	return identity{d, max(1, (bits.Len64(d.Span())+7)/8)}
}

func (s identity) ID() string            { return "plaintext/1 domain=" + s.domain.String() }
func (s identity) Domain() ope.Domain    { return s.domain }
func (s identity) ImmutableCiphertexts() {}
func (s identity) LinearOrder()          {}

func (s identity) AppendEncrypt(dst []byte, x int64) ([]byte, error) {
	if !s.domain.Contains(x) {
		return dst, fmt.Errorf("%w %v", ope.ErrDomain, s.domain)
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], s.domain.Offset(x))
	return append(dst, b[8-s.size:]...), nil
}

func (s identity) Encrypt(_ context.Context, x int64) (ope.Ciphertext, error) {
	c, err := s.AppendEncrypt(nil, x)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s identity) Decrypt(_ context.Context, c ope.Ciphertext) (int64, error) {
	if len(c) != s.size {
		return 0, ope.ErrCiphertext
	}
	var b [8]byte
	copy(b[8-s.size:], c)
	offset := binary.BigEndian.Uint64(b[:])
	if offset > s.domain.Span() {
		return 0, ope.ErrCiphertext
	}
	return s.domain.At(offset), nil
}

func (s identity) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	d, ok := s.domain.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	start, err := s.Encrypt(ctx, d.Min)
	if err != nil {
		return nil, err
	}
	last, err := s.Encrypt(ctx, d.Max)
	if err != nil {
		return nil, err
	}
	if d.Max == s.domain.Max {
		last = bytes.Repeat([]byte{0xff}, s.size) // as of every scheme, open at the end of the domain
	}
	if end := ope.PrefixEnd(last); end != nil {
		// PrefixEnd cuts trailing 0xff bytes off.
		end = append(end, make([]byte, len(last)-len(end))...)
		return []ope.Interval{{Start: start, End: end}}, nil
	}
	return []ope.Interval{{Start: start, End: append(last, 0)}}, nil
}
