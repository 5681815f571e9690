package encode

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
)

// MaxPrefixes is the largest number of beginnings that [Prefixed] takes.
const MaxPrefixes = 16

// Prefixed returns the codec of byte strings, in bytewise order, of which many begin with one of the given strings. It keeps
// nearly eight bytes after that beginning, and of all other strings nearly their first eight: 62 bits with one
// beginning, 58 with sixteen. One may begin with another; then the longer counts. Shorter strings are filled up with zeros.
//
// No beginning, one that is empty or given twice, and more than [MaxPrefixes] are [ope.ErrParams].
func Prefixed[T ~string | ~[]byte](beginnings ...string) (Prefix[T], error) {
	if n := len(beginnings); n == 0 || n > MaxPrefixes {
		return Prefix[T]{}, fmt.Errorf("%w: %d beginnings, need 1 to %d", ope.ErrParams, n, MaxPrefixes)
	}
	sorted := slices.Sorted(slices.Values(beginnings))
	if sorted[0] == "" {
		return Prefix[T]{}, fmt.Errorf("%w: a beginning is empty", ope.ErrParams)
	}
	if len(slices.Compact(slices.Clone(sorted))) < len(sorted) {
		return Prefix[T]{}, fmt.Errorf("%w: a beginning is given twice", ope.ErrParams)
	}
	starts, most := startsOf(sorted), 0
	for _, p := range sorted {
		most = max(most, len(p)+8)
	}
	shift := bits.Len(uint(len(starts) - 1))
	id := "prefixed/1"
	for _, p := range sorted {
		id += fmt.Sprintf(" %x", p)
	}
	return Prefix[T]{codec[T]{id, ope.Int64, func(v T) (place, error) {
		// The conversion copies at most what is needed of a long value.
		text := string(v[:min(len(v), most)])
		i := sort.Search(len(starts), func(i int) bool { return starts[i].from > text }) - 1
		var rest [8]byte
		copy(rest[:], text[len(starts[i].beginning):])
		return place{code: flip(uint64(i)<<(64-shift) | binary.BigEndian.Uint64(rest[:])>>shift)}, nil
	}}}, nil
}

// A start is where strings begin that have the same beginning, up to the next start.
type start struct{ from, beginning string }

// startsOf cuts the order of all strings wherever the longest beginning that they have changes.
func startsOf(sorted []string) []start {
	froms := []string{""}
	for _, p := range sorted {
		froms = append(froms, p)
		if end := ope.PrefixEnd([]byte(p)); end != nil {
			froms = append(froms, string(end))
		}
	}
	slices.Sort(froms)
	var starts []start
	for _, from := range slices.Compact(froms) {
		s := start{from: from}
		for _, p := range sorted {
			if strings.HasPrefix(from, p) { // longer ones come later
				s.beginning = p
			}
		}
		starts = append(starts, s)
	}
	return starts
}
