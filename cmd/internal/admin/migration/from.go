package migration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/migrate/cqlsource"
	"github.com/rangecrypt/rangecrypt/store/migrate/hbasesource"
)

// An opener opens the table that rows come from. The function that it returns closes it.
type opener func(ctx context.Context, from *origin, c *cli.Call) (migrate.Source, func(), error)

var _, _ proposer = (*cqlsource.Source)(nil), (*hbasesource.Source)(nil)

// An origin names the table that rows come from.
type origin struct {
	name    string // "" where none is named
	mapping string // of a table in HBase
	kept    cli.Kept
}

const (
	fromHBase = "hbase://"
	FromTable = "table:"
)

func (o *origin) bind(f *pflag.FlagSet) {
	f.StringVar(&o.name, "from", "", "the `table` that rows come from, as cassandra://HOST/KEYSPACE.TABLE?OPTION=VALUE\n"+
		"with the options that --store has, hbase://QUORUM/NAMESPACE:TABLE with --mapping,\nor table:NAME for an encrypted one, of the store or of --from-store")
	f.StringVar(&o.mapping, "mapping", "", "a `file` in YAML: what the bytes of a table in HBase mean")
	f.StringVar(&o.kept.Name, "from-store", "", "another `store`, with the table of --from table:NAME")
	f.StringVar(&o.kept.Key, "from-key", "", cli.KeyHelp("that store's master key"))
}

func (o *origin) check() error {
	switch {
	case (o.mapping != "") != strings.HasPrefix(o.name, fromHBase):
		return exit.Usagef("a table in HBase needs --mapping, and no other table takes it")
	case o.kept != (cli.Kept{}) && !strings.HasPrefix(o.name, FromTable):
		return exit.Usagef("--from-store and --from-key are for --from %sNAME only", FromTable)
	case o.kept.Name == "" && o.kept.Key != "":
		return exit.Usagef("--from-key is the key of --from-store: name that, too")
	case o.kept.Name != "":
		if err := stores.Check(o.kept.Name); err != nil {
			return err
		}
		return cli.CheckKey("--from-key", o.kept.Key)
	}
	_, _, err := o.inHBase()
	return err
}

// hbaseTable is TABLE or NAMESPACE:TABLE.
var hbaseTable = regexp.MustCompile(`^([\pL\pN_]+:)?[\pL\pN_.-]+$`)

// inHBase returns the servers and the table of one in HBase. What no table is called is refused here: HBase would repeat it, and
// it may be a password.
func (o *origin) inHBase() (quorum, table string, err error) {
	rest, ok := strings.CutPrefix(o.name, fromHBase)
	if !ok {
		return "", "", nil
	}
	quorum, table, _ = strings.Cut(rest, "/")
	if strings.ContainsAny(rest, "?#@") {
		quorum = rest // of which the error is that there are options
	}
	switch _, _, err = stores.ParseHBase("//" + quorum); {
	case err != nil:
		return "", "", exit.Usagef("--from %s: %v", stores.Shown(o.name), err)
	case !hbaseTable.MatchString(table):
		return "", "", exit.Usagef("--from %s: want %sQUORUM/TABLE, or %sQUORUM/NAMESPACE:TABLE", stores.Shown(o.name), fromHBase, fromHBase)
	}
	return quorum, table, nil
}

// openOrigin opens it. An encrypted table may be in the store of a call.
func openOrigin(ctx context.Context, o *origin, c *cli.Call) (migrate.Source, func(), error) {
	switch {
	case strings.HasPrefix(o.name, fromHBase):
		return o.openHBase(ctx, c)
	case strings.HasPrefix(o.name, FromTable):
		return o.openTable(ctx, c)
	}
	s, err := stores.Reaching(ctx, "--from", o.name, c.Tell, func() (*cqlsource.Source, error) { return cqlsource.Open(ctx, o.name) })
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

func (o *origin) openHBase(ctx context.Context, c *cli.Call) (migrate.Source, func(), error) {
	quorum, table, err := o.inHBase()
	if err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(o.mapping)
	if err != nil {
		return nil, nil, err
	}
	mapping, err := hbasesource.ParseMapping(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.mapping, err)
	}
	db, err := stores.Reaching(ctx, "--from", fromHBase+quorum, c.Tell, func() (*hbase.DB, error) { return hbase.Open(ctx, quorum, nil) })
	if err != nil {
		return nil, nil, err
	}
	s, err := hbasesource.New(db, table, mapping)
	return s, func() { db.Close() }, err
}

func (o *origin) openTable(ctx context.Context, c *cli.Call) (migrate.Source, func(), error) {
	name := strings.TrimPrefix(o.name, FromTable)
	if o.kept.Name == "" {
		s, err := migrate.FromTable(ctx, c.Store, name)
		return s, func() {}, err
	}
	db, key, err := o.kept.Open(ctx, c.Env, stores.How{})
	if err != nil {
		return nil, nil, err
	}
	st, err := stores.Tables(ctx, db, key, false)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	end := func() { _ = errors.Join(st.Close(ctx), db.Close()) }
	s, err := migrate.FromTable(ctx, st, name)
	if err != nil {
		end()
	}
	return s, end, err
}
