package migration

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

type proposing struct{ migrate.Source }

func (proposing) Propose(_ context.Context, name string) (store.Schema, []string, error) {
	schema := store.Schema{
		Name: name, Key: []store.KeyPart{store.HashedPart("customer", store.String), store.OrderedPart("number", store.Int32, store.Boldyreva)},
		Columns: []store.Column{store.RandomisedColumn("sel;ect", store.Decimal(6))}, SpreadBits: 4,
	}
	return schema, []string{"sel;ect (decimal): take\nmore"}, nil
}

func (proposing) Name() string { return "a source" }

// What is printed is a schema file with comments, however columns are named.
func TestMigrateSchema(t *testing.T) {
	var out bytes.Buffer
	run := func(source migrate.Source, args ...string) error {
		out.Reset()
		e := &cli.Env{Stdout: &out}
		cmd := newMigrateSchema(e, func(_ context.Context, from *origin, _ *cli.Call) (migrate.Source, func(), error) {
			require.Equal(t, "cassandra://127.0.0.1/shop.orders", from.name)
			return source, func() {}, nil
		})
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		return cmd.ExecuteContext(t.Context())
	}
	require.NoError(t, run(proposing{}, "orders", "--from", "cassandra://127.0.0.1/shop.orders"))
	require.True(t, strings.HasPrefix(out.String(), `# "sel;ect (decimal): take\nmore"`+"\n"), out.String())
	for _, advice := range []string{"conditional: true", "ttl: by row"} {
		require.Contains(t, out.String(), advice)
	}
	schema, err := schemafile.Parse("printed", out.Bytes())
	require.NoError(t, err, out.String())
	want, _, _ := proposing{}.Propose(t.Context(), "orders")
	require.Equal(t, string(schemafile.Format(schemafile.Table{Schema: want})), string(schemafile.Format(schema)))

	require.ErrorContains(t, run(proposing{}, "--from", "cassandra://127.0.0.1/shop.orders"), "schema takes the name")
	require.ErrorContains(t, run(proposing{}, "orders"), "name the table that rows come from with --from")
	require.ErrorContains(t, run(silent{}, "orders", "--from", "cassandra://127.0.0.1/shop.orders"), "a silent one says nothing of schemas")
}

type silent struct{ migrate.Source }

func (silent) Name() string { return "a silent one" }
