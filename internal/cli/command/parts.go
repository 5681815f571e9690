package command

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A PartFlag is a part of a table that a command is to do, as --part and --parts name it; all of the table has the zero value.
type PartFlag struct{ inspect.Part }

// Bind binds the flags.
func (p *PartFlag) Bind(f *pflag.FlagSet) {
	f.IntVar(&p.Index, "part", 0, "do one part of a table only, from `0` on, and print a\nline of JSON; any number of parts may be done at a time")
	f.IntVar(&p.Of, "parts", 0, fmt.Sprintf("cut a table into so `many` parts, at most %d", inspect.MaxParts))
}

// Check refuses what is no part.
func (p *PartFlag) Check(f *pflag.FlagSet) error {
	switch one, all := f.Changed("part"), f.Changed("parts"); {
	case one && !all && (p.Index < 0 || p.Index >= inspect.MaxParts):
		return exit.Usagef("--part is %d, need 0 to %d: it says which part to do, from 0 on, and --parts how many the table is cut into", p.Index, inspect.MaxParts-1)
	case one && !all:
		return exit.Usagef("--part says which part to do, and needs --parts: how many the table is cut into, as in --part %d --parts %d", p.Index, max(64, p.Index+1))
	case all && !one:
		return exit.Usagef("--parts says how many parts the table is cut into, and needs --part: which of them to do, as in --part 0 --parts %d", max(1, p.Of))
	case all && (p.Of < 1 || p.Of > inspect.MaxParts):
		return exit.Usagef("--parts is %d, need 1 to %d", p.Of, inspect.MaxParts)
	case one && (p.Index < 0 || p.Index >= p.Of):
		return exit.Usagef("--part is %d, need 0 to %d: of %d parts the first one is 0", p.Index, p.Of-1, p.Of)
	}
	return nil
}

// Given reports whether there is a part.
func (p *PartFlag) Given() bool { return p.Of > 0 }
