package encode

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Bytes returns the codec of byte strings, in bytewise order, that keeps their first n bytes after
// a common prefix; n is 1 to 8, and it panics for another. Shorter strings are filled up with
// zeros. A string that does not begin with common is beyond the domain. Bytewise order is that of
// UTF-8 code points, not of any language's collation.
//
// Choose n as small as selects well enough: the first bytes of text are a dense column, which
// gives itself away by its frequencies.
func Bytes[T ~string | ~[]byte](n int, common string) Prefix[T] {
	if n < 1 || n > 8 {
		panic("encode: Bytes keeps 1 to 8 bytes")
	}
	domain := ope.Int64
	if n < 8 {
		domain = ope.Domain{Min: 0, Max: 1<<(8*n) - 1}
	}
	return Prefix[T]{codec[T]{fmt.Sprintf("bytes/1 n=%d common=%x", n, common), domain, func(v T) (place, error) {
		// The conversion copies at most what is needed of a long value.
		rest, ok := strings.CutPrefix(string(v[:min(len(v), len(common)+n)]), common)
		if !ok {
			return place{beyond: strings.Compare(rest, common)}, nil
		}
		var first [8]byte
		copy(first[8-n:], rest)
		u := binary.BigEndian.Uint64(first[:])
		if n == 8 {
			return place{code: flip(u)}, nil
		}
		return place{code: int64(u)}, nil
	}}}
}

// IPv4 returns the codec of IPv4 addresses, in the order of netip.Addr.Compare. An IPv6 address
// is [ErrInvalid], also one that stands for an IPv4 address (::ffff:192.0.2.1), since it would
// not decode to itself: use addr.Unmap if that is meant.
func IPv4() Exact[netip.Addr] {
	return Exact[netip.Addr]{
		codec[netip.Addr]{"ipv4/1", ope.Uint32, func(a netip.Addr) (place, error) {
			if !a.Is4() {
				return place{}, fmt.Errorf("%w: it is not an IPv4 address", ErrInvalid)
			}
			b := a.As4()
			return place{code: int64(binary.BigEndian.Uint32(b[:]))}, nil
		}},
		func(code int64) (netip.Addr, error) {
			return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(code)))), nil
		},
		"",
	}
}

// IPv6 returns the codec of IPv6 addresses, in the order of netip.Addr.Compare, that keeps their
// first 64 bits: the network. An IPv4 address is [ErrInvalid]; addresses that stand for IPv4 ones
// (::ffff:192.0.2.1) are IPv6 addresses, all of the network zero. A zone has no influence.
func IPv6() Prefix[netip.Addr] {
	return Prefix[netip.Addr]{codec[netip.Addr]{"ipv6/1", ope.Int64, func(a netip.Addr) (place, error) {
		if !a.Is6() {
			return place{}, fmt.Errorf("%w: it is not an IPv6 address", ErrInvalid)
		}
		b := a.As16()
		return place{code: flip(binary.BigEndian.Uint64(b[:8]))}, nil
	}}}
}
