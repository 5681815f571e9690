package rekey

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/rekey"
)

// Keys are counted once each, and stay in their order: the newest one is the first.
func TestCountListed(t *testing.T) {
	ids := []string{"c", "a", "b", "a"}
	require.Equal(t, 2, countListed(rekey.List{"a": true, "c": true, "d": true}, ids))
	require.Equal(t, []string{"c", "a", "b", "a"}, ids)
}
