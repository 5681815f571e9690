package opetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope"
)

// toy is a scheme that is correct and secret to nobody. The ciphertext of a value is its position
// (8 bytes) and a check word of the position (4 bytes). The bug, if any, breaks one rule.
type toy struct {
	d     ope.Domain
	shift uint64 // added to the rank, modulo the size of the domain
	bug   string

	serial   int64 // of this toy among all
	mu       sync.Mutex
	calls    uint64
	kept     map[int64]ope.Ciphertext
	inFlight atomic.Int32
}

const toyLen = 12

var toys atomic.Int64

// linearToy and shiftedToy have different sets of methods.
type linearToy struct{ *toy }

func (linearToy) ImmutableCiphertexts() {}
func (linearToy) LinearOrder()          {}

type shiftedToy struct{ *toy }

func (shiftedToy) ImmutableCiphertexts() {}

func newToy(d ope.Domain, shifted bool, bug string) ope.Scheme {
	t := &toy{d: d, bug: bug, serial: toys.Add(1), kept: map[int64]ope.Ciphertext{}}
	if !shifted {
		return linearToy{t}
	}
	t.shift = d.Span() / 3 * 2
	return shiftedToy{t}
}

func (t *toy) ID() string {
	switch t.bug {
	case "ID is empty":
		return ""
	case "ID omits the domain":
		return "toy/1"
	}
	return fmt.Sprintf("toy/1 %v", t.d)
}

func (t *toy) Domain() ope.Domain {
	if t.bug == "domain is another" {
		return ope.Domain{Min: t.d.Min, Max: t.d.Max + 1}
	}
	return t.d
}

func (t *toy) position(x int64) uint64 {
	p := t.d.Offset(x)
	if left := t.d.Span() - p; t.shift <= left {
		return p + t.shift
	} else {
		return t.shift - left - 1
	}
}

func (t *toy) value(position uint64) int64 {
	if position >= t.shift {
		return t.d.At(position - t.shift)
	}
	return t.d.At(t.d.Span() - (t.shift - position) + 1)
}

// word mixes the position into four bytes.
func word(position uint64) [4]byte {
	position = (position ^ position>>31) * 0x9e3779b97f4a7c15
	position = (position ^ position>>29) * 0xbf58476d1ce4e5b9
	var w [4]byte
	binary.BigEndian.PutUint32(w[:], uint32(position>>32))
	return w
}

func (t *toy) AppendEncrypt(dst []byte, x int64) ([]byte, error) {
	if !t.d.Contains(x) {
		switch t.bug {
		case "clamps":
			x = min(max(x, t.d.Min), t.d.Max)
		case "value in the error":
			return dst, fmt.Errorf("%w: %d", ope.ErrDomain, x)
		case "value in the error in hexadecimal":
			return dst, fmt.Errorf("%w: %#x", ope.ErrDomain, uint64(x))
		case "another error":
			return dst, fmt.Errorf("no")
		case "append returns nil with an error":
			return nil, ope.ErrDomain
		default:
			return dst, ope.ErrDomain
		}
	}
	position := t.position(x)
	w := word(position)
	check := w[:]
	switch t.bug {
	case "order reversed":
		position = t.d.Span() - position
	case "two values swapped":
		if position <= 1 && t.d.Span() > 0 {
			position ^= 1
		}
	case "rotated twice":
		if position < t.d.Span()/4 || position > t.d.Span()/4*3 {
			position = t.d.Span() - position
		}
	case "two values equal":
		position &^= 1
	case "length varies":
		if position%5 == 4 {
			check = check[:3]
		}
	case "not permanent":
		t.mu.Lock()
		t.calls++
		if t.calls > 5000 {
			clear(check)
		}
		t.mu.Unlock()
	case "random key":
		check[0] ^= byte(t.serial)
	case "not safe for concurrent use":
		if t.inFlight.Add(1) > 1 {
			check[0] ^= 1
		}
		runtime.Gosched()
		t.inFlight.Add(-1)
	case "append allocates":
		check = bytes.Clone(check)
	case "append overwrites dst":
		return append(dst[:0], append(binary.BigEndian.AppendUint64(nil, position), check...)...), nil
	case "append differs":
		if len(dst) > 0 {
			check[0] ^= 1
		}
	}
	return append(binary.BigEndian.AppendUint64(dst, position), check...), nil
}

func (t *toy) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	if err := ctx.Err(); err != nil && t.bug == "context is heeded" {
		return nil, err
	}
	if t.bug == "ciphertext is shared" {
		t.mu.Lock()
		defer t.mu.Unlock()
		if c, ok := t.kept[x]; ok {
			return c, nil
		}
	}
	c, err := t.AppendEncrypt(nil, x)
	if err != nil {
		if t.bug == "ciphertext beside an error" {
			return make(ope.Ciphertext, toyLen), err
		}
		return nil, err
	}
	t.keep(x, c)
	return c, nil
}

func (t *toy) keep(x int64, c ope.Ciphertext) {
	if t.bug == "ciphertext is shared" {
		t.kept[x] = c
	}
}

func (t *toy) Decrypt(_ context.Context, c ope.Ciphertext) (int64, error) {
	if t.bug == "decrypt changes its argument" && len(c) > 0 {
		defer func() { c[len(c)-1] = 0 }()
	}
	if t.bug == "decrypt ignores the length" && len(c) > toyLen {
		c = c[:toyLen]
	}
	if len(c) != toyLen {
		return 0, ope.ErrCiphertext
	}
	position := binary.BigEndian.Uint64(c)
	if position > t.d.Span() && t.bug != "decrypts outside the domain" {
		if t.bug == "another error for a foreign ciphertext" {
			return 0, fmt.Errorf("no")
		}
		return 0, ope.ErrCiphertext
	}
	if t.bug != "decrypt skips the check" && t.bug != "decrypts outside the domain" && word(position) != [4]byte(c[8:]) {
		return 0, ope.ErrCiphertext
	}
	x := t.value(position)
	if t.bug == "decrypts another value" && x == t.d.Max {
		x--
	}
	return x, nil
}

func (t *toy) EncryptBatch(ctx context.Context, xs []int64) ([]ope.Ciphertext, error) {
	sorted := slices.Clone(xs)
	if t.bug == "batch sorts its argument" {
		sorted = xs
	}
	if t.bug == "batch sorts its argument" || t.bug == "batch is in sorted order" {
		slices.Sort(sorted)
	}
	if t.bug == "batch drops duplicates" {
		sorted = slices.Compact(sorted)
	}
	if t.bug == "batch of nothing is an error" && len(xs) == 0 {
		return nil, ope.ErrParams
	}
	buf := make([]byte, 0, toyLen*len(sorted))
	cs := make([]ope.Ciphertext, len(sorted))
	seen := map[int64]ope.Ciphertext{}
	for i, x := range sorted {
		var err error
		if buf, err = t.AppendEncrypt(buf, x); err != nil {
			switch t.bug {
			case "batch does not name the position":
				return nil, err
			case "batch returns some beside an error":
				return cs[:i], fmt.Errorf("value %d: %w", i, err)
			case "batch skips what it cannot encrypt":
				continue
			}
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
		n := len(buf)
		cs[i] = buf[n-toyLen : n : n]
		if t.bug == "batch shares capacity" {
			cs[i] = buf[n-toyLen : n]
		}
		if c, ok := seen[x]; ok && t.bug == "batch shares duplicates" {
			cs[i] = c
		}
		seen[x] = cs[i]
	}
	return cs, nil
}

// bound returns the lowest string at or above the ciphertext of the position.
func bound(position uint64) ope.Ciphertext {
	return append(binary.BigEndian.AppendUint64(nil, position), 0, 0, 0, 0)
}

func (t *toy) end(last uint64) ope.Ciphertext {
	if last == math.MaxUint64 {
		return append(bytes.Repeat([]byte{0xff}, toyLen), 0)
	}
	return bound(last + 1)
}

func (t *toy) Intervals(_ context.Context, lo, hi int64) ([]ope.Interval, error) {
	if lo > hi && t.bug == "reversed bounds are an error" {
		return nil, ope.ErrParams
	}
	if lo > hi && t.bug == "reversed bounds are swapped" {
		lo, hi = hi, lo
	}
	if !t.d.Contains(lo) && t.bug == "bounds outside are an error" {
		return nil, ope.ErrDomain
	}
	within, ok := t.d.Intersect(lo, hi)
	if !ok {
		if t.bug == "nothing is an empty interval" {
			return []ope.Interval{{Start: bound(1), End: bound(1)}}, nil
		}
		return nil, nil
	}
	if within == t.d && t.bug != "whole domain is like any other" {
		return []ope.Interval{{Start: make(ope.Ciphertext, toyLen), End: append(bytes.Repeat([]byte{0xff}, toyLen), 0)}}, nil
	}
	a, b := t.position(within.Min), t.position(within.Max)
	one := func(a, b uint64) ope.Interval {
		iv := ope.Interval{Start: bound(a), End: t.end(b)}
		switch t.bug {
		case "interval misses the last":
			iv.End = bound(b)
		case "interval holds one more":
			iv.End = t.end(b)
			if b < t.d.Span() {
				iv.End = t.end(b + 1)
			}
		case "interval misses the first":
			iv.Start = t.end(a)
		case "interval has no end":
			iv.End = nil
		case "interval has a version":
			iv.Version.Generation = 1
		case "interval starts short":
			iv.Start = iv.Start[:8]
		case "whole domain is like any other":
			first, last := word(a), word(b)
			iv.Start = append(bound(a)[:8], first[:]...)
			iv.End = plus(append(bound(b)[:8], last[:]...), 1)
		}
		return iv
	}
	if a <= b {
		return []ope.Interval{one(a, b)}, nil
	}
	switch t.bug {
	case "wrap-around is forgotten":
		return []ope.Interval{one(b, a)}, nil
	case "wrap-around in ciphertext order":
		return []ope.Interval{one(0, b), one(a, t.d.Span())}, nil
	case "wrap-around overlaps":
		return []ope.Interval{one(a, t.d.Span()), one(0, t.d.Span())}, nil
	}
	return []ope.Interval{one(a, t.d.Span()), one(0, b)}, nil
}

// mutableToy hands out labels halfway between neighbours and labels everything again where there
// is no room. A ciphertext is epoch (2 bytes), generation (2 bytes) and label (4 bytes).
type mutableToy struct {
	d   ope.Domain
	bug string

	mu      sync.Mutex
	version ope.Version
	entries []mutableEntry // ascending
}

type mutableEntry struct {
	x     int64
	label uint32
}

func newMutableToy(d ope.Domain, bug string) ope.Scheme { return &mutableToy{d: d, bug: bug} }

func (m *mutableToy) ID() string         { return "mutable toy/1" }
func (m *mutableToy) Domain() ope.Domain { return m.d }

func (m *mutableToy) ciphertext(v ope.Version, label uint32) ope.Ciphertext {
	if m.bug == "ciphertexts have no version" {
		v = ope.Version{}
	}
	c := binary.BigEndian.AppendUint16(nil, uint16(v.Epoch))
	c = binary.BigEndian.AppendUint16(c, uint16(v.Generation))
	return binary.BigEndian.AppendUint32(c, label)
}

// relabel spreads the labels evenly, as the version next.
func (m *mutableToy) relabel(next ope.Version) (moved int) {
	gap := uint32(math.MaxUint32) / uint32(len(m.entries)+1)
	if m.bug == "ciphertexts have no version" {
		gap -= uint32(next.Epoch+next.Generation) % 7
	}
	for i := range m.entries {
		label := gap * uint32(i+1)
		if !bytes.Equal(m.ciphertext(m.version, m.entries[i].label), m.ciphertext(next, label)) {
			moved++
		}
		m.entries[i].label = label
	}
	m.version = next
	return moved
}

func (m *mutableToy) find(x int64) (int, bool) {
	return slices.BinarySearchFunc(m.entries, x, func(e mutableEntry, x int64) int {
		if e.x < x {
			return -1
		} else if e.x > x {
			return 1
		}
		return 0
	})
}

func (m *mutableToy) Encrypt(ctx context.Context, x int64) (ope.Ciphertext, error) {
	if err := ctx.Err(); err != nil {
		if m.bug == "another error for a cancelled context" {
			return nil, fmt.Errorf("no")
		}
		return nil, err
	}
	if !m.d.Contains(x) {
		return nil, ope.ErrDomain
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := m.find(x)
	if !found {
		low, high := uint32(0), uint32(math.MaxUint32)
		if i > 0 {
			low = m.entries[i-1].label
		}
		if i < len(m.entries) {
			high = m.entries[i].label
		}
		m.entries = slices.Insert(m.entries, i, mutableEntry{x, low + (high-low)/2})
		if high-low < 2 {
			next := m.version
			next.Generation++
			// What was handed out for x is nothing; only its neighbours move.
			m.entries = slices.Delete(m.entries, i, i+1)
			m.relabel(next)
			m.mu.Unlock()
			defer m.mu.Lock()
			return m.Encrypt(ctx, x)
		}
	}
	return m.ciphertext(m.version, m.entries[i].label), nil
}

func (m *mutableToy) Decrypt(_ context.Context, c ope.Ciphertext) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c) != 8 {
		return 0, ope.ErrCiphertext
	}
	if !bytes.Equal(c[:4], m.ciphertext(m.version, 0)[:4]) {
		switch m.bug {
		case "stale is an unknown ciphertext":
			return 0, ope.ErrCiphertext
		case "stale is read":
		default:
			return 0, ope.ErrStale
		}
	}
	for _, e := range m.entries {
		if e.label == binary.BigEndian.Uint32(c[4:]) {
			return e.x, nil
		}
	}
	return 0, ope.ErrCiphertext
}

func (m *mutableToy) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	within, ok := m.d.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	if m.bug == "intervals write" {
		m.Encrypt(ctx, within.Min)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	version := m.version
	if m.bug == "intervals have no version" {
		version = ope.Version{}
	}
	top := append(bytes.Repeat([]byte{0xff}, 8), 0)
	iv := ope.Interval{Start: make(ope.Ciphertext, 8), End: top, Version: version}
	if i, _ := m.find(within.Min); within.Min > m.d.Min {
		iv.Start = top[:8]
		if i < len(m.entries) {
			iv.Start = m.ciphertext(m.version, m.entries[i].label)
		}
	}
	if i, found := m.find(within.Max); within.Max < m.d.Max {
		if found {
			i++
		}
		if i < len(m.entries) {
			iv.End = m.ciphertext(m.version, m.entries[i].label)
		}
	}
	return []ope.Interval{iv}, nil
}

func (m *mutableToy) Range(_ context.Context, lo, hi int64) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		m.mu.Lock()
		var out []ope.Entry
		for i, e := range m.entries {
			if m.bug == "range is half-open" && e.x == hi {
				continue
			}
			if m.bug == "range drops one" && i == 3 {
				continue
			}
			if lo <= e.x && e.x <= hi {
				out = append(out, ope.Entry{Plaintext: e.x, Ciphertext: m.ciphertext(m.version, e.label), Version: m.version})
			}
		}
		m.mu.Unlock()
		if m.bug == "range is in descending order" {
			slices.Reverse(out)
		}
		for _, e := range out {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *mutableToy) Rebalance(_ context.Context, progress func(done, total int)) (ope.RebalanceStats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := ope.RebalanceStats{Values: len(m.entries), Before: m.version}
	next := ope.Version{Epoch: m.version.Epoch + 1}
	if m.bug == "rebalance keeps the version" {
		next = m.version
	}
	stats.Moved = m.relabel(next)
	stats.After = m.version
	if m.bug == "rebalance counts nothing" {
		stats.Moved = 0
	}
	if progress != nil {
		for i := range m.entries {
			if m.bug == "progress goes backwards" {
				i = len(m.entries) - i
			}
			progress(i, len(m.entries))
		}
		progress(len(m.entries), len(m.entries))
	}
	return stats, nil
}
