package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each password is asked for once, however often a store is opened; one that could not be read is asked for again.
func TestPasswordsAreRemembered(t *testing.T) {
	var asked []string
	failure := errors.New("no terminal")
	ask := remember(func(_ context.Context, prompt string) ([]byte, error) {
		asked = append(asked, prompt)
		if len(asked) == 1 {
			return nil, failure
		}
		return []byte("of " + prompt), nil
	})
	_, err := ask(t.Context(), "a")
	require.ErrorIs(t, err, failure)
	for _, prompt := range []string{"a", "b", "a", "b"} {
		got, err := ask(t.Context(), prompt)
		require.NoError(t, err)
		require.Equal(t, "of "+prompt, string(got))
	}
	require.Equal(t, []string{"a", "a", "b"}, asked)
}

// What is no password is shown as it is.
func TestConcealedNames(t *testing.T) {
	const name = "cassandra://app:SESAME@h/ks?user=app&passwd=SESAME"
	for _, args := range [][]string{{"--store", name}, {"--store=" + name}, {name}} {
		require.NotContains(t, conceal("unknown argument \""+args[len(args)-1]+"\"", args), "SESAME")
	}
	require.Equal(t, "see cassandra://h/ks?user=app", conceal("see cassandra://h/ks?user=app", []string{"cassandra://h/ks?user=app"}))
}
