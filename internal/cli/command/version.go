package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

// NewVersion returns the command that prints versions.
func NewVersion(e *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print versions and scheme IDs",
		Long: `Version prints the version of the module, that of Go, and the IDs of the schemes for
32-bit and 64-bit integers. Data is readable as long as its scheme's ID is the same.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return version(e, cmd.Root()) },
	}
}

func version(e *cli.Env, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", root.Name(), root.Version)
	names, _ := benchtable.Schemes()
	for _, name := range names {
		for _, kind := range []string{"int32", "int64"} {
			k, err := values.KindByName(kind)
			if err != nil {
				return err
			}
			id, err := benchtable.SchemeID(name, k)
			if errors.Is(err, exit.ErrUsage) {
				continue // there is none for such values
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%-16s  %s  %s\n", name, kind, id)
		}
	}
	return e.Print(b.String())
}
