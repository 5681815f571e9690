package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

func partOf(i, n int) inspect.Part { return inspect.Part{Index: i, Of: n} }

// convertParts converts all of n parts in some order, and returns what was done.
func convertParts(ctx context.Context, tbl *Table, n int) (all inspect.ConvertedPart, err error) {
	for _, i := range rand.New(rand.NewPCG(uint64(n), 0)).Perm(n) {
		one, err := tbl.ConvertPart(ctx, partOf(i, n))
		all.Add(one.ConvertStats)
		if all.Done, all.Over = one.Done, one.Over; err != nil {
			return all, err
		}
	}
	return all, nil
}

// verifyParts verifies all of n parts, and returns what they add up to.
func verifyParts(t testing.TB, tbl *Table, n int, opts *VerifyOptions) *inspect.Verification {
	t.Helper()
	all := &inspect.Verification{Faults: map[inspect.FaultKind]int{}}
	parts, err := tbl.Parts(t.Context(), n)
	require.NoError(t, err)
	for _, part := range parts {
		one, err := tbl.VerifyPart(t.Context(), part, opts)
		require.NoError(t, err)
		all.Add(one)
	}
	return all
}

// partedSchemas have rows that databases keep in different ways.
func partedSchemas() map[string]Schema {
	hashed, ordered, tenants, conditional := convertSchema(), convertSchema(), convertSchema(), convertSchema()
	ordered.Key = []KeyPart{OrderedPart("id", Int64, Boldyreva)}
	tenants.Tenants, conditional.Conditional = true, true
	covering := convertSchema()
	covering.Conditional = true
	covering.Columns[1] = covering.Columns[1].Covering()
	return map[string]Schema{"hashed": hashed, "ordered": ordered, "tenants": tenants, "conditional": conditional, "covering": covering}
}

// Parts of any number have each row once, on each database, and what they convert is what Convert does.
func TestConvertParts(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for name, schema := range partedSchemas() {
			if !kind.Runs(name == "tenants" || name == "covering") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				ctx, n := t.Context(), 200
				two := stores(t, kind.Open(t, nil), 2)
				unbound, err := two[0].Create(ctx, schema)
				require.NoError(t, err)
				tables := []*Table{unbound}
				if schema.Tenants {
					tables = openTenants(t, two[0], "t", "alpha", "beta", "gamma")[:2] // one without rows
				}
				var rows []Row
				for i := range n {
					row := convertRow(i)
					row["id"], row["value"] = rand.Int64(), int16(i%7)
					rows = append(rows, row)
				}
				for _, tbl := range tables {
					require.NoError(t, tbl.Put(ctx, rows...))
				}
				n *= len(tables)
				cuts := []int{1, 2, 7, 64, 100, 1 + rand.IntN(200)}
				if kind.Name != "memory" { // each part is a scan, and on Cassandra of all partitions
					cuts = []int{7, 20}
				}
				column := []Column{OrderedColumn("value", Int16, MOPE), DeterministicColumn("value", Int16)}
				for i, cut := range cuts {
					require.NoError(t, two[1].Alter(ctx, "t", ChangeColumn(column[i%2])))
					all, err := convertParts(ctx, unbound, cut)
					require.NoError(t, err)
					all.Copies = 0 // as many as the rows' own clients have not put
					require.Equal(t, inspect.ConvertedPart{ConvertStats: inspect.ConvertStats{Rows: n, Converted: n}, Done: cut, Over: true}, all)
					for _, tbl := range tables {
						require.Empty(t, oldRows(t, tbl))
						_, by := answer(t, tbl, Field[int16]("value").Equal(3))
						require.Equal(t, "value", by)
						status, err := tbl.Status(ctx)
						require.NoError(t, err)
						require.Equal(t, inspect.ConvertStatus{Version: status.Latest, Latest: status.Latest, Done: sweepParts, Total: sweepParts}, status)
					}
					// Once it is over nothing is read again, whatever it is cut into.
					for _, again := range []int{cut, cut + 1} {
						all, err := convertParts(ctx, unbound, again)
						require.NoError(t, err)
						require.Equal(t, inspect.ConvertedPart{Done: again, Over: true}, all)
					}
					whole, err := unbound.Verify(ctx, nil)
					require.NoError(t, err)
					require.Equal(t, n, whole.Rows)
					require.Empty(t, whole.Faults)
					require.Zero(t, whole.Dangling)
					require.Equal(t, whole, verifyParts(t, unbound, cut, nil))
				}
				stats, err := unbound.Convert(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, inspect.ConvertStats{Rows: n}, stats, "it found all as it is to be")
			})
		}
	})
}

// Two that cut a table differently convert it at the same time, while others write, and one of them is stopped again and again. What
// both read twice is what their parts share at the edges, and what was stopped.
func TestPartsCutDifferently(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, n := t.Context(), 2000
		clients := stores(t, kind.Open(t, nil), 3)
		tbl, err := clients[0].Create(ctx, convertSchema())
		require.NoError(t, err)
		row := func(i int) Row {
			row := convertRow(i)
			row["value"] = int16(i % 7)
			return row
		}
		var rows []Row
		for i := range n {
			rows = append(rows, row(i))
		}
		require.NoError(t, tbl.Put(ctx, rows...))
		require.NoError(t, clients[1].Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
		var group sync.WaitGroup
		var over atomic.Bool
		put := 0
		group.Go(func() {
			for !over.Load() {
				if err := tbl.Put(ctx, row(put%n)); err != nil {
					t.Error(err)
					return
				}
				put++
			}
		})
		var running sync.WaitGroup
		read := make([]int, 2)
		for i, cut := range []int{7, 100} {
			runner, err := clients[1+i].Table(ctx, "t")
			require.NoError(t, err)
			running.Go(func() {
				for part := range cut {
					if cut == 100 && part%10 == 5 { // it is stopped in the middle of this part, and tries it again
						ctx, cancel := context.WithCancel(ctx)
						cancel()
						if _, err := runner.ConvertPart(ctx, partOf(part, cut)); !errors.Is(err, context.Canceled) {
							t.Errorf("a part that was stopped: %v", err)
						}
					}
					one, err := runner.ConvertPart(ctx, partOf(part, cut))
					if err != nil {
						t.Error(err)
						return
					}
					read[i] += one.Rows
				}
			})
		}
		running.Wait()
		over.Store(true)
		group.Wait()
		t.Logf("%d of %d rows read by the one, %d by the other; %d were put", read[0], n, read[1], put)
		require.LessOrEqual(t, max(read[0], read[1]), n)
		require.GreaterOrEqual(t, read[0]+read[1], n)
		require.Empty(t, oldRows(t, tbl))
		status, err := tbl.Status(ctx)
		require.NoError(t, err)
		require.Empty(t, status.Pending)
		require.Equal(t, status.Total, status.Done)
		for v := range int16(7) {
			ids, by := answer(t, tbl, Field[int16]("value").Equal(v))
			require.Equal(t, "value", by)
			require.Len(t, ids, (n-int(v)+6)/7)
		}
		report, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
	})
}

// A runner that dies in the middle of a part repeats this part, and no other. One that cuts the table otherwise repeats what its
// parts share with those that are not done.
func TestPartsGoOn(t *testing.T) {
	ctx, memory := t.Context(), drivertest.NewMemory()
	const n, cut = 3000, 24
	clients := stores(t, memory, 2)
	tbl, err := clients[0].Create(ctx, convertSchema())
	require.NoError(t, err)
	var rows []Row
	for i := range n {
		rows = append(rows, convertRow(i))
	}
	require.NoError(t, tbl.Put(ctx, rows...))
	in := make([]int, cut) // rows of each part
	for i := range in {
		one, err := tbl.VerifyPart(ctx, partOf(i, cut), nil)
		require.NoError(t, err)
		in[i] = one.Rows
	}
	require.NoError(t, clients[0].Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
	const dies = 17
	written := 0
	dying, err := stores(t, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if op.Family != "" && op.Family[0] == 't' && !op.Reads() && op.Method != "Family" {
			if written++; written == dies+1 { // the rows of each part are one request
				return drivertest.CrashAfter
			}
		}
		return drivertest.NoFault
	}), 1)[0].Table(ctx, "t")
	require.NoError(t, err)
	read := 0
	for i := range cut {
		one, err := dying.ConvertPart(ctx, partOf(i, cut))
		if read += one.Rows; err != nil {
			require.ErrorIs(t, err, drivertest.ErrInjected)
			require.Equal(t, dies, i)
			break
		}
	}
	resume, err := clients[1].Table(ctx, "t")
	require.NoError(t, err)
	for i := range cut {
		one, err := resume.ConvertPart(ctx, partOf(i, cut))
		require.NoError(t, err)
		want := in[i]
		if i < dies {
			want = 0
		}
		require.Equal(t, want, one.Rows, "part %d", i)
		require.Equal(t, max(dies, i+1), one.Done)
		require.Equal(t, i == cut-1, one.Over)
		read += one.Rows
	}
	require.LessOrEqual(t, read, n+in[dies])
	require.Empty(t, oldRows(t, resume))

	// With 5 of 7 parts done, 100 parts have 71 that need not be read. With one more Convert has 46 of its own.
	require.NoError(t, clients[0].Alter(ctx, "t", ChangeColumn(DeterministicColumn("value", Int16))))
	for i := range 5 {
		_, err := tbl.ConvertPart(ctx, partOf(i, 7))
		require.NoError(t, err)
	}
	for i := range 71 {
		one, err := tbl.ConvertPart(ctx, partOf(i, 100))
		require.NoError(t, err)
		require.Equal(t, inspect.ConvertedPart{Done: 71}, one)
	}
	one, err := tbl.ConvertPart(ctx, partOf(71, 100))
	require.NoError(t, err)
	require.Positive(t, one.Rows, "the end of this part is not done")
	first := -1
	_, err = resume.Convert(ctx, func(done, total int) {
		if first < 0 {
			first = done
		}
	})
	require.NoError(t, err)
	require.Equal(t, 46, first)
}

// Rows that the schema does not take keep their part from being done, and the conversion from its end.
func TestPartsWithUnfitRows(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{RandomisedColumn("x", Float64)}})
	require.NoError(t, err)
	nan := Row{"id": int64(0), "x": math.NaN()}
	require.NoError(t, tbl.Put(ctx, nan, Row{"id": int64(1), "x": 1.0}))
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("x", Float64, MOPE))))
	for range 2 {
		all, err := convertParts(ctx, tbl, 10)
		require.NoError(t, err)
		require.Equal(t, 1, all.Unfit)
		require.Equal(t, 9, all.Done)
		require.False(t, all.Over)
	}
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(0), "x": 0.0}))
	all, err := convertParts(ctx, tbl, 10)
	require.NoError(t, err)
	require.True(t, all.Over)
}

// A part of a table with tenants is that of each of them. The conversion is over when those of all are.
func TestPartsOfTenants(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	schema := convertSchema()
	schema.Tenants = true
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	tenants := openTenants(t, st, "t", "alpha", "beta", "gamma")
	for _, one := range tenants {
		require.NoError(t, one.Put(ctx, convertRow(1), convertRow(2), convertRow(3)))
	}
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
	one, err := convertParts(ctx, tenants[2], 4)
	require.NoError(t, err)
	require.Equal(t, inspect.ConvertedPart{ConvertStats: inspect.ConvertStats{Rows: 3, Converted: 3}, Done: 4, Over: true}, one)
	first, err := tbl.ConvertPart(ctx, partOf(0, 3))
	require.NoError(t, err)
	require.Equal(t, 1, first.Done)
	require.False(t, first.Over, "others are not converted")
	second, err := convertParts(ctx, tbl, 6)
	require.NoError(t, err)
	require.Equal(t, 6, first.Rows+second.Rows)
	require.Equal(t, 6, second.Done)
	require.True(t, second.Over)
	for _, one := range tenants {
		status, err := one.Status(ctx)
		require.NoError(t, err)
		require.Empty(t, status.Pending)
		require.Equal(t, status.Latest, status.Version)
	}
}

// Postings of columns that the table does not have lie between those of others, and are found by one part.
func TestVerifyPartsBetweenColumns(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(ctx, convertSchema())
	require.NoError(t, err)
	for i := range 100 {
		require.NoError(t, tbl.Put(ctx, convertRow(i)))
	}
	require.NoError(t, st.Alter(ctx, "t", DropColumn("kind")))
	strange := [][]byte{{0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}}
	for _, c := range tbl.now().Stored {
		if c.Posted() {
			strange = append(strange, binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(c.Id[:])-1), binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(c.Id[:])+1))
		}
	}
	for i, id := range strange {
		key := append(id, fmt.Sprintf("%032d", i)...)
		require.NoError(t, tbl.now().Postings.Apply(ctx, driver.Mutation{Row: key, Puts: []driver.Cell{{Value: []byte{}}}}))
	}
	tbl, err = stores(t, st.db.Driver, 1)[0].Table(ctx, "t")
	require.NoError(t, err)
	whole, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 200+len(strange), whole.Postings, "those of the column that was dropped are there")
	require.Positive(t, whole.Faults[inspect.FaultPosting]+whole.Unknown)
	for _, n := range []int{2, 7, 100} {
		require.Equal(t, whole, verifyParts(t, tbl, n, nil))
	}
}

// A table is cut into one part for each 100,000 rows, and into none that there cannot be.
func TestPartsOfTable(t *testing.T) {
	ctx := t.Context()
	tbl, err := stores(t, drivertest.NewMemory(), 1)[0].Create(ctx, convertSchema())
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, convertRow(1)))
	for n, want := range map[int][]inspect.Part{0: {partOf(0, 1)}, 1: {partOf(0, 1)}, 3: {partOf(0, 3), partOf(1, 3), partOf(2, 3)}} {
		parts, err := tbl.Parts(ctx, n)
		require.NoError(t, err)
		require.Equal(t, want, parts)
	}
	parts, err := tbl.Parts(ctx, inspect.MaxParts)
	require.NoError(t, err)
	require.Len(t, parts, inspect.MaxParts)
	for _, n := range []int{-1, inspect.MaxParts + 1} {
		_, err := tbl.Parts(ctx, n)
		require.ErrorIs(t, err, driver.ErrRange)
	}
	for _, part := range []inspect.Part{{}, partOf(0, -1), partOf(-1, 3), partOf(3, 3), partOf(0, inspect.MaxParts+1)} {
		_, err := tbl.ConvertPart(ctx, part)
		require.ErrorIs(t, err, driver.ErrRange, "%v", part)
		report, err := tbl.VerifyPart(ctx, part, nil)
		require.ErrorIs(t, err, driver.ErrRange, "%v", part)
		require.NotNil(t, report, fmt.Sprint(part))
	}
}

// Who begins a round for tenants whose last one is over waits for the end of that once, and not for each of them.
func TestPartOfManyTenantsWaitsOnce(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	schema := convertSchema()
	schema.Tenants = true
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	openTenants(t, st, "t", "alpha", "beta", "gamma", "delta", "epsilon")
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
	waits := 0
	one, err := tbl.ConvertPart(pause.Counting(ctx, func(context.Context, string) { waits++ }), partOf(0, 2))
	require.NoError(t, err)
	require.Equal(t, inspect.ConvertedPart{Done: 1}, one)
	require.Positive(t, waits)
	require.LessOrEqual(t, waits, 9)
}

// Processes that do the last part at the same time end the conversion once: none of them takes the end, which changes the table's
// entry first and then the progress, for a change of the schema, and begins a round that nobody ends.
func TestLastPartByManyAtOnce(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		t.Run(fmt.Sprintf("tenants=%v", tenants), func(t *testing.T) {
			t.Parallel()
			for round := range 25 {
				ctx, memory := t.Context(), drivertest.NewMemory()
				slow := drivertest.NewFaulty(memory, func(drivertest.Op) drivertest.Fault {
					time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
					return drivertest.NoFault
				})
				st := stores(t, memory, 1)[0]
				schema := convertSchema()
				schema.Tenants = tenants
				tbl, err := st.Create(ctx, schema)
				require.NoError(t, err)
				if tenants {
					require.NoError(t, openTenants(t, st, "t", "alpha")[0].Put(ctx, convertRow(1), convertRow(2)))
				} else {
					require.NoError(t, tbl.Put(ctx, convertRow(1), convertRow(2)))
				}
				require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
				_, err = tbl.ConvertPart(ctx, partOf(0, 2))
				require.NoError(t, err)
				var at sync.WaitGroup
				for _, other := range stores(t, slow, 3) {
					at.Go(func() {
						mine, err := other.Table(ctx, "t")
						if err == nil {
							_, err = mine.ConvertPart(ctx, partOf(1, 2))
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				at.Wait()
				again, err := tbl.ConvertPart(ctx, partOf(1, 2))
				require.NoError(t, err)
				require.Equal(t, inspect.ConvertedPart{Done: 2, Over: true}, again, "round %d", round)
			}
		})
	}
}
