package rowcodec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCountsAsMadeEarlierInAnotherView: a row that is to count as made earlier, and is stored again because the schema was
// changed meanwhile, must not replace what others have written since.
func TestCountsAsMadeEarlierInAnotherView(t *testing.T) {
	one, other := &View{}, &View{}
	r := one.NewRecord()
	r.AsOf = time.Unix(1e9, 0)
	require.Equal(t, r.AsOf, other.Inherited(one, r).AsOf)
	require.Equal(t, r.AsOf, other.Adopted(one, r).AsOf)
}
