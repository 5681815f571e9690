package store

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
)

var rotated = Schema{
	Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, CellPerColumn: true,
	Columns: []Column{RandomisedColumn("a", Int64), OrderedColumn("b", Int64, MOPE)},
}

// archived returns what the catalogue has of earlier keys: cells, and those of them that have some.
func archived(t *testing.T, st *Store) (cells, full int) {
	t.Helper()
	c := st.db.Catalogue
	found, err := c.Family.Get(t.Context(), []byte("catalogue"), driver.Slice{Start: []byte{5}, End: []byte{6}})
	require.NoError(t, err)
	empty := len(c.Sealer.Seal(nil, keyring.NewHeader(), []byte("{}"), nil))
	for _, cell := range found {
		if len(cell.Value) > empty {
			full++
		}
	}
	return len(found), full
}

// Several clients rotate keys and write at once. Each row is read under whichever key it has, by clients that knew the table before
// and by one that opens it now. When nothing is under the earlier keys, they go.
func TestKeysAreArchived(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		const clients, rotations = 3, 25
		sts := stores(t, db, clients)
		_, err := sts[0].Create(ctx, rotated)
		require.NoError(t, err)
		var group sync.WaitGroup
		var mu sync.Mutex
		var failed error
		for i, st := range sts {
			group.Go(func() {
				tbl, err := st.Table(ctx, "t")
				for n := 0; n < rotations && err == nil; n++ {
					err = errors.Join(tbl.Put(ctx, Row{"id": int64(i*1000 + n), "a": int64(n), "b": int64(n)}), st.RotateKeys(ctx, "t"))
				}
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			})
		}
		group.Wait()
		require.NoError(t, failed)
		late := tableOfAnother(t, db, "t")
		known, err := sts[1].Table(ctx, "t")
		require.NoError(t, err)
		for _, tbl := range []*Table{late, known} {
			n, err := tbl.Count(ctx, Int64.Field("b").AtLeast(0))
			require.NoError(t, err)
			require.Equal(t, clients*rotations, n)
			for row, err := range tbl.Query(ctx, Query{}) {
				require.NoError(t, err)
				require.Equal(t, row["id"].(int64)%1000, row["a"])
			}
		}
		d, err := late.Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.RowKeys, 1+clients*rotations)
		cells, full := archived(t, sts[0])
		require.Greater(t, full, 3)
		require.Equal(t, cells, full)
		underKeys := func() (keys map[string]bool, cells int) {
			use, err := tableOfAnother(t, db, "t").KeyUse(ctx, nil)
			require.NoError(t, err)
			require.Zero(t, use.Unknown)
			keys = make(map[string]bool)
			for _, k := range use.Keys {
				if k.Cells > 0 {
					keys[k.ID] = true
				}
				cells += k.Cells
			}
			return keys, cells
		}
		used, _ := underKeys()
		require.Greater(t, len(used), clients*rotations)

		// A key that a row is under stays, wherever it is.
		require.NoError(t, late.Delete(ctx, Row{"id": int64(1)}))
		used, before := underKeys()
		n, err := administer.Prune(ctx, sts[0].db, "t", func(id string) bool { return !used[id] })
		require.NoError(t, err)
		require.Positive(t, n)
		_, after := underKeys()
		require.Equal(t, before, after)

		_, err = late.Convert(ctx, nil)
		require.NoError(t, err)
		_, err = administer.Prune(ctx, sts[0].db, "t", func(id string) bool { return true })
		require.NoError(t, err)
		_, full = archived(t, sts[0])
		require.Zero(t, full, "no key is left of which nothing is under")
		last := tableOfAnother(t, db, "t")
		d, err = last.Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.RowKeys, 1)
		n, err = last.Count(ctx, Int64.Field("b").AtLeast(0))
		require.NoError(t, err)
		require.Equal(t, clients*rotations-1, n)
	})
}

// Who loses earlier keys, or changes them, is told so, and what is under them is not taken for anything else.
func TestArchivesThatAreDamaged(t *testing.T) {
	ctx := t.Context()
	for name, damage := range map[string]func(*driver.Cell){
		"changed":     func(c *driver.Cell) { c.Value[len(c.Value)-1] ^= 1 },
		"of another":  func(c *driver.Cell) { c.Qualifier[len(c.Qualifier)-1] ^= 1 },
		"of no bytes": func(c *driver.Cell) { c.Value = []byte{0} },
	} {
		t.Run(name, func(t *testing.T) {
			db := drivertest.NewMemory()
			st := stores(t, db, 1)[0]
			_, err := st.Create(ctx, rotated)
			require.NoError(t, err)
			for range 50 {
				require.NoError(t, st.RotateKeys(ctx, "t"))
			}
			family, row := st.db.Catalogue.Family, []byte("catalogue")
			cells, err := family.Get(ctx, row, driver.Slice{Start: []byte{5}, End: []byte{6}})
			require.NoError(t, err)
			require.NotEmpty(t, cells)
			gone := bytes.Clone(cells[0].Qualifier)
			damage(&cells[0])
			require.NoError(t, family.Apply(ctx, driver.Mutation{Row: row, Puts: cells[:1]}))
			if !bytes.Equal(gone, cells[0].Qualifier) {
				require.NoError(t, family.Apply(ctx, driver.Mutation{Row: row, Deletes: [][]byte{gone}}))
			}
			_, err = stores(t, db, 1)[0].Table(ctx, "t")
			require.Error(t, err)
			require.True(t, errors.Is(err, ErrTampered) || errors.Is(err, ErrFormat), err)
		})
	}
}

// What a dropped table had of earlier keys goes with it; a table that gets another name keeps them.
func TestArchivesOfTablesThatGo(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(ctx, rotated)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "a": int64(2)}))
	for range 50 {
		require.NoError(t, st.RotateKeys(ctx, "t"))
	}
	require.NoError(t, st.RenameTable(ctx, "t", "u"))
	cells, full := archived(t, st)
	require.Positive(t, full)
	row, err := tableOfAnother(t, db, "u").Get(ctx, Row{"id": int64(1)})
	require.NoError(t, err)
	require.Equal(t, int64(2), row["a"])
	require.NoError(t, st.Drop(ctx, "u"))
	left, full := archived(t, st)
	require.Equal(t, cells, left)
	require.Zero(t, full)
}
