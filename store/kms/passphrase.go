package kms

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/crypto/argon2"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
)

// Passphrase wraps under a passphrase. It is safe for concurrent use; each Wrap and Unwrap takes
// 64 MiB and some tenths of a second.
//
// Whoever copies the database can try passphrases for as long as he likes; each try costs him the
// same. A passphrase of six words that were drawn from a list of 7,776 withstands that, one that
// somebody thought up seldom does. The bytes count: type it with the same encoding everywhere.
//
// A wrapped key carries what it takes to open it anywhere:
//
//	offset  bytes
//	0       1   'p'
//	1       1   version of Argon2, 0x13
//	2       4   passes, big-endian
//	6       4   memory in KiB, big-endian
//	10      1   lanes
//	11      16  salt, random
//	27      n   sealed value under the key that the master key derives for "wrap", at the place
//	            "database key", bytes 0 to 26
//
// where the master key is the 32 bytes that Argon2id (RFC 9106) makes of passphrase and salt.
type Passphrase struct {
	passphrase func() []byte // within a function, which no printer looks into
}

const (
	saltSize   = 16 // as RFC 9106, section 4, recommends
	costEnd    = 1 + 1 + 4 + 4 + 1
	wrappedEnd = costEnd + saltSize
)

// cost is what a guess at a passphrase costs.
type cost struct {
	passes, memory uint32 // memory in KiB
	lanes          uint8
}

// usual is the second recommended option of RFC 9106, section 4. Why not more: the first one takes
// 2 GiB, which not every client has to spare. Later versions may take more; they read these.
var usual = cost{passes: 3, memory: 64 << 10, lanes: 4}

// The database names the cost of opening it, and is not trusted: it could name one that no client
// can bear. These bounds allow the first recommended option of RFC 9106, which is one pass over
// 2 GiB, and some seconds' work.
const (
	mostMemory = 2 << 20        // KiB
	mostWork   = 2 * mostMemory // KiB over all passes
	mostLanes  = 64             // each is a goroutine
	leastLane  = 8              // KiB: four slices of two blocks
)

func (c cost) check() error {
	if c.passes < 1 || c.lanes < 1 || c.lanes > mostLanes || c.memory < leastLane*uint32(c.lanes) {
		return fmt.Errorf("%w: no cost that Argon2id has", ErrFormat)
	}
	if c.memory > mostMemory || uint64(c.passes)*uint64(c.memory) > mostWork {
		return fmt.Errorf("%w: the database asks for %d passes of Argon2id over %d MiB to open it, which nobody set: "+
			"at most %d MiB, and %d MiB in all passes, are granted", ErrFormat, c.passes, c.memory>>10, mostMemory>>10, mostWork>>10)
	}
	return nil
}

// NewPassphrase returns the Passphrase of a passphrase, which is copied. With the zero Passphrase, and with a nil one, Wrap
// and Unwrap are [ope.ErrKey].
func NewPassphrase(passphrase []byte) (*Passphrase, error) {
	if len(passphrase) == 0 {
		return nil, errors.New("kms: the passphrase is empty")
	}
	own := bytes.Clone(passphrase)
	return &Passphrase{func() []byte { return own }}, nil
}

// Wrap encrypts a key, under a fresh salt. One that has not 32 bytes is [ope.ErrKey].
func (p *Passphrase) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	if err := cmp.Or(p.made(), checkLength(key)); err != nil {
		return nil, err
	}
	return p.wrap(ctx, key, usual)
}

// made returns an error unless there is a passphrase.
func (p *Passphrase) made() error {
	if p == nil || p.passphrase == nil {
		return zero("passphrase", "kms.NewPassphrase")
	}
	return nil
}

func (p *Passphrase) wrap(ctx context.Context, key []byte, c cost) ([]byte, error) {
	header := []byte{underPassphrase, argon2.Version}
	header = binary.BigEndian.AppendUint32(header, c.passes)
	header = binary.BigEndian.AppendUint32(header, c.memory)
	header = append(header, c.lanes)
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails, as documented
	header = append(header, salt...)
	s, err := p.sealer(ctx, c, salt)
	if err != nil {
		return nil, err
	}
	return s.Seal(bytes.Clone(header), seal.Header{}, key, place(header)), nil
}

// Unwrap decrypts what Wrap made of the same passphrase, whatever it cost, up to 2 GiB of memory.
// The errors are [ErrWrongKey], [ErrTampered], [ErrFormat] and those of ctx. Who changes the cost
// or the salt of a wrapped key makes it unreadable: that is ErrWrongKey, too.
func (p *Passphrase) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	switch {
	case len(wrapped) > 0 && wrapped[0] == underKey:
		return nil, fmt.Errorf("%w: the database is opened with a key, not with a passphrase", ErrWrongKey)
	case len(wrapped) > 0 && wrapped[0] == underProgram:
		return nil, fmt.Errorf("%w: the database is opened with a program, not with a passphrase", ErrWrongKey)
	case len(wrapped) < wrappedEnd || wrapped[0] != underPassphrase:
		return nil, errForeign
	case wrapped[1] != argon2.Version:
		return nil, fmt.Errorf("%w: version %#x of Argon2, known is %#x", ErrFormat, wrapped[1], argon2.Version)
	}
	c := cost{
		passes: binary.BigEndian.Uint32(wrapped[2:]),
		memory: binary.BigEndian.Uint32(wrapped[6:]),
		lanes:  wrapped[10],
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	s, err := p.sealer(ctx, c, wrapped[costEnd:wrappedEnd])
	if err != nil {
		return nil, err
	}
	return unwrap(s, wrapped[wrappedEnd:], place(wrapped[:wrappedEnd]))
}

// sealer derives the key of a salt. The derivation cannot be interrupted: ctx is looked at before.
func (p *Passphrase) sealer(ctx context.Context, c cost, salt []byte) (*seal.Sealer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	master, err := ope.NewKey(argon2.IDKey(p.passphrase(), salt, c.passes, c.memory, c.lanes, ope.KeySize))
	if err != nil {
		return nil, err
	}
	return wrapper(master)
}
