package keyring

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// Tokens makes tokens of values, which stand for them where only equality is asked for. It is safe for concurrent use.
type Tokens struct {
	key  []byte    // of the pseudo-random function that gives them
	macs sync.Pool // of that function, each a hash.Hash
}

// NewTokens returns what makes tokens under a search key.
func NewTokens(search ope.Key) *Tokens {
	return &Tokens{key: search.Derive(PurposeToken).Secret()}
}

// AppendToken appends the token of a value, given by its canonical bytes.
func (t *Tokens) AppendToken(dst, canonical []byte) []byte {
	mac, _ := t.macs.Get().(hash.Hash)
	if mac == nil {
		mac = hmac.New(sha256.New, t.key)
	}
	mac.Reset()
	mac.Write(canonical)
	n := len(dst)
	dst = mac.Sum(dst)[:n+meta.TokenSize]
	t.macs.Put(mac)
	return dst
}
