package store

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A table that another client drops between its creation and its opening is told to be gone.
func TestCreateOfTableThatIsDroppedAtOnce(t *testing.T) {
	ctx, memory, made := t.Context(), drivertest.NewMemory(), false
	other := stores(t, memory, 1)[0]
	st := stores(t, intercept.New(memory, func(ctx context.Context, op intercept.Op, call intercept.Call) error {
		if made && op.Method == "Family" && strings.HasPrefix(op.Family, "t") {
			made = false
			require.NoError(t, other.Drop(ctx, "rotated"))
		}
		err := call.Make(nil)
		made = made || err == nil && op.Conditional() && op.Family == "catalogue"
		return err
	}, nil), 1)[0]
	schema := rotated
	schema.Name = "rotated"
	_, err := st.Create(ctx, schema)
	require.ErrorIs(t, err, ErrNoTable)
	require.ErrorContains(t, err, "it was dropped")
}
