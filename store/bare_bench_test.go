package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// BenchmarkBare compares Put of a table that encrypts nothing and searches no column with the client library alone, which
// puts the same cells into the same partitions by the same statements. Puts of ours include the reads of the version, which those
// with a lease need not make.
//
//	RANGECRYPT_CASSANDRA=host:port RANGECRYPT_HBASE=host:port go test -run XXX -bench Bare -benchtime 40x ./store
func BenchmarkBare(b *testing.B) {
	for _, bare := range []struct {
		database string
		open     func(b *testing.B, db driver.DB, name string, spec driver.FamilySpec) func(context.Context, []driver.Mutation) error
	}{{"cassandra", bareCassandra}, {"hbase", bareHBase}} {
		b.Run(bare.database, func(b *testing.B) {
			var kind testdb.Database
			for _, k := range testdb.All {
				if k.Name == bare.database {
					kind = k
				}
			}
			kind.Need(b)
			spec, cells := cellsOf(b)
			name := kind.Reserve(b)
			db, err := kind.Join(background, name)
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, db.Close()) })
			watched := &watchedDB{DB: db}
			st := open(b, watched)
			tbl := create(b, st, benchSchema("key", false))
			apply := bare.open(b, db, name, spec)
			for _, load := range []writers{{"singly, 32 writers, with a lease", 32, 40, 1}, {"singly, 32 writers", 32, 40, 1}, {"singly, 1 writer", 1, 100, 1}, {"batches of 256, 4 writers", 4, 2, 256}, {"batches of 256, 1 writer", 1, 4, 256}} {
				b.Run(load.name, func(b *testing.B) {
					lease := time.Duration(0)
					if strings.HasSuffix(load.name, "with a lease") {
						lease = 5 * time.Second
					}
					require.NoError(b, st.SetLease(background, lease))
					var next atomic.Int64
					reads := watched.gets.Load()
					measure.Pairs(b, load.all(), load.each(&next, func(from int) error { return tbl.Put(background, plainRows(from, load.rows)...) }),
						load.each(&next, func(from int) error { return apply(background, withKeys(cells, from, load.rows)) }))
					b.ReportMetric(float64(watched.gets.Load()-reads)/float64((b.N+1)*load.writers*load.calls), "reads/put")
				})
			}
		})
	}
}

func plainRows(from, n int) []store.Row {
	rows := benchRows(from, from+n)
	for _, row := range rows {
		delete(row, "id")
		row["k"] = row["k"].(int64) << 23 // spread over the whole domain, and with it over the partitions
	}
	return rows
}

// withKeys returns what puts n rows with keys that are spread as those of the table are.
func withKeys(cells []driver.Cell, from, n int) []driver.Mutation {
	mutations := make([]driver.Mutation, n)
	for i := range mutations {
		mutations[i] = driver.Mutation{Row: binary.BigEndian.AppendUint64(nil, uint64(from+i)*0x9e3779b97f4a7c15), Puts: cells}
	}
	return mutations
}

// cellsOf returns where the table puts rows, and the cells of one.
func cellsOf(b *testing.B) (driver.FamilySpec, []driver.Cell) {
	db := &watchedDB{DB: drivertest.NewMemory()}
	require.NoError(b, create(b, open(b, db), benchSchema("key", false)).Put(background, plainRows(1, 1)...))
	require.Len(b, db.last.Row, 8)
	require.Empty(b, db.last.Deletes)
	return db.spec, db.last.Puts
}

// A watchedDB counts reads, and remembers the last change.
type watchedDB struct {
	driver.DB
	gets atomic.Int64
	spec driver.FamilySpec
	last driver.Mutation
}

func (db *watchedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	db.spec = spec
	return &watchedFamily{f, db}, err
}

type watchedFamily struct {
	driver.Family
	db *watchedDB
}

func (f *watchedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	f.db.gets.Add(1)
	return f.Family.Get(ctx, row, s)
}

func (f *watchedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if len(mutations) == 1 && f.db.last.Row == nil {
		f.db.last = mutations[0]
	}
	return f.Family.Apply(ctx, mutations...)
}

func bareCassandra(b *testing.B, _ driver.DB, keyspace string, spec driver.FamilySpec) func(context.Context, []driver.Mutation) error {
	server, err := testcassandra.New()
	require.NoError(b, err)
	cluster := server.Cluster()
	cluster.Keyspace, cluster.Consistency = keyspace, gocql.Quorum
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	session, err := cluster.CreateSession()
	require.NoError(b, err)
	b.Cleanup(session.Close)
	require.NoError(b, session.Query("CREATE TABLE bare (p blob, k blob, q blob, v blob, PRIMARY KEY ((p), k, q)) WITH compaction = {'class': 'LeveledCompactionStrategy'}").ExecContext(background))
	const insert = "INSERT INTO bare (p, k, q, v) VALUES (?, ?, ?, ?)"
	return func(ctx context.Context, mutations []driver.Mutation) error {
		batches := make(map[int]*gocql.Batch)
		for _, m := range mutations {
			n := spec.Bucket(m.Row[spec.PrefixBytes:])
			p := binary.BigEndian.AppendUint16(bytes.Clone(m.Row[:spec.PrefixBytes]), uint16(n))
			if len(mutations) == 1 && len(m.Puts) == 1 {
				return session.Query(insert, p, m.Row, m.Puts[0].Qualifier, m.Puts[0].Value).Idempotent(true).ExecContext(ctx)
			}
			if batches[n] == nil {
				batches[n] = session.Batch(gocql.UnloggedBatch)
			}
			for _, c := range m.Puts {
				batches[n].Entries = append(batches[n].Entries, gocql.BatchEntry{Stmt: insert, Args: []any{p, m.Row, c.Qualifier, c.Value}, Idempotent: true})
			}
		}
		group, ctx := errgroup.WithContext(ctx)
		for _, batch := range batches {
			group.Go(func() error { return batch.ExecContext(ctx) })
		}
		return group.Wait()
	}
}

func bareHBase(b *testing.B, db driver.DB, namespace string, spec driver.FamilySpec) func(context.Context, []driver.Mutation) error {
	spec.Name, spec.Existing = "bare", false
	_, err := db.Family(background, spec) // which makes the table
	require.NoError(b, err)
	table := []byte(namespace + ":bare")
	client := gohbase.NewClient(os.Getenv("RANGECRYPT_HBASE"), gohbase.RpcQueueSize(256), gohbase.FlushInterval(0))
	b.Cleanup(client.Close)
	return func(ctx context.Context, mutations []driver.Mutation) error {
		calls := make([]hrpc.Call, len(mutations))
		for i, m := range mutations {
			values := make(map[string][]byte, len(m.Puts))
			for _, c := range m.Puts {
				values["q"+string(c.Qualifier)] = append([]byte{1}, c.Value...)
			}
			put, err := hrpc.NewPut(ctx, table, m.Row, map[string]map[string][]byte{"c": values})
			if err != nil {
				return err
			}
			if len(mutations) == 1 {
				_, err = client.Put(put)
				return err
			}
			calls[i] = put
		}
		if results, ok := client.SendBatch(ctx, calls); !ok {
			return fmt.Errorf("bare: %v", results)
		}
		return nil
	}
}
