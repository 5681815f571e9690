package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/store"
)

// newTenant returns the command with its subcommands.
func newTenant(e *env) *cobra.Command {
	return group("tenant", "Administer tenants, their policies and keys", `Tenant administers the tenants of a store. Tenants share tables whose schema files say
'tenants: true', and nothing else: each has keys of its own, and sees its own rows only.

A tenant's policy says which columns of a table are sealed for it. It can be changed at
any time, and counts for what is written from then on; rows that are there are read as
before, and written anew by 'opebench tenant convert'.`,
		newTenantCreate(e, createTenant), newTenantList(e, listTenants), newTenantPolicy(e, tenantPolicy),
		newTenantConvert(e, convertTenant), newTenantStatus(e, tenantStatus), newTenantRotate(e, rotateTenant),
		newTenantDrop(e, dropTenant))
}

// openFor opens a table for a tenant.
func openFor(ctx context.Context, st *store.Store, table, tenant string) (*store.Table, error) {
	tbl, err := st.Table(ctx, table)
	if err != nil {
		return nil, err
	}
	bound, err := tbl.Tenant(ctx, tenant)
	if errors.Is(err, store.ErrTenant) {
		return nil, fmt.Errorf("%w; one that has tenants is created so, from a schema file with 'tenants: true'", err)
	}
	return bound, knownTenant(err)
}

// knownTenant says what to do where a tenant is not known.
func knownTenant(err error) error {
	if errors.Is(err, store.ErrNoTenant) {
		return fmt.Errorf("%w; 'opebench tenant list' names those that there are, 'opebench tenant create' makes one", err)
	}
	return err
}

// bindTable binds the flag that names a table of tenants.
func bindTable(f *pflag.FlagSet, table *string, use string) {
	f.StringVar(table, "table", "", use)
}

// needTable refuses a command that needs a table without one.
func needTable(table string) error {
	if table == "" {
		return usagef("name the table with --table: a tenant may have rows in several")
	}
	return nil
}

type namedTenantOptions struct {
	keptStore
	name string
	yes  bool
	json bool
}

// printTenant prints that something was done with a tenant.
func (o *namedTenantOptions) printTenant(e *env, record, line string) error {
	if o.json {
		return json.NewEncoder(e.stdout).Encode(struct {
			Record string `json:"record"`
			Store  string `json:"store"`
			Tenant string `json:"tenant"`
		}{record, shown(o.store), o.name})
	}
	_, err := fmt.Fprint(e.stdout, report.Line(line, e.style()))
	return err
}

// newNamedTenant returns a command about one tenant.
func newNamedTenant(e *env, cmd *cobra.Command, runF func(context.Context, *env, *namedTenantOptions) error) (*cobra.Command, *namedTenantOptions) {
	opts := &namedTenantOptions{}
	cmd.Args = args("the name of a tenant")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts.name = args[0]
		return runF(cmd.Context(), e, opts)
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	f.BoolVar(&opts.json, "json", false, "print the result as a line of JSON")
	return cmd, opts
}

func newTenantCreate(e *env, runF func(context.Context, *env, *namedTenantOptions) error) *cobra.Command {
	cmd, _ := newNamedTenant(e, &cobra.Command{
		Use:   "create NAME",
		Short: "Make a tenant, with keys of its own",
		Long: `Create makes a tenant with random keys of its own, in one small write. It can then have
rows in every table with tenants. The database does not see its name. A store that does
not exist is made.`,
		Example: "  opebench tenant create acme --store pebble:data --key bench.key",
	}, runF)
	return cmd
}

func createTenant(ctx context.Context, e *env, opts *namedTenantOptions) error {
	return withTables(ctx, e, opts.keptStore, true, func(st *store.Store) error {
		if err := st.CreateTenant(ctx, opts.name); err != nil {
			return err
		}
		return opts.printTenant(e, "tenant_created", fmt.Sprintf("tenant %s was created", visible(opts.name)))
	})
}

func newTenantRotate(e *env, runF func(context.Context, *env, *namedTenantOptions) error) *cobra.Command {
	cmd, _ := newNamedTenant(e, &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a tenant a new key for its cells",
		Long: `Rotate gives a tenant a new key. What is written from now on, in any table, is sealed
with keys that derive from it; what is there stays readable with the old one, which is
kept. What values are found by, ciphertexts and tokens, stays under the first key.`,
		Example: "  opebench tenant rotate acme --store pebble:data --key bench.key",
	}, runF)
	return cmd
}

func rotateTenant(ctx context.Context, e *env, opts *namedTenantOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		if err := st.RotateTenantKey(ctx, opts.name); err != nil {
			return knownTenant(err)
		}
		return opts.printTenant(e, "tenant_rotated", fmt.Sprintf("tenant %s has a new key for its cells; what is there stays readable under the old ones, "+
			"and 'opebench tenant convert' writes it anew", visible(opts.name)))
	})
}

func newTenantDrop(e *env, runF func(context.Context, *env, *namedTenantOptions) error) *cobra.Command {
	cmd, opts := newNamedTenant(e, &cobra.Command{
		Use:   "drop NAME",
		Short: "Drop a tenant with its keys, so that nothing of it can be read",
		Long: `Drop removes a tenant with its keys. What is sealed of it, in all tables, cannot be read
any more, and nothing brings the keys back but a backup of the catalogue. Its rows stay
as bytes, and so do columns that are plain: delete the rows first where these matter.`,
		Example: "  opebench tenant drop acme --store pebble:data --key bench.key",
	}, runF)
	bindYes(cmd.Flags(), &opts.yes)
	return cmd
}

func dropTenant(ctx context.Context, e *env, opts *namedTenantOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		// One that does not exist is told before anybody is asked.
		names, err := st.Tenants(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(names, opts.name) {
			return knownTenant(fmt.Errorf("drop tenant %q: %w", opts.name, store.ErrNoTenant))
		}
		question := fmt.Sprintf("Drop tenant %s with its keys? Nothing that is sealed of it can be read then, and nothing brings it back.", visible(opts.name))
		if err := confirm(ctx, e, opts.yes, question); err != nil {
			return err
		}
		if err := st.DropTenant(ctx, opts.name); err != nil {
			return knownTenant(err)
		}
		return opts.printTenant(e, "tenant_dropped", fmt.Sprintf("tenant %s was dropped; its rows are left as bytes that no key opens, and their plain columns as they were", visible(opts.name)))
	})
}

type listTenantsOptions struct {
	keptStore
	table string
	json  bool
}

func newTenantList(e *env, runF func(context.Context, *env, *listTenantsOptions) error) *cobra.Command {
	opts := &listTenantsOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tenants of a store",
		Long: `List prints the names of all tenants and, with --table, which columns of that table are
sealed for each.`,
		Example: `  opebench tenant list --store pebble:data --key bench.key
  opebench tenant list --table readings --store pebble:data --key bench.key`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd.Flags(), "table"); err != nil {
				return err
			}
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	bindTable(f, &opts.table, "`name` of a table whose policies are shown")
	f.BoolVar(&opts.json, "json", false, "print a line of JSON for each tenant")
	return cmd
}

func listTenants(ctx context.Context, e *env, opts *listTenantsOptions) error {
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		names, err := st.Tenants(ctx)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, name := range names {
			p := policyOf{tenant: name, table: opts.table}
			if opts.table != "" {
				if err := p.read(ctx, st); errors.Is(err, store.ErrNoTenant) {
					continue // it was dropped meanwhile
				} else if err != nil {
					return err
				}
			}
			if opts.json {
				if err := p.encode(e, "tenant", opts.store); err != nil {
					return err
				}
			}
			rows = append(rows, []string{visible(name), p.says()})
		}
		if opts.table != "" && len(names) == 0 {
			// Nobody has looked for the table yet.
			if _, err := st.Table(ctx, opts.table); err != nil {
				return err
			}
		}
		if opts.json {
			return nil
		}
		_, err = io.WriteString(e.stdout, report.Rows([]string{"TENANT", "SEALED"}, rows, nil, e.style()))
		return err
	})
}

// policyOf is the policy of a tenant for a table, and what comes of it.
type policyOf struct {
	tenant, table string
	set           bool
	policy        store.Policy
	columns       []store.Column
	open          *store.Table // for the tenant
}

func (p *policyOf) read(ctx context.Context, st *store.Store) (err error) {
	p.open, err = openFor(ctx, st, p.table, p.tenant)
	if err != nil {
		return err
	}
	p.policy, p.set, err = st.Policy(ctx, p.tenant, p.table)
	p.columns = p.open.Schema().Columns
	return knownTenant(err)
}

// says says which columns are sealed.
func (p *policyOf) says() string {
	switch {
	case p.table == "":
		return ""
	case !p.set:
		return "as the schema says"
	case p.policy.Whole:
		return "all columns"
	case len(p.policy.Sensitive) == 0:
		return "no column, but those that are searched"
	}
	return names(p.policy.Sensitive)
}

func (p *policyOf) encode(e *env, record, in string) error {
	type policyJSON struct {
		Set       bool     `json:"set"`
		Whole     bool     `json:"whole"`
		Sensitive []string `json:"sensitive"`
	}
	var policy *policyJSON
	columns := []fieldJSON{}
	if p.table != "" {
		policy = &policyJSON{p.set, p.policy.Whole, append([]string{}, p.policy.Sensitive...)}
	}
	for _, c := range p.columns {
		columns = append(columns, fieldJSON{Name: c.Name(), Type: c.Type().String(), Encryption: c.Encryption(), Scheme: c.Scheme()})
	}
	return json.NewEncoder(e.stdout).Encode(struct {
		Record  string      `json:"record"`
		Store   string      `json:"store"`
		Tenant  string      `json:"tenant"`
		Table   string      `json:"table,omitempty"`
		Policy  *policyJSON `json:"policy,omitempty"`
		Columns []fieldJSON `json:"columns,omitempty"`
	}{record, shown(in), p.tenant, p.table, policy, columns})
}

type tenantPolicyOptions struct {
	keptStore
	name      string
	table     string
	whole     bool
	plain     bool
	sensitive []string
	asked     bool // for some columns
	json      bool
}

func newTenantPolicy(e *env, runF func(context.Context, *env, *tenantPolicyOptions) error) *cobra.Command {
	opts := &tenantPolicyOptions{}
	cmd := &cobra.Command{
		Use:   "policy NAME --table TABLE",
		Short: "Show or set which columns of a table are sealed for a tenant",
		Long: `Policy shows how the columns of a table are stored for a tenant or, with --whole,
--sensitive or --plain, says which of them are sealed from now on. Columns that are
searched are encrypted as the schema says in any case, and so is the row key.

It is one small write, and no row is touched: what is there is read as before, and stays
as it is until it is written again, or 'opebench tenant convert' has written it anew.
What was plain has been seen by the database, and is in its logs and copies.`,
		Example: `  opebench tenant policy acme --table readings --store pebble:data --key bench.key
  opebench tenant policy acme --table readings --sensitive note,site \
    --store pebble:data --key bench.key`,
		Args: args("the name of a tenant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.name, opts.asked = args[0], cmd.Flags().Changed("sensitive")
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	bindTable(f, &opts.table, "`name` of the table")
	f.BoolVar(&opts.whole, "whole", false, "seal all columns, also those that are added later")
	f.StringSliceVar(&opts.sensitive, "sensitive", nil, "seal the columns of these `names`, with commas between them,\nand no others")
	f.BoolVar(&opts.plain, "plain", false, "seal no column that is not searched")
	f.BoolVar(&opts.json, "json", false, "print the policy as a line of JSON")
	return cmd
}

func (o *tenantPolicyOptions) check() error {
	given := 0
	for _, is := range []bool{o.whole, o.plain, o.asked} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return usagef("give one of --whole, --sensitive and --plain")
	case o.asked && (len(o.sensitive) == 0 || slices.Contains(o.sensitive, "")):
		return usagef("--sensitive names no column somewhere; --plain is for none at all")
	}
	return needTable(o.table)
}

func tenantPolicy(ctx context.Context, e *env, opts *tenantPolicyOptions) error {
	if err := opts.check(); err != nil {
		return err
	}
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		before := policyOf{tenant: opts.name, table: opts.table}
		if err := before.read(ctx, st); err != nil {
			return err
		}
		if !opts.whole && !opts.plain && !opts.asked {
			if opts.json {
				return before.encode(e, "policy", opts.store)
			}
			return before.print(e)
		}
		err := st.SetPolicy(ctx, opts.name, opts.table, store.Policy{Whole: opts.whole, Sensitive: opts.sensitive})
		if errors.Is(err, store.ErrPolicy) {
			var columns []string
			for _, c := range before.columns {
				columns = append(columns, c.Name())
			}
			return fmt.Errorf("%w; the table has the columns %s", err, names(columns))
		}
		if err != nil {
			return knownTenant(err)
		}
		after := policyOf{tenant: opts.name, table: opts.table}
		if err := after.read(ctx, st); err != nil {
			return err
		}
		if opts.json {
			return after.encode(e, "policy", opts.store)
		}
		return after.printChanges(e, before.columns)
	})
}

func (p *policyOf) print(e *env) error {
	var rows [][]string
	for _, c := range p.columns {
		rows = append(rows, []string{visible(c.Name()), c.Type().String(), c.Encryption(), c.Scheme()})
	}
	_, err := io.WriteString(e.stdout, report.Line(fmt.Sprintf("%s: sealed: %s", tableOf(p.table, p.tenant), p.says()), e.style())+
		report.Rows([]string{"NAME", "TYPE", "ENCRYPTION", "SCHEME"}, rows, nil, e.style()))
	return err
}

// printChanges prints what became of columns.
func (p *policyOf) printChanges(e *env, before []store.Column) error {
	var text strings.Builder
	for _, c := range p.columns {
		i := slices.IndexFunc(before, func(b store.Column) bool { return b.Name() == c.Name() })
		if i >= 0 && before[i].Encryption() != c.Encryption() {
			text.WriteString(report.Line(fmt.Sprintf("~ %s: from %s to %s", visible(c.Name()), before[i].Encryption(), c.Encryption()), e.style()))
		}
	}
	line := "nothing is stored in another way than before"
	if text.Len() > 0 {
		line = fmt.Sprintf("rows that are there stay as they are until they are written again, or 'opebench tenant convert %s --table %s' has converted them",
			visible(p.tenant), visible(p.table))
	}
	text.WriteString(report.Line(fmt.Sprintf("%s: the policy was set; %s", tableOf(p.table, p.tenant), line), e.style()))
	_, err := io.WriteString(e.stdout, text.String())
	return err
}

type convertTenantOptions struct {
	keptStore
	name  string
	table string
	json  bool
}

func newTenantConvert(e *env, runF func(context.Context, *env, *convertTenantOptions) error) *cobra.Command {
	opts := &convertTenantOptions{}
	cmd := &cobra.Command{
		Use:   "convert NAME --table TABLE",
		Short: "Write a tenant's rows anew that are stored as an earlier policy said",
		Long: `Convert writes those rows of a tenant in a table anew that are not stored as its policy,
its newest key and the schema say by now. Readers and writers may go on, and lose nothing.

It may be stopped at any time; the same command goes on where it was, or begins again if
the policy was changed since. Several may run at a time and share the work.`,
		Example: "  opebench tenant convert acme --table readings --store pebble:data --key bench.key",
		Args:    args("the name of a tenant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.name = args[0]
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	bindTable(f, &opts.table, "`name` of the table")
	f.BoolVar(&opts.json, "json", false, "print the result as a line of JSON")
	return cmd
}

func convertTenant(ctx context.Context, e *env, opts *convertTenantOptions) error {
	if err := needTable(opts.table); err != nil {
		return err
	}
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		tbl, err := openFor(ctx, st, opts.table, opts.name)
		if err != nil {
			return err
		}
		return conversion{store: opts.store, table: opts.table, tenant: opts.name, json: opts.json}.run(ctx, e, tbl)
	})
}

type tenantStatusOptions struct {
	keptStore
	name  string // "" is all
	table string
	json  bool
}

func newTenantStatus(e *env, runF func(context.Context, *env, *tenantStatusOptions) error) *cobra.Command {
	opts := &tenantStatusOptions{}
	cmd := &cobra.Command{
		Use:   "status [NAME] --table TABLE",
		Short: "Show how far the conversion of tenants' rows is",
		Long: `Status prints, for one tenant or all, which columns of a table are sealed, and how far the
conversion of what was stored otherwise is. It reads no row: where none is done
for the version of the catalogue that has the policy, the newest key and the schema by
now, there may be rows of before.`,
		Example: `  opebench tenant status --table readings --store pebble:data --key bench.key
  opebench tenant status acme --table readings --store pebble:data --key bench.key --json`,
		Args: func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return nil
			}
			return args("the name of a tenant, or nothing")(cmd, given)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.name = args[0]
			}
			return runF(cmd.Context(), e, opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	opts.keptStore.bind(f)
	bindTable(f, &opts.table, "`name` of the table")
	f.BoolVar(&opts.json, "json", false, "print a line of JSON for each tenant")
	return cmd
}

func tenantStatus(ctx context.Context, e *env, opts *tenantStatusOptions) error {
	if err := needTable(opts.table); err != nil {
		return err
	}
	return withTables(ctx, e, opts.keptStore, false, func(st *store.Store) error {
		if _, err := st.Table(ctx, opts.table); err != nil {
			return err
		}
		names := []string{opts.name}
		if opts.name == "" {
			var err error
			if names, err = st.Tenants(ctx); err != nil {
				return err
			}
		}
		var rows [][]string
		for _, name := range names {
			p := policyOf{tenant: name, table: opts.table}
			err := p.read(ctx, st)
			var status store.ConvertStatus
			if err == nil {
				status, err = p.open.Status(ctx)
			}
			if errors.Is(err, store.ErrNoTenant) && opts.name == "" {
				continue // it was dropped meanwhile
			}
			if err != nil {
				return err
			}
			if opts.json {
				if err := (conversion{store: opts.store, table: opts.table, tenant: name}).encodeStatus(e, status); err != nil {
					return err
				}
			}
			rows = append(rows, []string{visible(name), p.says(), progressOf(status)})
		}
		if opts.json {
			return nil
		}
		_, err := io.WriteString(e.stdout, report.Rows([]string{"TENANT", "SEALED", "CONVERSION"}, rows, nil, e.style()))
		return err
	})
}

// progressOf says how far a conversion is.
func progressOf(s store.ConvertStatus) string {
	switch {
	case s.Total == 0:
		return fmt.Sprintf("none for version %d", s.Latest)
	case s.Version < s.Latest && s.Done < s.Total:
		return fmt.Sprintf("%d of %d parts for version %d; begins again, for version %d", s.Done, s.Total, s.Version, s.Latest)
	case s.Version < s.Latest:
		return fmt.Sprintf("done for version %d, none for version %d", s.Version, s.Latest)
	case s.Done < s.Total:
		return fmt.Sprintf("%d of %d parts for version %d", s.Done, s.Total, s.Version)
	}
	return fmt.Sprintf("done for version %d", s.Version)
}
