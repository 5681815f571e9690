package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "opebench",
		Short: "Measure order-preserving encryption in wide-column stores",
		Long: `Opebench encrypts a column of numbers, stores it as ordered row key or column, asks for
ranges of it over the ciphertexts, checks every answer against the plaintext, and
shows what that costs beside the same column without encryption.

Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 wrong answer or changed data found,
4 store unreachable or in use, 5 column gives away too much, 130 interrupted.`,
		Example: `  opebench run
  opebench run --input flights.csv --column delay --plot delay.svg
  opebench keys generate bench.key
  opebench insert --store pebble:data --key bench.key --input flights.csv --column delay
  opebench range-query --store pebble:data --key bench.key --from 10 --to 20
  opebench audit --input patients.csv --column age`,
		SilenceErrors: true, // execute prints them
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that unknown commands are told from failures
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
				return usagef("unknown command %q; did you mean %s?", args[0], similar[0])
			}
			return usagef("unknown command %q", args[0])
		},
	}
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 80 "))
	// Cobra's own function prints what it cannot write twice or as if all were well.
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		_, e.helpErr = fmt.Fprintf(e.stdout, "%s\n\n%s", strings.TrimSpace(text), cmd.UsageString())
	})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newRun(e, run), newInsert(e, insert), newRangeQuery(e, rangeQuery), newKeys(e),
		newTable(e), newTenant(e), newVerify(e, verify), newServers(e, manageServers), newAudit(e, auditColumn), newRepro(e, reproduce),
		newVersion(e))
	return root
}

// noArgs refuses arguments as wrong usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, only flags; %q is one", cmd.Name(), args[0])
	}
	return nil
}
