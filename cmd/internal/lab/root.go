// Package lab has the commands of opebench, which measure and compare.
package lab

import (
	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
)

// New returns the program.
func New(e *cli.Env) *cobra.Command {
	return cli.Root(e, &cobra.Command{
		Use:   "opebench",
		Short: "Measure order-preserving encryption in wide-column stores",
		Long: `Opebench measures what it costs to keep a column of numbers encrypted in a database that
still finds ranges of it. Order-preserving encryption makes that possible: ciphertexts
sort as the numbers do, so that the database compares them without the key. Opebench
stores such a column, asks for ranges, checks every answer, and compares the cost with
that of the same column without encryption.

'rangecrypt' administers the tables and keys of a store.

` + cli.Codes,
		Example: `  opebench run
  opebench run --input flights.csv --column delay --plot delay.svg
  opebench keys generate bench.key
  opebench insert --store pebble:data --key bench.key --input flights.csv --column delay
  opebench range-query --store pebble:data --key bench.key --from 10 --to 20
  opebench audit --input patients.csv --column age`,
	}, newRun(e), newInsert(e), newRangeQuery(e), command.NewKeysOfLab(e), command.NewVerify(e), newServers(e), command.NewAudit(e), newRepro(e),
		command.NewVersion(e))
}
