package index_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
)

var recordsFlag = flag.Int("index.records", 100_000, "records of the units that benchmarks read")
var unitFlag = flag.Int("index.unit", 0, "values that a unit has before it is divided; 0 is the default")

// benchIndex returns an index with one open unit.
func benchIndex(b *testing.B, kind testdb.Database) (ope.Index, ope.Condition) {
	kind.Need(b)
	ix, err := index.Open(context.Background(), kind.Open(b, nil), "bench")
	require.NoError(b, err)
	meta := ope.Meta{State: ope.StateOpen, Generation: 1}
	applied, err := ix.Commit(context.Background(), "unit", ope.Condition{}, ope.Change{Meta: meta})
	require.NoError(b, err)
	require.True(b, applied)
	return ix, ope.Condition{State: meta.State, Generation: meta.Generation}
}

// benchKey spreads i over the labels, so that records are inserted in no order.
func benchKey(i uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 8, 16), i*0x9E3779B97F4A7C15)[:16]
}

// insert commits n records with keys from i on, on the condition that the nonce is as before or,
// where it is nil, that their keys are absent.
func insert(ctx context.Context, ix ope.Index, cond ope.Condition, i, n uint64) (ope.Nonce, error) {
	change := ope.Change{Meta: ope.Meta{State: cond.State, Generation: cond.Generation}}
	rand.Read(change.Meta.Nonce[:])
	value := make([]byte, 60) // a sealed record has about as many bytes
	for range n {
		key := benchKey(i)
		change.Puts = append(change.Puts, ope.Record{Key: key, Value: value})
		if cond.Nonce == nil {
			cond.Absent = append(cond.Absent, key)
		}
		i++
	}
	applied, err := ix.Commit(ctx, "unit", cond, change)
	if err == nil && !applied {
		err = fmt.Errorf("a commit from key %d was refused", i-n)
	}
	return change.Meta.Nonce, err
}

// BenchmarkIndexCommit commits 256 records at a time:
//
//	go test -run XXX -bench IndexCommit -benchtime 200x ./store
func BenchmarkIndexCommit(b *testing.B) {
	const batch = 256
	for _, condition := range []string{"nonce", "absent"} {
		for _, kind := range testdb.All {
			b.Run(condition+"/"+kind.Name, func(b *testing.B) {
				ix, cond := benchIndex(b, kind)
				nonce, err := insert(context.Background(), ix, cond, 0, batch) // connections and statements
				require.NoError(b, err)
				b.ResetTimer()
				used := process.CPU()
				for i := range uint64(b.N) {
					if condition == "nonce" {
						cond.Nonce = &nonce
					}
					nonce, err = insert(context.Background(), ix, cond, (i+1)*batch, batch)
					require.NoError(b, err)
				}
				b.StopTimer()
				b.ReportMetric(float64((process.CPU()-used).Microseconds())/float64(b.N*batch), "cpu-µs/value")
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/commit")
				b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "values/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkIndexWriters has 32 goroutines insert one record each, without a scheme that would make
// one commit of many:
//
//	go test -run XXX -bench IndexWriters -benchtime 1000x ./store
func BenchmarkIndexWriters(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			ix, cond := benchIndex(b, kind)
			var next, unknown atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range 32 {
				wg.Go(func() {
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						if _, err := insert(context.Background(), ix, cond, uint64(i), 1); err != nil {
							unknown.Add(1)
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "values/s")
			b.ReportMetric(float64(unknown.Load()), "failed")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIndexRead reads a large unit in pages of 1,024, and single records at random places, as
// a client does that looks for the place of a value:
//
//	go test -run XXX -bench IndexRead -benchtime 1x ./store -store.records 1000000
func BenchmarkIndexRead(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			ix, cond := benchIndex(b, kind)
			const batch = 2048
			for i := uint64(0); i < uint64(*recordsFlag); i += batch {
				nonce, err := insert(context.Background(), ix, cond, i, batch)
				require.NoError(b, err)
				cond.Nonce = &nonce
			}
			b.ResetTimer()
			var pages, probes, records int
			var paging, probing time.Duration
			for range b.N {
				begin := time.Now()
				for from := []byte(nil); ; {
					view, err := ix.Read(context.Background(), "unit", from, nil, 1024)
					require.NoError(b, err)
					pages++
					records += len(view.Records)
					if !view.More {
						break
					}
					from = append(view.Records[len(view.Records)-1].Key, 0)
				}
				paging += time.Since(begin)
				begin = time.Now()
				for i := range uint64(200) {
					key := benchKey(i * 0x2545F4914F6CDD1D)
					_, err := ix.Read(context.Background(), "unit", key, nil, 1)
					require.NoError(b, err)
					probes++
				}
				probing += time.Since(begin)
			}
			b.ReportMetric(float64(paging.Milliseconds())/float64(pages), "ms/page")
			b.ReportMetric(float64(records)/paging.Seconds(), "records/s")
			b.ReportMetric(float64(probing.Microseconds())/1000/float64(probes), "ms/probe")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIndexScheme encrypts new values in batches of 256 with a client that is alone, all at the
// end of the index or all over it:
//
//	go test -run XXX -bench IndexScheme/pebble -benchtime 1000x ./store
func BenchmarkIndexScheme(b *testing.B) {
	const batch = 256
	for _, kind := range testdb.All {
		for _, order := range []string{"ascending", "random"} {
			b.Run(kind.Name+"/"+order, func(b *testing.B) {
				kind.Need(b)
				ix, err := index.Open(context.Background(), kind.Open(b, nil), "bench")
				require.NoError(b, err)
				s, err := kerschbaum.New(ope.GenerateKey(), ope.Int64, ix, nil)
				require.NoError(b, err)
				xs := make([]int64, batch)
				next := int64(0)
				encrypt := func() {
					for i := range xs {
						if xs[i] = next; order == "random" {
							xs[i] *= -0x61c8864680b583eb
						}
						next++
					}
					_, err := s.EncryptBatch(context.Background(), xs)
					require.NoError(b, err)
				}
				encrypt() // connections, statements and the first reads
				commits := s.Stats().Commits
				b.ResetTimer()
				used := process.CPU()
				for range b.N {
					encrypt()
				}
				b.StopTimer()
				b.ReportMetric(float64((process.CPU()-used).Nanoseconds())/1e3/float64(b.N*batch), "cpu-µs/value")
				b.ReportMetric(float64(s.Stats().Commits-commits)/float64(b.N), "commits/batch")
				b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "values/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkRebalance rebalances an index alone, and while another client inserts one value after the other, over a connection of
// its own where the database has such. It reports how long the other waits for a value at most, and for one in a thousand, then
// and afterwards, for as many values. What that says depends on who else uses the machine. So it also reports how many
// round trips and refused commits a value took at most. The values came in order, so that nearly all of them move:
//
//	go test -run XXX -bench Rebalance -benchtime 1x ./store/internal/index -index.records 260000
func BenchmarkRebalance(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			ix, itsOwn := benchIndexes(b, kind)
			var alone, beside time.Duration
			var during, after waits
			for i := range b.N {
				took := rebalance(b, ix, itsOwn, fmt.Sprintf("alone%d-%d", b.N, i), nil, nil)
				alone += took
				took = rebalance(b, ix, itsOwn, fmt.Sprintf("beside%d-%d", b.N, i), &during, &after)
				beside += took
			}
			b.ReportMetric(alone.Seconds()/float64(b.N), "s-alone")
			b.ReportMetric(beside.Seconds()/alone.Seconds(), "beside/alone")
			during.report(b, "")
			after.report(b, "-after")
			b.ReportMetric(float64(len(during.took))/float64(b.N), "puts")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A grown is a scheme whose index grows, and what its clients have done.
type grown struct {
	ope.BatchEncrypter
	stats func() (trips, commits int, of string)
}

// growing opens the schemes that divide the units of an index, by name. A client remembers so many values.
var growing = map[string]func(key ope.Key, ix ope.Index, remembers int) (grown, error){
	"kerschbaum": func(key ope.Key, ix ope.Index, remembers int) (grown, error) {
		s, err := kerschbaum.New(key, ope.Int64, ix, &kerschbaum.Options{CacheValues: remembers, UnitValues: *unitFlag})
		return grown{s, func() (int, int, string) {
			n := s.Stats()
			return n.RoundTrips, n.Commits, fmt.Sprintf("%+v", n)
		}}, err
	},
	"wozniak": func(key ope.Key, ix ope.Index, remembers int) (grown, error) {
		s, err := wozniak.NewIndexed(key, ope.Int64, ix, "unit", &wozniak.IndexedOptions{TargetsOnly: true, CacheValues: remembers, UnitValues: *unitFlag})
		return grown{s, func() (int, int, string) {
			n := s.Stats()
			return n.Trips, n.Commits, fmt.Sprintf("%+v", n)
		}}, err
	},
}

// benchIndexes returns an index over two connections, or twice the same.
func benchIndexes(b *testing.B, kind testdb.Database) (one, two ope.Index) {
	ctx := context.Background()
	open := func(db driver.DB) ope.Index {
		ix, err := index.Open(ctx, db, "bench")
		require.NoError(b, err)
		return ix
	}
	if !kind.Server {
		one = open(kind.Open(b, nil))
		return one, one
	}
	name := kind.Reserve(b)
	join := func() driver.DB {
		db, err := kind.Join(ctx, name)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, db.Close()) })
		return db
	}
	one = open(join())
	return one, open(join())
}

// waits says how long the values of a client took, one by one, and the most calls of the index that one of them took.
type waits struct {
	took           []time.Duration
	trips, refused int
}

func (w *waits) put(b *testing.B, s *kerschbaum.Scheme, x int64) {
	begin, before := time.Now(), s.Stats()
	_, err := s.Encrypt(context.Background(), x)
	require.NoError(b, err)
	w.took = append(w.took, time.Since(begin))
	after := s.Stats()
	w.trips, w.refused = max(w.trips, after.RoundTrips-before.RoundTrips), max(w.refused, after.Conflicts-before.Conflicts)
}

func (w *waits) report(b *testing.B, when string) {
	slices.Sort(w.took)
	of := func(thousandths int) float64 {
		return float64(w.took[(len(w.took)-1)*thousandths/1000].Microseconds()) / 1000
	}
	b.ReportMetric(of(1000), "ms-longest-put"+when)
	b.ReportMetric(of(999), "ms-p99.9-put"+when)
	b.ReportMetric(of(500), "ms-median-put"+when)
	b.ReportMetric(float64(w.trips), "trips-most"+when)
	b.ReportMetric(float64(w.refused), "refused-most"+when)
}

// rebalance makes an index and rebalances it, beside another client unless during is nil. It returns how long that took.
func rebalance(b *testing.B, ix, itsOwn ope.Index, name string, during, after *waits) (took time.Duration) {
	const warm = 500 // values by which the other client comes to know the index
	ctx, key, opts := context.Background(), ope.GenerateKey(), &kerschbaum.Options{Name: name}
	s, err := kerschbaum.New(key, ope.Int64, ix, opts)
	require.NoError(b, err)
	xs := make([]int64, 2048)
	for i := 0; i < *recordsFlag; i += len(xs) {
		for j := range xs {
			xs[j] = int64(i+j) << 20
		}
		_, err := s.EncryptBatch(ctx, xs)
		require.NoError(b, err)
	}
	other, err := kerschbaum.New(key, ope.Int64, itsOwn, opts)
	require.NoError(b, err)
	value := func(i int) int64 { return int64(i)*0x9E3779B97F4A7C1%(int64(*recordsFlag)<<20) | 1 }
	puts := 0
	for ; puts < warm && during != nil; puts++ {
		_, err := other.Encrypt(ctx, value(puts))
		require.NoError(b, err)
	}
	done := make(chan struct{})
	begin := time.Now()
	go func() {
		defer close(done)
		_, err = s.Rebalance(ctx, nil)
		took = time.Since(begin)
	}()
	if during == nil {
		<-done
		require.NoError(b, err)
		return took
	}
	for ended := false; !ended; puts++ {
		during.put(b, other, value(puts))
		select {
		case <-done:
			ended = true
		default:
		}
	}
	require.NoError(b, err)
	for i := range puts - warm {
		after.put(b, other, value(puts+i))
	}
	return took
}

// BenchmarkManyValues puts different values into one index, in batches of 2,048 in random or ascending order, and reports the
// rate of the last tenth against that of the first million, also by processor time, and the most round trips by which a new client
// finds a value, then and at the end. The client that puts them remembers all:
//
//	go test -run XXX -bench ManyValues/kerschbaum/pebble -benchtime 1x -timeout 2h ./store/internal/index -index.records 5000000
func BenchmarkManyValues(b *testing.B) {
	for name, open := range growing {
		for _, kind := range testdb.All {
			for _, arrival := range []string{"random", "ascending"} {
				b.Run(name+"/"+kind.Name+"/"+arrival, func(b *testing.B) {
					kind.Need(b)
					ctx := context.Background()
					ix, err := index.Open(ctx, kind.Open(b, nil), "bench")
					require.NoError(b, err)
					key := ope.GenerateKey()
					s, err := open(key, ix, max(4096, 2**recordsFlag))
					require.NoError(b, err)
					xs := make([]int64, 2048)
					value := func(i int) int64 {
						if arrival == "random" {
							return int64(i) * -0x61c8864680b583eb
						}
						return int64(i)
					}
					load := func(from, to int) (rate, cpu float64) { // values a second, microseconds a value
						begin, used := time.Now(), process.CPU()
						for at := from; at < to; at += len(xs) {
							for j := range xs {
								xs[j] = value(at + j)
							}
							_, err := s.EncryptBatch(ctx, xs)
							require.NoError(b, err)
						}
						n := float64(to - from)
						return n / time.Since(begin).Seconds(), float64((process.CPU() - used).Microseconds()) / n
					}
					cold := func(n int) (most int) {
						for i := range 8 {
							other, err := open(key, ix, 0)
							require.NoError(b, err)
							_, err = other.EncryptBatch(ctx, []int64{value(n / 8 * i)})
							require.NoError(b, err)
							trips, _, _ := other.stats()
							most = max(most, trips)
						}
						return most
					}
					records := *recordsFlag
					first := min(records/2, 1_000_000) / len(xs) * len(xs)
					atFirst, usedFirst := load(0, first)
					b.ReportMetric(float64(cold(first)), "trips-cold-first")
					load(first, records*9/10)
					last, usedLast := load(records*9/10, records)
					b.ReportMetric(float64(cold(records)), "trips-cold")
					_, commits, stats := s.stats()
					b.Log(stats)
					b.ReportMetric(atFirst, "values/s-first")
					b.ReportMetric(last, "values/s-last")
					b.ReportMetric(last/atFirst, "last/first")
					b.ReportMetric(usedFirst/usedLast, "last/first-cpu")
					b.ReportMetric(float64(commits), "commits")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkNewClients has five clients, of which none knows what the ones before it have read or written, insert 40,000
// random values each into one index, in batches of 250, and reports the rate of the last one against the first, also by
// processor time, which says more where the machine is busy:
//
//	go test -run XXX -bench NewClients/.*/pebble -benchtime 3x ./store/internal/index
func BenchmarkNewClients(b *testing.B) {
	for name, open := range map[string]func(key ope.Key, ix ope.Index, unit string) (ope.BatchEncrypter, error){
		"kerschbaum": func(key ope.Key, ix ope.Index, unit string) (ope.BatchEncrypter, error) {
			return kerschbaum.New(key, ope.Int64, ix, &kerschbaum.Options{Name: unit})
		},
		"wozniak": func(key ope.Key, ix ope.Index, unit string) (ope.BatchEncrypter, error) {
			return wozniak.NewIndexed(key, ope.Int32, ix, ope.Unit(unit), &wozniak.IndexedOptions{TargetsOnly: true})
		},
	} {
		for _, kind := range testdb.All {
			b.Run(name+"/"+kind.Name, func(b *testing.B) {
				kind.Need(b)
				ix, err := index.Open(context.Background(), kind.Open(b, nil), "bench")
				require.NoError(b, err)
				var first, last, firstUsed, lastUsed time.Duration
				for n := range b.N {
					key := ope.GenerateKey()
					next := int32(0)
					for client := range 5 {
						s, err := open(key, ix, fmt.Sprintf("clients%d-%d", b.N, n))
						require.NoError(b, err)
						begin, used := time.Now(), process.CPU()
						for range 40_000 / 250 {
							xs := make([]int64, 250)
							for i := range xs {
								next++
								xs[i] = int64(next * -0x61c88647)
							}
							_, err := s.EncryptBatch(context.Background(), xs)
							require.NoError(b, err)
						}
						took, used := time.Since(begin), process.CPU()-used
						switch client {
						case 0:
							first, firstUsed = first+took, firstUsed+used
						case 4:
							last, lastUsed = last+took, lastUsed+used
						}
					}
				}
				b.ReportMetric(float64(first)/float64(last), "last/first")
				b.ReportMetric(float64(firstUsed)/float64(lastUsed), "last/first-cpu")
				b.ReportMetric(first.Seconds()/float64(b.N), "s-first")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
