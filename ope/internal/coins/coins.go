// Package coins turns a key into random words that are found again by their label. They are the coins of a
// stateless scheme (boldyreva, keyed wozniak), which must toss the same ones for a node of its tree every time.
//
// A block is 128 bits, named by a tag, two words u and v, and a counter:
//
//	block(tag, u, v, counter) = AES_K2(AES_K1(tag || 0^56 || u) xor (v || counter))
//
// with AES-256 and K1 || K2 expanded from the key by HKDF. K1 is used once for every (tag, u),
// which rarely change; a block then costs one AES call. Distinct labels give distinct inputs to
// AES_K2 but for the accident that two masks differ by just what the labels differ by: as long
// as AES is a pseudorandom permutation, q blocks differ from random by about q^2 / 2^128.
//
// Why not AES-128? It would take 24 ns a block where AES-256 takes 29, about 7 % of an encryption, and
// the bound above comes from the size of a block, not of a key. But ciphertexts last for ever, and no
// part of the module should have a shorter key than the one that it is given.
//
// The labels are not hidden by timing: AES in hardware takes constant time, but where there is
// none, Go's AES looks up tables.
package coins

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/bits"

	"github.com/rangecrypt/rangecrypt/ope"
)

// A Source is a function from labels to blocks. It may be used by several goroutines at a time.
type Source struct {
	k1, k2 cipher.Block
	masks  [2]mask // of tags 0 and 1 with u = 0
}

type mask struct {
	u uint64
	Mask
}

// New returns the source for the purpose that the labels name; see [ope.Key.Expand].
func New(key ope.Key, labels ...string) *Source {
	keys := key.Expand(64, labels...)
	s := &Source{k1: newAES(keys[:32]), k2: newAES(keys[32:])}
	r := Reader{source: s}
	s.masks = [2]mask{r.mask(0, 0), r.mask(1, 0)}
	return s
}

func newAES(key []byte) cipher.Block {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("coins: " + err.Error()) // the key has 32 bytes
	}
	return block
}

// Uniform returns a number of [0, max], each equally likely, from the blocks labelled (0, 0, 0).
// It takes the words of the blocks with counters 0, 1, 2, ..., the first half first, keeps the low
// bits that max has, and returns the first that is not above max.
func (s *Source) Uniform(max uint64) uint64 {
	r := s.NewReader()
	r.Seek(0, 0, 0)
	keep := uint64(1)<<bits.Len64(max) - 1 // a shift by 64 gives 0, and this all ones
	for counter := uint64(0); ; counter++ {
		hi, lo := r.Block(counter)
		if hi &= keep; hi <= max {
			return hi
		}
		if lo &= keep; lo <= max {
			return lo
		}
	}
}

// A Reader reads blocks of a source. It is for one goroutine at a time, and costs an allocation:
// keep it.
type Reader struct {
	source *Source
	masks  [2]mask // the last of each tag
	label  Label

	// Slices that go through an interface escape: these are here to be allocated only once.
	in, out [aes.BlockSize]byte
}

// NewReader returns a reader whose label is not set yet: call Seek first.
func (s *Source) NewReader() *Reader { return &Reader{source: s, masks: s.masks} }

// Seek sets the label but for the counter. The tag is 0 or 1.
func (r *Reader) Seek(tag uint8, u, v uint64) {
	r.label = r.Mask(tag, u).Label(v)
}

// Block returns the block with a counter as two words, the first half first.
func (r *Reader) Block(counter uint64) (hi, lo uint64) {
	binary.BigEndian.PutUint64(r.in[:8], r.label.hi)
	binary.BigEndian.PutUint64(r.in[8:], r.label.lo^counter)
	r.source.k2.Encrypt(r.out[:], r.in[:])
	return binary.BigEndian.Uint64(r.out[:8]), binary.BigEndian.Uint64(r.out[8:])
}

func (r *Reader) mask(tag uint8, u uint64) mask {
	binary.BigEndian.PutUint64(r.in[:8], uint64(tag)<<56)
	binary.BigEndian.PutUint64(r.in[8:], u)
	r.source.k1.Encrypt(r.out[:], r.in[:])
	return mask{u, Mask{binary.BigEndian.Uint64(r.out[:8]), binary.BigEndian.Uint64(r.out[8:])}}
}

// A Mask is what labels of one tag and one u have in common.
type Mask struct{ hi, lo uint64 }

// A Label is a label but for the counter.
type Label struct{ hi, lo uint64 }

// Label returns the label of the mask with v.
func (m Mask) Label(v uint64) Label { return Label{m.hi ^ v, m.lo} }

// Mask returns the mask of a tag, 0 or 1, and u = 0.
func (s *Source) Mask(tag uint8) Mask { return s.masks[tag&1].Mask }

// LaneCount is how many blocks [Lanes] compute at a time, at most.
const LaneCount = 64

// Lanes compute blocks that have nothing to do with each other. A processor works on several at a time, which takes
// less than half the time of blocks of which each waits for the one before. They are for one goroutine at a time.
type Lanes struct {
	source *Source
	blocks [LaneCount][aes.BlockSize]byte
}

// NewLanes returns lanes whose labels are not set yet.
func (s *Source) NewLanes() *Lanes { return &Lanes{source: s} }

// Set sets the label and the counter of a lane.
func (l *Lanes) Set(i int, label Label, counter uint64) {
	in := &l.blocks[i]
	binary.BigEndian.PutUint64(in[:8], label.hi)
	binary.BigEndian.PutUint64(in[8:], label.lo^counter)
}

// Blocks computes the blocks of the first n lanes.
func (l *Lanes) Blocks(n int) { l.encrypt(l.source.k2, n) }

// Block computes the block of a lane. It has to wait for a label that was set just before, since AES reads at once what
// was written in two words.
func (l *Lanes) Block(i int) { l.source.k2.Encrypt(l.blocks[i][:], l.blocks[i][:]) }

// SetMask sets a lane for [Lanes.Masks].
func (l *Lanes) SetMask(i int, tag uint8, u uint64) { l.Set(i, Label{hi: uint64(tag) << 56}, u) }

// Masks computes the masks that the first n lanes are set for.
func (l *Lanes) Masks(n int) { l.encrypt(l.source.k1, n) }

func (l *Lanes) encrypt(key cipher.Block, n int) {
	blocks := l.blocks[:n]
	for i := range blocks {
		key.Encrypt(blocks[i][:], blocks[i][:])
	}
}

// GetMask returns the mask that was computed for a lane.
func (l *Lanes) GetMask(i int) Mask {
	hi, lo := l.Get(i)
	return Mask{hi, lo}
}

// Get returns what was computed for a lane, as two words: of a block, the first half first.
func (l *Lanes) Get(i int) (hi, lo uint64) {
	out := &l.blocks[i]
	return binary.BigEndian.Uint64(out[:8]), binary.BigEndian.Uint64(out[8:])
}

// Use sets the label.
func (r *Reader) Use(label Label) { r.label = label }

// Mask returns the mask of a tag, 0 or 1, and u.
func (r *Reader) Mask(tag uint8, u uint64) Mask {
	m := &r.masks[tag&1]
	if m.u != u {
		*m = r.mask(tag, u)
	}
	return m.Mask
}
