package saas

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

func TestSaasEntries(t *testing.T) {
	for _, nodes := range []int{1, saasNodes} {
		synctest.Test(t, func(t *testing.T) { // whose network takes no real time
			cfg := experiment.Config{Seed: 1, Quick: true, Rounds: 1, Database: reprotest.Memory()}
			cfg.Database.DB = intercept.WithLatency(cfg.Database.DB, func() time.Duration { return time.Millisecond })
			r, err := saasEntries(t.Context(), cfg, nodes)
			require.NoError(t, err)
			require.Len(t, r.Curves, len(logKinds)*len(logOperations))
			require.Len(t, r.Table.Rows, len(r.Curves))
			require.Len(t, r.Findings, 9)
			for _, c := range r.Curves {
				require.Len(t, c.Points, entrySteps)
				last := 0.0
				for _, p := range c.Points {
					require.Greater(t, p.Y, last, "times are since the first entry")
					last = p.Y
				}
			}
			reprotest.WellFormed(t, r)
			reprotest.Smaller(t, r)
			require.Equal(t, nodes == saasNodes, slices.Contains(r.Notes, fewerNodes))
			for _, f := range r.Findings {
				require.Equal(t, !strings.HasPrefix(f.Text, "Ferretti"), f.Unclear, f.Text)
			}
			require.NotZero(t, reprotest.Families(t, cfg.Database))
		})
	}
	_, err := saasEntries(reprotest.Ended(), experiment.Config{Quick: true, Database: reprotest.Memory()}, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// Figure 8, and 9 c and d, are of as many nodes as the store names.
func TestSaasNodes(t *testing.T) {
	require.Equal(t, 1, nodesOf("test"))
	require.Equal(t, 1, nodesOf("pebble:a,b,c"))
	require.Equal(t, 1, nodesOf("hbase://zk1,zk2,zk3/n"))
	require.Equal(t, 1, nodesOf("cassandra://a/k"))
	require.Equal(t, 3, nodesOf("cassandra://a,b:9142,c/k?replication=3"))

	cfg := experiment.Config{Seed: 1, Quick: true, Rounds: 1, Database: reprotest.Memory()}
	cfg.Database.Name = "cassandra://a,b,c/k?replication=3"
	synctest.Test(t, func(t *testing.T) { // whose network takes no real time
		r, err := saasEntries(t.Context(), cfg, saasNodes)
		require.NoError(t, err)
		require.NotContains(t, r.Notes, fewerNodes)
	})
	for _, c := range []struct{ name, part, note, finding string }{
		{"cassandra://a/k", "(figure 9 a, b)", "?replication=3", "The paper (9 a)"},
		{"cassandra://a,b/k", "(figure 9 c, d)", "--store names fewer", "The paper (9 c)"},
		{"cassandra://a,b,c/k?replication=3", "(figure 9 c, d)", "", "The paper (9 c)"},
	} {
		synctest.Test(t, func(t *testing.T) { // whose network takes no real time
			cfg := cfg
			cfg.Database = reprotest.Memory()
			cfg.Database.Name = c.name
			r, err := saasAttributes(t.Context(), cfg)
			require.NoError(t, err)
			require.Contains(t, r.Title, c.part)
			require.Contains(t, r.Findings[0].Text, c.finding)
			if c.note == "" {
				require.Len(t, r.Notes, 2, c.name) // how it was measured, and the paper's size
				return
			}
			require.Contains(t, r.Notes[1], c.note, c.name)
		})
	}
}

// Prototype A asks for a row for each encrypted attribute, in turns or at a time. Prototype B asks for
// two rows, and a table of this module for as much, whatever their number.
func TestSaasAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which has the time to look again
		r, err := saasAttributes(context.Background(), experiment.Config{Seed: 1, Quick: true, Rounds: 1, Database: reprotest.Memory()})
		require.NoError(t, err)
		require.Len(t, r.Curves, len(logKinds)*len(logOperations))
		asked, put := make(map[string][2]string), make(map[string]float64)
		reprotest.WellFormed(t, r)
		reprotest.Smaller(t, r)
		for _, row := range r.Table.Rows {
			name := row[0].Text + " " + row[1].Text + " " + row[2].Text
			asked[name] = [2]string{row[5].Text, row[6].Text}
			require.Equal(t, row[1].Text == "insert", row[7].Number != nil, name)
			if row[7].Number != nil {
				put[row[0].Text+" "+row[2].Text] = *row[7].Number
			}
		}
		for _, what := range logOperations {
			require.Equal(t, [2]string{"1", "1"}, asked[plainEntries+" "+what+" 0"])
			for _, n := range []int{1, 3, 10} {
				rows := fmt.Sprint(n + 1)
				require.Equal(t, [2]string{rows, rows}, asked[fmt.Sprint(prototypeA, " ", what, " ", n)])
				require.Equal(t, [2]string{rows, "1"}, asked[fmt.Sprint(prototypeAParallel, " ", what, " ", n)])
				require.Equal(t, [2]string{"2", "2"}, asked[fmt.Sprint(prototypeB, " ", what, " ", n)])
				require.Equal(t, asked[fmt.Sprint(tenantTable, " ", what, " ", 1)], asked[fmt.Sprint(tenantTable, " ", what, " ", n)])
			}
		}
		require.Equal(t, [2]string{"1", "1"}, asked[tenantTable+" read 10"])
		for _, n := range []string{"1", "3", "10"} {
			require.Greater(t, put[tenantTable+" "+n], put[plainEntries+" 0"])
			require.Equal(t, put[prototypeA+" "+n], put[prototypeAParallel+" "+n])
		}
		require.Less(t, put[tenantTable+" 10"], put[tenantTable+" 1"], "what is sealed shares a cell")
		require.Greater(t, put[prototypeA+" 10"], put[prototypeA+" 1"])
		// A cell for each attribute: beside Prototype A's rows, they have their names.
		require.InDelta(t, put[prototypeA+" 1"]+float64(len(entryNames[0])), put[prototypeB+" 1"], 1)
		require.Greater(t, put[prototypeB+" 10"], put[tenantTable+" 10"])
		require.Equal(t, "?????????", reprotest.Marks(r.Findings[:9]))
	})
}

// What a policy names is sealed, and a tenant of another policy is not touched by it.
func TestTenantTableEncrypts(t *testing.T) {
	ctx := context.Background()
	w, all := logs(t, 3)
	for n := range len(entryTenants) {
		e := entryOf(1, n, false)
		require.NoError(t, all[tenantTable].put(ctx, e))
	}
	names, err := w.DB.Families(ctx)
	require.NoError(t, err)
	stored := make(map[string]bool) // values of cells in the clear, after their headers
	rows := 0
	for _, name := range names {
		if name[0] != 't' {
			continue
		}
		f, err := w.DB.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 32})
		require.NoError(t, err)
		for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			rows++
			require.Len(t, row.Cells, 1+entryAttributes-3)
			for n := range len(entryTenants) {
				for i, a := range entryOf(1, n, false).attributes {
					for _, c := range row.Cells {
						if strings.Contains(string(c.Value), a) {
							stored[fmt.Sprint(n, " ", i)] = true
						}
					}
				}
			}
		}
	}
	require.Equal(t, len(entryTenants), rows, "an entry is a row")
	for n := range len(entryTenants) {
		for i := range entryAttributes {
			require.Equal(t, i >= 3, stored[fmt.Sprint(n, " ", i)], "attribute %d", i)
		}
	}
}

// Space on the disk is of the families that a kind has made.
func TestLogDisk(t *testing.T) {
	ctx := context.Background()
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Memory()}
	cfg.Database.Disk = reprotest.DiskInMemory(func(family string) uint64 {
		if f := family[0]; f == 't' || f == 'r' {
			return 600
		}
		return 1 << 40 // what is of no kind would be seen
	})
	all := logTimings([]int{1, 3})
	require.NoError(t, logDisk(ctx, cfg, all))
	require.Len(t, all, 9)
	for _, timing := range all {
		want := 600.0 / diskQuick
		if strings.HasPrefix(timing.kind.name, "Prototype") {
			want *= 2
		}
		require.Equal(t, want, timing.disk, timing.kind.name)
	}
	f := storageFinding(all, 3)
	require.Contains(t, f.Text, "On the disk: plaintext 2, Prototype A 4 (2.00 times), Prototype B 4 (2.00 times), table with tenants 2 (1.00 times).")
}

// logs opens an empty table of each kind.
func logs(t testing.TB, sensitive int) (w *testbed.Workspace, all map[string]logTable) {
	ctx := context.Background()
	w, err := testbed.NewWorkspace(ctx, experiment.Config{Database: reprotest.Memory()})
	require.NoError(t, err)
	all = make(map[string]logTable)
	for i, k := range logKinds {
		name := fmt.Sprint("log", i)
		require.NoError(t, k.make(ctx, w, name, sensitive))
		all[k.name], err = k.open(ctx, w, w.Store, w.DB, name, sensitive)
		require.NoError(t, err)
	}
	return w, all
}

func TestLogTables(t *testing.T) {
	ctx := context.Background()
	for _, sensitive := range []int{1, 3, mostSensitive} {
		_, all := logs(t, sensitive)
		for name, table := range all {
			e, other := entryOf(1, 5, false), entryOf(1, 8, false)
			_, err := table.get(ctx, e.id, e.tenant)
			require.ErrorIs(t, err, errNoEntry, name)
			require.NoError(t, table.put(ctx, e))
			require.NoError(t, table.put(ctx, other))
			got, err := table.get(ctx, e.id, e.tenant)
			require.NoError(t, err, name)
			require.Equal(t, e, got, name)
			_, err = table.get(ctx, e.id, entryTenants[(5+1)%len(entryTenants)])
			require.ErrorIs(t, err, errNoEntry, name)
			updated := entryOf(1, 5, true)
			require.NotEqual(t, e, updated)
			require.NoError(t, table.put(ctx, updated))
			got, err = table.get(ctx, e.id, e.tenant)
			require.NoError(t, err)
			require.Equal(t, updated, got, name)
			require.ErrorIs(t, logOperate(ctx, table, e, 1), exit.ErrWrongAnswer, "not what was inserted")
			require.NoError(t, table.remove(ctx, e.id, e.tenant))
			_, err = table.get(ctx, e.id, e.tenant)
			require.ErrorIs(t, err, errNoEntry, name)
			got, err = table.get(ctx, other.id, other.tenant)
			require.NoError(t, err)
			require.Equal(t, other, got, name)
		}
	}
}

// The state of the practice encrypts, and binds each attribute to its place.
func TestPrototypeAEncrypts(t *testing.T) {
	ctx := context.Background()
	_, all := logs(t, 3)
	p := all[prototypeA].(*prototypeATable)
	e := entryOf(1, 5, false)
	require.NoError(t, p.put(ctx, e))
	rows := 0
	for row, err := range p.encrypted.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		rows++
		for i, a := range e.attributes {
			require.NotContains(t, string(row.Cells[0].Value), a, entryNames[i])
		}
	}
	require.Equal(t, 3, rows)
	cells, err := p.encrypted.Get(ctx, p.row(e.id, e.tenant, 0), driver.Slice{})
	require.NoError(t, err)
	require.NoError(t, p.encrypted.Apply(ctx, driver.Mutation{Row: p.row(e.id, e.tenant, 1), Puts: cells}))
	_, err = p.get(ctx, e.id, e.tenant)
	require.ErrorIs(t, err, seal.ErrTampered)
}

// The paper's own mapping has a partition for an entry's encrypted attributes. Each is a cell of its
// own, which cannot stand for another, and none may be missing.
func TestPrototypeBEncrypts(t *testing.T) {
	ctx := context.Background()
	_, all := logs(t, 3)
	p := all[prototypeB].(prototypeBTable)
	e := entryOf(1, 5, false)
	require.NoError(t, p.put(ctx, e))
	row := p.row(e.id, e.tenant, -1)
	plain, err := p.plain.Get(ctx, row, driver.Slice{})
	require.NoError(t, err)
	require.Len(t, plain, entryAttributes-3)
	cells, err := p.encrypted.Get(ctx, row, driver.Slice{})
	require.NoError(t, err)
	require.Len(t, cells, 3)
	for i, c := range cells {
		require.Equal(t, entryNames[i], string(c.Qualifier))
		for _, a := range e.attributes {
			require.NotContains(t, string(c.Value), a)
		}
		require.NotContains(t, string(row), e.tenant)
	}
	put := func(m driver.Mutation) error {
		m.Row = row
		require.NoError(t, p.encrypted.Apply(ctx, m))
		_, err := p.get(ctx, e.id, e.tenant)
		return err
	}
	require.ErrorIs(t, put(driver.Mutation{Puts: []driver.Cell{{Qualifier: cells[1].Qualifier, Value: cells[0].Value}}}), seal.ErrTampered)
	require.NoError(t, put(driver.Mutation{Puts: cells[1:2]}))
	require.ErrorIs(t, put(driver.Mutation{Deletes: [][]byte{cells[1].Qualifier}}), exit.ErrWrongAnswer)
	other := driver.Cell{Qualifier: []byte(entryNames[3]), Value: cells[1].Value}
	require.ErrorIs(t, put(driver.Mutation{Puts: []driver.Cell{other}}), exit.ErrWrongAnswer)
	require.ErrorIs(t, put(driver.Mutation{DeleteRow: true}), errNoEntry)
}

// madeLogs makes up timings of nine rounds: by kind, the time of an operation with one encrypted attribute,
// what each further one adds, and the last of ten steps beside the first.
func madeLogs(numbers []int, seconds map[string][len(logOperations)]float64, added map[string]float64, growth float64) []*logTiming {
	all := logTimings(numbers)
	for _, t := range all {
		t.bytes = 100
		for operation := range logOperations {
			for round := range 9 {
				first := (seconds[t.kind.name][operation] + float64(max(t.sensitive, 1)-1)*added[t.kind.name]) * (1 + 0.001*float64(round%3))
				steps, sum := make([]float64, entrySteps), 0.0
				for s := range steps {
					sum += first * (1 + (growth-1)*float64(s)/(entrySteps-1))
					steps[s] = sum
				}
				t.seconds[operation] = append(t.seconds[operation], steps)
			}
		}
	}
	return all
}

func TestSaasFindings(t *testing.T) {
	entries := func(seconds map[string][4]float64, growth float64, nodes int) string {
		return reprotest.Marks(saasFindings(madeLogs([]int{entrySensitive}, seconds, nil, growth), nodes))
	}
	// As the paper has it.
	paper := map[string][4]float64{plainEntries: {1, 1, 1, 1}, prototypeA: {1, 3, 3, 3}, prototypeAParallel: {1, 2, 2, 2}, prototypeB: {1, 1, 1, 1}, tenantTable: {1, 1, 1, 1}}
	require.Equal(t, "+++-"+"++++", entries(paper, 2, 1))
	require.Equal(t, "-+-+"+"++++", entries(paper, 1, saasNodes))
	paper[prototypeA] = [4]float64{0.9, 3, 3, 3}
	require.Equal(t, "++-+"+"++++", entries(paper, 1, saasNodes))
	paper[plainEntries] = [4]float64{1, 0.5, 1, 1}
	require.Equal(t, "++-+"+"+++-", entries(paper, 1, saasNodes))
	// The paper's findings are of its own mapping, and others of the table with tenants.
	paper = map[string][4]float64{plainEntries: {1, 1, 1, 1}, prototypeA: {4, 3, 3, 3}, prototypeAParallel: {1, 2, 0.9, 2}, prototypeB: {1, 4, 4, 4}, tenantTable: {1, 1, 1, 1}}
	require.Equal(t, "---+"+"+-++", entries(paper, 1, 1))
	paper[prototypeB], paper[tenantTable] = [4]float64{4, 1, 1, 1}, [4]float64{1, 5, 1, 1}
	require.Equal(t, "++-+"+"----", entries(paper, 1, 1))
}

func TestAttributeFindings(t *testing.T) {
	numbers := []int{1, 2, 10}
	found := func(all []*logTiming, nodes int) string {
		return reprotest.Marks(attributeFindings(all, numbers, 1000, nodes))
	}
	one := map[string][4]float64{plainEntries: {1, 1, 1, 1}, prototypeA: {2, 2, 2, 2}, prototypeAParallel: {1, 1, 1, 1}, prototypeB: {1.5, 1.5, 1.5, 1.5}, tenantTable: {1, 1, 1, 1}}
	all := madeLogs(numbers, one, map[string]float64{prototypeA: 1, prototypeAParallel: 0.1}, 1)
	require.Equal(t, "-++++"+"++++", found(all, 1))
	slope := addedBy(all, prototypeA, numbers, 1, 1000)
	require.InEpsilon(t, 1e6*entrySteps/1000, slope.Mid, 0.01, "ten steps of a second, of a thousand entries")
	require.InDelta(t, 0, addedBy(all, prototypeB, numbers, 1, 1000).Mid, 1e-6)
	require.InDelta(t, 0, addedBy(all, tenantTable, numbers, 1, 1000).Mid, 1e-6)
	all = madeLogs(numbers, one, map[string]float64{tenantTable: 0.5}, 1)
	require.Equal(t, "+-++-"+"--+-", found(all, 1))
	all = madeLogs(numbers, one, map[string]float64{prototypeA: 0.1, prototypeB: 0.5}, 1)
	require.Equal(t, "--"+"---"+"++++", found(all, 1))
	require.Equal(t, "-+"+"---"+"++++", found(all, saasNodes), "a rise is visible that is not rapid")
	for _, nodes := range []int{1, saasNodes} {
		for _, f := range attributeFindings(all, numbers, 1000, nodes) {
			require.NotContains(t, f.Text, "%!")
		}
	}
}

func TestStorageFinding(t *testing.T) {
	all := madeLogs([]int{3}, nil, nil, 1)
	ours := logAt(all, tenantTable, 3)
	ours.bytes = 250
	require.Equal(t, "+", reprotest.Marks([]experiment.Finding{storageFinding(all, 3)}))
	ours.bytes = 251
	require.Equal(t, "-", reprotest.Marks([]experiment.Finding{storageFinding(all, 3)}))
	ours.bytes = 250
	for _, t := range all {
		t.disk = 10
	}
	ours.disk = 26
	require.Equal(t, "-", reprotest.Marks([]experiment.Finding{storageFinding(all, 3)}))
}

// nullLog is entries in memory.
type nullLog map[int64]entry

func (n nullLog) put(_ context.Context, e entry) error { n[e.id] = e; return nil }
func (n nullLog) get(_ context.Context, id int64, _ string) (entry, error) {
	e, ok := n[id]
	if !ok {
		return e, errNoEntry
	}
	return e, nil
}
func (n nullLog) remove(_ context.Context, id int64, _ string) error { delete(n, id); return nil }

// BenchmarkLogHarness measures operations on entries in memory, beside those on rows in the clear in the database in memory, which is
// faster than all that is measured.
func BenchmarkLogHarness(b *testing.B) {
	ctx := context.Background()
	_, all := logs(b, 3)
	tables := []logTable{make(nullLog), all[plainEntries]}
	var seconds [2][len(logOperations)][]float64
	for n := 0; b.Loop(); n += 20 {
		for operation := range logOperations {
			entries := entriesFor(1, n, 20, operation)
			for i, table := range tables {
				start := time.Now()
				for _, e := range entries {
					if err := logOperate(ctx, table, e, operation); err != nil {
						b.Fatal(err)
					}
				}
				seconds[i][operation] = append(seconds[i][operation], time.Since(start).Seconds())
			}
		}
	}
	for operation, what := range logOperations {
		b.ReportMetric(100*experiment.MedianOf(seconds[0][operation]).Mid/experiment.MedianOf(seconds[1][operation]).Mid, what+"-%")
	}
}
