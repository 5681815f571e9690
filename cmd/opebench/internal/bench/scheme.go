package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
)

// A schemeSpec is a way to order rows.
type schemeSpec struct {
	name  string
	about string
	plain bool // nothing is encrypted, the cells neither
	new   func(key ope.Key, d ope.Domain) (ope.Immutable, error)
}

// schemes lists what rows can be ordered by; names are validated against it and run from it.
var schemes = []schemeSpec{
	{
		name: Plain, about: "no encryption: what the others are compared with", plain: true,
		new: func(_ ope.Key, d ope.Domain) (ope.Immutable, error) { return newPlain(d) },
	},
	{
		name: "mope", about: "Boldyreva's scheme with a secret shift (CRYPTO 2011)",
		new: func(key ope.Key, d ope.Domain) (ope.Immutable, error) { return boldyreva.NewModular(key, d, nil) },
	},
	{
		name: "boldyreva", about: "Boldyreva's scheme (EUROCRYPT 2009)",
		new: func(key ope.Key, d ope.Domain) (ope.Immutable, error) { return boldyreva.New(key, d, nil) },
	},
}

// Plain is the name of the scheme that encrypts nothing.
const Plain = "plain"

// Schemes returns the names of the schemes and a line about each.
func Schemes() (names, abouts []string) {
	for _, s := range schemes {
		names = append(names, s.name)
		abouts = append(abouts, s.about)
	}
	return names, abouts
}

// CheckScheme returns an error that lists the schemes unless there is one of that name.
func CheckScheme(name string) error {
	_, err := schemeByName(name)
	return err
}

func schemeByName(name string) (schemeSpec, error) {
	i := slices.IndexFunc(schemes, func(s schemeSpec) bool { return s.name == name })
	if i < 0 {
		names, _ := Schemes()
		return schemeSpec{}, usagef("unknown scheme %q: there is %s", name, strings.Join(names, ", "))
	}
	return schemes[i], nil
}

// SchemeID returns the ID that data of the scheme and the type is recorded under.
func SchemeID(name string, k Kind) (string, error) {
	spec, err := schemeByName(name)
	if err != nil {
		return "", err
	}
	s, err := spec.new(ope.GenerateKey(), k.Domain) // the ID does not depend on the key
	if err != nil {
		return "", err
	}
	return s.ID(), nil
}

// plain orders rows by their values themselves, as big-endian offsets from the domain's minimum
// of as few bytes as the domain needs. It has the form of a scheme, so that what is compared
// differs in nothing else.
type plain struct {
	d    ope.Domain
	size int
}

var _ ope.Linear = plain{}
var _ ope.Appender = plain{}

func newPlain(d ope.Domain) (plain, error) {
	if err := d.Validate(); err != nil {
		return plain{}, err
	}
	size := 1
	for span := d.Span() >> 8; span > 0; span >>= 8 {
		size++
	}
	return plain{d, size}, nil
}

func (p plain) ID() string          { return fmt.Sprintf("plain/1 domain=%v", p.d) }
func (p plain) Domain() ope.Domain  { return p.d }
func (plain) ImmutableCiphertexts() {}
func (plain) LinearOrder()          {}

func (p plain) AppendEncrypt(dst []byte, x int64) ([]byte, error) {
	if !p.d.Contains(x) {
		return dst, fmt.Errorf("%w %v", ope.ErrDomain, p.d)
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], p.d.Offset(x))
	return append(dst, b[8-p.size:]...), nil
}

func (p plain) Encrypt(_ context.Context, x int64) (ope.Ciphertext, error) {
	return p.AppendEncrypt(nil, x)
}

func (p plain) Decrypt(_ context.Context, c ope.Ciphertext) (int64, error) {
	if len(c) != p.size {
		return 0, fmt.Errorf("%w: it has %d bytes, need %d", ope.ErrCiphertext, len(c), p.size)
	}
	var b [8]byte
	copy(b[8-p.size:], c)
	offset := binary.BigEndian.Uint64(b[:])
	if offset > p.d.Span() {
		return 0, fmt.Errorf("%w: above the domain", ope.ErrCiphertext)
	}
	return p.d.At(offset), nil
}

func (p plain) Intervals(_ context.Context, lo, hi int64) ([]ope.Interval, error) {
	d, ok := p.d.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	start, err := p.AppendEncrypt(nil, d.Min)
	if err != nil {
		return nil, err
	}
	if d.Max < p.d.Max {
		end, err := p.AppendEncrypt(nil, d.Max+1)
		return []ope.Interval{{Start: start, End: end}}, err
	}
	end := make(ope.Ciphertext, p.size+1)
	for i := range p.size {
		end[i] = 0xff
	}
	return []ope.Interval{{Start: start, End: end}}, nil
}
