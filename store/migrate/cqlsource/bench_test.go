package cqlsource_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/migrate/cqlsource"
)

var copiedRows = flag.Int("cqlsource.rows", 20000, "rows of the table that is copied")

// BenchmarkCopy copies a CQL table into an encrypted one of the same cluster, four parts at a time, beside a copy of the same rows
// into another CQL table. The rows were written an hour before, as most rows of tables that come in. The plain copy scans four shares
// of the table at a time, and each has 64 insertions under way; or eight batches of ten.
//
//	go test -run XXX -bench Copy -benchtime 8x ./store/migrate/cqlsource
func BenchmarkCopy(b *testing.B) {
	for _, c := range []struct {
		name     string
		change   func(*store.Schema)
		together int // rows of a request of the plain copy
	}{
		{"sealed", func(*store.Schema) {}, 1},
		{"sealed, conditional", func(s *store.Schema) { s.Conditional = true }, 1},
		{"one ordered column", func(s *store.Schema) { s.Columns[0] = store.OrderedColumn("a", store.Int64, store.Boldyreva) }, 1},
		{"sealed, beside batches", func(*store.Schema) {}, 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			session, keyspace := cqlsource.Application(b)
			ctx := b.Context()
			do := func(stmt string, values ...any) error { return session.Query(stmt, values...).ExecContext(ctx) }
			require.NoError(b, do("CREATE TABLE plain (id bigint PRIMARY KEY, a bigint, b text, c double, d blob)"))
			before := time.Now().Add(-time.Hour).UnixMicro()
			group, _ := errgroup.WithContext(ctx)
			group.SetLimit(64)
			for i := range int64(*copiedRows) {
				group.Go(func() error {
					return do("INSERT INTO plain (id, a, b, c, d) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?", i, i*i, fmt.Sprint("row number ", i), float64(i)/7, []byte{byte(i), 1, 2, 3, 4, 5, 6, 7}, before)
				})
			}
			require.NoError(b, group.Wait())
			source, err := cqlsource.New(ctx, session, keyspace, "plain", cqlsource.Options{})
			require.NoError(b, err)
			var db testdb.Database
			for _, db = range testdb.All {
				if db.Name == "cassandra" {
					break
				}
			}
			st, err := store.Open(ctx, db.Open(b, nil), kms.NewLocal(ope.GenerateKey()), nil)
			require.NoError(b, err)
			copies := 0
			encrypted := func() error {
				copies++
				schema, _, err := source.Propose(ctx, fmt.Sprint("copy ", copies))
				if err != nil {
					return err
				}
				c.change(&schema)
				tbl, err := st.Create(ctx, schema)
				if err != nil {
					return err
				}
				m, err := migrate.New(tbl, source)
				if err != nil {
					return err
				}
				if _, err := m.Prepare(ctx, false); err != nil {
					return err
				}
				parts, err := m.Parts(ctx)
				if err != nil {
					return err
				}
				for i := range parts {
					if _, err := m.Copy(ctx, inspect.Part{Index: i, Of: parts}, &migrate.PassOptions{Shares: 4}); err != nil {
						return err
					}
				}
				s, err := m.Status(ctx)
				if err == nil && s.Copy.Rows.Copied != *copiedRows {
					err = fmt.Errorf("%d rows were copied", s.Copy.Rows.Copied)
				}
				return err
			}
			plain := func() error {
				copies++
				table := fmt.Sprint("copy", copies)
				if err := do("CREATE TABLE " + table + " (id bigint PRIMARY KEY, a bigint, b text, c double, d blob)"); err != nil {
					return err
				}
				return copyPlain(ctx, session, table, c.together)
			}
			measure.Pairs(b, *copiedRows, encrypted, plain)
		})
	}
}

func copyPlain(ctx context.Context, session *gocql.Session, table string, together int) error {
	shares := new(errgroup.Group)
	for share := range int64(4) {
		shares.Go(func() error {
			writes, ctx := errgroup.WithContext(ctx)
			writes.SetLimit(64)
			if together > 1 {
				writes.SetLimit(8)
			}
			var batch *gocql.Batch
			send := func(b *gocql.Batch) { writes.Go(func() error { return b.ExecContext(ctx) }) }
			low, width := int64(math.MinInt64), int64(1)<<62
			i := session.Query("SELECT id, a, b, c, d FROM plain WHERE token(id) >= ? AND token(id) <= ?", low+share*width, low+share*width+width-1).IterContext(ctx)
			for {
				var id, a int64
				var text string
				var c float64
				var d []byte
				if !i.Scan(&id, &a, &text, &c, &d) {
					break
				}
				stmt := "INSERT INTO " + table + " (id, a, b, c, d) VALUES (?, ?, ?, ?, ?)"
				if together == 1 {
					writes.Go(func() error { return session.Query(stmt, id, a, text, c, d).ExecContext(ctx) })
					continue
				}
				if batch == nil {
					batch = session.Batch(gocql.UnloggedBatch)
				}
				if batch.Query(stmt, id, a, text, c, d); batch.Size() == together {
					send(batch)
					batch = nil
				}
			}
			if batch != nil {
				send(batch)
			}
			if err := i.Close(); err != nil {
				return err
			}
			return writes.Wait()
		})
	}
	return shares.Wait()
}
