package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// writers are calls that put rows, so many at a time.
type writers struct {
	name                 string
	writers, calls, rows int
}

// each returns what makes the calls, each with the number of its first row.
func (w writers) each(next *atomic.Int64, put func(from int) error) func() error {
	return func() error {
		var group errgroup.Group
		for range w.writers {
			group.Go(func() error {
				for range w.calls {
					if err := put(int(next.Add(int64(w.rows)))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	}
}

// all returns how many rows are put.
func (w writers) all() int { return w.writers * w.calls * w.rows }

// BenchmarkSearched is a Put of new rows with an ordered column, beside one of the same rows whose column is not searched.
// Each turn has a client of its own, and ends when that is closed: then copies are put, too.
//
//	RANGECRYPT_CASSANDRA=host:port RANGECRYPT_HBASE=host:port go test -run XXX -bench Searched -benchtime 40x ./store
func BenchmarkSearched(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			for _, how := range []string{"index entries", "copies, append-only", "copies, conditional", "server index"} {
				if how == "server index" && kind.Name != "memory" && kind.Name != "cassandra" {
					continue
				}
				b.Run(how, func(b *testing.B) {
					db := kind.Open(b, nil)
					st := open(b, db)
					alone, searched := searchedSchema(how, false).Name, searchedSchema(how, true).Name
					for _, is := range []bool{false, true} {
						create(b, st, searchedSchema(how, is))
					}
					for _, load := range []writers{{"singly, 32 writers", 32, 20, 1}, {"batches of 256", 1, 4, 256}} {
						b.Run(load.name, func(b *testing.B) {
							var next atomic.Int64
							put := func(name string) func() error {
								return func() error {
									st := open(b, db)
									tbl, err := st.Table(background, name)
									require.NoError(b, err)
									err = load.each(&next, func(from int) error {
										rows := plainRows(from, load.rows)
										for _, row := range rows {
											row["celsius"] = row["k"]
										}
										return tbl.Put(background, rows...)
									})()
									return errors.Join(err, st.Close(background))
								}
							}
							measure.Pairs(b, load.all(), put(searched), put(alone))
						})
					}
				})
			}
		})
	}
}

// BenchmarkLeased is a Put of single new rows under a lease, beside one of a client that reads the version all the same.
//
//	RANGECRYPT_CASSANDRA=host:port RANGECRYPT_HBASE=host:port go test -run XXX -bench Leased -benchtime 40x ./store
func BenchmarkLeased(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			db := kind.Open(b, nil)
			st := open(b, db)
			require.NoError(b, st.SetLease(background, 5*time.Second))
			for _, searched := range []bool{false, true} {
				schema := searchedSchema("index entries", searched)
				create(b, st, schema)
				for _, load := range []writers{{"32 writers", 32, 40, 1}, {"1 writer", 1, 100, 1}} {
					b.Run(fmt.Sprintf("%s/%s", schema.Name, load.name), func(b *testing.B) {
						var next atomic.Int64
						put := func(opts *store.Options) func() error {
							st, err := store.Open(background, db, kms.NewLocal(testKey), opts)
							require.NoError(b, err)
							b.Cleanup(func() { require.NoError(b, st.Close(background)) })
							tbl, err := st.Table(background, schema.Name)
							require.NoError(b, err)
							return load.each(&next, func(from int) error {
								rows := plainRows(from, load.rows)
								rows[0]["celsius"] = rows[0]["k"]
								return tbl.Put(background, rows...)
							})
						}
						measure.Pairs(b, load.all(), put(nil), put(&store.Options{NoLease: true}))
					})
				}
			}
		})
	}
}

// searchedSchema returns a table whose column celsius is searched in some way, or not at all.
func searchedSchema(how string, searched bool) store.Schema {
	column := store.OrderedColumn("celsius", store.Int64, store.Boldyreva)
	switch {
	case !searched:
		column = store.RandomisedColumn("celsius", store.Int64)
	case strings.HasPrefix(how, "copies"):
		column = column.Covering()
	case how == "server index":
		column = column.ServerIndex()
	}
	s := store.Schema{
		Name: fmt.Sprint("searched ", searched), Key: []store.KeyPart{store.OrderedPart("k", store.Int64, store.Boldyreva), store.TiePart("tie")},
		Columns:    []store.Column{column, store.RandomisedColumn("value", store.Bytes)},
		AppendOnly: how == "copies, append-only" && searched, Conditional: how == "copies, conditional",
	}
	return s
}
