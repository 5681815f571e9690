package cassandra

import (
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// repeated prepares a query that takes effect once, however often it is sent: it is a read, or has its timestamp.
func (db *DB) repeated(q *gocql.Query) *gocql.Query {
	q = q.Idempotent(true).RetryPolicy(new(retry))
	if twice := db.twice(); twice != nil {
		q = q.SetSpeculativeExecutionPolicy(twice)
	}
	return q
}

// twice returns how such a query is sent to two nodes, or nil where it is not.
func (db *DB) twice() gocql.SpeculativeExecutionPolicy {
	if db.options.SpeculateAfter == 0 {
		return nil
	}
	return speculation{db}
}

type speculation struct{ db *DB }

// Attempts implements [gocql.SpeculativeExecutionPolicy]. Without a second node the second attempt would fail at once, and
// gocql takes the first answer, of whatever kind.
func (s speculation) Attempts() int {
	up := 0
	for _, host := range s.db.session.GetHosts() {
		if host.IsUp() {
			up++
		}
	}
	return min(1, max(0, up-1))
}

// Delay implements [gocql.SpeculativeExecutionPolicy].
func (s speculation) Delay() time.Duration { return s.db.options.SpeculateAfter }
