package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// servedColumns are of each kind of column that may have an index of the database, and some that have none.
func servedColumns() []store.Column {
	return []store.Column{
		store.OrderedColumn("i1", store.Int64, store.MOPE).ServerIndex(), store.DeterministicColumn("kind", store.String).ServerIndex(),
		store.OrderedColumn("text", store.String, store.Boldyreva).ServerIndex(), store.OrderedColumn("i3", store.Int64, store.Wozniak).ServerIndex(),
		store.OrderedColumn("i4", store.Int64, store.Plaintext).ServerIndex(), store.OrderedColumn("i2", store.Int64, store.Boldyreva),
		store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String),
	}
}

// servedRows returns rows with all columns, and some that lack a few.
func servedRows(from, to int) []store.Row {
	rows := featureRows(from, to, "i1", "kind", "i2", "text", "i3", "i4", "note", "zone")
	for i := range rows {
		if i%2 == 1 {
			rows[i]["i1"], rows[i]["kind"], rows[i]["note"] = nil, nil, nil
		}
	}
	return rows
}

// servedDump writes tables with indexes of the database: of both layouts, of tenants, in the clear, with rows that expire, and
// with indexes that came and went.
func servedDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	h := newChronicleIn(t, drivertest.NewMemoryAt(clock), key, "A database with indexes of its own in place of postings, as store wrote it, see docs/format.md.")
	store.SetClock(h.st, clock)
	id := []store.KeyPart{store.HashedPart("id", store.Int64)}
	for _, cells := range []bool{false, true} {
		name := map[bool]string{false: "packed", true: "cell per column"}[cells]
		tbl := h.create(store.Schema{Name: name, Key: id, Columns: servedColumns(), CellPerColumn: cells})
		h.put(tbl, servedRows(0, 8)...)
		h.put(tbl, servedRows(1, 5)...) // other values for some
		require.NoError(t, tbl.Delete(background, store.Row{"id": int64(7)}))
		h.dump.Tables[name] = h.holds(tbl, 7)
	}
	tenants := h.create(store.Schema{Name: "of tenants", Tenants: true, Key: id, Columns: servedColumns()})
	h.dump.Tenants["of tenants"] = make(map[string][]map[string]string)
	for _, name := range []string{"alpha", "beta"} {
		require.NoError(t, h.st.CreateTenant(background, name))
		tbl, err := tenants.Tenant(background, name)
		require.NoError(t, err)
		h.put(tbl, servedRows(0, 4)...)
		if name == "alpha" {
			require.NoError(t, h.st.RotateTenantKey(background, name))
			require.NoError(t, h.st.SetPolicy(background, name, "of tenants", store.Policy{Whole: true}))
			h.put(tbl, servedRows(4, 6)...)
		}
		h.dump.Tenants["of tenants"][name] = h.holds(tbl, map[string]int{"alpha": 6, "beta": 4}[name])
	}
	clear := h.create(store.Schema{
		Name: "clear", Key: []store.KeyPart{store.PlainPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.Plaintext).ServerIndex(), store.PlainColumn("note", store.String)},
	})
	h.put(clear, featureRows(0, 3, "i1", "note")...)
	h.dump.Tables["clear"] = h.holds(clear, 3)
	for _, convert := range []bool{false, true} {
		name := map[bool]string{false: "changed", true: "converted"}[convert]
		tbl := h.create(store.Schema{Name: name, Key: id, Columns: servedColumns()})
		h.put(tbl, servedRows(0, 4)...)
		h.alter(name,
			store.ChangeColumn(store.OrderedColumn("i1", store.Int64, store.MOPE)), store.ChangeColumn(store.OrderedColumn("i2", store.Int64, store.Boldyreva).ServerIndex()),
			store.ChangeColumn(store.OrderedColumn("i3", store.Int64, store.Boldyreva).ServerIndex()), store.DropColumn("i4"),
			store.AddColumn(store.OrderedColumn("more", store.Int64, store.MOPE).ServerIndex()),
		)
		h.put(tbl, featureRows(3, 6, "i1", "kind", "i2", "i3")...)
		if convert {
			h.convert(tbl)
		}
		h.dump.Tables[name] = h.holds(tbl, 6)
	}
	expiring := h.create(store.Schema{Name: "expiring", Key: id, Columns: servedColumns(), TTL: store.TTLByRow})
	h.put(expiring, servedRows(0, 3)...)
	for ttl, i := range map[time.Duration]int{time.Hour: 10, 90 * time.Minute: 11, 5 * time.Hour: 12} {
		require.NoError(t, expiring.Expiring(ttl).Put(background, servedRows(i, i+1)...))
	}
	now = now.Add(2*time.Hour + time.Minute) // the database has removed some cells of the first
	h.dump.Tables["expiring"] = h.holds(expiring, 4)
	h.dump.Now = now.Unix()
	return h.finish()
}

// Indexes of the database that the first version with such wrote are read, written and converted.
func TestFirstServerIndexesStayReadable(t *testing.T) {
	d := golden(t, goldenServed, servedDump)
	st := openDump(t, d)
	store.SetClock(st, func() time.Time { return time.Unix(d.Now, 0) })
	look := func(tbl *store.Table, want []map[string]string, name string) {
		t.Helper()
		require.ElementsMatch(t, want, texts(collect(t, tbl, store.Query{})), name)
		for _, converted := range []bool{false, true} {
			for _, c := range tbl.Schema().Columns {
				if !c.Describe().ServerIndex {
					continue
				}
				column := c.Describe().Name
				having := 0
				for _, row := range want {
					if row[column] != "" {
						having++
					}
				}
				where := store.Int64.Field(column).AtLeast(-1 << 63)
				if c.Describe().Type == "string" {
					where = store.String.Field(column).AtLeast("")
				}
				if column == "kind" {
					var values []string
					for _, row := range want {
						values = append(values, row[column])
					}
					where = store.String.Field(column).In(values...)
					having = len(collect(t, tbl, store.Query{Where: store.Not(store.IsNull(column))}))
				}
				e, err := tbl.Analyze(background, store.Query{Where: where})
				require.NoError(t, err)
				require.Equal(t, having, e.Rows, "%s by %s", name, column)
				if converted || name != "changed" {
					require.Equal(t, column, e.Driver, name)
				}
			}
			v, err := tbl.Verify(background, nil)
			require.NoError(t, err)
			require.True(t, v.Sound(), "%s: %v", name, v.Faults)
			_, err = tbl.Convert(background, nil)
			require.NoError(t, err)
		}
	}
	for g := range goldenTables(t, d, st) {
		g.each(func(tbl *store.Table, want []map[string]string) { look(tbl, want, g.name) })
	}
}
