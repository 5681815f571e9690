package admin

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A list of names can be told apart, and given to a flag again.
func TestNames(t *testing.T) {
	require.Equal(t, `a, "b,c", "d\ne", f g`, names([]string{"a", "b,c", "d\ne", "f g"}))
}
