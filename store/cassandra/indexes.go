package cassandra

import (
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

var _ driver.Indexer = (*DB)(nil)

// AddIndex implements [driver.Indexer].
func (db *DB) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	what := fmt.Sprintf("make index %s of family %s", name, spec.Name)
	e, err := db.withIndexes(ctx, spec, name)
	if err != nil {
		return db.failedPart(ctx, what, err)
	}
	if v := OlderThan(db.session, 5, 0); v != "" {
		return fmt.Errorf("cassandra: %s: %w: a node speaks as Cassandra %s: it takes Cassandra 5, and ScyllaDB has none", what, driver.ErrNoIndex, v)
	}
	table := db.keyspace + "." + e.table
	if err := db.change(ctx, fmt.Sprintf("ALTER TABLE %s ADD IF NOT EXISTS %s varint", table, name)); err != nil {
		return db.failed(ctx, what, err)
	}
	err = db.change(ctx, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s_%s ON %s (%s) USING 'sai'", e.table, name, table, name))
	var refused gocql.RequestError
	if errors.As(err, &refused) && (refused.Code() == gocql.ErrCodeInvalid || refused.Code() == gocql.ErrCodeConfig || refused.Code() == gocql.ErrCodeSyntax) {
		_ = db.change(ctx, fmt.Sprintf("ALTER TABLE %s DROP IF EXISTS %s", table, name)) // an empty column does no harm
		return fmt.Errorf("cassandra: %s: %w: the server refuses it: %w", what, driver.ErrNoIndex, err)
	}
	// A node that knows of the index may still be making it, for as long as it has many rows.
	for err == nil {
		ready := true
		for _, host := range db.session.GetHosts() {
			var queryable bool
			if host.IsUp() {
				failed := db.system("SELECT is_queryable FROM system_views.sai_column_indexes WHERE keyspace_name = ? AND index_name = ?", db.keyspace, e.table+"_"+name).
					SetHostID(host.HostID()).ScanContext(ctx, &queryable)
				ready = ready && (queryable || failed != nil && !errors.Is(failed, gocql.ErrNotFound))
			}
		}
		if ready && ctx.Err() == nil {
			return nil
		}
		err = pause.For(ctx, 50*time.Millisecond)
	}
	return db.failed(ctx, what, err)
}

// DropIndex implements [driver.Indexer].
func (db *DB) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	e, err := db.withIndexes(ctx, spec, name)
	if err == nil {
		err = db.change(ctx, fmt.Sprintf("DROP INDEX IF EXISTS %s.%s_%s", db.keyspace, e.table, name))
	}
	if errors.Is(err, driver.ErrNoFamily) {
		return nil
	}
	return db.failed(ctx, fmt.Sprintf("drop index %s of family %s", name, spec.Name), err)
}

func (db *DB) withIndexes(ctx context.Context, spec driver.FamilySpec, name string) (e entry, err error) {
	if err := spec.CheckIndex(name); err != nil {
		return e, err
	}
	if e, err = db.lookUp(ctx, spec.Name); errors.Is(err, gocql.ErrNotFound) || err == nil && e.dropping {
		err = driver.ErrNoFamily
	}
	return e, err
}
