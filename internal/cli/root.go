package cli

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// Codes is the paragraph of a help text about exit codes.
const Codes = `Exit codes: 0 ok, 1 failed, also where a login, certificate or right is refused, 2 wrong
usage, 3 wrong answer, or changed or damaged data found, 4 store unreachable, in use or
without space, or key service unreachable, 5 column gives away too much, 130 interrupted.`

// OnlyIn has the commands that one program has and the other has not, so that each can name those of the other.
var OnlyIn = map[string][]string{
	"opebench":   {"insert", "range-query", "repro", "run", "servers"},
	"rangecrypt": {"compact", "lease", "migrate", "rekey", "table", "tenant"},
}

// Root makes a command the root of a program's other commands.
func Root(e *Env, root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.SilenceErrors = true // Execute prints them
	root.SilenceUsage = true
	root.Args = cobra.ArbitraryArgs // so that unknown commands differ from failures
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			return exit.Usagef("unknown command %q; did you mean %s?", args[0], similar[0])
		}
		for program, names := range OnlyIn {
			if program != cmd.Name() && slices.Contains(names, args[0]) {
				return exit.Usagef("%s has no command %q; '%s %s' is one", cmd.Name(), args[0], program, args[0])
			}
		}
		return exit.Usagef("unknown command %q%s", args[0], elsewhere(cmd, args[0]))
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := refuseEmpty(cmd, args); err != nil {
			return err
		}
		return e.checkFiles(cmd, args)
	}
	root.Version = fmt.Sprintf("%s, %s %s/%s", show.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 80 "))
	// Cobra's own function prints what it cannot write twice or as if all were well.
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		_, e.helpErr = fmt.Fprintf(e.Stdout, "%s\n\n%s", strings.TrimSpace(text), cmd.UsageString())
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 { // the flag is that of a command that there is not
			if err := cmd.ValidateArgs(args); err != nil {
				return err
			}
			return cmd.RunE(cmd, args)
		}
		return flagError(cmd, err)
	})
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(commands...)
	nameProgram(root, root.Name())
	refuseSecond(root)
	return root
}

// nameProgram puts the name of the program into the examples of commands that more than one has.
func nameProgram(cmd *cobra.Command, program string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "PROGRAM", program)
	for _, sub := range cmd.Commands() {
		nameProgram(sub, program)
	}
}
