package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/leakage"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// A schemeSpec is a scheme that can be audited.
type schemeSpec struct {
	name     string
	snapshot string // what one shows beside order and equality
	server   string // what one that watches learns besides
	encrypt  func(ctx context.Context, key ope.Key, d ope.Domain, values []int64) (*encrypted, error)
	trace    func(labels []ope.Ciphertext) []int // of a mutable scheme, whose labels depend on the order alone
}

// encrypted is a column under a key.
type encrypted struct {
	id     string
	bits   int              // of the range; 0 for all of the ciphertexts
	rows   []ope.Ciphertext // as a snapshot shows them
	turned []ope.Ciphertext // of a shifting scheme: with the shift taken back
	traced float64          // of a mutable scheme: see Result
}

// schemes lists what is audited; names are validated against it and run from it.
var schemes = []schemeSpec{
	{
		name:     "mope",
		snapshot: "distances, to about the square root of the domain, and the secret shift where a gap is wide enough to be seen",
		server:   "the shift, from the first open-ended or wrapping query on; it is the linear scheme from then on",
		encrypt: func(ctx context.Context, key ope.Key, d ope.Domain, values []int64) (*encrypted, error) {
			s, err := boldyreva.NewModular(key, d, nil)
			if err != nil {
				return nil, err
			}
			e, err := stateless(ctx, s, values)
			if err != nil {
				return nil, err
			}
			// The owner of the key turns the range until the least plaintext comes first.
			start, err := s.Encrypt(ctx, d.Min)
			if err != nil {
				return nil, err
			}
			e.turned = make([]ope.Ciphertext, len(e.rows))
			for i, c := range e.rows {
				e.turned[i] = minus(c, start)
			}
			return e, nil
		},
	},
	{
		name:     "boldyreva",
		snapshot: "distances and places, to about the square root of the domain: the upper half of the bits",
		server:   "which values are asked for",
		encrypt:  plainly(func(key ope.Key, d ope.Domain) (statelessScheme, error) { return boldyreva.New(key, d, nil) }),
	},
	{
		name:     "wozniak",
		snapshot: "places roughly, and distances hardly; they add little to the order of many values",
		server:   "which values are asked for",
		encrypt:  plainly(func(key ope.Key, d ope.Domain) (statelessScheme, error) { return wozniak.New(key, d, nil) }),
	},
	{
		name:     "kerschbaum",
		snapshot: "which of two values was inserted first",
		server:   "the whole order of insertion, and the old labels of values that were moved",
		encrypt: func(ctx context.Context, key ope.Key, d ope.Domain, values []int64) (*encrypted, error) {
			s, err := kerschbaum.New(key, d, memindex.New(), nil)
			if err != nil {
				return nil, err
			}
			for _, x := range values { // one by one, as rows come
				if _, err := s.Encrypt(ctx, x); err != nil {
					return nil, err
				}
			}
			labels := make(map[int64]ope.Ciphertext)
			for entry, err := range s.Range(ctx, d.Min, d.Max) {
				if err != nil {
					return nil, err
				}
				labels[entry.Plaintext] = entry.Ciphertext[:16] // what the index is ordered by
			}
			e := &encrypted{id: s.ID(), rows: make([]ope.Ciphertext, len(values))}
			for i, x := range values {
				e.rows[i] = labels[x]
			}
			return e, nil
		},
		trace: traceAdaptive,
	},
	{
		name:     "kerschbaum-ranked",
		snapshot: "which of two values was inserted first, in copies of the rows as well",
		server:   "the whole order of insertion, and the old labels of values that were moved",
		encrypt: func(ctx context.Context, key ope.Key, d ope.Domain, values []int64) (*encrypted, error) {
			s, err := kerschbaum.NewRanked(key, d, memindex.New(), nil)
			if err != nil {
				return nil, err
			}
			e := &encrypted{id: s.ID()}
			for _, x := range values {
				c, err := s.Encrypt(ctx, x)
				if err != nil {
					return nil, err
				}
				e.rows = append(e.rows, c[:kerschbaum.RankSize-1]) // what rows are ordered by
			}
			return e, nil
		},
		trace: traceAdaptive,
	},
}

// Schemes returns the names of the schemes.
func Schemes() []string {
	var names []string
	for _, s := range schemes {
		names = append(names, s.name)
	}
	return names
}

// CheckScheme returns an error that lists the schemes unless there is one of that name.
func CheckScheme(name string) error {
	_, err := schemeByName(name)
	return err
}

func schemeByName(name string) (schemeSpec, error) {
	i := slices.IndexFunc(schemes, func(s schemeSpec) bool { return s.name == name })
	if i < 0 {
		return schemeSpec{}, usagef("unknown scheme %q: there is %s", name, strings.Join(Schemes(), ", "))
	}
	return schemes[i], nil
}

// Learns returns what a snapshot of a scheme shows, and what a server that watches learns, beside
// order and equality.
func Learns(name string) (snapshot, server string) {
	s, err := schemeByName(name)
	if err != nil {
		return "", ""
	}
	return s.snapshot, s.server
}

// keyFor returns the n-th key of a scheme in audits of a seed. These keys protect nothing.
func keyFor(seed uint64, scheme string, n int) ope.Key {
	in := binary.BigEndian.AppendUint64([]byte("opebench audit "+scheme), seed)
	secret := sha256.Sum256(binary.BigEndian.AppendUint64(in, uint64(n)))
	key, err := ope.NewKey(secret[:])
	if err != nil {
		panic("audit: " + err.Error()) // it has 32 bytes
	}
	return key
}

// A statelessScheme encrypts in batches, and ascending ones the fastest.
type statelessScheme interface {
	ope.Scheme
	ope.BatchEncrypter
}

// plainly encrypts a column under the scheme that open makes, and does no more.
func plainly(open func(ope.Key, ope.Domain) (statelessScheme, error)) func(context.Context, ope.Key, ope.Domain, []int64) (*encrypted, error) {
	return func(ctx context.Context, key ope.Key, d ope.Domain, values []int64) (*encrypted, error) {
		s, err := open(key, d)
		if err != nil {
			return nil, err
		}
		return stateless(ctx, s, values)
	}
}

// stateless encrypts every value once.
func stateless(ctx context.Context, s statelessScheme, values []int64) (*encrypted, error) {
	distinct := slices.Compact(slices.Sorted(slices.Values(values)))
	cs, err := s.EncryptBatch(ctx, distinct)
	if err != nil {
		return nil, err
	}
	e := &encrypted{id: s.ID(), bits: rangeBits(s.ID()), rows: make([]ope.Ciphertext, len(values))}
	for i, x := range values {
		at, _ := slices.BinarySearch(distinct, x)
		e.rows[i] = cs[at]
	}
	return e, nil
}

// rangeBits returns the bits of the range that the ID of a stateless scheme names.
func rangeBits(id string) int {
	_, text, _ := strings.Cut(id, " range=")
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("audit: the ID of a scheme names no range: " + id)
	}
	return n
}

// minus returns a - b modulo the range of their bytes.
func minus(a, b ope.Ciphertext) ope.Ciphertext {
	out, borrow := make(ope.Ciphertext, len(a)), 0
	for i := len(a) - 1; i >= 0; i-- {
		x := int(a[i]) - int(b[i]) - borrow
		out[i], borrow = byte(x), 0
		if x < 0 {
			borrow = 1
		}
	}
	return out
}

// traceAdaptive reads labels, or ranks, under the default rule of package kerschbaum.
func traceAdaptive(labels []ope.Ciphertext) []int {
	one := big.NewInt(1)
	top := new(big.Int).Lsh(one, uint(8*len(labels[0])))
	return leakage.Trace(labels, new(big.Int), top.Sub(top, one), leakage.Turns{}, leakage.Adaptive)
}
