package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// changeable is a table that one client changes while another verifies it.
type changeable struct {
	db      driver.DB
	key     ope.Key
	st      *Store
	tbl     *Table // as the first client has it, for all tenants
	tenants []string
}

func newChangeable(t *testing.T, tenants bool, rows int) *changeable {
	t.Helper()
	c := &changeable{db: drivertest.NewMemory(), key: ope.GenerateKey(), tenants: []string{""}}
	schema := Schema{Name: "t", Tenants: tenants, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{
		OrderedColumn("a", Int32, MOPE), OrderedColumn("b", Int32, Boldyreva), OrderedColumn("k", Int32, Kerschbaum),
		OrderedColumn("w", Int32, WozniakIndexed),
	}}
	if tenants {
		c.tenants = []string{"one", "two"}
	}
	c.tbl = verifiedTable(t, c.db, c.key, schema)
	c.st = c.tbl.store()
	if tenants {
		for _, name := range c.tenants {
			require.NoError(t, c.st.CreateTenant(t.Context(), name))
		}
	}
	c.put(t, 0, rows)
	return c
}

func (c *changeable) bound(t *testing.T, tbl *Table, tenant string) *Table {
	t.Helper()
	if tenant == "" {
		return tbl
	}
	bound, err := tbl.Tenant(t.Context(), tenant)
	require.NoError(t, err)
	return bound
}

func (c *changeable) put(t *testing.T, from, n int) {
	t.Helper()
	for _, tenant := range c.tenants {
		for i := from; i < from+n; i++ {
			row := Row{"id": int64(i)}
			for _, column := range c.tbl.Schema().Columns {
				row[column.Describe().Name] = int32(i)
			}
			require.NoError(t, c.bound(t, c.tbl, tenant).Put(t.Context(), row))
		}
	}
}

// changes are what the first client may do; then it writes rows, and converts all.
func (c *changeable) changes(t *testing.T) map[string]func() {
	all := map[string]func(){
		"rebuilt": func() {
			require.NoError(t, c.st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("a", Int32, Kerschbaum))))
			for _, column := range []string{"k", "w"} {
				require.NoError(t, c.tbl.RebuildIndex(t.Context(), column, nil))
			}
		},
		"dropped": func() { require.NoError(t, c.st.Alter(t.Context(), "t", DropColumn("a"), DropColumn("b"))) },
		"deterministic": func() {
			require.NoError(t, c.st.Alter(t.Context(), "t", ChangeColumn(DeterministicColumn("a", Int32))))
		},
		"indexes swapped": func() {
			require.NoError(t, c.st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("w", Int32, Kerschbaum)), ChangeColumn(OrderedColumn("k", Int32, WozniakIndexed))))
		},
	}
	for _, scheme := range []string{"boldyreva", "kerschbaum", "wozniak-indexed"} {
		all[scheme] = func() {
			of, err := ParseScheme(scheme)
			require.NoError(t, err)
			require.NoError(t, c.st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("a", Int32, of))))
		}
	}
	for name, change := range all {
		all[name] = func() {
			change()
			c.put(t, 100, 2)
			_, err := c.tbl.Convert(t.Context(), nil)
			require.NoError(t, err)
		}
	}
	return all
}

// second opens the table as another client, before whose calls something is done.
func (c *changeable) second(t *testing.T, before func(drivertest.Op)) *Table {
	t.Helper()
	st, err := Open(t.Context(), drivertest.NewFaulty(c.db, func(op drivertest.Op) drivertest.Fault {
		before(op)
		return drivertest.NoFault
	}), kms.NewLocal(c.key), nil)
	require.NoError(t, err)
	tbl, err := st.Table(t.Context(), "t")
	require.NoError(t, err)
	return tbl
}

// sound fails unless a new client finds nothing wrong, and all rows.
func (c *changeable) sound(t *testing.T, rows int, what string) {
	t.Helper()
	tbl := c.second(t, func(drivertest.Op) {})
	report, faults := verified(t, tbl, VerifyOptions{})
	require.Empty(t, faults, what)
	require.Equal(t, rows*len(c.tenants), report.Rows, what)
	for _, tenant := range c.tenants {
		for _, column := range tbl.Schema().Columns {
			found := 0
			for _, err := range c.bound(t, tbl, tenant).Query(t.Context(), Query{Where: Field[int32](column.Describe().Name).In(0, 1, 2, 100, 101)}) {
				require.NoError(t, err)
				found++
			}
			require.Equal(t, rows, found, "%s: %s", what, column.Describe().Name)
		}
	}
}

// A sound table is sound, whenever its schema is changed and its rows converted: before Verify begins, or right
// before any of its requests.
func TestVerifyBesideChanges(t *testing.T) {
	for name := range newChangeable(t, false, 0).changes(t) {
		for _, tenants := range []bool{false, true} {
			t.Run(fmt.Sprint(name, tenants), func(t *testing.T) {
				t.Parallel()
				came := true
				for n := 0; came; n += sim.Every(11) {
					c := newChangeable(t, tenants, 3)
					change, counting, calls := c.changes(t)[name], false, 0
					came = false
					tbl := c.second(t, func(drivertest.Op) {
						if counting {
							if calls++; calls == n {
								came = true
								change()
							}
						}
					})
					if n == 0 {
						came = true
						change()
					}
					counting = true
					opts := VerifyOptions{Repair: n%2 == 0, Grace: time.Nanosecond}
					report, faults := verified(t, tbl, opts)
					counting = false
					require.Empty(t, faults, "before call %d", n)
					require.Zero(t, report.Repaired)
					if came {
						c.sound(t, 5, fmt.Sprintf("before call %d", n))
					}
				}
			})
		}
	}
}

// What is wrong is found and mended, whenever the schema is changed; and what is mended under a schema that has
// just been changed is in order under the new one.
func TestRepairBesideChanges(t *testing.T) {
	for name := range newChangeable(t, false, 0).changes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came := true
			for n := 0; came; n += sim.Every(7) {
				c := newChangeable(t, false, 3)
				first, second := Row{"id": int64(1)}, Row{"id": int64(2)}
				hide(t, c.tbl, first, "b")
				hide(t, c.tbl, second, "k")
				x, unit := openedIndex(t, c.tbl), ope.Unit(fmt.Sprintf("%x/000000/0000000000000001", c.tbl.now().ByName["k"].Id))
				view, err := x.Read(t.Context(), unit, make([]byte, 16), nil, 0)
				require.NoError(t, err)
				change(t, x, unit, ope.Change{Deletes: [][]byte{view.Records[len(view.Records)-1].Key}})

				alter, counting, calls := c.changes(t)[name], false, 0
				came = false
				tbl := c.second(t, func(drivertest.Op) {
					if counting {
						if calls++; calls == n {
							came = true
							alter()
						}
					}
				})
				if n == 0 {
					came = true
					alter()
				}
				counting = true
				report, faults := verified(t, tbl, repairing)
				counting = false
				require.True(t, report.Sound(), "before call %d: %v", n, faults)
				for _, f := range faults {
					require.Contains(t, []inspect.FaultKind{inspect.FaultHidden, inspect.FaultUnknown}, f.Kind, "before call %d", n)
					require.Contains(t, []string{"b", "k"}, f.Column, "before call %d", n)
				}
				if came {
					c.sound(t, 5, fmt.Sprintf("before call %d", n))
				}
			}
		})
	}
}

// Where the schema changes each time that something is looked at, Verify ends, and says so.
func TestVerifyBesideEndlessChanges(t *testing.T) {
	c := newChangeable(t, false, 3)
	hide(t, c.tbl, Row{"id": int64(1)}, "b")
	ctx, n := context.Background(), 0
	tbl := c.second(t, func(op drivertest.Op) {
		if op.Method == "Get" && op.Family == c.tbl.now().Meta.DataFamily() {
			n++
			require.NoError(t, c.st.Alter(ctx, "t", AddColumn(PlainColumn(fmt.Sprint("new", n), Int32))))
		}
	})
	report, err := tbl.Verify(ctx, &repairing)
	require.ErrorIs(t, err, ErrSchemaChanged)
	require.ErrorContains(t, err, "verify when nobody changes it")
	require.True(t, Retryable(err))
	require.Empty(t, report.Faults)
	require.Equal(t, 2*11, n) // it looks again ten times, and reads the row twice each time
}
