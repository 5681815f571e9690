package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/store"
)

// A schemeSpec is a way to order rows.
type schemeSpec struct {
	name  string
	about string
	order store.KeyScheme
	id    func(d ope.Domain) (string, error)
}

// schemes lists what rows can be ordered by; names are validated against it and run from it.
var schemes = []schemeSpec{
	{
		name: Plain, about: "no encryption, on the same tables: what the others are compared with", order: store.Plaintext,
		id: func(d ope.Domain) (string, error) { return fmt.Sprintf("plaintext/1 domain=%v", d), nil },
	},
	{
		name: "mope", about: "Boldyreva's scheme with a secret shift (CRYPTO 2011)", order: store.MOPE,
		id: func(d ope.Domain) (string, error) { return idOf(boldyreva.NewModular(ope.GenerateKey(), d, nil)) },
	},
	{
		name: "boldyreva", about: "Boldyreva's scheme (EUROCRYPT 2009)", order: store.Boldyreva,
		id: func(d ope.Domain) (string, error) { return idOf(boldyreva.New(ope.GenerateKey(), d, nil)) },
	},
}

// idOf returns the ID of a scheme, which does not depend on its key.
func idOf[S ope.Scheme](s S, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return s.ID(), nil
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

// SchemeID returns the ID of the scheme for values of the type.
func SchemeID(name string, k Kind) (string, error) {
	spec, err := schemeByName(name)
	if err != nil {
		return "", err
	}
	return spec.id(k.Domain)
}
