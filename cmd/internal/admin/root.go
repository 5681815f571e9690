// Package admin has the commands of rangecrypt, for people who run tables.
package admin

import (
	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/migration"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/rekey"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tables"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tenants"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
)

// New returns the program.
func New(e *cli.Env) *cobra.Command {
	return cli.Root(e, &cobra.Command{
		Use:   "rangecrypt",
		Short: "Run encrypted tables",
		Long: `Rangecrypt administers encrypted tables in Pebble, Cassandra or HBase: their keys, their
schemas and their tenants. It also checks and repairs them. The database never gets a key,
and sees no values. Of columns that are ordered it sees the order, so that it can answer
queries for ranges; 'rangecrypt audit' shows what that gives away before you store them.

A store is a database with encrypted tables. One master key opens it.

` + cli.Codes,
		Example: `  rangecrypt keys generate app.key
  rangecrypt audit --input patients.csv --column age
  rangecrypt table create readings.yaml --store pebble:data --key app.key
  rangecrypt verify --store pebble:data --key app.key`,
	}, command.NewKeys(e), tables.New(e), tenants.New(e), tables.NewLease(e), migration.New(e), rekey.New(e), command.NewVerify(e), tables.NewCompact(e), command.NewAudit(e), command.NewVersion(e))
}
