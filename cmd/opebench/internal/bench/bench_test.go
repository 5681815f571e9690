package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

var ctx = context.Background()

func testKey(t testing.TB, fill byte) ope.Key {
	t.Helper()
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = fill
	}
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	return key
}

func kind(t testing.TB, name string) Kind {
	t.Helper()
	k, err := KindByName(name)
	require.NoError(t, err)
	return k
}

func openStore(t testing.TB, db driver.DB) *Store {
	t.Helper()
	s, err := OpenStore(ctx, db, testKey(t, 1), true)
	require.NoError(t, err)
	return s
}

// The plaintext ordering is held to the same contract as the schemes it is compared with.
func TestPlainIsAScheme(t *testing.T) {
	opetest.TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
		p, err := newPlain(d)
		require.NoError(tb, err)
		return p
	})
}

// A table returns the rows of every range, in order, whatever the scheme: all ranges of a small
// domain, the whole of it included, where a shift is put right with and without enough memory.
func TestTableAgainstSortedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names, _ := Schemes()
	for _, name := range names {
		for _, buffer := range []int{rotatedBuffer, 3, 0} {
			t.Run(fmt.Sprintf("%s/buffer=%d", name, buffer), func(t *testing.T) {
				s := openStore(t, drivertest.NewMemory())
				table, info, err := s.Create(ctx, name, kind(t, "uint8"), "c", false)
				require.NoError(t, err)
				require.Equal(t, name, info.Name)
				table.(*keyColumn).buffer = buffer
				ties := s.Load(1)
				var rows []Row
				for i := range 150 {
					rows = append(rows, Row{int64(r.IntN(256)), ties.Tie(uint64(i))})
				}
				require.NoError(t, table.Insert(ctx, rows))
				require.NoError(t, table.Insert(ctx, rows[:20]), "again, as after an interruption")
				slices.SortFunc(rows, func(a, b Row) int {
					if a.Value != b.Value {
						return int(a.Value - b.Value)
					}
					return slices.Compare(a.Tie[:], b.Tie[:])
				})
				for lo := int64(-1); lo <= 256; lo += 7 {
					for hi := int64(-1); hi <= 256; hi += 9 {
						var want []Row
						for _, row := range rows {
							if lo <= row.Value && row.Value <= hi {
								want = append(want, row)
							}
						}
						limit := r.IntN(3) * 5
						if limit > 0 {
							want = want[:min(limit, len(want))]
						}
						require.Equal(t, want, collect(t, table, lo, hi, limit), "[%d, %d] limit %d", lo, hi, limit)
					}
				}
				require.Equal(t, rows, collect(t, table, math.MinInt64, math.MaxInt64, 0))
				require.Equal(t, rows, collect(t, table, 0, 255, 0))
			})
		}
	}
}

func collect(t testing.TB, table Table, lo, hi int64, limit int) []Row {
	t.Helper()
	var rows []Row
	for row, err := range table.Range(ctx, lo, hi, limit) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

func TestTableRefusesValuesOutOfTheDomain(t *testing.T) {
	names, _ := Schemes()
	for _, name := range names {
		table, _, err := openStore(t, drivertest.NewMemory()).Create(ctx, name, kind(t, "int8"), "c", false)
		require.NoError(t, err)
		err = table.Insert(ctx, []Row{{Value: 1}, {Value: 128}})
		require.ErrorIs(t, err, ope.ErrDomain, name)
		require.Empty(t, collect(t, table, -128, 127, 0), "nothing of the batch is there")
	}
}

// A cell that stands elsewhere, is another's, or is cut is an error, and no row.
func TestForeignCells(t *testing.T) {
	db := drivertest.NewMemory()
	s := openStore(t, db)
	insert := func(name string) (driver.Family, Table) {
		table, info, err := s.Create(ctx, name, kind(t, "int32"), "c", false)
		require.NoError(t, err)
		ties := s.Load(1)
		require.NoError(t, table.Insert(ctx, []Row{{10, ties.Tie(0)}, {20, ties.Tie(1)}}))
		f, err := db.Family(ctx, driver.FamilySpec{Name: info.Family, Layout: driver.LayoutOrdered})
		require.NoError(t, err)
		return f, table
	}
	family, table := insert("mope")
	other, _ := insert("boldyreva")
	rows := func(f driver.Family) (all []driver.Row) {
		for row, err := range f.Scan(ctx, driver.Range{}) {
			require.NoError(t, err)
			all = append(all, row)
		}
		return all
	}
	own, foreign := rows(family), rows(other)
	require.Len(t, own, 2)
	for name, test := range map[string]struct {
		cell []byte
		want error
	}{
		"of another row":   {own[1].Cells[0].Value, seal.ErrTampered},
		"of another table": {foreign[0].Cells[0].Value, seal.ErrWrongKey},
		"cut":              {own[0].Cells[0].Value[:seal.Overhead-1], seal.ErrFormat},
		"empty":            {[]byte{}, seal.ErrFormat},
		"not sealed":       {[]byte{0, 0, 0, 0, 0, 0, 0, 10}, seal.ErrFormat},
	} {
		require.NoError(t, family.Apply(ctx, driver.Mutation{Row: own[0].Key, Puts: []driver.Cell{{Qualifier: qualifier, Value: test.cell}}}))
		var last error
		for _, err := range table.Range(ctx, 0, 100, 0) {
			last = errors.Join(last, err)
		}
		require.ErrorIs(t, last, test.want, name)
	}
	require.NoError(t, family.Apply(ctx, driver.Mutation{Row: own[0].Key, Puts: own[0].Cells},
		driver.Mutation{Row: append(own[0].Key, 0), Puts: own[0].Cells}))
	var last error
	for _, err := range table.Range(ctx, 0, 100, 0) {
		last = errors.Join(last, err)
	}
	require.ErrorIs(t, last, driver.ErrLayout, "a key that is too long")
}

func TestTies(t *testing.T) {
	s := openStore(t, drivertest.NewMemory())
	seen := map[Tie]bool{}
	for load := range uint64(10) {
		for i := range uint64(1000) {
			tie := s.Load(load).Tie(i)
			require.False(t, seen[tie])
			require.Equal(t, tie, s.Load(load).Tie(i))
			seen[tie] = true
		}
	}
}

func TestStoreRefuses(t *testing.T) {
	db := drivertest.NewMemory()
	_, err := OpenStore(ctx, db, testKey(t, 1), false)
	require.ErrorIs(t, err, ErrNoTable)
	s := openStore(t, db)
	_, _, err = s.Open(ctx, "mope")
	require.ErrorIs(t, err, ErrNoTable)
	_, _, err = s.Create(ctx, "mope", kind(t, "int32"), "c", false)
	require.NoError(t, err)
	_, _, err = s.Create(ctx, "mope", kind(t, "int32"), "c", false)
	require.ErrorIs(t, err, ErrExists)
	for _, other := range []string{"int64", "date", "uint32", "timestamp"} {
		_, _, err = s.OpenOrCreate(ctx, "mope", kind(t, other), "c")
		require.ErrorIs(t, err, ErrParams, other)
		require.ErrorContains(t, err, "mope/1")
	}
	_, err = OpenStore(ctx, db, testKey(t, 2), false)
	require.ErrorIs(t, err, seal.ErrWrongKey)

	// A description is bound to its name, and to what this program makes of it.
	f, err := db.Family(ctx, catalogueSpec)
	require.NoError(t, err)
	cells, err := f.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{[]byte("mope")}})
	require.NoError(t, err)
	_, err = f.CheckAndPut(ctx, catalogueRow, driver.Cell{Qualifier: []byte("boldyreva")}, driver.Cell{Qualifier: []byte("boldyreva"), Value: cells[0].Value})
	require.NoError(t, err)
	_, _, err = s.Open(ctx, "boldyreva")
	require.ErrorIs(t, err, seal.ErrTampered)
	for name, change := range map[string]func(*description){
		"scheme":  func(d *description) { d.Scheme = "mope/2" },
		"codec":   func(d *description) { d.Codec = "int64/2" },
		"type":    func(d *description) { d.Type = "int24" },
		"newer":   func(d *description) { d.Format++ },
		"no ID":   func(d *description) { d.ID = "00" },
		"foreign": func(d *description) { d.Scheme = "boldyreva/1 domain=[-2147483648,2147483647] range=64" },
	} {
		var d description
		require.NoError(t, s.unseal(cells[0], &d))
		change(&d)
		changed, err := s.seal("mope", d)
		require.NoError(t, err)
		now, err := f.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{[]byte("mope")}})
		require.NoError(t, err)
		ok, err := f.CheckAndPut(ctx, catalogueRow, now[0], changed)
		require.NoError(t, err)
		require.True(t, ok)
		_, _, err = s.Open(ctx, "mope")
		require.ErrorIs(t, err, ErrParams, name)
	}
}

// Whatever happens to the calls, a store that could be made can be opened, and a table that could
// be created is there once.
func TestStoreUnderFaults(t *testing.T) {
	made := 0
	for seed := range uint64(200) {
		memory := drivertest.NewMemory()
		db := drivertest.NewFaulty(unclosed{memory}, drivertest.Randomly(seed, 0.2))
		if s, err := OpenStore(ctx, db, testKey(t, 1), true); err == nil {
			if table, _, err := s.OpenOrCreate(ctx, "mope", kind(t, "int8"), "c"); err == nil {
				row := []Row{{5, s.Load(1).Tie(1)}}
				for table.Insert(ctx, row) != nil {
				}
				made++
				require.NoError(t, db.Close())
				again := openStore(t, memory)
				table, _, err = again.Open(ctx, "mope")
				require.NoError(t, err, "seed %d", seed)
				require.Equal(t, row, collect(t, table, -128, 127, 0), "seed %d", seed)
			}
		}
	}
	require.Greater(t, made, 20)
}

type unclosed struct{ driver.DB }

func (unclosed) Close() error { return nil }

// The digests of a model are those of its windows, computed plainly.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})), 1, 60).Draw(t, "values")
		sorted := slices.Clone(xs)
		slices.Sort(sorted)
		m := newModel(len(xs), sorted, 9, []float64{0.1, 0.5, 1}, 1)
		var rows []Row
		for i, x := range xs {
			rows = append(rows, Row{Value: x, Tie: Tie{byte(i)}})
		}
		m.add(rows[:len(rows)/2])
		m.add(rows[len(rows)/2:])
		m.close()
		slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Value, b.Value) })
		require.Len(t, m.windows, 9)
		for _, w := range m.windows {
			c := m.check()
			for _, row := range rows {
				if w.lo <= row.Value && row.Value <= w.hi {
					c.add([]Row{row})
				}
			}
			require.NoError(t, c.result(w.want))
			require.Positive(t, w.want.rows)
		}
		require.Equal(t, len(xs), m.whole.rows)
	})
}

func TestCheckTellsWhatIsWrong(t *testing.T) {
	m := newModel(3, []int64{1, 2, 3}, 1, []float64{1}, 1)
	rows := []Row{{1, Tie{1}}, {2, Tie{2}}, {2, Tie{3}}, {3, Tie{4}}}
	m.add(rows)
	m.close()
	for want, got := range map[string][]Row{
		"3 rows came back, 4 are there":                              rows[:3],
		"5 rows came back, only 4 are there":                         append(slices.Clone(rows), rows[3]),
		"of the 4 rows that came back, some are not those":           {rows[0], rows[1], rows[1], rows[3]},
		"of the 4 rows that came back, some are not those that were": {rows[0], rows[1], {2, Tie{9}}, rows[3]},
		"another order than their values":                            {rows[1], rows[0], rows[2], rows[3]},
	} {
		c := m.check()
		c.add(got)
		err := c.result(m.whole)
		require.ErrorIs(t, err, ErrWrongAnswer)
		require.ErrorContains(t, err, want)
	}
	c := m.check()
	c.add([]Row{rows[0], rows[2], rows[1], rows[3]})
	require.NoError(t, c.result(m.whole), "equal values have no order")
}

// Windows hold the share of the rows that they are made for.
func TestSelectivities(t *testing.T) {
	for _, data := range []string{"uniform", "normal", "timestamps"} {
		source, err := Generate(data, 20_000, 1, "", "")
		require.NoError(t, err)
		n, sorted, err := sample(source.Values(), 0, 1, func(int) error { return nil })
		require.NoError(t, err)
		require.Equal(t, 20_000, n)
		m := newModel(n, sorted, 200, []float64{0.001, 0.01, 0.1}, 1)
		var rows []Row
		for x := range source.Values() {
			rows = append(rows, Row{Value: x})
		}
		m.add(rows)
		m.close()
		for _, w := range m.windows {
			require.InDelta(t, w.selectivity*20_000, w.want.rows, 2, data)
		}
	}
}

func TestSampleIsBoundedAndUniform(t *testing.T) {
	const n = 3 * sampleSize
	values := func(yield func(int64, error) bool) {
		for i := range int64(n) {
			if !yield(i, nil) {
				return
			}
		}
	}
	rows, kept, err := sample(values, 0, 1, func(int) error { return nil })
	require.NoError(t, err)
	require.Equal(t, n, rows)
	require.Len(t, kept, sampleSize)
	require.Len(t, slices.Compact(slices.Clone(kept)), sampleSize)
	for q := 1; q < 10; q++ {
		require.InDelta(t, n*q/10, kept[sampleSize*q/10], n/100)
	}
	rows, kept, err = sample(values, 10, 1, func(int) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 10, rows)
	require.Len(t, kept, 10)
}

func TestPairedRatio(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	covered := 0
	const trials = 100
	for range trials {
		var a, b []time.Duration
		for range 60 {
			weather := math.Exp(r.NormFloat64()) // meets both of a pair
			b = append(b, time.Duration(1e6*weather*(1+0.1*r.Float64())))
			a = append(a, time.Duration(1.5e6*weather*(1+0.1*r.Float64())))
		}
		ratio := pairedRatio(a, b, 1)
		require.InDelta(t, 1.5, ratio.Value, 0.1)
		require.Less(t, ratio.High-ratio.Low, 0.15, "the weather must not widen the interval")
		require.LessOrEqual(t, ratio.Low, ratio.Value)
		require.GreaterOrEqual(t, ratio.High, ratio.Value)
		if ratio.Low <= 1.5 && 1.5 <= ratio.High {
			covered++
		}
	}
	require.Greater(t, covered, trials*80/100)
	require.Zero(t, pairedRatio(nil, nil, 1))
	one := pairedRatio([]time.Duration{3}, []time.Duration{2}, 1)
	require.Equal(t, Ratio{1.5, 1.5, 1.5, 1}, one)
	many := make([]time.Duration, 3*maxPairs+7)
	for i := range many {
		many[i] = time.Duration(i + 1)
	}
	require.Equal(t, Ratio{1, 1, 1, len(many)}, pairedRatio(many, many, 1))
}

func TestRunOnMemory(t *testing.T) {
	source, err := Generate("uniform", 5000, 1, "", "")
	require.NoError(t, err)
	names, _ := Schemes()
	report, err := Run(ctx, openStore(t, drivertest.NewMemory()), Config{
		Source: source, Limit: 4321, Schemes: names, Queries: 31, Selectivities: []float64{0.01, 0.2}, Batch: 10, Writers: 3, Seed: 4,
	})
	require.NoError(t, err)
	require.True(t, report.Complete)
	require.Equal(t, 4321, report.Rows)
	require.Equal(t, 4321, report.Inserted)
	require.Len(t, report.Results, len(names))
	for _, r := range report.Results {
		require.Equal(t, 4321, r.Insert.Rows)
		require.GreaterOrEqual(t, r.Insert.Ratio.Pairs, minPairs)
		require.Equal(t, int64(31), r.Query.Latency.Count())
		require.Equal(t, 31, r.Verified)
		require.True(t, r.Whole)
		require.Equal(t, r.Query.Rows, r.BySelectivity[0].Rows+r.BySelectivity[1].Rows)
		require.Equal(t, report.Results[0].Query.Rows, r.Query.Rows, "all are asked the same")
		require.Positive(t, r.Insert.Rate())
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	source, err := Generate("uniform", 100_000, 1, "", "")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	n := 0
	db := drivertest.WithLatency(drivertest.NewMemory(), func() time.Duration {
		if n++; n == 50 {
			cancel()
		}
		return 0
	})
	report, err := Run(ctx, openStore(t, db), Config{
		Source: source, Schemes: []string{"plain", "mope"}, Queries: 3, Selectivities: []float64{0.1}, Batch: 100, Writers: 1, Seed: 1,
	})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, report.Complete)
	require.Less(t, report.Inserted, 100_000)
	require.Len(t, report.Results, 2)
}

// BenchmarkRange tells how many rows a second come out of the embedded store, decrypted.
func BenchmarkRange(b *testing.B) {
	names, _ := Schemes()
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			db, err := pebble.Open(b.TempDir(), nil)
			require.NoError(b, err)
			defer func() { require.NoError(b, db.Close()) }()
			s := openStore(b, db)
			table, _, err := s.Create(ctx, name, kind(b, "int32"), "c", false)
			require.NoError(b, err)
			source, err := Generate("uniform", 50_000, 1, "", "")
			require.NoError(b, err)
			_, err = Insert(ctx, table, s.Load(1), source, 0, 1000, 2, nil)
			require.NoError(b, err)
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				for _, err := range table.Range(ctx, -1<<29, 1<<29, 0) {
					if err != nil {
						b.Fatal(err)
					}
					rows++
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
