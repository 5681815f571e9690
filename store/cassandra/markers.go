package cassandra

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/bits"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Cassandra keeps a marker for each cell that was deleted or has expired, for ten days by default. It gives a read up that
// meets more than 100,000 markers (tombstone_failure_threshold), however few cells the read asks for. A scan then asks for
// the same cells in pieces of the range. A piece that is refused, too, is cut again: by the hashes of partitions first, then
// by the keys in them. So is the slice of a row, by qualifiers.
const (
	// Each level of pieces costs one read that is refused, and others that mostly meet nothing.
	piecesOfScan = 16

	// A piece that has fewer hashes is cut by keys: it hardly has more than one partition.
	fewHashes = 1 << 40
)

// TooManyMarkers reports whether the server gave a read up for that reason.
func TooManyMarkers(err error) bool {
	var failure *gocql.RequestErrReadFailure
	if !errors.As(err, &failure) {
		return false
	}
	for _, reason := range failure.ErrorMap {
		if reason == 1 { // READ_TOO_MANY_TOMBSTONES, as of version 5 of the protocol
			return true
		}
	}
	return strings.Contains(failure.Message(), "READ_TOO_MANY_TOMBSTONES")
}

// cuts returns keys in ascending order that cut the range [low, high) of keys into pieces, where a nil high is unbounded. It
// returns none where it finds none.
func cuts(low, high []byte) (keys [][]byte) {
	same := 0
	for high != nil && same < len(low) && same < len(high) && low[same] == high[same] {
		same++
	}
	number := func(key []byte, n int) *big.Int {
		padded := make([]byte, n)
		copy(padded, key)
		return new(big.Int).SetBytes(padded)
	}
	for n := same + 2; n <= driver.MaxRowKey && n <= same+10+max(len(low), len(high)); n += 8 {
		from, to := number(low, n), number(high, n)
		if high == nil {
			to.Lsh(big.NewInt(1), uint(8*n))
		}
		span := to.Sub(to, from)
		if span.Cmp(big.NewInt(piecesOfScan)) < 0 {
			continue // longer keys may lie between
		}
		for i := int64(1); i < piecesOfScan; i++ {
			cut := new(big.Int).Mul(span, big.NewInt(i))
			cut.Add(from, cut.Div(cut, big.NewInt(piecesOfScan)))
			keys = append(keys, cut.FillBytes(make([]byte, n)))
		}
		return keys
	}
	return nil
}

// ends returns the range of keys that a partition has, where a nil high is unbounded.
func ends(spec driver.FamilySpec, part []byte) (low, high []byte) {
	prefix, number := part[:spec.PrefixBytes], int(binary.BigEndian.Uint16(part[spec.PrefixBytes:]))
	key := func(number int) []byte {
		return binary.BigEndian.AppendUint16(bytes.Clone(prefix), uint16(number<<(16-spec.SpreadBits)))
	}
	low = key(number)
	if number+1 < 1<<spec.SpreadBits {
		return low, key(number + 1)
	}
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			high = bytes.Clone(prefix[:i+1])
			high[i]++
			return low, high
		}
	}
	return low, nil
}

// hashOf returns the hash by which the server orders partitions: the first half of MurmurHash3, x64, 128 bits, as Cassandra
// computes it, which takes the bytes of an incomplete block for numbers with a sign.
func hashOf(part []byte) int64 {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	var h1, h2 uint64
	mix1 := func(k uint64) { h1 ^= bits.RotateLeft64(k*c1, 31) * c2 }
	mix2 := func(k uint64) { h2 ^= bits.RotateLeft64(k*c2, 33) * c1 }
	rest := part
	for ; len(rest) >= 16; rest = rest[16:] {
		mix1(binary.LittleEndian.Uint64(rest))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		mix2(binary.LittleEndian.Uint64(rest[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	var k [2]uint64
	for i, b := range rest {
		k[i/8] ^= uint64(int64(int8(b))) << (8 * (i % 8))
	}
	mix2(k[1])
	mix1(k[0])
	final := func(h uint64) uint64 {
		h = (h ^ h>>33) * 0xff51afd7ed558ccd
		h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
		return h ^ h>>33
	}
	h1 ^= uint64(len(part))
	h2 ^= uint64(len(part))
	h1 += h2
	h2 += h1
	h1, h2 = final(h1), final(h2)
	if hash := int64(h1 + h2); hash != math.MinInt64 {
		return hash
	}
	return math.MaxInt64 // the server has no partition of the least
}
