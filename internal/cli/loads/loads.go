// Package loads has what makes a load of rows one that can be interrupted and gone on with.
package loads

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// TieSize is the length of a row id in bytes.
const TieSize = 16

// A Tie is the id of a row, which no other row has. Where the value leads the row key, it
// ends it, so that equal values are rows of their own.
type Tie [TieSize]byte

// Ties makes the row ids of one load: of the i-th row of load, AES-128 of (load, i) under a key
// derived from load, which the database does not see.
//
// A block cipher is a permutation, so that no two rows of a load are ever given the same id, and of two loads only as
// often as random numbers of 128 bits are equal. The same row of the same load always gets the same one: a load that
// was interrupted is simply run again under its name, and writes over what it wrote before, neither losing rows nor
// doubling them. Random ids would double them, and a bare counter would show the database the order in which rows were
// inserted.
type Ties struct {
	block cipher.Block
	load  uint64
}

// TiesOf returns the row ids of the load of a name, which docs/format.md specifies, for a purpose. Loads of one
// purpose and store have different names, unless one repeats the other.
func TiesOf(purpose string, load uint64) *Ties {
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(purpose), load))
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		panic("loads: " + err.Error()) // 16 bytes are a key
	}
	return &Ties{block, load}
}

// Tie returns the id of the i-th row.
func (t *Ties) Tie(i uint64) (tie Tie) {
	binary.BigEndian.PutUint64(tie[:8], t.load)
	binary.BigEndian.PutUint64(tie[8:], i)
	t.block.Encrypt(tie[:], tie[:])
	return tie
}

// Row undoes Tie; ok is false for an id of another load.
func (t *Ties) Row(tie Tie) (i uint64, ok bool) {
	t.block.Decrypt(tie[:], tie[:])
	return binary.BigEndian.Uint64(tie[8:]), binary.BigEndian.Uint64(tie[:8]) == t.load
}

// NewName returns a random name for a load.
func NewName() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// linger is how long batches that are under way may go on after an interruption.
const linger = 5 * time.Second

// Lingering returns a context that ends some time after another one, for the batches that are under way then.
func Lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if pause.For(later, linger) == nil {
			cancel()
		}
	})
	return later, func() {
		stop()
		cancel()
	}
}
