package bare

import (
	"context"
	"fmt"
	"iter"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/cassandra"
)

type cassandraStore struct {
	session *gocql.Session
	table   string
}

// spreadBits says into how many partitions, 2 to the power of it, keys are divided by their first bits:
// into as many as the tables beside it. A range then is in few of them, and each has its rows in order.
const spreadBits = 4

func partition(key []byte) int {
	if len(key) == 0 {
		return 0
	}
	return int(key[0] >> (8 - spreadBits))
}

// OpenCassandra keeps rows in a table of a keyspace, which it drops in the end.
func OpenCassandra(ctx context.Context, c cassandra.Config, table string) (Store, error) {
	cluster := gocql.NewCluster(c.Hosts...)
	cluster.Keyspace = c.Keyspace
	if c.Timeout != 0 {
		cluster.Timeout = c.Timeout
	}
	if c.Username != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: c.Username, Password: c.Password}
	}
	if c.TLS != nil {
		cluster.SslOpts = &gocql.SslOptions{Config: c.TLS}
	}
	if c.Datacentre != "" {
		cluster.HostFilter, cluster.Consistency = gocql.DataCenterHostFilter(c.Datacentre), gocql.LocalQuorum
	}
	if c.Consistency != gocql.Any {
		cluster.Consistency = c.Consistency
	}
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	cluster.Logger = gocql.NewLogger(gocql.LogLevelNone)
	session, err := cluster.CreateSession()
	if err != nil {
		return nil, fmt.Errorf("bare cassandra: %w", err)
	}
	s := &cassandraStore{session, table}
	create := fmt.Sprintf("CREATE TABLE %s (p int, k blob, v blob, PRIMARY KEY ((p), k)) WITH compaction = {'class': 'LeveledCompactionStrategy'}", table)
	if err := session.Query(create).ExecContext(ctx); err != nil {
		session.Close()
		return nil, fmt.Errorf("bare cassandra: %w", err)
	}
	return s, nil
}

func (s *cassandraStore) Put(ctx context.Context, rows []Row) error {
	insert := "INSERT INTO " + s.table + " (p, k, v) VALUES (?, ?, ?)"
	if len(rows) == 1 {
		return s.session.Query(insert, partition(rows[0].Key), rows[0].Key, rows[0].Value).Idempotent(true).ExecContext(ctx)
	}
	// A batch of one partition is one write. All are under way together.
	batches := make(map[int]*gocql.Batch)
	for _, r := range rows {
		p := partition(r.Key)
		if batches[p] == nil {
			batches[p] = s.session.Batch(gocql.UnloggedBatch)
		}
		batches[p].Entries = append(batches[p].Entries, gocql.BatchEntry{Stmt: insert, Args: []any{p, r.Key, r.Value}, Idempotent: true})
	}
	errs := make(chan error, len(batches))
	for _, b := range batches {
		go func() { errs <- b.ExecContext(ctx) }()
	}
	var err error
	for range batches {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

func (s *cassandraStore) Scan(ctx context.Context, from, to []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		last := 1<<spreadBits - 1
		if to != nil {
			last = partition(to)
		}
		for p := partition(from); p <= last; p++ {
			q := s.session.Query("SELECT k, v FROM "+s.table+" WHERE p = ? AND k >= ?", p, from)
			if to != nil {
				q = s.session.Query("SELECT k, v FROM "+s.table+" WHERE p = ? AND k >= ? AND k < ?", p, from, to)
			}
			rows := q.IterContext(ctx)
			var r Row
			for rows.Scan(&r.Key, &r.Value) {
				if !yield(r, nil) {
					_ = rows.Close()
					return
				}
			}
			if err := rows.Close(); err != nil {
				yield(Row{}, err)
				return
			}
		}
	}
}

func (s *cassandraStore) Close(ctx context.Context) error {
	defer s.session.Close()
	return s.session.Query("DROP TABLE " + s.table).ExecContext(ctx)
}
