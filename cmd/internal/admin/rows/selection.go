package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// aboutWhere is the paragraph of help texts about conditions.
const aboutWhere = `A condition compares columns and parts of the row key with values:

    celsius between 18 and 25 and device = "pump-7"
    note is null or not (day >= 2024-02-29 and id in (1, 2, 3))
    ` + "`part number`" + ` like 'A-%' and raw != x'00ff'

There is =, !=, <, <=, >, >=, between, in, like (a beginning and %), is null, is nan, and,
or, not and brackets. Texts are in '...' or "...", names with blanks in backquotes.
docs/queries.md has all of it.`

// A selection is the rows of a table that a command is about.
type selection struct{ where, by, tenant string }

func (s *selection) bind(f *pflag.FlagSet, what string) {
	f.StringVar(&s.where, "where", "", what)
	f.StringVar(&s.by, "by", "", "find the rows by the index of this `column`, which the condition restricts, and not by\nwhat the store would choose; 'table explain' shows that")
	cli.OfferColumns(f, "by")
	anytable.BindTenant(f, &s.tenant)
}

// predicate returns what the condition says of the rows of a table, whose columns have that of --by among them. Without one it holds for all.
func (s *selection) predicate(schema store.Schema, format *celltext.Format) (store.Predicate, error) {
	all := condition.Columns(schema)
	if s.by != "" && !slices.ContainsFunc(all, func(f inspect.Field) bool { return f.Name == s.by }) {
		return store.Predicate{}, unknown("by", all[len(schema.Key):], s.by) // no part of the row key drives a query
	}
	if s.where == "" {
		return store.And(), nil
	}
	p, err := condition.Parse(schema, s.where, format)
	if err != nil {
		return p, exit.Usagef("--where: %v", err)
	}
	return p, nil
}

// refused returns an error about --by as one of usage, in the words of the store. Any other stays as it is.
func (s *selection) refused(ctx context.Context, tbl anytable.Table, where store.Predicate, err error) error {
	single, is := tbl.(*store.Table)
	if s.by == "" || !is || !errors.Is(err, store.ErrColumn) {
		return err
	}
	// The order of the rows may be what is refused.
	if _, err := single.Explain(ctx, store.Query{Where: where, By: s.by}); errors.Is(err, store.ErrColumn) {
		return exit.Usagef("--by: %v", err)
	}
	return err
}

// sayAssumed says on standard error what was assumed of times.
func sayAssumed(c *cli.Call, format *celltext.Format) {
	for _, said := range format.Assumed() {
		c.Warn("%s", said)
	}
}

// unknown is the error about a name that a flag gives and no column has.
func unknown(flag string, columns []inspect.Field, name string) error {
	hint := ""
	if strings.ContainsAny(name, "\"`'") {
		hint = "; here quotation marks and backquotes are part of a name"
		if strings.HasSuffix(flag, "select") {
			hint += ", but for double quotes around one with a comma in it, as in CSV: --" + flag + ` 'a,"b,c"'`
		}
	}
	return exit.Usagef("--%s: %v%s", flag, condition.Unknown(columns, name), hint)
}

// quotedNames is about flags that take a list of names.
const quotedNames = `one with a comma in it in double quotes, as in 'a,"b,c"'`

// explained says what to do where a query is refused, which may be one for the opposite order of the row key.
func explained(err error, desc bool) error {
	switch {
	case errors.Is(err, store.ErrScan):
		return fmt.Errorf("%w; without --require-index it does, and 'rangecrypt table explain' shows what is scanned", err)
	case errors.Is(err, driver.ErrRange) && desc:
		return exit.Usagef("--desc without --order-by turns round the order of the row key, in which these rows do not come: name a column with --order-by, " +
			"or the first part of the key with --where; a column that was changed needs 'rangecrypt table convert'")
	case errors.Is(err, store.ErrToken):
		return exit.Usagef("the page token is damaged, of another query, or from before a change of the schema or of keys: begin the pages again, or give the table, --where, --by, --order-by, --desc and --tenant that it came with")
	}
	return err
}
