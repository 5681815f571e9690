package exit

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// An interruption in a change of which nobody knows whether it is made says so, also when it is asked for again.
func TestInterruptedChangeOfUnknownOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lost := fmt.Errorf("alter: %w; %w", context.Canceled, driver.ErrUnknownOutcome)
	require.Equal(t, lost, Early(ctx, lost))
	cancel()
	require.Equal(t, ErrInterrupted, Early(ctx, context.Canceled))
	early := Early(ctx, fmt.Errorf("close: %w", Early(ctx, lost)))
	require.EqualError(t, early, "interrupted; what was under way may be made, or may be made yet")
	require.ErrorIs(t, early, ErrInterrupted)
	require.Equal(t, Interrupted, CodeOf(ctx, early))
}
