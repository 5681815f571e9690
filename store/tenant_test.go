package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func tenantSchema(name string, layout bool, first KeyPart, kind Column) Schema {
	return Schema{
		Name:          name,
		Key:           []KeyPart{first, OrderedPart("at", Int32, Boldyreva)},
		CellPerColumn: layout, Tenants: true,
		Columns: []Column{
			kind, DeterministicColumn("user", String),
			RandomisedColumn("note", String), PlainColumn("zone", String), RandomisedColumn("size", Int64),
		},
	}
}

func plainTenants(layout bool) Schema {
	return tenantSchema("log", layout, HashedPart("id", Int64), OrderedColumn("level", Int16, MOPE))
}

func tenantRow(id int) Row {
	return Row{
		"id": int64(id), "at": int32(id % 5), "level": int16(id % 7), "user": fmt.Sprint("user", id%3),
		"note": fmt.Sprintf("note-%04d-secret", id), "zone": fmt.Sprintf("zone-%04d-secret", id), "size": int64(id),
	}
}

func openTenants(t *testing.T, st *Store, table string, names ...string) []*Table {
	t.Helper()
	unbound, err := st.Table(t.Context(), table)
	require.NoError(t, err)
	tables := make([]*Table, len(names))
	for i, name := range names {
		if err := st.CreateTenant(t.Context(), name); !errors.Is(err, ErrExists) {
			require.NoError(t, err)
		}
		tables[i], err = unbound.Tenant(t.Context(), name)
		require.NoError(t, err)
	}
	return tables
}

// setPolicy sets a policy, and names what it unseals, also where the schema is changed meanwhile.
func setPolicy(ctx context.Context, st *Store, tenant, table string, p Policy) error {
	for unseal := []string(nil); ; {
		err := st.SetPolicy(ctx, tenant, table, p, unseal...)
		var unnamed *UnsealError
		switch {
		case errors.As(err, &unnamed):
			unseal = append(unseal, unnamed.Columns...)
		case errors.Is(err, ErrPolicy) && unseal != nil:
			unseal = nil
		default:
			return err
		}
	}
}

// A policy cannot seal a column that is searched by a scheme which encrypts nothing, and does not say that it does.
func TestPolicyOfWhatIsSearchedInTheClear(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, Schema{
		Name: "t", Tenants: true, Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("level", Int16, Plaintext), OrderedColumn("rank", Int16, MOPE), PlainColumn("note", String)},
	})
	require.NoError(t, err)
	require.NoError(t, st.CreateTenant(ctx, "acme"))
	for range 2 { // the second time it is the first one's policy that is replaced
		err = st.SetPolicy(ctx, "acme", "t", Policy{Sensitive: []string{"note", "level"}})
		require.ErrorIs(t, err, ErrPolicy)
		require.ErrorContains(t, err, `"level" has a scheme that encrypts nothing`)
		require.NoError(t, st.SetPolicy(ctx, "acme", "t", Policy{Sensitive: []string{"note", "rank"}}))
	}
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int16, MOPE))))
	require.NoError(t, st.SetPolicy(ctx, "acme", "t", Policy{Sensitive: []string{"note", "level"}}))
}

// What was sealed becomes plain only if it is named, whatever way it would.
func TestUnsealByName(t *testing.T) {
	ctx := t.Context()
	two := stores(t, drivertest.NewMemory(), 2)
	st := two[0]
	_, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tbl := openTenants(t, st, "log", "alpha")[0]
	set := func(p Policy, unseal ...string) error { return st.SetPolicy(ctx, "alpha", "log", p, unseal...) }
	now := func() map[string]string {
		as := map[string]string{}
		_, err := tbl.refresh(ctx)
		require.NoError(t, err)
		for _, c := range tbl.Schema().Columns {
			as[c.Describe().Name] = c.Describe().Encryption
		}
		return as
	}
	refused := func(p Policy, columns []string, unseal ...string) {
		t.Helper()
		before := now()
		err := set(p, unseal...)
		require.ErrorIs(t, err, ErrPolicy)
		var unnamed *UnsealError
		require.ErrorAs(t, err, &unnamed)
		require.Equal(t, columns, unnamed.Columns)
		for _, name := range columns {
			require.ErrorContains(t, err, `"`+name+`"`)
		}
		require.Equal(t, before, now())
	}
	// The first policy, where the schema says that columns are sealed.
	refused(Policy{}, []string{"note", "size"})
	refused(Policy{Sensitive: []string{"zone", "size"}}, []string{"note"})
	require.NoError(t, set(Policy{Sensitive: []string{"zone", "note", "size"}}))
	// A shorter list, and none.
	refused(Policy{Sensitive: []string{"zone"}}, []string{"note", "size"})
	refused(Policy{}, []string{"note", "zone", "size"})
	refused(Policy{}, []string{"zone"}, "note", "size")
	for range 2 { // again, as after an unknown outcome
		require.NoError(t, set(Policy{Sensitive: []string{"zone"}}, "note", "size"))
	}
	require.Equal(t, map[string]string{"note": "plain", "zone": "randomised", "size": "plain", "level": "ordered", "user": "deterministic"}, now())
	// All columns, and then some.
	require.NoError(t, set(Policy{Whole: true}))
	refused(Policy{Sensitive: []string{"note"}}, []string{"zone", "size"})
	// What is renamed, changed or added is another name, and no less sealed.
	require.NoError(t, st.Alter(ctx, "log", RenameColumn("note", "text"), ChangeColumn(DeterministicColumn("zone", String)), AddColumn(RandomisedColumn("more", String))))
	refused(Policy{}, []string{"text", "size", "more"})
	require.NoError(t, set(Policy{Sensitive: []string{"text", "size", "zone", "more"}}))
	require.NoError(t, st.Alter(ctx, "log", ChangeColumn(RandomisedColumn("zone", String)), AddColumn(RandomisedColumn("last", String))))
	refused(Policy{Sensitive: []string{"text", "more"}}, []string{"zone", "size", "last"})
	refused(Policy{Sensitive: []string{"text", "more"}}, []string{"last"}, "size", "zone")
	// Another client has sealed a column since.
	require.NoError(t, set(Policy{Sensitive: []string{"text", "more"}}, "zone", "size", "last"))
	require.NoError(t, two[1].SetPolicy(ctx, "alpha", "log", Policy{Whole: true}))
	refused(Policy{Sensitive: []string{"more"}}, []string{"zone", "size", "last"}, "text")

	// What makes no sense.
	for _, name := range []string{"text", "user", "id", "at", "none"} {
		err := set(Policy{Sensitive: []string{"text"}}, "zone", "size", "last", "more", name)
		require.ErrorIs(t, err, ErrPolicy)
		require.ErrorContains(t, err, `"`+name+`"`)
		require.NotErrorAs(t, err, new(*UnsealError))
	}
	require.ErrorIs(t, set(Policy{Whole: true}, "zone"), ErrPolicy)
}

// everything is all that a database holds of a table, one cell after the other.
func everything(t *testing.T, tbl *Table) (cells [][]byte) {
	t.Helper()
	for _, family := range []driver.Family{tbl.now().Data, tbl.now().Postings} {
		for row, err := range family.Scan(t.Context(), driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			cells = append(cells, row.Key)
			for _, cell := range row.Cells {
				cells = append(cells, cell.Value)
			}
		}
	}
	return cells
}

func holds(cells [][]byte, b []byte) bool {
	return slices.ContainsFunc(cells, func(cell []byte) bool { return bytes.Contains(cell, b) })
}

// sorted returns the rows of a query, by their keys.
func sorted(t *testing.T, tbl *Table, q Query) []Row {
	t.Helper()
	var rows []Row
	for row, err := range tbl.Query(t.Context(), q) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return int(a["id"].(int64) - b["id"].(int64)) })
	return rows
}

// Each tenant has rows of its own under equal keys, found in any way.
func TestTenants(t *testing.T) {
	for name, schema := range map[string]Schema{
		"hashed":  plainTenants(packed),
		"plain":   tenantSchema("log", cellPerColumn, PlainPart("id", Int64), OrderedColumn("level", Int16, Wozniak)),
		"ordered": tenantSchema("log", packed, OrderedPart("id", Int64, MOPE), OrderedColumn("level", Int16, Kerschbaum)),
		"indexed": tenantSchema("log", cellPerColumn, OrderedPart("id", Int64, WozniakIndexed), OrderedColumn("level", Int16, WozniakIndexed)),
	} {
		t.Run(name, func(t *testing.T) {
			testdb.EachOf(t, name == "ordered", func(t *testing.T, kind testdb.Database) {
				ctx := t.Context()
				st := stores(t, kind.Open(t, nil), 1)[0]
				_, err := st.Create(ctx, schema)
				require.NoError(t, err)
				tables := openTenants(t, st, "log", "alpha", "beta", "gamma")
				var rows [2][]Row
				for i := range 12 {
					rows[0] = append(rows[0], tenantRow(i))
					other := tenantRow(i)
					other["note"] = "of the other"
					rows[1] = append(rows[1], other)
				}
				rows[1] = rows[1][:7]
				for i, tbl := range tables[:2] {
					require.NoError(t, tbl.Put(ctx, rows[i]...))
				}
				for i, tbl := range tables {
					var want []Row
					if i < len(rows) {
						want = rows[i]
					}
					require.Equal(t, want, sorted(t, tbl, Query{}))
					for q, where := range map[string]Predicate{
						"level": Field[int16]("level").Between(2, 5), "user": Field[string]("user").Equal("user1"),
						"id": Field[int64]("id").Equal(3), "note": Field[string]("note").Equal("of the other"),
					} {
						var hits []Row
						for _, row := range want {
							if q == "level" && row["level"].(int16) >= 2 && row["level"].(int16) <= 5 || q == "user" && row["user"] == "user1" ||
								q == "id" && row["id"] == int64(3) || q == "note" && row["note"] == "of the other" {
								hits = append(hits, row)
							}
						}
						require.Equal(t, hits, sorted(t, tbl, Query{Where: where}), q)
					}
					for id := range 12 {
						got, err := tbl.Get(ctx, tenantRow(id))
						require.NoError(t, err)
						if id < len(want) {
							require.Equal(t, want[id], got)
						} else {
							require.Nil(t, got)
						}
					}
					report, err := tbl.Verify(ctx, nil)
					require.NoError(t, err)
					require.Empty(t, report.Faults)
					require.Equal(t, len(want), report.Rows)
				}
				require.NoError(t, tables[1].Delete(ctx, tenantRow(3)))
				got, err := tables[0].Get(ctx, tenantRow(3))
				require.NoError(t, err)
				require.Equal(t, rows[0][3], got)
				page, token, err := tables[0].Page(ctx, Query{Where: Field[int16]("level").AtLeast(0), Limit: 5})
				require.NoError(t, err)
				require.Len(t, page, 5)
				_, _, err = tables[1].Page(ctx, Query{Where: Field[int16]("level").AtLeast(0), Limit: 5, PageToken: token})
				require.ErrorIs(t, err, ErrToken)
				page, _, err = tables[0].Page(ctx, Query{Where: Field[int16]("level").AtLeast(0), Limit: 50, PageToken: token})
				require.NoError(t, err)
				require.Len(t, page, 7)
			})
		})
	}
}

// What stands for a value of one tenant is nothing of what stands for that value of another.
func TestTenantsAreUnrelated(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	_, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tables := openTenants(t, st, "log", "alpha", "beta")
	var found [2][][]byte
	for i, tbl := range tables {
		require.NoError(t, tbl.Put(ctx, tenantRow(1)))
		v := tbl.now()
		r, err := v.Read(ctx, stored(t, tbl, tenantRow(1)).Key, nil)
		require.NoError(t, err)
		found[i] = [][]byte{r.Key[:16], r.Key[16:32], r.Key[32:]}
		for _, search := range r.Search {
			if search != nil {
				found[i] = append(found[i], search)
			}
		}
		require.Len(t, found[i], 5)
	}
	for i := range found[0] {
		require.NotEqual(t, found[0][i], found[1][i])
	}
	// The same tenant has another pseudonym in another table.
	other := plainTenants(packed)
	other.Name = "other"
	_, err = st.Create(ctx, other)
	require.NoError(t, err)
	require.NotEqual(t, tables[0].now().Prefix, openTenants(t, st, "other", "alpha")[0].now().Prefix)
}

func TestTenantsRefuse(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	require.True(t, tbl.Schema().Tenants)
	for name, do := range map[string]func() error{
		"put":     func() error { return tbl.Put(ctx, tenantRow(1)) },
		"update":  func() error { return tbl.Update(ctx, tenantRow(1)) },
		"delete":  func() error { return tbl.Delete(ctx, tenantRow(1)) },
		"get":     func() error { _, err := tbl.Get(ctx, tenantRow(1)); return err },
		"page":    func() error { _, _, err := tbl.Page(ctx, Query{Limit: 1}); return err },
		"explain": func() error { _, err := tbl.Explain(ctx, Query{}); return err },
		"query": func() (failed error) {
			for _, err := range tbl.Query(ctx, Query{}) {
				failed = err
			}
			return failed
		},
		"join": func() (failed error) {
			for _, err := range Join(ctx, tbl, "user", tbl, "user", nil) {
				failed = err
			}
			return failed
		},
		"rotate": func() error { return st.RotateKeys(ctx, "log") },
		"empty":  func() error { return st.CreateTenant(ctx, "") },
		"long":   func() error { return st.CreateTenant(ctx, strings.Repeat("x", 101)) },
		"binary": func() error { return st.CreateTenant(ctx, "\xff") },
	} {
		require.ErrorIs(t, do(), ErrTenant, name)
	}
	require.NoError(t, st.CreateTenant(ctx, strings.Repeat("x", 100)))
	require.NoError(t, st.CreateTenant(ctx, "log"), "tables and tenants have names of their own")
	require.ErrorIs(t, st.CreateTenant(ctx, "log"), ErrExists)
	names, err := st.Tenants(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"log", strings.Repeat("x", 100)}, names)

	_, err = tbl.Tenant(ctx, "nobody")
	require.ErrorIs(t, err, ErrNoTenant)
	require.ErrorIs(t, st.DropTenant(ctx, "nobody"), ErrNoTenant)
	require.ErrorIs(t, st.RotateTenantKey(ctx, "nobody"), ErrNoTenant)
	require.ErrorIs(t, setPolicy(ctx, st, "nobody", "log", Policy{}), ErrNoTenant)
	_, _, err = st.Policy(ctx, "nobody", "log")
	require.ErrorIs(t, err, ErrNoTenant)
	require.ErrorIs(t, setPolicy(ctx, st, "log", "none", Policy{}), ErrNoTable)
	for _, name := range []string{"id", "at", "missing"} {
		err = setPolicy(ctx, st, "log", "log", Policy{Sensitive: []string{"note", name}})
		require.ErrorIs(t, err, ErrPolicy)
		require.ErrorContains(t, err, `"`+name+`"`)
	}
	ordinary, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	require.ErrorIs(t, setPolicy(ctx, st, "log", "t", Policy{Whole: true}), ErrTenant)
	_, err = ordinary.Tenant(ctx, "log")
	require.ErrorIs(t, err, ErrTenant)
	require.ErrorIs(t, st.Alter(ctx, "t", AddColumn(DeterministicColumn("user", String).SharedWith("log", "user"))), ErrSchema)
}

// A tenant that is dropped cannot be read any more, whoever has its name by then.
func TestDropTenant(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	two := stores(t, db, 2)
	_, err := two[0].Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tables := openTenants(t, two[0], "log", "alpha", "beta")
	elsewhere := openTenants(t, two[1], "log", "alpha")[0]
	for _, tbl := range tables {
		require.NoError(t, tbl.Put(ctx, tenantRow(1)))
	}
	require.NoError(t, two[0].DropTenant(ctx, "alpha"))
	require.Len(t, sorted(t, elsewhere, Query{}), 1, "it has the keys")
	err = elsewhere.Put(ctx, tenantRow(2))
	require.ErrorIs(t, err, ErrNoTenant)
	require.ErrorContains(t, err, "it was dropped since the table was opened for it")
	require.ErrorIs(t, tables[0].Put(ctx, tenantRow(2)), ErrNoTenant)
	require.Len(t, sorted(t, elsewhere, Query{}), 2, "also when it knows, and then with what its Put left")
	require.NoError(t, two[0].CreateTenant(ctx, "alpha"))
	err = elsewhere.Put(ctx, tenantRow(2))
	require.ErrorIs(t, err, ErrNoTenant, "the new one is another")
	require.ErrorContains(t, err, "another one has its name by now: open the table for that one")
	again := openTenants(t, two[0], "log", "alpha")[0]
	require.Empty(t, sorted(t, again, Query{}))
	require.Equal(t, []Row{tenantRow(1)}, sorted(t, tables[1], Query{}))
	unbound, err := two[0].Table(ctx, "log")
	require.NoError(t, err)
	stats, err := unbound.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, inspect.ConvertStats{Rows: 1}, stats, "what remains is nobody's")
	_, err = unbound.DeleteOrphans(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, sorted(t, elsewhere, Query{}))
}

// The policy decides about unsearched columns, whatever the schema says, of what is written from then
// on; a row is read under any.
func TestPolicy(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		t.Run(inspect.Layout(layout), func(t *testing.T) {
			ctx := t.Context()
			st := stores(t, drivertest.NewMemory(), 1)[0]
			_, err := st.Create(ctx, plainTenants(layout))
			require.NoError(t, err)
			tables := openTenants(t, st, "log", "alpha", "beta")
			tbl := tables[0]
			_, ok, err := st.Policy(ctx, "alpha", "log")
			require.NoError(t, err)
			require.False(t, ok)
			policies := []Policy{{}, {Sensitive: []string{"note"}}, {Sensitive: []string{"zone", "level"}}, {Whole: true}, {Sensitive: []string{"note", "zone"}}}
			clear := func(id int, column string) bool {
				return holds(everything(t, tbl), []byte(tenantRow(id)[column].(string)))
			}
			require.NoError(t, tbl.Put(ctx, tenantRow(9)))
			require.False(t, clear(9, "note"))
			require.True(t, clear(9, "zone"), "as the schema says")
			for i, p := range policies {
				require.NoError(t, setPolicy(ctx, st, "alpha", "log", p))
				got, ok, err := st.Policy(ctx, "alpha", "log")
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, p.Whole, got.Whole)
				require.ElementsMatch(t, p.Sensitive, got.Sensitive)
				require.NoError(t, tbl.Put(ctx, tenantRow(10+i)))
				for _, column := range []string{"note", "zone"} {
					require.Equal(t, !p.Whole && !slices.Contains(p.Sensitive, column), clear(10+i, column), "%v %s", p, column)
				}
				require.False(t, clear(10+i, "user"))
			}
			require.NoError(t, tables[1].Put(ctx, tenantRow(20)))
			require.False(t, clear(20, "note"))
			require.True(t, clear(20, "zone"), "of the other tenant nothing was said")
			want := []Row{tenantRow(9), tenantRow(10), tenantRow(11), tenantRow(12), tenantRow(13), tenantRow(14)}
			require.Equal(t, want, sorted(t, tbl, Query{}))

			// By id: a rename changes nothing, a change of encryption or a new column opens nothing.
			require.NoError(t, st.Alter(ctx, "log", RenameColumn("note", "text"), AddColumn(RandomisedColumn("note", String)),
				ChangeColumn(DeterministicColumn("zone", String))))
			require.NoError(t, st.Alter(ctx, "log", ChangeColumn(RandomisedColumn("zone", String)), DropColumn("size")))
			row := tenantRow(30)
			row["text"] = strings.Replace(row["note"].(string), "note", "text", 1)
			delete(row, "size")
			require.NoError(t, tbl.Put(ctx, row))
			for _, column := range []string{"text", "note", "zone"} {
				require.False(t, holds(everything(t, tbl), []byte(row[column].(string))), column)
			}
			got, _, err := st.Policy(ctx, "alpha", "log")
			require.NoError(t, err)
			require.Equal(t, []string{"text", "zone"}, got.Sensitive)
			require.ErrorIs(t, setPolicy(ctx, st, "alpha", "log", Policy{Sensitive: []string{"size"}}), ErrPolicy)
			read, err := tbl.Get(ctx, row)
			require.NoError(t, err)
			require.Equal(t, row, read)
		})
	}
}

// A writer that does not know of a policy writes under it all the same before it is acknowledged.
func TestPolicyReachesWriters(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	two := stores(t, db, 2)
	_, err := two[0].Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tbl := openTenants(t, two[0], "log", "alpha")[0]
	stale := openTenants(t, two[1], "log", "alpha")[0]
	require.NoError(t, setPolicy(ctx, two[0], "alpha", "log", Policy{Whole: true}))
	require.NoError(t, stale.Put(ctx, tenantRow(1)))
	require.False(t, holds(everything(t, tbl), []byte(tenantRow(1)["zone"].(string))))
	require.Equal(t, []Row{tenantRow(1)}, sorted(t, stale, Query{}))

	// A new key reaches who has none.
	require.NoError(t, two[0].RotateTenantKey(ctx, "alpha"))
	require.NoError(t, tbl.Put(ctx, tenantRow(2)))
	require.Equal(t, []Row{tenantRow(1), tenantRow(2)}, sorted(t, stale, Query{}))
	require.NoError(t, two[0].RotateTenantKey(ctx, "alpha"))
	require.NoError(t, tbl.Put(ctx, tenantRow(2)))
	require.NoError(t, stale.Put(ctx, tenantRow(2)))
	stats, err := tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, inspect.ConvertStats{Rows: 2, Converted: 1}, stats)
	for row, err := range tbl.now().Data.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		require.True(t, tbl.now().KeySealer.Newest(row.Cells[0].Value))
	}
	require.Equal(t, []Row{tenantRow(1), tenantRow(2)}, sorted(t, tbl, Query{}))
}

// A writer that knows of no policy, and dies before it looks, leaves the cells of columns that are plain
// since: its row is read without them, by all, and a conversion removes them.
func TestPolicyAfterWhichWritersDie(t *testing.T) {
	ctx, memory := t.Context(), drivertest.NewMemory()
	other := stores(t, memory, 1)[0]
	_, err := other.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tbl := openTenants(t, other, "log", "alpha")[0]
	dying := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if op.Method == "Apply" && op.Family[0] == 't' {
			return drivertest.CrashAfter
		}
		return drivertest.NoFault
	})
	stale := openTenants(t, stores(t, dying, 1)[0], "log", "alpha")[0]
	require.NoError(t, setPolicy(ctx, other, "alpha", "log", Policy{}))
	require.NoError(t, tbl.Put(ctx, tenantRow(1)))
	row := tenantRow(1)
	for _, name := range []string{"note", "zone", "size"} {
		delete(row, name)
	}
	require.ErrorIs(t, stale.Put(ctx, row), drivertest.ErrInjected)
	check := func() {
		t.Helper()
		tbl := openTenants(t, stores(t, memory, 1)[0], "log", "alpha")[0]
		got, err := tbl.Get(ctx, row)
		require.NoError(t, err)
		require.Equal(t, row, got)
		require.Equal(t, []Row{row}, sorted(t, tbl, Query{}))
		report, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
	}
	check()
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	check()
	for found, err := range tbl.now().Data.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		require.Len(t, found.Cells, 3, "of the key, level and user")
	}
}

// Columns that are plain are read without any key, and Get opens nothing for them.
func TestPlainColumnsTakeNoKey(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	_, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tbl := openTenants(t, st, "log", "alpha")[0]
	require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Sensitive: []string{"note"}}))
	row := tenantRow(1)
	require.NoError(t, tbl.Put(ctx, row))
	keyless, v := *tbl.now(), *tbl.now().View
	v.KeySealer, keyless.View = nil, &v
	key := stored(t, tbl, row).Key
	want, err := keyless.Want([]string{"zone", "size"})
	require.NoError(t, err)
	r, err := bykey.GetClear(ctx, &keyless, key, row, want)
	require.NoError(t, err)
	require.Equal(t, Row{"id": row["id"], "at": row["at"], "zone": row["zone"], "size": row["size"]}, keyless.Row(r, want))
	for _, column := range []string{"note", "level", "user", "id"} {
		want, err := keyless.Want([]string{"zone", column})
		require.NoError(t, err)
		if column == "id" {
			want = make([]bool, len(want)) // of the key alone only the key cell tells whether it is there
		}
		require.Panics(t, func() { _, _ = bykey.GetClear(ctx, &keyless, key, row, want) }, column)
	}
	got, err := tbl.Get(ctx, row, "zone", "size")
	require.NoError(t, err)
	require.Equal(t, keyless.Row(r, want), got)

	// Without any of this package: a cell is format, version, write id and value.
	cells, err := tbl.now().Data.Get(ctx, key, driver.Slice{})
	require.NoError(t, err)
	found := false
	for _, cell := range cells {
		if cell.Value[0] == 1 && string(cell.Value[21:]) == row["zone"] {
			found = true
			require.NotZero(t, binary.BigEndian.Uint32(cell.Value[1:5]))
			require.Equal(t, cells[0].Value[21:37], cell.Value[5:21], "the write id, as in the header of the sealed key cell")
		}
	}
	require.True(t, found)

	// Null, another write, and sealed before: what is there is opened.
	delete(row, "zone")
	require.NoError(t, tbl.Put(ctx, row))
	got, err = tbl.Get(ctx, row, "zone")
	require.NoError(t, err)
	require.NotContains(t, got, "zone")
	require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Whole: true}))
	require.NoError(t, tbl.Put(ctx, tenantRow(2)))
	require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{}))
	got, err = tbl.Get(ctx, tenantRow(2), "zone")
	require.NoError(t, err)
	require.Equal(t, tenantRow(2)["zone"], got["zone"])
	require.NoError(t, tbl.Put(ctx, tenantRow(3)))
	key = stored(t, tbl, tenantRow(3)).Key
	c := tbl.now().ByName["zone"]
	require.NoError(t, tbl.now().Data.Apply(ctx, driver.Mutation{Row: key, Puts: []driver.Cell{
		{Qualifier: c.Id[:], Value: c.Cell(newHeader(), nil, "of another write", nil)},
	}}))
	_, err = tbl.Get(ctx, tenantRow(3), "zone")
	require.ErrorIs(t, err, ErrTorn)
}

// Convert rewrites the rows of one tenant to its policy, and no others.
func TestConvertTenant(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		t.Run(inspect.Layout(layout), func(t *testing.T) {
			testdb.EachOf(t, layout == packed, func(t *testing.T, kind testdb.Database) {
				ctx := t.Context()
				st := stores(t, kind.Open(t, nil), 1)[0]
				unbound, err := st.Create(ctx, plainTenants(layout))
				require.NoError(t, err)
				tables := openTenants(t, st, "log", "alpha", "beta")
				const n = 20
				var rows []Row
				for i := range n {
					rows = append(rows, tenantRow(i))
				}
				for i, name := range []string{"alpha", "beta"} {
					require.NoError(t, setPolicy(ctx, st, name, "log", Policy{}))
					require.NoError(t, tables[i].Put(ctx, rows...))
				}
				require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Whole: true}))
				stats, err := tables[1].Convert(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, inspect.ConvertStats{Rows: n}, stats)
				require.NoError(t, tables[0].Put(ctx, tenantRow(3)))
				stats, err = tables[0].Convert(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, inspect.ConvertStats{Rows: n, Converted: n - 1}, stats)
				status, err := tables[0].Status(ctx)
				require.NoError(t, err)
				require.Equal(t, [2]int{sweepParts, sweepParts}, [2]int{status.Done, status.Total})
				for row, err := range tables[0].now().Data.Scan(ctx, driver.Range{AnyOrder: true}) {
					require.NoError(t, err)
					of := bytes.HasPrefix(row.Key, tables[1].now().Prefix)
					require.NotEqual(t, of, bytes.HasPrefix(row.Key, tables[0].now().Prefix))
					for _, cell := range row.Cells {
						require.True(t, of || cell.Value[0] != rowcodec.PlainFormat, "a cell of a sealed row is in the clear")
					}
				}
				for _, tbl := range tables {
					require.Equal(t, rows, sorted(t, tbl, Query{}))
					report, err := tbl.Verify(ctx, nil)
					require.NoError(t, err)
					require.Empty(t, report.Faults)
				}

				// The schema is for all tenants: each finds its rows by what they are stored as.
				require.NoError(t, st.Alter(ctx, "log", ChangeColumn(OrderedColumn("level", Int16, Wozniak))))
				drives := func(by string) {
					t.Helper()
					for _, tbl := range tables {
						e, err := tbl.Analyze(ctx, Query{Where: Field[int16]("level").Equal(3)})
						require.NoError(t, err)
						require.Equal(t, by, e.Driver)
						require.Equal(t, 3, e.Rows)
					}
				}
				drives("level")
				_, err = tables[0].Convert(ctx, nil)
				require.NoError(t, err)
				drives("level")
				stats, err = unbound.Convert(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, n, stats.Converted)
				drives("level")
				for _, tbl := range tables {
					status, err := tbl.Status(ctx)
					require.NoError(t, err)
					require.Empty(t, status.Pending)
					require.Equal(t, status.Latest, status.Version, "that all are converted changes nothing of how rows are stored")
				}
			})
		})
	}
}

// A policy that comes while the conversion of all tenants ends is still to be followed.
func TestPolicyWhileTenantsConclude(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	unbound, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tables := openTenants(t, st, "log", "alpha", "beta", "gamma")
	require.NoError(t, st.Alter(ctx, "log", ChangeColumn(OrderedColumn("level", Int16, Wozniak))))
	for _, tbl := range tables[:2] {
		_, err := tbl.Convert(ctx, nil)
		require.NoError(t, err)
	}
	was, err := unbound.refresh(ctx)
	require.NoError(t, err)
	require.NoError(t, setPolicy(ctx, st, "beta", "log", Policy{Whole: true}))
	c := &rewrite.Conversion{Table: unbound.open()}
	target, err := c.Conclude(ctx, was)
	require.NoError(t, err)
	now, err := unbound.refresh(ctx)
	require.NoError(t, err)
	require.Equal(t, target, now.Since)
	require.Greater(t, now.Since, was.Since)
	require.NoError(t, c.Carry(ctx, was, now))
	for i, follows := range []bool{true, false, false} {
		status, err := tables[i].Status(ctx)
		require.NoError(t, err)
		require.Equal(t, follows, status.Version == status.Latest, "%+v", status)
	}
}

// Conversions of two tenants, each by two clients, go on while policies change again.
func TestConvertTenantsTogether(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	two := stores(t, db, 2)
	_, err := two[0].Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	names := []string{"alpha", "beta"}
	tables := [][]*Table{openTenants(t, two[0], "log", names...), openTenants(t, two[1], "log", names...)}
	var rows []Row
	for i := range 100 {
		rows = append(rows, tenantRow(i))
	}
	for i, name := range names {
		require.NoError(t, setPolicy(ctx, two[0], name, "log", Policy{}))
		require.NoError(t, tables[0][i].Put(ctx, rows...))
		require.NoError(t, setPolicy(ctx, two[0], name, "log", Policy{Sensitive: []string{"note"}}))
	}
	var group sync.WaitGroup
	errs := make(chan error, 5)
	for client := range tables {
		for of := range names {
			group.Go(func() {
				_, err := tables[client][of].Convert(ctx, nil)
				errs <- err
			})
		}
	}
	group.Go(func() { errs <- setPolicy(ctx, two[1], "alpha", "log", Policy{Whole: true}) })
	group.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	_, err = tables[0][0].Convert(ctx, nil)
	require.NoError(t, err)
	for i := range names {
		require.Equal(t, rows, sorted(t, tables[1][i], Query{}))
		for row, err := range tables[0][i].now().Data.Scan(ctx, tables[0][i].now().Rows(0, 1)) {
			require.NoError(t, err)
			old, err := tables[1][i].now().Outdated(row, new(rowcodec.Scratch))
			require.NoError(t, err)
			require.False(t, old)
		}
	}
}

// A client that dies at any call of a change of tenants leaves it made or not made, and the same call
// makes it.
func TestCrashOfTenantChanges(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctx context.Context, st *Store) error
		made func(t *testing.T, st *Store) bool
	}{
		"create": {func(ctx context.Context, st *Store) error { return st.CreateTenant(ctx, "gamma") },
			func(t *testing.T, st *Store) bool {
				names, err := st.Tenants(t.Context())
				require.NoError(t, err)
				return slices.Contains(names, "gamma")
			}},
		"drop": {func(ctx context.Context, st *Store) error { return st.DropTenant(ctx, "alpha") },
			func(t *testing.T, st *Store) bool {
				names, err := st.Tenants(t.Context())
				require.NoError(t, err)
				return !slices.Contains(names, "alpha")
			}},
		"policy": {func(ctx context.Context, st *Store) error {
			return setPolicy(ctx, st, "alpha", "log", Policy{Whole: true})
		},
			func(t *testing.T, st *Store) bool {
				p, _, err := st.Policy(t.Context(), "alpha", "log")
				require.NoError(t, err)
				return p.Whole
			}},
		"rotate": {func(ctx context.Context, st *Store) error { return st.RotateTenantKey(ctx, "alpha") },
			func(t *testing.T, st *Store) bool {
				return len(rowKeys(t, st)) == 2
			}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []bool{false, true} {
				for n := 1; ; n++ {
					ctx, memory := t.Context(), drivertest.NewMemory()
					st := stores(t, memory, 1)[0]
					_, err := st.Create(ctx, plainTenants(packed))
					require.NoError(t, err)
					tbl := openTenants(t, st, "log", "alpha")[0]
					require.NoError(t, tbl.Put(ctx, tenantRow(1)))
					dying, err := Open(ctx, drivertest.NewFaulty(memory, drivertest.CrashAt(n, after)), kms.NewLocal(testMaster), nil)
					if err == nil {
						err = c.do(ctx, dying)
					}
					fresh := stores(t, memory, 1)[0]
					made := c.made(t, fresh)
					if err == nil {
						require.True(t, made)
						break
					}
					require.ErrorIs(t, err, drivertest.ErrInjected)
					if !made {
						require.NoError(t, c.do(ctx, fresh))
						require.True(t, c.made(t, fresh))
					}
					if name != "drop" {
						require.Equal(t, []Row{tenantRow(1)}, sorted(t, openTenants(t, fresh, "log", "alpha")[0], Query{}))
					}
				}
			}
		})
	}
}

// A change whose answer is lost is recognised as made.
func TestTenantChangesOfUnknownOutcome(t *testing.T) {
	ctx, memory := t.Context(), drivertest.NewMemory()
	faults := 0
	st, err := Open(ctx, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if op.Method == "CheckAndPut" && faults > 0 {
			faults--
			return drivertest.FailAfter
		}
		return drivertest.NoFault
	}), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	_, err = st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	for _, do := range []func() error{
		func() error { return st.CreateTenant(ctx, "alpha") },
		func() error { return st.RotateTenantKey(ctx, "alpha") },
		func() error { return setPolicy(ctx, st, "alpha", "log", Policy{Whole: true}) },
	} {
		faults = 1
		require.NoError(t, do())
		require.Zero(t, faults)
	}
	require.Len(t, rowKeys(t, st), 2)
	faults = 1
	require.NoError(t, st.DropTenant(ctx, "alpha"))
}

// A conversion that dies at any call is gone on with, to the policy that counts by then.
func TestCrashOfTenantConversion(t *testing.T) {
	for _, after := range []bool{false, true} {
		step := sim.Every(5)
		if testing.Short() {
			step = 7
		}
		for n := 1; ; n += step {
			ctx, memory := t.Context(), drivertest.NewMemory()
			st := stores(t, memory, 1)[0]
			_, err := st.Create(ctx, plainTenants(packed))
			require.NoError(t, err)
			tbl := openTenants(t, st, "log", "alpha")[0]
			require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{}))
			rows := []Row{tenantRow(1), tenantRow(2), tenantRow(3)}
			require.NoError(t, tbl.Put(ctx, rows...))
			require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Sensitive: []string{"note"}}))
			dying, err := Open(ctx, drivertest.NewFaulty(memory, drivertest.CrashAt(n, after)), kms.NewLocal(testMaster), nil)
			var of *Table
			if err == nil {
				if of, err = dying.Table(ctx, "log"); err == nil {
					if of, err = of.Tenant(ctx, "alpha"); err == nil {
						_, err = of.Convert(ctx, nil)
					}
				}
			}
			require.Equal(t, rows, sorted(t, tbl, Query{}), "after call %d", n)
			require.NoError(t, tbl.Put(ctx, rows[1]))
			if n%2 == 0 {
				require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Whole: true}))
			}
			_, failed := tbl.Convert(ctx, nil)
			require.NoError(t, failed)
			require.Equal(t, rows, sorted(t, tbl, Query{}), "after call %d", n)
			cells := everything(t, tbl)
			for _, row := range rows {
				require.False(t, holds(cells, []byte(row["note"].(string))), "after call %d", n)
				require.Equal(t, n%2 != 0, holds(cells, []byte(row["zone"].(string))), "after call %d", n)
			}
			if err == nil {
				break
			}
			require.ErrorIs(t, err, drivertest.ErrInjected)
		}
	}
}

// The rows of several tenants are what a map says, whatever the policies were when they were written.
func TestTenantModel(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		steps := 150
		if testing.Short() || kind.Shared() {
			steps = 60
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		clients := stores(t, db, 2)
		layout := []bool{packed, cellPerColumn}[r.IntN(2)]
		schema := plainTenants(layout)
		schema.Conditional = r.IntN(2) == 0
		_, err := clients[0].Create(ctx, schema)
		require.NoError(t, err)
		names := []string{"alpha", "beta", "gamma"}
		tables := [][]*Table{openTenants(t, clients[0], "log", names...), openTenants(t, clients[1], "log", names...)}
		model := make([]map[int64]Row, len(names))
		for i := range model {
			model[i] = make(map[int64]Row)
		}
		for range steps {
			client, of, id := r.IntN(len(clients)), r.IntN(len(names)), int64(r.IntN(12))
			tbl := tables[client][of]
			row := Row{"id": id, "at": int32(0)}
			switch op := r.IntN(10); op {
			case 0, 1, 2:
				update := schema.Conditional && r.IntN(2) == 0
				for name, v := range map[string]any{"level": int16(r.IntN(5)), "user": fmt.Sprint(r.IntN(3)), "note": fmt.Sprint("n", r.IntN(9)), "zone": fmt.Sprint("z", r.IntN(9)), "size": r.Int64N(9)} {
					if r.IntN(4) > 0 {
						row[name] = v
					}
				}
				was, there := model[of][id]
				switch {
				case update && !there:
					require.ErrorIs(t, tbl.Update(ctx, row), ErrNoRow)
				case update:
					require.NoError(t, tbl.Update(ctx, row))
					next := maps.Clone(was)
					maps.Copy(next, row)
					model[of][id] = next
				default:
					require.NoError(t, tbl.Put(ctx, row))
					model[of][id] = row
				}
			case 3:
				require.NoError(t, tbl.Delete(ctx, row))
				delete(model[of], id)
			case 4, 5:
				columns := []string{"note", "zone", "size", "level", "user"}
				r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
				require.NoError(t, setPolicy(ctx, clients[client], names[of], "log", Policy{Whole: r.IntN(4) == 0, Sensitive: columns[:r.IntN(4)]}))
			case 6:
				columns := [][]string{nil, {"zone"}, {"size", "zone"}, {"note"}}[r.IntN(4)]
				got, err := tbl.Get(ctx, row, columns...)
				require.NoError(t, err)
				want := model[of][id]
				if want != nil && columns != nil {
					all := want
					want = Row{"id": id, "at": int32(0)}
					for _, c := range columns {
						if v, ok := all[c]; ok {
							want[c] = v
						}
					}
				}
				require.Equal(t, want, got)
			case 7:
				if r.IntN(3) == 0 {
					require.NoError(t, clients[client].RotateTenantKey(ctx, names[of]))
				}
				stopped, cancel := context.WithCancel(ctx)
				at := r.IntN(3 * sweepParts)
				_, err := tbl.Convert(stopped, func(done, _ int) {
					if done == at {
						cancel()
					}
				})
				cancel()
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
			default:
				level, zone := int16(r.IntN(5)), fmt.Sprint("z", r.IntN(9))
				for i, where := range []Predicate{Field[int16]("level").AtLeast(level), Field[string]("zone").Equal(zone)} {
					var want []Row
					for id := range int64(12) {
						m, ok := model[of][id]
						if ok && (i == 0 && m["level"] != nil && m["level"].(int16) >= level ||
							i == 1 && m["zone"] == zone) {
							want = append(want, m)
						}
					}
					require.Equal(t, want, sorted(t, tbl, Query{Where: where}))
				}
			}
		}
		for client := range tables {
			for of, tbl := range tables[client] {
				_, err := tbl.Convert(ctx, nil)
				require.NoError(t, err)
				require.Len(t, sorted(t, tbl, Query{}), len(model[of]))
				for _, row := range sorted(t, tbl, Query{}) {
					require.Equal(t, model[of][row["id"].(int64)], row)
				}
				report, err := tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.Empty(t, report.Faults)
			}
		}
	})
}

// Whatever of one tenant is put in the place of another's is noticed, or does no harm.
func TestTenantsTamper(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		ctx, db := t.Context(), drivertest.NewMemory()
		st := stores(t, db, 1)[0]
		_, err := st.Create(ctx, plainTenants(layout))
		require.NoError(t, err)
		tables := openTenants(t, st, "log", "alpha", "beta")
		var keys [2][]byte
		var cells [2][]driver.Cell
		for i, tbl := range tables {
			require.NoError(t, tbl.Put(ctx, tenantRow(1)))
			keys[i] = stored(t, tbl, tenantRow(1)).Key
			cells[i], err = tbl.now().Data.Get(ctx, keys[i], driver.Slice{})
			require.NoError(t, err)
		}
		data := tables[0].now().Data
		put := func(row []byte, cells ...driver.Cell) {
			require.NoError(t, data.Apply(ctx, driver.Mutation{Row: row, Puts: cells}))
		}
		for _, cell := range cells[1] {
			put(keys[0], cell)
			_, err := tables[0].Get(ctx, tenantRow(1))
			require.Error(t, err)
			require.True(t, errors.Is(err, ErrWrongKey) || errors.Is(err, ErrTampered) || errors.Is(err, ErrTorn), "%v", err)
			put(keys[0], cells[0]...)
		}
		put(keys[0], cells[1]...) // the whole row
		_, err = tables[0].Get(ctx, tenantRow(1))
		require.ErrorIs(t, err, ErrWrongKey)
		put(keys[0], cells[0]...)
		put(append(bytes.Clone(tables[0].now().Prefix), keys[1][16:]...), cells[1]...) // the row behind the other's token
		for _, err = range tables[0].Query(ctx, Query{}) {
			if err != nil {
				break
			}
		}
		require.ErrorIs(t, err, ErrWrongKey)
		require.NoError(t, data.Apply(ctx, driver.Mutation{Row: append(bytes.Clone(tables[0].now().Prefix), keys[1][16:]...), DeleteRow: true}))

		// Postings that lead to the other's row.
		c := tables[0].now().ByName["user"]
		r := stored(t, tables[0], tenantRow(1))
		posting := slices.Concat(c.Lead, r.Search[c.Position], keys[1], r.Write[:])
		require.NoError(t, tables[0].now().Postings.Apply(ctx, driver.Mutation{Row: posting, Puts: []driver.Cell{rowcodec.PostingCell}}))
		for _, err = range tables[0].Query(ctx, Query{Where: Field[string]("user").Equal("user1")}) {
			if err != nil {
				break
			}
		}
		require.ErrorIs(t, err, ErrWrongKey)

		// The record of the one in the place of the other's.
		catalogue := st.db.Catalogue
		record, err := catalogue.Family.Get(ctx, catalogueRow, driver.Slice{Only: [][]byte{catalogue.TenantQualifier("beta")}})
		require.NoError(t, err)
		require.NoError(t, catalogue.Family.Apply(ctx, driver.Mutation{Row: catalogueRow, Puts: []driver.Cell{
			{Qualifier: catalogue.TenantQualifier("alpha"), Value: record[0].Value},
		}}))
		fresh := stores(t, db, 1)[0]
		unbound, err := fresh.Table(ctx, "log")
		require.NoError(t, err)
		_, err = unbound.Tenant(ctx, "alpha")
		require.ErrorIs(t, err, ErrTampered)
		require.ErrorIs(t, setPolicy(ctx, fresh, "alpha", "log", Policy{}), ErrTampered)
	}
}

// Neither names nor keys of tenants nor what their policies seal are to be found in the database.
func TestTenantCanary(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	const name = "a-tenant-that-nobody-knows"
	tbl := openTenants(t, st, "log", name)[0]
	require.NoError(t, setPolicy(ctx, st, name, "log", Policy{}))
	row := tenantRow(1)
	require.NoError(t, tbl.Put(ctx, row))
	names, err := db.Families(ctx)
	require.NoError(t, err)
	all := func() (found [][]byte) {
		for _, name := range names {
			spec := driver.FamilySpec{Name: name, Layout: driver.LayoutWide}
			switch name {
			case tbl.now().Spec.Name:
				spec = tbl.now().Spec
			case tbl.now().PostingSpec.Name:
				spec = tbl.now().PostingSpec
			}
			family, err := db.Family(ctx, spec)
			require.NoError(t, err)
			for row, err := range family.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				found = append(found, row.Key)
				for _, cell := range row.Cells {
					found = append(found, cell.Qualifier, cell.Value)
				}
			}
		}
		return found
	}
	require.True(t, holds(all(), []byte(row["note"].(string))), "the policy lets it be seen")
	require.NoError(t, setPolicy(ctx, st, name, "log", Policy{Sensitive: []string{"note", "zone"}}))
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	_, tenant, _, err := st.db.Catalogue.LookUp(ctx, "log", name)
	require.NoError(t, err)
	k, err := st.db.Keys.OfTenant(st.db.Keys.Table(tbl.open().ID()), tenant)
	require.NoError(t, err)
	found := all()
	for what, secret := range map[string][]byte{
		"name": []byte(name), "id": tenant.ID[:], "note": []byte(row["note"].(string)), "zone": []byte(row["zone"].(string)), "user": []byte("user1"),
		"key": k.Tenant.First.Secret(), "row key": k.Tenant.Derive(k.Tenant.First, purposeRow, columnRef{Table: tbl.open().ID()}).Secret(),
	} {
		require.False(t, holds(found, secret), what)
	}
}

// A table that is not open for a tenant is verified for all of them, and its cells are counted by
// their keys; what dropped tenants left is counted apart.
func TestVerifyTenants(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		t.Run(inspect.Layout(layout), func(t *testing.T) {
			testdb.EachOf(t, layout == packed, func(t *testing.T, kind testdb.Database) {
				ctx := t.Context()
				st := stores(t, kind.Open(t, nil), 1)[0]
				schema := tenantSchema("log", layout, HashedPart("id", Int64), OrderedColumn("level", Int16, Kerschbaum))
				unbound, err := st.Create(ctx, schema)
				require.NoError(t, err)
				names := []string{"alpha", "beta", "gamma"}
				tables := openTenants(t, st, "log", names...)
				var rows []Row
				for i := range 10 {
					rows = append(rows, tenantRow(i))
				}
				for i, tbl := range tables {
					require.NoError(t, tbl.Put(ctx, rows[i:]...))
				}
				require.NoError(t, st.RotateTenantKey(ctx, "beta"))
				require.NoError(t, tables[1].Put(ctx, rows[:4]...)) // 10 rows, 4 of them under the new key
				steps := make(map[string]int)
				verify := func(opts VerifyOptions) (*inspect.Verification, []inspect.Fault) {
					t.Helper()
					var faults []inspect.Fault
					opts.Fault = func(f inspect.Fault) { faults = append(faults, f) }
					opts.Progress = func(step string, done int) { steps[step] = done }
					report, err := unbound.Verify(ctx, &opts)
					require.NoError(t, err)
					return report, faults
				}
				report, faults := verify(VerifyOptions{})
				require.Empty(t, faults)
				require.True(t, report.Sound())
				require.Equal(t, [3]int{10 + 10 + 8, 2 * 28, 0}, [3]int{report.Rows, report.Postings, report.Orphans + report.OrphanPostings})
				require.Equal(t, []inspect.Index{
					{Tenant: "alpha", Column: "level", Values: 7, Version: report.Indexes[0].Version},
					{Tenant: "beta", Column: "level", Values: 7, Version: report.Indexes[1].Version},
					{Tenant: "gamma", Column: "level", Values: 7, Version: report.Indexes[2].Version},
				}, report.Indexes)
				require.Equal(t, 3*28, steps["orphans"])
				all := report.Cells
				use, err := unbound.KeyUse(ctx, nil)
				require.NoError(t, err)
				cells := map[string][]int{} // of key cells
				sealed := 0
				for _, k := range use.Keys {
					sealed += k.Cells
					if k.Column == "" {
						require.Equal(t, len(cells[k.Tenant]) == 0, k.Newest)
						cells[k.Tenant] = append(cells[k.Tenant], k.Cells)
					}
				}
				require.Equal(t, map[string][]int{"alpha": {10}, "beta": {4, 6}, "gamma": {8}}, cells)
				require.Equal(t, inspect.KeyUse{Keys: use.Keys, Search: use.Search, Plain: 28, Catalogue: 1}, use)
				postings, records := map[string]int{}, map[string]int{} // of a column
				for _, k := range use.Search {
					if k.Column == "level" {
						postings[k.Tenant], records[k.Tenant] = k.Entries, k.Records
					}
				}
				require.Equal(t, map[string]int{"alpha": 10, "beta": 10, "gamma": 8}, postings)
				for _, name := range []string{"alpha", "beta", "gamma"} {
					require.GreaterOrEqual(t, records[name], 7, "of each value there is one, and some are of the index itself")
				}
				require.Equal(t, all, sealed+use.Plain)
				one, err := tables[1].KeyUse(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, slices.DeleteFunc(slices.Clone(use.Keys), func(k inspect.KeyCount) bool { return k.Tenant != "beta" }), one.Keys)

				// Of one tenant a row is damaged and a posting missing, of another a posting points to nothing,
				// as does one of a column that there is not, and a third tenant is dropped.
				damaged := stored(t, tables[0], rows[0]).Key
				require.NoError(t, tables[0].now().Data.Apply(ctx, driver.Mutation{Row: damaged, Puts: []driver.Cell{{Qualifier: rowcodec.KeyQualifier, Value: []byte("?")}}}))
				hide(t, tables[0], rows[1], "user")
				forge(t, tables[1], rows[1], "user")
				foreign := append([]byte("none"), tables[1].now().Prefix...)
				require.NoError(t, tables[1].now().Postings.Apply(ctx, driver.Mutation{Row: foreign, Puts: []driver.Cell{rowcodec.PostingCell}}))
				require.NoError(t, st.DropTenant(ctx, "gamma"))
				report, faults = verify(VerifyOptions{})
				require.False(t, report.Sound())
				require.Equal(t, [2]int{8, 16}, [2]int{report.Orphans, report.OrphanPostings})
				require.Equal(t, 20, report.Rows)
				require.Equal(t, 1, report.Dangling)
				found := map[inspect.FaultKind]string{}
				for _, f := range faults {
					found[f.Kind] = f.Tenant
				}
				require.Equal(t, map[inspect.FaultKind]string{inspect.FaultCell: "alpha", inspect.FaultHidden: "alpha", inspect.FaultPosting: ""}, found)
				report, _ = verify(VerifyOptions{Repair: true, Grace: time.Nanosecond})
				require.Equal(t, [2]int{1, 1}, [2]int{report.Dropped, report.Repaired})
				use, err = unbound.KeyUse(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, all, use.Orphans+use.Plain+use.Unknown+cellsOf(use))
				require.Equal(t, 1, use.Unknown)
				require.Equal(t, 20, use.Plain, "those of the dropped tenant are nobody's")

				// Another tenant of the name does not own them.
				require.NoError(t, st.CreateTenant(ctx, "gamma"))
				again := openTenants(t, st, "log", "gamma")[0]
				require.NoError(t, again.Put(ctx, rows[0]))
				report, _ = verify(VerifyOptions{})
				require.Equal(t, [2]int{8, 21}, [2]int{report.Orphans, report.Rows})
			})
		})
	}
}

// rowKeys returns the ids of the keys that open key cells of a tenant.
func rowKeys(t *testing.T, st *Store) []string {
	ids, err := openTenants(t, st, "log", "alpha")[0].now().KeySealer.IDs()
	require.NoError(t, err)
	return ids
}

func cellsOf(use inspect.KeyUse) (n int) {
	for _, k := range use.Keys {
		n += k.Cells
	}
	return n
}

// Tenants that come and go while a table is verified are neither faults nor orphans.
func TestVerifyWhileTenantsChange(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	two := stores(t, db, 2)
	unbound, err := two[0].Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	for _, tbl := range openTenants(t, two[0], "log", "alpha", "beta") {
		require.NoError(t, tbl.Put(ctx, tenantRow(1)))
	}
	changed := false
	report, err := unbound.Verify(ctx, &VerifyOptions{Progress: func(step string, _ int) {
		if changed {
			return
		}
		changed = true
		require.NoError(t, two[1].DropTenant(ctx, "beta"))
		require.NoError(t, openTenants(t, two[1], "log", "gamma")[0].Put(ctx, tenantRow(1), tenantRow(2)))
		require.NoError(t, two[1].Alter(ctx, "log", AddColumn(DeterministicColumn("more", Int64))))
		row := tenantRow(3)
		row["more"] = int64(1)
		require.NoError(t, openTenants(t, two[1], "log", "alpha")[0].Put(ctx, row))
	}})
	require.NoError(t, err)
	require.True(t, changed)
	require.Empty(t, report.Faults)
	require.Equal(t, [2]int{1, 2}, [2]int{report.Orphans, report.OrphanPostings})
}

// Rows of one tenant are joined, by keys that two tables share; rows of two tenants never, whatever
// keys the columns have.
func TestTenantsJoin(t *testing.T) {
	for name, columns := range map[string][2]Column{
		"shared":        {DeterministicColumn("user", String), DeterministicColumn("name", String).SharedWith("log", "user")},
		"database-wide": {DeterministicColumn("user", String).DatabaseWide(), DeterministicColumn("name", String).DatabaseWide()},
		"stateful":      {OrderedColumn("user", String, WozniakIndexed), OrderedColumn("name", String, WozniakIndexed).SharedWith("log", "user")},
		"mutable":       {OrderedColumn("user", String, Kerschbaum), OrderedColumn("name", String, Kerschbaum).SharedWith("log", "user")},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), drivertest.NewMemory()
			st := stores(t, db, 1)[0]
			_, err := st.Create(ctx, Schema{Name: "log", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{columns[0]}, Tenants: true})
			require.NoError(t, err)
			_, err = st.Create(ctx, Schema{Name: "people", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{columns[1]}, Tenants: true})
			require.NoError(t, err)
			names := []string{"alpha", "beta"}
			logs, people := openTenants(t, st, "log", names...), openTenants(t, st, "people", names...)
			for i := range names {
				for id := range int64(6) {
					require.NoError(t, logs[i].Put(ctx, Row{"id": id, "user": fmt.Sprint("user", id%3)}))
				}
				// Each of the tenants knows other people.
				require.NoError(t, people[i].Put(ctx, Row{"id": int64(0), "name": "user0"}, Row{"id": int64(1), "name": fmt.Sprint("user", i+1)}))
			}
			for i := range names {
				require.ElementsMatch(t, nested(sorted(t, logs[i], Query{}), "user", sorted(t, people[i], Query{}), "name"),
					joined(t, logs[i], "user", people[i], "name", nil))
				require.Len(t, joined(t, logs[i], "user", people[i], "name", nil), 4)
				n := 0
				for _, err := range Join(ctx, logs[i], "user", people[1-i], "name", nil) {
					require.ErrorIs(t, err, ErrColumn)
					require.ErrorContains(t, err, "one tenant")
					n++
				}
				require.Equal(t, 1, n)
			}
			// Nor would the database see anything: what two tenants' postings carry has nothing in common.
			carried := func(tbl *Table, column string) map[string]bool {
				c, all := tbl.now().ByName[column], map[string]bool{}
				for row, err := range tbl.now().Postings.Scan(ctx, chunks.Under(c.Lead)) {
					require.NoError(t, err)
					search, _, _, err := c.CutPosting(row.Key)
					require.NoError(t, err)
					all[string(search)] = true
				}
				return all
			}
			ours := carried(logs[0], "user")
			require.Len(t, ours, 3)
			for search := range carried(people[0], "name") {
				require.True(t, ours[search])
			}
			for _, theirs := range []map[string]bool{carried(logs[1], "user"), carried(people[1], "name")} {
				require.NotEmpty(t, theirs)
				for search := range theirs {
					require.False(t, ours[search])
				}
			}
			_, err = st.Create(ctx, Schema{Name: "none", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{DeterministicColumn("name", String).SharedWith("log", "user")}})
			require.Error(t, err, "a table without tenants shares no key with one that has some")
		})
	}
}

// The rows of tenants are what a map says while calls of the database fail in any way and clients die,
// between changes of policies and keys, conversions, and rows that are converted when they are read. A
// call that failed was made or not; all else is as it was acknowledged.
func TestTenantFaults(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		rounds, steps := sim.Share(4, 2), 150
		if kind.Server || testing.Short() {
			rounds, steps = 1, 50
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var failures, crashes int
		for round := range rounds {
			w := newFaultyTenants(t, kind.Open(t, nil), rand.New(rand.NewPCG(seed, uint64(round))))
			for range steps {
				w.step()
			}
			w.finish()
			failures, crashes = failures+w.failures, crashes+w.crashes
		}
		t.Logf("%d calls failed, %d clients died", failures, crashes)
		if !kind.Server && !testing.Short() {
			require.Greater(t, failures, 20)
			require.Positive(t, crashes)
		}
	})
}

// faultyTenants are tables of tenants, for clients whose calls fail and for one whose calls do not.
type faultyTenants struct {
	t       *testing.T
	r       *rand.Rand
	db      driver.DB
	schema  Schema
	names   []string
	sound   *Store
	unbound *Table
	tables  []*Table // of the sound client
	clients []*faultyTenant
	model   []map[int64]Row

	failures, crashes int
}

type faultyTenant struct {
	st     *Store
	tables []*Table

	mu    sync.Mutex // of what follows
	r     *rand.Rand
	fails bool
	dead  bool
}

func newFaultyTenants(t *testing.T, db driver.DB, r *rand.Rand) *faultyTenants {
	w := &faultyTenants{t: t, r: r, db: db, names: []string{"alpha", "beta"}, clients: make([]*faultyTenant, 2)}
	w.schema = plainTenants([]bool{packed, cellPerColumn}[r.IntN(2)])
	w.schema.Conditional = r.IntN(2) == 0
	w.sound = stores(t, db, 1)[0]
	var err error
	w.unbound, err = w.sound.Create(t.Context(), w.schema)
	require.NoError(t, err)
	w.tables = openTenants(t, w.sound, "log", w.names...)
	for range w.names {
		w.model = append(w.model, make(map[int64]Row))
	}
	for i := range w.clients {
		w.clients[i] = w.client()
	}
	return w
}

func (w *faultyTenants) client() *faultyTenant {
	c := &faultyTenant{r: rand.New(rand.NewPCG(w.r.Uint64(), 0))}
	db := drivertest.NewFaulty(w.db, func(drivertest.Op) drivertest.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case !c.fails || c.r.IntN(60) > 0:
			return drivertest.NoFault
		case c.r.IntN(6) > 0:
			return drivertest.FailBefore + drivertest.Fault(c.r.IntN(int(drivertest.FailLate-drivertest.FailBefore)+1))
		}
		c.dead = true
		return drivertest.CrashBefore + drivertest.Fault(c.r.IntN(2))
	})
	c.st = stores(w.t, db, 1)[0]
	c.tables = openTenants(w.t, c.st, "log", w.names...)
	return c
}

func (c *faultyTenant) failing(fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = fails
}

// step does one call, and finds out what became of it if it failed.
func (w *faultyTenants) step() {
	t, r, ctx := w.t, w.r, w.t.Context()
	at, of, id := r.IntN(len(w.clients)), r.IntN(len(w.names)), int64(r.IntN(8))
	c := w.clients[at]
	tbl, row, was := c.tables[of], Row{"id": id, "at": int32(0)}, w.model[of][id]
	becomes, drops, err := was, false, error(nil)
	c.failing(true)
	switch op := r.IntN(20); op {
	case 0, 1, 2, 3, 4, 5:
		for name, v := range map[string]any{"level": int16(r.IntN(5)), "user": fmt.Sprint(r.IntN(3)), "note": fmt.Sprint("n", r.IntN(9)), "zone": fmt.Sprint("z", r.IntN(9)), "size": r.Int64N(9)} {
			if r.IntN(4) > 0 {
				row[name] = v
			}
		}
		if was != nil && w.schema.Conditional && r.IntN(2) == 0 {
			becomes = maps.Clone(was)
			maps.Copy(becomes, row)
			err = tbl.Update(ctx, row)
		} else {
			becomes = row
			err = tbl.Put(ctx, row)
		}
	case 6:
		becomes, err = nil, tbl.Delete(ctx, row)
	case 7, 8, 9:
		columns := []string{"note", "zone", "size", "level", "user"}
		r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
		err = setPolicy(ctx, c.st, w.names[of], "log", Policy{Whole: r.IntN(4) == 0, Sensitive: columns[:r.IntN(4)]})
	case 10:
		err = c.st.RotateTenantKey(ctx, w.names[of])
	case 11, 12:
		_, err = tbl.Convert(ctx, nil)
	case 13:
		drops, err = true, c.st.DropTenant(ctx, w.names[of])
	case 14, 15, 16:
		var got Row
		if got, err = tbl.Get(ctx, row); err == nil {
			require.Equal(t, was, got)
		}
	default:
		var got []Row
		level := int16(r.IntN(5))
		for hit, failed := range tbl.Query(ctx, Query{Where: []Predicate{{}, Field[int16]("level").AtLeast(level)}[op%2]}) {
			if err = failed; err == nil {
				got = append(got, hit)
			}
		}
		var want []Row
		for id := range int64(8) {
			if m, ok := w.model[of][id]; ok && (op%2 == 0 || m["level"] != nil && m["level"].(int16) >= level) {
				want = append(want, m)
			}
		}
		if err == nil {
			require.ElementsMatch(t, want, got)
		}
	}
	if err != nil {
		require.ErrorIs(t, err, drivertest.ErrInjected)
		w.failures++
	}
	c.settle(t)
	dropped := false
	if drops {
		names, err := w.sound.Tenants(ctx)
		require.NoError(t, err)
		dropped = !slices.Contains(names, w.names[of])
	}
	if c.dead {
		w.crashes++
		w.clients[at] = w.client() // which makes a tenant of a name that is free
	}
	if drops {
		if dropped {
			w.model[of] = make(map[int64]Row)
			w.tables[of] = openTenants(t, w.sound, "log", w.names[of])[0]
			for _, c := range w.clients {
				c.tables[of] = openTenants(t, c.st, "log", w.names[of])[0]
			}
		}
		return
	}
	if err != nil {
		got, err := w.tables[of].Get(ctx, Row{"id": id, "at": int32(0)})
		require.NoError(t, err)
		if !maps.Equal(got, was) {
			require.Equal(t, becomes, got)
		}
		becomes = got
	}
	if becomes != nil {
		w.model[of][id] = becomes
	} else {
		delete(w.model[of], id)
	}
}

// settle lets what is late come, unless the client is dead.
func (c *faultyTenant) settle(t *testing.T) {
	c.failing(false)
	for range 4 {
		_, _ = c.st.Tenants(t.Context())
	}
}

// finish looks at every row.
func (w *faultyTenants) finish() {
	t, ctx := w.t, w.t.Context()
	for of, name := range w.names {
		require.NoError(t, setPolicy(ctx, w.sound, name, "log", Policy{Sensitive: []string{"note"}}))
		_, err := w.tables[of].Convert(ctx, nil)
		require.NoError(t, err)
		require.Empty(t, oldRows(t, w.tables[of]))
		rows := sorted(t, w.tables[of], Query{})
		require.Len(t, rows, len(w.model[of]))
		for _, row := range rows {
			require.Equal(t, w.model[of][row["id"].(int64)], row)
		}
	}
	report, err := w.unbound.Verify(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}

// A table that is open stays so when another client renames it: it can still be opened for tenants, and passes go over all of these.
func TestTenantsOfATableThatWasRenamed(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	list := stores(t, db, 2)
	tbl, err := list[0].Create(ctx, Schema{Name: "t", Tenants: true, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{RandomisedColumn("note", String)}})
	require.NoError(t, err)
	require.NoError(t, list[0].CreateTenant(ctx, "one"))
	other, err := list[1].Table(ctx, "t")
	require.NoError(t, err)
	one, err := other.Tenant(ctx, "one")
	require.NoError(t, err)
	require.NoError(t, one.Put(ctx, Row{"id": 1, "note": "n"}))
	for _, taken := range []bool{false, true} {
		require.NoError(t, list[1].RenameTable(ctx, map[bool]string{false: "t", true: "u"}[taken], map[bool]string{false: "u", true: "v"}[taken]))
		if taken { // by a table without tenants
			_, err := list[1].Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}})
			require.NoError(t, err)
		}
		report, faults := verified(t, tbl, VerifyOptions{})
		require.Empty(t, faults)
		require.Equal(t, 1, report.Rows)
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		one, err := tbl.Tenant(ctx, "one")
		require.NoError(t, err)
		require.Len(t, all(t, one, Query{}), 1)
		_, err = tbl.Tenant(ctx, "two")
		require.ErrorIs(t, err, ErrNoTenant)
	}
	require.NoError(t, list[1].Drop(ctx, "v"))
	_, err = tbl.Tenant(ctx, "one")
	require.ErrorIs(t, err, ErrNoTable)
}
