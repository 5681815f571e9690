package store_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// The benchmarks compare an encrypted table with one of the same layout in the plain, in turns:
//
//	go test -run XXX -bench Range -benchtime 40x ./store

var (
	rowsFlag   = flag.Int("store.rows", 100_000, "rows of the tables of benchmarks")
	filledFlag = flag.String("store.filled", "", "a `command` of the shell that is run when tables are filled, with the name of the database, as in \"flush.sh\"")
)

// benchSchema returns a table whose key or column k is searched for ranges.
func benchSchema(layout string, encrypted bool) store.Schema {
	scheme, value := store.Plaintext, store.PlainColumn
	indexed := map[bool]store.ColumnScheme{false: compare.PlaintextIndexed, true: store.Plaintext} // by whether it has ranks
	if encrypted {
		scheme, value = store.Boldyreva, store.RandomisedColumn
		indexed = map[bool]store.ColumnScheme{false: store.Kerschbaum, true: store.KerschbaumRanked}
	}
	kerschbaum := store.OrderedColumn("k", store.Int64, indexed[strings.HasPrefix(layout, "ranked")])
	s := store.Schema{Name: strings.NewReplacer(" ", "_", ",", "").Replace(fmt.Sprint(layout, encrypted))}
	switch layout {
	case "column":
		s.Key = []store.KeyPart{store.OrderedPart("id", store.Int64, scheme)}
		s.Columns = []store.Column{store.OrderedColumn("k", store.Int64, scheme)}
	case "covering":
		s.AppendOnly = true
		s.Key = []store.KeyPart{store.OrderedPart("id", store.Int64, scheme), store.TiePart("tie")}
		s.Columns = []store.Column{store.OrderedColumn("k", store.Int64, scheme).Covering()}
	case "server index":
		s.Key = []store.KeyPart{store.OrderedPart("id", store.Int64, scheme), store.TiePart("tie")}
		s.Columns = []store.Column{store.OrderedColumn("k", store.Int64, scheme).ServerIndex()}
	case "same row by key": // as that of "covering"
		s.Key = []store.KeyPart{store.OrderedPart("k", store.Int64, scheme), store.TiePart("tie")}
		s.Columns = []store.Column{value("id", store.Int64)}
	case "mutable", "mutable, few values", "ranked":
		// With a key that is not encrypted, so that what is seen is the column.
		s.Key = []store.KeyPart{store.OrderedPart("id", store.Int64, store.Plaintext)}
		s.Columns = []store.Column{kerschbaum}
	case "mutable, covering", "mutable, covering, few values", "ranked, covering", "ranked, covering, few values":
		s.AppendOnly = true
		s.Key = []store.KeyPart{store.OrderedPart("id", store.Int64, store.Plaintext), store.TiePart("tie")}
		s.Columns = []store.Column{kerschbaum.Covering()}
	default:
		s.Key = []store.KeyPart{store.OrderedPart("k", store.Int64, scheme)}
	}
	s.Columns = append(s.Columns, value("value", store.Bytes))
	return s
}

// benchRows returns rows from..to, whose k are evenly spread, in the order of id but not of k.
func benchRows(from, to int) []store.Row {
	value := make([]byte, 32)
	rows := make([]store.Row, 0, to-from)
	for i := from; i < to; i++ {
		// Multiplying by an odd number permutes the integers modulo 2^40.
		rows = append(rows, store.Row{"id": int64(i), "k": int64(i) * 0x9E3779B97F % (1 << 40), "value": value})
	}
	return rows
}

func fill(tb testing.TB, tbl *store.Table, rows int) {
	tb.Helper()
	s := tbl.Schema()
	hasID := s.Key[0].Describe().Name == "id" || slices.ContainsFunc(s.Columns, func(c store.Column) bool { return c.Describe().Name == "id" })
	for from := 0; from < rows; from += 5000 {
		batch := benchRows(from, min(rows, from+5000))
		for _, row := range batch {
			if !hasID {
				delete(row, "id")
			}
			if strings.Contains(s.Name, "few_values") {
				// One of 1024 values, each in the middle of what it stands for, so that a range has as many rows as before.
				row["k"] = row["k"].(int64)&^(1<<30-1) | 1<<29
			}
		}
		require.NoError(tb, tbl.Put(background, batch...))
	}
}

// filled returns tables with the same rows. A database that can be is closed and opened again before:
// otherwise an embedded one would still have in memory what was written last, and only that.
func filled(tb testing.TB, kind testdb.Database, schemas ...store.Schema) (tables []*store.Table) {
	tb.Helper()
	var name string
	join := func() driver.DB { return kind.Open(tb, nil) }
	if kind.Shared() {
		name = kind.Reserve(tb)
		join = func() driver.DB {
			db, err := kind.Join(background, name)
			require.NoError(tb, err)
			return db
		}
	}
	db := join()
	st := open(tb, db)
	for _, schema := range schemas {
		fill(tb, create(tb, st, schema), *rowsFlag)
	}
	require.NoError(tb, st.Close(background)) // what they do after a Put is done
	if *filledFlag != "" {
		out, err := exec.Command("sh", "-c", *filledFlag+` "$0"`, name).CombinedOutput()
		require.NoError(tb, err, string(out))
	}
	if kind.Shared() {
		require.NoError(tb, db.Close())
		db = join()
		tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	}
	st = open(tb, db)
	for _, schema := range schemas {
		tbl, err := st.Table(background, schema.Name)
		require.NoError(tb, err)
		tables = append(tables, tbl)
	}
	return tables
}

// layouts are where k is: a part of the key, a column found by its ciphertexts, one whose index entries have copies of the
// rows, or one found by tokens of its values, whose order is in an index.
var layouts = []string{"key", "column", "covering", "mutable"}

// BenchmarkRange is a range query over 0.1, 1 and 10 % of the rows.
func BenchmarkRange(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			for _, layout := range layouts {
				b.Run(layout, func(b *testing.B) {
					tables := filled(b, kind, benchSchema(layout, true), benchSchema(layout, false))
					encrypted, plain := tables[0], tables[1]
					for _, permille := range []int{1, 10, 100} {
						b.Run(fmt.Sprintf("%g%%", float64(permille)/10), func(b *testing.B) {
							measure.Pairs(b, *rowsFlag*permille/1000, ranged(encrypted, permille), ranged(plain, permille))
						})
					}
				})
			}
		})
	}
}

// ranged returns a range query over so many of a thousand rows.
func ranged(tbl *store.Table, permille int) func() error {
	expected := *rowsFlag * permille / 1000
	return func() error {
		n := 0
		for _, err := range tbl.Query(background, store.Query{Where: store.Field[int64]("k").Between(1<<38, 1<<38+int64(permille)<<40/1000)}) {
			if err != nil {
				return err
			}
			n++
		}
		if n < expected*8/10-20 || n > expected*12/10+20 {
			return fmt.Errorf("%d rows, expected about %d", n, expected)
		}
		return nil
	}
}

// BenchmarkByColumn is a range query by a column beside one by the row key, of encrypted tables.
func BenchmarkByColumn(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			layouts := []string{
				"column", "covering", "mutable", "mutable, covering", "mutable, few values", "mutable, covering, few values", "ranked", "ranked, covering",
				"ranked, covering, few values",
			}
			if kind.Name == "memory" || kind.Name == "cassandra" {
				layouts = append(layouts, "server index")
			}
			for _, layout := range layouts {
				b.Run(layout, func(b *testing.B) {
					tables := filled(b, kind, benchSchema("same row by key", true), benchSchema(layout, true))
					for _, permille := range []int{1, 10, 100} {
						b.Run(fmt.Sprintf("%g%%", float64(permille)/10), func(b *testing.B) {
							measure.Pairs(b, *rowsFlag*permille/1000, ranged(tables[1], permille), ranged(tables[0], permille))
						})
					}
				})
			}
		})
	}
}

// BenchmarkResumed is a range query by copies beside one by the row key, right after a load whose process died, before it had
// put the copies of its last rows, and that another one resumed where it had got to.
func BenchmarkResumed(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			db := kind.Open(b, nil)
			st := open(b, db)
			byKey := create(b, st, benchSchema("same row by key", true))
			fill(b, byKey, *rowsFlag)
			tbl := create(b, st, benchSchema("covering", true))
			const deaths = 1
			for i, from := 0, 0; from < *rowsFlag; i++ {
				var dead atomic.Bool
				some := open(b, drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
					if dead.Load() {
						return drivertest.CrashBefore
					}
					return drivertest.NoFault
				}))
				tbl, err := some.Table(background, tbl.Schema().Name)
				require.NoError(b, err)
				for until := *rowsFlag * (i + 1) / (deaths + 1); from < until; from += 256 {
					rows := benchRows(from, min(*rowsFlag, from+256))
					for _, row := range rows {
						row["tie"] = store.LoadTie(binary.BigEndian.AppendUint64(make([]byte, 8, 16), uint64(row["id"].(int64))))
					}
					require.NoError(b, tbl.Put(background, rows...))
				}
				if from >= *rowsFlag {
					require.NoError(b, some.Close(background))
					break
				}
				dead.Store(true)
				from -= 256 // as far as its journal is behind
			}
			require.NoError(b, st.Close(background))
			for _, permille := range []int{1, 10, 100} {
				b.Run(fmt.Sprintf("%g%%", float64(permille)/10), func(b *testing.B) {
					measure.Pairs(b, *rowsFlag*permille/1000, ranged(tbl, permille), ranged(byKey, permille))
				})
			}
			v, err := tbl.Verify(background, nil)
			require.NoError(b, err)
			b.Logf("%d of %d rows have no copy", v.Uncopied, v.Rows)
		})
	}
}

// BenchmarkInsert is a Put of 256 new rows.
func BenchmarkInsert(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			for _, layout := range layouts {
				b.Run(layout, func(b *testing.B) {
					st := open(b, kind.Open(b, nil))
					const batch = 256
					insert := func(tbl *store.Table) func() error {
						from := 0
						return func() error {
							rows := benchRows(from, from+batch)
							from += batch
							if layout == "key" {
								for _, row := range rows {
									delete(row, "id")
								}
							}
							return tbl.Put(background, rows...)
						}
					}
					measure.Pairs(b, batch, insert(create(b, st, benchSchema(layout, true))), insert(create(b, st, benchSchema(layout, false))))
				})
			}
		})
	}
}

// BenchmarkGet is 256 calls of Get, each of a row by its key.
func BenchmarkGet(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			tables := filled(b, kind, benchSchema("key", true), benchSchema("key", false))
			const calls = 256
			get := func(tbl *store.Table) func() error {
				from := 0
				return func() error {
					for _, row := range benchRows(from, from+calls) {
						if _, err := tbl.Get(background, store.Row{"k": row["k"]}); err != nil {
							return err
						}
					}
					from = (from + calls) % (*rowsFlag - calls)
					return nil
				}
			}
			measure.Pairs(b, calls, get(tables[0]), get(tables[1]))
		})
	}
}

// The memory of a query does not grow with its result: its live heap, sampled on the way, is about
// the same for four times the rows.
func TestMemoryOfQueries(t *testing.T) {
	st := open(t, testdb.All[1].Open(t, nil))
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			tbl := create(t, st, benchSchema(layout, true))
			const few, many = 6_000, 24_000 // of few, as much is read ahead as ever is
			fill(t, tbl, many)
			grown := func(limit int) (most int64) {
				before := live()
				n := 0
				for _, err := range tbl.Query(background, store.Query{Where: store.Field[int64]("k").AtLeast(0), Limit: limit}) {
					require.NoError(t, err)
					if n++; n%(limit/10) == 0 {
						most = max(most, int64(live())-int64(before))
					}
				}
				require.Equal(t, limit, n)
				return most
			}
			grown(many) // caches
			// Keeping the rows would take more than 300 bytes for each.
			const most = int64(many-few) * 300 / 4
			// What is read ahead differs from run to run, and others use memory, too. What is kept for each row is there in all runs.
			small, large := grown(few), int64(math.MaxInt64)
			for range 10 {
				if large = min(large, grown(many)); large-small < most {
					break
				}
			}
			t.Logf("%d KiB for %d rows, %d KiB for %d", small>>10, few, large>>10, many)
			require.Less(t, large-small, most)
		})
	}
}

// BenchmarkReplace is a Put of 256 rows that exist, with other values: with a server index, beside one with index entries.
func BenchmarkReplace(b *testing.B) {
	for _, kind := range testdb.All {
		if kind.Name != "memory" && kind.Name != "cassandra" {
			continue // which keep no indexes
		}
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			st := open(b, kind.Open(b, nil))
			const batch = 256
			replace := func(served bool) func() error {
				column := store.OrderedColumn("k", store.Int64, store.Boldyreva)
				if served {
					column = column.ServerIndex()
				}
				tbl := create(b, st, store.Schema{
					Name: fmt.Sprint("replaced ", served), Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.Boldyreva)},
					Columns: []store.Column{column, store.RandomisedColumn("value", store.Bytes)},
				})
				turn := int64(0)
				return func() error {
					rows := benchRows(0, batch)
					for _, row := range rows {
						row["k"] = (row["k"].(int64) + turn) % (1 << 40)
					}
					turn += 1 << 30
					return tbl.Put(background, rows...)
				}
			}
			measure.Pairs(b, batch, replace(true), replace(false))
		})
	}
}
