package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// copiesSchema is a table whose rows are only added, of each kind of column that may cover, and one that does not.
func copiesSchema(name string) store.Schema {
	return store.Schema{
		Name: name, AppendOnly: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64), store.TiePart("tie")},
		Columns: []store.Column{
			store.OrderedColumn("i1", store.Int64, store.MOPE).Covering(), store.DeterministicColumn("kind", store.String).Covering(),
			store.OrderedColumn("i2", store.Int64, store.Kerschbaum).Covering(), store.OrderedColumn("text", store.String, store.Boldyreva).Covering(),
			store.OrderedColumn("i3", store.Int64, store.Wozniak), store.OrderedColumn("i4", store.Int64, store.Plaintext).Covering(),
			store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String),
		},
	}
}

// copiesRows returns rows with all columns, and some that lack a few.
func copiesRows(from, to int) []store.Row {
	rows := featureRows(from, to, "i1", "kind", "i2", "text", "i3", "i4", "note", "zone")
	for i := range rows {
		if i%2 == 1 {
			rows[i]["i1"], rows[i]["note"] = nil, nil
		}
	}
	return rows
}

// holds notes what a table holds.
func (h *chronicle) holds(tbl *store.Table, want int) []map[string]string {
	h.t.Helper()
	rows := collect(h.t, tbl, store.Query{})
	require.Len(h.t, rows, want)
	return texts(rows)
}

// addAndDelete puts rows and deletes some, of loads too, with clients that die, and returns how many are there.
func (h *chronicle) addAndDelete(tbl *store.Table, tenant string) (rows int) {
	h.t.Helper()
	name := tbl.Schema().Name
	find := func(id int) store.Row {
		found := collect(h.t, tbl, store.Query{Where: store.Field[int64]("id").Equal(int64(id))})
		require.Len(h.t, found, 1)
		return store.Row{"id": found[0]["id"], "tie": found[0]["tie"]}
	}
	load := copiesRows(20, 23)
	for i := range load {
		load[i]["tie"] = store.LoadTie{byte(i)}
	}
	h.put(tbl, copiesRows(0, 8)...)
	h.put(tbl, load...)
	require.NoError(h.t, tbl.Delete(background, find(0), find(20), find(21)))
	h.put(tbl, load[1])

	// Their postings are pending: of a row that is there, of one that never came, and of one of a load.
	load[0]["tie"] = store.LoadTie{9}
	copying := func(op drivertest.Op) drivertest.Fault {
		if op.Method == "Replace" {
			return drivertest.Lose
		}
		return drivertest.NoFault
	}
	require.NoError(h.t, h.dying(name, tenant, copying).Put(background, copiesRows(8, 9)...))
	require.NoError(h.t, h.dying(name, tenant, copying).Put(background, load[0]))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashBefore)).Put(background, copiesRows(9, 10)...))

	// A deletion says that the row goes: it has copies still; its postings are doubtful; it is gone.
	require.Error(h.t, h.dying(name, tenant, dies(2, drivertest.CrashBefore)).Delete(background, find(1)))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashBefore)).Delete(background, find(2)))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashAfter)).Delete(background, find(3)))
	return 8 - 2 + 2 + 2 // those that went in between, and the loads
}

// copiesDump writes tables whose postings have copies: of both layouts, of a tenant, in the clear, with rows that expire, and
// with schemas that changed.
func copiesDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	h := newChronicleIn(t, drivertest.NewMemoryAt(clock), key, "A database of rows that are only added, with copies in postings, as store wrote it, see docs/format.md.")
	store.SetClock(h.st, clock)

	packed := h.create(copiesSchema("packed"))
	h.dump.Tables["packed"] = h.holds(packed, h.addAndDelete(packed, ""))

	tenants := copiesSchema("of tenants")
	tenants.Tenants = true
	unbound := h.create(tenants)
	h.dump.Tenants[tenants.Name] = make(map[string][]map[string]string)
	for _, name := range []string{"alpha", "beta"} {
		require.NoError(t, h.st.CreateTenant(background, name))
		tbl, err := unbound.Tenant(background, name)
		require.NoError(t, err)
		rows := h.addAndDelete(tbl, name)
		if name == "alpha" {
			require.NoError(t, h.st.RotateTenantKey(background, name))
			require.NoError(t, h.st.SetPolicy(background, name, tenants.Name, store.Policy{Whole: true}))
			h.put(tbl, copiesRows(30, 32)...)
			rows += 2
		}
		h.dump.Tenants[tenants.Name][name] = h.holds(tbl, rows)
	}

	clear := h.create(store.Schema{
		Name: "clear", AppendOnly: true, Key: []store.KeyPart{store.PlainPart("id", store.Int64), store.TiePart("tie")},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.Plaintext).Covering(), store.PlainColumn("note", store.String)},
	})
	h.put(clear, featureRows(0, 3, "i1", "note")...)
	h.dump.Tables["clear"] = h.holds(clear, 3)

	for _, convert := range []bool{false, true} {
		name := map[bool]string{false: "changed", true: "converted"}[convert]
		tbl := h.create(copiesSchema(name))
		h.put(tbl, copiesRows(0, 3)...)
		require.NoError(t, h.st.RotateKeys(background, name))
		h.put(tbl, copiesRows(3, 5)...)
		h.alter(name,
			store.DropColumn("note"), store.AddColumn(store.RandomisedColumn("other", store.String)), store.ChangeColumn(store.DeterministicColumn("kind", store.String)),
			store.ChangeColumn(store.OrderedColumn("i3", store.Int64, store.Wozniak).Covering()),
		)
		h.put(tbl, featureRows(5, 8, "i1", "kind", "i3", "other")...)
		if convert {
			h.convert(tbl)
		}
		h.dump.Tables[name] = h.holds(tbl, 8)
	}

	expiring := copiesSchema("expiring")
	expiring.CellPerColumn, expiring.TTL = cellPerColumn, store.TTLByRow
	tbl := h.create(expiring)
	rows := h.addAndDelete(tbl, "")
	for ttl, id := range map[time.Duration]int{time.Hour: 40, 90 * time.Minute: 41, 5 * time.Hour: 42} {
		require.NoError(t, tbl.Expiring(ttl).Put(background, copiesRows(id, id+1)...))
	}
	now = now.Add(2*time.Hour + time.Minute) // the database has removed some cells of the first
	h.dump.Tables["expiring"] = h.holds(tbl, rows+1)
	h.dump.Now = now.Unix()
	return h.finish()
}

// postingsOf counts the cells in the families of postings by what they are.
func postingsOf(t *testing.T, d dump) map[string]int {
	t.Helper()
	count := make(map[string]int)
	for _, f := range d.Families {
		for _, row := range f.Rows {
			for _, cell := range row.Cells {
				switch {
				case f.Name[0] != 'x':
				case strings.HasPrefix(row.Key, "00000000"):
					require.Equal(t, 16, len(cell[0]))
					require.Empty(t, cell[1])
					count["deletion"]++
				default:
					require.Empty(t, cell[0])
					first := cell[1][:2]
					require.Equal(t, first == "00" || first == "ff", len(cell[1]) == 18)
					count[first]++
				}
			}
		}
	}
	return count
}

// Copies that the first version with copies wrote are read in place of the rows, and what clients left that died is mended.
func TestFirstCopiesStayReadable(t *testing.T) {
	d := golden(t, goldenCopies, copiesDump)
	for _, state := range []string{"00", "01", "02", "ff", "deletion"} { // pending, a copy in the clear, a sealed one, doubtful
		require.Positive(t, postingsOf(t, d)[state], state)
	}
	st := openDump(t, d)
	store.SetClock(st, func() time.Time { return time.Unix(d.Now, 0) })
	for g, schema := range goldenTables(t, d, st) {
		name := g.name
		require.True(t, schema.AppendOnly, name)
		g.check()
		dead := !slices.Contains([]string{"clear", "changed", "converted"}, name)
		copies := func(repaired bool) {
			g.each(func(tbl *store.Table, _ []map[string]string) {
				e, err := tbl.Analyze(background, store.Query{Where: store.Field[int64]("i1").AtLeast(-100)})
				require.NoError(t, err)
				require.Equal(t, "i1", e.Driver)
				require.Equal(t, !dead, e.Requests == e.Intervals, "no row is read, unless a client has died: %s", name)
			})
			report, err := g.open().Verify(background, nil)
			require.NoError(t, err)
			require.Equal(t, dead && !repaired, report.Uncopied > 0, name)
			require.Equal(t, dead && !repaired, report.Dangling > 0, name)
		}
		copies(false)
		g.goOn()
		g.check()
		_, err := g.open().Verify(background, &store.VerifyOptions{Repair: true, Grace: 1})
		require.NoError(t, err)
		copies(true)
		g.convert()
		g.check()
	}
}

// goOn puts rows, also of a load, which has put some of them before, and deletes some.
func (g *goldenTable) goOn() {
	g.t.Helper()
	if !g.open().Schema().Tenants {
		g.dump.Tables[g.name] = g.addAndDelete(g.open())
	}
	for tenant := range g.dump.Tenants[g.name] {
		tbl, err := g.open().Tenant(background, tenant)
		require.NoError(g.t, err)
		g.dump.Tenants[g.name][tenant] = g.addAndDelete(tbl)
	}
}

// addAndDelete does so, and returns what is left.
func (g *goldenTable) addAndDelete(tbl *store.Table) []map[string]string {
	g.t.Helper()
	columns := []string{"i1", "kind", "i2"}
	if g.name == "clear" {
		columns = columns[:1]
	}
	before := collect(g.t, tbl, store.Query{})
	fresh := featureRows(100, 104, columns...)
	fresh[0]["tie"] = store.LoadTie{100}
	require.NoError(g.t, tbl.Put(background, fresh...))
	again := copiesRows(20, 23)[1] // of the load
	again["tie"] = store.LoadTie{1}
	if slices.ContainsFunc(before, func(row store.Row) bool { return row["id"] == int64(21) }) {
		require.NoError(g.t, tbl.Put(background, again), "it is there")
		again["i4"] = int64(99)
		require.ErrorIs(g.t, tbl.Put(background, again), store.ErrRowExists)
	}
	after := collect(g.t, tbl, store.Query{})
	require.Len(g.t, after, len(before)+4)
	goes := func(row store.Row) bool { return row["id"] == int64(101) || row["id"] == int64(4) }
	for _, row := range after {
		if goes(row) {
			require.NoError(g.t, tbl.Delete(background, store.Row{"id": row["id"], "tie": row["tie"]}))
		}
	}
	return texts(slices.DeleteFunc(after, goes))
}

// The write id of a row of a load is as docs/format.md has it.
func TestGoldenWriteIDsOfLoads(t *testing.T) {
	d := readDump(t, goldenCopies)
	found := 0
	for _, f := range d.Families {
		if f.Name[0] != 'x' {
			continue
		}
		table, err := hex.DecodeString(f.Name[1:])
		require.NoError(t, err)
		tie := [16]byte{1}
		sum := sha256.Sum256(append(append([]byte("rangecrypt/1 load write"), table...), tie[:]...))
		for _, row := range f.Rows {
			if strings.HasSuffix(row.Key, hex.EncodeToString(append(tie[:], sum[:16]...))) {
				found++
			}
		}
	}
	require.Positive(t, found)
}

// The independent reader opens copies: it notices one that was changed, and one of another row or column.
func TestIndependentReaderOfCopies(t *testing.T) {
	read := independentReader(t)
	d := readDump(t, goldenCopies)
	file := filepath.Join(t.TempDir(), "dump.json")
	refused := func(what, why string) {
		t.Helper()
		b, err := json.Marshal(d)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, b, 0o600))
		_, err = read(file)
		require.ErrorContains(t, err, why, what)
	}
	tried := 0
	for _, f := range d.Families {
		copies := func(first string) (rows []*rowDump) {
			for i := range f.Rows {
				if f.Name[0] == 'x' && !strings.HasPrefix(f.Rows[i].Key, "00000000") && f.Rows[i].Cells[0][1][:2] == first {
					rows = append(rows, &f.Rows[i])
				}
			}
			return rows
		}
		if sealed := copies("02"); len(sealed) > 1 {
			one, last := &sealed[0].Cells[0][1], sealed[len(sealed)-1].Cells[0][1] // of different columns
			was := *one
			*one = was[:len(was)-1] + map[bool]string{true: "1", false: "0"}[was[len(was)-1] == '0']
			refused("a changed copy", "a tag is wrong")
			if *one = last; tried < 1 {
				refused("another copy", "")
			}
			*one = was
			tried++
		} else if clear := copies("01"); len(clear) > 1 {
			was := clear[0].Cells[0][1]
			clear[0].Cells[0][1] = clear[1].Cells[0][1]
			refused("another copy in the clear", "a copy of another write")
			clear[0].Cells[0][1] = was[:len(was)-1] + map[bool]string{true: "1", false: "0"}[was[len(was)-1] == '0']
			refused("a changed copy in the clear", "a copy is not of its row")
			clear[0].Cells[0][1] = was
			tried++
		}
	}
	require.Equal(t, len(d.Tables)+len(d.Tenants), tried)
}
