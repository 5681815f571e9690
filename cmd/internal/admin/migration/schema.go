package migration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
)

// A proposer is a source that knows which schema takes its rows.
type proposer interface {
	Propose(ctx context.Context, name string) (schema store.Schema, hints []string, err error)
}

func newMigrateSchema(e *cli.Env, open opener) *cobra.Command {
	m := new(Migration)
	cmd := &cobra.Command{
		Use:   "schema TABLE",
		Short: "Print a schema file for the encrypted table",
		Long: `Schema prints a schema file for a table that takes all rows, which 'table create'
reads. Parts of the partition key are hashed, clustering columns ordered, and columns
randomised. Comments say how a column can be searched: change the file before you make
the table. It needs no store. The first part of a row key of HBase is hashed.`,
		Example: "  rangecrypt migrate schema orders --from cassandra://127.0.0.1/shop.orders",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("schema takes the name that the encrypted table is to have")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := m.check(&cli.Call{Env: e}); err != nil {
				return err
			}
			return exit.Early(cmd.Context(), m.propose(cmd.Context(), open, args[0]))
		},
	}
	m.from.bind(cmd.Flags())
	return cmd
}

func (m *Migration) propose(ctx context.Context, open opener, name string) error {
	if strings.HasPrefix(m.from.name, FromTable) {
		of := strings.TrimPrefix(m.from.name, FromTable)
		return exit.Usagef("'rangecrypt table describe %s --yaml' prints the schema of an encrypted table", show.Visible(cmp.Or(of, "NAME")))
	}
	source, end, err := open(ctx, &m.from, m.Call)
	if err != nil {
		return err
	}
	defer end()
	p, ok := source.(proposer)
	if !ok {
		return fmt.Errorf("%s says nothing of schemas: write the file yourself", source.Name())
	}
	schema, hints, err := p.Propose(ctx, name)
	if err != nil {
		return err
	}
	if err := schema.Check(); err != nil {
		return err
	}
	text := ""
	if schema.TTL == 0 && !schema.Conditional {
		hints = append(hints, "Add 'conditional: true' unless rows expire: then nothing is lost at the cut-over, whatever still goes on.",
			"Add 'ttl: by row' in its place if some rows expire: those of CQL that are written USING TTL, and those of HBase all of whose cells are in column families with a TTL. A table without ttl refuses these.")
	}
	for _, hint := range hints {
		text += "# " + show.Visible(hint) + "\n"
	}
	return m.Print(text + string(schemafile.Format(schemafile.Table{Schema: schema})))
}
