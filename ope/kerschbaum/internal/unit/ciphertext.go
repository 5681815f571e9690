package unit

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// A ciphertext is a label and a tag. The tag shows whether a ciphertext is stale, since it holds the epoch and the
// value. A ciphertext is good as long as this value is at this label. It is never taken for that of a value that
// was put there later.
//
//	tag = AES_K2(AES_K1(label) xor (value || epoch || 0^32))

// CiphertextSize is that of each.
const CiphertextSize = order.LabelSize + aes.BlockSize

// Ciphers make the ciphertexts of an index.
type Ciphers struct {
	inner, outer cipher.Block
	domain       ope.Domain
}

// NewCiphers takes two keys of 32 bytes.
func NewCiphers(keys []byte, d ope.Domain) *Ciphers {
	inner, _ := aes.NewCipher(keys[:32]) // 32 bytes are a key
	outer, _ := aes.NewCipher(keys[32:])
	return &Ciphers{inner, outer, d}
}

// Of returns the ciphertext of a value that is at a label in an epoch.
func (t *Ciphers) Of(epoch uint64, x int64, c order.Label) ope.Ciphertext {
	return t.Put(make(ope.Ciphertext, CiphertextSize), epoch, x, c)
}

// Put is Of, into out, which it returns.
func (t *Ciphers) Put(out ope.Ciphertext, epoch uint64, x int64, c order.Label) ope.Ciphertext {
	c.Append(out[:0])
	tag := out[order.LabelSize:]
	t.inner.Encrypt(tag, out[:order.LabelSize])
	binary.BigEndian.PutUint64(tag, binary.BigEndian.Uint64(tag)^uint64(x))
	binary.BigEndian.PutUint64(tag[8:], binary.BigEndian.Uint64(tag[8:])^epoch<<32)
	t.outer.Encrypt(tag, tag)
	return out
}

// Parse returns what a ciphertext holds. It reports false for what was never a ciphertext of the
// scheme, but with probability 2^-32; the index decides in any case.
func (t *Ciphers) Parse(c ope.Ciphertext) (epoch uint64, x int64, at order.Label, ok bool) {
	if t == nil || len(c) != CiphertextSize {
		return 0, 0, order.Label{}, false
	}
	at, _ = order.ParseLabel(c[:order.LabelSize])
	var blocks [2 * aes.BlockSize]byte
	inner, tag := blocks[:aes.BlockSize], blocks[aes.BlockSize:]
	t.inner.Encrypt(inner, c[:order.LabelSize])
	t.outer.Decrypt(tag, c[order.LabelSize:])
	x = int64(binary.BigEndian.Uint64(tag) ^ binary.BigEndian.Uint64(inner))
	rest := binary.BigEndian.Uint64(tag[8:]) ^ binary.BigEndian.Uint64(inner[8:])
	epoch = rest >> 32
	return epoch, x, at, uint32(rest) == 0 && epoch > 0 && t.domain.Contains(x)
}

// The ciphertext of a value in an index with ranks is its rank and a tag, by which each differs that shares one. It never
// changes.
//
//	tag = AES_K2(AES_K1(first 128 bits of the rank) xor (value || last 64 bits of the rank))

// RankedSize is that of each.
const RankedSize = order.RankSize + aes.BlockSize

// Ranked returns the ciphertext of a value with a rank.
func (t *Ciphers) Ranked(x int64, r order.Rank) ope.Ciphertext {
	return t.PutRanked(make(ope.Ciphertext, RankedSize), x, r)
}

// PutRanked is Ranked, into out, which it returns.
func (t *Ciphers) PutRanked(out ope.Ciphertext, x int64, r order.Rank) ope.Ciphertext {
	r.Append(out[:0])
	tag := out[order.RankSize:]
	t.mask(tag, out)
	binary.BigEndian.PutUint64(tag, binary.BigEndian.Uint64(tag)^uint64(x))
	t.outer.Encrypt(tag, tag)
	return out
}

// mask sets what is added to the value of a ranked ciphertext.
func (t *Ciphers) mask(dst, c []byte) {
	t.inner.Encrypt(dst, c[:aes.BlockSize])
	subtle.XORBytes(dst[8:], dst[8:], c[aes.BlockSize:][:8])
}

// ParseRanked returns what the ciphertext of a value with a rank holds. It reports false for what was never one, but
// with probability 2^-64; the index decides in any case. No Ciphers know none.
func (t *Ciphers) ParseRanked(c ope.Ciphertext) (x int64, r order.Rank, ok bool) {
	if t == nil || len(c) != RankedSize {
		return 0, r, false
	}
	r, ok = order.ParseRank(c[:order.RankSize])
	var blocks [2 * aes.BlockSize]byte
	mask, tag := blocks[:aes.BlockSize], blocks[aes.BlockSize:]
	t.mask(mask, c)
	t.outer.Decrypt(tag, c[order.RankSize:])
	subtle.XORBytes(tag, tag, mask)
	x = int64(binary.BigEndian.Uint64(tag))
	return x, r, ok && binary.BigEndian.Uint64(tag[8:]) == 0 && t.domain.Contains(x)
}

// Bound returns the lowest string at or above the ciphertexts of a label.
func Bound(c order.Label) ope.Ciphertext {
	return append(c.Bytes(), make([]byte, CiphertextSize-order.LabelSize)...)
}

// RankedBound returns a string that all ciphertexts of a rank are at or above, and those of lower ranks are not; or, with 1,
// one that is above all ciphertexts of the rank, and at or below those of higher ranks.
func RankedBound(of order.Rank, above byte) ope.Ciphertext {
	c := append(of.Append(nil), make([]byte, RankedSize-order.RankSize)...)
	c[order.RankSize-1] += above
	return c
}

// Top returns the bound that is above every ciphertext.
func Top() ope.Ciphertext {
	return append(bytes.Repeat([]byte{0xff}, CiphertextSize), 0)
}
