package hbasesource

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

// A silentClient is one whose cluster is gone: it tries until the request's own context ends.
type silentClient struct{ gohbase.Client }

func (silentClient) Increment(m *hrpc.Mutate) (int64, error) {
	<-m.Context().Done()
	return 0, m.Context().Err()
}

// A write ends with its context, also where the request was made with one that has no end.
func TestWritesEndWithTheirContext(t *testing.T) {
	c := NewClient(silentClient{}, &Source{name: "orders"}, nil)
	request := func(ctx context.Context) *hrpc.Mutate {
		m, err := hrpc.NewIncStrSingle(ctx, "others", "row", "d", "n", 1)
		require.NoError(t, err)
		return m
	}
	ends, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := c.Increment(ends, request(t.Context()))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "may still be made")
	_, err = c.Increment(ends, request(t.Context()))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.Increment(t.Context(), request(ends))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
