package tables

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

type dropping struct{ id string }

func newTableDrop(e *cli.Env) *cobra.Command {
	d := &dropping{}
	return cli.Command{
		Use:   "drop [NAME]",
		Short: "Drop a table with all its rows",
		Long: `Drop removes a table with all its rows and indexes. Nothing brings them back but a backup
of the whole store. Clients that use the table get errors from then on.

The table goes first, and its data after it. So a drop that is interrupted may leave data
that no table has. It says so, as 'rangecrypt table list' does, with the id of the table:
--id drops the rest, in place of a name. What a table has that is there is refused.
Where the catalogue is from a backup, tables that were made since are not in it, and --id
would drop their rows: restore the newest catalogue first.`,
		Example: `  rangecrypt table drop readings --store pebble:data --key app.key
  rangecrypt table drop --id 00112233445566778899aabbccddeeff --store pebble:data \
    --key app.key`,
		Args:     []string{"the name of a table"},
		Optional: true,
		Yes:      true,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&d.id, "id", "", "drop what is left of the table with that `id`, which is gone")
		},
		Check: func(c *cli.Call) error {
			switch {
			case (d.id == "") == (c.Arg() == ""):
				return exit.Usagef("drop takes the name of a table or, for what is left of one, --id")
			case d.id != "" && !tableID.MatchString(d.id):
				return exit.Usagef("--id takes the 32 hexadecimal digits that 'rangecrypt table list' shows")
			}
			return nil
		},
		Run: d.run,
	}.New(e)
}

func (d *dropping) run(ctx context.Context, c *cli.Call) error {
	if d.id != "" {
		return d.rest(ctx, c)
	}
	// One that does not exist is an error before anybody is asked. One that has lost its rows, or a part of them, can go.
	rows := "with all its rows"
	_, err := anytable.Find(ctx, c, c.Arg())
	if errors.Is(err, store.ErrTampered) && errors.Is(err, driver.ErrNoFamily) {
		rows, err = "of which the database has lost a part, with all that is left of it", nil
	}
	if err != nil {
		return err
	}
	_, described, err := anytable.Describe(ctx, c, c.Arg())
	if err != nil {
		return err
	}
	name := show.Visible(c.Arg())
	if err := c.Confirm(ctx, fmt.Sprintf("Drop table %s %s? Nothing brings them back.", name, rows)); err != nil {
		return err
	}
	if err := c.Store.Drop(ctx, c.Arg()); err != nil {
		if !errors.Is(err, store.ErrShared) && !errors.Is(err, migrate.ErrPhase) { // by which nothing was begun
			sayUndropped(ctx, c, name, described.ID)
		}
		return err
	}
	return c.Line("table %s was dropped", name)
}

// sayUndropped says how far a drop has come that failed, and what to do. It asks the store even if ctx is done.
func sayUndropped(ctx context.Context, c *cli.Call, name, id string) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	rest := fmt.Sprintf("'rangecrypt table drop --id %s' drops the rest", id)
	switch d, err := c.Store.Describe(ctx); {
	case err != nil:
		c.Warn("it is not known how far the drop has come; if 'rangecrypt table list' does not show table %s, %s", name, rest)
	case slices.ContainsFunc(d.Tables, func(t inspect.Table) bool { return t.ID == id }):
		c.Warn("table %s is as it was so far; the same command drops it; if that finds no such table, %s", name, rest)
	default:
		c.Warn("table %s is gone, and its data may not be yet: %s", name, rest)
	}
}

// rest drops what is left of a table.
func (d *dropping) rest(ctx context.Context, c *cli.Call) error {
	left, err := command.LeftOvers(ctx, c, inspect.Database{})
	if err != nil {
		return err
	}
	families := left[d.id]
	if len(families) == 0 {
		db, err := c.Store.Describe(ctx)
		if i := slices.IndexFunc(db.Tables, func(t inspect.Table) bool { return t.ID == d.id }); err == nil && i >= 0 {
			name := show.Visible(db.Tables[i].Name)
			err = fmt.Errorf("table %s has that id, and is there: 'rangecrypt table drop %[1]s' drops it", name)
		}
		if err != nil {
			return err
		}
		return c.Line("nothing is left of a table with that id")
	}
	if err := c.Confirm(ctx, "Drop the data of a table that the store does not know? It is lost, also if a table is being made now, or if the catalogue is from a backup that is older than the table."); err != nil {
		return err
	}
	for _, family := range families {
		err = errors.Join(err, c.DB.Drop(ctx, family))
	}
	if err != nil {
		return fmt.Errorf("%w; the same command goes on", err)
	}
	return c.Line("what was left of the table was dropped")
}

var tableID = regexp.MustCompile(`^[0-9a-f]{32}$`)
