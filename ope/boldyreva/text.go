package boldyreva

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
)

// MaxText is the largest number of bytes that a [TextScheme] keeps in order.
const MaxText = 32

const piece = 8 // bytes, which are one plaintext of the linear scheme

// A TextScheme encrypts byte strings so that their ciphertexts are in the bytewise order of their first bytes: 8, 16, 24
// or 32 of them. Make it with [NewText]: the zero TextScheme has no key. Its Decrypt returns [ope.ErrKey], and what returns
// no error panics.
//
// Each piece of eight bytes is encrypted by the linear scheme, under a key that is derived from the pieces before it.
// So pieces are compared under one key exactly where all before them are equal, and elsewhere the first that differs
// decides. A ciphertext has 16 bytes a piece.
//
// It gives away more than order and equality: which strings have a beginning of 8, 16 or 24 bytes in common, and of each
// piece about the upper half of its bits, as the linear scheme does of any plaintext. Shorter strings are filled up with
// zeros, which shows their length to the byte. Keep as few bytes in order as queries need.
type TextScheme struct {
	id    string
	key   ope.Key
	size  int // of a plaintext
	first *Scheme

	*beginnings
}

// The beginnings that many strings have in common are remembered. They are behind a pointer for the reason that a rotation is.
type beginnings struct {
	mu    sync.Mutex
	known map[string]begun // by what begins so
}

// begun is a beginning of whole pieces.
type begun struct {
	ciphertext []byte
	next       *Scheme // of the piece after it
	met        int     // how often
}

const (
	// mostKnown bounds the beginnings that are remembered: some 2 MB and, of those that are met often, some 16 MB more.
	mostKnown = 1 << 10

	// often is when the scheme after a beginning is worth walkers that remember. These take 16 kB, and a pool lets go of
	// them only after the second collection: one for each string would double the heap with each collection.
	often = 16
)

// NewText returns the scheme that keeps the first size bytes in order: 8, 16, 24 or 32.
func NewText(key ope.Key, size int) (*TextScheme, error) {
	if size < piece || size > MaxText || size%piece != 0 {
		return nil, fmt.Errorf("%w: text in the order of its first %d bytes, need 8, 16, 24 or 32", ope.ErrParams, size)
	}
	if key.IsZero() {
		return nil, fmt.Errorf("%w: it is the zero Key; make one with ope.GenerateKey or ope.NewKey", ope.ErrKey)
	}
	s := &TextScheme{id: fmt.Sprintf("boldyreva-text/1 bytes=%d", size), key: key, size: size, beginnings: &beginnings{known: make(map[string]begun)}}
	s.first = s.after("", &sync.Pool{})
	return s, nil
}

// ID names the algorithm and its parameter, for example "boldyreva-text/1 bytes=32".
func (s *TextScheme) ID() string { return s.id }

// Format implements fmt.Formatter: every verb prints the ID. What is remembered are beginnings of plaintexts.
func (s *TextScheme) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.id) }

// Size returns how many bytes of a plaintext are in order.
func (s *TextScheme) Size() int { return s.size }

// after returns the scheme of the piece after a beginning, with a pool of walkers or none.
func (s *TextScheme) after(beginning string, walkers *sync.Pool) *Scheme {
	next, err := New(s.key.Derive(s.id, beginning), ope.Int64, nil)
	if err != nil {
		panic("boldyreva: " + err.Error()) // key and parameters are right
	}
	next.tree.pool = walkers
	return next
}

// Encrypt returns the ciphertext of x, of which only the first bytes count. The caller owns it.
func (s *TextScheme) Encrypt(x []byte) ope.Ciphertext {
	return s.AppendEncrypt(make([]byte, 0, 2*s.size), x)
}

// AppendEncrypt appends the ciphertext of x to dst and returns the extended slice.
func (s *TextScheme) AppendEncrypt(dst []byte, x []byte) []byte {
	s.mustHaveKey()
	var padded [MaxText]byte
	copy(padded[:s.size], x)
	return s.append(dst, padded[:s.size])
}

// mustHaveKey panics for the zero TextScheme, which would encrypt all strings to no bytes.
func (s *TextScheme) mustHaveKey() {
	if s.first == nil {
		panic("boldyreva: use of a zero TextScheme; make it with NewText")
	}
}

// append appends the ciphertext of a string of full length.
func (s *TextScheme) append(dst, x []byte) []byte {
	start, scheme := len(dst), s.first
	for n := 0; n < s.size; n += piece {
		end := n + piece
		last := end == s.size
		if !last {
			if b, ok := s.meet(x[:end]); ok {
				dst, scheme = append(dst[:start], b.ciphertext...), b.next
				continue
			}
		}
		var err error
		if dst, err = scheme.AppendEncrypt(dst, number(x[n:end])); err != nil {
			panic("boldyreva: " + err.Error()) // every number is in the domain
		}
		if last {
			break
		}
		beginning := string(x[:end])
		scheme = s.after(beginning, nil)
		s.remember(beginning, begun{ciphertext: bytes.Clone(dst[start:]), next: scheme})
	}
	return dst
}

// meet returns what is remembered of a beginning.
func (s *TextScheme) meet(beginning []byte) (begun, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.known[string(beginning)]
	if ok && b.met < often {
		if b.met++; b.met == often {
			b.next = s.after(string(beginning), &sync.Pool{})
		}
		s.known[string(beginning)] = b
	}
	return b, ok
}

// remember keeps a beginning. Where there are too many all are forgotten: those that recur soon come back.
func (s *TextScheme) remember(beginning string, b begun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= mostKnown {
		clear(s.known)
	}
	s.known[beginning] = b
}

// number returns a piece as a number, in the order of bytes.
func number(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// Decrypt returns the first bytes of the plaintext of c, filled up with zeros. A byte string that is no plaintext's
// ciphertext is [ope.ErrCiphertext].
func (s *TextScheme) Decrypt(c ope.Ciphertext) ([]byte, error) {
	if s.first == nil {
		return nil, errZero
	}
	if len(c) != 2*s.size {
		return nil, ope.ErrCiphertext
	}
	x, scheme := make([]byte, 0, s.size), s.first
	for n := 0; n < len(c); n += 2 * piece {
		if n > 0 {
			scheme = s.after(string(x), nil)
		}
		v, err := scheme.Decrypt(context.Background(), c[n:n+2*piece])
		if err != nil {
			return nil, err
		}
		x = binary.BigEndian.AppendUint64(x, uint64(v)^1<<63)
	}
	return x, nil
}

// Interval returns the interval of the ciphertexts of all strings whose first bytes are not below those of lo and not
// above those of hi, both filled up with zeros; nil is open. It is false where there are none. An open end discloses no
// ciphertext.
func (s *TextScheme) Interval(lo, hi []byte) (ope.Interval, bool) {
	s.mustHaveKey()
	iv := ope.Interval{Start: make(ope.Ciphertext, 2*s.size), End: append(bytes.Repeat([]byte{0xff}, 2*s.size), 0)}
	if lo != nil {
		iv.Start = s.Encrypt(lo)
	}
	if hi != nil {
		c := s.Encrypt(hi)
		if bytes.Compare(c, iv.Start) < 0 {
			return ope.Interval{}, false
		}
		if end := ope.PrefixEnd(c); end != nil {
			// As long as a ciphertext, as every bound is.
			iv.End = append(end, make([]byte, len(c)-len(end))...)
		}
	}
	return iv, true
}
