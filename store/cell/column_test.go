package cell

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Table and column are in the place, whatever the keys are: a value does not open elsewhere even under its own key.
func TestPlacesHaveTableAndColumn(t *testing.T) {
	m, err := meta.NewElsewhere("t")
	require.NoError(t, err)
	a := &meta.Alteration{Meta: m}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, a.Add(meta.Spec{Name: name, Type: value.Int64, Encryption: meta.Ordered, Scheme: scheme.MOPE}))
	}
	k := keyring.New(ope.GenerateKey(), meta.DatabaseID{1}).Of(m)
	k.Equip(m)
	first, err := newColumn(k, m, &m.Columns[0])
	require.NoError(t, err)
	c, err := first.seal(Row(1), int64(1))
	require.NoError(t, err)
	_, err = first.open(Row(1), c)
	require.NoError(t, err)

	second, err := newColumn(k, m, &m.Columns[1])
	require.NoError(t, err)
	second.sealer = first.sealer
	_, err = second.open(Row(1), c)
	require.ErrorIs(t, err, fault.ErrTampered)
	other := *first
	other.place = keyring.Place("elsewhere", make([]byte, 16), m.Columns[0].ID[:])
	_, err = other.open(Row(1), c)
	require.ErrorIs(t, err, fault.ErrTampered)
	other.place = keyring.Place("cell", m.ID[:], m.Columns[0].ID[:])
	_, err = other.open(Row(1), c)
	require.ErrorIs(t, err, fault.ErrTampered)
}

// Keys of tables that the application keeps are wrapped for that purpose: those of tables that are here do not open as them.
func TestKeysHaveAPurposeOfTheirOwn(t *testing.T) {
	m, err := meta.NewElsewhere("t")
	require.NoError(t, err)
	require.NoError(t, (&meta.Alteration{Meta: m}).Add(meta.Spec{Name: "a", Type: value.Int64, Encryption: meta.Deterministic}))
	keys := keyring.New(ope.GenerateKey(), meta.DatabaseID{1})
	keys.Of(m).Equip(m)
	require.Empty(t, m.RowKeys)
	_, err = newColumn(keys.Of(m), m, &m.Columns[0])
	require.NoError(t, err)
	_, err = newColumn(keys.Table(m.ID), m, &m.Columns[0])
	require.ErrorIs(t, err, fault.ErrTampered)
}
