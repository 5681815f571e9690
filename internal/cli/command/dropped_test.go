package command

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A table that is dropped while those before it are read keeps nobody from reading those after it, unless it was named.
func TestTablesThatAreDroppedMeanwhile(t *testing.T) {
	verify := func(tables ...string) func(context.Context, *cli.Call) error {
		return func(ctx context.Context, c *cli.Call) error {
			return (&verification{Call: c, grace: time.Second, every: 1, tables: tables}).run(ctx)
		}
	}
	for _, test := range []struct {
		run  func(context.Context, *cli.Call) error
		want error
	}{
		{verify(), nil}, {verify("a", "b", "c"), store.ErrNoTable},
		{func(ctx context.Context, c *cli.Call) error { return verifyKeys(ctx, c, true) }, nil},
	} {
		ctx, db, master := t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
		st, err := store.Open(ctx, db, master, nil)
		require.NoError(t, err)
		for _, name := range []string{"a", "b", "c"} {
			_, err := st.Create(ctx, store.Schema{Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})
			require.NoError(t, err)
		}
		dropped := false
		hooked := intercept.New(db, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
			if op.Method == "Scan" && !dropped {
				dropped = true
				require.NoError(t, st.Drop(ctx, "b"))
			}
			return c.Make(nil)
		}, nil)
		other, err := store.Open(ctx, hooked, master, nil)
		require.NoError(t, err)
		var out bytes.Buffer
		err = test.run(ctx, &cli.Call{Env: &cli.Env{Stdout: &out, Stderr: &out}, DB: hooked, Store: other, JSON: true})
		require.True(t, dropped)
		require.Contains(t, out.String(), `"table":"a"`)
		if test.want != nil {
			require.ErrorIs(t, err, test.want)
			continue
		}
		require.NoError(t, err)
		require.NotContains(t, out.String(), `"table":"b"`)
		require.Contains(t, out.String(), `"table":"c"`)
	}
}
