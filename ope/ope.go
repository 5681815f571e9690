// Package ope is the vocabulary of order-preserving encryption: what a scheme promises to the
// code that stores its ciphertexts in a database and asks the database for ranges of them.
//
// It holds no algorithm. The schemes are in the packages below it:
//
//   - boldyreva: stateless; [Linear] (Boldyreva et al., EUROCRYPT 2009) or with a secret modular
//     shift (mOPE, Boldyreva et al., CRYPTO 2011). Its ciphertexts may be row keys.
//   - wozniak: [Linear], by random uniform sampling in a random subrange (Wozniak et al., CCSW 2013);
//     stateless, or decided on demand and kept in an [Index] (Waage et al., SECRYPT 2016). Its
//     ciphertexts may be row keys.
//   - kerschbaum: [Mutable], with its state in an [Index] (Kerschbaum and Schröpfer, CCS 2014). A
//     ciphertext says nothing but the order. NewRanked is [Linear], but where values share a rank, their ciphertexts
//     have no order among themselves, and an interval that has one of them has them all.
//
// The interfaces distinguish schemes by what the criteria of Waage, Homann and Wiese (SECRYPT
// 2016, section 3.1) ask of them: whether ciphertexts ever move ([Immutable] or [Mutable]) and
// whether one comparison is enough for a range ([Linear]).
//
// # What every scheme gives away
//
// The database sees the order of the encrypted values and which of them are equal; that is what
// makes its range queries work. An immutable scheme gives away more: about the upper half of the
// bits of each value, to anyone who knows roughly how the values are distributed. Someone who
// knows the distribution of a dense column recovers most of it (Naveed, Kamara and Wright, CCS
// 2015; Grubbs et al., IEEE S&P 2017). No scheme here authenticates: a ciphertext that was
// changed mostly decrypts to an error, but it may decrypt to another value. Seal the value
// beside it with an AEAD, as package store does.
package ope

import (
	"cmp"
	"context"
	"iter"
)

// A Ciphertext is a big-endian byte string of a length that its scheme fixes. bytes.Compare
// orders the ciphertexts of one scheme as their plaintexts are ordered, up to one rotation by a
// secret offset where the scheme shifts (mOPE). [Linear] schemes have no rotation.
// For databases that compare numbers only, see the example "bigint" of encode.Column.
type Ciphertext []byte

// A Version says at which state of a [Mutable] scheme a ciphertext or an interval was handed
// out. Immutable schemes have the zero Version only.
type Version struct {
	Epoch      uint64 // rises by one when the whole index is copied to another place
	Generation uint64 // rises by one within an epoch whenever ciphertexts move
}

// Compare returns -1 if v is earlier than w, +1 if it is later, and 0 if they are the same.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Epoch, w.Epoch), cmp.Compare(v.Generation, w.Generation))
}

// An Interval is the half-open range [Start, End) of ciphertexts. Start has the length of the
// scheme's ciphertexts. So has End, except that an interval with nothing above it ends with the
// highest byte string of that length followed by 0x00. End is always set.
type Interval struct {
	Start, End Ciphertext
	Version    Version
}

// KeyRange returns the half-open range [start, end) of the database keys that consist of prefix,
// a ciphertext of the interval, and any further bytes. It is what a scan takes when the
// ciphertext is a part of a row key. A nil end means that no key is above the range.
func (iv Interval) KeyRange(prefix []byte) (start, end []byte) {
	start = append(append(make([]byte, 0, len(prefix)+len(iv.Start)), prefix...), iv.Start...)
	if len(iv.End) > len(iv.Start) {
		// Nothing above: whatever follows the highest ciphertext still belongs to the range.
		return start, PrefixEnd(prefix)
	}
	return start, append(append(make([]byte, 0, len(prefix)+len(iv.End)), prefix...), iv.End...)
}

// PrefixEnd returns the lowest byte string above all that begin with prefix, or nil when there
// is none, because prefix is empty or consists of 0xff only.
func PrefixEnd(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			end := append([]byte(nil), prefix[:n]...)
			end[n-1]++
			return end
		}
	}
	return nil
}

// A Scheme encrypts the int64 plaintexts of one domain under one key. All methods may be called
// from several goroutines at a time.
//
// Make one with the function of its package. The zero value of a scheme's type has no key: what encrypts, decrypts or asks
// for intervals is [ErrKey] then, ID is empty, and Domain the zero Domain.
type Scheme interface {
	// ID names the algorithm, its version and all parameters that decide a ciphertext, other
	// than the key. It is recorded beside the data; data of another ID is not readable. An ID
	// never changes its meaning.
	ID() string

	// Domain returns the closed interval of plaintexts.
	Domain() Domain

	// Encrypt returns the ciphertext of x. A value outside the domain is [ErrDomain], never
	// clamped. A stateful scheme has made x durable in its [Index] before it returns; a
	// stateless one ignores ctx. The caller owns the result.
	Encrypt(ctx context.Context, x int64) (Ciphertext, error)

	// Decrypt returns the plaintext of c. A byte string that is no plaintext's ciphertext is
	// [ErrCiphertext]. Schemes do not authenticate: under a wrong key, a ciphertext is noticed
	// only by not being one, which for a stateless scheme happens with probability about
	// 1 - |D|/|R|.
	Decrypt(ctx context.Context, c Ciphertext) (int64, error)

	// Intervals returns, in the order of their plaintexts, the intervals of ciphertexts that
	// hold exactly the plaintexts of the domain that are in the closed interval [lo, hi]. The
	// bounds may lie outside the domain: nothing is there to be found. If none of the domain is
	// in [lo, hi], also because lo > hi, it returns no interval and no error.
	//
	// There is one interval, or two where a modular shift wraps around. The whole domain is
	// always one interval, which discloses no ciphertext; under a shift its ciphertexts are in
	// rotated order.
	//
	// Intervals never changes state, whether or not lo and hi were ever encrypted: a query does not write. An
	// immutable scheme may decide ciphertexts only when they are asked for. Then the intervals hold exactly what
	// was encrypted before the call, and go on to hold all of [lo, hi]. But a value outside that is encrypted
	// later may fall into them, unless lo and hi had been encrypted. The caller owns the result.
	Intervals(ctx context.Context, lo, hi int64) ([]Interval, error)
}

// An Immutable scheme's ciphertexts never change. Only an immutable scheme may encrypt row keys,
// because no wide-column store can rename a row (Waage et al. 2016, criterion I).
type Immutable interface {
	Scheme
	// ImmutableCiphertexts does nothing. It marks the type.
	ImmutableCiphertexts()
}

// A Linear scheme is immutable and does not shift, so that the ciphertexts of any range of
// plaintexts are one interval: a range is one comparison pair in the user's own CQL or scan.
type Linear interface {
	Immutable
	// LinearOrder does nothing. It marks the type.
	LinearOrder()
}

// A Mutable scheme may move ciphertexts when it makes room (Kerschbaum and Schröpfer, CCS 2014).
// A ciphertext or an interval from before a move is refused with [ErrStale], never read as another
// value.
//
// Encrypt and EncryptBatch return what the client remembers, without asking the index, and without a
// version. It can be from before a move that another client made: then the others refuse it, and it
// stands at another place in their order. Range reads the index, and gives the version: to have the
// present ciphertext of a value x that was encrypted, take Range(ctx, x, x). From the call on in which a
// client meets a later version, it returns nothing from before it.
type Mutable interface {
	Scheme

	// Range yields the values in [lo, hi] that were encrypted, each once, in ascending order,
	// with their present ciphertexts. It is a consistent read: when ciphertexts move during it,
	// it goes on after the last value that it yielded. After an error it yields nothing more.
	Range(ctx context.Context, lo, hi int64) iter.Seq2[Entry, error]

	// Rebalance places the ciphertexts of all values evenly, so that they no longer show the order of insertion.
	// Readers and writers may go on. progress may be nil; it is called with the number of values that are in their
	// places so far and in all, as they were counted at the beginning.
	Rebalance(ctx context.Context, progress func(done, total int)) (RebalanceStats, error)
}

// An Entry is a value of a [Mutable] scheme's index.
type Entry struct {
	Plaintext  int64
	Ciphertext Ciphertext
	Version    Version
}

// RebalanceStats counts what a [Mutable] scheme's Rebalance did.
type RebalanceStats struct {
	Values int     // distinct values in the index
	Moved  int     // of these, how many have a new ciphertext
	Before Version // the version from which on ciphertexts moved
	After  Version // the version in which the last had moved
}

// An Appender encrypts without allocating. Stateless schemes implement it.
type Appender interface {
	// AppendEncrypt appends the ciphertext of x to dst and returns the extended slice. Errors
	// are those of Encrypt; dst is then returned unchanged.
	AppendEncrypt(dst []byte, x int64) ([]byte, error)
}

// A BatchEncrypter encrypts many values for less than one by one: a stateless scheme walks its
// tree once, a stateful one commits its index once.
type BatchEncrypter interface {
	// EncryptBatch returns the ciphertexts of xs in the order of xs, which may be any and may
	// hold duplicates; ascending input is the fastest. On an error no ciphertext is returned,
	// and the error of a value outside the domain names its position in xs. The caller owns the
	// ciphertexts; no two of them share memory.
	EncryptBatch(ctx context.Context, xs []int64) ([]Ciphertext, error)
}
