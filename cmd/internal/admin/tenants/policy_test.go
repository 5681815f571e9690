package tenants

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
)

// A policy that seals all columns is not said to seal what the schema has searched in the clear.
func TestPolicyOfAllColumns(t *testing.T) {
	p := policyOf{table: "t", set: true, policy: store.Policy{Whole: true}, columns: []store.Column{
		store.OrderedColumn("rank", store.Int16, store.MOPE), store.PlainColumn("note", store.String),
	}}
	require.Equal(t, "all columns", p.says())
	p.columns = append(p.columns, store.OrderedColumn("level", store.Int16, store.Plaintext))
	require.Equal(t, `all columns, but level, which the schema has searched in the clear`, p.says())
}
