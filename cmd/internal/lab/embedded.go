package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bare"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// temporary is the name that reports give to a store that is removed in the end.
const temporary = "embedded store"

// temporaryStore makes a folder for an embedded store, and returns its name and what removes it.
func temporaryStore() (name string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "opebench-")
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary store: %w", err)
	}
	return "pebble:" + dir, func() error { return os.RemoveAll(dir) }, nil
}

// openTables opens the store that is kept, for a tenant if one is named.
func openTables(ctx context.Context, e *cli.Env, kept cli.Kept, key kms.KMS, create bool, tenant string) (*bench.Store, driver.DB, error) {
	db, err := e.OpenStore(ctx, kept.Name, stores.How{Create: create})
	if err != nil {
		return nil, nil, exit.Early(ctx, err)
	}
	st, err := bench.OpenStore(ctx, db, key, create)
	if err == nil {
		err = st.For(ctx, tenant)
	}
	if err != nil {
		return nil, nil, exit.Early(ctx, errors.Join(err, db.Close()))
	}
	return st, db, nil
}

// A diskUser is a database that knows how much of the disk its families take. The embedded one does.
type diskUser interface {
	DiskUsage(ctx context.Context, family string) (uint64, error)
}

// diskUsage returns how much of the disk each family of a database takes that open opens. A database that does
// not know it has none.
func diskUsage(ctx context.Context, open func() (driver.DB, error)) (sizes map[string]uint64, err error) {
	db, err := open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	user, ok := db.(diskUser)
	if !ok {
		return nil, nil
	}
	names, err := db.Families(ctx)
	if err != nil {
		return nil, err
	}
	sizes = make(map[string]uint64)
	for _, name := range names {
		if sizes[name], err = user.DiskUsage(ctx, name); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// bareStore opens the bare client of the database that --store names.
func bareStore(ctx context.Context, e *cli.Env, name string) (bare.Store, error) {
	scheme, rest, err := stores.Split(name)
	if err != nil {
		return nil, err
	}
	// A name that no table of ours has, and no other run.
	table := fmt.Sprintf("opebench_bare_%016x", loads.NewName())
	switch scheme {
	case "cassandra":
		config, err := stores.Cassandra(ctx, rest, e.AskPassword)
		if err != nil {
			return nil, err
		}
		return bare.OpenCassandra(ctx, config, table)
	case "hbase":
		quorum, _, err := stores.ParseHBase(rest)
		if err != nil {
			return nil, err
		}
		return bare.OpenHBase(ctx, quorum, table)
	}
	// Rows are beside the store's folder, on the same disk.
	return bare.OpenPebble(filepath.Dir(filepath.Clean(rest)))
}
