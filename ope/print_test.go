package ope_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// An application has schemes in fields of its own.
type application struct {
	linear  *boldyreva.Scheme
	modular *boldyreva.ModularScheme
	texts   *boldyreva.TextScheme
	keyed   *wozniak.Scheme
	indexed *wozniak.Indexed
	labels  *kerschbaum.Scheme
	ranked  *kerschbaum.Ranked
	column  encode.Column[int64]
}

// newApplication returns one that has encrypted a number and a text.
func newApplication(t *testing.T, x int64, text string) (app application) {
	key, index, err := ope.GenerateKey(), memindex.New(), error(nil)
	app.linear, err = boldyreva.New(key, ope.Int64, nil)
	require.NoError(t, err)
	app.modular, err = boldyreva.NewModular(key, ope.Int64, nil)
	require.NoError(t, err)
	app.texts, err = boldyreva.NewText(key, 32)
	require.NoError(t, err)
	app.texts.Encrypt([]byte(text))
	app.keyed, err = wozniak.New(key, ope.Int64, nil)
	require.NoError(t, err)
	app.indexed, err = wozniak.NewIndexed(key, ope.Int64, index, "unit", nil)
	require.NoError(t, err)
	app.labels, err = kerschbaum.New(key, ope.Int64, index, &kerschbaum.Options{Name: "labels"})
	require.NoError(t, err)
	app.ranked, err = kerschbaum.NewRanked(key, ope.Int64, index, &kerschbaum.Options{Name: "ranks"})
	require.NoError(t, err)
	column, err := encode.NewColumn(app.modular, encode.Integer[int64]())
	require.NoError(t, err)
	app.column = *column
	for _, s := range []ope.Scheme{app.indexed, app.labels, app.ranked} {
		_, err := s.Encrypt(t.Context(), x)
		require.NoError(t, err)
	}
	return app
}

// Logs and messages print what a program has at hand. Neither the shift, nor what a scheme remembers of plaintexts, nor the edges
// of units are for them.
func TestSchemesPrintTheirID(t *testing.T) {
	app := newApplication(t, 7700770077, "a plaintext that others begin with")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q", "%t"} {
		for _, is := range []struct {
			printed any
			id      string
		}{
			{app.linear, app.linear.ID()}, {*app.linear, app.linear.ID()}, {app.modular, app.modular.ID()}, {*app.modular, app.modular.ID()},
			{app.texts, app.texts.ID()}, {app.keyed, app.keyed.ID()}, {*app.keyed, app.keyed.ID()}, {app.indexed, app.indexed.ID()},
			{app.labels, app.labels.ID()}, {*app.labels, app.labels.ID()}, {app.ranked, app.ranked.ID()}, {*app.ranked, app.ranked.ID()},
			{&app.column, app.column.ID()}, {app.column, app.column.ID()},
			{new(boldyreva.Scheme), ""}, {new(wozniak.Indexed), ""}, {new(kerschbaum.Scheme), ""}, {new(kerschbaum.Ranked), ""},
		} {
			require.Equal(t, is.id, fmt.Sprintf(verb, is.printed), verb)
		}
	}
	require.Equal(t, "<nil>", fmt.Sprint((*boldyreva.ModularScheme)(nil)))
	require.Equal(t, "<nil>", fmt.Sprint((*encode.Column[int64])(nil)))
}

// fmt calls no methods of fields that are not exported. Where the verb does not suit a pointer, it prints what that points to,
// but nothing beyond. That depends on neither key nor plaintexts.
func TestWhatHoldsASchemePrintsNoSecret(t *testing.T) {
	one, other := newApplication(t, 7700770077, "begins like others and ends"), newApplication(t, -5, "has another beginning, too")
	address := regexp.MustCompile("0x[0-9a-f]+")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%t"} {
		printed := func(app application) string { return address.ReplaceAllString(fmt.Sprintf(verb, app), "address") }
		require.Equal(t, printed(one), printed(other), verb)
	}
}
