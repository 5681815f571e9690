package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// OneLine is the text of --json of a command with one result.
const OneLine = "print the result as a line of JSON"

// A Command is a command on a store: it checks its arguments and flags, opens the store with its key, and
// prints a result.
type Command struct {
	Use, Short, Long, Example string

	Args     []string               // what each argument is, for messages
	Optional bool                   // the last argument may be left out
	Repeat   bool                   // the last argument may be given more than once
	Flags    func(f *pflag.FlagSet) // binds the flags of the command's own; may be nil
	JSON     string                 // the text of --json; "" for a command without
	Yes      bool                   // it asks a question, which --yes answers
	How      stores.How             // what it opens the store for
	Check    func(c *Call) error    // looks at arguments and flags before the store is opened; may be nil

	// Run does what the command is for, on the open store.
	Run func(ctx context.Context, c *Call) error
}

// A Call is one use of a command.
type Call struct {
	*Env
	Kept
	Args      []string
	Flags     *pflag.FlagSet
	JSON, Yes bool

	// Offline is set by Check where the command needs no store; it is then called in place of Run.
	Offline func() error

	// ReadOnly is set by Check where the command must not change the store.
	ReadOnly bool

	DB    driver.DB
	Store *store.Store // in DB
	key   kms.KMS      // of the store
}

// Unwritable calls do with the store as it is where nothing of it can be changed: a change is checked, and then [driver.ErrReadOnly].
func (c *Call) Unwritable(ctx context.Context, do func(*store.Store) error) error {
	if c.ReadOnly {
		return do(c.Store)
	}
	st, err := stores.Tables(ctx, stores.ReadOnly(c.DB), c.key, false)
	if err != nil {
		return err
	}
	return errors.Join(do(st), st.Close(ctx))
}

// Opens reports whether the master key of the store opens another one, too.
func (c *Call) Opens(ctx context.Context, other driver.DB) bool {
	st, err := store.Open(ctx, stores.ReadOnly(other), c.key, nil)
	if err == nil {
		err = st.Close(ctx)
	}
	return err == nil
}

// Arg returns the first argument, or "".
func (c *Call) Arg() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

// Result prints what came of the call: the record with --json, and the line otherwise.
func (c *Call) Result(record any, line string) error {
	if c.JSON {
		return c.Encode(record)
	}
	return c.Line("%s", line)
}

// ShownStore returns the name of the store as it can be shown.
func (c *Call) ShownStore() string { return stores.Shown(c.Kept.Name) }

// New returns the cobra command.
func (cmd Command) New(e *Env) *cobra.Command {
	c := &Call{Env: e}
	made := &cobra.Command{
		Use: cmd.Use, Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		Args: func(cobraCmd *cobra.Command, given []string) error {
			switch {
			case len(cmd.Args) == 0:
				return NoArgs(cobraCmd, given)
			case cmd.Optional && len(given) == len(cmd.Args)-1:
				return checkArgs(cobraCmd.Name(), cmd.Args[:len(given)], given)
			case cmd.Repeat && len(given) > len(cmd.Args):
				return checkArgs(cobraCmd.Name(), cmd.Args, given[:len(cmd.Args)])
			}
			return checkArgs(cobraCmd.Name(), cmd.Args, given)
		},
		Annotations: map[string]string{offerArgs: strings.Join(cmd.Args, "\n")},
		RunE: func(cobraCmd *cobra.Command, args []string) error {
			c.Args, c.Flags = args, cobraCmd.Flags()
			if cmd.Check != nil {
				// It may wait for what a schema is read from, such as a terminal.
				check := func() (struct{}, error) { return struct{}{}, cmd.Check(c) }
				if _, _, err := pause.Within(cobraCmd.Context(), check); err != nil {
					return err
				}
			}
			if c.Offline != nil {
				return c.Offline()
			}
			return c.onStore(cobraCmd.Context(), cmd.How, cmd.Run)
		},
	}
	f := made.Flags()
	f.SortFlags = false
	c.Kept.Bind(f)
	if cmd.Flags != nil {
		cmd.Flags(f)
	}
	if cmd.JSON != "" {
		f.BoolVar(&c.JSON, "json", false, cmd.JSON)
	}
	if cmd.Yes {
		f.BoolVarP(&c.Yes, "yes", "y", false, "do not ask")
	}
	return made
}

// onStore calls do with the open store.
func (c *Call) onStore(ctx context.Context, how stores.How, do func(context.Context, *Call) error) (err error) {
	db, key, err := c.Kept.Open(ctx, c.Env, how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if c.ReadOnly {
		db = stores.ReadOnly(db)
	}
	if c.Store, err = stores.Tables(ctx, db, key, how.Create); err == nil {
		c.DB, c.key = db, key
		err = do(ctx, c)
		err = errors.Join(err, c.Store.Close(ctx))
	}
	return exit.Early(ctx, err)
}

// Kept names a store that is there before or after the command, and its master key.
type Kept struct{ Name, Key string }

// Bind binds the flags that name them.
func (k *Kept) Bind(f *pflag.FlagSet) {
	f.StringVar(&k.Name, "store", "", "the `store`:\n"+stores.Help())
	f.StringVar(&k.Key, "key", "", KeyHelp("the store's master key"))
}

// Check returns an error unless both can name something.
func (k *Kept) Check() error {
	if k.Name == "" {
		return exit.Usagef("name the store with --store: %s", strings.Join(stores.Usages(), ", "))
	}
	if err := stores.Check(k.Name); err != nil {
		return err
	}
	return CheckKey("--key", k.Key)
}

// Open checks the names, reads the key, and opens the database.
func (k *Kept) Open(ctx context.Context, e *Env, how stores.How) (driver.DB, kms.KMS, error) {
	if err := k.Check(); err != nil {
		return nil, nil, err
	}
	key, err := e.ReadKey(k.Key)
	if err != nil {
		return nil, nil, err
	}
	db, err := e.OpenStore(ctx, k.Name, how)
	return db, key, exit.Early(ctx, err)
}

// Group returns a command that only holds others.
func Group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name())
	}
	group := &cobra.Command{
		Use: name, Short: short, Long: long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				said := show.DidYouMean(names, args[0])
				if said == "" {
					said = ": there is " + strings.Join(names, ", ")
				}
				return exit.Usagef("unknown command %q%s%s", args[0], said, elsewhere(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	group.AddCommand(commands...)
	return group
}

// elsewhere names the commands of a program that have a name which a group has not. Where one takes what the group is about
// by a flag, as 'verify --table NAME' does, it is given.
func elsewhere(group *cobra.Command, name string) string {
	var found []string
	var search func(*cobra.Command)
	search = func(c *cobra.Command) {
		if c.Name() == name && c != c.Root() {
			use := strings.TrimSuffix(c.CommandPath(), c.Name()) + c.Use
			if c.Flags().Lookup(group.Name()) != nil && !strings.Contains(use, "--"+group.Name()) {
				use += " --" + group.Name() + " NAME"
			}
			found = append(found, "'"+use+"'")
		}
		for _, sub := range c.Commands() {
			search(sub)
		}
	}
	search(group.Root())
	switch len(found) {
	case 0:
		return ""
	case 1:
		return "; " + found[0] + " is a command"
	}
	return "; " + strings.Join(found[:len(found)-1], ", ") + " and " + found[len(found)-1] + " are commands"
}

// NoArgs refuses arguments as wrong usage. One that may be a passphrase is not shown.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case askedFor(cmd.Flags()):
		return exit.Usagef("%s takes no arguments, only flags; the one that is given is not shown, since it may be the passphrase: that is asked for", cmd.Name())
	}
	table := ""
	if cmd.Flags().Lookup("table") != nil {
		table = "; a table is named with --table"
	}
	return exit.Usagef("%s takes no arguments, only flags; %q is one%s", cmd.Name(), args[0], table)
}

// checkArgs refuses another number of arguments than the names tell; each is something to say in a message.
func checkArgs(command string, names, given []string) error {
	if len(given) != len(names) {
		return exit.Usagef("%s takes %s; %s %s given", command, strings.Join(names, " and "), show.Counted(len(given), "argument"), show.Verb(len(given), "is", "are"))
	}
	for i, arg := range given {
		if arg == "" {
			return exit.Usagef("%s is empty", names[i])
		}
	}
	return nil
}

// Once refuses a flag that is given the same value twice.
func Once(flag string, given []string) error {
	for i, value := range given {
		if slices.Contains(given[:i], value) {
			return exit.Usagef("--%s %s is given twice", flag, value)
		}
	}
	return nil
}

// refuseEmpty refuses flags and arguments that are given with nothing, as by a script whose variable is not set: a
// command that took them as not given would do something else. There is no flag that means something then.
func refuseEmpty(cmd *cobra.Command, args []string) (err error) {
	if cmd.DisableFlagParsing {
		return nil // a shell asks what may come next
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		switch empty := slices.Contains(given, ""); {
		case err != nil:
		case len(given) == 0, empty && len(given) == 1:
			err = exit.Usagef("--%s is empty", f.Name)
		case empty:
			err = exit.Usagef("--%s has a value that is empty", f.Name)
		}
	})
	if i := slices.Index(args, ""); err == nil && i >= 0 {
		err = exit.Usagef("argument %d of %s is empty", i+1, cmd.Name())
	}
	return err
}

// ErrDeclined is returned by [Call.Confirm] where the answer was no. A command that has changed something before says so in its place.
var ErrDeclined = errors.New("not confirmed; nothing was changed")

// Confirm asks whether to go on, unless the answer is given by --yes. Where nobody can be asked, that
// is needed.
func (c *Call) Confirm(ctx context.Context, question string) error {
	if c.Yes {
		return nil
	}
	if c.Ask == nil {
		return exit.Usagef("%s Say so with --yes where nobody can be asked", question)
	}
	agreed, err := c.Ask(ctx, question+" [y/N] ")
	if err == nil && !agreed {
		err = ErrDeclined
	}
	return err
}
