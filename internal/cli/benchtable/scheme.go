package benchtable

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/ope/memindex"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
)

// A scheme is a way to order rows.
type scheme struct {
	name     string
	about    string
	order    store.ColumnScheme
	plain    bool   // it encrypts nothing
	beside   string // the scheme without encryption that it is compared with
	stateful bool   // it keeps its values in an index
	id       func(d ope.Domain) (string, error)
}

// moves reports whether ciphertexts move.
func (s scheme) moves() bool {
	_, ok := s.order.(store.MutableScheme)
	return ok
}

// ofKeys reports whether the scheme may encrypt row keys.
func (s scheme) ofKeys() bool {
	_, ok := s.order.(store.KeyScheme)
	return ok
}

// layout returns where the scheme has the value if nothing else is asked for.
func (s scheme) layout() Layout {
	if !s.ofKeys() {
		return LayoutColumn
	}
	return LayoutKey
}

// schemes lists what rows can be ordered by; names are validated against it and run from it.
var schemes = []scheme{
	{
		name: Plain, about: "no encryption, on the same tables: what the others are compared with", order: store.Plaintext, plain: true, beside: Plain,
		id: func(d ope.Domain) (string, error) { return fmt.Sprintf("plaintext/1 domain=%v", d), nil },
	},
	{
		name: "mope", about: "Boldyreva's scheme with a secret shift (CRYPTO 2011)", order: store.MOPE, beside: Plain,
		id: func(d ope.Domain) (string, error) { return idOf(boldyreva.NewModular(ope.GenerateKey(), d, nil)) },
	},
	{
		name: "boldyreva", about: "Boldyreva's scheme (EUROCRYPT 2009)", order: store.Boldyreva, beside: Plain,
		id: func(d ope.Domain) (string, error) { return idOf(boldyreva.New(ope.GenerateKey(), d, nil)) },
	},
	{
		name: "wozniak", about: "Wozniak's random sampling (2013), made stateless by a key", order: store.Wozniak, beside: Plain,
		id: func(d ope.Domain) (string, error) { return idOf(wozniak.New(ope.GenerateKey(), d, nil)) },
	},
	{
		name: "wozniak-indexed", about: "the same with its state in an index (Waage et al. 2016)", order: store.WozniakIndexed, beside: Plain, stateful: true,
		id: func(d ope.Domain) (string, error) {
			return idOf(wozniak.NewIndexed(ope.GenerateKey(), d, memindex.New(), "u", &wozniak.IndexedOptions{TargetsOnly: true}))
		},
	},
	{
		name: plainIndexed, about: "no encryption, on kerschbaum's tables: what it is compared with", order: compare.PlaintextIndexed, plain: true, beside: plainIndexed, stateful: true,
		id: func(d ope.Domain) (string, error) { return fmt.Sprintf("plaintext-indexed/1 domain=%v", d), nil },
	},
	{
		name: "kerschbaum", about: "Kerschbaum's mutable scheme (CCS 2014) with local relabelling; columns only", order: store.Kerschbaum, beside: plainIndexed, stateful: true,
		id: func(d ope.Domain) (string, error) {
			return idOf(kerschbaum.New(ope.GenerateKey(), d, memindex.New(), nil))
		},
	},
	{
		name: "kerschbaum-paper", about: "the same as published, which writes the whole index again; columns only", order: compare.KerschbaumPublished, beside: plainIndexed, stateful: true,
		id: func(d ope.Domain) (string, error) {
			return idOf(kerschbaum.New(ope.GenerateKey(), d, memindex.New(), &kerschbaum.Options{Lambda: 2}))
		},
	},
	{
		name: "kerschbaum-ranked", about: "kerschbaum with ranks that never move in the index entries, so that a range is one scan; columns only", order: store.KerschbaumRanked, beside: Plain, stateful: true,
		id: func(d ope.Domain) (string, error) {
			return idOf(kerschbaum.NewRanked(ope.GenerateKey(), d, memindex.New(), nil))
		},
	},
}

// idOf returns the ID of a scheme, which does not depend on its key.
func idOf[S ope.Scheme](s S, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return s.ID(), nil
}

// Plain is the name of the scheme that encrypts nothing, plainIndexed that of the one which is to
// mutable schemes what Plain is to the others.
const (
	Plain        = "plain"
	plainIndexed = "plain-indexed"
)

// Schemes returns the names of the schemes and a line about each.
func Schemes() (names, abouts []string) {
	for _, s := range schemes {
		names = append(names, s.name)
		abouts = append(abouts, s.about)
	}
	return names, abouts
}

// Baseline returns the name of the scheme without encryption that the named one is compared with.
// It is its own where it encrypts nothing.
func Baseline(name string) string {
	s, err := schemeByName(name)
	if err != nil {
		return ""
	}
	return s.beside
}

func schemeByName(name string) (scheme, error) {
	i := slices.IndexFunc(schemes, func(s scheme) bool { return s.name == name })
	if i < 0 {
		names, _ := Schemes()
		return scheme{}, exit.Usagef("unknown scheme %q: there is %s", name, strings.Join(names, ", "))
	}
	return schemes[i], nil
}

// SchemeID returns the ID of the scheme for values of the type. A type that the scheme cannot
// encrypt is ErrUsage.
func SchemeID(name string, k values.Kind) (string, error) {
	spec, err := schemeByName(name)
	if err != nil {
		return "", err
	}
	id, err := spec.id(k.Domain)
	if errors.Is(err, ope.ErrParams) {
		return "", exit.Usagef("%s encrypts no values of type %s, which have too many bits for it: take another scheme or a narrower type", name, k.Name)
	}
	return id, err
}

// A Target is a scheme on a layout: a table.
type Target struct {
	Scheme string
	Layout Layout
}

// Name returns the name of the table.
func (t Target) Name() string { return t.Scheme + "/" + string(t.Layout) }

// spec returns the scheme, which is known of a Target that [TargetOf] has returned.
func (t Target) spec() scheme {
	s, err := schemeByName(t.Scheme)
	if err != nil {
		panic("benchtable: " + err.Error())
	}
	return s
}

// Moves reports whether ciphertexts of the table move.
func (t Target) Moves() bool { return t.spec().moves() }

// HasIndex reports whether the scheme keeps its values in an index.
func (t Target) HasIndex() bool { return t.spec().stateful }

// TargetOf returns the table that is meant by a scheme and a layout; the layout "" stands for a
// row key where the scheme can be one, and a column where it cannot.
func TargetOf(scheme string, layout Layout) (Target, error) {
	spec, err := schemeByName(scheme)
	if err != nil {
		return Target{}, err
	}
	if layout == "" {
		return Target{scheme, spec.layout()}, nil
	}
	if err := CheckLayout(layout); err != nil {
		return Target{}, err
	}
	if layout == LayoutKey && !spec.ofKeys() {
		why := scheme + " encrypts columns only"
		if spec.moves() {
			why = "the ciphertexts of " + scheme + " move, and no database can rename a row"
		}
		return Target{}, exit.Usagef("%s: give --layout column, or leave --layout out and it is a column", why)
	}
	return Target{scheme, layout}, nil
}

// Targets returns the tables that are measured: those of the schemes and, where plain is among
// them, what else they need to be compared with. The layout "" is as in TargetOf.
func Targets(schemes []string, layout Layout) ([]Target, error) {
	var named []Target
	for _, name := range schemes {
		t, err := TargetOf(name, layout)
		if err != nil {
			return nil, err
		}
		named = append(named, t)
	}
	var targets []Target
	for _, t := range named {
		base := Target{Baseline(t.Scheme), t.Layout}
		if slices.Contains(schemes, Plain) && !slices.Contains(slices.Concat(named, targets), base) {
			targets = append(targets, base)
		}
		targets = append(targets, t)
	}
	return targets, nil
}
