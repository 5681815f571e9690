package store

import (
	"context"
	"crypto/subtle"
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// toFormatNoTree makes the catalogue what a version without the tree would have written.
func toFormatNoTree(t *testing.T, c *catalogue.Catalogue, cells []driver.Cell) (old, nodes []driver.Cell) {
	t.Helper()
	r, err := c.OpenRoot(cells[0].Value)
	require.NoError(t, err)
	r.Format, r.Digest = formatNoTree, digest{}
	for _, cell := range cells[1:] {
		if cell.Qualifier[0] == rootQualifier[0] {
			nodes = append(nodes, driver.Cell{Qualifier: cell.Qualifier})
			continue
		}
		one := c.Mac(cell)
		subtle.XORBytes(r.Digest[:], r.Digest[:], one[:])
		old = append(old, cell)
	}
	return append([]driver.Cell{{Qualifier: rootQualifier, Value: c.SealRoot(r)}}, old...), nodes
}

// A catalogue without the tree is read, its digest is checked where all of it is read, and the first change gives it
// the tree, unless an entry was put back. A new master key alone does not.
func TestCatalogueGetsItsTree(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, alterSchema("a"))
	require.NoError(t, err)
	for i := range 50 {
		require.NoError(t, st.CreateTenant(ctx, fmt.Sprint(i)))
	}
	before, _ := catalogueCells(t, db)
	earlier, _ := toFormatNoTree(t, st.db.Catalogue, before)
	_, err = st.Create(ctx, alterSchema("b"))
	require.NoError(t, err)
	require.NoError(t, st.Alter(ctx, "a", AddColumn(PlainColumn("more", Int8))))
	now, set := catalogueCells(t, db)
	old, nodes := toFormatNoTree(t, st.db.Catalogue, now)
	set(slices.Concat(old, nodes)...)
	format := func() byte {
		cells, _ := catalogueCells(t, db)
		return cells[0].Value[0]
	}
	for _, do := range []func(*Store) error{
		func(st *Store) error { _, err := st.Table(ctx, "a"); return err },
		func(st *Store) error { _, err := st.Tables(ctx); return err },
		func(st *Store) error { _, err := st.Tenants(ctx); return err },
		func(st *Store) error { return st.RotateMaster(ctx, kms.NewLocal(testMaster)) },
	} {
		require.NoError(t, do(stores(t, db, 1)[0]))
		require.EqualValues(t, formatNoTree, format())
	}
	_, err = stores(t, db, 1)[0].Table(ctx, "c")
	require.ErrorIs(t, err, ErrNoTable)

	a := st.db.Catalogue.Qualifier("a")
	set(byQualifier(earlier)[string(a)])
	require.ErrorIs(t, stores(t, db, 1)[0].CreateTenant(ctx, "new"), ErrTampered, "an entry that was put back does not get into the tree")
	require.EqualValues(t, formatNoTree, format())
	set(byQualifier(old)[string(a)])

	require.NoError(t, stores(t, db, 1)[0].CreateTenant(ctx, "new"))
	require.EqualValues(t, catalogueFormat, format())
	tables, err := stores(t, db, 1)[0].Tables(ctx)
	require.NoError(t, err)
	require.Len(t, tables, 2)
	set(byQualifier(earlier)[string(a)])
	_, err = stores(t, db, 1)[0].Table(ctx, "a")
	require.ErrorIs(t, err, ErrTampered)
}

// A metered database counts the bytes that are read from and written to its catalogue, and the requests.
type metered struct {
	driver.DB
	requests, read, wrote *atomic.Int64
}

func (db metered) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if spec.Name == catalogueFamily {
		f = meteredFamily{f, db}
	}
	return f, err
}

type meteredFamily struct {
	driver.Family
	db metered
}

func (f meteredFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	cells, err := f.Family.Get(ctx, row, s)
	f.db.requests.Add(1)
	f.db.read.Add(int64(sizeOf(cells)))
	return cells, err
}

func (f meteredFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	f.db.requests.Add(1)
	f.db.wrote.Add(int64(sizeOf(puts)))
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

func sizeOf(cells []driver.Cell) (n int) {
	for _, c := range cells {
		n += len(c.Qualifier) + len(c.Value)
	}
	return n
}

var tenantsFlag = flag.Int("store.tenants", 20_000, "how many tenants TestManyTenants makes")

// One of many tenants is opened with one read of at most 16 kB, and making one more writes less than that.
// It holds for 10^5, which take some 20 seconds to make.
func TestManyTenants(t *testing.T) {
	const most = 16 << 10
	tenants := *tenantsFlag
	if testing.Short() {
		tenants = min(tenants, 5_000)
	}
	ctx, memory := t.Context(), drivertest.NewMemory()
	st := stores(t, memory, 1)[0]
	_, err := st.Create(ctx, rollbackSchema("log", true, false))
	require.NoError(t, err)
	manyTenants(t, st, tenants)

	db := metered{memory, new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)}
	measure := func(what string, requests int64, do func(*Store) error) {
		t.Helper()
		st := stores(t, db, 1)[0]
		for _, n := range []*atomic.Int64{db.requests, db.read, db.wrote} {
			n.Store(0)
		}
		require.NoError(t, do(st), what)
		t.Logf("%s: %d requests, %d bytes read, %d written", what, db.requests.Load(), db.read.Load(), db.wrote.Load())
		require.Equal(t, requests, db.requests.Load(), what)
		require.LessOrEqual(t, db.read.Load(), int64(most), what)
		require.LessOrEqual(t, db.wrote.Load(), int64(most), what)
	}
	unbound, err := stores(t, db, 1)[0].Table(ctx, "log")
	require.NoError(t, err)
	measure("open one", 1, func(*Store) error { _, err := unbound.Tenant(ctx, "tenant 777"); return err })
	measure("look for one that is not there", 1, func(st *Store) error {
		_, err := unbound.Tenant(ctx, "nobody")
		require.ErrorIs(t, err, ErrNoTenant)
		return nil
	})
	measure("make one more", 2, func(st *Store) error { return st.CreateTenant(ctx, "one more") })
	measure("set a policy", 2, func(st *Store) error { return st.SetPolicy(ctx, "tenant 5", "log", Policy{Whole: true}) })
	measure("alter the table", 3, func(st *Store) error { return st.Alter(ctx, "log", AddColumn(PlainColumn("more", Int8))) })
	root, err := memory.Family(ctx, catalogueSpec)
	require.NoError(t, err)
	cells, err := root.Get(ctx, catalogueRow, onlyRoot)
	require.NoError(t, err)
	require.Less(t, len(cells[0].Value), 1<<10, "the root keeps its size")
}

// manyTenants makes tenants, many under one change of the catalogue.
func manyTenants(t *testing.T, st *Store, n int) {
	t.Helper()
	const most = 8_000 // of which one change has room for
	require.NoError(t, st.CreateTenant(t.Context(), "tenant 0"))
	for from := 1; from < n; from += most {
		only := [][]byte{st.db.Catalogue.TenantQualifier("tenant 0")}
		for i := from; i < min(n, from+most); i++ {
			only = append(only, st.db.Catalogue.TenantQualifier(fmt.Sprint("tenant ", i)))
		}
		require.NoError(t, st.db.Catalogue.ChangeEntries(t.Context(), only, func(e *edit) error {
			for i := from; i < min(n, from+most); i++ {
				next := *e.Tenant("tenant 0")
				next.Name = fmt.Sprint("tenant ", i)
				next.ID[0], next.ID[1], next.ID[2] = byte(i), byte(i>>8), byte(i>>16)
				next.Keys = []wrappedKey{st.db.Keys.FreshTenant(next.ID)}
				e.PutTenant(&next)
			}
			return nil
		}))
	}
}

// The change that gives a catalogue of 2,000 tenants its tree is one of a row, which every database makes.
func TestLargeCatalogueGetsItsTree(t *testing.T) {
	const tenants = 2000
	memory := drivertest.NewMemory()
	st := stores(t, memory, 1)[0]
	manyTenants(t, st, tenants)
	now, _ := catalogueCells(t, memory)
	old, _ := toFormatNoTree(t, st.db.Catalogue, now)
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		family, err := db.Family(ctx, catalogueSpec)
		require.NoError(t, err)
		done, err := family.CheckAndPut(ctx, catalogueRow, driver.Cell{Qualifier: rootQualifier}, old[0])
		require.NoError(t, err)
		require.True(t, done)
		for chunk := range slices.Chunk(old[1:], 100) {
			done, err := family.CheckAndPut(ctx, catalogueRow, old[0], chunk...)
			require.NoError(t, err)
			require.True(t, done)
		}
		st := stores(t, db, 1)[0]
		began := time.Now()
		require.NoError(t, st.CreateTenant(ctx, "one more"))
		t.Logf("%d tenants: the change took %v", tenants, time.Since(began))
		root, err := family.Get(ctx, catalogueRow, onlyRoot)
		require.NoError(t, err)
		require.EqualValues(t, catalogueFormat, root[0].Value[0])
		names, err := stores(t, db, 1)[0].Tenants(ctx)
		require.NoError(t, err)
		require.Len(t, names, tenants+1)
	})
}
