package migrate

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A dual write that fails for one of two rows, while a column of the table is sealed, leaves the other one as others expect it, and not in
// the clear: a verification finds that it is what the source has, and writes nothing.
func TestDualWriteThatFailsLeavesNothingInTheClear(t *testing.T) {
	ctx, db, master := t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
	st, err := store.Open(ctx, db, master, nil)
	require.NoError(t, err)
	schema := store.Schema{
		Name: "from", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("note", store.String)},
	}
	from, err := st.Create(ctx, schema)
	require.NoError(t, err)
	schema.Name, schema.Columns = "into", []store.Column{store.PlainColumn("note", store.String)}
	into, err := st.Create(ctx, schema)
	require.NoError(t, err)

	writes, made := atomic.Int32{}, make(chan struct{})
	writes.Store(2)
	other, err := store.Open(ctx, intercept.New(db, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
		if !op.Conditional() || op.Family[0] != 't' {
			return c.Make(nil)
		}
		switch writes.Add(1) {
		case 1: // it comes after the conversion
			defer close(made)
			require.NoError(t, st.Alter(ctx, "into", store.ChangeColumn(store.RandomisedColumn("note", store.String))))
			_, err := into.Convert(ctx, nil)
			require.NoError(t, err)
		case 2:
			<-made
			return driver.ErrUnavailable
		}
		return c.Make(nil)
	}, nil), master, nil)
	require.NoError(t, err)
	source, err := FromTable(ctx, other, "from")
	require.NoError(t, err)
	m, err := Open(ctx, other, "into", source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	_, err = m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	rows := []store.Row{{"id": int64(1), "note": "a secret"}, {"id": int64(2), "note": "a secret"}}
	writes.Store(0)
	err = m.Mirror().Write(ctx, rows, func(ctx context.Context) error { return from.Put(ctx, rows...) })
	require.ErrorIs(t, err, driver.ErrUnavailable)
	_, err = m.Verify(ctx, whole, &PassOptions{Repair: true})
	require.NoError(t, err)
	use, err := into.KeyUse(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, use.Plain)
}
