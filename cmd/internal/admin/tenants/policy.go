package tenants

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tables"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
)

// policyOf is the policy of a tenant for a table, and what comes of it.
type policyOf struct {
	tenant, table string
	set           bool
	policy        store.Policy
	columns       []store.Column
	open          *store.Table // for the tenant
}

func (p *policyOf) read(ctx context.Context, st *store.Store) (err error) {
	p.open, err = command.ForTenant(ctx, st, p.table, p.tenant)
	if err != nil {
		return err
	}
	p.policy, p.set, err = st.Policy(ctx, p.tenant, p.table)
	p.columns = p.open.Schema().Columns
	return command.KnownTenant(err)
}

// says says which columns are sealed.
func (p *policyOf) says() string {
	switch {
	case p.table == "":
		return ""
	case !p.set:
		return "as the schema says"
	case p.policy.Whole && len(p.clear()) > 0:
		return "all columns, but " + show.Names(p.clear()) + ", which the schema has searched in the clear"
	case p.policy.Whole:
		return "all columns"
	case len(p.policy.Sensitive) == 0:
		return "no column, but those that are searched"
	}
	return show.Names(p.policy.Sensitive)
}

// clear returns the columns that are searched by a scheme which encrypts nothing: no policy seals them.
func (p *policyOf) clear() (names []string) {
	for _, c := range p.columns {
		if d := c.Describe(); strings.HasPrefix(d.Scheme, store.Plaintext.String()) { // or by the one that keeps an index
			names = append(names, d.Name)
		}
	}
	return names
}

func (p *policyOf) encode(call *cli.Call, record string) error {
	type policyJSON struct {
		Set       bool     `json:"set"`
		Whole     bool     `json:"whole"`
		Sensitive []string `json:"sensitive"`
	}
	var policy *policyJSON
	columns := []tables.FieldJSON{}
	if p.table != "" {
		policy = &policyJSON{p.set, p.policy.Whole, append([]string{}, p.policy.Sensitive...)}
	}
	for _, c := range p.columns {
		columns = append(columns, tables.NewFieldJSON(c.Describe()))
	}
	return call.Encode(struct {
		Record  string             `json:"record"`
		Store   string             `json:"store"`
		Tenant  string             `json:"tenant"`
		Table   string             `json:"table,omitempty"`
		Policy  *policyJSON        `json:"policy,omitempty"`
		Columns []tables.FieldJSON `json:"columns,omitempty"`
	}{record, call.ShownStore(), p.tenant, p.table, policy, columns})
}

// A policyChange is what the flags of a policy say.
type policyChange struct {
	table     string
	whole     bool
	plain     bool
	sensitive []string
	unseal    []string
	asked     bool // for some columns
}

func newTenantPolicy(e *cli.Env) *cobra.Command {
	p := &policyChange{}
	return cli.Command{
		Use:   "policy NAME --table TABLE",
		Short: "Show or set which columns of a table are sealed for a tenant",
		Long: `Policy shows how the columns of a table are stored for a tenant or, with --whole,
--sensitive or --plain, says which of them are sealed from now on. Columns that are
searched are encrypted as the schema says in any case, and so is the row key. A column
that is sealed so far becomes plain only if --unseal names it.

It is one small write, and no row is touched: what is there is read as before, and stays
as it is until it is written again, or 'rangecrypt tenant convert' has written it.
What was plain has been seen by the database, and is in its logs and copies.`,
		Example: `  rangecrypt tenant policy acme --table readings --store pebble:data --key app.key
  rangecrypt tenant policy acme --table readings --sensitive note,site \
    --store pebble:data --key app.key
  rangecrypt tenant policy acme --table readings --sensitive note --unseal site \
    --store pebble:data --key app.key`,
		Args: theTenant,
		JSON: "print the policy as a line of JSON",
		Flags: func(f *pflag.FlagSet) {
			bindTable(f, &p.table)
			f.BoolVar(&p.whole, "whole", false, "seal all columns, also those that are added later")
			f.StringSliceVar(&p.sensitive, "sensitive", nil, "seal the columns of these `names`, with commas between them,\nand no others")
			f.BoolVar(&p.plain, "plain", false, "seal no column that is not searched")
			cli.OfferColumns(f, "sensitive")
			f.StringSliceVar(&p.unseal, "unseal", nil, "the columns of these `names`, with commas between them, are\nsealed so far and become plain by --sensitive or --plain")
			cli.OfferColumns(f, "unseal")
		},
		Check: func(c *cli.Call) error {
			p.asked = c.Flags.Changed("sensitive")
			return p.check()
		},
		Run: func(ctx context.Context, c *cli.Call) error { return p.run(ctx, c) },
	}.New(e)
}

func (p *policyChange) check() error {
	given := 0
	for _, is := range []bool{p.whole, p.plain, p.asked} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return exit.Usagef("give one of --whole, --sensitive and --plain")
	case len(p.unseal) > 0 && !p.plain && !p.asked:
		return exit.Usagef("--unseal goes with --sensitive or --plain, which say what stays sealed")
	}
	return needTable(p.table)
}

func (p *policyChange) run(ctx context.Context, c *cli.Call) error {
	before := policyOf{tenant: c.Arg(), table: p.table}
	if err := before.read(ctx, c.Store); err != nil {
		return err
	}
	if !p.whole && !p.plain && !p.asked {
		if c.JSON {
			return before.encode(c, "policy")
		}
		return before.print(c)
	}
	err := c.Store.SetPolicy(ctx, c.Arg(), p.table, store.Policy{Whole: p.whole, Sensitive: p.sensitive}, p.unseal...)
	if unnamed := new(store.UnsealError); errors.As(err, &unnamed) {
		return fmt.Errorf("%w: with --unseal, or keep it sealed with --sensitive", err)
	}
	if errors.Is(err, store.ErrPolicy) {
		var columns []string
		for _, column := range before.columns {
			columns = append(columns, column.Describe().Name)
		}
		return fmt.Errorf("%w; the table has the columns %s", err, show.Names(columns))
	}
	if err != nil {
		return command.KnownTenant(err)
	}
	after := policyOf{tenant: c.Arg(), table: p.table}
	if err := after.read(ctx, c.Store); err != nil {
		return err
	}
	if c.JSON {
		return after.encode(c, "policy")
	}
	return after.printChanges(c, before.columns)
}

func (p *policyOf) print(call *cli.Call) error {
	var rows [][]string
	for _, c := range p.columns {
		d := c.Describe()
		rows = append(rows, []string{show.Visible(d.Name), d.Type, d.Encryption, d.Scheme})
	}
	text := show.Line(fmt.Sprintf("%s: sealed: %s", command.TableOf(p.table, p.tenant), p.says()), call.Style())
	if len(rows) > 0 {
		text += show.Rows([]string{"NAME", "TYPE", "ENCRYPTION", "SCHEME"}, rows, nil, call.Style())
	}
	return call.Print(text)
}

// printChanges prints what became of columns.
func (p *policyOf) printChanges(call *cli.Call, before []store.Column) error {
	was := make(map[string]string) // encryption by name
	for _, c := range before {
		d := c.Describe()
		was[d.Name] = d.Encryption
	}
	var text strings.Builder
	for _, c := range p.columns {
		d := c.Describe()
		if from, there := was[d.Name]; there && from != d.Encryption {
			text.WriteString(show.Line(fmt.Sprintf("~ %s: from %s to %s", show.Visible(d.Name), from, d.Encryption), call.Style()))
		}
	}
	line := "nothing is stored in another way than before"
	if text.Len() > 0 {
		line = fmt.Sprintf("rows that are there stay as they are until they are written again, or 'rangecrypt tenant convert %s --table %s' has converted them",
			show.Visible(p.tenant), show.Visible(p.table))
	}
	text.WriteString(show.Line(fmt.Sprintf("%s: the policy was set; %s", command.TableOf(p.table, p.tenant), line), call.Style()))
	return call.Print(text.String())
}
