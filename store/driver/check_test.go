package driver

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestShares: every key of a range is in the share that the comment of Share says, and in no other.
func TestShares(t *testing.T) {
	few := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x3f, 0x40, 0x80, 0xfe, 0xff}), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		r := Range{Start: few.Draw(t, "start"), AnyOrder: true}
		if rapid.Bool().Draw(t, "bounded") {
			r.End = few.Draw(t, "end")
		}
		r.Parts = rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(2, MaxParts)).Draw(t, "parts")
		key := few.Draw(t, "key")
		if len(key) == 0 || bytes.Compare(key, r.Start) < 0 || r.End != nil && bytes.Compare(key, r.End) >= 0 {
			t.Skip("not in the range")
		}
		// The longest prefix of Start after which no key of the range differs from it.
		p := slices.Clone(r.Start)
		for len(p) > 0 {
			var next []byte // the least key above those with it
			for i := len(p) - 1; i >= 0 && next == nil; i-- {
				if p[i] != 0xff {
					next = append(bytes.Clone(p[:i]), p[i]+1)
				}
			}
			if next == nil || r.End != nil && bytes.Compare(r.End, next) <= 0 {
				break
			}
			p = p[:len(p)-1]
		}
		require.True(t, bytes.HasPrefix(key, p))
		n := binary.BigEndian.Uint16(append(bytes.Clone(key[len(p):]), 0, 0))
		want := 0
		if r.Parts > 1 {
			want = int(uint64(n) * uint64(r.Parts) >> 16)
		}
		for _, part := range []int{0, want - 1, want, want + 1, r.Parts - 1} {
			if part < 0 || part >= max(1, r.Parts) {
				continue
			}
			r.Part = part
			require.NoError(t, FamilySpec{Name: "f", Layout: LayoutOrdered}.CheckRange(r))
			share := r.Share()
			require.Zero(t, share.Parts)
			in := bytes.Compare(share.Start, key) <= 0 && (share.End == nil || bytes.Compare(key, share.End) < 0)
			require.Equal(t, part == want, in, "part %d", part)
		}
	})
	// The shares of one prefix are even.
	for part := range 16 {
		share := Range{Start: []byte("tenant\x07"), End: []byte("tenant\x08"), Part: part, Parts: 16}.Share()
		if part > 0 {
			require.Equal(t, append([]byte("tenant\x07"), byte(part<<4)), share.Start)
		}
		if part < 15 {
			require.Equal(t, append([]byte("tenant\x07"), byte((part+1)<<4)), share.End)
		}
	}
}

// TestPrefixRule tries all ranges between short keys: one that is accepted holds no two keys with
// different prefixes, and one within a prefix is accepted.
func TestPrefixRule(t *testing.T) {
	keys := [][]byte{{}}
	for at := 0; len(keys[at]) < 3; at++ {
		for _, c := range []byte{0x00, 0x01, 0xfe, 0xff} {
			keys = append(keys, append(bytes.Clone(keys[at]), c))
		}
	}
	accepted := 0
	for n := 1; n <= 2; n++ {
		spec := FamilySpec{Name: "f", Layout: LayoutOrdered, PrefixBytes: n}
		for _, start := range keys {
			for _, end := range append(keys[:len(keys):len(keys)], nil) {
				r := Range{Start: start, End: end}
				prefixes := make(map[string]bool)
				for _, k := range keys {
					if len(k) >= n && bytes.Compare(k, start) >= 0 && (end == nil || bytes.Compare(k, end) < 0) {
						prefixes[string(k[:n])] = true
					}
				}
				err := spec.CheckRange(r)
				if err == nil {
					accepted++
				}
				if err == nil && len(prefixes) > 1 {
					t.Errorf("prefix of %d: [%x, %x) was accepted and has %d prefixes", n, start, end, len(prefixes))
				}
				inside := len(start) >= n && len(end) >= n && bytes.Equal(start[:n], end[:n])
				if err != nil && (inside || r.Empty()) {
					t.Errorf("prefix of %d: [%x, %x) was refused: %v", n, start, end, err)
				}
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d ranges were accepted", accepted)
	}
	// The whole of a prefix.
	for _, r := range []Range{
		{Start: []byte{1, 2}, End: []byte{1, 3}},
		{Start: []byte{1, 0xff}, End: []byte{2}},
		{Start: []byte{1, 0xff}, End: []byte{2, 0}},
		{Start: []byte{0xff, 0xff}},
	} {
		if err := (FamilySpec{Name: "f", Layout: LayoutOrdered, PrefixBytes: 2}).CheckRange(r); err != nil {
			t.Errorf("[%x, %x) was refused: %v", r.Start, r.End, err)
		}
	}
}
