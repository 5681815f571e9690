package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// NewLease returns the command with its subcommands.
func NewLease(e *cli.Env) *cobra.Command {
	return cli.Group("lease", "Let writers do without a request, for a time", `Lease is about how often the writers of a store look whether a schema was changed. Without
a lease each Put and Update ends with that request. With one, it is enough that the client
has made the request within the time of the lease. In return, each change of a schema, a
policy or a key waits until the lease is over. A lease relies on the clocks of all
machines: docs/operations.md has its limits. There is none until somebody sets it.`,
		newLeaseShow(e), newLeaseSet(e))
}

func newLeaseShow(e *cli.Env) *cobra.Command {
	return cli.Command{
		Use:     "show",
		Short:   "Show the lease, and how long changes wait for it",
		Long:    "Show prints the lease that the catalogue gives to writers, and how long each change of a\nschema, a policy or a key waits for it.",
		Example: "  rangecrypt lease show --store pebble:data --key app.key",
		JSON:    cli.OneLine,
		Run: func(ctx context.Context, c *cli.Call) error {
			lease, err := c.Store.Lease(ctx)
			if err != nil {
				return err
			}
			return printLease(c, "lease", lease)
		},
	}.New(e)
}

func newLeaseSet(e *cli.Env) *cobra.Command {
	var d time.Duration
	return cli.Command{
		Use:   "set DURATION|off",
		Short: "Give writers a lease of some duration, or none",
		Long: `Set gives the writers of all clients a lease of 100ms to 1m, or none. Take one that is
longer than the time between two writes of a client, and no longer than a change of a
schema may take: 2s suits most. A lease that becomes shorter, or ends, does so at once;
the command then waits until the former one is over. If that is interrupted, changes go
on to wait for the former one until the same command is given again.`,
		Example: `  rangecrypt lease set 2s --store pebble:data --key app.key
  rangecrypt lease set off --store pebble:data --key app.key`,
		Args: []string{"a duration, such as 2s, or off"},
		JSON: cli.OneLine,
		Check: func(c *cli.Call) (err error) {
			d, err = leaseOf(c.Arg())
			return err
		},
		Run: func(ctx context.Context, c *cli.Call) error { return setLease(ctx, c, d) },
	}.New(e)
}

// leaseOff is what stands for no lease.
const leaseOff = "off"

// leaseOf returns the duration that a text is; 0 is none.
func leaseOf(text string) (time.Duration, error) {
	if text == leaseOff {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, exit.Usagef("%q is no duration: give one with its unit, such as 500ms or 2s, or %q", text, leaseOff)
	}
	if d <= 0 {
		return 0, exit.Usagef("a lease of %v is none: %q switches it off", d, leaseOff)
	}
	return d, nil
}

// patience is how long the command waits before it says so.
const patience = 500 * time.Millisecond

func shownWait(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func setLease(ctx context.Context, c *cli.Call, d time.Duration) error {
	before, err := c.Store.Lease(ctx)
	if err != nil {
		return err
	}
	waits := time.AfterFunc(patience, func() { c.Warn("waiting until the former lease is over, up to %v", shownWait(before.Wait)) })
	err = c.Store.SetLease(ctx, d)
	waits.Stop()
	if left, _ := exit.LeaseLeft(err); left > 0 {
		c.Warn("writers have the new lease, and changes wait for the former one until the same command is given again")
	}
	if err != nil {
		return err
	}
	after, err := c.Store.Lease(ctx)
	if err != nil {
		return err
	}
	return printLease(c, "lease_set", after)
}

func printLease(c *cli.Call, record string, lease inspect.Lease) error {
	line := "there is no lease: each Put and Update looks whether the schema was changed"
	switch {
	case lease.Ending:
		line = fmt.Sprintf("a lease is ending: changes of schemas, policies and keys wait %v; 'rangecrypt lease set' makes that shorter when it is over", shownWait(lease.Wait))
	case lease.Duration > 0:
		line = fmt.Sprintf("writers have a lease of %v; changes of schemas, policies and keys wait %v", lease.Duration, shownWait(lease.Wait))
	}
	return c.Result(struct {
		Record   string `json:"record"`
		Store    string `json:"store"`
		Duration int64  `json:"lease_ms"`
		Wait     int64  `json:"wait_ms"`
		Ending   bool   `json:"ending"`
	}{record, c.ShownStore(), lease.Duration.Milliseconds(), shownWait(lease.Wait).Milliseconds(), lease.Ending}, line)
}
