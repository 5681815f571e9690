package drivertest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Benchmark measures a database: puts of one row and of a hundred, replacements of a hundred, gets,
// and scans of a thousand rows. A row has a key of 16 bytes and a cell of 100. Times are per call;
// rows/s stands beside them. The family that it makes is dropped.
func Benchmark(bb *testing.B, open func(testing.TB) driver.DB) {
	db := open(bb)
	s := newSuite(db, Options{})
	defer func() {
		s.dropAll(bb)
		require.NoError(bb, db.Close())
	}()
	m := &measure{s: s, f: s.ordered(bb), r: rand.New(rand.NewPCG(1, 1))}
	for range 20_000 {
		m.stock = append(m.stock, m.mutation(""))
	}
	apply(bb, m.f, m.stock...)
	for _, batch := range []int{1, 100} {
		bb.Run(fmt.Sprintf("put=%d", batch), func(b *testing.B) { m.puts(b, batch) })
	}
	bb.Run("replace=100", func(b *testing.B) { m.replaces(b, 100) })
	bb.Run("put=1/parallel", m.parallelPuts)
	bb.Run("get", m.gets)
	bb.Run("scan=1000", func(b *testing.B) { m.scans(b, 1000) })
	bb.Run("checkandput", m.conditions)
}

type measure struct {
	s     *suite
	f     driver.Family
	r     *rand.Rand
	stock []driver.Mutation // rows that are there from the beginning
}

// mutation puts a random row, whose key begins with p.
func (m *measure) mutation(p string) driver.Mutation {
	value := make([]byte, 100)
	for i := range value {
		value[i] = byte(m.r.Uint32())
	}
	return row(fmt.Sprintf("%s%016x", p, m.r.Uint64()), driver.Cell{Qualifier: b("v"), Value: value})
}

func rate(b *testing.B, rows int) {
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
}

func (m *measure) puts(b *testing.B, batch int) {
	b.ReportAllocs()
	ms := make([]driver.Mutation, batch)
	for b.Loop() {
		for i := range ms {
			ms[i] = m.mutation("")
		}
		apply(b, m.f, ms...)
	}
	rate(b, batch)
}

func (m *measure) replaces(b *testing.B, batch int) {
	b.ReportAllocs()
	rs := make([]driver.Replacement, batch)
	ms := make([]driver.Mutation, batch)
	for b.Loop() {
		b.StopTimer()
		p := m.s.prefix()
		for i := range ms {
			ms[i] = m.mutation(p)
		}
		apply(b, m.f, ms...)
		r := within(p)
		r.Cells.Stamps = true
		for i, read := range scan(b, m.f, r) {
			rs[i] = driver.Replacement{Row: read.Key, Seen: read.Cells[0], Puts: m.mutation("").Puts}
		}
		b.StartTimer()
		replace(b, m.f, rs...)
	}
	rate(b, batch)
}

func (m *measure) parallelPuts(b *testing.B) {
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := m.f.Apply(background, row(fmt.Sprintf("%016x", rand.Uint64()), put("v", "some value"))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	rate(b, 1)
}

func (m *measure) gets(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		found, err := m.f.Get(background, m.stock[m.r.IntN(len(m.stock))].Row, driver.Slice{})
		if err != nil || len(found) != 1 {
			b.Fatal(len(found), err)
		}
	}
	rate(b, 1)
}

func (m *measure) scans(b *testing.B, rows int) {
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for row, err := range m.f.Scan(background, driver.Range{Start: fmt.Appendf(nil, "%x", m.r.IntN(12)), Limit: rows}) {
			if err != nil || len(row.Cells) != 1 {
				b.Fatal(len(row.Cells), err)
			}
			n++
		}
		if n != rows {
			b.Fatal(n)
		}
	}
	rate(b, rows)
}

func (m *measure) conditions(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		if !checkAndPut(b, m.f, "counter"+m.s.name, number(i), number(i+1)) {
			b.Fatal("lost an update")
		}
	}
	rate(b, 1)
}
