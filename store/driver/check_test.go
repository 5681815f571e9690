package driver

import (
	"bytes"
	"testing"
)

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
