package store

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// What follows is about a program that has a store open for a long time.

// A table that is open keeps nothing of how it was before a change: with the keys of before, the values would stay that the
// schemes of before remember.
func TestChangesKeepNoEarlierViews(t *testing.T) {
	ctx := t.Context()
	st, err := Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("a", Int64, Boldyreva), OrderedColumn("b", Int64, Kerschbaum), DeterministicColumn("c", Int64)},
	})
	require.NoError(t, err)
	var earlier []weak.Pointer[rowcodec.View]
	change := func(change func() error) {
		earlier = append(earlier, weak.Make(tbl.now().View))
		require.NoError(t, change())
		require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "a": int64(2), "b": int64(3), "c": int64(4)}))
	}
	for range 3 {
		change(func() error { return st.RotateKeys(ctx, "t") })
		change(func() error { return st.RotateSearchKeys(ctx, "t", "a", "b") })
	}
	require.NoError(t, st.Close(ctx))
	runtime.GC()
	for i, view := range earlier {
		require.True(t, view.Value() == nil, "the view before change %d", i)
	}
	runtime.KeepAlive(tbl)
}

// stillOpen returns which tables are in memory, once what nobody has is gone.
func stillOpen(opened []weak.Pointer[session.Table]) (still []int) {
	runtime.GC()
	for i, was := range opened {
		if was.Value() != nil {
			still = append(still, i)
		}
	}
	return still
}

// A store has open the tables of those tenants that were used lately, and those that the program has: not of all that there are.
func TestTenantsAreNotKeptOpen(t *testing.T) {
	ctx := t.Context()
	st, err := Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	st.db.KeptTenants = 4
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Tenants: true,
		Columns: []Column{OrderedColumn("a", Int64, Boldyreva), PlainColumn("p", Int64)},
	})
	require.NoError(t, err)
	var opened []weak.Pointer[session.Table]
	open := func(i int) *Table {
		name := fmt.Sprint("t", i)
		if i == len(opened) {
			require.NoError(t, st.CreateTenant(ctx, name))
		}
		of, err := tbl.Tenant(ctx, name)
		require.NoError(t, err)
		require.NoError(t, of.Put(ctx, Row{"id": int64(1), "a": int64(i)}))
		if i == len(opened) {
			opened = append(opened, weak.Make(of.open()))
		}
		return of
	}
	held := open(0).Expiring(time.Hour)
	for i := range 20 {
		open(1 + i)
		open(1) // is used all the time
	}
	require.NoError(t, st.Close(ctx))
	still := stillOpen(opened)
	require.Subset(t, still, []int{0, 1, 19, 20})
	require.LessOrEqual(t, len(still), 1+2*4)

	// The one that the program has is another's, too, and learns of changes at once.
	again, err := tbl.Tenant(ctx, "t0")
	require.NoError(t, err)
	require.Same(t, held.now().View.Meta, again.now().View.Meta)
	require.NoError(t, st.Alter(ctx, "t", AddColumn(PlainColumn("q", Int64))))
	require.Len(t, held.Schema().Columns, 3)
	require.Len(t, open(2).Schema().Columns, 3)

	require.NoError(t, st.DropTenant(ctx, "t0"))
	_, err = tbl.Tenant(ctx, "t0")
	require.ErrorIs(t, err, ErrNoTenant)
	runtime.KeepAlive(held)
}

// What looks whether rows of a table are on their way into another one reads the catalogue as often where there are many tables.
func TestDropAndRenameTakeNoRequestForEachTable(t *testing.T) {
	ctx, calls := t.Context(), 0
	db := drivertest.NewFaulty(drivertest.NewMemory(), func(drivertest.Op) drivertest.Fault { calls++; return drivertest.NoFault })
	st, err := Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	made := 0
	requests := func(tables int) int {
		for ; made < tables; made++ {
			_, err := st.Create(ctx, Schema{Name: fmt.Sprint("t", made), Key: []KeyPart{HashedPart("id", Int64)}})
			require.NoError(t, err)
		}
		calls = 0
		require.NoError(t, st.RenameTable(ctx, "t0", "renamed"))
		require.NoError(t, st.RenameTable(ctx, "renamed", "t0"))
		require.NoError(t, st.Drop(ctx, fmt.Sprint("t", tables-1)))
		return calls
	}
	few := requests(2)
	require.Equal(t, few, requests(30))
}

// A store has open the tables that were opened in the last hour, and those that the program has: others may be gone, since other programs
// drop tables, too.
func TestTablesAreNotKeptOpen(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	both := stores(t, db, 2)
	st, other := both[0], both[1]
	st.db.KeptFor = 0
	var opened []weak.Pointer[session.Table]
	open := func(i int) *Table {
		name := fmt.Sprint("t", i)
		if i == len(opened) {
			_, err := other.Create(ctx, Schema{
				Name: name, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("a", Int64, Kerschbaum)},
			})
			require.NoError(t, err)
		}
		tbl, err := st.Table(ctx, name)
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "a": int64(i)}))
		if i == len(opened) {
			opened = append(opened, weak.Make(tbl.open()))
		}
		return tbl
	}
	held := open(0)
	for i := range 8 {
		open(1 + i)
		if i%2 == 0 {
			require.NoError(t, other.Drop(ctx, fmt.Sprint("t", 1+i)))
		}
	}
	require.NoError(t, st.Close(ctx))
	still := stillOpen(opened)
	require.Equal(t, []int{0, 8}, still, "the one that the program has, and the last one")

	// The one that the program has is the same when it is opened again, and learns of changes at once.
	require.Same(t, held.open(), open(0).open())
	require.NoError(t, st.Alter(ctx, "t0", AddColumn(PlainColumn("q", Int64))))
	require.Len(t, held.Schema().Columns, 2)
	require.NoError(t, open(2).Put(ctx, Row{"id": int64(2), "a": int64(7)}))

	st.db.KeptFor = time.Hour
	again := open(4)
	opened[2], opened[4] = weak.Make(open(2).open()), weak.Make(again.open())
	open(len(opened))
	runtime.GC()
	require.NotNil(t, opened[2].Value(), "it was opened lately")
	require.NotNil(t, opened[4].Value())
	runtime.KeepAlive(held)
}

// What a conversion reads does not grow with the search keys that a column had before: their indexes are gone.
func TestConversionsOfManySearchKeys(t *testing.T) {
	ctx, reads := t.Context(), make(map[string]int)
	db := drivertest.NewFaulty(noSnapshots{drivertest.NewMemory(), false}, func(op drivertest.Op) drivertest.Fault {
		reads[op.Method+" "+(op.Family + " ")[:1]]++
		return drivertest.NoFault
	})
	st, err := Open(ctx, db, kms.NewLocal(ope.GenerateKey()), &Options{Concurrency: 1})
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("a", Int64, Kerschbaum), OrderedColumn("b", Int64, WozniakIndexed)},
	})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "a": int64(2), "b": int64(3)}))
	convert := func() map[string]int {
		require.NoError(t, st.RotateSearchKeys(ctx, "t", "a", "b"))
		clear(reads)
		_, err := tbl.Convert(ctx, nil)
		require.NoError(t, err)
		return maps.Clone(reads)
	}
	convert()
	second := convert()
	for range 6 {
		convert()
	}
	last := convert()
	for _, what := range []string{"Family i", "Scan i"} {
		require.Equal(t, second[what], last[what], what)
	}
	require.InDelta(t, second["Get c"], last["Get c"], 6, "of which some depend on what others do at the time")
	use, err := tbl.KeyUse(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, use.Unknown)
}
